"""A command does the same as a new process and as one that begins loaded, as those of most tests do."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from support import pace
from support.machine import Machine, deployment

NESTED = ("stack", "template", "source", "policy")
"""Commands with commands of their own."""

WITHOUT_STATE = ("sign", "template", "policy", "no-such-command")
"""Commands that know no state directory."""

FORMS = (
    "status",
    "status --json",
    "show d1",
    "show d1 --json",
    "show none",
    "log d2",
    "retry none",
    "forget none",
    "prune",
    "pause",
    "resume",
    "poll",
    "config",
    "tool list",
    "policy",
    "sign",
    "follow list",
    "stack list",
    "stack show none",
    "stack create none.yaml",
    "stack template greeting",
    "stack output list greeting",
    "stack resource list greeting",
    "template check none.yaml",
    "no-such-command",
)
"""Command lines of `heat-config-agent` that change no deployment and no stack."""

QUICKLY = (
    "status --json",
    "show d1",
    "log d2",
    "hooks",
    "prune",
    "follow list",
    "stack resource list greeting",
    "template check none.yaml",
    "no-such-command",
)
"""Those that are tried each time."""

GREETING = """\
heat_template_version: 2021-04-16
outputs: {greeting: {value: hello}}
"""


@pytest.fixture(scope="module")
def state(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A state directory with two deployments and a stack."""
    machine = Machine(tmp_path_factory.mktemp("machine"))
    machine.apply(
        [
            deployment("d1", "#!/bin/sh\necho out\n"),
            deployment("d2", "#!/bin/sh\necho out\nexit 3\n"),
        ]
    )
    template = machine.write(GREETING, "greeting.yaml")
    assert (
        machine.command(
            "heat-config-apply", ["--state-dir", str(machine.state), str(template)], {}
        ).code
        == 0
    )
    machine.end()
    return machine.state


@pytest.mark.parametrize(
    "line",
    # a new process takes as long as ten others: one of each kind, and the rest in `make test-all`
    [
        pytest.param(each, marks=() if each in QUICKLY else pytest.mark.slow)
        for each in FORMS
    ],
)
def test_new_process_prints_the_same(machine: Machine, state: Path, line: str) -> None:
    """A command that begins by itself has loaded all that it needs. Times and ages may differ."""
    shutil.copytree(state, machine.state)
    machine.have_quick_tools()
    command, *words = line.split()
    place = ["--state-dir", str(machine.state)] if command not in WITHOUT_STATE else []
    words = [
        command,
        *(words[:1] if command in NESTED else []),
        *place,
        *(words[1:] if command in NESTED else words),
    ]
    process = machine.start("heat-config-agent", *words)
    out, err = process.communicate(timeout=pace.seconds(60))
    loaded = machine.command("heat-config-agent", words, {})
    assert (process.returncode, steady(out), steady(err)) == (
        loaded.code,
        steady(loaded.out),
        steady(loaded.err),
    )
    assert "Traceback" not in err


def steady(text: str) -> str:
    """Return a text without its numbers, and without the columns that they widen."""
    return re.sub(r"[ -]+", " ", re.sub(r"\d+", "0", text))
