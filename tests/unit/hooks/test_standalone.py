from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

import heat_config_hooks
from support import endings, loaded, pace
from support.loopback import wait_until
from support.machine import BIN

HOOK = BIN / "heat-config-hook"
Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """Return an environment in which the hook works below a folder of its own."""
    places = {
        "HEAT_SCRIPT_WORKING": tmp_path / "w",
        "HEAT_SCRIPT_OUTPUTS": tmp_path / "o",
        "TMPDIR": tmp_path / "tmp",
    }
    (tmp_path / "tmp").mkdir()
    return {
        "PATH": os.environ["PATH"],
        **loaded.STARTED,
        **{name: str(path) for name, path in places.items()},
    }


@pytest.fixture
def run(environment: dict[str, str]) -> Run:
    """Run the command with a value as JSON, or a text, on its standard input."""

    def run(
        given: object, *arguments: str, program: Path = HOOK
    ) -> subprocess.CompletedProcess[str]:
        text = given if isinstance(given, str) else json.dumps(given)
        return loaded.hook(program, text, environment, arguments=arguments)

    return run


def deployment(config: object, **fields: Any) -> dict[str, Any]:
    """Return a deployment for the hook."""
    return {
        "id": "a",
        "group": "script",
        "config": config,
        "inputs": [],
        "outputs": [],
        "options": {},
        **fields,
    }


def reply(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    """Return the reply, where there is nothing but one."""
    assert (done.returncode, done.stderr) == (0, "")
    value = json.loads(done.stdout)
    assert isinstance(value, dict)
    return value


def test_a_hook_is_run_by_its_name(run: Run) -> None:
    """A hook reads the deployment, and prints the reply and nothing else."""
    given = deployment(
        "#!/bin/sh\necho out $x\necho err >&2\nprintf y >$heat_outputs_path.o\nexit 3\n",
        inputs=[{"name": "x", "value": 1}],
        outputs=[{"name": "o"}, {"name": "missing"}],
    )
    assert reply(run(given, "script")) == {
        "deploy_stdout": "out 1\n",
        "deploy_stderr": "err\n",
        "deploy_status_code": 3,
        "o": "y",
    }


def test_link_with_the_name_of_a_tool_is_its_hook(run: Run, tmp_path: Path) -> None:
    """Other agents find hooks by such names."""
    (tmp_path / "script").symlink_to(HOOK)
    assert (
        reply(run(deployment("echo hi"), program=tmp_path / "script"))["deploy_stdout"]
        == "hi\n"
    )


def test_the_tool_gets_our_environment(run: Run, environment: dict[str, str]) -> None:
    """The caller of the hook chooses the environment."""
    environment["MINE"] = "kept"
    assert reply(run(deployment("echo $MINE"), "script"))["deploy_stdout"] == "kept\n"


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGKILL, 137), (signal.SIGTERM, 143)]
)
def test_signal_is_reported_as_shells_do(run: Run, number: int, code: int) -> None:
    """The status code is 128 plus the number of the signal."""
    assert (
        reply(run(deployment(f"kill -{number:d} $$"), "script"))["deploy_status_code"]
        == code
    )


def test_nothing_is_left_but_the_tools_own_files(run: Run, tmp_path: Path) -> None:
    """Output and inputs are removed."""
    reply(run(deployment("echo hi"), "script"))
    assert list((tmp_path / "tmp").iterdir()) == []
    assert [each.name for each in (tmp_path / "w").iterdir()] == ["a"]


@pytest.mark.parametrize(
    "identity", [7, "../../x", "a/b", "x" * 1000, ""], ids=lambda value: str(value)[:8]
)
def test_an_id_names_files_safely(run: Run, tmp_path: Path, identity: object) -> None:
    """No file is written outside of the folders."""
    assert (
        reply(run(deployment("echo hi", id=identity), "script"))["deploy_stdout"]
        == "hi\n"
    )
    assert len(list((tmp_path / "w").iterdir())) == 1
    assert sorted(each.name for each in tmp_path.iterdir()) == ["o", "tmp", "w"]


def test_output_of_any_length_fits_into_a_reply(run: Run) -> None:
    """The reply has the beginning and the end, and the number of bytes between them."""
    done = run(deployment("head -c 20000000 /dev/zero; echo end"), "script")
    assert len(done.stdout) <= 950_000
    assert reply(done)["deploy_stdout"].endswith("\0end\n")


@pytest.mark.parametrize(
    ("given", "word"),
    [
        (deployment({"a": 1}), "config: "),
        (deployment("true", options={"timeout": "soon"}), "options.timeout: "),
        (deployment("true", options=[]), "options: "),
        (deployment("true", inputs={"a": 1}), "inputs: "),
        (deployment("true", outputs=[{}]), "outputs: "),
        (deployment("true", outputs=[{"name": "../../x"}]), "outputs"),
        (deployment("true", outputs=[{"name": "/etc/passwd"}]), "outputs"),
        (deployment("true", outputs=[{"name": "a\0b"}]), "outputs"),
    ],
)
def test_a_mistake_in_the_deployment_is_a_reply_that_says_it(
    run: Run, given: dict[str, Any], word: str
) -> None:
    """The caller of the hook gets a result to pass on."""
    found = reply(run(given, "script"))
    assert found["deploy_status_code"] == 125
    assert word in found["deploy_stderr"]


def test_a_place_that_cannot_be_written_to_is_a_reply_that_says_it(
    run: Run, environment: dict[str, str]
) -> None:
    """The reply names the path."""
    environment["HEAT_SCRIPT_WORKING"] = "/dev/null/w"
    found = reply(run(deployment("true"), "script"))
    assert found["deploy_status_code"] == 126
    assert "/dev/null" in found["deploy_stderr"]


