"""The element for diskimage-builder, without an image: what its own scripts make of a small Debian."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from heat_config_hooks import HOOKS
from package.built import package
from support.loopback import Answer, SignalServer
from support.machine import Done, deployment
from support.tools import BUILDER, need, need_builder
from system.booted import Booted, booted
from system.test_service import deploy, eventually, shown, state_of

pytestmark = pytest.mark.timeout(600)

ELEMENTS = Path(__file__).parents[2] / "packaging/diskimage-builder"
ELEMENT = ELEMENTS / "heat-config-agent"
SCRIPTS = sorted(path for path in ELEMENT.glob("*.d/*") if path.is_file())
INSIDE = "/tmp/in_target.d"
"""Where diskimage-builder has the phases of all elements while they run in the image."""

THEIRS = (
    "[Service]\nExecStart=/usr/bin/sleep 1000\n[Install]\nWantedBy=multi-user.target\n"
)


@pytest.fixture(scope="module")
def deb() -> Path:
    """The package."""
    return package("deb")


@pytest.fixture(scope="module")
def builder() -> Path:
    """The folder of diskimage-builder."""
    need_builder()
    [folder] = BUILDER.parent.glob("lib/python3*/site-packages/diskimage_builder")
    return folder


@pytest.fixture
def image() -> Iterator[Booted]:
    """A small Debian, not booted."""
    with booted(boot=False, commands=False) as machine:
        yield machine


class Build:
    """The phases of the element, each run as diskimage-builder runs them."""

    def __init__(self, builder: Path, hooks: Path, **variables: str) -> None:
        self._builder = builder
        self._hooks = hooks
        self._variables = {"DISTRO_NAME": "debian", "DIB_RELEASE": "", **variables}
        shutil.copytree(ELEMENT, hooks)
        shutil.copy(builder / "lib/dib-run-parts", hooks)

    def outside(self, phase: str) -> Done:
        """Run a phase on the machine that builds."""
        done = subprocess.run(
            [self._hooks / "dib-run-parts", self._hooks / phase],
            env={**os.environ, "TMP_HOOKS_PATH": str(self._hooks), **self._variables},
            capture_output=True,
            text=True,
            check=False,
        )
        return Done(done.returncode, done.stdout, done.stderr)

    def inside(self, phase: str, image: Booted) -> Done:
        """Run a phase in the image."""
        programs = image.disk / "usr/local/bin"
        shutil.copy(self._builder / "elements/dpkg/bin/install-packages", programs)
        shutil.copytree(self._hooks, image.disk / INSIDE[1:])
        done = image.inside(
            f"{INSIDE}/dib-run-parts",
            f"{INSIDE}/{phase}",
            seconds=120,
            **self._variables,
        )
        shutil.rmtree(image.disk / INSIDE[1:])
        return done


def build(builder: Path, hooks: Path, image: Booted, **variables: str) -> str:
    """Run the whole element; return what it has said in the image."""
    build = Build(builder, hooks, **variables)
    said = ""
    for done in (
        build.outside("extra-data.d"),
        build.inside("install.d", image),
        build.inside("post-install.d", image),
    ):
        assert done.code == 0, done.out + done.err
        said += done.out
    return said


def test_scripts_of_the_element_pass_shellcheck() -> None:
    """Shellcheck finds nothing in them."""
    need("shellcheck", "shellcheck")
    done = subprocess.run(
        ["shellcheck", *SCRIPTS], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (0, "")


def test_element_passes_the_linter_of_diskimage_builder(builder: Path) -> None:
    """Diskimage-builder's own linter finds nothing in it, and its elements have what it depends on."""
    done = subprocess.run(
        [BUILDER / "dib-lint"],
        env={
            **os.environ,
            "PATH": f"{BUILDER}:{os.environ['PATH']}",
            "ELEMENTS_DIR": str(ELEMENTS),
            "LIB_DIR": str(ELEMENTS),
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    for each in (ELEMENT / "element-deps").read_text().split():
        assert (builder / "elements" / each).is_dir()


def test_tools_are_packages_of_the_distribution(builder: Path) -> None:
    """Each value of DIB_HEAT_CONFIG_AGENT_TOOLS is a tool of deployments, with a package that exists."""
    names = json.loads((ELEMENT / "pkg-map").read_text())["family"]["debian"]
    assert set(names) <= set(HOOKS)
    answer = subprocess.run(
        [
            builder / "elements/pkg-map/bin/pkg-map",
            "--pkg-map",
            ELEMENT / "pkg-map",
            "--distro",
            "debian",
            *names,
        ],
        capture_output=True,
        text=True,
        check=True,
    )
    assert answer.stdout.split() == list(names.values())
    known = subprocess.run(
        ["apt-cache", "pkgnames"], capture_output=True, text=True, check=True
    ).stdout.split()
    if missing := set(names.values()) - set(known):
        pytest.skip(
            f"apt does not know {', '.join(sorted(missing))}: on Debian 12, «apt-get update»"
        )


def test_an_image_has_the_agent_from_its_first_boot(
    builder: Path, deb: Path, image: Booted, tmp_path: Path
) -> None:
    """Nothing is started while it is built; the agent alone is enabled, also by the presets of the first boot."""
    build(builder, tmp_path / "hooks", image, DIB_HEAT_CONFIG_AGENT_PACKAGE=str(deb))
    assert not (image.disk / "var/lib/heat-config-agent").exists()
    (image.disk / "etc/machine-id").write_text("uninitialized\n")
    deploy(image, deployment("d1", "#!/bin/sh\ntouch /root/ran\n"))
    image.boot()
    eventually(image, lambda: state_of(image, "d1") == "ended")
    assert (image.disk / "root/ran").exists()
    assert shown(image, "UnitFileState") == "enabled"
    assert shown(image, "UnitFileState", "heat-config-apply") == "disabled"


def test_beside_os_collect_config_it_is_disabled(
    builder: Path, deb: Path, image: Booted, tmp_path: Path
) -> None:
    """Whichever of the two elements came first; the build says so, and so it is after the first boot."""
    theirs = image.disk / "etc/systemd/system/os-collect-config.service"
    theirs.write_text(THEIRS)
    hooks = Build(builder, tmp_path / "hooks", DIB_HEAT_CONFIG_AGENT_PACKAGE=str(deb))
    assert hooks.outside("extra-data.d").code == 0
    assert hooks.inside("install.d", image).code == 0
    image.inside("systemctl", "enable", theirs.name)  # after ours
    done = hooks.inside("post-install.d", image)
    assert (done.code, "os-collect-config is enabled in this image" in done.out) == (
        0,
        True,
    )
    (image.disk / "etc/machine-id").write_text("uninitialized\n")
    image.boot()
    assert (shown(image, "UnitFileState"), shown(image, "ActiveState")) == (
        "disabled",
        "inactive",
    )
    assert shown(image, "ActiveState", theirs.name) == "active"
    assert image.run("heat-config-agent", "migrate").code == 0
    assert (shown(image, "UnitFileState"), shown(image, "ActiveState")) == (
        "enabled",
        "active",
    )


def test_a_package_may_be_fetched(
    builder: Path, deb: Path, heat: SignalServer, tmp_path: Path
) -> None:
    """A package from a URL is installed only if its checksum is right."""
    need("curl", "curl")
    heat.named["agent.deb"] = Answer(body=deb.read_bytes())
    url = heat.url("agent.deb")
    for number, (sum_, code) in enumerate(
        {hashlib.sha256(deb.read_bytes()).hexdigest(): 0, "0" * 64: 1}.items()
    ):
        hooks = tmp_path / str(number)
        variables = {
            "DIB_HEAT_CONFIG_AGENT_PACKAGE": url,
            "DIB_HEAT_CONFIG_AGENT_SHA256": sum_,
        }
        assert Build(builder, hooks, **variables).outside("extra-data.d").code == code
        assert (hooks / "heat-config-agent.deb").read_bytes() == deb.read_bytes()


def test_without_a_package_there_is_no_image(
    builder: Path, image: Booted, heat: SignalServer, tmp_path: Path
) -> None:
    """A missing file, page or package is reported."""
    need("curl", "curl")
    heat.always = Answer(404)
    for number, name in enumerate((str(tmp_path / "no.deb"), heat.url("no.deb"))):
        done = Build(
            builder, tmp_path / str(number), DIB_HEAT_CONFIG_AGENT_PACKAGE=name
        ).outside("extra-data.d")
        assert done.code != 0
        assert "No such file" in done.err or "404" in done.err
    hooks = Build(builder, tmp_path / "named")
    assert hooks.outside("extra-data.d").code == 0
    done = hooks.inside("install.d", image)
    assert (
        done.code != 0,
        "the image's sources have no package heat-config-agent" in done.err,
    ) == (True, True)
