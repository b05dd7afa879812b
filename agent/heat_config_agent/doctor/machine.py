"""Checks of the machine: settings, the state directory, scripts, runs, and the agent itself."""

from __future__ import annotations

import contextlib
import errno
import os
import shlex
import stat
import subprocess
import sys
import tempfile
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from heat_config_agent.deployments import replacement
from heat_config_agent.doctor import Finding, closed, failed, ok, reach, rules, warning
from heat_config_agent.model import wording
from heat_config_agent.model.entry import Entry, State
from heat_config_agent.model.errors import StateError
from heat_config_agent.runs import run_folder, scopes
from heat_config_agent.settings import display
from heat_config_agent.settings.effective import Settings
from heat_config_agent.state import agents, asked, followed, health, journal, lock
from heat_config_agent.state.clock import Steady
from heat_config_agent.state.deployed import begun_elsewhere, report_of
from heat_config_agent.state.removal import retention
from heat_config_hooks import HOOKS, processes, protocol

ROOM = 100 * 1024 * 1024
"""Bytes that should be free on the disk of the state directory, for the output of runs."""

INODES = 1000
"""Number of files that the disk should have room for."""

SECONDS = 10.0
"""Seconds that a script of one line may take."""


def findings(
    settings: Settings, mistakes: Sequence[str], records: Sequence[followed.Followed]
) -> Iterator[Finding]:
    """Check everything on the machine; `mistakes` in the settings keep the agent from starting.

    `records` are those of the followed sources, compared with the machine.
    """
    yield from check_settings(settings, mistakes)
    yield from rules.check_policy(settings)
    yield from reach.check_signing()
    yield from reach.check_reach(settings)
    yield from reach.check_user(settings.text("user"))
    yield from reach.check_isolation(settings.defaults.isolation)
    yield from reach.check_secrets(settings)
    yield from check_state(settings.state)
    yield from check_scripts(settings)
    yield from check_folders(settings)
    yield check_runs(settings)
    yield from check_size(settings)
    if not closed(settings.state):
        yield from check_followed(settings, records)
        yield from check_agent(
            settings.state,
            settings.deployed,
            settings.options,
            resume=settings.command("resume"),
        )


def check_followed(
    settings: Settings, records: Sequence[followed.Followed]
) -> Iterator[Finding]:
    """Check the followed sources: their last poll, and whether the machine is still as it left it."""
    by_name = {record.name: record for record in records}
    for name in settings.followed:
        record = by_name.get(name)
        if record is None:
            yield warning(
                "source",
                f"{name}: the source was not asked yet",
                settings.command("source", "sync", name),
            )
        elif record.problem:
            todo = "correct the source or its section"
            if record.state in ("failed", "drifted") and not record.trouble:
                shown = "`{}` has the reason; a new revision, or ".format(
                    settings.command("status", "--failed")
                )
                again = f"`{settings.command('source', 'sync', name, '--again')}` carries it out again"
                todo = f"{shown if record.failed else ''}{again}"
            yield failed("source", record.problem.removeprefix("source "), todo)
        else:
            yield ok("source", f"{name}: {record.progress}")


def check_settings(settings: Settings, mistakes: Sequence[str]) -> Iterator[Finding]:
    """Check whether the settings can be used."""
    for mistake in mistakes:
        yield failed(
            "settings",
            mistake,
            "correct it: the agent does not start with this mistake",
        )
    for mistake in settings.warnings:
        yield warning("settings", mistake, "correct it: it is ignored")
    for row, origin in settings.deprecated:
        text = (
            f"{row.name} of [{row.section}] is deprecated, and still works ({origin})"
        )
        yield warning("settings", text, f"use {row.replaced_by} instead, and remove it")
    yield from _readable_secrets(settings)
    files = [
        layer.origin
        for layer in (*settings.own, *((settings.other,) if settings.other else ()))
    ]
    if not files:
        yield ok("settings", "there is no settings file: the defaults are used")
    elif not mistakes:
        yield ok("settings", f"read from {', '.join(files)}")


