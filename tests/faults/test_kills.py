"""Killed agents, supervisors and scripts: what was accepted is run once, and its result is the truth."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import time
from collections import Counter
from pathlib import Path
from typing import Any

import psutil
import pytest

from heat_config_agent import journal, metadata, runner
from heat_config_agent.journal import Journal
from heat_config_agent.model import Document, Run, State
from heat_config_hooks import processes
from loopback import Answer, SignalServer, wait_until
from machine import Machine, deployment

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
    agent.communicate(timeout=10)
    return agent.returncode


def supervisor(machine: Machine, identity: str = "d1") -> psutil.Process:
    """Return the process that watches over a run."""
    return psutil.Process(machine.status()[identity]["process"])


def gone(process: psutil.Process) -> bool:
    """Whether a process has ended, reaped by its parent or not."""
    return not process.is_running() or process.status() == psutil.STATUS_ZOMBIE


def craft(machine: Machine, given: dict[str, Any], status: str = "-", **changes: Any) -> Path:
    """Write a state in which an agent started a run and was killed; return the run's folder.

    `status` is what the supervisor wrote. Where `changes` say nothing else, the run's process has ended.
    """
    machine.state.mkdir(mode=0o700)
    source = f"file:{machine.write([given])}"
    book = Journal(machine.state)
    accepted = metadata.parse(Document(source=source, content=[given])).deployments[0]
    folder = machine.state / "runs" / accepted.key
    mark = f"{accepted.key}.1"
    runner.folder(folder, mark)
    runner.status(folder, mark).write_text(f"{status}\n")
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


def test_killed_before_anything_is_accepted(machine: Machine, heat: SignalServer) -> None:
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


def test_killed_before_a_hook_runs(machine: Machine, heat: SignalServer) -> None:
    """What was accepted and waited for its turn when the agent was killed is run once, by the next one."""
    given = [deployment(each, script(machine, each), signal=heat.url(each)) for each in ("d1", "d2", "d3")]
    end(begin(machine, given))
    assert {each["state"] for each in machine.status().values()} == {"running", "accepted"}
    let_go(machine)

    done = machine.apply(given)

    assert done.code == 0, done.err
    assert sorted(ran(machine)) == ["d1", "d2", "d3"]
    assert [len(heat.values(each)) for each in ("d1", "d2", "d3")] == [1, 1, 1]


def test_killed_while_a_hook_runs(machine: Machine, heat: SignalServer) -> None:
    """The run of a killed agent goes on; the next agent follows that very process and signals its result once."""
    then = "echo out; echo err >&2; printf 1 >$heat_outputs_path.number; exit 3"
    given = deployment(config=script(machine, then=then), outputs=["number"], signal=heat.url())
    end(begin(machine, [given]))
    running = supervisor(machine)
    assert running.is_running()

    follower = machine.start_apply([given])
    wait_until(lambda: (machine.state / "lock").read_text().strip() == str(follower.pid))
    let_go(machine)
    follower.communicate(timeout=10)

    assert follower.returncode == 1
    assert ran(machine) == ["d1"]
    assert heat.values() == [
        {"deploy_stdout": "out\n", "deploy_stderr": "err\n", "deploy_status_code": 3, "number": "1"}
    ]


def test_a_run_that_ended_meanwhile(machine: Machine, heat: SignalServer) -> None:
    """A run that ended while no agent was there is reported with its own exit code, streams and outputs."""
    then = "echo out; printf 'a\\n' >$heat_outputs_path.text; exit 7"
    given = deployment(config=script(machine, then=then), outputs=["text"], signal=heat.url())
    end(begin(machine, [given]))
    running = supervisor(machine)
    let_go(machine)
    wait_until(lambda: gone(running))

    done = machine.apply([given])

    assert done.code == 1
    assert ran(machine) == ["d1"]
    assert heat.values() == [{"deploy_stdout": "out\n", "deploy_stderr": "", "deploy_status_code": 7, "text": "a\n"}]


def test_killed_between_result_and_signal(machine: Machine, heat: SignalServer) -> None:
    """A result that was on record when the agent was killed is sent by the next one, and nothing is run again."""
    given = deployment(config=script(machine, then="echo once"), signal=heat.url())
    heat.stop()
    let_go(machine)
    agent = machine.start_apply([given], "--deliver-for", "60")
    wait_until(lambda: machine.status().get("d1", {}).get("tries", 0) > 0)
    end(agent)
    heat.start()

    done = machine.apply([given])

    assert done.code == 0, done.err
    assert ran(machine) == ["d1"]
    assert [each["deploy_stdout"] for each in heat.values()] == ["once\n"]


def test_killed_while_the_server_thinks(machine: Machine, heat: SignalServer) -> None:
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
    given = deployment(config=script(machine).replace("until", "echo so far\nuntil"), signal=heat.url())
    agent = begin(machine, [given])
    children = supervisor(machine).children(recursive=True)
    assert children
    supervisor(machine).kill()
    agent.communicate(timeout=10)

    assert agent.returncode == 1
    assert all(gone(each) for each in children)
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
    children = watching.children(recursive=True)
    end(agent)
    watching.kill()
    wait_until(lambda: gone(watching))

    assert machine.apply([given]).code == 1
    assert machine.apply([given]).code == 0
    assert all(gone(each) for each in children)
    assert [each["deploy_status_code"] for each in heat.values()] == [INTERRUPTED]
    assert ran(machine) == ["d1"]


def test_the_script_is_killed(machine: Machine, heat: SignalServer) -> None:
    """A script that is killed is reported with what a shell says of that: 137."""
    agent = begin(machine, [deployment(config=script(machine), signal=heat.url())])
    [child] = supervisor(machine).children()
    child.kill()
    agent.communicate(timeout=10)

    assert agent.returncode == 1
    assert [each["deploy_status_code"] for each in heat.values()] == [137]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_the_agent_is_asked_to_end(machine: Machine, heat: SignalServer, number: signal.Signals) -> None:
    """An agent that is asked to end does so at once, with exit code 130; the run goes on and is picked up again."""
    given = deployment(config=script(machine), signal=heat.url())
    agent = begin(machine, [given])
    running = supervisor(machine)

    assert end(agent, number) == 130
    assert not gone(running)
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
    craft(machine, given, status, pid=stranger.pid, ticks=(processes.ticks(stranger.pid) or 0) - 1)

    done = machine.apply([given], seconds=10)

    assert done.code == 1
    assert stranger.poll() is None
    assert [each["deploy_status_code"] for each in heat.values()] == [code]
    assert ran(machine) == []


def test_the_machine_went_down(machine: Machine, heat: SignalServer) -> None:
    """A run that the machine took down with it is reported as that, even if its process number lives again."""
    stranger = machine.start("/bin/sleep", "60")
    given = deployment(config=script(machine), signal=heat.url())
    craft(machine, given, boot="another", pid=stranger.pid, ticks=processes.ticks(stranger.pid))

    done = machine.apply([given], seconds=10)

    assert done.code == 1
    assert stranger.poll() is None
    [told] = heat.values()
    assert told["deploy_status_code"] == INTERRUPTED
    assert "machine went down" in told["deploy_stderr"]
    assert ran(machine) == []


def test_the_machine_went_down_after_the_end(machine: Machine, heat: SignalServer) -> None:
    """A run that ended before the machine went down is reported with its own exit code and output."""
    given = deployment(config=script(machine), signal=heat.url())
    (craft(machine, given, "0", boot="another") / "stdout").write_text("done\n")

    assert machine.apply([given]).code == 0
    assert heat.values() == [{"deploy_stdout": "done\n", "deploy_stderr": "", "deploy_status_code": 0}]
    assert ran(machine) == []


@pytest.mark.parametrize("boot", ["another", None])
def test_an_interrupted_run_that_may_be_repeated(machine: Machine, heat: SignalServer, boot: str | None) -> None:
    """A deployment with the option `idempotent: true` is run again after an interruption, and reports that run."""
    given = deployment(config=script(machine), options={"idempotent": True}, signal=heat.url())
    craft(machine, given, **({"boot": boot} if boot else {}))
    let_go(machine)

    assert machine.apply([given]).code == 0
    assert ran(machine) == ["d1"]
    assert [each["deploy_status_code"] for each in heat.values()] == [0]


def test_killed_between_announcing_and_the_word(machine: Machine, heat: SignalServer) -> None:
    """A run that was announced and never got the agent's word has not happened: the next agent runs it, once."""
    given = deployment(config=script(machine), signal=heat.url())
    craft(machine, given, "unstarted")
    let_go(machine)

    assert machine.apply([given]).code == 0
    assert machine.apply([given]).code == 0
    assert ran(machine) == ["d1"]
    assert [each["deploy_status_code"] for each in heat.values()] == [0]


