"""Figures become ratios, goals and a page."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from bench import report, scenarios
from bench.measure import Found
from bench.scenario import LIMIT, OURS, THEIRS, Figure, Goal, Scenario, Spread


def found(**medians: float) -> Found:
    """Return what was measured: each subject's median wall time."""
    return {
        name: {"wall": Spread(median, median / 2, median * 2, 11)}
        for name, median in medians.items()
    }


def scenario(*goals: Goal, note: str = "") -> Scenario:
    """Return one with a wall time."""
    return Scenario(
        "some",
        "Something is done",
        (Figure("wall", "wall time", "s"),),
        None,  # type: ignore[arg-type]  # nobody sets it up
        goals,
        note=note,
    )


def runs(count: int, **medians: float) -> Found:
    """Return what so many runs have shown."""
    return {
        name: {"wall": replace(each["wall"], runs=count)}
        for name, each in found(**medians).items()
    }


def rows(text: str) -> list[list[str]]:
    """Return the cells of all tables."""
    lines = [each for each in text.splitlines() if each.startswith("|")]
    return [[each.strip() for each in line[1:-1].split("|")] for line in lines]


@pytest.mark.parametrize(
    ("at_most", "ours", "theirs", "reached", "met"),
    [
        (1 / 4, 0.25, 1.0, 0.25, True),
        (1 / 4, 0.26, 1.0, 0.26, False),
        (3.0, 3.0, 1.0, 3.0, True),
        (3.0, 3.1, 1.0, 3.1, False),
        (0.5, 0.0, 1.0, 0.0, True),
    ],
)
def test_a_goal_against_somebody_is_a_ratio_of_medians(
    at_most: float, ours: float, theirs: float, reached: float, met: bool
) -> None:
    """A ratio of exactly what is wanted meets the goal; more does not."""
    judged = report.goal(Goal("wall", THEIRS, at_most), found(ours=ours, theirs=theirs))

    assert judged["reached"] == pytest.approx(reached)
    assert judged["met"] is met


@pytest.mark.parametrize(
    ("ours", "met"), [(0.008, True), (0.0081, False), (-0.001, True)]
)
def test_a_goal_against_nobody_is_a_value(ours: float, met: bool) -> None:
    """A goal without an opponent is compared with our own median."""
    judged = report.goal(Goal("wall", "", 0.008), found(ours=ours, theirs=1e-9))

    assert (judged["reached"], judged["met"]) == (ours, met)


@pytest.mark.parametrize("theirs", [{}, {"theirs": 0.0}, {"theirs": -0.1}])
def test_a_goal_without_anything_to_hold_it_against_is_neither_met_nor_missed(
    theirs: dict[str, float],
) -> None:
    """A ratio to a missing or zero figure is neither met nor missed."""
    judged = report.goal(Goal("wall", THEIRS, 1.0), found(ours=1.0, **theirs))

    assert (judged["reached"], judged["met"]) == (None, None)


def test_the_page_says_which_goals_are_met() -> None:
    """Each goal is a line with the target, the figure, and whether it is met."""
    goals = (
        Goal("wall", THEIRS, 1 / 80),
        Goal("wall", LIMIT, 3.0),
        Goal("wall", "55-heat-config", 1.0),
        Goal("wall", "", 0.008),
    )
    recorded = report.record(
        scenario(*goals), found(ours=0.004, theirs=0.4, limit=0.001)
    )

    assert [row[2:] for row in rows(report.goals("some", recorded))[2:]] == [
        [
            "80 times less than os-collect-config and heat-agents",
            "100 times less",
            "met",
        ],
        ["at most 3 times the limit", "4 times", "**not met**"],
        ["no more than `55-heat-config`", "not measured", ""],
        ["at most 8 ms", "4 ms", "met"],
    ]
    assert report.goals("some", recorded) in report.page({"some": recorded})


def test_the_page_shows_medians_spread_and_ratios() -> None:
    """A row for each that is compared: its median with the least and the most, and how much ours is of that."""
    recorded = report.record(
        scenario(note="A note."), found(ours=0.004, theirs=0.4, limit=0.001)
    )
    section = report.section("some", recorded)

    assert "Something is done.\n\nA note.\n" in section
    assert rows(section)[2:] == [
        ["**heat-config-agent**", "4 ms (2 – 8)", "", "11"],
        [
            "os-collect-config and heat-agents",
            "400 ms (200 – 800)",
            "100 times less",
            "11",
        ],
        ["the limit", "1 ms (0.5 – 2)", "4 times", "11"],
    ]
    assert section in report.page({"some": recorded})


