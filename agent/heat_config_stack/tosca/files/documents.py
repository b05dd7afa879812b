"""Documents: a text with its version, its imports and the types that it knows (sections 3.1, 3.5.8, 3.9)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any
from weakref import ref

from heat_config_agent.diagnostics.mistakes import Invalid
from heat_config_agent.diagnostics.text import Text
from heat_config_agent.model.mistake import Mistake
from heat_config_agent.model.positions import Json, Path, Place
from heat_config_stack.tosca.files.archives import Files, local_path
from heat_config_stack.tosca.language import entities
from heat_config_stack.tosca.language.budget import NAMES, Budget
from heat_config_stack.tosca.language.grammar import ABSENT, held
from heat_config_stack.tosca.language.primitives import version as version_value
from heat_config_stack.tosca.language.report import Report
from heat_config_stack.tosca.language.text import (
    SHORT_NAMES,
    VERSION_OF,
    VERSIONS,
    tosca_text,
)
from heat_config_stack.tosca.language.types import SECTIONS, Namespace, Type
from heat_config_stack.tosca.profiles import Profile, is_normative, profile

VERSION = "tosca_definitions_version"


class Document(Namespace):
    """One document and its imports."""

    def __init__(self, file: str, path: str, files: Files) -> None:
        self.file, self.path, self.files = file, path, files
        """The name that mistakes have, and the path among the files."""
        self.report = Report(None)
        self.content: dict[str, Any] = {}
        """The content of the document, without its faulty parts (`grammar.held`)."""
        self.version = VERSIONS[-1]
        self.profile: Profile = profile(self.version)
        self.imports: list[tuple[str, Document]] = []
        """The documents that it imports, each with the prefix of its names."""
        self.import_paths: list[Path] = []
        """The paths of these imports."""
        self.is_checked = False
        """True if its types have been checked."""
        self.borrowed: dict[tuple[str, str], Type | None] = {}
        """The types that it names and does not define: from the documents that import it, or None."""
        self._importers: list[tuple[str, ref[Document]]] = []
        self._around: list[tuple[str, ref[Document]]] = []
        self._own: dict[str, dict[str, Type]] = {}
        self._visible: dict[str, dict[str, Type]] = {}
        self._found: dict[tuple[str, str], Type | None] = {}
        self._by_extension: dict[str, list[Type]] = {}

    def types(self, section: str) -> Mapping[str, Type]:
        """Return the types that it defines."""
        if section not in self._own:
            defined = self.content.get(section) or {}
            self._own[section] = {
                name: Type(
                    section, name, of, self, is_normative=is_normative(section, name)
                )
                for name, of in defined.items()
            }
        return self._own[section]

    def visible(self, section: str) -> Mapping[str, Type]:
        """Return the types that it defines and imports, by the names that they have in it."""
        if not self.imports:
            return self.types(section)
        if section not in self._visible:
            names: dict[str, Type] = {}
            for prefix, document in self.imports:
                for name, type_ in document.visible(section).items():
                    names.setdefault(f"{prefix}:{name}" if prefix else name, type_)
            self._visible[section] = {**names, **self.types(section)}
        return self._visible[section]

    def find(self, section: str, name: str) -> Type | None:
        """Return the type of a name: the document's own, an imported one, a normative one, or one of its importers."""
        key = (section, name)
        if key not in self._found:
            found = self.visible(section).get(name) or self.profile.find(section, name)
            self._found[key] = (
                found or self._find_around(section, name) or self._borrow(section, name)
            )
        return self._found[key]

    @property
    def is_in_circle(self) -> bool:
        """Return whether it imports a document that imports it."""
        return bool(self._around)

    def _find_around(self, section: str, name: str) -> Type | None:
        """Return a type of the documents that it imports and that import it, by the name that it has here."""
        for document in self.all_documents():
            for prefix, weak in document._around:  # noqa: SLF001  # of its own class
                other = weak()
                inner = name.removeprefix(f"{prefix}:") if prefix else name
                if other is not None and (inner != name or not prefix):
                    found = other.visible(section).get(inner)
                    if found is not None:
                        return found
        return None

    def _borrow(self, section: str, name: str) -> Type | None:
        """Return a type that the nearest importer knows by a name: in the namespace of this document, or in its own."""
        if not self._importers:
            return None
        found = None
        for prefix, importer in self._above():
            names = importer.visible(section)
            found = (names.get(f"{prefix}:{name}") if prefix else None) or names.get(
                name
            )
            if found is not None:
                break
        self.borrowed[section, name] = found
        return found

    def _above(self) -> Iterator[tuple[str, Document]]:
        """Yield the documents that import it, the nearest first, each with the prefix of the import on the way."""
        seen: set[int] = set()
        todo = [*self._importers]
        for prefix, weak in todo:
            importer = weak()
            if importer is not None and id(importer) not in seen:
                seen.add(id(importer))
                yield prefix, importer
                todo += importer._importers  # noqa: SLF001  # of its own class

    def add_import(self, prefix: str, imported: Document, path: Path) -> None:
        """Take a document that it imports, with the prefix of its names and the path of the import."""
        self.imports.append((prefix, imported))
        self.import_paths.append(path)
        # weak: others may import it for longer
        imported._importers.append((prefix, ref(self)))

    def add_circle(self, prefix: str, importer: Document) -> None:
        """Take a document that it imports, and that is being read because it imports this one."""
        self._around.append((prefix, ref(importer)))

    def known(self, section: str) -> Iterator[str]:
        """Yield the names of all types of a section, for hints."""
        yield from self.visible(section)
        for _, importer in self._above():
            yield from importer.visible(section)
        yield from self.profile.names(section)

    def types_with_extension(self, extension: str) -> list[Type]:
        """Return the artifact types whose files have an extension: its own and imported ones before normative ones."""
        if extension not in self._by_extension:
            types = [
                *self.visible("artifact_types").values(),
                *self.profile.types("artifact_types"),
            ]
            self._by_extension[extension] = [
                type_
                for type_ in types
                if extension in (type_.content.get("file_ext") or ())
            ]
        return self._by_extension[extension]

    def all_documents(self) -> Iterator[Document]:
        """Yield the document and all its imports, each once."""
        seen: dict[int, Document] = {}
        todo: list[Document] = [self]
        while todo:
            document = todo.pop()
            if id(document) not in seen:
                seen[id(document)] = document
                todo.extend(imported for _, imported in reversed(document.imports))
        yield from seen.values()

    def repository(self, name: str) -> Json:
        """Return the repository of a name; None if there is none."""
        return (self.content.get("repositories") or {}).get(name)


