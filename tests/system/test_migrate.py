"""From os-collect-config, os-refresh-config and heat-agents, as they were released, to the agent: on a real systemd."""

from __future__ import annotations

import json
import re
import shutil
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from bench import peers
from bench.scenario import LackingError
from docs.console import Command, sections
from support.loopback import SignalServer, wait_until
from support.machine import Done, deployment
from system.booted import Booted, booted

pytestmark = pytest.mark.takes(100)

UNIT = Path(__file__).parents[2] / "systemd/heat-config-agent.service"
OURS, THEIRS = "heat-config-agent", "os-collect-config"
HOME = "/opt/stack/venvs/os-collect-config"
DEPLOYED = "var/lib/heat-config/deployed"

# As the image elements and guides that put it onto instances have it, and a collector that works in this locale.
THEIR_UNIT = f"""\
[Unit]
Description=Collect metadata and run hook commands.

[Service]
Environment=LC_ALL=C "PATH={HOME}/bin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
Environment=HEAT_SCRIPT_WORKING=/var/lib/heat-config/working OS_PASSWORD=none-of-ours
ExecStart={HOME}/bin/os-collect-config --config-file /etc/os-collect-config.conf
Restart=on-failure

[Install]
WantedBy=multi-user.target
"""

THEIR_SETTINGS = """\
[DEFAULT]
command = os-refresh-config
collectors = local
polling_interval = 1
min_polling_interval = 1
"""

OUR_SETTINGS = "[agent]\nmin_polling_interval = 0.2\nsplay = 0\n"


@pytest.fixture
def image() -> Iterator[Booted]:
    """A machine with the programs that are replaced, at work; our agent is installed and does nothing."""
    try:
        peers.ready()
    except LackingError as lack:
        pytest.skip(str(lack))
    with booted() as machine:
        install(machine.disk)
        assert machine.run("systemctl", "daemon-reload").code == 0
        assert machine.run("systemctl", "enable", "--now", THEIRS).code == 0
        yield machine


def install(disk: Path) -> None:
    """Put them onto a disk as an image has them."""
    [packages] = peers.FOLDER.glob("lib/python*/site-packages")
    home, element = disk / HOME.lstrip("/"), peers.AGENTS / "heat-config"
    left = shutil.ignore_patterns(
        "__pycache__", "tests", "locale", "pip", "openstack", "babel", "*.exe"
    )
    shutil.copytree(packages, home / packages.relative_to(peers.FOLDER), ignore=left)
    (home / "bin").mkdir()
    (home / "bin/python3").symlink_to("/usr/bin/python3")
    (home / "pyvenv.cfg").write_text(
        "home = /usr/bin\ninclude-system-site-packages = false\n"
    )
    for name in (
        "os-collect-config",
        "os-refresh-config",
        "os-apply-config",
        "dib-run-parts",
    ):
        text = (peers.BIN / name).read_text()
        put(
            home / "bin" / name,
            re.sub(r"^#!\S*/python\S*", f"#!{HOME}/bin/python3", text),
            0o755,
        )
    put(
        home / "bin/heat-config-notify",
        (element / "bin/heat-config-notify").read_text(),
        0o755,
    )
    for name in ("20-os-apply-config", "55-heat-config"):
        script = element / "os-refresh-config/configure.d" / name
        put(
            disk / "usr/libexec/os-refresh-config/configure.d" / name,
            script.read_text(),
            0o755,
        )
    hook = peers.AGENTS / "heat-config-script/install.d/hook-script.py"
    put(disk / "var/lib/heat-config/hooks/script", hook.read_text(), 0o755)
    shutil.copytree(
        element / "os-apply-config", disk / "usr/libexec/os-apply-config/templates"
    )
    put(disk / f"etc/systemd/system/{THEIRS}.service", THEIR_UNIT)
    put(disk / "etc/os-collect-config.conf", THEIR_SETTINGS, 0o600)
    put(disk / f"etc/systemd/system/{OURS}.service", UNIT.read_text())
    put(disk / "etc/heat-config-agent/agent.conf", OUR_SETTINGS)
    (disk / "var/lib/os-collect-config/local-data").mkdir(parents=True)


