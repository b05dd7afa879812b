"""The process that follows a source is killed before each change of the disk, and the next one continues."""

from __future__ import annotations

import json
import os
import shutil
import sys
import traceback
from collections.abc import Callable
from pathlib import Path

import pytest

from support import kill_points
from support.origins import packed
from support.repositories import template
from support.sites import Site

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


def calls(path: Path, folder: Path) -> list[str]:
    """Return the calls below a folder that were listed, of each kind the first and the last one: «NAME@PATH N»."""
    recorded = [
        tuple(text.split(maxsplit=2)[1:]) for text in path.read_text().splitlines()
    ]
    kinds = []
    for name, place in recorded:
        if place.startswith(f"{folder}/"):
            inside = place.removeprefix(f"{folder}/").split("/")
            known = [
                part
                for part in inside[:2]
                if not any(letter.isdigit() for letter in part)
            ]
            kinds.append((name, f"{folder}/{'/'.join(known)}"))
    found = []
    for name, place in dict.fromkeys(kinds):
        last = sum(each == name and where.startswith(place) for each, where in recorded)
        found += [f"{name}@{place} {number}" for number in sorted({1, last})]
    return found


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
    aims = calls(tmp_path / "calls", folder)
    assert {each.partition("@")[0] for each in aims} >= {
        "rename",
        "unlink",
        "mkdir",
        "fsync",
        "write",
    }

    armed = tmp_path / "armed"
    for aim in aims:
        armed.touch()
        said.append(lines.next())
        assert step(site, f"{aim} {armed}") == -9, aim
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
