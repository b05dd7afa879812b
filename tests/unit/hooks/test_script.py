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
from heat_config_hooks.values import replace


@pytest.fixture
def place(tmp_path: Path) -> Workplace:
    """Return the folders of a hook."""
    (tmp_path / "run").mkdir()
    return Workplace(
        run=tmp_path / "run",
        working=tmp_path / "lib" / "w",
        outputs=tmp_path / "volatile" / "o",
    )


def request(config: object, *outputs: str, **inputs: object) -> protocol.Request:
    """Return the request for the hook."""
    document = {
        "id": "a",
        "config": config,
        "inputs": [{"name": name, "value": value} for name, value in inputs.items()],
        "outputs": [{"name": each} for each in outputs],
    }
    return protocol.request(
        document, key="a", options=options.read({}, script.ABOUT.options)
    )


def prepare(asked: protocol.Request, place: Workplace) -> Command:
    """Return the command for a request that needs one."""
    command = script.prepare(asked, place)
    assert isinstance(command, Command)
    return command


def run(
    place: Workplace, config: object, *outputs: str, **inputs: Any
) -> dict[str, Any]:
    """Carry out a script, and return its reply in the form in which it is sent."""
    asked = request(config, *outputs, **inputs)
    command = prepare(asked, place)
    ended = Ended(code=0, stdout=place.run / "stdout", stderr=place.run / "stderr")
    environment = {"PATH": os.environ["PATH"], **command.environment}
    with ended.stdout.open("wb") as stdout, ended.stderr.open("wb") as stderr:
        done = subprocess.run(
            command.argv,
            cwd=command.cwd,
            env=environment,
            stdout=stdout,
            stderr=stderr,
            check=False,
        )
    reply = script.finish(
        asked,
        place,
        Ended(code=done.returncode, stdout=ended.stdout, stderr=ended.stderr),
    )
    return fit(reply)


def test_the_config_is_an_executable_in_the_working_directory(place: Workplace) -> None:
    """The script is named after the id, is private, and runs in that folder."""
    text = "#!/bin/sh\necho é\n"
    command = prepare(request(text), place)
    path = place.working / "a"
    assert (command.argv, command.cwd) == ((str(path),), place.working)
    assert path.read_text() == text
    assert stat.S_IMODE(path.stat().st_mode) == 0o700
    assert (
        stat.S_IMODE(place.working.stat().st_mode)
        == stat.S_IMODE(place.outputs.stat().st_mode)
        == 0o700
    )


def test_a_script_is_run_with_its_inputs_and_its_outputs_are_read(
    place: Workplace,
) -> None:
    """Outputs are exact to the byte; an output that was not written is not in the reply."""
    text = """#!/bin/sh
pwd
echo "$list" >&2
printf '%s\\r\\n ' "$who" >$heat_outputs_path.greeting
: >$heat_outputs_path.empty
exit 3
"""
    assert run(
        place, text, "greeting", "empty", "missing", who="wörld", list=[1, {"a": None}]
    ) == {
        "deploy_stdout": f"{place.working}\n",
        "deploy_stderr": '[1,{"a":null}]\n',
        "deploy_status_code": 3,
        "greeting": "wörld\r\n ",
        "empty": "",
    }


def test_outputs_are_beside_the_path_that_heat_agents_gives(place: Workplace) -> None:
    """The path is `OUTPUTS/ID`, and each output is `OUTPUTS/ID.NAME`."""
    command = prepare(request("#!/bin/sh\n"), place)
    assert command.environment["heat_outputs_path"] == str(place.outputs / "a")


def test_no_input_takes_the_place_of_what_the_hook_sets(place: Workplace) -> None:
    """The variables of the hook override inputs of the same names."""
    command = prepare(
        request(
            "#!/bin/sh\n", heat_outputs_path="/etc", HEAT_INPUTS_FILE="/etc/passwd"
        ),
        place,
    )
    assert command.environment["heat_outputs_path"] == str(place.outputs / "a")
    assert command.environment["HEAT_INPUTS_FILE"] == str(place.run / "inputs.json")


