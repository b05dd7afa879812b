"""The `script` hook.

The config is an executable, the inputs are its environment, files beside `$heat_outputs_path` its outputs.

As heat-agents' hook of that name: the config goes to `WORKING/ID` and that path is run in `WORKING`; the output NAME is
what the script wrote to `$heat_outputs_path.NAME`, byte for byte.
"""

from __future__ import annotations

import json
import os

from heat_config_hooks import files, protocol
from heat_config_hooks.errors import HookError
from heat_config_hooks.reply import CANNOT_START, Reply, failure, nothing_done

ABOUT = protocol.About(
    config="an executable text",
    variables=("HEAT_SCRIPT_WORKING", "HEAT_SCRIPT_OUTPUTS"),
    tested="real scripts",
)

_INTERPRETER = 255
"""Bytes of the line that names the interpreter at most (BINPRM_BUF_SIZE)."""


def prepare(request: protocol.Request, place: protocol.Workplace) -> protocol.Command | Reply:
    """Write the script and its inputs; say how to run it."""
    script = _text(request.config)
    if not script.strip():
        return nothing_done()
    interpreter = _interpreter(script)
    if interpreter and not os.path.exists(interpreter):  # noqa: PTH110  # once for each deployment
        return failure(CANNOT_START, f"it cannot be started: its interpreter {interpreter} is not there")
    files.make_directory(place.working)
    path = place.working / request.key
    outputs = protocol.clear_outputs(request, place)
    files.replace(path, script.encode("utf-8", "replace"), mode=0o700)
    inputs = place.run / "inputs.json"
    files.create(inputs, json.dumps(protocol.visible_inputs(request)).encode())
    return protocol.Command(
        # Without a #! line the kernel refuses to run it; the shell is what its author had in mind.
        argv=(str(path),) if script.startswith("#!") else ("/bin/sh", str(path)),
        cwd=place.working,
        environment={
            **protocol.environment(request),
            "heat_outputs_path": str(outputs),
            "HEAT_INPUTS_FILE": str(inputs),
        },
    )


finish = protocol.collect


def _interpreter(script: str) -> str:
    """Return the program that a script names in its first line; empty where it names none."""
    words = script.partition("\n")[0].removeprefix("#!").split() if script.startswith("#!") else []
    return words[0] if words else ""


def _text(config: object) -> str:
    """Return the script. One written on Windows runs too: its byte order mark and CRs are no part of any command."""
    if config is None:
        return ""
    if not isinstance(config, str):
        raise HookError("the script tool takes text, not a structure", "config")
    script = config.removeprefix("\ufeff")
    first = script.partition("\n")[0]
    if first.startswith("#!") and len(first.encode("utf-8", "replace")) > _INTERPRETER:
        # The kernel refuses it, and the shell that starts it would then run it itself, whatever it is written in.
        raise HookError(f"the line that names the interpreter is over {_INTERPRETER} bytes long", "config")
    return script.replace("\r\n", "\n") if first.endswith("\r") else script
