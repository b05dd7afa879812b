"""The rules of commands, options, exit codes and keys, derived from the parsers and the schemas."""

from __future__ import annotations

import argparse
import re
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import pytest

from heat_config_agent.cli import agent, schemas
from heat_config_agent.cli.apply import command as apply
from heat_config_agent.cli.completion import line as lines
from heat_config_agent.cli.completion import values
from heat_config_agent.model.errors import ExitCode, UsageError
from support import together


def leaves(
    parser: argparse.ArgumentParser, name: str = ""
) -> Iterator[tuple[str, argparse.ArgumentParser]]:
    """Yield every command with its name; some groups are commands too."""
    inner = lines.commands_of(parser)
    if inner is None or getattr(parser, "is_command", False):
        yield name or parser.prog, parser
    for word, each in (inner or {}).items():
        yield from leaves(each, f"{name} {word}".strip())


COMMANDS = dict([*leaves(agent.parser()), *leaves(apply.parser())])

WITHOUT_JSON = {
    "completion": "a shell reads it",
    "hosts ask": "it prints what the command prints that it carries out",
    "hosts session": "a program on another machine speaks with it",
    "help": "people read it; --schema prints JSON anyway",
    "stack abandon": "it prints what `stack adopt` reads, in the form of Heat's client",
    "template export": "it prints a template or a script",
    "template schema": "it prints a JSON Schema",
}
"""Command → why it has no answer in JSON."""

FREE = {
    "TIME": "a time may be any",
    "N": "a number",
    "TEXT": "any text",
    "JSON": "any value",
    "--capability": "any template may have any",
}
"""The name of a value → why nothing completes it."""

METAVARS = {
    *(
        "STACK",
        "NAME",
        "SOURCE",
        "SNAPSHOT",
        "RESOURCE",
        "TOOL",
        "FILE",
        "DIR",
        "TIME",
        "N",
    ),
    *(
        "OUTPUT",
        "NODE",
        "WORKFLOW",
        "POLICY.TRIGGER",
        "TYPE",
        "ACTION",
        "COMMAND",
        "KIND",
    ),
    *(
        "NAME=VALUE",
        "NAME=FILE",
        "NODE=FILE",
        "KEY=VALUE",
        "RESOURCE.NAME=VALUE",
        "TEXT",
        "JSON",
    ),
}
"""The names of values: one for each thing."""

ONE_THING = {"STACK", "SOURCE", "SNAPSHOT", "TOOL", "TYPE"}
"""The names of values that mean the same in every command."""

SHORT = {
    "-e": {"--environment"},
    "-f": {"--file", "--follow"},
    "-h": {"--help"},
    "-n": {"--nested-depth"},
    "-o": {"--output", "--output-file"},
    "-q": {"--quiet"},
    "-t": {"--template"},
    "-v": {"--verbose"},
    "-y": {"--yes"},
}
"""Short option → the long ones that it may stand for; `-f` is a file, and the events to come where no file is."""

ASKING = (
    "forget",
    "setup",
    "stack abandon",
    "stack delete",
    "stack snapshot delete",
    "stack snapshot restore",
    "stop",
)
"""The commands that ask before they do what cannot be undone."""

PREVIEWED = (
    "apply",
    "forget",
    "migrate",
    "prune",
    "retry",
    "setup",
    "source sync",
    "stack adopt",
    "stack create",
    "stack delete",
    "stack resume",
    "stack snapshot restore",
    "stack suspend",
    "stack update",
    "stop",
)
"""The commands that change something, and show before what they would change."""


def actions(parser: argparse.ArgumentParser) -> list[argparse.Action]:
    """Return the arguments and options of a command, without its subcommands."""
    return [
        action
        for action in parser._actions  # noqa: SLF001  # there is no other way to them
        if not isinstance(action, argparse._SubParsersAction)  # noqa: SLF001
    ]


def names(parser: argparse.ArgumentParser) -> set[str]:
    """Return the options of a command."""
    return {name for action in actions(parser) for name in action.option_strings}


