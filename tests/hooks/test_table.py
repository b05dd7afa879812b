from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import heat_config_hooks
from heat_config_hooks import protocol, table

PAGE = Path(__file__).parents[2] / "docs/tools.md"


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the module as `make table` does."""
    command = [sys.executable, "-m", "heat_config_hooks.table", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_the_page_has_the_table_of_today() -> None:
    """The page has the tables that are generated from the hooks."""
    text = PAGE.read_text()
    assert table.updated(text) == text, (
        "the tables of docs/tools.md are not of today: «make table» writes them"
    )


@pytest.mark.parametrize("tool", sorted(heat_config_hooks.HOOKS))
def test_every_hook_is_in_the_table(tool: str) -> None:
    """Its two rows have its config and options; its package, programs, variables, whether it verifies, and tests."""
    author, machine = (
        line for line in table.table().splitlines() if line.startswith(f"| `{tool}` ")
    )
    hook = heat_config_hooks.load(tool)
    about = hook.ABOUT
    assert about.config.replace("|", "\\|") in author
    assert [name for name in about.options if f"`{name}`" not in author] == []
    assert author.replace("\\|", "").count("|") == 4
    cells = [each.strip() for each in machine.replace("\\|", "").split("|")]
    assert cells[2] == ("compat" if tool in heat_config_hooks.COMPAT else "agent")
    assert cells[5] == ("yes" if protocol.can_verify(hook) else "–")
    assert about.tested.replace("|", "\\|") in machine
    names = (*about.variables, *(about.program.names if about.program else ()))
    assert [name for name in names if f"`{name}`" not in machine] == []
    assert len(cells) == 8


def test_the_table_is_put_between_the_marks(tmp_path: Path) -> None:
    """It replaces any text there, and the rest of the file stays as it is."""
    path = tmp_path / "x.md"
    path.write_text(
        "before\n<!-- hooks -->\nold\n<!-- /hooks -->\nafter: é\n", encoding="utf-8"
    )
    path.chmod(0o644)
    for _ in range(2):
        done = run(str(path))
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
        expected = f"before\n<!-- hooks -->\n{run().stdout}<!-- /hooks -->\nafter: é\n"
        assert path.read_text(encoding="utf-8") == expected
    assert path.stat().st_mode & 0o777 == 0o644


@pytest.mark.parametrize(
    "text", ["", "<!-- hooks -->\n", "<!-- /hooks -->\n<!-- hooks -->\n"]
)
def test_file_without_the_marks_is_not_changed(tmp_path: Path, text: str) -> None:
    """The message says what is missing."""
    path = tmp_path / "x.md"
    path.write_text(text)
    done = run(str(path))
    assert (done.returncode, path.read_text()) == (1, text)
    assert "there is no line <!-- hooks -->" in done.stderr
