"""Deployments of servers: the configs derived for an action, and their results, by the rules of Heat's engine.

For each action, a config is derived from that of the deployment: with the values of the inputs, and with the address
for the result. The entries of a server's metadata are these configs, and `take` accepts the results.
"""

from __future__ import annotations

from collections.abc import Mapping

from heat_config_agent.model.positions import Json
from heat_config_hooks.reply import status_code
from heat_config_stack.lifecycle.live import Stack, World
from heat_config_stack.records import placing
from heat_config_stack.records.records import (
    CHECK,
    COMPLETE,
    DELETE,
    FAILED,
    IN_PROGRESS,
    RESUME,
    SNAPSHOT,
    SUSPEND,
    ConfigRecord,
    DeploymentRecord,
)
from heat_config_stack.records.store import Memory

NO_SIGNAL = "NO_SIGNAL"
STANDARD = ("deploy_stdout", "deploy_stderr", "deploy_status_code")
_WHERE: dict[str, tuple[tuple[str, str], ...]] = {
    "CFN_SIGNAL": (
        ("deploy_signal_id", "ID of signal to use for signaling output values"),
        ("deploy_signal_verb", "HTTP verb to use for signaling output values"),
    ),
    "HEAT_SIGNAL": (
        ("deploy_auth_url", "URL for API authentication"),
        ("deploy_username", "Username for API authentication"),
        ("deploy_user_id", "User ID for API authentication"),
        ("deploy_password", "Password for API authentication"),
        ("deploy_project_id", "ID of project for API authentication"),
        ("deploy_region_name", "Region name for API authentication"),
    ),
    NO_SIGNAL: (),
}
_WHERE["TEMP_URL_SIGNAL"] = _WHERE["CFN_SIGNAL"]
_WHERE["ZAQAR_SIGNAL"] = (
    *_WHERE["HEAT_SIGNAL"],
    ("deploy_queue_id", "ID of queue to use for signaling output values"),
)

_TURNS = (SUSPEND, RESUME, CHECK, SNAPSHOT)
"""The actions of a stack in which its definition stays."""

LOCAL = "-"
"""The address for results, where Heat has a URL: results go to the stack. It is too short to be masked in results."""


def key(deployment: str) -> tuple[str, str]:
    """Return the key that is woken when there is a result."""
    return ("deployment", deployment)


def inputs_of(
    config: ConfigRecord, values: Mapping[str, Json], facts: Mapping[str, Json]
) -> list[dict[str, Json]]:
    """Return the inputs of a derived config: declared inputs, undeclared values, and the agent's own (`facts`)."""
    rest = dict(values)  # the first of several inputs with one name gets the value
    inputs = [
        {**declared, "value": rest.pop(declared["name"], declared["default"])}
        for declared in config.inputs
    ]
    inputs += [
        {"name": name, "type": "String", "value": value} for name, value in rest.items()
    ]
    descriptions = [
        ("deploy_server_id", "ID of the server being deployed to"),
        ("deploy_action", "Name of the current action being deployed"),
        ("deploy_stack_id", "ID of the stack this deployment belongs to"),
        ("deploy_resource_name", "Name of this deployment resource in the stack"),
        (
            "deploy_signal_transport",
            "How the server should signal to heat with the deployment output values.",
        ),
        *_WHERE[str(facts["deploy_signal_transport"])],
    ]
    return inputs + [
        {
            "name": name,
            "type": "String",
            "description": about,
            "value": facts.get(name, LOCAL),
        }
        for name, about in descriptions
    ]


def deliver(
    world: World, deployment: DeploymentRecord, derived: ConfigRecord, *, signal: bool
) -> None:
    """Give a derived config to its server."""
    former = world.store.configs.get(deployment.config)
    world.store.put(derived)
    deployment.config = derived.id
    deployment.status = IN_PROGRESS if signal else COMPLETE
    deployment.reason = (
        "Deploy data available" if signal else "Not waiting for outputs signal"
    )
    world.store.put(deployment)
    if former is not None:
        world.store.drop(former)
    world.servers.deliver(deployment)


def remove(world: World, deployment: DeploymentRecord) -> None:
    """Remove a deployment from the metadata of its server."""
    former = world.store.configs.get(deployment.config)
    world.store.drop(deployment)
    if former is not None:
        world.store.drop(former)
    world.servers.withdraw(deployment)


