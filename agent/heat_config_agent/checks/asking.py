"""Each source that the agent would ask, asked once: really, at the same time as the others, and without any trace.

Sources lead to others: what an instance was given when it was made says how to reach Heat. It is the agent's own
`Steering` that finds them. From a queue nothing is claimed, so that whoever waits for a message gets it.
"""

from __future__ import annotations

import json
import select
import threading
import time
from collections.abc import Callable, Hashable, Iterator, Mapping
from urllib.parse import quote

from heat_config_agent import keystone, metadata, redaction, sources
from heat_config_agent.checks import Finding, Verdict, closed, failed, network, ok, warning
from heat_config_agent.collection import Answer, Collection
from heat_config_agent.configuration import BOOT, SETTINGS, TRANSPORTS
from heat_config_agent.documents import Documents
from heat_config_agent.errors import AccessError, DeniedError, SourceError, UnreachableError
from heat_config_agent.model import Credentials, Document
from heat_config_agent.polling import Schedule
from heat_config_agent.settings import Settings
from heat_config_agent.sources import Reach, Source
from heat_config_agent.steering import Steering
from heat_config_agent.transports import Way
from heat_config_hooks.values import dataclass, field, fields

SECONDS = 65.0
"""How long all of it may take."""

FOR_ONE = 40.0
"""How long one source may take at most, if no less is set: so there is time left for what the agent would ask next."""

_ONCE = Schedule(least=3600.0, most=3600.0, splay=0.0)

Tell = Callable[[str], None]
"""What is told now and then what is still waited for."""


@dataclass
class Asked:
    """A source, and what is known of it."""

    name: str
    way: Way | None
    findings: list[Finding] = field(default_factory=list)
    """Of its servers, step by step."""
    looking: threading.Thread | None = None
    answer: Answer | None = None
    trouble: str = ""

    @property
    def works(self) -> bool:
        """Whether it has answered."""
        return self.answer is not None and self.answer.error is None


