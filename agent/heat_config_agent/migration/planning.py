"""What is found → what there is to say, and to do. Pure.

The order is such that at every moment one of the two is enabled: an instance that is rebooted in between comes up with
an agent. Never do both work: our unit conflicts with theirs.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator
from pathlib import Path

import heat_config_hooks
from heat_config_agent.migration import (
    COLLECTOR,
    OTHERS_SETTINGS,
    OURS,
    REFRESHER,
    TAKEN,
    Deed,
    Finding,
    Found,
    Plan,
    Step,
    Unit,
    Verdict,
    units,
)

SCRIPTS = frozenset(
    {"20-os-apply-config", "55-heat-config"}
    | {"50-heat-config-docker-cmd", "50-heat-config-docker-compose", "50-heat-config-kubelet"}
)
"""heat-agents' own scripts for os-refresh-config: the agent does what they do."""

TEMPLATES = frozenset({"etc/os-collect-config.conf", "var/run/heat-config/heat-config"})
"""heat-agents' own templates for os-apply-config."""

_OPTIONS = {"--config-file": 1, "--command": 1, "-c": 1, "--cachedir": 1, "--backup-cachedir": 1} | dict.fromkeys(
    ("--debug", "--nodebug", "-d", "--verbose", "-v", "--one-time", "--noone-time", "--force", "--use-syslog"), 0
)
"""What os-collect-config may be started with without that we miss it, and how many words belong to each."""

_SHOWN = 5
"""So many names stand in a sentence."""


def plan(found: Found, *, without_scripts: bool = False, start: bool = True) -> Plan:
    """Return what there is to say and to do.

    Without their scripts, that nobody will run those any more stands in the way of nothing. Without `start`, our unit
    is only enabled.
    """
    findings = [
        *_obstacles(found),
        *_lost(found, Verdict.WARNING if without_scripts else Verdict.REFUSED),
        *_programs(found),
        *_settings(found),
        *_hooks(found),
        *_past(found),
    ]
    theirs = [each for each in found.theirs if not each.masked]
    back = [f"systemctl disable --now {OURS}"] if found.systemd else [f"systemctl disable {OURS}"]
    now = " --now" if found.systemd else ""
    back += [shlex.join(["systemctl", "enable", *now.split(), each.name]) for each in theirs if not _is_idle(each)]
    order = [Verdict.REFUSED, Verdict.WARNING, Verdict.OK]
    findings.sort(key=lambda each: order.index(each.verdict))
    return Plan(tuple(findings), tuple(_steps(found, theirs, start=start and found.systemd)), tuple(back))


def _is_idle(unit: Unit) -> bool:
    """Whether a unit was found as this migration leaves it."""
    return not unit.enabled and not unit.active


def _refused(about: str, says: str, todo: str) -> Finding:
    return Finding(Verdict.REFUSED, about, says, todo)


def _warning(about: str, says: str, todo: str = "") -> Finding:
    return Finding(Verdict.WARNING, about, says, todo)


def _ok(about: str, says: str) -> Finding:
    return Finding(Verdict.OK, about, says)


def _obstacles(found: Found) -> Iterator[Finding]:
    """Say what stands in the way."""
    if found.ours is None:
        says = f"there is no {OURS}: nobody would carry out deployments any more"
        yield _refused("agent", says, f"install systemd/{OURS} of this agent in /etc/systemd/system")
    elif found.ours.masked:
        yield _refused("agent", f"{OURS} is masked, so it cannot be started", f"systemctl unmask {OURS}")
    elif found.program:
        says = f"{OURS} starts {found.program}, which is not to be found: nobody would carry out deployments any more"
        yield _refused(
            "agent", says, "install the agent so that it is in systemd's PATH, for example in /usr/local/bin"
        )
    for each in found.wrong:
        yield _refused("settings", each, "correct that: with it the agent does not start")
    for number in found.strays:
        says = f"process {number} is an {COLLECTOR} that no unit of systemd's has started"
        yield _refused("programs", says, "end it where it was started, and see that nobody starts it again")
    for path in found.schedules:
        says = f"{path} starts {COLLECTOR} or {REFRESHER}, which would go on carrying out deployments"
        yield _refused("programs", says, "remove that line")
    for path in found.more_settings:
        says = f"{COLLECTOR} reads {path}, and the agent does not"
        yield _refused("settings", says, f"move what it says to {OTHERS_SETTINGS}")
    for unit in found.theirs:
        unread = _unread(units.arguments(unit, COLLECTOR))
        if unread:
            says = f"{unit.name} starts {COLLECTOR} with {unread!r}, which the agent does not go by"
            yield _refused("settings", says, f"say it in {OTHERS_SETTINGS}, and start {COLLECTOR} without it")


