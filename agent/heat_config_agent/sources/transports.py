"""Selects the transports, with their credentials, by which Heat is asked for the metadata. Pure.

Several places can name transports: the metadata itself (with newer credentials, or another transport), the settings
learned from it before, the agent's own settings, the sources that the instance has from its creation, and
os-collect-config's settings. The newest place counts; but until its transports have been seen to work, the next place
is used too, and so on. So a working transport is never given up for one that does not work, and an older place is used
again when a newer one stops working.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence

from heat_config_agent.settings.layers import Layer
from heat_config_agent.settings.schema import TRANSPORTS, defaults, incomplete
from heat_config_hooks.values import dataclass, field

LIVE = ("heat", "cfn")
"""The transports that ask Heat itself. The others read a copy of the metadata, and the copy does not say when Heat
begins to put the metadata elsewhere."""


@dataclass(frozen=True)
class Transport:
    """A transport with all settings of its source. Those with the same values are equal, also from different places."""

    name: str
    """One of `TRANSPORTS`."""
    key: str = field(repr=False)
    """The values as one text, which is a secret."""
    values: Mapping[str, object] = field(compare=False, repr=False)
    origin: str = field(compare=False)
    """The place that names the transport, for people."""


@dataclass(frozen=True)
class Level:
    """The transports that one place names, all of which are used."""

    origin: str
    """The place, for people."""
    transports: tuple[Transport, ...]
    troubles: tuple[str, ...] = ()
    """The reason why transports of the place cannot be used, for people."""


def level(layer: Layer, only: Sequence[str] = ()) -> Level:
    """Return the transports that a place names.

    A transport is left out if the place's own `collectors` do not name it, or if the administrator's, `only`, do not.
    """
    named = layer.get("agent", "collectors")
    transports: list[Transport] = []
    troubles: list[str] = []
    for name in TRANSPORTS:
        values = layer.sections.get(name, {})
        selected = not isinstance(named, tuple) or not named or name in named
        if not values or not selected or (only and name not in only):
            continue
        missing = incomplete(name, values)
        if missing:
            troubles.append(
                f"the settings of {name} in {layer.origin} are incomplete: add {', '.join(missing)}"
            )
            continue
        full = {**defaults(name), **values}
        transports.append(
            Transport(name, json.dumps(full, sort_keys=True), full, layer.origin)
        )
    return Level(layer.origin, tuple(transports), tuple(troubles))


def in_use(
    levels: Iterable[Level], failed: Callable[[Transport], bool]
) -> list[Transport]:
    """Return the transports to use now: those of the newest level, and of the next level while a newer one fails."""
    selected: dict[Transport, Transport] = {}
    for level in levels:
        selected.update(
            (transport, transport)
            for transport in level.transports
            if transport not in selected
        )
        if level.transports and not any(
            failed(transport) for transport in level.transports
        ):
            break
    return list(selected)
