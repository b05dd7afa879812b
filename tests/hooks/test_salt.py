from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
import yaml

from heat_config_hooks import protocol
from heat_config_hooks.errors import HookError
from heat_config_hooks.tools import salt as salt_hook
from support.driver import Driver
from support.machine import deployment
from support.observations import ended
from support.tools import need_salt

pytestmark = [pytest.mark.slow, pytest.mark.takes(60)]

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
    """Install the real salt-call in the PATH, with a minion configuration of the test alone."""
    driver.environment["PATH"] = f"{need_salt()}:{os.environ['PATH']}"
    driver.environment["HEAT_SALT_MINION_CONFIG"] = str(tmp_path / "etc/minion")


def state_file(identity: str, config: object, **fields: Any) -> dict[str, Any]:
    """Return a deployment of the tool."""
    return deployment(identity, config, group="salt", **fields)


def states(values: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the return of salt for each state, by the id of the state."""
    returned = yaml.safe_load(values["deploy_stdout"])
    assert isinstance(returned, dict)
    return {each["__id__"]: each for each in returned.values()}


@pytest.mark.parametrize("driver", ["apply"], indirect=True)
def test_states_are_applied_at_every_action_with_the_inputs_as_pillar(
    driver: Driver, tmp_path: Path
) -> None:
    """Values keep their types; a second run changes nothing; a DELETE can undo the changes."""
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
        values = driver.run(
            state_file(f"0{number}23", config, inputs=INPUTS, action=action)
        )

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
def test_a_second_deployment_of_the_same_config_changes_nothing(
    driver: Driver, tmp_path: Path
) -> None:
    """Salt reports no changes."""
    config = {
        "kept": {
            "file.managed": [
                {"name": f"{tmp_path}/kept"},
                {"contents": '{{ pillar["who"] }} it\'s'},
            ]
        }
    }

    first = driver.run(state_file("d1", config, inputs={"who": "Ann's: #1"}))
    second = driver.run(
        state_file("d2", config, inputs={"who": "Ann's: #1"}, action="UPDATE")
    )

    assert (first["deploy_status_code"], second["deploy_status_code"]) == (0, 0)
    assert (states(first)["kept"]["changes"], states(second)["kept"]["changes"]) == (
        {"diff": "New file"},
        {},
    )
    assert (tmp_path / "kept").read_text() == "Ann's: #1 it's\n"


def test_outputs_are_files_and_what_salt_returned(driver: Driver) -> None:
    """States write to `heat_outputs_path`; `return` and `retcode` are outputs as in heat-agents, if declared."""
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
    assert values.keys() == {
        "deploy_stdout",
        "deploy_stderr",
        "deploy_status_code",
        *outputs,
    } - {"never"}
    assert "return" not in driver.run(state_file("d2", config))


def test_a_state_that_fails_fails_the_deployment(
    driver: Driver, tmp_path: Path
) -> None:
    """The output has all states, the reasons are sentences with the cause last, and outputs are kept."""
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
    assert lines[1].startswith(
        "file.managed relative: Specified file relative is not an absolute path"
    )
    assert lines[2].startswith("cmd.run bad: Command ")  # it failed first
    assert lines[-1] == "no such thing"
    assert values["said"] == "here"


@pytest.mark.parametrize("driver", ["apply"], indirect=True)
def test_more_than_can_be_sent_is_cut(driver: Driver) -> None:
    """A return of several megabytes is sent as JSON, with its beginning and its end."""
    config = "big:\n  cmd.run:\n    - name: head -c 5000000 /dev/zero | tr '\\0' x\n"

    values = driver.run(state_file("d1", config))

    assert (values["deploy_status_code"], values["deploy_stderr"]) == (0, "")
    assert values["deploy_stdout"].startswith('{\n    "local": {')
    assert "bytes left out" in values["deploy_stdout"]


@pytest.mark.parametrize(
    ("config", "sentence"),
    [
        (
            "a:\n  test.nop:\n    - name: {{ pillar['missing'] }}\n",
            "has no attribute 'missing'",
        ),
        ("a:\n  nosuch.thing: []\n", "State 'nosuch.thing' was not found in SLS"),
        ("- no map\n", "does not render to a dictionary"),
        ("a: [\n", "Rendering SLS"),
    ],
)
@pytest.mark.parametrize("driver", ["alone"], indirect=True)
def test_rendering_errors_are_reported(
    driver: Driver, config: str, sentence: str
) -> None:
    """Salt returns a list of errors then, which is the reason of the failure."""
    values = driver.run(state_file("d1", config))

    assert values["deploy_status_code"] in (1, 2)
    assert sentence in values["deploy_stderr"]
    assert "Traceback" not in values["deploy_stderr"]


@pytest.mark.parametrize("driver", ["alone"], indirect=True)
def test_an_input_is_never_an_option_of_salt(driver: Driver, tmp_path: Path) -> None:
    """Inputs may have the names of minion options; templates find inputs in `opts`, as in heat-agents.

    A command that fails in a template, while all states succeed, does not fail the deployment, as with heat-agents.
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


@pytest.mark.parametrize("driver", ["apply"], indirect=True)
def test_the_configuration_of_the_machine_holds(driver: Driver, tmp_path: Path) -> None:
    """Its grains, modules and pillar are used; its master, user and log are not."""
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
        state_file(
            "d1",
            config,
            inputs={"who": "the input"},
            options={"minion": {"hash_type": "sha512"}},
        )
    )

    assert values["deploy_status_code"] == 0, values
    assert (tmp_path / "seen").read_text().splitlines() == [
        *(
            "web",
            "fragment",
            "that-one",
            "pillar of the machine",
            "the input",
            "42",
            "sha512",
        )
    ]
    assert not (tmp_path / "salt.log").exists()
    assert not (tmp_path / "machine-cache").exists()

    (folder / "minion.d/last.conf").write_text("id: [\n")
    broken = driver.run(state_file("d2", config))

    assert broken["deploy_status_code"] == 125
    assert (
        f"the minion configuration {folder}/minion.d/last.conf is not valid YAML"
        in broken["deploy_stderr"]
    )


