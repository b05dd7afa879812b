"""OpenStack's metadata service at its link-local address of IPv6, in a network namespace; by itself, its server.

The server answers GET with the file of that name in its folder, and appends a line of JSON to `heard` for each request.
"""

from __future__ import annotations

import json
import os
import socket
import ssl
import subprocess
import sys
import threading
from collections.abc import Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from support import endings, pace
from support.tools import need

ADDRESS, INTERFACE = "fe80::a9fe:a9fe", "meta0"

_HOLDER = f"""
ip link set lo up && ip link add name {INTERFACE} type veth peer name other0 && ip link set {INTERFACE} up &&
ip address add {ADDRESS}/64 dev {INTERFACE} nodad && exec {sys.executable} -m support.link_local "$1" "$2"
"""


class Network:
    """A network namespace with an interface that has the address, and a server at it."""

    def __init__(self, folder: Path, certificate: Path | None = None) -> None:
        """Begin. Without the rights, or a kernel with these interfaces, the test is skipped."""
        if os.geteuid() != 0:
            pytest.skip("a network namespace needs root: run the tests as root")
        for program, package in (
            ("unshare", "util-linux"),
            ("nsenter", "util-linux"),
            ("ip", "iproute2"),
        ):
            need(program, package)
        self.folder = folder
        folder.mkdir()
        self._process = subprocess.Popen(
            [
                "unshare",
                "--net",
                "sh",
                "-c",
                _HOLDER,
                "sh",
                str(folder),
                str(certificate or ""),
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=Path(__file__).parents[1],
        )
        assert self._process.stdout is not None
        if self._process.stdout.readline() != "ready\n":
            said = self.stop()
            assert "Traceback" not in said, said
            pytest.skip(
                f"this machine gives no network namespace with such an interface: {said}"
            )

    def stop(self) -> str:
        """End the server, and the namespace with it; return what it complained about."""
        with endings.ended(self._process):
            return self._process.communicate("", timeout=pace.seconds(30))[1]

    def run(
        self, words: Sequence[str], environment: dict[str, str]
    ) -> subprocess.CompletedProcess[str]:
        """Run a command in the namespace to its end."""
        inside = ["nsenter", f"--target={self._process.pid}", "--net", "--", *words]
        return subprocess.run(
            inside,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=pace.seconds(60),
        )

    @property
    def heard(self) -> list[dict[str, Any]]:
        """The requests that have arrived: `verb`, `path`, `host` and `body`."""
        path = self.folder / "heard"
        return (
            [json.loads(line) for line in path.read_text().splitlines()]
            if path.exists()
            else []
        )


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    folder: Path

    def do_GET(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
        request = {
            "verb": self.command,
            "path": self.path,
            "host": self.headers.get_all("Host"),
            "body": body.decode("utf-8", "replace"),
        }
        with (self.folder / "heard").open("a") as file:
            file.write(f"{json.dumps(request)}\n")
        document = self.folder / self.path.strip("/").replace("/", "_")
        found = self.command != "GET" or document.is_file()
        content = document.read_bytes() if found and self.command == "GET" else b""
        self.send_response(200 if found else 404)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    do_POST = do_PUT = do_GET  # noqa: N815

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        """Print nothing."""


class _Server(ThreadingHTTPServer):
    address_family = socket.AF_INET6
    daemon_threads = True


def _serve(folder: Path, certificate: str) -> None:
    _Handler.folder = folder
    port = 443 if certificate else 80
    server = _Server((ADDRESS, port, 0, socket.if_nametoindex(INTERFACE)), _Handler)
    if certificate:
        settings = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        settings.load_cert_chain(certificate)
        server.socket = settings.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print("ready", flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    _serve(Path(sys.argv[1]), sys.argv[2])
