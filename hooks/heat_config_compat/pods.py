"""The static pods of this machine, from the kubelet's read-only API or from the container runtime.

The API (`GET /pods`) has more information: why an image cannot be pulled, and whether a container is ready.
Many kubelets do not serve it; then crictl lists sandboxes and containers.
Both name a pod after its name in the manifest, '-' and the name of the node.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from heat_config_hooks import programs
from heat_config_hooks.errors import MissingTool
from heat_config_hooks.needs import CRICTL
from heat_config_hooks.values import dataclass

API = "http://127.0.0.1:10255"
"""The address of the kubelet's read-only API, unless `$HEAT_KUBELET_API` names another."""

_PATIENCE = 30
"""Timeout of one request, in seconds."""

Mine = Callable[[str, str], bool]
"""Function that returns whether a pod, by namespace and name, is of interest."""


class NoStatus(Exception):  # noqa: N818  # the status is missing
    """Neither the kubelet nor the container runtime reports the status of the pods."""

    def __init__(self, problem: str, *, absent: bool) -> None:
        super().__init__(problem)
        self.absent = absent
        """True if neither of them is there, so that waiting is useless."""


@dataclass(frozen=True, kw_only=True)
class Container:
    """A container of a pod."""

    name: str
    id: str
    """Empty if it has not been created yet."""
    running: bool
    ready: bool
    """The container runtime does not know probes; there, a running container counts as ready."""
    code: int | None = None
    """Its exit code, if it has ended."""
    restarts: int = 0
    reason: str = ""
    """The reason why it waits or how it ended, as Kubernetes names it: `ImagePullBackOff`, `Error`, …"""
    message: str = ""


@dataclass(frozen=True, kw_only=True)
class Pod:
    """A pod, or one of its sandboxes."""

    uid: str
    name: str
    live: bool
    """True if a process of it may still run."""
    containers: tuple[Container, ...]
    """The oldest first."""
    failed: bool = False
    message: str = ""

    @property
    def marks(self) -> frozenset[str]:
        """Identifiers that distinguish it from earlier and later pods of the same name."""
        return frozenset(each.id for each in self.containers if each.id) or frozenset(
            {self.uid}
        )


@dataclass(frozen=True)
class Node:
    """This machine as a node of Kubernetes."""

    environment: Mapping[str, str]

    def pods(self, mine: Mine) -> list[Pod]:
        """Return the static pods of interest, from the API if it answers, else from the runtime. Raises NoStatus."""
        return next(self._answers(mine))

    def live(self, mine: Mine) -> list[str]:
        """Return the names of pods with processes, according to the API or the runtime. Raises NoStatus.

        The API omits a pod as soon as its manifest is gone, while its containers are still being stopped.
        """
        return sorted(
            {
                each.name
                for answer in self._answers(mine)
                for each in answer
                if each.live
            }
        )

    def _answers(self, mine: Mine) -> Iterator[list[Pod]]:
        """Yield the answers of the API and of the runtime. Raises NoStatus if neither answers."""
        problems: list[NoStatus] = []
        for ask in (self._of_the_api, self._of_the_runtime):
            try:
                answer = ask(mine)
            except NoStatus as problem:
                problems.append(problem)
            else:
                yield answer
        if len(problems) == 2:
            raise NoStatus(
                ", and ".join(map(str, problems)),
                absent=all(problem.absent for problem in problems),
            )

    def _of_the_api(self, mine: Mine) -> list[Pod]:
        address = self.environment.get("HEAT_KUBELET_API") or API
        try:
            items = _fetched(f"{address.rstrip('/')}/pods").get("items") or []
            return [
                _pod(each)
                for each in items
                if _is_static(each["metadata"]) and mine(*_name(each["metadata"]))
            ]
        except OSError as error:
            problem = f"the kubelet's API at {address} does not answer ({error})"
            raise NoStatus(
                problem, absent=not self.environment.get("HEAT_KUBELET_API")
            ) from error
        except (ValueError, LookupError, TypeError, AttributeError) as error:
            raise NoStatus(
                f"the server at {address} is not the kubelet's API ({error})",
                absent=False,
            ) from error

    def _of_the_runtime(self, mine: Mine) -> list[Pod]:
        try:
            crictl = programs.find(CRICTL, self.environment)
        except MissingTool as missing:
            raise NoStatus(str(missing), absent=True) from missing
        try:
            sandboxes = [
                sandbox
                for sandbox in _asked(*crictl, "pods", "-o", "json").get("items") or []
                if _is_static(sandbox) and mine(*_name(sandbox["metadata"]))
            ]
            containers = (
                (_asked(*crictl, "ps", "-a", "-o", "json").get("containers") or [])
                if sandboxes
                else []
            )
            return [
                _sandbox(sandbox, containers, crictl)
                for sandbox in _oldest_first(sandboxes)
            ]
        except (OSError, subprocess.SubprocessError) as error:
            raise NoStatus(
                f"crictl does not answer ({_complaint(error)})", absent=False
            ) from error
        except (ValueError, LookupError, TypeError, AttributeError) as error:
            raise NoStatus(
                f"the output of crictl has an unknown form ({error})", absent=False
            ) from error


