"""What there is on the machine of the programs that are replaced. Nothing is changed."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import psutil

from heat_config_agent import apply, configuration, documents, journal, metadata, plan, settings, transports
from heat_config_agent.deployed import Deployed, kept
from heat_config_agent.documents import Documents
from heat_config_agent.migration import COLLECTOR, OTHERS_SETTINGS, OURS, REFRESHER, TAKEN, Found, Unit, units
from heat_config_agent.model import TOOLLESS, Document, Tool
from heat_config_agent.plan import Verb
from heat_config_agent.settings import Settings
from heat_config_agent.tools import Tools
from heat_config_hooks import files, strict_json
from heat_config_hooks.values import replace

ROOT = Path("/")

LOCK = "/var/run/os-refresh-config.lock"
"""What os-refresh-config holds while it is at work."""

REFRESH_FOLDERS = ("/usr/libexec/os-refresh-config", "/opt/stack/os-config-refresh")
PHASES = ("pre-configure.d", "configure.d", "post-configure.d", "migration.d", "error.d", "environment.d")
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
"""Where oslo.config looks for settings, too: before /etc."""

_LASTING = frozenset({"docker-cmd", "docker-compose", "kubelet"})

_SECONDS = 120
"""How long systemctl may take: longer than systemd gives a service to end."""


def look() -> Found:
    """Look at the machine."""
    theirs = [unit for name in units.names(ROOT) if (unit := units.read(ROOT, name)) and _is_theirs(unit)]
    systemd = Path("/run/systemd/system").is_dir()
    theirs += [timer for each in theirs if (timer := units.read(ROOT, f"{each.name[:-8]}.timer"))]
    theirs = [_asked(each, systemd=systemd) for each in theirs]
    ours = units.read(ROOT, OURS)
    wrong: list[str] = []
    variables = _environment(theirs)
    own = units.variables(ROOT, ours) if ours else {}
    given = settings.make({**variables, **own}, wrong=wrong)
    known = {each.pid for unit in theirs for each in collectors(unit)}
    deployed = next((each for each in (given.deployed, given.deployed_old) if each and each.is_dir()), None)
    done, unanswered, lasting = _deployed(deployed or given.deployed)
    message, trouble = _message(given, theirs)
    bases = _folders(theirs, "OS_REFRESH_CONFIG_BASE_DIR", REFRESH_FOLDERS)
    template_folders = _folders(theirs, "OS_CONFIG_APPLIER_TEMPLATES", TEMPLATE_FOLDERS)
    return Found(
        given=given,
        wrong=tuple(wrong),
        systemd=systemd,
        theirs=tuple(theirs),
        variables=variables,
        ours=_asked(ours, systemd=systemd) if ours else None,
        program=_program(ours),
        strays=tuple(sorted(each.pid for each in _processes(COLLECTOR) if each.pid not in known)),
        busy=busy(theirs),
        more_settings=tuple(_files((*map(Path, _MORE_SETTINGS), Path(f"{OTHERS_SETTINGS}.d")))),
        command=said(theirs, "command"),
        scripts=tuple(each for base in bases for each in _scripts(base)),
        templates=tuple(each for folder in template_folders for each in sorted(folder.rglob("*")) if each.is_file()),
        template_folders=template_folders,
        schedules=tuple(each for each in _files(map(Path, _CRON)) if _is_scheduled(each)),
        tools=_tools(given),
        deployed=deployed or given.deployed,
        done=done,
        unanswered=unanswered,
        lasting=lasting,
        undone=_undone(given),
        variables_taken=TAKEN.exists(),
        message=message,
        message_trouble=trouble,
    )


def systemctl(*words: str, offline: bool = False) -> subprocess.CompletedProcess[str]:
    """Ask systemd, or have done to its files what can be done without it. Raises OSError and TimeoutExpired."""
    surroundings = {**os.environ, "LC_ALL": "C", "SYSTEMD_PAGER": "", **({"SYSTEMD_OFFLINE": "1"} if offline else {})}
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
        return [each for each in (main, *main.children(recursive=True)) if _is(each, COLLECTOR)]
    except psutil.NoSuchProcess:
        return []


def commands(unit: Unit) -> list[psutil.Process]:
    """Return what the os-collect-config of a unit has started and waits for."""
    found = []
    for each in collectors(unit):
        with contextlib.suppress(psutil.NoSuchProcess):
            found += [child for child in each.children() if child.status() != psutil.STATUS_ZOMBIE]
    return found


def busy(theirs: Sequence[Unit]) -> str:
    """Return what of theirs is at work now, in words; empty where nothing is."""
    found = _processes(REFRESHER) or [each for unit in theirs for each in commands(unit)]
    if found:
        return f"{_name(found[0])} (process {found[0].pid}) is at work"
    return next((f"somebody holds {each}" for each in locks(theirs) if _is_locked(each)), "")


def locks(theirs: Sequence[Unit]) -> list[Path]:
    """Return the files that os-refresh-config locks."""
    words = units.words(said(theirs, "command"))
    named = [words[place + 1] for place, word in enumerate(words[:-1]) if word == "--lockfile"]
    named += [word.partition("=")[2] for word in words if word.startswith("--lockfile=")]
    return [Path(each) for each in dict.fromkeys((LOCK, *named))]


def _environment(theirs: Iterable[Unit]) -> dict[str, str]:
    """Return of what their units add to the environment what steers the agent, and what runs are given."""
    found = {name: value for each in theirs for name, value in units.variables(ROOT, each).items()}
    passed = settings.run_environment(found)
    return {name: value for name, value in found.items() if name in passed}


def _is_theirs(unit: Unit) -> bool:
    return unit.name == f"{COLLECTOR}.service" or any(units.runs(unit, each) for each in (COLLECTOR, REFRESHER))


def _asked(unit: Unit, *, systemd: bool) -> Unit:
    """Return the unit, with how it is with it."""
    try:
        state = systemctl("is-enabled", "--", unit.name, offline=not systemd).stdout.strip()
        unit = replace(unit, enabled=state in ("enabled", "enabled-runtime"), fixed=state in ("static", "generated"))
        if not systemd:
            return unit
        shown = systemctl("show", "--property=ActiveState,MainPID", "--", unit.name).stdout
    except (OSError, subprocess.TimeoutExpired):
        return unit  # then nothing can be done about it either, which says why
    values = dict(each.partition("=")[::2] for each in shown.splitlines())
    active = values.get("ActiveState", "") in ("active", "activating", "deactivating", "reloading")
    number = values.get("MainPID", "0")
    return replace(unit, active=active, process=int(number) if number.isdecimal() else 0)


def _program(ours: Unit | None) -> str:
    """Return the program of our unit where it is not to be found."""
    words = [word for command in (ours.commands if ours else ()) for word in command[:1]]
    return next((each for each in words if not shutil.which(each, path=settings.PATH)), "")


def _processes(program: str) -> list[psutil.Process]:
    """Return all processes of a program, but not those of containers."""
    if not Path("/proc/self").exists():  # in an image that is being made
        return []
    own = ROOT.stat()
    found = []
    for each in psutil.process_iter():
        if not _is(each, program):
            continue
        with contextlib.suppress(OSError):
            about = Path(f"/proc/{each.pid}/root/.").stat()
            if (about.st_dev, about.st_ino) == (own.st_dev, own.st_ino):
                found.append(each)
    return found


def _is(process: psutil.Process, program: str) -> bool:
    """Whether a process runs a program, which may be a script of Python's."""
    try:
        words = [Path(each).name for each in process.cmdline()]
    except psutil.Error:
        return False
    if words and words[0].startswith("python"):
        words = [each for each in words[1:] if not each.startswith("-")]
    return words[:1] == [program]


