"""The mistakes in a service template, with a stable code for each.

A report belongs to one text. Mistakes make a template invalid. Warnings do not. Open points are not mistakes of the
template: they say what is still needed to apply it here.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from itertools import islice

from heat_config_agent.diagnostics.text import Text
from heat_config_agent.diagnostics.words import meant
from heat_config_agent.model.mistake import Mistake
from heat_config_agent.model.positions import Path, Place
from heat_config_hooks.words import MOST
from heat_config_stack.tosca.language.budget import Budget
from heat_config_stack.tosca.language.text import SHORT_NAMES, VERSIONS

CODES = {
    "text": "yaml depth not-map duplicate",
    "document": """version-missing version-unknown version-not-first key-unknown key-missing kind choice exclusive
        empty text""",
    "import": "import-missing import-unread import-version import-borrows repository-unknown type-twice",
    "type": """type-unknown parent-unknown parent-circle refine native-properties constraint-bad constraint-unfit
        loosened not-root interface-implementation data-empty constraint-uncomparable""",
    "template": """value constraint required undeclared target-unknown target-unfit capability-unknown
        relationship-unknown relationship-unfit too-many filter-unfit circle copy-unknown copy-of-copy member-unknown
        member-unfit mapping-unknown mapping-unfit filter-unselectable unfit-source mapping-missing status
        newer alone
        same-variable""",
    "function": """input-unknown entity-unknown name-unknown function-arguments function-keyword function-circle
        concat-empty misspelt""",
    "workflow": "step-unknown step-circle operation-unknown workflow-unknown workflow-circle",
    "archive": "archive archive-entry archive-metadata archive-member file",
    "apply": "open-requirement open-input open-artifact open-tool open-substitution small-machine",
}
"""The codes of mistakes, warnings and open points, by the stage in which they are found."""

_STAGES = {code: stage for stage, codes in CODES.items() for code in codes.split()}


class Report:
    """The mistakes, warnings and open points of one text."""

    def __init__(self, text: Text | None, budget: Budget | None = None) -> None:
        """Begin with none. Without a text, for types that are known to be right, nothing is looked up."""
        self._text = text
        self.budget = budget or Budget()
        self.mistakes: dict[Mistake, None] = {}
        self.warnings: dict[Mistake, None] = {}
        self.open: dict[Mistake, None] = {}
        self.version = VERSIONS[-1]
        """The version that the text names."""

    def wrong(self, problem: str, path: Path, hint: str = "", *, code: str) -> None:
        """Record a mistake. Its place is that of the path, or of the nearest part above it that is there."""
        self.mistakes[self.mistake(problem, path, hint, code=code)] = None

    def warn(self, problem: str, path: Path, hint: str = "", *, code: str) -> None:
        """Record a warning."""
        self.warnings[self.mistake(problem, path, hint, code=code)] = None

    def warn_newer(self, problem: str, version: str, path: Path) -> None:
        """Record a warning if the text uses a feature that is newer than the version that it names."""
        if self.version < version:
            hint = f"name {SHORT_NAMES[VERSIONS.index(version)]}"
            self.warn(
                f"{problem} since version {version}, and this names {self.version}",
                path,
                hint,
                code="newer",
            )

    def leave_open(
        self, problem: str, path: Path, hint: str = "", *, code: str
    ) -> None:
        """Record a need that has to be met before the template can be applied here."""
        self.open[self.mistake(problem, path, hint, code=code)] = None

    def path_of(self, name: str) -> Path:
        """Return the path of the first value that is a name; that of the whole text if there is none."""
        return (
            _path_in(self._text.value, name) if self._text is not None else None
        ) or ()

    def nearest(self, name: object, known: Iterable[str]) -> str:
        """Return the hint that a known name may have been meant, or nothing; of many mistakes for the first."""
        if self.budget.hints <= 0:
            return ""
        self.budget.hints -= 1
        return _nearest(str(name), tuple(islice(known, MOST)))

    def mistake(
        self, problem: str, path: Path, hint: str = "", *, code: str
    ) -> Mistake:
        """Return a mistake at the longest part of the path that is in the text."""
        if self._text is None:
            return Mistake(problem, path, None, hint, _STAGES[code], code)
        value = self._text.value
        depth = 0
        for step in path:
            is_entry = (
                step in value if isinstance(value, dict) else _is_index(step, value)
            )
            if not is_entry:
                break
            value = value[step]
            depth += 1
        there = path[:depth]
        # JSON that is not YAML has no places
        place = self._text.place(there) or Place(self._text.file, 1, 1)
        return Mistake(problem, there, place, hint, _STAGES[code], code)


def _path_in(value: object, name: str) -> Path | None:
    if value == name:
        return ()
    entries = (
        value.items()
        if isinstance(value, dict)
        else enumerate(value)
        if isinstance(value, list)
        else ()
    )
    for step, entry in entries:
        path = _path_in(entry, name)
        if path is not None:
            return (step, *path)
    return None


def _is_index(step: str | int, value: object) -> bool:
    return isinstance(value, list) and isinstance(step, int) and step < len(value)


_nearest = lru_cache(maxsize=512)(meant)
