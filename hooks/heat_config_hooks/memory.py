"""Protects the memory of our processes, which contains secrets."""

from __future__ import annotations

_SET_DUMPABLE = 4
"""PR_SET_DUMPABLE of prctl(2)."""


def keep_no_core() -> None:
    """Prevent core dumps of this process, and stop other programs of the same user from reading its memory.

    Programs that this process starts are not affected.
    Unlike a limit of the core's size, this also covers cores that are piped to a program.
    """
    try:
        import _ctypes  # noqa: PLC0415  # loading ctypes itself takes 5 ms more

        prctl = _ctypes.dlsym(_ctypes.dlopen(None, 0), "prctl")  # type: ignore[arg-type]  # None is the program itself
        _ctypes.call_function(prctl, (_SET_DUMPABLE, 0))
    except (ImportError, AttributeError):
        import ctypes  # noqa: PLC0415  # _ctypes is private, and may change

        ctypes.CDLL(None).prctl(_SET_DUMPABLE, 0)
