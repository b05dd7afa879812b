"""The option `on_failure`: a script that runs once after a run that has failed, and never hides the failure."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest

from heat_config_agent.deployments import replacement
from heat_config_agent.state import journal
from support.commands import SH, counted, run, runs, wait_for_text
from support.loopback import SignalServer, wait_until
from support.machine import Machine, deployment
from support.stories import Traps

FOLLOWS = "d1.failed"
"""The key of what follows the failure of d1."""

TRANSITIONS = (
    *("journal.running.before", "journal.running.after"),
    *("runner.folder", "runner.prepared", "runner.spawned", "runner.announced"),
    *("runner.word", "runner.closed", "runner.concluded", "runner.tidied"),
    *("journal.settled.before", "journal.settled.after"),
)
"""Points that both the run and what follows its failure pass."""


def entries(machine: Machine) -> dict[str, Any]:
    """Return all entries of the journal."""
    return dict(journal.read(machine.state, follow_ups=True))


def noted(machine: Machine) -> list[str]:
    """Return what `noting` has left."""
    path = machine.folder / "noted"
    return path.read_text().splitlines() if path.exists() else []


def noting(machine: Machine, words: str = "once", end: str = "") -> str:
    """Return a script that leaves a line in a file each time it is run."""
    return f'echo "{words}" >>{machine.folder}/noted\n{end}\n'


def failing(machine: Machine, end: str = "exit 3", **fields: Any) -> dict[str, Any]:
    """Return a deployment that fails, and notes that."""
    options = {"on_failure": noting(machine), **fields.pop("options", {})}
    return counted(machine, "d1", end, options=options, **fields)


def test_script_has_the_reason_the_outputs_and_the_inputs(
    machine: Machine, heat: SignalServer
) -> None:
    """Heat has got the failure as it was, and before the script has ended."""
    script = (
        f"exec >{machine.folder}/seen; echo $port; echo $deploy_status_code;"
        'echo "$deploy_stdout"; echo "$deploy_stderr"; echo "$reason"; echo $url; echo $deploy_failed_action'
    )
    given = failing(
        machine,
        "echo out; echo err >&2; echo -n http://a >$heat_outputs_path.url; exit 3",
        options={"on_failure": script},
        inputs=[{"name": "port", "value": 8080}],
        outputs=[{"name": "url"}],
        signal=heat.url(),
    )

    assert machine.apply([given]).code == 1

    assert runs(machine) == ["d1"]
    (sent,) = heat.signals
    assert sent.value["deploy_status_code"] == 3
    assert (machine.folder / "seen").read_text().splitlines() == [
        *("8080", "3", "out", "", "err", "", "exit code 3: err", "http://a", "CREATE")
    ]
    assert entries(machine)[FOLLOWS].failed is False


def test_result_does_not_wait_for_the_script(
    machine: Machine, heat: SignalServer
) -> None:
    """The script sees that Heat has the failure already."""
    script = f"while ! [ -e {machine.folder}/go ]; do sleep 0.02; done"
    given = failing(machine, options={"on_failure": script}, signal=heat.url())
    process = machine.start_apply([given])
    try:
        wait_until(lambda: len(heat.signals) == 1)
    finally:
        (machine.folder / "go").touch()
        process.communicate()

    assert entries(machine)[FOLLOWS].failed is False


def test_failure_of_the_script_does_not_hide_the_first(
    machine: Machine, heat: SignalServer
) -> None:
    """The deployment has failed as it has, in every list; what the script said is in `log` and `show`."""
    script = noting(machine, end="echo cannot restore; exit 9")
    given = failing(machine, options={"on_failure": script}, signal=heat.url())

    assert machine.apply([given]).code == 1

    entry = entries(machine)["d1"]
    assert entry.failed
    assert entry.reason == "exit code 3"
    assert [sent.value["deploy_status_code"] for sent in heat.signals] == [3]
    assert list(machine.status()) == ["d1"]
    shown = machine.agent("show", "d1", "--json").data
    assert shown["reason"] == "exit code 3"
    assert shown["on_failure"]["state"] == "failed"
    assert shown["on_failure"]["stdout"] == "cannot restore\n"
    text = machine.agent("show", "d1").out
    assert "on_failure  failed, exit code 9" in text
    assert "cannot restore" in text
    log = machine.agent("log", "d1")
    assert log.out == "cannot restore\n"
    assert "on_failure: failed: exit code 9" in log.err
    both = machine.agent("log", "d1", "--json").data["runs"]
    assert [each["name"] for each in both] == ["d1", "d1 on_failure"]


def test_follow_up_counts_as_no_replacement(machine: Machine) -> None:
    """It has the resource of what has failed, and Heat has replaced nothing; nothing is left to clean up."""
    configs = [
        {"actions": ["CREATE"], "tool": "script", "config": f"{SH}exit 5\n"},
        {"actions": ["DELETE"], "tool": "script", "config": f"{SH}true\n"},
        {"actions": ["FAILED"], "tool": "script", "config": SH + noting(machine)},
    ]
    given = deployment(
        "d1",
        {"configs": configs},
        group="component",
        action="CREATE",
        inputs={"deploy_stack_id": "s/1", "deploy_resource_name": "web"},
    )

    assert machine.apply([given]).code == 1

    found = replacement.replacements(entries(machine).values())
    assert found == []
    assert noted(machine) == ["once"]
    assert machine.agent("show", "s/web", "--json").data["id"] == "d1"


def test_success_is_followed_by_nothing(machine: Machine) -> None:
    """Nothing is on record either."""
    assert machine.apply([failing(machine, "exit 0")]).code == 0

    assert noted(machine) == []
    assert list(entries(machine)) == ["d1"]


def test_script_runs_once_after_all_attempts(machine: Machine) -> None:
    """The option `retry` comes first; the script says how many attempts there were."""
    given = failing(
        machine,
        "exit 75",
        options={
            "retry": {"codes": [75], "times": 2, "delay": 0.05},
            "on_failure": noting(machine, "$reason"),
        },
    )

    assert machine.apply([given]).code == 1

    assert runs(machine) == ["d1"] * 3
    assert noted(machine) == ["exit code 75 (3 attempts)"]


def test_next_failure_is_followed_again(machine: Machine) -> None:
    """A person asks for another run, which fails too; a pass that has nothing to do runs nothing."""
    path = machine.write([failing(machine)])
    assert machine.apply(path).code == 1
    assert machine.apply(path).code == 0
    assert noted(machine) == ["once"]

    assert machine.agent("retry", "d1").code == 0
    assert machine.apply(path).code == 1

    assert noted(machine) == ["once", "once"]


def test_failed_verification_is_followed(machine: Machine) -> None:
    """A health gate that is not passed is a failure like any other."""
    given = failing(
        machine,
        "exit 0",
        options={
            "verify": "echo no answer; exit 1",
            "on_failure": noting(machine, "$reason"),
        },
    )

    assert machine.apply([given]).code == 1

    (reason,) = noted(machine)
    assert "the verification failed: no answer" in reason


def test_missing_success_of_a_hook_is_followed(machine: Machine) -> None:
    """A reply that only the agent can judge is a failure, and a hook that is an executable has the option too."""
    machine.hook("shout", f"{SH}cat >/dev/null\n")
    given = deployment(
        "d1", "x", group="shout", options={"on_failure": noting(machine, "$reason")}
    )

    assert (
        machine.apply([given], "--hooks-dir", str(machine.folder / "hooks")).code == 1
    )

    (reason,) = noted(machine)
    assert "replied nothing" in reason


def test_tool_without_a_command_is_followed_too(machine: Machine) -> None:
    """A file that the agent cannot write is a failure like that of a command."""
    (machine.folder / "file").touch()
    given = {
        "id": "d1",
        "name": "d1",
        "group": "json-file",
        "config": {str(machine.folder / "file" / "x.json"): {}},
        "options": {"on_failure": noting(machine, "$deploy_status_code")},
    }

    assert machine.apply([given]).code == 1

    assert noted(machine) == [str(entries(machine)["d1"].values["deploy_status_code"])]


def test_run_that_timed_out_is_followed(machine: Machine) -> None:
    """The script has a limit of its own, and its end is on record."""
    given = failing(
        machine,
        "sleep 1000",
        options={
            "timeout": 0.3,
            "on_failure": {
                "script": noting(machine, "$reason", "sleep 1000"),
                "timeout": 0.4,
            },
        },
    )

    assert machine.apply([given]).code == 1

    (reason,) = noted(machine)
    assert "timed out after 0.3 s" in reason
    assert "timed out after 0.4 s" in entries(machine)[FOLLOWS].reason


@pytest.mark.parametrize("action", ["DELETE"])
def test_failed_removal_is_not_followed(machine: Machine, action: str) -> None:
    """Nothing of the deployment is left that a script could look after."""
    assert machine.apply([failing(machine, action=action)]).code == 1

    assert runs(machine) == ["d1"]
    assert noted(machine) == []


def test_mistake_in_a_deployment_is_not_followed(machine: Machine) -> None:
    """Nothing has run."""
    given = failing(machine, options={"timeout": "soon"})

    assert machine.apply([given]).code == 1

    assert runs(machine) == []
    assert noted(machine) == []


@pytest.mark.parametrize(
    ("value", "mistake"),
    [
        ({"timeout": 3}, "expected the text of a script"),
        ({"script": "true", "retries": 3}, "on_failure has only script, timeout"),
        ({"script": "true", "timeout": "soon"}, "options.on_failure.timeout"),
        ([], "expected a script, or an object with script and timeout"),
    ],
)
def test_mistake_in_the_option_is_refused_before_the_run(
    machine: Machine, value: object, mistake: str
) -> None:
    """The sentence says what is expected, and where."""
    done = machine.apply([failing(machine, options={"on_failure": value})])

    assert done.code in (1, 2)
    assert runs(machine) == []
    assert mistake in done.out + done.err


def test_component_has_a_config_for_failures(machine: Machine) -> None:
    """Its action is FAILED; the others of its configs do not run."""
    configs = [
        {
            "actions": ["CREATE"],
            "tool": "script",
            "config": f"{SH}echo broken >&2\nexit 5\n",
        },
        {
            "actions": ["FAILED"],
            "tool": "script",
            "config": SH
            + noting(machine, "$deploy_action after $deploy_failed_action: $reason"),
        },
    ]
    given = deployment("d1", {"configs": configs}, group="component", action="CREATE")

    assert machine.apply([given]).code == 1

    assert noted(machine) == ["FAILED after CREATE: exit code 5: broken"]
    assert entries(machine)["d1"].reason == "exit code 5: broken"


def test_secret_is_masked_in_the_reason_and_in_the_output(machine: Machine) -> None:
    """The script has the input itself, as the run had it."""
    secret = "correct-horse-battery"
    given = failing(
        machine,
        'echo "login $db_password refused" >&2; exit 1',
        options={
            "on_failure": 'echo "$db_password" | wc -c; echo "$reason; $db_password"; exit 1'
        },
        inputs=[{"name": "db_password", "value": secret}],
    )

    assert machine.apply([given]).code == 1

    log = machine.agent("log", "d1")
    assert log.out == f"{len(secret) + 1}\nexit code 1: login *** refused; ***\n"
    for command in (["show", "d1"], ["log", "d1"], ["show", "d1", "--json"]):
        done = machine.agent(*command)
        assert secret not in done.out + done.err


def test_long_output_is_bounded(machine: Machine) -> None:
    """Its end is passed on, so that the variables of a process hold it."""
    given = failing(
        machine,
        "seq 100000; exit 1",
        options={
            "on_failure": noting(
                machine, "${#deploy_stdout} $(echo $deploy_stdout | tail -c 7)"
            )
        },
    )

    assert machine.apply([given]).code == 1

    assert noted(machine) == ["16384 100000"]


def test_killed_agent_leaves_the_script_to_the_next(machine: Machine) -> None:
    """It goes on under its supervisor, and the next agent takes its end over: nothing runs twice."""
    wait = f"while ! [ -e {machine.folder}/go ]; do sleep 0.02; done"
    path = machine.write(
        [failing(machine, options={"on_failure": noting(machine, end=wait)})]
    )
    process = machine.start_apply(path)
    try:
        wait_for_text(machine.folder / "noted", "once")
        os.kill(process.pid, signal.SIGKILL)
    finally:
        process.kill()
        process.communicate()
        (machine.folder / "go").touch()

    machine.apply(path)

    assert runs(machine) == ["d1"]
    assert noted(machine) == ["once"]
    assert entries(machine)[FOLLOWS].failed is False
    assert entries(machine)["d1"].reason == "exit code 3"


@pytest.mark.fault(
    1,
    "`kill -9` of the agent at each point of a failing run and of what follows its failure",
    "both run once, and the one result that arrives is that of the first",
)
@pytest.mark.parametrize("point", TRANSITIONS)
@pytest.mark.parametrize("passing", [1, 2])
@pytest.mark.slow
def test_agent_killed_at_any_point_runs_it_once(
    machine: Machine, heat: SignalServer, point: str, passing: int
) -> None:
    """The first passing is that of the run, and the second that of what follows its failure."""
    path = machine.write([failing(machine, signal=heat.url())])
    traps = Traps(machine.folder, (point, passing))
    process = machine.start_apply(path, **traps.environment)
    process.communicate()
    assert process.returncode == -signal.SIGKILL, point

    def is_over() -> bool:
        machine.apply(path)
        return all(entry.settled for entry in entries(machine).values())

    wait_until(is_over)

    assert runs(machine) == ["d1"]
    assert noted(machine) == ["once"]
    assert entries(machine)["d1"].reason == "exit code 3"
    assert {sent.value["deploy_status_code"] for sent in heat.signals} == {3}


@pytest.mark.slow
@pytest.mark.skipif(os.geteuid() != 0, reason="other users: run the tests as root")
def test_script_runs_as_the_user_of_the_deployment(machine: Machine) -> None:
    """It can do no more than the run could."""
    machine.folder.chmod(0o755)
    options = {"user": "nobody", "on_failure": "id -un; echo $reason"}

    assert machine.apply([deployment("d1", f"{SH}exit 4\n", options=options)]).code == 1

    assert machine.agent("log", "d1").out == "nobody\nexit code 4\n"


@pytest.mark.skipif(os.geteuid() != 0, reason="isolation: run the tests as root")
def test_script_runs_in_the_isolation_of_the_deployment(machine: Machine) -> None:
    """It writes where the run could write."""
    marker = f"/tmp/followed-{machine.folder.name}"
    given = deployment(
        "d1",
        f"{SH}exit 4\n",
        options={
            "isolate": {"tmp": "true"},
            "on_failure": f"touch {marker} && echo made",
        },
    )

    assert machine.apply([given]).code == 1

    assert machine.agent("log", "d1").out == "made\n"
    assert not Path(marker).exists()


def test_machine_that_went_down_in_the_run_is_followed(machine: Machine) -> None:
    """The next agent finds the run lost, and what follows has that reason."""
    path = machine.write(
        [
            failing(
                machine,
                "sleep 1000",
                options={"on_failure": noting(machine, "$reason")},
            )
        ]
    )
    process = machine.start_apply(path)
    try:
        wait_for_text(machine.folder / "runs", "d1")
        process.kill()
        process.communicate()
        supervisor = entries(machine)["d1"].run.pid
        os.kill(supervisor, signal.SIGKILL)
        wait_until(lambda: not Path(f"/proc/{supervisor}").exists())
    finally:
        process.kill()
        process.communicate()

    assert machine.apply(path).code == 1

    assert runs(machine) == ["d1"]
    (reason,) = noted(machine)
    assert "interrupted" in reason


SERVICE = """\
tosca_definitions_version: tosca_simple_yaml_1_3
topology_template:
  node_templates:
    web:
      type: tosca.nodes.Root
      metadata: {on_failure: 'echo "sorry: $reason"'}
      interfaces:
        Standard: {create: web.sh}
"""


def test_node_of_a_service_has_a_script_for_failures(machine: Machine) -> None:
    """Its metadata has the option for all of its operations."""
    (machine.folder / "s.yaml").write_text(SERVICE)
    (machine.folder / "web.sh").write_text(f"{SH}exit 4\n")
    state = ["--state-dir", str(machine.state)]

    assert run(machine, "heat-config-apply", "s.yaml", *state).code == 1

    log = run(machine, "heat-config-agent", "log", "s/web.create", *state)
    assert log.out == "sorry: exit code 4\n"
