"""Limits of a template: time, memory, and sizes of values."""

from __future__ import annotations

import gc
import math
import os
import resource
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from heat_config_agent.model.errors import TimeOver

_T = TypeVar("_T")

SECONDS = 10.0
"""Seconds for one function of a template, or for matching one pattern against one value."""

TEMPLATE_SECONDS = 60.0
"""Seconds for evaluating and checking a template with everything that it names."""

OUT_OF_TIME = f"the template takes over {TEMPLATE_SECONDS:g} s to evaluate"

MEMORY = 256 * 1024 * 1024
"""Bytes of memory for one yaql expression."""

LONGEST = 64 * 1024 * 1024
"""The maximum of characters in a value with everything inside it; also of all values of a template's resources
together."""

MOST = 1_000_000
"""The maximum of values in a value: items, entries, and those inside them; also of all resources together."""

DEEPEST = 100
"""The maximum depth of lists and maps."""

MOST_RESOURCES = 1000
"""The maximum of resources of a stack with all its nested stacks, as in Heat (`max_resources_per_stack`)."""

LARGEST_TEMPLATE = 524288
"""The maximum size of a template in bytes, as in Heat (`max_template_size`)."""


def too_many(number: int) -> str:
    """Return the message for a stack with too many resources."""
    shown = f"{number:,}" if number < 10**15 else f"more than {10**15:,}"
    most = f"{MOST_RESOURCES:,}, counted with those of its nested stacks"
    return f"Maximum resources per stack exceeded: there would be {shown}, and the limit is {most}"


class TooMuch(Exception):  # noqa: N818  # the name says it
    """A limit is exceeded; the text names the quantity and the limit."""


# Time and memory.


_ends: list[float] = []
"""The deadlines of nested work, the outermost first; each is earlier than the one before it."""


def within(seconds: float, work: Callable[[], _T]) -> _T:
    """Return the result of some work. Raises `TooMuch` if it takes longer than that.

    A signal ends the work, so the limit applies only in the main thread, where commands run; Python's own loops,
    patterns and large numbers react to it. Nested work never gets more time than the work around it.
    """
    if threading.current_thread() is not threading.main_thread():
        return work()
    now = time.monotonic()
    end, depth = now + seconds, len(_ends)
    if _ends and _ends[-1] <= now:
        raise TimeOver(_ends[-1])
    if _ends and _ends[-1] <= end:
        return work()
    former = None if depth else signal.signal(signal.SIGALRM, _ring)
    try:
        try:
            if not depth:
                signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGALRM})
            _ends.append(end)
            signal.setitimer(signal.ITIMER_REAL, seconds)
            return work()
        finally:
            del _ends[depth:]
            signal.setitimer(
                signal.ITIMER_REAL,
                max(_ends[-1] - time.monotonic(), 1e-6) if _ends else 0.0,
            )
    except TimeOver as over:
        if over.end != end:
            raise
        raise TooMuch(f"it takes over {seconds:g} s") from None
    finally:
        del _ends[depth:]
        if not depth:
            signal.setitimer(signal.ITIMER_REAL, 0.0)
            signal.signal(signal.SIGALRM, signal.SIG_DFL if former is None else former)


def _ring(_number: int, _frame: object) -> None:
    now = time.monotonic()
    for end in _ends:
        if end <= now:
            raise TimeOver(end)
    if _ends:  # the signal was meant for work that has ended by now
        signal.setitimer(signal.ITIMER_REAL, _ends[-1] - now)


def within_template(work: Callable[[], _T]) -> _T:
    """Return the result of some work on a whole template. Raises `TooMuch` if it takes longer than allowed for one.

    Garbage is not collected meanwhile: nearly everything that is made of a template stays, and a large one would be
    searched for garbage again and again, which takes as long as the work itself. After that, what there is counts as
    old, so that the next collection does not search it either.
    """
    collects = gc.isenabled()
    gc.disable()
    try:
        return within(TEMPLATE_SECONDS, work)
    finally:
        if collects:
            _count_as_old()
            gc.enable()


