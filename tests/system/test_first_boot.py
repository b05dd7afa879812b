"""An instance from its first boot on: cloud-init, Heat's user data and the package; no settings, and nobody logs in."""

from __future__ import annotations

import hashlib
import shutil
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from package.built import ROOT, package
from support import planted
from support.loopback import Answer, SignalServer
from support.machine import Done, deployment
from system import seeds
from system.booted import Booted, booted
from system.openstack import Lab
from system.seeds import Handed
from system.test_service import NAME, QUICK, eventually, process, shown, state_of

pytestmark = [pytest.mark.takes(100), pytest.mark.timeout(600)]

PARTS = ROOT / "packaging/cloud-init"

COPIES = ("var/lib/heat-cfntools/cfn-init-data", "var/lib/cloud/data/cfn-init-data")
"""Where Heat's part handler leaves the credentials, for all to read."""

WAITS = """\
#cloud-config
runcmd:
  - [systemctl, start, heat-config-agent]
  - [sh, -c, "heat-config-agent wait --wait-for 60 >/root/said && test -e /root/applied && touch /root/waited"]
"""
"""Cloud-init data for a first boot that continues only when all deployments of Heat for the instance are applied."""


@pytest.fixture(scope="module")
def deb() -> Path:
    """The package."""
    return package("deb")


@contextmanager
def image(deb: Path | None = None) -> Iterator[Booted]:
    """A machine with cloud-init that has not booted yet, with the package on it or without."""
    with booted(boot=False, commands=False) as machine:
        (machine.disk / "etc/cloud/cloud-init.disabled").unlink()
        faster = machine.disk / f"etc/systemd/system/{NAME}.service.d/quick.conf"
        faster.parent.mkdir()
        faster.write_text(QUICK)
        if deb:
            shutil.copy(deb, machine.disk / "root/agent.deb")
            done = machine.inside("dpkg", "--install", "/root/agent.deb")
            assert done.code == 0, done.out + done.err
        yield machine
        journal = machine.run("journalctl", "--no-pager").out
        assert not planted.leaks([("the journal", journal)])


def component(identity: str, heat: SignalServer, **fields: Any) -> dict[str, Any]:
    """A component whose config for CREATE has a tool of its own, and says so in an output."""
    create = "outputs['said'] = inputs['who'] + ' by python'\nopen('/root/applied', 'w').close()\n"
    configs = [
        {"actions": ["CREATE", "UPDATE"], "tool": "python", "config": create},
        {"actions": ["DELETE"], "tool": "script", "config": "#!/bin/sh\nexit 3\n"},
    ]
    return deployment(
        identity,
        {"configs": configs},
        group="component",
        inputs={"who": identity},
        outputs=["said"],
        signal=heat.url(identity),
        **fields,
    )


def results(heat: SignalServer, identity: str) -> list[tuple[int, object]]:
    """Return of each result that has come for a deployment its status code, and the output of a component."""
    return [
        (each["deploy_status_code"], each.get("said")) for each in heat.values(identity)
    ]


SEEDS: dict[str, tuple[Callable[[Booted, str, SignalServer], None], str]] = {
    "nocloud": (lambda machine, text, _: seeds.nocloud(machine, text), "POLL_TEMP_URL"),
    "configdrive": (
        lambda machine, text, _: seeds.config_drive(machine, text),
        "POLL_SERVER_CFN",
    ),
    "openstack": (seeds.metadata_service, "POLL_TEMP_URL"),
}
"""Where cloud-init finds the user data, by its own name for that, and how Heat hands out metadata."""


@pytest.mark.parametrize("source", SEEDS)
def test_an_instance_configures_itself(
    source: str, deb: Path, heat: SignalServer, other: SignalServer
) -> None:
    """It applies a component before anybody has touched it, and cloud-init, which waits for that, ends its boot."""
    seed, transport = SEEDS[source]
    handed = Handed(heat, transport)
    handed.deploy(component("d1", heat))
    with image(deb) as machine:
        seed(machine, seeds.user_data(handed.first, WAITS), other)
        machine.boot()
        assert machine.run("cloud-id").out.strip() == source
        assert machine.run("cloud-init", "status").out.strip() == "status: done"
        assert (machine.disk / "root/waited").exists()
        eventually(machine, lambda: state_of(machine, "d1") == "sent")
        assert results(heat, "d1") == [(0, "d1 by python")]
        assert machine.run("heat-config-agent", "status", "--check").code == 0
        for name in COPIES:
            assert stat.S_IMODE((machine.disk / name).stat().st_mode) == 0o600
        assert shown(machine, "NRestarts") == "0"
        assert machine.run("systemctl", "is-system-running").out == "running\n"


