"""Carrying out the steps of a migration. Each step may be interrupted, and repeated.

The old programs are frozen: nothing that they run is cut short, and they begin nothing while they are stopped.
"""

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

from heat_config_agent.migration import (
    COLLECTOR,
    TAKEN,
    Deed,
    Inventory,
    Plan,
    Step,
    Unit,
    survey,
    units,
)
from heat_config_agent.model.errors import AgentError, ExitCode
from heat_config_agent.sources.documents import Documents
from heat_config_agent.state import lock
from heat_config_hooks import files
from heat_config_hooks.values import dataclass

_TICK = 0.1
"""Seconds between two checks of whether something has ended."""

_GRACE = 10.0
"""Seconds between TERM and KILL for an os-collect-config that its unit does not stop."""


class BusyError(AgentError):
    """The old programs were still at work when the time to wait was over."""

    exit_code = ExitCode.TIMED_OUT
    code = "timeout"


@dataclass
class Wait:
    """A wait for the old programs, until a deadline."""

    deadline: float
    """As `time.monotonic` has it."""
    waits: Callable[[str], None]
    """Called with the reason of the wait, whenever it changes."""
    reason: str = ""

    def until(
        self, attempt: Callable[[contextlib.ExitStack], str]
    ) -> contextlib.ExitStack:
        """Repeat an attempt until it succeeds, and return the resources that it holds then. Raises BusyError.

        An attempt returns why it has not succeeded yet, or an empty text.
        """
        while True:
            with contextlib.ExitStack() as held:
                reason = attempt(held)
                if not reason:
                    return held.pop_all()
            if time.monotonic() > self.deadline:
                hint = "run the command again when that has ended, or wait longer with --wait-for"
                raise BusyError(f"{reason}, and must not be cut short", hint=hint)
            if reason != self.reason:
                self.reason = reason
                self.waits(reason)
            time.sleep(_TICK)


def lock_out(old_units: Sequence[Unit], held: contextlib.ExitStack) -> str:
    """Lock os-refresh-config out; return why that is not possible yet, or an empty text.

    An os-refresh-config that is locked out fails, and os-collect-config runs it again later.
    """
    reason = survey.busy(old_units)
    if reason:
        return reason
    for path in survey.locks(old_units):
        if not path.parent.is_dir():
            continue
        descriptor = os.open(
            path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644
        )
        held.callback(os.close, descriptor)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return f"another process holds {path}"
    return ""


def hold_still(unit: Unit, held: contextlib.ExitStack) -> str:
    """Stop os-collect-config with SIGSTOP while it runs no command; return which command it runs, or an empty text.

    The lock is not enough: os-collect-config may run another command than os-refresh-config.
    """
    for process in survey.collectors(unit):
        with contextlib.suppress(psutil.NoSuchProcess):
            held.callback(_let_go, process)
            process.send_signal(signal.SIGSTOP)
            while process.status() not in (psutil.STATUS_STOPPED, psutil.STATUS_ZOMBIE):
                time.sleep(0.001)
    # It can begin nothing any more, so this answer is final.
    commands = survey.commands(unit)
    return f"{COLLECTOR} runs a command (process {commands[0].pid})" if commands else ""


def end_collectors(collectors: Sequence[psutil.Process]) -> None:
    """End the processes of os-collect-config that stopping the unit has left: its main process may be a shell."""
    for process in collectors:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.terminate()
            _let_go(process)
    for process in psutil.wait_procs(collectors, _GRACE)[1]:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()


def _let_go(process: psutil.Process) -> None:
    with contextlib.suppress(psutil.NoSuchProcess):
        process.send_signal(signal.SIGCONT)


REPLACED = "replaced"
"""The file in the state directory with the units that the migration has disabled, one on each line."""

_LEAVE = "# Stopping this unit must not end processes that deployments have started.\n[Service]\nKillMode=process\n"


