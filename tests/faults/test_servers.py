"""Servers that are down, slow, wrong or malicious: every result is kept until it is delivered, and nothing waits."""

from __future__ import annotations

import gzip
import json
import re
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from email.utils import formatdate
from pathlib import Path
from typing import Any

import pytest

import cloud
from loopback import Answer, SignalServer, wait_until
from machine import Done, Machine, deployment

UNDELIVERED = 5
ONCE = ("--deliver-for", "0")
"""One try for each result."""


def ended(process: subprocess.Popen[str], seconds: float) -> Done:
    """Return how a process ended, which it has to do within that many seconds."""
    try:
        out, err = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        pytest.fail(f"it did not end within {seconds:g} s", pytrace=False)
    return Done(process.returncode, out, err)


def hasty(machine: Machine, document: object, *arguments: str) -> Done:
    """Run `heat-config-apply` with time limits for requests that a test can wait for; print its peak memory."""
    code = """if True:
        import sys
        from heat_config_agent import signals, web
        from heat_config_agent.cli import main
        assert web.CONNECT_SECONDS and web.READ_SECONDS and signals.PATIENCE
        web.CONNECT_SECONDS, web.READ_SECONDS, signals.PATIENCE = 1.0, 0.8, 2.0
        code = main.apply()
        print(open("/proc/self/status").read(), file=sys.stderr)
        sys.exit(code)
    """
    path = machine.write(document)
    named = ("--state-dir", str(machine.state), *arguments, str(path))
    return ended(machine.start(sys.executable, "-c", code, *named), 8)


def counting(machine: Machine, identity: str = "d1", url: str = "", **fields: Any) -> dict[str, Any]:
    """Return a deployment whose script counts its runs and prints its id."""
    text = f"#!/bin/sh\necho {identity} >>{machine.folder}/ran\necho {identity}\n"
    return deployment(identity, text, signal=url, **fields)


def ran(machine: Machine) -> list[str]:
    """Return the ids of the scripts that ran, once for each time."""
    return (machine.folder / "ran").read_text().split()


# What servers answer.


def test_refused_for_good(machine: Machine, heat: SignalServer) -> None:
    """A result that was refused for good is kept and not sent again, until somebody asks for that."""
    codes = ("401", "403", "404", "410", "413", "422")
    heat.named = {code: Answer(int(code)) for code in codes}
    given = [counting(machine, code, heat.url(code)) for code in codes]

    first = machine.apply(given)
    second = machine.apply(given)

    assert (first.code, second.code) == (UNDELIVERED, 0), first.err
    assert [len(heat.values(code)) for code in codes] == [1] * len(codes)
    for code, entry in machine.status().items():
        assert entry["state"] == "refused"
        assert f"HTTP {code}" in entry["what"]
    heat.named.clear()
    assert machine.agent("retry", "--signal", "403").code == 0
    assert machine.apply(given).code == 0
    assert [each["deploy_stdout"] for each in heat.values("403")] == ["403\n", "403\n"]
    assert machine.status()["403"]["state"] == "signalled"
    assert sorted(ran(machine)) == sorted(codes)


def test_refused_for_now(machine: Machine, heat: SignalServer) -> None:
    """After any other answer that is no success, the next run sends the very same result again."""
    codes = ("400", "408", "409", "418", "429", "500", "502", "503", "504")
    heat.named = {code: Answer(int(code)) for code in codes}
    given = [counting(machine, code, heat.url(code)) for code in codes]

    assert machine.apply(given, *ONCE).code == UNDELIVERED
    assert {each["state"] for each in machine.status().values()} == {"finished"}
    heat.named.clear()
    assert machine.apply(given, *ONCE).code == 0

    for code in codes:
        first, second = heat.values(code)
        assert first == second
        assert first["deploy_stdout"] == f"{code}\n"
    assert sorted(ran(machine)) == sorted(codes)


