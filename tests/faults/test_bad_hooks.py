"""Hooks and scripts that misbehave: a truthful result or a failure, never a hang, and nobody else's file touched."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from support.daemon import ran
from support.loopback import SignalServer
from support.machine import BIN, Machine, deployment

pytestmark = pytest.mark.takes(20)

INTERRUPTED, TIMED_OUT, KILLED = 125, 124, 137
SECONDS = 60.0
"""Within which the agent has to be done, whatever a hook does."""

fault = pytest.mark.fault


@pytest.fixture
def foreign(machine: Machine) -> Path:
    """A file that is none of the agent's business."""
    path = machine.folder / "foreign"
    path.write_text("root:x:0:0\n")
    return path


def carried_out(
    machine: Machine, heat: SignalServer, given: dict[str, Any]
) -> dict[str, Any]:
    """Carry out a deployment and one after it, twice; return the one result of the first."""
    batch = [given, deployment("after", signal=heat.url("after"))]
    done = machine.apply(batch, "--grace", "0.2", seconds=SECONDS)
    assert "Traceback" not in done.err
    if not heat.values("after"):  # the agent itself was ended
        done = machine.apply(batch, "--grace", "0.2", seconds=SECONDS)
        assert "Traceback" not in done.err
    again = machine.apply(batch, "--grace", "0.2", seconds=SECONDS)
    assert again.code in (0, 1), again.err
    assert [each["deploy_status_code"] for each in heat.values("after")] == [0]
    assert ran(machine) == ["d1"]
    [told] = heat.values("d1")
    return told


SCRIPTS: dict[str, tuple[str, tuple[int, ...]]] = {
    "closes its descriptors": ("exec 0<&- 1>&- 2>&- 3<&- 4>&- 5>&- 6>&-; exit 3", (3,)),
    "swaps stdout and stderr": (
        "exec 3>&1 1>&2 2>&3 3>&-; echo out; echo err >&2; exit 3",
        (3,),
    ),
    "writes to all descriptors": (
        'for each in 0 3 4 5 6 7 8 9; do eval "echo 0 >&$each" 2>/dev/null; done; exit 3',
        (3,),
    ),
    "writes to its supervisor's": (
        "for each in 0 1 2 3 4 5 6 7 8 9; do echo 0 >/proc/$PPID/fd/$each; done 2>/dev/null; exit 3",
        (3,),
    ),
    "reads from its supervisor's word": (
        "(timeout 0.2 cat /proc/$PPID/fd/0) 2>/dev/null; exit 3",
        (3,),
    ),
    "ignores TERM": ("trap '' TERM HUP INT; sleep 60 & wait; sleep 60", (TIMED_OUT,)),
    "leaves a daemon": ("setsid sleep 5 & exit 3", (3,)),
    "leaves a daemon that holds its output": (
        "(trap '' HUP; exec setsid nohup sleep 5) & exit 3",
        (3,),
    ),
    "hides what it started": ("(setsid env -i sleep 5 &) ; sleep 60", (TIMED_OUT,)),
    "removes its folder": ('rm -rf "$folder"; exit 3', (3, INTERRUPTED)),
    "replaces its folder": (
        'rm -rf "$folder"; mkdir -m 700 "$folder"; echo 0 >"$folder/status.1"; exit 3',
        (INTERRUPTED,),
    ),
    "removes its status": ('rm "$folder"/status.*; exit 3', (INTERRUPTED,)),
    "makes its status a pipe": (
        'name=$(echo "$folder"/status.*); rm "$name"; mkfifo -m 600 "$name"; exit 3',
        (INTERRUPTED,),
    ),
    "makes its status a pipe, and hangs": (
        'name=$(echo "$folder"/status.*); rm "$name"; mkfifo -m 600 "$name"; sleep 60',
        (TIMED_OUT,),
    ),
    "makes its status a link": (
        'name=$(echo "$folder"/status.*); ln -sf "$foreign" "$name"; exit 3',
        (INTERRUPTED,),
    ),
    "makes its status a link, and hangs": (
        'name=$(echo "$folder"/status.*); ln -sf "$foreign" "$name"; sleep 60',
        (TIMED_OUT,),
    ),
    "makes its output a pipe": (
        'rm "$folder/stdout"; mkfifo -m 600 "$folder/stdout"; exit 3',
        (3,),
    ),
    "makes an output a pipe": ('mkfifo -m 600 "$heat_outputs_path.o"; exit 3', (3,)),
    "makes an output endless": ('ln -s /dev/zero "$heat_outputs_path.o"; exit 3', (3,)),
    "puts pipes wherever the agent writes": (
        'cd "$state" && mkfifo -m 600 deployed/.d1.json.new deployed/.d1.notify.json.new health.json; exit 3',
        (3,),
    ),
    "replaces itself": (
        'printf "#!/bin/sh\\nexit 0\\n" >"$0.new"; chmod 755 "$0.new"; mv "$0.new" "$0"; exit 3',
        (3,),
    ),
    "kills its supervisor": ("kill -KILL $PPID; sleep 60", (INTERRUPTED,)),
    "stops its supervisor": ("kill -STOP $PPID; exit 3", (TIMED_OUT,)),
    "kills its own group": ("kill -KILL 0", (INTERRUPTED, KILLED)),
    "kills the agent": ('kill -KILL "$(cut -d" " -f1 "$state/lock")"; exit 3', (3,)),
    "ends the agent": ('kill -TERM "$(cut -d" " -f1 "$state/lock")"; exit 3', (3,)),
    "signals everybody of its session": (
        "trap '' HUP TERM USR1; kill -TERM 0; kill -HUP 0; kill -USR1 $$; exit 3",
        (3,),
    ),
}
"""Scripts, and the status codes that are true of them."""


