"""The disk space of deployments: their runs, and the files that their tools have left in the folders of hooks."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Mapping
from pathlib import Path

from heat_config_agent.model.entry import Entry
from heat_config_agent.state import requests
from heat_config_agent.state.deployed import Deployed
from heat_config_agent.state.removal.retention import Weight


def is_temporary(name: str) -> bool:
    """Return True for the name of a file that is being written, or that a killed writer left half written."""
    return name.startswith(".") and name.endswith(".new") and len(name) > len("..new")


def weigh(state: Path, deployed: Deployed, entry: Entry, traces: Traces) -> Weight:
    """Return the size of everything on disk that belongs to a deployment."""
    output = [_size_of(f"{state}/runs/{entry.key}"), *map(_size_of, traces.of(entry))]
    marks = [
        _size_of(f"{deployed.directory}/{entry.key}{end}")
        for end in (".json", ".notify.json")
    ]
    record = (
        len(json.dumps(entry.values)) + len(json.dumps(entry.document))
        if entry.values or entry.document
        else 0
    )
    return Weight(
        output=sum(size for size, _ in output),
        output_files=sum(number for _, number in output),
        other=sum(size for size, _ in marks) + record,
        other_files=sum(number for _, number in marks),
    )


class Traces:
    """The files that runs have left in the folders of their hooks. Each folder is read once."""

    def __init__(self) -> None:
        self._folders: dict[Path, dict[str, list[str]]] = {}

    def of(self, entry: Entry) -> list[Path]:
        """Return the files that a run has left, half-written ones included."""
        folders, patterns = requests.traces(entry)
        paths = []
        for folder in folders:
            names = self._names(folder)
            for pattern in patterns:
                for name in names.get(_stem(pattern), ()):
                    plain = (
                        name[1:].removesuffix(".new") if is_temporary(name) else name
                    )
                    if _fits(plain, pattern):
                        paths.append(folder / name)
        return list(dict.fromkeys(paths))

    def _names(self, folder: Path) -> Mapping[str, list[str]]:
        if folder not in self._folders:
            names: dict[str, list[str]] = {}
            for name in listed(folder):
                names.setdefault(_stem(name), []).append(name)
            self._folders[folder] = names
        return self._folders[folder]


def _fits(name: str, pattern: str) -> bool:
    """Return whether a name matches a pattern with at most one `*`. Regular expressions would take longer."""
    begin, star, end = pattern.partition("*")
    return name == pattern or bool(
        star and name.startswith(begin) and name[len(begin) :].endswith(end)
    )


def _stem(name: str) -> str:
    return name.removeprefix(".").partition(".")[0]


def listed(folder: Path) -> list[str]:
    """Return the names in a folder, sorted; none if there is no such folder."""
    try:
        return sorted(os.listdir(folder))
    except OSError:
        return []


def _size_of(path: str | Path) -> tuple[int, int]:
    """Return the bytes and the number of files that a path takes on disk, with everything below it."""
    try:
        status = os.lstat(path)
        size, number = status.st_blocks * 512, 1
        if stat.S_ISDIR(status.st_mode):
            for name in os.listdir(path):
                more, others = _size_of(os.path.join(path, name))  # noqa: PTH118  # there are many
                size, number = size + more, number + others
    except OSError:
        return 0, 0
    return size, number
