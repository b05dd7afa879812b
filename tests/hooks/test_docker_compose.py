from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from heat_config_hooks import needs, options, protocol
from heat_config_hooks.errors import HookError
from heat_config_hooks.tools import docker_compose
from support.containers import IMAGE, LASTING, Podman
from support.driver import Driver
from support.machine import deployment
from support.observations import mode
from support.tools import need

pytestmark = pytest.mark.slow

STAND_IN = """\
#!/bin/sh
# Stands in for a compose program: records its command line, its folder, and what is there.
printf '%s: %s\\n' "$(pwd)" "$(/usr/bin/basename "$0") $*" >>{log}
case "$1 $2" in *version*) exit {version} ;; esac
/usr/bin/env | /usr/bin/sort >{log}.env
[ -z "{hangs}" ] || exec /bin/sleep 1000
echo "done: $*"
exit {code}
"""


def project(
    identity: str, config: object, *, name: str = "site", **fields: Any
) -> dict[str, Any]:
    """Return a deployment of a project."""
    return deployment(identity, config, group="docker-compose", name=name, **fields)


def service(**more: object) -> dict[str, Any]:
    """Return a service that goes on until it is ended."""
    return {"image": IMAGE, "command": LASTING, **more}


def stand_in(
    folder: Path,
    name: str = "docker",
    *,
    code: int = 0,
    version: int = 0,
    hangs: bool = False,
) -> tuple[Path, Path]:
    """Make a stand-in for a compose program that records its calls; return it and its record."""
    path, log = folder / "bin" / name, folder / f"{name}.log"
    path.parent.mkdir(exist_ok=True)
    path.write_text(
        STAND_IN.format(
            log=log, code=code, version=version, hangs="yes" if hangs else ""
        )
    )
    path.chmod(0o755)
    log.write_text("")
    return path, log


@pytest.fixture
def real(driver: Driver, podman: Podman) -> Driver:
    """Let the driver find podman-compose and the podman of the tests."""
    need("podman-compose", "podman-compose")
    driver.environment["PATH"] = podman.path
    return driver


def environment(podman: Podman, name: str) -> dict[str, str]:
    """Return the variables of a container."""
    return dict(
        each.partition("=")[::2] for each in podman.containers()[name]["Config"]["Env"]
    )


def test_project_is_created_changed_and_removed(real: Driver, podman: Podman) -> None:
    """CREATE brings a project up, UPDATE changes it, DELETE takes it down and leaves nothing."""
    text = f"""\
version: "3"
services:
  web:  # as it is, comments and all
    image: {IMAGE}
    command: &lasting [sh, -c, "trap 'exit 0' TERM; while :; do sleep 0.05; done"]
    env_file: [./web.env, conf/more.env]
    environment:
      GREETING: ${{GREETING}}
      ANSWER: "yes"
  db:
    image: {IMAGE}
    command: *lasting
"""
    env_files = [
        {
            "file_name": "./web.env",
            "content": "WEB=1\nA=long value that will be shorter\n",
        },
        {"file_name": "conf/more.env", "content": "MORE=ünï\n"},
    ]
    inputs = {"GREETING": "Hällo \"you\" & 'me'", "env_files": json.dumps(env_files)}
    made = real.run(project("d1", text, inputs=inputs))
    assert made["deploy_status_code"] == 0, made
    folder = real.working("docker-compose") / "site"
    assert (folder / "docker-compose.yml").read_text() == text
    assert (folder / "web.env").read_text() == env_files[0]["content"]
    assert {mode(path) for path in folder.rglob("*") if path.is_file()} == {0o600}
    assert {mode(path) for path in (folder, folder.parent, folder / "conf")} == {0o700}
    assert podman.running() == {"site_web_1", "site_db_1"}
    variables = environment(podman, "site_web_1")
    assert variables["GREETING"] == inputs["GREETING"]
    assert (variables["WEB"], variables["MORE"], variables["ANSWER"]) == (
        "1",
        "ünï",
        "yes",
    )
    before = {name: each["Id"] for name, each in podman.containers().items()}

    # The same again, under a new id: nothing is changed.
    again = real.run(project("d2", text, inputs=inputs, action="UPDATE"))
    assert again["deploy_status_code"] == 0, again
    assert {name: each["Id"] for name, each in podman.containers().items()} == before

    # As a structure, with another variable, one file less and one service less.
    changed = {
        "services": {
            "web": service(
                env_file="web.env", environment={"GREETING": "${GREETING}"}, tty=None
            )
        }
    }
    shorter = [{"file_name": "web.env", "content": "A=\n"}]
    done = real.run(
        project(
            "d3",
            changed,
            inputs={"GREETING": 42, "env_files": shorter},
            action="UPDATE",
        )
    )
    assert done["deploy_status_code"] == 0, done
    assert podman.running() == set(podman.containers()) == {"site_web_1"}
    variables = environment(podman, "site_web_1")
    assert (variables["GREETING"], variables["A"]) == ("42", "")
    assert not {"WEB", "MORE", "ANSWER"} & set(variables)
    assert sorted(os.listdir(folder)) == [
        ".heat-config.json",
        "docker-compose.yml",
        "web.env",
    ]

    gone = real.run(project("d4", None, action="DELETE"))
    assert gone["deploy_status_code"] == 0, gone
    assert podman.containers() == {}
    assert not folder.exists()

    nothing = real.run(project("d5", changed, action="DELETE"))
    assert nothing["deploy_status_code"] == 0
    assert (
        nothing["deploy_stderr"]
        == f"{folder}/docker-compose.yml does not exist: nothing was run\n"
    )


