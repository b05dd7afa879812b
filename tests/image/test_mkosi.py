"""The example for mkosi, without an image. What comes of it is in test_images."""

from __future__ import annotations

import configparser
import subprocess

from package.built import ROOT
from support.tools import need


def content() -> configparser.SectionProxy:
    """Return the section about what is in the image."""
    example = configparser.ConfigParser(interpolation=None)
    example.read(ROOT / "packaging/mkosi/mkosi.conf")
    return example["Content"]


def test_the_serial_console_is_used_last() -> None:
    """The last console that the kernel is told is the one to which systemd writes."""
    assert content()["KernelCommandLine"].split()[-1].startswith("console=ttyS0")


def test_packages_of_the_image_are_in_debian() -> None:
    """Debian has all packages of the image except our own."""
    need("apt-cache", "apt")
    wanted = set(content()["Packages"].split())
    known = subprocess.run(
        ["apt-cache", "pkgnames"], capture_output=True, text=True, check=True
    ).stdout.split()
    assert wanted - set(known) == {"heat-config-agent"}
