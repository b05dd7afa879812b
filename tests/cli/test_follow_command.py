"""`heat-config-agent source sync` without a daemon: each call says where the stacks are, or what stands in the way."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from support import pace
from support.sites import Site

pytestmark = pytest.mark.skipif(
    shutil.which("git") is None, reason="git is missing: apt-get install git"
)

COMMAND = str(Path(sys.executable).parent / "heat-config-agent")


def follow(site: Site) -> tuple[int, str, str]:
    """Poll once, as a person does, and return the exit code and both outputs."""
    site.settings()
    command = [COMMAND, "source", "sync", "--config", str(site.folder / "agent.conf")]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=pace.seconds(60), check=False
    )
    return done.returncode, done.stdout, done.stderr


def test_problem_is_reported_at_every_call(tmp_path: Path) -> None:
    """A revision that is refused, and a source that is away, are said once in each call: also in the second one."""
    site = Site(tmp_path)
    site.repository.commit(
        {"stack.yaml": "heat_template_version: 2018-08-31\nresources: 7\n"}
    )
    for _ in range(2):
        code, out, err = follow(site)
        assert (code, out) == (1, "")
        assert err.count("is refused: ") == 1
        assert "resources" in err

    site.values["url"] = f"file://{tmp_path}/nowhere"
    for _ in range(2):
        code, out, err = follow(site)
        assert (code, out) == (1, "")
        assert (
            err.count(f"{tmp_path}/nowhere' does not appear to be a git repository")
            == 1
        )


def test_revision_is_printed_at_every_call(tmp_path: Path) -> None:
    """The revision in force is printed each time, even if it is not new."""
    site = Site(tmp_path)
    revision = site.commit("first")
    for _ in range(2):
        code, out, _ = follow(site)
        assert (code, out) == (0, f"web: is at revision {revision[:12]}\n")
    assert site.ran == ["first red"]


def test_followed_folder_is_its_documents(tmp_path: Path) -> None:
    """A folder of documents is applied in the order of names; an edit without a new id runs, as UPDATE."""
    site = Site(tmp_path)
    script = f'#!/bin/sh\necho "$deploy_action {{}}" >>{tmp_path}/log\n'

    def files(text: str) -> dict[str, str]:
        names = ("b", "a")
        return {
            f"site/{name}.json": json.dumps(
                [
                    {
                        "name": name,
                        "group": "script",
                        "config": script.format(
                            f"{name} {text if name == 'a' else ''}"
                        ),
                    }
                ]
            )
            for name in names
        }

    site.values["path"] = "site"
    for text in ("one", "two"):
        site.repository.commit(files(text))
        code, _, err = follow(site)
        assert code == 0, err

    assert (tmp_path / "log").read_text().split("\n") == [
        "CREATE a one",
        "CREATE b ",
        "UPDATE a two",
        "",
    ]
