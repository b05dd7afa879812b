"""`heat-config-agent config`: Show every setting, its effective value and its origin. No server is contacted."""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Mapping
from pathlib import Path

from heat_config_agent.cli import envelope, state_options, terminal
from heat_config_agent.doctor import closed
from heat_config_agent.model.errors import ExitCode
from heat_config_agent.settings import display, effective, kinds, layers, schema
from heat_config_agent.settings.effective import Settings
from heat_config_agent.settings.kinds import Setting
from heat_config_agent.settings.layers import Layer
from heat_config_agent.settings.schema import COLLECTORS, TRANSPORTS
from heat_config_agent.sources import active, learned, transports
from heat_config_agent.sources.documents import Documents
from heat_config_agent.sources.transports import Transport
from heat_config_agent.state import health, lock
from heat_config_hooks.values import dataclass

_EPILOG = """\
For a transport, every place that configures it is shown, in the order in which the agent tries them. Passwords and the
queries of signed URLs are masked.

exit codes:
  0  the settings are shown
  2  bad usage, or a mistake in the settings with which the agent does not start; the settings are shown anyway
"""

_NOT_USED = {
    "command": "the agent carries out deployments itself",
    "cachedir": "the agent keeps documents in its state directory",
    "backup_cachedir": "the agent keeps documents in its state directory",
    "print_cachedir": "the agent keeps documents in its state directory",
    "one_time": "use `heat-config-agent run --once` instead",
    "force": "use `heat-config-agent retry` instead",
    "print": "use `heat-config-agent plan` instead",
    "deployment_key": "the agent finds the deployments in the metadata by itself",
    "debug": "the agent always logs to standard error",
    "verbose": "the agent always logs to standard error",
}
"""The reason why the agent does not use some of os-collect-config's settings."""


def add(commands: state_options.Commands) -> None:
    """Declare the command."""
    parser = state_options.command(
        commands,
        "config",
        "show every setting, its value and its origin",
        __doc__,
        epilog=_EPILOG,
    )
    state_options.add_json(parser)
    parser.add_argument(
        "--schema",
        action="store_true",
        help="print a JSON Schema of sections and settings instead, and look at nothing",
    )
    parser.set_defaults(run=run, kind="config")


def run(options: argparse.Namespace) -> int:
    """Show the settings, or print their schema."""
    if options.schema:
        from heat_config_agent.settings import json_schema  # noqa: PLC0415  # only this option needs it

        terminal.say(json.dumps(json_schema.schema()))
        return ExitCode.OK
    errors: list[str] = []
    settings = effective.make(
        os.environ, config=options.config, state=options.state_dir, mistakes=errors
    )
    view = _View(settings, options.state_dir, options.config)
    code = ExitCode.USAGE if errors else ExitCode.OK
    mistakes = [*errors, *settings.warnings, *view.troubles]
    unused = (
        [_unused(settings.other, name) for name in settings.other.ignored]
        if settings.other
        else []
    )
    if not options.json:
        for section in dict.fromkeys(row.section for row in settings.rows):
            _show(view, section)
        _show_unused(unused)
    for row, origin in settings.deprecated:
        text = f"{row.name} of [{row.section}] is deprecated, and still works: use {row.replaced_by} instead ({origin})"
        terminal.warn(text)
    for mistake in mistakes:
        if mistake in errors:
            terminal.complain(f"error: {terminal.line(mistake)}", "bad")
        else:
            terminal.warn(mistake)
    if not options.json:
        terminal.say(terminal.line(f"state: {settings.state}; {view.agent_text}"))
        return code
    failure = None
    if errors:
        more = len(errors) - 1
        hint = f"and {terminal.count(more, 'more mistake')}" if more else ""
        failure = envelope.Failure("settings", errors[0], hint)
    values = {
        "state_directory": str(settings.state),
        "agent": view.agent,
        "settings": [_values(row, *view.value(row)) for row in settings.rows],
        "transports": {
            name: [_ways_values(name, offer) for offer in view.offers[name]]
            for name in TRANSPORTS
        },
        "not_used": [
            {"setting": name, "origin": where, "why": why}
            for name, where, why in unused
        ],
        "deprecated": [
            {
                "setting": f"{row.section} {row.name}",
                "origin": origin,
                "use": row.replaced_by,
            }
            for row, origin in settings.deprecated
        ],
        "mistakes": [
            {"state": "failed" if each in errors else "warning", "message": each}
            for each in mistakes
        ],
    }
    envelope.result(values, code=code, error=failure)
    return code


