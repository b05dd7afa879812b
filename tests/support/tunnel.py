"""A proxy that connects to whatever server it is told, and hands on bytes: what `https_proxy` names."""

from __future__ import annotations

import contextlib
import socket
import threading

from support import pace


class Tunnel:
    """It counts its connections."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        """Each server that it was told to connect to."""
        self.open = 0
        """The number of connections that are open now."""
        self._count = threading.Lock()
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def origin(self) -> str:
        """Scheme, host and port."""
        return f"http://127.0.0.1:{self._listener.getsockname()[1]}"

    def close(self) -> None:
        """Take no more connections."""
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                threading.Thread(
                    target=self._serve, args=(client,), daemon=True
                ).start()

    def _serve(self, client: socket.socket) -> None:
        self._counted(1)
        with (
            contextlib.suppress(OSError, ValueError),
            client,
            client.makefile("rb") as said,
        ):
            verb, where, _ = said.readline().decode("latin-1").split()
            assert verb == "CONNECT"
            self.asked.append(where)
            while said.readline().strip():
                pass
            host, _, port = where.rpartition(":")
            with socket.create_connection(
                (host, int(port)), timeout=pace.seconds(10)
            ) as server:
                server.settimeout(None)
                client.sendall(b"HTTP/1.1 200 Connected\r\n\r\n")
                answers = threading.Thread(
                    target=_hand_on, args=(server, client), daemon=True
                )
                answers.start()
                _hand_on(client, server)
                answers.join()
        self._counted(-1)

    def _counted(self, change: int) -> None:
        with self._count:
            self.open += change


def _hand_on(there: socket.socket, here: socket.socket) -> None:
    """Hand on what comes from there; when that ends, nothing more goes either way."""
    with contextlib.suppress(OSError):
        while data := there.recv(65536):
            here.sendall(data)
    for each in (here, there):
        with contextlib.suppress(OSError):
            each.shutdown(socket.SHUT_RDWR)
