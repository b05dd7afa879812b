"""The end of a script and what it leaves: one truthful result, and nothing that is stuck or leaks."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from support import pace
from support.loopback import Answer, SignalServer, wait_until
from support.machine import Machine, deployment
from support.outcomes import BODY_LIMIT, SH, left_out, result


@pytest.mark.parametrize(
    ("script", "code"),
    [
        ("exit 0", 0),
        ("exit 3", 3),
        ("exit 255", 255),
        ("no-such-command-anywhere", 127),
        ("kill -9 $$", 137),
        ("kill -SEGV $$", 139),
        ("kill 0; sleep 5", 143),
        ("kill -INT 0; sleep 5", 130),
        ("kill -HUP 0; sleep 5", 129),
    ],
)
def test_the_exit_code_is_the_scripts(
    machine: Machine, heat: SignalServer, script: str, code: int
) -> None:
    """The status code is the exit code, or 128 and the signal that ended the script, even if it sent it itself."""
    value = result(machine, heat, f"{SH}echo before\n{script}\n")

    assert value["deploy_status_code"] == code
    assert value["deploy_stdout"] == "before\n"


@pytest.mark.parametrize(
    ("action", "script", "note"),
    [
        ("CREATE", "true", "declared and not produced: url, size"),
        ("UPDATE", "echo 1 >$heat_outputs_path.size", "declared and not produced: url"),
        (
            "CREATE",
            "echo 1 >$heat_outputs_path.size; echo u >$heat_outputs_path.url",
            "",
        ),
        ("DELETE", "true", ""),
    ],
)
def test_output_that_was_not_produced_is_named(
    machine: Machine, action: str, script: str, note: str
) -> None:
    """The deployment has succeeded, and its line says which outputs nothing can refer to."""
    given = deployment("d1", f"{SH}{script}\n", outputs=["url", "size"], action=action)
    done = machine.apply([given])
    assert done.code == 0, done.out + done.err
    assert ("declared and not produced" in done.out) is bool(note)
    assert note in done.out


def test_a_script_that_kills_its_supervisor_has_failed(
    machine: Machine, heat: SignalServer
) -> None:
    """Where nothing is left that could say how the script ended, its result says so, and is a failure."""
    value = result(machine, heat, f"{SH}echo before\nkill -9 0\n")

    assert value["deploy_status_code"] != 0
    assert value["deploy_stdout"] == "before\n"
    assert "killed" in value["deploy_stderr"]


@pytest.mark.parametrize(
    "interpreter",
    ["#!/no/such/interpreter\n", "#!/etc/passwd\n", "#!" + "/x" * 300 + "\n"],
)
def test_a_script_that_cannot_be_started_has_failed(
    machine: Machine, heat: SignalServer, interpreter: str
) -> None:
    """An interpreter that is not there, or is none, is a failure with a code and the system's words for it."""
    value = result(machine, heat, f"{interpreter}exit 0\n")

    assert value["deploy_status_code"] != 0
    assert value["deploy_stderr"] != ""


@pytest.mark.parametrize("by", ["option", "text option", "command line", "component"])
def test_a_time_limit_ends_the_whole_tree(
    machine: Machine, heat: SignalServer, by: str
) -> None:
    """When the limit is over every process of the run is asked to end, also one in a session of its own: status 124."""
    limit = pace.limit(1.5)
    by_option: dict[str, dict[str, Any]] = {
        "option": {"timeout": limit},
        "text option": {"timeout": f"{limit:g}"},
    }
    options = by_option.get(by, {})
    arguments = ["--timeout", f"{limit:g}"] if by == "command line" else []
    script = f"{SH}echo begun\necho why >&2\nsetsid sleep 60 &\nsleep 60\n"
    group = "script"
    config: object = script
    if by == "component":
        options = {"script": {"timeout": limit}}
        group = "component"
        config = {
            "configs": [{"tool": "script", "actions": ["CREATE"], "config": script}]
        }

    began = time.monotonic()
    value = result(machine, heat, config, *arguments, options=options, group=group)

    assert time.monotonic() - began < pace.seconds(30)
    assert value["deploy_status_code"] == 124
    assert value["deploy_stdout"] == "begun\n"
    assert "\nwhy\n" in value["deploy_stderr"]
    assert f"{limit:g} s" in value["deploy_stderr"]
    wait_until(lambda: not machine.processes())


