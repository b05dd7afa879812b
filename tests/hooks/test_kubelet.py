"""The `kubelet` hook: manifests, and pods that start, change and end."""

from __future__ import annotations

import json
import stat

import pytest

from support.driver import Driver
from support.kubelet import (
    BOTH,
    CREATING,
    READY,
    Kubelet,
    State,
    can_be_asked,
    names,
    place,
    pod,
)
from support.loopback import SignalServer
from support.machine import Machine

BY_THE_AGENT = pytest.mark.parametrize("driver", ["apply"], indirect=True)


ALONE = pytest.mark.parametrize("driver", ["alone"], indirect=True)
"""Without the agent, which cleans up after what has left the metadata before it does anything else."""


@BOTH
def test_the_manifest_is_written_and_its_pod_waited_for(
    driver: Driver, kubelet: Kubelet, source: str
) -> None:
    """The hook waits until all containers run and, if that is known, are ready; the manifest is private."""
    can_be_asked(driver, kubelet, source)
    config = pod(
        "web",
        "web",
        "side",
        volumes=[{"name": "ü", "emptyDir": {}}],
        initContainers=[{"name": "first"}],
    )
    config["spec"]["containers"][0]["env"] = [{"name": "PASSWORD", "value": "hunter2"}]
    kubelet.fates = {
        "first": [State("ended")],
        "side": [CREATING, CREATING, CREATING, READY],
    }

    values = driver.run(place("d1", config))

    assert values["deploy_status_code"] == 0, values
    path = kubelet.manifests / "d1.json"
    assert path.read_text() == json.dumps(config, indent=2, separators=(",", ": "))
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    lines = values["deploy_stdout"].splitlines()
    assert lines[0] == f"the manifest is at {path}"
    assert lines[1].startswith("waiting for web (")
    assert lines[-1] == "the pod web runs: web (ready), side (ready)"
    assert values["deploy_stderr"] == ""
    assert "hunter2" not in str(values)
    assert kubelet.pods[0].looks >= 3


@pytest.mark.slow
@pytest.mark.parametrize(
    ("driver", "source"), [("apply", "crictl"), ("alone", "api")], indirect=["driver"]
)
def test_an_update_replaces_the_pod_and_a_delete_ends_it(
    driver: Driver, kubelet: Kubelet, source: str
) -> None:
    """An old pod that is still ending is not taken for the new one."""
    can_be_asked(driver, kubelet, source)
    text = json.dumps(pod("web", "web"))
    yaml = "kind: Pod\nmetadata: {name: web}\nspec:\n  containers:\n  - {name: web, image: other}\n"
    for identity, config in (
        ("d1", pod()),
        ("d2", yaml),
        ("d3", yaml),
        ("d4", text),
        ("d5", pod("other")),
    ):
        kubelet.fates = {"web": [CREATING] * 5 + [READY]}
        values = driver.run(
            place(identity, config, action="UPDATE" if kubelet.serial else "CREATE")
        )
        assert values["deploy_status_code"] == 0, values
        assert names(kubelet.manifests) == [f"{identity}.json"]
        current = [
            each for each in kubelet.pods if each.path.name == f"{identity}.json"
        ]
        assert len(current) == 1
        assert current[0].looks >= 5

    kubelet.lingers = 5
    values = driver.run(place("d6", pod("other"), action="DELETE"))
    assert values["deploy_status_code"] == 0, values
    assert not names(kubelet.manifests)
    values = driver.run(place("d7", "}no manifest{", action="DELETE"))
    assert (values["deploy_status_code"], values["deploy_stdout"]) == (
        0,
        "the deployment has no manifest\n",
    )


