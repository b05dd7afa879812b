"""Metadata from a Zaqar queue: Heat posts a message to it whenever a server's metadata changes.

Each message holds all of the metadata, so that only the newest counts; those before it are superseded. A message is
claimed, and deleted, with all before it, only once what it says is on disk. Whoever claims a message hides it from
others for `CLAIM_SECONDS`, himself included. If we die before it is deleted, it comes back then; its deployments are
known by their ids if it was on disk after all.

The newest message must not be followed by an older one. Zaqar hands messages out in the order in which they were
posted, but one that is claimed is passed over: when an agent dies with one, the next agent gets what was posted after
it, and then, a minute later, that one. So with a message those before it are deleted too, whoever has claimed them; and
whatever comes back although it is older than what was collected is deleted, and does not count.

Nor does Heat always post them in the order in which they came to be: of two deployments at once, one's message may hold
both, and be followed by the other's, which holds only that one. So what they say of the same deployment is compared,
too: that of which an action was made earlier is older, whenever it was posted.
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

from heat_config_agent import metadata
from heat_config_agent.errors import AccessError, DeniedError, SourceError, UnreachableError
from heat_config_agent.metadata import kind_of
from heat_config_agent.model import Credentials, Document
from heat_config_agent.sources import Reach
from heat_config_hooks import strict_json
from heat_config_hooks.values import dataclass

if TYPE_CHECKING:
    from heat_config_agent import web
    from heat_config_agent.sources.websocket import Listener

CLAIM_SECONDS = 60
"""How long a claimed message is hidden: the least that Zaqar takes, and far more than it takes to get it onto a disk.

Nobody sees a message for that long after the agent that had claimed it was killed."""

GRACE_SECONDS = 3600
"""How long a message lives at least after its claim has ended.

