"""Ports for programs that cannot choose one themselves and say which it is."""

from __future__ import annotations

import socket


def reserved() -> int:
    """Return a port of 127.0.0.1 that a program with SO_REUSEADDR may listen on, and nobody else gets.

    A socket that does not listen keeps the port until this process ends: the kernel gives it to no other socket that
    asks for any port, neither here nor in another run of the tests.
    """
    place = socket.socket()
    place.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    place.bind(("127.0.0.1", 0))
    port = int(place.getsockname()[1])
    place.detach()
    return port
