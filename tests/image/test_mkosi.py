"""The example for mkosi, without an image. What comes of it is in test_images."""

from __future__ import annotations

import configparser
import subprocess

from package.built import ROOT
from tools import need


def test_its_packages_are_known() -> None:
    """Of what goes into the image, Debian has all but our own package."""
    need("apt-cache", "apt")
    found = configparser.ConfigParser()
    found.read(ROOT / "packaging/mkosi/mkosi.conf")
    wanted = set(found["Content"]["Packages"].split())
    known = subprocess.run(["apt-cache", "pkgnames"], capture_output=True, text=True, check=True).stdout.split()
    assert wanted - set(known) == {"heat-config-agent"}
