from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from heat_config_hooks import programs
from heat_config_hooks.errors import HookError, MissingTool
from heat_config_hooks.programs import Packages, Program
from heat_config_hooks.reply import NO_TOOL

WANTED = Program(
    names=("puppet-7", "puppet"),
    variable="HEAT_PUPPET_CMD",
    install="install it with «apt install puppet»",
)


def install(folder: Path, *names: str, mode: int = 0o755) -> Path:
    """Put programs into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        (folder / name).write_text("#!/bin/sh\n")
        (folder / name).chmod(mode)
    return folder


def found(program: Program = WANTED, **environment: object) -> tuple[str, ...]:
    """Look up a program in an environment."""
    return programs.find(
        program, {name: str(value) for name, value in environment.items()}
    )


@pytest.fixture
def python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of our interpreter."""
    monkeypatch.setattr(sys, "executable", str(tmp_path / "venv" / "python"))
    return install(tmp_path / "venv", "python")


def test_a_program_is_found_in_the_path(tmp_path: Path) -> None:
    """Folders are searched in order; files that are not executable do not count."""
    install(tmp_path / "1", "puppet", mode=0o644)
    (tmp_path / "2" / "puppet").mkdir(parents=True)
    third, fourth = install(tmp_path / "3", "puppet"), install(tmp_path / "4", "puppet")
    path = os.pathsep.join(str(tmp_path / each) for each in "01234")
    assert found(PATH=path) == (str(third / "puppet"),)
    assert found(PATH=f"{fourth}{os.pathsep}{path}") == (str(fourth / "puppet"),)


def test_first_name_of_a_program_is_preferred(tmp_path: Path) -> None:
    """The first name is preferred, in any folder of the PATH."""
    first, second = (
        install(tmp_path / "1", "puppet"),
        install(tmp_path / "2", "puppet-7"),
    )
    assert found(PATH=f"{first}{os.pathsep}{second}") == (str(second / "puppet-7"),)


def test_all_installed_programs_are_listed(tmp_path: Path) -> None:
    """In the order of preference; a variable leaves only the program that it names."""
    folder = install(tmp_path, "puppet", "puppet-7", "other")
    both = [(str(folder / "puppet-7"),), (str(folder / "puppet"),)]
    assert list(programs.every(WANTED, {"PATH": str(folder)})) == both
    assert list(
        programs.every(WANTED, {"PATH": str(folder), "HEAT_PUPPET_CMD": "other"})
    ) == [(str(folder / "other"),)]
    assert (
        list(
            programs.every(WANTED, {"PATH": str(folder), "HEAT_PUPPET_CMD": "missing"})
        )
        == []
    )


def test_a_program_may_be_one_with_arguments(tmp_path: Path) -> None:
    """Such as «docker compose»."""
    folder = install(tmp_path, "docker")
    compose = Program(names=("docker-compose", "docker compose"), install="…")
    assert found(compose, PATH=folder) == (str(folder / "docker"), "compose")


def test_the_path_is_the_one_of_the_run_and_not_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The PATH of the agent's own process does not matter."""
    monkeypatch.setenv("PATH", str(install(tmp_path, "puppet")))
    with pytest.raises(MissingTool):
        found(PATH=tmp_path / "empty")


def test_a_program_beside_our_interpreter_is_found(
    python: Path, tmp_path: Path
) -> None:
    """A virtual environment of ours may have it; the PATH is searched first."""
    install(python, "puppet")
    assert found(PATH=tmp_path / "empty") == (str(python / "puppet"),)
    other = install(tmp_path / "other", "puppet")
    assert found(PATH=other) == (str(other / "puppet"),)


def test_a_program_is_found_where_its_packages_put_it(
    python: Path, tmp_path: Path
) -> None:
    """The folders of packages are searched last."""
    own = install(tmp_path / "opt", "puppet")
    wanted = Program(
        names=("puppet",), folders=(str(tmp_path / "missing"), str(own)), install="…"
    )
    assert found(wanted, PATH=tmp_path / "empty") == (str(own / "puppet"),)
    install(python, "puppet")
    assert found(wanted, PATH=tmp_path / "empty") == (str(python / "puppet"),)


def test_the_variable_names_another(tmp_path: Path) -> None:
    """By its path or its name; an empty variable does not count."""
    folder, other = (
        install(tmp_path / "1", "puppet", "my-puppet"),
        install(tmp_path / "2", "puppet"),
    )
    assert found(PATH=folder, HEAT_PUPPET_CMD=other / "puppet") == (
        str(other / "puppet"),
    )
    assert found(PATH=folder, HEAT_PUPPET_CMD="my-puppet") == (
        str(folder / "my-puppet"),
    )
    assert found(PATH=folder, HEAT_PUPPET_CMD="") == (str(folder / "puppet"),)
    with pytest.raises(MissingTool) as caught:
        found(PATH=folder, HEAT_PUPPET_CMD="no-such-puppet")
    assert str(caught.value).startswith(
        "no-such-puppet ($HEAT_PUPPET_CMD) is not installed; "
    )


