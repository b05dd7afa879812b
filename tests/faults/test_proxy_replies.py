"""Replies that come early, late or at random: each belongs to one request, and every result arrives."""

from __future__ import annotations

import itertools
import os
import random
import time
from pathlib import Path

import pytest

from heat_config_agent.model.entry import State
from support import proxy, proxy_faults
from support.daemon import Daemon
from support.hasty import SECONDS
from support.machine import Machine
from support.proxy import Fault
from support.result_servers import WAYS, Servers, Tried

pytestmark = pytest.mark.takes(20)

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

    return Fault("has an answer too many", first), Fault(
        "answers 503, after what was left over", second
    )


def _framed(*lines: str, status: int = 200, body: bytes = b"") -> bytes:
    return (
        proxy.Reply(status).head
        + "".join(f"{line}\r\n" for line in lines).encode()
        + b"\r\n"
        + body
    )


@pytest.mark.fault(
    2,
    "an answer that comes late, twice, with 204, or longer than it says, on a connection that is kept",
    "it is not taken for the answer to the next request",
)
def test_an_answer_is_for_one_request(servers: Servers, tried: Tried) -> None:
    """The second of two results for one server is kept until it has been heard, whatever came for the first."""
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
        _pair(
            _framed("Transfer-Encoding: chunked", body=b"2\r\n{}\r\n"),
            b"0\r\n\r\n" + AHEAD,
        ),
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
def test_results_of_replaced_deployments_are_not_sent(
    servers: Servers, tried: Tried
) -> None:
    """The result of a replaced deployment is not sent, whatever the server answered before."""
    faults = [
        proxy.REFUSED,
        proxy_faults.HANGS[1],
        proxy_faults.HANGS[4],
        proxy_faults.BREAKS_OFF[4],
        proxy_faults.answers(503),
        proxy_faults.NO_HTTP[1],
    ]
    servers.add(faults, *WAYS)
    servers.begin()
    servers.kept(".")
    old = list(servers.cases)
    servers.replace()
    servers.wait(
        lambda: all(
            servers.entries()[each.id].state is State.SUPERSEDED for each in old
        )
    )
    servers.over()
    assert not any(
        f"{each.id}\n" == value["deploy_stdout"]
        for each in old
        for value in servers.everything()
    )
    tried(len(old))


@pytest.mark.torture
@pytest.mark.timeout(0)
@pytest.mark.fault(
    1,
    "several of these faults one after the other, before many servers, chosen at random",
    "each result arrives unchanged, and is true",
)
def test_results_arrive_whatever_servers_do_in_random_order(
    tmp_path: Path, tried: Tried, seconds: float
) -> None:
    """For as long as its share of `make torture`, or once; `TORTURE_SEED` repeats it."""
    until = time.monotonic() + seconds
    seed = int(
        os.environ.get("TORTURE_SEED") or random.SystemRandom().randrange(1, 10**6)
    )
    faults = (
        *(
            *proxy_faults.BREAKS_OFF[1:],
            *proxy_faults.CUTS_BODY,
            *proxy_faults.HANGS,
            *proxy_faults.HANGS_IN_BODY,
            *proxy_faults.NO_HTTP,
        ),
        *(
            *proxy_faults.INFORMS,
            proxy_faults.TWO_LENGTHS,
            *proxy_faults.TOO_MANY_HEADERS,
            *proxy_faults.COMPRESSED,
            *proxy_faults.HUGE,
        ),
        *(
            *proxy_faults.UNUSUAL_SUCCESS,
            *proxy_faults.NO_DOCUMENT[:2],
            *proxy_faults.for_now(time.time()),
        ),
        *proxy_faults.redirects("http://127.0.0.1:9", "http://127.0.0.1:9"),
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
            servers.poke_until(
                lambda: all(each.settled for each in servers.entries().values())  # noqa: B023
            )
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
