"""examples/hot: templates that a newcomer learns from, each carried out on this machine."""

from __future__ import annotations

import contextlib
import json
import socket
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.machine import Machine

FOLDER = Path(__file__).parents[2] / "examples/hot"
TEMPLATES = sorted(path.relative_to(FOLDER).as_posix() for path in FOLDER.rglob("*.yaml"))

OUTPUTS = {
    "greeting.yaml": {"greeting": "Hello, world!"},
    "group.yaml": {"squares": ["0\n", "1\n", "4\n"]},
    "lifecycle.yaml": {"count": "1\n"},
    "member.yaml": {"square": "49\n"},
    "shop/shop.yaml": {"address": "http://127.0.0.1:{port}/"},
}
"""What comes of each, where the parameters that have no default are given."""


def agent(machine: Machine, *words: str) -> str:
    """Run `heat-config-agent`, which ends well, and return what it prints."""
    process = machine.start("heat-config-agent", *words)
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, out + err
    return out


def stack(machine: Machine, *words: str) -> str:
    """Run `heat-config-agent stack`, which ends well, and return what it prints."""
    return agent(machine, "stack", *words, "--state-dir", str(machine.state))


def parameters(machine: Machine, template: str, port: int) -> list[str]:
    """Return the parameters that a template needs."""
    text = (FOLDER / template).read_text()
    found = ["--parameter", f"folder={machine.folder / 'made'}"] if "\n  folder:\n" in text else []
    return [*found, "--parameter", f"port={port}"] if "\n  port:\n" in text else found


@pytest.fixture
def port() -> int:
    """A port that nobody uses."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        number: int = free.getsockname()[1]
        return number


@contextlib.contextmanager
def deleted(machine: Machine, name: str) -> Iterator[None]:
    """Delete a stack in any case: what it started would outlive the test."""
    try:
        yield
    finally:
        stack(machine, "delete", name, "--yes")


@pytest.mark.parametrize("template", TEMPLATES)
def test_an_example_is_carried_out(machine: Machine, template: str, port: int) -> None:
    """It has no mistakes and nothing odd, gives its outputs, stays as it is when applied again, and leaves nothing."""
    given = parameters(machine, template, port)
    path = FOLDER / template
    agent(machine, "template", "validate", "--strict", str(path))
    with deleted(machine, path.stem):
        done = machine.apply(path, *given)
        assert (done.code, done.err) == (0, ""), done.out
        found = json.loads(stack(machine, "show", path.stem, "--json"))["outputs"]
        outputs = json.loads(json.dumps(OUTPUTS[template]).replace("{port}", str(port)))
        assert {each["output_key"]: each["output_value"] for each in found} == outputs
        plan = json.loads(machine.apply(path, *given, "--plan", "--json").out)
        assert {each["change"] for each in plan} == {"unchanged"}
    assert not (machine.folder / "made").exists()


def asked(port: int) -> str:
    """Return what the shop says; nothing where nobody answers."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=10) as answer:
            said: str = answer.read().decode()
            return said
    except urllib.error.URLError:
        return ""


def test_the_shop_serves_as_long_as_it_is_to(machine: Machine, port: int) -> None:
    """Two tiers: the web tier shows what is in the database, rests with the stack, and goes with it."""
    path = FOLDER / "shop/shop.yaml"
    given = parameters(machine, "shop/shop.yaml", port)
    with deleted(machine, "shop"):
        assert machine.apply(path, *given).code == 0
        assert asked(port) == "apples\npears\n"
        assert machine.apply(path, *given, "--parameter", "goods=plums").code == 0
        assert asked(port) == "plums\n"
        stack(machine, "suspend", "shop")
        assert asked(port) == ""
        stack(machine, "resume", "shop")
        assert asked(port) == "plums\n"
    assert asked(port) == ""
