from __future__ import annotations

import contextlib
import json
import os
import shlex
import stat
import subprocess
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest

from driver import Alone, Driver
from heat_config_hooks import options, protocol
from heat_config_hooks.errors import HookError
from heat_config_hooks.tools import puppet
from heat_config_hooks.values import replace
from machine import BIN, deployment
from tools import need, need_root

NOBODY = 65534

START = ["apply", "--color", "false", "--detailed-exitcodes", "--logdest", "console"]


def mode(path: Path) -> int:
    """Return the permissions of a file or folder."""
    return stat.S_IMODE(path.stat().st_mode)


@dataclass(frozen=True)
class Puppet:
    """A puppet that keeps its state to itself and tells how it was called."""

    folder: Path
    command: Path

    @property
    def arguments(self) -> list[str]:
        """The arguments of the last call."""
        return (self.folder / "arguments").read_text().split("\0")[:-1]

    @property
    def environment(self) -> dict[str, str]:
        """The environment of the last call."""
        items = (self.folder / "environment").read_bytes().decode().split("\0")[:-1]
        return dict(each.split("=", 1) for each in items)

    @property
    def hiera_yaml(self) -> Path:
        """Puppet's configuration of Hiera."""
        return self.folder / "etc" / "hiera.yaml"


def recorder(folder: Path, then: str) -> Puppet:
    """Return a program called puppet that says how it was called, and then does something."""
    command = folder / "bin" / "puppet"
    for each in (command.parent, folder / "etc", folder / "var"):
        each.mkdir(exist_ok=True)
    place = shlex.quote(str(folder))
    command.write_text(
        f'#!/bin/sh\nprintf "%s\\0" "$@" >{place}/arguments\n/usr/bin/env -0 >{place}/environment\n{then}\n'
    )
    command.chmod(0o755)
    return Puppet(folder, command)


def real(folder: Path) -> Puppet:
    """Return the real puppet, but for its own folders."""
    program, place = need("puppet", "puppet"), shlex.quote(str(folder))
    own = " ".join(f"--{name} {place}/{where}" for name, where in (("confdir", "etc"), ("vardir", "var")))
    return recorder(folder, f'shift\nexec {program} apply {own} --rundir {place}/var --logdir {place}/var "$@"')


@pytest.fixture
def the_puppet(driver: Driver, tmp_path: Path) -> Puppet:
    """The real puppet, first in the driver's PATH, and nothing that it is given outside the test's folder."""
    found = real(tmp_path)
    driver.environment["PATH"] = f"{found.command.parent}:{os.environ['PATH']}"
    driver.environment["HEAT_PUPPET_LOGDIR"] = str(tmp_path / "logs")
    driver.environment["HEAT_PUPPET_HIERA_DATADIR"] = str(tmp_path / "hieradata")
    return found


Recorded = Callable[[str], Puppet]


@pytest.fixture
def recorded(driver: Driver, tmp_path: Path) -> Recorded:
    """A program in the place of puppet that records how it is called, and then does what it is told to."""

    def make(then: str) -> Puppet:
        found = recorder(tmp_path, then)
        driver.environment["HEAT_PUPPET_CMD"] = str(found.command)
        driver.environment["HEAT_PUPPET_LOGDIR"] = str(tmp_path / "logs")
        return found

    return make


def a_manifest(identity: str, config: object, **fields: Any) -> dict[str, Any]:
    """Return a deployment for puppet."""
    return deployment(identity, config, group="puppet", **fields)


