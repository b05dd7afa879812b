"""The `kubelet` hook: runs a static pod.

The config is the manifest of a pod.
As in heat-agents' hook of the same name, the manifest goes to `MANIFESTS/ID.json`, where the kubelet finds it,
and the hook waits until the pod runs.
The kubelet or the container runtime reports the status of the pod (`pods`).
If neither answers, the outcome is unknown, and the deployment has failed.
On DELETE, and when the deployment leaves the metadata, the manifest is removed, and the hook waits for the pod to end.

The hook is deprecated. It still works, and each run says so in the log.
"""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from heat_config_compat.pods import Container, Mine, Node, NoStatus, Pod
from heat_config_hooks import files, protocol, steps, strict_json, strict_yaml
from heat_config_hooks.errors import HookError
from heat_config_hooks.needs import NEEDS
from heat_config_hooks.options import Kind, Option
from heat_config_hooks.reply import NO_TOOL
from heat_config_hooks.values import dataclass
from heat_config_hooks.written import Written, owner

TYPE_CHECKING = False  # as `typing` has it, which takes long to load

if TYPE_CHECKING:
    from heat_config_hooks.verdict import Verdict  # few runs verify

ABOUT = protocol.About(
    config="the manifest of a pod: an object, or its YAML or JSON text",
    options={
        "images_timeout": Option(
            Kind.SECONDS,
            "seconds until all containers must be created, with their images pulled",
            600.0,
        ),
        "containers_timeout": Option(
            Kind.SECONDS,
            "seconds after that until all must run; on DELETE, until the pod must be gone",
            120.0,
        ),
        "poll_period": Option(
            Kind.SECONDS, "seconds between two checks of the pod", 5.0
        ),
    },
    needs=NEEDS["kubelet"],
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
    deprecated="the kubelet's read-only API is off by default, and pods of a cluster are its own matter; "
    "use quadlet, whose .kube files run the manifest of a pod by podman",
)

_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")
"""A name in Kubernetes (RFC 1123)."""

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
"""Reasons for which a container waits, and for which waiting is useless."""

_RESTARTS = 2
"""Restarts after which a container that fails again has failed for good: crictl does not report `CrashLoopBackOff`."""

_FAILED = 1


@dataclass(frozen=True)
class _Manifest:
    """The parts of a manifest that the hook needs."""

    namespace: str
    name: str
    containers: tuple[str, ...] = ()
    policy: str = "Always"

    def is_of(self, others: Iterable[_Manifest]) -> Mine:
        """Return a function that recognises its pod among those of `others`: `web-2-NODE` is not the pod of `web`."""
        longer = [
            other.name
            for other in others
            if other.namespace == self.namespace
            and other.name.startswith(f"{self.name}-")
        ]

        def mine(namespace: str, name: str) -> bool:
            return (
                namespace == self.namespace
                and name.startswith(f"{self.name}-")
                and not any(name.startswith(f"{other}-") for other in longer)
            )

        return mine


def prepare(request: protocol.Request, place: protocol.Workplace) -> protocol.Command:
    """Check the manifest, and return the command. Raises HookError."""
    if _is_wanted(request):
        config = _config(request)
        manifest = _read(config, request.key)
        own = {_target(request, place), *Written(place.working).of(owner(request))}
        for path, other in _manifests(place):
            if path not in own and (other.namespace, other.name) == (
                manifest.namespace,
                manifest.name,
            ):
                problem = f"a pod of this name exists already, in {path}, which belongs to another deployment"
                raise HookError(problem, "config.metadata.name")
    files.make_directory(place.working)
    note = f"the tool kubelet is deprecated: {ABOUT.deprecated}"
    return steps.command(
        __name__, request, place, [note] if _is_wanted(request) else []
    )