def _unread(arguments: list[str]) -> str:
    """Return the first word on os-collect-config's command line by which we do not go, without its value."""
    words = iter(arguments)
    for word in words:
        option, sign, value = word.partition("=")
        if option not in _OPTIONS:
            return option
        if _OPTIONS[option] and not sign:
            value = next(words, "")
        if option == "--config-file" and value != OTHERS_SETTINGS:
            return f"{option} {value}"
    return ""


def _lost(found: Found, verdict: Verdict) -> Iterator[Finding]:
    """Say what of somebody's own nobody will run any more."""
    todo = f"do without it (--without-scripts), or keep {COLLECTOR} and have it run this agent in the place of "
    todo += "heat-agents' 55-heat-config"
    words = units.words(found.command)
    if words and Path(words[0]).name != REFRESHER:
        says = f"{COLLECTOR} runs a command of your own when the metadata changes: the agent will not run it"
        yield Finding(verdict, "scripts", says, todo)
    for path in found.scripts:
        if path.parent.name == "environment.d":
            says = f"{path} sets variables for the scripts of {REFRESHER}: the agent's runs will not have them"
            hint = "put those that are needed into `environment` of [agent] in /etc/heat-config-agent/agent.conf; "
            yield Finding(verdict, "scripts", says, f"{hint}then go on with --without-scripts")
        elif path.name not in SCRIPTS or path.parent.name != "configure.d":
            says = f"{path} is a script of your own for {REFRESHER}: nobody will run it any more"
            yield Finding(verdict, "scripts", says, todo)
    for path in found.templates if found.scripts else ():
        name = next((str(path.relative_to(each)) for each in found.template_folders if each in path.parents), "")
        if name not in TEMPLATES:
            says = f"{path} is a template of your own for os-apply-config: /{name} will not be made of it any more"
            yield Finding(verdict, "scripts", says, todo)


def _programs(found: Found) -> Iterator[Finding]:
    if found.busy:
        yield _warning("programs", f"{found.busy}: it is waited for before anything is done")
    if not found.theirs:
        yield _ok("programs", f"there is no unit that runs {COLLECTOR}")
    for unit in found.theirs:
        process = f" as process {unit.process}" if unit.process else ""
        how = f"runs{process}" if unit.active else "does not run"
        enabled = "masked" if unit.masked else "enabled" if unit.enabled else "not enabled"
        yield _ok("programs", f"{unit.name} {how}, and is {enabled}")
        timer = f"{unit.name.removesuffix('.service')}.timer"
        if unit.fixed and not any(each.name == timer for each in found.theirs):
            says = f"{unit.name} cannot be disabled, as it does not say when it is started"
            yield _warning("programs", says, f"systemctl mask {unit.name}, if something starts it again")
        if unit.rest:
            says = f"{unit.name} also says {', '.join(unit.rest)}, which {OURS} does not"
            yield _warning("programs", says, f"say it in a drop-in of {OURS} where it is needed")
    if not found.systemd:
        yield _warning("programs", "systemd does not run here: its units are enabled and disabled, nothing is started")
    for path in found.scripts:
        if path.name in SCRIPTS and path.parent.name == "configure.d":
            yield _ok("scripts", f"{path} is heat-agents': the agent does what it does")


def _settings(found: Found) -> Iterator[Finding]:
    other = found.given.other
    if other is None:
        yield _ok("settings", f"there is no {OTHERS_SETTINGS}: the agent finds what the instance was given by itself")
    else:
        said = [f"[{section}]" for section in other.sections if section != "agent"]
        said += sorted(other.sections.get("agent", {}))
        what = ", ".join(said) or "nothing that the agent has a use for"
        yield _ok("settings", f"{OTHERS_SETTINGS} stays, and the agent goes by it: {what}")
        if other.passed_over:
            names = ", ".join(dict.fromkeys(other.passed_over))
            yield _ok("settings", f"of no use to the agent are {names}: `heat-config-agent config` says why")
    for each in found.given.warnings:
        yield _warning("settings", each, "correct that: it is passed over")
    if found.message_trouble:
        says = f"the last message from Zaqar cannot be taken over: {found.message_trouble}"
        yield _warning("settings", says, "what it asked for and was not begun comes with the next change of the stack")


