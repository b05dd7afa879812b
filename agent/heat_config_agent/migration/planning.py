"""The plan of a migration: from the inventory to findings and steps. Pure.

At every moment of the steps one of the two programs is enabled, so an instance that is rebooted in between starts with
an agent. The two never work at the same time, because our unit conflicts with the old one.
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
    Inventory,
    Plan,
    Step,
    Unit,
    Verdict,
    units,
)

SCRIPTS = frozenset(
    {"20-os-apply-config", "55-heat-config"}
    | {
        "50-heat-config-docker-cmd",
        "50-heat-config-docker-compose",
        "50-heat-config-kubelet",
    }
)
"""heat-agents' own scripts for os-refresh-config, which the agent replaces."""

TEMPLATES = frozenset({"etc/os-collect-config.conf", "var/run/heat-config/heat-config"})
"""heat-agents' own templates for os-apply-config."""

_OPTIONS = {
    "--config-file": 1,
    "--command": 1,
    "-c": 1,
    "--cachedir": 1,
    "--backup-cachedir": 1,
} | dict.fromkeys(
    (
        "--debug",
        "--nodebug",
        "-d",
        "--verbose",
        "-v",
        "--one-time",
        "--noone-time",
        "--force",
        "--use-syslog",
    ),
    0,
)
"""Options of os-collect-config that the agent may ignore or reads elsewhere, with the number of their values."""

_SHOWN = 5
"""Number of names that a sentence lists."""


def plan(
    inventory: Inventory, *, without_scripts: bool = False, start: bool = True
) -> Plan:
    """Return the findings and the steps.

    With `without_scripts`, scripts that will no longer run do not forbid the migration. Without `start`, our unit is
    only enabled.
    """
    findings = [
        *_obstacles(inventory),
        *_lost(inventory, Verdict.WARNING if without_scripts else Verdict.REFUSED),
        *_programs(inventory),
        *_settings(inventory),
        *_hooks(inventory),
        *_past(inventory),
    ]
    old_units = [unit for unit in inventory.old_units if not unit.masked]
    back = (
        [f"systemctl disable --now {OURS}"]
        if inventory.systemd
        else [f"systemctl disable {OURS}"]
    )
    now = " --now" if inventory.systemd else ""
    back += [
        shlex.join(["systemctl", "enable", *now.split(), unit.name])
        for unit in old_units
        if not _is_idle(unit)
    ]
    order = [Verdict.REFUSED, Verdict.WARNING, Verdict.OK]
    findings.sort(key=lambda finding: order.index(finding.verdict))
    return Plan(
        tuple(findings),
        tuple(_steps(inventory, old_units, start=start and inventory.systemd)),
        tuple(back),
    )


def _is_idle(unit: Unit) -> bool:
    """Return whether a unit is in the state in which the migration leaves it."""
    return not unit.enabled and not unit.active


def _refused(about: str, text: str, todo: str) -> Finding:
    return Finding(Verdict.REFUSED, about, text, todo)


def _warning(about: str, text: str, todo: str = "") -> Finding:
    return Finding(Verdict.WARNING, about, text, todo)


def _ok(about: str, text: str) -> Finding:
    return Finding(Verdict.OK, about, text)


def _obstacles(inventory: Inventory) -> Iterator[Finding]:
    """Yield the findings that forbid the migration."""
    if inventory.own_unit is None:
        text = f"there is no {OURS}: deployments would no longer be carried out"
        yield _refused(
            "agent",
            text,
            f"install systemd/{OURS} of this agent in /etc/systemd/system",
        )
    elif inventory.own_unit.masked:
        yield _refused(
            "agent",
            f"{OURS} is masked, so it cannot be started",
            f"systemctl unmask {OURS}",
        )
    elif inventory.program:
        text = f"{OURS} starts {inventory.program}, which does not exist: deployments would no longer be carried out"
        yield _refused(
            "agent",
            text,
            "install the agent in systemd's PATH, for example in /usr/local/bin",
        )
    for mistake in inventory.mistakes:
        yield _refused(
            "settings",
            mistake,
            "correct it: the agent does not start with this mistake",
        )
    for number in inventory.strays:
        text = (
            f"process {number} is an {COLLECTOR} that was not started by a systemd unit"
        )
        yield _refused(
            "programs",
            text,
            "end it where it was started, and make sure that nothing starts it again",
        )
    for path in inventory.schedules:
        text = f"{path} starts {COLLECTOR} or {REFRESHER}, which would continue to carry out deployments"
        yield _refused("programs", text, "remove that line")
    for path in inventory.more_settings:
        text = f"{COLLECTOR} reads {path}, but the agent does not"
        yield _refused("settings", text, f"move its settings to {OTHERS_SETTINGS}")
    for unit in inventory.old_units:
        unread = _unread(units.arguments(unit, COLLECTOR))
        if unread:
            text = f"{unit.name} starts {COLLECTOR} with {unread!r}, which the agent does not read"
            yield _refused(
                "settings",
                text,
                f"set it in {OTHERS_SETTINGS}, and start {COLLECTOR} without it",
            )


