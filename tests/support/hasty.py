"""The installed commands with time limits for requests that a test can wait for."""

from __future__ import annotations

import sys
from pathlib import Path

SECONDS = 1.5
"""The most seconds until a server answers anything."""

HASTY = (
    sys.executable,
    "-c",
    f"""if True:
    import sys
    from heat_config_agent import web
    from heat_config_agent.signals import outbox
    from heat_config_agent.web import keystone
    from heat_config_agent.cli import main
    assert web.CONNECT_SECONDS and web.TAKEN_SECONDS and web.READ_SECONDS and web.SEND_SECONDS and outbox.PATIENCE
    assert keystone.Cloud.ask.__kwdefaults__["seconds"] == keystone.SECONDS
    web.CONNECT_SECONDS = web.READ_SECONDS = web.TAKEN_SECONDS = {SECONDS}
    web.SEND_SECONDS = keystone.Cloud.ask.__kwdefaults__["seconds"] = {2 * SECONDS}
    outbox.PATIENCE = {3 * SECONDS}
    sys.argv = sys.argv[1:]
    sys.exit(main.apply() if sys.argv[0].endswith("apply") else main.agent())
""",
)
"""The words to put before a command."""


def peak(pid: int) -> int:
    """Return the most memory that a process has had in use, in MiB."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return (
        next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) // 1024
    )
