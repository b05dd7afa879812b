from __future__ import annotations

import os
from pathlib import Path

import pytest

from heat_config_agent.model.errors import UsageError
from heat_config_agent.settings import effective, schema
from heat_config_agent.settings.effective import (
    DEPLOYED,
    DEPLOYED_OLD,
    HOOK_DIRECTORIES,
    SYSTEM_STATE,
    Overrides,
    make,
)
from heat_config_agent.settings.layers import Layer


def test_option_wins_over_environment_and_default(tmp_path: Path) -> None:
    """For the state directory, as for all else."""
    environ = {"HEAT_CONFIG_AGENT_STATE": "/from/environment", "HOME": "/home/me"}
    assert make(environ, state=tmp_path).state == tmp_path
    assert make(environ).state == Path("/from/environment")


def test_the_system_works_in_heat_agents_own_places() -> None:
    """The agent of the system uses heat-agents' paths, so other programs find the files."""
    found = make({}, state=SYSTEM_STATE)
    assert (found.root, found.deployed, found.deployed_old) == (
        None,
        DEPLOYED,
        DEPLOYED_OLD,
    )
    assert found.hooks == HOOK_DIRECTORIES


@pytest.mark.parametrize("closed", ["itself", "the folder that it is in", ""])
def test_closed_hook_directory_counts_if_it_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, closed: str
) -> None:
    """A directory of root's agent is not missed by other users, and is reported if they name it."""
    folder = tmp_path / "heat-config/hooks"
    folder.mkdir(parents=True)
    monkeypatch.setattr(effective, "HOOK_DIRECTORIES", (folder, tmp_path / "none"))
    barred = {"itself": folder, "": tmp_path / "other"}.get(closed, folder.parent)
    (tmp_path / "other").mkdir()
    barred.chmod(0)
    user = os.geteuid()
    try:
        os.seteuid(user or 54321)
        monkeypatch.setattr(os, "geteuid", lambda: 54321)
        searched = make({}, state=tmp_path).hooks
        named = make({"HEAT_CONFIG_HOOKS": str(folder)}, state=tmp_path).hooks
    finally:
        os.seteuid(user)
        barred.chmod(0o700)
    rest = (tmp_path / "none",) if closed else (folder, tmp_path / "none")
    # the temporary folders of root are closed themselves
    assert searched == (rest if user else ())
    assert named[0] == folder


def test_anybody_else_works_below_the_state_directory(tmp_path: Path) -> None:
    """Nothing is left outside of it."""
    found = make({}, state=tmp_path)
    assert (found.root, found.deployed, found.deployed_old) == (
        tmp_path,
        tmp_path / "deployed",
        None,
    )


@pytest.mark.skipif(
    os.geteuid() == 0,
    reason="root's default is the system's: to see a user's, run the tests as one",
)
@pytest.mark.parametrize(
    ("environ", "state"),
    [
        ({"HOME": "/h"}, "/h/.local/state"),
        ({"HOME": "/h", "XDG_STATE_HOME": "/s"}, "/s"),
        ({}, "/.local/state"),
    ],
)
def test_the_state_of_somebody_is_at_their_home(
    environ: dict[str, str], state: str
) -> None:
    """Where programs keep it."""
    assert make(environ).state == Path(state) / "heat-config-agent"


def test_heat_agents_variables_are_known(tmp_path: Path) -> None:
    """heat-agents' variables name the folders of records, the hooks, and the list of deployments."""
    environ = {
        "HEAT_CONFIG_DEPLOYED": "/d",
        "HEAT_CONFIG_DEPLOYED_OLD": "/old",
        "HEAT_CONFIG_HOOKS": "/hooks",
        "HEAT_SHELL_CONFIG": "/list",
    }
    found = make(environ, state=tmp_path)
    assert (found.deployed, found.deployed_old) == (Path("/d"), Path("/old"))
    assert (found.hooks, found.shell_config) == (
        (Path("/hooks"), *HOOK_DIRECTORIES),
        Path("/list"),
    )


def test_an_older_agents_folder_is_taken_over_wherever_the_new_one_is() -> None:
    """The old folder has its default whether or not the new one is named."""
    assert (
        make({"HEAT_CONFIG_DEPLOYED": "/srv/deployed"}, state=SYSTEM_STATE).deployed_old
        == DEPLOYED_OLD
    )


def test_an_empty_variable_is_none(tmp_path: Path) -> None:
    """As shells leave them."""
    environ = dict.fromkeys(
        ("HEAT_CONFIG_DEPLOYED", "HEAT_CONFIG_HOOKS", "HEAT_SHELL_CONFIG"), ""
    )
    found = make(environ, state=tmp_path)
    assert (found.deployed, found.hooks, found.shell_config) == (
        tmp_path / "deployed",
        HOOK_DIRECTORIES,
        None,
    )


def test_hooks_that_are_given_are_looked_for_first(tmp_path: Path) -> None:
    """Hook directories of the command line come first, then the environment's, then heat-agents'."""
    found = make(
        {"HEAT_CONFIG_HOOKS": "/own"},
        state=tmp_path,
        overrides=Overrides(hooks=(Path("/b"), Path("/a"))),
    )
    assert found.hooks == (Path("/b"), Path("/a"), Path("/own"), *HOOK_DIRECTORIES)


