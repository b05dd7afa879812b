"""A part of a source's document: one deployment that is carried out again without the others. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from heat_config_agent.deployments import metadata
from heat_config_agent.model.deployment import Document
from heat_config_agent.model.entry import Entry


def part(
    entry: Entry, document: Mapping[str, object], signatures: tuple[str, ...] = ()
) -> Document | None:
    """Return a document with only the deployment of an entry; None if it would count as another deployment.

    `document` is its entry in the document of its source, or the one that was kept, and `signatures` are the evidence
    of it.
    """
    alone = Document(
        source=entry.source, content=[document], signatures=signatures, is_part=True
    )
    parsed = metadata.parse(alone).deployments
    return alone if [each.key for each in parsed] == [entry.key] else None
