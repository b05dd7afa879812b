"""The outbox: sends results in threads of its own, so that the engine never waits for a server.

A result goes to a URL, to a resource of a Heat stack, or to a Zaqar queue; for the last two the agent logs in to
Keystone first. Each server has its own thread and connections, so a slow one does not delay the others. The threads
only send. `Outbox.outcomes` returns whether each try was accepted, was refused or has to be repeated, and the thread
that owns the journal records it.
"""

from __future__ import annotations

import contextlib
import functools
import json
import time
from collections import deque
from collections.abc import Callable, Mapping
from urllib.parse import urlsplit

from heat_config_agent.model.deployment import Target
from heat_config_agent.model.errors import UnreachableError
from heat_config_agent.model.waking import Waker
from heat_config_agent.signals.delivery import Fate, Outcome
from heat_config_hooks.values import dataclass, replace

TYPE_CHECKING = False  # as `typing` has it, which takes long to load

if TYPE_CHECKING:
    from heat_config_agent.signals.servers import Server

PATIENCE = 90.0
"""Seconds after which a request counts as unanswered. Its own timeouts should end it sooner."""


LANES = 8
"""The most results that are sent to one Swift at the same time, because `servers.ROUNDING_SECONDS` are waited for
each."""


@dataclass(eq=False)
class _Letter:
    key: str
    target: Target
    body: bytes
    begun: float | None = None
    """When its request began, in monotonic seconds; set by the sender."""
    withdrawn: bool = False

    def is_withdrawn(self) -> bool:
        """Return True if it is not to be sent any more."""
        return self.withdrawn

    @functools.cached_property
    def server(self) -> str:
        """The name of its server. Letters to one server are sent one after the other."""
        return _name_of(self.target)


def _name_of(target: Target) -> str:
    from heat_config_agent.signals import servers  # noqa: PLC0415  # many runs have nothing to send

    user = target.credentials
    if user is None and target.is_temporary_url:
        return f"{servers.origin(target.url)} {hash(urlsplit(target.url).path) % LANES}"
    if user is None:
        return servers.origin(target.url)
    return f"{target.kind} {user.region_name} {servers.origin(user.auth_url)}"


def unsendable(target: Target) -> str:
    """Return why no result can ever be sent to this target; empty if it can."""
    if target.kind == "none":
        return ""
    if target.kind != "url":
        return _incomplete(target)
    if trouble := _unusable(target.url):
        return f"the signal URL {trouble}"
    if target.verb not in ("POST", "PUT"):
        return (
            f"the signal verb {target.verb!r} is not supported; only POST and PUT are"
        )
    return ""


def _incomplete(target: Target) -> str:
    """Return what a target that needs a login lacks; empty if it is complete."""
    from heat_config_agent.signals import servers  # noqa: PLC0415  # many runs have nothing to send

    user = target.credentials or servers.NOBODY
    needed = {
        "deploy_auth_url": user.auth_url,
        "deploy_user_id": user.user_id,
        "deploy_password": user.password,
        "deploy_project_id": user.project_id,
        **(
            {"deploy_queue_id": target.queue}
            if target.kind == "zaqar"
            else {
                "deploy_stack_id": target.stack,
                "deploy_resource_name": target.resource,
            }
        ),
    }
    if missing := [name for name, value in needed.items() if not value]:
        return f"cannot signal {target.described} without {', '.join(missing)}"
    if trouble := _unusable(user.auth_url):
        return f"Keystone's URL (deploy_auth_url) {trouble}"
    return ""


def _unusable(url: str) -> str:
    """Return why nothing can be sent to a URL, as the rest of a sentence that begins with it; empty if it can."""
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError:
        return "is not valid"
    if any(character <= " " for character in parts.netloc):
        return "has a host name that is not valid"
    if parts.scheme not in ("http", "https"):
        return f"has the scheme {parts.scheme!r}; only http and https are supported"
    return "" if host else "has no host"


