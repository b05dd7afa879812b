"""Completion: what may stand at the end of a line, from the parsers and from the machine that the line names."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from heat_config_agent.cli.completion import shells
from heat_config_agent.cli.completion.answer import Answer
from heat_config_agent.cli.completion.line import Offer
from heat_config_agent.cli.completion.values import Files
from support import pace
from support.machine import Machine, deployment

SHOP = """\
heat_template_version: 2018-08-31
parameters:
  size: {type: string, description: how large, default: small, constraints: [{allowed_values: [small, large]}]}
  loud: {type: boolean, default: false}
resources:
  stock: {type: OS::Heat::Value, properties: {value: 3}}
  shelf: {type: OS::Heat::Value, properties: {value: 4}}
outputs:
  answer: {value: 3, description: of everything}
"""

SERVICE = """\
tosca_definitions_version: tosca_simple_yaml_1_3
topology_template:
  inputs:
    port: {type: integer, default: 80, constraints: [{valid_values: [80, 8080]}]}
  node_templates:
    web: {type: tosca.nodes.Root}
  workflows:
    check:
      inputs: {day: {type: string, required: false}}
      steps:
        first: {target: web, activities: [{set_state: started}]}
  policies:
    - nightly:
        type: tosca.policies.Root
        targets: [web]
        triggers:
          rotate: {event: midnight, action: [{set_state: started}]}
"""

ROOT = Path(__file__).parents[2]


@pytest.fixture
def shop(machine: Machine) -> Machine:
    """A machine with two deployments and a stack."""
    machine.apply(
        [
            deployment("4be13a2c-1", name="greeting"),
            deployment("9c2d77aa-1", name="my deployment", outputs=["answer"]),
        ]
    )
    machine.apply(machine.write(SHOP, "shop.yaml"))
    machine.write(SERVICE, "service.yaml")
    return machine


def answered(machine: Machine, *words: str, **environment: str) -> str:
    """Return the answer to a line, as zsh and fish take it."""
    limit = {"HEAT_CONFIG_AGENT_COMPLETION": f"{pace.seconds(30)}"}
    done = machine.command(
        "heat-config-agent", ["__complete", *words], {**limit, **environment}
    )
    assert (done.code, done.err) == (0, "")
    return done.out


def complete(machine: Machine, *words: str, **environment: str) -> list[str]:
    """Return the answer to a line: the words, and the last line, each without its description."""
    lines = answered(machine, *words, **environment).splitlines()
    return [line.partition("\t")[0] for line in lines]


def words(machine: Machine, line: str, word: str = "") -> list[str]:
    """Return the words that may stand at the end of a line of `heat-config-agent` with the machine's state."""
    first, *rest = shlex.split(line)
    before = ["heat-config-agent", first, "--state-dir", str(machine.state), *rest]
    *found, last = complete(machine, *before, word) or [":words"]
    assert last == ":words"
    return found


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (["heat-config-agent", "stat"], ["status"]),
        (["heat-config-agent", "stack", "output", ""], ["list", "show"]),
        (["heat-config-agent", "status", "--chec"], ["--check"]),
        (["heat-config-agent", "--state-di"], ["--state-dir"]),
        (
            ["heat-config-agent", "template", "export", "--tool", ""],
            ["script", "tosca"],
        ),
        (["heat-config-agent", "template", "export", "--tool=t"], ["--tool=tosca"]),
        (
            ["heat-config-agent", "stack", "create", "x", "--rollback", ""],
            ["disable", "enable"],
        ),
        (["heat-config-agent", "completion", ""], ["bash", "fish", "zsh"]),
        (["heat-config-agent", "wait", "--for-action", "S"], ["SUSPEND"]),
        (["heat-config-apply", "--pla"], ["--plan"]),
        (["heat-config-hook", "docker-co"], ["docker-compose"]),
        (["/opt/venv/bin/heat-config-agent", "stat"], ["status"]),
    ],
)
def test_words_of_the_parsers_are_offered(
    machine: Machine, line: Sequence[str], expected: list[str]
) -> None:
    """Commands, options, choices and tools come from what the commands declare."""
    assert complete(machine, *line) == [*expected, ":words"]


