"""The kind of a file: the language of a template, and a sentence for what people take for a document of deployments."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Mapping

from heat_config_agent.model.deployment import HOT_KEYS, TOSCA_KEYS

ARCHIVES = (".csar", ".zip")
"""The endings of archives of TOSCA services."""

HOT, TOSCA = "hot", "tosca"
"""The languages of templates. CloudFormation's counts as HOT, whose reader says that it is not supported."""

_ENVIRONMENT = frozenset(
    {
        "parameters",
        "parameter_defaults",
        "resource_registry",
        "encrypted_param_names",
        "event_sinks",
    }
    | {"parameter_merge_strategies"}
)

_TASKS = frozenset(
    {"hosts", "tasks", "roles", "import_playbook", "ansible.builtin.import_playbook"}
)

_UNITS = (
    r"^\[(Unit|Service|Install|Container|Volume|Network|Pod|Socket|Timer|Mount)\]\s*$"
)


def of_value(value: object) -> tuple[str, str]:
    """Return the kind of a file whose value is not a document of deployments, and a hint about its use.

    Both are empty for an unknown kind.
    """
    if isinstance(value, list):
        if value and all(
            isinstance(each, Mapping) and not _TASKS.isdisjoint(each) for each in value
        ):
            return (
                "a playbook of Ansible",
                "put it into the config of a deployment with `group: ansible`",
            )
        return "", ""
    if not isinstance(value, Mapping):
        return "", ""
    keys = value.keys()
    if keys >= {"apiVersion", "kind"}:
        kubelet = value["kind"] == "Pod"
        hint = (
            "put it into the config of a deployment with `group: kubelet`"
            if kubelet
            else ""
        )
        return "a manifest of Kubernetes", hint
    if "services" in keys and isinstance(value["services"], Mapping):
        return (
            "a compose file",
            "put it into the config of a deployment with `group: docker-compose`",
        )
    if "resources" in keys or "Resources" in keys:
        return (
            "a template without its version",
            "a HOT template begins with heat_template_version",
        )
    if keys and keys <= _ENVIRONMENT:
        return (
            "an environment of a template",
            "apply the template, and name this file with --environment",
        )
    if "configs" in keys and isinstance(value["configs"], list):
        return (
            "the config of a component",
            "put it into the config of a deployment with `group: component`",
        )
    return "", ""


def of_text(text: str) -> tuple[str, str]:
    """Return the kind of a text that is neither YAML nor JSON with deployments, and what to do with it."""
    first = text.lstrip("\ufeff").split("\n", 1)[0].rstrip()
    if first.startswith("#!"):
        tool = "python" if "python" in first else "script"
        return (
            "a script",
            f"put it into the config of a deployment with `group: {tool}`",
        )
    if first == "#cloud-config":
        return "user data for cloud-init", "a document has a list of deployments"
    if re.search(_UNITS, text, re.MULTILINE):
        return (
            "a unit of systemd",
            "put it into the config of a deployment with `group: systemd-unit` or `quadlet`",
        )
    if re.search(r"^\[(agent|DEFAULT|follow [^\]]*)\]\s*$", text, re.MULTILINE):
        return "a file of settings", "name it with --config"
    if re.match(r"\s*<(!DOCTYPE|html|\?xml)", text, re.IGNORECASE):
        return "a web page", "was it saved in the place of the document?"
    return "", ""


_MAGIC = (
    (b"\x1f\x8b", "an archive made with gzip"),
    (b"BZh", "an archive made with bzip2"),
    (b"\xfd7zXZ", "an archive made with xz"),
    (b"\x28\xb5\x2f\xfd", "an archive made with zstd"),
    (b"7z\xbc\xaf", "an archive made with 7-Zip"),
    (b"\x7fELF", "a program"),
    (b"%PDF", "a PDF document"),
    (b"-----BEGIN SSH SIGNATURE", "a signature"),
)


def of_content(content: bytes) -> tuple[str, str]:
    """Return the kind of a file that is not text, and what to do with it; both are empty for text."""
    for magic, kind in _MAGIC:
        if content.startswith(magic):
            archive = kind.startswith("an archive")
            return (
                kind,
                "an archive of a TOSCA service is a zip file (.csar)"
                if archive
                else "",
            )
    if content[257:262] == b"ustar":
        return (
            "an archive made with tar",
            "an archive of a TOSCA service is a zip file (.csar)",
        )
    if b"\0" in content[:1024] and not content.startswith((b"\xff\xfe", b"\xfe\xff")):
        return "a binary file", ""
    return "", ""


_VERSIONS = {
    HOT: re.compile(
        rf"""^[ \t{{"']*(?:{"|".join(HOT_KEYS)})\b""".encode(), re.MULTILINE
    ),
    TOSCA: re.compile(rf"""^[ \t\-{{"']*{TOSCA_KEYS[0]}\b""".encode(), re.MULTILINE),
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


def template_in(content: bytes) -> str:
    """Return the language of a text with a line that begins with a template's version; else empty."""
    versions = {
        language: match.start()
        for language, form in _VERSIONS.items()
        if (match := form.search(content))
    }
    return min(versions, key=versions.__getitem__) if versions else ""


def is_packed(name: str) -> bool:
    """Return whether a file is an archive, as its name or its content says, or a folder. A pipe is not looked into."""
    if name.endswith(ARCHIVES) or os.path.isdir(name):  # noqa: PTH112
        return True
    try:
        if not os.path.isfile(name):  # noqa: PTH113
            return False
        with open(name, "rb") as file:
            return file.read(2) == b"PK"
    except (OSError, ValueError):
        return False


def language_of(name: str) -> str:
    """Return the language of a template's file: of archives and folders TOSCA, else that of its version or sections.

    A file that cannot be read counts as HOT, and so does a pipe, whose content can be read only once.
    """
    if name.endswith(ARCHIVES) or os.path.isdir(name):  # noqa: PTH112  # called for each file
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
    return template_in(content) or next(
        (language for language, form in _SECTIONS.items() if form.search(content)), HOT
    )
