"""The work of the scenarios: deployments, by the agent and by the limit."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bench import measure
from bench.scenario import LackingError
from bench.server import Running

SCRIPT = "#!/bin/sh\necho done\n"
"""A script that costs as little as possible, and shows that it ran."""


def deployments(
    count: int,
    server: Running | None = None,
    *,
    mark: str = "d",
    group: str = "script",
    config: str = SCRIPT,
) -> list[dict[str, Any]]:
    """Return so many deployments as Heat has them, with ids `mark`-0 and on; results go to the server, if any."""
    return [
        {
            "id": f"{mark}-{number}",
            "name": f"{mark}-{number}",
            "group": group,
            "config": config,
            "creation_time": "2026-01-01T00:00:00Z",
            "options": {},
            "outputs": [],
            "inputs": [
                _input("deploy_server_id", "6f0c2a4e-server"),
                _input("deploy_action", "CREATE"),
                _input("deploy_stack_id", "stack/0d4f5a6b"),
                _input("deploy_resource_name", f"{mark}-{number}"),
                *(
                    [
                        _input("deploy_signal_transport", "CFN_SIGNAL"),
                        _input(
                            "deploy_signal_id", server.url(f"signal/{mark}-{number}")
                        ),
                        _input("deploy_signal_verb", "POST"),
                    ]
                    if server
                    else [_input("deploy_signal_transport", "NO_SIGNAL")]
                ),
            ],
        }
        for number in range(count)
    ]


def _input(name: str, value: str) -> dict[str, Any]:
    return {"name": name, "type": "String", "value": value}


class Ours:
    """heat-config-apply, with all that it keeps below one folder."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.state = folder / "state"
        self.document = folder / "document.json"
        self.hooks = folder / "hooks"
        self.environment = {"PATH": os.defpath, "HOME": str(folder), "LANG": "C.UTF-8"}

    def write(self, given: Sequence[Mapping[str, Any]]) -> None:
        """Make these the deployments that `apply` applies."""
        self.document.write_text(json.dumps({"deployments": given}))

    def apply(self) -> measure.Took:
        """Apply them."""
        command = Path(sys.executable).with_name("heat-config-apply")
        places = ("--state-dir", self.state, "--hooks-dir", self.hooks)
        return measure.run((command, *places, self.document), env=self.environment)


class Limit:
    """The C program of limit.c."""

    def __init__(self, folder: Path) -> None:
        """Compile it into this folder. Raises LackingError."""
        compiler = shutil.which("cc")
        if compiler is None:
            raise LackingError(
                "there is no C compiler; install one with «apt install gcc libc6-dev»"
            )
        folder.mkdir(parents=True, exist_ok=True)
        self._program = folder / "limit"
        source = Path(__file__).with_name("limit.c")
        subprocess.run([compiler, "-O2", "-o", self._program, source], check=True)

    def apply(self, folder: Path, count: int, server: Running) -> measure.Took:
        """Run so many scripts, each journalled and signalled; what is kept of it is put into the folder, a new one."""
        folder.mkdir()
        return measure.run(
            (self._program, "apply", folder, str(server.port), str(count), SCRIPT),
            env={},
        )

    def spawn(self, program: Path, given: Path, count: int) -> measure.Took:
        """Start a program so many times with that input, and no more."""
        return measure.run((self._program, "spawn", program, given, str(count)), env={})
