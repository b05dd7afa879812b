"""Secrets of stacks: parameters that are hidden or have a telling name, wherever their values go.

Whatever the commands print is searched for them after each test, and so are the listings of each stack, see `planted`.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from support import planted
from support.machine import Done, Machine

SECRET = f"{planted.WORD}'s & so on"
OTHER = f"{planted.WORD}-other"

HEAD = """\
heat_template_version: 2018-08-31
parameters:
  pw: {type: string, hidden: true}
  db_password: {type: string}
  map: {type: json, hidden: true, default: {}}
resources:
"""

CONFIG = """\
  config:
    type: OS::Heat::SoftwareConfig
    properties:
      group: script
      inputs: [{name: other}, {name: address}, {name: plain}]
      outputs: [{name: connection}, {name: trouble, error_output: true}]
      config:
        str_replace:
          params: {PUT_IN: {get_param: pw}}
          template: |
            #!/bin/bash
            # PUT_IN
            set -x
            echo "$other"
            printf '%q\\n' "$other"
            printf 'user:%s' "$other" | base64
            echo "$address" >&2
            echo "$plain"
"""

TAIL = """
  deployment:
    type: OS::Heat::SoftwareDeployment
    properties:
      config: {get_resource: config}
      server: {get_resource: server}
      input_values:
        other: {get_param: pw}
        address: {list_join: ['', ['db://user:', {get_param: pw}, '@host']]}
        plain: {get_param: db_password}
  server: {type: OS::Nova::Server, properties: {flavor: small}}
  value: {type: OS::Heat::Value, properties: {value: {get_param: pw}}}
"""

USED = """
  reader:
    type: OS::Heat::SoftwareConfig
    properties:
      group: script
      inputs: [{name: connection}]
      config: |
        #!/bin/sh
        printf %s "$connection" >LOG
        echo "$connection"
  used:
    type: OS::Heat::SoftwareDeployment
    properties:
      config: {get_resource: reader}
      server: {get_resource: server}
      input_values: {connection: {get_attr: [deployment, connection]}}
outputs:
  connection: {value: {get_attr: [deployment, connection]}}
  printed: {value: {get_attr: [deployment, deploy_stdout]}}
  given: {value: {get_param: pw}}
  wrong: {value: {str_split: [',', {get_attr: [value, value]}, 7]}}
"""


class Stack:
    """The commands about one stack, whose parameters are in an environment."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.log = machine.folder / "log"
        self.environment = machine.folder / "e.json"
        self.environment.write_text(
            json.dumps({"parameters": {"pw": SECRET, "db_password": OTHER}})
        )

    def template(self, text: str) -> Path:
        """Write the template."""
        path = self.machine.folder / "t.yaml"
        path.write_text(HEAD + text.replace("LOG", str(self.log)))
        return path

    def __call__(self, *words: str, program: str = "heat-config-agent") -> Done:
        """Run a command."""
        done = self.machine.command(program, words, {})
        assert "Traceback" not in done.err
        return done

    def stack(self, *words: str) -> Done:
        """Run a command about stacks."""
        return self("stack", *words, "--state-dir", str(self.machine.state))

    def create(self, text: str, *words: str) -> Done:
        """Make the stack."""
        return self.stack(
            "create",
            "-t",
            str(self.template(text)),
            "-e",
            str(self.environment),
            *words,
            "t",
        )

    def deployments(self) -> list[Done]:
        """Look at all of its deployments as `heat-config-apply` says that one should."""
        state = ("--state-dir", str(self.machine.state / "stacks/t"))
        ids = [
            each["id"] for each in self("status", "--json", *state).data["deployments"]
        ]
        return [
            self(*words, *state, each)
            for each in ids
            for words in (("log",), ("show",), ("show", "--json"))
        ]


@pytest.fixture
def stack(machine: Machine) -> Stack:
    """The commands about one stack."""
    return Stack(machine)


