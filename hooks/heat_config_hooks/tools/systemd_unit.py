"""The `systemd-unit` hook.

The config is units of systemd: a map of their names to their texts, or to maps of their sections:

    web.service:
      Service:
        ExecStart: /usr/bin/web --port ${PORT}
        Environment: [LANG=C.UTF-8, TZ=UTC]
      Install:
        WantedBy: multi-user.target
    web.service.d/10-limits.conf: |
      [Service]
      LimitNOFILE=65536

Such a map as YAML or JSON text is one too, and with the option `name` so is the text of that one unit. They are
verified together before anything on the machine changes; then written, enabled (those with an `[Install]` section) and
started: those that changed are restarted, those that did not and run are left alone. What is left to others to start is
not started here: templates, units of which there is but a drop-in, and services without `[Install]` that a timer, a
socket or a path among the units starts. Those of them that run are restarted if they changed. A service that is done
(`Type=oneshot`) is started once more by each deployment. One that fails, or that systemd has to restart, before
`settle` is over has failed, and so has its deployment.

The inputs are environment variables of its services, but for Heat's own (`deploy_…`). They are in a file for root
alone, of which the text of each service is told (`EnvironmentFile=`); without inputs a text is written as it is.

Units that an earlier config of the same deployment named, and this one does not, are stopped, disabled and removed. So
are all of them by DELETE. A file that somebody changed since is left where it is.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import time
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path

from heat_config_hooks import files, programs, protocol, steps, strict_json, strict_yaml
from heat_config_hooks.errors import HookError
from heat_config_hooks.options import Kind, Option
from heat_config_hooks.programs import Program
from heat_config_hooks.reply import CANNOT_START, Reply, nothing_done
from heat_config_hooks.written import Written, owner

_INSTALL = "it is part of systemd, and what it does takes a machine that systemd has booted"
_SYSTEMCTL = Program(names=("systemctl",), install=_INSTALL)
_ANALYZE = Program(names=("systemd-analyze",), install=_INSTALL)

ABOUT = protocol.About(
    config="units of systemd: a map of their names to their texts, or to maps of their sections",
    options={
        "name": Option(Kind.TEXT, "the unit's name, where the config is the text of just one"),
        "enable": Option(Kind.FLAG, "have those with an [Install] section started at boot", True),
        "start": Option(Kind.FLAG, "start them, and restart those that changed", True),
        "settle": Option(Kind.SECONDS, "how long they have to stay up to count as started, in seconds", 1.0),
    },
    program=_SYSTEMCTL,
    variables=("HEAT_SYSTEMD_UNIT_DIR", "HEAT_SYSTEMD_UNIT_WORKING"),
    files=(),
    undoes=True,
    tested="a real systemd, booted in a container",
)

_TYPES = "service|socket|target|mount|automount|swap|timer|path|slice"
_NAME = re.compile(rf"(?!\.)[A-Za-z0-9:_.\\-]+(@[A-Za-z0-9:_.\\@-]*)?\.({_TYPES})")
"""A unit's name as systemd.unit(5) has it, of a type that is made by a file."""
_DROP_IN = re.compile(rf"({_NAME.pattern})\.d/[A-Za-z0-9_][A-Za-z0-9_.@-]*\.conf")
_LONGEST = 255
_SECTION = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]*")
_SETTING = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")
_INSTALLS = re.compile(r"^\[Install\]\s*$", re.MULTILINE)
_EXPECTED = "expected a map of names of units to units; for the text of just one, say its name in options.name"

LINES = 50
"""Lines of its journal that are shown of a unit that failed."""


def prepare(request: protocol.Request, place: protocol.Workplace) -> protocol.Command | Reply:
    """Read the config; have the rest done by a process of its own."""
    delete = request.action == "DELETE"
    units = {} if delete else _read(request)
    if not (units or Written(place.working).of(owner(request)) or _Due(request, place).names):
        why = "there is nothing to remove" if delete else "the config is empty: nothing was run"
        return nothing_done(why)
    for program in (_SYSTEMCTL, _ANALYZE):
        programs.find(program, place.environment)
    return steps.command(__name__, request, place)