@pytest.mark.parametrize("driver", ["apply"], indirect=True)
def test_inputs_of_every_type_are_variables(real: Driver, podman: Podman) -> None:
    """Inputs are variables for the compose file, as for a script, except those that choose a project or an engine."""
    inputs: dict[str, Any] = {
        "TEXT": "two\nlines",
        "NUMBER": 17,
        "FLOAT": 1.5,
        "TRUE": True,
        "NULL": None,
        "LIST": [1, "ü"],
        "MAP": {"a": {"b": []}},
        "COMPOSE_PROJECT_NAME": "elsewhere",
        "PATH": "/nowhere",
        "deploy_password": "xyzzy",
    }
    variables = {f"V_{name}": f"${{{name}}}" for name in inputs}
    config = {"services": {"web": service(environment=variables)}}
    done = real.run(project("d1", config, inputs=inputs))
    assert done["deploy_status_code"] == 0, done
    received = environment(podman, "site_web_1")
    assert {
        name: received[f"V_{name}"]
        for name in ("TEXT", "NUMBER", "FLOAT", "TRUE", "NULL", "LIST", "MAP")
    } == {
        "TEXT": "two\nlines",
        "NUMBER": "17",
        "FLOAT": "1.5",
        "TRUE": "true",
        "NULL": "",
        "LIST": '[1,"\\u00fc"]',
        "MAP": '{"a":{"b":[]}}',
    }
    assert received["V_deploy_password"] == ""
    assert received["V_PATH"].endswith(podman.path)
    assert podman.running() == {"site_web_1"}


@pytest.mark.parametrize("driver", ["alone"], indirect=True)
def test_service_that_cannot_be_started_is_a_failure(
    real: Driver, podman: Podman
) -> None:
    """It is a failure even if podman-compose succeeds, and the project can be taken down.

    A project that heat-agents' hook brought up can be taken down too; files of others stay in its folder.
    """
    config = {
        "services": {
            "web": service(),
            "bad": {"image": IMAGE, "command": "nothing-there"},
        }
    }
    done = real.run(project("d1", config))
    assert done["deploy_status_code"] not in (0, None)
    assert "nothing-there" in done["deploy_stderr"]
    assert podman.running() == {"site_web_1"}

    folder = real.working("docker-compose") / "site"
    (folder / ".heat-config.json").unlink()
    (folder / "data").mkdir()
    done = real.run(project("d2", config, action="DELETE"))
    assert done["deploy_status_code"] == 0, done
    assert f"{folder} is kept, because other files are in it\n" in done["deploy_stderr"]
    assert os.listdir(folder) == ["data"]
    assert podman.containers() == {}


@pytest.mark.parametrize("driver", ["alone"], indirect=True)
def test_a_file_that_the_program_refuses(real: Driver, podman: Podman) -> None:
    """A better file can follow, and DELETE works for a project that was never brought up."""
    broken = {"services": {"web": {"extends": {"service": "nobody"}}}}
    refused = real.run(project("d1", broken))
    assert refused["deploy_status_code"] not in (0, None)
    assert refused["deploy_stderr"]
    done = real.run(project("d2", broken, action="DELETE"))
    assert done["deploy_status_code"] == 0, done
    assert (
        "the project was never brought up, and has no containers"
        in done["deploy_stderr"]
    )
    assert not (real.working("docker-compose") / "site").exists()

    assert (
        real.run(project("d3", broken))["deploy_status_code"]
        == refused["deploy_status_code"]
    )
    done = real.run(project("d4", {"services": {"web": service()}}, action="UPDATE"))
    assert done["deploy_status_code"] == 0, done
    assert podman.running() == {"site_web_1"}


