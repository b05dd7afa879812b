"""The evidence for a commit or tag of git: the object without its signature, and the signature. Pure."""

from __future__ import annotations

import re

from heat_config_agent.model import signed


def of_commit(content: str) -> str:
    """Return the evidence for a commit, from its content; empty if it has no signature of ssh."""
    head, blank, message = content.partition("\n\n")
    kept: list[str] = []
    signature: list[str] = []
    inside = False
    for line in head.split("\n"):
        if re.match(r"gpgsig(-sha256)? ", line):
            inside = True
            signature.append(line.partition(" ")[2])
        elif inside and line.startswith(" "):
            signature.append(line[1:])
        else:
            inside = False
            kept.append(line)
    text = "\n".join(signature)
    if not text.startswith(signed.BEGIN) or text.count(signed.BEGIN) != 1:
        return ""
    return signed.evidence(signed.GIT, "\n".join(kept) + blank + message + text + "\n")


def of_tag(content: str, name: str) -> str:
    """Return the evidence for an annotated tag of that name, from its content; empty if it has no signature of ssh."""
    head = content.partition("\n\n")[0].split("\n")
    if f"tag {name.removeprefix('refs/').removeprefix('tags/')}" not in head or signed.BEGIN not in content:
        return ""
    return signed.evidence(signed.GIT, content)
