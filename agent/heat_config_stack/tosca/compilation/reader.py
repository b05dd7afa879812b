"""A service from disk: read with all that it names, checked, and made the source and the definition of a stack."""

from __future__ import annotations

import os
import posixpath
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from heat_config_agent.diagnostics.mistakes import Invalid
from heat_config_agent.masking.redaction import OPEN
from heat_config_agent.model.errors import UsageError
from heat_config_agent.model.positions import Json
from heat_config_stack.definition import Definition, Identity
from heat_config_stack.tosca.checks.checker import Checked, Checker
from heat_config_stack.tosca.checks.substitution import DIRECTIVES
from heat_config_stack.tosca.compilation import loader
from heat_config_stack.tosca.compilation.operations import lifecycle
from heat_config_stack.tosca.files.archives import Archive, Disk, Folder
from heat_config_stack.tosca.files.documents import Document
from heat_config_stack.tosca.files.source import Recorder, Source, folder_of
from heat_config_stack.tosca.language.types import PropertyDefinition
from heat_config_stack.tosca.topology.service import Node, Service
from heat_config_stack.tosca.topology.topology import Part

MOST_BESIDE = 500
LARGEST_BESIDE = 1024**2
"""The number and size of an archive's files that are copied next to each script; of a larger one, only named files."""

_MOST_FILES = 2000
_DEEPEST = 4
_LARGEST = 1024**2
"""Files below a service, folders in one another, and bytes of a file that are searched for substitutes of nodes."""


@dataclass(frozen=True)
class Wish:
    """The user's choices for a service."""

    inputs: Mapping[str, Json]
    attributes: Mapping[str, Mapping[str, Json]]
    substitutes: Mapping[str, str]
    machine: Mapping[str, Mapping[str, Json]]
    is_complete: bool = True
    """True if an input without value is a mistake; a service that is only looked at needs none."""
    server: str = ""
    """The name of the node that is this machine; without it, each machine is."""
    signatures: tuple[str, ...] = ()
    """The evidence that the files are signed."""
    hosts: Mapping[str, Json] = field(default_factory=dict)
    """The hosts of nodes that are not this machine."""
    disk: Disk | None = None
    """The files that are in no archive and no folder; None for all files of this machine."""


def define(name: str, wish: Wish, identity: Identity) -> Definition:
    """Return the definition of a service. Raises `Invalid`, UsageError."""
    reading = _Reading(name, wish)
    reading.take_all()
    purpose = loader.Purpose(is_complete=wish.is_complete, server=wish.server)
    definition = reading.define(identity, purpose)
    source = replace(
        reading.source,
        files=reading.files.contents,
        shown=reading.files.names,
        modes=reading.files.modes,
        substitutes={node: path for node, path in reading.chosen.items() if path},
    )
    definition = replace(definition, source=source.to_json())
    if wish.is_complete:
        loader.remember(definition)
    return definition


def define_for_export(
    name: str, wish: Wish, identity: Identity, marks: Mapping[str, Json]
) -> Exported:
    """Return the definition of a service in which marks stand for inputs, which need no values. Raises as `define`."""
    reading = _Reading(name, wish)
    reading.take_all()
    made = reading.define(identity, loader.Purpose(is_complete=False, marks=marks))
    service = Service(reading.document)
    provided = tuple(name for name, node in service.nodes.items() if _is_provided(node))
    return Exported(
        made, service.inputs, tuple(service.workflows), bool(service.policies), provided
    )


_PROVIDED = frozenset(
    {
        "tosca.nodes.network.Network",
        "tosca.nodes.network.Port",
        "tosca.nodes.Storage.BlockStorage",
        "tosca.nodes.Storage.ObjectStorage",
        "tosca.nodes.BlockStorage",
        "tosca.nodes.ObjectStorage",
        "tosca.nodes.LoadBalancer",
    }
)
"""Types of nodes that a cloud provides."""


def _is_provided(node: Node) -> bool:
    keys = node.type.keys if node.type is not None else frozenset()
    return bool(keys & _PROVIDED) and next(node.operations, None) is None


