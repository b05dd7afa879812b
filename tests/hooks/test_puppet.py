"""The `puppet` hook, with a real puppet and with a stand-in."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

from heat_config_hooks import needs
from support import endings, pace
from support.driver import Alone, Driver
from support.observations import mode
from support.puppet import START, Puppet, a_manifest, real, recorder

pytestmark = [pytest.mark.slow, pytest.mark.takes(60)]


@pytest.fixture
def the_puppet(driver: Driver, tmp_path: Path) -> Puppet:
    """The real puppet, first in the PATH of the driver; its state is in the folder of the test."""
    found = real(tmp_path)
    driver.environment["PATH"] = f"{found.command.parent}:{os.environ['PATH']}"
    driver.environment["HEAT_PUPPET_LOGDIR"] = str(tmp_path / "logs")
    driver.environment["HEAT_PUPPET_HIERA_DATADIR"] = str(tmp_path / "hieradata")
    return found


Recorded = Callable[[str], Puppet]


@pytest.fixture
def recorded(driver: Driver, tmp_path: Path) -> Recorded:
    """A stand-in for puppet that records its calls, and behaves as the test requests."""

    def make(then: str) -> Puppet:
        found = recorder(tmp_path, then)
        driver.environment["HEAT_PUPPET_CMD"] = str(found.command)
        driver.environment["HEAT_PUPPET_LOGDIR"] = str(tmp_path / "logs")
        return found

    return make


TYPES: dict[str, Any] = {
    "text": 'it\'s "ünï" 🎉\nand more',
    "digits": "007",
    "number": 41,
    "float": 1.5,
    "yes": True,
    "nothing": None,
    "list": [1, "b", {"c": None}],
    "map": {"a": "x", "ä": [True]},
    "empty": "",
    "my-input": "no variable",
    "big": "x" * 300_000,
    "os": {"family": "mine"},
}


SHOW = """\
$shown = {
  'text' => $facts['text'],
  'digits' => $::digits,
  'number' => $number + 1,
  'float' => $facts['float'] * 2,
  'yes' => $yes == true,
  'nothing' => $facts['nothing'] =~ Undef,
  'list' => $facts['list'],
  'first' => $list[0] + 1,
  'map' => $facts['map']['a'],
  'inner' => $map['ä'][0],
  'empty' => $facts['empty'],
  'my-input' => $facts['my-input'],
  'big' => length($facts['big']),
  'os' => $facts['os'],
  'action' => $deploy_action,
  'password' => $facts['deploy_password'],
}
file { "${heat_outputs_path}.shown": content => to_json($shown) }
file { '@FILE@': content => "ünï ${text}", mode => '0640' }
notice("ünï ${text}")
"""


TO_JSON = """\
Puppet::Functions.create_function(:to_json) do
  def to_json(value)
    value.to_json
  end
