"""The installed commands, run as processes on a state directory of their own; and the deployments to give them."""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest

from heat_config_agent.cli.deployments import status
from heat_config_agent.model.entry import Removed
from heat_config_agent.state import journal
from heat_config_hooks import HOOKS
from support import answers, endings, loaded, pace, planted

BIN = Path(sys.executable).parent
"""Where the commands are installed: beside the interpreter that runs the tests."""

WATCHER = "heat_config_agent.runs.left_output"
"""The module of the process that limits the output of what runs have left behind."""


@dataclass(frozen=True)
class Done:
    """The end of a command."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> dict[str, Any]:
        """Return the answer of a command with --json: the object in the last line."""
        return self._lines[-1]

    @property
    def data(self) -> dict[str, Any]:
        """Return the data of the answer."""
        value = self.json["data"]
        assert isinstance(value, dict), self
        return value

    @property
    def events(self) -> list[dict[str, Any]]:
        """Return the data of the lines before the answer."""
        return [line["data"] for line in self._lines[:-1]]

    @property
    def _lines(self) -> list[dict[str, Any]]:
        lines = [json.loads(line) for line in self.out.removesuffix("\n").split("\n")]
        assert lines, self
        assert all(isinstance(line, dict) for line in lines), self
        return lines


def check_answer(arguments: Sequence[str], code: int, out: str | None) -> None:
    """Hold a command that was asked for JSON, and was not killed, to the schema of its answer."""
    if out is not None and code >= 0 and answers.is_asked_for(arguments):
        faults = answers.wrong(out, code)
        assert not faults, "\n".join([shlex.join(arguments), *faults, out])


class _Heard(subprocess.Popen[str]):
    """A command of which everything that is read is noted."""

    said: list[tuple[str, str]]

    def communicate(self, *args: Any, **options: Any) -> tuple[str, str]:
        out, err = super().communicate(*args, **options)
        words = [str(each) for each in self.args]  # type: ignore[union-attr]
        self.said.append((f"what {shlex.join(words)} printed", f"{out}{err}"))
        check_answer(words[1:], self.returncode, out)
        return out, err


class Machine:
    """A place where the commands can be run."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.state = folder / "state"
        self.hooks = folder / "hooks"
        # beside it: tests look at what is in it
        self.temporary = folder.with_name(f"{folder.name}.tmp")
        self.temporary.mkdir(exist_ok=True)
        self.environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(folder),
            "LANG": "C.UTF-8",
            "TZ": "UTC",
        }
        self.environment["TMPDIR"] = str(self.temporary)
        # `make coverage` measures what the commands do, too.
        self.environment.update(
            {
                name: each
                for name, each in os.environ.items()
                if name.startswith("COVERAGE_")
            }
        )
        self.begins_loaded = True
        """True if commands that run to their end may begin loaded, see `loaded`."""
        self.said: list[tuple[str, str]] = []
        """The output of commands by kind; this and the following are for `planted`."""
        self.logs: list[Path] = []
        """Files to which others of our programs print."""
        self.config: Path | None = None
        """The file with the settings, if there is one."""
        self.since = planted.now()
        """When it was made (seconds since the epoch)."""
        self._started: list[subprocess.Popen[str]] = []

    def write(self, document: object, name: str = "document.json") -> Path:
        """Write a document to a file."""
        path = self.folder / name
        path.write_text(document if isinstance(document, str) else json.dumps(document))
        return path

    def apply(
        self,
        document: object = None,
        *arguments: str,
        seconds: float = 60,
        **environment: str,
    ) -> Done:
        """Run `heat-config-apply` on a document (a value, or a path) to its end."""
        return self.command(
            "heat-config-apply",
            self._applied(document, arguments),
            environment,
            seconds,
        )

    def start_apply(
        self, document: object = None, *arguments: str, **environment: str
    ) -> subprocess.Popen[str]:
        """Start `heat-config-apply` on a document."""
        return self.start(
            "heat-config-apply",
            *self._applied(document, arguments),
            stdin=None,
            **environment,
        )

    def agent(self, command: str, *arguments: str, **environment: str) -> Done:
        """Run `heat-config-agent COMMAND` to its end."""
        return self.command(
            "heat-config-agent",
            [command, "--state-dir", str(self.state), *arguments],
            environment,
        )

    def verified(self, **environment: str) -> dict[str, Any]:
        """Return what `verify` says of the only deployment; the exit code has to be that of its state."""
        done = self.agent("verify", "--json", **environment)
        [row] = done.data["deployments"]
        codes = {"ok": 0, "drifted": 9, "unknown": 1}
        assert done.code == codes[row["state"]], done.out + done.err
        assert isinstance(row, dict)
        return row

    def command(
        self,
        program: str,
        arguments: Sequence[str],
        environment: Mapping[str, str],
        seconds: float = 60,
    ) -> Done:
        """Run one of the commands to its end, as a process that begins loaded where that makes no difference."""
        variables, seconds = {**self.environment, **environment}, pace.seconds(seconds)
        if not self.may_begin_loaded(program, variables):
            process = self.start(program, *arguments, stdin=None, **environment)
            out, err = process.communicate(timeout=seconds)
            return Done(process.returncode, out, err)
        code, out, err = loaded.run(program, arguments, variables, self.folder, seconds)
        self.said.append(
            (f"what {shlex.join([program, *arguments])} printed", f"{out}{err}")
        )
        check_answer(arguments, code, out)
        return Done(code, out, err)

    def may_begin_loaded(self, program: str, variables: Mapping[str, str]) -> bool:
        """Return whether a command may begin loaded."""
        return (
            self.begins_loaded
            and program in loaded.PROGRAMS
            and loaded.may_be(variables)
        )

    def start(
        self,
        program: str,
        *arguments: str,
        stdin: int | None = None,
        **environment: str,
    ) -> subprocess.Popen[str]:
        """Start one of the installed commands."""
        process = _Heard(
            [str(BIN / program), *arguments],
            stdin=subprocess.DEVNULL if stdin is None else stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**self.environment, **environment},
            cwd=self.folder,
        )
        process.said = self.said
        self._started.append(process)
        return process

    def start_into(
        self,
        said: Path,
        program: str,
        *arguments: str,
        before: Iterable[str] = (),
        **environment: str,
    ) -> subprocess.Popen[bytes]:
        """Start one of the installed commands, by the command `before` if there is one; a file keeps all it says."""
        with said.open("ab") as file:
            return subprocess.Popen(
                [*before, str(BIN / program), *arguments],
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=file,
                env={**self.environment, **environment},
                cwd=self.folder,
            )

    def listed(self, commands: Iterable[Sequence[str]], seconds: float) -> list[str]:
        """Return what `heat-config-agent` prints for each of these, and last what they all say on standard error.

        One process runs them all: each start takes long.
        """
        words = [[*each, "--state-dir", str(self.state)] for each in commands]
        arguments = [_LISTINGS, json.dumps(words)]
        code, out, err = loaded.run(
            "-c", arguments, self.environment, self.folder, seconds
        )
        assert code == 0, err
        return [*json.loads(out), err]

    def have_quick_tools(self) -> None:
        """Have the tools that `doctor` starts answer at once, where a test is not about them: it asks each its version.

        The real ones take it more than a second.
        """
        folder = self.folder / "quick-tools"
        folder.mkdir()
        for name in (
            "ansible-playbook",
            "docker",
            "podman",
            "podman-compose",
            "puppet",
        ):
            (folder / name).write_text("#!/bin/sh\necho 1.0\n")
            (folder / name).chmod(0o755)
        self.environment["PATH"] = f"{folder}:{self.environment['PATH']}"

    def status(self) -> dict[str, dict[str, Any]]:
        """Return the record of each deployment in the journal by id, with what the commands say of it as `what`.

        It is made here: many a test waits for what it says, and each time a process would take longer than the agent.
        """
        entries = sorted(
            journal.read(self.state).values(), key=lambda entry: entry.accepted
        )
        remaining = [each for each in entries if each.removed is not Removed.ALL]
        shown = json.dumps([status.values(each, self.state) for each in remaining])
        self.said.append(("what status says", shown))
        recorded = [
            {
                **vars(each),
                **{
                    name: value
                    for name, value in said.items()
                    if name in ("process", "scope", "user", "isolated", "attempts")
                },
                "state": each.state.value,
                "shown": said["state"],
                "title": said["name"],
                "what": said["message"],
                "failed": each.failed if each.ended else None,
                "not_before": each.not_before or None,
            }
            for each, said in zip(remaining, json.loads(shown), strict=True)
        ]
        return {each["id"]: each for each in recorded}

    def hook(self, name: str, script: str, *, mode: int = 0o755) -> Path:
        """Install an executable as the hook of a tool."""
        self.hooks.mkdir(exist_ok=True)
        path = self.hooks / name
        path.write_text(script)
        path.chmod(mode)
        return path

    def processes(self) -> list[psutil.Process]:
        """Return the processes of our runs: those whose environment or command line names our state directory.

        The process that limits the output of what runs have left is not one of them: it ends after what they have left.
        """
        return [each for each in self._all() if WATCHER not in endings.words(each)]

    def processes_with(self, state: Path) -> list[psutil.Process]:
        """Return the processes whose environment or command line names another state directory."""
        return [each for each in self._all(state) if not endings.has_ended(each)]

    def _all(self, state: Path | None = None) -> list[psutil.Process]:
        ids, place = [], os.fsencode(state or self.state)
        for pid in psutil.pids():
            # after each test: read as it is, which takes a third of psutil's time
            try:
                words = b"".join(
                    _read(f"/proc/{pid}/{name}") for name in ("cmdline", "environ")
                )
                if pid != os.getpid() and place in words:
                    ids.append(psutil.Process(pid))
            except (OSError, psutil.NoSuchProcess):
                continue
        return ids

    def end(self) -> None:
        """End whatever is still running."""
        endings.end(*self._started)
        endings.kill(*self._all())

    def _applied(self, document: object, arguments: Iterable[str]) -> list[str]:
        if document is not None and not isinstance(document, Path):
            document = self.write(document)
        return [
            *self._places(),
            *arguments,
            *([str(document)] if document is not None else []),
        ]

    def _places(self) -> list[str]:
        return [
            "--state-dir",
            str(self.state),
            *(["--hooks-dir", str(self.hooks)] if self.hooks.is_dir() else []),
        ]


