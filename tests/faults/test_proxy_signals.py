"""Servers that take results, behind a proxy that breaks what they say: every result arrives, and only once that is so.

Each fault has a proxy of its own, and all of them one agent: what one server does must not matter to another. Results
go to a URL, to Heat's API and to a Zaqar queue.
"""

from __future__ import annotations

import itertools
import json
import os
import random
import re
import signal
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import cloud
import proxy
from certificates import CERTIFICATE, ELSEWHERE, EXPIRED, KEY, STRANGER
from daemon import LONG, Daemon, ran
from hasty import HASTY, SECONDS, peak
from heat_config_agent import journal
from heat_config_agent.model import Entry, State
from loopback import Signal, SignalServer
from machine import Machine, deployment
from proxy import Fault, Proxy

WAYS = ("url", "heat", "zaqar")
PLACES = ("service", "keystone")
SECRET = "planted-7f3a-signature"
MEMORY = 200
"""MiB that the agent may take, whatever it is answered."""


@dataclass(frozen=True)
class Case:
    """A fault, and a deployment whose result it gets in the way of."""

    id: str
    way: str
    fault: Fault
    proxy: Proxy


class Servers:
    """What takes results, what gets in their way, and an agent that has some for each."""

    def __init__(self, daemon: Daemon, machine: Machine) -> None:
        self.daemon = daemon
        self.machine = machine
        self.cloud = cloud.Cloud()
        self.cloud.start()
        self.web = SignalServer()
        self.web.start()
        self.cases: list[Case] = []
        self.schemes: dict[str, str] = {}
        self._given: dict[str, dict[str, Any]] = {}
        self._addresses: dict[str, str] = {}
        """Of those that were put in the place of others: whose address they have."""
        self._ran: list[str] = []

    def close(self) -> None:
        for each in self.cases:
            each.proxy.close()
        self.cloud.stop()
        self.web.stop()

    def add(
        self,
        faults: Iterable[Fault],
        *ways: str,
        before: str = "service",
        scheme: str = "http",
        certificate: Path | None = None,
    ) -> None:
        """Have a deployment for each fault, and a proxy before where it goes, or before its Keystone.

        Without ways, each fault has its turn with one of them.
        """
        for number, fault in enumerate(faults):
            for way in ways or WAYS[number % 3 :][:1]:
                upstream = self.web.origin if way == "url" else self.cloud.service.origin
                stands = Proxy(self.cloud.keystone.origin if before == "keystone" else upstream, certificate)
                identity = f"{before[0]}{way}{len(self.cases)}"
                self.cases.append(Case(identity, way, fault, stands))
                self.schemes[identity] = scheme
                address = f"{scheme}:{stands.origin.partition(':')[2]}"
                self._given[identity] = self._deployment(identity, way, address, before)

    def add_pair(self, script: tuple[Fault, Fault]) -> None:
        """Have two deployments for one server, which does this, and then what is right."""
        stands = Proxy(self.web.origin)
        stands.script.extend(script)
        for _ in script:
            identity = f"p{len(self.cases)}"
            self.cases.append(Case(identity, "url", proxy.PASS, stands))
            self.schemes[identity] = "http"
            self._given[identity] = self._deployment(identity, "url", stands.origin, "service")

    def add_scripts(self, chance: random.Random, faults: Sequence[Fault], number: int) -> None:
        """Have so many deployments, before each of whose servers a few of these faults come one after the other."""
        for _ in range(number):
            way, before = chance.choice([("url", "service"), *((way, at) for way in WAYS[1:] for at in PLACES)])
            self.add([proxy.PASS], way, before=before)
            self.cases[-1].proxy.script.extend(chance.choices(faults, k=chance.randint(1, 5)))

    def replace(self) -> None:
        """Have another deployment in the place of each, for the same address."""
        found: list[Case] = []
        for case in self.cases:
            identity = f"{case.id}-new"
            text = json.dumps(self._given.pop(case.id))
            new = json.loads(text.replace(f"echo {case.id}", f"echo {identity}").replace("CREATE", "UPDATE"))
            self._given[identity] = {**new, "id": identity, "name": identity}
            self._addresses[identity] = case.id
            found.append(Case(identity, case.way, case.fault, case.proxy))
        self._ran += [each.id for each in self.cases]
        self.cases = found
        self._put()

    def _put(self) -> None:
        sound = deployment("sound", "#!/bin/sh\necho sound\n", signal=self.web.url("sound"))
        self.daemon.put([*self._given.values(), sound])

    def _deployment(self, identity: str, way: str, address: str, before: str, action: str = "CREATE") -> dict[str, Any]:
        text = f"#!/bin/sh\necho {identity} >>{self.machine.folder}/ran\necho {identity}\n"
        if way == "url":
            return deployment(identity, text, signal=f"{address}/v1/{identity}?Signature={SECRET}", action=action)
        region = identity if before == "service" else "direct"
        access = {
            "deploy_auth_url": f"{address if before == 'keystone' else self.cloud.keystone.origin}/v3",
            "deploy_user_id": "u1",
            "deploy_password": SECRET,
            "deploy_project_id": cloud.PROJECT,
            "deploy_region_name": region,
        }
        place = {"deploy_queue_id": identity} if way == "zaqar" else {"deploy_stack_id": f"{identity}/1"}
        more = {} if way == "zaqar" else {"deploy_resource_name": "r"}
        return deployment(identity, text, inputs={**access, **place, **more}, action=action)

    def begin(self, *before: str, **settings: Any) -> None:
        """Have it all go wrong, and start the agent, with a deployment whose server is sound."""
        catalog = self.cloud.catalog("direct")
        usual = [service["endpoints"][-1] for service in catalog]
        for each in self.cases:
            for service, there in zip(catalog, usual, strict=True):
                origin = f"{self.schemes[each.id]}:{each.proxy.origin.partition(':')[2]}"
                url = there["url"].replace(self.cloud.service.origin, origin)
                service["endpoints"].append(
                    {**there, "id": each.id, "region": each.id, "region_id": each.id, "url": url}
                )
            each.proxy.fail(each.fault)
        self.cloud.keystone.always = self.cloud.lets_in(SECRET, catalog=catalog)
        self._put()
        self.daemon.configure(parallel=8, **settings)
        self.daemon.start(*(before or HASTY))
        self.wait(lambda: len(self.web.values("sound")) == 1)
        self.wait(self._are_tried)

    def _are_tried(self) -> bool:
        found = self.entries()
        return all(
            (case.proxy.done or case.proxy.connections)
            and case.id in found
            and (found[case.id].settled or found[case.id].tries)
            for case in self.cases
        )

    def entries(self) -> dict[str, Entry]:
        """What is on record."""
        return journal.read(self.machine.state)

    def wait(self, condition: Callable[[], bool], seconds: float = 4 * LONG) -> None:
        """Wait until something is so."""
        deadline = time.monotonic() + seconds
        while not condition():
            assert not self.daemon.ended, self.daemon.log
            assert time.monotonic() < deadline, self.story()
            time.sleep(0.1)

    def story(self) -> str:
        """What came of each."""
        found = self.entries()
        lines = [
            f"{each.id} ({each.fault.name}, {len(each.proxy.done)} times): "
            f"heard {len(self.heard(each.id))} times, "
            f"{f'{found[each.id].state.value}: {found[each.id].trouble}' if each.id in found else 'not known'}"
            for each in self.cases
        ]
        return "\n".join([*lines, self.daemon.log[-3000:]])

    def heard(self, identity: str) -> list[Signal]:
        """The results of a deployment that came to the server behind the proxy."""
        at = self._addresses.get(identity, identity)
        places = (f"/v1/{at}?", f"/stacks/{at}/", f"/queues/{at}/")
        return [each for each in (*self.web.signals, *self.cloud.asked) if any(one in each.path for one in places)]

    def results(self, identity: str) -> list[dict[str, Any]]:
        """The same, as objects."""
        return [_result(each) for each in self.heard(identity)]

    def everything(self) -> list[dict[str, Any]]:
        """All results that were heard."""
        return [_result(each) for each in (*self.web.signals, *self.cloud.asked)]

    def kept(self, says: str) -> None:
        """Each result is kept or, where the server has said that it has it, delivered; and it is said why."""
        found = self.entries()
        for case in self.cases:
            entry = found[case.id]
            if entry.state is State.SIGNALLED:
                assert self.heard(case.id), f"{case.fault.name} was taken for a success ({case.way})"
                continue
            assert entry.state is State.FINISHED, self.story()
            assert re.search(says, entry.trouble), f"{case.fault.name} ({case.way}): {entry.trouble}"
        self.explained()

    def explained(self) -> None:
        """Nothing secret is said, nor anything that only a programmer would understand."""
        shown = "".join(
            done.out + done.err for done in (self.daemon.command("status"), self.daemon.command("status", "--json"))
        )
        for text in (shown, self.daemon.log, json.dumps(self.daemon.health())):
            assert SECRET not in text
            assert "Traceback" not in text
            assert not re.search(r"\b[A-Z]\w+(Error|Exception|Reset|Read|Header)\b", text), text

    def over(self) -> None:
        """It is over, and each result that is not refused for good arrives, just as it would have without the fault."""
        for each in self.cases:
            each.proxy.mend()
        self.poke_until(lambda: all(each.settled for each in self.entries().values()))
        found = self.entries()
        for case in self.cases:
            bodies = self.results(case.id)
            assert found[case.id].state is State.SIGNALLED, self.story()
            assert {each["deploy_stdout"] for each in bodies} == {f"{case.id}\n"}, self.story()
            assert {each["deploy_status_code"] for each in bodies} == {0}
            assert len({each.body for each in self.heard(case.id)}) == 1
        assert sorted(ran(self.machine)) == sorted([*self._ran, *(each.id for each in self.cases)])
        self.ends_well()

    def ends_well(self) -> None:
        """The agent is as it was, and has taken no more memory than it may."""
        self.explained()
        assert peak(self.daemon.pid) < MEMORY
        assert self.daemon.stop() == 0

    def poke_until(self, condition: Callable[[], bool]) -> None:
        """Have the agent try again until something is so."""
        last = 0.0

        def poked() -> bool:
            nonlocal last
            if time.monotonic() - last > 1:
                self.daemon.send(signal.SIGUSR1)
                last = time.monotonic()
            return condition()

        self.wait(poked)


