"""An image that was baked, on a network as clouds have it: the instance finds all by DHCP, and reaches a real Heat."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator

import pytest

from image.baked import BY_HAND, baked
from support.proxy import Proxy
from system import seeds
from system.booted import Booted, booted
from system.conftest import cloud, one_cloud
from system.openstack import Lab

__all__ = ["cloud", "one_cloud"]

pytestmark = [pytest.mark.machine, BY_HAND, pytest.mark.timeout(1800)]

GATEWAY = "192.0.2.1"
PORT = 3128

TEMPLATE = """
heat_template_version: 2018-08-31
resources:
  server: {type: OS::Heat::DeployedServer, properties: {software_config_transport: POLL_SERVER_HEAT}}
  config:
    type: OS::Heat::SoftwareConfig
    properties:
      group: script
      outputs: [{name: release}, {name: address}]
      config: |
        #!/bin/sh
        . /etc/os-release
        printf %s "$VERSION_CODENAME" >"$heat_outputs_path.release"
        ip -brief -4 address show eth0 | awk '{ printf "%s", $3 }' >"$heat_outputs_path.address"
  deployment:
    type: OS::Heat::SoftwareDeployment
    properties: {config: {get_resource: config}, server: {get_resource: server}, signal_transport: HEAT_SIGNAL}
outputs:
  release: {value: {get_attr: [deployment, release]}}
  address: {value: {get_attr: [deployment, address]}}
"""

PROXY = f"[Service]\nEnvironment=http_proxy=http://proxy.example:{PORT}\n"


@pytest.fixture(params=["bookworm", "trixie"])
def instance(request: pytest.FixtureRequest) -> Iterator[Booted]:
    """An instance of the example for mkosi, before its first boot. Nothing in it is masked."""
    with booted(
        boot=False, commands=False, root=baked("mkosi", request.param), network=GATEWAY
    ) as machine:
        # as it is in the image
        (machine.disk / "etc/machine-id").write_text("uninitialized\n")
        drop_in = (
            machine.disk / "etc/systemd/system/heat-config-agent.service.d/proxy.conf"
        )
        drop_in.parent.mkdir(parents=True)
        drop_in.write_text(PROXY)
        yield machine


def test_a_stack_is_complete(
    instance: Booted, cloud: Lab, request: pytest.FixtureRequest
) -> None:
    """The link is set up by systemd-networkd, names are resolved, and all that is said goes over that link.

    The cloud knows itself only by addresses on loopback: the instance reaches it by a proxy, which it knows by name.
    """
    name = cloud.name()
    cloud.stack_create(name, TEMPLATE)
    seeds.config_drive(instance, seeds.user_data(cloud.settings(name)))
    with contextlib.closing(Proxy(listener=instance.listen(GATEWAY, PORT))) as proxy:
        instance.boot(180)
        try:
            done = cloud.wait(name, "CREATE_COMPLETE", 120)
        except AssertionError:
            pytest.fail(instance.run("journalctl", "--no-pager", "-b").out[-8000:])
        assert any(
            each.verb == "POST" and each.target.endswith("/signal")
            for each in proxy.requests
        )
    [link] = [
        each
        for each in json.loads(
            instance.run("ip", "-json", "address", "show", "eth0").out
        )[0]["addr_info"]
        if each["family"] == "inet"
    ]
    assert link["dynamic"]
    assert done.outputs == {
        "release": request.node.callspec.params["instance"],
        "address": f"{link['local']}/24",
    }
    assert (
        "routable (configured)"
        in instance.run("networkctl", "--no-pager", "status", "eth0").out
    )
    assert GATEWAY in instance.run("resolvectl", "query", "proxy.example").out
    assert instance.run("systemctl", "--failed", "--plain", "--no-legend").out == ""