def test_processes_that_ignore_term_are_killed(
    machine: Machine, heat: SignalServer
) -> None:
    """After the grace, what did not heed TERM gets KILL: the script, its child, and a child in a session of its own."""
    stubborn = "trap '' TERM; while :; do sleep 0.1; done"
    script = f'{SH}sh -c "{stubborn}" &\nsetsid sh -c "{stubborn}" &\necho begun\n{stubborn}\n'

    began = time.monotonic()
    value = result(
        machine, heat, script, "--grace", "0.5", options={"timeout": pace.limit(1.5)}
    )

    assert 2 < time.monotonic() - began < pace.seconds(30)
    assert value["deploy_status_code"] == 124
    assert value["deploy_stdout"] == "begun\n"
    wait_until(lambda: not machine.processes())


def test_a_script_may_tidy_up_when_its_time_is_over(
    machine: Machine, heat: SignalServer
) -> None:
    """TERM comes first, and what the script says when it gets it is in the result, which is a failure all the same."""
    script = f"{SH}trap 'echo tidied; exit 0' TERM\nsleep 60 & wait\n"

    value = result(machine, heat, script, options={"timeout": pace.limit(1)})

    assert value["deploy_status_code"] == 124
    assert value["deploy_stdout"] == "tidied\n"


@pytest.mark.parametrize("option", [0, -1, "soon", True, [5], {"seconds": 5}])
def test_invalid_time_limit_fails_its_deployment(
    machine: Machine, heat: SignalServer, option: object
) -> None:
    """A limit that cannot be understood is a mistake in the document, named with its path, and nothing is run."""
    value = result(
        machine, heat, f"{SH}touch {machine.folder}/ran\n", options={"timeout": option}
    )

    assert value["deploy_status_code"] != 0
    assert value["deploy_stderr"].startswith(f"{machine.folder}/document.json:1:")
    assert ": d1.options.timeout: " in value["deploy_stderr"]
    assert not (machine.folder / "ran").exists()


def test_hanging_script_delays_others_only_to_its_limit(
    machine: Machine, heat: SignalServer
) -> None:
    """The deployment after one that never ends is run as soon as that one is out of time."""
    hangs = deployment(
        "hangs", f"{SH}sleep 60\n", options={"timeout": 0.3}, signal=heat.url("hangs")
    )

    ran = machine.apply(
        [hangs, deployment("next", f"{SH}echo done\n", signal=heat.url("next"))]
    )

    assert ran.code == 1
    assert [
        value["deploy_status_code"]
        for value in heat.values("hangs") + heat.values("next")
    ] == [124, 0]


@pytest.mark.parametrize(
    "how",
    ["sleep 30 &", "setsid sleep 30 &", "nohup sleep 30 &", "(setsid sleep 30 &)"],
)
def test_a_script_may_start_a_daemon(
    machine: Machine, heat: SignalServer, how: str
) -> None:
    """A background process that keeps the streams open neither delays the result nor is ended with the script."""
    script = f"{SH}{how}\nsleep 0.1\necho started\n"

    began = time.monotonic()
    value = result(machine, heat, script, options={"timeout": pace.seconds(20)})

    assert time.monotonic() - began < pace.seconds(20)
    assert (value["deploy_stdout"], value["deploy_status_code"]) == ("started\n", 0)
    assert [each.name() for each in machine.processes()] == ["sleep"]


def test_binary_output_arrives(machine: Machine, heat: SignalServer) -> None:
    """Bytes other than UTF-8 are replaced, and everything else arrives as it was printed."""
    script = f"{SH}printf 'a\\377\\376\\000b\\r\\n\\033[1m'\nprintf '\\300\\n' >&2\n"
    script += "printf 'w\\303\\266\\303' >$heat_outputs_path.out\n"

    assert result(machine, heat, script, outputs=["out"]) == {
        "deploy_stdout": "a\ufffd\ufffd\0b\r\n\x1b[1m",
        "deploy_stderr": "\ufffd\n",
        "deploy_status_code": 0,
        "out": "wö\ufffd",
    }