def _result(signal: Signal) -> dict[str, Any]:
    value = json.loads(signal.body)
    found = value["messages"][0]["body"] if "messages" in value else value
    assert isinstance(found, dict)
    return found


@pytest.fixture
def servers(daemon: Daemon, machine: Machine) -> Iterator[Servers]:
    """Servers, and an agent that is not started yet."""
    servers = Servers(daemon, machine)
    yield servers
    servers.close()


Tried = Callable[[int], None]


@pytest.mark.fault(
    1,
    "a server that refuses, resets or hangs up, before, in and after a request, or cuts its answer short",
    "the result is kept, and sent again until it is accepted; Heat drops one that it has got already",
)
def test_connections_that_break(servers: Servers, tried: Tried) -> None:
    """What breaks off is tried again, with the very same result."""
    servers.add((*proxy.BREAKS_OFF, *proxy.CUTS_BODY), *WAYS)
    servers.begin()
    servers.kept("refused|reset|hung up|cut short|no HTTP")
    servers.over()
    tried(len(servers.cases))


@pytest.mark.fault(
    3,
    "a server that accepts and never answers, stalls, or trickles its headers or its body",
    "it is given up in time, holds up no other result, and gets its own once it answers",
)
def test_servers_that_hang(servers: Servers, tried: Tried) -> None:
    """Whatever a server says meanwhile, it has so long to come to an end."""
    servers.add((*proxy.HANGS, *proxy.HANGS_IN_BODY), *WAYS)
    servers.begin()
    servers.kept("no answer within|no full answer|took too long")
    servers.over()
    tried(len(servers.cases))


