from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import heat_config_hooks
from heat_config_agent.deployments import metadata, plan
from heat_config_agent.deployments.plan import Known, Step, Verb
from heat_config_agent.model.deployment import Deployment, Document
from heat_config_agent.model.entry import Entry, State
from heat_config_agent.runs.tools import Tools
from heat_config_hooks import protocol
from heat_config_hooks.options import Kind, Option
from heat_config_hooks.reply import NO_TOOL, UNKNOWN
from heat_config_hooks.values import replace
from support.entries import entry
from support.machine import deployment


def parse(*entries: object, source: str = "test") -> tuple[Deployment, ...]:
    """Return the deployments of a document."""
    return metadata.parse(Document(source=source, content=list(entries))).deployments


def known(*entries: Entry, hooks: tuple[Path, ...] = (), **fields: Any) -> Known:
    """Return what is known beside the deployments."""
    tools = Tools(hooks)
    values = {
        "entries": {each.key: each for each in entries},
        "tools": tools.installed(),
    }
    return Known(**{**values, "now": 5000.0, **fields})


def plan_one(given: object, *entries: Entry, **fields: Any) -> Step:
    """Return what is to be done about one deployment."""
    (step,) = plan.make(parse(given), known(*entries, **fields))
    return step


def limit(step: Step) -> float | None:
    """Return the time limit of a step's job."""
    assert step.job is not None
    return step.job.limit


def plan_in(state: State, **fields: Any) -> Step:
    """Plan one deployment that the journal has in a state."""
    (given,) = parse(deployment("a"))
    return plan_one(deployment("a"), entry(given, state, **fields), folder="/deployed")


def test_a_new_deployment_is_run() -> None:
    """With its config, its tool, and the time limit that it sets itself."""
    step = plan_one(deployment("a", "text", options={"timeout": "30"}))
    assert (step.verb, step.reason) == (Verb.RUN, "new")
    assert step.job is not None
    assert (step.job.limit, step.job.config.config, step.job.tool.hook) == (
        30.0,
        "text",
        "builtin:script",
    )


def test_steps_are_in_the_order_of_the_document() -> None:
    """The first deployment of the document comes first."""
    steps = plan.make(parse(*(deployment(each) for each in "cab")), known())
    assert [step.deployment.id for step in steps] == ["c", "a", "b"]


def test_a_result_that_was_held_back_is_sent_when_it_is_wanted_again() -> None:
    """A deployment that returns to the metadata gets its result sent, and is not run again."""
    assert plan_in(State.SUPERSEDED).verb is Verb.RESEND


@pytest.mark.parametrize("state", [State.SIGNALLED, State.UNASKED, State.REFUSED])
def test_finished_deployment_never_runs_again(state: State) -> None:
    """A known id never runs twice."""
    assert plan_in(state).verb is Verb.SKIP


def test_a_refused_result_is_explained() -> None:
    """The reason says what the server said."""
    assert (
        "HTTP 404 Not Found"
        in plan_in(State.REFUSED, trouble="HTTP 404 Not Found").reason
    )


def test_accepted_deployment_is_run() -> None:
    """An accepted deployment has surely not been started, and is run."""
    assert plan_in(State.ACCEPTED).verb is Verb.RUN


def test_running_deployment_is_followed() -> None:
    """A running deployment is followed, whatever the metadata says."""
    assert plan_in(State.RUNNING, again=True).verb is Verb.RESUME


def test_running_deployment_is_followed_after_it_left() -> None:
    """A running deployment that has left is followed to its end, before all others."""
    (gone,) = parse(deployment("gone"))
    steps = plan.make(parse(deployment("a")), known(entry(gone, State.RUNNING)))
    assert [(step.verb, step.deployment.id) for step in steps] == [
        (Verb.RESUME, "gone"),
        (Verb.RUN, "a"),
    ]


def test_a_run_in_the_metadata_has_one_step() -> None:
    """A run is not followed twice."""
    (given,) = parse(deployment("a"))
    assert [
        step.verb for step in plan.make([given], known(entry(given, State.RUNNING)))
    ] == [Verb.RESUME]


