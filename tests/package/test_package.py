"""The Debian package for every release: what is in it, and what becomes of a machine on which it comes and goes."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import tarfile
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path

import pytest
import yaml

from docs.console import File, sections
from heat_config_agent import __version__
from links import LINK
from package.built import ROOT, package
from support.loopback import Answer, SignalServer, wait_until
from support.machine import deployment
from support.tools import need
from system.booted import Booted, booted
from system.test_service import (
    NAME,
    SETTINGS,
    deploy,
    eventually,
    process,
    shown,
    state_of,
    status,
)

pytestmark = [pytest.mark.takes(120), pytest.mark.timeout(600)]

PLACES = (
    "usr/bin/heat-config-",
    "usr/lib/python3/dist-packages/heat_config_agent/",
    "usr/lib/python3/dist-packages/heat_config_stack/",
    "usr/lib/python3/dist-packages/heat_config_hooks/",
    "usr/lib/systemd/system-preset/50-heat-config-agent.preset",
    "usr/share/doc/heat-config-agent/",
    "usr/share/man/man1/heat-config-",
    "usr/share/man/man5/heat-config-agent.conf.5.gz",
    "usr/share/bash-completion/completions/heat-config-",
    "usr/share/zsh/vendor-completions/_heat-config-",
    "usr/share/fish/vendor_completions.d/heat-config-",
    "usr/share/lintian/overrides/heat-config-agent",
)
"""Where the package has files, beside units."""


@pytest.fixture(scope="module")
def deb() -> Path:
    """The package."""
    return package("deb")


@pytest.fixture(scope="module")
def content(deb: Path) -> tarfile.TarFile:
    """The files of the package."""
    text = subprocess.run(
        ["dpkg-deb", "--fsys-tarfile", deb], capture_output=True, check=True
    ).stdout
    return tarfile.open(fileobj=BytesIO(text))


@pytest.fixture
def bare(deb: Path) -> Iterator[Booted]:
    """A machine with nothing of ours on it but settings, and with the package in /root."""
    with booted(commands=False) as machine:
        shutil.copy(deb, machine.disk / "root/agent.deb")
        (machine.disk / "etc/heat-config-agent").mkdir()
        (machine.disk / "etc/heat-config-agent/agent.conf").write_text(SETTINGS)
        yield machine


def install(machine: Booted, name: str = "agent.deb") -> None:
    """Install a package, without any network."""
    done = machine.run("dpkg", "--install", f"/root/{name}")
    assert done.code == 0, done.out + done.err


def read(content: tarfile.TarFile, name: str) -> str:
    """Return the text of a file in the package."""
    found = content.extractfile(f"./{name}")
    assert found is not None
    return found.read().decode()


def test_package_keeps_to_its_folders(content: tarfile.TarFile) -> None:
    """No file is elsewhere, or can be written by others than root, and only commands can be run."""
    units = re.compile(r"(usr/)?lib/systemd/system/heat(-config-[\w-]+@?)?\.\w+")
    for member in content.getmembers():
        name = member.name.removeprefix("./")
        assert (member.uname, member.gname) == ("root", "root")
        assert member.isdir() or name.startswith(PLACES) or units.fullmatch(name), name
        assert member.isdir() or member.isfile() or member.issym(), name
        if member.isfile():
            program = re.fullmatch(
                r"usr/bin/heat-config-\w+|.*/examples/55-heat-config", name
            )
            assert member.mode == (0o755 if program else 0o644), name
        elif member.isdir():
            assert member.mode == 0o755, name


def test_package_has_no_trace_of_its_build(content: tarfile.TarFile) -> None:
    """The package has no installer, no tests of other projects, and no trace of where it was built."""
    for each in content.getmembers():
        name = each.name.removeprefix("./")
        assert not re.search(r"/(pip|setuptools|pkg_resources|tests?)/", name), name
        found = content.extractfile(each) if each.isfile() else None
        text = found.read() if found else b""
        assert b"/debian/heat-config-agent/" not in text, name
        assert str(ROOT).encode() not in text, name
    assert not [
        each.name for each in content.getmembers() if each.name.endswith(".pyc")
    ]


def test_package_requires_the_modules_of_the_project(deb: Path) -> None:
    """The package requires the distribution's modules, none older than the project supports."""
    names = ("Architecture", "Version", "Depends")
    text = subprocess.run(
        ["dpkg-deb", "--field", deb, *names], capture_output=True, text=True, check=True
    ).stdout
    fields = dict(line.split(": ", 1) for line in text.splitlines())
    assert (fields["Architecture"], fields["Version"]) == (
        "all",
        re.sub(r"rc", "~rc", __version__),
    )
    project = (
        (ROOT / "pyproject.toml")
        .read_text()
        .partition("\ndependencies = [")[2]
        .partition("]")[0]
    )
    modules = {
        f"python3-{name.removeprefix('Py').lower()}": oldest
        for name, oldest in re.findall(r'"(\w+)>=(.*)"', project)
    }
    depends = fields["Depends"].split(", ")
    assert {f"{name} (>= {oldest})" for name, oldest in modules.items()} | {
        "ca-certificates"
    } == {each for each in depends if not each.startswith("python3:any")}
    oldest = re.findall(
        r'requires-python = ">=(.*)"', (ROOT / "pyproject.toml").read_text()
    )
    assert [each for each in depends if each.startswith("python3:any")] == [
        f"python3:any (>= {oldest[0]}~)"
    ]


