"""The `systemd-unit` hook: installs units of systemd, and starts them.

The config maps names of units to their texts, or to maps of their sections:

    web.service:
      Service:
        ExecStart: /usr/bin/web --port ${PORT}
        Environment: [LANG=C.UTF-8, TZ=UTC]
      Install:
        WantedBy: multi-user.target
    web.service.d/10-limits.conf: |
      [Service]
      LimitNOFILE=65536

The config may also be the YAML or JSON text of such a map, or, with the option `name`, the text of a single unit.

The units are verified together before anything on the machine changes.
Then they are written, enabled if they have an `[Install]` section, and started.
Units that have changed are restarted; running units that have not changed are left alone.
The hook does not start units that others start:
templates, units with nothing but a drop-in in the config,
and services without `[Install]` that a timer, socket or path of the config starts.
If such a unit is running and has changed, it is restarted.
A service with `Type=oneshot` that has ended is started again by each deployment.
The deployment has failed if a unit fails, or if systemd has to restart it, within `settle` seconds.

The inputs, except Heat's own (`deploy_…`), are environment variables of the services.
They are in a file that only root can read, to which each service refers with `EnvironmentFile=`.
Without inputs, the unit is written as it is.

Units that an earlier config of the same deployment had, and this one does not have, are stopped, disabled and removed.
DELETE does the same with all units of the deployment.
A file that someone has changed since is left in place.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path

from heat_config_hooks import protocol, steps
from heat_config_hooks.errors import HookError
from heat_config_hooks.needs import NEEDS, check
from heat_config_hooks.options import Kind, Option
from heat_config_hooks.reply import Reply, nothing_done
from heat_config_hooks.tools import unit_files, unit_folder, unit_inputs, unit_start
from heat_config_hooks.tools.systemctl import Systemd, analyze
from heat_config_hooks.tools.unit_files import is_drop_in, is_service, pattern, unit_of
from heat_config_hooks.tools.unit_folder import AtRest, Pending
from heat_config_hooks.tools.unit_inputs import Inputs
from heat_config_hooks.tools.unit_start import AT_REST
from heat_config_hooks.written import Written, owner

TYPE_CHECKING = False  # as `typing` has it, which takes long to load

if TYPE_CHECKING:
    from heat_config_hooks.verdict import Verdict  # few runs verify

ABOUT = protocol.About(
    config="units of systemd: a map from their names to their texts, or to maps of their sections",
    options={
        "name": Option(
            Kind.TEXT,
            "the name of the unit, if the config is the text of a single unit",
        ),
        "enable": Option(
            Kind.FLAG,
            "enable units with an [Install] section, so that they start at boot",
            True,
        ),
        "start": Option(
            Kind.FLAG, "start the units, and restart those that have changed", True
        ),
        "settle": Option(
            Kind.SECONDS,
            "seconds for which a unit must stay up to count as started",
            1.0,
        ),
    },
    needs=NEEDS["systemd-unit"],
    variables=("HEAT_SYSTEMD_UNIT_DIR", "HEAT_SYSTEMD_UNIT_WORKING"),
    writes={"HEAT_SYSTEMD_UNIT_DIR": "/etc/systemd/system"},
    files=(),
    undoes=True,
    tested="a real systemd, booted in a container",
)


def prepare(
    request: protocol.Request, place: protocol.Workplace
) -> protocol.Command | Reply:
    """Check the config, and return the command."""
    delete = request.action == "DELETE"
    units = {} if delete else unit_files.read(request)
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
    check(NEEDS["systemd-unit"], place.environment)
    return steps.command(__name__, request, place)


finish = protocol.collect


def verify(
    request: protocol.Request, place: protocol.Workplace
) -> protocol.Command | Verdict:
    """Return the command that looks at the files and the states of the units."""
    if not unit_files.read(request):
        from heat_config_hooks import verdict  # noqa: PLC0415  # few runs verify

        return verdict.in_effect()
    return steps.looking(__name__, request, place)


verdict = steps.seen


def look(request: protocol.Request, place: protocol.Workplace) -> Verdict:
    """Return whether the units are as they were written, enabled and started."""
    from heat_config_hooks.tools import unit_state  # noqa: PLC0415  # few runs verify
    from heat_config_hooks.verdict import Change, drifted, together, unknown  # noqa: PLC0415

    folder, inputs = _unit_folder(place), _inputs(request, place)
    units = inputs.added_to(unit_files.read(request))
    texts = {folder / name: text.encode() for name, text in units.items()}
    written = Written(place.working).verified(texts, owner=owner(request), mode=0o644)
    on_disk = together(
        [
            unit_state.of_files(written, unit_folder.masks(texts)),
            inputs.verified(),
        ]
    )
    try:
        unit_start.require()
        systemd = Systemd(place.environment)
    except HookError as error:
        return together([on_disk, unknown(error.problem)])
    differing = unit_state.units_of(on_disk, str(folder))
    own, installable = unit_files.startable(units), unit_files.installable(units)
    named = {unit_of(name) for name in units}
    shown = systemd.show(
        {name for name in named if pattern(name) == name}, *unit_state.PROPERTIES
    )
    if named and not shown:
        return together([on_disk, unknown("systemd does not answer")])
    expected: set[str] = set()
    if request.options["start"]:
        expected = own - unit_state.triggered(units, shown)
        expected -= AtRest(request, place).names
    states = unit_state.of_units(
        shown,
        files={name: str(folder / name) for name in own},
        sources={},
        differing=differing,
        expected=expected,
    )
    asked = own & installable if request.options["enable"] else set()
    answers = {
        name: systemd.enabled(name)
        for name in sorted(asked)
        if unit_folder.content(folder / name)
    }
    links = [
        drifted([Change(what=name, how=unit_state.NOT_ENABLED[answer])])
        for name, answer in answers.items()
        if answer in unit_state.NOT_ENABLED
    ]
    others = _overrides(shown, units, folder, Written(place.working))
    return together([on_disk, states, *links, *others])


def _overrides(
    shown: Iterable[Mapping[str, str]],
    units: Mapping[str, str],
    folder: Path,
    written: Written,
) -> list[Verdict]:
    """Return a verdict for each setting of the units that a drop-in overrides, if the hook has not written it.

    Drop-ins of packages do not count: they were there before.
    """
    from heat_config_hooks.tools import unit_overrides  # noqa: PLC0415  # few runs verify
    from heat_config_hooks.verdict import Change, drifted  # noqa: PLC0415

    own = {str(folder / name): text for name, text in units.items()}
    verdicts = []
    for unit in shown:
        paths = unit.get("DropInPaths", "").split()
        foreign = [path for path in paths if path not in own]
        foreign = [
            path
            for path in foreign
            if not path.startswith("/usr/") and not written.has(Path(path))
        ]
        if not foreign:
            continue
        texts = {
            path: own.get(path)
            or (unit_folder.content(Path(path)) or b"").decode("utf-8", "replace")
            for path in (unit.get("FragmentPath", ""), *paths)
            if path in own or path in foreign
        }
        verdicts += [
            drifted([Change(what=unit["Id"], how=f"{path} overrides {name}=")])
            for path, name in unit_overrides.overridden(texts, list(own))
        ]
    return verdicts


def _unit_folder(place: protocol.Workplace) -> Path:
    """Return the folder of the unit files."""
    return Path(
        place.environment.get("HEAT_SYSTEMD_UNIT_DIR")
        or ABOUT.writes["HEAT_SYSTEMD_UNIT_DIR"]
    )


def carry_out(request: protocol.Request, place: protocol.Workplace) -> int:
    """Write, enable and start the units of the config, and remove those of earlier configs; return an exit code."""
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
    units = (
        {} if request.action == "DELETE" else inputs.added_to(unit_files.read(request))
    )
    systemd = Systemd(place.environment)
    if code := analyze(units, place):
        return code
    unit_start.require()

    gone = mine - units.keys()
    retired = {name for name in gone if not is_drop_in(name)}
    changed = {
        unit_of(name)
        for name, text in units.items()
        if unit_folder.content(folder / name) != text.encode()
    }
    changed |= {unit_of(name) for name in gone} | pending.names
    if inputs.differ():
        changed |= {name for name in units if is_service(name)}
    changed -= retired
    pending.keep(changed | retired)

    if code := _retire(systemd, written, folder, gone, kept=units):
        return code
    inputs.keep()
    for name, text in units.items():
        unit_folder.make((folder / name).parent)
        if written.write(
            folder / name, text.encode(), owner=owner(request), mode=0o644
        ):
            steps.say(f"{folder / name} was written")
    if request.options["enable"] and (code := _enable(systemd, units, changed)):
        return code
    if code := systemd.do("daemon-reload"):
        return code
    systemd.try_to("reset-failed", map(pattern, retired))
    if not request.options["start"]:
        pending.keep(changed & {unit_of(name) for name in units})
        return 0
    settle, at_rest = request.options["settle"], AtRest(request, place)
    resting: set[str] = set()
    if code := _start(
        systemd, units, changed, settle if isinstance(settle, float) else 0.0, resting
    ):
        return code
    if resting != at_rest.names:
        at_rest.keep(resting)
    pending.keep(())
    return 0


def _inputs(request: protocol.Request, place: protocol.Workplace) -> Inputs:
    """Return the inputs as variables of services."""
    variables = "".join(
        f'{name}="{_escaped(value)}"\n'
        for name, value in unit_inputs.variables(request).items()
    )
    return Inputs(request, place, variables, section="Service", names=is_service)


_NO_CHARACTERS = re.compile(
    "[\ufdd0-\ufdef"
    + "".join(
        chr(plane << 16 | 0xFFFE) + chr(plane << 16 | 0xFFFF) for plane in range(17)
    )
    + "]"
)
"""Noncharacters of Unicode: systemd would reject the whole file because of one."""


def _escaped(value: str) -> str:
    return re.sub(r'(["\\$`])', r"\\\1", _NO_CHARACTERS.sub("\ufffd", value))


def _retire(
    systemd: Systemd,
    written: Written,
    folder: Path,
    gone: Collection[str],
    *,
    kept: Collection[str],
) -> int:
    """Stop, disable and remove the files that are `gone` from the config; return an exit code.

    Units whose unit file is `kept` are not stopped.
    """
    units = {name for name in gone if not is_drop_in(name)}
    known = systemd.show(map(pattern, units), "LoadState", "ActiveState")
    stop = {
        unit["Id"]
        for unit in known
        if unit["LoadState"] != "not-found" or unit["ActiveState"] not in AT_REST
    }
    if code := systemd.apply("stop", stop - set(kept)):
        steps.say(
            "some units could not be stopped, so nothing else was done", error=True
        )
        return code
    present = {name for name in units if (folder / name).is_file()}
    systemd.try_to("disable", units - present)  # links to them may be left
    if code := systemd.apply("disable", present, "--no-reload"):
        return code
    for name in sorted(gone):
        steps.say(written.remove(folder / name))
        unit_folder.remove_drop_ins(folder / name)
    written.forget(folder / name for name in gone)
    return 0


def _enable(
    systemd: Systemd, units: Mapping[str, str], changed: Collection[str]
) -> int:
    """Enable the units with an `[Install]` section, disable those that have lost it; return an exit code."""
    own, installable = unit_files.startable(units), unit_files.installable(units)
    return (
        systemd.apply(
            "disable", (own - installable) & set(changed), "--no-reload", "--quiet"
        )
        or systemd.apply("reenable", own & installable & set(changed), "--no-reload")
        or systemd.apply("enable", own & installable - set(changed), "--no-reload")
    )


def _start(
    systemd: Systemd,
    units: Mapping[str, str],
    changed: Collection[str],
    settle: float,
    resting: set[str],
) -> int:
    """Start or restart the units, and check that they stay up for `settle` seconds; return an exit code.

    `resting` is filled with the units that are not up then, although nothing has failed.
    """
    own, installable = unit_files.startable(units), unit_files.installable(units)
    triggers = {
        unit["Id"]: set(unit.get("Triggers", "").split())
        for unit in systemd.show(own, "Triggers")
    }
    begin = own - (set().union(*triggers.values()) - installable)
    restarts = begin & set(changed)
    # A socket cannot be restarted while its service holds it. The next connection starts that service again.
    holding = set().union(
        *(triggers[unit] for unit in restarts if unit.endswith(".socket"))
    )
    held = {
        unit["Id"]
        for unit in systemd.show(holding, "ActiveState")
        if unit["ActiveState"] not in AT_REST
    }
    others = systemd.show(map(pattern, set(changed) - begin), "ActiveState")
    restarts |= (
        {unit["Id"] for unit in others if unit["ActiveState"] == "active"}
        - held
        - (own - set(changed))
    )
    return unit_start.start(
        systemd, begin - restarts, restarts, settle, stop=held, at_rest=resting
    )