end
"""


@pytest.mark.usefixtures("the_puppet")
def test_a_manifest_is_applied_with_the_inputs_as_facts_of_their_types(
    driver: Driver, tmp_path: Path
) -> None:
    """It works at every action, in any locale, and with inputs of any size; UPDATE has nothing to change.

    The hook alone is tried at one action: it handles all of them alike.
    """
    driver.environment |= {"LC_ALL": "POSIX"}
    functions = tmp_path / "modules" / "shown" / "lib" / "puppet" / "functions"
    functions.mkdir(parents=True)
    (functions / "to_json.rb").write_text(TO_JSON)
    target = tmp_path / "target"
    fields: dict[str, Any] = {
        "inputs": {**TYPES, "deploy_password": "hunter2-hunter2"},
        "outputs": ["shown", "not_written"],
        "options": {"modulepath": str(tmp_path / "modules")},
    }

    result = driver.run(a_manifest("p1", SHOW.replace("@FILE@", str(target)), **fields))

    assert result["deploy_status_code"] == 0, result
    assert 'Notice: Scope(Class[main]): ünï it\'s "ünï" 🎉' in result["deploy_stdout"]
    assert f"File[{target}]/ensure: defined content" in result["deploy_stdout"]
    assert json.loads(result["shown"]) == {
        "text": TYPES["text"],
        "digits": "007",
        "number": 42,
        "float": 3.0,
        "yes": True,
        "nothing": True,
        "list": [
            1,
            "b",
            {"c": ""},
        ],  # Puppet's own doing: no fact of its has a null inside
        "first": 2,
        "map": "x",
        "inner": True,
        "empty": "",
        "my-input": "no variable",
        "big": 300_000,
        "os": {"family": "mine"},
        "action": "CREATE",
        "password": None,
    }
    assert "not_written" not in result
    assert target.read_text() == f"ünï {TYPES['text']}"
    if isinstance(driver, Alone):
        return

    again = driver.run(
        a_manifest("p2", SHOW.replace("@FILE@", str(target)), **fields, action="UPDATE")
    )

    assert again["deploy_status_code"] == 0
    assert str(target) not in again["deploy_stdout"]
    assert json.loads(again["shown"])["action"] == "UPDATE"

    away = "if $deploy_action == 'DELETE' { file { '@FILE@': ensure => absent } }"
    gone = driver.run(
        a_manifest("p3", away.replace("@FILE@", str(target)), action="DELETE")
    )

    assert gone["deploy_status_code"] == 0
    assert not target.exists()


@pytest.mark.parametrize(
    ("manifest", "code", "says"),
    [
        ("notice('ü')\nfile { '/x':", 1, "Error: Could not parse for environment"),
        ("fail('as ünï asked')", 1, "as ünï asked"),
        ("exec { '/bin/false': }", 4, "'/bin/false' returned 1 instead of one of [0]"),
        (
            "exec { '/bin/true': } -> exec { '/bin/false': }",
            6,
            "'/bin/false' returned 1 instead of one of [0]",
        ),
    ],
)
@pytest.mark.parametrize("driver", ["alone"], indirect=True)
def test_failure_has_the_code_and_words_of_puppet(
    driver: Driver, the_puppet: Puppet, manifest: str, code: int, says: str
) -> None:
    """1: nothing could be applied; 4 and 6: a part failed, without or with changes."""
    done = driver.run(a_manifest("p1", manifest))
    assert done["deploy_status_code"] == code
    assert says in done["deploy_stderr"]
    assert "\x1b" not in done["deploy_stderr"] + done["deploy_stdout"]
    assert the_puppet.arguments[-1] == str(driver.working("puppet") / "p1.pp")


@pytest.mark.parametrize("driver", ["alone"], indirect=True)
def test_last_line_is_the_first_error_and_not_its_consequences(
    driver: Driver, the_puppet: Puppet, tmp_path: Path
) -> None:
    """Lines about resources that were skipped because of it, or failed later, come before."""
    manifest = f"exec {{ '/bin/false': }} -> file {{ '{tmp_path}/never': ensure => file }} exec {{ '/no/such': }}"
    done = driver.run(a_manifest("p1", manifest))
    assert done["deploy_status_code"] == 4
    lines = done["deploy_stderr"].splitlines()
    assert lines[-1].startswith(
        "Error: /Stage[main]/Main/Exec[/bin/false]/returns: change from "
    )
    assert "Skipping because of failed dependencies" in done["deploy_stderr"]
    assert the_puppet.arguments


@pytest.mark.parametrize("driver", ["alone"], indirect=True)
def test_modules_tags_and_hiera_data_reach_puppet(
    driver: Driver, the_puppet: Puppet, tmp_path: Path
) -> None:
    """There may be several folders of modules and several tags, and Hiera finds inputs with their types."""
    for folder, name in (("one", "first"), ("two", "second")):
        manifests = tmp_path / folder / name / "manifests"
        manifests.mkdir(parents=True)
        text = f"class {name} {{ notify {{ '{name} here': }} }}"
        (manifests / "init.pp").write_text(text)
    the_puppet.hiera_yaml.write_text(f"""\
version: 5
defaults: {{datadir: {tmp_path}/hieradata, data_hash: json_data}}
hierarchy: [{{name: deployment, path: "heat_config_%{{facts.deploy_config_name}}.json"}}]
""")
    config = """\
