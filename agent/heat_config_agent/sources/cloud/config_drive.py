"""The config drive: a small disk with the label config-2, with the user data that OpenStack gives an instance."""

from __future__ import annotations

import errno
import os
import re
import stat
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path

from heat_config_agent.model.deployment import Document
from heat_config_agent.model.errors import SourceError
from heat_config_agent.sources import document_text
from heat_config_agent.sources.base import Reach
from heat_config_agent.sources.cloud import user_data
from heat_config_hooks import files, strict_json

LABELS = ("config-2", "CONFIG-2")
"""The labels of an ISO image and of a FAT file system."""

BY_LABEL = Path("/dev/disk/by-label")
MOUNTS = Path("/proc/self/mountinfo")
PLACES = (Path("/mnt/config"), Path("/config-2"), Path("/media/configdrive"))
"""The usual mount points."""

USER_DATA = "openstack/latest/user_data"
META_DATA = "openstack/latest/meta_data.json"

SECONDS = 20.0
"""The timeout for finding the drive, and for mounting and reading it."""

_BLKID = ("blkid", "-c", os.devnull, "-o", "device", "-t")
"""The command that prints the devices with a label, one on a line.

It reads every device: blkid's cache takes a device that it has read within two seconds for unchanged."""

_READ = """
set -e
mount -o ro,nosuid,nodev,noexec"$3" -- "$1" "$2"
for name in user_data meta_data.json; do
    file=$(readlink -f -- "$2/openstack/latest/$name") || file=
    case $file in
        "$2"/*|"") ;;
        *) echo "the link $name leads out of the drive" >&2; exit 1;;
    esac
    size=0
    if [ -f "$file" ]; then size=$(wc -c <"$file"); fi
    if [ "$size" -gt "$4" ]; then size=$4; fi
    echo "$size"
    if [ "$size" -gt 0 ]; then head -c "$size" -- "$file"; fi
done
umount -- "$2"
"""
"""Mounts the device $1 at $2 with the further options $3, and prints the size and the content of each file.

A file is cut at $4 bytes. A link that leads out of the drive is refused.

It runs in a mount namespace of its own: no other process sees the mount, and it ends with this process."""


class ConfigDrive:
    """The user data on the config drive.

    A drive that the agent has to mount is read once: it is created with its instance, and does not change.
    """

    name = "config_drive"

    def __init__(self, values: Mapping[str, object], reach: Reach) -> None:  # noqa: ARG002  # as all sources are made
        """Prepare to read the drive in the settings; without one, search for it."""
        self.trouble = ""
        self.instance = ""
        """The uuid of the instance of the drive; empty if it is not known."""
        self._path = str(values.get("path") or "")
        self._read: tuple[int, ...] | None = None
        """The identity of the device or image that was read."""
        self._last: Document | None = None

    def collect(self) -> Document | None:
        """Return the user data of the drive, which is mounted for that if necessary."""
        place = Path(self._path) if self._path else _search()
        if place is None:
            self._read, self._last, self.instance = None, None, ""
            return None
        try:
            status = place.stat()
        except OSError as error:
            raise SourceError(
                f"cannot read the config drive {place}: {error.strerror}"
            ) from error
        if stat.S_ISDIR(status.st_mode):
            self._read = None
            return self._take(_content(place, USER_DATA), _content(place, META_DATA))
        if not (stat.S_ISBLK(status.st_mode) or stat.S_ISREG(status.st_mode)):
            raise SourceError(
                f"cannot read the config drive {place}: it is not a directory, device or image"
            )
        identity = (
            status.st_dev,
            status.st_ino,
            status.st_rdev,
            status.st_size,
            status.st_mtime_ns,
        )
        if identity != self._read:
            self._take(*_mounted(place, image=stat.S_ISREG(status.st_mode)))
            self._read = identity
        return self._last

    def _take(self, data: bytes, meta_data: bytes) -> Document | None:
        """Return the document of a drive: the same object as before if the content is the same."""
        self.instance = _uuid(meta_data)
        content = user_data.content(data, "the user data on the config drive")
        if content is None:
            self._last = None
        elif self._last is None or not document_text.same(content, self._last.content):
            self._last = Document(source=self.name, content=content)
        return self._last


def _search() -> Path | None:
    """Return the mount point of the drive, else its device; None if there is no drive."""
    device = _device()
    if device is not None and (place := _mount_point(device)) is not None:
        return place
    for place in PLACES:
        if os.path.isdir(place / "openstack/latest"):  # noqa: PTH112  # never raises
            return place
    return device


