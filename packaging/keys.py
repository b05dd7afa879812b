"""The record of the keys of `--json` in `tests/samples/keys.txt`, made of the schemas in `docs/schemas`.

`python keys.py FILE` adds the facts that are new, and keeps those that the schemas do not have any more: a test fails
then, until someone has removed these lines by hand. `make reference` does so.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from heat_config_agent.cli import schemas

SHARED = ("time", "seconds", "state", "result")
"""The definitions of common.json that the record has once, as kinds of their own."""


def recorded(file: Path) -> set[str]:
    """Return the facts of a record."""
    return set(file.read_text(encoding="utf-8").splitlines())


def present() -> set[str]:
    """Return all facts of the schemas."""
    own = {
        f"{name}: is {word}"
        for name in SHARED
        for word in words(schemas.shared()[name], {})
    }
    return own.union(*(facts(kind, schemas.read(kind)) for kind in schemas.kinds()))


def facts(kind: str, schema: dict[str, Any]) -> set[str]:
    """Return the facts of a schema: which keys an answer has, which of them always, and their values."""
    shared = schema.get("$defs", {})
    found = set()
    for path, value, is_required in keys(schema, shared):
        found |= {f"{kind} {path}: is {word}" for word in words(value, shared)}
        found |= {f"{kind} {path}: is always there"} if is_required else set()
    return found


def keys(
    schema: dict[str, Any], shared: dict[str, Any], path: str = ""
) -> Iterator[tuple[str, dict[str, Any], bool]]:
    """Yield each key of an object and of the objects in it: its path, its schema, and whether it is required.

    In a path, `[]` stands for an item of a list, and `NAME` for a key that is a name.
    """
    for form in forms(schema, shared):
        for name, value in form.get("properties", {}).items():
            place = f"{path}.{name}" if path else name
            yield place, value, name in form.get("required", ())
            yield from keys(value, shared, place)
        if isinstance(form.get("items"), dict):
            yield from keys(form["items"], shared, f"{path}[]")
        if isinstance(form.get("additionalProperties"), dict):
            yield from keys(
                form["additionalProperties"], shared, f"{path}.NAME".lstrip(".")
            )


def forms(schema: dict[str, Any], shared: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the schemas that a value may follow, without references."""
    if "$ref" in schema:
        return forms(shared[schema["$ref"].rpartition("/")[2]], shared)
    several = [*schema.get("anyOf", ()), *schema.get("oneOf", ())]
    return [form for each in several for form in forms(each, shared)] or [schema]


def words(schema: dict[str, Any], shared: dict[str, Any]) -> set[str]:
    """Return the types and the fixed values of a value."""
    reference = schema.get("$ref", "").rpartition("/")[2]
    name = reference.removeprefix("maybe_")
    if name in SHARED:
        return {f"a {name}"} | ({"null"} if reference != name else set())
    found = set()
    for form in forms(schema, shared):
        if "const" in form:
            found.add(repr(form["const"]))
        elif "enum" in form:
            found |= {"null" if each is None else repr(each) for each in form["enum"]}
        else:
            listed = form.get("type", "any value")
            found |= {listed} if isinstance(listed, str) else set(listed)
    return found


def main() -> int:
    """Add what is new to the record that the command line names."""
    file = Path(sys.argv[1])
    text = "\n".join(sorted(recorded(file) | present()))
    file.write_text(f"{text}\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
