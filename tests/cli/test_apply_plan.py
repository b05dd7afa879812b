"""heat-config-apply --plan: what would be done, and why; nothing is run."""

from __future__ import annotations

import pytest

from support.commands import counted, runs
from support.loopback import Answer, SignalServer
from support.machine import Machine, deployment


@pytest.mark.parametrize("as_json", [False, True])
def test_a_plan_runs_nothing(
    machine: Machine, heat: SignalServer, as_json: bool
) -> None:
    """Each step is shown with its reason; nothing is run, sent or written, not even the state directory."""
    given = [
        counted(machine, "first", name="web", signal=heat.url()),
        deployment("second", group="no-such-tool", signal=heat.url()),
        deployment("third", {"configs": []}, group="component", signal=heat.url()),
        deployment("fourth", group="Heat::Ungrouped"),
    ]

    planned = machine.apply(given, "--plan", *(["--json"] if as_json else []))

    assert planned.code == 0
    assert runs(machine) == []
    assert heat.signals == []
    assert not machine.state.exists()
    if as_json:
        steps = planned.data["changes"]
        assert [(each["id"], each["change"]) for each in steps] == [
            ("first", "run"),
            ("second", "fail"),
            ("third", "skip"),
            ("fourth", "skip"),
        ]
        assert [each["tool"] for each in steps] == [
            "script",
            "no-such-tool",
            "component",
            "Heat::Ungrouped",
        ]
        assert all(each["why"] for each in steps)
        assert planned.data["mistakes"] == []
    else:
        header, first, second, third, fourth, _, summary = planned.out.splitlines()
        assert header.split() == ["CHANGE", "NAME", "ACTION", "TOOL", "WHY"]
        assert first.split()[:4] == ["run", "web", "CREATE", "script"]
        assert "no hook for the tool 'no-such-tool'" in second
        assert "nothing was run" in third
        assert fourth.startswith("skip")
        assert summary.startswith(
            "1 to run, 1 fails, 2 skipped; nothing was done (`heat-"
        )


def test_plan_after_a_run_skips_finished_work(
    machine: Machine, heat: SignalServer
) -> None:
    """After a run the plan is to skip what is settled and to send what was not delivered."""
    heat.answers.append(Answer(503))
    component = {
        "configs": [{"actions": ["CREATE"], "tool": "script", "config": "#!/bin/sh\n"}]
    }
    given = [
        counted(machine, "d1", signal=heat.url()),
        counted(machine, "d2"),
        deployment("c1", component, group="component"),
    ]
    machine.apply(given, "--deliver-for", "0")

    steps = machine.apply([*given, counted(machine, "d3")], "--plan", "--json").data[
        "changes"
    ]

    assert [each["change"] for each in steps] == ["send", "skip", "skip", "run"]
    assert steps[2]["tool"] == "script", "it is the tool that ran, as when it ran"
    assert "503" in steps[0]["why"]
    assert len(heat.signals) == 1


def test_a_plan_names_mistakes(machine: Machine) -> None:
    """A plan shows the mistakes of a document with their paths, and exits with 1."""
    planned = machine.apply(
        {"deployments": [{"id": "a", "inputs": [{"value": 1}]}, 5]}, "--plan", "--json"
    )

    assert planned.code == 1
    assert [each["path"] for each in planned.data["mistakes"]] == [
        "deployments[0].inputs[0].name",
        "deployments[1]",
    ]
    assert all(each["problem"] for each in planned.data["mistakes"])
