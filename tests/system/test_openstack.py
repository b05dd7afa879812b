from __future__ import annotations

import base64
import hashlib
import hmac
import json
import subprocess
import sys
import time
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit
from xml.etree import ElementTree as ET

import psutil
import pytest
import requests

from support import pace
from support.loopback import wait_until
from system.openstack import TEMPLATE, TRANSPORTS, Lab

# on a machine with much else to do
pytestmark = [pytest.mark.takes(100), pytest.mark.timeout(600)]

TESTS = Path(__file__).parents[1]

AGENT = {"User-Agent": "heat-config-agent/by-hand"}

RESULT = {
    "deploy_stdout": "out",
    "deploy_stderr": "",
    "deploy_status_code": 0,
    "greeting": "hi",
}

OWNER = """
import sys, time
sys.path.insert(0, {tests!r})
from support.loopback import wait_until
from system.openstack import lab
with lab() as cloud:
    print(cloud.folder, flush=True)
    time.sleep(1000)
"""


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_signal_by_hand_completes_a_deployment(cloud: Lab, transport: str) -> None:
    """Over each transport a server's metadata can be had, and a signal by hand completes its deployment."""
    before, name = cloud.now(), cloud.name("by-hand")
    cloud.stack_create(
        name,
        TEMPLATE,
        {"transport": transport, "signal": TRANSPORTS[transport], "who": "you"},
    )
    shown = cloud.deployments(name)
    fetched = fetch(cloud, cloud.metadata(name, "server")["os-collect-config"])[
        "deployments"
    ]
    assert [each["id"] for each in fetched] == [each["id"] for each in shown]
    words = {each["name"]: each["value"] for each in fetched[0]["inputs"]}
    assert words["who"] == "you"
    assert words["deploy_action"] == "CREATE"
    assert cloud.stack_get(name).status == "CREATE_IN_PROGRESS"

    send(cloud, words)
    assert cloud.wait(name, "CREATE_COMPLETE").outputs == {"greeting": "hi"}
    assert cloud.resource_get(name, "deployment").attributes["deploy_stdout"] == "out"
    assert "deployment" in {each["resource_name"] for each in cloud.events(name)}
    service = {
        "POLL_SERVER_HEAT": "heat",
        "POLL_SERVER_CFN": "cfn",
        "POLL_TEMP_URL": "swift",
        "ZAQAR_MESSAGE": "zaqar",
    }
    arrived = cloud.requests(service[transport], before, "heat-config-agent/")
    assert [(each.verb, each.status // 100) for each in arrived] == {
        "POLL_SERVER_HEAT": [("GET", 2), ("POST", 2)],
        "POLL_SERVER_CFN": [("GET", 2), ("POST", 2)],
        "POLL_TEMP_URL": [("GET", 2), ("PUT", 2)],
        "ZAQAR_MESSAGE": [("POST", 2), ("POST", 2)],
    }[transport]


def test_result_is_delivered_after_an_outage_of_heat(cloud: Lab) -> None:
    """Heat can be out of reach while it waits for a signal, which is sent later; a DELETE waits for one, too."""
    name = cloud.name("stopped")
    cloud.stack_create(name)
    [deployment] = cloud.deployments(name)
    cloud.stop("heat")
    with pytest.raises(requests.ConnectionError):
        send(cloud, {each["name"]: each["value"] for each in deployment["inputs"]})
    cloud.start("heat")
    cloud.signal(name, "deployment", RESULT)
    cloud.wait(name, "CREATE_COMPLETE")

    before = cloud.now()
    cloud.stack_delete(name)
    wait_until(lambda: cloud.deployments(name)[0]["id"] != deployment["id"], 30)
    # Heat asks after the metadata has the DELETE
    wait_until(lambda: bool(cloud.requests("nova", before)), 30)
    assert cloud.stack_get(name).status == "DELETE_IN_PROGRESS"
    cloud.signal(name, "deployment", RESULT)
    cloud.wait(name, "DELETE_COMPLETE")


def test_services_of_the_cloud_can_be_stopped_and_started(cloud: Lab) -> None:
    """Tokens can be made short; Keystone, Swift and Zaqar can be stopped, and run again for the next test."""
    cloud.token_seconds(3)
    answer = log_in(cloud, "admin", "lab")
    said = answer.json()["token"]
    lasts = datetime.fromisoformat(said["expires_at"][:19]) - datetime.fromisoformat(
        said["issued_at"][:19]
    )
    assert 2 <= lasts.total_seconds() <= 4
    stacks = f"{cloud.urls['heat']}/v1/{said['project']['id']}/stacks"
    headers = {"X-Auth-Token": answer.headers["X-Subject-Token"]}
    wait_until(
        lambda: (
            requests.get(stacks, headers=headers, timeout=pace.seconds(10)).status_code
            == 401
        ),
        30,
    )
    for each in ("keystone", "swift", "zaqar", "zaqar-websocket"):
        cloud.stop(each)
        with pytest.raises(requests.ConnectionError):
            requests.get(
                cloud.urls[each].replace("ws:", "http:"), timeout=pace.seconds(10)
            )
    cloud.put_back()
    assert log_in(cloud, "admin", "lab").status_code == 201


def test_cloud_ends_with_its_owner(cloud: Lab) -> None:
    """A cloud ends with its owner, even one that is killed; several are beside each other."""
    with subprocess.Popen(
        [sys.executable, "-c", OWNER.format(tests=str(TESTS))],
        stdout=subprocess.PIPE,
        text=True,
    ) as owner:
        assert owner.stdout is not None
        folder = owner.stdout.readline().strip()
        assert len(left(folder)) > 8
        owner.kill()
    wait_until(lambda: not left(folder) and not Path(folder).exists(), 20)
    assert left(str(cloud.folder))


def left(folder: str) -> list[str]:
    """Return the processes of a cloud."""
    leftovers = []
    for process in psutil.process_iter():
        try:
            words = [*process.cmdline(), process.cwd()]
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            continue
        if any(folder in word for word in words):
            leftovers.append(" ".join(words))
    return leftovers


def fetch(cloud: Lab, settings: dict[str, Any]) -> dict[str, Any]:
    """Fetch a server's metadata once, as an agent with these settings would."""
    source = settings["collectors"][0]
    own = settings[source]
    value: dict[str, Any]
    if source == "heat":
        place = f"{own['project_id']}/stacks/{own['stack_id']}/resources/{own['resource_name']}/metadata"
        answer = requests.get(
            f"{cloud.urls['heat']}/v1/{place}",
            headers=token(cloud, own),
            timeout=pace.seconds(10),
        )
        value = answer.json()["metadata"]
    elif source == "zaqar":
        queue = f"{cloud.urls['zaqar']}/v2/queues/{own['queue_id']}/claims"
        answer = requests.post(
            queue,
            json={"ttl": 300, "grace": 60},
            headers=token(cloud, own),
            timeout=pace.seconds(10),
        )
        value = answer.json()["messages"][-1]["body"]
    elif source == "cfn":
        answer = requests.get(signed(own), headers=AGENT, timeout=pace.seconds(10))
        value = json.loads(ET.fromstring(answer.text).findtext(".//Metadata") or "")  # noqa: S314  # from our own Heat
    else:
        value = requests.get(
            own["metadata_url"], headers=AGENT, timeout=pace.seconds(10)
        ).json()
    return value


def send(cloud: Lab, words: dict[str, Any]) -> None:
    """Send a result, as the inputs of a deployment say."""
    if url := words.get("deploy_signal_id"):
        answer = requests.request(
            words["deploy_signal_verb"],
            url,
            json=RESULT,
            headers=AGENT,
            timeout=pace.seconds(10),
        )
    elif queue := words.get("deploy_queue_id"):
        url = f"{cloud.urls['zaqar']}/v2/queues/{queue}/messages"
        body = {"messages": [{"ttl": 300, "body": RESULT}]}
        answer = requests.post(
            url,
            json=body,
            headers=token(cloud, words, "deploy_"),
            timeout=pace.seconds(10),
        )
    else:
        place = f"{words['deploy_stack_id']}/resources/{words['deploy_resource_name']}/signal"
        url = f"{cloud.urls['heat']}/v1/{words['deploy_project_id']}/stacks/{place}"
        answer = requests.post(
            url,
            json=RESULT,
            headers=token(cloud, words, "deploy_"),
            timeout=pace.seconds(10),
        )
    assert answer.ok, answer.text


def token(cloud: Lab, words: dict[str, Any], prefix: str = "") -> dict[str, str]:
    """Return the headers of a request by somebody who logs in."""
    answer = log_in(
        cloud,
        words[f"{prefix}user_id"],
        words[f"{prefix}password"],
        words[f"{prefix}project_id"],
    )
    return {
        **AGENT,
        "X-Auth-Token": answer.headers["X-Subject-Token"],
        "Client-ID": "0" * 32,
    }


def log_in(
    cloud: Lab, user: str, password: str, project: str = ""
) -> requests.Response:
    """Log in at Keystone: a user's id with a project's, or an administrator's name."""
    domain = {"domain": {"id": "default"}}
    who = {"id": user} if project else {"name": user, **domain}
    scope = {"project": {"id": project} if project else {"name": "admin", **domain}}
    identity = {
        "methods": ["password"],
        "password": {"user": {**who, "password": password}},
    }
    body = {"auth": {"identity": identity, "scope": scope}}
    return requests.post(
        f"{cloud.urls['keystone']}/auth/tokens",
        json=body,
        headers=AGENT,
        timeout=pace.seconds(10),
    )


def signed(cfn: dict[str, Any]) -> str:
    """Return the URL that asks Heat's CloudFormation API for a resource, with version 2 of AWS's signature."""
    words = {
        "Action": "DescribeStackResource",
        "StackName": cfn["stack_name"],
        "LogicalResourceId": cfn["path"].partition(".")[0],
        "AWSAccessKeyId": cfn["access_key_id"],
        "SignatureMethod": "HmacSHA256",
        "SignatureVersion": "2",
        "Timestamp": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
    }
    url = urlsplit(cfn["metadata_url"])
    query = "&".join(
        f"{name}={quote(words[name], safe='-_.~')}" for name in sorted(words)
    )
    text = f"GET\n{url.netloc}\n{url.path}\n{query}"
    signature = hmac.digest(
        cfn["secret_access_key"].encode(), text.encode(), hashlib.sha256
    )
    return f"{url.geturl()}?{query}&Signature={quote(base64.b64encode(signature).decode(), safe='')}"
