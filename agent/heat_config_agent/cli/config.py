"""`heat-config-agent config`: every setting, what holds, and who says so. Nothing is changed, and nobody is asked."""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Mapping
from pathlib import Path

from heat_config_agent import configuration, health, learned, lock, redaction, settings, steering, transports
from heat_config_agent.checks import closed
from heat_config_agent.cli import chosen, terminal
from heat_config_agent.configuration import COLLECTORS, SETTINGS, TRANSPORTS, Layer, Setting
from heat_config_agent.documents import Documents
from heat_config_agent.errors import ExitCode
from heat_config_agent.settings import Settings
from heat_config_agent.transports import Way
from heat_config_hooks.values import dataclass

_EPILOG = """\
Of a transport, each place that says something of it is shown, in the order in which they are tried. Passwords, and the
queries of signed URLs, are not shown.

exit codes:
  0  the settings are shown
  2  bad usage, or something in the settings has to be corrected before the agent can be started; they are shown anyway
"""

_NOT_USED = {
    "command": "the agent carries out deployments itself",
    "cachedir": "the agent keeps what it has collected in its state directory",
    "backup_cachedir": "the agent keeps what it has collected in its state directory",
    "print_cachedir": "the agent keeps what it has collected in its state directory",
    "one_time": "for that there is `heat-config-agent run --once`",
    "force": "for that there is `heat-config-agent retry`",
    "print": "for that there is `heat-config-apply --plan`",
    "deployment_key": "the agent knows where deployments are in the metadata",
    "debug": "the agent says what it does on standard error",
    "verbose": "the agent says what it does on standard error",
}
"""Why the agent has no use for some of os-collect-config's settings."""


def add(commands: chosen.Commands) -> None:
    """Declare the command."""
    parser = chosen.command(commands, "config", "every setting, what holds, and who says so", __doc__, epilog=_EPILOG)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Show the settings."""
    wrong: list[str] = []
    given = settings.make(os.environ, config=options.config, state=options.state_dir, wrong=wrong)
    seen = _Seen(given, options.state_dir, options.config)
    code = ExitCode.USAGE if wrong else ExitCode.OK
    mistakes = [*wrong, *given.warnings, *seen.troubles]
    unused = [_unused(given.other, each) for each in given.other.passed_over] if given.other else []
    if options.json:
        terminal.say(
            json.dumps(
                {
                    "state_directory": str(given.state),
                    "agent": seen.agent,
                    "settings": [_values(row, *seen.found(row)) for row in SETTINGS],
                    "transports": {
                        name: [_ways_values(name, each) for each in seen.offers[name]] for name in TRANSPORTS
                    },
                    "not_used": [{"setting": name, "from": where, "why": why} for name, where, why in unused],
                    "mistakes": mistakes,
                }
            )
        )
        return code
    for section in dict.fromkeys(row.section for row in SETTINGS):
        _show(seen, section)
    if unused:
        terminal.say(f"not used of {terminal.line(unused[0][1])}:")
        for line in terminal.table([(f"  {terminal.line(name)}", why) for name, _, why in unused]):
            terminal.say(line)
        terminal.say("")
    for each in mistakes:
        terminal.say(terminal.styled(f"wrong: {terminal.line(each)}", "bad" if each in wrong else "warn"))
    terminal.say(terminal.line(f"state: {given.state}; {seen.doing}"))
    return code


@dataclass(frozen=True)
class _Offer:
    """What one place says of a transport."""

    origin: str
    values: Mapping[str, tuple[object, str]]
    """Name → value, and who says so."""
    missing: tuple[str, ...]
    way: Way | None
    """None where it is not to be used."""
    same: int | None
    """The number of one before it that says the same; this and the next count from 1."""
    in_use: bool

    @property
    def word(self) -> str:
        """How it is with it."""
        if self.same is not None:
            return f"the same as {self.same}"
        if self.missing:
            return f"not used: {', '.join(self.missing)} missing"
        if self.way is None:
            return "not used: collectors leaves it out"
        return "in use now" if self.in_use else ""


class _Seen:
    """All that is known of the settings, as the agent would go by it."""

    def __init__(self, given: Settings, state: Path | None, config: Path | None) -> None:
        documents = Documents(given.state, change=False)
        known, trouble = learned.load(given.state, change=False)
        said = health.read(given.state)
        holder = lock.holder(given.state)
        self._running = holder is not None and holder[1] == lock.DAEMON
        self.agent = {"running": self._running, "process": holder[0] if self._running and holder else None}
        sources = said.get("sources") if self._running else None
        self._used = {
            (str(each.get("name")), str(each.get("from")))
            for each in (sources if isinstance(sources, list) else [])
            if isinstance(each, Mapping)
        }
        newest = _newest(documents) if self._running else None
        layer = newest or (known.layer if known else None)
        self._given = given
        self._settings = given.with_metadata(layer) if layer else given
        self._state, self._config = state, config
        places = steering.places(given, documents.held, known, newest)
        self.offers = {name: self._offers(name, places) for name in TRANSPORTS}
        self._closed = closed(given.state)
        unread = [*([trouble] if trouble else []), *documents.warnings]
        self.troubles = [
            *([f"cannot look into {given.state} for what was learned: only root can"] if self._closed else unread),
            *(
                f"{_who(each.origin)}: {mistake}"
                for each in places
                if each is not given.other and each.origin not in {own.origin for own in given.own}
                for mistake in each.mistakes
            ),
        ]

    @property
    def doing(self) -> str:
        """Whether an agent is running, and whom it asks."""
        if not self._running:
            return "whether an agent is running, only root can see" if self._closed else "no agent is running"
        names = ", ".join(sorted({name for name, _ in self._used}))
        return f"the agent is running (process {self.agent['process']}){f' and asks {names}' if names else ''}"

    def found(self, row: Setting) -> tuple[object, str]:
        """Return the value that holds, as it may be shown, and who says so."""
        if row.section in TRANSPORTS:
            offers = [each for each in self.offers[row.section] if each.way and each.same is None]
            used = next((each for each in offers if each.in_use), offers[0] if offers else None)
            return used.values[row.name] if used else (redaction.setting(row, row.default), _unsaid(row))
        value, origin = self._settings.found(row.section, row.name)
        if (row.section, row.name) == ("agent", "state_dir"):
            value, origin = str(self._given.state), self._state_origin(value, origin)
        return redaction.setting(row, value), _who(origin)

    def unasked(self, section: str) -> str:
        """Return that, and why, a source is not asked; empty where it is, or the section is of none."""
        chosen = self._settings.words("collectors") if section == "local" else self._given.only
        if section in COLLECTORS and chosen and section not in chosen:
            return "  not asked: collectors leaves it out"
        return "  not used: nobody says how" if section in TRANSPORTS else ""

    def _state_origin(self, said: object, origin: str) -> str:
        variable = "HEAT_CONFIG_AGENT_STATE"
        if self._state is not None:
            return "the command line"
        if os.environ.get(variable) and not (self._config and said):
            return f"the environment, {variable}"
        return origin

    def _offers(self, name: str, places: list[Layer]) -> list[_Offer]:
        found: list[_Offer] = []
        used = self._ways_used(name, places)
        for place in places:
            values = place.sections.get(name, {})
            if not values:
                continue
            level = transports.level(place, self._given.only)
            way = next((each for each in level.ways if each.transport == name), None)
            same = next((number for number, each in enumerate(found, 1) if way and each.way == way), None)
            missing = configuration.incomplete(name, values)
            shown = {
                row.name: (
                    redaction.setting(row, values.get(row.name, row.default)),
                    self._origin(place, row) if row.name in values else _unsaid(row),
                )
                for row in SETTINGS
                if row.section == name
            }
            origin = self._files(place, name)
            found.append(_Offer(origin, shown, missing, way, same, way in used and same is None))
        return found

    def _files(self, place: Layer, name: str) -> str:
        """Return the place; of the agent's own files, those that say something of a transport."""
        own = self._given.own
        if not own or place.origin != own[0].origin:
            return _who(place.origin)
        return ", ".join(each.origin for each in own if each.sections.get(name))

    def _ways_used(self, name: str, places: list[Layer]) -> set[Way]:
        """Return the ways that the agent uses now: it names the place that has said each first."""
        every = [
            way
            for place in places
            for way in transports.level(place, self._given.only).ways
            if way.transport == name and any(used == name for used, _ in self._used)
        ]
        named = {way for way in every if (name, way.origin) in self._used}
        return named or (set(every) if len(set(every)) == 1 else set())

    def _origin(self, place: Layer, row: Setting) -> str:
        """Return the place, to the line; of the agent's own files, the one that says it."""
        own = self._given.own
        if own and place.origin == own[0].origin:
            place = next((each for each in own if each.get(row.section, row.name) is not None), place)
        return _who(place.origin_of(row.section, row.name))


