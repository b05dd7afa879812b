"""Documents of 100 kB that are made to be slow, large or endless for whoever reads them."""

from __future__ import annotations

from collections.abc import Callable

SIZE = 100_000

HEAD = "tosca_definitions_version: tosca_simple_yaml_1_3\n"
_TYPES = f"{HEAD}node_types:\n"
_DATA = f"{HEAD}data_types:\n"
_NODES = f"{HEAD}topology_template:\n  node_templates:\n"
_INPUTS = f"{HEAD}topology_template:\n  inputs:\n"
_WITH_NODE = (
    f"{HEAD}topology_template:\n  node_templates: {{ n: {{ type: Compute }} }}\n"
)
_STEPS = f"{_WITH_NODE}  workflows:\n    w:\n      steps:\n"
_HOST = "capabilities: { host: { properties: { num_cpus: %d } } }"
_FILTER = "node_filter: { capabilities: [ host: { properties: [ num_cpus: { equal: %d } ] } ] }"


def filled(head: str, line: Callable[[int], str], tail: str = "") -> str:
    """Return a text of `SIZE` characters: a head, as many lines as fit, each made of its number, and a tail."""
    parts, left, number = [head], SIZE - len(head) - len(tail), 0
    while left > 0:
        parts.append(line(number))
        left -= len(parts[-1])
        number += 1
    return "".join([*parts, tail])


def nested(before: str, inner: str, after: str, depth: int) -> str:
    """Return a text in which something is nested."""
    return before * depth + inner + after * depth


