"""The shortcut for a one-shot run that has nothing to do, as the run before it.

The outcome of such a run follows from its inputs: the command line, the environment, settings, documents, the journal,
and other files in the state directory. A run that had nothing to do writes a digest of these inputs, and its output,
to `STATE/unchanged`. If the next run has the same digest, it prints the same output. In doubt, and when something falls
due by itself, the run takes the long way.

This module loads very little of the standard library, because loading takes longer than the rest of such a run.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
import sys
import time

from heat_config_agent import __version__

try:
    from _blake2 import blake2b  # as `random` does it: hashlib would load OpenSSL too
except ImportError:
    from hashlib import blake2b
from heat_config_agent.settings.paths import (
    OTHER_FILE,
    OWN_FILES,
    SHELL_CONFIG,
    usual_state,
)

TYPE_CHECKING = False  # as `typing` has it, which takes long to load


if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence


FILE = "unchanged"

_INSTANCE = ("/run/cloud-init/.instance-id", "/var/lib/cloud/data/instance-id")
"""The files with the id of the instance, see `state.instance`."""

_SETTLED_NS = 2_000_000_000
"""Age of a file in nanoseconds from which another change is certain to change its time."""

_LARGEST = 64 * 1024 * 1024
"""Maximum size of a document in bytes, as in `heat_config_hooks.files`."""

_SHORT = 4096
"""Maximum size of a file in /proc in bytes: the kernel refuses much larger reads (ENOMEM)."""

_ROOM = 1024 * 1024
_FILES = 1024
"""Free bytes and free inodes with which a disk counts as not full."""

_PASSING = frozenset({"_", "SHLVL", "PWD", "OLDPWD"})
"""Variables of shells that do not affect a run."""

_PACKAGE = os.path.dirname(os.path.dirname(os.path.dirname(__file__)))  # noqa: PTH120
"""The agent's own folder, which an upgrade changes."""


def again(words: Sequence[str], environ: Mapping[str, str]) -> bytes | None:
    """Return the output of a run with this command line if nothing has changed; else None."""
    state = usual_state(environ)
    for position, word in enumerate(words):
        if word == "-":  # standard input can be read only once
            return None
        if word == "--state-dir":
            state = words[position + 1] if position + 1 < len(words) else ""
        elif word.startswith("--state-dir="):
            state = word.partition("=")[2]
    locks: list[int] = []
    try:
        for path in (state, f"{state}/lock"):
            # a process that holds one of them may be about to change something
            locks.append(os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK))
            fcntl.flock(locks[-1], fcntl.LOCK_SH | fcntl.LOCK_NB)
            found = os.fstat(locks[-1])
            if found.st_uid != os.geteuid() or found.st_mode & 0o077:
                return None  # other users have access: `lock` checks whether the directory may be used
        head, mark, output = _content(f"{state}/{FILE}").partition(b"\0\0")
        digest, until, *watched = head.split(b"\0")
        room = os.statvfs(state)
        full = room.f_bavail * room.f_frsize < _ROOM or (
            room.f_files > 0 and room.f_favail < _FILES
        )
        if not mark or full or time.clock_gettime(time.CLOCK_BOOTTIME) >= float(until):
            return None
        same = digest == _digest(
            inputs(words, environ), seen(map(os.fsdecode, watched))
        )
    except (OSError, ValueError):
        return None
    finally:
        for descriptor in locks:
            os.close(descriptor)
    return output if same else None


def keep(
    before: tuple[bytes, bytes],
    after: tuple[bytes, bytes],
    watched: Sequence[str],
    *,
    until: float,
    output: str,
) -> bytes | None:
    """Return the content of `STATE/unchanged` after a run that had nothing to do; None if a change cannot be ruled out.

    `before` and `after` are the digests of `inputs` and `seen` at the beginning and at the end of the run. `until` is
    the time at which something falls due by itself, in seconds since boot.
    """
    times = [moment for path in watched for moment in _times(path)]
    if (
        not all(before)
        or before != after
        or any(time.time_ns() - each < _SETTLED_NS for each in times)
    ):
        return None
    head = [_digest(*after), repr(until).encode(), *map(os.fsencode, watched)]
    return b"\0".join(head) + b"\0\0" + output.encode("utf-8", "replace")


def inputs(words: Sequence[str], environ: Mapping[str, str]) -> bytes:
    """Return a digest of the user, the command line, the environment, settings and documents of a run.

    It is empty if one of them cannot be read.
    """
    try:
        parts = _inputs(words, environ)
    except OSError:
        return b""
    digest = blake2b()
    for part in parts:
        content = (
            part
            if isinstance(part, bytes)
            else str(part).encode("utf-8", "surrogateescape")
        )
        digest.update(b"%d:" % len(content) + content)
    return digest.digest()


def _inputs(words: Sequence[str], environ: Mapping[str, str]) -> list[object]:
    parts: list[object] = [
        __version__,
        sys.executable,
        _facts(_PACKAGE),
        os.getcwd(),  # noqa: PTH109
        *words,
    ]
    parts += [
        os.isatty(1),
        os.geteuid(),
        _content("/proc/sys/kernel/random/boot_id", _SHORT),
    ]
    parts.append(os.stat("/proc/self/ns/pid").st_ino)  # noqa: PTH116
    parts += [f"{name}={environ[name]}" for name in sorted(environ.keys() - _PASSING)]
    places = sorted(os.listdir(OWN_FILES)) if os.path.isdir(OWN_FILES) else []  # noqa: PTH112
    parts += [
        _facts(each)
        for each in (
            OTHER_FILE,
            *(f"{OWN_FILES}/{each}" for each in places),
            *_INSTANCE,
        )
    ]
    named = [
        environ.get("HEAT_SHELL_CONFIG", ""),
        SHELL_CONFIG,
        *words,
        *(each.partition("=")[2] for each in words),
    ]
    return parts + [_document(each) for each in named]


def seen(watched: Iterable[str]) -> bytes:
    """Return a digest of the state of files and folders that others may change."""
    return repr([(path, _facts(path)) for path in watched]).encode(
        "utf-8", "surrogateescape"
    )


def _digest(*parts: bytes) -> bytes:
    return blake2b(b"".join(parts)).hexdigest().encode()


def _document(path: str) -> bytes:
    """Return the mode of a path, and its content if it is a regular file."""
    try:
        found = os.stat(path).st_mode if path and "\0" not in path else 0  # noqa: PTH116
    except OSError:
        found = 0
    return b"%o " % found + (_content(path) if stat.S_ISREG(found) else b"")


def _facts(path: str) -> tuple[int, ...]:
    """Return the metadata that changes when a file or folder changes; empty if the path does not exist."""
    try:
        found = os.lstat(path)
    except OSError:
        return ()
    return (
        found.st_dev,
        found.st_ino,
        found.st_mode,
        found.st_size,
        found.st_mtime_ns,
        found.st_ctime_ns,
    )


def _times(path: str) -> tuple[int, ...]:
    return _facts(path)[-2:]


def _content(path: str, most: int = _LARGEST) -> bytes:
    with open(os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK), "rb") as file:
        content = file.read(most + 1)
    if len(content) > most:
        raise OSError(errno.EFBIG, "it is too large", path)
    return content