@pytest.mark.parametrize("driver", ["alone"], indirect=True)
def test_which_program_is_run(driver: Driver, tmp_path: Path) -> None:
    """The first that works of «docker compose», docker-compose and podman-compose, or that of the variable."""
    docker, log = stand_in(tmp_path)
    driver.environment["PATH"] = str(docker.parent)
    config = {"services": {"web": {"image": "nginx"}}}
    secrets = {
        "USED": "${not interpolated} xyzzy",
        "UNUSED": "plugh",
        "DOCKER_HOST": "tcp://elsewhere",
        "PATH": "/x",
    }
    done = driver.run(
        project(
            "d1", {**config, "x-used": "$USED"}, inputs={**secrets, "env_files": ""}
        )
    )
    assert (done["deploy_stdout"], done["deploy_status_code"]) == (
        "done: compose up -d --no-build\n",
        0,
    )
    folder = driver.working("docker-compose") / "site"
    assert (
        log.read_text().splitlines()[-1] == f"{folder}: docker compose up -d --no-build"
    )
    assert "docker version" in log.read_text()
    assert "xyzzy" not in log.read_text()
    given = dict(
        line.partition("=")[::2] for line in Path(f"{log}.env").read_text().splitlines()
    )
    assert (given["USED"], given["UNUSED"]) == (secrets["USED"], "plugh")
    assert "DOCKER_HOST" not in given
    assert "env_files" not in given
    assert given["PATH"] == driver.environment["PATH"]

    orphans = {"remove_orphans": "true", "volumes": True}
    done = driver.run(project("d2", config, options=orphans, action="UPDATE"))
    assert done["deploy_stdout"] == "done: compose up -d --no-build --remove-orphans\n"
    done = driver.run(project("d3", config, options=orphans, action="DELETE"))
    assert done["deploy_stdout"] == "done: compose down --volumes --remove-orphans\n"
    assert not folder.exists()

    shutil.rmtree(driver.working("docker-compose"))
    stand_in(tmp_path, version=1)
    _, unused = stand_in(tmp_path, "docker-compose")
    stand_in(tmp_path, "podman")
    chosen, log = stand_in(tmp_path, "podman-compose")
    done = driver.run(project("d4", config))
    assert (done["deploy_stdout"], done["deploy_status_code"]) == (
        "done: up -d --no-build\n",
        0,
    )
    assert (
        log.read_text().splitlines()[-1] == f"{folder}: podman-compose up -d --no-build"
    )
    # its version: there is no daemon that it could work with
    assert unused.read_text().count("\n") == 1
    assert (driver.working("docker-compose") / ".program").read_text() == str(chosen)

    driver.environment["HEAT_DOCKER_COMPOSE_CMD"] = (
        f"{docker.parent}/docker-compose --log-level ERROR"
    )
    done = driver.run(project("d5", config, name="other"))
    assert done["deploy_stdout"] == "done: --log-level ERROR up -d --no-build\n"


def test_variables_are_known_to_the_end(driver: Driver, tmp_path: Path) -> None:
    """The project is taken down with the variables with which it was brought up."""
    docker, log = stand_in(tmp_path)
    driver.environment["HEAT_DOCKER_COMPOSE_CMD"] = f"{docker} compose"
    config = (
        "services: {web: {image: nginx, ports: ['${PORT:?}:80'], environment: [TOKEN]}}"
    )
    done = driver.run(
        project("d1", config, inputs={"PORT": 8080, "TOKEN": "xyzzy", "OTHER": "plugh"})
    )
    assert done["deploy_status_code"] == 0
    note = driver.working("docker-compose") / "site/.heat-config.json"
    assert mode(note) == 0o600
    assert "plugh" not in note.read_text()
    Path(f"{log}.env").unlink()
    assert driver.run(project("d2", config, action="DELETE"))["deploy_status_code"] == 0
    given = Path(f"{log}.env").read_text()
    assert "PORT=8080\n" in given
    assert "TOKEN=xyzzy\n" in given