def _readable_secrets(settings: Settings) -> Iterator[Finding]:
    """Yield the settings files with secrets that other users may read."""
    for layer in (*settings.own, *((settings.other,) if settings.other else ())):
        secret = [
            row
            for row in settings.rows
            if (value := layer.get(row.section, row.name)) is not None
            and display.setting(row, value) != value
        ]
        try:
            status = os.stat(layer.origin)  # noqa: PTH116  # it is text already
        except OSError:
            continue
        if secret and (todo := reach.privately(layer.origin, status, 0o044)):
            names = ", ".join(f"{row.name} of [{row.section}]" for row in secret)
            yield warning(
                "settings",
                f"other users may read {layer.origin}, which contains secrets: {names}",
                todo,
            )


def _permissions(directory: Path) -> Iterator[Finding]:
    """Check whether other users have access to the state directory, whose content is secret, and is executed."""
    try:
        status = directory.stat()
    except OSError:
        return
    mode = status.st_mode
    if not stat.S_ISDIR(mode):
        return
    if status.st_uid != os.geteuid() and os.geteuid() == 0:
        user = agents.user_name(status.st_uid)
        if _is_agent_of(user, status.st_uid, directory):
            text = f"{directory} is the state of the agent of {user}, and this is root: its own checks may differ"
            yield warning(
                "state", text, f"runuser -u {shlex.quote(user)} -- {_again()}"
            )
            return
        text = f"{directory} belongs to another user ({user}), who could make the agent run anything"
        todo = f"if no agent of {user} uses it: check its content, then chown -R 0 {shlex.quote(str(directory))}"
        yield failed("state", text, todo)
    elif mode & 0o022:
        text = f"other users may write to {directory}, and could make the agent run anything"
        yield failed("state", text, f"chmod 700 {shlex.quote(str(directory))}")
    elif mode & 0o055:
        text = f"other users may read {directory}, which contains secrets, and may hold its lock"
        yield warning("state", text, f"chmod 700 {shlex.quote(str(directory))}")


def _is_agent_of(user: str, uid: int, directory: Path) -> bool:
    """Return whether a state directory is that of an agent of another user, which runs now or has a unit."""
    holder = lock.holder(directory)
    if holder is not None:
        with contextlib.suppress(OSError):
            return processes.owner(holder[0]) == uid
    return directory.name == f"heat-config-agent-{user}"


def _again() -> str:
    """Return the command line of this process, as a shell takes it."""
    return shlex.join(["heat-config-agent", *sys.argv[1:]])


def check_state(directory: Path) -> Iterator[Finding]:
    """Check whether the agent can write its state, and whether the disk has room."""
    check = "state"
    yield from _permissions(directory)
    place = _existing(directory)
    remark = (
        ""
        if place == directory
        else f" ({directory} does not exist yet: the agent creates it)"
    )
    try:
        if not place.is_dir():
            yield failed(
                check,
                f"{place} is not a directory",
                "move it away, or set state_dir to another path",
            )
            return
        _try_to_write(place)
        disk = os.statvfs(place)
    except OSError as error:
        yield failed(
            check, f"cannot write to {place}: {error.strerror}", _remedy(error, place)
        )
        return
    free = disk.f_bavail * disk.f_frsize
    if free < ROOM:
        yield warning(
            check,
            f"only {retention.bytes_of(free)} are free on the disk of {directory}{remark}",
            "free some space: on a full disk, nothing new begins",
        )
    elif disk.f_files and disk.f_favail < INODES:
        yield warning(
            check,
            f"the disk of {directory} has room for only {disk.f_favail} more files",
            "remove files there",
        )
    else:
        yield ok(
            check,
            f"{directory} is writable, {retention.bytes_of(free)} are free{remark}",
        )