def put(path: Path, text: str, mode: int = 0o644) -> None:
    """Write a file of a disk."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(mode)


def deploy(machine: Booted, *deployments: dict[str, Any]) -> None:
    """Give whoever collects them deployments, and the settings with which os-collect-config began."""
    settings = {"collectors": ["local"], "polling_interval": 1}
    folder = machine.disk / "var/lib/os-collect-config/local-data"
    put(
        folder / ".new",
        json.dumps({"os-collect-config": settings, "deployments": deployments}),
        0o600,
    )
    (folder / ".new").rename(folder / "site.json")


def script(name: str, heat: SignalServer, more: str = "") -> dict[str, Any]:
    """Return a deployment that says on the disk that it ran."""
    return deployment(
        name, f"#!/bin/sh\necho {name} >>/root/ran\n{more}", signal=heat.url(name)
    )


def migrate(machine: Booted, *options: str) -> Done:
    """Run the command to its end."""
    return machine.run("heat-config-agent", "migrate", *options, seconds=120)


def ran(machine: Booted) -> list[str]:
    """Return what ran, in its order."""
    path = machine.disk / "root/ran"
    return path.read_text().split() if path.exists() else []


def units(machine: Booted) -> dict[str, tuple[str, str]]:
    """Return how it is with both units."""
    states = {}
    for name in (OURS, THEIRS):
        answers = [
            machine.run("systemctl", question, name).out.strip()
            for question in ("is-active", "is-enabled")
        ]
        states[name] = (answers[0], answers[1])
    return states


def eventually(machine: Booted, true: Callable[[], bool], seconds: float = 90) -> None:
    """Wait until something is so; where it does not become so, show what both have said."""
    try:
        wait_until(true, seconds)
    except AssertionError:
        pytest.fail(
            machine.run("journalctl", "--no-pager", "-u", OURS, "-u", THEIRS).out
        )


BEFORE = {OURS: ("inactive", "disabled"), THEIRS: ("active", "enabled")}
AFTER = {OURS: ("active", "enabled"), THEIRS: ("inactive", "disabled")}


def test_agent_takes_the_place_of_heat_agents(
    image: Booted, heat: SignalServer
) -> None:
    """Finished work is not repeated, running work is awaited, new work is run, and each is signalled once."""
    daemon = "sleep 1234 </dev/null >/dev/null 2>&1 &\n"
    first, long = (
        script("d1", heat, daemon),
        script("d2", heat, "while ! test -e /root/go; do sleep 0.1; done\n"),
    )
    deploy(image, first)
    eventually(image, lambda: len(heat.values("d1")) == 1)
    deploy(image, first, long)
    eventually(image, lambda: "d2" in ran(image))

    # While they are at work: nothing is done, and that is said.
    planned = migrate(image, "--plan")
    assert planned.code == 0, planned.out + planned.err
    assert "os-refresh-config (process " in planned.out
    refused = migrate(image, "--wait-for", "0")
    assert refused.code == 7
    assert "is at work" in refused.err
    assert units(image) == BEFORE

    # What they have begun is waited for.
    ended: list[Done] = []
    thread = threading.Thread(
        target=lambda: ended.append(migrate(image, "--wait-for", "100"))
    )
    thread.start()
    (image.disk / "root/go").touch()
    thread.join()
    [done] = ended
    assert done.code == 0, done.out + done.err
    assert units(image) == AFTER
    assert (
        image.disk / "var/lib/heat-config-agent/replaced"
    ).read_text() == f"{THEIRS}.service\n"
    assert len(heat.values("d2")) == 1
    assert image.run("pgrep", "-f", "sleep 1234").code == 0, (
        "what a deployment has started goes on"
    )
    taken = image.disk / f"etc/systemd/system/{OURS}.service.d/50-migrated.conf"
    assert taken.stat().st_mode & 0o777 == 0o600
    assert "OS_PASSWORD" not in taken.read_text()

    # What is new is the agent's, and nothing else.
    waits = "while ! test -e /root/go3; do sleep 0.1; done\n"
    deploy(
        image,
        first,
        long,
        script("d3", heat, f"{waits}echo $HEAT_SCRIPT_WORKING ${{OS_PASSWORD:-}}\n"),
    )
    eventually(image, lambda: "d3" in ran(image))
    assert "recorded no result" not in migrate(image, "--plan").out, (
        "it is the agent's, and gets one"
    )
    (image.disk / "root/go3").touch()
    eventually(image, lambda: len(heat.values("d3")) == 1)
    assert ran(image) == ["d1", "d2", "d3"]
    assert [len(heat.values(name)) for name in ("d1", "d2", "d3")] == [1, 1, 1]
    assert heat.values("d3")[0]["deploy_stdout"] == "/var/lib/heat-config/working\n"

    # Once more, and nothing is left to do.
    done_again = migrate(image, "--json")
    again = done_again.data
    assert (done_again.code, again["refused"], again["planned"]) == (0, False, False)
    changes = {each["change"] for each in again["changes"]}
    assert changes == {"unchanged"}, again["changes"]
    assert units(image) == AFTER
    # Heat has answered
    eventually(
        image, lambda: image.run("heat-config-agent", "status", "--check").code == 0
    )

    # And back.
    for command in (
        f"systemctl disable --now {OURS}.service",
        f"systemctl enable --now {THEIRS}.service",
    ):
        assert command in done.out
        assert image.run("sh", "-c", command).code == 0
    assert units(image) == BEFORE
    deploy(image, first, long, script("d4", heat))
    eventually(image, lambda: len(heat.values("d4")) == 1)
    assert ran(image) == ["d1", "d2", "d3", "d4"]


def test_foreign_scripts_refuse_the_migration(image: Booted) -> None:
    """Scripts that would no longer run, or would go on running, are named, and nothing is changed."""
    put(
        image.disk / "usr/libexec/os-refresh-config/configure.d/99-mine",
        "#!/bin/sh\n",
        0o755,
    )
    put(image.disk / "usr/libexec/os-refresh-config/configure.d/README", "no script\n")
    put(
        image.disk / "usr/libexec/os-apply-config/templates/etc/mine.conf", "{{mine}}\n"
    )
    put(image.disk / "etc/cron.d/mine", "# os-collect-config\n")

    refused = migrate(image, "--json")
    shown = migrate(image, "--plan")

    assert (refused.code, shown.code) == (1, 1)
    said = [
        each["message"] for each in refused.data["checks"] if each["state"] == "refused"
    ]
    assert len(said) == 2, said
    assert (
        "/usr/libexec/os-refresh-config/configure.d/99-mine is a script of your own"
        in said[0]
    )
    assert "/etc/mine.conf will no longer be generated from it" in said[1]
    assert "--without-scripts" in shown.out
    assert shown.err == "error: 2 obstacles: nothing was done\n"
    assert units(image) == BEFORE
    assert migrate(image, "--plan", "--without-scripts").code == 0

    # One that nobody stops would do the same work.
    put(image.disk / "etc/cron.d/mine", "@hourly root os-refresh-config\n")
    image.run(
        "sh",
        "-c",
        f"PATH={HOME}/bin:$PATH LC_ALL=C setsid os-collect-config >/dev/null 2>&1 &",
    )
    refused = migrate(image, "--without-scripts")
    assert refused.code == 1
    assert (
        "/etc/cron.d/mine starts os-collect-config or os-refresh-config" in refused.out
    )
    assert (
        "is an os-collect-config that was not started by a systemd unit" in refused.out
    )
    assert units(image) == BEFORE


KILLED = """if True:
    import os, signal, sys
    from heat_config_agent.migration import steps, survey, planning
    found = survey.look()
    steps = steps.carry_out(found, planning.plan(found), patience=60, waits=print)
    for step in steps:
        if step.deed.value == sys.argv[1]:
            os.kill(os.getpid(), signal.SIGKILL)
