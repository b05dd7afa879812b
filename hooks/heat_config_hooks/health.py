"""The option `verify` of a deployment: a script that says whether what it started works, and the health gate of a run.

The gate is part of the run: after its command has succeeded, the same process runs the script until it exits with 0,
under the same supervisor, time limit, user and isolation. So the gate survives what the run survives.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from pathlib import Path

from heat_config_hooks import durations, files, strict_json
from heat_config_hooks.errors import HookError
from heat_config_hooks.protocol import Command, Ended
from heat_config_hooks.reply import (
    STATUS,
    TIMED_OUT,
    UNKNOWN,
    Capture,
    Reply,
    status_code,
)
from heat_config_hooks.values import dataclass, replace

TYPE_CHECKING = False  # as `typing` has it, which takes long to load

if TYPE_CHECKING:
    from heat_config_hooks.verdict import Verdict

RETRIES, INTERVAL, TIMEOUT = 0, 5.0, 60.0
"""The defaults: how often the script is run again, the seconds between, and the seconds that it may take."""

MOST = 1000
"""The largest number of retries."""

_KEYS = ("script", "retries", "interval", "timeout")

_WITHOUT = frozenset({"DELETE", "SUSPEND"})
"""The actions that put nothing into effect that could be verified."""

_SCRIPT, _VARIABLES, _REPLY, _VERDICT, _FIRST = (
    "verify.script",
    "verify.env",
    "verify.reply",
    "verify.verdict",
    "verify.first",
)
"""Files in the folder of a run: the script, its variables, the reply of a hook that has no command, how the gate ended,
and the number of bytes of standard error before it."""

_PROGRAM = """\
case "$5" in -) ;; *) (shift 4; exec "$@") || exit $? ;; esac
wc -c </proc/self/fd/2 2>/dev/null >"$1/verify.first"
set -- "$1" "$2" "$3" "$4" 0 0
while :; do
  (. "$1/verify.env" && exec timeout -k 5 "$4" SHELL "$1/verify.script" </dev/null >&2)
  set -- "$1" "$2" "$3" "$4" $? $(($6 + 1))
  if [ "$5" = 0 ] || [ "$6" -gt "$2" ]; then break; fi
  sleep "$3"
