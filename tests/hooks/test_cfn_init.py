from __future__ import annotations

import json
import os
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psutil
import pytest

from support.driver import Driver
from support.loopback import wait_until
from support.machine import deployment
from support.tools import need_openstack

pytestmark = [pytest.mark.slow, pytest.mark.takes(60)]

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
    """Install the real cfn-init, with a temporary folder in place of /var."""
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


def test_the_config_is_carried_out_at_every_action(
    driver: Driver, var: Path, tmp_path: Path
) -> None:
    """An object and its JSON text are equal, the metadata is private, and a second run changes nothing."""
    metadata = var / "cache/heat-cfntools/last_metadata"

    def config(content: str) -> dict[str, Any]:
        files = {f"{tmp_path}/made": {"content": content, "mode": "000640"}}
        return {
            "config": {
                "files": files,
                **command(f"echo $heat_outputs_path >>{tmp_path}/log")["config"],
            }
        }

    created = driver.run(
        init("d1", config(TEXT), inputs={**ODD, "deploy_password": "secret"})
    )
    assert created == {
        "deploy_stdout": "",
        "deploy_stderr": "",
        "deploy_status_code": 0,
    }
    assert (tmp_path / "made").read_text() == TEXT
    assert stat.S_IMODE((tmp_path / "made").stat().st_mode) == 0o640
    assert json.loads(metadata.read_text()) == {
        "AWS::CloudFormation::Init": config(TEXT)
    }
    assert stat.S_IMODE(metadata.stat().st_mode) == 0o600
    assert stat.S_IMODE(metadata.parent.stat().st_mode) == 0o700

    for identity, action in (("d2", "UPDATE"), ("d3", "UPDATE"), ("d4", "DELETE")):
        changed = driver.run(init(identity, json.dumps(config("later")), action=action))
        assert changed["deploy_status_code"] == 0, changed
        assert (tmp_path / "made").read_text() == "later"

    paths = (tmp_path / "log").read_text().split()
    assert [Path(each).name for each in paths] == ["d1", "d2", "d3", "d4"]


def test_commands_may_leave_declared_outputs(driver: Driver, var: Path) -> None:
    """They write to `$heat_outputs_path.NAME`, as scripts do; outputs of an earlier run with this id do not count."""
    config = command(
        'printf "ü\\n" >$heat_outputs_path.one; echo x >$heat_outputs_path.undeclared'
    )

    values = driver.run(init("d1", config, outputs=["one", "two"]))

    assert values == {
        "one": "ü\n",
        "deploy_stdout": "",
        "deploy_stderr": "",
        "deploy_status_code": 0,
    }
    assert var.exists()


def test_a_failure_is_reported_with_what_the_log_says_of_it(
    driver: Driver, var: Path
) -> None:
    """cfn-init itself prints nothing. Older parts of the log are not repeated."""
    driver.run(init("d0", command("echo earlier; exit 3")))
    config = command(f"echo out; echo 'no such {'cheese'}' >&2; exit 3")

    values = driver.run(init("d1", config))

    assert values["deploy_status_code"] == 1
    lines = values["deploy_stderr"].splitlines()
    assert (
        lines[0]
        == f"cfn-init failed with status 1; its log {var}/log/cfn-init.log has:"
    )
    assert "no such cheese" in values["deploy_stderr"]
    assert "a has failed" in values["deploy_stderr"]
    assert "earlier" not in values["deploy_stderr"]

    values = driver.run(init("d2", {"configSets": {"default": ["missing"]}}))
    assert values["deploy_status_code"] == 1
    assert "Could not find 'missing' set in template" in values["deploy_stderr"]


def test_a_failure_without_a_log_is_one_too(driver: Driver, tmp_path: Path) -> None:
    """Another program in place of cfn-init may write no log, and may print."""
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
        "deploy_stderr": "err\ncfn-init failed with status 7\n",
        "deploy_status_code": 7,
    }


