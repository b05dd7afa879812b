"""Verification of containers, with a real podman: each change behind the agent's back is named, and repaired."""

from __future__ import annotations

import json
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from support.containers import IMAGE, LASTING, Podman
from support.machine import Machine, deployment
from support.tools import need

pytestmark = [pytest.mark.slow, pytest.mark.takes(60), pytest.mark.timeout(300)]

NUMBERS = count(1)


class Site:
    """A machine with one deployment of containers."""

    def __init__(self, machine: Machine, podman: Podman, tool: str) -> None:
        self.machine = machine
        self.podman = podman
        self._tool = tool
        self._environment: dict[str, Any] = {"PATH": podman.path}
        self._config: object = None

    def run(self, config: object = None, **inputs: Any) -> None:
        """Carry out the deployment, again with the same config if none is given; it must succeed."""
        self._config = config or self._config
        words: dict[str, Any] = {"group": self._tool, "name": "site"}
        resource = {"deploy_stack_id": "site/5a0e", "deploy_resource_name": "web"}
        given = deployment(
            f"v{next(NUMBERS)}", self._config, inputs={**resource, **inputs}, **words
        )
        done = self.machine.apply([given], **self._environment)
        assert done.code == 0, done.out + done.err

    def repair(self) -> None:
        """Have the agent run it again, because it has drifted; it must be in effect then."""
        done = self.machine.agent("verify", "--repair", "--json", **self._environment)
        [row] = json.loads(done.out)["data"]["deployments"]
        assert (done.code, row["state"]) == (0, "ok"), done.out + done.err

    def verify(self, **environment: str) -> dict[str, Any]:
        """Return what is said about the deployment."""
        return self.machine.verified(**{**self._environment, **environment})

    def changes(self) -> list[tuple[str, str]]:
        """Return each difference; empty if the deployment is in effect."""
        row = self.verify()
        assert row["state"] in ("ok", "drifted"), row["message"]
        return [(change["what"], change["how"]) for change in row.get("changes", ())]


@pytest.fixture
def commands(machine: Machine, podman: Podman) -> Site:
    """A machine with containers of `docker-cmd`."""
    return Site(machine, podman, "docker-cmd")


@pytest.fixture
def project(machine: Machine, podman: Podman) -> Site:
    """A machine with a project of `docker-compose`."""
    need("podman-compose", "podman-compose")
    return Site(machine, podman, "docker-compose")


def container(**more: object) -> dict[str, Any]:
    """Return a container that goes on, whatever happens to it."""
    return {"image": IMAGE, "command": LASTING, "restart": "always", **more}


def other_image(podman: Podman) -> None:
    """Give the name of the image to another one, as a pull does."""
    podman("import", "--change=ENV NEW=1", f"{podman.folder}/image.tar", IMAGE)


CHANGES = {
    "stopped": (
        lambda podman, name: podman("stop", name),
        "it does not run: it has ended with exit code 0",
    ),
    "killed": (
        lambda podman, name: podman("kill", name) + podman("wait", name),
        "it does not run: it has ended with exit code 137",
    ),
    "removed": (lambda podman, name: podman("rm", "--force", name), None),
}


@pytest.mark.parametrize(("change", "how"), CHANGES.values(), ids=CHANGES)
def test_change_of_a_container_is_named_and_repaired(
    commands: Site, change: Any, how: str | None
) -> None:
    """In effect, changed behind its back, verified, repaired, verified again."""
    commands.run({"web": container(), "db": container()})
    assert commands.changes() == []

    change(commands.podman, "web")

    assert commands.changes() == [("web", how or "the container does not exist")]
    commands.repair()
    assert commands.changes() == []


def test_container_of_others_with_the_name_is_not_that_of_the_deployment(
    commands: Site,
) -> None:
    """It was replaced by hand."""
    commands.run({"web": container()})
    commands.podman("rm", "--force", "web")
    commands.podman("run", "--detach", "--name=web", IMAGE, *LASTING)

    assert commands.changes() == [("web", "the container does not exist")]


def test_container_of_an_older_image_is_named(commands: Site) -> None:
    """The name of the image stands for another one by now, with which a new run replaces the container."""
    commands.run({"web": container()})
    other_image(commands.podman)

    [(name, how)] = commands.changes()

    assert name == "web"
    assert how.startswith(f"it has another image than {IMAGE} is now (")
    commands.repair()
    assert commands.changes() == []


