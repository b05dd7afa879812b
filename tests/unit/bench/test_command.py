"""`make bench`: which scenarios are measured, and what is said and kept of them."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench import __main__ as command
from bench import report, scenarios
from bench.scenario import OURS, Figure, LackingError, Scenario, Subject


@contextlib.contextmanager
def there(folder: Path) -> Iterator[list[Subject]]:
    """Set up what can be measured."""
    assert folder.is_dir()
    yield [Subject(OURS, lambda: {"wall": 0.25})]


def missing(folder: Path) -> contextlib.AbstractContextManager[list[Subject]]:
    """Set up nothing, for want of a thing."""
    raise LackingError(f"there is no thing; install it, with {folder}")


def scenario(name: str, *, lacks: bool = False, long: bool = False) -> Scenario:
    """Return one that shows a quarter of a second."""
    figures = (Figure("wall", "wall time", "s"),)
    return Scenario(name, f"About {name}", figures, missing if lacks else there, rounds=1, long=long)


@pytest.fixture
def kept(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Where the figures go; the scenarios are some of our own."""
    every = (scenario("one"), scenario("one-more"), scenario("oneself"), scenario("day", long=True))
    monkeypatch.setattr(scenarios, "ALL", every)
    monkeypatch.setattr(scenarios, "NAMES", tuple(each.name for each in every))
    monkeypatch.setattr(report, "JSON", tmp_path / "benchmarks.json")
    monkeypatch.setattr(report, "PAGE", tmp_path / "benchmarks.md")
    return tmp_path / "benchmarks.json"


def run(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    """Run the command."""
    monkeypatch.setattr("sys.argv", ["bench", *arguments])
    return command.main()


@pytest.mark.parametrize(
    ("arguments", "names"),
    [
        ([], ["one", "one-more", "oneself"]),
        (["one"], ["one", "one-more"]),
        (["oneself", "one-more"], ["one-more", "oneself"]),
        (["day"], ["day"]),
    ],
)
def test_which_are_measured(
    monkeypatch: pytest.MonkeyPatch, kept: Path, arguments: list[str], names: list[str]
) -> None:
    """All that do not take long, or those that are named, or whose names begin with that word, in their own order."""
    assert run(monkeypatch, *arguments) == 0
    assert list(json.loads(kept.read_text())) == names


def test_nothing_is_kept_of_a_dry_run(
    monkeypatch: pytest.MonkeyPatch, kept: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is shown only."""
    assert run(monkeypatch, "--dry", "oneself") == 0
    assert "| **heat-config-agent** | 250 ms " in capsys.readouterr().out
    assert not kept.exists()


def test_what_is_lacking_keeps_nothing_else_from_being_measured(
    monkeypatch: pytest.MonkeyPatch, kept: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is said, and what was set up is removed."""
    monkeypatch.setattr(scenarios, "ALL", (scenario("one", lacks=True), scenario("two")))

    assert run(monkeypatch) == 1
    said = capsys.readouterr().err.strip()
    assert said.startswith("one cannot be measured here: there is no thing; install it, with ")
    assert not Path(said.rpartition(" ")[2]).exists()
    assert list(json.loads(kept.read_text())) == ["two"]


def test_a_scenario_that_there_is_not(monkeypatch: pytest.MonkeyPatch, kept: Path) -> None:
    """Nothing is measured."""
    with pytest.raises(SystemExit) as ended:
        run(monkeypatch, "one", "none")
    assert ended.value.code == 2
    assert not kept.exists()
