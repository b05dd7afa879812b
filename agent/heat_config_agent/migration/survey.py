"""The inventory of the old programs on the machine. Nothing is changed."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path

import psutil

import heat_config_hooks
from heat_config_agent.deployments import cleanup, metadata, selection
from heat_config_agent.deployments.plan import Verb
from heat_config_agent.engine.survey import Ground, survey
from heat_config_agent.migration import (
    COLLECTOR,
    OTHERS_SETTINGS,
    OURS,
    REFRESHER,
    TAKEN,
    Inventory,
    Unit,
    units,
)
from heat_config_agent.model.deployment import TOOLLESS, Document, Tool
from heat_config_agent.runs.tools import Tools
from heat_config_agent.settings import effective, layers
from heat_config_agent.settings.effective import Settings
from heat_config_agent.sources import documents, transports
from heat_config_agent.sources.documents import Documents
from heat_config_agent.state import journal
from heat_config_agent.state.deployed import Deployed, kept
from heat_config_hooks import files, strict_json
from heat_config_hooks.values import replace

ROOT = Path("/")

LOCK = "/var/run/os-refresh-config.lock"
"""The file that os-refresh-config locks while it works."""

REFRESH_FOLDERS = ("/usr/libexec/os-refresh-config", "/opt/stack/os-config-refresh")
PHASES = (
    "pre-configure.d",
    "configure.d",
    "post-configure.d",
    "migration.d",
    "error.d",
    "environment.d",
)
TEMPLATE_FOLDERS = (
    "/usr/libexec/os-apply-config/templates",
    "/opt/stack/os-apply-config/templates",
    "/opt/stack/os-config-applier/templates",
)
_CRON = (
    "/etc/crontab",
    "/etc/cron.d",
    "/etc/cron.hourly",
    "/etc/cron.daily",
    "/var/spool/cron",
    "/var/spool/cron/crontabs",
)

_MORE_SETTINGS = ("/root/os-collect-config.conf", "/root/os-collect-config.conf.d")
"""The folders in which oslo.config looks for settings before /etc."""

_LASTING = frozenset({"docker-cmd", "docker-compose", "kubelet"})

_SECONDS = 120
"""Seconds that systemctl may take: longer than systemd gives a service to end."""


def look() -> Inventory:
    """Return the inventory of the machine."""
    systemd = Path("/run/systemd/system").is_dir()
    old_units = _old_units(systemd=systemd)
    own_unit = units.read(ROOT, OURS)
    mistakes: list[str] = []
    variables = _environment(old_units)
    own = units.variables(ROOT, own_unit) if own_unit else {}
    settings = effective.make({**variables, **own}, mistakes=mistakes)
    deployed = next(
        (
            folder
            for folder in (settings.deployed, settings.deployed_old)
            if folder and folder.is_dir()
        ),
        None,
    )
    done, unanswered, hollow, lasting = _deployed(
        deployed or settings.deployed, journal.read(settings.state)
    )
    message, trouble = _message(settings, old_units)
    tools, unreadable_hooks = installed_tools(settings)
    bases = _folders(old_units, "OS_REFRESH_CONFIG_BASE_DIR", REFRESH_FOLDERS)
    template_folders = _folders(
        old_units, "OS_CONFIG_APPLIER_TEMPLATES", TEMPLATE_FOLDERS
    )
    return Inventory(
        settings=settings,
        mistakes=tuple(mistakes),
        systemd=systemd,
        old_units=tuple(old_units),
        variables=variables,
        own_unit=_with_state(own_unit, systemd=systemd) if own_unit else None,
        program=_program(own_unit),
        strays=_strays(old_units),
        busy=busy(old_units),
        more_settings=tuple(
            _files((*map(Path, _MORE_SETTINGS), Path(f"{OTHERS_SETTINGS}.d")))
        ),
        command=setting(old_units, "command"),
        scripts=tuple(script for base in bases for script in _scripts(base)),
        templates=tuple(
            path
            for folder in template_folders
            for path in sorted(folder.rglob("*"))
            if path.is_file()
        ),
        template_folders=template_folders,
        schedules=tuple(
            path for path in _files(map(Path, _CRON)) if _is_scheduled(path)
        ),
        tools=tools,
        absent=_absent(
            settings, deployed or settings.deployed, done, {tool.name for tool in tools}
        ),
        unreadable_hooks=unreadable_hooks,
        deployed=deployed or settings.deployed,
        done=done,
        unanswered=unanswered,
        hollow=hollow,
        lasting=lasting,
        undone=_undone(settings),
        variables_taken=TAKEN.exists(),
        message=message,
        message_trouble=trouble,
    )


def _old_units(*, systemd: bool) -> list[Unit]:
    """Return the units of heat-agents with their timers; their states are known if systemd runs."""
    services = [
        unit
        for name in units.names(ROOT)
        if (unit := units.read(ROOT, name)) and _is_old(unit)
    ]
    timers = [
        timer
        for unit in services
        if (timer := units.read(ROOT, f"{unit.name[:-8]}.timer"))
    ]
    return [_with_state(unit, systemd=systemd) for unit in services + timers]


def _strays(old_units: Iterable[Unit]) -> tuple[int, ...]:
    """Return the processes of os-collect-config that are not of a unit."""
    managed = {process.pid for unit in old_units for process in collectors(unit)}
    return tuple(
        sorted(
            process.pid
            for process in _processes(COLLECTOR)
            if process.pid not in managed
        )
    )


def systemctl(*words: str, offline: bool = False) -> subprocess.CompletedProcess[str]:
    """Run systemctl; `offline` changes only files, without systemd. Raises OSError and TimeoutExpired."""
    surroundings = {
        **os.environ,
        "LC_ALL": "C",
        "SYSTEMD_PAGER": "",
        **({"SYSTEMD_OFFLINE": "1"} if offline else {}),
    }
    return subprocess.run(
        ["systemctl", *words],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        env=surroundings,
        timeout=_SECONDS,
        check=False,
    )


def collectors(unit: Unit) -> list[psutil.Process]:
    """Return the processes of os-collect-config that belong to a unit."""
    if not unit.process:
        return []
    try:
        main = psutil.Process(unit.process)
        return [
            each
            for each in (main, *main.children(recursive=True))
            if _is(each, COLLECTOR)
        ]
    except psutil.NoSuchProcess:
        return []


def commands(unit: Unit) -> list[psutil.Process]:
    """Return the commands that the os-collect-config of a unit has started and waits for."""
    children = []
    for collector in collectors(unit):
        with contextlib.suppress(psutil.NoSuchProcess):
            children += [
                child
                for child in collector.children()
                if child.status() != psutil.STATUS_ZOMBIE
            ]
    return children


def busy(old_units: Sequence[Unit]) -> str:
    """Return which of the old programs is at work now, for people; empty if none is."""
    processes = _processes(REFRESHER) or [
        process for unit in old_units for process in commands(unit)
    ]
    if processes:
        return f"{_name(processes[0])} (process {processes[0].pid}) is at work"
    return next(
        (
            f"another process holds {path}"
            for path in locks(old_units)
            if _is_locked(path)
        ),
        "",
    )


def locks(old_units: Sequence[Unit]) -> list[Path]:
    """Return the files that os-refresh-config locks."""
    words = units.words(setting(old_units, "command"))
    paths = [
        words[place + 1]
        for place, word in enumerate(words[:-1])
        if word == "--lockfile"
    ]
    paths += [
        word.partition("=")[2] for word in words if word.startswith("--lockfile=")
    ]
    return [Path(path) for path in dict.fromkeys((LOCK, *paths))]


def _environment(old_units: Iterable[Unit]) -> dict[str, str]:
    """Return the variables of the old units that configure the agent, or that runs inherit."""
    variables = {
        name: value
        for unit in old_units
        for name, value in units.variables(ROOT, unit).items()
    }
    passed = effective.environment_of_runs(variables)
    return {name: value for name, value in variables.items() if name in passed}


def _is_old(unit: Unit) -> bool:
    return unit.name == f"{COLLECTOR}.service" or any(
        units.runs(unit, each) for each in (COLLECTOR, REFRESHER)
    )


def _with_state(unit: Unit, *, systemd: bool) -> Unit:
    """Return the unit with its state, as systemctl shows it."""
    try:
        state = systemctl(
            "is-enabled", "--", unit.name, offline=not systemd
        ).stdout.strip()
        unit = replace(
            unit,
            enabled=state in ("enabled", "enabled-runtime"),
            fixed=state in ("static", "generated"),
        )
        if not systemd:
            return unit
        shown = systemctl(
            "show", "--property=ActiveState,MainPID", "--", unit.name
        ).stdout
    except (OSError, subprocess.TimeoutExpired):
        return unit  # the steps use systemctl too, and report the error
    values = dict(each.partition("=")[::2] for each in shown.splitlines())
    active = values.get("ActiveState", "") in (
        "active",
        "activating",
        "deactivating",
        "reloading",
    )
    number = values.get("MainPID", "0")
    return replace(
        unit, active=active, process=int(number) if number.isdecimal() else 0
    )


def _program(own_unit: Unit | None) -> str:
    """Return the first program of our unit that does not exist; empty if all exist."""
    words = [
        word
        for command in (own_unit.commands if own_unit else ())
        for word in command[:1]
    ]
    return next(
        (each for each in words if not shutil.which(each, path=effective.RUN_PATH)), ""
    )


def _processes(program: str) -> list[psutil.Process]:
    """Return all processes of a program, except those of containers."""
    if not Path("/proc/self").exists():  # in an image that is being built
        return []
    own = ROOT.stat()
    processes = []
    for process in psutil.process_iter():
        if not _is(process, program):
            continue
        with contextlib.suppress(OSError):
            about = Path(f"/proc/{process.pid}/root/.").stat()
            if (about.st_dev, about.st_ino) == (own.st_dev, own.st_ino):
                processes.append(process)
    return processes


def _is(process: psutil.Process, program: str) -> bool:
    """Return whether a process runs a program, which may be a Python script."""
    try:
        words = [Path(each).name for each in process.cmdline()]
    except psutil.Error:
        return False
    if words and words[0].startswith("python"):
        words = [each for each in words[1:] if not each.startswith("-")]
    return words[:1] == [program]


def _name(process: psutil.Process) -> str:
    """Return the name of a process, without its arguments, which may contain secrets."""
    for name in (REFRESHER, COLLECTOR):
        if _is(process, name):
            return name
    try:
        return process.name()
    except psutil.Error:
        return f"a command of {COLLECTOR}"


def _is_locked(path: Path) -> bool:
    """Return whether a file is locked, by /proc/locks: an attempt to lock it could fail another process's attempt."""
    try:
        about, held = path.stat(), Path("/proc/locks").read_text(encoding="utf-8")
    except OSError:
        return False
    place = f"{os.major(about.st_dev):02x}:{os.minor(about.st_dev):02x}:{about.st_ino}"
    return any(
        words[1] == "FLOCK" and words[5] == place
        for line in held.splitlines()
        if (words := line.split())[6:]
    )


