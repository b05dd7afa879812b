from __future__ import annotations

import ast
import json
import os
import shlex
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from heat_config_hooks.tools import python
from support import pace
from support.driver import Driver
from support.loopback import SignalServer
from support.machine import Machine, deployment
from support.observations import ended

pytestmark = pytest.mark.takes(60)

INPUTS: dict[str, Any] = {
    "text": "ü 😀 \"double\" 'single' \\ $HOME\nsecond line",
    "number": 3,
    "float": 2.5,
    "yes": True,
    "nothing": None,
    "list": [1, "two", None, {"deep": [[]]}],
    "map": {"key": {"inner": [True]}},
    "no-variable's name": "as well",
    "PATH": "/nonexistent",
}


def script(identity: str, config: object, **fields: Any) -> dict[str, Any]:
    """Return a deployment of the tool."""
    return deployment(identity, config, group="python", **fields)


def test_inputs_and_outputs_keep_their_types(driver: Driver) -> None:
    """At every action, the script gets the inputs with their types, and the result has its outputs."""
    config = """
import json
import os
import sys
assert os.environ["text"] == inputs["text"] and os.environ["list"] == json.dumps(inputs["list"], separators=(",", ":"))
assert os.environ["number"] == "3" and os.environ["yes"] == "true" and os.environ["nothing"] == ""
assert "no-variable's name" not in os.environ and os.environ["PATH"] != "/nonexistent"
with open(os.environ["HEAT_INPUTS_FILE"]) as file:
    assert json.load(file) == inputs
outputs["given"] = inputs
outputs.update(action=action, deployment=deployment, nothing=None, number=1.5)
outputs["list"] = []
outputs["list"].append("changed after it was set")
outputs["tuple"] = ("a", 1)
outputs["gone"] = 1
del outputs["gone"]
print(len(outputs), "nothing" in outputs, sys.stdin.read() == "", input is not None)
"""
    outputs = [
        "given",
        "action",
        "deployment",
        "nothing",
        "number",
        "list",
        "tuple",
        "gone",
        "never",
    ]

    for number, action in enumerate(("CREATE", "UPDATE", "DELETE")):
        values = driver.run(
            script(f"d{number}", config, inputs=INPUTS, action=action, outputs=outputs)
        )

        assert (values["deploy_status_code"], values["deploy_stderr"]) == (0, "")
        assert values["deploy_stdout"] == "7 True True True\n"
        assert values["given"].items() >= {**INPUTS, "deploy_action": action}.items()
        assert [type(values["given"][name]) for name in INPUTS] == [
            type(value) for value in INPUTS.values()
        ]
        assert values["action"] == action
        assert values["deployment"] == {"id": f"d{number}", "name": f"d{number}"}
        assert (values["nothing"], values["number"], values["tuple"]) == (
            None,
            1.5,
            ["a", 1],
        )
        assert values["list"] == ["changed after it was set"]
        assert values.keys() & {"gone", "never"} == set()


def test_a_second_deployment_of_the_same_config_is_a_run_of_its_own(
    driver: Driver, tmp_path: Path
) -> None:
    """It does not have the outputs of the first one."""
    config = f"""
import pathlib
path = pathlib.Path("{tmp_path}/made")
if not path.exists():
    path.write_text("once")
    outputs["made"] = str(path)
"""

    first = driver.run(script("d1", config, outputs=["made"]))
    second = driver.run(script("d2", config, outputs=["made"], action="UPDATE"))

    assert first == {
        "deploy_stdout": "",
        "deploy_stderr": "",
        "deploy_status_code": 0,
        "made": f"{tmp_path}/made",
    }
    assert second == {"deploy_stdout": "", "deploy_stderr": "", "deploy_status_code": 0}


@pytest.mark.parametrize(
    ("death", "code"),
    [
        ("raise SystemExit", 0),
        ("sys.exit(7)", 7),
        ("sys.exit('enough')", 1),
        ("os._exit(9)", 9),
        ("os.kill(os.getpid(), 9)", 128 + 9),
        ("raise ValueError('bad value')", 1),
        ("raise KeyboardInterrupt", 1),
    ],
)
def test_an_output_counts_as_soon_as_it_is_set(
    driver: Driver, death: str, code: int
) -> None:
    """The result has it, and the output of the run, however the script ends afterwards."""
    config = f"import os, sys\noutputs['url'] = {{'port': 80}}\nprint('half a line', end='')\n{death}\n"

    values = driver.run(script("d1", config, outputs=["url"]))

    assert values["deploy_status_code"] == code
    assert values["url"] == {"port": 80}
    assert values["deploy_stdout"] == "half a line"
    if "enough" in death:
        assert values["deploy_stderr"] == "enough\n"


