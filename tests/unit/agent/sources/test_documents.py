from __future__ import annotations

import stat
from pathlib import Path

import pytest

from heat_config_agent.deployments import metadata
from heat_config_agent.model.deployment import Document
from heat_config_agent.sources import document_text
from heat_config_agent.sources.documents import Documents, in_force, refusal

GOOD = {"deployments": [], "é": 1}


def held(*names: str) -> dict[str, Document]:
    """Return documents of these sources."""
    return {name: Document(source=name, content=GOOD) for name in names}


def test_a_document_is_kept_for_the_next_start(tmp_path: Path) -> None:
    """For nobody else's eyes: there are passwords in it."""
    first = Documents(tmp_path)
    assert (first.held, first.warnings) == ({}, [])
    assert first.take(Document(source="local", content=GOOD)) == ""
    assert Documents(tmp_path).held == held("local")
    path = tmp_path / "documents" / "local.json"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    first.drop("local")
    first.drop("heat")
    assert Documents(tmp_path).held == first.held == {}


def test_invalid_document_replaces_no_valid_one() -> None:
    """A document that is not metadata replaces no good one, and is reported."""
    nonsense: tuple[object, ...] = (None, "text", 5, {}, {"deployments": {}})
    for content in nonsense:
        parsed = metadata.parse(Document(source="heat", content=content))
        assert refusal("heat", parsed).startswith(
            "heat answered with something that is not metadata: "
        )
    assert refusal("heat", metadata.parse(Document(source="heat", content=GOOD))) == ""


def test_document_of_settings_alone_removes_no_deployment(tmp_path: Path) -> None:
    """A document of settings alone removes no deployment; an empty list does."""
    documents = Documents(tmp_path)
    documents.take(
        Document(
            source="heat",
            content={"deployments": [{"id": "d1"}], "os-collect-config": {}},
        )
    )
    newer = {"os-collect-config": {"polling_interval": 5}}
    for content in (newer, {**newer, "deployments": None}):
        assert documents.take(Document(source="heat", content=content)) == ""
        assert documents.held["heat"].content == {
            **newer,
            "deployments": [{"id": "d1"}],
        }
        assert Documents(tmp_path).held == documents.held
    documents.take(Document(source="heat", content={"deployments": []}))
    assert documents.held["heat"].content == {"deployments": []}


def test_whatever_a_file_may_hold_can_be_kept(tmp_path: Path) -> None:
    """YAML knows more kinds of values than JSON does."""
    text = "deployments: []\ndate: 2026-11-20\ntime: 2026-11-20T18:26:35Z\nset: {1: x, null: y}\n"
    content: object = document_text.load(text, "site.yaml")
    assert Documents(tmp_path).take(Document(source="file", content=content)) == ""
    assert "file" in Documents(tmp_path).held


@pytest.mark.parametrize(
    "content", [b"", b"\0\0", b"[]", b"null", b'{"a": 1}', b"\xff", b"[" * 100000]
)
def test_invalid_file_is_set_aside(tmp_path: Path, content: bytes) -> None:
    """The file is moved once, with a message; a reader without write access only gets the message."""
    path = tmp_path / "documents" / "local.json"
    path.parent.mkdir()
    path.write_bytes(content)
    looking = Documents(tmp_path, change=False)
    assert (len(looking.warnings), path.read_bytes()) == (1, content)
    documents = Documents(tmp_path)
    [aside] = path.parent.iterdir()
    assert aside.read_bytes() == content
    assert documents.warnings == [
        f"cannot read {path}: it is not a document; it is set aside as {aside.name}"
    ]
    assert (documents.held, Documents(tmp_path).warnings) == ({}, [])


def test_document_that_cannot_be_stored_is_used_with_a_warning(tmp_path: Path) -> None:
    """A document that cannot be stored is used, with a warning that a restart would lose it."""
    (tmp_path / "documents").write_text("a file")
    documents = Documents(tmp_path)
    documents.warnings.clear()
    assert documents.take(Document(source="heat", content=GOOD)).startswith(
        "cannot keep the document of heat: "
    )
    assert documents.held == held("heat")


def test_looking_changes_nothing(tmp_path: Path) -> None:
    """Reading changes nothing, and does not even create the folder."""
    documents = Documents(tmp_path / "state", change=False)
    assert documents.take(Document(source="heat", content=GOOD)) == ""
    documents.drop("heat")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("there", "used", "full", "empty"),
    [
        ("", "", "", "config_drive ec2 heat_local local file"),
        ("local", "local file", "local", "config_drive ec2 heat_local"),
        ("heat_local", "heat_local heat", "heat_local", "config_drive ec2 local file"),
        (
            "heat heat_local local",
            "heat local",
            "heat local",
            "config_drive ec2 heat_local cfn request zaqar file",
        ),
        (
            "heat",
            "",
            "heat",
            "config_drive ec2 heat_local cfn request zaqar local file",
        ),
    ],
)
def test_which_documents_count(there: str, used: str, full: str, empty: str) -> None:
    """Once Heat has answered, what the instance was given at first has no deployments any more.

    Neither has a source that is not in use; of one that is, and has not answered, nothing is known.
    """
    found = in_force(held(*there.split()), used.split())
    assert [each.source for each in found if each.content is GOOD] == full.split()
    assert {each.source for each in found if each.content == []} == set(empty.split())
