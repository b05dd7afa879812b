"""heat-config-agent retry: a run, or its signal, once more."""

from __future__ import annotations

import signal

import pytest

from support.commands import SH, counted, let_go, runs, waiting
from support.loopback import Answer, SignalServer, wait_until
from support.machine import Machine, deployment
from support.stories import Traps


def test_retry_runs_a_deployment_once_more(
    machine: Machine, heat: SignalServer
) -> None:
    """After `retry` the next pass runs the deployment once more and sends the new result; the one after it does not."""
    given = [counted(machine, "d1", signal=heat.url()), counted(machine, "d2")]
    machine.apply(given)

    retried = machine.agent("retry", "d1")
    assert (retried.code, retried.err) == (0, "")
    assert "d1" in retried.out
    assert machine.status()["d1"]["again"] is True
    assert "again" in machine.status()["d1"]["what"]
    assert runs(machine) == ["d1", "d2"]

    machine.apply(given)
    machine.apply(given)
    assert runs(machine) == ["d1", "d2", "d1"]
    assert len(heat.signals) == 2


def test_deployment_that_left_before_its_retry_keeps_its_result(
    machine: Machine, heat: SignalServer
) -> None:
    """A deployment that left before its second run keeps the result of the first one in the journal."""
    given = [counted(machine, "d1", signal=heat.url())]
    machine.apply(given)
    machine.agent("retry", "d1")
    traps = Traps(machine.folder, ("journal.accepted.after", 1))
    killed = machine.apply(given, **traps.environment)
    assert killed.code == -signal.SIGKILL

    machine.apply([])
    back = machine.apply(given)
    assert back.code == 0
    assert runs(machine) == ["d1"]
    assert len(heat.signals) == 1


@pytest.mark.parametrize("status", [404, 503])
def test_retry_sends_the_result_again(
    machine: Machine, heat: SignalServer, status: int
) -> None:
    """With --signal nothing is run: a result that was refused, or that waits for its time, is sent by the next pass."""
    heat.answers.append(Answer(status, {"Retry-After": "1000"}))
    given = [counted(machine, end="echo hi", signal=heat.url())]
    machine.apply(given, "--deliver-for", "0")
    machine.apply(given, "--deliver-for", "0")
    assert len(heat.signals) == 1
    heat.refuse()

    assert machine.agent("retry", "--signal", "d1").code == 0
    heat.start()
    assert machine.apply(given).code == 0

    assert runs(machine) == ["d1"]
    assert [value["deploy_stdout"] for value in heat.values()] == ["hi\n", "hi\n"]
    assert machine.status()["d1"]["state"] == "signalled"


def test_retry_has_nothing_to_send(machine: Machine) -> None:
    """A result that nobody wanted, or that has arrived, is not sent again."""
    machine.apply([counted(machine)])

    done = machine.agent("retry", "--signal", "d1")

    assert done.code == 1
    assert "cannot send the result of d1 again" in done.err


def test_delivering_an_old_failure_exits_with_zero(
    machine: Machine, heat: SignalServer
) -> None:
    """The exit code is about this run: what failed in an earlier one, and is delivered now, is well."""
    heat.always = Answer(503)
    given = [counted(machine, end="exit 3", signal=heat.url())]
    first = machine.apply(given, "--deliver-for", "0")
    still = machine.apply(given, "--deliver-for", "0")
    heat.always = Answer()

    assert (first.code, still.code, machine.apply(given).code) == (1, 5, 0)
    assert heat.values()[-1]["deploy_status_code"] == 3


def test_removed_record_of_an_interrupted_run_runs_it_again(machine: Machine) -> None:
    """Removing `ID.json` means the same whether or not the run that wrote it came to its end."""
    given = [counted(machine, "d1"), waiting(machine, "d2")]
    process = machine.start_apply(given)
    wait_until(lambda: machine.status().get("d2", {}).get("state") == "running")
    process.kill()
    process.communicate()
    let_go(machine)
    machine.apply(given)

    (machine.state / "deployed" / "d1.json").unlink()
    machine.apply(given)

    assert runs(machine).count("d1") == 2


def test_plan_of_a_retry_changes_nothing(machine: Machine) -> None:
    """The table and the JSON have each deployment with the reason, and nothing is requested."""
    machine.apply([deployment("d1", f"{SH}exit 3\n"), deployment("d2")])

    for option in ("--plan", "--dry-run"):
        done = machine.agent("retry", "d1", "d2", option)
        assert (done.code, done.err) == (0, "")
        assert done.out.splitlines()[1].split()[:4] == ["run", "d1", "CREATE", "script"]
        assert done.out.endswith("\n2 deployments; nothing was done\n")
    changes = machine.agent("retry", "d1", "--plan", "--json").data["changes"]

    assert [(each["change"], each["name"]) for each in changes] == [("run", "d1")]
    assert "exit code 3" in changes[0]["why"]
    assert [each["again"] for each in machine.status().values()] == [False, False]


def test_retry_answers_with_its_deployments(machine: Machine) -> None:
    """The JSON has the names and ids of what is requested, and the sentences about it."""
    machine.apply([deployment("d1", name="web")])

    done = machine.agent("retry", "web", "--json")

    assert (done.code, done.json["kind"]) == (0, "request")
    assert done.data["request"] == "run"
    assert [(each["name"], each["id"]) for each in done.data["deployments"]] == [
        ("web", "d1")
    ]
    assert done.data["messages"] == ["web will run again"]
    assert machine.status()["d1"]["again"] is True


def test_retry_that_waits_without_an_agent_says_so(machine: Machine) -> None:
    """The request is kept, and the command does not wait for an agent that may never come."""
    machine.apply([deployment("d1")])

    done = machine.agent("retry", "d1", "--wait")

    assert done.code == 8
    assert done.err == "error: no agent is running that could do it\n"
    assert machine.status()["d1"]["again"] is True


def test_source_stands_for_its_failed_deployments(machine: Machine) -> None:
    """The source is the file that was applied; what has succeeded is left alone."""
    path = machine.write(
        [deployment("d1", f"{SH}exit 3\n"), deployment("d2")], "a.json"
    )
    machine.apply(None, str(path))
    source = machine.status()["d1"]["source"]

    done = machine.agent("retry", source)

    assert (done.code, done.out) == (0, "d1 will run again\n")
    again = {key: each["again"] for key, each in machine.status().items()}
    assert again == {"d1": True, "d2": False}


def test_source_without_a_failed_deployment_is_not_retried(machine: Machine) -> None:
    """Its deployments are named instead."""
    path = machine.write([deployment("d1", name="web")], "a.json")
    machine.apply(None, str(path))

    done = machine.agent("retry", machine.status()["d1"]["source"])

    assert done.code == 8
    assert "does not have a failed deployment (name one of its deployments: web)" in (
        done.err
    )