@pytest.mark.slow
@pytest.mark.fault(
    4,
    "a hidden parameter goes into a script, into its inputs under other names, and out of it in many forms",
    "no command shows it, neither those about stacks, nor `show` and `log`; the next deployment gets it as it is",
)
def test_no_command_shows_a_secret_parameter(stack: Stack) -> None:
    """No command shows a hidden parameter, but an output that the template makes of it is shown."""
    text = f'{CONFIG}            printf %s "$address" >$heat_outputs_path.connection\n{TAIL}{USED}'
    assert stack.create(text, "--dry-run").code == 0
    assert stack.create(text).code == 0
    assert stack.log.read_text() == f"db://user:{SECRET}@host"
    looked = stack.deployments()
    assert [each.code for each in looked] == [0] * 6
    assert "echo ***" in looked[0].err + looked[3].err
    for words in (
        *(
            ("show", "t"),
            ("show", "t", "--json"),
            ("check", "t", "--json"),
            ("suspend", "t", "--json"),
        ),
        *(
            ("resume", "t", "--json"),
            ("resource", "show", "t", "value"),
            ("resource", "show", "t", "deployment"),
        ),
        *(
            ("resource", "show", "t", "deployment", "--json"),
            ("output", "show", "t", "--all", "--json"),
        ),
        *(
            ("output", "show", "t", "given"),
            ("event", "list", "t"),
            ("graph", "t", "--timeline"),
        ),
        (
            "preview",
            "t",
            "-t",
            str(stack.template(text + " ")),
            "-e",
            str(stack.environment),
        ),
        (
            "update",
            "t",
            "-t",
            str(stack.template(text + " ")),
            "-e",
            str(stack.environment),
            "--dry-run",
        ),
        ("delete", "t", "-y", "--json"),
    ):
        done = stack.stack(*words)
        assert done.code == 0, done
        if words[-1] == "--json" and words[0] in ("show", "check", "suspend", "resume"):
            found = done.data["parameters"]
            assert (found["pw"], found["db_password"]) == ("***", "***")


FAILURES = {
    "its exit code": '            echo "cannot log in: $address" >&2; exit 3\n',
    "its error output": '            echo "cannot log in: $plain" >$heat_outputs_path.trouble\n',
    "a long last line": "            printf '%190s%s' x \"$address\" >$heat_outputs_path.trouble\n",
}


@pytest.mark.slow
@pytest.mark.parametrize("script", FAILURES.values(), ids=FAILURES)
@pytest.mark.parametrize("words", [[], ["--json"]], ids=["text", "JSON"])
def test_reasons_of_failures_hide_secret_parameters(
    stack: Stack, script: str, words: list[str]
) -> None:
    """Why a deployment has failed is said in several places."""
    done = stack(
        "--state-dir",
        str(stack.machine.state),
        *words,
        "-e",
        str(stack.environment),
        str(stack.template(CONFIG + script + TAIL)),
        program="heat-config-apply",
    )
    assert done.code == 1
    assert any("***" in each.out + each.err for each in stack.deployments())
    if "exit" not in script:  # of that nothing more is said than the number
        assert "***" in done.out
        assert "***" in stack.stack("event", "list", "t").out
        assert "***" in stack.stack("show", "t").out


SHORT = """\
heat_template_version: 2018-08-31
parameters:
  pw: {type: string, hidden: true}
resources:
  config:
    type: OS::Heat::SoftwareConfig
    properties:
      group: script
      inputs: [{name: other}]
      outputs: [{name: {list_join: ['-', [of, {get_param: pw}]]}}]
      config: |
        #!/bin/sh
        echo "printed $other"
        echo "complained $other" >&2
  deployment:
    type: OS::Heat::SoftwareDeployment
    properties:
      config: {get_resource: config}
      server: {get_resource: server}
      input_values: {other: {get_param: pw}}
  missing:
    type: OS::Heat::SoftwareConfig
    properties: {group: {list_join: [' ', [tool, {get_param: pw}]]}, config: x}
  failing:
    type: OS::Heat::SoftwareDeployment
    properties: {config: {get_resource: missing}, server: {get_resource: server}}
  server: {type: OS::Nova::Server, properties: {flavor: small}}
"""


@pytest.mark.slow
@pytest.mark.fault(
    4,
    "a hidden parameter is short, or a plain word: in what a config prints, its tool, the name of an output",
    "neither `log` nor `show` shows it",
)
@pytest.mark.parametrize("secret", ["swordfish", "hunter2", "a1b2"])
def test_short_secret_parameter_is_masked_where_its_deployment_is_shown(
    machine: Machine, secret: str
) -> None:
    """It is masked from four characters on, as an input that a document hides; no other name is made of a tool's."""
    stack = Stack(machine)
    template = machine.folder / "t.yaml"
    template.write_text(SHORT)
    words = (
        "--state-dir",
        str(machine.state),
        "--parameter",
        f"pw={secret}",
        str(template),
    )
    done = stack(*words, program="heat-config-apply")
    assert done.code == 1
    assert secret not in done.out + done.err
    looked = stack.deployments()
    assert "printed ***" in "".join(each.out for each in looked)
    for each in looked:
        assert secret not in each.out + each.err, each


