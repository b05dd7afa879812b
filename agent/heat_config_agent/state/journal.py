"""The journal: which deployments were accepted, started, finished and signalled. Every promise relies on it.

It is one file of records. Each record is a line with a checksum and a JSON object, and is appended whole. The entry of
a deployment is the sum of its records. One process writes (it holds the lock, see `lock`); any may read at any time.

    accepted ─► running ─► finished ─► signalled | unasked | refused | superseded
                 │   ▲
                 ├► reboot
                 └► retry

- `accepted` has the deployment as it came, so it can be carried out even if its source goes away.
- `running` is on disk before the command starts (which waits for the agent's word, see `runs.supervisor`). So an
  accepted deployment has surely not run, and a running one may have.
- `finished` has the result, and is on disk before the result is sent.
- The states after that need no flush: to send a result again does no harm, as Heat drops one that it does not expect.

After a power cut the last line may be torn. Nothing relied on it, so it is cut off. A damaged line in the middle is
skipped with a warning, and the file is copied aside.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from heat_config_agent.model.deployment import FAILED_KEY, Deployment, Result
from heat_config_agent.model.entry import Entry, Run, State
from heat_config_agent.model.errors import StateError
from heat_config_agent.state import record_file
from heat_config_agent.state.clock import Steady
from heat_config_agent.state.entries import Entries
from heat_config_agent.state.record_file import RecordFile
from heat_config_agent.state.records import (
    Reader,
    changes_of,
    line_of,
    shortened,
    size_of,
    without_defaults,
)
from heat_config_hooks import processes
from heat_config_hooks.values import replace

FILE = "journal"

COMPACT_BYTES = 256 * 1024
"""A journal smaller than this is never rewritten."""

_CLOCK_SET = 10.0
"""The seconds by which two clocks differ about a run if the machine's was set meanwhile."""


