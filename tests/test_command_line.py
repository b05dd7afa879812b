"""The commands as people and other programs meet them: options, exit codes, what is printed and what never is."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
from pathlib import Path
from typing import Any

import pytest

from heat_config_hooks import HOOKS
from loopback import Answer, SignalServer, wait_until
from machine import BIN, Done, Machine, deployment

SH = "#!/bin/sh\n"
SAMPLES = Path(__file__).parent / "samples"
AGENT = ("status", "show", "log", "retry", "forget", "hooks")
CREDENTIALS = {"deploy_signal_id", "deploy_password", "deploy_user_id", "deploy_username"}


def run(machine: Machine, program: str, *arguments: str, given: str = "", **environment: str) -> Done:
    """Run any of the commands to its end, with something on standard input."""
    process = machine.start(program, *arguments, stdin=subprocess.PIPE, **environment)
    out, err = process.communicate(given, timeout=60)
    return Done(process.returncode, out, err)


def waiting(machine: Machine, identity: str = "d1", **fields: Any) -> dict[str, Any]:
    """Return a deployment that says `begun`, waits for `let_go` and says `over`."""
    script = f"{SH}echo begun\nwhile ! [ -e {machine.folder}/go ]; do sleep 0.02; done\necho over\n"
    return deployment(identity, script, **fields)


def let_go(machine: Machine) -> None:
    """Let the scripts of `waiting` end."""
    (machine.folder / "go").touch()


def wait_for_text(path: Path, text: str) -> None:
    """Wait until a file holds a text."""
    wait_until(lambda: path.exists() and text in path.read_text())


def runs(machine: Machine) -> list[str]:
    """Return what the scripts of `counted` have noted."""
    path = machine.folder / "runs"
    return path.read_text().split() if path.exists() else []


def counted(machine: Machine, identity: str = "d1", end: str = "", **fields: Any) -> dict[str, Any]:
    """Return a deployment that leaves its id in a file each time it is run."""
    return deployment(identity, f"{SH}echo {identity} >>{machine.folder}/runs\n{end}\n", **fields)


# The exit codes of heat-config-apply.


def test_all_is_well(machine: Machine, heat: SignalServer) -> None:
    """What ran and was delivered, what nobody waits for, and what is done already: exit code 0."""
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
        ["--state-dir", "/dev/null/x"],
        ["-", "-"],
    ],
)
def test_bad_usage_is_told_by_the_exit_code(machine: Machine, arguments: list[str]) -> None:
    """What was typed wrongly comes to 2, in words, and nothing is run."""
    ran = machine.apply([counted(machine)], *arguments)

    assert ran.code == 2
    assert "error: " in ran.err
    assert "Traceback" not in ran.err
    assert runs(machine) == []


@pytest.mark.parametrize("document", ["missing.json", "folder"])
def test_no_source_is_told_by_the_exit_code(machine: Machine, document: str) -> None:
    """A document that cannot be had comes to 3, and is named with the reason."""
    (machine.folder / "folder").mkdir()

    ran = machine.apply(machine.folder / document)

    assert ran.code == 3
    assert str(machine.folder / document) in ran.err
    assert "Traceback" not in ran.err


def test_nothing_named_is_told_by_the_exit_code(machine: Machine) -> None:
    """Without a document, and without the one that heat-agents would apply, there is nothing to do."""
    ran = machine.apply()

    assert ran.code == 3
    assert "FILE" in ran.err


def test_a_missing_document_does_not_hold_up_the_others(machine: Machine) -> None:
    """Of several documents those are applied that can be had; the other is said, and all is not well."""
    ran = machine.apply([counted(machine)], str(machine.folder / "missing.json"))

    assert ran.code == 1
    assert "missing.json" in ran.err
    assert runs(machine) == ["d1"]


@pytest.mark.parametrize("plan", [False, True])
def test_a_second_agent_is_refused(machine: Machine, heat: SignalServer, plan: bool) -> None:
    """Two at once would run everything twice: the second names the process and comes to 4. A plan needs no lock."""
    first = machine.start_apply([waiting(machine, signal=heat.url())])
    wait_for_text(machine.state / "runs" / "d1" / "stdout", "begun")

    second = machine.apply([counted(machine, "d2")], *(["--plan"] if plan else []))
    let_go(machine)
    first.communicate(timeout=10)

    assert (first.returncode, second.code) == (0, 0 if plan else 4)
    assert plan or f"process {first.pid}" in second.err
    assert runs(machine) == []
    assert len(heat.signals) == 1


def test_an_undelivered_result_is_told_by_the_exit_code(machine: Machine, heat: SignalServer) -> None:
    """All ran well, but a result is still to be delivered: 5, for as long as that is so."""
    heat.always = Answer(503, {"Retry-After": "100"})
    given = [counted(machine, signal=heat.url())]

    first = machine.apply(given, "--deliver-for", "0")
    second = machine.apply(given, "--deliver-for", "0")

    assert (first.code, second.code) == (5, 5)
    assert "next run" in first.out
    assert len(heat.signals) == 1, "the server asked not to be asked again so soon"
    assert runs(machine) == ["d1"]


def test_a_failure_counts_for_more_than_a_delivery(machine: Machine, heat: SignalServer) -> None:
    """Where one failed and its result is still to be delivered, the exit code is that of the failure."""
    heat.always = Answer(503)

    assert machine.apply([deployment(config=f"{SH}exit 1\n", signal=heat.url())], "--deliver-for", "0").code == 1


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_command_leaves_the_run_alone(machine: Machine, heat: SignalServer, number: int) -> None:
    """A signal ends the command with 130, what was running goes on, and the next command reports it."""
    process = machine.start_apply([waiting(machine, signal=heat.url())])
    wait_for_text(machine.state / "runs" / "d1" / "stdout", "begun")
    process.send_signal(number)
    out, err = process.communicate(timeout=10)

    assert (process.returncode, out) == (130, "")
    assert "Traceback" not in err
    assert "goes on" in err
    let_go(machine)
    assert machine.apply([waiting(machine, signal=heat.url())]).code == 0
    assert [value["deploy_stdout"] for value in heat.values()] == ["begun\nover\n"]


# Documents.

YAML = """\
# A document as people write it.
deployments:
- id: 1234
  name: web
  group: script
  config: |
    #!/bin/sh
    echo "$when $flag $list"
  inputs:
  - {name: when, value: 2026-11-20}
  - {name: flag, value: true}
  - name: list
    value: [1, two]
