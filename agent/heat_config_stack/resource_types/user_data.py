"""The user data of servers: its scripts, and the parts that only cloud-init understands."""

from __future__ import annotations

import base64
from dataclasses import dataclass

_SCRIPT = "text/x-shellscript"
_KINDS = {
    "#cloud-config": "cloud-config",
    "#cloud-boothook": "a boothook",
    "#include": "a list of URLs",
    "#part-handler": "a part handler",
    "#upstart-job": "an upstart job",
    "#cloud-config-archive": "an archive of cloud-config",
    "## template: jinja": "a template",
    "MIME-Version:": "a MIME message",
}
"""The first words of user data → what it is, as cloud-init tells them apart."""
_TYPES = {
    "text/cloud-config": "cloud-config",
    "text/cloud-boothook": "a boothook",
    "text/x-include-url": "a list of URLs",
    "text/x-include-once-url": "a list of URLs",
    "text/part-handler": "a part handler",
    "text/jinja2": "a template",
}
"""The type of a part of a MIME message → what it is."""


@dataclass(frozen=True)
class UserData:
    """The parts of the user data of a server."""

    scripts: tuple[str, ...] = ()
    """The scripts, in their order."""
    others: tuple[str, ...] = ()
    """The kinds of the other parts, each once: `cloud-config`."""

    @property
    def config(self) -> str:
        """Return one script that runs all scripts, as cloud-init does, and fails if one of them has failed."""
        if len(self.scripts) == 1:
            return self.scripts[0]
        lines = ["#!/bin/sh", "folder=$(mktemp -d) && trap 'rm -rf \"$folder\"' EXIT || exit 1", "failed=0"]
        for number, script in enumerate(self.scripts, start=1):
            name = f'"$folder/part-{number:03}"'
            text = base64.b64encode(script.encode()).decode()
            lines += [f"printf %s '{text}' | base64 -d > {name} && chmod 700 {name}", f"{name} || failed=$?"]
        return "\n".join([*lines, "exit $failed", ""])


def read(text: str) -> UserData:
    """Return what is in a text of user data, as cloud-init reads it."""
    beginning = text.lstrip()
    if not beginning:
        return UserData()
    if beginning.startswith("#!"):
        return UserData((beginning,))
    if beginning.lower().startswith(("content-type: multipart", "mime-version:")):
        return _message(beginning)
    kind = next((what for word, what in reversed(_KINDS.items()) if beginning.startswith(word)), "")
    return UserData(others=(kind or "a text of an unknown kind",))


def _message(text: str) -> UserData:
    import email  # noqa: PLC0415  # few templates have several parts

    scripts: list[str] = []
    others: dict[str, None] = {}
    for part in email.message_from_string(text).walk():
        if part.is_multipart():
            continue
        payload = part.get_payload(decode=True)
        content = payload.decode("utf-8", "replace") if isinstance(payload, bytes) else ""
        type_ = part.get_content_type()
        if type_ == _SCRIPT or (type_ not in _TYPES and content.startswith("#!")):
            scripts.append(content)
        elif type_ in _TYPES or not content.strip():
            others[_TYPES.get(type_, f"an empty part of type {type_}")] = None
        else:
            inner = read(content)
            scripts += inner.scripts
            others.update(dict.fromkeys(inner.others))
    return UserData(tuple(scripts), tuple(others))
