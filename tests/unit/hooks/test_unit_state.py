"""The verdict about units of systemd, from recorded answers of `systemctl show`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from heat_config_hooks.tools import unit_folder, unit_state
from heat_config_hooks.verdict import Change, Standing, Verdict, drifted

WEB = {
    "Type": "simple",
    "RemainAfterExit": "no",
    "Result": "success",
    "Id": "web.service",
    "LoadState": "loaded",
    "ActiveState": "active",
    "FragmentPath": "/etc/systemd/system/web.service",
    "SubState": "running",
    "NeedDaemonReload": "no",
}
"""A service that runs."""

FILES = {"web.service": "/etc/systemd/system/web.service"}


def verdict(differing: Any = (), **properties: Any) -> Verdict:
    """Return the verdict about a service with these properties."""
    return unit_state.of_units(
        [{**WEB, **properties}],
        files=FILES,
        sources={},
        differing=differing,
        expected={"web.service"},
    )


STATES = {
    "running": ({}, ""),
    "reloading": ({"ActiveState": "reloading", "SubState": "reload"}, ""),
    "stopped": (
        {"ActiveState": "inactive", "SubState": "dead"},
        "it is not up: its state is inactive (dead)",
    ),
    "failed": (
        {"ActiveState": "failed", "SubState": "failed", "Result": "exit-code"},
        "it failed: its state is failed (failed), its result is exit-code",
    ),
    "started again and again": (
        {
            "ActiveState": "activating",
            "SubState": "auto-restart",
            "Result": "exit-code",
        },
        "it does not stay up: its state is activating (auto-restart), its result is exit-code",
    ),
    "a oneshot that has ended well": (
        {"Type": "oneshot", "ActiveState": "inactive", "SubState": "dead"},
        "",
    ),
    "a oneshot that has failed": (
        {
            "Type": "oneshot",
            "ActiveState": "failed",
            "SubState": "failed",
            "Result": "exit-code",
        },
        "it failed: its state is failed (failed), its result is exit-code",
    ),
    "a oneshot that remains, and was stopped": (
        {
            "Type": "oneshot",
            "RemainAfterExit": "yes",
            "ActiveState": "inactive",
            "SubState": "dead",
        },
        "it is not up: its state is inactive (dead)",
    ),
    "masked": (
        {
            "LoadState": "masked",
            "ActiveState": "inactive",
            "SubState": "dead",
            "FragmentPath": "/dev/null",
        },
        "it is masked, so that systemd does not start it",
    ),
    "not reloaded": (
        {"NeedDaemonReload": "yes"},
        "systemd has not reloaded it since one of its files was changed or removed",
    ),
    "never loaded": (
        {
            "LoadState": "not-found",
            "ActiveState": "inactive",
            "SubState": "dead",
            "FragmentPath": "",
            "LoadError": 'org.freedesktop.systemd1.NoSuchUnit "Unit web.service not found."',
        },
        "systemd does not have it: it has not been reloaded since the file was written",
    ),
    "a bad setting": (
        {
            "LoadState": "bad-setting",
            "LoadError": 'org.freedesktop.systemd1.BadUnitSetting "Unit web.service has a bad unit file setting."',
        },
        "systemd cannot load it: Unit web.service has a bad unit file setting.",
    ),
    "another file": (
        {"FragmentPath": "/usr/lib/systemd/system/web.service"},
        "systemd has it from /usr/lib/systemd/system/web.service instead of /etc/systemd/system/web.service",
    ),
}


@pytest.mark.parametrize(("properties", "how"), STATES.values(), ids=STATES)
def test_state_of_a_unit_is_named(properties: dict[str, str], how: str) -> None:
    """One sentence for each way in which a unit is not as the deployment says."""
    found = verdict(**properties)

    assert [change.how for change in found.changes] == ([how] if how else [])
    assert (found.standing is Standing.DRIFTED) is bool(how)


@pytest.mark.parametrize("state", ["activating", "deactivating"])
def test_unit_that_is_starting_or_stopping_is_unknown(state: str) -> None:
    """It is neither up nor down."""
    found = verdict(ActiveState=state, SubState="start")

    assert found.standing is Standing.UNKNOWN
    assert found.reason == f"web.service is {state} (start)"


def test_difference_that_follows_from_a_changed_file_is_not_listed() -> None:
    """Systemd has not reloaded the file: that it was changed is said already. That the unit is down is said too."""
    reload = {"NeedDaemonReload": "yes"}
    assert verdict({"web.service"}, **reload).standing is Standing.OK

    down = verdict({"web.service"}, ActiveState="inactive", SubState="dead", **reload)

    assert [change.how for change in down.changes] == [
        "it is not up: its state is inactive (dead)"
    ]


def test_unit_that_is_not_expected_may_be_down() -> None:
    """Others start it."""
    unit = {**WEB, "ActiveState": "inactive", "SubState": "dead"}

    found = unit_state.of_units(
        [unit], files=FILES, sources={}, differing=(), expected=()
    )

    assert found.standing is Standing.OK


def test_generated_unit_has_a_source() -> None:
    """Its unit file is the generator's."""
    generated = {
        **WEB,
        "FragmentPath": "/run/systemd/generator/web.service",
        "SourcePath": "/etc/containers/systemd/web.container",
    }
    source = {"web.service": "/etc/containers/systemd/web.container"}
    words: dict[str, Any] = {"files": {}, "differing": (), "expected": ("web.service",)}
    assert (
        unit_state.of_units([generated], sources=source, **words).standing
        is Standing.OK
    )

    found = unit_state.of_units([{**WEB, "SourcePath": ""}], sources=source, **words)

    assert found.changes[0].how == (
        "systemd has it from somewhere else instead of /etc/containers/systemd/web.container"
    )


def test_units_that_others_start_are_known_by_text_and_by_systemd() -> None:
    """Systemd knows nothing of a timer whose file was removed."""
    units = {
        "backup.timer": "[Timer]\nOnCalendar=daily\n",
        "web.socket": "[Socket]\nListenStream=80\nService = http.service\n",
        "spool.path": "[Path]\nPathChanged=/spool\nUnit=\tprint.service\n",
        "data.automount": "[Automount]\nWhere=/data\n",
        "web.service": "[Service]\nExecStart=/bin/true\n",
    }
    shown = [{"Id": "other.timer", "Triggers": "other.service more.service"}, WEB]

    assert unit_state.triggered(units, shown) == {
        "backup.service",
        "http.service",
        "print.service",
        "data.mount",
        "other.service",
        "more.service",
    }


def test_link_that_masks_a_unit_is_named_so(tmp_path: Path) -> None:
    """Any other link stays a link."""
    masked, link = tmp_path / "a.service", tmp_path / "b.service"
    masked.symlink_to("/dev/null")
    link.symlink_to("/nowhere")
    how = "a link is in its place"
    found = drifted(Change(what=str(path), how=how) for path in (masked, link))
    masks = unit_folder.masks([masked, link, tmp_path / "c.service"])

    changed = unit_state.of_files(found, masks)

    assert [change.how for change in changed.changes] == [unit_state.MASKED, how]
    assert unit_state.units_of(changed, str(tmp_path)) == {"a.service", "b.service"}


def test_changed_drop_in_is_that_of_its_unit() -> None:
    """The unit differs because of it."""
    changes = [
        Change(what="/etc/systemd/system/a.service.d/10-x.conf", how="it is missing"),
        Change(what="/elsewhere/it.env", how="it is missing"),
    ]

    assert unit_state.units_of(drifted(changes), "/etc/systemd/system/") == {
        "a.service"
    }