# With the real puppet.

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
def test_a_manifest_is_applied_with_the_inputs_as_facts_of_their_types(driver: Driver, tmp_path: Path) -> None:
    """On CREATE, again with nothing to change on UPDATE, and on DELETE; whatever the locale, and inputs of any size."""
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

    made = driver.run(a_manifest("p1", SHOW.replace("@FILE@", str(target)), **fields))

    assert made["deploy_status_code"] == 0, made
    assert 'Notice: Scope(Class[main]): ünï it\'s "ünï" 🎉' in made["deploy_stdout"]
    assert f"File[{target}]/ensure: defined content" in made["deploy_stdout"]
    assert json.loads(made["shown"]) == {
        "text": TYPES["text"],
        "digits": "007",
        "number": 42,
        "float": 3.0,
        "yes": True,
        "nothing": True,
        "list": [1, "b", {"c": ""}],  # Puppet's own doing: no fact of its has a null inside
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
    assert "not_written" not in made
    assert target.read_text() == f"ünï {TYPES['text']}"

    again = driver.run(a_manifest("p2", SHOW.replace("@FILE@", str(target)), **fields, action="UPDATE"))

    assert again["deploy_status_code"] == 0
    assert str(target) not in again["deploy_stdout"]
    assert json.loads(again["shown"])["action"] == "UPDATE"

    away = "if $deploy_action == 'DELETE' { file { '@FILE@': ensure => absent } }"
    gone = driver.run(a_manifest("p3", away.replace("@FILE@", str(target)), action="DELETE"))

    assert gone["deploy_status_code"] == 0
    assert not target.exists()


@pytest.mark.parametrize(
    ("manifest", "code", "says"),
    [
        ("notice('ü')\nfile { '/x':", 1, "Error: Could not parse for environment"),
        ("fail('as ünï asked')", 1, "as ünï asked"),
        ("exec { '/bin/false': }", 4, "'/bin/false' returned 1 instead of one of [0]"),
        ("exec { '/bin/true': } -> exec { '/bin/false': }", 6, "'/bin/false' returned 1 instead of one of [0]"),
    ],
)
def test_what_fails_has_failed_with_puppets_code_and_words(
    driver: Driver, the_puppet: Puppet, manifest: str, code: int, says: str
) -> None:
    """1: it could not be done at all; 4 and 6: some of it failed, with or without changes."""
    done = driver.run(a_manifest("p1", manifest))
    assert done["deploy_status_code"] == code
    assert says in done["deploy_stderr"]
    assert "\x1b" not in done["deploy_stderr"] + done["deploy_stdout"]
    assert the_puppet.arguments[-1] == str(driver.working("puppet") / "p1.pp")


def test_modules_tags_and_data_for_hiera(driver: Driver, the_puppet: Puppet, tmp_path: Path) -> None:
    """Several folders of modules, several tags; and inputs that are no facts are found by Hiera, with their types."""
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
    given = {"enable_facter": "false", "enable_hiera": True, "modulepath": modules, "tags": ["second", "web"]}
    inputs = {"number": 41, "text": "ünï", "deploy_password": "hunter2-hunter2"}

    done = driver.run(a_manifest("p1", config, name="my.config", options=given, inputs=inputs))

    assert done["deploy_status_code"] == 0, done
    assert "second here" in done["deploy_stdout"]
    assert "42 ünï true" in done["deploy_stdout"]
    assert "first here" not in done["deploy_stdout"]
    assert "untagged" not in done["deploy_stdout"]
    data = tmp_path / "hieradata" / "heat_config_my.config.json"
    written = json.loads(data.read_text())
    assert {name: value for name, value in written.items() if not name.startswith("deploy_signal")} == {
        "number": 41,
        "text": "ünï",
        "deploy_action": "CREATE",
    }
    assert (mode(data), mode(data.parent)) == (0o600, 0o700)
    path = str(driver.working("puppet") / "p1.pp")
    assert the_puppet.arguments == [*START, "--modulepath", ":".join(modules), "--tags", "second,web", path]
    assert the_puppet.environment["FACTER_deploy_config_name"] == "my.config"
    assert "FACTER_number" not in the_puppet.environment

    gone = driver.run(
        a_manifest("p2", "notice(lookup('text'))", name="my.config", options=given, inputs=inputs, action="DELETE")
    )
    assert "ünï" in gone["deploy_stdout"]
    assert list(data.parent.iterdir()) == []


def test_one_that_hangs_is_ended(driver: Driver, the_puppet: Puppet, tmp_path: Path) -> None:
    """With what it had said by then, and what it had started: Puppet gives that a session of its own."""
    file = tmp_path / "followed"
    file.touch()
    manifest = f"notice('before it hangs')\nexec {{ '/usr/bin/tail -f {file}': timeout => 0 }}"
    done = driver.run(a_manifest("p1", manifest, options={"timeout": 15}))
    assert done["deploy_status_code"] == 124
    assert "time limit of 15 s was over" in done["deploy_stderr"]
    assert "before it hangs" in done["deploy_stdout"]
    assert no_more(the_puppet.arguments[-1])
    if isinstance(driver, Alone):  # which ends no more than the group of processes
        for each in naming(str(file)):
            each.kill()
    assert no_more(str(file))


def no_more(word: str) -> bool:
    """Whether soon no process has such a word on its command line."""
    end = time.monotonic() + 20
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


# With a program in puppet's place.


def test_the_command_line_and_the_facts_are_those_of_heat_agents(
    driver: Driver, recorded: Recorded, tmp_path: Path
) -> None:
    """Values are text in the environment, secrets are on no command line, and nothing is for other people's eyes."""
    found = recorded("echo done; echo wrong >&2; printf one >$FACTER_heat_outputs_path.first; exit 2")
    inputs = {"text": "a\nb", "number": 3, "list": [1, "b"], "nothing": None, "password": "hunter2-hunter2"}
    done = driver.run(
        a_manifest("p1", "# é\n", inputs={**inputs, "deploy_password": "hunter3-hunter3"}, outputs=["first", "second"])
    )
    assert done["deploy_status_code"] == 0
    assert (done["deploy_stdout"], done["deploy_stderr"]) == ("done\n", "wrong\n")
    assert (done["first"], "second" in done) == ("one", False)
    path = driver.working("puppet") / "p1.pp"
    assert found.arguments == [*START, str(path)]
    assert (path.read_text(), mode(path), mode(path.parent)) == ("# é\n", 0o600, 0o700)
    facts = {
        name.removeprefix("FACTER_"): value
        for name, value in found.environment.items()
        if name.startswith("FACTER_") and not name.startswith("FACTER_deploy_signal")
    }
    fqdn = subprocess.run(["hostname", "-f"], capture_output=True, text=True, check=False).stdout.strip()
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


@pytest.mark.parametrize(("then", "code"), [("exit 0", 0), ("exit 2", 0), ("exit 1", 1), ("exit 4", 4), ("exit 6", 6)])
def test_only_changes_are_no_failure(driver: Driver, recorded: Recorded, then: str, code: int) -> None:
    """Of the exit codes 0 and 2 are success."""
    recorded(then)
    assert driver.run(a_manifest("p1", "x"))["deploy_status_code"] == code


def test_odd_output_and_a_sudden_end(driver: Driver, recorded: Recorded) -> None:
    """Bytes that are no text are shown as such; a signal is 128 and its number."""
    recorded("printf 'a\\377b'; kill -9 $$")
    done = driver.run(a_manifest("p1", "x"))
    assert (done["deploy_stdout"], done["deploy_status_code"]) == ("a\ufffdb", 137)


def test_an_entry_with_just_what_is_needed(driver: Driver, recorded: Recorded, tmp_path: Path) -> None:
    """No name, time of creation, options, inputs or outputs."""
    recorded("exit 0")
    wanted = {"id", "group", "config", "inputs"}  # the driver adds where the result goes
    done = driver.run({name: value for name, value in a_manifest("p1", "x").items() if name in wanted})
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
def test_the_machines_whole_name_is_a_fact(
    driver: Driver, recorded: Recorded, tmp_path: Path, hostname: str, fqdn: str | None
) -> None:
    """As `hostname -f` says it; one that cannot say it, or not soon, holds nothing up."""
    found = recorded("exit 0")
    program = tmp_path / "bin" / "hostname"
    program.write_text(f"#!/bin/sh\n{hostname}\n")
    program.chmod(0o755)
    driver.environment["PATH"] = f"{program.parent}:{os.environ['PATH']}"
    done = driver.run(a_manifest("p1", "x", options={"timeout": 60}))
    assert done["deploy_status_code"] == 0
    assert found.environment.get("FACTER_fqdn") == fqdn


def test_an_input_takes_the_place_of_the_machines_whole_name(driver: Driver, recorded: Recorded) -> None:
    """As with heat-agents; and no input that of the path for outputs."""
    found = recorded("exit 0")
    driver.run(a_manifest("p1", "x", inputs={"fqdn": "given.name", "heat_outputs_path": "/etc"}))
    assert found.environment["FACTER_fqdn"] == "given.name"
    assert found.environment["FACTER_heat_outputs_path"].endswith("/p1")


def test_without_puppet_it_has_failed(driver: Driver, tmp_path: Path) -> None:
    """With how to get it; also where a variable names something that is not there."""
    (tmp_path / "empty").mkdir()
    driver.environment["PATH"] = str(tmp_path / "empty")
    done = driver.run(a_manifest("p1", "notice('x')"))
    assert done["deploy_status_code"] == 127
    assert "puppet is not installed; install it with «apt install puppet»" in done["deploy_stderr"]
    driver.environment["HEAT_PUPPET_CMD"] = "/opt/none/puppet"
    done = driver.run(a_manifest("p2", "notice('x')"))
    assert done["deploy_status_code"] == 127
    assert "/opt/none/puppet ($HEAT_PUPPET_CMD) is not installed" in done["deploy_stderr"]


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"options": {"enable_hierra": True}}, "options.enable_hierra: puppet has no such option; did you mean"),
        ({"options": {"enable_facter": "maybe"}}, "options.enable_facter: expected true or false, not 'maybe'"),
        ({"options": {"tags": {"a": 1}}}, "options.tags: expected text, or a list of texts"),
        ({"config": {"a": 1}}, "config: the puppet tool takes the text of a manifest"),
        ({"inputs": {"Name": "x"}}, "inputs: 'Name' cannot be a fact"),
        ({"options": {"enable_hiera": True}, "name": "../x"}, "name: with enable_hiera the name is part of"),
    ],
)
def test_a_mistake_is_said_and_nothing_is_run(
    driver: Driver, recorded: Recorded, tmp_path: Path, wrong: dict[str, Any], says: str
) -> None:
    """In one sentence, with its place in the deployment."""
    found = recorded("exit 0")
    driver.environment["HEAT_PUPPET_HIERA_DATADIR"] = str(tmp_path / "hieradata")
    done = driver.run(a_manifest("p1", **{"config": "x", **wrong}))
    assert done["deploy_status_code"] == 125
    assert says in done["deploy_stderr"]
    assert "Traceback" not in done["deploy_stderr"]
    assert not (found.folder / "arguments").exists()


