from __future__ import annotations

import os
from pathlib import Path

import pytest

from heat_config_agent.settings import in_force, policy

NOBODY = 65534


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user: run the tests as root")
def test_a_folder_that_may_not_be_entered_does_not_count_as_empty(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A user who cannot see whether there is a policy begins nothing."""
    folder = tmp_path / "closed"
    folder.mkdir(mode=0o700)
    monkeypatch.setattr(in_force, "POLICY", str(folder / "policy"))
    assert in_force.policy_in_force() is None
    os.seteuid(NOBODY)
    try:
        found = in_force.policy_in_force()
    finally:
        os.seteuid(0)
    assert found is not None
    assert found.mistake == f"cannot use the policy {folder}/policy: Permission denied"


def test_the_rules_of_a_policy_may_go_on_in_further_lines() -> None:
    """Words are separated by commas or by spaces, and comments do not count."""
    found = policy.parse("/p", "# who\n[policy]\ntools = script,\n  ansible /opt/hooks/x\nmax_timeout = 90\n")
    assert found.tools == ("script", "ansible", "/opt/hooks/x")
    assert found.max_timeout == 90.0
    assert (found.sources, found.actions, found.mistake) == (None, None, "")


@pytest.mark.parametrize(("usual", "longest", "limit"), [(None, 60.0, 60.0), (90.0, 60.0, 60.0), (30.0, 60.0, 30.0)])
def test_the_usual_timeout_is_no_longer_than_the_policy_allows(
    usual: float | None, longest: float, limit: float
) -> None:
    """The default timeout is within the policy, also where no timeout is the default."""
    assert policy.parse("/p", f"[policy]\nmax_timeout = {longest:g}\n").limit(usual) == limit
