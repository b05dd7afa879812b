"""Servers that have metadata, behind a proxy that breaks what they say: the last good document stays in force.

Each source has a daemon of its own, which is asked to go through one fault after the other. All the while a result
waits whose deployment is in the source's document: were any of these answers taken for a document, it would be lost.
"""

from __future__ import annotations

import json
import re
import signal
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

import pytest

from heat_config_agent.model.entry import State
from heat_config_agent.state import journal
from support import cloud, pace, proxy_faults
from support.daemon import Daemon
from support.hasty import HASTY, SECONDS, peak
from support.loopback import Answer, SignalServer
from support.machine import Machine, deployment
from support.proxy import Fault, Proxy
from support.zaqar import QUEUE, Queue, offer
from unit.agent.sources.cloud.test_ec2 import Service

pytestmark = pytest.mark.takes(20)

TRANSPORTS = ("heat", "cfn", "request", "zaqar")
SOURCES = (*TRANSPORTS, "ec2")
SECRET = "planted-51c9-secret"
LATE = (
    "no answer within|no connection within|no full answer|no time is left|took too long"
)
"""The sentences about a server that took too long, for whatever reason."""

MEMORY = 200
"""MiB that the agent may take, whatever it is answered."""

PATIENCE = 80.0

Tried = Callable[[int], None]


