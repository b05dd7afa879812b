"""The question whether hosts can be used: asked of all at once, without a stack."""

from __future__ import annotations

import select
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from heat_config_stack.hosts.client import Client
from heat_config_stack.hosts.connection import TASK, foreign
from heat_config_stack.hosts.host import Host

_SECONDS = 45.0
"""Seconds in which a host has to answer."""

_APART = 60.0
"""Seconds by which the clocks of two machines may differ before people hear of it."""

_LEAST_DISK = 100 * 1024**2
"""Bytes that have to be free where the state directory is."""


@dataclass
class Answer:
    """The answer of one host."""

    host: Host
    problem: str = ""
    """The reason why it cannot be used; empty if it can."""
    version: str = ""
    tools: list[str] = field(default_factory=list)
    apart: float = 0.0
    """Seconds by which its clock is ahead of this machine's."""
    free: int = 0
    """Bytes that are free where its state directory is."""
    warnings: list[str] = field(default_factory=list)


class _Asked:
    """One host that is asked."""

    def __init__(self, host: Host) -> None:
        self.answer = Answer(host)
        self.client: Client | None = None
        self._is_greeted = False
        try:
            self.client = Client(host.words(*TASK), host.command)
        except OSError as error:
            self.answer.problem = f"cannot start ssh: {error.strerror}"

    def turn(self) -> None:
        """Take over what has come."""
        client = self.client
        if client is None:
            return
        client.listen()
        for message in client.frames.receive():
            self._take(client, message)
            if self.client is None:
                return
        if client.frames.ended:
            self.end(str(client.end(is_greeted=self._is_greeted)))

    def end(self, problem: str = "") -> None:
        """End the session."""
        self.answer.problem = problem
        if self.client is not None:
            self.client.close(at_once=bool(problem))
        self.client = None

    def _take(self, client: Client, message: dict[str, Any]) -> None:
        answer = self.answer
        if message.get("is") == "hello":
            self._is_greeted = True
            answer.version = str(message.get("version", ""))
            answer.apart = float(message.get("time", 0)) - time.time()
            if why := foreign(message):
                self.end(why)
            else:
                client.frames.send({"do": "check"})
        elif message.get("is") == "checked":
            answer.tools = [str(each) for each in message["tools"]]
            answer.free = int(message["free"])
            self.end(str(message["problem"]))
            answer.warnings = _warnings(answer)


def _warnings(answer: Answer) -> list[str]:
    found = []
    if abs(answer.apart) > _APART:
        word = "ahead of" if answer.apart > 0 else "behind"
        found.append(
            f"its clock is {abs(answer.apart):.0f} s {word} that of this machine"
        )
    if answer.free < _LEAST_DISK:
        found.append(
            f"only {answer.free // 1024**2} MiB are free for its state directory"
        )
    return found


def check(hosts: Iterable[Host]) -> list[Answer]:
    """Ask hosts whether they can be used, all at once; return their answers in the same order."""
    asked = [_Asked(host) for host in hosts]
    end = time.monotonic() + _SECONDS
    try:
        while open_ := [each for each in asked if each.client is not None]:
            if time.monotonic() > end:
                for each in open_:
                    each.end(f"it has not answered within {_SECONDS:g} s")
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
    return [each.answer for each in asked]