def _folders(
    old_units: Iterable[Unit], variable: str, defaults: Iterable[str]
) -> tuple[Path, ...]:
    values = [units.variables(ROOT, unit).get(variable, "") for unit in old_units]
    return tuple(
        path
        for path in map(Path, dict.fromkeys((*filter(None, values), *defaults)))
        if path.is_dir()
    )


def _scripts(base: Path) -> Iterator[Path]:
    """Yield the scripts that os-refresh-config would run, and the files from which it reads variables."""
    for phase in PHASES:
        for each in _files((base / phase,)):
            if os.access(each, os.X_OK) or phase == "environment.d":
                yield each


def _files(places: Iterable[Path]) -> Iterator[Path]:
    """Yield the files among some paths, and the files in the folders among them."""
    for place in places:
        try:
            inside = sorted(place.iterdir()) if place.is_dir() else [place]
        except OSError:
            continue
        yield from (each for each in inside if each.is_file())


def _is_scheduled(path: Path) -> bool:
    """Return whether a file of cron starts one of the old programs."""
    try:
        lines = files.read(path, files.LARGEST).decode(errors="replace").splitlines()
    except OSError:
        return False
    active = [line for line in lines if not line.lstrip().startswith("#")]
    return any(name in line for line in active for name in (COLLECTOR, REFRESHER))