def test_links_of_pages_have_targets(content: tarfile.TarFile) -> None:
    """A page links to files of the package, and to the web; the reasons for the daemon's privileges are among them."""
    names = {each.name.removeprefix("./").rstrip("/") for each in content.getmembers()}
    pages = [name for name in names if name.endswith(".md") and "/doc/" in name]
    assert "usr/share/doc/heat-config-agent/systemd/README.md" in pages
    dead = [
        (page, target)
        for page in pages
        for _, target in LINK.findall(read(content, page))
        if "://" not in target
        and not target.startswith("#")
        and os.path.normpath(f"{os.path.dirname(page)}/{target.partition('#')[0]}")  # noqa: PTH120  # no disk
        not in names
    ]
    assert dead == []


def test_lintian_has_nothing_to_say(deb: Path, tmp_path: Path) -> None:
    """Each complaint of lintian is overridden with a reason, and each override is needed."""
    need("lintian", "lintian")
    done = subprocess.run(
        [
            "lintian",
            "--allow-root",
            "--display-info",
            "--pedantic",
            "--fail-on",
            "error,warning,info,pedantic",
            deb,
        ],
        env={**os.environ, "TMPDIR": str(tmp_path)},  # it leaves files there
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "")


def test_an_instance_is_configured_from_its_first_boot(bare: Booted) -> None:
    """Installed offline, the daemon is enabled and runs, also after the next boot; the commands work for everybody."""
    deploy(bare, deployment("d1", "#!/bin/sh\necho first >>/root/ran\n"))
    install(bare)
    assert shown(bare, "UnitFileState") == "enabled"
    assert (
        bare.run("systemctl", "is-enabled", "heat-config-apply").out.strip()
        == "disabled"
    )
    eventually(bare, lambda: state_of(bare, "d1") == "ended")

    bare.crash()
    deploy(
        bare,
        deployment("d1", "#!/bin/sh\n"),
        deployment("d2", "#!/bin/sh\necho second >>/root/ran\n"),
    )
    bare.boot()
    eventually(bare, lambda: state_of(bare, "d2") == "ended")
    assert (bare.disk / "root/ran").read_text() == "first\nsecond\n"
    eventually(
        bare, lambda: bare.run("heat-config-agent", "status", "--check").code == 0
    )
    assert bare.run("systemctl", "start", "heat-config-settled.target").code == 0
    assert shown(bare, "ActiveState", "heat-config-settled.target") == "active"

    example = "/usr/share/doc/heat-config-agent/examples/hello.yaml"
    (bare.disk / "root/json.py").write_text("raise SystemExit('not this one')")
    done = bare.run(
        "heat-config-apply", "--state-dir", "/root/state", example, PYTHONPATH="/root"
    )
    assert (done.code, done.err) == (0, "")
    assert "greeting = Hello, world!" in done.out
    (bare.disk / "usr/libexec/heat-config/hooks").mkdir(parents=True)
    (bare.disk / "usr/libexec/heat-config/hooks/script").symlink_to(
        "/usr/bin/heat-config-hook"
    )
    given = json.dumps(deployment("d3", "#!/bin/sh\necho by hand\n"))
    done = bare.run("/usr/libexec/heat-config/hooks/script", stdin=given)
    assert json.loads(done.out)["deploy_stdout"] == "by hand\n", done.err
    nobody = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")
    assert (
        bare.run(*nobody, "heat-config-agent", "--version").out
        == f"heat-config-agent {__version__}\n"
    )

    changed = bare.run("dpkg", "--verify", "heat-config-agent").out.splitlines()
    assert [
        each for each in changed if "/usr/share/man/" not in each
    ] == []  # this machine is one without manuals
    compiled = list(
        (
            bare.disk / "usr/lib/python3/dist-packages/heat_config_agent/__pycache__"
        ).glob("__init__.*.pyc")
    )
    assert len(compiled) == 1  # by the machine's Python, when it was installed


