"""heat-config-agent retry: a run, or its signal, once more."""

from __future__ import annotations

import signal

import pytest

from support import kill_points
from support.commands import counted, let_go, runs, waiting
from support.loopback import Answer, SignalServer, wait_until
from support.machine import Machine


def test_retry_runs_it_again(machine: Machine, heat: SignalServer) -> None:
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
    armed = machine.folder / "armed"
    armed.touch()
    killed = machine.apply(
        given, **kill_points.environment("journal.accepted.after", 1, armed)
    )
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
