"""The namespaces of an isolated run: its process enters them, and they are those of everything that it starts.

The levels are those of systemd's PrivateNetwork=, ProtectHome=, PrivateTmp= and ProtectSystem=. A run is not a service
of systemd, because its supervisor has to be its parent; so it does what systemd does for a service, by the same calls
of the kernel. As there, the mounts of the machine stay visible, and those that are made later appear. Unlike there,
`home` is empty and read-only, and temporary files are in memory: they are gone with the last process, however it ends.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import os
import re
import socket
import struct
from collections.abc import Mapping, Sequence
from pathlib import Path

from heat_config_agent.model.errors import obstacle
from heat_config_hooks import files

HOMES = ("/home", "/root", "/run/user")
"""The folders of users. Of systemd's ProtectHome=."""

_TEMPORARY = ("/tmp", "/var/tmp")  # noqa: S108  # these folders are what is meant

_SYSTEM = {
    "true": ("/usr", "/boot", "/efi"),
    "full": ("/usr", "/boot", "/efi", "/etc"),
    "strict": ("/",),
}
"""The folders that are read-only, by the level of `system`. Of systemd's ProtectSystem=."""

_KERNEL = ("/proc", "/sys", "/dev")
"""The folders that stay as they are: they hold no files on disk, and a run without `strict` has them too."""

_NEWNS, _NEWNET = 0x00020000, 0x40000000
_RDONLY, _REMOUNT, _BIND, _REC, _SLAVE = 1, 32, 4096, 16384, 1 << 19
_NOSUID, _NODEV = 2, 4
_KEPT_FLAGS = {"nosuid": _NOSUID, "nodev": _NODEV, "noexec": 8, "nosymfollow": 256}
"""The flags of a mount that have to be repeated where another one is added. Those about times stay by themselves."""

_CAPBSET_DROP, _SET_NO_NEW_PRIVS, _CAP_AMBIENT, _CLEAR_ALL = 24, 38, 47, 4
_CAPABILITY_VERSION = 0x20080522

_UNDOING = {
    "DAC_READ_SEARCH": 2,  # opens files by their numbers, past all mounts
    "SYS_MODULE": 16,
    "SYS_RAWIO": 17,
    "SYS_PTRACE": 19,  # enters the root folder of another process
    "SYS_ADMIN": 21,  # mounts, and enters other namespaces
    "PERFMON": 38,
    "BPF": 39,
    "CHECKPOINT_RESTORE": 40,
}
"""The capabilities with which root could undo the isolation, by their numbers."""

_IFF_UP, _SIOCGIFFLAGS, _SIOCSIFFLAGS = 1, 0x8913, 0x8914


class IsolationError(Exception):
    """A run cannot be isolated; the text says why."""


def enter(levels: Mapping[str, str], kept: Sequence[Path]) -> None:
    """Isolate this process, and all that it starts, for good. The folders `kept` exist, and stay as they are.

    Raises IsolationError; the process must not run anything then.
    """
    if os.geteuid() != 0:
        raise IsolationError(
            f"only root can isolate it, and the agent runs as the user {os.geteuid()}"
        )
    try:
        _call("unshare", _NEWNS | (_NEWNET if levels.get("network") else 0))
        _mount("none", "/", _REC | _SLAVE)
        _arrange(levels, [os.path.realpath(path) for path in kept])
        if levels.get("network"):
            with contextlib.suppress(PermissionError):
                # without CAP_NET_ADMIN, as in containers, it stays down
                _bring_up_loopback()
        _give_up_capabilities()
    except (OSError, ValueError) as error:
        raise IsolationError(
            f"this machine cannot isolate it: {obstacle(error)}"
        ) from error


def keep_privileges_down() -> None:
    """Keep programs such as sudo from giving more privileges to this process and its children. Raises OSError."""
    _call("prctl", _SET_NO_NEW_PRIVS, 1, 0, 0, 0)


