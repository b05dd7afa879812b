from __future__ import annotations

from typing import Any

import pytest

from heat_config_agent.deployments import cleanup, metadata, plan
from heat_config_agent.deployments.cleanup import Due
from heat_config_agent.deployments.plan import Known, Verb
from heat_config_agent.model.deployment import Deployment, Document
from heat_config_agent.model.entry import Entry, State
from heat_config_agent.model.policy import Policy
from heat_config_agent.runs.tools import Tools
from heat_config_hooks.values import replace
from support import entries
from support.machine import deployment

NOW = 5000.0


def parse(*entries: object) -> list[Deployment]:
    """Return the deployments of a document of the source «site»."""
    return list(
        metadata.parse(Document(source="site", content=list(entries))).deployments
    )


def made(identity: str, tool: str = "docker-cmd", **fields: Any) -> dict[str, Any]:
    """Return a deployment that makes something."""
    return deployment(identity, {}, group=tool, **fields)


def entry(
    given: dict[str, Any], state: State = State.SIGNALLED, **fields: Any
) -> Entry:
    """Return what the journal knows of a deployment that was run."""
    (deployment,) = parse(given)
    run = entries.run_of(fields.pop("hook", f"builtin:{deployment.group}"))
    usual = {"started": 1000.0, "ended": 1001.0, "run": run, "values": None}
    return entries.entry(deployment, state, **{**usual, **fields})


def due(
    present: list[dict[str, Any]], *entries: Entry, sources: tuple[str, ...] = ("site",)
) -> Due:
    """Return what has left, and what is back."""
    return cleanup.due(
        parse(*present), sources, {each.key: each for each in entries}, NOW
    )


def left(
    *entries: Entry, present: tuple[dict[str, Any], ...] = (), **fields: Any
) -> list[str]:
    """Return the ids of the cleanups."""
    return [each.id for each in due(list(present), *entries, **fields).left]


def test_departed_deployment_is_cleaned_up() -> None:
    """By a deployment with its tool and name, which says whose place it clears and asks for no signal."""
    (found,) = due([], entry(made("a", name="web"))).left
    assert (found.id, found.name, found.group, found.action) == (
        "a-left",
        "web",
        "docker-cmd",
        "(left)",
    )
    assert found.document["heat_config_left"] == "a"
    assert not found.target.wanted
    assert not found.mistakes


def test_current_deployment_is_not_cleaned_up() -> None:
    """A deployment in the metadata is not cleaned up, whatever its outcome was."""
    assert due([made("a")], entry(made("a"), failed=True)) == Due()


@pytest.mark.parametrize(
    "state",
    [State.FINISHED, State.SIGNALLED, State.UNASKED, State.REFUSED, State.SUPERSEDED],
)
def test_failed_or_unsent_deployment_is_cleaned_up(state: State) -> None:
    """A deployment is cleaned up whatever its outcome was."""
    assert left(entry(made("a"), state, failed=True)) == ["a-left"]


def test_nothing_is_known_of_a_source_that_did_not_answer() -> None:
    """An empty document and none are not the same."""
    assert left(entry(made("a")), sources=()) == []
    assert left(entry(made("a")), sources=("other",)) == []


def test_a_run_comes_to_its_end_first() -> None:
    """A running deployment is cleaned up at the pass after its end."""
    assert left(entry(made("a"), State.RUNNING)) == []


def test_deployment_that_never_ran_needs_no_cleanup() -> None:
    """A deployment that never ran, or was answered without running, needs no cleanup."""
    assert left(entry(made("a"), State.ACCEPTED, run=None)) == []
    assert left(entry(made("a"), run=None)) == []


def test_interrupted_deployment_is_cleaned_up() -> None:
    """An interrupted deployment is cleaned up, because its earlier run is known."""
    assert left(entry(made("a"), State.ACCEPTED)) == ["a-left"]


def test_a_delete_of_its_own_was_clean_up_enough() -> None:
    """A deployment with a DELETE of its own needs no cleanup."""
    assert left(entry(made("a", action="DELETE"))) == []


@pytest.mark.parametrize("tool", ["script", "ansible", "unheard-of"])
def test_most_tools_leave_nothing(tool: str) -> None:
    """Only those that say so."""
    assert left(entry(made("a", tool))) == []


def test_foreign_hooks_get_no_cleanup() -> None:
    """The hook that ran the deployment decides, not the one that would run it today."""
    assert left(entry(made("a"), hook="/hooks/docker-cmd")) == []
    assert left(entry(made("a", "docker.cmd"), hook="builtin:docker-cmd")) == ["a-left"]


