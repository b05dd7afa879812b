"""The `script` hook: runs a script.

The config is the script, and the inputs are its environment.
As in heat-agents' hook of the same name, the script goes to `WORKING/ID` and is run in `WORKING`.
The output NAME is what it wrote to `$heat_outputs_path.NAME`, byte for byte.
"""

from __future__ import annotations

import json
import os

from heat_config_hooks import files, options, protocol
from heat_config_hooks.errors import HookError
from heat_config_hooks.reply import CANNOT_START, Reply, failure, nothing_done

ABOUT = protocol.About(
    config="the text of a script",
    options={**options.USER, **options.ISOLATE},
    variables=("HEAT_SCRIPT_WORKING", "HEAT_SCRIPT_OUTPUTS"),
    tested="real scripts",
)

_INTERPRETER = 255
"""The longest line that names an interpreter, in bytes (BINPRM_BUF_SIZE)."""


def prepare(
    request: protocol.Request, place: protocol.Workplace
) -> protocol.Command | Reply:
    """Write the script and its inputs, and return the command."""
    script = _text(request.config)
    if not script.strip():
        return nothing_done()
    interpreter = _interpreter(script)
    if interpreter and not os.path.exists(interpreter):  # noqa: PTH110  # once for each deployment
        return failure(
            CANNOT_START,
            f"the script cannot be started: its interpreter {interpreter} does not exist",
        )
    files.make_directory(place.working)
    path = place.working / request.key
    outputs = protocol.clear_outputs(request, place)
    files.replace(path, script.encode("utf-8", "replace"), mode=0o700)
    inputs = place.run / "inputs.json"
    files.create(inputs, json.dumps(protocol.visible_inputs(request)).encode())
    return protocol.Command(
        # The kernel refuses a script without a #! line; its author expects the shell to run it.
        argv=(str(path),) if script.startswith("#!") else ("/bin/sh", str(path)),
        cwd=place.working,
        environment={
            **protocol.environment(request),
            "heat_outputs_path": str(outputs),
            "HEAT_INPUTS_FILE": str(inputs),
        },
        notes=protocol.left_out(request),
    )


finish = protocol.collect


def _interpreter(script: str) -> str:
    """Return the program that the first line of a script names; empty if it names none."""
    words = (
        script.partition("\n")[0].removeprefix("#!").split()
        if script.startswith("#!")
        else []
    )
    return words[0] if words else ""


def _text(config: object) -> str:
    """Return the script, without the byte order mark and the CRs of Windows. Raises HookError."""
    script = protocol.text_of(config, "the text of a script")
    first = script.partition("\n")[0]
    if first.startswith("#!") and len(first.encode("utf-8", "replace")) > _INTERPRETER:
        # The kernel refuses it, and a shell that starts it would run a script of any language itself.
        raise HookError(
            f"the line that names the interpreter is longer than {_INTERPRETER} bytes",
            "config",
        )
    return script.replace("\r\n", "\n") if first.endswith("\r") else script