def entries(world: World, server: str) -> list[dict[str, Json]]:
    """Return the `deployments` of a server's metadata, sorted by name."""
    configs = (
        world.store.configs.get(each.config)
        for each in world.store.deployments.values()
        if each.server == server
    )
    return sorted(
        (each.entry() for each in configs if each is not None),
        key=lambda entry: str(entry["name"]),
    )


def take(world: World, deployment: DeploymentRecord, details: Json) -> bool:
    """Accept the result of a deployment, and return whether the deployment waited for one.

    A result that is not a map is a failure.
    """
    config = world.store.configs.get(deployment.config)
    if deployment.status != IN_PROGRESS or config is None:
        return False
    if details and not isinstance(details, dict):  # the former outputs stay
        return _taken(world, deployment, ["the result is not a map"])
    details = details or {}
    reasons: list[str] = []
    code = details.get("deploy_status_code")
    if code and str(code) != "0":
        reasons.append(
            f"deploy_status_code : Deployment exited with non-zero status code: {code}"
        )
    for output in config.outputs:
        name = output["name"]
        if name in details:
            deployment.outputs[name] = details[name]
            if output["error_output"]:
                reasons.append(f"{name} : {details[name]}")
    for name in STANDARD:
        deployment.outputs[name] = details.get(name)
    return _taken(world, deployment, reasons)


def _taken(world: World, deployment: DeploymentRecord, reasons: list[str]) -> bool:
    """Record the end of a deployment, which has failed if there are reasons."""
    deployment.status = FAILED if reasons else COMPLETE
    deployment.reason = ", ".join(reasons) or "Outputs received"
    world.store.put(deployment)
    world.scheduler.wake(key(deployment.id))
    return True


def refuse(world: World, deployment: DeploymentRecord, sentence: str) -> None:
    """Fail a deployment that nothing carries out."""
    take(world, deployment, {"deploy_stderr": sentence, "deploy_status_code": 1})


def beside(
    world: World, deployment: DeploymentRecord
) -> list[tuple[DeploymentRecord, dict[str, Json]]]:
    """Return other deployments of the name or resource of a DELETE, whose work it has to spare, each with its entry."""
    store, own = world.store, world.store.configs.get(deployment.config)
    if deployment.action != DELETE or own is None:
        return []
    resource = store.resources[deployment.resource].name
    alike = []
    for other in store.deployments.values():
        config = store.configs.get(other.config)
        if other is deployment or config is None or other.status == IN_PROGRESS:
            continue
        there = store.resources.get(other.resource)
        same = there is not None and (other.stack, there.name) == (
            deployment.stack,
            resource,
        )
        if same or config.name == own.name:
            alike.append((other, config.entry()))
    return alike


def failed_last(root: Stack) -> list[DeploymentRecord]:
    """Return the deployments that failed in the last action of a stack, without earlier failures."""
    store = root.world.store
    failed = [
        each
        for each in store.deployments.values()
        if each.status == FAILED and each.config in store.configs
    ]
    if root.is_done_by_procedure(root.record.action):
        return failed
    return [each for each in failed if _took_part(store, each.resource)]


def runs_that_failed(root: Stack) -> list[Json]:
    """Return the path, the id and the standard error of each run that failed in the last action of a stack."""
    return [
        {
            "path": path_of(root.world.store, each.id),
            "id": each.config,
            "why": root.conceal.text(why(each)),
            "stderr": root.conceal.text(str(each.outputs.get("deploy_stderr") or "")),
        }
        for each in failed_last(root)
    ]


def path_of(store: Memory, deployment: str) -> str:
    """Return the path of the resource of a deployment; empty if it is not there."""
    record = store.deployments.get(deployment)
    return placing.path_to(store, record.resource) if record else ""


def why(deployment: DeploymentRecord) -> str:
    """Return why a deployment has failed: its exit code and the last line of its standard error, else Heat's reason."""
    from heat_config_agent.runs.result import exit_sentence  # noqa: PLC0415  # only after a failure

    code = status_code(deployment.outputs)
    return (
        exit_sentence(code, deployment.outputs.get("deploy_stderr"))
        if code
        else deployment.reason
    )


def _took_part(store: Memory, resource: str) -> bool:
    """Return whether the last action of a stack came to a resource, and to all resources that contain it."""
    while (record := store.resources.get(resource)) is not None:
        stack = store.stacks.get(record.stack)
        if stack is None or record.status != FAILED or record.passed != stack.attempt:
            return False
        if stack.action in _TURNS and record.action != stack.action:
            return False  # it was refused, because it had failed before
        resource = stack.owner
    return True
