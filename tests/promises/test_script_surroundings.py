"""The surroundings of a script: its text byte for byte, its inputs, and a clean environment."""

from __future__ import annotations

import json
import os
import re
import stat
import subprocess
from pathlib import Path

import pytest

from support import pace
from support.loopback import SignalServer
from support.machine import BIN, Machine, deployment
from support.outcomes import SH, result
from support.walks import below


def under(
    machine: Machine, prelude: str, document: object, *, keep: tuple[int, ...] = ()
) -> None:
    """Apply a document with an agent that a shell starts after a prelude."""
    path = machine.write(document)
    command = [
        str(BIN / "heat-config-apply"),
        "--state-dir",
        str(machine.state),
        str(path),
    ]
    subprocess.run(
        ["/bin/sh", "-c", f'{prelude}\nexec "$@"', "sh", *command],
        env=machine.environment,
        check=True,
        pass_fds=keep,
        capture_output=True,
        timeout=pace.seconds(30),
    )


@pytest.mark.parametrize("config", ["", " \n\t\n", None])
def test_an_empty_config_is_done(
    machine: Machine, heat: SignalServer, config: object
) -> None:
    """There is nothing to run, and that is reported as done, with a note."""
    value = result(machine, heat, config)

    assert value["deploy_status_code"] == 0
    assert "empty" in value["deploy_stderr"]


@pytest.mark.parametrize(
    "config",
    [
        pytest.param("x=1\nif [ $x = 1 ]\nthen\necho yes\nfi\n", id="no-shebang"),
        pytest.param(
            "#!/bin/sh\r\nx=1\r\nif [ $x = 1 ]\r\nthen\r\necho yes\r\nfi\r\n", id="crlf"
        ),
        pytest.param("\ufeff#!/bin/sh\necho yes\n", id="bom"),
        pytest.param(
            "\ufeff#!/bin/sh\r\nif true\r\nthen\r\necho yes\r\nfi\r\n", id="bom-crlf"
        ),
        pytest.param("\ufeffecho yes\n", id="bom-no-shebang"),
        pytest.param("if true\r\nthen\r\necho yes\r\nfi\r\n", id="crlf-no-shebang"),
        pytest.param("#!/bin/sh\necho yes", id="no-newline-at-the-end"),
        pytest.param("#! /usr/bin/env sh\necho yes\n", id="env"),
        pytest.param(
            "#!/bin/sh -e\r\necho yes\r\nfalse || true\r\n", id="argument-crlf"
        ),
    ],
)
def test_a_script_runs_however_it_was_written(
    machine: Machine, heat: SignalServer, config: str
) -> None:
    """A script without `#!` runs in the shell, and line ends and byte order marks of other systems are removed."""
    assert result(machine, heat, config) == {
        "deploy_stdout": "yes\n",
        "deploy_stderr": "",
        "deploy_status_code": 0,
    }


def test_a_script_is_written_byte_for_byte(
    machine: Machine, heat: SignalServer
) -> None:
    """A script's own carriage returns and characters outside ASCII are left alone."""
    script = f"{SH}printf 'a\r\n☃ 𝄞'; cat $0 >{machine.folder}/copy\n"

    assert result(machine, heat, script)["deploy_stdout"] == "a\r\n☃ 𝄞"
    assert (machine.folder / "copy").read_bytes() == script.encode()


@pytest.mark.parametrize("config", [{"a": 1}, ["#!/bin/sh"], 5, True])
def test_structure_in_place_of_a_script_fails(
    machine: Machine, heat: SignalServer, config: object
) -> None:
    """The failure names the place in the file."""
    value = result(machine, heat, config)

    assert value["deploy_status_code"] != 0
    assert re.search(r"document\.json:1:\d+: \S+\.config: ", value["deploy_stderr"]), (
        value
    )


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("text", "text"),
        ("", ""),
        ("wörld ☃ 𝄞", "wörld ☃ 𝄞"),
        (
            "two\nlines\t\"quoted\" 'x' $HOME `id`\\\n",
            "two\nlines\t\"quoted\" 'x' $HOME `id`\\\n",
        ),
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
def test_an_input_becomes_text(
    machine: Machine, heat: SignalServer, value: object, text: str
) -> None:
    """Each type of input has one text in the environment, and is itself in the file of inputs."""
    script = (
        f'{SH}printf "%s" "${{given-unset}}" >$heat_outputs_path.text\n'
        f"cp $HEAT_INPUTS_FILE {machine.folder}/inputs\n"
    )

    assert (
        result(machine, heat, script, inputs={"given": value}, outputs=["text"])["text"]
        == text
    )
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
    machine: Machine,
    heat: SignalServer,
    item: dict[str, object],
    text: str,
    value: object,
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
def test_an_odd_name_changes_nothing_in_the_environment(
    machine: Machine, heat: SignalServer, name: str
) -> None:
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


