"""The facts that a pass collects before it plans."""

from __future__ import annotations

import itertools
from pathlib import Path
from unittest import mock

import pytest

from heat_config_agent.deployments import cleanup, metadata, plan
from heat_config_agent.engine.survey import Ground, facts
from heat_config_agent.model.deployment import Deployment, Document, Tool
from heat_config_agent.model.entry import Entry, State
from heat_config_agent.runs.tools import Tools
from heat_config_agent.state.deployed import Deployed
from heat_config_hooks.values import replace
from support import entries
from support.entries import RUN
from support.machine import deployment

HOOK = Tool("script", "/hooks/script")


def one(action: str = "CREATE") -> Deployment:
    """Return a deployment with the key `a`."""
    content = [deployment("a", "text", action=action)]
    (only,) = metadata.parse(Document(source="test", content=content)).deployments
    return only


def entry(state: State, **more: object) -> Entry:
    """Return the journal's entry of that deployment."""
    values = None if state is State.ACCEPTED else {"deploy_status_code": 0}
    usual: dict[str, object] = {"started": None, "ended": None, "run": None}
    usual |= {"at": 1.0, "accepted": 1.0, "values": values}
    return entries.entry(one(), state, **{**usual, **more})


MORE: tuple[dict[str, object], ...] = (
    {},
    {"again": True},
    {"run": RUN},
    {"marked": "elsewhere"},
    {"marked": "here"},
    {"reboots": 1, "run": RUN},
)


@pytest.mark.parametrize("state", State)
@pytest.mark.parametrize("action", ["CREATE", cleanup.ACTION])
def test_a_plan_never_lacks_the_tools_that_it_needs(
    tmp_path: Path, state: State, action: str
) -> None:
    """The plan is the same, whether or not the hook directories were read."""
    folder = tmp_path / "deployed"
    folder.mkdir()
    tools = mock.create_autospec(Tools, instance=True)
    tools.installed.return_value = {"script": HOOK}
    ground = Ground(tools, Deployed(folder), tmp_path)
    for present in (False, True):
        if present:
            (folder / "a.json").write_text("{}")
        for more, back in itertools.product(MORE, [(), ("a",)]):
            marked = (
                str(folder) if more.get("marked") == "here" else more.get("marked", "")
            )
            entries = {"a": entry(state, **{**more, "marked": marked})}
            known = facts([one(action)], entries, ground, now=2.0, back=back)
            complete = replace(known, tools={"script": HOOK})
            assert plan.make([one(action)], known) == plan.make(
                [one(action)], complete
            ), (more, back, present)


def test_hook_directories_are_not_read_for_what_is_settled(tmp_path: Path) -> None:
    """If all deployments are settled, as at most passes, the hook directories are not read."""
    tools = mock.create_autospec(Tools, instance=True)
    settled = {"a": entry(State.SIGNALLED)}
    ground = Ground(tools, Deployed(tmp_path / "deployed"), tmp_path)
    facts([one()], settled, ground)
    tools.installed.assert_not_called()
    facts([one()], {}, ground)
    tools.installed.assert_called_once()