def test_traceback_shows_only_the_script(driver: Driver) -> None:
    """It names the file, lines and text of the script, and no frame of the program around it."""
    config = "def fail():\n    return 1 / zero\n\nzero = 0\nfail()\n"

    values = driver.run(script("d1", config))

    path = driver.working("python") / "d1.py"
    assert values["deploy_status_code"] == 1
    lines = [
        line for line in values["deploy_stderr"].splitlines() if set(line) - set(" ~^")
    ]
    assert lines == [
        "Traceback (most recent call last):",
        f'  File "{path}", line 5, in <module>',
        "    fail()",
        f'  File "{path}", line 2, in fail',
        "    return 1 / zero",
        "ZeroDivisionError: division by zero",
    ]
    assert path.read_text() == config
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_syntax_error_is_a_failure_with_its_line(driver: Driver) -> None:
    """Python reports the place, and nothing has run."""
    values = driver.run(script("d1", "print('not this')\nif True print()\n"))

    assert values["deploy_status_code"] == 1
    assert values["deploy_stdout"] == ""
    assert values["deploy_stderr"].startswith(
        f'  File "{driver.working("python")}/d1.py", line 2\n'
    )
    assert values["deploy_stderr"].splitlines()[-1].startswith("SyntaxError: ")


@pytest.mark.parametrize(
    ("statement", "sentence"),
    [
        (
            "outputs['bad'] = {1, 2}",
            "TypeError: the output 'bad' must be a JSON value: ",
        ),
        (
            "outputs['bad'] = float('nan')",
            "TypeError: the output 'bad' must be a JSON value: ",
        ),
        (
            "outputs['bad'] = here = []; here.append(here)",
            "the output 'bad' must be a JSON value: Circular",
        ),
        (
            "outputs['bda'] = 1",
            "'bda' is not an output of this deployment: its outputs are bad, good",
        ),
    ],
)
def test_invalid_output_raises_where_it_is_set(
    driver: Driver, statement: str, sentence: str
) -> None:
    """The error is raised in the line that sets it if possible; earlier outputs count."""
    values = driver.run(
        script("d1", f"outputs['good'] = 1\n{statement}\n", outputs=["bad", "good"])
    )

    assert values["deploy_status_code"] == 1
    assert sentence in values["deploy_stderr"].splitlines()[-1]
    assert "run.py" not in values["deploy_stderr"]
    assert values["good"] == 1
    assert values.get("bad", []) == []
    if "Circular" not in sentence:
        assert (
            f'{driver.working("python")}/d1.py", line 2, in <module>'
            in values["deploy_stderr"]
        )


def test_script_that_assigns_to_outputs_is_told_why_it_has_none(driver: Driver) -> None:
    """A script that assigns to `outputs` itself sets no outputs, and a message says why."""
    config = "import sys\noutputs = {'url': 1}\nsys.stderr.write('a word')\n"
    values = driver.run(script("d1", config, outputs=["url"]))

    assert "url" not in values
    sentence = "the script has assigned something else to the name «outputs», so it sets no outputs"
    assert values["deploy_stderr"] == f"a word\n{sentence}\n"


def test_deeply_nested_output_is_a_failure(driver: Driver) -> None:
    """An output that cannot be read again fails the deployment."""
    config = (
        "deep = []\nfor _ in range(500):\n    deep = [deep]\noutputs['deep'] = deep\n"
    )

    values = driver.run(script("d1", config, outputs=["deep"]))

    assert values["deploy_status_code"] == 125
    assert (
        values["deploy_stderr"]
        == "the outputs of the script cannot be read: it is nested too deeply\n"
    )


