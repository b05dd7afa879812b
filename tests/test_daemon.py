"""The daemon as its users see it: what it runs, in which order, what it says, and how it is steered."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import stat
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from daemon import LONG, Daemon, counting, ran, until
from loopback import SignalServer, wait_until
from machine import BIN, Machine, deployment

TIMED_OUT = 124


def resource(identity: str, config: str, name: str = "one", **fields: Any) -> dict[str, Any]:
    """Return a deployment of a resource: each of its actions is one, with an id of its own."""
    inputs = {"deploy_stack_id": "stack/1", "deploy_resource_name": name}
    return deployment(identity, config, name=name, inputs=inputs, **fields)


# What runs, and in which order.


def test_a_document_is_applied_and_its_result_delivered(daemon: Daemon, machine: Machine, heat: SignalServer) -> None:
    """What is put where the agent looks is run within a poll and its result sent; unchanged, it is run no more."""
    daemon.start()
    daemon.put([deployment("d1", counting(machine, then="echo out"), signal=heat.url())])

    heat.wait_for(1, LONG)
    assert heat.values() == [{"deploy_stdout": "out\n", "deploy_stderr": "", "deploy_status_code": 0}]
    answered = daemon.source()["answered"]
    wait_until(lambda: daemon.states() == {"d1": "signalled"}, LONG)
    daemon.put([deployment("d1", counting(machine, then="echo out"), signal=heat.url())])
    daemon.send(signal.SIGUSR1)
    time.sleep(1.5)  # several polls

    assert ran(machine) == ["d1"]
    assert len(heat.signals) == 1
    assert answered
    assert len(daemon.said("d1", "done")) == 1


def test_many_documents_one_after_the_other(daemon: Daemon, machine: Machine, heat: SignalServer) -> None:
    """What comes while the agent is idle is run soon after, each once."""
    daemon.start()
    given: list[object] = []
    for identity in ("d1", "d2", "d3"):
        given.append(deployment(identity, counting(machine, identity), signal=heat.url(identity)))
        daemon.put(given)
        wait_until(lambda name=identity: len(heat.values(name)) == 1, LONG)  # type: ignore[misc]
    assert ran(machine) == ["d1", "d2", "d3"]


def test_a_document_that_goes(daemon: Daemon, machine: Machine, heat: SignalServer) -> None:
    """What has left the metadata before it began is never run, and the result of what had begun is not sent."""
    go = machine.folder / "go"
    daemon.put([deployment("d1", counting(machine, "d1", until(go)), signal=heat.url("d1"))], "a")
    daemon.put([deployment("d2", counting(machine, "d2"), signal=heat.url("d2"))], "b")
    daemon.start()
    wait_until(lambda: ran(machine) == ["d1"], LONG)
    wait_until(lambda: "d2" in daemon.states(), LONG)

    (daemon.local / "b.json").unlink()
    (daemon.local / "a.json").unlink()
    wait_until(lambda: "d2" not in daemon.states(), LONG)
    go.touch()
    daemon.wait_state("d1", "superseded")

    assert ran(machine) == ["d1"]
    assert not heat.signals


def test_what_has_left_is_cleaned_up(daemon: Daemon, machine: Machine, heat: SignalServer) -> None:
    """What a deployment made goes when it has left the metadata, also if it left while it ran, and before what is new
    begins.
    """
    podman = machine.folder / "podman"
    podman.write_text(f'#!/bin/sh\necho "$1" >>{machine.folder}/ran\nexit 0\n')
    podman.chmod(0o755)
    go = machine.folder / "go"
    unit = {"content": "x\n"}
    given = deployment("d1", {"a.conf": unit}, group="hiera", signal=heat.url("d1"))
    assert given  # made below by a tool that leaves something
    daemon.put([deployment("d1", counting(machine, "d1", until(go)), signal=heat.url("d1"))])
    daemon.start()
    wait_until(lambda: ran(machine) == ["d1"], LONG)
    go.touch()
    heat.wait_for(1, LONG)
