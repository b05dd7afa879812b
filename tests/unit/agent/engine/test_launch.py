from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from heat_config_agent.deployments import metadata
from heat_config_agent.engine import launch
from heat_config_agent.model.deployment import Document
from heat_config_agent.model.entry import Run
from heat_config_agent.model.run_settings import RunSettings


@pytest.mark.parametrize(("user", "recorded"), [("", ""), ("nobody", "0 flushed")])
def test_outputs_that_a_reboot_removed_count_unless_the_run_has_reported(
    tmp_path: Path, user: str, recorded: str
) -> None:
    """A run of another user has put its outputs into its reply, and then removed them."""
    content = [{"id": "d1", "group": "script", "outputs": [{"name": "one"}]}]
    [deployment] = metadata.parse(Document(source="file", content=content)).deployments
    gone = str(tmp_path / "d1.5" / "outputs")
    fields: dict[str, Any] = {
        "mark": "d1.5",
        "boot": "another",
        "pid": 1,
        "ticks": 1,
        "began": 0.0,
        "limit": None,
    }
    run = Run(
        **fields,
        hook="builtin:script",
        working=f"{tmp_path}/d1.5/working",
        outputs=gone,
        user=user,
    )
    settings = RunSettings(
        state=tmp_path, root=None, environment={}, limit=None, grace=1
    )
    assert (
        launch.end_of(settings, deployment, run, "0 flushed", "").recorded == recorded
    )


@pytest.mark.parametrize(
    ("user", "working", "private"),
    [
        ("nobody", "/users/d1.5/working", "/users/d1.5"),
        ("", "/users/d1.5/working", ""),
        ("nobody", "/var/lib/heat-config/working", ""),
        ("nobody", "", ""),
    ],
)
def test_only_a_folder_that_is_named_after_the_run_is_removed_as_a_whole(
    user: str, working: str, private: str
) -> None:
    """Only the folder of a run is removed as a whole, whatever the journal says."""
    run = Run(
        mark="d1.5",
        boot="",
        pid=1,
        ticks=1,
        began=0,
        limit=None,
        hook="",
        working=working,
        outputs="",
        user=user,
    )
    assert run.private == private
