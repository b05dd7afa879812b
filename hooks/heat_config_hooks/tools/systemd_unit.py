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

import contextlib
import json
import re
import signal
import time
from collections.abc import Collection, Mapping
from pathlib import Path

from heat_config_hooks import files, programs, protocol, steps
from heat_config_hooks.errors import HookError
from heat_config_hooks.options import Kind, Option
from heat_config_hooks.reply import CANNOT_START, Reply, nothing_done
from heat_config_hooks.tools import unit_files
from heat_config_hooks.tools.systemctl import ANALYZE, SYSTEMCTL, Systemd, verify
from heat_config_hooks.tools.unit_files import is_drop_in, is_service, pattern, unit_of
from heat_config_hooks.written import Written, owner

ABOUT = protocol.About(
    config="units of systemd: a map from their names to their texts, or to maps of their sections",
    options={
        "name": Option(Kind.TEXT, "the name of the unit, if the config is the text of a single unit"),
        "enable": Option(Kind.FLAG, "enable units with an [Install] section, so that they start at boot", True),
        "start": Option(Kind.FLAG, "start the units, and restart those that have changed", True),
        "settle": Option(Kind.SECONDS, "seconds for which a unit must stay up to count as started", 1.0),
    },
    program=SYSTEMCTL,
    variables=("HEAT_SYSTEMD_UNIT_DIR", "HEAT_SYSTEMD_UNIT_WORKING"),
    files=(),
    undoes=True,
    tested="a real systemd, booted in a container",
)


def prepare(request: protocol.Request, place: protocol.Workplace) -> protocol.Command | Reply:
    """Check the config, and return the command."""
    delete = request.action == "DELETE"
    units = {} if delete else unit_files.read(request)
    if not (units or Written(place.working).of(owner(request)) or _Pending(request, place).names):
        why = "there is nothing to remove" if delete else "the config is empty: nothing was run"
        return nothing_done(why)
    for program in (SYSTEMCTL, ANALYZE):
        programs.find(program, place.environment)
    return steps.command(__name__, request, place)


finish = protocol.collect


def carry_out(request: protocol.Request, place: protocol.Workplace) -> int:
    """Write, enable and start the units of the config, and remove those of earlier configs; return an exit code."""
    folder = Path(place.environment.get("HEAT_SYSTEMD_UNIT_DIR") or "/etc/systemd/system")
    written, pending, inputs = Written(place.working), _Pending(request, place), _Inputs(request, place)
    mine = {str(path.relative_to(folder)) for path in written.of(owner(request)) if path.is_relative_to(folder)}
    units = {} if request.action == "DELETE" else inputs.added_to(unit_files.read(request))
    systemd = Systemd(place.environment)
    if code := verify(units, place):
        return code
    if not Path("/run/systemd/system").is_dir():
        raise _NotRunning("systemd does not run on this machine, so units can be neither started nor stopped")

    gone = mine - units.keys()
    retired = {name for name in gone if not is_drop_in(name)}
    changed = {unit_of(name) for name, text in units.items() if _content(folder / name) != text.encode()}
    changed |= {unit_of(name) for name in gone} | pending.names
    if inputs.differ():
        changed |= {name for name in units if is_service(name)}
    changed -= retired
    pending.keep(changed | retired)

    if code := _retire(systemd, written, folder, gone, kept=units):
        return code
    inputs.keep()
    for name, text in units.items():
        _make_folder((folder / name).parent)
        if written.write(folder / name, text.encode(), owner=owner(request), mode=0o644):
            steps.say(f"{folder / name} was written")
    if request.options["enable"] and (code := _enable(systemd, units, changed)):
        return code
    if code := systemd.do("daemon-reload"):
        return code
    systemd.try_to("reset-failed", map(pattern, retired))
    if not request.options["start"]:
        pending.keep(changed & {unit_of(name) for name in units})
        return 0
    settle = request.options["settle"]
    if code := _start(systemd, units, changed, settle if isinstance(settle, float) else 0.0):
        return code
    pending.keep(())
    return 0


