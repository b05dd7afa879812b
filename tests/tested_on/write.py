"""Writes the table of what was tried: `PYTHONPATH=tests python -m tested_on.write docs/evidence/tested-on.md`."""

from __future__ import annotations

import sys
from pathlib import Path

from repository.test_pythons import SUPPORTED
from support import tested_on
from tested_on.test_heats import NAMES
from tested_on.test_systems import ABSENT, SYSTEMS

WANTED = {
    "system": [*SYSTEMS, *ABSENT],
    "python": [f"Python {each}" for each in SUPPORTED],
    "heat": list(NAMES.values()),
}
"""The subjects of the tests by kind, in the order of the table."""

if __name__ == "__main__":
    Path(sys.argv[1]).write_text(
        tested_on.table(tested_on.recorded(), WANTED), encoding="utf-8"
    )
