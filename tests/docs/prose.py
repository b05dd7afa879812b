"""The linter of the documentation's source: one sentence per line, no line over 120 columns, no test that was renamed.

`python tests/docs/prose.py` checks every Markdown file that git knows of, and then names and docstrings (`wording.py`);
`python tests/docs/prose.py FILE …` checks these pages. Tables, code blocks, comments and headings may be longer, and
the target of a link does not count: those cannot be broken. A sentence that is too long for one line goes on in the
next.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]

WIDTH = 120
"""Columns of a line at most."""

LEFT_ALONE = frozenset({"CHANGELOG.md"})
"""Pages with a form of their own."""

TEST = re.compile(r"\[`(test_\w+)`\]\(\.\./(tests/[\w/]+\.py)\)")
"""A link of a page in docs/ to a module of tests, whose text is the name of a test."""

_FENCE = re.compile(r" *(```|~~~)")
_LINK = re.compile(r"\]\([^)\s]*\)")
_MARKER = re.compile(r" *(?:[-*+]|\d+\.|>)? +(?:\[[ x]\] )?")
_CODE = re.compile(r"`[^`]*`")
_END = re.compile(r"""(?<![ .(])[.!?][)"'*_»]*\s+(?=["'(*_«\[`]*[A-Z`])""")
"""The place between two sentences: the end of one, blanks, and the beginning of another."""

_SHORT = re.compile(r"(?:\b(?:e\.g|i\.e|etc|vs|cf|No|approx)|\b[A-Z])\.$")
"""Abbreviations: they end with a dot that does not end a sentence."""


def sentences(text: str) -> list[str]:
    """Return the sentences of a paragraph, each without blanks around it."""
    found, begin = [], 0
    # Dots in code end no sentence; the text keeps its length.
    plain = _CODE.sub(lambda code: "`" + "x" * (len(code[0]) - 2) + "`", text)
    for match in _END.finditer(plain):
        if not _SHORT.search(plain[: match.start() + 1]):
            found.append(text[begin : match.end()].strip())
            begin = match.end()
    return [*found, text[begin:].strip()]


def findings(text: str) -> Iterator[tuple[int, str]]:
    """Yield the number of each line that breaks a rule, and what is wrong with it."""
    fenced = commented = False
    for number, line in enumerate(text.splitlines(), 1):
        if _FENCE.match(line):
            fenced = not fenced
        elif fenced:
            pass
        elif line.startswith("<!--") or commented:
            commented = "-->" not in line
        elif not line.lstrip().startswith(("|", "#")):
            shown = len(_LINK.sub("]", line))
            if shown > WIDTH:
                yield number, f"{shown} columns: at most {WIDTH}"
            marker = _MARKER.match(line)
            if len(sentences(line[marker.end() if marker else 0 :])) > 1:
                yield number, "several sentences: put each on a line of its own"


def files(*patterns: str) -> list[str]:
    """Return the names of all files that git knows of, or will know of; with patterns, of those that match one."""
    words = ["git", "-c", "safe.directory=*", "ls-files", "-z", "--cached", "--others"]
    listed = subprocess.run(
        [*words, "--exclude-standard", *patterns],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    return [name for name in listed.stdout.split("\0") if (ROOT / name).is_file()]


def pages() -> list[Path]:
    """Return every page of Markdown that git knows of, or will know of."""
    return [ROOT / name for name in files("*.md") if name not in LEFT_ALONE]


def renamed(text: str) -> Iterator[tuple[int, str]]:
    """Yield the links to tests that do not exist, by their names, with their line numbers."""
    for number, line in enumerate(text.splitlines(), 1):
        for name, path in TEST.findall(line):
            module = ROOT / path
            code = module.read_text(encoding="utf-8") if module.exists() else ""
            if not re.search(rf"(?m)^ *def {name}\(", code):
                yield number, f"{path} has no test {name}: name the test that it is now"


def main() -> int:
    """Print each finding with its file and line; the exit code is 1 where there is one."""
    code = 0
    for path in [Path(name).resolve() for name in sys.argv[1:]] or pages():
        if path.name not in LEFT_ALONE:
            text = path.read_text(encoding="utf-8")
            for number, problem in (*findings(text), *renamed(text)):
                print(
                    f"{path.relative_to(ROOT) if path.is_relative_to(ROOT) else path}:{number}: {problem}"
                )
                code = 1
    if not sys.argv[1:]:
        code |= subprocess.run(
            [sys.executable, Path(__file__).with_name("wording.py")], check=False
        ).returncode
    return code


if __name__ == "__main__":
    sys.exit(main())