def test_a_result_that_was_not_delivered_is_sent_again() -> None:
    """With what was wrong the last time."""
    step = plan_in(State.FINISHED, tries=3, trouble="Connection refused")
    assert step.verb is Verb.RESEND
    assert "3 tries: Connection refused" in step.reason


@pytest.mark.parametrize(
    ("not_before", "verb"), [(4999.0, Verb.RESEND), (5001.0, Verb.WAIT)]
)
def test_a_server_that_asked_for_time_is_given_it(
    not_before: float, verb: Verb
) -> None:
    """Until then the result waits."""
    assert plan_in(State.FINISHED, not_before=not_before).verb is verb


def test_a_person_may_ask_for_another_run() -> None:
    """On request, a known id runs again."""
    step = plan_in(State.SIGNALLED, again=True)
    assert (step.verb, step.reason) == (Verb.RUN, "asked to run again")


def test_an_older_agents_mark_means_done() -> None:
    """Nothing runs again after a change from heat-agents."""
    assert plan_one(deployment("a"), marked={"a"}).verb is Verb.SKIP


@pytest.mark.parametrize(
    "identity",
    ["web.1", "a b", "_x", "x" * 200],
    ids=["dot", "space", "underscore", "long"],
)
def test_an_older_agents_mark_is_found_by_the_id_that_it_used(identity: str) -> None:
    """heat-agents named its file after any id, whatever name we would give it."""
    assert plan_one(deployment(identity), marked={identity}).verb is Verb.SKIP


@pytest.mark.parametrize(
    ("there", "folder", "verb"),
    [
        ({"a"}, "/deployed", Verb.SKIP),
        ((), "/deployed", Verb.RUN),
        ((), "/other", Verb.SKIP),
        ((), "", Verb.SKIP),
    ],
)
def test_removing_the_mark_means_run_again(
    there: set[str], folder: str, verb: Verb
) -> None:
    """As people do with heat-agents; but only in the folder that is known to have had it."""
    (given,) = parse(deployment("a"))
    for state, otherwise in (
        (State.SIGNALLED, Verb.SKIP),
        (State.FINISHED, Verb.RESEND),
    ):
        found = plan_one(
            deployment("a"),
            entry(given, state, marked="/deployed"),
            marked=there,
            folder=folder,
        )
        assert found.verb is (Verb.RUN if verb is Verb.RUN else otherwise)
    assert (
        plan_one(
            deployment("a"), entry(given, State.SIGNALLED), marked=there, folder=folder
        ).verb
        is Verb.SKIP
    )


@pytest.mark.parametrize("status", ["COMPLETE", "FAILED", "DELETE_IN_PROGRESS"])
def test_only_a_status_in_progress_asks_for_work(status: str) -> None:
    """Where the metadata carries one."""
    step = plan_one(deployment("a", inputs={"deploy_status": status}))
    assert step.verb is Verb.SKIP
    assert status in step.reason


@pytest.mark.parametrize("status", ["IN_PROGRESS", "in_progress", ""])
def test_a_status_in_progress_asks_for_work(status: str) -> None:
    """A deployment with the status IN_PROGRESS or with none asks for work."""
    assert plan_one(deployment("a", inputs={"deploy_status": status})).verb is Verb.RUN


def test_a_mistake_is_answered_with_its_path() -> None:
    """A deployment with mistakes is not run, and its result has all of them."""
    step = plan_one({"id": "a", "group": "script", "inputs": 3, "outputs": 4})
    assert step.verb is Verb.ANSWER
    assert step.reply is not None
    assert step.reply["deploy_status_code"] == UNKNOWN
    assert "[0].inputs: " in str(step.reply["deploy_stderr"])
    assert "[0].outputs: " in str(step.reply["deploy_stderr"])


def test_an_action_without_a_config_is_answered_as_done() -> None:
    """An action without a config is answered as done, with a note that nothing was run."""
    step = plan_one(
        deployment("a", {"configs": []}, group="component", action="SUSPEND")
    )
    assert step.verb is Verb.ANSWER
    assert step.reply is not None
    assert step.reply["deploy_status_code"] == 0
    assert "no config for SUSPEND" in str(step.reply["deploy_stderr"])


