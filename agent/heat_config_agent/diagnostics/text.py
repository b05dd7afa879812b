"""A text in YAML or JSON: its JSON value, and the position and the written form of every part of it.

`Text` is one of a template language, and `Reading` a document of deployments, written by hand.
"""

from __future__ import annotations

import codecs
import json
import re
from dataclasses import dataclass

from heat_config_agent.diagnostics.mistakes import Invalid
from heat_config_agent.masking.redaction import OPEN
from heat_config_agent.model.mistake import Mistake
from heat_config_agent.model.positions import Json, Path, Place
from heat_config_hooks import strict_json, strict_yaml
from heat_config_hooks.yaml_schema import YAML_1_1, Schema
from heat_config_hooks.yaml_tree import LARGEST, Fault, Repetition, Tree, Unreadable

RENAME = "remove or rename one of them"
"""The hint for a key that is in a map twice."""


def _problem(fault: Fault) -> str:
    return (
        f"it is not YAML: {fault.problem}" if fault.kind == "syntax" else fault.problem
    )


def _twice(key: Repetition, rest: str) -> str:
    return f"the key {key.key!r} is there twice: {rest}"


@dataclass(frozen=True, slots=True)
class Language:
    """The rules for texts in a template language."""

    name: str
    """The name of the language in messages: `the tag !x has no meaning in Heat`."""
    schema: Schema
    """The meaning of scalars: `heat_config_hooks.yaml_schema.YAML_1_1` or `YAML_1_2`."""
    unique_keys: bool = False
    """True if a key that is in a map twice is a mistake; otherwise it is a warning, and the last one counts."""
    all_mistakes: bool = False
    """True if a text with wrong values is still looked through: then `Text.mistakes` has these mistakes."""
    json_first: bool = False
    """True if a text that is a JSON object has the value that JSON gives it, where YAML gives it another one."""
    largest: int = LARGEST
    """Values of a text at most, with all that its aliases stand for."""


class Text:
    """One text as it was read."""

    def __init__(self, file: str, text: str, kind: str, language: Language) -> None:
        """Read it. `kind` is the stage of its mistakes. Raises `Invalid` where the text cannot be read."""
        self.file = file
        self.mistakes: list[Mistake] = []
        """The mistakes that did not stop the reader, for a language that reports all mistakes together.

        Their values are None.
        """
        self.warnings: list[Mistake] = []
        self.value: Json = None
        self._kind = kind
        self._tree: Tree | None = None
        as_json = _json(text)
        try:
            self._read(text, language)
        except Invalid:
            if as_json is None:
                raise
            self.value = as_json
        if as_json is not None and language.json_first:
            self.value = as_json

    def place(self, path: Path) -> Place | None:
        """Return where a part stands, or else the part that it would be in. An entry of a map stands at its key."""
        position = self._tree.position(path) if self._tree else None
        return Place(self.file, *position) if position else None

    def written(self, path: Path) -> str | None:
        """Return a scalar as it is written, without quotes: `14.10` of the number 14.1.

        None if there is no scalar at that path, or if the text is JSON and not YAML.
        """
        return self._tree.written(path) if self._tree else None

    def _read(self, text: str, language: Language) -> None:
        try:
            tree = Tree(
                text,
                language.schema,
                largest=language.largest,
                foreign=f"has no meaning in {language.name}",
            )
        except Unreadable as error:
            raise Invalid([self._mistake(error.fault)], OPEN) from None
        self._tree, self.value = tree, tree.value
        mistakes = [self._mistake(fault) for fault in tree.faults]
        if mistakes and not language.all_mistakes:
            raise Invalid(mistakes, OPEN)
        self.mistakes = mistakes
        for repetition in tree.repetitions:
            if language.unique_keys:
                self.mistakes.append(
                    self._repeated(repetition, f"first in line {repetition.first_line}")
                )
            elif repetition.key != "<<":  # all of these count
                self.warnings.append(
                    self._repeated(
                        repetition,
                        f"the one in line {repetition.first_line} is not used",
                    )
                )

    def _mistake(self, fault: Fault) -> Mistake:
        place = Place(self.file, fault.line, fault.column)
        return Mistake(
            _problem(fault),
            fault.path,
            place,
            fault.hint,
            self._kind,
            "depth" if fault.kind == "depth" else "yaml",
        )

    def _repeated(self, key: Repetition, rest: str) -> Mistake:
        place = Place(self.file, key.line, key.column)
        return Mistake(
            _twice(key, rest), key.path, place, RENAME, self._kind, "duplicate"
        )


