"""Stacks on hosts that a real sshd is: whatever is killed in the middle, each script runs once."""

from __future__ import annotations

import contextlib
from pathlib import Path

import psutil
import pytest

from support import pace, tools
from support.machine import Machine
from support.remote import SshHosts, by_ssh

pytestmark = pytest.mark.slow

OUT = "printf over >$heat_outputs_path.out"
OUTPUTS = {"out": {"value": {"get_attr": ["db_run", "out"]}}}


def test_two_hosts_are_reached_by_ssh(machine: Machine) -> None:
    """The real client and a real sshd on both, with one session each, and a check of both."""
    with by_ssh(machine, "one", "two") as hosts:
        files = hosts.file(db="one", web="two")
        checked = machine.command(
            "heat-config-agent", ["hosts", "check", str(files)], {}
        )
        assert checked.code == 0, checked
        done = hosts.apply(hosts.template("db", "web"), files)
        assert (done.code, sorted(hosts.runs)) == (
            0,
            ["db_run CREATE", "web_run CREATE"],
        ), done
        assert (hosts.state("one") / "hosted").is_dir()
        done = hosts.stack("delete", "t", "--yes")
        assert (done.code, sorted(hosts.runs)[1::2]) == (
            0,
            ["db_run DELETE", "web_run DELETE"],
        ), done


def test_changed_key_of_a_host_is_refused(machine: Machine) -> None:
    """Nothing is sent to it, and the sentence is the client's."""
    with by_ssh(machine, "one") as hosts:
        hosts.trust("other")
        done = hosts.apply(hosts.template("db"), hosts.file(db="one"))
        assert (done.code, hosts.runs) == (1, [])
        assert "cannot be used: Host key verification failed." in done.err


def test_host_without_an_agent_is_refused(machine: Machine) -> None:
    """The shell there does not find it, and the sentence says what to do."""
    with by_ssh(machine, "one") as hosts:
        files = hosts.file(db=hosts.values("one", command="/nothing/agent"))
        done = hosts.apply(hosts.template("db"), files)
        assert (done.code, hosts.runs) == (1, [])
        assert "cannot be used: there is no agent there: " in done.err
        assert "/nothing/agent" in done.err
        assert "(install it, or say with 'command' where it is)" in done.err


def hold_back_clients(hosts: SshHosts) -> Path:
    """Have the client only print its configuration from now on; return the file that exists once it began more."""
    begun = hosts.folder / "begun"
    client = hosts.folder / "bin" / "ssh"
    client.write_text(
        "#!/bin/sh\n"
        'case " $* " in\n'
        f'*" -G "*) exec {tools.need("ssh", "openssh-client")} "$@" ;;\n'
        f"*) touch {begun}; exit 255 ;;\n"
        "esac\n"
    )
    client.chmod(0o755)
    return begun


def test_loop_through_jump_hosts_is_refused(machine: Machine) -> None:
    """It is noticed before the client begins, which would start itself without end."""
    with by_ssh(machine, "one") as hosts:
        loop = "Host two\n  ProxyJump me@three:22\nHost three\n  ProxyJump two\n"
        path = "Host one\n  ProxyJump two\n"
        hosts.client.write_text(f"{hosts.client.read_text()}{path}{loop}")
        begun = hold_back_clients(hosts)
        files = hosts.file(db=hosts.values("one", address="one"))
        done = hosts.apply(hosts.template("db"), files)
        assert (done.code, hosts.runs) == (1, [])
        way = "jumphost loop: one → two → three → two"
        assert f"the host 127.0.0.1:{hosts.ports['one']}" not in done.err
        assert f"cannot be used: {way}" in done.err
        done = machine.command("heat-config-agent", ["hosts", "check", str(files)], {})
        assert (done.code, way in done.out) == (1, True), done
        assert not begun.exists()


