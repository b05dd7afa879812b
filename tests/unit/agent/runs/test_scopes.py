from __future__ import annotations

import os
from pathlib import Path

import pytest

from heat_config_agent.runs import scopes
from heat_config_agent.runs.scopes import Scope


@pytest.fixture(autouse=True)
def anew() -> None:
    """Have the machine examined again, which happens once in each process."""
    scopes.missing.cache_clear()


def properties(scope: Scope) -> list[str]:
    """Return the properties that systemd is told of a scope."""
    words = scopes.words("d1.7", scope)
    return [
        each.removeprefix("--property=")
        for each in words
        if each.startswith("--property=")
    ]


@pytest.mark.parametrize(
    ("mark", "name"),
    [
        ("d1.7", "heat-d1.7.scope"),
        ("../a b@é\n.7", "heat-.._a_b___.7.scope"),
        ("x" * 300 + ".7", f"heat-{'x' * 198}.7.scope"),
    ],
)
def test_a_unit_is_named_after_its_run(mark: str, name: str) -> None:
    """In what systemd takes for a name; what tells it from others is at its end."""
    assert scopes.name(mark) == name


def test_limits_are_told_as_systemd_has_them() -> None:
    """Bytes, percentages, numbers."""
    given = {"memory_max": 1024, "cpu_quota": 150, "tasks_max": 9}
    assert {"MemoryMax=1024", "CPUQuota=150%", "TasksMax=9"} <= set(
        properties(Scope("x", given))
    )
    assert not {each.partition("=")[0] for each in properties(Scope("x", {}))} & {
        "MemoryMax",
        "CPUQuota",
        "TasksMax",
    }


def test_description_of_a_scope_is_one_line() -> None:
    """The description of a scope is one plain line, whatever the name of the deployment contains."""
    said = next(
        each
        for each in scopes.words("d1.7", Scope("a\nb\x1b[1m\0é", {}))
        if "description" in each
    )
    assert said == "--description=a?b?[1m??"
    assert scopes.words("d1.7", Scope("x", {}))[-1] == "--"


def test_only_processes_of_its_own_folder_are_those_of_a_run(tmp_path: Path) -> None:
    """The processes of a scope and of groups below it belong to its run, and those of other scopes do not."""
    scope = tmp_path / scopes.name("d1.7")
    (scope / "below").mkdir(parents=True)
    (scope / "cgroup.procs").write_text("12\n13\n")
    (scope / "below/cgroup.procs").write_text("14\n")
    assert sorted(scopes.members(str(scope), "d1.7")) == [12, 13, 14]
    assert scopes.members(str(scope), "d1.8") == []
    assert scopes.members(str(tmp_path), "d1.7") == []
    assert scopes.members(str(scope / "gone"), "d1.7") == []


def test_a_process_elsewhere_has_no_scope() -> None:
    """A process outside scopes has none, and neither has one that does not exist."""
    assert scopes.folder(os.getpid(), "d1.7") == ""
    assert scopes.folder(2**22 + 1, "d1.7") == ""
    assert scopes.unenforced(
        os.getpid(), "d1.7", {"memory_max": 1, "tasks_max": 1}
    ) == ["memory", "pids"]


def test_missing_scopes_have_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where systemd does not run, and for other users."""
    monkeypatch.setattr(os.path, "isdir", lambda _: False)
    assert scopes.missing() == "systemd does not run here"
    scopes.missing.cache_clear()
    monkeypatch.setattr(os.path, "isdir", lambda _: True)
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert scopes.missing() == "only root can make scopes"
    scopes.missing.cache_clear()
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(scopes, "PROGRAM", "/no/such/program")
    assert scopes.missing() == "there is no /no/such/program"
