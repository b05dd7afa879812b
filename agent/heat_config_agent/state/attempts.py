"""Notes of the daemon's present work, so that the next agent knows at which work this one was aborted.

systemd's watchdog aborts an agent that hangs. The next agent would find the same work first, and be aborted again
without end. So before each piece of work the agent writes a note into a file. The note outlives the process without a
flush. Python's fault handler records that the process was aborted. Work at which agents were aborted `TIMES` times is
`hopeless`: its deployment is answered as failed, or its document is set aside, and the agent continues with the rest.

Without a watchdog no notes are written.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path

from heat_config_hooks import files

FOLDER = "attempts"

TIMES = 2
"""The number of aborted attempts after which a piece of work is not tried again."""

_LENGTH = 1024
"""The size of the note in bytes."""


class Attempts:
    """The pieces of work on one state directory, and the number of times that an agent was aborted at each."""

    def __init__(
        self, state: Path | None = None, alive: Callable[[], None] = lambda: None
    ) -> None:
        """Begin the notes of a new agent, and read how the last one ended. `alive` feeds the watchdog.

        Without `state`, no notes are written.
        """
        self.alive = alive
        """Feeds the watchdog, if that is due. It is called between pieces of work, and never within one."""
        self._counts: dict[str, int] = {}
        self._note = ""
        self._descriptor = -1
        self.warning = ""
        """A warning about how the last agent ended; empty if it was not aborted."""
        if state is None:
            return
        self._folder = state / FOLDER
        try:
            self._begin()
        except (
            OSError
        ) as error:  # a full disk, for example: this agent works without notes
            self.warning = f"cannot write notes for the watchdog into {self._folder}: {error.strerror}"

    @contextlib.contextmanager
    def on(self, work: str, subject: str) -> Iterator[None]:
        """Note, while the context lasts, that this work is done on a deployment or document."""
        self.alive()
        if self._descriptor < 0:
            yield
            return
        before, note = self._note, _name(work, subject)
        self._write(note)
        try:
            yield
        finally:
            self._write(before)
        if self._counts.pop(note, 0):  # it worked this time
            self._keep()

    def hopeless(self, work: str, subject: str) -> str:
        """Return why a piece of work must not be tried again; empty if it may be."""
        if not self._counts or self._counts.get(_name(work, subject), 0) < TIMES:
            return ""
        return f"the agent was aborted {TIMES} times while it was {work}: systemd's watchdog does that when it hangs"

    def forget(self, subject: str) -> None:
        """Set the counts of a deployment to 0, now that it has a result: a person may ask for another try."""
        kept = {
            note: count
            for note, count in self._counts.items()
            if json.loads(note)[1] != subject
        }
        if kept != self._counts:
            self._counts = kept
            self._keep()

    def _begin(self) -> None:
        import faulthandler  # noqa: PLC0415  # only where there is a watchdog

        files.make_directory(self._folder)
        last_note, last_abort, counts = (
            self._read(name) for name in ("note", "aborted", "counts")
        )
        with contextlib.suppress(ValueError):
            self._counts = {
                key: value
                for key, value in json.loads(counts or "{}").items()
                if isinstance(value, int)
            }
        note = last_note.strip()
        if last_abort and note:
            self._counts[note] = self._counts.get(note, 0) + 1
            self._keep()
            self.warning = (
                f"the last agent was aborted while it was {' '.join(json.loads(note))}"
            )
            places = [
                line.strip()
                for line in last_abort.splitlines()
                if line.strip().startswith("File ")
            ]
            self.warning += f" ({places[0]})" if places else ""
        aborted = os.open(
            self._folder / "aborted",
            os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC,
            0o600,
        )
        faulthandler.enable(file=aborted, all_threads=False)
        self._descriptor = os.open(
            self._folder / "note",
            os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC,
            0o600,
        )

    def _read(self, name: str) -> str:
        try:
            return files.read(self._folder / name).decode("utf-8", "replace")
        except FileNotFoundError:
            return ""

    def _write(self, note: str) -> None:
        self._note = note
        with contextlib.suppress(OSError):
            # a full disk, for example: the work goes on without a note
            os.pwrite(self._descriptor, note.encode().ljust(_LENGTH), 0)

    def _keep(self) -> None:
        with contextlib.suppress(OSError):
            files.replace(self._folder / "counts", json.dumps(self._counts).encode())


def _name(work: str, subject: str) -> str:
    return json.dumps([work, subject[: _LENGTH // 8]])
