"""heat-config-apply: its exit codes, its lines and its JSON, its plans, and the choice of deployments."""

from __future__ import annotations

import re
import signal
import stat

import pytest

from support import pace
from support.commands import SH, counted, let_go, run, runs, wait_for_text, waiting
from support.loopback import Answer, SignalServer
from support.machine import Done, Machine, deployment


def test_a_run_without_failures_exits_with_0(
    machine: Machine, heat: SignalServer
) -> None:
    """The exit code is 0 if deployments ran and were delivered, need no delivery, or were done before."""
    given = [counted(machine, "d1", signal=heat.url()), counted(machine, "d2")]

    assert [machine.apply(given).code for _ in range(2)] == [0, 0]
    assert machine.apply([]).code == 0
    assert machine.apply({"deployments": []}).code == 0
    assert machine.apply({"deployments": None}).code == 0
    assert runs(machine) == ["d1", "d2"]


@pytest.mark.parametrize("given", [counted, None])
def test_a_failure_is_told_by_the_exit_code(machine: Machine, given: object) -> None:
    """A deployment that fails, or an entry that cannot be read, comes to 1, and the others are applied."""
    bad: object = deployment("bad", f"{SH}exit 3\n") if given else "no deployment"

    ran = machine.apply([bad, counted(machine, "good")])

    assert ran.code == 1
    assert runs(machine) == ["good"]
    assert "Traceback" not in ran.err


@pytest.mark.parametrize(
    "arguments",
    [
        ["--no-such-option"],
        ["--timeout", "soon"],
        ["--timeout", "-1"],
        ["--timeout", "inf"],
        ["--grace", "nan"],
        ["--deliver-for", "x"],
        ["--only", "unknown"],
        ["-", "-"],
    ],
)
def test_bad_usage_is_told_by_the_exit_code(
    machine: Machine, arguments: list[str]
) -> None:
    """Bad usage exits with 2 and a message, and runs nothing."""
    ran = machine.apply([counted(machine)], *arguments)

    assert ran.code == 2
    assert "error: " in ran.err
    assert "Traceback" not in ran.err
    assert runs(machine) == []


def test_unusable_state_directory_has_its_own_exit_code(machine: Machine) -> None:
    """The command line is right, and the machine lacks what it needs."""
    ran = machine.apply([counted(machine)], "--state-dir", "/dev/null/x")

    assert (ran.code, runs(machine)) == (10, [])
    assert ran.err.startswith("error: ")


@pytest.mark.parametrize("document", ["missing.json", "folder"])
def test_missing_file_is_bad_usage(machine: Machine, document: str) -> None:
    """A FILE that is not there, or a folder without documents, comes to 2, and is named with the reason."""
    (machine.folder / "folder").mkdir()

    ran = machine.apply(machine.folder / document)

    assert ran.code == 2
    assert str(machine.folder / document) in ran.err
    assert "Traceback" not in ran.err


@pytest.mark.parametrize(
    "others", [["missing.yaml"], ["document.json"], ["document.json", "missing.yaml"]]
)
@pytest.mark.parametrize("is_first", [True, False])
def test_template_with_other_files_is_one_mistake(
    machine: Machine, others: list[str], is_first: bool
) -> None:
    """The others are not read, whether they are there or not."""
    template = machine.write(
        "heat_template_version: 2018-08-31\nresources: {r: {type: OS::Heat::None}}\n",
        "t.yaml",
    )
    machine.write([counted(machine)])
    files = [str(machine.folder / name) for name in others]
    files = [str(template), *files] if is_first else [*files, str(template)]

    ran = machine.command(
        "heat-config-apply", ["--state-dir", str(machine.state), *files], {}
    )

    assert ran.code == 2
    assert ran.err.startswith(
        f"error: {template} cannot be applied together with other files"
    )
    assert len(ran.err.splitlines()) == 1
    assert runs(machine) == []


