"""The sources: each fetches one document, and only sources read metadata.

Each source is a class with the methods of `Source`, in a module of its own; `make` knows those that settings can name.
A source knows nothing of schedules, threads or other sources: `sources.poller` polls each in a thread of its own, and
continues without a source that does not answer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

TYPE_CHECKING = False  # as `typing` has it, which takes long to load

if TYPE_CHECKING:
    from heat_config_agent.sources.base import Reach, Source


def make(
    name: str, values: Mapping[str, object], reach: Reach, ring: Callable[[], None]
) -> Source:
    """Return the source of that name with the settings of its section. It may call `ring` when it has news.

    Only the module of that source is imported.
    """
    match name:
        case "heat":
            from heat_config_agent.sources.cloud.heat import Heat  # noqa: PLC0415

            return Heat(values, reach)
        case "cfn":
            from heat_config_agent.sources.cloud.cfn import Cfn  # noqa: PLC0415

            return Cfn(values, reach)
        case "request":
            from heat_config_agent.sources.cloud.request import Request  # noqa: PLC0415

            return Request(values, reach)
        case "zaqar":
            from heat_config_agent.sources.cloud.zaqar import Zaqar  # noqa: PLC0415

            return Zaqar(values, reach, ring=ring)
        case "heat_local":
            from heat_config_agent.sources.cloud.heat_local import HeatLocal  # noqa: PLC0415

            return HeatLocal(values, reach)
        case "ec2":
            from heat_config_agent.sources.cloud.ec2 import Ec2  # noqa: PLC0415

            return Ec2(values, reach)
        case "config_drive":
            from heat_config_agent.sources.cloud.config_drive import ConfigDrive  # noqa: PLC0415

            return ConfigDrive(values, reach)
        case "local":
            from heat_config_agent.sources.local import Local  # noqa: PLC0415

            return Local(values, reach)
        case "file":
            from heat_config_agent.sources.file import Files  # noqa: PLC0415

            return Files(values, reach)
    raise ValueError(name)
