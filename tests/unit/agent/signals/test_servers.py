from __future__ import annotations

import json
from collections.abc import Callable
from uuid import UUID

import pytest

from heat_config_agent.model.deployment import Credentials, Target
from heat_config_agent.signals import outbox, servers
from heat_config_agent.signals.delivery import Fate, Outcome
from heat_config_agent.signals.outbox import Outbox
from heat_config_hooks.values import replace
from support import cloud
from support.loopback import Answer, wait_until

RESULT: dict[str, object] = {"deploy_status_code": 0, "greeting": "hi"}
KINDS = ("heat", "zaqar")
Send = Callable[..., dict[str, Outcome]]


@pytest.fixture
def send() -> Send:
    """Post a result for each target, and return what becomes of them, by their numbers."""
    outbox = Outbox()

    def sent(
        *targets: Target, values: dict[str, object] = RESULT
    ) -> dict[str, Outcome]:
        outcomes: dict[str, Outcome] = {}
        for number, each in enumerate(targets):
            outbox.post(str(number), each, values)

        def all_there() -> bool:
            outcomes.update((each.key, each) for each in outbox.outcomes())
            return len(outcomes) == len(targets)

        wait_until(all_there)
        return outcomes

    return sent


def target(
    openstack: cloud.Cloud, kind: str, path: str = "/v3", **fields: str
) -> Target:
    """Return where a result goes."""
    user = openstack.credentials(path, **fields)
    if kind == "heat":
        return Target(
            kind=kind, credentials=user, stack="stack/0a1b", resource="a dep/1"
        )
    return Target(kind=kind, credentials=user, queue="a queue/1")


SENT = {"0": Outcome("0", Fate.SENT)}


def test_heat_is_told_as_its_api_wants_it(openstack: cloud.Cloud, send: Send) -> None:
    """The result is the body; the user is logged in for it once, and not for the next."""
    assert send(target(openstack, "heat")) == SENT
    assert openstack.requests == (1, 1)
    assert send(target(openstack, "heat")) == SENT
    assert openstack.requests == (1, 2)
    signal = openstack.asked[0]
    assert (signal.verb, signal.path) == (
        "POST",
        "/v1/p1/stacks/stack/0a1b/resources/a%20dep%2F1/signal",
    )
    assert (signal.headers["Content-Type"], signal.headers["X-Auth-Token"]) == (
        "application/json",
        "token-1",
    )
    assert json.loads(signal.body) == RESULT


def test_zaqar_is_told_as_its_api_wants_it(openstack: cloud.Cloud, send: Send) -> None:
    """The result is the body of a message, which lives long enough for Heat to see it."""
    openstack.service.always = Answer(201)
    assert send(target(openstack, "zaqar")) == SENT
    (post,) = openstack.asked
    assert (post.verb, post.path) == ("POST", "/v2/queues/a%20queue%2F1/messages")
    assert str(UUID(post.headers["Client-ID"])) == post.headers["Client-ID"]
    assert json.loads(post.body) == {"messages": [{"ttl": 3600, "body": RESULT}]}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("status", [403, 404, 410, 413, 422])
def test_final_refusal_of_a_service_is_final(
    openstack: cloud.Cloud, send: Send, kind: str, status: int
) -> None:
    """The stack may be gone. Access that is denied may be granted again."""
    openstack.service.always = Answer(status)
    (outcome,) = send(target(openstack, kind)).values()
    assert (outcome.fate, outcome.trouble.split()[:2]) == (
        Fate.REFUSED,
        ["HTTP", str(status)],
    )
    assert outcome.is_denial == (status == 403)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("status", [302, 400, 401, 409, 429, 500, 502, 503])
def test_temporary_refusal_of_a_service_keeps_the_result(
    openstack: cloud.Cloud, send: Send, kind: str, status: int
) -> None:
    """Heat's users come and go, and it may be at work on the stack."""
    headers = {"Location": openstack.keystone.origin, "Retry-After": "7"}
    openstack.service.answers.append(Answer(status, headers))
    openstack.service.always = Answer(status, headers)
    (outcome,) = send(target(openstack, kind)).values()
    assert (outcome.fate, outcome.trouble.split()[:2], outcome.wait) == (
        Fate.RETRY,
        ["HTTP", str(status)],
        7.0,
    )


@pytest.mark.parametrize("status", [401, 403, 404, 410, 500, 503])
def test_whatever_keystone_says_the_result_is_kept(
    openstack: cloud.Cloud, send: Send, status: int
) -> None:
    """A refusal of Keystone is not one of the server, so the result is kept."""
    openstack.keystone.always = Answer(status)
    (outcome,) = send(target(openstack, "heat")).values()
    assert outcome.fate is Fate.RETRY
    assert outcome.trouble.startswith(f"Keystone answers HTTP {status}")
    assert openstack.asked == []


