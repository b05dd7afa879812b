"""Each hook in the place of heat-agents' hook: JSON on standard input, variables, a tool that records its calls."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from support import loaded
from support.machine import BIN, Machine

TOOL = """\
#!{python} -IS
import json, os, sys

with open({record!r}, "a") as record:
    call = {{"argv": sys.argv[1:], "environment": dict(os.environ), "cwd": os.getcwd()}}
    record.write(json.dumps(call) + "\\n")
if sys.argv[1:2] not in (["ps"], ["container"]):
    sys.stdout.write(os.environ.get("TOOL_STDOUT", "tool succeeded"))
    sys.stderr.write(os.environ.get("TOOL_STDERR", "thing happened"))
if os.environ.get("TOOL_OUTPUT"):
    prefix = os.environ.get("heat_outputs_path") or os.environ["FACTER_heat_outputs_path"]
    with open(prefix + ".first", "w") as file:
        file.write(os.environ["TOOL_OUTPUT"])
sys.exit(0 if sys.argv[1:2] == ["ps"] else int(os.environ.get("TOOL_CODE", "0")))
"""

INPUTS = [{"name": "foo", "value": "bar"}, {"name": "another", "value": "input"}]
OUTPUTS = [{"name": "first"}, {"name": "second"}]
SUCCESS = {
    "deploy_stdout": "tool succeeded",
    "deploy_stderr": "thing happened",
    "deploy_status_code": 0,
}


class Hooks:
    """The hooks as links in a hook directory of heat-agents, and their tool."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.tool = folder / "tool"
        self._record = folder / "record"
        python = folder / "python"  # whatever letters the path of the checkout has
        python.symlink_to(sys.executable)
        self.tool.write_text(TOOL.format(python=python, record=str(self._record)))
        self.tool.chmod(0o755)
        (folder / "hooks").mkdir()
        self.environment = {
            "PATH": Machine(folder).environment["PATH"],
            "HOME": str(folder),
            **loaded.STARTED,
            "HEAT_ANSIBLE_CMD": str(self.tool),
            "HEAT_APPLY_CONFIG_CMD": str(self.tool),
            "HEAT_CFN_INIT_CMD": str(self.tool),
            "HEAT_CFN_INIT_LAST_METADATA_DIR": str(folder / "metadata"),
            "HEAT_CFN_INIT_LOG": str(folder / "cfn-init.log"),
            "HEAT_DOCKER_CMD": str(self.tool),
            "HEAT_DOCKER_COMPOSE_CMD": str(self.tool),
            "HEAT_HIERA_CONFIG": str(folder / "hiera.yaml"),
            "HEAT_HIERA_ELEMENT_CHECK_CMD": "/nowhere/os-apply-config",
            "HEAT_PUPPET_CMD": str(self.tool),
            "HEAT_PUPPET_HIERA_DATADIR": str(folder / "hieradata"),
            "HEAT_PUPPET_LOGDIR": str(folder / "logs"),
        }

    def run(
        self, tool: str, text: str, **environment: str
    ) -> subprocess.CompletedProcess[str]:
        """Call the hook of a tool with this text on its standard input."""
        link = self.folder / "hooks" / tool
        if not link.is_symlink():
            link.symlink_to(BIN / "heat-config-hook")
        variable = f"HEAT_{tool.upper().replace('-', '_')}"
        places = {
            f"{variable}_WORKING": str(self.working),
            f"{variable}_OUTPUTS": str(self.outputs),
        }
        return loaded.hook(link, text, {**places, **self.environment, **environment})

    def reply(
        self, tool: str, deployment: Mapping[str, object], **environment: str
    ) -> dict[str, Any]:
        """Carry out a deployment, and return the reply."""
        done = self.run(tool, json.dumps(deployment), **environment)
        assert (done.returncode, done.stderr) == (0, "")
        value = json.loads(done.stdout)
        assert isinstance(value, dict)
        return value

    def calls(self) -> list[dict[str, Any]]:
        """Return the recorded calls of the tool."""
        return (
            [json.loads(line) for line in self._record.read_text().splitlines()]
            if self._record.exists()
            else []
        )

    @property
    def call(self) -> dict[str, Any]:
        """The only recorded call of the tool."""
        [call] = self.calls()
        return call

    @property
    def working(self) -> Path:
        """The working folder of every hook."""
        return self.folder / "working"

    @property
    def outputs(self) -> Path:
        """The folder of outputs of every hook."""
        return self.folder / "outputs"


