"""The administrator of the cloud, who is logged in."""

from __future__ import annotations

from typing import Any

import requests

from support import pace
from system.openstack import Lab
from system.openstack_place import PASSWORD

KEY = "X-Account-Meta-Temp-URL-Key"
"""The header with the key of an account in Swift that signs temporary URLs."""


class Administrator:
    """Asks services of the cloud over HTTP."""

    def __init__(self, cloud: Lab) -> None:
        """Log in."""
        self.keystone = cloud.urls["keystone"]
        domain = {"id": "default"}
        user = {"name": "admin", "domain": domain, "password": PASSWORD}
        identity = {"methods": ["password"], "password": {"user": user}}
        asked = {
            "auth": {
                "identity": identity,
                "scope": {"project": {"name": "admin", "domain": domain}},
            }
        }
        answer = requests.post(
            f"{self.keystone}/auth/tokens", json=asked, timeout=pace.seconds(60)
        )
        answer.raise_for_status()
        token = answer.json()["token"]
        self.user, self.project = str(token["user"]["id"]), str(token["project"]["id"])
        self.account = f"{cloud.urls['swift']}/v1/AUTH_{self.project}"
        """The URL of the project's account in Swift."""
        self.token = {"X-Auth-Token": answer.headers["X-Subject-Token"]}

    def ask(
        self, verb: str, url: str, headers: dict[str, str] | None = None, **body: Any
    ) -> requests.Response:
        """Return the answer of a service, which has to be a success."""
        given = {**self.token, **(headers or {})}
        answer = requests.request(
            verb, url, headers=given, json=body or None, timeout=pace.seconds(60)
        )
        answer.raise_for_status()
        return answer
