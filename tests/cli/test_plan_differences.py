"""`--plan --diff`: what differs from what has run before, and what the tools say that they would do."""

from __future__ import annotations

import json
import shutil
import sys
from typing import Any

import pytest

from support.commands import SH, run
from support.machine import BIN, Done, Machine

SECRET = "correct-horse-battery"


def web(**fields: Any) -> dict[str, Any]:
    """Return a deployment without an id, whose next edition is a deployment of its own."""
    return {
        "name": "web",
        "group": "script",
        "config": f"{SH}echo one\necho two\n",
        "inputs": [
            {"name": "port", "value": 80},
            {"name": "db_password", "value": SECRET},
        ],
        "options": {"timeout": 30},
        **fields,
    }


def planned(machine: Machine, *content: dict[str, Any]) -> Done:
    """Return the plan with differences."""
    return machine.apply({"deployments": list(content)}, "--plan", "--diff")


def applied(machine: Machine, *content: dict[str, Any]) -> None:
    """Carry deployments out."""
    done = machine.apply({"deployments": list(content)})
    assert done.code == 0, done.err


def compared(machine: Machine, *content: dict[str, Any]) -> Any:
    """Return the differences of the only step as JSON."""
    given = {"deployments": list(content)}
    done = machine.apply(given, "--plan", "--diff", "--json")
    (change,) = done.data["changes"]
    return change["compared"]


def test_values_are_shown_old_and_new(machine: Machine) -> None:
    """Short values stand in one line, and texts of several lines are a unified diff."""
    applied(machine, web())

    done = planned(
        machine,
        web(
            config=f"{SH}echo one\necho three\n",
            inputs=[{"name": "port", "value": 8080}, {"name": "user", "value": "www"}],
            options={"timeout": 60},
            outputs=[{"name": "url"}],
        ),
    )

    assert done.code == 0
    assert [line.rstrip() for line in done.out.splitlines()[3:-2]] == [
        "web",
        "  input port: 80 -> 8080",
        "  input db_password: changed",
        "  input user: (none) -> www",
        "  option timeout: 30 -> 60",
        '  outputs: "" -> url',
        "  config:",
        "    @@ -1,3 +1,3 @@",
        "     #!/bin/sh",
        "     echo one",
        "    -echo two",
        "    +echo three",
    ]
    assert (machine.state / "runs").exists()


def test_same_facts_are_in_the_json(machine: Machine) -> None:
    """A value that is removed has null in its place, and says so."""
    applied(machine, web())

    values = compared(
        machine, web(inputs=[{"name": "db_password", "value": f"{SECRET}2"}])
    )

    assert values["with"].startswith("web-")
    assert values["differences"] == [
        {
            "path": "input port",
            "old": 80,
            "new": None,
            "added": False,
            "removed": True,
            "secret": False,
        },
        {
            "path": "input db_password",
            "old": None,
            "new": None,
            "added": False,
            "removed": False,
            "secret": True,
        },
    ]
    assert values["note"] is None
    assert values["would"] is None


def test_secret_is_masked_on_both_sides(machine: Machine) -> None:
    """A config that a template has put a secret into differs, and does not tell it."""
    other = f"{SECRET}-two"
    applied(machine, web(config=f"{SH}echo {SECRET}\n"))

    text = planned(
        machine,
        web(
            config=f"{SH}echo {other}\necho more\n",
            inputs=[
                {"name": "port", "value": 80},
                {"name": "db_password", "value": other},
            ],
            options={"timeout": 30},
        ),
    ).out

    assert SECRET not in text
    assert "input db_password: changed" in text
    assert "+echo more" in text


def test_secret_alone_in_a_config_says_only_changed(machine: Machine) -> None:
    """Both sides look the same once they are masked."""
    other = "staple-battery-horse"
    applied(machine, web(config=f"{SH}echo {SECRET}\n"))

    text = planned(
        machine,
        web(
            config=f"{SH}echo {other}\n",
            inputs=[
                {"name": "port", "value": 80},
                {"name": "db_password", "value": other},
            ],
        ),
    ).out

    assert SECRET not in text
    assert other not in text
    assert "  config: changed" in text


