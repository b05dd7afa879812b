"""The corpus: each file is bad input of some kind, given to the real commands, with little memory and little time."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from fuzz.examples import TESTS
from heat_config_agent.model.errors import StateError, UsageError
from heat_config_agent.sources.cloud import user_data
from heat_config_agent.state import journal
from support import pace
from support.machine import BIN, Done, Machine, deployment

pytestmark = pytest.mark.takes(20)

CORPUS = TESTS / "corpus"
MEMORY = 1_000_000
"""KiB of address space that a command gets."""

SECRET = "hunter2hunter2"


def files(kind: str) -> list[Path]:
    """Return the cases of a kind."""
    return sorted(path for path in (CORPUS / kind).rglob("*") if path.is_file())


def cases(kind: str) -> pytest.MarkDecorator:
    """Have a test replay all cases of a kind."""
    found = files(kind)
    return pytest.mark.parametrize(
        "path", found, ids=[str(path.relative_to(CORPUS / kind)) for path in found]
    )


@pytest.fixture
def plain(tmp_path: Path) -> Iterator[Machine]:
    """The installed commands with a state directory of their own."""
    machine = Machine(tmp_path)
    yield machine
    machine.end()


def limited(machine: Machine, program: str, *arguments: str) -> Done:
    """Run a command of ours with little memory."""
    done = subprocess.run(
        [
            "sh",
            "-c",
            f'ulimit -v {MEMORY} && exec "$@"',
            "sh",
            str(BIN / program),
            *arguments,
        ],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=pace.seconds(100),
        check=False,
        env=machine.environment,
        cwd=machine.folder,
    )
    out, err = done.stdout.decode(), done.stderr.decode()
    assert "Traceback" not in err, err
    assert "\x1b" not in out + err
    assert SECRET not in out + err
    return Done(done.returncode, out, err)


def apply(machine: Machine, path: Path) -> Done:
    """Apply a document with little memory."""
    return limited(
        machine,
        "heat-config-apply",
        "--state-dir",
        str(machine.state),
        "--hooks-dir",
        str(machine.hooks),
        str(path),
    )


@pytest.mark.fault(
    3,
    "documents that blow up or go deep: alias and merge bombs, ten thousands of levels, huge numbers; in configs too",
    "refused in seconds and with little memory",
)
@cases("documents")
def test_document_of_the_corpus_fails_or_is_applied(plain: Machine, path: Path) -> None:
    """The document fails with a sentence or is applied, as its name says."""
    done = apply(plain, path)
    if path.name.startswith("fine-"):
        assert done.code == 0, done.out + done.err
    else:
        assert done.code in (1, 2), done.out + done.err
        assert len(done.out + done.err) < 20_000
    if done.code == 2:
        place = rf"{re.escape(str(path))}:(\d+:\d+:)? (error|warning): \S"
        assert done.err
        assert all(re.match(place, line) for line in done.err.splitlines()), done.err


@pytest.mark.fault(
    5,
    "any bytes in agent.conf or os-collect-config.conf: damaged, odd values of every setting, sections, repeated names",
    "one sentence names the line and what is right; what is right in it is used; no secret is repeated",
)
@cases("settings")
def test_settings_of_the_corpus_are_reported_and_begin_nothing(
    plain: Machine, path: Path
) -> None:
    """Commands show settings with mistakes, and no deployment begins with them."""
    done = limited(
        plain,
        "heat-config-agent",
        "config",
        "--state-dir",
        str(plain.state),
        "--config",
        str(path),
    )
    assert done.code == (0 if path.name.startswith("fine-") else 2), done.out + done.err


@pytest.mark.fault(
    2,
    "a hook that replies anything: other types, no status, numbers as text, bytes, JSON cut off, nesting, NaN",
    "what it says of success counts only if it is whole and a number says so; the exit code wins over it",
)
def test_replies_of_the_corpus_are_read(machine: Machine) -> None:
    """A hook prints each reply, and the real command reads it."""
    replies = files("replies")
    for path in replies:
        machine.hook(path.name, f"#!/bin/sh\nexec cat {path}\n")
    document = machine.write(
        [deployment(path.name, group=path.name, outputs=["out"]) for path in replies]
    )
    done = apply(machine, document)
    assert done.code == 1, done.out + done.err
    found = machine.status()
    assert {path.name: not found[path.name]["failed"] for path in replies} == {
        path.name: path.name.startswith("fine-") for path in replies
    }


@pytest.mark.fault(
    5,
    "any bytes, or JSON of any shape, in the other state files: health, paused, learned, instance, documents, asked",
    "the agent starts, the commands show what there is; a file that cannot be used is set aside, with a sentence",
)
@cases("state")
def test_state_file_of_the_corpus_stops_no_command(plain: Machine, path: Path) -> None:
    """The agent works with it, unless another version's journal is in its way; the commands show what there is."""
    target = plain.state / path.parent.name.replace("%", "/")
    target.parent.mkdir(parents=True, mode=0o700)
    target.write_bytes(path.read_bytes())
    try:
        journal.read(plain.state)
    except StateError:
        expected = 10
    else:
        expected = 0
    shown = limited(
        plain, "heat-config-agent", "status", "--state-dir", str(plain.state)
    )
    assert shown.code == expected, shown.err
    shown = limited(
        plain, "heat-config-agent", "config", "--state-dir", str(plain.state)
    )
    assert shown.code == 0, shown.err
    done = apply(plain, plain.write([deployment("after")]))
    paused = target.name == "paused"  # for whatever reason, somebody has paused it
    assert done.code == (1 if paused else expected), done.out + done.err
    if expected == 0 and not paused:
        assert plain.status()["after"]["state"] == "unasked"


@pytest.mark.fault(
    5,
    "any user data: multipart messages, Ignition configs, JSON, packed, damaged, nested, with odd names and encodings",
    "metadata where there is a part for the agent, nothing where there is none, one sentence where that part is wrong",
)
@cases("user-data")
def test_user_data_for_other_programs_is_accepted(path: Path) -> None:
    """Parts of user data for other programs are not a mistake."""
    content = path.read_bytes()
    if path.name.startswith("none-"):
        assert user_data.content(content, "x") is None
    else:
        with pytest.raises(UsageError, match="cannot read cfn-init-data in x: "):
            user_data.content(content, "x")
