"""Checks of the sources: each source that the agent would ask is asked once, in parallel, and leaves no trace.

A source may name further sources, as the data that an instance was created with says how to reach Heat. The agent's
own `Steering` finds them. No message of a queue is claimed, so the agent still gets it.
"""

from __future__ import annotations

import json
import os
import select
import threading
import time
from collections.abc import Callable, Hashable, Iterator, Mapping
from urllib.parse import quote

from heat_config_agent import sources
from heat_config_agent.deployments import metadata
from heat_config_agent.doctor import (
    Finding,
    Verdict,
    closed,
    failed,
    network,
    ok,
    warning,
)
from heat_config_agent.model.deployment import Document
from heat_config_agent.model.errors import (
    AccessError,
    DeniedError,
    SourceError,
    UnreachableError,
)
from heat_config_agent.settings import display
from heat_config_agent.settings.effective import Settings
from heat_config_agent.settings.schema import BOOT, SETTINGS, TRANSPORTS
from heat_config_agent.sources.active import Steering
from heat_config_agent.sources.base import Reach, Source, credentials
from heat_config_agent.sources.documents import Documents
from heat_config_agent.sources.poller import Answer, Collection
from heat_config_agent.sources.schedule import Schedule
from heat_config_agent.sources.transports import Transport
from heat_config_agent.web import keystone
from heat_config_hooks.values import dataclass, field

SECONDS = 65.0
"""Seconds that all sources together may take."""

FOR_ONE = 40.0
"""Seconds that one source may take, unless the settings allow less; this leaves time for sources that it names."""

_ONCE = Schedule(least=3600.0, most=3600.0, splay=0.0)

Tell = Callable[[str], None]
"""Called from time to time with the names of the sources that have not answered yet."""


@dataclass
class Asked:
    """A source that was asked, and its outcome so far."""

    name: str
    way: Transport | None
    findings: list[Finding] = field(default_factory=list)
    """Findings about its servers, step by step."""
    looking: threading.Thread | None = None
    answer: Answer | None = None
    trouble: str = ""

    @property
    def works(self) -> bool:
        """True if it has answered."""
        return self.answer is not None and self.answer.error is None


