"""Killed agents, supervisors and scripts: what was accepted is run once, and its result is the truth."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import psutil
import pytest

from heat_config_agent.deployments import metadata
from heat_config_agent.model.deployment import Document
from heat_config_agent.model.entry import Run
from heat_config_agent.runs import run_folder
from heat_config_agent.state.journal import Journal
from heat_config_hooks import processes
from support import endings, pace
from support.loopback import Answer, SignalServer, wait_until
from support.machine import Machine, deployment
from support.stories import Traps

pytestmark = pytest.mark.takes(20)

INTERRUPTED = 125
TIMED_OUT = 124


def script(machine: Machine, identity: str = "d1", then: str = "") -> str:
    """Return a script that counts its runs and then waits until it is let go."""
    go = machine.folder / "go"
    return f"#!/bin/sh\necho {identity} >>{machine.folder}/ran\nuntil [ -e {go} ]; do sleep 0.02; done\n{then}\n"


def ran(machine: Machine) -> list[str]:
    """Return the ids of the scripts that ran, once for each time."""
    path = machine.folder / "ran"
    return path.read_text().split() if path.exists() else []


def let_go(machine: Machine) -> None:
    """Let the scripts end."""
    (machine.folder / "go").touch()


def begin(machine: Machine, document: object, *arguments: str) -> subprocess.Popen[str]:
    """Start the agent and wait until the first script runs."""
    agent = machine.start_apply(document, *arguments)
    wait_until(lambda: bool(ran(machine)))
    return agent


def end(agent: subprocess.Popen[str], number: int = signal.SIGKILL) -> int:
    """End the agent with a signal and return its exit code."""
    agent.send_signal(number)
    agent.communicate(timeout=pace.seconds(10))
    return agent.returncode


def supervisor(machine: Machine, identity: str = "d1") -> psutil.Process:
    """Return the process that watches over a run."""
    return psutil.Process(machine.status()[identity]["process"])


def craft(
    machine: Machine, given: dict[str, Any], status: str = "-", **changes: Any
) -> Path:
    """Write a state in which an agent started a run and was killed; return the run's folder.

    `status` is what the supervisor wrote. Where `changes` say nothing else, the run's process has ended.
    """
    machine.state.mkdir(mode=0o700)
    source = f"file:{machine.write([given])}"
    book = Journal(machine.state)
    accepted = metadata.parse(Document(source=source, content=[given])).deployments[0]
    folder = machine.state / "runs" / accepted.key
    mark = f"{accepted.key}.1"
    run_folder.make(folder, mark)
    run_folder.status(folder, mark).write_text(f"{status}\n")
    about = {
        "mark": mark,
        "boot": processes.boot_id(),
        "pid": os.getpid(),
        "ticks": 1,
        "began": processes.since_boot(),
        "limit": None,
        "hook": "builtin:script",
        "working": str(machine.state / "heat-config-script"),
        "outputs": str(machine.state / "run" / "heat-config-script"),
        **changes,
    }
    book.accepted(accepted, tool="script")
    book.running(accepted.key, Run(**about))
    book.close()
    return folder


def test_killed_before_anything_is_accepted(
    machine: Machine, heat: SignalServer
) -> None:
    """An agent that is killed while it still reads its document leaves everything to the next one."""
    pipe = machine.folder / "document.json"
    os.mkfifo(pipe)
    agent = machine.start_apply(pipe)
    time.sleep(0.2)
    end(agent)
    pipe.unlink()
    let_go(machine)

    done = machine.apply([deployment(config=script(machine), signal=heat.url())])

    assert done.code == 0, done.err
    assert ran(machine) == ["d1"]
    assert [each["deploy_status_code"] for each in heat.values()] == [0]


def test_killed_while_a_hook_runs(machine: Machine, heat: SignalServer) -> None:
    """The run of a killed agent goes on; the next agent follows that very process and signals its result once."""
    then = "echo out; echo err >&2; printf 1 >$heat_outputs_path.number; exit 3"
    given = deployment(
        config=script(machine, then=then), outputs=["number"], signal=heat.url()
    )
    end(begin(machine, [given]))
    running = supervisor(machine)
    assert running.is_running()

    follower = machine.start_apply([given])
    wait_until(
        lambda: (machine.state / "lock").read_text().strip() == str(follower.pid)
    )
    let_go(machine)
    follower.communicate(timeout=pace.seconds(10))

    assert follower.returncode == 1
    assert ran(machine) == ["d1"]
    assert heat.values() == [
        {
            "deploy_stdout": "out\n",
            "deploy_stderr": "err\n",
            "deploy_status_code": 3,
            "number": "1",
        }
    ]


def test_run_that_ended_without_an_agent_is_reported(
    machine: Machine, heat: SignalServer
) -> None:
    """A run that ended while no agent was there is reported with its own exit code, streams and outputs."""
    then = "echo out; printf 'a\\n' >$heat_outputs_path.text; exit 7"
    given = deployment(
        config=script(machine, then=then), outputs=["text"], signal=heat.url()
    )
    end(begin(machine, [given]))
    running = supervisor(machine)
    let_go(machine)
    wait_until(lambda: endings.has_ended(running))

    done = machine.apply([given])

    assert done.code == 1
    assert ran(machine) == ["d1"]
    assert heat.values() == [
        {
            "deploy_stdout": "out\n",
            "deploy_stderr": "",
            "deploy_status_code": 7,
            "text": "a\n",
        }
    ]


def test_unanswered_result_is_sent_again_after_a_kill(
    machine: Machine, heat: SignalServer
) -> None:
    """A result whose request was unanswered when the agent was killed is sent again, the same byte for byte."""
    given = deployment(config=script(machine, then="date +%N"), signal=heat.url())
    heat.answers.append(Answer(delay=30))
    let_go(machine)
    agent = machine.start_apply([given])
    heat.wait_for(1)
    end(agent)

    done = machine.apply([given])

    assert done.code == 0, done.err
    assert ran(machine) == ["d1"]
    assert len(heat.signals) == 2
    assert heat.signals[0].body == heat.signals[1].body


def test_the_supervisor_is_killed(machine: Machine, heat: SignalServer) -> None:
    """A run whose supervisor is killed is reported as interrupted, with what it printed, and its processes end."""
    given = deployment(
        config=script(machine).replace("until", "echo so far\nuntil"), signal=heat.url()
    )
    agent = begin(machine, [given])
    children = endings.children(supervisor(machine), recursive=True)
    assert children
    supervisor(machine).kill()
    agent.communicate(timeout=pace.seconds(10))

    assert agent.returncode == 1
    assert all(endings.has_ended(each) for each in children)
    [told] = heat.values()
    assert told["deploy_status_code"] == INTERRUPTED
    assert "interrupted" in told["deploy_stderr"]
    assert told["deploy_stdout"] == "so far\n"
    assert machine.apply([given]).code == 0
    assert ran(machine) == ["d1"]


def test_agent_and_supervisor_are_killed(machine: Machine, heat: SignalServer) -> None:
    """Where both are killed, the next agent ends what is left of the run and reports it as interrupted, once."""
    given = deployment(config=script(machine), signal=heat.url())
    agent = begin(machine, [given])
    watching = supervisor(machine)
    children = endings.children(watching, recursive=True)
    end(agent)
    watching.kill()
    wait_until(lambda: endings.has_ended(watching))

    assert machine.apply([given]).code == 1
    assert machine.apply([given]).code == 0
    assert all(endings.has_ended(each) for each in children)
    assert [each["deploy_status_code"] for each in heat.values()] == [INTERRUPTED]
    assert ran(machine) == ["d1"]


def test_the_script_is_killed(machine: Machine, heat: SignalServer) -> None:
    """A script that is killed is reported with what a shell says of that: 137."""
    agent = begin(machine, [deployment(config=script(machine), signal=heat.url())])
    [child] = supervisor(machine).children()
    child.kill()
    agent.communicate(timeout=pace.seconds(10))

    assert agent.returncode == 1
    assert [each["deploy_status_code"] for each in heat.values()] == [137]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_the_agent_is_asked_to_end(
    machine: Machine, heat: SignalServer, number: signal.Signals
) -> None:
    """An agent that is asked to end does so at once, with exit code 130; the run goes on and is picked up again."""
    given = deployment(config=script(machine), signal=heat.url())
    agent = begin(machine, [given])
    running = supervisor(machine)

    assert end(agent, number) == 130
    assert not endings.has_ended(running)
    assert not heat.signals
    let_go(machine)
    assert machine.apply([given]).code == 0
    assert ran(machine) == ["d1"]
    assert [each["deploy_status_code"] for each in heat.values()] == [0]


@pytest.mark.parametrize(("status", "code"), [("-", INTERRUPTED), ("4", 4)])
def test_another_process_has_the_number_of_the_run(
    machine: Machine, heat: SignalServer, status: str, code: int
) -> None:
    """A process that has the run's number now is neither followed nor ended; what the run left says how it ended."""
    stranger = machine.start("/bin/sleep", "60")
    given = deployment(config=script(machine), signal=heat.url())
    craft(
        machine,
        given,
        status,
        pid=stranger.pid,
        ticks=(processes.ticks(stranger.pid) or 0) - 1,
    )

    done = machine.apply([given], seconds=10)

    assert done.code == 1
    assert stranger.poll() is None
    assert [each["deploy_status_code"] for each in heat.values()] == [code]
    assert ran(machine) == []


