"""The gallery: the heads of the examples, their pictures, and the lists of `examples/README.md`.

An example is a file with a head: comments that say its idea, what it needs, how to run it, and what is seen then:

    # What it shows, in a sentence or two.
    # Needs podman, curl.
    #
    #   $ heat-config-apply examples/FOLDER/NAME.yaml
    #   …
    #     output = value

`python gallery.py EXAMPLES` writes the pictures into `EXAMPLES/pictures` and the lists into `EXAMPLES/README.md`;
`make gallery` does so. A list stands between the lines `<!-- FOLDER -->` and `<!-- /FOLDER -->`.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import io
import itertools
import re
import shlex
import sys
import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from heat_config_agent.cli import agent

PICTURES = "pictures"
"""The folder of the pictures."""

_LIST = re.compile(r"(?ms)^<!-- (?P<folder>[a-z.]+) -->\n.*?^<!-- /(?P=folder) -->\n")


@dataclass(frozen=True)
class Head:
    """The head of an example."""

    idea: str
    needs: tuple[str, ...]
    """The programs and modules without which it cannot be run."""
    commands: tuple[tuple[str, tuple[str, ...]], ...]
    """Each command, and the lines that it prints."""


@dataclass(frozen=True)
class Example:
    """One example."""

    path: Path
    head: Head

    @property
    def is_template(self) -> bool:
        """True for a template of HOT or TOSCA, which has a picture; false for a document."""
        return (
            re.search(
                r"(?m)^(heat_template|tosca_definitions)_version:",
                self.path.read_text("utf-8"),
            )
            is not None
        )

    @property
    def environments(self) -> list[str]:
        """The options that name its environments, with whole paths."""
        words = shlex.split(self.head.commands[0][0])
        names = [after for word, after in itertools.pairwise(words) if word == "-e"]
        return [
            word
            for name in names
            for word in ("-e", str(self.path.with_name(Path(name).name)))
        ]


def head(text: str) -> Head:
    """Return what the comments at the head of a text say. Without a command, it is the head of no example."""
    lines = [
        line[1:]
        for line in text[: re.search(r"(?m)^(?!#)", text).start()].splitlines()  # type: ignore[union-attr]
    ]
    about, commands = [], list[tuple[str, tuple[str, ...]]]()
    for line in lines:
        if line.startswith("   $ "):
            commands.append((line[5:], ()))
        elif line.startswith("   > ") and not commands[-1][1]:
            commands[-1] = (f"{commands[-1][0]}\n{line[5:]}", ())
        elif line.startswith("   ") and commands:
            commands[-1] = (commands[-1][0], (*commands[-1][1], line[3:]))
        elif not commands:
            about.append(line.strip())
    paragraph = " ".join(about).strip()
    idea, _, needs = paragraph.partition(" Needs ")
    return Head(
        idea, tuple(filter(None, needs.removesuffix(".").split(", "))), tuple(commands)
    )


def examples(folder: Path) -> list[Example]:
    """Return all examples of a folder and of those in it."""
    found = [
        Example(path, head(path.read_text("utf-8")))
        for path in sorted(folder.rglob("*.yaml"))
    ]
    return [each for each in found if each.head.commands]


def picture_of(example: Example, folder: Path) -> str:
    """Return the name of the picture of an example in `folder`."""
    return "-".join(example.path.relative_to(folder).with_suffix("").parts) + ".svg"


def picture(example: Example) -> str:
    """Return the graph of a template as SVG; nothing for a document, and for a template without resources."""
    if not example.is_template:
        return ""
    words = [
        "stack",
        "graph",
        "--format",
        "svg",
        "-t",
        str(example.path),
        *example.environments,
    ]
    options = agent.parser().parse_args(words)
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        code = options.run(options)
    if code:
        raise ValueError(f"{example.path} cannot be drawn")
    drawn = printed.getvalue()
    return drawn if "<title>" in drawn else ""


@functools.cache
def pictures(folder: Path) -> dict[str, str]:
    """Return all pictures by their names."""
    drawn = {picture_of(each, folder): picture(each) for each in examples(folder)}
    return {name: text for name, text in drawn.items() if text}


def index(text: str, folder: Path) -> str:
    """Return the text of the index with its current lists."""
    drawn = pictures(folder)

    def listed(match: re.Match[str]) -> str:
        name, shown = match["folder"], dict[str, str]()
        members = (each for each in examples(folder) if _list_of(each, folder) == name)
        items = [line for each in members for line in _item(each, folder, drawn, shown)]
        return "\n".join([f"<!-- {name} -->", *items, f"<!-- /{name} -->", ""])

    return _LIST.sub(listed, text)


def _list_of(example: Example, folder: Path) -> str:
    """Return the name of the list that has an example: its first folder, or `files` if it is in none."""
    parts = example.path.relative_to(folder).parts
    return parts[0] if len(parts) > 1 else "files"


def _item(
    example: Example, folder: Path, drawn: Mapping[str, str], shown: dict[str, str]
) -> Iterator[str]:
    """Yield the lines of an example, with its picture unless the list has shown the same one before.

    `shown` maps the pictures of the list to the examples that they stand below.
    """
    path, picture = (
        example.path.relative_to(folder).as_posix(),
        picture_of(example, folder),
    )
    name, graph = path.partition("/")[2] or path, drawn.get(picture, "")
    needs = (
        f" Needs {', '.join(f'`{each}`' for each in example.head.needs)}."
        if example.head.needs
        else ""
    )
    same = f" The picture is that of `{shown[graph]}`." if graph in shown else ""
    sentences = re.split(r"(?<=\.) (?=[A-Z`$])", f"{example.head.idea}{needs}{same}")
    yield f"- [`{name}`]({path}):"
    for each in sentences:
        yield from textwrap.wrap(
            each,
            118,
            initial_indent="  ",
            subsequent_indent="  ",
            break_long_words=False,
        )
    if graph and not same:
        shown[graph] = name
        yield from ("", f"  ![the resources of {name}]({PICTURES}/{picture})", "")


def main() -> int:
    """Write the pictures and the lists."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folder", type=Path, metavar="EXAMPLES")
    folder: Path = parser.parse_args().folder
    (folder / PICTURES).mkdir(exist_ok=True)
    for path in (folder / PICTURES).glob("*.svg"):
        path.unlink()
    for name, text in pictures(folder).items():
        (folder / PICTURES / name).write_text(text, encoding="utf-8")
    readme = folder / "README.md"
    readme.write_text(index(readme.read_text("utf-8"), folder), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
