"""The daemon as its users see it: what it runs, and in which order."""

from __future__ import annotations

import functools
import json
import re
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from support.daemon import LONG, Daemon, counting, ran, until
from support.daemon_runs import meeting
from support.loopback import SignalServer, wait_until
from support.machine import Machine, deployment

pytestmark = pytest.mark.new_process("daemons")

TIMED_OUT = 124


def resource(
    identity: str, config: str, name: str = "one", **fields: Any
) -> dict[str, Any]:
    """Return a deployment of a resource: each of its actions is one, with an id of its own."""
    inputs = {"deploy_stack_id": "stack/1", "deploy_resource_name": name}
    return deployment(identity, config, name=name, inputs=inputs, **fields)


def test_a_document_is_applied_and_its_result_delivered(
    daemon: Daemon, machine: Machine, heat: SignalServer
) -> None:
    """A new document runs within a poll and its result is sent; unchanged, it does not run again."""
    daemon.start()
    daemon.put(
        [deployment("d1", counting(machine, then="echo out"), signal=heat.url())]
    )

    heat.wait_for(1, LONG)
    assert heat.values() == [
        {"deploy_stdout": "out\n", "deploy_stderr": "", "deploy_status_code": 0}
    ]
    wait_until(lambda: daemon.source()["working"] is True, LONG)
    wait_until(lambda: daemon.states() == {"d1": "signalled"}, LONG)
    daemon.put(
        [deployment("d1", counting(machine, then="echo out"), signal=heat.url())]
    )
    daemon.send(signal.SIGUSR1)
    time.sleep(1.5)  # several polls

    assert ran(machine) == ["d1"]
    assert len(heat.signals) == 1
    assert len(daemon.said("d1", "done")) == 1


def test_each_new_document_is_carried_out_once(
    daemon: Daemon, machine: Machine, heat: SignalServer
) -> None:
    """Each document that comes while the agent is idle runs soon after, once."""
    daemon.start()
    given: list[object] = []
    for identity in ("d1", "d2", "d3"):
        given.append(
            deployment(identity, counting(machine, identity), signal=heat.url(identity))
        )
        daemon.put(given)
        wait_until(lambda name=identity: len(heat.values(name)) == 1, LONG)  # type: ignore[misc]
    assert ran(machine) == ["d1", "d2", "d3"]


def test_deployments_of_a_document_that_goes_are_neither_run_nor_signalled(
    daemon: Daemon, machine: Machine, heat: SignalServer
) -> None:
    """A deployment that leaves before it begins never runs, and the result of a running one is not sent."""
    go = machine.folder / "go"
    daemon.put(
        [deployment("d1", counting(machine, "d1", until(go)), signal=heat.url("d1"))],
        "a",
    )
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


def test_deployment_that_leaves_while_it_runs_is_cleaned_up(
    daemon: Daemon, machine: Machine
) -> None:
    """A deployment that leaves while it runs is cleaned up as soon as it has ended."""
    go = machine.folder / "go"
    compose = machine.folder / "docker-compose"
    compose.write_text(
        f'#!/bin/sh\necho "$*" | grep -o -w -e up -e down >>{machine.folder}/ran && {until(go)}\nexit 0\n'
    )
    compose.chmod(0o755)
    daemon.configure(environment=[f"HEAT_DOCKER_COMPOSE_CMD={compose}"])
    daemon.put(
        [
            deployment(
                "d1", {"services": {"web": {"image": "x"}}}, group="docker-compose"
            )
        ]
    )
    daemon.start()
    wait_until(lambda: ran(machine) == ["up"], LONG)

    daemon.put([])
    daemon.wait_state("d1", "running")
    time.sleep(0.5)
    go.touch()

    wait_until(lambda: ran(machine) == ["up", "down"], LONG)
    daemon.wait_state("d1-left", "unasked")


