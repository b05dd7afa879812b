"""Templates have the same results as with Heat's own engine."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from hot import comparing, language, stacks
from hot.deviations import DEVIATIONS
from support import together

LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def read(path: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return a case, and what Heat makes of it; of a few, what is made of them here on purpose.

    A case with `here_because` differs for that reason: its `here_json` is the result here.
    """
    case = yaml.load(path.read_text(), Loader=LOADER)  # noqa: S506  # one of the safe ones
    if "yaql" in case["template"]:
        pytest.importorskip(
            "yaql", reason="pip install yaql, with which templates compute"
        )
    return case, DEVIATIONS.get(path.stem) or json.loads(
        case["here_json" if "here_because" in case else "expect_json"]
    )


def test_results_and_mistakes_are_those_of_heat(hot_cases: dict[str, Path]) -> None:
    """The result of each case is the same as Heat's, and the language alone finds all mistakes that need no types."""
    together.tried(hot_cases, assert_as_with_heat)


def assert_as_with_heat(path: Path) -> None:
    """Compare what is made of a case.

    A case with a result of its own has the reason, and its result is not Heat's.
    """
    case, expected = read(path)
    if "here_because" in case or "here_json" in case:
        assert case["here_because"].endswith(".")
        assert comparing.differences(
            json.loads(case["expect_json"]), json.loads(case["here_json"])
        )
    wrong = comparing.differences(expected, stacks.run(copy.deepcopy(case)))
    first = (expected.get("steps") or [{}])[0].get("stack") or {}
    if first.get("state", ["CREATE"])[0] == "CREATE":
        # else it was rolled back: nothing of the template is left
        wrong += [
            f"the language alone: {each}"
            for each in comparing.differences(expected, language.run(case))
        ]
    assert not wrong, "\n".join(wrong)
