"""The `kubelet` hook: the config is a pod's manifest, which goes where the kubelet looks for static pods.

As heat-agents' hook of that name: the manifest is `MANIFESTS/ID.json`, and the pod is waited for. What has become of it
the kubelet or the container runtime is asked (`pods`); where neither says anything, nobody can know, and the deployment
has failed. On DELETE, and when the deployment leaves the metadata, its manifest is removed and the end of its pod
waited for.
"""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from heat_config_hooks import files, protocol, steps, strict_json, strict_yaml
from heat_config_hooks.errors import HookError
from heat_config_hooks.options import Kind, Option
from heat_config_hooks.reply import NO_TOOL
from heat_config_hooks.tools.pods import CRICTL, Container, Mine, Node, Pod, Silence
from heat_config_hooks.values import dataclass
from heat_config_hooks.written import Written, owner

ABOUT = protocol.About(
    config="a pod's manifest: an object, or its YAML or JSON text",
    options={
        "images_timeout": Option(Kind.SECONDS, "seconds until all containers are created, their images pulled", 600.0),
        "containers_timeout": Option(Kind.SECONDS, "seconds until they then all run; or until the pod is gone", 120.0),
        "poll_period": Option(Kind.SECONDS, "seconds between two looks at the pod", 5.0),
    },
    program=CRICTL,
    variables=(
        "HEAT_KUBELET_API",
        "HEAT_KUBELET_CRICTL",
        "HEAT_KUBELET_MANIFESTS",
        "HEAT_KUBELET_WORKING",
        "CONTAINER_RUNTIME_ENDPOINT",
    ),
    cleans="config",
    undoes=True,
    tested="stand-ins for crictl and for the kubelet's read-only API, which answer as those do",
)

_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")
"""What Kubernetes takes as a name (RFC 1123)."""

_POLICIES = ("Always", "OnFailure", "Never")

_HOPELESS = frozenset(
    {
        "CrashLoopBackOff",
        "CreateContainerConfigError",
        "CreateContainerError",
        "ErrImageNeverPull",
        "ErrImagePull",
        "ImagePullBackOff",
        "InvalidImageName",
        "RunContainerError",
    }
)
"""What a container waits for that does not come by waiting."""

_RESTARTS = 2
"""After so many, one that has failed again is given up: crictl does not say `CrashLoopBackOff`."""

_FAILED = 1


@dataclass(frozen=True)
class _Manifest:
    """What is to be known of a manifest."""

    namespace: str
    name: str
    containers: tuple[str, ...] = ()
    policy: str = "Always"

    def is_of(self, others: Iterable[_Manifest]) -> Mine:
        """Return how its pod is known, where there are the pods of `others`: `web-2-NODE` is not the pod of `web`."""
        longer = [
            each.name for each in others if each.namespace == self.namespace and each.name.startswith(f"{self.name}-")
        ]

        def mine(namespace: str, name: str) -> bool:
            return (
                namespace == self.namespace
                and name.startswith(f"{self.name}-")
                and not any(name.startswith(f"{each}-") for each in longer)
            )

        return mine


def prepare(request: protocol.Request, place: protocol.Workplace) -> protocol.Command:
    """Check the manifest."""
    if _is_wanted(request):
        config = _config(request)
        manifest = _read(config, request.key)
        own = {_target(request, place), *Written(place.working).of(owner(request))}
        for path, other in _manifests(place):
            if path not in own and (other.namespace, other.name) == (manifest.namespace, manifest.name):
                problem = f"there is a pod of this name already, in {path}, which is not this deployment's"
                raise HookError(problem, "config.metadata.name")
    files.make_directory(place.working)
    return steps.command(__name__, request, place)


def carry_out(request: protocol.Request, place: protocol.Workplace) -> int:
    """Write the manifest and wait for the pod, or remove it and wait for its end."""
    written = Written(place.working)
    if request.leaves:
        return _remove(request, place, [_folder(place) / f"{protocol.file_key(request.leaves)}.json"])
    target = _target(request, place)
    earlier = [each for each in written.of(owner(request)) if each != target]
    if not _is_wanted(request):
        if request.action != "DELETE":
            steps.say("the config is empty: no pod is wanted", error=True)
        return _remove(request, place, [*earlier, target])
    config = _config(request)
    content = json.dumps(config, indent=2, separators=(",", ": ")).encode()
    manifest = _read(config, request.key)
    mine = manifest.is_of(other for path, other in _manifests(place) if path not in (*earlier, target))
    before = place.working / f"{request.key}.before"
    unheard = None
    if not target.is_file() or target.read_bytes() != content:
        marks, unheard = _marks(request, mine)
        files.replace(before, json.dumps(marks).encode())
    files.make_directory(target.parent)
    for path in earlier:  # the kubelet does not run two pods of one name
        _unlink(path, written)
    written.write(target, content, owner=owner(request))
    steps.say(f"the manifest is at {target}")
    try:
        if unheard:
            raise unheard
        return _await(request, manifest, mine, frozenset(json.loads(before.read_bytes()) if before.exists() else ()))
    except Silence as silence:
        steps.say(f"the manifest is at {target}, but nobody says whether its pod runs: {silence}", error=True)
        return NO_TOOL


