"""Hooks that are executables: the deployment as JSON on standard input, the reply as JSON on standard output.

The protocol is that of heat-agents, so hooks written for it work unchanged. `prepare` and `finish` are the two steps of
`heat_config_hooks.protocol.Hook`, for a hook that is not a module.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from heat_config_hooks import files, programs, protocol, strict_json
from heat_config_hooks.reply import (
    CANNOT_START,
    UNKNOWN,
    Capture,
    Reply,
    failure,
    status_code,
)

TYPE_CHECKING = False  # as `typing` has it, which takes long to load

if TYPE_CHECKING:
    from heat_config_hooks.verdict import Verdict

_REPLY_LIMIT = 64 * 1024 * 1024
"""The largest size of a reply in bytes: it is read into memory as a whole."""

_VERDICT_LIMIT = 1024 * 1024
"""The largest size of the answer of a verification in bytes."""


def prepare(
    hook: str, document: Mapping[str, object], run: Path
) -> protocol.Command | Reply:
    """Write the deployment for the hook, and return its command; a reply if it cannot be started."""
    reason = programs.cannot_start(hook)
    if reason:
        return failure(CANNOT_START, f"the hook {hook} cannot be started: {reason}")
    stdin = run / "deployment.json"
    files.replace(stdin, json.dumps(document).encode())
    return protocol.Command(argv=(hook,), cwd=run, stdin=stdin)


def finish(hook: str, ended: protocol.Ended) -> Reply:
    """Return the hook's reply. An exit code other than 0 overrides a reply that reports success."""
    stdout, stderr = Capture(ended.stdout), Capture(ended.stderr)
    try:
        size = ended.stdout.stat().st_size
        text = files.read(ended.stdout, _REPLY_LIMIT) if size <= _REPLY_LIMIT else b""
    except OSError as error:  # the hook may have done anything in its folder
        return failure(
            ended.code or UNKNOWN,
            f"the reply of {hook} cannot be read: {error.strerror}",
            "",
            stderr,
        )
    if size > _REPLY_LIMIT:
        return failure(
            ended.code or UNKNOWN,
            f"the reply of {hook} is over {_REPLY_LIMIT:,} bytes long",
            stdout,
            stderr,
        )
    try:
        reply = strict_json.loads(text.decode("utf-8", "replace"))
    except ValueError:
        reply = None
    if ended.code:
        return _failed_reply(reply, hook, ended.code, stdout, stderr)
    if not text.strip():
        return failure(
            UNKNOWN, f"{hook} replied nothing, so its effect is unknown", "", stderr
        )
    if not isinstance(reply, dict):
        return failure(
            UNKNOWN, f"{hook} did not reply with a JSON object", stdout, stderr
        )
    if status_code(reply) is None:
        sentence = f"{hook} replied without a number in deploy_status_code, so it is not known how it ended"
        return {
            **reply,
            **failure(
                UNKNOWN,
                sentence,
                _text(reply, "deploy_stdout"),
                _text(reply, "deploy_stderr"),
            ),
        }
    return reply


def _failed_reply(
    reply: object, hook: str, code: int, stdout: Capture, stderr: Capture
) -> Reply:
    """Return the reply of a hook that ended with an exit code other than 0."""
    if not isinstance(reply, dict):
        return {
            "deploy_stdout": stdout,
            "deploy_stderr": stderr,
            "deploy_status_code": code,
        }
    if status_code(reply):
        return reply
    sentence = (
        f"{hook} ended with exit code {code}, although its reply reports no failure"
    )
    return {
        **reply,
        **failure(
            code, sentence, _text(reply, "deploy_stdout"), _text(reply, "deploy_stderr")
        ),
    }


def _text(reply: Mapping[str, object], name: str) -> str:
    value = reply.get(name)
    return value if isinstance(value, str) else ""


def verdict_of(hook: str, ended: protocol.Ended) -> Verdict:
    """Return the verdict that the executable `HOOK.verify` has printed."""
    from heat_config_hooks import verdict  # noqa: PLC0415  # few hooks verify

    if ended.code:
        return verdict.unknown(f"{hook}.verify ended with exit code {ended.code}")
    try:
        text = files.read(ended.stdout, _VERDICT_LIMIT + 1)
    except OSError as error:
        return verdict.unknown(
            f"the answer of {hook}.verify cannot be read: {error.strerror}"
        )
    if len(text) > _VERDICT_LIMIT:
        return verdict.unknown(
            f"the answer of {hook}.verify is over {_VERDICT_LIMIT:,} bytes long"
        )
    return verdict.of_json(text.decode("utf-8", "replace"))
