"""The layout of `--help`: paragraphs and lists that fit the width of the terminal."""

from __future__ import annotations

import argparse
import re
import textwrap

_WIDEST = 100
"""Number of columns of the longest lines of a paragraph: longer ones are hard to read."""

_ITEM = re.compile(r" +\S+  +(?=\S)")
"""The beginning of an item of a list, such as an exit code before its meaning."""


class HelpFormatter(argparse.HelpFormatter):
    """Wraps paragraphs, and keeps lines that are indented: lists, with their meanings wrapped, and commands."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        width = min(width, _WIDEST)
        blocks = re.split(r"\n\s*\n", text.strip("\n"))
        return "\n\n".join(textwrap.indent(_wrapped(block, width - len(indent)), indent) for block in blocks) + "\n"


def _wrapped(block: str, width: int) -> str:
    """Return a block of lines without an empty one between them, wrapped to a width."""
    lines: list[str] = []
    paragraph: list[str] = []
    for line in [*block.split("\n"), ""]:
        if line and not line.startswith(" "):
            paragraph.append(line)
            continue
        lines += textwrap.wrap(" ".join(paragraph), width, break_on_hyphens=False)
        paragraph.clear()
        item = _ITEM.match(line)
        if item:
            hanging = " " * item.end()
            lines += textwrap.wrap(line, width, subsequent_indent=hanging, break_on_hyphens=False)
        elif line:
            lines.append(line)
    return "\n".join(lines)
