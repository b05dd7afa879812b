"""Document → deployments. Pure; every mistake with its path in the document.

A document is what a source answered: Heat's server metadata (an object with `deployments`) or the bare list that
os-apply-config's template leaves in `/var/run/heat-config/heat-config`. A mistake in one entry is that deployment's
own: it will be answered as failed, and the others are applied. Unknown keys are kept and passed on.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping

from heat_config_agent.model import STANDARD_OUTPUTS, Credentials, Deployment, Document, Input, Mistake, Output, Target
from heat_config_hooks import protocol
from heat_config_hooks.values import dataclass, replace

_SHOWN = 100
"""Characters of a name that a sentence repeats at most."""

_HALF = re.compile("[\ud800-\udfff]")
"""Half of a surrogate pair, as JSON may have it and the name of a file cannot."""

_LARGE = 1e20
"""A number that is no smaller is not repeated: it may have thousands of digits."""


@dataclass(frozen=True)
class Parsed:
    """What was read from one document."""

    deployments: tuple[Deployment, ...]
    mistakes: tuple[Mistake, ...] = ()
    """Every mistake in it."""
    understood: bool = True
    """Whether it has a list of deployments: of a document that has none, nothing is known of what it should hold."""


def parse(document: Document) -> Parsed:
    """Read all deployments of a document, in its order."""
    entries, where, mistake = _entries(document.content)
    if mistake:
        return Parsed((), (mistake,), understood=False)
    found: dict[str, Deployment] = {}
    mistakes: list[Mistake] = []
    for index, entry in enumerate(entries):
        deployment = _deployment(entry, f"{where}[{index}]", document.source)
        first = found.get(deployment.key)
        if first and first.document == deployment.document:
            continue  # the same entry twice is the same work
        if first:
            deployment = _second_of_its_id(deployment, first)
        mistakes += deployment.mistakes
        found[deployment.key] = deployment
    return Parsed(tuple(found.values()), tuple(mistakes))


class Reader:
    """Parses documents, and the very one that a source gave before not again."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[Document, Parsed]] = {}

    def parse(self, document: Document) -> Parsed:
        """Return what `parse` does."""
        before, parsed = self._known.get(document.source, (None, None))
        if parsed is None or before is not document:
            parsed = parse(document)
            self._known[document.source] = document, parsed
        return parsed


def parse_all(
    documents: Iterable[Document], parse: Callable[[Document], Parsed] = parse
) -> tuple[list[Deployment], frozenset[str], list[Mistake]]:
    """Return the deployments of all documents, the sources that answered with some list of them, and what is wrong."""
    deployments: dict[str, Deployment] = {}
    sources: set[str] = set()
    mistakes: list[Mistake] = []
    for document in documents:
        parsed = parse(document)
        mistakes += parsed.mistakes
        if parsed.understood:
            sources.add(document.source)
        for each in parsed.deployments:
            first = deployments.setdefault(each.key, each)
            if first.document != each.document:
                problem = f"{quoted(each.id)} is the id of another deployment in {first.source}; that one is applied"
                mistakes.append(Mistake(path=f"{document.source}: {each.where}.id", problem=problem))
    return list(deployments.values()), frozenset(sources), mistakes


def _entries(content: object) -> tuple[list[object], str, Mistake | None]:
    """Return the entries, the path of their list, and what is wrong where there is none."""
    if isinstance(content, list):
        return content, "", None
    if not isinstance(content, Mapping):
        kind = "an empty document" if content is None else kind_of(content)
        return (
            [],
            "",
            Mistake(path="$", problem=f"expected deployments (an object with `deployments`, or a list), not {kind}"),
        )
    if "heat_template_version" in content:
        problem = "this is a HOT template, not deployment metadata: heat-config-apply makes a stack of it"
        return [], "", Mistake(path="heat_template_version", problem=problem)
    entries = content.get("deployments")
    if isinstance(entries, list):
        return entries, "deployments", None
    if entries is None and ("deployments" in content or "os-collect-config" in content):
        return [], "deployments", None  # Heat's metadata before the first deployment
    if entries is None:
        alone = "; one deployment is given as a list of one" if "config" in content else ""
        return [], "", Mistake(path="$", problem=f"there is no `deployments` in this object{alone}")
    return [], "", Mistake(path="deployments", problem=f"expected a list, not {kind_of(entries)}")


def _second_of_its_id(deployment: Deployment, first: Deployment) -> Deployment:
    """Return a deployment whose id another one has, as the failed one that it is.

    It says so to its own target, but never to the first one's: there only the first one's result may arrive.
    """
    mistake = Mistake(
        path=f"{deployment.where}.id", problem=f"{quoted(deployment.id)} is the id of {first.where} too; ids are unique"
    )
    return replace(
        deployment,
        key=_digest(deployment.document),
        target=Target(kind="none") if deployment.target == first.target else deployment.target,
        mistakes=(*deployment.mistakes, mistake),
    )


class _Entry:
    """One entry being read: hands out fields of the right type and collects what is wrong."""

    def __init__(self, data: Mapping[str, object], where: str) -> None:
        self.data = data
        self.where = where
        self.mistakes: list[Mistake] = []

    def wrong(self, path: str, problem: str) -> None:
        self.mistakes.append(Mistake(path=f"{self.where}.{path}" if path else self.where, problem=problem))

    def text(self, name: str, default: str = "") -> str:
        value = self.data.get(name)
        if value is None:
            return default
        if not isinstance(value, str):
            self.wrong(name, f"expected text, not {kind_of(value)}")
            return default
        return value

    def maps(self, name: str) -> list[tuple[int, Mapping[str, object]]]:
        """Return the index and the value of each object in a list of objects that have a `name`."""
        items = self.data.get(name)
        if items is None:
            return []
        if not isinstance(items, list):
            self.wrong(name, f"expected a list of objects, not {kind_of(items)}")
            return []
        found = []
        for index, item in enumerate(items):
            if isinstance(item, (dict, Mapping)) and isinstance(item.get("name"), str) and item["name"]:
                found.append((index, item))
            elif not isinstance(item, Mapping):
                self.wrong(f"{name}[{index}]", f"expected an object with a `name`, not {kind_of(item)}")
            else:
                self.wrong(
                    f"{name}[{index}].name",
                    "expected a name" if "name" not in item else f"expected a name, not {kind_of(item['name'])}",
                )
        return found


