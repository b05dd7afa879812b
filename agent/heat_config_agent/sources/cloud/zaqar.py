"""Metadata from a Zaqar queue: Heat posts a message to it whenever a server's metadata changes.

Each message contains all of the metadata, so only the newest counts, and those before it are superseded. A message is
claimed first. It is deleted, together with all messages before it, once its content is on disk. A claim hides a message
for `CLAIM_SECONDS`, also from the agent that made it. If the agent is killed before it deletes the message, the message
comes back after that time; if its content was on disk, its deployments are known by their ids.

An older message must not count after a newer one. Zaqar returns messages in the order in which they were posted, but
leaves out those that are claimed: if an agent is killed while it has a claim, the next agent receives the messages that
were posted later, and the claimed one a minute after them. So all messages before the newest are deleted, also those
that others have claimed. A message that comes back, and is older than the one that was collected, is deleted and does
not count.

Heat does not always post messages in the order of their content either. If two deployments begin at once, one message
may contain both, and a later message only one of them. So the content for the same deployment is compared too: the
message with the earlier action is older, whenever it was posted.
"""

from __future__ import annotations

import contextlib
import functools
import json
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, quote, urlencode, urlsplit

from heat_config_agent.deployments import metadata
from heat_config_agent.deployments.metadata import kind_of
from heat_config_agent.model.deployment import Document
from heat_config_agent.model.errors import (
    AccessError,
    DeniedError,
    SourceError,
    UnreachableError,
)
from heat_config_agent.sources.base import LOGIN_HINT, Reach, credentials
from heat_config_hooks import strict_json
from heat_config_hooks.values import dataclass

if TYPE_CHECKING:
    from heat_config_agent import web
    from heat_config_agent.sources.cloud.websocket import Listener

CLAIM_SECONDS = 60
"""The time for which a claim hides a message: the least that Zaqar accepts, and ample time for writing it to disk. If
the agent is killed, no one sees the messages that it has claimed until this time is over."""

GRACE_SECONDS = 3600
"""The least lifetime of a message after its claim has ended. Heat's messages live for an hour. While the disk is full,
a message is claimed again and again, and it must not expire between two polls."""

BATCH = 10
"""The number of messages that one request deletes. Zaqar accepts 20 by default."""

ROUNDS = 100
"""The most claims in one poll. Each returns ten messages, oldest first."""

Ring = Callable[[], None]
"""A function that has the source polled now; any thread can call it."""


@dataclass(frozen=True, kw_only=True)
class _Message:
    id: str
    claim: str
    """The id of the agent's claim on it; empty if Zaqar does not name one."""
    earliest: float
    latest: float
    """The earliest and latest time at which it was posted (monotonic): Zaqar gives its age in whole seconds."""
    content: object
    problem: str
    """The reason why its content is not metadata; empty if it is."""

    @functools.cached_property
    def creation_times(self) -> Mapping[str, str]:
        """The creation time of each deployment's action, by the addressee of its result.

        Addressees with two deployments are left out, because they tell nothing: Heat has two of a name while one
        replaces the other.
        """
        if self.problem:
            return {}
        times: dict[str, list[str]] = {}
        for deployment in metadata.parse(
            Document(source=Zaqar.name, content=self.content)
        ).deployments:
            created = deployment.document.get("creation_time")
            if deployment.target.addressee and isinstance(created, str):
                times.setdefault(deployment.target.addressee, []).append(created)
        return {
            addressee: created[0]
            for addressee, created in times.items()
            if len(created) == 1
        }


@dataclass(frozen=True)
class _Collected:
    """A document that was returned by `Zaqar.collect`."""

    document: Document
    message: str
    """The id of its message."""