class Asking:
    """One round."""

    def __init__(self, given: Settings) -> None:
        """Get ready to ask."""
        self._given = given
        self._documents = Documents(given.state, change=False)
        self._collection = Collection(_ONCE, min(given.number("collect_timeout"), FOR_ONE))
        self._steering = Steering(given, self._documents, self._collection, make=_make, change=False)
        self._asked: dict[Hashable, Asked] = {}
        self._clocks = network.Clocks()
        self.documents: list[Document] = []
        """What was collected."""

    def findings(self, tell: Tell) -> Iterator[Finding]:
        """Ask all, and say what came of it."""
        self._round(tell)
        hide = redaction.settings(
            (row, each.way.values.get(row.name))
            for each in self._asked.values()
            if each.way
            for row in SETTINGS
            if row.section == each.name
        )
        for each in (*self._judged(), *self._clocks.findings()):
            yield Finding(each.verdict, each.check, hide(each.says), hide(each.todo))

    def _round(self, tell: Tell) -> None:
        until = time.monotonic() + SECONDS
        try:
            while time.monotonic() < until:
                self._steering.steer(now=True)
                self._collection.schedule = _ONCE
                for key, condition in self._collection.conditions().items():
                    if key not in self._asked:
                        self._asked[key] = Asked(condition.name, key if isinstance(key, Way) else None)
                        self._look(self._asked[key])
                answers = self._collection.answers()
                for answer in answers:
                    self._take(answer)
                waiting = self._waiting()
                if not waiting and not answers:  # what they say may name further sources
                    return
                tell(", ".join(waiting))
                select.select([self._collection], [], [], 0.05)
        finally:
            self._collection.close()

    def _waiting(self) -> list[str]:
        """Return the names of those that are still being asked; who is needed no more is let go of."""
        conditions = self._collection.conditions()
        self._asked = {key: each for key, each in self._asked.items() if each.answer or key in conditions}
        every = self._asked.values()
        names = [each.name for each in every if not each.answer or (each.looking and each.looking.is_alive())]
        return list(dict.fromkeys(names))

    def _take(self, answer: Answer) -> None:
        asked = self._asked.get(answer.key)
        if asked is None or asked.answer is not None:
            return
        asked.answer = answer
        condition = self._collection.conditions().get(answer.key)
        asked.trouble = condition.trouble if condition and answer.error is None else ""
        if answer.document is None:
            return
        self.documents.append(answer.document)
        asked.trouble = self._documents.take(answer.document) or asked.trouble
        if answer.name in TRANSPORTS:
            self._steering.learn(answer.key, answer.document)

    def _look(self, asked: Asked) -> None:
        """Begin to look at the servers of a source."""
        if asked.name not in (*TRANSPORTS, "ec2"):
            return
        values = asked.way.values if asked.way else self._steering.settings.section(asked.name)

        def look() -> None:
            try:
                for finding in network.for_source(asked.name, values, self._given.ca_file, self._clocks):
                    asked.findings.append(finding)
            except Exception as error:  # noqa: BLE001  # a defect of a check is no reason to say nothing else
                asked.findings.append(
                    warning(asked.name, f"its servers could not be looked at: {type(error).__name__}")
                )

        asked.looking = threading.Thread(target=look, daemon=True)
        asked.looking.start()

    def _judged(self) -> Iterator[Finding]:
        reached = any(each.works for each in self._asked.values() if each.way)
        if not closed(self._given.state):  # else that is said already
            yield from (warning("settings", news) for news in self._steering.news)
            yield from (warning("state", warned) for warned in self._documents.warnings)
        several = [each.name for each in self._asked.values() if each.way]
        for each in self._asked.values():
            check = each.name
            if each.way and several.count(each.name) > 1:
                check = f"{each.name} ({each.way.origin})"
            harmless = each.works or (reached and (each.way is not None or each.name in BOOT))
            for finding in (*each.findings, *self._answered(each)):
                verdict = Verdict.WARNING if harmless and finding.verdict is Verdict.FAILED else finding.verdict
                yield Finding(verdict, check, finding.says, finding.todo)
        if not several and not closed(self._given.state):
            yield self._nowhere()

    def _answered(self, asked: Asked) -> Iterator[Finding]:
        """Say what came of asking a source, unless it is said already what keeps it from answering."""
        name, answer = asked.name, asked.answer
        blamed = any(each.verdict is Verdict.FAILED for each in asked.findings)
        if answer is None:
            if not blamed:
                yield failed(name, f"it has not answered within {SECONDS:g} s", "ask who runs it")
            return
        if answer.error is not None:
            if not blamed:
                yield failed(name, answer.error.brief, answer.error.hint)
            return
        if asked.trouble:
            yield warning(name, asked.trouble)
        if answer.document is None:
            yield ok(name, "it lets us look at the queue; nothing was taken" if name == "zaqar" else "it has nothing")
            return
        parsed = metadata.parse(answer.document)
        if not parsed.understood:
            yield failed(name, f"what it has is no metadata: {parsed.mistakes[0]}")
            return
        for mistake in parsed.mistakes[:5]:
            yield warning(name, f"in its metadata: {mistake}")
        number = len(parsed.deployments)
        yield ok(name, f"it answers: {number} deployment{'' if number == 1 else 's'}")

    def _nowhere(self) -> Finding:
        says = "nobody says how to reach Heat: neither settings nor what the instance was given"
        if self._given.only and not set(self._given.only) & set(TRANSPORTS):
            return ok("heat", "not asked: collectors names no transport")
        todo = "is software_config_transport set for this server in the template? `heat-config-agent config` has it all"
        return (warning if self.documents else failed)("heat", says, todo)


def _make(name: str, values: Mapping[str, object], reach: Reach, ring: Callable[[], None]) -> Source:
    """Return a source that leaves no trace."""
    if name == "zaqar":
        return _Queue(values, reach)
    if name == "heat_local":
        from heat_config_agent.sources.heat_local import HeatLocal  # noqa: PLC0415  # only what is used is loaded

        return HeatLocal(values, reach, tighten=False)
    return sources.make(name, values, reach, ring)


class _Queue:
    """A queue that is looked at from outside."""

    name = "zaqar"

    def __init__(self, values: Mapping[str, object], reach: Reach) -> None:
        self.trouble = ""
        self._values = values
        self._reach = reach

    def collect(self) -> Document | None:
        """Ask how many messages there are."""
        values = {each.name: str(self._values.get(each.name) or "") for each in fields(Credentials)}
        queue = str(self._values["queue_id"])
        what = f"cannot look at the Zaqar queue {queue}"
        try:
            answer = keystone.Cloud(Credentials(**values), self._reach.ca_file).ask(
                "GET",
                "messaging",
                f"/v2/queues/{quote(queue, safe='')}/stats",
                headers={"Client-ID": "00000000-0000-4000-8000-000000000000"},
                seconds=self._reach.seconds,
            )
        except DeniedError as error:
            raise AccessError(f"{what}: {error}") from error
        except UnreachableError as error:
            raise SourceError(f"{what}: {error}") from error
        if answer.status != 200:
            hint = "is the stack still there?" if answer.status in (401, 403, 404) else "ask who runs Zaqar"
            raise SourceError(f"{what}: HTTP {answer.status} {answer.reason}".rstrip(), hint=hint)
        try:
            json.loads(answer.body)
        except ValueError as error:
            raise SourceError(f"{what}: its answer is no JSON", hint="is something else at Zaqar's address?") from error
        return None
