"""Results to where their deployments say, apart from running: whoever runs deployments never waits for a server.

A result goes to a URL, to a resource of a Heat stack, or to a Zaqar queue; for the last two its user logs in at
Keystone first. Each server has a thread and connections of its own, so that a slow one delays nobody else. The threads
do nothing but send: what was accepted, refused or is to be tried again comes back through `Outbox.outcomes`, and the
one thread that owns the journal records it.
"""

from __future__ import annotations

import contextlib
import enum
import functools
import os
import time
from collections import deque
from collections.abc import Callable, Mapping
from urllib.parse import parse_qs, quote, urlsplit

from heat_config_agent import kill_points
from heat_config_agent.errors import UnreachableError
from heat_config_agent.model import WAIT_LIMIT, Credentials, Target
from heat_config_hooks.values import dataclass, replace

TYPE_CHECKING = False  # as `typing` has it, which takes long to load

if TYPE_CHECKING:
    import queue
    from typing import Protocol

    from heat_config_agent import keystone, web
else:
    Protocol = object

PERMANENT = frozenset({401, 403, 404, 410, 413, 422})
"""Answers that no repetition will change: not allowed, not there (any more), or not understood."""

PERMANENT_AS_USER = PERMANENT - {401}
"""The same where a user has logged in: Heat's users come and go while it works on a stack."""

MESSAGE_SECONDS = 3600
"""How long a Zaqar queue keeps a result: as long as Heat waits for a stack by default. Heat looks every second.

One that was sent twice, as the answer to it was lost, is there for as long, and completes the next action: a queue does
not say whether Heat has had it."""

USERS = 32
"""Users at most whose tokens are kept for each server: every deployment resource has its own."""

BACK_OFF_FIRST = 1.0
BACK_OFF_LIMIT = 120.0
"""Seconds between two tries, at first and at most, before jitter."""

PATIENCE = 90.0
"""Seconds after which a request that is under way counts as unanswered: more than its own limits should allow."""


class Fate(enum.Enum):
    """What became of one try to deliver a result."""

    SENT = "sent"
    REFUSED = "refused"
    RETRY = "retry"


@dataclass(frozen=True)
class Outcome:
    """What became of one try to deliver one result."""

    key: str
    fate: Fate
    trouble: str = ""
    wait: float = 0.0
    """Seconds that the server asked us to wait."""


@dataclass(eq=False)
class _Letter:
    key: str
    target: Target
    body: bytes
    begun: float | None = None
    """When its request was begun (monotonic seconds); set by the sender."""
    withdrawn: bool = False

    @functools.cached_property
    def server(self) -> str:
        """Names where it goes: what has the same name is sent one after the other."""
        return _name_of(self.target)


_NOBODY = Credentials(auth_url="", user_id="", password="", project_id="")


