"""What the tests of the hooks share: a real podman."""

from __future__ import annotations

from containers import own_podman, podman

__all__ = ["own_podman", "podman"]
