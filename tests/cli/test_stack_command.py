"""`heat-config-agent stack` and `heat-config-apply TEMPLATE`, as people and programs meet them."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import re
import signal
import stat
import subprocess
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from support import endings, pace, planted
from support.loopback import wait_until
from support.machine import BIN, Done, Machine

HEAD = """\
heat_template_version: 2018-08-31
description: A greeting
parameters:
  who: {type: string, default: world}
  pin: {type: string, hidden: true, default: PLANTED}
resources:
  config:
    type: OS::Heat::SoftwareConfig
    properties:
      group: script
      inputs: [{name: who}, {name: pin}]
      outputs: [{name: greeting}, {name: password}]
      config: |
        #!/bin/sh
""".replace("PLANTED", planted.WORD)

TAIL = """
  greeting:
    type: OS::Heat::SoftwareDeployment
    properties:
      config: {get_resource: config}
      server: {get_resource: server}
      actions: [CREATE, UPDATE, SUSPEND, RESUME, DELETE]
      input_values: {who: {get_param: who}, pin: {get_param: pin}}
  server:
    type: OS::Nova::Server
    properties: {flavor: small}
outputs:
  greeting: {description: what it says, value: {get_attr: [greeting, greeting]}}
  pin: {value: {get_param: pin}}
  password: {value: {get_attr: [greeting, password]}}
"""

SAYS = """\
printf "Hello, $who!" > $heat_outputs_path.greeting
printf "opensesame" > $heat_outputs_path.password
echo "$deploy_action" >> LOG
"""


class Stacks:
    """The commands, a template, and a log to which its script writes."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.log = machine.folder / "log"

    def template(self, script: str = SAYS, name: str = "hello.yaml") -> Path:
        """Write a template whose deployment runs a script; in it, LOG is the log's path."""
        body = "".join(
            f"        {line}\n"
            for line in script.replace("LOG", str(self.log)).splitlines()
        )
        path = self.machine.folder / name
        path.write_text(HEAD + body + TAIL)
        return path

    def __call__(self, *words: str, code: int = 0) -> Done:
        """Run `heat-config-agent stack WORDS`, which ends with that code."""
        place = ("--state-dir", str(self.machine.state))
        done = self.machine.command("heat-config-agent", ["stack", *words, *place], {})
        assert done.code == code, done.out + done.err
        assert "Traceback" not in done.err
        return done

    def apply(self, path: Path, *words: str, code: int = 0) -> Done:
        """Run `heat-config-apply` on a template, which ends with that code."""
        done = self.machine.apply(path, *words)
        assert done.code == code, done.out + done.err
        return done

    @property
    def logged(self) -> list[str]:
        """Return the lines that scripts have written."""
        return self.log.read_text().split() if self.log.exists() else []


@pytest.fixture
def stacks(machine: Machine) -> Stacks:
    """The commands about stacks."""
    return Stacks(machine)


def times_out(text: str) -> str:
    """Return what was printed without durations, which are others each time."""
    return re.sub(r" *[\d.]+ m?s\b", " TIME", text)


def test_a_template_is_applied(stacks: Stacks) -> None:
    """A line for each resource in its turn, what has become of the stack, and its outputs."""
    done = stacks.apply(stacks.template())
    assert done.err == ""
    assert times_out(done.out).splitlines() == [
        "ok       config     CREATE TIME",
        "ok       server     CREATE TIME  (this machine)",
        "running  greeting   CREATE",
        "ok       greeting   CREATE TIME",
        "stack hello: ok (CREATE_COMPLETE) in TIME",
        "  greeting = Hello, world!",
        "  pin = ***",
        "  password = ***",
    ]


def test_template_that_is_applied_again_updates_its_stack(stacks: Stacks) -> None:
    """Unchanged resources stay, changed ones are updated, and nothing runs twice."""
    path = stacks.template()
    stacks.apply(path)
    stacks.apply(path)
    assert stacks.logged == ["CREATE"]
    assert "greeting = Hello, ada!" in stacks.apply(path, "--parameter", "who=ada").out
    assert stacks.logged == ["CREATE", "UPDATE"]


