"""The manual pages, made of what the commands say of themselves.

`python manual.py FOLDER` writes them there. Those of the commands are their `--help`; that of the settings is made of
the table which they are read by.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from heat_config_agent import __version__
from heat_config_agent.cli import agent, apply
from heat_config_agent.configuration import SETTINGS, Setting, written
from heat_config_hooks import standalone

AGENT, APPLY, HOOK, SETTINGS_PAGE = (
    "heat-config-agent",
    "heat-config-apply",
    "heat-config-hook",
    "heat-config-agent.conf",
)

BRIEFS = {
    AGENT: "run the agent of Heat's software deployments, see and steer what it does",
    APPLY: "apply software deployments on this machine, once",
    HOOK: "carry out one deployment with one tool",
    SETTINGS_PAGE: "settings of heat-config-agent",
}
"""What each page is about, for whatis(1)."""

FILES = {
    "/etc/heat-config-agent/*.conf": "settings; a later file wins over those before it",
    "/etc/os-collect-config.conf": "settings of the program that this one replaces, which are read too",
    "/var/lib/heat-config-agent": "what is kept: the journal, runs and their output",
    "/usr/libexec/heat-config/hooks": "hooks that win over the agent's own of the same name",
}

SAYS = {
    "agent": "How the agent works. In os-collect-config's file, collectors, polling_interval and splay may stand in "
    "[DEFAULT]; Heat's metadata may set them, too.",
    "heat": "Heat's metadata by Heat's own interface.",
    "cfn": "Heat's metadata by its CloudFormation interface.",
    "request": "Heat's metadata at a signed URL.",
    "zaqar": "Heat's metadata in a queue.",
    "heat_local": "What cloud-init has left of what Heat gave the instance.",
    "ec2": "What the metadata service says to the instance. Unless collectors names it, it is asked only on machines "
    "that look like a cloud's.",
    "config_drive": "What the drive says that was given to the instance.",
    "local": "Directories with documents on this machine.",
    "file": "Documents on this machine.",
}
"""What each section of the settings is about."""

_ROW = re.compile(r" +(\S+)  +(\S.*)")
"""A line of a table in a help text, such as an exit code and what it means."""


def escaped(text: str) -> str:
    """Return text as roff reads it, so that it is copied from the page as it was."""
    for sign, code in (("\\", "\\e"), ("-", "\\-"), ("'", "\\(aq"), ("`", "\\(ga"), ("^", "\\(ha"), ("~", "\\(ti")):
        text = text.replace(sign, code)
    return text


def words(text: str) -> Iterator[str]:
    """Yield text in lines of roff, none of them long."""
    line = ""
    for word in escaped(text).split():
        if line and len(f"{line} {word}".encode()) > 80:
            yield line
            line = ""
        line = f"{line} {word}" if line else re.sub(r"^\.", r"\\&.", word)  # no request
    if line:
        yield line


def _quoted(text: str) -> str:
    return '"' + escaped(text).replace('"', "\\(dq") + '"'


def _item(tag: str, text: str) -> Iterator[str]:
    """Yield a tag, and beside it what it means."""
    yield ".TP"
    yield f".B {_quoted(tag)}"
    yield from words(text)


def _page(name: str, section: int, date: str) -> Iterator[str]:
    """Yield how a page begins."""
    kind = "User Commands" if section == 1 else "File Formats"
    yield f'.TH {_quoted(name.upper())} {section} "{date}" "{AGENT} {escaped(__version__)}" "{kind}"'
    yield from (".SH NAME", f"{escaped(name)} \\- {escaped(BRIEFS[name])}")


def _end(name: str) -> Iterator[str]:
    """Yield how a page ends."""
    yield ".SH FILES"
    for path, says in FILES.items():
        yield from _item(path, says)
    yield ".SH SEE ALSO"
    pages = [f"{each}(5)" if each == SETTINGS_PAGE else f"{each}(1)" for each in BRIEFS if each != name]
    yield escaped(", ".join(pages))


def _blocks(text: str, heading: str) -> Iterator[str]:
    """Yield what a help text says beside its options: paragraphs, and tables, each under a `heading` of its own."""
    for block in filter(None, re.split(r"\n\s*\n", text.strip("\n"))):
        first, _, rest = block.partition("\n")
        rows = _table(rest.splitlines()) if first.endswith(":") else []
        if not rows:
            yield ".PP"
            yield from words(block)
            continue
        title = "exit status" if first == "exit codes:" else first.removesuffix(":")
        yield f"{heading} {_quoted(title.upper() if heading == '.SH' else title.capitalize())}"
        for code, says in rows:
            yield from _item(code, says)


def _table(lines: Iterable[str]) -> list[tuple[str, str]]:
    """Return the rows of a table, of which a line that is indented deeper goes on with the one before it."""
    rows: list[tuple[str, str]] = []
    for line in lines:
        found = _ROW.fullmatch(line)
        if found:
            rows.append((found[1], found[2]))
        elif rows:
            rows[-1] = (rows[-1][0], f"{rows[-1][1]} {line.strip()}")
        else:
            return []
    return rows


def _usage(parser: argparse.ArgumentParser) -> Iterator[str]:
    """Yield how a command is called."""
    found = parser.format_usage().removeprefix("usage: ").split()
    yield ".SY " + _quoted(parser.prog)
    yield from words(" ".join(found[len(parser.prog.split()) :]))
    yield ".YS"


def arguments(parser: argparse.ArgumentParser) -> list[argparse.Action]:
    """Return the arguments and options that a command has by itself. That each has --help is said once."""
    return [
        action
        for action in parser._actions  # noqa: SLF001  # there is no other way to them
        if not isinstance(action, argparse._SubParsersAction)  # noqa: SLF001
        and (action.dest != "help" or " " not in parser.prog)
    ]


def _arguments(parser: argparse.ArgumentParser) -> Iterator[str]:
    """Yield each argument and option of a command, and what it does."""
    for action in arguments(parser):
        named = str(action.metavar or action.dest).upper() if action.nargs != 0 else ""
        tag = " ".join(each for each in (", ".join(action.option_strings), named) if each)
        yield from _item(tag, (action.help or "") % {**vars(action), "prog": parser.prog})


def commands(parser: argparse.ArgumentParser) -> Mapping[str, argparse.ArgumentParser]:
    """Return the commands that a program has, each by its name."""
    for action in parser._actions:  # noqa: SLF001
        if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001
            return action.choices
    return {}


def every(parser: argparse.ArgumentParser) -> Mapping[str, argparse.ArgumentParser]:
    """Return the commands that a program has, and those that each of them has in turn."""
    found = {}
    for name, command in commands(parser).items():
        found[name] = command
        found.update({f"{name} {each}": inner for each, inner in every(command).items()})
    return found


def program(parser: argparse.ArgumentParser, date: str) -> Iterator[str]:
    """Yield the page of a program, with all that its commands have."""
    name = parser.prog
    yield from _page(name, 1, date)
    yield ".SH SYNOPSIS"
    yield from _usage(parser)
    yield ".SH DESCRIPTION"
    yield from words(parser.description or "")
    yield ".SH OPTIONS"
    yield from _arguments(parser)
    for index, (each, command) in enumerate(every(parser).items()):
        if not index:
            yield ".SH COMMANDS"
        yield f".SS {_quoted(each)}"
        yield from _command(command)
    yield ".SH NOTES"
    yield from _blocks(parser.epilog or "", ".SH")
    yield from _end(name)


def _command(parser: argparse.ArgumentParser) -> Iterator[str]:
    """Yield one of several commands of a program."""
    yield from _usage(parser)
    text = parser.description or ""
    yield from _blocks(text[:1].upper() + text[1:], ".PP\n.B")
    yield from _arguments(parser)
    yield from _blocks(parser.epilog or "", ".PP\n.B")


def hook(text: str, date: str) -> Iterator[str]:
    """Yield the page of the program whose help is that text."""
    yield from _page(HOOK, 1, date)
    usage, _, rest = text.partition("\n")
    yield from (".SH SYNOPSIS", escaped(usage.removeprefix("usage: ")), ".SH DESCRIPTION")
    yield from _blocks(rest, ".SH")
    yield from _end(HOOK)


def settings(date: str) -> Iterator[str]:
    """Yield the page of the settings."""
    yield from _page(SETTINGS_PAGE, 5, date)
    yield ".SH DESCRIPTION"
    yield from words(
        "Settings are read from /etc/heat-config-agent/*.conf, of which a later file wins over those before it, or "
        "from the one file that --config names. None are needed on an instance of Heat's. A file has sections, and in "
        "them lines «name = value»; a line that begins with # is a comment. `heat-config-agent config` shows what is "
        "in force, and who says so."
    )
    yield ".SH SECTIONS"
    for section in dict.fromkeys(each.section for each in SETTINGS):
        yield f".SS {_quoted(f'[{section}]')}"
        yield from words(SAYS[section])
        for each in SETTINGS:
            if each.section == section:
                yield from _item(each.name, _setting(each))
    yield from _end(SETTINGS_PAGE)


def _setting(each: Setting) -> str:
    says = each.says[:1].upper() + each.says[1:]
    default = (
        "needed, where the section is to say anything"
        if each.required
        else f"default: {written(each.kind, each.default) or 'none'}"
    )
    return f"{says}. It is {each.expected}; {default}."


def pages(date: str) -> dict[str, str]:
    """Return all pages by their names."""
    os.environ["COLUMNS"] = "10000"  # a usage is one line, and roff breaks it
    os.environ["NO_COLOR"] = "1"
    made = {
        f"{AGENT}.1": program(agent.parser(), date),
        f"{APPLY}.1": program(apply.parser(), date),
        f"{HOOK}.1": hook(standalone.usage(), date),
        f"{SETTINGS_PAGE}.5": settings(date),
    }
    # A heading begins a paragraph by itself.
    return {name: re.sub(r"(?m)^(\.S[HS] .*\n)\.PP\n", r"\1", "\n".join(lines) + "\n") for name, lines in made.items()}


def main() -> int:
    """Write the pages into the folder that the command line names."""
    date = time.strftime("%Y-%m-%d", time.gmtime(int(os.environ.get("SOURCE_DATE_EPOCH", time.time()))))
    folder = Path(sys.argv[1])
    for name, text in pages(date).items():
        path = folder / f"man{name[-1]}" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