"""


def test_interrupted_migration_is_completed(image: Booted, heat: SignalServer) -> None:
    """After each step one of the two is enabled, and never do both run; the next run ends it. Nothing is run twice."""
    deploy(image, script("d1", heat))
    eventually(image, lambda: len(heat.values("d1")) == 1)
    planned = migrate(image, "--plan", "--json").data["changes"]
    deeds = [each["change"] for each in planned]
    assert deeds == ["wait", "variables", "enable", "disable", "stop", "start"]

    for each in deeds:
        killed = image.run("python3", "-c", KILLED, each, seconds=120)
        assert killed.code == -9, killed
        states = units(image)
        assert "enabled" in (states[OURS][1], states[THEIRS][1]), (each, states)
        assert (states[OURS][0], states[THEIRS][0]) != ("active", "active"), (
            each,
            states,
        )
        if each == "enable":  # both are now: a power cut in this moment
            image.crash()
            image.boot()
            assert sorted(state for state, _ in units(image).values()) == [
                "active",
                "inactive",
            ]
            image.run("systemctl", "start", THEIRS)
            assert units(image) == {
                OURS: ("inactive", "enabled"),
                THEIRS: ("active", "enabled"),
            }

    assert migrate(image).code == 0
    assert units(image) == AFTER
    deploy(image, script("d1", heat), script("d2", heat))
    eventually(image, lambda: len(heat.values("d2")) == 1)
    assert ran(image) == ["d1", "d2"]
    assert len(heat.values("d1")) == 1


def test_commands_of_the_page_migrate_and_lead_back(
    image: Booted, heat: SignalServer
) -> None:
    """In their order, on a machine that has all: each does what it says there, and they lead back."""
    items = [item for section in sections("docs/migrate.md") for item in section.items]
    commands = [item for item in items if isinstance(item, Command)]
    # What was done is where a variable of their unit says.
    elsewhere = "[Service]\nEnvironment=HEAT_CONFIG_DEPLOYED=/var/lib/mine\n"
    put(image.disk / f"etc/systemd/system/{THEIRS}.service.d/a.conf", elsewhere)
    image.run("systemctl", "daemon-reload")
    image.run("systemctl", "restart", THEIRS)
    # They have no hook for one, and say nothing; the agent has.
    passed_over = deployment(
        "d0",
        "open('/root/ran', 'a').write('d0')",
        group="python",
        signal=heat.url("d0"),
    )
    deploy(image, passed_over, script("d1", heat))
    eventually(image, lambda: len(heat.values("d1")) == 1)
    assert "were given d0, but have not begun" in migrate(image, "--plan").out
    (image.disk / "var/lib/mine/d0.json").touch()

    assert len(commands) == 7
    for each in commands:
        done = image.run(*each.line.split(), seconds=120)
        assert done.code == 0, f"{each.line}: {done.out}{done.err}"
        assert each.shows(done.out), f"{each.where}: {done.out}"
        assert "d0, but have not begun" not in done.out
        assert (units(image) == BEFORE) == (each in (commands[0], commands[-1])), (
            each.line
        )
        if each.line == "heat-config-agent migrate":
            eventually(
                image,
                lambda: (
                    "local has 2 deployments" in image.run("journalctl", "-u", OURS).out
                ),
            )
    assert ran(image) == ["d1"]


def test_a_command_of_ones_own_is_waited_for(image: Booted) -> None:
    """os-collect-config's own command is never cut short; it is stopped only while it runs nothing."""
    own = "#!/bin/sh\necho begun >>/root/ran\nwhile ! test -e /root/go; do sleep 0.1; done\necho ended >>/root/ran\n"
    put(image.disk / "root/own", own, 0o755)
    settings = THEIR_SETTINGS.replace("os-refresh-config", "/root/own")
    put(image.disk / "etc/os-collect-config.conf", settings, 0o600)
    # Not its unit's main process, either.
    shell = f"/bin/sh -c '{HOME}/bin/os-collect-config --config-file /etc/os-collect-config.conf 2>&1 | cat'"
    put(
        image.disk / f"etc/systemd/system/{THEIRS}.service.d/a.conf",
        f"[Service]\nExecStart=\nExecStart={shell}\n",
    )
    image.run("systemctl", "daemon-reload")
    image.run("systemctl", "restart", THEIRS)
    deploy(image)
    eventually(image, lambda: ran(image) == ["begun"])

    unasked, refused = (
        migrate(image),
        migrate(image, "--without-scripts", "--wait-for", "0"),
    )

    assert "runs a command of your own" in unasked.out
    assert "is at work, and must not be cut short" in refused.err
    assert units(image) == BEFORE
    (image.disk / "root/go").touch()
    done = migrate(image, "--without-scripts", "--no-start")
    assert done.code == 0, done.out + done.err
    assert units(image) == {
        OURS: ("inactive", "enabled"),
        THEIRS: ("inactive", "disabled"),
    }
    assert ran(image) == ["begun", "ended"]
    assert image.run("pgrep", "-f", "bin/os-collect-config").code == 1, (
        "nothing of it is left"
    )