class Library:
    """The documents that have been read, so that each is read once."""

    def __init__(self) -> None:
        self.budget = Budget()
        """The budget of the file that is read next and its imports."""
        self._documents: dict[tuple[int, str, str], Document] = {}
        self._reading: list[Document] = []

    def read(self, files: Files, path: str, inherited: str = "") -> Document:
        """Return a document with all its imports.

        `inherited` is the version of the document that imports it; nothing for the one that is checked.
        Raises `OSError` where it cannot be read.
        """
        key = (id(files), path, inherited)
        document = self._documents.get(key)
        if document is None:
            content = files.read(path)
            document = Document(files.shown(path), path, files)
            self._reading.append(document)
            try:
                self._fill(document, content, inherited)
            finally:
                self._reading.pop()
            if inherited:  # it is imported, so others may import it as well
                self._documents[key] = document
        return document

    def forget(self, documents: Iterable[Document]) -> None:
        """Forget documents, so that the next service reads them again: their names may mean other types there."""
        forgotten = {id(document) for document in documents}
        self._documents = {
            key: of for key, of in self._documents.items() if id(of) not in forgotten
        }

    def _fill(self, document: Document, content: bytes, inherited: str) -> None:
        try:
            text = tosca_text(document.file, content)
        except Invalid as invalid:
            document.report.mistakes.update(dict.fromkeys(invalid.mistakes))
            return
        report = document.report = Report(text, self.budget)
        report.mistakes.update(dict.fromkeys(text.mistakes))
        if not isinstance(text.value, dict):
            if not text.mistakes:
                hint = f"it begins with {VERSION}"
                place = text.place(()) or Place(document.file, 1, 1)
                problem = "a service template must be a map"
                report.mistakes[
                    Mistake(problem, (), place, hint, "text", "not-map")
                ] = None
            return
        document.version = report.version = _version(text, inherited, report)
        document.profile = profile(document.version)
        content_ = held(text.value, entities.SERVICE, (), report)
        document.content = {} if content_ is ABSENT else content_
        _check_metadata(document)
        for index, item in enumerate(document.content.get("imports") or ()):
            self._follow(document, item, ("imports", index))
        if len(document.imports) > 1:
            _check_names(document)

    def _follow(self, document: Document, item: Json, path: Path) -> None:
        """Read the file or folder of an import (section 3.5.8)."""
        report = document.report
        if item is None:
            report.wrong(
                "an import must be the name of a file, or a map", path, code="kind"
            )
            return
        if isinstance(item, dict) and len(item) == 1:
            ((name, inner),) = item.items()
            if name not in entities.IMPORT.entity.keys and isinstance(  # type: ignore[union-attr]
                inner, str | dict
            ):
                item = inner
                path = (*path, name)
        content = held(item, entities.IMPORT, path, report)
        if content is ABSENT or content.get("file") is None:
            return
        name = content["file"]
        folder = ""
        if content.get("repository") is not None:
            repository = document.repository(content["repository"])
            if repository is None:
                known = report.nearest(
                    content["repository"], document.content.get("repositories") or {}
                )
                report.wrong(
                    f"there is no repository {content['repository']}",
                    path,
                    known,
                    code="repository-unknown",
                )
                return
            folder = str(repository.get("url") or "")
        url = next((text for text in (name, folder) if "://" in text), "")
        if url and not url.startswith("file://"):
            problem = f"{url} is not fetched: only files of this machine are read"
            report.wrong(
                problem,
                path,
                "keep a copy of it here, and import that",
                code="import-unread",
            )
            return
        target = local_path(name, document.path, f"{folder}/" if folder else "")
        prefix = str(content.get("namespace_prefix") or "")
        for importer in self._reading:
            if importer.files is document.files and importer.path == target:
                # a file is read once
                if importer is not document:
                    document.add_circle(prefix, importer)
                return
        try:
            imported = self.read(document.files, target, document.version)
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or error
            problem = f"cannot read {name}: {reason}"
            report.wrong(
                problem,
                path,
                "its path begins at the file that names it",
                code="import-missing",
            )
            return
        self.budget.names -= sum(len(imported.visible(section)) for section in SECTIONS)
        if self.budget.names < 0:
            problem = f"the imports bring over {NAMES:,} names of types"
            report.wrong(
                problem,
                path,
                "import fewer files, or use fewer namespace prefixes",
                code="depth",
            )
            return
        document.add_import(prefix, imported, path)


