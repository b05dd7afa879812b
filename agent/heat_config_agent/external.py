"""Hooks that are executables: the deployment as JSON on standard input, the reply as JSON on standard output.

The protocol is heat-agents', so its hooks and people's own work unchanged. `prepare` and `finish` are the two steps of
`heat_config_hooks.protocol.Hook`, for a hook that is not a module.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from heat_config_hooks import files, programs, protocol, strict_json
from heat_config_hooks.reply import CANNOT_START, UNKNOWN, Capture, Reply, failure, status_code

_REPLY_LIMIT = 64 * 1024 * 1024
"""Bytes of a reply at most: it is held in memory whole."""


def prepare(hook: str, document: Mapping[str, object], run: Path) -> protocol.Command | Reply:
    """Write the deployment for the hook to read."""
    why = programs.cannot_start(hook)
    if why:
        return failure(CANNOT_START, f"the hook {hook} cannot be started: {why}")
    given = run / "deployment.json"
    files.replace(given, json.dumps(document).encode())
    return protocol.Command(argv=(hook,), cwd=run, stdin=given)


def finish(hook: str, ended: protocol.Ended) -> Reply:
    """Read the hook's reply. Its exit code wins over a reply that claims success."""
    stdout, stderr = Capture(ended.stdout), Capture(ended.stderr)
    try:
        size = ended.stdout.stat().st_size
        text = files.read(ended.stdout) if size <= _REPLY_LIMIT else b""
    except OSError as error:  # it has the folder to itself, and may have done anything there
        return failure(ended.code or UNKNOWN, f"the reply of {hook} cannot be read: {error.strerror}", "", stderr)
    if size > _REPLY_LIMIT:
        return failure(
            ended.code or UNKNOWN, f"the reply of {hook} is over {_REPLY_LIMIT:,} bytes long", stdout, stderr
        )
    try:
        reply = strict_json.loads(text.decode("utf-8", "replace"))
    except ValueError:
        reply = None
    if ended.code:
        return _of_a_failed_hook(reply, hook, ended.code, stdout, stderr)
    if not text.strip():
        return failure(UNKNOWN, f"{hook} replied nothing, so nothing is known of what it did", "", stderr)
    if not isinstance(reply, dict):
        return failure(UNKNOWN, f"{hook} did not reply with a JSON object", stdout, stderr)
    if status_code(reply) is None:
        sentence = f"{hook} replied without a number in deploy_status_code, so nothing is known of how it ended"
        return {**reply, **failure(UNKNOWN, sentence, _text(reply, "deploy_stdout"), _text(reply, "deploy_stderr"))}
    return reply


def _of_a_failed_hook(reply: object, hook: str, code: int, stdout: Capture, stderr: Capture) -> Reply:
    if not isinstance(reply, dict):
        return {"deploy_stdout": stdout, "deploy_stderr": stderr, "deploy_status_code": code}
    if status_code(reply):
        return reply
    sentence = f"{hook} ended with exit code {code}, whatever it replied"
    return {**reply, **failure(code, sentence, _text(reply, "deploy_stdout"), _text(reply, "deploy_stderr"))}


def _text(reply: Mapping[str, object], name: str) -> str:
    value = reply.get(name)
    return value if isinstance(value, str) else ""