def test_the_time_limit_passes_while_no_agent_is_there(machine: Machine, heat: SignalServer) -> None:
    """A time limit counts while no agent is there, and is enforced by the next one."""
    given = deployment(config=script(machine), options={"timeout": 0.5}, signal=heat.url())
    end(begin(machine, [given]))
    running = supervisor(machine)
    children = running.children(recursive=True)
    time.sleep(0.5)

    done = machine.apply([given], seconds=8)

    assert done.code == 1
    assert all(gone(each) for each in [running, *children])
    [told] = heat.values()
    assert told["deploy_status_code"] == TIMED_OUT
    assert "time limit" in told["deploy_stderr"]
    assert ran(machine) == ["d1"]


def test_a_time_limit_outlives_the_agent_that_began_to_enforce_it(machine: Machine, heat: SignalServer) -> None:
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


KILLS = int(os.environ.get("KILLS", "40"))


def test_kills_at_random_moments(machine: Machine, heat: SignalServer) -> None:
    """Whenever it is killed: nothing runs twice or is forgotten, and no two stories are told of one deployment."""
    seed = int(os.environ.get("KILL_SEED", "0")) or random.SystemRandom().randrange(1, 10**9)
    print(f"KILL_SEED={seed}")
    chance = random.Random(seed)  # noqa: S311  # it is to be repeatable
    kills = batch = 0
    while kills < KILLS:
        batch += 1
        ids = [f"b{batch}-{number}" for number in range(5)]
        given = [
            deployment(each, f"#!/bin/sh\necho {each} >>{machine.folder}/ran\nsleep 0.03\n", signal=heat.url(each))
            for each in ids
        ]
        for _ in range(4):
            kills += kill_once(machine, given, chance)
        done = machine.apply(given)
        assert done.code in (0, 1), done.err
        check(machine, heat, ids)


