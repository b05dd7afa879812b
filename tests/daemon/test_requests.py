"""Requests to the daemon: to read its settings again, to poll, to pause, to run or send something again."""

from __future__ import annotations

import json
import re
import signal
import time
from datetime import datetime

import pytest

from heat_config_agent.state import requests
from support import pace
from support.daemon import LONG, Daemon, counting, ran, until
from support.daemon_runs import meeting
from support.loopback import Answer, SignalServer, wait_until
from support.machine import Machine, deployment


def test_hup_reads_the_settings_again(
    daemon: Daemon, machine: Machine, heat: SignalServer
) -> None:
    """Any number of times, also while something runs; what they say holds for what begins after that."""
    daemon.start()
    for number in (1, 2, 3):
        hold = until(machine.folder / f"go{number}")
        daemon.put(
            [
                deployment(
                    f"d{number}",
                    counting(machine, f"d{number}", f'{hold}; echo "$N"'),
                    signal=heat.url(),
                )
            ]
        )
        wait_until(lambda count=number: len(ran(machine)) == count, LONG)  # type: ignore[misc]
        daemon.configure(environment=[f"N={number}"])
        daemon.send(signal.SIGHUP)
        daemon.wait_said("the settings were read again", times=number)
        (machine.folder / f"go{number}").touch()
        heat.wait_for(number, LONG)
    assert [each["deploy_stdout"] for each in heat.values()] == ["\n", "1\n", "2\n"]


def test_reload_reads_the_sources_of_the_new_settings(
    daemon: Daemon, machine: Machine
) -> None:
    """A directory that is named no more has left; one that is named now is read."""
    daemon.put([deployment("d1", counting(machine, "d1"))])
    daemon.start()
    wait_until(lambda: ran(machine) == ["d1"], LONG)
    elsewhere = machine.folder / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "a.json").write_text(
        json.dumps([deployment("d2", counting(machine, "d2"))])
    )
    daemon.settings["local"]["path"] = str(elsewhere)
    daemon.configure()
    daemon.send(signal.SIGHUP)
    wait_until(lambda: ran(machine) == ["d1", "d2"], LONG)
    wait_until(lambda: daemon.source().get("working") is True, LONG)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (
            "[agent]\npolling_interval = soon\n",
            "line 2: polling_interval: expected a number of seconds",
        ),
        (
            "[agent]\nparalel = 2\n",
            "line 2: there is no setting 'paralel' in [agent]; did you mean parallel?",
        ),
        ("[agent\n", "line 1: the ']' at the end of the section is missing"),
        ("[agent]\nenvironment = X\n", "environment: expected NAME=VALUE"),
        ("[agent]\nreboot_command = reboot 'now\n", "line 2: reboot_command: expected"),
        (None, "No such file or directory"),
    ],
)
def test_bad_settings_are_refused_at_the_start_and_ignored_at_a_hup(
    daemon: Daemon, machine: Machine, text: str | None, why: str
) -> None:
    """Bad settings end the start with a sentence; at a HUP, the earlier ones stay in force with a warning."""
    daemon.start()
    if text is None:
        daemon.path.unlink()
    else:
        daemon.path.write_text(text)
    done = daemon.command("run", "--state-dir", str(machine.folder / "another"))
    assert done.code == 2
    assert why in done.err
    assert len(done.err.splitlines()) == 1

    daemon.send(signal.SIGHUP)
    daemon.wait_said("the settings stay as they were", why)
    daemon.put([deployment("d1", counting(machine))])
    wait_until(lambda: ran(machine) == ["d1"], LONG)
    daemon.configure()
    daemon.send(signal.SIGHUP)
    daemon.wait_said("the settings were read again")


def test_poll_asks_now(daemon: Daemon, machine: Machine) -> None:
    """`poll` polls at once, however long the interval is; without a daemon it is an error."""
    daemon.configure(polling_interval=1000, min_polling_interval=1000)
    done = daemon.command("poll", "--json")
    assert (done.code, done.json["error"]["code"]) == (8, "not_found")
    daemon.start()
    wait_until(lambda: daemon.source().get("working") is True, LONG)
    for number in (1, 2):
        daemon.put([deployment(f"d{number}", counting(machine))])
        time.sleep(0.3)
        assert len(ran(machine)) == number - 1
        done = daemon.command("poll")
        assert (done.code, done.out) == (
            0,
            f"the agent (process {daemon.pid}) asks its sources now\n",
        )
        wait_until(lambda count=number: len(ran(machine)) == count, LONG)  # type: ignore[misc]
    assert daemon.command("poll", "--json").data == {"process": daemon.pid}