finish = protocol.collect


def carry_out(request: protocol.Request, place: protocol.Workplace) -> int:
    """Have the machine's units be what the config says."""
    folder = Path(place.environment.get("HEAT_SYSTEMD_UNIT_DIR") or "/etc/systemd/system")
    written, due, inputs = Written(place.working), _Due(request, place), _Inputs(request, place)
    mine = {str(path.relative_to(folder)) for path in written.of(owner(request)) if path.is_relative_to(folder)}
    units = {} if request.action == "DELETE" else inputs.given_to(_read(request))
    systemd = _Systemd(place.environment)
    if code := _verify(units, place):
        return code
    if not Path("/run/systemd/system").is_dir():
        raise _NotRunning("systemd does not run on this machine, so no unit can be started or stopped on it")

    gone = mine - units.keys()
    retired = {name for name in gone if not _is_drop_in(name)}
    changed = {_unit(name) for name, text in units.items() if _content(folder / name) != text.encode()}
    changed |= {_unit(name) for name in gone} | due.names
    if inputs.differ():
        changed |= {name for name in units if _is_service(name)}
    changed -= retired
    due.keep(changed | retired)

    if code := _retire(systemd, written, folder, gone, but=units):
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
    systemd.quietly("reset-failed", map(_pattern, retired))
    if not request.options["start"]:
        due.keep(changed & {_unit(name) for name in units})
        return 0
    settle = request.options["settle"]
    if code := _start(systemd, units, changed, settle if isinstance(settle, float) else 0.0):
        return code
    due.keep(())
    return 0


class _NotRunning(HookError):  # noqa: N818  # it is systemd that is not
    code = CANNOT_START


# What the config says.


def _read(request: protocol.Request) -> dict[str, str]:
    """Return the files that a config asks for: name in the unit folder → text. Raises HookError."""
    config, name = request.config, request.options["name"]
    if config is None or (isinstance(config, str) and not config.strip()):
        return {}
    given = {str(name): config} if name else _map(config) if isinstance(config, str) else config
    if not isinstance(given, Mapping):
        raise HookError(_EXPECTED, "config")
    return {_checked(each, "options.name" if name else "config"): _text(each, unit) for each, unit in given.items()}


def _map(text: str) -> object:
    try:
        return strict_json.loads(text)
    except ValueError:
        pass
    try:
        # Text only: a mode of 0600 or a time of 10:30 has to stay what it is.
        return strict_yaml.loads(text, texts=True)
    except ValueError as error:
        raise HookError(f"{_EXPECTED}; as YAML it is wrong: {error}", "config") from error


def _checked(name: str, path: str) -> str:
    if len(name) > _LONGEST or not (_NAME.fullmatch(name) or _DROP_IN.fullmatch(name)):
        types = _TYPES.replace("|", ", ")
        raise HookError(f"{name!r} is no name of a unit (NAME.TYPE or NAME.TYPE.d/FILE.conf; a TYPE is {types})", path)
    return name


def _text(name: str, unit: object) -> str:
    path = f"config[{json.dumps(name)}]"
    if isinstance(unit, Mapping):
        lines = []
        for section, settings in unit.items():
            if not _SECTION.fullmatch(section):
                raise HookError(f"{section!r} is no name of a section", path)
            if not isinstance(settings, Mapping) and settings not in (None, ""):
                raise HookError("expected a map of settings", f"{path}.{section}")
            lines += [f"[{section}]", *_assignments(settings or {}, f"{path}.{section}")]
        unit = "\n".join(lines)
    if not isinstance(unit, str):
        raise HookError("expected the text of a unit, or a map of its sections", path)
    text = unit.removeprefix("\ufeff").replace("\r\n", "\n").encode("utf-8", "replace").decode()
    if not text.strip() or "\0" in text:
        raise HookError("it is no text of a unit: it is empty, or has a NUL in it", path)
    return text if text.endswith("\n") else f"{text}\n"