@pytest.mark.parametrize("config", [None, "", " \n"])
def test_an_empty_manifest_is_done(driver: Driver, config: object) -> None:
    """Without puppet, and with a word about it."""
    driver.environment["HEAT_PUPPET_CMD"] = "/opt/none/puppet"
    done = driver.run(a_manifest("p1", config))
    assert (done["deploy_status_code"], done["deploy_stderr"]) == (0, "the config is empty: nothing was run\n")


def test_inputs_for_hiera_go_with_a_delete(driver: Driver, recorded: Recorded, tmp_path: Path) -> None:
    """Whatever comes of it, and if nothing is run; others stay."""
    recorded("exit 1")
    folder = tmp_path / "hieradata"
    driver.environment["HEAT_PUPPET_HIERA_DATADIR"] = str(folder)
    fields: dict[str, Any] = {"inputs": {"password": "hunter2-hunter2"}, "options": {"use_hiera": True}}
    for number, (config, action) in enumerate([("x", "CREATE"), ("x", "DELETE"), ("x", "UPDATE"), ("", "DELETE")]):
        driver.run(a_manifest(f"p{number}", config, name="one", action=action, **fields))
        driver.run(a_manifest(f"q{number}", "x", name="two", **fields))
        left = ["heat_config_two.json", *([] if action == "DELETE" else ["heat_config_one.json"])]
        assert sorted(os.listdir(folder)) == sorted(left)


