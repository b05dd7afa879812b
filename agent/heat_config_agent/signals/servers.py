"""The servers that receive results (Heat, Zaqar and signed URLs), and the meaning of their answers."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from urllib.parse import parse_qs, quote, urlsplit

from heat_config_agent.model.deployment import WAIT_LIMIT, Credentials, Target
from heat_config_agent.model.errors import UnreachableError
from heat_config_agent.settings.in_force import refused_url
from heat_config_agent.signals.delivery import Fate, Outcome
from heat_config_agent.web.held_back import HeldBack

TYPE_CHECKING = False  # as `typing` has it, which takes long to load


if TYPE_CHECKING:
    from typing import Protocol

    from heat_config_agent import web
    from heat_config_agent.web import keystone
else:
    Protocol = object


PERMANENT = frozenset({404, 410, 413, 422})
"""The HTTP status codes that a retry cannot change: not found, gone, or not understood."""

DENIED = frozenset({401, 403})
"""The HTTP status codes that deny access, which may pass.

Heat answers 401 to a valid signed URL within a second of any change to its user, because Keystone keeps in whole
seconds when tokens are revoked; and 403 while the user is disabled or has no role. Swift answers 401 to a valid
temporary URL while it cannot read the keys of the account, as under load."""

DENIED_AS_USER = frozenset({403})
"""The same code for a user who has logged in; for 401 it is as for all other codes. Heat creates and removes users
while it works on a stack."""

ACCEPTED = frozenset({201, 202})
"""The HTTP status codes that mean success even with a web page: no login page has them. Swift answers 202 with one."""

MESSAGE_SECONDS = 3600
"""Seconds that a Zaqar queue keeps a result: as long as Heat waits for a stack by default. Heat looks every second.

If the answer to a request is lost, the result is sent twice, and the second copy completes the next action: a queue
does not say whether Heat has read a message."""

ROUNDING_SECONDS = 1.5
"""Seconds for which the last byte of a result for Swift is held back.

Swift gives an object the time at which its request began, rounded up to a whole second, and Heat takes an object for a
new result if that time is later than the beginning of the action. An object that was readable before its own time would
also complete an action that begins in between. So the object has to become readable a second after its request began;
the rest is for a Swift that begins late."""

USERS = 32
"""The number of users whose tokens are kept for each server. Every deployment resource has its own user."""


NOBODY = Credentials(auth_url="", user_id="", password="", project_id="")


def origin(url: str) -> str:
    """Return the scheme, host and port of a URL."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"


def judge(key: str, answer: web.Answer, denied: frozenset[int] = DENIED) -> Outcome:
    """Return the meaning of an answer: accepted, refused for good, denied, or to be tried again.

    A redirect is tried again until the operator corrects the address: if it were followed, the POST would become a GET
    and falsely succeed. A web page is tried again too: no server for results has one, but a network with a login page
    answers every request with it and 200. So is an answer that was cut short: a gateway may have begun it before the
    server behind it had the result.
    """
    if 200 <= answer.status < 300:
        if answer.cut:
            return Outcome(key, Fate.RETRY, f"HTTP {answer.status}, but {answer.cut}")
        if answer.status not in ACCEPTED and answer.is_page:
            return Outcome(
                key,
                Fate.RETRY,
                "it answers with a web page: something else is in its place",
            )
        return Outcome(key, Fate.SENT)
    trouble = f"HTTP {answer.status} {answer.reason}".rstrip()
    if answer.status in PERMANENT:
        return Outcome(key, Fate.REFUSED, trouble)
    wait = _asked_to_wait(answer.headers)
    if answer.status in denied:
        return Outcome(key, Fate.REFUSED, trouble, wait, is_denial=True)
    return Outcome(key, Fate.RETRY, trouble, wait)


EXPIRY = 900.0
"""Seconds for which Keystone accepts a signed URL by default (`[credential] auth_ttl`)."""


def denial(target: Target, now: float) -> str:
    """Return the probable reason why a server denies access to a signed URL, as the end of a sentence; or empty text.

    `now` is in seconds since the epoch.
    """
    query = parse_qs(urlsplit(target.url).query)
    if not target.is_temporary_url:
        return _expired(query.get("Timestamp", [""])[0], now)
    expires = query.get("temp_url_expires", [""])[0]
    if expires.isdecimal() and len(expires) < 15 and int(expires) < now:
        return "; its URL has expired"
    return "; if that lasts, its URL was not signed with the key that its account in Swift has now"


