"""heat-config-agent stop: runs that are ended, and deployments that never begin, each with a truthful result."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import psutil
import pytest

from heat_config_agent.state import requests
from support import endings, pace
from support.commands import SH, counted, runs
from support.loopback import SignalServer, wait_until
from support.machine import Done, Machine, deployment
from support.stacking import LONG, Stacks, ends


def endless(machine: Machine, identity: str = "d1", **fields: Any) -> dict[str, Any]:
    """Return a deployment that notes its processes, one of which has left its session, and never ends."""
    note = f'echo $$ >>"{machine.folder}/processes"'
    away = f"setsid sh -c '{note}; exec sleep 600' &"
    return counted(machine, identity, f"{note}\n{away}\nsleep 600", **fields)


def processes(machine: Machine, number: int) -> list[psutil.Process]:
    """Return the processes of the endless deployments once there are so many."""
    path = machine.folder / "processes"
    wait_until(lambda: path.exists() and len(path.read_text().split()) == number, LONG)
    return [psutil.Process(int(each)) for each in path.read_text().split()]


def begun(machine: Machine, given: object) -> subprocess.Popen[str]:
    """Begin to apply a document, and return the command once its first run has begun."""
    command = machine.start_apply(given)
    try:
        processes(machine, 2)
        wait_until(lambda: "running" in states(machine), LONG)
    except BaseException:
        endings.end(command)
        raise
    return command


def states(machine: Machine) -> list[str]:
    """Return the states of all deployments, as the journal has them."""
    return [each["state"] for each in machine.status().values()]


def says(done: Done, name: str, reason: str) -> bool:
    """Return whether a command says why a deployment has failed, wherever its result is by then."""
    pattern = rf"^{name}: failed(, result due)?: {reason}"
    return re.search(pattern, done.out, re.MULTILINE) is not None


ENDED = "ended because it was stopped by "


def test_running_deployment_is_ended_with_all_its_processes(
    machine: Machine, heat: SignalServer
) -> None:
    """Its result is a failure that says who has stopped it, is sent once, and is not undone by the next pass."""
    given = [endless(machine, signal=heat.url())]
    command = begun(machine, given)
    with endings.ended(command):
        tree = processes(machine, 2)
        done = machine.agent("stop", "d1", "--yes", "--wait")
        assert (done.code, done.err.startswith("error")) == (0, False), done.err
        assert "stop of d1 requested: another command works on" in done.out
        assert says(done, "d1", ENDED)
        assert ends(command).code == 1
    wait_until(lambda: all(map(endings.has_ended, tree)), LONG)
    assert machine.apply(given).code == 0
    [value] = heat.values()
    assert value["deploy_status_code"] == 124
    assert "ended because it was stopped by " in value["deploy_stderr"]
    assert runs(machine) == ["d1"]
    assert not list((machine.state / "asked").iterdir())


def test_stopped_deployment_runs_again_after_a_retry(machine: Machine) -> None:
    """The stop was about the run before it."""
    go = machine.folder / "go"
    script = counted(machine, "d1", f"[ -e {go} ] || exec sleep 600")
    command = machine.start_apply([script])
    with endings.ended(command):
        wait_until(lambda: runs(machine) == ["d1"], LONG)
        assert machine.agent("stop", "d1", "--yes", "--wait").code == 0
        ends(command)
    go.touch()
    assert machine.agent("retry", "d1").code == 0
    done = machine.apply([script])
    assert (done.code, runs(machine)) == (0, ["d1", "d1"]), done.out


def test_request_about_an_earlier_run_ends_no_later_one(machine: Machine) -> None:
    """A request that was left over by a kill is about the deployment as it was accepted then."""
    given = [counted(machine)]
    machine.apply(given)
    entry = next(iter(machine.status().values()))
    assert entry["state"] == "unasked"
    folder = machine.state / "asked"
    folder.mkdir(mode=0o700, exist_ok=True)
    (folder / "d1.stop").write_text(json.dumps({"accepted": 1.5, "by": "ada"}))
    (folder / "d2.stop").write_text("not a request")
    machine.agent("retry", "d1")
    (folder / "d1.stop").write_text(json.dumps({"accepted": 1.5, "by": "ada"}))
    done = machine.apply([*given, counted(machine, "d2")])
    assert (done.code, runs(machine)) == (0, ["d1", "d1", "d2"]), done.err
    assert not list(folder.iterdir())


def test_waiting_deployment_never_begins(machine: Machine, heat: SignalServer) -> None:
    """It has failed without a run, and its server hears so once; the one before it goes on."""
    go = machine.folder / "go"
    first = counted(machine, "d1", f"until [ -e {go} ]; do sleep 0.05; done")
    given = [first, counted(machine, "d2", signal=heat.url())]
    command = machine.start_apply(given)
    with endings.ended(command):
        wait_until(lambda: runs(machine) == ["d1"], LONG)
        done = machine.agent("stop", "d2", "--yes", "--wait")
        assert says(done, "d2", "not run: it was stopped by ")
        assert machine.status()["d1"]["state"] == "running"
        go.touch()
        assert ends(command).code == 1
    assert machine.apply(given).code == 0
    [value] = heat.values()
    assert "before it began" in value["deploy_stderr"]
    assert runs(machine) == ["d1"]


def test_next_attempt_of_a_deployment_is_taken_back(machine: Machine) -> None:
    """Its option `retry` no longer counts."""
    options = {"retry": {"codes": [75], "times": 5, "delay": 600}}
    given = [counted(machine, "d1", "exit 75", options=options)]
    command = machine.start_apply(given)
    with endings.ended(command):
        wait_until(lambda: states(machine) == ["retry"], LONG)
        done = machine.agent("stop", "d1", "--yes", "--wait")
        assert says(done, "d1", "not run again: it was stopped by ")
        assert ends(command).code == 1
    assert machine.apply(given).code == 0
    assert runs(machine) == ["d1"]


def test_retry_that_has_not_begun_is_taken_back(machine: Machine) -> None:
    """The result of the run before it stays."""
    given = [counted(machine)]
    machine.apply(given)
    machine.agent("retry", "d1")
    done = machine.agent("stop", "d1", "--yes")
    assert (done.code, done.out) == (0, "d1: ok\n")
    machine.apply(given)
    assert runs(machine) == ["d1"]


def test_run_without_an_agent_is_ended_by_the_command(
    machine: Machine, heat: SignalServer
) -> None:
    """Its agent was killed: the result is on record at once, and the next agent sends it."""
    given = [
        endless(machine, signal=heat.url()),
        counted(machine, "d2"),
    ]
    command = begun(machine, given)
    with endings.ended(command):
        tree = processes(machine, 2)
        command.kill()
        command.wait(pace.seconds(LONG))
    done = machine.agent("stop", "d1", "d2", "--yes")
    assert done.code == 0, done.err
    lines = done.out.splitlines()
    assert lines[0].startswith("d1: failed, result due: ended because it was stopped")
    assert lines[1].startswith("d2: failed: not run: it was stopped by ")
    wait_until(lambda: all(map(endings.has_ended, tree)), LONG)
    assert not heat.signals
    machine.apply(given)
    [value] = heat.values()
    assert "ended because it was stopped by " in value["deploy_stderr"]
    assert runs(machine) == ["d1"]


def test_run_that_has_ended_by_itself_keeps_its_result(machine: Machine) -> None:
    """Nobody has recorded its end yet, and a stop does not change what it was."""
    go = machine.folder / "go"
    given = [
        counted(machine, "d1", f"until [ -e {go} ]; do sleep 0.05; done; echo over")
    ]
    command = machine.start_apply(given)
    with endings.ended(command):
        wait_until(lambda: runs(machine) == ["d1"], LONG)
        command.kill()
        command.wait(pace.seconds(LONG))
    go.touch()
    log = machine.state / "runs" / "d1" / "stdout"
    wait_until(lambda: "over" in log.read_text(), LONG)
    supervisor = machine.status()["d1"]["run"].pid
    wait_until(lambda: endings.pid_has_ended(supervisor), LONG)
    done = machine.agent("stop", "d1", "--yes", "--wait")
    assert done.out == "d1: ok\n" * 2
    assert machine.apply(given).code == 0
    assert machine.agent("show", "d1", "--json").data["state"] == "ok"


def test_deployment_that_does_not_run_holds_back_all(machine: Machine) -> None:
    """Nothing is requested, and the state of the deployment is named."""
    machine.apply([counted(machine), deployment("d2", f"{SH}exit 3\n")])
    done = machine.agent("stop", "d2", "--yes")
    assert (done.code, done.out) == (1, "")
    assert done.err.startswith("error: d2 does not run: failed (")
    done = machine.agent("stop", "other", "--yes", "--json")
    assert (done.code, done.json["error"]["code"]) == (8, "not_found")
    assert not (machine.state / "asked").exists()


def test_stop_asks_before_it_ends_a_run(machine: Machine) -> None:
    """The plan and the question name what is ended; without a terminal and --yes nothing is."""
    command = begun(machine, [endless(machine)])
    with endings.ended(command):
        done = machine.agent("stop", "d1")
        assert done.code == 2
        assert "there is no terminal for the question «stop d1 (running: " in done.err
        plan = machine.agent("stop", "d1", "--plan")
        assert plan.out.splitlines()[1].split()[:4] == [
            "stop",
            "d1",
            "CREATE",
            "script",
        ]
        assert plan.out.endswith("1 deployment; nothing was done\n")
        change = machine.agent("stop", "d1", "--dry-run", "--json").data["changes"][0]
        assert (change["change"], change["name"]) == ("stop", "d1")
        assert states(machine) == ["running"]
        answer = machine.agent("stop", "d1", "--yes", "--wait", "--json")
        assert (answer.code, answer.json["kind"]) == (0, "request")
        assert (answer.data["request"], answer.data["outcome"]) == ("stop", "done")
        ends(command)


def test_run_that_takes_its_grace_outlasts_the_wait(machine: Machine) -> None:
    """The command says that it still runs, and the status that it is being ended, by whom."""
    script = counted(machine, "d1", "trap : TERM; while :; do sleep 0.1; done")
    command = machine.start_apply([script], "--grace", "600")
    with endings.ended(command):
        wait_until(lambda: runs(machine) == ["d1"], LONG)
        done = machine.agent("stop", "d1", "--yes", "--wait-for", "0")
        assert done.code == 7
        assert "d1: running" in done.err
        wait_until(
            lambda: "being ended: it was stopped by" in machine.agent("status").out,
            LONG,
        )
        wait_until(lambda: not requests.is_stop_asked(machine.state, "d1"), LONG)


# Deployments of stacks and of followed documents.


@pytest.fixture
def stacks(machine: Machine) -> Stacks:
    """The commands."""
    return Stacks(machine)


@pytest.mark.parametrize("name", ["t", "t/one", "one"])
def test_run_of_a_stack_is_ended(stacks: Stacks, name: str) -> None:
    """By any of its names; the stack has failed with that reason, and goes on with an update."""
    go = stacks.machine.folder / "go"
    path = stacks.template(stacks.script("one", f"[ -e {go} ] || exec sleep 600"))
    command = stacks.start(path)
    with endings.ended(command):
        wait_until(lambda: stacks.ran == ["one CREATE"], LONG)
        done = stacks.machine.agent("stop", name, "--yes", "--wait")
        assert (done.code, "t/one: failed" in done.out) == (0, True), done.err
        assert ends(command).code == 1
    assert stacks.state() == "CREATE_FAILED"
    [failure] = stacks("failures", "list", "t", "--json").data["failures"]
    assert failure["last_lines"][-1].startswith("ended because it was stopped by ")
    assert stacks.ran == ["one CREATE"]
    go.touch()
    stacks.apply(path)
    assert len(stacks.ran) == 2


def test_run_of_a_stack_whose_command_was_killed_is_ended(stacks: Stacks) -> None:
    """The next command of the stack takes the failure over as its result, and then runs it again."""
    go = stacks.machine.folder / "go"
    path = stacks.template(stacks.script("one", f"[ -e {go} ] || exec sleep 600"))
    command = stacks.start(path)
    with endings.ended(command):
        wait_until(lambda: stacks.ran == ["one CREATE"], LONG)
        command.kill()
        command.wait(pace.seconds(LONG))
    done = stacks.machine.command(
        "heat-config-agent",
        ["deployment", "stop", "t/one", "-y", "--state-dir", str(stacks.machine.state)],
        {},
    )
    assert done.out.startswith(
        "t/one: failed, result due: ended because it was stopped"
    )
    go.touch()
    stacks("update", "--existing", "t")
    told = stacks("event", "list", "t", "--resource", "one", "--json").data["events"]
    statuses = [each["resource_status"] for each in told]
    assert "CREATE_FAILED" in statuses
    assert statuses[-1].endswith("_COMPLETE")
    assert len(stacks.ran) == 2


def test_stack_at_rest_has_nothing_to_stop(stacks: Stacks) -> None:
    """The name of a stack stands for what runs of it."""
    stacks.apply(stacks.template(stacks.script("one")))
    done = stacks.machine.agent("stop", "t", "--yes")
    assert done.code == 8
    assert "the stack t does not have a deployment that runs or waits" in done.err


@pytest.mark.parametrize("name", ["site", "site/d1"])
def test_run_of_a_followed_document_is_ended(machine: Machine, name: str) -> None:
    """The process that follows the source takes the result as any other failure."""
    script = endless(machine)["config"]
    given = {"name": "d1", "group": "script", "config": script}
    document = machine.write([given], "site.json")
    config = machine.folder / "agent.conf"
    config.write_text(
        f"[agent]\nstate_dir = {machine.state}\n[follow site]\nurl = {document}\n"
    )
    options = ("--config", str(config))
    sync = machine.start("heat-config-agent", "source", "sync", *options)
    with endings.ended(sync):
        tree = processes(machine, 2)
        done = machine.agent("stop", name, "--yes", "--wait", *options)
        assert done.code == 0, done.err
        assert says(done, "site/d1", ENDED)
        assert ends(sync).code == 1
    wait_until(lambda: all(map(endings.has_ended, tree)), LONG)
    assert runs(machine) == ["d1"]


def test_path_of_a_request_that_cannot_be_read_is_named(machine: Machine) -> None:
    """Nothing else is held up by it."""
    folder = machine.state / "asked"
    folder.mkdir(parents=True, mode=0o700)
    machine.state.chmod(0o700)
    (folder / "d1.stop").mkdir()
    done = machine.apply([counted(machine)])
    assert (done.code, runs(machine)) == (0, ["d1"])
    assert f"cannot read the requests in {machine.state}" in done.err
    assert Path(folder / "d1.stop").is_dir()


NESTED = """\
heat_template_version: 2018-08-31
resources:
  config: {type: OS::Heat::SoftwareConfig, properties: {group: script, config: "#!/bin/sh\\nexit 3\\n"}}
  one: {type: OS::Heat::SoftwareDeployment, properties: {config: {get_resource: config}, server: here}}