def test_a_hundred_megabytes_are_bounded(machine: Machine, heat: SignalServer) -> None:
    """Beginning, end and size of output of any length arrive, and little is held in memory."""
    heat.answers.append(Answer(delay=1.5))
    script = (
        f"{SH}echo first\nhead -c 100000000 /dev/zero | tr '\\0' x\necho\necho last\n"
    )

    process = machine.start_apply([deployment(config=script, signal=heat.url())])
    heat.wait_for(1, 30)
    memory = (Path("/proc") / str(process.pid) / "status").read_text()
    process.communicate(timeout=pace.seconds(30))

    (signal,) = heat.signals
    text = signal.value["deploy_stdout"]
    assert len(signal.body) < BODY_LIMIT
    assert len(signal.body) > BODY_LIMIT // 2
    assert signal.value["deploy_status_code"] == 0
    assert text.startswith("first\nxxx")
    assert text.endswith("xxx\nlast\n")
    marker = f"\n[... {left_out(text):,} bytes left out ...]\n"
    assert len(text) - len(marker) + left_out(text) == 100_000_012
    peak = next(
        int(line.split()[1])
        for line in memory.splitlines()
        if line.startswith("VmHWM:")
    )
    assert peak < 64 * 1024, f"{peak} KiB"


def test_big_outputs_share_the_room(machine: Machine, heat: SignalServer) -> None:
    """Declared outputs are bounded too, together with the streams, and what is short stays whole."""
    script = (
        f"{SH}echo short\nhead -c 3000000 /dev/zero | tr '\\0' e >&2\n"
        "head -c 5000000 /dev/zero | tr '\\0' b >$heat_outputs_path.big\n"
        "head -c 1000000 /dev/zero >$heat_outputs_path.zeros\n"
        "printf whole >$heat_outputs_path.small\n"
    )

    value = result(machine, heat, script, outputs=["big", "zeros", "small"])

    assert len(heat.signals[0].body) < BODY_LIMIT
    assert (value["deploy_stdout"], value["small"], value["deploy_status_code"]) == (
        "short\n",
        "whole",
        0,
    )
    for name, size in {"big": 5_000_000, "deploy_stderr": 3_000_000}.items():
        assert (
            left_out(value[name])
            + len(value[name].replace("\n", ""))
            - len(f"[... {left_out(value[name]):,} bytes left out ...]")
            == size
        )
    assert 0 < left_out(value["zeros"]) < 1_000_000


def test_omitted_output_is_counted_in_bytes(
    machine: Machine, heat: SignalServer
) -> None:
    """Also for binary output, the count is that of the bytes that the script printed and that are not shown."""
    text = result(machine, heat, f"{SH}head -c 3000000 /dev/zero | tr '\\0' '\\377'\n")[
        "deploy_stdout"
    ]

    assert left_out(text) + text.count("\ufffd") == 3_000_000


def test_an_output_just_within_bounds_is_whole(
    machine: Machine, heat: SignalServer
) -> None:
    """Nothing is cut that fits into a signal."""
    value = result(machine, heat, f"{SH}head -c 940000 /dev/zero | tr '\\0' x\n")

    assert value["deploy_stdout"] == "x" * 940_000


@pytest.mark.parametrize(
    "make",
    [
        "mkfifo $heat_outputs_path.out",
        "mkdir $heat_outputs_path.out",
        "ln -s /dev/zero $heat_outputs_path.out",
        "ln -s /no/such/file $heat_outputs_path.out",
        "ln -s $heat_outputs_path.out $heat_outputs_path.out",
        "printf x >$heat_outputs_path.other",
        ":",
    ],
)
def test_output_other_than_a_file_counts_as_missing(
    machine: Machine, heat: SignalServer, make: str
) -> None:
    """A pipe, a folder or a device is not read, and blocks nothing."""
    script = f"{SH}{make} || exit 9\nprintf y >$heat_outputs_path.another\n"

    value = result(machine, heat, script, outputs=["out", "another"])

    assert value == {
        "deploy_stdout": "",
        "deploy_stderr": "",
        "deploy_status_code": 0,
        "another": "y",
    }


