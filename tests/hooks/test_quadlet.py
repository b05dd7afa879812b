"""`quadlet`: podman's units, with a real podman and a real systemd on a booted machine."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from heat_config_hooks import protocol, strict_yaml
from heat_config_hooks.errors import HookError
from heat_config_hooks.options import read
from heat_config_hooks.tools import quadlet
from support.containers import IMAGE
from support.driver import Driver
from support.machine import deployment
from system.booted import Booted
from system.podman_machine import machine_with_podman

pytestmark = [pytest.mark.slow, pytest.mark.takes(300), pytest.mark.timeout(300)]

EXAMPLE = Path(__file__).parents[2] / "examples/tools/quadlet.yaml"
UNITS = "/etc/containers/systemd"
NUMBERS = count(1)
LASTING = "sh -c \"trap 'exit 0' TERM; while :; do sleep 0.05; done\""


def units(config: object, **fields: Any) -> dict[str, Any]:
    """Return a deployment of the tool, with an id of its own; it is the same deployment's, unless it has a name."""
    return deployment(
        f"d{next(NUMBERS)}", config, **{"group": "quadlet", "name": "it", **fields}
    )


# Where no systemd runs.


WRONG = {
    "no map": ([1], {}, "config: expected a map from names of units"),
    "text of a file without its name": (
        "[Container]\nImage=x\n",
        {},
        "set options.name to its name",
    ),
    "a type of systemd's": (
        {"a.service": "[Service]"},
        {},
        "config: 'a.service' is not the name of a unit",
    ),
    "a type that needs more files": (
        {"a.build": "[Build]"},
        {},
        "TYPE is one of container, kube, network, pod",
    ),
    "a path": (
        {"../a.container": "[Container]"},
        {},
        "'../a.container' is not the name of a unit",
    ),
    "a path to a file of Kubernetes": (
        {"a/../b.yaml": "x"},
        {},
        "'a/../b.yaml' is not the name of a unit",
    ),
    "a drop-in of a file of Kubernetes": (
        {"a.yaml.d/x.conf": "x"},
        {},
        "is not the name of a unit",
    ),
    "an absolute path": ({"/etc/passwd": "x"}, {}, "is not the name of a unit"),
    "a hidden one": ({".a.container": "x"}, {}, "is not the name of a unit"),
    "no text": (
        {"a.container": 3},
        {},
        'config["a.container"]: expected the text of a unit',
    ),
    "a map for Kubernetes": (
        {"a.yaml": {"kind": "Pod"}},
        {},
        'config["a.yaml"]: expected the text of the file',
    ),
    "an empty text": (
        {"a.yml": " \n"},
        {},
        'config["a.yml"]: the text of a unit must not be empty',
    ),
    "lines in a value": (
        {"a.container": {"Container": {"Image": "x\nExec=y"}}},
        {},
        ".Container.Image: a value",
    ),
    "a wrong option name": (
        "[Container]\nImage=x\n",
        {"name": "a"},
        "options.name: 'a' is not the name",
    ),
}


@pytest.mark.parametrize(("config", "options", "sentence"), WRONG.values(), ids=WRONG)
def test_wrong_config_is_reported(
    tmp_path: Path, config: object, options: dict[str, Any], sentence: str
) -> None:
    """The message has the path of the mistake, and it comes without podman too."""
    given = read({**options}, quadlet.ABOUT.options)
    request = protocol.request(units(config), key="d1", options=given)
    with pytest.raises(HookError) as error:
        quadlet.prepare(
            request,
            protocol.workplace("quadlet", tmp_path, tmp_path, {"PATH": "/nowhere"}),
        )
    assert sentence in str(error.value)


def test_a_podman_without_the_generator_is_a_failure(driver: Driver) -> None:
    """Too old a podman, as in Debian 12, fails with the version that is needed."""
    driver.environment["HEAT_QUADLET_CMD"] = "/nowhere/quadlet"
    values = driver.run(units({"web.container": "[Container]\nImage=x\n"}))
    assert values["deploy_status_code"] == 127
    sentence = "/nowhere/quadlet ($HEAT_QUADLET_CMD) is not installed; it is the part of podman that makes services"
    assert sentence in values["deploy_stderr"]
    assert "from podman 4.4 on" in values["deploy_stderr"]


