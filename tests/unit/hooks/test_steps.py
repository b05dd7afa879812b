from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import textwrap
from pathlib import Path
from typing import Any

import pytest

from heat_config_hooks import protocol, steps, verdict
from heat_config_hooks.protocol import Command, Ended, Workplace
from heat_config_hooks.reply import fit
from heat_config_hooks.verdict import Change
from support import endings, pace
from support.loopback import wait_until

MODULE = """\
import os
import signal
import sys
import time
from heat_config_hooks import steps
from heat_config_hooks.errors import HookError, MissingTool

def carry_out(request, place):
"""
"""The beginning of a hook whose work is several commands."""

LOADER = "import runpy, sys; sys.path.append({!r}); runpy.run_module('heat_config_hooks.steps', run_name='__main__')"
"""The program of the command, but that it finds the hook of the test, which is installed nowhere."""


@pytest.fixture
def place(tmp_path: Path) -> Workplace:
    """Return where a hook works."""
    (tmp_path / "run").mkdir()
    return Workplace(
        run=tmp_path / "run",
        working=tmp_path / "w",
        outputs=tmp_path / "o",
        environment={"PATH": os.environ["PATH"]},
    )


def request(**fields: Any) -> protocol.Request:
    """Return the request for a hook."""
    given = {"id": "a", "key": "a", "name": "n", "action": "CREATE", "config": None}
    return protocol.Request(
        **{**given, "inputs": {}, "outputs": (), "options": {}, **fields}
    )


def command(place: Workplace, body: str, **fields: Any) -> Command:
    """Return the command that has a hook with this body carry out a request."""
    (place.run / "modules").mkdir(exist_ok=True)
    (place.run / "modules" / "mine.py").write_text(
        MODULE + textwrap.indent(textwrap.dedent(body), "    ")
    )
    found = steps.command("mine", request(**fields), place)
    program, *flags, folder = found.argv
    assert flags == ["-I", "-X", "utf8", "-m", "heat_config_hooks.steps"]
    return Command(
        argv=(program, "-I", "-c", LOADER.format(str(place.run / "modules")), folder),
        cwd=found.cwd,
    )


def start(
    place: Workplace, command: Command, **environment: str
) -> subprocess.Popen[bytes]:
    """Start a command, as the agent does."""
    with (
        (place.run / "stdout").open("wb") as stdout,
        (place.run / "stderr").open("wb") as stderr,
    ):
        return subprocess.Popen(
            command.argv,
            cwd=command.cwd,
            env={**place.environment, **command.environment, **environment},
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=stderr,
            start_new_session=True,
        )


def finish(place: Workplace, code: int) -> dict[str, Any]:
    """Return the result of a command that has ended."""
    ended = Ended(
        code=code if code >= 0 else 128 - code,
        stdout=place.run / "stdout",
        stderr=place.run / "stderr",
    )
    return fit(protocol.collect(request(), place, ended))


def carry_out(
    place: Workplace,
    body: str,
    environment: dict[str, str] | None = None,
    **fields: Any,
) -> dict[str, Any]:
    """Carry out a request with a hook whose body is `body`, and return the result."""
    with start(place, command(place, body, **fields), **environment or {}) as process:
        return finish(place, process.wait(pace.seconds(60)))


def test_a_sentence_is_on_a_line_of_its_own(place: Workplace) -> None:
    """A command may end its output without a newline; our sentence does not continue its last line."""
    body = """
        steps.say("begin", error=True)
        steps.run(["sh", "-c", "printf out; printf err >&2"])
        steps.say("of ours")
        steps.say("failed", error=True)
        steps.say("twice", error=True)
        return 1
    """
    done = carry_out(place, body)
    assert done["deploy_stdout"] == "out\nof ours\n"
    assert done["deploy_stderr"] == "begin\nerr\nfailed\ntwice\n"


def test_output_of_hook_and_commands_is_in_order(place: Workplace) -> None:
    """The output of the hook and its commands is in order, and the returned number is the exit code."""
    body = """
        steps.say("one")
        assert steps.run(["echo", "two"]) == 0
        print("three")
        assert steps.run(["sh", "-c", "echo four; echo err >&2; exit 3"]) == 3
        steps.say("five", error=True)
        return 4
    """
    assert carry_out(place, body) == {
        "deploy_stdout": "one\ntwo\nthree\nfour\n",
        "deploy_stderr": "err\nfive\n",
        "deploy_status_code": 4,
    }


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGKILL, 137), (signal.SIGTERM, 143)]
)
@pytest.mark.parametrize("how", ["steps.run(argv)", "steps.ask(argv)[0]"])
def test_a_signal_that_ends_a_step_is_said_as_shells_do(
    place: Workplace, number: int, code: int, how: str
) -> None:
    """The exit code is 128 plus the number of the signal."""
    body = f"argv = ['sh', '-c', 'kill -{number:d} $$']\nreturn {how}"
    assert carry_out(place, body)["deploy_status_code"] == code


