"""Archives and folders: both forms, what is refused, and where mistakes in them are."""

from __future__ import annotations

import warnings
import zipfile
from pathlib import Path

import pytest

from heat_config_stack.tosca.checks.checker import Checked, Checker
from heat_config_stack.tosca.files.archives import METADATA
from tosca.archives import DEVICE, GOOD, LINK, MAIN, META, packed, with_mode

ALONE = """\
tosca_definitions_version: tosca_simple_yaml_1_2
metadata: { template_name: shop, template_version: 1.0 }
topology_template: { node_templates: { a: { type: Compute, requirement: [] } } }
"""


def check(path: Path) -> Checked:
    """Return what is found in a file."""
    return Checker().check(str(path))


def codes(found: Checked) -> list[str]:
    """Return the codes of mistakes."""
    return [mistake.code for mistake in found.mistakes]


def test_an_archive_with_metadata_is_read(tmp_path: Path) -> None:
    """Its entry and all that this imports come from the archive."""
    found = check(packed(tmp_path / "a.csar", GOOD))
    assert codes(found) == []
    assert found.service
    assert found.service.document.find("node_types", "App")


@pytest.mark.parametrize(
    "others",
    [
        "definitions/main.yaml definitions/types/more.yaml",
        '"definitions/main.yaml"',
        "",
    ],
)
def test_other_definitions_are_files_of_the_archive(
    others: str, tmp_path: Path
) -> None:
    """TOSCA.meta names further templates in a list with blanks between them, in quotes or not."""
    metadata = META.replace("main.yaml\n", f"main.yaml\nOther-Definitions: {others}\n")
    found = check(packed(tmp_path / "a.csar", {**GOOD, METADATA: metadata}))
    assert codes(found) == []


def test_a_folder_is_read_as_an_archive(tmp_path: Path) -> None:
    """The same content in a folder is the same service."""
    for name, content in GOOD.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(content)
    assert codes(check(tmp_path)) == []


def test_an_archive_with_one_template_at_its_root_is_read(tmp_path: Path) -> None:
    """Mistakes in it have places that lead into the archive."""
    path = packed(tmp_path / "a.csar", {"shop.yml": ALONE, "scripts/x.yaml": "[]"})
    found = check(path)
    assert codes(found) == ["key-unknown"]
    assert str(found.mistakes[0].place) == f"{path}!/shop.yml:3:60"


@pytest.mark.parametrize("key", ["template_name", "template_version"])
def test_a_template_at_the_root_needs_metadata(key: str, tmp_path: Path) -> None:
    """Without TOSCA.meta its name and version are needed."""
    text = ALONE.replace(key, "other").replace(", requirement: []", "")
    assert codes(check(packed(tmp_path / "a.csar", {"shop.yaml": text}))) == [
        "archive-metadata"
    ]


@pytest.mark.parametrize(
    "members", [{"a.yaml": MAIN, "b.yml": MAIN}, {"b/a.yaml": MAIN}, {}]
)
def test_without_metadata_there_is_one_template_at_the_root(
    members: dict[str, str], tmp_path: Path
) -> None:
    """None and several are refused."""
    assert codes(check(packed(tmp_path / "a.csar", members))) == ["archive-entry"]


@pytest.mark.parametrize(
    ("metadata", "code"),
    [
        (META.replace("CSAR-Version: 1.1\n", ""), "archive-metadata"),
        (META.replace("Created-By: somebody\n", ""), "archive-metadata"),
        (META.replace("File-Version: 1.0", "File-Version: 9"), "archive-metadata"),
        (
            META.replace("Entry-Definitions: definitions/main.yaml\n", ""),
            "archive-metadata",
        ),
        (META.replace("definitions/main", "definitions/other"), "archive-entry"),
        (META.replace("definitions/main", "../definitions/main"), "archive-entry"),
        (
            META.replace(
                "main.yaml\n", "main.yaml\nOther-Definitions: definitions/other.yaml\n"
            ),
            "archive-entry",
        ),
        (
            META.replace("main.yaml\n", 'main.yaml\nOther-Definitions: "../a b"\n'),
            "archive-entry",
        ),
        ("nothing", "archive-metadata"),
        ("", "archive-metadata"),
    ],
)
def test_metadata_that_lack_something_are_refused(
    metadata: str, code: str, tmp_path: Path
) -> None:
    """Each key of the first block is needed, and the entry has to be there."""
    assert codes(check(packed(tmp_path / "a.csar", {**GOOD, METADATA: metadata}))) == [
        code
    ]


