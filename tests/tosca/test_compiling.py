"""Valid documents become definitions of stacks, or it is said what is still needed to carry them out here."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from heat_config_agent.model.errors import UsageError
from heat_config_stack.definition import Identity
from heat_config_stack.lifecycle import validation
from heat_config_stack.resource_types import known_types
from heat_config_stack.tosca.compilation import loader, reader

FACTS: dict[str, dict[str, Any]] = {
    "host": {"num_cpus": 4, "mem_size": "8 GiB"},
    "os": {"type": "linux"},
}


def test_a_valid_document_becomes_a_stack(
    valid_document: tuple[Path, dict[str, Any]],
) -> None:
    """Its definition is valid, and what is stored of it makes the same resources without any file."""
    folder, verdict = valid_document
    wish = reader.Wish({}, {}, {}, FACTS)
    try:
        definition = reader.define(
            str(folder / verdict["file"]), wish, Identity("service", "1")
        )
    except UsageError:  # it lacks a value, a file or a node, or has types only
        return
    validation.check(definition, known_types())
    assert all(
        node.attributes().keys() >= {"tosca_id", "tosca_name"}
        for node in definition.nodes.values()
    )
    stored = json.loads(json.dumps(definition.source))
    assert loader.load(stored, Identity("service", "1")) is definition, (
        "an unchanged service is compiled once"
    )
    again = loader.load(stored, Identity("service", "2"))
    assert again.source == stored
    assert [*again.resources] == [*definition.resources]
    assert again.nodes.keys() == definition.nodes.keys()