def test_containers_that_have_ended_as_they_should_are_in_effect(
    commands: Site,
) -> None:
    """Those that run in the foreground, with an exit code that is expected, and those that only hold volumes."""
    commands.run(
        {
            "job": {
                "image": IMAGE,
                "command": ["sh", "-c", "exit 7"],
                "detach": False,
                "exit_codes": [7],
            },
            "data": {"image": IMAGE, "command": "true"},
            "web": container(volumes_from="data", start_order=1),
            "look": {"action": "exec", "command": "web true", "start_order": 2},
        }
    )
    assert commands.changes() == []

    commands.podman("rm", "job")

    assert commands.changes() == []  # it has ended, and is often removed then


def test_nothing_that_is_left_is_unknown(commands: Site) -> None:
    """Neither a command in a container nor a container that has ended and was removed can be looked at."""
    job = {"image": IMAGE, "command": "true", "detach": False}
    commands.run({"job": job})
    commands.podman("rm", "job")

    row = commands.verify()

    assert row["state"] == "unknown"
    assert row["message"] == "none of its containers has to run on, and none is left"


def test_end_without_a_restart_policy_is_unknown(commands: Site) -> None:
    """The container may have ended by itself, or someone may have stopped it."""
    commands.run({"web": {"image": IMAGE, "command": LASTING}})
    assert commands.changes() == []
    commands.podman("stop", "web")

    row = commands.verify()

    assert row["state"] == "unknown"
    assert row["message"] == (
        "web has ended with exit code 0, and it has no restart policy that says whether it should run"
    )


def test_engine_that_does_not_answer_is_unknown(commands: Site, tmp_path: Path) -> None:
    """The reason is that of the engine."""
    commands.run({"web": container()})
    broken = tmp_path / "broken/podman"
    broken.parent.mkdir()
    broken.write_text("#!/bin/sh\necho 'the storage is locked' >&2\nexit 125\n")
    broken.chmod(0o755)

    row = commands.verify(HEAT_DOCKER_CMD=str(broken))

    assert row["state"] == "unknown"
    assert row["message"] == f"{broken} cannot list the containers (exit code 125)"


def test_verification_chooses_no_engine_for_good(commands: Site) -> None:
    """Only a run notes which program it uses."""
    commands.run({"web": container()})
    note = commands.machine.state / "heat-config-docker-cmd/.program"
    note.unlink()

    assert commands.changes() == []
    assert not note.exists()


def compose(**more: object) -> dict[str, Any]:
    """Return a project of two services that go on."""
    service = {"image": IMAGE, "command": LASTING, "restart": "always"}
    return {"services": {"web": {**service, **more}, "db": service}}


def folder(site: Site) -> Path:
    """Return the folder of a project."""
    return site.machine.state / "heat-config-docker-compose/site"


PROJECT_CHANGES = {
    "stopped": (
        lambda site: site.podman("stop", "site_web_1"),
        ("site_web_1", "it does not run: it has ended with exit code 0"),
    ),
    "removed": (
        lambda site: site.podman("rm", "--force", "site_web_1"),
        ("web", "the service has no container"),
    ),
}


@pytest.mark.parametrize(
    ("change", "difference"), PROJECT_CHANGES.values(), ids=PROJECT_CHANGES
)
def test_change_of_a_project_is_named_and_repaired(
    project: Site, change: Any, difference: tuple[str, str]
) -> None:
    """In effect, changed behind its back, verified, repaired, verified again."""
    project.run(compose())
    assert project.changes() == []

    change(project)

    assert project.changes() == [difference]
    project.repair()
    assert project.changes() == []


def test_changed_files_of_a_project_are_named(project: Site) -> None:
    """The compose file, and the files next to it."""
    files = [{"file_name": "web.env", "content": "A=1\n"}]
    project.run(compose(env_file="web.env"), env_files=files)
    assert project.changes() == []
    path = folder(project) / "docker-compose.yml"
    path.write_text(path.read_text().replace("always", "no"))
    (folder(project) / "web.env").unlink()

    assert project.changes() == [
        (str(path), "its content differs"),
        (f"{folder(project)}/web.env", "it is missing"),
    ]
    project.repair()
    assert project.changes() == []


def test_service_that_is_not_brought_up_is_not_expected(project: Site) -> None:
    """One with a profile."""
    config = compose()
    config["services"]["debug"] = {
        "image": IMAGE,
        "command": LASTING,
        "profiles": ["debug"],
    }
    project.run(config)

    assert project.changes() == []
