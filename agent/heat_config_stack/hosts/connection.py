"""One host of a stack: a session that is kept, and begun again after each break until all results are there.

A deployment is asked for by the id of its config, again after each break. The host answers with the result, whether the
deployment has run since, runs now or is new there.
"""

from __future__ import annotations

import base64
import contextlib
import re
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from heat_config_agent import __version__
from heat_config_agent.model import wording
from heat_config_agent.model.positions import Json
from heat_config_hooks import files, processes, protocol
from heat_config_stack.hosts.client import Client, Ended, check_way
from heat_config_stack.hosts.far_side import BY_HAND, SILENCE, SOON
from heat_config_stack.hosts.frames import PROTOCOL, Frames
from heat_config_stack.hosts.host import PATIENCE, Host
from heat_config_stack.lifecycle import deployments
from heat_config_stack.lifecycle.live import World
from heat_config_stack.lifecycle.machine import signatures_of, source
from heat_config_stack.records.records import IN_PROGRESS, DeploymentRecord

_SIGNS_OF_WORK = frozenset(
    {"began", "result", "lacks", "stopped", "withdrawn", "forgotten"}
)
"""The messages of a host that carries out its requests."""

TASK = ("hosts", "session")
"""The command of the agent on the host."""

_LONGEST_DELAY = 30.0
"""The longest time in seconds between two tries to reach a host."""


BOOTING = 900.0
"""Seconds that a host has at least to be back after a reboot that a deployment has asked for."""


class Watcher(Protocol):
    """Sees what happens on hosts."""

    def began(self, path: str, moment: float) -> None:
        """See that a run began, at a time in seconds since the boot of this machine."""

    def ended(self, path: str, seconds: float | None, problem: str) -> None:
        """See that a run ended, with the time that it took."""

    def warn(self, text: str) -> None:
        """See something that people should know."""


