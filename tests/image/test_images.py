"""Images that were really baked, each booted: an instance of it does what Heat says from its first boot on."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from image.baked import BY_HAND, baked
from support.loopback import SignalServer
from support.machine import deployment
from system import seeds
from system.booted import Booted, booted
from system.seeds import Handed
from system.test_service import eventually, shown, state_of

pytestmark = [pytest.mark.machine, BY_HAND, pytest.mark.timeout(1800)]

NETWORK = ("networking", "systemd-networkd", "systemd-networkd-wait-online")
"""Services for which there is nothing to do where the network is ours."""


@pytest.fixture(scope="module", params=["diskimage-builder", "mkosi"])
def image(request: pytest.FixtureRequest) -> Path:
    """The root folder of an image."""
    return baked(request.param)


@pytest.fixture
def instance(image: Path) -> Iterator[Booted]:
    """An instance of it, before its first boot."""
    with booted(boot=False, commands=False, root=image) as machine:
        # as it is in the image
        (machine.disk / "etc/machine-id").write_text("uninitialized\n")
        (machine.disk / "etc/fstab").write_text("")
        (machine.disk / "etc/cloud/cloud.cfg.d/99-network.cfg").write_text(
            "network: {config: disabled}\n"
        )
        for each in NETWORK:
            (machine.disk / f"etc/systemd/system/{each}.service").symlink_to(
                "/dev/null"
            )
        yield machine


def test_an_instance_of_it_is_configured(instance: Booted, heat: SignalServer) -> None:
    """Cloud-init finds what Heat gave it, the agent runs what Heat has for it, and so it does after another boot."""
    handed = Handed(heat)
    handed.deploy(deployment("d1", "#!/bin/sh\necho first\n", signal=heat.url("d1")))
    seeds.config_drive(instance, seeds.user_data(handed.first))
    assert not (instance.disk / "var/lib/heat-config-agent").exists()
    instance.boot(180)
    eventually(instance, lambda: state_of(instance, "d1") == "sent")
    assert shown(instance, "UnitFileState") == "enabled"
    assert shown(instance, "UnitFileState", "heat-config-apply") == "disabled"
    eventually(
        instance,
        lambda: instance.run("heat-config-agent", "status", "--check").code == 0,
    )
    assert (
        instance.run(
            "systemctl", "is-failed", "cloud-config", "cloud-final", "cloud-init"
        ).out.count("active")
        == 3
    )

    instance.crash()
    handed.deploy(deployment("d2", "#!/bin/sh\necho second\n", signal=heat.url("d2")))
    instance.boot(180)
    eventually(instance, lambda: state_of(instance, "d2") == "sent")
    assert [
        each["deploy_stdout"] for name in ("d1", "d2") for each in heat.values(name)
    ] == ["first\n", "second\n"]


def test_image_has_all_that_an_instance_needs(image: Path, instance: Booted) -> None:
    """The example for mkosi has all that an instance needs: a network, names, a disk that grows, certificates."""
    if not image.name.startswith("mkosi"):
        pytest.skip(
            "the element is one of several in an image, which has these from others"
        )
    for name in ("systemd-networkd", "systemd-resolved"):
        # the network of this instance is masked, not its names
        assert (image / f"usr/lib/systemd/system/{name}.service").exists() or (
            image / f"lib/systemd/system/{name}.service"
        ).exists()
    enabled = {path.name for path in (image / "etc/systemd/system").rglob("*.service")}
    assert {"systemd-networkd.service", "systemd-resolved.service"} <= enabled
    assert (image / "etc/resolv.conf").readlink().name == "stub-resolv.conf"
    instance.boot(180)
    for program in ("ip", "growpart", "sfdisk", "resize2fs", "resolvectl"):
        assert instance.run("sh", "-c", f"command -v {program}").code == 0, program
    assert (image / "etc/ssl/certs/ca-certificates.crt").exists()


def test_chosen_tools_are_ready_in_the_image(image: Path, instance: Booted) -> None:
    """The tools in DIB_HEAT_CONFIG_AGENT_TOOLS are ready for deployments."""
    if not image.name.startswith("diskimage-builder"):
        pytest.skip("only the element has tools: mkosi's users name packages")
    instance.boot(180)
    [line] = [
        each
        for each in instance.run("heat-config-agent", "tool", "list").out.splitlines()
        if each.startswith("ansible")
    ]
    assert line.split()[:2] == ["ansible", "yes"]
