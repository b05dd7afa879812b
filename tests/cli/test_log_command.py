"""heat-config-agent log: what a run has printed, also while it runs."""

from __future__ import annotations

from support import pace
from support.commands import SH, let_go, wait_for_text, waiting
from support.machine import Machine, deployment


def test_log_prints_all_of_it(machine: Machine) -> None:
    """Standard output goes to standard output, standard error to standard error, whole, whatever a result may hold."""
    machine.apply([deployment(config=f"{SH}seq 1 300000\nprintf 'one\\ntwo' >&2\n")])

    logged = machine.agent("log", "d1")

    assert logged.code == 0
    assert logged.out == "".join(f"{number}\n" for number in range(1, 300_001))
    assert logged.err == "one\ntwo"


def test_log_cannot_steer_the_terminal(machine: Machine) -> None:
    """Binary output and escape sequences are shown as what cannot be shown."""
    machine.apply([deployment(config=f"{SH}printf 'a\\033[2Jb\\377\\007\\tc ☃\\n'\n")])

    assert machine.agent("log", "d1").out == "a\ufffd[2Jb\ufffd\ufffd\tc ☃\n"


def test_log_follows_a_run(machine: Machine) -> None:
    """With -f what is printed appears as it is printed, and the command ends with the run."""
    process = machine.start_apply([waiting(machine)])
    wait_for_text(machine.state / "runs" / "d1" / "stdout", "begun")
    following = machine.start(
        "heat-config-agent", "log", "-f", "d1", "--state-dir", str(machine.state)
    )
    assert following.stdout is not None
    assert following.stdout.readline() == "begun\n"
    assert following.poll() is None

    let_go(machine)
    process.communicate(timeout=pace.seconds(10))
    out, _ = following.communicate(timeout=pace.seconds(10))

    assert (out, following.returncode) == ("over\n", 0)


def test_log_says_why_there_is_none(machine: Machine) -> None:
    """A deployment that was answered without running anything has no output, and that is said."""
    machine.apply([deployment(group="no-such-tool")])

    done = machine.agent("log", "d1")

    assert (done.code, done.out) == (1, "")
    assert "nothing was run" in done.err


def test_a_secret_in_a_line_without_end_is_not_printed_in_two_parts(
    machine: Machine,
) -> None:
    """`log` prints what is longer than it holds back bit by bit, and no bit has half of a secret."""
    script = f"{SH}head -c 196600 /dev/zero | tr '\\0' x; printf $db_password; head -c 200000 /dev/zero | tr '\\0' y\n"
    machine.apply([deployment("d1", script, inputs={"db_password": "gr8-secret"})])

    printed = machine.agent("log", "d1").out

    assert printed == "x" * 196600 + "***" + "y" * 200000


def test_following_ends_with_the_run_though_no_agent_is_there(machine: Machine) -> None:
    """`log -f` of a run whose agent was killed goes on to the run's end, and `status` says that it has ended."""
    process = machine.start_apply([waiting(machine)])
    wait_for_text(machine.state / "runs" / "d1" / "stdout", "begun")
    process.kill()
    process.communicate()
    follower = machine.start(
        "heat-config-agent", "log", "-f", "d1", "--state-dir", str(machine.state)
    )
    let_go(machine)

    out, _ = follower.communicate(timeout=pace.seconds(10))

    assert out == "begun\nover\n"
    status = machine.agent("status").out
    assert " ended " in status
    assert "the next run records how" in status


def test_missing_log_is_reported(machine: Machine) -> None:
    """A script may do anything to its own folder."""
    machine.apply([deployment("d1")])
    (machine.state / "runs" / "d1" / "stdout").unlink()

    done = machine.agent("log", "d1")

    assert (done.code, done.out) == (1, "")
    assert done.err.startswith("error: cannot read")
    assert "stdout" in done.err
