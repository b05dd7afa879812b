"""The two steps of a hook, whether it is one of ours or an executable; and what stands between it and everything else.

Whatever a hook does wrong is a failure of its deployment, said in a sentence, and no other deployment's affair.
"""

from __future__ import annotations

from pathlib import Path

import heat_config_hooks
from heat_config_agent import external, selection
from heat_config_agent.model import BUILTIN, Config, Deployment, Run, Tool
from heat_config_hooks import protocol
from heat_config_hooks.reply import CANNOT_START, UNKNOWN, Capture, Reply, failure


def prepare(
    deployment: Deployment, config: Config, tool: Tool, where: protocol.Directories
) -> protocol.Command | Reply:
    """Return what is to be run for a deployment, or its reply where nothing need or can be.

    Raises OSError where a file cannot be written.
    """
    document = selection.chosen_document(deployment, config)
    try:
        if not tool.builtin:
            return external.prepare(tool.hook, document, where.run)
        request = protocol.request(document, key=deployment.key, options=config.options)
        return heat_config_hooks.load(tool.name).prepare(request, where)
    except protocol.HookError as error:
        return failure(UNKNOWN, f"{deployment.where}.{error}")
    except OSError:
        raise
    except Exception as error:  # noqa: BLE001  # a defect of the hook
        return failure(CANNOT_START, f"the {tool.name} hook cannot be prepared: {type(error).__name__}: {error}")


def finish(deployment: Deployment, run: Run, folder: Path, ended: protocol.Ended) -> Reply:
    """Return what came of a command, which perhaps an agent before us started."""
    name = run.hook.removeprefix(BUILTIN)
    where = protocol.Directories(run=folder, working=Path(run.working), outputs=Path(run.outputs))
    try:
        if not run.hook.startswith(BUILTIN):
            return external.finish(run.hook, ended)
        return heat_config_hooks.load(name).finish(_request(deployment), where, ended)
    except Exception as error:  # noqa: BLE001  # a defect of the hook, or what the command did to its folder
        sentence = f"the {name} hook cannot say what came of it: {type(error).__name__}: {error}"
        return failure(UNKNOWN, sentence, Capture(ended.stdout), Capture(ended.stderr))


def may_rerun(deployment: Deployment) -> bool:
    """Whether the deployment says that an interrupted run may simply be run again."""
    chosen = selection.select(deployment)
    return isinstance(chosen, Config) and chosen.options.get("idempotent") is True


def _request(deployment: Deployment) -> protocol.Request:
    chosen = selection.select(deployment)
    if not isinstance(chosen, Config):
        raise protocol.HookError("its config can no longer be chosen")
    return protocol.request(selection.chosen_document(deployment, chosen), key=deployment.key, options=chosen.options)
