"""Operations as they are run: their scripts with the files next to them, their inputs, and the machine (section 11).

The image of a container may implement an operation: the tool `tosca` runs it (section 5.4.3).
"""

from __future__ import annotations

import base64
import posixpath
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from heat_config_agent.model.positions import Json, Path
from heat_config_stack.definition import Tree
from heat_config_stack.tosca.evaluation.evaluation import (
    NOTHING,
    Context,
    Evaluator,
    Subject,
)
from heat_config_stack.tosca.evaluation.later import (
    as_text,
    as_variable,
    computed,
    is_of_states,
    uses,
    written_out,
)
from heat_config_stack.tosca.files.archives import Files
from heat_config_stack.tosca.files.artifacts import (
    MOST_FILES,
    file_path,
    naming_document,
)
from heat_config_stack.tosca.files.documents import Document
from heat_config_stack.tosca.files.processors import (
    CONTAINER,
    OF_IMAGES,
    processor,
    refusal,
)
from heat_config_stack.tosca.language.types import (
    ArtifactDefinition,
    OperationDefinition,
    Type,
)
from heat_config_stack.tosca.topology.templates import (
    Interface,
    variable,
    with_variables,
)
from heat_config_stack.tosca.topology.topology import (
    CONFIGURE,
    STANDARD,
    Layer,
    Link,
    Part,
    Topology,
)

_ARCHIVES = (".tar", ".tar.gz", ".tgz", ".tar.xz", ".tar.bz2")

_LONGEST = 128
"""The most characters of a name of a container."""


def image_name(content: Mapping[str, Json], document: Document) -> str | None:
    """Return the name of an image for podman or docker: with the address of its repository, if it has one.

    `content` is the artifact with `file` and `repository`. None for an archive of an image, which is not loaded.
    """
    name = str(content["file"])
    if name.endswith(_ARCHIVES):
        return None
    repository = content.get("repository")
    if repository is None:
        return name
    url = str((document.repository(repository) or {}).get("url") or "")
    scheme, separator, address = url.partition("://")
    if scheme == "file" or (not separator and not url):
        return None
    address = (address if separator else url).strip("/")
    return f"{address}/{name.lstrip('/')}"


def container(part: Part, image: str, evaluator: Evaluator) -> dict[str, Tree]:
    """Return the config of the container of a node.

    Its ports and volumes are the properties `publish_ports` and `volumes` of the node, or else of the capability that
    hosts it.
    """
    config: dict[str, Tree] = {"name": _name(part), "image": image}
    ports, volumes = (
        _property(part, name, evaluator) for name in ("publish_ports", "volumes")
    )
    if ports:
        config["ports"] = computed(ports, _ports, "publish_ports")
    if volumes:
        config["volumes"] = computed(volumes, _texts, "volumes")
    return config


def _name(part: Part) -> str:
    return (part.id.lstrip("_") or "node")[:_LONGEST]


def _property(part: Part, name: str, evaluator: Evaluator) -> Tree:
    own = evaluator.property_value(part, name)
    if own is not NOTHING and own is not None:
        return own
    for link in part.links:
        if link.hosts and link.capability:
            value = evaluator.capability_value(link.target, link.capability, name)
            if value is not NOTHING and value is not None:
                return value
    return None


def _texts(values: Json) -> list[Json]:
    return [as_text(value) for value in values] if isinstance(values, list) else []


def _ports(values: Json) -> list[Json]:
    """Return ports as podman and docker take them: `8080:80`, `8000-8010:80-90/udp`."""
    ports = []
    for value in values if isinstance(values, list) else ():
        if not isinstance(value, Mapping):
            ports.append(as_text(value))
            continue
        ends = [_end(value, name) for name in ("source", "target")]
        known = [end for end in ends if end]
        if known:
            protocol = as_text(value.get("protocol")) or "tcp"
            suffix = "" if protocol == "tcp" else f"/{protocol}"
            ports.append(f"{known[0]}:{known[-1]}{suffix}")
    return ports


