"""The properties of a resource: their schemas, and their values from a template.

The rules for types and empty values are those of Heat's plug-in guide.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from typing import Any

from heat_config_agent.diagnostics.words import meant
from heat_config_agent.model.positions import Json, Path, dotted
from heat_config_stack import definition
from heat_config_stack.definition import Later, Look, Need, Tree, Unresolved, requires
from heat_config_stack.definition import limits as bounds
from heat_config_stack.resource import constraints as limits
from heat_config_stack.resource.support import SupportStatus
from heat_config_stack.resource.translation import (
    TranslationRule,
    extends,
    removed,
    translated,
)


class Unknown(Later):
    """A value that is not known yet, so that only its type can be checked."""

    __slots__ = ("now",)

    def __init__(self, now: Json = None) -> None:
        """Take the value that Heat validates: with the names of resources for their ids, and null for attributes."""
        self.now = now

    def __repr__(self) -> str:
        return "(not known yet)"

    @property
    def requires(self) -> tuple[Need, ...]:
        return (Need(""),)

    def resolve(self, look: Look) -> Json:  # noqa: ARG002
        return None


def as_far_as_known(tree: Tree, look: Look) -> Tree:
    """Return a tree in which every value that depends on a resource is `Unknown`, and the rest is resolved.

    Raises `Unresolved`, also where a function does not take null in the place of an attribute: Heat, too, validates
    properties while attributes are null.
    """
    if type(tree) is str:
        return tree
    if isinstance(tree, Later):
        needs = tree.requires
        value = tree.resolve(look) if all(need.resource for need in needs) else None
        return Unknown(value) if needs else value
    if isinstance(tree, dict):
        return {key: as_far_as_known(value, look) for key, value in tree.items()}
    return (
        [as_far_as_known(each, look) for each in tree]
        if isinstance(tree, list)
        else tree
    )


class Schema:
    """The declaration of a property."""

    INTEGER, STRING, NUMBER, BOOLEAN, MAP, LIST, ANY = (
        *("Integer", "String", "Number"),
        *("Boolean", "Map", "List", "Any"),
    )
    TYPES = (INTEGER, STRING, NUMBER, BOOLEAN, MAP, LIST, ANY)
    KEYS = (
        TYPE,
        DESCRIPTION,
        DEFAULT,
        SCHEMA,
        REQUIRED,
        CONSTRAINTS,
        UPDATE_ALLOWED,
        IMMUTABLE,
    ) = (
        *("type", "description", "default", "schema"),
        *("required", "constraints", "update_allowed", "immutable"),
    )

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
        """Take the declaration; `schema` is one schema for all members of a list, or one for each key of a map."""
        self.type, self.description, self.default, self.required = (
            data_type,
            description,
            default,
            required,
        )
        self.schema = {"*": schema} if isinstance(schema, Schema) else schema
        self.constraints = list(constraints or ())
        self.implemented, self.update_allowed, self.immutable = (
            implemented,
            update_allowed,
            immutable,
        )
        self.support_status = support_status or SupportStatus()
        self.allow_conversion = allow_conversion

    @classmethod
    def from_legacy(cls, declared: Mapping[str, Any]) -> Schema:
        """Return the schema that a dict declares, as older plug-ins write it. Raises TypeError if it declares none."""
        if unknown := sorted(map(str, declared.keys() - _LEGACY)):
            raise TypeError(
                f"unknown keys in the schema of a property: {', '.join(unknown)}"
            )
        if declared.get("Type") not in cls.TYPES:
            raise TypeError(
                f"the Type of a property must be one of {', '.join(cls.TYPES)}"
            )
        inner = declared.get("Schema")
        if inner is not None:
            inner = made(inner) if declared["Type"] == cls.LIST else schemata(inner)
        return cls(
            declared["Type"],
            default=declared.get("Default"),
            schema=inner,
            required=declared.get("Required", False),
            constraints=list(_legacy_constraints(declared)),
            implemented=declared.get("Implemented", True),
            update_allowed=declared.get("UpdateAllowed", False),
        )


_LEGACY = frozenset(
    {
        "Type",
        "Schema",
        "Default",
        "Required",
        "Implemented",
        "UpdateAllowed",
        "AllowedPattern",
        "AllowedValues",
    }
    | {"MinValue", "MaxValue", "MinLength", "MaxLength"}
)


def _legacy_constraints(declared: Mapping[str, Any]) -> Iterator[limits.Constraint]:
    if "MinValue" in declared or "MaxValue" in declared:
        yield limits.Range(declared.get("MinValue"), declared.get("MaxValue"))
    if "MinLength" in declared or "MaxLength" in declared:
        yield limits.Length(declared.get("MinLength"), declared.get("MaxLength"))
    if "AllowedValues" in declared:
        yield limits.AllowedValues(declared["AllowedValues"])
    if "AllowedPattern" in declared:
        yield limits.AllowedPattern(declared["AllowedPattern"])


def made(declared: Any) -> Schema:
    """Return a schema, which may be declared as a dict. Raises TypeError if it is neither."""
    if isinstance(declared, Schema):
        return declared
    if isinstance(declared, Mapping):
        return Schema.from_legacy(declared)
    raise TypeError(
        f"the schema of a property must be a properties.Schema; got {shown(declared)}"
    )


def schemata(declared: Any) -> Mapping[str, Schema]:
    """Return the schemas of properties, some of which may be declared as dicts. Raises TypeError."""
    if not isinstance(declared, Mapping):
        raise TypeError(
            f"the schemas of properties must be a dict; got {shown(declared)}"
        )
    for each in declared.values():
        if not isinstance(each, Schema):
            return {name: made(each) for name, each in declared.items()}
    return declared


def shown(value: Any) -> str:
    """Return the beginning of a value, for use in a sentence."""
    text = repr(value)
    return text if len(text) <= 100 else f"{text[:100]}…"


class Wrong(Exception):  # noqa: N818  # the value is wrong
    """A value does not match its schema."""

    def __init__(
        self,
        problem: str,
        path: Path,
        *,
        of_value: bool = True,
        key: Path = (),
        names: Iterable[str] = (),
    ) -> None:
        """Take one sentence, and the path relative to the properties; not `of_value` if any value would be wrong.

        `key` is an unknown key of the map at the path, and `names` are the known ones.
        """
        super().__init__(problem)
        self.problem, self.path, self.of_value, self.key, self.names = (
            problem,
            path,
            of_value,
            key,
            tuple(names),
        )

    @property
    def hint(self) -> str:
        """The known key that was probably meant, in a sentence."""
        return meant(self.key[0], self.names) if self.key else ""

    def under(self, section: str) -> Wrong:
        """Return the mistake with a path that is relative to the resource."""
        path = (section, *self.path)
        return Wrong(
            self.problem, path, of_value=self.of_value, key=self.key, names=self.names
        )


class Properties(Mapping[str, Any]):
    """The values of properties, resolved on access: with defaults, and converted to the declared types."""

    def __init__(
        self,
        schema: Mapping[str, Schema],
        data: Mapping[str, Tree],
        resolve: Callable[[Tree], Any] = lambda tree: tree,
        path: Path = (),
        omitted: Container[str] = (),
    ) -> None:
        """Take the values of a template (`data`), a function that resolves them, and properties with a place only."""
        self.schema, self.data, self._resolve, self._path, self._omitted = (
            schema,
            data,
            resolve,
            path,
            omitted,
        )
        self.rules: tuple[TranslationRule, ...] = ()
        """The rules that translate values."""

    def __getitem__(self, key: str) -> Any:
        try:
            return self._get(key, [])
        except Wrong as error:
            where = dotted(error.path)
            raise ValueError(
                f"Property error: {where}: {error.problem}" if where else error.problem
            ) from None

    def __contains__(self, key: object) -> bool:
        return key in self.schema

    def __iter__(self) -> Iterator[str]:
        return iter(self.schema)

    def __len__(self) -> int:
        return len(self.schema)

    def get_user_value(self, key: str) -> Any:
        """Return the value in the template, without a default; None if it has none."""
        return self[key] if key in self.data else None

    def mistakes(self) -> list[Wrong]:
        """Return all mistakes in the values, as far as they are known."""
        unknown = [key for key in self.data if key not in self.schema]
        left = [name for name in self.schema if name not in self.data]
        wrong = [
            Wrong(
                f"Unknown Property {key}",
                self._path,
                of_value=False,
                key=(key,),
                names=left,
            )
            for key in unknown
        ]
        gone = removed(self.rules) if self.rules else ()
        for key, schema in self.schema.items():
            if key in gone:
                continue
            present = key in self.data
            if not (
                present or schema.required or self.rules or schema.default is not None
            ):
                continue
            try:
                known = not present or next(requires(self.data[key]), None) is None
                self._get(key, wrong, checked=known)
            except Wrong as error:
                wrong.append(error)
            if present and not schema.implemented:
                wrong.append(
                    Wrong(
                        f"Property {key} not implemented yet",
                        self._path,
                        of_value=False,
                    )
                )
        return wrong

    def _value(self, key: str) -> Any:
        """Return the value in the template, before translation; None if there is none."""
        try:
            return self._resolve(self.data[key]) if key in self.data else None
        except Unresolved as error:
            raise Wrong(str(error), (*self._path, key)) from error

    def _get(self, key: str, wrong: list[Wrong], *, checked: bool = False) -> Any:
        """Return a value; if it is checked, add the mistakes next to its type to `wrong`."""
        if key not in self.schema:
            raise KeyError(f"Invalid Property {key}")
        schema, path = self.schema[key], (*self._path, key)
        value, present = self._value(key), key in self.data
        if self.rules:
            present = present and key not in removed(self.rules)
            value = self._translated(key, value if present else None)
            if not present and value is not None:
                # what comes from a rule is not checked, as in Heat
                return _converted(schema, value, path, None)
        if present:
            pass
        elif schema.default is not None:  # as in Heat, an empty one is that of the type
            value = (
                schema.default if schema.default or schema.type == Schema.ANY else None
            )
        elif schema.required:
            raise Wrong(
                f"Property {key} not assigned",
                path if key in self._omitted else self._path,
            )
        else:
            return None
        return _converted(schema, value, path, wrong if checked else None)

    def _translated(self, key: str, value: Any) -> Any:
        """Return the value after the rules for it. Raises `Wrong`."""
        try:
            changed = translated(self.rules, key, value, self._value)
        except ValueError as error:
            raise Wrong(str(error), (*self._path, key)) from None
        is_given = key in self.data and key not in removed(self.rules)
        if (
            is_given
            and changed
            and self.schema[key].schema
            and extends(self.rules, key)
        ):
            problem = f"the members of {key} cannot be given together with the property that adds one to them"
            raise Wrong(problem, (*self._path, key, 0))
        return changed


def _converted(
    schema: Schema, value: Any, path: Path, wrong: list[Wrong] | None
) -> Any:
    """Return a value converted to the type of its schema; other mistakes go into `wrong`."""
    if isinstance(value, Unknown):
        _converted(schema, value.now, path, None)
    if isinstance(value, Later):
        return value
    if value is None:
        value = schema.default if schema.default or schema.type == Schema.ANY else None
    try:
        converted = _CONVERSIONS[schema.type](schema, value)
    except (TypeError, ValueError) as error:
        raise Wrong(str(error), path) from None
    if schema.schema and isinstance(converted, dict):
        converted = _members(schema.schema, converted, path, wrong)
    elif schema.schema and isinstance(converted, list):
        if wrong is not None and converted and not schema.schema["*"].implemented:
            wrong.append(Wrong("Property 0 not implemented yet", path))
        converted = [
            _converted(schema.schema["*"], each, (*path, at), wrong)
            for at, each in enumerate(converted)
        ]
    if wrong is not None:
        broken = [
            each.violated(converted, schema.type.lower()) for each in schema.constraints
        ]
        wrong += [Wrong(problem, path) for problem in broken if problem][:1]
    return converted


def _members(
    schema: Mapping[str, Schema],
    value: dict[str, Any],
    path: Path,
    wrong: list[Wrong] | None,
) -> Any:
    inner = Properties(schema, value, path=path)
    if wrong is None:
        return {key: inner._get(key, []) for key in schema}  # noqa: SLF001  # the same class
    left = [name for name in schema if name not in value]
    wrong += [
        Wrong(f"Unknown Property {key}", path, key=(key,), names=left)
        for key in value
        if key not in schema
    ]
    wrong += [
        Wrong(f"Property {key} not implemented yet", path)
        for key in value
        if key in schema and not schema[key].implemented
    ]
    return {key: inner._get(key, wrong, checked=True) for key in schema}  # noqa: SLF001


def _string(schema: Schema, value: Any) -> Any:
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    if isinstance(value, int):  # includes bool
        return str(value)
    if schema.allow_conversion and isinstance(value, dict | list):
        return _as_text(value)
    raise ValueError(f"Value must be a string; got {value!r}")


def _as_text(value: Tree) -> Json:
    """Return a map or list as JSON text; that text is `Unknown` if a part of the value is."""
    if next(requires(value), None) is None:
        return json.dumps(value)
    return Unknown(json.dumps(value, default=lambda part: part.now))


def _integer(_: Schema, value: Any) -> Any:
    if value is None:
        return 0
    if isinstance(value, int | float | str):  # as in Heat, decimals are cut off
        try:
            return int(value)
        except ValueError:
            pass
    raise ValueError(f"Value '{value}' is not an integer")


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
        return _as_text(value)
    raise ValueError(f'"{value}" is not a map')


def _list(schema: Schema, value: Any) -> Any:
    if value is None:
        return []
    if isinstance(value, list | tuple):
        return list(value)
    if schema.allow_conversion and isinstance(value, str):
        try:
            return bounds.split(value, ",") if value else []
        except bounds.TooMuch as error:
            raise ValueError(f"the list has {error}") from None
    raise ValueError(f'"{value!r}" is not a list')


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


def of_parameter(parameter: definition.Schema, *, is_final: bool = True) -> Schema:
    """Return the schema of the property for a parameter of a nested template.

    While an environment may still give a default value (`is_final` is False), none is required.
    """
    return Schema(
        _PARAMETERS[parameter.type],
        parameter.description,
        required=is_final and parameter.default is None,
        constraints=[
            limits.made(each.kind, each.value, each.description)
            for each in parameter.constraints
        ],
        update_allowed=True,
        allow_conversion=parameter.type in ("comma_delimited_list", "json"),
    )
