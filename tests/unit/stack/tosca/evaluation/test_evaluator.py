"""Functions of a service: a known value, or a value that only a run can know (chapter 4 of the specification)."""

from __future__ import annotations

from typing import Any

import pytest

from heat_config_stack.definition import ROOT, Later, Unresolved, requires, resolve
from heat_config_stack.tosca.evaluation.evaluation import NOTHING, TooDeep
from tosca.model import Model, Running, model

SERVICE = """\
    data_types:
      Account: { derived_from: tosca.datatypes.Root, properties: { user: { type: string } } }
    capability_types:
      Api:
        derived_from: tosca.capabilities.Endpoint
        properties: { version: { type: string, default: v2 } }
        attributes: { quota: { type: integer, default: 7 } }
    relationship_types:
      Uses:
        derived_from: tosca.relationships.ConnectsTo
        properties: { timeout: { type: integer, default: 30 } }
    node_types:
      Base:
        derived_from: tosca.nodes.SoftwareComponent
        properties:
          level: { type: integer, default: 3 }
          account: { type: Account, required: false }
          names: { type: list, entry_schema: string, required: false }
          label: { type: string, required: false }
        attributes:
          token: { type: string, default: none }
          members: { type: list, entry_schema: string }
        capabilities: { api: Api }
        artifacts: { page: { type: tosca.artifacts.File, file: pages/index.html } }
        interfaces:
          Standard:
            operations:
              create:
                implementation: create.sh
                outputs: { key: [ SELF, token ], all: [ SELF, members ] }
      Derived:
        derived_from: Base
        requirements: [ backend: { capability: Api, relationship: Uses, occurrences: [ 0, UNBOUNDED ] } ]
    topology_template:
      inputs:
        port: { type: integer, default: 80 }
        ports: { type: map, entry_schema: integer, default: { web: 81 } }
      node_templates:
        server: { type: Compute, capabilities: { host: { properties: { num_cpus: 2 } } } }
        platform:
          type: Base
          properties: { label: platform }
          requirements: [ host: server ]
        base:
          type: Base
          properties: { level: { get_input: port }, account: { user: joe }, names: [ a, b ], label: base }
          requirements: [ host: server ]
        app:
          type: Derived
          capabilities: { api: { properties: { protocol: http } } }
          requirements: [ host: server, backend: base ]
"""


@pytest.fixture
def service() -> Model:
    """A service with two nodes on a machine, of which one uses the other."""
    return model(SERVICE)


@pytest.mark.parametrize(
    ("tree", "value"),
    [
        ({"get_input": "port"}, 80),
        ({"get_input": ["ports", "web"]}, 81),
        ({"get_input": ["ports", "other"]}, None),
        ({"get_property": ["SELF", "level"]}, 3),
        ({"get_property": ["base", "level"]}, 80),
        ({"get_property": ["base", "account", "user"]}, "joe"),
        ({"get_property": ["base", "names", 1]}, "b"),
        ({"get_property": ["base", "names", 5]}, None),
        ({"get_property": ["SELF", "api", "version"]}, "v2"),
        ({"get_property": ["SELF", "api", "protocol"]}, "http"),
        ({"get_property": ["SELF", "backend", "version"]}, "v2"),
        ({"get_property": ["SELF", "backend", "level"]}, 80),
        ({"get_property": ["HOST", "host", "num_cpus"]}, 2),
        ({"get_property": ["SELF", "nothing"]}, None),
        ({"get_property": ["nobody", "level"]}, None),
        ({"get_attribute": ["SELF", "tosca_name"]}, "app"),
        ({"get_attribute": ["SELF", "api", "quota"]}, 7),
        ({"get_attribute": ["SELF", "level"]}, 3),
        ({"get_attribute": ["server", "private_address"]}, "127.0.0.1"),
        ({"get_attribute": ["SELF", "api", "ip_address"]}, "127.0.0.1"),
        ({"get_nodes_of_type": "Base"}, ["platform", "base", "app"]),
        ({"get_nodes_of_type": ["Derived"]}, ["app"]),
        ({"concat": ["http://", {"get_input": "port"}, None]}, "http://80"),
        ({"join": [["a", "b"]]}, "ab"),
        ({"join": [["a", 1], ", "]}, "a, 1"),
        ({"token": ["a:b;c", ":;", 2]}, "c"),
        ({"token": "a text"}, {"token": "a text"}),
        (
            [{"get_input": "port"}, {"inner": {"get_input": "port"}}],
            [80, {"inner": 80}],
        ),
        ({"get_input": "port", "more": 1}, {"get_input": "port", "more": 1}),
    ],
)
def test_function_of_known_arguments_is_evaluated_early(
    service: Model, tree: Any, value: Any
) -> None:
    """A function whose arguments are known gives its value before anything runs."""
    assert service.value(tree, "app") == value


