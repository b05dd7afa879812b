"""The `quadlet` hook: runs containers as services of systemd, from podman's own kinds of units.

The config maps names of files to their texts, or to maps of their sections:

    web.container:
      Container:
        Image: docker.io/library/nginx:1
        PublishPort: ["8080:80"]
        Volume: data.volume:/srv
      Install:
        WantedBy: multi-user.target
    data.volume:
      Volume: {}

The config may also be the YAML or JSON text of such a map, or, with the option `name`, the text of a single file.
A `.kube` file refers to a file of Kubernetes, `NAME.yaml`, whose text is in the config too.

The files go to `/etc/containers/systemd`, from which podman's generator, quadlet, makes services:
`web.container` becomes `web.service`, and `data.volume` becomes `data-volume.service`.
First the generator is tried on copies of the files; if it makes no service of one, nothing on the machine changes.
Then the files are written, and their services started.
Services whose files have changed are restarted; running services that have not changed are left alone.
Templates are not started.
Whether a service starts at boot is said by the `[Install]` section of its file.
The deployment has failed if a service fails, or if systemd has to restart it, within `settle` seconds.

The inputs, except Heat's own (`deploy_…`), are environment variables of the containers of `.container` files.
They are in a file that only root can read, to which each refers with `EnvironmentFile=`.

Services of files that an earlier config of the same deployment had, and this one does not have, are stopped, and the
files removed. DELETE does the same with all files of the deployment.
Volumes and networks stay, with their data, as podman leaves them.
A file that someone has changed since is left in place.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path

from heat_config_hooks import files, programs, protocol, steps
from heat_config_hooks.errors import HookError, MissingTool
from heat_config_hooks.needs import NEEDS, QUADLET, SYSTEMCTL, check
from heat_config_hooks.options import Kind, Option
from heat_config_hooks.reply import Reply, nothing_done
from heat_config_hooks.tools import unit_files, unit_folder, unit_inputs, unit_start
from heat_config_hooks.tools.systemctl import Systemd
from heat_config_hooks.tools.unit_files import is_drop_in, pattern, unit_of
from heat_config_hooks.tools.unit_folder import AtRest, Pending
from heat_config_hooks.tools.unit_inputs import Inputs
from heat_config_hooks.written import FAILED, Written, owner

TYPE_CHECKING = False  # as `typing` has it, which takes long to load

if TYPE_CHECKING:
    from heat_config_hooks.verdict import Verdict  # few runs verify

TYPES = {
    "container": "",
    "kube": "",
    "network": "-network",
    "pod": "-pod",
    "volume": "-volume",
}
"""The types of files, and what is appended to the name of such a file in the name of its service."""

_KUBERNETES = ("yaml", "yml")

GENERATOR = "podman's generator"

ABOUT = protocol.About(
    config="podman's units: a map from the names of files (.container, .volume, .network, .pod, .kube) to their texts, "
    "or to maps of their sections",
    options={
        "name": Option(
            Kind.TEXT,
            "the name of the file, if the config is the text of a single file",
        ),
        "start": Option(
            Kind.FLAG,
            "start the services, and restart those whose files have changed",
            True,
        ),
        "settle": Option(
            Kind.SECONDS,
            "seconds for which a service must stay up to count as started",
            1.0,
        ),
    },
    needs=NEEDS["quadlet"],
    variables=("HEAT_QUADLET_CMD", "HEAT_QUADLET_UNIT_DIR", "HEAT_QUADLET_WORKING"),
    writes={"HEAT_QUADLET_UNIT_DIR": "/etc/containers/systemd"},
    files=(),
    undoes=True,
    tested="a real systemd and podman 5.4, booted in a container",
)


def prepare(
    request: protocol.Request, place: protocol.Workplace
) -> protocol.Command | Reply:
    """Check the config, and return the command."""
    delete = request.action == "DELETE"
    units = {} if delete else unit_files.read(request, tuple(TYPES), _KUBERNETES)
    if not (
        units
        or Written(place.working).of(owner(request))
        or Pending(request, place).names
    ):
        why = (
            "there is nothing to remove"
            if delete
            else "the config is empty: nothing was run"
        )
        return nothing_done(why)
    check((SYSTEMCTL, QUADLET) if units else (SYSTEMCTL,), place.environment)
    return steps.command(__name__, request, place)


finish = protocol.collect


def verify(
    request: protocol.Request, place: protocol.Workplace
) -> protocol.Command | Verdict:
    """Return the command that looks at the files, the services and the containers."""
    if not unit_files.read(request, tuple(TYPES), _KUBERNETES):
        from heat_config_hooks import verdict  # noqa: PLC0415  # few runs verify

        return verdict.in_effect()
    return steps.looking(__name__, request, place)


verdict = steps.seen


def look(request: protocol.Request, place: protocol.Workplace) -> Verdict:
    """Return whether the files are as they were written, and their services and containers are up."""
    from heat_config_hooks.tools import container_state, unit_state  # noqa: PLC0415  # few runs verify
    from heat_config_hooks.verdict import together, unknown  # noqa: PLC0415

    folder, inputs = _unit_folder(place), _inputs(request, place)
    units = inputs.added_to(unit_files.read(request, tuple(TYPES), _KUBERNETES))
    written, parts = Written(place.working), [inputs.verified()]
    for mode in sorted({_mode(name) for name in units}):
        texts = {
            folder / name: text.encode()
            for name, text in units.items()
            if _mode(name) == mode
        }
        verdict = written.verified(texts, owner=owner(request), mode=mode)
        parts.append(unit_state.of_files(verdict, unit_folder.masks(texts)))
    on_disk = together(reversed(parts))
    try:
        unit_start.require()
        systemd = Systemd(place.environment)
        services = _tried(units, folder, place)
    except HookError as error:
        return together([on_disk, unknown(error.problem)])
    if services is None:
        return together([on_disk, unknown(f"{GENERATOR} makes no service of a file")])
    own = {
        service: name
        for name, service in services.items()
        if pattern(service) == service
    }
    shown = systemd.show(own, *unit_state.PROPERTIES)
    if own and not shown:
        return together([on_disk, unknown("systemd does not answer")])
    starts = bool(request.options["start"])
    states = unit_state.of_units(
        shown,
        files={},
        sources={service: str(folder / name) for service, name in own.items()},
        differing={
            services.get(name, name)
            for name in unit_state.units_of(on_disk, str(folder))
        },
        expected=own.keys() - AtRest(request, place).names if starts else (),
    )
    healths = (
        container_state.of_services(sorted(own), place.environment) if starts else []
    )
    return together([on_disk, states, *healths])


def _unit_folder(place: protocol.Workplace) -> Path:
    """Return the folder of the files."""
    return Path(
        place.environment.get("HEAT_QUADLET_UNIT_DIR")
        or ABOUT.writes["HEAT_QUADLET_UNIT_DIR"]
    )


def _mode(name: str) -> int:
    """Return the mode of a file: a file of Kubernetes may contain secrets."""
    return 0o600 if _is_kubernetes(name) else 0o644


def carry_out(request: protocol.Request, place: protocol.Workplace) -> int:
    """Write the files of the config, and start their services; remove the files of earlier configs."""
    folder = _unit_folder(place)
    written, pending, inputs = (
        Written(place.working),
        Pending(request, place),
        _inputs(request, place),
    )
    mine = {
        str(path.relative_to(folder))
        for path in written.of(owner(request))
        if path.is_relative_to(folder)
    }
    config = (
        {}
        if request.action == "DELETE"
        else unit_files.read(request, tuple(TYPES), _KUBERNETES)
    )
    units = inputs.added_to(config)
    services = _tried(units, folder, place)
    if services is None:
        return FAILED
    unit_start.require()
    systemd = Systemd(place.environment)
    gone = mine - units.keys()
    changed = _changed(units, gone, folder, pending.names)
    if inputs.differ():
        changed |= {name for name in units if _is_container(name)}
    pending.keep(changed)

    if code := _retire(systemd, written, folder, gone, place):
        return code
    inputs.keep()
    for name, text in units.items():
        unit_folder.make((folder / name).parent)
        if written.write(
            folder / name, text.encode(), owner=owner(request), mode=_mode(name)
        ):
            steps.say(f"{folder / name} was written")
    if code := systemd.do("daemon-reload") or _loaded(systemd, services, folder):
        return code
    if not request.options["start"]:
        return 0
    own = {service for service in services.values() if pattern(service) == service}
    restarts = {services[name] for name in changed if services.get(name) in own}
    settle, at_rest = request.options["settle"], AtRest(request, place)
    resting: set[str] = set()
    if code := unit_start.start(
        systemd,
        own - restarts,
        restarts,
        settle if isinstance(settle, float) else 0.0,
        at_rest=resting,
    ):
        return code
    if resting != at_rest.names:
        at_rest.keep(resting)
    pending.keep(())
    return 0


def _is_container(name: str) -> bool:
    return name.endswith(".container")


def _is_kubernetes(name: str) -> bool:
    return not is_drop_in(name) and name.endswith(
        tuple(f".{type_}" for type_ in _KUBERNETES)
    )


def _units(names: Iterable[str]) -> set[str]:
    """Return the files of which the generator makes services."""
    return {name for name in names if not is_drop_in(name) and not _is_kubernetes(name)}


def _inputs(request: protocol.Request, place: protocol.Workplace) -> Inputs:
    """Return the inputs as variables of containers. In podman's files of variables, a value is the rest of a line."""
    values = {} if request.action == "DELETE" else unit_inputs.variables(request)
    for name in sorted(
        name for name, value in values.items() if "\n" in value or "\r" in value
    ):
        del values[name]
        problem = f"the input {name} is not in the environment of the containers, because it has several lines"
        steps.say(problem, error=True)
    text = "".join(f"{name}={value}\n" for name, value in values.items())
    return Inputs(request, place, text, section="Container", names=_is_container)