@pytest.mark.parametrize(
    ("section", "says"),
    [
        ({"packages": {"apt": {"no-such-package": []}}}, "'no-such-package']'"),
        ({"packages": {"nosuch": {"a": []}}}, "Skipping invalid package type: nosuch"),
        (
            {"services": {"upstart": {"a": {"enabled": "true"}}}},
            "Skipping invalid service type: upstart",
        ),
        (
            {"services": {"systemd": {"no-such-service": {"enabled": "true"}}}},
            "no-such-service",
        ),
        ({"sources": {"SOURCE": "http://127.0.0.1:1/a.tar.gz"}}, "Return code of "),
        ({"users": {"no:name": {}}}, "An error occurred creating no:name user"),
        ({"groups": {"no:name": {}}}, "An error occurred creating no:name group"),
        ({"files": {"SOURCE/a": {"mode": "000600"}}}, "{'mode': '000600'}"),
        ({"files": {"SOURCE/a": {"source": "file:///no/such"}}}, "Return code of "),
        (
            {"commands": {"a": {"command": "true", "cwd": "/no/such"}}},
            "a has failed. /no/such path does not exist",
        ),
        ({"commands": {"a": {"cwd": "/"}}}, "a has failed. 'command' property missing"),
    ],
)
@pytest.mark.parametrize("driver", ["alone"], indirect=True)
def test_failure_that_only_the_log_tells_fails_the_deployment(
    driver: Driver, var: Path, tmp_path: Path, section: dict[str, Any], says: str
) -> None:
    """The exit code of cfn-init is 0 for most failures. Older parts of the log are ignored."""
    config = json.loads(
        json.dumps({"config": section}).replace("SOURCE", f"{tmp_path}/source")
    )

    failed = driver.run(init("d1", config))
    fine = driver.run(init("d2", command("true"), action="UPDATE"))

    assert failed["deploy_status_code"] == 1, failed
    assert says in failed["deploy_stderr"]
    assert f"its log {var}/log/cfn-init.log has:\n" in failed["deploy_stderr"]
    assert fine == {"deploy_stdout": "", "deploy_stderr": "", "deploy_status_code": 0}


def test_tolerated_failures_and_existing_users_are_reported(
    driver: Driver, var: Path, tmp_path: Path
) -> None:
    """An existing user or group is reported nevertheless, because it may differ from the config."""
    commands = {
        "1": {"command": "exit 3", "ignoreErrors": "true"},
        "2": {"command": f"touch {tmp_path}/never", "test": "exit 4"},
        "3": {"command": ["sh", "-c", "exit 5"], "ignoreErrors": True},
        "4": {
            "command": "echo 'ERROR [' >&2; printf 'a\\nERROR [x]' >&2",
            "test": "true",
        },
        "5": {"command": f"cat >{tmp_path}/made <<E\nERROR [mine] text\nE\n"},
    }
    quiet = driver.run(init("d1", {"config": {"commands": commands}}))
    there = {
        "groups": {"root": {}},
        "users": {"root": {}},
        "commands": {"a": {"cwd": "/no", "ignoreErrors": "yes"}},
    }
    told = driver.run(init("d2", {"config": there}))

    assert quiet == {"deploy_stdout": "", "deploy_stderr": "", "deploy_status_code": 0}
    assert (tmp_path / "made").read_text() == "ERROR [mine] text\n"
    assert told["deploy_status_code"] == 0, told
    assert told["deploy_stderr"].startswith(
        f"cfn-init ended with status 0; its log {var}/log/cfn-init.log has:\n"
    )
    assert told["deploy_stderr"].splitlines()[-4:] == [
        "this may have failed:",
        "An error occurred creating root group : group name not unique",
        "An error occurred creating root user : user name not unique",
        "a has failed. /no path does not exist",
    ]


DISABLE = "Return code of 1 after executing: '['/bin/systemctl', 'disable', 'a.service']'\nstderr: 'b'Failed: "


