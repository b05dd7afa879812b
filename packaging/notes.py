"""Prints the release notes of a version: its section of the changelog.

`python notes.py VERSION CHANGELOG.md` prints them; with `--check` it prints nothing, and fails if the changelog is not
that of a release of this version.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

UNRELEASED = "Unreleased"


class NotReadyError(Exception):
    """The changelog is not that of a release; the text says what to do."""


def sections(text: str) -> dict[str, str]:
    """Return the sections of a changelog by their headings, without empty lines around them."""
    parts = re.split(r"^## (.*)$", text, flags=re.MULTILINE)
    return {
        heading.strip(): body.strip()
        for heading, body in zip(parts[1::2], parts[2::2], strict=True)
    }


def notes(version: str, text: str) -> str:
    """Return the release notes. Raises NotReadyError if there are none."""
    found = sections(text)
    dated = [
        heading
        for heading in found
        if re.fullmatch(rf"{re.escape(version)} - \d{{4}}-\d\d-\d\d", heading)
    ]
    if not dated or not found[dated[0]]:
        raise NotReadyError(
            f"CHANGELOG.md has no section «## {version} - YEAR-MONTH-DAY» with lines in it: write it"
        )
    return f"# heat-config-agent {dated[0]}\n\n{found[dated[0]]}\n"


def check(version: str, text: str) -> None:
    """Raise NotReadyError if the changelog is not that of a release of this version."""
    notes(version, text)
    found = sections(text)
    if next(iter(found)) != UNRELEASED or found[UNRELEASED]:
        words = f"CHANGELOG.md has to begin with an empty section «{UNRELEASED}»"
        raise NotReadyError(f"{words}: move its lines to {version}")
    if list(found)[1].partition(" ")[0] != version:
        raise NotReadyError(
            f"the newest section of CHANGELOG.md is «{list(found)[1]}», not that of {version}"
        )


def main() -> int:
    """Print the notes, or check the changelog."""
    arguments = [word for word in sys.argv[1:] if word != "--check"]
    version, text = arguments[0], Path(arguments[1]).read_text(encoding="utf-8")
    try:
        if "--check" in sys.argv:
            check(version, text)
        else:
            print(notes(version, text), end="")
    except NotReadyError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