def carry_out(request: protocol.Request, place: protocol.Workplace) -> int:
    """Write the manifest and wait until the pod runs, or remove it and wait until the pod has ended."""
    written = Written(place.working)
    if request.leaves:
        return _remove(
            request,
            place,
            [_folder(place) / f"{protocol.file_key(request.leaves)}.json"],
        )
    target = _target(request, place)
    earlier = [each for each in written.of(owner(request)) if each != target]
    if not _is_wanted(request):
        if request.action != "DELETE":
            steps.say("the config is empty: no pod is to run", error=True)
        return _remove(request, place, [*earlier, target])
    config = _config(request)
    content = _content(config)
    manifest = _read(config, request.key)
    mine = manifest.is_of(
        other for path, other in _manifests(place) if path not in (*earlier, target)
    )
    before = place.working / f"{request.key}.before"
    unknown = None
    if not target.is_file() or target.read_bytes() != content:
        marks, unknown = _marks(request, mine)
        files.replace(before, json.dumps(marks).encode())
    files.make_directory(target.parent)
    for path in earlier:  # the kubelet does not run two pods of one name
        _unlink(path, written)
    written.write(target, content, owner=owner(request))
    steps.say(f"the manifest is at {target}")
    try:
        if unknown:
            raise unknown
        return _await(
            request,
            manifest,
            mine,
            frozenset(json.loads(before.read_bytes()) if before.exists() else ()),
        )
    except NoStatus as problem:
        steps.say(
            f"the manifest is at {target}, but it is unknown whether its pod runs: {problem}",
            error=True,
        )
        return NO_TOOL


finish = protocol.collect


def verify(
    request: protocol.Request, place: protocol.Workplace
) -> protocol.Command | Verdict:
    """Return the command that looks at the manifest and the pod."""
    if not _is_wanted(request):
        from heat_config_hooks.verdict import in_effect  # noqa: PLC0415  # few runs verify

        return in_effect()
    _read(_config(request), request.key)
    return steps.looking(__name__, request, place)


verdict = steps.seen


def look(request: protocol.Request, place: protocol.Workplace) -> Verdict:
    """Return whether the manifest is as it was written, and its pod runs."""
    from heat_config_hooks.verdict import together, unknown  # noqa: PLC0415  # few runs verify

    config, target = _config(request), _target(request, place)
    written = Written(place.working).verified(
        {target: _content(config)}, owner=owner(request)
    )
    manifest = _read(config, request.key)
    mine = manifest.is_of(other for path, other in _manifests(place) if path != target)
    try:
        pods = Node(os.environ).pods(mine)
    except NoStatus as problem:
        reason = f"it is unknown whether the pod {manifest.name} runs: {problem}"
        return together([written, unknown(reason)])
    return together([written, _running(pods, manifest)])


def _running(pods: Iterable[Pod], manifest: _Manifest) -> Verdict:
    """Return whether a pod runs, with all of its containers, or has ended as it should."""
    from heat_config_hooks.verdict import Change, drifted, in_effect, unknown  # noqa: PLC0415  # few runs verify

    every = list(pods)
    what = f"the pod {manifest.name}"
    if not every:
        return drifted([Change(what=what, how="it does not exist")])
    latest = {each.name: each for pod in every for each in pod.containers}
    if reason := _failure(every, latest.values(), manifest):
        return drifted([Change(what=what, how=f"it has failed: {reason}")])
    states = {
        name: _state(latest.get(name))
        for name in manifest.containers
        if not _is_done(latest.get(name), manifest)
    }
    ended = [
        Change(what=what, how=f"container {name}: {state}")
        for name, state in states.items()
        if name in latest and latest[name].code is not None
    ]
    if ended:
        return drifted(ended)
    for name, state in states.items():
        return unknown(f"{what}: container {name}: {state}")
    return in_effect()


def _content(config: Mapping[str, object]) -> bytes:
    """Return the content of a manifest."""
    return json.dumps(config, indent=2, separators=(",", ": ")).encode()


def _is_wanted(request: protocol.Request) -> bool:
    """Return whether a pod is to run."""
    config = (
        request.config.strip() if isinstance(request.config, str) else request.config
    )
    return bool(config) and not request.removes


def _folder(place: protocol.Workplace) -> Path:
    return Path(
        place.environment.get("HEAT_KUBELET_MANIFESTS")
        or place.working / "kubelet-manifests"
    ).absolute()


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
        raise HookError("expected the manifest of a pod, an object", "config")
    return config


