"""By which transports, and as whom, to ask Heat for the metadata. Pure.

Several places may say it: the metadata itself (newer credentials, another transport), what was learned from it before,
the agent's own settings, what the instance was given when it was made, os-collect-config's settings. The newest counts;
but until it has been seen to work, the next one is used beside it, and so on down: what works is never given up for
what does not, and what an older place says is there again when a newer one turns out to be no longer good.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence

from heat_config_agent.configuration import TRANSPORTS, Layer, defaults, incomplete
from heat_config_hooks.values import dataclass, field

LIVE = ("heat", "cfn")
"""The transports that show what Heat has. The others show what Heat has put somewhere, and nobody is told there when it
puts it elsewhere from then on."""


@dataclass(frozen=True)
class Way:
    """A transport, and all that its source has to know. Two of the same values are the same way, whoever says it."""

    transport: str
    key: str = field(repr=False)
    """The values in one text: a secret."""
    values: Mapping[str, object] = field(compare=False, repr=False)
    origin: str = field(compare=False)


@dataclass(frozen=True)
class Level:
    """What one place says: the ways that it names, of which all are to be used."""

    origin: str
    ways: tuple[Way, ...]
    troubles: tuple[str, ...] = ()
    """Why it does not name more, for people."""


def level(said: Layer, only: Sequence[str] = ()) -> Level:
    """Return the ways that a place names.

    A transport is passed over that the place's own `collectors` leave out, or `only`, which the administrator says.
    """
    named = said.get("agent", "collectors")
    ways: list[Way] = []
    troubles: list[str] = []
    for transport in TRANSPORTS:
        values = said.sections.get(transport, {})
        wanted = not isinstance(named, tuple) or not named or transport in named
        if not values or not wanted or (only and transport not in only):
            continue
        missing = incomplete(transport, values)
        if missing:
            troubles.append(f"{said.origin} says too little about {transport}: {', '.join(missing)} missing")
            continue
        full = {**defaults(transport), **values}
        ways.append(Way(transport, json.dumps(full, sort_keys=True), full, said.origin))
    return Level(said.origin, tuple(ways), tuple(troubles))


def in_use(levels: Iterable[Level], failed: Callable[[Way], bool]) -> list[Way]:
    """Return the ways to use now: the newest level's, and those of the next while one before it does not work."""
    found: dict[Way, Way] = {}
    for each in levels:
        found.update((way, way) for way in each.ways if way not in found)
        if each.ways and not any(failed(way) for way in each.ways):
            break
    return list(found)