@together.cases("command", COMMANDS)
def test_command_has_an_answer_with_a_schema(command: str) -> None:
    """Each command prints its answer as JSON, of a kind that has a schema, or a reason says why not."""
    parser = COMMANDS[command]
    if command in WITHOUT_JSON:
        assert "--json" not in names(parser)
        return
    assert "--json" in names(parser)
    kind = parser.get_default("kind") or (
        "apply" if command == "heat-config-apply" else None
    )
    assert kind in schemas.kinds()


def test_schema_belongs_to_a_command() -> None:
    """A schema that no command answers with is forgotten."""
    kinds = {parser.get_default("kind") for parser in COMMANDS.values()}
    assert set(schemas.kinds()) - kinds - {"envelope", "line", "event"} == set()


@together.cases("command", COMMANDS)
def test_options_are_long_and_whole(command: str) -> None:
    """Each option has a long name of small letters; a short one stands for the same everywhere."""
    for action in actions(COMMANDS[command]):
        long = {name for name in action.option_strings if name.startswith("--")}
        short = set(action.option_strings) - long
        assert long or not short, action
        assert all(re.fullmatch(r"--[a-z]+(-[a-z]+)*", name) for name in long), long
        for name in short:
            assert long & SHORT[name], (name, long)


@together.cases("command", COMMANDS)
def test_beginning_of_an_option_is_refused(command: str) -> None:
    """An option that is added later breaks no line that has worked."""
    with pytest.raises(UsageError, match="--no-col"):
        COMMANDS[command].parse_args(["--no-col"])


@together.cases("command", COMMANDS)
def test_times_and_numbers_are_checked(command: str) -> None:
    """A time has units, and no number is negative; runs are counted from the newest one, too."""
    for action in actions(COMMANDS[command]):
        if action.metavar not in ("TIME", "N") or "--run" in action.option_strings:
            continue
        assert callable(action.type), action
        assert action.metavar == "N" or action.type("1h30m") == 5400, action
        with pytest.raises((argparse.ArgumentTypeError, ValueError)):
            action.type("-1")


@together.cases("command", COMMANDS)
def test_values_have_the_names_of_the_glossary(command: str) -> None:
    """One thing has one name in every help, and a value that has none is one of some choices."""
    for action in actions(COMMANDS[command]):
        if action.nargs == 0 or lines.choices(action):
            continue
        assert lines.shown_name(action) in METAVARS, action


@together.cases("command", COMMANDS)
def test_values_are_completed(command: str) -> None:
    """Each value is completed: from choices, from the machine, as a file; or a reason says why not."""
    parser = COMMANDS[command]
    line = lines.Line(parser, lines.Tree(agent.COMMANDS, lambda *_names: parser))
    for action in actions(parser):
        if action.nargs == 0 or lines.choices(action):
            continue
        name = lines.shown_name(action)
        known = (
            values.values(line, action.option_strings, name)
            or values.files(line, action.option_strings, name)
            or FREE.get(name)
            or any(option in FREE for option in action.option_strings)
        )
        assert known, action


def test_argument_has_the_same_help_everywhere() -> None:
    """An argument of one name has one help, wherever it stands; a stack that does not exist yet is another thing."""
    texts: dict[str, set[str]] = defaultdict(set)
    for command, parser in COMMANDS.items():
        for action in actions(parser):
            name = str(action.metavar)
            if (
                name in ONE_THING
                and not action.option_strings
                and command not in values.NEW
            ):
                texts[name].add(str(action.help).partition("; default")[0])
    assert {name: found for name, found in texts.items() if len(found) > 1} == {}


@together.cases("command", COMMANDS)
def test_exit_codes_are_those_of_the_agent(command: str) -> None:
    """The help lists the exit codes, each once and in order; they are those that errors have."""
    epilog = COMMANDS[command].epilog or ""
    assert "exit codes:\n" in epilog
    listed = [
        int(code)
        for code in re.findall(
            r"^  (\d+) +\S", epilog.partition("exit codes:")[2], re.MULTILINE
        )
    ]
    assert set(listed) <= {int(code) for code in ExitCode}
    assert listed == sorted(set(listed))
    assert {0, 2} <= set(listed)


def exit_codes(command: str) -> set[int]:
    """Return the exit codes that the help of a command lists."""
    _, _, rows = (COMMANDS[command].epilog or "").partition("exit codes:\n")
    return {int(code) for code in re.findall(r"(?m)^  (\d+) +\S", rows)}


