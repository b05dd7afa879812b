"""The terminal during work: its size changes, and the command is stopped and continued."""

from __future__ import annotations

import shlex
import time
from pathlib import Path

from cli.window import Window, window
from support.loopback import wait_until
from support.machine import BIN, Machine, deployment

NAMES = [f"value_{number:02}" for number in range(14)]


def template(machine: Machine, values: int) -> Path:
    """Write a template with a script that waits for a file, and values that are there before it."""
    go = machine.folder / "go"
    config = {
        "group": "script",
        "config": f"#!/bin/sh\nwhile [ ! -e {go} ]; do sleep 0.05; done\n",
    }
    resources = {
        **{
            name: {"type": "OS::Heat::Value", "properties": {"value": 1}}
            for name in NAMES[:values]
        },
        "server": {"type": "OS::Nova::Server", "properties": {"flavor": "small"}},
        "config": {"type": "OS::Heat::SoftwareConfig", "properties": config},
        "waits": {
            "type": "OS::Heat::SoftwareDeployment",
            "properties": {
                "config": {"get_resource": "config"},
                "server": {"get_resource": "server"},
            },
        },
        "after": {
            "type": "OS::Heat::Value",
            "depends_on": "waits",
            "properties": {"value": 1},
        },
    }
    return machine.write(
        {"heat_template_version": "2018-08-31", "resources": resources}, "rows.yaml"
    )


def apply(machine: Machine, values: int = len(NAMES)) -> list[str | Path]:
    """Return the command that carries out the template."""
    return [
        BIN / "heat-config-apply",
        "--state-dir",
        machine.state,
        template(machine, values),
    ]


def names(rows: list[str]) -> list[str]:
    """Return the names in rows of resources."""
    words = [row.split() for row in rows]
    known = {*NAMES, "server", "config", "waits", "after"}
    return sorted(row[1] for row in words if len(row) > 1 and row[1] in known)


def finished(machine: Machine, terminal: Window) -> list[str]:
    """Let the script end, and return all rows at the end."""
    (machine.folder / "go").touch()
    return terminal.ended()


def test_a_terminal_that_is_made_less_high_shows_what_fits(machine: Machine) -> None:
    """No row scrolls out, and at the end each resource has one row, also above what can be seen."""
    with window(machine.folder, apply(machine), machine.environment) as terminal:
        terminal.wait_for("running  waits", also="waiting  after")
        terminal.resize(8)
        terminal.wait_for("of 18 resources are ok", also="running  waits")
        assert names(terminal.all()) == ["waits"]
        terminal.resize(24)
        terminal.wait_for("running  waits", also="waiting  after")
        assert len(names(terminal.all())) == 18
        terminal.resize(3)
        terminal.wait_for("of 18 resources are ok")
        rows = finished(machine, terminal)
    assert names(rows) == sorted([*NAMES, "server", "config", "waits", "after"])
    assert {row.split()[0] for row in rows[:18]} == {"ok"}
    assert "CREATE_COMPLETE" in rows[-1]


def test_a_terminal_that_is_made_narrower_shows_complete_rows(machine: Machine) -> None:
    """They are drawn again for the new width; what tmux has wrapped and scrolled out by itself stays above them."""
    with window(machine.folder, apply(machine, 5), machine.environment) as terminal:
        terminal.wait_for("running  waits", also="waiting  after")
        terminal.resize(24, 50)
        wait_until(lambda: len(set(names(terminal.all()[-9:]))) == 9, 30)
        rows = finished(machine, terminal)
    at = next(at for at, row in enumerate(rows) if row.startswith("ok       waits"))
    assert [row.split()[0] for row in rows[at - 7 : at + 2]] == ["ok"] * 9
    assert len(set(names(rows[at - 7 : at + 2]))) == 9


def test_stopped_and_continued_command_draws_below(machine: Machine) -> None:
    """`^Z` leaves the rows above what the shell prints, and they are drawn again below it."""
    words = shlex.join(map(str, apply(machine)))
    shell = ["bash", "--norc", "-ic", f"set -m; {words}; echo the shell goes on; fg"]
    with window(machine.folder, shell, machine.environment) as terminal:
        terminal.wait_for("running  waits", also="waiting  after")
        terminal.type("C-z")
        terminal.wait_for("the shell goes on")
        terminal.wait_for("waiting  after")
        rows = finished(machine, terminal)
    stopped = next(at for at, row in enumerate(rows) if "the shell goes on" in row)
    assert len(names(rows[:stopped])) == len(names(rows[stopped:])) == 18
    assert not any("^Z" in row for row in rows)


def test_the_line_about_a_deployment_is_there_once(machine: Machine) -> None:
    """It is drawn again and again in its place, and a run that was begun earlier has the time since then."""
    waits = f"#!/bin/sh\nwhile [ ! -e {machine.folder}/go ]; do sleep 0.05; done\n"
    path = machine.write(
        [deployment("d1", waits, name="a_name_that_is_longer_than_half_a_line")],
        "long.json",
    )
    command: list[str | Path] = [
        BIN / "heat-config-apply",
        "--state-dir",
        machine.state,
        path,
    ]
    process = machine.start(*map(str, command), stdin=None)
    wait_until(lambda: " running " in machine.agent("status").out, 30)
    time.sleep(1.5)
    process.kill()
    process.communicate()
    with window(machine.folder, command, machine.environment) as terminal:
        terminal.wait_for("running  a_name")
        [line] = terminal.all()
        assert float(line.split()[2]) > 1.5, line
        wait_until(lambda: terminal.all() != [line], 30)
        assert len(terminal.all()) == 1
        rows = finished(machine, terminal)
    assert [row.split()[0] for row in rows if row[:1].strip()] == ["ok", "1"]


def test_wait_shows_on_a_terminal_for_what_it_waits(machine: Machine) -> None:
    """The line is drawn again, it goes with the end of the wait, and the reason is said once."""
    with window(machine.folder, waiting(machine), machine.environment) as terminal:
        terminal.wait_for("note: no agent is running", also="waiting ")
        machine.apply([deployment("d1", name="web")])
        rows = terminal.ended()

    assert rows[-1] == "web (CREATE): ok"
    assert not [row for row in rows if row.startswith("waiting ")]


def test_interrupted_wait_says_nothing_of_runs(machine: Machine) -> None:
    """It has begun none, so there is nothing that goes on."""
    with window(machine.folder, waiting(machine), machine.environment) as terminal:
        terminal.wait_for("waiting ")
        terminal.type("C-c")
        rows = terminal.ended()

    assert rows[-1] == "interrupted"


def waiting(machine: Machine) -> list[str | Path]:
    """Return the command that waits for a deployment which is not there yet."""
    return [BIN / "heat-config-agent", "wait", "web", "--state-dir", machine.state]
