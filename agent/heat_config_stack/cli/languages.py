"""The definition of a stack, in whichever language its template is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from heat_config_agent.diagnostics.kinds import TOSCA

if TYPE_CHECKING:
    from heat_config_agent.model.positions import Json
    from heat_config_stack.definition import Definition, Identity


def load(source: Json, identity: Identity) -> Definition:
    """Return the definition of a stack from its stored source, in whichever language it is. Raises `Invalid`."""
    if isinstance(source, dict) and source.get("language") == TOSCA:
        from heat_config_stack.tosca.compilation import loader as tosca  # noqa: PLC0415  # HOT needs none of it

        return tosca.load(source, identity)
    from heat_config_stack.hot import loader as hot  # noqa: PLC0415  # TOSCA needs none of it

    return hot.load(source, identity)
