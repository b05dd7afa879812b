"""The web servers of `docs/verify.md` and `docs/recipes.md` on a booted machine: broken, verified, repaired, undone."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from support import ports
from support.tools import need
from system.booted import Booted, booted

pytestmark = [pytest.mark.slow, pytest.mark.takes(30), pytest.mark.timeout(300)]

PAGE = Path(__file__).parents[2] / "docs/verify.md"
RECIPES = Path(__file__).parents[2] / "docs/recipes.md"
UNIT = "/etc/systemd/system/web.service"
SETTINGS = "/srv/web/nginx.conf"

THEIRS = "8080"
"""The port of the page. The network of the machine is ours, where another program may listen on it."""


@pytest.fixture(scope="module")
def port() -> str:
    """The port on which the site is."""
    return str(ports.reserved())


@pytest.fixture(scope="module")
def machine(port: str) -> Iterator[Booted]:
    """A booted machine with nginx, on which the template of the page was applied."""
    need("nginx", "nginx")
    with booted() as machine:
        install_nginx(machine)
        [template] = re.findall(
            r"^```yaml web\.yaml\n(.*?)^```", PAGE.read_text(), re.DOTALL | re.MULTILINE
        )
        (machine.disk / "root/web.yaml").write_text(template.replace(THEIRS, port))
        done = machine.run("heat-config-apply", "/root/web.yaml")
        assert done.code == 0, done.out + done.err
        yield machine


def install_nginx(machine: Booted) -> None:
    """Copy the program of this machine, with the libraries that it needs and the other one lacks."""
    nginx = shutil.which("nginx") or "/usr/sbin/nginx"
    said = subprocess.run(["ldd", nginx], capture_output=True, text=True, check=True)
    for path in [nginx, *re.findall(r"(/\S+) \(0x", said.stdout)]:
        copy = machine.disk / path.lstrip("/")
        if not copy.exists():
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, copy)
    for folder in ("var/log/nginx", "var/lib/nginx"):
        (machine.disk / folder).mkdir(parents=True, exist_ok=True)


def states(machine: Booted, *words: str) -> tuple[int, dict[str, str]]:
    """Verify everything; return the exit code, and the state of each deployment with what differs."""
    done = machine.run("heat-config-agent", "verify", "--json", *words)
    return done.code, {
        row["name"]: f"{row['state']} {row['message']}".strip()
        for row in done.data["deployments"]
    }


IN_EFFECT = {"web/nginx": "ok", "web/page": "ok"}

CHANGES = {
    "stopped": (
        "systemctl stop web",
        "web/nginx",
        "drifted web.service: it is not up: its state is inactive (dead)",
    ),
    "edited": (
        f"sed -i s/{THEIRS}/8081/ {SETTINGS}",
        "web/page",
        f"drifted nginx.conf does not listen at {THEIRS}",
    ),
    "removed": (f"rm {UNIT}", "web/nginx", f"drifted {UNIT}: it is missing"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_change_of_the_site_is_named_and_repaired(
    machine: Booted, port: str, change: str
) -> None:
    """The check of the stack fails for the same reason, and all is in effect after the repair."""
    command, name, shown = CHANGES[change]
    assert shown.removeprefix("drifted ") in PAGE.read_text()
    command, expected = (text.replace(THEIRS, port) for text in (command, shown))
    assert states(machine) == (0, IN_EFFECT)
    assert machine.run("sh", "-c", command).code == 0

    assert states(machine) == (9, {**IN_EFFECT, name: expected})
    checked = machine.run("heat-config-agent", "stack", "check", "web")
    assert checked.code == 9, checked.out + checked.err
    assert expected.removeprefix("drifted ") in checked.out

    code, repaired = states(machine, "--repair")
    assert (code, set(repaired)) == (0, set(IN_EFFECT))
    assert states(machine) == (0, IN_EFFECT)
    assert machine.run("systemctl", "is-active", "web").code == 0
    assert machine.run("heat-config-agent", "stack", "check", "web").code == 0


def test_site_of_the_recipe_is_applied_and_undone(machine: Booted) -> None:
    """The document serves its page and is verified; with the action DELETE, its service and its files are gone."""
    text = RECIPES.read_text()
    [document] = re.findall(
        r"^```yaml site\.yaml\n(.*?)^```", text, re.DOTALL | re.MULTILINE
    )
    [undo] = re.findall(r"(?m)^sed .* >undo\.yaml$", text)
    (machine.disk / "root/site.yaml").write_text(document)

    done = machine.run("heat-config-apply", "/root/site.yaml")
    assert done.code == 0, done.out + done.err
    assert machine.run("systemctl", "is-active", "site").code == 0
    code, verified = states(machine, "package", "page", "service")
    assert (code, set(verified.values())) == (0, {"ok"})

    assert machine.run("sh", "-c", f"cd /root && {undo}").code == 0
    done = machine.run("heat-config-apply", "/root/undo.yaml")
    assert done.code == 0, done.out + done.err
    assert machine.run("systemctl", "is-active", "site").code != 0
    assert not (machine.disk / "srv/site").exists()
    assert not (machine.disk / "etc/systemd/system/site.service").exists()