def _show_unused(unused: list[tuple[str, str, str]]) -> None:
    if not unused:
        return
    terminal.say(f"not used from {terminal.line(unused[0][1])}:")
    for line in terminal.table(
        [(f"  {terminal.line(name)}", why) for name, _, why in unused]
    ):
        terminal.say(line)
    terminal.say("")


@dataclass(frozen=True)
class _Offer:
    """The settings of a transport from one place."""

    origin: str
    values: Mapping[str, tuple[object, str]]
    """Name → value and origin."""
    missing: tuple[str, ...]
    """Names of required settings without a value."""
    way: Transport | None
    """The transport; None if the agent cannot use it."""
    same: int | None
    """The number of an earlier offer with the same values, counted from 1."""
    in_use: bool

    @property
    def word(self) -> str:
        """The word for its use: used, the same as another, or the reason why it is not used."""
        if self.same is not None:
            return f"the same as {self.same}"
        if self.missing:
            return f"not used: {', '.join(self.missing)} missing"
        if self.way is None:
            return "not used: collectors does not name it"
        return "in use now" if self.in_use else ""


class _View:
    """The settings as the agent would use them, with their origins."""

    def __init__(
        self, settings: Settings, state: Path | None, config: Path | None
    ) -> None:
        documents = Documents(settings.state, change=False)
        remembered, trouble = learned.load(settings.state, change=False)
        holder = lock.holder(settings.state)
        self._running = holder is not None and holder[1] == lock.DAEMON
        self.agent = {
            "running": self._running,
            "process": holder[0] if self._running and holder else None,
        }
        sources = health.read(settings.state).get("sources") if self._running else None
        self._used = {
            (str(source.get("name")), str(source.get("from")))
            for source in (sources if isinstance(sources, list) else [])
            if isinstance(source, Mapping)
        }
        newest = _newest(documents) if self._running else None
        layer = newest or (remembered.layer if remembered else None)
        self._local = settings
        self._settings = settings.with_metadata(layer) if layer else settings
        self.rows = settings.rows
        self._state, self._config = state, config
        places = active.places(settings, documents.held, remembered, newest)
        self.offers = {name: self._offers(name, places) for name in TRANSPORTS}
        self._closed = closed(settings.state)
        unread = [*([trouble] if trouble else []), *documents.warnings]
        self.troubles = [
            *(
                [
                    f"settings learned from Heat are not shown: only root may read {settings.state}"
                ]
                if self._closed
                else unread
            ),
            *(
                f"{_origin_text(place.origin)}: {mistake}"
                for place in places
                if place is not settings.other
                and place.origin not in {own.origin for own in settings.own}
                for mistake in place.mistakes
            ),
        ]

    @property
    def agent_text(self) -> str:
        """The state of the agent: whether it runs, and which sources it asks."""
        if not self._running:
            return (
                "only root can see whether an agent is running"
                if self._closed
                else "no agent is running"
            )
        names = ", ".join(sorted({name for name, _ in self._used}))
        return f"the agent is running (process {self.agent['process']}){f' and asks {names}' if names else ''}"

    def value(self, row: Setting) -> tuple[object, str]:
        """Return the effective value, with secrets masked, and its origin."""
        if row.section in TRANSPORTS:
            offers = [
                each
                for each in self.offers[row.section]
                if each.way and each.same is None
            ]
            used = next(
                (each for each in offers if each.in_use), offers[0] if offers else None
            )
            return (
                used.values[row.name]
                if used
                else (display.setting(row, row.default), _no_origin(row))
            )
        value, origin = self._settings.lookup(row.section, row.name)
        if (row.section, row.name) == ("agent", "state_dir"):
            value, origin = str(self._local.state), self._state_origin(value, origin)
        return display.setting(row, value), _origin_text(origin)

    def unasked(self, section: str) -> str:
        """Return why the source of a section is not asked; empty if it is, or the section has no source."""
        chosen = (
            self._settings.words("collectors")
            if section == "local"
            else self._local.only
        )
        if section in COLLECTORS and chosen and section not in chosen:
            return "  not asked: collectors does not name it"
        return "  not used: not configured" if section in TRANSPORTS else ""

    def _state_origin(self, value: object, origin: str) -> str:
        variable = "HEAT_CONFIG_AGENT_STATE"
        if self._state is not None:
            return "the command line"
        if os.environ.get(variable) and not (self._config and value):
            return f"the environment, {variable}"
        return origin

    def _offers(self, name: str, places: list[Layer]) -> list[_Offer]:
        offers: list[_Offer] = []
        used = self._ways_used(name, places)
        for place in places:
            values = place.sections.get(name, {})
            if not values:
                continue
            level = transports.level(place, self._local.only)
            way = next((each for each in level.transports if each.name == name), None)
            same = next(
                (
                    number
                    for number, each in enumerate(offers, 1)
                    if way and each.way == way
                ),
                None,
            )
            missing = schema.incomplete(name, values)
            shown = {
                row.name: (
                    display.setting(row, values.get(row.name, row.default)),
                    self._origin(place, row) if row.name in values else _no_origin(row),
                )
                for row in self.rows
                if row.section == name
            }
            origin = self._files(place, name)
            offers.append(
                _Offer(origin, shown, missing, way, same, way in used and same is None)
            )
        return offers

    def _files(self, place: Layer, name: str) -> str:
        """Return the origin of a layer; for the agent's own files, the files that configure the transport."""
        own = self._local.own
        if not own or place.origin != own[0].origin:
            return _origin_text(place.origin)
        return ", ".join(each.origin for each in own if each.sections.get(name))

    def _ways_used(self, name: str, places: list[Layer]) -> set[Transport]:
        """Return the ways that the agent uses now; its health file has the first origin of each."""
        ways = [
            way
            for place in places
            for way in transports.level(place, self._local.only).transports
            if way.name == name and any(used == name for used, _ in self._used)
        ]
        reported = {way for way in ways if (name, way.origin) in self._used}
        return reported or (set(ways) if len(set(ways)) == 1 else set())

    def _origin(self, place: Layer, row: Setting) -> str:
        """Return the origin of a value, with its line; for the agent's own files, the file that sets it."""
        own = self._local.own
        if own and place.origin == own[0].origin:
            place = next(
                (each for each in own if each.get(row.section, row.name) is not None),
                place,
            )
        return _origin_text(place.origin_of(row.section, row.name))