def _unread(arguments: list[str]) -> str:
    """Return the first option on os-collect-config's command line that the agent does not read; empty if none."""
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


def _lost(inventory: Inventory, verdict: Verdict) -> Iterator[Finding]:
    """Yield the operator's own commands, scripts and templates that will no longer run."""
    todo = f"continue without it (--without-scripts), or keep {COLLECTOR} and let it run this agent instead of "
    todo += "heat-agents' 55-heat-config"
    words = units.words(inventory.command)
    if words and Path(words[0]).name != REFRESHER:
        text = f"{COLLECTOR} runs a command of your own when the metadata changes: the agent will not run it"
        yield Finding(verdict, "scripts", text, todo)
    for path in inventory.scripts:
        if path.parent.name == "environment.d":
            text = f"{path} sets variables for the scripts of {REFRESHER}: the agent's runs will not have them"
            hint = "put the variables you need into `environment` of [agent] in /etc/heat-config-agent/agent.conf, "
            yield Finding(
                verdict, "scripts", text, f"{hint}then continue with --without-scripts"
            )
        elif path.name not in SCRIPTS or path.parent.name != "configure.d":
            text = (
                f"{path} is a script of your own for {REFRESHER}: it will no longer run"
            )
            yield Finding(verdict, "scripts", text, todo)
    for path in inventory.templates if inventory.scripts else ():
        name = next(
            (
                str(path.relative_to(each))
                for each in inventory.template_folders
                if each in path.parents
            ),
            "",
        )
        if name not in TEMPLATES:
            text = f"{path} is a template of your own for os-apply-config: /{name} will no longer be generated from it"
            yield Finding(verdict, "scripts", text, todo)


def _programs(inventory: Inventory) -> Iterator[Finding]:
    """Yield the state of the old programs and their units."""
    if inventory.busy:
        yield _warning(
            "programs",
            f"{inventory.busy}: the migration waits for it before the first step",
        )
    if not inventory.old_units:
        yield _ok("programs", f"there is no unit that runs {COLLECTOR}")
    for unit in inventory.old_units:
        process = f" as process {unit.process}" if unit.process else ""
        how = f"runs{process}" if unit.active else "does not run"
        enabled = (
            "masked" if unit.masked else "enabled" if unit.enabled else "not enabled"
        )
        yield _ok("programs", f"{unit.name} {how}, and is {enabled}")
        timer = f"{unit.name.removesuffix('.service')}.timer"
        if unit.fixed and not any(each.name == timer for each in inventory.old_units):
            text = (
                f"{unit.name} cannot be disabled, because it has no [Install] section"
            )
            yield _warning(
                "programs",
                text,
                f"systemctl mask {unit.name}, if something starts it again",
            )
        if unit.rest:
            text = (
                f"{unit.name} also sets {', '.join(unit.rest)}, which {OURS} does not"
            )
            yield _warning(
                "programs", text, f"set it in a drop-in of {OURS} if it is needed"
            )
    if not inventory.systemd:
        yield _warning(
            "programs",
            "systemd does not run here: units are enabled and disabled, but not started",
        )
    for path in inventory.scripts:
        if path.name in SCRIPTS and path.parent.name == "configure.d":
            yield _ok(
                "scripts", f"{path} is part of heat-agents: the agent replaces it"
            )


def _settings(inventory: Inventory) -> Iterator[Finding]:
    """Yield how the agent uses the settings of os-collect-config."""
    other = inventory.settings.other
    if other is None:
        yield _ok(
            "settings",
            f"there is no {OTHERS_SETTINGS}: the agent finds Heat in the instance's own data",
        )
    else:
        used = [f"[{section}]" for section in other.sections if section != "agent"]
        used += sorted(other.sections.get("agent", {}))
        names = ", ".join(used) or "none of its settings"
        yield _ok(
            "settings", f"{OTHERS_SETTINGS} stays, and the agent uses it: {names}"
        )
        if other.ignored:
            names = ", ".join(dict.fromkeys(other.ignored))
            yield _ok(
                "settings",
                f"the agent does not use {names}: `heat-config-agent config` says why",
            )
    for mistake in inventory.settings.warnings:
        yield _warning("settings", mistake, "correct it: it is ignored")
    if inventory.message_trouble:
        text = f"the last message from Zaqar cannot be taken over: {inventory.message_trouble}"
        yield _warning(
            "settings",
            text,
            "deployments in it that have not begun come with the next change of the stack",
        )


