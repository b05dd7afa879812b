"""The output of processes that a run has left behind: it stays within the limit while no agent is there."""

from __future__ import annotations

import fcntl
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from heat_config_agent.runs import left_output, scopes
from support import endings, pace
from support.loopback import wait_until
from support.machine import BIN, Machine, deployment

LONG = 60
MEBI = 1024 * 1024

PRINTS_ON = """#!/bin/sh
echo begun
(while :; do head -c 2000000 /dev/zero; echo printed >>{folder}/{name}.progress; sleep 0.1; done) &
echo $! > {folder}/{name}.pid
"""
"""A script that leaves a process behind, which prints on and on."""


def leaves(machine: Machine, name: str = "d1", **fields: object) -> dict[str, object]:
    """Return a deployment that leaves such a process behind."""
    return deployment(
        name, PRINTS_ON.format(folder=machine.folder, name=name), **fields
    )


def conf(machine: Machine, **values: object) -> tuple[str, str]:
    """Return the option that names settings with the least limit."""
    path = machine.folder / "limit.conf"
    lines = {"output_limit": "4M", **values}
    path.write_text(
        "[agent]\n" + "".join(f"{name} = {value}\n" for name, value in lines.items())
    )
    return "--config", str(path)


def process(machine: Machine, name: str = "d1") -> psutil.Process:
    """Return the process that was left behind."""
    return psutil.Process(int((machine.folder / f"{name}.pid").read_text()))


def watchers(state: Path) -> list[psutil.Process]:
    """Return the processes that watch the output below a state directory."""
    return [
        each
        for each in psutil.process_iter()
        if endings.words(each)[1:5]
        == ["-I", "-m", "heat_config_agent.runs.left_output", str(state)]
    ]


@pytest.fixture(autouse=True)
def _ended(machine: Machine) -> Iterator[None]:
    """End the processes that the runs of a test have left behind, and those that watched them."""
    try:
        yield
    finally:
        left = [
            psutil.Process(int(path.read_text()))
            for path in machine.folder.glob("*.pid")
            if is_there(path)
        ]
        endings.kill(
            *left,
            *(
                each
                for state in machine.folder.rglob("runs")
                for each in watchers(state.parent)
            ),
        )


def is_there(path: Path) -> bool:
    """Return whether the process whose id a file has is still there."""
    return not endings.pid_has_ended(int(path.read_text()))


def output(left: psutil.Process) -> os.stat_result:
    """Return the state of the file to which a process prints, whether it has a name or not."""
    return Path(f"/proc/{left.pid}/fd/1").stat()


def stays_within_the_limit(machine: Machine, name: str = "d1") -> None:
    """Check that a process prints on, four times the limit in all, and that its file is below twice the limit after."""
    left, progress = process(machine, name), machine.folder / f"{name}.progress"
    enough = progress.stat().st_size + len("printed\n") * 10
    wait_until(lambda: progress.stat().st_size > enough, LONG)
    wait_until(lambda: output(left).st_blocks * 512 < 8 * MEBI, LONG)
    assert not endings.has_ended(left)


@pytest.mark.fault(
    3,
    "a run leaves a process that prints on and on, and the command that carried it out has ended",
    "its output stays within the limit, and what watches it ends with the process",
)
def test_output_of_a_left_process_is_limited_after_the_command(
    machine: Machine,
) -> None:
    """One process watches all runs of a state directory, and holds nothing once there is nothing to watch."""
    done = machine.apply([leaves(machine), leaves(machine, "d2")], *conf(machine))
    assert done.code == 0
    wait_until(lambda: len(watchers(machine.state)) == 1, LONG)

    stays_within_the_limit(machine)
    stays_within_the_limit(machine, "d2")

    assert len(watchers(machine.state)) == 1
    assert (machine.state / "left").exists()
    endings.kill(process(machine), process(machine, "d2"))
    wait_until(lambda: not watchers(machine.state), LONG)
    assert not (machine.state / "left").exists()
    assert machine.agent("log", "d1").out.startswith("begun")


def test_watcher_holds_nothing_of_the_caller(machine: Machine, tmp_path: Path) -> None:
    """A caller that reads all that its command prints, or locks a file meanwhile, does not wait for what is left."""
    words = ["--state-dir", str(machine.state), *conf(machine)]
    lock, elsewhere = tmp_path / "lock", tmp_path / "elsewhere"
    elsewhere.mkdir()
    with lock.open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        done = subprocess.run(
            [BIN / "heat-config-apply", *words, machine.write([leaves(machine)])],
            env=machine.environment,
            cwd=elsewhere,
            check=False,
            capture_output=True,
            pass_fds=(held.fileno(),),
            timeout=pace.seconds(LONG),
        )
    assert done.returncode == 0, done.stderr
    with lock.open("w") as free:
        fcntl.flock(free, fcntl.LOCK_EX | fcntl.LOCK_NB)
    wait_until(lambda: len(watchers(machine.state)) == 1, LONG)
    (watcher,) = watchers(machine.state)
    wait_until(lambda: watcher.cwd() == "/", LONG)
    for number in range(3):
        assert Path(f"/proc/{watcher.pid}/fd/{number}").samefile(os.devnull)
    assert not endings.has_ended(process(machine))


