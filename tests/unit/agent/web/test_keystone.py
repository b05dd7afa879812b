from __future__ import annotations

import json
import logging
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from heat_config_agent import web
from heat_config_agent.model.errors import DeniedError, UnreachableError
from heat_config_agent.web import keystone
from support import cloud, pace, proxy, proxy_faults
from support.certificates import CERTIFICATE, KEY
from support.loopback import Answer, SignalServer, wait_until

NONSENSE = {
    "nothing": b"",
    "HTML": b"<html>It works!</html>",
    "cut": b'{"token": {"issued',
    "a list": b"[]",
    "text": b'"token"',
    "a number": b"7",
    "null": b"null",
    "another object": b"{}",
    "null for a token": b'{"token": null}',
    "a list for a token": b'{"token": []}',
    "a token without times": b'{"token": {}}',
    "times that are none": b'{"token": {"issued_at": "now", "expires_at": 7}}',
    "no UTF-8": b"\xff\xfe",
}


def ask(client: keystone.Cloud, **how: Any) -> web.Answer:
    """Ask for something."""
    return client.ask("GET", "orchestration", "/stacks", **how)


def client(openstack: cloud.Cloud, **fields: str) -> keystone.Cloud:
    """Return a cloud as a user sees it."""
    return keystone.Cloud(openstack.credentials(**fields))


def test_the_user_logs_in_once(openstack: cloud.Cloud) -> None:
    """After that each question is one request, and all go over one connection."""
    user = client(openstack)
    for _ in range(5):
        assert ask(user).body == b"{}"
    assert openstack.requests == (1, 5)
    assert openstack.service.connections == 1
    assert {each.headers["X-Auth-Token"] for each in openstack.asked} == {"token-1"}
    assert {each.path for each in openstack.asked} == {"/v1/p1/stacks"}
    (login,) = openstack.logins
    assert (login.verb, login.path) == ("POST", cloud.LOGIN)
    assert json.loads(login.body)["auth"] == {
        "identity": {
            "methods": ["password"],
            "password": {"user": {"id": "u1", "password": cloud.PASSWORD}},
        },
        "scope": {"project": {"id": "p1"}},
    }


def test_an_application_credential_logs_in_for_its_own_project(
    openstack: cloud.Cloud,
) -> None:
    """It takes the place of the user, and a project must not be named."""
    held = {
        "application_credential_id": "a1",
        "application_credential_secret": cloud.PASSWORD,
    }
    user = client(openstack, user_id="", password="", **held)
    assert ask(user).status == 200
    (login,) = openstack.logins
    assert json.loads(login.body)["auth"] == {
        "identity": {
            "methods": ["application_credential"],
            "application_credential": {"id": "a1", "secret": cloud.PASSWORD},
        }
    }
    assert cloud.PASSWORD not in repr(openstack.credentials(**held))


@pytest.mark.parametrize("base", ["", "/identity"])
@pytest.mark.parametrize("version", ["", "/", "/v3", "/v3/", "/v2.0", "/v2.0/"])
def test_keystones_url_may_name_a_version(
    openstack: cloud.Cloud, base: str, version: str
) -> None:
    """Heat hands out any of these. None costs a request more."""
    assert client(openstack, path=base + version).token() == "token-1"
    assert [each.path for each in openstack.logins] == [base + cloud.LOGIN]


def test_a_token_that_is_refused_is_renewed_once(openstack: cloud.Cloud) -> None:
    """A refused token, which may have been revoked, is renewed, and the request is repeated unchanged."""
    user = client(openstack)
    ask(user)
    openstack.keystone.always = openstack.lets_in("token-2")
    openstack.service.answers.append(Answer(401))
    answer = user.ask(
        "POST", "orchestration", "/x", body={"a": 1}, headers={"X-Some": "thing"}
    )
    assert answer.status == 200
    assert openstack.requests == (2, 3)
    refused, taken = openstack.asked[1:]
    assert (refused.headers["X-Auth-Token"], taken.headers["X-Auth-Token"]) == (
        "token-1",
        "token-2",
    )
    assert (taken.verb, taken.body, taken.headers["X-Some"]) == (
        "POST",
        b'{"a": 1}',
        "thing",
    )