@pytest.mark.parametrize("driver", ["alone"], indirect=True)
def test_failed_program_fails_the_deployment(driver: Driver, tmp_path: Path) -> None:
    """The failure of a program fails the deployment, and a project that could not be removed is not forgotten."""
    docker, _ = stand_in(tmp_path)
    driver.environment["HEAT_DOCKER_COMPOSE_CMD"] = str(docker)
    config = {"services": {"web": {"image": "nginx"}}}
    assert driver.run(project("d1", config))["deploy_status_code"] == 0
    stand_in(tmp_path, code=14)
    done = driver.run(project("d2", config, action="UPDATE"))
    assert (done["deploy_stdout"], done["deploy_status_code"]) == (
        "done: up -d --no-build\n",
        14,
    )
    done = driver.run(project("d3", config, action="DELETE"))
    assert (done["deploy_stdout"], done["deploy_status_code"]) == (
        "done: down --remove-orphans\n",
        14,
    )
    folder = driver.working("docker-compose") / "site"
    assert (folder / "docker-compose.yml").exists()
    stand_in(tmp_path, hangs=True)
    done = driver.run(project("d4", config, action="DELETE", options={"timeout": 1}))
    assert done["deploy_status_code"] == 124
    stand_in(tmp_path)
    assert driver.run(project("d5", config, action="DELETE"))["deploy_status_code"] == 0
    assert not folder.exists()


@pytest.mark.parametrize("driver", ["alone"], indirect=True)
def test_project_with_an_odd_name_has_another_folder(
    driver: Driver, tmp_path: Path
) -> None:
    """Its project has another folder below the working folder."""
    docker, log = stand_in(tmp_path)
    driver.environment["HEAT_DOCKER_COMPOSE_CMD"] = str(docker)
    config = {"services": {"web": {"image": "nginx"}}}
    working = driver.working("docker-compose")
    for number, name in enumerate(("../../up", ".program", "a/b", "x" * 200, "…")):
        done = driver.run(project(f"d{number}", config, name=name))
        assert done["deploy_status_code"] == 0, done
    folders = {
        line.partition(":")[0]
        for line in log.read_text().splitlines()
        if " up " in line
    }
    assert len(folders) == 5
    assert {(Path(each).parent, Path(each).name[:7]) for each in folders} == {
        (working, "sha256-")
    }
    assert (
        driver.run(project("d9", config, name="my.site_1"))["deploy_status_code"] == 0
    )
    assert (working / "my.site_1/docker-compose.yml").exists()


def test_files_stay_in_the_folder(driver: Driver, tmp_path: Path) -> None:
    """A link that a container has made in the folder is not followed."""
    docker, _ = stand_in(tmp_path)
    driver.environment["HEAT_DOCKER_COMPOSE_CMD"] = str(docker)
    config = {"services": {"web": {"image": "nginx"}}}
    assert driver.run(project("d1", config))["deploy_status_code"] == 0
    folder = driver.working("docker-compose") / "site"
    (tmp_path / "outside").mkdir()
    (tmp_path / "victim").write_text("untouched")
    (folder / "link").symlink_to(tmp_path / "outside")
    (folder / "web.env").symlink_to(tmp_path / "victim")
    files = [{"file_name": "web.env", "content": "A=1\n"}]
    done = driver.run(
        project("d2", config, inputs={"env_files": files}, action="UPDATE")
    )
    assert done["deploy_status_code"] == 0
    assert (folder / "web.env").read_text() == "A=1\n"
    files = [{"file_name": "link/web.env", "content": "A=1\n"}]
    done = driver.run(
        project("d3", config, inputs={"env_files": files}, action="UPDATE")
    )
    assert done["deploy_status_code"] == 125
    assert (
        f"inputs.env_files: {folder}/link leads out of the folder of the project"
        in done["deploy_stderr"]
    )
    assert os.listdir(tmp_path / "outside") == []
    assert (tmp_path / "victim").read_text() == "untouched"


def test_nothing_of_an_empty_config_is_run(driver: Driver, tmp_path: Path) -> None:
    """It is a success without any program, and the result says that nothing was run."""
    (tmp_path / "empty").mkdir()
    driver.environment["PATH"] = str(tmp_path / "empty")
    configs: tuple[object, ...] = ("", None, {}, "# to come\n")
    for number, config in enumerate(configs):
        done = driver.run(project(f"d{number}", config))
        assert done["deploy_status_code"] == 0
        assert done["deploy_stderr"] == "the config is empty: nothing was run\n"