class _NotRunning(HookError):  # noqa: N818  # systemd is not running
    code = CANNOT_START


def _make_folder(path: Path) -> None:
    """Make a folder that everybody may read, as systemd's own folders are."""
    if not path.is_dir():
        path.mkdir(parents=True, exist_ok=True)
        path.chmod(0o755)


def _content(path: Path) -> bytes | None:
    try:
        return path.read_bytes() if path.is_file() and not path.is_symlink() else None
    except OSError:
        return None


class _Pending:
    """Units that have changed and are not restarted yet: the next run restarts them, should this one be cut short."""

    def __init__(self, request: protocol.Request, place: protocol.Workplace) -> None:
        self._path = place.working / f"{protocol.file_key(owner(request))}.due"
        self.names: frozenset[str] = frozenset()
        with contextlib.suppress(OSError, ValueError):
            self.names = frozenset(json.loads(self._path.read_bytes()))

    def keep(self, names: Collection[str]) -> None:
        """Record these units, and no others, on disk."""
        if names:
            files.make_directory(self._path.parent)
            files.replace(self._path, json.dumps(sorted(names)).encode(), durable=True)
        else:
            self._path.unlink(missing_ok=True)


class _Inputs:
    """The inputs as a file of environment variables, which only root can read."""

    def __init__(self, request: protocol.Request, place: protocol.Workplace) -> None:
        self._path = place.working / f"{protocol.file_key(owner(request))}.env"
        # Heat's own inputs differ at each action, which is no reason to restart a service.
        own = {
            name: value
            for name, value in protocol.environment(request).items()
            if not name.startswith("deploy_") or name in protocol.CREDENTIALS
        }
        self._text = "".join(f'{name}="{_escaped(value)}"\n' for name, value in own.items())
        if request.action == "DELETE":
            self._text = ""

    def added_to(self, units: dict[str, str]) -> dict[str, str]:
        """Return the units, with a reference to the file in each service."""
        if not self._text:
            return units
        path = str(self._path).replace("%", "%%")
        more = f"\n[Service]\n# the inputs of its deployment\nEnvironmentFile={path}\n"
        return {name: text + more if is_service(name) else text for name, text in units.items()}

    def differ(self) -> bool:
        """Return whether the file on disk has other content."""
        return (_content(self._path) or b"") != self._text.encode()

    def keep(self) -> None:
        """Write the file, or remove it if there are no inputs."""
        if self._text:
            files.make_directory(self._path.parent)
            files.replace(self._path, self._text.encode(), durable=True)
        else:
            self._path.unlink(missing_ok=True)


_NO_CHARACTERS = re.compile(
    "[\ufdd0-\ufdef" + "".join(chr(plane << 16 | 0xFFFE) + chr(plane << 16 | 0xFFFF) for plane in range(17)) + "]"
)
"""Noncharacters of Unicode: systemd would reject the whole file because of one."""


def _escaped(value: str) -> str:
    return re.sub(r'(["\\$`])', r"\\\1", _NO_CHARACTERS.sub("\ufffd", value))


_AT_REST = ("inactive", "failed")
"""Values of `ActiveState` of a unit that has stopped."""


def _retire(systemd: Systemd, written: Written, folder: Path, gone: Collection[str], *, kept: Collection[str]) -> int:
    """Stop, disable and remove the files that are `gone` from the config; return an exit code.

    Units whose unit file is `kept` are not stopped.
    """
    units = {name for name in gone if not is_drop_in(name)}
    known = systemd.show(map(pattern, units), "LoadState", "ActiveState")
    stop = {unit["Id"] for unit in known if unit["LoadState"] != "not-found" or unit["ActiveState"] not in _AT_REST}
    if code := systemd.apply("stop", stop - set(kept)):
        steps.say("some units could not be stopped, so nothing else was done", error=True)
        return code
    present = {name for name in units if (folder / name).is_file()}
    systemd.try_to("disable", units - present)  # links to them may be left
    if code := systemd.apply("disable", present, "--no-reload"):
        return code
    for name in sorted(gone):
        steps.say(written.remove(folder / name))
        if is_drop_in(name):
            with contextlib.suppress(OSError):  # other drop-ins may be left
                (folder / name).parent.rmdir()
    written.forget(folder / name for name in gone)
    return 0


