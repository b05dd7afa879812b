"""The tables of tools in the documentation, generated from the `ABOUT` of each hook.

`python -m heat_config_hooks.table` prints them; with the name of a file, it replaces the tables in that file.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

import heat_config_hooks
from heat_config_hooks import files
from heat_config_hooks.programs import Module, Program
from heat_config_hooks.protocol import Hook, can_verify

BEGIN, END = "<!-- hooks -->", "<!-- /hooks -->"
"""The lines of a file before and after the tables."""

_FOR_AUTHORS = ("tool", "config", "options of its own")
_FOR_MACHINES = (
    "tool",
    "package",
    "needs",
    "variables",
    "verifies",
    "tested against",
)
"""The columns of the two tables: a phone cannot show a table with all of them."""


def table() -> str:
    """Return the tables in Markdown, with a row for each hook: what an author writes, and what a machine has."""
    hooks = {
        tool: heat_config_hooks.load(tool) for tool in sorted(heat_config_hooks.HOOKS)
    }
    authors = [_for_authors(tool, hook) for tool, hook in hooks.items()]
    machines = [_for_machines(tool, hook) for tool, hook in hooks.items()]
    return f"{_lines(_FOR_AUTHORS, authors)}\n{_lines(_FOR_MACHINES, machines)}"


def _lines(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    whole = (header, ("---",) * len(header), *rows)
    return "".join(f"| {' | '.join(row)} |\n" for row in whole)


def updated(text: str) -> str:
    """Return the text of a file with the current tables in it. Raises ValueError if the marks are missing."""
    before, begin, rest = text.partition(f"{BEGIN}\n")
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"there is no line {BEGIN} with a line {END} after it")
    return f"{before}{begin}{table()}{end}{after}"


def _for_authors(tool: str, hook: Hook) -> list[str]:
    about = hook.ABOUT
    name = f"`{tool}` (deprecated)" if about.deprecated else f"`{tool}`"
    return _cells(name, about.config, ", ".join(_code(about.options)))


def _for_machines(tool: str, hook: Hook) -> list[str]:
    about = hook.ABOUT
    return _cells(
        f"`{tool}`",
        "compat" if tool in heat_config_hooks.COMPAT else "agent",
        ", ".join(" or ".join(_code(_names(need))) for need in about.needs),
        ", ".join(_code(about.variables)),
        "yes" if can_verify(hook) else "",
        about.tested,
    )


def _cells(*texts: str) -> list[str]:
    return [each.replace("|", "\\|") or "–" for each in texts]


def _names(need: Program | Module) -> Iterable[str]:
    return need.names if isinstance(need, Program) else (need.package,)


def _code(names: Iterable[str]) -> list[str]:
    return [f"`{name}`" for name in names]


def main() -> int:
    """Print the table, or write it into the file that the command line names."""
    if len(sys.argv) == 1:
        print(table(), end="")
        return 0
    path = Path(sys.argv[1])
    try:
        text = updated(path.read_text(encoding="utf-8"))
    except ValueError as error:
        print(f"error: {path}: {error}", file=sys.stderr)
        return 1
    files.replace(path, text.encode(), mode=path.stat().st_mode & 0o777)
    return 0


if __name__ == "__main__":
    sys.exit(main())