@pytest.mark.fault(
    1,
    "a busy server that answers 503 at first",
    "the POST is repeated within the same run",
)
def test_503_and_then_200(machine: Machine, heat: SignalServer) -> None:
    """A POST that a busy server turns away is repeated within the same run."""
    heat.answers.extend([Answer(503), Answer(200)])

    done = machine.apply([counting(machine, url=heat.url())], "--deliver-for", "10")

    assert done.code == 0, done.err
    assert len(heat.signals) == 2
    assert machine.status()["d1"]["state"] == "signalled"


def test_a_server_that_asks_to_wait(machine: Machine, heat: SignalServer) -> None:
    """Retry-After, in seconds or as a date, holds for the runs that follow too, and they say what they wait for."""
    now = time.time()
    heat.named = {
        "seconds": Answer(503, {"Retry-After": "10"}),
        "date": Answer(429, {"Retry-After": formatdate(now + 12, usegmt=True)}),
        "nonsense": Answer(503, {"Retry-After": "soon"}),
    }
    names = list(heat.named)
    given = [counting(machine, name, heat.url(name)) for name in names]

    assert machine.apply(given, *ONCE).code == UNDELIVERED
    told = time.time()
    status = machine.status()
    assert now + 10 <= status["seconds"]["not_before"] <= told + 10
    assert now + 11 <= status["date"]["not_before"] <= now + 13, "a date has no fractions of seconds"
    assert status["nonsense"]["not_before"] is None
    heat.named.clear()
    second = machine.apply(given, "--deliver-for", "0.1")
    assert [len(heat.values(name)) for name in names] == [1, 1, 2]
    assert second.out.count("its result waits until") == 2
    assert second.code == UNDELIVERED, "two results are still to be delivered"
    time.sleep(max(max(each["not_before"] or 0 for each in status.values()) + 0.1 - time.time(), 0))
    assert machine.apply(given, *ONCE).code == 0
    assert [len(heat.values(name)) for name in names] == [2, 2, 2]


def test_a_server_that_asks_to_wait_a_little(machine: Machine, heat: SignalServer) -> None:
    """A Retry-After that lies within the patience of a run is waited for in that run."""
    heat.answers.append(Answer(503, {"Retry-After": "2"}))

    assert machine.apply([counting(machine, url=heat.url())], "--deliver-for", "10").code == 0
    assert heat.signals[1].at - heat.signals[0].at >= 2


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect(machine: Machine, heat: SignalServer, other: SignalServer, status: int) -> None:
    """A redirect is not followed, and is no success."""
    heat.always = Answer(status, {"Location": other.url()})

    done = machine.apply([counting(machine, url=heat.url())], *ONCE)

    assert done.code == UNDELIVERED
    assert not other.signals
    assert machine.status()["d1"]["state"] == "finished"
    assert str(status) in machine.status()["d1"]["what"]


@pytest.mark.parametrize(
    ("answer", "state"),
    [
        (Answer(200, {"Content-Type": "text/html"}, b"<html><h1>200 OK</h1></html>"), "finished"),
        (Answer(200, {"Content-Type": "text/html"}, b"ok"), "signalled"),
        (Answer(200, {"Content-Type": "application/json"}, b"<html>"), "signalled"),
        (Answer(201, {"Content-Type": "text/html"}, b"<html><h1>Created</h1></html>"), "signalled"),
        (Answer(502, {"Content-Type": "text/html"}, b"<html><h1>200 OK</h1></html>"), "finished"),
    ],
)
def test_an_answer_in_html(machine: Machine, heat: SignalServer, answer: Answer, state: str) -> None:
    """What stands in the answer does not matter, only its status; but 200 with a web page is nobody's who was asked."""
    heat.always = answer

    machine.apply([counting(machine, url=heat.url())], *ONCE)

    assert machine.status()["d1"]["state"] == state


