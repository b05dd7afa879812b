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

from heat_config_agent.cli import envelope, state_options, terminal
from heat_config_agent.model.errors import AgentError, ExitCode, StateError, UsageError
from heat_config_hooks.values import dataclass

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
  10  another user than root cannot do that
"""


@dataclass(frozen=True)
class _Change:
    """A change of the machine."""

    change: str
    """Its verb: write, create, stop or remove."""
    name: str
    type: str
    """unit, folder or service."""
    why: str


def add(commands: state_options.Commands) -> None:
    """Declare the command."""
    parser = state_options.stateless(
        commands,
        "setup",
        "put systemd units in place after an installation by pip, pipx or uv",
        (__doc__ or "").partition(": ")[2],
        epilog=_EPILOG,
    )
    parser.add_argument(
        "--remove",
        action="store_true",
        help="stop and disable the services, and delete the units; settings, state and runs stay",
    )
    state_options.add_plan(parser)
    state_options.add_yes(parser)
    state_options.add_common(parser)
    state_options.add_json(parser)
    parser.set_defaults(run=run, kind="setup")


def run(options: argparse.Namespace) -> int:
    """Write or remove the units."""
    if os.geteuid() != 0:
        raise StateError("only root can do that", hint=f"it writes to {PLACE}")
    try:
        changes = (_remove if options.remove else _install)(options)
    except OSError as error:
        raise AgentError(
            f"cannot change {error.filename or PLACE}: {error.strerror}"
        ) from error
    if options.json:
        values = {
            "planned": options.plan,
            "changes": [vars(change) for change in changes],
        }
        envelope.result(values)
        return ExitCode.OK
    for line in terminal.table(
        [(each.change, each.name, each.type, each.why) for each in changes],
        header=("CHANGE", "NAME", "TYPE", "WHY"),
        empty="nothing to remove" if options.remove else "nothing to do",
    ):
        terminal.say(line)
    if options.plan and changes:
        terminal.say("\nnothing was done")
    elif not options.plan and not options.remove:
        terminal.say(f"to start the daemon: systemctl enable --now {_SERVICES[0]}")
    return ExitCode.OK


def _install(options: argparse.Namespace) -> list[_Change]:
    units = _units()
    changes = []
    if not SETTINGS.is_dir():
        changes.append(_Change("create", str(SETTINGS), "folder", "for settings"))
    for name, text in units.items():
        packaged = next(
            (folder / name for folder in PACKAGED if (folder / name).exists()), None
        )
        if packaged:
            raise UsageError(
                f"a package has installed {packaged}, so there is nothing to set up",
                hint="remove the package first",
            )
        path = PLACE / name
        is_there = os.path.lexists(path)
        if is_there and not _is_ours(path):
            raise UsageError(
                f"{path} was not written by this command",
                hint="move it away, then run this again",
            )
        why = "new"
        if is_there:
            same = path.read_text(encoding="utf-8") == MARK + text
            why = "as it is" if same else "it has changed"
        changes.append(_Change("write", str(path), "unit", why))
    if options.plan:
        return changes
    PLACE.mkdir(parents=True, exist_ok=True)
    SETTINGS.mkdir(mode=0o755, exist_ok=True)
    for name, text in units.items():
        part = PLACE / f".{name}.part"
        part.write_text(MARK + text)
        part.chmod(0o644)
        part.replace(PLACE / name)
    _systemctl("daemon-reload")
    return changes


def _remove(options: argparse.Namespace) -> list[_Change]:
    ours = [path for path in sorted(PLACE.glob("heat*")) if _is_ours(path)]
    services = [path.name for path in ours if path.name in _SERVICES]
    if any(path.name == _TEMPLATE for path in ours):
        services += _instances()
    changes = [_Change("stop", name, "service", "its unit goes") for name in services]
    changes += [
        _Change("remove", str(path), "unit", "this command has written it")
        for path in ours
    ]
    if options.plan:
        return changes
    if ours:
        units = terminal.count(len(ours), "unit")
        terminal.confirmed(
            f"stop and disable {', '.join(services) or 'nothing'}, and delete {units}",
            options,
        )
    if services:
        _systemctl("disable", *(["--now"] if _is_booted() else []), *services)
    for path in ours:
        path.unlink()
    _systemctl("daemon-reload")
    with contextlib.suppress(OSError):
        # it is not there, or has settings in it, which stay
        SETTINGS.rmdir()
    return changes


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
