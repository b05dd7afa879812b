"""`heat-config-agent setup`: Put the systemd units of an installation by pip, pipx or uv in place.

Units are written into /etc/systemd/system, and call the commands of this installation. The folder for settings is
created too. Nothing is enabled or started, and nothing that other programs or packages have installed is changed.
Run it again after moving or upgrading the installation.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

from heat_config_agent.cli import state_options, terminal
from heat_config_agent.cli.help_format import HelpFormatter
from heat_config_agent.model.errors import AgentError, ExitCode, UsageError

PLACE = Path("/etc/systemd/system")
SETTINGS = Path("/etc/heat-config-agent")
PACKAGED = (Path("/usr/lib/systemd/system"), Path("/lib/systemd/system"))
"""The folder of packages' units."""

MARK = "# Written by heat-config-agent setup; «heat-config-agent setup --remove» deletes this file.\n"

_SERVICES = ("heat-config-agent.service", "heat-config-apply.service")
_TEMPLATE = "heat-config-agent@.service"
_DEADLINE = 120
"""Seconds for one call of systemctl; stopping the daemon may take 30."""

_EPILOG = """\
exit codes:
  0  the units are in place, or with --remove, they are gone
  1  a file cannot be written, or systemd refuses
  2  bad usage, or units are there that this command has not written: nothing was changed
"""


def add(commands: state_options.Commands) -> None:
    """Declare the command."""
    parser = commands.add_parser(
        "setup",
        help="put systemd units in place after an installation by pip, pipx or uv",
        description=(__doc__ or "").partition(": ")[2],
        epilog=_EPILOG,
        formatter_class=HelpFormatter,
    )
    parser.add_argument(
        "--remove",
        action="store_true",
        help="stop and disable the services, and delete the units; settings, state and runs stay",
    )
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Write or remove the units."""
    if os.geteuid() != 0:
        raise UsageError("only root can do that", hint=f"it writes to {PLACE}")
    try:
        if options.remove:
            _remove()
        else:
            _install()
    except OSError as error:
        raise AgentError(
            f"cannot change {error.filename or PLACE}: {error.strerror}"
        ) from error
    return ExitCode.OK


def _install() -> None:
    units = _units()
    for name in units:
        packaged = next(
            (folder / name for folder in PACKAGED if (folder / name).exists()), None
        )
        if packaged:
            raise UsageError(
                f"a package has installed {packaged}, so there is nothing to set up",
                hint="remove the package first",
            )
        path = PLACE / name
        if os.path.lexists(path) and not _is_ours(path):
            raise UsageError(
                f"{path} was not written by this command",
                hint="move it away, then run this again",
            )
    PLACE.mkdir(parents=True, exist_ok=True)
    SETTINGS.mkdir(mode=0o755, exist_ok=True)
    for name, text in units.items():
        part = PLACE / f".{name}.part"
        part.write_text(MARK + text)
        part.chmod(0o644)
        part.replace(PLACE / name)
        terminal.say(f"wrote {PLACE / name}")
    _systemctl("daemon-reload")
    terminal.say(f"to start the daemon: systemctl enable --now {_SERVICES[0]}")


def _remove() -> None:
    ours = [path for path in sorted(PLACE.glob("heat*")) if _is_ours(path)]
    services = [path.name for path in ours if path.name in _SERVICES]
    if any(path.name == _TEMPLATE for path in ours):
        services += _instances()
    if services:
        _systemctl("disable", *(["--now"] if _is_booted() else []), *services)
    for path in ours:
        path.unlink()
        terminal.say(f"removed {path}")
    _systemctl("daemon-reload")
    with contextlib.suppress(OSError):
        # it is not there, or has settings in it, which stay
        SETTINGS.rmdir()
    if not ours:
        terminal.say("there is nothing to remove")


def _instances() -> list[str]:
    """Return the daemons of users that are enabled or running."""
    pattern = _TEMPLATE.replace("@", "@*")
    names = {path.name for path in PLACE.glob(f"*.wants/{pattern}")}
    if _is_booted() and (program := shutil.which("systemctl")):
        words = [program, "list-units", "--plain", "--no-legend", "--full", pattern]
        done = subprocess.run(
            words, capture_output=True, text=True, timeout=_DEADLINE, check=False
        )
        names.update(
            line.split()[0] for line in done.stdout.splitlines() if line.strip()
        )
    return sorted(names)


def _units() -> dict[str, str]:
    """Return the text of each unit, by its name; they call the commands of this installation.

    Raises UsageError if this installation has no units.
    """
    folder = Path(sys.prefix) / "share/heat-config-agent/systemd"
    names = sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []
    if not names:
        raise UsageError(
            "this installation has no units",
            hint="install it with pipx, uv, or pip in an environment of its own",
        )
    commands = Path(sys.executable).parent
    texts = {name: (folder / name).read_text(encoding="utf-8") for name in names}
    return {
        name: text.replace("ExecStart=heat-", f"ExecStart={commands}/heat-")
        for name, text in texts.items()
    }


def _is_ours(path: Path) -> bool:
    with contextlib.suppress(OSError, UnicodeDecodeError):
        return (
            path.is_file()
            and not path.is_symlink()
            and path.read_text(encoding="utf-8").startswith(MARK)
        )
    return False


def _is_booted() -> bool:
    """Return whether systemd runs here. It does not in a chroot, or in an image that is being built."""
    return Path("/run/systemd/system").is_dir()


def _systemctl(*words: str) -> None:
    """Call systemctl. Raises AgentError if it fails; without systemd, nothing is done."""
    program = shutil.which("systemctl")
    if program is None or not (_is_booted() or words[0] == "disable"):
        return
    try:
        done = subprocess.run(
            [program, *words],
            capture_output=True,
            text=True,
            timeout=_DEADLINE,
            check=False,
            stdin=subprocess.DEVNULL,
        )
    except subprocess.TimeoutExpired as error:
        raise AgentError(
            f"systemctl {' '.join(words)} took longer than {_DEADLINE} s"
        ) from error
    if done.returncode:
        raise AgentError(
            f"systemctl {' '.join(words)} failed: {done.stderr.strip() or done.returncode}"
        )
