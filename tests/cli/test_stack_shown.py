"""How stacks are shown: by name or id, in tables and as JSON, with their templates, environments and failures."""

from __future__ import annotations

import threading

import pytest

from support import endings, pace
from support.loopback import wait_until
from support.machine import Machine
from support.stacking import LONG, Stacks, ends


@pytest.fixture
def stacks(machine: Machine) -> Stacks:
    """The commands."""
    return Stacks(machine)


def identity(stacks: Stacks, name: str = "t") -> str:
    """Return the id of a stack."""
    return str(stacks("show", name, "--json").data["id"])


def test_stack_is_named_by_its_id_or_the_beginning_of_it(stacks: Stacks) -> None:
    """In every command that takes a stack; a beginning of less than eight characters names none."""
    stacks.apply(stacks.template(stacks.script("one")))
    whole = identity(stacks)
    for word in (whole, whole[:8]):
        assert identity(stacks, word) == whole
        assert stacks("resource", "list", word, "--json").data["resources"]
        assert "stack t: ok (CHECK_COMPLETE)" in stacks("check", word).out
    assert f"no stack '{whole[:7]}'" in stacks("show", whole[:7], code=8).err or (
        not whole[0].isdigit()
    )
    error = stacks("show", "0123456789", "--json", code=8).json["error"]
    assert (error["code"], error["subject"]) == (
        "not_found",
        {"kind": "stack", "name": "0123456789"},
    )
    assert "stack t: ok (DELETE_COMPLETE)" in stacks("delete", whole, "--yes").out


def test_list_has_a_header_or_a_sentence(stacks: Stacks) -> None:
    """Ids and the time of the creation are in it with --wide, which is --long for users of OpenStack."""
    assert stacks("list").out == f"no stacks in {stacks.machine.state}\n"
    resources = stacks.script("one", "echo no space left >&2; exit 4")
    stacks.apply(stacks.template(resources), code=1)
    header, row = stacks("list").out.splitlines()
    assert header.split() == [
        *("NAME", "STATE", "ACTION", "RESOURCES", "SOURCE", "SINCE", "DETAILS"),
    ]
    assert row.startswith("t     failed  CREATE  2 (1 bad)  by hand  ")
    assert row.endswith("  one: exit code 4: no space left")
    wide = stacks("list", "--wide").out
    assert identity(stacks) in wide
    assert stacks("list", "--long").out == wide
    assert "--wide" in stacks("list", "--help").out


def test_failures_are_listed_with_the_end_of_their_output(stacks: Stacks) -> None:
    """Each with the command that prints all of it; a stack without any says so."""
    stacks.apply(stacks.template(stacks.script("one", "seq 9 >&2; exit 4")), code=1)
    lines = stacks("failures", "list", "t").out.splitlines()
    assert lines[1].split()[:3] == ["one", "failed", "CREATE"]
    assert lines[2:7] == [f"  | {number}" for number in range(5, 10)]
    [failure] = stacks("failures", "list", "t", "--wide", "--json").data["failures"]
    assert failure["last_lines"] == [str(number) for number in range(1, 10)]
    words = failure["log"].split()[1:]
    assert stacks.machine.command("heat-config-agent", words, {}).err.endswith("9\n")
    stacks.apply(stacks.template(stacks.script("one")))
    assert stacks("failures", "list", "t").out == "no failures of t\n"


def test_template_and_environment_of_a_stack_are_shown(stacks: Stacks) -> None:
    """The template as it was given, and the values, of which hidden ones are masked."""
    declared = {
        "who": {"type": "string", "default": "world"},
        "pin": {"type": "string", "hidden": True},
    }
    path = stacks.template(stacks.script("one"), parameters=declared)
    text = path.read_text()
    stacks.apply(path, "--parameter", "who=Ada", "--parameter", "pin=sesame-opens-7")
    path.unlink()
    assert stacks("template", "show", "t").out == f"{text.rstrip()}\n"
    shown = stacks("template", "show", "t", "--json").data
    assert shown["template"]["parameters"]["who"] == declared["who"]
    assert stacks("environment", "show", "t").out == (
        "parameters:\n  who: Ada\n  pin: '***'\n"
    )
    data = stacks("environment", "show", "t", "--json").data
    assert data["environment"]["parameters"] == {"who": "Ada", "pin": "***"}
    revealed = stacks("environment", "show", "t", "--reveal").out
    assert "pin: sesame-opens-7" in revealed