def _enable(systemd: Systemd, units: Mapping[str, str], changed: Collection[str]) -> int:
    """Enable the units with an `[Install]` section, disable those that have lost it; return an exit code."""
    own, installable = unit_files.startable(units), unit_files.installable(units)
    return (
        systemd.apply("disable", (own - installable) & set(changed), "--no-reload", "--quiet")
        or systemd.apply("reenable", own & installable & set(changed), "--no-reload")
        or systemd.apply("enable", own & installable - set(changed), "--no-reload")
    )


def _start(systemd: Systemd, units: Mapping[str, str], changed: Collection[str], settle: float) -> int:
    """Start or restart the units, and check that they stay up for `settle` seconds; return an exit code."""
    own, installable = unit_files.startable(units), unit_files.installable(units)
    triggers = {unit["Id"]: set(unit.get("Triggers", "").split()) for unit in systemd.show(own, "Triggers")}
    begin = own - (set().union(*triggers.values()) - installable)
    restarts = begin & set(changed)
    # A socket cannot be restarted while its service holds it. The next connection starts that service again.
    holding = set().union(*(triggers[unit] for unit in restarts if unit.endswith(".socket")))
    held = {unit["Id"] for unit in systemd.show(holding, "ActiveState") if unit["ActiveState"] not in _AT_REST}
    others = systemd.show(map(pattern, set(changed) - begin), "ActiveState")
    restarts |= {unit["Id"] for unit in others if unit["ActiveState"] == "active"} - held - (own - set(changed))
    systemd.try_to("reset-failed", begin | restarts)  # this resets the counts of their starts, too
    try:
        code = (
            systemd.apply("stop", held)
            or systemd.apply("restart", restarts)
            or systemd.apply("start", begin - restarts)
        )
        return _settled(systemd, begin | restarts, code, settle)
    except SystemExit:  # the run has timed out: units that are still starting must not go on starting
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        starting = systemd.show(begin | restarts, "ActiveState")
        systemd.apply("stop", {unit["Id"] for unit in starting if unit["ActiveState"] == "activating"}, "--no-block")
        raise


def _settled(systemd: Systemd, units: Collection[str], code: int, settle: float) -> int:
    """Print the state of each unit; return `code`, the exit code of starting them, or 1 if a unit did not stay up."""
    if not code and units:
        time.sleep(settle)
    failed, waiting = [], []
    for properties in systemd.show(units, "ActiveState", "SubState", "Result", "NRestarts", "ConditionResult"):
        unit, active, restarts = properties["Id"], properties["ActiveState"], properties.get("NRestarts", "0")
        state, result = f"{active} ({properties['SubState']})", properties.get("Result", "unknown")
        if active == "failed" or result not in ("success", "unknown"):
            steps.say(f"{unit} failed: its state is {state}, its result is {result}", error=True)
            failed.append(unit)
        elif restarts != "0":
            steps.say(f"{unit} does not stay up: systemd has restarted it {restarts} times so far", error=True)
            failed.append(unit)
        elif active == "inactive" and code:
            waiting.append(unit)
        elif active == "inactive" and properties.get("ConditionResult") == "no":
            steps.say(f"{unit} was not started: a condition of it is not met")
        else:
            steps.say(f"{unit} is {state}")
    for unit in failed or waiting:
        systemd.explain(unit)
    return code or (1 if failed else 0)
