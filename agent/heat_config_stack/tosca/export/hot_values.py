"""The values of a service in HOT: what only a run can know becomes a function of HOT, and marks become parameters."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field

from heat_config_agent.model.positions import Json
from heat_config_stack.definition import Later, Tree, requires
from heat_config_stack.tosca.evaluation.later import Attribute, Computed, Soft, as_text

FUNCTIONS = frozenset(
    {
        *(
            "contains",
            "digest",
            "equals",
            "filter",
            "get_attr",
            "get_file",
            "get_param",
            "get_resource",
            "if",
        ),
        *(
            "list_concat",
            "list_concat_unique",
            "list_join",
            "make_url",
            "map_merge",
            "map_replace",
            "not",
            "and",
            "or",
        ),
        *(
            "repeat",
            "resource_facade",
            "str_replace",
            "str_replace_strict",
            "str_replace_vstrict",
            "str_split",
            "yaql",
        ),
    }
)
"""The functions of HOT: a map with one of these keys alone would be a call."""


class NotExpressible(Exception):  # noqa: N818  # it is not a mistake
    """A value that HOT cannot express."""


@dataclass(frozen=True)
class Writer:
    """Writes values of one resource."""

    attribute: Callable[[Attribute], Json]
    """Returns an attribute of a resource as HOT has it."""
    earlier: Collection[str]
    """The resources that are complete before this one: values that are handed on may need no others."""
    lost: list[str] = field(default_factory=list)
    """Names of values that need others, and are null."""

    def value(self, tree: Tree) -> Json:
        """Return a value. Raises NotExpressible."""
        if isinstance(tree, Soft):
            return self._soft(tree.tree)
        if isinstance(tree, Attribute):
            return self.attribute(tree)
        if isinstance(tree, Computed):
            return self._computed(tree)
        if isinstance(tree, Later):
            return (
                {"get_resource": tree.resource}
                if hasattr(tree, "resource")
                else self._unknown(type(tree).__name__)
            )
        if isinstance(tree, Mapping):
            if len(tree) == 1 and next(iter(tree)) in FUNCTIONS:
                return self._unknown(f"a map with the key {next(iter(tree))} alone")
            return {key: self.value(item) for key, item in tree.items()}
        if isinstance(tree, list | tuple):
            return [self.value(item) for item in tree]
        return tree

    def _unknown(self, construct: str) -> Json:
        raise NotExpressible(f"HOT has no way to express {construct}")

    def _soft(self, tree: Tree, name: str = "") -> Json:
        """Return a value that is handed on: null where it needs a resource that is not complete by then."""
        if isinstance(tree, Mapping):
            return {key: self._soft(item, str(key)) for key, item in tree.items()}
        if any(need.resource not in self.earlier for need in requires(tree)):
            self.lost.append(name)
            return None
        return self.value(tree)

    def _computed(self, tree: Computed) -> Json:
        arguments = tree.arguments
        if tree.function == "concat" and isinstance(arguments, list):
            return {"list_join": ["", [self._text(item) for item in arguments]]}
        if (
            tree.function == "join"
            and isinstance(arguments, list)
            and isinstance(arguments[0], list)
        ):
            delimiter = as_text(arguments[1]) if len(arguments) > 1 else ""
            return {
                "list_join": [delimiter, [self._text(item) for item in arguments[0]]]
            }
        if (
            tree.function == "token"
            and isinstance(arguments, list)
            and len(str(arguments[1])) == 1
        ):
            return {"str_split": [arguments[1], self.value(arguments[0]), arguments[2]]}
        if tree.function == "first" and isinstance(arguments, list):
            return self.value(next(item for item in arguments if item is not None))
        if tree.function.startswith("select ") and isinstance(arguments, Attribute):
            call = self.attribute(arguments)
            if isinstance(call, dict) and "get_attr" in call:
                return {
                    "get_attr": [
                        *call["get_attr"],
                        *json.loads(tree.function.removeprefix("select ")),
                    ]
                }
        return self._unknown(
            f"the function {tree.function or 'of this value'} of a value that only a run knows"
        )

    def _text(self, item: Tree) -> Json:
        return self.value(item) if isinstance(item, Later) else as_text(item)


# Marks.

_MARK = "\ue000{}\ue001"
_FORM = re.compile("\ue000([^\ue001]*)\ue001")
_NUMBER = 7_310_000_000_000


@dataclass
class Marks:
    """Values that stand for inputs while a service is compiled, and become parameters afterwards."""

    values: Mapping[str, Json]
    """The values of the inputs."""
    fixed: set[str] = field(default_factory=set)
    """Inputs that cannot be parameters: something was decided or computed with their values."""
    is_unclear: bool = False
    """True if a mark has not come through, and it is not known which one."""

    @property
    def given(self) -> dict[str, Json]:
        """Return the mark of each input that can have one."""
        marks: dict[str, Json] = {}
        for number, (name, value) in enumerate(self.values.items()):
            mark = _MARK.format(name)
            if name in self.fixed or value is None or isinstance(value, bool | float):
                continue
            if isinstance(value, str):
                marks[name] = mark
            elif isinstance(value, int):
                marks[name] = _NUMBER + number
            elif isinstance(value, list):
                marks[name] = [mark]
            elif isinstance(value, dict):
                marks[name] = {mark: mark}
        return marks

    def merged(self, real: Json, marked: Json) -> Json:
        """Return a value of the template with parameters in the place of marks.

        `real` is the same with the values of the inputs. Where a mark has not come through, the input becomes `fixed`.
        """
        for name, mark in self.given.items():
            if type(marked) is type(mark) and marked == mark:
                return {"get_param": name} if self._is(real, name) else real
        if isinstance(marked, str):
            return self._text(real, marked)
        if (
            isinstance(marked, dict)
            and isinstance(real, dict)
            and marked.keys() == real.keys()
        ):
            return {key: self.merged(real[key], item) for key, item in marked.items()}
        if (
            isinstance(marked, list)
            and isinstance(real, list)
            and len(marked) == len(real)
        ):
            return [
                self.merged(one, other) for one, other in zip(real, marked, strict=True)
            ]
        if marked != real:
            self._blame(self._named(json.dumps(marked, ensure_ascii=False)))
        return real

    def _blame(self, names: Collection[str]) -> None:
        """Note that inputs cannot be parameters; without names, it is not known which."""
        self.fixed.update(names)
        self.is_unclear = self.is_unclear or not names

    def _is(self, real: Json, name: str) -> bool:
        if real != self.values[name]:
            self.fixed.add(name)
        return name not in self.fixed

    def _text(self, real: Json, marked: str) -> Json:
        names = self._named(marked)
        if not names:
            if marked != real:
                self._blame(())
            return real
        resolved = marked
        template = marked
        for name in names:
            mark = self.given[name]
            text = mark if isinstance(mark, str) else str(mark)
            resolved = resolved.replace(text, as_text(self.values[name]))
            template = template.replace(text, f"<{name}>")
        is_plain = all(
            template.count(f"<{name}>") == marked.count(self._mark(name))
            for name in names
        )
        if resolved != real or not is_plain or _FORM.search(template):
            self.fixed.update(names)
            return real
        return {
            "str_replace": {
                "template": template,
                "params": {f"<{name}>": {"get_param": name} for name in names},
            }
        }

    def _mark(self, name: str) -> str:
        mark = self.given[name]
        return mark if isinstance(mark, str) else str(mark)

    def _named(self, text: str) -> list[str]:
        return [name for name, mark in self.given.items() if self._is_in(mark, text)]

    @staticmethod
    def _is_in(mark: Json, text: str) -> bool:
        word = (
            mark[0]
            if isinstance(mark, list)
            else next(iter(mark))
            if isinstance(mark, dict)
            else str(mark)
        )
        return str(word) in text
