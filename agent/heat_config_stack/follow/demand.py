"""The demands of the policy on a revision: a signature that counts, and no way back to an earlier revision."""

from __future__ import annotations

from pathlib import Path

from heat_config_agent.model.errors import SourceError, UsageError
from heat_config_agent.settings.in_force import refused_url
from heat_config_agent.signing import gate
from heat_config_hooks import files
from heat_config_hooks.values import dataclass

SUFFIX = ".signature"
"""The end of the name of the evidence for a tree, which stands next to the tree."""


_SIGN = "heat-config-agent sign writes its list next to it; a TOSCA service is an archive or a folder in the source"


@dataclass(frozen=True)
class Demand:
    """The checks of a source before it puts the files of a revision into the tree."""

    signers: str
    """The content of the allowed signers file."""
    after: str
    """The newest revision so far: the next one has to follow it. Empty for none."""

    def require(self, evidence: str, shown: str) -> None:
        """Raise UsageError unless evidence counts."""
        if not evidence:
            raise UsageError(
                f"{shown} has no signature of ssh, and the rule signers of the policy requires one",
                hint="git commit -S signs commits, with gpg.format=ssh",
            )
        gate.require(evidence, self.signers, shown)


def require_beside(path: Path, tree: Path) -> None:
    """Raise UsageError unless a template or document is signed by the list next to it, if the policy requires it.

    This is for sources whose revisions are not signed as a whole, before anything of a revision is looked at.
    """
    allowed = gate.signers()
    if allowed is None:
        return
    opened = gate.beside(path, allowed, required=False)
    if opened is None:
        name = path.relative_to(tree).as_posix()
        named = "the source itself" if name == "." else name
        raise UsageError(
            f"{named} is not signed, and the rule signers of the policy requires it",
            hint=_SIGN,
        )
    if not path.is_dir():
        try:
            opened.read(path)
        except OSError as error:
            raise UsageError(f"cannot read {path}: {error.strerror}") from error


def now(after: str) -> Demand | None:
    """Return the current demand of the policy; None if it requires no signatures. Raises UsageError."""
    signers = gate.signers()
    return None if signers is None else Demand(signers, after)


def allow(url: str) -> None:
    """Raise SourceError if the policy refuses to reach a source. The files of this machine are not reached."""
    if not url.startswith(("/", "file:")) and (refusal := refused_url(url)):
        raise SourceError(refusal)


def keep(tree: Path, evidence: str) -> None:
    """Put the evidence for a tree next to it; without evidence, remove an earlier one. Raises OSError."""
    place = tree.with_name(tree.name + SUFFIX)
    if evidence:
        files.replace(place, evidence.encode("utf-8", "surrogateescape"), durable=True)
    else:
        place.unlink(missing_ok=True)


def option(link: Path) -> list[str]:
    """Return the option of `heat-config-apply` for the evidence of the tree in force, if there is any."""
    tree = link.resolve()
    place = tree.with_name(tree.name + SUFFIX)
    return ["--signature", str(place)] if place.exists() else []
