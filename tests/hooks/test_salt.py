from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import psutil
import pytest
import yaml

from driver import Driver
from heat_config_hooks import protocol
from heat_config_hooks.errors import HookError
from heat_config_hooks.tools import salt as salt_hook
from machine import deployment
from tools import need_salt

INPUTS: dict[str, Any] = {
    "text": "{{ 1 + 1 }} ü 😀 \"double\" 'single' %s\nsecond line",
    "number": 3,
    "float": 2.5,
    "yes": True,
    "nothing": None,
    "list": [1, "two", None],
    "map": {"key": {"inner": [True]}},
    "pkg-redhat": "httpd",
}


@pytest.fixture(autouse=True)
def salt(driver: Driver, tmp_path: Path) -> None:
    """Have the real salt-call on the PATH, and no minion configuration but what the test writes."""
    driver.environment["PATH"] = f"{need_salt()}:{os.environ['PATH']}"
    driver.environment["HEAT_SALT_MINION_CONFIG"] = str(tmp_path / "etc/minion")


def state_file(identity: str, config: object, **fields: Any) -> dict[str, Any]:
    """Return a deployment of the tool."""
    return deployment(identity, config, group="salt", **fields)


def states(values: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Return what salt returned for each state, by the state's id."""
    returned = yaml.safe_load(values["deploy_stdout"])
    assert isinstance(returned, dict)
    return {each["__id__"]: each for each in returned.values()}


def ended(pid: int) -> bool:
    """Return whether a process ends within some seconds."""
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        try:
            if psutil.Process(pid).status() == psutil.STATUS_ZOMBIE:
                return True
        except psutil.NoSuchProcess:
            return True
        time.sleep(0.05)
    return False


def test_states_are_applied_at_every_action_with_the_inputs_as_pillar(driver: Driver, tmp_path: Path) -> None:
    """Values arrive as they are, whatever their type; a second run changes nothing; a DELETE can undo what was done."""
    config = f"""
inputs:
  file.managed:
    - name: {tmp_path}/inputs.json
    - contents: {{{{ pillar['heat_inputs'] | json | json }}}}
single:
  file.managed:
    - name: {tmp_path}/single
    - contents_pillar: text
gone:
  file.{{{{ 'absent' if pillar.deploy_action == 'DELETE' else 'managed' }}}}:
    - name: {tmp_path}/kept
    - contents: {{{{ pillar['map']['key']['inner'][0] }}}} {{{{ pillar.number + 1 }}}}
"""

    for number, action in enumerate(("CREATE", "UPDATE", "DELETE")):
        values = driver.run(state_file(f"0{number}23", config, inputs=INPUTS, action=action))

        assert (values["deploy_status_code"], values["deploy_stderr"]) == (0, "")
        assert {each["result"] for each in states(values).values()} == {True}
        given = json.loads((tmp_path / "inputs.json").read_text())
        assert given.items() >= {**INPUTS, "deploy_action": action}.items()
        assert Path(given["heat_outputs_path"]).name == f"0{number}23"
        changed = [name for name, each in states(values).items() if each["changes"]]
        assert (
            sorted(changed)
            == {
                "CREATE": ["gone", "inputs", "single"],
                "UPDATE": ["inputs"],
                "DELETE": ["gone", "inputs"],
            }[action]
        )
    assert (tmp_path / "single").read_text() == INPUTS["text"] + "\n"
    assert not (tmp_path / "kept").exists()
    assert (driver.working("salt") / "0123.sls").read_text() == config


@pytest.mark.parametrize("driver", ["alone"], indirect=True)
def test_a_second_deployment_of_the_same_config_changes_nothing(driver: Driver, tmp_path: Path) -> None:
    """Salt finds all as it should be."""
    config = {"kept": {"file.managed": [{"name": f"{tmp_path}/kept"}, {"contents": '{{ pillar["who"] }} it\'s'}]}}

    first = driver.run(state_file("d1", config, inputs={"who": "Ann's: #1"}))
    second = driver.run(state_file("d2", config, inputs={"who": "Ann's: #1"}, action="UPDATE"))

    assert (first["deploy_status_code"], second["deploy_status_code"]) == (0, 0)
    assert (states(first)["kept"]["changes"], states(second)["kept"]["changes"]) == ({"diff": "New file"}, {})
    assert (tmp_path / "kept").read_text() == "Ann's: #1 it's\n"


def test_outputs_are_files_and_what_salt_returned(driver: Driver) -> None:
    """States write to `heat_outputs_path`; `return` and `retcode` are there as in heat-agents, where declared."""
    config = """
written:
  cmd.run:
    - name: printf 'from a\\ncommand' >$heat_outputs_path.command
managed:
  file.managed:
    - name: {{ pillar.heat_outputs_path }}.file
    - contents: from a state
"""
    outputs = ["command", "file", "return", "retcode", "never"]

    values = driver.run(state_file("d1", config, outputs=outputs))

    assert values["deploy_status_code"] == 0, values
    assert (values["command"], values["file"]) == ("from a\ncommand", "from a state\n")
    assert values["return"] == yaml.safe_load(values["deploy_stdout"])
    assert values["retcode"] == 0
    assert values.keys() == {"deploy_stdout", "deploy_stderr", "deploy_status_code", *outputs} - {"never"}
    assert "return" not in driver.run(state_file("d2", config))


def test_a_state_that_fails_fails_the_deployment(driver: Driver, tmp_path: Path) -> None:
    """All states are in the output; why some failed is said in words, the cause last; outputs arrive all the same."""
    config = f"""
fine:
  cmd.run:
    - name: printf here >$heat_outputs_path.said
bad:
  cmd.run:
    - name: echo no such thing >&2; printf '\\377' ; exit 3
relative:
  file.managed:
    - name: relative
after:
  file.managed:
    - name: {tmp_path}/after
    - require:
      - cmd: bad
"""

    values = driver.run(state_file("d1", config, outputs=["said"]))

    assert values["deploy_status_code"] == 2
    assert {name: each["result"] for name, each in states(values).items()} == {
        "fine": True,
        "bad": False,
        "relative": False,
        "after": False,
    }
    assert not (tmp_path / "after").exists()
    lines = values["deploy_stderr"].splitlines()
    assert lines[0] == "file.managed after: One or more requisite failed: d1.bad"
    assert lines[1].startswith("cmd.run bad: Command ")
    assert lines[-2] == "no such thing"
    assert lines[-1].startswith("file.managed relative: Specified file relative is not an absolute path")
    assert values["said"] == "here"


def test_more_than_can_be_sent_is_cut(driver: Driver) -> None:
    """A return of several megabytes is given as salt wrote it, its beginning and its end."""
    config = "big:\n  cmd.run:\n    - name: head -c 5000000 /dev/zero | tr '\\0' x\n"

    values = driver.run(state_file("d1", config))

    assert (values["deploy_status_code"], values["deploy_stderr"]) == (0, "")
    assert values["deploy_stdout"].startswith('{\n    "local": {')
    assert "bytes left out" in values["deploy_stdout"]


@pytest.mark.parametrize(
    ("config", "sentence"),
    [
        ("a:\n  test.nop:\n    - name: {{ pillar['missing'] }}\n", "has no attribute 'missing'"),
        ("a:\n  nosuch.thing: []\n", "State 'nosuch.thing' was not found in SLS"),
        ("- no map\n", "does not render to a dictionary"),
        ("a: [\n", "Rendering SLS"),
    ],
)
@pytest.mark.parametrize("driver", ["alone"], indirect=True)
def test_what_cannot_be_rendered_is_said(driver: Driver, config: str, sentence: str) -> None:
    """Salt returns a list of errors then, no states: it is a failure, and its text is the reason."""
    values = driver.run(state_file("d1", config))

    assert values["deploy_status_code"] in (1, 2)
    assert sentence in values["deploy_stderr"]
    assert "Traceback" not in values["deploy_stderr"]


def test_an_input_is_never_an_option_of_salt(driver: Driver, tmp_path: Path) -> None:
    """Inputs may have the names of minion options; a template that looks into `opts`, as heat-agents had it, sees them.

    A command that fails in a template, while all states are fine, is no failure of the deployment, as with heat-agents.
    """
    inputs = {
        "cachedir": "/nonexistent",
        "file_client": "remote",
        "test": True,
        "user": "nobody",
        "file_roots": {"base": ["/nonexistent"]},
        "id": "7",
        "renderer": "py",
    }
    config = f"""#!jinja|yaml
{{% do salt['cmd.retcode']('false') %}}
seen:
  file.managed:
    - name: {tmp_path}/seen
    - contents: {{{{ opts['cachedir'] }}}} {{{{ opts['test'] }}}} {{{{ opts['user'] }}}} {{{{ opts['state_verbose'] }}}}
real:
  file.managed:
    - name: {tmp_path}/real
    - contents: {{{{ salt['config.option']('cachedir', omit_all=True) }}}} {{{{ grains['id'] }}}}
"""

    values = driver.run(state_file("d1", config, inputs=inputs))

    assert values["deploy_status_code"] == 0, values
    assert (tmp_path / "seen").read_text() == "/nonexistent True nobody True\n"
    assert "nonexistent" not in (tmp_path / "real").read_text()
    assert (tmp_path / "real").read_text().split()[-1] == os.uname().nodename


def test_the_configuration_of_the_machine_holds(driver: Driver, tmp_path: Path) -> None:
    """Its grains, modules and pillar are there; that it has a master, another user or a log of its own is no matter."""
    folder = tmp_path / "etc"
    for path, text in {
        "minion": f"""
            file_client: remote
            master: salt.invalid
            use_master_when_local: true
            user: nobody
            saltenv: prod
            log_file: {tmp_path}/salt.log
            log_level: debug
            cachedir: {tmp_path}/machine-cache
            grains: {{role: web}}
            pillar_roots: {{base: ['{folder}/pillar']}}
            include: more.conf
        """,
        "more.conf": f"module_dirs: ['{folder}/modules']\n",
        "minion.d/last.conf": "id: that-one\ngrains: {last: fragment}\n",
        "pillar/top.sls": "base: {'*': [ours]}\n",
        "pillar/ours.sls": "who: the machine\nwhat: pillar of the machine\n",
        "modules/ours.py": "def answer():\n    return 42\n",
    }.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
    config = f"""
seen:
  file.managed:
    - name: {tmp_path}/seen
    - contents:
{{%- for value in (grains.role, grains.last, grains.id, pillar.what, pillar.who, salt['ours.answer']()) %}}
      - {{{{ value }}}}
{{%- endfor %}}
      - {{{{ salt['config.option']('hash_type') }}}}
"""

    values = driver.run(
        state_file("d1", config, inputs={"who": "the input"}, options={"minion": {"hash_type": "sha512"}})
    )

    assert values["deploy_status_code"] == 0, values
    assert (tmp_path / "seen").read_text().splitlines() == [
        *("web", "fragment", "that-one", "pillar of the machine", "the input", "42", "sha512")
    ]
    assert not (tmp_path / "salt.log").exists()
    assert not (tmp_path / "machine-cache").exists()

    (folder / "minion.d/last.conf").write_text("id: [\n")
    broken = driver.run(state_file("d2", config))

    assert broken["deploy_status_code"] == 125
    assert f"the minion configuration {folder}/minion.d/last.conf is no YAML" in broken["deploy_stderr"]


@pytest.mark.parametrize("driver", ["alone"], indirect=True)
def test_other_files_in_the_folder_can_be_used(driver: Driver, tmp_path: Path) -> None:
    """State files can be included, and files be copied, from beside the config; any renderer of salt's will do."""
    working = driver.working("salt")
    working.mkdir(parents=True)
    (working / "base.sls").write_text(f"{tmp_path}/copied:\n  file.managed:\n    - source: salt://source\n")
    (working / "source").write_text("the source\n")
    config = f"""#!py
# In Python, {{{{ opts }}}} is nothing special.
def run():
    return {{
        "include": ["base"],
        "own": {{"file.managed": [{{"name": "{tmp_path}/own"}}, {{"contents": __pillar__["text"]}}]}},
    }}
"""

    values = driver.run(state_file("d1", config, inputs=INPUTS))

    assert values["deploy_status_code"] == 0, values
    assert (tmp_path / "copied").read_text() == "the source\n"
    assert (tmp_path / "own").read_text() == f"{INPUTS['text']}\n"


def test_grains_are_those_of_the_machine_and_stay(driver: Driver, tmp_path: Path) -> None:
    """They are beside its minion configuration; those that cannot be kept there are no success."""
    config = f"""
new:
  grains.present:
    - value: 5
seen:
  file.managed:
    - name: {tmp_path}/seen
    - contents: {{{{ grains.get('role') }}}} {{{{ grains.get('new') }}}}
"""
    lost = driver.run(state_file("d0", config))

    assert lost["deploy_status_code"] == 1
    assert lost["deploy_stderr"] == f"grains were not kept: {tmp_path}/etc/grains cannot be written\n"
    assert (tmp_path / "seen").read_text() == "None None\n"

    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/grains").write_text("role: web\n")
    first = driver.run(state_file("d1", config))

    assert (first["deploy_status_code"], first["deploy_stderr"]) == (0, "")
    assert (tmp_path / "seen").read_text() == "web None\n"
    assert yaml.safe_load((tmp_path / "etc/grains").read_text()) == {"role": "web", "new": 5}

    second = driver.run(state_file("d2", config, action="UPDATE"))

    assert (tmp_path / "seen").read_text() == "web 5\n"
    assert states(second)["new"]["changes"] == {}
    assert os.listdir(tmp_path / "etc") == ["grains"]


@pytest.mark.parametrize("driver", ["alone"], indirect=True)
def test_backups_of_files_stay(driver: Driver, tmp_path: Path) -> None:
    """What `backup: minion` keeps of a file can be found by later runs, and be restored."""
    (tmp_path / "file").write_text("before\n")
    managed = f"{tmp_path}/file:\n  file.managed:\n    - contents: after\n    - backup: minion\n"
    config = f"""
{tmp_path}/backups:
  file.managed:
    - contents: {{{{ salt['file.list_backups']('{tmp_path}/file') | length }}}}
"""

    values = driver.run(state_file("d1", managed))
    listed = driver.run(state_file("d2", config, action="UPDATE"))

    assert (values["deploy_status_code"], listed["deploy_status_code"]) == (0, 0)
    assert (tmp_path / "file").read_text() == "after\n"
    folder = driver.working("salt") / "file_backup"
    assert [each.read_text() for each in folder.rglob("file_*")] == ["before\n"]
    assert folder.stat().st_mode & 0o777 == 0o700
    assert (tmp_path / "backups").read_text() == "1\n"


def test_a_user_without_a_name_is_a_mistake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Salt itself does not start then, with no more than a traceback."""
    monkeypatch.setattr(os, "geteuid", lambda: 2**31 - 7)
    request = protocol.Request(
        id="d1", key="d1", name="", action="", config="a: []", inputs={}, outputs=(), options={"minion": {}}
    )
    place = protocol.Workplace(
        run=tmp_path, working=tmp_path, outputs=tmp_path, environment={"PATH": f"{need_salt()}:{os.environ['PATH']}"}
    )

    with pytest.raises(HookError, match="needs a name for the user 2147483641 that it runs as: add one to /etc/passwd"):
        salt_hook.prepare(request, place)


@pytest.mark.parametrize("driver", ["alone"], indirect=True)
def test_a_dry_run_changes_nothing(driver: Driver, tmp_path: Path) -> None:
    """Salt says what it would change, where the option `test` or the machine wants no more.

    A config may have no state for an action, too.
    """
    config = f"""
{{% if pillar.deploy_action == 'CREATE' %}}
{tmp_path}/file:
  file.managed: []
{{% endif %}}
"""

    values = driver.run(state_file("d1", config, options={"test": "true"}))
    nothing = driver.run(state_file("d2", config, action="UPDATE"))
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/minion").write_text("test: true\n")
    by_machine = driver.run(state_file("d3", config))

    assert (values["deploy_status_code"], values["deploy_stderr"]) == (0, "")
    assert [each["result"] for each in (*states(values).values(), *states(by_machine).values())] == [None, None]
    assert not (tmp_path / "file").exists()
    assert nothing == {
        "deploy_stdout": "{}\n",
        "deploy_stderr": "the config has no states for this action: nothing was run\n",
        "deploy_status_code": 0,
    }


def test_secrets_are_on_no_command_line_and_do_not_stay(driver: Driver, tmp_path: Path) -> None:
    """Who lists processes sees no input, nobody else can read the files, and after the run they are gone.

    What salt is doing can be followed all the while, and is no part of the result.
    """
    config = f"""
look:
  cmd.run:
    - name: |
        tr '\\0' ' ' </proc/$PPID/cmdline >{tmp_path}/argv
        run=$(sed 's/.*--config-dir=//; s/ .*//' {tmp_path}/argv)
        cp "$run/stderr" {tmp_path}/so-far
        stat -c %a "$run" "$run/pillar.json" "$run/minion" "$run/own.conf" >{tmp_path}/modes
        grep -c "$(cat {tmp_path}/pattern)" "$run/pillar.json" >{tmp_path}/there
"""
    (tmp_path / "pattern").write_text("hunter-2-secret")
    inputs = {"password": "hunter-2-secret", "deploy_password": "of heat"}

    values = driver.run(state_file("d1", config, inputs=inputs))

    assert values["deploy_status_code"] == 0, values
    argv = (tmp_path / "argv").read_text()
    assert "salt-call" in argv
    assert "hunter-2-secret" not in argv
    assert (tmp_path / "modes").read_text().split() == ["700", "600", "600", "600"]
    assert (tmp_path / "there").read_text() == "1\n"
    assert "Running state [" in (tmp_path / "so-far").read_text()
    assert values["deploy_stderr"] == ""
    run = next(line.removeprefix("--config-dir=") for line in argv.split() if line.startswith("--config-dir="))
    left = [each.name for each in Path(run).rglob("*")]
    assert not [each for each in left if each not in {"stdout", "stderr", "supervisor"} and "status." not in each]
    for path in driver.working("salt").glob("*.*"):
        assert "hunter-2-secret" not in path.read_text()
        assert path.stat().st_mode & 0o777 == 0o600


def test_a_state_that_hangs_is_ended(driver: Driver, tmp_path: Path) -> None:
    """The time limit ends salt and what it has started; what it was doing is said."""
    config = f"hang:\n  cmd.run:\n    - name: echo $$ >{tmp_path}/pid; sleep 1000; true\n"

    values = driver.run(state_file("d1", config, options={"timeout": 8}), seconds=60)

    assert values["deploy_status_code"] == 124
    assert "Executing state cmd.run for [echo" in values["deploy_stderr"]
    assert ended(int((tmp_path / "pid").read_text()))


def test_salt_that_dies_is_a_failure(driver: Driver) -> None:
    """It said nothing of what it did, so nobody claims a success."""
    values = driver.run(state_file("d1", "a:\n  cmd.run:\n    - name: kill -9 $PPID\n"))

    assert values["deploy_status_code"] == 128 + 9
    assert values["deploy_stderr"].startswith("salt-call ended without saying what it did\n")


def test_without_salt_nothing_is_claimed(driver: Driver, tmp_path: Path) -> None:
    """What is missing is said, and how to get it."""
    if Path("/opt/saltstack/salt/salt-call").exists():
        pytest.skip("this machine has salt in its own place: /opt/saltstack")
    (tmp_path / "empty").mkdir()
    driver.environment["PATH"] = str(tmp_path / "empty")

    values = driver.run(state_file("d1", "a:\n  test.nop: []\n"))

    assert values["deploy_status_code"] == 127
    assert "salt-call is not installed; install the package salt-minion" in values["deploy_stderr"]


@pytest.mark.parametrize("config", ["", " \n", None, {}])
def test_an_empty_config_is_no_failure(driver: Driver, config: object) -> None:
    """There is nothing to do, and nothing is done."""
    values = driver.run(state_file("d1", config))

    assert values == {
        "deploy_stdout": "",
        "deploy_stderr": "the config is empty: nothing was run\n",
        "deploy_status_code": 0,
    }


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"options": {"tset": True}}, "options.tset: salt has no such option; did you mean test?"),
        ({"options": {"test": "perhaps"}}, "options.test: expected true or false, not 'perhaps'"),
        ({"options": {"minion": "a"}}, "options.minion: expected an object, not 'a'"),
        ({"config": 5}, "config: the salt tool takes text or a map of states"),
    ],
)
def test_mistakes_are_named(driver: Driver, fields: dict[str, Any], sentence: str) -> None:
    """Nothing is run, and a sentence says what is wrong, and where."""
    values = driver.run({**state_file("d1", "a:\n  test.nop: []\n"), **fields})

    assert values["deploy_status_code"] == 125
    assert sentence in values["deploy_stderr"]


@pytest.mark.parametrize("driver", ["alone"], indirect=True)
def test_the_variable_of_heat_agents_names_the_configuration_of_the_machine(driver: Driver, tmp_path: Path) -> None:
    """`SALT_MINION_CONFIG` does, where it reaches the hook: from the agent only `HEAT_*` does."""
    del driver.environment["HEAT_SALT_MINION_CONFIG"]
    driver.environment["SALT_MINION_CONFIG"] = str(tmp_path / "the-minion")
    (tmp_path / "the-minion").write_text("grains: {role: named}\n")

    values = driver.run(state_file("d1", f"{tmp_path}/f:\n  file.managed:\n    - contents: {{{{ grains.role }}}}\n"))

    assert values["deploy_status_code"] == 0
    assert (tmp_path / "f").read_text() == "named\n"