@pytest.fixture
def hooks(tmp_path: Path) -> Hooks:
    """Return the hooks, which work below a temporary folder."""
    return Hooks(tmp_path)


def deployment(config: object, **fields: object) -> dict[str, object]:
    """Return a deployment without the keys that may be missing."""
    return {
        "id": "1234",
        "inputs": INPUTS,
        "outputs": OUTPUTS,
        "config": config,
        **fields,
    }


CONFIGS: dict[str, object] = {
    "ansible": "- hosts: localhost\n",
    "apply-config": "",
    "cfn-init": {"config": {}},
    "docker-cmd": {"web": {"image": "nginx"}},
    "docker-compose": {"web": {"image": "nginx"}},
    "puppet": "notice('x')",
    "script": "",
}


def config_of(tool: str, hooks: Hooks) -> object:
    """Return a config for a tool; the script is the recording tool itself."""
    return hooks.tool.read_text() if tool == "script" else CONFIGS[tool]


@pytest.mark.parametrize("tool", CONFIGS)
def test_reply_of_a_success_has_the_output_of_the_tool(hooks: Hooks, tool: str) -> None:
    """The output of the tool is in the reply byte for byte, also without a newline at its end, and nothing else."""
    name = "1234" if tool != "docker-compose" else "site"
    reply = hooks.reply(tool, deployment(config_of(tool, hooks), name=name))
    assert reply == SUCCESS


@pytest.mark.parametrize("tool", CONFIGS)
def test_reply_of_a_failure_has_the_exit_code_and_output(
    hooks: Hooks, tool: str
) -> None:
    """It has the exit code and the output of the tool; our own sentences are on lines of their own."""
    reply = hooks.reply(
        tool, deployment(config_of(tool, hooks), name="site"), TOOL_CODE="4"
    )
    assert reply["deploy_status_code"] == 4
    assert reply["deploy_stdout"] == "tool succeeded"
    first, *rest = reply["deploy_stderr"].splitlines()
    assert first == "thing happened"
    ours = {
        "cfn-init": ["cfn-init failed with status 4"],
        "docker-cmd": ["web failed: its exit code is 4, expected 0"],
    }
    assert rest == ours.get(tool, [])


@pytest.mark.parametrize("tool", ["apply-config", "cfn-init", "puppet", "script"])
def test_outputs_are_the_files_that_the_tool_has_written(
    hooks: Hooks, tool: str
) -> None:
    """A declared output is the file that the tool has written; one without a file is not in the reply."""
    reply = hooks.reply(
        tool, deployment(config_of(tool, hooks)), TOOL_OUTPUT=" as it is \n"
    )
    assert reply == {**SUCCESS, "first": " as it is \n"}


@pytest.mark.parametrize("tool", [*CONFIGS, "hiera", "json-file"])
@pytest.mark.parametrize("text", ["{::::", "", "[]"])
def test_input_that_is_not_a_deployment(hooks: Hooks, tool: str, text: str) -> None:
    """The exit code is 1, no reply is printed, and the tool is not called."""
    done = hooks.run(tool, text)
    assert (done.returncode, done.stdout, hooks.calls()) == (1, "", [])


@pytest.mark.parametrize("tool", [tool for tool in CONFIGS if tool != "apply-config"])
def test_empty_config_succeeds(hooks: Hooks, tool: str) -> None:
    """There is nothing to do, which is a success with an explicit status code."""
    reply = hooks.reply(tool, deployment(""))
    assert (reply["deploy_stdout"], reply["deploy_status_code"], hooks.calls()) == (
        "",
        0,
        [],
    )


def test_script_runs_as_by_heat_agents(hooks: Hooks) -> None:
    """The path WORKING/ID is called in WORKING, with the inputs and `heat_outputs_path` as variables."""
    hooks.reply("script", deployment(hooks.tool.read_text()))
    assert (hooks.call["argv"], hooks.call["cwd"]) == ([], str(hooks.working))
    assert (hooks.working / "1234").read_text() == hooks.tool.read_text()
    environment = hooks.call["environment"]
    assert (environment["foo"], environment["another"]) == ("bar", "input")
    assert environment["heat_outputs_path"] == str(hooks.outputs / "1234")


