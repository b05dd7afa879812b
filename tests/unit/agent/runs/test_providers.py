from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from heat_config_agent.runs import providers
from heat_config_agent.runs.providers import ProviderError, folder
from support import pace

PATH = {"PATH": os.environ["PATH"]}


@pytest.fixture
def secrets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of secrets, with one in it."""
    place = tmp_path / "secrets"
    (place / "db").mkdir(parents=True, mode=0o755)
    (place / "db" / "password").write_text("in the folder\n")
    (tmp_path / "outside").write_text("outside\n")
    for each in (place, place / "db", place / "db" / "password", tmp_path / "outside"):
        each.chmod(each.stat().st_mode & ~0o022)
    monkeypatch.setenv(folder.FOLDER, str(place))
    return place


def provider(tmp_path: Path, script: str, name: str = "mine") -> list[str]:
    """Install a provider, and return the directories to search."""
    place = tmp_path / "providers"
    place.mkdir(exist_ok=True)
    (place / name).write_text(f"#!/bin/sh\n{script}\n")
    (place / name).chmod(0o755)
    return [str(tmp_path / "none"), str(place)]


def test_a_file_of_the_folder_is_read(secrets: Path) -> None:
    """With folders in its name; the protocol leaves out one newline at the end, and the provider nothing."""
    assert folder.read("db/password") == b"in the folder\n"
    variables = {**PATH, folder.FOLDER: str(secrets)}
    assert providers.resolve("file:db/password", [], variables) == "in the folder"


@pytest.mark.parametrize(
    "name",
    [
        *(
            "../outside",
            "/etc/passwd",
            "db/../../outside",
            "",
            ".",
            "db/",
            "db//password",
            "./db",
            "db",
        ),
        *(
            "link",
            "linked/x",
            "pipe",
            "hard\0link",
            "nothing",
            "db/password/x",
            "open",
            "theirs",
        ),
    ],
)
def test_nothing_else_is_read(secrets: Path, name: str) -> None:
    """A provider reads nothing by `..` or a link, no files that others may write, and only regular files."""
    (secrets / "link").symlink_to("../outside")
    (secrets / "linked").symlink_to("..")
    os.mkfifo(secrets / "pipe")
    (secrets / "open").write_text("anybody's")
    (secrets / "open").chmod(0o666)
    (secrets / "theirs").write_text("somebody's")
    if os.geteuid() == 0:
        os.chown(secrets / "theirs", 65534, 65534)
    else:
        (secrets / "theirs").chmod(0o620)
    with pytest.raises(ProviderError):
        folder.read(name)


def test_a_swapped_folder_is_not_followed(
    secrets: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A folder that becomes a link between two steps is the folder that was opened, or an error."""
    (tmp_path / "password").write_text("outside\n")
    opened = os.open

    def swap(
        path: str, flags: int, mode: int = 0o777, *, dir_fd: int | None = None
    ) -> int:
        if (
            path == "password"
            and (secrets / "db").is_dir()
            and not (secrets / "db").is_symlink()
        ):
            (secrets / "db").rename(secrets / "was")
            (secrets / "db").symlink_to(tmp_path)
        return opened(path, flags, mode, dir_fd=dir_fd)

    monkeypatch.setattr(os, "open", swap)
    assert folder.read("db/password") == b"in the folder\n"
    with pytest.raises(ProviderError, match="symbolic link"):
        folder.read("db/password")


def test_only_variables_for_that_purpose_are_shown() -> None:
    """Only variables for secrets are readable, not PATH or others of the agent."""
    variables = {**PATH, "SECRET_X": "of the agent", "OTHER": "no"}
    assert providers.resolve("env:X", [], variables) == "of the agent"
    with pytest.raises(ProviderError, match="without the variable SECRET_OTHER"):
        providers.resolve("env:OTHER", [], variables)


def test_a_provider_gets_the_reference_on_its_standard_input(tmp_path: Path) -> None:
    """A reference is neither an option nor a path, and a provider in a directory replaces a built-in one."""
    found = provider(tmp_path, 'read -r name; echo "[$name] $# $0"', "file")
    assert (
        providers.resolve("file:--help; $(x) ../y", found, PATH)
        == f"[--help; $(x) ../y] 0 {found[1]}/file"
    )


@pytest.mark.parametrize(
    ("script", "why"),
    [
        ("echo no such secret >&2; exit 3", "'mine' has failed: no such secret"),
        ("exit 3", "'mine' has failed: exit code 3"),
        (
            "echo hunter2-of-db; echo cannot use hunter2-of-db >&2; exit 3",
            "'mine' has failed: cannot use ***",
        ),
        ("kill -9 $$", "'mine' has failed: exit code -9"),
        ("exit 0", "the secret is empty"),
        (r"printf '\377'", "is not UTF-8"),
        (r"printf 'a\0b'", "contains a NUL"),
        ("exec cat /dev/zero", "more than 1048576 bytes"),
        ("sleep 60", "has not ended after 0.5 s"),
        ("sleep 60 & echo early", "has not ended after 0.5 s"),
        ("trap '' TERM; exec >&- 2>&-; sleep 60", "has not ended"),
    ],
)
def test_a_provider_that_fails_says_why(tmp_path: Path, script: str, why: str) -> None:
    """In one sentence, soon, and nothing of it is left."""
    found = provider(tmp_path, script)
    limit = 0.5 if "has not ended" in why else pace.seconds(5)
    began = time.monotonic()
    with pytest.raises(ProviderError) as raised:
        providers.resolve("mine:x", found, PATH, limit)
    assert why in str(raised.value)
    assert time.monotonic() - began < pace.seconds(10)


@pytest.mark.parametrize(
    "scheme", ["none", "../file", "/bin/sh", "-x", "File", "", ".", "a b"]
)
def test_a_scheme_names_no_path(tmp_path: Path, scheme: str) -> None:
    """Names from metadata are looked up as they are, and only if they are plain."""
    with pytest.raises(
        ProviderError, match=r"there is no provider|not the name of a provider"
    ):
        providers.find(scheme, [str(tmp_path), "/bin"])


def test_a_provider_that_others_may_change_is_not_started(tmp_path: Path) -> None:
    """A provider that others may change is not started, because it would run as the agent's user."""
    found = provider(tmp_path, "echo x")
    (tmp_path / "providers" / "mine").chmod(0o775)
    with pytest.raises(ProviderError, match="other users may write to it"):
        providers.find("mine", found)