"""


@pytest.mark.parametrize("name", ["document.yaml", "document", "-"])
def test_a_document_may_be_yaml(machine: Machine, name: str) -> None:
    """YAML is read as what JSON can say of it, from a file of any name and from standard input; a date stays text."""
    machine.write(YAML, "document.yaml")
    machine.write(YAML, "document")
    place = name if name == "-" else str(machine.folder / name)

    ran = run(machine, "heat-config-apply", "--state-dir", str(machine.state), "--json", place, given=YAML)

    assert ran.code == 0, ran.err
    (found,) = ran.json["deployments"]
    assert (found["id"], found["name"]) == ("1234", "web")
    assert found["result"]["deploy_stdout"] == '2026-11-20 true [1,"two"]\n'


@pytest.mark.parametrize("shape", ["object", "list", "text with a byte order mark"])
@pytest.mark.parametrize("place", ["file", "stdin"])
def test_a_document_may_be_an_object_or_a_list(machine: Machine, shape: str, place: str) -> None:
    """Heat's server metadata and the bare list of deployments are the same work."""
    entries = [counted(machine, "d1"), counted(machine, "d2")]
    document: object = entries if shape == "list" else {"deployments": entries, "os-collect-config": {}, "x": 1}
    text = ("\ufeff" if "mark" in shape else "") + json.dumps(document)
    path = machine.write(text)

    arguments = ["--state-dir", str(machine.state), "-" if place == "stdin" else str(path)]
    ran = run(machine, "heat-config-apply", *arguments, given=text)

    assert ran.code == 0, ran.err
    assert runs(machine) == ["d1", "d2"]


@pytest.mark.parametrize(
    ("name", "text", "place"),
    [
        ("d.json", '[\n {"id": "a",}\n]', "line 2, column"),
        ("d.json", '{"deployments": [', "line 1, column 18"),
        ("d.json", "", "line 1, column 1"),
        ("d.json", "- id: a\n", "line 1, column 1"),
        ("-", '[{"id": "a"},\n\n  {"id": "b"]', "line 3, column"),
        ("d.yaml", "deployments:\n- id: a\n  name: [\n", "line 4, column 1"),
        ("d.yaml", "a: b: c\n", "line 1, column 5"),
        ("d.yaml", "\ta: b\n", "line 1, column 1"),
        ("-", "deployments:\n  - id: 'a\n", "line 3, column 1"),
        ("d.yaml", "!!python/object/apply:os.system ['true']\n", "line 1, column 1"),
    ],
)
def test_a_document_that_cannot_be_read_is_refused(machine: Machine, name: str, text: str, place: str) -> None:
    """Bad JSON and bad YAML come to 2 and name file, line and column; heat-agents passed over them in silence."""
    machine.write(text, "d.json" if name == "-" else name)
    called = "standard input" if name == "-" else name
    arguments = ["--state-dir", str(machine.state), name if name == "-" else str(machine.folder / name)]

    ran = run(machine, "heat-config-apply", *arguments, given=text)

    assert ran.code == 2
    assert called in ran.err
    assert place in ran.err
    assert "Traceback" not in ran.err
    assert not machine.state.exists()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[1e999, NaN]", "NaN"),
        ("[" * 200_000, "nested"),
        ("a: .inf\n", "inf"),
        ("- !!binary aGk=\n", "no counterpart in JSON"),
        ("- &a [*a]\n", "in itself"),
        ("a: 1\n---\nb: 2\n", "document"),
    ],
)
def test_what_json_cannot_say_is_refused(machine: Machine, text: str, words: str) -> None:
    """Values that no transport of Heat's could carry, and documents without an end, are bad usage and no crash."""
    ran = machine.apply(machine.write(text, "d.yaml"))

    assert ran.code == 2
    assert words in ran.err
    assert "Traceback" not in ran.err


@pytest.mark.parametrize(
    ("document", "words"),
    [
        ({"other": 1}, "`deployments`"),
        ({"deployments": {"a": 1}}, "expected a list"),
        (5, "the number 5"),
        ("text", "text"),
        (None, "empty"),
    ],
)
def test_a_document_without_deployments_is_said(machine: Machine, document: object, words: str) -> None:
    """A document of another kind is no success: it is said what was expected and what was there."""
    ran = machine.apply(machine.write(json.dumps(document)))

    assert ran.code == 1
    assert words in ran.err


# --plan, --only, --json and the other options.


@pytest.mark.parametrize("as_json", [False, True])
def test_a_plan_runs_nothing(machine: Machine, heat: SignalServer, as_json: bool) -> None:
    """Each step is shown with its reason; nothing is run, sent or written, not even the state directory."""
    given = [
        counted(machine, "first", name="web", signal=heat.url()),
        deployment("second", group="no-such-tool", signal=heat.url()),
        deployment("third", {"configs": []}, group="component", signal=heat.url()),
        deployment("fourth", group="Heat::Ungrouped"),
    ]

    planned = machine.apply(given, "--plan", *(["--json"] if as_json else []))

    assert planned.code == 0
    assert runs(machine) == []
    assert heat.signals == []
    assert not machine.state.exists()
    if as_json:
        steps = planned.json["steps"]
        assert [(each["id"], each["step"]) for each in steps] == [
            ("first", "run"),
            ("second", "answer"),
            ("third", "answer"),
            ("fourth", "skip"),
        ]
        assert [each["tool"] for each in steps] == ["script", "no-such-tool", "component", "Heat::Ungrouped"]
        assert all(each["why"] for each in steps)
        assert planned.json["mistakes"] == []
    else:
        first, second, third, fourth, *_ = planned.out.splitlines()
        assert first.split()[:4] == ["run", "web", "CREATE", "script"]
        assert "no hook for the tool 'no-such-tool'" in second
        assert "nothing was run" in third
        assert fourth.startswith("skip")
        assert planned.out.endswith("nothing was run\n")


def test_a_plan_knows_what_was_done(machine: Machine, heat: SignalServer) -> None:
    """After a run the plan is to skip what is settled and to send what was not delivered."""
    heat.answers.append(Answer(503))
    given = [counted(machine, "d1", signal=heat.url()), counted(machine, "d2")]
    machine.apply(given, "--deliver-for", "0")

    steps = machine.apply([*given, counted(machine, "d3")], "--plan", "--json").json["steps"]

    assert [each["step"] for each in steps] == ["resend", "skip", "run"]
    assert "503" in steps[0]["why"]
    assert len(heat.signals) == 1


def test_a_plan_names_mistakes(machine: Machine) -> None:
    """What is wrong in a document is in its plan, with the path, and comes to 1."""
    planned = machine.apply({"deployments": [{"id": "a", "inputs": [{"value": 1}]}, 5]}, "--plan", "--json")

    assert planned.code == 1
    assert [each["path"] for each in planned.json["mistakes"]] == ["deployments[0].inputs[0].name", "deployments[1]"]
    assert all(each["problem"] for each in planned.json["mistakes"])


@pytest.mark.parametrize("chosen", [["web"], ["id-1"], ["web", "id-3"], ["same"]])
def test_only_some_are_applied(machine: Machine, heat: SignalServer, chosen: list[str]) -> None:
    """--only takes names and ids, any number of them; the others are left for another time."""
    names = {"id-1": "web", "id-2": "same", "id-3": "db", "id-4": "same"}
    given = [counted(machine, identity, name=name, signal=heat.url(identity)) for identity, name in names.items()]
    wanted = [identity for identity, name in names.items() if {identity, name} & set(chosen)]
    arguments = [part for each in chosen for part in ("--only", each)]

    assert machine.apply(given, *arguments).code == 0
    assert runs(machine) == wanted
    assert len(heat.signals) == len(wanted)
    assert machine.apply(given).code == 0
    assert sorted(runs(machine)) == sorted(names)


