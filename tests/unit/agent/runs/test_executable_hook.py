from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest

from heat_config_agent.runs import executable_hook
from heat_config_hooks.protocol import Command, Ended
from heat_config_hooks.reply import UNKNOWN, Reply, fit

HOOK = "/hooks/mine"


def finish(run: Path, stdout: bytes | str, stderr: str = "", code: int = 0) -> Reply:
    """Return what is made of a hook that printed this and ended so, its captures read."""
    (run / "stdout").write_bytes(stdout.encode() if isinstance(stdout, str) else stdout)
    (run / "stderr").write_text(stderr)
    return fit(
        executable_hook.finish(
            HOOK, Ended(code=code, stdout=run / "stdout", stderr=run / "stderr")
        )
    )


def test_a_hook_reads_the_deployment_on_its_standard_input(tmp_path: Path) -> None:
    """As it came, in a file for nobody else; it works in the folder of its run."""
    hook = tmp_path / "hook"
    hook.write_text("#!/bin/sh\n")
    hook.chmod(0o755)
    command = executable_hook.prepare(str(hook), {"id": "a", "later": ["é"]}, tmp_path)
    assert isinstance(command, Command)
    assert (command.argv, command.cwd) == ((str(hook),), tmp_path)
    assert command.stdin is not None
    assert json.loads(command.stdin.read_text()) == {"id": "a", "later": ["é"]}
    assert stat.S_IMODE(command.stdin.stat().st_mode) == 0o600


@pytest.mark.parametrize(
    "reply",
    [
        {
            "deploy_stdout": "o",
            "deploy_stderr": "e",
            "deploy_status_code": 0,
            "out": {"a": [1, None]},
        },
        {"deploy_status_code": "0"},
        {"deploy_status_code": 3, "deploy_stdout": "o"},
        {"deploy_status_code": "3"},
    ],
)
def test_a_reply_is_passed_on_as_it_is(tmp_path: Path, reply: Reply) -> None:
    """Byte for byte what others were sent by it before."""
    assert finish(tmp_path, f"\n{json.dumps(reply)}\n", "its log") == reply


@pytest.mark.parametrize("stdout", ["", " \n"])
def test_missing_reply_is_a_failure(tmp_path: Path, stdout: str) -> None:
    """Nothing is known of what the hook did; its log may tell."""
    reply = finish(tmp_path, stdout, "its log\n")
    assert reply["deploy_status_code"] == UNKNOWN
    assert str(reply["deploy_stderr"]).startswith(f"{HOOK} replied nothing")
    assert str(reply["deploy_stderr"]).endswith("its log\n")


@pytest.mark.parametrize(
    "stdout",
    [
        "hello",
        "[]",
        "7",
        '"text"',
        "null",
        '{"deploy_status_code": 0',
        "[" * 100_000,
        "{}{}",
        b"\xff\xfe",
        "\0",
    ],
    ids=lambda value: ascii(value)[:12],
)
def test_reply_of_a_wrong_type_is_a_failure(
    tmp_path: Path, stdout: bytes | str
) -> None:
    """The output is in the result, for people to read."""
    reply = finish(tmp_path, stdout)
    assert reply["deploy_status_code"] == UNKNOWN
    assert "did not reply with a JSON object" in str(reply["deploy_stderr"])
    assert reply["deploy_stdout"] == (
        stdout if isinstance(stdout, str) else stdout.decode("utf-8", "replace")
    )


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999"])
def test_a_reply_with_what_json_cannot_say_can_still_be_sent(
    tmp_path: Path, number: str
) -> None:
    """Python reads more than JSON has; no server does."""
    reply = finish(tmp_path, f'{{"deploy_status_code": 0, "out": {number}}}')
    json.dumps(reply, allow_nan=False)


@pytest.mark.parametrize(
    "code",
    [
        "",
        ', "deploy_status_code": null',
        *(f', "deploy_status_code": {c}' for c in ("true", '"x"', "[]", '""', '"1.5"')),
    ],
)
def test_reply_without_a_status_code_is_a_failure(tmp_path: Path, code: str) -> None:
    """To Heat it would be one; what the reply says besides is kept."""
    reply = finish(
        tmp_path, f'{{"deploy_stdout": "o", "deploy_stderr": "e", "out": 1{code}}}'
    )
    assert reply["deploy_status_code"] == UNKNOWN
    assert (reply["deploy_stdout"], reply["out"]) == ("o", 1)
    assert str(reply["deploy_stderr"]).endswith("\ne")


def test_a_hook_that_dies_is_answered_with_what_it_printed(tmp_path: Path) -> None:
    """The exit code of a hook that dies is the status code."""
    reply = finish(tmp_path, "half a rep", "Traceback\n", 139)
    assert reply == {
        "deploy_stdout": "half a rep",
        "deploy_stderr": "Traceback\n",
        "deploy_status_code": 139,
    }


@pytest.mark.parametrize(
    "text", ["{}", '{"deploy_status_code": 0}', '{"deploy_status_code": "0", "out": 1}']
)
def test_an_exit_code_wins_over_a_reply_that_claims_success(
    tmp_path: Path, text: str
) -> None:
    """The reply was written before whatever went wrong."""
    reply = finish(tmp_path, text, "", 3)
    assert reply["deploy_status_code"] == 3
    assert "exit code 3, although its reply reports no failure" in str(
        reply["deploy_stderr"]
    )


def test_a_failure_that_a_dying_hook_explains_is_its_own(tmp_path: Path) -> None:
    """The reason in the reply of a failed hook counts."""
    given = {"deploy_status_code": 7, "deploy_stderr": "because"}
    assert finish(tmp_path, json.dumps(given), "", 1) == given


def test_oversized_reply_is_a_failure(tmp_path: Path) -> None:
    """A reply that is too long is not read, and is a failure."""
    with (tmp_path / "stdout").open("wb") as file:
        file.truncate(10 * 1024**3)
    (tmp_path / "stderr").touch()
    ended = Ended(code=0, stdout=tmp_path / "stdout", stderr=tmp_path / "stderr")
    reply = executable_hook.finish(HOOK, ended)
    assert reply["deploy_status_code"] == UNKNOWN
    assert "bytes long" in str(reply["deploy_stderr"])


@pytest.mark.parametrize("code", [0, 3])
def test_a_hook_that_cleans_up_its_own_streams_has_failed(
    tmp_path: Path, code: int
) -> None:
    """A hook that removes the files of its output has failed."""
    reply = executable_hook.finish(
        HOOK, Ended(code=code, stdout=tmp_path / "stdout", stderr=tmp_path / "stderr")
    )
    assert fit(reply)["deploy_status_code"] == (code or UNKNOWN)


@pytest.mark.parametrize(
    ("text", "mode", "why"),
    [
        (
            "#!/no/such/interpreter\n",
            0o755,
            "its interpreter /no/such/interpreter does not exist",
        ),
        ("#!/bin/sh\n", 0o644, "it is not executable; make it so with «chmod +x "),
    ],
)
def test_a_hook_that_cannot_be_started_is_answered_at_once(
    tmp_path: Path, text: str, mode: int, why: str
) -> None:
    """With the reason, which the kernel would tell nobody."""
    hook = tmp_path / "hook"
    hook.write_text(text)
    hook.chmod(mode)
    reply = executable_hook.prepare(str(hook), {"id": "a"}, tmp_path)
    assert isinstance(reply, dict)
    assert reply["deploy_status_code"] == 126
    assert f"{hook} cannot be started: {why}" in str(reply["deploy_stderr"])