def test_the_name_of_the_file_is_told_where_it_is_not_that_of_the_tool() -> None:
    """A hook `my.py` is never looked for: heat-agents leave out of a tool's name what could be a path."""
    step = plan_one(deployment("a", group="my.py"))
    assert step.reason.startswith(
        "no hook for the tool 'my.py' (its file would have to be named 'mypy'); installed: "
    )
    assert "would have to" not in plan_one(deployment("a", group="mypy")).reason


@pytest.mark.parametrize(
    "group",
    ["no-such-tool", "/", "..", "✗", "x" * 5000],
    ids=["unknown", "slash", "dots", "odd", "long"],
)
def test_a_tool_without_a_hook_is_answered_as_failed(
    tmp_path: Path, group: str
) -> None:
    """The answer names the tool, and what is installed."""
    (tmp_path / "mine").touch()
    step = plan_one(deployment("a", group=group), hooks=(tmp_path,))
    assert step.verb is Verb.ANSWER
    assert step.reply is not None
    assert step.reply["deploy_status_code"] == NO_TOOL
    installed = ", ".join(sorted({"mine", *heat_config_hooks.HOOKS}))
    assert str(step.reply["deploy_stderr"]).endswith(f"installed: {installed}\n")


@pytest.mark.parametrize("group", ["Heat::Ungrouped", "os-apply-config", None])
def test_a_group_that_names_no_tool_is_passed_over(group: str | None) -> None:
    """There is nothing to run, and nothing to answer."""
    assert plan_one(deployment("a", group=group)).verb is Verb.SKIP


@pytest.mark.parametrize(
    "timeout",
    ["soon", -1, 0, True, [], "inf", 10**400, "1e400"],
    ids=lambda value: str(value)[:8],
)
def test_invalid_time_limit_is_a_mistake(timeout: object) -> None:
    """A run that was meant to be limited is not started without its limit."""
    step = plan_one(deployment("a", options={"timeout": timeout}))
    assert step.verb is Verb.ANSWER
    assert step.reason.startswith("[0].options.timeout: ")


def test_a_mistake_in_a_tools_section_is_reported_at_its_place() -> None:
    """The path is where it stands in the document."""
    component = {"configs": [{"actions": ["CREATE"], "tool": "script", "config": ""}]}
    step = plan_one(
        deployment(
            "a", component, group="component", options={"script": {"timeout": "soon"}}
        )
    )
    assert step.reason.startswith("[0].options.script.timeout: ")


def test_the_options_of_other_peoples_hooks_are_their_own(tmp_path: Path) -> None:
    """A `timeout` of another meaning is none of ours."""
    (tmp_path / "mine").touch()
    step = plan_one(
        deployment("a", group="mine", options={"timeout": "soon"}), hooks=(tmp_path,)
    )
    assert (step.verb, limit(step)) == (Verb.RUN, None)