class Zaqar:
    """A Zaqar queue with a server's metadata."""

    name = "zaqar"

    def __init__(
        self, values: Mapping[str, object], reach: Reach, *, ring: Ring | None = None
    ) -> None:
        """Prepare to poll the queue in the settings of the section `zaqar`.

        With `use_websockets`, `ring` is called when there is a new message, if Zaqar offers websockets.
        """
        self.trouble = ""
        self._queue = str(values["queue_id"])
        self._path = f"/v2/queues/{quote(self._queue, safe='')}"
        self._credentials = credentials(values)
        from heat_config_agent.web.keystone import Cloud  # noqa: PLC0415  # 30 ms, only if this source is used

        self._cloud = Cloud(self._credentials, reach.ca_file)
        self._reach = reach
        self._client = str(uuid.uuid4())
        self._ring = ring if values.get("use_websockets") is True else None
        self._listener: Listener | None = None

        self._held: dict[str, str] = {}
        """The claimed messages that are not deleted yet, oldest first: id of the message → id of the claim."""
        self._past: set[str] = set()
        """The ids of messages that are superseded, and perhaps not deleted yet."""
        self._collected: list[_Collected] = []
        """The documents that were returned, and are not yet known to be on disk."""
        self._last: _Message | None = None
        """The message of the newest document that was returned."""

    def collect(self) -> Document | None:
        """Claim all messages, and return the newest that is metadata. If there is none, this takes one request.

        A message that is not metadata is reported, each time that its claim ends, until a newer document is on disk.
        The messages before and after it count.
        """
        until = time.monotonic() + self._reach.seconds
        fresh, past = self._sorted(self._claimed(until))
        self.trouble = self._tidied(past, until)
        fresh = _in_order(fresh)
        self._held.update({message.id: message.claim for message in fresh})
        self._listen()
        newest = next(
            (message for message in reversed(fresh) if not message.problem), None
        )
        problem = fresh[-1].problem if fresh else ""
        if problem:
            self.trouble = f"the newest message in the Zaqar queue {self._queue} is not metadata: {problem}"
        if newest is None:
            if problem:
                raise SourceError(
                    self.trouble,
                    hint="the agent deletes it when a message with metadata has come",
                )
            return None
        if self._last is None or newest.id != self._last.id:
            self._last = newest
            self._collected.append(
                _Collected(
                    Document(source=self.name, content=newest.content), newest.id
                )
            )
        return self._collected[-1].document

    def taken(self, document: Document | None = None) -> None:
        """Delete the message of a document that is on disk, by default the last one, and all messages before it."""
        matching = [
            item
            for item in self._collected
            if document is None or item.document is document
        ]
        if not matching:
            return
        message = matching[-1].message
        del self._collected[: self._collected.index(matching[-1]) + 1]
        until = time.monotonic() + self._reach.seconds
        held = list(self._held)
        gone = {
            identity: self._held.pop(identity)
            for identity in held[: held.index(message) + 1]
        }
        self._past.update(gone)
        with contextlib.suppress(SourceError):
            # not every Zaqar lists claimed messages, and usually there are none
            self._delete(self._before(message, gone, until), until)
        self._delete(gone, until)

    def close(self) -> None:
        """Stop listening for new messages."""
        if self._listener:
            self._listener.close()

    def _claimed(self, until: float) -> list[_Message]:
        """Claim all messages that are free, and return them, oldest first."""
        messages: dict[str, _Message] = {}
        for _ in range(ROUNDS):
            sent = time.monotonic()
            answer = self._ask(
                "POST",
                "/claims",
                until,
                "collect from",
                body={"ttl": CLAIM_SECONDS, "grace": GRACE_SECONDS},
            )
            if answer.status == 204:
                break
            new = {
                message.id: message
                for message in self._read(answer, sent)
                if message.id not in messages
            }
            if not new:
                break
            messages.update(new)
        return list(messages.values())

    def _sorted(
        self, messages: Iterable[_Message]
    ) -> tuple[list[_Message], list[_Message]]:
        """Return the messages that count, and the messages that a returned document supersedes."""
        fresh: list[_Message] = []
        past: list[_Message] = []
        for message in messages:
            (past if self._is_past(message) else fresh).append(message)
        return fresh, past

    def _is_past(self, message: _Message) -> bool:
        if message.id in self._past:
            return True
        if self._last is None:
            return False
        if message.id == self._last.id:
            return not self._collected
        if _is_older(message, self._last):
            return True
        order = list(self._held)
        if message.id in self._held and self._last.id in self._held:
            return order.index(message.id) < order.index(self._last.id)
        return message.latest < self._last.earliest

    def _tidied(self, past: Iterable[_Message], until: float) -> str:
        """Delete superseded messages; return why that failed, else empty text."""
        gone = {message.id: message.claim for message in past}
        self._past.update(gone)
        for identity in gone:
            self._held.pop(identity, None)
        try:
            self._delete(gone, until)
        except SourceError as error:
            return str(error)
        return ""

    def _before(
        self, message: str, ours: Mapping[str, str], until: float
    ) -> dict[str, str]:
        """Return messages from before a message that others have claimed: id → claim. Raises SourceError."""
        asked = time.monotonic()
        # A Zaqar with Redis requires a marker; all messages are after 0.
        answer = self._ask(
            "GET", "/messages?include_claimed=true&echo=true&marker=0", until, "list"
        )
        listed = {item.id: item.claim for item in self._read(answer, asked)}
        order = list(listed)
        before = order[: order.index(message)] if message in listed else []
        return {
            identity: listed[identity] for identity in before if identity not in ours
        }

    def _delete(self, messages: Mapping[str, str], until: float) -> None:
        """Delete messages, oldest first, so that the newest exists as long as any does. Raises SourceError."""
        ids = list(messages)
        for start in range(0, len(ids), BATCH):
            batch = ids[start : start + BATCH]
            claims = sorted({messages[identity] for identity in batch} - {""})
            query = urlencode(
                {"ids": ",".join(batch)}
                | ({"claim_ids": ",".join(claims)} if claims else {}),
                safe=",",
            )
            self._ask("DELETE", f"/messages?{query}", until, "delete messages from")
            self._past.difference_update(batch)

    def _ask(
        self, verb: str, path: str, until: float, action: str, *, body: object = None
    ) -> web.Answer:
        """Return Zaqar's answer. Raises SourceError unless it is a success; the message says that `action` failed."""
        failure = f"cannot {action} the Zaqar queue {self._queue}"
        try:
            answer = self._cloud.ask(
                verb,
                "messaging",
                self._path + path,
                body=body,
                headers={"Client-ID": self._client},
                seconds=until - time.monotonic(),
            )
        except DeniedError as error:
            raise AccessError(f"{failure}: {error}", hint=LOGIN_HINT) from error
        except UnreachableError as error:
            raise SourceError(f"{failure}: {error}") from error
        if 200 <= answer.status < 300:
            return answer
        kind = AccessError if answer.status in (401, 403) else SourceError
        raise kind(f"{failure}: HTTP {answer.status} {answer.reason}".rstrip())

    def _read(self, answer: web.Answer, sent: float) -> list[_Message]:
        """Return the messages in an answer. Raises SourceError."""
        try:
            # This is lenient: the content of each message is checked on its own.
            strict_json.check_number(answer.body)
            content = json.loads(answer.body)
        except (ValueError, RecursionError):
            content = None
        entries = content.get("messages") if isinstance(content, dict) else None
        if not isinstance(entries, list):
            raise SourceError(
                f"cannot collect from the Zaqar queue {self._queue}: its answer is not a list of messages",
                hint="is another service at the address of Zaqar?",
            )
        messages = list(_messages(entries, sent))
        if entries and not messages:
            raise SourceError(
                f"the messages in the Zaqar queue {self._queue} have no ids"
            )
        return messages

    def _listen(self) -> None:
        """Listen for new messages, if the settings ask for that."""
        if self._ring is None:
            return
        if self._listener is None:
            try:
                from heat_config_agent.sources.cloud.websocket import Listener  # noqa: PLC0415  # an extra
            except ImportError:
                self.trouble = self.trouble or (
                    "Zaqar is polled for new messages: the package websocket-client is not installed"
                    " (pip install 'heat-config-agent[zaqar]')"
                )
                return
            self._listener = Listener(
                self._credentials,
                self._reach.ca_file,
                self._queue,
                self._client,
                self._ring,
            )
        self._listener.check()
        self.trouble = self.trouble or self._listener.trouble


