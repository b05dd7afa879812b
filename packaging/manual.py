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
from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping
from pathlib import Path

from heat_config_agent import __version__
from heat_config_agent.cli import agent
from heat_config_agent.cli.apply import command as apply
from heat_config_agent.settings.kinds import Setting, written
from heat_config_agent.settings.schema import SECTIONS, SETTINGS
from heat_config_hooks import standalone

AGENT, APPLY, HOOK, SETTINGS_PAGE = (
    "heat-config-agent",
    "heat-config-apply",
    "heat-config-hook",
    "heat-config-agent.conf",
)

BRIEFS = {
    AGENT: "run the agent for Heat's software deployments, inspect and control its work",
    APPLY: "apply software deployments on this machine, once",
    HOOK: "carry out one deployment with one tool",
    SETTINGS_PAGE: "settings of heat-config-agent",
}
"""The subject of each page, for whatis(1)."""

FILES = {
    "/etc/heat-config-agent/*.conf": "settings; a later file overrides the files before it",
    "/etc/heat-config-agent/policy": "which deployments may run on the machine",
    "/etc/heat-config-agent/secrets": "secrets to which inputs of deployments may refer",
    "/etc/os-collect-config.conf": "settings of os-collect-config, which are read too",
    "/var/lib/heat-config-agent": "the state: the journal, runs and their output",
    "/usr/libexec/heat-config/hooks": "hooks, which override built-in hooks of the same name",
}

EXAMPLES = {
    AGENT: {
        "Show all deployments and their states": "heat-config-agent status",
        "Follow the output of a deployment": "heat-config-agent log -f web",
        "Run a deployment again, and send the new result": "heat-config-agent retry web",
        "Find out why Heat is not reached": "heat-config-agent doctor",
        "Create a stack of a template on this machine": "heat-config-agent stack create shop -t shop.yaml",
        "Follow the daemon": "journalctl -u heat-config-agent -f",
    },
    APPLY: {
        "Make a dry run of a list of deployments": "heat-config-apply --plan site.yaml",
        "Apply it": "heat-config-apply site.yaml",
        "Apply only the deployments of one name": "heat-config-apply --only web site.yaml",
        "Create a stack of a template, or update it": "heat-config-apply --name shop shop.yaml",
        "Take deployments from another program": "make-deployments | heat-config-apply -",
    },
    HOOK: {"Run one script deployment": "heat-config-hook script <deployment.json"},
    SETTINGS_PAGE: {
        "Poll once a minute, and keep details for a week": "[agent]\npolling_interval = 60\nkeep_for = 604800",
        "See which settings are in force, and which file set each": "heat-config-agent config",
    },
}
"""The most frequent tasks and their commands. Without a command or a file, a page has none."""

ENVIRONMENT = {
    "HEAT_CONFIG_AGENT_STATE": "the state directory, unless the command line names one",
    "HEAT_CONFIG_HOOKS": "another directory of hooks",
    "HEAT_CONFIG_DEPLOYED": "heat-agents' record of what was run (default: /var/lib/heat-config/deployed)",
    "HEAT_SHELL_CONFIG": "the file that heat-config-apply applies if it is given none",
    "XDG_STATE_HOME": "the state directory of a user who is not root is below it (default: ~/.local/state)",
    "http_proxy, https_proxy, no_proxy": "proxies for requests to Heat and to other servers",
    "REQUESTS_CA_BUNDLE": "a file with the certificates to trust, unless the setting ca_file names one",
    "NO_COLOR": "if it is set, nothing is printed in colour",
}
"""Variables and their meaning, for the pages of commands."""

_ENVIRONMENT_OF = {
    AGENT: set(ENVIRONMENT) - {"HEAT_SHELL_CONFIG"},
    APPLY: set(ENVIRONMENT),
}

SIGNALS = {
    "HUP": "the daemon reads its settings again",
    "USR1": "the daemon polls all sources and sends pending results now",
    "TERM, INT": "the daemon ends; runs that have begun go on, and the next daemon follows them",
}