def test_an_output_may_be_a_link_to_a_file(
    machine: Machine, heat: SignalServer
) -> None:
    """A script may link its output to a file that it has anyway."""
    script = f"{SH}printf linked >there\nln -s $PWD/there $heat_outputs_path.out\n"

    assert result(machine, heat, script, outputs=["out"])["out"] == "linked"


def test_a_script_may_be_run_again_whatever_it_left(
    machine: Machine, heat: SignalServer
) -> None:
    """A folder that an earlier run left in place of an output does not stop the next."""
    given = [
        deployment(
            config=f"{SH}mkdir -p $heat_outputs_path.out/x\n",
            outputs=["out"],
            signal=heat.url(),
        )
    ]
    machine.apply(given)
    machine.agent("retry", "d1")

    assert machine.apply(given).code == 0
    assert [value["deploy_status_code"] for value in heat.values()] == [0, 0]


@pytest.mark.parametrize(
    ("write", "present"), [("printf why", True), ("printf ''", True), (None, False)]
)
def test_an_error_output_fails_where_it_was_produced(
    machine: Machine, heat: SignalServer, write: str | None, present: bool
) -> None:
    """Heat fails a deployment whose error output is there, even empty: so it is sent only where it was produced."""
    given = deployment(
        config=SH + (f"{write} >$heat_outputs_path.bad\n" if write else ""),
        outputs=[
            {"name": "bad", "error_output": True},
            {"name": "good", "error_output": False},
        ],
        signal=heat.url(),
    )

    assert machine.apply([given]).code == (1 if present else 0)
    (value,) = heat.values()
    assert ("bad" in value) is present
    assert value["deploy_status_code"] == 0
    assert machine.status()["d1"]["failed"] is present


def test_outputs_of_an_earlier_run_are_not_taken(
    machine: Machine, heat: SignalServer
) -> None:
    """A run that produces no output reports none, although an earlier one with the same id did."""
    outputs = [{"name": "out"}, {"name": "bad", "error_output": True}]
    first = f"{SH}echo old >$heat_outputs_path.out\necho old >$heat_outputs_path.bad\n"
    machine.apply([deployment(config=first, outputs=outputs, signal=heat.url())])
    machine.agent("retry", "d1")
    machine.apply([deployment(config=SH, outputs=outputs, signal=heat.url())])

    old, new = heat.values()
    assert (old["out"], old["bad"]) == ("old\n", "old\n")
    assert new == {"deploy_stdout": "", "deploy_stderr": "", "deploy_status_code": 0}


@pytest.mark.parametrize("how", [["forget", "--yes"], ["retry"]], ids=" ".join)
def test_a_shorter_script_of_the_same_id_has_no_tail(
    machine: Machine, heat: SignalServer, how: list[str]
) -> None:
    """The script is written whole: heat-agents left the end of a longer one behind it, and ran that too."""
    long, short = f"{SH}echo long\n" + "echo tail\n" * 100, f"{SH}echo short\n"
    machine.apply([deployment(config=long, signal=heat.url())])
    assert machine.agent(*how, "d1").code == 0
    machine.apply([deployment(config=short, signal=heat.url())])

    assert heat.values()[1]["deploy_stdout"] == "short\n"
    assert (machine.state / "heat-config-script" / "d1").read_text() == short
    notify = machine.state / "deployed" / "d1.notify.json"
    assert json.loads(notify.read_text()) == heat.values()[1]


def test_run_that_stopped_itself_is_ended_in_time(
    machine: Machine, heat: SignalServer
) -> None:
    """A run that has stopped all its processes, the one that watches over it too, is killed when its time is over."""
    begun = time.monotonic()
    given = deployment(
        "d1",
        f"{SH}kill -STOP 0\nsleep 60\n",
        options={"timeout": 0.3},
        signal=heat.url(),
    )

    done = machine.apply([given], "--grace", "0.2")

    assert [each["deploy_status_code"] for each in heat.values()] == [124]
    assert "cannot end process" not in done.err
    assert time.monotonic() - begun < pace.seconds(30)