@pytest.mark.slow
@ALONE
def test_a_delete_waits_for_the_runtime_too(driver: Driver, kubelet: Kubelet) -> None:
    """The API omits a pod without a manifest even while its containers are being stopped."""
    can_be_asked(driver, kubelet, "api", "crictl")
    driver.run(place("d1", pod()))
    kubelet.lingers = 20

    values = driver.run(place("d2", pod(), action="DELETE"))

    path = kubelet.manifests / "d1.json"
    assert values["deploy_status_code"] == 0
    assert values["deploy_stdout"] == f"{path} was removed\nthe pod web is gone\n"
    assert not kubelet.pods

    driver.run(place("d3", pod()))
    kubelet.lingers = 100_000
    values = driver.run(
        place("d4", None, action="DELETE", options={"containers_timeout": 0.5})
    )
    assert values["deploy_status_code"] == 1
    assert values["deploy_stderr"] == "the pod web-node-1 still exists after 0.5 s\n"
    assert not names(kubelet.manifests)


@ALONE
def test_delete_without_a_pod_status_removes_the_manifest(
    driver: Driver, kubelet: Kubelet
) -> None:
    """The result says that the status of the pod is unknown."""
    can_be_asked(driver, kubelet, "api")
    driver.run(place("d1", pod()))
    can_be_asked(driver, kubelet)

    values = driver.run(place("d2", pod(), action="DELETE"))

    assert values["deploy_status_code"] == 0
    assert values["deploy_stderr"].startswith(
        "it is unknown whether the pod web is gone: "
    )
    assert not names(kubelet.manifests)


@pytest.mark.slow
@BY_THE_AGENT
def test_the_pod_goes_when_its_deployment_leaves_the_metadata(
    machine: Machine, heat: SignalServer, driver: Driver, kubelet: Kubelet
) -> None:
    """The cleanup leaves other pods alone, and a deployment that comes back runs again."""
    can_be_asked(driver, kubelet, "crictl")
    machine.environment.update(driver.environment)
    ours = [
        place(name, pod(name), name=name, resource=name, signal=heat.url())
        for name in ("one", "two")
    ]
    assert machine.apply(ours).code == 0
    assert names(kubelet.manifests) == ["one.json", "two.json"]

    done = machine.apply(ours[:1])
    assert done.code == 0, done.out + done.err
    assert names(kubelet.manifests) == ["one.json"]
    assert [each.metadata["name"] for each in kubelet.pods] == ["one-node-1"]
    assert len(heat.signals) == 2

    assert machine.apply(ours).code == 0
    assert names(kubelet.manifests) == ["one.json", "two.json"]
    assert [each.metadata["name"] for each in kubelet.pods] == [
        "one-node-1",
        "two-node-1",
    ]


@pytest.mark.slow
@ALONE
def test_manifests_of_heat_agents_are_removed(driver: Driver, kubelet: Kubelet) -> None:
    """Manifests of heat-agents have the same names, and no notes."""
    can_be_asked(driver, kubelet, "crictl")
    kubelet.manifests.mkdir(parents=True)
    (kubelet.manifests / "old.json").write_text(json.dumps(pod()))
    kubelet.look()

    values = driver.run(
        {**place("old-left", None, action="(left)"), "heat_config_left": "old"}
    )

    assert values["deploy_status_code"] == 0
    assert values["deploy_stdout"].endswith(
        "old.json was removed\nthe pod web is gone\n"
    )
    assert not names(kubelet.manifests)
    values = driver.run(
        {**place("x-left", None, action="(left)"), "heat_config_left": "../x"}
    )
    assert values["deploy_stdout"] == "the deployment has no manifest\n"


@ALONE
def test_the_same_deployment_again_changes_nothing(
    driver: Driver, kubelet: Kubelet
) -> None:
    """Its pod keeps running."""
    can_be_asked(driver, kubelet, "api")
    for _ in range(2):
        assert driver.run(place("d1", pod()))["deploy_status_code"] == 0
    assert kubelet.serial == 1