def test_no_path_depends_on_where_a_run_works(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A hook found in a relative directory is run from another one; a state directory outlives the command."""
    monkeypatch.chdir(tmp_path)
    environ = {
        "HEAT_CONFIG_HOOKS": "own",
        "HEAT_CONFIG_DEPLOYED": "done",
        "HEAT_CONFIG_DEPLOYED_OLD": "old",
    }
    found = make(
        environ, state=Path("state"), overrides=Overrides(hooks=(Path("hooks"),))
    )
    assert (found.state, found.deployed) == (tmp_path / "state", tmp_path / "done")
    assert found.hooks[:2] == (tmp_path / "hooks", tmp_path / "own")
    assert found.deployed_old == tmp_path / "old"


@pytest.mark.parametrize(
    ("given", "limit"), [(None, schema.number("time_limit")), (5.0, 5.0), (0.0, None)]
)
def test_a_run_has_a_time_limit_unless_it_is_told_to_have_none(
    tmp_path: Path, given: float | None, limit: float | None
) -> None:
    """A limit of 0 is none."""
    assert make({}, state=tmp_path, overrides=Overrides(limit=given)).limit == limit


def test_certificates_that_are_not_there_are_a_mistake(tmp_path: Path) -> None:
    """Better said at once than at every signal, with who says it."""
    with pytest.raises(
        UsageError, match=r"cannot read the certificates .*No such file.*\(--ca-file\)"
    ):
        make(
            {},
            state=tmp_path,
            overrides=Overrides(ca_file=str(tmp_path / "missing.pem")),
        )
    empty, path = tmp_path / "empty.pem", tmp_path / "one.conf"
    empty.write_text("nothing")
    path.write_text(f"[agent]\nca_file = {empty}\n")
    with pytest.raises(
        UsageError,
        match=r"no certificate in .*empty.pem \(ca_file of \[agent\], .*one.conf, line 2\)",
    ):
        make({}, state=tmp_path, config=path)


def test_invalid_state_directory_is_a_mistake(tmp_path: Path) -> None:
    """With who says it."""
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match=r"file is not a directory \(--state-dir\)"):
        make({}, state=tmp_path / "file")
    path = tmp_path / "one.conf"
    path.write_text(f"[agent]\nstate_dir = {tmp_path}/file\n")
    with pytest.raises(
        UsageError,
        match=r"file is not a directory \(state_dir of \[agent\], .*one.conf, line 2\)",
    ):
        make({}, config=path)


@pytest.mark.parametrize(
    ("text", "sure"),
    [
        ("[agent]\nsplay = x\nstate_dir = /a\n", True),
        ("[agent]\nnonsense\n", True),
        ("[agent]\nstate_dri = /a\n", False),
        ("[agnet]\nstate_dir = /a\n", False),
        ("[agent]\nstate_dir = a\n", False),
        ("splay = 1\nstate_dir = /a\n", False),
        ("[agent]\nstate_dir /a\n", False),
    ],
)
def test_mistakes_may_leave_in_doubt_where_the_state_is(
    tmp_path: Path, text: str, *, sure: bool
) -> None:
    """Unless it is given."""
    assert not make({}, config=tmp_path / "gone", mistakes=[]).placed
    path = tmp_path / "one.conf"
    path.write_text(text)
    assert make({}, config=path, mistakes=[]).placed is sure
    given = make({}, config=path, state=tmp_path, mistakes=[])
    assert given.placed
    assert given.mistakes or given.warnings


def test_first_of_several_mistakes_is_reported_with_their_number(
    tmp_path: Path,
) -> None:
    """The error shows the first mistake, their number and the command that shows all."""
    path = tmp_path / "one.conf"
    path.write_text("[agent]\nsplay = x\ngrace = x\nparallel = x\n")
    with pytest.raises(
        UsageError,
        match=r"line 2: splay.*\(and 2 more: heat-config-agent config .*shows them\)$",
    ):
        make({}, config=path)


def test_a_run_gets_what_a_program_needs_to_work() -> None:
    """Locale, time zone, proxies, and what is heat-agents' own."""
    kept = {
        "PATH": "/bin",
        "HOME": "/h",
        "USER": "me",
        "LANG": "C.UTF-8",
        "LC_ALL": "C",
        "TZ": "UTC",
        "http_proxy": "http://p",
        "NO_PROXY": "h",
        "HEAT_SCRIPT_WORKING": "/w",
        "OS_CONFIG_APPLIER_TEMPLATES": "/t",
        "SALT_MINION_CONFIG": "/s",
    }
    assert effective.environment_of_runs(kept) == kept


def test_a_run_gets_nothing_that_was_meant_for_the_agent() -> None:
    """A run gets neither the agent's tokens nor the variables of its interpreter."""
    others = (
        "OS_PASSWORD",
        "AWS_SECRET_ACCESS_KEY",
        "PYTHONPATH",
        "LD_PRELOAD",
        "VIRTUAL_ENV",
        "NOTIFY_SOCKET",
        "IFS",
    )
    assert set(effective.environment_of_runs(dict.fromkeys(others, "x"))) == {
        "PATH",
        "HOME",
    }


def test_a_run_always_has_a_path_and_a_home() -> None:
    """A run has PATH and HOME, even if the agent's environment is empty."""
    assert effective.environment_of_runs({})["PATH"] == effective.RUN_PATH
    assert effective.environment_of_runs({})["HOME"] in ("/root", "/")


@pytest.fixture
def etc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder in the place of /etc/heat-config-agent; os-collect-config's file is beside it."""
    folder = tmp_path / "etc"
    folder.mkdir()
    monkeypatch.setattr(effective, "OWN_FILES", folder)
    monkeypatch.setattr(effective, "OTHER_FILE", tmp_path / "os-collect-config.conf")
    return folder


def test_who_says_something_counts_in_an_order(etc: Path) -> None:
    """The command line, the agent's own files, the last first, the metadata, os-collect-config's file, the usual."""
    (etc.parent / "os-collect-config.conf").write_text(
        "[DEFAULT]\npolling_interval = 60\nsplay = 6\ncollectors = ec2\n"
    )
    (etc / "10.conf").write_text("[agent]\nparallel = 2\ngrace = 3\ntime_limit = 9\n")
    (etc / "20.conf").write_text("[agent]\nparallel = 4\n")
    (etc / "30.txt").write_text("no settings")
    found = make({}, state=etc.parent, overrides=Overrides(grace=1))
    said = found.with_metadata(
        Layer("the metadata", {"agent": {"polling_interval": 7.0, "parallel": 99}})
    )
    assert (said.number("parallel"), found.grace, found.limit) == (4, 1, 9)
    assert (said.number("polling_interval"), found.number("polling_interval")) == (
        7,
        60,
    )
    assert (said.number("splay"), said.number("collect_timeout")) == (6, 60)
    assert said.lookup("agent", "parallel")[1] == f"{etc / '20.conf'}, line 2"
    assert said.lookup("agent", "splay")[1].endswith("os-collect-config.conf, line 3")
    assert said.lookup("agent", "collect_timeout")[1] == "default"
    assert (said.words("collectors"), said.only) == (("ec2",), ()), (
        "of another program's file that is no choice"
    )
    again = said.with_metadata(Layer("the metadata", {}))
    assert again.number("polling_interval") == 60


def test_a_file_that_is_named_is_the_only_one(etc: Path) -> None:
    """Only the named file is read, and its state directory overrides the environment's."""
    (etc / "10.conf").write_text("[agent]\nparallel = 4\nstate_dir = /from/etc\n")
    path = etc.parent / "named.conf"
    path.write_text("[agent]\nstate_dir = /from/file\ncollectors = local\n")
    environ = {"HEAT_CONFIG_AGENT_STATE": "/from/environment"}
    found = make(environ, config=path)
    assert (found.number("parallel"), found.state, found.only) == (
        1,
        Path("/from/file"),
        ("local",),
    )
    assert make(environ).state == Path("/from/environment")
    assert make({}).state == Path("/from/etc")
    assert make(environ, config=path, state=Path("/given")).state == Path("/given")


def test_mistake_is_refused_in_our_file_and_reported_in_others(etc: Path) -> None:
    """With the file and the line."""
    (etc.parent / "os-collect-config.conf").write_text("[DEFAULT]\nsplay = x\n")
    [warning] = make({}, state=etc.parent).warnings
    assert "os-collect-config.conf: line 2: splay" in warning
    (etc / "10.conf").write_text("[agent]\nsplay = x\n")
    with pytest.raises(UsageError, match=r"10\.conf: line 2: splay"):
        make({}, state=etc.parent)


def test_the_environment_of_runs(etc: Path) -> None:
    """Variables of the settings override others, and an invalid one is refused without its value."""
    (etc / "10.conf").write_text(
        "[agent]\nenvironment = PATH=/opt/bin\nenvironment = A=b=c\nenvironment = EMPTY=\n"
    )
    found = make({"PATH": "/bin"}, state=etc.parent).environment
    assert (found["PATH"], found["A"], found["EMPTY"]) == ("/opt/bin", "b=c", "")
    (etc / "10.conf").write_text("[agent]\nenvironment = geheim\n")
    with pytest.raises(UsageError, match="expected NAME=VALUE") as caught:
        make({}, state=etc.parent)
    assert "geheim" not in str(caught.value)


def test_a_mistake_is_one_line(tmp_path: Path) -> None:
    """A mistake is one line, even if the value continues on the next line of the file."""
    path = tmp_path / "agent.conf"
    path.write_text("[agent]\nca_file: /\n /\n")
    mistakes: list[str] = []
    effective.make({}, config=path, mistakes=mistakes)
    assert mistakes == [
        f"cannot read the certificates in / /: No such file or directory (ca_file of [agent], {path}, line 2)"
    ]
