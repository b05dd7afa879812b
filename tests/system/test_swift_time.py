from __future__ import annotations

from pathlib import Path

import pytest

from system.agents import Agents
from system.openstack import Lab
from system.sites import Site

pytestmark = pytest.mark.timeout(600)  # on a machine with much else to do

SITES, ROUNDS = 4, 3


def test_result_does_not_complete_the_next_action(
    cloud: Lab, agents: Agents, tmp_path: Path
) -> None:
    """An update that waits for a running script begins as soon as Heat has the result, and gets a result of its own.

    Swift rounds the time of an object up: with an object that is readable before that time, four of eleven updates were
    completed by the result before.
    """
    sites = [
        Site(cloud, agents, tmp_path / f"site{number}", "POLL_TEMP_URL")
        for number in range(SITES)
    ]
    for site in sites:
        site.boot()
        site.wait("CREATE_COMPLETE")
    for number in range(ROUNDS):
        for site in sites:
            site.hold()
            site.update(who=f"first {number}")
        for site in sites:
            site.begins(f"UPDATE first {number}")
            site.update(who=f"second {number}")
        for site in sites:
            site.release()
        for site in sites:
            assert site.wait("UPDATE_COMPLETE").outputs == {
                "said": f"hi second {number}\n"
            }
            assert site.ran[-1] == f"UPDATE second {number}"
