"""Any service template is carried out, changed and removed, or refused with one sentence."""

from __future__ import annotations

import json
import shutil
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import strategies as st

from fuzz.examples import SHARE, TESTS, odd, places, tries
from fuzz.test_services import LOADER, PIECES
from heat_config_agent.diagnostics.mistakes import Invalid
from heat_config_agent.model.errors import AgentError
from heat_config_stack.cli.stack import values
from heat_config_stack.definition import Definition, Identity, Unresolved
from heat_config_stack.lifecycle import deployments, preview, validation
from heat_config_stack.lifecycle.live import Stack, World
from heat_config_stack.lifecycle.session import Session
from heat_config_stack.records.records import DeploymentRecord
from heat_config_stack.resource_types import known_types
from heat_config_stack.tosca.compilation import loader, reader

pytestmark = [pytest.mark.takes(20), pytest.mark.torture(share=SHARE)]

SECONDS = 10.0
"""Seconds of this process for one example at most; they are small."""

LONGEST = 50_000
FACTS: dict[str, dict[str, Any]] = {
    "host": {"num_cpus": 4, "mem_size": "8 GiB"},
    "os": {"type": "linux"},
}

FOLDERS = [
    path.parent for path in sorted((TESTS / "tosca" / "cases").glob("*/service.yaml"))
]
TEMPLATES = {
    folder.name: yaml.load((folder / "service.yaml").read_text(), Loader=LOADER)  # noqa: S506  # one of the safe ones
    for folder in FOLDERS
}


class Servers:
    """Servers that answer at once: with success, or for some resources with a failure."""

    def __init__(self, failing: set[int]) -> None:
        self._failing, self._number, self._turns = failing, 0, 0
        self._new: list[DeploymentRecord] = []

    def deliver(self, deployment: DeploymentRecord) -> None:
        self._new.append(deployment)

    def withdraw(self, deployment: DeploymentRecord) -> None:
        self._new = [each for each in self._new if each is not deployment]

    def stop(self, world: World, reason: str) -> None:  # noqa: ARG002
        self._new = []

    @property
    def busy(self) -> bool:
        return bool(self._new)

    def work(self, world: World, timeout: float | None, also: Sequence[int]) -> None:  # noqa: ARG002
        self._turns += 1
        assert self._turns < 5_000, "it never ends"
        new, self._new = self._new, []
        for deployment in new:
            self._number += 1
            json.dumps(deployments.entries(world, deployment.server))
            code = 1 if self._number in self._failing else 0
            answer = {
                "deploy_stdout": "",
                "deploy_stderr": "",
                "deploy_status_code": code,
                "run": str(self._number),
            }
            deployments.take(world, deployment, answer)


def change(draw: st.DrawFn, value: Any) -> Any:
    """Return a service template with a few things changed in it."""
    value = deepcopy(value)
    for _ in range(draw(st.integers(0, 2))):
        here = places(value)
        if not here:
            break
        holder, key = here[draw(st.integers(0, len(here) - 1))]
        match draw(
            st.sampled_from(["piece", "odd", "remove", "rename", "swap", "double"])
        ):
            case "remove":
                del holder[key]
            case "rename" if isinstance(holder, dict):
                _, other = here[draw(st.integers(0, len(here) - 1))]
                holder[str(other)] = holder.pop(key)
            case "double" if isinstance(holder, dict):
                holder[f"{key}2"] = deepcopy(holder[key])
            case "swap":
                other_holder, other = here[draw(st.integers(0, len(here) - 1))]
                holder[key] = deepcopy(other_holder[other])
            case "odd":
                holder[key] = deepcopy(draw(odd))
            case _:
                holder[key] = deepcopy(draw(PIECES))
    return value


@st.composite
def lives(draw: st.DrawFn) -> tuple[str, list[Any], list[str], set[int]]:
    """Return the folder of a service, its templates one after the other, what is done between, and what fails."""
    name = draw(st.sampled_from(sorted(TEMPLATES)))
    first = change(draw, TEMPLATES[name])
    second = change(draw, draw(st.sampled_from([first, TEMPLATES[name]])))
    between = draw(
        st.lists(
            st.sampled_from(["check", "suspend", "resume", "workflows"]), max_size=3
        )
    )
    return name, [first, second], between, draw(st.sets(st.integers(1, 12), max_size=2))


class Life:
    """A service from its creation to its removal."""

    def __init__(self, folder: Path, failing: set[int]) -> None:
        self.path = folder / "service.yaml"
        self.session = Session(
            folder / "state", known_types(), Servers(failing), loader.load
        )

    def define(self, template: Any, identity: Identity) -> Definition | None:
        """Return the definition of a template, or None where it is refused with sentences."""
        self.path.write_text(json.dumps(template, default=str))
        topology = (
            template.get("topology_template") if isinstance(template, dict) else None
        )
        inputs = topology.get("inputs") if isinstance(topology, dict) else None
        known = {"log", "who"} & set(inputs) if isinstance(inputs, dict) else set()
        wish = reader.Wish(dict.fromkeys(sorted(known), "x"), {}, {}, FACTS)
        try:
            definition = reader.define(str(self.path), wish, identity)
            validation.check(definition, known_types())
        except Invalid as invalid:
            assert invalid.mistakes  # noqa: PT017  # it may be refused
            for mistake in invalid.mistakes:
                assert mistake.problem
                assert len(str(mistake)) < LONGEST
            return None
        except AgentError as error:
            assert str(error)  # noqa: PT017  # it may be refused
            return None
        return definition

    def look(self) -> None:
        """Ask for everything that people can see."""
        root = self.session.root
        if root is None:
            return
        for row in values.nodes(root):
            json.dumps(values.node_in_full(root, row["node"]))
        for name in root.definition.outputs:
            with suppress(Unresolved):
                json.dumps(root.output(name))

    def do(self, what: str) -> None:
        """Do something to the service, which may be refused."""
        root = self.session.root
        if root is None:
            return
        with suppress(AgentError):
            if what == "workflows":
                self._start(root)
            else:
                getattr(self.session, what)()

    def _start(self, root: Stack) -> None:
        for name in (*root.definition.procedures, *root.definition.triggers):
            with suppress(AgentError):
                self.session.carry_out(name, {})


@tries(60, lives())
def test_any_service_is_carried_out_or_refused(
    life: tuple[str, list[Any], list[str], set[int]],
) -> None:
    """Each operation succeeds or fails, and the service can be changed and deleted."""
    name, (first, second), between, failing = life
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / name
        shutil.copytree(TESTS / "tosca" / "cases" / name, folder)
        service = Life(folder, failing)
        start = time.process_time()
        try:
            made = service.define(first, Identity("s1", "i", "p"))
            if made is not None:
                with suppress(AgentError):
                    service.session.create(made)
                service.look()
                for what in between:
                    service.do(what)
                    service.look()
                changed = service.define(second, Identity("s1", "i", "p"))
                if changed is not None:
                    for each in service.session.preview(changed):
                        assert isinstance(each, preview.Change)
                    with suppress(AgentError):
                        service.session.update(changed)
                    service.look()
                service.do("delete")
        finally:
            service.session.close()
        assert time.process_time() - start < SECONDS
