"""The metrics on the page are those that the agent writes."""

from __future__ import annotations

import re

from docs.console import ROOT


def test_every_metric_is_documented() -> None:
    """A metric that is added, renamed or removed changes the table."""
    source = "".join(
        path.read_text()
        for path in (ROOT / "agent/heat_config_agent").rglob("health.py")
    )
    written = set(re.findall(r'(?m)(?:_metric\(\s*|^ {8}\()"(\w+)", ?', source))
    table = (
        (ROOT / "docs/monitor.md")
        .read_text()
        .partition("| metric | meaning |")[2]
        .partition("\n\n")[0]
    )

    assert written
    assert set(re.findall(r"(?m)^\| `(\w+)", table)) == written
