"""The pages of the documentation site, by their sections, and the addresses of pages that have moved."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import PurePosixPath

FRONT = "README"
"""The front page. Pages are named by their paths in the repository, without the suffix."""

SECTIONS: dict[str, tuple[str, ...]] = {
    "Start": (
        "docs/tutorial",
        "docs/follow-tutorial",
        "docs/tosca-tutorial",
        "docs/hosts-tutorial",
        "docs/playground",
    ),
    "Guides": (
        "docs/install",
        "docs/images",
        "docs/migrate",
        "docs/configure",
        "docs/operate",
        "docs/monitor",
        "docs/verify",
        "docs/troubleshoot",
        "docs/stack",
        "docs/hosts",
        "docs/recipes",
        "docs/policy",
        "docs/secrets",
        "docs/write-a-hook",
        "docs/write-a-resource-type",
    ),
    "Reference": (
        "docs/deployments",
        "docs/tools",
        "docs/settings",
        "docs/files",
        "docs/commands",
        "docs/templates",
        "docs/tosca",
        "hooks/README",
        "examples/README",
        "docs/stability",
        "docs/glossary",
        "CHANGELOG",
    ),
    "Background": (
        "docs/architecture",
        "docs/tosca-design",
        "docs/decisions/README",
        "SECURITY",
        "docs/comparison",
        "docs/evidence/faults",
        "docs/evidence/tested-on",
        "docs/evidence/benchmarks",
        "CONTRIBUTING",
    ),
}
"""The four sections, each with its pages in their order."""

BELOW: dict[str, tuple[str, ...]] = {
    "docs/templates": ("docs/types",),
    "docs/decisions/README": ("docs/decisions/0*",),
    "CONTRIBUTING": (
        "STYLE",
        "CODE_OF_CONDUCT",
        "agent/README",
        "agent/internals",
        "packaging/README",
        "packaging/cloud-init/README",
        "packaging/compat/README",
        "packaging/mkosi/README",
        "packaging/monitoring/README",
        "packaging/container/README",
        "packaging/ansible/README",
        "systemd/README",
        "tests/README",
        "tests/support/README",
        "tests/corpus/README",
        "docs/release",
    ),
}
"""Pages that the tree shows below another one."""

MOVED = {
    "index": FRONT,
    "docs/README": FRONT,
    "docs/index": FRONT,
    "docs/five-minutes": "docs/tutorial",
    "docs/capabilities": "docs/templates#choose-templates-by-their-capabilities",
}
"""Addresses without a page, and the page, or its section, that each leads to."""


def pages() -> Iterator[str]:
    """Yield each page, or a pattern of pages."""
    yield FRONT
    for names in (*SECTIONS.values(), *BELOW.values()):
        yield from names


def redirects() -> dict[str, str]:
    """Return each address without a page, with the address that it leads to, relative to it."""
    addresses = {}
    for old, new in MOVED.items():
        name, mark, section = new.partition("#")
        up = "../" * (len(PurePosixPath(old).parts) - 1)
        addresses[old] = f"{up}{name}.html{mark}{section}"
    return addresses


def as_toctrees() -> str:
    """Return the sections in MyST, for the end of the front page."""
    return "".join(
        f"\n```{{toctree}}\n:hidden:\n:caption: {title}\n\n{chr(10).join(names)}\n```\n"
        for title, names in SECTIONS.items()
    )


def below(page: str) -> str:
    """Return the pages below a page in MyST, for its end; nothing where it has none."""
    names = BELOW.get(page)
    if not names:
        return ""
    listed = "\n".join(f"/{name}" for name in names)
    return f"\n```{{toctree}}\n:hidden:\n:glob:\n\n{listed}\n```\n"
