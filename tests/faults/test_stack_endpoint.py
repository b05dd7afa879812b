"""Where wait conditions are signalled: there again after an interruption, and silent whatever others send to it."""

from __future__ import annotations

import signal
import socket
import struct
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import psutil
import pytest

from heat_config_stack.lifecycle import endpoint
from support import pace
from support.loopback import wait_until
from support.stacking import LONG, Stacks, ends, listens, signalled

pytestmark = pytest.mark.takes(20)

fault = pytest.mark.fault
LACKING = 10

again = fault(
    2,
    "a stack is interrupted (^C, kill -9) while a script runs that is going to signal its wait condition",
    "the next command is at the same address before anything else: the signal counts, and nothing is run twice",
)


@again
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL], ids=["INT", "KILL"])
@pytest.mark.parametrize("kind", ["plain", "group", "nested", "update"])
def test_an_interrupted_stack_listens_again(
    stacks: Stacks, number: int, kind: str
) -> None:
    """The address that a script got before the interruption works after it."""
    path = template(stacks, kind)
    process = stacks.start(path)
    stacks.address()
    process.send_signal(number)
    ends(process)

    process = stacks.start(path)
    wait_until(lambda: listens(process, stacks.port()), LONG)
    stacks.go.touch()
    done = ends(process)

    assert done.code == 0, done.out + done.err
    assert done.err == ""
    assert stacks.ran.count("sender CREATE") == 1


def template(stacks: Stacks, kind: str) -> Path:
    """Return a template with a wait condition: at its top, in a group, in a nested template, or new in an update."""
    inner = stacks.waiting()
    if kind == "plain":
        return stacks.template(inner)
    if kind == "update":
        stacks.apply(stacks.template(stacks.script("first")))
        return stacks.template({**stacks.script("first"), **inner})
    stacks.template(inner, "inner")
    if kind == "nested":
        return stacks.template({"it": {"type": "inner.yaml"}})
    member = {"count": 1, "resource_def": {"type": "inner.yaml"}}
    return stacks.template(
        {"all": {"type": "OS::Heat::ResourceGroup", "properties": member}}
    )


@again
def test_signal_during_an_interruption_counts(stacks: Stacks) -> None:
    """The time ran out while no process worked on the stack: who goes on hears those first that could not be heard."""
    limit = round(pace.limit(2))
    path = stacks.template(stacks.waiting(timeout=limit))
    interrupt(stacks, path)
    time.sleep(limit + 0.5)

    complete(stacks, path)


@fault(
    2,
    "another program takes the port of an interrupted stack, where scripts signal its wait conditions",
    "the next command names it and does nothing; once that program has ended, the stack continues",
)
def test_used_port_is_reported(stacks: Stacks) -> None:
    """Nothing is begun, and nobody waits in vain: the sentence says who has the port, and what to do."""
    path = stacks.template(stacks.waiting())
    interrupt(stacks, path)
    with taken(stacks.port()):
        done = stacks.apply(path, code=LACKING)
        assert f"the port {stacks.port()} of 127.0.0.1" in done.err
        assert f"the process {psutil.Process().pid} (" in done.err
        assert done.err.count("\n") == 1
        assert stacks("resource", "list", "t", "--json").code == 0, (
            "to look at it takes no port"
        )

    complete(stacks, path)


@fault(
    3,
    "another program keeps the port of an interrupted stack",
    "the stack can be deleted all the same",
)
def test_a_stack_whose_port_is_taken_is_deleted(stacks: Stacks) -> None:
    """A stack can be deleted although its port is taken."""
    path = stacks.template(stacks.waiting())
    interrupt(stacks, path)
    with taken(stacks.port()):
        stacks.go.touch()
        stacks("delete", "t", "--yes")
    assert stacks.state() == ""


def interrupt(stacks: Stacks, path: Path) -> None:
    """Start the stack, and kill the command as soon as the wait condition has an address."""
    process = stacks.start(path)
    stacks.address()
    process.kill()
    ends(process)


def complete(stacks: Stacks, path: Path) -> None:
    """Start the stack again, and let its script go as soon as the command listens at the old port."""
    process = stacks.start(path)
    wait_until(lambda: listens(process, stacks.port()), LONG)
    stacks.go.touch()
    assert ends(process).code == 0
    assert stacks.ran == ["sender CREATE"]


@contextmanager
def taken(port: int) -> Iterator[None]:
    """Have this process listen at a port."""
    with closing(socket.socket()) as mine:
        mine.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        wait_until(lambda: mine.connect_ex(("127.0.0.1", port)) != 0, LONG)
    with closing(socket.create_server(("127.0.0.1", port))):
        yield


# What others send.


def request(head: str, body: bytes = b"") -> bytes:
    """Return a request, whose lines are divided by newlines alone in `head`."""
    return head.strip().replace("\n", "\r\n").encode() + b"\r\n\r\n" + body


