"""The processor of an operation's implementation, by its type, its extension or its first line (chapter 13)."""

from __future__ import annotations

import os
import posixpath
from collections.abc import Mapping
from functools import lru_cache

import heat_config_hooks
from heat_config_agent.model.positions import Json
from heat_config_hooks import needs, programs
from heat_config_stack.tosca.files.documents import Document
from heat_config_stack.tosca.language.types import Type

EXECUTABLE = "executable"
CONTAINER = "container"

SCRIPTS = ("bash", "python", EXECUTABLE)
"""The processors of scripts."""

OF_IMAGES = "create"
"""The operation that the image of a container can implement; the removal of the container undoes it."""

_IMAGE = "tosca.artifacts.Deployment.Image.Container"
_DEPLOYMENT = "tosca.artifacts.Deployment"
_PREFIX = "tosca.artifacts.Implementation."


_EXTENSIONS = {
    "sh": "bash",
    "bash": "bash",
    "py": "python",
    "yaml": "ansible",
    "yml": "ansible",
    "pp": "puppet",
    "sls": "salt",
}
"""The processor of each extension that no artifact type names."""

_FOLDERS = (
    "/usr/local/sbin",
    "/usr/local/bin",
    "/usr/sbin",
    "/usr/bin",
    "/sbin",
    "/bin",
)


def processor(
    type_: Type | None,
    content: Mapping[str, Json],
    document: Document,
    path: str | None,
) -> str:
    """Return the name of the processor that runs an artifact; empty if there is none.

    `content` is the artifact with its file, `path` the file among those of the document; None where it is not here.
    """
    if type_ is not None:
        named = _of_type(type_)
        if named is not None:
            return named
    file = str(content["file"])
    extension = posixpath.splitext(file)[1].removeprefix(".")
    if extension:
        named = _of_extension(extension, document)
        if named:
            return named
    return _of_first_line(document, path) if path is not None else ""


def refusal(operation: str) -> tuple[str, str]:
    """Return why the image of a container cannot implement an operation, and what to do."""
    problem = f"the image of a container implements {OF_IMAGES}, not {operation}"
    return (
        problem,
        f"name it at {OF_IMAGES}: when the node is deleted, its container is removed",
    )


def _of_type(type_: Type) -> str | None:
    """Return the processor of an artifact type; nothing for a deployment artifact, and None where the type is open."""
    names = [ancestor.name for ancestor in type_.lineage]
    for name in names:
        last = name.rpartition(".")[2].lower()
        if last in needs.PROCESSORS and (name.startswith(_PREFIX) or last != CONTAINER):
            return last
    if any(name.startswith(_IMAGE) for name in names):
        return CONTAINER
    return "" if _DEPLOYMENT in names else None


def _of_extension(extension: str, document: Document) -> str:
    """Return the processor of an extension, as the artifact types that the document knows have it; else our own."""
    for type_ in document.types_with_extension(extension):
        named = _of_type(type_)
        if named:
            return named
    return _EXTENSIONS.get(extension, "")


def _of_first_line(document: Document, path: str) -> str:
    try:
        begin = document.files.read(path)[:4]
    except (OSError, ValueError):
        return ""
    return EXECUTABLE if begin[:2] == b"#!" or begin == b"\x7fELF" else ""


@lru_cache(maxsize=32)
def lacking(name: str) -> tuple[str, str]:
    """Return the missing program of a processor, and how to install it; empty if nothing is missing."""
    if name not in needs.PROCESSORS:
        return "", ""
    if heat_config_hooks.absent(name):
        package = heat_config_hooks.COMPAT_PACKAGE
        return package, f"install the package {package}"
    path = os.pathsep.join([os.environ.get("PATH", ""), *_FOLDERS])
    environment = {**os.environ, "PATH": path}
    need = needs.lacking(needs.PROCESSORS[name], environment)
    return (
        (programs.title(need, environment), str(need.install))
        if need is not None
        else ("", "")
    )
