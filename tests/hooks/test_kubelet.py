from __future__ import annotations

import hashlib
import json
import os
import stat
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from driver import Alone, Driver
from loopback import SignalServer
from machine import Machine, deployment

CRICTL = """#!{python} -IS
# Stands in for crictl: its answers are the stand-in kubelet's.
import sys, urllib.error, urllib.parse, urllib.request
opener = urllib.request.build_opener(urllib.request.ProxyHandler({{}}))
try:
    sys.stdout.write(opener.open("{address}/crictl?" + urllib.parse.quote(" ".join(sys.argv[1:]))).read().decode())
except urllib.error.HTTPError as error:
    sys.exit("E1121 \\"a line of its log\\"\\n" + error.read().decode())
"""

QUICK = {"poll_period": 0.05}

BOTH = pytest.mark.parametrize("source", ["api", "crictl"])
"""Who says what has become of a pod."""

BY_THE_AGENT = pytest.mark.parametrize("driver", ["apply"], indirect=True)
ALONE = pytest.mark.parametrize("driver", ["alone"], indirect=True)
"""Without the agent, which cleans up after what has left the metadata before it does anything else."""


@dataclass(frozen=True)
class State:
    """What a container is like at one moment."""

    kind: str
    """`waiting` (not created yet), `running`, `ready`, `ended`, or `resting` (ended, and waiting to be restarted)."""
    code: int = 0
    reason: str = ""
    message: str = ""
    restarts: int = 0


CREATING = State("waiting", reason="ContainerCreating")
RUNNING = State("running")
READY = State("ready")


@dataclass
class Running:
    """A pod that the stand-in runs, or is just ending."""

    path: Path
    manifest: dict[str, Any]
    serial: int
    looks: int = 0
    """How often somebody has asked for the pods since."""
    lingers: int = -1
    """How often it is still to be seen after its manifest has gone; below 0: it has not."""

    @property
    def uid(self) -> str:
        return hashlib.md5(f"{self.path}{self.manifest}".encode()).hexdigest()  # noqa: S324  # as the kubelet does

    @property
    def metadata(self) -> dict[str, str]:
        given = self.manifest["metadata"]
        name = f"{given['name']}-node-1"
        return {"name": name, "namespace": given.get("namespace", "default"), "uid": self.uid}