def test_all_inputs_are_in_a_file_while_it_runs(place: Workplace) -> None:
    """The file has all inputs with their types, except credentials."""
    inputs: dict[str, Any] = {
        "PATH": "x",
        "a b": [1],
        "big": "x" * 300_000,
        "n": None,
        "deploy_password": "secret",
    }
    found = run(place, "#!/bin/sh\ncat $HEAT_INPUTS_FILE\n", **inputs)
    given = json.loads(found["deploy_stdout"])
    assert given == {
        name: value for name, value in inputs.items() if name != "deploy_password"
    }


def test_the_file_of_inputs_is_for_nobody_else(place: Workplace) -> None:
    """The file is private, because inputs may be secrets."""
    prepare(request("#!/bin/sh\n", x=1), place)
    assert stat.S_IMODE((place.run / "inputs.json").stat().st_mode) == 0o600


def test_a_shorter_script_replaces_a_longer_one_whole(place: Workplace) -> None:
    """Nothing of the old script is run."""
    prepare(request("#!/bin/sh\necho one\necho two\n"), place)
    assert run(place, "#!/bin/sh\necho one\n")["deploy_stdout"] == "one\n"


def test_outputs_of_an_earlier_run_do_not_pass_for_this_ones(place: Workplace) -> None:
    """Outputs of an earlier run, or of an id with the same beginning, do not count for this run."""
    place.outputs.mkdir(parents=True)
    (place.outputs / "a.out").write_text("old")
    (place.outputs / "ab.out").write_text("another's")
    assert "out" not in run(place, "#!/bin/sh\n", "out")
    assert (place.outputs / "ab.out").exists()


@pytest.mark.parametrize("config", [None, "", " \n\t\r\n", "\ufeff"])
def test_an_empty_script_is_done_without_running_anything(
    place: Workplace, config: object
) -> None:
    """The reply has a status code and a note."""
    reply = script.prepare(request(config), place)
    assert not isinstance(reply, Command)
    assert reply["deploy_status_code"] == 0
    assert "nothing was run" in str(reply["deploy_stderr"])


@pytest.mark.parametrize("config", [{"a": 1}, ["echo"], 7, True])
def test_structure_in_place_of_a_script_is_a_mistake(
    place: Workplace, config: object
) -> None:
    """The message has the path of the mistake."""
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
def test_a_script_runs_however_it_was_written(
    place: Workplace, text: str, output: str
) -> None:
    """A script may lack the line with an interpreter, or have line ends and a mark of Windows."""
    found = run(place, text)
    assert (
        found["deploy_stdout"],
        found["deploy_stderr"],
        found["deploy_status_code"],
    ) == (output, "", 0)


def test_an_interpreter_that_the_kernel_would_not_read_is_a_mistake(
    place: Workplace,
) -> None:
    """A shell would run the script as a shell script."""
    with pytest.raises(HookError, match=r"^config: .*interpreter"):
        script.prepare(request(f"#!/usr/bin/{'x' * 300}\necho hi\n"), place)


def test_whatever_is_in_the_place_of_an_output_is_removed(place: Workplace) -> None:
    """An earlier run may have left a folder there."""
    (place.outputs / "a.out" / "deep").mkdir(parents=True)
    assert (
        run(place, "#!/bin/sh\necho new >$heat_outputs_path.out\n", "out")["out"]
        == "new\n"
    )


def test_a_carriage_return_that_was_meant_stays(place: Workplace) -> None:
    """Only a script with line ends of Windows is changed."""
    assert run(place, "#!/bin/sh\nprintf '%s' 'a\r\nb'\n")["deploy_stdout"] == "a\r\nb"


@pytest.mark.parametrize("content", ["\\377\\376", "a\\000b"])
def test_binary_output_is_sent_with_replacements(
    place: Workplace, content: str
) -> None:
    """Undecodable bytes are replaced, and the result is sent."""
    found = run(
        place, f"#!/bin/sh\nprintf '{content}' >$heat_outputs_path.out\n", "out"
    )
    assert found["out"] in ("\ufffd\ufffd", "a\0b")
    assert found["deploy_status_code"] == 0