include first
include second
notify { 'untagged': }
notify { 'tagged': message => "${lookup('number') + 1} ${lookup('text')} ${facts['text'] =~ Undef}", tag => 'web' }
"""
    modules = [str(tmp_path / "one"), str(tmp_path / "two")]
    given = {
        "enable_facter": "false",
        "enable_hiera": True,
        "modulepath": modules,
        "tags": ["second", "web"],
    }
    inputs = {"number": 41, "text": "ünï", "deploy_password": "hunter2-hunter2"}

    done = driver.run(
        a_manifest("p1", config, name="my.config", options=given, inputs=inputs)
    )

    assert done["deploy_status_code"] == 0, done
    assert "second here" in done["deploy_stdout"]
    assert "42 ünï true" in done["deploy_stdout"]
    assert "first here" not in done["deploy_stdout"]
    assert "untagged" not in done["deploy_stdout"]
    data = tmp_path / "hieradata" / "heat_config_my.config.json"
    written = json.loads(data.read_text())
    assert {
        name: value
        for name, value in written.items()
        if not name.startswith("deploy_signal")
    } == {
        "number": 41,
        "text": "ünï",
        "deploy_action": "CREATE",
    }
    assert (mode(data), mode(data.parent)) == (0o600, 0o700)
    path = str(driver.working("puppet") / "p1.pp")
    assert the_puppet.arguments == [
        *START,
        "--modulepath",
        ":".join(modules),
        "--tags",
        "second,web",
        path,
    ]
    assert the_puppet.environment["FACTER_deploy_config_name"] == "my.config"
    assert "FACTER_number" not in the_puppet.environment

    gone = driver.run(
        a_manifest(
            "p2",
            "notice(lookup('text'))",
            name="my.config",
            options=given,
            inputs=inputs,
            action="DELETE",
        )
    )
    assert "ünï" in gone["deploy_stdout"]
    assert list(data.parent.iterdir()) == []


def test_hanging_puppet_is_ended(
    driver: Driver, the_puppet: Puppet, tmp_path: Path
) -> None:
    """The result has the output until then; the processes are ended, though Puppet gives them another session."""
    file = tmp_path / "followed"
    file.touch()
    manifest = (
        f"notice('before it hangs')\nexec {{ '/usr/bin/tail -f {file}': timeout => 0 }}"
    )
    done = driver.run(a_manifest("p1", manifest, options={"timeout": 15}))
    assert done["deploy_status_code"] == 124
    assert "timed out after 15 s" in done["deploy_stderr"]
    assert "before it hangs" in done["deploy_stdout"]
    assert no_more(the_puppet.arguments[-1])
    if isinstance(driver, Alone):  # which ends no more than the group of processes
        endings.kill(*naming(str(file)))
    assert no_more(str(file))


def no_more(word: str) -> bool:
    """Return whether soon no process has a word on its command line."""
    end = time.monotonic() + pace.seconds(20)
    while found := naming(word):
        if time.monotonic() > end:
            return False
        psutil.wait_procs(found, timeout=0.1)
    return True


def naming(word: str) -> list[psutil.Process]:
    """Return the processes that have a word on their command line."""
    found = []
    for each in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if word in each.cmdline():
                found.append(each)
    return found


def test_the_command_line_and_the_facts_are_those_of_heat_agents(
    driver: Driver, recorded: Recorded, tmp_path: Path
) -> None:
    """Values are text in the environment, secrets are on no command line, and all files are private."""
    record = recorded(
        "echo done; echo wrong >&2; printf one >$FACTER_heat_outputs_path.first; exit 2"
    )
    inputs = {
        "text": "a\nb",
        "number": 3,
        "list": [1, "b"],
        "nothing": None,
        "password": "hunter2-hunter2",
    }
    done = driver.run(
        a_manifest(
            "p1",
            "# é\n",
            inputs={**inputs, "deploy_password": "hunter3-hunter3"},
            outputs=["first", "second"],
        )
    )
    assert done["deploy_status_code"] == 0
    assert (done["deploy_stdout"], done["deploy_stderr"]) == ("done\n", "wrong\n")
    assert (done["first"], "second" in done) == ("one", False)
    path = driver.working("puppet") / "p1.pp"
    assert record.arguments == [*START, str(path)]
    assert (path.read_text(), mode(path), mode(path.parent)) == ("# é\n", 0o600, 0o700)
    facts = {
        name.removeprefix("FACTER_"): value
        for name, value in record.environment.items()
        if name.startswith("FACTER_") and not name.startswith("FACTER_deploy_signal")
    }
    fqdn = subprocess.run(
        ["hostname", "-f"], capture_output=True, text=True, check=False
    ).stdout.strip()
    assert facts == {
        "text": "a\nb",
        "number": "3",
        "list": '[1,"b"]',
        "password": "hunter2-hunter2",
        "deploy_action": "CREATE",
        "fqdn": fqdn,
        "heat_outputs_path": facts["heat_outputs_path"],
    }
    assert facts["heat_outputs_path"].endswith("/p1")
    assert list(tmp_path.rglob("facts.*")) == []
    logs = tmp_path / "logs"
    names = ["2026-11-20-18-26-35Z-p1-stderr.log", "2026-11-20-18-26-35Z-p1-stdout.log"]
    assert sorted(os.listdir(logs)) == names
    assert (logs / names[0]).read_text() == "wrong\n"
    assert [mode(logs / each) for each in names] == [0o600, 0o600]


@pytest.mark.parametrize(
    ("then", "code"),
    [("exit 0", 0), ("exit 2", 0), ("exit 1", 1), ("exit 4", 4), ("exit 6", 6)],
)
@pytest.mark.parametrize("driver", ["alone"], indirect=True)
def test_changes_without_errors_are_a_success(
    driver: Driver, recorded: Recorded, then: str, code: int
) -> None:
    """The exit codes 0 and 2 are success."""
    recorded(then)
    assert driver.run(a_manifest("p1", "x"))["deploy_status_code"] == code


def test_odd_output_and_a_sudden_end(driver: Driver, recorded: Recorded) -> None:
    """Undecodable bytes are replaced; a signal is 128 plus its number."""
    recorded("printf 'a\\377b'; kill -9 $$")
    done = driver.run(a_manifest("p1", "x"))
    assert (done["deploy_stdout"], done["deploy_status_code"]) == ("a\ufffdb", 137)


def test_minimal_entry_is_applied(
    driver: Driver, recorded: Recorded, tmp_path: Path
) -> None:
    """The name, time of creation, options, inputs and outputs may be missing."""
    recorded("exit 0")
    # the driver adds where the result goes
    wanted = {"id", "group", "config", "inputs"}
    done = driver.run(
        {name: value for name, value in a_manifest("p1", "x").items() if name in wanted}
    )
    assert done["deploy_status_code"] == 0
    assert (tmp_path / "logs" / "p1-stdout.log").exists()


@pytest.mark.parametrize(
    ("hostname", "fqdn"),
    [
        ("[ $1 = -f ] && echo my.own.name", "my.own.name"),
        ("echo half; exit 1", None),
        ("exit 0", None),
        ("sleep 86399", None),
    ],
)
@pytest.mark.parametrize("driver", ["alone"], indirect=True)
def test_the_machines_whole_name_is_a_fact(
    driver: Driver, recorded: Recorded, tmp_path: Path, hostname: str, fqdn: str | None
) -> None:
    """It is the output of `hostname -f`; if that fails or is slow, there is no such fact."""
    found = recorded("exit 0")
    program = tmp_path / "bin" / "hostname"
    program.write_text(f"#!/bin/sh\n{hostname}\n")
    program.chmod(0o755)
    driver.environment["PATH"] = f"{program.parent}:{os.environ['PATH']}"
    done = driver.run(a_manifest("p1", "x", options={"timeout": 60}))
    assert done["deploy_status_code"] == 0
    assert found.environment.get("FACTER_fqdn") == fqdn


def test_an_input_takes_the_place_of_the_machines_whole_name(
    driver: Driver, recorded: Recorded
) -> None:
    """An input may replace the fact, as in heat-agents, but not the path for outputs."""
    found = recorded("exit 0")
    driver.run(
        a_manifest(
            "p1", "x", inputs={"fqdn": "given.name", "heat_outputs_path": "/etc"}
        )
    )
    assert found.environment["FACTER_fqdn"] == "given.name"
    assert found.environment["FACTER_heat_outputs_path"].endswith("/p1")


def test_without_puppet_it_has_failed(driver: Driver, tmp_path: Path) -> None:
    """The message says how to install it, also if the variable names a missing program."""
    (tmp_path / "empty").mkdir()
    driver.environment["PATH"] = str(tmp_path / "empty")
    done = driver.run(a_manifest("p1", "notice('x')"))
    assert done["deploy_status_code"] == 127
    assert f"puppet is not installed; {needs.PUPPET.install}" in done["deploy_stderr"]
    driver.environment["HEAT_PUPPET_CMD"] = "/opt/none/puppet"
    done = driver.run(a_manifest("p2", "notice('x')"))
    assert done["deploy_status_code"] == 127
    assert (
        "/opt/none/puppet ($HEAT_PUPPET_CMD) is not installed" in done["deploy_stderr"]
    )


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (
            {"options": {"enable_hierra": True}},
            "options.enable_hierra: puppet has no such option; did you mean",
        ),
        (
            {"options": {"enable_facter": "maybe"}},
            "options.enable_facter: expected true or false, not 'maybe'",
        ),
        (
            {"options": {"tags": {"a": 1}}},
            "options.tags: expected text, or a list of texts",
        ),
        ({"config": {"a": 1}}, "config: expected the text of a manifest"),
        ({"inputs": {"Name": "x"}}, "inputs: 'Name' cannot be a fact"),
        (
            {"options": {"enable_hiera": True}, "name": "../x"},
            "name: with enable_hiera, the name is part of",
        ),
    ],
)
@pytest.mark.parametrize("driver", ["alone"], indirect=True)
def test_mistake_is_reported_and_nothing_is_run(
    driver: Driver, recorded: Recorded, tmp_path: Path, wrong: dict[str, Any], says: str
) -> None:
    """The message has its path."""
    found = recorded("exit 0")
    driver.environment["HEAT_PUPPET_HIERA_DATADIR"] = str(tmp_path / "hieradata")
    done = driver.run(a_manifest("p1", **{"config": "x", **wrong}))
    assert done["deploy_status_code"] == 125
    assert says in done["deploy_stderr"]
    assert "Traceback" not in done["deploy_stderr"]
    assert not (found.folder / "arguments").exists()


@pytest.mark.parametrize("config", [None, "", " \n"])
def test_an_empty_manifest_is_done(driver: Driver, config: object) -> None:
    """It is a success without puppet, and the result says that nothing was run."""
    driver.environment["HEAT_PUPPET_CMD"] = "/opt/none/puppet"
    done = driver.run(a_manifest("p1", config))
    assert (done["deploy_status_code"], done["deploy_stderr"]) == (
        0,
        "the config is empty: nothing was run\n",
    )


@pytest.mark.parametrize("driver", ["apply"], indirect=True)
def test_inputs_for_hiera_go_with_a_delete(
    driver: Driver, recorded: Recorded, tmp_path: Path
) -> None:
    """They are removed whether the run succeeds, fails or is not needed; those of others stay."""
    recorded("exit 1")
    folder = tmp_path / "hieradata"
    driver.environment["HEAT_PUPPET_HIERA_DATADIR"] = str(folder)
    fields: dict[str, Any] = {
        "inputs": {"password": "hunter2-hunter2"},
        "options": {"use_hiera": True},
    }
    for number, (config, action) in enumerate(
        [("x", "CREATE"), ("x", "DELETE"), ("x", "UPDATE"), ("", "DELETE")]
    ):
        driver.run(
            a_manifest(f"p{number}", config, name="one", action=action, **fields)
        )
        driver.run(a_manifest(f"q{number}", "x", name="two", **fields))
        left = [
            "heat_config_two.json",
            *([] if action == "DELETE" else ["heat_config_one.json"]),
        ]
        assert sorted(os.listdir(folder)) == sorted(left)


@pytest.mark.fault(
    2,
    "a machine whose Puppet or Salt is set to say only what it would change",
    "a deployment that would change something is a failure that says so",
)
@pytest.mark.parametrize("driver", ["apply"], indirect=True)
def test_puppet_configured_for_dry_runs_fails(
    driver: Driver, the_puppet: Puppet, tmp_path: Path
) -> None:
    """A dry run by configuration is a failure, unless nothing is to be changed or the manifest itself requests it."""
    (the_puppet.folder / "etc" / "puppet.conf").write_text("[main]\nnoop = true\n")
    manifest = f"file {{ '{tmp_path}/made': content => 'x' }}"
    done = driver.run(a_manifest("p1", manifest))
    assert done["deploy_status_code"] == 125, done
    assert done["deploy_stderr"].startswith(
        "nothing was applied: Puppet was in a dry run"
    )
    assert not (tmp_path / "made").exists()
    (tmp_path / "made").write_text("x")
    assert driver.run(a_manifest("p2", manifest))["deploy_status_code"] == 0
    own = f"file {{ '{tmp_path}/other': content => 'x', noop => true }}"
    assert driver.run(a_manifest("p3", own))["deploy_status_code"] == 0