def test_the_last_message_from_zaqar_is_taken_over() -> None:
    """os-collect-config takes it out of the queue before it has done what it says: nobody else has it any more."""
    with booted(boot=False) as machine:
        keys = ("auth_url", "user_id", "password", "project_id", "queue_id")
        settings = "[zaqar]\n" + "".join(
            f"{key} = http://127.0.0.1:9/v3\n" for key in keys
        )
        put(machine.disk / "etc/os-collect-config.conf", settings, 0o600)
        put(machine.disk / f"etc/systemd/system/{OURS}.service", UNIT.read_text())
        message = {"deployments": [deployment("d1")], "os-collect-config": {}}
        cache = machine.disk / "var/lib/os-collect-config/zaqar.json"
        put(cache, json.dumps(message), 0o600)
        kept = machine.disk / "var/lib/heat-config-agent/documents/zaqar.json"

        done, again = (machine.inside("heat-config-agent", "migrate") for _ in range(2))

        assert done.code == 0, done.out + done.err
        assert json.loads(kept.read_text())["content"] == message
        assert kept.stat().st_mode & 0o777 == 0o600
        assert "Zaqar" in done.out
        assert "Zaqar" not in again.out, "what our agent has is newer"

        put(cache, "[half", 0o600)
        damaged = machine.inside("heat-config-agent", "migrate")
        assert damaged.code == 0, damaged.out + damaged.err
        assert "cannot be taken over" in damaged.out
        assert json.loads(kept.read_text())["content"] == message


