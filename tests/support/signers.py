"""Keys of people who sign, and the allowed signers file of a machine that trusts some of them."""

from __future__ import annotations

import subprocess
from pathlib import Path

from support.governed import Governed

SIGNERS = "/etc/heat-config-agent/allowed_signers"
"""The allowed signers file, as the policy of a machine names it."""

BOMB = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{new}: &{new} [*{old}, *{old}, *{old}, *{old}, *{old}, *{old}, *{old}, *{old}, *{old}]\n"
    for old, new in zip("abcdefgh", "bcdefghi", strict=True)
)
"""A text of YAML that stands for far more than any machine has memory for: it has to be refused unparsed."""


class Signer:
    """A user with an ssh key."""

    def __init__(self, folder: Path, name: str) -> None:
        """Make the key in a folder."""
        self.name, self.key = name, folder / f"key-{name}"
        make = [
            "ssh-keygen",
            "-q",
            "-t",
            "ed25519",
            "-N",
            "",
            "-C",
            name,
            "-f",
            str(self.key),
        ]
        subprocess.run(make, check=True)

    @property
    def git(self) -> tuple[str, ...]:
        """Options of git with which commits and tags are signed."""
        settings = {"gpg.format": "ssh", "user.signingKey": f"{self.key}.pub"}
        settings |= {"commit.gpgSign": "true", "tag.gpgSign": "true"}
        return tuple(
            word
            for name, value in settings.items()
            for word in ("-c", f"{name}={value}")
        )

    def line(self, options: str = "") -> str:
        """Return the line of an allowed signers file that trusts this key."""
        kind, key, *_ = self.key.with_suffix(".pub").read_text().split()
        return (
            " ".join(filter(None, (f"{self.name}@example.com", options, kind, key)))
            + "\n"
        )


def sign(governed: Governed, signer: Signer, *words: str) -> None:
    """Sign with the command of a machine."""
    done = governed.run("heat-config-agent", "sign", "--key", str(signer.key), *words)
    assert done.code == 0, done.err
