"""The daemon as its users see it: what it runs, in which order, what it says, and how it is steered."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import stat
import time
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import psutil
import pytest

from daemon import LONG, Daemon, counting, ran, until
from loopback import Answer, SignalServer, wait_until
from machine import BIN, Machine, deployment

TIMED_OUT = 124


def resource(identity: str, config: str, name: str = "one", **fields: Any) -> dict[str, Any]:
    """Return a deployment of a resource: each of its actions is one, with an id of its own."""
    inputs = {"deploy_stack_id": "stack/1", "deploy_resource_name": name}
    return deployment(identity, config, name=name, inputs=inputs, **fields)


# What runs, and in which order.


def test_a_document_is_applied_and_its_result_delivered(daemon: Daemon, machine: Machine, heat: SignalServer) -> None:
    """What is put where the agent looks is run within a poll and its result sent; unchanged, it is run no more."""
    daemon.start()
    daemon.put([deployment("d1", counting(machine, then="echo out"), signal=heat.url())])

    heat.wait_for(1, LONG)
    assert heat.values() == [{"deploy_stdout": "out\n", "deploy_stderr": "", "deploy_status_code": 0}]
    wait_until(lambda: daemon.source()["working"] is True, LONG)
    wait_until(lambda: daemon.states() == {"d1": "signalled"}, LONG)
    daemon.put([deployment("d1", counting(machine, then="echo out"), signal=heat.url())])
    daemon.send(signal.SIGUSR1)
    time.sleep(1.5)  # several polls

    assert ran(machine) == ["d1"]
    assert len(heat.signals) == 1
    assert len(daemon.said("d1", "done")) == 1


def test_many_documents_one_after_the_other(daemon: Daemon, machine: Machine, heat: SignalServer) -> None:
    """What comes while the agent is idle is run soon after, each once."""
    daemon.start()
    given: list[object] = []
    for identity in ("d1", "d2", "d3"):
        given.append(deployment(identity, counting(machine, identity), signal=heat.url(identity)))
        daemon.put(given)
        wait_until(lambda name=identity: len(heat.values(name)) == 1, LONG)  # type: ignore[misc]
    assert ran(machine) == ["d1", "d2", "d3"]


def test_a_document_that_goes(daemon: Daemon, machine: Machine, heat: SignalServer) -> None:
    """What has left the metadata before it began is never run, and the result of what had begun is not sent."""
    go = machine.folder / "go"
    daemon.put([deployment("d1", counting(machine, "d1", until(go)), signal=heat.url("d1"))], "a")
    daemon.put([deployment("d2", counting(machine, "d2"), signal=heat.url("d2"))], "b")
    daemon.start()
    wait_until(lambda: ran(machine) == ["d1"], LONG)
    wait_until(lambda: "d2" in daemon.states(), LONG)

    (daemon.local / "b.json").unlink()
    (daemon.local / "a.json").unlink()
    wait_until(lambda: "d2" not in daemon.states(), LONG)
    go.touch()
    daemon.wait_state("d1", "superseded")

    assert ran(machine) == ["d1"]
    assert not heat.signals


def test_what_leaves_while_it_runs_is_cleaned_up(daemon: Daemon, machine: Machine) -> None:
    """What a deployment makes that has left meanwhile goes as soon as it has ended, not some time later."""
    go = machine.folder / "go"
    compose = machine.folder / "docker-compose"
    compose.write_text(
        f'#!/bin/sh\necho "$*" | grep -o -w -e up -e down >>{machine.folder}/ran && {until(go)}\nexit 0\n'
    )
    compose.chmod(0o755)
    daemon.configure(environment=[f"HEAT_DOCKER_COMPOSE_CMD={compose}"])
    daemon.put([deployment("d1", {"services": {"web": {"image": "x"}}}, group="docker-compose")])
    daemon.start()
    wait_until(lambda: ran(machine) == ["up"], LONG)

    daemon.put([])
    daemon.wait_state("d1", "running")
    time.sleep(0.5)
    go.touch()

    wait_until(lambda: ran(machine) == ["up", "down"], LONG)
    daemon.wait_state("d1-left", "unasked")


def test_file_and_local_together_in_the_order_of_names(daemon: Daemon, machine: Machine) -> None:
    """Several sources are one list, run in the order of names, one at a time."""
    path = machine.folder / "more.yaml"
    path.write_text(json.dumps([deployment("d1", counting(machine, "b"), name="b")]))
    daemon.settings["file"] = {"path": str(path)}
    daemon.configure(collectors="local, file")
    names = {"d4": "d", "d2": "a", "d3": "c"}
    daemon.put([deployment(identity, counting(machine, name), name=name) for identity, name in names.items()])
    asked = machine.agent("pause", "--reason", "until all have been read")
    assert asked.code == 0
    daemon.start()
    wait_until(lambda: daemon.health().get("waiting") == 4, LONG)

    assert daemon.command("resume").code == 0

    wait_until(lambda: ran(machine) == ["a", "b", "c", "d"], LONG)


def meeting(machine: Machine, identity: str) -> str:
    """Return a script that says that it is there, and ends once it is let go."""
    return counting(machine, identity, until(machine.folder / f"go-{identity}"))


def test_parallel(daemon: Daemon, machine: Machine, heat: SignalServer) -> None:
    """With `parallel = 3` three run at once, and no fourth; results go while others run."""
    ids = ("d1", "d2", "d3", "d4")
    daemon.configure(parallel=3)
    daemon.put([deployment(each, meeting(machine, each), signal=heat.url(each)) for each in ids])
    daemon.start()
    wait_until(lambda: len(ran(machine)) == 3, LONG)
    time.sleep(0.5)
    assert sorted(ran(machine)) == ["d1", "d2", "d3"]
    assert daemon.states()["d4"] == "accepted"

    (machine.folder / "go-d2").touch()
    wait_until(lambda: len(heat.values("d2")) == 1, LONG)
    wait_until(lambda: len(ran(machine)) == 4, LONG)
    assert daemon.states()["d1"] == "running"


def test_two_of_one_resource_never_run_at_once(daemon: Daemon, machine: Machine) -> None:
    """Whatever `parallel` says; others go past them."""
    daemon.configure(parallel=4)
    given = [
        resource("d1", meeting(machine, "d1"), name="one"),
        resource("d2", meeting(machine, "d2"), name="one"),
        resource("d3", meeting(machine, "d3"), name="two"),
    ]
    daemon.put(given)
    daemon.start()
    wait_until(lambda: sorted(ran(machine)) == ["d1", "d3"], LONG)
    time.sleep(0.5)
    assert sorted(ran(machine)) == ["d1", "d3"]
    (machine.folder / "go-d1").touch()
    wait_until(lambda: sorted(ran(machine)) == ["d1", "d2", "d3"], LONG)


def test_a_hung_run_holds_up_no_delete(daemon: Daemon, machine: Machine, heat: SignalServer) -> None:
    """What hangs holds up no DELETE of another, and no answer; its own DELETE has it ended, and says so."""
    hung = resource("d1", counting(machine, "d1", "sleep 1000"), signal=heat.url("d1"))
    daemon.put([hung])
    daemon.start()
    wait_until(lambda: ran(machine) == ["d1"], LONG)

    other = resource("d2", counting(machine, "d2"), name="two", action="DELETE", signal=heat.url("d2"))
    unknown = deployment("d3", group="no-such-tool", signal=heat.url("d3"))
    waiting = deployment("d4", counting(machine, "d4"), signal=heat.url("d4"))
    daemon.put([hung, other, unknown, waiting])
    wait_until(lambda: len(heat.values("d2")) == len(heat.values("d3")) == 1, LONG)
    assert heat.values("d3")[0]["deploy_status_code"] != 0
    assert daemon.states()["d1"] == "running"
    assert daemon.states()["d4"] == "accepted"

    own = resource("d5", counting(machine, "d5"), action="DELETE", signal=heat.url("d1"))
    daemon.put([own, other, unknown, waiting])
    wait_until(lambda: len(heat.values("d1")) == len(heat.values("d4")) == 1, LONG)
    wait_until(lambda: set(daemon.states().values()) <= {"signalled", "superseded"}, LONG)

    assert ran(machine).index("d5") > ran(machine).index("d1")
    assert [each["deploy_status_code"] for each in heat.values("d1")] == [0], "the DELETE's, and nothing of the CREATE"
    record = machine.status()["d1"]
    assert (record["state"], record["failed"]) == ("superseded", True)
    assert "replaced by a DELETE" in record["reason"]
    assert not [each for each in machine.processes() if each.name() == "sleep"]


@pytest.mark.parametrize("replaced", ["finish", "cancel"])
def test_what_becomes_of_a_run_that_is_replaced(
    daemon: Daemon, machine: Machine, heat: SignalServer, replaced: str
) -> None:
    """It finishes, or is ended at once; either way its result is on record and nobody is sent it."""
    daemon.configure(replaced=replaced)
    daemon.put([resource("d1", meeting(machine, "d1"), signal=heat.url())])
    daemon.start()
    wait_until(lambda: ran(machine) == ["d1"], LONG)

    daemon.put([resource("d2", counting(machine, "d2"), action="UPDATE", signal=heat.url())])
    wait_until(lambda: "d2" in daemon.states(), LONG)
    if replaced == "finish":
        time.sleep(0.5)
        assert ran(machine) == ["d1"]
        (machine.folder / "go-d1").touch()
    heat.wait_for(1, LONG)
    wait_until(lambda: daemon.states() == {"d1": "superseded", "d2": "signalled"}, LONG)

    assert ran(machine) == ["d1", "d2"]
    assert len(heat.signals) == 1
    assert heat.values()[0]["deploy_status_code"] == 0
    record = machine.status()["d1"]
    assert record["failed"] is (replaced == "cancel")
    assert ("its deployment was replaced" in record["reason"]) is (replaced == "cancel")


def test_time_limit_environment_and_hooks_of_the_settings(daemon: Daemon, machine: Machine, heat: SignalServer) -> None:
    """What the file says reaches the runs."""
    machine.hook(
        "own", '#!/bin/sh\necho "{\\"deploy_stdout\\": \\"$COLOUR, $HEAT_X\\", \\"deploy_status_code\\": 0}"\n'
    )
    daemon.configure(time_limit=0.5, environment=["COLOUR=green, or blue", "HEAT_X=a=b"])
    daemon.put(
        [
            deployment("d1", group="own", signal=heat.url("d1")),
            deployment("d2", "#!/bin/sh\nsleep 60\n", signal=heat.url("d2")),
        ]
    )
    daemon.start()
    heat.wait_for(2, LONG)
    assert heat.values("d1")[0]["deploy_stdout"] == "green, or blue, a=b"
    [late] = heat.values("d2")
    assert late["deploy_status_code"] == TIMED_OUT
    assert "0.5 s" in late["deploy_stderr"]


def test_what_a_run_inherits(daemon: Daemon, heat: SignalServer, tmp_path: Path) -> None:
    """Nothing of the agent's and of systemd's, and signals as programs expect them, whoever started the agent."""
    look = "grep -E '^Sig(Ign|Blk)' /proc/self/status; ls /proc/self/fd | wc -w; env"
    daemon.put([deployment("d1", f"#!/bin/sh\n{look}\n", signal=heat.url())])
    shell = "trap '' HUP USR2 PIPE; exec \"$@\""
    daemon.start(
        "/bin/sh", "-c", shell, "sh", NOTIFY_SOCKET=str(tmp_path / "no"), OS_PASSWORD="secret", WATCHDOG_USEC="1"
    )
    heat.wait_for(1, LONG)

    said = heat.values()[0]["deploy_stdout"]
    masks = {name: int(value, 16) for name, value in re.findall(r"^(Sig\w+):\s+(\w+)$", said, re.MULTILINE)}
    assert {name: mask & 0x7FFFFFFF for name, mask in masks.items()} == {
        "SigIgn": 0,
        "SigBlk": 0,
    }  # 32, 33: glibc's own
    assert "NOTIFY_SOCKET" not in said
    assert "WATCHDOG" not in said
    assert "secret" not in said
    assert re.search(r"^4$", said, re.MULTILINE), said  # 0, 1, 2, and the folder that ls reads


# Beginning and ending.


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
def test_what_runs_outlives_the_daemon(daemon: Daemon, machine: Machine, heat: SignalServer, number: int) -> None:
    """However it ends, the run goes on; the next one follows it, and delivers its result, exactly once."""
    daemon.put([deployment("d1", meeting(machine, "d1"), signal=heat.url())])
    daemon.start()
    wait_until(lambda: ran(machine) == ["d1"], LONG)
    before = time.monotonic()
    code = daemon.stop(number)
    assert time.monotonic() - before < 30
    assert code == (-9 if number == signal.SIGKILL else 0), daemon.log

    daemon.start()
    time.sleep(0.5)
    assert daemon.states() == {"d1": "running"}
    assert not heat.signals
    (machine.folder / "go-d1").touch()
    heat.wait_for(1, LONG)
    daemon.wait_state("d1", "signalled")
    assert daemon.stop() == 0
    daemon.start()
    time.sleep(0.5)

    assert ran(machine) == ["d1"]
    assert len(heat.signals) == 1


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_what_ends_while_no_daemon_is_there(daemon: Daemon, machine: Machine, heat: SignalServer, number: int) -> None:
    """The next one finds out how it ended."""
    daemon.put(
        [deployment("d1", counting(machine, "d1", f"{until(machine.folder / 'go')}; exit 7"), signal=heat.url())]
    )
    daemon.start()
    wait_until(lambda: ran(machine) == ["d1"], LONG)
    supervisor = psutil.Process(machine.status()["d1"]["process"])
    daemon.stop(number)
    (machine.folder / "go").touch()
    wait_until(lambda: not supervisor.is_running() or supervisor.status() == psutil.STATUS_ZOMBIE, LONG)

    daemon.start()
    heat.wait_for(1, LONG)
    assert [each["deploy_status_code"] for each in heat.values()] == [7]
    assert ran(machine) == ["d1"]


def test_a_second_daemon(daemon: Daemon, machine: Machine) -> None:
    """On one state directory there is one agent: the second says so and ends with 4."""
    daemon.start()
    done = daemon.command("run")
    assert done.code == 4
    assert f"another agent works on {machine.state} (process {daemon.pid})" in done.err
    assert len(done.err.splitlines()) == 1
    assert daemon.command("run", "--once").code == 4
    assert not daemon.ended


def test_several_daemons(daemon: Daemon, machine: Machine, heat: SignalServer, tmp_path: Path) -> None:
    """Each with a state directory of its own, they do not know of each other."""
    (tmp_path / "other").mkdir()
    elsewhere = Machine(tmp_path / "other")
    other = Daemon(elsewhere)
    try:
        for each, name in ((daemon, "one"), (other, "two")):
            each.put([deployment("d1", counting(each.machine, name), signal=heat.url(name))])
            each.start()
        heat.wait_for(2, LONG)
        assert (ran(machine), ran(elsewhere)) == (["one"], ["two"])
        assert daemon.stop() == 0
        assert not other.ended
        wait_until(lambda: other.command("status", "--check").code == 0, LONG)
    finally:
        other.end()
        elsewhere.end()


def test_a_pipe_that_nobody_reads_any_more(daemon: Daemon, machine: Machine, heat: SignalServer) -> None:
    """Where whoever read its log has gone, as when journald is restarted, it goes on."""
    reader, writer = os.pipe()
    daemon.start("/bin/sh", "-c", f'exec "$@" 2>/proc/{os.getpid()}/fd/{writer}', "sh")
    os.close(writer)
    os.close(reader)
    for identity in ("d1", "d2"):
        daemon.put([deployment(identity, counting(machine, identity), signal=heat.url(identity))])
        wait_until(lambda name=identity: len(heat.values(name)) == 1, LONG)  # type: ignore[misc]
    assert ran(machine) == ["d1", "d2"]
    assert daemon.stop() == 0


@pytest.mark.parametrize("closed", ["2>&-", ">&- 2>&- <&-"])
def test_standard_streams_that_are_closed(daemon: Daemon, machine: Machine, heat: SignalServer, closed: str) -> None:
    """It works without them."""
    daemon.put([deployment("d1", counting(machine), signal=heat.url())])
    daemon.start("/bin/sh", "-c", f'exec "$@" {closed}', "sh")
    heat.wait_for(1, LONG)
    assert heat.values()[0]["deploy_status_code"] == 0
    assert daemon.stop() == 0


# Being told things.


def test_hup_reads_the_settings_again(daemon: Daemon, machine: Machine, heat: SignalServer) -> None:
    """Any number of times, also while something runs; what they say holds for what begins after that."""
    daemon.start()
    for number in (1, 2, 3):
        hold = until(machine.folder / f"go{number}")
        daemon.put([deployment(f"d{number}", counting(machine, f"d{number}", f'{hold}; echo "$N"'), signal=heat.url())])
        wait_until(lambda count=number: len(ran(machine)) == count, LONG)  # type: ignore[misc]
        daemon.configure(environment=[f"N={number}"])
        daemon.send(signal.SIGHUP)
        daemon.wait_said("the settings were read again", times=number)
        (machine.folder / f"go{number}").touch()
        heat.wait_for(number, LONG)
    assert [each["deploy_stdout"] for each in heat.values()] == ["\n", "1\n", "2\n"]


def test_hup_with_other_sources(daemon: Daemon, machine: Machine) -> None:
    """A directory that is named no more has left; one that is named now is read."""
    daemon.put([deployment("d1", counting(machine, "d1"))])
    daemon.start()
    wait_until(lambda: ran(machine) == ["d1"], LONG)
    elsewhere = machine.folder / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "a.json").write_text(json.dumps([deployment("d2", counting(machine, "d2"))]))
    daemon.settings["local"]["path"] = str(elsewhere)
    daemon.configure()
    daemon.send(signal.SIGHUP)
    wait_until(lambda: ran(machine) == ["d1", "d2"], LONG)
    wait_until(lambda: daemon.source().get("working") is True, LONG)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("[agent]\npolling_interval = soon\n", "line 2: polling_interval: expected a number of seconds"),
        ("[agent]\nparalel = 2\n", "line 2: there is no setting 'paralel' in [agent]; did you mean parallel?"),
        ("[agent\n", "line 1: a section needs a ']' at its end"),
        ("[agent]\nenvironment = X\n", "environment: expected NAME=VALUE"),
        ("[agent]\nreboot_command = reboot 'now\n", "line 2: reboot_command: expected"),
        (None, "No such file or directory"),
    ],
)
def test_bad_settings(daemon: Daemon, machine: Machine, text: str | None, why: str) -> None:
    """They are refused in a sentence at the start; at a HUP those before them stay in force, and it is said why."""
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


def test_poke_asks_now(daemon: Daemon, machine: Machine) -> None:
    """However long the intervals are; without a daemon it is an error."""
    daemon.configure(polling_interval=1000, min_polling_interval=1000)
    assert daemon.command("poke").code == 1
    daemon.start()
    wait_until(lambda: daemon.source().get("working") is True, LONG)
    for number in (1, 2):
        daemon.put([deployment(f"d{number}", counting(machine))])
        time.sleep(0.3)
        assert len(ran(machine)) == number - 1
        done = daemon.command("poke")
        assert (done.code, done.out) == (0, f"process {daemon.pid} asks its sources now\n")
        wait_until(lambda count=number: len(ran(machine)) == count, LONG)  # type: ignore[misc]


def test_a_poke_at_any_moment_ends_no_daemon(daemon: Daemon) -> None:
    """Not while it starts, and not while it ends."""
    held = daemon.machine.state / "lock"
    for _ in range(3):
        daemon.start(wait=False)
        wait_until(lambda: held.exists() and held.read_text() == f"{daemon.pid} daemon\n", LONG)
        daemon.send(signal.SIGUSR1)
        daemon.send(signal.SIGHUP)
        wait_until(lambda: daemon.ended or daemon.health().get("process") == daemon.pid, LONG)
        assert not daemon.ended, daemon.log
        daemon.send(signal.SIGTERM)
        for _ in range(20):
            daemon.send(signal.SIGUSR1)
            time.sleep(0.005)
        assert daemon.wait() == 0


def test_pause(daemon: Daemon, machine: Machine, heat: SignalServer) -> None:
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
    wait_until(lambda: daemon.states() == {"d1": "signalled", "d2": "accepted", "d3": "accepted"}, LONG)
    status = daemon.command("status")
    assert "the disk is being moved" in status.out
    assert "it is paused" in daemon.command("status", "--check").out
    assert daemon.command("status", "--check").code == 1
    assert daemon.command("status", "--json").json["agent"]["paused"]["reason"] == "the disk is being moved"

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
    assert daemon.command("resume").out == "it was not paused\n"
    assert daemon.command("pause", "--reason", " ").code == 2


def test_what_is_asked_for_is_done_at_once(daemon: Daemon, machine: Machine, heat: SignalServer) -> None:
    """`retry` and `forget`, and removing the file in `deployed/`, with intervals as long as may be."""
    daemon.put([deployment("d1", counting(machine), signal=heat.url())])
    daemon.configure(polling_interval=1000, min_polling_interval=1000)
    daemon.start()
    heat.wait_for(1, LONG)
    daemon.wait_state("d1", "signalled")

    done = daemon.command("retry", "d1")
    assert done.code == 0
    assert f"process {daemon.pid} does it now" in done.out
    heat.wait_for(2, LONG)
    daemon.wait_state("d1", "signalled")
    assert daemon.command("forget", "d1").code == 0
    heat.wait_for(3, LONG)
    daemon.wait_state("d1", "signalled")
    marked = machine.state / "deployed" / "d1.json"
    wait_until(marked.exists, LONG)
    marked.unlink()
    assert daemon.command("poke").code == 0
    heat.wait_for(4, LONG)
    assert ran(machine) == ["d1"] * 4


def test_a_result_that_was_refused_is_sent_again(daemon: Daemon, machine: Machine, heat: SignalServer) -> None:
    """By `retry --signal`, at once, and nothing is run for it."""
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


# Once.


def test_once(daemon: Daemon, machine: Machine, heat: SignalServer) -> None:
    """`--once` asks every source, does all there is to do, and says by its exit code how that went."""
    daemon.configure()
    assert daemon.command("run", "--once").code == 0, "there is nothing to do"

    daemon.put([deployment("d1", counting(machine, "d1"), signal=heat.url())])
    done = daemon.command("run", "--once", "--json")
    assert done.code == 0, done.err
    assert done.json["exit_code"] == 0
    assert [each["id"] for each in done.json["deployments"]] == ["d1"]
    assert done.json["summary"]["ok"] == 1, done.json
    assert len(heat.signals) == 1

    daemon.put([deployment("d2", "#!/bin/sh\nexit 1\n")])
    assert daemon.command("run", "--once").code == 1
    daemon.put("{")
    done = daemon.command("run", "--once")
    assert "site.json" in done.out + done.err
    daemon.put([deployment("d3", "#!/bin/sh\nexit 194\n", name="d3")])
    assert daemon.command("run", "--once").code == 6
    assert daemon.states()["d3"] == "reboot"
    assert ran(machine) == ["d1"]


def test_once_without_an_answer(daemon: Daemon, machine: Machine) -> None:
    """No source, no document: 3, in good time."""
    daemon.settings["file"] = {"path": str(machine.folder / "missing.json")}
    daemon.configure(collectors="file")
    done = daemon.command("run", "--once")
    assert done.code == 3
    assert "missing.json" in done.out + done.err
    assert "Traceback" not in done.err


def test_once_with_bad_settings(daemon: Daemon) -> None:
    """2."""
    daemon.configure(parallel="none")
    assert daemon.command("run", "--once").code == 2


def test_once_with_a_result_that_cannot_be_delivered(daemon: Daemon, machine: Machine, heat: SignalServer) -> None:
    """5; the next one delivers it, without running anything."""
    heat.refuse()
    daemon.configure()
    daemon.put([deployment("d1", counting(machine), signal=heat.url())])
    assert daemon.command("run", "--once").code == 5
    heat.start()
    assert daemon.command("run", "--once").code == 0
    assert ran(machine) == ["d1"]
    assert len(heat.signals) == 1


def test_once_that_is_interrupted(daemon: Daemon, machine: Machine, heat: SignalServer) -> None:
    """130; what runs goes on. Other signals do not disturb it, nor make it busy."""
    daemon.configure()
    daemon.put([deployment("d1", meeting(machine, "d1"), signal=heat.url())])
    process = machine.start("heat-config-agent", "run", "--once", "--config", str(daemon.path))
    wait_until(lambda: ran(machine) == ["d1"], LONG)
    process.send_signal(signal.SIGUSR1)
    process.send_signal(signal.SIGHUP)
    before = sum(psutil.Process(process.pid).cpu_times()[:2])
    time.sleep(1)
    assert sum(psutil.Process(process.pid).cpu_times()[:2]) - before < 0.5
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=LONG)
    assert process.returncode == 130
    (machine.folder / "go-d1").touch()
    assert daemon.command("run", "--once").code == 0
    assert ran(machine) == ["d1"]


# What it says of itself.


class Systemd:
    """A socket as the service manager's."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(str(path))
        self._socket.settimeout(LONG)

    def until(self, wanted: str) -> list[str]:
        """Return all messages, up to one that begins so."""
        found: list[str] = []
        while not found or not found[-1].startswith(wanted):
            found.append(self._socket.recv(4096).decode())
        return found

    def close(self) -> None:
        self._socket.close()


