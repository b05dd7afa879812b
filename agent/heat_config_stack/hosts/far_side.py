"""The process on a host: carries out the deployments of one stack, with the engine and the settings of the agent there.

A coordinator on another machine starts it by ssh and speaks with it over its standard input and output. Each
deployment is on record in the journal of the stack's folder before it runs, and its result stays there until the
coordinator says that it has the result on disk. A deployment that is asked for again is answered with that result, and
nothing runs twice. The runs do not need this process: after its end, the next one follows them.
"""

from __future__ import annotations

import contextlib
import os
import select
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from heat_config_agent import __version__
from heat_config_agent.daemon.reboot import SECONDS, Reboot
from heat_config_agent.engine import events
from heat_config_agent.engine.events import Event, Report
from heat_config_agent.engine.workplace import open_state
from heat_config_agent.model.deployment import Document, Target
from heat_config_agent.model.entry import Entry, State
from heat_config_agent.model.errors import AgentError, ExitCode, LockedError, StateError
from heat_config_agent.model.waking import Waker
from heat_config_agent.runs import supervisor
from heat_config_agent.runs.tools import Tools
from heat_config_agent.settings.effective import Settings
from heat_config_agent.signals.delivery import Fate, Outcome
from heat_config_agent.state import asked, journal, lock, record_file
from heat_config_agent.state.records import Reader
from heat_config_hooks import files, processes, protocol
from heat_config_hooks.values import replace
from heat_config_stack.hosts.frames import PROTOCOL, Frames

FOLDER = "hosted"
"""The folder in the state directory with a folder for each stack of another machine."""

SILENCE = 60.0
"""Seconds without a word after which the coordinator is taken for gone. It says something more often than that."""

_AGAIN = 5.0
"""Seconds until a deployment is offered again that could not begin."""

_TURN = 5.0
"""The longest turn in seconds."""


_LOOK = 1.0
"""The longest turn in seconds while a deployment waits for a reboot of the host."""

_GOING_DOWN = ".reboot"
"""The file in `FOLDER` with the boot in which the reboot command was started, and since when, in seconds since boot."""

SOON, BY_HAND = "soon", "by hand"
"""The end of a wait for a reboot: the agent reboots the host, or leaves that to people."""

_REBOOTED = "the host is being rebooted"

_REMOVED = "its deployment was removed from the stack"


class _Gone(Exception):  # noqa: N818  # it is the coordinator that has gone
    """The coordinator has gone."""


class Tray:
    """The results for the coordinator: an `Outbox` whose letters count as delivered when it says that it has them."""

    is_stored = False

    def __init__(self) -> None:
        """Start with no results."""
        self.posted: dict[str, Mapping[str, object]] = {}
        """The results that the coordinator does not have yet, by key."""
        self._outcomes: list[Outcome] = []
        self._waker = Waker()

    def trust(self, ca_file: str | None) -> None:
        """Ignore the file: nothing is sent to a server."""

    def fileno(self) -> int:
        """Return a descriptor that is readable when there are outcomes."""
        return self._waker.fileno()

    def expect(self, target: Target) -> None:
        """Do nothing: the tray is always ready."""

    def post(self, key: str, target: Target, values: Mapping[str, object]) -> None:  # noqa: ARG002  # all are for one
        """Keep a result for the coordinator."""
        self.posted[key] = values

    def taken(self, key: str) -> None:
        """Count a result as delivered."""
        if self.posted.pop(key, None) is not None:
            self._outcomes.append(Outcome(key, Fate.SENT))
            self._waker.wake()

    def withdraw(self, key: str) -> None:
        """Discard a result."""
        self.posted.pop(key, None)

    def outcomes(self) -> list[Outcome]:
        """Return the outcomes since the last call."""
        self._waker.drain()
        found, self._outcomes = self._outcomes, []
        return found

    def close(self) -> None:
        """Close the tray."""
        self._waker.close()


