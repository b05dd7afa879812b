"""The versions of the profile that a document may name (section 3.1 of the specification)."""

from __future__ import annotations

PREFIX = "tosca_simple_yaml_"
_URI = "http://docs.oasis-open.org/tosca/ns/simple/yaml/"

VERSIONS = ("1.0", "1.1", "1.2", "1.3")
"""From the oldest to the newest."""

NAMES = {name: version for version in VERSIONS for name in (PREFIX + version.replace(".", "_"), _URI + version)}
"""The version for each value that `tosca_definitions_version` may have."""

SHORT = tuple(PREFIX + version.replace(".", "_") for version in VERSIONS)
"""The names that a message shows."""