def test_the_script_is_a_main_program_like_any_other(
    driver: Driver, tmp_path: Path
) -> None:
    """It is `__main__`, with its own path and arguments; threads and pickles work; no folder of ours is searched."""
    working = driver.working("python")
    working.mkdir(parents=True)
    (working / "other.py").write_text("")
    (tmp_path / "modules").mkdir()
    (tmp_path / "modules/mine.py").write_text("VALUE = 'mine'\n")
    config = """\
from __future__ import annotations
import dataclasses, importlib.util, os, pickle, sys, threading
import mine

@dataclasses.dataclass
class Point:
    x: int

def each(number):
    outputs[f"n{number}"] = number

if __name__ == "__main__":
    threads = [threading.Thread(target=each, args=(n,)) for n in range(8)]
    for thread in threads: thread.start()
    for thread in threads: thread.join()
    found = [name for name in ("other", "d0", "run", "heat_config_hooks") if importlib.util.find_spec(name)]
    assert pickle.loads(pickle.dumps(Point(1))) == Point(1)
    assert sys.argv == [__file__]
    outputs["seen"] = [__file__, os.getcwd(), mine.VALUE, found]
    outputs["names"] = sorted(name for name in globals() if not name.startswith("__"))
    print("Grüße", file=sys.stderr)
"""
    options = {"path": f"{tmp_path}/modules", "interpreter": "/usr/bin/python3"}
    if not os.access("/usr/bin/python3", os.X_OK):
        pytest.skip("there is no Python of the system's: «apt install python3»")
    names = [f"n{number}" for number in range(8)]
    driver.run(script("d0", "pass"))

    values = driver.run(
        script(
            "d1", f"\ufeff{config}", outputs=["seen", "names", *names], options=options
        )
    )

    assert (values["deploy_status_code"], values["deploy_stderr"]) == (0, "Grüße\n")
    assert values["seen"] == [f"{working}/d1.py", str(working), "mine", []]
    assert [values[name] for name in names] == list(range(8))
    given = {"inputs", "outputs", "action", "deployment"}
    imported = {
        "annotations",
        "dataclasses",
        "importlib",
        "mine",
        "os",
        "pickle",
        "sys",
        "threading",
    }
    assert set(values["names"]) == given | imported | {
        "Point",
        "each",
        "threads",
        "thread",
        "found",
    }


def test_the_interpreter_can_be_chosen(driver: Driver, tmp_path: Path) -> None:
    """The option comes first, then the variable, then `python3` in the PATH."""
    asked = "import os\noutputs['by'] = os.environ['BY'], os.environ.get('heat_outputs_path')\n"
    for name in ("python3", "variable", "option"):
        folder = tmp_path / "interpreters"
        folder.mkdir(exist_ok=True)
        (folder / name).write_text(
            f'#!/bin/sh\nBY="{name}$BY" exec {shlex.quote(sys.executable)} "$@"\n'
        )
        (folder / name).chmod(0o755)
    versions = []

    driver.environment["PATH"] = f"{folder}:{os.environ['PATH']}"
    versions.append(driver.run(script("d1", asked, outputs=["by"])))
    driver.environment["HEAT_PYTHON_CMD"] = f"{folder}/variable -B"
    versions.append(driver.run(script("d2", asked, outputs=["by"])))
    versions.append(
        driver.run(
            script("d3", asked, outputs=["by"], options={"interpreter": "option"})
        )
    )

    assert [each["by"] for each in versions] == [
        ["python3", None],
        ["variable", None],
        ["option", None],
    ]


def test_missing_interpreter_is_reported(driver: Driver, tmp_path: Path) -> None:
    """The message names it. Without any `python3` in the PATH, our own is used."""
    ours = driver.run(script("d1", "print('ran')", options={}), seconds=60)
    (tmp_path / "empty").mkdir()
    driver.environment["PATH"] = str(tmp_path / "empty")
    alone = driver.run(script("d2", "print('ran')"))
    option = driver.run(
        script("d3", "print('ran')", options={"interpreter": "python3.1"})
    )
    driver.environment["HEAT_PYTHON_CMD"] = "/nonexistent/python"
    variable = driver.run(script("d4", "print('ran')"))

    assert (ours["deploy_stdout"], alone["deploy_stdout"]) == ("ran\n", "ran\n")
    assert (option["deploy_status_code"], variable["deploy_status_code"]) == (127, 127)
    assert (
        "options.interpreter: python3.1 is not installed; install it with"
        in option["deploy_stderr"]
    )
    assert (
        "/nonexistent/python ($HEAT_PYTHON_CMD) is not installed; install it"
        in variable["deploy_stderr"]
    )


def test_a_script_that_hangs_is_ended(driver: Driver, tmp_path: Path) -> None:
    """The timeout ends all its processes, and the result has the output until then."""
    config = f"""
import subprocess, time
print("before", end="")
child = subprocess.Popen(["sleep", "1000"])
open("{tmp_path}/pid", "w").write(str(child.pid))
time.sleep(1000)
"""

    for limit in (3, 10, 40):  # a busy machine takes longer until the script has begun
        values = driver.run(script(f"d{limit}", config, options={"timeout": limit}))
        assert values["deploy_status_code"] == 124
        if (tmp_path / "pid").exists():
            break

    assert values["deploy_stdout"] == "before"
    assert ended(int((tmp_path / "pid").read_text()))


