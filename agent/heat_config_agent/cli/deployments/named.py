"""Deployments by the names that people give them, in every journal of a state directory.

A name is looked up in the journal of the agent, in those of followed documents (`NAME/DEPLOYMENT`), and in those of
stacks (`STACK/RESOURCE`). An id, a name or a resource that is given in full counts before the beginning of an id.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from heat_config_agent.cli import stack_package
from heat_config_agent.deployments import plan
from heat_config_agent.model.entry import Entry
from heat_config_agent.model.errors import AgentError, UsageError
from heat_config_agent.settings import effective
from heat_config_agent.settings.effective import Settings
from heat_config_agent.state import followed, journal
from heat_config_hooks.values import dataclass

_SHOWN = 5
"""Number of candidates that a message lists."""


@dataclass(frozen=True, kw_only=True)
class Named:
    """A deployment that was named."""

    entry: Entry
    title: str
    """Its full name, which every command takes."""
    settings: Settings
    """The settings with the state directory whose journal has the deployment."""
    follows: str = ""
    """The name of the source whose document has it; empty if it is of none."""
    stack: str = ""
    """The stack that it is of; empty if it is of none."""
    deployment: str = ""
    """Its id in the stack, which is the same for all its actions."""
    same: tuple[Entry, ...] = ()
    """The entries of all its actions, oldest first; only its own if it was named by its id."""


def find(
    settings: Settings, argument: str, config: Path | None, *, newest: bool = False
) -> Named:
    """Return the one deployment that an argument names.

    Every action of a resource is a deployment of its own with the same name. Of those with one name, `newest` takes the
    newest; otherwise the only one that is still in the metadata is taken. `config` is the option `--config`. Raises
    AgentError if there is none, or if several are meant.
    """
    status = settings.command("status")
    if not argument:
        raise UsageError("the ID is empty", hint=f"`{status}` shows all of them")
    own = journal.read(settings.state)
    if any(_matches(own, argument)[:3]):
        return _own(settings, own, argument, newest=newest)
    documents = {
        name: journal.read(place) for name, place in followed.documents(settings.state)
    }
    source, slash, rest = argument.partition("/")
    if slash and source in documents and any(_matches(documents[source], rest)):
        return _followed(
            settings, source, documents[source], rest, config, newest=newest
        )
    if slash and source in stack_package.names(settings.state):
        return _of_stack(settings, argument, config)
    if found := _elsewhere(settings, documents, argument, config, newest=newest):
        return found
    if _matches(own, argument)[3]:
        return _own(settings, own, argument, newest=newest)
    if found := _by_beginning(settings, documents, argument, config, newest=newest):
        return found
    raise _none(settings, argument, own, documents)


def _own(
    settings: Settings, entries: Mapping[str, Entry], wanted: str, *, newest: bool
) -> Named:
    entry = choose(entries, wanted, newest=newest)
    return Named(
        entry=entry,
        title=entry.title,
        settings=settings,
        same=_same(entries, wanted, entry),
    )


def _followed(
    settings: Settings,
    name: str,
    entries: Mapping[str, Entry],
    argument: str,
    config: Path | None,
    *,
    newest: bool,
) -> Named:
    entry = choose(entries, argument, newest=newest)
    place = followed.document(settings.state, name)
    return Named(
        entry=entry,
        title=f"{name}/{entry.title}",
        settings=effective.make(os.environ, config=config, state=place),
        follows=name,
        same=_same(entries, argument, entry),
    )


def _of_stack(settings: Settings, name: str, config: Path | None) -> Named:
    """Return the newest run of the deployment `STACK/RESOURCE`. Raises AgentError."""
    stack, _, path = name.partition("/")
    folder, deployment = stack_package.deployment_at(settings, stack, path)
    journaled = journal.read(folder).values()
    runs = [
        each
        for each in journaled
        if each.source.endswith(f"/{deployment}") or each.id == deployment
    ]
    if not runs:
        raise AgentError(f"nothing has run for {path} of the stack {stack}")
    runs.sort(key=lambda each: each.accepted)
    return Named(
        entry=runs[-1],
        title=name,
        settings=effective.make(os.environ, config=config, state=folder),
        stack=stack,
        deployment=deployment,
        same=tuple(runs),
    )


def _elsewhere(
    settings: Settings,
    documents: Mapping[str, Mapping[str, Entry]],
    argument: str,
    config: Path | None,
    *,
    newest: bool,
) -> Named | None:
    """Return the deployment of a followed document or of a stack that a name or an id without its source means."""
    having = [
        name
        for name, entries in documents.items()
        if any(_matches(entries, argument)[:3])
    ]
    titles = [
        f"{name}/{choose(documents[name], argument, newest=True).title}"
        for name in having
    ]
    titles += (
        [] if "/" in argument else stack_package.deployments_named(settings, argument)
    )
    if len(titles) > 1:
        raise AgentError(
            f"{argument!r} is more than one deployment: {', '.join(titles)}",
            hint="give one of these names",
        )
    if having:
        return _followed(
            settings, having[0], documents[having[0]], argument, config, newest=newest
        )
    return _of_stack(settings, titles[0], config) if titles else None


def _by_beginning(
    settings: Settings,
    documents: Mapping[str, Mapping[str, Entry]],
    prefix: str,
    config: Path | None,
    *,
    newest: bool,
) -> Named | None:
    """Return the one deployment of a followed document or of a stack whose id begins so, or is this."""
    sources = {
        (name, each.title): name
        for name, entries in documents.items()
        for each in _matches(entries, prefix)[3]
    }
    of_stacks = {
        title
        for title, folder, deployment in stack_package.deployments(settings)
        for each in journal.read(folder).values()
        if each.source.endswith(f"/{deployment}")
        and prefix in (each.id[: len(prefix)], each.key[: len(prefix)])
    }
    if len(sources) + len(of_stacks) > 1:
        titles = sorted({*(f"{name}/{title}" for name, title in sources), *of_stacks})[
            :_SHOWN
        ]
        raise AgentError(
            f"{prefix!r} is more than one deployment: {', '.join(titles)}",
            hint="give one of these names",
        )
    for name in sources.values():
        return _followed(settings, name, documents[name], prefix, config, newest=newest)
    return next((_of_stack(settings, title, config) for title in of_stacks), None)


def _none(
    settings: Settings,
    name: str,
    own: Mapping[str, Entry],
    documents: Mapping[str, Mapping[str, Entry]],
) -> AgentError:
    """Return the error that no deployment has a name."""
    status = settings.command("status")
    if not own and not documents:
        from heat_config_agent.state import agents  # noqa: PLC0415  # only after a mistake

        if elsewhere := agents.hint(
            settings.state, settings.options, os.environ, "status"
        ):
            return AgentError(
                f"no deployment {name!r} in {settings.state}", hint=elsewhere
            )
    from heat_config_agent.diagnostics.words import meant  # noqa: PLC0415  # only after a mistake

    titles = {
        *_titles(own, documents),
        *(title for title, _, _ in stack_package.deployments(settings)),
    }
    hint = meant(name, sorted(titles)) or f"`{status}` shows all of them"
    if inner := sorted(title for title in titles if title.startswith(f"{name}/")):
        kind = "source" if name in documents else "stack"
        hint = f"name one of it: {', '.join(inner[:_SHOWN])}"
        return AgentError(f"{name} is a {kind}, and not a deployment", hint=hint)
    source, slash, _ = name.partition("/")
    if slash and source not in documents:
        known = sorted({*documents, *stack_package.names(settings.state)})
        hint = meant(name, sorted(titles)) or meant(source, known) or hint
        return UsageError(
            f"there is no stack {source}, and no followed document of this name",
            hint=hint,
        )
    return AgentError(f"no deployment {name!r} in {settings.state}", hint=hint)


def _titles(
    own: Mapping[str, Entry], documents: Mapping[str, Mapping[str, Entry]]
) -> Iterator[str]:
    yield from (each.title for each in own.values())
    for name, entries in documents.items():
        yield from (f"{name}/{each.title}" for each in entries.values())


def choose(entries: Mapping[str, Entry], name: str, *, newest: bool) -> Entry:
    """Return the one deployment of a journal with that id, name, resource, or beginning of an id. Raises AgentError."""
    by_id, by_name, by_resource, begun = _matches(entries, name)
    for matches in (by_id, by_name, by_resource, begun):
        current = [entry for entry in matches if entry.left_at is None]
        is_named = matches is by_name or matches is by_resource
        if len(matches) == 1 or (newest and matches and is_named):
            return max(matches, key=lambda entry: entry.accepted)
        if len(current) == 1 and is_named:
            return current[0]
        if matches:
            ids = [entry.id or entry.key for entry in matches]
            unique = len(set(ids)) == len(ids)
            shown = [
                f"{(entry.id if unique else '') or entry.key} ({entry.action or '-'}, {plan.clock(entry.accepted)})"
                for entry in sorted(matches, key=lambda entry: entry.accepted)
            ]
            more = f" and {len(shown) - _SHOWN} more" if len(shown) > _SHOWN else ""
            raise AgentError(
                f"{name!r} is more than one deployment: {', '.join(shown[:_SHOWN])}{more}",
                hint="give more of the id",
            )
    raise AgentError(f"no deployment {name!r}")


def _same(
    entries: Mapping[str, Entry], wanted: str, chosen: Entry
) -> tuple[Entry, ...]:
    """Return the entries that are actions of the same deployment as the chosen one, of those that an argument names.

    Heat names a deployment after its config, which several may share: they differ in their resource.
    """
    same = [
        each
        for each in matching(entries, wanted)
        if (each.owner, each.title) == (chosen.owner, chosen.title)
    ]
    return tuple(sorted(same, key=lambda each: each.accepted))


def matching(entries: Mapping[str, Entry], wanted: str) -> list[Entry]:
    """Return all deployments that an argument names: by id, else by name, by resource, or by the beginning of an id."""
    return next((matches for matches in _matches(entries, wanted) if matches), [])


def _matches(
    entries: Mapping[str, Entry], argument: str
) -> tuple[list[Entry], list[Entry], list[Entry], list[Entry]]:
    """Return the deployments with that id, with that name, of that resource, and with an id that begins so."""
    every = list(entries.values())
    return (
        [entries[argument]]
        if argument in entries
        else [each for each in every if each.id == argument],
        [each for each in every if argument in (each.name, each.given_name)],
        [
            each
            for each in every
            if each.title == argument or each.owner.endswith(f"/{argument}")
        ],
        [
            each
            for each in every
            if each.id.startswith(argument) or each.key.startswith(argument)
        ],
    )
