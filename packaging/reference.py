"""The reference pages and the example settings, generated from the declarations of settings, commands and types.

`python reference.py DOCS [EXAMPLES]` writes `settings.md`, `commands.md` and `types.md` into the one folder, and
`agent.conf` into the other; `make reference` does so for `docs/` and `examples/`.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
import textwrap
from collections import Counter
from collections.abc import Container, Iterable, Iterator
from pathlib import Path

import manual
from heat_config_agent.cli import agent
from heat_config_agent.cli.apply import command as apply
from heat_config_agent.settings.kinds import Setting, written
from heat_config_agent.settings.schema import SECTIONS, SETTINGS
from heat_config_hooks import standalone
from heat_config_stack.resource import heat_types
from heat_config_stack.resource_types import known_types
from heat_config_stack.resource_types.servers import Placeholder

WRITTEN = "<!-- `make reference` writes this page; do not edit it. -->\n"

_SETTINGS = """\
Every setting, its default, and what it does.
[`configure.md`](configure.md) says where settings are written, and which place takes precedence.

A file of settings has sections, and in them lines `name = value`.
A line that begins with `#` is a comment, and one that begins with a blank continues the value before it.
A list is written in one line, with blanks or commas between its words, or its name is repeated.
`heat-config-agent config` shows the effective value of every setting, and where it comes from.
"""

_TYPES = """\
Every resource type of Heat 27, and what `heat-config-apply` and `heat-config-agent stack` do with it.
The properties, attributes and update policies of every type are checked as in Heat.
A placeholder has an id and the attributes that you give it, and nothing is created ([`stack.md`](stack.md)).
Types of plug-ins and of nested templates come in addition.
`heat-config-agent stack resource type show TYPE` shows the properties and attributes of a type.
"""

_COMMANDS = """\
Every command with its arguments, options and exit codes.
[`operate.md`](operate.md) shows them at work.
Each command prints this with `--help`, and so do the manual pages.
"""


def cell(text: str) -> str:
    """Return text as a cell of a table, in one line."""
    return " ".join(text.split()).replace("|", "\\|")


def table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> Iterator[str]:
    """Yield the lines of a table, and an empty one after it; nothing where it has no rows."""
    lines = [f"| {' | '.join(map(cell, row))} |" for row in rows]
    if lines:
        yield from (f"| {' | '.join(head)} |", f"|{'---|' * len(head)}", *lines, "")


def sentence(text: str) -> str:
    """Return text as a sentence: with a capital letter, and a full stop."""
    text = " ".join(text.split())
    return (
        f"{text[:1].upper()}{text[1:]}{'' if text.endswith(('.', ':')) else '.'}"
        if text
        else ""
    )


def prose(text: str) -> Iterator[str]:
    """Yield a paragraph with one sentence per line, and an empty line after it."""
    for each in re.split(r"(?<=[.:]) +(?=[A-Z`])", sentence(text)):
        yield from textwrap.wrap(
            each, 120, break_long_words=False, break_on_hyphens=False
        )
    yield ""


def settings() -> Iterator[str]:
    """Yield the lines of the page of settings."""
    yield from ("# Settings", "", WRITTEN, *_SETTINGS.splitlines(), "")
    for section, about in SECTIONS.items():
        yield from (f"## `[{section}]`", "")
        yield from prose(about)
        rows = (_setting(each) for each in SETTINGS if each.section == section)
        yield from table(("setting", "default", "value", "meaning"), rows)


def _setting(each: Setting) -> tuple[str, ...]:
    default = written(each.kind, each.default)
    shown = "required" if each.required else f"`{default}`" if default else "–"
    example = f"; example: `{each.example}`" if each.example else ""
    deprecated = f"deprecated: use `{each.replaced_by}`; " if each.replaced_by else ""
    return (
        f"`{each.name}`",
        shown,
        each.expected,
        deprecated + each.description + example,
    )


_EXAMPLE = """\
Every setting of heat-config-agent, with its default. Settings are read from /etc/heat-config-agent/*.conf, where a \
later file overrides the ones before it, or from the one file that --config names. `heat-config-agent config` shows \
the effective settings, and where each comes from. The sections that say how to reach Heat are seldom needed: the \
instance is told when it is created, and Heat's metadata has the changes. In a section that is used, settings marked \
as required need a value.
"""


def example() -> Iterator[str]:
    """Yield the lines of the example file of settings, in which every setting is commented out."""
    yield from _comment(_EXAMPLE)
    for section, about in SECTIONS.items():
        yield ""
        yield from _comment(about)
        yield f"[{section}]"
        for row in SETTINGS:
            if row.section == section:
                notes = [row.expected, *(["required"] if row.required else [])]
                notes += [f"for example {row.example}"] if row.example else []
                notes += (
                    [f"deprecated: use {row.replaced_by}"] if row.replaced_by else []
                )
                yield from _comment(f"{row.description} ({'; '.join(notes)})")
                yield from (
                    f"# {row.name} = {written(row.kind, row.default)}".rstrip(),
                    "",
                )


def _comment(text: str) -> Iterator[str]:
    for line in textwrap.wrap(
        text, 118, break_long_words=False, break_on_hyphens=False
    ):
        yield f"# {line}"


SHARED = "Options of many commands"
"""The heading of the options that are explained once."""


def commands() -> Iterator[str]:
    """Yield the lines of the page of commands."""
    yield from ("# Commands", "", WRITTEN, *_COMMANDS.splitlines(), "")
    yield from _command(apply.parser(), "##")
    program = agent.parser()
    yield from _command(program, "##")
    shared = shared_options(program)
    yield from (
        f"### {SHARED}",
        "",
        "Where a command only names them, they mean this:",
        "",
    )
    rows = ((_named(each), _help(program, each)) for each in shared.values())
    yield from table(("option", "meaning"), rows)
    every: dict[str, argparse.ArgumentParser] = {program.prog: program}
    twins: dict[tuple[object, ...], str] = {}
    for command in manual.every(program).values():
        every[command.prog] = command
        group, _, name = command.prog.rpartition(" ")
        brief = _brief(every[group], name)
        twin = twins.setdefault((brief, *_content(command)), command.prog)
        if twin != command.prog:
            yield from _twin(command, twin)
            continue
        yield from _command(
            command,
            "###",
            {manual.explained(each) for each in shared.values()},
            every[group],
        )
    yield from ("## `heat-config-hook`", "")
    usage, _, text = standalone.usage().partition("\n")
    yield from ("```text", usage.removeprefix("usage: "), "```", "")
    yield from _blocks(text)


def _content(parser: argparse.ArgumentParser) -> tuple[object, ...]:
    """Return what a command says of itself, apart from its name."""
    texts = (parser.description or "", parser.epilog or "")
    return (
        *(text.replace(parser.prog, "") for text in texts),
        *manual.commands(parser),
        *((*manual.explained(each), each.dest) for each in manual.arguments(parser)),
    )


def _twin(parser: argparse.ArgumentParser, twin: str) -> Iterator[str]:
    """Yield the section of a command that does the same as another one."""
    yield from (f"### `{parser.prog}`", "", "```text", _synopsis(parser), "```", "")
    yield from (f"The same as [`{twin}`](#{twin.replace(' ', '-')}).", "")
    names = [_named(each) for each in manual.arguments(parser) if each.option_strings]
    yield from table(("options",), [(", ".join(names),)] if names else [])


def shared_options(
    program: argparse.ArgumentParser,
) -> dict[tuple[str, ...], argparse.Action]:
    """Return the options that many commands have, by their names; of several meanings, the most frequent one."""
    options = [
        action
        for command in manual.every(program).values()
        for action in manual.arguments(command)
        if action.option_strings and not action.required
    ]
    counts = Counter(map(manual.explained, options))
    first = {manual.explained(each): each for each in reversed(options)}
    shared: dict[tuple[str, ...], argparse.Action] = {}
    for meaning, count in counts.most_common():
        if count >= manual.COMMON:
            shared.setdefault(meaning[0], first[meaning])
    return shared


def _command(
    parser: argparse.ArgumentParser,
    heading: str,
    shared: Container[tuple[tuple[str, ...], str]] = (),
    group: argparse.ArgumentParser | None = None,
) -> Iterator[str]:
    """Yield the section of a command: without the meanings of `shared` options, and without its group's exit codes."""
    yield from (
        f"{heading} `{parser.prog}`",
        "",
        "```text",
        _synopsis(parser),
        "```",
        "",
    )
    yield from _blocks(parser.description or "")
    inner = {name: each for name, each in manual.commands(parser).items() if name}
    yield from table(
        ("command", "purpose"),
        (
            (
                f"[`{name}`](#{f'{parser.prog} {name}'.replace(' ', '-')})",
                _brief(parser, name),
            )
            for name in inner
        ),
    )
    actions = manual.arguments(parser)
    arguments = [each for each in actions if not each.option_strings]
    yield from table(
        ("argument", "meaning"),
        ((_named(each), _help(parser, each)) for each in arguments),
    )
    yield from table(("option", "meaning"), _options(parser, actions, shared))
    notes = parser.epilog or ""
    _, mark, codes = notes.partition("exit codes:\n")
    if group and mark and (group.epilog or "").endswith(mark + codes):
        notes = notes.removesuffix(mark + codes)
        yield from _blocks(notes)
        anchor = group.prog.replace(" ", "-")
        yield from (f"The exit codes are those of [`{group.prog}`](#{anchor}).", "")
    else:
        yield from _blocks(notes)


def _options(
    parser: argparse.ArgumentParser,
    actions: Iterable[argparse.Action],
    shared: Container[tuple[tuple[str, ...], str]],
) -> Iterator[tuple[str, str]]:
    """Yield a row for each option of a command, and one for all that mean the same in many commands."""
    options = [each for each in actions if each.option_strings]
    for each in options:
        if manual.explained(each) not in shared:
            yield _named(each), _help(parser, each)
    if rest := [_named(each) for each in options if manual.explained(each) in shared]:
        yield (
            f"[of many commands](#{SHARED.lower().replace(' ', '-')})",
            ", ".join(rest),
        )


def _brief(parser: argparse.ArgumentParser, name: str) -> str:
    """Return what a program says of one of its commands in a few words."""
    for action in parser._actions:  # noqa: SLF001  # there is no other way to them
        for each in getattr(action, "_choices_actions", ()):
            if each.dest == name:
                return str(each.help or "")
    return ""


def _synopsis(parser: argparse.ArgumentParser) -> str:
    words = [parser.prog]
    actions = manual.arguments(parser)
    words += [
        f"{each.option_strings[-1]} {_metavar(each)}"
        for each in actions
        if each.option_strings and each.required
    ]
    if any(each.option_strings and not each.required for each in actions):
        words.append("[OPTION ...]")
    for each in actions:
        name = _metavar(each)
        if not each.option_strings:
            words.append(
                {"*": f"[{name} ...]", "+": f"{name} ...", "?": f"[{name}]"}.get(
                    str(each.nargs), name
                )
            )
    if manual.commands(parser):
        words.append("COMMAND ...")
    return " ".join(words)


def _metavar(action: argparse.Action) -> str:
    if action.choices and not action.metavar:
        return "|".join(map(str, action.choices))
    return str(action.metavar or action.dest.upper())


def _named(action: argparse.Action) -> str:
    """Return an argument or option as it is typed."""
    if not action.option_strings:
        return f"`{_metavar(action)}`"
    value = (
        ""
        if action.nargs == 0
        else f" [{_metavar(action)}]"
        if action.nargs == "?"
        else f" {_metavar(action)}"
    )
    return f"`{', '.join(action.option_strings)}{value}`"


def _help(parser: argparse.ArgumentParser, action: argparse.Action) -> str:
    if action.dest == "help":
        return "show the help, and exit"
    if action.dest == "version":
        return "show the version, and exit"
    required = "required: " if action.option_strings and action.required else ""
    return required + (action.help or "") % {**vars(action), "prog": parser.prog}


def _blocks(text: str) -> Iterator[str]:
    """Yield what a help text says besides its options: paragraphs, and tables of exit codes."""
    for block in filter(None, re.split(r"\n\s*\n", text.strip("\n"))):
        first, _, rest = block.partition("\n")
        rows = manual.table(rest.splitlines()) if first.endswith(":") else []
        if rows:
            yield from table(
                (first.removesuffix("s:"), "meaning"),
                ((f"`{code}`", says) for code, says in rows),
            )
        else:
            yield from prose(block)


def types() -> Iterator[str]:
    """Yield the lines of the page of resource types: those that this machine carries out come first."""
    yield from ("# Resource types", "", WRITTEN, _TYPES)
    known = known_types()
    carried_out, others = [], {title: dict[str, list[str]]() for title in _OTHERS}
    for name in heat_types.names():
        class_, facts = known.known(name), heat_types.heat_type(name)
        if class_ is None or facts is None:
            raise AssertionError(name)
        status = facts.status.status.lower()
        since = f" since {facts.status.version}" if facts.status.version else ""
        if not issubclass(class_, Placeholder):
            does = (class_.__doc__ or "").partition("\n")[0]
            carried_out.append((f"`{name}`", does, status + since))
            continue
        title = _EMPTY if class_.facts.is_nothing else _CHECKED
        shown = f"`{name}`" if status == "supported" else f"`{name}` ({status}{since})"
        others[title].setdefault(name.rpartition("::")[0], []).append(shown)
    yield from ("## Carried out on this machine", "")
    yield from table(("type", "what it does", "status in Heat 27"), carried_out)
    for title, services in others.items():
        yield from (f"## {title}", "", _OTHERS[title], "")
        rows = ((f"`{name}`", ", ".join(each)) for name, each in services.items())
        yield from table(("service", "types"), rows)


_CHECKED = "Checked, with a placeholder"
_EMPTY = "Accepted with any property"

_OTHERS = {
    _CHECKED: "They need a cloud: their properties are checked, and a placeholder stands for them.",
    _EMPTY: "Heat itself creates nothing for them.",
}
"""The headings of types that this machine does not carry out, and what happens with them."""


def pages() -> dict[str, str]:
    """Return the text of each page by its name."""
    os.environ["NO_COLOR"] = "1"
    made = {"settings.md": settings(), "commands.md": commands(), "types.md": types()}
    return {
        name: re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).rstrip("\n") + "\n"
        for name, lines in made.items()
    }


def example_file() -> str:
    """Return the text of the example file of settings."""
    return re.sub(r"\n{3,}", "\n\n", "\n".join(example())).rstrip("\n") + "\n"


def main() -> int:
    """Write the pages into the first folder that the command line names, and the example into the second, if any."""
    docs, *examples = map(Path, sys.argv[1:])
    for name, text in pages().items():
        (docs / name).write_text(text, encoding="utf-8")
    for folder in examples:
        (folder / "agent.conf").write_text(example_file(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
