"""Where documents come from. Each source fetches one document; nothing else talks to where metadata lives.

A source is a class with what `Source` says, a module each; `make` has those that settings can name, each with a row.
A source reads what it is given and knows nothing of schedules, threads or other sources: `collection` asks each in a
thread of its own, one question at a time, and goes on without one that does not answer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from heat_config_agent.model import Document
from heat_config_hooks.values import dataclass

TYPE_CHECKING = False  # as `typing` has it, which takes long to load

if TYPE_CHECKING:
    from typing import Protocol
else:
    Protocol = object


class Source(Protocol):
    """A place that has deployment metadata."""

    name: str
    """Names the source across runs."""
    trouble: str
    """What is not as it should be though the source answers, for people; empty where all is well."""

    def collect(self) -> Document | None:
        """Fetch the document; None where the source answers, and has none yet, or nothing newer than it gave before.

        Where nothing has changed, and that is cheap to tell, it is the very object that was returned before. Raises
        SourceError where it cannot be had, UsageError where it cannot be understood.
        """


@dataclass(frozen=True, kw_only=True)
class Reach:
    """How servers are reached."""

    ca_file: str | None = None
    """Certificates to trust; None for the environment's and the system's."""
    seconds: float = 60.0
    """How long one collection may take; who takes longer has not answered."""


def make(name: str, values: Mapping[str, object], reach: Reach, ring: Callable[[], None]) -> Source:
    """Return the source of that name with the settings of its section. It may `ring` when it has news.

    Only what is used is loaded.
    """
    match name:
        case "heat":
            from heat_config_agent.sources.heat import Heat  # noqa: PLC0415

            return Heat(values, reach)
        case "cfn":
            from heat_config_agent.sources.cfn import Cfn  # noqa: PLC0415

            return Cfn(values, reach)
        case "request":
            from heat_config_agent.sources.request import Request  # noqa: PLC0415

            return Request(values, reach)
        case "zaqar":
            from heat_config_agent.sources.zaqar import Zaqar  # noqa: PLC0415

            return Zaqar(values, reach, ring=ring)
        case "heat_local":
            from heat_config_agent.sources.heat_local import HeatLocal  # noqa: PLC0415

            return HeatLocal(values, reach)
        case "ec2":
            from heat_config_agent.sources.ec2 import Ec2  # noqa: PLC0415

            return Ec2(values, reach)
        case "config_drive":
            from heat_config_agent.sources.config_drive import ConfigDrive  # noqa: PLC0415

            return ConfigDrive(values, reach)
        case "local":
            from heat_config_agent.sources.local import Local  # noqa: PLC0415

            return Local(values, reach)
        case "file":
            from heat_config_agent.sources.file import Files  # noqa: PLC0415

            return Files(values, reach)
    raise ValueError(name)