@pytest.mark.parametrize("answer", [Answer(hang_up=True), Answer(reset=True)], ids=["hangs up", "resets"])
def test_a_server_that_breaks_off(machine: Machine, heat: SignalServer, answer: Answer) -> None:
    """A result whose connection was broken off is sent again, in the same run and in the next."""
    heat.answers.extend([answer, answer])
    given = [counting(machine, url=heat.url())]

    first = machine.apply(given, *ONCE)
    second = machine.apply(given, "--deliver-for", "10")

    assert (first.code, second.code) == (UNDELIVERED, 0), second.err
    assert len(heat.signals) == 3
    assert len({each.body for each in heat.signals}) == 1
    assert ran(machine) == ["d1"]


# Down and slow.


@pytest.mark.fault(
    1,
    "a server that is down for several runs",
    "its results are kept, it is said, and they are delivered exactly as they were",
)
def test_a_server_that_is_down_and_comes_back(machine: Machine, heat: SignalServer) -> None:
    """What could not be delivered is kept, said, and delivered by a later run exactly as it was."""
    heat.refuse()
    given = [deployment(config="#!/bin/sh\ndate +%N | tee -a ran\n", signal=heat.url())]

    first = machine.apply(given, *ONCE)
    assert first.code == UNDELIVERED
    assert "refused" in first.err
    again = machine.apply(given, *ONCE)
    assert again.code == UNDELIVERED
    entry = machine.status()["d1"]
    assert (entry["state"], entry["tries"], entry["failed"]) == ("finished", 2, False)
    heat.start()
    last = machine.apply(given)

    assert last.code == 0, last.err
    kept = json.loads((machine.state / "deployed" / "d1.notify.json").read_text())
    assert heat.values() == [kept]
    assert kept["deploy_stdout"] == (machine.state / "heat-config-script" / "ran").read_text()


@pytest.mark.fault(
    1,
    "a server that comes back while a run goes on",
    "the run goes on trying for as long as it was told to",
)
def test_a_server_that_comes_back_within_the_run(machine: Machine, heat: SignalServer) -> None:
    """A run goes on trying for as long as it is told to."""
    heat.refuse()
    process = machine.start_apply([counting(machine, url=heat.url())], "--deliver-for", "20")
    time.sleep(0.4)
    heat.start()
    process.communicate(timeout=15)

    assert process.returncode == 0
    assert len(heat.signals) == 1


def test_a_server_that_never_answers(machine: Machine, heat: SignalServer) -> None:
    """A request that is not answered is given up; its result is kept."""
    heat.always = Answer(delay=60)

    done = hasty(machine, [counting(machine, url=heat.url())], *ONCE)

    assert done.code == UNDELIVERED, done.err
    assert "no answer" in machine.status()["d1"]["trouble"]


def test_a_server_that_accepts_nothing(machine: Machine) -> None:
    """A server that takes the connection and reads nothing is given up."""
    with socket.create_server(("127.0.0.1", 0), backlog=1) as listening:
        url = f"http://127.0.0.1:{listening.getsockname()[1]}/v1/signal"
        done = hasty(machine, [counting(machine, url=url)], *ONCE)

    assert done.code == UNDELIVERED, done.err
    assert machine.status()["d1"]["state"] == "finished"


@pytest.mark.fault(
    3,
    "a server that does not answer, and a run that was told to deliver for a second",
    "the run ends, and the next one delivers",
)
def test_a_run_ends_when_its_patience_does(machine: Machine, heat: SignalServer) -> None:
    """A run told to deliver for one second leaves what is unanswered to the next run soon after."""
    heat.always = Answer(delay=60)
    given = [counting(machine, url=heat.url())]

    assert ended(machine.start_apply(given, "--deliver-for", "1"), 6).code == UNDELIVERED
    heat.always = Answer()
    assert machine.apply(given).code == 0
    assert ran(machine) == ["d1"]


