"""The ssh client as a process: its pipes, and the reason in words when it ends by itself."""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
from collections.abc import Sequence

from heat_config_agent.model.errors import AgentError
from heat_config_stack.hosts.frames import Frames
from heat_config_stack.hosts.host import Host

_TAIL = 4096
"""Bytes of the last output of the client that are kept for the reason of a failure."""

_LASTING = re.compile(
    "host key verification failed|identification has changed|permission denied|no matching host key|"
    "too many authentication failures|could not resolve hostname|bad configuration option|bad owner or permissions|"
    "jumphost loop|account is currently not available|a password is required|a terminal is required|not in the sudoers",
    re.IGNORECASE,
)
"""The words of the client, or of sudo, about a host that does not come right by itself."""

_PORT = re.compile(r"(?<=\]):\d+$|^(?P<name>[^:]*):\d+$")
"""The port after an address: of IPv6, that is in brackets."""

_NOT_FOUND = (126, 127)
"""The exit codes of a shell that cannot start a program."""

_END = 2.0
"""Seconds in which a client has to end that has nothing left to do."""

_PATIENCE = 10.0
"""Seconds in which a client has to read its configuration."""

_MOST_JUMPS = 16
"""The number of jump hosts on the way to a host at most."""


class Ended(AgentError):  # noqa: N818  # it is the session that has ended
    """A session has ended by itself."""

    def __init__(self, why: str, *, lasting: bool) -> None:
        """Say why. It is `lasting` if another try ends in the same way."""
        super().__init__(why)
        self.lasting = lasting


def check_way(host: Host) -> None:
    """Raise `Ended` if the jump hosts on the way to a host lead back to one of them.

    The client notices only a host that is its own jump host. For a longer loop it starts processes without end, so
    nothing may start it before this check.
    """
    address, seen = host.address, [host.address]
    while jump := _jump_of(host, address):
        if jump in seen:
            raise Ended(f"jumphost loop: {' → '.join([*seen, jump])}", lasting=True)
        if len(seen) > _MOST_JUMPS:
            why = f"more than {_MOST_JUMPS} jump hosts are on the way to it"
            raise Ended(why, lasting=True)
        seen.append(jump)
        address = jump


def _jump_of(host: Host, address: str) -> str:
    """Return the jump host that the configuration of the client has for an address; empty if it has none."""
    words = ["ssh", "-G", *(["-F", host.ssh_config] if host.ssh_config else [])]
    try:
        done = subprocess.run(
            [*words, "--", address],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_PATIENCE,
            check=False,
        )
    except OSError:
        return ""  # whoever starts the client hears why
    except subprocess.TimeoutExpired as error:
        why = f"ssh has not read its configuration within {_PATIENCE:g} s"
        raise Ended(why, lasting=False) from error
    for line in done.stdout.decode("utf-8", "replace").splitlines():
        key, _, value = line.partition(" ")
        if key == "proxyjump" and value != "none":
            first = value.partition(",")[0].removeprefix("ssh://").rpartition("@")[2]
            return _PORT.sub(lambda port: port["name"] or "", first).strip("[]")
    return ""


class Client:
    """A client that runs."""

    def __init__(self, words: Sequence[str], agent: str) -> None:
        """Start it. `agent` is the command of the agent on the host, for messages. Raises OSError."""
        self._agent = agent
        self._said = bytearray()
        self._process = process = subprocess.Popen(
            words,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
            start_new_session=True,  # a «^C» is for this process: the session ends with it
        )
        assert process.stdin is not None  # noqa: S101  # all three are pipes
        assert process.stdout is not None  # noqa: S101
        assert process.stderr is not None  # noqa: S101
        self._stderr = process.stderr
        os.set_blocking(self._stderr.fileno(), False)
        self.frames = Frames(
            process.stdout.fileno(), process.stdin.fileno(), marked=False
        )

    @property
    def descriptors(self) -> list[int]:
        """The descriptors that are readable when there is something to do."""
        more = [] if self._stderr.closed else [self._stderr.fileno()]
        return [self.frames.reader, *more]

    def listen(self) -> None:
        """Read what the client says of itself."""
        if self._stderr.closed:
            return
        with contextlib.suppress(BlockingIOError):
            while piece := os.read(self._stderr.fileno(), 65536):
                self._said += piece
                del self._said[:-_TAIL]
            self._stderr.close()

    def end(self, *, is_greeted: bool) -> Ended:
        """Return why the session has ended by itself; `is_greeted` if the host had said `hello`."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            if not self.frames.trouble:
                self._process.wait(_END)
        self.listen()
        if self.frames.trouble:
            return Ended(self.frames.trouble, lasting=False)
        code = self._process.poll()
        lines = self._said.decode("utf-8", "replace").strip().splitlines()
        known = [line for line in lines if _LASTING.search(line)]
        said = (known or lines or [self.frames.banner])[-1].strip()[:200]
        if code in _NOT_FOUND and not is_greeted:
            why = f"there is no agent there: {said or self._agent}"
            hint = "install it, or say with 'command' where it is"
            return Ended(f"{why} ({hint})", lasting=True)
        why = said or f"the connection has ended (exit code {code})"
        return Ended(why, lasting=bool(known) and not is_greeted)

    def close(self, *, at_once: bool = False) -> None:
        """End the client: the host sees it, and ends its side."""
        if at_once and self._process.poll() is None:
            self._process.kill()
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                stream.close()
        try:
            self._process.wait(_END)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._stderr.close()
