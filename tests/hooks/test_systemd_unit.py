from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from heat_config_hooks import protocol
from heat_config_hooks.errors import HookError
from heat_config_hooks.options import read
from heat_config_hooks.tools import systemd_unit
from support import pace
from support.driver import Driver
from support.loopback import wait_until
from support.machine import deployment
from support.tools import need
from system.booted import Booted, booted

pytestmark = pytest.mark.takes(60)

UNITS = "/etc/systemd/system"
NUMBERS = count(1)

INPUTS: dict[str, Any] = {
    "text": "plain",
    "quoted": 'it\'s "quoted", \\ and `this`, $HOME ${HOME} %n # ; ü 😀 ',
    "odd": "\x01\x1b[0m\x7f\x85\ufeff no character: \uffff",
    "lines": "one\ntwo\ttab\n\nthree\r\n",
    "number": 3,
    "float": 2.5,
    "yes": True,
    "no": False,
    "nothing": None,
    "list": [1, "two", None],
    "map": {"key": {"inner": [True]}},
    "LD_PRELOAD": "/nowhere.so",
    "not-a-variable": "x",
    "deploy_password": "credential",
}


def units(config: object, **fields: Any) -> dict[str, Any]:
    """Return a deployment of the tool, with an id of its own; it is the same deployment's, unless it has a name."""
    return deployment(
        f"d{next(NUMBERS)}", config, **{"group": "systemd-unit", "name": "it", **fields}
    )


# Where no systemd runs.


@pytest.fixture
def folder(driver: Driver, tmp_path: Path) -> Path:
    """A folder for units that no systemd reads."""
    need("systemd-analyze", "systemd")
    if Path("/run/systemd/system").is_dir():
        pytest.skip(
            "systemd runs here: run the tests where it does not, in a container for example"
        )
    path = tmp_path / "units"
    driver.environment["HEAT_SYSTEMD_UNIT_DIR"] = str(path)
    return path


WRONG = {
    "no map": ([1], {}, "config: expected a map from names of units"),
    "text of a unit without its name": (
        "[Service]\nExecStart=/bin/true\n",
        {},
        "set options.name to its name",
    ),
    "no YAML": ("a: [", {}, "the text is not valid YAML"),
    "no type": ({"web": "[Service]"}, {}, "config: 'web' is not the name of a unit"),
    "a type that is no file's": (
        {"a.scope": "[Scope]"},
        {},
        "'a.scope' is not the name of a unit",
    ),
    "a path": (
        {"../web.service": "[Service]"},
        {},
        "'../web.service' is not the name of a unit",
    ),
    "a path in a folder": (
        {"a/web.service": "[Service]"},
        {},
        "is not the name of a unit",
    ),
    "an absolute path": ({"/etc/passwd": "[Service]"}, {}, "is not the name of a unit"),
    "a path in a drop-in": (
        {"a.service.d/../../b.conf": "[Service]"},
        {},
        "is not the name of a unit",
    ),
    "a drop-in of another kind": (
        {"a.service.d/x.txt": "[Service]"},
        {},
        "is not the name of a unit",
    ),
    "a hidden one": ({".a.service": "[Service]"}, {}, "is not the name of a unit"),
    "a newline in the name": (
        {"a.service\n": "[Service]"},
        {},
        "is not the name of a unit",
    ),
    "a long name": (
        {"a" * 250 + ".service": "[Service]"},
        {},
        "is not the name of a unit",
    ),
    "a wrong option name": (
        "[Service]\nExecStart=/bin/true\n",
        {"name": "web"},
        "options.name: 'web' is not the name",
    ),
    "no text": (
        {"a.service": 3},
        {},
        'config["a.service"]: expected the text of a unit',
    ),
    "an empty text": (
        {"a.service": " \n"},
        {},
        'config["a.service"]: the text of a unit must not be empty',
    ),
    "a section that is a list": (
        {"a.service": {"Service": ["x"]}},
        {},
        'config["a.service"].Service: expected a map',
    ),
    "a section's name": (
        {"a.service": {"Service]\n[Unit": {}}},
        {},
        'config["a.service"]: ',
    ),
    "a setting's name": (
        {"a.service": {"Service": {"A=b\nExecStart": "x"}}},
        {},
        'config["a.service"].Service: ',
    ),
    "a map as a value": (
        {"a.service": {"Service": {"Environment": {"A": 1}}}},
        {},
        ".Service.Environment: expected",
    ),
    "lines in a value": (
        {"a.service": {"Service": {"ExecStart": "a\nUser=root"}}},
        {},
        ".Service.ExecStart: a value",
    ),
    "a value that goes on": (
        {"a.service": {"Service": {"ExecStart": "a \\"}}},
        {},
        ".Service.ExecStart: a value",
    ),
}