done
echo "$5 $6" >"$1/verify.part" && mv "$1/verify.part" "$1/verify.verdict"
"""
"""The program of the gate, for /bin/sh. Its arguments are the folder of the run, the retries, interval and timeout, and
the command, or `-`. It sets no variable, because an input could have the same name."""


@dataclass(frozen=True, kw_only=True)
class Check:
    """A script that says whether a deployment is in effect."""

    script: str
    retries: int = RETRIES
    """How often it is run again until it exits with 0."""
    interval: float = INTERVAL
    """Seconds between the end of it and the next time."""
    timeout: float = TIMEOUT
    """Seconds that it may take each time."""


def read(value: object, path: str) -> Check:
    """Return the value of the option; `path` is its place in the deployment. Raises HookError for a mistake."""
    if isinstance(value, str) and value.lstrip().startswith("{"):
        # a parameter of a template may have made text of it
        try:
            value = strict_json.loads(value)
        except ValueError:
            raise HookError(
                "expected a script, or an object with script, retries, interval and timeout",
                path,
            ) from None
    if isinstance(value, str):
        value = {"script": value}
    if not isinstance(value, Mapping):
        raise HookError(
            "expected a script, or an object with script, retries, interval and timeout",
            path,
        )
    for key in value:
        if key not in _KEYS:
            raise HookError(f"verify has only {', '.join(_KEYS)}", f"{path}.{key}")
    script = value.get("script")
    if not isinstance(script, str) or not script.strip() or "\0" in script:
        raise HookError("expected the text of a script", f"{path}.script")
    return Check(
        script=script,
        retries=_retries(value.get("retries"), f"{path}.retries"),
        interval=_seconds(value.get("interval"), INTERVAL, f"{path}.interval"),
        timeout=_seconds(value.get("timeout"), TIMEOUT, f"{path}.timeout"),
    )


def _retries(value: object, path: str) -> int:
    if value is None:
        return RETRIES
    text = str(value).strip() if not isinstance(value, bool) else ""
    if not (text.isascii() and text.isdecimal()) or int(text[:9]) > MOST:
        raise HookError(f"expected a whole number from 0 to {MOST}", path)
    return int(text)


def _seconds(value: object, default: float, path: str) -> float:
    if value is None:
        return default
    seconds = durations.seconds(value)
    if not seconds:
        raise HookError(f"expected {durations.WORDS}", path)
    return seconds


def is_gated(action: str) -> bool:
    """Return whether an action puts something into effect, so that the gate follows it."""
    return action not in _WITHOUT


def gated(
    command: Command | Reply, check: Check, environment: Mapping[str, str], run: Path
) -> Command | Reply:
    """Return the command with the gate after it, whose script has an environment too.

    A reply that reports a failure stays as it is. Raises OSError.
    """
    if not isinstance(command, Command):
        if status_code(command) != 0:
            return command
        files.replace(run / _REPLY, json.dumps(command).encode())
        argv: tuple[str, ...] = ("-",)
        command = Command(argv=(), cwd=run)
    else:
        argv = command.argv
    script = _written(check, run)
    exports = (
        f"export {name}={shlex.quote(environment[name])}\n" for name in environment
    )
    files.replace(run / _VARIABLES, "".join(exports).encode())
    # a script without a #! line can also be run where nothing can be executed
    program = _PROGRAM.replace("SHELL ", "" if script.startswith("#!") else "/bin/sh ")
    numbers = (check.retries, f"{check.interval:g}", f"{check.timeout:g}")
    words = ("/bin/sh", "-c", program, "heat-verify", str(run))
    return replace(command, argv=(*words, *map(str, numbers), *argv))


def alone(check: Check, environment: Mapping[str, str], run: Path) -> Command:
    """Return the command that runs the script once, within its timeout, to verify a deployment. Raises OSError."""
    script = _written(check, run)
    begin = () if script.startswith("#!") else ("/bin/sh",)
    program = 'exec timeout -k 5 "$0" "$@" >&2'
    words = ("/bin/sh", "-c", program, f"{check.timeout:g}", *begin, str(run / _SCRIPT))
    return Command(argv=words, cwd=run, environment=environment)


def verdict_of(ended: Ended) -> Verdict:
    """Return the verdict after the script has ended: its last line is the reason. Raises OSError."""
    from heat_config_hooks import verdict  # noqa: PLC0415  # runs do not need it

    if ended.code == 0:
        return verdict.in_effect()
    if ended.code in (TIMED_OUT, 137):
        return verdict.unknown("the verification did not end in time")
    line = _last(ended.stderr, 0)
    return verdict.drifted(
        (), line or f"the verification ended with exit code {ended.code}"
    )


def _written(check: Check, run: Path) -> str:
    """Write the script into the folder of a run, and return its text. Raises OSError."""
    script = check.script.replace("\r\n", "\n")
    files.replace(run / _SCRIPT, script.encode("utf-8", "replace"), mode=0o700)
    return script


def replied(run: Path) -> Reply | None:
    """Return the reply of a hook that had no command before the gate; None if it had one."""
    try:
        reply = json.loads(files.read(run / _REPLY))
    except (OSError, ValueError):
        return None
    return reply if isinstance(reply, dict) else None


def judged(reply: Reply, run: Path, stderr: Path) -> Reply:
    """Return the reply of a command with a gate: a failure, with the reason, unless the gate was passed."""
    if status_code(reply) != 0:
        return reply
    code, _, attempts = _text(run / _VERDICT).strip().partition(" ")
    if code == "0" and attempts:
        return reply
    if not code.isdecimal() or not attempts.isdecimal():
        sentence, status = "the verification has left no result", UNKNOWN
    else:
        status = int(code) or UNKNOWN
        sentence = _sentence(int(code), int(attempts), _last_line(run, stderr))
    return {
        **reply,
        "deploy_stderr": _ending(reply.get("deploy_stderr"), sentence),
        STATUS: status,
    }


def _ending(stderr: object, sentence: str) -> str | Capture:
    """Return standard error with a sentence as its last line: it is the reason of the failure."""
    if isinstance(stderr, Capture):
        return replace(stderr, after=f"{stderr.after}{sentence}\n")
    text = stderr if isinstance(stderr, str) else ""
    newline = "\n" if text and not text.endswith("\n") else ""
    return f"{text}{newline}{sentence}\n"


def _sentence(code: int, attempts: int, line: str) -> str:
    tries = "" if attempts == 1 else f" {attempts} times"
    how = "did not end in time" if code in (TIMED_OUT, 137) else f"exit code {code}"
    return f"the verification failed{tries}: {line or how}"


def _last_line(run: Path, stderr: Path) -> str:
    """Return the last line that the script has printed; empty if it has printed nothing."""
    try:
        return _last(stderr, int(_text(run / _FIRST) or 0))
    except (OSError, ValueError):
        return ""


def _last(path: Path, first: int) -> str:
    """Return the last line of a file after its `first` bytes; empty if there is none. Raises OSError."""
    with open(files.open_regular(path), "rb") as file:
        size = file.seek(0, 2)
        file.seek(max(first, size - 4096))
        lines = file.read().decode("utf-8", "replace").strip().splitlines()
    return lines[-1] if lines else ""


def _text(path: Path) -> str:
    try:
        return files.read(path, 64).decode("ascii", "replace")
    except OSError:
        return ""
