"""Completes the output and the exit code of a foreground container, which the engine's client can lose.

The client learns the output over a connection to the engine.
On a busy machine, podman loses the output of a container that ends at once, while the engine's log has all of it.
So the lines of the log that have not reached the output of the run are added to it.
Nothing is added if the log cannot be read, as with the log drivers `none` and `passthrough`, or if it is large.
"""

from __future__ import annotations

import os
import re
import stat
import subprocess
import sys
import threading
from bisect import bisect_left
from collections.abc import Sequence
from typing import IO

COMPARED = 1 << 20
"""Bytes of a stream up to which it is compared with the log."""

_LINE = re.compile(rb"[^\n]*\n|[^\n]+")


class Progress:
    """The output of this run as it was before a command began."""

    def __init__(self) -> None:
        sys.stdout.flush()
        sys.stderr.flush()
        self._starts = [_size(descriptor) for descriptor in (1, 2)]

    def complete(self, engine: Sequence[str], name: str) -> None:
        """Add the lines that a container has printed, but that are not in the output since then."""
        streamed = [
            _since(descriptor, start)
            for descriptor, start in zip((1, 2), self._starts, strict=True)
        ]
        if all(text is None for text in streamed):
            return
        log = _log([*engine, "logs", name])
        if log is None:
            return
        for stream, text, logged in zip(
            (sys.stdout, sys.stderr), streamed, log, strict=True
        ):
            if text is not None and len(logged) <= COMPARED:
                stream.buffer.write(missing(logged, text))
                stream.flush()


def missing(log: bytes, streamed: bytes) -> bytes:
    """Return the lines of a log that have not been streamed, in their order.

    Lines of the engine itself may stand between the streamed ones.
    If the last streamed line was cut off, the rest of it is returned.
    """
    lines = _LINE.findall(streamed)
    places: dict[bytes, list[int]] = {}
    for index, line in enumerate(lines):
        places.setdefault(line, []).append(index)
    cut = lines[-1] if lines and not lines[-1].endswith(b"\n") else b""
    begin = 0
    lacking = []
    for line in _LINE.findall(log):
        at = places.get(line, ())
        index = bisect_left(at, begin)
        if index < len(at):
            begin = at[index] + 1
        elif cut and begin < len(lines) and line.startswith(cut):
            begin = len(lines)
            lacking.append(line[len(cut) :])
        else:
            lacking.append(line)
    return b"".join(lacking)


def exit_code(engine: Sequence[str], name: str, code: int) -> int:
    """Return the exit code of a foreground container that has ended.

    `code` is that of the engine's client, which is returned if the engine does not report that the container has ended.
    """
    argv = [
        *engine,
        "container",
        "inspect",
        "--format={{.State.Status}} {{.State.ExitCode}}",
        name,
    ]
    # the client has reported why there is no container, if there is none
    null = subprocess.DEVNULL
    done = subprocess.run(
        argv, stdin=null, stdout=subprocess.PIPE, stderr=null, check=False
    )
    ended = re.fullmatch(rb"(?:exited|stopped) (\d+)", done.stdout.strip())
    return int(ended[1]) if ended else code


def _size(descriptor: int) -> int | None:
    """Return the size of the file to which a descriptor writes; None if it is not a regular file."""
    status = os.fstat(descriptor)
    return status.st_size if stat.S_ISREG(status.st_mode) else None


def _since(descriptor: int, start: int | None) -> bytes | None:
    """Return the output that a file has got since it had a size; None if it is large or cannot be read."""
    end = _size(descriptor)
    if start is None or end is None or not 0 <= end - start <= COMPARED:
        return None
    try:
        # The descriptor itself may be open for writing only.
        with open(f"/proc/self/fd/{descriptor}", "rb") as file:
            file.seek(start)
            return file.read(end - start)
    except OSError:
        return None


def _log(argv: Sequence[str]) -> tuple[bytes, bytes] | None:
    """Return the beginnings of a log's two streams, and None if the log cannot be read."""
    pipe = subprocess.PIPE
    with subprocess.Popen(
        argv, stdin=subprocess.DEVNULL, stdout=pipe, stderr=pipe
    ) as process:
        errors: list[bytes] = []
        reader = threading.Thread(
            target=lambda stream: errors.append(_beginning(stream)),
            args=(process.stderr,),
        )
        reader.start()
        output = _beginning(process.stdout)
        reader.join()
        code = process.wait()
    return None if code else (output, errors[0])


def _beginning(stream: IO[bytes] | None) -> bytes:
    """Read a stream to its end; return one byte more than can be compared at most."""
    if stream is None:
        return b""
    text = stream.read(COMPARED + 1)
    while stream.read(1 << 16):
        pass
    return text