@dataclass(frozen=True)
class Exported:
    """A service to be exported."""

    definition: Definition
    inputs: Mapping[str, PropertyDefinition]
    workflows: tuple[str, ...]
    has_policies: bool
    provided: tuple[str, ...] = ()
    """The networks, ports, storage and load balancers without operations of their own."""


def default_name(name: str) -> tuple[str, bool]:
    """Return the name of the stack of a service: its template_name in an archive, else the name of the file.

    The second value says if it is a template_name.
    """
    stem = posixpath.basename(os.path.normpath(name)).partition(".")[0]
    if not os.path.isdir(name) and not name.endswith((".csar", ".zip")):  # noqa: PTH112
        return stem, False
    checked = Checker().check(name)
    content = checked.service.document.content if checked.service is not None else {}
    chosen = (content.get("metadata") or {}).get("template_name") or content.get(
        "template_name"
    )
    valid = (
        isinstance(chosen, str)
        and chosen[:1].isalpha()
        and chosen.replace("-", "").replace("_", "").isalnum()
    )
    return (str(chosen), True) if valid and str(chosen).isascii() else (stem, False)


class _Reading:
    """One service that is read."""

    def __init__(self, name: str, wish: Wish) -> None:
        self._wish = wish
        self._checker = Checker(wish.disk)
        self.files: Recorder
        checked = self._checker.check(name, record=self._record)
        self._refuse(checked)
        service = checked.service
        assert service is not None  # noqa: S101  # it has no mistakes
        self.document: Document = service.document
        entry = self.document.path
        self.source = Source(
            entry,
            folder_of(entry, on_disk=not self._is_archive),
            inputs=wish.inputs,
            attributes=wish.attributes,
            machine=wish.machine,
            signatures=wish.signatures,
            hosts=wish.hosts,
        )
        self.chosen: dict[str, str] = {}
        self._offers: list[tuple[str, Document]] | None = None

    def _record(self, files: object) -> Recorder:
        self._live = files
        self._is_archive = isinstance(files, Archive | Folder)
        self.files = Recorder(files)  # type: ignore[arg-type]  # the checker opens nothing else
        return self.files

    def _refuse(self, checked: Checked) -> None:
        if not checked.is_readable:
            raise UsageError(checked.mistakes[0].problem)
        if checked.mistakes or checked.service is None:
            raise Invalid(checked.mistakes, OPEN)
        if checked.service.document.content.get("topology_template") is None:
            raise UsageError(
                f"{checked.file} has types only, and nothing to apply",
                hint="a service has a topology_template",
            )

    def take_all(self) -> None:
        """Read all files of an archive or a folder: they stand next to each script (chapter 13)."""
        if isinstance(self._live, Archive | Folder):
            names = self._live.all_members()
            if len(names) > MOST_BESIDE or self._live.size(names) > LARGEST_BESIDE:
                problem = f"the archive has over {MOST_BESIDE} files or {LARGEST_BESIDE // 1024} KiB"
                hint = "only dependencies and artifacts may stand next to a script"
                self.document.report.warn(problem, (), hint, code="alone")
                return
            for name in names:
                if name not in self.files.contents:
                    self.files.read(name)
            self.source = replace(self.source, beside=tuple(names))

    def define(self, identity: Identity, purpose: loader.Purpose) -> Definition:
        """Return the definition of the service. Raises `Invalid`, UsageError."""
        try:
            made = loader.define(
                self.source, self.document, identity, self.substitute, purpose
            )
        except Invalid:
            self._check_substitutes()  # a node that is misspelt may be the reason for the mistakes
            raise
        self._check_substitutes()
        return made

    def _check_substitutes(self) -> None:
        for name in self._wish.substitutes:
            if name not in self.chosen:
                raise UsageError(
                    f"--substitute names no node {name}",
                    hint=self.document.report.nearest(name, self.chosen),
                )

    # Substitution.

    def substitute(self, part: Part) -> tuple[str, Document] | None:
        """Return the path and the document of the service that substitutes a node; None if there is none."""
        path, document = self._found(part)
        self.chosen[part.name] = path
        return (path, document) if document is not None else None

    def _found(self, part: Part) -> tuple[str, Document | None]:
        named = self._wish.substitutes.get(part.name)
        if named is not None:
            document = self._checked(
                os.path.relpath(named) if not self._is_archive else named
            )
            return document.path, document
        is_wanted = bool(DIRECTIVES & set(part.template.directives))
        if part.type is None or (
            not is_wanted and (_is_normative(part) or lifecycle(part))
        ):
            return "", None
        offers = [offer for offer in self._offered() if _stands_for(offer[1], part)]
        offers = [
            offer for offer in offers if part.layer.service.document is not offer[1]
        ]
        if len(offers) == 1:
            return offers[0][0], self._checked(offers[0][0])
        if is_wanted:
            names = ", ".join(path for path, _ in offers[:5])
            problem = (
                f"several templates stand in for {part.name}: {names}"
                if offers
                else (f"no template stands in for {part.name}")
            )
            hint = f"name one: --substitute {part.name}=FILE"
            part.layer.topology.wrong(
                problem,
                part.template,
                part.template.path,
                hint,
                code="open-substitution",
            )
        return "", None

    def _checked(self, path: str) -> Document:
        checked = self._checker.check_inner(self.files, path, self.document.version)
        self._refuse(checked)
        assert checked.service is not None  # noqa: S101  # it has no mistakes
        return checked.service.document

    def _offered(self) -> list[tuple[str, Document]]:
        """Return the templates with a substitution mapping: imported ones, and others in the folder of the service."""
        if self._offers is None:
            imported = {
                document.path: document for document in self.document.all_documents()
            }
            documents = {
                path: of
                for path, of in imported.items()
                if of is not self.document and _has_mapping(of)
            }
            for path in self._beside():
                if path in imported:
                    continue
                document = self._candidate(path)
                if document is not None:
                    documents[path] = document
            self._offers = [*documents.items()]
        return self._offers

    def _candidate(self, path: str) -> Document | None:
        try:
            content = self._live.read(path)  # type: ignore[attr-defined]  # files have it
        except (OSError, ValueError):
            return None
        if len(content) > _LARGEST or b"substitution_mappings" not in content:
            return None
        known = {*self.files.contents}
        document = self._checker.document(self.files, path, self.document.version)
        if document is None or not _has_mapping(document):
            for name in {*self.files.contents} - known:
                self.files.forget(name)
            return None
        return document

    def _beside(self) -> Iterator[str]:
        if isinstance(self._live, Archive):
            yield from (
                name
                for name in self._live.all_members()
                if name.endswith((".yaml", ".yml"))
            )
            return
        root = (
            self._live.root
            if isinstance(self._live, Folder)
            else self.source.base or "."
        )
        number = 0
        for folder, folders, names in os.walk(root):
            relative = os.path.relpath(folder, root)
            folders[:] = sorted(name for name in folders if not name.startswith("."))
            if relative.count("/") + 1 >= _DEEPEST:
                folders.clear()
            for name in sorted(names):
                number += 1
                if number > _MOST_FILES:
                    return
                if name.endswith((".yaml", ".yml")):
                    inside = posixpath.normpath(posixpath.join(relative, name))
                    path = (
                        inside
                        if isinstance(self._live, Folder)
                        else posixpath.join(self.source.base, inside)
                    )
                    if posixpath.normpath(path) != self.source.entry:
                        yield posixpath.normpath(path)


def _is_normative(part: Part) -> bool:
    return part.type is not None and isinstance(part.type.key, str)


def _has_mapping(document: Document) -> bool:
    mapping = (document.content.get("topology_template") or {}).get(
        "substitution_mappings"
    ) or {}
    return bool(mapping.get("node_type"))


def _stands_for(document: Document, part: Part) -> bool:
    mapping = (document.content.get("topology_template") or {}).get(
        "substitution_mappings"
    ) or {}
    type_ = document.find("node_types", mapping["node_type"])
    return (
        type_ is not None
        and part.type is not None
        and (type_.is_a(part.type) or _same(type_, part.type))
    )


def _same(first: object, second: object) -> bool:
    """Return whether two types are the same in two documents that name different versions."""
    files = [
        getattr(getattr(type_, "names", None), "file", None)
        for type_ in (first, second)
    ]
    return files[0] == files[1] and getattr(first, "name", None) == getattr(
        second, "name", None
    )
