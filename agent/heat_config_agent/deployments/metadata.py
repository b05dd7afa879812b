"""Parses a document into deployments, and reports each mistake with its path in the document. Pure.

A document is Heat's server metadata (an object with `deployments`), the bare list that os-apply-config's template
writes to `/var/run/heat-config/heat-config`, or a single deployment. A mistake in one entry fails only that deployment;
the others are applied. Unknown keys are kept and passed on.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping

from heat_config_agent.masking import redaction
from heat_config_agent.model.deployment import (
    COMPONENT,
    HOT_KEYS,
    STANDARD_OUTPUTS,
    TOSCA_KEYS,
    Credentials,
    Deployment,
    Document,
    Input,
    Mistake,
    Output,
    Target,
    reference_in,
)
from heat_config_hooks import protocol
from heat_config_hooks.values import dataclass, replace

KEYS = frozenset(
    {
        "id",
        "name",
        "group",
        "config",
        "inputs",
        "outputs",
        "options",
        "creation_time",
        "project",
    }
)
"""The keys of a deployment that Heat sends."""

INPUT_KEYS = frozenset(
    {
        "name",
        "type",
        "value",
        "description",
        "default",
        "hidden",
        "no_echo",
        "replace_on_change",
    }
)
OUTPUT_KEYS = frozenset({"name", "type", "description", "error_output"})

CONFIG_KEYS = frozenset({"actions", "tool", "config"})
"""The keys of a config of a component."""

ACTIONS = (
    "CREATE",
    "UPDATE",
    "DELETE",
    "SUSPEND",
    "RESUME",
    "ADOPT",
    "CHECK",
    "SNAPSHOT",
    "RESTORE",
    "ROLLBACK",
)
"""The actions of stacks. A deployment may have others."""

TYPES = ("String", "Number", "Boolean", "CommaDelimitedList", "Json")
"""The types of inputs in Heat."""

RARE = frozenset({"creation_time", "project", "no_echo", "replace_on_change"})
"""Keys that only Heat writes, not people."""

NO_IDENTITY = "every deployment needs an id, or a name of its own in its place"

_TEMPLATES = {HOT_KEYS[0]: "HOT template", TOSCA_KEYS[0]: "TOSCA service template"}

_SHOWN = 100
"""The most characters of a name that a message repeats."""

# `re` compiles these patterns when they are first used: most documents need none of them.
_HALF = "[\ud800-\udfff]"
"""Half of a surrogate pair, which JSON can contain and the name of a file cannot."""

_LONGEST_REFERENCE = 500

_LARGE = 1e20
"""A message does not repeat a number of this size or more: it may have thousands of digits."""


@dataclass(frozen=True)
class Parsed:
    """The deployments and mistakes of one document."""

    deployments: tuple[Deployment, ...]
    mistakes: tuple[Mistake, ...] = ()
    """All mistakes in the document."""
    understood: bool = True
    """False if the document has no list of deployments, so that it does not say which deployments have left."""


def parse(document: Document, *, by_name: bool = False) -> Parsed:
    """Return all deployments of a document, in its order, and its mistakes.

    With `by_name`, a deployment with a name needs no id: `edition` has not completed the document yet.
    """
    entries, where, mistake = _entries(document.content)
    if mistake:
        return Parsed((), tuple(_placed([mistake], document)), understood=False)
    deployments: dict[str, Deployment] = {}
    named: dict[str, Deployment] = {}
    mistakes: list[Mistake] = []
    evidence = document.signatures, document.signed_configs
    for index, entry in enumerate(entries):
        deployment = _deployment(
            entry, f"{where}[{index}]", document, evidence, by_name=by_name
        )
        before = named.setdefault(deployment.name, deployment)
        if (
            deployment.mistakes
            and deployment.name
            and before.document != deployment.document
        ):
            deployment = _second_of_its_name(deployment, before, document)
        if document.located is not None:
            mistaken = tuple(_placed(deployment.mistakes, document))
            deployment = replace(
                deployment, located=document.located, mistakes=mistaken
            )
        first = deployments.get(deployment.key)
        if first and first.document == deployment.document:
            continue  # the same entry twice is the same work
        if first:
            deployment = _second_of_its_id(deployment, first, document)
        mistakes += deployment.mistakes
        deployments[deployment.key] = deployment
    return Parsed(tuple(deployments.values()), tuple(mistakes))


def _second_of_its_name(
    deployment: Deployment, first: Deployment, document: Document
) -> Deployment:
    """Return a deployment with the name of an earlier one; if its name would have to be its id, its mistake says so."""
    reason = (
        f"the name {quoted(deployment.name)} is also that of {_place(first, document)}"
    )
    mistakes = (
        replace(each, problem=f"{each.problem}; {reason}")
        if each.problem == NO_IDENTITY
        else each
        for each in deployment.mistakes
    )
    return replace(deployment, mistakes=tuple(mistakes))


def _place(deployment: Deployment, document: Document, key: str = "") -> str:
    """Return the place of a deployment in its file, such as `site.yaml:3:5`; its path if no file has it."""
    if document.located is None:
        return deployment.where
    return (
        document.located(Mistake(path=f"{deployment.where}{key}", problem="")).position
        or deployment.where
    )


def _placed(mistakes: Iterable[Mistake], document: Document) -> Iterable[Mistake]:
    """Return mistakes with their places, if the document is a file whose text has them."""
    return [
        document.located(mistake) if document.located else mistake
        for mistake in mistakes
    ]


class Reader:
    """Parses each document once: it keeps the parsed value of the last document of each source."""

    def __init__(self) -> None:
        """Begin without any document."""
        self._known: dict[str, tuple[Document, Parsed]] = {}

    def parse(self, document: Document) -> Parsed:
        """Return the parsed document: the value from last time if it is the very same object.

        A document that is not metadata is not kept, because the one before it stays in force.
        """
        before, parsed = self._known.get(document.source, (None, None))
        if parsed is None or before is not document:
            parsed = parse(document)
            if parsed.understood:
                self._known[document.source] = document, parsed
        return parsed


def is_template(content: object) -> bool:
    """Return whether a document is a template; CloudFormation's are refused as such."""
    return isinstance(content, dict) and not content.keys().isdisjoint(
        (*HOT_KEYS, *TOSCA_KEYS)
    )


