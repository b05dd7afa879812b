"""Verification of units of systemd on a booted machine: each change behind the agent's back is named, and repaired."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from support.loopback import wait_until
from system.booted import Booted, booted
from system.verified import Site

pytestmark = [pytest.mark.slow, pytest.mark.takes(60), pytest.mark.timeout(300)]

UNITS = "/etc/systemd/system"


@pytest.fixture(scope="module")
def booted_machine() -> Iterator[Booted]:
    """A booted machine, for all tests of this file."""
    with booted() as machine:
        yield machine


@pytest.fixture
def site(booted_machine: Booted) -> Iterator[Site]:
    """The machine, without units of an earlier test."""
    found = Site(booted_machine, "systemd-unit", UNITS)
    try:
        yield found
    finally:
        found.end()


def web(**more: object) -> dict[str, Any]:
    """Return the sections of a service that goes on."""
    return {
        "Unit": {"Description": "web"},
        "Service": {"ExecStart": "/bin/sleep 1000", **more},
        "Install": {"WantedBy": "multi-user.target"},
    }


FILE = f"{UNITS}/web.service"
INACTIVE = ("web.service", "it is not up: its state is inactive (dead)")
DISABLED = ("web.service", "it is not enabled, so it does not start at boot")


def stop(site: Site) -> None:
    """Stop it."""
    site.systemctl("stop", "web.service")


def kill(site: Site) -> None:
    """Kill it, and wait until systemd has seen that."""
    site.systemctl("kill", "--signal=KILL", "web.service")
    wait_until(
        lambda: (
            site.machine.run("systemctl", "is-failed", "web.service").out.strip()
            == "failed"
        )
    )


def edit(site: Site) -> None:
    """Have it do something else, from its next start on."""
    site.edit("web.service", "sleep 1000", "sleep 2000")


def edit_and_reload(site: Site) -> None:
    """Have it do something else now."""
    edit(site)
    site.systemctl("daemon-reload")
    site.systemctl("restart", "web.service")


def delete(site: Site) -> None:
    """Remove its file."""
    site.file(FILE).unlink()


def delete_and_stop(site: Site) -> None:
    """Remove it."""
    delete(site)
    site.systemctl("daemon-reload")
    stop(site)


def disable(site: Site) -> None:
    """Have it not start at boot."""
    site.systemctl("disable", "web.service")


def remove_link(site: Site) -> None:
    """Have it not start at boot, without systemctl."""
    site.file(f"{UNITS}/multi-user.target.wants/web.service").unlink()


def mask(site: Site) -> None:
    """Have nothing start it."""
    delete(site)
    site.systemctl("mask", "--now", "web.service")


def touch(site: Site) -> None:
    """Have a file that is newer than what systemd has, although its text is the same."""
    text = site.file(FILE).read_text()
    site.file(FILE).unlink()
    site.file(FILE).write_text(text)
    site.file(FILE).chmod(0o644)


def stop_and_disable(site: Site) -> None:
    """Stop it, and have it not start at boot."""
    stop(site)
    disable(site)


def link(site: Site) -> None:
    """Have the file elsewhere."""
    site.file(FILE).rename(site.file("/root/web.service"))
    site.file(FILE).symlink_to("/root/web.service")


def shadow(site: Site) -> None:
    """Have another file of that name, where systemd looks first."""
    path = site.file("/etc/systemd/system.control/web.service")
    path.parent.mkdir(exist_ok=True)
    path.write_text("[Service]\nExecStart=/bin/sleep 3000\n")
    site.systemctl("daemon-reload")


RELOAD = "systemd has not reloaded it since one of its files was changed or removed"

CHANGES = {
    "stopped": (stop, [INACTIVE]),
    "killed": (
        kill,
        [
            (
                "web.service",
                "it failed: its state is failed (failed), its result is signal",
            )
        ],
    ),
    "edited": (edit, [(FILE, "its content differs")]),
    "edited and restarted": (edit_and_reload, [(FILE, "its content differs")]),
    "deleted": (delete, [(FILE, "it is missing")]),
    "deleted and stopped": (delete_and_stop, [(FILE, "it is missing")]),
    "disabled": (disable, [DISABLED]),
    "its link removed": (remove_link, [DISABLED]),
    "masked": (
        mask,
        [
            (
                FILE,
                "it is masked, so that systemd does not start it",
            )
        ],
    ),
    "not reloaded": (touch, [("web.service", RELOAD)]),
    "replaced by a link": (link, [(FILE, "a link is in its place")]),
    "another mode": (
        lambda site: site.file(FILE).chmod(0o666),
        [(FILE, "its mode is 0666 instead of 0644")],
    ),
    "stopped and disabled": (
        stop_and_disable,
        [INACTIVE, DISABLED],
    ),
}


@pytest.mark.parametrize(("change", "differences"), CHANGES.values(), ids=CHANGES)
def test_change_of_a_service_is_named_and_repaired(
    site: Site, change: Any, differences: list[tuple[str, str]]
) -> None:
    """In effect, changed behind its back, verified, repaired, verified again."""
    site.run({"web.service": web()})
    assert site.changes() == []

    change(site)

    assert site.changes() == differences
    site.repair()
    assert site.changes() == []


def test_verification_changes_nothing(site: Site) -> None:
    """Systemd is not reloaded, no file is written, and what is stopped stays stopped."""
    site.run({"web.service": web()}, inputs={"A": "1"})
    touch(site)
    stop(site)
    folders = ("/etc/systemd", "/var/lib/heat-config")

    def files() -> dict[str, float]:
        every = [path for name in folders for path in site.file(name).rglob("*")]
        return {
            str(path): path.lstat().st_mtime
            for path in every
            if path.name
            not in ("verified.json", "verifications", "heat-config", "lock")
        }

    before = files()

    assert site.changes() == [("web.service", RELOAD), INACTIVE]

    assert site.changes() == [("web.service", RELOAD), INACTIVE]
    assert files() == before


def test_unit_of_another_folder_with_the_same_name_is_named(site: Site) -> None:
    """Systemd looks there first; the file of the deployment is as it was written."""
    site.run({"web.service": web()})
    shadowing = "/etc/systemd/system.control/web.service"
    try:
        shadow(site)

        assert site.changes() == [
            (
                "web.service",
                f"systemd has it from {shadowing} instead of {FILE}",
            )
        ]
    finally:
        site.file(shadowing).unlink(missing_ok=True)
        site.systemctl("daemon-reload")


def test_units_that_have_ended_well_or_that_others_start_need_not_be_up(
    site: Site,
) -> None:
    """A oneshot, a service that ends by itself, the service of a timer, and a template."""
    job = {"Service": {"Type": "oneshot", "ExecStart": "/bin/true"}}
    # it counts as started only when it has ended
    ended = "/bin/sh -c 'while kill -0 $MAINPID 2>/dev/null; do sleep 0.05; done'"
    soon = {"Service": {"ExecStart": "/bin/true", "ExecStartPost": ended}}
    site.run(
        {
            "once.service": job,
            "ends.service": soon,
            "job.service": job,
            "job.timer": {"Timer": {"OnCalendar": "yearly"}},
            "each@.service": web(),
            "unmet.service": {
                "Unit": {"ConditionPathExists": "/nowhere"},
                "Service": {"ExecStart": "/bin/sleep 1000"},
            },
        }
    )
    assert site.changes() == []

    site.file(f"{UNITS}/job.timer").unlink()
    site.systemctl("daemon-reload")
    names = [name for name, _ in site.changes()]
    assert names[0] == f"{UNITS}/job.timer"
    assert "job.service" not in names

    site.repair()
    site.systemctl("stop", "job.timer")
    assert site.changes() == [
        ("job.timer", "it is not up: its state is inactive (dead)")
    ]


def test_service_that_remains_after_its_end_has_to_be_active(site: Site) -> None:
    """`RemainAfterExit=yes` says so; somebody has stopped it."""
    once = {"Type": "oneshot", "ExecStart": "/bin/true", "RemainAfterExit": "yes"}
    site.run({"once.service": {"Service": once}})
    assert site.changes() == []

    site.systemctl("stop", "once.service")

    assert site.changes() == [
        ("once.service", "it is not up: its state is inactive (dead)")
    ]


def test_unit_that_is_not_to_be_started_or_enabled_may_be_stopped(site: Site) -> None:
    """The options say what is asked."""
    site.run({"web.service": web()}, options={"start": False, "enable": False})

    assert site.changes() == []


def test_drop_in_of_another_unit_is_verified(site: Site) -> None:
    """The unit itself is not that of the deployment: whether it runs is not looked at."""
    name = "systemd-journald.service.d/10-it.conf"
    site.run({name: "[Unit]\nDescription=Journal\n"})
    assert site.changes() == []

    site.edit(name, "Journal", "Diary")

    assert site.changes() == [(f"{UNITS}/{name}", "its content differs")]
    site.repair()
    assert site.changes() == []


def test_changed_file_of_inputs_is_named_without_its_lines(site: Site) -> None:
    """They may be secrets."""
    site.run({"web.service": web()}, inputs={"PASSWORD": "s3cr3t-Passw0rd"})
    folder = site.file("/var/lib/heat-config/heat-config-systemd-unit")
    [path] = folder.glob("*.env")
    path.write_text('PASSWORD="0ther-Passw0rd"\n')

    row = site.verify()

    inside = f"/var/lib/heat-config/heat-config-systemd-unit/{path.name}"
    assert row["message"] == f"{inside}: its content differs"
    assert "Passw0rd" not in json.dumps(row)
    site.repair()
    assert site.changes() == []


def test_service_with_a_health_gate_is_verified_by_both(site: Site) -> None:
    """First its unit, then the script; each change is named, and repaired."""
    ready = "/var/web-is-ready"
    start = ["/bin/touch " + ready]
    gate = f"[ -e {ready} ] || {{ echo 'web does not answer'; exit 1; }}"
    options = {"settle": 0.1, "verify": {"script": gate, "timeout": 20}}
    site.run({"web.service": web(ExecStartPre=start)}, options=options)
    assert site.changes() == []

    site.file(ready).unlink()

    assert site.verify()["message"] == "web does not answer"
    for change, what in (
        (stop, "web.service: it is not up: its state is inactive (dead)"),
        (edit, f"{FILE}: its content differs"),
        (delete, f"{FILE}: it is missing"),
        (disable, "web.service: it is not enabled, so it does not start at boot"),
        (mask, f"{FILE}: it is masked, so that systemd does not start it"),
    ):
        site.file(ready).touch()
        change(site)
        assert site.verify()["message"] == what
        site.repair()
        assert site.changes() == []


def test_drop_in_that_overrides_a_setting_is_named(site: Site) -> None:
    """As of `systemctl edit`; a drop-in of another deployment is there on purpose, and others add only."""
    site.run({"web.service": web()})
    folder = site.file(f"{FILE}.d")
    folder.mkdir()
    path = folder / "override.conf"
    try:
        path.write_text("[Service]\nEnvironment=A=1\n")
        site.systemctl("daemon-reload")
        assert site.changes() == []

        path.write_text("[Service]\nExecStart=\nExecStart=/bin/sleep 7000\n")
        site.systemctl("daemon-reload")

        assert site.changes() == [
            ("web.service", f"{FILE}.d/override.conf overrides ExecStart=")
        ]
    finally:
        path.unlink()
        folder.rmdir()
        site.systemctl("daemon-reload")
