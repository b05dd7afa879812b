"""The real tools that tests drive: `tests/install-tools` installs them; without one, its tests are skipped."""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

SALT = Path(__file__).parents[2] / ".venv/salt/bin"
"""Where salt has an environment of its own."""

OPENSTACK = Path(__file__).parents[2] / ".venv/openstack/bin"
"""Where OpenStack's own programs have an environment of their own."""

BUILDER = Path(__file__).parents[2] / ".venv/diskimage-builder/bin"
"""Where diskimage-builder has an environment of its own."""


def need(name: str, package: str) -> str:
    """Return the path of a program, or skip the test, saying how to get it."""
    path = shutil.which(name)
    if path is None:
        pytest.skip(
            f"{name} is not installed: «apt install {package}» (make test-all does it, as root on Debian)"
        )
    return path


def need_salt() -> Path:
    """Return the folder with salt's programs, or skip the test, saying how to get it."""
    if not (SALT / "salt-call").exists():
        pytest.skip(
            f"salt is not installed: «pip install salt» in an environment {SALT.parent} (make test-all does it)"
        )
    return SALT


def need_openstack(name: str, package: str, folder: Path) -> Path:
    """Return a program of OpenStack's that sees `folder` in the place of /var, or skip the test, saying how to get it.

    These programs have fixed places there, for their logs for example.
    """
    need_root()
    path = OPENSTACK / name
    if not _starts(path):
        pytest.skip(
            f"{name} is not installed: «pip install {package}» in {OPENSTACK.parent} (make test-all does it)"
        )
    unshare, wrapper = need("unshare", "util-linux"), folder.parent / name
    if subprocess.run(
        [unshare, "--mount", "true"], capture_output=True, check=False
    ).returncode:
        pytest.skip(
            "this machine gives no mount namespaces: run the tests where «unshare --mount true» works"
        )
    folder.mkdir()
    (folder / "log").mkdir()
    inside = """sh -c 'mount --bind "$0" /var && exec "$@"'"""
    wrapper.write_text(
        f'#!/bin/sh\nexec {unshare} --mount {inside} {folder} {path} "$@"\n'
    )
    wrapper.chmod(0o755)
    return wrapper


@functools.cache
def _starts(program: Path) -> bool:
    """Return whether a program exists and can be started."""
    return (
        program.exists()
        and subprocess.run(
            [program, "--help"], capture_output=True, check=False
        ).returncode
        == 0
    )


def need_builder() -> None:
    """Skip the test where there is no diskimage-builder, saying how to get it."""
    if not (BUILDER / "disk-image-create").exists():
        pytest.skip(
            f"diskimage-builder is not installed: «pip install diskimage-builder» in an environment {BUILDER.parent} "
            "(make test-all does it)"
        )


def need_root() -> None:
    """Skip the test where we are not root."""
    if os.geteuid() != 0:
        pytest.skip("only root can do this: run the tests as root")


def need_outside_tmp() -> None:
    """Skip the test where isolated runs cannot see the commands of this checkout."""
    for path in (
        Path(sys.prefix),
        Path(sys.base_prefix).resolve(),
        Path(__file__).resolve(),
    ):
        if path.is_relative_to("/tmp") or path.is_relative_to("/var/tmp"):
            pytest.skip(
                f"an isolated run does not see {path}: put the checkout outside of /tmp and /var/tmp"
            )
