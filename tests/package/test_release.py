"""`packaging/release`: what has to agree before a release, and what it makes.

Building is left to `make`, which other tests are about.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
from pathlib import Path

import pytest

from heat_config_agent import __version__
from notes import NotReadyError, check, notes
from package.built import ROOT, build, package
from package.wheels import wheel

pytestmark = [pytest.mark.takes(120), pytest.mark.timeout(600)]

NEEDED = (
    "packaging",
    "agent/heat_config_agent/__init__.py",
    "pyproject.toml",
    "tests/install-tools",
)
"""The files of the checkout that a release needs besides what is built."""

CHANGELOG = f"""\
# Changelog

## Unreleased

## {__version__} - 2026-11-25

- It works.

## 0.1.0 - 2026-01-01

- Begun.
"""

MAKE = """\
#!/bin/sh
for word; do case $word in DIST=*) place=${word#DIST=} ;; esac; done
cp "$BUILT" "$place"
[ -z "${SPOILT:-}" ] || date +%N >>"$place/$(basename "$BUILT")"
"""
"""Stands for make: it has built already."""


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A repository at a tag, ready for a release; `make` in it takes what is built already."""
    folder = tmp_path / "checkout"
    for name in NEEDED:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        subprocess.run(["cp", "-R", ROOT / name, folder / name], check=True)
    (folder / "CHANGELOG.md").write_text(CHANGELOG)
    (folder / ".gitignore").write_text("/bin\n/.venv\n/dist\n__pycache__\n")
    (folder / ".venv").symlink_to(ROOT / ".venv")
    (folder / "bin").mkdir()
    (folder / "bin/make").write_text(MAKE)
    (folder / "bin/make").chmod(0o755)
    git(folder, "init", "--quiet")
    commit(folder, "release")
    return folder


def git(folder: Path, *words: str) -> None:
    """Have git do something in a repository."""
    who = [
        "-c",
        "user.name=A",
        "-c",
        "user.email=a@example.org",
        "-c",
        "commit.gpgsign=false",
    ]
    subprocess.run(["git", "-C", folder, *who, *words], check=True, capture_output=True)


def commit(folder: Path, words: str) -> None:
    """Commit all there is, and move the tag of the version there."""
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--allow-empty", "--message", words)
    git(folder, "tag", "--force", f"v{__version__}")


def release(
    folder: Path, built: Path, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Make a release of one file that is built already."""
    words = {
        "PATH": f"{folder}/bin:{os.environ['PATH']}",
        "BUILT": str(built),
        "KINDS": "dist",
        **environment,
    }
    return subprocess.run(
        [folder / "packaging/release", folder / "dist/release"],
        env={**os.environ, **words},
        capture_output=True,
        text=True,
        check=False,
    )


def test_release_has_all_files_and_names_the_remaining_steps(checkout: Path) -> None:
    """A release has the file, its checksums, a bill of materials and notes, and names the remaining steps."""
    if not (ROOT / ".venv/sbom/bin/cyclonedx-py").exists():
        pytest.skip(
            "cyclonedx-py is not installed: «tests/install-tools sbom» (make test-all does it)"
        )
    built = wheel()
    done = release(checkout, built)
    assert done.returncode == 0, done.stderr
    assert f"built twice, the same bytes: {built.name}" in done.stdout
    assert f"git push origin v{__version__}" in done.stdout
    folder = checkout / "dist/release"
    materials = f"heat-config-agent-{__version__}.cdx.json"
    names = {built.name, materials, "release-notes.md"}
    assert {path.name for path in folder.iterdir()} == {*names, "SHA256SUMS"}
    sums = {
        f"{hashlib.sha256((folder / name).read_bytes()).hexdigest()}  {name}"
        for name in names
    }
    assert set((folder / "SHA256SUMS").read_text().splitlines()) == sums
    assert (folder / "release-notes.md").read_text() == (
        f"# heat-config-agent {__version__} - 2026-11-25\n\n- It works.\n"
    )
    # cyclonedx-py holds it to the schema before it writes it
    bill = json.loads((folder / materials).read_text())
    assert (bill["bomFormat"], bill["specVersion"]) == ("CycloneDX", "1.6")
    ours = bill["metadata"]["component"]
    assert (ours["name"], ours["version"]) == ("heat-config-agent", __version__)
    listed = {each["name"].lower(): each for each in bill["components"]}
    assert {"psutil", "pyyaml", "requests", "urllib3"} <= set(listed)
    assert all(
        each["version"] and each["purl"].startswith("pkg:pypi/")
        for each in listed.values()
    )
    assert str(checkout) not in json.dumps(bill)
    again = release(checkout, built)
    assert again.returncode == 1
    assert again.stderr.endswith(
        "is not empty: name a new folder, or remove what is in it\n"
    )


def test_inconsistent_release_is_refused(checkout: Path) -> None:
    """Before anything is built: changes, a tag that is elsewhere or missing, a changelog of another version."""
    built = checkout / "CHANGELOG.md"
    (checkout / "new").touch()
    assert "the checkout is not clean" in release(checkout, built).stderr
    git(checkout, "add", "--all")
    git(checkout, "commit", "--quiet", "--message", "one more")
    assert (
        f"the tag v{__version__} is not at this commit"
        in release(checkout, built).stderr
    )
    git(checkout, "tag", "--delete", f"v{__version__}")
    assert f"there is no tag v{__version__}" in release(checkout, built).stderr
    (checkout / "CHANGELOG.md").write_text(CHANGELOG.replace(__version__, "7.0"))
    commit(checkout, "another version")
    done = release(checkout, built)
    assert (
        done.stderr
        == f"CHANGELOG.md has no section «## {__version__} - YEAR-MONTH-DAY» with lines in it: write it\n"
    )
    assert done.returncode == 1
    assert not (checkout / "dist").exists()


def test_release_fails_on_an_unreproducible_file(checkout: Path) -> None:
    """A file whose second build has other bytes is named, and nothing is made of it."""
    done = release(checkout, checkout / "CHANGELOG.md", SPOILT="yes")
    assert done.returncode == 1
    assert "CHANGELOG.md differs from one build to the next" in done.stderr
    assert not (checkout / "dist/release/SHA256SUMS").exists()


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        (
            "## Unreleased\n",
            "## Unreleased\n\n- More.\n",
            "has to begin with an empty section «Unreleased»",
        ),
        ("## Unreleased\n\n", "", "has to begin with an empty section «Unreleased»"),
        (
            "## Unreleased\n",
            "## Unreleased\n\n## 9.0 - 2027-01-01\n\n- Later.\n",
            "the newest section",
        ),
        ("- It works.\n", "", "with lines in it"),
        (" - 2026-11-25", "", "YEAR-MONTH-DAY"),
    ],
)
def test_a_changelog_that_is_not_ready(old: str, new: str, words: str) -> None:
    """The newest section is that of the version, with its day, and nothing is left under «Unreleased»."""
    check(__version__, CHANGELOG)
    assert notes("0.1.0", CHANGELOG).endswith("\n\n- Begun.\n")
    with pytest.raises(NotReadyError, match=words):
        check(__version__, CHANGELOG.replace(old, new))


def test_the_debian_package_is_the_same_bytes_each_time(tmp_path: Path) -> None:
    """Nothing of the time and place of a build is in it."""
    deb = package("deb")
    build("deb", tmp_path)
    assert (tmp_path / deb.name).read_bytes() == deb.read_bytes()
