"""Stacks on hosts in network namespaces: the link to a host is silent, reset or slow, and each script runs once."""

from __future__ import annotations

from pathlib import Path

import pytest

from support import pace
from support.links import Linked, linked
from support.loopback import wait_until
from support.machine import Machine

pytestmark = [pytest.mark.slow, pytest.mark.takes(120)]

fault = pytest.mark.fault

SERVERS = ("a", "b", "c")
HOSTS = ("one", "two", "three")


def chain(hosts: Linked) -> Path:
    """Return a template in which `a` waits for a sign, `b` needs the output of `a`, and `c` needs nothing."""
    server = {"type": "OS::Nova::Server", "properties": {"image": "x", "flavor": "y"}}
    over = f"touch {hosts.folder}/over-a\n"
    out = 'printf "%s" "$before+" >$heat_outputs_path.out\n'
    resources = dict.fromkeys(SERVERS, server)
    resources |= hosts.deployment("a", f"{hosts.until_go}{out}{over}", before="")
    resources |= hosts.deployment("b", out, before={"get_attr": ["a_run", "out"]})
    resources |= hosts.deployment("c", out, before="")
    outputs = {"out": {"value": {"get_attr": ["b_run", "out"]}}}
    return hosts.template(resources=resources, outputs=outputs)


def placed(hosts: Linked) -> Path:
    """Return the hosts file."""
    return hosts.file(**dict(zip(SERVERS, HOSTS, strict=True)))


def assert_done_once(hosts: Linked, code: int | None, out: str, err: str) -> None:
    """Assert that each script has run once, and that the stack has the value that has passed between the hosts."""
    assert code == 0, err
    assert sorted(hosts.runs) == [f"{each}_run CREATE" for each in SERVERS]
    assert "out = ++" in out
    done = hosts.stack("delete", "t", "--yes")
    assert (done.code, len(hosts.runs)) == (0, 6), done


@pytest.mark.parametrize("is_noticed", [False, True], ids=["short", "noticed"])
@fault(
    1,
    "a link to a host on which nothing gets through while a script ends there, for a while, or until it is noticed",
    "another host goes on, the result is taken over once the link is back, and nothing runs twice",
)
def test_silent_link(machine: Machine, is_noticed: bool) -> None:
    """The script on the host ends while no packet comes or goes."""
    with linked(machine, *HOSTS) as hosts:
        process = machine.start_apply(chain(hosts), "--hosts", str(placed(hosts)))
        try:
            hosts.waits_for_run("a_run CREATE")
            hosts.waits_for_run("c_run CREATE")
            hosts.silence("one")
            hosts.go.touch()
            wait_until((hosts.folder / "over-a").exists)
            if is_noticed:
                assert process.stderr is not None
                line = process.stderr.readline()
                assert "is waited for: " in line
                assert hosts.addresses["one"] in line
            assert "b_run CREATE" not in hosts.runs
            hosts.restore("one")
        finally:
            hosts.go.touch()
            out, err = process.communicate(timeout=pace.seconds(120))
        assert_done_once(hosts, process.returncode, out, err)
        assert ("goes on" in err) == is_noticed


@fault(
    1,
    "a link to a host that is silent for so long that the coordinator is killed meanwhile, and is back for the next",
    "the next command takes the result over, and nothing runs twice",
)
def test_coordinator_is_killed_while_a_link_is_silent(machine: Machine) -> None:
    """The host ends its side by itself, or another session takes its place."""
    with linked(machine, *HOSTS) as hosts:
        template, files = chain(hosts), placed(hosts)
        process = machine.start_apply(template, "--hosts", str(files))
        try:
            hosts.waits_for_run("a_run CREATE")
            hosts.silence("one")
        finally:
            process.kill()
            process.communicate(timeout=pace.seconds(60))
        hosts.go.touch()
        wait_until((hosts.folder / "over-a").exists)
        hosts.restore("one")
        done = hosts.apply(template, files, seconds=150)
        assert_done_once(hosts, done.code, done.out, done.err)


@fault(
    1,
    "a link to a host whose connections are reset, again and again, while a script runs there",
    "the run goes on, another session takes over its result, and nothing runs twice",
)
def test_reset_link(machine: Machine) -> None:
    """Three sessions end before the script does."""
    with linked(machine, *HOSTS) as hosts:
        process = machine.start_apply(chain(hosts), "--hosts", str(placed(hosts)))
        try:
            hosts.waits_for_run("a_run CREATE")
            for _ in range(3):
                former = hosts.session("one")
                hosts.reset("one")
                wait_until(lambda pid=former: hosts.session("one") not in (0, pid), 30)  # type: ignore[misc]
        finally:
            hosts.go.touch()
            out, err = process.communicate(timeout=pace.seconds(120))
        assert_done_once(hosts, process.returncode, out, err)


@fault(
    3,
    "a link to a host that delays each packet by 100 ms",
    "the stack is created, changed by nothing and deleted, and each script runs once",
)
def test_slow_link(machine: Machine) -> None:
    """All of them are far away."""
    with linked(machine, *HOSTS) as hosts:
        for each in HOSTS:
            hosts.delay(each, 100)
        hosts.go.touch()
        template = chain(hosts)
        done = hosts.apply(template, placed(hosts))
        assert done.code == 0, done
        assert hosts.apply(template, None).code == 0
        assert_done_once(hosts, done.code, done.out, done.err)
