"""No answer of a server ends a follow, and none takes more memory or time than there is for a revision."""

from __future__ import annotations

import contextlib
import io
import itertools
import json
import shutil
import socket
import tarfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from heat_config_agent.model.errors import SourceError, UsageError
from heat_config_agent.runs.artifacts import trees
from heat_config_agent.settings import effective
from heat_config_agent.state import followed
from heat_config_hooks.values import replace
from heat_config_stack.follow import allowance, follower, git, in_step
from heat_config_stack.follow.origin import Origin
from heat_config_stack.follow.sources import source
from support import artifacts
from support.http import Answer, Request, Stub
from support.sites import Site

GIT = pytest.mark.skipif(
    shutil.which("git") is None, reason="git is missing: apt-get install git"
)

DOCUMENT = b'[{"name": "a", "group": "script", "config": "true"}]'


class Server(Stub):
    """A server that answers with one status, some headers and a body; the headers and the body can be changed."""

    def __init__(self) -> None:
        super().__init__(self._answer)
        self.status, self.headers, self.body = 200, dict[str, str](), DOCUMENT
        self.blobs = dict[str, bytes]()
        """Layers of an artifact by their digests; any other digest has an empty layer."""

    def _answer(self, request: Request) -> Answer:
        name = request.path.rpartition("/")[2]
        body = self.blobs.get(name, b"") if "/blobs/" in request.path else self.body
        return Answer(self.status, self.headers, body)


@pytest.fixture
def server() -> Iterator[Server]:
    """Return a server on loopback."""
    with Server() as serving:
        yield serving


def manifest(title: str) -> bytes:
    """Return the manifest of an artifact whose one layer is empty and has a title."""
    return artifacts.manifest([artifacts.layer(b"", title)])


ANSWERS: dict[str, tuple[int, dict[str, str], bytes]] = {
    "a redirection to half a URL": (302, {"Location": "http://[::1"}, b""),
    "a redirection to a port that is none": (
        302,
        {"Location": "http://127.0.0.1:x/"},
        b"",
    ),
    "a realm that is half a URL": (
        401,
        {"WWW-Authenticate": 'Bearer realm="http://[::1"'},
        b"",
    ),
    "a title that is no text": (200, {}, manifest("\ud800.json")),
    "a title with a control character": (200, {}, manifest("a\nb.json")),
    "nesting without end": (200, {}, b"[" * 1_000_000),
    "a manifest that is no object": (200, {}, b"7"),
    "a manifest that is too large": (200, {}, b" " * (5 * 1024 * 1024)),
}


@pytest.mark.fault(
    3,
    "a malformed answer of a registry to a follower",
    "it is the trouble of that source, and the next poll asks again",
)
@pytest.mark.parametrize("answer", ANSWERS)
def test_malformed_answer_is_the_trouble_of_one_step(
    server: Server, tmp_path: Path, answer: str
) -> None:
    """It is recorded and shown once; when the registry is right again, its artifact is carried out."""
    site = Site(tmp_path)
    site.values = {"url": f"oci+http://{server.place}/team/site"}
    server.status, server.headers, server.body = ANSWERS[answer]
    record = site.step()
    assert record.trouble or record.reason
    assert record.problem
    notes = len(site.notes)
    site.step()
    assert len(site.notes) == notes
    server.status, server.headers, server.body = 200, {}, b"{}"
    assert "the artifact has no layers" in site.step().reason


