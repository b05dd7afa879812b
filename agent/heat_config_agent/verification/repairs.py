"""Which drifted deployments are repaired now, and which have to wait: `STATE/repairs.json` counts the repairs.

A drift is repaired once. A deployment that has drifted again at the next verification is repaired again only after
2, 4, 8 … intervals, until a verification has seen it in effect.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from pathlib import Path

from heat_config_agent.model.entry import Entry
from heat_config_agent.model.errors import StateError
from heat_config_agent.model.wording import moment
from heat_config_agent.verification.record import Verified
from heat_config_hooks import files
from heat_config_hooks.values import dataclass
from heat_config_hooks.verdict import Standing

TYPE_CHECKING = False  # as `typing` has it, which takes long to load

if TYPE_CHECKING:
    from heat_config_agent.model.policy import Policy

FILE = "repairs.json"

REQUESTED = "its repair is requested"

_MOST = 10
"""The number of repairs in vain after which the wait between two does not become longer."""


@dataclass(frozen=True, kw_only=True)
class Tried:
    """The repairs of a deployment since it was last seen in effect."""

    times: int
    at: float
    """When the last one was requested, in seconds since the epoch."""
    run: float
    """The run that it repairs (`Entry.run_at`)."""


@dataclass(frozen=True, kw_only=True)
class Decision:
    """The decision about a deployment that has drifted."""

    entry: Entry
    verified: Verified
    is_repaired: bool
    sentence: str
    """`REQUESTED`, or why it is not repaired now."""
    in_vain: int
    """The number of repairs since it was last in effect that did not help."""


def decide(
    drifted: Iterable[tuple[Entry, Verified]],
    tried: Mapping[str, Tried],
    policy: Policy | None,
    *,
    interval: float,
    now: float,
) -> list[Decision]:
    """Return the decision about each deployment that has drifted. Pure."""
    return [
        _decision(
            entry,
            one,
            tried.get(entry.key),
            refusal=policy.repair_refusal(entry) if policy is not None else "",
            interval=interval,
            now=now,
        )
        for entry, one in drifted
    ]


def _decision(
    entry: Entry,
    verified: Verified,
    last: Tried | None,
    *,
    refusal: str,
    interval: float,
    now: float,
) -> Decision:
    ran_since = last is not None and last.run != entry.run_at
    in_vain = (last.times if ran_since else last.times - 1) if last else 0
    due = last.at + interval * 2 ** min(last.times, _MOST) if last and ran_since else 0
    if last and now < last.at:  # the clock was set back
        due = 0
    if not refusal and now < due:
        often = "a repair" if in_vain == 1 else f"{in_vain} repairs"
        refusal = f"{often} did not help; the next one is due at {moment(due)}"
    return Decision(
        entry=entry,
        verified=verified,
        is_repaired=not refusal,
        sentence=refusal or REQUESTED,
        in_vain=in_vain,
    )


def counted(
    decisions: Iterable[Decision],
    tried: Mapping[str, Tried],
    verified: Mapping[str, Verified],
    known: Mapping[str, Entry],
    now: float,
) -> dict[str, Tried]:
    """Return the repairs after these decisions; repairs of deployments that are in effect again are dropped. Pure."""
    newer = {
        key: one
        for key, one in tried.items()
        if key in known
        and not (
            key in verified
            and verified[key].is_of(known[key])
            and verified[key].verdict.standing is Standing.OK
        )
    }
    for each in decisions:
        key, last = each.entry.key, tried.get(each.entry.key)
        if each.is_repaired and (last is None or last.run != each.entry.run_at):
            times = last.times + 1 if last else 1
            newer[key] = Tried(times=times, at=now, run=each.entry.run_at)
    return newer


def read(state: Path) -> dict[str, Tried]:
    """Return the repairs by key; none if there were none, or if they cannot be read."""
    try:
        values = json.loads(files.read(state / FILE))
        return {
            str(key): tried
            for key, (times, at, run) in values.items()
            if (tried := _tried(times, at, run)) is not None
        }
    except (OSError, ValueError, TypeError, AttributeError, RecursionError):
        return {}


def _tried(times: object, at: object, run: object) -> Tried | None:
    numbers = [each for each in (times, at, run) if isinstance(each, int | float)]
    if len(numbers) < 3 or not all(map(math.isfinite, numbers)):  # the three of them
        return None
    return Tried(times=max(int(numbers[0]), 1), at=numbers[1], run=numbers[2])


def write(state: Path, tried: Mapping[str, Tried]) -> None:
    """Write the repairs. Raises StateError."""
    values = {key: [one.times, one.at, one.run] for key, one in tried.items()}
    try:
        files.replace(state / FILE, json.dumps(values).encode())
    except OSError as error:
        raise StateError(f"cannot write {state / FILE}: {error.strerror}") from error
