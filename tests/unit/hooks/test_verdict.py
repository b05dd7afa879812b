"""`heat_config_hooks.verdict`: the verdict of a verification, and its JSON."""

from __future__ import annotations

import json

import pytest

from heat_config_hooks import verdict
from heat_config_hooks.reply import failure
from heat_config_hooks.verdict import Change, Standing, Verdict


def changes(number: int) -> list[Change]:
    """Return different changes."""
    return [
        Change(what=f"file {index}", how="it is missing") for index in range(number)
    ]


@pytest.mark.parametrize(
    "given",
    [
        verdict.in_effect(("/etc/a", "/etc/b")),
        verdict.unknown("the engine does not answer"),
        verdict.drifted(changes(3)),
        verdict.drifted([Change(what="a", how="b", diff="-x\n+y")], "its own words"),
        verdict.drifted(changes(verdict.MOST_CHANGES + 7)),
    ],
)
def test_verdict_is_the_same_after_its_way_as_a_reply(given: Verdict) -> None:
    """The reply of a verification carries it as text."""
    assert verdict.of_reply(verdict.encoded(given)) == given


def test_first_change_is_the_reason_with_the_number_of_others() -> None:
    """A reason of its own comes first."""
    assert verdict.drifted(changes(1)).reason == "file 0: it is missing"
    assert verdict.drifted(changes(3)).reason == "file 0: it is missing, and 2 more"
    assert verdict.drifted(changes(3), "changed").reason == "changed"


def test_long_list_of_changes_is_cut() -> None:
    """The number of the others is kept."""
    given = verdict.drifted(changes(verdict.MOST_CHANGES + 7))

    assert len(given.changes) == verdict.MOST_CHANGES
    assert given.left_out == 7


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "the answer of the verification is not JSON"),
        ("[" * 100_000, "the answer of the verification is not JSON"),
        ("[]", "the answer of the verification is not a JSON object"),
        (
            '{"state": "fine"}',
            "the answer of the verification has no `state` of ok, drifted, unknown",
        ),
        ("{}", "the answer of the verification has no `state` of ok, drifted, unknown"),
    ],
)
def test_malformed_answer_is_unknown(text: str, reason: str) -> None:
    """It never counts as ok."""
    assert verdict.of_json(text) == verdict.unknown(reason)


def test_malformed_parts_of_an_answer_are_left_out() -> None:
    """The state counts all the same."""
    text = json.dumps(
        {"state": "drifted", "changes": [1, {"what": 7}], "left_out": "many"}
    )

    given = verdict.of_json(text)

    assert given.standing is Standing.DRIFTED
    assert given.changes == (Change(what="7", how=""),)
    assert given.left_out == 0


def test_drift_without_a_reason_says_so() -> None:
    """A sentence is needed where nothing is listed."""
    assert verdict.of_json('{"state": "drifted"}').reason == "it gave no reason"


def test_reply_without_a_verdict_is_unknown_with_its_sentence() -> None:
    """As of a command that cannot be started."""
    assert verdict.of_reply(failure(127, "no such program")) == verdict.unknown(
        "no such program"
    )
    assert verdict.of_reply({}).standing is Standing.UNKNOWN


def test_diff_shows_lines_that_differ_and_is_bounded() -> None:
    """`-` is the machine, `+` is the deployment."""
    assert verdict.text_diff("a\nb\n", "a\nc\n").splitlines() == [
        "@@ -1,2 +1,2 @@",
        " a",
        "-b",
        "+c",
    ]
    long = verdict.text_diff("", "x" * 9000 + "\n" + "y\n" * 1000).splitlines()
    assert len(long) == 41
    assert long[-1] == "[962 more lines]"
    assert all(len(line) < 5000 for line in long)


def test_lines_have_their_final_length_only_after_they_are_masked() -> None:
    """A secret of which half was cut off could not be masked any more."""
    long = verdict.text_diff("", "x" * 9000 + "\n")
    given = verdict.drifted([Change(what="w" * 900, how="is longer", diff=long)])

    final = verdict.shortened(given)

    assert [len(line) for line in long.splitlines()] == [len("@@ -0,0 +1 @@"), 4597]
    assert [len(line) for line in final.changes[0].diff.splitlines()] == [13, 501]
    assert len(final.reason) == len(final.changes[0].what) == 501


def test_drift_of_a_part_is_that_of_the_whole() -> None:
    """All differences are listed; what is unknown counts only if nothing has drifted."""
    one, other = changes(1), changes(verdict.MOST_CHANGES + 1)
    parts = [
        verdict.in_effect(),
        verdict.unknown("the engine does not answer"),
        verdict.drifted(one),
        verdict.drifted(other),
    ]

    whole = verdict.together(parts)

    assert whole.standing is Standing.DRIFTED
    assert whole.changes == (*one, *other)[: verdict.MOST_CHANGES]
    assert whole.left_out == 2
    assert verdict.together(parts[:3]) == parts[2]
    assert verdict.together(parts[:2]) == parts[1]


def test_whole_depends_on_files_only_if_all_parts_do() -> None:
    """Otherwise the files alone do not tell whether anything has changed."""
    files = verdict.in_effect(["/a"]), verdict.in_effect(["/b"])

    assert verdict.together(files) == verdict.in_effect(["/a", "/b"])
    assert verdict.together([*files, verdict.in_effect()]) == verdict.in_effect()
    assert verdict.together([]) == verdict.in_effect()
