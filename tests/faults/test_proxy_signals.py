"""Servers that take results, behind a proxy that breaks what they say: every result arrives, and only once that is so.

Each fault has a proxy of its own, and all of them one agent: what one server does must not matter to another. Results
go to a URL, to Heat's API and to a Zaqar queue.
"""

from __future__ import annotations

import re
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from heat_config_agent.model.entry import State
from support import proxy, proxy_faults
from support.certificates import CERTIFICATE, ELSEWHERE, EXPIRED, KEY, STRANGER
from support.hasty import peak
from support.loopback import SignalServer
from support.proxy import Fault
from support.result_servers import MEMORY, WAYS, Servers, Tried

pytestmark = pytest.mark.takes(20)


@pytest.mark.fault(
    1,
    "a server that refuses, resets or hangs up, before, in and after a request, or cuts its answer short",
    "the result is kept, and sent again until it is accepted; Heat drops one that it has got already",
)
def test_results_arrive_over_connections_that_break(
    servers: Servers, tried: Tried
) -> None:
    """A broken request is repeated with the same result."""
    servers.add((*proxy_faults.BREAKS_OFF, *proxy_faults.CUTS_BODY), *WAYS)
    servers.begin()
    servers.kept("refused|reset|hung up|cut short|not HTTP")
    assert not [
        each
        for each in servers.cases
        if servers.entries()[each.id].state is State.SIGNALLED
    ]
    servers.over()
    tried(len(servers.cases))


@pytest.mark.fault(
    3,
    "a server that accepts and never answers, stalls, or trickles its headers or its body",
    "it is given up in time, holds up no other result, and gets its own once it answers",
)
def test_results_arrive_at_servers_that_hang(servers: Servers, tried: Tried) -> None:
    """A request for a result has a deadline, even if the server keeps sending something."""
    servers.add((*proxy_faults.HANGS, *proxy_faults.HANGS_IN_BODY), *WAYS)
    servers.begin()
    servers.kept("no answer within|no full answer|took too long|broke off")
    assert not [
        each
        for each in servers.cases
        if servers.entries()[each.id].state is State.SIGNALLED
    ]
    servers.over()
    tried(len(servers.cases))


@pytest.mark.fault(
    2,
    "an answer that cannot be one: noise, no HTTP, a web page with 200, headers that contradict each other, 1xx alone",
    "it does not count as a success: the result is kept, the reason is shown, and the result is sent again",
)
def test_invalid_answer_does_not_count_as_accepted(
    servers: Servers, tried: Tried
) -> None:
    """Only an answer with a status of success counts as success."""
    pages = [each for each in proxy_faults.NO_DOCUMENT if "page" in each.name]
    servers.add(
        (*proxy_faults.NO_HTTP, *proxy_faults.INFORMS, proxy_faults.TWO_LENGTHS)
    )
    servers.add(pages, *WAYS)
    servers.begin()
    servers.kept(
        "not HTTP|HTTP 1|web page|contradict|no answer within|no full answer|hung up"
    )
    servers.over()
    tried(len(servers.cases))


@pytest.mark.fault(
    1,
    "400, 408, 409, 429, 500 to 504 and others, with every kind of Retry-After",
    "the result is kept, and sent again after as long as the server asked for, an hour at most",
)
def test_results_arrive_at_servers_that_were_not_ready(
    servers: Servers, tried: Tried
) -> None:
    """An answer that may change later is followed by another attempt."""
    servers.add((*proxy_faults.for_now(time.time()), *proxy_faults.FOR_AN_HOUR))
    servers.add([proxy_faults.answers(401)], "heat", "zaqar")
    servers.begin()
    servers.kept("^(127.0.0.1:[0-9]+: )?HTTP [0-9]+")
    waits = {
        each.fault.name: servers.entries()[each.id].not_before - time.time()
        for each in servers.cases
    }
    assert all(3000 < waits[each.name] <= 3600 for each in proxy_faults.FOR_AN_HOUR)
    assert (
        max(
            waits[each.fault.name]
            for each in servers.cases
            if each.fault not in proxy_faults.FOR_AN_HOUR
        )
        < 5
    )
    servers.over()
    tried(len(servers.cases))


@pytest.mark.fault(
    1,
    "401 or 403 for a result, for a moment or for more than an hour",
    "it is sent again with growing pauses for an hour, and is refused for good only after that",
)
def test_results_arrive_at_servers_that_deny_access_for_a_while(
    servers: Servers, tried: Tried
) -> None:
    """A user of Heat's may have lost its role, and Swift may not know the keys of an account."""
    servers.add([proxy_faults.answers(401)], "url")
    servers.add([proxy_faults.answers(403)], *WAYS)
    servers.begin()
    servers.kept("^HTTP 40[13] [A-Z]")
    assert not servers.daemon.said("refused for good")
    servers.over()
    tried(len(servers.cases))


