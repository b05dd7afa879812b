"""What scripts and hooks may do, and what is made of it: one truthful result, and nothing that is stuck or leaks."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from heat_config_hooks import HOOKS
from loopback import Answer, SignalServer, wait_until
from machine import BIN, Machine, deployment

SH = "#!/bin/sh\n"
BODY_LIMIT = 1024 * 1024
"""Heat refuses bodies that are longer."""


def result(
    machine: Machine,
    heat: SignalServer,
    config: object,
    *arguments: str,
    env: dict[str, Any] | None = None,
    **fields: Any,
) -> dict[str, Any]:
    """Apply one deployment, and return the one result that arrived."""
    machine.apply([deployment(config=config, signal=heat.url(), **fields)], *arguments, **(env or {}))
    assert len(heat.signals) == 1
    return heat.signals[0].value


def under(machine: Machine, prelude: str, document: object, *, keep: tuple[int, ...] = ()) -> None:
    """Apply a document with an agent that a shell starts after a prelude."""
    path = machine.write(document)
    command = [str(BIN / "heat-config-apply"), "--state-dir", str(machine.state), str(path)]
    subprocess.run(
        ["/bin/sh", "-c", f'{prelude}\nexec "$@"', "sh", *command],
        env=machine.environment,
        check=True,
        pass_fds=keep,
        capture_output=True,
        timeout=30,
    )


def left_out(text: str) -> int:
    """Return the number of bytes that a shortened text says it lacks."""
    _, found, rest = text.partition("\n[... ")
    assert found, "nothing says that something was left out"
    return int(rest.partition(" bytes left out ...]\n")[0].replace(",", ""))


# How a script ends.


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
def test_the_exit_code_is_the_scripts(machine: Machine, heat: SignalServer, script: str, code: int) -> None:
    """The status code is the exit code, or 128 and the signal that ended the script, even if it sent it itself."""
    value = result(machine, heat, f"{SH}echo before\n{script}\n")

    assert value["deploy_status_code"] == code
    assert value["deploy_stdout"] == "before\n"


def test_a_script_that_kills_its_supervisor_has_failed(machine: Machine, heat: SignalServer) -> None:
    """Where nothing is left that could say how the script ended, its result says so, and is a failure."""
    value = result(machine, heat, f"{SH}echo before\nkill -9 0\n")

    assert value["deploy_status_code"] != 0
    assert value["deploy_stdout"] == "before\n"
    assert "killed" in value["deploy_stderr"]


@pytest.mark.parametrize("interpreter", ["#!/no/such/interpreter\n", "#!/etc/passwd\n", "#!" + "/x" * 300 + "\n"])
def test_a_script_that_cannot_be_started_has_failed(machine: Machine, heat: SignalServer, interpreter: str) -> None:
    """An interpreter that is not there, or is none, is a failure with a code and the system's words for it."""
    value = result(machine, heat, f"{interpreter}exit 0\n")

    assert value["deploy_status_code"] != 0
    assert value["deploy_stderr"] != ""


@pytest.mark.parametrize("by", ["option", "text option", "command line", "component"])
def test_a_time_limit_ends_the_whole_tree(machine: Machine, heat: SignalServer, by: str) -> None:
    """When the limit is over every process of the run is asked to end, also one in a session of its own: status 124."""
    by_option: dict[str, dict[str, Any]] = {"option": {"timeout": 1.5}, "text option": {"timeout": "1.5"}}
    options = by_option.get(by, {})
    arguments = ["--timeout", "1.5"] if by == "command line" else []
    script = f"{SH}echo begun\necho why >&2\nsetsid sleep 60 &\nsleep 60\n"
    group = "script"
    config: object = script
    if by == "component":
        options = {"script": {"timeout": 1.5}}
        group = "component"
        config = {"configs": [{"tool": "script", "actions": ["CREATE"], "config": script}]}

    began = time.monotonic()
    value = result(machine, heat, config, *arguments, options=options, group=group)

    assert time.monotonic() - began < 30
    assert value["deploy_status_code"] == 124
    assert value["deploy_stdout"] == "begun\n"
    assert "\nwhy\n" in value["deploy_stderr"]
    assert "1.5 s" in value["deploy_stderr"]
    wait_until(lambda: not machine.processes())


def test_what_ignores_term_is_killed(machine: Machine, heat: SignalServer) -> None:
    """After the grace, what did not heed TERM gets KILL: the script, its child, and a child in a session of its own."""
    stubborn = "trap '' TERM; while :; do sleep 0.1; done"
    script = f'{SH}sh -c "{stubborn}" &\nsetsid sh -c "{stubborn}" &\necho begun\n{stubborn}\n'

    began = time.monotonic()
    value = result(machine, heat, script, "--grace", "0.5", options={"timeout": 1.5})

    assert 2 < time.monotonic() - began < 30
    assert value["deploy_status_code"] == 124
    assert value["deploy_stdout"] == "begun\n"
    wait_until(lambda: not machine.processes())


def test_a_script_may_tidy_up_when_its_time_is_over(machine: Machine, heat: SignalServer) -> None:
    """TERM comes first, and what the script says when it gets it is in the result, which is a failure all the same."""
    script = f"{SH}trap 'echo tidied; exit 0' TERM\nsleep 60 & wait\n"

    value = result(machine, heat, script, options={"timeout": 0.4})

    assert value["deploy_status_code"] == 124
    assert value["deploy_stdout"] == "tidied\n"


