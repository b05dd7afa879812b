"""A stack that the first version of the agent has created is taken over, after an upgrade of the package.

`tests/samples/earlier_stack` was written by that version: its records have no checksums, and one of its resources has a
type that Heat does not know.
"""

from __future__ import annotations

import shutil
import zlib
from pathlib import Path

import pytest

from support.machine import Machine
from support.stacking import Stacks

SAMPLE = Path(__file__).parents[1] / "samples/earlier_stack"
THERE = "/var/lib/example/state"

TEMPLATE = """
heat_template_version: 2018-08-31
parameters:
  word: {type: string, default: hello}
resources:
  text: {type: "OS::Heat::Value", properties: {value: {get_param: word}}}
"""


@pytest.fixture
def stacks(machine: Machine) -> Stacks:
    """A machine with the stack `site`, as the first version left it."""
    shutil.copytree(SAMPLE, machine.state)
    for path in (machine.state, *machine.state.rglob("*")):
        # version control keeps no such modes
        path.chmod(0o700 if path.is_dir() else 0o600)
    folder = machine.state / "stacks/site"
    stack = (folder / "stack").read_text()
    (folder / "stack").write_text(stack.replace(THERE, str(machine.state)))
    journal = (folder / "journal").read_text().replace(THERE, str(machine.state))
    records = [line.partition(" ")[2].encode() for line in journal.splitlines()]
    (folder / "journal").write_bytes(
        b"".join(b"%08x %s\n" % (zlib.crc32(record), record) for record in records)
    )
    return Stacks(machine)


def test_earlier_stack_is_shown(stacks: Stacks) -> None:
    """Its state, its resources and its outputs are there, and nothing is called damaged."""
    listed = stacks("resource", "list", "site")

    assert listed.err == ""
    resources = {
        line.split()[0]: line.split()[1] for line in listed.out.splitlines()[1:]
    }
    assert resources == dict.fromkeys(("config", "disk", "greeting", "text"), "ok")
    assert stacks("output", "show", "site", "answer").out == "hello\n"


def test_earlier_stack_is_updated_without_running_again(stacks: Stacks) -> None:
    """Unchanged resources do not run, and those that the template no longer has are deleted."""
    template = stacks.machine.folder / "site.yaml"
    template.write_text(TEMPLATE)

    updated = stacks("update", "site", "-t", str(template))

    assert "ok       text" in updated.out
    assert "unchanged" in updated.out
    listed = stacks("resource", "list", "site")
    assert [line.split()[0] for line in listed.out.splitlines()[1:]] == ["text"]


def test_earlier_stack_is_deleted(stacks: Stacks) -> None:
    """A stack is deleted even if it has a resource of a type that no longer exists."""
    deleted = stacks("delete", "site", "--yes")

    assert "stack site: ok (DELETE_COMPLETE)" in deleted.out
    assert stacks("list").out.splitlines()[1:] == []