_FREEZES = 4
"""The number of times that a process freezes the objects that it has made of templates.

A command reads few templates. In a process that reads many, garbage that is frozen would never be freed.
"""

_freezes: list[bool] = []
"""One element for each time that objects were frozen for good; the first is the start of the process."""


def _count_as_old() -> None:
    """Exclude the objects that exist now from the next collection."""
    if not _freezes and gc.get_freeze_count():
        # to count is to go through all that is frozen
        _freezes.append(True)
    if not _freezes:
        gc.freeze()
        gc.unfreeze()  # they are in the oldest generation now
    elif len(_freezes) <= _FREEZES:
        gc.freeze()
        _freezes.append(True)


@contextmanager
def memory(most: int = MEMORY) -> Iterator[None]:
    """Limit the memory of the block to that many bytes. Raises `TooMuch` if it needs more."""
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    try:
        with open("/proc/self/statm", "rb") as file:
            limit = int(file.read().split()[0]) * os.sysconf("SC_PAGE_SIZE") + most
    except OSError:
        limit = soft
    lowered = (
        soft
        if limit == resource.RLIM_INFINITY
        or (soft != resource.RLIM_INFINITY and soft < limit)
        else limit
    )
    resource.setrlimit(resource.RLIMIT_AS, (lowered, hard))
    try:
        yield
    except MemoryError:
        raise TooMuch(f"it takes over {most // 1024**2} MiB of memory") from None
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


# Sizes.


class Room:
    """The remaining room for values that are counted together."""

    def __init__(self) -> None:
        """Start with all of the room free."""
        self.characters, self.values = LONGEST, MOST

    def take(self, value: Any) -> None:
        """Count a value with everything inside it. Raises `TooMuch`."""
        level = [value]
        for _ in range(DEEPEST + 1):
            inner: list[Any] = []
            characters = 0
            for member in level:
                if isinstance(member, str):
                    characters += len(member)
                elif isinstance(member, dict):
                    inner += member.values()
                    characters += len("".join(member))
                elif isinstance(member, list):
                    inner += member
                elif isinstance(member, int):
                    characters += member.bit_length() // 3
            self.spend(characters, len(level))
            if not inner:
                return
            if len(inner) > self.values:
                self.spend(values=len(inner))
            level = inner
        raise TooMuch(f"lists and maps over {DEEPEST} levels deep in one another")

    def spend(self, characters: int = 0, values: int = 0) -> None:
        """Count characters and values that are about to be created. Raises `TooMuch`."""
        self.characters -= characters
        self.values -= values
        if self.characters < 0:
            raise TooMuch(f"over {LONGEST:,} characters")
        if self.values < 0:
            raise TooMuch(f"over {MOST:,} values")


def fits(value: Any) -> None:
    """Raise `TooMuch` if a value exceeds the limits for one value."""
    Room().take(value)


def replaced(text: str, old: str, new: str) -> str:
    """Return a text with a substring replaced. Raises `TooMuch` before creating a text that is too long."""
    if len(new) > len(old):
        length = len(text) + text.count(old) * (len(new) - len(old))
        Room().spend(characters=length)
    return text.replace(old, new)


def split(text: str, delimiter: str) -> list[str]:
    """Return the parts of a text. Raises `TooMuch` before creating too many parts."""
    Room().spend(values=text.count(delimiter) + 1)
    return text.split(delimiter)


def joined(delimiter: str, texts: list[str]) -> str:
    """Return the texts joined. Raises `TooMuch` before creating a text that is too long."""
    Room().spend(
        characters=sum(map(len, texts)) + len(delimiter) * max(len(texts) - 1, 0)
    )
    return delimiter.join(texts)


def product(lengths: list[int]) -> int:
    """Return the number of ways to take one item of each list. Raises `TooMuch` if there are too many."""
    number = math.prod(lengths)
    Room().spend(values=number)
    return number