@pytest.mark.parametrize(("config", "options", "sentence"), WRONG.values(), ids=WRONG)
def test_wrong_config_is_reported(
    tmp_path: Path, config: object, options: dict[str, Any], sentence: str
) -> None:
    """The message has the path of the mistake, and systemd is not needed for that."""
    given = read({**options}, systemd_unit.ABOUT.options)
    request = protocol.request(units(config), key="d1", options=given)
    with pytest.raises(HookError) as error:
        systemd_unit.prepare(
            request,
            protocol.workplace(
                "systemd-unit", tmp_path, tmp_path, {"PATH": "/nowhere"}
            ),
        )
    assert sentence in str(error.value)


def test_a_wrong_deployment_is_a_failure(driver: Driver) -> None:
    """A mistake in the config or in the options fails the deployment with its path."""
    values = driver.run(units({"../web.service": SERVICE}))
    assert values["deploy_status_code"] == 125
    assert (
        "config: '../web.service' is not the name of a unit" in values["deploy_stderr"]
    )
    for options, sentence in (
        ({"strat": True}, "did you mean start?"),
        ({"settle": "soon"}, "a number of seconds"),
    ):
        values = driver.run(units({"web.service": SERVICE}, options=options))
        assert values["deploy_status_code"] == 125
        assert sentence in values["deploy_stderr"]


SERVICE = "[Service]\nExecStart=/bin/sleep 1000\n"

REFUSED = {
    "a program that is not there": (
        {"a.service": "[Service]\nExecStart=/not/there\n"},
        "/not/there is not executable",
    ),
    "no program": ({"a.service": {"Unit": {"Description": "x"}}}, "has no ExecStart="),
    "a header": (
        {"a.service": "[Service\nExecStart=/bin/true\n"},
        "Invalid section header",
    ),
    "another unit that is not there": (
        {"a.service": f"[Unit]\nRequires=not-there-at-all.service\n{SERVICE}"},
        "not-there-at-all.service not found",
    ),
    "the second of two": (
        {"a.service": SERVICE, "a.timer": "[Timer]\nOnCalendar=rubbish\n"},
        "calendar specification",
    ),
    "a drop-in": (
        {
            "a.service": SERVICE,
            "a.service.d/10-x.conf": "[Service]\nExecStart=\nExecStart=/not/there\n",
        },
        "/not/there is not executable",
    ),
    "a drop-in of nothing": (
        {"not-there-at-all.service.d/10-x.conf": SERVICE},
        "not-there-at-all.service not found",
    ),
    "a template": (
        {"a@.service": "[Service]\nExecStart=/not/%i\n"},
        "is not executable",
    ),
}


@pytest.mark.parametrize(("config", "text"), REFUSED.values(), ids=REFUSED)
def test_a_wrong_unit_changes_nothing(
    driver: Driver, folder: Path, config: object, text: str
) -> None:
    """The result has the messages of systemd itself, and nothing is changed."""
    values = driver.run(units(config))
    assert values["deploy_status_code"] == 1
    assert text in values["deploy_stderr"]
    assert "nothing was changed" in values["deploy_stderr"]
    assert not folder.exists()