@dataclass
class Kubelet:
    """Stands in for a kubelet and its container runtime: pods take a step each time somebody asks for them."""

    manifests: Path
    fates: dict[str, list[State]] = field(default_factory=dict)
    """The states of a container, one after the other, by its name; the last one lasts."""
    failed: str = ""
    """Why it refuses all pods."""
    lingers: int = 3
    """How often a pod is still seen by the runtime after its manifest has gone."""
    broken: str = ""
    """What crictl complains of instead of answering."""
    body: str = ""
    """What the API says instead."""
    pods: list[Running] = field(default_factory=list)
    serial: int = 0
    address: str = ""
    lock: threading.Lock = field(default_factory=threading.Lock)

    def look(self) -> None:
        """Do what a kubelet does in the meantime."""
        files = [each for each in self.manifests.glob("*") if not each.name.startswith(".")]
        there = {each: json.loads(each.read_text()) for each in files}
        for pod in self.pods:
            pod.looks += 1
            if pod.lingers >= 0:
                pod.lingers -= 1
            elif there.get(pod.path) != pod.manifest:
                pod.lingers = self.lingers
        self.pods = [pod for pod in self.pods if pod.lingers != 0]
        known = {pod.path for pod in self.pods if pod.lingers < 0}
        busy = {(pod.metadata["namespace"], pod.metadata["name"]) for pod in self.pods}
        for path, manifest in there.items():
            pod = Running(path, manifest, self.serial)
            if path not in known and (pod.metadata["namespace"], pod.metadata["name"]) not in busy:
                self.pods.append(pod)
                self.serial += 1

    def state(self, pod: Running, container: str) -> State:
        fate = self.fates.get(container, [CREATING, RUNNING, READY])
        return fate[min(pod.looks, len(fate) - 1)]

    @staticmethod
    def identity(pod: Running, container: str) -> str:
        return hashlib.sha256(f"{pod.serial} {container}".encode()).hexdigest()

    def answer(self, path: str) -> dict[str, Any]:
        """Return what is said to a request."""
        words = path.partition("?")[2].split("%20")
        if path == "/pods" or words == ["pods", "-o", "json"]:
            self.look()
        if path == "/pods":
            return {"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": self.items()}
        if words[0] == "pods":
            return {"items": [self.sandbox(pod) for pod in self.pods]}
        every = [self.contained(pod, each) for pod in self.pods for each in self.names(pod)]
        if words[0] == "ps":
            return {"containers": [each for each, state in every if state.kind != "waiting"]}
        assert words[:3] == ["inspect", "-o", "json"]
        found, state = next(each for each in every if each[0]["id"] == words[3])
        status = {"exitCode": state.code, "reason": state.reason or "Completed", "message": state.message}
        return {"status": {**found, **status}, "info": {}}

    @staticmethod
    def names(pod: Running) -> list[str]:
        spec = pod.manifest["spec"]
        return [each["name"] for each in [*spec.get("initContainers", []), *spec["containers"]]]

    def items(self) -> list[dict[str, Any]]:
        """Return the pods as the API has them: without those whose manifest is gone, and with what is not static."""
        annotations = {"kubernetes.io/config.source": "file", "kubernetes.io/config.seen": "2026-11-20T18:26:35.1Z"}
        found = []
        for pod in (each for each in self.pods if each.lingers < 0):
            status: dict[str, Any] = {"phase": "Pending"}
            if self.failed:
                status = {"phase": "Failed", "reason": "NodeAffinity", "message": self.failed}
            else:
                status["containerStatuses"] = [self.status(pod, each) for each in self.names(pod)]
            metadata = {**pod.metadata, "annotations": annotations, "creationTimestamp": None}
            found.append({"metadata": metadata, "spec": pod.manifest["spec"], "status": status})
        other = {"name": "web-node-1", "namespace": "default", "uid": "1", "annotations": {}}
        return [*found, {"metadata": other, "spec": {}, "status": {"phase": "Failed"}}]

    def status(self, pod: Running, name: str) -> dict[str, Any]:
        state = self.state(pod, name)
        ended = {"exitCode": state.code, "reason": state.reason, "message": state.message}
        known = {
            "waiting": {"waiting": {"reason": state.reason, "message": state.message}},
            "running": {"running": {"startedAt": "2026-11-20T18:26:35Z"}},
            "ready": {"running": {"startedAt": "2026-11-20T18:26:35Z"}},
            "ended": {"terminated": ended},
            "resting": {"waiting": {"reason": "CrashLoopBackOff", "message": f"back-off 10s restarting {name}"}},
        }
        status = {
            "name": name,
            "state": known[state.kind],
            "lastState": {"terminated": ended} if state.kind == "resting" else {},
            "ready": state.kind == "ready",
            "restartCount": state.restarts,
            "image": "registry.example/web",
            "imageID": "",
        }
        return (
            status if state.kind == "waiting" else {**status, "containerID": f"containerd://{self.identity(pod, name)}"}
        )

    def sandbox(self, pod: Running) -> dict[str, Any]:
        return {
            "id": self.identity(pod, ""),
            "metadata": {**pod.metadata, "attempt": 0},
            "state": "SANDBOX_READY",
            "createdAt": str(1_700_000_000_000_000_000 + pod.serial),
            "labels": {"io.kubernetes.pod.name": pod.metadata["name"]},
            "annotations": {"kubernetes.io/config.source": "file"},
            "runtimeHandler": "",
        }

    def contained(self, pod: Running, name: str) -> tuple[dict[str, Any], State]:
        state = self.state(pod, name)
        found = {
            "id": self.identity(pod, name),
            "podSandboxId": self.identity(pod, ""),
            "metadata": {"name": name, "attempt": state.restarts},
            "image": {"image": "sha256:1", "annotations": {}},
            "imageRef": "sha256:1",
            "state": "CONTAINER_RUNNING" if state.kind in ("running", "ready") else "CONTAINER_EXITED",
            "createdAt": str(1_700_000_000_000_000_000 + pod.serial),
            "labels": {"io.kubernetes.container.name": name, "io.kubernetes.pod.uid": pod.uid},
            "annotations": {"io.kubernetes.container.restartCount": str(state.restarts)},
        }
        return found, state


