from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import pytest

from support import pace
from support.containers import IMAGE, LASTING, Podman
from support.loopback import SignalServer, wait_until
from support.machine import Machine, deployment
from support.tools import need

WEB = {"image": IMAGE, "command": LASTING}
OTHER = deployment("other", "#!/bin/sh\necho still here\n")

STAND_IN = """\
#!/bin/sh
[ "$1" != rm ] || {{ echo "rm does not work today" >&2; exit 5; }}
exec {podman} "$@"
"""


@pytest.fixture
def machine(machine: Machine, podman: Podman) -> Machine:
    """A machine with podman."""
    machine.environment["PATH"] = podman.path
    return machine


def containers(identity: str, *names: str, **fields: Any) -> dict[str, Any]:
    """Return a deployment of containers that go on."""
    return deployment(identity, dict.fromkeys(names, WEB), group="docker-cmd", **fields)


def test_containers_go_with_their_deployment(
    machine: Machine, podman: Podman, heat: SignalServer
) -> None:
    """The cleanup runs once; it is recorded and shown like a deployment, and no result is sent."""
    assert (
        machine.apply(
            [containers("d1", "web", "db", name="site", signal=heat.url()), OTHER]
        ).code
        == 0
    )
    assert podman.running() == {"web", "db"}
    assert len(heat.signals) == 1

    done = machine.apply([OTHER])
    assert done.code == 0, done.err
    assert podman.containers() == {}
    assert "(left)" in done.out
    left = machine.status()["d1-left"]
    assert (left["name"], left["tool"], left["action"]) == (
        "site",
        "docker-cmd",
        "(left)",
    )
    assert (left["state"], left["failed"]) == ("unasked", False)
    shown = machine.agent("show", "d1-left")
    assert "web of the config d1 was removed" in shown.out
    assert "db of the config d1 was removed" in shown.out
    assert len(heat.signals) == 1
    assert machine.status()["d1"]["state"] == "signalled"

    done = machine.apply([OTHER])
    assert done.code == 0
    assert "(left)" not in done.out
    assert machine.status()["d1-left"]["started"] == left["started"]


def test_containers_are_removed_before_their_successors_start(
    machine: Machine, podman: Podman
) -> None:
    """An UPDATE has a new id: its containers get the names and ports of those that it replaces."""
    assert machine.apply([containers("d1", "web", name="site")]).code == 0
    assert (
        machine.apply([containers("d2", "web", name="site", action="UPDATE")]).code == 0
    )
    assert {name: each["config_id"] for name, each in podman.labels().items()} == {
        "web": "d2"
    }
    started = {each["id"]: each["started"] for each in machine.status().values()}
    assert started["d1-left"] < started["d2"]


def test_second_deployment_gets_a_container_name_when_it_is_free(
    machine: Machine, podman: Podman
) -> None:
    """If two deployments have a container of the same name, the second gets it when the first leaves."""
    first, second = containers("d1", "web"), containers("d2", "web")
    assert machine.apply([first, second]).code == 0
    [suffixed] = podman.running() - {"web"}
    identity = podman.containers()[suffixed]["Id"]
    assert machine.apply([second]).code == 0
    assert {name: each["Id"] for name, each in podman.containers().items()} == {
        "web": identity
    }


def test_unreadable_document_causes_no_cleanup(
    machine: Machine, podman: Podman
) -> None:
    """A document that is invalid, has no list, is missing, or is another one, causes no cleanup."""
    path = machine.write([containers("d1", "web")], "site.json")
    assert machine.apply(path).code == 0
    broken: tuple[object, ...] = ("{", "3", {"deployments": {}}, {"deployments": 3})
    for content in broken:
        path = machine.write(content, "site.json")
        done = machine.apply(path)
        assert done.code == 2, (content, done)
        assert podman.running() == {"web"}, content
    path.unlink()
    assert machine.apply(path).code == 2
    machine.apply(path, str(machine.write([OTHER], "other.json")))
    assert podman.running() == {"web"}
    assert "d1-left" not in machine.status()
    machine.apply(machine.write([], "site.json"))
    assert podman.containers() == {}


def test_returned_deployment_runs_again(machine: Machine, podman: Podman) -> None:
    """A deployment that comes back runs again, and is cleaned up when it leaves again."""
    for _ in range(2):
        assert machine.apply([containers("d1", "web"), OTHER]).code == 0
        assert podman.running() == {"web"}
        assert machine.apply([OTHER]).code == 0
        assert podman.containers() == {}


