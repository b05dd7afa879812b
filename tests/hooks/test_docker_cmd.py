from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from heat_config_hooks import needs, options, protocol
from heat_config_hooks.errors import HookError
from heat_config_hooks.tools import container_config, docker_cmd
from support.containers import IMAGE, LASTING, Podman
from support.driver import Alone, Driver
from support.loopback import SignalServer, wait_until
from support.machine import Machine, deployment

pytestmark = [pytest.mark.slow, pytest.mark.takes(60)]

RESOURCE = {"deploy_stack_id": "site/5a0e", "deploy_resource_name": "web"}
WEB = {"image": IMAGE, "command": LASTING}
SUFFIXED = re.compile(r"web-[0-9a-f]{8}")

STAND_IN = """\
#!/bin/sh
# Stands in for docker: records each command line, and what is in the files of variables that it names.
PATH=$PATH:/usr/bin:/bin
printf '%s\\n' "$*" >>{log}
for word; do
  file=${{word#--env-file=}}
  [ "$file" = "$word" ] || [ ! -f "$file" ] || {{ stat -c '%a %n' "$file"; cat "$file"; }} >>{log}
done
case " {fails} " in *" $1 "*) echo "$1 does not work today" >&2; exit 5 ;; esac
exec {program} "$@"
"""


@pytest.fixture
def driver(driver: Driver, podman: Podman) -> Driver:
    """A driver that finds the podman of the tests."""
    driver.environment["PATH"] = podman.path
    return driver


def containers(
    identity: str, config: object, *, inputs: dict[str, Any] = RESOURCE, **fields: Any
) -> dict[str, Any]:
    """Return a deployment of containers."""
    return deployment(identity, config, group="docker-cmd", inputs=inputs, **fields)


def once(script: str, **more: object) -> dict[str, object]:
    """Return a container that runs a script to its end before the next is run."""
    return {"image": IMAGE, "command": ["sh", "-c", script], "detach": False, **more}


def stand_in(
    folder: Path, *, program: str = "true", fails: str = "", name: str = "docker"
) -> tuple[Path, Path]:
    """Make a stand-in for docker that records its calls; return it and its record."""
    path, log = folder / "bin" / name, folder / f"{name}.log"
    path.parent.mkdir(exist_ok=True)
    path.write_text(
        STAND_IN.format(log=log, fails=fails, program=program, folder=folder)
    )
    path.chmod(0o755)
    log.touch()
    return path, log


def request(config: object, **fields: Any) -> protocol.Request:
    """Return the request to run some containers."""
    values: dict[str, Any] = {
        "id": "d1",
        "key": "d1",
        "name": "d1",
        "action": "CREATE",
        "inputs": {},
        "outputs": (),
    }
    return protocol.Request(
        config=config,
        options=options.read({}, docker_cmd.ABOUT.options),
        **{**values, **fields},
    )


def place(folder: Path) -> protocol.Workplace:
    """Return where a hook works."""
    (folder / "run").mkdir(exist_ok=True)
    return protocol.Workplace(
        run=folder / "run", working=folder / "working", outputs=folder / "outputs"
    )


def test_containers_are_created_replaced_and_removed(
    driver: Driver, podman: Podman
) -> None:
    """CREATE runs the containers, UPDATE replaces them, DELETE removes them; containers of others stay."""
    podman("run", "--detach", "--name=mine", IMAGE, *LASTING)
    podman(
        "run",
        "--detach",
        "--name=near",
        "--label=managed_by=docker-cmd",
        IMAGE,
        *LASTING,
    )
    made = driver.run(
        containers("d1", {"web": WEB, "data": {"image": IMAGE, "command": "true"}})
    )
    assert made["deploy_status_code"] == 0
    labels = {"config_id": "d1", "managed_by": "docker-cmd", **RESOURCE}
    assert podman.labels()["web"] == {**labels, "container_name": "web"}
    assert podman.labels()["data"] == {**labels, "container_name": "data"}
    assert podman.running() == {"mine", "near", "web"}

    # The same config under a new id: heat-agents replaces the containers too.
    again = driver.run(containers("d2", {"web": WEB}, action="UPDATE"))
    assert again["deploy_status_code"] == 0, again
    assert podman.labels()["web"]["config_id"] == "d2"
    assert set(podman.containers()) == {"mine", "near", "web"}

    gone = driver.run(containers("d3", {"web": WEB}, action="DELETE"))
    assert gone["deploy_status_code"] == 0
    if isinstance(driver, Alone):
        # the agent has removed them by then, as their config has left the metadata
        assert gone["deploy_stderr"] == "web of the config d2 was removed\n"
    assert podman.running() == {"mine", "near"}
    nothing = driver.run(containers("d4", {"web": WEB}, action="DELETE"))
    assert nothing["deploy_status_code"] == 0
    assert (
        nothing["deploy_stderr"]
        == "the deployment has no containers: nothing was removed\n"
    )