@pytest.mark.fault(
    3,
    "a server that thinks for long, or is dead",
    "no other deployment and no other server waits for it",
)
def test_a_slow_server_holds_up_nothing_else(machine: Machine, heat: SignalServer, other: SignalServer) -> None:
    """While one server thinks, the next deployment runs, and another server gets its result."""
    heat.always = Answer(delay=6)
    given = [
        counting(machine, "slow", heat.url()),
        counting(machine, "quick", other.url()),
        counting(machine, "unasked"),
    ]

    began = time.monotonic()
    assert machine.apply(given).code == 0

    assert other.signals[0].at - heat.signals[0].at < 5
    assert machine.status()["unasked"]["ended"] - machine.status()["slow"]["ended"] < 5
    assert time.monotonic() - began < 12, "it was waited for once"


@pytest.mark.fault(
    3,
    "a server that thinks for long, or is dead",
    "no other deployment and no other server waits for it",
)
def test_a_dead_server_holds_up_no_deployment(machine: Machine, heat: SignalServer, other: SignalServer) -> None:
    """While a result is tried again and again, all other deployments run and report."""
    heat.refuse()
    given = [counting(machine, "dead", heat.url()), *(counting(machine, f"d{n}", other.url(f"d{n}")) for n in range(3))]
    process = machine.start_apply(given, "--deliver-for", "60")

    other.wait_for(3, seconds=20)

    assert process.poll() is None, "it still tries"


# What is sent, and how.


def test_the_connection_is_kept(machine: Machine, heat: SignalServer) -> None:
    """All results of a batch go over one connection."""
    heat.always = Answer(200, {"Content-Type": "application/json"}, b"{}")
    given = [counting(machine, f"d{number}", heat.url(f"d{number}")) for number in range(5)]

    assert machine.apply(given).code == 0
    assert len(heat.signals) == 5
    assert heat.connections == 1


def test_a_connection_that_the_server_has_closed(machine: Machine, heat: SignalServer) -> None:
    """A server that closes every connection after its answer gets all results nevertheless, each once."""
    heat.always = Answer(200, {"Connection": "close"})
    given = [counting(machine, f"d{number}", heat.url(f"d{number}")) for number in range(3)]

    assert machine.apply(given, *ONCE).code == 0
    assert [len(heat.values(f"d{number}")) for number in range(3)] == [1, 1, 1]


def test_put(machine: Machine, heat: SignalServer) -> None:
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
    "a signal URL or verb that nobody can use",
    "it is said once and not tried again; the deployment is carried out",
)
def test_where_nobody_can_send_to(machine: Machine, url: str, verb: str, word: str) -> None:
    """A URL or a verb that nobody can use is said once and not tried again; the deployment itself is carried out."""
    given = [counting(machine, url=url, verb=verb)]

    first, second = machine.apply(given), machine.apply(given)

    assert first.code == UNDELIVERED
    assert len([line for line in first.err.splitlines() if word in line]) == 1, first.err
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
        counting(machine, "heat", inputs={**access, "deploy_stack_id": "s/1", "deploy_resource_name": "r"}),
        counting(machine, "zaqar", inputs={**access, "deploy_queue_id": "q"}),
    ]

    done = machine.apply(given, *ONCE)

    assert done.code == UNDELIVERED
    assert "hidden-password" not in done.out + done.err
    for entry in machine.status().values():
        assert entry["state"] == "finished"
        assert "127.0.0.1:9: Connection refused" in entry["what"]
    assert "127.0.0.1:9: Connection refused" in done.err
    assert machine.apply(given, *ONCE).code == UNDELIVERED
    assert sorted(ran(machine)) == ["heat", "zaqar"]


def test_results_of_users_arrive(machine: Machine) -> None:
    """At Heat's API, and in a Zaqar queue, whose limit for a message is lower than Heat's."""
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
        deployment("heat", text, inputs={**access, "deploy_stack_id": "s/1", "deploy_resource_name": "r"}),
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


# Answers that are meant to harm.


