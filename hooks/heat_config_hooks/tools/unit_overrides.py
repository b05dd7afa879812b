"""Settings of units that a drop-in takes back or replaces, although a deployment has made them. Pure.

Most settings of systemd are lists, to which another file adds.
So a drop-in overrides a setting only if it empties the list (`ExecStart=`), or if the setting has one value.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

SINGLE = frozenset(
    [
        "AccuracySec",
        "AllowIsolate",
        "CPUQuota",
        "CPUWeight",
        "DefaultDependencies",
        "Description",
        "DynamicUser",
        "GuessMainPID",
        "Group",
        "KillMode",
        "KillSignal",
        "LimitCORE",
        "LimitMEMLOCK",
        "LimitNOFILE",
        "LimitNPROC",
        "MemoryHigh",
        "MemoryLow",
        "MemoryMax",
        "MemoryMin",
        "MemorySwapMax",
        "NoNewPrivileges",
        "Nice",
        "NotifyAccess",
        "OOMPolicy",
        "OOMScoreAdjust",
        "PIDFile",
        "Persistent",
        "PrivateDevices",
        "PrivateMounts",
        "PrivateNetwork",
        "PrivateTmp",
        "PrivateUsers",
        "ProtectClock",
        "ProtectControlGroups",
        "ProtectHome",
        "ProtectHostname",
        "ProtectKernelLogs",
        "ProtectKernelModules",
        "ProtectKernelTunables",
        "ProtectSystem",
        "RandomizedDelaySec",
        "RefuseManualStart",
        "RefuseManualStop",
        "RemainAfterExit",
        "Restart",
        "RestartSec",
        "RootDirectory",
        "RuntimeMaxSec",
        "Slice",
        "SocketGroup",
        "SocketMode",
        "SocketUser",
        "StandardError",
        "StandardInput",
        "StandardOutput",
        "StartLimitBurst",
        "StartLimitIntervalSec",
        "SyslogIdentifier",
        "TasksMax",
        "TimeoutSec",
        "TimeoutStartSec",
        "TimeoutStopSec",
        "Type",
        "UMask",
        "Unit",
        "User",
        "WatchdogSec",
        "What",
        "Where",
        "WorkingDirectory",
    ]
)
"""Settings that have one value, of which the last one counts."""


def overridden(
    texts: Mapping[str, str], own: Sequence[str]
) -> Iterator[tuple[str, str]]:
    """Yield the path of each file that overrides a setting of the `own` files, and the name of the setting.

    `texts` are all files of a unit in the order in which systemd reads them.
    """
    values: dict[tuple[str, str], list[str]] = {}
    mine: dict[tuple[str, str], list[str]] = {}
    last: dict[tuple[str, str], str] = {}
    for path, text in texts.items():
        for section, name, value in settings(text):
            place = (section, name)
            given = values.setdefault(place, [])
            if not value or name in SINGLE:
                given.clear()
                last[place] = path
            if value:
                given.append(value)
            if path in own:
                mine[place] = list(given)
    for place, wanted in mine.items():
        path = last.get(place, "")
        if path and path not in own and not _has(values[place], wanted):
            yield path, place[1]


def _has(values: Sequence[str], wanted: Sequence[str]) -> bool:
    """Return whether a list has all wanted values."""
    return all(value in values for value in wanted)


def settings(text: str) -> Iterator[tuple[str, str, str]]:
    """Yield the section, the name and the value of each setting in a unit file."""
    section, before = "", ""
    for line in text.splitlines():
        stripped = line.strip()
        if stripped.startswith(("#", ";")):
            continue
        if stripped.endswith("\\"):
            before += f"{stripped[:-1].rstrip()} "
            continue
        whole, before = before + stripped, ""
        if whole.startswith("[") and whole.endswith("]"):
            section = whole[1:-1]
        elif "=" in whole:
            name, _, value = whole.partition("=")
            yield section, name.rstrip(), value.lstrip()