def test_units_may_need_each_other(driver: Driver, folder: Path) -> None:
    """Units are verified together; without a running systemd, the deployment fails and nothing is changed."""
    both = {
        "a.service": f"[Unit]\nRequires=b.service\n{SERVICE}Nonsense=1\n",
        "b.service": SERVICE,
    }
    values = driver.run(units(json.dumps(both)))
    assert values["deploy_status_code"] == 126
    assert "systemd does not run on this machine" in values["deploy_stderr"]
    assert "Unknown key" in values["deploy_stderr"]  # a warning is said, and no failure
    assert not folder.exists()
    gone = driver.run(units({}, action="DELETE"))
    assert gone["deploy_status_code"] == 0
    assert "nothing to remove" in gone["deploy_stderr"]


def test_empty_config_succeeds(driver: Driver, folder: Path) -> None:
    """It is a success, and the result says that nothing was run."""
    for config, options in (
        (None, {}),
        ("", {}),
        ({}, {}),
        (" \n", {"name": "a.service"}),
    ):
        values = driver.run(units(config, options=options))
        assert values["deploy_status_code"] == 0
        assert "the config is empty" in values["deploy_stderr"]
    assert not folder.exists()


@pytest.mark.parametrize("there", ["nothing", "systemctl"])
def test_a_missing_systemd_is_a_failure(
    driver: Driver, tmp_path: Path, there: str
) -> None:
    """The deployment fails without the programs of systemd, and the message says so."""
    (tmp_path / "empty").mkdir()
    if there != "nothing":
        (tmp_path / "empty" / there).symlink_to(need(there, "systemd"))
    driver.environment["PATH"] = str(tmp_path / "empty")
    values = driver.run(units({"a.service": SERVICE}))
    assert values["deploy_status_code"] == 127
    missing = "systemctl" if there == "nothing" else "systemd-analyze"
    assert (
        f"{missing} is not installed; it is part of systemd" in values["deploy_stderr"]
    )


# On a machine that booted.


class Inside:
    """Carries out deployments on a booted machine, and reads its state."""

    def __init__(self, machine: Booted, by: str) -> None:
        self.machine = machine
        self._by = by
        self.working = "/var/lib/heat-config/heat-config-systemd-unit"

    def run(self, given: dict[str, Any]) -> dict[str, Any]:
        """Carry out a deployment, and return its result."""
        if self._by == "alone":
            done = self.machine.run(
                "heat-config-hook", "systemd-unit", stdin=json.dumps(given)
            )
            assert done.code == 0, done.err
            return done.json
        done = self.machine.run(
            "heat-config-apply", "--json", "-", stdin=json.dumps([given])
        )
        [found] = done.data["deployments"]
        result = found["values"]
        assert isinstance(result, dict), done.out
        assert done.code == (1 if result["deploy_status_code"] else 0), done.err
        return result

    def good(self, config: object, **fields: Any) -> dict[str, Any]:
        """Carry out a deployment that must succeed."""
        options = {"settle": 0.1, **fields.pop("options", {})}
        values = self.run(units(config, options=options, **fields))
        assert values["deploy_status_code"] == 0, values
        return values

    def show(self, unit: str, name: str) -> str:
        """Return a property of a unit."""
        return self.machine.run(
            "systemctl", "show", "--value", f"--property={name}", "--", unit
        ).out.strip()

    def state(self, unit: str) -> str:
        """Return whether a unit is active."""
        return self.show(unit, "ActiveState")

    def pid(self, unit: str) -> str:
        """Return the main process of a service that runs."""
        found = self.show(unit, "MainPID")
        assert found not in ("", "0")
        return found

    def file(self, path: str) -> Path:
        """Return a file of the machine as seen from here."""
        return self.machine.disk / path.lstrip("/")

    def text(self, unit: str) -> str:
        """Return the text of a unit file."""
        return self.file(f"{UNITS}/{unit}").read_text()

    def links(self, unit: str) -> list[str]:
        """Return the units that have another one started with them."""
        return sorted(
            each.name
            for each in self.file(UNITS).glob("*.wants")
            if (each / unit).is_symlink()
        )


