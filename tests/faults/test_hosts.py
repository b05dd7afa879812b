"""Hosts of a stack whose disk is full, whose power goes, or that are far away, over a program in the place of ssh."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from heat_config_agent.model.entry import State
from heat_config_agent.state import journal
from support import pace
from support.disks import Disk
from support.loopback import wait_until
from support.machine import Machine, small_disk
from support.remote import Hosts

pytestmark = pytest.mark.takes(20)

fault = pytest.mark.fault

OUT = "printf over >$heat_outputs_path.out\n"
OUTPUTS = {"out": {"value": {"get_attr": ["db_run", "out"]}}}


@fault(
    1,
    "a disk that is full on a host, before a run and while it goes on",
    "the host is waited for with the reason, another goes on, and nothing runs twice once there is room",
)
def test_full_disk_of_a_host(machine: Machine) -> None:
    """The run begins as soon as there is room, and its result is taken over."""
    hosts = Hosts(machine, "db1", "web1")
    template = hosts.template("db", "web", then=OUT, outputs=OUTPUTS)
    with small_disk(machine, "1m", hosts.state("db1")) as path:
        disk = Disk(path)
        disk.fill()
        files = hosts.file(db="db1", web="web1")
        process = machine.start_apply(template, "--hosts", str(files))
        try:
            assert process.stderr is not None
            line = process.stderr.readline()
            assert line.startswith("warning: db1 is waited for: ")
            assert "No space left on device" in line
            hosts.waits_for_run("web_run CREATE")
            assert hosts.runs == ["web_run CREATE"]
        finally:
            disk.free()
            out, err = process.communicate(timeout=pace.seconds(90))
        assert process.returncode == 0, err
        assert "out = over" in out
        assert "db1 goes on" in err
        assert hosts.runs == ["web_run CREATE", "db_run CREATE"]
        assert hosts.stack("delete", "t", "--yes").code == 0
        hosts.log.unlink()
        # while it runs
        template = hosts.template("db", then=f"{hosts.until_go}{OUT}", outputs=OUTPUTS)
        files = hosts.file(db="db1")
        process = machine.start_apply(template, "--hosts", str(files))
        try:
            hosts.waits_for_run("db_run CREATE")
            disk.fill()
            hosts.go.touch()
            assert process.stderr is not None
            assert "No space left on device" in process.stderr.readline()
        finally:
            disk.free()
            _, err = process.communicate(timeout=pace.seconds(90))
        assert hosts.runs == ["db_run CREATE"]
        if process.returncode:  # what the script wrote did not fit
            assert "No space left on device" in err
            assert hosts.apply(template, None).code == 0


def ran(hosts: Hosts) -> bool:
    """Return whether the journal of the host has a result."""
    entries = journal.read(hosts.journal("db1").parent).values()
    return any(each.ended is not None for each in entries)


power = fault(
    1,
    "the power of a host goes, while a script runs there, or after its end and before the coordinator has the result",
    "an interrupted run is reported as such, a result is taken over, and nothing runs twice unasked",
)


@power
def test_power_of_a_host_goes_during_a_run(machine: Machine) -> None:
    """The run is reported as interrupted as soon as the host is back, and the next apply repeats it."""
    hosts = Hosts(machine, "db1")
    template = hosts.template("db", then=hosts.until_go + OUT, outputs=OUTPUTS)
    files = hosts.file(db=hosts.booted("db1"))
    process = machine.start_apply(template, "--hosts", str(files))
    try:
        hosts.waits_for_run("db_run CREATE")
        hosts.cut_power("db1")
        hosts.is_back("db1")
    finally:
        _, err = process.communicate(timeout=pace.seconds(90))
    assert (process.returncode, hosts.runs) == (1, ["db_run CREATE"]), err
    assert "db1 is waited for: " in err
    assert "interrupted" in err
    hosts.go.touch()
    done = hosts.apply(template, None)
    assert (done.code, hosts.runs) == (0, ["db_run CREATE"] * 2), done
    assert "out = over" in done.out


@power
def test_power_of_a_host_goes_before_its_result_is_taken(machine: Machine) -> None:
    """The coordinator has not read the result when the host goes down; the journal there has it after the boot."""
    hosts = Hosts(machine, "db1")
    template = hosts.template("db", then=hosts.until_go + OUT, outputs=OUTPUTS)
    files = hosts.file(db=hosts.booted("db1"))
    process = machine.start_apply(template, "--hosts", str(files))
    try:
        hosts.waits_for_run("db_run CREATE")
        process.send_signal(signal.SIGSTOP)
        hosts.go.touch()
        wait_until(lambda: ran(hosts))
        hosts.cut_power("db1")
        is_on_disk = ran(hosts)
        hosts.is_back("db1")
    finally:
        process.send_signal(signal.SIGCONT)
        out, err = process.communicate(timeout=pace.seconds(90))
    assert hosts.runs == ["db_run CREATE"]
    assert (process.returncode, "out = over" in out) == (0, True), (is_on_disk, err)


@power
def test_power_of_a_host_goes_after_a_run_that_no_session_has_seen(
    machine: Machine,
) -> None:
    """The supervisor had flushed the end of the run, or it counts as interrupted; it does not run twice."""
    hosts = Hosts(machine, "db1")
    then = f"{hosts.until_go}{OUT}touch {hosts.folder}/over\n"
    template = hosts.template("db", then=then, outputs=OUTPUTS)
    files = hosts.file(db=hosts.booted("db1"))
    process = machine.start_apply(template, "--hosts", str(files))
    try:
        hosts.waits_for_run("db_run CREATE")
        hosts.says("db1", "ssh: connect to host db1 port 22: No route to host\n")
        hosts.kill("db1")
        hosts.go.touch()
        wait_until((hosts.folder / "over").exists)
        entry = next(iter(journal.read(hosts.journal("db1").parent).values()))
        assert entry.state is State.RUNNING
        hosts.cut_power("db1")
        hosts.is_back("db1")
    finally:
        out, err = process.communicate(timeout=pace.seconds(90))
    assert hosts.runs == ["db_run CREATE"]
    told = "out = over" in out if process.returncode == 0 else "interrupted" in err
    assert told, err


@fault(
    3,
    "a host at the end of a link with 100 ms in each direction",
    "a new deployment takes two round trips at most, also with a file, and an unchanged stack none",
)
def test_distant_host_costs_few_round_trips(machine: Machine) -> None:
    """Whatever the coordinator knows goes together; it waits for an answer only where it has to."""
    hosts = Hosts(machine, "db1")
    hosts.slow(0.1)
    template = hosts.template("db", then=OUT, outputs=OUTPUTS)
    done = hosts.apply(template, hosts.file(db="db1"))
    assert (done.code, hosts.runs) == (0, ["db_run CREATE"]), done
    assert hosts.flights("db1")[:3] == ["<hello", ">open deploy", "<began result"]
    assert hosts.apply(template, None).code == 0
    assert hosts.sessions == ["db1"]


SERVICE = """\
tosca_definitions_version: tosca_simple_yaml_1_3
node_types:
  App: {derived_from: tosca.nodes.SoftwareComponent}
