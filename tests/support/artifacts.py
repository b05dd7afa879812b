"""Artifacts as OCI registries have them: a manifest that describes layers, and blobs by their digests."""

from __future__ import annotations

import hashlib
import json

ARCHIVE = "application/vnd.oci.image.layer.v1.tar+gzip"
"""The kind of a layer that is an archive."""


def digest(content: bytes) -> str:
    """Return the name of a blob."""
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def layer(content: bytes, title: str = "", kind: str = "") -> dict[str, object]:
    """Return the description of a layer: a file with a title, or an archive."""
    return {
        "mediaType": kind or ("text/plain" if title else ARCHIVE),
        "digest": digest(content),
        "size": len(content),
        "annotations": {"org.opencontainers.image.title": title},
    }


def manifest(layers: list[dict[str, object]]) -> bytes:
    """Return the manifest of an artifact."""
    return json.dumps({"schemaVersion": 2, "layers": layers}).encode()