@pytest.mark.parametrize(
    ("level", "text", "status", "told"),
    [
        ("DEBUG", "Return code of 1 after executing: '['which', 'yum']'", 0, False),
        (
            "DEBUG",
            "Return code of 1 after executing: '['rpm', '-q', 'httpd']'",
            0,
            False,
        ),
        (
            "DEBUG",
            "Return code of 1 after executing: '['dnf', '-y', '--showduplicates', 'list', 'a', 'b']'",
            0,
            False,
        ),
        (
            "DEBUG",
            "Return code of 104 after executing: '['zypper', '-n', '--no-refresh', 'search', 'a']'",
            0,
            False,
        ),
        (
            "DEBUG",
            "Return code of 3 after executing: '['/bin/systemctl', 'status', 'a.service']'",
            0,
            False,
        ),
        (
            "DEBUG",
            "Return code of 3 after executing: '['/usr/sbin/service', 'a', 'status']'",
            0,
            False,
        ),
        ("WARNING", "Unable to retrieve remote metadata : No credentials!", 0, False),
        (
            "DEBUG",
            "Return code of 5 after executing: '['/bin/systemctl', 'start', 'status.service']'",
            1,
            True,
        ),
        (
            "DEBUG",
            "Return code of 1 after executing: '['/usr/sbin/service', 'status', 'stop']'",
            1,
            True,
        ),
        (
            "DEBUG",
            "Return code of 1 after executing: '['rpm', '-U', '--force', '--nosignature', 'a']'",
            1,
            True,
        ),
        (
            "DEBUG",
            "Return code of -9 after executing: '['dnf', '-y', '--best', 'install', 'which']'",
            1,
            True,
        ),
        ("WARNING", "Skipping package 'a'. Not available via yum", 1, True),
        ("WARNING", "Skipping package 'a' - unavailable via zypper", 1, True),
        (
            "ERROR",
            "Error setting privileges for user 'root': [Errno 1] Operation not permitted",
            1,
            True,
        ),
        ("DEBUG", DISABLE + "Unit file a.service does not exist.\\n''", 0, True),
        ("DEBUG", DISABLE + "Access denied\\n''", 1, True),
    ],
)
@pytest.mark.parametrize("driver", ["alone"], indirect=True)
def test_outcome_is_read_from_the_log(
    driver: Driver, tmp_path: Path, level: str, text: str, status: int, *, told: bool
) -> None:
    """A query with a negative answer does not fail. A stand-in writes the logs of cfn-init on other machines."""
    log, begins = tmp_path / "cfn-init.log", "[2026-01-02 03:04:05,678]"
    (tmp_path / "added").write_text(
        f"INFO {begins} Opened local metadata /var\n{level} {begins} {text}\nINFO {begins} after\n"
    )
    program = tmp_path / "mine"
    program.write_text(f"#!/bin/sh\ncat {tmp_path}/added >>{log}\n")
    program.chmod(0o755)
    log.write_text(f"ERROR {begins} of an earlier run\n")
    driver.environment = {
        "HEAT_CFN_INIT_CMD": str(program),
        "HEAT_CFN_INIT_LAST_METADATA_DIR": str(tmp_path / "last"),
        "HEAT_CFN_INIT_LOG": str(log),
    }

    values = driver.run(init("d1", {"config": {}}))

    assert values["deploy_status_code"] == status, values
    assert (text in values["deploy_stderr"]) == told
    assert told or not values["deploy_stderr"]
    assert "earlier" not in values["deploy_stderr"]


@pytest.mark.parametrize("driver", ["alone"], indirect=True)
def test_deployments_at_once_do_not_get_each_others_metadata(
    driver: Driver, tmp_path: Path
) -> None:
    """They share one file: a deployment waits until the cfn-init of another has ended, and may time out."""
    program = tmp_path / "slow"
    program.write_text(
        f"#!/bin/sh\necho x >>{tmp_path}/started\nuntil [ -e {tmp_path}/go ]; do sleep 0.05; done\n"
        f"cat {tmp_path}/last/last_metadata\n"
    )
    program.chmod(0o755)
    driver.environment = {
        "HEAT_CFN_INIT_CMD": str(program),
        "HEAT_CFN_INIT_LAST_METADATA_DIR": str(tmp_path / "last"),
        "HEAT_CFN_INIT_LOG": str(tmp_path / "no-log"),
    }
    with ThreadPoolExecutor() as threads:
        first = threads.submit(
            driver.run, init("d1", {"config": {"commands": {"first": {}}}})
        )
        try:
            wait_until((tmp_path / "started").exists)
            late = driver.run(
                init(
                    "d2", {"config": {"commands": {"late": {}}}}, options={"timeout": 2}
                )
            )
            second = threads.submit(
                driver.run, init("d3", {"config": {"commands": {"second": {}}}})
            )
            wait_until(
                lambda: any("->" in line for line in locks(tmp_path / "last/.lock"))
            )
        finally:
            (tmp_path / "go").touch()
        values = [first.result(), second.result()]

    assert late["deploy_status_code"] == 124
    assert (
        "cfn-init was not run, because the cfn-init of another deployment was still running\n"
        in late["deploy_stderr"]
    )
    for name, each in zip(("first", "second"), values, strict=True):
        assert json.loads(each["deploy_stdout"]) == {
            "AWS::CloudFormation::Init": {"config": {"commands": {name: {}}}}
        }
    assert (tmp_path / "started").read_text() == "x\nx\n"
    assert stat.S_IMODE((tmp_path / "last/.lock").stat().st_mode) == 0o600