def test_run_that_the_machine_took_down_is_reported_as_such(
    machine: Machine, heat: SignalServer
) -> None:
    """A run that the machine took down with it is reported as that, even if its process number lives again."""
    stranger = machine.start("/bin/sleep", "60")
    given = deployment(config=script(machine), signal=heat.url())
    craft(
        machine,
        given,
        boot="another",
        pid=stranger.pid,
        ticks=processes.ticks(stranger.pid),
    )

    done = machine.apply([given], seconds=10)

    assert done.code == 1
    assert stranger.poll() is None
    [told] = heat.values()
    assert told["deploy_status_code"] == INTERRUPTED
    assert "machine went down" in told["deploy_stderr"]
    assert ran(machine) == []


def test_the_machine_went_down_after_the_end(
    machine: Machine, heat: SignalServer
) -> None:
    """A run that ended before the machine went down is reported with its own exit code and output."""
    given = deployment(config=script(machine), signal=heat.url())
    (craft(machine, given, "0 flushed", boot="another") / "stdout").write_text("done\n")

    assert machine.apply([given]).code == 0
    assert heat.values() == [
        {"deploy_stdout": "done\n", "deploy_stderr": "", "deploy_status_code": 0}
    ]
    assert ran(machine) == []


@pytest.mark.fault(
    2,
    "the power goes before the output of a run that had ended was flushed",
    "interrupted, no success",
)
@pytest.mark.parametrize(
    ("status", "outputs"), [("0", []), ("0 flu", []), ("0 flushed", ["number"])]
)
def test_outputs_lost_with_the_machine_are_a_failure(
    machine: Machine, heat: SignalServer, status: str, outputs: list[str]
) -> None:
    """A run of which only the exit code has come through fails: its outputs might have said another thing."""
    given = deployment(config=script(machine), outputs=outputs, signal=heat.url())
    craft(machine, given, status, boot="another")

    assert machine.apply([given]).code == 1
    [told] = heat.values()
    assert told["deploy_status_code"] == INTERRUPTED
    assert (
        "the machine went down before its output was safe on disk"
        in told["deploy_stderr"]
    )
    assert ran(machine) == []


