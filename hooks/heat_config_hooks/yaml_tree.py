"""YAML as a tree: its JSON value, and the position and the written form of every part of it.

All YAML from elsewhere is composed here. Of YAML only what JSON can say is used: keys of maps become text, a date stays
text, and no tag makes anything else. A text that would take too much memory or stack is refused before it does.

No message repeats a part of the text, except for keys and well-known tags: a password that no one has quoted may be
taken for something else.
"""

from __future__ import annotations

import json
import math
import re
from typing import Any

import yaml

from heat_config_hooks import strict_json
from heat_config_hooks.values import dataclass
from heat_config_hooks.yaml_schema import CORE, YAML_1_1, Schema

LARGEST = 1_000_000
"""Values in a document at most, with all that its aliases stand for: a few lines can stand for any number."""

LONGEST_NUMBER = 1000
"""Digits of a number at most."""

_KNOWN_TAGS = re.compile(
    r"!!(binary|bool|float|int|map|merge|null|omap|pairs|seq|set|str|timestamp|value)"
    r"|!(include|secret|vault|vault-encrypted|unsafe)"
    r"|!(And|Base64|Cidr|Equals|FindInMap|GetAtt|GetAZs|If|ImportValue|Join|Not|Or|Ref|Select|Split|Sub|Transform)"
)
"""The tags of YAML, of Ansible and other programs, and of CloudFormation's short forms."""

MOST_FAULTS = 100
"""Faults that are kept of one document."""

Path = tuple[str | int, ...]

_STR, _SEQ, _MAP, _MERGE, _VALUE = (
    CORE + name for name in ("str", "seq", "map", "merge", "value")
)
_PAIRS = {CORE + "omap", CORE + "pairs"}
_NUMBERS = {CORE + "int", CORE + "float"}

_COMPOSED = 4000
"""The number of levels that libyaml surely composes; before version 0.2.6 it recurses without a limit."""

_LIMITED = getattr(getattr(yaml, "_yaml", None), "get_version", lambda: (0,))() >= (
    0,
    2,
    6,
)
"""True if libyaml itself refuses deeper nesting."""


# Faults.


@dataclass(frozen=True)
class Fault:
    """A fault in a document, with its position; lines and columns count from 1."""

    problem: str
    line: int
    column: int
    path: Path = ()
    hint: str = ""
    kind: str = "value"
    """`syntax`, `depth`, `size` or `value`. After a fault of the last kind the rest of the document is still read."""


@dataclass(frozen=True)
class Repetition:
    """A key that is in a map a second time."""

    key: str
    path: Path
    line: int
    column: int
    first_line: int


class Unreadable(ValueError):  # noqa: N818  # it is the document that is
    """A document has a fault after which it cannot be read any further."""

    def __init__(self, fault: Fault) -> None:
        """Take the fault."""
        hint = f" ({fault.hint})" if fault.hint else ""
        super().__init__(
            f"line {fault.line}, column {fault.column}: {fault.problem}{hint}"
        )
        self.fault = fault


# The document.


