"""An OpenStack cloud on loopback: a Keystone, and a server for all other services, that answer as they are told."""

from __future__ import annotations

import json
from typing import Any

from heat_config_agent.model.deployment import Credentials
from support.loopback import Answer, Signal, SignalServer

LOGIN = "/v3/auth/tokens"
PROJECT = "p1"
PASSWORD = "the-password-of-the-user"


class Cloud:
    """Keystone lets everybody in with the token `token-1`, and `service` answers 200 with an empty object."""

    def __init__(self) -> None:
        self.keystone = SignalServer()
        self.service = SignalServer()
        self.service.always = Answer(body=b"{}")

    def start(self) -> None:
        self.keystone.start()
        self.service.start()
        self.keystone.always = self.lets_in("token-1")

    def stop(self) -> None:
        self.keystone.stop()
        self.service.stop()

    def lets_in(self, token: str, **said: Any) -> Answer:
        """Return Keystone's answer with a token; `said` replaces its usual content."""
        usual = {
            "methods": ["password"],
            "user": {
                "id": "u1",
                "name": "user",
                "domain": {"id": "d1", "name": "heat"},
            },
            "project": {
                "id": PROJECT,
                "name": "project",
                "domain": {"id": "d1", "name": "heat"},
            },
            "issued_at": "2026-01-01T00:00:00.000000Z",
            "expires_at": "2026-01-01T01:00:00.000000Z",
            "catalog": self.catalog(),
        }
        body = json.dumps({"token": {**usual, **said}}).encode()
        return Answer(
            201, {"X-Subject-Token": token, "Content-Type": "application/json"}, body
        )

    def catalog(
        self, region: str = "RegionOne", messaging: str = ""
    ) -> list[dict[str, Any]]:
        """Return a catalog of the services with their addresses."""
        places = {
            "orchestration": f"/v1/{PROJECT}",
            "messaging": messaging,
            "key-manager": "",
        }
        return [
            {
                "type": service,
                "name": service,
                "id": service,
                "endpoints": [
                    {
                        "id": each,
                        "interface": each,
                        "region": region,
                        "region_id": region,
                        "url": url,
                    }
                    for each, url in {
                        "admin": "http://127.0.0.1:9",
                        "public": self.service.origin + path,
                    }.items()
                ],
            }
            for service, path in places.items()
        ]

    def credentials(self, path: str = "/v3", **fields: str) -> Credentials:
        """As whom to log in."""
        usual = {
            "auth_url": self.keystone.origin + path,
            "user_id": "u1",
            "password": PASSWORD,
            "project_id": PROJECT,
            "region_name": "RegionOne",
        }
        return Credentials(**{**usual, **fields})

    @property
    def logins(self) -> list[Signal]:
        """Return the requests that Keystone got."""
        return self.keystone.signals

    @property
    def asked(self) -> list[Signal]:
        """Return the requests that the other services got."""
        return self.service.signals

    @property
    def requests(self) -> tuple[int, int]:
        """Return the numbers of requests at Keystone and at the others."""
        return len(self.logins), len(self.asked)