@pytest.mark.fault(
    3,
    "the process that limits the output of what a run has left is killed",
    "the next command has another one limit it",
)
def test_killed_watcher_is_replaced_by_the_next_command(machine: Machine) -> None:
    """Also if that command has nothing to do with the run that has left the process."""
    machine.apply([leaves(machine)], *conf(machine))
    wait_until(lambda: len(watchers(machine.state)) == 1, LONG)
    endings.kill(*watchers(machine.state))
    wait_until(lambda: not watchers(machine.state), LONG)

    machine.apply([leaves(machine), deployment("d2")], *conf(machine))

    wait_until(lambda: len(watchers(machine.state)) == 1, LONG)
    stays_within_the_limit(machine)


@pytest.mark.fault(
    3,
    "the output that a left process writes has been replaced by its masked copy, or removed with its run",
    "what the process prints from then on takes no space",
)
@pytest.mark.parametrize("how", ["masked", "repeated", "removed"])
def test_output_without_a_name_takes_no_space(machine: Machine, how: str) -> None:
    """The process holds a file that no command sees any more, and that would fill the disk."""
    given = (
        [{"name": "api_token", "type": "String", "value": "a-9f2d-secret"}]
        if how == "masked"
        else []
    )
    document = [leaves(machine, inputs=given)]
    machine.apply(
        document, *conf(machine, **({"keep_secrets": 0} if how == "masked" else {}))
    )
    left = process(machine)
    if how == "repeated":
        machine.agent("retry", "d1")
        machine.apply([deployment("d1", "#!/bin/sh\necho again\n")], *conf(machine))
    elif how == "removed":
        machine.agent("forget", "--yes", "d1")
        machine.apply([], *conf(machine))
        machine.agent("prune", *conf(machine, keep_for=0))
    wait_until(lambda: output(left).st_nlink == 0, LONG)

    progress = machine.folder / "d1.progress"
    enough = progress.stat().st_size + len("printed\n") * 10
    wait_until(lambda: progress.stat().st_size > enough, LONG)
    wait_until(lambda: output(left).st_blocks * 512 < 8 * MEBI, LONG)
    assert not endings.has_ended(left)


TEMPLATE = """heat_template_version: 2018-08-31
resources:
  server: {{type: OS::Nova::Server, properties: {{image: x, flavor: y}}}}
  config: {{type: OS::Heat::SoftwareConfig, properties: {{group: script, config: {{get_file: leaves.sh}}}}}}
  app:
    type: OS::Heat::SoftwareDeployment
    properties: {{config: {{get_resource: config}}, server: {{get_resource: server}}}}
"""


@pytest.mark.fault(
    3,
    "a resource of a stack leaves a process that prints on and on, and its stack is deleted",
    "its output stays within the limit before, and takes no space after",
)
def test_output_of_a_stack_is_limited(machine: Machine) -> None:
    """The state of a stack is removed with it, and the process that prints is not ended: no DELETE says so."""
    (machine.folder / "leaves.sh").write_text(
        PRINTS_ON.format(folder=machine.folder, name="d1")
    )
    template = machine.write(TEMPLATE.format(), "site.yaml")
    done = machine.apply(template, *conf(machine))
    assert done.code == 0, done.err
    stays_within_the_limit(machine)

    words = ["stack", "delete", "site", "--yes", "--state-dir", str(machine.state)]
    done = machine.command("heat-config-agent", words, {})

    assert done.code == 0, done.err
    assert output(process(machine)).st_nlink == 0
    stays_within_the_limit(machine)


@pytest.mark.parametrize("works", [True, False])
def test_watcher_has_a_scope_where_systemd_makes_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, works: bool
) -> None:
    """Else it would be ended with the service that has started it; where no scope is made, it starts all the same."""
    program = tmp_path / "systemd-run"
    asked = tmp_path / "asked"
    program.write_text(
        f'#!/bin/sh\necho "$@" >{asked}\n'
        + (
            'while [ "$1" != -- ]; do shift; done; shift\nexec "$@"\n'
            if works
            else "exit 1\n"
        )
    )
    program.chmod(0o755)
    monkeypatch.setattr(scopes, "PROGRAM", str(program))
    monkeypatch.setattr(scopes, "missing", lambda: "")
    folder = tmp_path / "runs/d1"
    folder.mkdir(parents=True)
    with (folder / "stdout").open("ab"):
        left_output.watch(tmp_path, 4 * MEBI, scoped=True)
        wait_until(lambda: len(watchers(tmp_path)) == 1, LONG)
        assert "--scope" in asked.read_text()
    wait_until(lambda: not watchers(tmp_path), LONG)