@pytest.fixture(scope="module")
def booted_machine() -> Iterator[Booted]:
    """A booted machine, for all tests of this file."""
    with booted() as machine:
        yield machine


@pytest.fixture(params=["apply", "alone"])
def inside(request: pytest.FixtureRequest, booted_machine: Booted) -> Iterator[Inside]:
    """The machine, where first the agent carries out deployments, and then the hook alone; or one of them, as named."""
    found = Inside(booted_machine, request.param)
    yield found
    for name in ("it", "other"):
        found.good({}, name=name, action="DELETE")
    left = [
        each
        for each in found.file(UNITS).iterdir()
        if not each.is_symlink() and each.suffix in (".service", ".d")
    ]
    assert left == []
    assert found.machine.run("systemctl", "--failed", "--quiet", "--plain").out == ""


def web(seconds: int = 1000, **more: object) -> dict[str, Any]:
    """Return the sections of a service that sleeps."""
    return {
        "Unit": {"Description": "Sleeps, and that is 100%%"},
        "Service": {
            "ExecStart": f"/bin/sleep {seconds}",
            "Environment": ["A=1", "B=2"],
            **more,
        },
        "Install": {"WantedBy": "multi-user.target"},
    }


def test_service_follows_its_deployment(inside: Inside) -> None:
    """A service runs after CREATE and at every boot, restarts when it changes, and is gone after DELETE."""
    first = inside.good({"web.service": web()})
    assert inside.state("web.service") == "active"
    assert inside.show("web.service", "UnitFileState") == "enabled"
    assert inside.links("web.service") == ["multi-user.target.wants"]
    assert f"{UNITS}/web.service was written" in first["deploy_stdout"]
    assert "web.service is active (running)" in first["deploy_stdout"]
    assert inside.text("web.service") == (
        "[Unit]\nDescription=Sleeps, and that is 100%%\n"
        "[Service]\nExecStart=/bin/sleep 1000\nEnvironment=A=1\nEnvironment=B=2\n"
        "[Install]\nWantedBy=multi-user.target\n"
    )
    assert inside.file(f"{UNITS}/web.service").stat().st_mode & 0o777 == 0o644
    pid = inside.pid("web.service")

    again = inside.good({"web.service": web()})
    assert inside.pid("web.service") == pid
    assert "was written" not in again["deploy_stdout"]

    inside.good({"web.service": web(2000)}, action="UPDATE")
    changed = inside.pid("web.service")
    assert changed != pid
    assert inside.show("web.service", "NeedDaemonReload") == "no"
    assert "2000" in inside.show("web.service", "ExecStart")

    inside.good(
        {"web.service": web(2000), "more.service": inside.text("web.service")},
        action="UPDATE",
    )
    assert inside.pid("web.service") == changed
    assert inside.state("more.service") == "active"

    last = inside.good({"more.service": web(2000)}, action="UPDATE")
    assert inside.state("web.service") == "inactive"
    assert inside.show("web.service", "LoadState") == "not-found"
    assert inside.links("web.service") == []
    assert f"{UNITS}/web.service was removed" in last["deploy_stdout"]
    assert inside.state("more.service") == "active"

    # A DELETE needs nothing but to know whose it is; changes that others made in the meantime do not fail it.
    inside.file(f"{UNITS}/more.service").unlink()
    inside.good({"not": ["a config"]}, action="DELETE")
    assert inside.state("more.service") == "inactive"
    assert inside.show("more.service", "LoadState") == "not-found"
    assert inside.links("more.service") == []
    assert "nothing to remove" in inside.good({}, action="DELETE")["deploy_stderr"]


def test_two_deployments_have_units_of_their_own(inside: Inside) -> None:
    """An UPDATE or a DELETE of one deployment leaves the units of another alone."""
    inside.good({"web.service": web()}, name="it")
    pid = inside.pid("web.service")
    inside.good({"more.service": web()}, name="other")
    inside.good("", name="other", action="UPDATE")
    assert inside.show("more.service", "LoadState") == "not-found"
    assert inside.pid("web.service") == pid


