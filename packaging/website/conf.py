"""The settings of the documentation site, for Sphinx: `make docs` builds it from the Markdown where that stands.

The address of a page is its path in the repository, so a message that names `docs/policy.md` names a page of the site.
The sections are those of `tree.py`; the pages themselves say nothing of the site.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import mmdr
from docutils import nodes
from pygments.lexers import TextLexer
from sphinx.util import logging

sys.path.append(str(Path(__file__).parents[1]))

from website import tree

_log = logging.getLogger(__name__)

project = html_title = "heat-config-agent"
language = "en"
root_doc = tree.FRONT
extensions = ["myst_parser", "sphinx_copybutton", "sphinx_reredirects"]
include_patterns = [f"{page}.md" for page in tree.pages()]
# Folders that are not searched for pages.
exclude_patterns = [".*", "build", "dist", "agent/*/**", "hooks/*/**"]
redirects = tree.redirects()

# The anchors of headings are those that forges give them.
myst_heading_anchors = 6

# A command is copied without its prompt and its output.
copybutton_exclude = ".linenos, .gp, .go"

html_theme = "furo"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_copy_source = html_show_sourcelink = html_show_copyright = False

SMALLEST = 0.7
"""The size of a picture in a narrow window, compared with its own: below that, its text is too small to read."""

_WIDTH = re.compile(r'viewBox="\S+ \S+ (\S+) ')


def add_sections(_app: Any, page: str, text: list[str]) -> None:
    """Add the tree of pages to the front page, and to a page with others below it; only the site sees it."""
    text[0] += tree.below(page) or (tree.as_toctrees() if page == tree.FRONT else "")


def draw(_app: Any, doctree: nodes.document) -> None:
    """Put a picture in the place of each block of Mermaid; a block that is not valid is a warning."""
    for number, block in enumerate(list(doctree.findall(nodes.literal_block))):
        if block.get("language") == "mermaid":
            try:
                picture = mmdr.render(block.astext()).svg()
            except ValueError as error:
                _log.warning("%s", error, location=block)
                continue
            # The names of what a picture defines are its own, also next to another one.
            picture = picture.replace(
                "merman",
                f"picture-{number}",
            )
            width = float(_WIDTH.findall(picture)[0])
            style = f"min-width:{width * SMALLEST:.0f}px;"
            picture = picture.replace('style="', f'style="{style}', 1)
            block.replace_self(
                nodes.raw("", f'<div class="picture">{picture}</div>', format="html")
            )


def setup(app: Any) -> dict[str, bool]:
    """Add what a build does besides."""
    app.add_lexer("hcl", TextLexer)  # the lexer of HCL does not know `for`
    app.connect("source-read", add_sections)
    app.connect("doctree-read", draw)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