@pytest.mark.fault(
    2,
    "an answer that is none: noise, no HTTP, a web page with 200, headers that contradict each other, 1xx alone",
    "it is no success: the result is kept, it is said why, and it is sent again",
)
def test_answers_that_are_none(servers: Servers, tried: Tried) -> None:
    """Only a success is a success."""
    pages = [each for each in proxy.NO_DOCUMENT if "page" in each.name]
    servers.add((*proxy.NO_HTTP, *proxy.INFORMS, proxy.TWO_LENGTHS))
    servers.add(pages, *WAYS)
    servers.begin()
    servers.kept("no HTTP|HTTP 1|web page|contradict|no answer within|hung up")
    servers.over()
    tried(len(servers.cases))


@pytest.mark.fault(
    1,
    "400, 408, 409, 429, 500 to 504 and others, with every kind of Retry-After",
    "the result is kept, and sent again after as long as the server asked for, an hour at most",
)
def test_servers_that_are_not_ready(servers: Servers, tried: Tried) -> None:
    """What may be otherwise later is tried again later."""
    servers.add((*proxy.for_now(time.time()), *proxy.FOR_AN_HOUR))
    servers.add([proxy.answers(401)], "heat", "zaqar")
    servers.begin()
    servers.kept("^(127.0.0.1:[0-9]+: )?HTTP [0-9]+")
    waits = {each.fault.name: servers.entries()[each.id].not_before - time.time() for each in servers.cases}
    assert all(3000 < waits[each.name] <= 3600 for each in proxy.FOR_AN_HOUR)
    assert max(waits[each.fault.name] for each in servers.cases if each.fault not in proxy.FOR_AN_HOUR) < 5
    servers.over()
    tried(len(servers.cases))