def test_migration_in_an_image_only_enables_units() -> None:
    """Without a systemd that runs, units are enabled and disabled; its first boot starts the agent alone."""
    with booted(boot=False) as machine:
        put(machine.disk / f"etc/systemd/system/{THEIRS}.service", THEIR_UNIT)
        lack = machine.inside("heat-config-agent", "migrate")
        assert lack.code == 1
        assert f"there is no {OURS}.service" in lack.out
        nobody = (
            "setpriv",
            "--reuid=65534",
            "--clear-groups",
            "heat-config-agent",
            "migrate",
            "--plan",
        )
        assert machine.inside(*nobody).code == 10
        assert "only root can migrate" in machine.inside(*nobody).err
        put(
            machine.disk / f"etc/systemd/system/{OURS}.service",
            UNIT.read_text().replace(OURS, "no-such-agent"),
        )
        assert (
            "starts no-such-agent, which does not exist"
            in machine.inside("heat-config-agent", "migrate").out
        )
        put(machine.disk / f"etc/systemd/system/{OURS}.service", UNIT.read_text())
        assert (
            machine.inside("systemctl", "enable", THEIRS, SYSTEMD_OFFLINE="1").code == 0
        )

        done = machine.inside("heat-config-agent", "migrate")

        assert done.code == 0, done.out + done.err
        assert "systemd does not run here" in done.out
        machine.boot()
        assert units(machine) == AFTER
