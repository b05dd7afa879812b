"""The list of all keys of `--json` in `docs/stability.md`, generated from the schemas in `docs/schemas`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from heat_config_agent.cli import schemas

PAGE = Path(__file__).parents[1] / "docs/stability.md"
BEGIN, END = "<!-- keys: `make reference` writes them -->", "<!-- /keys -->"
"""The lines around the list."""

_FIRST = ("envelope", "line", "event")
"""The schemas at the beginning of the list."""


SHARED = ("time", "seconds", "state", "result")
"""The definitions that the list describes once, at its beginning."""


def page() -> str:
    """Return the text of the page with the keys of today."""
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(f"{BEGIN}\n")
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n\n" + "\n".join(lines()) + f"\n{END}{after}"


def lines() -> Iterator[str]:
    """Yield the lines of the list: a heading and a table for each kind."""
    yield from ("| value | written as | meaning |", "|---|---|---|")
    for name in SHARED:
        form = schemas.shared()[name]
        yield f"| {name} | {kind_of(form, {})} | {cell(form['description'])} |"
    yield ""
    kinds = schemas.kinds()
    first = [kind for kind in _FIRST if kind in kinds]
    for kind in (*first, *(each for each in kinds if each not in first)):
        schema = schemas.read(kind)
        yield from (f"### `{kind}`", "", f"{sentence(schema.get('title', ''))}", "")
        rows = list(keys(schema, schema.get("$defs", {})))
        if rows:
            yield from ("| key | value | meaning |", "|---|---|---|")
        for path, value, meaning in rows:
            yield f"| `{path}` | {value} | {cell(meaning)} |"
        yield ""


def keys(
    schema: dict[str, Any], shared: dict[str, Any], path: str = ""
) -> Iterator[tuple[str, str, str]]:
    """Yield the path, the kind of value and the meaning of each key of an object, and of those below it."""
    for form in forms(schema, shared):
        for name, value in form.get("properties", {}).items():
            place = f"{path}.{name}" if path else name
            meaning = next(
                (
                    each["description"]
                    for each in (value, *forms(value, shared))
                    if "description" in each
                ),
                "",
            )
            missing = "" if name in form.get("required", ()) else "; may be missing"
            yield place, kind_of(value, shared) + missing, meaning
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


def kind_of(schema: dict[str, Any], shared: dict[str, Any]) -> str:
    """Return the kinds of value in words."""
    name = schema.get("$ref", "").rpartition("/")[2].removeprefix("maybe_")
    if name in SHARED:
        is_optional = schema["$ref"].rpartition("/")[2] != name
        return f"[{name}](#keys){', null' if is_optional else ''}"
    words: list[str] = []
    for form in forms(schema, shared):
        if "const" in form:
            words.append(f"`{form['const']}`")
        elif "enum" in form:
            words += ["null" if each is None else f"`{each}`" for each in form["enum"]]
        else:
            listed = form.get("type", "any value")
            words += [listed] if isinstance(listed, str) else listed
    return ", ".join(dict.fromkeys(words))


def sentence(text: str) -> str:
    """Return a title as a sentence."""
    return f"{text.rstrip('.')}." if text else ""


def cell(text: str) -> str:
    """Return text as a cell of a table, in one line."""
    return " ".join(text.split()).replace("|", "\\|")
