"""A deployment on a booted machine: carried out, changed by hand, and verified."""

from __future__ import annotations

import json
from itertools import count
from pathlib import Path
from typing import Any

from support.machine import deployment
from system.booted import Booted

NUMBERS = count(1)


class Site:
    """A booted machine with one deployment of units, which is verified."""

    def __init__(self, machine: Booted, tool: str, folder: str) -> None:
        """Have a deployment of a tool; `folder` is that of its units."""
        self.machine = machine
        self._tool = tool
        self._folder = folder
        self.config: dict[str, Any] = {}
        self.fields: dict[str, Any] = {}

    def run(self, config: dict[str, Any] | None = None, **fields: Any) -> None:
        """Carry out the deployment, again with the same config if none is given; it must succeed."""
        if config is not None:
            self.config, self.fields = config, fields
        values = {**self.fields, "action": "CREATE"} if config is None else fields
        self._apply(self.config, **values)

    def repair(self) -> None:
        """Have the agent run it again, because it has drifted; it must be in effect then."""
        done = self.machine.run("heat-config-agent", "verify", "--repair", "--json")
        [row] = done.data["deployments"]
        assert (done.code, row["state"]) == (0, "ok"), done.out + done.err

    def end(self) -> None:
        """Remove everything of the deployment."""
        self._apply({}, action="DELETE")

    def _apply(self, config: dict[str, Any], **fields: Any) -> None:
        options = {"settle": 0.1, **fields.pop("options", {})}
        words = {"group": self._tool, "name": "it", "options": options, **fields}
        given = deployment(f"v{next(NUMBERS)}", config, **words)
        done = self.machine.run(
            "heat-config-apply", "--json", "-", stdin=json.dumps([given])
        )
        assert done.code == 0, done.out + done.err

    def verify(self) -> dict[str, Any]:
        """Return what is said about the deployment."""
        done = self.machine.run("heat-config-agent", "verify", "--json")
        [row] = done.data["deployments"]
        codes = {"ok": 0, "drifted": 9, "unknown": 1}
        assert done.code == codes[row["state"]], done.out + done.err
        assert isinstance(row, dict)
        return row

    def changes(self) -> list[tuple[str, str]]:
        """Return each difference; empty if the deployment is in effect."""
        row = self.verify()
        assert row["state"] in ("ok", "drifted"), row["message"]
        return [(change["what"], change["how"]) for change in row.get("changes", ())]

    def systemctl(self, *words: str) -> None:
        """Run systemctl, which must succeed."""
        done = self.machine.run("systemctl", *words)
        assert done.code == 0, done.err

    def file(self, path: str) -> Path:
        """Return a file of the machine as seen from here."""
        return self.machine.disk / path.lstrip("/")

    def edit(self, unit: str, old: str, new: str) -> None:
        """Change a unit file."""
        path = self.file(f"{self._folder}/{unit}")
        text = path.read_text()
        assert old in text
        path.write_text(text.replace(old, new))
