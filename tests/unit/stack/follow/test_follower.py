"""A stack that follows a source, in this process; what carries a revision out is the installed command."""

from __future__ import annotations

import json
import os
import shutil
import time
from pathlib import Path

import pytest

from heat_config_agent.model.errors import LockedError
from heat_config_agent.state import followed, lock, requests
from heat_config_hooks.values import replace
from heat_config_stack.follow.follower import abandon, abandoned
from heat_config_stack.records import listing
from support.machine import Machine, small_disk
from support.repositories import template
from support.sites import Site

pytestmark = pytest.mark.skipif(
    shutil.which("git") is None, reason="git is missing: apt-get install git"
)


@pytest.fixture
def site(tmp_path: Path) -> Site:
    """Return a place for a test."""
    return Site(tmp_path)


def test_the_life_of_a_stack_that_follows_a_branch(site: Site) -> None:
    """The stack is created and updated, stays when a revision has mistakes, and follows a force-push back."""
    site.values["parameters"] = "colour=blue"
    one = site.commit("one")
    record = site.step()
    assert (record.revision, record.problem, site.ran) == (one, "", ["one blue"])
    assert site.step().revision == one
    assert site.ran == ["one blue"]

    two = site.commit("two")
    assert site.step().revision == two
    assert site.ran == ["one blue", "two blue"]

    wrong = site.repository.commit(
        {"stack.yaml": "heat_template_version: 2018-08-31\nresources: 7\n"}
    )
    record = site.step()
    assert (record.revision, record.refused) == (two, wrong)
    assert (
        record.reason
        == "stack.yaml:1:1: error: The Parameter (colour) was not defined in template."
    )
    assert f"it stays at {two[:12]}" in record.problem
    assert (site.state / "follow/web/current/stack.yaml").read_text() == template(
        site.log, "two"
    )
    assert len(site.notes) == len({*site.notes})
    before = list(site.notes)
    assert site.step().refused == wrong
    assert site.notes == before

    site.repository.git("reset", "-q", "--hard", one)
    record = site.step()
    assert (record.revision, record.problem, site.ran[-1]) == (one, "", "one blue")
    assert len(site.ran) == 3
    assert [each.name for each in (site.state / "follow/web/trees").iterdir()] == [one]


@pytest.mark.fault(
    1,
    "a followed revision fails",
    "the failure is reported, the revision runs once, and with rollback the stack returns",
)
def test_a_revision_that_fails_runs_once(site: Site) -> None:
    """A failed revision is not tried again; with rollback, the stack returns to the earlier one."""
    one = site.commit("one")
    site.step()
    two = site.commit("two", "exit 3")
    record = site.step()
    assert (record.revision, record.refused, site.status) == (one, two, "UPDATE_FAILED")
    assert "3" in record.reason
    again = site.step()
    assert again == replace(record, answered=again.answered)
    assert site.ran == ["one red", "two red"]

    site.commit("good")
    assert site.step().problem == ""
    site.values["rollback"] = "yes"
    three = site.commit("three", "exit 3")
    record = site.step()
    assert (record.refused, site.status) == (three, "ROLLBACK_COMPLETE")
    assert site.step().refused == three
    assert site.ran.count("three red") == 1


def test_every_attempt_at_a_failing_revision_is_noted(site: Site) -> None:
    """A revision that is carried out again has an end in the journal for each beginning."""
    one = site.commit("one", "exit 3")
    site.step()
    followed.ask_again(site.state, "web")
    site.step()

    short = one[:12]
    told = [note for note in site.notes if short in note]
    assert [note.split(":")[1] for note in told] == [
        f" begins revision {short}",
        f" revision {short} has failed",
    ] * 2


@pytest.mark.parametrize("jump", [-5 * 24 * 3600, 5 * 24 * 3600])
def test_refused_revision_is_tried_again_after_the_clock_was_set(
    site: Site, monkeypatch: pytest.MonkeyPatch, jump: int
) -> None:
    """It does not wait for days until a wrong clock would have come to its time."""
    site.values["path"] = "later.yaml"
    site.commit("one")
    refused = site.step()
    assert "has no later.yaml" in refused.reason
    assert site.step().again == refused.again

    wall = time.time
    monkeypatch.setattr(time, "time", lambda: wall() + jump)
    assert site.step().again - refused.again == pytest.approx(jump, abs=600)


@pytest.mark.parametrize(
    "ended",
    [
        "failed",
        *(
            pytest.param(each, marks=pytest.mark.slow)
            for each in ("complete", "not begun")
        ),
    ],
)
def test_a_revision_that_was_cut_short_is_brought_to_its_end(
    site: Site, ended: str
) -> None:
    """A kill of the follower between the begin and the record of the end runs nothing twice."""
    site.commit("one")
    before = site.step()
    kept = listing.kept(site.state, "web")
    assert kept is not None
    assert kept.record is not None
    attempt = kept.record.attempt
    two = site.commit("two", "exit 3" if ended == "failed" else "")
    if ended != "not begun":
        site.step()
    begun = f"{two} {before.concluded.split()[1]}"
    # what a kill leaves
    followed.write(site.state, replace(before, begun=begun, attempt=attempt))
    record = site.step()
    assert (record.begun, record.concluded) == ("", begun)
    assert (record.refused if ended == "failed" else record.revision) == two
    assert site.ran == ["one red", "two red"]


