"""The progress of a stack is true: what runs, what waits, what is unchanged, and what failed and why."""

from __future__ import annotations

import json
import re
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from cli.screen import COLUMNS, Terminal, frames, screen
from support import pace
from support.loopback import wait_until
from support.machine import BIN, Machine

LONG = "two_with_a_name_that_does_not_fit_into_any_column_of_a_terminal_of_eighty"

WAITS = "echo begun >>LOG; while [ ! -e LOG.go ]; do sleep 0.05; done\n"


def template(machine: Machine, one: str, two: str = "true", **more: Any) -> Path:
    """Write a template with two scripts, of which only one runs at a time; LOG is a file in the machine's folder."""
    resources: dict[str, Any] = {
        "server": {"type": "OS::Nova::Server", "properties": {"flavor": "small"}}
    }
    for name, text in (("one", one), (LONG, two)):
        script = f"#!/bin/sh\n{text}\n".replace("LOG", str(machine.folder / "log"))
        config = {"group": "script", "config": script}
        resources[f"{name}_config"] = {
            "type": "OS::Heat::SoftwareConfig",
            "properties": config,
        }
        deployment = {
            "config": {"get_resource": f"{name}_config"},
            "server": {"get_resource": "server"},
        }
        resources[name] = {
            "type": "OS::Heat::SoftwareDeployment",
            "properties": deployment,
        }
    document = {"heat_template_version": "2018-08-31", "resources": resources, **more}
    return machine.write(document, "pair.yaml")


def on_terminal(machine: Machine, path: Path) -> Terminal:
    """Apply a template on a terminal."""
    return Terminal(
        [BIN / "heat-config-apply", "--state-dir", machine.state, path],
        dict(machine.environment),
    )


def begun(machine: Machine) -> None:
    """Wait until the first script waits."""
    log = machine.folder / "log"
    wait_until(lambda: log.exists() and "begun" in log.read_text(), 30)


def row(rows: list[str], name: str) -> list[str]:
    """Return the words of the last row of a resource."""
    return next(
        words for words in map(str.split, reversed(rows)) if words[1:2] == [name]
    )


def test_only_what_runs_is_running(machine: Machine) -> None:
    """A deployment that waits for another's run is queued, and its time is that of its own run."""
    terminal = on_terminal(machine, template(machine, WAITS))
    begun(machine)
    waited = pace.limit(1.5)
    time.sleep(waited)
    (machine.folder / "log.go").touch()
    printed = terminal.printed()
    during = next(
        frame
        for frame in frames(printed)
        if any(line.startswith("running  one ") for line in frame)
    )
    assert [
        line.split()[0]
        for line in during
        if line.split()[1:2][:1] and line.split()[1].startswith("two_with")
    ] == [
        "ok",
        "waiting",
    ]
    last = [line for line in screen(printed) if line.startswith("ok")][-1]
    assert float(re.findall(r"([\d.]+) s", last)[0]) < waited
    assert all(len(line) < COLUMNS for line in screen(printed))
    long = [
        line.split()[1]
        for line in screen(printed)
        if line.split()[1:2] and line.split()[1].startswith("two_with")
    ]
    assert len(set(long)) == len(long) == 2, "their ends distinguish them"


def test_unchanged_resource_is_shown_as_unchanged(machine: Machine) -> None:
    """An unchanged resource is shown as such, on a terminal and in lines, and none stays waiting."""
    path = template(machine, "true")
    assert machine.apply(path).code == 0
    shown = screen(on_terminal(machine, path).printed())
    assert row(shown, "one") == ["ok", "one", "unchanged"]
    assert row(shown, "server") == ["ok", "server", "unchanged"]
    assert not any(line.startswith("waiting") for line in shown)
    assert row(machine.apply(path).out.splitlines(), "one") == row(shown, "one")


def test_lines_say_when_a_run_begins(machine: Machine) -> None:
    """The log shows when a run begins, so that a reader knows what the command waits for."""
    done = machine.apply(template(machine, "true"))
    first, second = (line for line in done.out.splitlines() if line[9:13] == "one ")
    assert first.split() == ["running", "one", "CREATE"]
    assert second.startswith("ok       one ")