def _fetched(url: str) -> Any:
    import http.client  # noqa: PLC0415  # slow to load
    import urllib.request  # noqa: PLC0415

    if not url.startswith(("http://", "https://")):
        raise ValueError("it is not an HTTP address")
    # no proxy: the server is on this machine
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(url, timeout=_PATIENCE) as answer:
            return json.load(answer)
    except http.client.HTTPException as error:
        raise OSError(f"its answer is not HTTP: {error}") from error


def _asked(*argv: str) -> Any:
    done = subprocess.run(
        argv,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=True,
        timeout=_PATIENCE,
    )
    return json.loads(done.stdout)


def _complaint(error: Exception) -> str:
    if isinstance(error, subprocess.CalledProcessError):
        lines = error.stderr.decode("utf-8", "replace").strip().splitlines()
        return lines[-1] if lines else f"status {error.returncode}"
    return str(error)


def _is_static(item: Mapping[str, Any]) -> bool:
    return (item.get("annotations") or {}).get("kubernetes.io/config.source") == "file"


def _name(metadata: Mapping[str, Any]) -> tuple[str, str]:
    return metadata["namespace"], metadata["name"]


def _oldest_first(items: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(items, key=lambda each: int(each.get("createdAt") or 0))


def _pod(item: Mapping[str, Any]) -> Pod:
    """Return a pod from an item of the API, a v1.Pod."""
    status = item.get("status") or {}
    statuses = [
        *(status.get("initContainerStatuses") or []),
        *(status.get("containerStatuses") or []),
    ]
    return Pod(
        uid=item["metadata"]["uid"],
        name=item["metadata"]["name"],
        live=True,
        containers=tuple(_status(each) for each in statuses),
        failed=status.get("phase") == "Failed",
        message=": ".join(
            each for each in (status.get("reason"), status.get("message")) if each
        ),
    )


def _status(status: Mapping[str, Any]) -> Container:
    """Return a container from an item of the API, a v1.ContainerStatus."""
    state = status.get("state") or {}
    waiting, terminated = state.get("waiting") or {}, state.get("terminated") or {}
    last = (status.get("lastState") or {}).get("terminated") or {}
    messages = [waiting.get("message"), terminated.get("message")]
    if waiting and last:
        messages += [
            f"it last ended with status {last.get('exitCode')}",
            last.get("message"),
        ]
    return Container(
        name=status["name"],
        id=str(status.get("containerID") or "").rpartition("/")[2],
        running="running" in state,
        ready=bool(status.get("ready")),
        code=terminated.get("exitCode"),
        restarts=int(status.get("restartCount") or 0),
        reason=waiting.get("reason") or terminated.get("reason") or "",
        message="; ".join(message.strip() for message in messages if message),
    )


def _sandbox(
    item: Mapping[str, Any], containers: list[dict[str, Any]], crictl: tuple[str, ...]
) -> Pod:
    """Return a pod from a sandbox of `crictl pods`, with its containers from `crictl ps`."""
    own = _oldest_first(
        [
            container
            for container in containers
            if container.get("podSandboxId") == item["id"]
        ]
    )
    contained = tuple(_contained(container, crictl) for container in own)
    return Pod(
        uid=item["metadata"]["uid"],
        name=item["metadata"]["name"],
        live=item["state"] == "SANDBOX_READY"
        or any(container.running for container in contained),
        containers=contained,
    )


def _contained(item: Mapping[str, Any], crictl: tuple[str, ...]) -> Container:
    running, exited = (
        item["state"] == "CONTAINER_RUNNING",
        item["state"] == "CONTAINER_EXITED",
    )
    status = (
        _asked(*crictl, "inspect", "-o", "json", item["id"])["status"] if exited else {}
    )
    return Container(
        name=item["metadata"]["name"],
        id=item["id"],
        running=running,
        ready=running,
        code=int(status.get("exitCode") or 0) if exited else None,
        restarts=int(item["metadata"].get("attempt") or 0),
        reason=status.get("reason") or "",
        message=status.get("message") or "",
    )