@pytest.mark.parametrize(
    ("size", "present"),
    [(100_000, True), (131_000, True), (131_072, False), (3_000_000, False)],
)
def test_a_huge_input_is_in_the_file(
    machine: Machine, heat: SignalServer, size: int, present: bool
) -> None:
    """An input that is too long for a variable does not keep the script from starting."""
    script = f'{SH}echo "${{big:+set}}"\ncp $HEAT_INPUTS_FILE {machine.folder}/inputs\n'

    value = result(machine, heat, script, inputs={"big": "x" * size})

    assert (value["deploy_status_code"], value["deploy_stdout"]) == (
        0,
        "set\n" if present else "\n",
    )
    assert json.loads((machine.folder / "inputs").read_text())["big"] == "x" * size


def test_many_big_inputs_are_in_the_file(machine: Machine, heat: SignalServer) -> None:
    """Together they may be more than an environment holds, and the script starts all the same."""
    inputs = {f"big{number}": "x" * 100_000 for number in range(40)}

    value = result(
        machine,
        heat,
        f"{SH}cp $HEAT_INPUTS_FILE {machine.folder}/inputs\n",
        inputs=inputs,
    )

    assert value["deploy_status_code"] == 0, value
    assert inputs.items() <= json.loads((machine.folder / "inputs").read_text()).items()


@pytest.mark.parametrize("asked", [False, True])
def test_credentials_are_given_only_to_those_who_ask(
    machine: Machine, heat: SignalServer, asked: bool
) -> None:
    """Heat's credentials reach a script only with the option for it."""
    secrets = {
        "deploy_password": "pa55-word",
        "deploy_user_id": "u5er-id",
        "deploy_username": "u5er-name",
    }
    script = f"{SH}cp $HEAT_INPUTS_FILE {machine.folder}/inputs\ncat /proc/self/environ >{machine.folder}/environ\n"
    options = {"deploy_credentials": True} if asked else {}

    assert (
        result(machine, heat, script, inputs=secrets, options=options)[
            "deploy_status_code"
        ]
        == 0
    )

    secrets["deploy_signal_id"] = heat.url()
    environ, given = (
        (machine.folder / "environ").read_text(),
        (machine.folder / "inputs").read_text(),
    )
    inputs = json.loads(given)
    for name, value in secrets.items():
        assert (f"{name}={value}\0" in environ) is asked
        assert (value in environ) is asked
        assert (inputs.get(name) == value) is asked
        assert (value in given) is asked
    assert inputs["deploy_action"] == "CREATE"


@pytest.mark.parametrize(
    ("ask", "answer"),
    [
        (True, "given"),
        ("true", "given"),
        ("True", "given"),
        (False, "unset"),
        ("false", "unset"),
        (None, "unset"),
    ],
)
def test_only_true_asks_for_credentials(
    machine: Machine, heat: SignalServer, ask: object, answer: str
) -> None:
    """Anything but true is not enough; a template's parameter may have made text of it."""
    script = f"{SH}[ -z ${{deploy_password+x}} ] && echo unset || echo given\n"

    value = result(
        machine,
        heat,
        script,
        inputs={"deploy_password": "pa55"},
        options={"deploy_credentials": ask},
    )

    assert value["deploy_stdout"] == f"{answer}\n"


@pytest.mark.parametrize("ask", [2, "yes", " ", [True]], ids=repr)
def test_ambiguous_wish_for_credentials_is_a_mistake(
    machine: Machine, heat: SignalServer, ask: object
) -> None:
    """Nothing is run: it is neither given what perhaps it must not have, nor left without what it perhaps needs."""
    value = result(
        machine, heat, f"{SH}echo ran\n", options={"deploy_credentials": ask}
    )

    assert (value["deploy_status_code"], value["deploy_stdout"]) == (125, "")
    assert (
        "options.deploy_credentials: expected true or false" in value["deploy_stderr"]
    )


@pytest.mark.parametrize("end", ["exit 0", "exit 1", "sleep 60", "kill -9 0"])
def test_the_file_of_inputs_goes_with_the_run(
    machine: Machine, heat: SignalServer, end: str
) -> None:
    """The file of inputs, which may have secrets, is removed however a run ends."""
    script = f"{SH}echo $HEAT_INPUTS_FILE; stat -c %a $HEAT_INPUTS_FILE\n{end}\n"

    limit = pace.limit(1) if end == "sleep 60" else pace.seconds(60)
    value = result(
        machine, heat, script, inputs={"db_password": "x"}, options={"timeout": limit}
    )

    path, mode = value["deploy_stdout"].split()
    assert mode == "600"
    assert not Path(path).exists()