def test_a_failure_shows_its_last_words(machine: Machine) -> None:
    """A failure shows the end of its output and the command that shows all of it, within the terminal's width."""
    terminal = on_terminal(
        machine, template(machine, "seq 9 >&2; echo out of paint >&2; exit 3")
    )
    shown = screen(terminal.printed())
    assert terminal.process.returncode == 1
    assert not any(line.endswith(" …") for line in shown)
    assert [line.strip() for line in shown if line.startswith("         |")] == [
        "| 6",
        "| 7",
        "| 8",
        "| 9",
        "| out of paint",
    ]
    command = re.search(
        r"all output heat-config-agent (.*) try again",
        " ".join(" ".join(shown).split()),
    )
    assert command is not None
    assert command[1].startswith("log pair/one ")
    log = machine.agent("log", "pair/one")
    assert log.err.endswith("9\nout of paint\n")
    assert "stack or source 'pair/nobody'" in machine.agent("log", "pair/nobody").err


def test_resource_behind_a_failed_one_is_shown_as_not_begun(machine: Machine) -> None:
    """After a failure, a resource that needs the failed one was never touched."""
    path = template(machine, "exit 1")
    document = json.loads(path.read_text())
    document["resources"]["after"] = {
        "type": "OS::Heat::Value",
        "depends_on": "one",
        "properties": {"value": 1},
    }
    path.write_text(json.dumps(document))
    shown = machine.apply(path).out.splitlines()
    assert row(shown, "after") == ["waiting", "after", "for", "one"]


def test_an_interrupt_leaves_no_debris(machine: Machine) -> None:
    """The terminal prints «^C» where the cursor is, and the rows are drawn over it."""
    terminal = on_terminal(machine, template(machine, WAITS))
    begun(machine)
    terminal.wait_for("running  one")
    terminal.type("\x03")
    shown = screen(terminal.printed())
    (machine.folder / "log.go").touch()
    assert terminal.process.returncode == 130
    assert [line.split()[0] for line in shown[:5]] == [
        "ok",
        "ok",
        "running",
        "ok",
        "waiting",
    ]
    assert not any("^C" in line for line in shown[:5])


def test_running_resource_after_an_interruption_is_shown_as_running(
    machine: Machine,
) -> None:
    """With the time since it began, and what was complete is ok, without any new event."""
    path = template(machine, WAITS)
    process = machine.start(
        "heat-config-apply", "--state-dir", str(machine.state), str(path)
    )
    begun(machine)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    time.sleep(1.5)
    terminal = on_terminal(machine, path)
    terminal.wait_for("running  one")
    (machine.folder / "log.go").touch()
    drawn = frames(terminal.printed())
    during = next(
        frame
        for frame in drawn
        if any(line.startswith("running  one ") for line in frame)
    )
    [running] = [line for line in during if line.startswith("running")]
    assert float(re.findall(r"([\d.]+) s", running)[0]) > 1.5
    for name in ("server", "one_config"):
        assert row(during, name)[:3] == ["ok", name, "CREATE"]
        assert row(during, name)[4] == "s"


@pytest.mark.parametrize("word", ["one", "pair/one"])
def test_query_about_an_unknown_stack_is_an_error(machine: Machine, word: str) -> None:
    """Without the stack there is one sentence, and the exit code is that of a missing thing."""
    done = machine.agent("log", word)
    assert (done.code, done.err.count("\n")) == (8, 1)


