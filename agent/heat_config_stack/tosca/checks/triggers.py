"""Checks of triggers of policies and policy types (section 3.5.18 of the specification)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from heat_config_agent.model.positions import Json, Path
from heat_config_stack.tosca.files.documents import Document
from heat_config_stack.tosca.language import entities, values
from heat_config_stack.tosca.language.grammar import ABSENT, held, list_of
from heat_config_stack.tosca.language.primitives import READERS
from heat_config_stack.tosca.language.types import schema
from heat_config_stack.tosca.topology.filters import assertions, check_clauses

_INTERVAL = "tosca.datatypes.TimeInterval"
_ACTIONS = list_of(entities.ACTIVITY)


def check_triggers(triggers: Mapping[str, Json], path: Path, document: Document) -> None:
    """Report what is wrong with triggers, as far as that shows without a topology."""
    report = document.report
    for name, content in triggers.items():
        here = (*path, name)
        if not content:
            continue
        if content.get("event") is None and content.get("event_type") is None:
            report.wrong("a trigger needs event", here, "add event", code="key-missing")
        if content.get("schedule") is not None:
            values.check(content["schedule"], schema(_INTERVAL, document), (*here, "schedule"), report)
        condition = content.get("condition")
        _check_period(content.get("period"), (*here, "period"), document)
        if isinstance(condition, dict):
            _check_period(condition.get("period"), (*here, "condition", "period"), document)
        for conditions, where in monitored(content, here, document):
            for _, clauses, place in assertions(conditions, where):
                check_clauses(clauses, None, place, document)
        activities(content, here, document)


def monitored(content: Mapping[str, Any], path: Path, document: Document) -> Iterator[tuple[list[Any], Path]]:
    """Yield the lists of conditions of a trigger (1.3), without their faulty parts, which are reported."""
    condition = content.get("condition")
    for key in ("condition", "constraint"):
        if isinstance(content.get(key), list):
            yield content[key], (*path, key)
    if isinstance(condition, dict) and isinstance(condition.get("constraint"), list):
        where = (*path, "condition", "constraint")
        conditions = held(condition["constraint"], entities.CONDITIONS, where, document.report)
        yield ([] if conditions is ABSENT else conditions), where


def _check_period(value: Json, path: Path, document: Document) -> None:
    """Report a period whose text is not a time. A number means seconds."""
    if not isinstance(value, str):
        return
    try:
        READERS["scalar-unit.time"](value)
    except ValueError as error:
        document.report.wrong(f"period {error}", path, code="value")


def activities(content: Mapping[str, Any], path: Path, document: Document) -> list[Any]:
    """Return the activities of a trigger (1.3), without their faulty parts, which are reported; none of other forms."""
    action = content.get("action")
    return held(action, _ACTIONS, (*path, "action"), document.report) if isinstance(action, list) else []