def kill_once(machine: Machine, given: list[dict[str, Any]], chance: random.Random) -> bool:
    """Start the agent and kill it, or now and then a supervisor of its, at a random moment; return whether it was."""
    agent = machine.start_apply(given)
    time.sleep(chance.uniform(0.03, 0.2))
    if chance.random() < 0.2:
        for entry in journal.read(machine.state).values():
            if entry.state is State.RUNNING and entry.run and processes.alive(entry.run.pid, entry.run.ticks):
                os.kill(entry.run.pid, signal.SIGKILL)
    running = agent.poll() is None
    end(agent)
    return running


def check(machine: Machine, heat: SignalServer, ids: list[str]) -> None:
    """Hold a finished batch against what was promised."""
    times, status = Counter(ran(machine)), machine.status()
    for each in ids:
        told = heat.values(each)
        assert told, f"nothing was heard of {each}"
        assert all(one == told[0] for one in told), f"different results were signalled for {each}"
        assert status[each]["state"] == "signalled"
        if told[0]["deploy_status_code"] == INTERRUPTED:
            assert "interrupted" in told[0]["deploy_stderr"]
            assert times[each] <= 1, f"{each} ran {times[each]} times"
        else:
            assert told[0]["deploy_status_code"] == 0
            assert times[each] == 1, f"{each} ran {times[each]} times"


def test_only_what_was_chosen_is_run_again(machine: Machine) -> None:
    """A run that was interrupted and may be run again is left alone where it is not chosen."""
    text = f"#!/bin/sh\necho d1 >>{machine.folder}/ran\n"
    given = deployment(config=text, options={"idempotent": True})
    craft(machine, given)

    done = machine.apply([given, deployment("d2", "#!/bin/sh\n")], "--only", "d2")

    assert done.code == 0, done.out
    assert not (machine.folder / "ran").exists()
    assert machine.apply([given]).code == 0
    assert (machine.folder / "ran").read_text() == "d1\n"
