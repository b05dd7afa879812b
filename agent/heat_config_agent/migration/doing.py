"""The steps of a migration, done one after the other. Each may be cut short, and done once more."""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import psutil

from heat_config_agent import lock
from heat_config_agent.documents import Documents
from heat_config_agent.errors import AgentError
from heat_config_agent.migration import COLLECTOR, TAKEN, Deed, Found, Plan, Step, Unit, looking, units
from heat_config_hooks import files
from heat_config_hooks.values import dataclass

_LEAVE = "# So that ending this unit does not end what deployments have started.\n[Service]\nKillMode=process\n"

_TICK = 0.1
"""Seconds between two looks at whether something has ended."""


def carry_out(found: Found, plan: Plan, *, patience: float, waits: Callable[[str], None]) -> Iterator[Step]:
    """Do the steps that are not done, and yield each when it is. Raises AgentError.

    What of theirs is at work is waited for, for `patience` seconds; `waits` is told what that is. From then on nothing
    of theirs begins until it has been stopped; where that cannot be done, it goes on as if nothing had been.
    """
    wait = _Wait(time.monotonic() + patience, waits)
    with contextlib.ExitStack() as held:
        for step in plan.steps:
            if not step.done:
                try:
                    if step.deed is Deed.WAIT:
                        held.enter_context(wait.until(lambda attempt: _locked(found.theirs, attempt)))
                    _do(found, step, wait)
                except OSError as error:
                    about = f": {error.filename}" if error.filename else ""
                    raise AgentError(f"cannot {step.says}: {error.strerror or error}{about}", hint=_AGAIN) from error
                except subprocess.TimeoutExpired as error:
                    raise AgentError(f"cannot {step.says}: systemctl has not ended", hint=_AGAIN) from error
            yield step


_AGAIN = "when that is mended, run it again: what is done is not done twice"


def _do(found: Found, step: Step, wait: _Wait) -> None:
    unit = next((each for each in found.theirs if each.name == step.about), None)
    if step.deed is Deed.VARIABLES:
        files.make_directory(TAKEN.parent)
        TAKEN.parent.chmod(0o755)
        files.replace(TAKEN, units.drop_in(found.variables).encode(), durable=True)
        if found.systemd:
            _systemctl(step, "daemon-reload")
    elif step.deed is Deed.STOP and unit is not None:
        _stop(step, unit, wait)
    elif step.deed is Deed.MESSAGE and found.message is not None:
        with lock.held(found.given.state):
            try:
                document = looking.read_message(found.message)
            except ValueError as error:
                raise AgentError(f"cannot {step.says}: it is no JSON", hint=_AGAIN) from error
            trouble = Documents(found.given.state).take(document)
            if trouble:
                raise AgentError(trouble, hint=_AGAIN)
    elif step.deed in (Deed.ENABLE, Deed.DISABLE, Deed.START):
        _systemctl(step, step.deed.value, "--", step.about, offline=not found.systemd)


def _stop(step: Step, unit: Unit, wait: _Wait) -> None:
    """Stop a unit and nothing that its deployments have started, such as daemons."""
    folder = Path("/run/systemd/system") / f"{unit.name}.d"
    alone = unit.kill in ("process", "none") or not unit.name.endswith(".service")
    if not alone:
        files.make_directory(folder)
        folder.chmod(0o755)
        files.replace(folder / "heat-config-agent.conf", _LEAVE.encode(), mode=0o644)
        _systemctl(step, "daemon-reload")
    try:
        with wait.until(lambda attempt: _still(unit, attempt)):
            _systemctl(step, "stop", "--", unit.name)  # which has it go on once it has been told to end
    finally:
        if not alone:
            (folder / "heat-config-agent.conf").unlink(missing_ok=True)
            with contextlib.suppress(OSError):
                folder.rmdir()
            _systemctl(step, "daemon-reload")


def _systemctl(step: Step, *words: str, offline: bool = False) -> None:
    done = looking.systemctl(*words, offline=offline)
    if done.returncode:
        said = (done.stderr.strip() or done.stdout.strip()).splitlines()
        why = said[-1] if said else f"systemctl ended with {done.returncode}"
        raise AgentError(f"cannot {step.says}: {why}", hint=_AGAIN)


@dataclass
class _Wait:
    """The patience with what they are at, and who is told of that."""

    deadline: float
    waits: Callable[[str], None]
    told: str = ""

    def until(self, attempt: Callable[[contextlib.ExitStack], str]) -> contextlib.ExitStack:
        """Try until it works, and return what it holds then: it returns why it does not yet. Raises AgentError."""
        while True:
            with contextlib.ExitStack() as held:
                at_work = attempt(held)
                if not at_work:
                    return held.pop_all()
            if time.monotonic() > self.deadline:
                hint = "run it again when that has ended, or have it waited for longer with --wait"
                raise AgentError(f"{at_work}, and must not be cut short", hint=hint)
            if at_work != self.told:
                self.told = at_work
                self.waits(at_work)
            time.sleep(_TICK)


def _locked(theirs: Sequence[Unit], held: contextlib.ExitStack) -> str:
    """Keep os-refresh-config from beginning; return why that cannot be done now, empty where it is.

    To os-collect-config that is a command that failed: it would have it run again later.
    """
    at_work = looking.busy(theirs)
    if at_work:
        return at_work
    for path in looking.locks(theirs):
        if not path.parent.is_dir():
            continue
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644)
        held.callback(os.close, descriptor)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return f"somebody holds {path}"
    return ""


def _still(unit: Unit, held: contextlib.ExitStack) -> str:
    """Have os-collect-config stand still while it waits for nothing that it has begun; return what that is else.

    What it runs may be no os-refresh-config, which a lock keeps from beginning.
    """
    for process in looking.collectors(unit):
        with contextlib.suppress(psutil.NoSuchProcess):
            held.callback(_let_go, process)
            process.send_signal(signal.SIGSTOP)
            while process.status() not in (psutil.STATUS_STOPPED, psutil.STATUS_ZOMBIE):
                time.sleep(0.001)
    # Only now is it certain: what was begun in between shows, and nothing else can.
    begun = looking.commands(unit)
    return f"{COLLECTOR} has begun something (process {begun[0].pid})" if begun else ""


def _let_go(process: psutil.Process) -> None:
    with contextlib.suppress(psutil.NoSuchProcess):
        process.send_signal(signal.SIGCONT)