@pytest.mark.parametrize("driver", ["apply"], indirect=True)
def test_containers_of_other_deployments_stay(driver: Driver, podman: Podman) -> None:
    """Containers of another stack or another resource stay, even if their names are the same."""
    others = [
        {**RESOURCE, "deploy_stack_id": "site/6b1f"},
        {**RESOURCE, "deploy_resource_name": "db"},
    ]
    for number, inputs in enumerate(others):
        labels = {
            **inputs,
            "managed_by": "docker-cmd",
            "config_id": f"e{number}",
            "container_name": f"other{number}",
        }
        given = [f"--label={name}={value}" for name, value in labels.items()]
        podman("run", "--detach", f"--name=other{number}", *given, IMAGE, *LASTING)
    assert driver.run(containers("d1", {"web": WEB}))["deploy_status_code"] == 0
    assert (
        driver.run(containers("d2", {"web": WEB}, action="DELETE"))[
            "deploy_status_code"
        ]
        == 0
    )
    assert podman.running() == {"other0", "other1"}


LOSSY = """\
#!/bin/sh
case "$*" in
  "run "*--detach*) ;;
  "run "*) {podman} "$@" {lost}; exit 0 ;;
esac
exec {podman} "$@"
"""


@pytest.mark.parametrize("driver", ["alone"], indirect=True)
@pytest.mark.parametrize(
    ("lost", "output"),
    [
        (">/dev/null", "one\ntwo\nend"),
        ("2>/dev/null", "one\ntwo\nend"),
        (">/dev/null 2>&1", "one\ntwo\nend"),
        ("| grep two", "two\none\nend"),
    ],
    ids=["output", "errors", "both", "line"],
)
def test_output_that_the_client_loses_is_that_of_the_log(
    driver: Driver, podman: Podman, tmp_path: Path, lost: str, output: str
) -> None:
    """On a busy machine, `podman run` can lose the output and the exit code of a container that ends at once."""
    client = tmp_path / "bin/podman"
    client.parent.mkdir()
    client.write_text(LOSSY.format(podman=podman.folder / "bin/podman", lost=lost))
    client.chmod(0o755)
    driver.environment["HEAT_DOCKER_CMD"] = str(client)
    config = {
        "web": once("echo one; echo two; echo ünder >&2; exit 3"),
        "last": once("printf end", start_order=1),
    }
    done = driver.run(containers("d1", config, options={"continue_on_failure": True}))
    assert done["deploy_stdout"] == output, done
    assert (
        done["deploy_stderr"] == "ünder\nweb failed: its exit code is 3, expected 0\n"
    )
    assert done["deploy_status_code"] == 3


def test_failure_stops_the_containers_after_it(driver: Driver, podman: Podman) -> None:
    """Containers run in the order of `start_order`, their output is that of the run, and a failure stops it."""
    lie = '{"deploy_stdout": "", "deploy_stderr": "", "deploy_status_code": 0}'
    config = {
        "fourth": once("echo never", start_order=10),
        "first": once("echo one", start_order=-1),
        "third": once(f"echo '{lie}'; echo ünder >&2; exit 3", start_order="2"),
        "second": once("echo two; exit 7", exit_codes=[0, "7"]),
    }
    done = driver.run(containers("d1", config))
    assert done["deploy_stdout"] == f"one\ntwo\n{lie}\n"
    assert (
        "ünder\nthird failed: its exit code is 3, expected 0\nnot run because of that: fourth\n"
        in done["deploy_stderr"]
    )
    assert done["deploy_status_code"] == 3
    assert set(podman.containers()) == {"first", "second", "third"}

    done = driver.run(
        containers(
            "d2", config, options={"continue_on_failure": "true"}, action="UPDATE"
        )
    )
    assert done["deploy_stdout"] == f"one\ntwo\n{lie}\nnever\n"
    assert done["deploy_status_code"] == 3


