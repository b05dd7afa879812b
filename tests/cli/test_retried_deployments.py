"""The option `retry` of a deployment: its command is run again after certain exit codes."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from typing import Any

import pytest

from heat_config_agent.model.entry import State
from heat_config_agent.state import journal
from support import pace
from support.commands import counted, runs
from support.loopback import SignalServer, wait_until
from support.machine import Machine, deployment


def retry(times: int = 2, delay: float = 0.05, **more: Any) -> dict[str, Any]:
    """Return options with which a command is run again after exit code 100."""
    return {"retry": {"codes": [100], "times": times, "delay": delay}, **more}


def test_a_command_is_run_again_until_it_succeeds(
    machine: Machine, heat: SignalServer
) -> None:
    """There is one result, which says how many attempts there were; each attempt knows its number."""
    end = 'echo "attempt ${HEAT_ATTEMPT:-1}" >&2; [ "$HEAT_ATTEMPT" = 3 ] || exit 100'
    done = machine.apply(
        [counted(machine, "d1", end, options=retry(5), signal=heat.url())]
    )
    assert done.code == 0
    assert runs(machine) == ["d1"] * 3
    (signal,) = heat.signals
    assert signal.value["deploy_status_code"] == 0
    assert (
        signal.value["deploy_stderr"]
        == "3 attempts were made, as the option retry says\nattempt 3\n"
    )
    assert [line.split()[0] for line in done.out.splitlines()[:1]] == ["ok"]
    assert [line.split()[:2] for line in done.err.splitlines()] == [
        ["note:", "d1:"],
        ["note:", "d1:"],
    ]
    assert "exit code 100: attempt 1; attempt 2 begins " in done.err
    assert "3 attempts" in machine.agent("status").out
    assert machine.status()["d1"]["attempts"] == 3


def test_a_command_is_not_run_more_often_than_allowed(
    machine: Machine, heat: SignalServer
) -> None:
    """The result is that of the last attempt."""
    done = machine.apply(
        [
            counted(
                machine,
                "d1",
                "echo locked >&2; exit 100",
                options=retry(2),
                signal=heat.url(),
            )
        ]
    )
    assert done.code == 1
    assert runs(machine) == ["d1"] * 3
    (signal,) = heat.signals
    assert signal.value["deploy_status_code"] == 100
    assert machine.status()["d1"]["reason"] == "exit code 100: locked (3 attempts)"


@pytest.mark.parametrize("code", [1, 99])
def test_another_exit_code_is_a_failure_at_once(
    machine: Machine, heat: SignalServer, code: int
) -> None:
    """Only the codes that the option names are retried."""
    machine.apply(
        [counted(machine, "d1", f"exit {code}", options=retry(), signal=heat.url())]
    )
    assert runs(machine) == ["d1"]
    (signal,) = heat.signals
    assert signal.value == {
        "deploy_stdout": "",
        "deploy_stderr": "",
        "deploy_status_code": code,
    }


def test_the_timeout_is_for_all_attempts_together(machine: Machine) -> None:
    """A delay that would pass the timeout is not waited for."""
    delay = pace.limit(1)
    machine.apply(
        [
            counted(
                machine, "d1", "exit 100", options=retry(50, delay, timeout=3 * delay)
            )
        ]
    )
    assert runs(machine) == ["d1", "d1"]  # the second delay is twice as long
    assert machine.status()["d1"]["reason"].startswith("exit code 100")


def test_a_later_attempt_has_only_what_is_left_of_the_timeout(machine: Machine) -> None:
    """A later attempt ends with the timeout of the deployment."""
    end = '[ -n "$HEAT_ATTEMPT" ] || { sleep 0.6; exit 100; }; sleep 30'
    began = time.monotonic()
    limit = pace.limit(1.5)
    machine.apply([counted(machine, "d1", end, options=retry(timeout=limit))])
    assert time.monotonic() - began < pace.seconds(6)
    assert (
        machine.status()["d1"]["reason"]
        == f"ended because it timed out after {limit:g} s (2 attempts)"
    )


def test_every_tool_is_retried_in_the_same_way(machine: Machine) -> None:
    """An executable hook ends with 0, and its reply has the code."""
    path = machine.folder / "replies"
    machine.hook(
        "own",
        f'#!/bin/sh\ncat >/dev/null\necho x >>{path}\n[ "$HEAT_ATTEMPT" = 2 ] && code=0 || code=100\n'
        'echo "{\\"deploy_status_code\\": $code}"\n',
    )
    done = machine.apply([deployment("d1", "any", group="own", options=retry())])
    assert done.code == 0, done.out
    assert path.read_text().split() == ["x", "x"]


def test_nothing_passes_a_deployment_that_is_retried(machine: Machine) -> None:
    """The deployments after it wait as they would for its run."""
    first = counted(
        machine, "d1", '[ -n "$HEAT_ATTEMPT" ] || exit 100', options=retry(delay=0.3)
    )
    machine.apply([first, counted(machine, "d2")])
    assert runs(machine) == ["d1", "d1", "d2"]


def test_a_deployment_that_leaves_is_not_run_again(
    machine: Machine, heat: SignalServer
) -> None:
    """A deployment that returns after its first attempt does not run from the start."""
    given = [
        counted(machine, "d1", "exit 100", options=retry(delay=300), signal=heat.url())
    ]
    agent = machine.start_apply(given)
    wait_until(lambda: _state(machine) is State.RETRY)
    agent.kill()
    agent.communicate()
    assert "attempt 2 begins in" in machine.status()["d1"]["what"]
    assert machine.apply([]).code == 0
    assert _state(machine) is State.SUPERSEDED
    machine.apply(given)
    assert runs(machine) == ["d1"]


def test_retry_command_runs_the_next_attempt_at_once(machine: Machine) -> None:
    """`retry` begins from the first attempt, and waits for nothing."""
    given = [
        counted(
            machine,
            "d1",
            f"[ -e {machine.folder}/free ] || exit 100",
            options=retry(delay=300),
        )
    ]
    agent = machine.start_apply(given)
    wait_until(lambda: _state(machine) is State.RETRY)
    agent.kill()
    agent.communicate()
    (machine.folder / "free").touch()
    assert machine.agent("retry", "d1").code == 0
    assert machine.apply(given).code == 0
    assert machine.status()["d1"]["reason"] == ""


def test_a_delete_does_not_wait_for_a_retry(
    machine: Machine, heat: SignalServer
) -> None:
    """The retry is answered as failed, and says why."""
    inputs = {"deploy_stack_id": "s/1", "deploy_resource_name": "web"}
    create = counted(
        machine,
        "d1",
        "exit 100",
        options=retry(delay=300),
        inputs=inputs,
        signal=heat.url("d1"),
    )
    agent = machine.start_apply([create])
    wait_until(lambda: _state(machine) is State.RETRY)
    agent.kill()
    agent.communicate()
    machine.apply(
        [
            create,
            counted(
                machine, "d2", action="DELETE", inputs=inputs, signal=heat.url("d2")
            ),
        ]
    )
    assert runs(machine) == ["d1", "d2"]
    assert "replaced by a DELETE" in machine.status()["d1"]["reason"]
    assert len(heat.signals) == 2


@pytest.mark.parametrize(
    ("value", "path"),
    [
        ([100], "options.retry"),
        ("soon", "options.retry"),
        ({"times": 2}, "options.retry.codes"),
        ({"codes": []}, "options.retry.codes"),
        ({"codes": [100, 0]}, "options.retry.codes[1]"),
        ({"codes": [256]}, "options.retry.codes[0]"),
        ({"codes": [True]}, "options.retry.codes[0]"),
        ({"codes": [194]}, "options.retry.codes[0]"),
        ({"codes": [100], "times": 0}, "options.retry.times"),
        ({"codes": [100], "times": 101}, "options.retry.times"),
        ({"codes": [100], "delay": 0}, "options.retry.delay"),
        ({"codes": [100], "delay": "long"}, "options.retry.delay"),
        ({"codes": [100], "dealy": 5}, "options.retry.dealy"),
    ],
)
def test_a_mistake_in_the_option_fails_the_deployment(
    machine: Machine, value: object, path: str
) -> None:
    """The place of the mistake is said, and nothing is run."""
    done = machine.apply([counted(machine, "d1", options={"retry": value})])
    assert (done.code, runs(machine)) == (1, [])
    assert f": d1.{path}: " in machine.status()["d1"]["reason"]


@pytest.mark.parametrize(
    "value",
    [
        {"codes": ["100"], "times": "1", "delay": "0.05"},
        '{"codes": [100], "delay": 0.05}',
    ],
)
def test_values_may_be_text(machine: Machine, value: Mapping[str, Any] | str) -> None:
    """Parameters of templates make text of them."""
    machine.apply(
        [
            counted(
                machine,
                "d1",
                '[ -n "$HEAT_ATTEMPT" ] || exit 100',
                options={"retry": value},
            )
        ]
    )
    assert runs(machine) == ["d1", "d1"]


def test_a_stack_retries_its_deployments(machine: Machine) -> None:
    """A deployment of a HOT template takes the same path."""
    log = machine.folder / "runs"
    template = {
        "heat_template_version": "2021-04-16",
        "resources": {
            "here": {
                "type": "OS::Heat::DeployedServer",
                "properties": {"name": "here"},
            },
            "config": {
                "type": "OS::Heat::SoftwareConfig",
                "properties": {
                    "group": "script",
                    "config": f'#!/bin/sh\necho ran >>{log}\n[ -n "$HEAT_ATTEMPT" ] || exit 100\n',
                    "options": retry(),
                },
            },
            "deployment": {
                "type": "OS::Heat::SoftwareDeployment",
                "properties": {
                    "config": {"get_resource": "config"},
                    "server": {"get_resource": "here"},
                },
            },
        },
    }
    done = machine.apply(json.dumps(template), "--name", "site")
    assert done.code == 0, done.err
    assert log.read_text().split() == ["ran", "ran"]


def test_a_tosca_service_retries_its_operations(machine: Machine) -> None:
    """The metadata of a node has the option as text."""
    log = machine.folder / "runs"
    script = machine.folder / "create.sh"
    script.write_text(
        f'#!/bin/sh\necho ran >>{log}\n[ -n "$HEAT_ATTEMPT" ] || exit 100\n'
    )
    node = {
        "type": "tosca.nodes.SoftwareComponent",
        "metadata": {"retry": json.dumps(retry()["retry"])},
        "interfaces": {"Standard": {"create": "create.sh"}},
        "requirements": [{"host": "here"}],
    }
    template = {
        "tosca_definitions_version": "tosca_simple_yaml_1_3",
        "topology_template": {
            "node_templates": {
                "here": {"type": "tosca.nodes.Compute"},
                "software": node,
            }
        },
    }
    done = machine.apply(json.dumps(template), "--name", "site")
    assert done.code == 0, done.err
    assert log.read_text().split() == ["ran", "ran"]


def _state(machine: Machine) -> State | None:
    entry = journal.read(machine.state).get("d1")
    return entry.state if entry else None


def test_delivered_result_is_not_sent_again(
    machine: Machine, heat: SignalServer
) -> None:
    """The server has it; the message names the page about stacks that wait nevertheless."""
    machine.apply([deployment("d1", signal=heat.url())])
    done = machine.agent("retry", "--signal", "d1")
    assert done.code == 1
    assert "it has been delivered" in done.err
    assert "docs/troubleshoot.md" in done.err