def test_empty_config_and_delete_without_files_succeed(driver: Driver) -> None:
    """An empty config, and a DELETE without files; the generator is not needed for that."""
    driver.environment["HEAT_QUADLET_CMD"] = "/nowhere/quadlet"
    for config, fields, sentence in (
        ({}, {}, "the config is empty"),
        ("", {"action": "DELETE"}, "nothing to remove"),
    ):
        values = driver.run(units(config, **fields))
        assert (values["deploy_status_code"], sentence in values["deploy_stderr"]) == (
            0,
            True,
        )


@pytest.mark.parametrize(
    ("file", "service"),
    [
        ("web.container", "web.service"),
        ("my.app.kube", "my.app.service"),
        ("data.volume", "data-volume.service"),
        ("net.network", "net-network.service"),
        ("app.pod", "app-pod.service"),
        ("web@.container", "web@.service"),
    ],
)
def test_a_file_has_a_service(file: str, service: str) -> None:
    """The name that podman gives it."""
    assert quadlet.service_of(file) == service


# On a machine that booted.


class Inside:
    """Carries out deployments on a booted machine, and reads its state."""

    def __init__(self, machine: Booted, by: str) -> None:
        self.machine = machine
        self._by = by

    def run(self, given: dict[str, Any]) -> dict[str, Any]:
        """Carry out a deployment, and return its result."""
        if self._by == "alone":
            done = self.machine.run(
                "heat-config-hook", "quadlet", stdin=json.dumps(given)
            )
            assert done.code == 0, done.err
            return done.json
        done = self.machine.run(
            "heat-config-apply", "--json", "-", stdin=json.dumps([given])
        )
        [found] = done.data["deployments"]
        result = found["values"]
        assert isinstance(result, dict), done.out
        return result

    def good(self, config: object, **fields: Any) -> dict[str, Any]:
        """Carry out a deployment that must succeed."""
        options = {"settle": 0.1, **fields.pop("options", {})}
        values = self.run(units(config, options=options, **fields))
        assert values["deploy_status_code"] == 0, values
        return values

    def bad(self, config: object, **fields: Any) -> str:
        """Carry out a deployment that must fail, and return its standard error."""
        values = self.run(units(config, options={"settle": 0.1}, **fields))
        assert values["deploy_status_code"] == 1, values
        return str(values["deploy_stderr"])

    def containers(self) -> dict[str, str]:
        """Return the id of each container that runs, by name."""
        done = self.machine.run("podman", "ps", "--format", "{{.Names}} {{.ID}}")
        return dict(line.split() for line in done.out.splitlines())

    def show(self, unit: str, name: str) -> str:
        """Return a property of a unit."""
        return self.machine.run(
            "systemctl", "show", "--value", f"--property={name}", "--", unit
        ).out.strip()

    def variables(self, container: str) -> dict[str, str]:
        """Return the environment of a container's process."""
        pid = self.machine.run(
            "podman", "inspect", "--format", "{{.State.Pid}}", container
        ).out.strip()
        text = self.machine.run("cat", f"/proc/{pid}/environ").out
        return dict(each.split("=", 1) for each in text.split("\0") if each)

    def file(self, path: str) -> Path:
        """Return a file of the machine as seen from here."""
        return self.machine.disk / path.lstrip("/")


@pytest.fixture(scope="module")
def booted_machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Booted]:
    """A booted machine, for all tests of this file."""
    with machine_with_podman(tmp_path_factory.mktemp("image")) as machine:
        yield machine


@pytest.fixture(params=["apply"])
def inside(request: pytest.FixtureRequest, booted_machine: Booted) -> Iterator[Inside]:
    """The machine, where the agent carries out deployments, or the hook alone, as named."""
    found = Inside(booted_machine, request.param)
    yield found
    found.good({}, action="DELETE")
    assert [
        each.name for each in found.file(UNITS).iterdir() if each.name != "users"
    ] == []
    assert found.containers() == {}
    assert found.machine.run("systemctl", "--failed", "--quiet", "--plain").out == ""


def container(**more: object) -> dict[str, Any]:
    """Return the sections of a container that goes on, also after the next boot."""
    return {
        "Container": {"Image": IMAGE, "Exec": LASTING, **more},
        "Install": {"WantedBy": "multi-user.target"},
    }