def test_new_deployment_is_compared_with_nothing(machine: Machine) -> None:
    """Nothing of it has run, and its tool has no dry run."""
    found = compared(machine, web())

    assert found == {"with": None, "differences": [], "note": None, "would": None}
    assert not (machine.state / "verifications").exists()


def test_pruned_deployment_is_compared_with_nothing(machine: Machine) -> None:
    """The plan says that its earlier values are not known any more."""
    applied(machine, web())
    settings = machine.folder / "agent.conf"
    settings.write_text("[agent]\nkeep_secrets = 0\n")
    assert machine.agent("prune", "--config", str(settings)).code == 0

    found = compared(machine, web(options={"timeout": 60}))

    assert found["differences"] == []
    assert found["note"].startswith("the earlier inputs are not kept")


def test_edited_deployment_with_its_old_id_is_shown_too(machine: Machine) -> None:
    """It is not run, and what differs tells why that may not be meant."""
    given = {**web(), "id": "d1"}
    applied(machine, given)

    text = planned(machine, {**given, "options": {"timeout": 90}}).out

    assert "not its id" in text
    assert "  option timeout: 30 -> 90" in text


def test_tool_says_what_it_would_do(machine: Machine) -> None:
    """A file that is not there yet would be made; nothing of that happens, and nothing stays in the state directory."""
    path = machine.folder / "x.json"
    given = {"name": "file", "group": "json-file", "config": {str(path): {"a": 1}}}

    text = planned(machine, given).out

    assert f"dry run of json-file: {path}: " in text
    assert not path.exists()
    assert not machine.state.exists()

    applied(machine, given)
    given["config"] = {str(path): {"a": 2}}
    found = compared(machine, given)
    assert found["differences"][0]["path"].startswith("config")
    assert found["would"]["state"] == "drifted"
    assert found["would"]["changes"][0]["what"] == str(path)


def test_escape_sequences_are_made_harmless(machine: Machine) -> None:
    """A value of a document does not reach the terminal as it is."""
    applied(machine, web(options={"timeout": 30, "artifacts": []}))

    text = planned(
        machine,
        web(
            config=f"{SH}echo one\necho \x1b[2Jtwo\n",
            inputs=[{"name": "port", "value": "\x1b]0;x\x07"}],
        ),
    ).out

    assert "\x1b" not in text
    assert "\x07" not in text


def test_colours_are_for_terminals(machine: Machine) -> None:
    """Old is red, and new is green, as in diff."""
    applied(machine, web())
    given = {"deployments": [web(config=f"{SH}echo one\necho three\n")]}

    plain = machine.apply(given, "--plan", "--diff").out
    forced = machine.apply(given, "--plan", "--diff", CLICOLOR_FORCE="1").out

    assert "\x1b" not in plain
    assert "\x1b[31m-echo two\x1b[0m" in forced
    assert "\x1b[32m+echo three\x1b[0m" in forced


@pytest.mark.parametrize("words", [["--diff"], ["--diff", "--json"]])
def test_differences_are_for_plans(machine: Machine, words: list[str]) -> None:
    """Without --plan, nothing is carried out by mistake."""
    done = machine.apply({"deployments": [web()]}, *words)

    assert done.code == 2
    assert "--diff is for plans" in done.err + done.out
    assert not machine.state.exists()


TEMPLATE = """\
heat_template_version: 2018-08-31
parameters:
  port: {type: string, default: "80"}
  password: {type: string, default: correct-horse-battery, hidden: true}
resources:
  server: {type: OS::Nova::Server, properties: {image: x, flavor: y}}
  config:
    type: OS::Heat::SoftwareConfig
    properties:
      group: script
      inputs: [{name: port}, {name: password}]
      config:
        str_replace:
          params: {PASSWORD: {get_param: password}}
          template: |
            #!/bin/sh
            echo LAST
            : PASSWORD
  web:
    type: OS::Heat::SoftwareDeployment
    properties:
      config: {get_resource: config}
      server: {get_resource: server}
      input_values: {port: {get_param: port}, password: {get_param: password}}
  json:
    type: OS::Heat::SoftwareConfig
    properties:
      group: json-file
      config:
        str_replace:
          params: {PORT: {get_param: port}}
          template: '{"FOLDER/x.json": {"port": "PORT"}}'
  file:
    type: OS::Heat::SoftwareDeployment
    properties: {config: {get_resource: json}, server: {get_resource: server}}
"""