@pytest.mark.fault(
    4,
    "a redirect: to another server, to itself, to a file, to nowhere, of every kind",
    "nobody is followed with a result, so nobody else gets to see it; it is kept, and sent again",
)
def test_redirects(servers: Servers, other: SignalServer, tried: Tried) -> None:
    """A result goes where its deployment says, and nowhere else."""
    servers.add(proxy.redirects(other.origin, servers.web.origin))
    servers.begin()
    servers.kept("^(127.0.0.1:[0-9]+: )?HTTP 30[0-8]")
    assert not other.signals
    assert not [each for each in servers.web.signals if "sound" not in each.path]
    servers.over()
    assert not other.signals
    tried(len(servers.cases))


@pytest.mark.fault(
    5,
    "401, 403, 404, 410, 413 or 422 for a result",
    "it is said that it was refused for good, and it is not sent again until somebody asks for that",
)
def test_servers_that_refuse(servers: Servers, tried: Tried) -> None:
    """What no repetition will change is not repeated."""
    servers.add([proxy.answers(status) for status in proxy.FOR_GOOD], "url")
    servers.add([proxy.answers(status) for status in proxy.FOR_GOOD if status != 401], "heat", "zaqar")
    servers.begin()
    for case in servers.cases:
        entry = servers.entries()[case.id]
        assert entry.state is State.REFUSED, servers.story()
        assert re.fullmatch(f"HTTP {case.fault.name.split()[1]} [A-Z][A-Za-z ]+", entry.trouble)
        assert len(servers.daemon.said(f"{case.id}: its result was refused for good")) == 1
        case.proxy.mend()
    servers.daemon.send(signal.SIGUSR1)
    servers.daemon.command("poke")
    time.sleep(0.5)
    assert not any(servers.heard(each.id) for each in servers.cases)
    servers.ends_well()
    tried(len(servers.cases))


@pytest.fixture
def pem(tmp_path: Path) -> Callable[..., Path]:
    """Make files of certificates, with their key."""

    def make(*certificates: str) -> Path:
        path = tmp_path / f"certificates-{len(list(tmp_path.glob('certificates-*')))}.pem"
        path.write_text("".join([*certificates, KEY]))
        return path

    return make