def _in_order(messages: Iterable[_Message]) -> list[_Message]:
    """Return messages in the order of their content, oldest first; else in the order in which they were posted."""
    ordered: list[_Message] = []
    for message in messages:
        place = next(
            (at for at, other in enumerate(ordered) if _is_older(message, other)),
            len(ordered),
        )
        ordered.insert(place, message)
    return ordered


def _is_older(first: _Message, second: _Message) -> bool:
    """Return True if `first` has an earlier action of some deployment, and a later action of none."""
    mine, theirs = first.creation_times, second.creation_times
    both = mine.keys() & theirs.keys()
    return any(mine[key] < theirs[key] for key in both) and not any(
        mine[key] > theirs[key] for key in both
    )


def _messages(entries: Iterable[Any], sent: float) -> Iterator[_Message]:
    """Yield the messages with an id in the answer to a request sent at the moment `sent` (monotonic seconds)."""
    now = time.monotonic()
    for entry in entries:
        if (
            not isinstance(entry, dict)
            or not isinstance(entry.get("id"), str)
            or not entry["id"]
        ):
            continue
        age = _age(entry.get("age"))
        yield _Message(
            id=entry["id"],
            claim=_claim(entry.get("href")),
            earliest=float("-inf") if age is None else sent - age - 1,
            latest=float("inf") if age is None else now - age + 1,
            content=entry.get("body"),
            problem=_problem(entry),
        )


def _age(value: object) -> float | None:
    """Return a message's age in seconds; None if it is not a sensible number."""
    return value if isinstance(value, int | float) and 0 <= value < 1e9 else None


def _claim(href: object) -> str:
    """Return the id of the claim in a message's address."""
    try:
        return (
            parse_qs(urlsplit(href).query).get("claim_id", [""])[0]
            if isinstance(href, str)
            else ""
        )
    except ValueError:
        return ""


def _problem(message: Mapping[str, object]) -> str:
    """Return why a message's body is not metadata; empty if it is."""
    if "body" not in message:
        return "it has no body"
    body = message["body"]
    if not isinstance(body, dict):
        return f"it is {kind_of(body)}, not an object"
    if "deployments" not in body and "os-collect-config" not in body:
        return "it has neither `deployments` nor `os-collect-config`"
    try:
        strict_json.check(body)
    except ValueError as error:
        return str(error)
    return ""