@pytest.mark.parametrize("plan", [False, True])
def test_an_unknown_choice_is_bad_usage(machine: Machine, heat: SignalServer, plan: bool) -> None:
    """If one of the names is nobody's, nothing at all is done, also not for the others."""
    given = [counted(machine, "d1", signal=heat.url()), deployment("d2", group="no-such-tool", signal=heat.url())]
    arguments = ["--only", "d1", "--only", "d2", "--only", "nobody", *(["--plan"] if plan else [])]

    ran = machine.apply(given, *arguments)

    assert ran.code == 2
    assert "'nobody'" in ran.err
    assert runs(machine) == []
    assert machine.status() == {}


def test_the_result_may_be_one_json_object(machine: Machine, heat: SignalServer) -> None:
    """With --json standard output is one object: each deployment with its step, state and result, and the totals."""
    heat.always = Answer(404)
    given = [
        counted(machine, "d1", "echo hi; printf x >$heat_outputs_path.out", outputs=["out"]),
        deployment("d2", f"{SH}exit 3\n", name="db", signal=heat.url()),
        "nonsense",
    ]

    ran = machine.apply({"deployments": given}, "--json")

    assert (ran.code, ran.json["exit_code"]) == (1, 1)
    first, second, third = ran.json["deployments"]
    assert (first["id"], first["tool"], first["action"], first["step"]) == ("d1", "script", "CREATE", "run")
    assert (first["state"], first["failed"], first["outputs"]) == ("unasked", False, {"out": "x"})
    assert first["result"] == {"deploy_stdout": "hi\n", "deploy_stderr": "", "deploy_status_code": 0, "out": "x"}
    assert first["seconds"] >= 0
    assert (second["name"], second["state"], second["failed"]) == ("db", "refused", True)
    assert "404" in second["trouble"]
    assert third["failed"] is True
    assert [each["path"] for each in ran.json["mistakes"]] == ["deployments[2]"]
    assert (ran.json["summary"]["ok"], ran.json["summary"]["failed"]) == (1, 2)


def test_lines_say_what_happened(machine: Machine, heat: SignalServer) -> None:
    """For people there is a line for each deployment with its result and the reason, its outputs, and a summary."""
    given = [
        counted(
            machine, "d1", "printf 'x\\ny' >$heat_outputs_path.out", name="web", outputs=["out"], signal=heat.url()
        ),
        deployment("d2", f"{SH}echo first; echo 'it \033[31mbroke' >&2; exit 3\n", name="d\033b"),
        deployment("d3", group="os-apply-config"),
    ]

    ran = machine.apply(given)

    skipped, ok, out, failed, summary = ran.out.splitlines()
    assert ok.split()[:4] == ["ok", "web", "CREATE", "script"]
    assert " s  new" in ok
    assert out.split("=")[0].strip() == "out"
    assert failed.startswith("FAILED")
    assert failed.endswith("exit code 3: it \ufffd[31mbroke")
    assert skipped.startswith("skipped")
    assert summary.startswith("3 deployments: 1 ok, 1 failed, 1 skipped")
    assert "\033" not in ran.out + ran.err


@pytest.mark.parametrize("grace", [None, "0.2"])
def test_a_limit_of_zero_is_none(machine: Machine, heat: SignalServer, grace: str | None) -> None:
    """--timeout 0 sets no limit to deployments that set none themselves."""
    given = [deployment("d1", f"{SH}sleep 0.3\n"), deployment("d2", f"{SH}sleep 9\n", options={"timeout": 0.2})]

    ran = machine.apply(given, "--timeout", "0", "--json", *(["--grace", grace] if grace else []))

    codes = [each["result"]["deploy_status_code"] for each in ran.json["deployments"]]
    assert codes == [0, 124]
    assert heat.signals == []


def test_the_state_directory_may_be_chosen_by_the_environment(machine: Machine) -> None:
    """$HEAT_CONFIG_AGENT_STATE is where state is kept unless --state-dir says otherwise."""
    path = machine.write([counted(machine)])
    there = machine.folder / "there"

    ran = run(machine, "heat-config-apply", str(path), HEAT_CONFIG_AGENT_STATE=str(there))
    status = run(machine, "heat-config-agent", "status", "--json", HEAT_CONFIG_AGENT_STATE=str(there))

    assert ran.code == 0, ran.err
    assert [each["id"] for each in status.json["deployments"]] == ["d1"]
    assert stat.S_IMODE(there.stat().st_mode) == 0o700


@pytest.mark.parametrize(
    ("program", "arguments"),
    [
        ("heat-config-apply", []),
        ("heat-config-agent", []),
        *(("heat-config-agent", [command]) for command in AGENT),
        ("heat-config-hook", []),
    ],
)
@pytest.mark.parametrize("flag", ["--help", "-h"])
def test_help_names_the_exit_codes(machine: Machine, program: str, arguments: list[str], flag: str) -> None:
    """Every command explains itself, its exit codes too, and needs nothing for that."""
    done = run(machine, program, *arguments, flag)

    assert (done.code, done.err) == (0, "")
    assert done.out.startswith(f"usage: {program}")
    assert "exit codes:" in done.out
    assert list(machine.folder.iterdir()) == []


@pytest.mark.parametrize("program", ["heat-config-apply", "heat-config-agent"])
def test_the_version_is_told(machine: Machine, program: str) -> None:
    """--version names the program's version, the same in all commands."""
    done = run(machine, program, "--version")

    assert done.code == 0
    assert done.out.startswith("heat-config-agent 0")


@pytest.mark.parametrize("arguments", [[], ["nonsense"], ["status", "extra"], ["show"], ["log", "--json", "d1"]])
def test_bad_usage_of_the_agent_is_told(machine: Machine, arguments: list[str]) -> None:
    """A command that there is not, or is called wrongly, comes to 2."""
    done = run(machine, "heat-config-agent", *arguments)

    assert done.code == 2
    assert "usage: " in done.out + done.err


@pytest.mark.parametrize(
    "command",
    [
        ["heat-config-apply", "--help"],
        ["heat-config-apply", "--plan"],
        ["heat-config-apply", "--plan", "--json"],
        ["heat-config-apply", "--json"],
        ["heat-config-apply"],
        ["heat-config-agent", "status"],
        ["heat-config-agent", "status", "--json"],
        ["heat-config-agent", "status", "--help"],
        ["heat-config-agent", "show", "d1"],
        ["heat-config-agent", "log", "d1"],
        ["heat-config-agent", "retry", "d1"],
        ["heat-config-hook", "--help"],
        ["heat-config-hook", "script"],
    ],
)
def test_a_reader_that_goes_away_is_no_error(machine: Machine, command: list[str]) -> None:
    """Output into a pipe that nobody reads any more, as `| head` leaves it, gives no traceback."""
    path = machine.write([counted(machine, end="echo out; echo err >&2")])
    machine.apply(path)
    again = machine.write([counted(machine, f"d{number}") for number in range(2, 5)], "again.json")
    program, *arguments = command
    if program != "heat-config-hook" and "--help" not in command:
        arguments += ["--state-dir", str(machine.state), *([str(again)] if program == "heat-config-apply" else [])]
    reader, writer = os.pipe()
    os.close(reader)
    with open(writer, "wb") as pipe:
        done = subprocess.run(
            [BIN / program, *arguments],
            env={**machine.environment, **hook_places(machine)},
            stdout=pipe,
            stderr=subprocess.PIPE,
            input=b'{"id": "h"}',
            check=False,
            timeout=30,
        )

    assert b"Traceback" not in done.stderr
    assert b"Exception" not in done.stderr
    assert machine.apply(again).code == 0
    assert sorted(runs(machine)) == ["d1", "d2", "d3", "d4"]