def _changed(
    units: Mapping[str, str],
    gone: Collection[str],
    folder: Path,
    pending: Collection[str],
) -> set[str]:
    """Return the files of the config whose services are to be restarted."""
    differ = {
        name
        for name, text in units.items()
        if unit_folder.content(folder / name) != text.encode()
    } | set(gone)
    changed = {unit_of(name) for name in differ} | set(pending)
    if any(map(_is_kubernetes, differ)):
        changed |= {name for name in units if name.endswith(".kube")}
    return changed & _units(units)


def _tried(
    units: Mapping[str, str], folder: Path, place: protocol.Workplace
) -> dict[str, str] | None:
    """Try the generator: return the name of the service for each file, or None if a file gets no service."""
    if not units:
        return {}
    copies = place.run / "units"
    for name, text in units.items():
        files.make_directory((copies / name).parent)
        files.replace(copies / name, text.encode())
    services, complaints = _generated(
        copies, (copies, folder, Path("/usr/share/containers/systemd")), place
    )
    if missing := _units(units) - services.keys():
        steps.say(complaints, error=True)
        problem = f"{GENERATOR} makes no service of {', '.join(sorted(missing))}"
        steps.say(f"{problem}, so nothing was changed on the machine", error=True)
        return None
    return services


def _generated(
    folder: Path, search: Iterable[Path], place: protocol.Workplace
) -> tuple[dict[str, str], str]:
    """Return the service that the generator makes of each file in a folder, and its complaints. Nothing is changed.

    It looks for files in the folders `search`, because files may refer to those of other deployments.
    """
    argv = [*programs.find(QUADLET, place.environment), "-dryrun"]
    environment = {**os.environ, "QUADLET_UNIT_DIRS": ":".join(map(str, search))}
    done = subprocess.run(
        argv,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
    )
    services, service = {}, ""
    for line in done.stdout.decode("utf-8", "replace").splitlines():
        if line.startswith("---") and line.endswith(".service---"):
            service = line.strip("-")
        elif (
            line.startswith("SourcePath=")
            and Path(line.partition("=")[2]).parent == folder
        ):
            services[Path(line.partition("=")[2]).name] = service
    complaints = done.stderr.decode("utf-8", "replace").splitlines()
    return services, "\n".join(
        line for line in complaints if "Loading source unit file" not in line
    )