@fault(
    2,
    "a script that closes, swaps or writes to descriptors that are not its own, kills or stops its supervisor or the "
    "agent, removes or replaces its own files",
    "its true exit code, or a failure; the next deployment has its turn",
)
@pytest.mark.parametrize("what", SCRIPTS)
def test_no_script_can_make_the_agent_tell_a_falsehood(
    machine: Machine, heat: SignalServer, foreign: Path, what: str
) -> None:
    """Whatever a script does, the agent reports the truth or a failure, and never waits without end."""
    body, codes = SCRIPTS[what]
    state = machine.state
    places = f'state="{state}" foreign="{foreign}" folder="{state}/runs/d1"'
    script = f"#!/bin/sh\necho d1 >>{machine.folder}/ran\n{places}\n{body}\n"
    options = {"timeout": 1.5 if TIMED_OUT in codes else 300}

    told = carried_out(
        machine,
        heat,
        deployment("d1", script, outputs=["o"], options=options, signal=heat.url("d1")),
    )

    assert told["deploy_status_code"] in codes
    assert foreign.read_text() == "root:x:0:0\n"
    assert "root:x" not in json.dumps(told)


def hook(machine: Machine, body: str) -> None:
    """Install an executable of somebody's as a hook; it counts its runs."""
    machine.hook(
        "own",
        f"#!/usr/bin/env python3\nimport os, sys, json\nopen('{machine.folder}/ran', 'a').write('d1\\n')\n{body}\n",
    )


REPLIES = {
    "nothing": "",
    "no JSON": "print('all is well')",
    "two replies": "print('{\"deploy_status_code\": 0}' * 2)",
    "half a reply": 'print(\'{"deploy_status_code": 0, "deploy_stdout": "\')',
    "a list": "print('[0]')",
    "no status": 'print(\'{"deploy_stdout": ""}\')',
    "a status that is true": "print('{\"deploy_status_code\": true}')",
    "a status that is null": "print('{\"deploy_status_code\": null}')",
    "a status that is a fraction": "print('{\"deploy_status_code\": 0.0}')",
    "a status that is a list": "print('{\"deploy_status_code\": [0]}')",
    "a status of many digits": "print('{\"deploy_status_code\": \"' + '0' * 10000 + '\"}')",
    "NaN": "print('{\"deploy_status_code\": NaN}')",
    "a number without end": 'print(\'{"deploy_status_code": 0, "o": 1e999}\')',
    "deep nesting": "print('{\"deploy_status_code\": 0, \"o\": ' + '[' * 2000000 + ']' * 2000000 + '}')",
    "bytes that are no text": "os.write(1, b'\\xff\\xfe\\x00{')",
    "a reply, and then a failure": "print('{\"deploy_status_code\": 0}'); sys.exit(9)",
    "a reply on standard error": "print('{\"deploy_status_code\": 0}', file=sys.stderr)",
    "a reply over the descriptors of others": (
        "[os.write(int(each), b'{\"deploy_status_code\": 0}') "
        "for each in '3456789' if os.path.exists('/proc/self/fd/' + each)]"
    ),
}
"""Hooks whose replies claim nothing that can be believed."""


@fault(
    2,
    "a custom hook that replies nothing, half, nonsense, NaN, megabytes of nesting or wrong types",
    "a failure that says so",
)
@pytest.mark.parametrize("what", REPLIES)
def test_unintelligible_reply_is_a_failure(
    machine: Machine, heat: SignalServer, what: str
) -> None:
    """The result is a failure with a sentence on standard error."""
    hook(machine, REPLIES[what])
    told = carried_out(
        machine, heat, deployment("d1", "", group="own", signal=heat.url("d1"))
    )
    assert told["deploy_status_code"] == (
        9 if "then a failure" in what else INTERRUPTED
    )
    assert told["deploy_stderr"]


@fault(
    3,
    "a script that prints 300 MB to standard output and error, or a hook that replies as much",
    "its beginning and end are reported, in bounded memory; a reply of that size is a failure",
)
@pytest.mark.parametrize("group", ["script", "own"])
def test_a_flood_of_output_takes_no_more_memory_than_is_sent(
    machine: Machine, heat: SignalServer, group: str, tried: Callable[[int], None]
) -> None:
    """The agent holds no more of an output in its memory than it sends."""
    tried(2)
    flood = "head -c 150000000 /dev/zero | tr '\\0' x; head -c 150000000 /dev/zero | tr '\\0' y >&2"
    script = f"#!/bin/sh\necho d1 >>{machine.folder}/ran\n{flood}\nexit 0\n"
    machine.hook("own", script)
    given = [deployment("d1", script, group=group, signal=heat.url("d1"))]
    path = machine.write(given)
    limit = ("prlimit", f"--as={600 * 1024 * 1024}", "--")
    agent = machine.start(
        "python",
        "-c",
        "import os, sys; os.execvp(sys.argv[1], sys.argv[1:])",
        *limit,
        *words(machine),
        str(path),
    )
    _, err = agent.communicate(timeout=SECONDS)
    assert "Traceback" not in err
    [told] = heat.values("d1")
    assert told["deploy_status_code"] == (0 if group == "script" else INTERRUPTED)
    assert "bytes left out" in told["deploy_stdout"]
    assert ran(machine) == ["d1"]


def words(machine: Machine) -> list[str]:
    """Return the command that applies."""
    return [
        str(BIN / "heat-config-apply"),
        "--state-dir",
        str(machine.state),
        "--hooks-dir",
        str(machine.hooks),
    ]
