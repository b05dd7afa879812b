"""Short sessions with many hosts at once: one question to each, and the time limit of all."""

from __future__ import annotations

import select
import time
from collections.abc import Sequence
from typing import Any

from heat_config_stack.hosts.client import Client, Ended, check_way
from heat_config_stack.hosts.connection import TASK, foreign
from heat_config_stack.hosts.host import Host


class Asked:
    """One host that is asked something, of which a subclass says what it is and what the answer means."""

    def __init__(self, host: Host) -> None:
        """Begin the session."""
        self.host = host
        self.problem = ""
        """The reason why there is no answer; empty if there is one."""
        self.client: Client | None = None
        self._is_greeted = False
        try:
            check_way(host)
            self.client = Client(host.words(*TASK), host.command)
        except Ended as ended:
            self.problem = str(ended)
        except OSError as error:
            self.problem = f"cannot start ssh: {error.strerror}"

    def greeted(self, hello: dict[str, Any]) -> None:
        """See the greeting, also of an agent that cannot be spoken with."""

    def question(self) -> Sequence[dict[str, Any]]:
        """Return the messages for the host."""
        raise NotImplementedError

    def answered(self, message: dict[str, Any]) -> None:
        """Take over a message of the host; `end` says that no other is waited for."""
        raise NotImplementedError

    def turn(self) -> None:
        """Take over what has come."""
        client = self.client
        if client is None:
            return
        client.listen()
        client.frames.flush()
        for message in client.frames.receive():
            try:
                self._take(client, message)
            except (KeyError, TypeError, ValueError, AttributeError) as error:
                self.end(f"it sent a message that is not of the protocol ({error!r})")
            if self.client is None:
                return
        if client.frames.ended:
            self.end(str(client.end(is_greeted=self._is_greeted)))

    def end(self, problem: str = "") -> None:
        """End the session."""
        self.problem = problem
        if self.client is not None:
            self.client.close(at_once=bool(problem))
        self.client = None

    def _take(self, client: Client, message: dict[str, Any]) -> None:
        if message.get("is") == "hello":
            self._is_greeted = True
            self.greeted(message)
            if why := foreign(message):
                self.end(why)
                return
            for each in self.question():
                client.frames.send(each)
        else:
            self.answered(message)


def ask(asked: Sequence[Asked], seconds: float) -> None:
    """Ask hosts, all at once, and wait so many seconds for their answers at most."""
    end = time.monotonic() + seconds
    try:
        while open_ := [each for each in asked if each.client is not None]:
            if time.monotonic() > end:
                for each in open_:
                    each.end(f"it has not answered within {seconds:g} s")
                break
            poll = select.poll()
            for each in open_:
                for descriptor in each.client.descriptors if each.client else ():
                    poll.register(descriptor, select.POLLIN)
            poll.poll(1000)
            for each in open_:
                each.turn()
    finally:
        for each in asked:
            if each.client is not None:
                each.client.close(at_once=True)
