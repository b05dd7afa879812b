"""Many small cases as one test: pytest takes 3 to 6 ms for a test of its own, longer than most of them.

All cases are tried, whatever fails before, and each that has failed is named with its error.
A case that is skipped does not end the others: the test is skipped after them, and says for which.
"""

from __future__ import annotations

import functools
import inspect
import itertools
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

import pytest

_T = TypeVar("_T")

_MOST = 48
"""Cases of one test: several processes share what has more."""

_Test = Callable[..., None]


def tried(cases: Mapping[str, _T], test: Callable[[_T], object]) -> None:
    """Try each case (name → case). Raises AssertionError with all that have failed."""
    failed, skipped = [], []
    for name, case in cases.items():
        try:
            test(case)
        except pytest.skip.Exception as skip:
            skipped.append(f"{name}: {skip}")
        except (Exception, pytest.fail.Exception) as error:  # noqa: BLE001  # it is reported
            shown = "".join(traceback.format_exception(error))
            failed.append(f"--- {name} ---\n{shown}")
    assert cases, "there are no cases"
    assert not failed, "\n".join(
        [f"{len(failed)} of {len(cases)} cases failed", *failed]
    )
    if skipped:
        pytest.skip("; ".join(skipped))


def cases(
    names: str | Sequence[str], values: Iterable[Any], ids: Iterable[object] = ()
) -> Callable[[_Test], _Test]:
    """Have one test try all values of its arguments, as `pytest.mark.parametrize` makes a test of each.

    The fixtures are those of the one test: its folder has what the cases before have left.
    Of two of these on a test, each value of one is tried with each of the other.
    """
    arguments = (
        [each.strip() for each in names.split(",")]
        if isinstance(names, str)
        else list(names)
    )
    rows: dict[str, dict[str, Any]] = {}
    for value, id_ in itertools.zip_longest(values, ids):
        row, name = _row(value, len(arguments))
        rows[f"{len(rows)} {id_ or name}"] = dict(zip(arguments, row, strict=True))

    def decorated(test: _Test) -> _Test:
        @functools.wraps(test)
        def all_cases(**fixtures: Any) -> None:
            tried(rows, lambda row: test(**fixtures, **row))

        found = inspect.signature(test)
        left = [
            each for name, each in found.parameters.items() if name not in arguments
        ]
        assert len(left) + len(arguments) == len(found.parameters), (names, found)
        all_cases.__signature__ = found.replace(parameters=left)  # type: ignore[attr-defined]
        return all_cases

    return decorated


def parts(cases: Mapping[str, _T]) -> list[Any]:
    """Return the cases as values of `parametrize`, many in each, named by the first and the last of them."""
    names = list(cases)
    return [
        pytest.param(
            {name: cases[name] for name in some}, id=f"{some[0]}…{some[-1]}"[:200]
        )
        for some in (
            names[start : start + _MOST] for start in range(0, len(names), _MOST)
        )
    ]


def _row(value: Any, number: int) -> tuple[Sequence[Any], str]:
    """Return the values of a case, and its name."""
    if isinstance(value, type(pytest.param())):
        assert not value.marks, "a mark of one case would be that of all: parametrize"
        return value.values, str(value.id or value.values)
    row = [value] if number == 1 else value
    return row, ", ".join(_short(each) for each in row)


def _short(value: object) -> str:
    text = getattr(value, "__name__", None) or repr(value)
    return text if len(text) < 80 else f"{text[:80]}…"
