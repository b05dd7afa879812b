"""Documents in files and on standard input."""

from __future__ import annotations

import os
import stat
import sys
from pathlib import Path

from heat_config_agent.errors import SourceError
from heat_config_agent.model import Document
from heat_config_agent.sources import document


class File:
    """A file of deployment metadata, JSON or YAML."""

    def __init__(self, path: Path) -> None:
        """Read `path` whenever asked to."""
        self.path = path
        self.name = f"file:{path.absolute()}"

    def collect(self) -> Document:
        """Read the file."""
        try:
            text = self.path.read_text(encoding="utf-8-sig", errors="replace")
        except OSError as error:
            raise SourceError(f"cannot read {self.path}: {error.strerror}") from error
        return Document(source=self.name, content=document.load(text, str(self.path)))


class Stdin:
    """Deployment metadata on standard input."""

    name = "stdin"

    def collect(self) -> Document:
        """Read to the end."""
        if sys.stdin is None:
            raise SourceError("cannot read standard input: it is closed")
        text = sys.stdin.buffer.read().decode("utf-8-sig", "replace")
        return Document(source=self.name, content=document.load(text, "standard input"))


class ShellConfig:
    """The list of deployments that os-apply-config writes for heat-agents (`$HEAT_SHELL_CONFIG`)."""

    def __init__(self, path: Path) -> None:
        """Read `path` whenever asked to."""
        self.path = path
        self.name = f"file:{path.absolute()}"

    def collect(self) -> Document:
        """Read the file, and make it 0600 first: it holds passwords.

        Empty, as its template leaves it, means no deployments.
        """
        try:
            if stat.S_IMODE(os.lstat(self.path).st_mode) != 0o600 and not self.path.is_symlink():
                self.path.chmod(0o600)
            text = self.path.read_text(encoding="utf-8-sig", errors="replace")
        except OSError as error:
            raise SourceError(f"cannot read {self.path}: {error.strerror}") from error
        return Document(source=self.name, content=document.load(text, str(self.path)) if text.strip() else [])
