"""The Ansible role: it is in good style, has its variables documented, and sets up a machine that has booted."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from package.built import ROOT, package
from support import pace
from system.booted import Booted, booted

pytestmark = pytest.mark.takes(150)

FOLDER = ROOT / "packaging/ansible"

ROLE = FOLDER / "roles/heat_config_agent"

LINT = ROOT / ".venv/lint/bin"

ENTER = """\
#!/bin/sh
# Takes the place of ssh: drops its options and the host, and runs the command on the machine.
while [ $# -gt 0 ]; do
    case $1 in
    -o | -p | -F | -i | -l) shift 2 ;;
    -*) shift ;;
    *) break ;;
    esac
done
shift
exec nsenter --target {process} --all env -i PATH={path} HOME=/root LANG=C.UTF-8 /bin/sh -c "$*"
"""

PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def need_lint(name: str) -> Path:
    """Return a program of the environment that has ansible-lint, or skip the test, saying how to get it."""
    path = LINT / name
    if not path.exists():
        pytest.skip(
            f"{name} is not installed: «tests/install-tools lint» (make test-all does it)"
        )
    return path


def read(name: str) -> Any:
    """Return a file of the role."""
    return yaml.safe_load((ROLE / name).read_text())


def test_each_variable_has_a_default_a_type_and_a_row() -> None:
    """The defaults, the specification that Ansible checks, and the page agree."""
    defaults = read("defaults/main.yml")
    options = read("meta/argument_specs.yml")["argument_specs"]["main"]["options"]
    assert {name: each["default"] for name, each in options.items()} == defaults
    rows = re.findall(
        r"(?m)^\| `(heat_config_agent_\w+)` \|", (FOLDER / "README.md").read_text()
    )
    assert rows == list(defaults)


def test_each_variable_is_used() -> None:
    """Tasks, handlers and templates use every variable, and no other one without its own name."""
    text = "".join(
        path.read_text()
        for folder in ("tasks", "handlers", "templates")
        for path in sorted((ROLE / folder).iterdir())
    )
    used = set(re.findall(r"heat_config_agent_\w+", text))
    own = {f"heat_config_agent_{name}" for name in ("health", "installed", "paths")}
    assert used - own == set(read("defaults/main.yml"))


@pytest.mark.slow
def test_linter_finds_only_what_is_planted(tmp_path: Path) -> None:
    """ansible-lint, with its strictest profile, finds a planted playbook and planted tasks of the role, and no more."""
    program = need_lint("ansible-lint")
    place = shutil.copytree(FOLDER, tmp_path / "role")
    (place / "planted.yaml").write_text("- hosts: all\n  tasks:\n    - shell: id\n")
    tasks = "roles/heat_config_agent/tasks/planted.yml"
    (place / tasks).write_text("- shell: id\n")
    done = subprocess.run(
        [program, "--offline", "--profile=production", "--strict", "--format=json"],
        cwd=place,
        env={**environment(tmp_path), "NO_COLOR": "1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=pace.seconds(200),
    )
    assert done.returncode == 2, done.stdout + done.stderr
    assert re.search(r"\b1[3-9] files processed", done.stderr), done.stderr
    places = {each["location"]["path"] for each in json.loads(done.stdout)}
    assert places == {"planted.yaml", tasks}, done.stdout


def environment(folder: Path) -> dict[str, str]:
    """Return the environment of a control node, which keeps what it has below `folder`."""
    return {
        **os.environ,
        "PATH": f"{LINT}:{os.environ['PATH']}",
        "HOME": str(folder),
        "ANSIBLE_HOME": str(folder / "ansible"),
        "ANSIBLE_NOCOLOR": "1",
    }


def play(
    machine: Booted, folder: Path, *words: str, **variables: object
) -> subprocess.CompletedProcess[str]:
    """Apply the role to a machine by the playbook."""
    enter = folder / "enter"
    assert machine.process
    enter.write_text(ENTER.format(process=machine.process, path=PATH))
    enter.chmod(0o755)
    every = {
        "ansible_ssh_executable": str(enter),
        "ansible_ssh_transfer_method": "piped",
        "ansible_ssh_args": "",
        "ansible_pipelining": True,
        "ansible_become": False,
        "ansible_python_interpreter": "/usr/bin/python3",
        **variables,
    }
    return subprocess.run(
        [
            need_lint("ansible-playbook"),
            "--inventory=machine,",
            f"--extra-vars={json.dumps(every)}",
            *words,
            FOLDER / "install.yaml",
        ],
        env=environment(folder),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=pace.seconds(300),
    )


def changed(done: subprocess.CompletedProcess[str]) -> int:
    """Return how many tasks have changed something."""
    found = re.findall(r"changed=(\d+)", done.stdout)
    assert found, done.stdout + done.stderr
    return int(found[-1])


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_role_installs_configures_and_verifies_a_machine(tmp_path: Path) -> None:
    """A second run and a mistake in the settings change nothing, and a failed deployment fails the run."""
    need_lint("ansible-playbook")
    variables: dict[str, Any] = {
        "heat_config_agent_files": [str(package("deb"))],
        "heat_config_agent_settings": {
            "agent": {"collectors": ["local"], "polling_interval": 1, "scopes": False}
        },
        "heat_config_agent_policy": "[policy]\ntools = script\n",
    }
    document = {
        "deployments": [
            {"id": "d1", "name": "greeting", "group": "script", "config": "#!/bin/sh\n"}
        ]
    }
    with booted(commands=False) as machine:
        local = machine.disk / "var/lib/os-collect-config/local-data"
        local.mkdir(parents=True)
        (local / "site.json").write_text(json.dumps(document))
        done = play(machine, tmp_path, **variables)
        assert done.returncode == 0, done.stdout + done.stderr
        assert changed(done) > 3, done.stdout
        assert machine.run("systemctl", "is-active", "heat-config-agent").code == 0
        assert machine.run("systemctl", "is-enabled", "heat-config-agent").code == 0
        shown = machine.run("heat-config-agent", "config").out
        assert re.search(r"polling_interval +1\b.*ansible\.conf", shown), shown
        assert machine.run("heat-config-agent", "wait", "greeting").code == 0

        wrong = {**variables, "heat_config_agent_settings": {"agent": {"scopes": "x"}}}
        done = play(machine, tmp_path, **wrong)
        assert done.returncode != 0
        assert "scopes" in done.stdout
        assert machine.run("heat-config-agent", "config").out == shown

        document["deployments"][0] |= {"id": "d2", "config": "#!/bin/sh\nexit 3\n"}
        (local / "site.json").write_text(json.dumps(document))
        assert machine.run("heat-config-agent", "wait", "d2").code == 1
        done = play(machine, tmp_path, **variables, heat_config_agent_verify_seconds=2)
        assert done.returncode != 0
        assert "1 failed: greeting" in done.stdout
        assert changed(done) == 0

        off = {**variables, "heat_config_agent_started": False}
        done = play(machine, tmp_path, **off)
        assert (done.returncode, changed(done)) == (0, 1), done.stdout + done.stderr
        assert machine.run("systemctl", "is-active", "heat-config-agent").code != 0
