"""The two steps of a hook, whether it is one of ours or an executable; and what stands between it and everything else.

Whatever a hook does wrong is a failure of its deployment, said in a sentence, and no other deployment's affair.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import heat_config_hooks
from heat_config_agent import external, selection
from heat_config_agent.model import BUILTIN, Config, Deployment, Run, Tool
from heat_config_hooks import options, protocol
from heat_config_hooks.errors import HookError
from heat_config_hooks.reply import CANNOT_START, UNKNOWN, Capture, Reply, failure


def prepare(deployment: Deployment, config: Config, tool: Tool, place: protocol.Workplace) -> protocol.Command | Reply:
    """Return what is to be run for a deployment, or its reply where nothing need or can be.

    Raises OSError where a file cannot be written.
    """
    try:
        if not tool.builtin:
            return external.prepare(tool.hook, selection.chosen_document(deployment, config), place.run)
        hook = heat_config_hooks.load(tool.name)
        return hook.prepare(_request(deployment, config, hook), place)
    except HookError as error:
        return failure(error.code, f"{deployment.where}.{error}" if error.path else error.problem)
    except (OSError, MemoryError):
        raise
    except Exception as error:  # noqa: BLE001  # a defect of the hook
        return failure(CANNOT_START, f"the {tool.name} hook cannot be prepared: {type(error).__name__}: {error}")


def finish(
    deployment: Deployment, run: Run, folder: Path, environment: Mapping[str, str], ended: protocol.Ended
) -> Reply:
    """Return what came of a command, which perhaps an agent before us started."""
    name = run.hook.removeprefix(BUILTIN)
    place = protocol.Workplace(
        run=folder, working=Path(run.working), outputs=Path(run.outputs), environment=environment
    )
    try:
        if not run.hook.startswith(BUILTIN):
            return external.finish(run.hook, ended)
        hook = heat_config_hooks.load(name)
        return hook.finish(_request(deployment, _chosen(deployment), hook), place, ended)
    except Exception as error:  # noqa: BLE001  # a defect of the hook, or what the command did to its folder
        sentence = f"the {name} hook cannot say what came of it: {type(error).__name__}: {error}"
        return failure(UNKNOWN, sentence, Capture(ended.stdout), Capture(ended.stderr))


def may_rerun(deployment: Deployment) -> bool:
    """Whether the deployment says that an interrupted run may simply be run again."""
    chosen = selection.select(deployment)
    return isinstance(chosen, Config) and options.common(chosen.options, "idempotent") is True


def _chosen(deployment: Deployment) -> Config:
    chosen = selection.select(deployment)
    if not isinstance(chosen, Config):
        raise HookError("its config can no longer be chosen")
    return chosen


def _request(deployment: Deployment, config: Config, hook: protocol.Hook) -> protocol.Request:
    given = options.read(config.options, hook.ABOUT.options)
    return protocol.request(selection.chosen_document(deployment, config), key=deployment.key, options=given)
