"""The output of runs on hosts, followed by `log --follow`."""

from __future__ import annotations

import subprocess

import pytest

from heat_config_agent.cli import stack_package
from heat_config_agent.cli.deployments.elsewhere import Following
from heat_config_agent.cli.stack_package import Elsewhere
from support.loopback import wait_until

ONE = Elsewhere(
    title="t/web_run",
    host=None,
    place="web1",
    stack="1",
    deployment="2",
    run="3",
    source="stack",
    is_open=False,
)
"""A run on a host."""


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Hosts as shells: each question runs the first of these lines."""
    lines: list[str] = []

    def follow(*_: object) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            ["sh", "-c", lines.pop(0)], stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )

    monkeypatch.setattr(stack_package, "follow_elsewhere", follow)
    return lines


def test_run_that_began_last_is_followed(
    answers: list[str], capfd: pytest.CaptureFixture[str]
) -> None:
    """A run that begins between the last look for runs and the end of the stack has its output printed."""
    runs: list[Elsewhere] = []
    following = Following(lambda: list(runs), ())
    answers.append("echo after")
    assert not following.copy(9, at_work=True)
    runs.append(ONE)

    wait_until(lambda: not following.copy(9, at_work=False))
    assert capfd.readouterr().out == "t/web_run  | after\n"


def test_host_is_asked_once_more_after_the_end(
    answers: list[str], capfd: pytest.CaptureFixture[str]
) -> None:
    """A run that had not begun when its host was asked is asked about after the end of the stack, once."""
    following = Following(lambda: [ONE], ())
    answers += ["echo 'error: it has not begun' >&2; exit 8", "echo after"]
    wait_until(lambda: not following.copy(9, at_work=True))

    wait_until(lambda: not following.copy(9, at_work=False))
    assert capfd.readouterr().out == "t/web_run  | after\n"
    assert (answers, following.missing) == ([], [])