@pytest.fixture
def systemd(tmp_path: Path) -> Iterator[Systemd]:
    """Somebody who listens at `$NOTIFY_SOCKET`."""
    manager = Systemd(tmp_path / "notify")
    yield manager
    manager.close()


def test_systemd_is_told(daemon: Daemon, machine: Machine, systemd: Systemd) -> None:
    """That it is ready, what it is doing, that it is alive, that it reads its settings again, and that it ends."""
    daemon.start(NOTIFY_SOCKET=str(systemd.path), WATCHDOG_USEC="900000")
    assert systemd.until("READY=1")[-1] == "READY=1"
    systemd.until("STATUS=idle")
    daemon.put([deployment("d1", meeting(machine, "d1"))])
    systemd.until("STATUS=running d1")
    moments = [time.monotonic()]
    for _ in range(6):
        systemd.until("WATCHDOG=1")
        moments.append(time.monotonic())
    assert max(after - before for before, after in pairwise(moments)) < 0.9
    for _ in range(2):
        daemon.send(signal.SIGHUP)
        found = systemd.until("RELOADING=1")[-1]
        moment = int(re.fullmatch(r"RELOADING=1\nMONOTONIC_USEC=(\d+)", found)[1])  # type: ignore[index]
        assert abs(moment / 1e6 - time.monotonic()) < LONG
        assert systemd.until("READY=1")[-1] == "READY=1"
    daemon.path.write_text("nonsense")
    daemon.send(signal.SIGHUP)
    systemd.until("RELOADING=1")
    systemd.until("READY=1")
    assert daemon.stop() == 0
    systemd.until("STOPPING=1")