def test_a_project_lives_as_long_as_its_name() -> None:
    """An update is another deployment of the same name."""
    old, new = (
        made("a", "docker-compose", name="web"),
        made("b", "docker-compose", name="web"),
    )
    assert left(entry(old), present=(new,)) == []
    assert left(entry(old), present=(made("b", "docker-compose", name="db"),)) == [
        "a-left"
    ]
    assert left(entry(old), present=(made("b", "script", name="web"),)) == ["a-left"]


def test_a_component_keeps_what_its_other_actions_made() -> None:
    """An action with another tool removes nothing of the one before; its DELETE does."""
    configs = [
        {"actions": ["CREATE", "RESUME"], "tool": "docker-compose", "config": "x"},
        {"actions": ["UPDATE"], "tool": "docker-cmd", "config": "x"},
        {"actions": ["SUSPEND", "DELETE"], "tool": "script", "config": "x"},
    ]

    def component(identity: str, action: str) -> dict[str, Any]:
        return deployment(
            identity, {"configs": configs}, group="component", name="web", action=action
        )

    project = entry(component("a", "CREATE"), hook="builtin:docker-compose")
    containers = entry(component("b", "UPDATE"), hook="builtin:docker-cmd")
    assert left(project, containers, present=(component("c", "SUSPEND"),)) == []
    assert left(project, containers, present=(component("c", "UPDATE"),)) == ["b-left"]
    assert left(project, containers, present=(component("c", "DELETE"),)) == ["b-left"]
    assert left(project, containers, present=(made("c", name="web"),)) == [
        "a-left",
        "b-left",
    ]
    assert left(
        project, containers, present=(component("c", "SUSPEND") | {"name": "db"},)
    ) == ["a-left", "b-left"]


def test_a_name_is_cleaned_up_once() -> None:
    """A name that several deployments had is cleaned up once, by the last one."""
    old, new = (
        made("a", "docker-compose", name="web"),
        made("b", "docker-compose", name="web"),
    )
    assert left(entry(old, accepted=1.0), entry(new, accepted=2.0)) == ["b-left"]
    assert left(entry(new, accepted=2.0), entry(old, accepted=1.0)) == ["b-left"]
    assert left(entry(old, accepted=1.0), entry(replaced(new), accepted=2.0)) == []
    done = cleaned(new)
    assert left(entry(old, accepted=1.0), entry(new, accepted=2.0), done) == []
    assert due([old], entry(old, accepted=1.0), entry(new, accepted=2.0), done) == Due(
        [], {"a"}
    )


def replaced(given: dict[str, Any]) -> dict[str, Any]:
    """Return a deployment's DELETE."""
    return deployment(
        given["id"], {}, group=given["group"], name=given["name"], action="DELETE"
    )


def cleaned(
    given: dict[str, Any], state: State = State.UNASKED, **fields: Any
) -> Entry:
    """Return what the journal knows of a cleanup."""
    (found,) = due([], entry(given)).left
    own = {
        "key": found.key,
        "id": found.id,
        "action": found.action,
        "document": found.document,
        "accepted": 2000.0,
    }
    return replace(entry(given, state), **{**own, **fields})


def test_a_clean_up_that_went_well_is_done() -> None:
    """A successful cleanup is not repeated, even if the journal has lost its inputs."""
    assert left(entry(made("a")), cleaned(made("a"))) == []
    assert left(entry(made("a")), cleaned(made("a"), document={})) == []


@pytest.mark.parametrize(
    ("ended", "again"), [(NOW - 299, False), (NOW - 301, True), (NOW + 1000, True)]
)
def test_a_clean_up_that_failed_is_tried_again_after_a_while(
    ended: float, again: bool
) -> None:
    """A failed cleanup is retried after a pause, also when the clock was wrong."""
    failed = cleaned(made("a"), failed=True, ended=ended)
    found = due([], entry(made("a")), failed).left
    assert [each.id for each in found] == (["a-left"] if again else [])
    if again:
        tools = Tools(())
        known = Known(entries={failed.key: failed}, tools=tools.installed(), now=NOW)
        (step,) = plan.make(found, known)
        assert (step.verb, step.reason) == (
            Verb.RUN,
            "the cleanup failed, so it is retried",
        )
        assert step.job is not None
        assert step.job.tool.builtin


@pytest.mark.parametrize("state", [State.ACCEPTED, State.RUNNING, State.FINISHED])
def test_a_clean_up_that_is_not_over_goes_on(state: State) -> None:
    """As any deployment that is still wanted."""
    assert left(entry(made("a")), cleaned(made("a"), state)) == ["a-left"]


