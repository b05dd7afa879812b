"""The content of a page of the documentation: commands with their output, and files, in order.

In a block ```` ```console ````, a line that begins with `$ ` is a command of any user in the checkout; one with `# ` is
root's on a machine with the agent. `> ` continues the line before. The output follows: `…` stands for any text, or on a
line of its own for any lines; times, durations, sizes and process ids may differ. Without output on the page, the
command may print anything; it has to exit with 0 in any case. In another block, the first word after the backticks is
the language, and the second one the name of the file.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

ROOT = Path(__file__).parents[2]

PAGES = tuple(
    path.relative_to(ROOT).as_posix()
    for path in (
        ROOT / "README.md",
        *sorted((ROOT / "docs").glob("*.md")),
        ROOT / "hooks/README.md",
        ROOT / "packaging/README.md",
    )
    if path.name not in ("benchmarks.md", "faults.md")  # programs write them
)
"""The pages of which each command is run."""

_MEASURE = r"[\d.]+ (?:ms|s|min|h|bytes|KiB|MiB|GiB)\b(?: \d+ (?:min|s))?"

_TIME = r"(?:\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z|(?:\d{4}-\d\d-\d\d )?\d\d:\d\d(?::\d\d)?)"
"""The time of a page is that of a person at a terminal; here, it is printed for a program."""

_VOLATILE = {
    r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d": _TIME,
    r"\b\d\d:\d\d:\d\d\b": _TIME,
    _MEASURE: _MEASURE,
    r"\bprocess \d+": r"process \d+",
    r" *… *": r".*?",
    r" +": r"\s+",
}
"""Texts of a page, and the patterns of what may be in their place."""


@dataclass(frozen=True)
class Command:
    """A command, and what it is said to print."""

    prompt: str
    line: str
    printed: tuple[str, ...]
    where: str

    def shows(self, output: str) -> bool:
        """Return whether what it prints is what the page shows, as a whole."""
        expected = re.compile(
            rf"\s*{''.join(map(_line, self.printed))}" if self.printed else r"(?s:.*)"
        )
        return expected.fullmatch(f"{output.rstrip()}\n") is not None


@dataclass(frozen=True)
class File:
    """A file with its content."""

    path: str
    text: str
    language: str
    where: str


@dataclass(frozen=True)
class Section:
    """The blocks below one heading, up to the next one."""

    page: str
    title: str
    items: tuple[Command | File, ...]


@dataclass(frozen=True)
class Block:
    """The lines between two lines of backticks."""

    language: str
    path: str
    lines: tuple[str, ...]
    number: int
    """The line of the page at which it begins."""


def sections(page: str) -> list[Section]:
    """Return a page in its order. Raises ValueError where it does not keep to what is said above."""
    result: list[Section] = []
    title, items = "", list[Command | File]()
    for part in _read(page):
        if isinstance(part, str):
            result.append(Section(page, title, tuple(items)))
            title, items = part, []
        elif part.language == "console":
            items += _commands(page, part)
        else:
            items.append(
                File(
                    part.path,
                    "".join(f"{line}\n" for line in part.lines),
                    part.language,
                    _at(page, part.number),
                )
            )
    return [*result, Section(page, title, tuple(items))]


def with_ports(page: Sequence[Section], ports: Mapping[str, str]) -> list[Section]:
    """Return a page with other ports in their commands, their output and their files."""

    def changed(text: str) -> str:
        for old, new in ports.items():
            text = re.sub(rf"\b{old}\b", new, text)
        return text

    def moved(item: Command | File) -> Command | File:
        if isinstance(item, File):
            return replace(item, text=changed(item.text))
        printed = tuple(changed(line) for line in item.printed)
        return replace(item, line=changed(item.line), printed=printed)

    return [replace(each, items=tuple(map(moved, each.items))) for each in page]


def _at(page: str, number: int) -> str:
    return f"{page}:{number}"


def _read(page: str) -> list[str | Block]:
    """Return a page's headings and blocks."""
    parts: list[str | Block] = []
    lines: list[str] | None = None
    language = path = ""
    begin, blank = 0, True
    for number, line in enumerate(
        (ROOT / page).read_text(encoding="utf-8").splitlines(), 1
    ):
        fence = re.fullmatch(r" *```(?P<language>\S*) ?(?P<path>\S*)", line)
        if lines is not None and line.strip() == "```":
            parts.append(Block(language, path, tuple(lines), begin))
            lines = None
        elif lines is not None:
            lines.append(line)
        elif fence:
            lines, begin = [], number + 1
            language, path = fence["language"], fence["path"]
            if not language:
                raise ValueError(
                    f"{_at(page, number)}: a block has to say what it is, such as «console» or «yaml»"
                )
        elif line.startswith("    ") and blank:
            raise ValueError(
                f"{_at(page, number)}: a block is put between lines of backticks"
            )
        elif heading := re.fullmatch(r"#+ (.*)", line):
            parts.append(heading[1])
        blank = not line.strip()
    return parts


def _commands(page: str, block: Block) -> list[Command]:
    commands: list[Command] = []
    for number, line in enumerate(block.lines, block.number):
        if line.startswith(("$ ", "# ")):
            commands.append(Command(line[0], line[2:], (), _at(page, number)))
        elif not commands:
            raise ValueError(
                f"{_at(page, number)}: a block of commands begins with «$ » or «# »"
            )
        elif line.startswith("> ") and not commands[-1].printed:
            commands[-1] = Command(
                commands[-1].prompt,
                f"{commands[-1].line}\n{line[2:]}",
                (),
                commands[-1].where,
            )
        else:
            last = commands[-1]
            commands[-1] = Command(
                last.prompt, last.line, (*last.printed, line), last.where
            )
    return commands


def _line(text: str) -> str:
    """Return the expression for a line that a page shows."""
    if text.strip() == "…":
        return r"(?:.*\n)*?"
    found, rest = "", text.strip()
    volatile = re.compile("|".join(f"({each})" for each in _VOLATILE))
    while match := volatile.search(rest):
        found += (
            re.escape(rest[: match.start()])
            + list(_VOLATILE.values())[(match.lastindex or 1) - 1]
        )
        rest = rest[match.end() :]
    return rf"\s*{found}{re.escape(rest)}[ \t]*\n"