@pytest.mark.parametrize("driver", ["alone"], indirect=True)
def test_unexpected_exit_code_zero_is_a_failure(driver: Driver) -> None:
    """The deployment fails if the exit code is 0 but another is expected, or if a container cannot be started."""
    done = driver.run(containers("d1", {"web": once("exit 0", exit_codes=4)}))
    assert done["deploy_status_code"] == 1
    assert "its exit code is 0, expected 4" in done["deploy_stderr"]
    done = driver.run(
        containers("d2", {"web": {"image": IMAGE, "command": "nothing-there"}})
    )
    assert done["deploy_status_code"] == 127
    assert "nothing-there" in done["deploy_stderr"]


@pytest.mark.parametrize("driver", ["apply"], indirect=True)
def test_container_gets_its_variables_volumes_and_user(
    driver: Driver, podman: Podman, tmp_path: Path
) -> None:
    """Each container gets exactly its own variables of every type, files of variables, volumes and user."""
    variables = {
        "TEXT": "plain",
        "ODD": ' "it\'s" $HOME \\ # ü\n second line ',
        "NUMBER": 42,
        "FLOAT": 1.5,
        "TRUE": True,
        "LIST": [1, "two"],
        "MAP": {"a": None},
        "EMPTY": "",
        "a.dotted-name": "dotted",
        "PATH": "/bin:/odd path",
        "LANG": None,
    }
    (tmp_path / "one.env").write_text("ONE=1\nTEXT=overridden\n")
    (tmp_path / "two.env").write_text("TWO=2\n")
    (tmp_path / "data").mkdir()
    config: dict[str, Any] = {
        "data": once(
            "touch /data/made", volumes={f"{tmp_path}/data": "/data"}, start_order=-1
        ),
        "env": {
            **once(
                "",
                environment=variables,
                env_file=[f"{tmp_path}/one.env", "", f"{tmp_path}/two.env"],
            ),
            "command": ["env", "-0"],
        },
        "id": once("id -u", user=1234),
        "more": once(
            "echo $A$B$LANG $(ls /data)",
            environment=["A=first", "A=b=c", "", "B=", "LANG"],
            env_file=f"{tmp_path}/one.env",
            volumes_from=["data:ro"],
            start_order=1,
        ),
        "last": {
            "action": "exec",
            "command": "lasting sh -c 'echo \"$A\"'",
            "environment": {"A": "x\ny"},
            "user": 0,
        },
        "lasting": WEB,
    }
    config["last"]["start_order"] = 2
    done = driver.run(containers("d1", config))
    assert done["deploy_status_code"] == 0, done
    given, _, rest = done["deploy_stdout"].partition("1234\n")
    received = dict(each.partition("=")[::2] for each in given.split("\0") if each)
    expected = {
        **variables,
        "NUMBER": "42",
        "FLOAT": "1.5",
        "TRUE": "true",
        "LIST": '[1,"two"]',
        "MAP": '{"a":null}',
        "LANG": "C.UTF-8",
        "ONE": "1",
        "TWO": "2",
    }
    assert {name: received.get(name) for name in expected} == expected
    assert re.fullmatch(r"[0-9a-f]{64}\nb=cC\.UTF-8 made\nx\ny\n", rest)
    assert (tmp_path / "data/made").exists()
    assert podman.running() == {"lasting"}


@pytest.mark.parametrize("driver", ["alone"], indirect=True)
def test_no_value_is_on_a_command_line(
    driver: Driver, podman: Podman, tmp_path: Path
) -> None:
    """All users of a machine can read command lines. Files with values are private, and are removed."""
    docker, log = stand_in(tmp_path, program=str(podman.folder / "bin/podman"))
    secrets = {"PLAIN": "xyzzy1", "ODD": "xyzzy2 'and' more", "LINES": "xyzzy3\nxyzzy4"}
    driver.environment["HEAT_DOCKER_CMD"] = str(docker)
    config = {
        "web": once('echo "$PLAIN$ODD$LINES"', environment=secrets),
        "it": {
            "action": "exec",
            "command": ["long", "env"],
            "environment": ["PLAIN=xyzzy1"],
            "start_order": 2,
        },
        "long": {**WEB, "start_order": 1},
    }
    done = driver.run(containers("d1", config))
    assert done["deploy_stdout"].startswith("".join(secrets.values()) + "\n")
    assert "PLAIN=xyzzy1\n" in done["deploy_stdout"]
    said = log.read_text()
    assert said.count("PLAIN=xyzzy1") == said.count("\nPLAIN=xyzzy1\n") == 2
    assert said.count("xyzzy") == 2
    assert "--env=ODD --env=LINES" in said
    assert {mode for mode, _ in re.findall(r"^(\d+) (/\S+)$", said, re.MULTILINE)} == {
        "600"
    }
    for _, path in re.findall(r"^(\d+) (/\S+)$", said, re.MULTILINE):
        assert not Path(path).exists()
    kept = [
        path
        for path in tmp_path.rglob("*")
        if path.is_file() and path.name.endswith((".env", "steps.json"))
    ]
    assert kept == []