RUNTIME = {
    "a value that is known only then": """\
  r: {type: OS::Heat::RandomString, properties: {length: {get_attr: [value, value]}}}
""",
    "made of one": """\
  r:
    type: OS::Heat::RandomString
    properties: {character_classes: [{class: digits, min: {get_attr: [value, value]}}]}
""",
    "in a nested template": "  r: {type: child.yaml, properties: {n: {get_attr: [value, value]}}}\n",
    "of a group": """\
  r:
    type: OS::Heat::ResourceGroup
    properties: {count: {get_attr: [value, value]}, resource_def: {type: OS::Heat::None}}
""",
}

CHILD = f"""\
heat_template_version: 2018-08-31
parameters:
  n: {{type: string}}
  own: {{type: string, hidden: true, default: {planted.WORD}-own}}
resources:
  value: {{type: OS::Heat::Value, properties: {{value: {{get_param: own}}}}}}
  r: {{type: OS::Heat::RandomString, properties: {{length: {{get_attr: [value, value]}}}}}}
"""


@pytest.mark.slow
@pytest.mark.parametrize("resource", RUNTIME.values(), ids=RUNTIME)
def test_no_failure_of_a_resource_shows_a_secret_parameter(
    stack: Stack, resource: str
) -> None:
    """The failure of a resource shows no hidden parameter, also not one of a child stack."""
    (stack.machine.folder / "child.yaml").write_text(CHILD)
    value = "  value: {type: OS::Heat::Value, properties: {value: {get_param: pw}}}\n"
    for words in ((), ("--json",)):
        done = stack.create(value + resource, *words)
        assert done.code == 1
        assert "***" in done.out + done.err
        assert "***" in stack.stack("event", "list", "t").out
        assert stack.stack("delete", "t", "-y").code == 0


COMMON = """\
heat_template_version: 2018-08-31
parameters:
  word: {type: string, hidden: true, default: demo}
  number: {type: number, hidden: true, default: 8080}
resources:
  config:
    type: OS::Heat::SoftwareConfig
    properties:
      group: script
      outputs: [{name: address}]
      config: |
        #!/bin/sh
        printf 'stack: demo-host:18080' >$heat_outputs_path.address
        echo demo-host:18080
  deployment:
    type: OS::Heat::SoftwareDeployment
    properties: {config: {get_resource: config}, server: {get_resource: server}}
  server: {type: OS::Nova::Server, properties: {flavor: small}}
  reader:
    type: OS::Heat::Value
    properties: {value: [{get_attr: [deployment, address]}, {get_attr: [deployment, deploy_stdout]}]}
outputs:
  host: {value: demo-host}
  port: {value: 18080}
  handed: {value: {get_attr: [reader, value]}}
  word: {value: {get_param: word}}
  both: {value: [{get_param: word}, demos, 8080]}
"""


@pytest.mark.slow
def test_a_common_hidden_value_changes_no_other_value(machine: Machine) -> None:
    """Values that contain it, and values that one deployment hands to another, are exact; only itself is hidden."""
    stack = Stack(machine)
    (machine.folder / "t.yaml").write_text(COMMON)
    assert stack.stack("create", "-t", str(machine.folder / "t.yaml"), "t").code == 0
    handed = ["stack: demo-host:18080", "demo-host:18080\n"]
    expected = {
        "host": "demo-host",
        "port": 18080,
        "handed": handed,
        "word": "***",
        "both": ["***", "demos", "***"],
    }
    for words in (("output", "show", "t", "--all", "--json"), ("show", "t", "--json")):
        listed = stack.stack(*words).data["outputs"]
        assert {each["output_key"]: each["output_value"] for each in listed} == expected
    for name, value in expected.items():
        found = json.loads(stack.stack("output", "show", "t", name, "--json").out)[
            "data"
        ]
        assert found["output_value"] == value
    assert stack.stack("output", "show", "t", "word", "--reveal").out == "demo\n"
    assert stack.stack("output", "show", "t", "port").out == "18080\n"


@pytest.mark.shows_secrets("an output that is asked for by its name is shown as it is")
def test_an_output_that_is_asked_for_is_exact(stack: Stack) -> None:
    """Listings mask the secret inside it."""
    text = f'{CONFIG}            printf %s "$address" >$heat_outputs_path.connection\n{TAIL}{USED}'
    assert stack.create(text).code == 0
    assert (
        stack.stack("output", "show", "t", "connection").out
        == f"db://user:{SECRET}@host\n"
    )
    listed = stack.stack("output", "show", "t", "--all").out
    assert SECRET not in listed
    assert "connection = db://user:***@host" in listed
