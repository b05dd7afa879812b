"""The option `retry` of a deployment: exit codes after which the agent runs its command again."""

from __future__ import annotations

from collections.abc import Mapping

from heat_config_hooks import durations, strict_json
from heat_config_hooks.errors import HookError
from heat_config_hooks.reply import REBOOT
from heat_config_hooks.values import dataclass

TIMES, DELAY = 5, 10.0
"""The defaults: how often the command is run again at most, and the seconds before the first time."""

MOST = 100
"""The largest number of times."""

LONGEST_DELAY = 300.0
"""The seconds at which the delay grows no more; a delay that is longer from the start stays as it is."""

_KEYS = ("codes", "times", "delay")


@dataclass(frozen=True, kw_only=True)
class Retry:
    """The limits within which a command is run again."""

    codes: frozenset[int]
    """The exit codes after which it is run again."""
    times: int
    """The most times that it is run again: one less than the attempts."""
    delay: float
    """Seconds before it is run again for the first time. Each further delay is twice as long, see `LONGEST_DELAY`."""

    def delay_after(self, attempts: int) -> float:
        """Return the seconds between the end of that attempt, the first of which is 1, and the next one."""
        growing: float = self.delay * 2.0 ** min(attempts - 1, 16)
        return min(growing, max(self.delay, LONGEST_DELAY))


def read(value: object, path: str) -> Retry:
    """Return the value of the option; `path` is its place in the deployment. Raises HookError for a mistake."""
    if isinstance(value, str):  # a parameter of a template may have made text of it
        try:
            value = strict_json.loads(value)
        except ValueError:
            value = None
    if not isinstance(value, Mapping):
        raise HookError("expected an object with codes, times and delay", path)
    for key in value:
        if key not in _KEYS:
            raise HookError(f"retry has only {', '.join(_KEYS)}", f"{path}.{key}")
    codes, times, delay = (value.get(key) for key in _KEYS)
    return Retry(
        codes=frozenset(_codes(codes, f"{path}.codes")),
        times=TIMES if times is None else _times(times, f"{path}.times"),
        delay=DELAY if delay is None else _delay(delay, f"{path}.delay"),
    )


def _codes(value: object, path: str) -> list[int]:
    if not isinstance(value, list) or not value:
        raise HookError("expected a list of exit codes, such as [100]", path)
    return [_code(item, f"{path}[{number}]") for number, item in enumerate(value)]


def _code(value: object, path: str) -> int:
    code = _whole(value)
    if not 1 <= code <= 255:
        raise HookError("expected an exit code from 1 to 255", path)
    if code == REBOOT:
        raise HookError(
            f"{REBOOT} asks for a reboot of the machine, and cannot be retried", path
        )
    return code


def _times(value: object, path: str) -> int:
    times = _whole(value)
    if not 1 <= times <= MOST:
        raise HookError(f"expected a whole number from 1 to {MOST}", path)
    return times


def _delay(value: object, path: str) -> float:
    delay = durations.seconds(value)
    if delay is None:
        raise HookError(f"expected {durations.WORDS}", path)
    return delay


def _whole(value: object) -> int:
    """Return a whole number, or the text of one, as a number; -1 for anything else."""
    if isinstance(value, bool):
        return -1
    if (
        isinstance(value, str)
        and value.strip().isascii()
        and value.strip().isdecimal()
        and len(value) < 10
    ):
        return int(value)
    return value if isinstance(value, int) else -1