@pytest.mark.fault(
    3,
    "a defect in a step of a follower",
    "it is the trouble of that source, and the next poll asks again",
)
@pytest.mark.parametrize(
    "error",
    [ValueError("t0ken and text"), RecursionError(), UnicodeError(), MemoryError()],
)
def test_defect_of_a_source_is_the_trouble_of_one_step(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    """The kind of the error is shown, and no secret; afterwards the source is followed as before."""
    site = Site(tmp_path)
    site.values = {
        "url": f"http://{server.place}/site.json",
        "user": "u",
        "token": "t0ken",
    }

    def fail(*_arguments: object) -> None:
        raise error

    with monkeypatch.context() as patched:
        patched.setattr(follower, "source", fail)
        record = site.step()
    assert (
        f"the answer of the source cannot be used: {type(error).__name__}"
        in record.trouble
    )
    assert "t0ken" not in record.trouble
    assert site.step().state == "ok"


@contextlib.contextmanager
def talking(talk: Callable[[socket.socket], None]) -> Iterator[str]:
    """Have a server on loopback talk to whoever connects; yield its host and port."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            while True:
                try:
                    connection, _ = listening.accept()
                except OSError:
                    return
                with connection, contextlib.suppress(OSError):
                    talk(connection)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        try:
            yield f"127.0.0.1:{listening.getsockname()[1]}"
        finally:
            listening.shutdown(socket.SHUT_RDWR)
            thread.join()


def origin(url: str, home: Path, seconds: float = 60, path: str = "") -> Origin:
    """Return the settings of a source."""
    environment = {"PATH": path or "/usr/local/bin:/usr/bin:/bin", "HOME": str(home)}
    return Origin(
        url=url,
        ref="main",
        seconds=seconds,
        size=1024**2,
        user="",
        token="",
        ca_file=None,
        environment=environment,
    )


@GIT
@pytest.mark.fault(
    3,
    "a followed git server that sends refs without end",
    "git is stopped at its limit of memory, with a sentence",
)
def test_refs_without_end_stop_git_at_its_limit_of_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The agent does not grow with them, and asks again at the next poll."""
    monkeypatch.setattr(git, "_MEMORY", 24 * 1024 * 1024)

    def talk(connection: socket.socket) -> None:
        connection.recv(4096)
        number = 0
        while True:
            lines = []
            for _ in range(1000):
                line = f"{number:040x} refs/heads/{number:0200}\n"
                lines.append(f"{len(line) + 4:04x}{line}")
                number += 1
            connection.sendall("".join(lines).encode())

    with (
        talking(talk) as place,
        pytest.raises(SourceError, match="more than fits into the memory"),
    ):
        source(origin(f"git://{place}/x.git", tmp_path), tmp_path).newest()


@pytest.mark.parametrize("stream", ["1", "2"])
@pytest.mark.fault(
    3,
    "a followed git server whose messages have no end",
    "git is ended, and the agent keeps the end of them only",
)
def test_messages_without_end_are_not_kept(
    tmp_path: Path, stream: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Messages of the server are on git's standard error; what does not end is ended."""
    monkeypatch.setattr(git, "_MOST_PRINTED", 1024 * 1024)
    program = tmp_path / "git"
    program.write_text(
        f'#!/bin/sh\n[ "$2" = init ] || [ "$1" = init ] && exit 0\nexec yes \'remote: x\' >&{stream}\n'
    )
    program.chmod(0o755)
    path = f"{tmp_path}:/usr/local/bin:/usr/bin:/bin"
    with pytest.raises(SourceError, match="more than fits into the memory"):
        source(
            origin("git://127.0.0.1:1/x.git", tmp_path, path=path), tmp_path
        ).newest()


def test_all_requests_of_a_revision_have_one_limit(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Many layers cannot add up their timeouts: no request begins once the time for all of them is over."""
    layers = json.loads(manifest("x"))["layers"] * 50
    for number, layer in enumerate(layers):
        layers[number] = {
            **layer,
            "annotations": {"org.opencontainers.image.title": f"f{number}"},
        }
    server.body = json.dumps({"layers": layers}).encode()
    clock = itertools.count()
    monkeypatch.setattr(
        allowance, "time", SimpleNamespace(monotonic=lambda: next(clock))
    )
    artifact = source(
        origin(f"oci+http://{server.place}/team/site", tmp_path, seconds=2), tmp_path
    )
    (tmp_path / "tree").mkdir()
    with pytest.raises(
        SourceError,
        match=r"the revision did not arrive within 20 s \(all requests of a revision",
    ):
        artifact.fetch("", tmp_path / "tree")
    assert 10 < len([*(tmp_path / "tree").iterdir()]) < 20


def test_section_that_is_there_twice_is_a_mistake(tmp_path: Path) -> None:
    """The sentence has both lines; the other settings are used, with a warning."""
    path = tmp_path / "agent.conf"
    path.write_text(
        "[agent]\nstate_dir = /s\n[follow a]\nurl = /x\n\n[follow  a]\nurl = /y\n[agent]\nparallel = 2\n"
    )
    with pytest.raises(
        UsageError, match=r"line 6: \[follow a\] is there twice: first in line 3"
    ):
        effective.make({}, config=path)
    mistakes: list[str] = []
    assert effective.make({}, config=path, mistakes=mistakes).number("parallel") == 2
    assert len(mistakes) == 1


PAGES = {
    "an error as an object": b'{"error": "not found"}',
    "an empty object": b"{}",
    "an empty file": b"",
    "no value": b"null",
    "a sentence": b"Service temporarily unavailable\n",
    "half a document": DOCUMENT[:30],
    "NUL bytes": b"\0" * 100,
    "deployments that are not a list": b'{"deployments": {"a": {}}}',
}
"""Answers with the status 200 that are neither a document nor a template."""


@pytest.mark.fault(
    5,
    "a followed server answers 200 with an error, or with a file that is cut short",
    "the revision is refused, before anything begins, with a sentence in the words of its kind",
)
@pytest.mark.parametrize("page", PAGES)
def test_page_in_the_place_of_a_document_is_refused(
    server: Server, tmp_path: Path, page: str
) -> None:
    """The document before it stays in force, and nothing is said about a stack, which there is none of."""
    site = Site(tmp_path)
    site.values = {"url": f"http://{server.place}/site.json"}
    good = site.step()
    assert good.state == "ok"
    server.body = PAGES[page]
    record = site.step()
    assert (record.state, record.revision, record.document, record.drift) == (
        "refused",
        good.revision,
        True,
        "",
    )
    assert record.reason.startswith("site.json:1:"), record.reason
    assert "stack" not in record.problem
    server.body = DOCUMENT
    assert site.step().problem == ""


TEMPLATE = b"heat_template_version: 2018-08-31\nresources: {r: {type: OS::Heat::Value, properties: {value: 1}}}\n"


@pytest.mark.fault(
    2,
    "a followed source has a document where it had a template, or the other way round",
    "the revision is refused: what the one before it has made is not forgotten",
)
@pytest.mark.parametrize("first", ["document", "template"])
def test_revision_of_another_kind_is_refused(
    server: Server, tmp_path: Path, first: str
) -> None:
    """A document without deployments would be in force at once, and the stack would be left as it was."""
    site = Site(tmp_path)
    site.values = {"url": f"http://{server.place}/site.yaml"}
    server.body = DOCUMENT if first == "document" else TEMPLATE
    good = site.step()
    assert (good.state, good.document) == ("ok", first == "document")
    server.body = TEMPLATE if first == "document" else b"[]"
    record = site.step()
    assert (record.state, record.revision, record.document) == (
        "refused",
        good.revision,
        good.document,
    )
    assert "follow the source under another name" in record.reason
    server.body = DOCUMENT if first == "document" else TEMPLATE
    assert site.step().problem == ""


@GIT
def test_revision_that_was_cut_short_and_cannot_go_on_holds_up_no_other(
    tmp_path: Path,
) -> None:
    """It is refused, and the next revision is carried out."""
    site = Site(tmp_path)
    site.commit("one")
    before = site.step()
    site.commit("two")
    record = site.step()
    begun = followed_begun(site, record, before.attempt)
    (site.state / "follow/web/trees" / record.revision / "stack.yaml").unlink()
    three = site.commit("three")
    record = site.step()
    assert (record.begun, record.revision, record.problem) == ("", three, "")
    assert any(
        begun[:12] in note and "the revision has no stack.yaml" in note
        for note in site.notes
    )


def followed_begun(site: Site, record: followed.Followed, attempt: str) -> str:
    """Write the record that a kill leaves while a revision is carried out, and return the revision."""
    followed.write(site.state, replace(record, begun=record.concluded, attempt=attempt))
    return record.revision


def archive(name: str, content: bytes) -> bytes:
    """Return a packed archive of one file."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as members:
        member = tarfile.TarInfo(name)
        member.size = len(content)
        members.addfile(member, io.BytesIO(content))
    return packed.getvalue()


def artifact(server: Server, *layers: tuple[str, bytes]) -> None:
    """Have a registry serve an artifact with layers: archives, or files with a title."""
    server.blobs.update({artifacts.digest(body): body for _, body in layers})
    server.body = artifacts.manifest(
        [artifacts.layer(body, title) for title, body in layers]
    )


@pytest.mark.fault(
    3,
    "an artifact of a registry with many small layers that are large when they are unpacked",
    "all of them together have the limit of a revision; it is refused",
)
def test_layers_have_one_limit_together(server: Server, tmp_path: Path) -> None:
    """Each alone is within it."""
    site = Site(tmp_path)
    site.values = {
        "url": f"oci+http://{server.place}/team/site",
        "path": "site.json",
        "size_limit": "1M",
    }
    artifact(
        server,
        ("site.json", DOCUMENT),
        *(("", archive(f"f{number}", bytes(600_000))) for number in range(2)),
    )
    record = site.step()
    assert (record.state, record.reason.partition(" bytes")[0]) == (
        "refused",
        "the revision is larger than 1048576",
    )
    artifact(server, ("site.json", DOCUMENT), ("", archive("f1", bytes(600_000))))
    assert site.step().problem == ""


@pytest.mark.fault(
    1,
    "an artifact of a registry with one name in two of its layers",
    "it is refused: which of the two counts is not left to their order",
)
@pytest.mark.parametrize("name", ["site.json", "site.json/x"])
def test_name_in_two_layers_is_refused(
    server: Server, tmp_path: Path, name: str
) -> None:
    """That is so for a file that is in an archive too, and for a folder."""
    site = Site(tmp_path)
    site.values = {"url": f"oci+http://{server.place}/team/site", "path": "site.json"}
    artifact(server, ("", archive(name, DOCUMENT)), ("site.json", b"[]"))
    record = site.step()
    assert (record.state, record.reason) == (
        "refused",
        "the artifact has 'site.json' in two of its layers",
    )


def test_link_that_leads_out_and_back_by_the_name_of_the_tree_is_refused(
    tmp_path: Path,
) -> None:
    """The tree has another name when it is put in force."""
    for number, target in enumerate(
        ("../new/file", str(tmp_path / "0" / "new/file"), "../../escape")
    ):
        tree = tmp_path / str(number) / "new"
        tree.mkdir(parents=True)
        (tree / "file").touch()
        (tree / "link").symlink_to(target)
        with pytest.raises(UsageError, match="the link link leads out of the revision"):
            trees.check(tree)
    (tree / "link").unlink()
    (tree / "folder").mkdir()
    (tree / "folder/link").symlink_to("../file")
    trees.check(tree)


DAMAGES: dict[str, object] = {
    "a list": [],
    "a name of another kind": {"name": []},
    "another name": {"name": "../other"},
    "a time that is text": {"name": "web", "since": "x"},
    "a time that is none": {"name": "web", "since": float("nan")},
    "a time without end": {"name": "web", "since": 1e300},
    "text that is a number": {"name": "web", "revision": 5},
    "a truth that is text": {"name": "web", "refused": "a", "failed": "no"},
    "an unknown part": {"name": "web", "zzz": 1},
}


@pytest.mark.fault(
    5,
    "the record of a followed source damaged: JSON of another kind, values of other types, nesting without end",
    "it counts as lost: every command answers, and the next poll asks the source again",
)
@pytest.mark.parametrize("damage", [*DAMAGES, "nesting without end"])
def test_damaged_record_is_as_none(server: Server, tmp_path: Path, damage: str) -> None:
    """No command ends with a traceback, and the document is not carried out a second time."""
    site = Site(tmp_path)
    log = tmp_path / "runs"
    server.body = json.dumps(
        [{"name": "a", "group": "script", "config": f"echo a >>{log}"}]
    ).encode()
    site.values = {"url": f"http://{server.place}/site.json"}
    site.step()
    place = followed.folder(site.state, "web") / followed.FILE
    place.write_text(
        json.dumps(DAMAGES[damage]) if damage in DAMAGES else "[" * 100_000
    )
    assert followed.read(site.state, "web") is None
    assert followed.records(site.state) == []
    assert site.step().state == "ok"
    assert log.read_text().split() == ["a"]


def test_damaged_note_of_what_a_revision_left_is_passed_over(
    server: Server, tmp_path: Path
) -> None:
    """The status of the source is shown all the same."""
    site = Site(tmp_path)
    site.values = {"url": f"http://{server.place}/site.json"}
    record = site.step()
    note = followed.folder(site.state, "web") / "left.json"
    for text in (
        '{"deployments": {"a": 5}}',
        '{"deployments": {"a": [1]}}',
        "[" * 100_000,
    ):
        note.write_text(text)
        in_step.drift(site.state, record)