@pytest.mark.parametrize("option", [0, -1, "soon", True, [5], {"seconds": 5}])
def test_a_time_limit_that_is_none_fails(machine: Machine, heat: SignalServer, option: object) -> None:
    """A limit that cannot be understood is a mistake in the document, named with its path, and nothing is run."""
    value = result(machine, heat, f"{SH}touch {machine.folder}/ran\n", options={"timeout": option})

    assert value["deploy_status_code"] != 0
    assert "[0].options.timeout: " in value["deploy_stderr"]
    assert not (machine.folder / "ran").exists()


def test_a_hanging_script_holds_up_nobody_for_longer_than_its_limit(machine: Machine, heat: SignalServer) -> None:
    """The deployment after one that never ends is run as soon as that one is out of time."""
    hangs = deployment("hangs", f"{SH}sleep 60\n", options={"timeout": 0.3}, signal=heat.url("hangs"))

    ran = machine.apply([hangs, deployment("next", f"{SH}echo done\n", signal=heat.url("next"))])

    assert ran.code == 1
    assert [value["deploy_status_code"] for value in heat.values("hangs") + heat.values("next")] == [124, 0]


@pytest.mark.parametrize("how", ["sleep 30 &", "setsid sleep 30 &", "nohup sleep 30 &", "(setsid sleep 30 &)"])
def test_a_script_may_start_a_daemon(machine: Machine, heat: SignalServer, how: str) -> None:
    """A background process that keeps the streams open neither delays the result nor is ended with the script."""
    script = f"{SH}{how}\nsleep 0.1\necho started\n"

    began = time.monotonic()
    value = result(machine, heat, script, options={"timeout": 20})

    assert time.monotonic() - began < 20
    assert (value["deploy_stdout"], value["deploy_status_code"]) == ("started\n", 0)
    assert [each.name() for each in machine.processes()] == ["sleep"]


# What a script prints.


def test_binary_output_arrives(machine: Machine, heat: SignalServer) -> None:
    """Bytes that are no UTF-8 are replaced, and everything else arrives as it was printed."""
    script = f"{SH}printf 'a\\377\\376\\000b\\r\\n\\033[1m'\nprintf '\\300\\n' >&2\n"
    script += "printf 'w\\303\\266\\303' >$heat_outputs_path.out\n"

    assert result(machine, heat, script, outputs=["out"]) == {
        "deploy_stdout": "a\ufffd\ufffd\0b\r\n\x1b[1m",
        "deploy_stderr": "\ufffd\n",
        "deploy_status_code": 0,
        "out": "wö\ufffd",
    }


def test_a_hundred_megabytes_are_bounded(machine: Machine, heat: SignalServer) -> None:
    """Of output of any size its beginning, its end and the count of the rest arrive, and little is held in memory."""
    heat.answers.append(Answer(delay=1.5))
    script = f"{SH}echo first\nhead -c 100000000 /dev/zero | tr '\\0' x\necho\necho last\n"

    process = machine.start_apply([deployment(config=script, signal=heat.url())])
    heat.wait_for(1, 30)
    memory = (Path("/proc") / str(process.pid) / "status").read_text()
    process.communicate(timeout=30)

    (signal,) = heat.signals
    text = signal.value["deploy_stdout"]
    assert len(signal.body) < BODY_LIMIT
    assert len(signal.body) > BODY_LIMIT // 2
    assert signal.value["deploy_status_code"] == 0
    assert text.startswith("first\nxxx")
    assert text.endswith("xxx\nlast\n")
    marker = f"\n[... {left_out(text):,} bytes left out ...]\n"
    assert len(text) - len(marker) + left_out(text) == 100_000_012
    peak = next(int(line.split()[1]) for line in memory.splitlines() if line.startswith("VmHWM:"))
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
    assert (value["deploy_stdout"], value["small"], value["deploy_status_code"]) == ("short\n", "whole", 0)
    for name, size in {"big": 5_000_000, "deploy_stderr": 3_000_000}.items():
        assert (
            left_out(value[name])
            + len(value[name].replace("\n", ""))
            - len(f"[... {left_out(value[name]):,} bytes left out ...]")
            == size
        )
    assert 0 < left_out(value["zeros"]) < 1_000_000


def test_what_is_left_out_is_counted_in_the_files_bytes(machine: Machine, heat: SignalServer) -> None:
    """Of binary output too the count is that of the bytes that the script printed and nobody gets to see."""
    text = result(machine, heat, f"{SH}head -c 3000000 /dev/zero | tr '\\0' '\\377'\n")["deploy_stdout"]

    assert left_out(text) + text.count("\ufffd") == 3_000_000


def test_an_output_just_within_bounds_is_whole(machine: Machine, heat: SignalServer) -> None:
    """Nothing is cut that fits into a signal."""
    value = result(machine, heat, f"{SH}head -c 940000 /dev/zero | tr '\\0' x\n")

    assert value["deploy_stdout"] == "x" * 940_000


# What a script leaves in place of an output.


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
def test_an_output_that_is_no_file_was_not_produced(machine: Machine, heat: SignalServer, make: str) -> None:
    """A pipe, a folder, a device or nothing at all is no output, and blocks nothing."""
    script = f"{SH}{make} || exit 9\nprintf y >$heat_outputs_path.another\n"

    value = result(machine, heat, script, outputs=["out", "another"])

    assert value == {"deploy_stdout": "", "deploy_stderr": "", "deploy_status_code": 0, "another": "y"}


