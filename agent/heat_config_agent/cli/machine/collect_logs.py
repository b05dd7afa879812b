"""`heat-config-agent collect-logs [FILE]`: Write a masked support bundle: one file with what others need to help."""

from __future__ import annotations

import argparse
import contextlib
import importlib.metadata
import io
import json
import os
import platform
import re
import shutil
import subprocess
import tarfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from urllib.parse import urlsplit

from heat_config_agent import __version__
from heat_config_agent.cli import envelope, state_options, terminal
from heat_config_agent.cli.deployments import log, status
from heat_config_agent.masking import redaction
from heat_config_agent.masking.names import TELLING, signatures
from heat_config_agent.masking.redaction import concealer
from heat_config_agent.masking.secrets import Secrets
from heat_config_agent.model.deployment import Deployment, Input
from heat_config_agent.model.entry import Entry
from heat_config_agent.model.errors import AgentError, ExistsError, ExitCode, StateError
from heat_config_agent.settings.effective import Settings
from heat_config_agent.state import journal
from heat_config_hooks import files
from heat_config_hooks.protocol import CREDENTIALS
from heat_config_hooks.reply import Capture, Text, cut, fit

_EPILOG = """\
The bundle has the status, a summary of the journal, the settings, the checks of doctor, the newest output of runs and
of the agent, and versions. Secrets are masked. Before a part is written, all secrets that the machine knows are
searched for in it; a part that has one is replaced by a sentence. The file can be read by its owner alone.

exit codes:
  0  the bundle was written
  1  it could not be written
  2  bad usage or settings
"""

_RUNS = 20
"""The number of runs whose output is in the bundle, for each state directory: the newest ones."""

_STACKS = 20
"""The number of stacks that are in the bundle."""

_OUTPUT_BYTES = 256 * 1024
_MEMBER_BYTES = 1024 * 1024
_BUNDLE_BYTES = 32 * 1024 * 1024
"""The most bytes of the output of one run, of one part, and of all parts before they are compressed."""

_LOG_SECONDS = 20
_LOG_LINES = 2000
"""The limits of the part from the system's journal."""

_LIBRARIES = ("requests", "urllib3", "PyYAML", "psutil")

_FOUND = "This part was left out: a secret of this machine was found in it.\n"
_TOO_MUCH = "This part was left out: the bundle is large enough without it.\n"


def add(commands: state_options.Commands) -> None:
    """Declare the command."""
    parser = state_options.command(
        commands,
        "collect-logs",
        "write a masked support bundle",
        __doc__,
        epilog=_EPILOG,
    )
    parser.add_argument(
        "file",
        metavar="FILE",
        nargs="?",
        type=Path,
        help="the file, which must not exist (default: heat-config-agent-TIME.tar.gz in the current directory)",
    )
    state_options.add_json(parser)
    parser.set_defaults(run=run, kind="bundle")


def run(options: argparse.Namespace) -> int:
    """Write the bundle."""
    settings = state_options.of(options)
    path = options.file or Path(
        f"heat-config-agent-{time.strftime('%Y%m%d-%H%M%S')}.tar.gz"
    )
    if os.path.lexists(path):
        raise ExistsError(f"{path} exists already", hint="give the name of a new file")
    places = {"": settings.state, **_stacks(settings.state)}
    secrets = KnownSecrets(settings, places.values())
    parts = [*_parts(options, settings), *_parts_of_places(places, settings, secrets)]
    number = _write(path, parts, *secrets.searches())
    if options.json:
        # the commands whose output is in the bundle have other kinds
        envelope.begin("bundle", is_on=True)
        names = [name for name, _ in parts]
        values = {"file": str(path), "bytes": number, "parts": names}
        envelope.result(values)
        return ExitCode.OK
    terminal.say(
        f"{path}: {terminal.count(len(parts), 'part')}, {number:,} bytes; look through it before you send it"
    )
    return ExitCode.OK


def _stacks(state: Path) -> dict[str, Path]:
    """Return the folders of the newest stacks, by the names of their folders in the bundle."""
    found = [path.parent for path in (state / "stacks").glob(f"*/{journal.FILE}")]
    newest = sorted(found, key=lambda path: path.stat().st_mtime, reverse=True)
    return {f"stacks/{path.name}/": path for path in newest[:_STACKS]}


def _parts(
    options: argparse.Namespace, settings: Settings
) -> Iterator[tuple[str, str]]:
    """Yield the parts of the bundle that exist once: the name of each part, and its text."""
    where = ["--state-dir", str(settings.state)]
    where += ["--config", str(options.config)] if options.config else []
    yield "versions.txt", _versions()
    yield "config.txt", _printed(["config", *where])
    yield "doctor.txt", _printed(["doctor", "--all", *where])
    yield "agent.log", _log_of_agent()


