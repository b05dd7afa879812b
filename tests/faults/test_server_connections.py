"""The sending of results: over kept connections, with certificates, through proxies."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from support import cloud
from support.loopback import Answer, SignalServer
from support.machine import Machine, deployment
from support.results import ONCE, UNDELIVERED, counting, hasty, ran

pytestmark = pytest.mark.takes(20)


def test_the_connection_is_kept(machine: Machine, heat: SignalServer) -> None:
    """All results of a batch go over one connection."""
    heat.always = Answer(200, {"Content-Type": "application/json"}, b"{}")
    given = [
        counting(machine, f"d{number}", heat.url(f"d{number}")) for number in range(5)
    ]

    assert machine.apply(given).code == 0
    assert len(heat.signals) == 5
    assert heat.connections == 1


def test_a_connection_that_the_server_has_closed(
    machine: Machine, heat: SignalServer
) -> None:
    """A server that closes every connection after its answer gets all results nevertheless, each once."""
    heat.always = Answer(200, {"Connection": "close"})
    given = [
        counting(machine, f"d{number}", heat.url(f"d{number}")) for number in range(3)
    ]

    assert machine.apply(given, *ONCE).code == 0
    assert [len(heat.values(f"d{number}")) for number in range(3)] == [1, 1, 1]


def test_a_result_is_sent_with_the_verb_of_its_deployment(
    machine: Machine, heat: SignalServer
) -> None:
    """The verb is the one that the deployment names."""
    assert machine.apply([counting(machine, url=heat.url(), verb="PUT")]).code == 0
    assert [each.verb for each in heat.signals] == ["PUT"]


def test_the_url_is_sent_as_it_is(machine: Machine, heat: SignalServer) -> None:
    """A signed URL reaches the server letter by letter: whatever is changed in it breaks the signature."""
    path = "/v1/AUTH_a/b%2fc/../d//e?temp_url_sig=a%2bB%2F+'~&temp_url_expires=1&b=2&a=%C3%a9&empty"

    assert machine.apply([counting(machine, url=heat.origin + path)]).code == 0
    assert [each.path for each in heat.signals] == [path]


@pytest.mark.parametrize(
    ("url", "verb", "word"),
    [
        ("ftp://127.0.0.1/signal", "POST", "ftp"),
        ("http://[::1/signal", "POST", "URL"),
        ("http://127.0.0.1:port/signal", "POST", "URL"),
        ("http:///signal", "POST", "host"),
        ("signal", "POST", "scheme"),
        ("http://127.0.0.1:9/signal", "DELETE", "DELETE"),
    ],
)
@pytest.mark.fault(
    5,
    "a signal URL or verb that cannot be used",
    "one sentence says so, and it is not tried again; the deployment is carried out",
)
def test_unusable_signal_url_is_not_retried(
    machine: Machine, url: str, verb: str, word: str
) -> None:
    """A URL or a verb that nobody can use is said once and not tried again; the deployment itself is carried out."""
    given = [counting(machine, url=url, verb=verb)]

    first, second = machine.apply(given), machine.apply(given)

    assert first.code == UNDELIVERED
    assert len([line for line in first.out.splitlines() if word in line]) == 1, (
        first.out
    )
    assert (second.code, second.err) == (0, "")
    assert machine.status()["d1"]["state"] == "refused"
    assert ran(machine) == ["d1"]


def test_a_keystone_that_is_away_keeps_results(machine: Machine) -> None:
    """Results for Heat's API and for Zaqar are kept until their users can log in, and why they wait is said."""
    access = {
        "deploy_auth_url": "http://127.0.0.1:9/v3",
        "deploy_user_id": "u",
        "deploy_password": "hidden-password",
        "deploy_project_id": "p",
    }
    given = [
        counting(
            machine,
            "heat",
            inputs={**access, "deploy_stack_id": "s/1", "deploy_resource_name": "r"},
        ),
        counting(machine, "zaqar", inputs={**access, "deploy_queue_id": "q"}),
    ]

    done = machine.apply(given, *ONCE)

    assert done.code == UNDELIVERED
    assert "hidden-password" not in done.out + done.err
    for entry in machine.status().values():
        assert entry["state"] == "finished"
        assert "127.0.0.1:9: Connection refused" in entry["what"]
    assert "127.0.0.1:9: Connection refused" in done.out
    assert machine.apply(given, *ONCE).code == UNDELIVERED
    assert sorted(ran(machine)) == ["heat", "zaqar"]