@pytest.mark.parametrize("address", ["@heat-config-agent-{pid}", "{folder}/nobody", "relative", ""])
def test_any_socket_or_none(daemon: Daemon, machine: Machine, address: str) -> None:
    """An abstract socket is spoken to; where nobody listens nothing is disturbed."""
    address = address.format(pid=os.getpid(), folder=machine.folder)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        if address.startswith("@"):
            listener.bind(f"\0{address[1:]}")
            listener.settimeout(LONG)
        daemon.start(NOTIFY_SOCKET=address)
        assert not address.startswith("@") or listener.recv(100) == b"READY=1"
    assert daemon.stop() == 0


def test_status(daemon: Daemon, machine: Machine) -> None:
    """`status` says whether it runs and what it does; `--check` says by its exit code whether all is well."""
    daemon.configure()
    done = daemon.command("status", "--check")
    assert (done.code, done.out) == (1, "no agent is running\n")
    daemon.put([deployment("d1", meeting(machine, "d1"))])
    daemon.start()
    wait_until(lambda: daemon.health().get("doing") == "running d1", LONG)
    done = daemon.command("status", "--check")
    assert (done.code, done.out) == (0, "all is well with the agent: running d1\n")
    said = daemon.command("status", "--json").json
    assert (said["healthy"], said["problems"]) == (True, [])
    assert (said["agent"]["running"], said["agent"]["process"]) == (True, daemon.pid)
    [source] = said["agent"]["sources"]
    assert (source["name"], source["working"], source["failures"]) == ("local", True, 0)
    shown = daemon.command("status").out
    assert f"agent: running d1 (process {daemon.pid})" in shown
    assert "source local: answered" in shown
    daemon.stop()
    said = daemon.command("status", "--json").json
    assert (said["healthy"], said["agent"]["running"], said["agent"]["doing"]) == (False, False, "not running")
    assert daemon.command("status").code == 0