def test_an_interpreter_that_is_not_there_is_a_reply_that_says_it(run: Run) -> None:
    """The script cannot be started."""
    found = reply(run(deployment("#!/no/such/interpreter\n"), "script"))
    assert found["deploy_status_code"] in (126, 127)
    assert found["deploy_stderr"]


def test_a_time_limit_ends_it(run: Run) -> None:
    """The reply has the output until then, and the reason."""
    begun = time.monotonic()
    limit = pace.limit(1.5)
    found = reply(
        run(deployment("echo begun; sleep 600", options={"timeout": limit}), "script")
    )
    assert time.monotonic() - begun < pace.seconds(30)
    assert (found["deploy_status_code"], found["deploy_stdout"]) == (124, "begun\n")
    assert f"timed out after {limit:g} s" in found["deploy_stderr"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signal_to_the_hook_ends_its_tool(
    environment: dict[str, str], tmp_path: Path, number: signal.Signals
) -> None:
    """A signal to the hook ends the deployment, too."""
    given = json.dumps(deployment(f"echo $$ >{tmp_path}/pid; exec sleep 60"))
    process = subprocess.Popen(
        [HOOK, "script"],
        stdin=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=environment,
        text=True,
    )
    with endings.ended(process):
        assert process.stdin is not None
        process.stdin.write(given)
        process.stdin.close()
        wait_until(
            lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text() != ""
        )
        process.send_signal(number)
        process.wait(pace.seconds(15))
    pid = int((tmp_path / "pid").read_text())
    wait_until(lambda: not psutil.pid_exists(pid))


@pytest.mark.parametrize(
    "given",
    ["", "hello", "[]", "7", "null", "[" * 100_000, '{"a"'],
    ids=lambda value: value[:8],
)
def test_standard_input_without_a_deployment_is_an_error(run: Run, given: str) -> None:
    """The exit code is 1, as heat-agents' hooks have it, and the only output is a message for people."""
    done = run(given, "script")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("error: standard input is not ")


@pytest.mark.parametrize(
    "arguments", [(), ("no-such-hook",), ("script", "more"), ("--no-such-option",)]
)
def test_a_hook_that_there_is_not_is_bad_usage(
    run: Run, arguments: tuple[str, ...]
) -> None:
    """The message lists the hooks, and refers to the help."""
    done = run("{}", *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("error: ")
    assert (
        f"the hooks are: {', '.join(sorted(heat_config_hooks.HOOKS))}; see --help"
        in done.stderr
    )


def test_help_of_a_hook_has_the_exit_codes(run: Run) -> None:
    """The help is one page with the exit codes."""
    done = run("", "--help")
    assert (done.returncode, done.stderr) == (0, "")
    assert "exit codes:" in done.stdout


@pytest.mark.parametrize("given", [[], "timeout=5", 7])
def test_options_of_another_shape_are_a_mistake(run: Run, given: object) -> None:
    """The message has the path, and nothing is run."""
    found = reply(run(deployment("echo ran", options=given), "script"))
    assert (found["deploy_status_code"], found["deploy_stdout"]) == (125, "")
    assert found["deploy_stderr"].startswith("options: expected an object")


def test_every_mistake_in_the_options_is_told(run: Run) -> None:
    """Each mistake has its path and the expected type, and nothing is run."""
    found = reply(
        run(
            deployment(
                "echo ran", options={"timeuot": 5, "idempotent": "yes", "timeout": 5}
            ),
            "script",
        )
    )
    assert (found["deploy_status_code"], found["deploy_stdout"]) == (125, "")
    first, second = found["deploy_stderr"].splitlines()
    assert first.startswith("options.timeuot: ")
    assert "did you mean timeout?" in first
    assert second.startswith("options.idempotent: expected true or false")


@pytest.mark.parametrize(
    "given", [None, {}, {"timeout": None}, {"ansible": {"tags": "x"}}]
)
def test_options_may_be_missing(run: Run, given: object) -> None:
    """Options may be missing, or may all be for another tool."""
    assert (
        reply(run(deployment("echo ran", options=given), "script"))["deploy_stdout"]
        == "ran\n"
    )


def test_of_a_components_options_those_of_the_tool_count(run: Run) -> None:
    """The caller has selected the config of a component, and has left the options as they are."""
    given = {"script": {"timeout": 0.3}, "ansible": {"timeout": 60}, "timeout": 60}
    assert (
        reply(run(deployment("sleep 60", options=given), "script"))[
            "deploy_status_code"
        ]
        == 124
    )


@pytest.mark.parametrize(
    "given", [{"modulepath": "/x", "timeout": 9}, {"shout": {"loud": True}}]
)
def test_option_of_another_tool_passes(run: Run, given: object) -> None:
    """The options may be those of a component, whose other tools are unknown."""
    assert (
        reply(run(deployment("echo ran", options=given), "script"))["deploy_stdout"]
        == "ran\n"
    )


def test_option_of_no_tool_is_a_mistake(run: Run) -> None:
    """An option that no tool has is a mistake."""
    found = reply(run(deployment("echo ran", options={"timeoutt": 9}), "script"))
    assert found["deploy_status_code"] == 125
    assert (
        "options.timeoutt: script has no such option; did you mean timeout?"
        in found["deploy_stderr"]
    )


def test_hook_alone_needs_only_the_standard_library() -> None:
    """A hook that runs alone needs only the standard library."""
    script = "import sys, heat_config_hooks.standalone, heat_config_hooks.tools.script\nprint(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-I", "-c", script], capture_output=True, text=True, check=True
    )
    assert not {"heat_config_agent", "yaml", "requests", "psutil"} & set(
        done.stdout.split()
    )
