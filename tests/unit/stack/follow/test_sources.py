"""The sources that a stack can follow, against real repositories and servers on loopback, good and hostile."""

from __future__ import annotations

import contextlib
import gzip
import io
import os
import shutil
import socket
import tarfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from heat_config_agent.model.errors import SourceError, UsageError
from heat_config_agent.runs.artifacts import archives, trees
from heat_config_hooks.values import replace
from heat_config_stack.follow.origin import Origin
from heat_config_stack.follow.sources import Source, source
from support import pace
from support.http import Answer, Request, Stub
from support.repositories import Repository

GIT = pytest.mark.skipif(
    shutil.which("git") is None, reason="git is missing: apt-get install git"
)

MEBI = 1024 * 1024


def origin(url: str, home: Path) -> Origin:
    """Return the settings of a source; programs have the home of a test."""
    environment = {"PATH": os.environ["PATH"], "HOME": str(home)}
    return Origin(
        url=url,
        ref="",
        seconds=20,
        size=MEBI,
        user="",
        token="",
        ca_file=None,
        environment=environment,
    )


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """Return an empty folder for a revision."""
    (tmp_path / "tree").mkdir()
    return tmp_path / "tree"


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    """Return a repository with one commit."""
    made = Repository(tmp_path / "repository")
    made.commit({"a": "1"})
    return made


def content(tree: Path) -> dict[str, str]:
    """Return the files of a tree."""
    return {
        str(each.relative_to(tree)): each.read_text()
        for each in tree.rglob("*")
        if each.is_file()
    }


@GIT
def test_files_of_a_fetched_repository_are_private(
    tmp_path: Path, tree: Path, repository: Repository
) -> None:
    """Nobody else may read or write what git keeps; the files of a revision have modes of their own."""
    followed = source(origin(repository.url, tmp_path), tmp_path / "kept")
    followed.fetch(followed.newest(), tree)
    kept = [place for place in (tmp_path / "kept").rglob("*") if not place.is_symlink()]
    assert kept
    assert [place for place in kept if place.stat().st_mode & 0o077] == []


@GIT
def test_ref_can_be_a_branch_a_tag_or_a_commit(
    tmp_path: Path, tree: Path, repository: Repository
) -> None:
    """A ref is a branch, a tag of either kind, or a commit; one that is not there is named."""
    first = repository.git("rev-parse", "HEAD")
    repository.git("tag", "light")
    repository.git("tag", "-a", "-m", "heavy", "heavy")
    second = repository.commit({"a": "2", "b/c": "3"})
    at = origin(repository.url, tmp_path)
    for ref, commit in {
        "": second,
        "main": second,
        "light": first,
        "heavy": first,
        first: first,
    }.items():
        followed = source(replace(at, ref=ref), tmp_path / "kept")
        assert followed.newest() == commit, ref
        place = tree / (ref or "default")
        place.mkdir()
        assert followed.fetch(commit, place) == commit
        assert content(place) == (
            {"a": "2", "b/c": "3"} if commit == second else {"a": "1"}
        )
    empty = Repository(tmp_path / "empty")
    with pytest.raises(SourceError, match="has no default branch"):
        source(replace(at, url=empty.url, ref=""), tmp_path / "none").newest()
    with pytest.raises(SourceError, match="has no branch or tag missing"):
        source(replace(at, ref="missing"), tmp_path / "kept").newest()
    with pytest.raises(UsageError, match="no branch or tag has the name --upload"):
        source(replace(at, ref="--upload-pack=touch x"), tmp_path / "kept")


@GIT
def test_name_of_a_branch_and_a_tag_is_refused(
    tmp_path: Path, tree: Path, repository: Repository
) -> None:
    """Which of them is meant is said by its full name, and that is what is fetched."""
    first = repository.git("rev-parse", "HEAD")
    repository.git("tag", "release")
    second = repository.commit({"a": "2"})
    repository.git("branch", "release")
    at = origin(repository.url, tmp_path)
    with pytest.raises(
        SourceError, match="release is a branch and a tag of the repository"
    ) as raised:
        source(replace(at, ref="release"), tmp_path / "kept").newest()
    assert raised.value.hint == "set ref to refs/heads/release or refs/tags/release"
    for ref, commit in {
        "refs/heads/release": second,
        "refs/tags/release": first,
    }.items():
        followed = source(replace(at, ref=ref), tmp_path / "kept")
        place = tree / ref.split("/")[1]
        place.mkdir()
        assert (followed.newest(), followed.fetch(commit, place)) == (commit, commit)


