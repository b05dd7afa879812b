"""Cases that are not as Heat has them, on purpose: `docs/templates.md` has the reasons."""

from __future__ import annotations

from typing import Any

DEVIATIONS: dict[str, dict[str, Any]] = {
    "section-capabilities": {
        "outcome": "ok",
        "state": ["CREATE", "COMPLETE"],
        "parameters": {
            "OS::project_id": "test_tenant_id",
            "OS::stack_id": "<uuid>",
            "OS::stack_name": "s1",
        },
        "resources": {},
        "outputs": {},
    },
    "registry-requires": {
        "outcome": "error",
        "stage": "validate",
        "error": {"message": "The Resource Type (My::Type) could not be found."},
    },
}
"""Case → what is to come of it here."""
