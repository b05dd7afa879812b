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
from collections.abc import Iterable, Iterator
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
Every setting, its default, and what it does; some names lead to the page that shows the setting at work.
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
Sections of commands leave out what many commands share: it comes first.
`--help` of a command and the manual pages have everything together.
"""


_GUIDES = {
    "parallel": "deployments.md#order",
    "replaced": "deployments.md#order",
    "reboot_command": "deployments.md#reboots",
    "hooks_dir": "write-a-hook.md",
    "plugin_dirs": "stack.md",
    "user": "tools.md#run-as-another-user",
    "isolate": "tools.md#isolate-a-run",
    "secrets_dir": "secrets.md",
    "provider_dirs": "secrets.md",
    "keep_for": "files.md#how-long-things-are-kept",
    "keep_size": "files.md#how-long-things-are-kept",
    "output_limit": "files.md#how-long-things-are-kept",
    "scopes": "operate.md",
    "verify_interval": "operate.md",
    "metrics_file": "operate.md",
    "report_url": "operate.md",
    "trace_url": "operate.md",
    "ca_file": "configure.md#certificates-and-hosts-to-open",
    "collectors": "configure.md#how-heat-is-reached",
    "polling_interval": "configure.md#polling",
}
"""Setting of [agent] → the page that shows it at work."""


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


def _wrapped(text: str) -> Iterator[str]:
    """Yield the lines of one sentence, and an empty line after it; the name of a link stays in one line."""
    whole = re.sub(r"\[.*?\]", lambda link: link[0].replace(" ", "\0"), text)
    for line in textwrap.wrap(
        whole, 120, break_long_words=False, break_on_hyphens=False
    ):
        yield line.replace("\0", " ")
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
    guide = _GUIDES.get(each.name) if each.section == "agent" else None
    return (
        f"[`{each.name}`]({guide})" if guide else f"`{each.name}`",
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


GROUPS = {
    "Common options": (
        "Every command has them, apart from those that its section names.",
        ("--state-dir", "--config", "--json", "--no-color", "--quiet"),
    ),
    "Template options": (
        "They say what a stack is made of.",
        (
            "--template",
            "--environment",
            "--parameter",
            "--parameter-file",
            "--attribute",
            "--inputs",
            "--substitute",
        ),
    ),
    "Plan options": (
        "They show the work before it begins.",
        ("--plan", "--all", "--diff"),
    ),
    "Work options": (
        "They say where and how long the work goes on.",
        ("--wait", "--wait-for", "--server", "--hosts", "--max-hosts"),
    ),
}
"""The headings below which shared options are explained, with a sentence and the options; others come last."""

OTHERS = "Other options of many commands"

ALIASES = {
    "heat-config-agent apply": "heat-config-apply",
    "heat-config-agent plan": "heat-config-apply --plan",
}
"""The commands that are another program, and their command lines."""

ALWAYS = ("0", "2", "130")
"""The exit codes that every command can have."""

MANY = 3
"""Options, arguments and meanings of exit codes that this many commands have are explained once."""

ORDINARY = {"0": "[,:;]", "2": "[:;]", "4": "[,:;]", "8": "[,:;]"}
"""The exit codes whose meaning in a command is the general one, unless its words have such a sign of a condition."""


def commands() -> Iterator[str]:
    """Yield the lines of the page of commands."""
    yield from ("# Commands", "", WRITTEN, *_COMMANDS.splitlines(), "")
    page = _Page(agent.parser(), apply.parser())
    yield from page.shared()
    yield from page.command(page.apply, "##")
    yield from page.command(page.program, "##")
    for command in page.every.values():
        if not page.is_told_elsewhere(command):
            yield from page.command(command, "###")
    yield from ("## `heat-config-hook`", "")
    usage, _, text = standalone.usage().partition("\n")
    yield from ("```text", usage.removeprefix("usage: "), "```", "")
    yield from _blocks(text)


class _Page:
    """The sections of the page of commands: each says what its command does not share with others."""

    def __init__(
        self, program: argparse.ArgumentParser, apply_: argparse.ArgumentParser
    ) -> None:
        """Find what commands share: options, arguments, exit codes, and everything."""
        self.program, self.apply = program, apply_
        self.every = {each.prog: each for each in manual.every(program).values()}
        self.options = shared_options(program)
        self.arguments = _shared_arguments(program)
        self.codes = _shared_codes(program)
        self.general = dict(_codes(program))
        self.twins: dict[str, str] = {}
        """Command → the command that does the same, and that has the section."""
        first: dict[tuple[object, ...], str] = {}
        for name, command in self.every.items():
            if name in ALIASES:
                self._check_alias(command)
                continue
            group = name.rpartition(" ")[0]
            if group in self.every and _same(self.every[group], command):
                self.twins[name] = group
                continue
            twin = first.setdefault((self._purpose(name), *_content(command)), name)
            if twin != name:
                self.twins[name] = twin

    def _check_alias(self, command: argparse.ArgumentParser) -> None:
        own, other = _content(command), _content(self.apply)
        if not set(own) <= set(other):
            raise AssertionError(f"{command.prog} is not {ALIASES[command.prog]}")

    def _purpose(self, name: str) -> str:
        group, _, last = name.rpartition(" ")
        return _brief(self.every.get(group, self.program), last)

    def is_told_elsewhere(self, command: argparse.ArgumentParser) -> bool:
        """Return whether a command has no section: another one does the same, or it only leads to its commands."""
        return command.prog in self.twins or self.is_passage(command)

    def is_passage(self, command: argparse.ArgumentParser) -> bool:
        """Return whether a group inside of a group has only commands: they are in the table of the outer one."""
        return (
            command.prog.count(" ") > 1
            and bool(manual.commands(command))
            and not manual.arguments(command)
            and not command.epilog
        )

    def shared(self) -> Iterator[str]:
        """Yield the sections with what many commands share."""
        yield from ("## Exit codes", "", *_CODES.splitlines(), "")
        codes = ((f"`{code}`", text) for code, text in self.general.items())
        yield from table(("exit code", "meaning"), codes)
        left = dict(self.options)
        for title, (about, names) in GROUPS.items():
            rows = [
                self._row(left.pop(each))
                for name in names
                for each in list(left)
                if name in each
            ]
            yield from (f"## {title}", "", about, "")
            yield from table(("option", "meaning"), rows)
        yield from (f"## {OTHERS}", "")
        yield from table(("option", "meaning"), map(self._row, left.values()))
        yield from ("## Arguments of many commands", "")
        yield from table(("argument", "meaning"), map(self._row, self.arguments))

    def _row(self, action: argparse.Action) -> tuple[str, str]:
        return _named(action), _help(self.program, action)

    def command(self, parser: argparse.ArgumentParser, heading: str) -> Iterator[str]:
        """Yield the section of a command."""
        usage = ("```text", _synopsis(parser), "```", "")
        yield from (f"{heading} `{parser.prog}`", "")
        if parser.prog in ALIASES:
            line = ALIASES[parser.prog]
            yield from (f"The same as [`{line}`](#{_anchor(line.split()[0])}).", "")
            return
        yield from usage
        yield from _blocks(parser.description or "")
        if also := [name for name, twin in self.twins.items() if twin == parser.prog]:
            yield from (f"`{'`, `'.join(also)}` does the same.", "")
        yield from table(("command", "purpose"), self._commands(parser))
        yield from self._words(parser)
        notes, codes = parted(parser)
        yield from _blocks(notes)
        if parser is not self.program:
            yield from self._codes(codes)

    def _commands(
        self, parser: argparse.ArgumentParser, before: str = ""
    ) -> Iterator[tuple[str, str]]:
        """Yield a row for each command of a group, and for each command of the groups that it only leads to."""
        for name, inner in manual.commands(parser).items():
            if self.is_passage(inner):
                yield from self._commands(inner, f"{before}{name} ")
            elif name:
                anchor = _anchor(self.twins.get(inner.prog, inner.prog))
                purpose = _brief(parser, name) or str(inner.description)
                yield f"[`{before}{name}`](#{anchor})", purpose

    def _words(self, parser: argparse.ArgumentParser) -> Iterator[str]:
        """Yield a row for each argument and option that a command does not share, and a sentence for the others."""
        shared = {manual.explained(each) for each in self.options.values()}
        known = [_argument(each) for each in self.arguments]
        actions = manual.arguments(parser)
        options = [each for each in actions if each.option_strings]
        own = [each for each in options if manual.explained(each) not in shared]
        arguments = [
            each
            for each in actions
            if not each.option_strings and _argument(each) not in known
        ]
        words = [
            name for name, some in (("argument", arguments), ("option", own)) if some
        ]
        rows = ((_named(each), _help(parser, each)) for each in [*arguments, *own])
        yield from table((" or ".join(words), "meaning"), rows)
        if parser is self.program or not options:
            return
        also, lacking = self._sets(
            {*map(_long, options)} - {*map(_long, own)}, {*map(_long, options)}
        )
        if also:
            title = "Other options" if own else "Options"
            yield from _wrapped(f"{title}: {', '.join(also)}.")
        if lacking:
            yield from _wrapped(f"Without the common options {', '.join(lacking)}.")

    def _sets(self, has: set[str], all_: set[str]) -> tuple[list[str], list[str]]:
        """Return the sets of options that a command shares, with single ones, and the common ones that it lacks."""
        also, lacking = list[str](), list[str]()
        for title, (_, names) in GROUPS.items():
            wanted = [_long(each) for each in self.options.values()]
            wanted = [each for each in names if each in wanted]
            missing = [each for each in wanted if each not in has]
            if title == "Common options":
                lacking = [f"`{each}`" for each in wanted if each not in all_]
                has -= set(wanted)
            elif len(missing) < min(3, len(wanted) - 1):
                has -= set(wanted)
                without = " and ".join(f"`{each}`" for each in missing)
                link = f"[{title.lower()}](#{_anchor(title.lower())})"
                also.append(f"{link} without {without}" if missing else link)
        singles = [_long(each) for each in self.options.values() if _long(each) in has]
        return also + [f"`{each}`" for each in singles], lacking

    def _codes(self, codes: Iterable[tuple[str, str]]) -> Iterator[str]:
        """Yield the exit codes of a command: those of its own meaning in a table, and the numbers of the others."""
        rows, others = [], []
        for code, text in codes:
            text_ = text.removesuffix(": nothing was begun")
            is_plain = code in ORDINARY and not re.search(ORDINARY[code], text_)
            if is_plain or (code, text) in self.codes or self.general[code] == text:
                others.append(code)
            else:
                rows.append((f"`{code}`", text))
        yield from table(("exit code", "meaning"), rows)
        if more := [f"`{each}`" for each in others if each not in ALWAYS]:
            yield from (
                f"{'Other exit codes' if rows else 'Exit codes'}: {', '.join(more)}.",
                "",
            )


_CODES = """\
Every command can end with `0` or `2`, and with `130` if it is interrupted.
A section names the other exit codes of its command, and explains those that mean something special there.
`--help` of a command explains all of its exit codes.
They are [stable](stability.md).
"""


def _long(action: argparse.Action) -> str:
    """Return the first long name of an option."""
    return next(each for each in action.option_strings if each.startswith("--"))


def _anchor(heading: str) -> str:
    return heading.replace(" ", "-")


def _argument(action: argparse.Action) -> tuple[tuple[str, ...], str]:
    """Return what makes an argument the same as that of another command: its name, and its help."""
    return (_metavar(action),), str(action.help)


def parted(parser: argparse.ArgumentParser) -> tuple[str, list[tuple[str, str]]]:
    """Return the notes of a command, and its exit codes with their meanings."""
    before, _, rest = (parser.epilog or "").partition("exit codes:\n")
    block, _, after = rest.partition("\n\n")
    notes = "\n\n".join(each for each in (before, after) if each.strip())
    return notes, manual.table(block.splitlines())


def _codes(parser: argparse.ArgumentParser) -> list[tuple[str, str]]:
    return parted(parser)[1]


def _shared_codes(program: argparse.ArgumentParser) -> set[tuple[str, str]]:
    """Return the exit codes that mean the same in many commands."""
    counts = Counter(
        row for command in manual.every(program).values() for row in _codes(command)
    )
    return {row for row, count in counts.items() if count >= MANY}


def _shared_arguments(program: argparse.ArgumentParser) -> list[argparse.Action]:
    """Return the arguments that many commands have with the same meaning."""
    found = [
        action
        for command in manual.every(program).values()
        for action in manual.arguments(command)
        if not action.option_strings
    ]
    counts = Counter(map(_argument, found))
    first = {_argument(each): each for each in reversed(found)}
    return [first[key] for key, count in counts.items() if count >= MANY]


def _same(group: argparse.ArgumentParser, command: argparse.ArgumentParser) -> bool:
    """Return whether a group does by itself what one of its commands does."""
    of_group, of_command = (
        (
            each.description,
            each.epilog,
            [*map(manual.explained, manual.arguments(each))],
        )
        for each in (group, command)
    )
    return bool(of_command[2]) and of_group == of_command


def _content(parser: argparse.ArgumentParser) -> tuple[object, ...]:
    """Return what a command says of itself, apart from its name."""
    texts = (parser.description or "", parser.epilog or "")
    return (
        *(text.replace(parser.prog, "") for text in texts),
        *manual.commands(parser),
        *((*manual.explained(each), each.dest) for each in manual.arguments(parser)),
    )


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
        if count >= MANY:
            shared.setdefault(meaning[0], first[meaning])
    return shared


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
