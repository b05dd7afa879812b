"""The `tosca` hook: the files of an operation, and the scripts among them."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import stat
from pathlib import Path
from typing import Any

import pytest

from heat_config_hooks import needs
from heat_config_hooks.errors import HookError
from heat_config_hooks.tools import tosca_config
from support.driver import Driver
from support.machine import deployment


def operation(identity: str, config: object, **fields: Any) -> dict[str, Any]:
    """Return a deployment of the tool; the config is passed as JSON text, as templates pass it."""
    return deployment(
        identity,
        config if isinstance(config, str) else json.dumps(config),
        group="tosca",
        **fields,
    )


def script(text: str, processor: str = "bash", **files: object) -> dict[str, Any]:
    """Return a config with one file to process, and others beside it."""
    return {
        "primary": "scripts/main",
        "processor": processor,
        "files": {
            "scripts/main": text,
            **{name.replace("__", "/"): content for name, content in files.items()},
        },
    }


BASH = """\
#!/bin/bash
set -eu
. "$(dirname "$0")/library"
echo "$0 is ${BASH_SOURCE[0]} in $PWD, $# arguments, ${FUNCNAME[0]:-no function}"
echo "$greeting, $flag, $number, $list, $TOSCA_OPERATION"
export url="two
lines" GREETING=$(hello)
shown=not-exported
"""


def test_bash_runs_a_script_with_the_files_beside_it(driver: Driver) -> None:
    """Its inputs are variables, it stands where it stands in the service, and what it exports are outputs."""
    config = {
        **script(BASH, scripts__library="hello() { echo from the library; }\n"),
        "operation": "create",
    }
    inputs = {
        "greeting": "a 'b' $c",
        "flag": True,
        "number": 1.5,
        "list": ["a", 1],
        "tosca.after": "earlier",
    }

    values = driver.run(
        operation(
            "d1",
            config,
            inputs=inputs,
            outputs=["url", "GREETING", "shown", "tosca.run"],
        )
    )

    assert (values["deploy_status_code"], values["deploy_stderr"]) == (0, "")
    first, second = values["deploy_stdout"].splitlines()
    path = first.split()[0]
    assert path.endswith("/files/scripts/main")
    assert first == f"{path} is {path} in {Path(path).parent}, 0 arguments, no function"
    assert second == "a 'b' $c, true, 1.5, [\"a\",1], create"
    assert (values["url"], values["GREETING"]) == ("two\nlines", "from the library")
    assert "shown" not in values
    assert values["tosca.run"].isdigit()
    assert not Path(path).exists()


@pytest.mark.parametrize("driver", ["alone"], indirect=True)
@pytest.mark.parametrize(
    ("end", "code", "url"),
    [
        ("true", 0, "x"),
        ("exit 0", 0, "x"),
        ("(exit 7)", 7, None),
        ("exit 7", 7, None),
        ("set -e; false; true", 1, None),
        ("set -u; echo $missing; true", 1, None),
        ("kill -9 $$", 137, None),
        ("kill $$; sleep 9", 143, None),
        ("trap 'echo \"end $?\"' EXIT; exit 3", 3, None),
        ("trap 'echo \"end $?\"; url=later' EXIT; set -e", 0, "later"),
        ("trap 'echo end; exit 0' 0; exit 5", 0, "x"),
        ("trap 'echo end; exit 6' exit; exit 0", 6, None),
        ("trap 'echo wrong' EXIT; trap - EXIT", 0, "x"),
        (
            "trap 'echo end' EXIT; kept=$(trap -p EXIT); trap 'echo wrong' EXIT; eval \"$kept\"",
            0,
            "x",
        ),
        ("(trap 'echo end' EXIT)", 0, "x"),
        ("trap 'echo end' USR1; kill -USR1 $$", 0, "x"),
        ("f() { local url=local; exit 0; }; f", 0, "local"),
        ("readonly url; set -o noclobber; IFS=u; umask 777", 0, "x"),
        ("unset url", 0, None),
        ("export -n url", 0, None),
        ("echo file >$heat_outputs_path.url", 0, "file\n"),
        ("bash -c 'echo ${BASH_ENV-end}'", 0, "x"),
        ("set -x", 0, "x"),
    ],
)
def test_bash_scripts_end_as_always(
    driver: Driver, end: str, code: int, url: str | None
) -> None:
    """An exit, a failing last command, `set -e` and a trap of the script mean what they mean without the hook."""
    values = driver.run(
        operation("d1", script(f"export url=x\n{end}\n"), outputs=["url"])
    )

    assert values["deploy_status_code"] == code, values
    assert values.get("url") == url
    if (
        "echo" in end
        and "wrong" not in end
        and "path" not in end
        and "missing" not in end
    ):
        assert values["deploy_stdout"].startswith("end")
    assert "wrong" not in values["deploy_stdout"]
    assert "__tosca" not in values["deploy_stdout"] + values["deploy_stderr"].replace(
        "__tosca_code", ""
    )


@pytest.mark.parametrize("driver", ["alone"], indirect=True)
@pytest.mark.parametrize(
    "first",
    ["#!/bin/bash -e", "#!/bin/sh -e", "#!/usr/bin/env -S bash -e", "#!/bin/bash -e\r"],
)
def test_options_in_the_first_line_count(driver: Driver, first: str) -> None:
    """Bash gets them; a script from Windows runs, too."""
    end = "\r" if first.endswith("\r") else ""
    text = f"{first}\nexport url=${{BASH_VERSION:+bash}}{end}\nfalse{end}\necho not reached{end}\n"

    values = driver.run(operation("d1", script(text), outputs=["url"]))

    assert (values["deploy_status_code"], values["deploy_stdout"]) == (1, "")
    assert (
        driver.run(
            operation("d2", script(text.replace("false", "true")), outputs=["url"])
        )["url"]
        == "bash"
    )


@pytest.mark.parametrize("processor", ["bash", "executable"])
def test_a_script_for_another_interpreter_is_executed(
    driver: Driver, processor: str
) -> None:
    """Its outputs are files; an interpreter that is not there is said."""
    text = "#!/usr/bin/env python3\nimport os\nopen(os.environ['heat_outputs_path'] + '.url', 'w').write('python')\n"

    values = driver.run(operation("d1", script(text, processor), outputs=["url"]))
    missing = driver.run(operation("d2", script("#!/no/such/program\n", processor)))

    assert (values["deploy_status_code"], values["url"]) == (0, "python")
    assert missing["deploy_status_code"] == 126
    assert (
        "cannot be started: its interpreter /no/such/program does not exist"
        in missing["deploy_stderr"]
    )


PYTHON = """\
import os, sys
import library
assert os.environ["greeting"] == "hello" and sys.argv == [__file__] and os.getcwd() == os.path.dirname(__file__)
url = {"port": [80, None]}
ratio = 1.50
if __name__ == "__main__":
    main = library.name