@pytest.mark.parametrize(
    "name", ["../x", "/x", "a/../../x", "a\\..\\x", "c:x", "a/../x"]
)
def test_a_member_that_leads_out_is_refused(name: str, tmp_path: Path) -> None:
    """Nothing outside of an archive is named by it."""
    assert codes(check(packed(tmp_path / "a.csar", {**GOOD, name: "x"}))) == [
        "archive-member"
    ]


@pytest.mark.parametrize("mode", [LINK, DEVICE])
def test_links_and_devices_in_archives_are_refused(mode: int, tmp_path: Path) -> None:
    """Links and devices are not taken."""
    assert codes(check(with_mode(tmp_path / "a.csar", "x", mode))) == ["archive-member"]


def test_member_with_the_separator_of_windows_is_read(tmp_path: Path) -> None:
    """Some programs write backslashes between folders; in an archive of a service it can mean nothing else."""
    members = {name.replace("/", "\\"): content for name, content in GOOD.items()}
    assert codes(check(packed(tmp_path / "a.csar", members))) == []


def test_a_member_twice_is_refused(tmp_path: Path) -> None:
    """It would depend on the reader which of them counts."""
    path = packed(tmp_path / "a.csar", GOOD)
    with warnings.catch_warnings(), zipfile.ZipFile(path, "a") as file:
        warnings.simplefilter("ignore")
        file.writestr("definitions/main.yaml", "x")
    assert codes(check(path)) == ["archive-member"]


def test_an_archive_that_is_too_large_is_refused(tmp_path: Path) -> None:
    """The sizes that it has when unpacked count, before anything is unpacked."""
    path = tmp_path / "a.csar"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("x", bytes(1024**2))
        file.getinfo("x").file_size = 1025 * 1024**2  # as its directory then says
    assert codes(check(path)) == ["archive"]


@pytest.mark.parametrize("cut", [0, 4, 30, 200])
def test_a_damaged_archive_is_refused(cut: int, tmp_path: Path) -> None:
    """An unreadable zip file is reported as such."""
    path = packed(tmp_path / "a.csar", GOOD)
    path.write_bytes(path.read_bytes()[:cut])
    assert codes(check(path)) == ["archive"]


def test_a_damaged_member_is_reported_where_it_is_named(tmp_path: Path) -> None:
    """The rest of the archive is still read."""
    path = packed(tmp_path / "a.csar", GOOD)
    content = bytearray(path.read_bytes())
    with zipfile.ZipFile(path) as file:
        info = file.getinfo("definitions/types/more.yaml")
    at = info.header_offset + 30 + len(info.filename)
    content[at : at + 20] = bytes(20)
    path.write_bytes(content)
    assert codes(check(path)) == ["import-missing"]


def test_an_import_cannot_leave_a_folder(tmp_path: Path) -> None:
    """An import leaves its folder neither by its path nor by a link."""
    (tmp_path / "outside.yaml").write_text(MAIN)
    folder = tmp_path / "service"
    folder.mkdir()
    (folder / "link.yaml").symlink_to(tmp_path / "outside.yaml")
    text = (
        ALONE.replace(", requirement: []", "")
        + "imports: [ ../outside.yaml, link.yaml ]\n"
    )
    (folder / "shop.yaml").write_text(text)
    (folder / "TOSCA-Metadata").mkdir()
    (folder / METADATA).write_text(META.replace("definitions/main", "shop"))
    assert codes(check(folder)) == ["import-missing", "import-missing"]
