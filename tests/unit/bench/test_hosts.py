"""The scenarios of several hosts, with few of them: all scripts run, by a template and by a playbook."""

from __future__ import annotations

import functools
from pathlib import Path

import pytest

from bench import apart, peers
from bench.scenario import OURS, Figure, LackingError, Scenario
from bench.scenarios import hosts
from support import pace

pytestmark = [pytest.mark.slow, pytest.mark.takes(60)]


@pytest.mark.parametrize("unchanged", [False, True])
def test_few_hosts_are_measured(
    unchanged: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """All subjects have figures, of new hosts and of unchanged ones. The scenario itself counts the scripts."""
    try:
        hosts.needs()
    except LackingError as lack:
        pytest.skip(str(lack))
    monkeypatch.setattr(peers, "FOLDER", tmp_path / "peers")
    few = Scenario(
        "few",
        "Few hosts",
        (Figure("cpu", "processor time", "s"),),
        functools.partial(hosts.subjects, hosts=2, scripts=2, unchanged=unchanged),
        rounds=1,
        warm_up=False,
    )
    outcome = apart.measured(few, pace.seconds(120), lambda _: None)
    assert (outcome.failed, outcome.lacks, outcome.cut) == ("", "", False)
    names = {name for name, _ in outcome.samples}
    assert names == {OURS, hosts.PLAYBOOK, *([] if unchanged else [hosts.IN_ORDER])}
    assert all(sample["cpu"] > 0 for _, sample in outcome.samples)
