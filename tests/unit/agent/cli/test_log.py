from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from heat_config_agent.cli import agent
from heat_config_agent.deployments import metadata
from heat_config_agent.model.deployment import Document
from heat_config_agent.model.entry import Run
from heat_config_agent.runs import run_folder
from heat_config_agent.state import lock
from heat_config_agent.state.journal import Journal
from heat_config_hooks import processes
from support.machine import deployment

DEPLOYMENT = metadata.parse(
    Document(source="test", content=[deployment()])
).deployments[0]
KEY = DEPLOYMENT.key


class AgentAtWork:
    """An agent, up to the moment at which it records the run of a deployment whose folder it has made."""

    def __init__(self, state: Path) -> None:
        self.state = state
        self.folder = state / "runs" / KEY
        self._journal = Journal(state)
        self._journal.accepted(DEPLOYMENT, tool="script")

    def prepare(self, number: int) -> Run:
        """Make the folder for a run, start its process, and return the run."""
        mark = f"{KEY}.{number}"
        run_folder.make(self.folder, mark)
        self._process = subprocess.Popen(["cat"], stdin=subprocess.PIPE)
        pid = self._process.pid
        ticks = processes.ticks(pid)
        assert ticks is not None
        return Run(
            mark=mark,
            boot=processes.boot_id(),
            pid=pid,
            ticks=ticks,
            began=processes.since_boot(),
            limit=None,
            hook="builtin:script",
            working="/w",
            outputs="/o",
        )

    def record(self, run: Run) -> None:
        """Record the run, which prints a line."""
        self._journal.running(KEY, run)
        (self.folder / "stdout").write_text(f"line of {run.mark}\n")

    def end(self) -> None:
        """End the process of the run."""
        self._process.communicate()

    def retry(self) -> None:
        """Record that the run is followed by another one."""
        self._journal.retry(KEY, "exit code 75", spent=0.0, due=0.0)

    def close(self) -> None:
        """End what is left, and close the journal."""
        self.end()
        self._journal.close()


@pytest.fixture
def at_work(tmp_path: Path) -> Iterator[AgentAtWork]:
    """An agent that has accepted the deployment and holds the lock."""
    with lock.held(tmp_path / "state"):
        agent_at_work = AgentAtWork(tmp_path / "state")
        yield agent_at_work
        agent_at_work.close()


def follow(
    state: Path, monkeypatch: pytest.MonkeyPatch, *steps: Callable[[], object]
) -> None:
    """Run `log -f`; each time that it waits, the next step is taken instead."""
    left = list(steps)
    monkeypatch.setattr(time, "sleep", lambda _: left.pop(0)())
    options = agent.parser("log").parse_args(
        ["log", "-f", "d1", "--state-dir", str(state)]
    )
    assert options.run(options) == 0
    assert left == []


def test_following_waits_for_the_record_of_a_run(
    at_work: AgentAtWork,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """`log -f` follows a run whose folder is there, and which the agent is about to record."""
    run = at_work.prepare(1)

    follow(
        at_work.state,
        monkeypatch,
        lambda: None,
        lambda: at_work.record(run),
        at_work.end,
    )

    assert capsys.readouterr().out == f"line of {KEY}.1\n"


def test_following_waits_for_the_record_of_another_attempt(
    at_work: AgentAtWork,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """`log -f` follows the next attempt once its folder has taken the place of the last one's."""
    at_work.record(at_work.prepare(1))
    at_work.end()
    at_work.retry()
    follow(at_work.state, monkeypatch)
    assert capsys.readouterr().out == f"line of {KEY}.1\n"
    run = at_work.prepare(2)

    follow(at_work.state, monkeypatch, lambda: at_work.record(run), at_work.end)

    assert capsys.readouterr().out == f"line of {KEY}.2\n"


def test_following_waits_for_no_record_without_an_agent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """`log -f` ends at once if the agent was killed before it recorded the run."""
    with lock.held(tmp_path / "state"):
        killed = AgentAtWork(tmp_path / "state")
        killed.prepare(1)
        killed.close()

    follow(tmp_path / "state", monkeypatch)

    assert capsys.readouterr().out == ""
