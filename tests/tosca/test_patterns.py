"""Patterns that are held against many values, and patterns that take long."""

from __future__ import annotations

from pathlib import Path

from heat_config_stack.tosca.checks.checker import Checker
from heat_config_stack.tosca.language.budget import PATTERN_SECONDS

HEAD = """tosca_definitions_version: tosca_simple_yaml_1_3
node_types:
  Named:
    derived_from: tosca.nodes.Root
    properties:
      name: { type: string, constraints: [ pattern: "[a-z]+[0-9]*" ] }
      slow: { type: string, required: false, constraints: [ pattern: "(a+)+" ] }
topology_template:
  node_templates:
"""

SLOW = f"    slow: {{ type: Named, properties: {{ name: a, slow: {'a' * 40}b }} }}\n"


def problems(path: Path, templates: str) -> list[tuple[str, int, bool]]:
    """Return the mistakes of a service with these node templates: code, line, and whether they speak of time."""
    path.write_text(HEAD + templates)
    return [
        (
            mistake.code,
            mistake.place.line if mistake.place else 0,
            "take over" in mistake.problem,
        )
        for mistake in Checker().check(str(path)).mistakes
    ]


def test_many_values_of_quick_patterns_are_all_held_against_them(
    tmp_path: Path,
) -> None:
    """They use up nothing, however many there are, and the last one is checked like the first."""
    templates = "".join(
        f"    n{number}: {{ type: Named, properties: {{ name: n{number} }} }}\n"
        for number in range(500)
    )
    checker = Checker()
    (tmp_path / "many.yaml").write_text(HEAD + templates)
    checked = checker.check(str(tmp_path / "many.yaml"))
    assert checked.mistakes == []
    assert checked.service is not None
    assert checked.service.document.report.budget.pattern_seconds > PATTERN_SECONDS / 2
    last = "    last: { type: Named, properties: { name: LAST } }\n"
    assert problems(tmp_path / "last.yaml", templates + last) == [
        ("constraint", 510, False)
    ]


def test_a_slow_pattern_is_one_mistake_and_makes_none_of_good_values(
    tmp_path: Path,
) -> None:
    """Values that come after it are not called wrong, though they cannot be held against their patterns any more."""
    after = "    after: { type: Named, properties: { name: after, slow: aaa } }\n"
    assert problems(tmp_path / "slow.yaml", SLOW + after) == [("constraint", 10, True)]


def test_the_next_file_has_all_of_its_time(tmp_path: Path) -> None:
    """A slow file before it does not change what is found."""
    assert problems(tmp_path / "slow.yaml", SLOW) == [("constraint", 10, True)]
    wrong = "    wrong: { type: Named, properties: { name: WRONG, slow: aaa } }\n"
    assert problems(tmp_path / "next.yaml", wrong) == [("constraint", 10, False)]
