"""`verification.record`: the last verification of each deployment."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from heat_config_agent.model.entry import Entry, State
from heat_config_agent.verification import record
from heat_config_agent.verification.record import Verified
from heat_config_hooks import verdict
from heat_config_hooks.values import replace
from heat_config_hooks.verdict import Change
from support.entries import entry


def verified(one: Entry, answer: verdict.Verdict) -> Verified:
    """Return the record of a verification of the last run of a deployment."""
    run = record.run_of(one)
    return Verified(key=one.key, run=run, at=5.0, since=4.0, verdict=answer)


def test_record_is_read_as_it_was_put(tmp_path: Path) -> None:
    """Only its owner can read it."""
    entries = {key: entry(key, State.UNASKED) for key in "abc"}
    answers = {
        "a": verdict.in_effect(),
        "b": verdict.drifted([Change(what="x", how="is gone", diff="-1\n+2")]),
        "c": verdict.unknown("nothing can tell"),
    }
    newer = {key: verified(entries[key], answers[key]) for key in "abc"}

    record.put(tmp_path, newer, entries)

    assert record.read(tmp_path) == newer
    assert (tmp_path / record.FILE).stat().st_mode & 0o777 == 0o600


def test_verifications_of_other_deployments_stay(tmp_path: Path) -> None:
    """Two processes may verify different deployments at once."""
    entries = {key: entry(key, State.UNASKED) for key in "ab"}
    for key in "ab":
        newer = {key: verified(entries[key], verdict.in_effect())}
        record.put(tmp_path, newer, entries)

    assert record.read(tmp_path).keys() == {"a", "b"}


def test_run_makes_the_verification_of_its_deployment_void(tmp_path: Path) -> None:
    """Also one that has begun while it was verified."""
    before = entry("a", State.UNASKED)
    after = replace(before, ended=2000.0)
    one = verified(before, verdict.in_effect())

    assert one.is_of(before)
    assert not one.is_of(after)
    record.put(tmp_path, {"a": one}, {"a": after})
    assert record.read(tmp_path) == {}


@pytest.mark.parametrize(
    "content", [b"", b"[]", b"{", b'{"a": 1}', b'{"a": {"run": "x"}}', b"\xff"]
)
def test_damaged_record_counts_as_none(tmp_path: Path, content: bytes) -> None:
    """The next verification makes it again."""
    (tmp_path / record.FILE).write_bytes(content)

    assert record.read(tmp_path) == {}


def test_signatures_tell_every_change_of_a_file(tmp_path: Path) -> None:
    """Content, mode, owner of its place, and times that were set back."""
    path = tmp_path / "file"
    path.write_text("one")
    taken = record.signatures((str(path),), path.stat().st_ctime + 10)
    assert record.are_unchanged(taken)

    for change in (
        lambda: path.write_text("two"),
        lambda: path.chmod(0o604),
        lambda: os.utime(path, (1, 1)),
        lambda: path.rename(tmp_path / "other"),
    ):
        taken = record.signatures((str(path),), path.stat().st_ctime + 10)
        change()
        assert not record.are_unchanged(taken)


def test_file_that_has_just_changed_has_no_signature(tmp_path: Path) -> None:
    """Another change could have the same times."""
    path = tmp_path / "file"
    path.write_text("one")

    assert record.signatures((str(path),), path.stat().st_ctime + 0.1) == ()
    assert not record.are_unchanged(())
