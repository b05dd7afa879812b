"""Sensitive properties: an operation has them as they are, and nothing that people see shows them."""

from __future__ import annotations

import json
from pathlib import Path

from support.machine import Machine
from support.planted import WORD

SERVICE = """\
tosca_definitions_version: tosca_simple_yaml_1_3
data_types:
  Account: {{ properties: {{ login: {{ type: string }}, password: {{ type: string }} }} }}
capability_types:
  Door:
    derived_from: tosca.capabilities.Endpoint
    properties: {{ pin: {{ type: string, metadata: {{ sensitive: "true" }} }} }}
node_types:
  Shop:
    derived_from: tosca.nodes.SoftwareComponent
    properties:
      plain: {{ type: string }}
      root_password: {{ type: string }}
      marked: {{ type: string, metadata: {{ sensitive: "true" }} }}
      accounts: {{ type: list, entry_schema: {{ type: Account }} }}
      login: {{ type: tosca.datatypes.Credential }}
    attributes: {{ copied: {{ type: string, default: {{ get_property: [ SELF, marked ] }} }} }}
    capabilities: {{ door: {{ type: Door }} }}
    requirements: [ other: {{ capability: Door, relationship: tosca.relationships.ConnectsTo, occurrences: [ 0, 1 ] }} ]
topology_template:
  inputs:
    given: {{ type: tosca.datatypes.Credential }}
  node_templates:
    server: {{ type: tosca.nodes.Compute }}
    back:
      type: Shop
      requirements: [ host: server ]
      properties: &properties
        plain: visible-to-all
        root_password: {word}-root
        marked: {{ concat: [ {word}, -marked ] }}
        accounts: [ {{ login: ada, password: {word}-account }} ]
        login: {{ user: visible-user, protocol: https, token: {word}-token, keys: {{ a: {word}-key }} }}
      capabilities: {{ door: {{ properties: {{ port: 80, pin: {word}-pin }} }} }}
    front:
      type: Shop
      requirements:
        - host: server
        - other: {{ node: back, relationship: {{ properties: {{ credential: {{ token: {word}-relation }} }} }} }}
      properties: *properties
      capabilities: {{ door: {{ properties: {{ port: 81, pin: {word}-pin }} }} }}
      interfaces:
        Standard:
          create:
            implementation: create.sh
            inputs:
              a: {{ get_property: [ SELF, root_password ] }}
              b: {{ get_property: [ SELF, marked ] }}
              c: {{ get_property: [ SELF, accounts, 0, password ] }}
              d: {{ get_property: [ SELF, login, token ] }}
              e: {{ get_property: [ SELF, door, pin ] }}
              f: {{ get_input: [ given, token ] }}
              file: {file}
"""
SCRIPT = """\
#!/bin/bash
echo "$a $b $c $d $e $f"
echo "$a $b $c $d $e $f" >"$file"
exit 1
"""


def test_sensitive_properties_are_exact_and_never_shown(machine: Machine) -> None:
    """Those of nodes, capabilities and relationships, of data in them, and the tokens of credentials."""
    service, file = machine.folder / "shop.yaml", machine.folder / "values"
    service.write_text(SERVICE.format(word=WORD, file=file))
    (machine.folder / "create.sh").write_text(SCRIPT)
    given = json.dumps({"token": f"{WORD}-given"})
    done = machine.apply(service, "--input", f"given={given}")
    assert done.code == 1  # a failure prints what the script has printed
    parts = ("root", "marked", "account", "token", "pin", "given")
    assert file.read_text().split() == [f"{WORD}-{part}" for part in parts]
    file.unlink()
    shown = ""
    for words in (
        ("node", "list", "shop", "--json"),
        ("node", "show", "shop", "front", "--json"),
        ("node", "show", "shop", "back"),
        ("resource", "show", "shop", "back"),
        ("resource", "show", "shop", "front.create"),
        ("show", "shop"),
        ("event", "list", "shop"),
    ):
        arguments = ["stack", *words, "--state-dir", str(machine.state)]
        listed = machine.command("heat-config-agent", arguments, {})
        assert listed.code == 0, listed
        shown += listed.out
    assert "visible-to-all" in shown  # `planted` looks for the others in all of it
    service.unlink()


def test_a_preview_shows_no_sensitive_property(machine: Machine) -> None:
    """Neither a preview nor a mistake shows a sensitive property."""
    service = Path(machine.folder / "shop.yaml")
    service.write_text(SERVICE.format(word=WORD, file=machine.folder / "values"))
    (machine.folder / "create.sh").write_text(SCRIPT)
    done = machine.apply(
        service, "--plan", "--input", f"given={json.dumps({'token': f'{WORD}-given'})}"
    )
    assert done.code == 0, done
    assert "front.create" in done.out
    service.unlink()
