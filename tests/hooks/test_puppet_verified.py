"""The verification of the `puppet` hook: noop mode, with the real puppet."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from support.machine import Machine
from support.puppet import a_manifest, real

pytestmark = [pytest.mark.slow, pytest.mark.takes(120)]

SECRET = "sesame-4711"


@pytest.fixture(autouse=True)
def the_puppet(machine: Machine, tmp_path: Path) -> None:
    """The real puppet, first in the PATH; its state is in the folder of the test."""
    found = real(tmp_path)
    machine.environment["PATH"] = (
        f"{found.command.parent}:{machine.environment['PATH']}"
    )
    machine.environment["HEAT_PUPPET_LOGDIR"] = str(tmp_path / "logs")
    machine.environment["HEAT_PUPPET_HIERA_DATADIR"] = str(tmp_path / "hieradata")


def ours(machine: Machine, manifest: str, **fields: Any) -> None:
    """Carry out a deployment with a manifest."""
    done = machine.apply([a_manifest("site", manifest, **fields)])
    assert done.code == 0, done.out + done.err


def test_manifest_is_verified_changed_verified_repaired_and_verified(
    machine: Machine, tmp_path: Path
) -> None:
    """Resources that would change are named, with the lines that differ; messages and outputs count nothing.

    Puppet's own state is left as the run has left it, and a value that is `Sensitive` is not shown.
    """
    page, stamp = tmp_path / "page", tmp_path / "stamp"
    secret = tmp_path / "secret"
    ours(
        machine,
        f"""
        file {{ '{page}': content => "${{facts['greeting']}}\\nworld\\n" }}
        file {{ '{secret}': content => Sensitive("{SECRET}\\n"), loglevel => debug }}
        file {{ "${{heat_outputs_path}}.x": content => 'x' }}
        file {{ '{tmp_path}/never': ensure => file, noop => true }}
        exec {{ '/bin/touch {stamp}': creates => '{stamp}' }}
        notify {{ 'hello': }}
        """,
        inputs={"greeting": "Hello"},
        outputs=[{"name": "x"}],
    )
    assert machine.verified()["message"] == ""
    page.write_text("Hello\nWorld\n")
    secret.write_text(f"no {SECRET}\n")
    stamp.unlink()
    states = [path.stat().st_mtime_ns for path in (tmp_path / "var").rglob("state/*")]

    row = machine.verified()

    assert row["state"] == "drifted"
    changes = {change["what"]: change for change in row["changes"]}
    assert list(changes) == [
        f"File[{page}]",
        f"File[{secret}]",
        f"Exec[/bin/touch {stamp}]",
    ]
    assert changes[f"File[{page}]"]["how"].startswith("content: current_value")
    lines = changes[f"File[{page}]"]["diff"].splitlines()
    assert lines[1:] == [" Hello", "-World", "+world"]
    assert SECRET not in str(row)
    assert not stamp.exists()
    assert states == [
        path.stat().st_mtime_ns for path in (tmp_path / "var").rglob("state/*")
    ]
    assert machine.agent("verify", "--repair").code == 0
    assert page.read_text() == "Hello\nworld\n"
    assert stamp.exists()


def test_command_that_runs_every_time_is_unknown(machine: Machine) -> None:
    """Without a condition, noop mode says of any `exec` that it would run."""
    ours(machine, "exec { '/bin/true': }\nexec { '/bin/false': unless => '/bin/true' }")

    row = machine.verified()

    assert row["state"] == "unknown"
    assert row["message"] == "1 of 2 resources cannot be checked: Exec[/bin/true]"


def test_manifest_that_fails_in_noop_mode_is_unknown(
    machine: Machine, tmp_path: Path
) -> None:
    """The reason is Puppet's first error, of the catalog or of a resource."""
    module = tmp_path / "modules/site/manifests/init.pp"
    module.parent.mkdir(parents=True)
    module.write_text("class site { }")
    probe = tmp_path / "probe"
    probe.touch(mode=0o755)
    probe.write_text("#!/bin/sh\n")
    ours(
        machine,
        f"include site\nexec {{ '/bin/true': unless => '{probe}' }}",
        options={"modulepath": str(tmp_path / "modules")},
    )
    assert machine.verified()["message"] == ""
    probe.unlink()
    probe.mkdir()
    assert (
        "noop mode fails: /Stage[main]/Main/Exec[/bin/true]"
        in machine.verified()["message"]
    )
    module.write_text("class site { fail('no such release') }")

    row = machine.verified()

    assert row["state"] == "unknown"
    assert "no such release" in row["message"]


def test_changed_inputs_of_hiera_have_drifted(machine: Machine, tmp_path: Path) -> None:
    """The file is written by a run, and only compared by a verification; its content is not shown."""
    ours(
        machine,
        f"file {{ '{tmp_path}/page': content => 'x' }}",
        inputs={"word": SECRET},
        options={"enable_hiera": True, "enable_facter": False},
    )
    assert machine.verified()["message"] == ""
    [data] = (tmp_path / "hieradata").iterdir()
    data.write_text("{}")

    row = machine.verified()

    assert row["message"] == f"{data}: its content differs"
    assert SECRET not in str(row)
    assert data.read_text() == "{}"