def test_loop_of_jump_hosts_that_comes_later_is_refused(machine: Machine) -> None:
    """The commands that ask a host on a connection of their own look for a loop, too."""
    with by_ssh(machine, "one") as hosts:
        files = hosts.file(db=hosts.values("one", address="one"))
        text = hosts.client.read_text()
        here = f"Host one\n  HostName 127.0.0.1\n  Port {hosts.ports['one']}\n"
        hosts.client.write_text(f"{text}{here}")
        assert hosts.apply(hosts.template("db"), files).code == 0
        hosts.client.write_text(
            f"{text}Host one\n  ProxyJump two\nHost two\n  ProxyJump one\n"
        )
        begun = hold_back_clients(hosts)
        loop = "is not reached: jumphost loop: one → two → one"
        for command in ("log", "show", "verify"):
            done = machine.agent(command, "t/db_run")
            assert loop in done.out + done.err, done
        deleted = machine.agent("stack", "delete", "t", "--yes")
        assert deleted.code == 1
        assert "jumphost loop: one → two → one" in deleted.err
        assert not begun.exists()


def test_jump_host_on_the_way_is_used(machine: Machine) -> None:
    """A host is reached through another one, whose own way is not a loop."""
    with by_ssh(machine, "one", "two") as hosts:
        way = (
            f"Host jump\n  HostName 127.0.0.1\n  Port {hosts.ports['two']}\n"
            f"Host inner\n  HostName 127.0.0.1\n  ProxyJump jump\n"
        )
        hosts.client.write_text(f"{hosts.client.read_text()}{way}")
        files = hosts.file(db=hosts.values("one", address="inner"))
        done = hosts.apply(hosts.template("db"), files)
        assert (done.code, hosts.runs) == (0, ["db_run CREATE"]), done


def kill_client(hosts: SshHosts, coordinator: int) -> None:
    """Kill the ssh client."""
    for each in hosts.clients(coordinator):
        each.kill()


def kill_remote_end(hosts: SshHosts, coordinator: int) -> None:  # noqa: ARG001  # all have the same form
    """Kill the session of the agent on the host."""
    for each in hosts.remote_ends():
        with contextlib.suppress(psutil.NoSuchProcess):
            each.kill()


def reset_connection(hosts: SshHosts, coordinator: int) -> None:  # noqa: ARG001  # as above
    """Kill the process of sshd that has the connection."""
    for each in hosts.remote_ends():
        with contextlib.suppress(psutil.NoSuchProcess):
            for parent in each.parents():
                if parent.name().startswith("sshd") and parent.ppid() != 1:
                    parent.kill()
                    break


@pytest.mark.parametrize("kill", [kill_client, kill_remote_end, reset_connection])
@pytest.mark.fault(
    1,
    "the ssh client, the session on a host, or the connection between them is killed while a script runs there",
    "the run goes on, another session takes over its result, and nothing runs twice",
)
def test_break_in_the_middle_of_a_run(machine: Machine, kill: object) -> None:
    """The script ends after the break, and its output is that of the stack."""
    assert callable(kill)
    with by_ssh(machine, "one") as hosts:
        template = hosts.template("db", then=hosts.until_go + OUT, outputs=OUTPUTS)
        process = machine.start_apply(template, "--hosts", str(hosts.file(db="one")))
        hosts.waits_for_run("db_run CREATE")
        kill(hosts, process.pid)
        hosts.go.touch()
        out, err = process.communicate(timeout=pace.seconds(60))
        assert (process.returncode, hosts.runs) == (0, ["db_run CREATE"]), err
        assert "out = over" in out


@pytest.mark.fault(
    3,
    "a host whose sshd is away while another host works",
    "the other continues, a sentence names the host that is waited for and why, and its script runs when it is back",
)
def test_absent_host_is_waited_for(machine: Machine) -> None:
    """Both scripts run once."""
    with by_ssh(machine, "one", "two") as hosts:
        hosts.servers["one"].stop()
        files = hosts.file(db="one", web="two")
        process = machine.start_apply(
            hosts.template("db", "web"), "--hosts", str(files)
        )
        hosts.waits_for_run("web_run CREATE")
        hosts.servers["one"].start()
        _, err = process.communicate(timeout=pace.seconds(60))
        assert (process.returncode, hosts.runs) == (
            0,
            ["web_run CREATE", "db_run CREATE"],
        ), err
        assert "is waited for: ssh: connect to host 127.0.0.1" in err
        assert "goes on" in err