@pytest.mark.parametrize("driver", ["alone"], indirect=True)
def test_variable_of_a_container_does_not_reach_the_engine(
    driver: Driver, tmp_path: Path
) -> None:
    """A value with spaces is in a file; one that cannot be in a file is refused before the container runs."""
    docker, log = stand_in(tmp_path)
    driver.environment["HEAT_DOCKER_CMD"] = str(docker)
    given = {
        "LD_PRELOAD": "/evil.so /other.so",
        "DOCKER_HOST": "tcp://evil",
        "GREETING": "it's me",
    }
    done = driver.run(containers("d1", {"web": once("true", environment=given)}))
    assert done["deploy_status_code"] == 0, done
    assert "--env=GREETING" in log.read_text()
    assert "--env=LD_PRELOAD" not in log.read_text()
    done = driver.run(
        containers("d2", {"web": once("true", environment={"PATH": "/evil\n/x"})})
    )
    assert done["deploy_status_code"] == 125
    assert (
        "config.web.environment.PATH: the variable would also affect the container engine"
        in done["deploy_stderr"]
    )


def test_command_lines_are_those_of_heat_agents(driver: Driver, tmp_path: Path) -> None:
    """They are those of heat-agents, with the flags that docker really has."""
    docker, log = stand_in(tmp_path)
    driver.environment["HEAT_DOCKER_CMD"] = str(docker)
    config = {
        "web": {
            "image": "nginx:1",
            "command": "serve 'all of' it",
            "env_file": "/etc/web.env",
            "net": "container:data",
            "pid": "host",
            "privileged": True,
            "restart": False,
            "user": "www",
            "volumes": ["/a:/b:ro", "/c"],
            "volumes_from": {"data": "ro", "other": None},
            "start_order": 1,
        },
        "data": {
            "image": "busybox",
            "command": ["true", 1, False],
            "privileged": "false",
            "restart": "on-failure:3",
        },
        "reload": {
            "action": "exec",
            "command": "web nginx -s reload",
            "user": "root",
            "privileged": "true",
            "start_order": 2,
        },
    }
    done = driver.run(containers("d1", json.dumps(config)))
    assert done["deploy_status_code"] == 0, done
    lines = [
        line
        for line in log.read_text().splitlines()
        if line.split()[0] in ("run", "exec")
    ]

    def labels(name: str) -> str:
        return (
            "--label=deploy_stack_id=site/5a0e --label=deploy_resource_name=web --label=config_id=d1"
            f" --label=container_name={name} --label=managed_by=docker-cmd"
        )

    assert lines == [
        (
            f"run --name=data {labels('data')}"
            " --detach=true --restart=on-failure:3 --privileged=false busybox true 1 false"
        ),
        (
            f"run --name=web {labels('web')} --detach=true --env-file=/etc/web.env --volume=/a:/b:ro --volume=/c"
            " --volumes-from=data:ro --volumes-from=other --net=container:data --pid=host --restart=no --user=www"
            " --privileged=true nginx:1 serve all of it"
        ),
        "exec --user=root --privileged=true web nginx -s reload",
    ]


@pytest.mark.parametrize("driver", ["alone"], indirect=True)
def test_a_name_in_use_gets_a_suffix_until_it_is_free(
    driver: Driver, podman: Podman
) -> None:
    """Meanwhile, other containers of the config refer to the container with the suffix."""
    podman("run", "--detach", "--name=web", IMAGE, *LASTING)
    config = {
        "web": {**WEB, "volumes": ["/data"]},
        "mark": {
            "action": "exec",
            "command": ["web", "touch", "/data/mark"],
            "start_order": 1,
        },
        "look": once(
            "ls /data", volumes_from=["web"], net="container:web", start_order=2
        ),
    }
    done = driver.run(containers("d1", config))
    assert done["deploy_status_code"] == 0, done
    assert done["deploy_stdout"].endswith("\nmark\n")
    [suffixed] = [name for name in podman.containers() if SUFFIXED.fullmatch(name)]
    assert podman.labels()[suffixed]["container_name"] == "web"
    assert (
        driver.run(containers("d2", config, action="DELETE"))["deploy_status_code"] == 0
    )
    assert set(podman.containers()) == {"web"}