def test_a_stack_that_was_rolled_back_can_be_updated(stacks: Stacks) -> None:
    """With a template, and with what is known of the one that failed."""
    path = stacks.machine.folder / "t.yaml"
    path.write_text(
        "heat_template_version: 2018-08-31\nparameters: {fail: {type: boolean, default: true}}\n"
        "resources: {a: {type: OS::Heat::TestResource, properties: {fail: {get_param: fail}}}}\n"
    )
    stacks("create", "-t", str(path), "--enable-rollback", "s", code=1)
    done = stacks("update", "--existing", "--parameter", "fail=false", "s")
    assert "UPDATE_COMPLETE" in done.out
    stacks("delete", "--yes", "s")
    stacks("create", "-t", str(path), "--enable-rollback", "s", code=1)
    stacks("update", "-t", str(path), "--parameter", "fail=false", "s")


def test_a_plan_does_nothing(stacks: Stacks) -> None:
    """A plan shows each resource and its outcome, before the stack exists and after that."""
    path = stacks.template()
    assert stacks.apply(path, "--plan").out.splitlines() == [
        "CHANGE  NAME      TYPE                          WHY",
        "add     config    OS::Heat::SoftwareConfig      new",
        "add     greeting  OS::Heat::SoftwareDeployment  new; runs CREATE",
        "add     server    OS::Nova::Server              new",
        "stack hello: 3 to add; nothing was done",
    ]
    assert stacks.logged == []
    assert not stacks.machine.state.exists()
    stacks.apply(path)
    found = json.loads(
        stacks.apply(path, "--plan", "--parameter", "who=ada", "--json").out
    )["data"]["changes"]
    assert [(each["name"], each["change"]) for each in found] == [
        ("config", "unchanged"),
        ("greeting", "update"),
        ("server", "unchanged"),
    ]
    assert stacks.logged == ["CREATE"]


def test_a_missing_parameter_is_one_sentence(stacks: Stacks) -> None:
    """The sentence has the parameter's position and the option for its value, and nothing begins."""
    path = stacks.template()
    path.write_text(
        path.read_text().replace("{type: string, default: world}", "{type: string}")
    )
    done = stacks.apply(path, code=2)
    assert done.out == ""
    assert done.err == (
        f"{path}:4:3: error: parameters.who: The Parameter (who) was not provided. "
        "(give it with --parameter who=VALUE, or in an environment)\n"
    )
    assert stacks("list").out == f"no stacks in {stacks.machine.state}\n"


def test_documents_refuse_the_options_of_templates(stacks: Stacks) -> None:
    """Documents refuse the options of templates; a template refuses other documents, and must come from a file."""
    document = stacks.machine.write([])
    done = stacks.machine.apply(document, "--parameter", "a=b")
    assert (done.code, done.err.count("\n")) == (2, 1)
    assert "--parameter is for templates" in done.err
    done = stacks.machine.apply(stacks.template(), str(document))
    assert (done.code, done.err.count("\n")) == (2, 1)
    assert "together with other files" in done.err


def test_a_mistake_in_the_text_of_a_template_has_its_place(stacks: Stacks) -> None:
    """A broken template is reported with the position, and not as a broken document."""
    path = stacks.template()
    path.write_text(
        path.read_text().replace("outputs:\n  greeting: {", "outputs:\n  greeting: {{")
    )
    done = stacks.apply(path, code=2)
    assert done.err.startswith(f"{path}:")
    assert ": error: " in done.err


