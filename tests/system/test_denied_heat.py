"""Access that a real cloud denies for a while: the result arrives once it is granted, and the stack goes on."""

from __future__ import annotations

import json
import secrets
import signal
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from system.administrator import KEY, Administrator
from system.agents import Agents
from system.openstack import Lab
from system.sites import LATER, Site

pytestmark = pytest.mark.timeout(600)  # on a machine with much else to do


@pytest.fixture
def administrator(cloud: Lab) -> Administrator:
    """The administrator of the cloud."""
    return Administrator(cloud)


def running(
    cloud: Lab, agents: Agents, folder: Path, way: str
) -> tuple[Site, str, str]:
    """Return a stack whose script has begun and is held up, the id of its deployment, and the URL of the result."""
    site = Site(cloud, agents, folder, "POLL_SERVER_HEAT", signal=way)
    site.hold()
    site.boot()
    site.begins("CREATE world")
    [deployment] = cloud.deployments(site.name)
    inputs = {given["name"]: given["value"] for given in deployment["inputs"]}
    return site, deployment["id"], inputs["deploy_signal_id"]


def test_result_arrives_once_its_user_is_enabled_again(
    cloud: Lab, agents: Agents, administrator: Administrator, tmp_path: Path
) -> None:
    """Heat denies access to the signed URL of a user who is disabled."""
    site, _, url = running(cloud, agents, tmp_path / "disabled", "CFN_SIGNAL")
    key = parse_qs(urlsplit(url).query)["AWSAccessKeyId"][0]
    known = administrator.ask("GET", f"{administrator.keystone}/credentials").json()[
        "credentials"
    ]
    [owner] = [
        each["user_id"] for each in known if json.loads(each["blob"])["access"] == key
    ]
    user = f"{administrator.keystone}/users/{owner}"
    administrator.ask("PATCH", user, user={"enabled": False})
    site.release()
    site.says(f"{LATER}: HTTP 403 Forbidden")
    administrator.ask("PATCH", user, user={"enabled": True})
    site.agent.signal(signal.SIGUSR1)
    assert site.wait("CREATE_COMPLETE").outputs == {"said": "hi world\n"}
    assert "refused for good" not in site.agent.log
    assert site.ran == ["CREATE world"]


def test_advice_for_a_temporary_url_with_an_old_key_helps(
    cloud: Lab, agents: Agents, administrator: Administrator, tmp_path: Path
) -> None:
    """The result that is kept on the machine, put into the object by hand, completes the stack."""
    site, identity, url = running(cloud, agents, tmp_path / "key", "TEMP_URL_SIGNAL")
    before = administrator.ask("HEAD", administrator.account).headers[KEY]
    try:
        administrator.ask("POST", administrator.account, {KEY: secrets.token_hex(16)})
        site.release()
        site.says(
            f"{LATER}: HTTP 401 Unauthorized; if that lasts, its URL was not signed with the key"
        )
        kept = site.agent.state / f"deployed/{identity}.notify.json"
        place = administrator.account + urlsplit(url).path.removeprefix(
            urlsplit(administrator.account).path
        )
        result = json.loads(kept.read_text())
        administrator.ask("PUT", place, **result)
        assert site.wait("CREATE_COMPLETE").outputs == {"said": "hi world\n"}
    finally:
        administrator.ask("POST", administrator.account, {KEY: before})
    assert site.ran == ["CREATE world"]
