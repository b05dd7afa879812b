from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import psutil
import pytest

from support.driver import Driver
from support.loopback import wait_until
from support.machine import Machine, deployment
from support.tools import need_openstack


@pytest.fixture
def root(driver: Driver, tmp_path: Path) -> Path:
    """Install the real os-apply-config with metadata and a template; return the root folder for its files."""
    template = tmp_path / "templates/etc/motd"
    template.parent.mkdir(parents=True)
    template.write_text("{{site.greeting}}\n")
    (tmp_path / "metadata.json").write_text(json.dumps({"site": {"greeting": "hello"}}))
    root = tmp_path / "root"
    driver.environment = {
        "HEAT_APPLY_CONFIG_CMD": (
            f"{need_openstack('os-apply-config', 'os-apply-config', tmp_path / 'var')} --output {root}"
        ),
        "OS_CONFIG_FILES": str(tmp_path / "metadata.json"),
        "OS_CONFIG_APPLIER_TEMPLATES": str(tmp_path / "templates"),
    }
    return root


def apply_config(identity: str, config: object = None, **fields: Any) -> dict[str, Any]:
    """Return a deployment of the tool."""
    return deployment(identity, config, group="apply-config", **fields)


def executable(path: Path, script: str) -> None:
    """Write a template that os-apply-config executes: its output is the content of the file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


def test_the_templates_are_rendered_at_every_action_whatever_the_config_is(
    driver: Driver, root: Path, tmp_path: Path
) -> None:
    """os-apply-config uses its own metadata and sees nothing of the deployment. A second run changes nothing."""
    secret = {
        "deploy_password": "pw",
        "site": {"greeting": "no"},
        "PATH": "/nowhere",
        "number": 3,
        "nothing": None,
    }
    executable(tmp_path / "templates/etc/environment", "env")

    for identity, config, action in (
        ("d1", None, "CREATE"),
        ("d2", "", "UPDATE"),
        ("d3", {"site": {"greeting": "no"}}, "SUSPEND"),
        ("d4", "text", "DELETE"),
    ):
        values = driver.run(
            apply_config(identity, config, action=action, inputs=secret)
        )
        assert (values["deploy_status_code"], values["deploy_stdout"]) == (0, "")
        assert "[INFO] success" in values["deploy_stderr"]
        assert (root / "etc/motd").read_text() == "hello\n"
        seen = (root / "etc/environment").read_text().splitlines()
        assert any(each.startswith("heat_outputs_path=") for each in seen)
        assert not [
            each
            for each in seen
            if each.startswith(("deploy_", "site=", "number=", "PATH=/nowhere"))
        ]


def test_templates_may_leave_declared_outputs(
    driver: Driver, root: Path, tmp_path: Path
) -> None:
    """Executable templates write them to `$heat_outputs_path.NAME`, as scripts do."""
    executable(tmp_path / "templates/etc/list", 'printf "ü\\n" >$heat_outputs_path.one')

    values = driver.run(apply_config("d1", outputs=["one", "two"]))

    assert values["one"] == "ü\n"
    assert "two" not in values
    assert (root / "etc/motd").exists()


def test_a_failure_is_the_deployments(
    driver: Driver, root: Path, tmp_path: Path
) -> None:
    """The result has the message of os-apply-config."""
    executable(tmp_path / "templates/etc/list", "echo no cheese >&2; exit 3")

    values = driver.run(apply_config("d1"))

    assert values["deploy_status_code"] == 1
    assert "config script failed" in values["deploy_stderr"]
    assert "no cheese" in values["deploy_stderr"]
    assert not root.exists()


def test_os_apply_config_that_is_missing_is_a_failure_that_says_how_to_get_it(
    driver: Driver, tmp_path: Path
) -> None:
    """It may be missing from the PATH, or the variable may name a missing program."""
    empty = tmp_path / "empty"
    empty.mkdir()
    driver.environment = {"PATH": str(empty)}
    values = driver.run(apply_config("d1"))
    assert values["deploy_status_code"] == 127
    assert values["deploy_stderr"].startswith(
        "os-apply-config is not installed; install os-apply-config ("
    )

    driver.environment["HEAT_APPLY_CONFIG_CMD"] = "/nowhere/mine"
    values = driver.run(apply_config("d2"))
    assert values["deploy_status_code"] == 127
    assert values["deploy_stderr"].startswith(
        "/nowhere/mine ($HEAT_APPLY_CONFIG_CMD) is not installed; "
    )


def test_options_are_checked(driver: Driver) -> None:
    """Unknown and mistyped options are reported before anything runs."""
    driver.environment = {"HEAT_APPLY_CONFIG_CMD": "/bin/true"}

    values = driver.run(
        apply_config("d1", options={"templates": "/t", "timeout": "long"})
    )

    assert values["deploy_status_code"] == 125
    assert (
        "options.templates: apply-config has no such option" in values["deploy_stderr"]
    )
    assert "options.timeout: expected a number of seconds" in values["deploy_stderr"]


def test_a_run_that_hangs_is_ended_with_all_that_it_started(
    driver: Driver, root: Path, tmp_path: Path
) -> None:
    """The timeout ends all processes of the run."""
    executable(
        tmp_path / "templates/etc/list", f"echo $$ >{tmp_path}/pid; exec sleep 1000"
    )

    values = driver.run(apply_config("d1", options={"timeout": 3}))

    assert values["deploy_status_code"] == 124
    pid = int((tmp_path / "pid").read_text())
    wait_until(lambda: not psutil.pid_exists(pid))
    assert not root.exists()


def verified(machine: Machine, driver: Driver) -> dict[str, Any]:
    """Return what is said about the deployment by the agent."""
    done = machine.agent("verify", "--json", **driver.environment)
    [row] = json.loads(done.out)["data"]["deployments"]
    codes = {"ok": 0, "drifted": 9, "unknown": 1}
    assert done.code == codes[row["state"]], done.out + done.err
    assert isinstance(row, dict)
    return row


CHANGES = {
    "edited": (
        lambda root, _: (root / "etc/motd").write_text("bye\n"),
        ("etc/motd", "its content differs"),
    ),
    "removed": (
        lambda root, _: (root / "etc/motd").unlink(),
        ("etc/motd", "it is missing"),
    ),
    "another mode": (
        lambda root, _: (root / "etc/secret").chmod(0o644),
        ("etc/secret", "its mode is 0644 instead of 0600"),
    ),
    "put there": (
        lambda root, _: (root / "etc/none").write_text("x"),
        ("etc/none", "it exists, and should not"),
    ),
    "other metadata": (
        lambda _, folder: (folder / "metadata.json").write_text(
            json.dumps({"site": {"greeting": "good morning"}})
        ),
        ("etc/motd", "its content differs"),
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("driver", ["apply"], indirect=True)
@pytest.mark.parametrize("case", CHANGES.values(), ids=CHANGES)
def test_changed_file_of_a_template_is_named_and_a_new_run_repairs_it(
    driver: Driver,
    machine: Machine,
    root: Path,
    tmp_path: Path,
    case: tuple[Any, tuple[str, str]],
) -> None:
    """In effect, changed behind its back, verified, repaired, verified again."""
    change, (path, how) = case
    templates = tmp_path / "templates/etc"
    (templates / "secret").write_text("{{site.greeting}}")
    (templates / "secret.oac").write_text("mode: 0600\n")
    (templates / "none").write_text("")
    (templates / "none.oac").write_text("allow_empty: false\n")
    driver.run(apply_config("d1"))
    (root / "etc/motd").chmod(0o640)  # nothing says which mode it has
    assert verified(machine, driver)["state"] == "ok"

    change(root, tmp_path)

    row = verified(machine, driver)
    assert row["state"] == "drifted"
    assert (row["changes"][0]["what"], row["changes"][0]["how"]) == (
        str(root / path),
        how,
    )
    driver.run(apply_config("d2"))
    assert verified(machine, driver)["state"] == "ok"


@pytest.mark.parametrize("driver", ["apply"], indirect=True)
def test_templates_that_cannot_be_rendered_are_unknown(
    driver: Driver, machine: Machine, root: Path, tmp_path: Path
) -> None:
    """The reason is that of os-apply-config, and the outputs of the deployment stay as they were."""
    executable(
        tmp_path / "templates/etc/list", "echo hello >$heat_outputs_path.greeting"
    )
    driver.run(apply_config("d1", outputs=["greeting"]))
    outputs = sorted(path.name for path in machine.folder.rglob("d1.greeting"))
    assert verified(machine, driver)["state"] == "ok"
    executable(tmp_path / "templates/etc/list", "echo no cheese; exit 3")

    row = verified(machine, driver)

    assert row["state"] == "unknown"
    assert "no cheese" in row["message"]
    assert sorted(path.name for path in machine.folder.rglob("d1.greeting")) == outputs
    assert (root / "etc/motd").read_text() == "hello\n"