def test_a_failing_deployment_is_explained(stacks: Stacks) -> None:
    """The exit code, which resource it was and why, and the command that shows what the script printed."""
    path = stacks.template(
        "[ $deploy_action = CREATE ] || exit 0\necho out of paint >&2\nexit 3\n"
    )
    done = stacks.apply(path, code=1)
    assert "failed   greeting   CREATE" in done.out
    assert "         | out of paint\n" in done.out
    assert re.match(
        r"error: stack hello: CREATE failed after \S+ s: greeting: exit code 3: out of paint\n",
        done.err,
    )
    command = re.search(r"  all output  heat-config-agent (.*)\n", done.err)
    assert command is not None
    process = stacks.machine.start("heat-config-agent", *command[1].split())
    assert process.communicate(timeout=pace.seconds(60))[1] == "out of paint\n"
    stacks.template()
    assert "stack hello: ok (UPDATE_COMPLETE)" in stacks.apply(path).out


def test_a_failing_update_is_rolled_back(stacks: Stacks) -> None:
    """With --rollback the stack is again what it was, and the command has failed."""
    stacks("create", "hello", "-t", str(stacks.template()))
    stacks.template('echo "$deploy_action $who" >> LOG\n[ "$who" = world ]\n')
    done = stacks(
        "update",
        "hello",
        "-t",
        "hello.yaml",
        "--rollback",
        "enable",
        "--parameter",
        "who=x",
        code=1,
    )
    assert "error: stack hello: rolled back after" in done.err
    assert (
        json.loads(stacks("show", "hello", "--json").out)["data"]["parameters"]["who"]
        == "world"
    )


def test_each_action_of_a_stack_reaches_its_deployment_and_delete_leaves_nothing(
    stacks: Stacks,
) -> None:
    """Created, suspended, resumed, checked and deleted, each time the deployment is told so; nothing is left."""
    stacks("create", "one", "-t", str(stacks.template()), "--wait", "--wait-for", "5")
    for turn in ("suspend", "resume", "check"):
        assert f"stack one: ok ({turn.upper()}_COMPLETE)" in stacks(turn, "one").out
    assert (
        "there is a stack one already"
        in stacks("create", "one", "-t", "hello.yaml", code=2).err
    )
    assert stacks("delete", "one", code=2).err.endswith("(give --yes)\n")
    assert "stack one: ok (DELETE_COMPLETE)" in stacks("delete", "one", "--yes").out
    assert stacks.logged == ["CREATE", "SUSPEND", "RESUME", "DELETE"]
    assert list((stacks.machine.state / "stacks").iterdir()) == []
    assert stacks("delete", "one", "-y", code=8).err.startswith(
        "error: there is no stack one"
    )


def test_existing_values_are_kept(stacks: Stacks) -> None:
    """With --existing only what is named changes, and a cleared parameter is its default again."""
    stacks("create", "hello", "-t", str(stacks.template()), "--parameter", "who=ada")
    environment = stacks.machine.folder / "env.yaml"
    environment.write_text("parameters: {pin: anders}\n")
    done = stacks("update", "hello", "--existing", "-e", str(environment))
    assert "greeting = Hello, ada!" in done.out
    assert stacks.logged == ["CREATE", "UPDATE"]
    done = stacks("update", "hello", "--existing", "--clear-parameter", "who")
    assert "greeting = Hello, world!" in done.out


