"""The `cfn-init` hook: the config is what AWS calls `AWS::CloudFormation::Init`, and cfn-init carries it out.

As heat-agents' hook of that name: the config goes to `DIR/last_metadata`, where heat-cfntools' cfn-init looks when it
has no credentials; then that is run, without arguments, one at a time on a machine. It prints nothing: what it says is
in its log. For packages, sources, groups, users, files and services that failed its exit code is 0, and only the log
tells.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from heat_config_hooks import files, programs, protocol, steps, strict_json
from heat_config_hooks.errors import HookError
from heat_config_hooks.reply import Reply, nothing_done

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


_SHORT = 2000
"""Characters of a record that is named as a failure."""

_FAILED = 1
"""The status code where the log tells of a failure and cfn-init's exit code does not."""

_RECORD = re.compile(r"([A-Z]+) \[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3}\] (.*)", re.DOTALL)
_ENDED_BADLY = re.compile(r"Return code of -?\d+ after executing: '(.*)", re.DOTALL)

_SKIPPED = re.compile(r"Skipping (package '|invalid (package|service) type: )")
"""What cfn-init says of packages and services that it did nothing for."""

_QUESTION = re.compile(
    r"\['(which|rpm', '-q|\w+', '-y', '--showduplicates', 'list|zypper', '-n', '--no-refresh', 'search)'"
    r"|\['[^']*/systemctl', 'status'|\['[^']*/service', '[^']*', 'status'"
)
"""Commands with which cfn-init asks how things are; what it does not find, it goes on to make."""

_TOLD = re.compile(r"\['(groupadd|useradd)'")
"""Commands of whose failure there is a record of its own."""

_THERE_ALREADY = re.compile(r"An error occurred creating .* : (user|group) name not unique")

_NOTHING_TO_DISABLE = re.compile(
    r"\['[^']*/(systemctl', 'disable'|update-rc\.d', '[^']*', 'disable'|chkconfig', '[^']*', 'off').*"
    r"(does not exist|not found|[Nn]o such file|cannot find a LSB script|error reading information on service)",
    re.DOTALL,
)

_COMMAND_BEGINS = re.compile(r"(.*) is being processed", re.DOTALL)


def prepare(request: protocol.Request, place: protocol.Workplace) -> protocol.Command | Reply:
    """Check the config; say how to carry it out."""
    if not _read(request.config):
        return nothing_done()
    programs.find(PROGRAM, place.environment)
    outputs = protocol.clear_outputs(request, place)
    return steps.command(__name__, request, place, heat_outputs_path=str(outputs))


def carry_out(request: protocol.Request, place: protocol.Workplace) -> int:
    """Write the metadata and run cfn-init, while no other deployment does; say what its log has of what went wrong."""
    config = _read(request.config)
    argv = programs.find(PROGRAM, place.environment)
    directory = Path(place.environment.get("HEAT_CFN_INIT_LAST_METADATA_DIR") or _DIRECTORY)
    files.make_directory(directory)
    lock = os.open(directory / ".lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)  # until we end: there is one place for the metadata, and one log
    except SystemExit:  # our time is over
        steps.say("cfn-init was not run: until now another deployment's was running", error=True)
        raise
    files.replace(directory / "last_metadata", json.dumps({"AWS::CloudFormation::Init": config}).encode())
    log = _log(place)
    began = _size(log)
    try:
        code = steps.run(argv, cwd=place.run)
    except SystemExit:
        _say(f"cfn-init was ended; its log {log} says:", log, began)
        raise
    if code:
        _say(f"cfn-init failed with status {code}; its log {log} says:", log, began)
        return code
    failures, doubts = _judged(_records(_added(log, began)), _ignoring(config))
    if failures:
        _say(f"cfn-init ended with status 0, but something failed; its log {log} says:", log, began)
        steps.say("\n".join(("this failed:", *map(_short, failures))), error=True)
        return _FAILED
    if doubts:
        _say(f"cfn-init ended with status 0; its log {log} says:", log, began)
        steps.say("\n".join(("this may have failed:", *map(_short, doubts))), error=True)
    return 0


finish = protocol.collect


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


def _added(path: Path, began: int) -> Iterator[str]:
    """Yield the lines that were added to a log since it was `began` bytes long."""
    try:
        with path.open("rb") as file:
            file.seek(began if began <= _size(path) else 0)
            for line in file:
                yield line.decode("utf-8", "replace")
    except OSError:
        return


def _say(sentence: str, log: Path, began: int) -> None:
    """Print what was added to a log, of much only the end."""
    size = _size(log)
    said = "".join(_added(log, max(began if began <= size else 0, size - _SAID)))
    steps.say(f"{sentence}\n{said}".rstrip() if said else sentence.partition(";")[0], error=True)


def _short(text: str) -> str:
    """Return a record's text, without its middle where it is long: there is the output of a command in it."""
    return text if len(text) <= _SHORT else f"{text[: _SHORT // 4]} [...] {text[-_SHORT * 3 // 4 :]}"


def _records(lines: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Yield the level and the text of each record: the lines up to the next that begins one."""
    level, text = "", ""
    for line in lines:
        begins = _RECORD.fullmatch(line)
        if begins:
            yield level, text.rstrip("\n")
            level, text = begins[1], begins[2]
        else:
            text += line
    yield level, text.rstrip("\n")


def _ignoring(config: Mapping[str, object]) -> set[str]:
    """Return the names of the commands that may fail, as their `ignoreErrors` says."""
    return {
        name
        for section in config.values()
        for name, command in _map(_map(section).get("commands")).items()
        if str(_map(command).get("ignoreErrors", "")).strip().lower() in {"true", "yes", "1"}
    }


def _judged(records: Iterable[tuple[str, str]], ignoring: set[str]) -> tuple[list[str], list[str]]:
    """Return what failed for sure, and what perhaps did, by the records of a cfn-init that ended with status 0.

    A command of the config that failed has made that another status, unless its errors are to be ignored; what its
    test says is no failure. So within a command only errors are looked at.
    """
    failures: list[str] = []
    doubts: list[str] = []
    command: str | None = None
    for level, text in records:
        begins = _COMMAND_BEGINS.fullmatch(text) if level == "DEBUG" else None
        if begins:
            command = begins[1]
        elif command is None and _tells_failure(level, text):
            doubtful = _THERE_ALREADY.fullmatch(text) or _NOTHING_TO_DISABLE.search(text)
            (doubts if doubtful else failures).append(text)
        elif command is not None and level == "ERROR":
            (doubts if command in ignoring else failures).append(text)
        if command is not None and not begins and _ends(command, level, text):
            command = None
    return failures, doubts


def _tells_failure(level: str, text: str) -> bool:
    """Return whether a record tells of something that failed, outside of the config's own commands."""
    if level == "ERROR" or (level == "WARNING" and _SKIPPED.match(text)):
        return True
    ended = _ENDED_BADLY.fullmatch(text) if level == "DEBUG" else None
    return ended is not None and not _QUESTION.match(ended[1]) and not _TOLD.match(ended[1])


def _ends(command: str, level: str, text: str) -> bool:
    """Return whether a record is the last about one of the config's own commands."""
    return (level == "INFO" and text.startswith((f"{command} has ", f"{command} test returns false"))) or (
        level == "ERROR" and text.startswith(f"{command} has failed. ")
    )


def _map(value: object) -> Mapping[str, object]:
    return value if isinstance(value, Mapping) else {}
