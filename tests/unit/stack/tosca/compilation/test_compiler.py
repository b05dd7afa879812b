"""The resources of a service: the order of operations, what each needs, and what a change of a target does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from heat_config_agent.diagnostics.mistakes import Invalid
from heat_config_stack.definition import Definition, Identity, requires
from heat_config_stack.tosca.compilation import reader

SERVICE = """\
tosca_definitions_version: tosca_simple_yaml_1_3
relationship_types:
  Uses:
    derived_from: tosca.relationships.ConnectsTo
    interfaces:
      Configure:
        inputs: { peer: { type: string, default: { get_attribute: [ TARGET, tosca_name ] } } }
        operations:
          pre_configure_source: run.sh
          post_configure_target: run.sh
          add_target: run.sh
          remove_target: run.sh
          target_changed: run.sh
node_types:
  App:
    derived_from: tosca.nodes.SoftwareComponent
    attributes: { key: { type: string } }
    properties: { size: { type: integer, default: 1 } }
    capabilities: { endpoint: tosca.capabilities.Endpoint }
    requirements: [ peer: { capability: tosca.capabilities.Endpoint, relationship: Uses, occurrences: [ 0, 5 ] } ]
    interfaces:
      Standard:
        operations:
          create: { implementation: run.sh, outputs: { key: [ SELF, key ] } }
          configure: run.sh
          start: run.sh
          stop: run.sh
          delete: run.sh
topology_template:
  node_templates:
    box: { type: Compute }
    db: { type: App, requirements: [ host: box ] }
    web: { type: App, requirements: [ host: box, peer: db ] }
"""


def compiled(folder: Path, text: str = SERVICE, **files: str) -> Definition:
    """Return the definition of a service with one script."""
    (folder / "run.sh").write_text("#!/bin/sh\n")
    (folder / "service.yaml").write_text(text)
    for name, content in files.items():
        (folder / name).write_text(content)
    wish = reader.Wish({}, {}, {}, {})
    return reader.define(str(folder / "service.yaml"), wish, Identity("service", "1"))


def test_operations_of_a_node_are_a_line(tmp_path: Path) -> None:
    """Each operation of a node needs the one before it, those of its relationships in their places between them."""
    definition = compiled(tmp_path)
    operations = definition.nodes["web"].operations
    assert operations == {
        "web.create": "create",
        "web.peer.db.pre_configure_source": "configure",
        "web.configure": "configure",
        "web.start": "start",
        "web.peer.db.add_target": "add",
        "web.peer.db.target_changed": "target_changed",
    }
    first, *line = list(operations)[:5]
    for before, name in zip([first, *line], line, strict=False):
        assert definition.resources[name].depends_on == (before,)
    assert (
        definition.nodes["db"].operations["web.peer.db.post_configure_target"]
        == "configure"
    )


def test_first_operation_needs_the_nodes_that_it_uses(tmp_path: Path) -> None:
    """A node begins when its host and the targets of its relationships are complete."""
    made = compiled(tmp_path)
    assert made.resources["web.create"].depends_on == ("box", "db")
    assert {"db.create", "db.configure", "db.start"} <= set(
        made.resources["db"].depends_on
    )
    assert made.resources["box"].depends_on == ()


def test_operation_and_its_inverse_are_one_resource(tmp_path: Path) -> None:
    """An operation and the one that undoes it are in one resource, on the machine of the node."""
    properties = compiled(tmp_path).resources["web.start"].properties
    assert (properties["operation"], properties["inverse"], properties["kind"]) == (
        "start",
        "stop",
        "start",
    )
    assert properties["config"] == properties["inverse_config"]
    assert properties["config"]["primary"] == "run.sh"
    assert [need.resource for need in requires(properties["server"])] == ["box"]
    assert properties["surroundings"] == {
        "TOSCA_NODE": "web",
        "TOSCA_INTERFACE": "Standard",
    }


def test_operation_runs_again_after_the_one_before_it(tmp_path: Path) -> None:
    """The trigger of an operation is the last run of the one before it; a relationship to be added has none."""
    resources = compiled(tmp_path).resources
    assert [
        need.resource for need in requires(resources["web.start"].properties["trigger"])
    ] == ["web.configure"]
    assert "trigger" not in resources["web.create"].properties
    assert "trigger" not in resources["web.peer.db.add_target"].properties


def test_change_of_a_target_is_noticed(tmp_path: Path) -> None:
    """`target_changed` has the runs of the target's operations and its properties as its trigger."""
    resource = compiled(tmp_path).resources["web.peer.db.target_changed"]
    trigger: Any = resource.properties["trigger"]
    assert [run.resource for run in trigger["runs"]] == [
        "db.create",
        "db.configure",
        "web.peer.db.post_configure_target",
        "db.start",
    ]
    assert trigger["properties"] == {"size": 1}
    assert resource.depends_on == ("web.start", "db")


