"""A server on loopback, in a process of its own: it takes signals, hands out documents and counts, at little cost.

    POST, PUT /anything      200: a signal
    GET /count               what was counted, as JSON; neither this nor its connection is counted
    GET /plain/FILE/…        the file, whatever follows its name
    GET /tagged/FILE/…       with an ETag; 304 to who has it
    GET /dated/FILE/…        with Last-Modified; 304 to who has it

`running` starts it. Not `http.server`: that takes longer for a request than what is measured.
"""

from __future__ import annotations

import argparse
import contextlib
import email.utils
import json
import re
import selectors
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path


@dataclass
class Count:
    """The number of requests and connections that have reached a server."""

    requests: int = 0
    connections: int = 0
    """On which there was a request."""
    signals: int = 0
    """Requests with POST or PUT."""
    successes: int = 0
    """Signals with the deploy_status_code 0."""
    unchanged: int = 0
    """Answers 304."""
    received: int = 0
    """Bytes of the bodies of signals."""

    def __sub__(self, before: Count) -> Count:
        """Return what has come since then."""
        return Count(
            **{
                name: value - getattr(before, name)
                for name, value in asdict(self).items()
            }
        )


class Running:
    """A server that runs."""

    def __init__(self, port: int) -> None:
        self.port = port

    def url(self, path: str) -> str:
        """Return the URL of a path, for example "signal/d1" or "tagged/document.json"."""
        return f"http://127.0.0.1:{self.port}/{path}"

    def count(self) -> Count:
        """Return what it has counted until now."""
        with urllib.request.urlopen(self.url("count"), timeout=10) as answer:  # noqa: S310  # our own
            return Count(**json.load(answer))

    @contextlib.contextmanager
    def expecting(self, successes: int) -> Iterator[None]:
        """Have so many successes signalled meanwhile, and nothing else: otherwise the work was not done."""
        before = self.count()
        yield
        came = self.count() - before
        assert (came.signals, came.successes) == (successes, successes), (
            f"expected {successes} successes: {came}"
        )


@contextlib.contextmanager
def running(folder: Path) -> Iterator[Running]:
    """Run a server that hands out this folder's files; its port is written into a file beside it."""
    told = folder.with_name(f"{folder.name}.port")
    told.unlink(missing_ok=True)
    folder.mkdir(parents=True, exist_ok=True)
    process = subprocess.Popen(
        [sys.executable, __file__, "--port-file", told, "--documents", folder]
    )
    try:
        end = time.monotonic() + 10
        while not told.exists():
            assert process.poll() is None, "the server did not start"
            assert time.monotonic() < end, "the server did not start within ten seconds"
            time.sleep(0.01)
        yield Running(int(told.read_text()))
    finally:
        process.terminate()
        process.wait()


_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
_TAG = re.compile(rb"\r\nif-none-match: *([^\r]*)", re.IGNORECASE)
_SINCE = re.compile(rb"\r\nif-modified-since: *([^\r]*)", re.IGNORECASE)
_SUCCESS = re.compile(rb'"deploy_status_code": ?"?0"?\s*[,}]')
_DONE = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 4\r\n\r\nnull"


@dataclass
class _Connection:
    socket: socket.socket
    received: bytearray = field(default_factory=bytearray)
    counted: bool = False


class _Server:
    def __init__(self, documents: Path) -> None:
        self._documents = documents
        self._read: dict[str, tuple[tuple[int, int, int], bytes]] = {}
        """Files that were handed out: their state on disk, and what is in them."""
        self._count = Count()
        self._listening = socket.create_server(("127.0.0.1", 0), backlog=1024)
        self.port: int = self._listening.getsockname()[1]

    def serve(self) -> None:
        """Answer, for ever."""
        selector = selectors.DefaultSelector()
        selector.register(self._listening, selectors.EVENT_READ)
        while True:
            for key, _ in selector.select():
                if key.data is None:
                    accepted, _ = self._listening.accept()
                    accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                    selector.register(
                        accepted, selectors.EVENT_READ, _Connection(accepted)
                    )
                elif not self._more(key.data):
                    selector.unregister(key.data.socket)
                    key.data.socket.close()

    def _more(self, connection: _Connection) -> bool:
        """Take in what has come, and answer what is complete. Return whether the connection is still there."""
        try:
            got = connection.socket.recv(1 << 20)
            if not got:
                return False
            connection.received += got
            while answer := self._answer(connection):
                connection.socket.sendall(answer)
        except OSError:
            return False
        return True

    def _answer(self, connection: _Connection) -> bytes:
        """Return the answer to the first complete request, and forget that; nothing if there is none."""
        received = connection.received
        end = received.find(b"\r\n\r\n")
        if end < 0:
            return b""
        head = bytes(received[:end])
        length = _LENGTH.search(head)
        whole = end + 4 + (int(length[1]) if length else 0)
        if len(received) < whole:
            return b""
        body = bytes(received[end + 4 : whole])
        del received[:whole]
        verb, target, _ = head.split(b" ", 2)
        if target == b"/count":
            return _answered("200 OK", json.dumps(asdict(self._count)).encode())
        self._count.requests += 1
        if not connection.counted:
            connection.counted = True
            self._count.connections += 1
        if verb in (b"POST", b"PUT"):
            self._count.signals += 1
            self._count.received += len(body)
            self._count.successes += bool(_SUCCESS.search(body))
            return _DONE
        return self._document(verb, target.decode(), head)

    def _document(self, verb: bytes, target: str, head: bytes) -> bytes:
        kind, _, rest = target.partition("?")[0].lstrip("/").partition("/")
        name = rest.partition("/")[0]
        try:
            stat = (self._documents / name).stat()
            state = (stat.st_ino, stat.st_size, stat.st_mtime_ns)
            document = self._read.get(name)
            if document is None or document[0] != state:
                document = self._read[name] = (
                    state,
                    (self._documents / name).read_bytes(),
                )
        except OSError:
            return _answered("404 Not Found", b"")
        validator = ""
        if kind == "tagged":
            tag = f'"{state[2]:x}-{state[1]:x}"'
            validator = f"ETag: {tag}\r\n"
            had = (found := _TAG.search(head)) is not None and found[1].decode() == tag
        elif kind == "dated":
            date = email.utils.formatdate(stat.st_mtime, usegmt=True)
            validator = f"Last-Modified: {date}\r\n"
            had = (found := _SINCE.search(head)) is not None and found[
                1
            ].decode() == date
        else:
            had = False
        if had:
            self._count.unchanged += 1
            return f"HTTP/1.1 304 Not Modified\r\n{validator}\r\n".encode()
        return _answered("200 OK", document[1], validator, only_head=verb == b"HEAD")


def _answered(
    status: str, body: bytes, more: str = "", *, only_head: bool = False
) -> bytes:
    head = f"HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n{more}\r\n"
    return head.encode() + (b"" if only_head else body)


def main() -> None:
    """Serve, until killed."""
    parser = argparse.ArgumentParser()
    parser.add_argument(
        "--port-file", type=Path, required=True, help="where to write the port"
    )
    parser.add_argument(
        "--documents", type=Path, required=True, help="a folder with files to hand out"
    )
    options = parser.parse_args()
    server = _Server(options.documents)
    partial = options.port_file.with_suffix(".new")
    partial.write_text(str(server.port))
    partial.replace(options.port_file)
    server.serve()


if __name__ == "__main__":
    main()