def attacks(path: str, token: str) -> dict[str, bytes]:
    """Return requests other than signals, by their kind."""
    mine = f"POST {path} HTTP/1.1\nX-Auth-Token: {token}\n"
    return {
        "nothing": b"",
        "half a line": b"POST /sig",
        "garbage": bytes(range(256)) * 20,
        "TLS": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(500),
        "a long line": b"POST /" + b"x" * 100_000,
        "many headers": b"POST / HTTP/1.1\r\n" + b"a: b\r\n" * 20_000,
        "half a header": b"POST / HTTP/1.1\r\nX-Auth-Tok",
        "no version": b"POST /\r\n\r\n",
        "another method": request(f"DELETE {path} HTTP/1.1"),
        "no token": request(f"POST {path} HTTP/1.1\nContent-Length: 2", b"{}"),
        "a token that is no text": request(
            f"POST {path} HTTP/1.1\nX-Auth-Token: \xff\xfe\nContent-Length: 0"
        ),
        "a body that is cut short": request(
            f"{mine}Content-Length: 50", b'{"status": "SUC'
        ),
        "no body where one was announced": request(f"{mine}Content-Length: 50"),
        "a body of unknown length": request(
            f"{mine}Transfer-Encoding: chunked", b"2\r\n{}\r\n0\r\n\r\n"
        ),
        "two lengths": request(f"{mine}Content-Length: 0\nContent-Length: 2", b"{}"),
        "a negative length": request(f"{mine}Content-Length: -1"),
        "a length that is no number": request(f"{mine}Content-Length: ²"),
        "a length beyond all": request(f"{mine}Content-Length: {'9' * 5000}"),
        "too much": request(f"{mine}Content-Length: {1 << 30}", b" " * 300_000),
        "no JSON": request(f"{mine}Content-Length: 3", b"{]}"),
        "no text": request(f"{mine}Content-Length: 2", b"\xff\xfe"),
        "nested": request(f"{mine}Content-Length: 60000", b"[" * 60_000),
        "no number": request(f"{mine}Content-Length: 12", b'{"data":NaN}'),
        "no map": request(
            f"{mine}Content-Length: 3", b"[1]"
        ),  # Heat takes an empty list for an empty signal
        "another status": request(f"{mine}Content-Length: 18", b'{"status":"MAYBE"}'),
        "a status that is no text": request(
            f"{mine}Content-Length: 13", b'{"status":{}}'
        ),
    }


def attack(port: int, sent: bytes, *, reset: bool) -> bytes:
    """Connect, send, and go: by a reset, or after the answer, if any comes at once."""
    with closing(socket.create_connection(("127.0.0.1", port), timeout=LONG)) as made:
        try:
            made.sendall(sent)
            if reset:
                made.setsockopt(
                    socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0)
                )
                return b""
            made.shutdown(socket.SHUT_WR)
            return made.recv(4096)
        except ConnectionError:  # it was refused before all was sent
            return b""


@fault(
    3,
    "resets, garbage, endless and half requests, bodies cut short, no JSON, where wait conditions are signalled",
    "nothing of it counts as a signal or is printed; true signals come through",
)
def test_invalid_signal_has_no_effect(
    stacks: Stacks, tried: Callable[[int], None]
) -> None:
    """Nothing is printed, nothing counts, no threads are begun; what is a signal does count, in the midst of it all."""
    process = stacks.start(stacks.template(stacks.waiting()))
    address, token = stacks.address()
    port = stacks.port()
    sent = attacks(
        f"/{address.partition('/signal/')[1].strip('/')}/{address.rpartition('/')[2]}",
        token,
    )
    for name, each in sent.items():
        attack(port, each, reset=True)
        answer = attack(port, each, reset=False)
        assert not answer.startswith(b"HTTP/1.1 200"), name
        assert process.poll() is None, name
    assert psutil.Process(process.pid).num_threads() == 1

    assert signalled(address, token) == 200
    stacks.go.touch()
    done = ends(process)
    assert (done.code, done.err) == (0, "")
    tried(2 * len(sent))


@fault(
    3,
    "hundreds of connections where wait conditions are signalled, which say nothing, or a byte now and then",
    "a bounded number is held at once; true signals come through at once",
)
def test_connections_that_are_held(
    stacks: Stacks, tried: Callable[[int], None]
) -> None:
    """A client that sends nothing makes room for clients that do."""
    process = stacks.start(stacks.template(stacks.waiting()))
    address, token = stacks.address()
    held = []
    try:
        for number in range(300):
            held.append(
                socket.create_connection(("127.0.0.1", stacks.port()), timeout=LONG)
            )
            held[-1].send(b"POST /signal"[: number % 12])
        assert signalled(address, token) == 200
        at_once = psutil.Process(process.pid).num_fds()
        assert at_once < endpoint.CONNECTIONS + 60
    finally:
        for each in held:
            each.close()
    stacks.go.touch()
    done = ends(process)
    assert (done.code, done.err) == (0, "")
    tried(len(held))


@fault(
    2,
    "a script signals a failure in a request that is cut short, or of unknown length",
    "it is not taken for a success: only a whole signal counts",
)
def test_truncated_signal_is_refused() -> None:
    """A body of which nothing has come is not the empty body that means success."""
    heard: list[object] = []
    with closing(endpoint.Endpoint()) as server:
        server.expect("h", "secret")
        head = "POST /signal/h HTTP/1.1\nX-Auth-Token: secret\n"
        for each in (
            request(f"{head}Content-Length: 20"),
            request(f"{head}Transfer-Encoding: chunked"),
        ):
            with closing(
                socket.create_connection(("127.0.0.1", server.port))
            ) as sender:
                sender.sendall(each)
                sender.shutdown(socket.SHUT_WR)
                for _ in range(20):
                    server.take(lambda *said: heard.append(said))
                    time.sleep(0.01)
        assert heard == []
        with closing(socket.create_connection(("127.0.0.1", server.port))) as sender:
            sender.sendall(request(f"{head}Content-Length: 4", b"{"))
            server.take(lambda *said: heard.append(said))
            sender.sendall(b"  }")
            deadline = time.monotonic() + pace.seconds(LONG)
            while not heard:
                assert time.monotonic() < deadline
                server.take(lambda *said: heard.append(said))
            assert sender.recv(100).startswith(b"HTTP/1.1 200 OK\r\n")
    assert heard == [("h", {})]
