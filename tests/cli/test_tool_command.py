"""`heat-config-agent tool`: which tools there are on a machine, and what they lack."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

import heat_config_hooks
from heat_config_agent.cli import agent
from heat_config_agent.cli.apply import ready
from heat_config_hooks import options
from support import endings, pace
from support.loopback import wait_until
from support.machine import BIN, Done, Machine

SH = "#!/bin/sh\n"
SECRET = "5ecret"


@pytest.fixture
def bin_folder(machine: Machine) -> Path:
    """The only folder in the PATH, with programs of the test; what is beside our interpreter is hidden too."""
    folder = machine.folder / "bin"
    folder.mkdir()
    machine.environment.update(
        PATH=str(folder), HEAT_ANSIBLE_CMD="no-such-ansible", OS_PASSWORD=SECRET
    )
    return folder


def program(folder: Path, name: str, script: str) -> Path:
    """Put a program into a folder."""
    path = folder / name
    path.write_text(script)
    path.chmod(0o755)
    return path


def tools(machine: Machine, *arguments: str, **environment: str) -> Done:
    """Run one of the commands to its end."""
    named = [
        *arguments,
        *(["--hooks-dir", str(machine.hooks)] if machine.hooks.is_dir() else []),
    ]
    return machine.command("heat-config-agent", ["tool", *named], environment)


def found(
    machine: Machine, *arguments: str, **environment: str
) -> dict[str, dict[str, Any]]:
    """Return what the command says of each hook, by tool."""
    done = tools(machine, "list", "--json", *arguments, **environment)
    assert (done.code, done.err) == (0, "")
    return {each["name"]: each for each in done.data["tools"]}


def test_every_hook_is_listed_with_its_program(
    machine: Machine, bin_folder: Path
) -> None:
    """The list has the path and version of each program, and the way to install a missing one."""
    puppet = program(bin_folder, "puppet", f'{SH}[ "$*" = --version ] && echo 7.23.0\n')

    listed = found(machine)

    assert list(listed) == sorted(heat_config_hooks.HOOKS)
    assert listed["puppet"] == {
        "name": "puppet",
        "hook": "builtin:puppet",
        "overrides_builtin": False,
        "program": str(puppet),
        "version": "7.23.0",
        "ready": True,
        "message": None,
    }
    assert listed["script"] == {
        "name": "script",
        "hook": "builtin:script",
        "overrides_builtin": False,
        "program": None,
        "version": None,
        "ready": True,
        "message": None,
    }
    for tool, each in listed.items():
        needs = heat_config_hooks.load(tool).ABOUT.program
        if needs is not None and each["program"] is None:
            assert not each["ready"]
            assert each["message"].endswith(f" is not installed; {needs.install}")
    assert (listed["salt"]["ready"], listed["salt"]["program"]) == (False, None)


def test_people_get_a_table(machine: Machine, bin_folder: Path) -> None:
    """A line for each hook, and what is to be done about those that cannot be used."""
    puppet = program(bin_folder, "puppet", f"{SH}echo 7.23.0\n")
    machine.hook("mine", SH)

    done = tools(machine, "list")

    assert (done.code, done.err) == (0, "")
    header, *lines = done.out.splitlines()
    assert header.split() == [
        "NAME",
        "READY",
        "HOOK",
        "PROGRAM",
        "VERSION",
        "DETAILS",
    ]
    rows = {line.split()[0]: line.split() for line in lines}
    assert list(rows) == sorted([*heat_config_hooks.HOOKS, "mine"])
    assert rows["puppet"] == ["puppet", "yes", "built-in", str(puppet), "7.23.0"]
    assert rows["script"] == ["script", "yes", "built-in", "-", "-"]
    assert rows["mine"] == ["mine", "yes", str(machine.hooks / "mine"), "-", "-"]
    assert " ".join(rows["salt"]).startswith(
        "salt no built-in - - salt-call is not installed; install "
    )


def test_executables_are_listed_too(machine: Machine, bin_folder: Path) -> None:
    """With their paths; one in the place of a hook of ours says so; what can be nobody's hook is left out."""
    program(bin_folder, "puppet", f"{SH}echo 7.23.0\n")
    mine, script = (
        machine.hook("mine", f"{SH}touch ran\n"),
        machine.hook("script", f"{SH}touch ran\n"),
    )
    odd, salt = (
        machine.hook("odd", SH, mode=0o644),
        machine.hook("salt", SH, mode=0o644),
    )
    machine.hook("my.hook", SH)
    (machine.hooks / "folder").mkdir()
    (machine.hooks / "puppet").symlink_to(BIN / "heat-config-hook")

    listed = found(machine)

    assert set(listed) == {*heat_config_hooks.HOOKS, "mine", "odd"}
    assert (
        listed["mine"]["hook"],
        listed["mine"]["overrides_builtin"],
        listed["mine"]["ready"],
    ) == (str(mine), False, True)
    assert (listed["script"]["hook"], listed["script"]["overrides_builtin"]) == (
        str(script),
        True,
    )
    assert (listed["puppet"]["hook"], listed["puppet"]["version"]) == (
        "builtin:puppet",
        "7.23.0",
    )
    for path in (odd, salt):
        each = listed[path.name]
        assert (each["ready"], each["message"]) == (
            False,
            f"it is not executable; make it so with «chmod +x {path}»",
        )
    assert "it overrides the built-in hook" in tools(machine, "list").out
    assert not (machine.folder / "ran").exists(), (
        "other people's hooks are not run to be listed"
    )


