"""The configs of a stack: what a config declares, and the service that stores configs for resources."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from heat_config_agent.model.positions import Json
from heat_config_stack import definition
from heat_config_stack.records import exception, records
from heat_config_stack.records.records import ConfigRecord
from heat_config_stack.records.store import Memory
from heat_config_stack.resource.constraints import AllowedValues
from heat_config_stack.resource.properties import Properties, Schema, of_parameter

DEFAULTS = {
    "String": of_parameter(definition.Schema("default", "string")),
    "Number": of_parameter(definition.Schema("default", "number")),
    "CommaDelimitedList": of_parameter(
        definition.Schema("default", "comma_delimited_list")
    ),
    "Json": of_parameter(definition.Schema("default", "json")),
    "Boolean": of_parameter(definition.Schema("default", "boolean")),
}
"""The types of inputs, with the schemas of their defaults."""

_NAMED = AllowedValues(list(DEFAULTS))

INPUT: dict[str, Schema] = {
    "name": Schema(Schema.STRING, "Name of the input.", required=True),
    "description": Schema(Schema.STRING, "Description of the input."),
    "type": Schema(
        Schema.STRING, "Type of the value.", default="String", constraints=[_NAMED]
    ),
    "default": Schema(Schema.ANY, "Value if none is given."),
    "replace_on_change": Schema(
        Schema.BOOLEAN,
        "Whether a changed value replaces the deployment instead of updating it.",
        default=False,
    ),
}
"""The schema of an input."""

OUTPUT: dict[str, Schema] = {
    "name": Schema(Schema.STRING, "Name of the output.", required=True),
    "description": Schema(Schema.STRING, "Description of the output."),
    "type": Schema(
        Schema.STRING, "Type of the value.", default="String", constraints=[_NAMED]
    ),
    "error_output": Schema(
        Schema.BOOLEAN,
        "Whether a value means that the deployment has failed.",
        default=False,
    ),
}
"""The schema of an output."""


def new_config(values: Mapping[str, Any], stack: str) -> ConfigRecord:
    """Return a config. Raises ValueError if a default does not match its type."""
    return ConfigRecord(
        id=records.new_id(),
        name=values["name"],
        group=values.get("group") or "Heat::Ungrouped",
        config=values.get("config"),
        options=dict(values.get("options") or {}),
        inputs=[_input(each) for each in values.get("inputs") or ()],
        outputs=[_output(each) for each in values.get("outputs") or ()],
        creation_time=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        stack=stack,
    )


def _input(declared: Mapping[str, Any]) -> dict[str, Json]:
    type_ = declared.get("type") or "String"
    default = declared.get("default")
    settled = {
        "name": declared["name"],
        "type": type_,
        "description": declared.get("description") or "",
        "default": _default(type_, default),
    }
    return (
        {**settled, "replace_on_change": True}
        if declared.get("replace_on_change")
        else settled
    )


def _default(type_: str, value: Json) -> Json:
    """Return a default converted to its type; an empty text matches all types."""
    return (
        ""
        if value == ""
        else Properties({"default": DEFAULTS[type_]}, {"default": value})["default"]
    )


def _output(declared: Mapping[str, Any]) -> dict[str, Json]:
    return {
        "name": declared["name"],
        "type": declared.get("type") or "String",
        "description": declared.get("description") or "",
        "error_output": bool(declared.get("error_output")),
    }


class ConfigService:
    """Stores the configs of a stack: the part of Heat's RPC client that the handlers of configs call."""

    def __init__(self, store: Memory, stack: str) -> None:
        """Take the store, and the id of the stack to which new configs belong."""
        self._store, self._stack = store, stack

    def create_software_config(self, context: object, **values: Any) -> dict[str, Json]:  # noqa: ARG002  # Heat's
        """Store a config, and return it with its id."""
        config = new_config(values, self._stack)
        self._store.put(config)
        return config.entry()

    def show_software_config(self, context: object, config_id: str) -> dict[str, Json]:  # noqa: ARG002
        """Return a config. Raises NotFound."""
        return self._found(config_id).entry()

    def delete_software_config(self, context: object, config_id: str) -> None:  # noqa: ARG002
        """Delete a config. Raises NotFound."""
        self._store.drop(self._found(config_id))

    def _found(self, config_id: str) -> ConfigRecord:
        config = self._store.configs.get(config_id)
        if config is None:
            raise exception.NotFound(f"Software config with id {config_id} not found")
        return config

    @contextmanager
    def ignore_error_by_name(self, name: str) -> Iterator[None]:
        """Return a context that swallows exceptions of one class, by its name."""
        try:
            yield
        except Exception as error:
            if type(error).__name__ != name:
                raise