@pytest.mark.fault(
    4,
    "a certificate that has expired, is of another host or of nobody we know; a TLS handshake that breaks off, hangs "
    "or trickles; HTTP where TLS is spoken, and TLS where HTTP is",
    "nothing is sent to a server that is not known to be the right one; the result is kept, and it is said why",
)
def test_tls(servers: Servers, pem: Callable[..., Path], tried: Tried) -> None:
    """A result is for one server."""
    good, trusted = pem(CERTIFICATE), pem(CERTIFICATE, EXPIRED, ELSEWHERE)
    for name, certificate in {"expired": EXPIRED, "of another host": ELSEWHERE, "of nobody": STRANGER}.items():
        servers.add([Fault(f"has a certificate {name}", proxy.PASS.act)], scheme="https", certificate=pem(certificate))
    servers.add(proxy.HANDSHAKES, scheme="https")
    servers.add([Fault("speaks TLS where HTTP is asked for", proxy.PASS.act)], scheme="http", certificate=good)
    servers.begin(ca_file=str(trusted))
    servers.kept(
        "certificate cannot be trusted|does not speak TLS|no connection within|hung up|reset|no HTTP|no answer"
    )
    assert not any(servers.heard(each.id) for each in servers.cases)
    assert not any(each.proxy.requests for each in servers.cases)
    for each in servers.cases:
        each.proxy.certificate = good if servers.schemes[each.id] == "https" else None
    servers.over()
    tried(len(servers.cases))


@pytest.mark.fault(
    3,
    "an answer of gigabytes, headers without end, gzip bombs, a flood of 100 Continue",
    "little of it is read, memory stays under 200 MB, and the result arrives",
)
def test_answers_that_are_too_much(servers: Servers, tried: Tried) -> None:
    """However much a server says, all at the same time."""
    servers.add((*proxy.HUGE, *proxy.COMPRESSED, *proxy.TOO_MANY_HEADERS))
    servers.begin()
    servers.kept("longer than|cut short|no HTTP|no full answer|no answer|took too long|compressed|more headers|reset")
    assert peak(servers.daemon.pid) < MEMORY
    servers.over()
    tried(len(servers.cases))


@pytest.mark.fault(
    1,
    "201, 202, 204, 205, HTTP/1.0, no length, 100 Continue before it, a connection that is closed unannounced",
    "the result is delivered, and sent once",
)
def test_success_in_other_words(servers: Servers, tried: Tried) -> None:
    """A server may say in its own way that it has a result."""
    servers.add(proxy.UNUSUAL_SUCCESS)
    servers.begin()
    assert all(servers.entries()[each.id].state is State.SIGNALLED for each in servers.cases), servers.story()
    servers.over()
    assert all(len(servers.heard(each.id)) == 1 for each in servers.cases)
    tried(len(servers.cases))


# Keystone.


def _token(name: str, **said: object) -> Fault:
    """A Keystone whose token says that in the place of what is right; dots where it does not say it."""

    def made(reply: proxy.Reply) -> bytes:
        token = {**json.loads(reply.body)["token"], **said}
        body = json.dumps({"token": {key: value for key, value in token.items() if value is not ...}}).encode()
        return proxy.Reply(201, "", reply.headers, body).raw

    return proxy.spoils(name, made, keep=True)


def _catalog(url: object, *, name: str = "") -> Fault:
    """A Keystone whose catalog has that as the URL of every service."""
    catalog = [
        {"type": each, "id": each, "name": each, "endpoints": [{"interface": "public", "region": "direct", "url": url}]}
        for each in ("orchestration", "messaging")
    ]
    return _token(name or f"has {url!r} in its catalog", catalog=catalog)


