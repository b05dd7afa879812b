"""The option `verify`: a run succeeds only if what it has deployed works."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest

from heat_config_agent.state import journal
from support.commands import SH, counted, runs, wait_for_text
from support.loopback import SignalServer, wait_until
from support.machine import Machine, deployment


def gate(script: str, **more: Any) -> dict[str, Any]:
    """Return the option with a short interval."""
    return {"verify": {"script": script, "interval": 0.05, **more}}


def values(heat: SignalServer) -> Any:
    """Return the only result that Heat has got."""
    (sent,) = heat.signals
    return sent.value


def test_run_succeeds_if_its_verification_does(
    machine: Machine, heat: SignalServer
) -> None:
    """The script runs once, after the command, with its inputs and without touching its output."""
    script = f'echo "checked $port" ; cat {machine.folder}/runs'
    given = counted(
        machine,
        "d1",
        "echo out",
        options={"verify": script},
        inputs=[{"name": "port", "value": 8080}],
        signal=heat.url(),
    )

    assert machine.apply([given]).code == 0

    assert runs(machine) == ["d1"]
    result = values(heat)
    assert result["deploy_status_code"] == 0
    assert result["deploy_stdout"] == "out\n"
    assert result["deploy_stderr"] == "checked 8080\nd1\n"


def test_script_has_the_inputs_whatever_the_tool(machine: Machine) -> None:
    """A tool that takes no variables leaves them to the script alone, with any characters in them."""
    path = machine.folder / "file.json"
    value = 'it\'s "80" $HOME `id`\nand more'
    script = (
        f'[ "$port" = "$(cat {machine.folder}/wanted)" ] && [ -s "$HEAT_INPUTS_FILE" ]'
    )
    (machine.folder / "wanted").write_text(value)
    given = deployment(
        "d1",
        {str(path): 1},
        group="json-file",
        options={"verify": script},
        inputs={"port": value},
    )

    assert machine.apply([given]).code == 0


def test_run_fails_if_its_verification_does(
    machine: Machine, heat: SignalServer
) -> None:
    """The reason is the last line of the script, and its exit code that of the deployment."""
    script = "echo first; echo 'port 8080 does not answer'; exit 7"
    given = counted(machine, "d1", options=gate(script), signal=heat.url())

    assert machine.apply([given]).code == 1

    assert runs(machine) == ["d1"]
    assert values(heat)["deploy_status_code"] == 7
    reason = journal.read(machine.state)["d1"].reason
    assert "the verification failed: port 8080 does not answer" in reason


def test_verification_is_repeated_until_it_succeeds(machine: Machine) -> None:
    """A service may take a moment until it works."""
    script = (
        f"echo x >>{machine.folder}/tries; [ $(wc -l <{machine.folder}/tries) = 3 ]"
    )

    assert machine.apply([counted(machine, options=gate(script, retries=5))]).code == 0
    assert (machine.folder / "tries").read_text() == "x\n" * 3


def test_verification_is_repeated_no_more_than_asked(machine: Machine) -> None:
    """Two retries are three attempts, and the reason says so."""
    script = f"echo x >>{machine.folder}/tries; exit 1"

    assert machine.apply([counted(machine, options=gate(script, retries=2))]).code == 1
    assert (machine.folder / "tries").read_text() == "x\n" * 3
    assert "failed 3 times: exit code 1" in journal.read(machine.state)["d1"].reason


def test_verification_that_hangs_is_ended(machine: Machine) -> None:
    """Its time is over, which is a failure with that reason, and nothing of it is left."""
    script = f"echo $$ >{machine.folder}/pid; sleep 1000"

    assert (
        machine.apply([counted(machine, options=gate(script, timeout=0.3))]).code == 1
    )
    assert "did not end in time" in journal.read(machine.state)["d1"].reason
    pid = int((machine.folder / "pid").read_text())
    wait_until(lambda: not Path(f"/proc/{pid}").exists())


def test_failed_run_is_not_verified(machine: Machine) -> None:
    """The reason is that of the run."""
    given = counted(
        machine, "d1", "exit 3", options=gate(f"touch {machine.folder}/checked")
    )

    assert machine.apply([given]).code == 1
    assert "exit code 3" in journal.read(machine.state)["d1"].reason
    assert not (machine.folder / "checked").exists()


@pytest.mark.parametrize("action", ["DELETE", "SUSPEND"])
def test_action_that_ends_something_is_not_verified(
    machine: Machine, action: str
) -> None:
    """After it, there is nothing that could work."""
    given = counted(machine, options=gate("exit 1"), action=action)

    assert machine.apply([given]).code == 0


def test_tool_without_a_command_is_verified_too(machine: Machine) -> None:
    """A file that the agent writes by itself counts as deployed once the script agrees."""
    good, bad = (
        {
            "id": name,
            "name": name,
            "group": "json-file",
            "config": {str(machine.folder / f"{name}.json"): {"a": 1}},
            "options": gate(f"grep -q {word} {machine.folder}/{name}.json"),
        }
        for name, word in (("good", "a"), ("bad", "b"))
    )

    assert machine.apply([good, bad]).code == 1

    states = {key: entry.failed for key, entry in journal.read(machine.state).items()}
    assert states == {"good": False, "bad": True}


def test_executable_hook_is_verified_too(machine: Machine) -> None:
    """The output of the script is not a part of the hook's reply."""
    folder = machine.folder / "hooks"
    folder.mkdir()
    hook = folder / "shout"
    hook.write_text(f"{SH}cat >/dev/null; echo '{{\"deploy_status_code\": 0}}'\n")
    hook.chmod(0o755)
    given = [
        deployment(name, "x", group="shout", options=gate(f"echo noise; exit {code}"))
        for name, code in (("good", 0), ("bad", 5))
    ]

    assert machine.apply(given, "--hooks-dir", str(folder)).code == 1

    states = {key: entry.failed for key, entry in journal.read(machine.state).items()}
    assert states == {"good": False, "bad": True}


