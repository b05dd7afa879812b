"""The language alone as a subject: what it can tell of a case before anything is made."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from heat_config_agent.diagnostics.mistakes import Invalid
from heat_config_agent.model.mistake import Mistake
from heat_config_agent.model.positions import Json, dotted
from heat_config_stack.definition import (
    Definition,
    Identity,
    Unresolved,
    requires,
    resolve,
)
from heat_config_stack.definition.files import File
from heat_config_stack.hot.loader import check_children, define
from heat_config_stack.hot.source import Source


class Nothing:
    """A `Look` at nothing: for values that need no resource."""

    def reference(self, resource: str) -> Json:
        raise AssertionError(resource)

    def attribute(self, resource: str, attribute: str, _path: Sequence[Json]) -> Json:
        raise AssertionError((resource, attribute))

    def attributes(self, resource: str) -> Json:
        raise AssertionError(resource)

    def facade(self, what: str) -> Json:
        raise Unresolved(what)


def source(case: dict[str, Any]) -> Source:
    """Return what the case is made of. A list of environments is sent as files, which win over parameters."""
    said = case.get("environment")
    texts = said if isinstance(said, list) else [] if said is None else [said]
    environments = tuple(
        File(f"environment-{index}.yaml", text) for index, text in enumerate(texts)
    )
    return Source(
        File("template.yaml", case["template"]),
        environments,
        case.get("files") or {},
        case.get("parameters") or {},
        files_win=isinstance(said, list),
    )


def run(case: dict[str, Any]) -> dict[str, Any]:
    """Return what the language tells of a case; of a lifecycle only how it begins."""
    # what is only validated has none
    id_ = "None" if case.get("mode") == "validate" else "<uuid>"
    identity = Identity(case.get("stack_name", "s1"), id_, "test_tenant_id")
    try:
        made = define(source(case), identity)
    except Invalid as invalid:
        return {"errors": [_error(each) for each in invalid.mistakes]}
    wrong, _ = check_children(made)
    if wrong:
        return {"errors": [_error(each) for each in wrong]}
    found = _told(made)
    if case.get("mode") == "validate":  # outputs are told of stacks
        del found["outputs"]
    return {"steps": [{"stack": found}]} if case.get("mode") == "lifecycle" else found


def _error(mistake: Mistake) -> dict[str, str]:
    return {
        "stage": mistake.kind,
        "path": dotted(mistake.path),
        "message": str(mistake),
    }


def _told(definition: Definition) -> dict[str, Any]:
    pseudo = {
        "OS::stack_id": definition.identity.id,
        "OS::stack_name": definition.identity.name,
        "OS::project_id": definition.identity.project,
    }
    return {
        "parameters": pseudo
        | {name: each.value for name, each in definition.parameters.items()},
        "resources": {
            name: {
                "requires": sorted(each.requirements()),
                "deletion_policy": each.deletion_policy,
            }
            for name, each in definition.resources.items()
        },
        "outputs": {
            name: _output(each.value) for name, each in definition.outputs.items()
        },
    }


def _output(value: Any) -> Any:
    if next(requires(value), None) is not None:
        return "untold"
    try:
        return {"value": resolve(value, Nothing())}
    except Unresolved as error:
        return {"value": None, "error": str(error)}