Heat's live for an hour. One that cannot be put onto the disk, because that is full, is claimed again and again, and
must not expire between two polls."""

BATCH = 10
"""Messages that are deleted with one request. Zaqar takes 20, or what its settings say."""

ROUNDS = 100
"""Claims in one collection at most. Each brings ten messages, oldest first."""

Ring = Callable[[], None]
"""What is called, from any thread, to have a source asked now."""


@dataclass(frozen=True, kw_only=True)
class _Message:
    id: str
    claim: str
    """The id of the claim that we have on it; empty where Zaqar does not say."""
    earliest: float
    latest: float
    """Between when and when it was posted (monotonic seconds): Zaqar tells its age, in whole seconds."""
    content: object
    problem: str
    """Why its content is no metadata; empty where it is."""

    @functools.cached_property
    def made(self) -> Mapping[str, str]:
        """When each deployment's action was made, by whom its result is for.

        Heat has two of a name while one replaces the other; nothing can be told by those.
        """
        if self.problem:
            return {}
        found: dict[str, list[str]] = {}
        for each in metadata.parse(Document(source=Zaqar.name, content=self.content)).deployments:
            made = each.document.get("creation_time")
            if each.target.addressee and isinstance(made, str):
                found.setdefault(each.target.addressee, []).append(made)
        return {addressee: made[0] for addressee, made in found.items() if len(made) == 1}


@dataclass(frozen=True)
class _Given:
    document: Document
    message: str
    """Its id."""


class Zaqar:
    """A Zaqar queue with a server's metadata."""

    name = "zaqar"

    def __init__(self, values: Mapping[str, object], reach: Reach, *, ring: Ring | None = None) -> None:
        """Collect what `values`, the section `zaqar`, names.

        With `use_websockets`, `ring` is called when there is a new message, where Zaqar tells of new ones.
        """
        self.trouble = ""
        self._queue = str(values["queue_id"])
        self._path = f"/v2/queues/{quote(self._queue, safe='')}"
        self._credentials = Credentials(
            auth_url=str(values["auth_url"]),
            user_id=str(values["user_id"]),
            password=str(values["password"]),
            project_id=str(values["project_id"]),
            region_name=str(values.get("region_name") or ""),
        )
        from heat_config_agent.keystone import Cloud  # noqa: PLC0415  # 75 ms, and not everybody has a cloud

        self._cloud = Cloud(self._credentials, reach.ca_file)
        self._reach = reach
        self._client = str(uuid.uuid4())
        self._ring = ring if values.get("use_websockets") is True else None
        self._listener: Listener | None = None

        self._held: dict[str, str] = {}
        """What we have claimed and not let go of, oldest first: the message's id → the claim's."""
        self._past: set[str] = set()
        """What we have let go of, and is perhaps there still."""
        self._given: list[_Given] = []
        """What was handed out, and is not yet known to be on disk."""
        self._last: _Message | None = None
        """The newest that was handed out."""

    def collect(self) -> Document | None:
        """Claim what there is: one request where there is nothing. The newest that is metadata counts.

        Where a message cannot be understood, those before it and after it can: it is said of it, again each time that
        its claim ends, until a newer one is on disk.
        """
        until = time.monotonic() + self._reach.seconds
        fresh, past = self._sorted(self._claimed(until))
        self.trouble = self._tidied(past, until)
        fresh = _in_order(fresh)
        self._held.update({each.id: each.claim for each in fresh})
        self._listen()
        newest = next((each for each in reversed(fresh) if not each.problem), None)
        bad = fresh[-1].problem if fresh else ""
        if bad:
            self.trouble = f"the newest message in the Zaqar queue {self._queue} is no metadata: {bad}"
        if newest is None:
            if bad:
                raise SourceError(self.trouble, hint="it goes with the next one that is")
            return None
        if self._last is None or newest.id != self._last.id:
            self._last = newest
            self._given.append(_Given(Document(source=self.name, content=newest.content), newest.id))
        return self._given[-1].document

    def taken(self, document: Document | None = None) -> None:
        """Delete the message of a document that is safe on disk, by default the last, and all before it."""
        given = [each for each in self._given if document is None or each.document is document]
        if not given:
            return
        message = given[-1].message
        del self._given[: self._given.index(given[-1]) + 1]
        until = time.monotonic() + self._reach.seconds
        held = list(self._held)
        gone = {each: self._held.pop(each) for each in held[: held.index(message) + 1]}
        self._past.update(gone)
        with contextlib.suppress(SourceError):  # not every Zaqar lists what is claimed, and most often there is nothing
            self._delete(self._before(message, gone, until), until)
        self._delete(gone, until)

    def close(self) -> None:
        """Listen no longer."""
        if self._listener:
            self._listener.close()

    def _claimed(self, until: float) -> list[_Message]:
        """Claim all that can be had, and return it, oldest first."""
        found: dict[str, _Message] = {}
        for _ in range(ROUNDS):
            asked = time.monotonic()
            answer = self._ask(
                "POST", "/claims", until, "collect from", body={"ttl": CLAIM_SECONDS, "grace": GRACE_SECONDS}
            )
            if answer.status == 204:
                break
            new = {each.id: each for each in self._read(answer, asked) if each.id not in found}
            if not new:
                break
            found.update(new)
        return list(found.values())

    def _sorted(self, messages: Iterable[_Message]) -> tuple[list[_Message], list[_Message]]:
        """Return the messages that count, and those that are past: superseded by what was handed out."""
        fresh: list[_Message] = []
        past: list[_Message] = []
        for each in messages:
            (past if self._is_past(each) else fresh).append(each)
        return fresh, past

    def _is_past(self, message: _Message) -> bool:
        if message.id in self._past:
            return True
        if self._last is None:
            return False
        if message.id == self._last.id:
            return not self._given
        if _is_older(message, self._last):
            return True
        order = list(self._held)
        if message.id in self._held and self._last.id in self._held:
            return order.index(message.id) < order.index(self._last.id)
        return message.latest < self._last.earliest

    def _tidied(self, past: Iterable[_Message], until: float) -> str:
        """Delete what is superseded, and return what went wrong."""
        gone = {each.id: each.claim for each in past}
        self._past.update(gone)
        for each in gone:
            self._held.pop(each, None)
        try:
            self._delete(gone, until)
        except SourceError as error:
            return str(error)
        return ""

    def _before(self, message: str, ours: Mapping[str, str], until: float) -> dict[str, str]:
        """Return what others have claimed that was posted before a message. Raises SourceError."""
        asked = time.monotonic()
        # Without a marker, Zaqar fails over Redis; nothing is before 0.
        answer = self._ask("GET", "/messages?include_claimed=true&echo=true&marker=0", until, "list")
        listed = {each.id: each.claim for each in self._read(answer, asked)}
        order = list(listed)
        before = order[: order.index(message)] if message in listed else []
        return {each: listed[each] for each in before if each not in ours}

    def _delete(self, messages: Mapping[str, str], until: float) -> None:
        """Delete messages, oldest first, so that the newest is there as long as any is. Raises SourceError."""
        ids = list(messages)
        for start in range(0, len(ids), BATCH):
            batch = ids[start : start + BATCH]
            claims = sorted({messages[each] for each in batch} - {""})
            query = urlencode({"ids": ",".join(batch)} | ({"claim_ids": ",".join(claims)} if claims else {}), safe=",")
            self._ask("DELETE", f"/messages?{query}", until, "delete messages from")
            self._past.difference_update(batch)

    def _ask(self, verb: str, path: str, until: float, doing: str, *, body: object = None) -> web.Answer:
        """Return Zaqar's answer, if it is a good one. Raises SourceError."""
        what = f"cannot {doing} the Zaqar queue {self._queue}"
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
            raise AccessError(f"{what}: {error}") from error
        except UnreachableError as error:
            raise SourceError(f"{what}: {error}") from error
        if 200 <= answer.status < 300:
            return answer
        kind = AccessError if answer.status in (401, 403) else SourceError
        raise kind(f"{what}: HTTP {answer.status} {answer.reason}".rstrip())

    def _read(self, answer: web.Answer, asked: float) -> list[_Message]:
        """Return the messages in an answer. Raises SourceError."""
        try:
            # Leniently: what a message holds is looked at message by message.
            strict_json.check_number(answer.body)
            content = json.loads(answer.body)
        except (ValueError, RecursionError):
            content = None
        entries = content.get("messages") if isinstance(content, dict) else None
        if not isinstance(entries, list):
            raise SourceError(
                f"cannot collect from the Zaqar queue {self._queue}: its answer is no list of messages",
                hint="is something else at the address of Zaqar?",
            )
        found = list(_messages(entries, asked))
        if entries and not found:
            raise SourceError(f"the messages in the Zaqar queue {self._queue} have no ids")
        return found

    def _listen(self) -> None:
        """Have the ring rung by Zaqar, if that is wanted."""
        if self._ring is None:
            return
        if self._listener is None:
            try:
                from heat_config_agent.sources.websocket import Listener  # noqa: PLC0415  # an extra
            except ImportError:
                self.trouble = self.trouble or (
                    "Zaqar is polled for new messages: the package websocket-client is not installed"
                    " (pip install 'heat-config-agent[zaqar]')"
                )
                return
            self._listener = Listener(self._credentials, self._reach.ca_file, self._queue, self._client, self._ring)
        self._listener.check()
        self.trouble = self.trouble or self._listener.trouble


