"""Forwards the events of the engine to the front door, and to the channels that the settings name."""

from __future__ import annotations

from heat_config_agent.engine.report import Relay, Report
from heat_config_agent.settings.effective import Settings

TYPE_CHECKING = False  # as `typing` has it, which takes long to load

if TYPE_CHECKING:
    from heat_config_agent.signals.notices.channel import Channel, ChannelState

_LAST_SECONDS = 2.0
"""Seconds for which the end of a process waits for each of its last notices."""


class Announcer(Relay):
    """Forwards to the report of a front door, and to the channels of the settings; as a rule, there are none."""

    def __init__(self, report: Report, settings: Settings) -> None:
        """Open the channels."""
        super().__init__(report)
        self._front = report
        self._channels: tuple[Channel, ...] = ()
        self._places: tuple[str | None, ...] = ("", "")
        self.reconfigure(settings)

    @property
    def channels(self) -> tuple[ChannelState, ...]:
        """The state of each channel."""
        return tuple(channel.state for channel in self._channels)

    def reconfigure(self, settings: Settings) -> None:
        """Use the channels of other settings from here on. What waits in the old ones is still handed on."""
        console, url = settings.text("console"), settings.text("report_url")
        places = (console, url, settings.ca_file) if url else (console, url)
        if places == self._places:
            return
        from heat_config_agent.engine import notices  # noqa: PLC0415  # few machines have a channel

        lost = {channel.name: channel.lost for channel in self._channels}
        for channel in self._channels:
            channel.end()
        self._places, self._channels = places, _opened(console, url, settings.ca_file)
        for channel in self._channels:
            channel.lost = lost.get(channel.name, 0)
        self.reports = (self._front, notices.ChannelReport(self._channels)) if self._channels else (self._front,)

    def close(self) -> None:
        """Hand on what waits, if that is possible at once."""
        for channel in self._channels:
            channel.close(_LAST_SECONDS)


def _opened(path: str, url: str, ca_file: str | None) -> tuple[Channel, ...]:
    """Return the channels to the console at `path`, and to the server at `url`; each may be empty."""
    channels: list[Channel] = []
    if path:
        from heat_config_agent.signals.notices import console  # noqa: PLC0415  # 10 ms for each, and few machines have it

        channels.append(console.channel(path))
    if url:
        from heat_config_agent.signals.notices import events  # noqa: PLC0415

        channels.append(events.channel(url, ca_file))
    return tuple(channels)