def _parsed(text: str) -> object:
    try:
        return strict_yaml.loads(text)
    except ValueError as error:
        raise HookError(
            f"it is neither valid YAML nor JSON: {error}", "config"
        ) from error


def _read(config: Mapping[str, object], key: str) -> _Manifest:
    """Return the parts of a manifest, which may be of an API before v1, without `spec`. Raises HookError."""
    kind = config.get("kind", "Pod")
    if kind != "Pod":
        raise HookError(f"expected a Pod, not a {kind}", "config.kind")
    metadata, spec, where = config.get("metadata"), config.get("spec"), "config.spec"
    if spec is None and "containers" in config:
        metadata, spec, where = (
            {"name": config.get("id") or key.lower(), **protocol.as_map(metadata)},
            config,
            "config",
        )
    if not isinstance(metadata, Mapping) or not isinstance(spec, Mapping):
        raise HookError(
            "expected the manifest of a pod, with metadata and spec", "config"
        )
    name, namespace = metadata.get("name"), metadata.get("namespace") or "default"
    for field, value in (("name", name), ("namespace", namespace)):
        if not isinstance(value, str) or not _NAME.fullmatch(value):
            problem = f"expected a name of lower case letters, digits, '-' and '.', not {value!r}"
            raise HookError(problem, f"config.metadata.{field}")
    policy = spec.get("restartPolicy") or "Always"
    if policy not in _POLICIES:
        raise HookError(
            f"expected one of {', '.join(_POLICIES)}, not {policy!r}",
            f"{where}.restartPolicy",
        )
    return _Manifest(
        str(namespace),
        str(name),
        _containers(spec.get("containers"), f"{where}.containers"),
        policy,
    )


def _containers(containers: object, where: str) -> tuple[str, ...]:
    if not isinstance(containers, list) or not containers:
        raise HookError("expected a list of containers", where)
    names: list[str] = []
    for number, container in enumerate(containers):
        name = container.get("name") if isinstance(container, Mapping) else None
        if not isinstance(name, str) or not name:
            raise HookError("every container needs a name", f"{where}[{number}].name")
        names.append(name)
    return tuple(names)


def _manifests(place: protocol.Workplace) -> Iterator[tuple[Path, _Manifest]]:
    """Yield all valid manifests in the folder, also those that others have written."""
    folder = _folder(place)
    for path in sorted(folder.iterdir()) if folder.is_dir() else ():
        if path.name.startswith(".") or not path.is_file():
            continue  # the kubelet ignores such files
        try:
            text = files.read(path, files.LARGEST).decode()
            config = json.loads(text) if path.suffix == ".json" else _parsed(text)
            metadata = protocol.as_map(protocol.as_map(config).get("metadata"))
            name, namespace = (
                metadata.get("name"),
                metadata.get("namespace") or "default",
            )
        except (OSError, ValueError, HookError):
            continue  # the kubelet cannot read it either
        if isinstance(name, str) and isinstance(namespace, str):
            yield path, _Manifest(namespace, name)


def _seconds(request: protocol.Request, option: str) -> float:
    value = request.options[option]
    return value if isinstance(value, float) else 0.0


def _pauses(request: protocol.Request) -> Iterator[float]:
    """Yield the seconds to wait before each check: short ones at first, then `poll_period`."""
    pause = 0.1
    while True:
        yield min(pause, _seconds(request, "poll_period"))
        pause *= 2


def _marks(request: protocol.Request, mine: Mine) -> tuple[list[str], NoStatus | None]:
    """Return the marks of the pods that exist now, or the reason for which they are unknown."""
    deadline = time.monotonic() + _seconds(request, "containers_timeout")
    pauses = _pauses(request)
    while True:
        try:
            return sorted(
                mark for pod in Node(os.environ).pods(mine) for mark in pod.marks
            ), None
        except NoStatus as problem:
            if problem.absent or time.monotonic() > deadline:
                # else it may be starting together with the machine
                return [], problem
        time.sleep(next(pauses))