def template(machine: Machine, last: str = "two") -> str:
    """Write the template, and return its name."""
    text = TEMPLATE.replace("FOLDER", str(machine.folder)).replace("LAST", last)
    (machine.folder / "s.yaml").write_text(text)
    return "s.yaml"


def of_stack(machine: Machine, *words: str) -> Done:
    """Run `heat-config-agent WORDS` in the folder of the template."""
    done = run(machine, "heat-config-agent", *words, "--state-dir", str(machine.state))
    assert "Traceback" not in done.err, done.err
    return done


NEW = [
    "config",
    "  config:",
    "    @@ -1,3 +1,3 @@",
    "     #!/bin/sh",
    "    -echo two",
    "    +echo three",
    "     : ***",
    "",
    "web",
    "  input_values.port: 90 -> 80",
    "  input_values.password: changed",
    "",
    "json",
    '  config: {"FOLDER/x.json": {"port": "90"}} -> {"FOLDER/x.json": {"port": "80"}}',
    "",
    "file",
    "  dry run of json-file: FOLDER/x.json: its content differs",
    "    @@ -1,3 +1,3 @@",
    "     {",
    '    -    "port": "90"',
    '    +    "port": "80"',
    "     }",
    "",
]


@pytest.mark.parametrize(
    "words",
    [
        ["plan", "s.yaml"],
        ["apply", "s.yaml", "--plan"],
        ["stack", "preview", "s", "-t", "s.yaml"],
        ["stack", "update", "s", "-t", "s.yaml", "--plan"],
    ],
)
def test_stack_shows_properties_and_parameters_that_fall_back(
    machine: Machine, words: list[str]
) -> None:
    """Each resource has its values, the tools say what they would do, and nothing is done."""
    name = template(machine)
    assert of_stack(machine, "apply", name, "--parameter", "port=90").code == 0
    template(machine, "three")

    done = of_stack(
        machine, *words, "--diff", "--parameter", "password=staple-battery-horse"
    )

    assert done.code == 0, done.err
    begin = done.out.index("\nconfig\n") + 1
    shown = done.out[begin:].replace(str(machine.folder), "FOLDER").splitlines()
    assert [line.rstrip() for line in shown[:-1]] == NEW
    assert (
        "port: 90 → 80 (its default: --parameter port=… keeps another value)"
        in done.out
    )
    for secret in (SECRET, "staple-battery-horse"):
        assert secret not in done.out + done.err
    assert '"90"' in (machine.folder / "x.json").read_text()


def test_stack_has_the_same_facts_in_the_json(machine: Machine) -> None:
    """A new stack has nothing to be compared with, and its tools say what they would do."""
    name = template(machine)

    done = of_stack(machine, "plan", name, "--diff", "--json")

    changes = {each["name"]: each["compared"] for each in done.data["changes"]}
    assert changes["web"] == {
        "with": None,
        "differences": [],
        "note": None,
        "would": None,
    }
    assert changes["file"]["would"]["state"] == "drifted"
    assert not (machine.folder / "x.json").exists()


@pytest.mark.parametrize("kind", ["document", "template"])
def test_source_shows_what_its_newest_revision_would_change(
    machine: Machine, kind: str
) -> None:
    """The revision is fetched, and not put in force."""
    path = machine.folder / ("site.json" if kind == "document" else "s.yaml")
    settings = machine.folder / "agent.conf"
    settings.write_text(
        f"[agent]\nstate_dir = {machine.state}\n[follow site]\nurl = {path}\n"
    )

    def write(last: str) -> None:
        if kind == "template":
            template(machine, last)
        else:
            path.write_text(json.dumps([web(config=f"{SH}echo {last}\n")]))

    def source(*words: str) -> Done:
        done = run(
            machine, "heat-config-agent", "source", *words, "--config", str(settings)
        )
        assert "Traceback" not in done.err, done.err
        return done

    write("two")
    assert source("sync").code == 0
    write("three")
    trees = set(machine.state.rglob("trees/*"))
    assert trees

    done = source("sync", "--plan", "--diff")

    assert done.code == 0, done.err
    assert "-echo two" in done.out
    assert "+echo three" in done.out
    assert "1 source to sync; nothing was done" in done.out
    changes = source("sync", "--plan", "--diff", "--json").data["changes"]
    assert changes[0]["change"] == "sync"
    name = "site/config" if kind == "template" else "site/web"
    compared = {each["name"]: each.get("compared") for each in changes}[name]
    assert [each["path"] for each in compared["differences"]] == ["config"]
    assert set(machine.state.rglob("trees/*")) == trees
    assert source("sync").code == 0
    assert "0 sources to sync" in source("sync", "--plan", "--diff").out