def test_file_and_local_together_in_the_order_of_names(
    daemon: Daemon, machine: Machine
) -> None:
    """Several sources are one list, run in the order of names, one at a time."""
    path = machine.folder / "more.yaml"
    path.write_text(json.dumps([deployment("d1", counting(machine, "b"), name="b")]))
    daemon.settings["file"] = {"path": str(path)}
    daemon.configure(collectors="local, file")
    names = {"d4": "d", "d2": "a", "d3": "c"}
    daemon.put(
        [
            deployment(identity, counting(machine, name), name=name)
            for identity, name in names.items()
        ]
    )
    asked = machine.agent("pause", "--reason", "until all have been read")
    assert asked.code == 0
    daemon.start()
    wait_until(lambda: daemon.health().get("waiting") == 4, LONG)

    assert daemon.command("resume").code == 0

    wait_until(lambda: ran(machine) == ["a", "b", "c", "d"], LONG)


def test_no_more_runs_at_once_than_parallel_allows(
    daemon: Daemon, machine: Machine, heat: SignalServer
) -> None:
    """With `parallel = 3` three run at once, and no fourth; results go while others run."""
    ids = ("d1", "d2", "d3", "d4")
    daemon.configure(parallel=3)
    daemon.put(
        [
            deployment(each, meeting(machine, each), signal=heat.url(each))
            for each in ids
        ]
    )
    daemon.start()
    wait_until(lambda: len(ran(machine)) == 3, LONG)
    time.sleep(0.5)
    assert sorted(ran(machine)) == ["d1", "d2", "d3"]
    assert daemon.states()["d4"] == "accepted"

    (machine.folder / "go-d2").touch()
    wait_until(lambda: len(heat.values("d2")) == 1, LONG)
    wait_until(lambda: len(ran(machine)) == 4, LONG)
    assert daemon.states()["d1"] == "running"


def test_two_of_one_resource_never_run_at_once(
    daemon: Daemon, machine: Machine
) -> None:
    """Two deployments of one resource never run at once, whatever `parallel` is; others overtake them."""
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


def test_a_hung_run_holds_up_no_delete(
    daemon: Daemon, machine: Machine, heat: SignalServer
) -> None:
    """A hung run delays no other DELETE and no result; its own DELETE ends it, and says so."""
    hung = resource("d1", counting(machine, "d1", "sleep 1000"), signal=heat.url("d1"))
    daemon.put([hung])
    daemon.start()
    wait_until(lambda: ran(machine) == ["d1"], LONG)

    other = resource(
        "d2",
        counting(machine, "d2"),
        name="two",
        action="DELETE",
        signal=heat.url("d2"),
    )
    unknown = deployment("d3", group="no-such-tool", signal=heat.url("d3"))
    waiting = deployment("d4", counting(machine, "d4"), signal=heat.url("d4"))
    daemon.put([hung, other, unknown, waiting])
    wait_until(lambda: len(heat.values("d2")) == len(heat.values("d3")) == 1, LONG)
    assert heat.values("d3")[0]["deploy_status_code"] != 0
    assert daemon.states()["d1"] == "running"
    assert daemon.states()["d4"] == "accepted"

    own = resource(
        "d5", counting(machine, "d5"), action="DELETE", signal=heat.url("d1")
    )
    daemon.put([own, other, unknown, waiting])
    wait_until(lambda: len(heat.values("d1")) == len(heat.values("d4")) == 1, LONG)
    wait_until(
        lambda: set(daemon.states().values()) <= {"signalled", "superseded"}, LONG
    )

    assert ran(machine).index("d5") > ran(machine).index("d1")
    assert [each["deploy_status_code"] for each in heat.values("d1")] == [0], (
        "the DELETE's, and nothing of the CREATE"
    )
    record = machine.status()["d1"]
    assert (record["state"], record["failed"]) == ("superseded", True)
    assert "replaced by a DELETE" in record["reason"]
    assert not [each for each in machine.processes() if each.name() == "sleep"]


@pytest.mark.parametrize("replaced", ["finish", "cancel"])
def test_a_run_that_is_replaced_is_recorded_and_not_signalled(
    daemon: Daemon, machine: Machine, heat: SignalServer, replaced: str
) -> None:
    """A replaced run finishes or is ended, and its result is recorded and not sent."""
    daemon.configure(replaced=replaced)
    daemon.put([resource("d1", meeting(machine, "d1"), signal=heat.url())])
    daemon.start()
    wait_until(lambda: ran(machine) == ["d1"], LONG)

    daemon.put(
        [resource("d2", counting(machine, "d2"), action="UPDATE", signal=heat.url())]
    )
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


