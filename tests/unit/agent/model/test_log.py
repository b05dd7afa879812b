from __future__ import annotations

from heat_config_agent.model.log import Warned


def test_a_trouble_is_reported_once_until_it_has_gone() -> None:
    """Each subject has troubles of its own, each reported once."""
    warned = Warned()
    assert warned.update("disk", ["full"]) == ["full"]
    assert warned.update("disk", ["full", "slow"]) == ["slow"]
    assert warned.update("network", ["slow"]) == ["slow"]
    assert "disk" in warned
    assert warned.update("disk", []) == []
    assert "disk" not in warned
    assert warned.update("disk", ["full"]) == ["full"]
