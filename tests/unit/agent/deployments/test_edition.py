from __future__ import annotations

import pytest

from heat_config_agent.deployments import edition
from heat_config_agent.model.deployment import Document, Mistake
from heat_config_agent.model.errors import UsageError
from heat_config_hooks.values import replace


def _document(*configs: str, asked: list[str]) -> Document:
    """Return a document by hand with a deployment for each config; `asked` gets the paths whose place is looked up."""

    def located(mistake: Mistake) -> Mistake:
        asked.append(mistake.path)
        return replace(mistake, place=f"s.yaml:{len(asked)}")

    content = [
        {"name": "same", "group": "script", "config": config} for config in configs
    ]
    return Document(source="file:s.yaml", content=content, located=located)


def test_place_of_a_deployment_is_looked_up_for_a_mistake_alone() -> None:
    """To look it up is to read the whole document again."""
    asked: list[str] = []
    edition.check([_document("a", "a", "a", asked=asked)])
    assert asked == []
    with pytest.raises(UsageError, match="the name 'same' is that of two deployments"):
        edition.check([_document("a", "b", asked=asked)])
    assert asked == ["[0].name", "[1].name"]