@GIT
@pytest.mark.skipif(
    os.geteuid() != 0,
    reason="only root can give a repository to another user: run as root",
)
def test_repository_of_another_user_is_refused_with_a_way_out(
    tmp_path: Path, repository: Repository
) -> None:
    """The message has its own advice: git's has no effect, because the machine's git settings are not read."""
    path = Path(repository.url.removeprefix("file://"))
    for place in (path, *path.rglob("*")):
        os.chown(place, 65534, 65534)
    with pytest.raises(
        SourceError, match="belongs to another user than the agent's"
    ) as raised:
        source(origin(f"file://{path}", tmp_path), tmp_path / "kept").newest()
    assert "chown -R" in raised.value.hint


@pytest.mark.fault(
    4,
    "a followed repository with hooks, filters, submodules and LFS",
    "git runs nothing of it",
)
@GIT
def test_nothing_of_a_repository_or_a_user_is_run(
    tmp_path: Path, tree: Path, repository: Repository
) -> None:
    """No filter, hook, monitor or template of git takes part, and no submodule is fetched."""
    mark = tmp_path / "mark"
    (tmp_path / ".gitconfig").write_text(
        f'[filter "lfs"]\n smudge = touch {mark}\n required = true\n[core]\n fsmonitor = touch {mark}\n'
        f" hooksPath = {tmp_path}/hooks\n[init]\n templateDir = {tmp_path}/template\n[alias]\n fetch = !touch {mark}\n"
    )
    for folder in ("hooks", "template/hooks"):
        for name in ("post-checkout", "reference-transaction", "post-index-change"):
            hook = tmp_path / folder / name
            hook.parent.mkdir(parents=True, exist_ok=True)
            hook.write_text(f"#!/bin/sh\ntouch {mark}\n")
            hook.chmod(0o755)
    other = Repository(tmp_path / "other")
    other.commit({"secret": "x"})
    repository.git("submodule", "add", "-q", other.url, "module")
    repository.commit(
        {
            ".gitattributes": "* filter=lfs\n",
            "data": "version https://git-lfs.example\n",
        }
    )
    followed = source(origin(repository.url, tmp_path), tmp_path / "kept")
    followed.fetch(followed.newest(), tree)
    assert not mark.exists()
    assert content(tree)["data"] == "version https://git-lfs.example\n"
    assert [*(tree / "module").iterdir()] == []
    assert not (tmp_path / "kept/git/hooks").exists()


@pytest.mark.fault(
    3,
    "a followed repository that is too large, or only when unpacked",
    "the fetch ends at size_limit, and leaves nothing",
)
@GIT
@pytest.mark.parametrize("packs", [True, False], ids=["zeros", "noise"])
def test_a_repository_that_is_too_large_is_not_unpacked(
    tmp_path: Path, tree: Path, repository: Repository, packs: bool
) -> None:
    """A repository is refused if it, or its unpacked files, are too large."""
    large = b"\0" * 50 * MEBI if packs else os.urandom(4 * MEBI)
    (repository.folder / "large").write_bytes(large)
    repository.commit({})
    followed = source(origin(repository.url, tmp_path), tmp_path / "kept")
    with pytest.raises((UsageError, SourceError), match="larger than 1048576 bytes"):
        followed.fetch(followed.newest(), tree)
    assert content(tree) == {}
    assert (
        sum(
            each.stat().st_size
            for each in (tmp_path / "kept").rglob("*")
            if each.is_file()
        )
        < 2 * MEBI
    )
    (repository.folder / "large").unlink()
    repository.commit({})
    assert replaced(followed, tree) == {"a": "1"}


def replaced(followed: Source, tree: Path) -> dict[str, str]:
    """Return the content of the newest revision."""
    followed.fetch(followed.newest(), tree)
    return content(tree)