finish = protocol.collect


def _is_wanted(request: protocol.Request) -> bool:
    """Whether a pod is to run."""
    config = request.config.strip() if isinstance(request.config, str) else request.config
    return bool(config) and request.action != "DELETE" and not request.leaves


def _folder(place: protocol.Workplace) -> Path:
    return Path(place.environment.get("HEAT_KUBELET_MANIFESTS") or place.working / "kubelet-manifests").absolute()


def _target(request: protocol.Request, place: protocol.Workplace) -> Path:
    return _folder(place) / f"{request.key}.json"


def _config(request: protocol.Request) -> Mapping[str, object]:
    config = request.config
    if isinstance(config, str):
        config = _parsed(config)
    try:
        strict_json.check(config)
        json.dumps(config)
    except (ValueError, TypeError) as error:
        raise HookError(f"it cannot be written as JSON: {error}", "config") from error
    if not isinstance(config, Mapping):
        raise HookError("expected a pod's manifest, an object", "config")
    return config


def _parsed(text: str) -> object:
    try:
        return strict_yaml.loads(text)
    except ValueError as error:
        raise HookError(f"it is neither YAML nor JSON: {error}", "config") from error


def _read(config: Mapping[str, object], key: str) -> _Manifest:
    """Read the manifest of a pod, or of what was one before v1, which has no `spec`. Raises HookError."""
    kind = config.get("kind", "Pod")
    if kind != "Pod":
        raise HookError(f"the kubelet runs pods, and this is a {kind}", "config.kind")
    metadata, spec, where = config.get("metadata"), config.get("spec"), "config.spec"
    if spec is None and "containers" in config:
        metadata, spec, where = {"name": config.get("id") or key.lower(), **_map(metadata)}, config, "config"
    if not isinstance(metadata, Mapping) or not isinstance(spec, Mapping):
        raise HookError("expected a pod's manifest, with metadata and spec", "config")
    name, namespace = metadata.get("name"), metadata.get("namespace") or "default"
    for field, value in (("name", name), ("namespace", namespace)):
        if not isinstance(value, str) or not _NAME.fullmatch(value):
            problem = f"expected a name of lower case letters, digits, '-' and '.', not {value!r}"
            raise HookError(problem, f"config.metadata.{field}")
    policy = spec.get("restartPolicy") or "Always"
    if policy not in _POLICIES:
        raise HookError(f"expected one of {', '.join(_POLICIES)}, not {policy!r}", f"{where}.restartPolicy")
    return _Manifest(str(namespace), str(name), _containers(spec.get("containers"), f"{where}.containers"), policy)


def _containers(containers: object, where: str) -> tuple[str, ...]:
    if not isinstance(containers, list) or not containers:
        raise HookError("expected a list of containers", where)
    names: list[str] = []
    for number, each in enumerate(containers):
        name = each.get("name") if isinstance(each, Mapping) else None
        if not isinstance(name, str) or not name:
            raise HookError("every container needs a name", f"{where}[{number}].name")
        names.append(name)
    return tuple(names)


def _map(value: object) -> Mapping[str, object]:
    return value if isinstance(value, Mapping) else {}


def _manifests(place: protocol.Workplace) -> Iterator[tuple[Path, _Manifest]]:
    """Return what can be read of the manifests that are there, whoever wrote them."""
    folder = _folder(place)
    for path in sorted(folder.iterdir()) if folder.is_dir() else ():
        if path.name.startswith(".") or not path.is_file():
            continue  # as the kubelet does
        try:
            text = path.read_text(encoding="utf-8")
            config = json.loads(text) if path.suffix == ".json" else _parsed(text)
            metadata = _map(_map(config).get("metadata"))
            name, namespace = metadata.get("name"), metadata.get("namespace") or "default"
        except (OSError, ValueError, HookError):
            continue  # the kubelet can read it no better
        if isinstance(name, str) and isinstance(namespace, str):
            yield path, _Manifest(namespace, name)


def _seconds(request: protocol.Request, option: str) -> float:
    value = request.options[option]
    return value if isinstance(value, float) else 0.0


def _pauses(request: protocol.Request) -> Iterator[float]:
    """Yield the seconds to wait between two looks: at first it may be a matter of moments."""
    pause = 0.1
    while True:
        yield min(pause, _seconds(request, "poll_period"))
        pause *= 2


