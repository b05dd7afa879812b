"""The option `on_failure` of a deployment: a script that the agent runs once after a run that has failed."""

from __future__ import annotations

from collections.abc import Mapping

from heat_config_hooks import durations, strict_json
from heat_config_hooks.errors import HookError
from heat_config_hooks.values import dataclass

_EXPECTED = "expected a script, or an object with script and timeout"

_KEYS = ("script", "timeout")


@dataclass(frozen=True, kw_only=True)
class OnFailure:
    """A script that runs after a failure."""

    script: str
    timeout: float | None = None
    """Seconds that it may take; None for the limit of the deployment."""


def read(value: object, path: str) -> OnFailure:
    """Return the value of the option; `path` is its place in the deployment. Raises HookError for a mistake."""
    if isinstance(value, str) and value.lstrip().startswith("{"):
        # a parameter of a template may have made text of it
        try:
            value = strict_json.loads(value)
        except ValueError:
            raise HookError(_EXPECTED, path) from None
    if isinstance(value, str):
        value = {"script": value}
    if not isinstance(value, Mapping):
        raise HookError(_EXPECTED, path)
    for key in value:
        if key not in _KEYS:
            raise HookError(f"on_failure has only {', '.join(_KEYS)}", f"{path}.{key}")
    script = value.get("script")
    if not isinstance(script, str) or not script.strip() or "\0" in script:
        raise HookError("expected the text of a script", f"{path}.script")
    timeout = value.get("timeout")
    seconds = durations.seconds(timeout) if timeout is not None else None
    if timeout is not None and not seconds:
        raise HookError(f"expected {durations.WORDS}", f"{path}.timeout")
    return OnFailure(script=script, timeout=seconds)