@pytest.mark.fault(
    3,
    "the server of a followed repository hangs, or does not speak git",
    "a sentence within the timeout",
)
@GIT
@pytest.mark.parametrize(
    "answer",
    [b"", b"0010garbage!\n" * 9, b"ERR no\0"],
    ids=["silent", "garbage", "refusal"],
)
def test_hanging_or_lying_server_gives_no_answer(tmp_path: Path, answer: bytes) -> None:
    """The source does not answer, within the timeout."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        held: list[socket.socket] = []

        def serve() -> None:
            with contextlib.suppress(OSError):
                while True:
                    held.append(server.accept()[0])
                    held[-1].sendall(answer)
                    if answer:
                        held[-1].close()

        threading.Thread(target=serve, daemon=True).start()
        at = origin(f"git://127.0.0.1:{server.getsockname()[1]}/x", tmp_path)
        began = time.monotonic()
        with pytest.raises(
            SourceError, match=r"did not answer within 1 s|git ls-remote failed"
        ):
            source(replace(at, seconds=1), tmp_path / "kept").newest()
        assert time.monotonic() - began < pace.seconds(10)
        for each in held:
            each.close()


class Server(Stub):
    """A server with one file, which has an ETag."""

    def __init__(self) -> None:
        super().__init__(self._answer)
        self.body, self.kind, self.status = b"", "application/yaml", 200
        self.answers: list[int] = []
        self.password = ""

    @property
    def url(self) -> str:
        """The URL of the server."""
        return f"http://{self.place}"

    def _answer(self, request: Request) -> Answer:
        tag, given = f'"{hash(self.body)}"', request.headers
        same = given.get("If-None-Match") == tag
        denied = self.password and given.get("Authorization") != self.password
        status = 401 if denied else 304 if same and self.status == 200 else self.status
        self.answers.append(status)
        headers = {"ETag": tag, "Content-Type": self.kind}
        return Answer(status, headers, b"" if status == 304 else self.body)


@pytest.fixture
def server() -> Iterator[Server]:
    """Return a server on loopback."""
    with Server() as serving:
        yield serving


def test_a_file_at_a_url_is_sent_again_only_if_it_has_changed(
    tmp_path: Path, tree: Path, server: Server
) -> None:
    """A poll with nothing new is one request for an ETag."""
    server.body, server.password = b"one", "Basic dTp0"
    at = replace(origin(f"{server.url}/a/site.yaml?x=1", tmp_path), user="u", token="t")
    followed = source(at, tmp_path)
    first = followed.newest()
    assert followed.fetch(first, tree) == first
    assert content(tree) == {"site.yaml": "one"}
    assert followed.newest() == first
    assert server.answers == [200, 304]
    server.body = b"two"
    second = followed.newest()
    assert second != first
    (tree / "site.yaml").unlink()
    followed.fetch(second, tree)
    assert content(tree) == {"site.yaml": "two"}
    server.password = "other"
    with pytest.raises(SourceError, match="answers HTTP 401 Unauthorized"):
        followed.newest()


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        ((500, "text/plain", b"no"), "answers HTTP 500"),
        ((302, "text/plain", b""), "answers HTTP 302"),
        ((200, "text/html", b"<html>login</html>"), "answers with a web page"),
        ((200, "text/plain", b"x" * 2 * MEBI), "larger than 1048576 bytes"),
    ],
)
def test_invalid_revision_is_refused(
    tmp_path: Path, server: Server, answer: tuple[int, str, bytes], says: str
) -> None:
    """An invalid answer is refused with a sentence."""
    server.status, server.kind, server.body = answer
    with pytest.raises((SourceError, UsageError), match=says):
        source(origin(f"{server.url}/x.yaml", tmp_path), tmp_path).newest()


def archive(change: Callable[[tarfile.TarFile], object]) -> bytes:
    """Return an archive with a good file, and what else `change` adds."""
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w:gz") as members:
        add(members, "good/a", b"1")
        change(members)
    return made.getvalue()


def add(
    members: tarfile.TarFile, name: str, body: bytes = b"", **fields: object
) -> None:
    """Add a member to an archive."""
    member = tarfile.TarInfo(name)
    member.size = len(body)
    for field, value in fields.items():
        setattr(member, field, value)
    members.addfile(member, io.BytesIO(body))


def through_a_link(members: tarfile.TarFile) -> None:
    """Add a link, and a file below it."""
    add(members, "l", type=tarfile.SYMTYPE, linkname="good")
    add(members, "l/out", b"1")


def sparse(members: tarfile.TarFile) -> None:
    """Add a file of a terabyte that takes no room in the archive."""
    fields = {"GNU.sparse.major": "1", "GNU.sparse.minor": "0", "GNU.sparse.name": "s"}
    add(
        members,
        "s",
        b"0\n".ljust(512, b"\0"),
        pax_headers={**fields, "GNU.sparse.realsize": str(2**40)},
    )


@pytest.mark.fault(
    2,
    "a hostile archive: names and links that lead out, devices, bombs, sparse files, endless headers",
    "it is refused with a sentence, and nothing outside its folder is written",
)
@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda members: add(members, "../out"), "leads out of it"),
        (lambda members: add(members, "/etc/out"), "leads out of it"),
        (
            lambda members: add(members, "l", type=tarfile.SYMTYPE, linkname="/etc"),
            "leads out of the archive",
        ),
        (
            lambda members: add(
                members, ".git/l", type=tarfile.SYMTYPE, linkname="/etc"
            ),
            "leads out of the archive",
        ),
        (
            lambda members: add(
                members, "a/.git/b/l", type=tarfile.SYMTYPE, linkname="/etc"
            ),
            "leads out of the archive",
        ),
        (
            lambda members: add(
                members, "good/l", type=tarfile.SYMTYPE, linkname="../.."
            ),
            "leads out of the archive",
        ),
        (
            lambda members: add(
                members, "l", type=tarfile.LNKTYPE, linkname="/etc/passwd"
            ),
            "leads out of it",
        ),
        (
            lambda members: add(members, "l", type=tarfile.LNKTYPE, linkname="good"),
            "not a file",
        ),
        (
            lambda members: add(members, "l", type=tarfile.LNKTYPE, linkname="good/b"),
            "the archive lacks",
        ),
        (lambda members: add(members, "good/a"), "there already"),
        (lambda members: add(members, "good/a/b"), "where something else is"),
        (lambda members: add(members, "d/" * 200 + "a"), "too long"),
        (
            lambda members: add(members, ".git/" + "d/" * 110 + "a"),
            "too long|folders within folders",
        ),
        (
            lambda members: add(members, "d", type=tarfile.CHRTYPE),
            "neither a file, a folder nor a link",
        ),
        (
            lambda members: add(members, "p", type=tarfile.FIFOTYPE),
            "neither a file, a folder nor a link",
        ),
        (through_a_link, "where something else is|there already"),
        (sparse, "neither a file, a folder nor a link"),
        (
            lambda members: add(members, "zeros", b"\0" * 3 * MEBI),
            "larger than 1048576 bytes",
        ),
        (
            lambda members: add(members, "x", pax_headers={"comment": "y" * 3 * MEBI}),
            "larger than 1048576 bytes",
        ),
    ],
)
def test_hostile_archive_is_refused(
    tmp_path: Path,
    tree: Path,
    server: Server,
    change: Callable[[tarfile.TarFile], object],
    says: str,
) -> None:
    """Names and links that lead out, devices and bombs are refused; nothing is written outside the folder."""
    server.body = archive(change)
    followed = source(origin(f"{server.url}/x.tar.gz", tmp_path), tmp_path)
    with pytest.raises(UsageError, match=says):
        followed.fetch(followed.newest(), tree)
    assert {*tmp_path.iterdir()} == {tree}
    assert not Path("/etc/out").exists()


def many(members: tarfile.TarFile) -> None:
    """Add more folders than a revision may have."""
    for number in range(trees.MOST_FILES + 1):
        add(members, f"folder{number}", type=tarfile.DIRTYPE)


def test_invalid_archives_are_refused(
    tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An archive that is cut short or is something else, and one without end."""
    for body in (
        b"not an archive",
        gzip.compress(b"\0" * 700)[:20],
        archive(lambda _: None)[:60],
    ):
        with pytest.raises(UsageError, match="cannot be unpacked"):
            archives.unpack(io.BytesIO(body), tree, trees.Budget(MEBI))
    monkeypatch.setattr(trees, "MOST_FILES", 200)
    with pytest.raises(UsageError, match="more than 200 files"):
        archives.unpack(io.BytesIO(archive(many)), tree, trees.Budget(64 * MEBI))
    good = tree / "good/a"
    assert good.read_text() == "1"
    assert good.stat().st_mode & 0o777 == 0o600