def _end(spec: Mapping[str, Json], name: str) -> str:
    """Return the ports at one end; empty for none."""
    if spec.get(name) is not None:
        return as_text(spec[name])
    limits = spec.get(f"{name}_range")
    if isinstance(limits, list | tuple) and len(limits) == 2:
        return "-".join(map(as_text, limits))
    return ""


ORCHESTRATOR = "ORCHESTRATOR"

VERIFY = "verify"
"""The name of the operation that says whether its node is in effect."""

_ELSEWHERE = "only files of this machine are used"
_BEGINS = "its path begins at the file that names it"


@dataclass(frozen=True, eq=False)
class Operation:
    """An implemented operation of a node or a relationship.

    `Scripts.prepared` returns it with all that is run for it: its files, and the values of its inputs.
    """

    subject: Subject
    interface: Interface
    definition: OperationDefinition
    config: dict[str, Any] = field(default_factory=dict)
    """`primary`, `processor` and `files`; for an image `container`, whose values a run may compute."""
    inputs: dict[str, Tree] = field(default_factory=dict)
    uncompared: dict[str, Tree] = field(default_factory=dict)
    """Inputs whose change runs nothing again: for every target or source (chapter 13), and states of nodes."""
    files: dict[str, Json] = field(default_factory=dict)
    """Files of artifacts that the inputs name."""
    places: list[dict[str, Json]] = field(default_factory=list)
    options: dict[str, Json] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """Its name in its interface."""
        return self.definition.name

    @property
    def implementation(self) -> Mapping[str, Any]:
        """Its implementation."""
        found = self.definition.implemented
        return found.content["implementation"] if found is not None else {}

    @property
    def document(self) -> Document:
        """The document that names the implementation: its files are next to that (chapter 13)."""
        found = self.definition.implemented or self.definition
        return found.names  # type: ignore[return-value]  # normative types have no implementations

    @property
    def path(self) -> Path:
        """The path of the implementation in its document."""
        found = self.definition.implemented or self.definition
        return (*found.path, "implementation")

    @property
    def key(self) -> tuple[int, str, str]:
        """Its identity: the node or relationship, the interface and the name."""
        return (id(self.subject), self.interface.name, self.name)

    def written(self, value: Tree) -> Tree:
        """Return the value of an input as the processor has it: Ansible has types, all others have variables."""
        if self.config.get("processor") == "ansible":
            return written_out(value)
        return as_variable(value)


def lifecycle(subject: Subject) -> dict[str, Operation]:
    """Return the operations of the normative interface of a node or a relationship that are implemented, by name."""
    if subject.template.implements_nothing:
        return {}
    wanted = STANDARD if isinstance(subject, Part) else CONFIGURE
    operations: dict[str, Operation] = {}
    for interface in subject.template.interfaces.values():
        type_ = interface.definition.type if interface.definition else None
        if type_ is None or wanted not in type_.keys:
            continue
        for definition in interface.operations.values():
            if definition.implemented is not None:
                operations.setdefault(
                    definition.name, Operation(subject, interface, definition)
                )
    return operations


def verification(part: Part) -> Operation | None:
    """Return the operation `verify` of a node, in whichever interface; None if there is none."""
    if part.template.implements_nothing:
        return None
    for interface in part.template.interfaces.values():
        definition = interface.operations.get(VERIFY)
        if definition is not None and definition.implemented is not None:
            return Operation(part, interface, definition)
    return None


