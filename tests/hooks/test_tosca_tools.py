"""The `tosca` hook with processors that are tools: each gets the laid-out file, with the files beside it."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from heat_config_hooks import needs
from support.containers import IMAGE, LASTING, Podman
from support.driver import Driver
from support.machine import deployment
from support.puppet import real
from support.tools import need_salt

pytestmark = [
    pytest.mark.slow,
    pytest.mark.parametrize("driver", ["apply"], indirect=True),
]

RESOURCE = {"deploy_stack_id": "shop/5a0e", "deploy_resource_name": "web.create"}


def operation(identity: str, config: dict[str, Any], **fields: Any) -> dict[str, Any]:
    """Return a deployment of the tool."""
    return deployment(identity, json.dumps(config), group="tosca", **fields)


PLAYBOOK = """\
- hosts: all
  gather_facts: false
  tasks:
    - ansible.builtin.include_tasks: tasks/more.yaml
    - ansible.builtin.copy: {content: "{{ limits.soft + 1 }} {{ greeting }}\\n", dest: "{{ log }}", mode: "0644"}
    - ansible.builtin.copy: {src: page.txt, dest: "{{ log }}.page", mode: "0644"}
"""

MORE = """\
- ansible.builtin.set_fact:
    url: {port: 80, tags: "{{ tags_wanted }}"}
    other: not wanted
- ansible.builtin.set_fact: {"{{ item }}": "from a loop"}
  loop: [first]
"""


def test_ansible_gets_inputs_with_types_and_its_facts_are_outputs(
    driver: Driver, tmp_path: Path
) -> None:
    """The playbook finds the tasks and files beside it; an output that it writes to a file counts as well."""
    files = {
        "books/main.yaml": PLAYBOOK,
        "books/tasks/more.yaml": MORE,
        "books/files/page.txt": "a page\n",
    }
    config = {"primary": "books/main.yaml", "processor": "ansible", "files": files}
    inputs = {
        "limits": {"soft": 1},
        "greeting": "hello",
        "tags_wanted": ["a"],
        "log": f"{tmp_path}/log",
    }

    values = driver.run(
        operation(
            "d1",
            config,
            inputs=inputs,
            outputs=["url", "first", "missing", "tosca.run"],
        )
    )

    assert values["deploy_status_code"] == 0, values
    assert (values["url"], values["first"]) == (
        {"port": 80, "tags": ["a"]},
        "from a loop",
    )
    assert values["tosca.run"]
    assert "missing" not in values
    assert (tmp_path / "log").read_text() == "2 hello\n"
    assert (tmp_path / "log.page").read_text() == "a page\n"

    failing = {
        **config,
        "files": {
            **files,
            "books/main.yaml": f"{PLAYBOOK}    - ansible.builtin.fail: {{msg: no cheese}}\n",
        },
    }
    failed = driver.run(operation("d2", failing, inputs=inputs, outputs=["url"]))
    assert failed["deploy_status_code"] == 2
    assert "no cheese" in failed["deploy_stderr"]
    assert "url" not in failed


MANIFEST = """\
include site
file { $log: content => "${greeting} ${limits['soft']}\\n" }
exec { "/bin/sh -c 'echo made >${heat_outputs_path}.url'": }
"""


def test_puppet_gets_facts_and_the_modules_beside_the_manifest(
    driver: Driver, tmp_path: Path
) -> None:
    """A run of puppet that changes something is a success."""
    driver.environment["PATH"] = f"{real(tmp_path).command.parent}:{os.environ['PATH']}"
    driver.environment["HEAT_PUPPET_LOGDIR"] = str(tmp_path / "logs")
    files = {
        "site/main.pp": MANIFEST,
        "site/modules/site/manifests/init.pp": 'class site { file { "${log}.module": content => "module\\n" } }\n',
    }
    config = {"primary": "site/main.pp", "processor": "puppet", "files": files}
    inputs = {"greeting": "hello", "limits": {"soft": 1}, "log": f"{tmp_path}/log"}

    values = driver.run(operation("d1", config, inputs=inputs, outputs=["url"]))

    assert values["deploy_status_code"] == 0, values
    assert values["url"] == "made\n"
    assert (tmp_path / "log").read_text() == "hello 1\n"
    assert (tmp_path / "log.module").read_text() == "module\n"


STATES = """\
include: [more]
log:
  file.managed:
    - name: {{ pillar['log'] }}
    - source: salt://page.txt
    - mode: '0644'
