"""The names that stacks may have."""

from __future__ import annotations

import pytest

from heat_config_agent.diagnostics.names import LONGEST_FOLLOWED, is_stack_name


@pytest.mark.parametrize("name", ["a", "A1", "web-1.0_x", "a" * 255])
def test_valid_names_are_accepted(name: str) -> None:
    """A name begins with a letter, and has letters, digits and three signs."""
    assert is_stack_name(name)


@pytest.mark.parametrize("name", ["", "1a", "-a", "a b", "a/b", "ä", "a\n", "a" * 256])
def test_invalid_names_are_refused(name: str) -> None:
    """Anything else is refused, also a newline at the end."""
    assert not is_stack_name(name)


def test_followed_stacks_have_shorter_names() -> None:
    """The length is a parameter."""
    assert is_stack_name("a" * 64, LONGEST_FOLLOWED)
    assert not is_stack_name("a" * 65, LONGEST_FOLLOWED)
