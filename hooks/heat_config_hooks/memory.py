"""Keeping the memory of our processes, and the secrets in it, to ourselves."""

from __future__ import annotations

_SET_DUMPABLE = 4
"""PR_SET_DUMPABLE of prctl(2)."""


def keep_no_core() -> None:
    """Have no core made of this process, as secrets would be in it; nor may other programs of its user look into it.

    What it starts is as ever: unlike a limit, this ends where another program begins, and holds for a core that is
    piped to a program, too.
    """
    try:
        import _ctypes  # noqa: PLC0415  # ctypes itself takes 5 ms more

        prctl = _ctypes.dlsym(_ctypes.dlopen(None, 0), "prctl")  # type: ignore[arg-type]  # None is the program itself
        _ctypes.call_function(prctl, (_SET_DUMPABLE, 0))
    except (ImportError, AttributeError):
        import ctypes  # noqa: PLC0415  # what that is made of may change

        ctypes.CDLL(None).prctl(_SET_DUMPABLE, 0)