def _assignments(settings: Mapping[str, object], path: str) -> Iterator[str]:
    for key, value in settings.items():
        if not _SETTING.fullmatch(key):
            raise HookError(f"{key!r} is no name of a setting", path)
        for each in value if isinstance(value, list) else [value]:
            if isinstance(each, Mapping | list):
                raise HookError("expected text, a number, true or false, or a list of such", f"{path}.{key}")
            text = protocol.as_text(each).rstrip("\r\n")
            if "\n" in text or "\r" in text or text.endswith("\\"):
                raise HookError("a value is one line, and ends on it; a list makes several", f"{path}.{key}")
            yield f"{key}={text}"


def _make_folder(path: Path) -> None:
    """Make a folder as systemd's own are, which all may read."""
    if not path.is_dir():
        path.mkdir(parents=True, exist_ok=True)
        path.chmod(0o755)


def _is_drop_in(name: str) -> bool:
    return "/" in name


def _unit(name: str) -> str:
    """Return the unit that a file is about."""
    return name.partition("/")[0].removesuffix(".d") if _is_drop_in(name) else name


def _is_service(name: str) -> bool:
    return name.endswith(".service") and not _is_drop_in(name)


def _pattern(unit: str) -> str:
    """Return what systemctl takes for a unit; for all its instances, if it is a template."""
    prefix, at, instance = unit.partition("@")
    return f"{prefix}@*{instance}" if at and instance.startswith(".") and instance.count(".") == 1 else unit


def _content(path: Path) -> bytes | None:
    try:
        return path.read_bytes() if path.is_file() and not path.is_symlink() else None
    except OSError:
        return None


# What is kept between runs.


class _Due:
    """The units with which something is left to be done, should this run be cut short: they changed."""

    def __init__(self, request: protocol.Request, place: protocol.Workplace) -> None:
        self._path = place.working / f"{protocol.file_key(owner(request))}.due"
        self.names: frozenset[str] = frozenset()
        with contextlib.suppress(OSError, ValueError):
            self.names = frozenset(json.loads(self._path.read_bytes()))

    def keep(self, names: Collection[str]) -> None:
        """Have these be due, whatever happens; none that are not among them."""
        if names:
            files.make_directory(self._path.parent)
            files.replace(self._path, json.dumps(sorted(names)).encode(), durable=True)
        else:
            self._path.unlink(missing_ok=True)


class _Inputs:
    """The inputs as a file of environment variables, for root alone."""

    def __init__(self, request: protocol.Request, place: protocol.Workplace) -> None:
        self._path = place.working / f"{protocol.file_key(owner(request))}.env"
        # Heat's own differ with each action, and no service is to be restarted for that.
        own = {
            name: value
            for name, value in protocol.environment(request).items()
            if not name.startswith("deploy_") or name in protocol.CREDENTIALS
        }
        self._text = "".join(f'{name}="{_escaped(value)}"\n' for name, value in own.items())
        if request.action == "DELETE":
            self._text = ""

    def given_to(self, units: dict[str, str]) -> dict[str, str]:
        """Return the units with their services told of the file."""
        if not self._text:
            return units
        path = str(self._path).replace("%", "%%")
        more = f"\n[Service]\n# the inputs of its deployment\nEnvironmentFile={path}\n"
        return {name: text + more if _is_service(name) else text for name, text in units.items()}

    def differ(self) -> bool:
        """Whether the file is another one than it is to be."""
        return (_content(self._path) or b"") != self._text.encode()

    def keep(self) -> None:
        """Write the file, if there is anything to be in it."""
        if self._text:
            files.make_directory(self._path.parent)
            files.replace(self._path, self._text.encode(), durable=True)
        else:
            self._path.unlink(missing_ok=True)


