"""The topology of a service: the target of each requirement, and inner services in the place of nodes."""

from __future__ import annotations

from textwrap import dedent
from typing import Any

import pytest

from tosca.model import Model, model

TYPES = """\
node_types:
  Database:
    derived_from: tosca.nodes.Root
    properties: { size: { type: integer, default: 1 } }
    capabilities: { data: tosca.capabilities.Endpoint.Database }
  App:
    derived_from: tosca.nodes.SoftwareComponent
    requirements:
      - database: { capability: tosca.capabilities.Endpoint.Database, node: Database, occurrences: [ 0, 5 ] }
"""
FACTS = {"host": {"num_cpus": 2}, "os": {"type": "linux"}}


def service(nodes: str, *, machine: Any = None, head: str = "", **more: Any) -> Model:
    """Return the model of a service with some node templates."""
    lines = "".join(f"    {line}\n" for line in dedent(nodes).splitlines())
    return model(
        f"{TYPES}topology_template:\n{head}  node_templates:\n{lines}",
        machine=machine,
        **more,
    )


def test_named_node_is_the_target() -> None:
    """A requirement that names a node is fulfilled by it, through the capability that it needs."""
    built = service("""\
        app: { type: App, requirements: [ host: box, database: db ] }
        box: { type: Compute }
        db: { type: Database }
    """)
    links = built.part("app").links
    assert [
        (link.requirement, link.target.name, link.capability) for link in links
    ] == [
        ("host", "box", "host"),
        ("database", "db", "data"),
    ]
    assert built.part("db").incoming == [links[1]]
    assert built.problems == []


def test_machine_of_a_node_is_its_host() -> None:
    """A node is on the machine to which HostedOn leads, over any number of nodes."""
    built = service("""\
        box: { type: Compute }
        platform: { type: tosca.nodes.WebServer, requirements: [ host: box ] }
        site: { type: tosca.nodes.WebApplication, requirements: [ host: platform ] }
        alone: { type: Database }
    """)
    box = built.part("box")
    assert [part.name for part in built.part("site").hosts] == ["platform", "box"]
    assert [built.part(name).machine for name in ("site", "box", "alone")] == [
        box,
        box,
        None,
    ]


def test_only_fitting_node_is_selected() -> None:
    """A requirement without a node is fulfilled by the one node of the type that it asks for."""
    built = service("""\
        box: { type: Compute }
        db: { type: Database }
        app: { type: App, requirements: [ database: {} ] }
    """)
    assert built.links == ["app.database.db", "app.host.box"]
    assert built.problems == []


def test_several_fitting_nodes_are_refused() -> None:
    """A requirement that several nodes can fulfil has no target."""
    built = service("""\
        box: { type: Compute }
        a: { type: Database }
        b: { type: Database }
        app: { type: App, requirements: [ host: box, database: {} ] }
    """)
    assert built.links == ["app.host.box"]
    assert built.problems == [
        "the requirement database of app can be fulfilled by several nodes: a, b"
    ]


@pytest.mark.parametrize(
    ("least", "target", "problems"),
    [
        (
            1,
            None,
            ["the requirement database of app can be fulfilled by several nodes: a, b"],
        ),
        (2, "b", []),
        (9, None, ["no node fulfils the requirement database of app"]),
    ],
)
def test_filter_is_held_against_evaluated_values(
    least: int, target: str | None, problems: list[str]
) -> None:
    """A node filter selects by the values of properties, also if functions give them."""
    built = service(
        f"""\
        box: {{ type: Compute }}
        a: {{ type: Database }}
        b: {{ type: Database, properties: {{ size: {{ get_input: size }} }} }}
        app:
          type: App
          requirements:
            - host: box
            - database: {{ node_filter: {{ properties: [ size: {{ greater_or_equal: {least} }} ] }} }}
        """,
        head="  inputs: { size: { type: integer, default: 5 } }\n",
    )
    found = [
        link.target.name
        for link in built.part("app").links
        if link.requirement == "database"
    ]
    assert found == ([target] if target else [])
    assert built.problems == problems


def test_this_machine_fulfils_a_requirement_for_a_host() -> None:
    """If no node fulfils a requirement for a Compute, a node for this machine does."""
    built = service("app: { type: App }\ndb: { type: Database }\n", machine=FACTS)
    assert [*built.topology.parts] == ["this_machine", "app", "db"]
    assert built.part("app").machine is built.topology.machine
    assert built.problems == []


