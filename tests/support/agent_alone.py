"""The agent without the stack package: an environment in which `heat_config_stack` cannot be imported.

`make test-agent` runs the tests that concern the agent and the hooks in it: a reader of the agent, and a distribution
that leaves stacks out, need nothing of the other package. The environment uses what `.venv` has installed.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

ROOT = Path(__file__).parents[2]

FOLDERS = ("tests/unit/agent", "tests/unit/hooks")
"""The tests that need the agent and the hooks alone."""

COMMANDS = ("heat-config-agent", "heat-config-apply", "heat-config-hook")


def make(folder: Path) -> Path:
    """Make the environment in a folder, and return its Python."""
    shutil.rmtree(folder, ignore_errors=True)
    subprocess.run(
        [sys.executable, "-m", "venv", "--without-pip", folder / "python"], check=True
    )
    packages = folder / "agent"
    packages.mkdir()
    (packages / "heat_config_agent").symlink_to(ROOT / "agent" / "heat_config_agent")
    python = folder / "python" / "bin" / "python"
    (site,) = (folder / "python").glob("lib/python3*/site-packages")
    # Its lines are added to the path. The `.pth` file of `.venv`, which names both packages, is not read there.
    paths = [packages, ROOT / "hooks", sysconfig.get_path("purelib")]
    (site / "agent_alone.pth").write_text(
        "".join(f"{path}\n" for path in paths), encoding="utf-8"
    )
    for name in COMMANDS:
        _, _, program = (
            (Path(sys.executable).parent / name)
            .read_text(encoding="utf-8")
            .partition("\n")
        )
        command = python.with_name(name)
        command.write_text(f"#!{python}\n{program}", encoding="utf-8")
        command.chmod(0o755)
    return python


def main() -> int:
    """Run the tests; arguments go to pytest."""
    python = make(ROOT / ".venv" / "agent-alone")
    words = sys.argv[1:]
    os.chdir(ROOT)
    return subprocess.run(
        [python, "-m", "pytest", *words, *FOLDERS], check=False
    ).returncode


if __name__ == "__main__":
    sys.exit(main())