LONG = """\
#!/bin/sh
echo begun >>/root/ran-{0}
until test -e /root/go-{0}; do sleep 0.1; done
echo ended >>/root/ran-{0}
"""


def begin(machine: Booted, handed: Handed, heat: SignalServer, identity: str) -> None:
    """Have a deployment run that does not end before it may."""
    handed.deploy(
        deployment(identity, LONG.format(identity), signal=heat.url(identity))
    )
    machine.run("heat-config-agent", "poll")
    eventually(machine, (machine.disk / f"root/ran-{identity}").exists)


def let_end(machine: Booted, heat: SignalServer, identity: str) -> None:
    """Have it end, and wait for its result."""
    (machine.disk / f"root/go-{identity}").touch()
    eventually(machine, lambda: bool(heat.values(identity)))


@pytest.mark.fault(
    1,
    "an instance of cloud-init's: runs meet a restart, a kill and a hang of the agent, and the machine killed",
    "each run has one truthful result, also when what cloud-init left has been removed",
)
def test_runs_survive_the_life_of_an_instance(
    deb: Path, heat: SignalServer, tried: Callable[[int], None]
) -> None:
    """Each run that it meets is done once, or reported as interrupted, and the server hears that once."""
    handed = Handed(heat)
    with image(deb) as machine:
        seeds.nocloud(machine, seeds.user_data(handed.first))
        machine.boot()
        befalls: dict[str, Callable[[str], Done]] = {
            "restart": lambda _: machine.run("systemctl", "restart", NAME),
            "kill": lambda number: machine.run("kill", "-9", number),
            "hang": lambda number: machine.run("kill", "-STOP", number),
        }
        for name, befall in befalls.items():
            begin(machine, handed, heat, name)
            before = process(machine)
            befall(str(before))
            eventually(machine, lambda: process(machine) not in (0, before))  # noqa: B023  # it is waited for here
            let_end(machine, heat, name)

        begin(machine, handed, heat, "switched-off")
        for copy in COPIES:
            (machine.disk / copy).unlink()
        machine.crash()
        machine.boot()
        eventually(machine, lambda: bool(heat.values("switched-off")))
        begin(machine, handed, heat, "after")
        let_end(machine, heat, "after")
        assert not any((machine.disk / copy).exists() for copy in COPIES)
        done = (*befalls, "after")
        assert {name: results(heat, name) for name in done} == {
            name: [(0, None)] for name in done
        }
        assert {(machine.disk / f"root/ran-{name}").read_text() for name in done} == {
            "begun\nended\n"
        }
        assert results(heat, "switched-off") == [(125, None)]
        assert (
            "the machine went down while it ran"
            in heat.values("switched-off")[0]["deploy_stderr"]
        )
        assert (machine.disk / "root/ran-switched-off").read_text() == "begun\n"
    tried(len(befalls) + 1)


@pytest.mark.fault(
    1,
    "the disk of an instance is booted as another instance, to which cloud-init gives credentials of its own",
    "the state of the first instance is set aside, and its servers are not contacted",
)
def test_a_copy_is_an_instance_of_its_own(
    deb: Path, heat: SignalServer, other: SignalServer
) -> None:
    """It begins anew with what Heat has given to it, and leaves its original's server alone."""
    original, copy = Handed(heat), Handed(other, name="copy")
    original.deploy(component("d1", heat))
    copy.deploy(component("d1", other), component("d2", other))
    with image(deb) as machine:
        seeds.nocloud(machine, seeds.user_data(original.first))
        machine.boot()
        eventually(machine, lambda: state_of(machine, "d1") == "sent")
        machine.crash()
        asked = len(heat.signals)
        seeds.nocloud(machine, seeds.user_data(copy.first), instance="i-2")
        machine.boot()
        eventually(machine, lambda: bool(other.values("d2")))
        eventually(machine, lambda: state_of(machine, "d2") == "sent")
        # another machine's has been run there, not here
        assert results(other, "d1") == [(0, "d1 by python")]
        assert results(other, "d2") == [(0, "d2 by python")]
        assert len(heat.signals) == asked
        assert (machine.disk / "var/lib/heat-config-agent/of-i-1").is_dir()
        for name in COPIES:
            assert stat.S_IMODE((machine.disk / name).stat().st_mode) == 0o600


