"""A machine that booted as the host of a stack: it is rebooted because a deployment asks for it, and it crashes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from support import pace
from support.loopback import wait_until
from support.machine import Machine
from support.remote import Hosts
from system.booted import Booted, booted

pytestmark = [pytest.mark.slow, pytest.mark.takes(60)]

_SSH = """\
#!/bin/sh
while [ "$1" != -- ]; do shift; done
init=$(cat FOLDER/init)
[ -e "/proc/$init" ] || { echo "ssh: connect to host $2 port 22: No route to host" >&2; exit 255; }
exec nsenter --target "$init" --all --no-fork env -i HOME=/root LANG=C.UTF-8 \\
    PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin sh -c "cd /; $3; exit \\$?"
"""
"""It takes the words of the OpenSSH client, and runs the command in the machine, as long as that is up.

A shell waits for the command: nsenter would stop with a child that the shutdown of the machine stops, and not reap it.
"""

RAN = "root/ran"


class Place:
    """A machine, and a stack that has it as a host."""

    def __init__(self, machine: Machine, host: Booted) -> None:
        self.machine, self.host = machine, host
        self.hosts = Hosts(machine, "db1")
        self.hosts.log = Path("/") / RAN
        client = self.hosts.folder / "bin" / "ssh"
        client.write_text(_SSH.replace("FOLDER", str(self.hosts.folder)))
        self.is_up()

    def is_up(self) -> None:
        """Have the client reach the machine as it is booted now."""
        new = self.hosts.folder / "init.new"
        new.write_text(str(self.host.init))
        new.rename(self.hosts.folder / "init")

    @property
    def ran(self) -> list[str]:
        """The lines that the scripts have written."""
        path = self.host.disk / RAN
        return path.read_text().splitlines() if path.exists() else []

    def file(self) -> Path:
        """Write the hosts file."""
        return self.machine.write({"db": "db1"}, "hosts.yaml")


@pytest.fixture
def place(machine: Machine) -> Iterator[Place]:
    """A machine that booted, as the host `db1`."""
    with booted() as host:
        yield Place(machine, host)


OUT = 'printf "%s" "after ${HEAT_REBOOTS:-0}" >$heat_outputs_path.out\n'
OUTPUTS = {"out": {"value": {"get_attr": ["db_run", "out"]}}}


@pytest.mark.fault(
    1,
    "a machine that is a host of a stack is rebooted because a deployment asks for it",
    "the coordinator waits for it, the same deployment goes on after the reboot, and has one result",
)
def test_host_is_rebooted_because_a_deployment_asks(place: Place) -> None:
    """The script runs before and after the reboot, and its output is that of the second time."""
    then = f'[ -n "$HEAT_REBOOTS" ] || exit 194\n{OUT}'
    template = place.hosts.template("db", then=then, outputs=OUTPUTS)
    process = place.machine.start_apply(template, "--hosts", str(place.file()))
    try:
        place.host.await_reboot()
        place.is_up()
    finally:
        out, err = process.communicate(timeout=pace.seconds(90))
    assert (process.returncode, place.ran) == (0, ["db_run CREATE"] * 2), err
    assert "out = after 1" in out
    assert "db1 is waited for: it is rebooted: db_run asked for it" in err


@pytest.mark.fault(
    1,
    "a machine that is a host of a stack crashes in the middle of a run",
    "the run is reported as interrupted when the host is back, and the same command repeats it",
)
def test_host_crashes_in_the_middle_of_a_run(place: Place) -> None:
    """The coordinator waits for the host, which says then what has become of the run."""
    then = f"[ -e /root/go ] || sleep 1000\n{OUT}"
    template = place.hosts.template("db", then=then, outputs=OUTPUTS)
    process = place.machine.start_apply(template, "--hosts", str(place.file()))
    try:
        wait_until(lambda: place.ran == ["db_run CREATE"], 60)
        place.host.crash()
        place.host.boot()
        (place.host.disk / "root/go").touch()
    finally:
        place.is_up()
        _, err = process.communicate(timeout=pace.seconds(90))
    assert (process.returncode, place.ran) == (1, ["db_run CREATE"]), err
    assert "interrupted" in err
    done = place.machine.apply(template)
    assert (done.code, place.ran) == (0, ["db_run CREATE"] * 2), done
    assert "out = after 0" in done.out