class _Told(Report):
    """Tells the coordinator of events."""

    def __init__(self, frames: Frames) -> None:
        self._frames = frames

    def event(self, event: Event) -> None:
        match event:
            case events.Begun():
                age = max(processes.since_boot() - event.run.began, 0.0)
                key = event.step.deployment.key
                self._frames.send({"is": "began", "key": key, "age": age})
            case events.Message(is_warning=True):
                self._frames.send({"is": "warning", "text": event.text})


def run(settings: Settings, reader: int, writer: int) -> int:
    """Serve a coordinator until it has gone; return the exit code."""
    frames = Frames(reader, writer)
    frames.mark(
        {
            "is": "hello",
            "protocol": PROTOCOL,
            "version": __version__,
            "time": time.time(),
        }
    )
    try:
        opening = _opening(frames)
        if opening[1][0].get("do") == "check":
            frames.send({"is": "checked", **_facts(settings)})
            _drain(frames)
            return 0
        folder = _folder(settings, opening)
        with _held(folder, frames):
            if reason := asked.paused(settings.state):
                _refuse(frames, f"the agent is paused ({reason[0]})", passing=True)
                return 1
            carrier = _Carrier(settings, folder, frames)
            try:
                is_forgotten = carrier.serve(opening)
            finally:
                carrier.close()
            if is_forgotten:
                import shutil  # noqa: PLC0415  # once in the life of a stack

                shutil.rmtree(folder)
                frames.send({"is": "forgotten"})
                _drain(frames)
    except _Gone:
        return 0
    except (KeyError, TypeError, AttributeError) as error:
        _refuse(frames, f"a message is not of the protocol ({error!r})", passing=False)
        return ExitCode.USAGE
    except AgentError as error:
        _refuse(frames, str(error), passing=isinstance(error, LockedError | StateError))
        return error.exit_code
    return 0


def _facts(settings: Settings) -> dict[str, Any]:
    """Return the facts about the host that a coordinator needs before it uses it."""
    facts: dict[str, Any] = {"problem": "", "free": 0, "tools": []}
    import shutil  # noqa: PLC0415  # only for a check

    try:
        lock.guard(settings.state)
        files.make_directory(settings.state, durable=True)
        facts["free"] = shutil.disk_usage(settings.state).free
    except (OSError, AgentError) as error:
        facts["problem"] = f"cannot use its state directory: {error}"
    warnings: list[str] = []
    facts["tools"] = sorted(Tools(settings.hooks, warnings.append).installed())
    return facts


def _refuse(frames: Frames, why: str, *, passing: bool) -> None:
    frames.send({"is": "refused", "why": why, "passing": passing})
    _drain(frames)


def _drain(frames: Frames) -> None:
    """Write the remaining messages, as long as the coordinator reads."""
    end = time.monotonic() + _TURN
    while frames.is_blocked and time.monotonic() < end:
        select.select([], [frames.writer], [], 1)
        frames.flush()


def _opening(frames: Frames) -> tuple[str, list[dict[str, Any]]]:
    """Return the stack, and the first messages about it. Raises _Gone."""
    end = time.monotonic() + SILENCE
    while True:
        frames.flush()
        messages = frames.receive()
        if messages:
            return str(messages[0].get("stack")), messages
        if frames.ended or time.monotonic() > end:
            raise _Gone
        select.select(
            [frames.reader], [frames.writer] if frames.is_blocked else [], [], 1
        )


def _folder(settings: Settings, opening: tuple[str, list[dict[str, Any]]]) -> Path:
    lock.guard(settings.state)
    files.make_directory(settings.state, durable=True)
    return folder_of(settings, opening[0])


def folder_of(settings: Settings, stack: str) -> Path:
    """Return the folder of a stack of another machine, which is the state directory of its deployments here."""
    return settings.state / FOLDER / protocol.file_key(stack)


