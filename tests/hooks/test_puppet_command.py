"""The command of the `puppet` hook: its command line, logs, facts and environment."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import pytest

from heat_config_hooks import options, protocol
from heat_config_hooks.errors import HookError
from heat_config_hooks.tools import puppet
from heat_config_hooks.values import replace
from support.machine import BIN
from support.observations import mode
from support.puppet import START, a_manifest, real
from support.tools import need, need_root

pytestmark = pytest.mark.slow

NOBODY = 65534


@pytest.fixture
def place(tmp_path: Path) -> protocol.Workplace:
    """A workplace with the real puppet and folders of its own."""
    (tmp_path / "run").mkdir()
    environment = {
        "PATH": os.environ["PATH"],
        "LANG": "C.UTF-8",
        "HEAT_PUPPET_CMD": str(real(tmp_path).command),
        "HEAT_PUPPET_HIERA_DATADIR": str(tmp_path / "hieradata"),
    }
    return protocol.workplace("puppet", tmp_path / "run", tmp_path, environment)


def asked(
    config: str = "x", *, given: dict[str, object] | None = None, **fields: Any
) -> protocol.Request:
    """Return the request for the hook."""
    document = a_manifest("p1", config, **fields)
    return protocol.request(
        document, key="p1", options=options.read(given or {}, puppet.ABOUT.options)
    )


def prepared(
    place: protocol.Workplace, *, given: dict[str, object] | None = None, **fields: Any
) -> protocol.Command:
    """Return the command for a request that needs one."""
    command = puppet.prepare(asked(given=given, **fields), place)
    assert isinstance(command, protocol.Command)
    return command


@pytest.mark.parametrize("writable", [True, False])
def test_puppets_own_logs_are_where_heat_agents_has_them(
    place: protocol.Workplace,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    writable: bool,
) -> None:
    """They are in /var/log/puppet, or in the folder of the other logs, and their mode is corrected."""
    logs = tmp_path / "var-log-puppet"
    monkeypatch.setattr(puppet, "LOGS", logs)
    if writable:
        logs.mkdir()
        (logs / "heat-debug.log").write_text("before\n")
        (logs / "heat-debug.log").chmod(0o644)
    else:
        logs.touch()
        logs = tmp_path / "run" / "deployed"
    command = prepared(
        place,
        config="notice('x')",
        given={"enable_debug": True, "enable_verbose": True},
    )
    debug, verbose = logs / "heat-debug.log", logs / "heat-verbose.log"
    more = ["--debug", "--logdest", str(debug), "--verbose", "--logdest", str(verbose)]
    path = str(place.working / "p1.pp")
    assert command.argv[command.argv.index("apply") :] == (*START, *more, path)
    done = subprocess.run(
        command.argv,
        cwd=command.cwd,
        env={**place.environment, **command.environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "Debug: " in done.stdout
    assert "(debug)" in debug.read_text()
    assert debug.read_text().startswith("before\n" if writable else "2")
    assert "Scope(Class[main]) (notice): x" in verbose.read_text()
    assert (mode(debug), mode(verbose)) == (0o600, 0o600)


@pytest.mark.parametrize("elsewhere", [False, True])
def test_the_logs_are_below_the_state_or_in_heat_agents_place(
    place: protocol.Workplace,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    elsewhere: bool,
) -> None:
    """The variable for outputs does not move them."""
    usual = protocol.workplace("puppet", place.run, None, {})
    assert (
        usual.outputs.parent / "deployed"
        == puppet.LOGDIR
        == Path("/var/run/heat-config/deployed")
    )
    monkeypatch.setattr(puppet, "LOGDIR", tmp_path / "var" / "deployed")
    logs = place.outputs.parent / "deployed"
    if elsewhere:
        outputs = {
            "HEAT_PUPPET_OUTPUTS": str(tmp_path / "outputs" / "heat-config-puppet")
        }
        place = protocol.workplace(
            "puppet", place.run, tmp_path, {**place.environment, **outputs}
        )
        logs = tmp_path / "var" / "deployed"
    place.run.joinpath("stdout").write_text("out")
    ended = protocol.Ended(
        code=2, stdout=place.run / "stdout", stderr=place.run / "missing"
    )
    reply = puppet.finish(
        asked(creation_time="../../2015-07-16T11:40:20"), place, ended
    )
    # a log that cannot be written does not fail the deployment
    assert reply["deploy_status_code"] == 0
    assert (logs / "..-..-2015-07-16-11-40-20-p1-stdout.log").read_text() == "out"
    assert not (tmp_path / "outputs").exists()


@pytest.mark.parametrize("home", ["", "/", "/proc/nowhere", "@"])
def test_missing_home_is_replaced_by_the_working_folder(home: str) -> None:
    """Puppet needs it for its state; its commands do not see it. A usable home is kept."""
    need_root()
    program, setpriv = need("puppet", "puppet"), need("setpriv", "util-linux")
    nobody = [setpriv, "--reuid", str(NOBODY), "--regid", str(NOBODY), "--clear-groups"]
    hook = [*nobody, str(BIN / "heat-config-hook"), "puppet"]
    if subprocess.run([*nobody, "test", "-r", puppet.__file__], check=False).returncode:
        pytest.skip(
            "other users cannot read the installed hooks: run the tests in a folder that all can read"
        )
    with tempfile.TemporaryDirectory() as name:  # pytest's own folders are for us alone
        os.chown(name, NOBODY, NOBODY)
        environment = {
            "PATH": os.environ["PATH"],
            "HEAT_PUPPET_CMD": program,
            "HEAT_PUPPET_LOGDIR": f"{name}/logs",
            "HEAT_PUPPET_WORKING": f"{name}/working",
            "HEAT_PUPPET_OUTPUTS": f"{name}/outputs",
            **({"HOME": home.replace("@", name)} if home else {}),
        }
        manifest = "notice(\"${facts['heat_outputs_path']}\") exec { '/usr/bin/env': logoutput => true }"
        given = json.dumps(a_manifest("p1", manifest))
        done = subprocess.run(
            hook,
            input=given,
            cwd=name,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        reply = json.loads(done.stdout)
        assert reply["deploy_status_code"] == 0, reply
        assert f": {name}/outputs/p1\n" in reply["deploy_stdout"]
        assert "HOME=" not in reply["deploy_stdout"]
        found = [each.parent for each in Path(name).rglob(".puppet*")]
        assert found == [Path(name) if home == "@" else Path(name) / "working" / "home"]


def test_root_needs_no_home(place: protocol.Workplace) -> None:
    """For root, Puppet uses the folders of the system."""
    need_root()
    assert "HOME" not in prepared(place).environment


def test_inputs_that_no_variable_can_hold_are_facts_all_the_same(
    place: protocol.Workplace,
) -> None:
    """No variable is longer than Linux allows; half of a surrogate pair is replaced."""
    longest = protocol.MAX_VARIABLE - len("FACTER_fits=")
    inputs = {
        "fits": "x" * longest,
        "long": "x" * (longest + 1),
        "a b": 1,
        "n": None,
        "half": "\ud800",
    }
    command = prepared(place, inputs=inputs)
    assert {"FACTER_fits", "FACTER_half"} <= set(command.environment)
    assert not {"FACTER_long", "FACTER_a b", "FACTER_n"} & set(command.environment)
    facts = json.loads((place.run / "facts.json").read_text())
    assert facts == {
        **{name: inputs[name] for name in ("fits", "long", "a b")},
        "half": "?",
        "deploy_action": "CREATE",
    }
    assert mode(place.run / "facts.json") == 0o600
    subprocess.run(["/bin/true"], env=dict(command.environment), check=True)


def test_credentials_are_facts_only_where_they_are_asked_for(
    place: protocol.Workplace,
) -> None:
    """The option `deploy_credentials` requests them."""
    inputs = {"deploy_password": "hunter2-hunter2"}
    assert "FACTER_deploy_password" not in prepared(place, inputs=inputs).environment
    assert "hunter2" not in (place.run / "facts.json").read_text()
    given = prepared(place, given={"deploy_credentials": True}, inputs=inputs)
    assert given.environment["FACTER_deploy_password"] == "hunter2-hunter2"


@pytest.mark.parametrize("option", ["enable_hiera", "use_hiera"])
def test_facts_that_are_ours_are_not_given_by_inputs(
    place: protocol.Workplace, option: str
) -> None:
    """Facter ignores case in names, and so does the check."""
    inputs = {"HEAT_outputs_path": "/etc", "deploy_config_name": "x"}
    command = prepared(place, given={option: True}, inputs=inputs, name="web")
    assert command.environment["FACTER_heat_outputs_path"] == str(place.outputs / "p1")
    assert command.environment["FACTER_deploy_config_name"] == "web"
    assert json.loads((place.run / "facts.json").read_text()) == {
        "deploy_action": "CREATE"
    }


@pytest.mark.parametrize(
    ("given", "added"),
    [
        ({"LANG": "C.UTF-8"}, None),
        ({"LANG": "de_DE.utf8"}, None),
        ({"LANG": "C", "LC_CTYPE": "en_US.UTF-8"}, None),
        ({"LANG": "C.UTF-8", "LC_ALL": "C"}, "C.UTF-8"),
        ({"LANG": "de_DE.ISO-8859-1"}, "C.UTF-8"),
        ({}, "C.UTF-8"),
    ],
)
def test_the_locale_has_to_know_all_characters(
    place: protocol.Workplace, given: dict[str, str], added: str | None
) -> None:
    """Ruby needs a UTF-8 locale for them; an existing one is kept."""
    environment = {
        **{name: value for name, value in place.environment.items() if name != "LANG"},
        **given,
    }
    command = prepared(replace(place, environment=environment))
    assert command.environment.get("LC_ALL") == added


def test_other_folders_with_facts_stay(place: protocol.Workplace) -> None:
    """Folders in the environment of the machine are searched as well."""
    environment = {**place.environment, "FACTERLIB": "/srv/facts"}
    command = prepared(replace(place, environment=environment))
    assert command.environment["FACTERLIB"] == f"{place.run}:/srv/facts"


@pytest.mark.parametrize(
    "name", ["name", "TITLE", "0", "12", "facts", "server_facts", "module_name"]
)
def test_inputs_named_like_variables_of_puppet_are_not_facts(
    place: protocol.Workplace, name: str
) -> None:
    """Such a fact would end any run of Puppet; without facts, such an input is valid."""
    with pytest.raises(HookError, match="cannot be a fact") as caught:
        prepared(place, inputs={name: "x"})
    assert caught.value.path == "inputs"
    prepared(place, given={"enable_facter": False}, inputs={name: "x"})
