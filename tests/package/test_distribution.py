"""The agent on the Python modules of this machine's distribution, which are older than those of the environment."""

from __future__ import annotations

import subprocess
import sys
import sysconfig

import pytest

from package.built import ROOT
from support import pace

pytestmark = pytest.mark.takes(120)

TESTS = (
    "test_half_of_a_body_is_none or test_request_on_a_broken_connection_is_not_repeated"
)
"""Where urllib3 before 2.0 does otherwise: it takes half of a body for all of it."""

WAYS = str(ROOT / "tests/unit/agent/web/test_ways.py")

PROGRAM = """
import sys
import requests, urllib3, yaml, psutil
modules = [requests, urllib3, yaml, psutil]
assert all("/dist-packages/" in module.__file__ for module in modules), modules
sys.path[:0] = sys.argv[1:4]
sys.path.append(sys.argv[4])  # pytest, and no module that the distribution has
import pytest
sys.exit(pytest.main(sys.argv[5:]))
"""


def test_http_is_as_truthful_with_the_modules_of_the_distribution() -> None:
    """Through proxies and without: an answer that breaks off is none, and the one that failed is named."""
    version = subprocess.run(
        [
            "/usr/bin/python3",
            "-c",
            "import sys, requests, psutil, yaml; print(*sys.version_info[:2])",
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    if version.stdout.split() != [str(part) for part in sys.version_info[:2]]:
        pytest.skip(
            "/usr/bin/python3 lacks modules or is of another version: apt-get install python3-requests"
        )
    folders = [str(ROOT / name) for name in ("agent", "hooks", "tests")]
    words = [
        "-q",
        "-p",
        "no:cacheprovider",
        "-p",
        "no:unraisableexception",
        "-k",
        TESTS,
    ]
    done = subprocess.run(
        [
            "/usr/bin/python3",
            "-c",
            PROGRAM,
            *folders,
            sysconfig.get_path("purelib"),
            *words,
            WAYS,
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=pace.seconds(200),
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr
    assert " passed" in done.stdout