def test_where_os_collect_config_is_in_force_nothing_is_started(bare: Booted) -> None:
    """Installing it changes nothing of what works there, until the one takes the place of the other."""
    theirs = bare.disk / "etc/systemd/system/os-collect-config.service"
    theirs.write_text(
        "[Service]\nExecStart=/usr/bin/sleep 1000\n[Install]\nWantedBy=multi-user.target\n"
    )
    assert bare.run("systemctl", "enable", "--now", theirs.name).code == 0
    before = shown(bare, "MainPID", theirs.name)
    done = bare.run("dpkg", "--install", "/root/agent.deb")
    assert (done.code, "heat-config-agent migrate" in done.out) == (0, True)
    assert (shown(bare, "UnitFileState"), process(bare)) == ("disabled", 0)
    assert shown(bare, "MainPID", theirs.name) == before
    install(bare)  # once more, as an upgrade would
    assert (shown(bare, "UnitFileState"), process(bare)) == ("disabled", 0)

    done = bare.run("heat-config-agent", "migrate")
    assert done.code == 0, done.out + done.err
    assert (shown(bare, "UnitFileState"), shown(bare, "ActiveState")) == (
        "enabled",
        "active",
    )
    assert shown(bare, "UnitFileState", theirs.name) == "disabled"
    first = process(bare)
    install(bare)
    assert process(bare) not in (first, 0)


LONG = "#!/bin/sh\necho begun >>/root/ran\nwhile ! test -e /root/go; do sleep 0.1; done\necho ended >>/root/ran\n"


@pytest.mark.fault(
    1,
    "the package is upgraded in the middle of a run",
    "the next version follows the run, which ends once and is signalled once",
)
def test_an_upgrade_meets_a_run(
    bare: Booted, heat: SignalServer, tmp_path: Path
) -> None:
    """From the self-contained package of this name: what was running ends once, and what was disabled stays so."""
    shutil.copy(
        earlier(package("deb-bundled"), tmp_path), bare.disk / "root/earlier.deb"
    )
    install(bare, "earlier.deb")
    assert bare.run("heat-config-agent", "--version").out == "heat-config-agent 0.1.0\n"
    first = process(bare)
    deploy(bare, deployment("d1", LONG, signal=heat.url()))
    eventually(bare, lambda: state_of(bare, "d1") == "running")

    install(bare)
    assert (
        bare.run("heat-config-agent", "--version").out
        == f"heat-config-agent {__version__}\n"
    )
    assert process(bare) not in (first, 0)
    assert not (bare.disk / "usr/lib/heat-config-agent").exists()
    assert (bare.disk / "etc/heat-config-agent/agent.conf").read_text() == SETTINGS
    assert state_of(bare, "d1") == "running"
    (bare.disk / "root/go").touch()
    eventually(bare, lambda: state_of(bare, "d1") == "sent")
    deploy(
        bare, deployment("d1", LONG, signal=heat.url()), deployment("d2", "#!/bin/sh\n")
    )
    eventually(bare, lambda: state_of(bare, "d2") == "ended")
    assert (bare.disk / "root/ran").read_text() == "begun\nended\n"
    assert [each.value["deploy_status_code"] for each in heat.signals] == [0]

    assert bare.run("systemctl", "disable", "--now", NAME).code == 0
    install(bare)
    assert (shown(bare, "UnitFileState"), process(bare)) == ("disabled", 0)