def test_events_are_followed_until_the_action_has_ended(stacks: Stacks) -> None:
    """The events of the running action come as they happen, and the command ends with the action."""
    then = f"while [ ! -e {stacks.go} ]; do sleep 0.05; done"
    command = stacks.start(stacks.template(stacks.script("one", then)))
    lines: list[str] = []
    with endings.ended(command):
        wait_until(lambda: stacks.ran == ["one CREATE"], LONG)
        place = ("--state-dir", str(stacks.machine.state))
        followed = stacks.machine.start(
            "heat-config-agent", "stack", "event", "list", "t", "--follow", *place
        )
        with endings.ended(followed):
            assert followed.stdout is not None
            reader = threading.Thread(
                target=lambda: lines.extend(followed.stdout or ())
            )
            reader.start()
            wait_until(lambda: any(" one " in line for line in lines), LONG)
            assert not any("ok" in line.split() and " one " in line for line in lines)
            stacks.go.touch()
            assert ends(command).code == 0
            assert followed.wait(pace.seconds(LONG)) == 0
            reader.join()
    assert lines[-1].split()[1:] == ["stack", "t", "ok", "CREATE"]


def test_work_that_takes_longer_than_the_wait_goes_on(stacks: Stacks) -> None:
    """The exit code says that it is not done, and the same command continues it."""
    then = f"while [ ! -e {stacks.go} ]; do sleep 0.05; done"
    path = str(stacks.template(stacks.script("one", then)))
    done = stacks("create", "t", "-t", path, "--wait-for", "0", "--json", code=7)
    assert done.json["error"]["code"] == "timeout"
    wait_until(lambda: stacks("list", "--json").data["stacks"] != [], LONG)
    stacks.go.touch()
    assert "ok (CREATE_COMPLETE)" in stacks("create", "t", "-t", path).out
    assert stacks.ran == ["one CREATE"]


@pytest.mark.parametrize("option", ["--limit", "--nested-depth"])
def test_negative_number_is_refused(stacks: Stacks, option: str) -> None:
    """A number of events or levels is never below its least value."""
    stacks.apply(stacks.template(stacks.script("one")))
    noun = "event" if option == "--limit" else "resource"
    assert "or more" in stacks(noun, "list", "t", f"{option}=-1", code=2).err


def test_change_of_a_stack_has_a_plan(stacks: Stacks) -> None:
    """The plan of an action of the whole stack names what runs, and nothing is done."""
    path = stacks.template(
        stacks.script("one", "", "CREATE", "SUSPEND", "RESUME", "DELETE")
    )
    stacks.apply(path)
    stacks("snapshot", "create", "t", "--name", "first")
    for words, change in (
        (["suspend", "t"], "suspend"),
        (["check", "t"], "check"),
        (["delete", "t"], "remove"),
    ):
        for option in ("--plan", "--dry-run"):
            rows = stacks(*words, option).out.splitlines()
            assert rows[0].split() == ["CHANGE", "NAME", "TYPE", "WHY"]
            assert rows[1].startswith(f"{change} ")
            assert rows[-1] == f"stack t: 2 to {change}; nothing was done"
    planned = stacks("delete", "t", "--plan", "--json").data["changes"]
    assert {each["name"]: each["runs"] for each in planned}["one"] == ["DELETE"]
    restored = stacks("snapshot", "restore", "t", "first", "--plan", "--json").data
    assert {each["change"] for each in restored["changes"]} == {"unchanged"}
    assert stacks.ran == ["one CREATE"]


def test_preview_is_another_name_of_a_plan(stacks: Stacks) -> None:
    """It is not in the help, and does the same as --plan of create or update."""
    path = str(stacks.template(stacks.script("one")))
    new = stacks("preview", "t", "-t", path).out
    assert new == stacks("create", "t", "-t", path, "--plan").out
    stacks("create", "t", "-t", path)
    words = ("t", "-t", path)
    assert stacks("preview", *words).out == stacks("update", *words, "--plan").out
    assert "preview" not in stacks("--help").out


def test_deletion_of_a_followed_stack_says_that_it_comes_back(
    stacks: Stacks,
) -> None:
    """The source is drifted after that, and its exit code says so where it is asked for."""
    path = stacks.template(stacks.script("one"), "site")
    settings = stacks.machine.folder / "agent.conf"
    settings.write_text(
        f"[agent]\nstate_dir = {stacks.machine.state}\n[follow t]\nurl = {path}\n"
    )
    config = ("--config", str(settings))

    def source(*words: str, code: int = 0) -> str:
        done = stacks.machine.command(
            "heat-config-agent", ["source", *words, *config], {}
        )
        assert done.code == code, done.out + done.err
        return done.out

    planned = source("sync", "--plan")
    assert planned.splitlines()[1].split()[:2] == ["sync", "t"]
    assert not stacks.folder.exists()
    source("sync")
    assert "  t@" in stacks("list", *config).out
    done = stacks("delete", "t", "--yes", *config)
    assert f"note: t follows {path}, which makes it again" in done.err
    [row] = source("list").splitlines()[1:]
    assert row.split()[:2] == ["t", "drifted"]
    assert "there is no stack t" in row
    source("list", "--check", code=9)
    assert source("show", "t").splitlines()[1].split() == ["state", "drifted"]
    source("list", "nosuch", code=8)
    source("sync", "t", "--again")
    assert source("list", "--check").splitlines()[1].split()[:2] == ["t", "ok"]