def test_unchanged_resource_is_shown_before_the_update_ends(machine: Machine) -> None:
    """An unchanged resource is shown as such while the update works on another one."""
    assert machine.apply(template(machine, "true")).code == 0
    path = template(machine, "true", WAITS)
    terminal = on_terminal(machine, path)
    begun(machine)
    terminal.wait_for("running  two_with")
    (machine.folder / "log.go").touch()
    during = next(
        frame
        for frame in frames(terminal.printed())
        if any(line.startswith("running") for line in frame)
    )
    for name in ("one", "server", "one_config"):
        assert row(during, name) == ["ok", name, "unchanged"]
    assert not any(line.startswith("waiting") for line in during)
    lines = machine.apply(template(machine, "true", "true; true")).out.splitlines()
    ends = next(
        at for at, line in enumerate(lines) if line.startswith(f"ok       {LONG} ")
    )
    unchanged = lines.index(next(each for each in lines if each[9:13] == "one "))
    assert lines[unchanged].endswith("  unchanged")
    assert unchanged < ends


def test_resource_that_an_update_did_not_reach_is_shown_as_not_begun(
    machine: Machine,
) -> None:
    """After a failure, a resource that was to be updated says that it was not begun."""
    path = template(machine, "true")

    def with_value(value: int) -> None:
        document = json.loads(path.read_text())
        properties = {"value": value}
        document["resources"]["after"] = {
            "type": "OS::Heat::Value",
            "depends_on": "one",
            "properties": properties,
        }
        path.write_text(json.dumps(document))

    with_value(1)
    assert machine.apply(path).code == 0
    template(machine, "exit 1")
    with_value(2)
    lines = machine.apply(path).out.splitlines()
    assert row(lines, "after") == ["waiting", "after", "for", "one"]
    assert row(lines, "server") == ["ok", "server", "unchanged"]


def test_an_update_that_is_resumed_knows_what_is_unchanged(machine: Machine) -> None:
    """Only resources that the killed command has updated are ok, and not the replaced ones, which are deleted."""
    assert machine.apply(template(machine, "true")).code == 0
    assert machine.apply(template(machine, "true", "exit 1")).code == 1
    path = template(machine, "true", WAITS)
    process = machine.start(
        "heat-config-apply", "--state-dir", str(machine.state), str(path)
    )
    begun(machine)
    time.sleep(0.5)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    terminal = on_terminal(machine, path)
    terminal.wait_for("running  two_with")
    (machine.folder / "log.go").touch()
    during = next(
        frame
        for frame in frames(terminal.printed())
        if any(line.startswith("running") for line in frame)
    )
    for name in ("one", "server", "one_config"):
        assert row(during, name) == ["ok", name, "unchanged"]
    assert not any(line.startswith("waiting") for line in during)
    [config] = [
        words
        for words in map(str.split, during)
        if words[1:2] and words[1].endswith("_config")
    ][1:]
    assert config[0::2][:2] == ["ok", "CREATE"]


def test_a_create_that_is_resumed_says_what_is_done(machine: Machine) -> None:
    """Resources that the killed command created are shown like all others that are created."""
    path = template(machine, "true", WAITS)
    process = machine.start(
        "heat-config-apply", "--state-dir", str(machine.state), str(path)
    )
    begun(machine)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    terminal = on_terminal(machine, path)
    (machine.folder / "log.go").touch()
    shown = screen(terminal.printed())
    assert row(shown, "server")[:3] == ["ok", "server", "CREATE"]
    assert row(shown, "one")[:3] == ["ok", "one", "CREATE"]


@pytest.mark.parametrize("live", [True, False])
def test_a_run_that_ended_in_between_has_its_own_time(
    machine: Machine, *, live: bool
) -> None:
    """The command that shows its end was not there when it began; on a terminal, and in lines."""
    path = template(machine, "sleep 0.2\n" + WAITS)
    before = time.time()
    process = machine.start(
        "heat-config-apply", "--state-dir", str(machine.state), str(path)
    )
    begun(machine)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    (machine.folder / "log.go").touch()
    [status] = machine.state.glob("stacks/*/runs/*/status.*")
    wait_until(lambda: status.read_text().startswith("0"), 30)
    ended = status.stat().st_mtime
    time.sleep(0.5)
    shown = (
        screen(on_terminal(machine, path).printed())
        if live
        else machine.apply(path).out.splitlines()
    )
    assert row(shown, "one")[:3] == ["ok", "one", "CREATE"]
    number, unit = row(shown, "one")[3:]
    assert unit == "s"
    assert 0.2 <= float(number) <= ended - before


