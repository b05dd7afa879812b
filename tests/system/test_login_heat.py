from __future__ import annotations

import signal
from pathlib import Path

import pytest

from system.administrator import Administrator
from system.agents import Agents
from system.openstack import Lab
from system.sites import Site

pytestmark = pytest.mark.timeout(600)  # on a machine with much else to do


def test_advice_for_a_refused_login_helps(
    cloud: Lab, agents: Agents, tmp_path: Path
) -> None:
    """An update of the stack sets no password; the password of the metadata, set in Keystone, completes it."""
    site = Site(cloud, agents, tmp_path / "login", "POLL_SERVER_HEAT")
    site.boot()
    site.wait("CREATE_COMPLETE")
    given = cloud.metadata(site.name, "server")["os-collect-config"]["heat"]
    cloud.set_password(given["user_id"], "another")
    site.agent.stop()  # it would use its token for an hour
    site.agent.start()
    site.says("Keystone answers HTTP 401")
    site.update(who="moon")
    same = cloud.metadata(site.name, "server")["os-collect-config"]["heat"]
    assert (same["user_id"], same["password"]) == (given["user_id"], given["password"])
    assert cloud.stack_get(site.name, outputs=False).status == "UPDATE_IN_PROGRESS"

    cloud.set_password(given["user_id"], given["password"])
    site.agent.signal(signal.SIGUSR1)
    assert site.wait("UPDATE_COMPLETE").outputs == {"said": "hi moon\n"}


def test_application_credential_logs_in(
    cloud: Lab, agents: Agents, tmp_path: Path
) -> None:
    """An agent that is told by hand asks Heat with an application credential of the project's user."""
    site = Site(cloud, agents, tmp_path / "credential", "POLL_SERVER_HEAT")
    administrator = Administrator(cloud)
    place = (
        f"{administrator.keystone}/users/{administrator.user}/application_credentials"
    )
    made = administrator.ask(
        "POST", place, application_credential={"name": site.name}
    ).json()
    given = cloud.settings(site.name)["os-collect-config"]["heat"]
    held = {
        "application_credential_id": made["application_credential"]["id"],
        "application_credential_secret": made["application_credential"]["secret"],
        "project_id": administrator.project,
        **{
            name: given[name]
            for name in ("auth_url", "stack_id", "resource_name", "region_name")
        },
    }
    first = {
        "os-collect-config": {"collectors": ["heat"], "heat": held},
        "deployments": [],
    }
    site.agent = agents.start(f"{site.folder.name}-agent", first)
    assert site.wait("CREATE_COMPLETE").outputs == {"said": "hi world\n"}