def _parts_of_places(
    places: dict[str, Path], settings: Settings, secrets: KnownSecrets
) -> Iterator[tuple[str, str]]:
    """Yield the parts of the bundle for each state directory."""
    for prefix, place in places.items():
        yield (
            f"{prefix}status.txt",
            _printed(["status", "--all", "--wide", "--state-dir", str(place)]),
        )
        try:
            entries = sorted(
                journal.read(place, follow_ups=True).values(),
                key=lambda entry: entry.accepted,
            )
        except StateError as error:
            yield f"{prefix}journal.json", f"{error}\n"
            continue
        yield f"{prefix}journal.json", _summary(entries, place)
        for name in _OF_VERIFICATIONS:
            if content := _content(place / name):
                yield f"{prefix}{name}", f"{json.dumps(content, indent=1)}\n"
        for entry in [
            entry for entry in entries if (place / "runs" / entry.key).is_dir()
        ][-_RUNS:]:
            yield (
                f"{prefix}output/{entry.key}.txt",
                _output(entry, place, settings, secrets),
            )


def _versions() -> str:
    """Return the versions of the agent, of Python and of its libraries."""
    lines = [
        f"heat-config-agent {__version__}",
        f"Python {platform.python_version()}",
        f"Linux {platform.release()}",
    ]
    with contextlib.suppress(OSError):
        lines.append(platform.freedesktop_os_release().get("PRETTY_NAME", ""))
    for name in _LIBRARIES:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            lines.append(f"{name} {importlib.metadata.version(name)}")
    return "\n".join([*filter(None, lines), ""])


def _printed(words: Sequence[str]) -> str:
    """Return the output of a command of the agent. A failing command says why, and the bundle continues."""
    from heat_config_agent.cli import agent  # noqa: PLC0415  # it imports this module in turn, to run it

    output = io.StringIO()
    warned = len(terminal.warnings)
    with contextlib.redirect_stdout(output), contextlib.redirect_stderr(output):
        try:
            agent.main(words)
        except AgentError as error:
            output.write(f"error: {error}\n")
        except Exception as error:  # noqa: BLE001  # the other parts may show what is wrong
            terminal.defect(error)
    del terminal.warnings[warned:]  # they are in that part
    return output.getvalue()


def _summary(entries: Sequence[Entry], place: Path) -> str:
    """Return the number of deployments in each state, and a record of each, as JSON."""
    value = {
        "states": Counter(entry.state.value for entry in entries),
        "bytes": (place / journal.FILE).stat().st_size if entries else 0,
        "deployments": [status.values(entry, place) for entry in entries],
    }
    return f"{json.dumps(value, indent=1)}\n"


def _output(
    entry: Entry, place: Path, settings: Settings, secrets: KnownSecrets
) -> str:
    """Return the masked beginning and end of the output of a run."""
    folder = place / "runs" / entry.key
    deployment = state_options.deployment(settings, entry)
    deployment = (
        log.revealed(deployment, folder, entry, follow=False) if deployment else None
    )
    if deployment is None:
        return "The output is left out: the secrets in it are not known.\n"
    secrets.add(deployment)
    conceal = concealer(deployment)
    streams = {name: Capture(folder / name) for name in ("stdout", "stderr")}
    texts = fit(streams, _OUTPUT_BYTES, change=lambda _, text: conceal.text(text))
    return "".join(
        f"--- {name}\n{terminal.plain(str(texts.get(name, '')))}\n" for name in streams
    )