def _device() -> Path | None:
    for label in LABELS:
        if (BY_LABEL / label).exists():
            return BY_LABEL / label
    if BY_LABEL.is_dir():  # udev lists all disks there
        return None
    for label in LABELS:
        try:
            process = subprocess.run(
                [*_BLKID, f"LABEL={label}"],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=SECONDS,
                check=False,
            )
        except FileNotFoundError:
            return None
        except (OSError, subprocess.TimeoutExpired) as error:
            raise SourceError(
                f"cannot look for a config drive: blkid: {_why(error)}"
            ) from error
        if process.returncode == 0 and (devices := process.stdout.splitlines()):
            return Path(os.fsdecode(devices[0]))
    return None


def _mount_point(device: Path) -> Path | None:
    """Return the mount point of a device, or any of several."""
    try:
        number = device.stat().st_rdev
        lines = MOUNTS.read_text(
            encoding="utf-8", errors="surrogateescape"
        ).splitlines()
    except OSError:
        return None
    wanted = f"{os.major(number)}:{os.minor(number)}"
    for line in lines:
        fields = line.split(" ")
        if len(fields) > 4 and fields[2] == wanted and fields[3] == "/":
            # Spaces and similar characters are written as three octal digits.
            return Path(
                re.sub(
                    r"\\([0-7]{3})", lambda digits: chr(int(digits[1], 8)), fields[4]
                )
            )
    return None


def _mounted(device: Path, *, image: bool) -> tuple[bytes, bytes]:
    """Mount a device or an image out of sight of others; return its user data and metadata. Raises SourceError."""
    if os.geteuid() != 0:
        raise SourceError(
            f"cannot mount the config drive {device}: only root can",
            hint="mount it, or run as root",
        )
    try:
        with tempfile.TemporaryDirectory(prefix="heat-config-drive-") as place:  # 0700
            most = str(user_data.LARGEST + 1)
            script = [
                "sh",
                "-c",
                _READ,
                "sh",
                str(device),
                os.path.realpath(place),
                ",loop" if image else "",
                most,
            ]
            process = subprocess.Popen(
                ["unshare", "--mount", "--propagation", "private", "--", *script],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env={**os.environ, "LC_ALL": "C"},
                start_new_session=True,
            )
            printed, complaint = _ended(process)
            if process.returncode:
                raise SourceError(
                    f"cannot read the config drive {device}: {complaint or 'mount failed'}"
                )
            data, rest = _sized(printed)
            return data, _sized(rest)[0]
    except (OSError, subprocess.TimeoutExpired) as error:
        raise SourceError(
            f"cannot read the config drive {device}: {_why(error)}"
        ) from error


def _sized(text: bytes) -> tuple[bytes, bytes]:
    """Return the content after its size, and the rest of the text."""
    size, _, rest = text.partition(b"\n")
    return rest[: int(size)], rest[int(size) :]


def _ended(process: subprocess.Popen[bytes]) -> tuple[bytes, str]:
    """Wait for a process; return its standard output, and the first line of its standard error."""
    try:
        printed, complaint = process.communicate(timeout=SECONDS)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, 9)
        try:
            process.communicate(timeout=1)
        except subprocess.TimeoutExpired:
            # it waits for the disk, which even KILL does not end
            for pipe in (process.stdout, process.stderr):
                if pipe:
                    pipe.close()
        raise
    return printed, next(
        iter(complaint.decode("utf-8", "replace").strip().splitlines()), ""
    )


def _content(place: Path, name: str) -> bytes:
    """Return the content of a file of a drive, cut one byte above the limit of user data; empty if there is no file."""
    path = place / name
    if not f"{os.path.realpath(path)}/".startswith(f"{os.path.realpath(place)}/"):
        raise SourceError(
            f"cannot read {path}: it is a link that leads out of the drive"
        )
    try:
        if path.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        with open(files.open_regular(path), "rb") as file:
            return file.read(user_data.LARGEST + 1)
    except FileNotFoundError:
        return b""
    except OSError as error:
        raise SourceError(f"cannot read {path}: {error.strerror}") from error


def _uuid(meta_data: bytes) -> str:
    try:
        content = strict_json.loads(meta_data.decode("utf-8", "replace"))
    except ValueError:
        return ""
    uuid = content.get("uuid") if isinstance(content, dict) else None
    return uuid if isinstance(uuid, str) else ""


def _why(error: Exception) -> str:
    if isinstance(error, subprocess.TimeoutExpired):
        return f"it takes longer than {SECONDS:g} s"
    return (error.strerror if isinstance(error, OSError) else None) or type(
        error
    ).__name__