# The hook alone.


@pytest.fixture
def place(tmp_path: Path) -> protocol.Workplace:
    """A workplace whose puppet is the real one, with folders of its own."""
    (tmp_path / "run").mkdir()
    environment = {
        "PATH": os.environ["PATH"],
        "LANG": "C.UTF-8",
        "HEAT_PUPPET_CMD": str(real(tmp_path).command),
        "HEAT_PUPPET_HIERA_DATADIR": str(tmp_path / "hieradata"),
    }
    return protocol.workplace("puppet", tmp_path / "run", tmp_path, environment)


def asked(config: str = "x", *, given: dict[str, object] | None = None, **fields: Any) -> protocol.Request:
    """Return what the hook is asked to do."""
    document = a_manifest("p1", config, **fields)
    return protocol.request(document, key="p1", options=options.read(given or {}, puppet.ABOUT.options))


def prepared(place: protocol.Workplace, *, given: dict[str, object] | None = None, **fields: Any) -> protocol.Command:
    """Return the command for a request that needs one."""
    command = puppet.prepare(asked(given=given, **fields), place)
    assert isinstance(command, protocol.Command)
    return command


@pytest.mark.parametrize("writable", [True, False])
def test_puppets_own_logs_are_where_heat_agents_has_them(
    place: protocol.Workplace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, writable: bool
) -> None:
    """In /var/log/puppet, or else in the folder of the other logs; an old one that all could read is mended."""
    logs = tmp_path / "var-log-puppet"
    monkeypatch.setattr(puppet, "LOGS", logs)
    if writable:
        logs.mkdir()
        (logs / "heat-debug.log").write_text("before\n")
        (logs / "heat-debug.log").chmod(0o644)
    else:
        logs.touch()
        logs = tmp_path / "run" / "deployed"
    command = prepared(place, config="notice('x')", given={"enable_debug": True, "enable_verbose": True})
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
    place: protocol.Workplace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, elsewhere: bool
) -> None:
    """Outputs that are elsewhere do not take them along."""
    usual = protocol.workplace("puppet", place.run, None, {})
    assert usual.outputs.parent / "deployed" == puppet.LOGDIR == Path("/var/run/heat-config/deployed")
    monkeypatch.setattr(puppet, "LOGDIR", tmp_path / "var" / "deployed")
    logs = place.outputs.parent / "deployed"
    if elsewhere:
        outputs = {"HEAT_PUPPET_OUTPUTS": str(tmp_path / "outputs" / "heat-config-puppet")}
        place = protocol.workplace("puppet", place.run, tmp_path, {**place.environment, **outputs})
        logs = tmp_path / "var" / "deployed"
    place.run.joinpath("stdout").write_text("out")
    ended = protocol.Ended(code=2, stdout=place.run / "stdout", stderr=place.run / "missing")
    reply = puppet.finish(asked(creation_time="../../2015-07-16T11:40:20"), place, ended)
    assert reply["deploy_status_code"] == 0  # a log that cannot be written is no failure
    assert (logs / "..-..-2015-07-16-11-40-20-p1-stdout.log").read_text() == "out"
    assert not (tmp_path / "outputs").exists()