def test_columns_are_in_line() -> None:
    """The columns are aligned, so a table can be read in a terminal too."""
    section = report.section(
        "some", report.record(scenario(), found(ours=0.004, theirs=0.4))
    )

    lines = [each for each in section.splitlines() if each.startswith("|")]
    bars = [[place for place, sign in enumerate(line) if sign == "|"] for line in lines]
    assert bars == [bars[0]] * 4


def test_a_figure_that_one_of_them_does_not_show_is_left_open() -> None:
    """A missing figure is not shown as 0."""
    both: Found = {OURS: {}, THEIRS: {"wall": Spread(1.0, 1.0, 1.0, 1)}}
    section = report.section("some", report.record(scenario(), both))

    assert rows(section)[2:] == [
        ["**heat-config-agent**", ""],
        ["os-collect-config and heat-agents", "1 s"],
    ]


def test_table_takes_the_narrower_direction() -> None:
    """A row is a compared program or a figure, whichever makes the table narrower."""
    words = (
        "answers in time per second",
        "requests without an answer in time",
        "99 % had an answer after",
    )
    figures = tuple(Figure(str(number), word, "s") for number, word in enumerate(words))
    values = {
        name: {each.name: Spread(median, median, median, 1) for each in figures}
        for name, median in {OURS: 2.0, THEIRS: 8.0}.items()
    }
    section = report.section(
        "some", report.record(replace(scenario(), figures=figures, goals=()), values)
    )

    assert rows(section) == [
        ["", "**heat-config-agent**", "os-collect-config and heat-agents", "ratio"],
        [each for each in rows(section)[1] if set(each) == {"-"}],
        *([word, "2 s", "8 s", "4 times less"] for word in words),
    ]


def test_wide_table_becomes_a_list() -> None:
    """A row for each figure of each that is compared and has it, so that it can be read."""
    figures = tuple(
        Figure(each, f"{each} time of all the processes", "s")
        for each in ("wall", "user", "system", "idle")
    )
    values = {
        name: {
            each.name: Spread(median, median / 2, median * 2, runs)
            for each in figures[: 5 - runs]
        }
        for name, median, runs in ((OURS, 0.25, 1), (THEIRS, 8.0, 2), (LIMIT, 0.25, 3))
    }
    section = report.section(
        "some", report.record(replace(scenario(), figures=figures, goals=()), values)
    )

    assert max(map(len, section.splitlines())) <= 132
    assert [
        row[1:]
        for row in rows(section)
        if row[0].startswith("user") or row[0].startswith("idle")
    ] == [
        ["**heat-config-agent**", "250 ms (125 – 500)", "", "1"],
        ["**heat-config-agent**", "250 ms (125 – 500)", "", "1"],
    ]
    assert rows(section)[3:5] == [
        ["", "os-collect-config and heat-agents", "8 s (4 – 16)", "32 times less", "2"],
        ["", "the limit", "250 ms (125 – 500)", "as much", "3"],
    ]


@pytest.mark.parametrize(
    ("ours", "theirs"), [(0.0, 1.0), (1.0, 0.0), (-0.1, 1.0), (1.0, -0.1)]
)
def test_there_is_no_ratio_of_nothing(ours: float, theirs: float) -> None:
    """There is no ratio to a missing figure, or to one within the noise."""
    section = report.section(
        "some", report.record(scenario(), runs(1, ours=ours, theirs=theirs))
    )

    assert "ratio" not in section
    assert "times" not in section


def test_a_goal_that_nothing_was_left_of_says_so() -> None:
    """A goal whose figure is zero is met without a ratio."""
    recorded = report.record(
        scenario(Goal("wall", THEIRS, 0.5)), found(ours=-0.001, theirs=1.0)
    )

    assert rows(report.goals("some", recorded))[2][3:] == ["nothing to be seen", "met"]


def test_a_goal_that_is_not_met_says_what_stands_in_the_way() -> None:
    """A missed goal shows its obstacle, and one that is met does not."""
    goals = (
        Goal("wall", THEIRS, 0.5, because="A start of Python takes longer."),
        Goal("wall", LIMIT, 9.0, "No."),
    )
    recorded = report.record(scenario(*goals), found(ours=0.8, theirs=1.0, limit=0.1))

    reasons = [
        line
        for line in report.page({"some": recorded}).splitlines()
        if line.startswith("- some")
    ]
    assert reasons == [
        "- some, wall time, 2 times less than os-collect-config and heat-agents: A start of Python takes longer."
    ]


