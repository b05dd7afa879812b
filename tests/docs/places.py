"""Where the commands of a page are run: in a copy of the checkout, as any user; on a machine that booted, as root."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from docs import prose
from docs.console import ROOT, Command, File
from package.built import COMPAT, package
from support import leftovers, pace
from support.machine import BIN, Done
from support.mounts import may_mount
from support.unprivileged import NOBODY, Unprivileged, need_open_checkout
from system.booted import Booted, booted

_LOOKING = re.compile(
    r"(heat-config-agent (status|show|log|config|tool)|systemctl (status|is-active|list-units|list-jobs)|"
    r"journalctl|systemd-cgls|cat|ls)\b"
)
"""Commands that change nothing: they are repeated until they show what is expected, as a reader would."""

_SECONDS = 30.0
"""For how long."""

_LEFT = (
    "/var/lib/heat-config*",
    "/run/heat-config*",
    "/etc/heat-config-agent",
    "/usr/libexec/heat-config*",
)
"""Folders that an agent, this one or an older one, may have left on the machine of the tests."""

_WITHOUT = """
for place; do
    shift
    [ "$place" != -- ] || break
    mount -t tmpfs -o mode=755 tmpfs /mnt
    for each in "${place%/*}"/*; do
        name=${each##*/}
        case $name in ${place##*/}) continue ;; esac
        if [ -L "$each" ]; then
            cp --no-dereference "$each" "/mnt/$name"
        elif [ -d "$each" ]; then
            mkdir "/mnt/$name"
            mount --rbind "$each" "/mnt/$name"
        elif [ -f "$each" ]; then
            touch "/mnt/$name"
            mount --bind "$each" "/mnt/$name"
        fi
    done
    mount --rbind /mnt "${place%/*}"
    umount --lazy /mnt
done
exec "$@"
"""
"""Runs a command that does not see some folders: in the place of each parent is all else that is in it."""


class Places:
    """The places of one page, each made when it is first needed."""

    def __init__(self, *, installed: bool, logs_in: bool = False) -> None:
        """`installed` says whether the machine has the package when the page begins.

        With `logs_in`, commands are run as the user of the tests also if that is root: the users without privileges
        have no names, and only a user with a name and a shell can log in.
        """
        self._installed = installed
        self._logs_in = logs_in
        self._ending = ExitStack()
        self._checkout: Path | None = None
        self._machine: Booted | None = None
        self._files: list[File] = []

    def end(self) -> None:
        """Have both gone."""
        self._ending.close()

    def finally_do(self, what: Callable[[], object]) -> None:
        """Have something done when the page has ended, also if it has failed."""
        self._ending.callback(what)

    @property
    def checkout(self) -> Path:
        """A copy of the checkout, with a home beside it; its environment is that of the tests."""
        if self._checkout is None:
            if self._is_another:
                need_open_checkout()
            folder = Path(tempfile.mkdtemp(prefix="page-", dir="/tmp"))
            leftovers.belongs(folder)
            self._ending.callback(shutil.rmtree, folder)
            self._checkout = folder / "heat-config-agent"
            copy_checkout(self._checkout)
            (folder / "home").mkdir()
            environment = self._checkout / ".venv"
            environment.mkdir()
            (environment / "bin").symlink_to(BIN)
            for name in ("installed", "tested", "tools"):
                (environment / name).touch()
            if self._is_another:
                for path in (folder, *folder.rglob("*")):
                    os.chown(path, NOBODY, NOBODY, follow_symlinks=False)
        return self._checkout

    @property
    def _is_another(self) -> bool:
        """True if the commands of any user are run as another one than the tests."""
        return os.geteuid() == 0 and not self._logs_in

    @property
    def machine(self) -> Booted:
        """A machine with the checkout and its package in /root; booted, or the test is skipped."""
        if self._machine is None:
            debs = package("deb"), package("deb", COMPAT)
            self._machine = self._ending.enter_context(booted(commands=False))
            folder = self._machine.disk / "root/heat-config-agent"
            copy_checkout(folder)
            (folder / "dist").mkdir()
            for deb in debs:
                shutil.copy(deb, folder / "dist")
            if self._installed:
                agent = "/root/heat-config-agent/dist/heat-config-agent_*.deb"
                done = self._machine.run("sh", "-c", f"dpkg --install {agent}")
                assert done.code == 0, done.out + done.err
        return self._machine

    def write(self, file: File, prompts: set[str]) -> None:
        """Write a file that the page shows: one with a whole path on the machine, others where commands are run."""
        if file.path.startswith("/"):
            path = self.machine.disk / file.path.lstrip("/")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(file.text)
            path.chmod(0o600)
            return
        if "$" in prompts:
            (self.checkout / file.path).write_text(file.text)
        if "#" in prompts:
            (self.machine.disk / "root/heat-config-agent" / file.path).write_text(
                file.text
            )

    def run(self, command: Command) -> None:
        """Run a command; fail unless it ends well and prints what the page shows."""
        deadline = time.monotonic() + pace.seconds(_SECONDS)
        while True:
            done = self._once(command)
            well = done.code == 0 and command.shows(done.out)
            if well or not _LOOKING.match(command.line) or time.monotonic() > deadline:
                break
            time.sleep(0.2)
        said = f"{command.where}: {command.line}\n\n{done.out}"
        assert done.code == 0, f"{said}\nit has ended with exit code {done.code}"
        assert well, f"{said}\nThe page shows:\n" + "\n".join(command.printed)

    def _once(self, command: Command) -> Done:
        if command.prompt == "#":
            line = f"cd /root/heat-config-agent && exec 2>&1 && {command.line}"
            return self.machine.run("sh", "-c", line, seconds=120)
        before = (
            (*_as_on_a_new_machine(), *Unprivileged.before) if self._is_another else ()
        )
        home = self.checkout.parent / "home"
        # What pip is told about mirrors and certificates is the machine's affair.
        kept = {
            name: value
            for name, value in os.environ.items()
            if name.startswith("PIP_") or name.endswith("_proxy")
        }
        own = {
            "HOME": str(home),
            "TMPDIR": str(home),
            "PIP_CACHE_DIR": str(home / "pip-cache"),
            "LANG": "C.UTF-8",
        }
        if self._logs_in:  # root's is that of the machine
            own["HEAT_CONFIG_AGENT_STATE"] = str(home / "state")
        done = subprocess.run(
            [*before, "sh", "-c", f"exec 2>&1; {command.line}"],
            cwd=self.checkout,
            env={**kept, **own, "PATH": f"{BIN}:/usr/bin:/bin"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=pace.seconds(300),
            check=False,
        )
        return Done(done.returncode, done.stdout, done.stderr)


def _as_on_a_new_machine() -> tuple[str, ...]:
    """Return the command by which a reader's commands do not see what an agent has left here.

    It is empty if nothing was left, or if mounts are not allowed here, as in most containers.
    """
    left = [place for place in _LEFT if any(Path("/").glob(place.lstrip("/")))]
    return (
        ("unshare", "--mount", "sh", "-ec", _WITHOUT, "sh", *left, "--")
        if left and may_mount()
        else ()
    )


def copy_checkout(folder: Path) -> None:
    """Copy what git knows of the checkout."""
    for name in prose.files():
        if not name.startswith("tests/"):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, folder / name)
