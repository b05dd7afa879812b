"""Images with the package in them, each baked once for the sources as they are (`bake`)."""

from __future__ import annotations

import fcntl
import hashlib
import os
import platform
import shutil
import subprocess
import time
from pathlib import Path

import pytest

from package.built import ROOT, package
from support import tested_on
from support.tools import need, need_builder, need_root

BY_HAND = pytest.mark.skipif("TEST_MACHINE" not in os.environ, reason=tested_on.BY_HAND)
"""The reason of skipped tests that need an image, or a whole machine."""

_HERE = Path(__file__).parent
_PLACE = ROOT / ".venv/images"
_SOURCES = {
    "diskimage-builder": ROOT / "packaging/diskimage-builder",
    "mkosi": ROOT / "packaging/mkosi",
}


def baked(how: str, release: str = "") -> Path:
    """Return the root folder of an image that `how` has baked; skip the test where that cannot be done.

    It is of a release of Debian, such as «trixie»; if none is named, of that of this machine.
    """
    need_root()
    need("mmdebstrap", "mmdebstrap")
    if how == "diskimage-builder":
        need_builder()
        need("debootstrap", "debootstrap")
        need("sudo", "sudo")
    own = platform.freedesktop_os_release().get("VERSION_CODENAME", "")
    release = release or own
    deb = package("deb")
    _PLACE.mkdir(exist_ok=True)
    named = f"{how}-{release}"
    root = (
        _PLACE
        / f"{named}-{_digest(deb, _HERE / 'bake', *sorted(_SOURCES[how].rglob('*')))}"
    )
    with (_PLACE / f"{named}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not root.exists():
            for old in _PLACE.glob(f"{named}-*"):
                shutil.rmtree(old)
            begun = time.monotonic()
            _bake(_PLACE / f"{named}.log", how, deb, root, release)
            print(
                f"{how} has baked an image of {release} in {time.monotonic() - begun:.0f} s"
            )
    return root


def _bake(log: Path, *arguments: str | Path) -> None:
    with log.open("w") as out:
        done = subprocess.run(
            [_HERE / "bake", *arguments], stdout=out, stderr=out, check=False
        )
    printed = log.read_text(errors="replace")
    if done.returncode == 3:
        pytest.skip(printed.splitlines()[-1])
    assert done.returncode == 0, printed[-4000:]


def disk(root: Path) -> Path:
    """Return a disk with what is in a root folder, and beside it the kernel and what that begins with."""
    need("mkfs.ext4", "e2fsprogs")
    need("qemu-img", "qemu-utils")
    folder = root.with_name(f"{root.name}-disk")
    image = folder / "disk.qcow2"
    if not image.exists():
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        raw = folder / "raw"
        with raw.open("wb") as file:
            file.truncate(4 << 30)
        subprocess.run(
            ["mkfs.ext4", "-q", "-F", "-L", "cloudimg-rootfs", "-d", root, raw],
            check=True,
        )
        for name in ("vmlinuz", "initrd"):
            [found] = (root / "boot").glob(f"{name}*")
            shutil.copy(found, folder / name)
        subprocess.run(
            ["qemu-img", "convert", "-O", "qcow2", raw, folder / "part"], check=True
        )
        raw.unlink()
        (folder / "part").rename(image)
    return image


def _digest(*paths: Path) -> str:
    found = hashlib.sha256()
    for path in paths:
        if path.is_file():
            found.update(path.name.encode())
            found.update(path.read_bytes())
    return found.hexdigest()[:12]