def _arrange(levels: Mapping[str, str], kept: Sequence[str]) -> None:
    """Hide, show or write-protect folders, as the levels of isolation ask. Raises OSError."""
    held = {
        path: os.open(path, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        for path in sorted(kept)
    }
    covered: list[str] = []
    if levels.get("tmp"):
        covered += [_cover(path, "mode=1777") for path in _folders(_TEMPORARY)]
    read_only: list[str] = []
    if levels.get("home"):
        homes = _folders(HOMES)
        if levels["home"] == "true":
            read_only += [_cover(path, "mode=755") for path in homes]
        else:
            read_only += homes
    for (
        path,
        descriptor,
    ) in held.items():
        # before anything is read-only: each is a mount of its own from here on
        Path(path).mkdir(parents=True, exist_ok=True)
        _mount(f"/proc/self/fd/{descriptor}", path, _BIND | _REC)
        os.close(descriptor)
    if levels.get("system"):
        read_only += _folders(_SYSTEM[levels["system"]])
    for path in read_only:
        if path != "/":
            _mount(path, path, _BIND | _REC)
    _make_read_only(read_only, [*_KERNEL, *covered, *held])


def _folders(paths: Sequence[str]) -> list[str]:
    """Return the folders to which paths lead, each once."""
    places = dict.fromkeys(Path(path).resolve() for path in paths)
    return [str(place) for place in places if place.is_dir()]


def _cover(path: str, options: str) -> str:
    """Put an empty folder in the place of another one, and return its path."""
    _mount("tmpfs", path, _NOSUID | _NODEV, kind="tmpfs", options=options)
    return path


def _make_read_only(paths: Sequence[str], spared: Sequence[str]) -> None:
    """Make all mounts at and below paths read-only, except those at and below the spared ones. Raises OSError."""
    for number, point, flags in _mounts():
        if not any(_is_below(point, path) for path in paths) or any(
            _is_below(point, path) for path in spared
        ):
            continue
        try:
            descriptor = os.open(point, os.O_PATH | os.O_CLOEXEC)
        except FileNotFoundError:  # another mount covers it
            continue
        try:
            if _mount_of(descriptor) != number:  # as before
                continue
        finally:
            os.close(descriptor)
        _mount("none", point, _REMOUNT | _BIND | _RDONLY | flags)


def _mounts() -> list[tuple[int, str, int]]:
    """Return the number of each mount, its folder, and its flags."""
    mounts = []
    for line in (
        files.read("/proc/self/mountinfo")
        .decode("utf-8", "surrogateescape")
        .splitlines()
    ):
        number, _, _, _, point, options, *_ = line.split(" ")
        flags = sum(_KEPT_FLAGS.get(name, 0) for name in options.split(","))
        mounts.append(
            (
                int(number),
                re.sub(r"\\([0-7]{3})", lambda code: chr(int(code[1], 8)), point),
                flags,
            )
        )
    return mounts


def _mount_of(descriptor: int) -> int:
    """Return the number of the mount in which an open folder is."""
    text = files.read(f"/proc/self/fdinfo/{descriptor}").decode()
    return int(text.partition("mnt_id:")[2].split()[0])


def _is_below(path: str, folder: str) -> bool:
    return path == folder or path.startswith(f"{folder.rstrip('/')}/")


def _bring_up_loopback() -> None:
    """Bring up the one interface of a new network, so that the run can talk to itself. Raises OSError."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        request = fcntl.ioctl(control, _SIOCGIFFLAGS, struct.pack("16sh22x", b"lo", 0))
        name, flags = struct.unpack("16sh22x", request)
        fcntl.ioctl(
            control, _SIOCSIFFLAGS, struct.pack("16sh22x", name, flags | _IFF_UP)
        )


def _give_up_capabilities() -> None:
    """Give up the capabilities with which root could undo the isolation, also for all programs. Raises OSError."""
    last = int(files.read("/proc/sys/kernel/cap_last_cap"))
    numbers = [number for number in _UNDOING.values() if number <= last]
    for number in numbers:
        _call("prctl", _CAPBSET_DROP, number, 0, 0, 0)
    _call("prctl", _CAP_AMBIENT, _CLEAR_ALL, 0, 0, 0)
    header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION, 0)
    sets = (
        ctypes.c_uint32 * 6
    )()  # effective, permitted and inheritable: the lower halves, then the upper ones
    _call("capget", header, sets)
    for number in numbers:
        for kind in range(3):
            sets[number // 32 * 3 + kind] &= ~(1 << number % 32) & 0xFFFFFFFF
    _call("capset", header, sets)


def _mount(
    source: str, target: str, flags: int, *, kind: str = "", options: str = ""
) -> None:
    words = (source, target, kind)
    encoded = [os.fsencode(word) if word else None for word in words]
    _call(
        "mount", *encoded, ctypes.c_ulong(flags), options.encode() or None, about=target
    )


def _call(name: str, *arguments: object, about: str = "") -> None:
    """Call a function of the C library. Raises OSError with its reason."""
    function = getattr(ctypes.CDLL(None, use_errno=True), name)
    if function(*arguments):
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}", about or None)