def test_run_that_ends_without_an_agent_is_flushed(
    machine: Machine, heat: SignalServer
) -> None:
    """The supervisor says that it is, so that the next boot can rely on it; what an agent sees end needs no flush."""
    given = [
        deployment(each, script(machine, each), signal=heat.url(each))
        for each in ("d1", "d2")
    ]
    agent = begin(machine, given)
    running = supervisor(machine)
    end(agent)
    let_go(machine)
    wait_until(lambda: endings.has_ended(running))
    assert machine.apply(given).code == 0
    found = {
        each: [path.read_text().split("\n")[0] for path in status_files(machine, each)]
        for each in ("d1", "d2")
    }
    assert found == {"d1": ["0 flushed"], "d2": ["0"]}


def status_files(machine: Machine, identity: str) -> list[Path]:
    """Return the files in which the ends of a deployment's runs are."""
    return list((machine.state / "runs" / identity).glob("status.*"))


@pytest.mark.parametrize("boot", ["another", None])
def test_idempotent_run_is_repeated_after_an_interruption(
    machine: Machine, heat: SignalServer, boot: str | None
) -> None:
    """A deployment with the option `idempotent: true` is run again after an interruption, and reports that run."""
    given = deployment(
        config=script(machine), options={"idempotent": True}, signal=heat.url()
    )
    craft(machine, given, **({"boot": boot} if boot else {}))
    let_go(machine)

    assert machine.apply([given]).code == 0
    assert ran(machine) == ["d1"]
    assert [each["deploy_status_code"] for each in heat.values()] == [0]


