"""Playbooks of ansible, and deployments with them."""

from __future__ import annotations

import json
import sys
from typing import Any

from support.machine import deployment


def playbook(*tasks: dict[str, Any], **play: Any) -> list[dict[str, Any]]:
    """Return a playbook for this machine. Its interpreter is ours, so that none need be looked for."""
    variables = {"ansible_python_interpreter": sys.executable, **play.pop("vars", {})}
    usual = {"hosts": "localhost", "connection": "local", "gather_facts": False}
    return [{**usual, **play, "vars": variables, "tasks": list(tasks)}]


def ours(config: object = None, identity: str = "d1", **fields: Any) -> dict[str, Any]:
    """Return a deployment with this tool; its config is text."""
    text = (
        config
        if isinstance(config, str) or config is None
        else json.dumps(config, indent=2)
    )
    return deployment(identity, text, group="ansible", **fields)
