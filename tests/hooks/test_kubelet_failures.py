"""The `kubelet` hook: pods that fail, kubelets that do not answer, and invalid configs."""

from __future__ import annotations

import json
import os
import threading
import time
from pathlib import Path

import pytest

from support import pace
from support.driver import Driver
from support.kubelet import (
    BOTH,
    CREATING,
    READY,
    RUNNING,
    Kubelet,
    State,
    can_be_asked,
    names,
    place,
    pod,
)

FAILURES = {
    "api": [
        (
            State("waiting", reason="ErrImagePull", message="no such image"),
            "Always",
            "ErrImagePull: no such image",
        ),
        (
            State(
                "waiting",
                reason="ImagePullBackOff",
                message='Back-off pulling image "x"',
            ),
            "Always",
            'ImagePullBackOff: Back-off pulling image "x"',
        ),
        (
            State("resting", code=3, message="no cheese"),
            "Always",
            "CrashLoopBackOff: back-off 10s restarting web; it last ended with status 3; no cheese",
        ),
        (
            State("ended", code=3, reason="Error", message="no cheese"),
            "Never",
            "Error: ended with status 3: no cheese",
        ),
    ],
    "crictl": [
        (
            State("ended", code=3, reason="Error", message="no cheese"),
            "Never",
            "Error: ended with status 3: no cheese",
        ),
        (
            State("ended", code=3, reason="Error", restarts=2),
            "Always",
            "Error: ended with status 3",
        ),
    ],
}


@BOTH
def test_a_pod_that_fails_is_a_failure_at_once(
    driver: Driver, kubelet: Kubelet, source: str
) -> None:
    """The result has the reason of the container, without further waiting."""
    can_be_asked(driver, kubelet, source)
    for number, (state, policy, says) in enumerate(FAILURES[source]):
        kubelet.fates = {"web": [CREATING, state], "side": [READY]}
        began = time.monotonic()
        values = driver.run(
            place(
                f"d{number}", pod(f"web{number}", "side", "web", restartPolicy=policy)
            )
        )
        assert values["deploy_status_code"] == 1
        assert (
            values["deploy_stderr"]
            == f"the pod web{number} has failed: container web: {says}\n"
        )
        assert time.monotonic() - began < pace.seconds(30)


def test_a_pod_that_the_kubelet_refuses_is_a_failure_at_once(
    driver: Driver, kubelet: Kubelet
) -> None:
    """The result has the reason."""
    can_be_asked(driver, kubelet, "api")
    kubelet.failed = "Predicate NodeAffinity failed"

    values = driver.run(place("d1", pod()))

    assert values["deploy_status_code"] == 1
    assert (
        values["deploy_stderr"]
        == "the pod web has failed: NodeAffinity: Predicate NodeAffinity failed\n"
    )


@BOTH
def test_a_pod_that_does_not_come_up_in_time_is_a_failure(
    driver: Driver, kubelet: Kubelet, source: str
) -> None:
    """One timeout applies until all containers exist, and another one after that."""
    can_be_asked(driver, kubelet, source)
    kubelet.fates = {"web": [CREATING]}
    values = driver.run(
        place("d1", pod(), options={"images_timeout": 0.3, "containers_timeout": "100"})
    )
    assert values["deploy_status_code"] == 1
    state = "ContainerCreating" if source == "api" else "does not exist yet"
    assert (
        values["deploy_stderr"]
        == f"the pod web does not run after 0.3 s: web ({state})\n"
    )

    kubelet.fates = {"web": [CREATING, State("ended", reason="Completed")]}
    values = driver.run(
        place(
            "d2",
            pod("web2"),
            options={"images_timeout": 100, "containers_timeout": 0.2},
        )
    )
    assert values["deploy_status_code"] == 1
    state = "Completed: ended with status 0"
    assert (
        values["deploy_stderr"]
        == f"the pod web2 does not run after 0.2 s: web ({state})\n"
    )


def test_pod_that_is_not_ready_is_waited_for(driver: Driver, kubelet: Kubelet) -> None:
    """It waits until the timeout."""
    can_be_asked(driver, kubelet, "api", "crictl")
    kubelet.fates = {"web": [RUNNING]}

    values = driver.run(place("d1", pod(), options={"containers_timeout": 0.2}))

    assert values["deploy_status_code"] == 1
    assert (
        values["deploy_stderr"]
        == "the pod web does not run after 0.2 s: web (running, not ready)\n"
    )


def test_deployment_without_a_pod_status_fails(
    driver: Driver, kubelet: Kubelet
) -> None:
    """It fails at once; the manifest is written, and the reply says where it is and how to get a status."""
    can_be_asked(driver, kubelet)

    values = driver.run(place("d1", pod()), seconds=30)

    assert values["deploy_status_code"] == 127
    path = kubelet.manifests / "d1.json"
    assert json.loads(path.read_text()) == pod()
    said = values["deploy_stderr"]
    assert said.startswith(
        f"the manifest is at {path}, but it is unknown whether its pod runs: "
    )
    assert "the kubelet's API at http://127.0.0.1:10255 does not answer (" in said
    assert (
        "crictl is not installed; install cri-tools, or configure the kubelet to serve its read-only API"
        in said
    )