@pytest.mark.parametrize("inside", ["alone"], indirect=True)
def test_container_follows_its_deployment(inside: Inside) -> None:
    """A container runs after CREATE, restarts when its file changes, and is gone after DELETE, but for its volume."""
    config = {
        "web.container": container(Volume="data.volume:/srv"),
        "data.volume": {"Volume": None},
    }
    first = inside.good(config)
    assert f"{UNITS}/web.container was written" in first["deploy_stdout"]
    assert "web.service is active (running)" in first["deploy_stdout"]
    assert "data-volume.service is active (exited)" in first["deploy_stdout"]
    assert inside.file(f"{UNITS}/web.container").stat().st_mode & 0o777 == 0o644
    assert inside.show("web.service", "WantedBy") == "multi-user.target"
    before = inside.containers()
    assert before.keys() == {"systemd-web"}

    again = inside.good(config, action="UPDATE")
    assert (inside.containers(), "was written" in again["deploy_stdout"]) == (
        before,
        False,
    )

    inside.good({**config, "web.container": container(Label="a=b")}, action="UPDATE")
    assert inside.containers().keys() == {"systemd-web"}
    assert inside.containers() != before

    last = inside.good({"more.container": container()}, action="UPDATE")
    assert inside.containers().keys() == {"systemd-more"}
    assert f"{UNITS}/web.container was removed" in last["deploy_stdout"]
    assert inside.show("web.service", "LoadState") == "not-found"

    inside.good({"not": ["a config"]}, action="DELETE")
    assert inside.containers() == {}
    assert inside.show("more.service", "LoadState") == "not-found"
    assert (
        "systemd-data"
        in inside.machine.run("podman", "volume", "ls", "--quiet").out.split()
    )
    values = inside.run(units({}, action="DELETE"))
    assert (
        values["deploy_status_code"],
        "nothing to remove" in values["deploy_stderr"],
    ) == (0, True)


def test_inputs_are_the_environment_of_containers(inside: Inside) -> None:
    """Inputs come from a file that only root can read, and those of several lines are left out with a note."""
    inputs = {
        "text": 'it\'s "quoted", \\ and `this`, $HOME %n # ü',
        "number": 3,
        "lines": "one\ntwo",
        "PATH": "/x",
    }
    config = {"web.container": container()}
    values = inside.good(config, inputs=inputs)
    assert (
        "the input lines is not in the environment of the containers"
        in values["deploy_stderr"]
    )
    seen = inside.variables("systemd-web")
    assert (seen["text"], seen["number"], seen["PATH"]) == (inputs["text"], "3", "/bin")
    assert not {"lines", "deploy_action"} & seen.keys()
    [path] = inside.file("/var/lib/heat-config/heat-config-quadlet").glob("*.env")
    assert path.stat().st_mode & 0o777 == 0o600
    assert "quoted" not in inside.file(f"{UNITS}/web.container").read_text()

    before = inside.containers()
    inside.good(config, inputs=inputs, action="UPDATE")
    assert inside.containers() == before
    inside.good(config, inputs={"text": "another"}, action="UPDATE")
    assert inside.variables("systemd-web")["text"] == "another"
    inside.good(config, action="UPDATE")
    assert "text" not in inside.variables("systemd-web")
    assert not path.exists()


POD = """\
apiVersion: v1
kind: Pod
metadata: {{name: site}}
spec:
  hostNetwork: true
  containers:
  - {{name: {name}, image: "{image}", imagePullPolicy: Never, command: [sleep, "1000"]}}
  terminationGracePeriodSeconds: 0
"""


def test_containers_run_in_their_pods(inside: Inside) -> None:
    """A container of a pod runs in it; a change of a file of Kubernetes restarts the services that play it."""
    pod = {"app.pod": {"Pod": None}, "in.container": container(Pod="app.pod")}
    kube = {
        "site.kube": {"Kube": {"Yaml": "site.yaml"}},
        "site.yaml": POD.format(name="one", image=IMAGE),
    }
    inside.good({**pod, **kube})
    before = inside.containers()
    assert {"systemd-app-infra", "systemd-in", "site-one"} <= before.keys()
    assert inside.file(f"{UNITS}/site.yaml").stat().st_mode & 0o777 == 0o600
    in_pod = inside.machine.run(
        "podman", "inspect", "--format", "{{.Pod}}", "systemd-in"
    ).out.strip()
    assert in_pod

    inside.good(
        {**pod, **kube, "site.yaml": POD.format(name="two", image=IMAGE)},
        action="UPDATE",
    )
    after = inside.containers()
    assert ("site-one" in after, "site-two" in after) == (False, True)
    assert after["systemd-in"] == before["systemd-in"]