def test_a_service_that_takes_no_token_is_not_asked_for_ever(
    openstack: cloud.Cloud,
) -> None:
    """A token that was given just now is not renewed; an older one is, once."""
    openstack.service.always = Answer(401)
    user = client(openstack)
    assert (ask(user).status, openstack.requests) == (401, (1, 1))
    assert (ask(user).status, openstack.requests) == (401, (2, 3))


def test_a_token_is_renewed_before_it_expires(openstack: cloud.Cloud) -> None:
    """A token that expires at once is used once."""
    openstack.keystone.always = openstack.lets_in(
        "token-1", expires_at="2026-01-01T00:00:00.000000Z"
    )
    user = client(openstack)
    ask(user)
    ask(user)
    assert openstack.requests == (2, 2)


@pytest.mark.parametrize("year", [1971, 2100])
def test_the_machines_clock_has_no_say(openstack: cloud.Cloud, year: int) -> None:
    """The lifetime of a token is what Keystone says, whatever the machine's clock says."""
    life = {
        "issued_at": f"{year}-01-01T00:00:00Z",
        "expires_at": f"{year}-01-01T00:10:00Z",
    }
    openstack.keystone.always = openstack.lets_in("token-1", **life)
    user = client(openstack)
    ask(user)
    ask(user)
    assert openstack.requests == (1, 2)


@pytest.mark.parametrize("status", [401, 403, 404])
def test_keystone_may_say_no(openstack: cloud.Cloud, status: int) -> None:
    """A refusal of Keystone is reported as such, and not as an unreachable server."""
    openstack.keystone.always = Answer(
        status, body=b'{"error": {"message": "no", "code": 401, "title": "x"}}'
    )
    with pytest.raises(DeniedError, match=f"^Keystone answers HTTP {status} "):
        ask(client(openstack))
    assert openstack.requests == (1, 0)


@pytest.mark.parametrize("status", [300, 302, 400, 409, 429, 500, 502, 503, 599])
def test_keystone_may_be_unwell(openstack: cloud.Cloud, status: int) -> None:
    """An error of Keystone is neither retried, followed nor slept over."""
    openstack.keystone.always = Answer(
        status, {"Location": openstack.service.origin, "Retry-After": "60"}
    )
    with pytest.raises(UnreachableError, match=r"^Keystone") as caught:
        ask(client(openstack))
    assert not isinstance(caught.value, DeniedError)
    assert openstack.requests == (1, 0)


@pytest.mark.parametrize("status", [201, 401])
@pytest.mark.parametrize("body", NONSENSE.values(), ids=NONSENSE)
def test_keystone_may_answer_nonsense(
    openstack: cloud.Cloud, body: bytes, status: int
) -> None:
    """Any invalid answer of Keystone is one sentence, and the next answer may be better."""
    sensible = openstack.keystone.always
    openstack.keystone.always = Answer(
        status, {"X-Subject-Token": "t", "Content-Type": "application/json"}, body
    )
    user = client(openstack)
    with pytest.raises(UnreachableError, match=r"^Keystone") as caught:
        ask(user)
    assert cloud.PASSWORD not in str(caught.value)
    openstack.keystone.always = sensible
    assert ask(user).status == 200


def test_a_token_has_to_be_there(openstack: cloud.Cloud) -> None:
    """An answer without the token's header is an error."""
    openstack.keystone.always = Answer(201, {}, openstack.lets_in("t").body)
    with pytest.raises(
        UnreachableError, match="Keystone's answer cannot be understood"
    ):
        ask(client(openstack))


