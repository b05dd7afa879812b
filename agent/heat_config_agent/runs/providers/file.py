"""The provider `file`: the content of a file in the folder of secrets."""

from __future__ import annotations

import sys

from heat_config_agent.runs.providers import folder

if __name__ == "__main__":
    sys.exit(folder.answer(folder.read))
