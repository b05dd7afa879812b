"""Artifacts and implementations of operations (sections 3.5.7 and 3.5.14 of the specification)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from heat_config_agent.model.positions import Json, Path
from heat_config_stack.tosca.files.archives import local_path
from heat_config_stack.tosca.files.documents import Document
from heat_config_stack.tosca.files.processors import (
    CONTAINER,
    OF_IMAGES,
    lacking,
    processor,
    refusal,
)
from heat_config_stack.tosca.language import values
from heat_config_stack.tosca.language.grammar import EMPTY, Short
from heat_config_stack.tosca.language.types import ArtifactDefinition

MOST_FILES = 1000
"""The most files of a folder that go along with an operation."""

_IMAGES = "tosca.artifacts.Deployment.Image"
"""Artifact types whose files may be names of images, and not files."""


def check_artifact(
    artifact: ArtifactDefinition, content: Mapping[str, Json], document: Document
) -> None:
    """Report what is wrong with an artifact of a type or a template."""
    if content is EMPTY:
        return
    report = document.report
    path = artifact.path
    if content.get("type") is not None:
        _check_type(content["type"], path, document)
    elif artifact.parent is None and not isinstance(content, Short):
        report.wrong(
            f"the artifact {artifact.name} needs a type",
            path,
            "add type",
            code="key-missing",
        )
    type_ = artifact.type
    if (
        type_ is not None
        and not type_.is_incomplete
        and (content.get("type") or content.get("properties"))
    ):
        own = content.get("properties") or {}
        inherited = (
            artifact.parent.get("properties") if artifact.parent else None
        ) or {}
        wanted = {
            key: of
            for key, of in type_.properties.items()
            if key in own or key not in inherited
        }
        owner = f"the artifact {artifact.name}"
        values.check_properties(
            own, wanted, owner, ((*path, "properties"), path), report
        )
    if content.get("file") is None:
        if artifact.parent is None:
            report.wrong(
                f"the artifact {artifact.name} needs a file",
                path,
                "add file",
                code="key-missing",
            )
        return
    if _check_repository(content, path, document) and not _is_image(artifact):
        check_file(content, (*path, "file"), document, may_be_folder=True)


def _is_image(artifact: ArtifactDefinition) -> bool:
    return artifact.type is not None and _IMAGES in artifact.type.keys


def _check_type(name: str, path: Path, document: Document) -> None:
    if document.find("artifact_types", name) is None:
        hint = document.report.nearest(name, document.known("artifact_types"))
        document.report.wrong(
            f"there is no artifact type {name}",
            (*path, "type"),
            hint,
            code="type-unknown",
        )


def _check_repository(
    content: Mapping[str, Json], path: Path, document: Document
) -> bool:
    """Report an unknown repository; return whether the file can be looked for."""
    name = content.get("repository")
    if name is not None and document.repository(name) is None:
        hint = document.report.nearest(name, document.content.get("repositories") or {})
        document.report.wrong(
            f"there is no repository {name}",
            (*path, "repository"),
            hint,
            code="repository-unknown",
        )
        return False
    return True


def file_path(content: Mapping[str, Json], document: Document) -> str | None:
    """Return the path of an artifact's file among the files of its document; None where it is not on this machine."""
    name = content["file"]
    folder = ""
    if content.get("repository") is not None:
        folder = str(
            (document.repository(content["repository"]) or {}).get("url") or ""
        )
        if folder:
            folder += "/"
    for url in (name, folder):
        if "://" in url and not url.startswith("file://"):
            return None
    return local_path(name, document.path, folder)


def naming_document(artifact: ArtifactDefinition) -> Document:
    """Return the document that names the file of an artifact: the file is next to that (chapter 13)."""
    while artifact.content.get("file") is None and artifact.parent is not None:
        artifact = artifact.parent
    return artifact.names  # type: ignore[return-value]  # normative types have no artifacts