"""


def test_salt_gets_pillar_and_the_states_beside_the_file(
    driver: Driver, tmp_path: Path
) -> None:
    """A failed state is a failure."""
    driver.environment["PATH"] = f"{need_salt()}:{os.environ['PATH']}"
    driver.environment["HEAT_SALT_MINION_CONFIG"] = str(tmp_path / "etc/minion")
    more = "more: {file.managed: [{name: {{ pillar['log'] }}.more}, {contents: {{ pillar['greeting'] }}}]}\n"
    files = {
        "states/main.sls": STATES,
        "states/more.sls": more,
        "states/page.txt": "a page\n",
    }
    config = {"primary": "states/main.sls", "processor": "salt", "files": files}
    inputs = {"greeting": "hello", "log": f"{tmp_path}/log"}

    values = driver.run(operation("d1", config, inputs=inputs))

    assert values["deploy_status_code"] == 0, values
    assert (tmp_path / "log").read_text() == "a page\n"
    assert (tmp_path / "log.more").read_text() == "hello\n"


CHEF = """#!/bin/sh
'''exec' "{python}" -I "$0" "$@"
' '''
# Stands in for chef-client: prints what it is given.
import json, sys
config, node = sys.argv[3], json.load(open(sys.argv[5]))
kitchen = [line for line in open(config) if line.startswith("cookbook_path")][0].split("'")[1]
for each in node.pop("run_list"):
    print(open(kitchen + "/" + each[7:-1] + "/recipes/default.rb").read().strip(), node["greeting"])
"""


@pytest.mark.parametrize(
    ("primary", "files"),
    [
        (
            "kitchen/run.json",
            {
                "kitchen/run.json": '["recipe[web]"]',
                "kitchen/cookbooks/web/recipes/default.rb": "# web",
            },
        ),
        ("kitchen/web.rb", {"kitchen/web.rb": "# web"}),
    ],
)
def test_chef_gets_a_run_list_or_a_recipe(
    driver: Driver, tmp_path: Path, primary: str, files: dict[str, str]
) -> None:
    """The kitchen is the folder of the file; a recipe alone becomes a cookbook."""
    chef = tmp_path / "chef-client"
    chef.write_text(CHEF.format(python=sys.executable))
    chef.chmod(0o755)
    driver.environment["HEAT_CHEF_CMD"] = str(chef)

    values = driver.run(
        operation(
            "d1",
            {"primary": primary, "processor": "chef", "files": files},
            inputs={"greeting": "hello"},
        )
    )

    assert (values["deploy_status_code"], values["deploy_stdout"]) == (
        0,
        "# web hello\n",
    )


def test_a_container_runs_until_the_delete(driver: Driver, podman: Podman) -> None:
    """Its variables are the inputs of the operation; an update replaces it."""
    driver.environment["PATH"] = podman.path
    container = {"name": "web", "image": IMAGE, "command": LASTING}
    config = {"processor": "container", "operation": "create", "container": container}

    made = driver.run(
        operation(
            "d1",
            config,
            inputs={**RESOURCE, "greeting": "hello", "limits": {"soft": 1}},
        )
    )
    assert made["deploy_status_code"] == 0, made
    inspected = podman.containers()["web"]
    assert {"greeting=hello", 'limits={"soft":1}'} <= set(inspected["Config"]["Env"])
    assert not any(item.startswith("deploy_") for item in inspected["Config"]["Env"])

    driver.run(
        operation(
            "d2", config, action="UPDATE", inputs={**RESOURCE, "greeting": "again"}
        )
    )
    assert "greeting=again" in podman.containers()["web"]["Config"]["Env"]

    removed = driver.run(operation("d3", config, action="DELETE", inputs=RESOURCE))
    assert removed["deploy_status_code"] == 0, removed
    assert podman.containers() == {}


def test_ports_and_volumes_are_passed_on(driver: Driver, tmp_path: Path) -> None:
    """Ports and volumes are passed on in the form of docker and podman."""
    engine, log = tmp_path / "bin/docker", tmp_path / "log"
    engine.parent.mkdir()
    engine.write_text(f'#!/bin/sh\nprintf "%s\\n" "$*" >>{log}\n')
    engine.chmod(0o755)
    driver.environment["HEAT_DOCKER_CMD"] = str(engine)
    container = {
        "name": "web",
        "image": "web:1",
        "ports": ["8080:80"],
        "volumes": ["/srv:/data"],
        "command": ["serve"],
    }

    values = driver.run(
        operation(
            "d1", {"processor": "container", "container": container}, inputs=RESOURCE
        )
    )

    assert values["deploy_status_code"] == 0, values
    [line] = [line for line in log.read_text().splitlines() if line.startswith("run")]
    assert "--publish=8080:80" in line
    assert "--volume=/srv:/data" in line
    assert line.endswith("web:1 serve")


def test_tools_and_scripts_are_steps_of_one_run(driver: Driver) -> None:
    """The outputs of all of them count, up to the first that fails."""
    book = "- {hosts: localhost, gather_facts: false, tasks: [{set_fact: {url: '{{ who }}'}}]}\n"
    config: dict[str, Any] = {
        "steps": [
            {
                "primary": "stop.sh",
                "processor": "bash",
                "operation": "stop",
                "inputs": "tosca.stop",
            },
            {"primary": "book.yaml", "processor": "ansible"},
            {"primary": "start.py", "processor": "python"},
        ],
        "files": {
            "stop.sh": "echo stop $who; export stopped=yes",
            "book.yaml": book,
            "start.py": "started = [1]\n",
        },
    }
    outputs = ["stopped", "url", "started"]

    values = driver.run(
        operation(
            "d1",
            config,
            inputs={"who": "a", "tosca.stop": {"who": "b"}},
            outputs=outputs,
        )
    )

    assert values["deploy_status_code"] == 0, values
    assert values["deploy_stdout"].startswith("stop b\n")
    assert "TASK [set_fact]" in values["deploy_stdout"]
    assert (values["stopped"], values["url"], values["started"]) == ("yes", "a", [1])

    config["files"]["book.yaml"] = book.replace(
        "set_fact: {url: '{{ who }}'}", "fail: {msg: no cheese}"
    )
    failed = driver.run(operation("d2", config, outputs=outputs))
    assert failed["deploy_status_code"] == 2
    assert "no cheese" in failed["deploy_stderr"]
    assert failed.keys() & {*outputs} == set()


def test_statistics_of_a_playbook_are_outputs(driver: Driver) -> None:
    """A playbook hands its results out by `set_stats`, of the run or of the host; they keep their types."""
    book = """
