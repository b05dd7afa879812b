"""The state of every released version is taken over: `tests/samples/states` has a directory of each.

`state_samples.py` says how one is written. `test_earlier_state.py` is about what was before the first release.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path

import pytest

from heat_config_agent import __version__
from heat_config_agent.sources import learned
from heat_config_agent.sources.documents import Documents
from heat_config_agent.state import journal
from promises import state_samples
from support.loopback import SignalServer
from support.machine import Machine
from support.stacking import Stacks

SAMPLES = sorted(state_samples.STATES.iterdir())

each_sample = pytest.mark.parametrize(
    "sample", SAMPLES, ids=[each.name for each in SAMPLES]
)


def lines(path: Path) -> list[str]:
    """Return the lines of a file; none if it is missing."""
    return path.read_text().splitlines() if path.exists() else []


@each_sample
def test_released_state_is_read_completely(sample: Path) -> None:
    """Each entry of the journal, the last documents, and the learned settings are read."""
    state = sample / "state"
    assert {
        key: entry.state.value for key, entry in journal.read(state).items()
    } == state_samples.STATES_OF
    documents = Documents(state)
    assert (documents.warnings, list(documents.held)) == ([], ["request"])
    taught, trouble = learned.load(state, change=False)
    assert (taught is not None, trouble) == (True, "")


@each_sample
@pytest.mark.fault(
    1,
    "an upgrade from any released version, killed while a deployment ran, results waited and others had not begun",
    "nothing runs twice; what waited is delivered once, what was cut short as a failure; what had not begun runs",
)
def test_nothing_runs_twice_and_results_are_delivered(
    sample: Path, machine: Machine, heat: SignalServer
) -> None:
    """Results that waited arrive once, and only the deployment runs that had not begun."""
    deployments = state_samples.place(sample, machine, heat)

    done = machine.apply({"deployments": deployments})

    assert "damaged" not in done.err
    assert lines(machine.folder / "ran") == ["queued"]
    codes = {
        name: [each["deploy_status_code"] for each in heat.values(name)]
        for name in state_samples.STATES_OF
    }
    cut_short = codes.pop("cut-short")
    assert len(cut_short) == 1
    assert cut_short[0] != 0
    assert {name: found for name, found in codes.items() if found} == {
        "waiting": [0],
        "queued": [0],
    }
    assert heat.values("waiting")[0]["answer"] == "of waiting"
    states = {
        key: entry.state.value for key, entry in journal.read(machine.state).items()
    }
    now_delivered = dict.fromkeys(("waiting", "cut-short", "queued"), "signalled")
    assert states == {**state_samples.STATES_OF, **now_delivered}
    assert machine.apply({"deployments": deployments}).err == ""
    assert Counter(lines(machine.folder / "ran")) == {"queued": 1}
    assert len(heat.signals) == 3


@each_sample
def test_stacks_go_on(sample: Path, machine: Machine, heat: SignalServer) -> None:
    """Unchanged resources do not run again, each stack can be updated and deleted, and followed sources are known."""
    state_samples.place(sample, machine, heat)
    stacks = Stacks(machine)
    listed = stacks("list")
    assert listed.err == ""
    assert {name: stacks.state(name) for name in state_samples.STACKS} == dict.fromkeys(
        state_samples.STACKS, "CREATE_COMPLETE"
    )
    template = machine.write(state_samples.hot(machine), "site.yaml")
    stacks("update", "site", "-t", str(template))
    assert lines(machine.folder / "site.log") == []
    stacks("update", "site", "-t", str(template), "--parameter", "colour=blue")
    assert lines(machine.folder / "site.log") == ["create blue"]
    words = (
        "-t",
        str(state_samples.NOTES),
        "--input",
        f"folder={machine.folder}/notes",
    )
    stacks("update", "notes", *words)
    assert not (machine.folder / "notes").exists(), "an operation ran again"

    followed = json.loads((machine.state / "follow/web/record.json").read_text())
    settings = f"[agent]\nstate_dir = {machine.state}\n[follow web]\nurl = file:///gone\npath = stack.yaml\n"
    config = machine.write(settings, "agent.conf")
    shown = machine.agent("status", "--json", "--config", str(config)).data["sources"]
    assert [(each["name"], each["revision"]) for each in shown] == [
        ("web", followed["revision"])
    ]

    (machine.folder / "notes").mkdir()  # as the operation of that day has done
    for name in state_samples.STACKS:
        assert (
            f"stack {name}: ok (DELETE_COMPLETE)" in stacks("delete", name, "--yes").out
        )
    assert stacks("list").out.splitlines()[1:] == []
    assert not (machine.folder / "notes").exists()


def test_a_release_has_its_sample() -> None:
    """The state that a version writes is here from the day of its release."""
    if not re.fullmatch(r"[\d.]+", __version__):
        pytest.skip(f"{__version__} is no release")
    assert __version__ in {each.name for each in SAMPLES}, (
        "PYTHONPATH=tests python -m promises.state_samples writes it"
    )
