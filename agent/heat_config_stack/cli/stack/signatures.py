"""The files that a stack is made of, read only if they are signed, where the policy has the rule `signers`."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from heat_config_agent.diagnostics.kinds import is_packed
from heat_config_agent.model.errors import UsageError
from heat_config_agent.settings.in_force import policy_in_force
from heat_config_hooks.files import take
from heat_config_hooks.values import dataclass

if TYPE_CHECKING:
    from heat_config_agent.signing.gate import Gate
    from heat_config_stack.tosca.files.archives import Disk


@dataclass(frozen=True)
class Opened:
    """A template that may be read."""

    path: str
    """The template; of an archive or a folder, a copy of what is signed."""
    read: Callable[[str], bytes] = take
    """Returns the content of a file. Raises OSError, and UsageError if it is not signed."""
    evidence: tuple[str, ...] = ()
    disk: Disk | None = None
    """The files of service templates that are in no archive; None for all files of this machine."""


def opened(options: Any, template: str) -> Opened:
    """Return a template that the policy allows to read. Raises UsageError.

    `options.signature` is the evidence for a tree that was found signed as a whole, see `heat-config-agent follow`.
    """
    known = getattr(options, "opened", None)
    if isinstance(known, Opened):
        return known
    if policy_in_force() is None:
        return Opened(template)
    from heat_config_agent.signing import gate  # noqa: PLC0415  # few machines require signatures
    from heat_config_stack.tosca.files.archives import Chosen  # noqa: PLC0415

    allowed = gate.signers()
    if allowed is None:
        return Opened(template)
    given = getattr(options, "signature", None)
    signed = gate.of_tree(given, allowed) if given else gate.beside(template, allowed, required=True)
    if signed is None:
        raise AssertionError(template)
    if given:
        signed.check(template, b"")
    elif is_packed(template):
        return Opened(_copied(gate.named(template), signed), evidence=signed.evidence)
    disk = Chosen(signed.covers, signed.read, has_archives=bool(given))  # the tree was compared as a whole
    return Opened(template, signed.read, signed.evidence, disk)


def _copied(template: str, signed: Gate) -> str:
    """Return a copy of the files of a folder, or of an archive, that are signed, which lasts as long as the process."""
    import atexit  # noqa: PLC0415  # few machines require signatures
    import shutil  # noqa: PLC0415
    import tempfile  # noqa: PLC0415

    folder = tempfile.mkdtemp(prefix="heat-config-signed-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    root = os.path.dirname(template) or "."  # noqa: PTH120  # it may be empty
    for name in signed.names:
        target = Path(folder, name)
        if not target.resolve().is_relative_to(Path(folder).resolve()):
            raise UsageError(f"cannot use {template}: its signed list has {name}, which is outside of its folder")
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            target.write_bytes(signed.read(Path(root, name)))
        except OSError as error:
            raise UsageError(f"cannot read {name}: {error.strerror}") from error
    return str(Path(folder, os.path.basename(template)))  # noqa: PTH119
