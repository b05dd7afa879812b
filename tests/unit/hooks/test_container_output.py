"""The lines of a container's log that its engine's client has lost are added to the output of a run."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from heat_config_hooks.tools import container_output


@pytest.mark.parametrize(
    ("log", "streamed", "expected"),
    [
        (b"", b"", b""),
        (b"one\ntwo\n", b"", b"one\ntwo\n"),
        (b"one\ntwo\n", b"one\ntwo\n", b""),
        (b"one\ntwo\n", b"one\n", b"two\n"),
        (b"one\ntwo\n", b"two\n", b"one\n"),
        (b"one\ntwo\nthree\n", b"one\nthree\n", b"two\n"),
        (b"one\ntwo\n", b"one\ntw", b"o\n"),
        (b"one\ntwo\n", b"Trying to pull\none\nfrom the engine\ntwo\n", b""),
        (b"one\n", b"Trying to pull\n", b"one\n"),
        (b"one\n", b"none\n", b"one\n"),
        (b"no newline", b"no newline", b""),
        (b"no newline", b"", b"no newline"),
        (b"a\na\na\n", b"a\na\n", b"a\n"),
        (b"a\r\n\xff\0\n", b"a\r\n", b"\xff\0\n"),
        (b"two\n", b"one\ntwo\n", b""),  # the log was rotated
    ],
)
def test_lines_that_the_stream_lacks_are_returned(
    log: bytes, streamed: bytes, expected: bytes
) -> None:
    """The lines of the log are returned that the stream does not have, each as often as it lacks there."""
    assert container_output.missing(log, streamed) == expected


ENGINE = """\
#!/bin/sh
case $1 in
  logs) {logs} ;;
  container) {inspect} ;;
esac
"""

PROGRAM = """\
import os, sys
from heat_config_hooks.tools import container_output
os.write(1, b"before\\n")
progress = container_output.Progress()
os.write(1, {streamed})
progress.complete([{engine!r}], "web")
print(container_output.exit_code([{engine!r}], "web", 7))
"""


def result(
    folder: Path, *, logs: str, inspect: str = "exit 1", streamed: str = r"b'one\n'"
) -> tuple[str, str]:
    """Return the output and the errors of a process that completes the output of a container."""
    engine = folder / "engine"
    engine.write_text(ENGINE.format(logs=logs, inspect=inspect))
    engine.chmod(0o755)
    with (
        (folder / "stdout").open("wb") as stdout,
        (folder / "stderr").open("wb") as stderr,
    ):
        program = PROGRAM.format(engine=str(engine), streamed=streamed)
        subprocess.run(
            [sys.executable, "-c", program], stdout=stdout, stderr=stderr, check=True
        )
    return (folder / "stdout").read_text(), (folder / "stderr").read_text()


@pytest.mark.parametrize(
    ("logs", "output", "errors"),
    [
        ("echo one; echo two; echo lost >&2", "before\none\ntwo\n7\n", "lost\n"),
        ("echo one", "before\none\n7\n", ""),
        (
            "echo one; echo two; echo this driver has no logs >&2; exit 1",
            "before\none\n7\n",
            "",
        ),
    ],
    ids=["lost", "complete", "unreadable"],
)
def test_output_is_completed_from_the_log(
    tmp_path: Path, logs: str, output: str, errors: str
) -> None:
    """The output of other commands is not compared, and an unreadable log changes nothing."""
    assert result(tmp_path, logs=logs) == (output, errors)


def test_large_output_is_kept_as_streamed(tmp_path: Path) -> None:
    """A stream or a log over the limit is not compared, and the memory for it is bounded."""
    size = container_output.COMPARED
    assert (
        result(tmp_path, logs=f"echo two; head -c {size} /dev/zero")[0]
        == "before\none\n7\n"
    )
    assert (
        result(tmp_path, logs="echo two", streamed=f"b'x' * {size + 1}")[0]
        == f"before\n{'x' * (size + 1)}7\n"
    )


@pytest.mark.parametrize(
    ("state", "code"),
    [("exited 3", 3), ("stopped 0", 0), ("created 0", 7), ("running 0", 7), ("", 7)],
)
def test_exit_code_is_that_of_the_container(
    tmp_path: Path, state: str, code: int
) -> None:
    """The client's exit code counts only if the engine does not report that the container has ended."""
    assert (
        result(tmp_path, logs="echo one", inspect=f"echo {state}")[0]
        == f"before\none\n{code}\n"
    )