@pytest.mark.fault(
    1,
    "the package is upgraded by a deployment that the agent runs",
    "the next version follows that run to its end, and its result is sent once",
)
def test_deployment_can_upgrade_the_agent(
    bare: Booted, heat: SignalServer, other: SignalServer, tmp_path: Path
) -> None:
    """The recipe of the documentation, from one version to the next."""
    shutil.copy(
        earlier(package("deb-bundled"), tmp_path), bare.disk / "root/earlier.deb"
    )
    install(bare, "earlier.deb")
    first = process(bare)
    content = package("deb").read_bytes()
    other.named["package"] = Answer(body=content)
    items = [item for section in sections("docs/recipes.md") for item in section.items]
    [text] = [
        item.text
        for item in items
        if isinstance(item, File) and item.path == "upgrade.yaml"
    ]
    [shown_on_page] = yaml.safe_load(text)
    [artifact] = shown_on_page["options"]["artifacts"]
    artifact |= {
        "url": other.url("package"),
        "sha256": hashlib.sha256(content).hexdigest(),
        "to": "heat-config-agent.deb",
    }
    given = deployment(
        shown_on_page["name"],
        shown_on_page["config"],
        options=shown_on_page["options"],
        outputs=["version"],
        signal=heat.url(),
    )
    deploy(bare, given)
    eventually(bare, lambda: bool(heat.signals))
    eventually(bare, lambda: state_of(bare, given["id"]) == "sent")
    [signal] = heat.signals
    assert signal.value["deploy_status_code"] == 0, signal.value
    assert signal.value["version"] == f"heat-config-agent {__version__}\n"
    assert process(bare) not in (first, 0)
    [shown_by_it] = status(bare)["deployments"]
    assert (shown_by_it["id"], shown_by_it["attempts"]) == (given["id"], 1)