# In the place of heat-agents' 55-heat-config.


def drop_in(machine: Machine, document: object, *arguments: str, mode: int = 0o644, **environment: Any) -> Done:
    """Run the command the way os-refresh-config runs 55-heat-config."""
    path = machine.write(document, "heat-config")
    path.chmod(mode)
    return machine.apply(None, *arguments, HEAT_SHELL_CONFIG=str(path), **environment)


def test_the_list_of_heat_agents_is_applied(machine: Machine, heat: SignalServer) -> None:
    """$HEAT_SHELL_CONFIG names the list of deployments; it is made 0600, for it holds passwords."""
    assert drop_in(machine, [counted(machine, signal=heat.url())]).code == 0
    assert drop_in(machine, [counted(machine, signal=heat.url())]).code == 0
    assert runs(machine) == ["d1"]
    assert len(heat.signals) == 1
    assert stat.S_IMODE((machine.folder / "heat-config").stat().st_mode) == 0o600


@pytest.mark.parametrize("text", ["", "\n", "[]"])
def test_an_empty_list_is_nothing_to_do(machine: Machine, text: str) -> None:
    """The template of os-apply-config leaves an empty file where there are no deployments yet."""
    ran = drop_in(machine, text)

    assert (ran.code, ran.err) == (0, "")


@pytest.mark.parametrize("trouble", ["script", "signal", "refused", "entry", "tool"])
def test_what_fails_does_not_stop_the_caller(machine: Machine, heat: SignalServer, trouble: str) -> None:
    """As with heat-agents the exit code is 0 although a deployment failed or its signal did: others come after us."""
    if trouble in ("signal", "refused"):
        heat.always = Answer(503 if trouble == "signal" else 403)
    given: list[object] = [
        counted(machine, "d1", "exit 3" if trouble == "script" else "", signal=heat.url()),
        *(["nonsense"] if trouble == "entry" else []),
        *([deployment("d2", group="no-such-tool")] if trouble == "tool" else []),
    ]

    assert drop_in(machine, given, "--deliver-for", "0").code == 0
    assert runs(machine) == ["d1"]


def test_bad_json_is_refused_there_too(machine: Machine) -> None:
    """A list that cannot be read is no success: heat-agents passed over it in silence."""
    ran = drop_in(machine, '[{"id": "a"')

    assert ran.code == 2
    assert "line 1, column" in ran.err


def test_a_list_that_is_not_there_is_no_source(machine: Machine) -> None:
    """A file that is named but is not there is said."""
    ran = machine.apply(None, HEAT_SHELL_CONFIG=str(machine.folder / "missing"))

    assert ran.code == 3
    assert "missing" in ran.err


def test_what_an_older_agent_did_is_not_done_again(machine: Machine, heat: SignalServer) -> None:
    """An `ID.json` that heat-agents left means done: not run, not signalled, until it is removed."""
    deployed = machine.folder / "deployed"
    deployed.mkdir()
    for name in ("old", "old-too"):
        (deployed / f"{name}.json").write_text("{}" if name == "old" else "")
    (deployed / "new.notify.json").write_text("{}")
    names = ("old", "new", "old-too")
    given = [counted(machine, each, signal=heat.url(each)) for each in names]
    places: dict[str, Any] = {"HEAT_CONFIG_DEPLOYED": str(deployed)}

    ran = drop_in(machine, given, **places)

    assert ran.code == 0, ran.err
    assert runs(machine) == ["new"]
    assert [len(heat.values(each)) for each in names] == [0, 1, 0]
    assert json.loads((deployed / "new.json").read_text())["config"] == given[1]["config"]

    (deployed / "old.json").unlink()
    drop_in(machine, given, **places)
    assert runs(machine) == ["new", "old"]


def test_the_old_folder_is_moved(machine: Machine) -> None:
    """$HEAT_CONFIG_DEPLOYED_OLD becomes $HEAT_CONFIG_DEPLOYED where that does not exist yet, with all that is in it."""
    old, new = machine.folder / "old", machine.folder / "far" / "new"
    old.mkdir()
    (old / "done.json").write_text("{}")
    places: dict[str, Any] = {"HEAT_CONFIG_DEPLOYED": str(new), "HEAT_CONFIG_DEPLOYED_OLD": str(old)}

    drop_in(machine, [counted(machine, "done"), counted(machine, "d1")], **places)
    drop_in(machine, [counted(machine, "done"), counted(machine, "d1")], **places)

    assert runs(machine) == ["d1"]
    assert not old.exists()
    assert {each.name for each in new.iterdir()} == {"done.json", "d1.json", "d1.notify.json"}


def test_the_old_folder_is_left_where_there_is_a_new_one(machine: Machine) -> None:
    """Where both are there the new one counts alone."""
    old, new = machine.folder / "old", machine.folder / "new"
    for folder, name in {old: "d1", new: "d2"}.items():
        folder.mkdir()
        (folder / f"{name}.json").write_text("{}")

    given = [counted(machine, "d1"), counted(machine, "d2")]
    drop_in(machine, given, HEAT_CONFIG_DEPLOYED=str(new), HEAT_CONFIG_DEPLOYED_OLD=str(old))

    assert runs(machine) == ["d1"]
    assert (old / "d1.json").exists()


@pytest.mark.parametrize("server", ["up", "refusing", "down"])
def test_removing_the_file_runs_it_again(machine: Machine, heat: SignalServer, server: str) -> None:
    """Who removes `ID.json` means the deployment to run again, whatever became of its signal."""
    heat.always = Answer({"up": 200, "refusing": 404, "down": 503}[server])
    given = [counted(machine, signal=heat.url())]
    drop_in(machine, given, "--deliver-for", "0")
    drop_in(machine, given, "--deliver-for", "0")
    assert runs(machine) == ["d1"]

    (machine.state / "deployed" / "d1.json").unlink()
    heat.always = Answer()
    drop_in(machine, given)

    assert runs(machine) == ["d1", "d1"]
    assert (machine.state / "deployed" / "d1.json").exists()


def test_the_files_for_other_readers(machine: Machine, heat: SignalServer) -> None:
    """`ID.json` is the deployment as it was run, its config chosen; `ID.notify.json` the result as it was signalled."""
    configs = [
        {"actions": ["CREATE"], "tool": "script", "config": f"{SH}echo made; printf x >$heat_outputs_path.out\n"}
    ]
    given = deployment("d1", {"configs": configs}, group="component", outputs=["out"], signal=heat.url())

    drop_in(machine, [given])

    deployed = machine.state / "deployed"
    assert json.loads((deployed / "d1.json").read_text()) == {
        **given,
        "group": "script",
        "config": configs[0]["config"],
    }
    assert [json.loads((deployed / "d1.notify.json").read_text())] == heat.values()
    assert {stat.S_IMODE(each.stat().st_mode) for each in deployed.iterdir()} == {0o600}


