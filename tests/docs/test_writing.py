"""Checks of the documentation that run nothing: its links, the commands that it names, its blocks."""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
from collections.abc import Callable
from functools import cache

import pytest
import yaml

from docs import prose
from docs.console import PAGES, ROOT, Command, File, Section, sections
from docs.stages import STAGES
from docs.test_pages import NOT_RUN, PORTS
from support import loaded
from support.machine import BIN

EVERY = tuple(prose.files("*.md"))
"""Every page of the repository."""

CHECKS: dict[str, Callable[[str], object]] = {
    "yaml": yaml.safe_load,
    "json": json.loads,
    "python": ast.parse,
    "ini": lambda text: re.match(r"\[\w+(?: \w+)?\]\n", text) or pytest.fail(text),
    "mermaid": lambda text: (
        re.match(r"(flowchart|sequenceDiagram|stateDiagram-v2)\b", text)
        or pytest.fail(text)
    ),
    "text": str.strip,
    "hcl": lambda text: text.count("{") == text.count("}") or pytest.fail(text),
    "sh": lambda text: subprocess.run(
        ["bash", "-n"], input=text, text=True, check=True
    ),
}
"""The checker for each language of a block."""

FENCED = re.compile(r"(?ms)^ *```.*?^ *```$")


def items() -> list[tuple[Section, Command | File]]:
    """Return all commands and files of all pages."""
    return [
        (section, item)
        for page in PAGES
        for section in sections(page)
        for item in section.items
    ]


@cache
def anchors(page: str) -> frozenset[str]:
    """Return what a link into a page may name: its headings, as they are made into anchors."""
    text = FENCED.sub("", (ROOT / page).read_text(encoding="utf-8"))
    headings = re.findall(r"(?m)^#+ (.*)$", text)
    return frozenset(
        re.sub(r"[^\w -]", "", each.lower()).replace(" ", "-") for each in headings
    )


@cache
def usage(words: tuple[str, ...]) -> str:
    """Return what a command says of itself; empty where there is no such command."""
    if words[0] not in loaded.PROGRAMS:
        done = subprocess.run(
            [BIN / words[0], *words[1:], "--help"],
            capture_output=True,
            text=True,
            check=False,
        )
        return done.stdout if done.returncode == 0 else ""
    environment = {"PATH": os.environ["PATH"], **loaded.STARTED}
    code, printed, _ = loaded.run(
        words[0], [*words[1:], "--help"], environment, ROOT, 60
    )
    return printed if code == 0 else ""


@pytest.mark.parametrize("page", EVERY)
def test_links_of_a_page_have_targets(page: str) -> None:
    """Each link to a file or a heading of the repository has a target."""
    text = FENCED.sub("", (ROOT / page).read_text(encoding="utf-8"))
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if re.match(r"[a-z]+:", target):
            continue
        name, _, anchor = target.partition("#")
        path = ((ROOT / page).parent / name).resolve() if name else ROOT / page
        assert path.exists(), f"{page}: {target}"
        if anchor and path.suffix == ".md":
            assert anchor in anchors(path.relative_to(ROOT).as_posix()), (
                f"{page}: {target}"
            )


@pytest.mark.parametrize("page", EVERY)
def test_files_that_a_page_names_exist(page: str) -> None:
    """Each file or folder that is named exists; CHANGELOG.md may name earlier ones."""
    if page == "CHANGELOG.md":
        return
    text = FENCED.sub("", (ROOT / page).read_text(encoding="utf-8"))
    for name in re.findall(
        r"`((?:agent|hooks|tests|docs|packaging|systemd|examples)/[\w./-]+)`", text
    ):
        places = (ROOT, (ROOT / page).parent, *(ROOT / "agent").glob("heat_config_*"))
        assert any((place / name).exists() for place in places), f"{page}: {name}"


@pytest.mark.parametrize("page", EVERY)
def test_commands_that_a_page_names_exist(page: str) -> None:
    """Each of our commands with its options, and each target of make that is named, exists."""
    text = (ROOT / page).read_text(encoding="utf-8")
    for words in map(
        str.split, re.findall(r"`(heat-config-(?:agent|apply|hook)(?: [^`]*)?)`", text)
    ):
        command = tuple(
            words[:2]
            if words[0] == "heat-config-agent" and words[1:2] and words[1][0] != "-"
            else words[:1]
        )
        while " COMMAND ...\n" in usage(command) and re.match(
            "[a-z]", "".join(words[len(command) :][:1])
        ):
            command = tuple(words[: len(command) + 1])
        said = usage(command)
        assert said, f"{page}: {' '.join(words)}"
        for option in (word for word in words if re.fullmatch(r"-\w|--[\w-]+", word)):
            assert re.search(rf"(?<![\w-]){option}(?![\w-])", said), (
                f"{page}: {' '.join(words)}"
            )
    targets = re.findall(r"(?m)^([a-z]+):", (ROOT / "Makefile").read_text())
    assert set(re.findall(r"`make ([a-z]+)`", text)) <= set(targets)


def test_blocks_of_a_page_are_valid_in_their_language() -> None:
    """The files and examples of a page are right in their language; the place of a file stands before it."""
    for section, item in items():
        if isinstance(item, File):
            assert item.language in CHECKS, item.where
            if "…" not in item.text:
                CHECKS[item.language](item.text)
            page = (ROOT / section.page).read_text(encoding="utf-8")
            before = page.splitlines()[: int(item.where.rpartition(":")[2]) - 2]
            assert not item.path or f"`{item.path}`" in "\n".join(before[-4:]), (
                f"{item.where}: say where {item.path} is"
            )


def test_no_page_takes_a_port_of_this_machine() -> None:
    """Each port that a command or a file of a page names is replaced by a free one, so that two runs do not meet."""
    named: dict[str, set[str]] = {}
    for section, item in items():
        if isinstance(item, Command) or (item.path and section.page in PORTS):
            text = item.line if isinstance(item, Command) else item.text
            for port in re.findall(r"(?:\b127\.0\.0\.1:|\bPort |\w:)(\d{4,5})\b", text):
                named.setdefault(section.page, set()).add(port)
    assert named == {page: set(ports) for page, ports in PORTS.items()}


def test_nothing_is_prepared_in_vain() -> None:
    """Each stage belongs to a section, and each command that is not run to a page."""
    headings = {
        (section.page, section.title) for page in PAGES for section in sections(page)
    }
    assert set(STAGES) <= headings
    assert set(NOT_RUN) <= {
        item.line for _, item in items() if isinstance(item, Command)
    }
