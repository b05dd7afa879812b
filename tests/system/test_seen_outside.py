"""Deployments as a booted machine shows them: a target of systemd, fields of the journal, lines on the console."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from support.machine import deployment
from system.booted import Booted, booted
from system.test_service import (
    NAME,
    SETTINGS,
    UNIT,
    deploy,
    eventually,
    shown,
    state_of,
)

pytestmark = pytest.mark.takes(100)

SETTLED = "heat-config-settled.target"

AFTER = f"[Unit]\nWants={SETTLED}\nAfter={SETTLED}\n[Service]\nType=oneshot\nExecStart=touch /root/after\n"
"""A unit that begins once everything is done."""


@pytest.fixture(scope="module")
def machine() -> Iterator[Booted]:
    """A machine with the daemon, which has one failed deployment when a unit waits for the target."""
    with booted() as booted_machine:
        units = booted_machine.disk / "etc/systemd/system"
        for unit in (UNIT, *UNIT.parent.glob("heat-config-settled.*")):
            (units / unit.name).write_text(unit.read_text())
        (units / "after.service").write_text(AFTER)
        (booted_machine.disk / "etc/heat-config-agent").mkdir()
        (booted_machine.disk / "etc/heat-config-agent/agent.conf").write_text(
            f"{SETTINGS}console = /dev/console\n"
        )
        script = "#!/bin/sh\nwhile ! test -e /root/go; do sleep 0.05; done\nexit 3\n"
        deploy(
            booted_machine,
            deployment("d1", script, inputs={"deploy_stack_id": "shop/1f2e"}),
        )
        assert booted_machine.run("systemctl", "daemon-reload").code == 0
        assert (
            booted_machine.run("systemctl", "start", "--no-block", "after.service").code
            == 0
        )
        yield booted_machine


def test_the_target_is_reached_when_everything_is_done(machine: Booted) -> None:
    """It starts the daemon, and a unit that waits for it begins after the deployments, even if one has failed."""
    eventually(machine, lambda: state_of(machine, "d1") == "running")
    assert shown(machine, "ActiveState", SETTLED) == "inactive"
    assert shown(machine, "ActiveState", "heat-config-settled.service") == "activating"
    assert not (machine.disk / "root/after").exists()
    (machine.disk / "root/go").touch()
    eventually(machine, (machine.disk / "root/after").exists)
    assert shown(machine, "ActiveState", SETTLED) == "active"
    assert state_of(machine, "d1") == "ended"


def test_the_journal_selects_lines_by_deployment(machine: Booted) -> None:
    """By its id, its stack, its action and its state; the lines belong to the service."""
    (machine.disk / "root/go").touch()
    eventually(machine, lambda: state_of(machine, "d1") == "ended")

    def lines(*matches: str) -> list[dict[str, str]]:
        done = machine.run("journalctl", "--no-pager", "-o", "json", *matches)
        return [json.loads(line) for line in done.out.splitlines()]

    eventually(machine, lambda: len(lines("DEPLOYMENT_ID=d1")) == 2)
    begun, ended = lines("DEPLOYMENT_ID=d1")
    assert (begun["MESSAGE"], begun["STATE"]) == (
        "d1: begins CREATE (script)",
        "running",
    )
    assert (ended["STATE"], ended["PRIORITY"]) == ("failed", "3")
    assert ended["MESSAGE"].startswith("d1: FAILED after ")
    for line in (begun, ended):
        about = (
            line["STACK"],
            line["ACTION"],
            line["_SYSTEMD_UNIT"],
            line["SYSLOG_IDENTIFIER"],
        )
        assert about == ("shop", "CREATE", f"{NAME}.service", NAME)
    assert [each["MESSAGE"] for each in lines("STACK=shop", "STATE=failed")] == [
        ended["MESSAGE"]
    ]
    assert lines("DEPLOYMENT_ID=d2") == []
    assert any(
        "local has 1 deployment" in each["MESSAGE"] for each in lines("-u", NAME)
    )


def test_the_console_has_a_line_for_each_begin_and_end(machine: Booted) -> None:
    """It is the machine's own: what a cloud shows of its instance."""
    (machine.disk / "root/go").touch()
    eventually(
        machine, lambda: " heat-config-agent: d1: FAILED after " in machine.console()
    )
    lines = [
        line
        for line in machine.console().splitlines()
        if "heat-config-agent: d1" in line
    ]
    assert len(lines) == 2
    assert lines[0].endswith("heat-config-agent: d1: begins CREATE (script)")
    assert lines[1].endswith(": exit code 3")
