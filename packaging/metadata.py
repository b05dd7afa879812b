"""The parts of the metadata of the Python packages that depend on the address of the project's home (`packaging/home`).

hatchling calls it for each build, as `pyproject.toml` says: it adds the project's URLs, and the README with links that
work where it is read apart from the repository.
"""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import urlsplit

from hatchling.metadata.plugin.interface import MetadataHookInterface

LINK = re.compile(r"(\]\()(?!https?:|#|mailto:)([^)\s]+)(\))")
"""The target of a link in Markdown that is relative to the repository."""


def home(folder: Path) -> str:
    """Return the address of the home, which a file of `folder` has; empty if there is none. Raises ValueError."""
    lines = (folder / "home").read_text(encoding="utf-8").splitlines()
    found = [line.strip() for line in lines if line.strip() and line[0] != "#"]
    if not found:
        return ""
    parts = urlsplit(found[0])
    usable = parts.scheme == "https" and parts.netloc and not found[0].endswith("/")
    if len(found) > 1 or not usable:
        raise ValueError(
            f"{folder / 'home'}: the address of the home is one line: https://HOST/PATH, without a slash at the end"
        )
    return found[0]


def urls(address: str, version: str) -> dict[str, str]:
    """Return the project's URLs."""
    if not address:
        return {}
    files = f"{address}/blob/v{version}"
    return {
        "Homepage": address,
        "Documentation": f"{files}/README.md",
        "Source": address,
        "Changelog": f"{files}/CHANGELOG.md",
        "Issues": f"{address}/issues",
        "Security": f"{files}/SECURITY.md",
    }


def readme(text: str, address: str, version: str) -> str:
    """Return a README whose links to files of the repository are whole addresses; without a home, as they are."""
    return (
        LINK.sub(rf"\g<1>{address}/blob/v{version}/\g<2>\g<3>", text)
        if address
        else text
    )


class Metadata(MetadataHookInterface):  # type: ignore[misc]  # hatchling is there only while it builds
    """Adds the parts that the address decides."""

    def update(self, metadata: dict[str, object]) -> None:
        """Add them to the metadata of `pyproject.toml`."""
        folder = Path(__file__).parent
        address, version = home(folder), str(metadata["version"])
        text = (Path(self.root) / "README.md").read_text(encoding="utf-8")
        metadata["urls"] = urls(address, version)
        metadata["readme"] = {
            "content-type": "text/markdown",
            "text": readme(text, address, version),
        }
