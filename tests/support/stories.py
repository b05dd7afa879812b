"""Stories of kills: what is asked of the product while it is killed, and asked again until it is done.

- `Traps` are the moments at which processes of ours are killed, each of them once; `calls` finds moments.
- A `Story` is told on a machine of its own, and held against the promises. It asks again for what was killed.
- `Kills` tells a story several times, each time with other traps.
- `Rounds` tells stories with kills at random moments (`killing`) side by side, until there were enough.
"""

from __future__ import annotations

import abc
import concurrent.futures
import itertools
import shutil
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from support import kill_points
from support.machine import Machine

Aim = tuple[str, int]
"""Where a process is to die: a point or a call of `kill_points`, and the number of its passing.

The path of a call is that below a folder, the root of the story, which is another one whenever it is told.
"""

AT_ONCE = 4
"""Stories that `Kills` tells at the same time."""

IN_ONE = 5
"""Traps of the same story, at most, where they are not tried each by itself."""

TELLINGS = 3
"""Tellings of a story until a point is passed, at most."""

TELL = 10.0
"""Seconds between two lines about how far rounds have come."""


class Traps:
    """The moments at which processes with the same environment are killed, each of them once."""

    def __init__(self, folder: Path, *aims: Aim, root: Path | None = None) -> None:
        """Set a trap for each aim; the files of the traps are in a folder. Aims at calls need a root."""
        self._files = {aim: folder / f"trap-{n}" for n, aim in enumerate(aims)}
        self.environment: dict[str, Any] = kill_points.environment_of(
            (point.replace("@", f"@{root}/"), passing, file)
            for (point, passing), file in self._files.items()
        )
        for file in self._files.values():
            file.touch()

    @property
    def left(self) -> list[Aim]:
        """Return the aims at which nobody has died yet."""
        return [aim for aim, file in self._files.items() if file.exists()]


def calls(
    notes: Path, root: Path, place: Callable[[str], str] = lambda _: ""
) -> list[Aim]:
    """Return an aim for each call below a folder that the point `??` has noted, in their order.

    `place` returns the part of a path that is the same whenever the story is told: without ids.
    """
    lines = (line.split(" ", 2) for line in notes.read_text().splitlines())
    made = [
        (name, path.removeprefix(f"{root}/"))
        for _, name, path in lines
        if path.startswith(f"{root}/")
    ]
    aims = []
    for index, (name, path) in enumerate(made):
        known = place(path)
        same = (n == name and p.startswith(known) for n, p in made[: index + 1])
        aims.append((f"{name}@{known}", sum(same)))
    return aims


class Story(abc.ABC):
    """A piece of the product's life on a machine of its own, in which it is killed, and started again."""

    name = ""

    def __init__(self, folder: Path) -> None:
        """Begin on a new machine."""
        self.machine = Machine(folder)
        self.armed: dict[str, Any] = {}
        """The environment of all processes that may be killed."""
        self._traps = Traps(folder)
        self._noted = folder / "noted"

    @abc.abstractmethod
    def play(self) -> None:
        """Ask for everything, again where it was killed, until it is done."""

    @abc.abstractmethod
    def check(self) -> None:
        """Hold what came of it against the promises."""

    def end(self) -> None:
        """End all that goes on."""
        self.machine.end()

    def tell(self) -> None:
        """Play it to its end, and check it."""
        try:
            self.play()
            self.check()
        finally:
            self.end()

    def listen(self, point: str = "?") -> None:
        """Note which points are passed, or, by `??`, which calls are made."""
        self.armed = kill_points.environment(point, 0, self._noted)

    @property
    def passed(self) -> dict[str, int]:
        """Return how often each point was passed by the process that passed it most often."""
        lines = [tuple(line.split()) for line in self._noted.read_text().splitlines()]
        most: dict[str, int] = {}
        for (_, point), times in Counter(lines).items():
            most[point] = max(most.get(point, 0), times)
        return most

    @property
    def root(self) -> Path:
        """Return the folder in which calls are meant."""
        return self.machine.folder

    def calls(self, place: Callable[[str], str]) -> list[Aim]:
        """Return an aim for each call that was made below the root."""
        return calls(self._noted, self.root, place)

    def arm(self, aims: Iterable[Aim]) -> None:
        """Have processes die once at each of some moments."""
        self._traps = Traps(self.machine.folder, *aims, root=self.root)
        self.armed = self._traps.environment

    @property
    def left(self) -> list[Aim]:
        """Return the aims at which nobody has died yet."""
        return self._traps.left