class Tree:
    """A document as it was read."""

    def __init__(
        self,
        text: str,
        schema: Schema,
        *,
        largest: int = LARGEST,
        foreign: str = "has no counterpart in JSON",
    ) -> None:
        """Read it. `foreign` says what is wrong with tags that are not YAML's own. Raises `Unreadable`."""
        self._schema, self._foreign, self._largest = schema, foreign, largest
        self._left = largest
        self._path: list[str | int] = []
        self._entries: dict[int, dict[str, tuple[Any, Any]]] = {}
        self._faults: dict[tuple[int, int, str], Fault] = {}
        self._repetitions: dict[tuple[int, int], Repetition] = {}
        self._root = self._composed(text)
        self.value: Any = None if self._root is None else self._value(self._root)

    @property
    def faults(self) -> list[Fault]:
        """The faults with which it could be read nevertheless; the values with faults are None."""
        return list(self._faults.values())

    @property
    def repetitions(self) -> list[Repetition]:
        """The keys that are in a map twice, `<<` among them. The last one counts; merge keys do all."""
        return list(self._repetitions.values())

    def position(self, path: Path) -> tuple[int, int] | None:
        """Return line and column of a part, or else of what it is a part of. Those of an entry of a map are its key's.

        An empty document has none.
        """
        node = mark = self._root
        for step in path:
            if isinstance(node, yaml.MappingNode):
                entry = self._entries_of(node).get(str(step))
                if entry is None:
                    break
                mark, node = entry
            elif (
                isinstance(node, yaml.SequenceNode)
                and isinstance(step, int)
                and step < len(node.value)
            ):
                mark = node = node.value[step]
            else:
                break
        return (
            None
            if mark is None
            else (mark.start_mark.line + 1, mark.start_mark.column + 1)
        )

    def written(self, path: Path) -> str | None:
        """Return the text of a scalar as it is written, without quotes: `14.10` of the number 14.1.

        None where there is no scalar.
        """
        node = self._root
        for step in path:
            if isinstance(node, yaml.MappingNode):
                node = self._entries_of(node).get(str(step), (None, None))[1]
            elif (
                isinstance(node, yaml.SequenceNode)
                and isinstance(step, int)
                and step < len(node.value)
            ):
                node = node.value[step]
            else:
                return None
        return str(node.value) if isinstance(node, yaml.ScalarNode) else None

    def _composed(self, text: str) -> Any:
        """Return the node of the whole document."""
        try:
            is_deep = not _LIMITED and _depth(text) > _COMPOSED
            if is_deep or (len(text) > self._largest and _number(text) > self._largest):
                self._check_events(text)
            return yaml.compose(text, Loader=self._schema.loader)
        except yaml.MarkedYAMLError as error:
            if "maximum nesting" in str(error.problem):
                # libyaml has a limit of its own since version 0.2.6
                raise _unreadable(
                    "it is nested too deeply", error.problem_mark, (), "", "depth"
                ) from None
            problem = ", ".join(filter(None, (error.context, error.problem)))
            problem = re.sub(r"(alias|anchor|handle) '[^']*'", r"\1", problem)
            mark = error.problem_mark or error.context_mark
            hint = (
                _hint(text, mark)
                if "cannot start any token" in problem or "tab" in problem
                else ""
            )
            hint = (
                "a file has one document: remove the line `---`"
                if "single document" in problem
                else hint
            )
            raise _unreadable(problem, mark, (), hint, "syntax") from None
        except yaml.YAMLError as error:
            raise _unreadable(
                str(error).splitlines()[0], _foreign_character(text), (), "", "syntax"
            ) from None
        except UnicodeEncodeError:  # half a character, which JSON can write
            problem = "a character is not Unicode text"
            raise _unreadable(
                problem, _foreign_character(text), (), "", "syntax"
            ) from None
        except RecursionError:
            raise _unreadable(
                "it is nested too deeply", None, (), "", "depth"
            ) from None

    def _check_events(self, text: str) -> None:
        """Refuse what is nested too deeply: an older libyaml composes without a limit, and never comes back.

        What has too many values is refused before memory is taken for them.
        """
        depth = 0
        for number, event in enumerate(yaml.parse(text, Loader=self._schema.loader)):
            if number > 2 * self._largest:  # a list in lists has a beginning and an end
                raise _unreadable(
                    f"it has over {self._largest:,} values",
                    event.start_mark,
                    (),
                    "",
                    "size",
                )
            depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(
                event, yaml.CollectionEndEvent
            )
            if depth > strict_json.DEPTH:
                raise _unreadable(
                    "it is nested too deeply", event.start_mark, (), "", "depth"
                )

    def _value(self, node: Any) -> Any:
        self._left -= 1
        if self._left < 0:
            problem = f"with all its aliases it has over {self._largest:,} values"
            raise _unreadable(problem, node.start_mark, tuple(self._path), "", "size")
        tag = node.tag
        if type(node) is yaml.ScalarNode:
            return node.value if tag == _STR else self._scalar(node)
        path = self._path
        if len(path) >= strict_json.DEPTH:
            problem = "it is nested too deeply, or in itself"
            raise _unreadable(problem, node.start_mark, tuple(path[:3]), "", "depth")
        if type(node) is yaml.MappingNode:
            if tag == _MAP:
                return self._map(node)
        elif tag == _SEQ:
            values = []
            for index, item in enumerate(node.value):
                path.append(index)
                values.append(self._value(item))
                path.pop()
            return values
        elif tag in _PAIRS and self._schema is YAML_1_1:
            return self._pairs(node)
        return self._fault(node, f"{_named(tag)} {self._foreign}", "leave it out")

    def _map(self, node: Any) -> dict[str, Any]:
        for key, _ in node.value:
            if key.tag == _MERGE:
                entries = [
                    (name, value) for name, (_, value) in self._entries_of(node).items()
                ]
                break
        else:
            entries = [(self._key(key), value) for key, value in node.value]
        values: dict[str, Any] = {}
        path = self._path
        for name, value in entries:
            if value.tag == _STR and type(value) is yaml.ScalarNode and self._left > 0:
                self._left -= 1
                values[name] = value.value
            else:
                path.append(name)
                values[name] = self._value(value)
                path.pop()
        if len(values) < len(entries):
            self._entries_of(node)  # finds the repetitions
        return values

    def _pairs(self, node: Any) -> Any:
        """Return `!!omap` or `!!pairs`, a list of maps with one key, as a list of lists with key and value."""
        pairs = [
            item.value[0]
            for item in node.value
            if type(item) is yaml.MappingNode and len(item.value) == 1
        ]
        if len(pairs) < len(node.value):
            return self._fault(
                node,
                "the value is not what its type says",
                "write a list of maps with one key",
            )
        return [[self._value(key), self._value(value)] for key, value in pairs]

    def _entries_of(self, node: Any, depth: int = 0) -> dict[str, tuple[Any, Any]]:
        """Return name → the nodes of its key and its value, with those of merged maps, over which own keys win.

        Of the maps of one merge key the first wins; of several merge keys the last.
        """
        known = self._entries.get(id(node))
        if known is not None:
            return known
        if depth > strict_json.DEPTH:
            raise _unreadable(
                "it is nested too deeply, or in itself",
                node.start_mark,
                tuple(self._path),
                "",
                "depth",
            )
        merged: dict[str, tuple[Any, Any]] = {}
        own: dict[str, tuple[Any, Any]] = {}
        first: dict[str, Any] = {}
        for key, value in node.value:
            if key.tag == _MERGE:
                name = "<<"
                merged = {**merged, **self._merged(value, depth)}
            else:
                name = self._key(key)
                own[name] = (key, value)
            if name in first:
                self._repeat(name, key.start_mark, first[name])
            first.setdefault(name, key.start_mark)
        self._entries[id(node)] = entries = {**merged, **own}
        return entries

    def _repeat(self, name: str, mark: Any, first: Any) -> None:
        repetition = Repetition(
            name, (*self._path, name), mark.line + 1, mark.column + 1, first.line + 1
        )
        self._repetitions.setdefault((mark.line, mark.column), repetition)

    def _merged(self, node: Any, depth: int) -> dict[str, tuple[Any, Any]]:
        merged: dict[str, tuple[Any, Any]] = {}
        for item in node.value if type(node) is yaml.SequenceNode else [node]:
            if type(item) is not yaml.MappingNode:
                self._fault(item, "only maps can be merged by <<")
                continue
            entries = self._entries_of(item, depth + 1)
            self._left -= len(entries)  # they multiply as aliases do
            if self._left < 0:
                problem = f"with all its aliases it has over {self._largest:,} values"
                raise _unreadable(
                    problem, item.start_mark, tuple(self._path), "", "size"
                )
            merged = {**entries, **merged}
        return merged

    def _key(self, node: Any) -> str:
        if type(node) is not yaml.ScalarNode:
            self._fault(node, "a key must be text")
            return ""
        if node.tag == _STR or node.tag == _VALUE:  # noqa: PLR1714  # one comparison for most keys
            return node.value  # type: ignore[no-any-return]
        key = self._scalar(node)
        return key if isinstance(key, str) else json.dumps(key)

    def _scalar(self, node: Any) -> Any:
        make = self._schema.values.get(node.tag)
        if make is None:
            return self._fault(
                node, f"{_named(node.tag)} {self._foreign}", "leave it out"
            )
        if node.tag in _NUMBERS and len(node.value.lstrip("+-")) > LONGEST_NUMBER:
            return self._fault(
                node,
                f"a number of over {LONGEST_NUMBER} digits is not a JSON value",
                "quote it",
            )
        try:
            value = make(node.value)
        except (ValueError, TypeError, LookupError, OverflowError):
            return self._fault(node, "the value is not what its type says", "quote it")
        if isinstance(value, float) and not math.isfinite(value):
            return self._fault(
                node, f"{node.value} is not a number in JSON", "quote it"
            )
        return value

    def _fault(self, node: Any, problem: str, hint: str = "") -> None:
        mark = node.start_mark
        if len(self._faults) < MOST_FAULTS:
            fault = Fault(
                problem, mark.line + 1, mark.column + 1, tuple(self._path), hint
            )
            self._faults.setdefault((mark.line, mark.column, problem), fault)


