"""The sentence for whoever looks for an agent where none works."""

from __future__ import annotations

from pathlib import Path

import pytest

from heat_config_agent.settings.paths import SYSTEM_STATE, usual_state
from heat_config_agent.state import agents

ENVIRONMENT = {"HOME": "/home/joe"}


@pytest.fixture
def alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A machine without agents, on which os-collect-config works."""
    monkeypatch.setattr(agents, "_running", lambda: iter(()))
    monkeypatch.setattr(agents, "SYSTEM_STATE", str(tmp_path / "none"))
    monkeypatch.setattr(agents, "running_collector", lambda: 812)


@pytest.mark.usefixtures("alone")
def test_collector_that_works_instead_is_named() -> None:
    """Starting the agent would stop os-collect-config in the middle of its work, so the way to migrate is named."""
    hint = agents.hint(Path(usual_state(ENVIRONMENT)), (), ENVIRONMENT, "status")
    assert hint == (
        "os-collect-config (process 812) works on this machine in its place: "
        "`heat-config-agent migrate --plan` shows how the agent takes over"
    )


@pytest.mark.usefixtures("alone")
def test_named_state_directory_has_no_hint() -> None:
    """Whoever names a state directory means it."""
    assert (
        agents.hint(
            Path("/srv/state"), ("--state-dir", "/srv/state"), ENVIRONMENT, "status"
        )
        == ""
    )


def test_running_agent_of_root_comes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """The agent that runs is named, even if os-collect-config runs too."""
    user, state = (
        ("joe", f"{SYSTEM_STATE}-joe")
        if usual_state({}) == SYSTEM_STATE
        else ("root", "/x")
    )
    monkeypatch.setattr(
        agents, "_running", lambda: iter([agents.Agent(user, state, 7)])
    )
    monkeypatch.setattr(agents, "running_collector", lambda: 812)
    hint = agents.hint(Path(usual_state(ENVIRONMENT)), (), ENVIRONMENT, "status")
    assert hint.startswith(f"the agent of {user} (process 7) works on {state}: ")
