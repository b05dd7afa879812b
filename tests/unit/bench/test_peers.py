"""The programs that are replaced can be had, or it is said why not."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench import peers
from bench.scenario import LackingError


@pytest.mark.slow
def test_failed_installation_is_reported_as_missing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Without a package index the sentence says where it was to be installed and why it was not; no half is kept."""
    monkeypatch.setattr(peers, "FOLDER", tmp_path / "peers")
    monkeypatch.setattr(peers, "BIN", tmp_path / "peers" / "bin")
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
    monkeypatch.setenv("PIP_RETRIES", "0")

    with pytest.raises(
        LackingError,
        match=rf"cannot be installed in {tmp_path}/peers: .*os-collect-config",
    ):
        peers.ready()
    assert not (tmp_path / "peers" / "had").exists()


def test_installation_is_tried_once(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A failed installation is not repeated for each scenario, nor is a successful one."""
    monkeypatch.setattr(peers, "FOLDER", tmp_path / "peers")
    tries: list[int] = []

    def fail() -> None:
        tries.append(1)
        raise OSError("no room")

    monkeypatch.setattr(peers, "_have", fail)
    for _ in range(2):
        with pytest.raises(LackingError, match="no room"):
            peers.ready()
    assert tries == [1]
