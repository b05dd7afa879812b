"""A template whose configs are signed, on a real Heat: what its server gets is what was signed."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from heat_config_agent.deployments import metadata, plan
from heat_config_agent.deployments.plan import Known, Verb
from heat_config_agent.model import signed
from heat_config_agent.model.deployment import BUILTIN, Document, Tool
from heat_config_agent.model.policy import Policy
from heat_config_agent.signing import ssh
from heat_config_hooks.values import replace
from heat_config_stack.cli import sign
from support.signers import Signer
from system.openstack import Lab

pytestmark = [
    pytest.mark.takes(100),
    pytest.mark.skipif(
        shutil.which("ssh-keygen") is None,
        reason="needs ssh-keygen: install openssh-client",
    ),
]

TEMPLATE = """\
heat_template_version: 2018-08-31
resources:
  server:
    type: OS::Heat::DeployedServer
    metadata: {heat-config-signatures: {get_file: SIGNED}}
    properties: {software_config_transport: POLL_SERVER_HEAT}
  plain:
    type: OS::Heat::SoftwareConfig
    properties:
      group: script
      inputs: [{name: who}]
      options: {timeout: 60, idempotent: true, user: games}
      config: {get_file: SCRIPT}
  component:
    type: OS::Heat::SoftwareComponent
    properties:
      options: {script: {timeout: 30}}
      configs:
        - {tool: script, config: "#!/bin/sh\\necho made\\n"}
        - {actions: [DELETE], tool: script, config: "#!/bin/sh\\necho gone\\n"}
  structured:
    type: OS::Heat::StructuredConfig
    properties: {group: json-file, config: {/etc/a.json: {number: 1.5, list: [a, true, null], text: "\\u00e9"}}}
  one:
    type: OS::Heat::SoftwareDeployment
    properties: {config: {get_resource: plain}, server: {get_resource: server}, input_values: {who: world}}
  two:
    type: OS::Heat::SoftwareDeployment
    properties: {config: {get_resource: component}, server: {get_resource: server}}
  three:
    type: OS::Heat::StructuredDeployment
    properties: {config: {get_resource: structured}, server: {get_resource: server}}
"""


@pytest.mark.timeout(300)
def test_heat_delivers_what_was_signed(cloud: Lab, tmp_path: Path) -> None:
    """The list, and each config with its tool and options; another config does not pass."""
    signer = Signer(tmp_path, "alice")
    script, listed = tmp_path / "run.sh", tmp_path / "site.yaml.signed"
    script.write_text("#!/bin/sh\necho hello $who\n")
    path = tmp_path / "site.yaml"
    path.write_text(
        TEMPLATE.replace("SIGNED", listed.name).replace("SCRIPT", script.name)
    )
    lines = "".join(sorted(set(sign.config_lines(str(path), str(listed)))))
    assert lines.count("\n") == 5
    listed.write_text(ssh.sign(signer.key, signed.CONFIGS, lines))
    name = cloud.name("signed")
    files = {each.name: each.read_text() for each in (script, listed)}
    cloud.stack_create(name, path.read_text(), {}, files)
    cloud.deployments(name, "server", 3)
    content = cloud.metadata(name, "server")
    parsed = metadata.parse(Document(source="heat", content=content))
    assert len(parsed.deployments) == 3
    policy = ssh.with_verified(
        Policy(file="/policy", signers=signer.line()), parsed.deployments
    )
    tools = {tool: Tool(tool, f"{BUILTIN}{tool}") for tool in ("script", "json-file")}
    known = Known(entries={}, tools=tools, now=0.0, policy=policy)
    for each in parsed.deployments:
        step = plan.renewed(each, known)
        assert step.verb is Verb.RUN, step.reason
    other = replace(parsed.deployments[0], options={"timeout": 61})
    assert "the config is not in the signed list" in plan.renewed(other, known).reason
