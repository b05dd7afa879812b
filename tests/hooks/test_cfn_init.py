from __future__ import annotations

import json
import os
import stat
from pathlib import Path
from typing import Any

import psutil
import pytest

from driver import Driver
from loopback import wait_until
from machine import deployment
from tools import need_openstack

TEXT = "ü 😀 \"double\" 'single' $HOME\nsecond line"
ODD = {
    "text": TEXT,
    "number": 3,
    "float": 2.5,
    "yes": True,
    "nothing": None,
    "list": [1, "two", None],
    "map": {"key": {"inner": [True]}},
}


@pytest.fixture
def var(driver: Driver, tmp_path: Path) -> Path:
    """Have the real cfn-init, with a folder of the test's in the place of /var."""
    var = tmp_path / "var"
    driver.environment = {
        "HEAT_CFN_INIT_CMD": str(need_openstack("cfn-init", "heat-cfntools", var)),
        "HEAT_CFN_INIT_LAST_METADATA_DIR": str(var / "cache/heat-cfntools"),
        "HEAT_CFN_INIT_LOG": str(var / "log/cfn-init.log"),
    }
    return var


def init(identity: str, config: object, **fields: Any) -> dict[str, Any]:
    """Return a deployment of the tool."""
    return deployment(identity, config, group="cfn-init", **fields)


def command(text: str) -> dict[str, Any]:
    """Return a config with one command."""
    return {"config": {"commands": {"a": {"command": text}}}}


def test_the_config_is_carried_out_at_every_action(driver: Driver, var: Path, tmp_path: Path) -> None:
    """An object and its JSON text are the same; what is kept is for the agent's user; a second run changes nothing."""
    metadata = var / "cache/heat-cfntools/last_metadata"

    def config(content: str) -> dict[str, Any]:
        files = {f"{tmp_path}/made": {"content": content, "mode": "000640"}}
        return {"config": {"files": files, **command(f"echo $heat_outputs_path >>{tmp_path}/log")["config"]}}

    created = driver.run(init("d1", config(TEXT), inputs={**ODD, "deploy_password": "secret"}))
    assert created == {"deploy_stdout": "", "deploy_stderr": "", "deploy_status_code": 0}
    assert (tmp_path / "made").read_text() == TEXT
    assert stat.S_IMODE((tmp_path / "made").stat().st_mode) == 0o640
    assert json.loads(metadata.read_text()) == {"AWS::CloudFormation::Init": config(TEXT)}
    assert stat.S_IMODE(metadata.stat().st_mode) == 0o600
    assert stat.S_IMODE(metadata.parent.stat().st_mode) == 0o700

    for identity, action in (("d2", "UPDATE"), ("d3", "UPDATE"), ("d4", "DELETE")):
        changed = driver.run(init(identity, json.dumps(config("later")), action=action))
        assert changed["deploy_status_code"] == 0, changed
        assert (tmp_path / "made").read_text() == "later"

    paths = (tmp_path / "log").read_text().split()
    assert [Path(each).name for each in paths] == ["d1", "d2", "d3", "d4"]


def test_commands_may_leave_declared_outputs(driver: Driver, var: Path) -> None:
    """Beside `$heat_outputs_path`, as a script does; what an earlier run with this id left is none."""
    config = command('printf "ü\\n" >$heat_outputs_path.one; echo x >$heat_outputs_path.undeclared')

    values = driver.run(init("d1", config, outputs=["one", "two"]))

    assert values == {"one": "ü\n", "deploy_stdout": "", "deploy_stderr": "", "deploy_status_code": 0}
    assert var.exists()


def test_a_failure_is_reported_with_what_the_log_says_of_it(driver: Driver, var: Path) -> None:
    """As cfn-init prints nothing itself. What an earlier run wrote there is not repeated."""
    driver.run(init("d0", command("echo earlier; exit 3")))
    config = command(f"echo out; echo 'no such {'cheese'}' >&2; exit 3")

    values = driver.run(init("d1", config))

    assert values["deploy_status_code"] == 1
    lines = values["deploy_stderr"].splitlines()
    assert lines[0] == f"cfn-init failed with status 1; its log {var}/log/cfn-init.log says:"
    assert "no such cheese" in values["deploy_stderr"]
    assert "a has failed" in values["deploy_stderr"]
    assert "earlier" not in values["deploy_stderr"]

    values = driver.run(init("d2", {"configSets": {"default": ["missing"]}}))
    assert values["deploy_status_code"] == 1
    assert "Could not find 'missing' set in template" in values["deploy_stderr"]


