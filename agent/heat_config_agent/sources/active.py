"""Selects the sources in use, from the settings, the documents, and the outcomes of polls.

The machine's own settings are used first. Heat's metadata overrides them once its transports work, and is kept then
(`sources.learned`). A document that is incomplete, wrong or missing disconnects nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping

from heat_config_agent import sources
from heat_config_agent.model.deployment import Document
from heat_config_agent.settings import layers
from heat_config_agent.settings.effective import Settings
from heat_config_agent.settings.layers import Layer
from heat_config_agent.settings.schema import BOOT, LOCAL, TRANSPORTS
from heat_config_agent.sources import learned, transports
from heat_config_agent.sources.base import Reach, Source
from heat_config_agent.sources.documents import Documents
from heat_config_agent.sources.learned import Learned
from heat_config_agent.sources.poller import Collection, Condition
from heat_config_agent.sources.schedule import Schedule
from heat_config_agent.sources.transports import LIVE, Level, Transport

LEAST = 0.1
"""The least number of seconds between two polls, with any settings."""


def schedule(settings: Settings) -> Schedule:
    """Return the schedule of the sources."""
    most = settings.number("polling_interval")
    least = max(min(settings.number("min_polling_interval"), most), LEAST)
    return Schedule(least=least, most=max(most, least), splay=settings.number("splay"))


def base(settings: Settings, held: Mapping[str, Document]) -> list[Layer]:
    """Return the machine's own settings of transports, in order of precedence. `held` are the documents it has."""
    documents = [
        layers.metadata(held[name].content, name)
        for name in (*BOOT, *LOCAL)
        if name in held
    ]
    own = [layers.merged(settings.own, settings.own[0].origin)] if settings.own else []
    return [*own, *documents, *([settings.other] if settings.other else [])]


def places(
    settings: Settings,
    held: Mapping[str, Document],
    learned_settings: Learned | None,
    newest: Layer | None = None,
) -> list[Layer]:
    """Return the places that can name transports, in order of precedence.

    `learned_settings` are the learned settings; `newest` are the settings in the metadata that has arrived since.
    """
    machine = base(settings, held)
    trusted = learned_settings is not None and learned_settings.under == learned.digest(
        machine
    )
    return [
        newest or Layer("the metadata", {}),
        *([learned_settings.layer] if learned_settings and trusted else []),
        *machine,
        *([learned_settings.layer] if learned_settings and not trusted else []),
    ]


Make = Callable[[str, Mapping[str, object], Reach, Callable[[], None]], Source]
"""A function that creates a source, such as `sources.make`."""


