"""The common behaviour of all commands: help, version, mistakes in their use, and readers that go away."""

from __future__ import annotations

import json
import os
import subprocess

import pytest

from heat_config_agent import __version__
from support import pace
from support.commands import counted, hook_places, run, runs
from support.machine import BIN, Machine, deployment

AGENT = ("status", "show", "log", "retry", "forget", "tool list")


@pytest.mark.new_process
@pytest.mark.parametrize(
    ("program", "arguments"),
    [
        ("heat-config-apply", []),
        ("heat-config-agent", []),
        *(("heat-config-agent", command.split()) for command in AGENT),
        ("heat-config-hook", []),
    ],
)
@pytest.mark.parametrize("flag", ["--help", pytest.param("-h", marks=pytest.mark.slow)])
def test_help_names_the_exit_codes(
    machine: Machine, program: str, arguments: list[str], flag: str
) -> None:
    """Every command explains itself, its exit codes too, and needs nothing for that."""
    done = run(machine, program, *arguments, flag)

    assert (done.code, done.err) == (0, "")
    assert done.out.startswith(f"usage: {program}")
    assert "exit codes:" in done.out
    assert list(machine.folder.iterdir()) == []


@pytest.mark.new_process
@pytest.mark.parametrize("program", ["heat-config-apply", "heat-config-agent"])
def test_the_version_is_told(machine: Machine, program: str) -> None:
    """--version names the program's version, the same in all commands."""
    done = run(machine, program, "--version")

    assert done.code == 0
    assert done.out == f"heat-config-agent {__version__}\n"


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["version", "extra"], "version: 'extra' is one argument too many"),
        (["pause", "--for"], "pause: --for: its value is missing"),
        (["config", "--state-dir"], "config: --state-dir: its value is missing"),
        (
            ["stack", "graph", "--format", "png"],
            "stack graph: --format: 'png' is not possible",
        ),
    ],
)
def test_bad_usage_of_the_agent_is_one_sentence(
    machine: Machine, arguments: list[str], sentence: str
) -> None:
    """The sentence names the command and what is wrong, and the hint says where its use is shown."""
    done = run(machine, "heat-config-agent", *arguments)

    assert (done.code, done.out) == (2, "")
    assert done.err.startswith(f"error: {sentence} ("), done.err
    assert done.err.count("\n") == 1


def test_command_line_without_a_command_shows_the_commands(machine: Machine) -> None:
    """The program shows its everyday commands, and a group shows its own."""
    alone = run(machine, "heat-config-agent")
    group = run(machine, "heat-config-agent", "stack")
    tool = run(machine, "heat-config-agent", "tool")

    assert (alone.code, alone.err, group.code, group.err) == (0, "", 0, "")
    assert "apply FILE" in alone.out
    assert alone.out == run(machine, "heat-config-agent", "help").out
    assert group.out.startswith("usage: heat-config-agent stack ")
    assert group.out == run(machine, "heat-config-agent", "help", "stack").out
    assert (tool.code, tool.err) == (0, "")
    assert tool.out == run(machine, "heat-config-agent", "help", "tool").out


@pytest.mark.parametrize(
    "words",
    [
        ["--state-dir", "STATE", "status", "--json"],
        ["--json", "--state-dir=STATE", "status"],
        ["status", "--json", "--state-dir", "STATE"],
    ],
)
def test_common_options_stand_before_or_after_the_command(
    machine: Machine, words: list[str]
) -> None:
    """Their order makes no difference."""
    machine.state.mkdir(mode=0o700)
    done = run(
        machine,
        "heat-config-agent",
        *(word.replace("STATE", str(machine.state)) for word in words),
    )

    assert (done.code, done.err) == (0, "")
    assert str(machine.state) in done.out


def test_common_options_hold_for_documents_and_templates(machine: Machine) -> None:
    """The program that applies both takes them over in one place."""
    document = machine.write([{"name": "a", "group": "script", "config": "true"}])
    template = machine.folder / "web.yaml"
    template.write_text(
        "heat_template_version: 2018-08-31\nresources: {a: {type: OS::Heat::Value, properties: {value: 1}}}\n"
    )
    for path in (document, template):
        for option, has_colour in (("--no-color", False), ("--quiet", True)):
            words = ("--state-dir", str(machine.folder / option.strip("-")))
            done = run(
                machine,
                "heat-config-apply",
                str(path),
                option,
                *words,
                CLICOLOR_FORCE="1",
            )
            assert (done.code, "\x1b[" in done.out) == (0, has_colour), done.out


def test_help_stands_before_or_after_the_command(machine: Machine) -> None:
    """-h before a command is not about the program."""
    before = run(machine, "heat-config-agent", "-h", "status")

    assert before.out == run(machine, "heat-config-agent", "status", "-h").out
    assert before.out == run(machine, "heat-config-agent", "help", "status").out
    assert before.out.startswith("usage: heat-config-agent status")