def _in_order(messages: Iterable[_Message]) -> list[_Message]:
    """Return messages, oldest first, though they may have been posted otherwise."""
    found: list[_Message] = []
    for each in messages:
        found.insert(next((at for at, other in enumerate(found) if _is_older(each, other)), len(found)), each)
    return found


def _is_older(one: _Message, other: _Message) -> bool:
    """Whether a message has the earlier action of a deployment, and of none the later one."""
    both = one.made.keys() & other.made.keys()
    return any(one.made[each] < other.made[each] for each in both) and not any(
        one.made[each] > other.made[each] for each in both
    )


def _messages(entries: Iterable[Any], asked: float) -> Iterator[_Message]:
    """Return the messages of an answer to what was asked at a moment, without those that have no id."""
    now = time.monotonic()
    for each in entries:
        if not isinstance(each, dict) or not isinstance(each.get("id"), str) or not each["id"]:
            continue
        age = _age(each.get("age"))
        yield _Message(
            id=each["id"],
            claim=_claim(each.get("href")),
            earliest=float("-inf") if age is None else asked - age - 1,
            latest=float("inf") if age is None else now - age + 1,
            content=each.get("body"),
            problem=_problem(each),
        )


def _age(value: object) -> float | None:
    """Return a message's age in seconds; None where it is nonsense."""
    return value if isinstance(value, int | float) and 0 <= value < 1e9 else None


def _claim(href: object) -> str:
    """Return the id of the claim in a message's address."""
    try:
        return parse_qs(urlsplit(href).query).get("claim_id", [""])[0] if isinstance(href, str) else ""
    except ValueError:
        return ""


def _problem(message: Mapping[str, object]) -> str:
    """Return why a message's body is no metadata; empty where it is."""
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
