"""The language of a file: HOT or TOSCA."""

from __future__ import annotations

import os
import re
import stat
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from heat_config_agent.model.positions import Json
    from heat_config_stack.definition import Definition, Identity

HOT, TOSCA = "hot", "tosca"

_VERSIONS = {
    TOSCA: re.compile(rb"""^[ \t\-{"']*tosca_definitions_version\b""", re.MULTILINE),
    HOT: re.compile(
        rb"""^[ \t{"']*(?:heat_template_version|HeatTemplateFormatVersion|AWSTemplateFormatVersion)\b""", re.MULTILINE
    ),
}
_SECTIONS = {
    HOT: re.compile(
        rb"""^["']?(?:[Rr]esources|[Pp]arameters|[Oo]utputs|[Cc]onditions|[Mm]appings|parameter_groups)["']?\s*:""",
        re.MULTILINE,
    ),
    TOSCA: re.compile(
        rb"""^["']?(?:topology_template|node_templates|imports|repositories|dsl_definitions|namespace|metadata
        |description|template_(?:name|author|version)
        |(?:node|data|capability|relationship|interface|artifact|group|policy)_types)["']?\s*:""",
        re.MULTILINE | re.VERBOSE,
    ),
}
_LARGEST = 1024**2
"""Bytes of a file that are looked at."""


def load(source: Json, identity: Identity) -> Definition:
    """Return the definition of a stack from its stored source, in whichever language it is. Raises `Invalid`."""
    if isinstance(source, dict) and source.get("language") == TOSCA:
        from heat_config_stack.tosca.compilation import loader as tosca  # noqa: PLC0415  # HOT needs none of it

        return tosca.load(source, identity)
    from heat_config_stack.hot import loader as hot  # noqa: PLC0415  # TOSCA needs none of it

    return hot.load(source, identity)


def is_packed(name: str) -> bool:
    """Return whether a file is an archive, as its name or its content says, or a folder. A pipe is not looked into."""
    if name.endswith((".csar", ".zip")) or os.path.isdir(name):  # noqa: PTH112
        return True
    try:
        if not os.path.isfile(name):  # noqa: PTH113
            return False
        with open(name, "rb") as file:
            return file.read(2) == b"PK"
    except (OSError, ValueError):
        return False


def language_of(name: str) -> str:
    """Return the language of a file: archives and folders are TOSCA, a text is what its version or its sections say.

    A file that cannot be read counts as HOT, and so does a pipe, whose content can be read only once.
    """
    if name.endswith((".csar", ".zip")) or os.path.isdir(name):  # noqa: PTH112  # called for each file
        return TOSCA
    try:
        if not stat.S_ISREG(os.stat(name).st_mode):  # noqa: PTH116
            return HOT
        with open(name, "rb") as file:
            content = file.read(_LARGEST)
    except (OSError, ValueError):
        return HOT
    if content.startswith(b"PK\x03\x04"):
        return TOSCA
    versions = {language: match.start() for language, form in _VERSIONS.items() if (match := form.search(content))}
    if versions:
        return min(versions, key=versions.__getitem__)
    return next((language for language, form in _SECTIONS.items() if form.search(content)), HOT)
