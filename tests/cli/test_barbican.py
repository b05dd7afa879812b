"""The provider `barbican`, against stand-ins for Keystone and Barbican that answer as these document their APIs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from support import planted
from support.cloud import PASSWORD, PROJECT, Cloud
from support.loopback import Answer
from support.machine import Done, Machine, deployment

SECRET = f"{planted.WORD}-from-barbican"
IDENTITY = "0a1b2c3d-1111-2222-3333-444455556666"


@pytest.fixture
def cloud() -> Iterator[Cloud]:
    """Stand-ins for Keystone and for Barbican."""
    made = Cloud()
    made.start()
    made.service.always = Answer(
        headers={"Content-Type": "text/plain"}, body=SECRET.encode()
    )
    yield made
    made.stop()


def apply(
    machine: Machine, cloud: Cloud, identity: str, reference: str, **given: str
) -> Done:
    """Apply a deployment with the user of a stack, whose input refers to a secret."""
    user = {
        "auth_url": cloud.keystone.origin,
        "user_id": "u1",
        "password": PASSWORD,
        "project_id": PROJECT,
        **given,
    }
    entry: dict[str, Any] = deployment(
        identity, "#!/bin/sh\necho ${#password} $password\n"
    )
    values: dict[str, Any] = {
        f"deploy_{name}": value for name, value in user.items() if value
    }
    values |= {
        "deploy_signal_transport": "NO_SIGNAL",
        "deploy_action": "CREATE",
        "password": {"secret": reference},
    }
    entry["inputs"] = [
        {"name": name, "type": "String", "value": value}
        for name, value in values.items()
    ]
    return machine.apply([entry])


def test_a_secret_comes_from_barbican(machine: Machine, cloud: Cloud) -> None:
    """The secret is fetched as the stack's user from the catalog's endpoint, and nothing of it stays on the machine."""
    done = apply(machine, cloud, "d1", f"barbican:{IDENTITY}")
    assert done.code == 0, done.out
    assert f"{len(SECRET)} ***" in machine.agent("log", "d1").out
    (asked,) = cloud.asked
    assert asked.path == f"/v1/secrets/{IDENTITY}/payload"
    assert asked.headers["X-Auth-Token"] == "token-1"
    assert (
        apply(
            machine,
            cloud,
            "d2",
            f"barbican:https://elsewhere.example/v1/secrets/{IDENTITY}",
        ).code
        == 0
    )
    assert len(cloud.asked) == 2
    assert planted.left(machine.state) == []


@pytest.mark.slow
def test_refusal_by_barbican_fails_the_deployment_with_a_sentence(
    machine: Machine, cloud: Cloud
) -> None:
    """Nothing that a server says is repeated, and an invalid id is not asked for."""
    said = "the provider 'barbican' has failed: "
    for number, reference in enumerate(
        (
            "x",
            f"{IDENTITY}/acl",
            f"https://barbican.example/v1/containers/{IDENTITY}",
            f"../{IDENTITY}",
            f"https://a b/secrets/{IDENTITY}",
        )
    ):
        assert (
            f"{said}expected the id of a secret"
            in apply(machine, cloud, f"d{number}", f"barbican:{reference}").out
        )
    assert cloud.requests == (0, 0)
    lacks = apply(machine, cloud, "e1", f"barbican:{IDENTITY}", password="")
    assert (
        f"{said}the deployment has no user of Keystone: it lacks deploy_password"
        in lacks.out
    )
    for number, (status, why) in enumerate(
        (
            (404, f"Barbican has no secret {IDENTITY}"),
            (406, "is not text"),
            (403, "Barbican answers HTTP 403"),
        )
    ):
        cloud.service.always = Answer(status, {}, SECRET.encode())
        done = apply(machine, cloud, f"f{number}", f"barbican:{IDENTITY}")
        assert done.code == 1
        assert why in done.out
        assert planted.WORD not in done.out + done.err
    for number, (body, why) in enumerate(
        ((b"\xff\xfe", "is not UTF-8 text"), (b"x" * 3 * 1024**2, "has failed: "))
    ):
        cloud.service.always = Answer(200, {"Content-Type": "text/plain"}, body)
        done = apply(machine, cloud, f"h{number}", f"barbican:{IDENTITY}")
        assert (done.code, why in done.out) == (1, True), done.out
    cloud.keystone.always = Answer(401)
    assert (
        "Keystone answers HTTP 401"
        in apply(machine, cloud, "g1", f"barbican:{IDENTITY}").out
    )
