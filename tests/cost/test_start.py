"""The modules that a start loads, because loading takes longer than most of the work."""

from __future__ import annotations

import json
import re
import subprocess
import sys

import pytest

from support.cloud import Cloud
from support.daemon import LONG, Daemon
from support.loopback import Answer, Signal, SignalServer, wait_until
from support.machine import Done, Machine, deployment

pytestmark = pytest.mark.new_process

SLOW = {
    "argparse",
    "dataclasses",
    "difflib",
    "inspect",
    "logging",
    "shutil",
    "subprocess",
    "tempfile",
    "typing",
}
"""Modules of the standard library that take long to load, or are large and seldom needed."""

SELDOM = {"encodings.utf_8_sig", "importlib", "math", "signal"}
"""Modules of the standard library that a plain run can do without, though they do not take long."""

SENDING = {"email", "http", "queue", "socket", "ssl", "threading"}
OTHERS = {"psutil", "requests", "urllib3", "yaml"}
DAEMON = {
    "heat_config_agent.sources.poller",
    "heat_config_agent.doctor",
    "heat_config_agent.daemon.daemon",
}

SECRETS = {
    "heat_config_agent.runs.resolution",
    "heat_config_agent.runs.resolved",
    "heat_config_agent.runs.providers",
}
"""Only for inputs that refer to secrets."""

CHANNELS = {
    f"heat_config_agent.signals.notices.{name}"
    for name in ("channel", "console", "events", "journal", "spans")
}
"""Only for a machine with a console, a server for notices or a collector of spans, or under systemd."""

RARE = {
    *(
        f"heat_config_agent.state.removal.{name}"
        for name in ("disk_usage", "retention", "sweep")
    ),
    "heat_config_agent.state.requests",
    *(
        "heat_config_agent.model.backoff",
        "heat_config_agent.runs.streams",
        "heat_config_agent.sources.base",
    ),
    *("heat_config_hooks.programs", "heat_config_hooks.strict_yaml"),
}
"""Only for files that are due to be removed, requests of people, much output, YAML and the like."""

MOST = 96
"""The modules of ours that a plain run loads. Each takes a third of a million instructions before it does anything."""

POLICY = {
    "configparser",
    "heat_config_agent.model.policy",
    "heat_config_agent.settings.policy",
}
"""Only for a machine with a policy."""


def loaded(done: Done) -> set[str]:
    """Return the modules that a command has loaded, but for those that every Python here loads."""
    assert done.code == 0, done.err
    return imported(done.err)


def imported(said: str) -> set[str]:
    """Return the modules of which a program says that it imports them, but for those that every Python here loads."""
    found = set(re.findall(r"^import time:.*\| +(\S+)$", said, re.MULTILINE))
    code = "import sys; print(*sys.modules)"
    bare = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert "heat_config_agent.cli.main" in found
    return found - set(bare.stdout.split())


def test_run_without_a_result_loads_few_modules(machine: Machine) -> None:
    """A run whose result is not sent loads only the modules for it."""
    found = loaded(machine.apply([deployment()], PYTHONPROFILEIMPORTTIME="1"))
    assert not found & (
        SLOW | SELDOM | SENDING | OTHERS | DAEMON | POLICY | SECRETS | CHANNELS | RARE
    )
    ours = sorted(name for name in found if name.startswith("heat_config_"))
    assert len(ours) <= MOST, ours
    assert not [
        name
        for name in found
        if name.startswith(("heat_config_stack.hot", "heat_config_stack.tosca"))
    ]


def test_run_with_a_result_loads_only_the_plain_client(
    machine: Machine, heat: SignalServer
) -> None:
    """A run with a result loads the plain HTTP client, and not what only few servers need."""
    found = loaded(
        machine.apply([deployment(signal=heat.url("d1"))], PYTHONPROFILEIMPORTTIME="1")
    )
    assert len(heat.signals) == 1
    assert not found & (SLOW | OTHERS | DAEMON | CHANNELS)


def test_a_run_that_finds_nothing_new_loads_no_more(machine: Machine) -> None:
    """A run without new work loads nothing more."""
    machine.apply([deployment()])
    found = loaded(machine.apply([deployment()], PYTHONPROFILEIMPORTTIME="1"))
    assert not found & (SLOW | SELDOM | SENDING | OTHERS | DAEMON)