def test_name_of_this_machine_is_free() -> None:
    """A template may have a node with the name of this machine."""
    built = service(
        "this_machine: { type: Database }\napp: { type: App }\n", machine=FACTS
    )
    assert [*built.topology.parts] == ["_this_machine", "this_machine", "app"]
    assert len({part.id for part in built.topology.parts.values()}) == 3


def test_this_machine_has_to_meet_a_filter() -> None:
    """A filter that asks for more than this machine has is refused with the facts of this machine."""
    wanted = "{ capabilities: [ host: { properties: [ num_cpus: { greater_or_equal: 8 } ] } ] }"
    built = service(
        f"app: {{ type: App, requirements: [ host: {{ node_filter: {wanted} }} ] }}\n",
        machine=FACTS,
    )
    (mistake,) = built.topology.mistakes
    assert mistake.problem == (
        "no node fulfils the requirement host of app, and this machine does not meet its filter"
    )
    assert mistake.hint == "this machine has num_cpus 2, type linux"


def test_relationships_to_the_same_target_have_numbers() -> None:
    """A target that fulfils a requirement twice has two relationships with names of their own."""
    built = service("""\
        box: { type: Compute }
        db: { type: Database }
        app: { type: App, requirements: [ host: box, database: db, database: db ] }
    """)
    assert built.links == ["app.host.box", "app.database.db", "app.database.db.2"]


def test_ids_of_nodes_differ() -> None:
    """Two nodes whose names give the same variable have different ids."""
    built = service('"a-b": { type: Database }\na_b: { type: Database }\n')
    assert [part.id for part in built.topology.parts.values()] == ["a_b", "a_b_2"]


INNER = """\
imports: [ types.yaml ]
topology_template:
  substitution_mappings:
    node_type: Cluster
    capabilities: { data: [ inner, data ] }
    requirements: { backend: [ front, backend ] }
  node_templates:
    inner: { type: Database }
    front: { type: Cluster }
"""
CLUSTER = """\
node_types:
  Database:
    derived_from: tosca.nodes.Root
    capabilities: { data: tosca.capabilities.Endpoint.Database }
  Cluster:
    derived_from: Database
    requirements:
      - backend: { capability: tosca.capabilities.Endpoint.Database, node: Database, occurrences: [ 0, 1 ] }
      - store: { capability: tosca.capabilities.Endpoint.Database, node: Database, occurrences: [ 0, 1 ] }
"""
OUTER = """\
imports: [ types.yaml ]
topology_template:
  node_templates:
    db: { type: Database }
    disk: { type: Database }
    cluster: { type: Cluster, requirements: [ backend: db, store: disk ] }
    user: { type: Cluster, requirements: [ backend: cluster ] }
"""


@pytest.fixture
def substituted() -> Model:
    """A service with a node in whose place another service stands."""
    files = {"inner.yaml": INNER, "types.yaml": CLUSTER}
    return model(OUTER, files=files, substitutes={"cluster": "inner.yaml"})


def test_inner_nodes_stand_in_the_place_of_a_substituted_one(
    substituted: Model,
) -> None:
    """The nodes of the inner service are in the topology, where the substituted node was."""
    assert [*substituted.topology.parts] == [
        "db",
        "disk",
        "cluster.inner",
        "cluster.front",
        "user",
    ]
    cluster = substituted.layer.parts["cluster"]
    assert [part.name for part in substituted.topology.everything(cluster)] == [
        "cluster.inner",
        "cluster.front",
    ]
    assert cluster.id == "cluster"


def test_relationship_leads_to_the_mapped_inner_node(substituted: Model) -> None:
    """A relationship to a substituted node leads to the node to which its capability is mapped."""
    (link,) = substituted.part("user").links
    assert (link.name, link.capability) == ("user.backend.cluster.inner", "data")


def test_mapped_requirement_is_that_of_an_inner_node(substituted: Model) -> None:
    """The target of a mapped requirement is the target of the substituted node."""
    (link,) = substituted.part("cluster.front").links
    assert link.name == "cluster.front.backend.db"
    assert substituted.part("cluster.inner").links == ()


def test_all_inner_nodes_need_the_targets_of_unmapped_requirements(
    substituted: Model,
) -> None:
    """A requirement that is mapped to nothing is one of every inner node: its target has to be there before them."""
    for name in ("cluster.inner", "cluster.front"):
        needed = substituted.topology.needed_around(substituted.part(name))
        assert [part.name for part in needed] == ["disk"]
    assert [*substituted.topology.needed_around(substituted.part("user"))] == []
