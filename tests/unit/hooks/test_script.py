from __future__ import annotations

import json
import os
import stat
import subprocess
from pathlib import Path
from typing import Any

import pytest

from heat_config_hooks import options, protocol
from heat_config_hooks.errors import HookError
from heat_config_hooks.protocol import Command, Ended, Workplace
from heat_config_hooks.reply import Reply, fit
from heat_config_hooks.tools import script


@pytest.fixture
def place(tmp_path: Path) -> Workplace:
    """Return the folders of a hook."""
    (tmp_path / "run").mkdir()
    return Workplace(run=tmp_path / "run", working=tmp_path / "lib" / "w", outputs=tmp_path / "volatile" / "o")


def request(config: object, *outputs: str, **inputs: object) -> protocol.Request:
    """Return what the hook is asked to do."""
    document = {
        "id": "a",
        "config": config,
        "inputs": [{"name": name, "value": value} for name, value in inputs.items()],
        "outputs": [{"name": each} for each in outputs],
    }
    return protocol.request(document, key="a", options=options.read({}, script.ABOUT.options))


def prepare(asked: protocol.Request, place: Workplace) -> Command:
    """Return the command for a request that needs one."""
    command = script.prepare(asked, place)
    assert isinstance(command, Command)
    return command


def run(place: Workplace, config: object, *outputs: str, **inputs: Any) -> dict[str, Any]:
    """Carry a script out, and return its reply as it is sent."""
    asked = request(config, *outputs, **inputs)
    command = prepare(asked, place)
    ended = Ended(code=0, stdout=place.run / "stdout", stderr=place.run / "stderr")
    environment = {"PATH": os.environ["PATH"], **command.environment}
    with ended.stdout.open("wb") as stdout, ended.stderr.open("wb") as stderr:
        done = subprocess.run(command.argv, cwd=command.cwd, env=environment, stdout=stdout, stderr=stderr, check=False)
    reply = script.finish(asked, place, Ended(code=done.returncode, stdout=ended.stdout, stderr=ended.stderr))
    return fit(reply)


def test_the_config_is_an_executable_in_the_working_directory(place: Workplace) -> None:
    """Named after the id, for nobody else, and run there."""
    text = "#!/bin/sh\necho é\n"
    command = prepare(request(text), place)
    path = place.working / "a"
    assert (command.argv, command.cwd) == ((str(path),), place.working)
    assert path.read_text() == text
    assert stat.S_IMODE(path.stat().st_mode) == 0o700
    assert stat.S_IMODE(place.working.stat().st_mode) == stat.S_IMODE(place.outputs.stat().st_mode) == 0o700


def test_a_script_is_run_with_its_inputs_and_its_outputs_are_read(place: Workplace) -> None:
    """Byte for byte; an output that was not produced is left out."""
    text = """#!/bin/sh
pwd
echo "$list" >&2
printf '%s\\r\\n ' "$who" >$heat_outputs_path.greeting
: >$heat_outputs_path.empty
exit 3
"""
    assert run(place, text, "greeting", "empty", "missing", who="wörld", list=[1, {"a": None}]) == {
        "deploy_stdout": f"{place.working}\n",
        "deploy_stderr": '[1,{"a":null}]\n',
        "deploy_status_code": 3,
        "greeting": "wörld\r\n ",
        "empty": "",
    }


def test_outputs_are_beside_the_path_that_heat_agents_gives(place: Workplace) -> None:
    """`OUTPUTS/ID`, and `OUTPUTS/ID.NAME` for each."""
    command = prepare(request("#!/bin/sh\n"), place)
    assert command.environment["heat_outputs_path"] == str(place.outputs / "a")


def test_no_input_takes_the_place_of_what_the_hook_sets(place: Workplace) -> None:
    """Whatever it is called."""
    command = prepare(request("#!/bin/sh\n", heat_outputs_path="/etc", HEAT_INPUTS_FILE="/etc/passwd"), place)
    assert command.environment["heat_outputs_path"] == str(place.outputs / "a")
    assert command.environment["HEAT_INPUTS_FILE"] == str(place.run / "inputs.json")


def test_all_inputs_are_in_a_file_while_it_runs(place: Workplace) -> None:
    """Also those that no variable can hold, with their types; but no credentials."""
    inputs: dict[str, Any] = {"PATH": "x", "a b": [1], "big": "x" * 300_000, "n": None, "deploy_password": "secret"}
    found = run(place, "#!/bin/sh\ncat $HEAT_INPUTS_FILE\n", **inputs)
    given = json.loads(found["deploy_stdout"])
    assert given == {name: value for name, value in inputs.items() if name != "deploy_password"}


def test_the_file_of_inputs_is_for_nobody_else(place: Workplace) -> None:
    """They may be secrets."""
    prepare(request("#!/bin/sh\n", x=1), place)
    assert stat.S_IMODE((place.run / "inputs.json").stat().st_mode) == 0o600


def test_a_shorter_script_replaces_a_longer_one_whole(place: Workplace) -> None:
    """No tail of the old one is run."""
    prepare(request("#!/bin/sh\necho one\necho two\n"), place)
    assert run(place, "#!/bin/sh\necho one\n")["deploy_stdout"] == "one\n"