# heat-config-agent: what is on this machine, with no server there.


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

    found = machine.status()
    table = machine.agent("status").out

    assert list(found) == ["good", "refused", "down", "quiet"]
    assert {name: (each["state"], each["failed"]) for name, each in found.items()} == {
        "good": ("signalled", False),
        "refused": ("refused", False),
        "down": ("finished", False),
        "quiet": ("unasked", True),
    }
    assert "404" in found["refused"]["trouble"]
    assert (found["down"]["tries"], "503" in found["down"]["trouble"]) == (1, True)
    assert "no luck" in found["quiet"]["reason"]
    header, *lines = table.splitlines()
    assert header.split() == ["NAME", "ID", "ACTION", "TOOL", "STATE", "SINCE", "WHAT"]
    assert len(lines) == 4
    assert lines[1].split()[:4] == ["web", "refused", "CREATE", "script"]
    for line, words in zip(lines, ("ok", "ok, refused", "ok, waiting", "failed"), strict=True):
        assert f"  {words}  " in line


def test_status_shows_what_runs(machine: Machine) -> None:
    """A deployment that runs is shown with its process, for how long, and its limit; one that waits is shown too."""
    given = [waiting(machine, options={"timeout": 30}), counted(machine, "d2")]
    process = machine.start_apply(given)
    wait_for_text(machine.state / "runs" / "d1" / "stdout", "begun")

    found = machine.status()
    let_go(machine)
    process.communicate(timeout=10)

    assert (found["d1"]["state"], found["d2"]["state"]) == ("running", "accepted")
    assert f"process {found['d1']['process']}" in found["d1"]["what"]
    assert "30 s" in found["d1"]["what"]
    assert found["d1"]["failed"] is None


@pytest.mark.parametrize("command", [["status"], ["status", "--json"], ["show", "d1"], ["log", "d1"], ["forget", "d1"]])
def test_nothing_has_happened_yet(machine: Machine, command: list[str]) -> None:
    """Where no agent has been, there is nothing to show, nothing is written, and a deployment is unknown."""
    done = machine.agent(*command)

    assert done.code == (0 if command[0] == "status" else 1)
    assert "Traceback" not in done.err
    assert done.out + done.err
    assert not machine.state.exists()


def test_show_tells_all_of_one(machine: Machine, heat: SignalServer) -> None:
    """What it is, how far it has come, its inputs and its result: for people and as JSON."""
    script = f"{SH}echo hello $who\nprintf 42 >$heat_outputs_path.answer\n"
    given = deployment("abcdef01", script, name="web", inputs={"who": "world"}, outputs=["answer"], signal=heat.url())
    machine.apply([given])
    heat.refuse()

    shown, found = machine.agent("show", "web"), machine.agent("show", "--json", "web").json

    assert (found["id"], found["name"], found["state"]) == ("abcdef01", "web", "signalled")
    assert found["inputs"]["who"] == "world"
    assert found["result"] == heat.values()[0]
    for words in (
        "web",
        "abcdef01",
        "CREATE",
        "script",
        "who: world",
        "hello world",
        "answer: 42",
        "POST to http://127.0.0.1",
    ):
        assert words in shown.out


def test_show_shortens_long_output_for_people(machine: Machine) -> None:
    """Of a long output people get its beginning and its end; with --json they get it all."""
    machine.apply([deployment(config=f"{SH}seq 1 1000\n")])

    lines = machine.agent("show", "d1").out.splitlines()

    assert len(lines) < 60
    assert "980 lines" in next(line for line in lines if "[..." in line)
    assert len(machine.agent("show", "--json", "d1").json["result"]["deploy_stdout"].splitlines()) == 1000


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
    following = machine.start("heat-config-agent", "log", "-f", "d1", "--state-dir", str(machine.state))
    assert following.stdout is not None
    assert following.stdout.readline() == "begun\n"
    assert following.poll() is None

    let_go(machine)
    process.communicate(timeout=10)
    out, _ = following.communicate(timeout=10)

    assert (out, following.returncode) == ("over\n", 0)


def test_log_says_why_there_is_none(machine: Machine) -> None:
    """A deployment that was answered without running anything has no output, and that is said."""
    machine.apply([deployment(group="no-such-tool")])

    done = machine.agent("log", "d1")

    assert (done.code, done.out) == (1, "")
    assert "nothing was run" in done.err


def test_retry_runs_it_again(machine: Machine, heat: SignalServer) -> None:
    """After `retry` the next pass runs the deployment once more and sends the new result; the one after it does not."""
    given = [counted(machine, "d1", signal=heat.url()), counted(machine, "d2")]
    machine.apply(given)

    retried = machine.agent("retry", "d1")
    assert (retried.code, retried.err) == (0, "")
    assert "d1" in retried.out
    assert machine.status()["d1"]["again"] is True
    assert "again" in machine.status()["d1"]["what"]
    assert runs(machine) == ["d1", "d2"]

    machine.apply(given)
    machine.apply(given)
    assert runs(machine) == ["d1", "d2", "d1"]
    assert len(heat.signals) == 2


def test_what_left_before_it_was_run_again_has_not_failed(machine: Machine, heat: SignalServer) -> None:
    """What it did the first time stays done; the journal has lost nothing of it."""
    given = [counted(machine, "d1", signal=heat.url())]
    machine.apply(given)
    machine.agent("retry", "d1")
    armed = machine.folder / "armed"
    armed.touch()
    killed = machine.apply(given, HEAT_CONFIG_AGENT_KILL=f"journal.accepted.after 1 {armed}")
    assert killed.code == -signal.SIGKILL

    machine.apply([])
    back = machine.apply(given)
    assert back.code == 0
    assert runs(machine) == ["d1"]
    assert len(heat.signals) == 1


@pytest.mark.parametrize("status", [404, 503])
def test_retry_sends_the_result_again(machine: Machine, heat: SignalServer, status: int) -> None:
    """With --signal nothing is run: a result that was refused, or that waits for its time, is sent by the next pass."""
    heat.answers.append(Answer(status, {"Retry-After": "1000"}))
    given = [counted(machine, end="echo hi", signal=heat.url())]
    machine.apply(given, "--deliver-for", "0")
    machine.apply(given, "--deliver-for", "0")
    assert len(heat.signals) == 1
    heat.refuse()

    assert machine.agent("retry", "--signal", "d1").code == 0
    heat.start()
    assert machine.apply(given).code == 0

    assert runs(machine) == ["d1"]
    assert [value["deploy_stdout"] for value in heat.values()] == ["hi\n", "hi\n"]
    assert machine.status()["d1"]["state"] == "signalled"


def test_retry_has_nothing_to_send(machine: Machine) -> None:
    """A result that nobody wanted, or that has arrived, is not sent again."""
    machine.apply([counted(machine)])

    done = machine.agent("retry", "--signal", "d1")

    assert done.code == 1
    assert "no result of d1 to be sent" in done.err


def test_forget_makes_it_new(machine: Machine, heat: SignalServer) -> None:
    """What is forgotten is unknown; if it is still in the metadata it is run like new."""
    given = [counted(machine, signal=heat.url())]
    machine.apply(given)

    done = machine.agent("forget", "d1")

    assert (done.code, done.err) == (0, "")
    assert machine.status() == {}
    assert machine.agent("show", "d1").code == 1
    machine.apply(given)
    assert runs(machine) == ["d1", "d1"]
    assert len(heat.signals) == 2