def test_option_of_the_line_is_not_offered_again(machine: Machine) -> None:
    """An option that counts once is left out after its use; one that may be repeated is not."""
    begin = ("heat-config-apply", "--plan", "--environment", "a.yaml")
    assert complete(machine, *begin, "--pl") == []
    assert complete(machine, *begin, "--env") == ["--environment", ":words"]


def test_commands_are_those_of_the_help(machine: Machine) -> None:
    """bash, which shows no descriptions, gets the same commands without loading them."""
    described = complete(machine, "heat-config-agent", "")
    assert complete(machine, "--line", "heat-config-agent ", "") == described


def test_option_has_its_help(machine: Machine) -> None:
    """Zsh and fish show the description after the tab."""
    out = answered(machine, "heat-config-agent", "stat")
    word, _, about = out.splitlines()[0].partition("\t")
    assert word == "status"
    assert about


@pytest.mark.parametrize(
    ("line", "word", "expected"),
    [
        ("show", "", ["greeting", "my deployment", "shop"]),
        ("show", "sh", ["shop"]),
        ("log", "4b", ["4be13a2c-1"]),
        ("retry greeting", "", ["my deployment", "shop"]),
        ("stack show", "", ["shop"]),
        ("stack delete", "", ["shop"]),
        ("stack delete shop", "", []),
        ("stack create", "", []),
        ("deployment output my\\ deployment", "", ["answer"]),
        ("stack update shop --clear-parameter", "l", ["loud"]),
        ("stack resource show shop", "s", ["shelf", "stock"]),
        ("stack event list shop --resource", "st", ["stock"]),
        ("stack output show shop", "", ["answer"]),
        ("stack update shop --existing --parameter", "", ["loud=", "size="]),
        ("stack resource type show", "OS::Heat::Val", ["OS::Heat::Value"]),
        (
            "stack resource type list --filter",
            "support_status=SUPP",
            ["support_status=SUPPORTED"],
        ),
    ],
)
def test_names_of_the_machine_are_offered(
    shop: Machine, line: str, word: str, expected: list[str]
) -> None:
    """Deployments, stacks, resources and outputs are those of the state directory on the line."""
    found = words(shop, line, word)
    assert found[: len(expected)] == expected
    assert len(found) == len(expected) or found[len(expected)].startswith("--")


def test_snapshot_is_offered(shop: Machine) -> None:
    """A snapshot is offered by its name."""
    taken = shop.command(
        "heat-config-agent",
        ["stack", "snapshot", "create", "shop", "--name", "before friday"],
        {"HEAT_CONFIG_AGENT_STATE": str(shop.state)},
    )
    assert taken.code == 0
    assert words(shop, "stack snapshot show shop") == ["before friday"]


def test_parts_of_a_service_are_offered(machine: Machine) -> None:
    """Nodes, workflows with their inputs, and triggers are those of the stack on the line."""
    assert machine.apply(machine.write(SERVICE, "service.yaml")).code == 0
    assert words(machine, "stack node show service") == ["web"]
    assert words(machine, "stack workflow run service") == ["check"]
    assert words(machine, "stack workflow run service check --input") == ["day="]
    assert words(machine, "stack trigger service") == ["nightly.rotate"]


def test_deployment_of_a_stack_is_offered(machine: Machine) -> None:
    """It has its stack before it; alone it is offered where nothing else has such a name."""
    template = (ROOT / "examples/hot/greeting.yaml").read_text()
    assert machine.apply(machine.write(template, "hello.yaml")).code == 0
    assert words(machine, "log") == ["hello", "hello/greeting"]
    assert words(machine, "log", "gr") == ["greeting"]


def test_state_directory_of_the_variable_counts(shop: Machine) -> None:
    """Without an option, the line is about the state directory of the environment."""
    found = complete(
        shop,
        "heat-config-agent",
        "stack",
        "show",
        "",
        HEAT_CONFIG_AGENT_STATE=str(shop.state),
    )
    assert found == ["shop", ":words"]


