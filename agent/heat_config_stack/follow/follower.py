"""One stack that follows a source: asks for the newest revision, fetches it, and has it carried out.

A revision is carried out by `heat-config-apply`, as a process of its own that continues if this one ends. The record
on disk names the revision before it begins, and afterwards its outcome. So each revision runs once, after any kill, and
the tree of a stack is always that of one revision.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import random
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from heat_config_agent.deployments import metadata
from heat_config_agent.diagnostics.mistakes import Invalid
from heat_config_agent.masking import MASK
from heat_config_agent.masking.names import url as without_secrets
from heat_config_agent.model.deployment import Document
from heat_config_agent.model.entry import Entry, State
from heat_config_agent.model.errors import AgentError, ExitCode, StateError, UsageError
from heat_config_agent.model.signed import SUFFIX
from heat_config_agent.runs import supervisor
from heat_config_agent.runs.artifacts import trees
from heat_config_agent.settings.effective import Settings
from heat_config_agent.settings.in_force import policy_in_force
from heat_config_agent.state import asked, followed, journal, lock
from heat_config_agent.state.followed import Followed, short
from heat_config_hooks import files, processes
from heat_config_hooks.values import replace
from heat_config_stack.follow import demand, in_step, outcome
from heat_config_stack.follow.origin import Origin
from heat_config_stack.follow.outcome import reason_of
from heat_config_stack.follow.sources import Source, source

AGAIN_SECONDS = 600.0
"""Seconds after which a revision is tried again that was refused before it was begun: the machine may lack less."""

RETRY_SECONDS = 10.0
"""Seconds until a stack is tried again that another process works on."""

ANSWERED_SECONDS = 300.0
"""Seconds after which the record is written only because the source has answered again."""

_TREES, _CURRENT, _OUTPUT = "trees", "current", "output"
"""Names in the folder of a stack: the trees of revisions, a link to the one in force, and what was printed last."""

_DOCUMENT, _TEMPLATE = "document", "template"
"""The kinds of content that a source can have."""

_MOST_IN_VAIN = 10
"""The number of repairs in vain after which the time between two of them does not become longer."""

_SHOWN = 500
_OUTPUT_SHOWN = 64 * 1024

_PROGRAM = "from heat_config_agent.cli.main import {0}; raise SystemExit({0}())"


def command(program: str, *words: str) -> list[str]:
    """Return the command line of one of our programs: `agent` or `apply`."""
    return [sys.executable, "-I", "-c", _PROGRAM.format(program), *words]


class Follower:
    """One stack that follows a source. The caller holds the lock of its folder, see `held`."""

    def __init__(
        self, settings: Settings, name: str, note: Callable[[str], None]
    ) -> None:
        """Use the section `[follow NAME]`; `note` is called with a line for each event."""
        self._settings, self._name, self._note = settings, name, note
        self._values = settings.section(f"follow {name}")
        self._folder = followed.folder(settings.state, name)
        self._record = followed.read(settings.state, name) or Followed(name=name)
        self._source: Source | None = None
        self._tree = self._folder / _CURRENT
        """The tree that is carried out."""
        self._written: Followed | None = None
        self.kept: Callable[[], None] = lambda: None
        """Called when the record on disk says something new, except that the source has answered again."""
        self._noted = self._record.trouble
        """The trouble at the end of the step before."""
        self._verify_at: float | None = None
        self._repair_at = 0.0
        self._in_vain = 0
        """The number of repairs since a verification has last found the stack in effect."""
        self._mark: tuple[object, ...] = ()
        """The mark of the stack or the document when it was last compared with its revision."""
        if self._record.begun:
            self._note(
                f"{name}: an earlier process has begun revision {short(self._record.begun)}"
            )

    @property
    def interval(self) -> float:
        """Seconds until the next step."""
        interval = float(str(self._values["interval"]))
        return min(RETRY_SECONDS, interval) if self._record.begun else interval

    def step(self) -> Followed:
        """Ask the source, and carry out its newest revision if it is a new one. Raises StateError.

        A failure of any kind, also a defect of a source, is the trouble of this step; the next one asks again.
        """
        parts = (self._verify, self._compare, self._step, self._compare)
        for part in parts if self._repairs or self._verifies else parts[2:]:
            try:
                part()
            except AgentError as error:
                self._trouble(str(error))
            except OSError as error:
                self._trouble(
                    f"{error.strerror}: {error.filename}"
                    if error.filename
                    else str(error.strerror or error)
                )
            except Exception as error:  # noqa: BLE001  # whatever a server sends, it does not end the follower
                self._trouble(self._defect(error))
        self._noted = self._record.trouble
        self._keep()
        return self._record

    def foresee(self, *, again: bool) -> tuple[str, str, bool]:
        """Return the revision in force, the newest one, and whether a step would carry that out. Raises AgentError."""
        origin = source(self._origin(), self._folder)
        demand.allow(self._text("url"))
        newest = origin.newest()
        is_new = self._key(newest) != self._record.concluded
        is_asked = followed.is_asked_again(self._settings.state, self._name)
        due = 0 < self._record.again < time.time()
        return self._record.revision, newest, is_new or is_asked or due or again

    @contextlib.contextmanager
    def plan(self, revision: str) -> Iterator[list[str]]:
        """Fetch a revision, and provide the command that shows its plan. It is not put in force. Raises AgentError."""
        fetched = self._fetch(source(self._origin(), self._folder), revision)
        tree = self._folder / _TREES / _folder_name(fetched)
        try:
            self._tree = tree
            words, _ = self._words_of(self._file())
            yield [*words, "--plan"]
        finally:
            self._tree = self._folder / _CURRENT
            self._clean()

    def _defect(self, error: Exception) -> str:
        """Return a sentence about an unforeseen error: its kind, and its text without the secret of the source."""
        token = str(self._values["token"])
        text = (
            str(error)[:_SHOWN].replace(token, MASK) if token else str(error)[:_SHOWN]
        )
        self._source = None  # the connection may be in the middle of an answer
        return f"the answer of the source cannot be used: {type(error).__name__}{f': {text}' if text else ''}"

    def _step(self) -> None:
        if self._record.begun and self._waits():
            return
        if self._source is None:
            self._source = source(self._origin(), self._folder)
        demand.allow(self._text("url"))
        revision = self._source.newest()
        self._record = replace(
            self._record,
            trouble="",
            answered=time.time(),
            source=str(without_secrets(self._text("url"))),
            delete=bool(self._values["delete"]),
        )
        due = (
            self._is_due()
            or followed.is_asked_again(self._settings.state, self._name)
            or self._is_repaired()
        )
        if self._key(revision) == self._record.concluded and not due:
            return
        pause = asked.paused(self._settings.state)
        if pause:
            self._trouble(
                f"revision {short(revision)} waits: the agent is paused ({pause[0]})"
            )
            return
        try:
            revision = self._fetch(self._source, revision)
            self._use(revision)
            self._begin(revision)
        except UsageError as error:
            followed.settle_again(self._settings.state, self._name)
            self._conclude(revision, str(error), again=True)

    def _is_due(self) -> bool:
        """Return whether a revision that was refused is tried again; a later time is of a clock that was wrong."""
        left = self._record.again - time.time()
        return self._record.again > 0 and not 0 <= left <= AGAIN_SECONDS

    # Verification and repair.

    @property
    def _repairs(self) -> bool:
        return self._values["repair"] is True

    @property
    def _verifies(self) -> float:
        """Seconds between two verifications of its stack; 0 for none. The daemon verifies a document."""
        interval = self._values["verify_interval"]
        return float(interval) if isinstance(interval, int | float) else 0.0

    def _verify(self) -> None:
        """Check the stack if that is due: a failed check is a drift."""
        interval, now, record = self._verifies, time.monotonic(), self._record
        is_over = record.revision and not (record.begun or record.failed)
        if not interval or record.document or not is_over or not self._has_stack():
            return
        if self._verify_at is None:  # not all at once after a start
            self._verify_at = now + interval * random.random()  # noqa: S311  # no secret
        if now < self._verify_at or in_step.is_at_rest(
            self._settings.state, self._name
        ):
            return
        self._verify_at = now + interval
        place = ("--state-dir", str(self._settings.state))
        words = command(
            "agent", "stack", "check", self._name, "--quiet", *self._config(), *place
        )
        done = subprocess.run(
            words,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            check=False,
            cwd="/",
            start_new_session=True,
        )
        if done.returncode == ExitCode.OK:
            self._in_vain = 0
        elif done.returncode not in (ExitCode.FAILED, ExitCode.DRIFTED):
            text = done.stderr.decode("utf-8", "replace")
            raise AgentError(
                f"its stack cannot be verified: {reason_of(text) or done.returncode}"
            )

    def _is_repaired(self) -> bool:
        """Return whether the revision in force is carried out again, because the machine is out of step with it.

        A person who works on the stack, or has suspended it, is not disturbed. Where repairs do not help, the time
        between two of them doubles.
        """
        record, now = self._record, time.monotonic()
        if not self._repairs or not record.drift or record.failed or record.begun:
            return False
        state = self._settings.state
        if now < self._repair_at or in_step.is_at_rest(state, self._name):
            return False
        policy = policy_in_force()
        allowed = policy.repair if policy is not None and not policy.mistake else ()
        is_ruled = policy is not None and (policy.mistake or policy.repair is not None)
        if is_ruled and f"name:{self._name}" not in (allowed or ()):
            return False
        if asked.paused(state):
            return False
        self._repair_at = now + self._verifies * (2**self._in_vain - 1)
        self._in_vain = min(self._in_vain + 1, _MOST_IN_VAIN)
        self._note(f"{self._name}: repairs what has drifted: {record.drift}")
        return True

    def _compare(self) -> None:
        """Record whether the machine still is as the revision in force has left it."""
        mark = in_step.mark(self._settings.state, self._record)
        if mark == self._mark:
            return
        drift = in_step.drift(self._settings.state, self._record)[:_SHOWN]
        if drift and drift != self._record.drift:
            self._note(
                f"{self._name}: drifted from revision {short(self._record.revision)}: {drift}"
            )
        self._mark, self._record = mark, replace(self._record, drift=drift)

    def _text(self, name: str) -> str:
        return str(self._values[name])

    def _words(self, name: str) -> tuple[str, ...]:
        value = self._values[name]
        return value if isinstance(value, tuple) else ()

    def _origin(self) -> Origin:
        return Origin(
            url=self._text("url"),
            ref=self._text("ref"),
            seconds=float(self._text("timeout")),
            size=int(self._text("size_limit")),
            user=self._text("user"),
            token=self._text("token"),
            ca_file=self._settings.ca_file,
            ssh_config=self._text("ssh_config"),
            environment=self._settings.environment,
        )

    def _key(self, revision: str) -> str:
        """Return a revision with a digest of the settings with which it is carried out."""
        names = ("url", "path", "parameters", "environments", "rollback")
        digest = hashlib.sha256(
            json.dumps([self._values[name] for name in names]).encode()
        ).hexdigest()
        return f"{revision} {digest[:16]}"

    # Fetching.

    def _fetch(self, origin: Source, revision: str) -> str:
        """Fetch a revision into a tree of its own, and return the revision that was fetched."""
        place = self._folder / _TREES
        files.make_directory(place)
        new = place / "new"
        shutil.rmtree(new, ignore_errors=True)
        new.mkdir(mode=0o700)
        try:
            url, _, newest = self._record.signed.rpartition(" ")
            origin.demand = demand.now(newest if url == self._record.source else "")
            revision = origin.fetch(revision, new)
            trees.check(new)
            tree = place / _folder_name(revision)
            demand.keep(tree, origin.evidence)
            self._record = replace(
                self._record, signed=f"{self._record.source} {revision}"
            )
            if tree.is_dir():
                shutil.rmtree(new)
            else:
                new.replace(tree)
                files.sync_directory(place)
        except BaseException:
            shutil.rmtree(new, ignore_errors=True)
            raise
        return revision

    def _use(self, revision: str) -> None:
        """Put the tree of a revision in force, in one step."""
        link = self._folder / f"{_CURRENT}.new"
        link.unlink(missing_ok=True)
        link.symlink_to(f"{_TREES}/{_folder_name(revision)}")
        link.replace(self._folder / _CURRENT)
        files.sync_directory(self._folder)

    def _clean(self) -> None:
        """Remove the trees that are not in force."""
        with contextlib.suppress(OSError):  # the next revision tries again
            current = self._folder / _CURRENT
            kept = current.readlink().name if current.is_symlink() else ""
            for tree in (self._folder / _TREES).iterdir():
                if (
                    tree.name.endswith(demand.SUFFIX)
                    and tree.name != f"{kept}{demand.SUFFIX}"
                ):
                    tree.unlink()
                elif tree.name != kept and tree.is_dir():
                    shutil.rmtree(tree, ignore_errors=True)

    # Carrying out.

    def _file(self) -> Path:
        """Return the template or document in the tree in force. Raises UsageError."""
        tree = self._tree
        setting = self._text("path")
        names = [each.name for each in tree.iterdir()]
        names = [
            name
            for name in names
            if not name.endswith(SUFFIX) or name.removesuffix(SUFFIX) not in names
        ]
        if not setting and len(names) != 1:
            raise UsageError(
                "the source has several files",
                hint="path names the template or document in it",
            )
        return self._inside(setting or names[0])

    def _inside(self, name: str) -> Path:
        """Return the path of a file in the tree in force. Raises UsageError."""
        tree = self._tree
        path = tree / name
        inside = os.path.realpath(tree)
        if not f"{os.path.realpath(path)}/".startswith(f"{inside}/"):
            raise UsageError(
                f"{name} is not in the source", hint="correct path or environments"
            )
        if not path.exists():
            raise UsageError(
                f"the revision has no {name}",
                hint="path and environments name files in it",
            )
        return path

    def _config(self) -> Sequence[str]:
        """Return the option that names the settings for another command; empty if none was given."""
        options = self._settings.options
        return (
            options[options.index("--config") : options.index("--config") + 2]
            if "--config" in options
            else ()
        )

    def _words_of(self, path: Path) -> tuple[list[str], bool]:
        """Return the command that carries out the tree in force, and whether it is a document."""
        signature = demand.option(self._tree)
        if not signature:
            demand.require_beside(path, self._tree)
        config = (*self._config(), *signature)
        if self._has_document(path):
            return command(
                "apply",
                *config,
                "--state-dir",
                str(followed.document(self._settings.state, self._name)),
                str(path),
            ), True
        words = [
            *config,
            "--state-dir",
            str(self._settings.state),
            "--name",
            self._name,
        ]
        if self._values["rollback"]:
            words.append("--rollback")
        for each in self._words("environments"):
            words += ["--environment", str(self._inside(each))]
        values = self._folder / "values"
        shutil.rmtree(values, ignore_errors=True)
        files.make_directory(values)
        for number, pair in enumerate(self._words("parameters")):
            name, sign, value = pair.partition("=")
            if not sign or not name:
                raise UsageError(
                    "a parameter has another form than NAME=VALUE",
                    hint="correct parameters",
                )
            # others can see the command line of a process
            files.replace(values / str(number), value.encode())
            words += ["--parameter-file", f"{name}={values / str(number)}"]
        return command("apply", *words, str(path)), False

    def _has_document(self, path: Path) -> bool:
        """Return whether a file or a folder is carried out as a document with deployments.

        A file that is neither a document nor a template counts as one of the kind before it, whose reader says what is
        wrong with it. Raises UsageError if the kind is another one than that of what is on the machine.
        """
        kind, before = _kind(path), _DOCUMENT if self._record.document else _TEMPLATE
        if kind == "" and (self._record.document or not self._record.concluded):
            _refuse(path)
        if not self._record.concluded:
            return kind == _DOCUMENT
        if kind in ("", before):
            return self._record.document
        state, name = self._settings.state, self._name
        if self._record.document and journal.read(followed.document(state, name)):
            problem, forget = (
                "it is a template, and the machine has the deployments of a document",
                "forget them",
            )
        elif not self._record.document and self._has_stack():
            problem, forget = (
                "it is a document with deployments, and the machine has a stack",
                "delete the stack",
            )
        else:
            return kind == _DOCUMENT
        raise UsageError(
            problem, hint=f"{forget} first, or follow the source under another name"
        )

    def _begin(self, revision: str) -> None:
        """Carry out the tree in force, and record how that ends."""
        words, document = self._words_of(self._file())
        self._note(f"{self._name}: begins revision {short(revision)}")
        self._record = replace(
            self._record,
            begun=self._key(revision),
            attempt=self._attempt()[0],
            document=document,
            trouble="",
        )
        self._keep()
        # a request from now on is another one
        followed.settle_again(self._settings.state, self._name)
        self._run(words, revision)

    def _run(self, words: Sequence[str], revision: str) -> None:
        output = self._folder / _OUTPUT
        descriptor = os.open(
            output,
            os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW,
            0o600,
        )
        try:
            environment = {**os.environ, "COLUMNS": "500"}
            code = subprocess.run(
                words,
                stdin=subprocess.DEVNULL,
                stdout=descriptor,
                stderr=descriptor,
                check=False,
                cwd="/",
                env=environment,
                start_new_session=True,
            ).returncode
        finally:
            os.close(descriptor)
        printed = (
            files.read(output, _OUTPUT_SHOWN)
            .decode("utf-8", "replace")
            .replace(f"{self._folder}/{_CURRENT}/", "")
        )
        boot = processes.boot_id() if code == ExitCode.REBOOT else ""
        self._record = replace(self._record, reboot=boot)
        if code in (ExitCode.OK, ExitCode.UNDELIVERED):
            # they are not run again by themselves
            earlier = self._failures() if self._record.document else ""
            self._conclude(revision, earlier, failed=bool(earlier))
        elif code in (ExitCode.FAILED, ExitCode.USAGE) and not self._is_transient(code):
            failed = self._has_begun(code)
            self._conclude(
                revision,
                (self._failures() if failed else "")
                or reason_of(printed)
                or f"exit code {code}",
                again=code == ExitCode.USAGE,
                failed=failed,
            )
        elif boot:
            self._trouble(
                f"revision {short(revision)} waits for a reboot of the machine"
            )
        else:
            self._trouble(
                f"revision {short(revision)} is tried again: {reason_of(printed) or f'exit code {code}'}"
            )

    def _is_transient(self, code: int) -> bool:
        """Return whether a command has failed for a reason of the machine, and has begun nothing."""
        if code != ExitCode.FAILED or self._record.document:
            return False
        attempt, status = self._attempt()
        return attempt == self._record.attempt and status != "FAILED"

    def _has_begun(self, code: int) -> bool:
        """Return whether a revision that has failed was begun."""
        if self._record.document or code != ExitCode.FAILED:
            return code == ExitCode.FAILED
        return self._attempt()[0] != self._record.attempt

    def _failures(self) -> str:
        """Return which parts of the document or the stack have failed, and why, in the words of their tools."""
        state = self._settings.state
        if self._record.document:
            return outcome.failures(failed_deployments(state, self._name))
        words = command(
            "agent", "status", "--json", *self._config(), "--state-dir", str(state)
        )
        done = subprocess.run(
            words, stdin=subprocess.DEVNULL, capture_output=True, check=False, cwd="/"
        )
        return outcome.reason_of_stack(done.stdout, self._name)

    def _has_stack(self) -> bool:
        from heat_config_stack.records import listing  # noqa: PLC0415  # slow to load, and only for a new revision

        return listing.kept(self._settings.state, self._name) is not None

    def _attempt(self) -> tuple[str, str]:
        """Return the id of the stack's last action, and its status; empty for no stack."""
        from heat_config_stack.records import listing  # noqa: PLC0415  # slow to load, and only for a new revision

        kept = listing.kept(self._settings.state, self._name)
        record = kept.record if kept else None
        return (record.attempt, record.status) if record else ("", "")

    def _waits(self) -> bool:
        """Continue a revision that was begun; return whether it has to be waited for.

        One that may not or cannot be carried out any more, as after a change of the policy, does not hold up the next.
        """
        key = self._record.begun
        try:
            return self._resume()
        except UsageError as error:
            failed = self._has_begun(ExitCode.FAILED)
            self._conclude(
                key.partition(" ")[0], str(error), key=key, again=True, failed=failed
            )
            return False

    def _resume(self) -> bool:
        """Continue a revision that was begun; return whether it has to be waited for."""
        key = self._record.begun
        revision = key.partition(" ")[0]
        state = self._settings.state
        working = (
            followed.document(state, self._name)
            if self._record.document
            else state / "stacks" / self._name
        )
        if self._record.reboot == processes.boot_id():
            return True
        holder = lock.holder(working)
        if holder is not None:
            self._trouble(
                f"revision {short(revision)} is being carried out by process {holder[0]}"
            )
            return True
        attempt, status = self._attempt()
        if (
            not self._record.document
            and attempt != self._record.attempt
            and status == "FAILED"
        ):
            self._conclude(
                revision,
                self._failures() or "its stack has failed",
                key=key,
                failed=True,
            )
            return False
        if (
            key != self._key(revision)
            or not (self._folder / _TREES / _folder_name(revision)).is_dir()
        ):
            # the settings have changed: it is a new revision
            self._record = replace(self._record, begun="")
            return False
        self._use(revision)
        words, _ = self._words_of(self._file())
        self._run(words, revision)
        return bool(self._record.begun)

    def _conclude(
        self,
        revision: str,
        reason: str,
        *,
        key: str = "",
        again: bool = False,
        failed: bool = False,
    ) -> None:
        """Record how a revision has ended: `reason` is empty for a success. `again` if it may be tried again.

        `failed` is True if it was begun, and False if it was refused before anything began.
        """
        at = time.time() + AGAIN_SECONDS if again else 0.0
        is_known = (self._record.refused, self._record.reason) == (
            revision,
            reason[:_SHOWN],
        )
        has_begun = bool(self._record.begun)
        self._record = replace(
            self._record,
            begun="",
            trouble="",
            concluded=key or self._key(revision),
            again=at,
        )
        if reason:
            self._record = replace(
                self._record, refused=revision, reason=reason[:_SHOWN], failed=failed
            )
        if reason and (has_begun or not is_known):
            word = "has failed" if failed else "is refused"
            self._note(
                f"{self._name}: revision {short(revision)} {word}: {reason[:_SHOWN]}"
            )
        elif not reason:
            in_step.keep(self._settings.state, self._record)
            self._record = replace(
                self._record,
                revision=revision,
                since=time.time(),
                refused="",
                reason="",
                failed=False,
                drift="",
            )
            self._note(f"{self._name}: revision {short(revision)} is in force")
        if self._record.revision and reason:
            with contextlib.suppress(OSError):
                if (
                    self._folder / _TREES / _folder_name(self._record.revision)
                ).is_dir():
                    self._use(self._record.revision)
        self._keep()
        self._clean()

    def _trouble(self, text: str) -> None:
        if text[:_SHOWN] not in (self._noted, self._record.trouble):
            self._note(f"{self._name}: {text}")
        self._record = replace(self._record, trouble=text[:_SHOWN])

    def _keep(self) -> None:
        """Write the record, if anything but the time of the answer has changed, or that is old."""
        before, record = self._written, self._record
        if before is None or record.answered - before.answered > ANSWERED_SECONDS:
            before = None
        if before is None or replace(record, answered=before.answered) != before:
            followed.write(self._settings.state, record)
            former, self._written = self._written, record
            if former is None or replace(former, answered=record.answered) != record:
                self.kept()