@pytest.mark.parametrize(
    "text",
    [
        "heat_template_version: 2018-08-31\nresources:\n  r: {}\n",
        "- {id: a, grop: script}\n",
    ],
)
@pytest.mark.parametrize("options", [[], ["--plan"]])
def test_mistakes_are_part_of_the_json(
    machine: Machine, text: str, options: list[str]
) -> None:
    """Those of a template have the same form as those of a document."""
    ran = machine.apply(machine.write(text, "site.yaml"), "--json", *options)

    assert (ran.code, ran.json["exit_code"]) == (2, 2)
    mistakes = ran.json["error"]["mistakes"]
    for mistake in mistakes:
        assert mistake["file"] == f"{machine.folder}/site.yaml"
        assert mistake["problem"]
    assert 0 < len(mistakes) == ran.err.count(": error: ")
    assert ran.json["data"] is None


def test_missing_file_of_a_template_is_reported_once(machine: Machine) -> None:
    """Where it is named, in our words, and not in those of Heat's API, which is given all files with the template."""
    text = "heat_template_version: 2018-08-31\nresources:\n  c:\n    type: OS::Heat::SoftwareConfig\n"
    template = machine.write(
        f"{text}    properties: {{group: script, config: {{get_file: no.sh}}}}\n",
        "t.yaml",
    )
    expected = f"{template}:5:42: error: cannot read {machine.folder}/no.sh: No such file or directory"

    ran = machine.apply(template)
    checked = machine.command(
        "heat-config-agent", ["template", "validate", str(template)], {}
    )

    assert ran.code == 2
    for said in (ran.err, checked.out + checked.err):
        assert expected in said
        assert said.count(": error: ") == 1


def test_nothing_named_is_told_by_the_exit_code(machine: Machine) -> None:
    """Without a document, and without the one that heat-agents would apply, there is nothing to do."""
    ran = machine.apply()

    assert ran.code == 3
    assert "FILE" in ran.err


def test_a_missing_document_does_not_hold_up_the_others(machine: Machine) -> None:
    """A missing document is reported, and the others are applied."""
    ran = machine.apply([counted(machine)], str(machine.folder / "missing.json"))

    assert ran.code == 1
    assert "missing.json" in ran.err
    assert runs(machine) == ["d1"]


@pytest.mark.parametrize("plan", [False, True])
def test_a_second_agent_is_refused(
    machine: Machine, heat: SignalServer, plan: bool
) -> None:
    """Two at once would run everything twice: the second names the process and comes to 4. A plan needs no lock."""
    first = machine.start_apply([waiting(machine, signal=heat.url())])
    wait_for_text(machine.state / "runs" / "d1" / "stdout", "begun")

    second = machine.apply([counted(machine, "d2")], *(["--plan"] if plan else []))
    let_go(machine)
    first.communicate(timeout=pace.seconds(10))

    assert (first.returncode, second.code) == (0, 0 if plan else 4)
    assert plan or f"process {first.pid}" in second.err
    assert runs(machine) == []
    assert len(heat.signals) == 1


def test_an_undelivered_result_is_told_by_the_exit_code(
    machine: Machine, heat: SignalServer
) -> None:
    """All ran well, but a result is still to be delivered: 5, for as long as that is so."""
    heat.always = Answer(503, {"Retry-After": "100"})
    given = [counted(machine, signal=heat.url())]

    first = machine.apply(given, "--deliver-for", "0")
    second = machine.apply(given, "--deliver-for", "0")

    assert (first.code, second.code) == (5, 5)
    assert "next run" in first.out
    assert len(heat.signals) == 1, "the server asked not to be asked again so soon"
    assert runs(machine) == ["d1"]


def test_a_failure_counts_for_more_than_a_delivery(
    machine: Machine, heat: SignalServer
) -> None:
    """Where one failed and its result is still to be delivered, the exit code is that of the failure."""
    heat.always = Answer(503)

    assert (
        machine.apply(
            [deployment(config=f"{SH}exit 1\n", signal=heat.url())],
            "--deliver-for",
            "0",
        ).code
        == 1
    )


def test_deployments_that_wait_for_a_reboot_have_no_results_to_send(
    machine: Machine,
) -> None:
    """The exit code stays that of the reboot, also with another deployment behind the one that asked for it."""
    given = [deployment("d1", f"{SH}exit 194\n"), deployment("d2", f"{SH}true\n")]
    first = machine.apply(given)
    second = machine.apply(given)
    assert (first.code, second.code) == (6, 6)
    assert "due" not in first.out + second.out
    for done, word in ((first, "continues"), (second, "it waits for the reboot")):
        rows = [line.split(maxsplit=4) for line in done.out.splitlines()[:2]]
        assert sorted(row[:2] for row in rows) == [["reboot", "d1"], ["waiting", "d2"]]
        assert f"{word}" in done.out
        assert ": 1 waiting, 1 reboot" in done.out


