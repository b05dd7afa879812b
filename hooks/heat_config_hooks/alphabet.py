"""UTF-8 for file names, arguments, environments and standard streams, in every locale.

Documents, templates and settings are UTF-8, and so is everything that is made from them.
Python follows the locale instead, unless the locale is UTF-8 or plain C.
In a Latin-1 locale it would pass `Zürich` to a script as Latin-1, look for a file of another name, and fail at `10 €`.
Python chooses the encoding once, when it starts, and only its UTF-8 mode overrides the locale.
Python processes that we start, and commands that packages install, start in that mode (`UTF8_MODE`).
Commands that were installed in another way restart themselves in such a locale, which is rare.
"""

from __future__ import annotations

import io
import os
import sys

UTF8_MODE = ("-X", "utf8")
"""Options with which Python uses UTF-8 in any locale."""


def use_utf8() -> None:
    """Restart this program in UTF-8 mode if its locale has another encoding, and make the standard streams UTF-8.

    Call it before anything else: if it restarts the program, it does not return.
    The process id and the descriptors stay the same.
    """
    if sys.getfilesystemencoding() != "utf-8" and not sys.flags.utf8_mode:
        # Python encodes the arguments as it has decoded them, so the new process gets the same bytes.
        os.execv(sys.executable, [sys.executable, *UTF8_MODE, *sys.orig_argv[1:]])  # noqa: S606
    for stream in (sys.stdin, sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper) and stream.encoding.lower() != "utf-8":
            stream.reconfigure(encoding="utf-8")
