"""The question whether hosts can be used: asked of all at once, without a stack."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from heat_config_stack.hosts.asked import Asked, ask
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


class _Asked(Asked):
    """One host that is checked."""

    def __init__(self, host: Host) -> None:
        self.answer = Answer(host)
        super().__init__(host)

    def greeted(self, hello: dict[str, Any]) -> None:
        self.answer.version = str(hello.get("version", ""))
        self.answer.apart = float(hello.get("time", 0)) - time.time()

    def question(self) -> Sequence[dict[str, Any]]:
        return [{"do": "check"}]

    def answered(self, message: dict[str, Any]) -> None:
        if message.get("is") != "checked":
            return
        answer = self.answer
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
    ask(asked, _SECONDS)
    for each in asked:
        each.answer.problem = each.problem
    return [each.answer for each in asked]