DOCUMENTS = {
    "flow-lists": f"{HEAD}a: " + nested("[", "", "]", 49_000),
    "flow-maps": f"{HEAD}a: " + nested("{a: ", "b", "}", 19_000),
    "aliases-of-aliases": f"{HEAD}dsl_definitions:\n  a0: &a0 [ x, x, x, x, x, x, x, x, x, x ]\n"
    + "".join(
        f"  a{number + 1}: &a{number + 1} [ {', '.join([f'*a{number}'] * 10)} ]\n"
        for number in range(9)
    ),
    "doubled-aliases": filled(
        f"{_INPUTS}    a: {{ type: map, default: &a0 {{ a: b }} }}\n",
        lambda number: (
            f"    b{number}: {{ type: map, default: &a{number + 1} {{ a: *a{number}, b: *a{number} }} }}\n"
        ),
    ),
    "endless-alias": f"{HEAD}topology_template: &a {{ node_templates: *a }}\n",
    "merges": filled(
        f"{HEAD}dsl_definitions:\n  a: &a {{ {', '.join(f'k{number}: 1' for number in range(3000))} }}\n",
        lambda number: f"  b{number}: {{ <<: *a }}\n",
    ),
    "merges-of-merges": filled(
        f"{HEAD}dsl_definitions:\n  a0: &a0 {{ k: 1 }}\n",
        lambda number: (
            f"  a{number + 1}: &a{number + 1} {{ <<: *a{number}, k{number}: 1 }}\n"
        ),
    ),
    "one-key": filled(f"{HEAD}metadata:\n", lambda _: "  a: b\n"),
    "unknown-keys": filled(HEAD, lambda number: f"nodetypes{number}: b\n"),
    "long-key": f"{HEAD}{'a' * 99_000}: 1\n",
    "long-type": f"{HEAD}topology_template: {{ node_templates: {{ a: {{ type: {'C' * 99_000} }} }} }}\n",
    "long-number": f"{HEAD}topology_template: {{ inputs: {{ a: {{ type: integer, default: {'9' * 99_000} }} }} }}\n",
    "long-version": f"{HEAD}metadata: {{ template_version: 1.{'9' * 99_000} }}\n",
    "derived-types": filled(
        f"{_TYPES}  t0: {{ derived_from: Root }}\n",
        lambda number: (
            f"  t{number + 1}: {{ derived_from: t{number}, properties: {{ p{number}: string }} }}\n"
        ),
    ),
    "derived-backwards": f"{_TYPES}"
    + "".join(
        f"  t{number}: {{ derived_from: t{number + 1} }}\n" for number in range(3000)
    )
    + "  t3000: { derived_from: Root }\n",
    "derived-constraints": filled(
        f"{_DATA}  t0: {{ derived_from: string }}\n",
        lambda number: (
            f"  t{number + 1}: {{ derived_from: t{number}, constraints: [ {{ min_length: {number} }} ] }}\n"
        ),
    ),
    "types-of-properties": filled(
        _DATA,
        lambda number: (
            f"  t{number}: {{ properties: {{ a: {{ type: t{number + 1} }} }} }}\n"
        ),
    ),
    "nodes": filled(_NODES, lambda number: f"    n{number}: {{ type: Compute }}\n"),
    "unknown-types": filled(
        _NODES, lambda number: f"    n{number}: {{ type: Computee{number} }}\n"
    ),
    "unfulfilled": filled(
        _NODES, lambda number: f"    n{number}: {{ type: SoftwareComponent }}\n"
    ),
    "filtered": filled(
        _NODES,
        lambda number: (
            f"    n{number}: {{ type: SoftwareComponent, requirements: [ host: {{ node: Compute, "
            f"{_FILTER % number} }} ] }}\n    c{number}: {{ type: Compute, {_HOST % (number + 1)} }}\n"
        ),
    ),
    "in-a-row": filled(
        _NODES,
        lambda number: (
            f"    n{number}: {{ type: Root, requirements: [ dependency: n{number + 1} ] }}\n"
        ),
    ),
    "many-targets": filled(
        f"{_NODES}    a: {{ type: Compute }}\n    n:\n      type: Compute\n      requirements:\n",
        lambda _: "      - dependency: a\n",
    ),
    "copies": filled(
        f"{_NODES}    a: {{ type: Compute }}\n",
        lambda number: f"    n{number}: {{ copy: a }}\n",
    ),
    "substituted": filled(
        _NODES,
        lambda number: (
            f"    n{number}: {{ type: Compute, directives: [ substitute ] }}\n"
        ),
    ),
    "properties-of-properties": filled(
        _NODES.replace(
            "topology",
            "node_types: { T: { derived_from: Root, properties: { a: string } } }\ntopology",
        ),
        lambda number: (
            f"    n{number}: {{ type: T, properties: {{ a: {{ get_property: [ n{number + 1}, a ] }} }} }}\n"
        ),
    ),
    "functions": f"{_WITH_NODE}  outputs:\n    o: {{ value: "
    + nested("{ concat: [ ", "a", " ] }", 80)
    + " }\n",
    "patterns": filled(
        _INPUTS,
        lambda number: (
            f"    i{number}: {{ type: string, default: {'a' * 30}b, constraints: [ pattern: '(a+)+' ] }}\n"
        ),
    ),
    "wrong-entries": f"{_INPUTS}    a: {{ type: list, entry_schema: integer, default: [ {'x, ' * 30_000} ] }}\n",
    "steps-in-a-row": filled(
        _STEPS,
        lambda number: (
            f"        s{number}: {{ target: n, activities: [ set_state: a ], on_success: s{number + 1} }}\n"
        ),
    ),
    "steps-for-all": _STEPS
    + "".join(
        f"        s{number}: {{ target: n, activities: [ set_state: a ], on_success: "
        f"[ {', '.join(f's{later}' for later in range(number + 1, 160))} ] }}\n"
        for number in range(160)
    ),
    "workflows-in-workflows": filled(
        f"{_WITH_NODE}  workflows:\n",
        lambda number: (
            f"    w{number}: {{ steps: {{ s: {{ activities: [ inline: w{number + 1} ] }} }} }}\n"
        ),
    ),
    "conditions": f"{_STEPS}        s: {{ target: n, activities: [ set_state: a ], filter: [ "
    + nested("{ and: [ ", "{ assert: [ state: [ equal: a ] ] }", " ] }", 45)
    + " ] }\n",
    "imports": filled(f"{HEAD}imports:\n", lambda number: f"- nothing{number}.yaml\n"),
    "documents": f"{HEAD}" + "---\n" * 24_000,
}
"""By name, in the words of what there is much of."""
