"""Each command on a page of the documentation is run, in its order, and prints what the page shows."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext

import pytest

from docs.console import PAGES, Command, File, Section, sections, with_ports
from docs.places import Places
from docs.stages import STAGES
from support import ports

pytestmark = [pytest.mark.slow, pytest.mark.takes(200), pytest.mark.apart]

_CLOUD = "tests/system/test_documented.py has a real Heat make the stack"

NOT_RUN = {
    "git clone … heat-config-agent && cd heat-config-agent": "its address is where the reader has found it",
    "make test": "its tests are those that run this",
    "make test-all": "it is what runs this",
    "openstack stack create --template stack.yaml --wait greeting": _CLOUD,
    "openstack stack output show greeting greeting": _CLOUD,
    "make deb": "tests/package/built.py runs it, and what it makes is installed here",
    "python3 -m venv /opt/heat-config-agent && /opt/heat-config-agent/bin/pip install .": (
        "the machine that is booted has no pip; a user does the same on this page"
    ),
}
"""Commands that no test here runs, and why."""

ELSEWHERE = {"docs/migrate.md", "docs/playground.md"}
"""Pages of which tests/system runs the commands: test_migrate.py and test_playground.py."""

UNINSTALLED = {"README.md", "docs/install.md", "packaging/README.md"}
"""Pages that begin on a machine without the agent."""

PORTS = {
    "docs/hosts-tutorial.md": ("2201", "2202"),
    "docs/recipes.md": ("18765", "18766", "8088"),
}
"""Ports on which a page has a program listen: free ones take their place, so that another run is not met."""

LOGS_IN = {"docs/hosts-tutorial.md"}
"""Pages on which the reader logs in by ssh."""


@pytest.fixture
def places(request: pytest.FixtureRequest) -> Iterator[Places]:
    """Where the commands of a page are run."""
    page = request.node.callspec.params["page"]
    places = Places(installed=page not in UNINSTALLED, logs_in=page in LOGS_IN)
    yield places
    places.end()


def on_free_ports(page: str) -> list[Section]:
    """Return a page, with a free port for each on which it has a program listen."""
    free = {port: str(ports.reserved()) for port in PORTS.get(page, ())}
    return with_ports(sections(page), free)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("page", [page for page in PAGES if page not in ELSEWHERE])
def test_a_page_is_true(page: str, places: Places) -> None:
    """The files of a page are put in their places, and its commands succeed with the shown output."""
    found = on_free_ports(page)
    prompts = {
        each.prompt
        for section in found
        for each in section.items
        if isinstance(each, Command)
    }
    for section in found:
        stage = STAGES.get((page, section.title))
        with stage(places) if stage else nullcontext():
            for item in section.items:
                if isinstance(item, Command) and item.line not in NOT_RUN:
                    places.run(item)
                elif isinstance(item, File) and item.path:
                    places.write(item, prompts)