def test_local_path_is_copied(tmp_path: Path, tree: Path) -> None:
    """A file or a folder is copied; a special file and one that is missing are named."""
    folder = tmp_path / "site"
    (folder / "sub").mkdir(parents=True)
    (folder / "sub/a").write_text("1")
    (folder / "link").symlink_to("sub/a")
    followed = source(origin(str(folder), tmp_path), tmp_path)
    first = followed.newest()
    assert followed.fetch(first, tree) == first
    assert content(tree) == {"sub/a": "1", "link": "1"}
    (folder / "sub/a").chmod(0o755)
    assert followed.newest() != first
    single = source(origin(str(folder / "sub/a"), tmp_path), tmp_path)
    (tree / "file").mkdir()
    single.fetch(single.newest(), tree / "file")
    assert content(tree / "file") == {"a": "1"}
    os.mkfifo(folder / "pipe")
    (tree / "again").mkdir()
    with pytest.raises(UsageError, match="pipe is neither a file nor a folder"):
        followed.fetch(followed.newest(), tree / "again")
    shutil.rmtree(folder)
    with pytest.raises(SourceError, match="No such file"):
        followed.newest()


@GIT
@pytest.mark.fault(
    3,
    "a followed source with hundreds of folders within folders",
    "the revision is refused with a sentence",
)
def test_folders_within_folders_are_copied(
    tmp_path: Path, tree: Path, repository: Repository
) -> None:
    """In a repository, and on this machine."""
    blob = repository.git("hash-object", "-w", "--stdin", text="x")
    mode, kind = "100644", "blob"
    for _ in range(150):
        blob = repository.git("mktree", text=f"{mode} {kind} {blob}\td\n")
        mode, kind = "040000", "tree"
    commit = repository.git("commit-tree", "-m", "deep", blob)
    repository.git("update-ref", "refs/heads/main", commit)
    followed = source(origin(repository.url, tmp_path), tmp_path / "kept")
    with pytest.raises(UsageError, match="more than 100 folders within folders"):
        followed.fetch(followed.newest(), tree)
    folder = tmp_path / "deep"
    (folder / ("d/" * 300)).mkdir(parents=True)
    with pytest.raises(UsageError, match="more than 100 folders within folders"):
        source(origin(str(folder), tmp_path), tmp_path).newest()


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("https://u:p@host/x.git", "has a user or a password"),
        ("ftp://host/x", "no source has a URL of ftp"),
        ("ext::sh -c date", "no source has a URL of ext"),
        ("site.yaml", "no source has a URL of this form"),
        ("https://[::1/x", "cannot be understood"),
    ],
)
def test_unusable_url_is_refused_without_its_secrets(
    tmp_path: Path, url: str, says: str
) -> None:
    """The message does not repeat what may be a secret."""
    with pytest.raises(UsageError, match=says):
        source(origin(url, tmp_path), tmp_path)