def _try_to_write(folder: Path) -> None:
    """Write a file in a folder as runs do, and flush it. It is removed again. Raises OSError."""
    with tempfile.TemporaryFile(dir=folder) as file:
        file.write(bytes(run_folder.ROOM))
        file.flush()
        os.fsync(file.fileno())


def check_folders(settings: Settings) -> Iterator[Finding]:
    """Check that a run can write into its folders; the state and the folder of scripts have checks of their own.

    `reach` checks the folders to which a user other than root has no access.
    """
    places = [
        protocol.workplace(tool, settings.state, settings.root, settings.environment)
        for tool in HOOKS
    ]
    folders = dict.fromkeys(
        [
            settings.state / "runs",
            *(each.working for each in places),
            *(each.outputs for each in places),
        ]
    )
    script = protocol.workplace(
        "script", settings.state, settings.root, settings.environment
    )
    tried = {_existing(settings.state), _existing(script.working)}
    for folder in (*folders, settings.deployed):
        place = _existing(folder)
        if place in tried:
            continue
        tried.add(place)
        try:
            if not place.is_dir():
                yield failed("folders", f"{place} is not a directory", "move it away")
                continue
            _try_to_write(place)
        except OSError as error:
            if error.errno in (errno.EACCES, errno.EPERM) and os.geteuid() != 0:
                continue
            text = f"cannot write to {place}: {error.strerror}"
            if folder == settings.deployed:
                yield warning(
                    "folders",
                    f"{text}: other programs do not see there what was run",
                    _remedy(error, place),
                )
            else:
                yield failed("folders", text, _remedy(error, place))


def check_runs(settings: Settings) -> Finding:
    """Check whether runs are systemd scopes, and which of their limits can be enforced."""
    why = scopes.missing() if settings.flag("scopes") else "the setting `scopes` is off"
    if why:
        return ok(
            "runs",
            f"runs are plain sessions, so {_names(scopes.LIMITS)} are unavailable: {why}",
        )
    text = f"runs are systemd scopes in {scopes.SLICE}"
    held = scopes.enforceable()
    unavailable = [limit for limit in scopes.LIMITS if limit not in held]
    if unavailable:
        verb = "is" if len(unavailable) == 1 else "are"
        why = "their cgroup v2 controllers are missing, or not delegated to systemd"
        return warning(
            "runs",
            f"{text}; {_names(unavailable)} {verb} unavailable: {why}",
            "deployments that set them fail: delegate the controllers to this container, or leave them out",
        )
    return ok("runs", f"{text}; {_names(held)} are available")


def _names(names: Iterable[str]) -> str:
    *before, last = names
    return f"{', '.join(before)} and {last}" if before else last


def check_size(settings: Settings) -> Iterator[Finding]:
    """Check whether the agent keeps more than the settings allow."""
    steady = Steady(settings.state)
    text = retention.excess(steady.bytes, steady.files, settings.limits)
    if text:
        todo = f"`{settings.command('prune', '--plan')}` shows it; running and undelivered deployments are always kept"
        yield warning("kept", text, todo)


def _remedy(error: OSError, place: Path) -> str:
    if error.errno in (errno.EACCES, errno.EPERM):
        return "run this as root" if os.geteuid() else f"check who may write to {place}"
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return "free some space: on a full disk, nothing runs"
    if error.errno == errno.EROFS:
        return "find out why it is read-only (dmesg), and remount it"
    return "check its file system (dmesg)"


