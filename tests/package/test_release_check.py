"""The metadata that a package index shows, and the workflow that publishes: what a release without them would lack."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from email.message import Message
from email.parser import Parser
from pathlib import Path
from typing import Any

import pytest
import yaml

import published
from heat_config_agent import __version__
from package.built import ROOT
from package.wheels import wheel
from support import pace

ADDRESS = "https://forge.example/heat/agent"

WORKFLOW = ROOT / ".github/workflows/release.yml"


def message(**changes: str) -> Message:
    """Return the metadata of a package that an index accepts, with some of it changed; an empty value leaves it out."""
    values = {
        "Version": "1.0",
        "Summary": "Configures",
        "License": "Apache-2.0",
        "Requires-Python": ">=3.10",
        "Author": "Ada",
        "Description-Content-Type": "text/markdown",
        **changes,
    }
    lines = [
        f"{name.replace('_', '-')}: {text}" for name, text in values.items() if text
    ]
    lines += [f"Classifier: {topic} :: Other" for topic in published.TOPICS]
    lines += [f"Project-URL: {label}, {ADDRESS}" for label in published.NEEDED]
    return Parser().parsestr("\n".join(lines) + f"\n\n{'word ' * 50}[a]({ADDRESS})\n")


def test_whole_metadata_has_no_mistake() -> None:
    """Neither in itself, nor in what the home decides."""
    assert list(published.mistakes(message(), "1.0")) == []
    assert list(published.without_home(message())) == []


@pytest.mark.parametrize(
    ("changes", "mistake"),
    [
        ({"Version": "2.0"}, "the version is 2.0, not 1.0"),
        ({"Summary": ""}, "Summary is missing"),
        ({"Description-Content-Type": ""}, "the README is not declared as Markdown"),
    ],
)
def test_incomplete_metadata_is_named(changes: dict[str, str], mistake: str) -> None:
    """The mistake is one line."""
    assert list(published.mistakes(message(**changes), "1.0")) == [mistake]


def test_missing_classifiers_urls_and_readme_are_named() -> None:
    """Packages are found by their classifiers, and links of a README have to be whole."""
    bare = message()
    del bare["Classifier"]
    del bare["Project-URL"]
    bare.set_payload("[here](docs/install.md) and [there](#try-it)")
    found = list(published.mistakes(bare, "1.0"))
    assert found[0] == "no classifier begins with «Development Status»"
    assert found[-1] == "the README is missing"
    assert list(published.without_home(bare)) == [
        "it has no URL for Homepage, Documentation, Source, Changelog, Issues",
        "1 links of the README lead nowhere, the first to docs/install.md",
    ]


@pytest.mark.slow
def test_packages_have_what_an_index_shows(tmp_path: Path) -> None:
    """The packages of this checkout; without a home, that is a mistake only for a release."""
    folder = wheel().parent
    found = published.metadata(folder, __version__)
    assert len(found) == 3
    for name, each in found.items():
        assert list(published.mistakes(each, __version__)) == [], name
    (tmp_path / "empty").mkdir()
    for place, needed, code in (
        (folder, "no", 0),
        (folder, "yes", int(not _home())),
        (tmp_path / "empty", "no", 1),
    ):
        done = subprocess.run(
            [sys.executable, published.__file__, place, __version__],
            env={"HOME_NEEDED": needed},
            capture_output=True,
            text=True,
            check=False,
            timeout=pace.seconds(60),
        )
        assert done.returncode == code, done.stdout + done.stderr
        assert ("hint: put the address" in done.stdout) == (
            place == folder and not _home()
        )


def _home() -> list[str]:
    lines = (ROOT / "packaging/home").read_text().splitlines()
    return [line for line in lines if line and not line.startswith("#")]


@pytest.fixture
def sources(tmp_path: Path) -> Path:
    """The files of the checkout from which the packages for Python are built."""
    folder = tmp_path / "sources"
    ignored = shutil.ignore_patterns("__pycache__")
    for name in ("agent", "hooks", "systemd", "packaging", "docs/schemas"):
        shutil.copytree(ROOT / name, folder / name, ignore=ignored)
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, folder / name)
    return folder


def built(sources: Path, place: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Build the wheel of a part of the sources, or skip the test, saying what is missing."""
    python = ROOT / ".venv/dist/bin/python"
    if not python.exists():
        pytest.skip(
            "build is not installed: «tests/install-tools dist» (make test-all does it)"
        )
    return subprocess.run(
        [python, "-m", "build", "--wheel", "--outdir", folder, sources / place],
        capture_output=True,
        text=True,
        check=False,
        timeout=pace.seconds(300),
    )


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_address_of_the_home_is_in_one_place(sources: Path, tmp_path: Path) -> None:
    """One line gives both packages their URLs, and the README whole links; an unusable line is refused."""
    home = sources / "packaging/home"
    home.write_text(f"# a comment\n{ADDRESS}\n")
    for place in (".", "packaging/compat"):
        done = built(sources, place, tmp_path / "dist")
        assert done.returncode == 0, done.stdout + done.stderr
    found = published.metadata(tmp_path / "dist", __version__)
    assert len(found) == 2
    for each in found.values():
        assert list(published.without_home(each)) == []
        urls = each.get_all("Project-URL", [])
        assert f"Homepage, {ADDRESS}" in urls
        assert f"Changelog, {ADDRESS}/blob/v{__version__}/CHANGELOG.md" in urls
    [ours] = [each for each in found.values() if each["Name"] == "heat-config-agent"]
    link = f"]({ADDRESS}/blob/v{__version__}/docs/decisions/README.md)"
    assert link in str(ours.get_payload())
    home.write_text("http://forge.example/\n")
    done = built(sources, ".", tmp_path / "dist")
    assert done.returncode != 0
    assert (
        "the address of the home is one line: https://HOST/PATH"
        in done.stdout + done.stderr
    )