@pytest.mark.parametrize("target", ["/dev/zero", "/dev/null", "pipe"])
def test_path_that_is_neither_file_nor_folder_is_refused(
    target: str, tmp_path: Path, tree: Path
) -> None:
    """A device has no end, and a pipe may never have one: nothing is read or copied, also behind a link."""
    os.mkfifo(tmp_path / "pipe")
    path = tmp_path / "site.json"
    path.symlink_to(target)
    followed = source(origin(str(path), tmp_path), tmp_path / "kept")
    for ask in (followed.newest, lambda: followed.fetch("", tree)):
        with pytest.raises(
            UsageError, match=r"site\.json is neither a file nor a folder"
        ):
            ask()
    with pytest.raises((UsageError, OSError)):
        trees.copy(path, tree, trees.Budget(MEBI))
    assert list(tree.iterdir()) == []


def test_file_that_is_longer_than_it_says_is_limited(tree: Path) -> None:
    """Not its size counts, which a file of the kernel says to be 0: a file may grow while it is read."""
    path = Path("/proc/self/maps")
    assert path.stat().st_size == 0
    with pytest.raises(UsageError, match="larger than 100 bytes"):
        trees.digest(path, trees.Budget(100))
    with pytest.raises(UsageError, match="larger than 100 bytes"):
        trees.copy(path, tree, trees.Budget(100))


def test_copy_has_the_mode_and_the_content_of_the_original(
    tmp_path: Path, tree: Path
) -> None:
    """Programs of a followed folder stay programs, and private files private."""
    for name, mode in (("run", 0o755), ("key", 0o600)):
        (tmp_path / name).write_text(name)
        (tmp_path / name).chmod(mode)
        trees.copy(tmp_path / name, tree, trees.Budget(MEBI))
        assert (tree / name).read_text() == name
        assert (tree / name).stat().st_mode & 0o777 == mode


@GIT
@pytest.mark.parametrize(
    ("kind", "sentence"),
    [
        ("page", "the URL is not that of a repository"),
        ("login", "the server demands a login: set user and token"),
        ("files", "use one that speaks git's protocol"),
    ],
)
def test_web_server_that_is_not_one_of_git_is_said_with_what_to_do(
    tmp_path: Path, kind: str, sentence: str
) -> None:
    """Git's own words are about terminals and capabilities, and a page without branches is not an empty repository."""
    repository = Repository(tmp_path / "repository")
    repository.commit({"a": "1"})
    repository.git("update-server-info")

    def answer(request: Request) -> Answer:
        path = repository.folder / request.path.partition("?")[0].lstrip("/")
        if kind == "login":
            return Answer(401, {"WWW-Authenticate": "Basic realm=x"})
        if kind == "page":
            return Answer(body=b"<html>Please log in</html>")
        return Answer(body=path.read_bytes()) if path.is_file() else Answer(404)

    with Stub(answer) as server:
        git = source(origin(f"http://{server.place}/.git", tmp_path), tmp_path / "kept")
        tree = tmp_path / "tree"
        tree.mkdir()
        with pytest.raises(SourceError, match=sentence):
            git.fetch(git.newest(), tree)
