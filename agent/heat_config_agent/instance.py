"""Who this instance is, so that what was learned on one is not taken for true on a copy of its disk."""

from __future__ import annotations

import contextlib
import json
import os
import re
import time
from collections.abc import Mapping
from pathlib import Path

from heat_config_agent import kill_points
from heat_config_agent.errors import StateError
from heat_config_hooks import files
from heat_config_hooks.values import dataclass

KINDS = ("cloud-init", "dmi")
"""What can name an instance; of two that say different things, the first one counts."""

FILE = "instance.json"

_ASIDE = "of-"
_STAYS = frozenset({"lock", FILE, f".{FILE}.new"})
_NOBODY = frozenset({"iid-datasource-none", "iid-datasource", "nocloud", "none", "null"})
"""What cloud-init calls an instance of which it knows nothing: every copy has that id."""

_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_FAKE = frozenset({"03000200-0400-0500-0006-000700080009"})
"""What makers of boards leave in all of them."""

_CONTAINER = ("run/systemd/container", "run/.containerenv", ".dockerenv")
"""There where we are in a container."""


def identity(root: Path = Path("/")) -> dict[str, str]:
    """Return what names this instance: kind → id, as far as it can be known now.

    - `cloud-init`: the instance's id from wherever its data came. cloud-init writes it to /run and to /var/lib at every
      boot in which it runs. What is in /run is of this boot. What is in /var/lib may have come with a copied disk,
      until cloud-init has been there: it counts only if it was written in this boot.
    - `dmi`: the machine's uuid; OpenStack's libvirt puts the instance's there. Only root can read it. In a container it
      is the host's, which changes when the container moves, so there it does not count.
    """
    found = {"cloud-init": _cloud_init(root), "dmi": _dmi(root)}
    return {kind: value for kind, value in found.items() if value}


def set_aside(state: Path, found: Mapping[str, str], deployed: Path | None = None) -> str:
    """Move away the state of another instance; return what was done, in words, empty where nothing was.

    The caller holds the lock, and has nothing open in the state directory. Nothing is deleted: all but the lock is
    moved to `STATE/of-ID/`, with the ID of the instance that it is of; so is heat-agents' folder `deployed`, which says
    what was run there. What was cut short, at whatever moment, the next call ends. Raises StateError.
    """
    try:
        known, said = _read(state)
        if not known.leaving:
            kind = next((each for each in KINDS if each in known.ids and each in found), "")
            if not kind or known.ids[kind] == found[kind]:
                ids = {**known.ids, **found}
                return said if ids == known.ids else _recorded(state, ids, said)
            known = _Known(known.ids, _free(state, f"{_ASIDE}{_safe(known.ids[kind])}"), kind)
            _write(state, known)  # from here on it is certain where all goes, whatever happens in between
            kill_points.reached("instance.leaving")
        aside = state / known.leaving
        files.make_directory(aside, durable=True)
        for path in sorted(state.iterdir()):
            if path.name not in _STAYS and not path.name.startswith(_ASIDE):
                path.rename(aside / _free(aside, path.name))
                kill_points.reached("instance.moved")
        if deployed is not None and deployed.is_dir():
            import shutil  # noqa: PLC0415  # for copies alone

            shutil.move(deployed, aside / _free(aside, deployed.name))  # perhaps from another file system
        files.sync_directory(aside)
        files.sync_directory(state)
        _write(state, _Known(dict(found)))
        kill_points.reached("instance.left")
    except OSError as error:
        raise StateError(
            f"cannot make sure that what is in {state} is of this instance: {error.strerror}: {error.filename}"
        ) from error
    whose = f"{known.kind} {known.ids.get(known.kind, '')}".strip()
    now = f", and this is {found[known.kind]}" if known.kind in found else ""
    moved = f"what is in {state} was of another instance ({whose}{now}): it is set aside in {aside}"
    return f"{said}; {moved}" if said else moved


def _recorded(state: Path, ids: Mapping[str, str], said: str) -> str:
    """Record whose the state is; where that cannot be done, as on a full disk, the next start may."""
    try:
        _write(state, _Known(ids))
        kill_points.reached("instance.known")
    except OSError as error:
        trouble = f"cannot record in {state / FILE} whose the state is: {error.strerror}"
        return f"{said}; {trouble}" if said else trouble
    return said


@dataclass(frozen=True)
class _Known:
    """What `instance.json` says."""

    ids: Mapping[str, str]
    """Kind → id of the instance whose state it is."""
    leaving: str = ""
    """The folder to which that is being moved."""
    kind: str = ""
    """Which id told that it is another's."""


def _read(state: Path) -> tuple[_Known, str]:
    """Return what is known, and what is to be said of that. A file that cannot be understood is set aside."""
    path = state / FILE
    try:
        value = json.loads(files.read(path))
        known = _Known(value["identity"], value.get("leaving", ""), value.get("kind", ""))
        _check(known)
    except FileNotFoundError:
        return _Known({}), ""
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        aside = path.with_name(f"{FILE}.corrupt-{time.time_ns()}")
        path.rename(aside)
        return _Known({}), f"cannot read {path}, which says whose the state is: it is set aside as {aside.name}"
    return known, ""


def _check(known: _Known) -> None:
    """Raise ValueError where it is not what we write."""
    ids = known.ids
    if not isinstance(ids, dict) or not all(
        isinstance(each, str) for each in (*ids.values(), known.leaving, known.kind)
    ):
        raise ValueError
    if known.leaving and (not known.leaving.startswith(_ASIDE) or "/" in known.leaving or "\0" in known.leaving):
        raise ValueError


def _write(state: Path, known: _Known) -> None:
    value: dict[str, object] = {"identity": dict(known.ids)}
    if known.leaving:
        value |= {"leaving": known.leaving, "kind": known.kind}
    files.replace(state / FILE, json.dumps(value).encode(), durable=True)


def _free(folder: Path, name: str) -> str:
    """Return the name, or the first with a number behind it that nothing has yet."""
    candidate, number = name, 1
    while os.path.lexists(folder / candidate):
        number += 1
        candidate = f"{name}-{number}"
    return candidate


def _safe(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9._-]", "_", name)[:100]


def _cloud_init(root: Path) -> str:
    for path, always in (
        (root / "run/cloud-init/.instance-id", True),
        (root / "var/lib/cloud/data/instance-id", False),
    ):
        with contextlib.suppress(OSError):
            if always or path.stat().st_mtime >= _booted():
                words = path.read_text(encoding="utf-8", errors="replace").split()
                if len(words) == 1 and words[0].lower() not in _NOBODY:
                    return words[0]
    return ""


def _booted() -> float:
    """Return when the machine was booted, by the clock as it is now; where that was wrong then, a later moment."""
    return time.time() - time.clock_gettime(time.CLOCK_BOOTTIME)


def _dmi(root: Path) -> str:
    """Return the machine's uuid, in small letters: kernels differ in that."""
    if any((root / each).exists() for each in _CONTAINER):
        return ""
    try:
        found = (root / "sys/class/dmi/id/product_uuid").read_text(encoding="ascii", errors="replace").strip().lower()
    except OSError:
        return ""
    real = _UUID.fullmatch(found) and len(set(found)) > 2 and found not in _FAKE
    return found if real else ""
