"""Text → its JSON value, and where each part of it stands.

Heat takes YAML 1.1 and JSON, and what it makes of them travels as JSON: keys of maps are text, and so are dates. Of
YAML only what JSON can say is taken.
"""

from __future__ import annotations

import json
import math
from typing import Any

import yaml

from heat_config_agent.stack.definition import Invalid, Json, Mistake, Path, Place
from heat_config_hooks import strict_json

LARGEST = 1_000_000
"""Values in a text at most, with all that its aliases stand for, unless the text itself is longer than that."""

_CORE = "tag:yaml.org,2002:"
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class Text:
    """One text as it was read."""

    def __init__(self, file: str, text: str, kind: str) -> None:
        """Read it. `kind` is the stage of its mistakes. Raises `Invalid`."""
        self.file = file
        self.warnings: list[Mistake] = []
        self._kind = kind
        self._entries: dict[int, dict[str, tuple[Any, Any]]] = {}
        self._left = max(LARGEST, len(text))
        self._root: Any = None
        as_json = _json(text)
        try:
            self._root = self._composed(text)
            self.value: Json = self._value(self._root, ()) if self._root is not None else None
        except Invalid:
            if as_json is None:
                raise
        if as_json is not None:  # some JSON is no YAML, or reads otherwise
            self.value = as_json

    def place(self, path: Path) -> Place | None:
        """Return where that part stands, or else what it is a part of. Of an entry of a map that is its key."""
        node = mark = self._root
        for each in path:
            if isinstance(node, yaml.MappingNode):
                entry = self._entries.get(id(node), {}).get(str(each))
                if entry is None:
                    break
                mark, node = entry
            elif isinstance(node, yaml.SequenceNode) and isinstance(each, int) and each < len(node.value):
                mark = node = node.value[each]
            else:
                break
        return None if mark is None else self._at(mark.start_mark)

    def _at(self, mark: Any) -> Place:
        return Place(self.file, mark.line + 1, mark.column + 1)

    def _refuse(self, problem: str, mark: Any, path: Path = (), hint: str = "") -> Invalid:
        return Invalid([Mistake(problem, path, self._at(mark) if mark else Place(self.file, 1, 1), hint, self._kind)])

    def _composed(self, text: str) -> Any:
        """Return the node of the whole document."""
        try:
            if _deepest(text) > _COMPOSED:
                self._check_depth(text)
            return yaml.compose(text, Loader=_LOADER)
        except yaml.MarkedYAMLError as error:
            problem = ", ".join(filter(None, (error.context, error.problem)))
            hint = "quote text that begins with % @ ` or a bracket" if "cannot start any token" in problem else ""
            raise self._refuse(
                f"it is no YAML: {problem}", error.problem_mark or error.context_mark, (), hint
            ) from None
        except yaml.YAMLError as error:
            raise self._refuse(f"it is no YAML: {str(error).splitlines()[0]}", None) from None

    def _check_depth(self, text: str) -> None:
        """Refuse what is nested too deeply: libyaml composes without a limit, and never comes back."""
        depth = 0
        for event in yaml.parse(text, Loader=_LOADER):
            depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
            if depth > strict_json.DEPTH:
                raise self._refuse("it is nested too deeply", event.start_mark)

    def _value(self, node: Any, path: Path) -> Json:
        self._left -= 1
        if self._left < 0:
            raise self._refuse(f"with all its aliases it has over {LARGEST:,} values", node.start_mark, path)
        if len(path) > strict_json.DEPTH:
            raise self._refuse("it is nested too deeply, or in itself", node.start_mark, path[:3])
        if isinstance(node, yaml.ScalarNode):
            return self._scalar(node, path)
        if isinstance(node, yaml.SequenceNode) and node.tag == _CORE + "seq":
            return [self._value(each, (*path, index)) for index, each in enumerate(node.value)]
        if isinstance(node, yaml.MappingNode) and node.tag == _CORE + "map":
            return {key: self._value(value, (*path, key)) for key, (_, value) in self._map(node, path).items()}
        raise self._refuse(f"the tag {_tag(node)} means nothing to Heat", node.start_mark, path, "leave it out")

    def _scalar(self, node: Any, path: Path) -> Json:
        kind = node.tag.removeprefix(_CORE)
        if kind in {"str", "timestamp"}:  # a date stays text
            return str(node.value)
        if kind not in {"null", "bool", "int", "float", "value"}:
            raise self._refuse(f"the tag {_tag(node)} means nothing to Heat", node.start_mark, path, "leave it out")
        try:
            value = _CONSTRUCTOR.construct_object(node)
            json.dumps(value)  # also: a number too long to write
        except (ValueError, TypeError, KeyError, LookupError, yaml.YAMLError):
            raise self._refuse(f"{node.value!r} is not what its type says", node.start_mark, path, "quote it") from None
        if isinstance(value, float) and not math.isfinite(value):
            raise self._refuse(f"{node.value} is no number in JSON", node.start_mark, path, "quote it") from None
        return value

    def _map(self, node: Any, path: Path, depth: int = 0) -> dict[str, tuple[Any, Any]]:
        """Return key → its node and its value's: with merged maps, of which the map's own keys hide those of a name."""
        known = self._entries.get(id(node))
        if known is not None:
            return known
        if depth > strict_json.DEPTH:
            raise self._refuse("it is merged into itself", node.start_mark, path)
        merged: dict[str, tuple[Any, Any]] = {}
        own: dict[str, tuple[Any, Any]] = {}
        for key, value in node.value:
            if key.tag == _CORE + "merge":
                for each in value.value if isinstance(value, yaml.SequenceNode) else [value]:
                    if not isinstance(each, yaml.MappingNode):
                        raise self._refuse("only maps can be merged by <<", each.start_mark, path)
                    merged = {**self._map(each, path, depth + 1), **merged}
                continue
            name = self._key(key, path)
            if name in own:
                first = self._at(own[name][0].start_mark)
                self.warnings.append(
                    Mistake(
                        f"the key {name!r} is there twice: the one in line {first.line} is not used",
                        (*path, name),
                        self._at(key.start_mark),
                        "remove or rename one of them",
                        self._kind,
                    )
                )
            own[name] = (key, value)
        self._entries[id(node)] = found = {**merged, **own}
        return found

    def _key(self, node: Any, path: Path) -> str:
        if not isinstance(node, yaml.ScalarNode):
            raise self._refuse("a key must be text", node.start_mark, path)
        key = self._scalar(node, path)
        return key if isinstance(key, str) else json.dumps(key)


_COMPOSED = 4000
"""Levels that libyaml surely composes."""


def _deepest(text: str) -> int:
    """Return a number of levels that the text has not got more of: each takes a bracket, or a column of its line."""
    return text.count("[") + text.count("{") + max(map(len, text.splitlines()), default=0)


_CONSTRUCTOR = yaml.constructor.SafeConstructor()


def _tag(node: Any) -> str:
    tag = str(node.tag)
    return f"!!{tag.removeprefix(_CORE)}" if tag.startswith(_CORE) else tag


def _json(text: str) -> Json:
    """Return the value of a text that is a JSON object, else None."""
    if not text.lstrip().startswith("{"):
        return None
    try:
        return strict_json.loads(text)
    except ValueError:
        return None