topology_template:
  node_templates:
    db: {type: tosca.nodes.Compute}
    app:
      type: App
      requirements: [ {host: db} ]
      interfaces: {Standard: {operations: {create: create.sh}}}
"""


def test_file_of_an_operation_takes_one_more_round_trip(machine: Machine) -> None:
    """The host asks for it once; the next stack of the same content is another one, and asks again."""
    hosts = Hosts(machine, "db1")
    hosts.slow(0.1)
    script = f"#!/bin/sh\necho create >>{hosts.log}\n# {'x' * 5000}\n"
    (machine.folder / "create.sh").write_text(script)
    service = machine.write(SERVICE, "t.yaml")
    done = hosts.apply(service, hosts.file(db="db1"))
    assert (done.code, hosts.runs) == (0, ["create"]), done
    flights = [each for each in hosts.flights("db1") if not each.startswith(">taken")]
    assert flights[:5] == [
        "<hello",
        ">open deploy",
        "<lacks",
        ">files",
        "<began result",
    ]


def test_two_hosts_are_far_away_at_the_same_time(machine: Machine) -> None:
    """Both sessions begin before the first result has come."""
    hosts = Hosts(machine, "a", "b")
    hosts.slow(0.1)
    template = hosts.template("one", "two", then=hosts.until_go)
    files: Path = hosts.file(one="a", two="b")
    process = machine.start_apply(template, "--hosts", str(files))
    try:
        hosts.waits_for_run("one_run CREATE")
        hosts.waits_for_run("two_run CREATE")
    finally:
        hosts.go.touch()
        _, err = process.communicate(timeout=pace.seconds(60))
    assert (process.returncode, sorted(hosts.sessions)) == (0, ["a", "b"]), err
