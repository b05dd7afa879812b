"""The grammar of documents: the kinds of values, and the function that compares a value with a kind.

`heat_config_stack.tosca.language.entities` has the keynames of every entity in these terms.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from heat_config_agent.model.positions import Json, Path
from heat_config_stack.tosca.language import primitives
from heat_config_stack.tosca.language.report import Report
from heat_config_stack.tosca.language.text import written


@dataclass(frozen=True, slots=True, eq=False)
class Kind:
    """A kind of value."""

    form: str
    """`any`, `text`, `truth`, `whole`, `word`, `scalar`, `version`, `range`, `texts`, `map`, `list`, `named`, `either`
    or `entity`."""
    of: Any = None
    """The kind of the entries of a map, a list, or a list of maps with one key each (`named`)."""
    words: tuple[str, ...] = ()
    """The allowed words of a `word`."""
    kinds: Mapping[type, Kind] | None = None
    """The kinds of an `either`, by the type of the JSON value."""
    entity: Entity | None = None
    unique: bool = False
    """True for a `named` in which a name may occur only once."""
    hint: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class Entity:
    """The keynames of an entity."""

    name: str
    """The name of the entity in messages: `a node template`."""
    keys: Mapping[str, Kind]
    required: tuple[str, ...] = ()
    """Keynames that every entity of this kind must have."""
    short: str = ""
    """The keyname whose value may replace the map: a text, or anything but a map if its kind is `any`."""
    others: Kind | None = None
    """The kind of the values of all other keys; without it, another key is a mistake."""
    exclusive: bool = False
    """True if exactly one of the keynames has to be there."""
    since: Mapping[str, str] = field(default_factory=dict)
    """The first version that has a keyname, for keynames that 1.0 does not have."""
    long: Callable[[Mapping[str, Json]], Mapping[str, Json]] | None = None
    """Writes out a short form that is a map."""


ANY = Kind("any")
TEXT = Kind("text")
TRUTH = Kind("truth")
WHOLE = Kind("whole")
SCALAR = Kind("scalar")
VERSION = Kind("version")
OCCURRENCES = Kind("range")
TEXTS = Kind("texts")


def word(*words: str) -> Kind:
    """Return the kind of a text that is one of some words."""
    return Kind("word", words=words)


def map_of(kind: Kind) -> Kind:
    """Return the kind of a map with entries of a kind."""
    return Kind("map", kind)


def list_of(kind: Kind, hint: str = "") -> Kind:
    """Return the kind of a list with entries of a kind."""
    return Kind("list", kind, hint=hint)


def named(kind: Kind, *, unique: bool = False) -> Kind:
    """Return the kind of a list of maps with one key each, under which something of a kind stands."""
    return Kind(
        "named",
        kind,
        unique=unique,
        hint="write a list of maps with one name each: `- NAME: …`",
    )


def either(**kinds: Kind) -> Kind:
    """Return the kind of a value that may be of several types: `str`, `list` or `dict`."""
    types: dict[str, type] = {"str": str, "list": list, "dict": dict}
    return Kind("either", kinds={types[name]: kind for name, kind in kinds.items()})


def entity(
    name: str, keys: Mapping[str, Kind], required: str = "", **rest: Any
) -> Kind:
    """Return the kind of a map with certain keynames."""
    return Kind("entity", entity=Entity(name, keys, tuple(required.split()), **rest))


class _Absent:
    """A placeholder for a value that cannot be used."""


ABSENT = _Absent()

EMPTY: Mapping[str, Any] = {}
"""Stands for a definition or a template that has only a name; it is compared by identity."""


class Short(dict[str, Any]):
    """A short form, written out."""


_CLASSES = {
    "text": (str, "text"),
    "truth": (bool, "true or false"),
    "texts": (dict, "a map of texts"),
    "map": (dict, "a map"),
    "list": (list, "a list"),
    "named": (list, "a list"),
}


def held(value: Json, kind: Kind, path: Path, report: Report) -> Any:
    """Return a value with its short forms written out and without its faulty parts, which are reported.

    Where nothing can be used of it, that is `ABSENT`. Where nothing has to be changed, it is the very same value.
    """
    form = kind.form
    if form == "any":
        return value
    if form == "entity":
        return _entity(value, kind.entity, path, report)  # type: ignore[arg-type]
    if form == "either":
        chosen = (kind.kinds or {}).get(type(value))
        if chosen is None:
            wanted = " or ".join(
                primitives.kind_of(type_()) for type_ in kind.kinds or {}
            )
            return _misfit(value, wanted, path, report, kind.hint)
        return held(value, chosen, path, report)
    if form in _CLASSES:
        class_, wanted = _CLASSES[form]
        if value.__class__ is not class_:
            return _misfit(value, wanted, path, report, kind.hint)
        if form == "map":
            return _map(value, kind.of, path, report)
        if form == "list":
            return _list(value, kind.of, path, report)
        if form == "named":
            return _named(value, kind, path, report)
        if form == "texts":
            return _texts(value, path, report)
        return value
    return _scalar(value, kind, path, report)


def _misfit(
    value: Json, wanted: str, path: Path, report: Report, hint: str = ""
) -> _Absent:
    report.wrong(
        f"{_name(path)} must be {wanted}, not {primitives.kind_of(value)}",
        path,
        hint,
        code="kind",
    )
    return ABSENT


def _name(path: Path) -> str:
    for step in reversed(path):
        if isinstance(step, str):
            return step if step == path[-1] else f"an entry of {step}"
    return "the document"


def _scalar(value: Json, kind: Kind, path: Path, report: Report) -> Any:
    form = kind.form
    if form == "whole":
        if isinstance(value, bool) or not isinstance(value, int):
            return _misfit(value, "a whole number", path, report)
    elif form == "scalar":
        if isinstance(value, dict | list):
            return _misfit(value, "text", path, report)
    elif form == "word":
        if not isinstance(value, str):
            return _misfit(value, "text", path, report)
        if value not in kind.words:
            wanted = ", ".join(kind.words)
            report.wrong(
                f"{_name(path)} must be one of {wanted}",
                path,
                report.nearest(value, kind.words),
                code="choice",
            )
            return ABSENT
    elif form == "version":
        if isinstance(value, dict | list | bool):
            return _misfit(value, "a version", path, report)
        return _read("version", value, path, report)
    elif form == "range":
        if not isinstance(value, list):
            return _misfit(value, "a range: a list of its two ends", path, report)
        if value and isinstance(value[0], int) and value[0] < 0:
            report.wrong(
                f"{_name(path)} must begin with a number from 0", path, code="value"
            )
            return ABSENT
        return _read("range", value, path, report)
    return value


def _read(type_: str, value: Json, path: Path, report: Report) -> Any:
    try:
        primitives.READERS[type_](value)
    except ValueError as error:
        report.wrong(f"{_name(path)} {error}", path, code="value")
        return ABSENT
    return value


def _texts(value: Json, path: Path, report: Report) -> Json:
    """Return metadata (section 3.5.2): scalars count as the text that is written."""
    kept = {}
    for key, text in value.items():
        if isinstance(text, dict | list):
            _misfit(text, "text", (*path, key), report)
        elif text is None:
            report.warn(
                f"nothing stands under {key}",
                (*path, key),
                "leave it out, or give it a value",
                code="empty",
            )
        else:
            if not isinstance(text, str):
                report.warn(
                    f"{key} is {primitives.kind_of(text)} where text belongs",
                    (*path, key),
                    "quote it",
                    code="text",
                )
            kept[key] = written(text)
    return kept


def _empty(key: str, path: Path, report: Report) -> None:
    report.warn(
        f"nothing stands under {key}",
        path,
        "leave it out, or put something under it",
        code="empty",
    )


def _map(value: Json, kind: Kind, path: Path, report: Report) -> Json:
    if kind.form == "any":
        return value
    changes: dict[str, Any] = {}
    for key, inner in value.items():
        if inner is None:
            _empty(key, (*path, key), report)
            changes[key] = EMPTY
        else:
            kept = held(inner, kind, (*path, key), report)
            if kept is not inner:
                changes[key] = kept
    return _changed(value, changes)


def _changed(value: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    if not changes:
        return value
    merged = {**value, **changes}
    return {key: inner for key, inner in merged.items() if inner is not ABSENT}


def _list(value: Json, of: Kind, path: Path, report: Report) -> Json:
    """Return a list in which unusable entries are None, so that positions stay as they are."""
    if of.form == "any":
        return value
    if of.form == "text" and all(item.__class__ is str for item in value):
        return value
    kept = [held(item, of, (*path, index), report) for index, item in enumerate(value)]
    return [None if item is ABSENT else item for item in kept]


def _named(value: Json, kind: Kind, path: Path, report: Report) -> Json:
    """Return a list of pairs of name and value, with None for an unusable entry."""
    kept: list[tuple[str, Any] | None] = []
    names: set[str] = set()
    for index, item in enumerate(value):
        here = (*path, index)
        if not isinstance(item, dict) or len(item) != 1:
            expected = (
                "a map with one name"
                if not isinstance(item, dict)
                else "a map with one name only"
            )
            hint = kind.hint
            if isinstance(item, dict) and item:
                hint = "write each name as an entry of its own: `- NAME: …`"
            if isinstance(item, dict):
                report.wrong(
                    f"{_name(here)} must be {expected}", here, hint, code="kind"
                )
            else:
                _misfit(item, expected, here, report, hint)
            kept.append(None)
            continue
        ((name, inner),) = item.items()
        here = (*here, name)
        if kind.unique and name in names:
            report.wrong(
                f"{name} is there twice",
                here,
                "remove or rename one of them",
                code="duplicate",
            )
        names.add(name)
        if inner is None:
            if kind.of.form != "any":
                _empty(name, here, report)
            kept.append((name, None))
            continue
        found = held(inner, kind.of, here, report)
        kept.append(None if found is ABSENT else (name, found))
    return kept


def _entity(value: Json, form: Entity, path: Path, report: Report) -> Any:
    if value.__class__ is not dict:
        return _short_form(value, form, path, report)
    if form.long is not None:
        value = form.long(value)
    changes: dict[str, Any] = {}
    keys = form.keys
    for key, inner in value.items():
        kind = keys.get(key)
        if kind is None or inner is None:
            kept = _unusual(key, inner, form, (*path, key), report)
        elif kind.form == "any" or (kind.form == "text" and inner.__class__ is str):
            continue
        else:
            kept = held(inner, kind, (*path, key), report)
        if kept is not inner:
            changes[key] = kept
    _check_keys(value, form, path, report)
    return _changed(value, changes)


def _short_form(value: Json, of: Entity, path: Path, report: Report) -> Any:
    """Return the short form of an entity, written out; `ABSENT` where it is none."""
    if of.short and (value.__class__ is str or of.keys[of.short].form == "any"):
        if of.short in of.since:
            report.warn_newer(
                f"the short form of {of.name} is there", of.since[of.short], path
            )
        return Short({of.short: held(value, of.keys[of.short], path, report)})
    wanted = f"{of.name}: a map" + (" or text" if of.short else "")
    return _misfit(value, wanted, path, report)


def _unusual(key: str, inner: Json, entity: Entity, path: Path, report: Report) -> Any:
    """Return the value of an entity under an undefined key, or under a key without a value."""
    kind = entity.keys.get(key)
    if kind is not None:
        if kind.hint == "null":
            return None
        _empty(key, path, report)
        return ABSENT
    if entity.others is None:
        report.wrong(
            f"{entity.name} has no keyname {key}",
            path,
            report.nearest(key, entity.keys),
            code="key-unknown",
        )
        return ABSENT
    if inner is None:
        _empty(key, path, report)
        return EMPTY
    return held(inner, entity.others, path, report)


def _check_keys(value: Json, entity: Entity, path: Path, report: Report) -> None:
    """Report keynames that are missing, exclude one another, or are newer than the version of the text."""
    for key in entity.required:
        if value.get(key) is None:
            report.wrong(
                f"{entity.name} needs {key}", path, f"add {key}", code="key-missing"
            )
    if entity.exclusive:
        _check_exclusive(value, entity, path, report)
    for key, version in entity.since.items():
        if key in value:
            report.warn_newer(f"{entity.name} has {key}", version, (*path, key))


def _check_exclusive(value: Json, form: Entity, path: Path, report: Report) -> None:
    there = [key for key in value if key in form.keys]
    names = ", ".join(form.keys)
    if len(there) > 1:
        report.wrong(
            f"{form.name} has only one of {names}",
            path,
            "write each as an entry of its own",
            code="exclusive",
        )
    elif not there and not value:
        report.wrong(f"{form.name} needs one of {names}", path, code="key-missing")