_NO_CHARACTERS = re.compile(
    "[\ufdd0-\ufdef" + "".join(chr(plane << 16 | 0xFFFE) + chr(plane << 16 | 0xFFFF) for plane in range(17)) + "]"
)
"""What Unicode sets aside for no character at all: systemd would refuse the whole file for one."""


def _escaped(value: str) -> str:
    return re.sub(r'(["\\$`])', r"\\\1", _NO_CHARACTERS.sub("\ufffd", value))


# What is done.


class _Systemd:
    """The machine's systemd."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._systemctl = programs.find(_SYSTEMCTL, environment)
        self._began = int(time.time())

    def do(self, *words: str) -> int:
        """Run systemctl, whose output is the run's; return its exit code."""
        return steps.run([*self._systemctl, *words])

    def each(self, verb: str, units: Iterable[str], *options: str) -> int:
        """Do one thing with several units; nothing where there are none. Return the exit code."""
        names = sorted(units)
        return self.do(verb, *options, "--", *names) if names else 0

    def quietly(self, verb: str, units: Iterable[str]) -> None:
        """Do one thing with each of several units, where it can be done: with those that there are."""
        for unit in units:
            argv = [*self._systemctl, verb, "--", unit]
            subprocess.run(argv, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)

    def show(self, patterns: Iterable[str], *names: str) -> list[dict[str, str]]:
        """Return properties of units, and of those loaded that match where the name is a pattern."""
        given = sorted(patterns)
        if not given:
            return []
        properties = [f"--property={name}" for name in ("Id", *names)]
        _, text = steps.ask([*self._systemctl, "show", *properties, "--", *given])
        blocks = [block.splitlines() for block in text.split("\n\n") if block.strip()]
        return [{name: value for name, _, value in (line.partition("=") for line in block)} for block in blocks]

    def explain(self, unit: str) -> None:
        """Show what systemd and the unit itself say of a failure."""
        status = [*self._systemctl, "status", "--no-pager", "--full", "--lines=0", "--", unit]
        journal = ["journalctl", "--no-pager", f"--since=@{self._began}", f"--lines={LINES}", f"--unit={unit}"]
        for argv in (status, ["journalctl", "--sync"], journal):
            with contextlib.suppress(FileNotFoundError):
                if text := steps.ask(argv)[1].rstrip("\n"):
                    steps.say(text, error=True)


def _verify(units: Mapping[str, str], place: protocol.Workplace) -> int:
    """Have systemd read the units, from a folder of their own; return its exit code."""
    if not units:
        return 0
    folder = place.run / "units"
    for name, text in units.items():
        files.make_directory((folder / name).parent)
        files.replace(folder / name, text.encode())
    analyze = programs.find(_ANALYZE, place.environment)
    about = sorted({_unit(name) for name in units})
    # A path that ends like this goes on with systemd's own.
    code = steps.run(
        [*analyze, "verify", "--man=no", "--", *about],
        environment={**os.environ, "SYSTEMD_UNIT_PATH": f"{folder}:"},
    )
    if code:
        steps.say("the units are wrong, so nothing was changed on the machine", error=True)
    return code


def _retire(systemd: _Systemd, written: Written, folder: Path, gone: Collection[str], *, but: Collection[str]) -> int:
    """Stop, disable and remove units, and remove drop-ins. Return an exit code."""
    units = {name for name in gone if not _is_drop_in(name)}
    known = systemd.show(map(_pattern, units), "LoadState", "ActiveState")
    stop = {each["Id"] for each in known if each["LoadState"] != "not-found" or each["ActiveState"] not in _AT_REST}
    if code := systemd.each("stop", stop - set(but)):
        steps.say("not all could be stopped, so nothing more was done", error=True)
        return code
    there = {name for name in units if (folder / name).is_file()}
    systemd.quietly("disable", units - there)  # links to them may be left
    if code := systemd.each("disable", there, "--no-reload"):
        return code
    for name in sorted(gone):
        steps.say(written.remove(folder / name))
        if _is_drop_in(name):
            with contextlib.suppress(OSError):  # there may be others in it
                (folder / name).parent.rmdir()
    written.forget(folder / name for name in gone)
    return 0


