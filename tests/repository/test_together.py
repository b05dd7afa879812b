"""Cases that are tried in one test: each that fails is named, and none is left out."""

from __future__ import annotations

import pytest

from support import together


def test_failing_cases_are_all_named() -> None:
    """The cases after the first one that fails are tried too."""
    seen = []

    def odd(number: int) -> None:
        seen.append(number)
        assert number % 2, f"{number} is even"

    numbers = {"one": 1, "two": 2, "three": 3, "four": 4}
    with pytest.raises(AssertionError) as raised:
        together.tried(numbers, odd)
    assert seen == [1, 2, 3, 4]
    said = str(raised.value)
    assert said.startswith("2 of 4 cases failed")
    assert "--- two ---" in said
    assert "4 is even" in said
    assert "--- one ---" not in said


def test_skipped_case_ends_no_other() -> None:
    """The test is skipped after all cases, and a failure counts more."""
    seen = []

    def positive(number: int) -> None:
        seen.append(number)
        if not number:
            pytest.skip("nothing is not installed")
        assert number > 0

    with pytest.raises(
        pytest.skip.Exception, match=r"^none: nothing is not installed$"
    ):
        together.tried({"none": 0, "one": 1}, positive)
    assert seen == [0, 1]
    with pytest.raises(AssertionError, match="--- less ---"):
        together.tried({"none": 0, "less": -1}, positive)


def test_moved_folder_of_cases_is_a_failure() -> None:
    """A folder of cases that has been moved does not pass."""
    with pytest.raises(AssertionError, match="there are no cases"):
        together.tried({}, print)


def test_every_combination_is_tried() -> None:
    """Two sets of values are combined, and fixtures and default names are handed on."""
    seen = []

    @together.cases("letter", "ab")
    @together.cases(
        "number, word", [(1, "x"), pytest.param(2, "y", id="second")], ids=["first"]
    )
    def combine(tmp: str, letter: str, number: int, *, word: str) -> None:
        seen.append(f"{tmp}{letter}{number}{word}")
        assert (letter, number) != ("b", 2)

    with pytest.raises(AssertionError) as raised:
        combine(tmp="-")
    assert seen == ["-a1x", "-a2y", "-b1x", "-b2y"]
    assert "--- 1 'b' ---" in str(raised.value)
    assert "--- 1 second ---" in str(raised.value)


def test_parts_have_every_case_once() -> None:
    """A part is named by its first and its last case."""
    cases = {f"case-{number}": number for number in range(100)}
    parts = together.parts(cases)
    assert {
        name: number for part in parts for name, number in part.values[0].items()
    } == cases
    assert sum(len(part.values[0]) for part in parts) == 100
    assert parts[0].id == "case-0…case-47"
