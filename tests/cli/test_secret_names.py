"""Secrets in the names of deployments: masked wherever a name is shown."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from support import planted
from support.machine import Machine, deployment

SH = "#!/bin/sh\n"


def named(identity: str, **more: Any) -> dict[str, Any]:
    """Return a deployment with a hidden input whose value is a part of its names."""
    given = deployment(
        identity,
        f"{SH}echo said",
        name=f"db-{planted.WORD}",
        outputs=[planted.WORD],
        **more,
    )
    given["inputs"].append({"name": "pw", "value": planted.WORD, "hidden": True})
    given["inputs"].append({"name": f"in_{planted.WORD}", "value": "1"})
    return given


def shown(machine: Machine, identity: str) -> Mapping[str, Any]:
    """Return the deployment as `status` has it, after every command that shows it has been asked."""
    for command in (
        "status",
        f"show {identity}",
        f"show {identity} --json",
        f"log {identity}",
        "prune --plan",
    ):
        assert machine.agent(*command.split()).code in (0, 1)
    found: Mapping[str, Any] = machine.status()[identity]
    return found


@pytest.mark.fault(
    4,
    "a hidden parameter is a part of the name, the tool, the user, an input's or an output's name of a deployment",
    "it is masked in the listings and messages, and stays so when the secrets are pruned",
)
def test_secret_in_the_names_of_a_deployment_is_masked(machine: Machine) -> None:
    """Whatever is printed or sent is searched for the secret after the test."""
    given = named("d1")
    done = machine.apply([given])
    assert done.code == 0, done.err
    assert "db-***" in done.out + done.err
    assert shown(machine, "d1")["name"] == "db-***"
    machine.agent("retry", "d1")
    machine.apply([given])
    assert (
        list(machine.agent("show", "d1", "--json").data["inputs"]).count("in_***") == 1
    )
    assert machine.apply([], "--config", str(_pruning(machine))).code == 0
    assert shown(machine, "d1")["name"] == "db-***"
    assert machine.agent("forget", "--yes", "d1").code == 0


def _pruning(machine: Machine) -> Path:
    settings = machine.folder / "agent.conf"
    settings.write_text("[agent]\nkeep_secrets = 0\n")
    return settings


def test_secret_as_the_tool_is_masked(machine: Machine) -> None:
    """A tool that is missing is named in the reason too."""
    done = machine.apply([named("d2", group=planted.WORD)])
    assert done.code != 0
    assert shown(machine, "d2")["tool"] == "***"


def test_deployment_is_found_by_the_name_that_its_document_has(
    machine: Machine,
) -> None:
    """`--only` takes it, and so does `show` as long as the agent has the document."""
    given = named("d3")
    assert (
        machine.apply([given, deployment("d4")], "--only", f"db-{planted.WORD}").code
        == 0
    )
    assert [*machine.status()] == ["d3"]
    assert machine.agent("show", "db-***").code == 0
