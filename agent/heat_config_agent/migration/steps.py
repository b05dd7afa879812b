"""Carrying out the steps of a migration. Each step may be interrupted, and repeated."""

from __future__ import annotations

import contextlib
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from heat_config_agent.migration import TAKEN, Deed, Inventory, Plan, Step, Unit, freeze, survey, units
from heat_config_agent.model.errors import AgentError
from heat_config_agent.sources.documents import Documents
from heat_config_agent.state import lock
from heat_config_hooks import files

REPLACED = "replaced"
"""The file in the state directory with the units that the migration has disabled, one on each line."""

_LEAVE = "# Stopping this unit must not end processes that deployments have started.\n[Service]\nKillMode=process\n"


def carry_out(inventory: Inventory, plan: Plan, *, patience: float, waits: Callable[[str], None]) -> Iterator[Step]:
    """Carry out the steps that are not done yet, and yield each step when it is done. Raises AgentError.

    First wait for work of the old programs, for at most `patience` seconds, and call `waits` with the reason. From then
    on they begin nothing until they are stopped. If a step fails, they continue as before.
    """
    wait = freeze.Wait(time.monotonic() + patience, waits)
    with contextlib.ExitStack() as held:
        for step in plan.steps:
            if not step.done:
                try:
                    if step.deed is Deed.WAIT:
                        held.enter_context(wait.until(lambda attempt: freeze.locked(inventory.old_units, attempt)))
                    _do(inventory, step, wait)
                except OSError as error:
                    about = f": {error.filename}" if error.filename else ""
                    raise AgentError(f"cannot {step.text}: {error.strerror or error}{about}", hint=_AGAIN) from error
                except subprocess.TimeoutExpired as error:
                    raise AgentError(f"cannot {step.text}: systemctl does not end", hint=_AGAIN) from error
            yield step


_AGAIN = "correct that, and run the command again: no step is done twice"


def _do(inventory: Inventory, step: Step, wait: freeze.Wait) -> None:
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
                raise AgentError(f"cannot {step.text}: it is not JSON", hint=_AGAIN) from error
            trouble = Documents(inventory.settings.state).take(document)
            if trouble:
                raise AgentError(trouble, hint=_AGAIN)
    elif step.deed in (Deed.ENABLE, Deed.DISABLE, Deed.START):
        if step.deed is Deed.DISABLE:
            _note(step.about, inventory.settings.state)
        _systemctl(step, step.deed.value, "--", step.about, offline=not inventory.systemd)


def _note(unit: str, state: Path) -> None:
    """Add a unit to the file of those that the agent has replaced: a removal of the package names them."""
    path = state / REPLACED
    files.make_directory(state)
    names = path.read_text(encoding="utf-8").split() if path.exists() else []
    if unit not in names:
        files.replace(path, "".join(f"{name}\n" for name in (*names, unit)).encode(), durable=True)


def _stop(step: Step, unit: Unit, wait: freeze.Wait) -> None:
    """Stop a unit, but no processes that its deployments have started, such as daemons."""
    folder = Path("/run/systemd/system") / f"{unit.name}.d"
    alone = unit.kill in ("process", "none") or not unit.name.endswith(".service")
    if not alone:
        files.make_directory(folder)
        folder.chmod(0o755)
        files.replace(folder / "heat-config-agent.conf", _LEAVE.encode(), mode=0o644)
        _systemctl(step, "daemon-reload")
    try:
        with wait.until(lambda attempt: freeze.still(unit, attempt)):
            collectors = survey.collectors(unit)
            _systemctl(step, "stop", "--", unit.name)  # systemd sends CONT after TERM, so the process can end
            freeze.end(collectors)
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
        why = lines[-1] if lines else f"systemctl ended with exit code {done.returncode}"
        raise AgentError(f"cannot {step.text}: {why}", hint=_AGAIN)
