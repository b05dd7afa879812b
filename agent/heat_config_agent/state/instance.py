"""The identity of this instance, so that the state on a copied disk does not pass for that of the new instance."""

from __future__ import annotations

import contextlib
import json
import os
import re
import time
from collections.abc import Mapping
from pathlib import Path

from heat_config_agent.model.errors import StateError
from heat_config_hooks import files
from heat_config_hooks.values import dataclass

KINDS = ("cloud-init", "dmi")
"""The kinds of ids of an instance. If two disagree, the first one counts, but see `_is_renamed`."""

FILE = "instance.json"

_ASIDE = "of-"
_STAYS = frozenset({"lock", FILE, f".{FILE}.new"})
_NOBODY = frozenset(
    {"iid-datasource-none", "iid-datasource", "nocloud", "none", "null"}
)
"""Ids that cloud-init gives to instances that it knows nothing of: all of them have the same."""

_UUID = r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"
_FAKE = frozenset({"03000200-0400-0500-0006-000700080009"})
"""Uuids that makers leave in all their boards."""

_CONTAINER = ("run/systemd/container", "run/.containerenv", ".dockerenv")
"""Files that exist in containers."""


def identity(root: Path = Path("/")) -> dict[str, str]:
    """Return the ids of this instance by their kinds, as far as they are known now.

    - `cloud-init`: the instance's id from its data source. cloud-init writes it to /run and to /var/lib at every boot
      in which it runs. The file in /run is of this boot. The file in /var/lib may have come with a copied disk, so it
      counts only if it was written in this boot.
    - `dmi`: the machine's uuid, into which OpenStack's libvirt writes that of the instance. Only root can read it. In a
      container it is the host's, which changes when the container moves, so it does not count there.
    """
    ids = {"cloud-init": _cloud_init(root), "dmi": _dmi(root)}
    return {kind: value for kind, value in ids.items() if value}


def set_aside(state: Path, own: Mapping[str, str], deployed: Path | None = None) -> str:
    """Move the state of another instance away; return a sentence that says so, empty if there was none.

    `own` are the ids of this instance. The caller holds the lock, and has no file open in the state directory. Nothing
    is deleted: everything but the lock is moved to `STATE/of-ID/`, where ID is that of the other instance, and so is
    heat-agents' folder `deployed`. An interrupted move is completed by the next call. Raises StateError.
    """
    try:
        record, notes = _read(state)
        if not record.leaving:
            kind = next(
                (kind for kind in KINDS if kind in record.ids and kind in own), ""
            )
            renamed = (
                bool(kind)
                and record.ids[kind] != own[kind]
                and _is_renamed(record.ids, own)
            )
            if not kind or record.ids[kind] == own[kind] or renamed:
                ids = {**record.ids, **own}
                if renamed:
                    notes.append(
                        f"this machine was {record.ids[kind]} for {kind} and is {own[kind]} now: its state stays"
                    )
                if ids != record.ids:
                    notes += _record(state, ids)
                return "; ".join(notes)
            record = _Known(
                record.ids, _free(state, f"{_ASIDE}{_safe(record.ids[kind])}"), kind
            )
            # if this is interrupted, the next call goes on with the same folder
            _write(state, record)
        aside = state / record.leaving
        files.make_directory(aside, durable=True)
        for path in sorted(state.iterdir()):
            if path.name not in _STAYS and not path.name.startswith(_ASIDE):
                path.rename(aside / _free(aside, path.name))
        if deployed is not None and deployed.is_dir():
            import shutil  # noqa: PLC0415  # for copied disks alone

            # perhaps from another file system
            shutil.move(deployed, aside / _free(aside, deployed.name))
        files.sync_directory(aside)
        files.sync_directory(state)
        _write(state, _Known(dict(own)))
    except OSError as error:
        raise StateError(
            f"cannot make sure that {state} belongs to this instance: {error.strerror}: {error.filename}"
        ) from error
    whose = f"{record.kind} {record.ids.get(record.kind, '')}".strip()
    now = f", and this is {own[record.kind]}" if record.kind in own else ""
    notes.append(
        f"{state} belonged to another instance ({whose}{now}): its content was moved to {aside}"
    )
    return "; ".join(notes)