def test_returned_deployment_runs_again() -> None:
    """A gap in the metadata must not leave a machine without what it should have."""
    assert due([made("a")], entry(made("a")), cleaned(made("a"))) == Due([], {"a"})
    assert due([made("a")], entry(made("a")), cleaned(made("a"), failed=True)) == Due(
        [], {"a"}
    )
    tools = Tools(())
    known = Known(
        entries={"a": entry(made("a"))}, tools=tools.installed(), now=NOW, back={"a"}
    )
    (step,) = plan.make(parse(made("a")), known)
    assert (step.verb, step.reason) == (
        Verb.RUN,
        "it is back in the metadata after its cleanup",
    )


def test_a_clean_up_is_of_one_life() -> None:
    """A deployment that was accepted after a cleanup gets another cleanup when it leaves."""
    again = entry(made("a"), accepted=3000.0)
    assert due([made("a")], again, cleaned(made("a"))) == Due()
    assert left(again, cleaned(made("a"))) == ["a-left"]


def test_cleanup_is_dropped_if_the_deployment_returns_first() -> None:
    """The cleanup is dropped; one that runs is followed to its end first."""
    assert (
        due([made("a")], entry(made("a")), cleaned(made("a"), State.ACCEPTED, run=None))
        == Due()
    )
    assert (
        due([made("a")], entry(made("a")), cleaned(made("a"), State.RUNNING)) == Due()
    )


def test_deployment_that_returns_after_a_failed_cleanup_runs() -> None:
    """The first try has perhaps removed half of it."""
    assert due(
        [made("a")], entry(made("a")), cleaned(made("a"), State.ACCEPTED)
    ) == Due([], {"a"})


def test_an_id_that_looks_like_a_clean_up_is_none() -> None:
    """No id has the key of one."""
    lookalike = entry(deployment("a-left", "x"))
    assert (
        due([made("a"), deployment("a-left", "x")], entry(made("a")), lookalike)
        == Due()
    )
    assert left(entry(made("a")), lookalike, present=(deployment("a-left", "x"),)) == [
        "a-left"
    ]


@pytest.mark.parametrize(
    "fields",
    [
        {"action": "(left)"},
        {"action": "(left)", "group": "no-such-tool"},
        {"action": "(left)", "group": "../script"},
        {"heat_config_left": "a"},
        {"heat_config_left": ""},
        {
            "config": {
                "configs": [{"actions": ["(left)"], "tool": "script", "config": "x"}]
            },
            "group": "component",
        },
    ],
)
def test_no_document_asks_for_a_cleanup(fields: dict[str, Any]) -> None:
    """A deployment that says it is a cleanup is answered as failed, once, and has no action of its own."""
    if "group" in fields or "config" in fields:
        fields = {"action": "(left)", **fields}
    given = deployment("b", **fields)
    known = Known(entries={}, tools=Tools(()).installed(), now=NOW)
    (step,) = plan.make(parse(given), known)
    assert (step.verb, step.deployment.action) == (
        Verb.ANSWER,
        "CREATE" if "heat_config_left" in fields else "",
    )
    assert step.reason.endswith(": only the agent makes cleanups")
    settled = replace(entry(given, run=None), action=step.deployment.action)
    (step,) = plan.make(parse(given), replace(known, entries={"b": settled}))
    assert step.verb is Verb.SKIP


def test_something_is_pending_until_it_is_cleaned_up() -> None:
    """A deployment with a pending cleanup is not forgotten."""
    before = entry(made("a"), State.ACCEPTED)
    assert cleanup.is_pending(before, {})
    for done, pending in (
        (cleaned(made("a")), False),
        (cleaned(made("a"), failed=True), True),
        (cleaned(made("a"), State.RUNNING), True),
        (cleaned(made("a"), accepted=999.0), True),
    ):
        assert cleanup.is_pending(before, {done.key: done}) == pending
    assert not cleanup.is_pending(entry(deployment("a", "x"), State.ACCEPTED), {})


@pytest.mark.parametrize(
    ("rules", "refused"),
    [
        (
            {"tools": ("script",)},
            "the rule tools of /p: the tool 'docker-cmd' is not in it",
        ),
        (
            {"actions": ("CREATE",)},
            "the rule actions of /p: the action 'DELETE' is not in it",
        ),
        ({"sources": ("cfn",)}, "the rule sources of /p: the source site is not in it"),
        ({"tools": ("docker-cmd",), "actions": ("DELETE",), "sources": ("site",)}, ""),
    ],
)
def test_a_cleanup_obeys_the_policy(rules: dict[str, Any], refused: str) -> None:
    """A cleanup counts as a DELETE, and a refused one is answered without running anything."""
    given = entry(made("a", name="web"))
    known = Known(
        entries={given.key: given},
        tools=Tools(()).installed(),
        now=NOW,
        policy=Policy(file="/p", **rules),
    )
    (step,) = plan.make(due([], given).left, known)
    assert step.verb is (Verb.ANSWER if refused else Verb.RUN)
    assert step.reason.endswith(refused)