def test_relationship_knows_its_ends(tmp_path: Path) -> None:
    """The operation of a relationship has its ends, and the value of an input for each target."""
    properties = compiled(tmp_path).resources["web.peer.db.add_target"].properties
    assert properties["input_values"] == {"peer": "db"}
    assert properties["surroundings"] == {
        "TOSCA_NODE": "web",
        "TOSCA_INTERFACE": "Configure",
        "TOSCA_REQUIREMENT": "peer",
        "SOURCE": "web",
        "TARGET": "db",
        "SOURCES": "web",
        "TARGETS": "db",
        "db_peer": "db",
    }


def test_output_that_sets_an_attribute_is_asked_for(tmp_path: Path) -> None:
    """The operation is asked for the output, and for its type."""
    outputs = "  outputs: { key: { value: { get_attribute: [ db, key ] } } }\n"
    resources = compiled(tmp_path, SERVICE + outputs).resources
    assert "outputs" not in resources["web.create"].properties, "nothing asks for it"
    properties = resources["db.create"].properties
    assert properties["outputs"] == {"create": ["key"]}
    assert properties["output_types"] == {"create": {"key": "string"}}


def test_input_from_a_later_operation_is_null(tmp_path: Path) -> None:
    """An operation does not wait for one that waits for it: its input is null, with a warning."""
    text = SERVICE.replace(
        "          configure: run.sh",
        "          configure: { implementation: run.sh, inputs: { later: { type: string, "
        "default: { get_operation_output: [ SELF, Standard, start, done ] } } } }",
    )
    made = compiled(tmp_path, text)
    assert made.resources["db.configure"].properties["input_values"] == {"later": None}
    problems = [warning.problem for warning in made.warnings]
    assert (
        "the input later of db.configure is null: it needs db.start, which comes later"
        in problems
    )


def test_operation_runs_on_the_orchestrator(tmp_path: Path) -> None:
    """An operation whose implementation says so runs on this machine, which is then a resource of the stack."""
    text = SERVICE.replace(
        "configure: run.sh",
        "configure: { implementation: { primary: run.sh, operation_host: ORCHESTRATOR } }",
    )
    made = compiled(tmp_path, text)
    (need,) = requires(made.resources["web.configure"].properties["server"])
    assert need.resource == "ORCHESTRATOR"
    assert made.resources["ORCHESTRATOR"].depends_on == ()


def test_missing_script_is_refused(tmp_path: Path) -> None:
    """A service whose operation has no file cannot be compiled, and the mistake is at the implementation."""
    with pytest.raises(Invalid) as caught:
        compiled(tmp_path, SERVICE.replace("configure: run.sh", "configure: away.sh"))
    (mistake,) = caught.value.mistakes
    assert (mistake.code, mistake.problem) == (
        "open-artifact",
        "there is no file away.sh",
    )
    assert mistake.place is not None
    assert (
        mistake.place.line
        == SERVICE.splitlines().index("          configure: run.sh") + 1
    )


def test_dependency_goes_along_with_a_script(tmp_path: Path) -> None:
    """The dependencies of an implementation are files of its config, next to the script."""
    text = SERVICE.replace(
        "configure: run.sh",
        "configure: { implementation: { primary: run.sh, dependencies: [ extra ], timeout: 9 } }",
    )
    properties = (
        compiled(tmp_path, text, extra="more").resources["web.configure"].properties
    )
    assert properties["config"]["files"] == {"run.sh": "#!/bin/sh\n", "extra": "more"}
    assert properties["options"] == {"timeout": 9}