def _log_of_agent() -> str:
    """Return the newest lines of the daemon in the system's journal."""
    program = shutil.which("journalctl")
    if program is None:
        return "there is no journalctl on this machine\n"
    words = [
        program,
        "--no-pager",
        "--quiet",
        f"--lines={_LOG_LINES}",
        "--unit=heat-config-agent*",
    ]
    try:
        done = subprocess.run(
            words,
            capture_output=True,
            check=False,
            timeout=_LOG_SECONDS,
            stdin=subprocess.DEVNULL,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"journalctl failed: {type(error).__name__}\n"
    return terminal.plain((done.stdout + done.stderr).decode("utf-8", "replace"))


def _write(
    path: Path, parts: Sequence[tuple[str, str]], certain: Secrets, every: Secrets
) -> int:
    """Write the bundle, and return its size in bytes. Raises AgentError."""
    room = _BUNDLE_BYTES
    try:
        descriptor = os.open(
            path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600
        )
    except OSError as error:
        raise AgentError(f"cannot write {path}: {error.strerror}") from error
    try:
        with (
            open(descriptor, "wb") as file,
            tarfile.open(fileobj=file, mode="w:gz") as bundle,
        ):
            for name, text in parts:
                content = (
                    _checked(text, certain, every) if room > 0 else _TOO_MUCH.encode()
                )
                room -= len(content)
                member = tarfile.TarInfo(f"heat-config-agent/{name}")
                member.size, member.mode, member.mtime = (
                    len(content),
                    0o600,
                    int(time.time()),
                )
                bundle.addfile(member, io.BytesIO(content))
        return path.stat().st_size
    except OSError as error:
        with contextlib.suppress(OSError):
            path.unlink()
        raise AgentError(f"cannot write {path}: {error.strerror}") from error


def _checked(text: str, certain: Secrets, every: Secrets) -> bytes:
    """Return a part as it is written: within its limit, and without any secret of this machine."""
    if certain.spans(text.encode("utf-8", "replace")):
        return _FOUND.encode()
    return cut(Text(every.hide(text)), _MEMBER_BYTES).encode("utf-8", "replace")


_OF_VERIFICATIONS = ("verified.json", "repairs.json")
"""The files with the last verification of each deployment, and with the repairs on a schedule."""

_PAIRS = ("environment", "parameters")
"""Settings whose values are pairs of the form NAME=VALUE."""

_LARGEST = 64 * 1024 * 1024
"""The largest file in bytes that is read."""


class KnownSecrets:
    """The secrets of the settings, the documents of sources, and the deployments in some state directories."""

    def __init__(self, settings: Settings, places: Iterable[Path]) -> None:
        """Collect them; `places` are state directories. Secrets of a run have to be added, see `add`."""
        self._values: list[object] = [
            text
            for layer in settings.layers
            for text in _secret_texts(dict(layer.sections), "")
        ]
        for place in places:
            for path in (
                place / "learned.json",
                *_json_files(place / "documents"),
                *_json_files(place / "deployed"),
            ):
                self._values += _secret_texts(_content(path), "")
            with contextlib.suppress(StateError):  # `status` says so in the bundle
                for entry in journal.read(place, follow_ups=True).values():
                    self._values += _secret_texts(entry.document, "")

    def add(self, deployment: Deployment) -> None:
        """Add the secrets of a deployment, whose references to secrets have been replaced by the secrets."""
        for item in redaction.secret_inputs(deployment):
            if item.name in CREDENTIALS and not item.hidden:
                self._values += _secret_texts(item.value, item.name)
            else:
                self._values.append(item.value)

    def searches(self) -> tuple[Secrets, Secrets]:
        """Return the search for secrets that are surely meant where a text contains them, and for all the others.

        The others are short, or plain words: they may be in a text by chance.
        """
        every = redaction.search([Input(name="any", value=self._values)])
        texts = [
            text
            for value in self._values
            for text in _texts(value)
            if redaction.is_distinctive(text)
        ]
        return redaction.search([Input(name="any", value=texts)]), every


def _secret_texts(value: object, name: str) -> Iterator[str]:
    """Yield the secrets in a JSON value: of inputs, of keys whose names tell that, and in URLs."""
    if isinstance(value, Mapping):
        own = value.get("name")
        if isinstance(own, str) and (value.get("hidden") or value.get("no_echo")):
            yield from _texts([value.get("value"), value.get("default")])
        for key, inner in value.items():
            yield from _secret_texts(
                inner,
                own
                if key in ("value", "default") and isinstance(own, str)
                else str(key),
            )
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from _secret_texts(inner, name)
    elif isinstance(value, str):
        before, sign, after = value.partition("=")
        if re.search(TELLING, name):
            yield value
        elif sign and name in _PAIRS and re.search(TELLING, before):
            yield after
        if "://" in value:
            yield from signatures(value)
            with contextlib.suppress(ValueError):
                yield urlsplit(value).password or ""


def _texts(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        yield from _texts(list(value.values()))
    elif isinstance(value, list):
        for inner in value:
            yield from _texts(inner)


def _json_files(folder: Path) -> list[Path]:
    try:
        return sorted(folder.glob("*.json"))
    except OSError:
        return []


def _content(path: Path) -> object:
    """Return the JSON value of a file; None if there is none."""
    try:
        if path.stat().st_size > _LARGEST:
            return None
        return json.loads(files.read(path))
    except (OSError, ValueError, RecursionError):
        return None