def test_stack_is_shown_with_the_keys_of_heat(stacks: Stacks) -> None:
    """The JSON has the keys of Heat's API with secrets masked, and the state is private."""
    stacks.apply(stacks.template(), "--name", "a")

    def shown(*words: str) -> Any:
        return json.loads(stacks(*words, "--json").out)["data"]

    stacks_shown = shown("list")["stacks"]
    assert [(each["stack_name"], each["stack_status"]) for each in stacks_shown] == [
        ("a", "CREATE_COMPLETE")
    ]
    stack = shown("show", "a")
    assert stack["parameters"]["pin"] == "***"
    assert [
        (each["output_key"], each["output_value"]) for each in stack["outputs"]
    ] == [
        ("greeting", "Hello, world!"),
        ("pin", "***"),
        ("password", "***"),
    ]
    assert [each["output_key"] for each in shown("output", "list", "a")["outputs"]] == [
        "greeting",
        "pin",
        "password",
    ]
    assert shown("output", "show", "a", "greeting")["output_value"] == "Hello, world!"
    assert stacks("output", "show", "a", "password", "--reveal").out == "opensesame\n"
    assert "it has greeting" in stacks("output", "show", "a", "nothing", code=8).err
    statuses = {
        each["resource_name"]: each["resource_status"]
        for each in shown("resource", "list", "a")["resources"]
    }
    assert statuses == dict.fromkeys(
        ("config", "greeting", "server"), "CREATE_COMPLETE"
    )
    assert shown("resource", "show", "a", "greeting")["requires"] == [
        "config",
        "server",
    ]
    last = shown("event", "list", "a")["events"][-1]
    assert last["resource_status"] == "CREATE_COMPLETE"
    assert last["resource_name"] == last["stack_name"] == "a"
    assert last["subject"]["kind"] == "stack"
    assert last["physical_resource_id"] == stack["id"]
    everything = (
        stacks("show", "a").out
        + stacks("event", "list", "a").out
        + stacks("resource", "list", "a").out
    )
    assert planted.WORD not in everything + json.dumps(stack)
    assert "opensesame" not in everything + json.dumps(stack)
    folder = stacks.machine.state / "stacks/a"
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert {
        stat.S_IMODE(each.stat().st_mode) for each in folder.iterdir() if each.is_file()
    } == {0o600}


def test_events_are_objects_as_they_happen(stacks: Stacks) -> None:
    """With --json, one in a line, and at last the stack with the exit code."""
    lines = stacks(
        "create", "a", "-t", str(stacks.template()), "--json"
    ).out.splitlines()
    *events, last = map(json.loads, lines)
    assert {each["kind"] for each in events} == {"event"}
    of_greeting = [
        each["data"] for each in events if each["data"]["resource_name"] == "greeting"
    ]
    assert [(each["resource_status"], each["state"]) for each in of_greeting] == [
        ("CREATE_IN_PROGRESS", "running"),
        ("CREATE_COMPLETE", "ok"),
    ]
    assert (last["kind"], last["exit_code"]) == ("stack", 0)
    assert last["data"]["stack_status"] == "CREATE_COMPLETE"


LONG = 60.0

WAITS = """\
echo "$deploy_action $who" >> LOG
while [ ! -e LOG.go ]; do sleep 0.05; done
printf "Hello, $who!" > $heat_outputs_path.greeting
"""


@pytest.mark.slow
@pytest.mark.parametrize("update", [False, True], ids=["create", "update"])
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT], ids=["KILL", "INT"])
def test_after_an_interruption_the_same_command_goes_on(
    stacks: Stacks, number: int, update: bool
) -> None:
    """The script that was running goes on, is not run again, and its result counts."""
    go = Path(f"{stacks.log}.go")
    path = stacks.template(WAITS)
    words = []
    if update:
        go.touch()
        stacks.apply(path)
        go.unlink()
        stacks.log.unlink()
        words = ["--parameter", "who=ada"]
    process = stacks.machine.start_apply(path, *words)
    wait_until(lambda: len(stacks.logged) == 2, 30)
    process.send_signal(number)
    _, err = process.communicate(timeout=pace.seconds(30))
    if number == signal.SIGINT:
        assert process.returncode == 130
        assert (
            err
            == "interrupted: runs that have begun go on; run the command again to follow them\n"
        )
    assert json.loads(stacks("list", "--json").out)["data"]["stacks"][0][
        "stack_status"
    ].endswith("_IN_PROGRESS")
    go.touch()
    done = stacks.apply(path, *words)
    assert ("UPDATE_COMPLETE" if update else "CREATE_COMPLETE") in done.out
    assert f"greeting = Hello, {'ada' if update else 'world'}!" in done.out
    assert stacks.logged == (["UPDATE", "ada"] if update else ["CREATE", "world"])