def test_directories_are_those_that_a_run_looks_into(
    machine: Machine, bin_folder: Path
) -> None:
    """The directories of the command line come first, then those of $HEAT_CONFIG_HOOKS."""
    first, second = bin_folder / "1", bin_folder / "2"
    for folder, names in ((first, ["a", "b"]), (second, ["b", "c"])):
        folder.mkdir()
        for name in names:
            program(folder, name, SH)

    listed = found(machine, "--hooks-dir", str(first), HEAT_CONFIG_HOOKS=str(second))

    paths = [str(first / "a"), str(first / "b"), str(second / "c")]
    assert [listed[name]["hook"] for name in ("a", "b", "c")] == paths


@pytest.mark.parametrize(
    ("script", "version"),
    [
        ("echo 7.23.0", "7.23.0"),
        ("echo v1.2", "1.2"),
        ("echo 'puppet 3.7-rc1+x (2020)'", "3.7-rc1+x"),
        ("echo; echo; echo ' version:  10.20.30-1~deb12u1)'", "10.20.30-1~deb12u1"),
        ("echo 'library 9.9'; echo 'puppet 1.2'", "1.2"),
        ("echo 5.6 >&2", "5.6"),
        ("echo 'warning: x' >&2; echo 5.6", "5.6"),
        ("echo 'python 3.11 is old' >&2; echo 5.6", "5.6"),
        ("printf '\\377 5.6'", "5.6"),
        ("echo no number", None),
        ("", None),
    ],
)
def test_version_is_read_from_either_output_stream(
    machine: Machine, bin_folder: Path, script: str, version: str | None
) -> None:
    """The version is read from either output stream, and a program without one is still listed."""
    program(bin_folder, "puppet", f"{SH}{script}\n")

    each = found(machine)["puppet"]

    assert (each["version"], each["ready"], each["message"]) == (version, True, None)


