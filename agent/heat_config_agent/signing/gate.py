"""Opens files only if they are signed: by a signed list next to the first of them, or by their commit."""

from __future__ import annotations

import os
from pathlib import Path

from heat_config_agent.model import signed
from heat_config_agent.model.errors import AgentError, UsageError
from heat_config_agent.settings.in_force import policy_in_force
from heat_config_agent.signing import ssh
from heat_config_hooks.files import read, take

_HINT = "heat-config-agent sign makes its signature"


class Gate:
    """Reads files that are in a signed list. Their names are paths relative to the folder of the list."""

    def __init__(self, folder: str, evidence: str, shown: str) -> None:
        """Read files as a list has them that is valid. Raises UsageError."""
        self._folders = dict.fromkeys(
            (os.path.abspath(folder), os.path.realpath(folder))  # noqa: PTH100
        )
        self._shown = shown
        self.evidence = (evidence,)
        try:
            self._digests = signed.files(evidence.partition("\n")[2])
        except ValueError as error:
            raise UsageError(f"cannot use {shown}: {error}", hint=_HINT) from None

    def read(self, path: str | Path) -> bytes:
        """Return the content of a file. Raises OSError, and UsageError if it is not signed or was changed."""
        content = take(path)
        self.check(path, content)
        return content

    def check(self, path: str | Path, content: bytes) -> None:
        """Raise UsageError unless the list has this content for a path."""
        name = self._name(path)
        wanted = self._digests.get(name)
        if wanted is None:
            raise UsageError(
                f"cannot use {path}: {name} is not in the signed list {self._shown}",
                hint=_HINT,
            )
        if signed.digest(content) != wanted:
            raise UsageError(
                f"cannot use {path}: it was changed after it was signed in {self._shown}",
                hint="sign it again",
            )

    def covers(self, path: str | Path) -> bool:
        """Return whether a file is signed; its content may have changed since."""
        return self._name(path) in self._digests

    def _name(self, path: str | Path) -> str:
        """Return the name of a file in the list: that of the path itself, and not that of the target of a link.

        So a link cannot replace one signed file by another. The path of the folder may contain a link.
        """
        names = [os.path.relpath(path, folder) for folder in self._folders]
        return next((name for name in names if name in self._digests), names[0])

    @property
    def names(self) -> tuple[str, ...]:
        """The names in the list."""
        return tuple(self._digests)


class _TreeGate(Gate):
    """Reads the files of a tree that was fetched and found signed as a whole."""

    def __init__(self, tree: str, evidence: str) -> None:
        """Read the files below a folder, which others than the caller cannot change."""
        self._tree = os.path.realpath(tree)
        self.evidence = (evidence,)

    def check(self, path: str | Path, content: bytes) -> None:  # noqa: ARG002  # the tree was compared as a whole
        """Raise UsageError unless a path is in the tree."""
        if not self.covers(path):
            raise UsageError(f"cannot use {path}: it is not in the signed revision")

    def covers(self, path: str | Path) -> bool:
        """Return whether a file is in the tree."""
        return f"{os.path.realpath(path)}/".startswith(f"{self._tree}/")


def signers() -> str | None:
    """Return the allowed signers that the policy names; None if it requires no signatures. Raises UsageError."""
    policy = policy_in_force()
    if policy is None:
        return None
    if policy.mistake:
        raise UsageError(policy.mistake)
    return policy.signers


def named(path: str | Path) -> str:
    """Return the path of a file or folder that ends with its name, also for `.` and `..`."""
    name = os.path.normpath(path)
    return os.path.abspath(name) if os.path.basename(name) in (".", "..") else name  # noqa: PTH100, PTH119


def beside(path: str | Path, allowed: str, *, required: bool) -> Gate | None:
    """Return the gate of the signed list next to a file or folder; None if there is none. Raises UsageError.

    The signature is checked before anything else of the list is looked at.
    """
    shown = f"{named(path)}{signed.SUFFIX}"
    try:
        # a daemon must not wait for a pipe
        text = read(shown, signed.LARGEST).decode("utf-8", "surrogateescape")
    except FileNotFoundError:
        if not required:
            return None
        why = "it is not signed, and the rule signers of the policy requires it"
        raise UsageError(
            f"cannot use {path}: {why}: there is no {shown}", hint=_HINT
        ) from None
    except OSError as error:
        raise UsageError(
            f"cannot use {path}: cannot read {shown}: {error.strerror}"
        ) from None
    evidence = signed.evidence(signed.FILES, text)
    require(evidence, allowed, shown)
    return Gate(os.path.dirname(shown) or ".", evidence, shown)  # noqa: PTH120  # it may be empty


def of_tree(path: str, allowed: str) -> Gate:
    """Return the gate of the tree whose evidence is in the file at a path, which is that of the tree and a suffix.

    Raises UsageError.
    """
    try:
        evidence = read(path, signed.LARGEST).decode("utf-8", "surrogateescape")
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}") from error
    require(evidence, allowed, path)
    return _TreeGate(os.path.splitext(path)[0], evidence)  # noqa: PTH122


def require(evidence: str, allowed: str, shown: str) -> None:
    """Raise UsageError unless evidence counts; messages call it `shown`."""
    try:
        why = ssh.problem(evidence, allowed)
    except AgentError as error:
        raise UsageError(str(error)) from error
    if why:
        raise UsageError(f"cannot use {shown}: its signature does not count: {why}")


def evidence_for(path: str | Path, content: bytes, tree: str = "") -> tuple[str, ...]:
    """Return the evidence that a document is signed; nothing if it is not, or need not be.

    `tree` is the evidence for the tree that it is of, see `of_tree`.
    Raises UsageError for a signature that does not count or is of another content.
    """
    policy = policy_in_force()
    if policy is None or policy.signers is None:
        return ()
    gate = (
        of_tree(tree, policy.signers)
        if tree
        else beside(path, policy.signers, required=False)
    )
    if gate is None:
        return ()
    gate.check(path, content)
    return gate.evidence