"""


def test_python_outputs_are_global_variables_with_their_types(driver: Driver) -> None:
    """A script runs as always, finds modules beside it, and only what is wanted is an output."""
    config = script(PYTHON, "python", **{"scripts__library.py": "name = 'ü'\n"})
    values = driver.run(
        operation(
            "d1",
            config,
            inputs={"greeting": "hello"},
            outputs=["url", "ratio", "main", "not_there"],
        )
    )

    assert (values["deploy_status_code"], values["deploy_stderr"]) == (0, "")
    assert (values["url"], values["ratio"], values["main"]) == (
        {"port": [80, None]},
        1.5,
        "ü",
    )
    assert "not_there" not in values


@pytest.mark.parametrize("driver", ["alone"], indirect=True)
@pytest.mark.parametrize(
    ("end", "code", "said"),
    [
        ("import sys; sys.exit(0)", 0, ""),
        ("import sys; sys.exit(4)", 4, ""),
        ("import sys; sys.exit('enough')", 1, "enough\n"),
        ("raise ValueError('bad')", 1, "ValueError: bad"),
        ("def (", 1, "SyntaxError"),
        (
            "url = {1, 2}",
            1,
            "the global variable url is an output and must be a JSON value: ",
        ),
        ("import os; os.kill(os.getpid(), 9)", 137, ""),
    ],
)
def test_python_scripts_end_as_always(
    driver: Driver, end: str, code: int, said: str
) -> None:
    """With the exit code that they have, a traceback of their own lines, and no outputs after a failure."""
    values = driver.run(
        operation("d1", script(f"url = 'x'\n{end}\n", "python"), outputs=["url"])
    )

    assert values["deploy_status_code"] == code
    assert said in values["deploy_stderr"]
    assert "run.py" not in values["deploy_stderr"]
    assert values.get("url") == (None if code else "x")


def test_two_scripts_are_two_steps(driver: Driver) -> None:
    """The second one runs after the first has succeeded, each with its own inputs."""
    text = 'echo "$TOSCA_OPERATION $who in $TOSCA_NODE ${tosca_stop-}"; export did="$TOSCA_OPERATION"; exit ${code:-0}'
    config = {
        "steps": [
            {
                "primary": "stop",
                "processor": "bash",
                "operation": "stop",
                "inputs": "tosca.stop",
            },
            {"primary": "start", "processor": "bash", "operation": "start"},
        ],
        "files": {"stop": text, "start": text},
    }
    inputs = {
        "who": "starter",
        "tosca.stop": {"who": "stopper"},
        "tosca.surroundings": {"TOSCA_NODE": "app"},
    }

    values = driver.run(
        operation(
            "d1", config, inputs=inputs, action="UPDATE", outputs=["did", "tosca.run"]
        )
    )
    failed = driver.run(
        operation(
            "d2",
            config,
            inputs={**inputs, "tosca.stop": {"code": 3}},
            outputs=["did", "tosca.run"],
        )
    )

    assert values["deploy_stdout"] == "stop stopper in app \nstart starter in app \n"
    assert values["did"] == "start"
    assert values["tosca.run"]
    assert (failed["deploy_status_code"], failed["deploy_stdout"]) == (
        3,
        "stop  in app \n",
    )
    assert failed.keys() & {"did", "tosca.run"} == set()


@pytest.mark.parametrize("driver", ["alone"], indirect=True)
def test_suspended_operation_does_not_run_its_dependents(driver: Driver) -> None:
    """Suspending and resuming an operation does not run its dependents again."""
    for number, (action, has) in enumerate(
        {"CREATE": 1, "UPDATE": 1, "SUSPEND": 0, "RESUME": 0, "DELETE": 0}.items()
    ):
        values = driver.run(
            operation(
                f"d{number}", script("true"), action=action, outputs=["tosca.run"]
            )
        )
        assert ("tosca.run" in values) == bool(has), action


def test_files_are_text_bytes_or_kept_by_digest(driver: Driver, tmp_path: Path) -> None:
    """All of them are laid out, those with a first line for an interpreter can be executed."""
    content = b"#!/bin/sh\necho kept\n" + bytes(range(256)) * 1000
    kept, digest = tmp_path / "kept", hashlib.sha256(content).hexdigest()
    kept.mkdir()
    (kept / digest).write_bytes(content)
    driver.environment["HEAT_STACK_FILES"] = str(kept)
    text = """