@pytest.fixture
def kubelet(driver: Driver, tmp_path: Path) -> Iterator[Kubelet]:
    """A stand-in for a kubelet, whom nobody can ask yet: see `can_be_asked`."""
    kubelet = Kubelet(driver.working("kubelet") / "kubelet-manifests")

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            with kubelet.lock:
                asked = self.path.startswith("/crictl")
                trouble = kubelet.broken if asked else kubelet.body
                body = (trouble or json.dumps(kubelet.answer(self.path))).encode()
            self.send_response(500 if asked and trouble else 200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    kubelet.address = f"http://127.0.0.1:{server.server_address[1]}"
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    path = tmp_path / "bin/crictl"
    path.parent.mkdir()
    path.write_text(CRICTL.format(python=sys.executable, address=kubelet.address))
    path.chmod(0o755)
    if isinstance(driver, Alone):  # the agent has signals to send
        driver.environment["http_proxy"] = "http://127.0.0.1:9"
    yield kubelet
    server.shutdown()
    server.server_close()


def can_be_asked(driver: Driver, kubelet: Kubelet, *sources: str) -> None:
    """Have somebody who can say what has become of a pod: `api`, `crictl`."""
    driver.environment.pop("HEAT_KUBELET_API", None)
    driver.environment["PATH"] = str(driver.folder / "bin") if "crictl" in sources else "/nowhere"
    if "api" in sources:
        driver.environment["HEAT_KUBELET_API"] = kubelet.address


def pod(name: str = "web", *containers: str, **fields: Any) -> dict[str, Any]:
    """Return a manifest. `namespace` is its namespace, what else is given is part of its spec."""
    metadata = {"name": name, **({"namespace": fields.pop("namespace")} if "namespace" in fields else {})}
    spec = {"containers": [{"name": each, "image": "registry.example/web"} for each in containers or ("web",)]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {**spec, **fields}}


def place(identity: str, config: object, **fields: Any) -> dict[str, Any]:
    """Return a deployment of the tool; the same resource's, unless its name says otherwise."""
    options = {**QUICK, **fields.pop("options", {})}
    inputs = {
        "deploy_stack_id": "stack/1",
        "deploy_resource_name": fields.pop("resource", "pod"),
        **fields.pop("inputs", {}),
    }
    return deployment(identity, config, group="kubelet", options=options, inputs=inputs, **fields)


def names(folder: Path) -> list[str]:
    """Return the names in a folder."""
    return sorted(each.name for each in folder.iterdir())


@BOTH
def test_the_manifest_is_written_and_its_pod_waited_for(driver: Driver, kubelet: Kubelet, source: str) -> None:
    """Until all its containers run and, as far as can be known, are ready. It is for the agent's user alone."""
    can_be_asked(driver, kubelet, source)
    config = pod("web", "web", "side", volumes=[{"name": "ü", "emptyDir": {}}], initContainers=[{"name": "first"}])
    config["spec"]["containers"][0]["env"] = [{"name": "PASSWORD", "value": "hunter2"}]
    kubelet.fates = {"first": [State("ended")], "side": [CREATING, CREATING, CREATING, READY]}

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


@BOTH
def test_an_update_replaces_the_pod_and_a_delete_ends_it(driver: Driver, kubelet: Kubelet, source: str) -> None:
    """The pod that was there before, and takes its time to end, is not taken for the new one."""
    can_be_asked(driver, kubelet, source)
    text = json.dumps(pod("web", "web"))
    yaml = "kind: Pod\nmetadata: {name: web}\nspec:\n  containers:\n  - {name: web, image: other}\n"
    for identity, config in (("d1", pod()), ("d2", yaml), ("d3", yaml), ("d4", text), ("d5", pod("other"))):
        kubelet.fates = {"web": [CREATING] * 5 + [READY]}
        values = driver.run(place(identity, config, action="UPDATE" if kubelet.serial else "CREATE"))
        assert values["deploy_status_code"] == 0, values
        assert names(kubelet.manifests) == [f"{identity}.json"]
        current = [each for each in kubelet.pods if each.path.name == f"{identity}.json"]
        assert len(current) == 1
        assert current[0].looks >= 5

    kubelet.lingers = 5
    values = driver.run(place("d6", pod("other"), action="DELETE"))
    assert values["deploy_status_code"] == 0, values
    assert not names(kubelet.manifests)
    values = driver.run(place("d7", "}no manifest{", action="DELETE"))
    assert (values["deploy_status_code"], values["deploy_stdout"]) == (0, "there is no manifest of it\n")


@ALONE
def test_a_delete_waits_for_the_runtime_too(driver: Driver, kubelet: Kubelet) -> None:
    """The API does not know of a pod any more whose manifest is gone, while its containers are still being ended."""
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
    values = driver.run(place("d4", None, action="DELETE", options={"containers_timeout": 0.5}))
    assert values["deploy_status_code"] == 1
    assert values["deploy_stderr"] == "the pod web-node-1 is still there after 0.5 s\n"
    assert not names(kubelet.manifests)


@ALONE
def test_a_delete_is_carried_out_though_nobody_can_say_what_becomes_of_the_pod(
    driver: Driver, kubelet: Kubelet
) -> None:
    """And it says just that."""
    can_be_asked(driver, kubelet, "api")
    driver.run(place("d1", pod()))
    can_be_asked(driver, kubelet)

    values = driver.run(place("d2", pod(), action="DELETE"))

    assert values["deploy_status_code"] == 0
    assert values["deploy_stderr"].startswith("nobody can say whether the pod web is gone: ")
    assert not names(kubelet.manifests)


@BY_THE_AGENT
def test_the_pod_goes_when_its_deployment_leaves_the_metadata(
    machine: Machine, heat: SignalServer, driver: Driver, kubelet: Kubelet
) -> None:
    """Without a DELETE; the others stay. When it is back, it is run again."""
    can_be_asked(driver, kubelet, "crictl")
    machine.environment.update(driver.environment)
    ours = [place(name, pod(name), name=name, resource=name, signal=heat.url()) for name in ("one", "two")]
    assert machine.apply(ours).code == 0
    assert names(kubelet.manifests) == ["one.json", "two.json"]

    done = machine.apply(ours[:1])
    assert done.code == 0, done.out + done.err
    assert names(kubelet.manifests) == ["one.json"]
    assert [each.metadata["name"] for each in kubelet.pods] == ["one-node-1"]
    assert len(heat.signals) == 2

    assert machine.apply(ours).code == 0
    assert names(kubelet.manifests) == ["one.json", "two.json"]
    assert [each.metadata["name"] for each in kubelet.pods] == ["one-node-1", "two-node-1"]


@ALONE
def test_what_an_older_agent_wrote_goes_too(driver: Driver, kubelet: Kubelet) -> None:
    """Its manifests have the same names, and no note of ours."""
    can_be_asked(driver, kubelet, "crictl")
    kubelet.manifests.mkdir(parents=True)
    (kubelet.manifests / "old.json").write_text(json.dumps(pod()))
    kubelet.look()

    values = driver.run({**place("old-left", None, action="(left)"), "heat_config_left": "old"})

    assert values["deploy_status_code"] == 0
    assert values["deploy_stdout"].endswith("old.json was removed\nthe pod web is gone\n")
    assert not names(kubelet.manifests)
    values = driver.run({**place("x-left", None, action="(left)"), "heat_config_left": "../x"})
    assert values["deploy_stdout"] == "there is no manifest of it\n"


@ALONE
def test_the_same_deployment_again_changes_nothing(driver: Driver, kubelet: Kubelet) -> None:
    """Its pod goes on running."""
    can_be_asked(driver, kubelet, "api")
    for _ in range(2):
        assert driver.run(place("d1", pod()))["deploy_status_code"] == 0
    assert kubelet.serial == 1


def test_an_empty_config_wants_no_pod(driver: Driver, kubelet: Kubelet) -> None:
    """Nothing is written, and what there was goes; that is no failure, and it is said."""
    can_be_asked(driver, kubelet, "api")
    driver.run(place("d1", pod()))
    empty: tuple[object, ...] = ("", " \n", None, {})
    for number, config in enumerate(empty):
        values = driver.run(place(f"e{number}", config, action="UPDATE"))
        assert values["deploy_status_code"] == 0
        assert values["deploy_stderr"] == "the config is empty: no pod is wanted\n"
        assert not names(kubelet.manifests)


@BOTH
@pytest.mark.parametrize("policy", ["Never", "OnFailure"])
def test_a_pod_that_has_done_its_work_is_a_success(driver: Driver, kubelet: Kubelet, source: str, policy: str) -> None:
    """Where it is not to be restarted."""
    can_be_asked(driver, kubelet, source)
    kubelet.fates = {"job": [CREATING, State("ended", reason="Completed")]}

    values = driver.run(place("d1", pod("job", "job", restartPolicy=policy)))

    assert values["deploy_status_code"] == 0, values
    assert "the pod job runs: job (Completed: ended with status 0)" in values["deploy_stdout"]


FAILURES = {
    "api": [
        (State("waiting", reason="ErrImagePull", message="no such image"), "Always", "ErrImagePull: no such image"),
        (
            State("waiting", reason="ImagePullBackOff", message='Back-off pulling image "x"'),
            "Always",
            'ImagePullBackOff: Back-off pulling image "x"',
        ),
        (
            State("resting", code=3, message="no cheese"),
            "Always",
            "CrashLoopBackOff: back-off 10s restarting web; it last ended with status 3; no cheese",
        ),
        (State("ended", code=3, reason="Error", message="no cheese"), "Never", "Error: ended with status 3: no cheese"),
    ],
    "crictl": [
        (State("ended", code=3, reason="Error", message="no cheese"), "Never", "Error: ended with status 3: no cheese"),
        (State("ended", code=3, reason="Error", restarts=2), "Always", "Error: ended with status 3"),
    ],
}


@BOTH
def test_a_pod_that_fails_is_a_failure_at_once(driver: Driver, kubelet: Kubelet, source: str) -> None:
    """With what is known of the container: nobody waits for what does not come."""
    can_be_asked(driver, kubelet, source)
    for number, (state, policy, says) in enumerate(FAILURES[source]):
        kubelet.fates = {"web": [CREATING, state], "side": [READY]}
        began = time.monotonic()
        values = driver.run(place(f"d{number}", pod(f"web{number}", "side", "web", restartPolicy=policy)))
        assert values["deploy_status_code"] == 1
        assert values["deploy_stderr"] == f"the pod web{number} has failed: container web: {says}\n"
        assert time.monotonic() - began < 30


def test_a_pod_that_the_kubelet_refuses_is_a_failure_at_once(driver: Driver, kubelet: Kubelet) -> None:
    """With its reason."""
    can_be_asked(driver, kubelet, "api")
    kubelet.failed = "Predicate NodeAffinity failed"

    values = driver.run(place("d1", pod()))

    assert values["deploy_status_code"] == 1
    assert values["deploy_stderr"] == "the pod web has failed: NodeAffinity: Predicate NodeAffinity failed\n"


@BOTH
def test_a_pod_that_does_not_come_up_in_time_is_a_failure(driver: Driver, kubelet: Kubelet, source: str) -> None:
    """There is one limit until all containers are there, and one from then on."""
    can_be_asked(driver, kubelet, source)
    kubelet.fates = {"web": [CREATING]}
    values = driver.run(place("d1", pod(), options={"images_timeout": 0.3, "containers_timeout": "100"}))
    assert values["deploy_status_code"] == 1
    state = "ContainerCreating" if source == "api" else "not there yet"
    assert values["deploy_stderr"] == f"the pod web does not run after 0.3 s: web ({state})\n"

    kubelet.fates = {"web": [CREATING, State("ended", reason="Completed")]}
    values = driver.run(place("d2", pod("web2"), options={"images_timeout": 100, "containers_timeout": 0.2}))
    assert values["deploy_status_code"] == 1
    state = "Completed: ended with status 0"
    assert values["deploy_stderr"] == f"the pod web2 does not run after 0.2 s: web ({state})\n"


def test_one_that_runs_and_is_not_ready_is_waited_for(driver: Driver, kubelet: Kubelet) -> None:
    """Until its time is over."""
    can_be_asked(driver, kubelet, "api", "crictl")
    kubelet.fates = {"web": [RUNNING]}

    values = driver.run(place("d1", pod(), options={"containers_timeout": 0.2}))

    assert values["deploy_status_code"] == 1
    assert values["deploy_stderr"] == "the pod web does not run after 0.2 s: web (running, not ready)\n"


def test_where_nobody_can_say_what_becomes_of_the_pod_it_has_failed(driver: Driver, kubelet: Kubelet) -> None:
    """At once; the manifest is written, and the reply says where it is, and what would help."""
    can_be_asked(driver, kubelet)

    values = driver.run(place("d1", pod()), seconds=30)

    assert values["deploy_status_code"] == 127
    path = kubelet.manifests / "d1.json"
    assert json.loads(path.read_text()) == pod()
    said = values["deploy_stderr"]
    assert said.startswith(f"the manifest is at {path}, but nobody says whether its pod runs: ")
    assert "the kubelet's API at http://127.0.0.1:10255 does not answer (" in said
    assert "crictl is not installed; install cri-tools, or have the kubelet serve its read-only API" in said


def test_who_is_there_and_does_not_answer_is_given_some_time(driver: Driver, kubelet: Kubelet) -> None:
    """It may be starting with the machine; but not for ever."""
    can_be_asked(driver, kubelet, "api", "crictl")
    kubelet.broken, kubelet.body = 'FATA[0002] connect: "/run/containerd.sock": no such file', "<html>"
    values = driver.run(place("d1", pod(), options={"containers_timeout": 0.3}))
    assert values["deploy_status_code"] == 127
    assert f"what answers at {kubelet.address} is not the kubelet's API (" in values["deploy_stderr"]
    assert (
        'crictl does not answer (FATA[0002] connect: "/run/containerd.sock": no such file)' in values["deploy_stderr"]
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
        ("}{", "config: it is neither YAML nor JSON: "),
        ("- 1", "config: expected a pod's manifest, an object"),
        (True, "config: expected a pod's manifest, an object"),
        ({"kind": "Deployment"}, "config.kind: the kubelet runs pods, and this is a Deployment"),
        ({"kind": "Pod", "metadata": {"name": "web"}}, "config: expected a pod's manifest, with metadata and spec"),
        ({**pod(), "metadata": {}}, "config.metadata.name: expected a name of lower case letters"),
        (pod("../web"), "config.metadata.name: expected a name of lower case letters"),
        (pod(namespace="My Space"), "config.metadata.namespace: expected a name of lower case letters"),
        (pod(restartPolicy="Sometimes"), "config.spec.restartPolicy: expected one of Always, OnFailure, Never"),
        ({**pod(), "spec": {"containers": []}}, "config.spec.containers: expected a list of containers"),
        (
            {**pod(), "spec": {"containers": [{"name": "a"}, {"image": "x"}]}},
            "config.spec.containers[1].name: every container needs a name",
        ),
    ],
)
def test_what_is_no_pod_is_a_mistake(driver: Driver, kubelet: Kubelet, config: object, says: str) -> None:
    """It is said where, and nothing is written."""
    can_be_asked(driver, kubelet, "api")

    values = driver.run(place("d1", config))

    assert values["deploy_status_code"] == 125
    assert says in values["deploy_stderr"]
    assert not kubelet.manifests.exists()