def test_an_output_may_be_a_link_to_a_file(machine: Machine, heat: SignalServer) -> None:
    """A script may link its output to a file that it has anyway."""
    script = f"{SH}printf linked >there\nln -s $PWD/there $heat_outputs_path.out\n"

    assert result(machine, heat, script, outputs=["out"])["out"] == "linked"


def test_a_script_may_be_run_again_whatever_it_left(machine: Machine, heat: SignalServer) -> None:
    """A folder that an earlier run left in place of an output does not stop the next."""
    given = [deployment(config=f"{SH}mkdir -p $heat_outputs_path.out/x\n", outputs=["out"], signal=heat.url())]
    machine.apply(given)
    machine.agent("retry", "d1")

    assert machine.apply(given).code == 0
    assert [value["deploy_status_code"] for value in heat.values()] == [0, 0]


@pytest.mark.parametrize(("write", "present"), [("printf why", True), ("printf ''", True), (None, False)])
def test_an_error_output_fails_where_it_was_produced(
    machine: Machine, heat: SignalServer, write: str | None, present: bool
) -> None:
    """Heat fails a deployment whose error output is there, even empty: so it is sent only where it was produced."""
    given = deployment(
        config=SH + (f"{write} >$heat_outputs_path.bad\n" if write else ""),
        outputs=[{"name": "bad", "error_output": True}, {"name": "good", "error_output": False}],
        signal=heat.url(),
    )

    assert machine.apply([given]).code == (1 if present else 0)
    (value,) = heat.values()
    assert ("bad" in value) is present
    assert value["deploy_status_code"] == 0
    assert machine.status()["d1"]["failed"] is present


def test_outputs_of_an_earlier_run_are_not_taken(machine: Machine, heat: SignalServer) -> None:
    """A run that produces no output reports none, although an earlier one with the same id did."""
    outputs = [{"name": "out"}, {"name": "bad", "error_output": True}]
    first = f"{SH}echo old >$heat_outputs_path.out\necho old >$heat_outputs_path.bad\n"
    machine.apply([deployment(config=first, outputs=outputs, signal=heat.url())])
    machine.agent("retry", "d1")
    machine.apply([deployment(config=SH, outputs=outputs, signal=heat.url())])

    old, new = heat.values()
    assert (old["out"], old["bad"]) == ("old\n", "old\n")
    assert new == {"deploy_stdout": "", "deploy_stderr": "", "deploy_status_code": 0}


@pytest.mark.parametrize("how", ["forget", "retry"])
def test_a_shorter_script_of_the_same_id_has_no_tail(machine: Machine, heat: SignalServer, how: str) -> None:
    """The script is written whole: heat-agents left the end of a longer one behind it, and ran that too."""
    long, short = f"{SH}echo long\n" + "echo tail\n" * 100, f"{SH}echo short\n"
    machine.apply([deployment(config=long, signal=heat.url())])
    machine.agent(how, "d1")
    machine.apply([deployment(config=short, signal=heat.url())])

    assert heat.values()[1]["deploy_stdout"] == "short\n"
    assert (machine.state / "heat-config-script" / "d1").read_text() == short
    notify = machine.state / "deployed" / "d1.notify.json"
    assert json.loads(notify.read_text()) == heat.values()[1]


# What a script looks like.


@pytest.mark.parametrize("config", ["", " \n\t\n", None])
def test_an_empty_config_is_done(machine: Machine, heat: SignalServer, config: object) -> None:
    """There is nothing to run, and that is reported as done, with a note."""
    value = result(machine, heat, config)

    assert value["deploy_status_code"] == 0
    assert "empty" in value["deploy_stderr"]


@pytest.mark.parametrize(
    "config",
    [
        pytest.param("x=1\nif [ $x = 1 ]\nthen\necho yes\nfi\n", id="no-shebang"),
        pytest.param("#!/bin/sh\r\nx=1\r\nif [ $x = 1 ]\r\nthen\r\necho yes\r\nfi\r\n", id="crlf"),
        pytest.param("\ufeff#!/bin/sh\necho yes\n", id="bom"),
        pytest.param("\ufeff#!/bin/sh\r\nif true\r\nthen\r\necho yes\r\nfi\r\n", id="bom-crlf"),
        pytest.param("\ufeffecho yes\n", id="bom-no-shebang"),
        pytest.param("if true\r\nthen\r\necho yes\r\nfi\r\n", id="crlf-no-shebang"),
        pytest.param("#!/bin/sh\necho yes", id="no-newline-at-the-end"),
        pytest.param("#! /usr/bin/env sh\necho yes\n", id="env"),
        pytest.param("#!/bin/sh -e\r\necho yes\r\nfalse || true\r\n", id="argument-crlf"),
    ],
)
def test_a_script_runs_however_it_was_written(machine: Machine, heat: SignalServer, config: str) -> None:
    """Without `#!` it is the shell's; line ends and the byte order mark of other systems are no part of it."""
    assert result(machine, heat, config) == {"deploy_stdout": "yes\n", "deploy_stderr": "", "deploy_status_code": 0}


def test_a_script_is_written_byte_for_byte(machine: Machine, heat: SignalServer) -> None:
    """A script's own carriage returns and characters outside ASCII are left alone."""
    script = f"{SH}printf 'a\r\n☃ 𝄞'; cat $0 >{machine.folder}/copy\n"

    assert result(machine, heat, script)["deploy_stdout"] == "a\r\n☃ 𝄞"
    assert (machine.folder / "copy").read_bytes() == script.encode()