def _hint(text: str, mark: Any) -> str:
    """Return what to do about a character that no value of YAML begins with."""
    lines = text.splitlines()
    if mark.line < len(lines) and "\t" in lines[mark.line][: mark.column + 1]:
        return "indent with spaces: YAML allows no tabs there"
    return "quote text that begins with % @ ` or a bracket"


def _foreign_character(text: str) -> Any:
    """Return the mark of the first character that no text in YAML may have; None if there is none."""
    found = yaml.reader.Reader.NON_PRINTABLE.search(text)
    if found is None:
        return None
    before = text[: found.start()]
    line_start = before.rfind("\n") + 1
    return yaml.Mark(
        "", found.start(), before.count("\n"), found.start() - line_start, None, 0
    )


def _unreadable(
    problem: str, mark: Any, path: Path, hint: str, kind: str
) -> Unreadable:
    line, column = (mark.line + 1, mark.column + 1) if mark else (1, 1)
    return Unreadable(Fault(problem, line, column, path, hint, kind))


_SEPARATORS = ("\n", ",", ":", "-", "?", "[", "{")


def _number(text: str) -> int:
    """Return a number of values that a text does not exceed without its aliases: a separator is between any two."""
    return 1 + sum(map(text.count, _SEPARATORS))


def _depth(text: str) -> int:
    """Return a number of levels that a text does not exceed: each takes a bracket, or a column of its line."""
    lines = text.splitlines()
    columns = max(map(len, lines), default=0)
    brackets = text.count("[") + text.count("{")
    if columns + brackets <= _COMPOSED:
        return columns + brackets
    open_ones = deepest = 0
    for line in lines:
        if "[" in line or "{" in line:
            inner = _closed(line)
            if inner:
                deepest = max(deepest, inner)
            else:
                open_ones += line.count("[") + line.count("{")
    return columns + open_ones + deepest


_UNCLEAR = re.compile("[\"'#!]")
_FLAT = re.compile(r"[^\[\]{}]*[\[{][^\[\]{}]*[\]}][^\[\]{}]*")
"""A line with one pair of brackets."""


def _closed(line: str) -> int:
    """Return how deep the brackets of a line are in one another if each is surely closed in it, else 0.

    In quotes, a comment or a tag, a bracket has no meaning, so lines that may have such count as not closed.
    """
    if _UNCLEAR.search(line):
        return 0
    if _FLAT.fullmatch(line):
        return 1
    now = deepest = 0
    for character in re.findall(r"[\[\]{}]", line):
        now += 1 if character in "[{" else -1
        deepest = max(deepest, now)
        if now < 0:
            return 0
    return 0 if now else deepest


def _named(tag: str) -> str:
    """Return what a message calls a tag: only well-known ones by name, because `!` may begin an unquoted password."""
    written = f"!!{tag.removeprefix(CORE)}" if tag.startswith(CORE) else tag
    return f"the tag {written}" if _KNOWN_TAGS.fullmatch(written) else "the tag"