@pytest.fixture
def two_tools(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two hooks of ours with options of their own."""
    for tool, name in (("one", "flag"), ("two", "tags")):
        about = protocol.About(
            config="", options={name: Option(Kind.FLAG, "")}, tested=""
        )
        monkeypatch.setitem(
            sys.modules, f"test_hook_{tool}", SimpleNamespace(ABOUT=about)
        )
        monkeypatch.setitem(heat_config_hooks.HOOKS, tool, f"test_hook_{tool}")


@pytest.mark.usefixtures("two_tools")
@pytest.mark.parametrize(
    ("options", "paths"),
    [
        ({"flag": True, "tags": "true", "timeout": 5}, []),
        ({"flag": True, "tags": "any kind: it is the other's"}, []),
        ({"flag": "maybe", "tags": True}, ["[0].options.flag"]),
        ({"flag": True, "tag": True}, ["[0].options.tag"]),
        ({"flag": True, "two": {"tags": True}}, []),
        ({"tags": True, "two": {"tags": True}}, ["[0].options.tags"]),
        ({"one": {"flag": True}, "tags": True, "anything": 1}, []),
        ({"one": {"tags": True}}, ["[0].options.one.tags"]),
        (
            {"one": {"flag": 2, "tags": True}, "flag": 2},
            ["[0].options.one.flag", "[0].options.one.tags"],
        ),
    ],
)
def test_options_may_be_for_several_tools_of_a_component(
    options: dict[str, object], paths: list[str]
) -> None:
    """Options outside a section apply to all tools without a section, and options of the others are accepted."""
    configs = [
        {"actions": ["CREATE"], "tool": "one"},
        {"actions": ["DELETE"], "tool": "two"},
    ]
    step = plan_one(
        deployment("a", {"configs": configs}, group="component", options=options)
    )
    assert step.verb is (Verb.ANSWER if paths else Verb.RUN)
    assert [
        each.partition(":")[0] for each in step.reason.splitlines() if paths
    ] == paths


@pytest.mark.usefixtures("two_tools")
def test_the_options_of_a_tool_that_is_not_in_the_component_are_not_known() -> None:
    """Options of a tool that the component does not use are unknown, whichever other hooks exist."""
    configs = [{"actions": ["CREATE"], "tool": "one"}]
    step = plan_one(
        deployment("a", {"configs": configs}, group="component", options={"tags": True})
    )
    assert step.reason.startswith("[0].options.tags: one has no such option")


@pytest.mark.usefixtures("two_tools")
@pytest.mark.parametrize("external", ["one", "two"])
def test_options_beside_other_peoples_hooks_may_mean_anything(
    tmp_path: Path, external: str
) -> None:
    """Options for an executable hook are not checked, also where it replaces a built-in hook."""
    (tmp_path / external).touch()
    configs = [
        {"actions": ["CREATE"], "tool": "one"},
        {"actions": ["DELETE"], "tool": "two"},
    ]
    given = deployment(
        "a", {"configs": configs}, group="component", options={"tag": "x"}
    )
    assert plan_one(given, hooks=(tmp_path,)).verb is Verb.RUN


def test_the_time_limit_may_be_text() -> None:
    """The tool is ours or another one, or that of a component."""
    component = {"configs": [{"actions": ["CREATE"], "tool": "script", "config": ""}]}
    given = deployment(
        "a",
        component,
        group="component",
        options={"script": {"timeout": "5"}, "timeout": 7},
    )
    assert limit(plan_one(given)) == 5.0
    assert limit(plan_one(deployment("a", options={"timeout": "5"}))) == 5.0


def test_the_time_limit_of_other_peoples_hooks_is_kept(tmp_path: Path) -> None:
    """Where it is one, whatever else they are given."""
    (tmp_path / "mine").touch()
    options = {"timeout": 7, "idempotent": "perhaps", "deploy_credentials": []}
    assert (
        limit(
            plan_one(deployment("a", group="mine", options=options), hooks=(tmp_path,))
        )
        == 7.0
    )


@pytest.mark.parametrize("chosen", ["b", "name of b"])
def test_plan_can_choose_deployments_by_name_or_id(chosen: str) -> None:
    """The others are passed over for now."""
    steps = plan.make(
        parse(deployment("a"), deployment("b", name="name of b")),
        known(),
        only=[chosen],
    )
    assert [(step.verb, step.reason) for step in steps] == [
        (Verb.SKIP, "not chosen"),
        (Verb.RUN, "new"),
    ]


def test_a_run_is_followed_although_another_was_chosen() -> None:
    """A run that was started is followed to its end, whichever deployments are requested."""
    (given,) = parse(deployment("a"))
    steps = plan.make([given], known(entry(given, State.RUNNING)), only=["b"])
    assert [step.verb for step in steps] == [Verb.RESUME]


def test_a_result_is_superseded_when_its_source_no_longer_has_its_deployment() -> None:
    """A late result would complete the next action."""
    (gone,) = parse(deployment("gone", signal="http://h/1"))
    entries = {"gone": entry(gone, State.FINISHED)}
    assert plan.superseded([gone], {"test"}, entries) == []
    assert plan.superseded([], {"test"}, entries) == ["gone"]


def test_nothing_is_known_of_a_source_that_did_not_answer() -> None:
    """Results of a source that did not answer stay pending."""
    (away,) = parse(deployment("away", signal="http://h/1"), source="other")
    assert (
        plan.superseded(
            parse(deployment("a")), {"test"}, {"away": entry(away, State.FINISHED)}
        )
        == []
    )


def test_a_result_is_superseded_by_the_next_action_of_its_addressee() -> None:
    """Even where its own source is silent, another deployment waits at the same address."""
    where = {"deploy_stack_id": "s/1", "deploy_resource_name": "web"}
    (before,) = parse(
        deployment("before", inputs=where, signal="http://h/1"), source="other"
    )
    after = parse(deployment("after", inputs=where, signal="http://h/2"))
    assert plan.superseded(
        after, {"test"}, {"before": entry(before, State.FINISHED)}
    ) == ["before"]


def test_deployments_that_answer_nobody_supersede_nothing() -> None:
    """Deployments without an address do not supersede one another."""
    (before,) = parse(deployment("before"), source="other")
    assert (
        plan.superseded(
            parse(deployment("after")),
            {"test"},
            {"before": entry(before, State.FINISHED)},
        )
        == []
    )


@pytest.mark.parametrize(
    "state", [State.SIGNALLED, State.UNASKED, State.REFUSED, State.SUPERSEDED]
)
def test_settled_deployment_is_not_superseded(state: State) -> None:
    """Nothing will be sent about a settled deployment."""
    (gone,) = parse(deployment("gone"))
    assert plan.superseded([], {"test"}, {"gone": entry(gone, state)}) == []


def test_the_journal_is_enough_to_carry_a_deployment_out() -> None:
    """A deployment reads from the journal as it came."""
    (given,) = parse(deployment("a", inputs={"x": 1}, signal="http://h/1"))
    kept = plan.deployment_of(entry(given, State.RUNNING))
    assert replace(kept, where="", source="") == replace(given, where="", source="")


RESOURCE = {"deploy_stack_id": "stack/1", "deploy_resource_name": "web"}


def plan_of_a_delete(tool: str, **successor: Any) -> Step:
    """Plan a DELETE of a resource, with another deployment after it in the same document."""
    going = deployment("a", {"/x": 1}, group=tool, action="DELETE", inputs=RESOURCE)
    steps = plan.make(
        parse(
            going, deployment("b", **{"inputs": RESOURCE, "config": {}, **successor})
        ),
        known(),
    )
    return steps[0]


@pytest.mark.parametrize(
    ("tool", "successor"),
    [
        ("json-file", {"group": "json-file"}),
        (
            "json-file",
            {"group": "component", "config": {"configs": [{"tool": "json-file"}]}},
        ),
        ("docker-compose", {"group": "docker-compose", "name": "a", "inputs": {}}),
    ],
)
def test_a_delete_spares_what_another_deployment_has_taken_over(
    tool: str, successor: dict[str, Any]
) -> None:
    """Heat replaces a resource by making the new one first: what the tool has made is that one's by then."""
    step = plan_of_a_delete(tool, **successor)
    assert (step.verb, step.reply and step.reply["deploy_status_code"]) == (
        Verb.ANSWER,
        0,
    )
    assert "nothing was undone" in step.reason


@pytest.mark.parametrize(
    ("tool", "successor"),
    [
        ("script", {"group": "script"}),
        ("json-file", {"group": "json-file", "action": "DELETE"}),
        (
            "json-file",
            {
                "group": "json-file",
                "inputs": {**RESOURCE, "deploy_resource_name": "db"},
            },
        ),
        ("json-file", {"group": "json-file", "inputs": {}}),
        ("json-file", {"group": "script"}),
        ("docker-compose", {"group": "docker-compose", "name": "db"}),
    ],
)
def test_any_other_delete_is_carried_out(tool: str, successor: dict[str, Any]) -> None:
    """Scripts do as they are written, and other resources have things of their own."""
    assert plan_of_a_delete(tool, **successor).verb is Verb.RUN
