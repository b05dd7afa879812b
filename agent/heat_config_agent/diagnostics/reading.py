"""A file of YAML or JSON read for its mistakes: its value, and the place of every part of it."""

from __future__ import annotations

import codecs
import json
import re

from heat_config_agent.model.mistake import Mistake
from heat_config_agent.model.positions import Path, Place
from heat_config_hooks import strict_json, strict_yaml
from heat_config_hooks.yaml_schema import YAML_1_1
from heat_config_hooks.yaml_tree import LARGEST, Fault, Tree, Unreadable


class Reading:
    """A file as it was read: the mistakes of the text itself, and its value if it could be read at all."""

    def __init__(self, name: str, content: bytes) -> None:
        """Read the content of the file `name`. Wrong bytes, wrong values and repeated keys are found together."""
        self.name = name
        self.mistakes: list[Mistake] = []
        self.value: object = None
        self._tree: Tree | None = None
        text = self._text(content)
        self._of_json: list[Mistake] = []
        is_json, as_json = self._as_json(text)
        try:
            largest = min(max(LARGEST, len(text)), strict_json.MOST)
            self._tree = tree = Tree(text, YAML_1_1, largest=largest)
        except Unreadable as error:
            self.value = as_json
            if not is_json and not self.mistakes:
                self.mistakes.append(self._of(error.fault))
            return
        self.value = as_json if is_json else tree.value
        self.mistakes += [self._of(fault) for fault in tree.faults]
        self.mistakes += [] if tree.faults else self._of_json  # else it is the same mistake, with its path
        for key in tree.repetitions:
            if key.key != "<<":  # all of these count
                problem = f"the key {key.key!r} is there twice: first in line {key.first_line}"
                self._add(key.line, key.column, problem, key.path, "remove or rename one of them")

    @property
    def readable(self) -> bool:
        """True if the file has a value."""
        return self._tree is not None or self.value is not None

    def place(self, path: Path) -> Place:
        """Return the place of a part, or else of the part that it would be in."""
        return Place(self.name, *((self._tree.position(path) if self._tree else None) or (1, 1)))

    def mistake(self, problem: str, path: Path, hint: str = "") -> Mistake:
        """Return a mistake in a part of the value."""
        return Mistake(problem, self.shown(path), self.place(path), hint)

    def shown(self, path: Path) -> Path:
        """Return a path for people: that of a part of a deployment begins with the name of the deployment."""
        for number, step in enumerate(path[:2]):
            if isinstance(step, int):
                name = self._name(path[: number + 1])
                return (name, *path[number + 1 :]) if name else path
        name = self._name(()) if path else ""
        return (name, *path) if name else path

    def _name(self, path: Path) -> str:
        """Return the name or id of the deployment at a path; empty if it has neither."""
        value: object = self.value
        for step in path:
            try:
                value = value[step]  # type: ignore[index]
            except (TypeError, LookupError):
                return ""
        if not isinstance(value, dict):
            return ""
        names = [each for each in (value.get("name"), value.get("id")) if isinstance(each, str) and each]
        return names[0] if names else ""

    def _text(self, content: bytes) -> str:
        content = content.removeprefix(codecs.BOM_UTF8)
        for encoding, marks in _ENCODINGS.items():
            if content.startswith(marks):
                self._add(1, 1, f"it is {encoding}, not UTF-8 text", (), "save it as UTF-8")
                return content.decode(encoding, "replace")
        try:
            return content.decode()
        except UnicodeDecodeError as error:
            before = content[: error.start].decode()
            line, column = before.count("\n") + 1, len(before) - (before.rfind("\n") + 1) + 1
            problem = f"it is not UTF-8 text: the byte 0x{content[error.start]:02x} does not belong there"
            self._add(line, column, problem, (), "save it as UTF-8")
            return content.decode("utf-8", "replace")

    def _as_json(self, text: str) -> tuple[bool, object]:
        """Return whether a text is JSON, and its value. A mistake is one of JSON if the file has to be JSON."""
        try:
            return True, strict_json.loads(text)
        except json.JSONDecodeError as error:
            hint = "YAML is in files named .yaml" if self.name.endswith(".json") and text.strip() else ""
            if self.name.endswith(".json") or (text.lstrip()[:1] in ("{", "[") and not _is_yaml(text)):
                self._add(error.lineno, error.colno, f"it is not JSON: {error.msg}", (), hint)
        except ValueError as error:
            found = next((each for each in _CONSTANT.finditer(text) if each[1]), None)
            start = found.start() if found else 0
            place = Place(self.name, text.count("\n", 0, start) + 1, start - text.rfind("\n", 0, start))
            self._of_json.append(Mistake(str(error), (), place))
        return False, None

    def _of(self, fault: Fault) -> Mistake:
        problem = f"it is not YAML: {fault.problem}" if fault.kind == "syntax" else fault.problem
        return Mistake(problem, self.shown(fault.path), Place(self.name, fault.line, fault.column), fault.hint)

    def _add(self, line: int, column: int, problem: str, path: Path, hint: str) -> None:
        self.mistakes.append(Mistake(problem, self.shown(path), Place(self.name, line, column), hint))


_ENCODINGS = {
    "UTF-32": (codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE),
    "UTF-16": (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE),
}
"""Encodings by the bytes with which a text begins; those of UTF-16 are the beginning of those of UTF-32."""

_CONSTANT = re.compile(r"""\"(?:[^"\\]|\\.)*\"|(NaN|-?Infinity)""")
"""A text in JSON, or a number of JavaScript's that JSON does not have."""


def _is_yaml(text: str) -> bool:
    try:
        strict_yaml.loads(text)
    except ValueError:
        return False
    return True


_PART = re.compile(r"""\[("(?:[^"\\]|\\.)*")\]|\[(\d+)\]|([^.\[\]]+)""")


def parts(path: str) -> list[tuple[str, str | int]]:
    """Return the parts of a path that is text, each with its step: `.web`, `[0]`, or `["a.b"]` for other names."""
    return [_part(*match.groups()) for match in _PART.finditer("" if path == "$" else path)]


def _part(quoted: str | None, index: str | None, name: str | None) -> tuple[str, str | int]:
    if quoted is not None:
        try:
            return f"[{quoted}]", str(json.loads(quoted))
        except ValueError:  # a hook wrote it that quotes in another way
            return f"[{quoted}]", quoted
    return (f"[{index}]", int(index)) if index is not None else (f".{name}", name or "")
