"""Encrypted secrets on a booted machine, with the real programs that decrypt them."""

from __future__ import annotations

import shutil
from collections.abc import Iterator

import pytest

from support import planted
from support.machine import deployment
from support.tools import need
from system.booted import Booted, booted
from system.test_scopes import apply, shows

pytestmark = pytest.mark.takes(100)

SECRET = f"{planted.WORD}-of-this-machine"
FOLDER = "/etc/heat-config-agent/secrets"


@pytest.fixture(scope="module")
def machine() -> Iterator[Booted]:
    """A machine on which nothing of ours runs by itself, with a folder for secrets."""
    with booted() as found:
        assert found.run("mkdir", "-p", "-m", "700", FOLDER).code == 0
        yield found


@pytest.mark.parametrize("name", ["age", "systemd-creds"])
def test_secrets_are_decrypted_by_the_machine_alone(machine: Booted, name: str) -> None:
    """With its identity or its own key; nothing of them is left, and a copy under another name fails."""
    if name == "age":
        for program in ("age", "age-keygen"):
            shutil.copy(need(program, "age"), machine.disk / "usr/bin" / program)
        made = machine.run("age-keygen", "-o", "/etc/heat-config-agent/age.key")
        assert made.code == 0, made.err
        recipient = machine.run(
            "age-keygen", "-y", "/etc/heat-config-agent/age.key"
        ).out.strip()
        command: tuple[str, ...] = ("age", "--encrypt", "--recipient", recipient)
        file = "db.age"
    else:
        command = ("systemd-creds", "encrypt", "--with-key=host", "--name=db", "-", "-")
        file = "db.cred"
    sealed = machine.run(
        "sh", "-c", f'"$@" >{FOLDER}/{file}', "sh", *command, stdin=SECRET
    )
    if sealed.code:
        pytest.skip(f"{name} cannot encrypt here: {sealed.err.strip()}")
    script = f'#!/bin/sh\necho "${{#password}} $password"; [ "$password" = "{SECRET[:7]}""{SECRET[7:]}" ]\n'
    given = deployment(name, script, inputs={"password": {"secret": f"{name}:db"}})
    given["inputs"] = [
        each
        for each in given["inputs"]
        if each["name"] not in ("deploy_password", "planted")
    ]
    done = apply(machine, given)
    assert done.code == 0, done.out
    assert shows(machine, name)["values"]["deploy_stdout"] == f"{len(SECRET)} ***\n"
    assert (
        machine.run("grep", "-rl", SECRET, "/var/lib/heat-config-agent", "/run").out
        == ""
    )
    if name == "systemd-creds":
        machine.run("cp", f"{FOLDER}/db.cred", f"{FOLDER}/other.cred")
        given = {
            **given,
            "id": "other",
            "inputs": [
                {"name": "password", "value": {"secret": "systemd-creds:other"}}
            ],
        }
        assert "the provider 'systemd-creds' has failed" in apply(machine, given).out


@pytest.mark.fault(
    4,
    "a run that was given a secret asks for a reboot, and the machine is rebooted",
    "no secret is on disk after it",
)
def test_a_reboot_leaves_no_secret(machine: Booted) -> None:
    """Not from the run before the reboot, and not from the one after it."""
    machine.run("sh", "-c", f"umask 077; printf %s '{SECRET}' >{FOLDER}/plain")
    script = '#!/bin/sh\necho "$HEAT_REBOOTS $password"\n[ "$HEAT_REBOOTS" = 1 ] || exit 194\n'
    given = deployment("reboots", script, inputs={"password": {"secret": "file:plain"}})
    given["inputs"] = [
        each
        for each in given["inputs"]
        if each["name"] not in ("deploy_password", "planted")
    ]
    done = apply(machine, given)
    assert (
        SECRET not in done.out + machine.run("heat-config-agent", "log", "reboots").out
    )
    machine.run("systemctl", "reboot")
    machine.await_reboot()
    done = apply(machine, given)
    assert done.code == 0, done.out
    assert shows(machine, "reboots")["values"]["deploy_stdout"] == "1 ***\n"
    assert (
        machine.run(
            "grep",
            "-rl",
            SECRET,
            "/var/lib/heat-config-agent",
            "/var/lib/heat-config",
            "/run",
        ).out
        == ""
    )