@pytest.mark.parametrize(
    "harm",
    [
        "rm -rf {0}",
        "rm {0}/status.*",
        "for each in {0}/status.*; do echo x >x; mv x $each; done",
    ],
    ids=["folder", "status file", "another file"],
)
def test_run_that_removes_the_record_of_its_end_is_told_so(
    machine: Machine, harm: str
) -> None:
    """Nothing has killed its supervisor."""
    done = machine.apply(
        [deployment("d1", f"{SH}{harm.format(machine.state / 'runs/d1')}\n")]
    )
    assert done.code == 1
    assert (
        "the record of it was removed or replaced while it ran"
        in machine.status()["d1"]["reason"]
    )


def test_id_that_is_the_digest_of_another_one_is_another_deployment(
    machine: Machine,
) -> None:
    """In one document, and in a later one."""
    assert machine.apply([counted(machine, "web/1")]).code == 0
    (key,) = (entry["key"] for entry in machine.status().values())
    assert machine.apply(machine.write([counted(machine, key)], "other.json")).code == 0
    assert sorted(runs(machine)) == sorted(["web/1", key])
    assert (
        machine.agent("forget", "--yes", "web/1").code
        == machine.agent("forget", "--yes", key).code
        == 0
    )
    done = machine.apply([counted(machine, "web/1"), counted(machine, key)])
    assert done.code == 0, done.out + done.err
    assert len(runs(machine)) == 4


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_command_leaves_the_run_alone(
    machine: Machine, heat: SignalServer, number: int
) -> None:
    """A signal ends the command with 130, what was running goes on, and the next command reports it."""
    process = machine.start_apply([waiting(machine, signal=heat.url())])
    wait_for_text(machine.state / "runs" / "d1" / "stdout", "begun")
    process.send_signal(number)
    out, err = process.communicate(timeout=pace.seconds(10))

    assert (process.returncode, out) == (130, "")
    assert "Traceback" not in err
    assert "go on" in err
    let_go(machine)
    assert machine.apply([waiting(machine, signal=heat.url())]).code == 0
    assert [value["deploy_stdout"] for value in heat.values()] == ["begun\nover\n"]


def test_the_result_may_be_one_json_object(
    machine: Machine, heat: SignalServer
) -> None:
    """With --json standard output is one object: each deployment with its step, state and result, and the totals."""
    heat.always = Answer(404)
    given = [
        counted(
            machine, "d1", "echo hi; printf x >$heat_outputs_path.out", outputs=["out"]
        ),
        deployment("d2", f"{SH}exit 3\n", name="db", signal=heat.url()),
        "nonsense",
    ]

    ran = machine.apply({"deployments": given}, "--json")

    assert (ran.code, ran.json["exit_code"]) == (1, 1)
    assert ran.json["error"]["code"] == "failed"
    first, second, third = ran.data["deployments"]
    assert (first["id"], first["tool"], first["action"], first["change"]) == (
        "d1",
        "script",
        "CREATE",
        "run",
    )
    assert (first["state"], first["result"], first["outputs"]) == (
        "ok",
        None,
        {"out": "x"},
    )
    assert first["values"] == {
        "deploy_stdout": "hi\n",
        "deploy_stderr": "",
        "deploy_status_code": 0,
        "out": "x",
    }
    assert first["run_seconds"] >= 0
    assert (second["name"], second["state"], second["result"]) == (
        "db",
        "failed",
        "refused",
    )
    assert "404" in second["trouble"]
    assert third["state"] == "failed"
    assert [each["path"] for each in ran.data["mistakes"]] == ["deployments[2]"]
    summary = ran.data["summary"]
    assert (summary["ok"], summary["failed"], summary["results_refused"]) == (1, 2, 1)