def test_a_question_is_answered(place: Workplace) -> None:
    """`ask` returns exit code and output; only standard error becomes output of the run."""
    body = r"""
        answer = steps.ask(["sh", "-c", "printf 'a\\377\\n\\n'; pwd; echo err >&2; exit 2"], cwd=place.working)
        assert answer == (2, f"a\ufffd\n\n{place.working}\n"), answer
        return 0
    """
    place.working.mkdir()
    assert carry_out(place, body) == {
        "deploy_stdout": "",
        "deploy_stderr": "err\n",
        "deploy_status_code": 0,
    }


def test_a_step_has_a_folder_and_an_environment(place: Workplace) -> None:
    """The folder and the environment are the call's or the run's, and standard input is empty."""
    body = """
        steps.run(["sh", "-c", "pwd; echo $MINE; cat"])
        steps.run(["sh", "-c", "pwd; echo $MINE; cat"], cwd=place.working, environment={"MINE": "own"})
        return 0
    """
    place.working.mkdir()
    found = carry_out(place, body, {"MINE": "given"})
    assert found["deploy_stdout"] == f"{place.run}\ngiven\n{place.working}\nown\n"


@pytest.mark.parametrize(
    ("error", "sentence", "code"),
    [
        ("HookError('it is none', 'config.web')", "config.web: it is none\n", 125),
        ("HookError('no é')", "no é\n", 125),
        (
            "MissingTool('x is not installed; install it')",
            "x is not installed; install it\n",
            127,
        ),
        (
            "FileNotFoundError(2, 'No such file', '/no/such')",
            "No such file: /no/such\n",
            126,
        ),
        ("OSError('only words')", "only words\n", 126),
    ],
)
def test_expected_error_is_one_sentence_with_its_code(
    place: Workplace, error: str, sentence: str, code: int
) -> None:
    """The sentence follows the earlier output, and the error has a status code of its own."""
    body = f"steps.say('begun'); raise {error}"
    expected = {
        "deploy_stdout": "begun\n",
        "deploy_stderr": sentence,
        "deploy_status_code": code,
    }
    assert carry_out(place, body) == expected


def test_a_program_that_cannot_be_started_is_said(place: Workplace) -> None:
    """The message names it."""
    found = carry_out(place, "return steps.run(['no-such-program'])")
    assert found["deploy_stderr"] == "No such file or directory: no-such-program\n"
    assert found["deploy_status_code"] == 126


def test_a_defect_is_a_failure(place: Workplace) -> None:
    """The output has the traceback, which is needed to fix the defect."""
    found = carry_out(place, "return 1 // 0")
    assert found["deploy_status_code"] == 1
    assert "ZeroDivisionError" in found["deploy_stderr"]


def test_signal_ends_the_commands_of_a_hook(place: Workplace) -> None:
    """At a signal, the commands of a hook are ended and its `finally` clauses run."""
    body = """
        try:
            steps.say("begun")
            # It says so only when it is surely waited for: who is ended while it starts something leaves it behind.
            return steps.run(["sh", "-c", "sleep 1; echo $$ >pid; exec sleep 60"])
        finally:
            steps.say("put in order")
    """
    with endings.ended(start(place, command(place, body))) as process:
        path = place.run / "pid"
        wait_until(lambda: path.exists() and path.read_text().endswith("\n"))
        process.send_signal(signal.SIGTERM)
        assert process.wait(pace.seconds(15)) == 143
    found = finish(place, process.returncode)
    assert (found["deploy_stdout"], found["deploy_stderr"]) == (
        "begun\nput in order\n",
        "",
    )
    assert not Path(f"/proc/{path.read_text().strip()}").exists()


@pytest.mark.parametrize(
    "variables", [("ü", "deploy_stdout"), (), None], ids=["some", "none", "all"]
)
def test_the_request_arrives_as_it_was_sent(
    place: Workplace, variables: tuple[str, ...] | None
) -> None:
    """With all types and characters, and with the folders."""
    fields: dict[str, Any] = {
        "id": "é/../x",
        "key": "sha256-0",
        "name": "☃ \U0001f600",
        "action": "(left)",
        "config": {"a": [1, 1.5, None, True, "\ud800 \0 \n"]},
        "inputs": {"ü": 10**30, "n": None},
        "outputs": ("a", "b"),
        "options": {"timeout": 5.0, "texts": ["a"]},
        "creation_time": "2026",
        "leaves": "x",
        "variables": variables,
    }
    body = """
        import json, pathlib
        found = {"request": vars(request), "place": [str(place.run), str(place.working)]}
        found.update(outputs=str(place.outputs), environment=dict(place.environment))
        found["types"] = [type(request.outputs).__name__, type(request.variables).__name__]
        pathlib.Path(place.run / "found").write_text(json.dumps(found))
        return 0
    """
    assert carry_out(place, body, **fields)["deploy_status_code"] == 0
    found = json.loads((place.run / "found").read_text())
    as_lists = {
        "outputs": ["a", "b"],
        "variables": None if variables is None else list(variables),
    }
    assert found.pop("request") == {**fields, **as_lists}
    assert found == {
        "place": [str(place.run), str(place.working)],
        "outputs": str(place.outputs),
        "environment": dict(place.environment),
        "types": ["tuple", type(variables).__name__],
    }


