"""The `cfn-init` hook: runs cfn-init, which installs packages, writes files and starts services.

The config is the value of `AWS::CloudFormation::Init`.
As in heat-agents' hook of the same name, the config goes to `DIR/last_metadata`,
where the cfn-init of heat-cfntools looks without credentials; then cfn-init runs without arguments.
Only one deployment of a machine runs it at a time.

cfn-init prints nothing, and writes a log instead.
Its exit code is 0 even if packages, sources, groups, users, files or services have failed.
So the hook reads the log to find such failures.
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
from heat_config_hooks.needs import CFN_INIT, NEEDS
from heat_config_hooks.options import ISOLATE
from heat_config_hooks.reply import Reply, nothing_done

ABOUT = protocol.About(
    config="the value of `AWS::CloudFormation::Init`: an object, or its JSON text",
    options=ISOLATE,
    needs=NEEDS["cfn-init"],
    writes={
        "HEAT_CFN_INIT_LAST_METADATA_DIR": "/var/cache/heat-cfntools",
        "HEAT_CFN_INIT_LOG": "/var/log/cfn-init.log",
    },
    variables=(
        "HEAT_CFN_INIT_CMD",
        "HEAT_CFN_INIT_LAST_METADATA_DIR",
        "HEAT_CFN_INIT_LOG",
        "HEAT_CFN_INIT_OUTPUTS",
    ),
    tested="real cfn-init of heat-cfntools",
)

_REPORTED = 64 * 1024
"""The largest part of the log, in bytes, that is reported with a failure."""


_SHORT = 2000
"""The longest record that is quoted as a failure, in characters."""

_FAILED = 1
"""The status code if the log has a failure, and cfn-init's exit code is 0."""

_RECORD = re.compile(
    r"([A-Z]+) \[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3}\] (.*)", re.DOTALL
)
_ENDED_BADLY = re.compile(r"Return code of -?\d+ after executing: '(.*)", re.DOTALL)

_SKIPPED = re.compile(r"Skipping (package '|invalid (package|service) type: )")
"""Records about packages and services for which cfn-init did nothing."""

_QUESTION = re.compile(
    r"\['(which|rpm', '-q|\w+', '-y', '--showduplicates', 'list|zypper', '-n', '--no-refresh', 'search)'"
    r"|\['[^']*/systemctl', 'status'|\['[^']*/service', '[^']*', 'status'"
)
"""Commands with which cfn-init looks up the present state. Their failure is normal: cfn-init then makes the change."""

_REPORTED_TWICE = re.compile(r"\['(groupadd|useradd)'")
"""Commands whose failure has an error record of its own."""

_THERE_ALREADY = re.compile(
    r"An error occurred creating .* : (user|group) name not unique"
)

_NOTHING_TO_DISABLE = re.compile(
    r"\['[^']*/(systemctl', 'disable'|update-rc\.d', '[^']*', 'disable'|chkconfig', '[^']*', 'off').*"
    r"(does not exist|not found|[Nn]o such file|cannot find a LSB script|error reading information on service)",
    re.DOTALL,
)

_COMMAND_BEGINS = re.compile(r"(.*) is being processed", re.DOTALL)


def prepare(
    request: protocol.Request, place: protocol.Workplace
) -> protocol.Command | Reply:
    """Check the config, and return the command."""
    if not _read(request.config):
        return nothing_done()
    programs.find(CFN_INIT, place.environment)
    outputs = protocol.clear_outputs(request, place)
    return steps.command(__name__, request, place, heat_outputs_path=str(outputs))


def carry_out(request: protocol.Request, place: protocol.Workplace) -> int:
    """Write the metadata and run cfn-init under a lock; report failures from its log, and return an exit code."""
    config = _read(request.config)
    argv = programs.find(CFN_INIT, place.environment)
    directory = Path(
        place.environment.get("HEAT_CFN_INIT_LAST_METADATA_DIR")
        or ABOUT.writes["HEAT_CFN_INIT_LAST_METADATA_DIR"]
    )
    files.make_directory(directory)
    lock = os.open(
        directory / ".lock",
        os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW,
        0o600,
    )
    try:
        # until this process ends, because the machine has one file for the metadata, and one log
        fcntl.flock(lock, fcntl.LOCK_EX)
    except SystemExit:  # the run has timed out
        steps.say(
            "cfn-init was not run, because the cfn-init of another deployment was still running",
            error=True,
        )
        raise
    files.replace(
        directory / "last_metadata",
        json.dumps({"AWS::CloudFormation::Init": config}).encode(),
    )
    log = _log(place)
    began = _size(log)
    try:
        code = steps.run(argv, cwd=place.run)
    except SystemExit:
        _report(f"cfn-init was ended; its log {log} has:", log, began)
        raise
    if code:
        _report(f"cfn-init failed with status {code}; its log {log} has:", log, began)
        return code
    failures, doubts = _findings(_records(_added(log, began)), _ignoring(config))
    if failures:
        _report(
            f"cfn-init ended with status 0, but something failed; its log {log} has:",
            log,
            began,
        )
        steps.say("\n".join(("this failed:", *map(_short, failures))), error=True)
        return _FAILED
    if doubts:
        _report(f"cfn-init ended with status 0; its log {log} has:", log, began)
        steps.say(
            "\n".join(("this may have failed:", *map(_short, doubts))), error=True
        )
    return 0


