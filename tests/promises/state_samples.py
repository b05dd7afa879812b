"""State directories that released versions have written, and how one is written.

`PYTHONPATH=tests python -m promises.state_samples` has the commands of this checkout write one into
`tests/samples/states/VERSION`: a daemon that was killed in the middle of its work, stacks of HOT and TOSCA, and a
followed repository. A release adds its folder, and no folder is changed afterwards: later versions take each over.
"""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
import tempfile
import zlib
from pathlib import Path
from typing import Any

from heat_config_agent import __version__
from heat_config_agent.deployments import metadata
from heat_config_agent.state import journal
from support.daemon import LONG, Daemon
from support.http import Answer
from support.loopback import SignalServer, wait_until
from support.machine import Machine
from support.repositories import Repository, template
from support.stacking import Stacks

STATES = Path(__file__).parents[1] / "samples/states"
_HERE = "here.json"
"""In a sample: the folder and the server of its day, and the deployments."""

STACKS = ("site", "web", "notes")
"""The stacks of a sample: of a HOT template, of a followed repository, and of a TOSCA service."""

NOTES = Path(__file__).parents[2] / "examples/tosca/notes/notes.yaml"
"""The TOSCA service."""

STATES_OF = {
    "delivered": "signalled",
    "failed": "signalled",
    "unasked": "unasked",
    "refused": "refused",
    "left": "superseded",
    "waiting": "finished",
    "cut-short": "running",
    "queued": "accepted",
}
"""The deployments of a sample, in their order, and the state that each is in."""

_SCRIPTS = {"failed": "exit 3", "cut-short": "while true; do sleep 1; done"}


_AWAY = ("left", "waiting")
"""The deployments whose server is away."""


def deployments(
    machine: Machine, heat: SignalServer, away: SignalServer
) -> list[dict[str, Any]]:
    """Return the deployments; each one's script writes its name into the file `ran` when it runs."""
    documents = []
    for number, name in enumerate(STATES_OF):
        inputs = [{"name": "password", "value": "correct-horse", "type": "String"}]
        if name != "unasked":
            inputs += [
                {
                    "name": "deploy_signal_id",
                    "value": (away if name in _AWAY else heat).url(name),
                }
            ]
            inputs += [{"name": "deploy_signal_verb", "value": "POST"}]
        inputs.append({"name": "deploy_action", "value": "CREATE"})
        script = f"echo {name} >>{machine.folder}/ran\nprintf 'of {name}' >$heat_outputs_path.answer\n"
        config = f"#!/bin/sh\n{script}{_SCRIPTS.get(name, '')}\n"
        made = {
            "id": name,
            "name": name,
            "group": "script",
            "creation_time": f"2026-11-20T18:26:{number:02d}Z",
        }
        documents.append(
            {
                **made,
                "config": config,
                "inputs": inputs,
                "outputs": [{"name": "answer"}],
                "options": {},
            }
        )
    return documents


def hot(machine: Machine) -> str:
    """Return the template of the stack `site`."""
    return template(machine.folder / "site.log", "create")


def write(target: Path) -> None:
    """Have the commands of this checkout write a sample."""
    with tempfile.TemporaryDirectory(prefix="heat-config-sample-") as folder:
        machine, heat, away = (
            Machine(Path(folder, "machine")),
            SignalServer(),
            SignalServer(),
        )
        machine.folder.mkdir()
        heat.start()
        away.start()
        daemon = Daemon(machine)
        try:
            _write_stacks(machine)
            _write_deployments(machine, heat, away, daemon)
            # fetched files are not part of the state
            left_out = shutil.ignore_patterns("*lock", "git")
            shutil.copytree(
                machine.state, target / "state", symlinks=True, ignore=left_out
            )
            here = {
                "folder": str(machine.folder),
                "servers": [heat.origin, away.origin],
                "deployments": deployments(machine, heat, away),
            }
            (target / _HERE).write_text(json.dumps(here, indent=1) + "\n")
        finally:
            daemon.end()
            machine.end()
            heat.stop()
            away.stop()


