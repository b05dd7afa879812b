"""The size of an installation."""

from __future__ import annotations

import subprocess
import sys
import venv
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from importlib.metadata import Distribution, distributions
from pathlib import Path

from bench import peers
from bench.scenario import OURS, THEIRS, Figure, LackingError, Sample, Scenario, Subject

TREE = Path(__file__).parents[3]

_PARTS = (
    "heat-config/bin/*",
    "heat-config/os-apply-config/**/*",
    "heat-config/os-refresh-config/**/*",
    "*/install.d/hook-*.py",
)
"""The parts of heat-agents that an image gets."""

_WITHOUT = ("pip", "setuptools")
"""The packages that every environment has."""


def _ours(folder: Path) -> Sample:
    """Install this project in an environment of its own."""
    environment = folder / "environment"
    venv.create(environment, with_pip=False)
    pip = (
        sys.executable,
        "-m",
        "pip",
        "--quiet",
        "--disable-pip-version-check",
        "--python",
        environment / "bin/python",
    )
    done = subprocess.run(
        [*pip, "install", "--no-compile", TREE],
        check=False,
        capture_output=True,
        text=True,
    )
    if done.returncode:
        raise LackingError(
            f"the project cannot be installed in an environment of its own: {done.stderr.strip()}"
        )
    return _counted(environment)


def _theirs() -> Sample:
    """Count what there is of the programs that are replaced."""
    parts = [
        path for part in _PARTS for path in peers.AGENTS.glob(part) if path.is_file()
    ]
    return _counted(peers.FOLDER, parts)


def _counted(environment: Path, beside: Iterable[Path] = ()) -> Sample:
    """Count the packages of an environment, and one more if there are files beside them."""
    site = next(environment.glob("lib/python*/site-packages"))
    packages = [
        each for each in distributions(path=[str(site)]) if each.name not in _WITHOUT
    ]
    files = [*beside]
    more = 1 if files else 0
    files += [path for each in packages for path in _files(each)]
    return {
        "size": sum(path.stat().st_size for path in files),
        "packages": len(packages) + more,
        "files": len(files),
    }


def _files(package: Distribution) -> list[Path]:
    """Return a package's files, but for what Python makes of them when they are first used."""
    paths = [Path(str(package.locate_file(each))) for each in package.files or ()]
    return [path for path in paths if path.suffix != ".pyc" and path.exists()]


@contextmanager
def _subjects(folder: Path) -> Iterator[list[Subject]]:
    yield [Subject(OURS, lambda: _ours(folder)), Subject(THEIRS, _theirs)]


SCENARIOS = (
    Scenario(
        name="size",
        title="The project, and the programs that are replaced, installed with what they depend on",
        figures=(
            Figure("size", "size", "B"),
            Figure("packages", "packages", ""),
            Figure("files", "files", ""),
        ),
        subjects=_subjects,
        rounds=1,
        seconds=12,
        needs=peers.ready,
        warm_up=False,
        note=(
            "Each in a Python environment of its own, from the package index; the interpreter, pip and compiled "
            "files do not count. Of heat-agents it is what an image gets: scripts, templates and hooks."
        ),
    ),
)
