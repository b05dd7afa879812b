"""`heat-config-agent template pack`: an archive with all that a service needs, and the same bytes each time."""

from __future__ import annotations

import os
import zipfile
from pathlib import Path

import pytest

from heat_config_stack.tosca.checks.checker import Checker
from heat_config_stack.tosca.files.archives import METADATA
from support.machine import Done, Machine
from tosca.archives import GOOD

SERVICE = """\
tosca_definitions_version: tosca_simple_yaml_1_3
imports: [ types/app.yaml ]
topology_template: { node_templates: { app: { type: App } } }
"""
TYPES = """\
tosca_definitions_version: tosca_simple_yaml_1_3
node_types:
  App:
    derived_from: tosca.nodes.Root
    interfaces: { Standard: { create: { implementation: ../scripts/create.sh } } }
"""


def pack(machine: Machine, *arguments: object) -> Done:
    """Run the command to its end."""
    return machine.command(
        "heat-config-agent", ["template", "pack", *map(str, arguments)], {}
    )


@pytest.fixture
def service(tmp_path: Path) -> Path:
    """Return a service template with the files that it names, and one that it does not."""
    folder = tmp_path / "shop"
    for name, text in {
        "service.yaml": SERVICE,
        "types/app.yaml": TYPES,
        "scripts/create.sh": "",
        "other": "",
    }.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    (folder / "scripts/create.sh").chmod(0o755)
    return folder


def members(path: Path) -> list[str]:
    """Return the names in an archive."""
    with zipfile.ZipFile(path) as file:
        return file.namelist()


def test_a_template_is_packed_with_the_files_that_it_names(
    machine: Machine, service: Path, tmp_path: Path
) -> None:
    """Scripts of imported types are among them, and keep their permission to be run."""
    done = pack(machine, service / "service.yaml", "-o", tmp_path / "a.csar")
    assert done.code == 0
    assert done.out == f"{tmp_path}/a.csar has 3 files; its entry is service.yaml\n"
    assert members(tmp_path / "a.csar") == [
        METADATA,
        "scripts/create.sh",
        "service.yaml",
        "types/app.yaml",
    ]
    with zipfile.ZipFile(tmp_path / "a.csar") as file:
        assert file.getinfo("scripts/create.sh").external_attr >> 16 == 0o100755
    found = Checker().check(str(tmp_path / "a.csar"))
    assert (found.mistakes, found.open) == ([], [])


def test_a_folder_is_packed_with_all_its_files(machine: Machine, service: Path) -> None:
    """Hidden ones are left out, and so is the archive itself; its name is that of the folder."""
    (service / ".git").mkdir()
    (service / ".git/config").write_text("")
    for _ in range(2):
        assert pack(machine, service, "-o", service / "a.csar").code == 0
    assert members(service / "a.csar") == [
        METADATA,
        "other",
        "scripts/create.sh",
        "service.yaml",
        "types/app.yaml",
    ]
    assert pack(machine, service).code == 0
    assert (machine.folder / "shop.csar").exists()


def test_the_same_files_give_the_same_bytes(
    machine: Machine, service: Path, tmp_path: Path
) -> None:
    """Whenever and wherever they were made."""
    pack(machine, service / "service.yaml", "-o", tmp_path / "a.csar")
    for path in service.rglob("*"):
        os.utime(path, (1, 1))
    pack(machine, service / "service.yaml", "-o", tmp_path / "b.csar")
    assert (tmp_path / "a.csar").read_bytes() == (tmp_path / "b.csar").read_bytes()


def test_the_metadata_of_a_folder_stay(machine: Machine, tmp_path: Path) -> None:
    """They name the entry."""
    for name, text in GOOD.items():
        (tmp_path / "in" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "in" / name).write_text(text)
    assert pack(machine, tmp_path / "in", "-o", tmp_path / "a.csar").code == 0
    with zipfile.ZipFile(tmp_path / "a.csar") as file:
        assert file.read(METADATA).decode() == GOOD[METADATA]


def test_service_with_mistakes_is_not_packed(
    machine: Machine, service: Path, tmp_path: Path
) -> None:
    """An archive that is there stays as it is."""
    (tmp_path / "a.csar").write_text("before")
    (service / "service.yaml").write_text(SERVICE.replace("App }", "Ap }"))
    done = pack(machine, service / "service.yaml", "-o", tmp_path / "a.csar")
    assert done.code == 1
    assert "there is no node type Ap (did you mean App?)" in done.err
    assert (tmp_path / "a.csar").read_text() == "before"
    assert (
        sorted(path.name for path in tmp_path.iterdir() if path.name.startswith(".a"))
        == []
    )


@pytest.mark.parametrize(
    "kind", ["link", "folder", "pipe", "absolute", "archive", "missing", "target"]
)
def test_unpackable_service_is_refused(
    kind: str, machine: Machine, service: Path, tmp_path: Path
) -> None:
    """With one sentence; nothing is written."""
    name, target = service, tmp_path / "a.csar"
    if kind == "link":
        (service / "passwd").symlink_to("/etc/passwd")
    elif kind == "folder":
        (service / "etc").symlink_to("/etc")
    elif kind == "pipe":
        os.mkfifo(service / "pipe")
    elif kind == "absolute":
        (tmp_path / "there.sh").write_text("")
        (service / "types/app.yaml").write_text(
            TYPES.replace("../scripts/create.sh", f"{tmp_path}/there.sh")
        )
        name = service / "service.yaml"
    elif kind == "archive":
        assert pack(machine, service, "-o", tmp_path / "b.csar").code == 0
        name = tmp_path / "b.csar"
    elif kind == "missing":
        name = tmp_path / "none"
    else:
        target = tmp_path / "none" / "a.csar"
    done = pack(machine, name, "-o", target)
    assert done.code == 2
    assert "error: " in done.err
    assert "Traceback" not in done.err
    assert not target.exists()


def test_archive_takes_the_place_of_a_file_only(
    machine: Machine, service: Path, tmp_path: Path
) -> None:
    """A link keeps its place and its file gets the archive; a pipe or a device, such as /dev/null, stays what it is."""
    (tmp_path / "old").write_text("old")
    (tmp_path / "link").symlink_to("old")
    done = pack(machine, service / "service.yaml", "-o", tmp_path / "link")
    assert done.code == 0, done.err
    assert (tmp_path / "link").is_symlink()
    assert zipfile.is_zipfile(tmp_path / "old")
    os.mkfifo(tmp_path / "pipe")
    done = pack(machine, service / "service.yaml", "-o", tmp_path / "pipe")
    assert done.code == 2
    assert f"cannot write {tmp_path}/pipe: it is not a regular file" in done.err
    assert (tmp_path / "pipe").is_fifo()