@dataclass
class Scripts:
    """Makes the scripts and inputs of the operations of one service."""

    topology: Topology
    evaluator: Evaluator
    files: Files
    base: str
    """The folder of the service among the files."""
    folders: Mapping[int, str] = field(default_factory=dict)
    _contents: dict[tuple[int, str], Json] = field(default_factory=dict)
    _private: dict[str, int] = field(default_factory=dict)
    """Path within the service → the permissions of a file that not everyone may read."""

    def prepared(self, operation: Operation) -> Operation:
        """Return an operation with its scripts and inputs, which are empty if it cannot be run."""
        config: dict[str, Any] = {}
        image = self._container(operation)
        if image is not None:
            config = {"processor": CONTAINER, "container": image, "files": {}}
        else:
            primary = self._file(operation, operation.implementation.get("primary"))
            if primary is None:
                return Operation(
                    operation.subject, operation.interface, operation.definition
                )
            inside, content, processor = primary
            config = {
                "primary": inside,
                "processor": processor,
                "files": {inside: content},
            }
        for item in operation.implementation.get("dependencies") or ():
            config["files"].update(self._dependency(operation, item))
        options: dict[str, Json] = {}
        if operation.implementation.get("timeout") is not None:
            options["timeout"] = operation.implementation["timeout"]
        made = Operation(
            operation.subject,
            operation.interface,
            operation.definition,
            config,
            options=options,
        )
        artifacts = self._evaluate(made)
        self._add_artifacts(made, artifacts)
        return made

    def _evaluate(self, operation: Operation) -> set[tuple[str, str]]:
        """Evaluate the inputs of an operation; return the artifacts that they name, with their places."""
        artifacts: set[tuple[str, str]] = set()
        inputs: dict[str, Tree] = {}
        uncompared: dict[str, Tree] = {}
        layer = operation.subject.layer
        for name, value in operation.interface.inputs(operation.name).items():
            context = Context(operation.subject, layer, None, None, artifacts)
            found = operation.written(self.evaluator.value(value, context))
            if is_of_states(found):
                uncompared[name] = found
            else:
                inputs[name] = found
            if isinstance(operation.subject, Link):
                for end, found in self._of_ends(name, value, operation.subject, layer):
                    uncompared[end] = operation.written(found)
        operation.inputs.update(with_variables(inputs))
        operation.uncompared.update(with_variables(uncompared))
        return artifacts

    def _add_artifacts(
        self, operation: Operation, artifacts: set[tuple[str, str]]
    ) -> None:
        """Add the files of artifacts that the inputs name, and the places that they are copied to."""
        for inside, place in sorted(artifacts):
            known = self._known
            names = (
                [inside]
                if inside in known
                else [name for name in known if name.startswith(f"{inside}/")]
            )
            operation.files.update((name, known[name]) for name in names)
            if place:
                until, _, to = place.partition(":")
                operation.places.extend(
                    self._copy(name, to + name.removeprefix(inside), until)
                    for name in names
                )

    def _of_ends(
        self, name: str, value: Json, link: Link, layer: Layer
    ) -> Iterator[tuple[str, Tree]]:
        if uses(value, "TARGET"):
            for other in targets(link):
                yield (
                    f"{other.id}_{variable(name)}",
                    self.evaluator.value(value, Context(link, layer, None, other)),
                )
        if uses(value, "SOURCE"):
            for other in sources(link):
                yield (
                    f"{other.id}_{variable(name)}",
                    self.evaluator.value(value, Context(link, layer, other, None)),
                )

    def _copy(self, inside: str, to: str, until: str) -> dict[str, Json]:
        """Return the place of a copy; that of a private file has its permissions."""
        mode = self._private.get(inside)
        return {
            "file": inside,
            "to": to,
            "until": until,
            **({} if mode is None else {"mode": f"{mode:04o}"}),
        }

    def deployed(self, part: Part) -> tuple[dict[str, Json], list[dict[str, Json]]]:
        """Return the files of artifacts of a node that are copied to places of their own, and the places (13)."""
        files: dict[str, Json] = {}
        places: list[dict[str, Json]] = []
        for artifact in part.template.artifacts.values():
            to = artifact.get("deploy_path")
            file = artifact.get("file")
            if not to or not file or not isinstance(to, str):
                continue
            document = naming_document(artifact)
            path = file_path(
                {"file": file, "repository": artifact.get("repository")}, document
            )
            contents = self._contents_of(path, document) if path is not None else {}
            to = f"{to}{posixpath.basename(path or '')}" if to.endswith("/") else to
            why, hint = "", ""
            if path is None:
                why, hint = f"{file} is not on this machine", _ELSEWHERE
            elif not contents:
                why, hint = f"there is no file {file}", _BEGINS
            elif not posixpath.isabs(to) or ".." in to.split("/"):
                why, hint = f"{to} is not an absolute path", "begin deploy_path with /"
            if path is None or why:
                self.topology.warn(
                    f"the artifact {artifact.name} is not copied: {why}",
                    part.template,
                    part.template.path,
                    hint,
                    code="alone",
                )
                continue
            inside = self.inside(path)
            files.update(contents)
            places += (
                self._copy(name, to + name.removeprefix(inside), "delete")
                for name in contents
            )
        return files, places

    # Files.

    @property
    def _known(self) -> dict[str, Json]:
        return {inside: content for (_, inside), content in self._contents.items()}

    def path_of(self, path: str, document: Document) -> str:
        """Return the path of a file or a folder within the service, and read it."""
        self._contents_of(path, document)
        return self.inside(path)

    def inside(self, path: str) -> str:
        """Return the path that a file has next to the others of the service."""
        relative = (
            posixpath.relpath(path, self.base or ".")
            if self.base or not posixpath.isabs(path)
            else path[1:]
        )
        parts = ["_up" if part == ".." else part for part in relative.split("/")]
        return "/".join(parts)

    def _file(self, operation: Operation, item: Json) -> tuple[str, Json, str] | None:
        """Return the path, the content and the processor of the file that an implementation runs."""
        if item is None:
            return None
        content, type_, document = self._named(operation, item)
        path = file_path(content, document)
        if path is None:
            self._missing(operation, content["file"], _ELSEWHERE)
            return None
        text = self.content(path, document)
        if text is None:
            self._missing(operation, content["file"], _BEGINS)
            return None
        return (
            self.inside(path),
            text,
            self._processor(operation, (path, document), type_, content),
        )

    def _dependency(self, operation: Operation, item: Json) -> dict[str, Json]:
        """Return path → content of a file that goes along with a script, or of all files in a folder."""
        if item is None:
            return {}
        content, _, document = self._named(operation, item)
        path = file_path(content, document)
        contents = self._contents_of(path, document) if path is not None else {}
        if not contents:
            self._missing(
                operation, content["file"], _ELSEWHERE if path is None else _BEGINS
            )
        return contents

    def _contents_of(self, path: str, document: Document) -> dict[str, Json]:
        """Return path → content of a file, or of all files in a folder; empty where nothing can be read."""
        text = self.content(path, document)
        if text is not None:
            return {self.inside(path): text}
        contents = {
            self.inside(name): self.content(name, document)
            for name in document.files.below(path)[:MOST_FILES]
        }
        return {
            name: content for name, content in contents.items() if content is not None
        }

    def _named(
        self, operation: Operation, item: Json
    ) -> tuple[Mapping[str, Any], Type | None, Document]:
        """Return the artifact that an implementation names, its type, and the document that names its file (13)."""
        artifact: ArtifactDefinition | None = None
        content: Mapping[str, Any] = {"file": item}
        if isinstance(item, str):
            artifact = getattr(operation.subject.template, "artifacts", {}).get(item)
        else:
            content = item
        if artifact is None:
            type_ = (
                operation.document.find("artifact_types", content["type"])
                if content.get("type")
                else None
            )
            return content, type_, operation.document
        named = {key: artifact.get(key) for key in ("file", "repository")}
        return named, artifact.type, naming_document(artifact)

    def _container(self, operation: Operation) -> dict[str, Tree] | None:
        """Return the container of an operation that an image implements.

        None if no image does. Empty if the image cannot be used; then there is a mistake.
        """
        primary = operation.implementation.get("primary")
        if primary is None:
            return None
        content, type_, document = self._named(operation, primary)
        if processor(type_, content, document, None) != CONTAINER:
            return None
        if not isinstance(operation.subject, Part) or operation.name != OF_IMAGES:
            problem, hint = refusal(operation.name)
            self._wrong(operation, problem, hint, code="open-tool")
            return {}
        image = image_name(content, document)
        if image is None:
            problem = f"{content['file']} is not loaded: an image has to be in a registry, or on this machine"
            self._wrong(
                operation,
                problem,
                "load it with «podman load», and name the image",
                code="open-artifact",
            )
            return {}
        return container(operation.subject, image, self.evaluator)

    def _wrong(self, of: Operation, problem: str, hint: str, *, code: str) -> None:
        self.topology.mistakes[
            of.document.report.mistake(problem, of.path, hint, code=code)
        ] = None

    def _missing(self, of: Operation, name: str, hint: str) -> None:
        self._wrong(of, f"there is no file {name}", hint, code="open-artifact")

    def content(self, path: str, document: Document) -> Json:
        """Return the text of a file, or its bytes: `{"base64": …}`; None where it cannot be read."""
        key = (id(document.files), self.inside(path))
        if key not in self._contents:
            try:
                content = document.files.read(path)
                if not (mode := document.files.mode(path)) & 0o004:
                    self._private[self.inside(path)] = mode
            except (OSError, ValueError):
                return None
            try:
                self._contents[key] = content.decode()
            except UnicodeDecodeError:
                self._contents[key] = {"base64": base64.b64encode(content).decode()}
        return self._contents[key]

    def _processor(
        self,
        operation: Operation,
        place: tuple[str, Document],
        type_: Any,
        content: Mapping[str, Any],
    ) -> str:
        """Return the processor of a file: by its artifact type, its extension, or its first line (chapter 13)."""
        path, document = place
        tool = processor(type_, content, document, path)
        if not tool:
            problem = f"no program is known that runs {content['file']}"
            hint = "begin it with #! and the path of its interpreter, or name the type of the artifact"
            self._wrong(operation, problem, hint, code="open-tool")
        return tool