def test_after_a_delete_there_is_nothing_to_clean_up(
    machine: Machine, podman: Podman
) -> None:
    """The agent cleans up nothing after a deployment that had a DELETE."""
    assert machine.apply([containers("d1", "web")]).code == 0
    assert machine.apply([containers("d2", "web", action="DELETE")]).code == 0
    assert podman.containers() == {}
    assert machine.apply([]).code == 0
    assert "d2-left" not in machine.status()


def test_a_failed_deployment_is_cleaned_up_after(
    machine: Machine, podman: Podman
) -> None:
    """The containers that it started before it failed are removed."""
    config = {
        "web": WEB,
        "bad": {"image": IMAGE, "command": "false", "detach": False, "start_order": 1},
    }
    assert machine.apply([deployment("d1", config, group="docker-cmd")]).code == 1
    assert set(podman.containers()) == {"web", "bad"}
    assert machine.apply([]).code == 0
    assert podman.containers() == {}


def test_a_clean_up_that_fails_is_not_hidden(
    machine: Machine, podman: Podman, tmp_path: Path
) -> None:
    """The run fails, the cleanup is recorded, and it is retried after a while or on request."""
    assert machine.apply([containers("d1", "web")]).code == 0
    docker = tmp_path / "docker"
    docker.write_text(STAND_IN.format(podman=podman.folder / "bin/podman"))
    docker.chmod(0o755)
    done = machine.apply([OTHER], HEAT_DOCKER_CMD=str(docker))
    assert done.code == 1
    assert "web cannot be removed" in machine.agent("show", "d1-left").out
    left = machine.status()["d1-left"]
    assert left["failed"] is True
    assert machine.status()["other"]["failed"] is False

    done = machine.apply([OTHER])
    assert (done.code, machine.status()["d1-left"]["started"]) == (0, left["started"])
    assert set(podman.containers()) == {"web"}
    assert machine.agent("retry", "d1-left").code == 0
    assert machine.apply([OTHER]).code == 0
    assert podman.containers() == {}
    assert machine.status()["d1-left"]["failed"] is False


def test_the_plan_shows_what_would_be_cleaned_up(
    machine: Machine, podman: Podman
) -> None:
    """The plan shows cleanups and runs, and carries out neither."""
    site = containers("d1", "web", name="site")
    assert machine.apply([site]).code == 0
    done = machine.apply([OTHER], "--plan")
    assert done.code == 0
    assert "site" in done.out
    assert "its deployment has left the metadata: clean up" in done.out
    steps = {
        each["id"]: each
        for each in machine.apply([OTHER], "--plan", "--json").data["changes"]
    }
    assert (steps["d1-left"]["change"], steps["d1-left"]["action"]) == ("run", "(left)")
    assert podman.running() == {"web"}
    assert "d1-left" not in machine.status()

    assert machine.apply([OTHER]).code == 0
    steps = {
        each["id"]: each
        for each in machine.apply([site, OTHER], "--plan", "--json").data["changes"]
    }
    assert steps["d1"]["change"] == "run"
    assert podman.containers() == {}


def test_only_what_is_named_is_cleaned_up(machine: Machine, podman: Podman) -> None:
    """`--only` applies to cleanups as well."""
    assert (
        machine.apply(
            [
                containers("d1", "web", name="site"),
                containers("d2", "db", name="data"),
                OTHER,
            ]
        ).code
        == 0
    )
    assert machine.apply([OTHER], "--only", "other").code == 0
    assert podman.running() == {"web", "db"}
    assert machine.apply([OTHER]).code == 0
    assert podman.containers() == {}


def test_the_list_of_heat_agents(machine: Machine, podman: Podman) -> None:
    """A deployment that leaves heat-agents' list is cleaned up before other hooks run."""
    machine.environment["HEAT_SHELL_CONFIG"] = str(
        machine.write([containers("d1", "web"), OTHER], "heat-config")
    )
    assert machine.apply().code == 0
    assert podman.running() == {"web"}
    machine.write([OTHER], "heat-config")
    assert machine.apply().code == 0
    assert podman.containers() == {}