def _folder_name(revision: str) -> str:
    return re.sub(r"[^0-9a-zA-Z]", "-", revision)


def failed_deployments(state: Path, name: str) -> list[Entry]:
    """Return the deployments of the document of a source that have failed, oldest first."""
    entries = journal.read(followed.document(state, name)).values()
    return sorted(
        (each for each in entries if each.has_failed), key=lambda entry: entry.accepted
    )


def _kind(path: Path) -> str:
    """Return `_DOCUMENT` for a file or a folder with deployments, and `_TEMPLATE` for a template or an archive of one.

    It is empty for anything else, such as the page of a server's error, or a file that is cut short.
    """
    from heat_config_agent.deployments import written  # noqa: PLC0415  # only for a new revision
    from heat_config_agent.diagnostics import kinds  # noqa: PLC0415
    from heat_config_hooks import strict_yaml  # noqa: PLC0415

    if path.is_dir():
        from heat_config_agent.sources import folder  # noqa: PLC0415

        try:
            names = folder.files_of(str(path))
        except UsageError:  # the command that carries it out says why
            return _DOCUMENT
        is_one = str(path) not in names and all(
            _kind(Path(name)) == _DOCUMENT for name in names
        )
        return _DOCUMENT if is_one else _TEMPLATE
    if path.name.endswith((".csar", ".zip")):
        return _TEMPLATE
    try:
        raw = files.take(path)
        content = strict_yaml.loads(raw.decode("utf-8-sig"))
    except OSError:
        return ""
    except (ValueError, RecursionError):
        return _TEMPLATE if kinds.template_in(raw) else ""
    if metadata.is_template(content):
        return _TEMPLATE
    return (
        _DOCUMENT
        if metadata.parse(
            Document(source="", content=written.alone(content)), by_name=True
        ).understood
        else ""
    )


