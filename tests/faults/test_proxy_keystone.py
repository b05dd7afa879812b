"""A Keystone, behind a proxy that breaks what it says: every result arrives."""

from __future__ import annotations

import json

import pytest

from support import proxy, proxy_faults
from support.loopback import SignalServer
from support.proxy import Fault
from support.result_servers import Servers, Tried

pytestmark = pytest.mark.takes(20)


def _token(name: str, **said: object) -> Fault:
    """A Keystone whose token says that in the place of what is right; dots where it does not say it."""

    def made(reply: proxy.Reply) -> bytes:
        token = {**json.loads(reply.body)["token"], **said}
        body = json.dumps(
            {"token": {key: value for key, value in token.items() if value is not ...}}
        ).encode()
        return proxy.Reply(201, "", reply.headers, body).raw

    return proxy_faults.spoils(name, made, keep=True)


def _catalog(url: object, *, name: str = "") -> Fault:
    """A Keystone whose catalog has that as the URL of every service."""
    catalog = [
        {
            "type": each,
            "id": each,
            "name": each,
            "endpoints": [{"interface": "public", "region": "direct", "url": url}],
        }
        for each in ("orchestration", "messaging")
    ]
    return _token(name or f"has {url!r} in its catalog", catalog=catalog)


CATALOGS = (
    *(
        _catalog(url)
        for url in (
            None,
            7,
            "",
            "file:///etc/passwd",
            "http://",
            "http://[::1",
            "//127.0.0.1/v1",
        )
    ),
    *(
        _catalog(url)
        for url in (
            "http://127.0.0.1:0/",
            "http://127.0.0.1:99999/v1",
            "http://x y/",
            "gopher://a/",
        )
    ),
    _catalog("http://127.0.0.1:9/v1", name="has a host in its catalog where nobody is"),
    _catalog(
        "http://no-such-host.invalid/v1",
        name="has a host in its catalog that does not exist",
    ),
    _token("has an empty catalog", catalog=[]),
    _token("has no catalog", catalog=...),
    _token("has text as its catalog", catalog="x"),
    _token(
        "has a catalog of nonsense",
        catalog=[7, {"type": "orchestration"}, {"endpoints": {}}],
    ),
    _token("gives a token that ends in no time", expires_at="soon"),
    _token("gives a token that never ends", expires_at=...),
    _token("gives a token of no date", issued_at=7, expires_at=[]),
    proxy_faults.spoils(
        "gives no token",
        lambda reply: proxy.Reply(201, "", (), reply.body).raw,
        keep=True,
    ),
    proxy_faults.spoils(
        "gives a token of no object",
        lambda reply: proxy.Reply(201, "", reply.headers, b"[]").raw,
        keep=True,
    ),
)


@pytest.mark.fault(
    1,
    "Keystone away, hanging, cutting its answers, lost in redirects; tokens and catalogs that are wrong or nonsense",
    "the result is kept, a sentence names Keystone, and the result is sent again once Keystone accepts the login",
)
def test_results_arrive_though_keystone_fails(
    servers: Servers, other: SignalServer, tried: Tried
) -> None:
    """After a failed login the agent tries again, and the results arrive."""
    faults = (
        *proxy_faults.BREAKS_OFF[::2],
        *proxy_faults.CUTS_BODY[::2],
        *proxy_faults.HANGS[::2],
        *proxy_faults.HANGS_IN_BODY[::2],
        *proxy_faults.NO_HTTP[::3],
        *proxy_faults.NO_DOCUMENT,
        *(
            proxy_faults.answers(status)
            for status in (400, 401, 403, 404, 409, 413, 429, 500, 502, 503)
        ),
        *proxy_faults.redirects(other.origin, servers.cloud.keystone.origin)[::3],
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
def test_long_answer_of_keystone_is_cut_off(servers: Servers, tried: Tried) -> None:
    """Too long an answer of Keystone is cut off before the login too."""
    servers.add(
        (*proxy_faults.HUGE, *proxy_faults.COMPRESSED, *proxy_faults.TOO_MANY_HEADERS),
        "heat",
        before="keystone",
    )
    servers.begin()
    servers.kept("127.0.0.1:[0-9]+: |Keystone")
    servers.over()
    tried(len(servers.cases))
