from __future__ import annotations

import pytest

from heat_config_hooks import strict_yaml


def merges(levels: int, last: int) -> str:
    """Return maps of which each merges the one before twice, and one that merges the last one so many times."""
    lines = ["a0: &a0 {" + ", ".join(f"k{number}: 1" for number in range(1000)) + "}"]
    lines += [f"a{level}: &a{level} {{<<: [*a{level - 1}, *a{level - 1}]}}" for level in range(1, levels + 1)]
    return "\n".join([*lines, f"x: {{<<: [{', '.join([f'*a{levels}'] * last)}]}}"])


def test_merge_keys_do_as_yaml_says() -> None:
    """What stands in the map itself counts, then what is merged first."""
    text = "a: &a {x: 1, y: 1}\nb: &b {<<: *a, y: 2}\nc: {<<: [*b, *a], z: 3}"
    assert strict_yaml.loads(text) == {
        "a": {"x": 1, "y": 1},
        "b": {"x": 1, "y": 2},
        "c": {"x": 1, "y": 2, "z": 3},
    }


@pytest.mark.parametrize("last", [1, 50, 5000])
def test_merge_keys_are_counted_before_they_are_copied(last: int) -> None:
    """Ten kilobytes of them would else take minutes, and gigabytes."""
    with pytest.raises(ValueError, match="with all its aliases it has over 1,000,000 values"):
        strict_yaml.loads(merges(9, last))


def test_a_map_that_merges_itself_is_refused() -> None:
    """It has no end."""
    with pytest.raises(ValueError, match="nested too deeply, or in itself"):
        strict_yaml.loads("a: &a {<<: *a}")