def _newest(documents: Documents) -> Layer | None:
    """Return the settings in the newest metadata that an agent has collected over a transport."""
    for name in TRANSPORTS:
        if name in documents.held:
            return layers.metadata(
                documents.held[name].content, f"the metadata from {name}"
            )
    return None


def _origin_text(origin: str) -> str:
    return f"the document of {origin}" if origin in COLLECTORS else origin


def _no_origin(row: Setting) -> str:
    return "not set" if row.required else "default"


def _show(view: _View, section: str) -> None:
    rows = [row for row in view.rows if row.section == section]
    offers = view.offers.get(section, [])
    terminal.say(f"[{section}]{'' if offers else view.unasked(section)}")
    if not offers:
        _table([(row, *view.value(row)) for row in rows])
    for number, offer in enumerate(offers, 1):
        word = f": {offer.word}" if offer.word else ""
        head = terminal.line(f"{number}. {offer.origin}{word}")
        terminal.say(
            terminal.styled(
                head, "good" if offer.in_use else "warn" if offer.missing else ""
            )
        )
        if offer.same is None:
            _table([(row, *offer.values[row.name]) for row in rows])
    terminal.say("")


def _table(rows: list[tuple[Setting, object, str]]) -> None:
    for line in terminal.table(
        [
            (
                f"  {row.name}",
                terminal.line(kinds.written(row.kind, value) or "-"),
                terminal.line(origin),
            )
            for row, value, origin in rows
        ]
    ):
        terminal.say(
            terminal.styled(
                line, "quiet" if line.endswith(("  default", "  not set")) else ""
            )
        )


def _unused(layer: Layer, name: str) -> tuple[str, str, str]:
    """Return the name of a setting that is not used, where it is, and why."""
    short = name.rpartition(" ")[2]
    logs = short.startswith(
        ("log_", "use_syslog", "use_journal", "use_stderr", "syslog_")
    )
    why = (
        _NOT_USED["debug"]
        if logs
        else _NOT_USED.get(short, "the agent has no such setting")
    )
    return name, layer.origin, why


def _values(row: Setting, value: object, origin: str) -> dict[str, object]:
    return {"section": row.section, "name": row.name, "value": value, "origin": origin}


def _ways_values(name: str, offer: _Offer) -> dict[str, object]:
    return {
        "origin": offer.origin,
        "in_use": offer.in_use,
        "used": offer.way is not None,
        "same_as": offer.same,
        "missing": list(offer.missing),
        "settings": [
            _values(schema.setting(name, key), value, origin)
            for key, (value, origin) in offer.values.items()
        ],
    }
