"""The folder of secrets, and what the built-in providers have in common.

A name cannot lead out of the folder: it has no `..`, each part of it is opened in the one before, and no link is
followed. So an author of metadata reads what was put there, and no other file.
"""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Callable
from pathlib import Path

from heat_config_agent.runs.providers import LARGEST, ProviderError
from heat_config_hooks import memory

FOLDER = "HEAT_SECRETS_DIR"
"""The variable with the path of the folder."""


def read(name: str, suffix: str = "") -> bytes:
    """Return the content of a file in the folder. `suffix` is added to its name. Raises ProviderError."""
    folder = os.environ.get(FOLDER, "")
    *folders, last = name.split("/")
    if (
        not folder.startswith("/")
        or any(part in ("", ".", "..") for part in (*folders, last))
        or "\0" in name
    ):
        raise ProviderError(
            f"expected the name of a file in {folder or 'the folder of secrets'}, not {name!r}"
        )
    place = folder
    try:
        held = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            _check(held, place)
            for part in folders:
                place = f"{place}/{part}"
                flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
                inner = os.open(part, flags, dir_fd=held)
                os.close(held)
                held = inner
                _check(held, place)
            place = f"{place}/{last}{suffix}"
            flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
            inner = os.open(f"{last}{suffix}", flags, dir_fd=held)
            os.close(held)
            held = inner
            _check(held, place)
            if not stat.S_ISREG(os.fstat(held).st_mode):
                raise ProviderError(f"{place} is not a file")
            data = b""
            while len(data) <= 2 * LARGEST and (more := os.read(held, 65536)):
                data += more
        finally:
            os.close(held)
    except OSError as error:
        why = "it is a symbolic link" if Path(place).is_symlink() else error.strerror
        raise ProviderError(f"cannot read {place}: {why}") from error
    if len(data) > 2 * LARGEST:
        raise ProviderError(f"{place} is too large for a secret")
    return data


def _check(descriptor: int, place: str) -> None:
    """Raise ProviderError if other users could have put a secret there."""
    found = os.fstat(descriptor)
    if found.st_uid not in (0, os.geteuid()):
        raise ProviderError(
            f"{place} belongs to the user {found.st_uid}; it has to belong to root"
        )
    if found.st_mode & 0o022:
        raise ProviderError(f"other users may write to {place}; run chmod go-w {place}")


def answer(provide: Callable[[str], bytes]) -> int:
    """Carry out the protocol of a provider: print what `provide` returns for the reference on standard input."""
    memory.keep_no_core()
    reference = (
        sys.stdin.buffer.read(LARGEST).decode("utf-8", "replace").removesuffix("\n")
    )
    try:
        sys.stdout.buffer.write(provide(reference))
    except ProviderError as error:
        print(error, file=sys.stderr)
        return 1
    return 0