def test_the_environment_is_clean(machine: Machine, heat: SignalServer) -> None:
    """From the agent's own environment, a script gets what a program needs to work at all, and `HEAT_*`."""
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
    variables = dict(line.split("=", 1) for line in lines)
    usual = {
        name: value
        for name, value in machine.environment.items()
        if name not in foreign
    }
    given = {
        **usual,
        **kept,
        "mine": "1",
        "deploy_action": "CREATE",
        "deploy_signal_verb": "POST",
    }
    assert given.items() <= variables.items()
    ours = {
        name
        for name in variables.keys() - given.keys()
        if name.startswith(("HEAT_", "heat_"))
    }
    assert {"HEAT_INPUTS_FILE", "heat_outputs_path"} <= ours
    # an input that every deployment of the tests has
    others = variables.keys() - given.keys() - ours - {"planted"}
    assert others <= {"PWD", "SHLVL", "_"}, "set by the shell itself"


def test_signals_are_at_their_defaults(machine: Machine) -> None:
    """A script starts with default signal handling, even if the agent ignores signals."""
    script = f"{SH}grep -E '^Sig(Blk|Ign)' /proc/self/status >{machine.folder}/signals\nyes | head -1 >/dev/null\n"

    under(
        machine,
        "trap '' HUP INT QUIT PIPE TERM USR1 USR2 XFSZ",
        [deployment(config=script)],
    )

    masks = dict(
        line.split(":\t")
        for line in (machine.folder / "signals").read_text().splitlines()
    )
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
    allowed = {
        "/dev/null",
        str(machine.folder / "open"),
        str(machine.state / "runs" / "d1" / "stderr"),
    }
    found = set((machine.folder / "open").read_text().split())
    assert not {
        each for each in found - allowed if not each.endswith("/heat-config-script/d1")
    }


@pytest.mark.parametrize("umask", ["0022", "0027", "0000"])
def test_the_umask_is_left_alone(machine: Machine, umask: str) -> None:
    """A script makes files as it would by hand, while ours are for nobody else's eyes whatever the umask."""
    under(
        machine,
        f"umask {umask}",
        [deployment(config=f"{SH}umask >{machine.folder}/umask\n", outputs=["out"])],
    )

    assert (machine.folder / "umask").read_text() == f"{umask}\n"
    for path in below(machine.state):
        wanted = (
            0o700
            if path.is_dir() or path.parent.name == "heat-config-script"
            else 0o600
        )
        assert stat.S_IMODE(path.lstat().st_mode) == wanted, path


def test_the_folders_of_scripts_can_be_chosen(
    machine: Machine, heat: SignalServer
) -> None:
    """$HEAT_SCRIPT_WORKING has the scripts, each under its id, and is where they run; $HEAT_SCRIPT_OUTPUTS results."""
    working, outputs = machine.folder / "my working", machine.folder / "my outputs"
    script = f'{SH}pwd\necho "$0"\nstat -c %a "$0"\necho "$heat_outputs_path"\nprintf x >"$heat_outputs_path.out"\n'
    places = {"HEAT_SCRIPT_WORKING": str(working), "HEAT_SCRIPT_OUTPUTS": str(outputs)}

    value = result(machine, heat, script, outputs=["out"], env=places)

    assert value["deploy_stdout"].splitlines() == [
        str(working),
        str(working / "d1"),
        "700",
        str(outputs / "d1"),
    ]
    assert value["out"] == "x"
    assert (outputs / "d1.out").read_text() == "x"


@pytest.mark.parametrize(
    "identity", ["../evil", "a/b", ".hidden", "a.b", "x" * 300, "ünï", "a b"]
)
def test_unsafe_id_does_not_leave_its_folder(
    machine: Machine, heat: SignalServer, identity: str
) -> None:
    """An id that cannot be a file name leads nowhere, and its deployment is carried out all the same."""
    given = deployment(
        identity,
        f"{SH}printf x >$heat_outputs_path.out\n",
        outputs=["out"],
        signal=heat.url(),
    )
    before = {
        path for path in machine.folder.rglob("*") if machine.state not in path.parents
    }

    assert machine.apply([given]).code == 0
    assert [value["out"] for value in heat.values()] == ["x"]
    after = {
        path for path in machine.folder.rglob("*") if machine.state not in path.parents
    }
    assert after - before <= {machine.state, machine.folder / "document.json"}
    assert not [
        path
        for path in machine.state.rglob("*")
        if "evil" in path.name or path.name.startswith(".")
    ]


def test_a_run_has_a_short_process_title(machine: Machine, heat: SignalServer) -> None:
    """`ps` and `systemctl status` show the command's name for a supervisor, and not its program."""
    script = "#!/bin/sh\nexec </proc/$PPID/cmdline tr '\\0' ' '\n"
    title = str(result(machine, heat, script)["deploy_stdout"])
    assert len(title) < 300
    assert "heat-config-agent" in title
    assert "\n" not in title