def _name(process: psutil.Process) -> str:
    """Return what a process is: its own name, as its arguments may hold secrets."""
    for name in (REFRESHER, COLLECTOR):
        if _is(process, name):
            return name
    try:
        return process.name()
    except psutil.Error:
        return "something of theirs"


def _is_locked(path: Path) -> bool:
    """Whether a file is locked; to try would be in the way of who wants to lock it in this moment."""
    try:
        about, held = path.stat(), Path("/proc/locks").read_text()
    except OSError:
        return False
    place = f"{os.major(about.st_dev):02x}:{os.minor(about.st_dev):02x}:{about.st_ino}"
    return any(words[1] == "FLOCK" and words[5] == place for line in held.splitlines() if (words := line.split())[6:])


def _folders(theirs: Iterable[Unit], variable: str, usual: Iterable[str]) -> tuple[Path, ...]:
    named = [units.variables(ROOT, each).get(variable, "") for each in theirs]
    return tuple(each for each in map(Path, dict.fromkeys((*filter(None, named), *usual))) if each.is_dir())


def _scripts(base: Path) -> Iterator[Path]:
    """Yield what os-refresh-config would run, and what is read before that."""
    for phase in PHASES:
        for each in _files((base / phase,)):
            if os.access(each, os.X_OK) or phase == "environment.d":
                yield each


