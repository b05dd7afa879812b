"""The two steps of a hook, whether it is built in or an executable.

Any error of a hook fails its own deployment, with a sentence that says why, and no other.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Mapping
from pathlib import Path

import heat_config_hooks
from heat_config_agent.deployments import jobs
from heat_config_agent.model.deployment import BUILTIN, Deployment, Job, Mistake, Tool
from heat_config_agent.model.entry import Run
from heat_config_agent.model.errors import blame
from heat_config_hooks import protocol
from heat_config_hooks.errors import HookError
from heat_config_hooks.reply import CANNOT_START, UNKNOWN, Capture, Reply, failure

_NEEDS_NO_PYTHON = "script"
"""The tool whose hook loads no more modules once it is loaded itself, and whose command is not Python."""


def unreadable(tool: Tool) -> Path | None:
    """Return the part of the agent's Python that this process cannot read, if the hook of a tool needs it."""
    if not tool.builtin or tool.name == _NEEDS_NO_PYTHON:
        return None
    parts = (os.__file__, str(heat_config_hooks.__file__), sys.executable)
    return next(
        (Path(part).parent for part in parts if not os.access(part, os.R_OK)), None
    )


def load(job: Job) -> None:
    """Load the modules with which the hook of a job begins, as long as they can be read."""
    if job.verify is not None or job.verifies:
        from heat_config_agent.runs import verification  # noqa: F401, PLC0415  # few deployments have it
    if job.tool.builtin:
        with contextlib.suppress(HookError):  # `prepare` says what is wrong
            jobs.for_hook(job, heat_config_hooks.load(job.tool.name))
    else:
        from heat_config_agent.runs import executable_hook  # noqa: F401, PLC0415  # most hooks are built in


def _located(deployment: Deployment, error: HookError) -> str:
    """Return a mistake in a deployment with its path in the document, or its place in a file that people write."""
    mistake = Mistake(path=f"{deployment.where}.{error.path}", problem=error.problem)
    return str(
        deployment.located(mistake) if deployment.located is not None else mistake
    )


def prepare(job: Job, place: protocol.Workplace) -> protocol.Command | Reply:
    """Return the command to run for a job, or the reply if nothing needs to be run or the hook has failed.

    Raises OSError if a file cannot be written.
    """
    deployment, tool = job.deployment, job.tool
    try:
        if job.verifies:
            from heat_config_agent.runs import verification  # noqa: PLC0415  # runs do not need it

            return verification.prepare(job, place)
        command = _prepared(job, place)
        if job.verify is None:
            return command
        from heat_config_agent.runs import verification  # noqa: PLC0415  # few deployments have it

        return verification.gated(job, job.verify, command, place.run)
    except HookError as error:
        return failure(
            error.code, _located(deployment, error) if error.path else error.problem
        )
    except OSError:
        raise
    except BaseException as error:  # noqa: BLE001  # a defect of the hook, or an input that it cannot handle
        sentence = f"the {tool.name} hook has failed to prepare the run: {type(error).__name__}: {blame(error)}"
        return failure(CANNOT_START, sentence)


def _prepared(job: Job, place: protocol.Workplace) -> protocol.Command | Reply:
    if not job.tool.builtin:
        from heat_config_agent.runs import executable_hook  # noqa: PLC0415  # most hooks are built in

        return executable_hook.prepare(job.tool.hook, job.request, place.run)
    hook = heat_config_hooks.load(job.tool.name)
    return hook.prepare(jobs.for_hook(job, hook), place)


def finish(
    job: Job | None,
    run: Run,
    folder: Path,
    environment: Mapping[str, str],
    ended: protocol.Ended,
) -> Reply:
    """Return the reply of a run that has ended, even if an earlier agent started it. `job` is that of its step."""
    if job is not None and job.verifies:
        from heat_config_agent.runs import verification  # noqa: PLC0415  # runs do not need it

        return verification.finish(job, run, folder, environment, ended)
    if job is None or job.verify is None:
        return _finished(job, run, folder, environment, ended)
    from heat_config_hooks import health  # noqa: PLC0415  # few deployments have it

    reply = health.replied(folder) if ended.code == 0 else None
    if reply is None:
        reply = _finished(job, run, folder, environment, ended)
    return health.judged(reply, folder, ended.stderr)


def _finished(
    job: Job | None,
    run: Run,
    folder: Path,
    environment: Mapping[str, str],
    ended: protocol.Ended,
) -> Reply:
    """Return the reply of the hook."""
    name = run.hook.removeprefix(BUILTIN)
    place = protocol.Workplace(
        run=folder,
        working=Path(run.working),
        outputs=Path(run.outputs),
        environment=environment,
    )
    try:
        if not run.hook.startswith(BUILTIN):
            from heat_config_agent.runs import executable_hook  # noqa: PLC0415  # most hooks are built in

            return executable_hook.finish(run.hook, ended)
        hook = heat_config_hooks.load(name)
        return hook.finish(jobs.for_hook(job, hook), place, ended)
    except BaseException as error:  # noqa: BLE001  # a defect of the hook, or what the command did to its folder
        sentence = f"the {name} hook has failed to read the outcome of the run: {type(error).__name__}: {blame(error)}"
        return failure(UNKNOWN, sentence, Capture(ended.stdout), Capture(ended.stderr))
