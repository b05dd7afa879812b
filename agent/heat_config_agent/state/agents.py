"""The agents of other users on this machine, for people who look for one in the wrong place."""

from __future__ import annotations

import itertools
import os
import pwd
import shlex
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from heat_config_agent.settings.paths import SYSTEM_STATE, usual_state
from heat_config_hooks import processes
from heat_config_hooks.values import dataclass

_PROGRAM = "heat-config-agent"
_PLACES = ("--state-dir", "--config")


@dataclass(frozen=True)
class Agent:
    """A daemon of another user, or the state directory of one that does not run."""

    user: str
    state: str
    """Its state directory; empty if only its settings say it."""
    process: int = 0
    """Its process; 0 if it does not run."""
    options: tuple[str, ...] = ()
    """The options with which its state directory is found."""

    def sentence(self, command: str) -> str:
        """Return where it works, and how `command` is run for it."""
        words = shlex.join([_PROGRAM, command, *self.options])
        run = (
            f"sudo {words}"
            if self.user == "root"
            else f"sudo -u {shlex.quote(self.user)} {words}"
        )
        place = self.state or "the state directory of its settings"
        if self.process:
            return f"the agent of {self.user} (process {self.process}) works on {place}: `{run}`"
        return f"the agent of {self.user} has its state in {place}: `{run}`"


def hint(
    state: Path, options: Sequence[str], environ: Mapping[str, str], command: str
) -> str:
    """Return a sentence about the agent that was probably meant, or about os-collect-config if it works instead.

    It is empty if there is neither, or if the place was named.
    `state` is the state directory of the command, and `options` are those that name it.
    """
    if options or str(state) != usual_state(environ):
        return ""
    own = os.geteuid()
    every = list(_running())
    if own == 0:  # root is told of the agents that its units started as other users
        meant = [
            each
            for each in every
            if each.user != "root" and each.state.startswith(f"{SYSTEM_STATE}-")
        ]
    else:
        meant = sorted(
            (each for each in every if each.user == "root"),
            key=lambda each: each.state != SYSTEM_STATE,
        )
        if not meant and os.path.lexists(SYSTEM_STATE):
            meant = [Agent("root", SYSTEM_STATE)]
    if meant and (meant[0].process or not own):
        return meant[0].sentence(command)
    if collector := running_collector():
        plan = f"`{_PROGRAM} migrate --plan` shows how the agent takes over"
        return f"os-collect-config (process {collector}) works on this machine in its place: {plan}"
    return meant[0].sentence(command) if meant else ""


def running_collector() -> int:
    """Return a process of os-collect-config on this machine, which may be a Python script; 0 if there is none."""
    for folder in Path("/proc").glob("[1-9]*"):
        try:
            words = (folder / "cmdline").read_bytes().split(b"\0")
            own = (folder / "root").samefile("/")  # not in a container
        except OSError:
            continue
        names = [
            os.path.basename(word)  # noqa: PTH119
            for word in words
            if word and not word.startswith(b"-")
        ]
        if (
            own
            and b"os-collect-config"
            in names[: 2 if names[:1] and names[0].startswith(b"python") else 1]
        ):
            return int(folder.name)
    return 0


def user_name(number: int) -> str:
    """Return the name of a user, or the number of one without a name."""
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return str(number)


def _running() -> Iterator[Agent]:
    """Yield the daemons on this machine, as far as this user may see them."""
    for folder in Path("/proc").glob("[1-9]*"):
        try:
            words = [
                os.fsdecode(word)
                for word in (folder / "cmdline").read_bytes().split(b"\0")
            ]
            owner = processes.owner(int(folder.name))
        except OSError:
            continue
        options = _options(words)
        if options is None or owner is None or _is_in_container(folder):
            continue
        user = user_name(owner)
        given = dict(zip(options[::2], options[1::2], strict=False))
        usual = SYSTEM_STATE if owner == 0 and not options else ""
        yield Agent(user, given.get("--state-dir", usual), int(folder.name), options)


def _options(words: Sequence[str]) -> tuple[str, ...] | None:
    """Return the options with which a daemon was started that name its places; None if this is not one."""
    names = [os.path.basename(word) for word in words[:3]]  # noqa: PTH119  # it is text already
    if _PROGRAM not in names:
        return None
    command, *rest = [*words[names.index(_PROGRAM) + 1 :], ""]
    if command != "run" or "--once" in rest:
        return None
    flat = [
        part
        for word in rest
        for part in (word.split("=", 1) if word.startswith("--") else [word])
    ]
    pairs = [pair for pair in itertools.pairwise(flat) if pair[0] in _PLACES]
    return tuple(part for pair in pairs for part in pair)


def _is_in_container(process: Path) -> bool:
    """Return whether a process surely has another root directory: its paths mean other files."""
    try:
        return not (process / "root").samefile("/")
    except OSError:  # this user may not see it
        return False
