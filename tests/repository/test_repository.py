"""The promises of the repository to a person who has just cloned it."""

from __future__ import annotations

import importlib
import io
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

import heat_config_hooks
from docs import prose
from heat_config_hooks import protocol, standalone
from support import leftovers
from support.machine import BIN, Machine, deployment
from support.mounts import may_mount, mounted
from support.tools import need

pytestmark = pytest.mark.takes(150)

ROOT = Path(__file__).parents[2]
EXAMPLES = sorted((ROOT / "examples").glob("*.yaml"))
NOBODY = 65534


@pytest.fixture
def clone() -> Iterator[Path]:
    """A copy of what git knows of the repository, in a folder that any user may own."""
    folder = Path(tempfile.mkdtemp(prefix="clone-", dir="/tmp"))
    leftovers.belongs(folder)
    for name in prose.files():
        (folder / "clone" / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, folder / "clone" / name)
    yield folder / "clone"
    shutil.rmtree(folder)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_make_run_needs_no_privileges_and_stays_in_its_folder(clone: Path) -> None:
    """`make run` in a fresh clone applies the example as any user, and leaves nothing outside the folder."""
    if subprocess.run(
        ["/usr/bin/python3", "-c", "import ensurepip, venv"],
        capture_output=True,
        check=False,
    ).returncode:
        pytest.skip(
            "/usr/bin/python3 cannot make an environment: apt-get install python3-venv"
        )
    home = clone.parent / "home"
    home.mkdir()
    owned = [clone.parent, *clone.parent.rglob("*")]
    if os.geteuid() == 0:
        for path in owned:
            os.chown(path, NOBODY, NOBODY)
    # What pip is told about mirrors and certificates is the machine's affair; the user's own folders are ours.
    kept = {
        name: value
        for name, value in os.environ.items()
        if name.startswith("PIP_") or name.endswith("_proxy")
    }
    user = (
        ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]
        if os.geteuid() == 0
        else []
    )
    done = subprocess.run(
        [*user, "make", "run", "PYTHON=/usr/bin/python3"],
        cwd=clone,
        env={
            **kept,
            "PATH": "/usr/bin:/bin",
            "HOME": str(home),
            "TMPDIR": str(home),
            "LANG": "C.UTF-8",
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "greeting = Hello, world!" in done.stdout
    assert list(home.iterdir()) == []


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.name)
def test_every_example_can_be_applied(machine: Machine, example: Path) -> None:
    """An example ends well, and a second time there is nothing to do."""
    assert machine.apply(example).code == 0
    assert machine.apply(example, "--json").data["summary"]["skipped"] == len(
        machine.status()
    )


def test_example_of_a_hook_works(machine: Machine) -> None:
    """The hook that docs/write-a-hook.md shows works as it stands there."""
    [source] = re.findall(
        r"```python shout\n(#!.*?)```",
        (ROOT / "docs/write-a-hook.md").read_text(),
        re.DOTALL,
    )
    machine.hook("shout", source)
    given = deployment(config="quiet\n", group="shout", outputs=["length", "other"])
    [found] = machine.apply([given], "--json").data["deployments"]
    assert found["values"] == {
        "deploy_stdout": "QUIET\n",
        "deploy_stderr": "",
        "deploy_status_code": 0,
        "length": "6",
    }


def test_example_of_a_module_works(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The module that hooks/README.md shows is a hook as it stands there: it makes what the config says."""
    [source] = re.findall(
        r'```python\n(""".*?)```', (ROOT / "hooks/README.md").read_text(), re.DOTALL
    )
    (tmp_path / "make_hook.py").write_text(source)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setitem(heat_config_hooks.HOOKS, "make", "make_hook")
    monkeypatch.setattr("sys.argv", ["heat-config-hook", "make"])
    for name in ("MAKEFLAGS", "MAKELEVEL", "MFLAGS"):  # of the make that runs the tests
        monkeypatch.delenv(name, raising=False)
    for name in ("WORKING", "OUTPUTS"):
        monkeypatch.setenv(f"HEAT_MAKE_{name}", str(tmp_path / name))
    config = (
        "all:\n\t@echo $(who)\nhello:\n\t@printf hello >$$heat_outputs_path.greeting\n"
    )
    given = deployment(
        "d1",
        config,
        group="make",
        inputs={"who": "me"},
        options={"target": "hello"},
        outputs=["greeting"],
    )
    reply = io.StringIO()
    (tmp_path / "deployment.json").write_text(json.dumps(given))
    monkeypatch.setattr("sys.stdout", reply)
    monkeypatch.setattr("signal.signal", lambda *_: None)  # the test's own are to stay

    with (tmp_path / "deployment.json").open() as document:
        monkeypatch.setattr("sys.stdin", document)
        assert standalone.main() == 0

    expected = {
        "greeting": "hello",
        "deploy_stdout": "",
        "deploy_stderr": "",
        "deploy_status_code": 0,
    }
    assert json.loads(reply.getvalue()) == expected


@pytest.mark.parametrize(
    ("makefile", "standing"),
    [("all:\n", "ok"), ("all: new\nnew:\n\ttouch new\n", "drifted"), ("{", "unknown")],
)
def test_example_of_a_verification_works(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, makefile: str, standing: str
) -> None:
    """The functions that hooks/README.md adds to its module say whether a target is up to date."""
    text = (ROOT / "hooks/README.md").read_text()
    [module] = re.findall(r'```python\n(""".*?)```', text, re.DOTALL)
    [more] = re.findall(r"```python\n(from [^\n]* verdicts.*?)```", text, re.DOTALL)
    (tmp_path / "make_hook.py").write_text(module + more)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "make_hook", raising=False)
    hook = importlib.import_module("make_hook")
    assert protocol.can_verify(hook)
    request = protocol.request(
        {"id": "d1", "config": makefile}, key="d1", options={"target": "all"}
    )
    place = protocol.Workplace(run=tmp_path, working=tmp_path, outputs=tmp_path)

    command = hook.verify(request, place)

    assert isinstance(command, protocol.Command)
    done = subprocess.run(
        command.argv, cwd=command.cwd, capture_output=True, check=False
    )
    ended = protocol.Ended(code=done.returncode, stdout=tmp_path, stderr=tmp_path)
    assert hook.verdict(request, place, ended).standing.value == standing


def test_the_script_for_os_refresh_config_applies_the_list(machine: Machine) -> None:
    """In configure.d, our 55-heat-config does what heat-agents' does: it succeeds although a deployment fails."""
    path = machine.write(
        [deployment("good", "#!/bin/sh\n"), deployment("bad", "#!/bin/sh\nexit 1\n")]
    )
    environment = {
        **machine.environment,
        "PATH": f"{BIN}:/usr/bin:/bin",
        "HEAT_SHELL_CONFIG": str(path),
        "HEAT_CONFIG_AGENT_STATE": str(machine.state),
    }
    script = ROOT / "packaging/os-refresh-config/55-heat-config"
    done = subprocess.run(
        [script], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert {name: each["failed"] for name, each in machine.status().items()} == {
        "good": False,
        "bad": True,
    }


@pytest.mark.parametrize(
    "unit", sorted((ROOT / "systemd").glob("*.service")), ids=lambda path: path.name
)
def test_units_are_valid(unit: Path, tmp_path: Path) -> None:
    """Systemd finds nothing wrong with our units."""
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is missing: apt-get install systemd")
    (tmp_path / "bin").symlink_to(BIN)  # whatever letters the path of the checkout has
    text = unit.read_text().replace("ExecStart=", f"ExecStart={tmp_path}/bin/")
    (tmp_path / unit.name).write_text(text)
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(tmp_path / unit.name)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert unit.name not in done.stderr, done.stderr


def test_folder_without_exec_is_refused_before_anything_is_installed(
    tmp_path: Path,
) -> None:
    """Programs of `.venv` could not run there; the sentence says what to do, and no file is left."""
    need("make", "make")
    if not may_mount():
        pytest.skip(
            "a folder can only be mounted where mounts are allowed: run the tests as root"
        )
    place = shlex.quote(str(tmp_path))
    command = (
        *mounted(
            f"mount -t tmpfs -o noexec,size=10m tmpfs {place}",
            f"cp -r Makefile pyproject.toml packaging {place}",
            f"cd {place}",
        ),
        *("sh", "-c", "make run; ls -A"),
    )
    done = subprocess.run(
        command,
        cwd=ROOT,
        env={"PATH": os.environ["PATH"]},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stderr.splitlines()[0] == (
        "error: no program can run in this folder, which is mounted with noexec: clone into another one"
    )
    assert set(done.stdout.split()) == {"Makefile", "packaging", "pyproject.toml"}