@pytest.mark.parametrize("inside", ["alone"], indirect=True)
def test_every_form_of_a_config_is_read(inside: Inside) -> None:
    """Scalars in YAML stay as they are written; the text of a single unit needs its name."""
    inside.good(
        "web.socket:\n  Socket: {ListenStream: /run/web.sock, SocketMode: 0600, Accept: no}\n"
        "web.service: |\n  [Service]\n  ExecStart=/bin/sleep 1000\n"
    )
    assert (
        inside.text("web.socket")
        == "[Socket]\nListenStream=/run/web.sock\nSocketMode=0600\nAccept=no\n"
    )
    assert inside.text("web.service") == SERVICE
    sections = {
        "Unit": None,
        "Service": {
            "ExecStart": ["", "/bin/sleep 1000"],
            "RestartSec": 1.5,
            "PrivateTmp": True,
        },
    }
    inside.good(
        {"web.service": {**sections, "X-Ours": {"Empty": None, "None": []}}},
        action="UPDATE",
    )
    assert inside.show("web.socket", "LoadState") == "not-found"
    assert inside.text("web.service") == (
        "[Unit]\n[Service]\nExecStart=\nExecStart=/bin/sleep 1000\nRestartSec=1.5\nPrivateTmp=true\n[X-Ours]\nEmpty=\n"
    )
    inside.good(
        "\ufeff[Service]\r\nExecStart=/bin/sleep 1000",
        options={"name": "web.service"},
        action="UPDATE",
    )
    assert inside.text("web.service") == SERVICE


@pytest.mark.parametrize("inside", ["apply"], indirect=True)
def test_inputs_are_the_environment_of_services(inside: Inside) -> None:
    """A service has the inputs as variables, with any characters, from a file that only root can read."""
    show = {
        "Service": {
            "Type": "oneshot",
            "RemainAfterExit": True,
            "ExecStart": "/bin/sh -c 'env -0 >/root/seen'",
        }
    }
    config = {"show.service": show, "web.service": web()}
    inside.good(config, inputs=INPUTS)
    seen = dict(
        each.split("=", 1)
        for each in inside.file("/root/seen").read_bytes().decode().split("\0")
        if each
    )
    expected = {
        **{name: value for name, value in INPUTS.items() if isinstance(value, str)},
        "odd": INPUTS["odd"].replace("\uffff", "\ufffd"),
        "number": "3",
        "float": "2.5",
        "yes": "true",
        "no": "false",
        "nothing": "",
        "list": '[1,"two",null]',
        "map": '{"key":{"inner":[true]}}',
    }
    kept = {name for name in seen if name in INPUTS or name.startswith("deploy_")}
    assert {name: seen[name] for name in kept} == {
        name: value
        for name, value in expected.items()
        if name not in ("LD_PRELOAD", "not-a-variable", "deploy_password")
    }
    [path] = inside.file(inside.working).glob("*.env")
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700
    assert "plain" not in inside.text("web.service")

    pid = inside.pid("web.service")
    inside.good(config, inputs=INPUTS, action="UPDATE")
    assert inside.pid("web.service") == pid
    inside.good(config, inputs={**INPUTS, "text": "another"}, action="UPDATE")
    assert inside.pid("web.service") != pid
    assert b"text=another\0" in inside.file("/root/seen").read_bytes()

    inside.good(
        config, inputs=INPUTS, options={"deploy_credentials": True}, action="UPDATE"
    )
    assert b"deploy_password=credential\0" in inside.file("/root/seen").read_bytes()
    inside.good(config, action="UPDATE")
    assert b"text=" not in inside.file("/root/seen").read_bytes()
    assert not path.exists()
    assert "EnvironmentFile" not in inside.text("web.service")


