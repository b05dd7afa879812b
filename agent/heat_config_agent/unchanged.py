"""A one-shot run that finds nothing to do, once more: nothing has changed since, so nothing is looked at anew.

What such a run comes to follows from what is put together here: the command line and the environment, settings and
documents, the journal, and what others may have changed beside it. A run that had nothing to do leaves in
`STATE/unchanged` a digest of all that, and what it said. Where the next one finds the same, it says the same. Whatever
is in doubt is looked at as ever, and so is everything as soon as something falls due of itself.

Only the least of the standard library is loaded here: to load the rest takes longer than all else that is to be done.
"""

from __future__ import annotations

import fcntl
import os
import stat
import sys
import time

from heat_config_agent import __version__

try:
    from _blake2 import blake2b  # as `random` does it: hashlib loads OpenSSL's, too
except ImportError:
    from hashlib import blake2b

TYPE_CHECKING = False  # as `typing` has it, which takes long to load

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

FILE = "unchanged"

SYSTEM_STATE = "/var/lib/heat-config-agent"
SHELL_CONFIG = "/var/run/heat-config/heat-config"
OWN_FILES = "/etc/heat-config-agent"
OTHER_FILE = "/etc/os-collect-config.conf"
"""Places of the settings' and the documents', see `settings`."""

_INSTANCE = ("/run/cloud-init/.instance-id", "/var/lib/cloud/data/instance-id")
"""What says whose the state is, see `instance`."""

_SETTLED_NS = 2_000_000_000
"""What was changed so long ago, in nanoseconds, has another time when it is changed again."""

_ROOM = 1024 * 1024
_FILES = 1024
"""Bytes that are free on a disk that is surely not full, and how many files there may be more."""

_PASSING = frozenset({"_", "SHLVL", "PWD", "OLDPWD"})
"""Variables of shells that steer nothing."""


def usual_state(environ: Mapping[str, str]) -> str:
    """Return the state directory where nobody names one."""
    if os.geteuid() == 0:
        return SYSTEM_STATE
    base = environ.get("XDG_STATE_HOME") or os.path.join(environ.get("HOME", "/"), ".local/state")  # noqa: PTH118
    return os.path.join(base, "heat-config-agent")  # noqa: PTH118


def again(words: Sequence[str], environ: Mapping[str, str]) -> bytes | None:
    """Return what a run with this command line has to say, where nothing has changed; else None."""
    state = usual_state(environ)
    if "HEAT_CONFIG_AGENT_KILL" in environ:  # see `kill_points`
        return None
    for position, word in enumerate(words):
        if word == "-":  # standard input can be read only once
            return None
        if word == "--state-dir":
            state = words[position + 1] if position + 1 < len(words) else ""
        elif word.startswith("--state-dir="):
            state = word.partition("=")[2]
    locks: list[int] = []
    try:
        for path in (state, f"{state}/lock"):  # who holds one of them may be about to change something
            locks.append(os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK))
            fcntl.flock(locks[-1], fcntl.LOCK_SH | fcntl.LOCK_NB)
        head, mark, said = _content(f"{state}/{FILE}").partition(b"\0\0")
        digest, until, *watched = head.split(b"\0")
        room = os.statvfs(state)
        full = room.f_bavail * room.f_frsize < _ROOM or (room.f_files > 0 and room.f_favail < _FILES)
        if not mark or full or time.clock_gettime(time.CLOCK_BOOTTIME) >= float(until):
            return None
        same = digest == _digest(given(words, environ), seen(map(os.fsdecode, watched)))
    except (OSError, ValueError):
        return None
    finally:
        for descriptor in locks:
            os.close(descriptor)
    return said if same else None


def keep(
    before: tuple[bytes, bytes], after: tuple[bytes, bytes], watched: Sequence[str], *, until: float, said: str
) -> bytes | None:
    """Return what is to be in `STATE/unchanged` after a run that had nothing to do; None where that is not certain.

    `before` and `after` are what was given and seen before all else and at last, `until` is when something falls due of
    itself, in seconds since boot.
    """
    times = [moment for path in watched for moment in _times(path)]
    if not all(before) or before != after or any(time.time_ns() - each < _SETTLED_NS for each in times):
        return None
    head = [_digest(*after), repr(until).encode(), *map(os.fsencode, watched)]
    return b"\0".join(head) + b"\0\0" + said.encode("utf-8", "replace")


def given(words: Sequence[str], environ: Mapping[str, str]) -> bytes:
    """Return a digest of what a run goes by: who we are, how it was called, settings and documents.

    Nothing where that cannot be told.
    """
    try:
        parts = _given(words, environ)
    except OSError:
        return b""
    digest = blake2b()
    for part in parts:
        content = part if isinstance(part, bytes) else str(part).encode("utf-8", "surrogateescape")
        digest.update(b"%d:" % len(content) + content)
    return digest.digest()


def _given(words: Sequence[str], environ: Mapping[str, str]) -> list[object]:
    parts: list[object] = [__version__, sys.executable, _facts(os.path.dirname(__file__)), os.getcwd(), *words]  # noqa: PTH120, PTH109
    parts += [os.isatty(1), os.geteuid(), _content("/proc/sys/kernel/random/boot_id")]
    parts.append(os.stat("/proc/self/ns/pid").st_ino)  # noqa: PTH116
    parts += [f"{name}={environ[name]}" for name in sorted(environ.keys() - _PASSING)]
    places = sorted(os.listdir(OWN_FILES)) if os.path.isdir(OWN_FILES) else []  # noqa: PTH112
    parts += [_facts(each) for each in (OTHER_FILE, *(f"{OWN_FILES}/{each}" for each in places), *_INSTANCE)]
    named = [environ.get("HEAT_SHELL_CONFIG", ""), SHELL_CONFIG, *words, *(each.partition("=")[2] for each in words)]
    return parts + [_document(each) for each in named]


def seen(watched: Iterable[str]) -> bytes:
    """Return how it is with files and folders that others may change."""
    return repr([(path, _facts(path)) for path in watched]).encode("utf-8", "surrogateescape")


def _digest(*parts: bytes) -> bytes:
    return blake2b(b"".join(parts)).hexdigest().encode()


def _document(path: str) -> bytes:
    """Return what is in a file, and who may read it; of anything else, what it is."""
    try:
        found = os.stat(path).st_mode if path and "\0" not in path else 0  # noqa: PTH116
    except OSError:
        found = 0
    return b"%o " % found + (_content(path) if stat.S_ISREG(found) else b"")


def _facts(path: str) -> tuple[int, ...]:
    """Return what changes when a file or a folder does; nothing where there is none."""
    try:
        found = os.lstat(path)
    except OSError:
        return ()
    return found.st_dev, found.st_ino, found.st_mode, found.st_size, found.st_mtime_ns, found.st_ctime_ns


def _times(path: str) -> tuple[int, ...]:
    return _facts(path)[-2:]


def _content(path: str) -> bytes:
    with open(os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK), "rb") as file:
        return file.read()
