"""Results: what is sent of a hook's reply to the deployment's target."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from heat_config_agent.masking.redaction import concealer, redactor
from heat_config_agent.model.deployment import Deployment, Result
from heat_config_hooks.reply import BODY_LIMIT, STATUS, UNKNOWN, Reply, fit, status_code

QUEUE_LIMIT = 250_000
"""The largest size in bytes of a result for a Zaqar queue: Zaqar accepts 256 KiB by default."""


def make(
    reply: Reply,
    deployment: Deployment,
    reason: str = "",
    alive: Callable[[], object] = lambda: None,
    *,
    attempts: int = 0,
    lack: str = "",
) -> Result:
    """Return the result: secrets masked, short enough for a signal, and judged by Heat's rules.

    `reason` says for people why the deployment failed, if the reply does not. It may contain values of inputs, which
    are masked too. `alive` is called from time to time: masking many secrets in much text takes a while.
    `attempts` is the number of runs if the option `retry` was the reason for some, else 0. `lack` says what the machine
    lacked at the end of the run; empty if nothing.
    """
    limit = QUEUE_LIMIT if deployment.target.kind == "zaqar" else BODY_LIMIT
    redact = redactor(deployment)

    def change(name: str, text: str) -> str:
        alive()
        return redact(name, text)

    values = fit(reply, limit, change=change)
    code = status_code(values)
    if code is None:
        values[STATUS] = UNKNOWN  # Heat takes a result without one for a success
    elif str(values[STATUS]) != str(code):
        values[STATUS] = code  # for example « 0», which Heat takes for a failure
    failed, why, output = judge(values, deployment)
    conceal = concealer(deployment)
    if output and not reason:
        # People see less of an output than the template. It is read again, as a secret may have been cut in half.
        shown = fit(
            {output: reply[output]}, limit, change=lambda _, text: conceal.text(text)
        )
        why += _last_line(shown.get(output))
    why = reason or why or _missing(values, deployment)
    if attempts:
        stderr = values.get("deploy_stderr") or ""
        if isinstance(stderr, str):
            values["deploy_stderr"] = (
                f"{attempts} attempts were made, as the option retry says\n{stderr}"
            )
        why = f"{why} ({attempts} attempts)" if why else f"{attempts} attempts"
    if lack:
        stderr = values.get("deploy_stderr") or ""
        if isinstance(stderr, str):
            stderr += "" if not stderr or stderr.endswith("\n") else "\n"
            values["deploy_stderr"] = f"{stderr}{lack}\n"
        why = f"{why}; {lack}" if why else lack
    return Result(values=values, failed=failed, reason=conceal.text(why))


def _missing(values: Mapping[str, object], deployment: Deployment) -> str:
    """Return the declared outputs that a successful run has not produced; empty if it has produced all.

    A deployment usually produces them when it makes something. Names with a dot are those of hooks.
    """
    if deployment.action not in ("", "CREATE", "UPDATE"):
        return ""
    names = [
        output.name
        for output in deployment.outputs
        if not output.error_output and "." not in output.name
    ]
    missing = [
        name for name in names if name not in values and not name.startswith("deploy_")
    ]
    if not missing:
        return ""
    return f"declared and not produced: {', '.join(missing[:10])}"


def judge(
    values: Mapping[str, object], deployment: Deployment
) -> tuple[bool, str, str]:
    """Return whether these values make the deployment FAILED in Heat, why, and because of which output.

    Heat's rules (`SoftwareDeployment.handle_signal`): a status code other than 0 fails it, and so does a declared
    `error_output` that has a value, even an empty one.
    """
    code = status_code(values)
    if code:
        return True, exit_sentence(code, values.get("deploy_stderr")), ""
    errors = [
        output.name
        for output in deployment.outputs
        if output.error_output and output.name in values
    ]
    if errors:
        return True, f"error output {errors[0]!r} was produced", errors[0]
    return False, "", ""


def exit_sentence(code: int, stderr: object) -> str:
    """Return how a run has ended: its exit code, the signal that it stands for, and the last line of standard error."""
    return f"exit code {code}{_signal(code)}{_last_line(stderr)}"


def _signal(code: int) -> str:
    """Return the signal that an exit code stands for in a shell: 128 and its number; empty if it stands for none."""
    if code <= 128:
        return ""
    import signal  # noqa: PLC0415  # few commands are ended by one

    try:
        return f" ({signal.Signals(code - 128).name})"
    except ValueError:
        return ""


def _last_line(value: object) -> str:
    lines = value.strip().splitlines() if isinstance(value, str) else []
    return f": {lines[-1].strip()[:200]}" if lines else ""
