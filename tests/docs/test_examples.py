"""The examples: each is run as its head says, and shows what its head shows. A new one needs no code here."""

from __future__ import annotations

import functools
import json
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator

import pytest

import gallery
import heat_config_hooks
from docs.console import ROOT, Command
from docs.needs import NEEDS
from gallery import Example
from support import pace, ports
from support.containers import own_podman, podman
from support.machine import BIN, Done, Machine
from system.booted import Booted, booted

pytestmark = [pytest.mark.slow, pytest.mark.takes(200)]

__all__ = ["own_podman", "podman"]

FOLDER = ROOT / "examples"
EXAMPLES = gallery.examples(FOLDER)
TEMPLATES = [each for each in EXAMPLES if each.is_template]
OURS = re.compile(r"heat-config-(apply|agent)\b")


def name_of(example: Example) -> str:
    """Return the name of an example as a test is called after it."""
    return example.path.relative_to(FOLDER).with_suffix("").as_posix()


every = pytest.mark.parametrize("example", EXAMPLES, ids=name_of)


def run(machine: Machine, line: str) -> Done:
    """Run a line of a shell; one that is only a command of ours, as a process that begins loaded.

    What is exported stays so for the lines after it.
    """
    if OURS.match(line) and not re.search(r"[|&;<>$`*\n]", line):
        program, *words = shlex.split(line)
        return machine.command(program, words, {}, 100)
    exports = line.startswith("export ")
    done = subprocess.run(
        ["sh", "-c", f"{line}\nenv -0" if exports else line],
        cwd=machine.folder,
        env=machine.environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=pace.seconds(100),
        check=False,
    )
    if not exports:
        return Done(done.returncode, done.stdout, done.stderr)
    machine.environment |= dict(
        each.split("=", 1) for each in done.stdout.split("\0")[:-1]
    )
    return Done(done.returncode, "", done.stderr)


@pytest.fixture
def place(machine: Machine) -> Machine:
    """A folder with the examples in it, as the checkout has them, and a state directory of its own."""
    (machine.folder / "examples").symlink_to(FOLDER)
    machine.environment |= {
        "HEAT_CONFIG_AGENT_STATE": str(machine.state),
        "PATH": f"{BIN}:{os.environ['PATH']}",
        "PORT": str(ports.reserved()),
    }
    return machine


@pytest.fixture(scope="module")
def computer() -> Iterator[Booted]:
    """A machine that booted, with the examples in the home of root."""
    with booted() as machine:
        shutil.copytree(FOLDER, machine.disk / "root/examples")
        yield machine


@every
def test_commands_of_an_example_print_the_output_in_its_head(
    example: Example, place: Machine, request: pytest.FixtureRequest
) -> None:
    """Its commands end well, and print what its head shows.

    Where the last one applies a template, there is nothing left to do. Its stacks can be deleted.
    """
    found = [NEEDS[need](place, request) for need in example.head.needs]
    runs = next(filter(None, found), functools.partial(run, place))
    try:
        for line, printed in example.head.commands:
            done = runs(line)
            said = f"{line}\n\n{done.out}{done.err}"
            assert done.code == 0, said
            assert Command("$", line, printed, "").shows(done.out), (
                f"{said}\nIts head shows:\n" + "\n".join(printed)
            )
        line = example.head.commands[-1][0]
        if (
            example.is_template
            and line.startswith("heat-config-apply ")
            and not re.search(r"--plan|\|\|", line)
        ):
            planned = json.loads(runs(f"{line} --plan --json").out)["data"]["changes"]
            assert {each["change"] for each in planned} <= {"unchanged"}, planned
    finally:
        if (place.state / "stacks").is_dir():
            delete(place)


def delete(place: Machine) -> None:
    """Delete all stacks: what they have started would outlive the test."""
    stacks = json.loads(run(place, "heat-config-agent stack list --json").out)
    for each in stacks["data"]["stacks"]:
        done = run(place, f"heat-config-agent stack delete {each['stack_name']} --yes")
        assert done.code == 0, done.out + done.err


@pytest.mark.parametrize("example", TEMPLATES, ids=name_of)
def test_a_template_has_nothing_odd(example: Example, place: Machine) -> None:
    """No mistake and no warning, whether or not its tool is on this machine."""
    words = ["template", "validate", "--json", str(example.path), *example.environments]
    found = place.command("heat-config-agent", words, {}).data["files"]
    assert [(each["mistakes"], each["warnings"]) for each in found] == [([], [])]


def test_every_file_belongs_to_an_example() -> None:
    """A template that no head says how to run is one that another file names."""
    known = {each.path for each in EXAMPLES}
    texts = {
        path: path.read_text("utf-8")
        for path in FOLDER.rglob("*")
        if path.suffix in (".yaml", ".meta")
    }
    lost = [
        path
        for path in texts
        if path.suffix == ".yaml"
        and path not in known
        and not any(path.name in text for text in texts.values())
    ]
    assert lost == []


def test_every_tool_has_an_example() -> None:
    """Named after it."""
    assert {path.stem for path in (FOLDER / "tools").glob("*.yaml")} >= set(
        heat_config_hooks.HOOKS
    )


def test_the_index_and_the_pictures_are_current() -> None:
    """`make gallery` writes them: a row for each example, a picture for each template, and no other ones."""
    text = (FOLDER / "README.md").read_text("utf-8")
    assert text == gallery.index(text, FOLDER), (
        "`make gallery` writes the lists of examples/README.md"
    )
    missing = [
        each
        for each in EXAMPLES
        if f"]({each.path.relative_to(FOLDER).as_posix()})" not in text
    ]
    assert missing == []
    drawn = {
        path.name: path.read_text("utf-8")
        for path in (FOLDER / gallery.PICTURES).iterdir()
    }
    assert drawn == gallery.pictures(FOLDER), "`make gallery` draws the pictures"