@pytest.mark.parametrize(
    "catalog",
    [
        None,
        {},
        "services",
        7,
        [None],
        [{}],
        [[]],
        [{"type": "orchestration"}],
        [{"type": "orchestration", "endpoints": None}],
        [{"type": "orchestration", "endpoints": [{}]}],
        [
            {
                "type": "orchestration",
                "endpoints": [
                    {"interface": "public", "url": None, "region": "RegionOne"}
                ],
            }
        ],
        [
            {
                "type": "orchestration",
                "endpoints": [{"interface": "public", "url": 7, "region": "RegionOne"}],
            }
        ],
        [
            {
                "type": "orchestration",
                "endpoints": [
                    {"interface": "public", "url": "ftp://h", "region": "RegionOne"}
                ],
            }
        ],
        [
            {
                "type": "orchestration",
                "endpoints": [
                    {"interface": "public", "url": "http://[", "region": "RegionOne"}
                ],
            }
        ],
        [
            {
                "type": "orchestration",
                "endpoints": [
                    {"interface": "public", "url": "/v1", "region": "RegionOne"}
                ],
            }
        ],
    ],
    ids=json.dumps,
)
def test_a_catalog_may_be_odd(openstack: cloud.Cloud, catalog: object) -> None:
    """An unusable catalog is reported with the reason."""
    openstack.keystone.always = openstack.lets_in("t", catalog=catalog)
    with pytest.raises(UnreachableError, match=r"Keystone's (catalog|answer)"):
        ask(client(openstack))
    assert len(openstack.asked) == 0


def test_a_service_that_is_missing_is_named(openstack: cloud.Cloud) -> None:
    """With the region in which it was looked for."""
    with pytest.raises(
        UnreachableError,
        match=r"no service of the type orchestration in the region Mars$",
    ):
        ask(client(openstack, region_name="Mars"))
    with pytest.raises(UnreachableError, match=r"no service of the type dns$"):
        client(openstack, region_name="").ask("GET", "dns", "/")


def test_without_a_region_any_will_do(openstack: cloud.Cloud) -> None:
    """Some metadata names none."""
    assert ask(client(openstack, region_name="")).status == 200


def endpoint(
    url: str, region: str = "RegionOne", interface: str = "public", **more: str
) -> dict[str, str]:
    """Return an endpoint in a catalog."""
    return {"url": url, "region": region, "interface": interface, **more}


@pytest.mark.parametrize(
    "catalog",
    [
        [
            {
                "type": "messaging",
                "endpoints": [endpoint("http://no", "Mars"), endpoint("http://yes/")],
            }
        ],
        [
            {
                "type": "messaging",
                "endpoints": [
                    endpoint("http://no", region_id="Mars"),
                    endpoint("http://yes"),
                ],
            }
        ],
        [
            {
                "type": "messaging",
                "endpoints": [
                    endpoint("http://no", interface="admin"),
                    endpoint("http://yes"),
                ],
            }
        ],
        [
            {
                "type": "messaging",
                "endpoints": [
                    endpoint(""),
                    endpoint("http://yes"),
                    endpoint("http://no"),
                ],
            }
        ],
        [{"type": "message", "endpoints": [endpoint("http://yes")]}],
        [
            {"type": "message", "endpoints": [endpoint("http://no")]},
            {"type": "messaging", "endpoints": [endpoint("http://yes")]},
        ],
        [7, {}, {"type": "messaging", "endpoints": [None, endpoint("http://yes")]}],
    ],
    ids=[
        "region",
        "region id",
        "interface",
        "without a URL",
        "alias",
        "alias and type",
        "nonsense before it",
    ],
)
def test_the_first_public_endpoint_of_the_region_is_used(
    openstack: cloud.Cloud, catalog: object
) -> None:
    """The official type counts before its alias; what is malformed does not count."""
    openstack.keystone.always = openstack.lets_in("t", catalog=catalog)
    assert client(openstack).endpoint("messaging") == "http://yes"


@pytest.mark.parametrize("token", ["", "a b", "a\tb", "\u00e9"])
def test_a_token_has_to_fit_a_header(openstack: cloud.Cloud, token: str) -> None:
    """An answer with another one is an error."""
    openstack.keystone.always = openstack.lets_in(token)
    with pytest.raises(
        UnreachableError, match="Keystone's answer cannot be understood"
    ):
        ask(client(openstack))


def test_a_web_page_in_the_place_of_keystone_is_named(openstack: cloud.Cloud) -> None:
    """As of a network with a login page."""
    openstack.keystone.always = Answer(
        200, {"Content-Type": "text/html"}, b"<html>Welcome</html>"
    )
    with pytest.raises(
        UnreachableError,
        match=r"^Keystone answers with a web page: something else is in its place$",
    ):
        ask(client(openstack))