@pytest.mark.parametrize("home", ["", "/", "/proc/nowhere", "@"])
def test_who_has_no_home_has_one_in_the_working_folder(home: str) -> None:
    """Else Puppet could not keep its state; what it runs does not see it. Whoever has a home keeps it."""
    need_root()
    program, setpriv = need("puppet", "puppet"), need("setpriv", "util-linux")
    nobody = [setpriv, "--reuid", str(NOBODY), "--regid", str(NOBODY), "--clear-groups"]
    hook = [*nobody, str(BIN / "heat-config-hook"), "puppet"]
    if subprocess.run([*nobody, "test", "-r", puppet.__file__], check=False).returncode:
        pytest.skip("other users cannot read the installed hooks: run make test in a folder that all can read")
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
        done = subprocess.run(hook, input=given, cwd=name, env=environment, capture_output=True, text=True, check=False)
        reply = json.loads(done.stdout)
        assert reply["deploy_status_code"] == 0, reply
        assert f": {name}/outputs/p1\n" in reply["deploy_stdout"]
        assert "HOME=" not in reply["deploy_stdout"]
        found = [each.parent for each in Path(name).rglob(".puppet*")]
        assert found == [Path(name) if home == "@" else Path(name) / "working" / "home"]


def test_root_needs_no_home(place: protocol.Workplace) -> None:
    """It has the system's folders."""
    need_root()
    assert "HOME" not in prepared(place).environment