def jobs() -> dict[str, dict[str, Any]]:
    """Return the jobs of the workflow."""
    content = yaml.safe_load(WORKFLOW.read_text())
    assert content["permissions"] == {"contents": "read"}
    found: dict[str, dict[str, Any]] = content["jobs"]
    return found


def test_workflow_has_no_secret_and_no_more_rights_than_it_needs() -> None:
    """Trusted publishing needs an identity, and no token; a job that builds may write nothing to the repository."""
    text = WORKFLOW.read_text()
    assert "secrets." not in text
    assert not re.findall(r"password|username|repository-url", text)
    rights = {name: job["permissions"] for name, job in jobs().items()}
    assert rights == {
        "build": {"contents": "read", "id-token": "write", "attestations": "write"},
        "index": {"id-token": "write"},
        "page": {"contents": "write"},
    }


def test_workflow_publishes_only_a_tag_and_what_it_has_built() -> None:
    """Started by hand it publishes nothing, and what it publishes has been attested."""
    every = jobs()
    assert every["index"]["environment"] == "release"
    for name in ("index", "page"):
        assert every[name]["if"] == "github.ref_type == 'tag'"
        first = every[name]["steps"][0]
        assert first["uses"].startswith("actions/download-artifact@")
    assert (every["index"]["needs"], every["page"]["needs"]) == ("build", "index")
    steps = [step.get("uses", step.get("run")) for step in every["build"]["steps"]]
    order = [
        next(n for n, step in enumerate(steps) if word in step)
        for word in ("release-check", "packaging/release", "provenance", "upload")
    ]
    assert order == sorted(order)


def test_workflow_runs_what_the_repository_has() -> None:
    """Programs of the repository exist and may run, and every action has a version."""
    steps = [step for job in jobs().values() for step in job["steps"]]
    for step in steps:
        if "uses" in step:
            assert re.fullmatch(r"[\w/-]+@(v\d+|release/v\d+)", step["uses"])
        elif step["run"].startswith("packaging/"):
            assert (ROOT / step["run"]).stat().st_mode & 0o111, step["run"]