def check_scripts(settings: Settings) -> Iterator[Finding]:
    """Check whether scripts can be executed in the working directory of the script hook."""
    check = "scripts"
    working = protocol.workplace(
        "script", settings.state, settings.root, settings.environment
    ).working
    place = _existing(working)
    if (
        os.geteuid() != 0
        and not os.access(place, os.W_OK | os.X_OK)
        and not run_folder.is_read_only(place)
    ):
        return  # it belongs to another user: the check of the reach of this one has it
    try:
        if not place.is_dir():
            yield failed(
                check,
                f"they cannot be run in {working}: {place} is not a directory",
                "move it away",
            )
            return
        _try_to_write(place)
        folder = tempfile.TemporaryDirectory(prefix=".doctor-", dir=place)
    except OSError as error:
        yield failed(
            check, f"cannot write to {place}: {error.strerror}", _remedy(error, place)
        )
        return
    with folder as name:
        path = Path(name) / "script"
        try:
            path.write_text("#!/bin/sh\nexit 0\n")
            path.chmod(0o700)
            done = subprocess.run(
                [str(path)],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=SECONDS,
                check=False,
                cwd=name,
            )
            why = f"exit code {done.returncode}" if done.returncode else ""
        except OSError as error:
            why = error.strerror or type(error).__name__
        except subprocess.TimeoutExpired:
            why = f"a script of one line did not end within {SECONDS:g} s"
    if not why:
        yield ok(check, f"they can be run in {working}")
    elif os.statvfs(place).f_flag & os.ST_NOEXEC:
        mount = _mount(place)
        yield failed(
            check,
            f"they cannot be run in {working}: {mount} is mounted with noexec",
            f"mount -o remount,exec {mount}, or set HEAT_SCRIPT_WORKING=DIR in the setting `environment` of [agent]",
        )
    else:
        yield failed(
            check,
            f"they cannot be run in {working}: {why}",
            "check whether a security module such as SELinux forbids it",
        )


def check_agent(
    directory: Path,
    deployed: Path,
    options: Sequence[str] = (),
    *,
    resume: str = "heat-config-agent resume",
) -> Iterator[Finding]:
    """Check the agent itself, by its lock, its health file and the journal; and other agents on the machine.

    `options` are those that name the state directory.
    """
    check = "agent"
    entries: Collection[Entry] = ()
    try:
        entries = journal.read(directory).values()
    except StateError as error:
        yield failed(
            check,
            error.brief,
            "run this as root" if os.geteuid() else "check its file system (dmesg)",
        )
    holder = lock.holder(directory)
    collector = agents.running_collector()
    report = (
        health.read(directory, holder[0])
        if holder is not None and holder[1] == lock.DAEMON
        else {}
    )
    yield from _collector(holder, collector)
    yield from _begun_elsewhere(deployed, entries, report)
    if holder is None and not collector:
        yield _idle(directory, options)
    elif holder is not None and holder[1] != lock.DAEMON:
        yield ok(check, f"a one-shot run is at work (process {holder[0]})")
    elif holder is not None:
        yield from _running(holder[0], report, directory)
    pause = asked.paused(directory)
    if pause:
        since = f" since {wording.moment(pause[1])}" if pause[1] else ""
        until = f" until {wording.moment(pause[2])}" if pause[2] is not None else ""
        yield warning(check, f"it is paused{since}{until}: {pause[0]}", resume)
    yield from _unfinished(entries, options)


def _collector(holder: tuple[int, str] | None, collector: int) -> Iterator[Finding]:
    """Check that os-collect-config, which runs as the process `collector`, is not in the place of the agent."""
    if not collector:
        return
    if holder is None or holder[1] != lock.DAEMON:
        yield warning(
            "agent",
            f"it is not running, and os-collect-config is (process {collector})",
            "heat-config-agent migrate --plan; starting the agent's unit would stop os-collect-config and its scripts",
        )
    else:
        yield warning(
            "agent",
            f"os-collect-config runs too (process {collector}): both may carry out the same deployments",
            "heat-config-agent migrate --plan",
        )


