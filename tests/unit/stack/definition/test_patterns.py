"""Regular expressions from templates."""

from __future__ import annotations

import re

import pytest

from heat_config_stack.definition import constraints
from heat_config_stack.definition.patterns import compiled
from hot.made import examined


@pytest.mark.parametrize("pattern", ["[[a]+", "[a&&b]+", "[a||b]+", "[a~~b]+"])
def test_deprecated_pattern_syntax_is_accepted(pattern: str) -> None:
    """A pattern with a deprecated syntax works without a warning, which would be an error in these tests."""
    with pytest.warns(FutureWarning):
        re.compile(pattern)
    assert compiled(pattern).fullmatch("a")
    assert constraints.violated("allowed_pattern", pattern, "a", "string") == ""
    parameters = f"parameters: {{p: {{type: string, default: a, constraints: [{{allowed_pattern: '{pattern}'}}]}}}}\n"
    assert examined(parameters)[0] == []