@pytest.mark.slow
def test_empty_config_removes_the_pod(driver: Driver, kubelet: Kubelet) -> None:
    """It is a success that removes the earlier manifest, and the result says so."""
    can_be_asked(driver, kubelet, "api")
    driver.run(place("d1", pod()))
    empty: tuple[object, ...] = ("", " \n", None, {})
    for number, config in enumerate(empty):
        values = driver.run(place(f"e{number}", config, action="UPDATE"))
        assert values["deploy_status_code"] == 0
        assert values["deploy_stderr"] == "the config is empty: no pod is to run\n"
        assert not names(kubelet.manifests)


@BOTH
@pytest.mark.parametrize(
    "policy", ["Never", pytest.param("OnFailure", marks=pytest.mark.slow)]
)
def test_a_pod_that_has_done_its_work_is_a_success(
    driver: Driver, kubelet: Kubelet, source: str, policy: str
) -> None:
    """A container that has ended successfully counts, unless it is to be restarted."""
    can_be_asked(driver, kubelet, source)
    kubelet.fates = {"job": [CREATING, State("ended", reason="Completed")]}

    values = driver.run(place("d1", pod("job", "job", restartPolicy=policy)))

    assert values["deploy_status_code"] == 0, values
    assert (
        "the pod job runs: job (Completed: ended with status 0)"
        in values["deploy_stdout"]
    )


def verified(machine: Machine, driver: Driver) -> tuple[str, str]:
    """Return what the agent says about the deployment, and why."""
    done = machine.agent("verify", "--json", **driver.environment)
    [row] = json.loads(done.out)["data"]["deployments"]
    codes = {"ok": 0, "drifted": 9, "unknown": 1}
    assert done.code == codes[row["state"]], done.out + done.err
    return row["state"], row["message"]


@pytest.mark.slow
@BOTH
@BY_THE_AGENT
def test_changed_manifest_is_named_and_a_new_run_repairs_it(
    driver: Driver, kubelet: Kubelet, machine: Machine, source: str
) -> None:
    """In effect, changed behind its back, verified, repaired, verified again."""
    can_be_asked(driver, kubelet, source)
    driver.run(place("d1", pod()))
    assert verified(machine, driver)[0] == "ok"
    path = kubelet.manifests / "d1.json"
    path.unlink()
    kubelet.pods.clear()

    assert verified(machine, driver) == (
        "drifted",
        f"{path}: it is missing, and 1 more",
    )
    driver.run(place("d2", pod()))
    assert verified(machine, driver)[0] == "ok"


STATES = {
    "failed": (
        State("resting", 3, reason="Error", restarts=4),
        ("drifted", "the pod web: it has failed: container web: "),
    ),
    "ended": (
        State("ended", 0, reason="Completed"),
        ("drifted", "the pod web: container web: Completed: ended with status 0"),
    ),
    "not ready": (
        State("running"),
        ("unknown", "the pod web: container web: running, not ready"),
    ),
    "being created": (
        CREATING,
        ("unknown", "the pod web: container web: ContainerCreating"),
    ),
}


@BY_THE_AGENT
@pytest.mark.parametrize(("state", "expected"), STATES.values(), ids=STATES)
def test_state_of_a_pod_is_named(
    driver: Driver,
    kubelet: Kubelet,
    machine: Machine,
    state: State,
    expected: tuple[str, str],
) -> None:
    """A pod that is starting is neither in effect nor has it drifted."""
    can_be_asked(driver, kubelet, "api")
    driver.run(place("d1", pod()))
    kubelet.fates = {"web": [state]}

    found, message = verified(machine, driver)

    assert found == expected[0]
    assert message.startswith(expected[1])


@BY_THE_AGENT
def test_pod_of_an_unknown_state_is_unknown(
    driver: Driver, kubelet: Kubelet, machine: Machine
) -> None:
    """Neither the kubelet nor the container runtime answers."""
    can_be_asked(driver, kubelet, "api")
    driver.run(place("d1", pod()))
    kubelet.body = "no JSON"

    found, message = verified(machine, driver)

    assert found == "unknown"
    assert message.startswith("it is unknown whether the pod web runs: the server at ")
