"""The daemon as a service of a real systemd: readiness, watchdog, restarts, and reboots of the machine."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from support.loopback import wait_until
from support.machine import deployment
from system.booted import Booted, booted

pytestmark = pytest.mark.takes(100)

UNIT = Path(__file__).parents[2] / "systemd/heat-config-agent.service"
ONCE = UNIT.with_name("heat-config-apply.service")
NAME = "heat-config-agent"

SETTINGS = """\
[agent]
collectors = local
min_polling_interval = 0.2
polling_interval = 1
splay = 0
"""

QUICK = "[Service]\nRestartSec=100ms\nWatchdogSec=3\n"


@pytest.fixture
def service() -> Iterator[Booted]:
    """A machine on which the service is started at every boot."""
    with booted() as machine:
        files = {
            f"etc/systemd/system/{NAME}.service": UNIT.read_text(),
            f"etc/systemd/system/{NAME}.service.d/quick.conf": QUICK,
            "etc/heat-config-agent/agent.conf": SETTINGS,
        }
        for name, text in files.items():
            path = machine.disk / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        assert machine.run("systemctl", "daemon-reload").code == 0
        assert machine.run("systemctl", "enable", NAME).code == 0
        yield machine


def start(machine: Booted) -> int:
    """Start the service, which returns once it is ready, and return its process."""
    done = machine.run("systemctl", "start", NAME)
    assert done.code == 0, (
        machine.run("journalctl", "--no-pager", "-u", NAME).out + done.err
    )
    return process(machine)


def process(machine: Booted) -> int:
    """Return the service's process; 0 where it has none."""
    return int(shown(machine, "MainPID"))


def shown(machine: Booted, what: str, unit: str = NAME) -> str:
    """Return what systemd says of the service, or of another unit."""
    return machine.run("systemctl", "show", unit, "--value", "-p", what).out.strip()


def deploy(machine: Booted, *deployments: dict[str, Any]) -> None:
    """Give it deployments."""
    folder = machine.disk / "var/lib/os-collect-config/local-data"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / ".new").write_text(json.dumps({"deployments": deployments}))
    (folder / ".new").rename(folder / "site.json")


def status(machine: Booted) -> dict[str, Any]:
    """Return what the agent says of itself."""
    return machine.run("heat-config-agent", "status", "--json").data


def progress(shown: dict[str, Any]) -> str:
    """Return how far a deployment has come, from the JSON of status."""
    ended = "ended" if shown["ended"] else shown["state"]
    return str(shown["result"] or ended)


def state_of(machine: Booted, identity: str) -> str:
    """Return how far a deployment has come: the way of its result or "ended" once it has ended, and else its state."""
    return next(
        (
            progress(each)
            for each in status(machine)["deployments"]
            if each["id"] == identity
        ),
        "",
    )


def eventually(machine: Booted, true: Callable[[], bool], seconds: float = 40) -> None:
    """Wait until something is so; where it does not become so, show what the service has said."""
    try:
        wait_until(true, seconds)
    except AssertionError:
        pytest.fail(machine.run("journalctl", "--no-pager", "-u", NAME).out)


def test_systemd_runs_it(service: Booted) -> None:
    """The service reports its state, can be reloaded, stopped and killed, and its runs continue."""
    first = start(service)
    long = "#!/bin/sh\necho begun >>/root/ran\nwhile ! test -e /root/go; do sleep 0.1; done\necho ended >>/root/ran\n"
    deploy(service, deployment("d1", "#!/bin/sh\nexit 0\n"), deployment("d2", long))
    eventually(service, lambda: state_of(service, "d2") == "running")
    assert state_of(service, "d1") == "ended"
    eventually(service, lambda: "running d2" in shown(service, "StatusText"))

    assert service.run("systemctl", "reload", NAME).code == 0
    assert process(service) == first
    assert service.run("systemctl", "restart", NAME).code == 0
    second = process(service)
    assert second not in (first, 0)
    service.run("kill", "-9", str(second))
    eventually(
        service,
        lambda: (
            process(service) not in (0, second)
            and shown(service, "ActiveState") == "active"
        ),
    )
    third = process(service)
    # it hangs: systemd misses its sign of life
    service.run("kill", "-STOP", str(third))
    eventually(service, lambda: process(service) not in (0, third))

    eventually(service, lambda: status(service)["agent"]["running"])
    assert state_of(service, "d2") == "running"
    (service.disk / "root/go").touch()
    eventually(service, lambda: state_of(service, "d2") == "ended")
    assert (service.disk / "root/ran").read_text() == "begun\nended\n"
    eventually(
        service, lambda: service.run("heat-config-agent", "status", "--check").code == 0
    )
    assert service.run("systemctl", "stop", NAME).code == 0
    assert (shown(service, "ActiveState"), shown(service, "Result")) == (
        "inactive",
        "success",
    )