@pytest.mark.parametrize("suffix", ["", "/", "/v2", "/v2/"])
def test_a_catalog_may_name_the_version_too(
    openstack: cloud.Cloud, suffix: str
) -> None:
    """A version in the catalog's URL appears in the path only once."""
    openstack.keystone.always = openstack.lets_in(
        "t", catalog=openstack.catalog(messaging=f"/messaging{suffix}")
    )
    client(openstack).ask("GET", "messaging", "/v2/queues")
    assert openstack.asked[0].path == "/messaging/v2/queues"


@pytest.mark.parametrize("status", [204, 302, 404, 409, 429, 503])
def test_whatever_a_service_says_is_returned(
    openstack: cloud.Cloud, status: int
) -> None:
    """After one request: redirects are not followed, and nothing is tried again."""
    headers = {"Location": openstack.service.origin, "Retry-After": "60"}
    openstack.service.always = Answer(
        status, headers, b"" if status == 204 else b"what"
    )
    answer = ask(client(openstack))
    assert (answer.status, answer.body, answer.headers["retry-after"]) == (
        status,
        b"" if status == 204 else b"what",
        "60",
    )
    assert openstack.requests == (1, 1)


def called(openstack: cloud.Cloud, where: str) -> str:
    """Return the name of a server in messages: Keystone is none of those that were asked for."""
    host = str(getattr(openstack, where).origin.partition("://")[2])
    return f"Keystone at {host}" if where == "keystone" else host


SLOW = {
    "silent": Answer(delay=15),
    "trickling": Answer(body=b"x" * 1000, trickle=0.1),
    "creeping": Answer(creep=0.1),
}


@pytest.mark.parametrize("slow", SLOW.values(), ids=SLOW)
@pytest.mark.parametrize("where", ["keystone", "service"])
def test_login_has_a_limit_for_all_requests(
    openstack: cloud.Cloud, where: str, slow: Answer
) -> None:
    """The limit is for all requests of a question together; and the next question may be answered."""
    user = client(openstack)
    server = getattr(openstack, where)
    sensible, server.always = server.always, slow
    began = time.monotonic()
    with pytest.raises(
        UnreachableError,
        match=f"^{called(openstack, where)}: .*(in time|within|too long)",
    ):
        ask(user, seconds=0.3)
    assert time.monotonic() - began < pace.seconds(10)
    server.always = sensible
    assert ask(user).status == 200


@pytest.mark.parametrize(
    "answer", [Answer(hang_up=True), Answer(reset=True)], ids=["hangs up", "resets"]
)
@pytest.mark.parametrize("where", ["keystone", "service"])
def test_a_server_may_hang_up(
    openstack: cloud.Cloud, where: str, answer: Answer
) -> None:
    """A closed connection does not count as an answer, and the server is asked again next time."""
    user = client(openstack)
    server = getattr(openstack, where)
    server.answers.append(answer)
    with pytest.raises(UnreachableError, match=f"^{called(openstack, where)}: "):
        ask(user)
    assert ask(user).status == 200


def test_refused_connection_is_reported_in_the_words_of_the_system(
    openstack: cloud.Cloud,
) -> None:
    """A refused connection is reported with the system's reason and the name of the server."""
    openstack.service.stop()
    with pytest.raises(
        UnreachableError, match=r"^127\.0\.0\.1:\d+: Connection refused$"
    ):
        ask(client(openstack))


@pytest.mark.parametrize(
    "url",
    [
        "",
        "v3",
        "ftp://h/v3",
        "http:///v3",
        "http://[::1/v3",
        "http://h:port/v3",
        "http://h:99999/v3",
    ],
)
def test_a_url_of_keystone_may_be_none(openstack: cloud.Cloud, url: str) -> None:
    """An invalid URL of Keystone is reported in one sentence."""
    with pytest.raises(
        UnreachableError, match=r"^Keystone's URL cannot be understood$"
    ):
        ask(client(openstack, auth_url=url))