def _await(
    request: protocol.Request, manifest: _Manifest, mine: Mine, earlier: frozenset[str]
) -> int:
    """Wait until the pod runs or has failed, and return an exit code. Raises NoStatus.

    `earlier` are the marks of pods that existed before the manifest was written.
    """
    limit = _seconds(request, "images_timeout")
    deadline = time.monotonic() + limit
    pauses = _pauses(request)
    created, reported = False, ""
    while True:
        try:
            pods = [
                pod for pod in Node(os.environ).pods(mine) if not pod.marks <= earlier
            ]
        except NoStatus as problem:
            if problem.absent or time.monotonic() > deadline:
                raise
            state = str(problem)
        else:
            latest = {
                container.name: container
                for pod in pods
                for container in pod.containers
                if container.id not in earlier
            }
            reason = _failure(pods, latest.values(), manifest)
            if reason:
                steps.say(f"the pod {manifest.name} has failed: {reason}", error=True)
                return _FAILED
            missing = [
                name
                for name in manifest.containers
                if not _is_done(latest.get(name), manifest)
            ]
            if not missing:
                steps.say(f"the pod {manifest.name} runs: {_named(manifest, latest)}")
                return 0
            if not created and all(
                name in latest and latest[name].id for name in manifest.containers
            ):
                created, limit = True, _seconds(request, "containers_timeout")
                deadline = time.monotonic() + limit
            state = ", ".join(
                f"{name} ({_state(latest.get(name))})" for name in missing
            )
        if state != reported:
            steps.say(f"waiting for {state}")
            reported = state
        if time.monotonic() > deadline:
            steps.say(
                f"the pod {manifest.name} does not run after {limit:g} s: {state}",
                error=True,
            )
            return _FAILED
        time.sleep(next(pauses))


def _failure(
    pods: Iterable[Pod], containers: Iterable[Container], manifest: _Manifest
) -> str:
    """Return why a pod has failed for good; empty if it has not."""
    for each in containers:
        lost = bool(each.code) and (
            manifest.policy == "Never" or each.restarts >= _RESTARTS
        )
        if lost or each.reason in _HOPELESS:
            return f"container {each.name}: {_state(each)}"
    return next(
        (each.message or "no reason is known" for each in pods if each.failed), ""
    )


def _is_done(container: Container | None, manifest: _Manifest) -> bool:
    """Return whether a container has reached its aim: it runs and is ready, or it has ended successfully."""
    if container is None:
        return False
    return (container.running and container.ready) or (
        container.code == 0 and manifest.policy != "Always"
    )


def _state(container: Container | None) -> str:
    if container is None:
        return "does not exist yet"
    if container.running:
        return "ready" if container.ready else "running, not ready"
    ended = f"ended with status {container.code}" if container.code is not None else ""
    return (
        ": ".join(each for each in (container.reason, ended, container.message) if each)
        or "not started yet"
    )


def _named(manifest: _Manifest, latest: Mapping[str, Container]) -> str:
    return ", ".join(f"{name} ({_state(latest[name])})" for name in manifest.containers)


def _remove(
    request: protocol.Request, place: protocol.Workplace, paths: list[Path]
) -> int:
    """Remove manifests, and wait until their pods are gone, if their status is known; return an exit code."""
    removed = [manifest for path, manifest in _manifests(place) if path in paths]
    others = [manifest for path, manifest in _manifests(place) if path not in paths]
    present = [path for path in paths if path.exists()]
    for path in paths:
        _unlink(path, Written(place.working), quiet=path not in present)
    if not present:
        steps.say("the deployment has no manifest")
    return max(
        (_await_end(request, each, each.is_of(others)) for each in removed), default=0
    )


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
        except NoStatus as problem:
            if problem.absent or time.monotonic() > deadline:
                steps.say(
                    f"it is unknown whether the pod {manifest.name} is gone: {problem}",
                    error=True,
                )
                return 0
        else:
            if not live:
                steps.say(f"the pod {manifest.name} is gone")
                return 0
            if time.monotonic() > deadline:
                steps.say(
                    f"the pod {', '.join(live)} still exists after {limit:g} s",
                    error=True,
                )
                return _FAILED
        time.sleep(next(pauses))