def test_lines_say_what_happened(machine: Machine, heat: SignalServer) -> None:
    """For people there is a line for each deployment with its result and the reason, its outputs, and a summary."""
    given = [
        counted(
            machine,
            "d1",
            "printf 'x\\ny' >$heat_outputs_path.out",
            name="web",
            outputs=["out"],
            signal=heat.url(),
        ),
        deployment(
            "d2",
            f"{SH}echo first; echo 'it \033[31mbroke' >&2; exit 3\n",
            name="d\033b",
        ),
        deployment("d3", group="os-apply-config"),
    ]

    ran = machine.apply(given)

    *rows, empty, summary, ways = ran.out.splitlines()
    # a row comes when its result has been sent, which the next run does not wait for
    by_state = {row.split()[0]: row for row in rows}
    ok, failed, skipped = (by_state[state] for state in ("ok", "failed", "skipped"))
    assert len(rows) == 3
    assert ok.split()[:4] == ["ok", "web", "CREATE", "script"]
    assert ok.endswith(" s  out = x \u23ce y")
    assert failed.startswith("failed")
    assert failed.endswith("exit code 3: it \ufffd[31mbroke")
    assert skipped.startswith("skipped")
    assert empty == ""
    assert re.fullmatch(
        r"3 deployments in \d.\d\d s: 1 ok, 1 failed, 1 skipped; 1 result sent", summary
    )
    assert "`heat-config-agent log " in ways
    assert "`heat-config-agent retry " in ways
    assert "\033" not in ran.out + ran.err


@pytest.mark.parametrize("grace", [None, "0.2"])
def test_a_timeout_of_zero_means_no_timeout(
    machine: Machine, heat: SignalServer, grace: str | None
) -> None:
    """With --timeout 0, a deployment without a timeout of its own has no limit."""
    given = [
        deployment("d1", f"{SH}sleep 0.3\n"),
        deployment("d2", f"{SH}sleep 9\n", options={"timeout": 0.2}),
    ]

    ran = machine.apply(
        given, "--timeout", "0", "--json", *(["--grace", grace] if grace else [])
    )

    codes = [each["values"]["deploy_status_code"] for each in ran.data["deployments"]]
    assert codes == [0, 124]
    assert heat.signals == []


def test_the_state_directory_may_be_chosen_by_the_environment(machine: Machine) -> None:
    """$HEAT_CONFIG_AGENT_STATE is where state is kept unless --state-dir says otherwise."""
    path = machine.write([counted(machine)])
    there = machine.folder / "there"

    ran = run(
        machine, "heat-config-apply", str(path), HEAT_CONFIG_AGENT_STATE=str(there)
    )
    status = run(
        machine,
        "heat-config-agent",
        "status",
        "--json",
        HEAT_CONFIG_AGENT_STATE=str(there),
    )

    assert ran.code == 0, ran.err
    assert [each["id"] for each in status.data["deployments"]] == ["d1"]
    assert stat.S_IMODE(there.stat().st_mode) == 0o700


def rows(done: Done) -> list[list[str]]:
    """Return the rows of a run: the state, the name and the rest of each."""
    lines = done.out.partition("\n\n")[0].splitlines()
    return [line.split(maxsplit=4) for line in lines]


def test_deployment_has_one_row_in_every_run(
    machine: Machine, heat: SignalServer
) -> None:
    """One waits for a reboot and one for the delivery of its result, in the first run and in the next."""
    heat.always = Answer(503)
    given = [
        deployment("sent", signal=heat.url()),
        deployment("kernel", f"{SH}exit 194\n"),
    ]
    for word in ("continues", "waits"):
        done = machine.apply(given, "--deliver-for", "0")
        kernel, sent = sorted(rows(done), key=lambda row: row[1])
        assert (kernel[0], sent[0]) == ("reboot", "ok")
        assert "result due: " in sent[-1]
        assert "503" in sent[-1]
        assert word in kernel[-1]
        assert "; 1 result due (the next run sends it)" in done.out
        assert "2 results" not in done.out
    heat.always = Answer()
    done = machine.apply(given, "--deliver-for", "5")
    assert "result sent" in rows(done)[0][-1] + rows(done)[1][-1]


def test_paused_run_shows_what_waits(machine: Machine) -> None:
    """Nothing begins, and the row says why."""
    machine.apply([])
    machine.agent("pause", "--reason", "moving house")
    done = machine.apply([deployment("d1")])
    assert rows(done)[0][:2] == ["waiting", "d1"]
    assert rows(done)[0][-1].endswith("paused: moving house")
    assert ": 1 waiting" in done.out
