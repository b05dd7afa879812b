"""Checks what a package index shows of a release: `python published.py FOLDER VERSION`, where FOLDER has the packages.

Every finding is one line. With `HOME_NEEDED=yes`, it is a mistake that the packages have no URLs.
"""

from __future__ import annotations

import os
import re
import sys
import tarfile
import zipfile
from collections.abc import Iterator
from email.message import Message
from email.parser import Parser
from pathlib import Path

NEEDED = ("Homepage", "Documentation", "Source", "Changelog", "Issues")
"""The project's URLs that a release has."""

TOPICS = (
    "Development Status",
    "Environment",
    "Intended Audience",
    "Operating System",
    "Programming Language",
    "Topic",
)
"""The kinds of classifiers by which packages are found."""

RELATIVE = re.compile(r"\]\((?!https?:|#|mailto:)([^)\s]+)\)")
"""A link that leads nowhere where the README stands alone."""


def metadata(folder: Path, version: str) -> dict[str, Message]:
    """Return the metadata of each package of a folder by its file's name."""
    found = {}
    for path in sorted(folder.glob("heat_config_agent*.whl")):
        with zipfile.ZipFile(path) as archive:
            [name] = [each for each in archive.namelist() if each.endswith("/METADATA")]
            found[path.name] = Parser().parsestr(archive.read(name).decode())
    for path in sorted(folder.glob("heat_config_agent*.tar.gz")):
        with tarfile.open(path) as archive:
            content = archive.extractfile(f"heat_config_agent-{version}/PKG-INFO")
            if content is not None:
                found[path.name] = Parser().parsestr(content.read().decode())
    return found


def mistakes(message: Message, version: str) -> Iterator[str]:
    """Yield the mistakes in the metadata of one package."""
    if message["Version"] != version:
        yield f"the version is {message['Version']}, not {version}"
    for name in ("Summary", "License", "Requires-Python", "Author"):
        if not message[name]:
            yield f"{name} is missing"
    classifiers = message.get_all("Classifier", [])
    for topic in TOPICS:
        if not any(each.startswith(f"{topic} :: ") for each in classifiers):
            yield f"no classifier begins with «{topic}»"
    if not str(message["Description-Content-Type"]).startswith("text/markdown"):
        yield "the README is not declared as Markdown"
    if len(str(message.get_payload())) < 200:
        yield "the README is missing"


def without_home(message: Message) -> Iterator[str]:
    """Yield what is missing in the metadata of one package because the home has no address."""
    labels = {each.partition(",")[0] for each in message.get_all("Project-URL", [])}
    if missing := [each for each in NEEDED if each not in labels]:
        yield f"it has no URL for {', '.join(missing)}"
    links = RELATIVE.findall(str(message.get_payload()))
    if links:
        yield f"{len(links)} links of the README lead nowhere, the first to {links[0]}"


def main() -> int:
    """Print the findings; return 1 after a mistake."""
    folder, version = Path(sys.argv[1]), sys.argv[2]
    needed = os.environ.get("HOME_NEEDED") == "yes"
    packages = metadata(folder, version)
    failed = len(packages) != 3
    if failed:
        print(f"error: {folder} has {len(packages)} packages for Python, not 3")
    for name, message in packages.items():
        wrong, missing = list(mistakes(message, version)), list(without_home(message))
        failed = failed or bool(wrong) or (needed and bool(missing))
        for each in wrong:
            print(f"error: {name}: {each}")
        for each in missing:
            print(f"{'error' if needed else 'warning'}: {name}: {each}")
        if not wrong and not missing:
            print(f"ok: {name}: metadata, URLs, classifiers and README")
    if any(list(without_home(message)) for message in packages.values()):
        print("hint: put the address of the project's home into packaging/home")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
