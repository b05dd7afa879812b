"""The words for states and results."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from heat_config_agent.model import states
from heat_config_agent.model.entry import Entry, State
from heat_config_agent.model.states import Delivery, Shown
from heat_config_hooks.values import replace

ENTRY = Entry(
    key="web",
    id="web",
    name="web",
    action="CREATE",
    tool="script",
    source="file:web.json",
    addressee="",
    document={},
    state=State.ACCEPTED,
    at=1.0,
    accepted=1.0,
)
RUN = {"started": 2.0, "ended": 3.0}


@pytest.mark.parametrize(
    ("state", "fields", "shown", "result"),
    [
        (State.ACCEPTED, {}, Shown.WAITING, None),
        (State.RETRY, {"started": 2.0}, Shown.WAITING, None),
        (State.REBOOT, {"started": 2.0}, Shown.REBOOT, None),
        (State.RUNNING, {"started": 2.0}, Shown.RUNNING, None),
        (State.DAMAGED, {}, Shown.UNKNOWN, None),
        (State.UNASKED, RUN, Shown.OK, None),
        (State.SIGNALLED, RUN, Shown.OK, Delivery.SENT),
        (State.FINISHED, RUN, Shown.OK, Delivery.DUE),
        (State.REFUSED, {**RUN, "failed": True}, Shown.FAILED, Delivery.REFUSED),
        (State.SUPERSEDED, RUN, Shown.OK, Delivery.REPLACED),
        (State.SUPERSEDED, {}, Shown.SKIPPED, Delivery.REPLACED),
        (
            State.SIGNALLED,
            {"ended": 3.0, "reason": "no config for DELETE: nothing was run"},
            Shown.SKIPPED,
            Delivery.SENT,
        ),
        (State.UNASKED, {"ended": 3.0, "reason": "3 files"}, Shown.OK, None),
        (State.UNASKED, {"ended": 3.0, "failed": True}, Shown.FAILED, None),
    ],
)
def test_state_and_result_of_a_deployment_are_separate(
    state: State, fields: Mapping[str, Any], shown: Shown, result: Delivery | None
) -> None:
    """The state says how it ended, and the result is another fact."""
    entry = replace(ENTRY, state=state, **fields)
    assert states.of_entry(entry) is shown
    assert states.result_of(entry) is result


def test_ended_run_without_a_record_is_unknown() -> None:
    """A run that has ended, and whose end nothing has recorded, is not shown as running or done."""
    running = replace(ENTRY, state=State.RUNNING, started=2.0)
    assert states.of_entry(running, going_on=False) is Shown.UNKNOWN


@pytest.mark.parametrize(
    ("status", "shown"),
    [
        ("CREATE_COMPLETE", Shown.OK),
        ("COMPLETE", Shown.OK),
        ("UPDATE_FAILED", Shown.FAILED),
        ("DELETE_IN_PROGRESS", Shown.RUNNING),
        ("IN_PROGRESS", Shown.RUNNING),
        ("INIT_COMPLETE", Shown.WAITING),
        ("DAMAGED", Shown.UNKNOWN),
    ],
)
def test_status_of_heat_has_a_state(status: str, shown: Shown) -> None:
    """Heat's status of a stack or a resource has a state."""
    assert states.of_stack(status) is shown


def test_words_are_themselves_as_text() -> None:
    """A word is the same in a text, in JSON and in a comparison."""
    assert f"{Shown.OK} {Delivery.DUE}" == "ok due"
    assert json.dumps({Shown.OK: [Delivery.SENT]}) == '{"ok": ["sent"]}'