def is_plain(content: object) -> bool:
    """Return whether the deployments of a document have only known keys, and all required ones.

    For any other document `written` says what may be wrong.
    """
    entries, _, mistake = _entries(content)
    if mistake or not (isinstance(content, list) or "deployments" in content):  # type: ignore[operator]
        return False
    names: set[object] = set()
    for entry in entries:
        if not isinstance(entry, dict) or not entry.keys() <= KEYS:
            return False
        if entry.get("config") is None or entry.get("group") is None:
            return False
        if entry["group"] == COMPONENT and not _is_plain_component(entry):
            return False
        if entry.get("id") is None:
            name = entry.get("name")
            if not isinstance(name, str) or not name or name in names:
                return False
            names.add(name)
        for field, keys in (("inputs", INPUT_KEYS), ("outputs", OUTPUT_KEYS)):
            items = entry.get(field)
            if items is not None and not (
                isinstance(items, list)
                and all(
                    isinstance(item, dict) and item.keys() <= keys for item in items
                )
                and len({str(item.get("name")) for item in items}) == len(items)
                and all(
                    item.get("type", "String") in TYPES
                    for item in (items if keys is INPUT_KEYS else ())
                )
            ):
                return False
    return True


def _is_plain_component(entry: Mapping[str, object]) -> bool:
    """Return whether the config of a component has known keys alone, and names a known action."""
    config, inputs = entry["config"], entry.get("inputs")
    configs = (
        config.get("configs") if isinstance(config, dict) and len(config) == 1 else None
    )
    given = (
        [each for each in inputs if isinstance(each, dict)]
        if isinstance(inputs, list)
        else []
    )
    named = [each.get("value") for each in given if each.get("name") == "deploy_action"]
    return (
        isinstance(configs, list)
        and all(
            isinstance(each, dict) and each.keys() <= CONFIG_KEYS for each in configs
        )
        and all(action in ACTIONS for action in named)
    )


def is_by_hand(document: Document) -> bool:
    """Return whether people write a document: its deployments need no ids."""
    return document.located is not None or document.source in ("local", "file")


def lacks_ids(documents: Iterable[Document]) -> bool:
    """Return whether a document that a person has written has a deployment without an id."""
    for document in documents:
        if is_by_hand(document):
            entries, _, _ = _entries(document.content)
            if not all(
                isinstance(entry, dict) and entry.get("id") for entry in entries
            ):
                return True
    return False