def test_killed_agent_leaves_the_verification_to_the_next(machine: Machine) -> None:
    """The gate goes on under its supervisor, and the next agent takes its outcome over: nothing runs twice."""
    script = f"echo begun >>{machine.folder}/gate; while ! [ -e {machine.folder}/go ]; do sleep 0.02; done"
    path = machine.write([counted(machine, options=gate(script))])
    process = machine.start(
        "heat-config-apply", str(path), "--state-dir", str(machine.state)
    )
    wait_for_text(machine.folder / "gate", "begun")
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    (machine.folder / "go").touch()

    assert machine.apply(path).code == 0
    assert runs(machine) == ["d1"]
    assert (machine.folder / "gate").read_text() == "begun\n"


@pytest.mark.parametrize(
    ("value", "mistake"),
    [
        ({"retries": 3}, "expected the text of a script (options.verify.script)"),
        ({"script": "true", "tries": 3}, "verify has only script, retries"),
        ({"script": "true", "retries": -1}, "expected a whole number from 0 to 1000"),
        ({"script": "true", "timeout": "soon"}, "options.verify.timeout"),
        ([], "expected a script, or an object"),
    ],
)
def test_mistake_in_the_option_is_refused_before_the_run(
    machine: Machine, value: object, mistake: str
) -> None:
    """The sentence says what is expected, and where."""
    done = machine.apply([counted(machine, options={"verify": value})])

    assert done.code in (1, 2)
    assert runs(machine) == []
    first = mistake.partition(" (")[0]
    assert first in done.out + done.err


def test_secret_that_a_verification_prints_is_masked(
    machine: Machine, heat: SignalServer
) -> None:
    """Its output goes the way of all output."""
    secret = [{"name": "db_password", "value": "correct-horse-battery"}]
    given = counted(
        machine,
        options=gate('echo "login with $db_password failed"; exit 1'),
        inputs=secret,
        signal=heat.url(),
    )

    assert machine.apply([given]).code == 1

    result = values(heat)
    assert "correct-horse-battery" not in str(result)
    assert "login with *** failed" in result["deploy_stderr"]
    assert "correct-horse-battery" not in journal.read(machine.state)["d1"].reason


@pytest.mark.slow
@pytest.mark.skipif(os.geteuid() != 0, reason="other users: run the tests as root")
@pytest.mark.parametrize("code", [0, 4])
def test_run_of_another_user_is_verified_as_that_user(
    machine: Machine, code: int
) -> None:
    """The script has the user and the isolation of the run."""
    machine.folder.chmod(0o755)
    script = f"id -un; [ $(id -un) = nobody ] || exit 9; exit {code}"
    given = deployment("d1", f"{SH}true\n", options={**gate(script), "user": "nobody"})

    assert machine.apply([given]).code == (1 if code else 0)

    reason = journal.read(machine.state)["d1"].reason
    assert ("failed: nobody" in reason) is bool(code)


@pytest.mark.skipif(os.geteuid() != 0, reason="isolation: run the tests as root")
@pytest.mark.parametrize("code", [0, 4])
def test_isolated_run_is_verified_in_its_isolation(machine: Machine, code: int) -> None:
    """The script sees what the run sees."""
    marker = f"/tmp/verified-{machine.folder.name}"
    script = f"[ -e {marker} ] || exit 9; exit {code}"
    given = deployment(
        "d1",
        f"{SH}touch {marker}\n",
        options={**gate(script), "isolate": {"tmp": "true"}},
    )

    assert machine.apply([given]).code == (1 if code else 0)

    entry = journal.read(machine.state)["d1"]
    assert (entry.values or {}).get("deploy_status_code") == code
    assert not Path(marker).exists()