class Asking:
    """One round in which every source is asked once."""

    def __init__(self, settings: Settings) -> None:
        """Prepare the round."""
        self._settings = settings
        self._documents = Documents(settings.state, change=False)
        self._collection = Collection(
            _ONCE, min(settings.number("collect_timeout"), FOR_ONE)
        )
        self._steering = Steering(
            settings, self._documents, self._collection, make=_make, change=False
        )
        self._asked: dict[Hashable, Asked] = {}
        self._clocks = network.Clocks()
        self.documents: list[Document] = []
        """The collected documents."""

    def findings(self, tell: Tell) -> Iterator[Finding]:
        """Ask all sources, and yield the findings."""
        self._round(tell)
        hide = display.settings(
            (row, each.way.values.get(row.name))
            for each in self._asked.values()
            if each.way
            for row in SETTINGS
            if row.section == each.name
        )
        for finding in (
            *self._judged(),
            *network.check_no_proxy(),
            *self._clocks.findings(),
        ):
            yield Finding(
                finding.verdict, finding.check, hide(finding.text), hide(finding.todo)
            )

    def _round(self, tell: Tell) -> None:
        until = time.monotonic() + SECONDS
        try:
            while time.monotonic() < until:
                self._steering.steer(now=True)
                self._collection.schedule = _ONCE
                for key, condition in self._collection.conditions().items():
                    if key not in self._asked:
                        self._asked[key] = Asked(
                            condition.name, key if isinstance(key, Transport) else None
                        )
                        self._look(self._asked[key])
                answers = self._collection.answers()
                for answer in answers:
                    self._take(answer)
                waiting = self._waiting()
                if not waiting and not answers:  # answers may name further sources
                    return
                tell(", ".join(waiting))
                select.select([self._collection], [], [], 0.05)
        finally:
            self._collection.close()

    def _waiting(self) -> list[str]:
        """Return the names of the sources that are still being asked, and drop those that are no longer needed."""
        conditions = self._collection.conditions()
        self._asked = {
            key: asked
            for key, asked in self._asked.items()
            if asked.answer or key in conditions
        }
        names = [
            asked.name
            for asked in self._asked.values()
            if not asked.answer or (asked.looking and asked.looking.is_alive())
        ]
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
        """Start to check the servers of a source in a thread."""
        if asked.name not in (*TRANSPORTS, "ec2"):
            return
        values = (
            asked.way.values
            if asked.way
            else self._steering.settings.section(asked.name)
        )

        def look() -> None:
            try:
                for finding in network.for_source(
                    asked.name, values, self._settings.ca_file, self._clocks
                ):
                    asked.findings.append(finding)
            except BaseException as error:  # noqa: BLE001  # a defect of one check must not hide the others
                asked.findings.append(
                    warning(
                        asked.name,
                        f"its servers could not be checked: {type(error).__name__}",
                    )
                )

        asked.looking = threading.Thread(target=look, daemon=True)
        asked.looking.start()

    def _judged(self) -> Iterator[Finding]:
        reached = any(asked.works for asked in self._asked.values() if asked.way)
        if not closed(self._settings.state):  # otherwise `machine` has reported it
            yield from (warning("settings", news) for news in self._steering.news)
            yield from (warning("state", warned) for warned in self._documents.warnings)
        several = [asked.name for asked in self._asked.values() if asked.way]
        for asked in self._asked.values():
            check = asked.name
            if asked.way and several.count(asked.name) > 1:
                check = f"{asked.name} ({asked.way.origin})"
            harmless = asked.works or (
                reached and (asked.way is not None or asked.name in BOOT)
            )
            for finding in (*asked.findings, *self._answered(asked)):
                verdict = (
                    Verdict.WARNING
                    if harmless and finding.verdict is Verdict.FAILED
                    else finding.verdict
                )
                yield Finding(verdict, check, finding.text, finding.todo)
        if not several and not closed(self._settings.state):
            yield self._nowhere()

    def _answered(self, asked: Asked) -> Iterator[Finding]:
        """Yield the outcome of asking a source, unless a finding about its servers explains why it did not answer."""
        name, answer = asked.name, asked.answer
        blamed = any(each.verdict is Verdict.FAILED for each in asked.findings)
        if answer is None:
            if not blamed:
                yield failed(
                    name, f"it did not answer within {SECONDS:g} s", "ask its operator"
                )
            return
        if answer.error is not None:
            if not blamed:
                yield failed(name, answer.error.brief, answer.error.hint)
            return
        if asked.trouble:
            yield warning(name, asked.trouble)
        if answer.document is None:
            text = (
                "the queue is accessible; no message was taken"
                if name == "zaqar"
                else "it has no metadata"
            )
            yield ok(name, text)
            return
        parsed = metadata.parse(
            answer.document, by_name=metadata.is_by_hand(answer.document)
        )
        if not parsed.understood:
            yield failed(name, f"its document is not metadata: {parsed.mistakes[0]}")
            return
        for mistake in parsed.mistakes[:5]:
            yield warning(name, f"in its metadata: {mistake}")
        number = len(parsed.deployments)
        yield ok(name, f"it answers: {number} deployment{'' if number == 1 else 's'}")

    def _nowhere(self) -> Finding:
        if self._settings.only and not set(self._settings.only) & set(TRANSPORTS):
            return ok("heat", "not asked: collectors names no transport")
        if not self._settings.only and not any(
            os.path.exists(path)  # noqa: PTH110
            for path in _CLOUD_INIT
        ):
            return ok(
                "heat",
                "not used: cloud-init has not run here, and no settings name a server of Heat",
            )
        text = "no Heat connection details in the settings, cloud-init data, config drive or metadata service"
        todo = "check software_config_transport of this server in the template; `heat-config-agent config` shows all"
        return (warning if self.documents else failed)("heat", text, todo)


_CLOUD_INIT = ("/var/lib/cloud/data", "/run/cloud-init")
"""The folders of cloud-init. A machine without it gets its deployments from files or followed sources."""


def _make(
    name: str, values: Mapping[str, object], reach: Reach, ring: Callable[[], None]
) -> Source:
    """Return a source that leaves no trace."""
    if name == "zaqar":
        return _Queue(values, reach)
    if name == "heat_local":
        from heat_config_agent.sources.cloud.heat_local import HeatLocal  # noqa: PLC0415  # only what is used is loaded

        return HeatLocal(values, reach, tighten=False)
    return sources.make(name, values, reach, ring)


class _Queue:
    """A Zaqar queue of which only the statistics are read."""

    name = "zaqar"

    def __init__(self, values: Mapping[str, object], reach: Reach) -> None:
        self.trouble = ""
        self._values = values
        self._reach = reach

    def collect(self) -> Document | None:
        """Ask for the statistics of the queue."""
        queue = str(self._values["queue_id"])
        failure = f"cannot access the Zaqar queue {queue}"
        try:
            answer = keystone.Cloud(credentials(self._values), self._reach.ca_file).ask(
                "GET",
                "messaging",
                f"/v2/queues/{quote(queue, safe='')}/stats",
                headers={"Client-ID": "00000000-0000-4000-8000-000000000000"},
                seconds=self._reach.seconds,
            )
        except DeniedError as error:
            raise AccessError(f"{failure}: {error}") from error
        except UnreachableError as error:
            raise SourceError(f"{failure}: {error}") from error
        if answer.status != 200:
            gone = answer.status in (401, 403, 404)
            hint = "the stack may have been deleted" if gone else "ask Zaqar's operator"
            raise SourceError(
                f"{failure}: HTTP {answer.status} {answer.reason}".rstrip(), hint=hint
            )
        try:
            json.loads(answer.body)
        except (ValueError, RecursionError) as error:
            raise SourceError(
                f"{failure}: the answer is not JSON",
                hint="check that this is Zaqar's address",
            ) from error
        return None
