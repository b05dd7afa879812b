"""The order of the tests, and which of them one process runs together: pytest-xdist's groups, from the marks of tests.

- `xdist_group(name)`: one process runs all tests of the group. A test without the mark is in the group of its file,
  and a test of the real cloud in the group of the cloud, which takes half a minute to start. All of these in one
  process would take longer than everything else: files with half of the time have the mark for a second cloud.
- `apart`: the test shares nothing with the others of its file, which take long, so any process may run it.
- `slow`: `make test` leaves the test out. A test that boots a machine or runs real containers has the mark without
  saying so: it needs root and programs that are not from pip.
- `takes(seconds)`: what a file, or a test that is apart, takes about. The longest begin first, so that all processes
  end together.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable
from pathlib import Path

import pytest

_TESTS = Path(__file__).parents[1]

_REAL = {"booted_machine", "one_cloud", "own_podman"}
"""The fixtures of which a test needs more than `.venv`."""

_CLOUD = "cloud"
"""The group of the tests that share the real cloud."""


def distribute(items: list[pytest.Item]) -> None:
    """Put each test into a group, and the groups that take longest first."""
    longest: dict[str, float] = {}
    groups = {}
    for item in items:
        if not _REAL.isdisjoint(_fixtures(item)):
            item.add_marker(pytest.mark.slow)
        groups[item] = group = _group(item)
        longest[group] = max(longest.get(group, 0.0), _seconds(item))
    longest[_CLOUD] = float("inf")  # it is the longest by far
    place = {group: number for number, group in enumerate(longest)}
    items.sort(key=lambda item: (-longest[groups[item]], place[groups[item]]))


def assert_grouped(config: pytest.Config) -> None:
    """Refuse a run in which the tests of a group would not be in one process.

    pytest-xdist 3.8 appends the group to the name of a test by an attribute that pytest 9.2 does not have any more, and
    no word is said: every process then starts the servers of a file for itself, the real cloud too.
    """
    if config.getoption("dist", "no") == "loadgroup" and not hasattr(
        pytest.Item, "_nodeid"
    ):
        raise pytest.UsageError(
            f"pytest {pytest.__version__} and this pytest-xdist do not keep the tests of a group in one process: "
            "install the versions of packaging/constraints.txt (make .venv/tested)"
        )


def _group(item: pytest.Item) -> str:
    """Return the group of a test, and mark it with it; its own name where it is by itself."""
    mark = item.get_closest_marker("xdist_group")
    if mark is not None:
        return str(mark.kwargs.get("name", mark.args[0] if mark.args else ""))
    if "one_cloud" in _fixtures(item):
        name = _CLOUD
    elif item.get_closest_marker("apart"):
        return item.nodeid
    else:
        name = _of_file(item.path)
    item.add_marker(pytest.mark.xdist_group(name))
    return name


@functools.cache
def _of_file(path: Path) -> str:
    """Return the group of the tests of a file; it is asked for thousands of tests."""
    return (
        str(path.relative_to(_TESTS).with_suffix(""))
        if path.is_relative_to(_TESTS)
        else path.stem
    )


def _seconds(item: pytest.Item) -> float:
    mark = item.get_closest_marker("takes")
    return float(mark.args[0]) if mark else 0.0


def _fixtures(item: pytest.Item) -> Iterable[str]:
    found: Iterable[str] = getattr(item, "fixturenames", ())
    return found
