"""The rule `network` on a machine: nothing of the agent reaches another host to follow or to signal."""

from __future__ import annotations

import hashlib
import json
import uuid
from pathlib import Path
from urllib.parse import urlsplit

from support.cloud import PASSWORD, PROJECT, Cloud
from support.governed import POLICY, Governed
from support.http import Answer, Request, Stub
from support.loopback import SignalServer
from support.machine import deployment


def test_a_signal_goes_only_to_a_listed_host(
    governed: Governed, heat: SignalServer, tmp_path: Path
) -> None:
    """Nothing is run whose result could not be sent; the refusal waits, and is sent once the policy allows it."""
    proof = tmp_path / "proof"
    governed.policy("network = heat.example")
    given = [deployment("d1", f"#!/bin/sh\necho ran >{proof}\n", signal=heat.url("d1"))]
    why = f"refused by the rule network of {POLICY}: the host 127.0.0.1 is not in it"
    assert why in governed.apply(given, "--plan").out
    done = governed.apply(given, "--deliver-for", "0.1")
    assert why in done.out
    assert heat.signals == []
    governed.policy("network = 127.0.0.0/8")
    governed.apply(given)
    (signal,) = heat.signals
    assert why in json.loads(signal.body)["deploy_stderr"]
    assert not proof.exists()
    again = [deployment("d2", f"#!/bin/sh\necho ran >{proof}\n", signal=heat.url("d2"))]
    assert governed.apply(again).code == 0
    assert proof.exists()


def test_a_result_that_is_on_its_way_obeys_a_policy_that_comes_later(
    governed: Governed, heat: SignalServer
) -> None:
    """The run has ended before; its result stays on this machine as long as the policy says so."""
    governed.policy("tools = script")
    policy = governed.own / "policy"
    text = "[policy]\\nnetwork = heat.example\\n"
    given = [
        deployment(
            "d1", f"#!/bin/sh\nprintf '{text}' >{policy}\n", signal=heat.url("d1")
        )
    ]
    done = governed.apply(given, "--deliver-for", "0.1")
    assert done.code == 5
    assert "the host 127.0.0.1 is not in it" in done.out + done.err
    assert heat.signals == []
    policy.unlink()
    assert governed.apply(given).code == 0
    assert len(heat.signals) == 1


def test_events_go_only_to_a_listed_host(
    governed: Governed, other: SignalServer
) -> None:
    """The deployment runs either way: a report never replaces a result."""
    (governed.own / "agent.conf").write_text(
        f"[agent]\nreport_url = {other.origin}/events\n"
    )
    governed.policy("network = heat.example")
    assert governed.apply([deployment("d1")]).code == 0
    assert other.signals == []
    governed.policy("network = 127.0.0.0/8")
    assert governed.apply([deployment("d2")]).code == 0
    assert [json.loads(each.body)["subject"] for each in other.signals] == ["d2", "d2"]


def test_spans_go_only_to_a_listed_host(
    governed: Governed, other: SignalServer
) -> None:
    """The deployment runs either way."""
    (governed.own / "agent.conf").write_text(
        f"[agent]\ntrace_url = {other.origin}/v1/traces\n"
    )
    governed.policy("network = heat.example")
    assert governed.apply([deployment("d1")]).code == 0
    assert other.signals == []
    governed.policy("network = 127.0.0.0/8")
    assert governed.apply([deployment("d2")]).code == 0
    assert len(other.signals) == 1


def test_artifacts_come_only_from_listed_hosts(
    governed: Governed, tmp_path: Path
) -> None:
    """Another host is refused before anything is asked, and a redirect to one where it leads there."""
    proof, content = tmp_path / "proof", b"anything"

    asked: list[str] = []

    def answer(request: Request) -> Answer:
        asked.append(request.path)
        if request.path.startswith("/leads"):
            return Answer(
                status=302, headers={"Location": f"http://localhost:{stub.port}/file"}
            )
        return Answer(body=content)

    stub = Stub(answer)
    stub.start()
    try:

        def refused(identity: str, url: str) -> str:
            artifact = {
                "url": url,
                "sha256": hashlib.sha256(content).hexdigest(),
                "to": "file",
            }
            script = f"#!/bin/sh\necho ran >>{proof}\n"
            done = governed.apply(
                [deployment(identity, script, options={"artifacts": [artifact]})]
            )
            return done.out if done.code else ""

        host = f"127.0.0.1:{stub.port}"
        governed.policy("network = files.example")
        assert f"rule network of {POLICY}: the host 127.0.0.1 is not in it" in refused(
            "d1", f"http://{host}/file"
        )
        assert asked == []
        governed.policy(f"network = {host}")
        assert f"rule network of {POLICY}: the host localhost is not in it" in refused(
            "d2", f"http://{host}/leads"
        )
        assert not proof.exists()
        assert refused("d3", f"http://{host}/file") == ""
        assert proof.read_text() == "ran\n"
    finally:
        stub.stop()


