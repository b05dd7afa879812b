"""Programs of another architecture: qemu emulates each, and the kernel is told so for as long as a test takes."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from support.tools import need, need_root

_NAME = "heat-config-arm64"
_HEADER = (
    rb"\x7f\x45\x4c\x46\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\xb7\x00"
)
_MASK = (
    rb"\xff\xff\xff\xff\xff\xff\xff\x00\xff\xff\xff\xff\xff\xff\xff\xff\xfe\xff\xff\xff"
)
"""The first bytes of a program for arm64, and the mask for the bytes that count."""


@contextmanager
def arm64() -> Iterator[None]:
    """Have programs for arm64 run; skip the test where that cannot be done."""
    need_root()
    qemu = need("qemu-aarch64-static", "qemu-user-static")
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            ["mount", "-t", "binfmt_misc", "none", folder],
            capture_output=True,
            check=False,
        )
        if done.returncode:
            pytest.skip(
                "the kernel of this machine has no binfmt_misc, by which it learns who emulates programs"
            )
        try:
            registration = Path(folder, _NAME)
            ours = not registration.exists() and not any(Path(folder).glob("*aarch64*"))
            if ours:
                words = b":".join(
                    [
                        b"",
                        _NAME.encode(),
                        b"M",
                        b"0",
                        _HEADER,
                        _MASK,
                        qemu.encode(),
                        b"F",
                    ]
                )
                Path(folder, "register").write_bytes(words)
            try:
                yield
            finally:
                if ours:
                    registration.write_bytes(b"-1")
        finally:
            subprocess.run(["umount", folder], check=True)