finish = protocol.collect


def _read(config: object) -> Mapping[str, object]:
    if isinstance(config, str):
        try:
            config = strict_json.loads(config) if config.strip() else None
        except ValueError as error:
            raise HookError(f"it is not valid JSON: {error}", "config") from error
    if not config:
        return {}
    if not isinstance(config, Mapping):
        raise HookError(
            "expected an object, the value of AWS::CloudFormation::Init", "config"
        )
    return config


def _log(place: protocol.Workplace) -> Path:
    return Path(
        place.environment.get("HEAT_CFN_INIT_LOG") or ABOUT.writes["HEAT_CFN_INIT_LOG"]
    )


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _added(path: Path, began: int) -> Iterator[str]:
    """Yield the lines that were added to a log since it was `began` bytes long."""
    try:
        with open(files.open_regular(path), "rb") as file:
            file.seek(began if began <= _size(path) else 0)
            for line in file:
                yield line.decode("utf-8", "replace")
    except OSError:
        return


def _report(sentence: str, log: Path, began: int) -> None:
    """Print a sentence and the end of the text that was added to a log since it was `began` bytes long."""
    size = _size(log)
    text = "".join(_added(log, max(began if began <= size else 0, size - _REPORTED)))
    steps.say(
        f"{sentence}\n{text}".rstrip() if text else sentence.partition(";")[0],
        error=True,
    )


def _short(text: str) -> str:
    """Return the text of a record, without its middle if it is long, as it may contain the output of a command."""
    return (
        text
        if len(text) <= _SHORT
        else f"{text[: _SHORT // 4]} [...] {text[-_SHORT * 3 // 4 :]}"
    )


def _records(lines: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Yield the level and the text of each record. A record continues until a line begins the next one."""
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
    """Return the names of the commands that may fail because of their `ignoreErrors`."""
    return {
        name
        for section in config.values()
        for name, command in protocol.as_map(
            protocol.as_map(section).get("commands")
        ).items()
        if str(protocol.as_map(command).get("ignoreErrors", "")).strip().lower()
        in {"true", "yes", "1"}
    }


def _findings(
    records: Iterable[tuple[str, str]], ignoring: set[str]
) -> tuple[list[str], list[str]]:
    """Return the records of certain failures and of possible failures, of a cfn-init that ended with status 0.

    If a command of the config had failed, the status would not be 0, unless the errors of the command are ignored.
    The output of a command's test is not a failure. So among the records about a command, only errors count.
    """
    failures: list[str] = []
    doubts: list[str] = []
    command: str | None = None
    for level, text in records:
        begins = _COMMAND_BEGINS.fullmatch(text) if level == "DEBUG" else None
        if begins:
            command = begins[1]
        elif command is None and _tells_failure(level, text):
            doubtful = _THERE_ALREADY.fullmatch(text) or _NOTHING_TO_DISABLE.search(
                text
            )
            (doubts if doubtful else failures).append(text)
        elif command is not None and level == "ERROR":
            (doubts if command in ignoring else failures).append(text)
        if command is not None and not begins and _ends(command, level, text):
            command = None
    return failures, doubts


def _tells_failure(level: str, text: str) -> bool:
    """Return whether a record outside of the config's own commands reports a failure."""
    if level == "ERROR" or (level == "WARNING" and _SKIPPED.match(text)):
        return True
    ended = _ENDED_BADLY.fullmatch(text) if level == "DEBUG" else None
    return (
        ended is not None
        and not _QUESTION.match(ended[1])
        and not _REPORTED_TWICE.match(ended[1])
    )


def _ends(command: str, level: str, text: str) -> bool:
    """Return whether a record is the last one about a command of the config."""
    return (
        level == "INFO"
        and text.startswith((f"{command} has ", f"{command} test returns false"))
    ) or (level == "ERROR" and text.startswith(f"{command} has failed. "))