COMMON = 4
"""Options that this many commands of a program have, with the same meaning, are explained once."""

_ROW = re.compile(r" +(\S+)  +(\S.*)")
"""A line of a table in a help text, such as an exit code and what it means."""


def escaped(text: str) -> str:
    """Return text as roff reads it, so that it is copied from the page as it was."""
    for sign, code in (
        ("\\", "\\e"),
        ("-", "\\-"),
        ("'", "\\(aq"),
        ("`", "\\(ga"),
        ("^", "\\(ha"),
        ("~", "\\(ti"),
    ):
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
    """Yield a tag, and next to it what it means."""
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
    if name in _ENVIRONMENT_OF:
        yield ".SH ENVIRONMENT"
        for variable, meaning in ENVIRONMENT.items():
            if variable in _ENVIRONMENT_OF[name]:
                yield from _item(variable, meaning)
    if name == AGENT:
        yield ".SH SIGNALS"
        for signal, meaning in SIGNALS.items():
            yield from _item(signal, meaning)
    yield ".SH EXAMPLES"
    for purpose, lines in EXAMPLES[name].items():
        yield from (
            ".PP",
            *words(f"{purpose}:"),
            ".PP",
            ".RS 4",
            ".nf",
            *map(escaped, lines.splitlines()),
            ".fi",
            ".RE",
        )
    yield ".SH FILES"
    for path, says in FILES.items():
        yield from _item(path, says)
    yield ".SH SEE ALSO"
    pages = [
        f"{each}(5)" if each == SETTINGS_PAGE else f"{each}(1)"
        for each in BRIEFS
        if each != name
    ]
    yield escaped(", ".join(pages))


def _blocks(text: str, heading: str) -> Iterator[str]:
    """Yield what a help text says next to its options: paragraphs, and tables, each under a `heading` of its own."""
    for block in filter(None, re.split(r"\n\s*\n", text.strip("\n"))):
        first, _, rest = block.partition("\n")
        rows = table(rest.splitlines()) if first.endswith(":") else []
        if not rows:
            yield ".PP"
            yield from words(block)
            continue
        title = "exit status" if first == "exit codes:" else first.removesuffix(":")
        yield f"{heading} {_quoted(title.upper() if heading == '.SH' else title.capitalize())}"
        for code, says in rows:
            yield from _item(code, says)


def table(lines: Iterable[str]) -> list[tuple[str, str]]:
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
    """Return the documented arguments and options of a command by itself. That each has --help is said once."""
    return [
        action
        for action in parser._actions  # noqa: SLF001  # there is no other way to them
        if not isinstance(action, argparse._SubParsersAction)  # noqa: SLF001
        and action.help != argparse.SUPPRESS
        and (action.dest != "help" or " " not in parser.prog)
    ]


def explained(action: argparse.Action) -> tuple[tuple[str, ...], str]:
    """Return what makes an option the same as that of another command: how it is written, and its help."""
    return tuple(action.option_strings), str(action.help)


def common(parser: argparse.ArgumentParser) -> list[argparse.Action]:
    """Return the options that mean the same in each of many commands that have them, in their order."""
    options = [
        action
        for command in every(parser).values()
        for action in arguments(command)
        if action.option_strings
    ]
    counts = Counter(map(explained, options))
    meanings = Counter(names for names, _ in counts)
    shared = {
        explained(each): each for each in options if counts[explained(each)] >= COMMON
    }
    return [each for (names, _), each in shared.items() if meanings[names] == 1]