def _refuse(path: Path) -> None:
    """Raise UsageError with the first mistake of a file that is neither a document nor a template."""
    from heat_config_agent.deployments import written  # noqa: PLC0415  # only after mistakes

    name = path.name
    try:
        content = files.take(path)
        value = written.check(content, name)
    except OSError as error:
        raise UsageError(f"cannot read {name}: {error.strerror}") from error
    except Invalid as error:
        raise UsageError(str(error.mistakes[0])) from error
    for mistake in metadata.parse(
        Document(source="", content=value), by_name=True
    ).mistakes:
        raise UsageError(
            f"{written.located(content, name, mistake.path)}: {mistake.problem}"
        )


def abandoned(settings: Settings) -> list[Followed]:
    """Return the records of stacks whose section was removed."""
    there = set(settings.followed)
    return [
        record
        for record in followed.records(settings.state)
        if record.name not in there
    ]


class StillRunningError(AgentError):
    """A source without a section cannot be forgotten yet, as something of it runs."""


def _running(place: Path) -> str:
    """Return the name and process of the command or run that carries out a document; empty if there is none."""
    holder = lock.holder(place)
    if holder is not None:
        return f"the command that carries out its document (process {holder[0]})"
    return next(
        (
            f"{entry.title} (process {entry.run.pid})"
            for entry in journal.read(place).values()
            if entry.run is not None
            and entry.state is State.RUNNING
            and supervisor.going_on(entry.run, place / "runs" / entry.key)
        ),
        "",
    )


def abandon(settings: Settings, record: Followed, note: Callable[[str], None]) -> None:
    """Stop following a source: delete the stack if the settings ask for it, and forget the source.

    Raises AgentError if the stack cannot be deleted, and as long as anything of a document runs: it is not forgotten.
    """
    state = settings.state
    if record.document and (running := _running(followed.document(state, record.name))):
        raise StillRunningError(
            f"{record.name} has no section any more, and is forgotten when {running} has ended"
        )
    is_deleted = record.delete and not record.document
    if is_deleted:
        words = command(
            "agent", "stack", "delete", "--yes", "--state-dir", str(state), record.name
        )
        done = subprocess.run(
            words,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            cwd="/",
        )
        if done.returncode != 0 and "there is no stack" not in done.stderr:
            raise AgentError(
                f"cannot delete the stack {record.name}: {reason_of(done.stdout + done.stderr)}"
            )
    try:
        shutil.rmtree(followed.folder(state, record.name))
    except OSError as error:
        raise StateError(f"cannot remove {error.filename}: {error.strerror}") from error
    note(
        f"{record.name}: is followed no longer{'; the stack was deleted' if is_deleted else ''}"
    )