def _write_stacks(machine: Machine) -> None:
    """Create a stack of a HOT template, and one of a TOSCA service."""
    site = machine.write(hot(machine), "site.yaml")
    for name, path, words in (
        ("site", site, ()),
        ("notes", NOTES, ("--input", f"folder={machine.folder}/notes")),
    ):
        Stacks(machine)("create", name, "-t", str(path), *words)


def _write_deployments(
    machine: Machine, heat: SignalServer, away: SignalServer, daemon: Daemon
) -> None:
    """Have a daemon follow a repository and carry out deployments, and kill it and its run."""
    repository = Repository(machine.folder.parent / "repository")
    repository.commit({"stack.yaml": template(machine.folder / "web.log", "followed")})
    all_of_them = deployments(machine, heat, away)
    address = {"os-collect-config": {"request": {"metadata_url": heat.url("metadata")}}}

    def put(*without: str) -> None:
        document = {
            "deployments": [each for each in all_of_them if each["id"] not in without],
            **address,
        }
        heat.named["metadata"] = Answer(body=json.dumps(document).encode())

    away.always = Answer(503)
    heat.named["refused"] = Answer(404)
    daemon.settings["agent"]["collectors"] = "request"
    daemon.settings["request"] = {"metadata_url": heat.url("metadata")}
    daemon.settings["follow web"] = {
        "url": repository.url,
        "path": "stack.yaml",
        "interval": 1,
    }
    put("cut-short", "queued")
    daemon.start()
    for name in ("delivered", "failed", "unasked", "refused"):
        daemon.wait_state(name, STATES_OF[name])
    for name in _AWAY:
        daemon.wait_state(name, "finished")
    wait_until((machine.folder / "web.log").exists, LONG)
    wait_until((machine.state / "learned.json").exists, LONG)
    put("left")
    wait_until(lambda: daemon.states() == STATES_OF, LONG)
    daemon.stop(signal.SIGKILL)
    machine.end()  # what was running too, as when power fails


def place(sample: Path, machine: Machine, heat: SignalServer) -> list[dict[str, Any]]:
    """Put the state of a sample where a machine has its own, and return the deployments of its document.

    Their results go to another server; what has a checksum gets the one that belongs to that.
    """
    here = json.loads((sample / _HERE).read_text())
    changes = {
        here["folder"]: str(machine.folder),
        **dict.fromkeys(here["servers"], heat.origin),
    }
    for name in STATES_OF:
        path = heat.url(name).removeprefix(heat.origin)
        for server in here["servers"]:
            changes[metadata.addressee_at(f"{server}{path}")] = metadata.addressee_at(
                heat.url(name)
            )
    shutil.copytree(sample / "state", machine.state, symlinks=True)
    for target in (machine.state, *machine.state.rglob("*")):
        if target.is_symlink():
            continue
        # version control keeps no such modes
        target.chmod(0o700 if target.is_dir() else 0o600)
        if target.is_file():
            target.write_bytes(_changed(target.read_bytes(), changes))
    text = _changed(json.dumps(here["deployments"]).encode(), changes)
    document: list[dict[str, Any]] = json.loads(text)
    return [deployment for deployment in document if deployment["id"] != "left"]


def _changed(content: bytes, changes: dict[str, str]) -> bytes:
    """Return the content of a file with other words in it, and with checksums that match where lines have any."""
    lines = content.split(b"\n")
    checked = all(
        line[:9] == b"%08x " % zlib.crc32(line[9:]) for line in lines if line
    ) and bool(content)
    for old, new in changes.items():
        content = content.replace(old.encode(), new.encode())
    if not checked:
        return content
    texts = [line[9:] for line in content.split(b"\n") if line]
    return b"".join(b"%08x %s\n" % (zlib.crc32(text), text) for text in texts)


if __name__ == "__main__":
    where = STATES / __version__
    if where.exists():
        sys.exit(f"{where} is there already: what a version has written is not changed")
    write(where)
    entries = {
        key: entry.state.value for key, entry in journal.read(where / "state").items()
    }
    assert entries == STATES_OF, entries
    subprocess.run(["du", "-sh", where], check=True)
