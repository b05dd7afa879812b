"""Signals as plain numbers.

The module `signal` makes enumerations of all signals when it is loaded, which takes as long as ten of our modules.
"""

from __future__ import annotations

__all__ = [
    "SIGHUP",
    "SIGINT",
    "SIGKILL",
    "SIGSTOP",
    "SIGTERM",
    "SIGTSTP",
    "SIGURG",
    "SIG_DFL",
    "SIG_IGN",
    "handle",
    "valid_signals",
]

TYPE_CHECKING = False  # as `typing` has it, which takes long to load

if TYPE_CHECKING:
    from signal import (
        SIG_DFL,
        SIG_IGN,
        SIGHUP,
        SIGINT,
        SIGKILL,
        SIGSTOP,
        SIGTERM,
        SIGTSTP,
        SIGURG,
        valid_signals,
    )
    from signal import signal as handle
else:
    try:
        from _signal import (
            SIG_DFL,
            SIG_IGN,
            SIGHUP,
            SIGINT,
            SIGKILL,
            SIGSTOP,
            SIGTERM,
            SIGTSTP,
            SIGURG,
            valid_signals,
        )
        from _signal import signal as handle
    except ImportError:  # _signal is private, and may change
        from signal import (
            SIG_DFL,
            SIG_IGN,
            SIGHUP,
            SIGINT,
            SIGKILL,
            SIGSTOP,
            SIGTERM,
            SIGTSTP,
            SIGURG,
            valid_signals,
        )
        from signal import signal as handle
