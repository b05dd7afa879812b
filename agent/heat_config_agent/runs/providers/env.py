"""The provider `env`: a variable of the agent. `env:DB` is `SECRET_DB`; no other variable can be had."""

from __future__ import annotations

import os
import sys

from heat_config_agent.runs.providers import VARIABLE, ProviderError, folder


def _variable(name: str) -> bytes:
    value = os.environ.get(VARIABLE + name)
    if value is None:
        raise ProviderError(
            f"the agent was started without the variable {VARIABLE}{name}"
        )
    return os.fsencode(value)


if __name__ == "__main__":
    sys.exit(folder.answer(_variable))