def test_documents_are_applied_once_at_boot(service: Booted) -> None:
    """By the other unit, in the daemon's place; which documents, is the administrator's to say."""
    site = service.disk / "etc/site.yaml"
    site.write_text(json.dumps([deployment("d1", "#!/bin/sh\necho $$ >>/root/ran\n")]))
    (service.disk / "etc/systemd/system/heat-config-apply.service").write_text(
        ONCE.read_text()
    )
    (service.disk / "etc/systemd/system/heat-config-apply.service.d").mkdir()
    ours = "[Unit]\nConditionPathExists=\n[Service]\nExecStart=\nExecStart=heat-config-apply /etc/site.yaml\n"
    (
        service.disk / "etc/systemd/system/heat-config-apply.service.d/site.conf"
    ).write_text(ours)
    assert service.run("systemctl", "disable", NAME).code == 0
    assert service.run("systemctl", "enable", ONCE.name).code == 0
    for _ in range(2):
        service.crash()
        service.boot()
        eventually(service, lambda: shown(service, "Result", ONCE.name) == "success")
        eventually(
            service, lambda: shown(service, "ActiveState", ONCE.name) == "inactive"
        )
        assert shown(service, "ExecMainStatus", ONCE.name) == "0"
        assert len((service.disk / "root/ran").read_text().splitlines()) == 1


@pytest.mark.fault(
    1,
    "a real machine is rebooted because a deployment asks for it",
    "the same deployment goes on after it, and has one result",
)
def test_a_hook_asks_for_a_reboot(service: Booted) -> None:
    """The machine is rebooted, and the same deployment goes on after that."""
    text = '#!/bin/sh\necho "reboots: ${HEAT_REBOOTS:-none}" | tee -a /root/ran\ntest -n "$HEAT_REBOOTS" || exit 194\n'
    deploy(
        service,
        deployment("d1", text),
        deployment("d2", "#!/bin/sh\necho after >>/root/ran\n"),
    )
    start(service)
    service.await_reboot()
    eventually(service, lambda: state_of(service, "d2") == "ended")
    assert (
        service.disk / "root/ran"
    ).read_text() == "reboots: none\nreboots: 1\nafter\n"
    assert [each["state"] for each in status(service)["deployments"]] == ["ok", "ok"]
    assert service.run(NAME, "log", "d1").out == "reboots: 1\n"
    before = service.run(NAME, "log", "d1", "--run", "1")
    assert before.out == "reboots: none\n"
    assert "it asked for a reboot" in before.err


COLLECTOR = "[Service]\nExecStart=@/usr/bin/sleep os-collect-config 1000\n"


def test_commands_name_os_collect_config_while_it_works_in_the_place_of_the_agent(
    service: Booted,
) -> None:
    """No command advises to start the agent, which would stop os-collect-config in the middle of its work."""
    (service.disk / "etc/systemd/system/os-collect-config.service").write_text(
        COLLECTOR
    )
    assert service.run("systemctl", "daemon-reload").code == 0
    assert service.run("systemctl", "start", "os-collect-config").code == 0
    collector = f"os-collect-config (process {shown(service, 'MainPID', 'os-collect-config')}) works on this machine"
    for command in (
        ["status"],
        ["status", "--check"],
        ["poll"],
        ["show", "web"],
        ["doctor"],
    ):
        done = service.run(NAME, *command)
        words = done.out + done.err
        assert collector in words or command == ["doctor"], words
        assert "heat-config-agent migrate --plan" in words
        assert "systemctl start" not in words
    start(service)  # which stops os-collect-config
    assert "os-collect-config" not in service.run(NAME, "status").out