_SAMPLE = re.compile(r'([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{([a-z_]+)="([^"\\\n]*)"\})? (-?[0-9.e+-]+)')


def samples(text: str) -> dict[tuple[str, str], float]:
    """Return name and label → value of metrics in Prometheus' text format, which they have to have."""
    assert text.endswith("\n")
    found: dict[tuple[str, str], float] = {}
    described: Counter[tuple[str, str]] = Counter()
    for line in text.splitlines():
        if line.startswith("#"):
            _, kind, name, _ = line.split(" ", 3)
            described[kind, name] += 1
            continue
        match = _SAMPLE.fullmatch(line)
        assert match, line
        assert described["HELP", match[1]] == described["TYPE", match[1]] == 1, line
        assert (match[1], match[3] or "") not in found
        found[match[1], match[3] or ""] = float(match[4])
    return found


def test_metrics(daemon: Daemon, machine: Machine, heat: SignalServer) -> None:
    """They are in Prometheus' text format, everybody may read them, and nothing in them is secret."""
    path = machine.folder / "metrics" / "heat.prom"
    path.parent.mkdir()
    daemon.configure(metrics_file=str(path))
    daemon.put(
        [
            deployment("d1", counting(machine, "d1", "exit 3"), inputs={"password": "geheim"}, signal=heat.url()),
            deployment("d2", meeting(machine, "d2")),
            deployment("d3", meeting(machine, "d3")),
        ]
    )
    before = time.time()
    os.umask(os.umask(0o077))
    daemon.start()
    wait_until(lambda: len(heat.signals) == 1 and daemon.health().get("doing") == "running d2; 1 waiting", LONG)
    prefix = "heat_config_agent"
    wanted = {
        (f"{prefix}_up", ""): 1,
        (f"{prefix}_paused", ""): 0,
        (f"{prefix}_deployments", "signalled"): 1,
        (f"{prefix}_deployments", "running"): 1,
        (f"{prefix}_deployments", "accepted"): 1,
        (f"{prefix}_deployments_waiting", ""): 1,
        (f"{prefix}_deployments_failed", ""): 1,
        (f"{prefix}_results_undelivered", ""): 0,
        (f"{prefix}_source_working", "local"): 1,
        (f"{prefix}_source_failures", "local"): 0,
    }
    wait_until(lambda: wanted.items() <= samples(path.read_text()).items(), LONG)
    found = samples(path.read_text())
    assert before - 1 <= found[f"{prefix}_start_time_seconds", ""] <= time.time() + 1
    assert stat.S_IMODE(path.stat().st_mode) == 0o644
    assert "geheim" not in path.read_text()
    assert "Signature" not in path.read_text()
    assert daemon.stop() == 0
    assert samples(path.read_text())[f"{prefix}_up", ""] == 0
    assert [each.name for each in path.parent.iterdir()] == ["heat.prom"]


def test_where_its_command_is(daemon: Daemon) -> None:
    """`run` is said in the help, with its signals and exit codes."""
    done = daemon.machine.start(str(BIN / "heat-config-agent"), "run", "--help").communicate(timeout=20)[0]
    assert all(word in done for word in ("--once", "HUP", "USR1", "TERM", "130"))