def carry_out(
    inventory: Inventory, plan: Plan, *, patience: float, waits: Callable[[str], None]
) -> Iterator[Step]:
    """Carry out the steps that are not done yet, and yield each step when it is done. Raises AgentError.

    First wait for work of the old programs, for at most `patience` seconds, and call `waits` with the reason. From then
    on they begin nothing until they are stopped. If a step fails, they continue as before.
    """
    wait = Wait(time.monotonic() + patience, waits)
    with contextlib.ExitStack() as held:
        for step in plan.steps:
            if not step.done:
                try:
                    if step.deed is Deed.WAIT:
                        held.enter_context(
                            wait.until(
                                lambda attempt: lock_out(inventory.old_units, attempt)
                            )
                        )
                    _do(inventory, step, wait)
                except OSError as error:
                    about = f": {error.filename}" if error.filename else ""
                    raise AgentError(
                        f"cannot {step.text}: {error.strerror or error}{about}",
                        hint=_AGAIN,
                    ) from error
                except subprocess.TimeoutExpired as error:
                    raise AgentError(
                        f"cannot {step.text}: systemctl does not end", hint=_AGAIN
                    ) from error
            yield step


_AGAIN = "correct that, and run the command again: no step is done twice"


def _do(inventory: Inventory, step: Step, wait: Wait) -> None:
    unit = next((each for each in inventory.old_units if each.name == step.about), None)
    if step.deed is Deed.VARIABLES:
        files.make_directory(TAKEN.parent)
        TAKEN.parent.chmod(0o755)
        files.replace(TAKEN, units.drop_in(inventory.variables).encode(), durable=True)
        if inventory.systemd:
            _systemctl(step, "daemon-reload")
    elif step.deed is Deed.STOP and unit is not None:
        _stop(step, unit, wait)
    elif step.deed is Deed.MESSAGE and inventory.message is not None:
        with lock.held(inventory.settings.state):
            try:
                document = survey.read_message(inventory.message)
            except ValueError as error:
                raise AgentError(
                    f"cannot {step.text}: it is not JSON", hint=_AGAIN
                ) from error
            trouble = Documents(inventory.settings.state).take(document)
            if trouble:
                raise AgentError(trouble, hint=_AGAIN)
    elif step.deed in (Deed.ENABLE, Deed.DISABLE, Deed.START):
        if step.deed is Deed.DISABLE:
            _note(step.about, inventory.settings.state)
        _systemctl(
            step, step.deed.value, "--", step.about, offline=not inventory.systemd
        )


def _note(unit: str, state: Path) -> None:
    """Add a unit to the file of those that the agent has replaced: a removal of the package names them."""
    path = state / REPLACED
    files.make_directory(state)
    names = path.read_text(encoding="utf-8").split() if path.exists() else []
    if unit not in names:
        files.replace(
            path, "".join(f"{name}\n" for name in (*names, unit)).encode(), durable=True
        )


def _stop(step: Step, unit: Unit, wait: Wait) -> None:
    """Stop a unit, but no processes that its deployments have started, such as daemons."""
    folder = Path("/run/systemd/system") / f"{unit.name}.d"
    alone = unit.kill in ("process", "none") or not unit.name.endswith(".service")
    if not alone:
        files.make_directory(folder)
        folder.chmod(0o755)
        files.replace(folder / "heat-config-agent.conf", _LEAVE.encode(), mode=0o644)
        _systemctl(step, "daemon-reload")
    try:
        with wait.until(lambda attempt: hold_still(unit, attempt)):
            collectors = survey.collectors(unit)
            # systemd sends CONT after TERM, so the process can end
            _systemctl(step, "stop", "--", unit.name)
            end_collectors(collectors)
    finally:
        if not alone:
            (folder / "heat-config-agent.conf").unlink(missing_ok=True)
            with contextlib.suppress(OSError):
                folder.rmdir()
            _systemctl(step, "daemon-reload")


def _systemctl(step: Step, *words: str, offline: bool = False) -> None:
    done = survey.systemctl(*words, offline=offline)
    if done.returncode:
        lines = (done.stderr.strip() or done.stdout.strip()).splitlines()
        why = (
            lines[-1] if lines else f"systemctl ended with exit code {done.returncode}"
        )
        raise AgentError(f"cannot {step.text}: {why}", hint=_AGAIN)
