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
from collections.abc import Callable, Iterable
from pathlib import Path

from heat_config_agent.model.deployment import Deployment, Result
from heat_config_agent.model.entry import Entry, Run, State
from heat_config_agent.model.errors import StateError
from heat_config_agent.state import record_file
from heat_config_agent.state.clock import Steady
from heat_config_agent.state.entries import Entries
from heat_config_agent.state.entry_file import EntryFile
from heat_config_agent.state.records import Reader
from heat_config_hooks.values import replace

FILE = "journal"


class Journal(EntryFile):
    """The journal of one state directory, open for writing."""

    def __init__(self, directory: Path) -> None:
        """Open the journal, and repair what a power cut left. The caller holds the lock. Raises StateError."""
        super().__init__(directory / FILE)
        self._owed = False
        """True if the file has a result that has to be flushed to disk."""
        self.flush_with: Callable[[Callable[[], None]], None] | None = None
        """Calls the function that flushes the file, and flushes what else has to be on disk when `sync` returns."""
        self._latest = max((entry.accepted for entry in self.entries.values()), default=0.0)
        try:
            self.steady = Steady(directory)
            self.steady.at_least(max((entry.settled_at for entry in self.entries.values()), default=0.0))
        except OSError as error:
            self.close()
            raise StateError(f"cannot open the journal {self.path}: {error.strerror}") from error

    # What happens to a deployment, in the order in which it happens.

    def accepted(self, deployment: Deployment, *, tool: str) -> None:
        """Record that the agent takes a deployment on. The entry keeps an earlier run, which may have left files."""
        now = time.time()
        self._latest = max(now, self._latest + 1e-6)  # the order is kept even if the clock is set back
        earlier = self.entries.get(deployment.key)
        entry = Entry(
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
        )
        self._write(entry)

    def running(self, key: str, run: Run) -> None:
        """Record that the supervisor of a run waits for the agent's word. This is on disk when it returns."""
        now = time.time()
        entry = self.entries[key]
        self._write(replace(entry, state=State.RUNNING, at=now, started=now, run=run, again=False, reason=""))
        self.sync()

    def not_started(self, key: str) -> None:
        """Record that the supervisor never got the agent's word: the deployment is accepted, or retried, as before."""
        entry = self.entries[key]
        state = State.RETRY if entry.attempts else State.ACCEPTED
        self._write(replace(entry, state=state, at=time.time(), started=None))

    def interrupted(self, key: str) -> None:
        """Record that the run was interrupted, and that the deployment is run again."""
        entry = self.entries[key]
        self._write(replace(entry, state=State.ACCEPTED, at=time.time(), started=None, reruns=entry.reruns + 1))

    def reboot(self, key: str) -> None:
        """Record that the command has asked for a reboot, and runs again after it. This is on disk when it returns."""
        entry = self.entries[key]
        self._write(replace(entry, state=State.REBOOT, at=time.time(), reboots=entry.reboots + 1))
        self.sync()

    def retry(self, key: str, reason: str, *, spent: float, due: float) -> None:
        """Record that an attempt has failed, and that the command runs again. This is on disk when it returns.

        `spent` are the seconds of the timeout that have been used by the time `due`, which is in seconds since boot.
        """
        entry, now = self.entries[key], time.time()
        attempts = entry.attempts + 1
        self._write(replace(entry, state=State.RETRY, at=now, reason=reason, attempts=attempts, spent=spent, due=due))
        self.sync()

    def finished(self, key: str, result: Result, ended: float | None = None) -> None:
        """Record the result. It is on disk once `secure` or `sync` has returned.

        `ended` is when the run ended, in seconds since the epoch; None for now.
        """
        now = time.time()
        entry = self.entries[key]
        self._write(
            replace(
                entry,
                state=State.FINISHED,
                at=now,
                ended=max(ended or now, entry.started or 0),
                values=result.values,
                failed=result.failed,
                reason=result.reason,
                tries=0,
                trouble="",
                not_before=0,
                again=False,
            ),
        )
        self._owed = True

    def settled(self, key: str, state: State, trouble: str = "", *, untidy: bool = False) -> None:
        """Record that nothing more will be done: the result was delivered, is not wanted, or can never be delivered.

        `untidy` is True if the inputs of the run could not be removed.
        """
        now, known = self.steady.now(), self.entries[key]
        entry = replace(known, state=state, at=time.time(), trouble=trouble, settled_at=now, untidy=untidy)
        self._write(entry)

    def tried(self, key: str, trouble: str, not_before: float = 0) -> None:
        """Record that a try to send the result has failed; `not_before` is in seconds since the epoch."""
        entry = self.entries[key]
        self._write(replace(entry, tries=entry.tries + 1, trouble=trouble, not_before=not_before))

    # Moves, departures, and requests of people.

    def moved(self, key: str, source: str) -> None:
        """Record that another source has the deployment now."""
        self._write(replace(self.entries[key], source=source))

    def again(self, key: str, *, required: bool = True) -> None:
        """Record that the deployment runs again at the next pass; or, if not `required`, that it does not."""
        self._write(replace(self.entries[key], again=required))

    def send_again(self, key: str) -> None:
        """Record that the result has to be sent again."""
        self._write(replace(self.entries[key], state=State.FINISHED, at=time.time(), not_before=0))

    def drop(self, key: str) -> None:
        """Remove the entry of a deployment that was not run. Its records stay in the file until that is rewritten."""
        self._append({"key": key, "state": None})
        del self.entries[key]

    def forget(self, key: str) -> None:
        """Remove the entry of a deployment, and all its records from the file. Raises StateError."""
        if not self.reduce({key: None}):
            self.drop(key)
            raise StateError(f"{key} is forgotten, but its records are still in the file: {self.warnings[-1]}")

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
            super().sync()
        else:
            self.flush_with(super().sync)
        self._owed = False


def read(directory: Path) -> Entries:
    """Return the entries in the journal of a state directory. This needs no lock, and changes nothing.

    Raises StateError if the journal cannot be read.
    """
    try:
        return Entries(Reader(record_file.read(directory / FILE)).entries)
    except OSError as error:
        raise StateError(f"cannot read the journal {directory / FILE}: {error.strerror}") from error