class Asked:
    """A source, its server behind a proxy, a daemon that asks it, and a server that takes the results."""

    def __init__(self, name: str, folder: Path) -> None:
        folder.mkdir()
        self.name = name
        self.machine = Machine(folder)
        self.daemon = Daemon(self.machine)
        self.results = SignalServer()
        self.results.start()
        self.results.named["pending"] = Answer(503)
        self.openstack = cloud.Cloud()
        self.openstack.start()
        self.web = SignalServer()
        self.web.start()
        self.queue = Queue()
        self.queue.start()
        self.ec2 = Service()
        origins = {"heat": self.openstack.service.origin, "zaqar": self.queue.origin}
        origins["ec2"] = self.ec2.url.removesuffix("/latest")
        self.proxy = Proxy(origins.get(name, self.web.origin))
        self.keystone = Proxy(self.openstack.keystone.origin)
        self.number = 0
        self.tried = 0
        self._documents: list[dict[str, Any]] = []
        offer(
            self.openstack,
            orchestration=f"{self.proxy.origin}/v1/{cloud.PROJECT}",
            messaging=self.proxy.origin,
        )
        self.serve("pending")
        self._configure()

    def begin(self) -> None:
        """Have a result wait for its server."""
        self.daemon.start(*HASTY)
        self._arrives("pending", State.FINISHED)

    def _configure(self) -> None:
        credentials = self.openstack.credentials()
        access: dict[str, Any] = {
            "auth_url": f"{self.keystone.origin}/v3",
            "user_id": credentials.user_id,
            "password": SECRET,
            "project_id": credentials.project_id,
        }
        keys = {
            "access_key_id": "k",
            "secret_access_key": SECRET,
            "stack_name": "web",
            "path": "server.Metadata",
        }
        own: dict[str, dict[str, Any]] = {
            "heat": {**access, "stack_id": "web/1", "resource_name": "server"},
            "cfn": {**keys, "metadata_url": f"{self.proxy.origin}/v1/"},
            "request": {
                "metadata_url": f"{self.proxy.origin}/v1/metadata?temp_url_sig={SECRET}"
            },
            "zaqar": {**access, "queue_id": QUEUE},
            "ec2": {"metadata_url": f"{self.proxy.origin}/latest", "timeout": SECONDS},
        }
        self.daemon.settings[self.name] = own[self.name]
        self.daemon.configure(
            collectors=f"{self.name}, local",
            collect_timeout=SECONDS,
            polling_interval=3600,
            min_polling_interval=3600,
        )

    def close(self) -> None:
        self.daemon.end()
        self.machine.end()
        self.proxy.close()
        self.keystone.close()
        for each in (self.results, self.openstack, self.web, self.queue):
            each.stop()
        self.ec2.server.stop()

    # What the server has, and what the agent makes of it.

    def serve(self, *identities: str) -> None:
        """Have the server say that there are these deployments, beside those that there were."""
        for each in identities:
            text = f"#!/bin/sh\necho {each} >>{self.machine.folder}/ran\n"
            self._documents.append(
                deployment(each, text, signal=self.results.url(each))
            )
        content = {"deployments": list(self._documents)}
        text = json.dumps(content)
        detail = f"<StackResourceDetail><Metadata>{escape(text)}</Metadata></StackResourceDetail>"
        result = f"<DescribeStackResourceResult>{detail}</DescribeStackResourceResult>"
        found = (
            f"<DescribeStackResourceResponse>{result}</DescribeStackResourceResponse>"
        )
        self.openstack.service.always = Answer(
            body=json.dumps({"metadata": content}).encode()
        )
        self.web.named = {
            "metadata": Answer(body=text.encode()),
            "": Answer(body=found.encode()),
        }
        self.queue.post(content)
        self.ec2.user_data, self.ec2.instance = (
            text.encode(),
            f"i-{len(self._documents):08}".encode(),
        )

    def ran(self) -> list[str]:
        """Return the deployments that ran."""
        path = self.machine.folder / "ran"
        return path.read_text().split() if path.exists() else []

    def _state(self, identity: str) -> State | None:
        entry = journal.read(self.machine.state).get(identity)
        return entry.state if entry else None

    def wait(self, condition: Callable[[], object], what: str = "") -> None:
        """Wait until something is so."""
        deadline = time.monotonic() + pace.seconds(PATIENCE)
        while not condition():
            assert not self.daemon.ended, self.daemon.log
            assert time.monotonic() < deadline, (
                f"{self.name}: {what}\n{self.daemon.log[-2000:]}"
            )
            time.sleep(0.02)

    def _arrives(self, identity: str, state: State) -> None:
        """Have the agent ask until it has this deployment, in this state: a slow machine may miss a deadline."""
        last = time.monotonic()

        def has_arrived() -> bool:
            nonlocal last
            if time.monotonic() - last > 1:
                self.queue.expire()  # a claim whose answer was lost would be there for a minute
                self.poke()
                last = time.monotonic()
            return self._state(identity) is state

        self.wait(has_arrived, f"{identity} is not {state}")

    def poke(self) -> None:
        """Have the agent ask."""
        self.daemon.send(signal.SIGUSR1)

    # Faults.

    def suffer(
        self, faults: Iterable[Fault], says: str, *, at: Proxy | None = None
    ) -> None:
        """Go through one fault after the other: each is said, for the right reason, and is over when it is over."""
        for fault in faults:
            sentence = self._sentence(fault, at or self.proxy)
            deadline = time.monotonic() + pace.seconds(PATIENCE)
            # A slow machine may miss the deadline before the server can show its fault: the next try meets it.
            while (
                re.search(LATE, sentence)
                and not re.search(says, sentence)
                and time.monotonic() < deadline
            ):
                sentence = self._sentence(fault, at or self.proxy)
            assert re.search(says, sentence), f"{fault.name}: {sentence}"
            self.tried += 1

    def _sentence(self, fault: Fault, at: Proxy) -> str:
        """Return what is said about a fault, which is over then."""
        before = len(self.said())
        at.fail(fault)
        self.poke()
        self.wait(
            lambda: len(self.said()) > before, f"it is not said that it {fault.name}"
        )
        (sentence,) = self.said()[before:]
        self.recover(at)
        return sentence

    def said(self) -> list[str]:
        """Return the warnings about invalid answers."""
        return [
            line
            for line in self.daemon.log.splitlines()
            if re.search(rf"\d {self.name}(:| answered with)", line)
        ]

    def recover(self, at: Proxy) -> None:
        """Repair the fault."""
        at.mend()
        asked = len(at.requests)
        self.poke()
        self.wait(lambda: len(at.requests) > asked, "nothing is asked")
        self.wait(self._is_well, "it does not recover")

    def _is_well(self) -> bool:
        """Return whether the last report says that the source answers; if not, it is asked again now and then."""
        lines = [
            line
            for line in self.daemon.log.splitlines()
            if re.search(rf"\d {self.name}\b", line)
        ]
        if "that is not metadata" in lines[-1]:  # it has answered
            return not self.daemon.health()["troubles"]
        return any(word in lines[-1] for word in ("answers again", " has "))

    def holds(self) -> None:
        """Nothing was lost, nothing was said that must not be, and a new document is taken in."""
        assert self._state("pending") is State.FINISHED, self.daemon.log
        self.number += 1
        new = f"new{self.number}"
        self.serve(new)
        self._arrives(new, State.SIGNALLED)
        assert self.ran() == [
            "pending",
            *(f"new{each + 1}" for each in range(self.number)),
        ]
        shown = (
            self.daemon.command("status").out
            + self.daemon.command("status", "--json").out
        )
        for text in (shown, self.daemon.log, json.dumps(self.daemon.health())):
            assert SECRET not in text
            assert "Traceback" not in text
            assert "a defect" not in text
            assert not re.search(
                r"\b[A-Z]\w+(Error|Exception|Reset|Read|Header)\b", text
            ), text
        assert peak(self.daemon.pid) < MEMORY, self.name

    def ends(self) -> None:
        """Check that waiting results are delivered once, and that the agent ends."""
        self.results.named.clear()
        self.poke()
        self.wait(
            lambda: self._state("pending") is State.SIGNALLED, "the result is lost"
        )
        assert (
            len({each.body for each in self.results.signals if "/pending" in each.path})
            == 1
        )
        assert self.daemon.stop() == 0