def _version(text: Text, inherited: str, report: Report) -> str:
    """Return the version that a document names (section 3.1)."""
    content: Mapping[str, Json] = text.value
    hint = f"begin with {VERSION}: {SHORT_NAMES[-1]}"
    if content.get(VERSION) is None:
        if inherited:
            report.warn(
                f"it has no {VERSION}: that of the importing file is used",
                (),
                hint,
                code="import-version",
            )
            return inherited
        report.wrong(
            f"a service template needs {VERSION}", (), hint, code="version-missing"
        )
        return VERSIONS[-1]
    if next(iter(content)) != VERSION:
        report.wrong(
            f"{VERSION} has to be the first key",
            (VERSION,),
            hint,
            code="version-not-first",
        )
    name = content[VERSION]
    version = VERSION_OF.get(name) if isinstance(name, str) else None
    if version is None:
        report.wrong(
            f"{_shown(name)} is not supported",
            (VERSION,),
            f"write {', '.join(SHORT_NAMES)}",
            code="version-unknown",
        )
        return inherited or VERSIONS[-1]
    return version


def _shown(value: Json) -> str:
    return str(value)[:80] if not isinstance(value, dict | list) else "of that kind"


def _check_metadata(document: Document) -> None:
    """Report a template_version that is not a version (section 3.9.3.2)."""
    version = (document.content.get("metadata") or {}).get("template_version")
    if version is not None:
        try:
            version_value(version)
        except ValueError as error:
            document.report.wrong(
                f"template_version {error}",
                ("metadata", "template_version"),
                code="value",
            )


def _check_names(document: Document) -> None:
    """Report two imports that define types with the same name (section 3.1.3)."""
    for section in SECTIONS:
        own = document.types(section)
        names: dict[str, Type] = {}
        for (prefix, imported), path in zip(
            document.imports, document.import_paths, strict=True
        ):
            for name, type_ in imported.visible(section).items():
                full = f"{prefix}:{name}" if prefix else name
                first = names.setdefault(full, type_)
                if (
                    first is not type_
                    and full not in own
                    and first.content != type_.content
                ):
                    problem = (
                        f"{full} is in {first.names.file} already, as another type"
                    )
                    hint = "import one of them with a namespace_prefix"
                    document.report.wrong(problem, path, hint, code="type-twice")
