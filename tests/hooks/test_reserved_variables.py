"""Real programs with the variables by which an input could have them run a command."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from heat_config_hooks import protocol
from support import pace
from support.machine import Machine, deployment

Attack = Callable[[str, Path], tuple[dict[str, str], list[str]]]
"""A function of a command and a folder: the inputs that have a program run the command, and the program."""


def apt(command: str, folder: Path) -> tuple[dict[str, str], list[str]]:
    """No file is needed: the program reads its settings from its own environment."""
    for name in ("lists/partial", "archives/partial"):
        (folder / name).mkdir(parents=True)
    given = {
        "AAA": f'x\n;APT::Update::Pre-Invoke {{"{command}";}};\n/*',
        "APT_CONFIG": "/proc/self/environ",
    }
    sources = ("Dir::Etc::SourceList=/dev/null", "Dir::Etc::SourceParts=/dev/null")
    own = (f"Dir::State={folder}", f"Dir::Cache={folder}", *sources)
    return given, ["apt-get", "update", *(f"-o{setting}" for setting in own)]


def debconf(command: str, _: Path) -> tuple[dict[str, str], list[str]]:
    """The name of the frontend is evaluated."""
    program = ["perl", "-e", "use Debconf::AutoSelect qw(:all); make_frontend();"]
    return {
        "DEBIAN_FRONTEND": f'Noninteractive; BEGIN{{system("{command}")}} #'
    }, program


def tar(command: str, folder: Path) -> tuple[dict[str, str], list[str]]:
    """Options of the archiver may name commands."""
    value = f"--checkpoint=1 --checkpoint-action=exec='{command}'"
    return {"TAR_OPTIONS": value}, [
        "tar",
        "-cf",
        str(folder / "x.tar"),
        "-C",
        "/etc",
        "hostname",
    ]


def git_command(command: str, _: Path) -> tuple[dict[str, str], list[str]]:
    """The command replaces ssh."""
    return {"GIT_SSH_COMMAND": f"{command};"}, [
        "git",
        "ls-remote",
        "ssh://127.0.0.1:9/x",
    ]


def git_settings(command: str, _: Path) -> tuple[dict[str, str], list[str]]:
    """Settings of git are in variables with numbers."""
    given = {
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": "alias.status2",
        "GIT_CONFIG_VALUE_0": f"!{command}",
    }
    return given, ["git", "status2"]


def git_home(command: str, folder: Path) -> tuple[dict[str, str], list[str]]:
    """A home has the settings of most programs."""
    (folder / ".gitconfig").write_text(f"[alias]\nstatus2 = !{command}\n")
    return {"HOME": str(folder)}, ["git", "status2"]


def make(command: str, folder: Path) -> tuple[dict[str, str], list[str]]:
    """A file is read before the first one."""
    (folder / "Makefile").write_text("all:\n\ttrue\n")
    (folder / "evil.mk").write_text(f"$(shell {command})\n")
    return {"MAKEFILES": str(folder / "evil.mk")}, ["make", "-C", str(folder)]


def perl(command: str, folder: Path) -> tuple[dict[str, str], list[str]]:
    """A module is loaded before the program."""
    (folder / "Evil.pm").write_text(f'package Evil; system("{command}"); 1;')
    return {"PERL5LIB": str(folder), "PERL5OPT": "-MEvil"}, ["perl", "-e", "1"]


def ruby(command: str, folder: Path) -> tuple[dict[str, str], list[str]]:
    """A library is loaded before the program."""
    (folder / "evil.rb").write_text(f'system("{command}")')
    return {"RUBYOPT": f"-r{folder}/evil.rb"}, ["ruby", "-e", "1"]


def node(command: str, folder: Path) -> tuple[dict[str, str], list[str]]:
    """A module is loaded before the program."""
    (folder / "evil.js").write_text(f'require("child_process").execSync("{command}")')
    return {"NODE_OPTIONS": f"--require={folder}/evil.js"}, ["node", "-e", "1"]


def vim(command: str, _: Path) -> tuple[dict[str, str], list[str]]:
    """The editor carries out a line at its start."""
    return {"VIMINIT": f"silent !{command}"}, ["vim", "+q"]


def fish(command: str, folder: Path) -> tuple[dict[str, str], list[str]]:
    """A function of the shell comes from a folder; the name is in lower case."""
    (folder / "greet.fish").write_text(f"function greet; {command}; end\n")
    return {"fish_function_path": str(folder)}, ["fish", "-c", "greet"]


def zsh(command: str, folder: Path) -> tuple[dict[str, str], list[str]]:
    """The shell reads its settings from a folder."""
    (folder / ".zshenv").write_text(f"{command}\n")
    return {"ZDOTDIR": str(folder)}, ["zsh", "-c", "true"]


def curl(command: str, folder: Path) -> tuple[dict[str, str], list[str]]:
    """The settings of the client may write any file."""
    target = command.rsplit(maxsplit=1)[-1]
    (folder / ".curlrc").write_text(f'output = "{target}"\n')
    return {"CURL_HOME": str(folder)}, ["curl", "-s", f"file://{folder}/.curlrc"]


def wget(command: str, folder: Path) -> tuple[dict[str, str], list[str]]:
    """The settings of the client may write any file."""
    (folder / "wgetrc").write_text(
        f"output_document = {command.rsplit(maxsplit=1)[-1]}\n"
    )
    return {"WGETRC": str(folder / "wgetrc")}, ["wget", "-q", "http://127.0.0.1:9/x"]


def gcc(command: str, folder: Path) -> tuple[dict[str, str], list[str]]:
    """The parts of the compiler are programs of a folder."""
    (folder / "as").write_text(f"#!/bin/sh\n{command}\n")
    (folder / "as").chmod(0o755)
    (folder / "x.c").write_text("int x;\n")
    return {"COMPILER_PATH": str(folder)}, [
        "gcc",
        "-c",
        "-o",
        str(folder / "x.o"),
        str(folder / "x.c"),
    ]


ATTACKS: dict[str, Attack] = {
    "apt-get": apt,
    "debconf-show": debconf,
    "tar": tar,
    "git": git_command,
    "git settings": git_settings,
    "git home": git_home,
    "make": make,
    "perl": perl,
    "ruby": ruby,
    "node": node,
    "vim": vim,
    "fish": fish,
    "zsh": zsh,
    "curl": curl,
    "wget": wget,
    "gcc": gcc,
}


def environment(values: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of a run with these inputs."""
    given: dict[str, Any] = {
        "inputs": [{"name": name, "value": value} for name, value in values.items()]
    }
    return protocol.environment(protocol.request(given, key="d1", options={}))


