"""What is on the machine: settings, the state directory, where scripts run, and the agent itself."""

from __future__ import annotations

import errno
import os
import shlex
import stat
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from heat_config_agent import asked, health, journal, lock, plan, redaction, retention, scopes
from heat_config_agent.checks import Finding, closed, failed, ok, warning
from heat_config_agent.configuration import SETTINGS
from heat_config_agent.errors import StateError
from heat_config_agent.model import State
from heat_config_agent.settings import Settings
from heat_config_agent.steady import Steady
from heat_config_hooks import protocol

ROOM = 100 * 1024 * 1024
"""Bytes that should be free where the state is: the output of runs goes there."""

INODES = 1000
"""Files that there should be room for."""

SILENCE = 180.0
"""Seconds after which an agent that says nothing is taken for stuck: it says something every 30."""

SECONDS = 10.0
"""How long a script of one line may take."""


def findings(given: Settings, wrong: Sequence[str]) -> Iterator[Finding]:
    """Say how it is with all that is on the machine; `wrong` is what would keep the agent from starting."""
    yield from settings(given, wrong)
    yield from state(given.state)
    yield from scripts(given)
    yield runs(given)
    yield from kept(given)
    if not closed(given.state):
        yield from agent(given.state, resume=given.command("resume"))


def settings(given: Settings, wrong: Sequence[str]) -> Iterator[Finding]:
    """Say whether the settings can be used."""
    for each in wrong:
        yield failed("settings", each, "correct that: with it the agent does not start")
    for each in given.warnings:
        yield warning("settings", each, "correct that: it is passed over")
    yield from _open(given)
    files = [each.origin for each in (*given.own, *((given.other,) if given.other else ()))]
    if not files:
        yield ok("settings", "there is no file with settings: the usual ones hold")
    elif not wrong:
        yield ok("settings", f"read from {', '.join(files)}")


def _open(given: Settings) -> Iterator[Finding]:
    """Say which files with secrets others may read."""
    for layer in (*given.own, *((given.other,) if given.other else ())):
        secret = [
            row
            for row in SETTINGS
            if (value := layer.get(row.section, row.name)) is not None and redaction.setting(row, value) != value
        ]
        try:
            mode = os.stat(layer.origin).st_mode  # noqa: PTH116  # it is text already
        except OSError:
            continue
        if secret and mode & 0o044:
            names = ", ".join(f"{row.name} of [{row.section}]" for row in secret)
            says = f"others may read {layer.origin}, and there are secrets in it: {names}"
            yield warning("settings", says, f"chmod 600 {shlex.quote(layer.origin)}")


def _guarded(directory: Path) -> Iterator[Finding]:
    """Say whether others may get at the state: what is in it is run, and secret."""
    try:
        mode = directory.stat().st_mode
    except OSError:
        return
    if not stat.S_ISDIR(mode):
        return
    if mode & 0o022:
        says = f"others may write to {directory}: they could have the agent run anything"
        yield failed("state", says, f"chmod 700 {shlex.quote(str(directory))}")
    elif mode & 0o055:
        says = f"others may look into {directory}, where there are secrets"
        yield warning("state", says, f"chmod 700 {shlex.quote(str(directory))}")


def state(directory: Path) -> Iterator[Finding]:
    """Say whether the agent could write its state."""
    check = "state"
    yield from _guarded(directory)
    place = _there(directory)
    missing = "" if place == directory else f" ({directory} is not there yet: the agent makes it)"
    try:
        if place.is_dir():
            with tempfile.TemporaryFile(dir=place) as file:
                file.write(bytes(4096))
                file.flush()
                os.fsync(file.fileno())
        else:
            yield failed(check, f"{place} is no directory", "move it away, or name another with state_dir")
            return
        found = os.statvfs(place)
    except OSError as error:
        yield failed(check, f"cannot write to {place}: {error.strerror}", _mended(error, place))
        return
    free = found.f_bavail * found.f_frsize
    if free < ROOM:
        yield warning(
            check,
            f"only {_size(free)} are free where {directory} is{missing}",
            "make room: without it nothing new is begun",
        )
    elif found.f_files and found.f_favail < INODES:
        yield warning(
            check, f"there is room for only {found.f_favail} more files where {directory} is", "remove files there"
        )
    else:
        yield ok(check, f"{directory} can be written to, {_size(free)} are free{missing}")


def runs(given: Settings) -> Finding:
    """Say whether runs are scopes of systemd's, and which limits of theirs could be held."""
    why = scopes.missing() if given.flag("scopes") else "the setting `scopes` is off"
    if why:
        return ok("runs", f"each is a plain session, and cannot be given {', '.join(scopes.LIMITS)}: {why}")
    held = scopes.held()
    able = f", and can be given {', '.join(held)}" if held else ""
    unable = [each for each in scopes.LIMITS if each not in held]
    less = f"; not {', '.join(unable)}, of which the kernel gives systemd no control here" if unable else ""
    return ok("runs", f"each is a scope of systemd's in {scopes.SLICE}{able}{less}")


def kept(given: Settings) -> Iterator[Finding]:
    """Say how much the agent keeps, where that is more than it should be."""
    steady = Steady(given.state)
    says = retention.excess(steady.bytes, steady.files, given.limits)
    if says:
        todo = f"{given.command('prune', '--plan')} shows it; what waits for its delivery, or runs, always stays"
        yield warning("kept", says, todo)


