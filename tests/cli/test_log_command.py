"""heat-config-agent log: what a run has printed, also while it runs."""

from __future__ import annotations

from support import pace
from support.commands import SH, let_go, wait_for_text, waiting
from support.machine import Machine, deployment


def test_log_prints_the_whole_output(machine: Machine) -> None:
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


LINES = f"{SH}seq 1 300\nseq 1001 1300 >&2\n"


def test_tail_prints_the_last_lines_of_each_stream(machine: Machine) -> None:
    """With a line that has not ended, too; a number that is none is refused."""
    machine.apply([deployment("d1", f"{LINES}printf half\n")])

    logged = machine.agent("log", "--tail", "2", "d1")
    answer = machine.agent("log", "--tail", "2", "d1", "--json").data

    assert (logged.out, logged.err) == ("300\nhalf", "1299\n1300\n")
    [run] = answer["runs"]
    assert (run["stdout"], run["stderr"]) == (logged.out, logged.err)
    assert (run["name"], run["state"]) == ("d1", "ok")
    assert machine.agent("log", "--tail", "0", "d1").code == 2


def test_output_of_earlier_runs_is_left_out(machine: Machine) -> None:
    """With --since, only runs of the last time are printed, and a note says that there are none."""
    machine.apply([deployment("d1", f"{SH}echo said\n")])

    recent = machine.agent("log", "--since", "1d", "d1")
    old = machine.agent("log", "--since", "0", "d1")

    assert (recent.code, recent.out) == (0, "said\n")
    assert (old.code, old.out) == (0, "")
    assert old.err == "note: nothing ran in the last 0.00 s\n"


def test_log_of_a_stack_has_all_of_its_runs(machine: Machine) -> None:
    """Each line stands after the name of its deployment, on the stream that it was printed to."""
    config = {"group": "script", "config": f"{SH}echo one\necho two\nprintf bad >&2\n"}
    uses = {"config": {"get_resource": "config"}, "server": "here"}
    resources = {
        "config": {"type": "OS::Heat::SoftwareConfig", "properties": config},
        **{
            name: {"type": "OS::Heat::SoftwareDeployment", "properties": uses}
            for name in ("app", "store")
        },
    }
    template = {"heat_template_version": "2018-08-31", "resources": resources}
    assert machine.apply(machine.write(template, "web.yaml")).code == 0

    logged = machine.agent("log", "web")
    last = machine.agent("log", "--tail", "1", "web")

    assert logged.code == 0
    assert sorted(logged.out.splitlines()) == [
        "web/app    | one",
        "web/app    | two",
        "web/store  | one",
        "web/store  | two",
    ]
    assert sorted(logged.err.splitlines()) == ["web/app    | bad", "web/store  | bad"]
    assert sorted(last.out.splitlines()) == ["web/app    | two", "web/store  | two"]
    runs = machine.agent("log", "web", "--json").data["runs"]
    assert sorted(each["name"] for each in runs) == ["web/app", "web/store"]


def test_log_waits_for_a_run_that_has_not_begun(machine: Machine) -> None:
    """With -f, a note says for what; without an agent that could begin it, that is an error."""
    given = [waiting(machine), deployment("d2", f"{SH}echo second\n")]
    process = machine.start_apply(given)
    wait_for_text(machine.state / "runs" / "d1" / "stdout", "begun")
    following = machine.start(
        "heat-config-agent", "log", "-f", "d2", "--state-dir", str(machine.state)
    )
    assert following.stderr is not None
    note = following.stderr.readline()
    let_go(machine)
    process.communicate(timeout=pace.seconds(30))
    out, _ = following.communicate(timeout=pace.seconds(30))

    assert note.startswith("note: d2 ")
    assert (following.returncode, out) == (0, "second\n")


def test_run_that_no_agent_begins_is_not_waited_for(machine: Machine) -> None:
    """The deployment is accepted, and the agent that accepted it has ended."""
    process = machine.start_apply([waiting(machine), deployment("d2")])
    wait_for_text(machine.state / "runs" / "d1" / "stdout", "begun")
    process.kill()
    process.communicate()
    done = machine.agent("log", "-f", "d2")
    let_go(machine)

    assert (done.code, done.out) == (8, "")
    assert "d2 has not begun, and no agent is there to begin it" in done.err
