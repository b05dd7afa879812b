"""A HOT template of two tiers is carried out on this machine, by the language, the stack and the agent together."""

from __future__ import annotations

import os
from pathlib import Path

from heat_config_agent.engine.events import Report
from heat_config_agent.settings import effective
from heat_config_stack.definition import Identity
from heat_config_stack.definition.files import File
from heat_config_stack.hot.loader import define, load
from heat_config_stack.hot.source import Source
from heat_config_stack.lifecycle.machine import ThisMachine
from heat_config_stack.lifecycle.session import Session
from heat_config_stack.records import listing
from heat_config_stack.records.records import new_id
from heat_config_stack.resource_types import known_types

ROOT = """
heat_template_version: 2018-08-31
parameters:
  site: {type: string}
resources:
  password: {type: OS::Heat::RandomString, properties: {length: 12}}
  database_server: {type: OS::Nova::Server, properties: {flavor: m1.small, user_data_format: SOFTWARE_CONFIG}}
  database:
    type: tier.yaml
    properties:
      server: {get_resource: database_server}
      script: |
        #!/bin/sh
        printf "db://$secret@$address" > $heat_outputs_path.result
      inputs: {secret: {get_attr: [password, value]}, address: {get_attr: [database_server, first_address]}}
  web:
    type: OS::Heat::ResourceGroup
    properties:
      count: 2
      resource_def:
        type: tier.yaml
        properties:
          server: web%index%
          script: |
            #!/bin/sh
            printf "$number uses $url" > $heat_outputs_path.result
          inputs: {number: "%index%", url: {get_attr: [database, result]}}
outputs:
  url: {value: {get_attr: [database, result]}}
  sites: {value: {get_attr: [web, result]}}
  where: {value: {str_replace: {template: http://host/site, params: {site: {get_param: site}}}}}
  password: {value: {get_attr: [password, value]}}
"""

TIER = """
heat_template_version: 2018-08-31
parameters:
  server: {type: string}
  script: {type: string}
  inputs: {type: json}
resources:
  config:
    type: OS::Heat::SoftwareConfig
    properties: {group: script, config: {get_param: script}, outputs: [{name: result}]}
  deployment:
    type: OS::Heat::SoftwareDeployment
    properties:
      config: {get_resource: config}
      server: {get_param: server}
      input_values: {get_param: inputs}
outputs:
  result: {value: {get_attr: [deployment, result]}}
"""


def test_outputs_of_one_tier_reach_the_other(tmp_path: Path) -> None:
    """The outputs of the database reach each web server and the stack's outputs, and then the stack is deleted."""
    source = Source(
        File("site.yaml", ROOT), files={"tier.yaml": TIER}, parameters={"site": "blog"}
    )
    given = effective.make(
        {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}, state=tmp_path
    )
    folder = tmp_path / "stacks" / "site"
    machine = ThisMachine(folder, given, Report())
    session = Session(folder, known_types(), machine, load)
    root = session.create(define(source, Identity("site", new_id())))
    assert (root.record.status, root.record.reason) == ("COMPLETE", "")
    password = root.output("password")
    assert root.output("url") == f"db://{password}@127.0.0.1"
    assert root.output("sites") == [
        f"{number} uses db://{password}@127.0.0.1" for number in (0, 1)
    ]
    assert root.output("where") == "http://host/blog"
    assert [each.name for each in root.placeholders()] == ["database_server"]
    session.close()
    machine.close()
    machine = ThisMachine(folder, given, Report())
    session = Session(folder, known_types(), machine, load)
    assert session.root is not None
    assert session.root.output("url") == f"db://{password}@127.0.0.1"
    session.delete()
    assert listing.names(tmp_path) == []
    session.close()
    machine.close()
