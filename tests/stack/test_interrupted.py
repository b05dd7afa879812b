"""Killed at any moment, the same command again ends in what an uninterrupted one gives, and nothing is done twice."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from heat_config_stack.records.store import line_of
from stack.made import deployment, script, tried, value
from support import endings, loaded
from support.loopback import wait_until

TESTS = Path(__file__).parents[1]


def resources(log: Path, text: str) -> dict[str, Any]:
    """Return a stack of everything that takes more than one step."""
    say = f'echo "$deploy_resource_name $deploy_action {text}" >> {log}; printf "{text}" > $heat_outputs_path.o'
    every = ("CREATE", "UPDATE", "SUSPEND", "DELETE")
    return {
        "config": script(say, "o"),
        "first": deployment("config", *every),
        "replaced": tried(text, update_replace_value=text),
        "second": deployment(
            "config", *every, input_values={"i": {"attr": ["first", "o"]}}
        ),
        "group": {
            "type": "OS::Heat::SoftwareDeploymentGroup",
            "properties": {
                "config": {"ref": "config"},
                "servers": {"a": "x", "b": "y"},
                "actions": list(every),
            },
        },
        "last": value({"attr": ["second", "o"]})
        | {"depends_on": ["group", "replaced"]},
    }


OUTPUTS = {"o": {"attr": ["last", "value"]}}


def run(
    folder: Path, operation: dict[str, Any], *arguments: str
) -> dict[str, Any] | None:
    """Run the driver, and return what it printed; None where it was killed."""
    environment = {"PATH": os.environ["PATH"], "HOME": str(folder), **loaded.STARTED}
    words = [_DRIVES, str(TESTS), str(folder), json.dumps(operation), *arguments]
    code, out, err = loaded.run("-c", words, environment, folder, 60)
    if code == -9:
        return None
    assert code == 0, err
    found: dict[str, Any] = json.loads(out)
    return found


_DRIVES = """
import json, sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from stack import driver
driver.main(Path(sys.argv[2]), json.loads(sys.argv[3]), *sys.argv[4:])
"""


def prepared(folder: Path, before: list[dict[str, Any]]) -> Path:
    """Make the folder of a stack, and do in it what comes before."""
    folder.mkdir()
    for each in before:
        assert run(folder, operation(folder, each["op"], each["text"])) is not None
    (folder / "log").write_text("")
    return folder


def copied(start: Path, folder: Path) -> Path:
    """Return another folder with the same stack, whose scripts write to a log of its own."""
    shutil.copytree(start, folder, symlinks=True)
    kept = folder / "stacks/s/stack"
    if kept.exists():
        lines = [
            json.loads(line[9:].replace(str(start), str(folder)))
            for line in kept.read_text().splitlines()
        ]
        kept.write_bytes(b"".join(line_of(*each) for each in lines))
        (folder / "stacks/s/stack.lock").unlink()  # it says how long the file was
    return folder


def operation(folder: Path, op: str, text: str) -> dict[str, Any]:
    """Return an operation on the stack in a folder."""
    step: dict[str, Any] = {
        "op": op,
        "resources": resources(folder / "log", text),
        "outputs": OUTPUTS,
        "rollback": False,
    }
    if text == BAD:
        step["resources"]["replaced"]["properties"]["fail"] = True
        step["rollback"] = True
    return step


BAD = "bad"
CREATED = [{"op": "create", "text": "one"}]
SAVED = [*CREATED, {"op": "snapshot", "text": ""}, {"op": "update", "text": "two"}]


@pytest.mark.slow
@pytest.mark.timeout(600)  # a process or two for each moment
@pytest.mark.parametrize("where", ["before", "after"])
@pytest.mark.parametrize(
    ("op", "text", "before"),
    [
        pytest.param("create", "one", [], id="create"),
        pytest.param("create", BAD, [], id="create that is rolled back"),
        pytest.param("update", "two", CREATED, id="update"),
        pytest.param("update", BAD, CREATED, id="rollback"),
        pytest.param("suspend", "", CREATED, id="suspend"),
        pytest.param("delete", "", CREATED, id="delete"),
        pytest.param("snapshot", "", CREATED, id="snapshot"),
        pytest.param("restore", "", SAVED, id="restore"),
        pytest.param("delete", "", SAVED, id="delete with a snapshot"),
        pytest.param(
            "adopt", "one", [*CREATED, {"op": "abandon", "text": ""}], id="adopt"
        ),
    ],
)
def test_stack_killed_at_any_moment_is_completed(
    tmp_path: Path, op: str, text: str, before: list[dict[str, Any]], where: str
) -> None:
    """The records and the scripts' effects are the same, wherever the first attempt was killed."""
    start = prepared(tmp_path / "start", before)
    folder = copied(start, tmp_path / "whole")
    whole = run(folder, operation(folder, op, text))
    assert whole is not None
    log = sorted((folder / "log").read_text().splitlines())
    assert log or op in ("snapshot", "adopt")
    died = 0
    for number in range(1, whole["passed"] + 1):
        folder = copied(start, tmp_path / f"{where}{number}")
        killed = run(folder, operation(folder, op, text), where, str(number))
        died += killed is None
        again = run(folder, operation(folder, op, text))
        assert again is not None
        at = f"{where} {number} of {whole['passed']}, {'killed' if killed is None else 'not killed'}"
        assert {**again, "passed": 0} == {**whole, "passed": 0}, at
        assert sorted((folder / "log").read_text().splitlines()) == log, at
    # how often something is put on disk is a matter of time
    assert died > whole["passed"] / 2


def test_a_script_that_runs_meanwhile_is_followed(tmp_path: Path) -> None:
    """Killed while a script runs, the next command waits for that run's end, and takes what came of it."""
    text = f"echo began >> {tmp_path}/log; sleep 1; printf done > $heat_outputs_path.o"
    operation = {
        "op": "create",
        "resources": {"config": script(text, "o"), "it": deployment("config")},
        "outputs": {"o": {"attr": ["it", "o"]}},
        "rollback": False,
    }
    begun = subprocess.Popen(
        [
            sys.executable,
            str(TESTS / "stack/driver.py"),
            str(tmp_path),
            json.dumps(operation),
        ],
        env={
            "PATH": os.environ["PATH"],
            "PYTHONPATH": str(TESTS),
            "HOME": str(tmp_path),
        },
    )
    with endings.ended(begun):
        wait_until((tmp_path / "log").exists, 60)
        begun.kill()  # by itself: its run goes on
        assert begun.wait() == -signal.SIGKILL
    found = run(tmp_path, operation)
    assert found is not None
    assert (found["state"], found["outputs"]) == (["CREATE", "COMPLETE"], {"o": "done"})
    assert (tmp_path / "log").read_text() == "began\n"
