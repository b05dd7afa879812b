"""The daemon and the sources that its settings name: a process beside it follows them."""

from __future__ import annotations

import json
import os
import shutil
import signal
from pathlib import Path
from typing import Any

import psutil
import pytest

from heat_config_agent.state import lock
from support import endings
from support.daemon import LONG, Daemon
from support.loopback import wait_until
from support.machine import Done
from support.repositories import Repository, template

pytestmark = [
    pytest.mark.new_process("daemons"),
    pytest.mark.skipif(
        shutil.which("git") is None, reason="git is missing: apt-get install git"
    ),
]


def followed(daemon: Daemon) -> dict[str, Any]:
    """Return the first source that is followed, as `source list` shows it; empty for none."""
    words = ("source", "list", "--json", "--config", str(daemon.path))
    done = daemon.machine.agent(*words)
    stacks: list[dict[str, Any]] = [
        each for each in done.data["sources"] if each["kind"] == "followed"
    ]
    return stacks[0] if stacks else {}


def beside(daemon: Daemon) -> list[psutil.Process]:
    """Return the process that follows sources; none if it does not run."""
    return [
        each
        for each in endings.children(daemon.pid)
        if "--attached" in endings.words(each)
    ]


@pytest.mark.slow
@pytest.mark.fault(
    1,
    "kill -9 of the daemon, or of what follows sources, during a revision, while newer ones appear",
    "the revision is carried out once, then the newest; those between are left out",
)
def test_the_daemon_keeps_a_stack_at_a_repository(
    daemon: Daemon, tmp_path: Path
) -> None:
    """Through kills of the process and of the daemon, a revision during a run, a mistake, and a removed section."""
    log, go = tmp_path / "ran", tmp_path / "go"
    repository = Repository(tmp_path / "repository")
    one = repository.commit({"stack.yaml": template(log, "one")})
    metrics = tmp_path / "metrics.prom"
    daemon.settings["follow web"] = {
        "url": repository.url,
        "path": "stack.yaml",
        "interval": 0.2,
        "delete": "yes",
    }
    daemon.configure(metrics_file=str(metrics))
    daemon.start()
    wait_until(lambda: followed(daemon).get("revision") == one, LONG)

    # A run goes on while all that is above it is killed; later revisions wait for it, and one between is left out.
    two = repository.commit(
        {"stack.yaml": template(log, "two", f"until [ -e {go} ]; do sleep 0.05; done")}
    )
    wait_until(lambda: log.read_text().endswith("two red\n"), LONG)
    [process] = beside(daemon)
    process.kill()
    daemon.stop(signal.SIGKILL)
    repository.commit({"stack.yaml": template(log, "three")})
    four = repository.commit({"stack.yaml": template(log, "four")})
    daemon.start()
    wait_until(
        lambda: (
            "is being carried out by process" in (followed(daemon).get("trouble") or "")
        ),
        LONG,
    )
    assert followed(daemon)["running"] == two
    go.touch()
    wait_until(lambda: followed(daemon).get("revision") == four, LONG)
    assert log.read_text().split() == ["one", "red", "two", "red", "four", "red"]

    repository.commit(
        {"stack.yaml": "heat_template_version: 2018-08-31\nresources: 7\n"}
    )
    wait_until(lambda: bool(followed(daemon).get("refused")), LONG)
    wait_until(
        lambda: (
            'heat_config_agent_follow_refused{stack="web"} 1.0' in metrics.read_text()
        ),
        LONG,
    )
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


def local(daemon: Daemon, tmp_path: Path) -> Path:
    """Have the daemon follow a document of this machine; return its file."""
    document = tmp_path / "site.json"
    document.write_text(
        json.dumps([{"name": "a", "group": "script", "config": "echo one"}])
    )
    daemon.settings["follow web"] = {"url": str(document), "interval": 0.2}
    daemon.configure(metrics_file=str(tmp_path / "metrics.prom"))
    daemon.start()
    wait_until(lambda: followed(daemon).get("state") == "ok", LONG)
    return document


@pytest.mark.slow
def test_section_that_is_back_in_the_settings_is_followed_again(
    daemon: Daemon, tmp_path: Path
) -> None:
    """Each time, the settings count that were read last; until the source is asked, the section is shown as new."""
    document = local(daemon, tmp_path)
    section = daemon.settings.pop("follow web")
    daemon.configure()
    daemon.send(signal.SIGHUP)
    wait_until(lambda: not (daemon.machine.state / "follow/web").exists(), LONG)
    assert followed(daemon) == {}

    daemon.settings["follow web"] = section
    daemon.configure()
    assert followed(daemon)["state"] == "waiting"
    assert "web" in agent(daemon, "status").out
    document.write_text(
        json.dumps([{"name": "b", "group": "script", "config": "echo two"}])
    )
    daemon.send(signal.SIGHUP)
    wait_until(lambda: followed(daemon).get("state") == "ok", LONG)
    assert agent(daemon, "log", "web/b").out == "two\n"


