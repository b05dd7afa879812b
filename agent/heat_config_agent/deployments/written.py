"""Checks the documents that people write. Pure.

A document of a server may have keys that this agent does not know. A person who writes `gruop` has misspelt `group`:
in a file, an unknown key is a mistake, and so is a key that is there twice, or a deployment without its config.
Nothing of a file with such a mistake is begun. An entry for which a server waits is not checked: it comes from there,
wherever the file was, and `metadata` answers its mistakes.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping

from heat_config_agent.deployments import metadata, selection
from heat_config_agent.diagnostics import kinds
from heat_config_agent.diagnostics.mistakes import Invalid, ordered
from heat_config_agent.diagnostics.text import Reading, parts
from heat_config_agent.diagnostics.words import among, meant
from heat_config_agent.model.deployment import (
    COMPONENT,
    DELETE,
    TOOLLESS,
    Deployment,
    Document,
)
from heat_config_agent.model.mistake import Mistake
from heat_config_agent.model.positions import Path, Place, dotted
from heat_config_hooks import strict_json

_WITHOUT_CONFIG = TOOLLESS | {"apply-config"}
"""Groups whose deployments need no config."""


def check(content: bytes, name: str) -> object:
    """Return the value of a document that was written by hand in the file `name`.

    Raises `Invalid` with all mistakes of the document. Mistakes that make only their own entry fail are raised only
    together with others.
    """
    kind, hint = kinds.of_content(content)
    if kind:
        raise Invalid([_of_kind(name, kind, hint)])
    reading = Reading(name, content)
    if not reading.readable or isinstance(reading.value, str) or reading.value is None:
        kind, hint = kinds.of_text(content.decode("utf-8", "replace"))
        if kind:
            raise Invalid([_of_kind(name, kind, hint)])
        if reading.mistakes:
            raise Invalid(ordered(reading.mistakes))
    if metadata.is_template(reading.value):
        return reading.value  # the reader of templates has its own words for mistakes
    value = alone(reading.value)
    if not isinstance(value, Mapping) or "deployments" not in value:
        kind, hint = kinds.of_value(reading.value)
        if isinstance(value, Mapping) and not kind:
            kind, hint = kinds.of_text(content.decode("utf-8", "replace"))
        if kind:
            raise Invalid([_of_kind(name, kind, hint)])
    strict = [*reading.mistakes, *_unknown(reading, value)]
    if strict:
        others = _others(reading, value) if _parsed(value).understood else ()
        raise Invalid(ordered([*strict, *others]))
    return value


def alone(value: object) -> object:
    """Return a document; a list with the only entry of a file that is a single deployment."""
    if (
        not isinstance(value, Mapping)
        or not value
        or "deployments" in value
        or "os-collect-config" in value
    ):
        return value
    if value.keys() >= {"id", "group", "config"}:
        return value  # as in every document
    has = value.keys() & metadata.KEYS
    near = [
        key
        for key in value
        if key not in metadata.KEYS and meant(str(key), ("group", "config"))
    ]
    return [value] if has & {"group", "config"} and len(has) + len(near) >= 2 else value


def located(content: bytes, name: str, path: str) -> str:
    """Return the place of a part of a document, with its path for people: `site.yaml:3:5: web.inputs[0]`."""
    reading = Reading(name, content)
    way = _way(reading, path)
    first, *rest = reading.shown(way) or ("",)
    # names stay in quotation marks where the path has them
    words = [text for text, _ in parts(path)]
    shown = dotted((first,)) + "".join(words[len(words) - len(rest) :])
    return f"{reading.place(way)}" + (f": {shown}" if shown else "")


def _of_kind(name: str, kind: str, hint: str) -> Mistake:
    problem = f"this is {kind}, and not a document of deployments"
    return Mistake(problem, (), Place(name, 1, 1), hint)


def _others(reading: Reading, value: object) -> Iterator[Mistake]:
    """Yield the mistakes for which only an entry fails."""
    for mistake in _parsed(value).mistakes:
        yield reading.mistake(mistake.problem, _way(reading, mistake.path))


def _has_deployments(value: Mapping[str, object]) -> bool:
    return (
        not value.keys().isdisjoint({"deployments", "os-collect-config"})
        or value.keys() >= _ALONE
    )


_ALONE = {"id", "group", "config"}
"""The keys of a deployment that is a document."""


def _parsed(value: object) -> metadata.Parsed:
    return metadata.parse(Document(source="", content=value), by_name=True)


def _way(reading: Reading, path: str) -> Path:
    """Return the way to a part in the file; its deployment may stand alone there."""
    way = tuple(step for _, step in parts(path))
    if way[:1] == ("deployments",) and isinstance(reading.value, list):
        # several files form one document
        return way[1:]
    return (
        way[1:]
        if way and isinstance(way[0], int) and isinstance(reading.value, Mapping)
        else way
    )


def _unknown(reading: Reading, value: object) -> Iterator[Mistake]:
    """Yield the mistakes that are mistakes only where a person has written them."""
    if isinstance(value, Mapping) and not _has_deployments(value):
        misspelt = [
            (str(key), hint)
            for key in value
            if (hint := meant(str(key), ("deployments",)))
        ]
        for key, hint in misspelt:
            yield reading.mistake(
                f"there is no key {metadata.quoted(key)}", (key,), hint
            )
        if misspelt:
            return
    parsed = _parsed(value)
    if not parsed.understood and not reading.mistakes:
        for mistake in parsed.mistakes:
            yield reading.mistake(
                mistake.problem,
                () if mistake.path == "$" else _way(reading, mistake.path),
            )
    seen: dict[str, str] = {}
    for deployment in parsed.deployments:
        if deployment.target.wanted or not deployment.document:
            continue
        way = _way(reading, deployment.where)
        yield from _of_entry(reading, deployment, way)
        name = deployment.document.get("name")
        if not deployment.id and (not isinstance(name, str) or not name):
            yield reading.mistake(metadata.NO_IDENTITY, (*way, "id"))
        elif not deployment.id and isinstance(name, str):
            first = seen.setdefault(name, deployment.where)
            if first != deployment.where:
                other = reading.place((*_way(reading, first), "name"))
                problem = (
                    f"the name {name!r} is also that of {first} in line {other.line}, "
                    "and neither of them has an id"
                )
                yield reading.mistake(problem, (*way, "name"), "rename one of them")


def _of_entry(reading: Reading, deployment: Deployment, way: Path) -> Iterator[Mistake]:
    entry = deployment.document
    wrong = functools.partial(_keys, reading)
    yield from wrong(entry, way, metadata.KEYS, "a deployment")
    for field, keys, kind in (
        ("inputs", metadata.INPUT_KEYS, "an input"),
        ("outputs", metadata.OUTPUT_KEYS, "an output"),
    ):
        items = entry.get(field)
        names: dict[object, int] = {}
        for index, item in enumerate(items if isinstance(items, list) else ()):
            if isinstance(item, Mapping):
                yield from wrong(item, (*way, field, index), keys, kind)
                name = item.get("name")
                if isinstance(name, str) and names.setdefault(name, index) != index:
                    problem = f"{kind} with the name {metadata.quoted(name)} is there already: {field}[{names[name]}]"
                    yield reading.mistake(
                        problem,
                        (*way, field, index, "name"),
                        "remove or rename one of them",
                    )
                if field == "inputs":
                    yield from _type(reading, item, (*way, field, index))
    yield from _work(reading, deployment, way)
    if deployment.group == COMPONENT:
        yield from _component(reading, deployment, (*way, "config"))


def _work(reading: Reading, deployment: Deployment, way: Path) -> Iterator[Mistake]:
    """Yield the mistakes of a deployment that would run nothing, and succeed."""
    entry = deployment.document
    misspelt = {meant(key, metadata.KEYS) for key in entry.keys() - metadata.KEYS}
    if (
        entry.get("group") is None
        and entry.get("config") is not None
        and "did you mean group?" not in misspelt
    ):
        problem = "there is no `group`, which names the tool that the config is for"
        yield reading.mistake(problem, way, "a shell script has `group: script`")
    group = selection.tool_name(deployment.group)
    is_needed = (
        entry.get("group") is not None
        and group not in _WITHOUT_CONFIG
        and deployment.group not in TOOLLESS
    )
    is_there = entry.get("config") is not None or "did you mean config?" in misspelt
    if is_needed and not is_there and deployment.action != DELETE:
        yield reading.mistake(f"there is no `config` for {group}", way)


def _type(reading: Reading, item: Mapping[str, object], way: Path) -> Iterator[Mistake]:
    kind = item.get("type")
    if isinstance(kind, str) and kind not in metadata.TYPES:
        hint = among(kind, metadata.TYPES, "the types are")
        yield reading.mistake(
            f"there is no type {metadata.quoted(kind)}", (*way, "type"), hint
        )


def _component(
    reading: Reading, deployment: Deployment, way: Path
) -> Iterator[Mistake]:
    config, inside = deployment.config, way
    if isinstance(config, str):
        try:
            config = strict_json.loads(config)
        except ValueError:
            return  # `selection` reports it
    if not isinstance(config, Mapping):
        return
    yield from _keys(
        reading, config, inside, frozenset({"configs"}), "a component's config"
    )
    items = config.get("configs")
    actions: list[str] = []
    for index, item in enumerate(items if isinstance(items, list) else ()):
        if isinstance(item, Mapping):
            way_in = (*inside, "configs", index)
            yield from _keys(
                reading, item, way_in, metadata.CONFIG_KEYS, "a config of a component"
            )
            listed = item.get("actions")
            actions += (
                [each for each in listed if isinstance(each, str)]
                if isinstance(listed, list)
                else []
            )
    for number, given in enumerate(_inputs(deployment)):
        action = given.get("value")
        if (
            given.get("name") == "deploy_action"
            and isinstance(action, str)
            and action not in (*actions, *metadata.ACTIONS)
        ) and (hint := meant(action, (*metadata.ACTIONS, *actions))):
            problem = (
                f"the component has no config for the action {metadata.quoted(action)}"
            )
            yield reading.mistake(problem, (*way[:-1], "inputs", number, "value"), hint)


def _inputs(deployment: Deployment) -> list[Mapping[str, object]]:
    inputs = deployment.document.get("inputs")
    return (
        [each if isinstance(each, Mapping) else {} for each in inputs]
        if isinstance(inputs, list)
        else []
    )


def _keys(
    reading: Reading,
    value: Mapping[str, object],
    way: Path,
    known: frozenset[str],
    kind: str,
) -> Iterator[Mistake]:
    """Yield a mistake for each unknown key."""
    for key in value:
        if key not in known:
            rest = sorted(known - value.keys() - metadata.RARE)
            hint = (
                meant(key, rest)
                or f"{kind} has {', '.join(sorted(known - metadata.RARE))}"
            )
            yield reading.mistake(
                f"there is no key {metadata.quoted(key)}", (*way, key), hint
            )