CATALOGS = (
    *(_catalog(url) for url in (None, 7, "", "file:///etc/passwd", "http://", "http://[::1", "//127.0.0.1/v1")),
    *(_catalog(url) for url in ("http://127.0.0.1:0/", "http://127.0.0.1:99999/v1", "http://x y/", "gopher://a/")),
    _catalog("http://127.0.0.1:9/v1", name="has a host in its catalog where nobody is"),
    _catalog("http://no-such-host.invalid/v1", name="has a host in its catalog that does not exist"),
    _token("has an empty catalog", catalog=[]),
    _token("has no catalog", catalog=...),
    _token("has text as its catalog", catalog="x"),
    _token("has a catalog of nonsense", catalog=[7, {"type": "orchestration"}, {"endpoints": {}}]),
    _token("gives a token that ends in no time", expires_at="soon"),
    _token("gives a token that never ends", expires_at=...),
    _token("gives a token of no date", issued_at=7, expires_at=[]),
    proxy.spoils("gives no token", lambda reply: proxy.Reply(201, "", (), reply.body).raw, keep=True),
    proxy.spoils("gives a token of no object", lambda reply: proxy.Reply(201, "", reply.headers, b"[]").raw, keep=True),
)


@pytest.mark.fault(
    1,
    "Keystone away, hanging, cutting its answers, lost in redirects; tokens and catalogs that are wrong or nonsense",
    "the result is kept, it is said that it is Keystone, and sent again once it lets the user in",
)
def test_keystone(servers: Servers, other: SignalServer, tried: Tried) -> None:
    """Whoever cannot log in comes again."""
    faults = (
        *proxy.BREAKS_OFF[::2],
        *proxy.CUTS_BODY[::2],
        *proxy.HANGS[::2],
        *proxy.HANGS_IN_BODY[::2],
        *proxy.NO_HTTP[::3],
        *proxy.NO_DOCUMENT,
        *(proxy.answers(status) for status in (400, 401, 403, 404, 409, 413, 429, 500, 502, 503)),
        *proxy.redirects(other.origin, servers.cloud.keystone.origin)[::3],
    )
    for number, fault in enumerate((*faults, *CATALOGS)):
        servers.add([fault], ("heat", "zaqar")[number % 2], before="keystone")
    servers.begin()
    servers.kept("Keystone|127.0.0.1:[0-9]+: |no-such-host.invalid: ")
    assert not other.signals
    servers.over()
    tried(len(servers.cases))


@pytest.mark.fault(
    3,
    "Keystone's answers of gigabytes, gzip bombs and headers without end",
    "little of it is read, memory stays under 200 MB, and the result arrives",
)
def test_a_keystone_that_says_too_much(servers: Servers, tried: Tried) -> None:
    """Also before anybody is logged in."""
    servers.add((*proxy.HUGE, *proxy.COMPRESSED, *proxy.TOO_MANY_HEADERS), "heat", before="keystone")
    servers.begin()
    servers.kept("127.0.0.1:[0-9]+: |Keystone")
    servers.over()
    tried(len(servers.cases))


# An answer is for one request.


AHEAD = proxy.Reply().raw
"""An answer to what nobody has asked."""


def _pair(raw: bytes, rest: bytes = b"", *, late: float = 0.0) -> tuple[Fault, Fault]:
    """Do what is asked and answer that; then do nothing, say what was left over, and that it was not done."""
    connections: list[int] = []

    def first(exchange: proxy.Exchange) -> None:
        assert exchange.request
        connections.append(exchange.request.connection)
        exchange.forward()
        time.sleep(late)
        exchange.send(raw)
        exchange.keep = True

    def second(exchange: proxy.Exchange) -> None:
        assert exchange.request
        if exchange.request.connection in connections:
            exchange.send(rest)
        exchange.send(proxy.Reply(503).raw)

    return Fault("has an answer too many", first), Fault("answers 503, after what was left over", second)


def _framed(*lines: str, status: int = 200, body: bytes = b"") -> bytes:
    return proxy.Reply(status).head + "".join(f"{line}\r\n" for line in lines).encode() + b"\r\n" + body


