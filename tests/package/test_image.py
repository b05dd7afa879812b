"""The container image: without privileges and with a read-only root, for one document and as a daemon."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from package.built import ROOT, package
from support import pace
from support.containers import Podman, own_podman, podman
from support.loopback import wait_until
from support.tools import need_root
from system.booted import small_debian

pytestmark = [pytest.mark.slow, pytest.mark.takes(120), pytest.mark.timeout(900)]

__all__ = ["own_podman", "podman"]

FOLDER = ROOT / "packaging/container"

IMAGE = "localhost/heat-config-agent:test"

BASE = "localhost/small-debian:test"

SAFE = ("--read-only", "--cap-drop=all", "--security-opt=no-new-privileges")

SHOWS = """\
#!/bin/sh
id -u >$heat_outputs_path.user
if touch /etc/written 2>/dev/null; then echo yes; else echo no; fi >$heat_outputs_path.writable
grep CapEff /proc/self/status >$heat_outputs_path.capabilities
"""

LEAVES = """\
#!/bin/sh
# Process 1 gets these as they end.
for number in 1 2 3; do (sleep 0.2 & ) ; done
"""

ZOMBIES = """\
import pathlib
states = [each.read_text().rpartition(')')[2].split()[0] for each in pathlib.Path('/proc').glob('[0-9]*/stat')]
print(states.count('Z'), pathlib.Path('/proc/1/comm').read_text().strip())
"""


@pytest.fixture(scope="module")
def image(own_podman: Podman) -> Iterator[str]:
    """The image, built of this checkout on a small Debian, so that no archive of packages is asked."""
    need_root()
    context = own_podman.folder / "context"
    context.mkdir()
    shutil.copy(package("deb"), context)
    archive = own_podman.folder / "base.tar"
    words = ["tar", "--create", f"--file={archive}", "--one-file-system"]
    subprocess.run([*words, f"--directory={small_debian()}", "."], check=True)
    own_podman("import", str(archive), BASE)
    archive.unlink()
    own_podman(
        "build",
        *("--isolation=chroot", "--network=host", "--layers=false", "--pull=never"),
        *(f"--build-arg=BASE={BASE}", f"--file={FOLDER}/Containerfile"),
        *(f"--tag={IMAGE}", str(context)),
    )
    yield IMAGE
    own_podman("rmi", "--force", IMAGE, BASE)


def test_make_builds_the_image_of_the_package(tmp_path: Path) -> None:
    """Podman gets the Containerfile, the base, and a folder that has the agent's package and nothing else."""
    package("deb")  # or the test is skipped, as it says what is missing
    podman = tmp_path / "podman"
    podman.write_text('#!/bin/sh\necho "$*"\nfor last; do :; done\nls "$last"\n')
    podman.chmod(0o755)
    done = subprocess.run(
        ["make", "--silent", "image", "BASE=small"],
        cwd=ROOT,
        env={**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        check=False,
        timeout=pace.seconds(200),
    )
    assert done.returncode == 0, done.stdout + done.stderr
    words, *files = done.stdout.splitlines()[-2:]
    assert words.startswith("build --build-arg BASE=small --file packaging/container/")
    assert "--tag heat-config-agent " in words
    assert [each for each in files if each.startswith("heat-config-agent_")] == files
    assert not Path(words.split()[-1]).exists()


def documents(folder: Path, **configs: str) -> Path:
    """Write a document with a script for each name, and return its folder, which everybody may read."""
    folder.mkdir(exist_ok=True)
    folder.chmod(0o755)
    entries = [
        {
            "id": f"{name}-1",
            "name": name,
            "group": "script",
            "config": config,
            "outputs": [
                {"name": each} for each in ("user", "writable", "capabilities")
            ],
        }
        for name, config in configs.items()
    ]
    path = folder / "site.json"
    path.write_text(json.dumps({"deployments": entries}))
    path.chmod(0o644)
    return folder


def test_document_is_applied_without_privileges(podman: Podman, image: str) -> None:
    """The run has another user than root, no capability, and a root that it cannot write to."""
    folder = documents(podman.folder / "documents", web=SHOWS)
    done = podman(
        *("run", "--rm", *SAFE, f"--volume={folder}:/documents:ro", image),
        *("apply", "/documents/site.json", "--json"),
    )
    [web] = json.loads(done)["data"]["deployments"]
    assert web["state"] == "ok"
    values = {name: str(web["values"][name]).strip() for name in ("user", "writable")}
    assert values == {"user": "65532", "writable": "no"}
    assert str(web["values"]["capabilities"]).split() == ["CapEff:", "0000000000000000"]


def test_daemon_applies_a_folder_and_reaps_what_runs_leave(
    podman: Podman, image: str
) -> None:
    """Process 1 is the agent; its state is in a volume, and outlives the container."""
    folder = documents(podman.folder / "documents", web=SHOWS, orphans=LEAVES)
    words = ("--name=agent", *SAFE, "--volume=agent-state:/state")
    start = ("run", "--detach", *words, f"--volume={folder}:/documents:ro", image)
    podman(*start)
    within = ("exec", "agent")
    podman(*within, "heat-config-agent", "wait", "orphans", "--wait-for", "60")
    podman(*within, "heat-config-agent", "wait", "web", "--wait-for", "60")
    wait_until(
        lambda: (
            podman(*within, "python3", "-c", ZOMBIES).split()[0] == "0"
            and "sleep" not in podman(*within, "sh", "-c", "cat /proc/[0-9]*/comm")
        ),
        30,
    )
    assert "heat-config" in podman(*within, "python3", "-c", ZOMBIES)
    began = podman(*within, "heat-config-agent", "show", "web", "--json")
    podman("stop", "agent")
    assert podman.containers()["agent"]["State"]["ExitCode"] == 0
    podman("rm", "agent")
    podman(*start)
    podman(*within, "heat-config-agent", "wait", "web", "--wait-for", "60")
    again = podman(*within, "heat-config-agent", "show", "web", "--json")
    started = [json.loads(each)["data"]["started"] for each in (began, again)]
    assert started[0] == started[1]