def _expired(signed: str, now: float) -> str:
    """Return the sentence about a signature that is too old; empty if it is not.

    Heat signs the URL of a `CFN_SIGNAL` when the deployment begins, so the result of a long run may come too late.
    """
    from datetime import datetime, timezone  # noqa: PLC0415  # only if a result was denied

    try:
        moment = datetime.strptime(signed, "%Y-%m-%dT%H:%M:%SZ").replace(
            tzinfo=timezone.utc
        )
    except ValueError:
        return ""
    if now - moment.timestamp() < EXPIRY:
        return ""
    return (
        f"; its URL was signed {(now - moment.timestamp()) / 60:.0f} minutes before, and Keystone accepts signed URLs "
        f"for {EXPIRY / 60:.0f} minutes by default: for long runs, raise auth_ttl in Keystone's [credential], "
        "or choose another signal_transport"
    )


def _asked_to_wait(headers: Mapping[str, str]) -> float:
    """Return the seconds that a Retry-After header asks for, as a number or a date; 0 if it is missing or not valid."""
    value = headers.get("Retry-After", "").strip()
    if value.isdecimal():
        seconds = float(value)
    else:
        from email.utils import parsedate_to_datetime  # noqa: PLC0415  # 6 ms, and few servers send a date

        try:
            seconds = float(parsedate_to_datetime(value).timestamp()) - time.time()
        except (TypeError, ValueError, OverflowError):
            return 0.0
    return min(max(seconds, 0.0), WAIT_LIMIT)


class Server(Protocol):
    """A server that receives results."""

    denied: frozenset[int]
    """The HTTP status codes that deny access, which may pass."""

    def send(
        self, target: Target, body: bytes, is_withdrawn: Callable[[], bool]
    ) -> web.Answer:
        """Send a result, unless it `is_withdrawn` before the server has it. Raises UnreachableError."""


def _allow(url: str) -> None:
    """Raise UnreachableError if the policy refuses to reach a URL. The result is sent once the policy allows it."""
    if refusal := refused_url(url):
        raise UnreachableError(refusal)


class _Web:
    """A server that receives each result at a URL of its own."""

    denied = DENIED

    def __init__(self, origin: str, ca_file: str | None) -> None:
        from heat_config_agent import web  # noqa: PLC0415  # 50 ms, and only if there is a result to send

        self._host = origin.rpartition("/")[2].rpartition("@")[2]
        self._connection = web.Connection(origin, ca_file)

    def send(
        self, target: Target, body: bytes, is_withdrawn: Callable[[], bool]
    ) -> web.Answer:
        _allow(target.url)
        content = (
            HeldBack(body, ROUNDING_SECONDS, is_withdrawn)
            if target.is_temporary_url
            else body
        )
        try:
            return self._connection.send(
                target.verb, target.url, content, {"Content-Type": "application/json"}
            )
        except UnreachableError as error:
            raise UnreachableError(f"{self._host}: {error}") from error


class _OpenStack:
    """Heat's API or Zaqar. The last users stay logged in, and share the connections."""

    denied = DENIED_AS_USER

    def __init__(self, ca_file: str | None) -> None:
        import uuid  # noqa: PLC0415  # 2 ms, and the next 30 ms; only if there is a result to send

        from heat_config_agent.web import keystone  # noqa: PLC0415

        self._keystone = keystone
        self._connections = keystone.Connections(ca_file, _allow)
        self._users: dict[Credentials, keystone.Cloud] = {}
        """The user who was used last is the last."""
        self._id = str(uuid.uuid4())

    def send(
        self,
        target: Target,
        body: bytes,
        is_withdrawn: Callable[[], bool],  # noqa: ARG002
    ) -> web.Answer:
        cloud = self._user(target.credentials or NOBODY)
        if target.kind == "zaqar":
            return cloud.ask(
                "POST",
                "messaging",
                f"/v2/queues/{quote(target.queue, safe='')}/messages",
                body=b'{"messages": [{"ttl": %d, "body": %b}]}'
                % (MESSAGE_SECONDS, body),
                headers={"Client-ID": self._id},
                largest=0,
            )
        path = self._keystone.resource_path(target.stack, target.resource)
        return cloud.ask(
            "POST", "orchestration", f"{path}/signal", body=body, largest=0
        )

    def _user(self, credentials: Credentials) -> keystone.Cloud:
        cloud = self._users.pop(credentials, None) or self._keystone.Cloud(
            credentials, session=self._connections
        )
        self._users[credentials] = cloud
        if len(self._users) > USERS:
            del self._users[next(iter(self._users))]
        return cloud


def server_of(target: Target, ca_file: str | None) -> Server:
    """Return the server that receives the results for a target."""
    return (
        _Web(origin(target.url), ca_file)
        if target.credentials is None
        else _OpenStack(ca_file)
    )