def test_failed_program_is_reported_with_its_exit_code(
    machine: Machine, bin_folder: Path
) -> None:
    """The message has its exit code and its last line, or why it could not be started."""
    puppet = program(
        bin_folder,
        "puppet",
        f"{SH}echo 7.1; echo one >&2; echo 'it is \033[2J broken' >&2; exit 3\n",
    )
    salt = program(bin_folder, "salt-call", "no program at all\n")
    chef = program(bin_folder, "chef-client", "#!/no/such/interpreter\n")
    program(bin_folder, "cfn-init", f"{SH}kill -9 $$\n")

    listed = found(machine)
    done = tools(machine, "list")

    assert (listed["puppet"]["ready"], listed["puppet"]["version"]) == (False, "7.1")
    sentence = f"«{puppet} --version» ended with exit code 3: it is \033[2J broken"
    assert listed["puppet"]["message"] == sentence
    assert sentence.replace("\033", "\ufffd") in done.out
    assert "\033" not in done.out
    for tool, path, reason in (
        ("salt", salt, "Exec format error"),
        ("chef", chef, "No such file or directory"),
    ):
        each = listed[tool]
        assert (each["program"], each["message"]) == (
            str(path),
            f"cannot start {path}: {reason}",
        )
    assert "ended with exit code -9" in listed["cfn-init"]["message"]
    assert "Traceback" not in done.out + done.err


def test_a_program_that_is_named_by_its_variable_is_asked(
    machine: Machine, bin_folder: Path
) -> None:
    """Only the program that the variable names is asked; if it is missing, the variable is named."""
    program(bin_folder, "puppet", f"{SH}echo 7.23.0\n")
    other = program(
        bin_folder, "other", f'{SH}[ "$*" = "-x y --version" ] && echo 8.1\n'
    )

    named = found(machine, HEAT_PUPPET_CMD="other -x y")["puppet"]
    missing = found(machine, HEAT_PUPPET_CMD="nobody's")["puppet"]

    assert (named["program"], named["version"], named["ready"]) == (
        f"{other} -x y",
        "8.1",
        True,
    )
    assert missing["message"].startswith(
        "nobody's ($HEAT_PUPPET_CMD) is not installed; "
    )


def test_of_several_programs_the_first_that_works_is_shown(
    machine: Machine, bin_folder: Path
) -> None:
    """Many machines have a client without what it is for; where none works the first says why."""
    docker = program(
        bin_folder, "docker", f"{SH}echo 28.2.2; echo no daemon >&2; exit 1\n"
    )
    podman = program(bin_folder, "podman", f"{SH}echo Version: 4.3.1\n")

    both = found(machine)["docker-cmd"]
    podman.unlink()
    alone = found(machine)["docker-cmd"]

    assert (both["program"], both["version"], both["ready"]) == (
        str(podman),
        "4.3.1",
        True,
    )
    assert (alone["program"], alone["ready"]) == (str(docker), False)
    assert alone["message"].endswith("ended with exit code 1: no daemon")


def test_a_program_is_asked_in_the_environment_of_a_run(
    machine: Machine, bin_folder: Path
) -> None:
    """A program is asked without the agent's variables, in another folder, whose configuration cannot matter."""
    script = f"{SH}export -p >{bin_folder}/env; pwd >{bin_folder}/pwd; cat >{bin_folder}/stdin; echo 1.2\n".replace(
        "cat >", "/bin/cat >"
    )
    program(bin_folder, "puppet", script)

    assert found(machine, HEAT_MINE="kept")["puppet"]["ready"]

    environment = (bin_folder / "env").read_text()
    assert SECRET not in environment
    assert "HEAT_MINE='kept'" in environment
    assert f"PATH='{bin_folder}'" in environment
    assert ((bin_folder / "pwd").read_text(), (bin_folder / "stdin").read_text()) == (
        "/\n",
        "",
    )


def asked(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    machine: Machine,
) -> dict[str, Any]:
    """Return what the command says where programs have little time, and how long it took."""
    monkeypatch.setattr(ready, "SECONDS", 2.0)
    for name in os.environ.keys() - {"PATH"}:
        monkeypatch.delenv(name)
    for name, value in machine.environment.items():
        monkeypatch.setenv(name, value)
    begun = time.monotonic()
    assert agent.main(["tool", "list", "--json"]) == 0
    listed = {
        each["name"]: each
        for each in json.loads(capsys.readouterr().out)["data"]["tools"]
    }
    return {**listed, "seconds": time.monotonic() - begun}