def test_only_one_command_at_a_time_changes_a_stack(stacks: Stacks) -> None:
    """A second command says that another one works on the stack; queries are possible meanwhile."""
    path = stacks.template(WAITS)
    process = stacks.machine.start_apply(path)
    wait_until(lambda: len(stacks.logged) == 2, 30)
    assert stacks("suspend", "hello", code=4).err.startswith("error: another ")
    assert "greeting  running  CREATE" in stacks("resource", "list", "hello").out
    Path(f"{stacks.log}.go").touch()
    process.communicate(timeout=pace.seconds(30))
    assert process.returncode == 0


def test_the_graph_is_drawn(stacks: Stacks) -> None:
    """The graph of a template or a stack is drawn as text, for Graphviz and Mermaid, and as a picture."""
    path = str(stacks.template())
    text = stacks("graph", "-t", path).out
    assert text.splitlines()[-1].split()[-3:] == ["needs", "config,", "server"]
    dot = stacks("graph", "-t", path, "--format", "dot").out
    assert dot.startswith("digraph stack {\n")
    assert dot.endswith("}\n")
    assert set(re.findall(r'^  "(\w+)" -> "(\w+)";$', dot, re.MULTILINE)) == {
        ("config", "greeting"),
        ("server", "greeting"),
    }
    flow = stacks("graph", "-t", path, "--format", "mermaid").out.splitlines()
    names = dict(re.findall(r'^  (r\d)\["(\w+)<br/>', "\n".join(flow), re.MULTILINE))
    assert flow[0] == "flowchart LR"
    assert {
        (names[begin], names[end])
        for begin, end in re.findall(r"(r\d) --> (r\d)", "\n".join(flow))
    } == {("config", "greeting"), ("server", "greeting")}
    stacks("create", "a", "-t", path)
    picture = ET.fromstring(stacks("graph", "a", "--format", "svg").out)  # noqa: S314  # our own
    titles = [each.text for each in picture.iter("{http://www.w3.org/2000/svg}title")]
    assert "greeting OS::Heat::SoftwareDeployment CREATE_COMPLETE" in titles
    assert (
        len(
            [
                line
                for line in picture.iter("{http://www.w3.org/2000/svg}path")
                if line.get("marker-end")
            ]
        )
        == 2
    )
    timeline = stacks("graph", "a", "--timeline").out.splitlines()
    assert [line.split()[0] for line in timeline] == ["config", "server", "greeting"]
    lanes = ET.fromstring(stacks("graph", "a", "--timeline", "--format", "svg").out)  # noqa: S314  # our own
    assert len(list(lanes.iter("{http://www.w3.org/2000/svg}title"))) == 3
    assert [text for text in lanes.itertext() if text.startswith("CREATE ")], (
        "a lane has its action"
    )
    bars = stacks("graph", "a", "--timeline", "--format", "mermaid").out.splitlines()
    assert bars[0] == "gantt"
    assert [line.split()[1] for line in bars if line.startswith("  section ")] == [
        "config",
        "server",
        "greeting",
    ]
    assert (
        "no timelines"
        in stacks("graph", "a", "--timeline", "--format", "dot", code=2).err
    )


def test_the_timeline_tells_waiting_from_working(stacks: Stacks) -> None:
    """One of two independent deployments waits for the other: its bar is light until it runs."""
    path = stacks.machine.folder / "two.yaml"
    path.write_text(
        "heat_template_version: 2018-08-31\nresources:\n"
        "  server: {type: OS::Nova::Server, properties: {flavor: small}}\n"
        "  config: {type: OS::Heat::SoftwareConfig, properties: {group: script, config: sleep 1}}\n"
        + "".join(
            f"  {name}: {{type: OS::Heat::SoftwareDeployment, "
            "properties: {config: {get_resource: config}, server: {get_resource: server}}}\n"
            for name in ("one", "other")
        )
    )
    stacks("create", "a", "-t", str(path))
    first, second = stacks("graph", "a", "--timeline").out.splitlines()[-2:]
    assert re.search(r"CREATE  [\d.]+ s +█+$", first)
    assert re.search(r"CREATE  [\d.]+ s after waiting [\d.]+ s +░+█+$", second)