def test_secrets_of_barbican_come_only_from_listed_hosts(
    governed: Governed, tmp_path: Path
) -> None:
    """Keystone is at the URL that the deployment names, and Barbican at one in Keystone's catalog."""
    cloud, proof = Cloud(), tmp_path / "proof"
    cloud.start()
    try:
        user = {
            "auth_url": cloud.keystone.origin,
            "user_id": "u1",
            "password": PASSWORD,
            "project_id": PROJECT,
        }
        inputs: dict[str, object] = {
            f"deploy_{name}": value for name, value in user.items()
        }
        inputs |= {
            "deploy_signal_transport": "NO_SIGNAL",
            "one": {"secret": f"barbican:{uuid.uuid4()}"},
        }
        for identity, rule, asked in (
            ("d1", "network = keystone.example", (0, 0)),
            (
                "d2",
                f"network = 127.0.0.1:{urlsplit(cloud.keystone.origin).port}",
                (1, 0),
            ),
        ):
            governed.policy(rule)
            done = governed.apply(
                [deployment(identity, f"#!/bin/sh\necho ran >{proof}\n", inputs=inputs)]
            )
            assert (
                f"refused by the rule network of {POLICY}: the host 127.0.0.1 is not in it"
                in done.out
            )
            assert cloud.requests == asked
        assert not proof.exists()
    finally:
        cloud.stop()


def test_signal_to_a_service_of_the_catalog_obeys_the_rule(
    governed: Governed, tmp_path: Path
) -> None:
    """Keystone may be reached, and the service that its catalog names may not: the result waits."""
    cloud = Cloud()
    cloud.start()
    try:
        user = {
            "auth_url": cloud.keystone.origin,
            "user_id": "u1",
            "password": PASSWORD,
            "project_id": PROJECT,
        }
        inputs = {f"deploy_{name}": value for name, value in user.items()}
        inputs |= {"deploy_stack_id": "site/1", "deploy_resource_name": "web"}
        governed.policy(f"network = 127.0.0.1:{urlsplit(cloud.keystone.origin).port}")
        given = [
            deployment("d1", f"#!/bin/sh\necho ran >{tmp_path}/proof\n", inputs=inputs)
        ]
        done = governed.apply(given, "--deliver-for", "0.1")
        assert done.code == 5
        assert (
            f"refused by the rule network of {POLICY}: the host 127.0.0.1 is not in it"
            in done.out + done.err
        )
        assert cloud.requests == (1, 0)
        assert (tmp_path / "proof").exists()
    finally:
        cloud.stop()


def test_the_results_of_a_stack_stay_on_the_machine(
    governed: Governed, tmp_path: Path
) -> None:
    """No host has to be listed for them, and the artifacts of its deployments obey the rule."""
    proof, digest = tmp_path / "proof", "0" * 64
    template = {
        "heat_template_version": "2018-08-31",
        "resources": {
            "server": {
                "type": "OS::Nova::Server",
                "properties": {"name": "this", "flavor": "m1"},
            },
            "one": {
                "type": "OS::Heat::SoftwareConfig",
                "properties": {
                    "group": "script",
                    "config": f"#!/bin/sh\necho ran >>{proof}\n",
                },
            },
            "two": {
                "type": "OS::Heat::SoftwareConfig",
                "properties": {
                    "group": "script",
                    "config": f"#!/bin/sh\necho ran >>{proof}\n",
                    "options": {
                        "artifacts": [{"url": "http://127.0.0.1:1/a", "sha256": digest}]
                    },
                },
            },
        },
    }
    for number, (config, transport) in enumerate(
        (
            ("one", "CFN_SIGNAL"),
            ("one", "HEAT_SIGNAL"),
            ("one", "ZAQAR_SIGNAL"),
            ("two", "CFN_SIGNAL"),
        )
    ):
        properties = {
            "config": {"get_resource": config},
            "server": {"get_resource": "server"},
        }
        template["resources"][f"run{number}"] = {  # type: ignore[index]
            "type": "OS::Heat::SoftwareDeployment",
            "properties": {**properties, "signal_transport": transport},
        }
    path = governed.machine.write(template, "site.yaml")
    governed.policy("network = none")
    done = governed.run(
        "heat-config-apply", "--state-dir", str(governed.machine.state), str(path)
    )
    assert done.code == 1
    refusal = f"rule network of {POLICY}: the host 127.0.0.1 is not in it"
    # the reason of the resource, and the last words of its run
    assert done.out.count(refusal) == 2
    assert proof.read_text() == "ran\nran\nran\n"


def test_a_proxy_does_not_make_another_host_a_listed_one(
    governed: Governed, heat: SignalServer, other: SignalServer
) -> None:
    """The host in the URL counts; the proxy is of the agent's environment, which no metadata sets."""
    governed.policy("network = heat.example")
    given = [
        deployment("d1", signal=heat.url("d1")),
        deployment("d2", signal="http://heat.example/d2"),
    ]
    done = governed.apply(given, "--deliver-for", "0.1", http_proxy=other.origin)
    assert "the host 127.0.0.1 is not in it" in done.out
    assert heat.signals == []
    assert [each.path for each in other.signals] == ["http://heat.example/d2"]


def test_a_source_is_followed_only_on_a_listed_host(governed: Governed) -> None:
    """The server is not asked, and `follow` says why."""
    governed.policy("network = git.example")
    path = governed.machine.folder / "agent.conf"
    for number, url in enumerate(
        (
            "https://127.0.0.1:1/a.yaml",
            "ssh://127.0.0.1:1/a.git",
            "oci+http://127.0.0.1:1/a",
        )
    ):
        path.write_text(
            f"[agent]\nstate_dir = {governed.machine.state}\n\n[follow web{number}]\nurl = {url}\n"
        )
        done = governed.run(
            "heat-config-agent", "source", "sync", "--config", str(path)
        )
        assert "refused by the rule network" in done.out + done.err
        assert "does not answer" not in done.out + done.err