def parse_all(
    documents: Iterable[Document], parse: Callable[[Document], Parsed] = parse
) -> tuple[list[Deployment], frozenset[str], list[Mistake]]:
    """Return the deployments of all documents, the sources that answered with a list of them, and all mistakes."""
    deployments: dict[str, Deployment] = {}
    sources: set[str] = set()
    mistakes: list[Mistake] = []
    by_source: dict[str, Document] = {}
    for document in documents:
        by_source[document.source] = document
        parsed = parse(document)
        mistakes += parsed.mistakes
        if parsed.understood and not document.is_part:
            sources.add(document.source)
        for deployment in parsed.deployments:
            first = deployments.setdefault(deployment.key, deployment)
            if first.document != deployment.document:
                other = by_source[first.source]
                place = (
                    first.source
                    if other.located is None
                    else _place(first, other, ".id")
                )
                problem = f"{quoted(deployment.id)} is also the id of one in {place}; that one is applied"
                mistake = Mistake(path=f"{deployment.where}.id", problem=problem)
                located = (
                    document.located(mistake).place
                    if document.located is not None
                    else ""
                )
                mistakes.append(
                    replace(
                        mistake,
                        path=f"{document.source}: {mistake.path}",
                        place=located,
                    )
                )
    return list(deployments.values()), frozenset(sources), mistakes


def _entries(content: object) -> tuple[list[object], str, Mistake | None]:
    """Return the entries and the path of their list, and a mistake if there is no such list."""
    if isinstance(content, list):
        return content, "", None
    if not isinstance(content, Mapping):
        kind = "an empty document" if content is None else kind_of(content)
        problem = f"expected deployments (an object with `deployments`, or a list), not {kind}"
        return [], "", Mistake(path="$", problem=problem)
    for key, language in _TEMPLATES.items():
        if key in content:
            problem = f"this is a {language}, not deployment metadata: create a stack from it with heat-config-apply"
            return [], "", Mistake(path=key, problem=problem)
    entries = content.get("deployments")
    if isinstance(entries, list):
        return entries, "deployments", None
    if entries is None and ("deployments" in content or "os-collect-config" in content):
        return [], "deployments", None  # Heat's metadata before the first deployment
    if entries is None:
        if content.keys() >= {"id", "group", "config"}:
            return [content], "", None
        hint = (
            "; a single deployment needs `id`, `group` and `config`"
            if "config" in content
            else ""
        )
        if "resources" in content or TOSCA_KEYS[1] in content:
            hint = f"; a template has {' or '.join(_TEMPLATES)}"
        return (
            [],
            "",
            Mistake(
                path="$", problem=f"there is no `deployments` in this object{hint}"
            ),
        )
    return (
        [],
        "",
        Mistake(path="deployments", problem=f"expected a list, not {kind_of(entries)}"),
    )


def _second_of_its_id(
    deployment: Deployment, first: Deployment, document: Document
) -> Deployment:
    """Return a deployment with the id of an earlier one: with a mistake, so that it fails.

    Its own target receives the failure, but never the target of the first one, which waits for the first result.
    """
    problem = f"{quoted(deployment.id)} is also the id of {_place(first, document, '.id')}; ids must be unique"
    mistake = Mistake(path=f"{deployment.where}.id", problem=problem)
    if document.located is not None:
        mistake = document.located(mistake)
    return replace(
        deployment,
        key=_digest(deployment.document),
        target=Target(kind="none")
        if deployment.target == first.target
        else deployment.target,
        mistakes=(*deployment.mistakes, mistake),
    )


class _Entry:
    """Reads the fields of one entry with their expected types, and collects the mistakes."""

    def __init__(self, data: Mapping[str, object], where: str) -> None:
        self.data = data
        self.where = where
        self.mistakes: list[Mistake] = []

    def wrong(self, path: str, problem: str) -> None:
        self.mistakes.append(
            Mistake(
                path=f"{self.where}.{path}" if path else self.where, problem=problem
            )
        )

    def text(self, name: str, default: str = "") -> str:
        value = self.data.get(name)
        if value is None:
            return default
        if not isinstance(value, str):
            self.wrong(name, f"expected text, not {kind_of(value)}")
            return default
        return value

    def maps(self, name: str) -> list[tuple[int, Mapping[str, object]]]:
        """Return the objects with a `name` in a list of objects, each with its index."""
        items = self.data.get(name)
        if items is None:
            return []
        if not isinstance(items, list):
            self.wrong(name, f"expected a list of objects, not {kind_of(items)}")
            return []
        named = []
        for index, item in enumerate(items):
            if (
                isinstance(item, (dict, Mapping))
                and isinstance(item.get("name"), str)
                and item["name"]
            ):
                named.append((index, item))
            elif not isinstance(item, Mapping):
                self.wrong(
                    f"{name}[{index}]",
                    f"expected an object with a `name`, not {kind_of(item)}",
                )
            else:
                self.wrong(
                    f"{name}[{index}].name",
                    "expected a name"
                    if "name" not in item
                    else f"expected a name, not {kind_of(item['name'])}",
                )
        return named