def test_a_program_without_a_variable_is_nobodys_to_name(tmp_path: Path) -> None:
    """An empty name does not name a variable."""
    assert programs.find(
        Program(names=("puppet",), install="…"),
        {"PATH": str(install(tmp_path, "puppet")), "": "x"},
    )


def test_variable_may_hold_a_command_line(tmp_path: Path) -> None:
    """The value of the variable is split as a shell splits it."""
    folder = install(tmp_path, "sudo")
    line = "sudo -u 'the puppet' puppet"
    assert found(PATH=folder, HEAT_PUPPET_CMD=line) == (
        str(folder / "sudo"),
        "-u",
        "the puppet",
        "puppet",
    )


def test_a_path_may_have_spaces(tmp_path: Path) -> None:
    """The path of an existing program is not split."""
    folder = install(tmp_path / "my tools", "puppet")
    assert found(PATH="/bin", HEAT_PUPPET_CMD=folder / "puppet") == (
        str(folder / "puppet"),
    )


@pytest.mark.parametrize("line", ["'", 'puppet "', "   ", "''", "/", ".", "\\"])
def test_invalid_command_line_in_a_variable_is_quoted(
    tmp_path: Path, line: str
) -> None:
    """The message quotes it."""
    with pytest.raises(MissingTool) as caught:
        found(PATH=install(tmp_path, "puppet"), HEAT_PUPPET_CMD=line)
    assert str(caught.value).startswith(f"{line} ($HEAT_PUPPET_CMD) is not installed; ")


def test_a_path_is_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The command may run in another folder than the current one."""
    install(tmp_path / "bin", "puppet")
    monkeypatch.chdir(tmp_path)
    assert found(PATH="bin") == (str(tmp_path / "bin" / "puppet"),)
    assert found(PATH="/bin", HEAT_PUPPET_CMD="bin/puppet") == (
        str(tmp_path / "bin" / "puppet"),
    )


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    """Some programs depend on the name by which they are called."""
    folder = install(tmp_path, "busybox")
    (folder / "puppet").symlink_to("busybox")
    assert found(PATH=folder) == (str(folder / "puppet"),)


@pytest.mark.usefixtures("python")
def test_missing_program_is_reported_with_how_to_install_it(tmp_path: Path) -> None:
    """The failure has the status code of a shell for an unknown command."""
    with pytest.raises(HookError) as caught:
        found(PATH=tmp_path / "empty")
    assert (
        str(caught.value)
        == "puppet-7 or puppet is not installed; install it with «apt install puppet»"
    )
    assert (caught.value.code, caught.value.path) == (NO_TOOL, "")


@pytest.mark.parametrize("environment", [{}, {"PATH": ""}])
def test_without_a_path_the_systems_own_counts(environment: dict[str, str]) -> None:
    """The default folders of the system are searched."""
    assert programs.find(Program(names=("sh",), install="…"), environment)[0] in (
        "/bin/sh",
        "/usr/bin/sh",
    )


@pytest.mark.parametrize(
    ("release", "sentence"),
    [
        ("ID=debian\n", "install it with «apt install podman»"),
        (
            'ID=linuxmint\nID_LIKE="ubuntu debian"\n',
            "install it with «apt install podman»",
        ),
        (
            'NAME="Rocky Linux"\nID="rocky"\nID_LIKE="rhel centos fedora"\n',
            "install it with «dnf install podman-ce»",
        ),
        (
            'ID="opensuse-leap"\nID_LIKE="suse opensuse"\n',
            "install it with «zypper install podman-suse»",
        ),
        ("ID=gentoo\n", "install it from your distribution's package podman"),
        ("", "install it from your distribution's package podman"),
    ],
)
def test_way_to_install_is_that_of_the_distribution(
    release: str, sentence: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The sentence has the command of the distribution, and the name that the package has there."""
    monkeypatch.setattr(programs, "RELEASE", str(tmp_path / "os-release"))
    (tmp_path / "os-release").write_text(release)
    assert (
        str(Packages(apt="podman", dnf="podman-ce", zypper="podman-suse")) == sentence
    )


def test_way_to_install_without_a_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pip stands in for a distribution without a package, and another way is named after it."""
    monkeypatch.setattr(programs, "RELEASE", str(tmp_path / "missing"))
    ways = Packages(apt="salt", pip="salt", other="the vendor's package", object="one")
    assert str(ways) == "install one with «pip install salt», or the vendor's package"