def test_forget_leaves_nothing_behind(machine: Machine) -> None:
    """All that is kept of a deployment is removed: its script, its outputs, and its secrets wherever they are."""
    script = f"{SH}echo $db_password\nprintf gr8-secret >$heat_outputs_path.out\n# gr8-secret\n"
    machine.apply([deployment("d1", script, inputs={"db_password": "gr8-secret"}, outputs=["out"])])

    machine.agent("forget", "d1")

    left = [path for path in machine.state.rglob("*") if path.is_file()]
    assert [path for path in left if b"gr8-secret" in path.read_bytes()] == []
    assert [path for path in left if path.name.startswith("d1")] == []


@pytest.mark.parametrize("command", [["forget"], ["retry"], ["retry", "--signal"]])
def test_what_runs_is_left_alone(machine: Machine, command: list[str]) -> None:
    """A deployment that is running can be neither forgotten nor run again before it ends."""
    process = machine.start_apply([waiting(machine)])
    wait_for_text(machine.state / "runs" / "d1" / "stdout", "begun")

    done = machine.agent(*command, "d1")
    let_go(machine)
    process.communicate(timeout=10)

    assert done.code == 1
    assert "running" in done.err
    assert machine.status()["d1"]["failed"] is False


def test_a_wish_is_left_for_the_agent_that_runs(machine: Machine) -> None:
    """Where another agent holds the lock, a wish is left to it and carried out by the next pass."""
    given = [counted(machine, "d0"), waiting(machine)]
    machine.apply(given[:1])
    process = machine.start_apply(given)
    wait_for_text(machine.state / "runs" / "d1" / "stdout", "begun")

    asked = machine.agent("retry", "d0")
    let_go(machine)
    process.communicate(timeout=10)

    assert asked.code == 0
    assert str(process.pid) in asked.out
    machine.apply(given)
    assert runs(machine) == ["d0", "d0"]


@pytest.mark.parametrize("command", ["show", "log", "retry", "forget"])
def test_a_deployment_may_be_named_in_short(machine: Machine, command: str) -> None:
    """Its id, its name, or a beginning of the id that no other has; an id or a name counts before a beginning.

    Each action has an id of its own: of several with one name the last is looked at, and none is changed.
    """
    entries = {"abc1": "web", "abc12": "db", "xyz": "abc", "other": "same", "more": "same"}
    given = [deployment(identity, f"{SH}echo it is {identity}\n", name=name) for identity, name in entries.items()]
    machine.apply(given)

    def meant(wanted: str) -> Done:
        return machine.agent(command, wanted)

    assert (meant("").code, meant("").out) == (2, "")
    for wanted in ("ab", "same"):
        done = meant(wanted)
        if wanted == "same" and command in ("show", "log"):
            assert (done.code, "it is more\n" in done.out) == (0, True)
            continue
        assert (done.code, done.out) == (1, "")
        assert "more than one" in done.err
    for wanted in ("nobody", "abc1x", "ABC1"):
        done = meant(wanted)
        assert (done.code, done.out) == (1, "")
        assert f"no deployment '{wanted}'" in done.err
    for wanted, identity in {"abc1": "abc1", "db": "abc12", "x": "xyz", "abc": "xyz", "o": "other"}.items():
        if command == "forget":
            machine.apply(given)
        done = meant(wanted)
        assert done.code == 0, done.err
        assert {"show": f"it is {identity}\n", "log": f"it is {identity}\n"}.get(command, entries[identity]) in done.out


@pytest.mark.parametrize("compacted", [False, True])
def test_secrets_are_never_shown(machine: Machine, heat: SignalServer, compacted: bool) -> None:
    """Credentials, the signed URL, and inputs hidden or named like secrets are in nothing that a command prints."""
    secrets = ["pa55-w0rd", "hidden-value", "0123456789abcdef", "c2lnbmVk", "dep10y-pw", "nested-hidden"]
    inputs = [
        {"name": "db_password", "type": "String", "value": secrets[0]},
        {"name": "code", "type": "String", "value": secrets[1], "hidden": True},
        {"name": "deploy_password", "type": "String", "value": secrets[4]},
        {"name": "map", "type": "Json", "value": {"a": [secrets[5]]}, "no_echo": True},
        {"name": "filler", "type": "String", "value": "." * (400_000 if compacted else 1)},
    ]
    script = (
        f'{SH}echo "$db_password $code $map"\nenv | grep -v filler\necho "bad: $db_password $code" >&2\n'
        f"echo '{heat.url()} {secrets[4]}' | tee $heat_outputs_path.out\n"
        'printf "$code $map" >$heat_outputs_path.other\nexit 1\n'
    )
    given = [deployment("d1", script, inputs=inputs, outputs=["out", "other"], signal=heat.url())]
    printed = [machine.apply(given, "--plan"), machine.apply(given, "--plan", "--json"), machine.apply(given)]
    printed += [machine.apply(given, "--json")]  # opens the journal anew, which may drop what is settled
    printed += [machine.agent(*each) for each in (["status"], ["status", "--json"], ["log", "d1"], ["log", "-f", "d1"])]
    printed += [machine.agent("show", "d1"), machine.agent("show", "--json", "d1"), machine.agent("retry", "d1")]
    printed += [machine.apply(given, "--json")]

    assert [each.code for each in printed] == [0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 1]
    for each in printed:
        assert "Traceback" not in each.err
        assert [secret for secret in secrets if secret in each.out + each.err] == []
    assert len(heat.signals) == 2
    assert [secret for secret in secrets if any(secret.encode() in signal.body for signal in heat.signals)] == []


def test_a_secret_output_is_sent_but_not_shown(machine: Machine, heat: SignalServer) -> None:
    """An output may be about what an input's name says is secret: Heat is given it, and nobody else is shown it."""
    script = f'{SH}printf "postgres://u:$db_password@db" >$heat_outputs_path.dsn\n'
    given = [deployment("d1", script, inputs={"db_password": "pa55-w0rd"}, outputs=["dsn"], signal=heat.url())]

    printed = [machine.apply(given, "--only", "d1"), machine.agent("show", "d1"), machine.agent("show", "--json", "d1")]
    printed += [machine.agent("retry", "d1"), machine.apply(given, "--json")]

    assert [value["dsn"] for value in heat.values()] == ["postgres://u:pa55-w0rd@db"] * 2
    assert [each.out for each in printed if "pa55-w0rd" in each.out + each.err] == []


def test_a_secret_inside_another_input_is_not_shown(machine: Machine) -> None:
    """Where one input repeats the secret of another, it is hidden there too."""
    inputs = [
        {"name": "db_password", "value": "pa55-w0rd"},
        {"name": "code", "value": "hidden-value", "hidden": True},
        {"name": "db_url", "value": "postgres://u:pa55-w0rd@db"},
        {"name": "setup", "type": "Json", "value": {"pin": ["hidden-value"], "password": "pa55-w0rd"}},
    ]
    machine.apply([deployment(inputs=inputs)])

    shown = machine.agent("show", "d1").out + machine.agent("show", "d1", "--json").out

    assert "postgres://u:" in shown
    assert "pa55-w0rd" not in shown
    assert "hidden-value" not in shown