@pytest.mark.parametrize("driver", ["alone"], indirect=True)
def test_other_files_in_the_folder_can_be_used(driver: Driver, tmp_path: Path) -> None:
    """State files can be included and files copied from the folder of the config, with any renderer of salt."""
    working = driver.working("salt")
    working.mkdir(parents=True)
    (working / "base.sls").write_text(
        f"{tmp_path}/copied:\n  file.managed:\n    - source: salt://source\n"
    )
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


@pytest.mark.parametrize("driver", ["alone"], indirect=True)
def test_grains_are_those_of_the_machine_and_stay(
    driver: Driver, tmp_path: Path
) -> None:
    """They are next to its minion configuration; if they cannot be stored there, the deployment fails."""
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
    assert (
        lost["deploy_stderr"]
        == f"grains were not stored: {tmp_path}/etc/grains cannot be written\n"
    )
    assert (tmp_path / "seen").read_text() == "None None\n"

    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/grains").write_text("role: web\n")
    first = driver.run(state_file("d1", config))

    assert (first["deploy_status_code"], first["deploy_stderr"]) == (0, "")
    assert (tmp_path / "seen").read_text() == "web None\n"
    assert yaml.safe_load((tmp_path / "etc/grains").read_text()) == {
        "role": "web",
        "new": 5,
    }

    second = driver.run(state_file("d2", config, action="UPDATE"))

    assert (tmp_path / "seen").read_text() == "web 5\n"
    assert states(second)["new"]["changes"] == {}
    assert os.listdir(tmp_path / "etc") == ["grains"]


@pytest.mark.parametrize("driver", ["alone"], indirect=True)
def test_backups_of_files_stay(driver: Driver, tmp_path: Path) -> None:
    """Later runs can find and restore the backups of `backup: minion`."""
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