def test_results_of_users_arrive(machine: Machine) -> None:
    """Results arrive at Heat's API and in a Zaqar queue, whose messages have a lower limit."""
    openstack = cloud.Cloud()
    openstack.start()
    access = {
        "deploy_auth_url": openstack.keystone.origin + "/v3/",
        "deploy_user_id": "u",
        "deploy_password": cloud.PASSWORD,
        "deploy_project_id": cloud.PROJECT,
    }
    text = "#!/bin/sh\nhead -c 600000 /dev/zero | tr '\\0' x\n"
    given = [
        deployment(
            "heat",
            text,
            inputs={**access, "deploy_stack_id": "s/1", "deploy_resource_name": "r"},
        ),
        deployment("zaqar", text, inputs={**access, "deploy_queue_id": "q"}),
    ]

    done = machine.apply(given)
    openstack.stop()

    assert (done.code, machine.apply(given).code) == (0, 0)
    assert openstack.requests == (2, 2)
    found = {each.path.rpartition("/")[2]: each for each in openstack.asked}
    assert found["signal"].value["deploy_stdout"] == "x" * 600_000
    (message,) = json.loads(found["messages"].body)["messages"]
    assert message["body"]["deploy_status_code"] == 0
    assert "bytes left out" in message["body"]["deploy_stdout"]
    assert 200_000 < len(found["messages"].body) < 256 * 1024


@pytest.fixture
def secure(tmp_path: Path) -> Iterator[SignalServer]:
    """A server that speaks HTTPS, with a certificate that nobody knows."""
    if shutil.which("openssl") is None:
        pytest.skip("openssl is missing: apt-get install openssl")
    path = tmp_path / "server.pem"
    subprocess.run(
        [
            *(
                "openssl",
                "req",
                "-x509",
                "-newkey",
                "ec",
                "-pkeyopt",
                "ec_paramgen_curve:P-256",
                "-nodes",
            ),
            *(
                "-days",
                "2",
                "-subj",
                "/CN=heat",
                "-addext",
                "subjectAltName=IP:127.0.0.1",
            ),
            *("-keyout", path, "-out", path),
        ],
        check=True,
        capture_output=True,
    )
    server = SignalServer(certificate=path)
    server.start()
    yield server
    server.stop()


@pytest.mark.fault(
    4,
    "a certificate that is not known",
    "nothing is sent until it is, and a sentence says why",
)
def test_a_certificate_that_is_not_known(
    machine: Machine, secure: SignalServer
) -> None:
    """Nothing is sent to a server whose certificate is not trusted; it is said why, and sent once it is trusted."""
    given = [counting(machine, url=secure.url())]

    first = machine.apply(given, *ONCE)
    assert first.code == UNDELIVERED
    assert "its certificate cannot be trusted" in first.out
    assert not secure.signals
    second = machine.apply(given, "--ca-file", str(machine.folder / "server.pem"))

    assert second.code == 0, second.err
    assert len(secure.signals) == 1
    assert ran(machine) == ["d1"]


@pytest.mark.fault(
    4,
    "a CA file that cannot be used",
    "it is named, and nothing is sent without it",
)
def test_a_ca_file_that_is_not_there(machine: Machine, secure: SignalServer) -> None:
    """A CA file that cannot be used is named, and nothing is sent without it."""
    done = machine.apply(
        [counting(machine, url=secure.url())], *ONCE, "--ca-file", "missing.pem"
    )

    assert done.code != 0
    assert "missing.pem" in done.err
    assert not secure.signals


def test_plain_http_where_https_is_spoken(
    machine: Machine, secure: SignalServer, heat: SignalServer
) -> None:
    """HTTP to a TLS port and TLS to an HTTP port are troubles like others: kept, and sent again."""
    given = [
        counting(machine, "d1", secure.url().replace("https", "http")),
        counting(machine, "d2", heat.url().replace("http", "https")),
    ]

    assert hasty(machine, given, *ONCE).code == UNDELIVERED
    assert {each["state"] for each in machine.status().values()} == {"finished"}


def test_results_go_through_the_proxy_of_the_environment(
    machine: Machine, heat: SignalServer
) -> None:
    """Results go through the environment's proxy."""
    url = "http://heat.invalid:8000/v1/signal?Signature=a%2Bb"

    done = machine.apply([counting(machine, url=url)], http_proxy=heat.origin)

    assert done.code == 0, done.err
    assert [each.path for each in heat.signals] == [url]


def test_servers_in_no_proxy_are_spoken_to_directly(
    machine: Machine, heat: SignalServer
) -> None:
    """Servers that the environment exempts from the proxy are spoken to directly."""
    proxy = "http://127.0.0.1:9"

    done = machine.apply(
        [counting(machine, url=heat.url())],
        *ONCE,
        http_proxy=proxy,
        no_proxy="127.0.0.1,localhost",
    )

    assert done.code == 0, done.err
    assert heat.signals[0].path.startswith("/v1/signal")


@pytest.mark.fault(
    4,
    "the environment's proxy is down",
    "nothing is sent past it; the result is kept",
)
def test_a_proxy_that_is_down(machine: Machine, heat: SignalServer) -> None:
    """Where the proxy is down nothing is sent past it; the result is kept."""
    done = machine.apply(
        [counting(machine, url=heat.url())],
        *ONCE,
        http_proxy="http://user:pass-word@127.0.0.1:9",
    )

    assert done.code == UNDELIVERED
    assert not heat.signals
    what = machine.status()["d1"]["what"]
    assert "the proxy 127.0.0.1:9 (http_proxy) refused the connection" in what
    assert "pass-word" not in what + done.out + done.err
