"""A git repository as a source. The `git` program does the work, with nothing of a repository run on this machine.

Only the newest commit is fetched, into a repository of its own without hooks. Settings of the machine, the user and the
repository are not read, so no filter, helper or other protocol takes part. Submodules and large files (LFS) are not
fetched.
"""

from __future__ import annotations

import base64
import errno
import os
import re
import selectors
import shlex
import shutil
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path

from heat_config_agent.model.errors import SourceError, UsageError
from heat_config_agent.runs.artifacts import trees
from heat_config_agent.signing import ssh
from heat_config_stack.follow.allowance import Allowance
from heat_config_stack.follow.demand import Demand
from heat_config_stack.follow.origin import Origin

_COMMIT = r"[0-9a-f]{40}|[0-9a-f]{64}"

_REF = "refs/followed/newest"
"""The name of the last fetched commit."""

_SETTINGS = {
    "core.hooksPath": "/dev/null",
    "core.fsmonitor": "false",
    "core.bigFileThreshold": "1m",
    "core.compression": "0",
    "core.deltaBaseCacheLimit": "32m",
    "pack.threads": "2",
    "fetch.fsckObjects": "true",
    "fetch.unpackLimit": "1",
    "fetch.recurseSubmodules": "false",
    "gc.auto": "0",
    "maintenance.auto": "false",
    "http.followRedirects": "false",
    "protocol.ext.allow": "never",
}
"""git's settings for each command. A pack stays one file, whose size can be limited."""

_GRACE = 5
"""Seconds between TERM and KILL of a command that takes too long."""

_MEMORY = 512 * 1024 * 1024
"""The most memory in bytes of each process of git, besides the files that it maps."""

_MOST_PRINTED = 32 * 1024 * 1024
"""The most bytes that a command of git may print; of its messages, only the end is kept."""

_END_PRINTED = 64 * 1024

_PIECE = 500
"""The maximum number of characters that are shown of git's messages."""


_CERTIFICATE = "name its authority with ca_file of [agent]; else it has expired, or the clock is wrong"

_HINTS = {
    "could not read Username": "the server demands a login: set user and token",
    "Authentication failed": "the server refuses the login: correct user and token",
    "certificate verification failed": _CERTIFICATE,
    "certificate problem": _CERTIFICATE,
    "does not support shallow": "the web server serves plain files: use one that speaks git's protocol",
}
"""The advice of an error, by the words of git in it."""

_ALL = str(2**31 - 1)
"""The depth that stands for the whole history."""