def locks(path: Path) -> list[str]:
    """Return the kernel's list of processes that hold a lock on a file, or wait for one."""
    inode = f":{path.stat().st_ino} "
    return [
        line for line in Path("/proc/locks").read_text().splitlines() if inode in line
    ]


def test_of_a_long_log_the_end_is_reported(driver: Driver, var: Path) -> None:
    """The cause of a failure is at the end."""
    config = command(
        "head -c 300000 /dev/zero | tr '\\0' x; echo; echo the cause; exit 1"
    )

    values = driver.run(init("d1", config))

    assert "the cause" in values["deploy_stderr"]
    assert len(values["deploy_stderr"]) < 70_000
    assert (var / "log/cfn-init.log").stat().st_size > 300_000


def test_an_empty_config_runs_nothing(driver: Driver, tmp_path: Path) -> None:
    """It is a success, and the result says that nothing was run."""
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
        ("{", "config: it is not valid JSON: "),
        (
            '{"config": NaN}',
            "config: it is not valid JSON: NaN is not a number in JSON",
        ),
        ("[1]", "config: expected an object"),
        ([1], "config: expected an object"),
        (True, "config: expected an object"),
    ],
)
def test_invalid_config_is_refused_with_its_path(
    driver: Driver, tmp_path: Path, config: object, says: str
) -> None:
    """The message has its path, and nothing is run or written."""
    driver.environment = {
        "HEAT_CFN_INIT_CMD": "/bin/true",
        "HEAT_CFN_INIT_LAST_METADATA_DIR": str(tmp_path / "last"),
    }

    values = driver.run(init("d1", config))

    assert values["deploy_status_code"] == 125
    assert says in values["deploy_stderr"]
    assert not (tmp_path / "last").exists()


def test_cfn_init_that_is_missing_is_a_failure_that_says_how_to_get_it(
    driver: Driver, tmp_path: Path
) -> None:
    """It may be missing from the PATH, or the variable may name a missing program."""
    empty = tmp_path / "empty"
    empty.mkdir()
    driver.environment = {
        "PATH": str(empty),
        "HEAT_CFN_INIT_LAST_METADATA_DIR": str(tmp_path / "last"),
    }
    values = driver.run(init("d1", {"config": {}}))
    assert values["deploy_status_code"] == 127
    assert values["deploy_stderr"].startswith(
        "cfn-init is not installed; install heat-cfntools ("
    )

    driver.environment["HEAT_CFN_INIT_CMD"] = "/nowhere/cfn-init"
    values = driver.run(init("d2", {"config": {}}))
    assert values["deploy_status_code"] == 127
    assert values["deploy_stderr"].startswith(
        "/nowhere/cfn-init ($HEAT_CFN_INIT_CMD) is not installed; "
    )
    assert not (tmp_path / "last").exists()


def test_options_are_checked(driver: Driver) -> None:
    """Unknown and mistyped options are reported before anything runs."""
    driver.environment = {"HEAT_CFN_INIT_CMD": "/bin/true"}

    values = driver.run(
        init("d1", {"config": {}}, options={"timeuot": 3, "idempotent": "perhaps"})
    )

    assert values["deploy_status_code"] == 125
    assert (
        "options.timeuot: cfn-init has no such option; did you mean timeout?"
        in values["deploy_stderr"]
    )
    assert (
        "options.idempotent: expected true or false, not 'perhaps'"
        in values["deploy_stderr"]
    )


def test_a_run_that_hangs_is_ended_with_all_that_it_started(
    driver: Driver, var: Path, tmp_path: Path
) -> None:
    """The timeout ends all processes of the run."""
    config = command(f"echo $$ >{tmp_path}/pid; exec sleep 1000")

    for limit in (3, 10, 40):  # a busy machine takes longer until the command has begun
        values = driver.run(init(f"d{limit}", config, options={"timeout": limit}))
        assert values["deploy_status_code"] == 124
        if (tmp_path / "pid").exists():
            break

    assert (
        f"cfn-init was ended; its log {var}/log/cfn-init.log has:\n"
        in values["deploy_stderr"]
    )
    assert f"Running command: echo $$ >{tmp_path}/pid" in values["deploy_stderr"]
    pid = int((tmp_path / "pid").read_text())
    wait_until(lambda: not psutil.pid_exists(pid))
    assert os.listdir(var / "log") == ["cfn-init.log"]
