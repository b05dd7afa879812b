"""Signatures in the format SSHSIG, checked and made by the program ssh-keygen, and those of commits and tags of git."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterable, Sequence
from pathlib import Path

from heat_config_agent.model import signed
from heat_config_agent.model.deployment import Deployment
from heat_config_agent.model.errors import AgentError
from heat_config_agent.model.policy import Policy
from heat_config_hooks.files import take
from heat_config_hooks.values import replace

_REFUSED = 255
"""The exit code of ssh-keygen for a signature that does not count, and for most other failures."""

SECONDS = 20.0
"""The timeout of ssh-keygen."""

_PLACES = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
"""The folders in which ssh-keygen is looked for: no variable of the caller adds another one."""


_FAULTS = re.compile(
    r"No user exists|Unable to open|Couldn't read|No such file|Permission denied|allocate memory"
)
"""Messages of ssh-keygen about the machine, and not about a signature."""


def obstacle() -> AgentError | None:
    """Return the error that keeps signatures from being checked on this machine; None without one."""
    try:
        problem(
            signed.evidence(signed.FILES, f"{signed.BEGIN}\nAAAA\n{signed.END}\n"), ""
        )
    except AgentError as error:
        return error
    return None


def with_verified(policy: Policy, deployments: Iterable[Deployment]) -> Policy:
    """Return a policy that knows which signatures of these deployments count now.

    If that cannot be found out, it is a mistake of the policy: nothing new begins, and nothing is refused for good.
    """
    if policy.signers is None or policy.mistake:
        return policy
    texts = {
        text
        for each in deployments
        for text in (*each.signatures, *each.signed_configs)
    }
    try:
        return replace(
            policy, verified={text: problem(text, policy.signers) for text in texts}
        )
    except AgentError as error:
        return replace(
            policy, mistake=f"cannot use the policy {policy.file}: signers: {error}"
        )


def problem(evidence: str, allowed: str) -> str:
    """Return why evidence (`signed.evidence`) does not count with this allowed signers file; empty if it does.

    Raises AgentError if ssh-keygen cannot say.
    """
    return verdict(evidence, allowed)[0]


def verdict(evidence: str, allowed: str) -> tuple[str, str]:
    """Return the problem of evidence, as `problem` does; if there is none, the name of the signer in the file."""
    namespace, _, text = evidence.partition("\n")
    try:
        message, signature = (
            part.encode("utf-8", "surrogateescape") for part in signed.halves(text)
        )
    except ValueError as error:
        return str(error), ""
    with (
        _memory(allowed.encode("utf-8", "surrogateescape")) as signers,
        _memory(signature) as signature_file,
    ):
        where = ["-s", _path(signature_file), "-f", _path(signers)]
        found = _asked(
            ["-Y", "find-principals", *where], b"", (signers, signature_file)
        )
        names = (
            found.stdout.decode("utf-8", "replace").splitlines()
            if found.returncode == 0
            else []
        )
        why = _why(found)
        for name in filter(None, names):
            checked = _asked(
                ["-Y", "verify", "-n", namespace, "-I", name, *where],
                message,
                (signers, signature_file),
            )
            if checked.returncode == 0:
                return "", name
            why = _why(checked)
    return why, ""


def sign(key: Path, namespace: str, message: str) -> str:
    """Return a text with its signature below it. The key may be in the agent that $SSH_AUTH_SOCK names.

    ssh-keygen asks for the passphrase on the terminal. Raises AgentError.
    """
    try:
        take(key, signed.LARGEST)
    except OSError as error:
        raise AgentError(f"cannot read the key {key}: {error.strerror}") from None
    done = _run(
        ["-Y", "sign", "-q", "-n", namespace, "-f", str(key)],
        message.encode(),
        (),
        by_hand=True,
    )
    armored = done.stdout.decode("ascii", "replace")
    if done.returncode != 0 or not armored.startswith(signed.BEGIN):
        said = done.stderr.decode("utf-8", "replace")
        known = ((why, todo) for words, why, todo in _FAILURES if words in said)
        why, todo = next(known, (_why(done), ""))
        raise AgentError(f"cannot sign with {key}: {why}", hint=todo.format(key))
    return message + armored


_FAILURES = (
    (
        "incorrect passphrase",
        "its passphrase is missing or wrong",
        "type it again, or run ssh-add {0} and name {0}.pub",
    ),
    (
        "are too open",
        "other users can read it, so ssh-keygen does not use it",
        "run chmod 600 {0}",
    ),
    (
        "No private key found",
        "its private key is neither next to it nor in ssh-agent",
        "ssh-add -l lists the keys in ssh-agent",
    ),
    (
        "load public key",
        "it is not a key of OpenSSH, and has no public key next to it",
        "ssh-keygen makes keys of OpenSSH",
    ),
)
"""Messages of ssh-keygen when it cannot sign, each with the reason and what to do about it."""


def is_on_device(key: Path) -> bool:
    """Return whether a key is on a device that has to be touched for each signature, as its public half says."""
    try:
        return take(
            key if key.suffix == ".pub" else f"{key}.pub", signed.LARGEST
        ).startswith(b"sk-")
    except OSError:
        return False


def _asked(
    words: Sequence[str], message: bytes, descriptors: tuple[int, ...]
) -> subprocess.CompletedProcess[bytes]:
    """Ask ssh-keygen about a signature. Raises AgentError if it has no answer, for a reason of the machine."""
    done = _run(words, message, descriptors)
    said = done.stderr.decode("utf-8", "replace") if done.returncode else ""
    if done.returncode not in (0, _REFUSED) or _FAULTS.search(said):
        hint = (
            "the user of the agent needs an entry in /etc/passwd"
            if "No user exists" in said
            else ""
        )
        raise AgentError(f"signatures cannot be checked: {_why(done)}", hint=hint)
    return done


def _run(
    words: Sequence[str],
    message: bytes,
    descriptors: tuple[int, ...],
    *,
    by_hand: bool = False,
) -> subprocess.CompletedProcess[bytes]:
    """Run ssh-keygen; `by_hand` for someone who may have to type a passphrase.

    Raises AgentError if it is missing or does not end.
    """
    environment = {"PATH": _PLACES, "LC_ALL": "C.UTF-8", "TZ": "UTC"}
    failed = f"signatures cannot be {'made' if by_hand else 'checked'}"
    try:
        return subprocess.run(
            ["ssh-keygen", *words],
            input=message,
            capture_output=True,
            check=False,
            timeout=None if by_hand else SECONDS,
            pass_fds=descriptors,
            cwd=None if by_hand else "/",
            env={**os.environ, **environment} if by_hand else environment,
        )
    except FileNotFoundError:
        raise AgentError(
            f"{failed}: ssh-keygen is missing", hint="install openssh-client"
        ) from None
    except OSError as error:
        raise AgentError(
            f"{failed}: cannot start ssh-keygen: {error.strerror}"
        ) from None
    except subprocess.TimeoutExpired:
        raise AgentError(
            f"{failed}: ssh-keygen has not ended after {SECONDS:g} s"
        ) from None


def _why(done: subprocess.CompletedProcess[bytes]) -> str:
    """Return why ssh-keygen has refused a signature."""
    lines = [
        line.strip()
        for line in done.stderr.decode("utf-8", "replace").splitlines()
        if line.strip()
    ]
    reason = lines[0] if lines else f"ssh-keygen ended with exit code {done.returncode}"
    if reason == "No principal matched.":
        return "its signer is not an allowed one"
    if reason.startswith("/proc/"):  # `PATH:LINE: REASON`
        line, _, reason = reason.partition(":")[2].partition(": ")
        return f"{reason} (line {line} of the allowed signers)"
    return reason[:1].lower() + reason[1:200]


class _memory:  # noqa: N801  # it is used as a function
    """A descriptor of a file that is in memory only, so that no one can change it before it is read."""

    def __init__(self, content: bytes) -> None:
        self._content = content

    def __enter__(self) -> int:
        self._descriptor = os.memfd_create("signature")
        os.write(self._descriptor, self._content)
        return self._descriptor

    def __exit__(self, *_: object) -> None:
        os.close(self._descriptor)


def _path(descriptor: int) -> str:
    return f"/proc/self/fd/{descriptor}"


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
    if (
        f"tag {name.removeprefix('refs/').removeprefix('tags/')}" not in head
        or signed.BEGIN not in content
    ):
        return ""
    return signed.evidence(signed.GIT, content)
