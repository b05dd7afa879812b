"""A plain command line is read as argparse reads it."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import pytest

from heat_config_agent.cli import command_line
from heat_config_agent.cli.apply import command as apply
from heat_config_agent.cli.apply import options as apply_options

FLAGS = [each.name for each in apply_options.OPTIONS if not each.metavar]
VALUED = [each.name for each in apply_options.OPTIONS if each.metavar]


def by_argparse(words: Sequence[str]) -> dict[str, object] | None:
    """Return what argparse makes of a line; None where it does not take it."""
    try:
        return vars(apply.parser().parse_args(words))
    except SystemExit:
        return None


def plainly(words: Sequence[str]) -> dict[str, object] | None:
    """Return what is made of a line without argparse; None where that is not done."""
    found = command_line.read(words, apply_options.OPTIONS, rest="file")
    return None if found is None else vars(found)


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["a.json"],
        ["-"],
        ["a.json", "-", "b.yaml"],
        ["--state-dir", "/x", "a.json"],
        ["a.json", "--state-dir=/x"],
        ["--json", "--state-dir", "/x", "a.json", "b.json", "--plan"],
        [
            "--only",
            "a",
            "--only=b",
            "--only",
            "a=b",
            "--hooks-dir",
            "h",
            "--hooks-dir",
            "i",
            "a.json",
        ],
        ["--timeout", "5", "--grace=0.5", "--deliver-for", "1e1", "a.json"],
        ["--state-dir", "/x", "--state-dir", "/y", ""],
    ],
)
def test_the_usual_is_plain(words: list[str]) -> None:
    """Ordinary command lines are parsed without argparse, to the same values."""
    assert plainly(words) is not None
    assert plainly(words) == by_argparse(words)


@pytest.mark.parametrize("name", [each.name for each in apply_options.OPTIONS])
def test_every_option_is_plain(name: str) -> None:
    """There is one list of them for both."""
    words = [name, "7"] if name in VALUED else [name]
    assert plainly(words) is not None
    assert plainly(words) == by_argparse(words)
    assert plainly([*words, *words]) == by_argparse([*words, *words])


@pytest.mark.parametrize(
    "words",
    [
        ["--help"],
        ["-h"],
        ["--version"],
        ["--nope"],
        ["-j"],
        ["--jso"],
        ["--timeout", "soon"],
        ["--timeout=-1"],
        ["--only"],
        ["--only="],
        ["--json=1"],
        ["--"],
        ["--", "a"],
        ["a", "--json", "b"],
        ["--only", "--json"],
        ["-1"],
    ],
)
def test_all_else_is_left_to_argparse(words: list[str]) -> None:
    """All other command lines are left to argparse and its messages."""
    assert plainly(words) is None


def test_both_read_the_same() -> None:
    """For any command line, the plain parser agrees with argparse or leaves it to argparse."""
    words = [
        "a",
        "-",
        "",
        "--",
        "--json",
        "--plan",
        "--only",
        "--only=x",
        "--state-dir",
        "--state",
        "--timeout",
        "5",
        "-x",
    ]
    taken = 0
    for length in range(1, 5):
        for line in itertools.product(words, repeat=length):
            if (found := plainly(line)) is not None and (
                length < 4 or hash_of(line) % 8 == 0
            ):
                assert found == by_argparse(line), line
                taken += 1
    assert taken > 500


def hash_of(line: Sequence[str]) -> int:
    """Return a number that is the same in every run, to choose some lines of many."""
    return sum(position * sum(map(ord, word)) for position, word in enumerate(line, 1))
