"""The shop of examples/hot, asked while its stack is changed; tests/docs/test_examples.py runs all examples."""

from __future__ import annotations

import contextlib
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from support import pace, ports
from support.machine import Machine

pytestmark = pytest.mark.new_process

SHOP = Path(__file__).parents[2] / "examples/hot/shop/shop.yaml"


def agent(machine: Machine, *words: str) -> str:
    """Run `heat-config-agent`, which ends well, and return what it prints."""
    done = machine.command("heat-config-agent", words, {}, 120)
    assert done.code == 0, done.out + done.err
    return done.out


def stack(machine: Machine, *words: str) -> str:
    """Run `heat-config-agent stack`, which ends well, and return what it prints."""
    return agent(machine, "stack", *words, "--state-dir", str(machine.state))


@pytest.fixture
def port() -> int:
    """A port that nobody uses."""
    return ports.reserved()


@contextlib.contextmanager
def deleted(machine: Machine, name: str) -> Iterator[None]:
    """Delete a stack in any case: what it started would outlive the test."""
    try:
        yield
    finally:
        stack(machine, "delete", name, "--yes")


def asked(port: int) -> str:
    """Return what the shop says; nothing where nobody answers."""
    try:
        with urllib.request.urlopen(
            f"http://127.0.0.1:{port}/", timeout=pace.seconds(10)
        ) as answer:
            said: str = answer.read().decode()
            return said
    except urllib.error.URLError:
        return ""


@pytest.mark.slow
def test_shop_serves_until_its_stack_is_suspended(machine: Machine, port: int) -> None:
    """Two tiers: the web tier shows what is in the database, rests with the stack, and goes with it."""
    given = [
        "--parameter",
        f"folder={machine.folder / 'made'}",
        "--parameter",
        f"port={port}",
    ]
    with deleted(machine, "shop"):
        assert machine.apply(SHOP, *given).code == 0
        assert asked(port) == "apples\npears\n"
        assert machine.apply(SHOP, *given, "--parameter", "goods=plums").code == 0
        assert asked(port) == "plums\n"
        stack(machine, "suspend", "shop")
        assert asked(port) == ""
        stack(machine, "resume", "shop")
        assert asked(port) == "plums\n"
    assert asked(port) == ""
    assert not (machine.folder / "made").exists()