def _arguments(actions: Iterable[argparse.Action], prog: str) -> Iterator[str]:
    """Yield each argument and option, and what it does."""
    for action in actions:
        named = str(action.metavar or action.dest).upper() if action.nargs != 0 else ""
        tag = " ".join(
            each for each in (", ".join(action.option_strings), named) if each
        )
        yield from _item(tag, (action.help or "") % {**vars(action), "prog": prog})


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
        found.update(
            {f"{name} {each}": inner for each, inner in every(command).items()}
        )
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
    yield from _arguments(arguments(parser), name)
    shared, endings = common(parser), dict[str, list[str]]()
    if shared:
        yield ".SH COMMON OPTIONS"
        yield from words(
            "Where the usage of a command names them, these options mean the same."
        )
        yield from _arguments(shared, name)
    for index, (each, command) in enumerate(every(parser).items()):
        if not index:
            yield ".SH COMMANDS"
        yield f".SS {_quoted(each)}"
        yield from _command(command, {explained(action) for action in shared}, endings)
    notes = parser.epilog or ""
    if endings:
        notes, _, rows = notes.partition("exit codes:\n")
        endings.setdefault(rows.strip("\n"), []).append("all others")
        yield ".SH EXIT STATUS"
        yield from words("The codes have these meanings, command by command.")
    for block, names in endings.items():
        yield ".PP"
        yield from words(f"{', '.join(names)}:")
        for code, meaning in table(block.splitlines()):
            yield from _item(code, meaning)
    yield ".SH NOTES"
    yield from _blocks(notes, ".SH")
    yield from _end(name)


def _command(
    parser: argparse.ArgumentParser,
    shared: Container[tuple[tuple[str, ...], str]],
    endings: dict[str, list[str]],
) -> Iterator[str]:
    """Yield one of several commands of a program, without `shared` options; add its exit codes to `endings`."""
    yield from _usage(parser)
    text = parser.description or ""
    yield from _blocks(text[:1].upper() + text[1:], ".PP\n.B")
    yield from _arguments(
        [each for each in arguments(parser) if explained(each) not in shared],
        parser.prog,
    )
    blocks = re.split(r"\n\s*\n", (parser.epilog or "").strip("\n"))
    for block in blocks:
        first, _, rows = block.partition("\n")
        if first == "exit codes:":
            endings.setdefault(rows, []).append(parser.prog.partition(" ")[2])
        else:
            yield from _blocks(block, ".PP\n.B")


def hook(text: str, date: str) -> Iterator[str]:
    """Yield the page of the program whose help is that text."""
    yield from _page(HOOK, 1, date)
    usage, _, rest = text.partition("\n")
    yield from (
        ".SH SYNOPSIS",
        escaped(usage.removeprefix("usage: ")),
        ".SH DESCRIPTION",
    )
    yield from _blocks(rest, ".SH")
    yield from _end(HOOK)


def settings(date: str) -> Iterator[str]:
    """Yield the page of the settings."""
    yield from _page(SETTINGS_PAGE, 5, date)
    yield ".SH DESCRIPTION"
    yield from words(
        "Settings are read from /etc/heat-config-agent/*.conf, where a later file overrides the files before it, or "
        "from the one file that --config names. An instance of Heat needs no settings. A file has sections, and in "
        "them lines «name = value»; a line that begins with # is a comment. `heat-config-agent config` shows every "
        "setting, its value and its origin."
    )
    yield ".SH SECTIONS"
    for section, about in SECTIONS.items():
        yield f".SS {_quoted(f'[{section}]')}"
        yield from words(about)
        for each in SETTINGS:
            if each.section == section:
                yield from _item(each.name, _setting(each))
    yield from _end(SETTINGS_PAGE)


def _setting(each: Setting) -> str:
    says = each.description[:1].upper() + each.description[1:]
    default = (
        "required if the section is used"
        if each.required
        else f"default: {written(each.kind, each.default) or 'none'}"
    )
    example = f" Example: {each.example}." if each.example else ""
    return f"{says}. It is {each.expected}; {default}.{example}"


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
    return {
        name: re.sub(r"(?m)^(\.S[HS] .*\n)\.PP\n", r"\1", "\n".join(lines) + "\n")
        for name, lines in made.items()
    }


def main() -> int:
    """Write the pages into the folder that the command line names."""
    date = time.strftime(
        "%Y-%m-%d", time.gmtime(int(os.environ.get("SOURCE_DATE_EPOCH", time.time())))
    )
    folder = Path(sys.argv[1])
    for name, text in pages(date).items():
        path = folder / f"man{name[-1]}" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