def _files(places: Iterable[Path]) -> Iterator[Path]:
    """Yield the files that are in folders, and those that are named."""
    for place in places:
        try:
            inside = sorted(place.iterdir()) if place.is_dir() else [place]
        except OSError:
            continue
        yield from (each for each in inside if each.is_file())


def _is_scheduled(path: Path) -> bool:
    """Whether a file of cron starts one of their programs."""
    try:
        lines = path.read_text(errors="replace").splitlines()
    except OSError:
        return False
    said = [each for each in lines if not each.lstrip().startswith("#")]
    return any(name in each for each in said for name in (COLLECTOR, REFRESHER))


def said(theirs: Iterable[Unit], name: str) -> str:
    """Return a setting of os-collect-config's own: of its command line, else of its file."""
    for each in theirs:
        words = units.arguments(each, COLLECTOR)
        for place, word in enumerate(words):
            if word == f"--{name}" and words[place + 1 :]:
                return words[place + 1]
            if word.startswith(f"--{name}="):
                return word.partition("=")[2]
    try:
        text = Path(OTHERS_SETTINGS).read_text(errors="replace")
    except OSError:
        return ""
    return configuration.general(text).get(name, "")


def _tools(given: Settings) -> tuple[Tool, ...]:
    tools = Tools(given.hooks)
    return tuple(tool for name in tools.installed() if (tool := tools.find(name)) and tool.name == name)


def _deployed(folder: Path) -> tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]:
    """Return what heat-agents have noted: what was done, what of that has no result, and what of that goes on."""
    try:
        names = {each.name for each in folder.iterdir()}
    except OSError:
        return (), (), ()
    done = sorted(each[:-5] for each in names if each.endswith(".json") and not each.endswith(".notify.json"))
    unanswered = [each for each in done if f"{each}.notify.json" not in names]
    lasting = [each for each in done if kept(folder / f"{each}.json").get("group") in _LASTING]
    return tuple(done), tuple(unanswered), tuple(lasting)


def _undone(given: Settings) -> tuple[str, ...]:
    """Return which deployments heat-agents were given and have passed over, and our agent would not."""
    path = given.shell_config or settings.SHELL_CONFIG
    try:
        document = Document(source="file", content=strict_json.loads(files.read(path).decode()))
    except (OSError, ValueError):
        return ()
    deployed = Deployed(given.deployed, old=given.deployed_old)
    ready = apply.known(journal.read(given.state), Tools(given.hooks), deployed, given.state)
    steps = plan.make(metadata.parse(document).deployments, ready)
    new = [each.deployment for each in steps if each.verb in (Verb.RUN, Verb.ANSWER)]
    return tuple(each.key for each in new if each.group not in TOOLLESS)


def _message(given: Settings, theirs: Sequence[Unit]) -> tuple[Path | None, str]:
    """Return the last message from Zaqar that os-collect-config has kept, if it is newer than what we have."""
    ways = transports.level(given.other, given.words("collectors")).ways if given.other else ()
    if not any(each.transport == "zaqar" for each in ways):
        return None, ""
    path = Path(said(theirs, "cachedir") or "/var/lib/os-collect-config", "zaqar.json")
    try:
        newer = path.stat().st_mtime > Documents(given.state, change=False).at.get("zaqar", 0)
        if not newer:
            return None, ""
        document = read_message(path)
    except FileNotFoundError:
        return None, ""
    except (OSError, ValueError) as error:
        return None, f"cannot read {path}: {error.strerror if isinstance(error, OSError) else 'it is no JSON'}"
    trouble = documents.refusal(document)
    return (None, f"{path}: {trouble}") if trouble else (path, "")


def read_message(path: Path) -> Document:
    """Return the document that os-collect-config has kept. Raises OSError and ValueError."""
    return Document(source="zaqar", content=strict_json.loads(files.read(path).decode()))
