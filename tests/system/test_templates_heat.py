"""The same templates on a real Heat, with the daemon on its servers, and on this machine: the same outputs."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from heat_config_agent.engine.events import Report
from heat_config_agent.settings import effective
from heat_config_stack.definition import Identity
from heat_config_stack.definition.files import File
from heat_config_stack.hot.loader import define, load
from heat_config_stack.hot.source import Source
from heat_config_stack.lifecycle.machine import ThisMachine
from heat_config_stack.lifecycle.session import Session
from heat_config_stack.resource_types import known_types
from system.agents import Agents
from system.openstack import Lab

pytestmark = [pytest.mark.takes(1000), pytest.mark.xdist_group("second cloud")]

FOLDER = Path(__file__).with_name("templates")
FILES = {"member.yaml": (FOLDER / "member.yaml").read_text()}
SERVERS = {"pipeline": ("server",), "servers": ("one", "two"), "group": ("server",)}
"""The servers of each template."""

WAY = {"transport": "POLL_TEMP_URL", "signal": "TEMP_URL_SIGNAL"}


def text(template: str, folder: Path) -> str:
    """Return a template whose deployments write into a folder."""
    folder.mkdir(exist_ok=True)
    return (FOLDER / f"{template}.yaml").read_text().replace("FOLDER", str(folder))


def here(template: str, folder: Path) -> dict[str, Any]:
    """Carry a template out on this machine, and return the outputs."""
    source = Source(File(f"{template}.yaml", text(template, folder)), (), FILES, WAY)
    state = folder / "stacks" / template
    machine = ThisMachine(
        state,
        effective.make({"PATH": os.environ["PATH"], "HOME": str(folder)}, state=state),
        Report(),
    )
    session = Session(state, known_types(), machine, load)
    try:
        stack = session.create(define(source, Identity(template, "an-id", "a-project")))
        assert stack.record.status == "COMPLETE"
        return {name: stack.output(name) for name in stack.definition.outputs}
    finally:
        session.close()
        machine.close()


@pytest.mark.timeout(300)
def test_outputs_are_those_of_heat(cloud: Lab, agents: Agents, tmp_path: Path) -> None:
    """The outputs are Heat's, for every template and its deployments."""
    names = {}
    for template, servers in SERVERS.items():
        names[template] = name = cloud.name(template)
        cloud.stack_create(name, text(template, tmp_path / "there"), WAY, FILES)
        for server in servers:
            agents.start(
                f"{template}-{server}", cloud.settings(name, server), polling_interval=2
            )
    ours = {template: here(template, tmp_path / "here") for template in SERVERS}
    for template, name in names.items():
        assert ours[template] == cloud.wait(name, "CREATE_COMPLETE", 180).outputs
        assert len(ours[template]) > 3
    assert (tmp_path / "here/where.json").read_text() == (
        tmp_path / "there/where.json"
    ).read_text()
