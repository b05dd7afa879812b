"""The handshake of a websocket with a server that answers without end."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator

import pytest

from heat_config_agent.model.errors import UnreachableError

websocket = pytest.importorskip(
    "heat_config_agent.sources.cloud.websocket",
    reason="websocket-client is not installed",
)

ENDLESS = {
    "status line": (b"HTTP/1.1 101 ", b"x" * 1024),
    "one header": (b"HTTP/1.1 101 Switching Protocols\r\nX: ", b"x" * 1024),
    "headers": (b"HTTP/1.1 101 Switching Protocols\r\n", b"X: y\r\n" * 100),
    "body of a refusal": (
        b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 1000000000\r\n\r\n",
        b"x" * 1024,
    ),
}


@pytest.fixture(params=list(ENDLESS.values()), ids=list(ENDLESS))
def port(request: pytest.FixtureRequest) -> Iterator[int]:
    """Return the port of a server that begins an answer and never ends it."""
    begin, more = request.param
    server = socket.create_server(("127.0.0.1", 0))

    def answer() -> None:
        with contextlib.suppress(OSError):
            connection, _ = server.accept()
            with connection:
                connection.recv(65536)
                connection.sendall(begin)
                while True:
                    connection.sendall(more)

    thread = threading.Thread(target=answer)
    thread.start()
    yield server.getsockname()[1]
    server.close()
    thread.join()


@pytest.mark.fault(
    3,
    "Zaqar answers the handshake of a websocket with a line, headers or a body without end",
    "the connection is given up after 64 KiB",
)
def test_answer_to_a_handshake_is_limited(port: int) -> None:
    """Neither memory nor a processor is used up."""
    connection = websocket._Connection()  # noqa: SLF001  # a listener would begin again and again
    with pytest.raises(UnreachableError, match="longer than 64 KiB"):
        connection.connect(f"ws://127.0.0.1:{port}/", timeout=20, http_no_proxy=["*"])