@pytest.fixture(scope="module")
def every(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Asked]]:
    """All sources."""
    folder = tmp_path_factory.mktemp("sources")
    sources: dict[str, Asked] = {}
    try:
        for name in SOURCES:
            sources[name] = Asked(name, folder / name)
        with ThreadPoolExecutor() as pool:
            list(pool.map(Asked.begin, sources.values()))
        yield sources
        for each in sources.values():
            each.ends()
    finally:
        for each in sources.values():
            each.close()


@pytest.fixture
def suffer(every: dict[str, Asked], tried: Tried) -> Callable[..., None]:
    """Have sources go through faults, all at the same time, and hold that nothing was lost."""

    def all_of(faults: Iterable[Fault], says: str, *names: str) -> None:
        faults = tuple(faults)
        chosen = [every[name] for name in names or SOURCES]
        with ThreadPoolExecutor() as pool:
            list(
                pool.map(lambda each: (each.suffer(faults, says), each.holds()), chosen)
            )
        tried(len(faults) * len(chosen))

    return all_of


Suffer = Callable[..., None]
READ = "not JSON|not XML|web page|not metadata|empty|expected|UTF-8|not a list|declares|contains no|nested|values"
KEEPS = "the last good document stays in force, a sentence says why, and the source is asked again"


@pytest.mark.fault(
    1,
    "a source whose server refuses, resets or hangs up, at every moment, or cuts its answer short",
    KEEPS,
)
def test_broken_connection_gives_no_metadata(suffer: Suffer) -> None:
    """A truncated answer is not used."""
    suffer(
        (*proxy_faults.BREAKS_OFF, *proxy_faults.CUTS_BODY),
        "refused|reset|hung up|cut short|not HTTP",
    )


@pytest.mark.fault(
    3,
    "a source whose server never answers, stalls, or trickles its headers or its body",
    f"it is given up: {KEEPS}",
)
def test_hanging_server_is_given_up_at_its_deadline(suffer: Suffer) -> None:
    """A source has so long for an answer, whatever it says meanwhile."""
    suffer(
        (*proxy_faults.HANGS, *proxy_faults.HANGS_IN_BODY),
        "no answer|no full answer|took too long|broke off|hung up",
    )


@pytest.mark.fault(
    2,
    "a source that answers with noise, no HTTP, 1xx alone, or two different lengths",
    KEEPS,
)
def test_invalid_answers_are_refused(suffer: Suffer) -> None:
    """Only metadata counts as metadata."""
    suffer(
        (*proxy_faults.NO_HTTP, *proxy_faults.INFORMS, proxy_faults.TWO_LENGTHS),
        "not HTTP|HTTP 1|hung up|reset|no answer|no full answer",
    )