@pytest.mark.parametrize("driver", ["apply"], indirect=True)
def test_a_name_that_has_become_free_is_given(driver: Driver, podman: Podman) -> None:
    """The oldest container that waits for a name gets it in the next run, but no container of others."""
    ours = ["--label=managed_by=docker-cmd", "--label=config_id=e1"]
    podman(
        "run",
        "--detach",
        "--name=web-12345678",
        "--label=container_name=web",
        *ours,
        IMAGE,
        *LASTING,
    )
    podman(
        "run",
        "--detach",
        "--name=web-abcdef01",
        "--label=container_name=web",
        *ours,
        IMAGE,
        *LASTING,
    )
    podman(
        "run",
        "--detach",
        "--name=mine-0",
        "--label=container_name=mine",
        IMAGE,
        *LASTING,
    )
    first = podman.containers()["web-12345678"]["Id"]
    done = driver.run(containers("d1", {"other": WEB}))
    assert done["deploy_stderr"] == "web-12345678 was renamed to web\n"
    assert podman.running() == {"web", "web-abcdef01", "mine-0", "other"}
    assert podman.containers()["web"]["Id"] == first


@pytest.mark.parametrize("driver", ["alone"], indirect=True)
def test_a_container_is_asked_to_end_before_it_is_removed(
    driver: Driver, podman: Podman, tmp_path: Path
) -> None:
    """It is stopped first, so that a database, for example, can write its data."""
    (tmp_path / "data").mkdir()
    script = "trap 'touch /data/ended; exit' TERM; touch /data/ready; while :; do sleep 0.05; done"
    web = {
        "image": IMAGE,
        "command": ["sh", "-c", script],
        "volumes": f"{tmp_path}/data:/data",
    }
    assert driver.run(containers("d1", {"web": web}))["deploy_status_code"] == 0
    wait_until((tmp_path / "data/ready").exists)
    assert (
        driver.run(containers("d2", None, action="DELETE"))["deploy_status_code"] == 0
    )
    assert (tmp_path / "data/ended").exists()
    assert podman.containers() == {}


def test_a_hang_is_ended_with_its_container(driver: Driver, podman: Podman) -> None:
    """The timeout removes the container that is running, even if it ignores TERM."""
    config = {
        "before": WEB,
        "hangs": once(
            "trap : TERM; echo hangs; while :; do sleep 0.05; done", start_order=1
        ),
        "after": {**WEB, "start_order": 2},
    }
    done = driver.run(containers("d1", config, options={"timeout": 3}))
    assert done["deploy_status_code"] == 124
    assert "hangs" in done["deploy_stdout"]
    assert (
        "the run was ended while hangs was starting or running: hangs is removed"
        in done["deploy_stderr"]
    )
    wait_until(lambda: set(podman.containers()) == {"before"})
    assert podman.running() == {"before"}
    conmons = [
        each
        for each in Path("/proc").glob("[0-9]*/cmdline")
        if _names(each, podman.folder, "hangs")
    ]
    assert conmons == []


def _names(path: Path, folder: Path, name: str) -> bool:
    try:
        text = path.read_bytes()
    except OSError:
        return False
    return str(folder).encode() in text and f"\0{name}\0".encode() in text


def test_a_second_run_replaces_the_first(
    machine: Machine, heat: SignalServer, podman: Podman
) -> None:
    """`retry` does not leave two copies of a container, with a stack or without one."""
    machine.environment["PATH"] = podman.path
    document = [
        containers(
            "d1",
            {"web": WEB, "db": once("exit 1", start_order=1)},
            inputs={},
            signal=heat.url(),
        )
    ]
    assert machine.apply(document).code == 1
    first = podman.containers()["web"]["Id"]
    assert machine.agent("retry", "d1").code == 0
    assert machine.apply(document).code == 1
    assert set(podman.containers()) == {"web", "db"}
    assert podman.containers()["web"]["Id"] != first