def _begun_elsewhere(
    deployed: Path, entries: Iterable[Entry], report: Mapping[str, object]
) -> Iterator[Finding]:
    """Check that no deployment waits for another agent; the daemon's report tells which ones it has skipped."""
    skipped = report.get("skipped") if report.get("current") else None
    given = None
    if isinstance(skipped, list):
        given = {
            str(deployment.get(name))
            for deployment in skipped
            if isinstance(deployment, dict)
            for name in ("key", "id")
        }
    if begun := begun_elsewhere(deployed, [entry.key for entry in entries], given):
        yield warning(
            "agent",
            f"{report_of(begun)[0]}: this agent does not run it, and Heat may be waiting",
            f"if it is not running any more: heat-config-agent retry {begun[0]}, to run it here",
        )


def _idle(directory: Path, options: Sequence[str]) -> Finding:
    """Return the finding about a state directory on which no agent works."""
    elsewhere = agents.hint(directory, options, os.environ, "doctor")
    if elsewhere:
        return warning("agent", f"no agent of this user is running; {elsewhere}")
    if os.path.isdir("/run/systemd/system"):  # noqa: PTH112  # as sd_booted(3) has it
        return warning("agent", "it is not running", f"systemctl start {reach.unit()}")
    return ok("agent", "no daemon runs, and heat-config-apply needs none")


def _unfinished(
    entries: Collection[Entry], options: Sequence[str]
) -> Iterator[Finding]:
    """Check for deployments that wait for a reboot, that Heat has replaced, or whose results are due."""
    waiting = [entry.title for entry in entries if entry.state is State.REBOOT]
    if waiting:
        verb = "wait" if len(waiting) > 1 else "waits"
        yield warning(
            "agent",
            f"{', '.join(waiting)} {verb} for a reboot of the machine",
            "reboot the machine",
        )
    for replaced in replacement.replacements(entries):
        yield warning("agent", replaced.sentence, replaced.todo)
    late = [entry for entry in entries if entry.state is State.FINISHED and entry.tries]
    if late:
        last = max(late, key=lambda entry: entry.at)
        yield warning(
            "results",
            f"{len(late)} result{'s are' if len(late) > 1 else ' is'} due: {last.trouble}",
            shlex.join(["heat-config-agent", "show", *options, last.title]),
        )


def _running(
    process: int, report: Mapping[str, object], state: Path
) -> Iterator[Finding]:
    """Check a running daemon by its last health report."""
    check = "agent"
    silent = health.silence(report) if report.get("process") == process else 0.0
    if silent:
        lack = run_folder.lacks(state)
        yield failed(
            check,
            f"process {process} exists, but has reported nothing for {silent / 60:.0f} minutes"
            + (lack and f": {lack}"),
            "" if lack else f"it hangs: systemctl restart {reach.unit()} (runs go on)",
        )
        return
    doing = (
        str(report.get("doing") or "starting")
        if report.get("process") == process
        else "starting"
    )
    blocked = report.get("blocked")
    if blocked and isinstance(blocked, list):
        yield failed(
            check,
            f"it is running (process {process}), and {doing}",
            "the checks above have the cause",
        )
    else:
        yield ok(check, f"it is running (process {process}): {doing}")
    if age := health.outdated(report) if report.get("process") == process else "":
        yield warning(check, age, f"systemctl restart {reach.unit()} (runs go on)")
    sources = report.get("sources")
    for source in sources if isinstance(sources, list) else []:
        if isinstance(source, Mapping) and source.get("working") is False:
            since = source.get("since")
            when = f" since {wording.moment(since)}" if isinstance(since, float) else ""
            yield warning(
                check,
                f"no answer from {source.get('name')}{when}: {source.get('trouble')}",
            )
    troubles = report.get("troubles")
    for trouble in troubles if isinstance(troubles, list) else []:
        yield failed(check, str(trouble))


def _existing(path: Path) -> Path:
    """Return the path, or its nearest ancestor that exists."""
    while not os.path.lexists(path) and path != path.parent:
        path = path.parent
    return path


def _mount(path: Path) -> Path:
    """Return the mount point of the file system that contains a path."""
    path = path.resolve()
    while not os.path.ismount(path):
        path = path.parent
    return path