def test_the_summary_says_how_many_goals_are_met_and_which_are_not() -> None:
    """At the head of the page, before anything else is shown."""
    goals = (
        Goal("wall", THEIRS, 0.5, because="A start of Python takes longer."),
        Goal("wall", LIMIT, 9.0, "No."),
    )
    recorded = report.record(scenario(*goals), found(ours=0.8, theirs=1.0, limit=0.1))
    summary = (
        report.page({"one-shot": recorded})
        .partition("## Summary\n")[2]
        .partition("\n## ")[0]
    )

    assert "\n1 of 2 [goals](#goals) are met.\n" in summary
    assert (
        "- [one-shot](#one-shot): wall time, 2 times less than os-collect-config and heat-agents\n"
        in summary
    )
    assert ["800 ms", "1 s", "1.25 times less"] in [row[1:] for row in rows(summary)]


def test_words_may_change_without_measuring_anew() -> None:
    """The figures stay with their date, and the goals are judged again."""
    before = report.record(
        scenario(Goal("wall", THEIRS, 0.5), note="Old."), found(ours=0.8, theirs=1.0)
    )
    now = replace(
        scenario(Goal("wall", THEIRS, 0.9, "For this."), note="New."),
        title="Another thing is done",
    )
    after = report.reworded({"some": before}, [now])["some"]

    assert (after["title"], after["note"]) == ("Another thing is done", "New.")
    assert [
        (each["reached"], each["met"], each["because"]) for each in after["goals"]
    ] == [(0.8, True, "For this.")]
    assert {key: after[key] for key in ("date", "machine", "subjects")} == {
        key: before[key] for key in ("date", "machine", "subjects")
    }


def test_older_figures_say_when_they_were_measured() -> None:
    """The head of the page has the date and the machine of older figures."""
    new = report.record(scenario(), found(ours=1.0))
    old = {**new, "date": "2020-01-02", "machine": "1 × i386"}
    page = report.page({"some": new, "other": old})

    assert "- 1 × i386 (2020-01-02)\n" in page
    assert "Measured on 2020-01-02." in page.partition("## other")[2]
    assert "Measured on" not in page.partition("## some")[2].partition("## other")[0]


@pytest.mark.parametrize(
    ("value", "unit", "written"),
    [
        (2.5, "s", "2.5 s"),
        (0.0312, "s", "31.2 ms"),
        (0.00002, "s", "20 µs"),
        (-0.002, "s", "-2 ms"),
        (17 * 2**20, "B", "17 MiB"),
        (1536, "B", "1.5 KiB"),
        (10, "B", "10 B"),
        (0.0125, "%", "1.25 %"),
        (0.0, "%", "0 %"),
        (3.0, "", "3"),
    ],
)
def test_amounts_are_written_as_people_write_them(
    value: float, unit: str, written: str
) -> None:
    """With the unit in which there are few digits."""
    assert report.amount(value, unit) == written


def test_new_figures_replace_earlier_ones(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    """Scenarios that were not measured keep their figures."""
    monkeypatch.setattr(report, "JSON", tmp_path / "benchmarks.json")
    monkeypatch.setattr(report, "PAGE", tmp_path / "benchmarks.md")
    report.save(
        {name: report.record(scenario(), found(ours=1.0)) for name in ("one", "two")}
    )
    report.save(
        {"two": report.record(scenario(), found(ours=2.0, theirs=4.0, limit=1.0))}
    )

    known = json.loads(report.JSON.read_text())
    assert {
        name: each["subjects"][OURS]["wall"]["median"] for name, each in known.items()
    } == {"one": 1.0, "two": 2.0}
    assert report.PAGE.read_text() == report.page(known)


def test_the_page_in_docs_is_made_of_what_was_measured() -> None:
    """`docs/evidence` says what `benchmarks.json` holds, of scenarios that there are, and nothing by hand."""
    known = json.loads(report.JSON.read_text())

    assert set(known) <= set(scenarios.NAMES)
    assert known == report.reworded(known, scenarios.ALL), (
        "write it anew: PYTHONPATH=tests python -m bench.report"
    )
    assert report.PAGE.read_text() == report.page(known), (
        "write it anew: PYTHONPATH=tests python -m bench.report"
    )
    assert not report.unexplained(), (
        "say `because` in the scenario's goal, and write it anew"
    )