def test_enabled_unit_runs_after_a_crash_of_the_machine(inside: Inside) -> None:
    """An enabled unit runs after a crash of the machine, with its inputs."""
    config = {
        "web.service": web(),
        "quiet.service": {"Service": {"ExecStart": "/bin/sleep 1000"}},
    }
    inside.good(config, inputs={"text": "kept"})
    inside.machine.crash()
    inside.machine.boot()
    environment = inside.machine.run(
        "cat", f"/proc/{inside.pid('web.service')}/environ"
    ).out
    assert "text=kept" in environment.split("\0")
    assert inside.state("quiet.service") == "inactive"
    inside.good(config, inputs={"text": "kept"})
    assert inside.state("quiet.service") == "active"


def test_changed_file_survives_delete(inside: Inside) -> None:
    """DELETE stops and disables the unit, and leaves the changed file."""
    inside.good({"web.service": web()})
    path = inside.file(f"{UNITS}/web.service")
    path.write_text(path.read_text() + "# mine\n")
    values = inside.good({}, action="DELETE")
    assert (
        f"{UNITS}/web.service is left alone: it was changed" in values["deploy_stdout"]
    )
    assert path.read_text().endswith("# mine\n")
    assert inside.state("web.service") == "inactive"
    assert inside.links("web.service") == []
    assert "nothing to remove" in inside.good({}, action="DELETE")["deploy_stderr"]
    path.unlink()
    inside.machine.run("systemctl", "daemon-reload")


FAILING = {
    "soon": ("simple", "echo words of mine; sleep 0.3; exit 3", "no", "failed"),
    "again and again": (
        "simple",
        "echo words of mine; sleep 0.2; exit 3",
        "always",
        "does not stay up|failed",
    ),
    "at once": ("simple", "echo words of mine; exit 3", "no", "failed"),
    "before it is up": ("oneshot", "echo words of mine; exit 3", "no", "failed"),
}


@pytest.mark.parametrize(
    ("kind", "script", "restart", "word"), FAILING.values(), ids=FAILING
)
@pytest.mark.parametrize("inside", ["alone"], indirect=True)
def test_a_service_that_fails(
    inside: Inside, kind: str, script: str, restart: str, word: str
) -> None:
    """A service that fails or does not stay up fails the deployment with its log; a corrected one runs."""
    service = {"Type": kind, "ExecStart": f"/bin/sh -c '{script}'", "Restart": restart}
    values = inside.run(
        units({"web.service": web(), "bad.service": {"Service": service}})
    )
    assert values["deploy_status_code"] == 1
    assert re.search(f"bad.service ({word})", values["deploy_stderr"])
    assert "words of mine" in values["deploy_stderr"]
    assert "status=3" in values["deploy_stderr"]
    assert inside.state("web.service") == "active"
    inside.good({"web.service": web(), "bad.service": web()}, action="UPDATE")
    assert inside.state("bad.service") == "active"


def test_earlier_failures_of_a_service_do_not_count(inside: Inside) -> None:
    """Earlier restarts and failures of a service do not count."""
    config = {"web.service": web(Restart="always"), "bad.service": web()}
    inside.good(config)
    first = inside.pid("web.service")
    for unit in config:
        inside.machine.run("systemctl", "kill", "--signal=KILL", unit)
    deadline = time.monotonic() + pace.seconds(20)
    while (
        inside.show("web.service", "MainPID") in ("0", first)
        or inside.state("bad.service") != "failed"
    ):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert inside.show("web.service", "NRestarts") == "1"
    pid = inside.pid("web.service")
    inside.good(config, action="UPDATE")
    assert inside.pid("web.service") == pid
    assert inside.state("bad.service") == "active"