def _mended(error: OSError, place: Path) -> str:
    if error.errno in (errno.EACCES, errno.EPERM):
        return "run this as root" if os.geteuid() else f"see who may write to {place}"
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return "make room: without it nothing is run"
    if error.errno == errno.EROFS:
        return "find out why it is read-only (dmesg), and remount it"
    return "see to its file system (dmesg)"


def scripts(given: Settings) -> Iterator[Finding]:
    """Say whether a script can be run where the script hook runs them."""
    check = "scripts"
    wanted = protocol.workplace("script", given.state, given.root, given.environment).working
    place = _there(wanted)
    if not os.access(place, os.W_OK):
        return  # `state` has said so, or it is another's
    try:
        folder = tempfile.TemporaryDirectory(prefix=".doctor-", dir=place)
    except OSError as error:
        yield failed(check, f"cannot write to {place}: {error.strerror}", _mended(error, place))
        return
    with folder as name:
        path = Path(name) / "script"
        try:
            path.write_text("#!/bin/sh\nexit 0\n")
            path.chmod(0o700)
            done = subprocess.run(
                [str(path)], stdin=subprocess.DEVNULL, capture_output=True, timeout=SECONDS, check=False, cwd=name
            )
            why = f"exit code {done.returncode}" if done.returncode else ""
        except OSError as error:
            why = error.strerror or type(error).__name__
        except subprocess.TimeoutExpired:
            why = f"it has not ended after {SECONDS:g} s"
    if not why:
        yield ok(check, f"they can be run in {wanted}")
    elif os.statvfs(place).f_flag & os.ST_NOEXEC:
        mount = _mount(place)
        yield failed(
            check,
            f"they cannot be run in {wanted}: {mount} is mounted with noexec",
            f"mount -o remount,exec {mount}, or HEAT_SCRIPT_WORKING=DIR in the setting `environment` of [agent]",
        )
    else:
        yield failed(check, f"they cannot be run in {wanted}: {why}", "does something like SELinux forbid it?")


def agent(directory: Path, *, resume: str = "heat-config-agent resume") -> Iterator[Finding]:
    """Say how it is with the agent itself: as it has said last, and as the lock says."""
    check = "agent"
    try:
        entries = journal.read(directory).values()
    except StateError as error:
        yield failed(check, error.brief, "run this as root" if os.geteuid() else "see to its file system (dmesg)")
        entries = {}.values()
    holder = lock.holder(directory)
    said = health.read(directory)
    if holder is None:
        yield warning(check, "it is not running", "systemctl start heat-config-agent")
    elif holder[1] != lock.DAEMON:
        yield ok(check, f"a single run is at work (process {holder[0]})")
    else:
        yield from _running(holder[0], said)
    pause = asked.paused(directory)
    if pause:
        since = f" since {plan.clock(pause[1])}" if pause[1] else ""
        yield warning(check, f"it is paused{since}: {pause[0]}", resume)
    waiting = [each.name for each in entries if each.state is State.REBOOT]
    if waiting:
        yield warning(check, f"{', '.join(waiting)} waits for a reboot of the machine", "reboot it, if nobody does")
    late = [each for each in entries if each.state is State.FINISHED and each.tries]
    if late:
        last = max(late, key=lambda each: each.at)
        yield warning(
            check,
            f"{len(late)} result{'s' if len(late) > 1 else ''} could not be delivered yet: {last.trouble}",
            "heat-config-agent status",
        )


def _running(process: int, said: Mapping[str, object]) -> Iterator[Finding]:
    check = "agent"
    at = said.get("at")
    silent = time.time() - at if isinstance(at, int | float) and said.get("process") == process else 0.0
    if silent > SILENCE:
        yield failed(
            check,
            f"process {process} is there, but has said nothing for {silent / 60:.0f} minutes",
            "if the disk is not full, it is stuck: systemctl restart heat-config-agent (what runs goes on)",
        )
        return
    doing = str(said.get("doing") or "starting") if said.get("process") == process else "starting"
    yield ok(check, f"it is running (process {process}): {doing}")
    sources = said.get("sources")
    for each in sources if isinstance(sources, list) else []:
        if isinstance(each, Mapping) and each.get("working") is False:
            since = each.get("since")
            when = f" since {plan.clock(since)}" if isinstance(since, float) else ""
            yield warning(check, f"it has had no answer from {each.get('name')}{when}: {each.get('trouble')}")
    troubles = said.get("troubles")
    for trouble in troubles if isinstance(troubles, list) else []:
        yield failed(check, str(trouble))


def _there(path: Path) -> Path:
    """Return the path, or the nearest above it that is there."""
    while not os.path.lexists(path) and path != path.parent:
        path = path.parent
    return path


def _mount(path: Path) -> Path:
    """Return where the file system is mounted on which something is."""
    path = path.resolve()
    while not os.path.ismount(path):
        path = path.parent
    return path


def _size(number: float) -> str:
    for unit in ("bytes", "KiB", "MiB"):
        if number < 1024:
            return f"{number:.0f} {unit}"
        number /= 1024
    return f"{number:.1f} GiB"
