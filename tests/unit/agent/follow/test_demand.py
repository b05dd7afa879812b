"""Repositories that are followed where the policy demands signatures: commits and tags are signed, and only newer."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from heat_config_agent.follow.demand import Demand
from heat_config_agent.follow.git import Git
from heat_config_agent.follow.origin import Origin
from heat_config_agent.model import signed
from heat_config_agent.model.errors import UsageError
from heat_config_agent.signing import commits, ssh
from support.repositories import Repository
from support.signers import Signer

pytestmark = pytest.mark.skipif(
    not (shutil.which("git") and shutil.which("ssh-keygen")), reason="needs git and ssh-keygen: install openssh-client"
)


class Followed:
    """A repository that is followed with a demand."""

    def __init__(self, folder: Path, allowed: str) -> None:
        self.folder, self.allowed, self.after = folder, allowed, ""
        self.repository = Repository(folder / "repository")

    def fetch(self, ref: str = "main") -> str:
        """Fetch the newest revision, as the follower does, and return it."""
        environment = {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": str(self.folder)}
        origin = Origin(
            url=self.repository.url,
            ref=ref,
            seconds=20,
            size=1024**2,
            user="",
            token="",
            ca_file=None,
            environment=environment,
        )
        tree = self.folder / "tree"
        shutil.rmtree(tree, ignore_errors=True)
        tree.mkdir()
        source = Git(origin, self.folder)
        source.demand = Demand(self.allowed, self.after)
        try:
            revision = source.fetch(source.newest(), tree)
        except UsageError:
            assert list(tree.iterdir()) == []  # nothing of it is there to be read
            raise
        assert ssh.problem(source.evidence, self.allowed) == ""
        self.after = revision
        return revision


def test_a_branch_is_followed_forward_only(tmp_path: Path) -> None:
    """Unsigned, unknown and older commits are refused, and so is a history that was written anew."""
    alice, mallory = Signer(tmp_path, "alice"), Signer(tmp_path, "mallory")
    followed = Followed(tmp_path, alice.line())
    repository = followed.repository
    one = repository.commit({"a": "1"}, *alice.git)
    assert followed.fetch() == one
    two = repository.commit({"a": "2"}, *alice.git)
    three = repository.commit({"a": "3"}, *alice.git)
    assert followed.fetch() == three  # what is between need not have been seen
    assert followed.fetch() == three
    repository.git("reset", "-q", "--hard", two)
    with pytest.raises(UsageError, match=f"{two[:12]} does not follow {three[:12]}"):
        followed.fetch()
    repository.commit({"a": "other"}, *alice.git)
    with pytest.raises(UsageError, match="does not follow"):
        followed.fetch()
    assert followed.fetch(two) == two  # a commit that the settings name is what root wants
    followed.after = three
    repository.git("reset", "-q", "--hard", three)
    repository.commit({"a": "4"})
    with pytest.raises(UsageError, match="has no signature of ssh"):
        followed.fetch()
    repository.git("reset", "-q", "--hard", three)
    repository.commit({"a": "5"}, *mallory.git)
    with pytest.raises(UsageError, match="its signer is not an allowed one"):
        followed.fetch()
    shutil.rmtree(tmp_path / "git")  # what was fetched is gone, but not the record of it
    repository.git("reset", "-q", "--hard", two)
    with pytest.raises(UsageError, match="does not follow"):
        followed.fetch()


def test_a_signed_tag_stands_for_its_commit(tmp_path: Path) -> None:
    """A signed tag counts for its commit, but not under another name or with another signer."""
    alice, mallory = Signer(tmp_path, "alice"), Signer(tmp_path, "mallory")
    followed = Followed(tmp_path, alice.line())
    repository = followed.repository
    one = repository.commit({"a": "1"})
    repository.git(*alice.git, "tag", "-s", "-m", "first", "v1")
    assert followed.fetch("v1") == one
    repository.git("update-ref", "refs/tags/v2", repository.git("rev-parse", "v1"))
    with pytest.raises(UsageError, match="has no signature"):
        followed.fetch("v2")
    repository.git(*mallory.git, "tag", "-s", "-m", "third", "v3")
    with pytest.raises(UsageError, match="its signer is not an allowed one"):
        followed.fetch("v3")
    repository.git("tag", "-a", "-m", "unsigned", "v4")
    with pytest.raises(UsageError, match="has no signature"):
        followed.fetch("v4")


def test_no_byte_of_a_signed_commit_can_be_changed(tmp_path: Path) -> None:
    """The evidence of a commit is its whole content, as git signs it."""
    alice = Signer(tmp_path, "alice")
    repository = Repository(tmp_path / "repository")
    revision = repository.commit({"a": "1"}, *alice.git)
    content = repository.git("cat-file", "commit", revision) + "\n"
    evidence = commits.of_commit(content)
    assert ssh.problem(evidence, alice.line()) == ""
    message = signed.halves(evidence.partition("\n")[2])[0]
    start = evidence.index(message)
    for position in range(start, start + len(message), 3):
        changed = evidence[:position] + chr(ord(evidence[position]) ^ 1) + evidence[position + 1 :]
        assert ssh.problem(changed, alice.line()) == "signature verification failed: incorrect signature"
    assert commits.of_commit(content.replace("SSH SIGNATURE", "PGP SIGNATURE")) == ""
