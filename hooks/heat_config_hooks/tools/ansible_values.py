"""The inputs of a deployment as variables of ansible, none of which is taken for a template."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping

_SETTINGS = ("ansible_", "_ansible_", "sops_", "conjur_")
"""The beginnings of variables that set ansible and its plug-ins: connections, interpreters, privileges, debuggers.

Most plug-ins of collections begin theirs with `ansible_` too; those of community.sops and cyberark.conjur do not.
"""

_OWN = (
    "delegated_vars",
    "group_names",
    "inventory_dir",
    "inventory_file",
    "inventory_hostname",
    "inventory_hostname_short",
    "omit",
    "proxmox_vmid",
)
"""Variables of ansible itself that an input would replace: tasks would go to another host, or use other files."""

MARKED = (2, 19)
"""The first version of ansible-core whose marks also stay on the keys of a map."""

_UNPRINTABLE = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")
"""Characters that JSON may have as they are, and YAML must not."""

_RESOLVED = re.compile(
    r"[-+]?[0-9.][0-9A-Za-z_.:+ \t-]*|(?i:yes|no|true|false|on|off|null)|~|<<|=|"
)
"""Texts that could be another type in YAML: with the mark, ansible-core 2.19 would convert them.

They need none, because none of them can be a template.
"""

_STRAY = re.compile("[\ud800-\udfff]")


def settings(inputs: Mapping[str, object]) -> list[str]:
    """Return the inputs that would be settings of ansible: any of them may start a program, or name another host."""
    return [name for name in inputs if name.startswith(_SETTINGS) or name in _OWN]


def as_yaml(variables: Mapping[str, object]) -> bytes:
    """Return variables as YAML in which each text, also as a key or an item, has the mark `!unsafe` where it matters.

    Ansible takes a text with that mark as it is, wherever it goes, and never for a template. All types stay.
    """
    return f"{''.join(_parts(variables))}\n".encode()


def _parts(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield _quoted(value)
    elif isinstance(value, Mapping):
        yield "{"
        for number, (key, item) in enumerate(value.items()):
            # A key without its question mark has at most 1,024 characters.
            yield f"{', ' if number else ''}? {_quoted(str(key))} : "
            yield from _parts(item)
        yield "}"
    elif isinstance(value, list | tuple):
        yield "["
        for number, item in enumerate(value):
            yield ", " if number else ""
            yield from _parts(item)
        yield "]"
    elif isinstance(value, float):  # YAML would read 1e+22 as text
        yield (
            f"!!float {value!r}"
            if math.isfinite(value)
            else f"!!float {_ODD[str(value)]}"
        )
    else:
        yield json.dumps(value)


_ODD = {"nan": ".nan", "inf": ".inf", "-inf": "-.inf"}


def _quoted(text: str) -> str:
    """Return text in quotes and with its mark; U+FFFD stands for half of a surrogate pair, which YAML cannot have."""
    quoted = json.dumps(_STRAY.sub("\ufffd", text), ensure_ascii=False)
    quoted = _UNPRINTABLE.sub(lambda match: f"\\u{ord(match[0]):04x}", quoted)
    return quoted if _RESOLVED.fullmatch(text) else f"!unsafe {quoted}"


def exposed(value: object) -> bool:
    """Return whether a map has a key that ansible-core before 2.19 may take for a template.

    That version takes a map for marked if a text among its values is, and looks at no key.
    """
    if isinstance(value, Mapping):
        braces = any("{" in str(key) for key in value)
        return (braces and not _has_text(list(value.values()))) or any(
            map(exposed, value.values())
        )
    return isinstance(value, list) and any(map(exposed, value))


def _has_text(value: object) -> bool:
    if isinstance(value, Mapping):
        return any(map(_has_text, value.values()))
    return isinstance(value, str) or (
        isinstance(value, list) and any(map(_has_text, value))
    )


def version(text: str) -> tuple[int, ...]:
    """Return the version in the output of `ansible-playbook --version`; empty if it has none."""
    match = re.search(r"\[core (\d+)\.(\d+)", text.partition("\n")[0])
    return (int(match[1]), int(match[2])) if match else ()
