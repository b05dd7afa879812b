"""The properties of a resource: what each is declared to be, and the values that a template gives them.

The rules of types and of empty values are those of Heat's plug-in guide.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from heat_config_agent.stack import constraints as limits
from heat_config_agent.stack import definition
from heat_config_agent.stack.definition import Json, Later, Look, Need, Path, Tree, Unresolved, requires
from heat_config_agent.stack.support import SupportStatus


class Schema:
    """What a property is declared to be."""

    INTEGER, STRING, NUMBER, BOOLEAN, MAP, LIST, ANY = (
        *("Integer", "String", "Number"),
        *("Boolean", "Map", "List", "Any"),
    )
    TYPES = (INTEGER, STRING, NUMBER, BOOLEAN, MAP, LIST, ANY)

    def __init__(
        self,
        data_type: str,
        description: str | None = None,
        default: Any = None,
        schema: Any = None,
        required: bool = False,
        constraints: Iterable[limits.Constraint] | None = None,
        implemented: bool = True,
        update_allowed: bool = False,
        immutable: bool = False,
        support_status: SupportStatus | None = None,
        allow_conversion: bool = False,
    ) -> None:
        """Declare a property. `schema` is that of a list's members (one for all), or of a map's (one for each key)."""
        self.type, self.description, self.default, self.required = data_type, description, default, required
        self.schema = {"*": schema} if isinstance(schema, Schema) else schema
        self.constraints = list(constraints or ())
        self.implemented, self.update_allowed, self.immutable = implemented, update_allowed, immutable
        self.support_status = support_status or SupportStatus()
        self.allow_conversion = allow_conversion


class Unknown(Later):
    """A value of which nothing is known yet, and nothing is to be checked."""

    @property
    def requires(self) -> tuple[Need, ...]:
        return (Need(""),)

    def resolve(self, look: Look) -> Json:  # noqa: ARG002
        return None


def as_far_as_known(tree: Tree, look: Look) -> Tree:
    """Return a tree in which everything that needs a resource is `Unknown`, and the rest resolved."""
    if isinstance(tree, Later):
        return Unknown() if any(tree.requires) else tree.resolve(look)
    if isinstance(tree, dict):
        return {key: as_far_as_known(value, look) for key, value in tree.items()}
    return [as_far_as_known(each, look) for each in tree] if isinstance(tree, list) else tree


class Wrong(Exception):  # noqa: N818  # it is the value that is
    """A value is not what its schema says."""

    def __init__(self, problem: str, path: Path) -> None:
        """Take one sentence, and where, counted from the properties."""
        super().__init__(problem)
        self.problem, self.path = problem, path


class Properties(Mapping[str, Any]):
    """The values of properties, resolved when they are looked at: defaults filled in, of the type declared."""

    def __init__(
        self,
        schema: Mapping[str, Schema],
        data: Mapping[str, Tree],
        resolve: Callable[[Tree], Any] = lambda tree: tree,
        path: Path = (),
    ) -> None:
        """Take what a template says (`data`), and how what is in it is resolved."""
        self.schema, self.data, self._resolve, self._path = schema, data, resolve, path

    def __getitem__(self, key: str) -> Any:
        try:
            return self._get(key, [])
        except Wrong as error:
            where = definition.dotted(error.path)
            raise ValueError(f"Property error: {where}: {error.problem}" if where else error.problem) from None

    def __contains__(self, key: object) -> bool:
        return key in self.schema

    def __iter__(self) -> Iterator[str]:
        return iter(self.schema)

    def __len__(self) -> int:
        return len(self.schema)

    def get_user_value(self, key: str) -> Any:
        """Return the value that a template gives, without any default; None where it gives none."""
        return self[key] if key in self.data else None

    def mistakes(self) -> list[Wrong]:
        """Return all that is wrong with the values, as far as can be known yet."""
        found = [Wrong(f"Unknown Property {key}", self._path) for key in self.data if key not in self.schema]
        for key in self.schema:
            try:
                unknown = any(requires(self.data.get(key)))
                self._get(key, found, checked=not unknown)
            except Wrong as error:
                found.append(error)
        return found

    def _get(self, key: str, found: list[Wrong], *, checked: bool = False) -> Any:
        """Return a value; add what is wrong with it beside its type to `found` if it is to be checked."""
        if key not in self.schema:
            raise KeyError(f"Invalid Property {key}")
        schema = self.schema[key]
        if key in self.data:
            try:
                value = self._resolve(self.data[key])
            except Unresolved as error:
                raise Wrong(str(error), (*self._path, key)) from error
        elif schema.default is not None:
            value = schema.default
        elif schema.required:
            raise Wrong(f"Property {key} not assigned", self._path)
        else:
            return None
        return _converted(schema, value, (*self._path, key), found if checked else None)


def _converted(schema: Schema, value: Any, path: Path, found: list[Wrong] | None) -> Any:
    """Return a value in the type of its schema; what is wrong with it beside that goes into `found`."""
    if isinstance(value, Later):
        return value
    if value is None:
        value = schema.default
    try:
        made = _CONVERSIONS[schema.type](schema, value)
    except (TypeError, ValueError) as error:
        raise Wrong(str(error), path) from None
    if schema.schema and isinstance(made, dict):
        made = _members(schema.schema, made, path, found)
    elif schema.schema and isinstance(made, list):
        made = [_converted(schema.schema["*"], each, (*path, at), found) for at, each in enumerate(made)]
    if found is not None:
        broken = [each.violated(made, schema.type.lower()) for each in schema.constraints]
        found += [Wrong(problem, path) for problem in broken if problem][:1]
    return made


def _members(schema: Mapping[str, Schema], value: dict[str, Any], path: Path, found: list[Wrong] | None) -> Any:
    inner = Properties(schema, value, path=path)
    if found is None:
        return {key: inner._get(key, []) for key in schema}  # noqa: SLF001  # of its own class's making
    found += [Wrong(f"Unknown Property {key}", path) for key in value if key not in schema]
    return {key: inner._get(key, found, checked=True) for key in schema}  # noqa: SLF001


def _string(schema: Schema, value: Any) -> Any:
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    if isinstance(value, int):  # a truth value is one
        return str(value)
    if schema.allow_conversion and isinstance(value, dict | list):
        return json.dumps(value)
    raise ValueError(f"Value must be a string; got {value!r}")


def _integer(_: Schema, value: Any) -> Any:
    if value is None:
        return 0
    if isinstance(value, int | float | str):  # Heat cuts off what a whole number has no place for
        try:
            return int(value)
        except ValueError:
            pass
    raise ValueError(f'"{value}" is not an integer')


def _number(_: Schema, value: Any) -> Any:
    if value is None:
        return 0
    if isinstance(value, int | float):
        return value
    if isinstance(value, str):
        try:
            return int(value)
        except ValueError:
            return float(value)
    raise ValueError(f'"{value}" is not a number')


def _boolean(_: Schema, value: Any) -> Any:
    if value is None:
        return False
    if isinstance(value, bool):
        return value
    if isinstance(value, str) and value.lower() in ("true", "false"):
        return value.lower() == "true"
    raise ValueError(f'"{value}" is not a valid boolean')


def _map(schema: Schema, value: Any) -> Any:
    if value is None:
        return {}
    if isinstance(value, Mapping):
        return dict(value)
    if schema.allow_conversion and isinstance(value, str):
        return value
    if schema.allow_conversion and isinstance(value, list):
        return json.dumps(value)
    raise ValueError(f'"{value}" is not a map')


def _list(schema: Schema, value: Any) -> Any:
    if value is None:
        return []
    if isinstance(value, list | tuple):
        return list(value)
    if schema.allow_conversion and isinstance(value, str):
        return value.split(",") if value else []
    raise ValueError(f'"{value}" is not a list')


_CONVERSIONS: dict[str, Callable[[Schema, Any], Any]] = {
    Schema.STRING: _string,
    Schema.INTEGER: _integer,
    Schema.NUMBER: _number,
    Schema.BOOLEAN: _boolean,
    Schema.MAP: _map,
    Schema.LIST: _list,
    Schema.ANY: lambda _, value: value,
}

_PARAMETERS = {
    "string": Schema.STRING,
    "number": Schema.NUMBER,
    "comma_delimited_list": Schema.LIST,
    "json": Schema.MAP,
    "boolean": Schema.BOOLEAN,
}


def of_parameter(parameter: definition.Schema) -> Schema:
    """Return the property that a parameter of a nested template is."""
    return Schema(
        _PARAMETERS[parameter.type],
        parameter.description,
        required=parameter.default is None,
        constraints=[limits.made(each.kind, each.value, each.description) for each in parameter.constraints],
        update_allowed=True,
        immutable=parameter.immutable,
        allow_conversion=True,
    )