@pytest.mark.parametrize(
    "make", ["mkdir", "mkfifo", "ln -s /nowhere", "ln -s /dev/zero"]
)
def test_output_other_than_a_file_counts_as_missing(
    place: Workplace, make: str
) -> None:
    """Reading it could block for ever."""
    found = run(
        place, f"#!/bin/sh\n{make} $heat_outputs_path.out\n", "out", "deploy_stdout"
    )
    assert found == {"deploy_stdout": "", "deploy_stderr": "", "deploy_status_code": 0}


def test_a_declared_stream_is_the_stream(place: Workplace) -> None:
    """A template may declare the standard streams as outputs."""
    found = run(
        place,
        "#!/bin/sh\necho hi\necho other >$heat_outputs_path.deploy_stdout\n",
        "deploy_stdout",
    )
    assert found["deploy_stdout"] == "hi\n"


def test_an_interpreter_that_is_not_there_is_a_failure_to_start(
    place: Workplace,
) -> None:
    """The message names the interpreter, while that of the system would name the script."""
    reply = script.prepare(request("#!/no/such/interpreter -e\n"), place)
    assert isinstance(reply, dict)
    assert reply["deploy_status_code"] == 126
    assert "/no/such/interpreter does not exist" in fit(reply)["deploy_stderr"]  # type: ignore[operator]


def test_reply_can_be_read_from_the_files_of_the_run(place: Workplace) -> None:
    """Another process can return the reply from the files of the run."""
    asked = request("#!/bin/sh\necho hi >$heat_outputs_path.out\n", "out")
    command = prepare(asked, place)
    subprocess.run(command.argv, env=dict(command.environment), check=True)
    reply: Reply = script.finish(
        asked,
        place,
        Ended(code=0, stdout=place.run / "gone", stderr=place.run / "gone"),
    )
    assert fit(reply) == {"out": "hi\n", "deploy_status_code": 0}


WRITES = """\
#!/bin/sh
umask 000
printf plain >"$heat_outputs_path.plain"
printf linked >"$heat_outputs_path.linked"
ln "$heat_outputs_path.linked" "$OTHER"
ln -s "$TARGET" "$heat_outputs_path.led"
"""


def test_declared_outputs_are_for_nobody_else(place: Workplace, tmp_path: Path) -> None:
    """The files become private, except those that have another name elsewhere."""
    target = tmp_path / "target"
    target.write_text("elsewhere")
    target.chmod(0o644)
    reply = run(
        place,
        WRITES,
        "plain",
        "linked",
        "led",
        OTHER=str(tmp_path / "other"),
        TARGET=str(target),
    )
    assert [reply[each] for each in ("plain", "linked", "led")] == [
        "plain",
        "linked",
        "elsewhere",
    ]
    assert stat.S_IMODE((place.outputs / "a.plain").stat().st_mode) == 0o600
    assert stat.S_IMODE((tmp_path / "other").stat().st_mode) == 0o666
    assert stat.S_IMODE(target.stat().st_mode) == 0o644


@pytest.mark.parametrize(
    ("name", "inside", "given", "becomes"),
    [
        ("o", "", 0o755, 0o700),
        ("heat-config-script", "a.before", 0o755, 0o700),
        ("heat-config-script", "a.before", 0o777, 0o700),
        ("o", "index.html", 0o755, 0o755),
        ("o", "", 0o1777, 0o1777),
    ],
    ids=["empty", "ours", "open", "of-others", "shared"],
)
def test_the_folder_of_outputs_is_made_private_where_it_is_for_nothing_else(
    place: Workplace, name: str, inside: str, given: int, becomes: int
) -> None:
    """An existing folder is made private only if it is for outputs alone: `HEAT_SCRIPT_OUTPUTS` may name any."""
    folder = place.outputs.with_name(name)
    folder.mkdir(parents=True)
    if inside:
        (folder / inside).write_text("")
    folder.chmod(given)
    prepare(request("#!/bin/sh\n", "x"), replace(place, outputs=folder))
    assert stat.S_IMODE(folder.stat().st_mode) == becomes


@pytest.mark.parametrize("name", ["\ud800", "a\udc80b"])
def test_an_output_that_no_file_can_be_named_after_is_refused(
    place: Workplace, name: str
) -> None:
    """Half of a surrogate pair cannot be part of a file name."""
    with pytest.raises(HookError, match="half of a surrogate pair"):
        script.prepare(request("#!/bin/sh\n", name), place)