def test_nothing_of_an_empty_config_is_run(driver: Driver, podman: Podman) -> None:
    """It is a success, and the result says that nothing was run."""
    configs: tuple[object, ...] = ("", None, {}, "# to come\n")
    for number, config in enumerate(configs):
        done = driver.run(containers(f"d{number}", config))
        assert done["deploy_status_code"] == 0
        assert done["deploy_stderr"] == "the config is empty: nothing was run\n"
    assert podman.containers() == {}


@pytest.mark.parametrize("driver", ["alone"], indirect=True)
def test_yaml_will_do(driver: Driver) -> None:
    """A config may be YAML text."""
    text = f"web:\n  image: {IMAGE}\n  command: sh -c 'echo $A $B'\n  detach: no\n  environment: {{A: 1, B: two}}\n"
    done = driver.run(containers("d1", text))
    assert (done["deploy_stdout"], done["deploy_status_code"]) == ("1 two\n", 0)
    done = driver.run(containers("d2", "web:\n  image: {\n"))
    assert done["deploy_status_code"] == 125
    assert "config: this text is not valid YAML" in done["deploy_stderr"]
    assert "line 3" in done["deploy_stderr"]


@pytest.mark.parametrize(
    ("given", "path", "says"),
    [
        ("nginx", "config.web", "expected a map"),
        ({}, "config.web.image", "needs an image"),
        ({"image": ""}, "config.web.image", "needs an image"),
        (
            {"image": "--privileged"},
            "config.web.image",
            "read as an option of the command",
        ),
        ({"image": ["a"]}, "config.web.image", "expected text, not ['a']"),
        (
            {"image": "a", "action": "start"},
            "config.web.action",
            "expected run or exec, not 'start'",
        ),
        (
            {"image": "a", "action": ["run"]},
            "config.web.action",
            "expected run or exec",
        ),
        (
            {"image": "a", "detach": "maybe"},
            "config.web.detach",
            "expected true or false, not 'maybe'",
        ),
        (
            {"image": "a", "privileged": 2},
            "config.web.privileged",
            "expected true or false, not 2",
        ),
        ({"image": "a", "exit_codes": []}, "config.web.exit_codes", "at least one"),
        (
            {"image": "a", "exit_codes": [0, "x"]},
            "config.web.exit_codes",
            "expected exit codes",
        ),
        (
            {"image": "a", "exit_codes": [0.5]},
            "config.web.exit_codes",
            "expected exit codes",
        ),
        (
            {"image": "a", "exit_codes": {"0": 1}},
            "config.web.exit_codes[0]",
            "expected text",
        ),
        (
            {"image": "a", "start_order": "first"},
            "config.web.start_order",
            "expected a number, not 'first'",
        ),
        (
            {"image": "a", "start_order": True},
            "config.web.start_order",
            "expected a number, not True",
        ),
        (
            {"image": "a", "start_order": "nan"},
            "config.web.start_order",
            "expected a number, not 'nan'",
        ),
        (
            {"image": "a", "command": "it's"},
            "config.web.command",
            "No closing quotation",
        ),
        (
            {"image": "a", "command": ["a", "b\0c"]},
            "config.web.command[1]",
            "a character",
        ),
        ({"image": "a", "command": {"a": 1}}, "config.web.command", "expected text"),
        (
            {"image": "a", "environment": {"A B": 1}},
            "config.web.environment",
            "'A B' is not a valid name",
        ),
        (
            {"image": "a", "environment": ["=b"]},
            "config.web.environment",
            "'' is not a valid name",
        ),
        (
            {"image": "a", "environment": {"A": "\ud800"}},
            "config.web.environment.A",
            "a character",
        ),
        (
            {"image": "a", "environment": [{"A": 1}]},
            "config.web.environment[0]",
            "expected text",
        ),
        (
            {"image": "a", "env_file": {"a": "b"}},
            "config.web.env_file[0]",
            "expected text",
        ),
        (
            {"image": "a", "volumes": {"/a": ["/b"]}},
            "config.web.volumes./a",
            "expected text",
        ),
        (
            {"image": "a", "restart": True},
            "config.web.restart",
            "expected text, not True",
        ),
        (
            {"action": "exec"},
            "config.web.command",
            "the name of a container, and the command to run in it",
        ),
        (
            {"action": "exec", "command": "web"},
            "config.web.command",
            "the command to run in it",
        ),
        (
            {"action": "exec", "command": ["--privileged", "x"]},
            "config.web.command",
            "the name of a container",
        ),
    ],
)
def test_a_config_that_cannot_be_carried_out(
    given: object, path: str, says: str, tmp_path: Path
) -> None:
    """It is refused with the path of the mistake, before any container runs."""
    with pytest.raises(HookError) as caught:
        docker_cmd.prepare(
            request({"fine": {"image": "a"}, "web": given}), place(tmp_path)
        )
    assert caught.value.path == path
    assert says in caught.value.problem


