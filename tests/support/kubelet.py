"""A stand-in for the kubelet, for its API and for crictl."""

from __future__ import annotations

import hashlib
import json
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from support.driver import Driver
from support.machine import deployment

CRICTL = """#!/bin/sh
'''exec' "{python}" -IS "$0" "$@"
' '''
# Stands in for crictl: its answers are the stand-in kubelet's. It is called often, so it loads next to nothing.
import socket, sys
words = "%20".join(sys.argv[1:])
with socket.create_connection(("127.0.0.1", {port})) as server:
    server.sendall(f"GET /crictl?{{words}} HTTP/1.0\\r\\n\\r\\n".encode())
    head, _, body = server.makefile("rb").read().partition(b"\\r\\n\\r\\n")
if head.split()[1] != b"200":
    sys.exit("E1121 \\"a line of its log\\"\\n" + body.decode())
sys.stdout.write(body.decode())
"""


QUICK = {"poll_period": 0.05}


BOTH = pytest.mark.parametrize("source", ["api", "crictl"])
"""The two interfaces that report the state of a pod."""


@dataclass(frozen=True)
class State:
    """The state of a container at one moment."""

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
    """The number of times that the pods were listed since."""
    lingers: int = -1
    """The number of times that a pod is still listed after its manifest has gone; below 0 if it has not."""

    @property
    def uid(self) -> str:
        return hashlib.md5(f"{self.path}{self.manifest}".encode()).hexdigest()  # noqa: S324  # as the kubelet does

    @property
    def metadata(self) -> dict[str, str]:
        given = self.manifest["metadata"]
        name = f"{given['name']}-node-1"
        return {
            "name": name,
            "namespace": given.get("namespace", "default"),
            "uid": self.uid,
        }


