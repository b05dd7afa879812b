"""heat-config-agent forget: the record of a deployment removed."""

from __future__ import annotations

from pathlib import Path

import pytest

from cli.window import window
from support.commands import SH, counted, runs
from support.loopback import SignalServer
from support.machine import BIN, Machine, deployment


def test_forgotten_deployment_counts_as_new(
    machine: Machine, heat: SignalServer
) -> None:
    """A forgotten deployment is unknown, and runs again if it is still in the metadata."""
    given = [counted(machine, signal=heat.url())]
    machine.apply(given)

    done = machine.agent("forget", "--yes", "d1")

    assert (done.code, done.err) == (0, "")
    assert machine.status() == {}
    assert machine.agent("show", "d1").code == 8
    machine.apply(given)
    assert runs(machine) == ["d1", "d1"]
    assert len(heat.signals) == 2


def test_forget_leaves_nothing_behind(machine: Machine) -> None:
    """All that is kept of a deployment is removed: its script, its outputs, and its secrets wherever they are."""
    script = f"{SH}echo $db_password\nprintf gr8-secret >$heat_outputs_path.out\n# gr8-secret\n"
    machine.apply(
        [
            deployment(
                "d1", script, inputs={"db_password": "gr8-secret"}, outputs=["out"]
            )
        ]
    )

    machine.agent("forget", "--yes", "d1")

    left = [path for path in machine.state.rglob("*") if path.is_file()]
    assert [path for path in left if b"gr8-secret" in path.read_bytes()] == []
    assert [path for path in left if path.name.startswith("d1")] == []


def test_failed_forget_is_not_reported_as_done(machine: Machine) -> None:
    """A deployment that cannot be forgotten is not reported as forgotten, and is forgotten once it can be."""
    machine.apply([deployment("d1")])
    mark = machine.state / "deployed" / "d1.json"
    mark.unlink()
    mark.mkdir()

    first = machine.agent("forget", "--yes", "d1")
    mark.rmdir()
    machine.agent("forget", "--yes", "d1")

    assert first.code == 10
    assert "cannot forget all of d1" in first.err
    assert machine.status() == {}
    assert not (machine.state / "runs" / "d1").exists()


@pytest.mark.parametrize("keys", [["n", "Enter"], ["Enter"], ["C-d"], ["C-c"]])
def test_declined_question_leaves_the_deployment(
    machine: Machine, keys: list[str]
) -> None:
    """The command says that nothing was done, and nothing is."""
    machine.apply([deployment("d1")])

    with window(machine.folder, forgetting(machine), machine.environment) as terminal:
        terminal.wait_for("remove everything that is kept of d1? [y/N]")
        terminal.type(*keys)
        rows = terminal.ended()

    expected = "interrupted" if keys == ["C-c"] else "nothing was done"
    assert expected in " ".join(rows)
    assert "d1" in machine.status()


def test_confirmed_question_forgets_the_deployment(machine: Machine) -> None:
    """A yes is an answer in any case of its letters."""
    machine.apply([deployment("d1")])

    with window(machine.folder, forgetting(machine), machine.environment) as terminal:
        terminal.wait_for("[y/N]")
        terminal.type("Yes", "Enter")
        terminal.ended()

    assert machine.status() == {}


def test_question_without_a_terminal_is_refused(machine: Machine) -> None:
    """Nothing is removed, and the sentence says which option answers the question."""
    machine.apply([deployment("d1")])

    done = machine.agent("forget", "d1")

    assert (done.code, done.out) == (2, "")
    assert "remove everything that is kept of d1?" in done.err
    assert "--yes" in done.err
    assert "d1" in machine.status()


def test_plan_of_forget_removes_nothing(machine: Machine) -> None:
    """It asks nothing, too."""
    machine.apply([deployment("d1")])

    done = machine.agent("forget", "d1", "--plan")

    assert (done.code, done.err) == (0, "")
    assert done.out.splitlines()[1].split()[:4] == ["forget", "d1", "CREATE", "script"]
    assert "d1" in machine.status()


def forgetting(machine: Machine) -> list[str | Path]:
    """Return the command that asks before it forgets."""
    return [
        BIN / "heat-config-agent",
        "forget",
        "--state-dir",
        machine.state,
        "d1",
    ]
