from __future__ import annotations

import os
from pathlib import Path

import pytest

from heat_config_agent import settings
from heat_config_agent.errors import UsageError
from heat_config_agent.settings import DEPLOYED, DEPLOYED_OLD, HOOK_DIRECTORIES, SYSTEM_STATE, make, run_environment


def test_what_is_given_wins_over_the_environment_and_that_over_what_is_usual(tmp_path: Path) -> None:
    """For the state directory, as for all else."""
    environ = {"HEAT_CONFIG_AGENT_STATE": "/from/environment", "HOME": "/home/me"}
    assert make(environ, state=tmp_path).state == tmp_path
    assert make(environ).state == Path("/from/environment")


def test_the_system_works_in_heat_agents_own_places() -> None:
    """Whoever reads them finds what they did before."""
    found = make({}, state=SYSTEM_STATE)
    assert (found.root, found.deployed, found.deployed_old) == (None, DEPLOYED, DEPLOYED_OLD)
    assert found.hooks == HOOK_DIRECTORIES


def test_anybody_else_works_below_the_state_directory(tmp_path: Path) -> None:
    """Nothing is left outside of it."""
    found = make({}, state=tmp_path)
    assert (found.root, found.deployed, found.deployed_old) == (tmp_path, tmp_path / "deployed", None)


@pytest.mark.skipif(os.geteuid() == 0, reason="root's default is the system's: to see a user's, run the tests as one")
@pytest.mark.parametrize(
    ("environ", "state"),
    [({"HOME": "/h"}, "/h/.local/state"), ({"HOME": "/h", "XDG_STATE_HOME": "/s"}, "/s"), ({}, "/.local/state")],
)
def test_the_state_of_somebody_is_at_their_home(environ: dict[str, str], state: str) -> None:
    """Where programs keep it."""
    assert make(environ).state == Path(state) / "heat-config-agent"


def test_heat_agents_variables_are_known(tmp_path: Path) -> None:
    """They name the folder of what was done, the one before it, hooks, and the list of deployments."""
    environ = {
        "HEAT_CONFIG_DEPLOYED": "/d",
        "HEAT_CONFIG_DEPLOYED_OLD": "/old",
        "HEAT_CONFIG_HOOKS": "/hooks",
        "HEAT_SHELL_CONFIG": "/list",
    }
    found = make(environ, state=tmp_path)
    assert (found.deployed, found.deployed_old) == (Path("/d"), Path("/old"))
    assert (found.hooks, found.shell_config) == ((Path("/hooks"), *HOOK_DIRECTORIES), Path("/list"))


def test_an_older_agents_folder_is_taken_over_wherever_the_new_one_is() -> None:
    """The old folder has its default whether or not the new one is named."""
    assert make({"HEAT_CONFIG_DEPLOYED": "/srv/deployed"}, state=SYSTEM_STATE).deployed_old == DEPLOYED_OLD


def test_an_empty_variable_is_none(tmp_path: Path) -> None:
    """As shells leave them."""
    environ = dict.fromkeys(("HEAT_CONFIG_DEPLOYED", "HEAT_CONFIG_HOOKS", "HEAT_SHELL_CONFIG"), "")
    found = make(environ, state=tmp_path)
    assert (found.deployed, found.hooks, found.shell_config) == (tmp_path / "deployed", HOOK_DIRECTORIES, None)


def test_hooks_that_are_given_are_looked_for_first(tmp_path: Path) -> None:
    """Then those of the environment, then heat-agents'."""
    found = make({"HEAT_CONFIG_HOOKS": "/own"}, state=tmp_path, hooks=(Path("/b"), Path("/a")))
    assert found.hooks == (Path("/b"), Path("/a"), Path("/own"), *HOOK_DIRECTORIES)


def test_no_path_depends_on_where_a_run_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A hook found in a relative directory is run from another one; a state directory outlives the command."""
    monkeypatch.chdir(tmp_path)
    environ = {"HEAT_CONFIG_HOOKS": "own", "HEAT_CONFIG_DEPLOYED": "done", "HEAT_CONFIG_DEPLOYED_OLD": "old"}
    found = make(environ, state=Path("state"), hooks=(Path("hooks"),))
    assert (found.state, found.deployed) == (tmp_path / "state", tmp_path / "done")
    assert found.hooks[:2] == (tmp_path / "hooks", tmp_path / "own")
    assert found.deployed_old == tmp_path / "old"


@pytest.mark.parametrize(("given", "limit"), [(None, settings.TIME_LIMIT), (5.0, 5.0), (0.0, None)])
def test_a_run_has_a_time_limit_unless_it_is_told_to_have_none(
    tmp_path: Path, given: float | None, limit: float | None
) -> None:
    """A limit of 0 is none."""
    assert make({}, state=tmp_path, limit=given).limit == limit


def test_certificates_that_are_not_there_are_a_mistake(tmp_path: Path) -> None:
    """Better said at once than at every signal."""
    with pytest.raises(UsageError, match="certificates"):
        make({}, state=tmp_path, ca_file=str(tmp_path / "missing.pem"))


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
    assert run_environment(kept) == kept


def test_a_run_gets_nothing_that_was_meant_for_the_agent() -> None:
    """Neither tokens nor how the agent's own interpreter is started."""
    others = ("OS_PASSWORD", "AWS_SECRET_ACCESS_KEY", "PYTHONPATH", "LD_PRELOAD", "VIRTUAL_ENV", "NOTIFY_SOCKET", "IFS")
    assert set(run_environment(dict.fromkeys(others, "x"))) == {"PATH", "HOME"}


def test_a_run_always_has_a_path_and_a_home() -> None:
    """Also where the agent was started with an empty environment."""
    assert run_environment({})["PATH"] == settings.PATH
    assert run_environment({})["HOME"] in ("/root", "/")