def test_a_source_that_is_away_changes_nothing(site: Site) -> None:
    """The stack stays, the record says why, and the source counts again when it is back."""
    one = site.commit("one")
    site.step()
    away = site.folder / "away"
    site.repository.folder.rename(away)
    record = site.step()
    assert record.revision == one
    assert "does not appear to be a git repository" in record.trouble
    assert "source web: " in record.problem
    away.rename(site.repository.folder)
    assert site.step().problem == ""
    assert site.ran == ["one red"]


@pytest.mark.fault(
    1,
    "a pause, or another process that works on the stack, while a followed source has a new revision",
    "nothing begins; the revision is carried out afterwards",
)
def test_a_pause_and_another_process_hold_a_revision_back(site: Site) -> None:
    """Nothing begins while the agent is paused; a stack that is worked on is tried again."""
    one = site.commit("one")
    lock_ = site.state / "stacks/web"
    with lock.held(site.state):
        requests.pause(site.state, "maintenance")
    assert "maintenance" in site.step().trouble
    requests.resume(site.state)
    with lock.held(lock_):
        record = site.step()
    assert "another command works on the stack web (process" in record.trouble
    assert site.ran == []
    assert site.step().revision == one
    with lock.held(followed.folder(site.state, "web")), pytest.raises(LockedError):
        site.step()


def test_deployment_that_failed_earlier_keeps_a_document_out_of_force(
    site: Site,
) -> None:
    """A revision that leaves a failed deployment as it is has not succeeded, though nothing fails in it."""
    failing = {
        "id": "d1",
        "name": "broken",
        "group": "script",
        "config": f"#!/bin/sh\necho d >> {site.log}\nexit 3\n",
    }
    fine = {"id": "d2", "name": "fine", "group": "script", "config": "true"}
    site.values = {"url": str(site.folder / "documents"), "path": "site.json"}
    (site.folder / "documents").mkdir()
    path = site.folder / "documents/site.json"
    path.write_text(json.dumps([failing]))
    assert site.step().reason == "broken: exit code 3"
    path.write_text(json.dumps([failing, fine]))
    record = site.step()
    assert (record.state, record.reason, site.ran) == (
        "failed",
        "broken: exit code 3",
        ["d"],
    )
    path.write_text(json.dumps([fine]))
    assert site.step().state == "ok"


def test_a_document_is_followed_too(site: Site) -> None:
    """The deployments of a followed document run in a state directory of their own."""
    document = [
        {"id": "d1", "name": "n", "group": "script", "config": f"echo d >> {site.log}"}
    ]
    site.values = {"url": str(site.folder / "documents"), "path": "site.json"}
    (site.folder / "documents").mkdir()
    (site.folder / "documents/site.json").write_text(json.dumps(document))
    record = site.step()
    assert (record.problem, record.document, site.ran) == ("", True, ["d"])
    assert site.step().revision == record.revision
    (site.folder / "documents/site.json").write_text(
        json.dumps([*document, {**document[0], "id": "d2"}])
    )
    assert site.step().revision != record.revision
    assert site.ran == ["d", "d"]


@pytest.mark.fault(
    1,
    "a full disk while a followed revision is fetched",
    "the stack stays at its revision; the next poll with room goes on",
)
@pytest.mark.parametrize("kind", ["git", pytest.param("path", marks=pytest.mark.slow)])
def test_a_full_disk_is_reported_and_changes_nothing(
    site: Site, machine: Machine, kind: str
) -> None:
    """The stack stays at its revision, nothing of the new one is left, and the next poll with room goes on."""
    with small_disk(machine, "3M") as state:
        site.state = state
        if kind == "path":
            site.values["url"] = str(site.repository.folder)
        site.commit("one")
        one = site.step().revision
        (site.repository.folder / "large").write_bytes(os.urandom(5 * 1024 * 1024))
        site.commit("two")
        record = site.step()
        assert (record.revision, site.ran) == (one, ["one red"])
        assert "No space left on device" in record.trouble
        assert len([*(state / "follow/web/trees").iterdir()]) == 1
        (site.repository.folder / "large").unlink()
        site.commit("three")
        record = site.step()
        assert (record.problem, site.ran) == ("", ["one red", "three red"])


@pytest.mark.parametrize("delete", ["yes", "no"])
def test_removed_section_leaves_the_stack(site: Site, delete: str) -> None:
    """The stack stays, unless the section said that it is deleted."""
    site.commit("one")
    site.values["delete"] = delete
    site.step()
    settings = site.settings()
    assert abandoned(settings) == []
    settings = replace(settings, layers=settings.layers[:1])
    [record] = abandoned(settings)
    abandon(settings, record, site.notes.append)
    assert (listing.kept(site.state, "web") is None) == (delete == "yes")
    assert abandoned(settings) == []


@pytest.mark.fault(
    2,
    "a path or a link of a followed revision leads out of it",
    "the revision is refused, and nothing runs",
)
def test_files_that_are_not_in_the_source_are_refused(site: Site) -> None:
    """A path or an environment names a file of the revision, and a revision has no link that leads out of it."""
    site.values["path"] = "../../../../etc/passwd"
    site.commit("one")
    assert "is not in the source" in site.step().reason
    site.values["path"] = "missing.yaml"
    assert "has no missing.yaml" in site.step().reason
    site.values["path"] = "stack.yaml"
    (site.repository.folder / "out").symlink_to("/etc")
    two = site.commit("two")
    record = site.step()
    assert (record.refused, record.reason) == (
        two,
        "the link out leads out of the revision",
    )
    assert site.ran == []