def test_a_user_without_a_name_is_a_mistake(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Salt itself would not start, and print only a traceback."""
    monkeypatch.setattr(os, "geteuid", lambda: 2**31 - 7)
    request = protocol.Request(
        id="d1",
        key="d1",
        name="",
        action="",
        config="a: []",
        inputs={},
        outputs=(),
        options={"minion": {}},
    )
    place = protocol.Workplace(
        run=tmp_path,
        working=tmp_path,
        outputs=tmp_path,
        environment={"PATH": f"{need_salt()}:{os.environ['PATH']}"},
    )

    with pytest.raises(
        HookError,
        match="runs as the user 2147483641, who needs a name: add one to /etc/passwd",
    ):
        salt_hook.prepare(request, place)


@pytest.mark.parametrize("driver", ["alone"], indirect=True)
def test_a_dry_run_changes_nothing(driver: Driver, tmp_path: Path) -> None:
    """Salt reports what it would change, if the option `test` or the machine requests that.

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
    assert [
        each["result"]
        for each in (*states(values).values(), *states(by_machine).values())
    ] == [None, None]
    assert not (tmp_path / "file").exists()
    assert nothing == {
        "deploy_stdout": "{}\n",
        "deploy_stderr": "the config has no states for this action: nothing was run\n",
        "deploy_status_code": 0,
    }


def test_secrets_are_on_no_command_line_and_do_not_stay(
    driver: Driver, tmp_path: Path
) -> None:
    """The list of processes has no inputs, files are private, and they are removed after the run.

    The log of salt can be followed during the run, and is not in the result.
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
    run = next(
        line.removeprefix("--config-dir=")
        for line in argv.split()
        if line.startswith("--config-dir=")
    )
    left = [each.name for each in Path(run).rglob("*")]
    assert not [
        each
        for each in left
        if each not in {"stdout", "stderr", "supervisor"} and "status." not in each
    ]
    for path in driver.working("salt").glob("*.*"):
        assert "hunter-2-secret" not in path.read_text()
        assert path.stat().st_mode & 0o777 == 0o600


def test_a_state_that_hangs_is_ended(driver: Driver, tmp_path: Path) -> None:
    """The timeout ends all its processes, and the result has the log until then."""
    config = (
        f"hang:\n  cmd.run:\n    - name: echo $$ >{tmp_path}/pid; sleep 1000; true\n"
    )

    values = driver.run(state_file("d1", config, options={"timeout": 8}), seconds=60)

    assert values["deploy_status_code"] == 124
    assert "Executing state cmd.run for [echo" in values["deploy_stderr"]
    assert ended(int((tmp_path / "pid").read_text()))


@pytest.mark.parametrize("driver", ["alone"], indirect=True)
def test_salt_that_dies_is_a_failure(driver: Driver) -> None:
    """Without a return of salt, the outcome is unknown, which is a failure."""
    values = driver.run(state_file("d1", "a:\n  cmd.run:\n    - name: kill -9 $PPID\n"))

    assert values["deploy_status_code"] == 128 + 9
    assert values["deploy_stderr"].startswith(
        "salt-call ended without returning the outcome of the states\n"
    )


def test_without_salt_nothing_is_claimed(driver: Driver, tmp_path: Path) -> None:
    """The message names the missing program, and says how to install it."""
    if Path("/opt/saltstack/salt/salt-call").exists():
        pytest.skip("this machine has salt in its own place: /opt/saltstack")
    (tmp_path / "empty").mkdir()
    driver.environment["PATH"] = str(tmp_path / "empty")

    values = driver.run(state_file("d1", "a:\n  test.nop: []\n"))

    assert values["deploy_status_code"] == 127
    assert (
        "salt-call is not installed; install the package salt-minion"
        in values["deploy_stderr"]
    )


@pytest.mark.parametrize("config", ["", " \n", None, {}])
def test_empty_config_succeeds(driver: Driver, config: object) -> None:
    """It is a success without anything to do."""
    values = driver.run(state_file("d1", config))

    assert values == {
        "deploy_stdout": "",
        "deploy_stderr": "the config is empty: nothing was run\n",
        "deploy_status_code": 0,
    }


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        (
            {"options": {"tset": True}},
            "options.tset: salt has no such option; did you mean test?",
        ),
        (
            {"options": {"test": "perhaps"}},
            "options.test: expected true or false, not 'perhaps'",
        ),
        ({"options": {"minion": "a"}}, "options.minion: expected an object, not 'a'"),
        (
            {"config": 5},
            "config: expected the text of a state file, or a map of states",
        ),
    ],
)
def test_mistakes_are_named(
    driver: Driver, fields: dict[str, Any], sentence: str
) -> None:
    """The message has the path of the mistake, and nothing is run."""
    values = driver.run({**state_file("d1", "a:\n  test.nop: []\n"), **fields})

    assert values["deploy_status_code"] == 125
    assert sentence in values["deploy_stderr"]


@pytest.mark.parametrize("driver", ["alone"], indirect=True)
def test_the_variable_of_heat_agents_names_the_configuration_of_the_machine(
    driver: Driver, tmp_path: Path
) -> None:
    """`SALT_MINION_CONFIG` works for a hook alone; the agent passes only `HEAT_*` on."""
    del driver.environment["HEAT_SALT_MINION_CONFIG"]
    driver.environment["SALT_MINION_CONFIG"] = str(tmp_path / "the-minion")
    (tmp_path / "the-minion").write_text("grains: {role: named}\n")

    values = driver.run(
        state_file(
            "d1",
            f"{tmp_path}/f:\n  file.managed:\n    - contents: {{{{ grains.role }}}}\n",
        )
    )

    assert values["deploy_status_code"] == 0
    assert (tmp_path / "f").read_text() == "named\n"


@pytest.mark.parametrize("driver", ["apply"], indirect=True)
def test_salt_configured_for_dry_runs_fails(driver: Driver, tmp_path: Path) -> None:
    """A dry run by the machine's configuration is a failure, unless there is nothing to change."""
    (tmp_path / "etc").mkdir(exist_ok=True)
    (tmp_path / "etc/minion").write_text("test: true\n")
    given = f"{tmp_path}/made:\n  file.managed:\n    - contents: x\n"
    values = driver.run(state_file("d1", given))
    assert values["deploy_status_code"] != 0
    assert (
        "1 of the states were not applied: the machine's minion configuration says `test: true`"
        in (values["deploy_stderr"])
    )
    assert not (tmp_path / "made").exists()
    (tmp_path / "made").write_text("x\n")
    assert driver.run(state_file("d2", given))["deploy_status_code"] == 0