@pytest.mark.fault(
    1,
    "the package is removed in the middle of a run, and installed again after it",
    "the run goes on to its end, and its result is sent once",
)
def test_removed_package_resumes_after_a_new_installation(
    bare: Booted, heat: SignalServer
) -> None:
    """Removing it ends no run and forgets nothing: installed again, it follows that. Purged, it has left nothing."""
    install(bare)
    deploy(bare, deployment("d1", LONG, signal=heat.url()))
    eventually(bare, lambda: state_of(bare, "d1") == "running")
    done = bare.run("dpkg", "--remove", "heat-config-agent")
    assert done.code == 0
    assert "  d1 (CREATE) is running" in (done.out + done.err).splitlines()
    assert process(bare) == 0
    assert not list((bare.disk / "usr/lib/python3/dist-packages").glob("heat_config_*"))
    (bare.disk / "root/go").touch()
    wait_until(lambda: (bare.disk / "root/ran").read_text() == "begun\nended\n", 20)
    assert heat.signals == []

    install(bare)
    eventually(bare, lambda: state_of(bare, "d1") == "sent")
    assert [each.value["deploy_status_code"] for each in heat.signals] == [0]
    assert [each["state"] for each in status(bare)["deployments"]] == ["ok"]
    assert (bare.disk / "root/ran").read_text() == "begun\nended\n"

    heat.answers.extend([Answer(503)] * 100)
    deploy(bare, deployment("d2", "#!/bin/sh\n", signal=heat.url()))
    eventually(bare, lambda: state_of(bare, "d2") == "due")
    theirs = bare.disk / "var/lib/heat-config/deployed/d7.json"
    theirs.write_text("{}")
    for path in (theirs, theirs.parent):
        path.chmod(0o755)
    migrated = (
        bare.disk / "etc/systemd/system/heat-config-agent.service.d/50-migrated.conf"
    )
    migrated.parent.mkdir()
    migrated.write_text("[Service]\n")
    text = "[Service]\nExecStart=true\n[Install]\nWantedBy=a.target\n"
    for unit in ("os-collect-config.service", "collector.service"):
        (bare.disk / "etc/systemd/system" / unit).write_text(text)
    assert bare.run("systemctl", "enable", "collector.service").code == 0
    replaced = bare.disk / "var/lib/heat-config-agent/replaced"
    replaced.write_text("os-collect-config.service\ncollector.service\n")
    done = bare.run("dpkg", "--purge", "heat-config-agent")
    assert done.code == 0
    said = (done.out + done.err).splitlines()
    # at its removal, and at the purge
    assert said.count("  d2 (CREATE) has run, and its result is not delivered") == 2
    back = "to go back to it: systemctl enable --now os-collect-config.service"
    assert (
        said.count(
            f"os-collect-config.service stays disabled since the migration; {back}"
        )
        == 2
    )
    assert not any(line.startswith("collector.service") for line in said)
    assert any(
        line.startswith("/var/lib/heat-config/deployed stays for heat-agents")
        for line in said
    )
    assert {
        path.stat().st_mode & 0o077
        for path in (theirs.parent, *theirs.parent.iterdir())
    } == {0}
    left = bare.run(
        "find",
        "/usr",
        "/lib/",
        "/var/lib/heat-config-agent",
        "/etc",
        "-name",
        "*heat?config*",
    ).out.split()
    # there are settings in it, which somebody wrote
    assert left == ["/etc/heat-config-agent"]
    assert bare.run("systemctl", "is-failed", NAME).out.strip() == "inactive"


def earlier(bundled: Path, folder: Path) -> Path:
    """Return version 0.1.0 of the package: it had this name, and its modules inside."""
    tree = folder / "tree"
    subprocess.run(["dpkg-deb", "--raw-extract", bundled, tree], check=True)
    control = tree / "DEBIAN/control"
    text = re.sub(r"(?m)^(Provides|Conflicts|Replaces): .*\n", "", control.read_text())
    text = re.sub(r"(?m)^Package: .*$", "Package: heat-config-agent", text)
    control.write_text(re.sub(r"(?m)^Version: .*$", "Version: 0.1.0+deb12", text))
    [module] = tree.glob(
        "usr/lib/heat-config-agent/lib/*/site-packages/heat_config_agent/__init__.py"
    )
    module.write_text(module.read_text().replace(f'"{__version__}"', '"0.1.0"'))
    mode = ["--invalidation-mode", "unchecked-hash"]
    words = [
        "-m",
        "compileall",
        "-q",
        "-f",
        *mode,
        "-s",
        str(tree),
        "-p",
        "/",
        str(module),
    ]
    subprocess.run(["/usr/bin/python3", *words], check=True)
    subprocess.run(
        [
            "dpkg-deb",
            "-Zgzip",
            "-z1",
            "--root-owner-group",
            "--build",
            tree,
            folder / "earlier.deb",
        ],
        check=True,
    )
    return folder / "earlier.deb"


def test_missing_build_tool_is_reported(tmp_path: Path) -> None:
    """A missing build tool is one clear sentence, and nothing begins."""
    for name in ("dirname", "mkdir", "sh"):
        (tmp_path / name).symlink_to(Path("/bin") / name)
    done = subprocess.run(
        [ROOT / "packaging/build", "deb", tmp_path / "dist"],
        env={"PATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert (
        done.stderr == "dpkg-buildpackage is needed to build this: install dpkg-dev\n"
    )
    assert list((tmp_path / "dist").iterdir()) == []