def test_a_secret_in_a_line_without_end_is_not_printed_in_two_parts(machine: Machine) -> None:
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
    follower = machine.start("heat-config-agent", "log", "-f", "d1", "--state-dir", str(machine.state))
    let_go(machine)

    out, _ = follower.communicate(timeout=10)

    assert out == "begun\nover\n"
    status = machine.agent("status").out
    assert " ended " in status
    assert "the next run finds out how" in status


def test_a_log_that_was_taken_away_is_said(machine: Machine) -> None:
    """A script may do anything to its own folder."""
    machine.apply([deployment("d1")])
    (machine.state / "runs" / "d1" / "stdout").unlink()

    done = machine.agent("log", "d1")

    assert (done.code, done.out) == (1, "")
    assert done.err.startswith("error: cannot read")
    assert "stdout" in done.err


def test_what_cannot_be_forgotten_is_not_said_to_be(machine: Machine) -> None:
    """And is forgotten once it can be."""
    machine.apply([deployment("d1")])
    mark = machine.state / "deployed" / "d1.json"
    mark.unlink()
    mark.mkdir()

    first = machine.agent("forget", "d1")
    mark.rmdir()
    machine.agent("forget", "d1")

    assert first.code == 2
    assert "cannot forget all of d1" in first.err
    assert machine.status() == {}
    assert not (machine.state / "runs" / "d1").exists()


def test_sending_an_old_failure_is_no_failure(machine: Machine, heat: SignalServer) -> None:
    """The exit code is about this run: what failed in an earlier one, and is delivered now, is well."""
    heat.always = Answer(503)
    given = [counted(machine, end="exit 3", signal=heat.url())]
    first = machine.apply(given, "--deliver-for", "0")
    still = machine.apply(given, "--deliver-for", "0")
    heat.always = Answer()

    assert (first.code, still.code, machine.apply(given).code) == (1, 5, 0)
    assert heat.values()[-1]["deploy_status_code"] == 3


def test_what_an_interrupted_run_had_done_can_be_run_again_too(machine: Machine) -> None:
    """Removing `ID.json` means the same whether or not the run that wrote it came to its end."""
    given = [counted(machine, "d1"), waiting(machine, "d2")]
    process = machine.start_apply(given)
    wait_until(lambda: machine.status().get("d2", {}).get("state") == "running")
    process.kill()
    process.communicate()
    let_go(machine)
    machine.apply(given)

    (machine.state / "deployed" / "d1.json").unlink()
    machine.apply(given)

    assert runs(machine).count("d1") == 2


# heat-config-hook: a hook of ours by hand.


def hook_places(machine: Machine) -> dict[str, str]:
    """Return the variables that have the script hook work in folders of the test's own."""
    return {
        "HEAT_SCRIPT_WORKING": str(machine.folder / "work"),
        "HEAT_SCRIPT_OUTPUTS": str(machine.folder / "outputs"),
    }


@pytest.mark.parametrize("how", ["argument", "link"])
def test_a_hook_may_be_run_by_hand(machine: Machine, how: str) -> None:
    """A deployment on standard input, its reply on standard output; also by a link of the tool's name."""
    given = deployment(
        "d1",
        f"{SH}echo $who $PLACE; pwd\necho err >&2\nprintf x >$heat_outputs_path.out\nexit 3\n",
        inputs={"who": "wörld", "port": 80},
        outputs=["out", "none"],
    )
    link = machine.folder / "script"
    link.symlink_to(BIN / "heat-config-hook")
    command = [str(link)] if how == "link" else [str(BIN / "heat-config-hook"), "script"]

    done = subprocess.run(
        command,
        input=json.dumps(given),
        env={**machine.environment, **hook_places(machine), "PLACE": "here"},
        capture_output=True,
        text=True,
        check=False,
        timeout=30,
    )

    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout) == {
        "deploy_stdout": f"wörld here\n{machine.folder}/work\n",
        "deploy_stderr": "err\n",
        "deploy_status_code": 3,
        "out": "x",
    }


def test_a_link_to_our_hook_is_our_hook(machine: Machine, heat: SignalServer) -> None:
    """A hook directory that links the tool's name to our command is served without a process for it."""
    machine.hooks.mkdir()
    (machine.hooks / "script").symlink_to(BIN / "heat-config-hook")

    ran = machine.apply([deployment(config=f"{SH}echo hi\nexit 4\n", signal=heat.url())])

    assert ran.code == 1
    assert heat.values() == [{"deploy_stdout": "hi\n", "deploy_stderr": "", "deploy_status_code": 4}]


@pytest.mark.parametrize(
    ("arguments", "given"),
    [
        (["no-such-hook"], "{}"),
        (["../script"], "{}"),
        ([], "{}"),
        (["script", "extra"], "{}"),
        (["script"], ""),
        (["script"], "{"),
        (["script"], "[]"),
        (["script"], "[" * 100_000),
    ],
)
def test_bad_usage_of_a_hook_is_told(machine: Machine, arguments: list[str], given: str) -> None:
    """An unknown hook and a standard input without a deployment come to 2, and nothing stands where a reply would."""
    done = run(machine, "heat-config-hook", *arguments, given=given, **hook_places(machine))

    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("error: ")
    assert f"there are: {', '.join(sorted(HOOKS))}; see --help" in done.err or "standard input" in done.err
    assert "Traceback" not in done.err


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"config": {"a": 1}}, 125),
        ({"config": f"{SH}exit 0\n", "inputs": "text"}, 125),
        ({"config": f"{SH}exit 0\n", "inputs": [{"value": 1}]}, 125),
        ({"config": f"{SH}exit 0\n", "options": {"timeout": "soon"}}, 125),
        ({"config": f"{SH}sleep 9\n", "options": {"timeout": 0.2}}, 124),
        ({"config": "#!/no/such/interpreter\n"}, None),
        ({"config": f"{SH}kill -9 $$\n"}, 137),
        ({"config": ""}, 0),
        ({"config": f"{SH}exit 0\n"}, 0),
        ({}, 0),
    ],
)
def test_a_hook_always_replies(machine: Machine, fields: dict[str, Any], code: int | None) -> None:
    """Whatever comes of the deployment there is a reply that says it, and the hook itself ends well."""
    done = run(machine, "heat-config-hook", "script", given=json.dumps({"id": "d1", **fields}), **hook_places(machine))

    assert (done.code, done.err) == (0, "")
    assert done.json["deploy_status_code"] == code if code is not None else done.json["deploy_status_code"] != 0
    assert isinstance(done.json["deploy_stdout"], str)
    assert bool(done.json["deploy_stderr"]) is (code not in (0, 137) or fields.get("config", "") == "")


# What Heat really sends.

TOOLS = ("script", "ansible", "ansible", None, "script", "puppet", "json-file", None)
"""The tools of the deployments in each sample, in their order; the third is a component."""
OPTIONS: tuple[dict[str, Any], ...] = (
    {"timeout": 30},
    {"tags": "a"},
    {"tags": "x"},
    {},
    {"timeout": 30},
    {"enable_hiera": True, "enable_facter": False},
    {},
    {},
)


