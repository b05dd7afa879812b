"""Makes the follow-up of a deployment whose run has failed, and finds those that have not ended. Pure.

The option `on_failure` is a script, and a component may have a config for the action FAILED. The agent runs it once,
after the failure is on record, as a deployment of its own: it is planned, recorded, limited and found again after a
kill like any other, and no result is signalled. So nothing that it does can change the first result.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from heat_config_agent.deployments import metadata, selection
from heat_config_agent.model.deployment import (
    CLEANUP,
    COMPONENT,
    DELETE,
    FAILED,
    FAILED_KEY,
    Deployment,
    Document,
    Job,
    Result,
)
from heat_config_agent.model.entry import Entry, State
from heat_config_hooks import options, protocol
from heat_config_hooks.values import replace

BOUND = 16 * 1024
"""The characters of each input that come from the failure: variables of a process cannot be much longer."""

REASON, FAILED_ACTION = "reason", "deploy_failed_action"
"""The inputs with the reason of the failure, and with the action that has failed."""

_WITHOUT = frozenset({DELETE, CLEANUP})
"""The actions after which nothing is left that a follow-up could look after."""

_KEPT = (*options.BOUNDS, "user", "isolate", "timeout")
"""The options of a deployment that hold for its script `on_failure` too."""


def make(
    job: Job, entry: Entry, result: Result, *, by_tool: bool = False
) -> Deployment | None:
    """Return the follow-up of a run with this result; None if there is none.

    `entry` is that of the deployment, as it was while the command ran. A deployment that was answered without a run
    has none, unless its tool needs no command and has answered itself (`by_tool`); nor has a DELETE, a cleanup, or a
    follow-up.
    """
    deployment = job.deployment
    if (
        not result.failed
        or not (by_tool or (entry.run is not None and entry.started is not None))
        or deployment.action in _WITHOUT
        or deployment.is_follow_up
    ):
        return None
    given = _given(job)
    if given is None:
        return None
    document = {
        **{
            name: value
            for name, value in deployment.document.items()
            if name != "outputs"
        },
        **given,
        "id": f"{deployment.id}-failed",
        "inputs": _inputs(deployment, result),
    }
    parsed = metadata.parse(Document(source=deployment.source, content=[document]))
    return replace(
        parsed.deployments[0],
        key=f"{deployment.key}{FAILED_KEY}",
        where=f"on_failure of {deployment.name}",
        signatures=deployment.signatures,
        signed_configs=deployment.signed_configs,
    )


def _given(job: Job) -> Mapping[str, object] | None:
    """Return the group, config and options of the follow-up; None if the deployment has none."""
    if job.on_failure is not None:
        own = {
            name: value
            for name, value in job.config.options.items()
            # an executable hook may use an option of that name for something else
            if name in _KEPT and (job.tool.builtin or name not in ("user", "isolate"))
        }
        if job.on_failure.timeout is not None:
            own["timeout"] = job.on_failure.timeout
        script = job.on_failure.script.replace("\r\n", "\n")
        return {"group": "script", "config": script, "options": own}
    if job.deployment.group != COMPONENT or FAILED not in selection.actions(
        job.deployment
    ):
        return None
    return {}


def _inputs(deployment: Deployment, result: Result) -> list[dict[str, object]]:
    """Return the inputs of a follow-up: those of the deployment, and the facts about its failure."""
    facts: dict[str, object] = {
        name: _bounded(value, at_end=name != REASON)
        for name, value in (
            *result.values.items(),
            (REASON, result.reason),
        )
    }
    facts.update(
        {
            "deploy_action": FAILED,
            FAILED_ACTION: deployment.action,
            "deploy_signal_transport": "NO_SIGNAL",
        }
    )
    given = deployment.document.get("inputs")
    kept = [
        dict(item)
        for item in (given if isinstance(given, list) else ())
        if isinstance(item, Mapping)
        and item.get("name") not in facts
        and not str(item.get("name")).startswith("deploy_signal_")
    ]
    return [
        *kept,
        *(
            {"name": name, "type": "String", "value": value}
            for name, value in facts.items()
        ),
    ]


def _bounded(value: object, *, at_end: bool) -> str:
    """Return a value as text, of which the end or the beginning is kept."""
    text = str(protocol.as_text(value))
    if len(text) <= BOUND:
        return text
    return text[-BOUND:] if at_end else text[:BOUND]


def due(
    entries: Mapping[str, Entry], current: Collection[str]
) -> list[tuple[Entry, str]]:
    """Return the follow-ups that have not ended, each with the key of its deployment.

    One whose deployment still runs was put on record with a result that a power cut has taken: it is made again.
    `current` are keys of deployments that are planned already.
    """
    unfinished = []
    for entry in entries.values():
        if (
            entry.settled
            or not entry.key.endswith(FAILED_KEY)
            or entry.key in current
            or not entry.document
        ):
            continue
        key = entry.key.removesuffix(FAILED_KEY)
        before = entries.get(key)
        if before is None or before.state is not State.RUNNING:
            unfinished.append((entry, key))
    return unfinished
