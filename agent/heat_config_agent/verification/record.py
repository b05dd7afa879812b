"""The record of the last verification of each deployment: `STATE/verified.json`.

It has no secrets, as every text in it is masked before. A run of a deployment makes its record void.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from heat_config_agent.model.entry import Entry
from heat_config_agent.model.errors import StateError
from heat_config_hooks import files, verdict
from heat_config_hooks.values import dataclass
from heat_config_hooks.verdict import Standing, Verdict

FILE = "verified.json"
_LOCK = "verified.lock"

Signature = list[object]
"""A file as it was verified: its path, device, inode, size, mode, and the times of its last changes."""


@dataclass(frozen=True, kw_only=True)
class Verified:
    """The last verification of a deployment."""

    key: str
    run: float
    """The time of the run that was verified (`Entry.at`): a verification counts until the next run."""
    at: float
    """When it was verified, in seconds since the epoch."""
    since: float
    """Since when its state is this one, as far as verifications tell."""
    verdict: Verdict
    repair: str = ""
    """The way in which the schedule takes its drift: a repair is requested, or waits, and why; empty for neither."""
    in_vain: int = 0
    """The number of repairs since it was last in effect that did not help."""
    signatures: tuple[Signature, ...] = ()
    """The files on which the verdict alone depends."""

    def is_of(self, entry: Entry) -> bool:
        """Return whether it is the verification of the last run of a deployment."""
        return self.key == entry.key and self.run == run_of(entry)


def run_of(entry: Entry) -> float:
    """Return the time that tells the last run of a deployment from others."""
    return entry.run_at


def read(state: Path) -> dict[str, Verified]:
    """Return the record by key; empty if nothing was verified yet, or if it cannot be read: it is made again."""
    try:
        values = json.loads(files.read(state / FILE))
    except (OSError, ValueError, RecursionError):
        return {}
    if not isinstance(values, dict):
        return {}
    return {
        key: one
        for key, value in values.items()
        if isinstance(value, dict) and (one := _verified(key, value)) is not None
    }


def _verified(key: str, values: Mapping[str, object]) -> Verified | None:
    try:
        run, at, since = (float(str(values[name])) for name in ("run", "at", "since"))
    except (KeyError, ValueError):
        return None
    signatures = values.get("files")
    return Verified(
        key=key,
        run=run,
        at=at,
        since=since,
        verdict=_verdict(values),
        repair=str(values.get("repair") or ""),
        in_vain=_count(values.get("in_vain")),
        signatures=tuple(signatures) if isinstance(signatures, list) else (),
    )


def _count(value: object) -> int:
    return value if isinstance(value, int) and value > 0 else 0


def _verdict(values: Mapping[str, object]) -> Verdict:
    if values.keys() <= {"run", "at", "since", "files"}:
        return _IN_EFFECT
    return verdict.of_json(json.dumps({**values, "files": []}))


_IN_EFFECT = Verdict(standing=Standing.OK)


def put(state: Path, newer: Mapping[str, Verified], known: Mapping[str, Entry]) -> None:
    """Put verifications on record, beside those of other deployments that are `known`. Raises StateError."""
    try:
        with _alone(state):
            record = {**read(state), **newer}
            values = {
                key: _values(one)
                for key, one in record.items()
                if key in known and one.is_of(known[key])
            }
            files.replace(state / FILE, json.dumps(values).encode())
    except OSError as error:
        raise StateError(
            f"cannot write {state / FILE}: {error.strerror or error}"
        ) from error


def _values(one: Verified) -> dict[str, object]:
    values: dict[str, object] = {"run": one.run, "at": one.at, "since": one.since}
    if one.signatures:
        values["files"] = list(one.signatures)
    if one.verdict.standing is not Standing.OK:
        values["state"] = one.verdict.standing.value
        values["reason"] = one.verdict.reason
        values["changes"] = [verdict.vars_of(each) for each in one.verdict.changes]
        values["left_out"] = one.verdict.left_out
    if one.repair:
        values["repair"], values["in_vain"] = one.repair, one.in_vain
    return values


@contextlib.contextmanager
def _alone(state: Path) -> Iterator[None]:
    """Keep other processes from writing the record meanwhile. Raises OSError."""
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
    descriptor = os.open(state / _LOCK, flags, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


_RECENT = 1.0
"""Seconds after a change of a file in which another one could have the same times."""


def signatures(paths: tuple[str, ...], now: float) -> tuple[Signature, ...]:
    """Return the signatures of files; none if one of them has just changed, or cannot be examined."""
    every = []
    for path in paths:
        one = _signature(path)
        if one is None or now - float(str(one[-1])) / 1e9 < _RECENT:
            return ()
        every.append(one)
    return tuple(every)


def are_unchanged(signatures: tuple[Signature, ...]) -> bool:
    """Return whether no file has changed since its signature was taken; False without signatures."""
    return bool(signatures) and all(
        one and _signature(str(one[0])) == one for one in signatures
    )


def _signature(path: str) -> Signature | None:
    try:
        status = os.lstat(path)
    except OSError:
        return None
    return [
        path,
        status.st_dev,
        status.st_ino,
        status.st_size,
        status.st_mode,
        status.st_mtime_ns,
        status.st_ctime_ns,
    ]
