from __future__ import annotations

import errno
import json
import os
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

import pytest

from heat_config_agent.model.errors import StateError
from heat_config_agent.state import instance
from heat_config_hooks import files

A = {"cloud-init": "i-a", "dmi": "aaaaaaaa-0000-4000-8000-000000000001"}
B = {"cloud-init": "i-b", "dmi": "bbbbbbbb-0000-4000-8000-000000000002"}

CONTENT = {
    "journal": "what was done",
    "runs/1/stdout": "hello",
    "asked/1.again": "",
    "documents/heat.json": "{}",
    "deployed/1.json": "{}",
    "learned.json": "{}",
    ".hidden": "x",
}


def put(root: Path, path: str, text: str) -> Path:
    """A file on the machine."""
    (root / path).parent.mkdir(parents=True, exist_ok=True)
    (root / path).write_text(text)
    return root / path


def filled(state: Path) -> Path:
    """A state directory in use, with its lock."""
    for path, text in {**CONTENT, "lock": "7\n"}.items():
        put(state, path, text)
    return state


def tree(folder: Path) -> dict[str, str]:
    """The files of a folder and what is in them."""
    return {
        str(path.relative_to(folder)): path.read_text()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def recorded(state: Path) -> object:
    """Return the recorded identity of the state."""
    return json.loads((state / "instance.json").read_text())


# Who it is


def test_machine_without_ids_has_no_identity(tmp_path: Path) -> None:
    """Its identity is empty."""
    assert instance.identity(tmp_path) == {}


def test_cloud_init_and_the_firmware_name_an_instance(tmp_path: Path) -> None:
    """Letters of a uuid are small: kernels differ in that."""
    put(tmp_path, "run/cloud-init/.instance-id", "i-a\n")
    put(tmp_path, "sys/class/dmi/id/product_uuid", A["dmi"].upper() + "\n")
    assert instance.identity(tmp_path) == A


def test_only_files_of_this_boot_of_cloud_init_count(tmp_path: Path) -> None:
    """Files of an earlier boot in /var/lib may come from a copied disk, so only those of this boot count."""
    path = put(tmp_path, "var/lib/cloud/data/instance-id", "i-old\n")
    assert instance.identity(tmp_path) == {"cloud-init": "i-old"}
    booted = time.time() - time.clock_gettime(time.CLOCK_BOOTTIME)
    os.utime(path, (booted - 60, booted - 60))
    assert instance.identity(tmp_path) == {}
    put(tmp_path, "run/cloud-init/.instance-id", "i-new\n")
    assert instance.identity(tmp_path) == {"cloud-init": "i-new"}


@pytest.mark.parametrize(
    "text", ["iid-datasource-none\n", "nocloud", "None", "", "\n", "two words"]
)
def test_default_name_of_cloud_init_identifies_no_instance(
    tmp_path: Path, text: str
) -> None:
    """Every copy of the disk would have it."""
    put(tmp_path, "run/cloud-init/.instance-id", text)
    assert instance.identity(tmp_path) == {}


@pytest.mark.parametrize(
    "text",
    [
        "00000000-0000-0000-0000-000000000000",
        "FFFFFFFF-FFFF-FFFF-FFFF-FFFFFFFFFFFF",
        "03000200-0400-0500-0006-000700080009",
        "Not Settable",
        "Not Present",
        "To be filled by O.E.M.",
        "",
    ],
)
def test_placeholder_uuid_is_ignored(tmp_path: Path, text: str) -> None:
    """Placeholder values of board makers are not a UUID."""
    put(tmp_path, "sys/class/dmi/id/product_uuid", text + "\n")
    assert instance.identity(tmp_path) == {}


@pytest.mark.parametrize(
    "mark", ["run/systemd/container", "run/.containerenv", ".dockerenv"]
)
def test_in_a_container_the_firmware_is_the_hosts(tmp_path: Path, mark: str) -> None:
    """A container that moves to another host is the same one."""
    put(tmp_path, "sys/class/dmi/id/product_uuid", A["dmi"])
    put(tmp_path, mark, "")
    assert instance.identity(tmp_path) == {}


# Whose the state is


def test_who_it_is_is_recorded_at_first(tmp_path: Path) -> None:
    """For nobody else to read; the state of an older version is taken for this instance's."""
    filled(tmp_path)
    assert instance.set_aside(tmp_path, A) == ""
    assert stat.S_IMODE((tmp_path / "instance.json").stat().st_mode) == 0o600
    assert recorded(tmp_path) == {"identity": A}
    assert {
        name: text for name, text in tree(tmp_path).items() if name in CONTENT
    } == CONTENT


def test_where_nothing_is_known_nothing_is_done(tmp_path: Path) -> None:
    """An unknown instance is never treated as another one, neither at first nor later."""
    assert instance.set_aside(tmp_path, {}) == ""
    assert tree(tmp_path) == {}
    instance.set_aside(filled(tmp_path), A)
    assert instance.set_aside(tmp_path, {}) == ""
    assert recorded(tmp_path) == {"identity": A}


@pytest.mark.parametrize(
    ("found", "known_then"),
    [
        (A, A),
        ({"cloud-init": "i-a"}, A),
        ({"dmi": A["dmi"]}, A),
        (
            {"cloud-init": "i-a", "dmi": B["dmi"]},
            {"cloud-init": "i-a", "dmi": B["dmi"]},
        ),  # moved to another machine
    ],
)
def test_the_same_instance_keeps_its_state(
    tmp_path: Path, found: Mapping[str, str], known_then: Mapping[str, str]
) -> None:
    """The first kind that both know decides."""
    instance.set_aside(filled(tmp_path), A)
    assert instance.set_aside(tmp_path, found) == ""
    assert recorded(tmp_path) == {"identity": known_then}
    assert (tmp_path / "journal").exists()


def test_a_kind_that_becomes_known_later_counts_from_then_on(tmp_path: Path) -> None:
    """As when the agent starts before cloud-init."""
    dmi = {"dmi": A["dmi"]}
    for found in (dmi, A, dmi):
        assert instance.set_aside(filled(tmp_path), found) == ""
    assert recorded(tmp_path) == {"identity": A}
    assert instance.set_aside(tmp_path, {**A, "cloud-init": "i-b"}) != ""


@pytest.mark.parametrize(
    "identity", [B, {"cloud-init": "i-b"}, {"cloud-init": "i-b", "dmi": A["dmi"]}]
)
def test_on_another_instance_the_state_is_set_aside(
    tmp_path: Path, identity: Mapping[str, str]
) -> None:
    """All but the lock; nothing is deleted; and a sentence says so."""
    instance.set_aside(filled(tmp_path), A)
    said = instance.set_aside(tmp_path, identity)
    assert said == (
        f"{tmp_path} belonged to another instance (cloud-init i-a, and this is i-b): "
        f"its content was moved to {tmp_path}/of-i-a"
    )
    assert sorted(os.listdir(tmp_path)) == ["instance.json", "lock", "of-i-a"]
    assert tree(tmp_path / "of-i-a") == CONTENT
    assert stat.S_IMODE((tmp_path / "of-i-a").stat().st_mode) == 0o700
    assert recorded(tmp_path) == {"identity": identity}
    assert instance.set_aside(tmp_path, identity) == ""


def test_records_of_another_instance_are_set_aside(tmp_path: Path) -> None:
    """heat-agents' folder goes with the state, also where it is elsewhere."""
    state, deployed = filled(tmp_path / "state"), tmp_path / "elsewhere/deployed"
    deployed.mkdir(parents=True)
    (deployed / "d1.json").write_text("{}")
    assert instance.set_aside(state, A, deployed) == ""
    assert (deployed / "d1.json").exists()
    assert instance.set_aside(state, B, deployed) != ""
    assert not deployed.exists()
    assert tree(state / "of-i-a/deployed-2") == {"d1.json": "{}"}
    assert instance.set_aside(state, A, deployed) != ""  # there is none


def test_the_firmware_decides_where_cloud_init_is_not_known(tmp_path: Path) -> None:
    """On an instance without it."""
    instance.set_aside(filled(tmp_path), {"dmi": A["dmi"]})
    assert f"dmi {A['dmi']}" in instance.set_aside(tmp_path, B)
    assert tree(tmp_path / f"of-{A['dmi']}") == CONTENT


def test_each_time_there_is_a_folder_of_its_own(tmp_path: Path) -> None:
    """The state is set aside in a new folder each time, also if an instance returns."""
    for _ in range(2):
        instance.set_aside(filled(tmp_path), A)
        instance.set_aside(filled(tmp_path), B)
    assert sorted(os.listdir(tmp_path)) == [
        "instance.json",
        "lock",
        "of-i-a",
        "of-i-a-2",
        "of-i-b",
    ]
    assert all(
        tree(tmp_path / each) == CONTENT for each in ("of-i-a", "of-i-a-2", "of-i-b")
    )


@pytest.mark.parametrize("name", ["../../x", "a/b", "\x00", "x" * 500, ".", "é"])
def test_unsafe_instance_id_becomes_a_safe_file_name(tmp_path: Path, name: str) -> None:
    """An id with other characters is converted to a file name."""
    state = filled(tmp_path / "state")
    instance.set_aside(state, {"cloud-init": name})
    instance.set_aside(state, B)
    (folder,) = (each for each in os.listdir(state) if each.startswith("of-"))
    assert tree(state / folder) == CONTENT
    assert os.listdir(tmp_path) == ["state"]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "null",
        "{}",
        '{"identity": 7}',
        '{"identity": {"dmi": 7}}',
        '{"identity": {}, "leaving": "../x"}',
        '{"identity": {}, "leaving": "of-/../../x"}',
        '{"identity": {}, "leaving": 7}',
        "[" * 100_000,
        "\x00" * 50,
    ],
)
def test_a_record_that_cannot_be_understood_is_set_aside(
    tmp_path: Path, text: str
) -> None:
    """An unreadable record is set aside with a warning and counts as none, and the state stays."""
    put(filled(tmp_path), "instance.json", text)
    said = instance.set_aside(tmp_path, A)
    assert (
        f"cannot read {tmp_path}/instance.json, which says which instance {tmp_path} belongs to: it was set aside as "
        in said
    )
    assert (tmp_path / said.rpartition(" ")[2]).read_text() == text
    assert recorded(tmp_path) == {"identity": A}
    assert (tmp_path / "journal").exists()
    assert instance.set_aside(tmp_path, A) == ""