@pytest.mark.parametrize(
    ("options", "arguments"),
    [
        ({}, []),
        ({"tags": "abc,def"}, ["--tags", "abc,def"]),
        ({"skip_tags": "abc", "tags": "def"}, ["--skip-tags", "abc", "--tags", "def"]),
        ({"modulepath": "/opt/modules"}, ["--module-path", "/opt/modules"]),
    ],
)
def test_playbook_runs_as_by_heat_agents(
    hooks: Hooks, options: dict[str, object], arguments: list[str]
) -> None:
    """The playbook and the variables have heat-agents' names; tags and modules are arguments."""
    hooks.reply("ansible", deployment("- hosts: all\n", options=options))
    *argv, variables = hooks.call["argv"]
    playbook = hooks.working / "1234_playbook.yaml"
    # heat-agents' `localhost,` would use ssh
    assert Path(argv.pop(1)).name == "this machine.ini"
    assert argv == ["-i", *arguments, str(playbook), "--extra-vars"]
    assert playbook.read_text() == "- hosts: all\n"
    assert Path(variables.removeprefix("@")).name == "1234_variables.json"


def test_inventory_is_passed_to_ansible(hooks: Hooks) -> None:
    """An option names a file in the working folder; the variable names any inventory."""
    hooks.working.mkdir()
    (hooks.working / "hosts").write_text("localhost\n")
    hooks.reply("ansible", deployment("- hosts: all\n", options={"inventory": "hosts"}))
    hooks.reply(
        "ansible", deployment("- hosts: all\n"), HEAT_ANSIBLE_INVENTORY="one,two"
    )
    assert [call["argv"][:2] for call in hooks.calls()] == [
        ["-i", str(hooks.working / "hosts")],
        ["-i", "one,two"],
    ]


@pytest.mark.parametrize(
    ("options", "arguments"),
    [
        ({}, []),
        ({"modulepath": "/opt/modules"}, ["--modulepath", "/opt/modules"]),
        ({"tags": "package,file"}, ["--tags", "package,file"]),
    ],
)
def test_manifest_is_applied_as_by_heat_agents(
    hooks: Hooks, options: dict[str, object], arguments: list[str]
) -> None:
    """The command line is heat-agents'; the inputs are facts; exit code 2 says that something was changed."""
    reply = hooks.reply(
        "puppet", deployment("notice('x')", options=options), TOOL_CODE="2"
    )
    assert reply == SUCCESS
    manifest = hooks.working / "1234.pp"
    usual = [
        "apply",
        "--color",
        "false",
        "--detailed-exitcodes",
        "--logdest",
        "console",
    ]
    assert hooks.call["argv"] == [*usual, *arguments, str(manifest)]
    assert manifest.read_text() == "notice('x')"
    environment = hooks.call["environment"]
    assert (environment["FACTER_foo"], environment["FACTER_another"]) == (
        "bar",
        "input",
    )
    assert environment["FACTER_heat_outputs_path"] == str(hooks.outputs / "1234")


def test_inputs_are_in_the_hiera_folder_of_puppet(hooks: Hooks) -> None:
    """The inputs are in Hiera's folder, under the name of the deployment."""
    options = {"enable_hiera": True, "enable_facter": False}
    hooks.reply("puppet", deployment("notice('x')", name="web", options=options))
    assert (
        json.loads((hooks.folder / "hieradata" / "heat_config_web.json").read_text())[
            "foo"
        ]
        == "bar"
    )
    environment = hooks.call["environment"]
    assert environment["FACTER_deploy_config_name"] == "web"
    assert "FACTER_foo" not in environment


def test_cfn_init_reads_the_config_as_last_metadata(hooks: Hooks) -> None:
    """The config is in `last_metadata`, and the tool has no arguments."""
    hooks.reply("cfn-init", deployment({"config": {"files": {}}}))
    metadata = json.loads((hooks.folder / "metadata" / "last_metadata").read_text())
    assert metadata == {"AWS::CloudFormation::Init": {"config": {"files": {}}}}
    assert hooks.call["argv"] == []


def test_project_is_in_the_folder_of_the_deployment(hooks: Hooks) -> None:
    """The project is in the folder of the deployment's name; a deployment without an id is enough."""
    files = [
        {"file_name": "./common.env", "content": "xxxxx"},
        {"file_name": "./test.env", "content": "yyyy"},
    ]
    config = {"web": {"name": "x", "env_file": ["./common.env", "./test.env"]}}
    given = {
        "name": "abcdef001",
        "config": config,
        "inputs": [{"name": "env_files", "value": str(files)}],
    }
    assert hooks.reply("docker-compose", given) == SUCCESS
    folder = hooks.working / "abcdef001"
    assert (hooks.call["argv"], hooks.call["cwd"]) == (
        ["up", "-d", "--no-build"],
        str(folder),
    )
    assert (folder / "docker-compose.yml").exists()
    assert [(folder / name).read_text() for name in ("common.env", "test.env")] == [
        "xxxxx",
        "yyyy",
    ]