def test_poll_at_any_moment_ends_no_daemon(daemon: Daemon) -> None:
    """A `poll` while the daemon starts or stops does not kill it."""
    held = daemon.machine.state / "lock"
    daemon.begins_loaded = False
    for _ in range(3):
        daemon.start(wait=False)
        wait_until(
            lambda: held.exists() and held.read_text() == f"{daemon.pid} daemon\n", LONG
        )
        daemon.send(signal.SIGUSR1)
        daemon.send(signal.SIGHUP)
        wait_until(
            lambda: daemon.ended or daemon.health().get("process") == daemon.pid, LONG
        )
        assert not daemon.ended, daemon.log
        daemon.send(signal.SIGTERM)
        for _ in range(20):
            daemon.send(signal.SIGUSR1)
            time.sleep(0.005)
        assert daemon.wait() == 0


def test_a_paused_daemon_begins_nothing_and_answers_nothing(
    daemon: Daemon, machine: Machine, heat: SignalServer
) -> None:
    """Nothing new is begun or answered, and what runs ends; also after a restart, and by the one-shot command."""
    given = [deployment("d1", meeting(machine, "d1"), signal=heat.url("d1"))]
    daemon.put(given)
    daemon.start()
    wait_until(lambda: ran(machine) == ["d1"], LONG)
    done = daemon.command("pause", "--reason", "the disk is being moved")
    assert done.code == 0
    daemon.wait_said("paused: the disk is being moved")
    given += [
        deployment("d2", counting(machine, "d2"), signal=heat.url("d2")),
        deployment("d3", group="no-such-tool", signal=heat.url("d3")),
    ]
    daemon.put(given)
    (machine.folder / "go-d1").touch()
    wait_until(lambda: len(heat.values("d1")) == 1, LONG)
    wait_until(
        lambda: (
            daemon.states() == {"d1": "signalled", "d2": "accepted", "d3": "accepted"}
        ),
        LONG,
    )
    status = daemon.command("status")
    assert "the disk is being moved" in status.out
    assert "the agent is paused" in daemon.command("status", "--check").out
    assert daemon.command("status", "--check").code == 1
    assert (
        daemon.command("status", "--json").data["agent"]["paused"]["reason"]
        == "the disk is being moved"
    )

    assert daemon.stop() == 0
    done = machine.apply(given)
    assert "the disk is being moved" in done.err
    assert done.code == 1, "not all is done"
    daemon.start()
    time.sleep(0.7)
    assert ran(machine) == ["d1"]
    assert len(heat.signals) == 1

    assert daemon.command("resume").out == "resumed\n"
    wait_until(lambda: len(heat.signals) == 3, LONG)
    assert ran(machine) == ["d1", "d2"]
    assert daemon.command("resume").out == "the agent was not paused\n"
    assert daemon.command("pause", "--reason", " ").code == 2


def test_a_pause_ends_by_itself(daemon: Daemon, machine: Machine) -> None:
    """A pause ends at its time without a poll, for the daemon and for the one-shot command."""
    daemon.configure(polling_interval=1000, min_polling_interval=1000)
    seconds = round(pace.limit(5))
    earliest = time.time() + seconds
    done = daemon.command(
        "pause", "--reason", "the disk is being moved", "--for", f"{seconds}s"
    )
    latest = time.time() + seconds
    assert re.fullmatch(
        r"paused until [-\d]+T[:.\d]+Z: the disk is being moved; `.*` ends it earlier\n",
        done.out,
    )
    daemon.put([deployment("d1", counting(machine, "d1"))])
    daemon.start()
    daemon.wait_state("d1", "accepted")
    assert re.search(r"paused .*until \S+: the disk", daemon.command("status").out)
    stamp = daemon.command("status", "--json").data["agent"]["paused"]["until"]
    until_ = datetime.fromisoformat(stamp.replace("Z", "+00:00")).timestamp()
    assert earliest - 1 < until_ < latest + 1
    daemon.wait_state("d1", "unasked")
    assert time.time() > until_ - 1
    assert len(daemon.said("resumed")) == 1
    assert daemon.command("resume").out == "the agent was not paused\n"
    assert daemon.command("status", "--json").data["agent"]["paused"] is None

    assert daemon.stop() == 0
    assert daemon.command("pause", "--reason", "again", "--for", "1h").code == 0
    d2 = deployment("d2", counting(machine, "d2"))
    assert machine.apply([d2]).code == 1
    requests.pause(machine.state, "again", time.time() - 1)  # as if the hour were over
    assert machine.apply([d2]).code == 0
    assert ran(machine) == ["d1", "d2"]


def test_pause_needs_a_valid_end(daemon: Daemon, machine: Machine) -> None:
    """A pause of 0 seconds is refused; and a file whose end cannot be read pauses the agent as long as it is there."""
    daemon.configure()
    for wrong in ("0", "soon", "-1"):
        assert daemon.command("pause", "--reason", "x", "--for", wrong).code == 2
    assert not (machine.state / "paused").exists()
    machine.state.mkdir(mode=0o700, exist_ok=True)
    for end in ("NaN", "Infinity", '"soon"', "[]"):
        (machine.state / "paused").write_text(
            f'{{"reason": "x", "since": 1, "until": {end}}}'
        )
        assert "for a reason that cannot be read" in daemon.command("status").out
    daemon.put([deployment("d1", counting(machine, "d1"))])
    daemon.start()
    daemon.wait_state("d1", "accepted")
    assert daemon.command("resume").code == 0
    daemon.wait_state("d1", "unasked")