@pytest.mark.parametrize(
    "answer",
    [
        Answer(200, {}, b"x" * 64_000_000),
        Answer(200, {"Content-Encoding": "gzip"}, gzip.compress(bytes(200_000_000), 1)),
        Answer(200, {"Content-Length": "9" * 30}, b"x" * 100),
        Answer(200, {f"X-{number}": "x" * 60_000 for number in range(90)}),
    ],
    ids=["huge", "gzip bomb", "huge length", "huge headers"],
)
def test_an_answer_that_is_too_much(machine: Machine, heat: SignalServer, answer: Answer) -> None:
    """However much a server answers, little of it is read, and little memory taken."""
    heat.answers.append(answer)

    done = hasty(machine, [counting(machine, url=heat.url())], *ONCE)

    peak = re.search(r"VmHWM:\s*(\d+) kB", done.err)
    assert peak, done.err
    assert int(peak[1]) < 96 * 1024
    assert done.code == 0
    assert ran(machine) == ["d1"]


def test_an_answer_whose_body_trickles(machine: Machine, heat: SignalServer) -> None:
    """An answer whose body never ends counts by its status, and is not waited for."""
    heat.always = Answer(200, {}, b"x" * 2000, trickle=0.05)

    done = hasty(machine, [counting(machine, url=heat.url())], *ONCE)

    assert done.code == 0, done.err
    assert machine.status()["d1"]["state"] == "signalled"


def test_an_answer_whose_body_never_comes(machine: Machine, heat: SignalServer) -> None:
    """The status has come, and the result is delivered."""
    heat.always = Answer(200, {"Content-Length": "10"})

    done = machine.apply([counting(machine, url=heat.url())], *ONCE)

    assert done.code == 0, done.err
    assert machine.status()["d1"]["state"] == "signalled"


@pytest.mark.parametrize("path", ["/a b", "/\u00e4?x=1"])
def test_a_url_that_has_to_be_encoded_is(machine: Machine, heat: SignalServer, path: str) -> None:
    """No server can have signed it as it is, and none could be sent it."""
    assert machine.apply([counting(machine, url=heat.origin + path)], *ONCE).code == 0
    assert len(heat.signals) == 1


def test_an_answer_whose_headers_trickle(machine: Machine, heat: SignalServer) -> None:
    """An answer that never comes to its body is given up; the result is kept."""
    heat.always = Answer(creep=0.05)

    done = hasty(machine, [counting(machine, url=heat.url())], *ONCE)

    assert done.code == UNDELIVERED, done.err
    assert machine.status()["d1"]["state"] == "finished"


def test_one_answer_that_trickles_does_not_hold_up_the_next(machine: Machine, heat: SignalServer) -> None:
    """After a request that was given up, the other results for that server are delivered."""
    heat.answers.append(Answer(creep=0.05))
    given = [counting(machine, each, heat.url(each)) for each in ("first", "second")]

    done = hasty(machine, given, "--deliver-for", "6")

    assert done.code == 0, done.err
    assert [len(heat.values(each)) for each in ("first", "second")] == [2, 1]


# Certificates and proxies.


@pytest.fixture
def secure(tmp_path: Path) -> Iterator[SignalServer]:
    """A server that speaks HTTPS, with a certificate that nobody knows."""
    if shutil.which("openssl") is None:
        pytest.skip("openssl is missing: apt-get install openssl")
    path = tmp_path / "server.pem"
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"),
            *("-days", "2", "-subj", "/CN=heat", "-addext", "subjectAltName=IP:127.0.0.1"),
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
    "nothing is sent until it is; it is said why",
)
def test_a_certificate_that_is_not_known(machine: Machine, secure: SignalServer) -> None:
    """Nothing is sent to a server whose certificate is not trusted; it is said why, and sent once it is trusted."""
    given = [counting(machine, url=secure.url())]

    first = machine.apply(given, *ONCE)
    assert first.code == UNDELIVERED
    assert "its certificate cannot be trusted" in first.err
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
    done = machine.apply([counting(machine, url=secure.url())], *ONCE, "--ca-file", "missing.pem")

    assert done.code != 0
    assert "missing.pem" in done.err
    assert not secure.signals


