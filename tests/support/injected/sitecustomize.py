"""The module that Python loads before a command that a test kills at a point: see `support.kill_points`."""

from __future__ import annotations

import importlib.util
import os

_PATH = f"{os.path.dirname(os.path.abspath(__file__))}/../kill_points.py"  # noqa: PTH100, PTH120
_SPEC = importlib.util.spec_from_file_location("kill_points", _PATH)
assert _SPEC is not None
assert _SPEC.loader is not None
_MODULE = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(_MODULE)
_MODULE.begin()
