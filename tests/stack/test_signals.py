"""Handles with a URL, and the wait conditions that wait for signals at it."""

from __future__ import annotations

import json
import threading
import urllib.error
import urllib.request
from typing import Any

import pytest

from heat_config_agent.diagnostics.mistakes import Invalid
from stack.made import made
from stack.working import Working
from support import pace

CFN = {"Status": "SUCCESS", "Reason": "done", "Data": "d", "UniqueId": "1"}


def send(url: str, body: Any) -> int:
    """Send a signal without any header of its own, and return the status of the answer."""
    request = urllib.request.Request(  # noqa: S310  # of this machine
        url, json.dumps(body).encode() if body is not None else b"", method="PUT"
    )
    try:
        with urllib.request.urlopen(request, timeout=pace.seconds(20)) as answer:  # noqa: S310
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code


def resources(prefix: str, handle: str, condition: str) -> dict[str, Any]:
    """Return a handle and a condition, with the names of properties that the prefix has."""
    names = ("Handle", "Timeout") if prefix.startswith("AWS") else ("handle", "timeout")
    properties = {names[0]: {"ref": "h"}, names[1]: 20}
    return {
        "h": {"type": f"{prefix}{handle}"},
        "w": {"type": f"{prefix}{condition}", "properties": properties},
    }


@pytest.mark.parametrize(
    ("types", "data", "body", "outcome", "result"),
    [
        (
            ("AWS::CloudFormation::", "WaitConditionHandle", "WaitCondition"),
            "Data",
            CFN,
            "COMPLETE",
            {"1": "d"},
        ),
        (
            ("AWS::CloudFormation::", "WaitConditionHandle", "WaitCondition"),
            "Data",
            {**CFN, "Status": "FAILURE"},
            "FAILED",
            None,
        ),
        (
            ("OS::Heat::", "SwiftSignalHandle", "SwiftSignal"),
            "data",
            None,
            "COMPLETE",
            {"1": None},
        ),
        (
            ("OS::Heat::", "SwiftSignalHandle", "SwiftSignal"),
            "data",
            {"data": 7, "id": "x"},
            "COMPLETE",
            {"x": 7},
        ),
        (
            ("OS::Heat::", "SwiftSignalHandle", "SwiftSignal"),
            "data",
            {"status": "FAILURE"},
            "FAILED",
            None,
        ),
    ],
)
def test_a_condition_waits_for_a_signal_at_the_url_of_its_handle(  # noqa: PLR0917
    working: Working,
    types: tuple[str, str, str],
    data: str,
    body: Any,
    outcome: str,
    result: Any,
) -> None:
    """The reference of the handle is the URL, and nothing else is needed to signal it."""
    answers: list[int] = []
    senders: list[threading.Thread] = []

    def answer(event: dict[str, Any]) -> None:
        if (event["path"], event["action"], event["status"]) == (
            "w",
            "CREATE",
            "IN_PROGRESS",
        ):
            url = working.root.resources["h"].FnGetRefId()
            senders.append(
                threading.Thread(target=lambda: answers.append(send(url, body)))
            )
            senders[-1].start()

    working.session.world.happened = answer
    working.session.create(made(resources(*types), {"data": {"attr": ["w", data]}}))
    for sender in senders:  # the stack may be complete before it has read the answer
        sender.join()
    assert working.state() == ("CREATE", outcome)
    if result is not None:
        assert answers == [200]
        assert json.loads(working.root.output("data")) == result


def test_a_signal_of_another_form_is_refused(working: Working) -> None:
    """A handle of CloudFormation takes exactly four keys."""
    working.session.create(
        made({"h": {"type": "AWS::CloudFormation::WaitConditionHandle"}})
    )
    with pytest.raises(Exception, match="Status, Reason, Data, UniqueId"):
        working.session.signal("h", {"status": "SUCCESS"})
    working.session.signal("h", CFN)


def test_an_access_policy_names_resources_of_its_stack(working: Working) -> None:
    """With Heat's sentence."""
    policy = {
        "type": "OS::Heat::AccessPolicy",
        "properties": {"AllowedResources": ["a", "b"]},
    }
    other = {"type": "OS::Heat::Value", "properties": {"value": 1}}
    with pytest.raises(Invalid, match="AccessPolicy resource b not in stack"):
        working.session.create(made({"p": policy, "a": other}))
    working.session.create(made({"p": policy, "a": other, "b": other}))
    assert working.state() == ("CREATE", "COMPLETE")
