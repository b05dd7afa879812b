"""The daemon and the sources that its settings name: a process beside it follows them."""

from __future__ import annotations

import json
import shutil
import signal
from pathlib import Path
from typing import Any

import psutil
import pytest

from support import endings
from support.daemon import LONG, Daemon
from support.loopback import wait_until
from support.repositories import Repository, template

pytestmark = [
    pytest.mark.new_process("daemons"),
    pytest.mark.skipif(shutil.which("git") is None, reason="git is missing: apt-get install git"),
]


def followed(daemon: Daemon) -> dict[str, Any]:
    """Return the first stack that follows a source, as `status` shows it; empty for none."""
    done = daemon.machine.agent("status", "--json", "--config", str(daemon.path))
    stacks: list[dict[str, Any]] = json.loads(done.out)["followed"]
    return stacks[0] if stacks else {}


def beside(daemon: Daemon) -> list[psutil.Process]:
    """Return the process that follows sources; none if it does not run."""
    return [each for each in endings.children(daemon.pid) if "--attached" in endings.words(each)]


@pytest.mark.slow
@pytest.mark.fault(
    1,
    "kill -9 of the daemon, or of what follows sources, during a revision, while newer ones appear",
    "the revision is carried out once, then the newest; those between are left out",
)
def test_the_daemon_keeps_a_stack_at_a_repository(daemon: Daemon, tmp_path: Path) -> None:
    """Through kills of the process and of the daemon, a revision during a run, a mistake, and a removed section."""
    log, go = tmp_path / "ran", tmp_path / "go"
    repository = Repository(tmp_path / "repository")
    one = repository.commit({"stack.yaml": template(log, "one")})
    metrics = tmp_path / "metrics.prom"
    daemon.settings["follow web"] = {"url": repository.url, "path": "stack.yaml", "interval": 0.2, "delete": "yes"}
    daemon.configure(metrics_file=str(metrics))
    daemon.start()
    wait_until(lambda: followed(daemon).get("revision") == one, LONG)

    # A run goes on while all that is above it is killed; later revisions wait for it, and one between is left out.
    two = repository.commit({"stack.yaml": template(log, "two", f"until [ -e {go} ]; do sleep 0.05; done")})
    wait_until(lambda: log.read_text().endswith("two red\n"), LONG)
    [process] = beside(daemon)
    process.kill()
    daemon.stop(signal.SIGKILL)
    repository.commit({"stack.yaml": template(log, "three")})
    four = repository.commit({"stack.yaml": template(log, "four")})
    daemon.start()
    wait_until(lambda: "is being carried out by process" in (followed(daemon).get("trouble") or ""), LONG)
    assert followed(daemon)["running"] == two
    go.touch()
    wait_until(lambda: followed(daemon).get("revision") == four, LONG)
    assert log.read_text().split() == ["one", "red", "two", "red", "four", "red"]

    repository.commit({"stack.yaml": "heat_template_version: 2018-08-31\nresources: 7\n"})
    wait_until(lambda: bool(followed(daemon).get("refused")), LONG)
    wait_until(lambda: 'heat_config_agent_follow_refused{stack="web"} 1.0' in metrics.read_text(), LONG)
    check = daemon.machine.agent("status", "--check", "--config", str(daemon.path))
    assert check.code == 1
    assert f"it stays at {four[:12]}" in check.out

    # Without the section, the stack goes, as it says; and with the daemon, the process beside it.
    del daemon.settings["follow web"]
    daemon.configure()
    daemon.send(signal.SIGHUP)
    wait_until(lambda: not (daemon.machine.state / "stacks/web").exists(), LONG)
    wait_until(lambda: not (daemon.machine.state / "follow/web").exists(), LONG)
    before = beside(daemon)
    daemon.stop(signal.SIGKILL)
    assert psutil.wait_procs(before, LONG)[1] == []


def test_a_daemon_that_follows_nothing_has_no_process_beside_it(daemon: Daemon) -> None:
    """Without followed sources, the daemon starts no such process and loads nothing for it."""
    daemon.start(PYTHONPROFILEIMPORTTIME="1")
    assert beside(daemon) == []
    daemon.stop()
    assert "heat_config_agent.daemon.daemon" in daemon.log
    assert "heat_config_stack.follow" not in daemon.log
    assert "heat_config_agent.state.followed" not in daemon.log
    assert "heat_config_agent.daemon.following" not in daemon.log
