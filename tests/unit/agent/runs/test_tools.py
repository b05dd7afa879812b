from __future__ import annotations

from pathlib import Path

import pytest

import heat_config_hooks
from heat_config_agent.model.deployment import Tool
from heat_config_agent.runs.tools import Tools


def install(folder: Path, *names: str) -> Path:
    """Put executables into a folder."""
    folder.mkdir(exist_ok=True)
    for name in names:
        (folder / name).write_text("#!/bin/sh\n")
        (folder / name).chmod(0o755)
    return folder


def test_a_hook_of_ours_needs_no_file(tmp_path: Path) -> None:
    """A built-in hook is available wherever the agent is."""
    tool = Tools([tmp_path / "missing"]).find("script")
    assert tool == Tool("script", "builtin:script")
    assert tool.builtin


def test_executable_with_the_name_of_a_tool_is_its_hook(tmp_path: Path) -> None:
    """Executables of heat-agents and of users are hooks by their names."""
    tool = Tools([install(tmp_path, "mine")]).find("mine")
    assert tool == Tool("mine", str(tmp_path / "mine"))
    assert not tool.builtin


def test_an_executable_wins_over_a_hook_of_ours(tmp_path: Path) -> None:
    """An executable takes precedence over a built-in hook of the same name."""
    assert Tools([install(tmp_path, "script")]).find("script") == Tool(
        "script", str(tmp_path / "script")
    )


def test_the_first_directory_wins(tmp_path: Path) -> None:
    """Directories are searched in order, and missing ones are skipped."""
    first, second = (
        install(tmp_path / "1", "mine"),
        install(tmp_path / "2", "mine", "other"),
    )
    tools = Tools([tmp_path / "0", first, second])
    assert tools.find("mine") == Tool("mine", str(first / "mine"))
    assert tools.find("other") == Tool("other", str(second / "other"))


@pytest.mark.parametrize("tool", ["m.i/n e", "../mine", "m\0ine", "mine\n"])
def test_odd_characters_are_left_out_of_a_tools_name(tmp_path: Path, tool: str) -> None:
    """As heat-agents does: the name comes from elsewhere, and leads nowhere else."""
    assert Tools([install(tmp_path / "hooks", "mine")]).find(tool) == Tool(
        "mine", str(tmp_path / "hooks" / "mine")
    )


@pytest.mark.parametrize(
    "tool",
    ["", "/", "..", "no-such-tool", "✗", "x" * 1000, "é" * 200, "\ud800"],
    ids=lambda value: ascii(value)[:12],
)
def test_a_tool_without_a_hook_is_not_found(tmp_path: Path, tool: str) -> None:
    """Nothing is ever taken for the hook of what is none."""
    assert Tools([install(tmp_path, "mine")]).find(tool) is None


def test_folder_does_not_hide_a_built_in_hook(tmp_path: Path) -> None:
    """A folder is not a hook, and does not hide a built-in one."""
    (tmp_path / "mine").mkdir()
    assert Tools([tmp_path]).find("mine") is None


def test_a_link_to_our_command_is_our_hook(tmp_path: Path) -> None:
    """Run by the agent itself, so that it outlives it; a link of another tool's name is an executable like others."""
    folder = install(tmp_path / "hooks")
    install(tmp_path, "heat-config-hook")
    for name in ("script", "mine"):
        (folder / name).symlink_to(tmp_path / "heat-config-hook")
    tools = Tools([folder])
    assert tools.find("script") == Tool("script", "builtin:script")
    assert tools.find("mine") == Tool("mine", str(folder / "mine"))


def test_all_that_is_installed_is_named(tmp_path: Path) -> None:
    """Ours and other people's, each once."""
    install(tmp_path / "1", "mine", "script")
    install(tmp_path / "2", "mine", "other")
    (tmp_path / "2" / "folder").mkdir()
    found = Tools([tmp_path / "1", tmp_path / "2", tmp_path / "missing"]).installed()
    assert list(found) == sorted({"mine", "other", *heat_config_hooks.HOOKS})
    assert found["script"] == Tool("script", str(tmp_path / "1" / "script"))


def test_a_directory_that_cannot_be_read_is_reported_once(tmp_path: Path) -> None:
    """An unreadable directory is reported once, and a missing one is not."""
    (tmp_path / "file").write_text("")
    (tmp_path / "loop").symlink_to("loop")
    warnings: list[str] = []
    tools = Tools(
        [tmp_path / "missing", tmp_path / "file", tmp_path / "loop"], warnings.append
    )
    assert (
        set(tools.installed()) == set(tools.installed()) == set(heat_config_hooks.HOOKS)
    )
    assert sorted(warnings) == [
        f"cannot read the hook directory {tmp_path}/file: Not a directory; its hooks are not used",
        f"cannot read the hook directory {tmp_path}/loop: Too many levels of symbolic links; its hooks are not used",
    ]
