"""Programs started with their environment, and deployments that count their runs, for tests of the commands."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

from support import loaded, pace
from support.loopback import wait_until
from support.machine import Done, Machine, deployment

SH = "#!/bin/sh\n"


def run(
    machine: Machine, program: str, *arguments: str, given: str = "", **environment: str
) -> Done:
    """Run any of the commands to its end, with something on standard input; loaded as `machine.command` does it."""
    variables, seconds = {**machine.environment, **environment}, pace.seconds(60)
    if machine.may_begin_loaded(program, variables):
        code, out, err = loaded.run(
            program, arguments, variables, machine.folder, seconds, given=given
        )
        machine.said.append((f"what {program} printed", f"{out}{err}"))
        return Done(code, out, err)
    process = machine.start(program, *arguments, stdin=subprocess.PIPE, **environment)
    out, err = process.communicate(given, timeout=seconds)
    return Done(process.returncode, out, err)


def waiting(machine: Machine, identity: str = "d1", **fields: Any) -> dict[str, Any]:
    """Return a deployment that says `begun`, waits for `let_go` and says `over`."""
    script = f"{SH}echo begun\nwhile ! [ -e {machine.folder}/go ]; do sleep 0.02; done\necho over\n"
    return deployment(identity, script, **fields)


def let_go(machine: Machine) -> None:
    """Let the scripts of `waiting` end."""
    (machine.folder / "go").touch()


def wait_for_text(path: Path, text: str) -> None:
    """Wait until a file holds a text."""
    wait_until(lambda: path.exists() and text in path.read_text())


def runs(machine: Machine) -> list[str]:
    """Return what the scripts of `counted` have noted."""
    path = machine.folder / "runs"
    return path.read_text().split() if path.exists() else []


def counted(
    machine: Machine, identity: str = "d1", end: str = "", **fields: Any
) -> dict[str, Any]:
    """Return a deployment that leaves its id in a file each time it is run."""
    return deployment(
        identity, f"{SH}echo {identity} >>{machine.folder}/runs\n{end}\n", **fields
    )


def hook_places(machine: Machine) -> dict[str, str]:
    """Return the variables that have the script hook work in folders of the test's own."""
    return {
        "HEAT_SCRIPT_WORKING": str(machine.folder / "work"),
        "HEAT_SCRIPT_OUTPUTS": str(machine.folder / "outputs"),
    }