def _retire(
    systemd: Systemd,
    written: Written,
    folder: Path,
    gone: Collection[str],
    place: protocol.Workplace,
) -> int:
    """Stop the services of the files that are `gone` from the config, and remove the files; return an exit code."""
    try:
        known = _generated(folder, (folder,), place)[0] if gone else {}
    except MissingTool:  # podman was removed
        known = {}
    services = {known.get(name) or service_of(name) for name in _units(gone)}
    running = systemd.show(map(pattern, services), "ActiveState")
    stop = {
        unit["Id"] for unit in running if unit["ActiveState"] not in unit_start.AT_REST
    }
    if code := systemd.apply("stop", stop):
        steps.say(
            "some services could not be stopped, so nothing else was done", error=True
        )
        return code
    for name in sorted(gone):
        steps.say(written.remove(folder / name))
        unit_folder.remove_drop_ins(folder / name)
    written.forget(folder / name for name in gone)
    systemd.try_to("reset-failed", map(pattern, services))
    return 0


def service_of(name: str) -> str:
    """Return the service of a file, unless the file names another."""
    stem, _, type_ = name.rpartition(".")
    template, at, instance = stem.partition("@")
    return f"{template}{TYPES[type_]}{at}{instance}.service"


def _loaded(systemd: Systemd, services: Mapping[str, str], folder: Path) -> int:
    """Return 1 and say so if systemd has not every service from its file: another unit may have the name."""
    wanted = {
        service: str(folder / name)
        for name, service in services.items()
        if pattern(service) == service
    }
    code = 0
    for unit in systemd.show(wanted, "LoadState", "SourcePath", "FragmentPath"):
        service, file = unit["Id"], wanted.get(unit["Id"], "")
        if unit["LoadState"] == "not-found":
            problem = f"systemd has no {service}, although podman's generator should have made it from {file}"
            steps.say(f"{problem}; see «journalctl -t quadlet-generator»", error=True)
            code = FAILED
        elif unit["SourcePath"] != file:
            steps.say(
                f"{service} is not made of {file}: {unit['FragmentPath']} has that name",
                error=True,
            )
            code = FAILED
    return code
