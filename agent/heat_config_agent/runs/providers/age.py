"""The provider `age`: `NAME.age` in the folder of secrets, encrypted to the identity of this machine."""

from __future__ import annotations

import os
import sys

from heat_config_agent.runs.providers import ProviderError, folder, programs

IDENTITY = "HEAT_AGE_IDENTITY"
"""The variable with the path of the file that has the identity. It is not in the folder of secrets, where `file` could
show it."""


def _decrypted(name: str) -> bytes:
    data, identity = folder.read(name, ".age"), os.environ.get(IDENTITY, "")
    if not os.path.isabs(identity) or not os.path.exists(identity):  # noqa: PTH110, PTH117  # never raise
        raise ProviderError(
            f"there is no identity {identity}; make one with `age-keygen -o {identity}`"
        )
    return programs.filtered(["age", "--decrypt", "--identity", identity], data)


if __name__ == "__main__":
    sys.exit(folder.answer(_decrypted))
