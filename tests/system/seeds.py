"""The data of an instance before it boots: Heat's user data for cloud-init, and a Heat on loopback."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

import pytest

from support.loopback import Answer, SignalServer
from system.booted import Booted

_PYTHON = Path(__file__).parents[2] / ".venv/heat/bin/python"

_BUILD = """
import json, sys
from heat.engine.clients.os.nova import NovaClientPlugin
given = json.load(sys.stdin)
made = NovaClientPlugin.build_userdata(None, given["metadata"], given["own"], user_data_format="SOFTWARE_CONFIG")
sys.stdout.write(made)
"""


def user_data(metadata: Mapping[str, object], own: str = "") -> str:
    """Return the user data that Heat makes for a server with this metadata and this user data of its own."""
    if not _PYTHON.exists():
        pytest.skip(
            f"Heat is not installed in {_PYTHON.parents[1]}: tests/install-tools does it (make test-all)"
        )
    given = json.dumps({"metadata": metadata, "own": own})
    done = subprocess.run(
        [_PYTHON, "-c", _BUILD],
        input=given,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def nocloud(machine: Booted, text: str, instance: str = "i-1") -> None:
    """Put user data where cloud-init finds it on machines that no cloud has made."""
    _write(
        machine,
        "nocloud",
        {"user-data": text, "meta-data": f"instance-id: {instance}\n"},
    )


def config_drive(machine: Booted, text: str) -> None:
    """Put user data where cloud-init has the content of a config drive."""
    meta_data = {
        "uuid": "11111111-2222-3333-4444-555555555555",
        "name": "server",
        "hostname": "server",
        "meta": {},
    }
    folder = "openstack/latest"
    files = {
        f"{folder}/user_data": text,
        f"{folder}/meta_data.json": json.dumps(meta_data),
    }
    _write(machine, "config_drive", files)


def metadata_service(machine: Booted, text: str, server: SignalServer) -> None:
    """Have a server be the metadata service of an OpenStack, and cloud-init ask it: its own address is not ours."""
    meta_data = {
        "uuid": "66666666-7777-8888-9999-000000000000",
        "name": "server",
        "hostname": "server",
        "meta": {},
    }
    server.always = Answer(404)
    server.named = {
        "/openstack": Answer(body=b"2012-08-10\nlatest"),
        "/openstack/2012-08-10/meta_data.json": Answer(
            body=json.dumps(meta_data).encode()
        ),
        "/openstack/2012-08-10/user_data": Answer(body=text.encode()),
    }
    where = {
        "metadata_urls": [server.origin],
        "max_wait": 10,
        "timeout": 5,
        "retries": 0,
    }
    settings = f"datasource_list: [OpenStack]\ndatasource: {json.dumps({'OpenStack': where})}\n"
    (machine.disk / "etc/cloud/cloud.cfg.d/90-service.cfg").write_text(settings)


def _write(machine: Booted, kind: str, files: Mapping[str, str]) -> None:
    for name, text in files.items():
        path = machine.disk / "var/lib/cloud/seed" / kind / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(0o600)


class Handed:
    """The data that Heat hands to one server, over one of its transports."""

    def __init__(
        self,
        server: SignalServer,
        transport: str = "POLL_TEMP_URL",
        name: str = "metadata",
    ) -> None:
        """Have nothing to be deployed yet."""
        self._server = server
        self._name = name if transport == "POLL_TEMP_URL" else ""
        if transport == "POLL_TEMP_URL":
            said: dict[str, Any] = {"collectors": ["ec2", "request", "local"]}
            said["request"] = {"metadata_url": server.url(name)}
        else:
            said = {"collectors": ["ec2", "cfn", "local"]}
            said["cfn"] = {
                "metadata_url": f"{server.origin}/v1/",
                "access_key_id": "0123456789abcdef",
                "secret_access_key": "c2lnbmVk",
                "stack_name": "stack",
                "path": "server.Metadata",
            }
        self.first: dict[str, Any] = {"os-collect-config": said, "deployments": []}
        """The metadata with which the server is made."""
        self._deployments: list[Mapping[str, Any]] = []
        self.deploy()

    def deploy(self, *deployments: Mapping[str, Any]) -> None:
        """Have these be deployed to it, too."""
        self._deployments += deployments
        text = json.dumps({**self.first, "deployments": self._deployments})
        if not self._name:
            text = f"<Metadata>{escape(text)}</Metadata>"
            for tag in (
                "StackResourceDetail",
                "DescribeStackResourceResult",
                "DescribeStackResourceResponse",
            ):
                text = f"<{tag}>{text}</{tag}>"
        self._server.named[self._name] = Answer(body=text.encode())