def _deployment(
    raw: object,
    where: str,
    document: Document,
    evidence: tuple[tuple[str, ...], tuple[str, ...]],
    *,
    by_name: bool,
) -> Deployment:
    """Return the deployment of an entry. With `by_name`, it needs no id if it has a name."""
    source = document.source
    if not isinstance(raw, Mapping):
        mistake = Mistake(
            path=where,
            problem=f"expected an object that describes a deployment, not {kind_of(raw)}",
        )
        return _unreadable(raw, where, source, mistake)
    entry = _Entry(raw, where)
    identity = _identity(entry, by_name=by_name, by_hand=is_by_hand(document))
    inputs = tuple(_inputs(entry))
    outputs = tuple(_outputs(entry))
    options = raw.get("options")
    if options is not None and not isinstance(options, Mapping):
        entry.wrong("options", f"expected an object, not {kind_of(options)}")
    deployment = Deployment(
        id=identity,
        key=key_of(identity) if identity else _digest(raw),
        name=entry.text("name") or identity,
        group=entry.text("group", "Heat::Ungrouped") or "Heat::Ungrouped",
        config=raw.get("config"),
        inputs=inputs,
        outputs=outputs,
        options=options if isinstance(options, Mapping) else {},
        creation_time=entry.text("creation_time"),
        target=_target({item.name: item.value for item in inputs}),
        document=raw,
        source=source,
        where=where,
        signatures=evidence[0],
        signed_configs=evidence[1],
        mistakes=tuple(entry.mistakes),
    )
    shown = redaction.name_of(deployment, deployment.name, only_distinctive=True)
    return deployment if shown == deployment.name else replace(deployment, name=shown)


def key_of(identity: str) -> str:
    """Return the key of a deployment. An id that looks like the digest of another one gets a digest too."""
    return protocol.file_key(
        f"id {identity}" if identity.startswith("sha256-") else identity
    )


def _identity(entry: _Entry, *, by_name: bool, by_hand: bool) -> str:
    value = entry.data.get("id")
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)  # YAML's reading of an unquoted number
    if isinstance(value, str) and value:
        return value
    if value not in (None, ""):
        entry.wrong("id", f"expected text, not {kind_of(value)}")
    elif not (
        by_name and isinstance(entry.data.get("name"), str) and entry.data["name"]
    ):
        entry.wrong(
            "id", NO_IDENTITY if by_name or by_hand else "every deployment needs an id"
        )
    return ""


def _inputs(entry: _Entry) -> Iterable[Input]:
    for index, item in entry.maps("inputs"):
        kind = item.get("type", "String")
        if not isinstance(kind, str):
            entry.wrong(
                f"inputs[{index}].type",
                f"expected the name of a type, not {kind_of(kind)}",
            )
            kind = "String"
        value = item.get("value", item.get("default"))
        references = _references(value, kind) if value else ()
        if references and (problem := _unusable(references, str(item["name"]))):
            entry.wrong(f"inputs[{index}].value", problem)
        if not isinstance(value, str) and needs_text(item):
            value = protocol.as_text(value)
        hidden = item.get("hidden") is True or item.get("no_echo") is True
        yield Input(
            name=str(item["name"]),
            value=value,
            type=kind,
            hidden=hidden,
            references=references,
        )


def _references(value: object, kind: str) -> tuple[str, ...]:
    """Return the references in the value of an input: the value itself, or members of an object that stays one."""
    if reference := reference_in(value):
        return (reference,)
    if not isinstance(value, dict) or kind == "String":
        return ()
    return tuple(
        reference
        for member in value.values()
        if member and (reference := reference_in(member))
    )


def resolved(value: object, secrets: Mapping[str, str]) -> object:
    """Return the value of an input with secrets, by reference, in the place of the references in it."""
    if reference := reference_in(value):
        return secrets.get(reference, value)
    if not isinstance(value, dict):
        return value
    return {
        name: secrets.get(reference_in(member), member)
        for name, member in value.items()
    }