@pytest.mark.fault(
    2,
    "a source that answers with a web page, nothing, NUL bytes, half of JSON, an error",
    KEEPS,
)
def test_invalid_documents_are_refused(suffer: Suffer) -> None:
    """A body that is not a document is refused, even with status 200."""
    suffer(proxy_faults.NO_DOCUMENT, READ, *TRANSPORTS)


@pytest.mark.fault(
    5,
    "a source that answers 4xx, 5xx, with every kind of Retry-After, or redirects",
    KEEPS,
)
def test_refusal_is_reported_with_its_status(
    suffer: Suffer, other: SignalServer
) -> None:
    """The refusal is reported with its status."""
    refusals = [
        proxy_faults.answers(status) for status in (401, 403, 404, 410, 413, 422)
    ]
    redirects = [
        each
        for each in proxy_faults.redirects(other.origin, "http://127.0.0.1:9")
        if "304" not in each.name
    ]
    suffer(
        (
            *refusals,
            *proxy_faults.for_now(time.time()),
            *proxy_faults.FOR_AN_HOUR,
            *redirects,
        ),
        "HTTP [0-9]{3}",
        *TRANSPORTS,
    )
    assert not other.signals


@pytest.mark.fault(
    3,
    "a source that answers with gigabytes, gzip bombs, headers without end, a flood of 100 Continue",
    f"no more than 64 MiB is read, memory stays under 200 MB: {KEEPS}",
)
def test_a_huge_answer_of_a_source_does_no_harm(suffer: Suffer) -> None:
    """The server sends too much, also compressed."""
    bombs = [
        each for each in proxy_faults.COMPRESSED if "though nobody" not in each.name
    ]
    suffer(
        (*proxy_faults.HUGE, *bombs, *proxy_faults.TOO_MANY_HEADERS),
        "longer than|cut short|not HTTP|no full answer|no answer|took too long|compressed|broke off|reset",
    )


@pytest.mark.fault(
    1,
    "Keystone fails while Heat or Zaqar wants a new token",
    f"a sentence names Keystone: {KEEPS}",
)
def test_metadata_arrives_though_keystone_fails(
    every: dict[str, Asked], tried: Tried
) -> None:
    """A token that the service does not take any more has to be renewed, and cannot be."""
    faults = (
        *proxy_faults.BREAKS_OFF,
        *proxy_faults.CUTS_BODY[:3],
        *proxy_faults.HANGS[1:3],
        *proxy_faults.NO_DOCUMENT,
        *(
            proxy_faults.answers(status)
            for status in (400, 401, 403, 404, 429, 500, 503)
        ),
        *proxy_faults.HUGE[:1],
        *proxy_faults.COMPRESSED[:1],
    )

    def suffers(asked: Asked) -> None:
        for fault in faults:
            asked.proxy.fail(proxy_faults.answers(401))
            before = len(asked.said())
            asked.keystone.fail(fault)
            asked.poke()
            asked.wait(
                lambda: len(asked.said()) > before,  # noqa: B023
                f"it is not said that it {fault.name}",
            )
            (sentence,) = asked.said()[before:]
            assert re.search("Keystone|127.0.0.1:[0-9]+: ", sentence), (
                f"{fault.name}: {sentence}"
            )
            asked.keystone.mend()
            asked.recover(asked.proxy)
        asked.holds()

    with ThreadPoolExecutor() as pool:
        list(pool.map(suffers, (every["heat"], every["zaqar"])))
    tried(2 * len(faults))


@pytest.mark.fault(
    1,
    "a source that says in its own way what it has: HTTP/1.0, no length, 100 Continue before it, hanging up after it",
    "its document is taken in",
)
def test_any_form_of_http_delivers_the_document(
    every: dict[str, Asked], tried: Tried
) -> None:
    """HTTP can be spoken in many ways."""
    faults = proxy_faults.UNUSUAL_SUCCESS[4:]

    def suffers(asked: Asked) -> None:
        for fault in faults:
            asked.proxy.fail(fault)
            asked.holds()
        asked.recover(asked.proxy)

    with ThreadPoolExecutor() as pool:
        list(pool.map(suffers, every.values()))
    tried(len(faults) * len(every))