def _deployment(raw: object, where: str, source: str) -> Deployment:
    if not isinstance(raw, Mapping):
        mistake = Mistake(path=where, problem=f"expected an object that describes a deployment, not {kind_of(raw)}")
        return _unreadable(raw, where, source, mistake)
    entry = _Entry(raw, where)
    identity = _identity(entry)
    inputs = tuple(_inputs(entry))
    outputs = tuple(_outputs(entry))
    options = raw.get("options")
    if options is not None and not isinstance(options, Mapping):
        entry.wrong("options", f"expected an object, not {kind_of(options)}")
    return Deployment(
        id=identity,
        key=protocol.file_key(identity) if identity else _digest(raw),
        name=entry.text("name") or identity,
        group=entry.text("group", "Heat::Ungrouped") or "Heat::Ungrouped",
        config=raw.get("config"),
        inputs=inputs,
        outputs=outputs,
        options=options if isinstance(options, Mapping) else {},
        creation_time=entry.text("creation_time"),
        target=_target({each.name: each.value for each in inputs}),
        document=raw,
        source=source,
        where=where,
        mistakes=tuple(entry.mistakes),
    )


def _identity(entry: _Entry) -> str:
    value = entry.data.get("id")
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)  # YAML's reading of an unquoted number
    if isinstance(value, str) and value:
        return value
    entry.wrong("id", "every deployment needs an id" if value in (None, "") else f"expected text, not {kind_of(value)}")
    return ""


def _inputs(entry: _Entry) -> Iterable[Input]:
    for index, item in entry.maps("inputs"):
        kind = item.get("type", "String")
        if not isinstance(kind, str):
            entry.wrong(f"inputs[{index}].type", f"expected the name of a type, not {kind_of(kind)}")
            kind = "String"
        value = item.get("value", item.get("default"))
        if not isinstance(value, str) and says_text(item):
            value = protocol.as_text(value)
        hidden = item.get("hidden") is True or item.get("no_echo") is True
        yield Input(name=str(item["name"]), value=value, type=kind, hidden=hidden)


def says_text(item: Mapping[str, object]) -> bool:
    """Whether an input is said to be text: then it is made text, whatever it carries, as heat-agents does."""
    return item.get("type") == "String" and not isinstance(item.get("value", item.get("default")), str)


def _outputs(entry: _Entry) -> Iterable[Output]:
    for index, item in entry.maps("outputs"):
        name, path = str(item["name"]), f"outputs[{index}]"
        if "/" in name or "\0" in name:
            problem = f"{quoted(name)} cannot be an output: it names a file, so it may have no '/' in it"
            entry.wrong(f"{path}.name", problem)
        elif _HALF.search(name):
            entry.wrong(f"{path}.name", f"{quoted(name)} cannot be an output: there is half of a character in it")
        elif name in STANDARD_OUTPUTS:
            yield Output(name=name)  # the standard ones; a template may declare them
        else:
            yield Output(name=name, error_output=item.get("error_output") is True)


def _target(inputs: Mapping[str, object]) -> Target:
    """Where the result goes, from the inputs with which Heat says so.

    See 55-heat-config's companion, heat-config- notify.
    """

    def text(name: str) -> str:
        value = inputs.get(name)
        return value if isinstance(value, str) else ""

    addressee = f"{text('deploy_stack_id')}/{text('deploy_resource_name')}" if text("deploy_resource_name") else ""
    if text("deploy_signal_transport") == "NO_SIGNAL":
        return Target(kind="none", addressee=addressee)
    if url := text("deploy_signal_id"):
        verb = (text("deploy_signal_verb") or "POST").upper()
        return Target(kind="url", url=url, verb=verb, addressee=addressee or addressee_at(url))
    credentials = Credentials(
        auth_url=text("deploy_auth_url"),
        user_id=text("deploy_user_id"),
        password=text("deploy_password"),
        project_id=text("deploy_project_id"),
        region_name=text("deploy_region_name"),
    )
    if queue := text("deploy_queue_id"):
        return Target(kind="zaqar", addressee=addressee or queue, credentials=credentials, queue=queue)
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
    """Return who waits at a URL; not the URL itself: it is signed, and this stays on record for longer than secrets."""
    return protocol.file_key(f"url {url}")


def _digest(raw: object) -> str:
    """Name an entry by its content where it has no id of its own."""
    return protocol.file_key("entry " + json.dumps(raw, sort_keys=True, default=str))


def quoted(text: str) -> str:
    """Return text from a document for a sentence, of much only the beginning."""
    return repr(text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…")


def kind_of(value: object) -> str:
    """Name the type of a JSON value for a sentence."""
    if isinstance(value, bool):
        return f"{json.dumps(value)}"
    if isinstance(value, int | float):
        return f"the number {value}" if abs(value) < _LARGE else "a number"
    if isinstance(value, str):
        return "text"
    if value is None:
        return "null"
    return "a list" if isinstance(value, list) else "an object"
