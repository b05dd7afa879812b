"""The kind of a file, from its content: a sentence for files that people take for documents of deployments."""

from __future__ import annotations

import re
from collections.abc import Mapping

HOT = frozenset({"heat_template_version", "HeatTemplateFormatVersion", "AWSTemplateFormatVersion"})
TOSCA = frozenset({"tosca_definitions_version", "topology_template"})
"""The keys of templates."""

_ENVIRONMENT = frozenset(
    {"parameters", "parameter_defaults", "resource_registry", "encrypted_param_names", "event_sinks"}
    | {"parameter_merge_strategies"}
)

_TASKS = frozenset({"hosts", "tasks", "roles", "import_playbook", "ansible.builtin.import_playbook"})

_UNITS = r"^\[(Unit|Service|Install|Container|Volume|Network|Pod|Socket|Timer|Mount)\]\s*$"


def is_template(value: object) -> bool:
    """Return whether a value is a template, in HOT, CloudFormation's language or TOSCA."""
    return isinstance(value, Mapping) and not value.keys().isdisjoint(HOT | TOSCA)


def of_value(value: object) -> tuple[str, str]:
    """Return the kind of a file with a value that is not a document of deployments, and what to do with it.

    Both are empty for an unknown kind.
    """
    if isinstance(value, list):
        if value and all(isinstance(each, Mapping) and not _TASKS.isdisjoint(each) for each in value):
            return "a playbook of Ansible", "put it into the config of a deployment with `group: ansible`"
        return "", ""
    if not isinstance(value, Mapping):
        return "", ""
    keys = value.keys()
    if keys >= {"apiVersion", "kind"}:
        kubelet = value["kind"] == "Pod"
        hint = "put it into the config of a deployment with `group: kubelet`" if kubelet else ""
        return "a manifest of Kubernetes", hint
    if "services" in keys and isinstance(value["services"], Mapping):
        return "a compose file", "put it into the config of a deployment with `group: docker-compose`"
    if "resources" in keys or "Resources" in keys:
        return "a template without its version", "a HOT template begins with heat_template_version"
    if keys and keys <= _ENVIRONMENT:
        return "an environment of a template", "apply the template, and name this file with --environment"
    if "configs" in keys and isinstance(value["configs"], list):
        return "the config of a component", "put it into the config of a deployment with `group: component`"
    return "", ""


def of_text(text: str) -> tuple[str, str]:
    """Return the kind of a text that is neither YAML nor JSON with deployments, and what to do with it."""
    first = text.lstrip("\ufeff").split("\n", 1)[0].rstrip()
    if first.startswith("#!"):
        tool = "python" if "python" in first else "script"
        return "a script", f"put it into the config of a deployment with `group: {tool}`"
    if first == "#cloud-config":
        return "user data for cloud-init", "a document has a list of deployments"
    if re.search(_UNITS, text, re.MULTILINE):
        return "a unit of systemd", "put it into the config of a deployment with `group: systemd-unit` or `quadlet`"
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
            return kind, "an archive of a TOSCA service is a zip file (.csar)" if archive else ""
    if content[257:262] == b"ustar":
        return "an archive made with tar", "an archive of a TOSCA service is a zip file (.csar)"
    if b"\0" in content[:1024] and not content.startswith((b"\xff\xfe", b"\xfe\xff")):
        return "a binary file", ""
    return "", ""


_VERSION = re.compile(
    rb"""^[ \t{"']*(tosca_definitions_version|heat_template_version"""
    rb"""|HeatTemplateFormatVersion|AWSTemplateFormatVersion)\b""",
    re.MULTILINE,
)


def template_in(content: bytes) -> str:
    """Return the language of a text with a line that begins with a template's version: HOT or TOSCA; else empty."""
    match = _VERSION.search(content)
    if match is None:
        return ""
    return "TOSCA" if match[1].startswith(b"tosca") else "HOT"