def check_file(
    content: Mapping[str, Json],
    path: Path,
    document: Document,
    *,
    may_be_folder: bool = False,
) -> None:
    """Report an open point if the file of an artifact is missing. A file to run must not be a folder."""
    file = file_path(content, document)
    if file is None:
        if content.get("repository") is None:
            problem = (
                f"{content['file']} is not fetched: only files of this machine are used"
            )
            document.report.leave_open(
                problem, path, "keep a copy of it here", code="open-artifact"
            )
    elif not document.files.has(file):
        names = document.files.below(file)
        if names and may_be_folder and len(names) <= MOST_FILES:
            return
        problem = f"there is no file {content['file']}"
        if names:
            problem = f"{content['file']} is a folder"
            hint = "name the file to run"
            if may_be_folder:
                problem = f"{problem} of {len(names):,} files"
                hint = f"pack it: a folder has at most {MOST_FILES:,}"
            document.report.leave_open(problem, path, hint, code="open-artifact")
            return
        document.report.leave_open(
            problem,
            path,
            "its path begins at the file that names it",
            code="open-artifact",
        )


def check_implementation(
    content: Mapping[str, Any],
    artifacts: Mapping[str, ArtifactDefinition],
    path: Path,
    document: Document,
    *,
    operation: str,
) -> None:
    """Report what is wrong with an implementation: the name of an artifact, or of a file (chapter 13)."""
    primary = content.get("primary")
    steps: list[tuple[Any, Path]] = [(primary, (*path, "primary"))]
    steps += [
        (item, (*path, "dependencies", index))
        for index, item in enumerate(content.get("dependencies") or ())
    ]
    for item, where in steps:
        if isinstance(item, str):
            if item not in artifacts:
                check_file(
                    {"file": item},
                    where,
                    document,
                    may_be_folder=where[-1] != "primary",
                )
        elif item is not None and item.get("file") is not None:
            type_ = None
            if item.get("type") is not None:
                _check_type(item["type"], where, document)
                type_ = document.find("artifact_types", item["type"])
            if type_ is not None and not type_.is_incomplete:
                own = item.get("properties") or {}
                owner = f"the artifact {item['file']}"
                values.check_properties(
                    own,
                    type_.properties,
                    owner,
                    ((*where, "properties"), where),
                    document.report,
                )
            is_image = type_ is not None and _IMAGES in type_.keys
            if _check_repository(item, where, document) and not is_image:
                check_file(
                    item,
                    (*where, "file"),
                    document,
                    may_be_folder=where[-1] != "primary",
                )
    _check_tool(primary, artifacts, (*path, "primary"), document, operation)


def _check_tool(
    primary: Json,
    artifacts: Mapping[str, ArtifactDefinition],
    path: Path,
    document: Document,
    operation: str,
) -> None:
    """Report an open point if nothing on this machine runs an implementation (chapter 13)."""
    names: Document = document
    if isinstance(primary, str):
        artifact = artifacts.get(primary)
        if artifact is None:
            content = {"file": primary}
            type_ = None
        else:
            content = {
                "file": artifact.get("file"),
                "repository": artifact.get("repository"),
            }
            type_ = artifact.type
            names = artifact.names if isinstance(artifact.names, Document) else document
    elif primary is not None:
        content = primary
        type_ = (
            document.find("artifact_types", primary["type"])
            if primary.get("type")
            else None
        )
    else:
        return
    if content.get("file") is None:
        return
    where = file_path(content, names)
    tool = processor(type_, content, names, where)
    if tool == CONTAINER and operation != OF_IMAGES:
        problem, hint = refusal(operation)
        document.report.leave_open(problem, path, hint, code="open-tool")
    elif tool:
        program, install = lacking(tool)
        if program:
            document.report.leave_open(
                f"{program} is not on this machine", path, install, code="open-tool"
            )
    elif where is not None and names.files.has(where):
        hint = "begin it with #! and the path of its interpreter, or name the type of the artifact"
        document.report.leave_open(
            f"no program is known that runs {content['file']}",
            path,
            hint,
            code="open-tool",
        )