def test_outputs_of_an_earlier_run_do_not_pass_for_this_ones(place: Workplace) -> None:
    """Nor those of another deployment whose id begins alike."""
    place.outputs.mkdir(parents=True)
    (place.outputs / "a.out").write_text("old")
    (place.outputs / "ab.out").write_text("another's")
    assert "out" not in run(place, "#!/bin/sh\n", "out")
    assert (place.outputs / "ab.out").exists()


@pytest.mark.parametrize("config", [None, "", " \n\t\r\n", "\ufeff"])
def test_an_empty_script_is_done_without_running_anything(place: Workplace, config: object) -> None:
    """With a status code of its own, and a note."""
    reply = script.prepare(request(config), place)
    assert not isinstance(reply, Command)
    assert reply["deploy_status_code"] == 0
    assert "nothing was run" in str(reply["deploy_stderr"])


@pytest.mark.parametrize("config", [{"a": 1}, ["echo"], 7, True])
def test_a_structure_is_no_script(place: Workplace, config: object) -> None:
    """It says where the mistake is."""
    with pytest.raises(HookError) as caught:
        script.prepare(request(config), place)
    assert caught.value.path == "config"


@pytest.mark.parametrize(
    ("text", "output"),
    [
        ("echo hi", "hi\n"),
        ("# a comment\necho hi\n", "hi\n"),
        ("\n#!/no/such/thing\necho hi\n", "hi\n"),
        ("#!/bin/sh\r\necho hi\r\necho there\r\n", "hi\nthere\n"),
        ("\ufeff#!/bin/sh\necho hi\n", "hi\n"),
        ("\ufeff#!/bin/sh\r\necho hi\r\n", "hi\n"),
        ("echo hi\r\necho there\r\n", "hi\nthere\n"),
        ("\ufeffecho hi\n", "hi\n"),
    ],
)
def test_a_script_runs_however_it_was_written(place: Workplace, text: str, output: str) -> None:
    """Without a first line that names its interpreter, or as editors on Windows leave it."""
    found = run(place, text)
    assert (found["deploy_stdout"], found["deploy_stderr"], found["deploy_status_code"]) == (output, "", 0)


def test_an_interpreter_that_the_kernel_would_not_read_is_a_mistake(place: Workplace) -> None:
    """The shell would take the script for one of its own."""
    with pytest.raises(HookError, match=r"^config: .*interpreter"):
        script.prepare(request(f"#!/usr/bin/{'x' * 300}\necho hi\n"), place)


def test_whatever_is_in_the_place_of_an_output_is_removed(place: Workplace) -> None:
    """An earlier run may have left a folder there."""
    (place.outputs / "a.out" / "deep").mkdir(parents=True)
    assert run(place, "#!/bin/sh\necho new >$heat_outputs_path.out\n", "out")["out"] == "new\n"


def test_a_carriage_return_that_was_meant_stays(place: Workplace) -> None:
    """Only a script whose lines all end so is taken for one from Windows."""
    assert run(place, "#!/bin/sh\nprintf '%s' 'a\r\nb'\n")["deploy_stdout"] == "a\r\nb"


@pytest.mark.parametrize("content", ["\\377\\376", "a\\000b"])
def test_an_output_that_is_no_text_is_an_output(place: Workplace, content: str) -> None:
    """What is no text in it is replaced; the result is not lost."""
    found = run(place, f"#!/bin/sh\nprintf '{content}' >$heat_outputs_path.out\n", "out")
    assert found["out"] in ("\ufffd\ufffd", "a\0b")
    assert found["deploy_status_code"] == 0


@pytest.mark.parametrize("make", ["mkdir", "mkfifo", "ln -s /nowhere", "ln -s /dev/zero"])
def test_an_output_that_is_no_file_was_not_produced(place: Workplace, make: str) -> None:
    """To read it could take for ever."""
    found = run(place, f"#!/bin/sh\n{make} $heat_outputs_path.out\n", "out", "deploy_stdout")
    assert found == {"deploy_stdout": "", "deploy_stderr": "", "deploy_status_code": 0}


def test_a_declared_stream_is_the_stream(place: Workplace) -> None:
    """A template may declare the standard outputs."""
    found = run(place, "#!/bin/sh\necho hi\necho other >$heat_outputs_path.deploy_stdout\n", "deploy_stdout")
    assert found["deploy_stdout"] == "hi\n"


def test_an_interpreter_that_is_not_there_is_a_failure_to_start(place: Workplace) -> None:
    """The system's own words would be about the script, which is there."""
    reply = script.prepare(request("#!/no/such/interpreter -e\n"), place)
    assert isinstance(reply, dict)
    assert reply["deploy_status_code"] == 126
    assert "/no/such/interpreter is not there" in fit(reply)["deploy_stderr"]  # type: ignore[operator]


def test_what_came_of_it_can_be_said_long_after(place: Workplace) -> None:
    """By another process, from what is in the folders."""
    asked = request("#!/bin/sh\necho hi >$heat_outputs_path.out\n", "out")
    command = prepare(asked, place)
    subprocess.run(command.argv, env=dict(command.environment), check=True)
    reply: Reply = script.finish(asked, place, Ended(code=0, stdout=place.run / "gone", stderr=place.run / "gone"))
    assert fit(reply) == {"out": "hi\n", "deploy_status_code": 0}