@pytest.mark.fault(
    2,
    "an answer that comes late, twice, with 204, or longer than it says, on a connection that is kept",
    "it is not taken for the answer to the next request",
)
def test_an_answer_is_for_one_request(servers: Servers, tried: Tried) -> None:
    """Of two results for one server the second is kept until it has been heard, whatever came for the first."""
    length = f"Content-Length: {len(AHEAD)}"
    chunks = ("Content-Length: 2", "Transfer-Encoding: chunked")
    pairs = (
        _pair(proxy.Reply().raw + AHEAD),
        _pair(_framed("Content-Length: 2", body=b"{}" + AHEAD)),
        _pair(_framed("Content-Length: 0", body=AHEAD)),
        _pair(_framed(length, status=204, body=AHEAD)),
        _pair(_framed(length, status=204), AHEAD),
        _pair(_framed("Transfer-Encoding: chunked", status=204), b"0\r\n\r\n" + AHEAD),
        _pair(_framed(*chunks, body=b"0\r\n\r\n" + AHEAD)),
        _pair(_framed(*chunks, body=b"0\r\n\r\n"), AHEAD),
        _pair(_framed("Content-Length: 100", body=b"{}"), b" " * 98 + AHEAD),
        _pair(_framed("Content-Length: 9999", body=b"{}"), b" " * 9997 + AHEAD),
        _pair(_framed("Transfer-Encoding: chunked", body=b"2\r\n{}\r\n"), b"0\r\n\r\n" + AHEAD),
        _pair(AHEAD, late=2 * SECONDS),
    )
    for pair in pairs:
        servers.add_pair(pair)
    servers.begin()
    servers.over()
    assert all(each.proxy.done for each in servers.cases)
    tried(len(pairs))


@pytest.mark.fault(
    1,
    "a deployment that is replaced while its server is away, at a URL, at Heat's API and at a queue",
    "the older result is never sent: it would complete the newer action",
)
def test_replaced_meanwhile(servers: Servers, tried: Tried) -> None:
    """Whatever the server did when the result was to be sent."""
    faults = [proxy.REFUSED, proxy.HANGS[1], proxy.HANGS[4], proxy.BREAKS_OFF[4], proxy.answers(503), proxy.NO_HTTP[1]]
    servers.add(faults, *WAYS)
    servers.begin()
    servers.kept(".")
    old = list(servers.cases)
    servers.replace()
    servers.wait(lambda: all(servers.entries()[each.id].state is State.SUPERSEDED for each in old))
    servers.over()
    assert not any(f"{each.id}\n" == value["deploy_stdout"] for each in old for value in servers.everything())
    tried(len(old))


@pytest.mark.torture
@pytest.mark.timeout(0)
@pytest.mark.fault(
    1,
    "several of these faults one after the other, before many servers, chosen at random",
    "each result arrives, the very same one, and is true",
)
def test_random_scripts(tmp_path: Path, tried: Tried) -> None:
    """For as long as `TORTURE_SECONDS` says, or once; `TORTURE_SEED` repeats it."""
    until = time.monotonic() + float(os.environ.get("TORTURE_SECONDS") or 0)
    seed = int(os.environ.get("TORTURE_SEED") or random.SystemRandom().randrange(1, 10**6))
    faults = (
        *(*proxy.BREAKS_OFF[1:], *proxy.CUTS_BODY, *proxy.HANGS, *proxy.HANGS_IN_BODY, *proxy.NO_HTTP),
        *(*proxy.INFORMS, proxy.TWO_LENGTHS, *proxy.TOO_MANY_HEADERS, *proxy.COMPRESSED, *proxy.HUGE),
        *(*proxy.UNUSUAL_SUCCESS, *proxy.NO_DOCUMENT[:2], *proxy.for_now(time.time())),
        *proxy.redirects("http://127.0.0.1:9", "http://127.0.0.1:9"),
    )
    times = 0
    for number in itertools.count(seed):
        folder = tmp_path / str(number)
        folder.mkdir()
        machine = Machine(folder)
        servers = Servers(Daemon(machine), machine)
        try:
            servers.add_scripts(random.Random(number), faults, 20)  # noqa: S311  # it is to be repeatable
            times += sum(len(each.proxy.script) for each in servers.cases)
            servers.begin()
            servers.poke_until(lambda: all(each.settled for each in servers.entries().values()))  # noqa: B023
            servers.over()
        except AssertionError as error:
            raise AssertionError(f"seed {number}: {error}") from None
        finally:
            servers.daemon.end()
            machine.end()
            servers.close()
        if time.monotonic() >= until:
            break
    tried(times)