def test_missing_program_is_reported(driver: Driver, tmp_path: Path) -> None:
    """The failure says how to install one."""
    (tmp_path / "empty").mkdir()
    driver.environment["PATH"] = str(tmp_path / "empty")
    done = driver.run(project("d1", {"services": {}}))
    assert done["deploy_status_code"] == 127
    assert done["deploy_stderr"] == (
        f"docker compose or docker-compose or podman-compose is not installed; {needs.COMPOSE.install}\n"
    )
    docker, _ = stand_in(tmp_path, version=1)
    driver.environment["PATH"] = str(docker.parent)
    done = driver.run(project("d2", {"services": {}}))
    assert done["deploy_status_code"] == 127
    assert f"{docker} compose does not work: " in done["deploy_stderr"]


def test_mistakes_are_told(driver: Driver) -> None:
    """Unknown options, options of the wrong type, and text that is not YAML are failures."""
    done = driver.run(
        project("d1", {"services": {}}, options={"volume": True, "remove_orphans": 3})
    )
    assert done["deploy_status_code"] == 125
    assert (
        "options.volume: docker-compose has no such option; did you mean volumes?"
        in done["deploy_stderr"]
    )
    assert (
        "options.remove_orphans: expected true or false, not 3" in done["deploy_stderr"]
    )
    done = driver.run(project("d2", "services:\n  web: {\n"))
    assert done["deploy_status_code"] == 125
    assert "config: this text is not valid YAML" in done["deploy_stderr"]
    assert "line 3" in done["deploy_stderr"]
    assert not driver.working("docker-compose").exists()


def prepared(
    config: object, folder: Path, env_files: object = None
) -> protocol.Command:
    """Return the prepared deployment. Raises HookError."""
    (folder / "run").mkdir(exist_ok=True)
    request = protocol.Request(
        id="d1",
        key="d1",
        name="site",
        action="CREATE",
        config=config,
        inputs={"env_files": env_files},
        outputs=(),
        options=options.read({}, docker_compose.ABOUT.options),
    )
    place = protocol.Workplace(
        run=folder / "run", working=folder / "working", outputs=folder / "outputs"
    )
    command = docker_compose.prepare(request, place)
    assert isinstance(command, protocol.Command)
    return command


@pytest.mark.parametrize(
    ("given", "path", "says"),
    [
        ("{", "", "not valid JSON"),
        ("3", "", "expected a list"),
        ({"a": "b"}, "", "expected a list"),
        (["a"], "[0]", "expected an object"),
        ([{"file_name": "a"}], "[0]", "expected an object"),
        ([{"file_name": "a", "content": 3}], "[0]", "expected an object"),
        (
            [{"file_name": "/etc/passwd", "content": ""}],
            "[0].file_name",
            "not in the folder of the project",
        ),
        (
            [
                {"file_name": "a", "content": ""},
                {"file_name": "a/../../b", "content": ""},
            ],
            "[1].file_name",
            "not in the folder of the project",
        ),
        (
            [{"file_name": "a\0b", "content": ""}],
            "[0].file_name",
            "not in the folder of the project",
        ),
        (
            [{"file_name": ".", "content": ""}],
            "[0].file_name",
            "not in the folder of the project",
        ),
        (
            [{"file_name": "./docker-compose.yml", "content": ""}],
            "[0].file_name",
            "is the name of a file of the hook itself",
        ),
    ],
)
def test_files_that_cannot_be_written(
    given: object, path: str, says: str, tmp_path: Path
) -> None:
    """They are refused with their path before anything is written."""
    with pytest.raises(HookError) as caught:
        prepared({"services": {}}, tmp_path, given)
    assert caught.value.path == f"inputs.env_files{path}"
    assert says in caught.value.problem


def test_list_of_files_may_be_a_python_literal(tmp_path: Path) -> None:
    """The list may be the text of a Python literal, which older programs make of it."""
    prepared(
        {"services": {}},
        tmp_path,
        "[{'file_name': './a.env', 'content': u'A=\"b\"\\n'}]",
    )


@pytest.mark.parametrize(
    "config", ["- a\n", "text", 3, ["a"], "a: 1\n---\nb: 2\n", "a: [\x00]"]
)
def test_invalid_compose_file_is_refused(config: object, tmp_path: Path) -> None:
    """It is refused."""
    with pytest.raises(HookError) as caught:
        prepared(config, tmp_path)
    assert caught.value.path == "config"


def test_any_compose_file_passes(tmp_path: Path) -> None:
    """The content is checked by the program alone: old and new forms, and tags of its own."""
    prepared("web:\n  image: nginx\n", tmp_path)
    prepared(
        "services:\n  web:\n    ports: !reset null\n    x: !override [1]\n", tmp_path
    )
    prepared("\ufeffversion: '2'\r\nservices: {a: {b: null, c: true}}\r\n", tmp_path)