def test_a_full_disk_does_not_stop_an_instance_that_is_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A full disk is reported, and no state is moved without a record of its new place."""

    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device", "instance.json")

    instance.set_aside(filled(tmp_path), {"dmi": A["dmi"]})
    monkeypatch.setattr(files, "replace", full)
    assert "No space left on device" in instance.set_aside(tmp_path, A)
    with pytest.raises(
        StateError,
        match=r"belongs to this instance: No space left on device: instance\.json",
    ):
        instance.set_aside(tmp_path, {"dmi": B["dmi"]})
    assert (tmp_path / "journal").exists()


KILLED = """
import os, signal, sys
from pathlib import Path
from heat_config_agent.state import instance
from heat_config_hooks import files
left = int(sys.argv[2])
def count(step):
    def counted(*args, **options):
        global left
        left -= 1
        if left < 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return step(*args, **options)
    return counted
for place, names in ((Path, ("rename", "replace", "mkdir")), (os, ("fsync", "write", "ftruncate"))):
    for name in names:
        setattr(place, name, count(getattr(place, name)))
print(instance.set_aside(Path(sys.argv[1]), {"cloud-init": "i-b"}))
"""


def test_move_that_was_killed_is_completed_at_the_next_start(tmp_path: Path) -> None:
    """Before every one of its steps: the state ends in one folder, and nothing of it is lost or left."""
    for step in range(100):
        state = filled(tmp_path / str(step))
        instance.set_aside(state, {"cloud-init": "i-a"})
        ended = subprocess.run(
            [sys.executable, "-c", KILLED, str(state), str(step)],
            capture_output=True,
            text=True,
            check=False,
        )
        if ended.returncode == 0:
            break
        assert ended.returncode == -signal.SIGKILL, ended.stderr
        moved = json.loads((state / "instance.json").read_text()) != {
            "identity": {"cloud-init": "i-b"}
        }
        if step % 2:
            # somebody asks for something meanwhile, for which no lock is needed
            put(state, "asked/2.again", "")
        said = instance.set_aside(state, {"cloud-init": "i-b"})
        assert ("its content was moved to" in said) == moved
        assert [
            each
            for each in sorted(os.listdir(state))
            if each not in ("asked", ".instance.json.new")
        ] == [
            "instance.json",
            "lock",
            "of-i-a",
        ]
        assert CONTENT.items() <= tree(state / "of-i-a").items()
        assert recorded(state) == {"identity": {"cloud-init": "i-b"}}
        assert instance.set_aside(state, {"cloud-init": "i-b"}) == ""
    assert step > 10
    assert "its content was moved to" in ended.stdout


def test_a_move_that_was_cut_short_is_ended_whoever_it_is_now(tmp_path: Path) -> None:
    """Part of the state is gone by then: the rest is of no use to anybody."""
    put(
        filled(tmp_path),
        "instance.json",
        json.dumps({"identity": A, "leaving": "of-i-a", "kind": "cloud-init"}),
    )
    assert "its content was moved to" in instance.set_aside(tmp_path, {})
    assert tree(tmp_path / "of-i-a") == CONTENT
    assert recorded(tmp_path) == {"identity": {}}


# The same machine by another name

UUID = "5f0d3c5e-52f1-4f0e-9b0a-4f3a5d1c9e77"
HARDWARE = {"dmi": A["dmi"]}


@pytest.mark.fault(
    1,
    "cloud-init's id of an instance becomes one of another kind, as with another source of its data",
    "where the uuid of the hardware is the same the state stays, and nothing is run again",
)
@pytest.mark.parametrize(
    ("before", "now"),
    [
        (UUID, "i-0000abcd"),
        ("i-0000abcd", UUID),
        (UUID, "iid-local01"),
        ("iid-local01", UUID),
        (UUID, UUID.upper()),
    ],
)
def test_another_kind_of_id_on_the_same_hardware_keeps_the_state(
    tmp_path: Path, before: str, now: str
) -> None:
    """A change of cloud-init's source of data makes no other machine."""
    state = filled(tmp_path / "state")
    assert instance.set_aside(state, {"cloud-init": before, **HARDWARE}) == ""
    kept = tree(state)
    said = instance.set_aside(state, {"cloud-init": now, **HARDWARE})
    assert (
        said
        == f"this machine was {before} for cloud-init and is {now} now: its state stays"
    )
    assert {**tree(state), "instance.json": ""} == {**kept, "instance.json": ""}
    assert recorded(state) == {"identity": {"cloud-init": now, **HARDWARE}}
    assert instance.set_aside(state, {"cloud-init": now, **HARDWARE}) == ""