_AT_REST = ("inactive", "failed")


def _enable(systemd: _Systemd, units: Mapping[str, str], changed: Collection[str]) -> int:
    """Have the units be started at boot that say when; those no longer that said so before. Return an exit code."""
    own = {name for name in units if not _is_drop_in(name) and _pattern(name) == name}
    installed = {_unit(name) for name, text in units.items() if _INSTALLS.search(text)}
    return (
        systemd.each("disable", (own - installed) & set(changed), "--no-reload", "--quiet")
        or systemd.each("reenable", own & installed & set(changed), "--no-reload")
        or systemd.each("enable", own & installed - set(changed), "--no-reload")
    )


def _start(systemd: _Systemd, units: Mapping[str, str], changed: Collection[str], settle: float) -> int:
    """Start or restart what has to be, and see whether it stays up. Return an exit code."""
    own = {name for name in units if not _is_drop_in(name) and _pattern(name) == name}
    installed = {_unit(name) for name, text in units.items() if _INSTALLS.search(text)}
    triggers = {each["Id"]: set(each.get("Triggers", "").split()) for each in systemd.show(own, "Triggers")}
    begin = own - (set().union(*triggers.values()) - installed)
    again = begin & set(changed)
    # A socket cannot be had again while its service holds it; that comes back with the next connection.
    holding = set().union(*(triggers[each] for each in again if each.endswith(".socket")))
    held = {each["Id"] for each in systemd.show(holding, "ActiveState") if each["ActiveState"] not in _AT_REST}
    others = systemd.show(map(_pattern, set(changed) - begin), "ActiveState")
    again |= {each["Id"] for each in others if each["ActiveState"] == "active"} - held - (own - set(changed))
    systemd.quietly("reset-failed", begin | again)  # their starts are counted anew, too
    try:
        code = systemd.each("stop", held) or systemd.each("restart", again) or systemd.each("start", begin - again)
        return _settled(systemd, begin | again, code, settle)
    except SystemExit:  # our time is over: what has not started yet is not to go on without us
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        starting = systemd.show(begin | again, "ActiveState")
        systemd.each("stop", {each["Id"] for each in starting if each["ActiveState"] == "activating"}, "--no-block")
        raise


def _settled(systemd: _Systemd, units: Collection[str], code: int, settle: float) -> int:
    """Return an exit code: that of starting them, or 1 if one did not stay up; say of each how it is."""
    if not code and units:
        time.sleep(settle)
    failed, waiting = [], []
    for each in systemd.show(units, "ActiveState", "SubState", "Result", "NRestarts", "ConditionResult"):
        unit, state = each["Id"], f"{each['ActiveState']} ({each['SubState']})"
        if each["ActiveState"] == "failed" or each.get("Result", "success") != "success":
            steps.say(f"{unit} failed: it is {state}, its result is {each.get('Result', 'unknown')}", error=True)
            failed.append(unit)
        elif each.get("NRestarts", "0") != "0":
            steps.say(f"{unit} does not stay up: systemd restarted it, so far {each['NRestarts']} times", error=True)
            failed.append(unit)
        elif each["ActiveState"] == "inactive" and code:
            waiting.append(unit)
        elif each["ActiveState"] == "inactive" and each.get("ConditionResult") == "no":
            steps.say(f"{unit} was not started: a condition of it is not met")
        else:
            steps.say(f"{unit} is {state}")
    for unit in failed or waiting:
        systemd.explain(unit)
    return code or (1 if failed else 0)