@pytest.mark.fault(
    4,
    "a redirect: to another server, to itself, to a file, to nowhere, of every kind",
    "no redirect is followed, so no other server sees the result; it is kept, and sent again",
)
def test_results_do_not_follow_redirects(
    servers: Servers, other: SignalServer, tried: Tried
) -> None:
    """A result goes where its deployment says, and nowhere else."""
    servers.add(proxy_faults.redirects(other.origin, servers.web.origin))
    servers.begin()
    servers.kept("^(127.0.0.1:[0-9]+: )?HTTP 30[0-8]")
    assert not other.signals
    assert not [each for each in servers.web.signals if "sound" not in each.path]
    servers.over()
    assert not other.signals
    tried(len(servers.cases))


@pytest.mark.fault(
    5,
    "404, 410, 413 or 422 for a result",
    "a sentence says that it was refused for good, and it is not sent again until `retry` asks for that",
)
def test_final_refusal_is_not_retried(servers: Servers, tried: Tried) -> None:
    """A final refusal is not followed by another attempt."""
    servers.add(
        [proxy_faults.answers(status) for status in proxy_faults.FOR_GOOD], *WAYS
    )
    servers.begin()
    for case in servers.cases:
        entry = servers.entries()[case.id]
        assert entry.state is State.REFUSED, servers.story()
        assert re.fullmatch(
            f"HTTP {case.fault.name.split()[1]} [A-Z][A-Za-z ]+", entry.trouble
        )
        assert (
            len(servers.daemon.said(f"{entry.title}: the result was refused for good"))
            == 1
        )
        case.proxy.mend()
    servers.daemon.send(signal.SIGUSR1)
    servers.daemon.command("poll")
    time.sleep(0.5)
    assert not any(servers.heard(each.id) for each in servers.cases)
    servers.ends_well()
    tried(len(servers.cases))


@pytest.fixture
def pem(tmp_path: Path) -> Callable[..., Path]:
    """Make files of certificates, with their key."""

    def make(*certificates: str) -> Path:
        path = (
            tmp_path / f"certificates-{len(list(tmp_path.glob('certificates-*')))}.pem"
        )
        path.write_text("".join([*certificates, KEY]))
        return path

    return make


@pytest.mark.fault(
    4,
    "a certificate that has expired, is of another host or of an unknown authority; a TLS handshake that breaks off, "
    "hangs or trickles; HTTP where TLS is expected, and the other way round",
    "nothing is sent to a server that is not verified; the result is kept, and the reason is shown",
)
def test_results_go_only_to_servers_with_the_right_certificate(
    servers: Servers, pem: Callable[..., Path], tried: Tried
) -> None:
    """A result is for one server."""
    good, trusted = pem(CERTIFICATE), pem(CERTIFICATE, EXPIRED, ELSEWHERE)
    for name, certificate in {
        "expired": EXPIRED,
        "of another host": ELSEWHERE,
        "of nobody": STRANGER,
    }.items():
        servers.add(
            [Fault(f"has a certificate {name}", proxy.PASS.act)],
            scheme="https",
            certificate=pem(certificate),
        )
    servers.add(proxy_faults.HANDSHAKES, scheme="https")
    servers.add(
        [Fault("speaks TLS where HTTP is asked for", proxy.PASS.act)],
        scheme="http",
        certificate=good,
    )
    servers.begin(ca_file=str(trusted))
    servers.kept(
        "certificate cannot be trusted|TLS handshake failed|no connection within|hung up|reset|not HTTP|no answer"
        "|no full answer in time"  # of a handshake that trickles, when that is noticed late
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
def test_a_huge_answer_to_a_signal_does_no_harm(servers: Servers, tried: Tried) -> None:
    """All servers send too much at the same time."""
    servers.add(
        (*proxy_faults.HUGE, *proxy_faults.COMPRESSED, *proxy_faults.TOO_MANY_HEADERS)
    )
    servers.begin()
    servers.kept(
        "longer than|cut short|not HTTP|no full answer|no answer|took too long|compressed|more headers|reset"
    )
    assert peak(servers.daemon.pid) < MEMORY
    servers.over()
    tried(len(servers.cases))


@pytest.mark.fault(
    1,
    "201, 202, 204, 205, HTTP/1.0, no length, 100 Continue before it, a connection that is closed unannounced",
    "the result is delivered, and sent once",
)
def test_any_wording_of_success_counts(servers: Servers, tried: Tried) -> None:
    """A server may say in its own way that it has a result."""
    servers.add(proxy_faults.UNUSUAL_SUCCESS)
    servers.begin()
    assert all(
        servers.entries()[each.id].state is State.SIGNALLED for each in servers.cases
    ), servers.story()
    servers.over()
    assert all(len(servers.heard(each.id)) == 1 for each in servers.cases)
    tried(len(servers.cases))