@pytest.mark.parametrize("config", [{"a": 1}, ["#!/bin/sh"], 5, True])
def test_a_script_that_is_no_text_fails(machine: Machine, heat: SignalServer, config: object) -> None:
    """A structure is no script; the failure names the place."""
    value = result(machine, heat, config)

    assert value["deploy_status_code"] != 0
    assert "[0].config: " in value["deploy_stderr"]


# What a script is given.


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("text", "text"),
        ("", ""),
        ("wörld ☃ 𝄞", "wörld ☃ 𝄞"),
        ("two\nlines\t\"quoted\" 'x' $HOME `id`\\\n", "two\nlines\t\"quoted\" 'x' $HOME `id`\\\n"),
        ("a\0b", "ab"),
        (True, "true"),
        (False, "false"),
        (8080, "8080"),
        (-2.5, "-2.5"),
        (None, ""),
        ([], "[]"),
        ([1, "a", None], '[1,"a",null]'),
        ({"k": [1, 2.5, None, "é"]}, '{"k":[1,2.5,null,"\\u00e9"]}'),
    ],
)
def test_an_input_becomes_text(machine: Machine, heat: SignalServer, value: object, text: str) -> None:
    """Each type of input has one text in the environment, and is itself in the file of inputs."""
    script = (
        f'{SH}printf "%s" "${{given-unset}}" >$heat_outputs_path.text\ncp $HEAT_INPUTS_FILE {machine.folder}/inputs\n'
    )

    assert result(machine, heat, script, inputs={"given": value}, outputs=["text"])["text"] == text
    assert json.loads((machine.folder / "inputs").read_text())["given"] == value


@pytest.mark.parametrize(
    ("item", "text", "value"),
    [
        ({"type": "String", "value": 1}, "1", "1"),
        ({"type": "String", "value": {"a": [1]}}, '{"a":[1]}', '{"a":[1]}'),
        ({"type": "String", "value": None}, "", ""),
        ({"type": "String"}, "", ""),
        ({"type": "String", "default": 5}, "5", "5"),
        ({"type": "Number", "value": 1, "default": 5}, "1", 1),
        ({"type": "Number", "default": 5}, "5", 5),
        ({"type": "Number", "value": "1"}, "1", "1"),
        ({"type": "Json"}, "", None),
        ({"value": "", "default": "x"}, "", ""),
    ],
)
def test_an_input_without_a_value_has_its_default(
    machine: Machine, heat: SignalServer, item: dict[str, object], text: str, value: object
) -> None:
    """Defaults stand in, what is said to be a string is made one, and nothing at all is empty: no input stops a run."""
    script = f'{SH}printf "%s" "${{given-unset}}"\ncp $HEAT_INPUTS_FILE {machine.folder}/inputs\n'

    found = result(machine, heat, script, inputs=[{"name": "given", **item}])

    assert (found["deploy_stdout"], found["deploy_status_code"]) == (text, 0)
    assert json.loads((machine.folder / "inputs").read_text())["given"] == value


@pytest.mark.parametrize(
    "name",
    [
        "PATH",
        "LD_PRELOAD",
        "LD_LIBRARY_PATH",
        "BASH_ENV",
        "ENV",
        "IFS",
        "PS4",
        "PYTHONPATH",
        "PERL5OPT",
        "HEAT_INPUTS_FILE",
        "heat_outputs_path",
        "my-input",
        "1st",
        "a=b",
        "with space",
        "ünï",
        "BASH_FUNC_ls%%",
    ],
)
def test_an_odd_name_changes_nothing_in_the_environment(machine: Machine, heat: SignalServer, name: str) -> None:
    """An input can take over neither how programs start nor our own variables, but is in the file of inputs."""
    script = f"{SH}cp $HEAT_INPUTS_FILE {machine.folder}/inputs\ncat /proc/self/environ >{machine.folder}/environ\n"
    script += "echo $heat_outputs_path\n"

    value = result(machine, heat, script, inputs={name: "/tmp/evil.so", "fine": "1"})

    assert value["deploy_status_code"] == 0, value
    assert value["deploy_stdout"] == f"{machine.state}/run/heat-config-script/d1\n"
    environ = (machine.folder / "environ").read_bytes()
    assert b"evil" not in environ
    assert b"fine=1\0" in environ
    assert json.loads((machine.folder / "inputs").read_text())[name] == "/tmp/evil.so"


@pytest.mark.parametrize(("size", "present"), [(100_000, True), (131_000, True), (131_072, False), (3_000_000, False)])
def test_a_huge_input_is_in_the_file(machine: Machine, heat: SignalServer, size: int, present: bool) -> None:
    """What Linux takes for no variable does not stop the script from being started."""
    script = f'{SH}echo "${{big:+set}}"\ncp $HEAT_INPUTS_FILE {machine.folder}/inputs\n'

    value = result(machine, heat, script, inputs={"big": "x" * size})

    assert (value["deploy_status_code"], value["deploy_stdout"]) == (0, "set\n" if present else "\n")
    assert json.loads((machine.folder / "inputs").read_text())["big"] == "x" * size


def test_many_big_inputs_are_in_the_file(machine: Machine, heat: SignalServer) -> None:
    """Together they may be more than an environment holds, and the script starts all the same."""
    inputs = {f"big{number}": "x" * 100_000 for number in range(40)}

    value = result(machine, heat, f"{SH}cp $HEAT_INPUTS_FILE {machine.folder}/inputs\n", inputs=inputs)

    assert value["deploy_status_code"] == 0, value
    assert inputs.items() <= json.loads((machine.folder / "inputs").read_text()).items()