def test_settings_of_the_line_count(shop: Machine) -> None:
    """`--config` says where the state directory is, also before the command."""
    path = shop.write(f"[agent]\nstate_dir = {shop.state}\n", "agent.conf")
    line = ("heat-config-agent", "--config", str(path), "stack", "show", "")
    assert complete(shop, *line) == ["shop", ":words"]


def test_source_of_the_settings_is_offered(shop: Machine) -> None:
    """A source that is followed is offered where sources are meant, and where any thing is."""
    path = shop.write("[follow web]\nurl = /srv/site\n", "agent.conf")
    begin = ("heat-config-agent", "--config", str(path))
    assert complete(shop, *begin, "source", "sync", "") == ["web", ":words"]
    assert complete(shop, *begin, "source", "sync", "web", "") == []
    assert complete(shop, *begin, "show", "we") == ["web", ":words"]


def test_tool_of_the_machine_is_offered(machine: Machine) -> None:
    """A hook in a directory on the line is a tool like the built-in ones."""
    machine.hook("mine", "#!/bin/sh\n")
    line = (
        "heat-config-agent",
        "tool",
        "show",
        "--hooks-dir",
        str(machine.hooks),
        "mi",
    )
    assert complete(machine, *line) == ["mine", ":words"]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (["shop.yaml", "--parameter", ""], ["loud=", "size="]),
        (["shop.yaml", "--parameter", "size=", "--parameter", ""], ["loud="]),
        (["shop.yaml", "--parameter", "size=l"], ["size=large"]),
        (
            ["shop.yaml", "--parameter=loud="],
            ["--parameter=loud=false", "--parameter=loud=true"],
        ),
        (["shop.yaml", "--attribute", "st"], ["stock."]),
        (["service.yaml", "--input", ""], ["port="]),
        (["service.yaml", "--input", "port=80"], ["port=80", "port=8080"]),
        (["service.yaml", "--substitute", ""], ["web="]),
    ],
)
def test_parameters_are_those_of_the_template(
    machine: Machine, line: list[str], expected: list[str]
) -> None:
    """Names and possible values come from the template that the line names."""
    machine.write(SHOP, "shop.yaml")
    machine.write(SERVICE, "service.yaml")
    assert complete(machine, "heat-config-apply", *line) == [*expected, ":words"]


def test_deployment_of_the_document_is_offered(machine: Machine) -> None:
    """`--only` takes the deployments in the documents on the line."""
    machine.write(
        [deployment("d1", name="first"), deployment("d2", name="second")], "site.json"
    )
    line = ("heat-config-apply", "site.json", "--only", "first", "--only", "")
    assert complete(machine, *line) == ["second", ":words"]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (["heat-config-apply", "si"], ":files\t\tyaml yml template json csar zip"),
        (["heat-config-agent", "doctor", "--config", ""], ":files\t\tconf"),
        (["heat-config-agent", "doctor", "--state-dir=x"], ":folders\t--state-dir=\t"),
        (["heat-config-apply", "--parameter-file", "key="], ":files\tkey=\t"),
    ],
)
def test_files_are_left_to_the_shell(
    machine: Machine, line: list[str], expected: str
) -> None:
    """The answer has the part of the word before the name of a file, and the endings that are meant."""
    assert answered(machine, *line) == f"{expected}\n"


@pytest.mark.parametrize(
    "line",
    [
        ["heat-config-agent", "nosuch", ""],
        ["heat-config-agent", "stack", "output", "show", "nosuch", ""],
        ["heat-config-agent", "show", "--config", "/nosuch", ""],
        ["heat-config-agent", "pause", "--reason", ""],
        [],
    ],
)
def test_line_without_an_answer_is_silent(machine: Machine, line: list[str]) -> None:
    """Mistakes in a line, and values that may be anything, print nothing at all."""
    assert complete(machine, *line) == []


def test_unreadable_state_is_silent(machine: Machine) -> None:
    """A journal that is not one has no names."""
    machine.state.mkdir()
    (machine.state / "journal").mkdir()
    line = ("heat-config-agent", "log", "--state-dir", str(machine.state), "")
    assert complete(machine, *line) == []