@pytest.mark.parametrize(
    ("tree", "problem"),
    [
        ({"join": ["text", ","]}, "join needs a list of values"),
        ({"token": ["a:b", ":", 2]}, "token finds no part 2 in a text of 2"),
    ],
)
def test_arguments_that_do_not_fit_are_refused(
    service: Model, tree: Any, problem: str
) -> None:
    """A function with arguments that it cannot use has no value."""
    with pytest.raises(Unresolved, match=problem):
        service.value(tree, "app")


def test_source_and_target_are_the_ends_of_a_relationship(service: Model) -> None:
    """SELF is the relationship, and SOURCE and TARGET are its ends; in a node they have no meaning."""
    link = "app.backend.base"
    assert service.value({"get_property": ["SELF", "timeout"]}, link) == 30
    assert service.value({"get_attribute": ["SOURCE", "tosca_id"]}, link) == "app"
    assert service.value({"get_property": ["TARGET", "label"]}, link) == "base"
    assert service.value({"get_property": ["TARGET", "label"]}, "app") is None
    assert service.value({"get_property": ["SELF", "label"]}) is None


def test_input_value_replaces_the_default() -> None:
    """A given input is used by all properties that refer to it."""
    assert (
        model(SERVICE, {"port": 8080}).value({"get_property": ["base", "level"]})
        == 8080
    )


def test_property_that_needs_itself_is_refused() -> None:
    """Two properties that need each other have no value."""
    text = SERVICE.replace(
        "label: platform", "label: { get_property: [ base, label ] }"
    )
    text = text.replace("label: base", "label: { get_property: [ platform, label ] }")
    circle = model(text)
    with pytest.raises(TooDeep, match="label"):
        circle.value({"get_property": ["base", "label"]})
    assert circle.value({"get_property": ["base", "level"]}) == 80, (
        "the other properties keep their values"
    )


def test_state_is_known_to_a_run_alone(service: Model) -> None:
    """The state of a node is an attribute of its resource, for which nothing waits."""
    state = service.value({"get_attribute": ["base", "state"]})
    assert isinstance(state, Later)
    assert [*requires(state)] == []
    assert resolve(state, Running({("base", "state"): "started"})) == "started"


def with_operations(service: Model) -> Model:
    """Let each operation have the outputs of its node and its name."""
    service.evaluator.resource_of = lambda subject, _interface, operation: (
        f"{subject.name}.{operation}",
        operation,
    )
    return service


def test_output_of_an_operation_is_awaited(service: Model) -> None:
    """A text with an output is known once the operation has run; the operation is asked for that output."""
    tree = {
        "concat": [
            "key ",
            {"get_operation_output": ["base", "Standard", "create", "key"]},
        ]
    }
    value = with_operations(service).value(tree)
    assert {need.resource for need in requires(value)} == {"base.create"}
    assert resolve(value, Running({("base.create", "create"): {"key": "x"}})) == "key x"
    assert service.evaluator.outputs == {"base.create": {"create": {"key": ""}}}


def test_output_of_an_operation_that_is_not_implemented_is_null(service: Model) -> None:
    """Nothing is asked for an operation without a resource."""
    assert (
        service.value({"get_operation_output": ["base", "Standard", "delete", "key"]})
        is None
    )
    assert service.evaluator.outputs == {}


def test_output_sets_an_attribute(service: Model) -> None:
    """An attribute has the output that sets it, and its default until the operation has run."""
    value = with_operations(service).value({"get_attribute": ["base", "token"]})
    assert resolve(value, Running({("base.create", "create"): {"key": "x"}})) == "x"
    assert resolve(value, Running({})) == "none"
    assert service.evaluator.outputs == {"base.create": {"create": {"key": "string"}}}
    assert [of.resource for of in service.evaluator.replaceable] == ["base.create"]


def test_position_leads_into_an_attribute(service: Model) -> None:
    """A position leads into an attribute that only a run can know; the output has the type of the attribute."""
    value = with_operations(service).value({"get_attribute": ["base", "members", 1]})
    assert (
        resolve(value, Running({("base.create", "create"): {"all": ["a", "b"]}})) == "b"
    )
    assert service.evaluator.outputs == {"base.create": {"create": {"all": "list"}}}
    assert service.evaluator.replaceable == set(), (
        "no other value can stand in its place"
    )