def test_requests_are_carried_out_at_once(
    daemon: Daemon, machine: Machine, heat: SignalServer
) -> None:
    """`retry` and `forget`, and removing the file in `deployed/`, with intervals as long as may be."""
    daemon.put([deployment("d1", counting(machine), signal=heat.url())])
    daemon.configure(polling_interval=1000, min_polling_interval=1000)
    daemon.start()
    heat.wait_for(1, LONG)
    daemon.wait_state("d1", "signalled")

    done = daemon.command("retry", "d1")
    assert done.code == 0
    assert f"retry requested: the agent (process {daemon.pid}) runs it now" in done.out
    heat.wait_for(2, LONG)
    daemon.wait_state("d1", "signalled")
    assert daemon.command("forget", "--yes", "d1").code == 0
    heat.wait_for(3, LONG)
    daemon.wait_state("d1", "signalled")
    marked = machine.state / "deployed" / "d1.json"
    wait_until(marked.exists, LONG)
    marked.unlink()
    assert daemon.command("poll").code == 0
    heat.wait_for(4, LONG)
    assert ran(machine) == ["d1"] * 4


def test_retry_without_a_source_waits_for_its_document(
    daemon: Daemon, machine: Machine
) -> None:
    """A deployment that heat-config-apply was given is in no source of the daemon, and `retry` says so."""
    assert machine.apply([deployment("d1", counting(machine))]).code == 0
    daemon.start()
    wait_until(lambda: daemon.source()["working"], LONG)

    done = daemon.command("retry", "d1")
    assert done.code == 0
    document = machine.folder / "document.json"
    assert (
        f"it runs when its document (file:{document}) is applied again: no source of the agent has it"
        in done.out
    )


def test_a_result_that_was_refused_is_sent_again(
    daemon: Daemon, machine: Machine, heat: SignalServer
) -> None:
    """`retry --signal` sends a refused result again at once, without a run."""
    heat.answers.append(Answer(404))
    daemon.put([deployment("d1", counting(machine), signal=heat.url())])
    daemon.configure(polling_interval=1000, min_polling_interval=1000)
    daemon.start()
    daemon.wait_state("d1", "refused")
    assert daemon.command("retry", "--signal", "d1").code == 0
    heat.wait_for(2, LONG)
    daemon.wait_state("d1", "signalled")
    assert ran(machine) == ["d1"]
    assert heat.signals[0].body == heat.signals[1].body


def test_retry_waits_until_the_new_run_has_ended(
    daemon: Daemon, machine: Machine
) -> None:
    """The run before the request does not count, and a failure of the new one is that of the command."""
    broken = machine.folder / "broken"
    given = [deployment("d1", counting(machine, "d1", f"[ ! -e {broken} ]"))]
    daemon.put(given)
    daemon.start()
    daemon.wait_state("d1", "unasked")

    done = daemon.command("retry", "d1", "--wait", "--wait-for", str(LONG))
    assert (done.code, done.out.splitlines()[-1]) == (0, "d1 (CREATE): ok"), done.err
    assert ran(machine) == ["d1"] * 2
    broken.touch()
    done = daemon.command("retry", "d1", "--wait", "--json")

    assert ran(machine) == ["d1"] * 3
    assert (done.code, done.data["outcome"]) == (1, "failed")


def test_stop_is_carried_out_at_once(
    daemon: Daemon, machine: Machine, heat: SignalServer
) -> None:
    """The run ends, and what waits never begins, also while the agent is paused; each result is sent once."""
    hold = until(machine.folder / "go")
    daemon.put(
        [
            deployment("d1", counting(machine, "d1", hold), signal=heat.url("d1")),
            deployment("d2", counting(machine, "d2"), signal=heat.url("d2")),
        ]
    )
    daemon.configure(polling_interval=1000, min_polling_interval=1000, parallel=1)
    daemon.start()
    wait_until(lambda: ran(machine) == ["d1"], LONG)
    daemon.wait_state("d2", "accepted")
    assert daemon.command("pause", "--reason", "work").code == 0

    done = daemon.command("stop", "d2", "--yes", "--wait")
    assert f"the agent (process {daemon.pid}) ends it now" in done.out
    assert "not run: it was stopped by " in done.out
    assert daemon.command("stop", "d1", "--yes", "--wait").code == 0

    daemon.wait_state("d1", "signalled")
    daemon.wait_state("d2", "signalled")
    assert daemon.command("resume").code == 0
    assert daemon.command("poll").code == 0
    daemon.put([deployment("d3", counting(machine, "d3"))], "more")
    assert daemon.command("poll").code == 0
    daemon.wait_state("d3", "unasked")
    assert ran(machine) == ["d1", "d3"]
    told = [*heat.values("d1"), *heat.values("d2")]
    assert [value["deploy_status_code"] for value in told] == [124, 124]
    daemon.wait_said("d1 is being ended: it was stopped by ")