def setting(old_units: Iterable[Unit], name: str) -> str:
    """Return a setting of os-collect-config from its command line, or else from its file; empty if not set."""
    for unit in old_units:
        words = units.arguments(unit, COLLECTOR)
        for place, word in enumerate(words):
            if word == f"--{name}" and words[place + 1 :]:
                return words[place + 1]
            if word.startswith(f"--{name}="):
                return word.partition("=")[2]
    try:
        text = files.read(OTHERS_SETTINGS, files.LARGEST).decode(errors="replace")
    except OSError:
        return ""
    return layers.general(text).get(name, "")


def installed_tools(settings: Settings) -> tuple[tuple[Tool, ...], tuple[str, ...]]:
    """Return the installed tools, and a sentence about each hook directory that cannot be read."""
    unreadable: list[str] = []
    tools = Tools(settings.hooks, unreadable.append)
    return tuple(tools.installed().values()), tuple(unreadable)


def _deployed(
    folder: Path, ours: Collection[str]
) -> tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...], tuple[str, ...]]:
    """Return the ids that heat-agents have recorded: all, without a result, with a hollow record, and lasting ones.

    A deployment in `ours`, the agent's journal, gets its result from the agent.
    """
    try:
        names = {path.name for path in folder.iterdir()}
    except OSError:
        return (), (), (), ()
    done = sorted(
        name[:-5]
        for name in names
        if name.endswith(".json") and not name.endswith(".notify.json")
    )
    unanswered = [
        identity
        for identity in done
        if f"{identity}.notify.json" not in names and identity not in ours
    ]
    hollow = [
        identity for identity in unanswered if _is_hollow(folder / f"{identity}.json")
    ]
    lasting = [
        identity
        for identity in done
        if kept(folder / f"{identity}.json").get("group") in _LASTING
    ]
    return (
        tuple(done),
        tuple(identity for identity in unanswered if identity not in hollow),
        tuple(hollow),
        tuple(lasting),
    )


