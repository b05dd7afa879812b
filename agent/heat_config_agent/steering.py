"""Which sources are in use: as settings, documents and experience say.

What the machine itself says comes first, what Heat says overrules it once it works, and is kept then (`learned`). A
document that is partial, wrong or missing takes nothing away.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping

from heat_config_agent import configuration, kill_points, learned, sources, transports
from heat_config_agent.collection import Collection, Condition
from heat_config_agent.configuration import BOOT, LOCAL, TRANSPORTS, Layer
from heat_config_agent.documents import Documents
from heat_config_agent.learned import Learned
from heat_config_agent.model import Document
from heat_config_agent.polling import Schedule
from heat_config_agent.settings import Settings
from heat_config_agent.sources import Reach, Source
from heat_config_agent.transports import LIVE, Level, Way

LEAST = 0.1
"""Seconds between two polls, whatever anybody says."""


def schedule(given: Settings) -> Schedule:
    """Return how often sources are to be asked."""
    most = given.number("polling_interval")
    least = max(min(given.number("min_polling_interval"), most), LEAST)
    return Schedule(least=least, most=max(most, least), splay=given.number("splay"))


def base(given: Settings, held: Mapping[str, Document]) -> list[Layer]:
    """Return what the machine itself says, the first that counts first: `held` are the documents that it has."""
    made = [configuration.metadata(held[name].content, name) for name in (*BOOT, *LOCAL) if name in held]
    own = [configuration.merged(given.own, given.own[0].origin)] if given.own else []
    return [*own, *made, *([given.other] if given.other else [])]


def places(
    given: Settings, held: Mapping[str, Document], known: Learned | None, newest: Layer | None = None
) -> list[Layer]:
    """Return who may say something of transports, in the order in which they count.

    `known` is what was learned; `newest` is what the metadata says that has come in since.
    """
    machine = base(given, held)
    trusted = known is not None and known.under == learned.digest(machine)
    return [
        newest or Layer("the metadata", {}),
        *([known.layer] if known and trusted else []),
        *machine,
        *([known.layer] if known and not trusted else []),
    ]


Make = Callable[[str, Mapping[str, object], Reach, Callable[[], None]], Source]
"""What makes a source: as `sources.make` does."""


class Steering:
    """Decides which sources a collection asks."""

    def __init__(
        self,
        given: Settings,
        documents: Documents,
        collection: Collection,
        *,
        make: Make = sources.make,
        change: bool = True,
    ) -> None:
        """Begin with what is on the machine. Without `change`, nothing there is changed."""
        self._documents = documents
        self._collection = collection
        self._make = make
        self._change = change
        self._lookout: Way | None = None
        """A way that is only asked, and seldom, whether Heat has moved on: see `transports.LIVE`."""
        self._newest: Layer | None = None
        """What the metadata says that has come in since the start, or since the settings were read again."""
        self._learned, trouble = learned.load(given.state, change=change)
        self._teacher = self._learned.teacher if self._learned else None
        held = max((name for name in TRANSPORTS if name in documents.held), key=documents.at.__getitem__, default="")
        if held and (self._learned is None or self._learned.under == learned.digest(base(given, documents.held))):
            self._newest = configuration.metadata(documents.held[held].content, f"the metadata from {held}")
        self._told: set[str] = set()
        self.settings = given
        self.news: list[str] = [trouble] if trouble else []
        """What people should be told; whoever tells it takes it away."""
        self.reload(given)

    def reload(self, given: Settings) -> None:
        """Go by these settings from here on."""
        held = self._documents.held
        if base(given, held) != base(self.settings, held):
            self._newest = None  # somebody wants something else than what the metadata has said
        self._given = given
        self._apply()

    def learn(self, key: Hashable, document: Document) -> None:
        """Take in what a document of a transport says about settings."""
        if isinstance(key, Way) and key.transport in LIVE:
            self._teacher = key
        layer = configuration.metadata(document.content, f"the metadata from {document.source}")
        self._tell(f"{layer.origin}: {each}" for each in layer.mistakes)
        self._newest = layer
        self._apply()

    def only_points_on(self, key: Hashable, document: Document) -> bool:
        """Whether a document is of an older place, and says where the metadata is now.

        It is known there, and merely away perhaps: what the older place has of deployments may be old, too.
        """
        if not isinstance(key, Way) or self._learned is None:
            return False
        if key == self._lookout:
            return True
        named = transports.level(configuration.metadata(document.content, ""), self._given.only).ways
        known = transports.level(self._learned.layer, self._given.only).ways
        conditions = self._collection.conditions()
        denied = any(way in conditions and conditions[way].denied for way in named)
        return bool(named) and key not in named and all(way in known for way in named) and not denied

    def steer(self, *, now: bool = False) -> bool:
        """Have the collection ask those sources that are to be asked now; return whether a document counts no more."""
        conditions = self._collection.conditions()
        found = self.levels
        ways = transports.in_use(found, lambda way: _failed(conditions.get(way)))
        self._tell(trouble for each in found for trouble in each.troubles)
        self._adopt(found[0], conditions)
        works = any(_works(conditions.get(way)) for way in ways)
        wanted: dict[Hashable, tuple[str, Callable[[Callable[[], None]], Source]]] = {}
        for way in ways:
            wanted[way] = (way.transport, self._maker(way.transport, way.values))
        for name in (*BOOT, *LOCAL):
            condition = conditions.get(name)
            enough = name in BOOT and works and (condition is None or condition.working is not None)
            if self._is_chosen(name) and not enough:
                wanted[name] = (name, self._maker(name, self.settings.section(name)))
        self._lookout = None
        if self._teacher and self._teacher not in ways and not any(way.transport in LIVE for way in ways) and works:
            self._lookout = self._teacher
            name = self._lookout.transport
            wanted[self._lookout] = (name, self._maker(name, self._lookout.values))
        self._collection.use(wanted, now=now, seldom=self._lookout)
        held = self._documents.held
        moved = any(_works(conditions.get(way)) and way.transport in held for way in ways)
        left = [name for name in held if name in TRANSPORTS and moved and name not in {way.transport for way in ways}]
        left += [name for name in held if name in LOCAL and name not in wanted]
        for name in left:
            self._documents.drop(name)
        return bool(left)

    @property
    def levels(self) -> list[Level]:
        """What each place says of transports, in the order in which they count."""
        order = places(self._given, self._documents.held, self._learned, self._newest)
        return [transports.level(each, self._given.only) for each in order]

    @property
    def used(self) -> set[str]:
        """The names of the sources in use."""
        return {each.name for each in self._collection.conditions().values() if not each.seldom}

    def _apply(self) -> None:
        said = self._newest or (self._learned.layer if self._learned else None)
        self.settings = self._given.with_metadata(said) if said else self._given
        self._collection.schedule = schedule(self.settings)

    def _reach(self) -> Reach:
        return Reach(ca_file=self.settings.ca_file, seconds=self.settings.number("collect_timeout"))

    def _maker(self, name: str, values: Mapping[str, object]) -> Callable[[Callable[[], None]], Source]:
        make, reach = self._make, self._reach()
        return lambda ring: make(name, values, reach, ring)

    def _adopt(self, newest: Level, conditions: Mapping[Hashable, Condition]) -> None:
        """Keep what the metadata says once all its ways have been seen to work."""
        if self._newest is None or not newest.ways or not all(_works(conditions.get(way)) for way in newest.ways):
            return
        if not self._change:
            return
        under = learned.digest(base(self._given, self._documents.held))
        new = (self._newest.sections, under, self._teacher)
        if self._learned and (self._learned.layer.sections, self._learned.under, self._learned.teacher) == new:
            return
        try:
            self._learned = learned.save(self._given.state, self._newest, under, self._teacher)
            kill_points.reached("loop.learned")
        except OSError as error:
            self._tell([f"cannot keep what the metadata says of the agent's settings: {error.strerror}"])

    def _is_chosen(self, name: str) -> bool:
        """Whether a source that is no transport is to be asked, if it is needed."""
        chosen = self.settings.found("agent", "collectors")[0]
        named = self._given.only if name != "local" else chosen  # what the metadata says is about what it replaces
        if name == "file" and not self.settings.section("file")["path"]:
            return False
        if name == "ec2" and not named:
            from heat_config_agent.sources.ec2 import is_likely  # noqa: PLC0415  # only what is used is loaded

            return is_likely()
        return not named or (isinstance(named, tuple) and name in named)

    def _tell(self, texts: Iterable[str]) -> None:
        for text in texts:
            if text not in self._told:
                self._told.add(text)
                self.news.append(text)


def _failed(condition: Condition | None) -> bool:
    """Whether a way is not to be relied on: it does not work, and has not worked, or no longer may be used."""
    return condition is not None and condition.working is False and not condition.ever


def _works(condition: Condition | None) -> bool:
    return condition is not None and condition.ever


def describe(key: Hashable) -> str:
    """Return where the settings of a source in use come from."""
    return key.origin if isinstance(key, Way) else ""
