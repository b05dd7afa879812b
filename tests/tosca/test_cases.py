"""Services that are carried out: what runs in which order with what, and what is shown of it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import yaml

from support.machine import Machine
from tosca.services import PATIENCE, Case

CASES = Path(__file__).parent / "cases"


@pytest.mark.timeout(PATIENCE)
def test_a_service_does_what_its_case_says(
    service_case: Path, machine: Machine
) -> None:
    """Each step has its lines, states, outputs and exit code."""
    differences = [*Case(service_case, machine).differences()]
    # all of it: pytest shortens what it compares
    assert not differences, "\n".join(differences)


def test_a_difference_is_noticed(machine: Machine, tmp_path: Path) -> None:
    """The comparison itself."""
    folder = tmp_path / "wrong"
    shutil.copytree(CASES / "01-lifecycle", folder)
    content = yaml.safe_load((folder / "case.yaml").read_text())
    wrong = {
        "exit": 3,
        "status": "CREATE_FAILED",
        "sequence": [],
        "log": [],
        "reason": ["nothing"],
    }
    wrong |= {
        "order": [["app.start", "app.create greeting=hello"]],
        "nodes": {},
        "outputs": {},
        "said": ["nobody says"],
    }
    content["steps"] = [{**content["steps"][0], **wrong}]
    (folder / "case.yaml").write_text(yaml.safe_dump(content))
    assert len([*Case(folder, machine).differences()]) == len(wrong)
