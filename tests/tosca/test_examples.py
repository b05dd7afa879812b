"""examples/tosca: services that a newcomer learns from, each carried out on this machine."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from heat_config_stack.tosca.checks.checker import Checker
from support.machine import Machine

FOLDER = Path(__file__).parents[2] / "examples/tosca"


def run(machine: Machine, program: str, *words: str) -> str:
    """Run a command, which ends well, and return what it prints."""
    done = machine.command(program, words, {}, 120)
    assert done.code == 0, done.out + done.err
    return done.out


def apply(machine: Machine, *words: str) -> None:
    """Apply a service."""
    run(machine, "heat-config-apply", *words, "--state-dir", str(machine.state))


def stack(machine: Machine, *words: str) -> str:
    """Run `heat-config-agent stack`."""
    return run(
        machine, "heat-config-agent", "stack", *words, "--state-dir", str(machine.state)
    )


def outputs(machine: Machine, name: str) -> dict[str, str]:
    """Return the outputs of a stack."""
    shown = json.loads(stack(machine, "output", "list", name, "--json"))["data"][
        "outputs"
    ]
    return {output["output_key"]: output["output_value"] for output in shown}


@pytest.mark.parametrize("name", ["notes/notes.yaml", "site", "shop/shop.yaml"])
def test_an_example_is_valid(name: str) -> None:
    """Nothing is wrong with it, and nothing is missing but inputs."""
    found = Checker().check(str(FOLDER / name))
    assert (found.mistakes, found.warnings) == ([], [])
    assert {mistake.code for mistake in found.open} == {"open-input"}


def test_notes_are_backed_up_by_a_workflow(machine: Machine) -> None:
    """Under the name that is given; removing the service removes them."""
    notes = machine.folder / "notes"
    apply(machine, str(FOLDER / "notes/notes.yaml"), "--input", f"folder={notes}")
    assert outputs(machine, "notes") == {"first": "buy milk"}
    stack(machine, "workflow", "run", "notes", "backup", "--input", "name=monday")
    assert (notes / "monday").read_text() == "buy milk\n"
    shown = json.loads(stack(machine, "node", "show", "notes", "notes", "--json"))
    assert shown["data"]["node_state"] == "saved"
    stack(machine, "delete", "notes", "--yes")
    assert not notes.exists()


def test_a_site_is_packed_and_applied(machine: Machine) -> None:
    """Its scripts and files come from the archive, which gives the stack its name."""
    archive, pages = str(machine.folder / "made.csar"), machine.folder / "pages"
    run(
        machine,
        "heat-config-agent",
        "template",
        "pack",
        str(FOLDER / "site"),
        "-o",
        archive,
    )
    apply(machine, archive, "--input", f"folder={pages}")
    assert outputs(machine, "site") == {"title": "Hello from an archive"}
    assert (pages / "index.html").read_text() == (
        FOLDER / "site/files/index.html"
    ).read_text()
    stack(machine, "delete", "site", "--yes")
    assert not pages.exists()


def test_a_database_is_substituted(machine: Machine) -> None:
    """The nodes of the inner service are part of the outer one, and the shop is connected after both are there."""
    log = machine.folder / "log"
    apply(machine, str(FOLDER / "shop/shop.yaml"), "--input", f"log={log}")
    assert outputs(machine, "shop") == {"address": "db://127.0.0.1/orders"}
    nodes = [
        node["node"]
        for node in json.loads(stack(machine, "node", "list", "shop", "--json"))[
            "data"
        ]["nodes"]
    ]
    assert nodes == [
        "server",
        "database.host",
        "database.engine",
        "database.schema",
        "shop",
    ]
    assert log.read_text() == "shop: create\nshop: connected to db://127.0.0.1/orders\n"
    stack(machine, "delete", "shop", "--yes")
    assert log.read_text().endswith("shop: delete\n")