def _newest(documents: Documents) -> Layer | None:
    """Return what the metadata says that an agent has collected last of a transport."""
    for name in TRANSPORTS:
        if name in documents.held:
            return configuration.metadata(documents.held[name].content, f"the metadata from {name}")
    return None


def _who(origin: str) -> str:
    return f"the document of {origin}" if origin in COLLECTORS else origin


def _unsaid(row: Setting) -> str:
    return "not set" if row.required else "default"


def _show(seen: _Seen, section: str) -> None:
    rows = [row for row in SETTINGS if row.section == section]
    offers = seen.offers.get(section, [])
    terminal.say(f"[{section}]{'' if offers else seen.unasked(section)}")
    if not offers:
        _table([(row, *seen.found(row)) for row in rows])
    for number, offer in enumerate(offers, 1):
        word = f": {offer.word}" if offer.word else ""
        head = terminal.line(f"{number}. {offer.origin}{word}")
        terminal.say(terminal.styled(head, "good" if offer.in_use else "warn" if offer.missing else ""))
        if offer.same is None:
            _table([(row, *offer.values[row.name]) for row in rows])
    terminal.say("")


def _table(rows: list[tuple[Setting, object, str]]) -> None:
    for line in terminal.table(
        [
            (f"  {row.name}", terminal.line(configuration.written(row.kind, value) or "-"), terminal.line(origin))
            for row, value, origin in rows
        ]
    ):
        terminal.say(terminal.styled(line, "quiet" if line.endswith(("  default", "  not set")) else ""))


def _unused(other: Layer, name: str) -> tuple[str, str, str]:
    """Return the name of a setting that is not used, where it is, and why."""
    short = name.rpartition(" ")[2]
    logs = short.startswith(("log_", "use_syslog", "use_journal", "use_stderr", "syslog_"))
    why = _NOT_USED["debug"] if logs else _NOT_USED.get(short, "the agent has no such setting")
    return name, other.origin, why


def _values(row: Setting, value: object, origin: str) -> dict[str, object]:
    return {"section": row.section, "name": row.name, "value": value, "from": origin}


def _ways_values(name: str, offer: _Offer) -> dict[str, object]:
    return {
        "from": offer.origin,
        "in_use": offer.in_use,
        "used": offer.way is not None,
        "same_as": offer.same,
        "missing": list(offer.missing),
        "settings": [
            _values(configuration.setting(name, key), value, origin) for key, (value, origin) in offer.values.items()
        ],
    }