@pytest.mark.parametrize("asked", [False, True])
def test_credentials_are_given_only_to_those_who_ask(machine: Machine, heat: SignalServer, asked: bool) -> None:
    """What Heat is spoken to with reaches neither environment nor file of a script without the option for it."""
    secrets = {"deploy_password": "pa55-word", "deploy_user_id": "u5er-id", "deploy_username": "u5er-name"}
    script = f"{SH}cp $HEAT_INPUTS_FILE {machine.folder}/inputs\ncat /proc/self/environ >{machine.folder}/environ\n"
    options = {"deploy_credentials": True} if asked else {}

    assert result(machine, heat, script, inputs=secrets, options=options)["deploy_status_code"] == 0

    secrets["deploy_signal_id"] = heat.url()
    environ, given = (machine.folder / "environ").read_text(), (machine.folder / "inputs").read_text()
    inputs = json.loads(given)
    for name, value in secrets.items():
        assert (f"{name}={value}\0" in environ) is asked
        assert (value in environ) is asked
        assert (inputs.get(name) == value) is asked
        assert (value in given) is asked
    assert inputs["deploy_action"] == "CREATE"


@pytest.mark.parametrize(
    ("ask", "found"),
    [(True, "given"), ("true", "given"), ("True", "given"), (False, "unset"), ("false", "unset"), (None, "unset")],
)
def test_only_true_asks_for_credentials(machine: Machine, heat: SignalServer, ask: object, found: str) -> None:
    """Anything but true is not enough; a template's parameter may have made text of it."""
    script = f"{SH}[ -z ${{deploy_password+x}} ] && echo unset || echo given\n"

    value = result(machine, heat, script, inputs={"deploy_password": "pa55"}, options={"deploy_credentials": ask})

    assert value["deploy_stdout"] == f"{found}\n"


@pytest.mark.parametrize("ask", [2, "yes", " ", [True]], ids=repr)
def test_what_may_ask_for_credentials_is_a_mistake(machine: Machine, heat: SignalServer, ask: object) -> None:
    """Nothing is run: it is neither given what perhaps it must not have, nor left without what it perhaps needs."""
    value = result(machine, heat, f"{SH}echo ran\n", options={"deploy_credentials": ask})

    assert (value["deploy_status_code"], value["deploy_stdout"]) == (125, "")
    assert "options.deploy_credentials: expected true or false" in value["deploy_stderr"]


@pytest.mark.parametrize("end", ["exit 0", "exit 1", "sleep 60", "kill -9 0"])
def test_the_file_of_inputs_goes_with_the_run(machine: Machine, heat: SignalServer, end: str) -> None:
    """However a run ends, the inputs that were written for it are removed: secrets may be among them."""
    script = f"{SH}echo $HEAT_INPUTS_FILE; stat -c %a $HEAT_INPUTS_FILE\n{end}\n"

    value = result(machine, heat, script, inputs={"db_password": "x"}, options={"timeout": 0.4})

    path, mode = value["deploy_stdout"].split()
    assert mode == "600"
    assert not Path(path).exists()


def test_the_environment_is_clean(machine: Machine, heat: SignalServer) -> None:
    """Of the agent's own environment a script gets what a program needs to work at all, and `HEAT_*`."""
    kept = {"LC_TIME": "C", "no_proxy": "127.0.0.1", "HEAT_SITE": "here", "USER": "me"}
    foreign = {
        "AWS_SECRET_ACCESS_KEY": "x",
        "OS_PASSWORD": "x",
        "XDG_STATE_HOME": "/x",
        "BASH_ENV": "/x",
        "TMPDIR": "/tmp",
    }
    script = f"{SH}cat /proc/self/environ >{machine.folder}/environ\n"

    result(machine, heat, script, inputs={"mine": "1"}, env={**kept, **foreign})

    lines = (machine.folder / "environ").read_text().rstrip("\0").split("\0")
    found = dict(line.split("=", 1) for line in lines)
    usual = {name: value for name, value in machine.environment.items() if name not in foreign}
    given = {**usual, **kept, "mine": "1", "deploy_action": "CREATE", "deploy_signal_verb": "POST"}
    assert given.items() <= found.items()
    ours = {name for name in found.keys() - given.keys() if name.startswith(("HEAT_", "heat_"))}
    assert {"HEAT_INPUTS_FILE", "heat_outputs_path"} <= ours
    others = found.keys() - given.keys() - ours - {"planted"}  # an input that every deployment of the tests has
    assert others <= {"PWD", "SHLVL", "_"}, "set by the shell itself"


def test_signals_are_at_their_defaults(machine: Machine) -> None:
    """Whoever started the agent may ignore signals; what a script and its daemons ignore is their own affair."""
    script = f"{SH}grep -E '^Sig(Blk|Ign)' /proc/self/status >{machine.folder}/signals\nyes | head -1 >/dev/null\n"

    under(machine, "trap '' HUP INT QUIT PIPE TERM USR1 USR2 XFSZ", [deployment(config=script)])

    masks = dict(line.split(":\t") for line in (machine.folder / "signals").read_text().splitlines())
    assert int(masks["SigBlk"], 16) == 0
    assert int(masks["SigIgn"], 16) & 0x7FFFFFFF == 0


