"""The recipes of the documentation, by the real things: Heat, Swift, and a machine that boots with cloud-init."""

from __future__ import annotations

import hashlib
import hmac
import json
import time
from collections.abc import Iterator

import pytest
import requests
import yaml

from docs.console import File, sections
from package.built import package
from support import pace
from support.loopback import Answer, SignalServer
from support.machine import Machine, deployment
from system import seeds
from system.administrator import Administrator
from system.agents import Agents
from system.booted import Booted
from system.openstack import Lab
from system.test_first_boot import image
from system.test_service import eventually, state_of

pytestmark = [pytest.mark.takes(100), pytest.mark.timeout(600)]


def shown(path: str) -> str:
    """Return a file of the page."""
    items = [item for section in sections("docs/recipes.md") for item in section.items]
    [text] = [
        item.text for item in items if isinstance(item, File) and item.path == path
    ]
    return text


def test_user_data_of_opentofu_reaches_heat(cloud: Lab, agents: Agents) -> None:
    """The user data of the first stack tells the agent how to reach Heat; the second stack has its deployments."""
    first, second = cloud.name("tofu"), cloud.name("tofu")
    cloud.stack_create(first, shown("server.yaml"))
    made = cloud.wait(first, "CREATE_COMPLETE").outputs
    assert made["user_data"].startswith("#cloud-config\n")
    [file] = yaml.safe_load(made["user_data"])["write_files"]
    assert (file["path"], file["permissions"]) == (
        "/var/lib/heat-cfntools/cfn-init-data",
        "0600",
    )
    agents.start("tofu", json.loads(file["content"]))
    cloud.stack_create(second, shown("web.yaml"), {"server": made["server"]})
    assert (
        cloud.wait(second, "CREATE_COMPLETE").outputs["greeting"]
        == "Hello from OpenTofu\n"
    )


def signed(cloud: Lab, path: str, method: str, key: str) -> str:
    """Return a temporary URL of Swift's."""
    expires = int(time.time()) + 3600
    signature = hmac.new(
        key.encode(), f"{method}\n{expires}\n{path}".encode(), hashlib.sha256
    ).hexdigest()
    return f"{cloud.urls['swift']}{path}?temp_url_sig={signature}&temp_url_expires={expires}"


def test_object_store_serves_document_and_result(cloud: Lab, machine: Machine) -> None:
    """The document is fetched from a temporary URL, and the result is put to another one."""
    administrator = Administrator(cloud)
    token = administrator.token
    container = f"/v1/AUTH_{administrator.project}/machines"
    place = f"{cloud.urls['swift']}{container}"
    key = "of the container"
    requests.put(
        place,
        headers={**token, "X-Container-Meta-Temp-URL-Key": key},
        timeout=pace.seconds(30),
    ).raise_for_status()
    put = signed(cloud, f"{container}/results/d1.json", "PUT", key)
    script = "#!/bin/sh\necho hello >$heat_outputs_path.said\n"
    document = {
        "deployments": [
            deployment("d1", script, outputs=["said"], signal=put, verb="PUT")
        ]
    }
    requests.put(
        f"{place}/web-1.json", json=document, headers=token, timeout=pace.seconds(30)
    ).raise_for_status()

    get = signed(cloud, f"{container}/web-1.json", "GET", key)
    config = machine.folder / "agent.conf"
    agent = f"[agent]\nstate_dir = {machine.state}\ncollectors = request\n"
    config.write_text(f"{agent}[request]\nmetadata_url = {get}\n")
    done = machine.command(
        "heat-config-agent", ["run", "--once", "--config", str(config)], {}
    )
    assert done.code == 0, done.out + done.err
    result = requests.get(
        f"{place}/results/d1.json", headers=token, timeout=pace.seconds(30)
    ).json()
    assert (result["deploy_status_code"], result["said"]) == (0, "hello\n")


@pytest.fixture
def prepared() -> Iterator[Booted]:
    """Return a machine with cloud-init and the package that has not booted yet."""
    with image(package("deb")) as found:
        yield found


def test_cloud_init_applies_a_document_at_first_boot(
    prepared: Booted, heat: SignalServer, other: SignalServer
) -> None:
    """The first boot ends when the document's deployments are applied, and with no word of Heat's."""
    given = deployment("d1", "#!/bin/sh\ntouch /root/applied\n", signal=heat.url("d1"))
    other.named["documents"] = Answer(
        body=json.dumps({"deployments": [given]}).encode()
    )
    text = shown("user-data.yaml").replace(
        "https://files.example.org/documents/web-1.json", other.url("documents")
    )
    assert other.origin in text
    seeds.nocloud(prepared, text)
    prepared.boot()
    assert prepared.run("cloud-init", "status").out.strip() == "status: done"
    assert (prepared.disk / "root/applied").exists()
    eventually(prepared, lambda: state_of(prepared, "d1") == "sent")
    assert [each["deploy_status_code"] for each in heat.values("d1")] == [0]