class Journal:
    """The journal of one state directory, open for writing."""

    def __init__(self, directory: Path) -> None:
        """Open the journal, and repair what a power cut left. The caller holds the lock. Raises StateError."""
        self.path = path = directory / FILE
        self.entries = Entries({})
        self.changes = 0
        """The number of times that a deployment has changed its state, has left the metadata or is back."""
        self.records = 0
        """The number of records that were written."""
        self.warnings: list[str] = []
        try:
            content = record_file.read(path)
            self._file = RecordFile(
                path,
                f"the journal {path}",
                renew=self._renew,
                warn=self.warnings.append,
            )
            self._load(content)
            if not self._file.opened:
                self._file.open()
        except OSError as error:
            raise StateError(
                f"cannot open the journal {path}: {error.strerror}"
            ) from error
        self._owed = False
        """True if the file has a result that has to be flushed to disk."""
        self.flush_with: Callable[[Callable[[], None]], None] | None = None
        """Calls the function that flushes the file, and others that have to be on disk when `sync` returns."""
        self._latest = max(
            (entry.accepted for entry in self.entries.values()), default=0.0
        )
        try:
            self.steady = Steady(directory)
            self.steady.at_least(
                max((entry.settled_at for entry in self.entries.values()), default=0.0)
            )
        except OSError as error:
            self.close()
            raise StateError(
                f"cannot open the journal {self.path}: {error.strerror}"
            ) from error

    # What happens to a deployment, in the order in which it happens.

    def accepted(self, deployment: Deployment, *, tool: str) -> None:
        """Record that the agent takes a deployment on. The entry keeps an earlier run, which may have left files."""
        self._write(self._acceptance(deployment, tool))

    def _acceptance(self, deployment: Deployment, tool: str) -> Entry:
        """Return the entry of a deployment that the agent takes on now."""
        now = time.time()
        # the order is kept even if the clock is set back
        self._latest = max(now, self._latest + 1e-6)
        earlier = self.entries.get(deployment.key)
        return Entry(
            key=deployment.key,
            id=deployment.id,
            name=deployment.name,
            action=deployment.action,
            tool=tool,
            source=deployment.source,
            addressee=deployment.target.addressee,
            document=deployment.document,
            state=State.ACCEPTED,
            at=now,
            accepted=self._latest,
            owner=deployment.owner,
            run=earlier.run if earlier else None,
            drift=earlier.drift if earlier and earlier.again else "",
        )

    def running(self, key: str, run: Run) -> None:
        """Record that the supervisor of a run waits for the agent's word. This is on disk when it returns."""
        now = time.time()
        entry = self.entries[key]
        self._write(
            replace(
                entry,
                state=State.RUNNING,
                at=now,
                started=now,
                run=run,
                again=False,
                reason="",
            )
        )
        self.sync()

    def not_started(self, key: str) -> None:
        """Record that the supervisor never got the agent's word: the deployment is accepted, or retried, as before."""
        entry = self.entries[key]
        state = State.RETRY if entry.attempts else State.ACCEPTED
        self._write(replace(entry, state=state, at=time.time(), started=None))

    def interrupted(self, key: str) -> None:
        """Record that the run was interrupted, and that the deployment is run again."""
        entry = self.entries[key]
        self._write(
            replace(
                entry,
                state=State.ACCEPTED,
                at=time.time(),
                started=None,
                reruns=entry.reruns + 1,
            )
        )

    def reboot(self, key: str) -> None:
        """Record that the command has asked for a reboot, and runs again after it. This is on disk when it returns."""
        entry = self.entries[key]
        self._write(
            replace(
                entry, state=State.REBOOT, at=time.time(), reboots=entry.reboots + 1
            )
        )
        self.sync()

    def retry(self, key: str, reason: str, *, spent: float, due: float) -> None:
        """Record that an attempt has failed, and that the command runs again. This is on disk when it returns.

        `spent` are the seconds of the timeout that have been used by the time `due`, which is in seconds since boot.
        """
        entry, now = self.entries[key], time.time()
        attempts = entry.attempts + 1
        self._write(
            replace(
                entry,
                state=State.RETRY,
                at=now,
                reason=reason,
                attempts=attempts,
                spent=spent,
                due=due,
            )
        )
        self.sync()

    def finished(
        self,
        key: str,
        result: Result,
        ended: float | None = None,
        *,
        then: tuple[Deployment, str] | None = None,
    ) -> None:
        """Record the result. It is on disk once `secure` or `sync` has returned.

        `ended` is when the run ended, in seconds since the epoch; None for now. `then` is the follow-up of a failure,
        with its tool: it is accepted by the same write, so no kill comes between the two.
        """
        # first, so that a torn write leaves no result without it
        before = [self._acceptance(*then)] if then is not None else []
        now = time.time()
        entry, reason = self.entries[key], result.reason
        started = _started(entry, now) if ended is None else entry.started
        if entry.drift:
            reason = (
                f"the repair failed: {reason}"
                if result.failed
                else f"repaired: {entry.drift}"
            )
        self._write(
            *before,
            replace(
                entry,
                state=State.FINISHED,
                at=now,
                started=started,
                ended=max(ended or now, started or 0),
                values=result.values,
                failed=result.failed,
                reason=reason,
                tries=0,
                trouble="",
                not_before=0,
                again=False,
            ),
        )
        self._owed = True

    def settled(
        self, key: str, state: State, trouble: str = "", *, untidy: bool = False
    ) -> None:
        """Record that nothing more will be done: the result was delivered, is not wanted, or can never be delivered.

        `untidy` is True if the inputs of the run could not be removed.
        """
        now, known = self.steady.now(), self.entries[key]
        entry = replace(
            known,
            state=state,
            at=time.time(),
            trouble=trouble,
            settled_at=now,
            untidy=untidy,
        )
        self._write(entry)

    def tried(self, key: str, trouble: str, not_before: float = 0) -> None:
        """Record that a try to send the result has failed; `not_before` is in seconds since the epoch."""
        entry = self.entries[key]
        self._write(
            replace(
                entry, tries=entry.tries + 1, trouble=trouble, not_before=not_before
            )
        )

    # Moves, departures, and requests of people.

    def moved(self, key: str, source: str) -> None:
        """Record that another source has the deployment now."""
        self._write(replace(self.entries[key], source=source))

    def again(self, key: str, *, required: bool = True, drift: str = "") -> None:
        """Record that the deployment runs again at the next pass, or with `required=False` that it does not.

        `drift` says what has drifted if that run is to repair it.
        """
        self._write(replace(self.entries[key], again=required, drift=drift))

    def send_again(self, key: str) -> None:
        """Record that the result has to be sent again."""
        self._write(
            replace(
                self.entries[key], state=State.FINISHED, at=time.time(), not_before=0
            )
        )

    def drop(self, key: str) -> None:
        """Remove the entry of a deployment that was not run. Its records stay in the file until that is rewritten."""
        self._append({"key": key, "state": None})
        del self.entries[key]

    def forget(self, key: str) -> None:
        """Remove the entry of a deployment, and all its records from the file. Raises StateError."""
        if not self.reduce({key: None}):
            self.drop(key)
            raise StateError(
                f"{key} is forgotten, but its records are still in the file: {self.warnings[-1]}"
            )

    def left(self, departed: Iterable[str], returned: Iterable[str]) -> None:
        """Record which deployments have left the metadata, and which are back."""
        now = self.steady.now()
        entries = [replace(self.entries[key], left_at=now) for key in departed]
        entries += [replace(self.entries[key], left_at=None) for key in returned]
        if entries:
            self._write(*entries)

    def marked(self, keys: Iterable[str], folder: str) -> None:
        """Record that the files `ID.json` of these deployments are on disk, in this folder."""
        self._write(*(replace(self.entries[key], marked=folder) for key in keys))

    def secure(self) -> None:
        """Make every result survive a power cut, if there is one that does not yet. Raises StateError."""
        if self._owed:
            self.sync()

    def sync(self) -> None:
        """Make everything written so far survive a power cut. Raises StateError."""
        if self.flush_with is None:
            self._flush()
        else:
            self.flush_with(self._flush)
        self._owed = False

    def _flush(self) -> None:
        try:
            self._file.flush()
        except OSError as error:
            raise StateError(
                f"cannot write the journal {self.path}: {error.strerror}"
            ) from error

    # The file: how entries are read, appended, and rewritten.

    def close(self) -> None:
        """Close the file. Everything recorded is in it."""
        self._file.close()

    def reduce(self, less: Mapping[str, Entry | None]) -> bool:
        """Replace entries by shorter ones, or remove them (None), so that nothing else of them is left in the file.

        Returns False if that failed; then nothing has changed. Raises StateError if the file is not ours any more.
        """
        self._find()
        before = self.entries
        changed = {**before, **less}
        self.entries = Entries(
            {key: entry for key, entry in changed.items() if entry is not None}
        )
        if self._rewrite():
            return True
        self.entries = before
        return False

    def compact(self) -> None:
        """Rewrite the file if most of it is about deployments that were settled long ago. Raises StateError."""
        if self._wasteful(self._file.size):
            self._find()
            self._rewrite()

    def _write(self, *entries: Entry) -> None:
        """Append the changed fields of each entry."""
        self._append(
            *(changes_of(self.entries.get(entry.key), entry) for entry in entries)
        )
        known = self.entries
        for entry in entries:
            before = known.get(entry.key)
            self.changes += before is None or _standing(before) != _standing(entry)
        for entry in entries:
            known[entry.key] = entry

    def _append(self, *records: Mapping[str, object]) -> None:
        self._find()
        try:
            self._file.append(b"".join(map(line_of, records)))
        except OSError as error:
            trouble = f"cannot write the journal {self.path}: {error.strerror}"
            raise StateError(trouble, hint="its content is intact") from error
        self.records += len(records)

    def _find(self) -> None:
        """Make sure that the file is where the next agent looks for it. Raises StateError."""
        try:
            self._file.find()
        except OSError as error:
            raise StateError(
                f"cannot find the journal {self.path}: {error.strerror}"
            ) from error

    def _load(self, content: bytes) -> None:
        """Read the records, and repair the file so that it has only whole lines."""
        reader = Reader(content)
        self.entries = Entries(reader.entries)
        if reader.good < len(content):
            self._file.cut(reader.good)
        # with no whole line, it is not a journal
        damaged = reader.damaged or int(reader.good == 0 and len(content) > 0)
        if damaged:
            aside = self._file.set_aside(content)
            lines = f"{damaged} damaged line{'s' if damaged > 1 else ''}"
            self.warnings.append(
                f"{lines} of {self.path} passed over; a copy is {aside}"
            )
        if reader.damaged or self._wasteful(reader.good):
            self._rewrite()

    def _wasteful(self, size: int) -> bool:
        """Return whether most of the file is about deployments that were settled long ago, by a quick estimate."""
        return size >= COMPACT_BYTES and size > 2 * sum(
            map(size_of, self.entries.values())
        )

    def _renew(self) -> None:
        """Rewrite the journal. Raises StateError."""
        if not self._rewrite():
            raise StateError(self.warnings.pop())

    def _rewrite(self) -> bool:
        """Rewrite the journal with one line for each deployment; return False, with a warning, if that fails."""
        entries = {key: shortened(entry) for key, entry in self.entries.items()}
        try:
            self._file.rewrite(
                b"".join(line_of(without_defaults(entry)) for entry in entries.values())
            )
        except OSError as error:
            self.warnings.append(
                f"cannot rewrite the journal {self.path}: {error.strerror}"
            )
            return False
        self.entries = Entries(entries)
        self.records += 1
        return True


def read(directory: Path, *, follow_ups: bool = False) -> Entries:
    """Return the entries in the journal of a state directory. This needs no lock, and changes nothing.

    Follow-ups of failures belong to the deployments that have failed, and are left out unless `follow_ups` asks for
    them. Raises StateError if the journal cannot be read.
    """
    try:
        entries = Reader(record_file.read(directory / FILE)).entries
        if not follow_ups:
            for key in [each for each in entries if each.endswith(FAILED_KEY)]:
                del entries[key]
        return Entries(entries)
    except OSError as error:
        raise StateError(
            f"cannot read the journal {directory / FILE}: {error.strerror}"
        ) from error


def _started(entry: Entry, now: float) -> float | None:
    """Return when a run began that ends now: by the time that it took, if the machine's clock was set meanwhile."""
    started, run = entry.started, entry.run
    if started is None or run is None:
        return started
    lasted = processes.since_boot() - run.began
    if abs(now - started - lasted) < _CLOCK_SET or run.boot != processes.boot_id():
        return started
    return now - max(lasted, 0.0)


def _standing(entry: Entry) -> tuple[State, bool]:
    """Return the state of an entry, and whether it has left the metadata."""
    return entry.state, entry.left_at is not None