@dataclass
class Kubelet:
    """Stands in for a kubelet and its container runtime: pods take a step each time somebody asks for them."""

    manifests: Path
    fates: dict[str, list[State]] = field(default_factory=dict)
    """The states of a container, one after the other, by its name; the last one lasts."""
    failed: str = ""
    """The reason for which it refuses all pods."""
    lingers: int = 3
    """The number of times that the runtime still lists a pod after its manifest has gone."""
    broken: str = ""
    """The error that crictl prints instead of an answer."""
    body: str = ""
    """The answer of the API instead of the pods."""
    pods: list[Running] = field(default_factory=list)
    serial: int = 0
    address: str = ""
    lock: threading.Lock = field(default_factory=threading.Lock)

    def look(self) -> None:
        """Do what a kubelet does in the meantime."""
        files = [
            each for each in self.manifests.glob("*") if not each.name.startswith(".")
        ]
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
            if (
                path not in known
                and (pod.metadata["namespace"], pod.metadata["name"]) not in busy
            ):
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
            return {
                "kind": "PodList",
                "apiVersion": "v1",
                "metadata": {},
                "items": self.items(),
            }
        if words[0] == "pods":
            return {"items": [self.sandbox(pod) for pod in self.pods]}
        every = [
            self.contained(pod, each) for pod in self.pods for each in self.names(pod)
        ]
        if words[0] == "ps":
            return {
                "containers": [each for each, state in every if state.kind != "waiting"]
            }
        assert words[:3] == ["inspect", "-o", "json"]
        found, state = next(each for each in every if each[0]["id"] == words[3])
        status = {
            "exitCode": state.code,
            "reason": state.reason or "Completed",
            "message": state.message,
        }
        return {"status": {**found, **status}, "info": {}}

    @staticmethod
    def names(pod: Running) -> list[str]:
        spec = pod.manifest["spec"]
        return [
            each["name"]
            for each in [*spec.get("initContainers", []), *spec["containers"]]
        ]

    def items(self) -> list[dict[str, Any]]:
        """Return the pods as the API has them: without those whose manifest is gone, and with what is not static."""
        annotations = {
            "kubernetes.io/config.source": "file",
            "kubernetes.io/config.seen": "2026-11-20T18:26:35.1Z",
        }
        listed = []
        for pod in (each for each in self.pods if each.lingers < 0):
            status: dict[str, Any] = {"phase": "Pending"}
            if self.failed:
                status = {
                    "phase": "Failed",
                    "reason": "NodeAffinity",
                    "message": self.failed,
                }
            else:
                status["containerStatuses"] = [
                    self.status(pod, each) for each in self.names(pod)
                ]
            metadata = {
                **pod.metadata,
                "annotations": annotations,
                "creationTimestamp": None,
            }
            listed.append(
                {"metadata": metadata, "spec": pod.manifest["spec"], "status": status}
            )
        other = {
            "name": "web-node-1",
            "namespace": "default",
            "uid": "1",
            "annotations": {},
        }
        return [*listed, {"metadata": other, "spec": {}, "status": {"phase": "Failed"}}]

    def status(self, pod: Running, name: str) -> dict[str, Any]:
        state = self.state(pod, name)
        ended = {
            "exitCode": state.code,
            "reason": state.reason,
            "message": state.message,
        }
        status_of_pod = {
            "waiting": {"waiting": {"reason": state.reason, "message": state.message}},
            "running": {"running": {"startedAt": "2026-11-20T18:26:35Z"}},
            "ready": {"running": {"startedAt": "2026-11-20T18:26:35Z"}},
            "ended": {"terminated": ended},
            "resting": {
                "waiting": {
                    "reason": "CrashLoopBackOff",
                    "message": f"back-off 10s restarting {name}",
                }
            },
        }
        status = {
            "name": name,
            "state": status_of_pod[state.kind],
            "lastState": {"terminated": ended} if state.kind == "resting" else {},
            "ready": state.kind == "ready",
            "restartCount": state.restarts,
            "image": "registry.example/web",
            "imageID": "",
        }
        return (
            status
            if state.kind == "waiting"
            else {**status, "containerID": f"containerd://{self.identity(pod, name)}"}
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
        paths = {
            "id": self.identity(pod, name),
            "podSandboxId": self.identity(pod, ""),
            "metadata": {"name": name, "attempt": state.restarts},
            "image": {"image": "sha256:1", "annotations": {}},
            "imageRef": "sha256:1",
            "state": "CONTAINER_RUNNING"
            if state.kind in ("running", "ready")
            else "CONTAINER_EXITED",
            "createdAt": str(1_700_000_000_000_000_000 + pod.serial),
            "labels": {
                "io.kubernetes.container.name": name,
                "io.kubernetes.pod.uid": pod.uid,
            },
            "annotations": {
                "io.kubernetes.container.restartCount": str(state.restarts)
            },
        }
        return paths, state


def can_be_asked(driver: Driver, kubelet: Kubelet, *sources: str) -> None:
    """Have somebody who can say what has become of a pod: `api`, `crictl`."""
    driver.environment.pop("HEAT_KUBELET_API", None)
    driver.environment["PATH"] = (
        str(driver.folder / "bin") if "crictl" in sources else "/nowhere"
    )
    if "api" in sources:
        driver.environment["HEAT_KUBELET_API"] = kubelet.address


def pod(name: str = "web", *containers: str, **fields: Any) -> dict[str, Any]:
    """Return a manifest. `namespace` is its namespace, what else is given is part of its spec."""
    metadata = {
        "name": name,
        **({"namespace": fields.pop("namespace")} if "namespace" in fields else {}),
    }
    spec = {
        "containers": [
            {"name": each, "image": "registry.example/web"}
            for each in containers or ("web",)
        ]
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": {**spec, **fields},
    }


def place(identity: str, config: object, **fields: Any) -> dict[str, Any]:
    """Return a deployment of the tool; the same resource's, unless its name says otherwise."""
    options = {**QUICK, **fields.pop("options", {})}
    inputs = {
        "deploy_stack_id": "stack/1",
        "deploy_resource_name": fields.pop("resource", "pod"),
        **fields.pop("inputs", {}),
    }
    return deployment(
        identity, config, group="kubelet", options=options, inputs=inputs, **fields
    )


def names(folder: Path) -> list[str]:
    """Return the names in a folder."""
    return sorted(each.name for each in folder.iterdir())