def test_secrets_are_on_no_command_line_and_do_not_stay(
    driver: Driver, tmp_path: Path
) -> None:
    """The list of processes has no inputs, files are private, and they are removed after the run."""
    config = f"""
import json, os, pathlib, sys
words = pathlib.Path("/proc/self/cmdline").read_bytes().decode().split("\\0")
variables = pathlib.Path("/proc/self/environ").read_bytes().decode()
run = pathlib.Path(words[2]).parent
seen = {{
    "hidden": "hunter-2-secret" not in str(words) + variables and "of heat" not in str(inputs),
    "modes": [oct(path.stat().st_mode & 0o777) for path in (run, run / "given.json", run / "run.py")],
    "run": str(run),
}}
pathlib.Path("{tmp_path}/seen").write_text(json.dumps(seen))
"""

    values = driver.run(
        script(
            "d1",
            config,
            inputs={"password": "hunter-2-secret", "deploy_password": "of heat"},
        )
    )

    assert values["deploy_status_code"] == 0, values
    seen = json.loads((tmp_path / "seen").read_text())
    assert seen["hidden"]
    assert seen["modes"] == ["0o700", "0o600", "0o600"]
    left = [each.name for each in Path(seen["run"]).rglob("*")]
    assert not [
        each
        for each in left
        if each not in {"stdout", "stderr", "supervisor"} and "status." not in each
    ]


def test_output_is_visible_as_it_is_printed(
    machine: Machine, heat: SignalServer, tmp_path: Path
) -> None:
    """Output is visible as soon as it is printed."""
    config = f"import os, time\nprint('so far')\nwhile not os.path.exists('{tmp_path}/go'):\n    time.sleep(0.05)\n"
    process = machine.start_apply(
        [script("d1", config, signal=heat.url(), options={"timeout": 60})]
    )
    printed = machine.state / "runs/d1/stdout"
    deadline = time.monotonic() + pace.seconds(20)

    while not (printed.exists() and printed.read_text() == "so far\n"):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    (tmp_path / "go").touch()
    process.communicate(timeout=pace.seconds(60))

    assert heat.values() == [
        {"deploy_stdout": "so far\n", "deploy_stderr": "", "deploy_status_code": 0}
    ]


@pytest.mark.parametrize("config", ["", " \n", None])
def test_empty_config_succeeds(driver: Driver, config: object) -> None:
    """It is a success without anything to do."""
    assert driver.run(script("d1", config)) == {
        "deploy_stdout": "",
        "deploy_stderr": "the config is empty: nothing was run\n",
        "deploy_status_code": 0,
    }


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        (
            {"options": {"interpretor": "a"}},
            "options.interpretor: python has no such option; did you mean interpreter?",
        ),
        (
            {"options": {"path": {"a": 1}}},
            "options.path: expected text, or a list of texts, not {'a': 1}",
        ),
        ({"options": {"interpreter": 3}}, "options.interpreter: expected text, not 3"),
        ({"config": {"a": 1}}, "config: expected the text of a Python script"),
    ],
)
def test_mistakes_are_named(
    driver: Driver, fields: dict[str, Any], sentence: str
) -> None:
    """The message has the path of the mistake, and nothing is run."""
    values = driver.run({**script("d1", "print('ran')"), **fields})

    assert values["deploy_status_code"] == 125
    assert sentence in values["deploy_stderr"]
    assert values["deploy_stdout"] == ""


def test_the_program_around_the_script_runs_in_old_pythons(tmp_path: Path) -> None:
    """It uses the syntax of Python 3.6, which the oldest images in use have."""
    ast.parse(python.RUNNER, feature_version=(3, 6))
    (tmp_path / "run.py").write_text(python.RUNNER)
    (tmp_path / "s.py").write_text(
        "import os\noutputs['a'] = inputs['b'] if os.environ['b'] == '[1]' else None"
    )
    given = {
        "inputs": {"b": [1]},
        "outputs": ["a"],
        "action": "",
        "deployment": {},
        "path": [],
        "environment": {"b": "[1]"},
        "script": f"{tmp_path}/s.py",
    }
    (tmp_path / "given.json").write_text(json.dumps(given))

    # Isolated, and without the standard library's optional parts: nothing but built-ins, json and os.
    subprocess.run(
        [sys.executable, "-I", "-S", str(tmp_path / "run.py")],
        check=True,
        timeout=pace.seconds(60),
    )

    assert json.loads((tmp_path / "outputs.json").read_text()) == {"a": [1]}