def test_interrupted_wait_for_a_signal_is_shown_with_its_time(machine: Machine) -> None:
    """With the time since the interrupted command began to wait."""
    path = template(machine, "true")
    document = json.loads(path.read_text())
    document["resources"]["handle"] = {"type": "OS::Heat::WaitConditionHandle"}
    waits = {"handle": {"get_resource": "handle"}, "timeout": 600}
    document["resources"]["waits"] = {
        "type": "OS::Heat::WaitCondition",
        "properties": waits,
    }
    path.write_text(json.dumps(document))
    process = machine.start(
        "heat-config-apply", "--state-dir", str(machine.state), str(path)
    )
    listed = ["stack", "resource", "list", "--state-dir", str(machine.state), "pair"]
    wait_until(
        lambda: (
            ["waits", "running"]
            in [
                line.split()[:2]
                for line in machine.command(
                    "heat-config-agent", listed, {}
                ).out.splitlines()
            ]
        ),
        30,
    )
    time.sleep(0.5)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    terminal = on_terminal(machine, path)
    terminal.wait_for("running  waits")
    terminal.type("\x03")
    shown = screen(terminal.printed())
    assert row(shown, "waits")[:3] == ["running", "waits", "CREATE"]
    assert float(row(shown, "waits")[3]) >= 0.5


def test_a_run_that_nothing_waits_for_ends_too(machine: Machine) -> None:
    """Its resource is complete before it begins, and its row does not stay at `running`."""
    path = template(machine, "true", "exit 3")
    document = json.loads(path.read_text())
    for name in ("one", LONG):
        document["resources"][name]["properties"]["signal_transport"] = "NO_SIGNAL"
    path.write_text(json.dumps(document))
    shown = screen(on_terminal(machine, path).printed())
    assert row(shown, "one")[0] == "ok"
    assert not any(line.startswith("running") for line in shown)
    machine.command(
        "heat-config-agent",
        ["stack", "delete", "--state-dir", str(machine.state), "--yes", "pair"],
        {},
    )
    lines = machine.apply(path).out.splitlines()
    assert [line.split()[0] for line in lines if line.split()[1:2] == [LONG]] == [
        "ok",
        "running",
        "ok",
    ]
    assert "its run has failed: " in next(
        line for line in reversed(lines) if LONG in line
    )


def test_a_replaced_resource_does_not_read_as_deleted(machine: Machine) -> None:
    """A replaced resource has the row of its successor, although the old one is deleted last."""
    assert machine.apply(template(machine, "true")).code == 0
    shown = screen(on_terminal(machine, template(machine, "true; true")).printed())
    assert row(shown, "one")[:3] == ["ok", "one", "UPDATE"]
    assert row(shown, "one_config")[:3] == ["ok", "one_config", "CREATE"]
    deleted = machine.command(
        "heat-config-agent",
        ["stack", "delete", "--state-dir", str(machine.state), "--yes", "pair"],
        {},
    )
    assert "ok       one_config" in deleted.out, deleted.err


def test_run_that_cannot_begin_is_reported_where_nothing_waits_for_it(
    machine: Machine,
) -> None:
    """With NO_SIGNAL the resource is complete, so a second line has the reason."""
    path = template(machine, "true")
    document = json.loads(path.read_text())
    document["resources"]["one_config"]["properties"]["group"] = "salt"
    document["resources"]["one"]["properties"]["signal_transport"] = "NO_SIGNAL"
    done = machine.apply(machine.write(document, "pair.yaml"), PATH="/nowhere")
    lines = [line for line in done.out.splitlines() if line[9:13] == "one "]
    assert done.code == 0
    assert [line.split()[0] for line in lines] == ["ok", "ok"]
    assert "its run has failed: salt-call is not installed" in lines[-1]
