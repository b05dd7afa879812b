"""The `cfn-init` hook: the config is what AWS calls `AWS::CloudFormation::Init`, and cfn-init carries it out.

As heat-agents' hook of that name: the config goes to `DIR/last_metadata`, where heat-cfntools' cfn-init looks when it
has no credentials; then that is run, without arguments. It prints nothing: what it says is in its log.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from heat_config_hooks import files, programs, protocol, strict_json
from heat_config_hooks.errors import HookError
from heat_config_hooks.reply import Capture, Reply

PROGRAM = programs.Program(
    names=("cfn-init",),
    variable="HEAT_CFN_INIT_CMD",
    install="install heat-cfntools («pip install heat-cfntools» or «apt install heat-cfntools»)",
    version=("--help",),
)

ABOUT = protocol.About(
    config="the value of `AWS::CloudFormation::Init`: an object, or its JSON text",
    program=PROGRAM,
    variables=(
        "HEAT_CFN_INIT_CMD",
        "HEAT_CFN_INIT_LAST_METADATA_DIR",
        "HEAT_CFN_INIT_LOG",
        "HEAT_CFN_INIT_OUTPUTS",
    ),
    tested="real cfn-init of heat-cfntools",
)

_DIRECTORY = "/var/cache/heat-cfntools"
_LOG = "/var/log/cfn-init.log"

_SAID = 64 * 1024
"""Bytes of the log that a failure is reported with at most."""


def prepare(request: protocol.Request, place: protocol.Workplace) -> protocol.Command | Reply:
    """Write the metadata; say how to run cfn-init."""
    config = _read(request.config)
    if not config:
        return {
            "deploy_stdout": "",
            "deploy_stderr": "the config is empty: nothing was run\n",
            "deploy_status_code": 0,
        }
    argv = programs.find(PROGRAM, place.environment)
    outputs = protocol.clear_outputs(request, place)
    directory = Path(place.environment.get("HEAT_CFN_INIT_LAST_METADATA_DIR") or _DIRECTORY)
    files.make_directory(directory)
    files.replace(directory / "last_metadata", json.dumps({"AWS::CloudFormation::Init": config}).encode())
    files.replace(place.run / "log-began", str(_size(_log(place))).encode())
    return protocol.Command(argv=argv, cwd=place.run, environment={"heat_outputs_path": str(outputs)})


def finish(request: protocol.Request, place: protocol.Workplace, ended: protocol.Ended) -> Reply:
    """Return what came of it; of a failure also what cfn-init wrote to its log."""
    reply = protocol.collect(request, place, ended)
    if ended.code:
        log = _log(place)
        said = _added(log, int((place.run / "log-began").read_bytes()))
        sentence = f"cfn-init failed with status {ended.code}"
        reply["deploy_stderr"] = Capture(
            ended.stderr, f"{sentence}; its log {log} says:\n{said}" if said else f"{sentence}\n"
        )
    return reply


def _read(config: object) -> Mapping[str, object]:
    if isinstance(config, str):
        try:
            config = strict_json.loads(config) if config.strip() else None
        except ValueError as error:
            raise HookError(f"it is no JSON: {error}", "config") from error
    if not config:
        return {}
    if not isinstance(config, Mapping):
        raise HookError("expected an object, as in AWS::CloudFormation::Init", "config")
    return config


def _log(place: protocol.Workplace) -> Path:
    return Path(place.environment.get("HEAT_CFN_INIT_LOG") or _LOG)


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _added(path: Path, began: int) -> str:
    """Return what was added to a log since it was `began` bytes long, of much only the end."""
    size = _size(path)
    try:
        with path.open("rb") as file:
            file.seek(max(began if began <= size else 0, size - _SAID))
            return file.read(_SAID).decode("utf-8", "replace")
    except OSError:
        return ""
