"""`kill -9` of a command that works on a service, at calls by which it changes what is on disk."""

from __future__ import annotations

import random
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from support import kill_points, pace, shares
from support.machine import Done, Machine
from support.promises import seed

pytestmark = pytest.mark.takes(20)

SERVICE = """\
tosca_definitions_version: tosca_simple_yaml_1_3
node_types:
  Store:
    derived_from: SoftwareComponent
    capabilities: { data: tosca.capabilities.Endpoint }
  Shop:
    derived_from: SoftwareComponent
    requirements: [ { data: { capability: tosca.capabilities.Endpoint, relationship: ConnectsTo } } ]
topology_template:
  inputs: { log: string, port: { type: integer, default: 1 } }
  node_templates:
    server: { type: Compute }
    store:
      type: Store
      requirements: [ host: server ]
      interfaces:
        Standard:
          inputs: { log: { get_input: log } }
          operations:
            create: say.sh
            configure: { implementation: say.sh, inputs: { port: { get_input: port } } }
            start: say.sh
            stop: say.sh
            delete: say.sh
    shop:
      type: Shop
      requirements:
        - host: server
        - data:
            node: store
            relationship:
              type: ConnectsTo
              interfaces:
                Configure:
                  inputs: { log: { get_input: log } }
                  operations: { add_target: say.sh, remove_target: say.sh, target_changed: say.sh }
      interfaces:
        Standard:
          inputs: { log: { get_input: log }, of: { get_operation_output: [ store, Standard, start, RUN ] } }
          operations: { create: say.sh, stop: say.sh, delete: say.sh }
"""

SCRIPT = (
    '#!/bin/bash\nexport RUN=1\necho "$TOSCA_NODE.$TOSCA_OPERATION $port" >>"$log"\n'
    + "# long\n" * 1000
)
"""A script long enough to be stored in a file of the stack, which all operations name by its digest."""

POINTS = 3
"""The calls at which each command is killed in the short form."""


class Service:
    """A service on a machine."""

    def __init__(self, machine: Machine) -> None:
        self.machine, self.log = machine, machine.folder / "log"
        (machine.folder / "service.yaml").write_text(
            SERVICE.replace("log: string", "log: { type: string }")
        )
        (machine.folder / "say.sh").write_text(SCRIPT)

    def run(self, operation: str, **environment: Any) -> Done:
        """Run the command of an operation."""
        place = ("--state-dir", str(self.machine.state))
        if operation in ("create", "update"):
            port = "1" if operation == "create" else "2"
            inputs = ("--input", f"log={self.log}", "--input", f"port={port}")
            path = str(self.machine.folder / "service.yaml")
            process = self.machine.start(
                "heat-config-apply", *place, path, *inputs, **environment
            )
        else:
            words = (
                "stack",
                operation,
                "service",
                *(["--yes"] if operation == "delete" else []),
            )
            process = self.machine.start(
                "heat-config-agent", *words, *place, **environment
            )
        out, err = process.communicate(timeout=pace.seconds(120))
        return Done(process.returncode, out, err)

    def prepare(self, operation: str) -> None:
        """Begin anew, with what comes before an operation."""
        shutil.rmtree(self.machine.state, ignore_errors=True)
        if operation != "create":
            assert self.run("create").code == 0
        self.log.write_text("")

    @property
    def lines(self) -> list[str]:
        """Return the lines that the scripts have written."""
        return self.log.read_text().splitlines()

    @property
    def record(self) -> Path:
        """The file with the records of the stack."""
        return self.machine.state / "stacks/service/stack"


def _stable(path: str, root: str) -> str:
    """Return the beginning of a path that is the same in each run: without the ids of deployments."""
    return f"{root}/{path.removeprefix(f'{root}/').split('/')[0]}"


@pytest.mark.timeout(900)
@pytest.mark.fault(
    1,
    "kill -9 at a call that changes what is on disk, while a TOSCA service is created, updated, suspended or deleted",
    "the same command goes on to the end of an uninterrupted one, in its order; no completed operation runs twice",
)
@pytest.mark.parametrize("operation", ["create", "update", "suspend", "delete"])
def test_kills_while_services_change(
    machine: Machine, operation: str, tried: Callable[[int], None]
) -> None:
    """After a kill at any moment the scripts of a service run as usual, each of them once."""
    service = Service(machine)
    service.prepare(operation)
    calls = machine.folder / "calls"
    calls.touch()
    assert service.run(operation, **kill_points.environment("??", 1, calls)).code == 0
    expected = service.lines
    assert len(expected) >= 2
    root = f"{machine.state}/stacks/service"
    made = [line.split(None, 2)[1:] for line in calls.read_text().splitlines()]
    found = [
        (name, _stable(path, root))
        for name, path in made
        if path.startswith(f"{root}/")
    ]
    passed: Counter[tuple[str, str]] = Counter()
    points = []
    for call in found:
        passed[call] += 1
        points.append((f"{call[0]}@{call[1]}", passed[call]))
    chance = random.Random(seed("SERVICE_CALLS_SEED"))  # noqa: S311  # it is to be repeatable
    chosen = points if shares.FOR else chance.sample(points, POINTS)
    killed = 0
    for point, passing in chosen:
        service.prepare(operation)
        trigger = machine.folder / "trigger"
        trigger.touch()
        done = service.run(
            operation, **kill_points.environment(point, passing, trigger)
        )
        killed += done.code == -9
        where = f"{operation}, {point} {passing}: {done.out}{done.err}"
        if done.code == -9 and (operation != "delete" or service.record.exists()):
            again = service.run(operation)
            assert again.code == 0, f"{where}{again.out}{again.err}"
        assert service.lines == expected, where
        if operation == "delete":
            assert not service.record.exists(), where
    assert killed
    tried(killed)