def _origin(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"


def _name_of(target: Target) -> str:
    user = target.credentials
    if user is None:
        return _origin(target.url)
    return f"{target.kind} {user.region_name} {_origin(user.auth_url)}"


def unsendable(target: Target) -> str:
    """Return why nobody can ever send to the target; empty where somebody can."""
    if target.kind == "none":
        return ""
    if target.kind != "url":
        return _incomplete(target)
    if trouble := _unusable(target.url):
        return f"the signal URL {trouble}"
    if target.verb not in ("POST", "PUT"):
        return f"the signal verb {target.verb!r} is not known; POST and PUT are"
    return ""


def _incomplete(target: Target) -> str:
    """Return what is missing where a user has to log in before anything is sent."""
    user = target.credentials or _NOBODY
    needed = {
        "deploy_auth_url": user.auth_url,
        "deploy_user_id": user.user_id,
        "deploy_password": user.password,
        "deploy_project_id": user.project_id,
        **(
            {"deploy_queue_id": target.queue}
            if target.kind == "zaqar"
            else {"deploy_stack_id": target.stack, "deploy_resource_name": target.resource}
        ),
    }
    if missing := [name for name, value in needed.items() if not value]:
        return f"nobody can signal {target.described} without {', '.join(missing)}"
    if trouble := _unusable(user.auth_url):
        return f"Keystone's URL (deploy_auth_url) {trouble}"
    return ""


def _unusable(url: str) -> str:
    """Return why nobody can send to a URL, to go on a sentence that begins with it; empty where somebody can."""
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError:
        return "cannot be understood"
    if any(each <= " " for each in parts.netloc):
        return "names a host that cannot be understood"
    if parts.scheme not in ("http", "https"):
        return f"has the scheme {parts.scheme!r}, to which nobody can send; http and https are known"
    return "" if host else "names no host"


def back_off(tries: int) -> float:
    """Return the seconds to wait after that many tries in vain, with jitter: a fleet must not come back in step."""
    import random  # noqa: PLC0415  # 3 ms, and most results arrive at the first try

    longest: float = min(BACK_OFF_FIRST * 2.0 ** min(tries - 1, 16), BACK_OFF_LIMIT)
    return longest * random.uniform(0.5, 1.0)  # noqa: S311  # nobody gains from guessing it


def judge(key: str, answer: web.Answer, permanent: frozenset[int] = PERMANENT) -> Outcome:
    """Return what an answer means: accepted, refused for good, or to be tried again.

    A redirect is none of the three for a signal: followed, a POST becomes a GET, and a success that was none is
    claimed. So it is tried again, until whoever moved the server corrects it. Nor is a web page: whoever takes results
    has none, but a network that wants people to log in first answers everybody with one, and 200.
    """
    if answer.status == 200 and _is_page(answer):
        return Outcome(key, Fate.RETRY, "it answers with a web page: something else is in its place")
    if 200 <= answer.status < 300:
        return Outcome(key, Fate.SENT)
    trouble = f"HTTP {answer.status} {answer.reason}".rstrip()
    if answer.status in permanent:
        return Outcome(key, Fate.REFUSED, trouble)
    return Outcome(key, Fate.RETRY, trouble, _asked_to_wait(answer.headers))


def _is_page(answer: web.Answer) -> bool:
    kind = answer.headers.get("Content-Type", "").lower()
    return kind.startswith("text/html") and answer.body.lstrip().lower().startswith((b"<!doctype html", b"<html"))


EXPIRY = 900.0
"""Seconds for which Keystone takes a signed URL by default (`[credential] auth_ttl`)."""


def expired(url: str, now: float) -> str:
    """Return why a signed URL was perhaps refused: its signature is old; empty where it is not.

    Heat signs the URL of a `CFN_SIGNAL` when the deployment begins: the result of a long run comes too late. `now` is
    in seconds since the epoch.
    """
    from datetime import datetime, timezone  # noqa: PLC0415  # only where something was refused

    signed = parse_qs(urlsplit(url).query).get("Timestamp", [""])[0]
    try:
        moment = datetime.strptime(signed, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=timezone.utc)
    except ValueError:
        return ""
    if now - moment.timestamp() < EXPIRY:
        return ""
    return (
        f"; its URL was signed {(now - moment.timestamp()) / 60:.0f} minutes before, and Keystone takes no older ones "
        f"than {EXPIRY / 60:.0f} by default: for long runs raise auth_ttl in its [credential], or choose another "
        "signal_transport"
    )


def _asked_to_wait(headers: Mapping[str, str]) -> float:
    """Return the seconds of a Retry-After header: a number or a date, of which nonsense counts as none."""
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


class Outbox:
    """The results that are on their way."""

    def __init__(self, ca_file: str | None = None) -> None:
        """Send, trusting the certificates in `ca_file`, or the environment's and the system's."""
        self._ca_file = ca_file
        self._senders: dict[str, _Sender] = {}
        self._under_way: dict[str, _Letter] = {}
        self._done: deque[tuple[_Letter, Outcome]] = deque()
        self._wake, self._waker = os.pipe()
        os.set_blocking(self._wake, False)
        os.set_blocking(self._waker, False)

    def trust(self, ca_file: str | None) -> None:
        """Trust the certificates in `ca_file` from here on."""
        self._ca_file = ca_file
        for sender in self._senders.values():
            sender.trust(ca_file)

    def fileno(self) -> int:
        """Return a descriptor that is readable when there are outcomes."""
        return self._wake

    def expect(self, target: Target) -> None:
        """Get ready to send to a server: to load what that needs takes as long as a short run, so not after it."""
        if not unsendable(target) and _name_of(target) not in self._senders:
            with contextlib.suppress(RuntimeError):  # no room for a thread: it is tried again when there is a result
                self._senders[_name_of(target)] = _Sender(target, self._ca_file, self._deliver)

    def post(self, key: str, target: Target, body: bytes) -> None:
        """Send a result. What becomes of it is one of the `outcomes`."""
        letter = _Letter(key, target, body)
        self._under_way[key] = letter
        trouble = unsendable(target)
        if trouble:
            self._deliver(letter, Outcome(key, Fate.REFUSED, trouble))
        else:
            self._send(letter)

    def withdraw(self, key: str) -> None:
        """Do not send a result that is still waiting for its turn; whatever becomes of it is no outcome any more."""
        letter = self._under_way.pop(key, None)
        if letter is not None:
            letter.withdrawn = True

    def outcomes(self) -> list[Outcome]:
        """Return what has become of results since the last call."""
        with contextlib.suppress(BlockingIOError):
            os.read(self._wake, 65536)
        found: list[Outcome] = []
        while self._done:
            letter, outcome = self._done.popleft()
            if self._under_way.get(letter.key) is letter:
                del self._under_way[letter.key]
                found.append(outcome)
        return found + self._overdue()

    def _overdue(self) -> list[Outcome]:
        """Give up requests that trickle for ever; their servers get a new thread and connection."""
        longest = time.monotonic() - PATIENCE
        late = [each for each in self._under_way.values() if each.begun is not None and each.begun < longest]
        for letter in late:
            del self._under_way[letter.key]
            self._senders.pop(letter.server).abandoned = True
            for other in [each for each in self._under_way.values() if each.server == letter.server]:
                self._send(other)
        return [Outcome(each.key, Fate.RETRY, f"no full answer within {PATIENCE:g} s") for each in late]

    def _send(self, letter: _Letter) -> None:
        try:
            if letter.server not in self._senders:
                self._senders[letter.server] = _Sender(letter.target, self._ca_file, self._deliver)
        except RuntimeError:  # the machine has no room for one more thread
            self._deliver(letter, Outcome(letter.key, Fate.RETRY, "no thread could be started to send it"))
        else:
            self._senders[letter.server].letters.put(letter)

    def _deliver(self, letter: _Letter, outcome: Outcome) -> None:
        self._done.append((letter, outcome))
        with contextlib.suppress(BlockingIOError):  # it is awake
            os.write(self._waker, b".")


class _Sender:
    """Sends the results for one server, one after the other."""

    def __init__(self, target: Target, ca_file: str | None, deliver: Callable[[_Letter, Outcome], None]) -> None:
        import queue  # noqa: PLC0415  # both are slow to load, and many runs have nothing to send
        import threading  # noqa: PLC0415

        self.letters: queue.SimpleQueue[_Letter] = queue.SimpleQueue()
        self.abandoned = False
        """Its letters are another's now."""
        self._target = target
        """The first one: all others are on the same server."""
        self._ca_file = ca_file
        self._anew = False
        self._deliver = deliver
        threading.Thread(target=self._run, name=f"signals {target.described}", daemon=True).start()

    def trust(self, ca_file: str | None) -> None:
        """Trust these certificates with the next letter."""
        self._anew = self._anew or ca_file != self._ca_file
        self._ca_file = ca_file

    def _run(self) -> None:
        """Send whatever comes, until the process ends or another has taken over."""
        server: _Server | None = None
        with contextlib.suppress(Exception):  # it is said when there is a result to send
            server = _server(self._target, self._ca_file)
        while not self.abandoned:
            letter = self.letters.get()
            if letter.withdrawn:
                continue
            letter.begun = time.monotonic()
            if self._anew:
                self._anew, server = False, None
            try:
                server = server or _server(self._target, self._ca_file)
                kill_points.reached("signals.before")
                answer = server.send(letter.target, letter.body)
                kill_points.reached("signals.after")
                outcome = judge(letter.key, answer, server.permanent)
                if outcome.fate is Fate.REFUSED and letter.target.url:
                    outcome = replace(outcome, trouble=outcome.trouble + expired(letter.target.url, time.time()))
            except UnreachableError as error:
                outcome = Outcome(letter.key, Fate.RETRY, str(error))
            except Exception as error:  # noqa: BLE001  # a sender that dies would take every later result with it
                outcome = Outcome(letter.key, Fate.RETRY, f"{type(error).__name__} while sending")
            self._deliver(letter, outcome)


class _Server(Protocol):
    """Where results are sent."""

    permanent: frozenset[int]
    """The answers of it that no repetition will change."""

    def send(self, target: Target, body: bytes) -> web.Answer:
        """Send a result. Raises UnreachableError."""


class _Web:
    """A server that takes results at a URL for each."""

    permanent = PERMANENT

    def __init__(self, origin: str, ca_file: str | None) -> None:
        from heat_config_agent import web  # noqa: PLC0415  # 50 ms, and only where there is something to send

        self._host = origin.rpartition("/")[2].rpartition("@")[2]
        self._connection = web.Connection(origin, ca_file)

    def send(self, target: Target, body: bytes) -> web.Answer:
        try:
            return self._connection.send(target.verb, target.url, body, {"Content-Type": "application/json"})
        except UnreachableError as error:
            raise UnreachableError(f"{self._host}: {error}") from error


class _OpenStack:
    """Heat's API, or Zaqar. Each user stays logged in for a while; all share the connections."""

    permanent = PERMANENT_AS_USER

    def __init__(self, ca_file: str | None) -> None:
        import uuid  # noqa: PLC0415  # 2 ms; and the next 75 ms, only where there is something to send

        from heat_config_agent import keystone  # noqa: PLC0415

        self._keystone = keystone
        self._connections = keystone.Connections(ca_file)
        self._users: dict[Credentials, keystone.Cloud] = {}
        """Whoever was last used is the last."""
        self._id = str(uuid.uuid4())

    def send(self, target: Target, body: bytes) -> web.Answer:
        cloud = self._user(target.credentials or _NOBODY)
        if target.kind == "zaqar":
            return cloud.ask(
                "POST",
                "messaging",
                f"/v2/queues/{quote(target.queue, safe='')}/messages",
                body=b'{"messages": [{"ttl": %d, "body": %b}]}' % (MESSAGE_SECONDS, body),
                headers={"Client-ID": self._id},
                largest=0,
            )
        path = self._keystone.resource_path(target.stack, target.resource)
        return cloud.ask("POST", "orchestration", f"{path}/signal", body=body, largest=0)

    def _user(self, credentials: Credentials) -> keystone.Cloud:
        cloud = self._users.pop(credentials, None) or self._keystone.Cloud(credentials, session=self._connections)
        self._users[credentials] = cloud
        if len(self._users) > USERS:
            del self._users[next(iter(self._users))]
        return cloud


def _server(target: Target, ca_file: str | None) -> _Server:
    return _Web(_origin(target.url), ca_file) if target.credentials is None else _OpenStack(ca_file)
