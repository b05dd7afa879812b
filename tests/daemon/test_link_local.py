"""Servers at a link-local address of IPv6, which a URL names with its zone: OpenStack's metadata service is one."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.link_local import ADDRESS, INTERFACE, Network
from support.machine import BIN, Machine, deployment
from support.tools import need

ORIGIN = f"http://[{ADDRESS}%25{INTERFACE}]"
PROXY = {"http_proxy": "http://127.0.0.1:9", "https_proxy": "http://127.0.0.1:9"}
"""A proxy that does not answer."""

SH = "#!/bin/sh\n"


@pytest.fixture
def network(tmp_path: Path) -> Iterator[Network]:
    """Return a namespace with a metadata service at OpenStack's address."""
    found = Network(tmp_path / "metadata")
    yield found
    assert found.stop() == ""


@pytest.mark.parametrize("origin", [ORIGIN, ORIGIN.replace("%25", "%")])
def test_link_local_server_delivers_documents_and_takes_signals(
    machine: Machine, network: Network, origin: str
) -> None:
    """The server is asked directly, and is not told the zone, also where the URL has to be encoded first."""
    given = [
        deployment("d1", f"{SH}echo hello", signal=f"{origin}/signal?a=%2F"),
        deployment("d2", f"{SH}echo hello", signal=f"{origin}/a signal"),
    ]
    (network.folder / "document").write_text(json.dumps({"deployments": given}))
    config = machine.folder / "agent.conf"
    config.write_text(
        f"[agent]\nstate_dir = {machine.state}\ncollectors = request\n[request]\nmetadata_url = {origin}/document\n"
    )
    command = [str(BIN / "heat-config-agent"), "run", "--once", "--config", str(config)]
    done = network.run(command, {**machine.environment, **PROXY})
    assert done.returncode == 0, done.stdout + done.stderr
    heard = network.heard
    assert {(each["verb"], each["path"]) for each in heard} >= {
        ("GET", "/document"),
        ("POST", "/signal?a=%2F"),
        ("POST", "/a%20signal"),
    }
    assert {tuple(each["host"]) for each in heard} == {(f"[{ADDRESS}]",)}


def test_the_metadata_service_is_asked_by_the_source_ec2(
    machine: Machine, network: Network
) -> None:
    """The user data of the metadata service has the settings of the agent."""
    (network.folder / "document").write_text(
        json.dumps({"deployments": [deployment("d1", f"{SH}exit 0")]})
    )
    settings = {
        "os-collect-config": {
            "collectors": ["request"],
            "request": {"metadata_url": f"{ORIGIN}/document"},
        }
    }
    (network.folder / "latest_user-data").write_text(json.dumps(settings))
    (network.folder / "latest_meta-data_instance-id").write_text("i-1")
    config = machine.folder / "agent.conf"
    config.write_text(
        f"[agent]\nstate_dir = {machine.state}\ncollectors = ec2, request\n[ec2]\nmetadata_url = {ORIGIN}/latest\n"
    )
    command = [str(BIN / "heat-config-agent"), "run", "--once", "--config", str(config)]
    done = network.run(command, {**machine.environment, **PROXY})
    assert "d1" in machine.status(), done.stdout + done.stderr


def test_doctor_reaches_a_link_local_address(
    machine: Machine, network: Network
) -> None:
    """`doctor` resolves the address with its zone, and uses no proxy."""
    machine.have_quick_tools()
    (network.folder / "document").write_text('{"deployments": []}')
    config = machine.folder / "agent.conf"
    config.write_text(
        f"[agent]\nstate_dir = {machine.state}\ncollectors = request\n[request]\nmetadata_url = {ORIGIN}/document\n"
    )
    command = [
        str(BIN / "heat-config-agent"),
        "doctor",
        "--config",
        str(config),
        "--json",
    ]
    done = network.run(command, {**machine.environment, **PROXY})
    checks = json.loads(done.stdout)["data"]["checks"]
    findings = {each["name"]: each for each in checks}
    assert findings["request"]["state"] == "ok", findings["request"]


def test_a_certificate_is_for_the_address_without_the_zone(
    machine: Machine, tmp_path: Path
) -> None:
    """Both HTTP clients compare a certificate with the address without its zone."""
    certificate = _certificate(tmp_path)
    network = Network(tmp_path / "secured", certificate)
    script = (
        "import sys\nfrom heat_config_agent import web\n"
        "connection = web.Connection(sys.argv[1], sys.argv[2])\n"
        "print([connection.send('PUT', sys.argv[1] + path, b'x', {}).status for path in ('/a', '/a b')])\n"
    )
    origin = ORIGIN.replace("http", "https")
    done = network.run(
        [sys.executable, "-c", script, origin, str(certificate)],
        {**machine.environment, **PROXY},
    )
    assert done.stdout == "[200, 200]\n", done.stderr
    assert {tuple(each["host"]) for each in network.heard} == {(f"[{ADDRESS}]",)}
    assert network.stop() == ""


def _certificate(folder: Path) -> Path:
    """Return a file with a certificate for the address alone, and its key."""
    path = folder / "certificate.pem"
    words = [
        "-x509",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:P-256",
        "-nodes",
        "-days",
        "9",
        "-subj",
        "/CN=m",
    ]
    words += [
        "-addext",
        f"subjectAltName=IP:{ADDRESS}",
        "-keyout",
        str(path),
        "-out",
        str(folder / "public.pem"),
    ]
    subprocess.run(
        [need("openssl", "openssl"), "req", *words], check=True, capture_output=True
    )
    path.write_text(path.read_text() + (folder / "public.pem").read_text())
    return path
