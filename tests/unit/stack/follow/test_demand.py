"""Repositories that are followed where the policy demands signatures: commits and tags are signed, and only newer."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from heat_config_agent.model.errors import UsageError
from heat_config_agent.signing import ssh
from heat_config_stack.follow.demand import Demand
from heat_config_stack.follow.git import Git
from heat_config_stack.follow.origin import Origin
from support.repositories import Repository
from support.signers import Signer

pytestmark = pytest.mark.skipif(
    not (shutil.which("git") and shutil.which("ssh-keygen")),
    reason="needs git and ssh-keygen: install openssh-client",
)


class Followed:
    """A repository that is followed with a demand."""

    def __init__(self, folder: Path, allowed: str) -> None:
        self.folder, self.allowed, self.after = folder, allowed, ""
        self.environment: dict[str, str] = {}
        self.repository = Repository(folder / "repository")

    def fetch(self, ref: str = "main") -> str:
        """Fetch the newest revision, as the follower does, and return it."""
        environment = {
            "PATH": "/usr/local/bin:/usr/bin:/bin",
            "HOME": str(self.folder),
            **self.environment,
        }
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
    # a commit that the settings name is what root wants
    assert followed.fetch(two) == two
    followed.after = three
    repository.git("reset", "-q", "--hard", three)
    repository.commit({"a": "4"})
    with pytest.raises(UsageError, match="has no signature of ssh"):
        followed.fetch()
    repository.git("reset", "-q", "--hard", three)
    repository.commit({"a": "5"}, *mallory.git)
    with pytest.raises(UsageError, match="its signer is not an allowed one"):
        followed.fetch()
    # what was fetched is gone, but not the record of it
    shutil.rmtree(tmp_path / "git")
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
    two = repository.commit({"a": "2"}, *alice.git)
    assert followed.fetch("main") == two
    with pytest.raises(UsageError, match=f"{one[:12]} does not follow {two[:12]}"):
        # also if the settings name it
        followed.fetch("v1")
    repository.git("tag", "light")
    assert followed.fetch("light") == two
    repository.git("tag", "-a", "-m", "unsigned", "v5")
    assert followed.fetch("v5") == two  # its commit is signed


def test_a_signed_commit_stands_for_those_before_it(tmp_path: Path) -> None:
    """Merged commits need not be signed: the signature of the newest commit is for all its files."""
    alice, mallory = Signer(tmp_path, "alice"), Signer(tmp_path, "mallory")
    followed = Followed(tmp_path, alice.line())
    repository = followed.repository
    one = repository.commit({"a": "1"}, *alice.git)
    assert followed.fetch() == one
    repository.git("checkout", "-q", "-b", "side")
    repository.commit({"b": "2"})
    repository.commit({"c": "3"}, *mallory.git)
    repository.git("checkout", "-q", "main")
    repository.commit({"a": "4"}, *alice.git)
    repository.git(*mallory.git, "merge", "-q", "--no-ff", "-m", "by mallory", "side")
    with pytest.raises(UsageError, match="its signer is not an allowed one"):
        followed.fetch()
    repository.git("reset", "-q", "--hard", "HEAD~1")
    repository.git(*alice.git, "merge", "-q", "--no-ff", "-m", "by alice", "side")
    assert followed.fetch() == repository.git("rev-parse", "HEAD")
    # signed by an unknown user, and older
    repository.git("reset", "-q", "--hard", "HEAD^2")
    with pytest.raises(UsageError, match="its signer is not an allowed one"):
        followed.fetch()


def test_a_commit_with_two_signatures_is_not_a_signed_one(tmp_path: Path) -> None:
    """Neither with two of ssh, nor with one of another kind in front, nor with the one of another commit."""
    alice = Signer(tmp_path, "alice")
    followed = Followed(tmp_path, alice.line())
    repository = followed.repository
    one = repository.commit({"a": "1"}, *alice.git)
    content = repository.git("cat-file", "commit", one) + "\n"
    start = content.index("gpgsig ")
    end = content.index("\n\n") + 1
    signature = content[start:end]
    pgp = (
        "gpgsig -----BEGIN PGP SIGNATURE-----\n \n AAAA\n -----END PGP SIGNATURE-----\n"
    )
    repository.commit({"evil": "2"})
    other = repository.git("cat-file", "commit", "HEAD") + "\n"
    where = other.index("\n\n") + 1
    for forged in (
        content[:start] + signature + signature + content[end:],
        content[:start] + pgp + signature + content[end:],
        content[:start] + signature + pgp + content[end:],
        other[:where] + signature + other[where:],
        other[:where] + signature.replace("gpgsig", "gpgsig-sha256") + other[where:],
    ):
        commit = repository.git(
            "hash-object", "-t", "commit", "-w", "--literally", "--stdin", text=forged
        )
        repository.git("update-ref", "refs/heads/main", commit)
        with pytest.raises(
            UsageError, match=r"has no signature of ssh|its signature does not count"
        ):
            followed.fetch()


def test_no_setting_of_git_decides_what_counts(tmp_path: Path) -> None:
    """Settings of the user, of variables and of the repository neither allow a signer nor run anything."""
    alice, mallory = Signer(tmp_path, "alice"), Signer(tmp_path, "mallory")
    followed = Followed(tmp_path, alice.line())
    repository, proof, run = followed.repository, tmp_path / "proof", tmp_path / "run"
    good = repository.commit(
        {"a": "alice", ".gitattributes": "* filter=evil\n"}, *alice.git
    )
    repository.git("checkout", "-q", "-b", "evil")
    repository.commit({"a": "mallory"}, *mallory.git)
    trusted = tmp_path / "trusted"
    trusted.write_text(mallory.line())
    run.write_text(f"#!/bin/sh\ntouch {proof}\necho mallory@example.com\n")
    run.chmod(0o755)
    settings = {
        "gpg.program": run,
        "gpg.ssh.program": run,
        "gpg.ssh.allowedSignersFile": trusted,
        "core.fsmonitor": run,
        "core.hooksPath": tmp_path / "hooks",
        "core.sshCommand": run,
        "filter.evil.smudge": run,
        "filter.evil.process": run,
        "uploadpack.packObjectsHook": run,
    }
    (tmp_path / "hooks").mkdir()
    for name in ("post-checkout", "reference-transaction", "post-index-change"):
        shutil.copy(run, tmp_path / "hooks" / name)
        shutil.copy(run, repository.folder / ".git/hooks" / name)
    user = tmp_path / ".gitconfig"
    for file in (user, repository.folder / ".git/config"):
        for name, value in settings.items():
            subprocess.run(
                ["git", "config", "--file", str(file), name, str(value)], check=True
            )
    variables = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path)}
    subprocess.run(
        ["git", "status"],
        cwd=repository.folder,
        env=variables,
        check=False,
        capture_output=True,
    )
    assert proof.exists()  # any other git would have run it
    proof.unlink()
    followed.environment = {
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": "gpg.ssh.allowedSignersFile",
        "GIT_CONFIG_VALUE_0": str(trusted),
        "GIT_CONFIG_PARAMETERS": f"'core.fsmonitor={run}'",
        "GIT_CONFIG_GLOBAL": str(user),
        "GIT_SSH_COMMAND": str(run),
        "GIT_TEMPLATE_DIR": str(repository.folder / ".git"),
    }
    with pytest.raises(UsageError, match="its signer is not an allowed one"):
        followed.fetch("evil")
    assert followed.fetch() == good
    assert (tmp_path / "tree/a").read_text() == "alice"
    assert not proof.exists()
