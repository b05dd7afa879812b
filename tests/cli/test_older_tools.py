"""The hooks for older tools are a package of their own: what the commands say where it is not installed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from heat_config_agent.deployments import cleanup
from heat_config_agent.state import journal
from support.machine import Machine, deployment

PACKAGE = "heat-config-agent-compat"
SENTENCE = (
    f"the hook for the tool 'hiera' is not installed; install the package {PACKAGE}"
)
OLDER = ["apply-config", "cfn-init", "chef", "hiera", "kubelet"]


@pytest.fixture
def without(tmp_path: Path) -> dict[str, Any]:
    """Return the environment of a command for which Python finds no such package."""
    folder = tmp_path / "without"
    folder.mkdir()
    (folder / "heat_config_compat.py").write_text(
        "raise ModuleNotFoundError(__name__)\n"
    )
    return {"PYTHONPATH": str(folder)}


def hiera(machine: Machine, name: str = "d1") -> dict[str, object]:
    """Return a deployment that writes data for Hiera into the folder of the machine."""
    config = {"hierarchy": ["common"], "datafiles": {"common": {"colour": "green"}}}
    machine.environment["HEAT_HIERA_CONFIG"] = str(machine.folder / "hiera.yaml")
    machine.environment["HEAT_PUPPET_HIERA_DATADIR"] = str(machine.folder / "data")
    machine.environment["HEAT_HIERA_ELEMENT_CHECK_CMD"] = "/nothing"
    return deployment(name, config, group="hiera")


def test_a_deployment_names_the_package_that_it_needs(
    machine: Machine, without: dict[str, Any]
) -> None:
    """The failure names the missing package; once installed, a retry succeeds."""
    document = [hiera(machine)]

    done = machine.apply(document, **without)
    assert done.code == 1
    assert journal.read(machine.state)["d1"].reason == SENTENCE

    assert machine.agent("retry", "d1").code == 0
    done = machine.apply(document)
    assert (done.code, (machine.folder / "data/common.json").exists()) == (0, True)


@pytest.mark.slow
def test_the_hooks_of_a_machine_name_the_package(
    machine: Machine, without: dict[str, Any]
) -> None:
    """All of its tools, and those that deployments of the machine need; with the package, none."""
    assert machine.apply([hiera(machine), deployment("d2")]).code == 0

    def tools(*words: str, **environment: str) -> str:
        done = machine.agent("tool", "list", *words, **environment)
        assert (done.code, done.err) == (0, "")
        return done.out

    header, row = tools("--missing", **without).splitlines()
    assert header.split() == ["NAME", "DETAILS"]
    assert row == f"hiera  {SENTENCE}"
    *_, empty, more, needed = tools(**without).splitlines()
    assert (empty, more) == (
        "",
        f"the package {PACKAGE} has more tools: {', '.join(OLDER)}",
    )
    assert needed == f"a deployment on this machine needs hiera: install {PACKAGE}"
    missing = machine.agent("tool", "list", "--missing", "--json", **without).data
    assert missing["missing"] == [
        {"name": "hiera", "message": SENTENCE, "package": PACKAGE}
    ]
    done = machine.agent("tool", "show", "hiera", **without)
    assert (done.code, done.err) == (8, f"error: {SENTENCE}\n")

    assert tools("--missing") == "no tool is missing\n"
    assert machine.agent("tool", "list", "--missing", "--json").data["missing"] == []
    assert PACKAGE not in tools()


def test_the_doctor_names_the_package(
    machine: Machine, without: dict[str, Any]
) -> None:
    """`doctor` names the package for deployments of the journal and of sources."""
    assert machine.apply([hiera(machine)]).code == 0
    machine.have_quick_tools()
    done = machine.agent("doctor", **without)
    assert f"a deployment needs the tool 'hiera': {SENTENCE}" in done.out
    assert "a deployment needs the tool 'hiera'" not in machine.agent("doctor").out


@pytest.mark.fault(
    5,
    "the package with the hook of a pod is removed, and then the deployment",
    "the cleanup fails and names the package, and is tried again",
)
def test_a_cleanup_names_the_package(machine: Machine, without: dict[str, Any]) -> None:
    """A cleanup stays pending if its hook was uninstalled, and names the package."""
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "web"},
        "spec": {"containers": [{"name": "web"}]},
    }
    manifests = machine.folder / "manifests"
    manifests.mkdir()
    machine.environment["HEAT_KUBELET_MANIFESTS"] = str(manifests)
    done = machine.apply([deployment("k1", pod, group="kubelet")])
    assert done.code == 1  # no kubelet and no crictl is here
    assert "k1: the tool kubelet is deprecated: " in " ".join(done.err.split())
    assert journal.read(machine.state)["k1"].run is not None

    done = machine.apply([], **without)
    assert done.code == 1
    entries = journal.read(machine.state)
    left = entries["k1.left"]
    assert (left.failed, left.reason) == (True, SENTENCE.replace("hiera", "kubelet"))
    assert cleanup.is_pending(entries["k1"], entries)
