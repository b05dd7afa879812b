from __future__ import annotations

import json
from pathlib import Path

import pytest

from heat_config_agent.model.log import Log
from heat_config_agent.model.run_settings import Limits
from heat_config_agent.state.deployed import Deployed
from heat_config_agent.state.journal import Journal
from heat_config_agent.state.removal.pruning import Pruning


def test_a_request_during_a_look_is_kept_until_that_has_ended(tmp_path: Path) -> None:
    """A request during a sweep is carried out after it."""
    journal = Journal(tmp_path)
    limits = Limits(secrets=1e9, age=1e9, count=10, size=10**9, files=1000)
    pruning = Pruning(journal, Deployed(tmp_path / "deployed"), tmp_path, limits, Log())
    begun = [_begins(pruning)]
    pruning.request(everything=True)
    begun.append(_begins(pruning))
    pruning.request(everything=True)
    pruning.begin_requested()
    for _ in range(2):
        pruning.work(60)
        begun.append(_begins(pruning))
    assert begun == [False, True, True, False]
    journal.close()


@pytest.mark.parametrize("name", ["", "deployed", "runs", ".journal.new"])
def test_a_state_directory_is_looked_at_first_if_there_was_anything_in_it(
    tmp_path: Path, name: str
) -> None:
    """In a new one there is nothing to remove, and the next command knows that too."""
    state = tmp_path / "state"
    state.mkdir()
    if name:
        (state / name).mkdir()
    limits = Limits(secrets=1e9, age=1e9, count=10, size=10**9, files=1000)
    begun = []
    for _ in range(2):
        journal = Journal(state)
        pruning = Pruning(journal, Deployed(state / "deployed"), state, limits, Log())
        pruning.consider()
        begun.append(pruning.busy)
        pruning.work(60)
        journal.close()
    assert begun == [bool(name), False]


class Notes(Log):
    """Keeps what is noted."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def note(self, text: str) -> None:
        self.texts.append(text)


def test_files_of_heat_agents_become_private_at_once_and_lose_their_secrets_in_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files that the journal does not know: they still say what was run, but not with which secrets."""
    folder = tmp_path / "deployed"
    folder.mkdir()
    folder.chmod(0o755)
    document = {
        "id": "d1",
        "group": "script",
        "config": "opensesame",
        "inputs": [{"name": "pin", "value": "1234"}],
    }
    contents = {
        "d1": json.dumps(document),
        "d1.notify": '{"deploy_status_code": 0, "pin": "1234"}',
        "d2": "",
        "d3": "{1234",
    }
    for name, content in contents.items():
        (folder / f"{name}.json").write_text(content)
        (folder / f"{name}.json").chmod(0o644)
    (folder / "link.json").symlink_to(tmp_path / "elsewhere")
    journal, notes = Journal(tmp_path), Notes()
    limits = Limits(secrets=100, age=1000, count=10, size=10**9, files=1000)
    pruning = Pruning(journal, Deployed(folder), tmp_path, limits, notes)
    ages = []
    for seconds in (0, 900, 200, 0):
        now = journal.steady.now() + seconds
        monkeypatch.setattr(journal.steady, "now", lambda now=now: now)
        pruning.request(everything=True)
        pruning.begin_requested()
        pruning.work(60)
        modes = {path.stat().st_mode & 0o777 for path in folder.glob("d?.*")}
        assert (folder.stat().st_mode & 0o777, modes) == (0o700, {0o600})
        ages.append(
            {path.name for path in folder.glob("d?.*") if "1234" in path.read_text()}
        )
    assert ages == [{"d1.json", "d1.notify.json", "d3.json"}] * 2 + [set()] * 2
    kept = json.loads((folder / "d1.json").read_text())
    assert (kept["id"], kept["group"], "opensesame" in str(kept)) == (
        "d1",
        "script",
        False,
    )
    assert (
        json.loads((folder / "d1.notify.json").read_text())["deploy_status_code"] == 0
    )
    assert (folder / "d2.json").read_text() == ""
    assert [note.partition("deployed")[2] for note in notes.texts] == [
        ": other users could read it; now it is private",
        "/d1.json was masked after 16.7 minutes",
        "/d3.json was masked after 16.7 minutes",
    ]
    journal.close()


def _begins(pruning: Pruning) -> bool:
    """Return whether a look is under way after what was requested was begun."""
    pruning.begin_requested()
    return pruning.busy
