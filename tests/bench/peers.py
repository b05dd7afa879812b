"""The programs that are replaced: had once, in `.venv/peers`, and installed below a folder as an image has them."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import subprocess
import sys
import tarfile
import venv
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from bench.scenario import LackingError

FOLDER = Path(__file__).parents[2] / ".venv" / "peers"
BIN = FOLDER / "bin"
"""os-collect-config, os-refresh-config, os-apply-config, dib-run-parts, and the interpreter of them all."""
AGENTS = FOLDER / "heat_agents-13.0.0"
"""heat-agents' source archive, unpacked: the wheel carries no hook."""

_PACKAGES = (
    "os-collect-config==14.1.0",
    "os-refresh-config==14.1.0",
    "os-apply-config==14.1.0",
    # What heat-agents' scripts import.
    "python-heatclient",
    "python-keystoneclient",
    "python-zaqarclient",
    "PyYAML",
    "requests",
)
_ARCHIVE = "heat-agents==13.0.0"

_SECONDS = 150.0
"""For how long the package index is waited for, for each of the two."""


def ready() -> None:
    """Have them here: from the package index, the first time. Raises LackingError, and does not try it again then."""
    if lack := _lacking(FOLDER):
        raise LackingError(lack)


@cache
def _lacking(folder: Path) -> str:
    """Have them in that folder. Return why they cannot be had, if so."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        packages = " ".join((*_PACKAGES, _ARCHIVE))
        stamp = folder / "had"
        if stamp.exists() and stamp.read_text() == packages:
            return ""
        try:
            _have()
        except (OSError, subprocess.SubprocessError, tarfile.TarError) as error:
            said = (
                error.stderr.strip()
                if isinstance(error, subprocess.CalledProcessError)
                else str(error)
            )
            return (
                f"os-collect-config and heat-agents cannot be installed in {folder}: {said.splitlines()[-1]}; they are "
                "taken from the package index that pip is set up for"
            )
        stamp.write_text(packages)
    return ""


def _have() -> None:
    venv.create(FOLDER, with_pip=False)
    pip = (
        sys.executable,
        "-m",
        "pip",
        "--python",
        BIN / "python",
        "--quiet",
        "--disable-pip-version-check",
    )
    archive = ("--no-deps", "--no-binary", "heat-agents", "--dest", FOLDER, _ARCHIVE)
    for command in (("install", *_PACKAGES), ("download", *archive)):
        subprocess.run(
            [*pip, *command],
            check=True,
            capture_output=True,
            text=True,
            timeout=_SECONDS,
        )
    shutil.rmtree(AGENTS, ignore_errors=True)
    with tarfile.open(AGENTS.with_name(f"{AGENTS.name}.tar.gz")) as packed:
        packed.extractall(FOLDER, filter="data")


_PARSER = "tosca-parser==2.15.0"


@cache
def parser() -> Path:
    """Return the interpreter that has tosca-parser: from the package index, the first time. Raises LackingError."""
    folder = FOLDER.with_name("tosca-parser")
    python = folder / "bin" / "python"
    stamp = folder / "had"
    if not stamp.exists() or stamp.read_text() != _PARSER:
        pip = (
            sys.executable,
            "-m",
            "pip",
            "--python",
            str(python),
            "--quiet",
            "--disable-pip-version-check",
        )
        try:
            venv.create(folder, with_pip=False)
            command = [*pip, "install", _PARSER]
            subprocess.run(
                command, check=True, capture_output=True, text=True, timeout=_SECONDS
            )
        except (OSError, subprocess.SubprocessError) as error:
            said = (
                error.stderr.strip()
                if isinstance(error, subprocess.CalledProcessError)
                else str(error)
            )
            raise LackingError(
                f"tosca-parser cannot be installed in {folder}: {said.splitlines()[-1]}"
            ) from None
        stamp.write_text(_PARSER)
    return python


def parser_ready() -> None:
    """Have tosca-parser here. Raises LackingError."""
    parser()


class Image:
    """The programs as on an image, with all that they read and write below one folder.

    `heat_config` is the command that applies what `write` has written; `collect` makes the one that polls. Both are to
    be run with `environment`.
    """

    def __init__(self, folder: Path) -> None:
        """Install them below this folder, which is made if it is not there. Raises LackingError."""
        ready()
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder.resolve()
        self.list = self.folder / "var/run/heat-config/heat-config"
        """The deployments that 55-heat-config applies."""
        self.deployed = self.folder / "var/lib/heat-config/deployed"
        """Where 55-heat-config notes what it has run: ID.json, ID.notify.json."""
        self.local = self.folder / "var/lib/os-collect-config/local-data"
        """Where the collector `local` finds documents: *.json."""
        self.cache = self.folder / "var/lib/os-collect-config"
        self.settings = self.folder / "etc/os-collect-config.conf"
        configure = self.folder / "usr/libexec/os-refresh-config/configure.d"
        hooks = self.folder / "var/lib/heat-config/hooks"
        templates = self.folder / "usr/libexec/os-apply-config/templates"
        temporary = self.folder / "tmp"
        for each in (
            configure,
            hooks,
            self.local,
            temporary,
            self.list.parent,
            self.settings.parent,
        ):
            each.mkdir(parents=True, exist_ok=True)
        element = AGENTS / "heat-config"
        for name in ("20-os-apply-config", "55-heat-config"):
            _install(
                element / "os-refresh-config" / "configure.d" / name, configure / name
            )
        _install(
            AGENTS / "heat-config-script/install.d/hook-script.py", hooks / "script"
        )
        # os-apply-config writes what it makes of TEMPLATES/PATH to /PATH.
        below = templates / self.folder.relative_to("/")
        if not below.exists():
            shutil.copytree(element / "os-apply-config", below)
        self.heat_config: tuple[Path, ...] = (configure / "55-heat-config",)
        self.refresh = (
            f"os-refresh-config --lockfile {self.folder}/var/run/os-refresh-config.lock"
        )
        """The command that os-collect-config runs after a change."""
        self.environment = {
            # Their scripts begin with `#!/usr/bin/env python3`: that has to be the one that has what they import.
            "PATH": f"{BIN}:{element / 'bin'}:{os.defpath}:/usr/sbin:/sbin",
            "HOME": str(self.folder),
            "TMPDIR": str(temporary),
            "LC_ALL": "C",  # os-collect-config's collector `local` fails in C.UTF-8
            "HEAT_SHELL_CONFIG": str(self.list),
            "HEAT_CONFIG_HOOKS": str(hooks),
            "HEAT_CONFIG_DEPLOYED": str(self.deployed),
            "HEAT_CONFIG_DEPLOYED_OLD": str(
                self.folder / "var/run/heat-config/deployed"
            ),
            "HEAT_SCRIPT_WORKING": str(
                self.folder / "var/lib/heat-config/heat-config-script"
            ),
            "HEAT_SCRIPT_OUTPUTS": str(
                self.folder / "var/run/heat-config/heat-config-script"
            ),
            "OS_REFRESH_CONFIG_BASE_DIR": str(configure.parent),
            "OS_CONFIG_APPLIER_TEMPLATES": str(templates),
            "OS_CONFIG_FILES_PATH": str(self.cache / "os_config_files.json"),
        }

    def write(self, deployments: Sequence[Mapping[str, Any]]) -> None:
        """Make these the deployments that `heat_config` applies."""
        self.list.write_text(json.dumps(deployments))
        # as it is after the first time: otherwise 55-heat-config changes it
        self.list.chmod(0o600)

    def collect(
        self,
        collectors: Sequence[str],
        *options: str,
        settings: Mapping[str, Any] | None = None,
        sections: Mapping[str, Mapping[str, Any]] | None = None,
    ) -> tuple[str | Path, ...]:
        """Set os-collect-config up, and return its command, with these options, for example "--one-time".

        `settings` are those of [DEFAULT], `sections` those of the collectors: {"cfn": {"metadata_url": …, …}}. When
        something has changed, it runs os-refresh-config, and that os-apply-config and 55-heat-config.
        """
        general: list[tuple[str, Any]] = [
            ("command", self.refresh),
            ("cachedir", self.cache),
            ("backup_cachedir", self.folder / "var/run/os-collect-config"),
            *(("collectors", each) for each in collectors),
            *(settings or {}).items(),
        ]
        named = {"local": {"path": self.local}, **(sections or {})}
        lines = ["[DEFAULT]", *(f"{key} = {value}" for key, value in general)]
        for section, values in named.items():
            lines += [
                f"[{section}]",
                *(f"{key} = {value}" for key, value in values.items()),
            ]
        # Not the file that os-apply-config makes of the metadata: documents need not say all of this then.
        own = self.settings.with_name("os-collect-config.own.conf")
        own.write_text("\n".join(lines) + "\n")
        return (BIN / "os-collect-config", "--config-file", own, *options)


def _install(source: Path, target: Path) -> None:
    shutil.copyfile(source, target)
    target.chmod(0o755)


if __name__ == "__main__":
    try:
        ready()
    except LackingError as lack:
        sys.exit(str(lack))