class Outbox:
    """The results that are being sent, and the threads that send them."""

    is_stored = False

    def __init__(self, ca_file: str | None = None) -> None:
        """Trust the certificates in `ca_file`; without it, those of the environment and the system."""
        self._ca_file = ca_file
        self._senders: dict[str, _Sender] = {}
        self._under_way: dict[str, _Letter] = {}
        self._done: deque[tuple[_Letter, Outcome]] = deque()
        self._waker = Waker()

    def trust(self, ca_file: str | None) -> None:
        """Trust the certificates in `ca_file` from now on."""
        self._ca_file = ca_file
        for sender in self._senders.values():
            sender.trust(ca_file)

    def fileno(self) -> int:
        """Return a descriptor that is readable when there are outcomes."""
        return self._waker.fileno()

    def expect(self, target: Target) -> None:
        """Start the thread for a server during the run, because loading its modules takes as long as a short run."""
        if not unsendable(target) and _name_of(target) not in self._senders:
            with contextlib.suppress(RuntimeError):
                # no memory for a thread: `post` tries again
                self._senders[_name_of(target)] = _Sender(
                    target, self._ca_file, self._deliver
                )

    def post(self, key: str, target: Target, values: Mapping[str, object]) -> None:
        """Begin to send a result; `outcomes` returns its outcome later."""
        letter = _Letter(key, target, json.dumps(values).encode())
        self._under_way[key] = letter
        trouble = unsendable(target)
        if trouble:
            self._deliver(letter, Outcome(key, Fate.REFUSED, trouble))
        else:
            self._send(letter)

    def withdraw(self, key: str) -> None:
        """Do not send a result that is still waiting for its turn. It has no outcome, even if it is being sent."""
        letter = self._under_way.pop(key, None)
        if letter is not None:
            letter.withdrawn = True

    def outcomes(self) -> list[Outcome]:
        """Return the outcomes since the last call."""
        self._waker.drain()
        outcomes: list[Outcome] = []
        while self._done:
            letter, outcome = self._done.popleft()
            if self._under_way.get(letter.key) is letter:
                del self._under_way[letter.key]
                outcomes.append(outcome)
        return outcomes + self._overdue()

    def _overdue(self) -> list[Outcome]:
        """Give up requests that never end; their servers get a new thread and connection."""
        latest = time.monotonic() - PATIENCE
        late = [
            letter
            for letter in self._under_way.values()
            if letter.begun is not None and letter.begun < latest
        ]
        for letter in late:
            del self._under_way[letter.key]
            self._senders.pop(letter.server).abandoned = True
            for other in [
                other
                for other in self._under_way.values()
                if other.server == letter.server
            ]:
                self._send(other)
        return [
            Outcome(letter.key, Fate.RETRY, f"no full answer within {PATIENCE:g} s")
            for letter in late
        ]

    def _send(self, letter: _Letter) -> None:
        try:
            if letter.server not in self._senders:
                self._senders[letter.server] = _Sender(
                    letter.target, self._ca_file, self._deliver
                )
        except RuntimeError:  # the machine has no memory for another thread
            self._deliver(
                letter,
                Outcome(
                    letter.key, Fate.RETRY, "no thread could be started to send it"
                ),
            )
        else:
            self._senders[letter.server].letters.put(letter)

    def _deliver(self, letter: _Letter, outcome: Outcome) -> None:
        self._done.append((letter, outcome))
        self._waker.wake()


class _Sender:
    """Sends the results for one server, one after the other, in a thread."""

    def __init__(
        self,
        target: Target,
        ca_file: str | None,
        deliver: Callable[[_Letter, Outcome], None],
    ) -> None:
        import queue  # noqa: PLC0415  # both are slow to load, and many runs have nothing to send
        import threading  # noqa: PLC0415

        self.letters: queue.SimpleQueue[_Letter] = queue.SimpleQueue()
        self.abandoned = False
        """True if another sender has taken over its letters."""
        self._target = target
        """The target of the first letter. All others have the same server."""
        self._ca_file = ca_file
        self._renewed = False
        """True if the connection has to be made again, with other certificates."""
        self._deliver = deliver
        threading.Thread(
            target=self._run, name=f"signals {target.described}", daemon=True
        ).start()

    def trust(self, ca_file: str | None) -> None:
        """Trust the certificates in `ca_file` from the next letter on."""
        self._renewed = self._renewed or ca_file != self._ca_file
        self._ca_file = ca_file

    def _run(self) -> None:
        """Send letters until the process ends or another sender has taken over."""
        from heat_config_agent.signals import servers  # noqa: PLC0415  # `expect` starts this thread ahead of time

        server: Server | None = None
        with contextlib.suppress(Exception):  # the first letter reports it
            server = servers.server_of(self._target, self._ca_file)
        while not self.abandoned:
            letter = self.letters.get()
            if letter.withdrawn:
                continue
            letter.begun = time.monotonic()
            if self._renewed:
                self._renewed, server = False, None
            try:
                server = server or servers.server_of(self._target, self._ca_file)
                answer = server.send(letter.target, letter.body, letter.is_withdrawn)
                outcome = servers.judge(letter.key, answer, server.denied)
                if outcome.is_denial and letter.target.url:
                    why = servers.denial(letter.target, time.time())
                    outcome = replace(outcome, trouble=outcome.trouble + why)
            except UnreachableError as error:
                outcome = Outcome(letter.key, Fate.RETRY, str(error))
            except BaseException as error:  # noqa: BLE001  # if the thread ended, no later result would be sent
                outcome = Outcome(
                    letter.key, Fate.RETRY, f"{type(error).__name__} while sending"
                )
            self._deliver(letter, outcome)