IGNORED: list[tuple[dict[object, object], list[str]]] = [
    (
        {"image": "a", "name": "db"},
        ["name is ignored: the container is named web, as its key in the config"],
    ),
    (
        {"image": "a", "volume": "/a"},
        ["volume is ignored: docker-cmd has no such key; did you mean volumes?"],
    ),
    (
        {"image": "a", "ports": ["80:80"], 1: 2},
        [
            "ports is ignored: docker-cmd has no such key; the keys are action, command, detach, env_file",
            "1 is ignored",
        ],
    ),
    (
        {"action": "exec", "command": "a b", "image": ["c"]},
        ["image is ignored: it applies to action: run, not to action: exec"],
    ),
]


@pytest.mark.parametrize(("given", "sentences"), IGNORED)
def test_keys_that_are_ignored(
    given: object, sentences: list[str], tmp_path: Path
) -> None:
    """A key without effect is accepted, as by heat-agents' hook; a sentence names it."""
    docker_cmd.prepare(request({"web": given}), place(tmp_path))
    [entry] = container_config.read({"web": given})
    assert len(entry.ignored) == len(sentences)
    for sentence, words in zip(entry.ignored, sentences, strict=True):
        assert f"config.web.{words}" in sentence


def test_ignored_keys_are_warnings(driver: Driver, tmp_path: Path) -> None:
    """Standard error of the result begins with the warnings; the containers run."""
    docker, log = stand_in(tmp_path)
    driver.environment["HEAT_DOCKER_CMD"] = str(docker)
    config = {
        "db": {"image": "mysql", "name": "x", "privilege": True},
        "web": {"image": "nginx", "start_order": 1},
    }
    done = driver.run(containers("d1", config))
    assert (done["deploy_status_code"], done["deploy_stdout"]) == (0, "")
    assert done["deploy_stderr"] == (
        "warning: config.db.name is ignored: the container is named db, as its key in the config\n"
        "warning: config.db.privilege is ignored: docker-cmd has no such key; did you mean privileged?\n"
    )
    assert [
        line.split()[1]
        for line in log.read_text().splitlines()
        if line.startswith("run ")
    ] == [
        "--name=db",
        "--name=web",
    ]


@pytest.mark.parametrize("name", ["-a", "a b", "a/b", "", "ü", 1])
def test_invalid_container_name_is_refused(name: object, tmp_path: Path) -> None:
    """The name of a container is checked, because it is an argument of the command."""
    with pytest.raises(HookError, match="the name of a container consists of"):
        docker_cmd.prepare(request({name: {"image": "a"}}), place(tmp_path))
    with pytest.raises(
        HookError, match="expected a map from the name of each container"
    ):
        docker_cmd.prepare(request(["a"]), place(tmp_path))


def test_mistakes_are_told_and_nothing_is_run(driver: Driver, podman: Podman) -> None:
    """No container runs, not even one before the mistake, after an unknown action or a wrong option."""
    config = {
        "fine": once("echo fine"),
        "web": {"image": IMAGE, "action": "stop", "start_order": 1},
    }
    done = driver.run(containers("d1", config))
    assert done["deploy_status_code"] == 125
    assert (
        "config.web.action: expected run or exec, not 'stop'" in done["deploy_stderr"]
    )
    done = driver.run(
        containers(
            "d2",
            {"web": WEB},
            options={"continue_on_fail": True, "continue_on_failure": "maybe"},
        )
    )
    assert done["deploy_status_code"] == 125
    assert (
        "options.continue_on_fail: docker-cmd has no such option"
        in done["deploy_stderr"]
    )
    assert "did you mean continue_on_failure?" in done["deploy_stderr"]
    assert (
        "options.continue_on_failure: expected true or false, not 'maybe'"
        in done["deploy_stderr"]
    )
    assert podman.containers() == {}