@pytest.fixture
def parameters(deb: Path, other: SignalServer) -> dict[str, str]:
    """Return the parameters with which the package is installed: its URL on a web server, and its checksum."""
    content = deb.read_bytes()
    other.named["agent.deb"] = Answer(body=content)
    return {
        "package_url": other.url("agent.deb"),
        "package_sha256": hashlib.sha256(content).hexdigest(),
    }


def filled_in(name: str, parameters: dict[str, str]) -> str:
    """Return a file of `packaging/cloud-init`, with what is to be filled in."""
    text = (PARTS / name).read_text()
    for parameter, value in parameters.items():
        text = text.replace(parameter.upper(), value)
    return text


def test_the_stack_has_a_stock_image_install_it(
    cloud: Lab, parameters: dict[str, str], heat: SignalServer
) -> None:
    """With what Heat makes of the template, the agent is installed and at work, though cloud-init waits for it.

    It begins when apt has let go of its lock: deployments install packages, too.
    """
    files = {"install.sh": (PARTS / "install.sh").read_text()}
    text = (PARTS / "stack.yaml").read_text()
    cloud.stack_validate(text, files)
    template = yaml.safe_load(text)
    resources = template["resources"]
    resources["first_boot"]["properties"]["parts"].append({"config": WAITS})
    # there is no Nova
    template["resources"] = {
        name: resources[name] for name in ("install", "first_boot")
    }
    template["parameters"] = {name: template["parameters"][name] for name in parameters}
    template["outputs"] = {
        "user_data": {"value": {"get_attr": ["first_boot", "config"]}}
    }
    name = cloud.name()
    cloud.stack_create(name, yaml.safe_dump(template), parameters, files)
    own = cloud.wait(name, "CREATE_COMPLETE").outputs["user_data"]
    cloud.stack_delete(name)

    handed = Handed(heat)
    handed.deploy(
        deployment(
            "a-package",
            "#!/bin/sh\ndpkg --configure -a\n",
            signal=heat.url("a-package"),
        )
    )
    handed.deploy(component("d1", heat))
    with image() as machine:
        # there is less to be done here than on a stock image
        slow = machine.disk / "etc/apt/apt.conf.d/90slow"
        slow.write_text('DPkg::Post-Invoke {"sleep 4";};\n')
        seeds.config_drive(machine, seeds.user_data(handed.first, own))
        machine.boot()
        assert (machine.disk / "root/waited").exists()
        assert machine.run("cloud-init", "status").out.strip() == "status: done"
        eventually(machine, lambda: state_of(machine, "d1") == "sent")
        assert results(heat, "a-package") == [(0, None)]
        assert results(heat, "d1") == [(0, "d1 by python")]
        machine.crash()
        machine.boot()
        assert (shown(machine, "ActiveState"), shown(machine, "UnitFileState")) == (
            "active",
            "enabled",
        )


def test_a_cloud_config_has_a_stock_image_install_it(
    parameters: dict[str, str], heat: SignalServer
) -> None:
    """The one #cloud-config does what the part does, with the same script."""
    own = filled_in("install.yaml", parameters)
    assert yaml.safe_load(own)["runcmd"] == [
        ["sh", "-c", filled_in("install.sh", parameters)]
    ]
    handed = Handed(heat)
    handed.deploy(component("d1", heat))
    with image() as machine:
        seeds.nocloud(machine, seeds.user_data(handed.first, own))
        machine.boot()
        assert machine.run("cloud-init", "status").out.strip() == "status: done"
        eventually(machine, lambda: state_of(machine, "d1") == "sent")
        assert results(heat, "d1") == [(0, "d1 by python")]


def test_another_package_is_not_installed(
    parameters: dict[str, str], other: SignalServer
) -> None:
    """One that is not the one meant is left alone, and nothing stays of the try; a second time nothing is fetched."""
    policy = "usr/sbin/policy-rc.d"
    with booted(commands=False) as machine:
        done = machine.run(
            "sh",
            stdin=filled_in("install.sh", {**parameters, "package_sha256": "0" * 64}),
        )
        assert done.code != 0
        assert "Hash Sum mismatch" in done.err
        assert machine.run("dpkg", "--status", NAME).code != 0
        assert not (machine.disk / policy).exists()

        (machine.disk / policy).write_text("#!/bin/sh\nexit 0\n")
        assert machine.run("sh", stdin=filled_in("install.sh", parameters)).code == 0
        assert shown(machine, "ActiveState") == "active"
        assert (machine.disk / policy).read_text() == "#!/bin/sh\nexit 0\n"
        asked = len(other.signals)
        assert machine.run("sh", stdin=filled_in("install.sh", parameters)).code == 0
        assert len(other.signals) == asked