def test_option_server_carries_out_one_server(stacks: Stacks) -> None:
    """With --server, what is for others is not carried out, and that is said."""
    path = stacks.template()
    text = (
        Path(path)
        .read_text()
        .replace(
            "resources:", "resources:\n  other: {type: OS::Heat::DeployedServer}", 1
        )
    )
    Path(path).write_text(text)
    done = stacks.apply(path, "--server", "other")
    assert done.err == "warning: left to other servers than other: greeting\n"
    assert stacks.logged == []
    done = stacks.apply(path, "--server", "server", "--name", "here")
    assert done.err == ""
    assert stacks.logged == ["CREATE"]


def test_terminal_shows_all_resources_as_a_tree(stacks: Stacks) -> None:
    """All resources have their rows from the beginning, and are redrawn until all have ended."""
    path = stacks.template(WAITS)
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [BIN / "heat-config-apply", "--state-dir", stacks.machine.state, path],
        stdout=theirs,
        env={**stacks.machine.environment, "TERM": "xterm", "NO_COLOR": "1"},
    )
    os.close(theirs)
    printed = b""
    with os.fdopen(ours, "rb"), endings.ended(process):
        wait_until(lambda: len(stacks.logged) == 2, LONG)
        while b"running  greeting" not in printed:
            printed += os.read(ours, 65536)
        Path(f"{stacks.log}.go").touch()
        with contextlib.suppress(OSError):  # it has closed the terminal
            while more := os.read(ours, 65536):
                printed += more
        assert process.wait(pace.seconds(LONG)) == 0
    *drawn, last = printed.decode().split("\x1b[J")
    assert any("running  greeting" in each for each in drawn)
    assert "ok       greeting" in last


PLUGIN = """\
from heat.engine import properties
from heat.engine import resource


class Note(resource.Resource):
    properties_schema = {'path': properties.Schema(properties.Schema.STRING, required=True)}

    def handle_create(self):
        with open(self.properties['path'], 'w') as note:
            note.write('made')


def resource_mapping():
    return {'My::Own::Note': Note}
"""


def test_types_of_plugins_are_known(stacks: Stacks) -> None:
    """Types in `plugin_dirs` are known, and one that cannot be loaded is named with the reason."""
    folder = stacks.machine.folder
    (folder / "plugins").mkdir(mode=0o755)
    (folder / "plugins/note.py").write_text(PLUGIN)
    (folder / "plugins/other.py").write_text("import nobody_has_this\n")
    settings = folder / "agent.conf"
    settings.write_text(f"[agent]\nplugin_dirs = {folder / 'plugins'}\n")
    note = {"type": "My::Own::Note", "properties": {"path": str(folder / "note")}}
    path = stacks.machine.write(
        {"heat_template_version": "2018-08-31", "resources": {"note": note}}, "own.yaml"
    )
    assert "My::Own::Note" in stacks.apply(path, code=2).err
    assert list((stacks.machine.state / "stacks").iterdir()) == []  # nothing was begun
    done = stacks.apply(path, "--config", str(settings))
    assert "ok       note" in done.out
    assert (folder / "note").read_text() == "made"
    assert done.err.count("\n") == 1
    assert "other.py is not used: it needs nobody_has_this" in done.err


def test_a_template_whose_file_names_no_stack(machine: Machine) -> None:
    """Such as one that a shell hands over as /dev/fd/63: one sentence says what to add."""
    path = machine.folder / "63"
    path.write_text("heat_template_version: 2021-04-16\n")
    done = machine.command(
        "heat-config-apply", [str(path), "--state-dir", str(machine.state)], {}
    )
    assert done.code == 2
    assert (
        "63 gives the stack no name, as a name begins with a letter (add --name NAME)"
        in done.err
    )
    named = [str(path), "--name", "named", "--state-dir", str(machine.state)]
    assert machine.command("heat-config-apply", named, {}).code == 0