def _is_renamed(recorded: Mapping[str, str], own: Mapping[str, str]) -> bool:
    """Return whether cloud-init gives the same machine an id of another form, for example from another data source.

    The hardware's uuid tells, as it is not on the disk; /etc/machine-id is, so a copy of the disk has it too. Two
    different ids of the same form are two instances even on one machine: a bare metal server may be first one, then the
    other.
    """
    if (
        "cloud-init" not in recorded
        or "cloud-init" not in own
        or not recorded.get("dmi")
    ):
        return False
    before, now = recorded["cloud-init"].lower(), own["cloud-init"].lower()
    return recorded["dmi"] == own.get("dmi") and (
        before == now or _form(before) != _form(now)
    )


def _form(identity: str) -> str:
    """Return the form of an id of cloud-init: OpenStack's uuid, the id of the EC2 interface, or another."""
    if re.fullmatch(_UUID, identity):
        return "uuid"
    return "ec2" if re.fullmatch(r"i-[0-9a-f]+", identity) else "other"


def _record(state: Path, ids: Mapping[str, str]) -> list[str]:
    """Record which instance the state belongs to; return a warning if that failed. The next start tries again."""
    try:
        _write(state, _Known(ids))
    except OSError as error:
        return [
            f"cannot record in {state / FILE} which instance {state} belongs to: {error.strerror}"
        ]
    return []


@dataclass(frozen=True)
class _Known:
    """The content of `instance.json`."""

    ids: Mapping[str, str]
    """The ids of the instance that the state belongs to, by their kinds."""
    leaving: str = ""
    """The name of the folder that the state is being moved to; empty if it is not."""
    kind: str = ""
    """The kind of the id that showed that the state belongs to another instance."""


def _read(state: Path) -> tuple[_Known, list[str]]:
    """Return the record, and warnings. A file that is not valid is set aside."""
    path = state / FILE
    try:
        value = json.loads(files.read(path))
        record = _Known(
            value["identity"], value.get("leaving", ""), value.get("kind", "")
        )
        _check(record)
    except FileNotFoundError:
        return _Known({}), []
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        aside = path.with_name(f"{FILE}.corrupt-{time.time_ns()}")
        path.rename(aside)
        note = f"cannot read {path}, which says which instance {state} belongs to: it was set aside as {aside.name}"
        return _Known({}), [note]
    return record, []


def _check(known: _Known) -> None:
    """Raise ValueError if the record is not one that `_write` writes."""
    ids = known.ids
    if not isinstance(ids, dict) or not all(
        isinstance(text, str) for text in (*ids.values(), known.leaving, known.kind)
    ):
        raise ValueError
    if known.leaving and (
        not known.leaving.startswith(_ASIDE)
        or "/" in known.leaving
        or "\0" in known.leaving
    ):
        raise ValueError


def _write(state: Path, known: _Known) -> None:
    value: dict[str, object] = {"identity": dict(known.ids)}
    if known.leaving:
        value |= {"leaving": known.leaving, "kind": known.kind}
    files.replace(state / FILE, json.dumps(value).encode(), durable=True)


def _free(folder: Path, name: str) -> str:
    """Return the name, with a number after it if it is taken."""
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
    """Return when the machine was booted, in seconds since the epoch, by the clock as it is set now."""
    return time.time() - time.clock_gettime(time.CLOCK_BOOTTIME)


def _dmi(root: Path) -> str:
    """Return the machine's uuid in lower case (kernels differ in that); empty if it is not usable."""
    if any((root / path).exists() for path in _CONTAINER):
        return ""
    try:
        uuid = (
            (root / "sys/class/dmi/id/product_uuid")
            .read_text(encoding="ascii", errors="replace")
            .strip()
            .lower()
        )
    except OSError:
        return ""
    real = re.fullmatch(_UUID, uuid) and len(set(uuid)) > 2 and uuid not in _FAKE
    return uuid if real else ""
