"""The verdict about units of systemd, from the answers of `systemctl show`. Pure."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterable, Mapping

from heat_config_hooks.tools import unit_files
from heat_config_hooks.verdict import (
    Change,
    Verdict,
    drifted,
    in_effect,
    together,
    unknown,
)

PROPERTIES = (
    "LoadState",
    "LoadError",
    "NeedDaemonReload",
    "FragmentPath",
    "DropInPaths",
    "SourcePath",
    "ActiveState",
    "SubState",
    "Result",
    "Type",
    "RemainAfterExit",
    "Triggers",
)
"""The properties of a unit on which its verdict depends."""

NOT_ENABLED = {
    "disabled": "it is not enabled, so it does not start at boot",
    "enabled-runtime": "it is enabled only until the next boot",
    "linked": "it is not enabled, so it does not start at boot",
    "linked-runtime": "it is not enabled, so it does not start at boot",
}
"""Answers of `systemctl is-enabled` for a unit that does not start at boot, and what they mean."""

_OTHER = re.compile(r"^(?:Unit|Service)[ \t]*=[ \t]*(\S+)", re.MULTILINE)
"""The unit that a timer, socket or path names."""

_TRIGGERS = ("timer", "socket", "path", "automount")


def triggered(units: Mapping[str, str], shown: Iterable[Mapping[str, str]]) -> set[str]:
    """Return the units that timers, sockets and paths of a config start, by their texts and by what systemd says.

    The texts count because systemd knows nothing of a timer whose file was removed.
    """
    names = set(" ".join(unit.get("Triggers", "") for unit in shown).split())
    for name, text in units.items():
        stem, _, kind = name.rpartition(".")
        if kind not in _TRIGGERS:
            continue
        names |= set(_OTHER.findall(text)) or {
            f"{stem}.{'mount' if kind == 'automount' else 'service'}"
        }
    return names


def loaded(unit: Mapping[str, str], file: str, source: str = "") -> Change | None:
    """Return how the unit that systemd has loaded differs from its file on disk; None if it does not.

    `file` is the path of the unit file, or empty for a generated unit, which has a `source` instead.
    """
    state, name = unit.get("LoadState", ""), unit["Id"]
    if state == "masked":
        return Change(what=name, how=MASKED)
    if state == "not-found":
        how = "systemd does not have it: it has not been reloaded since the file was written"
        return Change(what=name, how=how)
    if state not in ("loaded", ""):
        error = unit.get("LoadError", "").partition(" ")[2].strip('"')
        how = f"systemd cannot load it{f': {error}' if error else ''}"
        return Change(what=name, how=how)
    if unit.get("NeedDaemonReload") == "yes":
        how = (
            "systemd has not reloaded it since one of its files was changed or removed"
        )
        return Change(what=name, how=how)
    wanted, present = (
        (source, unit.get("SourcePath", ""))
        if source
        else (file, unit.get("FragmentPath", ""))
    )
    if wanted and os.path.realpath(present) != os.path.realpath(wanted):
        how = f"systemd has it from {present or 'somewhere else'} instead of {wanted}"
        return Change(what=name, how=how)
    return None


MASKED = "it is masked, so that systemd does not start it"
"""The difference of a unit that an administrator has masked."""


def running(unit: Mapping[str, str]) -> Verdict:
    """Return whether a unit that a deployment has started is up, or has ended as it should."""
    name, active = unit["Id"], unit.get("ActiveState", "")
    sub, result = unit.get("SubState", ""), unit.get("Result", "") or "success"
    state = f"{active} ({sub})"
    if active in ("active", "reloading", "refreshing"):
        return in_effect()
    if sub.startswith("auto-restart"):
        how = f"it does not stay up: its state is {state}, its result is {result}"
        return drifted([Change(what=name, how=how)])
    if active in ("activating", "deactivating", "maintenance"):
        return unknown(f"{name} is {state}")
    if active == "failed" or result != "success":
        how = f"it failed: its state is {state}, its result is {result}"
        return drifted([Change(what=name, how=how)])
    if unit.get("Type") == "oneshot" and unit.get("RemainAfterExit") != "yes":
        return in_effect()  # it has ended well
    return drifted([Change(what=name, how=f"it is not up: its state is {state}")])


def of_units(
    shown: Iterable[Mapping[str, str]],
    *,
    files: Mapping[str, str],
    sources: Mapping[str, str],
    differing: Collection[str],
    expected: Collection[str],
) -> Verdict:
    """Return the verdict about what systemd has loaded, and the states of the units that are `expected` to be up.

    `files` and `sources` are the paths of the unit files, or of the files that units are generated from, by unit.
    Units in `differing` have differing files, so it is not reported as well that systemd has loaded something else.
    """
    parts = []
    for unit in shown:
        name = unit["Id"]
        change = loaded(unit, files.get(name, ""), sources.get(name, ""))
        if change is not None and (name not in differing):
            parts.append(drifted([change]))
        absent = unit.get("LoadState") in ("masked", "not-found")
        if name in expected and not (
            absent and unit.get("ActiveState") == "inactive" and change
        ):
            parts.append(running(unit))
    return together(parts)


def of_files(verdict: Verdict, masks: Collection[str]) -> Verdict:
    """Return the verdict about unit files, where the links that mask a unit are called by their name."""
    if not verdict.changes:
        return verdict
    return drifted(
        Change(what=change.what, how=MASKED) if change.what in masks else change
        for change in verdict.changes
    )


def units_of(verdict: Verdict, folder: str) -> set[str]:
    """Return the units whose files differ."""
    prefix = f"{folder.rstrip('/')}/"
    return {
        unit_files.unit_of(change.what.removeprefix(prefix))
        for change in verdict.changes
        if change.what.startswith(prefix)
    }