def test_no_descriptors_are_inherited(machine: Machine) -> None:
    """A script has its three streams, and nothing of what the agent holds or was started with; it reads nothing."""
    script = f"{SH}cat; for each in /proc/self/fd/*; do readlink $each; done >{machine.folder}/open; exit 0\n"
    reader, writer = os.pipe()
    try:
        under(machine, ":", [deployment(config=script)], keep=(reader, writer))
    finally:
        os.close(reader)
        os.close(writer)

    # The shell has the script itself open.
    allowed = {"/dev/null", str(machine.folder / "open"), str(machine.state / "runs" / "d1" / "stderr")}
    found = set((machine.folder / "open").read_text().split())
    assert not {each for each in found - allowed if not each.endswith("/heat-config-script/d1")}


@pytest.mark.parametrize("umask", ["0022", "0027", "0000"])
def test_the_umask_is_left_alone(machine: Machine, umask: str) -> None:
    """A script makes files as it would by hand, while ours are for nobody else's eyes whatever the umask."""
    under(machine, f"umask {umask}", [deployment(config=f"{SH}umask >{machine.folder}/umask\n", outputs=["out"])])

    assert (machine.folder / "umask").read_text() == f"{umask}\n"
    for path in machine.state.rglob("*"):
        wanted = 0o700 if path.is_dir() or path.parent.name == "heat-config-script" else 0o600
        assert stat.S_IMODE(path.lstat().st_mode) == wanted, path


def test_the_folders_of_scripts_can_be_chosen(machine: Machine, heat: SignalServer) -> None:
    """$HEAT_SCRIPT_WORKING has the scripts, each under its id, and is where they run; $HEAT_SCRIPT_OUTPUTS results."""
    working, outputs = machine.folder / "my working", machine.folder / "my outputs"
    script = f'{SH}pwd\necho "$0"\nstat -c %a "$0"\necho "$heat_outputs_path"\nprintf x >"$heat_outputs_path.out"\n'
    places = {"HEAT_SCRIPT_WORKING": str(working), "HEAT_SCRIPT_OUTPUTS": str(outputs)}

    value = result(machine, heat, script, outputs=["out"], env=places)

    assert value["deploy_stdout"].splitlines() == [str(working), str(working / "d1"), "700", str(outputs / "d1")]
    assert value["out"] == "x"
    assert (outputs / "d1.out").read_text() == "x"


@pytest.mark.parametrize("identity", ["../evil", "a/b", ".hidden", "a.b", "x" * 300, "ünï", "a b"])
def test_an_id_is_no_path(machine: Machine, heat: SignalServer, identity: str) -> None:
    """An id that is no safe file name leads nowhere, and its deployment is carried out all the same."""
    given = deployment(identity, f"{SH}printf x >$heat_outputs_path.out\n", outputs=["out"], signal=heat.url())
    before = {path for path in machine.folder.rglob("*") if machine.state not in path.parents}

    assert machine.apply([given]).code == 0
    assert [value["out"] for value in heat.values()] == ["x"]
    after = {path for path in machine.folder.rglob("*") if machine.state not in path.parents}
    assert after - before <= {machine.state, machine.folder / "document.json"}
    assert not [path for path in machine.state.rglob("*") if "evil" in path.name or path.name.startswith(".")]


# Hooks that are executables.


def hook_replying(reply: object, then: str = "exit 0") -> str:
    """Return a hook that prints a reply and does something then."""
    text = reply if isinstance(reply, str) else json.dumps(reply)
    return f"{SH}cat >\"$0.given\"\ncat <<'END'\n{text}\nEND\n{then}\n"


def test_a_hook_gets_the_deployment_as_it_came(machine: Machine, heat: SignalServer) -> None:
    """Unknown keys and credentials and all; only a component's config is chosen, and String inputs are made text."""
    machine.hook("puppet", hook_replying({"deploy_status_code": 0}))
    inputs = [
        {"name": "s", "type": "String", "value": 1, "description": "kept", "x": [None]},
        {"name": "n", "type": "Number", "value": 1},
        {"name": "j", "type": "Json", "value": {"a": [1, None]}},
        {"name": "u", "value": 5},
        {"name": "deploy_password", "type": "String", "value": "pa55"},
    ]
    configs = [
        {"actions": ["DELETE"], "tool": "script", "config": "no"},
        {"actions": ["CREATE"], "tool": "puppet", "config": {"any": ["thing"]}, "more": 1},
    ]
    extra: dict[str, Any] = {"x-future": {"deep": [1, {"k": "ü"}]}, "deploy": None}
    given = deployment(
        config={"configs": configs},
        group="component",
        inputs=inputs,
        outputs=[{"name": "out", "description": "kept"}],
        options={"puppet": {"tags": "x"}, "other": 1},
        signal=heat.url(),
        **extra,
    )

    machine.apply([given])

    got = json.loads((machine.hooks / "puppet.given").read_text())
    wanted = {**given, "group": "puppet", "config": {"any": ["thing"]}}
    wanted["inputs"] = [{**given["inputs"][0], "value": "1"}, *given["inputs"][1:]]
    assert got == wanted


def test_a_hooks_reply_is_passed_on_unchanged(machine: Machine, heat: SignalServer) -> None:
    """Every key and every type of the reply is signalled, and kept in `ID.notify.json`; what it logs is not."""
    reply = {
        "deploy_stdout": "é\r\n\0",
        "deploy_stderr": "",
        "deploy_status_code": "0",
        "number": 5,
        "float": 1.5,
        "map": {"a": [None, True, {"ü": ""}]},
        "null": None,
        "": "no name",
    }
    machine.hook("puppet", hook_replying(reply, "echo logged >&2"))

    assert machine.apply([deployment(group="puppet", config={}, signal=heat.url())]).code == 0
    assert heat.values() == [reply]
    assert json.loads((machine.state / "deployed" / "d1.notify.json").read_text()) == reply