@pytest.mark.parametrize("command", ["status", "show", "log", "retry", "forget"])
def test_command_loads_only_its_own_modules(machine: Machine, command: str) -> None:
    """A command loads its own options and modules, not those of all."""
    machine.apply([deployment()])
    named = {"status": [], "forget": ["--yes", "d1"]}.get(command, ["d1"])
    found = loaded(machine.agent(command, *named, PYTHONPROFILEIMPORTTIME="1"))
    assert not found & ((SLOW - {"argparse", "shutil"}) | SENDING | OTHERS | DAEMON)


PROXIED = {"requests", "urllib3", "heat_config_agent.web.proxied"}
"""Only behind a proxy."""


def polls_heat(daemon: Daemon, openstack: Cloud) -> None:
    """Have Heat polled, whose metadata have a deployment with a result for its API."""
    user = vars(openstack.credentials())
    daemon.settings["heat"] = {**user, "stack_id": "s/1", "resource_name": "server"}
    daemon.configure(collectors="heat")
    inputs = {
        f"deploy_{name}": value
        for name, value in {**user, "stack_id": "s/1", "resource_name": "d1"}.items()
    }
    metadata = {"deployments": [deployment(inputs=inputs)]}
    openstack.service.always = Answer(body=json.dumps({"metadata": metadata}).encode())


def signals(openstack: Cloud) -> list[Signal]:
    """Return the results that have arrived at Heat's API."""
    return [each for each in openstack.asked if each.path.endswith("/signal")]


def test_a_pass_logs_in_without_libraries(daemon: Daemon, openstack: Cloud) -> None:
    """A pass that polls Heat and sends a result speaks HTTP by the standard library."""
    polls_heat(daemon, openstack)
    found = loaded(
        daemon.machine.agent(
            "run", "--once", "--config", str(daemon.path), PYTHONPROFILEIMPORTTIME="1"
        )
    )
    assert (len(openstack.logins), len(signals(openstack))) == (2, 1)
    assert "heat_config_agent.web.login" in found
    assert not found & PROXIED


def test_the_daemon_logs_in_without_libraries(daemon: Daemon, openstack: Cloud) -> None:
    """A daemon that polls Heat and sends a result speaks HTTP by the standard library."""
    polls_heat(daemon, openstack)
    daemon.start(PYTHONPROFILEIMPORTTIME="1")
    wait_until(lambda: signals(openstack) != [], LONG)
    assert daemon.stop() == 0
    found = imported(daemon.log)
    assert "heat_config_agent.web.login" in found
    assert not found & PROXIED


def test_a_verification_on_a_schedule_loads_what_it_needs(machine: Machine) -> None:
    """Unchanged files are compared without the parser of the command line, tools, libraries and what starts runs."""
    config = {str(machine.folder / "page.json"): {"port": 80}}
    machine.apply([deployment(config=config, group="json-file")])
    program = "from heat_config_agent.cli.deployments.scheduled import main; raise SystemExit(main())"
    words = [sys.executable, "-I", "-X", "importtime", "-c", program]
    words += ["1800", "no", "", "--state-dir", str(machine.state)]
    done = subprocess.run(
        words, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=True
    )
    assert json.loads(done.stdout)["ok"] == 1
    found = set(re.findall(r"^import time:.*\| +(\S+)$", done.stderr, re.MULTILINE))
    assert not found & (
        (SLOW - {"shutil"}) | SENDING | OTHERS | DAEMON | POLICY | CHANNELS
    )
    ours = sorted(name for name in found if name.startswith("heat_config_"))
    assert len(ours) <= MOST, ours


def test_daemon_without_a_schedule_loads_nothing_of_it(daemon: Daemon) -> None:
    """Verifications cost nothing where the settings have none."""
    daemon.start(PYTHONPROFILEIMPORTTIME="1")
    assert daemon.stop() == 0
    assert "heat_config_agent.daemon.daemon" in daemon.log
    assert "heat_config_agent.verification" not in daemon.log
    assert "heat_config_agent.daemon.verifying" not in daemon.log
