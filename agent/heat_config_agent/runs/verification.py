"""The two steps of a verification, as `hook` has those of a run: they change nothing on the machine.

A verification is a job of its own. So it begins as a run does: with its secrets, as its user, and in its isolation.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path

import heat_config_hooks
from heat_config_agent.deployments import jobs
from heat_config_agent.model.deployment import Job
from heat_config_agent.model.entry import Run
from heat_config_agent.model.errors import blame
from heat_config_agent.runs import executable_hook
from heat_config_hooks import files, health, protocol, verdict
from heat_config_hooks.errors import HookError
from heat_config_hooks.reply import Reply
from heat_config_hooks.verdict import Verdict

TYPE_CHECKING = False  # as `typing` has it, which takes long to load

if TYPE_CHECKING:
    from typing import Literal, TypeAlias

    Part: TypeAlias = Literal["tool", "script"]

SUFFIX = ".verify"
"""The end of the name of the executable that verifies for an executable hook: `/usr/libexec/…/hooks/TOOL.verify`."""


def parts(job: Job) -> tuple[Part, ...]:
    """Return the parts of the verification of a deployment, in their order; none if nothing can verify it."""
    tool = job.tool
    if tool.builtin:
        able = protocol.can_verify(heat_config_hooks.load(tool.name))
    else:
        able = os.access(f"{tool.hook}{SUFFIX}", os.X_OK)
    tools: tuple[Part, ...] = ("tool",) if able else ()
    scripts: tuple[Part, ...] = ("script",) if job.verify else ()
    return tools + scripts


def prepare(job: Job, place: protocol.Workplace) -> protocol.Command | Reply:
    """Return the command of a verification, or the reply with the verdict if none is needed.

    Raises HookError, OSError.
    """
    answer = _prepared(job, place)
    return verdict.encoded(answer) if isinstance(answer, Verdict) else answer


def _prepared(job: Job, place: protocol.Workplace) -> protocol.Command | Verdict:
    if job.verifies == "script" and job.verify is not None:
        return health.alone(job.verify, _environment(job, place.run), place.run)
    if not job.tool.builtin:
        path = f"{job.tool.hook}{SUFFIX}"
        command = executable_hook.prepare(path, job.request, place.run)
        if isinstance(command, protocol.Command):
            return command
        return verdict.of_reply(command)
    module = _hook(job.tool.name)
    return module.verify(jobs.for_hook(job, module), place)


def _hook(tool: str) -> protocol.Verifying:
    """Return the hook of a tool that can verify. Raises HookError."""
    hook = heat_config_hooks.load(tool)
    if protocol.can_verify(hook):
        return hook
    raise HookError(f"the tool {tool} cannot verify")


def gated(
    job: Job, check: health.Check, command: protocol.Command | Reply, run: Path
) -> protocol.Command | Reply:
    """Return the command of a run with its health gate. Raises HookError, OSError."""
    return health.gated(command, check, _environment(job, run), run)


def _environment(job: Job, run: Path) -> dict[str, str]:
    """Return the inputs as the variables that the script has in a run of the tool `script` too. Raises OSError."""
    if not job.tool.builtin:
        return {}
    request = jobs.for_hook(job, heat_config_hooks.load(job.tool.name))
    inputs = run / "verify.inputs"
    files.replace(inputs, json.dumps(protocol.visible_inputs(request)).encode())
    return {**protocol.environment(request), "HEAT_INPUTS_FILE": str(inputs)}


def finish(
    job: Job,
    run: Run,
    folder: Path,
    environment: Mapping[str, str],
    ended: protocol.Ended,
) -> Reply:
    """Return the reply with the verdict of a verification whose command has ended."""
    try:
        answer = _finished(job, run, folder, environment, ended)
    except BaseException as error:  # noqa: BLE001  # a defect of the hook, or what the command did to its folder
        reason = f"{type(error).__name__}: {blame(error)}"
        answer = verdict.unknown(
            f"the {job.tool.name} hook has failed to read the verification: {reason}"
        )
    return verdict.encoded(answer)


def _finished(
    job: Job,
    run: Run,
    folder: Path,
    environment: Mapping[str, str],
    ended: protocol.Ended,
) -> Verdict:
    if job.verifies == "script":
        return health.verdict_of(ended)
    if not job.tool.builtin:
        return executable_hook.verdict_of(job.tool.hook, ended)
    module = _hook(job.tool.name)
    place = protocol.Workplace(
        run=folder,
        working=Path(run.working),
        outputs=Path(run.outputs),
        environment=environment,
    )
    return module.verdict(jobs.for_hook(job, module), place, ended)