def test_a_huge_answer_is_not_taken_in(
    openstack: cloud.Cloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A huge answer of a service or of Keystone is not read."""
    user = client(openstack)
    monkeypatch.setattr(web, "LARGEST", 1 << 20)
    openstack.service.always = Answer(body=b"x" * (2 << 20))
    with pytest.raises(UnreachableError, match="its answer is longer than 1 MiB"):
        ask(user)
    openstack.keystone.always = Answer(201, body=b"x" * (9 << 20))
    with pytest.raises(UnreachableError, match="its answer is longer than 8 MiB"):
        ask(client(openstack))


def test_login_logs_no_secret(
    openstack: cloud.Cloud, caplog: pytest.LogCaptureFixture
) -> None:
    """Even where somebody has all that libraries say logged."""
    caplog.set_level(logging.DEBUG)
    user = client(openstack)
    ask(user)
    openstack.service.answers.append(Answer(401))
    ask(user)
    openstack.keystone.always = Answer(401)
    with pytest.raises(DeniedError):
        ask(client(openstack))
    assert caplog.records == []
    assert cloud.PASSWORD not in repr(openstack.credentials())


def test_users_share_connections(openstack: cloud.Cloud) -> None:
    """Each user has its own token and no cookies of another."""
    shared = keystone.Connections()
    openstack.service.always = Answer(headers={"Set-Cookie": "whose=first"})
    for number in ("1", "2"):
        openstack.keystone.always = openstack.lets_in(f"token-{number}")
        ask(keystone.Cloud(openstack.credentials(user_id=number), session=shared))
    assert (openstack.keystone.connections, openstack.service.connections) == (1, 1)
    assert [each.headers["X-Auth-Token"] for each in openstack.asked] == [
        "token-1",
        "token-2",
    ]
    assert not any(
        "Cookie" in each.headers for each in openstack.asked + openstack.logins
    )


def test_a_later_login_has_a_new_connection(
    openstack: cloud.Cloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A firewall may have forgotten the one of an hour ago."""
    monkeypatch.setattr(keystone, "KEPT_SECONDS", 0.0)
    shared = keystone.Connections()
    for number in ("1", "2"):
        ask(keystone.Cloud(openstack.credentials(user_id=number), session=shared))
    assert (openstack.keystone.connections, openstack.service.connections) == (2, 1)


def test_a_login_loads_no_libraries(openstack: cloud.Cloud) -> None:
    """The standard library speaks HTTP, whether the login succeeds or not."""
    code = """if True:
        import json, sys
        from heat_config_agent.model.deployment import Credentials
        from heat_config_agent.model.errors import DeniedError
        from heat_config_agent.web import keystone
        cloud = keystone.Cloud(Credentials(**json.loads(sys.stdin.read())))
        assert cloud.ask("GET", "orchestration", "/stacks").status == 200
        try:
            other = cloud.endpoint("messaging")
            keystone.Cloud(Credentials(auth_url=other, user_id="", password="", project_id="")).token()
        except DeniedError:
            print(*sys.modules)
    """
    openstack.service.answers.extend([Answer(body=b"{}"), Answer(404)])
    given = json.dumps(vars(openstack.credentials()))
    done = subprocess.run(
        [sys.executable, "-c", code],
        input=given,
        capture_output=True,
        text=True,
        check=True,
    )
    loaded = set(done.stdout.split())
    assert {"heat_config_agent.web.login", "http.client"} <= loaded
    assert (
        not {"requests", "urllib3", "subprocess", "heat_config_agent.web.proxied"}
        & loaded
    )


@pytest.mark.parametrize(
    "text", ["Zürich €", "\ud800", 'quote " and \\ and \n', "p" * 300_000]
)
def test_any_password_passes(openstack: cloud.Cloud, text: str) -> None:
    """Also half of a character, and one that is longer than any buffer."""
    assert client(openstack, password=text).token() == "token-1"
    asked = json.loads(openstack.logins[0].body)
    assert asked["auth"]["identity"]["password"]["user"]["password"] == text


def test_logins_at_once_do_not_wait_for_one_another(
    openstack: cloud.Cloud, other: SignalServer
) -> None:
    """A silent Keystone delays no login at another one."""
    other.always = Answer(delay=60)
    failed: list[str] = []

    def fail() -> None:
        with pytest.raises(UnreachableError) as caught:
            client(openstack, auth_url=other.origin).token(seconds=pace.seconds(3))
        failed.append(str(caught.value))

    thread = threading.Thread(target=fail)
    thread.start()
    wait_until(lambda: other.signals != [])
    assert client(openstack).token() == "token-1"
    assert failed == []
    thread.join()
    assert len(failed) == 1


def test_login_is_not_sent_if_the_policy_refuses_its_url(
    openstack: cloud.Cloud,
) -> None:
    """The network rule is asked about the very URL of the login."""
    asked: list[str] = []

    def refuse(url: str) -> None:
        asked.append(url)
        raise UnreachableError("the policy refuses it")

    session = keystone.Connections(allow=refuse)
    with pytest.raises(UnreachableError, match=r"^the policy refuses it$"):
        keystone.Cloud(openstack.credentials(), session=session).token()
    assert asked == [openstack.keystone.origin + cloud.LOGIN]
    assert openstack.requests == (0, 0)


def test_the_environment_is_read_as_for_all_servers(
    openstack: cloud.Cloud,
    other: SignalServer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Proxies of the environment are used, which is read once, and a `.netrc` is not."""
    netrc = tmp_path / "netrc"
    netrc.write_text("machine 127.0.0.1 login l password p\n")
    monkeypatch.setenv("NETRC", str(netrc))
    user = client(openstack)
    ask(user)
    monkeypatch.setenv("http_proxy", other.origin)
    ask(user)
    assert openstack.requests == (1, 2)
    assert not any(
        "Authorization" in each.headers for each in openstack.asked + openstack.logins
    )
    other.always = openstack.keystone.always
    client(openstack).token()
    assert [each.path for each in other.signals] == [
        openstack.keystone.origin + cloud.LOGIN
    ]


@pytest.mark.parametrize(
    ("fault", "says"),
    [
        (proxy.REFUSED, "refused the connection"),
        (proxy_faults.answers(407), "requires a user and password (HTTP 407)"),
    ],
    ids=["refuses", "wants a password"],
)
def test_a_proxy_before_keystone_is_named(
    openstack: cloud.Cloud,
    monkeypatch: pytest.MonkeyPatch,
    fault: proxy.Fault,
    says: str,
) -> None:
    """A refusal of the proxy is not reported as one of Keystone."""
    stands = proxy.Proxy()
    stands.fail(fault)
    monkeypatch.setenv(
        "http_proxy", stands.origin.replace("://", "://user:proxy-password@")
    )
    with pytest.raises(UnreachableError) as caught:
        ask(client(openstack))
    assert (
        f"the proxy {stands.origin.removeprefix('http://')} (http_proxy) {says}"
        in str(caught.value)
    )
    assert "proxy-password" not in str(caught.value)
    stands.close()


def test_certificates_are_checked(openstack: cloud.Cloud, tmp_path: Path) -> None:
    """Keystone's and the services', with the file that is given."""
    ca_file = tmp_path / "ca.pem"
    ca_file.write_text(CERTIFICATE)
    both = tmp_path / "server.pem"
    both.write_text(CERTIFICATE + KEY)
    secure = SignalServer(both)
    secure.start()
    user = openstack.credentials(auth_url=secure.origin + "/v3")
    catalog = json.dumps(openstack.catalog()).replace(
        openstack.service.origin, secure.origin
    )
    secure.answers.extend(
        [openstack.lets_in("t", catalog=json.loads(catalog)), Answer(body=b"there")]
    )
    with pytest.raises(UnreachableError, match=r"certificate|CERTIFICATE|SSL"):
        ask(keystone.Cloud(user))
    assert ask(keystone.Cloud(user, str(ca_file))).body == b"there"
    assert len(secure.signals) == 2
    secure.stop()


def test_a_catalog_is_asked_for_again_where_it_lacks_something(
    openstack: cloud.Cloud,
) -> None:
    """A catalog that lacks a service is fetched again, because the service may be added."""
    openstack.keystone.answers.append(openstack.lets_in("t", catalog=[]))
    user = client(openstack)
    with pytest.raises(UnreachableError, match="no service of the type orchestration"):
        ask(user)
    assert ask(user).status == 200


def test_login_gives_token_endpoint_and_project_for_a_websocket(
    openstack: cloud.Cloud,
) -> None:
    """A token, the place of a service, and the project."""
    user = client(openstack)
    assert (user.token(), user.endpoint("messaging"), user.project_id) == (
        "token-1",
        openstack.service.origin,
        "p1",
    )
    assert openstack.requests == (1, 0)
