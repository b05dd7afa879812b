"""A text in YAML or JSON: its JSON value, and the position and the written form of every part of it."""

from __future__ import annotations

from dataclasses import dataclass

from heat_config_agent.diagnostics.mistakes import Invalid
from heat_config_agent.masking.redaction import OPEN
from heat_config_agent.model.mistake import Mistake
from heat_config_agent.model.positions import Json, Path, Place
from heat_config_hooks import strict_json
from heat_config_hooks.yaml_schema import Schema
from heat_config_hooks.yaml_tree import LARGEST, Fault, Repetition, Tree, Unreadable


@dataclass(frozen=True, slots=True)
class Language:
    """The rules for texts in a template language."""

    name: str
    """As messages have it: `the tag !x has no meaning in Heat`."""
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
        """Where the language wants all mistakes together: those with which the text could be read nevertheless.

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
            tree = Tree(text, language.schema, largest=language.largest, foreign=f"has no meaning in {language.name}")
        except Unreadable as error:
            raise Invalid([self._mistake(error.fault)], OPEN) from None
        self._tree, self.value = tree, tree.value
        mistakes = [self._mistake(fault) for fault in tree.faults]
        if mistakes and not language.all_mistakes:
            raise Invalid(mistakes, OPEN)
        self.mistakes = mistakes
        for repetition in tree.repetitions:
            if language.unique_keys:
                self.mistakes.append(self._repeated(repetition, f"first in line {repetition.first_line}"))
            elif repetition.key != "<<":  # all of these count
                self.warnings.append(self._repeated(repetition, f"the one in line {repetition.first_line} is not used"))

    def _mistake(self, fault: Fault) -> Mistake:
        problem = f"it is not YAML: {fault.problem}" if fault.kind == "syntax" else fault.problem
        place = Place(self.file, fault.line, fault.column)
        return Mistake(problem, fault.path, place, fault.hint, self._kind, "depth" if fault.kind == "depth" else "yaml")

    def _repeated(self, key: Repetition, rest: str) -> Mistake:
        place = Place(self.file, key.line, key.column)
        hint = "remove or rename one of them"
        return Mistake(f"the key {key.key!r} is there twice: {rest}", key.path, place, hint, self._kind, "duplicate")


def _json(text: str) -> Json:
    """Return the value of a text that is a JSON object, else None."""
    if not text.lstrip().startswith("{"):
        return None
    try:
        return strict_json.loads(text)
    except ValueError:
        return None
