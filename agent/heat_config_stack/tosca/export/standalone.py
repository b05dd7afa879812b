"""Runs one operation of a TOSCA service as a script of any agent for Heat's software deployments.

`heat-config-agent template export --tool script` puts this program into the template, with a description of the
operation as `OPERATION`: its files, its steps and its outputs. It needs Python 3.6 and nothing else.
It runs the steps as the tool `tosca` of heat-config-agent does, and it is never imported by that agent.
"""

import base64
import json
import os
import subprocess
import sys
import tempfile
import time
from typing import Any, Dict, List, Tuple

OPERATION: Dict[str, Any] = {}

INPUTS = "tosca_inputs"
SURROUNDINGS = "tosca_surroundings"


def variables(values: Dict[str, Any]) -> Dict[str, str]:
    """Return inputs as variables of the environment: text as it is, anything else as JSON."""
    variables = {}
    for name, value in values.items():
        if value is None:
            variables[name] = ""
        elif isinstance(value, str):
            variables[name] = value
        else:
            variables[name] = json.dumps(
                value, separators=(",", ":"), ensure_ascii=False
            )
    return variables


def given(name: str) -> Dict[str, Any]:
    """Return the map that is an input of the deployment."""
    value = json.loads(os.environ.get(name) or "{}")
    return value if isinstance(value, dict) else {}


def placed(value: Any, folder: str) -> Any:
    """Return a value in which the folder of the files stands for its mark."""
    mark = OPERATION.get("root")
    if isinstance(value, str):
        return value.replace(mark, folder) if mark else value
    if isinstance(value, list):
        return [placed(item, folder) for item in value]
    if isinstance(value, dict):
        return {name: placed(item, folder) for name, item in value.items()}
    return value


def content_of(content: Any) -> bytes:
    """Return the bytes of a file."""
    return (
        content.encode()
        if isinstance(content, str)
        else base64.b64decode(content["base64"])
    )


def write(path: str, content: bytes) -> None:
    """Write a file, with the folders that it is in."""
    folder = os.path.dirname(path)
    if not os.path.isdir(folder):
        os.makedirs(folder, 0o700)
    with os.fdopen(
        os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o700), "wb"
    ) as file:
        file.write(content)


def command(
    step: Dict[str, str], path: str, folder: str
) -> Tuple[List[str], Dict[str, str]]:
    """Return the command for the file of a step, and further variables for it."""
    names = OPERATION["outputs"]
    if step["processor"] == "python":
        runner = os.path.join(folder, "run.py")
        arguments = os.path.join(folder, "arguments.json")
        write(runner, OPERATION["python"].encode())
        write(arguments, json.dumps({"names": names, "folder": folder}).encode())
        return [sys.executable or "python3", "-u", runner, arguments, path], {}
    with open(path, "rb") as file:
        first = file.readline()
    words = (
        first[2:].decode("utf-8", "replace").split() if first.startswith(b"#!") else []
    )
    name = (
        os.path.basename(words[-1 if words[0].endswith("/env") else 0])
        if words
        else "bash"
    )
    if step["processor"] != "bash" or name not in ("bash", "sh"):
        return [path], {}
    code = os.path.join(folder, "bash.env")
    write(code, OPERATION["bash"].replace("__FOLDER__", folder).encode())
    return ["bash", path], {"BASH_ENV": code}


def run(
    step: Dict[str, str], place: str, environment: Dict[str, str]
) -> Tuple[int, Dict[str, bytes]]:
    """Run a step, and return its exit code and its outputs."""
    path = os.path.join(place, "files", step["primary"])
    folder = os.path.join(place, "out")
    if not os.path.isdir(folder):
        os.mkdir(folder, 0o700)
    argv, more = command(step, path, folder)
    try:
        ended = subprocess.run(
            argv,
            cwd=os.path.dirname(path),
            env={**environment, **more},
            stdin=subprocess.DEVNULL,
        )
    except OSError as error:
        sys.stderr.write(
            "%s cannot be started: %s\n" % (step["primary"], error.strerror)
        )
        return 127, {}
    outputs = {}
    for name in OPERATION["outputs"]:
        written = os.path.join(folder, name)
        if os.path.isfile(written):
            with open(written, "rb") as file:
                value = file.read()
            if step["processor"] == "python":  # its outputs are JSON
                parsed = json.loads(value.decode())
                value = parsed.encode() if isinstance(parsed, str) else value
            outputs[name] = value
    return (
        ended.returncode if ended.returncode >= 0 else 128 - ended.returncode,
        outputs,
    )


UMASK: List[int] = []
"""The umask of the caller."""


def copy(place: str) -> None:
    """Copy files to the paths that want them, with the permissions that their users need."""
    for each in OPERATION.get("places") or ():
        path = placed(each["to"], place)
        content = content_of(OPERATION["files"][each["file"]])
        mode = int(each["mode"], 8) if each.get("mode") else 0o644 & ~UMASK[0]
        if content.startswith((b"#!", b"\x7fELF")):
            mode |= 0o100 | (mode & 0o444) >> 2
        if not os.path.isdir(os.path.dirname(path)):
            previous = os.umask(UMASK[0])
            os.makedirs(
                os.path.dirname(path), 0o700 | (mode & 0o44) | (mode & 0o44) >> 2
            )
            os.umask(previous)
        write(path, content)
        os.chmod(path, mode)


def take_away(place: str, action: str) -> None:
    """Remove copies whose time is over, except changed ones."""
    for copied in OPERATION.get("places") or ():
        path = placed(copied["to"], place)
        if copied["until"] == "end" or (
            copied["until"] == "delete" and action == "DELETE"
        ):
            try:
                with open(path, "rb") as file:
                    is_ours = file.read() == content_of(
                        OPERATION["files"][copied["file"]]
                    )
                if is_ours or copied["until"] == "end":
                    os.remove(path)
            except FileNotFoundError:
                pass


def carry_out(place: str) -> int:
    """Run all steps, up to the first that fails; return the exit code."""
    action = os.environ.get("deploy_action", "")
    folder = os.path.join(place, "files")
    os.mkdir(folder, 0o700)
    for name, content in OPERATION["files"].items():
        write(os.path.join(folder, name), content_of(content))
    common = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("tosca_")
    }
    common.update(variables(placed(given(SURROUNDINGS), folder)))
    if action != "DELETE":
        copy(folder)
    outputs: Dict[str, bytes] = {}
    code = 0
    for step in OPERATION["steps"]:
        inputs = variables(placed(given(step.get("inputs") or INPUTS), folder))
        environment = {
            "TOSCA_OPERATION": step.get("operation") or "",
            **common,
            **inputs,
        }
        code, found = run(step, place, environment)
        outputs.update(found)
        if code:
            break
    take_away(folder, action)
    base = os.environ.get("heat_outputs_path")
    if base and not code:
        if action in ("CREATE", "UPDATE"):
            outputs["tosca_run"] = str(int(time.time() * 10**9)).encode()
        for name, value in outputs.items():
            if not os.path.exists("%s.%s" % (base, name)):
                write("%s.%s" % (base, name), value)
    return code


def main() -> int:
    """Run the operation in a folder that is removed at the end."""
    UMASK.append(os.umask(0o077))
    with tempfile.TemporaryDirectory(prefix="tosca-") as place:
        return carry_out(os.path.realpath(place))


if __name__ == "__main__":
    sys.exit(main())