class Git:
    """A git repository. If signatures are demanded, its history is fetched too."""

    demand: Demand | None = None
    evidence = ""

    def __init__(self, origin: Origin, folder: Path) -> None:
        """Follow the repository in the settings; fetched objects are kept in `folder`."""
        self._origin = origin
        self._store = folder / "git"
        self._allowance = Allowance(origin.seconds)
        if origin.ref.startswith("-"):
            raise UsageError(
                f"no branch or tag has the name {origin.ref}", hint="correct ref"
            )
        self._full = ""
        """The full name of the branch or tag, such as `refs/heads/main`; empty until it is known."""

    def newest(self) -> str:
        """Return the newest commit of the branch or tag, or of the default branch.

        Raises SourceError if there is none, or if a branch and a tag have the name.
        """
        ref = self._origin.ref or "HEAD"
        if re.fullmatch(_COMMIT, ref):
            return ref
        self._allowance.begin()
        self._prepare()
        printed = self._git(
            "ls-remote", "--quiet", "origin", ref, f"{ref}^{{}}"
        ).splitlines()
        commits = {
            name: commit
            for commit, tab, name in (line.partition("\t") for line in printed)
            if tab
        }
        names = (
            ref,
            f"refs/heads/{ref}",
            f"refs/tags/{ref}^{{}}",
            f"refs/tags/{ref}",
            f"refs/{ref}",
        )
        there = [name for name in names if re.fullmatch(_COMMIT, commits.get(name, ""))]
        if not there:
            if not self._origin.ref:
                raise SourceError(
                    "the source has no default branch: the repository is empty, or the URL is not that of a repository",
                    hint="commit to it, name a branch or tag with ref, or correct url",
                )
            raise SourceError(
                f"the repository has no branch or tag {ref}", hint="correct ref"
            )
        branch, tag = f"refs/heads/{ref}", f"refs/tags/{ref}"
        if branch in there and tag in there:
            raise SourceError(
                f"{ref} is a branch and a tag of the repository",
                hint=f"set ref to {branch} or {tag}",
            )
        self._full = there[0].removesuffix("^{}")
        return commits[there[0]]

    def fetch(self, revision: str, tree: Path) -> str:  # what is newest now
        """Put the files of a commit into an empty folder."""
        self._allowance.begin()
        self._prepare()
        if not self._full and not re.fullmatch(_COMMIT, self._origin.ref):
            self.newest()
        wanted = self._full or self._origin.ref
        depth = _ALL if self.demand else "1"
        try:
            self._git(
                "fetch",
                "--quiet",
                "--no-tags",
                f"--depth={depth}",
                "--force",
                "origin",
                f"{wanted}:{_REF}",
            )
        except SourceError:
            # git leaves there what has arrived
            shutil.rmtree(self._store, ignore_errors=True)
            raise
        revision = self._git("rev-parse", "--verify", f"{_REF}^{{commit}}").strip()
        self.evidence = self._signature(self.demand, revision) if self.demand else ""
        listed = self._git("ls-tree", "-r", "-t", "-l", "-z", revision)
        budget = trees.Budget(self._origin.size)
        for line in filter(None, listed.split("\0")):
            size = line.partition("\t")[0].split()[3]
            budget.spend(int(size) if size.isdecimal() else 0, 1)
            if line.count("/") >= trees.DEEPEST:
                raise UsageError(
                    f"there are more than {trees.DEEPEST} folders within folders"
                )
        index = tree.with_name(f"{tree.name}.index")
        try:
            self._git(f"--work-tree={tree}", "read-tree", revision, index=index)
            self._git(
                f"--work-tree={tree}", "checkout-index", "--all", "--force", index=index
            )
        finally:
            index.unlink(missing_ok=True)
        return revision

    def _signature(self, demand: Demand, revision: str) -> str:
        """Return the evidence that a commit is signed, by its tag or by itself. Raises UsageError."""
        ref, evidence = self._origin.ref.removeprefix("refs/tags/"), ""
        if self._git("cat-file", "-t", _REF).strip() == "tag":
            evidence = ssh.of_tag(self._git("cat-file", "tag", _REF), ref)
        evidence = evidence or ssh.of_commit(self._git("cat-file", "commit", revision))
        demand.require(evidence, f"commit {revision[:12]}")
        if demand.after and demand.after != revision and not re.fullmatch(_COMMIT, ref):
            try:
                self._git("merge-base", "--is-ancestor", demand.after, revision)
            except SourceError:
                problem = f"commit {revision[:12]} does not follow {demand.after[:12]}, which was in force"
                raise UsageError(
                    problem, hint="with the rule signers, ref is followed forward only"
                ) from None
        return evidence

    def _prepare(self) -> None:
        """Make the repository for fetched objects. A repository that is too large or incomplete is made again."""
        if (self._store / "HEAD").is_file():
            size = sum(
                place.stat().st_size
                for place in self._store.rglob("*")
                if place.is_file()
            )
            if size <= self._origin.size:
                return
        shutil.rmtree(self._store, ignore_errors=True)
        self._git(
            "init", "--quiet", "--bare", "--template=", str(self._store), here=False
        )

    def _git(self, *words: str, here: bool = True, index: Path | None = None) -> str:
        """Run git, and return its output. Raises SourceError."""
        where = [f"--git-dir={self._store}"] if here else []
        limits = f"trap '' XFSZ; ulimit -f {self._origin.size // 512 + 1}; ulimit -d {_MEMORY // 1024}; "
        limits += f'exec timeout -k {_GRACE} {self._allowance.seconds:.3f} git "$@"'
        command = ["/bin/sh", "-c", limits, "git", *where, *words]
        environment = self._environment()
        if index is not None:
            environment["GIT_INDEX_FILE"] = str(index)
        try:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=environment,
                cwd="/",
                umask=0o077
                if index is None
                else -1,  # the files of a revision have the modes of their users
                start_new_session=True,
            )
        except OSError as error:
            raise SourceError(f"cannot start git: {error.strerror}") from error
        content, messages = _printed(process)
        if process.returncode == 0:
            return content.decode("utf-8", "surrogateescape")
        printed = messages.decode("utf-8", "replace")
        if "dubious ownership" in printed:
            problem = "the repository belongs to another user than the agent's, so git does not read it"
            raise SourceError(
                problem,
                hint="give it to the agent's user (chown -R), or follow it over ssh or HTTPS",
            )
        hint = next((hint for told, hint in _HINTS.items() if told in printed), "")
        raise SourceError(self._why(words, process.returncode, printed), hint=hint)

    def _why(self, words: Sequence[str], code: int, printed: str) -> str:
        """Return why git has failed."""
        if code in (124, 137):
            return f"the repository did not answer within {self._origin.seconds:g} s"
        if code == -signal.SIGKILL or "memory" in printed.lower():
            return "git has stopped: the repository sends more than fits into the memory for it"
        if (
            code in (126, 127)
            or shutil.which("git", path=self._environment()["PATH"]) is None
        ):
            return "the program git is missing: install git"
        if os.strerror(errno.EFBIG) in printed:
            return f"the repository is larger than {self._origin.size} bytes (size_limit sets how large it may be)"
        lines = [line.strip() for line in printed.splitlines() if line.strip()]
        told = next(
            (line for line in lines if line.startswith(("fatal:", "error:"))),
            lines[-1] if lines else "",
        )
        for secret in filter(None, (self._origin.token, self._credentials())):
            told = told.replace(secret, "***")
        verb = next(word for word in words if not word.startswith("-"))
        return f"git {verb} failed: {told[:_PIECE] or f'exit code {code}'}"

    def _credentials(self) -> str:
        if not self._origin.token:
            return ""
        return base64.b64encode(
            f"{self._origin.user}:{self._origin.token}".encode()
        ).decode()

    def _environment(self) -> dict[str, str]:
        """Return the whole environment of git. Secrets are in it, and not on the command line, which others can see."""
        settings = {**_SETTINGS, "remote.origin.url": self._origin.url}
        if self._origin.token:
            settings["http.extraHeader"] = f"Authorization: Basic {self._credentials()}"
        if self._origin.ca_file:
            settings["http.sslCAInfo"] = self._origin.ca_file
        config = (
            f"-F {shlex.quote(self._origin.ssh_config)}"
            if self._origin.ssh_config
            else ""
        )
        kept = {
            name: value
            for name, value in self._origin.environment.items()
            if not name.startswith("GIT_")
        }
        return {
            **kept,
            "PATH": kept.get("PATH", os.defpath),
            "LC_ALL": "C.UTF-8",
            "GIT_ALLOW_PROTOCOL": "file:git:http:https:ssh",
            "GIT_ATTR_NOSYSTEM": "1",
            "GIT_CONFIG_GLOBAL": "/dev/null",
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_LFS_SKIP_SMUDGE": "1",
            "GIT_SSH_COMMAND": f"ssh {config} -oBatchMode=yes -oConnectTimeout=10",
            "GIT_TERMINAL_PROMPT": "0",
            "GIT_CONFIG_COUNT": str(len(settings)),
            **{
                f"GIT_CONFIG_KEY_{number}": name for number, name in enumerate(settings)
            },
            **{
                f"GIT_CONFIG_VALUE_{number}": value
                for number, value in enumerate(settings.values())
            },
        }


def _printed(process: subprocess.Popen[bytes]) -> tuple[bytes, bytes]:
    """Return the output of a command, and the end of its messages; end it if it prints too much."""
    content, messages, size = bytearray(), bytearray(), 0
    with process, selectors.DefaultSelector() as waiting:
        for stream in filter(None, (process.stdout, process.stderr)):
            waiting.register(stream, selectors.EVENT_READ)
        while waiting.get_map():
            for key, _ in waiting.select():
                piece = os.read(key.fd, 64 * 1024)
                size += len(piece)
                if not piece:
                    waiting.unregister(key.fileobj)
                elif key.fileobj is process.stdout:
                    content += piece
                else:
                    messages += piece
                    del messages[:-_END_PRINTED]
            if size > _MOST_PRINTED:
                os.killpg(process.pid, signal.SIGKILL)
                break
    return bytes(content), bytes(messages)