def test_given_attributes_come_first() -> None:
    """An attribute that someone gives stands over all others, of a node or of its capability."""
    given: dict[str, dict[str, Any]] = {
        "server": {"public_address": "10.0.0.1"},
        "app.api": {"quota": 9},
    }
    service = model(SERVICE, given=given)
    assert service.value({"get_attribute": ["server", "public_address"]}) == "10.0.0.1"
    assert service.value({"get_attribute": ["app", "api", "quota"]}) == 9


def test_artifact_is_a_file_of_the_operation(service: Model) -> None:
    """The path of an artifact begins at the folder of the files, and the operation learns which file it needs."""
    artifacts: set[tuple[str, str]] = set()
    assert (
        service.value({"get_artifact": ["SELF", "page"]}, "app", artifacts=artifacts)
        == f"{ROOT}/pages/index.html"
    )
    assert artifacts == {("pages/index.html", "")}


def test_artifact_is_copied_to_a_location(service: Model) -> None:
    """With a location, the value is the path of the copy, which stays until the deletion or to the end of the run."""
    artifacts: set[tuple[str, str]] = set()
    tree = {"get_artifact": ["SELF", "page", "/srv/", True]}
    assert service.value(tree, "app", artifacts=artifacts) == "/srv/index.html"
    service.value(
        {"get_artifact": ["SELF", "page", "/srv/a"]}, "app", artifacts=artifacts
    )
    assert artifacts == {
        ("pages/index.html", "end:/srv/index.html"),
        ("pages/index.html", "delete:/srv/a"),
    }


INNER = """\
    node_types:
      Cluster:
        derived_from: tosca.nodes.Root
        properties: { size: { type: integer, default: 2 } }
        attributes: { address: { type: string }, leader: { type: string } }
    topology_template:
      inputs: { size: { type: integer } }
      substitution_mappings:
        node_type: Cluster
        properties: { size: [ first, size ] }
        attributes: { leader: [ first, tosca_name ] }
      node_templates:
        first: { type: Cluster, properties: { size: 1 } }
        second: { type: Cluster, properties: { size: { get_input: size } } }
      outputs: { address: { value: { concat: [ "at ", { get_property: [ second, size ] } ] } } }
"""


def substituted() -> Model:
    """Return a service with a node in whose place another service stands."""
    types = INNER.partition("    topology_template:")[0]
    outer = "    topology_template: { node_templates: { cluster: { type: Cluster, properties: { size: 5 } } } }\n"
    return model(
        types + outer,
        files={"inner.yaml": INNER},
        substitutes={"cluster": "inner.yaml"},
    )


def test_mapping_gives_a_property_to_an_inner_node() -> None:
    """A property of a substituted node stands over that of the node to which it is mapped; inputs have it as well."""
    service = substituted()
    assert service.evaluator.property_value(service.part("cluster.first"), "size") == 5
    assert service.evaluator.property_value(service.part("cluster.second"), "size") == 5


def test_attribute_of_a_substituted_node_is_an_inner_value() -> None:
    """It is the mapped attribute of an inner node, or else the output of that name."""
    service = substituted()
    cluster = service.layer.parts["cluster"]
    assert service.evaluator.attribute(cluster, "leader") == "first"
    assert service.evaluator.attribute(cluster, "address") == "at 5"


@pytest.mark.parametrize(
    ("states", "state"),
    [
        (("started", "creating"), "creating"),
        (("started", None), "started"),
        ((None, None), None),
    ],
)
def test_state_of_a_substituted_node_is_the_least_far(
    states: tuple[str | None, ...], state: str | None
) -> None:
    """A substituted node is as far as the inner node that has come the least far."""
    service = substituted()
    value = service.evaluator.attribute(service.layer.parts["cluster"], "state")
    names = ("cluster.first", "cluster.second")
    assert (
        resolve(
            value,
            Running(
                {(name, "state"): of for name, of in zip(names, states, strict=True)}
            ),
        )
        == state
    )


def test_unknown_property_is_nothing(service: Model) -> None:
    """A property that a type does not define differs from one without a value."""
    part = service.part("app")
    assert service.evaluator.property_value(part, "missing") is NOTHING
    assert service.evaluator.property_value(part, "account") is None
    assert service.evaluator.capability_value(part, "api", "missing") is NOTHING
    assert service.evaluator.capability_value(part, "missing", "version") is NOTHING
    assert service.evaluator.attribute(part, "missing") is NOTHING