@contextlib.contextmanager
def _held(folder: Path, frames: Frames) -> Any:
    """Hold the lock of the folder, also if an earlier process has to notice first that its coordinator has gone."""
    end = processes.since_boot() + SILENCE * 1.5
    files.make_directory(folder.parent, durable=True)
    with contextlib.ExitStack() as holding:
        is_told = False
        while True:
            try:
                holding.enter_context(lock.held(folder))
                break
            except LockedError:
                if processes.since_boot() > end:
                    raise
                if not is_told:
                    frames.send(
                        {
                            "is": "waits",
                            "why": "another session works on the stack there",
                        }
                    )
                    is_told = True
                poll = select.poll()
                poll.register(frames.reader, 0)  # only its end matters
                if poll.poll(200):
                    raise _Gone from None
        yield


class _Carrier:
    """The deployments of one stack on this host."""

    def __init__(self, settings: Settings, folder: Path, frames: Frames) -> None:
        """Open the folder, whose lock the caller holds. Raises AgentError."""
        self._settings, self._folder, self._frames = settings, folder, frames
        self._tray = Tray()
        told = _Told(frames)
        self._files = folder / "files"
        environment = dict(settings.run_settings.environment)
        environment[protocol.STACK_FILES] = str(self._files)
        place = open_state(
            settings,
            self._tray,
            told,
            run_settings=replace(
                settings.run_settings,
                state=folder,
                root=settings.root and folder,
                parallel=max(int(settings.number("parallel")), 1),
                environment=environment,
            ),
            deployed=folder / "deployed",
        )
        self._journal, self._applier, self._announcer = (
            place.journal,
            place.applier,
            place.announcer,
        )
        self._reboot = Reboot(self._applier, told, self._mark_reboot)
        self._going_down = folder.parent / _GOING_DOWN
        self._is_marked = False
        self._wanted: dict[str, Document] = {}
        """The deployments that the coordinator asks for and whose results it does not have, by key."""
        self._beside: dict[str, Document] = {}
        """Deployments that have ended and that a DELETE has to see, by key."""
        self._held_back: list[dict[str, Any]] = []
        """Deployments whose files are still missing."""
        self._gone: dict[str, str] = {}
        """Sources that are no longer wanted, with the reason for their runs."""
        self._sent: set[str] = set()
        """The keys of the results that were sent."""
        self._is_new = False
        self._offer_again = 0.0
        self._said = "", ""
        self._heard = time.monotonic()
        self._is_forgotten = False

    def close(self) -> None:
        """Write everything to disk."""
        self._applier.settle()
        self._journal.close()
        self._tray.close()
        self._announcer.close()

    def serve(self, opening: tuple[str, list[dict[str, Any]]]) -> bool:
        """Serve until the coordinator has gone; return True if the folder of the stack has to be removed."""
        messages = opening[1]
        while True:
            for message in messages:
                self._heard = time.monotonic()
                self._do(message)
            is_forgotten = self._is_forgotten and not self._runs
            if (
                is_forgotten
                or self._frames.ended
                or time.monotonic() - self._heard > SILENCE
            ):
                break
            if self._is_new or self._is_due:
                self._offer()
            busy = self._frames.is_blocked
            turn = _LOOK if self._reboot.is_wanted else _TURN
            self._applier.turn(0.05 if busy else turn, [self._frames.reader])
            self._answer()
            self._frames.flush()
            self._tend_reboot()
            messages = self._frames.receive()
        return is_forgotten

    @property
    def _runs(self) -> bool:
        """True if a run goes on of the deployments of the stack."""
        entries = self._journal.entries.values()
        return any(entry.state is State.RUNNING for entry in entries)

    @property
    def _is_due(self) -> bool:
        return 0 < self._offer_again < time.monotonic()

    # Messages of the coordinator.

    def _do(self, message: dict[str, Any]) -> None:
        match message.get("do"):
            case "open":
                self._end_others(set(message.get("deployments") or ()))
            case "deploy":
                self._take_on(message["items"])
            case "files":
                self._keep(message["files"])
            case "taken":
                for key in message["keys"]:
                    self._tray.taken(key)
                    self._wanted.pop(key, None)
            case "withdraw":
                self._withdraw(str(message["source"]))
            case "stop":
                self._stop(str(message["reason"]))
            case "forget":
                self._is_forgotten = True
                self._end_others(set())
            case "ping":
                self._frames.send({"is": "pong"})

    def _withdraw(self, source: str) -> None:
        """End the run of a deployment that the stack has removed."""
        self._wanted = {
            key: document
            for key, document in self._wanted.items()
            if document.source != source
        }
        self._gone[source] = _REMOVED
        self._is_new = True
        self._frames.send({"is": "withdrawn", "source": source})

    def _end_others(self, sources: set[str]) -> None:
        """End the runs of deployments that the stack has no more."""
        for entry in self._journal.entries.values():
            if entry.state is State.RUNNING and entry.source not in sources:
                self._gone[entry.source] = _REMOVED
                self._is_new = True

    def _take_on(self, items: list[dict[str, Any]]) -> None:
        missing: set[str] = set()
        for item in items:
            lacking = [
                digest
                for digest in item.get("files", ())
                if not (self._files / protocol.file_key(digest)).is_file()
            ]
            if lacking:
                missing.update(lacking)
                self._held_back.append(item)
            else:
                self._want(item)
        if missing:
            self._frames.send({"is": "lacks", "files": sorted(missing)})

    def _want(self, item: dict[str, Any]) -> None:
        document = _document(item)
        key = str(item["key"])
        for other in item.get("beside", ()):
            if str(other["key"]) in self._journal.entries:  # it was carried out here
                self._beside[str(other["key"])] = _document(other)
        self._beside.pop(key, None)
        self._wanted[key] = document
        self._sent.discard(key)
        self._gone.pop(document.source, None)
        self._is_new = True

    def _keep(self, contents: dict[str, str]) -> None:
        """Keep files of operations under their digests, and go on with the deployments that have waited for them."""
        import base64  # noqa: PLC0415  # few stacks have files
        import binascii  # noqa: PLC0415
        import hashlib  # noqa: PLC0415

        files.make_directory(self._files, durable=True)
        for digest, text in contents.items():
            try:
                raw = base64.b64decode(text, validate=True)
            except binascii.Error:
                continue
            if hashlib.sha256(raw).hexdigest() == digest:
                files.replace(
                    self._files / protocol.file_key(digest), raw, durable=True
                )
        items, self._held_back = self._held_back, []
        for (
            item
        ) in items:  # a file that did not come is missed by the tool, which says so
            self._want(item)

    def _stop(self, reason: str) -> None:
        """End the runs that are going on; nothing else begins."""
        running = {
            entry.key
            for entry in self._journal.entries.values()
            if entry.state is State.RUNNING
        }
        self._held_back.clear()
        self._wanted = {
            key: document for key, document in self._wanted.items() if key in running
        }
        for key, document in self._wanted.items():
            if key in running:
                self._gone[document.source] = reason
        self._is_new = True
        self._frames.send({"is": "stopped", "keys": sorted(self._wanted)})

    # The engine.

    def _offer(self) -> None:
        self._is_new, self._offer_again = False, 0.0
        gone, self._gone = self._gone, {}
        known = {document.source for document in self._wanted.values()}
        documents = [
            *self._wanted.values(),
            *(each for key, each in self._beside.items() if key not in self._wanted),
            *(Document(source=each, content=[]) for each in gone if each not in known),
        ]
        self._applier.offer(documents, mark=False)
        for source, reason in gone.items():
            self._applier.end_runs(source, reason)

    def _answer(self) -> None:
        """Send the results that are new, and say why nothing goes on."""
        for key in [key for key in self._wanted if key not in self._sent]:
            entry = self._journal.entries.get(key)
            if entry is not None and (key in self._tray.posted or entry.settled):
                self._sent.add(key)
                self._frames.send(_result(entry))
                if entry.settled:  # it was delivered before, or no result is waited for
                    self._wanted.pop(key)
        why, reboot = "", ""
        names: dict[str, str] = {}
        if self._applier.postponed:
            why = self._applier.postponed
            self._offer_again = self._offer_again or time.monotonic() + _AGAIN
        elif waiting := self._applier.work.reboots:
            names = {entry.key: entry.name for entry in waiting}
            why, reboot = self._reboot_in_words(", ".join(names.values()))
        elif self._applier.work.queue.hold and self._applier.work.queue:
            why, reboot = "it is rebooted for another stack", SOON
        if (why, reboot) != self._said:
            self._said = why, reboot
            self._frames.send(
                {"is": "waits", "why": why, "reboot": reboot, "names": names}
            )

    # The reboot of the host, for deployments whose commands have ended with exit code 194.

    def _tend_reboot(self) -> None:
        """Reboot the host if a deployment waits for that and nothing else runs there, or check the outcome."""
        reboot, before = self._reboot, self._reboot.is_under_way
        if not before and self._goes_down:
            self._applier.work.queue.hold = _REBOOTED
            return
        if before or (reboot.is_wanted and not self._others_run()):
            reboot.tend(self._settings)
        if self._is_marked and not reboot.is_under_way:  # it has failed
            self._is_marked = False
            self._going_down.unlink(missing_ok=True)
        self._applier.work.queue.hold = _REBOOTED if reboot.is_under_way else ""

    def _mark_reboot(self) -> None:
        since = f"{processes.boot_id()} {processes.since_boot()}"
        self._is_marked = True
        with contextlib.suppress(OSError):  # as on a full disk
            files.replace(self._going_down, since.encode())

    @property
    def _goes_down(self) -> bool:
        """True if an earlier session, or that of another stack, has started the reboot command a while ago at most.

        While the machine goes down, the command may fail where it is started again.
        """
        try:
            content = files.read(self._going_down).decode()
            boot, since = content.rsplit(" ", 1)
            age = processes.since_boot() - float(since)
        except (OSError, ValueError):
            return False
        return boot == processes.boot_id() and age < SECONDS

    def _reboot_in_words(self, names: str) -> tuple[str, str]:
        """Return why a reboot is waited for, and whether the agent brings it about."""
        wish = f"{names} asked for a reboot of the host"
        work, settings = self._applier.work, self._settings
        if self._reboot.is_under_way or self._goes_down:
            return f"it is rebooted: {names} asked for it", SOON
        if not settings.flag("may_reboot"):
            is_last = not (work.running or work.delivery.busy)
            why = f"{wish}, which its settings leave to people (may_reboot)"
            return why, BY_HAND if is_last else ""
        if pause := asked.paused(settings.state):
            return f"{wish}, and the agent is paused ({pause[0]})", ""
        if work.running or self._others_run():
            return f"{wish}, which waits for the end of other runs there", SOON
        return f"it is rebooted: {names} asked for it", SOON

    def _others_run(self) -> bool:
        """Return whether something runs on the host that is not of this stack, and that a reboot would cut short."""
        state = self._settings.state
        folders = [state, *(state / FOLDER).glob("*"), *(state / "stacks").glob("*")]
        return any(_runs(each) for each in folders if each != self._folder)


def _runs(folder: Path) -> bool:
    """Return whether a run goes on of the deployments in a folder's journal."""
    try:
        entries = Reader(record_file.read(folder / journal.FILE)).entries
    except OSError:
        return False
    return any(
        entry.state is State.RUNNING
        and entry.run is not None
        and supervisor.going_on(entry.run)
        for entry in entries.values()
    )


def _document(item: Mapping[str, Any]) -> Document:
    return Document(
        source=str(item["source"]),
        content=[item["entry"]],
        signatures=tuple(item.get("signatures", ())),
    )


def _result(entry: Entry) -> dict[str, Any]:
    values: Mapping[str, object] | None = entry.values
    if values is None:
        problem = "its result is no longer kept on the host"
        values = {
            "deploy_stdout": "",
            "deploy_stderr": problem,
            "deploy_status_code": 1,
        }
    took = None
    if entry.started is not None and entry.ended is not None:
        took = entry.ended - entry.started
    return {
        "is": "result",
        "key": entry.key,
        "values": dict(values),
        "seconds": took,
        "problem": entry.reason if entry.failed else "",
    }


def inherited() -> tuple[int, int]:
    """Return the descriptors of the coordinator, and lead standard output to standard error."""
    reader, writer = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    return reader, writer
