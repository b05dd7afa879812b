"""The provider `barbican`: a secret of OpenStack's key manager, as the user whom the deployment names.

https://docs.openstack.org/barbican/latest/api/reference/secrets.html
"""

from __future__ import annotations

import json
import os
import re
import sys

from heat_config_agent.model.deployment import Credentials
from heat_config_agent.model.errors import DeniedError, UnreachableError
from heat_config_agent.runs.providers import (
    CA_FILE,
    LARGEST,
    SECONDS,
    USER,
    ProviderError,
    folder,
)
from heat_config_agent.settings.in_force import refused_url
from heat_config_agent.web.keystone import Cloud, Connections

_UUID = r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"


def _payload(name: str) -> bytes:
    """Return the payload of a secret: of its id, or of the URL that Barbican shows for it."""
    identity = re.fullmatch(rf"(?:https?://[^ ]+/secrets/)?({_UUID})", name)
    if identity is None:
        raise ProviderError("expected the id of a secret, or its URL .../secrets/ID")
    given = json.loads(os.environ.get(USER) or "{}")
    missing = [
        field
        for field in ("auth_url", "user_id", "password", "project_id")
        if not given.get(field)
    ]
    if missing:
        raise ProviderError(
            f"the deployment has no user of Keystone: it lacks deploy_{missing[0]}"
        )
    ca_file = os.environ.get(CA_FILE) or None
    cloud = Cloud(Credentials(**given), ca_file, Connections(ca_file, _allow))
    try:
        answer = cloud.ask(  # the endpoint is that of the catalog; the host in the URL is ignored
            "GET",
            "key-manager",
            f"/v1/secrets/{identity[1]}/payload",
            headers={"Accept": "text/plain"},
            seconds=SECONDS - 2,
            largest=2 * LARGEST,
        )
    except (DeniedError, UnreachableError) as error:
        raise ProviderError(str(error)) from error
    if answer.status == 404:
        raise ProviderError(f"Barbican has no secret {identity[1]} with a payload")
    if answer.status == 406:
        raise ProviderError(
            f"the secret {identity[1]} is not text: store it as text/plain"
        )
    if answer.status != 200 or answer.is_page:
        raise ProviderError(
            f"Barbican answers HTTP {answer.status} {answer.reason}".rstrip()
        )
    return answer.body


def _allow(url: str) -> None:
    """Raise UnreachableError if the policy refuses to reach a URL: that of Keystone, or of Barbican in its catalog."""
    if refusal := refused_url(url):
        raise UnreachableError(refusal)


if __name__ == "__main__":
    sys.exit(folder.answer(_payload))
