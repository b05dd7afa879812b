"""Where the services of `openstack.py` are: their ports, their folder, and the record of what arrives at them."""

from __future__ import annotations

import json
import os
import random
import socket
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

HOST = "127.0.0.1"
REGION = "RegionOne"
PASSWORD = "lab"
"""Everybody's."""

LOOKS = 0.5
"""Seconds between two looks of Heat at what it waits for, a deployment for example: its own fixed 1 s is long here."""

ENDPOINTS = {
    "keystone": ("identity", "/v3/"),
    "heat": ("orchestration", "/v1/%(tenant_id)s"),
    "cfn": ("cloudformation", "/v1"),
    "swift": ("object-store", "/v1/AUTH_%(tenant_id)s"),
    "zaqar": ("messaging", ""),
    "zaqar-websocket": ("messaging-websocket", ""),
    "nova": ("compute", "/v2.1"),
}
"""Each service's type, and the path of its URL in Keystone's catalogue."""


def placeholder(name: str) -> str:
    """Return what stands for a service's scheme, host and port in the catalogue until they are known."""
    return f"http://{name}.lab"


def free_ports(names: Iterable[str]) -> dict[str, int]:
    """Return a port for each that needs one. Neither the kernel nor another run of the tests gives it to others.

    A socket that does not listen keeps each until this process ends.
    """
    return {name: _kept_port() for name in names}


def _kept_port() -> int:
    while True:
        port = random.randrange(20000, 32000)  # noqa: S311
        place = socket.socket()
        try:
            place.bind(("127.0.0.1", port))
        except OSError:
            place.close()
            continue
        # From now on, a server that asks for the same may listen there.
        place.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        place.detach()
        return port


class Place:
    """Where this lab is, and what it was told."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        settings = json.loads((folder / "lab.json").read_text())
        self.ports: dict[str, int] = settings["ports"]
        self.token_seconds: int = settings["token_seconds"]

    def url(self, name: str) -> str:
        return f"http://{HOST}:{self.ports[name]}"

    def write(self, name: str, text: str) -> str:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return str(path)

    def database(self, name: str) -> str:
        return f"postgresql+psycopg2://postgres@/{name}?host={self.folder}/postgres"

    def service_user(self) -> str:
        """Return the settings by which a service reaches Keystone."""
        return f"""
auth_type = password
auth_url = {self.url("keystone")}/v3
www_authenticate_uri = {self.url("keystone")}/v3
username = heat
password = {PASSWORD}
project_name = service
user_domain_id = default
project_domain_id = default
"""


class Arrivals:
    """A WSGI application around another one that writes down which requests arrive, when they are answered."""

    def __init__(self, app: Callable[..., Any], place: Path, name: str) -> None:
        self._app = app
        self._note = Notes(place, name)

    def __call__(
        self, environ: dict[str, Any], start_response: Callable[..., Any]
    ) -> Iterable[bytes]:
        at = time.time()

        def start(status: str, *rest: Any) -> Any:
            path = environ.get("SCRIPT_NAME", "") + environ.get("PATH_INFO", "")
            agent = environ.get("HTTP_USER_AGENT", "")
            self._note(at, environ["REQUEST_METHOD"], path, agent, int(status[:3]))
            return start_response(status, *rest)

        answer: Iterable[bytes] = self._app(environ, start)
        return answer


class Notes:
    """The file with what arrived at a service."""

    def __init__(self, folder: Path, name: str) -> None:
        path = folder / "arrived" / name
        path.parent.mkdir(exist_ok=True)
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)

    def __call__(
        self, at: float, verb: str, path: str, agent: str, status: int
    ) -> None:
        os.write(
            self._file, json.dumps([at, verb, path, agent, status]).encode() + b"\n"
        )


def arrivals(
    _shared: dict[str, str], folder: str, **_names: str
) -> Callable[..., Arrivals]:
    """Return what puts an `Arrivals` around an application, for Paste."""
    return lambda app: Arrivals(app, Path(folder), "swift")


def serve(app: Callable[..., Any], place: Place, name: str, listen: str = "") -> None:
    """Serve an application for ever."""
    import waitress  # type: ignore[import-untyped]  # noqa: PLC0415

    noted = Arrivals(app, place.folder, name)
    # Of kept-alive connections there are many: each of Heat's threads, and each agent, has its own.
    # Keystone's policies are not safe from threads: now and then one is refused what it may do, as another reads them.
    threads = 1 if name == "keystone" else 16
    port = place.ports[listen or name]
    waitress.serve(
        noted, host=HOST, port=port, threads=threads, connection_limit=2000, ident=None
    )


def serve_eventlet(
    app: Callable[..., Any], place: Place, name: str, listen: str = ""
) -> None:
    """Serve an application for ever in eventlet's threads, which Heat had before 27."""
    import eventlet  # type: ignore[import-not-found]  # noqa: PLC0415
    import eventlet.wsgi  # type: ignore[import-not-found]  # noqa: PLC0415

    noted = Arrivals(app, place.folder, name)
    listening = eventlet.listen((HOST, place.ports[listen or name]), backlog=256)
    with open(os.devnull, "w") as log:
        eventlet.wsgi.server(listening, noted, log=log)