def test_options_and_arguments_stand_in_any_order(machine: Machine) -> None:
    """An option may stand between two arguments, and a word after -- is an argument."""
    one = machine.write([{"name": "a", "group": "script", "config": "true"}])
    two = machine.folder / "-b.json"
    two.write_text('[{"name": "b", "group": "script", "config": "true"}]')

    done = run(
        machine,
        "heat-config-apply",
        str(one),
        "--plan",
        "--state-dir",
        str(machine.state),
        "--",
        two.name,
    )

    assert (done.code, done.err) == (0, "")
    assert "2 deployments" in done.out or "2 to run" in done.out


def test_options_cannot_be_abbreviated(machine: Machine) -> None:
    """A new option would change what an abbreviation means."""
    done = run(machine, "heat-config-agent", "status", "--jso")

    assert (done.code, done.out) == (2, "")
    assert (
        done.err == "error: status: there is no option --jso (did you mean --json?)\n"
    )


def test_mistake_with_json_is_an_object(machine: Machine) -> None:
    """A program reads the code, the sentence and the hint; a person reads the sentence on standard error."""
    done = run(machine, "heat-config-agent", "--json", "stack", "lst")

    value = json.loads(done.out)
    assert (done.code, value["exit_code"], value["kind"]) == (2, 2, "usage")
    assert value["data"] is None
    assert value["error"]["code"] == "usage"
    assert value["error"]["message"] == "stack: there is no command 'lst'"
    assert value["error"]["hint"] == "did you mean `heat-config-agent stack list`?"
    assert value["error"]["message"] in done.err


@pytest.mark.parametrize(
    ("word", "hint"),
    [
        ("statsu", "did you mean `heat-config-agent status`?"),
        ("get", "did you mean `heat-config-agent status`?"),
        ("logs", "did you mean `heat-config-agent log NAME`?"),
        ("validate", "did you mean `heat-config-agent template validate FILE`?"),
        ("list", "did you mean `heat-config-agent status`?"),
        ("start", "did you mean `systemctl start heat-config-agent`?"),
        ("forge", "did you mean `heat-config-agent forget`?"),
        ("forgive", "`heat-config-agent --help` lists all"),
        ("nonsense", "`heat-config-agent --help` lists all"),
    ],
)
def test_unknown_command_has_a_hint(machine: Machine, word: str, hint: str) -> None:
    """The hint is the command that was probably meant: one that deletes only if a single letter is wrong."""
    done = run(machine, "heat-config-agent", word)

    assert (done.code, done.out) == (2, "")
    assert done.err == f"error: there is no command {word!r} ({hint})\n"


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        (
            "heat-config-agent status --jsno",
            "there is no option --jsno (did you mean --json?)",
        ),
        (
            "heat-config-agent stack show web --jsno",
            "there is no option --jsno (did you mean --json?)",
        ),
        (
            "heat-config-apply x.yaml --parametr a=1",
            "there is no option --parametr (did you mean --parameter?)",
        ),
        (
            "heat-config-agent log -- web --state-dir x",
            "log: '--state-dir' is one argument too many (options stand before `--`)",
        ),
        (
            "heat-config-agent stack lst",
            "there is no command 'lst' (did you mean `heat-config-agent stack list`?)",
        ),
        (
            "heat-config-agent template validte",
            "there is no command 'validte' (did you mean `heat-config-agent template validate`?)",
        ),
    ],
)
def test_misspelt_option_or_command_has_a_hint(
    machine: Machine, line: str, sentence: str
) -> None:
    """The sentence has the word that was meant, at every level."""
    program, *words = line.split()
    done = run(machine, program, *words)
    assert (done.code, done.out) == (2, "")
    assert done.err.splitlines()[-1].endswith(sentence), done.err


def test_dry_run_and_plan_are_the_same(machine: Machine) -> None:
    """Both names are known to documents, to templates, and to `stack create`."""
    document = machine.write([{"name": "a", "group": "script", "config": "true"}])
    template = machine.folder / "web.yaml"
    template.write_text(
        "heat_template_version: 2018-08-31\nresources: {a: {type: OS::Heat::RandomString}}\n"
    )
    for path in (document, template):
        assert (
            machine.apply(path, "--dry-run").out
            == machine.apply(path, "--plan").out
            != ""
        )
    words = [
        "stack",
        "create",
        "web",
        "-t",
        str(template),
        "--state-dir",
        str(machine.state),
    ]
    planned = [
        run(machine, "heat-config-agent", *words, option)
        for option in ("--dry-run", "--plan")
    ]
    assert [each.code for each in planned] == [0, 0]
    assert planned[0].out == planned[1].out
    assert not (machine.state / "stacks").exists()