@together.cases("command", COMMANDS)
def test_only_command_that_waits_can_end_when_its_time_is_over(command: str) -> None:
    """A command has the exit code 7 if it has the option for the time."""
    is_waiting = "--wait-for" in names(COMMANDS[command])
    assert (ExitCode.TIMED_OUT in exit_codes(command)) is is_waiting


@together.cases("command", [each for each in COMMANDS if each.startswith("stack ")])
def test_command_that_shows_a_stack_does_no_work(command: str) -> None:
    """Its help has no lock, no reboot and no rollback; a command that works on a stack has all of them."""
    works = {ExitCode.LOCKED, ExitCode.REBOOT, ExitCode.TIMED_OUT}
    codes = exit_codes(command)
    if "--max-hosts" in names(COMMANDS[command]):
        assert works <= codes
    elif command not in ("stack abandon", "stack cancel"):
        assert not works & codes


@pytest.mark.parametrize("command", ASKING)
def test_command_that_asks_takes_yes(command: str) -> None:
    """A script answers the question with an option."""
    assert {"-y", "--yes"} <= names(COMMANDS[command])


@pytest.mark.parametrize("command", PREVIEWED)
def test_command_that_changes_something_has_a_preview(command: str) -> None:
    """The preview has one name everywhere, and the name that other programs give it."""
    assert {"--plan", "--dry-run"} <= names(COMMANDS[command])


@together.cases("command", COMMANDS)
def test_common_options_are_in_every_command(command: str) -> None:
    """Colour and progress can be turned off everywhere."""
    assert {"--no-color", "--quiet"} <= names(COMMANDS[command])


def objects(schema: Any, place: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield every schema of an object within a schema."""
    if isinstance(schema, list):
        for number, each in enumerate(schema):
            yield from objects(each, f"{place}[{number}]")
    elif isinstance(schema, dict):
        if isinstance(schema.get("type"), str | list) and isinstance(
            schema.get("properties"), dict
        ):
            yield place, schema
        for key, each in schema.items():
            yield from objects(each, f"{place}.{key}")


OBJECTS = dict(
    found
    for name in sorted(path.stem for path in schemas.folder().glob("*.json"))
    for found in objects(schemas.source(name), name)
)

TIMES = re.compile(
    r"at|since|until|started|ended|accepted|answered|said|not_before|next_poll|\w+_at|\w+_time"
)
"""The names of keys that are times."""


def shared(value: dict[str, Any]) -> str:
    """Return the name of the definition that a value refers to; empty if it refers to none."""
    return str(value.get("$ref", "")).rpartition("/")[2]


@together.cases("place", OBJECTS)
def test_keys_are_in_snake_case_and_always_there(place: str) -> None:
    """A key that may be missing, or has a name of its own, has a `$comment` that says why."""
    schema = OBJECTS[place]
    if "$comment" in schema:
        return
    assert [
        key
        for key in schema["properties"]
        if not re.fullmatch(r"[a-z][a-z0-9]*(_[a-z0-9]+)*", key)
    ] == []
    assert sorted(schema.get("required", [])) == sorted(schema["properties"])


@together.cases("place", OBJECTS)
def test_times_and_numbers_have_their_types(place: str) -> None:
    """A time is a text of one form, a duration a number of seconds, a state one of ten words."""
    wrong = []
    for key, value in OBJECTS[place]["properties"].items():
        name, kinds = shared(value), value.get("type", [])
        is_part = set(value.get("enum", [""])) <= set(schemas.shared()["state"]["enum"])
        kinds = [kinds] if isinstance(kinds, str) else kinds
        if TIMES.fullmatch(key) and name not in ("time", "maybe_time", "heat_time"):
            wrong.append((key, "a time"))
        if key.endswith("_seconds") is not (name in ("seconds", "maybe_seconds")):
            wrong.append((key, "seconds"))
        if key.endswith("_bytes") and not (name == "count" or "integer" in kinds):
            wrong.append((key, "bytes"))
        if "number" in kinds:
            wrong.append((key, "a number without a unit"))
        if key == "state" and name not in ("state", "maybe_state") and not is_part:
            wrong.append((key, "a state"))
        if "null" in kinds and "array" in kinds:
            wrong.append((key, "a list is never null"))
    assert wrong == []