def test_a_failure_without_a_log_is_one_too(driver: Driver, tmp_path: Path) -> None:
    """Another program in cfn-init's place may have none, and may print."""
    program = tmp_path / "mine"
    program.write_text("#!/bin/sh\necho out; echo err >&2; exit 7\n")
    program.chmod(0o755)
    driver.environment = {
        "HEAT_CFN_INIT_CMD": f"{program} --flag",
        "HEAT_CFN_INIT_LAST_METADATA_DIR": str(tmp_path / "last"),
        "HEAT_CFN_INIT_LOG": str(tmp_path / "no-log"),
    }

    values = driver.run(init("d1", {"config": {}}))

    assert values == {
        "deploy_stdout": "out\n",
        "deploy_stderr": "cfn-init failed with status 7\nerr\n",
        "deploy_status_code": 7,
    }


def test_of_a_long_log_the_end_is_reported(driver: Driver, var: Path) -> None:
    """The cause stands there."""
    config = command("head -c 300000 /dev/zero | tr '\\0' x; echo; echo the cause; exit 1")

    values = driver.run(init("d1", config))

    assert "the cause" in values["deploy_stderr"]
    assert len(values["deploy_stderr"]) < 70_000
    assert (var / "log/cfn-init.log").stat().st_size > 300_000


def test_an_empty_config_runs_nothing(driver: Driver, tmp_path: Path) -> None:
    """That is no failure, and it is said."""
    driver.environment = {
        "HEAT_CFN_INIT_CMD": "/bin/false",
        "HEAT_CFN_INIT_LAST_METADATA_DIR": str(tmp_path / "last"),
    }
    empty: tuple[object, ...] = ("", " \n", None, {}, "{}")
    for number, config in enumerate(empty):
        values = driver.run(init(f"d{number}", config))
        assert values["deploy_status_code"] == 0
        assert values["deploy_stderr"] == "the config is empty: nothing was run\n"
    assert not (tmp_path / "last").exists()


@pytest.mark.parametrize(
    ("config", "says"),
    [
        ("{", "config: it is no JSON: "),
        ('{"config": NaN}', "config: it is no JSON: NaN is no number in JSON"),
        ("[1]", "config: expected an object"),
        ([1], "config: expected an object"),
        (True, "config: expected an object"),
    ],
)
def test_a_config_that_cannot_be_one_is_a_mistake(driver: Driver, tmp_path: Path, config: object, says: str) -> None:
    """It is said where, and nothing is run or written."""
    driver.environment = {
        "HEAT_CFN_INIT_CMD": "/bin/true",
        "HEAT_CFN_INIT_LAST_METADATA_DIR": str(tmp_path / "last"),
    }

    values = driver.run(init("d1", config))

    assert values["deploy_status_code"] == 125
    assert says in values["deploy_stderr"]
    assert not (tmp_path / "last").exists()


def test_cfn_init_that_is_missing_is_a_failure_that_says_how_to_get_it(driver: Driver, tmp_path: Path) -> None:
    """Whether it is not on the PATH, or what is named is not there."""
    empty = tmp_path / "empty"
    empty.mkdir()
    driver.environment = {"PATH": str(empty), "HEAT_CFN_INIT_LAST_METADATA_DIR": str(tmp_path / "last")}
    values = driver.run(init("d1", {"config": {}}))
    assert values["deploy_status_code"] == 127
    assert values["deploy_stderr"].startswith("cfn-init is not installed; install heat-cfntools (")

    driver.environment["HEAT_CFN_INIT_CMD"] = "/nowhere/cfn-init"
    values = driver.run(init("d2", {"config": {}}))
    assert values["deploy_status_code"] == 127
    assert values["deploy_stderr"].startswith("/nowhere/cfn-init ($HEAT_CFN_INIT_CMD) is not installed; ")
    assert not (tmp_path / "last").exists()


def test_options_are_checked(driver: Driver) -> None:
    """Unknown and mistyped ones are named, before anything is run."""
    driver.environment = {"HEAT_CFN_INIT_CMD": "/bin/true"}

    values = driver.run(init("d1", {"config": {}}, options={"timeuot": 3, "idempotent": "perhaps"}))

    assert values["deploy_status_code"] == 125
    assert "options.timeuot: cfn-init has no such option; did you mean timeout?" in values["deploy_stderr"]
    assert "options.idempotent: expected true or false, not 'perhaps'" in values["deploy_stderr"]


def test_a_run_that_hangs_is_ended_with_all_that_it_started(driver: Driver, var: Path, tmp_path: Path) -> None:
    """When its time is over."""
    config = command(f"echo $$ >{tmp_path}/pid; exec sleep 1000")

    values = driver.run(init("d1", config, options={"timeout": 3}))

    assert values["deploy_status_code"] == 124
    pid = int((tmp_path / "pid").read_text())
    wait_until(lambda: not psutil.pid_exists(pid))
    assert os.listdir(var / "log") == ["cfn-init.log"]