def targets(link: Link) -> list[Part]:
    """Return all targets of the relationships of a requirement's name of a source (chapter 13)."""
    return list(
        dict.fromkeys(
            other.target
            for other in link.source.links
            if other.requirement == link.requirement
        )
    )


def sources(link: Link) -> list[Part]:
    """Return all sources of the relationships of a requirement's name to a target (chapter 13)."""
    incoming = [
        other.source
        for other in link.target.incoming
        if other.requirement == link.requirement
    ]
    return list(dict.fromkeys(incoming))


def surroundings(of: Operation, node: Part) -> dict[str, Json]:
    """Return the surroundings of an operation, an input of every operation; `node` is its own node (chapter 13)."""
    subject = of.subject
    variables = {"TOSCA_INTERFACE": of.interface.name}
    if isinstance(subject, Part):
        return {"TOSCA_NODE": subject.id, **variables}
    return {
        "TOSCA_NODE": node.id,
        **variables,
        "TOSCA_REQUIREMENT": subject.requirement,
        "SOURCE": subject.source.id,
        "TARGET": subject.target.id,
        "SOURCES": ",".join(part.id for part in sources(subject)),
        "TARGETS": ",".join(part.id for part in targets(subject)),
    }


def machine(of: Operation, default: Part) -> str:
    """Return the name of the machine that an operation runs on; `default` is the node that it is about."""
    host = of.implementation.get("operation_host")
    if host == ORCHESTRATOR:
        return ORCHESTRATOR
    part = default
    if isinstance(of.subject, Link) and host in ("SOURCE", "TARGET"):
        part = of.subject.source if host == "SOURCE" else of.subject.target
    found = part.machine
    return found.name if found is not None else ORCHESTRATOR