"""

PARENT = """\
heat_template_version: 2018-08-31
resources:
  child: {type: child.yaml}
"""

SERVICE = """\
tosca_definitions_version: tosca_simple_yaml_1_3
topology_template:
  node_templates:
    web:
      type: tosca.nodes.SoftwareComponent
      interfaces: {Standard: {create: {implementation: run.sh}}}
"""


@pytest.mark.parametrize(
    ("name", "inner"), [("t/child", "t/child/one"), ("t/web", "t/web.create")]
)
def test_name_of_a_nested_stack_or_a_node_stands_for_what_runs_in_it(
    machine: Machine, name: str, inner: str
) -> None:
    """`log`, `retry`, `forget` and `stop` take it as they take the name of a stack."""
    (machine.folder / "child.yaml").write_text(NESTED)
    (machine.folder / "run.sh").write_text(f"{SH}echo why\nexit 3\n")
    path = machine.folder / "t.yaml"
    path.write_text(PARENT if name == "t/child" else SERVICE)
    assert machine.apply(path, seconds=LONG).code == 1
    for command in ("retry", "forget"):
        done = machine.agent(command, name, "--plan", "--json")
        assert [each["name"] for each in done.data["changes"]] == [inner]
    done = machine.agent("log", "--failed", name, "--json")
    assert [each["name"] for each in done.data["runs"]] == [inner]
    done = machine.agent("stop", name, "--yes")
    assert done.code == 8
    assert f"the resource {name} does not have a deployment that runs" in done.err