@pytest.mark.parametrize(
    "words", [["status"], ["events"], ["show", "web"], ["log", "web"]]
)
def test_missing_state_directory_is_not_there(
    machine: Machine, words: list[str]
) -> None:
    """A list of a misspelt directory is a mistake, and not empty."""
    done = machine.agent(*words)

    assert (done.code, done.out) == (8, "")
    assert done.err.startswith(f"error: there is no state directory {machine.state} (")


def test_missing_state_directory_is_named(machine: Machine) -> None:
    """A misspelt directory is not mistaken for one without deployments."""
    shown = machine.agent("status")
    assert (shown.code, shown.out) == (8, "")
    assert str(machine.state) in shown.err
    assert (
        run(machine, "heat-config-agent", "policy").out
        == run(machine, "heat-config-agent", "policy", "explain").out
    )
    paused = machine.agent("pause")
    assert (paused.code, paused.out.startswith("paused: no reason is given; ")) == (
        0,
        True,
    )


@pytest.mark.slow
@pytest.mark.new_process
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
def test_closed_pipe_gives_no_traceback(machine: Machine, command: list[str]) -> None:
    """Output into a pipe that nobody reads any more, as `| head` leaves it, gives no traceback."""
    path = machine.write([counted(machine, end="echo out; echo err >&2")])
    machine.apply(path)
    again = machine.write(
        [counted(machine, f"d{number}") for number in range(2, 5)], "again.json"
    )
    program, *arguments = command
    if program != "heat-config-hook" and "--help" not in command:
        arguments += [
            "--state-dir",
            str(machine.state),
            *([str(again)] if program == "heat-config-apply" else []),
        ]
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
            timeout=pace.seconds(30),
        )

    assert b"Traceback" not in done.stderr
    assert b"Exception" not in done.stderr
    assert machine.apply(again).code == 0
    assert sorted(runs(machine)) == ["d1", "d2", "d3", "d4"]


@pytest.mark.slow
@pytest.mark.parametrize(
    "command",
    [
        ["status"],
        ["show", "d1"],
        ["log", "d1"],
        ["retry", "d1"],
        ["forget", "--yes", "d1"],
        ["pause", "--reason", "r"],
        ["resume"],
    ],
)
def test_a_mistake_in_the_settings_keeps_nobody_from_looking(
    machine: Machine, command: list[str]
) -> None:
    """Commands that need only the state directory report the mistake, and work."""
    assert machine.apply([deployment()]).code == 0
    path = machine.folder / "wrong.conf"
    path.write_text("[agent]\nparalel = 2\nsplay = x\n")
    done = machine.agent(*command, "--config", str(path))
    assert done.code == 0
    [warning] = [line for line in done.err.splitlines() if line.startswith("warning:")]
    assert (
        f"warning: cannot use the settings in {path}: line 2: there is no setting 'paralel'"
        in warning
    )
    assert (
        f"(and 1 more: `heat-config-agent config --config {path} --state-dir {machine.state}` shows them)"
        in warning
    )


def test_a_mistake_about_the_state_directory_is_refused(machine: Machine) -> None:
    """A wrong state directory is refused, so that a command never shows the state of another one."""
    path = machine.folder / "wrong.conf"
    path.write_text("[agent]\nstate_dir = here\n")
    done = run(machine, "heat-config-agent", "status", "--config", str(path))
    assert (done.code, done.out) == (2, "")
    assert "error: cannot use the settings in" in done.err


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("pause", "0  the agent is paused"),
        ("resume", "0  the agent is not paused, or no longer"),
        ("poll", "8  no agent is running"),
        ("retry", "only send the result again, if it was not delivered"),
    ],
)
def test_help_says_what_holds_for_that_command(
    machine: Machine, command: str, said: str
) -> None:
    """The help of a command describes that command, and no other."""
    done = run(machine, "heat-config-agent", command, "--help", COLUMNS="120")
    assert said in done.out
    assert command == "retry" or "there is no such deployment" not in done.out


@pytest.mark.parametrize("sign", ["\x1b[31m", "\x9b", "\u202e", "\r", "\n"])
def test_unknown_argument_steers_no_terminal(machine: Machine, sign: str) -> None:
    """It may come from elsewhere, such as the name of a file that a pattern of the shell has found."""
    for words in (
        ("status", f"--{sign}x"),
        (f"x{sign}",),
        ("log", "--run", f"1{sign}"),
    ):
        done = machine.command("heat-config-agent", list(words), {})
        assert done.code == 2
        assert sign == "\n" or sign not in done.err
        begins = ("usage:", "error:", " ", "heat-config-agent")
        assert all(line.startswith(begins) for line in done.err.split("\n") if line)
