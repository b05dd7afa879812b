"""Secrets planted in what the tests hand out, and the search for them after every test.

Each deployment of `machine.deployment` has a password with which Heat is spoken to, and an input that the document
hides; URLs of `loopback.SignalServer` are signed. In each of these is a word that is nowhere else. Wherever one of the
words turns up in what anybody may see, be it in base64, the test has failed; one that is meant to show them says why,
by `@pytest.mark.shows_secrets("why")`.
"""

from __future__ import annotations

import base64
import contextlib
import functools
import io
import json
import os
import re
import secrets
import tempfile
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest.mock import patch
from urllib.parse import parse_qsl, urlsplit

from heat_config_agent.cli import agent
from heat_config_agent.model.errors import AgentError
from heat_config_agent.runs import earlier, run_folder
from heat_config_agent.state import journal

if TYPE_CHECKING:
    from heat_config_agent.model.entry import Entry
    from support.loopback import SignalServer
    from support.machine import Machine

WORD = f"planted{secrets.token_hex(6)}"
"""It is in all secrets of this process's tests, and programs write none of it otherwise, but in base64."""

PASSWORD = f'{WORD}-pass/wörd+"1'
HIDDEN = f"{WORD}-hidden/ünd&so\\on"
SIGNATURE = "c2lnbmVk"
"""The word in signed URLs of `loopback`: it cannot be one of this process's, as tests keep whole URLs as cases."""

RECORD = "stack"
"""The file with the record of a stack, in its folder."""

LARGEST = 4 * 1024 * 1024
"""Bytes of a file of somebody else's that are looked at."""

MUCH = 256 * 1024
"""Bytes of output that are not printed once more to look for secrets in them."""

TEMPORARY = Path(tempfile.gettempdir())


def plant(inputs: Iterable[Any], *, hidden: bool = True) -> list[dict[str, Any]]:
    """Return the inputs with which secrets are planted, beside those that there are."""
    names = {each.get("name") for each in inputs if isinstance(each, dict)}
    planted: list[dict[str, Any]] = [
        {"name": "deploy_password", "type": "String", "value": PASSWORD},
        {"name": "planted", "type": "String", "value": HIDDEN, "hidden": True},
    ]
    return [each for each in planted[: 1 + hidden] if each["name"] not in names]


