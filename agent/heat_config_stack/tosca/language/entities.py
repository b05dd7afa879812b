"""The keynames of every entity of versions 1.0 to 1.3 (sections 3.5 to 3.9 of the specification), as tables.

A keyname that one version has is taken in all others, as no one is helped by a refusal.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from heat_config_agent.model.positions import Json, Path
from heat_config_stack.tosca.language.constraints import asserted
from heat_config_stack.tosca.language.grammar import (
    ANY,
    OCCURRENCES,
    SCALAR,
    TEXT,
    TEXTS,
    TRUTH,
    VERSION,
    WHOLE,
    Kind,
    either,
    entity,
    list_of,
    map_of,
    named,
    word,
)

NULLABLE = Kind("any", hint="null")
NAMES = list_of(TEXT)
VALUES = map_of(ANY)


def _since(version: str, *keys: str) -> dict[str, str]:
    return dict.fromkeys(keys, version)


CLAUSES = list_of(ANY, "write a list of constraints: `- OPERATOR: VALUE`")
HOST_NAMES = ("SELF", "HOST", "SOURCE", "TARGET", "ORCHESTRATOR")

# Definitions (section 3.5).

_secret = either(str=TEXT, dict=ANY)
CREDENTIAL = entity(
    "a credential",
    {
        "protocol": TEXT,
        "token_type": TEXT,
        "token": _secret,
        "keys": map_of(_secret),
        "user": _secret,
    },
)
REPOSITORY = entity(
    "a repository",
    {"url": TEXT, "description": TEXT, "credential": CREDENTIAL},
    "url",
    short="url",
)
IMPORT = entity(
    "an import",
    {"file": TEXT, "repository": TEXT, "namespace_uri": TEXT, "namespace_prefix": TEXT},
    "file",
    short="file",
)

_schema: dict[str, Kind] = {"type": TEXT, "description": TEXT, "constraints": CLAUSES}
_nested = _since("1.3", "entry_schema", "key_schema")
SCHEMA = either(str=TEXT, dict=entity("a schema", _schema, "type", since=_nested))
_schema |= {"entry_schema": SCHEMA, "key_schema": SCHEMA}

_attribute: dict[str, Kind] = {
    "type": TEXT,
    "description": TEXT,
    "default": ANY,
    "status": word("supported", "unsupported", "experimental", "deprecated"),
    "entry_schema": SCHEMA,
    "key_schema": SCHEMA,
    "metadata": TEXTS,
}
_keyed = _since("1.2", "metadata") | _since("1.3", "key_schema")
ATTRIBUTE = entity("an attribute", _attribute, since=_keyed)
_property = _attribute | {
    "required": TRUTH,
    "constraints": CLAUSES,
    "external-schema": TEXT,
    "external_schema": TEXT,
}
_valued = _property | {"value": ANY}
PROPERTY = entity(
    "a property", _valued, short="value", since=_keyed | _since("1.3", "value")
)
PARAMETER = entity("a parameter", _valued, since=_keyed)
PROPERTIES = map_of(PROPERTY)
ATTRIBUTES = map_of(ATTRIBUTE)
PARAMETERS = map_of(PARAMETER)

_clauses = either(str=ANY, dict=ANY, list=ANY)
_filter_properties = named(ANY)
NODE_FILTER = entity(
    "a node filter",
    {
        "properties": _filter_properties,
        "capabilities": named(
            entity("a filter of a capability", {"properties": _filter_properties})
        ),
    },
)

_artifact: dict[str, Kind] = {
    "type": TEXT,
    "file": TEXT,
    "repository": TEXT,
    "description": TEXT,
    "deploy_path": TEXT,
    "properties": VALUES,
    "artifact_version": SCALAR,
    "checksum": SCALAR,
    "checksum_algorithm": TEXT,
    "metadata": TEXTS,
}
_of_artifact = _since(
    "1.3", "properties", "artifact_version", "checksum", "checksum_algorithm"
)
ARTIFACT = entity("an artifact", _artifact, short="file", since=_of_artifact)
_script = either(
    str=TEXT, dict=entity("an artifact", _artifact, "file", since=_of_artifact)
)
IMPLEMENTATION = entity(
    "an implementation",
    {
        "primary": _script,
        "dependencies": list_of(_script),
        "timeout": WHOLE,
        "operation_host": word(*HOST_NAMES),
    },
    short="primary",
    since=_since("1.2", "timeout", "operation_host"),
)
_outputs = _since("1.3", "outputs")
_grouped = _since("1.3", "operations", "notifications")
_MAPPINGS = map_of(list_of(ANY, "write [ ENTITY, ATTRIBUTE ]"))
_operation: dict[str, Kind] = {
    "description": TEXT,
    "implementation": IMPLEMENTATION,
    "outputs": _MAPPINGS,
}
OPERATION_DEFINITION = entity(
    "an operation",
    _operation | {"inputs": PARAMETERS},
    short="implementation",
    since=_outputs,
)
OPERATION = entity(
    "an operation",
    _operation | {"inputs": VALUES},
    short="implementation",
    since=_outputs,
)
_interface: dict[str, Kind] = {
    "type": TEXT,
    "description": TEXT,
    "notifications": map_of(OPERATION),
}
INTERFACE_DEFINITION = entity(
    "an interface",
    _interface | {"inputs": PARAMETERS, "operations": map_of(OPERATION_DEFINITION)},
    others=OPERATION_DEFINITION,
    since=_grouped,
)
INTERFACE = entity(
    "an interface",
    {
        "inputs": VALUES,
        "operations": map_of(OPERATION),
        "notifications": map_of(OPERATION),
    },
    others=OPERATION,
    since=_grouped,
)
CAPABILITY_DEFINITION = entity(
    "a capability",
    {
        "type": TEXT,
        "description": TEXT,
        "properties": PROPERTIES,
        "attributes": ATTRIBUTES,
        "valid_source_types": NAMES,
        "occurrences": OCCURRENCES,
    },
    short="type",
)
REQUIREMENT_DEFINITION = entity(
    "a requirement",
    {
        "capability": TEXT,
        "description": TEXT,
        "node": TEXT,
        "relationship": entity(
            "a relationship",
            {"type": TEXT, "interfaces": map_of(INTERFACE_DEFINITION)},
            "type",
            short="type",
        ),
        "occurrences": OCCURRENCES,
        "node_filter": NODE_FILTER,
        "metadata": TEXTS,
    },
    short="capability",
)
REQUIREMENT_DEFINITIONS = named(REQUIREMENT_DEFINITION, unique=True)

# Types (section 3.6).

_type: dict[str, Kind] = {
    "derived_from": TEXT,
    "version": VERSION,
    "metadata": TEXTS,
    "description": TEXT,
}
_members: dict[str, Kind] = {"properties": PROPERTIES, "attributes": ATTRIBUTES}
_interfaces = map_of(INTERFACE_DEFINITION)
TYPES = {
    "artifact_types": entity(
        "an artifact type",
        _type | {"mime_type": TEXT, "file_ext": NAMES, "properties": PROPERTIES},
    ),
    "data_types": entity(
        "a data type",
        _type
        | {
            "constraints": CLAUSES,
            "properties": PROPERTIES,
            "entry_schema": SCHEMA,
            "key_schema": SCHEMA,
        },
    ),
    "capability_types": entity(
        "a capability type", _type | _members | {"valid_source_types": NAMES}
    ),
    "interface_types": entity(
        "an interface type",
        _type
        | {
            "inputs": PARAMETERS,
            "operations": map_of(OPERATION_DEFINITION),
            "notifications": map_of(OPERATION_DEFINITION),
        },
        others=OPERATION_DEFINITION,
        since=_grouped,
    ),
    "relationship_types": entity(
        "a relationship type",
        _type | _members | {"interfaces": _interfaces, "valid_target_types": NAMES},
    ),
    "node_types": entity(
        "a node type",
        _type
        | _members
        | {
            "requirements": REQUIREMENT_DEFINITIONS,
            "capabilities": map_of(CAPABILITY_DEFINITION),
            "interfaces": _interfaces,
            "artifacts": map_of(ARTIFACT),
        },
    ),
    "group_types": entity(
        "a group type",
        _type
        | _members
        | {
            "members": NAMES,
            "requirements": REQUIREMENT_DEFINITIONS,
            "capabilities": map_of(CAPABILITY_DEFINITION),
            "interfaces": _interfaces,
        },
    ),
}

_conditions: dict[str, Kind] = {}
CONDITION = entity(
    "a condition",
    _conditions,
    exclusive=True,
    since=_since("1.3", "not"),
    long=asserted,
)
CONDITIONS = list_of(CONDITION, "write a list of conditions: `- assert: …`")
_conditions |= {
    "and": CONDITIONS,
    "or": CONDITIONS,
    "not": CONDITIONS,
    "assert": named(ANY),
}
_monitored = either(str=ANY, list=CONDITIONS, dict=ANY)
_event_type = either(str=TEXT, dict=VALUES)
_event: dict[str, Kind] = {
    "description": TEXT,
    "event": _event_type,
    "event_type": _event_type,
    "schedule": VALUES,
    "target_filter": entity(
        "a target filter",
        {"node": TEXT, "requirement": TEXT, "capability": TEXT},
        "node",
    ),
    "condition": _monitored,
    "constraint": _monitored,
    "period": SCALAR,
    "evaluations": WHOLE,
    "method": TEXT,
    "action": either(str=TEXT, list=ANY, dict=ANY),
}
TRIGGER = entity("a trigger", _event, "action")
TYPES["policy_types"] = entity(
    "a policy type", _type | _members | {"targets": NAMES, "triggers": map_of(TRIGGER)}
)

# Templates (sections 3.7 and 3.8).

_relationship = entity(
    "a relationship",
    {
        "type": TEXT,
        "properties": VALUES,
        "attributes": VALUES,
        "interfaces": map_of(INTERFACE),
    },
    short="type",
)
REQUIREMENT = entity(
    "a requirement",
    {
        "node": TEXT,
        "capability": TEXT,
        "relationship": _relationship,
        "node_filter": NODE_FILTER,
        "occurrences": OCCURRENCES,
        "directives": NAMES,
    },
    short="node",
    since=_since("1.3", "directives"),
)
CAPABILITY = entity(
    "a capability",
    {
        "properties": VALUES,
        "attributes": VALUES,
        "occurrences": OCCURRENCES,
        "directives": NAMES,
    },
    since=_since("1.3", "occurrences", "directives"),
)
_template: dict[str, Kind] = {
    "type": TEXT,
    "description": TEXT,
    "metadata": TEXTS,
    "properties": VALUES,
}
_node: dict[str, Kind] = {
    "attributes": VALUES,
    "interfaces": map_of(INTERFACE),
    "copy": TEXT,
}
NODE = entity(
    "a node template",
    _template
    | _node
    | {
        "directives": NAMES,
        "requirements": named(REQUIREMENT),
        "capabilities": map_of(CAPABILITY),
        "artifacts": map_of(ARTIFACT),
        "node_filter": NODE_FILTER,
    },
)
RELATIONSHIP = entity("a relationship template", _template | _node)
GROUP = entity(
    "a group",
    _template
    | {"attributes": VALUES, "members": NAMES, "interfaces": map_of(INTERFACE)},
    "type",
)
POLICY = entity(
    "a policy",
    _template | {"attributes": VALUES, "targets": NAMES, "triggers": map_of(TRIGGER)},
    "type",
)

# Workflows (sections 3.5.19 to 3.5.23 and 3.7.7).

_call = either(
    str=TEXT,
    dict=entity(
        "a call of an operation", {"operation": TEXT, "inputs": VALUES}, "operation"
    ),
)
_workflow = either(
    str=TEXT,
    dict=entity(
        "a call of a workflow", {"workflow": TEXT, "inputs": VALUES}, "workflow"
    ),
)
ACTIVITY = entity(
    "an activity",
    {
        "delegate": _workflow,
        "set_state": TEXT,
        "call_operation": _call,
        "inline": _workflow,
    },
    exclusive=True,
)
_steps = either(str=TEXT, list=NAMES)
STEP = entity(
    "a step",
    {
        "description": TEXT,
        "target": TEXT,
        "target_relationship": TEXT,
        "operation_host": TEXT,
        "filter": CONDITIONS,
        "activities": list_of(ACTIVITY),
        "on_success": _steps,
        "on_failure": _steps,
    },
    "activities",
)
WORKFLOW = entity(
    "a workflow",
    {
        "description": TEXT,
        "metadata": TEXTS,
        "inputs": PARAMETERS,
        "preconditions": list_of(
            entity(
                "a precondition",
                {"target": TEXT, "target_relationship": TEXT, "condition": CONDITIONS},
                "target",
            )
        ),
        "steps": map_of(STEP),
        "implementation": IMPLEMENTATION,
        "outputs": VALUES,
    },
    since=_since("1.3", "implementation", "outputs"),
)

# The service template (sections 3.8 and 3.9).

SUBSTITUTION = entity(
    "a substitution mapping",
    {
        "node_type": TEXT,
        "properties": VALUES,
        "attributes": VALUES,
        "capabilities": VALUES,
        "requirements": VALUES,
        "interfaces": VALUES,
        "substitution_filter": NODE_FILTER,
    },
    "node_type",
    since=_since("1.2", "properties", "interfaces")
    | _since("1.3", "attributes", "substitution_filter"),
)
TOPOLOGY = entity(
    "a topology template",
    {
        "description": TEXT,
        "inputs": PARAMETERS,
        "node_templates": map_of(NODE),
        "relationship_templates": map_of(RELATIONSHIP),
        "groups": map_of(GROUP),
        "policies": either(list=named(POLICY, unique=True), dict=map_of(POLICY)),
        "outputs": PARAMETERS,
        "substitution_mappings": SUBSTITUTION,
        "workflows": map_of(WORKFLOW),
    },
    since=_since("1.1", "workflows"),
)
SERVICE = entity(
    "a service template",
    {
        "tosca_definitions_version": ANY,
        "namespace": TEXT,
        "metadata": TEXTS,
        "template_name": SCALAR,
        "template_author": SCALAR,
        "template_version": VERSION,
        "description": TEXT,
        "dsl_definitions": NULLABLE,
        "repositories": map_of(REPOSITORY),
        "imports": list_of(ANY),
        **{section: map_of(kind) for section, kind in TYPES.items()},
        "topology_template": TOPOLOGY,
    },
    since=_since("1.3", "namespace"),
)

_NOT_OPERATIONS = frozenset(
    {
        "derived_from",
        "version",
        "metadata",
        "description",
        "type",
        "inputs",
        "operations",
        "notifications",
    }
)


def operations(
    content: Mapping[str, Json], path: Path
) -> Iterator[tuple[str, Json, Path]]:
    """Yield the operations of an interface by name, with their paths; 1.3 has them under a keyname of their own."""
    for name, operation in content.items():
        if name not in _NOT_OPERATIONS:
            yield name, operation, (*path, name)
    for name, operation in (content.get("operations") or {}).items():
        yield name, operation, (*path, "operations", name)
