"""Verification of podman's units on a booted machine: each change behind the agent's back is named, and repaired."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from support import pace
from support.containers import IMAGE
from support.loopback import wait_until
from system.booted import Booted
from system.podman_machine import machine_with_podman
from system.verified import Site

pytestmark = [pytest.mark.slow, pytest.mark.takes(120), pytest.mark.timeout(300)]

UNITS = "/etc/containers/systemd"
LASTING = "sh -c \"trap 'exit 0' TERM; while :; do sleep 0.05; done\""
FILE = f"{UNITS}/web.container"
RELOAD = "systemd has not reloaded it since one of its files was changed or removed"


@pytest.fixture(scope="module")
def booted_machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Booted]:
    """A booted machine, for all tests of this file."""
    with machine_with_podman(tmp_path_factory.mktemp("image")) as machine:
        yield machine


@pytest.fixture
def site(booted_machine: Booted) -> Iterator[Site]:
    """The machine, without units of an earlier test."""
    found = Site(booted_machine, "quadlet", UNITS)
    try:
        yield found
    finally:
        found.end()


def container(**more: object) -> dict[str, Any]:
    """Return the sections of a container that goes on."""
    return {
        "Container": {"Image": IMAGE, "Exec": LASTING, **more},
        "Install": {"WantedBy": "multi-user.target"},
    }


def podman(site: Site, *words: str) -> None:
    """Run podman, which must succeed."""
    done = site.machine.run("podman", *words)
    assert done.code == 0, done.err


def stop(site: Site) -> None:
    """Stop the service."""
    site.systemctl("stop", "web.service")


def remove(site: Site) -> None:
    """Remove the container, with which its service ends."""
    podman(site, "rm", "--force", "--time=0", "systemd-web")
    wait_until(
        lambda: (
            site.machine.run("systemctl", "is-failed", "web.service").out.strip()
            in ("failed", "inactive")
        ),
        seconds=pace.seconds(30),
    )


def edit(site: Site) -> None:
    """Have it do something else, from its next start on."""
    site.edit("web.container", "0.05", "0.06")


def delete(site: Site) -> None:
    """Remove its file."""
    site.file(FILE).unlink()


def touch(site: Site) -> None:
    """Have a file that is newer than what systemd has, although its text is the same."""
    text = site.file(FILE).read_text()
    site.file(FILE).unlink()
    site.file(FILE).write_text(text)
    site.file(FILE).chmod(0o644)


CHANGES = {
    "stopped": (stop, "web.service: it is not up: its state is inactive (dead)"),
    "its container removed": (remove, "web.service: "),
    "edited": (edit, f"{FILE}: its content differs"),
    "deleted": (delete, f"{FILE}: it is missing"),
    "not reloaded": (touch, f"web.service: {RELOAD}"),
}


@pytest.mark.parametrize(("change", "message"), CHANGES.values(), ids=CHANGES)
def test_change_of_a_container_is_named_and_repaired(
    site: Site, change: Any, message: str
) -> None:
    """In effect, changed behind its back, verified, repaired, verified again."""
    site.run({"web.container": container(), "data.volume": {"Volume": None}})
    assert site.changes() == []

    change(site)

    row = site.verify()
    assert row["state"] == "drifted"
    assert row["message"].startswith(message)
    assert len(row["changes"]) == 1
    site.repair()
    assert site.changes() == []


def test_container_that_is_unhealthy_is_named(site: Site) -> None:
    """Its service is up, and its health check fails."""
    check = {
        "HealthCmd": "test ! -e /broken",
        "HealthInterval": "disable",
        "HealthRetries": 1,
    }
    site.run({"web.container": container(**check)})
    podman(site, "healthcheck", "run", "systemd-web")
    assert site.changes() == []

    podman(site, "exec", "systemd-web", "touch", "/broken")
    site.machine.run("podman", "healthcheck", "run", "systemd-web")

    assert site.changes() == [("systemd-web", "its health check fails")]