REFUSED = {
    "an unknown setting": (
        {"a.container": {"Container": {"Imgae": "x"}}},
        "unsupported key 'Imgae'",
    ),
    "no image": ({"a.container": "[Container]\n"}, "no service of a.container"),
    "a volume that is not there": (
        {"a.container": container(Volume="none.volume:/srv")},
        "no service of a.container",
    ),
    "one of two": (
        {"a.container": container(), "b.network": "[Network]\nX=1\n"},
        "no service of b.network",
    ),
}


@pytest.mark.parametrize(("config", "sentence"), REFUSED.values(), ids=REFUSED)
def test_a_wrong_file_changes_nothing(
    inside: Inside, config: object, sentence: str
) -> None:
    """The result has the messages of podman's own generator."""
    said = inside.bad(config)
    assert sentence in said
    assert "so nothing was changed on the machine" in said
    assert not inside.file(f"{UNITS}/a.container").exists()


def test_files_of_other_deployments_may_be_meant(inside: Inside) -> None:
    """A container may use a volume that another deployment has made."""
    inside.good({"data.volume": "[Volume]\n"}, name="other")
    inside.good({"web.container": container(Volume="data.volume:/srv")})
    assert inside.containers().keys() == {"systemd-web"}
    inside.good({}, action="DELETE")
    inside.good({}, name="other", action="DELETE")


def test_a_container_that_fails(inside: Inside) -> None:
    """The deployment fails with the container's own words; a corrected one runs."""
    failing = {
        "Container": {"Image": IMAGE, "Exec": 'sh -c "echo words of mine; exit 3"'}
    }
    said = inside.bad({"web.container": {**failing, "Service": {"Type": "oneshot"}}})
    assert "web.service failed" in said
    assert "words of mine" in said
    inside.good({"web.container": container()}, action="UPDATE")
    assert inside.containers().keys() == {"systemd-web"}


def test_a_name_that_another_unit_has(inside: Inside) -> None:
    """The other unit would be started: the deployment fails and names it."""
    theirs = inside.file("/etc/systemd/system/web.service")
    theirs.write_text("[Service]\nExecStart=/bin/sleep 1000\n")
    said = inside.bad({"web.container": container()})
    sentence = f"web.service is not made of {UNITS}/web.container: /etc/systemd/system/web.service has that name"
    assert sentence in said
    assert inside.show("web.service", "ActiveState") == "inactive"
    theirs.unlink()


def test_enabled_container_runs_after_a_crash_of_the_machine(inside: Inside) -> None:
    """A container with an [Install] section runs after the next boot, with its inputs; a template is not started."""
    inside.good(
        {"web.container": container(), "of@.container": container()},
        inputs={"text": "kept"},
    )
    before = inside.containers()
    inside.machine.crash()
    inside.machine.boot()
    after = inside.containers()
    assert (set(after), after != before) == ({"systemd-web"}, True)
    assert inside.variables("systemd-web")["text"] == "kept"


def test_changed_file_survives_delete(inside: Inside) -> None:
    """DELETE stops the service, and leaves the changed file."""
    inside.good({"web.container": container()})
    path = inside.file(f"{UNITS}/web.container")
    path.write_text(path.read_text() + "# mine\n")
    values = inside.good({}, action="DELETE")
    assert (
        f"{UNITS}/web.container is left alone: it was changed"
        in values["deploy_stdout"]
    )
    assert inside.containers() == {}
    path.unlink()


def test_the_example_runs(inside: Inside) -> None:
    """A server with a volume; here with an image of the machine, whose containers have its own network."""
    text = EXAMPLE.read_text().replace("docker.io/library/busybox:1", IMAGE)
    template: Any = strict_yaml.loads(
        text.replace('            PublishPort: ["8080:8080"]\n', "")
    )
    config = template["resources"]["config"]["properties"]["config"]
    inputs = template["resources"]["deployment"]["properties"]["input_values"]
    values = inside.run(units(config, inputs=inputs))
    assert values["deploy_status_code"] == 0, values
    assert inside.variables("systemd-web")["TZ"] == "UTC"
    assert inside.show("web.service", "Description") == "The pages of the site"


def test_the_generator_is_found(inside: Inside) -> None:
    """`tool show` shows it with the version of podman."""
    done = inside.machine.run("heat-config-agent", "tool", "show", "quadlet", "--json")
    assert done.data["program"].endswith("/podman-system-generator")
    version = inside.machine.run("podman", "--version").out.split()[-1]
    assert (done.data["version"], done.data["ready"]) == (version, True)