def test_a_token_that_expired_meanwhile_costs_nothing_but_requests(
    openstack: cloud.Cloud, send: Send
) -> None:
    """An expired token is renewed, and the result is sent with the new one."""
    send(target(openstack, "heat"))
    openstack.service.answers.append(Answer(401))
    openstack.keystone.always = openstack.lets_in("token-2")
    assert send(target(openstack, "heat")) == SENT
    assert [each.headers["X-Auth-Token"] for each in openstack.asked] == [
        "token-1",
        "token-1",
        "token-2",
    ]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("where", ["keystone", "service"])
def test_whoever_is_away_is_told_later(
    openstack: cloud.Cloud, send: Send, kind: str, where: str
) -> None:
    """The unreachable server is named without a secret, and gets the result later."""
    server = getattr(openstack, where)
    server.stop()
    (outcome,) = send(target(openstack, kind)).values()
    host = server.origin.partition("://")[2]
    named = f"Keystone at {host}" if where == "keystone" else host
    assert outcome == Outcome("0", Fate.RETRY, f"{named}: Connection refused")
    server.start()
    assert send(target(openstack, kind)) == SENT


def test_catalog_without_the_service_is_reported(
    openstack: cloud.Cloud, send: Send
) -> None:
    """With the type and the region; it may be there later."""
    openstack.keystone.always = openstack.lets_in(
        "t", catalog=openstack.catalog("Venus")
    )
    (outcome,) = send(target(openstack, "zaqar")).values()
    said = "Keystone's catalog has no service of the type messaging in the region RegionOne"
    assert outcome == Outcome("0", Fate.RETRY, said)


def test_users_of_one_server_share_its_connections(
    openstack: cloud.Cloud, send: Send
) -> None:
    """Every deployment has a user of its own; the tokens of so many are kept, and no more."""
    users = [
        target(openstack, "heat", user_id=f"u{number}")
        for number in range(servers.USERS + 1)
    ]
    assert {each.fate for each in send(*users).values()} == {Fate.SENT}
    assert (openstack.keystone.connections, openstack.service.connections) == (1, 1)
    assert openstack.requests == (len(users), len(users))
    send(users[-1])
    assert len(openstack.logins) == len(users)
    send(users[0])
    assert len(openstack.logins) == len(users) + 1


def test_a_slow_service_delays_no_other(openstack: cloud.Cloud) -> None:
    """A slow service delays neither others of its cloud nor its own in another region."""
    openstack.service.answers.append(Answer(delay=1.0))
    openstack.keystone.always = openstack.lets_in(
        "t", catalog=openstack.catalog() + openstack.catalog("Venus")
    )
    outbox = Outbox()
    outbox.post("slow", target(openstack, "heat"), RESULT)
    wait_until(lambda: len(openstack.asked) == 1)
    outbox.post("zaqar", target(openstack, "zaqar"), RESULT)
    outbox.post("elsewhere", target(openstack, "heat", region_name="Venus"), RESULT)
    outcomes: list[Outcome] = []

    def all_there() -> bool:
        outcomes.extend(outbox.outcomes())
        return len(outcomes) == 3

    wait_until(all_there)
    assert [each.key for each in outcomes][2] == "slow"
    assert {each.fate for each in outcomes} == {Fate.SENT}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["auth_url", "user_id", "password", "project_id"])
def test_a_user_that_is_half_known_can_never_log_in(
    openstack: cloud.Cloud, send: Send, kind: str, name: str
) -> None:
    """Missing credentials are named as Heat names them."""
    good = target(openstack, kind)
    assert good.credentials is not None
    bad = replace(good, credentials=replace(good.credentials, **{name: ""}))
    assert outbox.unsendable(good) == ""
    (outcome,) = send(bad).values()
    assert (outcome.fate, outcome.trouble.endswith(f" without deploy_{name}")) == (
        Fate.REFUSED,
        True,
    )
    assert openstack.requests == (0, 0)


@pytest.mark.parametrize("kind", KINDS)
def test_all_missing_values_are_reported_at_once(kind: str) -> None:
    """Without any part of it."""
    said = outbox.unsendable(Target(kind=kind))
    parts = {
        "heat": ("deploy_stack_id", "deploy_resource_name"),
        "zaqar": ("deploy_queue_id",),
    }[kind]
    assert all(
        each in said
        for each in ("deploy_auth_url", "deploy_user_id", "deploy_project_id", *parts)
    )


@pytest.mark.parametrize(
    "url", ["keystone", "ftp://h/v3", "http:///v3", "http://[::1/v3", "http://h:port/"]
)
def test_a_url_of_keystone_may_be_none(url: str) -> None:
    """An invalid URL of Keystone is one sentence, and a login there is never tried again."""
    user = Credentials(auth_url=url, user_id="u", password="hidden", project_id="p")
    said = outbox.unsendable(Target(kind="zaqar", credentials=user, queue="q"))
    assert said.startswith("Keystone's URL (deploy_auth_url) ")