_LISTINGS = """
import contextlib, io, json, sys
from heat_config_agent.cli import agent
from heat_config_agent.model.errors import AgentError
listings = []
for words in json.loads(sys.argv[1]):
    with contextlib.redirect_stdout(io.StringIO()) as said:
        try:
            agent.main(words)
        except AgentError as error:  # there is no output of what nobody has run
            print(error)
    listings.append(said.getvalue())
print(json.dumps(listings))
"""


def _read(path: str) -> bytes:
    with open(path, "rb", buffering=0) as file:
        return file.readall()


def deployment(
    identity: str = "d1", config: object = "#!/bin/sh\n", **fields: Any
) -> dict[str, Any]:
    """Return a deployment. `inputs` may be a map; `signal` is the URL for its result, `action` its action.

    Secrets are planted in it, see `planted`.
    """
    inputs = fields.pop("inputs", {})
    items = (
        inputs
        if isinstance(inputs, list)
        else [{"name": name, "value": value} for name, value in inputs.items()]
    )
    items = [
        *items,
        {
            "name": "deploy_action",
            "type": "String",
            "value": fields.pop("action", "CREATE"),
        },
    ]
    if url := fields.pop("signal", None):
        items.append({"name": "deploy_signal_id", "type": "String", "value": url})
        items.append(
            {
                "name": "deploy_signal_verb",
                "type": "String",
                "value": fields.pop("verb", "POST"),
            }
        )
    # what others than scripts make of each input is what their tests are about
    tool = fields.get("group", "script")
    items += planted.plant(items, hidden=tool == "script" or tool not in HOOKS)
    outputs = [
        each if isinstance(each, dict) else {"name": each}
        for each in fields.pop("outputs", [])
    ]
    return {
        "id": identity,
        "name": identity,
        "group": "script",
        "creation_time": "2026-11-20T18:26:35Z",
        "config": config,
        "options": {},
        "inputs": items,
        "outputs": outputs,
        **fields,
    }


@contextlib.contextmanager
def small_disk(
    machine: Machine, size: str, state: Path | None = None
) -> Iterator[Path]:
    """Have the state directory be a file system of that size, or that of a host; whatever runs is ended with it."""
    state = state or machine.state
    state.mkdir(mode=0o700)
    if os.geteuid() != 0:
        pytest.skip("only root may mount a small file system: run the tests as root")
    mount = [
        "mount",
        "-t",
        "tmpfs",
        "-o",
        f"size={size},mode=0700",
        "tmpfs",
        str(state),
    ]
    done = subprocess.run(mount, check=False, capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"tmpfs cannot be mounted here: {done.stderr.strip()}")
    try:
        yield state
    finally:
        machine.end()
        subprocess.run(["umount", "--lazy", state], check=True)