def test_hanging_programs_are_ended_and_reported(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    machine: Machine,
    bin_folder: Path,
) -> None:
    """All have the same time, at once, and nothing is left of them; what the others say is not lost."""
    hang = f"{SH}trap '' TERM INT HUP\necho 1.0\n/bin/sleep 60 &\necho $! >{bin_folder}/$$.child\nwait\n"
    names = ("puppet", "salt-call", "chef-client", "os-apply-config")
    for name in names:
        program(bin_folder, name, hang)
    program(
        bin_folder,
        "cfn-init",
        f"{SH}while :; do echo 1.1.1.1.1.1.1.1.1.1.1.1.1.1.1.1; done\n",
    )
    program(bin_folder, "podman", f"{SH}/bin/sleep 0.3; echo 4.3.1\n")

    listed = asked(monkeypatch, capsys, machine)

    assert listed["seconds"] < 8, "one after the other they would take 10 s"
    for tool in ("puppet", "salt", "chef", "apply-config", "cfn-init"):
        assert listed[tool]["message"].endswith(" did not end within 2 s"), listed[tool]
        assert not listed[tool]["ready"]
    assert (listed["docker-cmd"]["version"], listed["docker-cmd"]["ready"]) == (
        "4.3.1",
        True,
    )
    children = [int(path.read_text()) for path in bin_folder.glob("*.child")]
    assert len(children) == len(names)
    wait_until(lambda: all(map(endings.pid_has_ended, children)), 60)


def test_version_is_shown_while_a_child_holds_the_output_open(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    machine: Machine,
    bin_folder: Path,
) -> None:
    """The version is shown although a child of the program holds its output open."""
    program(
        bin_folder,
        "puppet",
        f"{SH}/bin/sleep 60 &\necho $! >{bin_folder}/child\necho 7.23.0\n",
    )

    listed = asked(monkeypatch, capsys, machine)

    assert (listed["puppet"]["version"], listed["puppet"]["ready"]) == ("7.23.0", True)
    os.kill(int((bin_folder / "child").read_text()), signal.SIGKILL)


def test_a_program_has_ten_seconds() -> None:
    """The time limit is the documented one, because salt needs some seconds on a small machine."""
    assert ready.SECONDS == 10


# One hook.


def test_hook_is_shown_with_its_options(machine: Machine, bin_folder: Path) -> None:
    """A hook is shown with its config, program, variables, and each option with kind, default and meaning."""
    puppet = program(bin_folder, "puppet", f"{SH}echo 7.23.0\n")
    about = heat_config_hooks.load("puppet").ABOUT

    done, one = (
        tools(machine, "show", "puppet"),
        tools(machine, "show", "puppet", "--json").data,
    )

    assert (one["name"], one["program"], one["version"], one["ready"]) == (
        "puppet",
        str(puppet),
        "7.23.0",
        True,
    )
    assert (one["config"], one["tested"], one["variables"]) == (
        about.config,
        about.tested,
        list(about.variables),
    )
    every = {**about.options, **options.COMMON}
    assert one["options"] == [
        {
            "name": name,
            "value": each.expected,
            "default": each.default,
            "message": each.says,
        }
        for name, each in every.items()
    ]
    assert (done.code, done.err) == (0, "")
    for words in (
        f"{puppet} 7.23.0",
        "yes",
        about.config,
        *about.variables,
        about.tested,
    ):
        assert words in done.out
    lines = [line for line in done.out.splitlines() if line]
    table = lines[
        next(place for place, line in enumerate(lines) if line.startswith("OPTION")) :
    ]
    assert table[0].split() == ["OPTION", "VALUE", "DEFAULT", "MEANING"]
    assert [line.split()[0] for line in table[1:]] == list(every)
    for line, each in zip(table[1:], every.values(), strict=True):
        assert each.expected in line
        assert line.endswith(each.says)