def _is_hollow(path: Path) -> bool:
    """Return whether a record is empty or truncated JSON, as after a full disk."""
    try:
        strict_json.loads(files.read(path).decode())
    except ValueError:
        return True
    except OSError:
        return False
    return False


def _absent(
    settings: Settings, folder: Path, done: Iterable[str], tools: Collection[str]
) -> dict[str, str]:
    """Return what to install for each tool of recorded and given deployments whose hook is not installed."""
    recorded = Document(
        source="deployed", content=[kept(folder / f"{each}.json") for each in done]
    )
    given = _given(settings)
    deployments = metadata.parse_all([recorded, given] if given else [recorded])[0]
    names = {name for each in deployments for name in selection.tools(each)}.difference(
        tools
    )
    return {
        name: problem
        for name in sorted(names)
        if (problem := heat_config_hooks.absent(name))
    }


def _given(settings: Settings) -> Document | None:
    """Return the document that heat-agents were given last; None if there is none."""
    path = settings.shell_config or effective.SHELL_CONFIG
    try:
        return Document(
            source="file", content=strict_json.loads(files.read(path).decode())
        )
    except (OSError, ValueError):
        return None


def _undone(settings: Settings) -> tuple[str, ...]:
    """Return the keys of deployments that heat-agents were given but skipped, and that our agent would run."""
    document = _given(settings)
    if document is None:
        return ()
    deployed = Deployed(settings.deployed, old=settings.deployed_old)
    ground = Ground(Tools(settings.hooks), deployed, settings.state)
    steps = survey([document], journal.read(settings.state), ground).steps
    new = [each.deployment for each in steps if each.verb in (Verb.RUN, Verb.ANSWER)]
    return tuple(
        each.key
        for each in new
        if each.group not in TOOLLESS and each.action != cleanup.ACTION
    )


def _message(settings: Settings, old_units: Sequence[Unit]) -> tuple[Path | None, str]:
    """Return the file of os-collect-config's last message from Zaqar if it is newer than ours, or why it is unread."""
    ways = (
        transports.level(settings.other, settings.words("collectors")).transports
        if settings.other
        else ()
    )
    if not any(each.name == "zaqar" for each in ways):
        return None, ""
    path = Path(
        setting(old_units, "cachedir") or "/var/lib/os-collect-config", "zaqar.json"
    )
    try:
        newer = path.stat().st_mtime > Documents(settings.state, change=False).at.get(
            "zaqar", 0
        )
        if not newer:
            return None, ""
        document = read_message(path)
    except FileNotFoundError:
        return None, ""
    except (OSError, ValueError) as error:
        return (
            None,
            f"cannot read {path}: {error.strerror if isinstance(error, OSError) else 'it is not JSON'}",
        )
    trouble = documents.refusal(document.source, metadata.parse(document))
    return (None, f"{path}: {trouble}") if trouble else (path, "")


def read_message(path: Path) -> Document:
    """Return the document in os-collect-config's file. Raises OSError and ValueError."""
    return Document(
        source="zaqar", content=strict_json.loads(files.read(path).decode())
    )