def test_containers_run_as_by_heat_agents(hooks: Hooks) -> None:
    """A container may have a `name` and keys that docker-cmd does not know: they have no effect but a warning."""
    config = {
        "db": {
            "name": "x",
            "image": "xxx",
            "privileged": False,
            "environment": ["foo=bar"],
            "start_order": 0,
        },
        "web-ls": {
            "action": "exec",
            "start_order": 2,
            "command": ["web", "/bin/ls", "-l"],
        },
        "web": {
            "name": "y",
            "image": "yyy",
            "start_order": 1,
            "net": "host",
            "user": "root",
            "colour": "green",
        },
    }
    inputs = [
        {"name": "deploy_stack_id", "value": "the_stack"},
        {"name": "deploy_resource_name", "value": "the_one"},
    ]
    reply = hooks.reply("docker-cmd", deployment(config, inputs=inputs))
    assert (reply["deploy_status_code"], reply["deploy_stdout"]) == (
        0,
        "tool succeeded" * 3,
    )
    warnings = [
        line
        for line in reply["deploy_stderr"].splitlines()
        if line.startswith("warning: ")
    ]
    assert [line.split(" is ignored")[0] for line in warnings] == [
        "warning: config.db.name",
        "warning: config.web.name",
        "warning: config.web.colour",
    ]
    assert reply["deploy_stderr"].splitlines()[3:] == ["thing happened" * 3]
    listing, *runs = (call["argv"] for call in hooks.calls())
    assert [argv[0] for argv in (listing, *runs)] == ["ps", "run", "run", "exec"]
    for argv, name, image in (runs[0], "db", "xxx"), (runs[1], "web", "yyy"):
        labels = {
            argument.removeprefix("--label=")
            for argument in argv
            if argument.startswith("--label=")
        }
        expected = {
            "deploy_stack_id=the_stack",
            "deploy_resource_name=the_one",
            "config_id=1234",
        }
        assert labels == {*expected, f"container_name={name}", "managed_by=docker-cmd"}
        assert f"--name={name}" in argv
        assert "--detach=true" in argv
        assert argv[-1] == image
    assert runs[2] == ["exec", "web", "/bin/ls", "-l"]


def test_exit_codes_of_docker_cmd(hooks: Hooks) -> None:
    """An exit code that the config lists is a success."""
    config = {
        "web-ls": {
            "action": "exec",
            "command": ["web", "/bin/ls"],
            "exit_codes": [0, 1],
        }
    }
    assert hooks.reply("docker-cmd", deployment(config), TOOL_CODE="1") == SUCCESS


@pytest.mark.parametrize("action", ["CREATE", "UPDATE"])
def test_json_file_writes_the_files_of_heat_agents(hooks: Hooks, action: str) -> None:
    """The reply is empty, and the files have heat-agents' form."""
    path = hooks.folder / "etc" / "foo.json"
    inputs = [{"name": "deploy_action", "value": action}]
    reply = hooks.reply(
        "json-file", deployment({str(path): {"b": [1], "a": "x"}}, inputs=inputs)
    )
    assert reply == {"deploy_stdout": "", "deploy_stderr": "", "deploy_status_code": 0}
    assert path.read_text() == '{\n    "a": "x",\n    "b": [\n        1\n    ]\n}'


def test_hiera_files_have_the_form_of_heat_agents(hooks: Hooks) -> None:
    """The reply is empty, and the files have heat-agents' form."""
    config = {
        "hierarchy": ["compute", "common"],
        "datafiles": {"compute": {"foo": "bar"}},
    }
    reply = hooks.reply("hiera", deployment(config))
    assert reply == {"deploy_stdout": "", "deploy_stderr": "", "deploy_status_code": 0}
    assert (
        hooks.folder / "hieradata" / "compute.json"
    ).read_text() == '{\n    "foo": "bar"\n}'
    assert (hooks.folder / "hiera.yaml").read_text() == (
        f"\n---\n:backends:\n  - json\n:json:\n  :datadir: {hooks.folder}/hieradata\n"
        ":hierarchy:\n  - compute\n  - common\n"
    )