def test_plain_http_where_https_is_spoken(machine: Machine, secure: SignalServer, heat: SignalServer) -> None:
    """HTTP to a TLS port and TLS to an HTTP port are troubles like others: kept, and sent again."""
    given = [
        counting(machine, "d1", secure.url().replace("https", "http")),
        counting(machine, "d2", heat.url().replace("http", "https")),
    ]

    assert hasty(machine, given, *ONCE).code == UNDELIVERED
    assert {each["state"] for each in machine.status().values()} == {"finished"}


def test_a_proxy(machine: Machine, heat: SignalServer) -> None:
    """Results go through the environment's proxy."""
    url = "http://heat.invalid:8000/v1/signal?Signature=a%2Bb"

    done = machine.apply([counting(machine, url=url)], http_proxy=heat.origin)

    assert done.code == 0, done.err
    assert [each.path for each in heat.signals] == [url]


def test_no_proxy(machine: Machine, heat: SignalServer) -> None:
    """Servers that the environment exempts from the proxy are spoken to directly."""
    proxy = "http://127.0.0.1:9"

    done = machine.apply([counting(machine, url=heat.url())], *ONCE, http_proxy=proxy, no_proxy="127.0.0.1,localhost")

    assert done.code == 0, done.err
    assert heat.signals[0].path.startswith("/v1/signal")


@pytest.mark.fault(
    4,
    "the environment's proxy is down",
    "nothing is sent past it; the result is kept",
)
def test_a_proxy_that_is_down(machine: Machine, heat: SignalServer) -> None:
    """Where the proxy is down nothing is sent past it; the result is kept."""
    done = machine.apply([counting(machine, url=heat.url())], *ONCE, http_proxy="http://127.0.0.1:9")

    assert done.code == UNDELIVERED
    assert not heat.signals


# Results that nobody waits for any more.


@pytest.mark.fault(
    1,
    "a deployment leaves the metadata before its result is delivered",
    "the result is not sent: it would complete the next action; if it comes back, it is",
)
def test_a_result_whose_deployment_has_gone(machine: Machine, heat: SignalServer) -> None:
    """The result of a deployment that has left its document is not sent: it would complete the next action."""
    heat.refuse()
    assert machine.apply([counting(machine, url=heat.url("old"))], *ONCE).code == UNDELIVERED
    heat.start()

    done = machine.apply([counting(machine, "d2", heat.url("new"))])
    assert "d1 is not sent: its deployment has been replaced" in done.err
    machine.apply([counting(machine, "d2", heat.url("new"))])

    assert heat.values("old") == []
    assert len(heat.values("new")) == 1
    assert machine.status()["d1"]["state"] == "superseded"


@pytest.mark.fault(
    1,
    "a deployment leaves the metadata before its result is delivered",
    "the result is not sent: it would complete the next action; if it comes back, it is",
)
def test_a_result_whose_deployment_comes_back(machine: Machine, heat: SignalServer) -> None:
    """A document that was empty for a while loses nothing: what is in it again is waited for again."""
    given = [counting(machine, url=heat.url())]
    heat.refuse()
    assert machine.apply(given, *ONCE).code == UNDELIVERED
    heat.start()
    assert machine.apply([]).code == 0
    assert heat.signals == []

    assert machine.apply(given).code == 0

    assert [each["deploy_stdout"] for each in heat.values()] == ["d1\n"]
    assert ran(machine) == ["d1"]


def test_what_never_began_before_it_left_is_run_when_it_comes_back(machine: Machine, heat: SignalServer) -> None:
    """A deployment that left the document before its turn, and is in it again, is new work and not done work."""
    first = deployment("first", "#!/bin/sh\nsleep 60\n", options={"timeout": 1})
    given = [first, counting(machine, "second", heat.url("second"))]
    agent = machine.start_apply(given, "--grace", "0.1")
    wait_until(lambda: machine.status().get("first", {}).get("state") == "running")
    agent.kill()
    agent.communicate()

    machine.apply([], "--grace", "0.1")
    machine.apply(given)

    assert ran(machine) == ["second"]
    assert len(heat.values("second")) == 1