def test_a_manifest_from_before_v1_is_passed_on(driver: Driver, kubelet: Kubelet) -> None:
    """As heat-agents does; no kubelet of today runs it, and so it fails."""
    can_be_asked(driver, kubelet)
    config = {"version": "v1beta2", "containers": [{"name": "web", "image": "x"}]}

    values = driver.run(place("d1", config))

    assert values["deploy_status_code"] == 127
    assert json.loads((kubelet.manifests / "d1.json").read_text()) == config


def test_a_pod_of_somebody_else_is_left_alone(driver: Driver, kubelet: Kubelet, tmp_path: Path) -> None:
    """One with the same name is a mistake, and one whose name just begins alike is not taken for ours."""
    folder = tmp_path / "etc/manifests"
    folder.mkdir(parents=True)
    kubelet.manifests = folder
    driver.environment["HEAT_KUBELET_MANIFESTS"] = str(folder)
    can_be_asked(driver, kubelet, "api", "crictl")
    for name, manifest in (("site.yaml", pod()), ("more.json", pod("web-2", "web")), ("elsewhere", pod(namespace="n"))):
        (folder / name).write_text(json.dumps(manifest))
    (folder / "broken.yaml").symlink_to("nowhere")
    (folder / ".hidden.yaml").write_text("}{")
    values = driver.run(place("d1", pod()))
    assert values["deploy_status_code"] == 125
    says = f"config.metadata.name: there is a pod of this name already, in {folder}/site.yaml, which is not this"
    assert says in values["deploy_stderr"]

    (folder / "broken.yaml").unlink()
    (folder / "site.yaml").unlink()
    kubelet.fates = {"web": [State("ended", code=3)], "mine": [CREATING, READY]}
    assert driver.run(place("d2", pod("web", "mine", restartPolicy="Never")))["deploy_status_code"] == 0
    assert driver.run(place("d3", None, action="DELETE"))["deploy_status_code"] == 0
    assert names(folder) == [".hidden.yaml", "elsewhere", "more.json"]


def test_options_are_checked(driver: Driver, kubelet: Kubelet) -> None:
    """Unknown and mistyped ones are named, before anything is written."""
    can_be_asked(driver, kubelet, "api")

    values = driver.run(
        place("d1", pod(), options={"image_timeout": 3, "containers_timeout": "soon", "poll_period": 0})
    )

    assert values["deploy_status_code"] == 125
    assert "options.image_timeout: kubelet has no such option; did you mean images_timeout?" in values["deploy_stderr"]
    assert "options.containers_timeout: expected a number of seconds" in values["deploy_stderr"]
    assert "options.poll_period: expected a number of seconds" in values["deploy_stderr"]
    assert not kubelet.manifests.exists()


def test_a_run_that_waits_too_long_is_ended(driver: Driver, kubelet: Kubelet) -> None:
    """When the deployment's own time limit is over."""
    can_be_asked(driver, kubelet, "api")
    kubelet.fates = {"web": [RUNNING]}

    values = driver.run(place("d1", pod(), options={"timeout": 2}))

    assert values["deploy_status_code"] == 124
    assert "waiting for web (running, not ready)" in values["deploy_stdout"]
    assert os.access(kubelet.manifests / "d1.json", os.R_OK)
