"""One state directory and the parts that work on it, put together in one place."""

from __future__ import annotations

from pathlib import Path

from heat_config_agent.deployments.metadata import Reader
from heat_config_agent.engine import records
from heat_config_agent.engine.applier import Applier
from heat_config_agent.engine.events import Event, Report
from heat_config_agent.engine.survey import Ground
from heat_config_agent.engine.work import Work
from heat_config_agent.model.run_settings import RunSettings
from heat_config_agent.runs.output_limit import OutputLimit
from heat_config_agent.runs.tools import Tools
from heat_config_agent.settings.effective import Settings
from heat_config_agent.signals.delivery import Delivery, Outgoing
from heat_config_agent.state.attempts import Attempts
from heat_config_agent.state.deployed import Deployed
from heat_config_agent.state.journal import Journal
from heat_config_agent.state.removal.pruning import Pruning
from heat_config_hooks.values import dataclass

TYPE_CHECKING = False  # as `typing` has it, which takes long to load

if TYPE_CHECKING:
    from heat_config_agent.signals.notices.channel import Channel, ChannelState

_LAST_SECONDS = 2.0
"""Seconds for which the end of a process waits for each of its last notices."""


class Announcer(Report):
    """Hands events on to the front door, and to the channels of the settings; as a rule, there are none."""

    def __init__(self, front: Report, settings: Settings) -> None:
        """Open the channels."""
        self._front = front
        self._channels: tuple[Channel, ...] = ()
        self._places: tuple[str | None, ...] = ("", "", "")
        self.reconfigure(settings)

    def event(self, event: Event) -> None:
        self._front.event(event)
        if self._channels:
            from heat_config_agent.engine import notices  # noqa: PLC0415  # few machines have a channel

            notices.hand_on(event, self._channels)

    @property
    def channels(self) -> tuple[ChannelState, ...]:
        """The state of each channel."""
        return tuple(channel.state for channel in self._channels)

    def reconfigure(self, settings: Settings) -> None:
        """Use the channels of other settings from now on. Notices that wait in the old channels are still sent."""
        console, url = settings.text("console"), settings.text("report_url")
        collector = settings.text("trace_url")
        named = (console, url, collector)
        places = (*named, settings.ca_file) if url or collector else named
        if places == self._places:
            return
        lost = {channel.name: channel.lost for channel in self._channels}
        for channel in self._channels:
            channel.end()
        self._places = places
        self._channels = _opened(console, url, collector, settings.ca_file)
        for channel in self._channels:
            channel.lost = lost.get(channel.name, 0)

    def close(self) -> None:
        """Send the waiting notices, if that is possible at once."""
        for channel in self._channels:
            channel.close(_LAST_SECONDS)


def _opened(
    path: str, url: str, collector: str, ca_file: str | None
) -> tuple[Channel, ...]:
    """Return the channels to the console at `path`, the server at `url` and the `collector`; each may be empty."""
    channels: list[Channel] = []
    if path:
        from heat_config_agent.signals.notices import console  # noqa: PLC0415  # 10 ms for each, and few machines have it

        channels.append(console.channel(path))
    if url:
        from heat_config_agent.signals.notices import events  # noqa: PLC0415

        channels.append(events.channel(url, ca_file))
    if collector:
        from heat_config_agent.signals.notices import spans  # noqa: PLC0415

        channels.append(spans.channel(collector, ca_file))
    return tuple(channels)


@dataclass(frozen=True)
class Workplace:
    """The parts that work on one state directory."""

    journal: Journal
    deployed: Deployed
    applier: Applier
    pruning: Pruning
    announcer: Announcer


def open_state(
    settings: Settings,
    outgoing: Outgoing,
    report: Report,
    *,
    run_settings: RunSettings | None = None,
    deployed: Path | None = None,
    patience: float | None = None,
    attempts: Attempts | None = None,
    reader: Reader | None = None,
) -> Workplace:
    """Open the journal of a state directory, whose lock the caller holds, and return the parts that work on it.

    `run_settings` and `deployed` are used in place of those in `settings`. `patience` is how many seconds results have
    to be delivered; None for no limit. Raises StateError.
    """
    run_settings = run_settings or settings.run_settings
    journal = Journal(run_settings.state)
    while journal.warnings:
        report.warn(journal.warnings.pop(0))
    folder = (
        Deployed(deployed)
        if deployed
        else Deployed(settings.deployed, old=settings.deployed_old)
    )
    announcer = Announcer(report, settings)
    work = Work(
        journal=journal,
        delivery=Delivery(outgoing, patience),
        ground=Ground(
            Tools(settings.hooks, report.warn),
            folder,
            run_settings.state,
            run_settings.defaults,
        ),
        settings=run_settings,
        report=announcer,
        attempts=attempts or Attempts(),
        output=OutputLimit(announcer),
        untidy=records.untidy(journal.entries),
    )
    applier = Applier(work, reader or Reader())
    pruning = Pruning(journal, folder, run_settings.state, settings.limits, report)
    return Workplace(journal, folder, applier, pruning, announcer)
