"""Deployments that Heat replaces: the DELETE of the old one runs after the CREATE of the new one. Pure.

Heat creates the new resource before it deletes the old one. On the same machine the DELETE may undo what the CREATE has
done. A result by `HEAT_SIGNAL` or `CFN_SIGNAL` names its resource alone, so Heat may take the old one's result for the
new one's, and then waits for the old one until the stack times out.
"""

from __future__ import annotations

from collections.abc import Iterable

from heat_config_agent.deployments import plan, selection
from heat_config_agent.model.deployment import DELETE, Deployment
from heat_config_agent.model.entry import Entry, Removed
from heat_config_hooks.values import dataclass

PAGE = "«Heat has replaced a deployment» in docs/troubleshoot.md"
"""The section with the remedy."""

_BY_NAME = ("heat", "url")
"""The kinds of targets where Heat finds the deployment by the name of its resource."""


@dataclass(frozen=True, kw_only=True)
class Replacement:
    """A deployment that Heat replaces, or has replaced, by another one of the same resource."""

    old: Entry
    new: Entry
    is_by_name: bool
    """True if Heat may take the result of the old one for that of the new one."""

    @property
    def has_run(self) -> bool:
        """True if the DELETE of the old one has run."""
        return self.old.action == DELETE and self.old.ended is not None

    @property
    def is_over(self) -> bool:
        """True if Heat has removed the old one from the metadata."""
        return self.old.left_at is not None

    @property
    def sentence(self) -> str:
        """The sentence about what happens, or has happened."""
        verb, undone = (
            ("ran", "may have undone it") if self.has_run else ("runs", "may undo it")
        )
        deed = "has replaced" if self.is_over else "is replacing"
        text = (
            f"{self.new.title}: Heat {deed} it, and the DELETE of the old one {verb} after the {self.new.action} of "
            f"the new one: it {undone}"
        )
        if self.is_over:
            return text
        return (
            f"{text}; Heat may take its result for the new one's, and wait for the old one's"
            if self.is_by_name
            else text
        )

    @property
    def todo(self) -> str:
        """The command that frees the stack, and what it does, in one sentence."""
        again = f"check the machine, and heat-config-agent retry {self.new.id}"
        if self.is_over or not self.is_by_name:
            return f"{again} if something is missing: {PAGE}"
        number = (
            f", whose config is {self.old.id}," if self.old.action == DELETE else ""
        )
        return f"if the stack waits, set the status of the old deployment{number} to COMPLETE by Heat's API: {PAGE}"


def replacements(entries: Iterable[Entry]) -> list[Replacement]:
    """Return the replacements that concern deployments in the metadata, one for each resource.

    A deployment that has left the metadata counts if its DELETE ran after the new one was accepted.
    """
    resources: dict[str, list[Entry]] = {}
    for entry in entries:
        if (
            entry.owner not in ("", entry.name)
            and entry.removed is not Removed.ALL
            and not entry.is_follow_up
        ):
            resources.setdefault(entry.owner, []).append(entry)
    found = (_replacement(group) for group in resources.values() if len(group) > 1)
    return [each for each in found if each is not None]


def _replacement(entries: list[Entry]) -> Replacement | None:
    """Return the replacement of a resource with these entries; None if it was not replaced."""
    current = [
        entry for entry in entries if entry.left_at is None and entry.action != DELETE
    ]
    if not current:
        return None
    new = max(current, key=lambda entry: entry.accepted)
    deletes = [
        entry
        for entry in entries
        if entry.action == DELETE
        and (
            entry.left_at is None
            or (entry.started is not None and entry.accepted >= new.accepted)
        )
        and not (
            entry.ended is not None and entry.started is None
        )  # nothing was run for it
    ]
    others = [entry for entry in current if entry is not new and _has_delete(entry)]
    olds = deletes or others
    if not olds:
        return None
    old = max(olds, key=lambda entry: entry.accepted)
    return Replacement(old=old, new=new, is_by_name=_is_by_name(old))


def _has_delete(entry: Entry) -> bool:
    """Return True if a component has a config for DELETE. Of a plain deployment, the metadata does not say that."""
    deployment = _deployment(entry)
    return deployment is not None and DELETE in selection.actions(deployment)


def _is_by_name(entry: Entry) -> bool:
    """Return True if Heat finds the receiver of a result by its name; also if the journal has dropped the document."""
    deployment = _deployment(entry)
    return deployment is None or (
        deployment.target.kind in _BY_NAME and not deployment.target.is_temporary_url
    )


def _deployment(entry: Entry) -> Deployment | None:
    return plan.deployment_of(entry) if entry.document else None