def test_missing_engine_is_reported(driver: Driver, tmp_path: Path) -> None:
    """The failure says how to install it, also if containers were to be removed."""
    (tmp_path / "empty").mkdir()
    driver.environment["PATH"] = str(tmp_path / "empty")
    for identity, action in (("d1", "CREATE"), ("d2", "DELETE")):
        done = driver.run(containers(identity, {"web": WEB}, action=action))
        assert done["deploy_status_code"] == 127
        sentence = f"docker or podman is not installed; {needs.CONTAINERS.install}\n"
        assert done["deploy_stderr"] == sentence
    driver.environment["HEAT_DOCKER_CMD"] = "nerdctl"
    done = driver.run(containers("d3", {"web": WEB}))
    assert done["deploy_status_code"] == 127
    assert done["deploy_stderr"].startswith(
        "nerdctl ($HEAT_DOCKER_CMD) is not installed"
    )


@pytest.mark.parametrize("driver", ["alone"], indirect=True)
def test_other_engine_replaces_docker_without_a_daemon(
    driver: Driver, podman: Podman, tmp_path: Path
) -> None:
    """Another engine is used, and is kept: docker does not know its containers."""
    docker, log = stand_in(tmp_path, fails="version")
    driver.environment["PATH"] = f"{docker.parent}:{podman.path}"
    assert driver.run(containers("d1", {"web": WEB}))["deploy_status_code"] == 0
    assert log.read_text() == "version\n"
    assert podman.running() == {"web"}

    stand_in(tmp_path)
    log.write_text("")
    assert (
        driver.run(containers("d2", {"web": WEB}, action="DELETE"))[
            "deploy_status_code"
        ]
        == 0
    )
    assert log.read_text() == ""
    assert podman.containers() == {}


@pytest.mark.parametrize("driver", ["alone"], indirect=True)
def test_an_engine_that_does_not_work_any_more(driver: Driver, tmp_path: Path) -> None:
    """The failure says why, and no other engine is used."""
    docker, _ = stand_in(tmp_path)
    driver.environment["PATH"] = str(docker.parent)
    assert driver.run(containers("d1", {"web": WEB}))["deploy_status_code"] == 0
    stand_in(tmp_path, fails="version")
    done = driver.run(containers("d2", {"web": WEB}, action="DELETE"))
    assert done["deploy_status_code"] == 127
    note = driver.working("docker-cmd") / ".program"
    assert (
        f"{docker} does not work: version does not work today (it was chosen earlier; remove {note}"
        in (done["deploy_stderr"])
    )
    docker.unlink()
    stand_in(tmp_path, name="podman")
    done = driver.run(containers("d3", {"web": WEB}, action="DELETE"))
    assert done["deploy_status_code"] == 127
    assert (
        f"{docker}, which made the containers, is no longer installed (remove {note}"
        in done["deploy_stderr"]
    )
    note.unlink()
    assert driver.run(containers("d4", {"web": WEB}))["deploy_status_code"] == 0


def test_failure_lists_the_reason_of_each_engine(
    driver: Driver, tmp_path: Path
) -> None:
    """The message has the reason of each."""
    docker, _ = stand_in(tmp_path, fails="version")
    stand_in(tmp_path, fails="version", name="podman")
    driver.environment["PATH"] = str(docker.parent)
    done = driver.run(containers("d1", {"web": WEB}))
    assert done["deploy_status_code"] == 127
    assert (
        f"{docker} does not work: version does not work today; {docker.parent}/podman does"
        in done["deploy_stderr"]
    )


@pytest.mark.parametrize("driver", ["alone"], indirect=True)
def test_container_that_cannot_be_removed_fails_the_deployment(
    driver: Driver, podman: Podman, tmp_path: Path
) -> None:
    """A container that cannot be removed fails the deployment, and no new one is run."""
    docker, log = stand_in(
        tmp_path, fails="rm", program=str(podman.folder / "bin/podman")
    )
    driver.environment["HEAT_DOCKER_CMD"] = str(docker)
    assert driver.run(containers("d1", {"web": WEB}))["deploy_status_code"] == 0
    for identity, action in (("d2", "UPDATE"), ("d3", "DELETE")):
        log.write_text("")
        done = driver.run(containers(identity, {"web": WEB}, action=action))
        assert done["deploy_status_code"] == 5
        assert "web cannot be removed\n" in done["deploy_stderr"]
        assert "\nrun " not in log.read_text()
    _, log = stand_in(tmp_path, fails="ps")
    done = driver.run(containers("d4", {"web": WEB}))
    assert done["deploy_status_code"] == 125
    assert "cannot list the containers (exit code 5)" in done["deploy_stderr"]