- hosts: all
  gather_facts: false
  tasks:
    - ansible.builtin.set_fact: {token: of the fact}
    - ansible.builtin.set_stats: {data: {token: "id-{{ number }}", many: [1, "{{ number }}"], other: 1}}
    - ansible.builtin.set_stats: {data: {host: {a: true}}, per_host: true}
"""
    config = {
        "primary": "book.yaml",
        "processor": "ansible",
        "files": {"book.yaml": book},
    }
    outputs = ["token", "many", "host", "never"]
    values = driver.run(operation("d1", config, inputs={"number": 7}, outputs=outputs))
    assert values["deploy_status_code"] == 0, values
    assert (values["token"], values["many"], values["host"]) == (
        "id-7",
        [1, 7],
        {"a": True},
    )
    assert not {"never", "other"} & values.keys()


@pytest.mark.parametrize(
    ("processor", "install"),
    [
        (
            "ansible",
            "ansible-playbook is not installed; install it with «pip install ansible-core ansible-runner»",
        ),
        ("puppet", f"puppet is not installed; {needs.PUPPET.install}"),
        ("salt", "salt-call is not installed; install the package salt-minion"),
        ("chef", "is not installed; install Chef Infra Client or Cinc Client"),
    ],
)
def test_missing_tool_is_reported(
    driver: Driver, processor: str, install: str, tmp_path: Path
) -> None:
    """With 127, and how to install it."""
    driver.environment["PATH"] = str(tmp_path)
    for variable in ("ANSIBLE", "PUPPET", "CHEF"):
        driver.environment[f"HEAT_{variable}_CMD"] = str(tmp_path / "missing")

    values = driver.run(
        operation(
            "d1",
            {"primary": "a", "processor": processor, "files": {"a": '["recipe[a]"]'}},
        )
    )

    assert values["deploy_status_code"] == 127
    assert install.partition(" is not")[2] in values["deploy_stderr"]
