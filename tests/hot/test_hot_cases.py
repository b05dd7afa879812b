"""What Heat's own engine makes of templates, and what is made of them here."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from hot import comparing, stacks

LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def test_case(hot_case: Path) -> None:
    """Whatever is told of a case is as Heat has it."""
    case = yaml.load(hot_case.read_text(), Loader=LOADER)  # noqa: S506  # one of the safe ones
    if "yaql" in case["template"]:
        pytest.importorskip("yaql", reason="pip install yaql, with which templates compute")
    expected = json.loads(case["expect_json"])
    got = stacks.run(case)
    wrong = comparing.differences(expected, got)
    assert not wrong, "\n".join(wrong)
