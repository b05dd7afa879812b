"""The table of tools in the documentation, generated from the `ABOUT` of each hook.

`python -m heat_config_hooks.table` prints it; with the name of a file, it replaces the table in that file.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path

import heat_config_hooks
from heat_config_hooks import files
from heat_config_hooks.programs import Module, Program
from heat_config_hooks.protocol import Hook, can_verify

BEGIN, END = "<!-- hooks -->", "<!-- /hooks -->"
"""The lines of a file before and after the table."""

_HEADER = (
    "tool",
    "package",
    "config",
    "options",
    "needs",
    "environment",
    "verifies",
    "tested against",
)


def table() -> str:
    """Return the table in Markdown, with a row for each hook."""
    rows = [_HEADER, ("---",) * len(_HEADER)]
    rows += [
        _row(tool, heat_config_hooks.load(tool))
        for tool in sorted(heat_config_hooks.HOOKS)
    ]
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def updated(text: str) -> str:
    """Return the text of a file with the current table in it. Raises ValueError if the marks are missing."""
    before, begin, rest = text.partition(f"{BEGIN}\n")
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"there is no line {BEGIN} with a line {END} after it")
    return f"{before}{begin}{table()}{end}{after}"


def _row(tool: str, hook: Hook) -> tuple[str, ...]:
    about = hook.ABOUT
    needs = ", ".join(" or ".join(_code(_names(need))) for need in about.needs)
    package = "compat" if tool in heat_config_hooks.COMPAT else "agent"
    cells = (
        f"`{tool}` (deprecated)" if about.deprecated else f"`{tool}`",
        package,
        about.config,
        ", ".join(_code(about.options)),
        needs,
        ", ".join(_code(about.variables)),
        "yes" if can_verify(hook) else "",
    )
    return tuple(cell.replace("|", "\\|") or "–" for cell in (*cells, about.tested))


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