@pytest.mark.slow
def test_silent_kubelet_gets_time_to_start(driver: Driver, kubelet: Kubelet) -> None:
    """A kubelet may be starting together with the machine; the wait is limited."""
    can_be_asked(driver, kubelet, "api", "crictl")
    kubelet.broken, kubelet.body = (
        'FATA[0002] connect: "/run/containerd.sock": no such file',
        "<html>",
    )
    values = driver.run(place("d1", pod(), options={"containers_timeout": 0.3}))
    assert values["deploy_status_code"] == 127
    assert (
        f"the server at {kubelet.address} is not the kubelet's API ("
        in values["deploy_stderr"]
    )
    assert (
        'crictl does not answer (FATA[0002] connect: "/run/containerd.sock": no such file)'
        in values["deploy_stderr"]
    )

    def mend() -> None:
        time.sleep(1)
        kubelet.broken = ""

    threading.Thread(target=mend).start()
    values = driver.run(place("d2", pod("web2")))
    assert values["deploy_status_code"] == 0, values


@pytest.mark.parametrize(
    ("config", "says"),
    [
        ("}{", "config: it is neither valid YAML nor JSON: "),
        ("- 1", "config: expected the manifest of a pod, an object"),
        (True, "config: expected the manifest of a pod, an object"),
        ({"kind": "Deployment"}, "config.kind: expected a Pod, not a Deployment"),
        (
            {"kind": "Pod", "metadata": {"name": "web"}},
            "config: expected the manifest of a pod, with metadata and spec",
        ),
        (
            {**pod(), "metadata": {}},
            "config.metadata.name: expected a name of lower case letters",
        ),
        (pod("../web"), "config.metadata.name: expected a name of lower case letters"),
        (
            pod(namespace="My Space"),
            "config.metadata.namespace: expected a name of lower case letters",
        ),
        (
            pod(restartPolicy="Sometimes"),
            "config.spec.restartPolicy: expected one of Always, OnFailure, Never",
        ),
        (
            {**pod(), "spec": {"containers": []}},
            "config.spec.containers: expected a list of containers",
        ),
        (
            {**pod(), "spec": {"containers": [{"name": "a"}, {"image": "x"}]}},
            "config.spec.containers[1].name: every container needs a name",
        ),
    ],
)
@pytest.mark.parametrize("driver", ["alone"], indirect=True)
def test_invalid_pod_is_a_mistake(
    driver: Driver, kubelet: Kubelet, config: object, says: str
) -> None:
    """The message has its path, and nothing is written."""
    can_be_asked(driver, kubelet, "api")

    values = driver.run(place("d1", config))

    assert values["deploy_status_code"] == 125
    assert says in values["deploy_stderr"]
    assert not kubelet.manifests.exists()


def test_a_manifest_from_before_v1_is_passed_on(
    driver: Driver, kubelet: Kubelet
) -> None:
    """It is written as heat-agents does; no current kubelet runs it, so the deployment fails."""
    can_be_asked(driver, kubelet)
    config = {"version": "v1beta2", "containers": [{"name": "web", "image": "x"}]}

    values = driver.run(place("d1", config))

    assert values["deploy_status_code"] == 127
    assert json.loads((kubelet.manifests / "d1.json").read_text()) == config


@pytest.mark.slow
def test_foreign_pod_is_left_alone(
    driver: Driver, kubelet: Kubelet, tmp_path: Path
) -> None:
    """A pod of the same name is a mistake, and a pod with a longer name is not taken for ours."""
    folder = tmp_path / "etc/manifests"
    folder.mkdir(parents=True)
    kubelet.manifests = folder
    driver.environment["HEAT_KUBELET_MANIFESTS"] = str(folder)
    can_be_asked(driver, kubelet, "api", "crictl")
    for name, manifest in (
        ("site.yaml", pod()),
        ("more.json", pod("web-2", "web")),
        ("elsewhere", pod(namespace="n")),
    ):
        (folder / name).write_text(json.dumps(manifest))
    (folder / "broken.yaml").symlink_to("nowhere")
    (folder / ".hidden.yaml").write_text("}{")
    values = driver.run(place("d1", pod()))
    assert values["deploy_status_code"] == 125
    says = f"config.metadata.name: a pod of this name exists already, in {folder}/site.yaml, which belongs to another"
    assert says in values["deploy_stderr"]

    (folder / "broken.yaml").unlink()
    (folder / "site.yaml").unlink()
    kubelet.fates = {"web": [State("ended", code=3)], "mine": [CREATING, READY]}
    assert (
        driver.run(place("d2", pod("web", "mine", restartPolicy="Never")))[
            "deploy_status_code"
        ]
        == 0
    )
    assert driver.run(place("d3", None, action="DELETE"))["deploy_status_code"] == 0
    assert names(folder) == [".hidden.yaml", "elsewhere", "more.json"]


def test_options_are_checked(driver: Driver, kubelet: Kubelet) -> None:
    """Unknown and mistyped options are reported before anything is written."""
    can_be_asked(driver, kubelet, "api")

    values = driver.run(
        place(
            "d1",
            pod(),
            options={
                "image_timeout": 3,
                "containers_timeout": "soon",
                "poll_period": 0,
            },
        )
    )

    assert values["deploy_status_code"] == 125
    assert (
        "options.image_timeout: kubelet has no such option; did you mean images_timeout?"
        in values["deploy_stderr"]
    )
    assert (
        "options.containers_timeout: expected a number of seconds"
        in values["deploy_stderr"]
    )
    assert (
        "options.poll_period: expected a number of seconds" in values["deploy_stderr"]
    )
    assert not kubelet.manifests.exists()


def test_a_run_that_waits_too_long_is_ended(driver: Driver, kubelet: Kubelet) -> None:
    """The timeout of the deployment itself applies as well."""
    can_be_asked(driver, kubelet, "api")
    kubelet.fates = {"web": [RUNNING]}

    values = driver.run(place("d1", pod(), options={"timeout": 2}))

    assert values["deploy_status_code"] == 124
    assert "waiting for web (running, not ready)" in values["deploy_stdout"]
    assert os.access(kubelet.manifests / "d1.json", os.R_OK)
