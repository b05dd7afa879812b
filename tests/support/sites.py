"""A stack that follows a source in the process of the test; the installed command carries its revisions out."""

from __future__ import annotations

import os
from pathlib import Path

from heat_config_agent.settings import effective
from heat_config_agent.settings.effective import Settings
from heat_config_agent.state import followed, lock
from heat_config_stack.follow.follower import Follower
from heat_config_stack.records import listing
from support.repositories import Repository, template


class Site:
    """A state directory, the settings of a stack `web`, and a repository for it."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.state, self.log = folder, folder / "state", folder / "log"
        self.repository = Repository(folder / "repository")
        self.values: dict[str, object] = {
            "url": self.repository.url,
            "path": "stack.yaml",
        }
        self.notes: list[str] = []
        self.ca_file: Path | None = None

    def settings(self) -> Settings:
        trusted = f"ca_file = {self.ca_file}\n" if self.ca_file else ""
        lines = [f"[agent]\nstate_dir = {self.state}\n{trusted}[follow web]"]
        lines += [f"{name} = {value}" for name, value in self.values.items()]
        path = self.folder / "agent.conf"
        path.write_text("\n".join(lines) + "\n")
        return effective.make({**os.environ, "HOME": str(self.folder)}, config=path)

    def follower(self) -> Follower:
        return Follower(self.settings(), "web", self.notes.append)

    def step(self) -> followed.Followed:
        """Take one step as a new process would."""
        settings = self.settings()
        with lock.held(followed.folder(self.state, "web")):
            return Follower(settings, "web", self.notes.append).step()

    def commit(self, line: str, more: str = "", **files: str) -> str:
        return self.repository.commit(
            {"stack.yaml": template(self.log, line, more), **files}
        )

    @property
    def ran(self) -> list[str]:
        return self.log.read_text().splitlines() if self.log.exists() else []

    @property
    def status(self) -> str:
        kept = listing.kept(self.state, "web")
        assert kept is not None
        assert kept.record is not None
        return f"{kept.record.action}_{kept.record.status}"
