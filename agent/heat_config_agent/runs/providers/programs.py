"""Programs that decrypt: from standard input to standard output."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence

from heat_config_agent.runs.providers import ProviderError


def filtered(command: Sequence[str], data: bytes) -> bytes:
    """Return the data as filtered by a program, which the provider's timeout ends. Raises ProviderError."""
    try:
        done = subprocess.run(command, input=data, capture_output=True, check=False)
    except FileNotFoundError:
        raise ProviderError(f"the program {command[0]} is not installed") from None
    except OSError as error:
        raise ProviderError(
            f"the program {command[0]} cannot be started: {error.strerror}"
        ) from error
    if done.returncode:
        lines = done.stderr.decode("utf-8", "replace").strip().splitlines()
        raise ProviderError(
            f"{command[0]}: {lines[0] if lines else f'exit code {done.returncode}'}"
        )
    return done.stdout