def test_service_of_a_timer_is_not_started(inside: Inside) -> None:
    """Only the timer is started, because its service would run at once otherwise."""
    config = {
        "job.timer": "[Timer]\nOnCalendar=yearly\n[Install]\nWantedBy=timers.target\n",
        "job.service": "[Service]\nType=oneshot\nExecStart=/bin/touch /run/job-ran\n",
    }
    inside.good(config)
    assert inside.state("job.timer") == "active"
    assert inside.links("job.timer") == ["timers.target.wants"]
    assert inside.state("job.service") == "inactive"
    assert inside.machine.run("test", "-e", "/run/job-ran").code == 1
    inside.machine.run("systemctl", "start", "job.service")
    assert inside.machine.run("test", "-e", "/run/job-ran").code == 0
    inside.machine.run("rm", "/run/job-ran")
    config["job.service"] += "Nice=1\n"
    config["job.timer"] = config["job.timer"].replace("yearly", "monthly")
    inside.good(config, action="UPDATE")
    assert "-01 00:00:00" in inside.show("job.timer", "TimersCalendar")
    assert (
        "-01-01"
        not in inside.show("job.timer", "TimersCalendar").split("next_elapse")[0]
    )
    assert inside.machine.run("test", "-e", "/run/job-ran").code == 1
    # With an [Install] section of its own it is to run by itself, too.
    config["job.service"] += "[Install]\nWantedBy=multi-user.target\n"
    inside.good(config, action="UPDATE")
    assert inside.machine.run("test", "-e", "/run/job-ran").code == 0
    inside.machine.run("rm", "/run/job-ran")


def test_timer_without_its_service_fails(inside: Inside) -> None:
    """A timer without its service fails, and the result has the reason from the journal."""
    values = inside.run(units({"job.timer": "[Timer]\nOnCalendar=yearly\n"}))
    assert values["deploy_status_code"] == 1
    assert "job.service to trigger not loaded" in values["deploy_stderr"]


@pytest.mark.parametrize("inside", ["apply"], indirect=True)
def test_changed_socket_is_restarted(inside: Inside) -> None:
    """A changed socket is restarted although its service holds it; the next connection starts the service again."""
    config = {
        "echo.socket": "[Socket]\nListenStream=/run/echo.sock\n",
        "echo.service": "[Service]\nStandardInput=socket\nExecStart=/usr/bin/sleep 1000\n",
    }
    connect = "import socket; socket.socket(socket.AF_UNIX).connect('/run/{}.sock')"
    inside.good(config)
    assert inside.state("echo.service") == "inactive"
    inside.machine.run("python3", "-c", connect.format("echo"))
    wait_until(lambda: inside.state("echo.service") == "active", 20)
    pid = inside.pid("echo.service")
    inside.good(config)
    assert inside.pid("echo.service") == pid
    config["echo.service"] += "Nice=1\n"
    inside.good(config, action="UPDATE")
    changed = inside.pid("echo.service")
    assert changed != pid
    config["echo.socket"] = "[Socket]\nListenStream=/run/other.sock\n"
    inside.good(config, action="UPDATE")
    assert inside.state("echo.socket") == "active"
    inside.machine.run("python3", "-c", connect.format("other"))
    wait_until(lambda: inside.state("echo.service") == "active", 20)
    assert inside.pid("echo.service") != changed


@pytest.mark.parametrize("inside", ["alone"], indirect=True)
def test_instances_of_a_template_are_restarted_not_started(inside: Inside) -> None:
    """A template is written; its instances are not started, but restarted with changes and stopped on DELETE."""
    config = {
        "job@.service": SERVICE + "[Install]\nWantedBy=multi-user.target\n",
        "job@one.service": SERVICE,
    }
    inside.good(config)
    assert inside.state("job@one.service") == "active"
    assert inside.state("job@two.service") == "inactive"
    assert (
        inside.machine.run("systemctl", "enable", "--now", "job@two.service").code == 0
    )
    pids = inside.pid("job@one.service"), inside.pid("job@two.service")
    config["job@.service"] = config["job@.service"].replace("1000", "2000")
    inside.good(config, action="UPDATE")
    assert inside.pid("job@one.service") == pids[0]
    assert inside.pid("job@two.service") != pids[1]
    inside.good({"job@one.service": SERVICE}, action="UPDATE")
    assert inside.pid("job@one.service") == pids[0]
    inside.good({}, action="DELETE")
    assert inside.state("job@two.service") == "inactive"
    assert inside.links("job@two.service") == []
    assert not list(inside.file(UNITS).glob("job@*"))


