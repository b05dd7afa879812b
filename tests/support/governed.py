"""A machine with a policy: its commands see a folder of the test in the place of /etc/heat-config-agent."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from support import loaded, pace
from support.machine import BIN, Done, Machine
from support.mounts import may_mount, mounted

PLACE = "/etc/heat-config-agent"
POLICY = f"{PLACE}/policy"


class Governed:
    """Runs the installed commands where the folder `own` is mounted over /etc/heat-config-agent."""

    def __init__(self, machine: Machine, *script: str) -> None:
        """Prepare the folder; `script` is run as root before each command, where only the command sees its mounts."""
        if not may_mount():
            pytest.skip(
                "a policy can only be tried where mounts are allowed: run the tests as root"
            )
        self.machine = machine
        self.own = machine.folder / "own"
        self.own.mkdir(mode=0o755)
        lower = machine.folder / "lower"
        (lower / "heat-config-agent").mkdir(parents=True)
        overlay = f"mount -t overlay overlay -o lowerdir={lower}:/etc /etc"
        self.before = mounted(overlay, f"mount --bind {self.own} {PLACE}", *script)
        self._seen: tuple[str, ...] = ()
        self._holder: subprocess.Popen[str] | None = None
        probe = subprocess.run(
            [*self.before, "true"], check=False, capture_output=True, text=True
        )
        if probe.returncode:
            pytest.skip(f"/etc cannot be overlaid here: {probe.stderr.strip()}")

    def policy(self, *rules: str, section: str = "[policy]") -> Path:
        """Write the policy and return its path outside the mounts."""
        path = self.own / "policy"
        path.write_text("\n".join((section, *rules, "")))
        path.chmod(0o644)
        return path

    def apply_file(self, path: Path, *words: str) -> Done:
        """Run `heat-config-apply` on a template or a document."""
        return self.run(
            "heat-config-apply",
            "--state-dir",
            str(self.machine.state),
            *words,
            str(path),
        )

    def run(self, program: str, *arguments: str, **environment: str) -> Done:
        """Run a command to its end."""
        command, seconds = (
            [*self.before, str(BIN / program), *arguments],
            pace.seconds(60),
        )
        variables = {**self.machine.environment, **environment}
        folder = self.machine.folder
        if self.machine.may_begin_loaded(program, variables):
            code, out, err = loaded.run(
                program, arguments, variables, folder, seconds, mounts=self._mounts()
            )
            self.machine.said.append((f"what {program} printed", f"{out}{err}"))
            return Done(code, out, err)
        done = subprocess.run(
            command,
            env=variables,
            cwd=folder,
            capture_output=True,
            text=True,
            check=False,
            timeout=seconds,
        )
        self.machine.said.append(
            (f"what {program} printed", f"{done.stdout}{done.stderr}")
        )
        return Done(done.returncode, done.stdout, done.stderr)

    def _mounts(self) -> int:
        """Return a process that sees the mounts of the commands; it ends with the machine."""
        if self._seen != self.before:
            self._holder = self.machine.start(
                "/usr/bin/env", *self.before, "cat", stdin=subprocess.PIPE
            )
            self._seen = self.before
            assert self._holder.stdin is not None
            assert self._holder.stdout is not None
            self._holder.stdin.write("mounted\n")
            self._holder.stdin.flush()
            assert self._holder.stdout.readline() == "mounted\n"
        assert self._holder is not None
        return self._holder.pid

    def apply(self, document: object, *arguments: str, **environment: str) -> Done:
        """Run `heat-config-apply` on a document."""
        path = self.machine.write(document)
        state = str(self.machine.state)
        return self.run(
            "heat-config-apply",
            "--state-dir",
            state,
            *arguments,
            os.fspath(path),
            **environment,
        )

    def agent(self, *arguments: str) -> Done:
        """Run a command of `heat-config-agent` about the state directory."""
        return self.run(
            "heat-config-agent", *arguments, "--state-dir", str(self.machine.state)
        )