def test_inputs_that_no_variable_can_hold_are_facts_all_the_same(place: protocol.Workplace) -> None:
    """A variable with its name is never longer than Linux takes; half of a character is replaced."""
    longest = protocol.MAX_VARIABLE - len("FACTER_fits=")
    inputs = {"fits": "x" * longest, "long": "x" * (longest + 1), "a b": 1, "n": None, "half": "\ud800"}
    command = prepared(place, inputs=inputs)
    assert {"FACTER_fits", "FACTER_half"} <= set(command.environment)
    assert not {"FACTER_long", "FACTER_a b", "FACTER_n"} & set(command.environment)
    facts = json.loads((place.run / "facts.json").read_text())
    assert facts == {**{name: inputs[name] for name in ("fits", "long", "a b")}, "half": "?", "deploy_action": "CREATE"}
    assert mode(place.run / "facts.json") == 0o600
    subprocess.run(["/bin/true"], env=dict(command.environment), check=True)


def test_credentials_are_facts_only_where_they_are_asked_for(place: protocol.Workplace) -> None:
    """With the option that every hook has."""
    inputs = {"deploy_password": "hunter2-hunter2"}
    assert "FACTER_deploy_password" not in prepared(place, inputs=inputs).environment
    assert "hunter2" not in (place.run / "facts.json").read_text()
    given = prepared(place, given={"deploy_credentials": True}, inputs=inputs)
    assert given.environment["FACTER_deploy_password"] == "hunter2-hunter2"


@pytest.mark.parametrize("option", ["enable_hiera", "use_hiera"])
def test_facts_that_are_ours_are_not_given_by_inputs(place: protocol.Workplace, option: str) -> None:
    """However they are written: Facter knows no capitals."""
    inputs = {"HEAT_outputs_path": "/etc", "deploy_config_name": "x"}
    command = prepared(place, given={option: True}, inputs=inputs, name="web")
    assert command.environment["FACTER_heat_outputs_path"] == str(place.outputs / "p1")
    assert command.environment["FACTER_deploy_config_name"] == "web"
    assert json.loads((place.run / "facts.json").read_text()) == {"deploy_action": "CREATE"}


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
    """Else facts with others than ASCII are lost; one that does is left as it is."""
    environment = {**{name: value for name, value in place.environment.items() if name != "LANG"}, **given}
    command = prepared(replace(place, environment=environment))
    assert command.environment.get("LC_ALL") == added


def test_other_folders_with_facts_stay(place: protocol.Workplace) -> None:
    """Those that the machine's environment names."""
    environment = {**place.environment, "FACTERLIB": "/srv/facts"}
    command = prepared(replace(place, environment=environment))
    assert command.environment["FACTERLIB"] == f"{place.run}:/srv/facts"


@pytest.mark.parametrize("name", ["name", "TITLE", "0", "12", "facts", "server_facts", "module_name"])
def test_names_of_puppets_own_variables_are_no_facts(place: protocol.Workplace, name: str) -> None:
    """Puppet would end at once; without facts they are inputs like any other."""
    with pytest.raises(HookError, match="cannot be a fact") as caught:
        prepared(place, inputs={name: "x"})
    assert caught.value.path == "inputs"
    prepared(place, given={"enable_facter": False}, inputs={name: "x"})