def test_drop_in_restarts_a_running_unit(inside: Inside) -> None:
    """A drop-in may be for a unit of the machine, which is not started, but restarted if it runs."""
    theirs = inside.file("/usr/lib/systemd/system/theirs.service")
    theirs.write_text(SERVICE)
    drop_in = "[Service]\nNice=3\n"
    inside.good({"theirs.service.d/10-nice.conf": drop_in})
    assert inside.state("theirs.service") == "inactive"
    inside.machine.run("systemctl", "start", "theirs.service")
    assert inside.show("theirs.service", "Nice") == "3"
    assert inside.file(f"{UNITS}/theirs.service.d").stat().st_mode & 0o777 == 0o755
    pid = inside.pid("theirs.service")
    inside.good(
        {"theirs.service.d/10-nice.conf": drop_in, "web.service": web()},
        action="UPDATE",
    )
    assert inside.pid("theirs.service") == pid
    own = inside.pid("web.service")
    inside.good(
        {"web.service": web(), "web.service.d/20-nice.conf": {"Service": {"Nice": 4}}},
        action="UPDATE",
    )
    assert inside.pid("web.service") != own
    assert inside.show("web.service", "Nice") == "4"
    assert inside.pid("theirs.service") != pid
    # that of systemd, which is that of the tests
    assert inside.show("theirs.service", "Nice") == str(os.nice(0))
    assert not inside.file(f"{UNITS}/theirs.service.d").exists()
    inside.machine.run("systemctl", "stop", "theirs.service")
    theirs.unlink()


@pytest.mark.parametrize("inside", ["alone"], indirect=True)
def test_enable_and_start_are_choices(inside: Inside) -> None:
    """Units may be written only; a later deployment with `start` restarts those that have changed."""
    inside.good({"web.service": web()}, options={"enable": False, "start": "false"})
    assert inside.state("web.service") == "inactive"
    assert inside.links("web.service") == []
    inside.good({"web.service": web()}, action="UPDATE")
    assert inside.links("web.service") == ["multi-user.target.wants"]
    pid = inside.pid("web.service")
    changed = web(2000)
    changed["Install"]["WantedBy"] = "default.target"
    inside.good({"web.service": changed}, options={"start": False}, action="UPDATE")
    assert inside.pid("web.service") == pid
    assert inside.links("web.service") == ["default.target.wants"]
    del changed["Install"]
    inside.good({"web.service": changed}, options={"start": False}, action="UPDATE")
    assert inside.links("web.service") == []
    inside.good({"web.service": changed}, action="UPDATE")
    assert inside.pid("web.service") != pid


def test_restarts_that_a_timeout_cut_short_are_repeated(inside: Inside) -> None:
    """A timeout ends the starting units; the next deployment restarts the units that were pending."""
    inside.good({"web.service": web()})
    pid = inside.pid("web.service")
    hang = {"Service": {"Type": "oneshot", "ExecStart": "/bin/sleep 3000"}}
    after = {**web(2000), "Unit": {"After": "hang.service", "Requires": "hang.service"}}
    began = time.monotonic()
    values = inside.run(
        units(
            {"hang.service": hang, "web.service": after},
            action="UPDATE",
            options={"timeout": 3},
        )
    )
    assert values["deploy_status_code"] == 124
    assert time.monotonic() - began < pace.seconds(30)
    deadline = time.monotonic() + pace.seconds(20)
    while inside.machine.run("pgrep", "-f", "sleep 3000").code == 0:
        assert time.monotonic() < deadline
        time.sleep(0.1)
    hang["Service"]["ExecStart"] = "/bin/true"
    inside.good({"hang.service": hang, "web.service": after}, action="UPDATE")
    assert inside.pid("web.service") != pid
    assert "2000" in inside.show("web.service", "ExecStart")


def test_unmet_condition_is_reported(inside: Inside) -> None:
    """A unit that systemd skips because of a condition does not fail the deployment."""
    config = {"web.service": {**web(), "Unit": {"ConditionPathExists": "/not/there"}}}
    assert "a condition of it is not met" in inside.good(config)["deploy_stdout"]