./tool
cat "$page"
sha256sum <../data/kept | cut -d' ' -f1
stat -c '%a %n' tool ../data/bytes ../data/kept
"""
    files = {
        "scripts/main": text,
        "scripts/tool": "#!/bin/sh\necho a tool\n",
        "data/bytes": {"base64": base64.b64encode(b"\xff\x00 bytes").decode()},
        "data/page.txt": "a page\n",
        "data/kept": {"sha256": digest},
    }
    config = {
        "primary": "scripts/main",
        "processor": "bash",
        "files": files,
        "root": "@files@",
    }

    values = driver.run(
        operation("d1", config, inputs={"page": "@files@/data/page.txt"})
    )

    assert values["deploy_stderr"] == ""
    assert (
        values["deploy_stdout"]
        == f"a tool\na page\n{digest}\n700 tool\n600 ../data/bytes\n700 ../data/kept\n"
    )

    (kept / digest).write_bytes(b"other")
    damaged = driver.run(operation("d2", config))
    (kept / digest).unlink()
    gone = driver.run(operation("d3", config))
    assert (damaged["deploy_status_code"], gone["deploy_status_code"]) == (125, 125)
    assert "is damaged: its content has another digest" in damaged["deploy_stderr"]
    assert "cannot be read: No such file or directory" in gone["deploy_stderr"]


def test_files_get_their_places_on_the_machine(driver: Driver, tmp_path: Path) -> None:
    """They are there before the first step, and go at the end of the run, with the deployment, or never."""
    there = tmp_path / "there"
    (tmp_path / "there").mkdir()
    (there / "own").write_text("was here before")
    places = [
        {"file": "page", "to": f"{there}/own"},
        {"file": "page", "to": f"{there}/changed"},
        {"file": "page", "to": f"{there}/kept/page", "until": "never"},
        {"file": "page", "to": f"{there}/shortly", "until": "end"},
    ]
    config = {
        **script(f"cd {there}; cat own changed kept/page shortly", page="a page\n"),
        "places": places,
    }
    config["files"]["page"] = "a page\n"

    values = driver.run(operation("d1", config, name="app"))
    assert values["deploy_stdout"] == "a page\n" * 4, values["deploy_stderr"]
    assert sorted(path.name for path in there.iterdir()) == ["changed", "kept", "own"]
    (there / "changed").write_text("by somebody else")

    removed = driver.run(
        operation(
            "d2",
            {**config, **script("true"), "files": config["files"]},
            action="DELETE",
            name="app",
        )
    )
    assert removed["deploy_status_code"] == 0, removed
    assert sorted(path.name for path in there.iterdir()) == ["changed", "kept", "own"]
    assert (there / "own").read_text() == "was here before"
    assert (there / "kept/page").read_text() == "a page\n"


def test_a_config_without_a_file_to_process_only_copies(
    driver: Driver, tmp_path: Path
) -> None:
    """Artifacts of a node without operations are copied; an empty config does nothing."""
    config = {
        "files": {"page": "a page\n"},
        "places": [{"file": "page", "to": f"{tmp_path}/page"}],
    }

    values = driver.run(operation("d1", config, outputs=["tosca.run"]))
    nothing = driver.run(operation("d2", ""))

    assert (values["deploy_status_code"], (tmp_path / "page").read_text()) == (
        0,
        "a page\n",
    )
    assert values["tosca.run"]
    assert (nothing["deploy_status_code"], nothing["deploy_stderr"]) == (
        0,
        "the config is empty: nothing was run\n",
    )


@pytest.mark.parametrize("driver", ["alone"], indirect=True)
def test_missing_processor_is_reported(driver: Driver, tmp_path: Path) -> None:
    """With 127, and how to install it."""
    driver.environment["PATH"] = str(tmp_path)

    values = driver.run(operation("d1", script("true")))

    assert values["deploy_status_code"] == 127
    assert f"bash is not installed; {needs.BASH.install}" in values["deploy_stderr"]


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ("{", "config: expected an object, or its JSON text: "),
        ("[]", "config: expected an object with the keys primary, processor and files"),
        (
            '{"primary": NaN}',
            "config: expected an object, or its JSON text: NaN is not a number in JSON",
        ),
        ({"primary": 1}, "config.primary: expected text"),
        (
            {"primary": "", "processor": "bash"},
            "config.primary: expected the path of the file to process",
        ),
        (
            {"primary": "a", "processor": "bash"},
            'config.primary: there is no file "a" in config.files',
        ),
        (
            {"primary": "a", "processor": "perl"},
            "config.processor: expected one of bash, python, executable, ",
        ),
        (
            {"primry": "a"},
            'config."primry": there is no such key; the keys are primary, ',
        ),
        (
            {"primary": "a", "steps": []},
            "config.steps: the keys of a step stand in the steps or in the config",
        ),
        ({"steps": {}}, "config.steps: expected a list of objects"),
        (
            {"steps": [{"primary": "a", "files": {}}]},
            'config.steps[0]."files": there is no such key',
        ),
        (
            {"files": []},
            "config.files: expected an object: the path of each file, and its content",
        ),
        (
            {"files": {"/etc/passwd": ""}},
            'config.files["/etc/passwd"]: expected a relative path',
        ),
        (
            {"files": {"a/../../b": ""}},
            'config.files["a/../../b"]: it leads out of the folder of the files',
        ),
        (
            {"files": {"..": ""}},
            'config.files[".."]: it leads out of the folder of the files',
        ),
        (
            {"files": {"a//b": ""}},
            'config.files["a//b"]: expected a path without empty parts and without «.»',
        ),
        (
            {"files": {"a/./b": ""}},
            "expected a path without empty parts and without «.»",
        ),
        ({"files": {"": ""}}, 'config.files[""]: expected the path of a file as text'),
        (
            {"files": {"a\0b": ""}},
            "expected the path of a file as text, without control characters",
        ),
        (
            {"files": {"\ud800": ""}},
            "expected the path of a file as text, without control characters",
        ),
        ({"files": {"x" * 256: ""}}, "names have at most 255 bytes"),
        (
            {"files": {"x/" * 1100 + "x": ""}},
            "names have at most 255 bytes, and paths 2,048",
        ),
        (
            {"files": {"a": "", "a/b": ""}},
            'config.files["a"]: it is both a file and the folder of another file',
        ),
        ({"files": {"a": 1}}, 'config.files["a"]: expected the text of the file'),
        (
            {"files": {"a": {"base64": "?"}}},
            'config.files["a"]: this is not valid base64',
        ),
        (
            {"files": {"a": {"sha256": "../../etc/passwd"}}},
            'config.files["a"]: expected the text of the file',
        ),
        (
            {"files": {"a": {"link": "/etc/passwd"}}},
            'config.files["a"]: expected the text of the file',
        ),
        (
            {"places": [{"file": "a", "to": "/b"}]},
            'config.places[0].file: there is no file "a" in config.files',
        ),
        (
            {"files": {"a": ""}, "places": [{"file": "a", "to": "b"}]},
            "config.places[0].to: expected the absolute path of a file",
        ),
        (
            {"files": {"a": ""}, "places": [{"file": "a", "to": "/x/../b"}]},
            "config.places[0].to: expected the absolute path of a file, without «..»",
        ),
        (
            {
                "files": {"a": ""},
                "places": [{"file": "a", "to": "/x", "until": "then"}],
            },
            "config.places[0].until: expected one of end, delete, never",
        ),
        ({**script(""), "verify": "a"}, "config.verify: expected an object"),
        (
            {
                **script(""),
                "verify": {"primary": "scripts/main", "processor": "ansible"},
            },
            "config.verify.processor: expected a script",
        ),
        (
            {**script(""), "verify": {"primary": "b", "processor": "bash"}},
            'config.verify.primary: there is no file "b" in config.files',
        ),
        (
            {
                "primary": "a",
                "processor": "bash",
                "inputs": "deploy_action",
                "files": {"a": ""},
            },
            "config.inputs: expected the name of an input that begins with «tosca.»",
        ),
    ],
)
def test_mistakes_in_a_config_are_one_sentence(config: object, said: str) -> None:
    """With its place in the deployment."""
    with pytest.raises(HookError) as caught:
        tosca_config.read(config if isinstance(config, str) else json.dumps(config))

    assert said in str(caught.value)
    assert str(caught.value).startswith("config")
    assert len(str(caught.value).splitlines()) == 1


def test_a_mistake_in_a_config_fails_the_deployment(driver: Driver) -> None:
    """With the code for mistakes, before anything runs."""
    config = {
        "files": {"a": {"sha256": "0" * 64}},
        "places": [{"file": "a", "to": "/b"}],
    }

    leading = driver.run(operation("d1", script("touch ran", scripts____="")))
    kept = driver.run(operation("d2", config))

    assert (leading["deploy_status_code"], kept["deploy_status_code"]) == (125, 125)
    assert leading["deploy_stderr"].endswith(
        'config.files["scripts//"]: expected a path without empty parts and without «.»\n'
    )
    assert kept["deploy_stderr"].endswith(
        'config.files["a"]: the file is kept in a folder of a stack, and $HEAT_STACK_FILES names none\n'
    )


def test_inputs_of_an_operation_must_be_an_object(driver: Driver) -> None:
    """Anything else is a mistake; JSON text is accepted, because templates may turn a map into text."""
    config = {**script("echo $who"), "inputs": "tosca.delete"}

    wrong = driver.run(operation("d1", config, inputs={"tosca.delete": [1]}))
    text = driver.run(
        operation(
            "d2", config, inputs={"tosca.delete": '{"who": "text"}', "who": "other"}
        )
    )

    assert wrong["deploy_status_code"] == 125
    assert (
        "inputs.tosca.delete: expected an object with the value of each input"
        in wrong["deploy_stderr"]
    )
    assert text["deploy_stdout"] == "text\n"


@pytest.mark.parametrize("driver", ["alone"], indirect=True)
def test_copy_has_the_permissions_that_its_users_need(driver: Driver) -> None:
    """A new file has those that the umask leaves, a private one its own, and a program can be executed."""
    files = {"page": "x", "key": "k", "program": "#!/bin/sh\n", "tool": "#!/bin/sh\n"}
    modes = {"page": "", "key": "0600", "program": "", "tool": "0640"}
    there = driver.folder / "there"
    places = [
        {"file": name, "to": f"{there}/{name}/sub/file", "mode": mode}
        for name, mode in modes.items()
    ]
    umask = os.umask(0o022)
    try:
        values = driver.run(operation("d1", {"files": files, "places": places}))
    finally:
        os.umask(umask)
    assert values["deploy_status_code"] == 0, values
    shown = {
        name: stat.S_IMODE((there / name / "sub/file").stat().st_mode) for name in files
    }
    assert shown == {"page": 0o644, "key": 0o600, "program": 0o755, "tool": 0o750}
    folders = {
        name: stat.S_IMODE((there / name / "sub").stat().st_mode) for name in files
    }
    assert folders == {"page": 0o755, "key": 0o700, "program": 0o755, "tool": 0o750}
