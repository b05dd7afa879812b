"""A state directory that the first version of the agent has written is taken over, after an upgrade of the package.

`tests/samples/earlier_state` was written by that version: a daemon that was killed while its last deployment ran.
"""

from __future__ import annotations

import json
import shutil
import zlib
from pathlib import Path
from typing import Any

import pytest

from heat_config_agent.deployments import metadata
from heat_config_agent.model.entry import State
from heat_config_agent.settings import layers
from heat_config_agent.sources import learned
from heat_config_agent.sources.documents import Documents
from heat_config_agent.state import journal
from support.loopback import SignalServer
from support.machine import Machine

SAMPLE = Path(__file__).parents[1] / "samples/earlier_state"
THERE = "/var/lib/heat-config-agent"
SERVER = "http://127.0.0.1:43419"
STATES = {
    "delivered": State.SIGNALLED,
    "waiting": State.FINISHED,
    "refused": State.REFUSED,
    "cut-short": State.RUNNING,
}


def copied(machine: Machine, heat: SignalServer) -> list[dict[str, Any]]:
    """Put the state where this machine has its own, and return the deployments; their results go to this server."""
    shutil.copytree(SAMPLE, machine.state)
    for path in (machine.state, *machine.state.rglob("*")):
        # version control keeps no such modes
        path.chmod(0o700 if path.is_dir() else 0o600)
    document = json.loads((SAMPLE / "documents/request.json").read_text())["content"]
    text = json.dumps(document).replace("/var/lib/example", str(machine.folder))
    lines = (SAMPLE / "journal").read_text()
    lines = lines.replace(THERE, str(machine.state)).replace(
        "/var/lib/example", str(machine.folder)
    )
    for key in STATES:
        url = f"{SERVER}/{key}"
        text = text.replace(f'"{url}"', json.dumps(heat.url(key)))
        lines = lines.replace(f'"{url}"', json.dumps(heat.url(key)))
        lines = lines.replace(
            metadata.addressee_at(url), metadata.addressee_at(heat.url(key))
        )
    records = [line.partition(" ")[2].encode() for line in lines.splitlines()]
    content = b"".join(
        b"%08x %s\n" % (zlib.crc32(record), record) for record in records
    )
    (machine.state / journal.FILE).write_bytes(content)
    deployments: list[dict[str, Any]] = json.loads(text)["deployments"]
    return deployments


def test_earlier_state_is_read_completely() -> None:
    """Each entry of the journal, the last documents, and the learned settings are read."""
    entries = journal.read(SAMPLE)
    assert {key: entry.state for key, entry in entries.items()} == STATES
    for key, entry in entries.items():
        assert entry.addressee == metadata.addressee_at(f"{SERVER}/{key}")
        assert entry.run is not None
        assert entry.run.outputs == f"{THERE}/run/heat-config-script"
    waiting = entries["waiting"]
    assert waiting.result is not None
    assert (waiting.result.values["answer"], waiting.result.failed, waiting.tries) == (
        "of waiting",
        False,
        3,
    )
    documents = Documents(SAMPLE)
    assert documents.warnings == []
    parsed = metadata.parse(documents.held["request"])
    assert ({each.key for each in parsed.deployments}, parsed.mistakes) == (
        set(STATES),
        (),
    )
    taught, trouble = learned.load(SAMPLE, change=False)
    assert taught is not None
    assert (trouble, taught.layer.get("request", "metadata_url")) == (
        "",
        f"{SERVER}/metadata",
    )
    assert taught.under == learned.digest(
        [layers.file(SAMPLE / "agent.conf", own=True)]
    )


@pytest.mark.fault(
    1,
    "an upgrade from the version before, killed while a deployment ran and a result waited",
    "nothing runs twice; the results that wait are delivered, the run that was cut short as a failure",
)
def test_nothing_runs_twice_and_results_are_delivered(
    machine: Machine, heat: SignalServer
) -> None:
    """The result that waited is sent as it was, and the run that was cut short is reported as failed."""
    deployments = copied(machine, heat)

    done = machine.apply(deployments)

    assert "damaged" not in done.err
    assert not (machine.folder / "ran").exists(), "a deployment ran again"
    (waited,) = heat.values("waiting")
    assert (waited["answer"], waited["deploy_status_code"]) == ("of waiting", 0)
    (cut_short,) = heat.values("cut-short")
    assert cut_short["deploy_status_code"] != 0
    assert heat.values("delivered") == heat.values("refused") == []
    states = {key: entry.state for key, entry in journal.read(machine.state).items()}
    assert states == {
        **STATES,
        "waiting": State.SIGNALLED,
        "cut-short": State.SIGNALLED,
    }
    assert machine.apply(deployments).err == ""
    assert len(heat.signals) == 2
