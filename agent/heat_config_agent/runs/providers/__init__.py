"""Providers: small executables that know secrets. `docs/secrets.md` has their protocol.

An input can be a reference, `{secret: "SCHEME:REFERENCE"}`. The provider named SCHEME gets REFERENCE on its standard
input and prints the secret. An executable in a directory of providers overrides the built-in provider of its name.
"""

from __future__ import annotations

import contextlib
import os
import re
import selectors
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

SECONDS = 30.0
"""The time that a provider has for one secret."""

LARGEST = 1024 * 1024
"""The largest secret in bytes."""

BUILTIN = ("age", "barbican", "env", "file", "systemd-creds", "vault")
"""The built-in providers; each is a module of this package."""

VARIABLE = "SECRET_"
"""The beginning of the names of the variables of the agent that `env` may show."""

CA_FILE = "HEAT_CA_FILE"
"""The variable with the path of the trusted certificates; empty for the default ones."""

USER = "HEAT_DEPLOY_USER"
"""The variable with the user of Keystone whom the deployment names, as JSON; only `barbican` gets it."""

PASSED_ON = (
    "PATH",
    "HOME",
    "LANG",
    "LC_ALL",
    "HEAT_RUN",
    "http_proxy",
    "https_proxy",
    "no_proxy",
    "all_proxy",
)
"""The variables of the run that every provider gets; those of proxies also in capitals."""

_COMPLAINT = 4096
"""The most bytes of a provider's standard error that are kept."""

_SCHEME = re.compile(r"[a-z][a-z0-9-]{0,31}")


class ProviderError(Exception):
    """A secret cannot be had; the text says why, and contains no secret."""


def find(scheme: str, directories: Sequence[str]) -> list[str]:
    """Return the command of a provider. Raises ProviderError."""
    if not _SCHEME.fullmatch(scheme):
        raise ProviderError(f"{scheme[:40]!r} is not the name of a provider")
    for directory in directories:
        path = f"{directory}/{scheme}"
        try:
            status = Path(path).stat()
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:
            raise ProviderError(
                f"the provider {path} cannot be used: {error.strerror}"
            ) from error
        if status.st_uid not in (0, os.geteuid()) or status.st_mode & 0o022:
            raise ProviderError(
                f"the provider {path} cannot be used: other users may write to it"
            )
        if not stat.S_ISREG(status.st_mode) or not os.access(path, os.X_OK):
            raise ProviderError(
                f"the provider {path} cannot be used: it is not an executable file"
            )
        return [path]
    if scheme in BUILTIN:
        return [
            sys.executable,
            "-I",
            "-X",
            "utf8",
            "-m",
            f"{__name__}.{scheme.replace('-', '_')}",
        ]
    raise ProviderError(
        f"there is no provider {scheme!r}; the built-in ones are {', '.join(BUILTIN)}"
    )


def resolve(
    reference: str,
    directories: Sequence[str],
    environment: Mapping[str, str],
    seconds: float = SECONDS,
) -> str:
    """Return the secret that a reference, SCHEME:REFERENCE, stands for. Raises ProviderError."""
    scheme, _, name = reference.partition(":")
    command = find(scheme, directories)
    try:
        process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=dict(environment),
            cwd="/",
            start_new_session=True,
        )
    except OSError as error:
        raise ProviderError(
            f"the provider {scheme!r} cannot be started: {error.strerror}"
        ) from error
    try:
        value, complaint = _talk(process, name.encode(), time.monotonic() + seconds)
        code = process.wait(1)
    except (TimeoutError, subprocess.TimeoutExpired):
        raise ProviderError(
            f"the provider {scheme!r} has not ended after {seconds:g} s"
        ) from None
    finally:
        with contextlib.suppress(ProcessLookupError):  # also what it has started
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        for stream in (process.stdin, process.stdout, process.stderr):
            if stream is not None:
                stream.close()
    if code:
        why = _reason(complaint, value) or f"exit code {code}"
        raise ProviderError(f"the provider {scheme!r} has failed: {why}")
    return _text(value, scheme)


def _talk(
    process: subprocess.Popen[bytes], request: bytes, end: float
) -> tuple[bytes, bytes]:
    """Return the standard output and the end of the standard error of a provider. Raises TimeoutError."""
    if process.stdin is None or process.stdout is None or process.stderr is None:
        raise ValueError("a provider has three pipes")
    with contextlib.suppress(BrokenPipeError):
        # one that does not read is judged by its exit code
        # shorter than a pipe's buffer, so this does not wait
        process.stdin.write(request + b"\n")
        process.stdin.close()
    output, complaint = b"", b""
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        selector.register(process.stderr, selectors.EVENT_READ)
        while selector.get_map():
            ready = selector.select(max(end - time.monotonic(), 0))
            if not ready:
                raise TimeoutError
            for key, _ in ready:
                part = os.read(key.fd, 65536)
                if not part:
                    selector.unregister(key.fileobj)
                elif key.fileobj is process.stdout:
                    output += part
                    if len(output) > LARGEST + 1:  # the newline does not count
                        raise ProviderError(f"a secret has more than {LARGEST} bytes")
                else:
                    complaint = (complaint + part)[-_COMPLAINT:]
    return output, complaint


def _reason(complaint: bytes, value: bytes) -> str:
    """Return the last line of a standard error, without the secret that the provider has printed."""
    from heat_config_agent.masking import redaction  # noqa: PLC0415  # most providers do not fail
    from heat_config_agent.model.deployment import Input  # noqa: PLC0415

    printed = Input(name="secret", value=value.decode("utf-8", "replace"), hidden=True)
    lines = (
        redaction.search([printed])
        .hide(complaint.decode("utf-8", "replace"))
        .strip()
        .splitlines()
    )
    return lines[-1][:300] if lines else ""


def _text(value: bytes, scheme: str) -> str:
    """Return a secret as text, without one newline at its end. Raises ProviderError."""
    value = value.removesuffix(b"\n")
    if not value:
        raise ProviderError(
            f"the provider {scheme!r} has printed nothing: the secret is empty"
        )
    try:
        text = value.decode("utf-8")
    except UnicodeDecodeError:
        raise ProviderError(
            f"the secret of the provider {scheme!r} is not UTF-8 text"
        ) from None
    if "\0" in text:
        raise ProviderError(
            f"the secret of the provider {scheme!r} contains a NUL character"
        )
    return text
