"""A booted machine with a real podman that has quadlet, and an image: that of Debian's next release."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from support.containers import APPLETS, IMAGE
from support.tools import need
from system.booted import Booted, booted, small_debian

RELEASE = "trixie"

_STORAGE = '[storage]\ndriver = "vfs"\nrunroot = "/run/containers/storage"\ngraphroot = "/var/lib/containers/storage"\n'
"""Its disk is an overlay already."""

_CONTAINERS = """\
[containers]
netns = "host"
default_ulimits = []
default_sysctls = []
keyring = false
pids_limit = 0
[engine]
runtime = "within"
[engine.runtimes]
within = ["/usr/local/bin/within"]
"""

_RUNTIME = """\
#!/bin/sh
# crun on a machine that is a container itself, which may neither make networks nor divide its control groups further.
[ "$1" != --systemd-cgroup ] || shift
[ "$1 $2" != "create --bundle" ] || sed -i 's/{"type":"network"},//; s/,{"type":"network"}//' "$3/config.json"
exec /usr/bin/crun --cgroup-manager=disabled "$@"
"""


@contextmanager
def machine_with_podman(folder: Path) -> Iterator[Booted]:
    """Boot the machine; `folder` is for the image, which has nothing but busybox."""
    (folder / "image/bin").mkdir(parents=True)
    shutil.copy(need("busybox", "busybox-static"), folder / "image/bin/busybox")
    for name in APPLETS:
        (folder / "image/bin" / name).symlink_to("busybox")
    with booted(root=small_debian(RELEASE)) as machine:
        archive = f"--file={machine.disk}/root/image.tar"
        subprocess.run(
            ["tar", "--create", archive, f"--directory={folder}/image", "bin"],
            check=True,
        )
        (machine.disk / "etc/containers").mkdir(exist_ok=True)
        (machine.disk / "etc/containers/storage.conf").write_text(_STORAGE)
        (machine.disk / "etc/containers/containers.conf").write_text(_CONTAINERS)
        (machine.disk / "usr/local/bin/within").write_text(_RUNTIME)
        (machine.disk / "usr/local/bin/within").chmod(0o755)
        done = machine.run(
            "podman",
            "import",
            "--quiet",
            "--change=ENV PATH=/bin",
            "/root/image.tar",
            IMAGE,
        )
        assert done.code == 0, done.err
        yield machine
