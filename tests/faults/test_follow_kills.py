"""The process that follows a source is killed before each change of the disk, and the next one continues."""

from __future__ import annotations

import itertools
import json
import os
import re
import shutil
import sys
import traceback
from collections.abc import Callable
from pathlib import Path

import pytest

from support import kill_points, stories
from support.origins import packed
from support.repositories import template
from support.sites import Site
from support.stories import Aim, Traps

pytestmark = [
    pytest.mark.takes(20),
    pytest.mark.skipif(
        shutil.which("git") is None, reason="git is missing: apt-get install git"
    ),
]


def step(site: Site, armed: str) -> int:
    """Take a step in a process of its own, in which something is armed; return how it ended."""
    process = os.fork()
    if process == 0:
        try:
            kill_points.Watch(armed).install()
            site.step()
        except BaseException:  # noqa: BLE001  # a test process must not go on in the child
            traceback.print_exc(file=sys.__stderr__)
            os._exit(1)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])


class Lines:
    """Revisions of a source, each of which adds a line of its own."""

    def __init__(self, site: Site, kind: str) -> None:
        self.site, self.kind = site, kind
        self.number = 0
        if kind == "document":
            site.values = {"url": str(site.folder / "site.json")}
        if kind == "archive":
            (site.folder / "site").mkdir()
            site.values = {"url": str(site.folder / "site"), "path": "stack.yaml"}

    def next(self) -> str:
        """Make the next revision, and return its line."""
        self.number += 1
        line = f"{self.kind}{self.number}"
        if self.kind == "document":
            entry = {
                "id": line,
                "name": "n",
                "group": "script",
                "config": f"echo {line} red >> {self.site.log}",
            }
            (self.site.folder / "site.json").write_text(json.dumps([entry]))
        elif self.kind == "archive":
            (self.site.folder / "site/stack.yaml").write_text(
                template(self.site.log, line)
            )
            (self.site.folder / "site/more.tar.gz").write_bytes(packed({"a": line}))
        else:
            self.site.commit(line)
        return line


def known(path: str) -> str:
    """Return the beginning of a path that is the same for each revision."""
    parts = path.split("/")[:2]
    return "/".join(itertools.takewhile(lambda part: not re.search(r"\d", part), parts))


def some(aims: list[Aim]) -> list[Aim]:
    """Return of each kind of call the first and the last one."""
    kinds: dict[str, list[Aim]] = {}
    for each in aims:
        kinds.setdefault(each[0], []).append(each)
    return [
        aim for same in kinds.values() for aim in dict.fromkeys((same[0], same[-1]))
    ]


@pytest.mark.fault(
    1,
    "kill -9 of what follows a source, before each call by which it changes the disk",
    "the next process goes on: the tree in force is that of one revision, and each revision runs once",
)
@pytest.mark.parametrize("kind", ["git", "document", "archive"])
def test_follower_survives_a_kill_before_each_call(
    kind: str, tmp_path: Path, tried: Callable[[int], None]
) -> None:
    """The first and the last time that each kind of call is made."""
    site = Site(tmp_path)
    lines = Lines(site, kind)
    folder = site.state / "follow/web"
    said = [lines.next()]
    assert site.step().problem == ""
    said.append(lines.next())
    assert step(site, f"?? 0 {tmp_path}/calls") == 0
    aims = some(stories.calls(tmp_path / "calls", folder, known))
    assert {point.partition("@")[0] for point, _ in aims} >= {
        "rename",
        "unlink",
        "mkdir",
        "fsync",
        "write",
    }

    for aim in aims:
        armed = Traps(tmp_path, aim, root=folder).environment[kill_points.VARIABLE]
        said.append(lines.next())
        assert step(site, armed) == -9, aim
        for _ in range(3):
            record = site.step()
        assert (record.problem, record.begun) == ("", ""), aim
        assert site.ran == [f"{line} red" for line in said], aim
        kept = [each.name for each in (folder / "trees").iterdir()]
        assert kept == [(folder / "current").readlink().name], aim
        inside = (
            folder / "current" / ("site.json" if kind == "document" else "stack.yaml")
        ).read_text()
        assert said[-1] in inside, aim
    tried(len(aims))
