"""The removal of what deployments have left: their secrets, their output, then everything but the fact that they ran.

The journal records a removal only after the files are gone. `deployed/ID.json`, whose absence would mean «run it
again», goes last, when the journal no longer attaches that meaning to it.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

from heat_config_agent.deployments import cleanup, plan
from heat_config_agent.masking import redaction
from heat_config_agent.model.entry import UNDELIVERED, Entry, Removed
from heat_config_agent.model.log import Log
from heat_config_agent.runs import run_folder, streams
from heat_config_agent.state.deployed import Deployed
from heat_config_agent.state.journal import Journal
from heat_config_agent.state.removal.disk_usage import Traces
from heat_config_agent.state.removal.retention import Part, Removal
from heat_config_hooks import files
from heat_config_hooks.protocol import CREDENTIALS
from heat_config_hooks.values import replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from heat_config_agent.masking.secrets import Secrets


class DeploymentRemoval:
    """Removes the files that deployments have left in one state directory, in short steps."""

    def __init__(
        self, journal: Journal, deployed: Deployed, state: Path, log: Log
    ) -> None:
        """Remove nothing yet."""
        self._journal = journal
        self._deployed = deployed
        self._state = state
        self._log = log
        self.removed: list[Removal] = []
        """The removals that were carried out."""

    def carry_out(self, removals: Iterable[Removal], traces: Traces) -> Iterator[None]:
        """Remove the files, and then put that on record; yield after each short step. Raises StateError."""
        completed: list[Removal] = []
        reduced: dict[str, Entry | None] = {}
        for removal in removals:
            if not _is_same(
                removal.entry, self._journal.entries.get(removal.entry.key)
            ):
                continue
            try:
                if removal.part is Part.SECRETS:
                    yield from self._hide(removal.entry, traces)
                elif removal.part is not Part.ID:
                    self._empty(removal.entry, traces)
            except OSError as error:
                self._log.warn(
                    f"cannot remove all of {removal.entry.title} that is due: {reason(error)}"
                )
                continue
            completed.append(removal)
            yield
        for removal in completed:
            entry = self._journal.entries.get(removal.entry.key)
            if (
                entry is not None
                and _is_same(removal.entry, entry)
                and removal.part is not Part.OUTPUT
            ):
                reduced[entry.key] = _reduced(entry, removal.part)
        if reduced and not self._journal.reduce(reduced):
            return  # the journal has a warning, and the next sweep puts the removals on record
        self.removed += completed
        if completed:
            self._log.note(f"pruned: {_summary(completed)}")
        yield from self._unmark()

    def _hide(self, entry: Entry, traces: Traces) -> Iterator[None]:
        """Remove everything that may be secret from all files of a deployment."""
        folder = self._state / "runs" / entry.key
        document = entry.document or self._deployed.document(entry.key)
        deployment = plan.deployment_of(entry, document) if document else None
        secrets = redaction.secrets(deployment) if deployment else None
        given = deployment is not None and any(
            item.name not in CREDENTIALS for item in redaction.secret_inputs(deployment)
        )
        for name in run_folder.STREAMS:
            yield from _mask(folder / name, secrets, final=given)
        run_folder.tidy(folder)
        for path in (*traces.of(entry), *_private(entry)):
            files.remove(path)
        if entry.run is not None:  # else another agent has written them
            self._deployed.mask(entry.key)

    def _empty(self, entry: Entry, traces: Traces) -> None:
        """Remove the output of a deployment, and the files that its tool has written."""
        for path in (
            self._state / "runs" / entry.key,
            *traces.of(entry),
            *_private(entry),
        ):
            files.remove(path)

    def _unmark(self) -> Iterator[None]:
        """Remove the files in `deployed/` that the journal needs no more."""
        present = self._deployed.keys() or frozenset()
        for key in [key for key in present if self._knows_only_that_it_ran(key)]:
            with contextlib.suppress(OSError):
                self._deployed.forget(key)
            yield

    def _knows_only_that_it_ran(self, key: str) -> bool:
        entry = self._journal.entries.get(key)
        return (
            entry is not None
            and entry.removed is Removed.ALL
            and entry.left_at is not None
        )


def _private(entry: Entry) -> tuple[Path, ...]:
    """Return the folder of a run of another user, if there is one."""
    return (
        (Path(entry.run.private),)
        if entry.run is not None and entry.run.private
        else ()
    )


def _summary(removals: Iterable[Removal]) -> str:
    """Return a sentence about what was removed, and from how many deployments."""
    numbers = Counter(removal.part for removal in removals)
    says = {
        Part.SECRETS: "inputs and configs of",
        Part.OUTPUT: "output of",
        Part.DEPLOYMENT: "all but that they ran of",
        Part.ID: "that they ran, of",
    }
    return ", ".join(
        f"{says[what]} {number} deployment{'s' * (number > 1)}"
        for what, number in numbers.items()
    )


def _mask(path: Path, secrets: Secrets | None, *, final: bool) -> Iterator[None]:
    """Mask the secrets in a file, part by part; remove the file if they are not known or that fails.

    With `final`, processes that the run has left behind can no longer add to the file: they may print secrets that the
    agent no longer knows.
    """
    try:
        if secrets is not None:
            if final:
                streams.detach(path)
            for _ in streams.mask(path, secrets):
                yield
            return
    except FileNotFoundError:
        return
    except OSError:  # the disk is too full even for that, or it is not a file
        pass
    files.remove(path)


def _reduced(entry: Entry, part: Part) -> Entry | None:
    """Return the entry without the removed parts; None if nothing is left."""
    if part is Part.ID:
        return None
    if part is Part.SECRETS:
        values = entry.values if entry.state in UNDELIVERED else None
        return replace(entry, document={}, values=values, removed=Removed.SECRETS)
    return replace(
        entry,
        document={},
        values=None,
        reason=entry.reason[:200],
        trouble=entry.trouble[:200],
        run=entry.run
        if cleanup.key_of(entry)
        else None,  # if a cleaned-up deployment comes back, it runs again
        marked="",
        removed=Removed.ALL,
    )


def _is_same(planned: Entry, now: Entry | None) -> bool:
    """Return whether a deployment has not changed since its removal was planned."""
    return now is not None and all(
        getattr(planned, name) == getattr(now, name)
        for name in ("state", "accepted", "at", "settled_at", "left_at", "again")
    )


def reason(error: OSError) -> str:
    """Return why an operation on a file failed, and the name of the file if it is known."""
    return f"{error.strerror or error}{f': {error.filename}' if error.filename else ''}"
