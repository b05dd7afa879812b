"""examples/agent.conf: every setting is in it, with its default."""

from __future__ import annotations

import re
from pathlib import Path

import reference
from heat_config_agent.settings import layers
from heat_config_agent.settings.schema import SETTINGS

EXAMPLE = Path(__file__).parents[2] / "examples/agent.conf"


def test_the_example_has_every_setting_with_its_default(tmp_path: Path) -> None:
    """Removing a `#` from the example sets a setting to its default."""
    own = tmp_path / "agent.conf"
    lines = EXAMPLE.read_text().splitlines()
    names = {each.name for each in SETTINGS}
    commented = re.compile(f"^# (?=({'|'.join(sorted(names))}) =)")
    said = [commented.sub("", line) for line in lines]
    own.write_text("\n".join(said))
    layer = layers.file(own)
    assert layer.own
    assert layer.mistakes == ()
    found = {
        (section, name): value
        for section, values in layer.sections.items()
        for name, value in values.items()
    }
    assert found == {(each.section, each.name): each.default for each in SETTINGS}


def test_the_example_is_made_from_the_declarations() -> None:
    """`make reference` writes it, so that a new setting is in it with its meaning."""
    assert EXAMPLE.read_text() == reference.example_file()


def test_the_example_by_itself_changes_nothing() -> None:
    """All of it is commented out."""
    assert layers.file(EXAMPLE, own=True).sections == {}
