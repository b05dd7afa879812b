"""`kill -9` of a command that works on a service, at calls by which it changes what is on disk."""

from __future__ import annotations

import functools
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from support import pace, shares
from support.machine import Done
from support.promises import seed
from support.stories import Kills, Story

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


class Service(Story):
    """An operation on a service."""

    def __init__(
        self, operation: str, expected: list[str] | None, folder: Path
    ) -> None:
        """Begin with what comes before the operation, of which scripts are expected to write lines."""
        super().__init__(folder)
        self.name = self.operation = operation
        self._expected, self._log = expected, folder / "log"
        (folder / "service.yaml").write_text(
            SERVICE.replace("log: string", "log: { type: string }")
        )
        (folder / "say.sh").write_text(SCRIPT)
        if operation != "create":
            assert self.run("create").code == 0
        self._log.write_text("")

    def run(self, operation: str, **environment: Any) -> Done:
        """Run the command of an operation."""
        place = ("--state-dir", str(self.machine.state))
        if operation in ("create", "update"):
            port = "1" if operation == "create" else "2"
            inputs = ("--input", f"log={self._log}", "--input", f"port={port}")
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

    def play(self) -> None:
        done = self.run(self.operation, **self.armed)
        if done.code == -9 and (self.operation != "delete" or self._record.exists()):
            done = self.run(self.operation)
            assert done.code == 0, f"{done.out}{done.err}"
        assert done.code in (0, -9), f"{done.out}{done.err}"

    def check(self) -> None:
        assert self._expected is None or self.lines == self._expected
        assert self.operation != "delete" or not self._record.exists()

    @property
    def lines(self) -> list[str]:
        """Return the lines that the scripts have written."""
        return self._log.read_text().splitlines()

    @property
    def root(self) -> Path:
        return self.machine.state / "stacks/service"

    @property
    def _record(self) -> Path:
        """The file with the records of the stack."""
        return self.root / "stack"


@pytest.mark.timeout(900)
@pytest.mark.fault(
    1,
    "kill -9 at a call that changes what is on disk, while a TOSCA service is created, updated, suspended or deleted",
    "the same command goes on to the end of an uninterrupted one, in its order; no completed operation runs twice",
)
@pytest.mark.parametrize("operation", ["create", "update", "suspend", "delete"])
def test_kills_while_services_change(
    tmp_path: Path, operation: str, tried: Callable[[int], None]
) -> None:
    """After a kill at any moment the scripts of a service run as usual, each of them once."""
    folder = tmp_path / "undisturbed"
    folder.mkdir()
    undisturbed = Service(operation, None, folder)
    undisturbed.listen("??")
    undisturbed.tell()
    assert len(undisturbed.lines) >= 2
    aims = undisturbed.calls(lambda path: path.split("/")[0])
    make = functools.partial(Service, operation, undisturbed.lines)
    kills = Kills(make, tmp_path, seed("SERVICE_CALLS_SEED"))
    chance = random.Random(kills.seed)  # noqa: S311  # it is to be repeatable
    killed = kills.kill_at(aims if shares.FOR else chance.sample(aims, POINTS))
    assert killed
    tried(killed)
