"""The polling of sources by the daemon: intervals, faults, and invalid answers."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Iterator

import pytest

from support import pace
from support.daemon import LONG, Daemon, counting, ran
from support.daemon_runs import meeting
from support.loopback import Answer, SignalServer, wait_until
from support.machine import Machine, deployment

pytestmark = pytest.mark.takes(40)


@pytest.fixture
def server() -> Iterator[SignalServer]:
    """A server that has metadata at `url("metadata")`."""
    server = SignalServer()
    server.start()
    yield server
    server.stop()


def serve(server: SignalServer, document: object) -> None:
    """Have the server answer with a document from here on."""
    server.named["metadata"] = Answer(body=json.dumps(document).encode())


def hang(server: SignalServer) -> None:
    """Have the server accept what it is asked, and never answer."""
    server.named["metadata"] = Answer(delay=600)


def asking(
    daemon: Daemon, server: SignalServer, *collectors: str, **settings: str | float
) -> None:
    """Have the daemon ask that server, and other sources."""
    daemon.settings["request"] = {"metadata_url": server.url("metadata")}
    daemon.configure(collectors=",".join(["request", *collectors]), **settings)


# Files that cannot be used.


@pytest.mark.parametrize(
    "text", ["{", "deployments: {}\n", '{"heat_template_version": "2018-08-31"}']
)
def test_a_bad_file_takes_nothing_away(
    daemon: Daemon, machine: Machine, heat: SignalServer, text: str
) -> None:
    """The earlier content of a bad file stays in force, other files count, and the bad one is reported once."""
    daemon.put([deployment("d1", counting(machine, "d1"), signal=heat.url("d1"))], "a")
    daemon.start()
    daemon.wait_state("d1", "signalled")
    daemon.put(text, "a")
    daemon.put([deployment("d2", counting(machine, "d2"), signal=heat.url("d2"))], "b")
    daemon.wait_state("d2", "signalled")
    time.sleep(0.7)  # several polls

    assert len(daemon.said("a.json")) == 1, daemon.log
    assert "its content from before still counts" in daemon.source()["trouble"]
    checked = daemon.command("status", "--check")
    assert checked.code == 1
    assert "a.json" in checked.out
    daemon.put(
        [
            deployment("d1", counting(machine, "d1")),
            deployment("d3", counting(machine, "d3")),
        ],
        "a",
    )
    wait_until(lambda: ran(machine) == ["d1", "d2", "d3"], LONG)
    wait_until(lambda: daemon.command("status", "--check").code == 0, LONG)
    daemon.put(text, "a")
    wait_until(lambda: len(daemon.said("a.json")) == 2, LONG)
    assert ran(machine) == ["d1", "d2", "d3"]


def test_a_named_file_that_goes_has_lost_nothing(
    daemon: Daemon, machine: Machine, heat: SignalServer
) -> None:
    """A file that the settings name should be there: a result of what it said is still delivered, and it is said."""
    path = machine.write([deployment("d1", counting(machine), signal=heat.url())])
    daemon.settings["file"] = {"path": str(path)}
    daemon.configure(collectors="file")
    heat.refuse()
    daemon.start()
    daemon.wait_state("d1", "finished")
    path.unlink()
    daemon.wait_said(path.name)
    heat.start()
    daemon.send(signal.SIGUSR1)
    heat.wait_for(1, LONG)
    assert ran(machine) == ["d1"]


def test_a_source_that_is_down_loses_nothing(
    daemon: Daemon, machine: Machine, heat: SignalServer
) -> None:
    """The last good document of a failing source stays in force, also over a restart."""
    path = machine.write([deployment("d1", counting(machine), signal=heat.url("d1"))])
    daemon.settings["file"] = {"path": str(path)}
    daemon.configure(collectors="file, local")
    heat.refuse()
    daemon.start()
    daemon.wait_state("d1", "finished")
    assert daemon.stop() == 0
    path.unlink()
    daemon.start()
    daemon.put([deployment("d2", counting(machine, "d2"), signal=heat.url("d2"))])
    wait_until(lambda: "d2" in ran(machine), LONG)
    heat.start()
    daemon.send(signal.SIGUSR1)
    wait_until(lambda: len(heat.values("d1")) == len(heat.values("d2")) == 1, LONG)
    assert ran(machine) == ["d1", "d2"]
    wait_until(lambda: daemon.source("file").get("working") is False, LONG)
    assert daemon.source("local")["working"] is True


# Servers.


def test_new_deployments_of_a_polled_server_run(
    daemon: Daemon, machine: Machine, heat: SignalServer, server: SignalServer
) -> None:
    """A server is polled again and again, and new deployments run."""
    serve(
        server,
        {
            "deployments": [
                deployment("d1", counting(machine, "d1"), signal=heat.url("d1"))
            ]
        },
    )
    asking(daemon, server)
    daemon.start()
    wait_until(lambda: len(heat.values("d1")) == 1, LONG)
    serve(
        server,
        {
            "deployments": [
                deployment("d2", counting(machine, "d2"), signal=heat.url("d2"))
            ]
        },
    )
    wait_until(lambda: len(heat.values("d2")) == 1, LONG)
    assert ran(machine) == ["d1", "d2"]
    assert "Signature" not in daemon.log


def test_a_server_that_hangs_delays_no_other_source(
    daemon: Daemon, machine: Machine, heat: SignalServer, server: SignalServer
) -> None:
    """A hanging server is shown as failing, its document stays in force, and others are polled."""
    hang(server)
    asking(daemon, server, "local", collect_timeout=1)
    daemon.start()
    for number in range(3):
        daemon.put(
            [deployment(f"d{number}", counting(machine), signal=heat.url(f"d{number}"))]
        )
        wait_until(lambda name=f"d{number}": len(heat.values(name)) == 1, LONG)  # type: ignore[misc]
    wait_until(lambda: daemon.source("request").get("working") is False, LONG)

    assert daemon.source("local")["working"] is True
    checked = daemon.command("status", "--check")
    assert checked.code == 1
    assert "source request is failing: " in checked.out
    assert "Signature" not in checked.out + json.dumps(daemon.health()) + daemon.log
    said = daemon.command("status", "--json").data
    assert [each["name"] for each in said["sources"] if each["state"] != "ok"] == [
        "request"
    ]
    assert daemon.command("status").code == 0

    serve(server, {"deployments": [deployment("late", counting(machine, "late"))]})
    daemon.send(signal.SIGUSR1)
    wait_until(lambda: "late" in ran(machine), LONG)
    daemon.wait_said("request answers again")
    assert daemon.stop() == 0


def test_daemon_ends_at_once_while_a_server_hangs(
    daemon: Daemon, server: SignalServer
) -> None:
    """The daemon ends at once although a server has not answered."""
    hang(server)
    asking(daemon, server)
    daemon.start()
    wait_until(lambda: bool(server.signals), LONG)
    before = time.monotonic()
    assert daemon.stop() == 0
    assert time.monotonic() - before < pace.seconds(30)


@pytest.mark.parametrize(
    "answer",
    [
        Answer(503, body=b"<html>no backend</html>"),
        Answer(200, body=b"<html>log in</html>"),
        Answer(200, body=b'{"deployments": ['),
        Answer(200, body=b'{"deployments": null, "deploy": 5'),
        Answer(200, body=b'"text"'),
        Answer(200, body=b"{}"),
        Answer(200, body=b'{"deployments": {"a": 1}}'),
        Answer(hang_up=True),
    ],
    ids=lambda answer: f"{answer.status} {answer.body.decode()[:24]}",
)
def test_invalid_answers_change_nothing(
    daemon: Daemon,
    machine: Machine,
    heat: SignalServer,
    server: SignalServer,
    answer: Answer,
) -> None:
    """Invalid answers change nothing, and are reported once and by `status --check`."""
    heat.refuse()
    serve(
        server,
        {"deployments": [deployment("d1", counting(machine), signal=heat.url())]},
    )
    asking(daemon, server)
    daemon.start()
    daemon.wait_state("d1", "finished")
    server.named["metadata"] = answer
    daemon.send(signal.SIGUSR1)
    wait_until(lambda: daemon.command("status", "--check").code == 1, LONG)
    wait_until(
        lambda: bool(daemon.said("request: ") + daemon.said("request answered")), LONG
    )
    for _ in range(3):
        count = len(server.signals)
        daemon.send(signal.SIGUSR1)
        wait_until(lambda: len(server.signals) > count, LONG)  # noqa: B023
    heat.start()
    daemon.send(signal.SIGUSR1)
    heat.wait_for(1, LONG)
    assert ran(machine) == ["d1"]
    assert len(daemon.said("request: ") + daemon.said("request answered")) == 1, (
        daemon.log
    )
    assert "Traceback" not in daemon.log


# How often.


def test_polling_interval_grows_until_something_changes(
    daemon: Daemon, machine: Machine, server: SignalServer
) -> None:
    """The interval grows from `min_polling_interval` to `polling_interval`, and a change resets it."""
    serve(server, {"deployments": []})
    asking(daemon, server, polling_interval=30, min_polling_interval=0.2)
    daemon.start()
    # 0, .2, .4, .6, .8, 1, 1.4, 2.2, 3.8, 7 at most
    wait_until(lambda: len(server.signals) >= 10, 60)
    at = [each.at for each in server.signals]
    assert at[9] - at[8] > 1.5, "it has slowed down"
    assert at[9] - at[8] > (at[1] - at[0])

    serve(server, {"deployments": [deployment("d1", counting(machine))]})
    daemon.send(signal.SIGUSR1)
    wait_until(lambda: ran(machine) == ["d1"], LONG)
    count = len(server.signals)
    wait_until(lambda: len(server.signals) >= count + 2, LONG)
    later = [each.at for each in server.signals[count:]]
    assert later[1] - later[0] < at[9] - at[8], (
        "at most 0.4 s; an idle poll would have come after more than 7 s"
    )


def test_a_server_that_fails_is_asked_seldom(
    daemon: Daemon, server: SignalServer
) -> None:
    """A failing server is polled seldom, however short the interval is."""
    server.named["metadata"] = Answer(500)
    asking(daemon, server, polling_interval=0.1, min_polling_interval=0.05)
    daemon.start()
    wait_until(lambda: len(server.signals) >= 3, LONG)
    wait_until(lambda: daemon.source("request").get("working") is False, LONG)
    first, _, third = (each.at for each in server.signals[:3])
    assert third - first > 2, "after 1.5 s, and then after 3 s"


def test_source_is_polled_when_a_result_is_delivered(
    daemon: Daemon, machine: Machine, server: SignalServer, heat: SignalServer
) -> None:
    """An outage that is over for the results is over for the sources: none is left alone for two minutes."""
    serve(
        server,
        {"deployments": [deployment("d1", meeting(machine, "d1"), signal=heat.url())]},
    )
    asking(daemon, server, polling_interval=30, min_polling_interval=0.2)
    daemon.start()
    wait_until(lambda: ran(machine) == ["d1"], LONG)
    working = server.named.pop("metadata")
    server.named["metadata"] = Answer(500)
    for _ in range(9):  # from then on it is polled every two minutes
        count = len(server.signals)
        daemon.send(signal.SIGUSR1)
        wait_until(lambda: len(server.signals) > count, LONG)  # noqa: B023
    daemon.wait_said("request: ", "500")
    wait_until(
        lambda: "no source answers now" in daemon.command("status", "--check").out, LONG
    )
    server.named["metadata"] = working
    (machine.folder / "go-d1").touch()
    heat.wait_for(1, LONG)
    daemon.wait_said("request answers again")


def test_results_are_sent_when_a_source_answers_again(
    daemon: Daemon, machine: Machine, server: SignalServer, heat: SignalServer
) -> None:
    """An outage that is over for the sources is over for the results: none waits for its next try."""
    heat.always = Answer(500)
    serve(
        server,
        {"deployments": [deployment("d1", counting(machine), signal=heat.url())]},
    )
    asking(daemon, server, polling_interval=0.3, min_polling_interval=0.2)
    daemon.start()
    for number in range(1, 10):  # from then on it is tried every minute or two
        heat.wait_for(number, LONG)
        daemon.send(signal.SIGUSR1)
    heat.wait_for(10, LONG)
    working = server.named.pop("metadata")
    server.named["metadata"] = Answer(500)
    daemon.wait_said("request: ", "500")
    heat.always = Answer()
    server.named["metadata"] = working
    daemon.wait_said("request answers again")
    daemon.wait_state("d1", "signalled")


def test_status_shows_the_last_answer_of_an_idle_agent(daemon: Daemon) -> None:
    """The time is that of the last poll, or of one some seconds earlier."""
    daemon.start()
    for _ in range(3):
        before = daemon.source().get("answered") or 0.0
        wait_until(lambda: (daemon.source().get("answered") or 0.0) > before, 30)  # noqa: B023


@pytest.mark.parametrize("splay", ["0.3", "1e-3"])
def test_splay_may_be_any_number(daemon: Daemon, machine: Machine, splay: str) -> None:
    """`splay` is a number of seconds, whole or not."""
    daemon.put([deployment("d1", counting(machine))])
    daemon.configure(splay=splay)
    daemon.start()
    wait_until(lambda: ran(machine) == ["d1"], LONG)


def test_splay_delays_the_first_poll_alone(daemon: Daemon, machine: Machine) -> None:
    """`splay` delays only the first poll; the daemon is ready before, and `poll` ends the delay."""
    daemon.put([deployment("d1", counting(machine, "d1"))])
    daemon.configure(splay=100000)
    daemon.start()
    assert daemon.source()["working"] is None
    assert (
        daemon.command("status", "--check").out
        == "the agent is well: waiting for the first document\n"
    )
    daemon.send(signal.SIGUSR1)
    wait_until(lambda: ran(machine) == ["d1"], LONG)
    daemon.put([deployment("d2", counting(machine, "d2"))])
    wait_until(lambda: ran(machine) == ["d1", "d2"], LONG)


# What was known before the start.


@pytest.mark.fault(
    1,
    "a deployment is replaced while the agent is down",
    "the old one's late result is not sent: it would complete the new one",
)
def test_a_result_that_was_replaced_while_no_agent_was_there(
    daemon: Daemon, machine: Machine, heat: SignalServer, other: SignalServer
) -> None:
    """A stored answer is not used before the source has answered again, as the result may have been replaced."""
    old = deployment("d1", counting(machine, "d1", "echo old"), signal=heat.url())
    new = deployment("d2", counting(machine, "d2", "echo new"), signal=heat.url())
    heat.always = Answer(503)
    serve(other, {"deployments": [old]})
    asking(daemon, other)
    daemon.start()
    wait_until(lambda: machine.status().get("d1", {}).get("tries", 0) > 0, LONG)
    daemon.stop()
    heat.signals.clear()
    heat.always = Answer()
    other.named["metadata"] = Answer(
        body=json.dumps({"deployments": [new]}).encode(), delay=1
    )

    daemon.start()
    daemon.wait_state("d2", "signalled")

    assert [each["deploy_stdout"] for each in heat.values()] == ["new\n"]
    assert daemon.states()["d1"] == "superseded"


@pytest.mark.fault(
    1,
    "the source is away when the agent starts again",
    "what it said before counts, and results are sent",
)
def test_unreachable_source_keeps_its_last_document(
    daemon: Daemon, machine: Machine, heat: SignalServer, other: SignalServer
) -> None:
    """Where the source cannot be asked, what it said in an earlier life counts: what was waiting for that is done."""
    heat.always = Answer(503)
    serve(
        other,
        {"deployments": [deployment("d1", counting(machine, "d1"), signal=heat.url())]},
    )
    asking(daemon, other)
    daemon.start()
    wait_until(lambda: machine.status().get("d1", {}).get("tries", 0) > 0, LONG)
    daemon.stop()
    heat.signals.clear()
    heat.always = Answer()
    other.refuse()

    daemon.start()
    daemon.wait_state("d1", "signalled")

    assert len(heat.signals) == 1
    assert ran(machine) == ["d1"]