@pytest.mark.fault(
    1,
    "another deployment for the same resource, in another document",
    "the older result is never sent",
)
def test_a_result_whose_deployment_is_replaced_elsewhere(machine: Machine, heat: SignalServer) -> None:
    """A result is never sent once another deployment waits at the same resource, whichever document names it."""
    resource = {"deploy_stack_id": "stack/1", "deploy_resource_name": "web"}
    heat.refuse()
    old = machine.write([counting(machine, url=heat.url("old"), inputs=resource)], "old.json")
    new = machine.write([counting(machine, "d2", heat.url("new"), inputs=resource, action="UPDATE")], "new.json")
    assert machine.apply(old, *ONCE).code == UNDELIVERED
    heat.start()

    assert machine.apply(new).code == 0

    assert [each["deploy_stdout"] for each in heat.values("new")] == ["d2\n"]
    assert heat.values("old") == []
    assert machine.status()["d1"]["state"] == "superseded"


@pytest.mark.fault(
    1,
    "a deployment leaves the metadata while it runs",
    "it is followed to its end, and its result is not sent",
)
def test_a_run_whose_deployment_has_gone(machine: Machine, heat: SignalServer) -> None:
    """A run whose deployment leaves the document is followed to its end, and its result is not sent."""
    slow = deployment("d1", f"#!/bin/sh\n: >{machine.folder}/began\nsleep 1\n", signal=heat.url("old"))
    agent = machine.start_apply([slow])
    deadline = time.monotonic() + 5
    while not (machine.folder / "began").exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    agent.kill()
    agent.communicate()

    done = machine.apply([counting(machine, "d2", heat.url("new"))])

    assert done.code == 0, done.err
    assert heat.values("old") == []
    assert len(heat.values("new")) == 1
    assert machine.status()["d1"]["state"] == "superseded"


@pytest.mark.parametrize("content", [None, "[", '{"deployments": 1}', '{"something": "else"}'])
@pytest.mark.fault(
    1,
    "a document that cannot be read or understood",
    "what it said before is not taken to be replaced: its results still arrive",
)
def test_a_source_that_says_nothing_replaces_nothing(machine: Machine, heat: SignalServer, content: str | None) -> None:
    """Results stay waiting while the document that holds their deployments cannot be read or understood."""
    heat.refuse()
    path = machine.write([counting(machine, url=heat.url())], "site.json")
    rest = machine.write([counting(machine, "d2")], "rest.json")
    assert machine.apply(path, *ONCE).code == UNDELIVERED
    heat.start()
    path.unlink() if content is None else path.write_text(content)

    assert machine.apply(path, *ONCE).code != 0
    machine.apply(rest, str(path))
    assert machine.status()["d1"]["state"] == "finished"
    assert not heat.signals
    machine.write([counting(machine, url=heat.url())], "site.json")

    assert machine.apply(path).code == 0
    assert len(heat.values()) == 1


def test_only_replaces_nothing(machine: Machine, heat: SignalServer) -> None:
    """What `--only` passes over is not replaced by that: its result is delivered by a later run."""
    heat.refuse()
    given = [counting(machine, url=heat.url("d1")), counting(machine, "d2", heat.url("d2"))]
    assert machine.apply(given, *ONCE, "--only", "d1").code == UNDELIVERED
    heat.start()

    assert machine.apply(given, "--only", "d2").code == 0
    assert machine.status()["d1"]["state"] in ("finished", "signalled")
    assert machine.apply(given).code == 0
    assert [len(heat.values(each)) for each in ("d1", "d2")] == [1, 1]
    assert ran(machine) == ["d1", "d2"]
