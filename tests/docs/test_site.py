"""The documentation site: built without a warning, whole, searchable from a folder, and without any other host."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urldefrag, urlsplit

import pytest

from docs import prose
from docs.browser import Browser, need_chromium
from docs.console import ROOT
from website import tree

pytestmark = [pytest.mark.slow, pytest.mark.takes(60), pytest.mark.timeout(600)]

BUILDER = ROOT / ".venv/site/bin/sphinx-build"

LOADED = {"script", "img", "iframe", "source", "embed", "video", "audio", "object"}
"""Elements whose address is requested with the page."""


class Page(HTMLParser):
    """The anchors of a page, its links, and the addresses that are requested with it."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.leads_to = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Take what is in a tag."""
        values = {name: value or "" for name, value in attrs}
        self.anchors.add(values.get("id", ""))
        address = values.get("href") or values.get("src") or values.get("data") or ""
        if tag in LOADED or (
            tag == "link" and values.get("rel") in ("stylesheet", "icon", "preload")
        ):
            self.loaded.append(address)
        if address:
            self.links.append(address)
        if tag == "meta" and values.get("http-equiv") == "refresh":
            self.leads_to = values["content"].partition("url=")[2]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the site, built as `make docs` does."""
    if not BUILDER.exists():
        pytest.skip("Sphinx is not installed in .venv/site: «make docs» does it")
    folder = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [
            *(BUILDER, "--quiet", "--fail-on-warning", "--keep-going", "--nitpicky"),
            *("--conf-dir", ROOT / "packaging/website"),
            *("--doctree-dir", folder / "doctrees", ROOT, folder / "html"),
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return folder / "html"


@pytest.fixture(scope="module")
def pages(site: Path) -> dict[Path, Page]:
    """All pages of the site."""
    return {
        path: Page(path.read_text(encoding="utf-8")) for path in site.rglob("*.html")
    }


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """A Chromium."""
    started = Browser(need_chromium(), tmp_path_factory.mktemp("chromium"))
    try:
        started.attach()
        yield started
    finally:
        started.close()


def test_links_and_anchors_lead_somewhere(pages: dict[Path, Page]) -> None:
    """Every link to the site itself names a file that is there, and an anchor in it."""
    broken = []
    for path, page in pages.items():
        for link in page.links:
            address, anchor = urldefrag(link)
            if urlsplit(link).scheme:
                continue
            address = urlsplit(address).path
            target = (path.parent / unquote(address)) if address else path
            known = pages.get(Path(target).resolve())
            if not target.exists() or (
                anchor and known and unquote(anchor) not in known.anchors
            ):
                broken.append(f"{path.name}: {link}")
    assert broken == []


def test_pages_load_nothing_from_other_hosts(
    site: Path, pages: dict[Path, Page]
) -> None:
    """Scripts, styles, pictures and fonts are files of the site."""
    loaded = {address for page in pages.values() for address in page.loaded}
    for style in site.rglob("*.css"):
        loaded |= set(
            re.findall(
                r"""(?:url\(|@import )\s*["']?([^"')]*)""",
                style.read_text(encoding="utf-8"),
            )
        )
    assert [
        address
        for address in loaded
        if urlsplit(address).netloc or urlsplit(address).scheme not in ("", "data")
    ] == []


def test_search_index_has_the_word_of_a_page(site: Path) -> None:
    """The index is a file of the site; it names the page of tools for `retry`."""
    text = (site / "searchindex.js").read_text(encoding="utf-8")
    index = json.loads(text.removeprefix("Search.setIndex(").removesuffix(")"))
    # The index has the stem of a word, apart for titles and for the text below them.
    numbers = {
        *_listed(index["terms"]["retri"]),
        *_listed(index["titleterms"]["retri"]),
    }
    assert "docs/tools" in {index["docnames"][number] for number in numbers}


def _listed(numbers: int | list[int]) -> list[int]:
    """Return the numbers of pages as a list: the index has one number by itself."""
    return [numbers] if isinstance(numbers, int) else numbers


def test_every_page_of_the_repository_is_in_the_site(site: Path) -> None:
    """A page of Markdown is in the tree of the site, so that its links are checked and it is found."""
    names = {
        path.relative_to(ROOT).with_suffix(".html").as_posix()
        for path in prose.pages()
        if ".github" not in path.parts and "samples" not in path.parts
    }
    assert [name for name in sorted(names) if not (site / name).exists()] == []


def test_moved_pages_lead_to_their_new_places(
    site: Path, pages: dict[Path, Page]
) -> None:
    """An address of the past opens the page that has its content, at the section if it names one."""
    for old, new in tree.MOVED.items():
        path = site / f"{old}.html"
        address, anchor = urldefrag(pages[path].leads_to)
        name, _, section = new.partition("#")
        target = (path.parent / address).resolve()
        assert (target, anchor) == (site / f"{name}.html", section)
        assert not section or section in pages[target].anchors


def test_mermaid_is_drawn_when_the_site_is_built(site: Path) -> None:
    """A picture is an SVG in the page, and its source is not shown."""
    drawn = sources = 0
    for path in prose.pages():
        built = site / path.relative_to(ROOT).with_suffix(".html")
        if built.exists():
            sources += path.read_text(encoding="utf-8").count("\n```mermaid\n")
            drawn += built.read_text(encoding="utf-8").count(
                '<div class="picture"><svg'
            )
    assert drawn == sources > 0


def test_search_leads_to_a_page_in_a_browser(site: Path, browser: Browser) -> None:
    """The search works from a folder: a word that is typed leads to results, and the first one to a page with it."""
    browser.open((site / "README.html").as_uri())
    browser.value(
        "document.querySelector('.sidebar-search').value = 'retry';"
        "document.querySelector('.sidebar-search-container').submit()"
    )
    browser.wait("document.querySelectorAll('#search-results li a').length >= 5")
    first = browser.value("document.querySelector('#search-results li a').href")
    browser.open(first)
    assert browser.value("document.querySelector('h1') != null")
    # A word that is a part of a longer one, such as `retries`, has another ending.
    assert "retr" in browser.value("document.body.innerText").lower()


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("width", [400, 1600])
def test_front_page_is_readable_in_a_browser(
    site: Path, browser: Browser, width: int, dark: bool
) -> None:
    """The picture is on the first screen, the page is not wider than the window, and only files are requested."""
    browser.open((site / "README.html").as_uri(), width=width, dark=dark)
    wide, high, bottom = browser.value(
        "(box => [box.width, box.height, box.bottom])"
        "(document.querySelector('.picture svg').getBoundingClientRect())"
    )
    assert wide >= 300
    assert high >= 80
    assert bottom <= 1000
    assert browser.value("document.documentElement.scrollWidth") <= width
    colour = browser.value("getComputedStyle(document.body).backgroundColor")
    assert (sum(map(int, re.findall(r"\d+", colour)[:3])) < 200) == dark
    assert {urlsplit(url).scheme for url in browser.requested} <= {"file", "data"}
