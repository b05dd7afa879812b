from __future__ import annotations

import stat
from pathlib import Path

import pytest

from heat_config_agent.settings.layers import Layer
from heat_config_agent.sources import learned, transports

SAID = Layer(
    "the metadata",
    {
        "agent": {"polling_interval": 5.0, "collectors": ("request",)},
        "request": {"metadata_url": "u"},
    },
)

CFN = {
    "access_key_id": "k",
    "secret_access_key": "s",
    "stack_name": "n",
    "path": ("server.Metadata",),
}


def test_learned_settings_survive_a_restart(tmp_path: Path) -> None:
    """As it was, for nobody else's eyes."""
    [teacher] = transports.level(Layer("b", {"cfn": CFN})).transports
    saved = learned.save(tmp_path, SAID, "digest", teacher)
    assert learned.load(tmp_path) == (saved, "")
    assert saved.layer.sections == SAID.sections
    assert saved.teacher == teacher
    assert stat.S_IMODE((tmp_path / learned.FILE).stat().st_mode) == 0o600


def test_nothing_was_learned(tmp_path: Path) -> None:
    """A new instance has learned no settings."""
    assert learned.load(tmp_path) == (None, "")


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\0",
        b"[]",
        b"null",
        b"5",
        b'{"os-collect-config": {}}',
        b"\xff",
        b"[" * 100000,
    ],
)
def test_a_file_that_is_damaged_is_set_aside(tmp_path: Path, content: bytes) -> None:
    """A damaged file is reported and set aside; a read-only caller only reports it."""
    path = tmp_path / learned.FILE
    path.write_bytes(content)
    found, trouble = learned.load(tmp_path, change=False)
    assert (found, path.read_bytes()) == (None, content)
    assert str(path) in trouble
    found, trouble = learned.load(tmp_path)
    [aside] = tmp_path.iterdir()
    assert (found, aside.read_bytes()) == (None, content)
    assert trouble.endswith(f"it is set aside as {aside.name}")
    assert learned.load(tmp_path) == (None, "")


def test_only_what_is_said_of_transports_changes_the_digest() -> None:
    """Only settings of transports change the digest."""
    base = learned.digest([Layer("a", {"heat": {"auth_url": "u"}})])
    assert (
        learned.digest(
            [Layer("b", {"heat": {"auth_url": "u"}, "agent": {"parallel": 2}})]
        )
        == base
    )
    assert learned.digest([Layer("a", {"heat": {"auth_url": "v"}})]) != base
    assert (
        learned.digest(
            [
                Layer("a", {"heat": {"auth_url": "u"}}),
                Layer("c", {"cfn": {"path": ("a.Metadata",)}}),
            ]
        )
        != base
    )
    assert learned.digest([]) != base
