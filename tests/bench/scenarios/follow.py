"""Polls of followed sources that find nothing new: git beside ansible-pull, and HTTP and OCI by themselves."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import http.server
import io
import itertools
import json
import os
import subprocess
import sys
import tarfile
import threading
from collections.abc import Iterator
from pathlib import Path

from bench import measure
from bench.scenario import OURS, Figure, Goal, LackingError, Sample, Scenario, Subject

PULL = "ansible-pull"

POLLS = 50
"""The number of polls in each round."""

DOCUMENT = json.dumps({"deployments": []}).encode()
"""The followed document; its content does not matter, because it does not change."""

_OURS = """if True:
    import json, os, resource, sys
    from pathlib import Path
    from heat_config_stack.follow.follower import Follower
    from heat_config_agent.settings import effective
    from heat_config_agent.state import followed, lock

    def used():
        both = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
        return sum(each.ru_utime + each.ru_stime for each in both)

    settings = effective.make(os.environ, config=Path(sys.argv[1]))
    with lock.held(followed.folder(settings.state, "site")):
        follower = Follower(settings, "site", lambda text: print(text, file=sys.stderr))
        for _ in range(3):
            record = follower.step()
            assert not record.problem and record.revision, record.problem
        before = used()
        for _ in range(int(sys.argv[2])):
            assert not follower.step().problem
        print(json.dumps(used() - before))
"""
"""The loop of the process beside the daemon, without the time between two polls."""


class _Server(http.server.ThreadingHTTPServer):
    """A file with an ETag, and a registry with an artifact; it counts the requests."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.requests = 0
        made = io.BytesIO()
        with tarfile.open(fileobj=made, mode="w") as members:
            member = tarfile.TarInfo("site.json")
            member.size = len(DOCUMENT)
            members.addfile(member, io.BytesIO(DOCUMENT))
        self.layer = made.getvalue()
        digest = f"sha256:{hashlib.sha256(self.layer).hexdigest()}"
        layer = {
            "mediaType": "application/vnd.oci.image.layer.v1.tar",
            "digest": digest,
            "size": len(self.layer),
        }
        self.manifest = json.dumps({"schemaVersion": 2, "layers": [layer]}).encode()

    @property
    def place(self) -> str:
        """The host and the port."""
        return f"127.0.0.1:{self.server_address[1]}"


class _Handler(http.server.BaseHTTPRequestHandler):
    server: _Server
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def do_GET(self) -> None:
        self.server.requests += 1
        known = self.headers.get("If-None-Match") == '"one"'
        file = self.server.manifest if "/manifests/" in self.path else DOCUMENT
        body = b"" if known else self.server.layer if "/blobs/" in self.path else file
        self.send_response(304 if known else 200)
        self.send_header("ETag", '"one"')
        self.send_header("Content-Type", "application/octet-stream")
        if not known:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *arguments: object) -> None:
        """Say nothing."""


def _polls(folder: Path, **values: object) -> float:
    """Return the processor time of a poll with nothing new, with the programs that it starts."""
    lines = ["[agent]", f"state_dir = {folder}/state", "[follow site]"]
    config = folder / "agent.conf"
    config.write_text(
        "\n".join(
            [*lines, *(f"{name} = {value}" for name, value in values.items()), ""]
        )
    )
    done = subprocess.run(
        [sys.executable, "-I", "-c", _OURS, str(config), str(POLLS)],
        env={"PATH": os.defpath, "HOME": str(folder), "LANG": "C.UTF-8"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return float(done.stdout) / POLLS


def _needs() -> None:
    for name in ("git", str(Path(sys.executable).with_name(PULL))):
        with contextlib.suppress(OSError):
            if (
                subprocess.run(
                    [name, "--version"], capture_output=True, check=False
                ).returncode
                == 0
            ):
                continue
        raise LackingError(
            f"{Path(name).name} is not installed: make test-all installs it"
        )


@contextlib.contextmanager
def _git(folder: Path) -> Iterator[list[Subject]]:
    """Follow a repository on this machine, as ansible-pull does with the same one."""
    place = folder / "site"
    place.mkdir()
    (place / "site.json").write_bytes(DOCUMENT)
    (place / "local.yml").write_text(
        "- hosts: localhost\n  gather_facts: false\n  tasks: []\n"
    )
    environment = {
        "PATH": os.defpath,
        "HOME": str(folder),
        "LANG": "C.UTF-8",
        "GIT_CONFIG_NOSYSTEM": "1",
    }
    person = ("-c", "user.name=T", "-c", "user.email=t@example.org")
    for words in (
        ("init", "-q", "-b", "main"),
        ("add", "-A"),
        ("commit", "-q", "-m", "one"),
    ):
        subprocess.run(["git", *person, *words], cwd=place, env=environment, check=True)
    ours = folder / "ours"
    ours.mkdir()
    program = Path(sys.executable).with_name(PULL)
    pull = (
        program,
        "--url",
        f"file://{place}",
        "--directory",
        folder / "checkout",
        "--only-if-changed",
    )
    path = {**environment, "PATH": f"{program.parent}:{os.defpath}"}

    def by_ours() -> Sample:
        return {"cpu": _polls(ours, url=f"file://{place}", path="site.json")}

    def by_pull() -> Sample:
        return {
            "cpu": measure.run(
                (*pull, "--inventory", "localhost,", "local.yml"), env=path
            ).cpu
        }

    by_pull()  # the first one fetches
    yield [Subject(OURS, by_ours), Subject(PULL, by_pull)]


@contextlib.contextmanager
def _served(folder: Path, kind: str) -> Iterator[list[Subject]]:
    with _Server() as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        urls = {
            "http": f"http://{server.place}/site.json",
            "oci": f"oci+http://{server.place}/team/site",
        }
        before = {"http": 3, "oci": 5}[kind]
        """Requests before those that are counted: the file, or the manifest twice and the layer; and two polls."""
        numbers = itertools.count()

        def by_ours() -> Sample:
            place = folder / f"round{next(numbers)}"
            place.mkdir()
            server.requests = 0
            spent = _polls(
                place,
                url=urls[kind],
                **({"path": "site.json"} if kind == "oci" else {}),
            )
            return {"cpu": spent, "requests": (server.requests - before) / POLLS}

        yield [Subject(OURS, by_ours)]
        server.shutdown()
        thread.join()


_CPU = Figure("cpu", "processor time per poll", "s")

_NOTE = f"""\
The time is that of {POLLS} polls, divided by {POLLS}: of the loop of the process that follows sources, without the time
between two polls, and with all programs that it starts."""

SCENARIOS: tuple[Scenario, ...] = (
    Scenario(
        "follow-git",
        "A followed repository has nothing new",
        (_CPU,),
        _git,
        (
            Goal(
                "cpu",
                PULL,
                1 / 50,
                "`git ls-remote` is a process, which starts others.",
            ),
        ),
        rounds=7,
        seconds=8.0,
        needs=_needs,
        note=f"{_NOTE} `ansible-pull --only-if-changed` is a run of it with the same repository, with nothing to do.",
    ),
    *(
        Scenario(
            f"follow-{kind}",
            f"A followed {what} has nothing new",
            (_CPU, Figure("requests", "requests per poll", "")),
            functools.partial(_served, kind=kind),
            (Goal("cpu", "", 0.005), Goal("requests", "", 1.0)),
            rounds=7,
            seconds=3.0,
            note=_NOTE,
        )
        for kind, what in (("http", "file at a URL"), ("oci", "OCI artifact"))
    ),
)