@pytest.fixture(params=["cfn", "heat", "tempurl", "zaqar"])
def sample(request: pytest.FixtureRequest) -> dict[str, Any]:
    """Metadata that Heat made, one for each transport."""
    document: dict[str, Any] = json.loads((SAMPLES / f"metadata-{request.param}.json").read_text())
    return document


def test_real_metadata_is_planned(machine: Machine, sample: dict[str, Any]) -> None:
    """What Heat sends is understood without a mistake, and each deployment planned with its tool and its options."""
    for tool in ("ansible", "puppet", "json-file"):
        machine.hook(tool, SH)

    planned = machine.apply(sample, "--plan", "--json")

    assert planned.code == 0, planned.err
    assert planned.json["mistakes"] == []
    steps = planned.json["steps"]
    assert [each["id"] for each in steps] == [each["id"] for each in sample["deployments"]]
    assert [each["step"] for each in steps] == ["run" if tool else "skip" for tool in TOOLS]
    assert [each["tool"] if each["step"] == "run" else None for each in steps] == list(TOOLS)
    assert [each["options"] for each in steps] == list(OPTIONS)


@pytest.mark.parametrize("action", ["CREATE", "UPDATE", "RESUME", "SUSPEND", "DELETE"])
def test_a_real_component_is_planned_for_each_action(machine: Machine, sample: dict[str, Any], action: str) -> None:
    """Heat's component has its own tool for each action."""
    for tool in ("ansible", "puppet"):
        machine.hook(tool, SH)
    component = sample["deployments"][2]
    next(each for each in component["inputs"] if each["name"] == "deploy_action")["value"] = action

    (step,) = machine.apply([component], "--plan", "--json").json["steps"]

    wanted = {"CREATE": "ansible", "SUSPEND": "puppet"}.get(action, "script")
    assert (step["step"], step["action"], step["tool"]) == ("run", action, wanted)


def test_real_scripts_are_run(machine: Machine, heat: SignalServer, sample: dict[str, Any]) -> None:
    """The scripts that Heat sends get their inputs line by line, and their results go out by the verb that it names."""
    scripts = [each for each in sample["deployments"] if each["group"] == "script"]
    verbs = []
    for each in scripts:
        for item in each["inputs"]:
            if item["name"] == "deploy_signal_id":
                item["value"] = heat.url(each["id"])
            if item["name"] == "deploy_signal_verb":
                verbs.append(item["value"])

    ran = machine.apply({**sample, "deployments": scripts}, "--json", "--deliver-for", "0")

    assert [each["failed"] for each in ran.json["deployments"]] == [False, False]
    assert [each.verb for each in heat.signals] == verbs
    for given, found in zip(scripts, ran.json["deployments"], strict=True):
        result = found["result"]
        assert heat.values(given["id"]) == ([result] if verbs else [])
        assert (result["deploy_stderr"], result["deploy_status_code"]) == ("", 0)
        assert set(result) == {"deploy_stdout", "deploy_stderr", "deploy_status_code"}
        lines = result["deploy_stdout"].splitlines()
        assert lines == sorted(lines)
        environment = dict(line.split("=", 1) for line in lines)
        values = {item["name"]: item["value"] for item in given["inputs"]}
        expected = {
            "port": "8080",
            "enabled": "true",
            "tags": '["a","b"]',
            "blob": '{"k":[1,2.5,null,"\\u00e9"]}',
            "replace_me": "1" if given["name"] == "10_plain" else "",
            **({"extra": "undeclared"} if given["name"] == "10_plain" else {}),
        }
        hidden = {values[name] for name in CREDENTIALS & values.keys()}
        for name in values.keys() - CREDENTIALS - expected.keys():
            expected[name] = "***" if values[name] in hidden else values[name]
        assert {name: environment.get(name) for name in expected} == expected
        assert not CREDENTIALS & environment.keys()
        ours = {"PATH", "HOME", "LANG", "TZ", "PWD", "HEAT_INPUTS_FILE", "HEAT_RUN", "heat_outputs_path"}
        assert environment.keys() - expected.keys() <= ours


def test_real_metadata_is_carried_out(machine: Machine, sample: dict[str, Any]) -> None:
    """Hooks get what Heat sent, and groups without a tool are passed over: everything in one pass."""
    for tool in ("ansible", "puppet", "json-file"):
        machine.hook(tool, f'{SH}cat >"$0.$(basename $PWD)"\necho \'{{"deploy_status_code": 0}}\'\n')

    ran = machine.apply(sample, "--json", "--deliver-for", "0")

    states = [each["state"] for each in ran.json["deployments"]]
    assert ran.json["summary"]["ok"] == 6
    assert (states[3], states[7]) == (None, None)
    for given, wanted in zip(sample["deployments"], TOOLS, strict=True):
        if wanted in ("ansible", "puppet", "json-file"):
            got = json.loads((machine.hooks / f"{wanted}.{given['id']}").read_text())
            assert (got["group"], got["options"], got["outputs"]) == (wanted, given["options"], given["outputs"])
            assert got["config"] == (given["config"] if given["group"] != "component" else "- hosts: localhost")


@pytest.mark.parametrize(
    "command",
    [
        ["status"],
        ["show", "d1"],
        ["log", "d1"],
        ["retry", "d1"],
        ["forget", "d1"],
        ["pause", "--reason", "r"],
        ["resume"],
    ],
)
def test_a_mistake_in_the_settings_keeps_nobody_from_looking(machine: Machine, command: list[str]) -> None:
    """It is said, and what needs the state directory alone goes on."""
    assert machine.apply([deployment()]).code == 0
    path = machine.folder / "wrong.conf"
    path.write_text("[agent]\nparalel = 2\nsplay = x\n")
    done = machine.agent(*command, "--config", str(path))
    assert done.code == 0
    [warning] = [line for line in done.err.splitlines() if line.startswith("warning:")]
    assert f"warning: cannot use the settings in {path}: line 2: there is no setting 'paralel'" in warning
    assert f"(and 1 more: heat-config-agent config --config {path} --state-dir {machine.state} shows them)" in warning


def test_a_mistake_about_the_state_directory_is_refused(machine: Machine) -> None:
    """Nobody is shown another's state."""
    path = machine.folder / "wrong.conf"
    path.write_text("[agent]\nstate_dir = here\n")
    done = run(machine, "heat-config-agent", "status", "--config", str(path))
    assert (done.code, done.out) == (2, "")
    assert "error: cannot use the settings in" in done.err


def test_a_reason_is_one_line_and_what_ends_the_pause_is_said_in_full(machine: Machine) -> None:
    """As it has to be typed."""
    done = machine.agent("pause", "--reason", "moving\n  house")
    assert done.out == f"paused: moving house; `heat-config-agent resume --state-dir {machine.state}` ends it\n"
    assert "moving house" in machine.agent("status").out
    assert machine.agent("pause", "--reason", " ").code == 2


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("pause", "0  it is paused"),
        ("resume", "0  it is not, or no longer, paused"),
        ("poke", "1  no agent is running"),
        ("retry", "send a result that was not delivered once more"),
    ],
)
def test_help_says_what_holds_for_that_command(machine: Machine, command: str, said: str) -> None:
    """Not what holds for others."""
    done = machine.start("heat-config-agent", command, "--help", COLUMNS="120").communicate(timeout=60)[0]
    assert said in done
    assert command == "retry" or "there is no such deployment" not in done
