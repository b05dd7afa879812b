"""Commands with mounts that nobody else sees."""

from __future__ import annotations

import os
import subprocess
import uuid
from pathlib import Path


def mounted(*script: str) -> tuple[str, ...]:
    """Return the command that starts another one after `script`, with mounts that only that one sees."""
    return (
        "unshare",
        "--mount",
        "/bin/sh",
        "-c",
        f'set -e; {"; ".join(script)}; exec "$@"',
        "sh",
    )


def after_a_boot(folder: Path) -> tuple[str, ...]:
    """Return the command that starts another one as after another boot of the machine, whose id is in the folder."""
    path = folder / f"boot-{uuid.uuid4()}"
    path.write_text(f"{uuid.uuid4()}\n")
    return mounted(f"mount --bind {path} /proc/sys/kernel/random/boot_id")


def on_instance(name: str) -> tuple[str, ...]:
    """Return the command that starts another one on an instance of a cloud."""
    folder = "/run/cloud-init"
    return mounted(
        "mount -t tmpfs tmpfs /run",
        f"mkdir {folder}",
        f"echo {name} >{folder}/.instance-id",
    )


def may_mount() -> bool:
    """Return whether mounts are allowed."""
    return (
        os.geteuid() == 0
        and not subprocess.run(["unshare", "--mount", "true"], check=False).returncode
    )