@pytest.mark.slow
def test_agent_says_at_once_how_a_revision_has_ended(
    daemon: Daemon, tmp_path: Path
) -> None:
    """It does not wait for its next poll of other sources to hear of it."""
    daemon.configure(polling_interval=3600, min_polling_interval=3600)
    document = local(daemon, tmp_path)

    def doing() -> str:
        return str(agent(daemon, "status", "--json").data["agent"]["doing"])

    for script, said in (("exit 3", "has failed"), ("true", "idle")):
        document.write_text(
            json.dumps([{"name": "a", "group": "script", "config": script}])
        )
        wait_until(lambda said=said: said in doing(), LONG)  # type: ignore[misc]
    wait_until(lambda: doing() == "idle", LONG)


@pytest.mark.slow
@pytest.mark.fault(
    5,
    "the section of a followed document is removed while a deployment of it runs",
    "the source is forgotten when the run has ended, and the commands show the run until then",
)
@pytest.mark.parametrize("is_killed", [False, True])
def test_running_deployment_of_a_removed_section_is_not_forgotten(
    daemon: Daemon, tmp_path: Path, is_killed: bool
) -> None:
    """Also if the command that carries out its document was killed, so that the run alone goes on."""
    document, go = local(daemon, tmp_path), tmp_path / "go"
    script = f"until [ -e {go} ]; do sleep 0.05; done"
    document.write_text(
        json.dumps([{"name": "slow", "group": "script", "config": script}])
    )

    def state() -> str:
        shown = agent(daemon, "status", "--json").data["deployments"]
        return next((each["state"] for each in shown if each["name"] == "web/slow"), "")

    try:
        wait_until(lambda: state() == "running", LONG)
        if is_killed:
            daemon.stop(signal.SIGKILL)
            place = daemon.machine.state / "follow/web/document"
            holder = lock.holder(place)
            assert holder is not None
            os.kill(holder[0], signal.SIGKILL)
            wait_until(lambda: lock.holder(place) is None, LONG)
        del daemon.settings["follow web"]
        daemon.configure()
        if is_killed:
            daemon.start()
        else:
            daemon.send(signal.SIGHUP)
        wait_until(lambda: "is forgotten when" in daemon.log, LONG)
        assert state() == "running"
        assert agent(daemon, "log", "web/slow").code == 0
    finally:
        go.touch()
    wait_until(lambda: not (daemon.machine.state / "follow/web").exists(), LONG)


def agent(daemon: Daemon, *words: str) -> Done:
    """Run a command on the daemon's settings."""
    return daemon.machine.agent(*words, "--config", str(daemon.path))


@pytest.mark.slow
@pytest.mark.fault(
    5,
    "a place of a followed source that cannot be written while the daemon works",
    "every command and the metrics say so, and no longer once it can be written",
)
@pytest.mark.parametrize("place", ["record.json", "follow"])
def test_record_that_cannot_be_written_is_the_trouble_of_the_agent(
    daemon: Daemon, tmp_path: Path, place: str
) -> None:
    """The record on disk, of before, says that the revision is in force; the process beside the daemon tells it."""
    document = local(daemon, tmp_path)
    folder = daemon.machine.state / "follow"
    blocked = folder if place == "follow" else folder / "web" / place
    aside = blocked.with_name("aside")
    blocked.rename(aside)
    if place == "follow":
        blocked.touch()
    else:
        (blocked / "x").mkdir(parents=True)
    document.write_text(
        json.dumps([{"name": "a", "group": "script", "config": "echo two"}])
    )
    wait_until(lambda: "cannot" in (followed(daemon).get("trouble") or ""), LONG)
    check = agent(daemon, "status", "--check")
    assert check.code == 1
    assert "source web: cannot " in check.out
    assert "cannot" in agent(daemon, "source", "list").out
    assert "source web: cannot " in agent(daemon, "wait", "--wait-for", "0.1").err
    metrics = tmp_path / "metrics.prom"
    wait_until(lambda: 'follow_current{stack="web"} 0.0' in metrics.read_text(), LONG)

    if place == "follow":
        blocked.unlink()
        aside.rename(blocked)
    else:
        shutil.rmtree(blocked)
    wait_until(
        lambda: (
            (followed(daemon).get("state"), followed(daemon).get("trouble"))
            == ("ok", None)
        ),
        LONG,
    )
    wait_until(lambda: agent(daemon, "status", "--check").code == 0, LONG)


@pytest.mark.slow
def test_process_that_follows_sources_and_ends_is_a_trouble_until_the_next_one_follows(
    daemon: Daemon, tmp_path: Path
) -> None:
    """It is started again, and the alarm is over when that has asked the source."""
    local(daemon, tmp_path)
    [process] = beside(daemon)
    process.kill()
    agent(daemon, "poll")
    words = "the process that follows sources has ended"
    wait_until(lambda: words in agent(daemon, "status", "--check").out, LONG)
    wait_until(lambda: agent(daemon, "status", "--check").code == 0, LONG)
    assert [each.pid for each in beside(daemon)] != [process.pid]