def test_answer_that_takes_too_long_is_left_out(machine: Machine) -> None:
    """A template that never arrives ends with the time limit, silently."""
    os.mkfifo(machine.folder / "slow.yaml")
    writer = os.open(machine.folder / "slow.yaml", os.O_RDWR)
    try:
        line = ("heat-config-apply", "slow.yaml", "--parameter", "")
        assert complete(machine, *line, HEAT_CONFIG_AGENT_COMPLETION="0.2") == []
    finally:
        os.close(writer)


@pytest.mark.parametrize(
    ("line", "expected", "raw", "quote"),
    [
        ("show ", ["show", ""], "", ""),
        ("show my\\ de", ["show", "my de"], "my\\ de", ""),
        ("show 'my de", ["show", "my de"], "'my de", "'"),
        ('show --x="a\\$b c" d', ["show", "--x=a$b c", "d"], "d", ""),
        ('show "a\\b', ["show", "a\\b"], '"a\\b', '"'),
        ("show ''", ["show", ""], "''", ""),
    ],
)
def test_line_is_split_as_bash_does(
    line: str, expected: list[str], raw: str, quote: str
) -> None:
    """Quotes and backslashes count, and an open quote at the end is detected."""
    typed = shells.split(line)
    assert (typed.words, typed.raw, typed.quote) == (expected, raw, quote)


ODD = Answer((Offer('it\'s $5; "x"\\ü'),))


@pytest.mark.parametrize(
    ("raw", "tail", "expected"),
    [
        ("", "", 'it\\\'s\\ \\$5\\;\\ \\"x\\"\\\\ü'),
        ("'it", "it", "it'\\''s $5; \"x\"\\ü"),
        ('"it', "it", 'it\'s \\$5; \\"x\\"\\\\ü'),
    ],
)
def test_name_is_quoted_for_bash(raw: str, tail: str, expected: str) -> None:
    """Any character is given back as bash reads it, whatever quote is open."""
    assert shells.for_bash(ODD, raw, tail) == f"{expected}\n:words\n"


def test_only_the_end_of_a_word_is_replaced_in_bash() -> None:
    """Bash replaces what stands after the last `=` or `:`."""
    types = Answer((Offer("OS::Heat::Value"), Offer("OS::Heat::Stack")))
    assert shells.for_bash(types, "OS::Heat::", "") == "Value\nStack\n:words\n"
    pair = Answer((Offer("--parameter=size="),))
    assert shells.for_bash(pair, "--parameter=s", "s") == "size=\n:open\n"


@pytest.mark.parametrize(
    ("files", "begin", "expected"),
    [
        (Files(("yaml",)), "", ["one.yaml", "store"]),
        (Files(("yaml",)), "store/", ["store/two.txt"]),
        (Files(), "", ["note.txt", "one.yaml", "store"]),
        (Files(only_folders=True), "", ["store"]),
        (Files(), ".h", [".hidden"]),
    ],
)
def test_files_are_offered_by_the_endings_of_their_argument(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    files: Files,
    begin: str,
    expected: list[str],
) -> None:
    """Folders lead to files of any kind; where no file has the ending, all are offered."""
    (tmp_path / "store").mkdir()
    for name in ("one.yaml", "note.txt", ".hidden", "store/two.txt"):
        (tmp_path / name).touch()
    monkeypatch.chdir(tmp_path)
    assert shells.listed(files, begin) == expected


def test_answer_loads_little() -> None:
    """The package of stacks is not loaded to complete an option of another command."""
    program = (
        "import sys, json; from heat_config_agent.cli import agent;"
        "agent.main(['__complete', 'heat-config-agent', 'doctor', '--js']);"
        "print(json.dumps([name for name in sys.modules if name.startswith('heat_config_stack')]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={"HEAT_CONFIG_AGENT_COMPLETION": f"{pace.seconds(30)}"},
        check=True,
        capture_output=True,
        text=True,
    )
    option, last, modules = done.stdout.splitlines()
    assert (option.partition("\t")[0], last, modules) == ("--json", ":words", "[]")
