"""A run that has nothing to do, again and again: it is short, and nothing that there is to do is missed."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from heat_config_agent.cli.apply import shortcut
from heat_config_agent.cli.deployments import verdicts
from heat_config_agent.settings import effective, paths
from heat_config_agent.verification import record
from support import pace
from support.loopback import SignalServer
from support.machine import Done, Machine, deployment

pytestmark = pytest.mark.new_process

CODE = """if True:
    import sys
    from heat_config_agent.cli.apply import shortcut
    from heat_config_agent.cli import main
    assert shortcut._SETTLED_NS
    shortcut._SETTLED_NS = 0
    sys.exit(main.apply())
"""
"""heat-config-apply, taking what was changed a moment ago for what was changed long ago."""


def applied(machine: Machine, *arguments: str, **environment: str) -> tuple[Done, bool]:
    """Apply the document of the machine, and return how that ended, and whether everything was looked at anew."""
    lock = machine.state / "lock"
    before = lock.stat().st_mtime_ns if lock.exists() else 0
    named = [
        "--state-dir",
        str(machine.state),
        *arguments,
        str(machine.folder / "document.json"),
    ]
    process = machine.start(
        sys.executable, "-c", CODE, *named, stdin=None, **environment
    )
    out, err = process.communicate(timeout=pace.seconds(30))
    return Done(process.returncode, out, err), lock.stat().st_mtime_ns != before


@pytest.fixture
def idle(machine: Machine, heat: SignalServer) -> Machine:
    """A machine on which there is nothing to do, and that is known."""
    machine.write(
        [
            deployment(
                each,
                f"#!/bin/sh\necho {each} >>{machine.folder}/ran\n",
                signal=heat.url(each),
            )
            for each in "ab"
        ]
    )
    assert applied(machine)[0].code == 0
    assert applied(machine)[1]
    assert not applied(machine)[1]
    return machine


def ran(machine: Machine) -> str:
    """Return which scripts were run."""
    return (machine.folder / "ran").read_text()


def test_unchanged_document_is_reported_in_the_same_words(idle: Machine) -> None:
    """With the same words, and the same exit code."""
    idle.state.joinpath(shortcut.FILE).unlink()
    first, anew = applied(idle)
    assert anew
    for _ in range(2):
        done, anew = applied(idle)
        assert not anew
        assert (done.code, done.out, done.err) == (0, first.out, "")
    assert first.out == "2 deployments: nothing to do\n"
    assert ran(idle) == "a\nb\n"


def _write(machine: Machine, *names: str) -> None:
    given = json.loads((machine.folder / "document.json").read_text())
    machine.write(
        [
            *given,
            *(
                deployment(each, f"#!/bin/sh\necho {each} >>{machine.folder}/ran\n")
                for each in names
            ),
        ]
    )


def _ask(folder: Path, wish: str) -> None:
    folder.mkdir()
    (folder / wish).touch()


def _no_deployments(machine: Machine) -> None:
    machine.write([])


CHANGES: dict[str, tuple[Callable[[Machine], object], str]] = {
    "a new deployment": (lambda machine: _write(machine, "c"), "a\nb\nc\n"),
    "deployments that have left": (_no_deployments, "a\nb\n"),
    "a mark that somebody removed": (
        lambda machine: (machine.state / "deployed/a.json").unlink(),
        "a\nb\na\n",
    ),
    "a wish": (lambda machine: machine.agent("retry", "b"), "a\nb\nb\n"),
    "a wish left for later": (
        lambda machine: _ask(machine.state / "asked", "a.again"),
        "a\nb\na\n",
    ),
    "a journal that is gone": (
        lambda machine: (machine.state / "journal").unlink(),
        "a\nb\n",
    ),
    "a pause": (lambda machine: machine.agent("pause", "--reason", "x"), "a\nb\n"),
    "a state that is another instance's": (
        lambda machine: (machine.state / "instance.json").write_text(
            '{"identity": {}}'
        ),
        "a\nb\n",
    ),
    "a record that is torn": (
        lambda machine: _tear(machine.state / shortcut.FILE, 40),
        "a\nb\n",
    ),
    "a record of nothing": (
        lambda machine: _tear(machine.state / shortcut.FILE, 0),
        "a\nb\n",
    ),
    "a record whose time is over": (
        lambda machine: _age(machine.state / shortcut.FILE),
        "a\nb\n",
    ),
}


def _tear(path: Path, size: int) -> None:
    path.write_bytes(path.read_bytes()[:size])


def _age(path: Path) -> None:
    digest, _, rest = path.read_bytes().split(b"\0", 2)
    path.write_bytes(b"\0".join((digest, b"1.0", rest)))


@pytest.mark.slow
@pytest.mark.parametrize("name", CHANGES)
def test_any_change_prevents_the_shortcut(idle: Machine, name: str) -> None:
    """After any change the shortcut is not taken, and pending work is done."""
    change, runs = CHANGES[name]
    change(idle)
    _, anew = applied(idle)
    assert anew
    assert ran(idle) == runs


def test_different_command_line_prevents_the_shortcut(idle: Machine) -> None:
    """The command line and the environment steer what is done."""
    assert applied(idle, "--json")[0].data["summary"]["skipped"] == 2
    assert applied(idle, HEAT_SHELL_CONFIG="/nowhere")[1]
    assert applied(idle, "--plan")[0].out.endswith("nothing was done\n")


def test_strict_run_looks_again_after_a_verification(idle: Machine) -> None:
    """Its exit code depends on what a verification has seen."""
    for is_looked_at in (True, False):
        assert applied(idle, "--strict")[1] is is_looked_at
    assert idle.agent("verify", "--allow-unknown").code == 0
    assert (idle.state / record.FILE).name == verdicts.RECORD

    assert applied(idle, "--strict")[1]


def test_shortcut_is_not_taken_while_another_agent_works(idle: Machine) -> None:
    """The shortcut is not taken while another agent works, because the state may change."""
    _write(idle, "slow")
    given = json.loads((idle.folder / "document.json").read_text())
    given[-1]["config"] = f"#!/bin/sh\necho >{idle.folder}/begun\nsleep 2\n"
    other = idle.start_apply(idle.write(given, "other.json"))
    while not (idle.folder / "begun").exists():
        assert other.poll() is None
    idle.write(given[:-1])
    assert applied(idle)[0].code == 4
    other.communicate(timeout=pace.seconds(30))


def test_mistake_in_a_document_is_reported_each_time(machine: Machine) -> None:
    """A document with a mistake is said to have one, each time."""
    machine.write([deployment("a"), "nonsense"])
    for _ in range(3):
        done, anew = applied(machine)
        assert anew
        assert done.code == 1
    assert not (machine.state / shortcut.FILE).exists()


def test_a_result_that_is_not_delivered_is_sent_again(
    machine: Machine, heat: SignalServer
) -> None:
    """The shortcut is not taken while a result is undelivered."""
    heat.refuse()
    machine.write([deployment("a", signal=heat.url())])
    assert applied(machine, "--deliver-for", "0")[0].code == 5
    assert applied(machine, "--deliver-for", "0")[0].code == 5
    heat.start()
    assert applied(machine, "--deliver-for", "0")[0].code == 0
    assert len(heat.signals) == 1


def test_the_state_directory_is_the_one_of_the_settings(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Without an option, the state directory is that of the settings."""
    monkeypatch.setattr(effective, "OWN_FILES", tmp_path)
    monkeypatch.setattr(effective, "OTHER_FILE", tmp_path / "none")
    for user in (0, 1000):
        monkeypatch.setattr("os.geteuid", lambda user=user: user)
        for environ in ({"HOME": "/home/x"}, {"XDG_STATE_HOME": "/y"}, {}):
            assert str(effective.make(environ).state) == paths.usual_state(environ)
