"""A hook's reply → the result that its deployment's target is told."""

from __future__ import annotations

from collections.abc import Mapping

from heat_config_agent.model import Deployment, Result
from heat_config_agent.redaction import redactor
from heat_config_hooks.reply import BODY_LIMIT, STATUS, UNKNOWN, Reply, fit, status_code

QUEUE_LIMIT = 250_000
"""Bytes of a result at most that goes into a Zaqar queue: those take 256 KiB at once, unless told otherwise."""


def make(reply: Reply, deployment: Deployment, reason: str = "") -> Result:
    """Return the result: secrets hidden, short enough for a signal, and judged as Heat will.

    `reason` says for people why it failed, where that is not for the reply to say. A hook may have named a value in it.
    """
    limit = QUEUE_LIMIT if deployment.target.kind == "zaqar" else BODY_LIMIT
    redact = redactor(deployment)
    values = fit(reply, limit, change=redact)
    code = status_code(values)
    if code is None:
        values[STATUS] = UNKNOWN  # to Heat, a result without one is a success
    elif str(values[STATUS]) != str(code):
        values[STATUS] = code  # « 0» is success to a reader of numbers, and a failure to Heat
    failed, found = judge(values, deployment)
    return Result(values=values, failed=failed, reason=redact("deploy_stderr", reason) or found)


def judge(values: Mapping[str, object], deployment: Deployment) -> tuple[bool, str]:
    """Return whether Heat will make the deployment FAILED of these values, and why.

    Heat's rules (`SoftwareDeployment.handle_signal`): a status code other than 0 fails it, and so does a declared
    `error_output` that is there, even empty.
    """
    code = status_code(values)
    if code:
        return True, f"exit code {code}{_last_line(values.get('deploy_stderr'))}"
    errors = [each.name for each in deployment.outputs if each.error_output and each.name in values]
    if errors:
        return True, f"error output {errors[0]!r} was produced{_last_line(values[errors[0]])}"
    return False, ""


def _last_line(value: object) -> str:
    lines = value.strip().splitlines() if isinstance(value, str) else []
    return f": {lines[-1].strip()[:200]}" if lines else ""
