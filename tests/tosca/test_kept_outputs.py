"""Outputs of operations that only workflows call: the node keeps them, and those that an earlier version kept."""

from __future__ import annotations

import zlib
from pathlib import Path

from support.machine import Machine
from tosca.services import NAME, Case

CASES = Path(__file__).parent / "cases"


def test_outputs_that_an_earlier_version_has_kept_are_there_until_the_operation_runs_again(
    machine: Machine,
) -> None:
    """Earlier versions named them by the operation alone: an operation of another interface leaves them in place."""
    case = Case(CASES / "25-operations-of-one-name", machine)
    steps = case.content["steps"]
    assert case.do(steps[0]).code == 0
    assert case.do({"do": "workflow", "workflow": "first"}).code == 0
    records = machine.state / "stacks" / NAME / "stack"
    lines = [line.partition(" ")[2] for line in records.read_text().splitlines()]
    # of the same length
    earlier = [
        line.replace('"First.create":', '"create":      ').encode() for line in lines
    ]
    assert any(
        b'"outputs":{"create":      {"told":"First "}}' in line for line in earlier
    )
    records.write_bytes(
        b"".join(b"%08x %s\n" % (zlib.crc32(line), line) for line in earlier)
    )

    assert case.ask("output", "show", NAME, "first")["output_value"] == "First "
    assert case.do({"do": "workflow", "workflow": "second"}).code == 0
    shown = {
        output["output_key"]: output["output_value"]
        for output in case.ask("output", "show", NAME, "--all")
    }
    assert (shown["first"], shown["second"], shown["standard"]) == (
        "First ",
        "Second ",
        "Standard ",
    )