@pytest.mark.parametrize("code", [4, "4", -1, "127"])
def test_a_hook_may_report_a_failure(machine: Machine, heat: SignalServer, code: object) -> None:
    """A status code other than 0, a number or text that holds one, is the deployment's failure."""
    reply = {"deploy_stdout": "", "deploy_stderr": "why", "deploy_status_code": code}
    machine.hook("puppet", hook_replying(reply))

    assert machine.apply([deployment(group="puppet", signal=heat.url())]).code == 1
    assert heat.values() == [reply]


def test_a_hook_that_dies_is_reported_as_it_died(machine: Machine, heat: SignalServer) -> None:
    """Its exit code is the status code, and what it printed stands in the result."""
    machine.hook("puppet", f"{SH}echo out\necho err >&2\nexit 7\n")

    assert machine.apply([deployment(group="puppet", signal=heat.url())]).code == 1
    assert heat.values() == [{"deploy_stdout": "out\n", "deploy_stderr": "err\n", "deploy_status_code": 7}]


@pytest.mark.parametrize(
    ("script", "code"),
    [
        (f"{SH}exit 7\n", 7),
        (f"{SH}kill -9 $$\n", 137),
        (hook_replying({"deploy_status_code": 0, "deploy_stdout": "fine"}, "exit 3"), 3),
        (hook_replying({}, "exit 3"), 3),
        (hook_replying("[]", "exit 3"), 3),
        (hook_replying({"deploy_status_code": 9}, "exit 3"), 9),
        ("#!/no/such/interpreter\n", 126),
    ],
)
def test_a_hooks_exit_code_wins(machine: Machine, heat: SignalServer, script: str, code: int) -> None:
    """Whatever it printed, a hook that failed has failed: Heat takes a reply without a status code for success."""
    machine.hook("puppet", script)

    assert result(machine, heat, None, group="puppet")["deploy_status_code"] == code
    assert machine.status()["d1"]["failed"] is True


@pytest.mark.parametrize(
    "reply",
    [
        "",
        "nonsense",
        "{",
        '{"deploy_status_code": 0} trailing',
        '{"deploy_status_code": 0}\n{"deploy_status_code": 0}',
        "Installing...\n{}",
        "[1, 2]",
        "3",
        "null",
        '"text"',
        "true",
        "{}",
        '{"deploy_stdout": "fine"}',
        '{"deploy_status_code": null}',
        '{"deploy_status_code": true}',
        '{"deploy_status_code": "all well"}',
        '{"deploy_status_code": 0.5}',
        '{"deploy_status_code": [0]}',
        "[" * 100_000,
    ],
)
def test_a_reply_that_says_nothing_is_a_failure(machine: Machine, heat: SignalServer, reply: str) -> None:
    """A hook that ended well but did not say so in its reply is reported as failed, in words, with what it printed."""
    machine.hook("puppet", hook_replying(reply) if reply else f"{SH}echo logged >&2\n")

    value = result(machine, heat, None, group="puppet")

    assert value["deploy_status_code"] not in (0, "0", None, True)
    assert "puppet" in value["deploy_stderr"]
    if not reply.startswith("{") or not reply.endswith("}"):
        assert value["deploy_stdout"].strip().startswith(reply[:1000])
    assert machine.status()["d1"]["failed"] is True


def test_a_hook_that_cannot_be_run_is_a_failure(machine: Machine, heat: SignalServer) -> None:
    """A file in the hook directory that nobody may execute is answered, and said to be the reason."""
    machine.hook("puppet", hook_replying({"deploy_status_code": 0}), mode=0o644)

    value = result(machine, heat, None, group="puppet")

    assert value["deploy_status_code"] == 126
    assert "puppet" in value["deploy_stderr"]
    assert "cannot be run; make it executable with «chmod +x " in value["deploy_stderr"]


def test_a_secret_in_a_number_spoils_no_reply(machine: Machine, heat: SignalServer) -> None:
    """Where a value that is no text holds a secret, the secret is hidden and the result delivered."""
    reply = {"deploy_status_code": 0, "deploy_stdout": "", "deploy_stderr": "", "pin": 424242, "list": [1424242, "x"]}
    machine.hook("puppet", hook_replying(reply))
    inputs = [{"name": "pin_code", "type": "Number", "value": 424242, "hidden": True}]

    ran = machine.apply([deployment(group="puppet", inputs=inputs, signal=heat.url())])

    assert ran.code == 0, ran.err
    (value,) = heat.values()
    assert value["deploy_status_code"] == 0
    assert b"424242" not in heat.signals[0].body


def test_a_huge_reply_is_bounded(machine: Machine, heat: SignalServer) -> None:
    """A hook's reply is shortened like a script's output, whatever the type of its values."""
    reply = {"deploy_status_code": 0, "deploy_stdout": "x" * 3_000_000, "list": ["y" * 1000] * 3000, "n": [1]}
    machine.hook("puppet", f'{SH}cat "$0.reply"\n')
    (machine.hooks / "puppet.reply").write_text(json.dumps(reply))

    value = result(machine, heat, None, group="puppet")

    assert len(heat.signals[0].body) < BODY_LIMIT
    assert (value["deploy_status_code"], value["n"]) == (0, [1])
    assert left_out(value["deploy_stdout"]) > 2_000_000
    assert left_out(value["list"]) > 2_000_000


