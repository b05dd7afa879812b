"""The check of a service template or an archive: all mistakes at once."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from heat_config_agent.diagnostics.mistakes import Invalid, ordered
from heat_config_agent.model.mistake import Mistake
from heat_config_agent.model.positions import Place
from heat_config_stack.definition import limits
from heat_config_stack.tosca.checks.substitution import (
    check_substitutable,
    check_substitution,
)
from heat_config_stack.tosca.checks.template_checks import (
    check_groups,
    check_policies,
    check_templates,
)
from heat_config_stack.tosca.checks.type_checks import check_definitions, check_types
from heat_config_stack.tosca.checks.workflows import check_workflows
from heat_config_stack.tosca.files.archives import (
    METADATA,
    Archive,
    Disk,
    Files,
    Folder,
    Refused,
    entry_of,
)
from heat_config_stack.tosca.files.documents import Document, Library
from heat_config_stack.tosca.language import functions
from heat_config_stack.tosca.language.budget import Budget
from heat_config_stack.tosca.language.functions import Holder, Scope
from heat_config_stack.tosca.language.report import Report
from heat_config_stack.tosca.language.values import check_inputs
from heat_config_stack.tosca.topology.requirements import check_circles
from heat_config_stack.tosca.topology.service import Service

SECONDS = 60.0
"""Seconds that one file with all that it imports may take."""

_MOST_SHOWN = 5
"""Names of types that one warning shows."""


@dataclass(frozen=True, slots=True)
class Checked:
    """The result of checking a file."""

    file: str
    service: Service | None
    """The model; None where the file cannot be read at all."""
    mistakes: list[Mistake]
    warnings: list[Mistake]
    open: list[Mistake]
    """The open points: needs that have to be met before it can be applied here, and that are not mistakes."""
    is_readable: bool = True


class Checker:
    """Checks one file after the other, and reads shared imports once."""

    def __init__(self, disk: Disk | None = None) -> None:
        """Begin with nothing. `disk` has the files that are in no archive and no folder."""
        self._library = Library()
        self._disk = disk or Disk()
        self._of_service: list[Document] = []
        """The documents of the last service, if the documents that import them decide some of their names."""

    def check(
        self,
        name: str,
        inputs: Mapping[str, str] | None = None,
        record: Callable[[Files], Files] = lambda files: files,
    ) -> Checked:
        """Return all mistakes of a service template, an archive or a folder (sections 3 and 6).

        `inputs` are values of inputs as a command line has them: those that do not fit are mistakes as well.
        `record` returns the files to read in the place of those that were opened.
        """
        self._library.forget(self._of_service)
        self._of_service = []
        return self._within(name, lambda: self._check(name, inputs or {}, record))

    def check_inner(self, files: Files, path: str, version: str) -> Checked:
        """Return all mistakes of a service template that substitutes a node of another one."""
        name = files.shown(path)
        return self._within(
            name,
            lambda: self._check_read(
                name, (files, path, version), {}, needs_metadata=False
            ),
        )

    def document(self, files: Files, path: str, version: str) -> Document | None:
        """Return a document, with its mistakes in its report; None if it cannot be read."""
        try:
            return self._library.read(files, path, version)
        except (OSError, ValueError, Invalid):
            return None

    def _within(self, name: str, work: Callable[[], Checked]) -> Checked:
        self._library.budget = Budget()
        try:
            return limits.within(SECONDS, work)
        except limits.TooMuch:
            return _unusable(name, f"it takes over {SECONDS:g} s to check", code="yaml")

    def _check(
        self, name: str, inputs: Mapping[str, str], record: Callable[[Files], Files]
    ) -> Checked:
        try:
            files, path = self._opened(name)
        except Refused as refused:
            return _unusable(name, str(refused), refused.hint, code=refused.code)
        except (OSError, ValueError) as error:
            return _unreadable(name, error)
        needs_metadata = files is not self._disk and not files.has(METADATA)
        return self._check_read(
            name, (record(files), path, ""), inputs, needs_metadata=needs_metadata
        )

    def _check_read(
        self,
        name: str,
        place: tuple[Files, str, str],
        inputs: Mapping[str, str],
        *,
        needs_metadata: bool,
    ) -> Checked:
        try:
            document = self._library.read(*place)
        except Refused as refused:
            return _unusable(name, str(refused), refused.hint, code=refused.code)
        except (OSError, ValueError) as error:
            return _unreadable(name, error)
        except Invalid as invalid:
            return Checked(name, None, list(invalid.mistakes), [], [])
        return self._examined(name, document, inputs, needs_metadata=needs_metadata)

    def _opened(self, name: str) -> tuple[Files, str]:
        """Return the files of a service template and the path of its entry. Raises `OSError` and `Refused`."""
        if not self._disk.has_archives:
            return self._disk, os.path.normpath(name)
        if os.path.isdir(name):  # noqa: PTH112  # called for each file
            folder = Folder(name)
            return folder, entry_of(folder)
        with open(name, "rb") as file:
            begin = file.read(4)
        if begin[:2] == b"PK" or name.endswith((".csar", ".zip")):
            archive = Archive(name)
            return archive, entry_of(archive)
        return self._disk, os.path.normpath(name)

    def _examined(
        self,
        name: str,
        document: Document,
        inputs: Mapping[str, str],
        *,
        needs_metadata: bool,
    ) -> Checked:
        documents = list(document.all_documents())
        service = Service(document)
        scope = Scope(document, document.report, None, None, None)
        if document.content.get("topology_template") is not None:
            declared = dict(service.inputs)
            for workflow in service.workflows.values():
                declared.update(workflow.get("inputs") or {})
            scope = Scope(document, document.report, None, declared, service.templates)
        for other in reversed(documents):
            if other is document:
                check_types(other, scope)
            elif not other.is_checked:
                other.is_checked = True
                check_types(other, Scope(other, other.report))
        if needs_metadata:
            _check_archive_metadata(document)
        _check_service(service, documents, scope, inputs)
        for other in documents:
            _warn_of_borrowed(other)
        if any(other.borrowed or other.is_in_circle for other in documents):
            self._of_service += documents
        reports = [other.report for other in documents]
        return Checked(
            name,
            service,
            ordered(mistake for report in reports for mistake in report.mistakes),
            ordered(mistake for report in reports for mistake in report.warnings),
            ordered(mistake for report in reports for mistake in report.open),
        )


def _unusable(file: str, problem: str, hint: str = "", *, code: str) -> Checked:
    """Return the result for a file of which nothing can be checked."""
    found = Report(None).mistake(problem, (), hint, code=code)
    mistake = Mistake(problem, (), Place(file, 1, 1), hint, found.kind, code)
    return Checked(file, None, [mistake], [], [])


def _unreadable(file: str, error: OSError | ValueError) -> Checked:
    reason = getattr(error, "strerror", None) or error
    result = _unusable(file, f"cannot read {file}: {reason}", code="file")
    return replace(result, is_readable=False)


def _warn_of_borrowed(document: Document) -> None:
    """Warn of the types that a document names, and only documents that import it have."""
    names = [
        name for (_, name), type_ in document.borrowed.items() if type_ is not None
    ]
    path = document.report.path_of(names[0]) if names else ()
    if path:
        shown = ", ".join(names[:_MOST_SHOWN])
        if len(names) > _MOST_SHOWN:
            shown += f" and {len(names) - _MOST_SHOWN} more"
        problem = f"only the files that import this file have {shown}"
        document.report.warn(
            problem,
            path,
            "import the files with these types here as well",
            code="import-borrows",
        )


def _check_archive_metadata(document: Document) -> None:
    """Report metadata that the entry of an archive without TOSCA.meta has to have (chapter 6)."""
    metadata = document.content.get("metadata") or {}
    for key in ("template_name", "template_version"):
        if not metadata.get(key):
            problem = f"the entry of an archive without {METADATA} needs {key} in its metadata"
            document.report.wrong(
                problem, ("metadata",), f"add {key}", code="archive-metadata"
            )


def _check_service(
    service: Service, documents: list[Document], scope: Scope, inputs: Mapping[str, str]
) -> None:
    document = service.document
    if document.content.get("topology_template") is None:
        return
    for section in ("inputs", "outputs"):
        own = service.content.get(section) or {}
        path = (*service.path, section)
        check_definitions(own, getattr(service, section), path, document)
        for name, content in own.items():
            for key in ("default", "value"):
                functions.check(content.get(key), (*path, name, key), scope)
            functions.check_constraints(content, (*path, name), scope)
    check_inputs(service.inputs, inputs, (*service.path, "inputs"), document.report)
    check_templates(service, scope)
    check_circles(service, scope)
    check_groups(service, scope)
    check_policies(service, scope)
    check_substitution(service, scope)
    check_substitutable(service, documents, scope)
    check_workflows(service, scope)
    functions.check_circles(scope, lambda holder: _place(scope, holder))


def _place(scope: Scope, holder: Holder) -> tuple[str | int, ...]:
    """Return the path of the value that a circle begins with."""
    path = next(iter(scope.uses[holder].values()))
    for position in range(len(path) - 1, 0, -1):
        if path[position] == holder[-1]:
            return path[: position + 1]
    return path
