"""The states of a followed source: in force, refused, failed and out of step, each where it is true."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from heat_config_agent.cli import stack_package
from heat_config_agent.state import followed, health, lock
from heat_config_agent.state.followed import Followed
from support import loaded, pace
from support.loopback import wait_until
from support.machine import Done
from support.repositories import template
from support.sites import Site

BIN = Path(sys.executable).parent


@pytest.fixture
def site(tmp_path: Path) -> Site:
    """Return a place for a test."""
    return Site(tmp_path)


def run(site: Site, program: str, *words: str) -> Done:
    """Run an installed program on the state directory."""
    environment = {"PATH": os.environ["PATH"], "HOME": str(site.folder)}
    return Done(
        *loaded.run(
            program,
            [*words, "--state-dir", str(site.state)],
            {**environment, **loaded.STARTED},
            site.folder,
            pace.seconds(60),
        )
    )


def shown(site: Site) -> Followed:
    """Return the record as commands show it now, without asking the source."""
    [record] = stack_package.followed_records(site.settings())
    return record


def update(site: Site) -> None:
    """Change the stack with another file."""
    other = site.folder / "other.yaml"
    other.write_text(template(site.log, "by hand"))
    assert run(site, "heat-config-apply", str(other), "--name", "web").code == 0


def delete(site: Site) -> None:
    """Delete the stack."""
    assert run(site, "heat-config-agent", "stack", "delete", "web", "--yes").code == 0


def suspend(site: Site) -> None:
    """Suspend the stack."""
    assert run(site, "heat-config-agent", "stack", "suspend", "web").code == 0


def retry(site: Site) -> None:
    """Request another run of its deployment."""
    assert run(site, "heat-config-agent", "retry", "web/deployment").code == 0


CHANGES: dict[str, tuple[Callable[[Site], None], str]] = {
    "update": (update, "the stack was changed with FOLDER/other.yaml"),
    "delete": (delete, "there is no stack web"),
    "suspend": (suspend, "the stack is suspended"),
    "retry": (retry, "deployment is to run again"),
}


@pytest.mark.skipif(
    shutil.which("git") is None, reason="git is missing: apt-get install git"
)
@pytest.mark.parametrize(
    "change",
    [
        each if each == "update" else pytest.param(each, marks=pytest.mark.slow)
        for each in CHANGES
    ],
)
def test_stack_that_was_changed_by_hand_is_out_of_step(site: Site, change: str) -> None:
    """Commands show it at once, the follower at its next poll; neither undoes it by itself."""
    one = site.commit("one")
    assert site.step().state == "ok"
    act, why = CHANGES[change]
    act(site)
    ran = site.ran
    record = shown(site)
    sentence = why.replace("FOLDER", str(site.folder))
    assert (record.state, record.drift) == ("drifted", sentence)
    assert record.problem == f"source web: drifted from revision {one[:12]}: {sentence}"
    if change != "retry":  # which asks for another run itself
        assert site.step().drift == sentence
        assert site.ran == ran
        assert site.notes[-1].endswith(sentence)
        if change == "suspend":
            assert run(site, "heat-config-agent", "stack", "resume", "web").code == 0
        followed.ask_again(site.state, "web")
    assert (site.step().state, site.ran[-1]) == ("ok", "one red")
    assert shown(site).problem == ""


@pytest.mark.skipif(
    shutil.which("git") is None, reason="git is missing: apt-get install git"
)
def test_check_and_unchanged_apply_keep_a_stack_in_step(site: Site) -> None:
    """A check and an update without a change make no difference."""
    site.commit("one")
    site.step()
    assert run(site, "heat-config-agent", "stack", "check", "web").code == 0
    assert (
        run(site, "heat-config-agent", "stack", "update", "--existing", "web").code == 0
    )
    assert shown(site).state == "ok"


def documents(site: Site, *names: str, end: str = "") -> None:
    """Write the followed document."""
    site.values = {"url": str(site.folder / "site.json")}
    entries = [
        {"name": name, "group": "script", "config": f"echo {name} >> {site.log}\n{end}"}
        for name in names
    ]
    (site.folder / "site.json").write_text(json.dumps(entries))


@pytest.mark.parametrize(
    ("command", "why"),
    [
        ("retry", "motd will run again"),
        ("forget", "motd was forgotten"),
        ("add", "more is not of it"),
    ],
)
def test_document_that_was_changed_by_hand_is_out_of_step(
    site: Site, command: str, why: str
) -> None:
    """A deployment that was repeated, forgotten or added is named; carried out again, the document is in step."""
    documents(site, "motd", "banner")
    assert site.step().state == "ok"
    if command == "add":
        entries = json.loads((site.folder / "site.json").read_text())
        more = site.folder / "more.json"
        more.write_text(json.dumps([*entries, {**entries[0], "name": "more"}]))
        place = str(followed.document(site.state, "web"))
        words = [str(BIN / "heat-config-apply"), "--state-dir", place, str(more)]
        subprocess.run(
            words, check=True, timeout=pace.seconds(60), stdout=subprocess.DEVNULL
        )
    else:
        yes = ["--yes"] if command == "forget" else []
        done = run(site, "heat-config-agent", command, *yes, "web/motd")
        assert done.code == 0, done.err
    assert (shown(site).state, shown(site).drift) == ("drifted", why)
    for option in ([], ["--check"]):
        printed = run(site, "heat-config-agent", "status", *option)
        assert (
            f"{why}: `heat-config-agent source sync web --again --state-dir {site.state}` carries"
            in printed.out
        )
        assert printed.code == len(option)
    followed.ask_again(site.state, "web")
    assert site.step().state == "ok"
    assert shown(site).problem == ""


def test_failed_and_refused_revisions_have_states_of_their_own(site: Site) -> None:
    """A refused one has changed nothing, a failed one may have; a retry that succeeds puts it in force."""
    documents(site, "motd")
    one = site.step().revision
    (site.folder / "site.json").write_text('[{"name": "motd", "gruop": "script"}]')
    record = site.step()
    values = followed.values(record)
    assert (values["state"], values["refused"], values["failed"]) == (
        "refused",
        record.refused,
        None,
    )
    assert (values["revision"], values["drift"], values["document"]) == (
        one,
        None,
        True,
    )
    documents(site, "motd", end=f"[ -e {site.folder}/good ]")
    record = site.step()
    values = followed.values(record)
    assert (values["state"], values["refused"], values["failed"]) == (
        "failed",
        None,
        record.refused,
    )
    (site.folder / "good").touch()
    assert site.step().state == "failed"
    assert run(site, "heat-config-agent", "retry", "web/motd").code == 0
    record = site.step()
    assert (record.state, record.problem) == ("ok", "")


@pytest.mark.parametrize(
    ("record", "state"),
    [
        (Followed(name="w"), "waiting"),
        (Followed(name="w", trouble="away"), "unknown"),
        (Followed(name="w", revision="a", trouble="away"), "unknown"),
        (Followed(name="w", revision="a"), "ok"),
        (Followed(name="w", revision="a", drift="x"), "drifted"),
        (Followed(name="w", revision="a", refused="b"), "refused"),
        (Followed(name="w", revision="a", refused="b", failed=True), "failed"),
        (Followed(name="w", revision="a", refused="b", begun="c d"), "running"),
        (Followed(name="w", revision="a", begun="c d", reboot="boot"), "reboot"),
    ],
)
def test_metrics_have_the_state(record: Followed, state: str) -> None:
    """A metric for a state is 1 in this state only."""
    assert record.state == state
    text = health.metrics(
        health.Health(process=1, version="1", started=0), [], [record]
    )
    lines = [line for line in text.splitlines() if 'stack="w"' in line]
    lines_ = {
        line.split("{")[0].removeprefix("heat_config_agent_"): line[-3:]
        for line in lines
    }
    wanted = {
        "refused": "follow_refused",
        "failed": "follow_failed",
        "drifted": "follow_drifted",
    }
    assert [name for name in wanted.values() if lines_[name] == "1.0"] == (
        [wanted[state]] if state in wanted else []
    )
    assert (lines_["follow_current"] == "1.0") == (state == "ok")


@pytest.mark.parametrize("change", [update, delete], ids=["update", "delete"])
def test_stack_that_was_changed_by_hand_comes_back_with_repair(
    site: Site, change: Callable[[Site], None]
) -> None:
    """At the next step, once; without the setting, it stays as it is."""
    site.commit("one")
    site.step()
    change(site)
    drift = site.step().drift
    assert drift
    before = len(site.ran)
    site.values["repair"] = "yes"

    record = site.step()

    assert (record.state, record.drift) == ("ok", "")
    assert f"web: repairs what has drifted: {drift}" in site.notes
    assert site.ran[before:] == ["one red"]
    assert site.step().state == "ok"
    assert site.ran[before:] == ["one red"]


def test_suspended_stack_is_not_repaired(site: Site) -> None:
    """A person has suspended it."""
    site.commit("one")
    site.step()
    assert run(site, "heat-config-agent", "stack", "suspend", "web").code == 0
    site.values["repair"] = "yes"

    record = site.step()

    assert (record.state, record.drift) == ("drifted", "the stack is suspended")
    assert site.status == "SUSPEND_COMPLETE"


def test_followed_stack_is_verified_on_a_schedule_and_repaired(site: Site) -> None:
    """A failed check is a drift; with `repair`, what has drifted runs again, and nothing else does."""
    there = site.folder / "there"
    verify = f"[ -e {there} ] || {{ echo it is gone; exit 1; }}"
    config = {
        "group": "script",
        "options": {"verify": verify},
        "config": f"#!/bin/sh\ntouch {there}; echo verified >>{site.log}\n",
    }
    resources = {
        "c": {"type": "OS::Heat::SoftwareConfig", "properties": config},
        "d": {
            "type": "OS::Heat::SoftwareDeployment",
            "properties": {"config": {"get_resource": "c"}, "server": "here"},
        },
    }
    stack = {"heat_template_version": "2018-08-31", "resources": resources}
    site.repository.commit({"stack.yaml": json.dumps(stack)})
    site.step()
    there.unlink()
    site.values |= {"verify_interval": "0.01", "interval": "0.01"}
    follower = site.follower()
    with lock.held(followed.folder(site.state, "web")):
        follower.step()
        wait_until(lambda: bool(follower.step().drift), 30)
    assert shown(site).drift == "d has drifted"
    assert site.ran == ["verified"]
    site.values["repair"] = "yes"

    record = site.step()

    assert (record.state, record.drift) == ("ok", "")
    assert site.ran == ["verified"] * 2
    assert there.exists()
