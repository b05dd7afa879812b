"""The JSON Schemas of what commands print with `--json`: `envelope`, `line`, and one for each kind of `data`.

They are files in `docs/schemas`, and packages have them inside. A schema refers to `common.json` for definitions that
several schemas share; what is returned here has those definitions inside, so that it is complete by itself.
"""

from __future__ import annotations

import json
from pathlib import Path

from heat_config_agent.model.errors import UsageError
from heat_config_hooks.words import closest

TYPE_CHECKING = False  # as `typing` has it, which takes long to load

if TYPE_CHECKING:
    from typing import Any

_PACKAGE = Path(__file__).parents[1]
_FOLDERS = (_PACKAGE / "schemas", _PACKAGE.parents[1] / "docs/schemas")
"""The folder of an installation, and that of a checkout."""

_COMMON = "common"


def folder() -> Path:
    """Return the folder with the schemas."""
    return next(filter(Path.is_dir, _FOLDERS), _FOLDERS[0])


def kinds() -> list[str]:
    """Return the names of all schemas, sorted."""
    names = (path.stem for path in folder().glob("*.json"))
    return sorted(name for name in names if name != _COMMON)


def read(kind: str) -> dict[str, Any]:
    """Return the schema of a kind, complete by itself. Raises UsageError if there is none."""
    known = kinds()
    if kind not in known:
        near = closest(kind, known)
        hint = f"did you mean {near}?" if near else f"the kinds are {', '.join(known)}"
        raise UsageError(f"there is no schema of the kind {kind!r}", hint=hint)
    schema: dict[str, Any] = _within(source(kind))
    common = shared()
    wanted, has = _references(schema), dict(schema.get("$defs", {}))
    while missing := [name for name in wanted if name not in has]:
        for name in missing:
            has[name] = common[name]
            wanted += _references(common[name])
    return {**schema, "$defs": dict(sorted(has.items()))} if has else schema


def shared() -> dict[str, Any]:
    """Return the definitions that several schemas refer to, by name."""
    definitions: dict[str, Any] = source(_COMMON)["$defs"]
    return definitions


def source(name: str) -> dict[str, Any]:
    """Return a schema, or the definitions that several share, as the file has it."""
    value = json.loads((folder() / f"{name}.json").read_bytes())
    if not isinstance(value, dict):
        raise TypeError(f"{name}.json is not an object")
    return value


def _within(value: Any) -> Any:
    """Return a schema in which references to the common definitions lead to its own."""
    if isinstance(value, list):
        return [_within(item) for item in value]
    if not isinstance(value, dict):
        return value
    return {
        key: item.removeprefix(f"{_COMMON}.json")
        if key == "$ref" and isinstance(item, str)
        else _within(item)
        for key, item in value.items()
    }


def _references(value: object) -> list[str]:
    """Return the names of the definitions that a schema refers to."""
    if isinstance(value, list):
        return [name for item in value for name in _references(item)]
    if not isinstance(value, dict):
        return []
    names = [name for item in value.values() for name in _references(item)]
    target = value.get("$ref")
    if isinstance(target, str):
        names.append(target.removeprefix("#/$defs/"))
    return names