SERVICE = """\
tosca_definitions_version: tosca_simple_yaml_1_3
topology_template:
  inputs: {port: {type: integer, default: 80}}
  node_templates:
    web:
      type: tosca.nodes.Root
      interfaces:
        Standard:
          create:
            implementation: web.sh
            inputs: {port: {get_input: port}}
"""


def test_service_shows_its_scripts_and_inputs(machine: Machine) -> None:
    """A file of an operation is compared line by line."""
    (machine.folder / "s.yaml").write_text(SERVICE)
    script = machine.folder / "web.sh"
    script.write_text(f"{SH}echo two\n")
    assert of_stack(machine, "apply", "s.yaml", "--input", "port=90").code == 0
    script.write_text(f"{SH}echo three\n")

    done = of_stack(machine, "plan", "s.yaml", "--diff")

    begin = done.out.index("\nweb.create\n") + 1
    lines = [line.rstrip() for line in done.out[begin:].splitlines()[:-2]]
    assert lines.pop().startswith("  dry run of tosca: not known: ")
    assert lines == [
        "web.create",
        "  config.files.web.sh:",
        "    @@ -1,2 +1,2 @@",
        "     #!/bin/sh",
        "    -echo two",
        "    +echo three",
        "  input_values.port: 90 -> 80",
    ]


def test_executable_hook_says_what_it_would_do(machine: Machine) -> None:
    """The program that verifies for a hook runs, and not the hook; secrets in its answer are masked."""
    machine.hook("shout", f"{SH}touch {machine.folder}/ran\n")
    answer = json.dumps(
        {
            "state": "drifted",
            "changes": [{"what": "/etc/x", "how": "has KEY", "diff": "-KEY\n+new"}],
        }
    ).replace("KEY", SECRET)
    machine.hook("shout.verify", f"{SH}cat >/dev/null\ncat <<'END'\n{answer}\nEND\n")
    given = web(group="shout", config="x")
    hooks = ["--hooks-dir", str(machine.folder / "hooks")]

    done = machine.apply({"deployments": [given]}, "--plan", "--diff", *hooks)

    assert "dry run of shout: /etc/x: has ***" in done.out
    assert "    -***\n    +new" in done.out
    assert SECRET not in done.out + done.err
    assert not (machine.folder / "ran").exists()
    assert not machine.state.exists()


def test_failed_dry_run_is_a_line_of_the_plan(machine: Machine) -> None:
    """The reason is in the plan, whose exit code is that of a plan."""
    machine.hook("shout", f"{SH}true\n")
    machine.hook("shout.verify", f"{SH}exit 3\n")
    given = web(group="shout", config="x")
    hooks = ["--hooks-dir", str(machine.folder / "hooks")]

    done = machine.apply({"deployments": [given]}, "--plan", "--diff", *hooks)

    assert done.code == 0
    assert "dry run of shout: not known: " in done.out


@pytest.mark.slow
@pytest.mark.skipif(
    shutil.which("ansible-playbook", path=str(BIN)) is None,
    reason="ansible-playbook is missing: pip install ansible-core",
)
def test_new_play_shows_what_it_would_do(machine: Machine) -> None:
    """The check mode of ansible answers before anything has run, with the lines that it would write."""
    path = machine.folder / "motd"
    play = {
        "hosts": "localhost",
        "connection": "local",
        "gather_facts": False,
        "vars": {"ansible_python_interpreter": sys.executable},
        "tasks": [{"copy": {"content": "hello {{ who }}\n", "dest": str(path)}}],
    }
    given = web(
        group="ansible",
        config=json.dumps([play]),
        inputs=[{"name": "who", "value": "world"}],
    )

    text = planned(machine, given).out

    assert "dry run of ansible: copy: would change" in text
    assert "    +hello world" in text
    assert not path.exists()
    assert not machine.state.exists()