@pytest.mark.parametrize("tool", sorted(heat_config_hooks.HOOKS))
def test_any_hook_can_be_shown(
    tool: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every hook can be shown, also one whose program is missing."""
    monkeypatch.setenv("PATH", "/no/such/folder")
    assert agent.main(["tool", "show", tool]) == 0
    about = heat_config_hooks.load(tool).ABOUT
    shown = capsys.readouterr().out
    assert about.config in shown
    assert about.deprecated in shown
    assert ("deprecated" in shown) == bool(about.deprecated)
    assert agent.main(["tool", "show", tool, "--json"]) == 0
    data = json.loads(capsys.readouterr().out)["data"]
    assert (data["name"], data["deprecated"]) == (tool, about.deprecated or None)


@pytest.mark.parametrize("name", ["mine", "script"])
def test_of_other_peoples_hooks_it_is_known_where_they_are(
    machine: Machine, bin_folder: Path, name: str
) -> None:
    """Their options are their own, also where they hide a hook of ours."""
    path = machine.hook(name, f"{SH}touch {bin_folder}/ran\n")

    done, one = (
        tools(machine, "show", name),
        tools(machine, "show", name, "--json").data,
    )

    assert done.code == 0
    assert str(path) in done.out
    assert (
        ("it overrides the built-in hook" in done.out)
        is one["overrides_builtin"]
        is (name == "script")
    )
    assert "OPTION" not in done.out
    assert (one["hook"], one["options"], one["config"]) == (str(path), [], None)
    assert not (bin_folder / "ran").exists()


def test_missing_program_is_shown_with_how_to_install_it(
    machine: Machine, bin_folder: Path
) -> None:
    """A hook whose program is missing is shown with the way to install it."""
    done = tools(machine, "show", "salt", PATH=str(bin_folder))
    assert done.code == 0
    assert "salt-call is not installed; install " in done.out


@pytest.mark.parametrize("tool", ["no-such-tool", "", "/", "☃", "-"])
def test_unknown_tool_ends_with_8(machine: Machine, tool: str) -> None:
    """With a word about where they are all shown."""
    done = tools(machine, "show", tool)
    assert (done.code, done.out) == (8, "")
    assert (
        done.err == f"error: no hook for tool {tool!r} (heat-config-agent tool list)\n"
    )


@pytest.mark.parametrize(
    "arguments",
    [["show", "a", "b"], ["list", "--no-such-option"], ["list", "--hooks-dir"]],
)
def test_bad_usage_comes_to_2(machine: Machine, arguments: list[str]) -> None:
    """Bad usage exits with 2."""
    done = machine.command("heat-config-agent", ["tool", *arguments], {})
    assert (done.code, done.out) == (2, "")
    assert "error: " in done.err


def test_tool_list_creates_no_state_directory(
    machine: Machine, bin_folder: Path
) -> None:
    """Any user may run the command, and no state directory is created."""
    before = {path: path.stat().st_mtime_ns for path in machine.folder.rglob("*")}
    assert tools(machine, "list").code == 0
    assert {
        path: path.stat().st_mtime_ns for path in machine.folder.rglob("*")
    } == before
    assert stat.S_ISDIR(bin_folder.stat().st_mode)


def test_closed_pipe_gives_no_traceback(machine: Machine, bin_folder: Path) -> None:
    """A closed pipe, as with `| head`, is not an error."""
    reader, writer = os.pipe()
    os.close(reader)
    environment = {**machine.environment, "PATH": str(bin_folder)}
    with open(writer, "wb") as pipe:
        command = [str(BIN / "heat-config-agent"), "tool", "list"]
        done = subprocess.run(
            command,
            env=environment,
            stdout=pipe,
            stderr=subprocess.PIPE,
            check=False,
            timeout=pace.seconds(60),
        )
    assert (done.returncode, done.stderr) == (0, b"")
