"""The option `retry`: its values, their defaults, and the delays that follow from them."""

from __future__ import annotations

import pytest

from heat_config_hooks import retry
from heat_config_hooks.errors import HookError


def test_only_codes_are_required() -> None:
    """The rest has defaults."""
    found = retry.read({"codes": [100, 75]}, "options.retry")
    assert found == retry.Retry(
        codes=frozenset({75, 100}), times=retry.TIMES, delay=retry.DELAY
    )


def test_delays_double_up_to_a_limit() -> None:
    """A delay that is longer from the start stays as it is."""
    found = retry.read({"codes": [1], "delay": 20}, "options.retry")
    assert [found.delay_after(number) for number in (1, 2, 3, 4, 5, 6, 99)] == [
        20,
        40,
        80,
        160,
        300,
        300,
        300,
    ]
    assert (
        retry.read({"codes": [1], "delay": 900}, "options.retry").delay_after(5) == 900
    )


@pytest.mark.parametrize(
    "value", ["", "[", "[" * 100_000, "7", None, 7, [], float("inf")]
)
def test_anything_else_is_a_mistake(value: object) -> None:
    """The message says what is expected, with the place."""
    with pytest.raises(
        HookError, match="expected an object with codes, times and delay"
    ) as caught:
        retry.read(value, "options.retry")
    assert caught.value.path == "options.retry"