def test_a_hook_that_hangs_is_ended(machine: Machine, heat: SignalServer) -> None:
    """The time limit holds for hooks of other people's too, and a reply that came before it was over does not count."""
    machine.hook("puppet", hook_replying({"deploy_status_code": 0}, "sleep 60"))

    assert result(machine, heat, None, "--timeout", "0.4", group="puppet")["deploy_status_code"] == 124
    wait_until(lambda: not machine.processes())


@pytest.mark.parametrize("end", ["exit 0", "exit 1", "sleep 60", "kill -9 0"])
def test_what_a_hook_was_given_goes_with_the_run(machine: Machine, heat: SignalServer, end: str) -> None:
    """However a hook ends, the deployment that was written for it to read is removed: secrets are in it."""
    machine.hook("puppet", hook_replying({"deploy_status_code": 0}, end))

    result(machine, heat, None, "--timeout", "0.4", group="puppet", inputs={"db_password": "gr8-secret"})

    assert "gr8-secret" in (machine.hooks / "puppet.given").read_text()
    assert not [path for path in (machine.state / "runs").rglob("*") if path.is_file() and b"gr8" in path.read_bytes()]


def test_a_hook_in_a_directory_wins_over_ours(machine: Machine, heat: SignalServer) -> None:
    """Who puts a hook named `script` in a hook directory means it."""
    machine.hook("script", hook_replying({"deploy_status_code": 0, "deploy_stdout": "theirs"}))

    assert result(machine, heat, f"{SH}echo ours\n")["deploy_stdout"] == "theirs"


def test_hook_directories_have_an_order(machine: Machine, heat: SignalServer) -> None:
    """Those on the command line come first, in their order, then $HEAT_CONFIG_HOOKS."""
    machine.hook("one", hook_replying({"deploy_status_code": 0, "from": "first"}))
    second, third = machine.folder / "second", machine.folder / "third"
    for folder, names in {second: ("one", "two"), third: ("one", "two", "three")}.items():
        folder.mkdir()
        for name in names:
            (folder / name).write_text(hook_replying({"deploy_status_code": 0, "from": folder.name}))
            (folder / name).chmod(0o755)
    given = [deployment(name, group=name, signal=heat.url(name)) for name in ("one", "two", "three")]

    machine.apply(given, "--hooks-dir", str(second), HEAT_CONFIG_HOOKS=str(third))

    assert [heat.values(name)[0]["from"] for name in ("one", "two", "three")] == ["first", "second", "third"]


@pytest.mark.parametrize(
    ("group", "hook"),
    [("../evil", "evil"), ("/etc/../pup.pet", "etcpuppet"), ("docker cmd", "dockercmd"), ("docker-cmd", "docker-cmd")],
)
def test_a_group_is_no_path(machine: Machine, heat: SignalServer, group: str, hook: str) -> None:
    """Odd characters of a tool's name are removed, as heat-agents does, so that it never leaves the hook directory."""
    machine.hook(hook, hook_replying({"deploy_status_code": 0, "deploy_stdout": "inside"}))
    outside = machine.folder / "evil"
    outside.write_text(f"{SH}touch {machine.folder}/escaped\n")
    outside.chmod(0o755)

    assert result(machine, heat, None, group=group)["deploy_stdout"] == "inside"
    assert not (machine.folder / "escaped").exists()


@pytest.mark.parametrize("group", ["cfengine", "../evil", "../..", "..", "/", "☃", "$(id)", "deployed/../../evil"])
def test_a_tool_without_a_hook_is_a_failure(machine: Machine, heat: SignalServer, group: str) -> None:
    """No hook for the tool: that is answered at once with 127 and the tools there are, and nothing outside is run."""
    machine.hook("mine", SH)
    (machine.folder / "evil").write_text(f"{SH}touch {machine.folder}/escaped\n")
    (machine.folder / "evil").chmod(0o755)

    value = result(machine, heat, None, group=group)

    assert value["deploy_status_code"] == 127
    assert repr(group) in value["deploy_stderr"]
    assert value["deploy_stderr"].endswith(f"installed: {', '.join(sorted({'mine', *HOOKS}))}\n")
    assert not (machine.folder / "escaped").exists()


@pytest.mark.parametrize("group", ["Heat::Ungrouped", "os-apply-config", None])
def test_groups_that_name_no_tool_are_passed_over(machine: Machine, heat: SignalServer, group: str | None) -> None:
    """Metadata for other programs is neither run nor answered."""
    ran = machine.apply([deployment(group=group, config={"a": 1}, signal=heat.url())])

    assert ran.code == 0, ran.err
    assert "skipped" in ran.out
    assert heat.signals == []


def test_what_has_stopped_itself_is_ended_in_time(machine: Machine, heat: SignalServer) -> None:
    """A run that has stopped all its processes, the one that watches over it too, is killed when its time is over."""
    begun = time.monotonic()
    given = deployment("d1", f"{SH}kill -STOP 0\nsleep 60\n", options={"timeout": 0.3}, signal=heat.url())

    done = machine.apply([given], "--grace", "0.2")

    assert [each["deploy_status_code"] for each in heat.values()] == [124]
    assert "cannot be ended" not in done.err
    assert time.monotonic() - begun < 30