def _marks(request: protocol.Request, mine: Mine) -> tuple[list[str], Silence | None]:
    """Return what tells the pods that run now from the one that is to come; or why nobody can say it."""
    deadline = time.monotonic() + _seconds(request, "containers_timeout")
    pauses = _pauses(request)
    while True:
        try:
            return sorted(mark for pod in Node(os.environ).pods(mine) for mark in pod.marks), None
        except Silence as silence:
            if silence.absent or time.monotonic() > deadline:  # else it may just be starting, with the machine
                return [], silence
        time.sleep(next(pauses))


def _await(request: protocol.Request, manifest: _Manifest, mine: Mine, earlier: frozenset[str]) -> int:
    """Wait until the pod runs, or is seen to fail; return the exit code. `earlier` marks pods that were before it.

    Raises Silence.
    """
    limit = _seconds(request, "images_timeout")
    deadline = time.monotonic() + limit
    pauses = _pauses(request)
    created, told = False, ""
    while True:
        try:
            pods = [each for each in Node(os.environ).pods(mine) if not each.marks <= earlier]
        except Silence as silence:
            if silence.absent or time.monotonic() > deadline:
                raise
            state = str(silence)
        else:
            latest = {each.name: each for pod in pods for each in pod.containers if each.id not in earlier}
            problem = _problem(pods, latest.values(), manifest)
            if problem:
                steps.say(f"the pod {manifest.name} has failed: {problem}", error=True)
                return _FAILED
            missing = [name for name in manifest.containers if not _is_done(latest.get(name), manifest)]
            if not missing:
                steps.say(f"the pod {manifest.name} runs: {_named(manifest, latest)}")
                return 0
            if not created and all(name in latest and latest[name].id for name in manifest.containers):
                created, limit = True, _seconds(request, "containers_timeout")
                deadline = time.monotonic() + limit
            state = ", ".join(f"{name} ({_state(latest.get(name))})" for name in missing)
        if state != told:
            steps.say(f"waiting for {state}")
            told = state
        if time.monotonic() > deadline:
            steps.say(f"the pod {manifest.name} does not run after {limit:g} s: {state}", error=True)
            return _FAILED
        time.sleep(next(pauses))


def _problem(pods: Iterable[Pod], containers: Iterable[Container], manifest: _Manifest) -> str:
    """Return what has gone wrong for good with a pod; empty where nothing has."""
    for each in containers:
        lost = bool(each.code) and (manifest.policy == "Never" or each.restarts >= _RESTARTS)
        if lost or each.reason in _HOPELESS:
            return f"container {each.name}: {_state(each)}"
    return next((each.message or "it says no more" for each in pods if each.failed), "")


def _is_done(container: Container | None, manifest: _Manifest) -> bool:
    """Whether a container is as it should be: it runs and is ready, or it has done what it was there for."""
    if container is None:
        return False
    return (container.running and container.ready) or (container.code == 0 and manifest.policy != "Always")


def _state(container: Container | None) -> str:
    if container is None:
        return "not there yet"
    if container.running:
        return "ready" if container.ready else "running, not ready"
    ended = f"ended with status {container.code}" if container.code is not None else ""
    return ": ".join(each for each in (container.reason, ended, container.message) if each) or "not started yet"


def _named(manifest: _Manifest, latest: Mapping[str, Container]) -> str:
    return ", ".join(f"{name} ({_state(latest[name])})" for name in manifest.containers)


def _remove(request: protocol.Request, place: protocol.Workplace, paths: list[Path]) -> int:
    """Remove manifests, and wait until their pods are gone, as far as anybody says."""
    gone = [manifest for path, manifest in _manifests(place) if path in paths]
    others = [manifest for path, manifest in _manifests(place) if path not in paths]
    found = [path for path in paths if path.exists()]
    for path in paths:
        _unlink(path, Written(place.working), quiet=path not in found)
    if not found:
        steps.say("there is no manifest of it")
    return max((_await_end(request, each, each.is_of(others)) for each in gone), default=0)


def _unlink(path: Path, written: Written, *, quiet: bool = False) -> None:
    files.remove(path)
    written.forget([path])
    if not quiet:
        steps.say(f"{path} was removed")


def _await_end(request: protocol.Request, manifest: _Manifest, mine: Mine) -> int:
    limit = _seconds(request, "containers_timeout")
    deadline = time.monotonic() + limit
    pauses = _pauses(request)
    while True:
        try:
            live = Node(os.environ).live(mine)
        except Silence as silence:
            if silence.absent or time.monotonic() > deadline:
                steps.say(f"nobody can say whether the pod {manifest.name} is gone: {silence}", error=True)
                return 0
        else:
            if not live:
                steps.say(f"the pod {manifest.name} is gone")
                return 0
            if time.monotonic() > deadline:
                steps.say(f"the pod {', '.join(live)} is still there after {limit:g} s", error=True)
                return _FAILED
        time.sleep(next(pauses))
