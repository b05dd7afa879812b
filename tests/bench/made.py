"""Service templates of any size: a tenth of the nodes are servers; the rest needs one another in rows of five."""

from __future__ import annotations

_HEAD = """\
tosca_definitions_version: tosca_simple_yaml_1_2
node_types:
  my.App:
    derived_from: tosca.nodes.SoftwareComponent
    properties:
      port: { type: integer, default: 80, constraints: [ { in_range: [ 1, 65535 ] } ] }
      label: { type: string, required: false }
    capabilities:
      endpoint: { type: tosca.capabilities.Endpoint }
    requirements:
      - upstream:
          capability: tosca.capabilities.Endpoint
          relationship: tosca.relationships.ConnectsTo
          occurrences: [ 0, UNBOUNDED ]
topology_template:
  inputs:
    cpus: { type: integer, default: 2, constraints: [ { valid_values: [ 1, 2, 4 ] } ] }
  node_templates:
"""
_SERVER = """\
    server_{0}:
      type: tosca.nodes.Compute
      capabilities:
        host:
          properties:
            num_cpus: {{ get_input: cpus }}
            mem_size: 4 GB
        os:
          properties: {{ type: linux, distribution: debian }}
"""
_APP = """\
    app_{0}:
      type: my.App
      properties:
        port: {2}
        label: {{ concat: [ app, '-', {0} ] }}
      requirements:
        - host: server_{1}
{3}      interfaces:
        Standard:
          create:
            implementation: scripts/create.sh
            inputs:
              port: {{ get_property: [ SELF, port ] }}
              address: {{ get_attribute: [ server_{1}, private_address ] }}
"""
_TAIL = "  outputs:\n    first: { value: { get_attribute: [ server_0, private_address ] } }\n"


def service(nodes: int) -> str:
    """Return a service template of that many nodes."""
    servers = nodes // 10
    parts = [_HEAD, *(_SERVER.format(number) for number in range(servers))]
    for number in range(nodes - servers):
        upstream = f"        - upstream: app_{number - 1}\n" if number % 5 else ""
        parts.append(_APP.format(number, number % servers, 1000 + number, upstream))
    return "".join([*parts, _TAIL])


def documents(number: int) -> dict[str, str]:
    """Return many small documents by name: types, templates and workflows, a fifth of them with a mistake."""
    return {f"{position}.yaml": _document(position) for position in range(number)}


def _document(position: int) -> str:
    mistake = "    wrong: { type: Nothing }\n" if position % 5 == 0 else ""
    return (
        "tosca_definitions_version: tosca_simple_yaml_1_3\n"
        f"node_types:\n  App{position}:\n    derived_from: tosca.nodes.SoftwareComponent\n"
        "    properties: { size: { type: scalar-unit.size, default: 4 GB } }\n"
        "    interfaces: { Standard: { create: { implementation: create.sh } } }\n"
        "topology_template:\n  inputs: { name: { type: string } }\n  node_templates:\n"
        "    server: { type: Compute }\n"
        f"    app: {{ type: App{position}, requirements: [ host: server ] }}\n{mistake}"
        "  outputs: { state: { value: { get_attribute: [ app, state ] } } }\n"
    )