def test_request_of_a_hook_is_private(place: Workplace) -> None:
    """The request is in a private file and on no command line, as it may have secrets."""
    found = steps.command(
        "mine",
        request(inputs={"password": "5ecret"}, config="5ecret"),
        place,
        EXTRA="x",
    )
    written = [path for path in place.run.iterdir() if b"5ecret" in path.read_bytes()]
    assert [stat.S_IMODE(path.stat().st_mode) for path in written] == [0o600]
    assert "5ecret" not in str(found)
    assert (found.cwd, dict(found.environment)) == (place.run, {"EXTRA": "x"})


@pytest.mark.parametrize(
    "locale",
    [{}, {"LC_ALL": "C"}, {"LANG": "en_US.ISO-8859-1"}, {"PYTHONIOENCODING": "ascii"}],
)
def test_anything_can_be_said(place: Workplace, locale: dict[str, str]) -> None:
    """Any characters, in any locale; undecodable bytes are replaced."""
    found = carry_out(
        place,
        "steps.say('é ☃ \\ud800'); steps.say('é \\udcff', error=True); return 0",
        locale,
    )
    assert (found["deploy_stdout"], found["deploy_stderr"]) == ("é ☃ ?\n", "é ?\n")


def test_steps_load_no_module_from_their_folders(
    place: Workplace, tmp_path: Path
) -> None:
    """No module comes from its folders or from folders in the environment, which configs may write."""
    trap = f"open({str(tmp_path / 'loaded')!r}, 'w')"
    for folder in (
        place.run,
        tmp_path / "elsewhere",
        tmp_path / "elsewhere" / "heat_config_hooks",
    ):
        folder.mkdir(exist_ok=True)
        for name in (
            "json",
            "signal",
            "subprocess",
            "dataclasses",
            "sitecustomize",
            "usercustomize",
            "__init__",
            "steps",
        ):
            (folder / f"{name}.py").write_text(trap)
    # which has no steps
    command = steps.command("heat_config_hooks.tools.script", request(), place)
    elsewhere = str(tmp_path / "elsewhere")
    with start(
        place,
        command,
        PYTHONPATH=elsewhere,
        PYTHONHOME=elsewhere,
        PYTHONSTARTUP=f"{elsewhere}/json.py",
    ) as process:
        assert process.wait(pace.seconds(60)) == 1
    assert (
        "module 'heat_config_hooks.tools.script' has no attribute 'carry_out'"
        in (place.run / "stderr").read_text()
    )
    assert not (tmp_path / "loaded").exists()


def looked(place: Workplace, body: str) -> verdict.Verdict:
    """Return the verdict of a hook whose `look` has this body."""
    text = textwrap.indent(textwrap.dedent(body), "    ")
    (place.run / "modules").mkdir()
    (place.run / "modules" / "mine.py").write_text(
        MODULE.replace("def carry_out", "def look") + text
    )
    program, *_, folder = steps.looking("mine", request(), place).argv
    loader = LOADER.format(str(place.run / "modules"))
    process = start(
        place, Command(argv=(program, "-I", "-c", loader, folder), cwd=place.run)
    )
    with process:
        code = process.wait(pace.seconds(60))
    ended = Ended(code=code, stdout=place.run / "stdout", stderr=place.run / "stderr")
    return steps.seen(request(), place, ended)


LOOKS = {
    "in effect": (
        """
        from heat_config_hooks.verdict import in_effect
        return in_effect(["/etc/a"])
        """,
        verdict.in_effect(["/etc/a"]),
    ),
    "after the output of a command": (
        """
        from heat_config_hooks.verdict import Change, drifted
        steps.run(["printf", "no newline"])
        return drifted([Change(what="/etc/a", how="its content differs", diff="-a\\n+b")])
        """,
        verdict.drifted(
            [Change(what="/etc/a", how="its content differs", diff="-a\n+b")]
        ),
    ),
    "a missing tool": (
        """
        raise MissingTool("podman is not installed")
        """,
        verdict.unknown("podman is not installed"),
    ),
    "a file that cannot be read": (
        """
        open("/nowhere")
        """,
        verdict.unknown("No such file or directory: /nowhere"),
    ),
    "a defect": (
        """
        raise ValueError("mine")
        """,
        verdict.unknown("the verification ended with exit code 1"),
    ),
    "no answer": (
        """
        os._exit(0)
        """,
        verdict.unknown("the answer of the verification is not JSON"),
    ),
}


@pytest.mark.parametrize(("body", "expected"), LOOKS.values(), ids=LOOKS)
def test_verdict_of_a_verification_with_commands_is_its_last_line(
    place: Workplace, body: str, expected: verdict.Verdict
) -> None:
    """Without one, the machine is unknown."""
    assert looked(place, body) == expected