def _hooks(found: Found) -> Iterator[Finding]:
    for tool in found.tools:
        if tool.builtin:
            continue
        if tool.name in heat_config_hooks.HOOKS:
            says = f"{tool.name} goes on being carried out by {tool.hook}, in the place of the agent's own hook"
            yield _ok("hooks", f"{says}, which is used once that file is gone")
        else:
            yield _ok("hooks", f"{tool.name} goes on being carried out by {tool.hook}")
    ours = [each.name for each in found.tools if each.builtin]
    yield _ok("hooks", f"the agent's own hooks carry out {', '.join(ours) or 'nothing'}")


def _past(found: Found) -> Iterator[Finding]:
    """Say what becomes of what was done."""
    number = len(found.done)
    folder = found.deployed
    if found.undone:
        says = f"heat-agents were given {_some(found.undone)}, and have not begun it: the agent takes it on"
        marker = os.path.join(folder, f"{found.undone[0]}.json")  # noqa: PTH118  # it may be any text
        yield _warning("deployed", says, f"where that is too late: {shlex.join(['touch', marker])}")
    if not number:
        yield _ok("deployed", f"{folder} has no deployments: what is in the metadata will be run")
        return
    marked = "1 deployment is" if number == 1 else f"{number} deployments are"
    yield _ok("deployed", f"{marked} marked as done in {folder}: none of them is run again")
    if found.unanswered:
        names = [os.path.join(folder, f"{each}.json") for each in found.unanswered]  # noqa: PTH118
        says = (
            f"of {_some(found.unanswered)} heat-agents have no result: they may have been cut short, and Heat may wait"
        )
        again = f"to have one run again: {shlex.join(['rm', names[0]])}"
        yield _warning("deployed", says, "look again when nothing is at work" if found.busy else again)
    if found.lasting:
        says = f"what {_some(found.lasting)} left running is not cleaned up when its deployment goes"
        yield _warning("deployed", says, "remove its containers by hand then")


def _some(names: tuple[str, ...]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return f"{', '.join(names[:_SHOWN])}{more}"


def _steps(found: Found, theirs: list[Unit], *, start: bool) -> Iterator[Step]:
    running = [each for each in theirs if each.active]
    ours = found.ours or Unit(name=OURS, path=Path("/"))
    if running or found.busy:
        says = f"wait until nothing of {COLLECTOR} is at work, and keep it from beginning anything"
        yield Step(Deed.WAIT, COLLECTOR, says, "what it has begun would be cut short")
    taken = sorted(found.variables)
    if taken:
        says = f"hand {', '.join(taken)} on to {OURS}, in {TAKEN}"
        why = "the unit that is replaced says so, and hooks and scripts may rely on it"
        yield Step(Deed.VARIABLES, str(TAKEN), says, why, done=found.variables_taken)
    yield Step(Deed.ENABLE, OURS, f"enable {OURS}", "it is to be started at every boot", done=ours.enabled)
    for unit in theirs:
        why = "both would carry out the same deployments; it is not masked, so that one can go back"
        yield Step(Deed.DISABLE, unit.name, f"disable {unit.name}", why, done=not unit.enabled)
    for unit in sorted(theirs, key=lambda each: not each.name.endswith(".timer")):
        why = "what its deployments have started goes on" if found.systemd else "nothing runs here"
        yield Step(Deed.STOP, unit.name, f"stop {unit.name}", why, done=not unit.active)
    if found.message and not ours.active:  # then it asks the queue itself
        says = f"take over the last message from Zaqar, {found.message}"
        yield Step(Deed.MESSAGE, str(found.message), says, "it is in the queue no more")
    if start:
        why = "from now on it asks Heat, runs what is new, and signals its results"
        yield Step(Deed.START, OURS, f"start {OURS}", why, done=ours.active)