@pytest.mark.fault(
    1,
    "a real machine goes down in the middle of a run",
    "reported as interrupted after the boot, and not run again",
)
def test_the_machine_goes_down_unasked(service: Booted) -> None:
    """A run that was cut short is reported as interrupted right after the boot, before a source answers."""
    deploy(service, deployment("d1", "#!/bin/sh\ntouch /root/begun\nsleep 1000\n"))
    start(service)
    eventually(service, (service.disk / "root/begun").exists)
    (service.disk / "var/lib/os-collect-config/local-data/site.json").write_text("{")
    service.crash()
    service.boot()
    eventually(service, lambda: state_of(service, "d1") == "ended", 10)
    found = status(service)["deployments"][0]
    assert found["state"] == "failed"
    assert "the machine went down while it ran" in found["reason"]


def test_systemd_runs_it_as_another_user(service: Booted) -> None:
    """All that needs no root works, nothing becomes root, and `doctor` says what is out of reach."""
    unit = service.disk / f"etc/systemd/system/{NAME}@.service"
    unit.write_text(UNIT.with_name(unit.name).read_text())
    place, user = "/var/lib/heat-config-agent-games", "games"
    path = service.disk / f"etc/heat-config-agent/users/{user}.conf"
    path.parent.mkdir(parents=True)
    path.write_text(f"{SETTINGS}secrets_dir = {place}/secrets\n")
    path.parent.chmod(0o755)
    assert (
        service.run(
            "install", "-d", "-m", "700", "-o", user, place, f"{place}/secrets"
        ).code
        == 0
    )
    keep = f"umask 077; printf 'the secret' >{place}/secrets/it"
    assert service.run("runuser", "-u", user, "--", "sh", "-c", keep).code == 0
    (service.disk / "var/lib/os-collect-config").mkdir(parents=True, exist_ok=True)
    script = f"#!/bin/sh\nid -un >{place}/who\ngrep NoNewPrivs /proc/self/status >>{place}/who\nsleep 1\n"
    given = deployment(
        "d3", "#!/bin/sh\necho ${#it} $it\n", inputs={"it": {"secret": "file:it"}}
    )
    limited = deployment("d2", "#!/bin/sh\ntrue\n", options={"tasks_max": 9})
    deploy(service, deployment("d1", script), limited, given)
    assert service.run("systemctl", "daemon-reload").code == 0
    done = service.run("systemctl", "start", f"{NAME}@{user}")
    assert done.code == 0, service.run(
        "journalctl", "--no-pager", "-u", f"{NAME}@{user}"
    ).out
    words = (
        "--config",
        f"/etc/heat-config-agent/users/{user}.conf",
        "--state-dir",
        place,
    )

    def states() -> dict[str, str]:
        done = service.run(
            "runuser", "-u", user, "--", "heat-config-agent", "status", "--json", *words
        )
        return {each["id"]: progress(each) for each in done.data["deployments"]}

    eventually(service, lambda: states() == dict.fromkeys(("d1", "d2", "d3"), "ended"))
    assert service.run("cat", f"{place}/who").out.split() == [user, "NoNewPrivs:", "1"]
    shown = service.run(
        "runuser", "-u", user, "--", "heat-config-agent", "show", *words, "d2"
    ).out
    assert "tasks_max cannot be enforced: only root can make scopes" in shown
    assert (
        service.run("heat-config-agent", "log", "--state-dir", place, "d3").out
        == "10 **********\n"
    )
    told = service.run(
        "runuser", "-u", user, "--", "heat-config-agent", "doctor", "--all", *words
    )
    said = " ".join(told.out.split())
    assert (
        f"this is the user {user}, not root; out of reach are runs as other users"
        in said
    )
    assert (
        "systemd-unit fails: the user may not write to /etc/systemd/system (HEAT_SYSTEMD_UNIT_DIR)"
        in said
    )
    assert f"inputs may refer to secrets in {place}/secrets" in said
    service.run("systemctl", "stop", f"{NAME}@{user}")
    (service.disk / "etc/heat-config-agent/vault.json").write_text("{}")
    (service.disk / "etc/heat-config-agent/vault.json").chmod(0o600)
    path.write_text(SETTINGS)
    assert (
        service.run("install", "-d", "-m", "700", "/etc/heat-config-agent/secrets").code
        == 0
    )
    said = " ".join(
        service.run(
            "runuser", "-u", user, "--", "heat-config-agent", "doctor", *words
        ).out.split()
    )
    assert (
        f"the user {user} cannot read /etc/heat-config-agent/secrets: no input can refer to secrets in it"
        in said
    )
    assert f"the user {user} cannot read /etc/heat-config-agent/vault.json" in said
    assert f"it is not running (to do: systemctl start {NAME}@{user})" in said
    assert not (service.disk / "var/lib/heat-config-agent").exists()