class Connection:
    """One host, and the deployments that it carries out for a stack."""

    def __init__(
        self,
        host: Host,
        watcher: Watcher,
        limit: float | None,
        words: Callable[[Host], Sequence[str]] = lambda host: host.words(*TASK),
    ) -> None:
        """Reach a host when there is something to do; wait `limit` seconds for one that does not answer."""
        self.host = host
        self.title = host.title
        self.pending: dict[str, DeploymentRecord] = {}
        """The deployments whose results are not here yet, by the key of their configs."""
        self.waits_for = ""
        """The reason why nothing goes on; empty if there is none."""
        self.leaves_reboot = False
        """True if nothing goes on before people reboot the host."""
        self.was_reached = False
        """True if the host has been spoken with."""
        self.is_forgotten = False
        """True if the host has removed all that it kept of the stack."""
        self._watcher, self._limit, self._words = watcher, limit, words
        self._new: dict[str, None] = {}
        """The keys of pending deployments that the session has not been asked for."""
        self._asked: set[str] = set()
        """The keys of deployments that the host may have begun."""
        self._delivered: dict[str, float] = {}
        """When a pending deployment was delivered, by key."""
        self._ending: dict[str, None] = {}
        """The sources of removed deployments whose runs the host has to end."""
        self._gone: dict[str, None] = {}
        """The sources of removed deployments that have ended; the host is told if it is asked for something else."""
        self._owed: list[str] = []
        """The keys of results that the host may forget once they are on disk here."""
        self._stopping = ""
        self._forgetting = False
        self._client: Client | None = None
        self._is_open = False
        self._heard = self._pinged = 0.0
        self._has_said = False
        """True if the reason is one of the host itself."""
        self._is_rebooted = False
        """True if the host is about to be rebooted, or goes down and comes back."""
        self._last_words = ""
        """The reason why the last session has ended, or has not begun."""
        self._silent_since: float | None = None
        """Since when the host has not answered, in seconds since boot; None while it does."""
        self._silent_at = 0.0
        """The same by the clock."""
        self._tries = 0
        self._next_try = 0.0
        self._is_way_checked = False
        """True once `check_way` has passed."""

    # The interface for the fleet.

    def deliver(self, deployment: DeploymentRecord) -> None:
        """Have the host carry out a deployment."""
        key = protocol.file_key(deployment.config)
        if key not in self.pending:
            self._new[key] = None
        self.pending[key] = deployment
        self._delivered[key] = processes.since_boot()

    def withdraw(self, deployment: DeploymentRecord) -> None:
        """End the run of a deployment that its stack has removed."""
        key = protocol.file_key(deployment.config)
        may_run = key in self.pending or deployment.status == IN_PROGRESS
        self.pending.pop(key, None)
        self._new.pop(key, None)
        self._delivered.pop(key, None)
        (self._ending if may_run else self._gone)[source(deployment)] = None
        if may_run and self._frames is not None and self._is_open:
            self._frames.send({"do": "withdraw", "source": source(deployment)})

    def stop(self, running: Sequence[DeploymentRecord], reason: str) -> None:
        """End the runs of deployments that may be going on, whose results come later; nothing else begins."""
        self._stopping = reason
        self.pending, self._new = {}, {}
        for each in running:
            self.deliver(each)
        if self._frames is not None and self._is_open:
            self._new = {}
            self._frames.send({"do": "stop", "reason": reason})

    def forget(self) -> None:
        """Have the host remove everything that it keeps of the stack."""
        self._forgetting = True
        if self._frames is not None and self._is_open:
            self._frames.send({"do": "forget"})

    @property
    def busy(self) -> bool:
        """True if something is to be done on the host, or its results are not on disk here."""
        return bool(
            self.pending
            or self._ending
            or self._owed
            or self._stopping
            or self._forgetting
        )

    @property
    def is_up(self) -> bool:
        """True if a client runs."""
        return self._client is not None

    @property
    def _frames(self) -> Frames | None:
        return self._client.frames if self._client is not None else None

    @property
    def is_blocked(self) -> bool:
        """True if something waits until the client takes it."""
        return self._frames is not None and self._frames.is_blocked

    @property
    def descriptors(self) -> list[int]:
        """The descriptors that are readable when there is something to do."""
        return self._client.descriptors if self._client is not None else []

    @property
    def due(self) -> float:
        """Seconds until there is something to do in any case."""
        now = processes.since_boot()
        if self._client is None:
            return max(self._next_try - now, 0.0)
        return max(min(self._pinged, self._heard) + PATIENCE - now, 0.05)

    def close(self) -> None:
        """End the session; runs on the host go on."""
        if self._client is not None:
            client, self._client = self._client, None
            client.close()
        self._is_open = False

    def turn(self, world: World) -> None:
        """Work without waiting. Results go to the stack."""
        if self._client is None:
            self._give_up(world)
            if not self.busy or processes.since_boot() < self._next_try:
                return
            self._start(world)
        client = self._client
        if client is None:
            return
        client.listen()
        client.frames.flush()
        for message in client.frames.receive():
            self._heard = processes.since_boot()
            try:
                self._take(world, message)
            except (KeyError, TypeError, ValueError, AttributeError) as error:
                why = f"it sent a message that is not of the protocol ({error!r})"
                self._end(world, why, lasting=False)
            if self._client is None:
                return
        if client.frames.ended:
            self._broken(world)
            return
        self._ask(world)
        self._keep_alive(world)

    def acknowledge(self) -> None:
        """Tell the host that its results are on disk here."""
        if self._owed and self._frames is not None and self._is_open:
            self._frames.send({"do": "taken", "keys": self._owed})
        self._owed = []  # without a session, the host hears of it with the next `open`

    @property
    def has_news(self) -> bool:
        """True if there are results that have to be on disk before the host may forget them."""
        return bool(self._owed)

    # The session.

    def _start(self, world: World) -> None:
        self._tries += 1
        self._is_open = False
        if not self._is_way_checked:
            try:
                check_way(self.host)
            except Ended as ended:
                self._end(world, str(ended), lasting=ended.lasting)
                return
            self._is_way_checked = True
        self._heard = self._pinged = processes.since_boot()
        try:
            self._client = Client(self._words(self.host), self.host.command)
        except OSError as error:
            self._later(f"cannot start ssh: {error.strerror}")

    def _ask(self, world: World) -> None:
        """Ask for the deployments that the session does not know yet; their records are on disk."""
        if not (self._new and self._is_open and self._frames is not None):
            return
        new, self._new = self._new, {}
        items = [
            item
            for key in new
            if key in self.pending
            and (item := self._item(world, self.pending[key])) is not None
        ]
        for gone in self._gone:
            self._frames.send({"do": "withdraw", "source": gone})
        self._gone.clear()
        self._asked.update(str(item["key"]) for item in items)
        self._frames.send({"do": "deploy", "items": items})

    def _item(
        self, world: World, deployment: DeploymentRecord
    ) -> dict[str, Any] | None:
        """Return a deployment for the host; None if its config has been removed."""
        config = world.store.configs.get(deployment.config)
        if config is None:
            return None
        return {
            "key": protocol.file_key(config.id),
            "source": source(deployment),
            "entry": config.entry(),
            "signatures": list(signatures_of(world.store)),
            "files": sorted(_files_of(world, config.config)),
            "beside": [
                {
                    "key": protocol.file_key(other.config),
                    "source": source(other),
                    "entry": entry,
                }
                for other, entry in deployments.beside(world, deployment)
                if other.host == deployment.host
            ],
        }

    def _take(self, world: World, message: dict[str, Any]) -> None:
        assert self._frames is not None  # noqa: S101  # the message is from there
        kind = message.get("is")
        if kind in _SIGNS_OF_WORK:
            self._goes_on()
        match kind:
            case "hello":
                self._greet(world, message)
            case "refused":
                why, passing = str(message["why"]), bool(message["passing"])
                self._end(world, why, lasting=not passing)
            case "lacks":
                self._send_files(world, message["files"])
            case "began":
                if deployment := self.pending.get(message["key"]):
                    path = deployments.path_of(world.store, deployment.id)
                    self._watcher.began(
                        path, processes.since_boot() - float(message["age"])
                    )
            case "result":
                self._result(world, message)
            case "warning":
                self._watcher.warn(f"{self.title}: {message['text']}")
            case "waits":
                self._is_rebooted = message.get("reboot") == SOON
                self.leaves_reboot = message.get("reboot") == BY_HAND
                self._wait_for(self._with_paths(world, message))
                self._has_said = bool(self.waits_for)
            case "pong":
                self._silent_since, self._tries = None, 0
                if not (self._has_said or self._is_rebooted):
                    self._goes_on()
            case "stopped":
                self._stopping = ""
                kept = set(message["keys"])
                self.pending = {
                    k: each for k, each in self.pending.items() if k in kept
                }
            case "withdrawn":
                self._ending.pop(str(message["source"]), None)
            case "forgotten":
                self._forgetting, self.is_forgotten = False, True

    def _with_paths(self, world: World, message: dict[str, Any]) -> str:
        """Return why a host waits, with the paths of resources in place of the names that their entries have."""
        why = str(message["why"])
        for key, name in (message.get("names") or {}).items():
            if deployment := self.pending.get(key):
                path = deployments.path_of(world.store, deployment.id)
                why = why.replace(str(name), path)
        return why

    def _greet(self, world: World, hello: dict[str, Any]) -> None:
        """Begin the work of the session, or refuse another version."""
        assert self._frames is not None  # noqa: S101  # as above
        if why := foreign(hello):
            self._end(world, why, lasting=True)
            return
        self._is_open = self.was_reached = True
        place = self.host.place
        # also those that this process has not delivered: they may run since an earlier one
        sources = [
            source(each)
            for each in world.store.deployments.values()
            if each.host is not None and Host.from_json(each.host).place == place
        ]
        self._frames.send({"do": "open", "stack": world.root, "deployments": sources})
        for each in self._ending:
            self._frames.send({"do": "withdraw", "source": each})
        if self._stopping:
            self._frames.send({"do": "stop", "reason": self._stopping})
        self._new = dict.fromkeys(self.pending)
        if self._forgetting:
            self._frames.send({"do": "forget"})

    def _send_files(self, world: World, digests: Sequence[str]) -> None:
        assert self._frames is not None and world.store.files is not None  # noqa: S101, PT018  # configs name them
        contents = {}
        for digest in digests:
            with contextlib.suppress(OSError):
                raw = files.read(world.store.files.folder / protocol.file_key(digest))
                contents[digest] = base64.b64encode(raw).decode()
        self._frames.send({"do": "files", "files": contents})

    def _result(self, world: World, message: dict[str, Any]) -> None:
        key = str(message["key"])
        self._owed.append(key)
        deployment = self.pending.pop(key, None)
        self._new.pop(key, None)
        self._delivered.pop(key, None)
        if deployment is None:
            return
        path = deployments.path_of(world.store, deployment.id)
        deployments.take(world, deployment, message["values"])
        world.store.flush()
        world.store.owed = True
        self._watcher.ended(
            path, message.get("seconds"), str(message.get("problem") or "")
        )

    def _keep_alive(self, world: World) -> None:
        """Ask whether the host is still there, and end a session that has been silent for too long."""
        now = processes.since_boot()
        if now - self._heard > SILENCE:
            self._end(world, f"it has said nothing for {SILENCE:g} s", lasting=False)
        elif self._is_open and now - max(self._pinged, self._heard) >= PATIENCE:
            self._pinged = now
            if self._frames is not None:
                self._frames.send({"do": "ping"})

    # Breaks.

    def _broken(self, world: World) -> None:
        """Take over why a session has ended by itself; another one is begun later."""
        assert self._client is not None  # noqa: S101  # it has just ended
        ended = self._client.end(is_greeted=self._is_open)
        self._end(world, str(ended), lasting=ended.lasting)

    def _end(self, world: World, why: str, *, lasting: bool) -> None:
        """End the session because of the other side."""
        if self._client is not None:
            client, self._client = self._client, None
            client.close(at_once=True)
        self._is_open = False
        if lasting and not self._is_rebooted:
            self._refuse(world, why)
        self._later(why)

    def _later(self, why: str) -> None:
        now = processes.since_boot()
        if self._silent_since is None:
            self._silent_since, self._silent_at = now, time.time()
        delay = (
            min(2.0 ** (self._tries - 2), _LONGEST_DELAY) if self._tries > 1 else 0.2
        )
        self._next_try = now + delay
        self._last_words, self._has_said, self.leaves_reboot = why, False, False
        if self.busy and not self._is_rebooted:
            self._wait_for(why)

    def _goes_on(self) -> None:
        """Note that the host works again."""
        if self._silent_since is not None or self.waits_for:
            self._watcher.warn(f"{self.title} goes on")
        self._silent_since, self._tries, self.waits_for = None, 0, ""
        self._has_said = self._is_rebooted = self.leaves_reboot = False

    def _wait_for(self, why: str) -> None:
        """Warn of an obstacle on the host, once for each reason."""
        if why == self.waits_for:
            return
        self.waits_for = why
        if why:
            self._watcher.warn(f"{self.title} is waited for: {why}")

    def _refuse(self, world: World, why: str) -> None:
        """Fail the deployments that the host surely has not begun for this process: it cannot be reached."""
        for key in [key for key in self.pending if key not in self._asked]:
            self._fail(world, key, f"the host {self.title} cannot be used: {why}")
        if not self.pending:
            self._drop_wishes(why)

    def _give_up(self, world: World) -> None:
        """Fail the deployments that have waited too long for a host that does not answer."""
        if self._silent_since is None or self._limit is None:
            return
        now = processes.since_boot()
        since = wording.stamp(self._silent_at)
        limit = max(self._limit, BOOTING) if self._is_rebooted else self._limit
        after = " its reboot" if self._is_rebooted else ""
        for key, delivered in list(self._delivered.items()):
            if now - max(self._silent_since, delivered) > limit:
                why = f"the host {self.title} has not answered since{after} {since}: {self._last_words}"
                self._fail(
                    world, key, f"{why}; it is not known how the run there has ended"
                )
        if now - self._silent_since > limit:
            self._drop_wishes(self._last_words)

    def _fail(self, world: World, key: str, sentence: str) -> None:
        deployment = self.pending.pop(key)
        self._new.pop(key, None)
        self._delivered.pop(key, None)
        path = deployments.path_of(world.store, deployment.id)
        deployments.refuse(world, deployment, sentence)
        self._watcher.ended(path, None, sentence)

    def _drop_wishes(self, why: str) -> None:
        """Stop waiting for other things than deployments: the host hears of them in the next conversation."""
        if self._ending or self._forgetting or self._stopping:
            self._watcher.warn(
                f"{self.title} still has what it keeps of the stack: {why}"
            )
        self._ending.clear()
        self._forgetting, self._stopping = False, ""


def _files_of(world: World, config: Json) -> set[str]:
    from heat_config_stack.records import kept_files  # noqa: PLC0415  # few stacks have such files

    return kept_files.named(config) if world.store.files is not None else set()


def foreign(hello: Mapping[str, Any]) -> str:
    """Return why the agent of a host cannot be spoken with; empty if it can."""
    theirs = str(hello.get("version", ""))
    if hello.get("protocol") == PROTOCOL and _major(theirs) == _major(__version__):
        return ""
    older = "older" if _numbers(theirs) < _numbers(__version__) else "newer"
    return f"the agent there is {older}: version {theirs or 'unknown'}, and {__version__} here"


def _major(version: str) -> str:
    return version.partition(".")[0]


def _numbers(version: str) -> list[int]:
    return [int(part) for part in re.findall(r"\d+", version)[:3]]


__all__ = ["TASK", "Connection", "Watcher", "foreign"]
