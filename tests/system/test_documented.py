"""The template that the documentation shows, by a real Heat."""

from __future__ import annotations

import pytest

from docs.console import File, sections
from system.agents import Agents
from system.openstack import Lab

pytestmark = pytest.mark.takes(100)


def test_template_of_the_page_is_created_by_heat(cloud: Lab, agents: Agents) -> None:
    """Heat creates the stack from the text of the page, and the stack has the output of its deployment."""
    items = [
        item for section in sections("docs/deployments.md") for item in section.items
    ]
    [template] = [
        item.text
        for item in items
        if isinstance(item, File) and item.path == "stack.yaml"
    ]
    name = cloud.name()
    cloud.stack_create(name, template)
    agents.start("greeting", cloud.settings(name))
    made = cloud.wait(name, "CREATE_COMPLETE")
    assert made.outputs["greeting"] == "Hello, world!\n"
    assert made.outputs["status"] == 0
