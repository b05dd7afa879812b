"""heat-config-agent status: every deployment, with what has become of it."""

from __future__ import annotations

from pathlib import Path

from cli.window import window
from support import pace
from support.commands import SH, counted, let_go, wait_for_text, waiting
from support.loopback import Answer, SignalServer
from support.machine import BIN, Machine, deployment

COLUMNS = ("NAME", "STATE", "ACTION", "TOOL", "RESULT", "SINCE", "DETAILS")


def test_status_shows_every_deployment(machine: Machine, heat: SignalServer) -> None:
    """Done, failed, waiting to be delivered, refused: each with its reason, as a table and as JSON."""
    heat.answers.extend([Answer(200), Answer(404), Answer(503)])
    given = [
        counted(machine, "good", signal=heat.url()),
        deployment("refused", name="web", signal=heat.url()),
        deployment("down", signal=heat.url()),
        deployment("quiet", f"{SH}echo 'no luck' >&2\nexit 3\n"),
    ]
    machine.apply(given, "--deliver-for", "0")
    heat.refuse()

    status = machine.status()
    table = machine.agent("status").out

    assert list(status) == ["good", "refused", "down", "quiet"]
    assert {name: (each["state"], each["failed"]) for name, each in status.items()} == {
        "good": ("signalled", False),
        "refused": ("refused", False),
        "down": ("finished", False),
        "quiet": ("unasked", True),
    }
    assert "404" in status["refused"]["trouble"]
    assert (status["down"]["tries"], "503" in status["down"]["trouble"]) == (1, True)
    assert "no luck" in status["quiet"]["reason"]
    above, table, below = table.split("\n\n")
    assert above.split("   ")[1:] == [
        "1 failed · 3 ok · 1 result due",
        "no agent is running",
    ]
    assert below.startswith("`heat-config-agent log quiet ")
    header, *lines = table.splitlines()
    assert header.split() == list(COLUMNS)
    found = [line.split(maxsplit=6) for line in lines]
    assert [row[:5] for row in found] == [
        ["good", "ok", "CREATE", "script", "sent"],
        ["web", "ok", "CREATE", "script", "refused"],
        ["down", "ok", "CREATE", "script", "due"],
        ["quiet", "failed", "CREATE", "script", "-"],
    ]
    assert found[3][6] == "exit code 3: no luck"
    assert "503" in found[2][6]


def test_refused_result_is_a_problem_while_the_metadata_has_its_deployment(
    machine: Machine, heat: SignalServer
) -> None:
    """The server still waits, and the agent sends nothing more: `--check` says so until the deployment has left."""
    heat.answers.extend([Answer(404)])
    machine.apply([deployment("d1", name="web", signal=heat.url())])

    checked = machine.agent("status", "--check")
    machine.apply([])

    words = (
        "the server has refused the result of web for good: `heat-config-agent show web"
    )
    assert (checked.code, words in checked.out) == (1, True)
    assert words not in machine.agent("status", "--check").out


def test_status_shows_what_runs(machine: Machine) -> None:
    """A deployment that runs is shown with its process, for how long, and its limit; one that waits is shown too."""
    given = [waiting(machine, options={"timeout": 30}), counted(machine, "d2")]
    process = machine.start_apply(given)
    wait_for_text(machine.state / "runs" / "d1" / "stdout", "begun")

    found = machine.status()
    let_go(machine)
    process.communicate(timeout=pace.seconds(10))

    assert (found["d1"]["state"], found["d2"]["state"]) == ("running", "accepted")
    assert f"process {found['d1']['process']}" in found["d1"]["what"]
    assert "30 s" in found["d1"]["what"]
    assert found["d1"]["failed"] is None


def test_deployments_of_another_agent_without_a_result_are_named(
    machine: Machine,
) -> None:
    """Heat may wait for them; those with a result, and marks that a person made, are not named."""
    deployed = machine.state / "deployed"
    deployed.mkdir(parents=True, mode=0o700)
    machine.state.chmod(0o700)
    for name, text in {"d7": "{}", "d8": "{}", "d8.notify": "{}", "d9": ""}.items():
        (deployed / f"{name}.json").write_text(text)
        (deployed / f"{name}.json").chmod(0o600)
    sentence = "another agent began d7 and recorded no result"
    assert sentence in machine.agent("status").out.splitlines()
    done = machine.agent("status", "--check")
    assert (done.code, sentence in done.out) == (1, True)
    machine.have_quick_tools()
    doctor = machine.agent("doctor").out
    assert "another agent began d7 and recorded no result" in doctor
    assert "d8" not in doctor


def test_unfinished_run_and_undelivered_result_are_named(
    machine: Machine, heat: SignalServer
) -> None:
    """A run that goes on, and a result that nobody has accepted yet; what is settled is not named."""
    heat.refuse()
    machine.apply(
        [deployment("d0"), deployment("d2", signal=heat.url())], "--deliver-for", "0"
    )
    assert (
        machine.agent("status", "--unfinished").out
        == "d2 (CREATE) has run, and its result is not delivered\n"
    )
    process = machine.start_apply([waiting(machine, name="long")])
    wait_for_text(machine.state / "runs" / "d1" / "stdout", "begun")
    assert (
        "long (CREATE) is running"
        in machine.agent("status", "--unfinished").out.splitlines()
    )
    let_go(machine)
    process.communicate(timeout=pace.seconds(10))


def test_wide_table_has_ids_and_sources(machine: Machine) -> None:
    """They are cut nowhere, and the other columns are the same."""
    name = "a-name-" * 15
    machine.apply([deployment("4be13a2c-7d15-0000-0000-000000000001", name=name)])

    _, table, *_ = machine.agent("status", "--wide").out.split("\n\n")

    header, row = table.splitlines()
    assert header.split() == [*COLUMNS[:-1], "ID", "SOURCE", "DETAILS"]
    assert row.split()[0] == name
    assert row.split()[6:] == [
        "4be13a2c-7d15-0000-0000-000000000001",
        f"file:{machine.folder}/document.json",
    ]


def test_watch_shows_what_changes(machine: Machine) -> None:
    """On a terminal, until it is interrupted; elsewhere it is refused."""
    machine.apply([deployment("d1", name="first")])
    command: list[str | Path] = [BIN / "heat-config-agent", "status", "--watch"]
    more = ["--interval", "0.2s", "--state-dir", str(machine.state)]
    with window(machine.folder, [*command, *more], machine.environment) as terminal:
        terminal.wait_for("first")
        machine.apply([deployment("d2", name="second")])
        terminal.wait_for("second")
        assert len([row for row in terminal.all() if row.startswith("first")]) == 1
        terminal.type("C-c")
        terminal.ended()
    done = machine.agent("status", "--watch")
    assert (done.code, done.out) == (2, "")
    assert "--watch is for a terminal" in done.err
