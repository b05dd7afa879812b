"""Everything on this machine that has a name or an id: deployments, stacks, their resources, and sources.

A command takes everything that a list shows: a name, a resource, `STACK/RESOURCE`, `SOURCE/DEPLOYMENT`, an id, and the
beginning of an id. Names and ids that are given in full count before beginnings. A command that reads takes the newest
deployment of several, and says so; a command that changes something refuses.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from heat_config_agent.cli import stack_package, terminal
from heat_config_agent.model.entry import Entry
from heat_config_agent.model.errors import AmbiguousError, NotFoundError, UsageError
from heat_config_agent.settings import effective
from heat_config_agent.settings.effective import Settings
from heat_config_agent.state import followed, health, journal
from heat_config_hooks.values import dataclass, replace

SHORTEST = 8
"""The least number of characters of the beginning of an id."""

_OF_STACK = "stack:"
"""The beginning of the source of a deployment of a stack: a host has it in a journal without that stack."""

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

    @property
    def kind(self) -> str:
        """The noun for it."""
        return "deployment"


@dataclass(frozen=True, kw_only=True)
class NamedPlace:
    """A stack, a resource that is not a deployment, or a source that was named."""

    kind: str
    """The noun for it: stack, resource or source."""
    name: str
    """Its name; of a resource, its path in the stack."""
    settings: Settings
    """The settings with the state directory of the agent."""
    id: str = ""
    """The id of a stack, the physical id of a resource; empty where there is none."""
    stack: str = ""
    """The stack that a resource is of."""
    is_followed: bool = False
    """True for a source that is followed: the others are where the agent has its own documents from."""

    @property
    def title(self) -> str:
        """Its full name, which every command takes."""
        return f"{self.stack}/{self.name}" if self.stack else self.name


@dataclass(frozen=True, kw_only=True)
class _Candidate:
    """A thing that a name may mean."""

    kind: str
    title: str
    id: str = ""
    entries: tuple[Entry, ...] = ()
    """The deployments of one journal that the name means, oldest first."""
    follows: str = ""
    stack: str = ""
    deployment: str = ""
    is_followed: bool = False
    by_id: bool = False
    """True if the argument is the id."""

    @property
    def in_force(self) -> tuple[Entry, ...]:
        """The deployments that their document still has, or else all of them."""
        return tuple(each for each in self.entries if each.left_at is None) or tuple(
            self.entries
        )

    @property
    def described(self) -> list[str]:
        """Words that tell it from the other candidates: a name or an id that a command takes, and what it is."""
        if self.kind != "deployment":
            return [f"{self.title} ({self.kind}{f' {self.id}' if self.id else ''})"]
        if self.stack or self.deployment or (self.follows and len(self.in_force) == 1):
            return [self.title]
        ids = [each.id or each.key for each in self.in_force]
        unique = len(set(ids)) == len(ids)
        return [
            f"{(each.id if unique else '') or each.key} ({each.action or '-'}, {terminal.moment(each.accepted)})"
            for each in self.in_force
        ]


def find(
    settings: Settings, argument: str, config: Path | None, *, newest: bool = False
) -> Named:
    """Return the one deployment that an argument names, see `find_any`. Raises NotFoundError for anything else."""
    thing = find_any(settings, argument, config, newest=newest)
    if isinstance(thing, Named):
        return thing
    inner = [each.title for each in members(thing, config)]
    hint = f"name one of it: {listed(inner)}" if inner else ""
    raise NotFoundError(
        f"{thing.title} is a {thing.kind}, and not a deployment",
        hint=hint,
        subject=("deployment", argument),
    )


def find_any(
    settings: Settings,
    argument: str,
    config: Path | None,
    *,
    newest: bool = False,
    quiet: bool = False,
    action: str = "",
) -> Named | NamedPlace:
    """Return the thing that an argument names.

    Every action of a resource is a deployment of its own with the same name, and so are deployments of one name in
    several documents. Of several, `newest` takes the newest deployment, or a stack or a source if there is none, and
    prints a note about it unless `quiet`; otherwise the only one that its document still has is taken. `config` is the
    option `--config`. With an `action`, the deployments of others do not count. Raises NotFoundError if there is none,
    and AmbiguousError if several are meant.
    """
    if not argument:
        status = settings.command("status")
        raise UsageError("the NAME is empty", hint=f"`{status}` shows all of them")
    search = _Search(settings, action)
    found = search.full(argument) or search.begun(argument)
    if not found:
        raise search.missing(argument)
    chosen, entry = _newest(found) if newest else _only(argument, found)
    target = (
        _place(settings, chosen)
        if entry is None
        else _deployment(settings, config, chosen, entry)
    )
    if newest and not quiet:
        _note(argument, found, target)
    return target


def _newest(found: Sequence[_Candidate]) -> tuple[_Candidate, Entry | None]:
    """Return the newest deployment of some candidates, or else the first of them."""
    deployments = [(each, entry) for each in found for entry in each.entries[-1:]]
    if deployments:
        return max(deployments, key=lambda pair: pair[1].accepted)
    return found[0], None


def _only(
    argument: str, found: Sequence[_Candidate]
) -> tuple[_Candidate, Entry | None]:
    """Return the only candidate. Raises AmbiguousError if there are several."""
    if len(found) == 1 and (found[0].stack or len(found[0].in_force) < 2):
        return found[0], next(reversed(found[0].in_force), None)
    raise AmbiguousError(
        f"{argument!r} is more than one {_kind(found)}: {listed(_described(found))}",
        hint="give one of these names or ids",
    )


def _note(
    argument: str, candidates: Sequence[_Candidate], target: Named | NamedPlace
) -> None:
    """Print that a name means several things, and which of them this is."""
    described = _described(candidates)
    if len(described) < 2:
        return
    this = f"{target.title} ({target.kind})"
    if isinstance(target, Named):
        inner = target.stack or target.follows
        this = f"{target.title if inner else target.entry.id or target.entry.key}, the newest deployment"
    terminal.note(
        f"{argument!r} is more than one {_kind(candidates)}: {listed(described)}; this is {this}"
    )


def _kind(found: Sequence[_Candidate]) -> str:
    kinds = {each.kind for each in found}
    return kinds.pop() if len(kinds) == 1 else "thing"


def _described(found: Sequence[_Candidate]) -> list[str]:
    return [words for each in found for words in each.described]


def listed(words: Sequence[str]) -> str:
    """Return the first of some names, and how many there are more."""
    more = f" and {len(words) - _SHOWN} more" if len(words) > _SHOWN else ""
    return ", ".join(words[:_SHOWN]) + more


def _place(settings: Settings, chosen: _Candidate) -> NamedPlace:
    """Return a candidate that has not run, or never does."""
    is_inner = bool(chosen.stack)
    return NamedPlace(
        kind="resource" if is_inner else chosen.kind,
        name=chosen.title.partition("/")[2] if is_inner else chosen.title,
        settings=settings,
        id=chosen.id,
        stack=chosen.stack,
        is_followed=chosen.is_followed,
    )


def _inner(config: Path | None, state: Path) -> Settings:
    """Return the settings with a state directory inside; their mistakes have been told already."""
    return effective.make(os.environ, config=config, state=state, mistakes=[])


def _deployment(
    settings: Settings, config: Path | None, chosen: _Candidate, entry: Entry
) -> Named:
    """Return a deployment with the settings of its state directory."""
    if chosen.stack:
        state = stack_package.folder(settings.state, chosen.stack)
        return Named(
            entry=entry,
            title=chosen.title,
            settings=_inner(config, state),
            stack=chosen.stack,
            deployment=chosen.deployment,
            same=chosen.entries,
        )
    place, title = settings, entry.title
    if chosen.follows:
        state = followed.document(settings.state, chosen.follows)
        place = _inner(config, state)
        title = f"{chosen.follows}/{entry.title}"
    # Heat names a deployment after its config, which several may share: they differ in their resource.
    same = tuple(
        each
        for each in chosen.entries
        if (each.owner, each.title) == (entry.owner, entry.title)
    )
    return Named(
        entry=entry, title=title, settings=place, follows=chosen.follows, same=same
    )


def members(place: NamedPlace, config: Path | None) -> list[Named]:
    """Return the deployments of a thing in the order of lists, each with its last action.

    Those of a resource are the deployments of a nested stack, and the operations of a node of a service.
    """
    settings = place.settings
    if place.kind in ("stack", "resource"):
        stack = place.stack or place.name
        inner = _inner_of(place) if place.kind == "resource" else (f"{stack}/",)
        return [
            _deployment(settings, config, each, each.entries[-1])
            for each in _Search(settings).of_stacks()
            if each.stack == stack and each.entries and each.title.startswith(inner)
        ]
    follows = place.name if place.is_followed else ""
    state = followed.document(settings.state, follows) if follows else settings.state
    return [
        _deployment(settings, config, each, each.entries[-1])
        for entry in _in_order(journal.read(state).values())
        if entry.left_at is None and (follows or entry.source == place.name)
        for each in _candidates(follows, [entry])
    ]


def _inner_of(place: NamedPlace) -> tuple[str, ...]:
    """Return the prefixes of the names of all things inside a resource."""
    record = stack_package.resources(place.settings, place.stack).get(place.name)
    is_node = record is not None and record.type == "Service::Node"
    return (f"{place.title}/", *((f"{place.title}.",) if is_node else ()))


def by_journal(targets: Iterable[Named]) -> list[list[Named]]:
    """Return deployments in groups, one for each state directory whose journal has them."""
    groups: dict[Path, list[Named]] = {}
    for each in targets:
        groups.setdefault(each.settings.state, []).append(each)
    return list(groups.values())


class _Search:
    """A search in everything that the state directory of an agent has."""

    def __init__(self, settings: Settings, action: str = "") -> None:
        """Search in everything, or in deployments of one action and in stacks and sources."""
        self._settings, self._action = settings, action
        self._own = self._journal(settings.state)
        self._documents = {
            name: self._journal(place)
            for name, place in followed.documents(settings.state)
        }
        self._of_stacks: list[_Candidate] | None = None

    def _journal(self, state: Path) -> dict[str, Entry]:
        return {
            key: each
            for key, each in journal.read(state).items()
            if self._action in ("", each.action)
        }

    def of_stacks(self) -> list[_Candidate]:
        """Return the deployments of all stacks, each with the entries of all its actions."""
        if self._of_stacks is None:
            self._of_stacks = []
            journals: dict[Path, list[Entry]] = {}
            for title, folder, deployment in stack_package.deployments(self._settings):
                if folder not in journals:
                    journals[folder] = _in_order(self._journal(folder).values())
                runs = tuple(
                    each
                    for each in journals[folder]
                    if each.source.endswith(f"/{deployment}") or each.id == deployment
                )
                if self._action and not runs:
                    continue
                self._of_stacks.append(
                    _Candidate(
                        kind="deployment",
                        title=title,
                        id=deployment,
                        entries=runs,
                        stack=title.partition("/")[0],
                        deployment=deployment,
                    )
                )
        return self._of_stacks

    def full(self, argument: str) -> list[_Candidate]:
        """Return the things with this id; if there is none, those with this name."""
        return (
            self._by_id(argument)
            or self._by_path(argument)
            or self._by_name(argument)
            or [each for each in self._every_resource() if each.id == argument]
        )

    def begun(self, argument: str) -> list[_Candidate]:
        """Return the things with an id that begins so; none for too few characters."""
        if len(argument) < SHORTEST:
            return []
        return self._beginning(argument) or [
            each for each in self._every_resource() if each.id.startswith(argument)
        ]

    def _journals(self) -> Iterator[tuple[str, Mapping[str, Entry]]]:
        """Yield the journal of the agent and those of followed documents, each with the name of its source."""
        yield "", self._own
        yield from self._documents.items()

    def _by_id(self, argument: str) -> list[_Candidate]:
        candidates = []
        for follows, entries in self._journals():
            matches = (
                [entries[argument]]
                if argument in entries
                else [each for each in entries.values() if each.id == argument]
            )
            candidates += _candidates(follows, matches, by_id=True)
        if candidates:
            return candidates
        candidates = [
            _with_entry(each, argument, exact=True)
            for each in self.of_stacks()
            if each.id == argument
            or any(argument in (run.id, run.key) for run in each.entries)
        ]
        return candidates or [
            each for each in self._places() if each.id and each.id == argument
        ]

    def _by_path(self, argument: str) -> list[_Candidate]:
        """Return what SOURCE/DEPLOYMENT or STACK/RESOURCE names."""
        first, slash, rest = argument.partition("/")
        if not slash:
            return []
        if argument.startswith(_OF_STACK):
            runs = [each for each in self._own.values() if each.source == argument]
            ours = _candidates("", runs)
            return [replace(each, deployment=argument) for each in ours]
        candidates: list[_Candidate] = []
        if first in self._documents:
            matches = _named(self._documents[first], rest) or _begun(
                self._documents[first], rest
            )
            candidates += _candidates(first, matches)
        candidates += [each for each in self.of_stacks() if each.title == argument]
        if not candidates:
            candidates = [
                each for each in self._resources(first) if each.title == argument
            ]
        candidates += [] if candidates else self._failed_run(first, rest)
        # a name of the agent's own documents may have a slash too
        return candidates + _candidates("", _named(self._own, argument))

    def _failed_run(self, stack: str, identity: str) -> list[_Candidate]:
        """Return a run that failed before a rollback of a stack, by STACK/ID."""
        if stack not in stack_package.names(self._settings.state):
            return []
        folder = stack_package.folder(self._settings.state, stack)
        runs = [
            each
            for each in _in_order(self._journal(folder).values())
            if each.source.endswith(f"/{identity}") or each.id == identity
        ]
        return (
            [
                _Candidate(
                    kind="deployment",
                    title=f"{stack}/{identity}",
                    entries=tuple(runs),
                    stack=stack,
                    deployment=identity,
                )
            ]
            if runs
            else []
        )

    def _by_name(self, argument: str) -> list[_Candidate]:
        found = []
        for follows, entries in self._journals():
            found += _candidates(follows, _named(entries, argument))
        if "/" not in argument:
            found += [
                each
                for each in self.of_stacks()
                if each.title.rpartition("/")[2] == argument
            ]
        found += [each for each in self._places() if each.title == argument]
        return found

    def _beginning(self, argument: str) -> list[_Candidate]:
        candidates = []
        for follows, entries in self._journals():
            candidates += _candidates(follows, _begun(entries, argument, 1))
        candidates += [
            _with_entry(each, argument, exact=False)
            for each in self.of_stacks()
            if each.id.startswith(argument)
            or any(
                run.id.startswith(argument) or run.key.startswith(argument)
                for run in each.entries
            )
        ]
        return candidates + [
            each for each in self._places() if each.id.startswith(argument)
        ]

    def _places(self) -> list[_Candidate]:
        """Return the stacks, and the sources that are not those of a stack."""
        stacks = stack_package.stack_ids(self._settings)
        names = {name for name, _ in stacks}
        candidates = [
            _Candidate(
                kind="stack",
                title=name,
                id=identity,
                stack="",
                is_followed=name in self._settings.followed,
            )
            for name, identity in stacks
        ]
        sources = {*self._settings.followed, *followed.names(self._settings.state)}
        candidates += [
            _Candidate(kind="source", title=name, is_followed=True)
            for name in sorted(sources - names)
        ]
        own = {each.source for each in self._own.values()}
        asked = health.read(self._settings.state).get("sources")
        if isinstance(asked, list):
            own |= {str(each.get("name")) for each in asked if isinstance(each, dict)}
        own -= sources | names
        return candidates + [
            _Candidate(kind="source", title=name) for name in sorted(own)
        ]

    def _every_resource(self) -> Iterator[_Candidate]:
        """Yield the resources of all stacks that are not deployments."""
        for stack in stack_package.names(self._settings.state):
            yield from self._resources(stack)

    def _resources(self, stack: str) -> list[_Candidate]:
        """Return the resources of a stack that are not deployments; none if an action is meant."""
        if self._action:
            return []
        deployments = {each.title for each in self.of_stacks()}
        return [
            _Candidate(
                kind="resource",
                title=f"{stack}/{path}",
                id=record.physical or "",
                stack=stack,
            )
            for path, record in stack_package.resources(self._settings, stack).items()
            if f"{stack}/{path}" not in deployments
        ]

    def missing(self, name: str) -> NotFoundError:
        """Return the error that nothing has a name."""
        settings = self._settings
        status = settings.command("status")
        suffix = f" for {self._action}" if self._action else ""
        brief = f"there is no deployment, stack or source {name!r}{suffix} in {settings.state}"
        subject = ("deployment", name)
        if not self._own and not self._documents:
            from heat_config_agent.state import agents  # noqa: PLC0415  # only after a mistake

            if elsewhere := agents.hint(
                settings.state, settings.options, os.environ, "status"
            ):
                return NotFoundError(brief, hint=elsewhere, subject=subject)
        from heat_config_agent.diagnostics.words import meant  # noqa: PLC0415  # only after a mistake

        titles = sorted(set(self._titles()))
        source, slash, _ = name.partition("/")
        hint = ""
        if len(name) < SHORTEST and self._beginning(name):
            hint = f"the beginning of an id has {SHORTEST} characters or more"
        hint = hint or meant(name, titles)
        if not hint and slash:
            sources = {title.partition("/")[0] for title in titles if "/" in title}
            hint = meant(source, sorted(sources))
        return NotFoundError(
            brief, hint=hint or f"`{status}` shows all of them", subject=subject
        )

    def _titles(self) -> Iterator[str]:
        for follows, entries in self._journals():
            yield from (
                f"{follows}/{each.title}" if follows else each.title
                for each in entries.values()
            )
        yield from (each.title for each in self.of_stacks())
        yield from (each.title for each in self._places())


def _in_order(entries: Iterable[Entry]) -> list[Entry]:
    return sorted(entries, key=lambda entry: entry.accepted)


def _candidates(
    follows: str, matches: Sequence[Entry], *, by_id: bool = False
) -> list[_Candidate]:
    """Return the candidate of one journal: none, or one with all deployments that a name means."""
    if not matches:
        return []
    entries = tuple(_in_order(matches))
    title = entries[-1].title
    return [
        _Candidate(
            kind="deployment",
            title=f"{follows}/{title}" if follows else title,
            entries=entries,
            follows=follows,
            by_id=by_id,
        )
    ]


def _with_entry(candidate: _Candidate, argument: str, *, exact: bool) -> _Candidate:
    """Return a deployment of a stack with the action of the given id, or with all its actions if the id is of all."""
    runs = tuple(
        each
        for each in candidate.entries
        if (
            argument in (each.id, each.key)
            if exact
            else each.id.startswith(argument) or each.key.startswith(argument)
        )
    )
    is_whole = candidate.id == argument if exact else candidate.id.startswith(argument)
    return replace(candidate, entries=candidate.entries if is_whole else runs)


def matching(entries: Mapping[str, Entry], wanted: str) -> list[Entry]:
    """Return the deployments of a journal that an argument names: by id, name, resource, or beginning of an id."""
    by_id = (
        [entries[wanted]]
        if wanted in entries
        else [each for each in entries.values() if each.id == wanted]
    )
    return by_id or _named(entries, wanted) or _begun(entries, wanted)


def _named(entries: Mapping[str, Entry], argument: str) -> list[Entry]:
    """Return the deployments of a journal with that id, else with that name, else of that resource."""
    every = list(entries.values())
    return (
        [each for each in every if argument in (each.id, each.key)]
        or [each for each in every if argument in (each.name, each.given_name)]
        or [
            each
            for each in every
            if each.title == argument or each.owner.endswith(f"/{argument}")
        ]
    )


def _begun(
    entries: Mapping[str, Entry], argument: str, shortest: int = SHORTEST
) -> list[Entry]:
    """Return the deployments of a journal with an id that begins so; none for fewer characters."""
    if len(argument) < shortest:
        return []
    return [
        each
        for each in entries.values()
        if each.id.startswith(argument) or each.key.startswith(argument)
    ]