def test_deployment_that_leaves_while_it_runs_is_cleaned_up_after_its_end(
    machine: Machine, podman: Podman
) -> None:
    """The run continues to its end, and is cleaned up in the next pass."""
    config = {"web": {**WEB, "detach": False}}
    process = machine.start_apply(
        [deployment("d1", config, group="docker-cmd", options={"timeout": 60})]
    )
    wait_until(lambda: podman.running() == {"web"}, 30)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=pace.seconds(30))
    assert process.returncode == 130
    process = machine.start_apply([OTHER])
    wait_until(lambda: "other" in machine.status(), 30)
    assert podman.running() == {"web"}
    podman("stop", "--time=5", "web")
    process.communicate(timeout=pace.seconds(30))
    assert process.returncode == 0
    assert machine.status()["d1"]["failed"] is False
    assert machine.apply([OTHER]).code == 0
    assert podman.containers() == {}


def test_failed_delete_is_cleaned_up(machine: Machine, tmp_path: Path) -> None:
    """Its remains are cleaned up as soon as the DELETE has left the metadata."""
    compose = tmp_path / "compose"
    compose.write_text(
        f'#!/bin/sh\necho "$@" >>{tmp_path}/log\n[ "$1" != down ] || [ -e {tmp_path}/works ]\n'
    )
    compose.chmod(0o755)
    machine.environment["HEAT_DOCKER_COMPOSE_CMD"] = str(compose)
    site = {
        "config": {"services": {"web": WEB}},
        "group": "docker-compose",
        "name": "site",
    }
    assert machine.apply([deployment("d1", **site)]).code == 0
    assert machine.apply([deployment("d2", **site, action="DELETE")]).code == 1
    assert (machine.state / "heat-config-docker-compose/site").is_dir()
    (tmp_path / "works").touch()
    assert machine.apply([]).code == 0
    assert (tmp_path / "log").read_text().count("down") == 2
    assert not (machine.state / "heat-config-docker-compose/site").exists()
    assert machine.apply([]).code == 0
    assert (tmp_path / "log").read_text().count("down") == 2


def test_a_project_goes_with_its_name(machine: Machine, podman: Podman) -> None:
    """It stays as long as a deployment with any id has its name, and is taken down after that."""
    need("podman-compose", "podman-compose")
    config = {"services": {"web": WEB}}

    def project(identity: str, **fields: Any) -> dict[str, Any]:
        return deployment(
            identity, config, group="docker-compose", name="site", **fields
        )

    assert machine.apply([project("d1"), OTHER]).code == 0
    before = podman.containers()["site_web_1"]["Id"]
    assert machine.apply([project("d2", action="UPDATE"), OTHER]).code == 0
    assert podman.containers()["site_web_1"]["Id"] == before
    assert {each for each in machine.status() if each.endswith("-left")} == set()

    # Another tool's deployment of that name is none of its.
    done = machine.apply([deployment("d3", "#!/bin/sh\n", name="site"), OTHER])
    assert done.code == 0, done.out + done.err
    assert podman.containers() == {}
    assert not (machine.state / "heat-config-docker-compose/site").exists()
    assert {each for each in machine.status() if each.endswith("-left")} == {"d2-left"}

    assert machine.apply([project("d2", action="UPDATE"), OTHER]).code == 0
    assert podman.running() == {"site_web_1"}


def test_moved_deployment_belongs_to_its_new_document(
    machine: Machine, podman: Podman
) -> None:
    """The document that had the deployment first no longer counts."""
    old, new = (
        machine.write([containers("d1", "web")], name)
        for name in ("old.json", "new.json")
    )
    assert machine.apply(old).code == 0
    machine.write([OTHER], "old.json")
    assert machine.apply(new).code == 0
    assert machine.apply(old).code == 0
    assert podman.running() == {"web"}
    machine.write([], "new.json")
    assert machine.apply(new).code == 0
    assert podman.containers() == {}


def test_cleanup_uses_the_folder_of_the_run(machine: Machine, tmp_path: Path) -> None:
    """The cleanup uses the folder of the run, even if the variable names another folder by then."""
    compose = tmp_path / "compose"
    compose.write_text(f'#!/bin/sh\necho "$PWD $*" >>{tmp_path}/log\n')
    compose.chmod(0o755)
    machine.environment["HEAT_DOCKER_COMPOSE_CMD"] = str(compose)
    site = deployment(
        "d1", {"services": {"web": WEB}}, group="docker-compose", name="site"
    )
    assert (
        machine.apply(
            [site], HEAT_DOCKER_COMPOSE_WORKING=str(tmp_path / "projects")
        ).code
        == 0
    )
    assert machine.apply([]).code == 0
    assert f"{tmp_path}/projects/site down" in (tmp_path / "log").read_text()
    assert not (tmp_path / "projects/site").exists()