class Steering:
    """Selects the sources that a collection polls."""

    def __init__(
        self,
        settings: Settings,
        documents: Documents,
        collection: Collection,
        *,
        make: Make = sources.make,
        change: bool = True,
    ) -> None:
        """Begin with the settings and documents on the machine. Without `change`, nothing on disk is changed."""
        self._documents = documents
        self._collection = collection
        self._make = make
        self._change = change
        self._lookout: Transport | None = None
        """A live transport that is polled only from time to time, to see if Heat has moved the metadata: see
        `sources.transports.LIVE`."""
        self._newest: Layer | None = None
        """The settings in the metadata that has arrived since the start, or since the settings were read again."""
        self._learned, trouble = learned.load(settings.state, change=change)
        self._teacher = self._learned.teacher if self._learned else None
        held = max(
            (name for name in TRANSPORTS if name in documents.held),
            key=documents.at.__getitem__,
            default="",
        )
        if held and (
            self._learned is None
            or self._learned.under == learned.digest(base(settings, documents.held))
        ):
            self._newest = layers.metadata(
                documents.held[held].content, f"the metadata from {held}"
            )
        self._told: set[str] = set()
        self.settings = settings
        self.news: list[str] = [trouble] if trouble else []
        """Messages for people. The reader removes them."""
        self.reload(settings)

    def reload(self, settings: Settings) -> None:
        """Use these settings of the machine from here on."""
        held = self._documents.held
        if base(settings, held) != base(self.settings, held):
            self._newest = None  # someone has changed the settings after this metadata
        self._own = settings
        self._apply()

    def learn(self, key: Hashable, document: Document) -> None:
        """Use the settings in a document from a transport."""
        if isinstance(key, Transport) and key.name in LIVE:
            self._teacher = key
        layer = layers.metadata(
            document.content, f"the metadata from {document.source}"
        )
        self._tell(f"{layer.origin}: {mistake}" for mistake in layer.mistakes)
        self._newest = layer
        self._apply()

    def only_redirects(self, key: Hashable, document: Document) -> bool:
        """Return True if a document is from an older place, and says where the metadata is now.

        If its transports are known already, and perhaps merely away, the deployments in the document may be outdated.
        """
        if not isinstance(key, Transport) or self._learned is None:
            return False
        if key == self._lookout:
            return True
        named = transports.level(
            layers.metadata(document.content, ""), self._own.only
        ).transports
        known = transports.level(self._learned.layer, self._own.only).transports
        conditions = self._collection.conditions()
        denied = any(
            transport in conditions and conditions[transport].denied
            for transport in named
        )
        return (
            bool(named)
            and key not in named
            and all(transport in known for transport in named)
            and not denied
        )

    def steer(self, *, now: bool = False) -> bool:
        """Pass the sources in use to the collection; return True if a document does not count any more."""
        conditions = self._collection.conditions()
        levels = self.levels
        selected = transports.in_use(
            levels, lambda transport: _failed(conditions.get(transport))
        )
        self._tell(trouble for level in levels for trouble in level.troubles)
        self._adopt(levels[0], conditions)
        works = any(_works(conditions.get(transport)) for transport in selected)
        sources: dict[Hashable, tuple[str, Callable[[Callable[[], None]], Source]]] = {}
        for transport in selected:
            sources[transport] = (
                transport.name,
                self._maker(transport.name, transport.values),
            )
        for name in (*BOOT, *LOCAL):
            condition = conditions.get(name)
            enough = (
                name in BOOT
                and works
                and (condition is None or condition.working is not None)
            )
            if self._is_selected(name) and not enough:
                sources[name] = (name, self._maker(name, self.settings.section(name)))
        self._lookout = None
        if (
            self._teacher
            and self._teacher not in selected
            and not any(transport.name in LIVE for transport in selected)
            and works
        ):
            self._lookout = self._teacher
            name = self._lookout.name
            sources[self._lookout] = (name, self._maker(name, self._lookout.values))
        self._collection.use(sources, now=now, seldom=self._lookout)
        held = self._documents.held
        moved = any(
            _works(conditions.get(transport)) and transport.name in held
            for transport in selected
        )
        dropped = [
            name
            for name in held
            if name in TRANSPORTS
            and moved
            and name not in {transport.name for transport in selected}
        ]
        dropped += [name for name in held if name in LOCAL and name not in sources]
        for name in dropped:
            self._documents.drop(name)
        return bool(dropped)

    @property
    def levels(self) -> list[Level]:
        """The transports that each place names, in order of precedence."""
        order = places(self._own, self._documents.held, self._learned, self._newest)
        return [transports.level(place, self._own.only) for place in order]

    @property
    def used(self) -> set[str]:
        """The names of the sources in use."""
        return {
            condition.name
            for condition in self._collection.conditions().values()
            if not condition.seldom
        }

    def _apply(self) -> None:
        layer = self._newest or (self._learned.layer if self._learned else None)
        self.settings = self._own.with_metadata(layer) if layer else self._own
        self._collection.schedule = schedule(self.settings)

    def _reach(self) -> Reach:
        return Reach(
            ca_file=self.settings.ca_file,
            seconds=self.settings.number("collect_timeout"),
        )

    def _maker(
        self, name: str, values: Mapping[str, object]
    ) -> Callable[[Callable[[], None]], Source]:
        make, reach = self._make, self._reach()
        return lambda ring: make(name, values, reach, ring)

    def _adopt(self, newest: Level, conditions: Mapping[Hashable, Condition]) -> None:
        """Keep the settings of the metadata on disk once all its transports have been seen to work."""
        if (
            self._newest is None
            or not newest.transports
            or not all(
                _works(conditions.get(transport)) for transport in newest.transports
            )
        ):
            return
        if not self._change:
            return
        under = learned.digest(base(self._own, self._documents.held))
        new = (self._newest.sections, under, self._teacher)
        if (
            self._learned
            and (
                self._learned.layer.sections,
                self._learned.under,
                self._learned.teacher,
            )
            == new
        ):
            return
        try:
            self._learned = learned.save(
                self._own.state, self._newest, under, self._teacher
            )
        except OSError as error:
            self._tell(
                [f"cannot write the settings of the metadata to disk: {error.strerror}"]
            )

    def _is_selected(self, name: str) -> bool:
        """Return True if the settings select a source that is not a transport."""
        selected = self.settings.lookup("agent", "collectors")[0]
        # the metadata's `collectors` are about transports
        selection = self._own.only if name != "local" else selected
        if name == "file" and not self.settings.section("file")["path"]:
            return False
        if name == "ec2" and not selection:
            from heat_config_agent.sources.cloud.ec2 import is_likely  # noqa: PLC0415  # only if this source may be used

            return is_likely()
        return not selection or (isinstance(selection, tuple) and name in selection)

    def _tell(self, texts: Iterable[str]) -> None:
        for text in texts:
            if text not in self._told:
                self._told.add(text)
                self.news.append(text)


def _failed(condition: Condition | None) -> bool:
    """Return True if a transport fails and has not worked since it was last refused access."""
    return condition is not None and condition.working is False and not condition.ever


def _works(condition: Condition | None) -> bool:
    return condition is not None and condition.ever


def describe(key: Hashable) -> str:
    """Return the place that names a transport in use; empty for other sources."""
    return key.origin if isinstance(key, Transport) else ""