@pytest.mark.parametrize(
    ("before", "now"),
    [
        (
            {"cloud-init": UUID, **HARDWARE},
            {"cloud-init": UUID.replace("5f", "6f"), **HARDWARE},
        ),
        (
            {"cloud-init": "i-0000abcd", **HARDWARE},
            {"cloud-init": "i-0000abce", **HARDWARE},
        ),
        (
            {"cloud-init": "iid-local01", **HARDWARE},
            {"cloud-init": "iid-local02", **HARDWARE},
        ),
        (
            {"cloud-init": UUID, **HARDWARE},
            {"cloud-init": "i-0000abcd", "dmi": B["dmi"]},
        ),
        ({"cloud-init": UUID, **HARDWARE}, {"cloud-init": "i-0000abcd"}),
        ({"cloud-init": UUID}, {"cloud-init": "i-0000abcd", **HARDWARE}),
        ({"cloud-init": UUID}, {"cloud-init": "i-0000abcd"}),
    ],
)
def test_anything_less_certain_is_another_instance(
    tmp_path: Path, before: Mapping[str, str], now: Mapping[str, str]
) -> None:
    """An image of a server of metal, put onto the same server; another uuid, or none: it starts anew."""
    state = filled(tmp_path / "state")
    instance.set_aside(state, before)
    assert "belonged to another instance" in instance.set_aside(state, now)
    assert not (state / "journal").exists()