class Kills:
    """Tells a story, each time on a new machine, with kills at other moments."""

    def __init__(self, make: Callable[[Path], Story], folder: Path, seed: int) -> None:
        """Tell the story that `make` begins in a folder. All its choices follow from the seed."""
        self.seed = seed
        self._make, self._folder = make, folder
        self._numbers = itertools.count(1)

    def _story(self) -> Story:
        folder = self._folder / f"world-{next(self._numbers)}"
        folder.mkdir()
        return self._make(folder)

    def passed(self) -> dict[str, int]:
        """Tell it with nobody killed, and return how often each point is passed."""
        story = self._story()
        story.listen()
        story.tell()
        return story.passed

    def kill(self, point: str, passing: int) -> tuple[str, bool]:
        """Tell it with a process that dies there; return what went wrong, and whether it died.

        Threads decide whether some points are passed, as where one wakes the other up that is awake already: so it is
        told again while the first passing does not happen. All promises are held against each telling.
        """
        for _ in range(TELLINGS):
            wrong, left = self._kill([(point, passing)])
            if wrong or not left or passing > 1:
                return wrong, not left
        return f"{point}, seed {self.seed}: not passed in {TELLINGS} tellings", False

    def _kill(self, aims: Sequence[Aim]) -> tuple[str, list[Aim]]:
        """Tell it once; return what went wrong, and the aims at which nobody has died."""
        story = self._story()
        points = ", ".join(f"{point} ({passing})" for point, passing in aims)
        story.arm(aims)
        try:
            story.tell()
        except (AssertionError, subprocess.TimeoutExpired, OSError) as error:
            where = f"{story.name}, killed at {points}, seed {self.seed}"
            return f"{where}; not yet at {story.left}:\n{error}", story.left
        return "", story.left

    def kill_at(self, aims: Iterable[Aim]) -> int:
        """Kill at all these moments, in stories of their own; return how often. Fails with what went wrong, of each."""
        with ThreadPoolExecutor(AT_ONCE) as pool:
            ends = list(pool.map(lambda aim: self.kill(*aim), aims))
        wrong = [each for each, _ in ends if each]
        assert not wrong, "\n\n".join(wrong)
        return sum(died for _, died in ends)

    def kill_along(self, aims: Sequence[Aim]) -> int:
        """Kill at all these moments as `kill_at` does, at `IN_ONE` of them in the same story; return how often.

        Moments that are next to each other are in different stories. Where the processes after the first one did not
        come by a point for the first time, it has a story of its own.
        """
        number = -(-len(aims) // IN_ONE)
        shared = [aims[first::number] for first in range(number)]
        with ThreadPoolExecutor(AT_ONCE) as pool:
            ends = list(pool.map(self._kill, shared))
        wrong = [each for each, _ in ends if each]
        assert not wrong, "\n\n".join(wrong)
        left = [aim for _, missed in ends for aim in missed]
        self.kill_at([aim for aim in left if aim[1] == 1])
        return len(aims) - sum(passing > 1 for _, passing in left)


class Rounds(abc.ABC):
    """Stories with kills at random moments, side by side. All choices of round N follow from the seed plus N."""

    def __init__(
        self, folder: Path, seed: int, *, at_once: int, most: float = float("inf")
    ) -> None:
        """Go on until it is enough, or there were so many rounds."""
        self.folder, self.seed = folder, seed
        self.over = threading.Event()
        self._at_once, self._most = at_once, most
        self._began = time.monotonic()
        self._numbers = itertools.count()

    @abc.abstractmethod
    def play(self, folder: Path, seed: int) -> None:
        """Play a round in a folder that does not exist yet, to its end, or until rounds are over."""

    @abc.abstractmethod
    def is_enough(self) -> bool:
        """Return whether rounds are over."""

    @property
    def seconds(self) -> float:
        """Return for how long rounds go on."""
        return time.monotonic() - self._began

    def run(self) -> None:
        """Go on until it is enough, or something does not hold; and say now and then how far it has come."""
        with ThreadPoolExecutor(self._at_once) as threads:
            under_way = [threads.submit(self._on_end) for _ in range(self._at_once)]
            told = time.monotonic()
            while not all(each.done() for each in under_way):
                concurrent.futures.wait(under_way, timeout=0.5)
                if self.is_enough():
                    self.over.set()
                if time.monotonic() - told > TELL:
                    told = time.monotonic()
                    print(self, flush=True)
        print(self, flush=True)
        for each in under_way:
            each.result()

    def _on_end(self) -> None:
        for number in self._numbers:
            if number >= self._most or self.over.is_set():
                return
            folder, seed = self.folder / str(number), self.seed + number
            try:
                self.play(folder, seed)
            except Exception as error:
                self.over.set()
                file = f"tests/{type(self).__module__.replace('.', '/')}.py"
                again = f"make torture SEED={seed} ARGS={file}"
                raise AssertionError(
                    f"round {number} in {folder}; to repeat it: {again}\n{error}"
                ) from error
            shutil.rmtree(folder)
