"""Regular expressions from templates."""

from __future__ import annotations

import re
import warnings


def compiled(pattern: str) -> re.Pattern[str]:
    """Return a regular expression, which Python may warn about: its author did not write Python.

    Python warns of `[a--z]`, for example, which may mean something else in a later version. Raises re.error,
    OverflowError, and RecursionError if the pattern is nested too deeply.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return re.compile(pattern)