def _hooks(inventory: Inventory) -> Iterator[Finding]:
    """Yield which hooks carry out which tools."""
    for sentence in inventory.unreadable_hooks:
        yield _warning(
            "hooks", sentence, "make it readable, and plan the migration again"
        )
    for folder in dict.fromkeys(
        os.path.dirname(tool.hook)  # noqa: PTH120
        for tool in inventory.tools
        if not tool.builtin
    ):
        here = [
            tool.name
            for tool in inventory.tools
            if not tool.builtin and os.path.dirname(tool.hook) == folder  # noqa: PTH120
        ]
        if over := [name for name in here if name in heat_config_hooks.HOOKS]:
            text = f"hooks in {folder} stay in use, and override the agent's own: {', '.join(over)}"
            yield _ok(
                "hooks", f"{text}; the agent's own is used when the file is removed"
            )
        if more := [name for name in here if name not in heat_config_hooks.HOOKS]:
            yield _ok("hooks", f"hooks in {folder} stay in use: {', '.join(more)}")
    for name, problem in inventory.absent.items():
        yield _warning("hooks", f"deployments here use {name}: {problem}")
    builtin = [each.name for each in inventory.tools if each.builtin]
    yield _ok(
        "hooks", f"the agent has its own hooks for {', '.join(builtin) or 'no tool'}"
    )


def _past(inventory: Inventory) -> Iterator[Finding]:
    """Yield the actions about deployments that heat-agents have recorded."""
    number = len(inventory.done) - len(inventory.unanswered) - len(inventory.hollow)
    folder = inventory.deployed
    if inventory.undone:
        text = f"heat-agents were given {_some(inventory.undone)}, but have not begun: the agent runs it"
        marker = os.path.join(folder, f"{inventory.undone[0]}.json")  # noqa: PTH118  # it may be any text
        yield _warning(
            "deployed", text, f"if that is too late: {shlex.join(['touch', marker])}"
        )
    if not inventory.done:
        yield _ok(
            "deployed",
            f"{folder} has no deployments: every deployment in the metadata will run",
        )
        return
    marked = "1 deployment is" if number == 1 else f"{number} deployments are"
    if number:
        yield _ok(
            "deployed", f"{marked} recorded as done in {folder}, and will not run again"
        )
    if inventory.unanswered:
        names = [
            os.path.join(folder, f"{identity}.json")  # noqa: PTH118
            for identity in inventory.unanswered
        ]
        text = (
            f"heat-agents recorded no result for {_some(inventory.unanswered)}: it may have been cut short, "
            "and Heat may be waiting"
        )
        again = f"to run one again: {shlex.join(['rm', names[0]])}"
        yield _warning(
            "deployed",
            text,
            "check again when the old programs are idle" if inventory.busy else again,
        )
    if inventory.hollow:
        marks = [
            os.path.join(folder, f"{identity}.json")  # noqa: PTH118
            for identity in inventory.hollow
        ]
        text = (
            f"the record of {_some(inventory.hollow)} is empty or truncated, and there is no result: if heat-agents "
            "wrote it on a full disk, nothing ran and Heat is waiting; the agent cannot know, and does not run it"
        )
        yield _warning(
            "deployed",
            text,
            f"to run it, unless you made the record: {shlex.join(['rm', *marks])}",
        )
    if inventory.lasting:
        text = f"containers of {_some(inventory.lasting)} will not be cleaned up when the deployment is removed"
        yield _warning("deployed", text, "remove them by hand then")


def _some(names: tuple[str, ...]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return f"{', '.join(names[:_SHOWN])}{more}"


def _steps(
    inventory: Inventory, old_units: list[Unit], *, start: bool
) -> Iterator[Step]:
    running = [unit for unit in old_units if unit.active]
    ours = inventory.own_unit or Unit(name=OURS, path=Path("/"))
    if running or inventory.busy:
        text = (
            f"wait until {COLLECTOR} runs nothing, and keep it from beginning anything"
        )
        yield Step(
            Deed.WAIT,
            COLLECTOR,
            text,
            "otherwise its running deployments would be cut short",
        )
    taken = sorted(inventory.variables)
    if taken:
        text = f"pass {', '.join(taken)} on to {OURS}, in {TAKEN}"
        why = "the old unit sets variables on which hooks and scripts may rely"
        yield Step(
            Deed.VARIABLES, str(TAKEN), text, why, done=inventory.variables_taken
        )
    yield Step(
        Deed.ENABLE,
        OURS,
        f"enable {OURS}",
        "it has to start at every boot",
        done=ours.enabled,
    )
    for unit in old_units:
        why = "both would carry out the same deployments; it is not masked, so you can go back"
        yield Step(
            Deed.DISABLE, unit.name, f"disable {unit.name}", why, done=not unit.enabled
        )
    for unit in sorted(old_units, key=lambda unit: not unit.name.endswith(".timer")):
        why = (
            "processes that its deployments have started continue"
            if inventory.systemd
            else "nothing runs here"
        )
        yield Step(Deed.STOP, unit.name, f"stop {unit.name}", why, done=not unit.active)
    if inventory.message and not ours.active:  # a running agent asks the queue itself
        text = f"take over the last message from Zaqar, {inventory.message}"
        yield Step(
            Deed.MESSAGE, str(inventory.message), text, "it is no longer in the queue"
        )
    if start:
        why = (
            "from now on it polls Heat, runs new deployments, and signals their results"
        )
        yield Step(Deed.START, OURS, f"start {OURS}", why, done=ours.active)
