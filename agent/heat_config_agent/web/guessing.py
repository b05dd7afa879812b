"""Loads requests without what it guesses encodings with: tables of 3 MB, that nobody here asks. Import it before that.

What servers say is bytes here, or UTF-8. Programs that have loaded requests already keep what they have.
"""

from __future__ import annotations

import sys
from types import ModuleType

_GUESSING = {"chardet": "4.0.0", "charset_normalizer": "2.1.0"}
"""What requests may use for it, with versions that every requests takes."""


def _utf8(_text: bytes) -> dict[str, str]:
    return {"encoding": "utf-8"}


if "requests" not in sys.modules:
    _absent = [each for each in _GUESSING if each not in sys.modules]
    for _name in _absent:
        sys.modules[_name] = ModuleType(_name)
        vars(sys.modules[_name]).update(__version__=_GUESSING[_name], detect=_utf8)
    import requests  # noqa: F401

    for _name in _absent:
        del sys.modules[_name]
