"""`make bench`: which scenarios are measured, and what is said and kept of them."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from bench import __main__ as command
from bench import report, scenarios
from bench.scenario import OURS, THEIRS, Figure, LackingError, Sample, Scenario, Subject
from support import pace


@contextlib.contextmanager
def there(folder: Path) -> Iterator[list[Subject]]:
    """Set up what can be measured."""
    assert folder.is_dir()
    yield [Subject(OURS, lambda: {"wall": 0.25})]


def missing(folder: Path) -> contextlib.AbstractContextManager[list[Subject]]:
    """Set up nothing, for want of a thing."""
    raise LackingError(f"there is no thing; install it, with {folder}")


def broken(folder: Path) -> contextlib.AbstractContextManager[list[Subject]]:
    """Set up nothing, by a mistake."""
    raise ValueError(f"there is a mistake in {folder.name.partition('-')[0]}")


@contextlib.contextmanager
def hanging(_folder: Path) -> Iterator[list[Subject]]:
    """Set up what never ends."""

    def run() -> Sample:
        time.sleep(600)
        return {"wall": 600.0}

    yield [Subject(OURS, run)]


Setup = Callable[[Path], contextlib.AbstractContextManager[list[Subject]]]


def scenario(
    name: str, setup: Setup = there, *, long: bool = False, seconds: float = 20
) -> Scenario:
    """Return one that shows a quarter of a second."""
    figures = (Figure("wall", "wall time", "s"),)
    return Scenario(
        name, f"About {name}", figures, setup, rounds=1, long=long, seconds=seconds
    )


@pytest.fixture
def kept(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Where the figures go; the scenarios are some of our own."""
    every = (
        scenario("one"),
        scenario("one-more"),
        scenario("oneself"),
        scenario("day", long=True),
    )
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
    """A dry run only prints its figures."""
    assert run(monkeypatch, "--dry", "oneself") == 0
    assert "| **heat-config-agent** | 250 ms " in capsys.readouterr().out
    assert not kept.exists()


def test_missing_program_does_not_stop_the_other_scenarios(
    monkeypatch: pytest.MonkeyPatch, kept: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A missing program is reported, and the preparation is removed."""
    every = (scenario("one", missing), scenario("needy"), scenario("two"))
    monkeypatch.setattr(
        scenarios, "ALL", (every[0], replace(every[1], needs=lack), every[2])
    )

    assert run(monkeypatch) == 1
    said = capsys.readouterr()
    lines = [each for each in said.err.splitlines() if "is not measured" in each]
    assert lines[0].startswith(
        "one is not measured: it cannot be measured here: there is no thing; install it, with "
    )
    assert not Path(lines[0].rpartition(" ")[2]).exists()
    assert lines[1:] == [
        "needy is not measured: it cannot be measured here: there is no index"
    ]
    assert (
        "Not measured: needy: it cannot be measured here: there is no index\n"
        in said.out
    )
    assert list(json.loads(kept.read_text())) == ["two"]


def lack() -> None:
    """Have nothing."""
    raise LackingError("there is no index")


def test_failed_scenario_does_not_stop_the_others(
    monkeypatch: pytest.MonkeyPatch, kept: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A failed scenario is reported at the end, and its earlier figures stay."""
    monkeypatch.setattr(scenarios, "ALL", (scenario("one"), scenario("two")))
    assert run(monkeypatch) == 0
    before = json.loads(kept.read_text())["one"]
    monkeypatch.setattr(scenarios, "ALL", (scenario("one", broken), scenario("two")))

    assert run(monkeypatch) == 1
    said = capsys.readouterr()
    assert (
        "Not measured: one: it failed: ValueError: there is a mistake in bench\n"
        in said.out
    )
    assert "Traceback" in said.err
    assert list(known := json.loads(kept.read_text())) == ["one", "two"]
    assert known["one"] == before


def test_hanging_scenario_takes_only_its_share_of_time(
    monkeypatch: pytest.MonkeyPatch, kept: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A hanging scenario has its share and half of the spare time, and the sum is bounded."""
    monkeypatch.setattr(
        scenarios,
        "ALL",
        (scenario("one", hanging, seconds=1), scenario("two", seconds=57)),
    )
    monkeypatch.setattr(command, "TOTAL", 60)
    monkeypatch.setattr(command, "SPARE", 1.0)
    begun = time.monotonic()

    assert run(monkeypatch) == 1
    assert time.monotonic() - begun < pace.seconds(30)
    assert (
        "Not measured: one: its time was over before there was anything: "
        in capsys.readouterr().out
    )
    assert list(json.loads(kept.read_text())) == ["two"]


def test_ended_scenario_is_reported(
    monkeypatch: pytest.MonkeyPatch, kept: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The figures so far are kept."""

    @contextlib.contextmanager
    def lame(folder: Path) -> Iterator[list[Subject]]:
        with there(folder) as quick, hanging(folder) as slow:
            yield [*quick, replace(slow[0], name=THEIRS)]

    monkeypatch.setattr(
        scenarios, "ALL", (replace(scenario("one", lame, seconds=3), warm_up=False),)
    )
    monkeypatch.setattr(command, "TOTAL", 3)

    assert run(monkeypatch) == 0
    assert (
        "Ended before it was through, as there was no more time: one\n"
        in capsys.readouterr().out
    )
    assert list(json.loads(kept.read_text())["one"]["subjects"]) == [OURS]


def test_an_interruption_keeps_what_was_measured(
    monkeypatch: pytest.MonkeyPatch, kept: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The figures are kept after ^C or a signal, and the missing ones are named."""

    def interrupting(_folder: Path) -> contextlib.AbstractContextManager[list[Subject]]:
        os.kill(os.getppid(), signal.SIGTERM)
        return hanging(_folder)

    every = (scenario("one"), scenario("two", interrupting), scenario("three"))
    monkeypatch.setattr(scenarios, "ALL", every)

    assert run(monkeypatch) == 1
    assert list(json.loads(kept.read_text())) == ["one"]
    assert [
        each for each in capsys.readouterr().out.splitlines() if each.startswith("Not")
    ] == [
        "Not measured: two: it was interrupted",
        "Not measured: three: it was interrupted before",
    ]


def test_default_scenarios_fit_into_ten_minutes() -> None:
    """With something to spare; names are what the command line takes them for."""
    shares = sum(each.seconds for each in scenarios.ALL if not each.long)
    assert shares * command.SPARE <= command.TOTAL
    assert len(set(scenarios.NAMES)) == len(scenarios.NAMES)


def test_shares_are_listed(
    monkeypatch: pytest.MonkeyPatch, kept: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The shares are listed, and nothing is measured."""
    assert run(monkeypatch, "--list", "one") == 0
    assert capsys.readouterr().out.split() == [
        *(
            "one",
            "20",
            "s",
            "1",
            "rounds",
            "one-more",
            "20",
            "s",
            "1",
            "rounds",
            "all",
            "of",
            "them",
            "40",
            "s",
        )
    ]
    assert not kept.exists()


def test_unknown_scenario_is_refused(
    monkeypatch: pytest.MonkeyPatch, kept: Path
) -> None:
    """Nothing is measured."""
    with pytest.raises(SystemExit) as ended:
        run(monkeypatch, "one", "none")
    assert ended.value.code == 2
    assert not kept.exists()