def forms(word: str) -> set[str]:
    """Return the texts by which a word is found: it is plain, or somewhere in something that is in base64.

    What is escaped for JSON or a URL has the word as it is.
    """
    found = {word}
    for before in range(3):
        for encode in (base64.b64encode, base64.urlsafe_b64encode):
            text = encode(b"\0" * before + word.encode()).decode()
            # Without the characters at both ends in which there are bits of what stands beside it.
            found.add(text[-(-before * 8 // 6) : (before + len(word)) * 8 // 6])
    return found


def pattern(*words: str) -> re.Pattern[bytes]:
    """Return what finds these words in whatever form."""
    return re.compile(
        "|".join(
            sorted(re.escape(form) for word in words for form in forms(word))
        ).encode()
    )


_WORDS = pattern(WORD, SIGNATURE)


def leaks(
    places: Iterable[tuple[str, str | bytes]], words: re.Pattern[bytes] = _WORDS
) -> list[str]:
    """Return in which of the places (what it is → what is in it) there are secrets, with what stands around them."""
    result = []
    for name, content in places:
        text = _encoded(content) if isinstance(content, str) else content
        if hit := words.search(text):
            around = text[max(hit.start() - 100, 0) : hit.end() + 100].decode(
                "utf-8", "replace"
            )
            result.append(f"a secret is in {name}: …{around}…")
    return result


def _encoded(text: str) -> bytes:
    """Return text as bytes; half of a character, which a document may name, is replaced."""
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return text.encode("utf-8", "replace")


def left(folder: Path) -> list[str]:
    """Return the files below a folder that have a secret in them, in any form."""
    files = [path for path in folder.rglob("*") if not path.is_symlink()]
    return leaks(
        ((str(path), path.read_bytes()) for path in files if path.is_file()),
        pattern(WORD),
    )


def told(server: SignalServer) -> list[str]:
    """Return which secrets a server was told: in results, and in headers."""
    return leaks(
        (
            f"what {each.verb} {each.path.partition('?')[0]} brought",
            each.body + repr(each.headers).encode(),
        )
        for each in server.signals
    )


def shown(machine: Machine, words: re.Pattern[bytes] = _WORDS) -> list[str]:
    """Return what is wrong on a machine after a test: secrets that can be seen, and files that others can read."""
    return [*leaks(_places(machine), words), *_open(machine.state), *_left(machine)]


def credentials(state: Path, *documents: object) -> set[str]:
    """Return the real ones that Heat has given: in documents, and in those that are kept in a state directory."""
    kept = [
        path
        for path in ((state / "learned.json"), *(state / "documents").glob("*.json"))
        if path.is_file()
    ]
    known = journal.read(state).values()
    return set(
        _credentials(
            [
                *documents,
                *(json.loads(path.read_bytes()) for path in kept),
                *_inputs(known),
            ]
        )
    )


def _inputs(entries: Iterable[Entry]) -> Iterator[object]:
    for entry in entries:
        items = entry.document.get("inputs")
        for each in items if isinstance(items, list) else ():
            yield {each["name"]: each.get("value")}


def _credentials(value: object) -> Iterator[str]:
    if isinstance(value, list):
        for each in value:
            yield from _credentials(each)
    elif isinstance(value, dict):
        pair = (
            {value["name"]: value.get("value")}
            if isinstance(value.get("name"), str)
            else {}
        )
        for name, each in (*value.items(), *pair.items()):
            if not isinstance(each, str):
                yield from _credentials(each)
            elif name in ("password", "secret_access_key", "deploy_password") and each:
                yield each
            elif "://" in each:
                yield from (
                    text
                    for key, text in parse_qsl(urlsplit(each).query)
                    if _SIGNATURE.search(key)
                )


_SIGNATURE = re.compile(r"^signature$|_sig$", re.IGNORECASE)


def _places(machine: Machine) -> Iterator[tuple[str, str | bytes]]:
    """Yield everything that people, or others on the machine, see of it."""
    yield from machine.said
    for path in machine.logs:
        if path.is_file():
            yield path.name, path.read_bytes()
    if not machine.state.is_dir() or not os.access(machine.state, os.R_OK | os.X_OK):
        return
    stacks = [path.parent for path in (machine.state / "stacks").glob(f"*/{RECORD}")]
    for state in (machine.state, *stacks):
        # a stack's folder is a state directory of its own
        if (state / journal.FILE).is_file():
            yield from _listings(machine, state)
    for each in stacks:
        with _read_once():
            yield from _shown_of(machine, each.name)
    names = []
    for folder, folders, files in os.walk(machine.state):
        names += [*folders, *files]
        place = Path(folder)
        for name in files:
            if not _may_hold(place.relative_to(machine.state), name):
                yield str(place / name), _content(place / name)
    yield "the name of a file", "\n".join(names).encode("utf-8", "surrogateescape")
    yield from _temporary(machine)


def _may_hold(folder: Path, name: str) -> bool:
    """Return whether a file of the state directory may have secrets: SECURITY.md lists these files."""
    if folder == Path():
        return name.startswith(
            (journal.FILE, f".{journal.FILE}", "learned.json", ".learned.json")
        )
    top = folder.parts[0]
    if run_folder.EARLIER in folder.parts:  # it is masked on disk
        return False
    if top == "stacks" and len(folder.parts) > 1:
        # results are in it with their outputs, which other resources need
        inner = Path(*folder.parts[2:])
        return (
            name.startswith((RECORD, f".{RECORD}"))
            or inner == Path("deployed")
            or _may_hold(inner, name)
        )
    if top == "deployed":
        return not name.endswith(".notify.json")
    # What was collected, a run's own folder, scripts and their outputs; and state of another instance.
    return top in ("documents", "runs", "run") or top.startswith(
        ("heat-config-", "of-")
    )


def _content(path: Path) -> bytes:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW)
    except OSError:
        return b""
    with open(descriptor, "rb") as file:
        try:
            return file.read(LARGEST) or b""
        except OSError:
            return b""


def _temporary(machine: Machine) -> Iterator[tuple[str, str | bytes]]:
    """Yield what was left in the folder for temporary files, by whomever."""
    with os.scandir(TEMPORARY) as found:
        for each in found:
            try:
                mine = each.stat(follow_symlinks=False).st_mtime >= machine.since
            except FileNotFoundError:
                continue
            if mine and each.is_file(follow_symlinks=False):
                yield each.path, each.name.encode() + _content(Path(each.path))


def _shown_of(machine: Machine, name: str) -> Iterator[tuple[str, str]]:
    """Yield what the commands about stacks print of one."""
    for words in (
        *(
            ("show",),
            ("show", "--json"),
            ("output", "list"),
            ("output", "list", "--json"),
            ("output", "show", "--all"),
        ),
        *(("resource", "list", "-n", "5"), ("resource", "list", "-n", "5", "--json")),
        *(
            ("event", "list"),
            ("event", "list", "--json"),
            ("graph",),
            ("graph", "--format", "svg"),
        ),
        *(
            ("graph", "--timeline"),
            ("graph", "--timeline", "--format", "svg"),
            ("graph", "--format", "dot"),
            ("graph", "--format", "mermaid"),
            ("graph", "--timeline", "--format", "mermaid"),
        ),
    ):
        yield f"stack {' '.join(words)}", _stack(machine, *words, name)
    listed = _stack(machine, "resource", "list", "-n", "5", "--json", name)
    for number, each in enumerate(
        json.loads(listed)["data"]["resources"] if listed.startswith("{") else ()
    ):
        # each is shown, in turn as text and as JSON
        option = ["--json"] if number % 2 else []
        yield (
            "stack resource show",
            _stack(machine, "resource", "show", *option, name, each["resource_name"]),
        )


@contextlib.contextmanager
def _read_once() -> Iterator[None]:
    """Have the commands about a stack read its records and compile its template once, not each."""
    from heat_config_stack.cli.stack import sessions  # noqa: PLC0415  # tests of the agent alone have no stacks

    look = sessions.look
    opened: list[object] = []

    def once(settings: Any, name: str, *warn: Any) -> Any:
        if not opened:
            opened.append(look(settings, name, *warn))
        return opened[0]

    with patch.object(sessions, "look", once):
        yield


def _stack(machine: Machine, *words: str) -> str:
    return printed("stack", *words, "--state-dir", str(machine.state))


def _listings(machine: Machine, place: Path) -> Iterator[tuple[str, str]]:
    """Yield what the commands print, called here: as processes they would take longer than many a test.

    Of several deployments the first is shown as text, the last as JSON.
    """
    try:
        entries = list(journal.read(place))
    except AgentError:
        entries = []
    settings = machine.config if machine.config and machine.config.exists() else None
    common = ["--state-dir", str(place)]
    common += ["--config", str(settings)] if settings else []
    for form in ([], ["--json"]):
        commands = [["status", "--all"]]
        commands += [["config"]] if settings else []
        commands += [["show", entries[-1 if form else 0]]] if entries else []
        for words in commands:
            yield " ".join(words), printed(*words, *form, *common)
    printed_by_it = place / "runs" / (entries[-1] if entries else "") / "stdout"
    if printed_by_it.is_file() and printed_by_it.stat().st_size < MUCH:
        words = ["log", entries[-1]]
        yield " ".join(words), printed(*words, *common)
        for number in range(1, len(earlier.listed(printed_by_it.parent)) + 1):
            chosen = [*words, "--run", str(number)]
            yield " ".join(chosen), printed(*chosen, *common)


_parser = functools.cache(agent.parser)
"""To declare the options of a command takes longer than most listings."""


def printed(*words: str) -> str:
    """Return what a command of the agent prints, and what it says where it fails."""
    said = io.StringIO()
    with (
        contextlib.redirect_stdout(said),
        contextlib.redirect_stderr(said),
        patch.object(agent, "parser", _parser),
    ):
        try:
            agent.main(words)
        except AgentError as error:
            said.write(str(error))
    return said.getvalue()


_OURS = (
    "journal",
    "health.json",
    "documents/*.json",
    "deployed/*.notify.json",
    "runs",
    "runs/*",
)
"""The files that only the agent writes; tests write many others too."""


def _open(state: Path) -> Iterator[str]:
    """Yield which of our own files others than we can read."""
    for pattern in (
        *_OURS,
        *(f"runs/*/{name}" for name in (*run_folder.STREAMS, "earlier/*/*")),
    ):
        for path in state.glob(pattern):
            with contextlib.suppress(FileNotFoundError):
                found = path.lstat()
                # a test's
                odd = path.is_symlink() or (
                    path.is_dir() and not pattern.startswith("runs")
                )
                if found.st_mode & 0o077 and not odd:
                    yield f"others may read {path}: its mode is {found.st_mode & 0o7777:o}"


def _left(machine: Machine) -> Iterator[str]:
    """Yield what is left of runs that are over, and of temporary files; and cores."""
    if (machine.state / journal.FILE).is_file():
        with contextlib.suppress(AgentError):
            for key, entry in journal.read(machine.state).items():
                folder = machine.state / "runs" / key
                for path in folder.glob("*") if entry.settled else ():
                    if path.name not in (
                        *run_folder.STREAMS,
                        run_folder.EARLIER,
                    ) and not path.name.startswith("status."):
                        yield f"what a run was given is left: {path}"
    for folder in (machine.folder, machine.state):
        yield from (
            f"a core: {path}" for path in folder.glob("core*") if path.is_file()
        )
    yield from (
        f"a temporary file is left: {path}" for path in machine.temporary.glob("*")
    )


def now() -> float:
    """Return the time as files have it."""
    return time.time() - 0.1  # a file's time is that of the last tick of the kernel's