def test_settings_of_the_file_reach_the_runs(
    daemon: Daemon, machine: Machine, heat: SignalServer
) -> None:
    """The settings of the file reach the runs."""
    machine.hook(
        "own",
        '#!/bin/sh\necho "{\\"deploy_stdout\\": \\"$COLOUR, $HEAT_X\\", \\"deploy_status_code\\": 0}"\n',
    )
    daemon.configure(
        time_limit=0.5, environment=["COLOUR=green, or blue", "HEAT_X=a=b"]
    )
    daemon.put(
        [
            deployment(
                "d1", group="own", signal=heat.url("d1"), options={"timeout": LONG}
            ),
            deployment("d2", "#!/bin/sh\nsleep 600\n", signal=heat.url("d2")),
        ]
    )
    daemon.start()
    heat.wait_for(2, LONG)
    assert heat.values("d1")[0]["deploy_stdout"] == "green, or blue, a=b"
    [late] = heat.values("d2")
    assert late["deploy_status_code"] == TIMED_OUT
    assert "0.5 s" in late["deploy_stderr"]


def test_a_run_inherits_nothing_of_the_agent_or_of_systemd(
    daemon: Daemon, heat: SignalServer, tmp_path: Path
) -> None:
    """Nothing of the agent's and of systemd's, and signals as programs expect them, whoever started the agent."""
    look = "grep -E '^Sig(Ign|Blk)' /proc/self/status; ls /proc/self/fd | wc -w; env"
    daemon.put([deployment("d1", f"#!/bin/sh\n{look}\n", signal=heat.url())])
    shell = "trap '' HUP USR2 PIPE; exec \"$@\""
    daemon.start(
        "/bin/sh",
        "-c",
        shell,
        "sh",
        NOTIFY_SOCKET=str(tmp_path / "no"),
        OS_PASSWORD="secret",
        WATCHDOG_USEC="1",
    )
    heat.wait_for(1, LONG)

    said = heat.values()[0]["deploy_stdout"]
    masks = {
        name: int(value, 16)
        for name, value in re.findall(r"^(Sig\w+):\s+(\w+)$", said, re.MULTILINE)
    }
    # 32, 33: glibc's own
    assert {name: mask & 0x7FFFFFFF for name, mask in masks.items()} == {
        "SigIgn": 0,
        "SigBlk": 0,
    }
    assert "NOTIFY_SOCKET" not in said
    assert "WATCHDOG" not in said
    assert "secret" not in said
    # 0, 1, 2, and the folder that ls reads
    assert re.search(r"^4$", said, re.MULTILINE), said


def is_longer(path: Path, size: int) -> bool:
    """Return whether a file has more bytes, holes included."""
    return path.stat().st_size > size


@pytest.mark.fault(
    3,
    "a run leaves a process that prints on and on",
    "its output stays within the limit while the daemon rests, also of a daemon that is started later",
)
def test_output_of_a_process_that_a_run_has_left_is_limited(daemon: Daemon) -> None:
    """The process is not ended: it may be the purpose of the deployment."""
    daemon.configure(output_limit="4M")
    daemon.start()
    script = "#!/bin/sh\n(while :; do head -c 2000000 /dev/zero; sleep 0.1; done) &\necho $! > pid\n"
    daemon.put([deployment("d1", script)])
    daemon.wait_state("d1", "unasked")
    stream = daemon.machine.state / "runs/d1/stdout"
    for _ in range(2):
        enough = stream.stat().st_size + 30_000_000
        wait_until(functools.partial(is_longer, stream, enough), LONG)
        wait_until(lambda: stream.stat().st_blocks * 512 < 8_000_000, LONG)
        daemon.stop()
        daemon.start()


def test_file_that_is_written_is_done_without_a_reason(
    daemon: Daemon, machine: Machine
) -> None:
    """The agent writes it itself, so no line says that it begins, and «new» would mean nothing to people."""
    daemon.start()
    daemon.put(
        [
            deployment(
                "f1", {f"{machine.folder}/written.json": {"a": 1}}, group="json-file"
            )
        ]
    )
    daemon.wait_said("f1: done")
    assert daemon.said("f1: done")[0].endswith("f1: done")
