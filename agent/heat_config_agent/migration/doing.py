"""The steps of a migration, done one after the other. Each may be cut short, and done once more."""

from __future__ import annotations

import contextlib
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from heat_config_agent import lock
from heat_config_agent.documents import Documents
from heat_config_agent.errors import AgentError
from heat_config_agent.migration import TAKEN, Deed, Found, Plan, Step, Unit, holding, looking, units
from heat_config_hooks import files

_LEAVE = "# So that ending this unit does not end what deployments have started.\n[Service]\nKillMode=process\n"


def carry_out(found: Found, plan: Plan, *, patience: float, waits: Callable[[str], None]) -> Iterator[Step]:
    """Do the steps that are not done, and yield each when it is. Raises AgentError.

    What of theirs is at work is waited for, for `patience` seconds; `waits` is told what that is. From then on nothing
    of theirs begins until it has been stopped; where that cannot be done, it goes on as if nothing had been.
    """
    wait = holding.Wait(time.monotonic() + patience, waits)
    with contextlib.ExitStack() as held:
        for step in plan.steps:
            if not step.done:
                try:
                    if step.deed is Deed.WAIT:
                        held.enter_context(wait.until(lambda attempt: holding.locked(found.theirs, attempt)))
                    _do(found, step, wait)
                except OSError as error:
                    about = f": {error.filename}" if error.filename else ""
                    raise AgentError(f"cannot {step.says}: {error.strerror or error}{about}", hint=_AGAIN) from error
                except subprocess.TimeoutExpired as error:
                    raise AgentError(f"cannot {step.says}: systemctl has not ended", hint=_AGAIN) from error
            yield step


_AGAIN = "when that is mended, run it again: what is done is not done twice"


def _do(found: Found, step: Step, wait: holding.Wait) -> None:
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


def _stop(step: Step, unit: Unit, wait: holding.Wait) -> None:
    """Stop a unit and nothing that its deployments have started, such as daemons."""
    folder = Path("/run/systemd/system") / f"{unit.name}.d"
    alone = unit.kill in ("process", "none") or not unit.name.endswith(".service")
    if not alone:
        files.make_directory(folder)
        folder.chmod(0o755)
        files.replace(folder / "heat-config-agent.conf", _LEAVE.encode(), mode=0o644)
        _systemctl(step, "daemon-reload")
    try:
        with wait.until(lambda attempt: holding.still(unit, attempt)):
            collectors = looking.collectors(unit)
            _systemctl(step, "stop", "--", unit.name)  # which has it go on once it has been told to end
            holding.end(collectors)
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
