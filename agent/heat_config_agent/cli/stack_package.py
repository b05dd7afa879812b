"""The package `heat_config_stack`, as the agent knows it: the commands that it adds, and what other commands ask of it.

Nothing else of the agent names that package. It is loaded when one of its commands runs, when a file is a template, or
when there is a stack to look at; the agent carries out documents without it.
"""

from __future__ import annotations

TYPE_CHECKING = False  # as typing has it, which takes long to load
if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence
    from pathlib import Path
    from types import SimpleNamespace

    from heat_config_agent.settings.effective import Settings
    from heat_config_agent.state.followed import Followed
    from heat_config_stack.records.listing import Kept

COMMANDS = {
    "policy": "heat_config_stack.cli.policy",
    "sign": "heat_config_stack.cli.sign",
    "follow": "heat_config_stack.cli.follow",
    "stack": "heat_config_stack.cli.stack.commands",
    "template": "heat_config_stack.cli.template",
}
"""Command → the module that declares it."""


def apply(
    settings: Settings,
    file: str,
    options: SimpleNamespace | argparse.Namespace,
    content: bytes | None,
) -> int:
    """Create or update the stack of a template, and return the exit code of `heat-config-apply`."""
    from heat_config_stack.cli.stack import operations  # noqa: PLC0415  # slow to load

    return operations.apply(settings, file, options, content)


def names(state: Path) -> Sequence[str]:
    """Return the names of the stacks in a state directory."""
    if not (state / "stacks").is_dir():  # most machines have no stacks
        return ()
    from heat_config_stack.records import listing  # noqa: PLC0415

    return listing.names(state)


def troubles(
    settings: Settings,
) -> tuple[dict[str, str], dict[str, str], dict[str, str]]:
    """Return three maps from stacks to sentences.

    The first says why a stack has failed, the second which command continues an interrupted one, and the third which
    deployments a person asked for again. A stack has failed if its last action has, or the last run of one of its
    workflows, if a DELETE that has failed in an earlier action is still due, or if its records are damaged.
    """
    reasons: dict[str, str] = {}
    unfinished: dict[str, str] = {}
    asked: dict[str, str] = {}
    for name in names(settings.state):
        stack = kept(settings.state, name)
        if stack is None or stack.blank:
            continue
        if stack.asked:
            from heat_config_stack.cli.stack import values  # noqa: PLC0415  # slow to load

            asked[name] = values.repeated(settings, stack)
        if stack.record is None:
            reasons[name] = f"its records cannot be read: {stack.trouble}"
        elif stack.record.status == "FAILED":
            from heat_config_stack.cli.stack import sessions  # noqa: PLC0415  # slow to load

            reasons[name] = sessions.why_failed(settings, name)
        elif sentence := interrupted(settings, stack):
            unfinished[name] = sentence
        elif stack.workflows or stack.left:
            told = [
                f"the workflow {each} has failed: {why}"
                for each, why in stack.workflows
            ]
            if stack.left:
                from heat_config_stack.cli.stack import sessions  # noqa: PLC0415  # slow to load

                told.append(sessions.why_left(settings, name, stack.left))
            reasons[name] = "; ".join(told)
    return reasons, unfinished, asked


def followed_records(settings: Settings, names: Sequence[str] = ()) -> list[Followed]:
    """Return the records of sources that are or were followed, each compared with the machine as it is now.

    A section whose source was never asked has an empty record.
    """
    if not settings.followed and not (settings.state / "follow").is_dir():
        # most machines follow nothing
        return []
    from heat_config_agent.state import followed, health  # noqa: PLC0415
    from heat_config_hooks.values import replace  # noqa: PLC0415
    from heat_config_stack.follow import in_step  # noqa: PLC0415

    told = followed.with_troubles(
        followed.records(settings.state), health.unrecorded(settings.state)
    )
    known = {each.name for each in told}
    told += [
        followed.Followed(name=each) for each in settings.followed if each not in known
    ]
    records = [each for each in told if not names or each.name in names]
    return [
        replace(each, drift=in_step.drift(settings.state, each)) for each in records
    ]


def records_file(state: Path, name: str) -> Path:
    """Return the file with the records of a stack, which changes with its state. Raises UsageError for a bad name."""
    from heat_config_stack.records import listing, store  # noqa: PLC0415

    return listing.folder(state, name) / store.FILE


def kept(state: Path, name: str) -> Kept | None:
    """Return the record of a stack, also while another process works on it; None if there is no such stack."""
    from heat_config_stack.records import listing  # noqa: PLC0415

    return listing.kept(state, name)


def interrupted(settings: Settings, stack: Kept) -> str:
    """Return that the action of a stack was interrupted, and which command continues it; empty if it was not."""
    if stack.record is None or stack.record.status != "IN_PROGRESS":
        return ""
    from heat_config_stack.cli.stack import values  # noqa: PLC0415  # slow to load

    return values.interrupted(settings, stack.record)


def deployments(settings: Settings) -> Sequence[tuple[str, Path, str]]:
    """Return `STACK/RESOURCE`, the folder of its journal and its id, of each deployment of all stacks."""
    if not names(settings.state):
        return ()
    from heat_config_stack.cli.stack import sessions  # noqa: PLC0415

    return sessions.all_deployments(settings)


def deployments_named(settings: Settings, resource: str) -> list[str]:
    """Return the deployments of all stacks whose resource has this name, each as `STACK/RESOURCE`."""
    titles = [title for title, _, _ in deployments(settings)]
    return [title for title in titles if title.rpartition("/")[2] == resource]


def run_again(settings: Settings, stack: str, deployment: str, *, as_new: bool) -> str:
    """Have a deployment of a stack run again in the stack's next action, and return how that is begun.

    With `as_new`, it counts as never made. Raises AgentError.
    """
    from heat_config_stack.cli.stack import operations  # noqa: PLC0415

    return operations.request_run(settings, stack, deployment, as_new=as_new)


def deployment_at(settings: Settings, stack: str, path: str) -> tuple[Path, str]:
    """Return the folder of the journal of a stack, and the id of its deployment that a resource's path names.

    Raises UsageError if there is no such stack or no such deployment.
    """
    from heat_config_stack.cli.stack import sessions  # noqa: PLC0415

    return sessions.deployment_at(settings, stack, path)