def _json(text: str) -> Json:
    """Return the value of a text that is a JSON object, else None."""
    if not text.lstrip().startswith("{"):
        return None
    try:
        return strict_json.loads(text)
    except ValueError:
        return None


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
        # else it is the same mistake, with its path
        self.mistakes += [] if tree.faults else self._of_json
        for key in tree.repetitions:
            if key.key != "<<":  # all of these count
                problem = _twice(key, f"first in line {key.first_line}")
                self._add(key.line, key.column, problem, key.path, RENAME)

    @property
    def readable(self) -> bool:
        """True if the file has a value."""
        return self._tree is not None or self.value is not None

    def place(self, path: Path) -> Place:
        """Return the place of a part, or else of the part that it would be in."""
        return Place(
            self.name, *((self._tree.position(path) if self._tree else None) or (1, 1))
        )

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
        names = [
            each
            for each in (value.get("name"), value.get("id"))
            if isinstance(each, str) and each
        ]
        return names[0] if names else ""

    def _text(self, content: bytes) -> str:
        content = content.removeprefix(codecs.BOM_UTF8)
        for encoding, marks in _ENCODINGS.items():
            if content.startswith(marks):
                self._add(
                    1, 1, f"it is {encoding}, not UTF-8 text", (), "save it as UTF-8"
                )
                return content.decode(encoding, "replace")
        try:
            return content.decode()
        except UnicodeDecodeError as error:
            before = content[: error.start].decode()
            line, column = (
                before.count("\n") + 1,
                len(before) - (before.rfind("\n") + 1) + 1,
            )
            problem = f"it is not UTF-8 text: the byte 0x{content[error.start]:02x} does not belong there"
            self._add(line, column, problem, (), "save it as UTF-8")
            return content.decode("utf-8", "replace")

    def _as_json(self, text: str) -> tuple[bool, object]:
        """Return whether a text is JSON, and its value. A mistake is one of JSON if the file has to be JSON."""
        try:
            return True, strict_json.loads(text)
        except json.JSONDecodeError as error:
            hint = (
                "YAML is in files named .yaml"
                if self.name.endswith(".json") and text.strip()
                else ""
            )
            if self.name.endswith(".json") or (
                text.lstrip()[:1] in ("{", "[") and not _is_yaml(text)
            ):
                self._add(
                    error.lineno, error.colno, f"it is not JSON: {error.msg}", (), hint
                )
        except ValueError as error:
            found = next((each for each in _CONSTANT.finditer(text) if each[1]), None)
            start = found.start() if found else 0
            place = Place(
                self.name,
                text.count("\n", 0, start) + 1,
                start - text.rfind("\n", 0, start),
            )
            self._of_json.append(Mistake(str(error), (), place))
        return False, None

    def _of(self, fault: Fault) -> Mistake:
        return Mistake(
            _problem(fault),
            self.shown(fault.path),
            Place(self.name, fault.line, fault.column),
            fault.hint,
        )

    def _add(self, line: int, column: int, problem: str, path: Path, hint: str) -> None:
        self.mistakes.append(
            Mistake(problem, self.shown(path), Place(self.name, line, column), hint)
        )


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
    return [
        _part(*match.groups()) for match in _PART.finditer("" if path == "$" else path)
    ]


def _part(
    quoted: str | None, index: str | None, name: str | None
) -> tuple[str, str | int]:
    if quoted is not None:
        try:
            return f"[{quoted}]", str(json.loads(quoted))
        except ValueError:  # a hook wrote it that quotes in another way
            return f"[{quoted}]", quoted
    return (f"[{index}]", int(index)) if index is not None else (f".{name}", name or "")