def test_the_time_limit_passes_while_no_agent_is_there(
    machine: Machine, heat: SignalServer
) -> None:
    """A time limit counts while no agent is there, and is enforced by the next one."""
    given = deployment(
        config=script(machine), options={"timeout": 0.5}, signal=heat.url()
    )
    end(begin(machine, [given]))
    running = supervisor(machine)
    children = endings.children(running, recursive=True)
    time.sleep(0.5)

    done = machine.apply([given], seconds=8)

    assert done.code == 1
    assert all(endings.has_ended(each) for each in [running, *children])
    [told] = heat.values()
    assert told["deploy_status_code"] == TIMED_OUT
    assert "timed out after" in told["deploy_stderr"]
    assert ran(machine) == ["d1"]


def test_a_time_limit_outlives_the_agent_that_began_to_enforce_it(
    machine: Machine, heat: SignalServer
) -> None:
    """A run that ignores TERM, and whose agent is killed while it waits for its end, is killed by the next agent."""
    stubborn = script(machine).replace("until", "trap : TERM\nuntil")
    given = deployment(config=stubborn, options={"timeout": 0.3}, signal=heat.url())
    agent = begin(machine, [given], "--grace", "30")
    wait_until(lambda: "being ended" in machine.status()["d1"]["what"])
    end(agent)

    done = machine.apply([given], "--grace", "0.3", seconds=10)

    assert done.code == 1
    assert [each["deploy_status_code"] for each in heat.values()] == [TIMED_OUT]
    assert machine.processes() == []


@pytest.mark.fault(
    3,
    "the agent is killed when it has begun to end a run, and the run's supervisor with it",
    "the next agent ends what is left of the run",
)
def test_the_agent_and_the_supervisor_are_killed_when_the_time_limit_is_over(
    machine: Machine, heat: SignalServer
) -> None:
    """A run that the killed agent was ending is ended by the next one, also without its supervisor."""
    given = deployment(
        config=script(machine), options={"timeout": 0.3}, signal=heat.url()
    )
    traps = Traps(machine.folder, ("runner.ending", 1))
    killed = machine.apply([given], **traps.environment)
    assert killed.code == -signal.SIGKILL
    watching = supervisor(machine)
    watching.kill()
    wait_until(lambda: endings.has_ended(watching))

    assert machine.apply([given]).code == 1
    assert [each["deploy_status_code"] for each in heat.values()] == [TIMED_OUT]
    wait_until(lambda: machine.processes() == [])


@pytest.mark.fault(
    4,
    "the agent is killed before it could remove what a run was given, and the deployment is replaced then",
    "the next agent removes it",
)
@pytest.mark.parametrize(
    "point", ["runner.prepared", "journal.finished.after", "journal.drop.before"]
)
def test_inputs_of_a_killed_agent_are_removed_later(
    machine: Machine, heat: SignalServer, point: str
) -> None:
    """The inputs of a run, which may be secrets, are removed even if the deployment has left the metadata."""
    given = deployment(
        config=f"#!/bin/sh\necho d1 >>{machine.folder}/ran\n",
        inputs={"a": "b"},
        signal=heat.url(),
    )
    first = "runner.prepared" if point == "journal.drop.before" else point
    traps = Traps(machine.folder, (first, 1))
    machine.apply([given], **traps.environment)
    assert list(machine.state.rglob("inputs.json")) != []
    if first != point:
        traps = Traps(machine.folder, (point, 1))
        machine.apply([], **traps.environment)
    assert not traps.left

    assert machine.apply([]).code == 0
    assert list(machine.state.rglob("inputs.json")) == []
    assert heat.signals == []


def test_interrupted_run_that_is_not_chosen_is_left_alone(machine: Machine) -> None:
    """A run that was interrupted and may be run again is left alone where it is not chosen."""
    text = f"#!/bin/sh\necho d1 >>{machine.folder}/ran\n"
    given = deployment(config=text, options={"idempotent": True})
    craft(machine, given)

    done = machine.apply([given, deployment("d2", "#!/bin/sh\n")], "--only", "d2")

    assert done.code == 0, done.out
    assert not (machine.folder / "ran").exists()
    assert machine.apply([given]).code == 0
    assert (machine.folder / "ran").read_text() == "d1\n"