def _unusable(references: Iterable[str], name: str) -> str:
    """Return why references cannot be used for the input of that name; empty if they can."""
    if name.startswith("deploy_"):
        return (
            "the inputs deploy_… are for the agent, and cannot be references to secrets"
        )
    for reference in references:
        text = reference.partition(":")[2]
        if not text or len(text) > _LONGEST_REFERENCE or not text.isprintable():
            return f"expected SCHEME:REFERENCE with a reference of 1 to {_LONGEST_REFERENCE} printable characters"
    return ""


def needs_text(item: Mapping[str, object]) -> bool:
    """Return True if an input is declared as text and its value is not: it is converted, as heat-agents does."""
    value = item.get("value", item.get("default"))
    return (
        item.get("type") == "String"
        and not isinstance(value, str)
        and not reference_in(value)
    )


def _outputs(entry: _Entry) -> Iterable[Output]:
    for index, item in entry.maps("outputs"):
        name, path = str(item["name"]), f"outputs[{index}]"
        if "/" in name or "\0" in name:
            problem = f"{quoted(name)} cannot be an output: its name is also a file name, so it must not contain '/'"
            entry.wrong(f"{path}.name", problem)
        elif re.search(_HALF, name):
            entry.wrong(
                f"{path}.name",
                f"{quoted(name)} cannot be an output: it contains half of a character",
            )
        elif name in STANDARD_OUTPUTS:
            yield Output(name=name)  # a template may declare the standard outputs
        else:
            yield Output(name=name, error_output=item.get("error_output") is True)


def _target(inputs: Mapping[str, object]) -> Target:
    """Return the target of the result, from the inputs in which Heat names it, by the rules of `heat-config-notify`."""

    def text(name: str) -> str:
        value = inputs.get(name)
        return value if isinstance(value, str) else ""

    addressee = (
        f"{text('deploy_stack_id')}/{text('deploy_resource_name')}"
        if text("deploy_resource_name")
        else ""
    )
    if text("deploy_signal_transport") == "NO_SIGNAL":
        return Target(kind="none", addressee=addressee)
    if url := text("deploy_signal_id"):
        verb = (text("deploy_signal_verb") or "POST").upper()
        return Target(
            kind="url", url=url, verb=verb, addressee=addressee or addressee_at(url)
        )
    credentials = Credentials(
        auth_url=text("deploy_auth_url"),
        user_id=text("deploy_user_id"),
        password=text("deploy_password"),
        project_id=text("deploy_project_id"),
        region_name=text("deploy_region_name"),
    )
    if queue := text("deploy_queue_id"):
        return Target(
            kind="zaqar",
            addressee=addressee or queue,
            credentials=credentials,
            queue=queue,
        )
    if credentials.auth_url:
        return Target(
            kind="heat",
            addressee=addressee,
            credentials=credentials,
            stack=text("deploy_stack_id"),
            resource=text("deploy_resource_name"),
        )
    return Target(kind="none", addressee=addressee)


def _unreadable(raw: object, where: str, source: str, mistake: Mistake) -> Deployment:
    return Deployment(
        id="",
        key=_digest(raw),
        name=where,
        group="",
        config=None,
        inputs=(),
        outputs=(),
        options={},
        creation_time="",
        target=Target(kind="none"),
        document={},
        source=source,
        where=where,
        mistakes=(mistake,),
    )


def addressee_at(url: str) -> str:
    """Return the addressee for a signal URL: a digest of it, because this is kept for longer than secrets are."""
    return protocol.file_key(f"url {url}")


def _digest(raw: object) -> str:
    """Return a key for an entry without an id, from its content."""
    return protocol.file_key("entry " + json.dumps(raw, sort_keys=True, default=str))


def quoted(text: str) -> str:
    """Return text from a document as a message shows it: quoted, and only the beginning of long text."""
    return repr(text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…")


def kind_of(value: object) -> str:
    """Return the type of a JSON value in words, for a message."""
    if isinstance(value, bool):
        return f"{json.dumps(value)}"
    if isinstance(value, int | float):
        return f"the number {value}" if abs(value) < _LARGE else "a number"
    if isinstance(value, str):
        return "text"
    if value is None:
        return "null"
    return "a list" if isinstance(value, list) else "an object"
