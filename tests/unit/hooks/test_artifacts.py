"""The option `artifacts`: what it says, and its mistakes, none of which repeats a URL."""

from __future__ import annotations

import pytest

from heat_config_hooks import options
from heat_config_hooks.artifacts import Artifact, read
from heat_config_hooks.errors import HookError

URL = "https://files.example.org/a/app.tar.gz?token=hunter2"
DIGEST = "ab" * 32


def test_artifact_names_its_file_or_folder() -> None:
    """A file gets the name in its URL, and an archive goes into the folder itself."""
    artifacts = read(
        [
            {"url": URL, "sha256": DIGEST.upper()},
            {"url": URL, "sha256": DIGEST, "unpack": True},
            {"url": URL, "sha256": DIGEST, "unpack": "True", "to": "./roles//web/"},
            {"url": "http://[::1]:8080/a%20b", "sha256": DIGEST, "to": None},
        ],
        "options.artifacts",
    )
    assert [(each.to, each.unpack) for each in artifacts] == [
        ("app.tar.gz", False),
        ("", True),
        ("roles/web", True),
        ("a b", False),
    ]
    assert artifacts[0] == Artifact(
        url=URL, sha256=DIGEST, to="app.tar.gz", unpack=False
    )


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ("no", "options.artifacts: expected a list of objects with url and sha256"),
        (
            {"url": URL},
            "options.artifacts: expected a list of objects with url and sha256",
        ),
        ([7], "options.artifacts[0]: expected an object with url and sha256"),
        (
            [{"url": URL}],
            "options.artifacts[0].sha256: expected the SHA-256 digest, as 64 hexadecimal digits",
        ),
        (
            [{"url": URL, "sha256": DIGEST + "\n"}],
            "options.artifacts[0].sha256: expected",
        ),
        (
            [{"url": URL, "sha256": DIGEST, "mode": 1}],
            "options.artifacts[0].mode: an artifact has only url, sha256,",
        ),
        (
            [{"sha256": DIGEST}],
            "options.artifacts[0].url: expected a URL that begins with https:// or http://",
        ),
        (
            [{"url": "file:///etc/shadow", "sha256": DIGEST}],
            "options.artifacts[0].url: expected a URL",
        ),
        (
            [{"url": "https://[hunter2/", "sha256": DIGEST}],
            "options.artifacts[0].url: expected a URL",
        ),
        (
            [{"url": "https://a:hunter2/", "sha256": DIGEST}],
            "options.artifacts[0].url: expected a URL",
        ),
        (
            [{"url": URL + "\r\nX: y", "sha256": DIGEST}],
            "options.artifacts[0].url: expected a URL",
        ),
        (
            [{"url": "https://a/?hunter2", "sha256": DIGEST}],
            "options.artifacts[0]: the URL ends with no name",
        ),
        (
            [{"url": "https://a/%2e%2e", "sha256": DIGEST}],
            "options.artifacts[0]: the URL ends with no name",
        ),
        (
            [{"url": URL, "sha256": DIGEST, "unpack": "yes"}],
            "options.artifacts[0].unpack: expected true or false",
        ),
        (
            [{"url": URL, "sha256": DIGEST, "unpack": []}],
            "options.artifacts[0].unpack: expected true or false",
        ),
        (
            [{"url": URL, "sha256": DIGEST, "to": "/etc/passwd"}],
            "options.artifacts[0].to: expected a path below",
        ),
        (
            [{"url": URL, "sha256": DIGEST, "to": "a/../../b"}],
            "options.artifacts[0].to: expected a path below",
        ),
        (
            [{"url": URL, "sha256": DIGEST, "to": "a/" * 60}],
            "options.artifacts[0].to: expected a path below",
        ),
        (
            [{"url": URL, "sha256": DIGEST, "to": "./"}],
            "options.artifacts[0].to: expected the path of a file",
        ),
        (
            [{"url": "https://a/.", "sha256": DIGEST}],
            "options.artifacts[0].to: expected the path of a file",
        ),
        (
            [{"url": URL, "sha256": DIGEST, "to": 7}],
            "options.artifacts[0].to: expected a path below",
        ),
        (
            [{"url": URL, "sha256": DIGEST}] * 2,
            "options.artifacts[0]: another artifact goes to the same file",
        ),
    ],
)
def test_mistakes_have_a_path_and_no_url(value: object, says: str) -> None:
    """A mistake shows its path but no URL, because that may contain a secret."""
    with pytest.raises(HookError) as caught:
        options.read({"artifacts": value}, {})
    assert str(caught.value).startswith(says)
    assert "hunter2" not in str(caught.value)


def test_many_artifacts_are_checked_one_after_another() -> None:
    """Each is compared with the names before it by one look-up: in pairs, these would take minutes."""
    value = [{"url": URL, "sha256": DIGEST, "to": f"f{i}"} for i in range(60_000)]
    assert len(read(value, "artifacts")) == len(value)
    value.append({"url": URL, "sha256": DIGEST, "to": "f7"})
    with pytest.raises(HookError, match=r"artifacts\[7\]: another artifact goes to"):
        read(value, "artifacts")