@pytest.mark.parametrize("name", ATTACKS)
def test_no_input_has_a_program_run_a_command(name: str, tmp_path: Path) -> None:
    """With the variables, the program runs the command; as inputs, they do not reach it."""
    if not shutil.which(name.partition(" ")[0]):
        pytest.skip(f"{name.partition(' ')[0]} is not here; install it with apt")
    canary, folder = tmp_path / "canary", tmp_path / "folder"
    folder.mkdir()
    inputs, program = ATTACKS[name](f"touch {canary}", folder)
    usual = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "LANG": "C.UTF-8"}
    for variables, happens in ((inputs, True), (environment(inputs), False)):
        subprocess.run(
            program,
            env={**usual, **variables},
            cwd=tmp_path,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=pace.seconds(60),
            check=False,
        )
        assert canary.exists() is happens
        canary.unlink(missing_ok=True)


def test_package_manager_of_a_script_reads_no_settings_from_inputs(
    machine: Machine,
) -> None:
    """The run goes on without the variable, and a warning names it."""
    if not shutil.which("apt-get"):
        pytest.skip("apt-get is not here")
    inputs, _ = apt("true", machine.folder / "folder")
    script = "#!/bin/sh\napt-get --version >/dev/null && env\n"
    done = machine.apply([deployment("d1", script, inputs=inputs)], "--json")
    assert done.code == 0, done.out
    assert "APT_CONFIG=" not in done.out
    sentence = "the input APT_CONFIG is not in the environment, because that variable affects package managers"
    assert any(sentence in warning["message"] for warning in done.json["warnings"])
