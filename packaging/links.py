"""Removes the links of installed pages that lead to no installed file, and keeps their texts.

`python links.py FOLDER` does that for all Markdown pages below the folder.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

LINK = re.compile(r"(?<!!)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)\s]+)\)")
"""A link and its target."""


def without_dead_links(text: str, folder: Path) -> str:
    """Return the text of a page in a folder, in which only links to existing files and to the web are left."""

    def kept(link: re.Match[str]) -> str:
        target = link[2].partition("#")[0]
        return (
            link[0]
            if not target or "://" in target or (folder / target).exists()
            else link[1]
        )

    return LINK.sub(kept, text)


def main() -> int:
    """Rewrite the pages below the folder that the command line names."""
    for path in sorted(Path(sys.argv[1]).rglob("*.md")):
        text = path.read_text(encoding="utf-8")
        path.write_text(without_dead_links(text, path.parent), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
