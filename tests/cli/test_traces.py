"""Traces: the input `traceparent` reaches tools as `TRACEPARENT`, in the form of W3C Trace Context and in no other."""

from __future__ import annotations

import getpass
import os

import pytest

from support.machine import Machine, deployment

TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

SHOWS = '#!/bin/sh\necho "trace: ${TRACEPARENT-none}"\n'

HOOK = """#!/bin/sh
cat >/dev/null
echo '{"deploy_status_code": 0, "deploy_stderr": "", "deploy_stdout": "trace: '"${TRACEPARENT-none}"'"}'
"""


def printed(machine: Machine, given: dict[str, object], of_agent: str = "") -> str:
    """Apply a deployment with a variable of the agent's own, and return what it printed."""
    done = machine.apply([given], "--json", TRACEPARENT=of_agent)
    assert done.code == 0, done.out + done.err
    return str(done.data["deployments"][0]["values"]["deploy_stdout"]).strip()


def test_a_script_has_the_trace(machine: Machine) -> None:
    """A script has the trace of its own deployment, not that of another or of the agent."""
    assert (
        printed(machine, deployment("d1", SHOWS, inputs={"traceparent": TRACE}))
        == f"trace: {TRACE}"
    )
    assert printed(machine, deployment("d2", SHOWS), TRACE) == "trace: none"


def test_an_executable_hook_has_the_trace(machine: Machine) -> None:
    """Like any other variable of its environment."""
    machine.hook("shout", HOOK)
    assert (
        printed(
            machine, deployment("d1", "x", group="shout", inputs={"traceparent": TRACE})
        )
        == f"trace: {TRACE}"
    )


@pytest.mark.skipif(
    os.geteuid() != 0,
    reason="only root runs anything as another user: run the tests as root",
)
def test_a_run_of_another_user_has_the_trace(machine: Machine) -> None:
    """Nothing about the user changes it."""
    given = deployment(
        "d1", SHOWS, inputs={"traceparent": TRACE}, options={"user": getpass.getuser()}
    )
    assert printed(machine, given) == f"trace: {TRACE}"


@pytest.mark.parametrize(
    "value",
    [
        TRACE.upper(),
        TRACE[:-1],
        f"{TRACE}-00",
        f"ff{TRACE[2:]}",
        f"00-{32 * '0'}-b7ad6b7169203331-01",
        f"00-0af7651916cd43dd8448eb211c80319c-{16 * '0'}-01",
        f"{TRACE}\n",
        "$(id)",
    ],
)
def test_another_form_is_not_passed_on(machine: Machine, value: str) -> None:
    """A warning says so, and the deployment runs."""
    done = machine.apply(
        [deployment("d1", SHOWS, inputs={"traceparent": value})], "--json"
    )
    assert (done.code, done.data["deployments"][0]["values"]["deploy_stdout"]) == (
        0,
        "trace: none\n",
    )
    assert [each["message"] for each in done.json["warnings"]] == [
        "d1: the input traceparent is not passed on: W3C Trace Context has another form"
    ]


def test_empty_input_leaves_no_trace(machine: Machine) -> None:
    """An input that is empty, as by the default of a template, is left out."""
    done = machine.apply(
        [deployment("d1", SHOWS, inputs={"traceparent": ""})], "--json"
    )
    assert (done.code, done.json["warnings"]) == (0, [])
