from __future__ import annotations

import json
import os
import shlex
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
import yaml

from heat_config_hooks import options, protocol
from heat_config_hooks.errors import HookError, MissingTool
from heat_config_hooks.tools import ansible
from support import endings, pace
from support.driver import Alone, Applied, Driver
from support.loopback import wait_until
from support.machine import BIN, Machine, deployment
from support.playbooks import ours, playbook

pytestmark = [pytest.mark.takes(60), pytest.mark.apart]

ANSIBLE = BIN / "ansible-playbook"

SECRET = "sesame-4711"


def lines(result: dict[str, Any]) -> list[str]:
    """Return the lines of the recap, which follows the output of ansible itself."""
    after = str(result["deploy_stdout"]).partition("PLAY RECAP")[2].partition("\n\n")[2]
    return after.splitlines()


def marked(path: Path) -> dict[str, Any]:
    """Return the variables in a file whose texts have the mark `!unsafe`."""

    class Loader(yaml.SafeLoader):
        """Reads the mark as nothing."""

    Loader.add_constructor("!unsafe", lambda _, node: str(node.value))
    values = yaml.load(path.read_text(encoding="utf-8"), Loader)  # noqa: S506  # it is a SafeLoader
    assert isinstance(values, dict)
    return values


@pytest.fixture
def recorder(tmp_path: Path) -> Path:
    """Return a program that records its arguments in the folder `asked`, and then runs ansible-playbook."""
    folder = tmp_path / "asked"
    folder.mkdir()
    program = tmp_path / "recorder"
    program.write_text(
        "#!/bin/sh\n"
        f"cd {shlex.quote(str(folder))} || exit\n"
        'pwd -P >/dev/null; printf "%s\\n" "$OLDPWD" >cwd; printf "%s\\0" "$@" >argv; env -0 >environment\n'
        'for last; do :; done; cp -p "${last#@}" variables\n'
        f'cd "$OLDPWD" && exec {shlex.quote(str(ANSIBLE))} "$@"\n'
    )
    program.chmod(0o755)
    return program


@pytest.mark.slow
def test_inputs_keep_their_types_and_outputs_are_sent(driver: Driver) -> None:
    """Inputs keep their types at every action, files next to the playbook are used, and outputs are sent.

    The hook alone is tried at one action: it handles all of them alike.
    """
    values: dict[str, object] = {
        "text": 'it\'s "quoted"\nin two lines \\ ü€😀',
        "number": 7,
        "float": 2.5,
        "yes": True,
        "nothing": None,
        "list": [1, "two", {"three": [3]}],
        "map": {"a": {"b": None}},
    }
    role = driver.working("ansible") / "roles" / "beside"
    for name in ("tasks", "templates"):
        (role / name).mkdir(parents=True)
    (role / "tasks" / "main.yml").write_text(
        "- template: {src: hello, dest: '{{ heat_outputs_path }}.greeting'}\n"
        "- copy: {src: files/plain, dest: '{{ heat_outputs_path }}.plain'}\n"
    )
    (role / "templates" / "hello").write_text("hello {{ text }}")
    plain = driver.working("ansible") / "files" / "plain"
    plain.parent.mkdir()
    plain.write_bytes(b"  as it is \n\n")
    seen = {
        **{name: name for name in values},
        "action": "deploy_action",
        "id": "heat_config_id",
    }
    expression = ", ".join(f"{name}={variable}" for name, variable in seen.items())
    write = {
        "copy": {
            "content": f"{{{{ dict({expression}) | to_json }}}}",
            "dest": "{{ heat_outputs_path }}.seen",
        }
    }
    outputs = ["seen", "greeting", "plain", "never"]
    for action in (
        ("CREATE", "UPDATE", "DELETE") if isinstance(driver, Applied) else ("DELETE",)
    ):
        config = playbook(write, roles=[] if action == "UPDATE" else ["beside"])
        given = ours(
            config, f"id-{action}", inputs=values, outputs=outputs, action=action
        )
        if action == "DELETE":
            given["config"] = config  # a list of plays
        result = driver.run(given)
        assert result["deploy_status_code"] == 0, result
        assert json.loads(result["seen"]) == {
            **values,
            "action": action,
            "id": f"id-{action}",
        }
        written = (
            {"greeting": f"hello {values['text']}", "plain": "  as it is \n\n"}
            if action != "UPDATE"
            else {}
        )
        assert {
            name: result[name]
            for name in ("greeting", "plain", "never")
            if name in result
        } == written
        assert (driver.working("ansible") / f"id-{action}_playbook.yaml").is_file()


@pytest.mark.slow
@pytest.mark.parametrize("driver", ["alone"], indirect=True)
def test_a_second_time_nothing_is_changed(driver: Driver) -> None:
    """A second deployment with the same config succeeds, and its recap names no task."""
    config = playbook(
        {
            "name": "write it",
            "copy": {"content": "x\n", "dest": str(driver.folder / "written")},
        }
    )
    first = driver.run(ours(config, "d1"))
    second = driver.run(ours(config, "d2"))
    assert lines(first) == ["changed: write it", "1 ok, 1 changed"]
    assert lines(second) == ["1 ok"]
    assert (first["deploy_status_code"], second["deploy_status_code"]) == (0, 0)


@pytest.mark.slow
@pytest.mark.parametrize("driver", ["apply"], indirect=True)
def test_output_is_that_of_ansible_and_a_recap(driver: Driver) -> None:
    """Standard output is the output of ansible-playbook, byte for byte, and then the outcome of each task."""
    config = playbook(
        {"name": "a {{ thing }}", "command": "/bin/true"},
        {"name": "long", "shell": "head -c 900000 /dev/zero | tr '\\0' x"},
        {
            "name": "some",
            "command": "test {{ item }} = a",
            "loop": ["a", "b", "c"],
            "ignore_errors": True,
        },
        {"name": "hidden", "command": "echo {{ word }}", "no_log": True},
        {
            "name": "hidden loop",
            "command": "echo {{ item }}",
            "no_log": True,
            "loop": ["{{ word }}", "b"],
        },
        {
            "name": "hidden and failed",
            "shell": "echo {{ word }}; false",
            "no_log": True,
            "ignore_errors": True,
        },
        {"name": "quiet", "debug": {"msg": "two\nlines"}, "when": "not thing"},
        {
            "block": [{"name": "risky", "fail": {"msg": "not now"}}],
            "rescue": [{"debug": {"msg": "saved"}}],
        },
        {
            "name": "last words",
            "shell": "echo first >&2; echo because >&2; exit 3",
            "changed_when": False,
        },
        {"name": "never", "command": "/bin/true"},
    )
    result = driver.run(ours(config, inputs={"thing": "stone", "word": SECRET}))
    assert result["deploy_status_code"] == 2
    hidden = "the output has been hidden due to the fact that 'no_log: true' was specified for this result"
    assert lines(result) == [
        "changed: a stone",
        "changed: long",
        "ignored: some (item=b): non-zero return code",
        "ignored: some (item=c): non-zero return code",
        "changed: hidden",
        "changed: hidden loop",
        f"ignored: hidden and failed: {hidden}",
        "failed: risky: not now",
        "failed: last words: non-zero return code: because",
        "7 ok, 6 changed, 1 failed, 1 skipped, 1 rescued, 2 ignored",
    ]
    assert SECRET not in json.dumps(result)
    assert "\x1b" not in result["deploy_stdout"] + result["deploy_stderr"]
    quiet = playbook(
        {"name": "list", "debug": {"msg": "{{ item }}"}, "loop": [1, {"é": "\\"}]},
        {"fail": {"msg": "so\nbe\n\nit"}},
    )
    ours_printed = driver.run(ours(quiet, "d2"))
    command = [
        str(ANSIBLE),
        "-i",
        "localhost,",
        str(driver.working("ansible") / "d2_playbook.yaml"),
    ]
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(driver.folder),
        "LANG": "C.UTF-8",
    }
    itself = subprocess.run(
        command, capture_output=True, text=True, check=False, env=environment
    )
    recap = "failed: fail: so\nbe\n1 ok, 1 failed\n"
    assert ours_printed["deploy_stdout"] == itself.stdout + recap
    assert ours_printed["deploy_stderr"] == itself.stderr + "failed: fail: so be\n"
    assert ours_printed["deploy_status_code"] == itself.returncode == 2


def test_command_line_is_that_of_heat_agents(driver: Driver, recorder: Path) -> None:
    """It is heat-agents' command line; secrets are neither on it nor in files that stay."""
    driver.environment["HEAT_ANSIBLE_CMD"] = str(recorder)
    asked = recorder.with_name("asked")
    working = driver.working("ansible")
    inputs = {
        "db_password": SECRET,
        "deploy_password": "credential-1",
        "deploy_user_id": "credential-2",
    }
    config = playbook(
        {"debug": {"msg": "one"}, "tags": ["b"]},
        {"fail": {"msg": "two"}, "tags": ["c"]},
    )
    chosen = {"tags": ["a", "b"], "skip_tags": "c", "modulepath": ["/m", "n"]}
    result = driver.run(ours(config, inputs=inputs, options=chosen))
    assert result["deploy_status_code"] == 0, result
    argv = (asked / "argv").read_text().split("\0")[:-1]
    variables = Path(argv[-1].removeprefix("@"))
    assert argv == [
        *(
            "-i",
            str(variables.parent / "this machine.ini"),
            "--module-path",
            "/m:n",
            "--skip-tags",
            "c",
            "--tags",
            "a,b",
        ),
        *(str(working / "d1_playbook.yaml"), "--extra-vars", f"@{variables}"),
    ]
    assert (asked / "cwd").read_text() == f"{working}\n"
    assert variables.name == "d1_variables.json"
    assert variables.parent != working
    given = marked(asked / "variables")
    path = given.pop("heat_outputs_path")
    assert given["heat_config_id"] == "d1"
    assert given["db_password"] == SECRET
    assert not {"deploy_password", "deploy_user_id", "deploy_signal_id"} & set(given)
    assert Path(path).name == "d1"
    modes = {
        stat.S_IMODE(each.stat().st_mode)
        for each in (asked / "variables", working / "d1_playbook.yaml")
    }
    assert modes == {0o600}
    assert stat.S_IMODE(working.stat().st_mode) == 0o700
    environment = (asked / "environment").read_text()
    for secret in (SECRET, "credential-"):
        assert secret not in environment
        assert secret not in "".join(argv)
    assert "ANSIBLE_HOST_KEY_CHECKING" not in environment
    assert "ANSIBLE_CACHE_PLUGIN" not in environment
    assert not variables.exists()
    assert not [
        each
        for each in working.rglob("*")
        if each.is_file() and SECRET in each.read_text()
    ]

    given = ours(
        playbook({"debug": {"msg": "x"}}),
        "d2",
        inputs=inputs,
        options={"deploy_credentials": True},
    )
    driver.run(given)
    assert marked(asked / "variables")["deploy_password"] == "credential-1"
    first, inventory, path = (asked / "argv").read_text().split("\0")[:3]
    assert (first, Path(inventory).name, path) == (
        "-i",
        "this machine.ini",
        str(working / "d2_playbook.yaml"),
    )

    given = ours(playbook({"debug": {"msg": "x"}}), "d3")
    del given["options"]
    assert driver.run(given)["deploy_status_code"] == 0


@pytest.mark.slow
@pytest.mark.parametrize("driver", ["alone"], indirect=True)
def test_inventory_is_a_file_or_an_absolute_path(driver: Driver) -> None:
    """It is a file in the working folder or an absolute path, and the recap names each host."""
    working = driver.working("ansible")
    working.mkdir(parents=True)
    (working / "hosts").write_text("one\ntwo bad=true\n")
    tasks = playbook(
        {"name": "each", "command": "/bin/true"},
        {"name": "some", "fail": {"msg": "no"}, "when": "bad | default(false) | bool"},
        {
            "name": "loop",
            "fail": {"msg": "no"},
            "loop": [{"a": 1}],
            "ignore_errors": True,
        },
        hosts="all",
        serial=1,
    )
    by_name = driver.run(ours(tasks, "d1", options={"inventory": "hosts"}))
    assert by_name["deploy_status_code"] == 2
    recap = [
        "changed: each (one)",
        'ignored: loop (one, item={"a":1}): no',
        "changed: each (two)",
    ]
    assert lines(by_name) == [
        *recap,
        "failed: some (two): no",
        "3 ok, 2 changed, 1 failed, 1 skipped, 1 ignored",
    ]
    tasks = playbook({"name": "each", "command": "/bin/true"}, hosts="all")
    elsewhere = driver.folder / "elsewhere"
    elsewhere.write_text("three\n")
    by_path = driver.run(ours(tasks, "d2", options={"inventory": str(elsewhere)}))
    assert lines(by_path)[0] == "changed: each (three)"
    driver.environment["HEAT_ANSIBLE_INVENTORY"] = "four,"
    by_variable = driver.run(ours(tasks, "d3"))
    assert lines(by_variable)[0] == "changed: each (four)"
    for name, says in {
        "../elsewhere": "options.inventory: '../elsewhere' leads out of the working folder",
        "nowhere": f"options.inventory: there is no inventory {working / 'nowhere'}",
    }.items():
        wrong = driver.run(ours(tasks, f"d-{len(name)}", options={"inventory": name}))
        assert wrong["deploy_status_code"] == 125
        assert says in wrong["deploy_stderr"]


@pytest.mark.slow
@pytest.mark.parametrize("driver", ["alone"], indirect=True)
def test_plugins_modules_collections_and_roles_are_found(driver: Driver) -> None:
    """The options name their folders, and the callback of the runner still works."""
    folder = driver.folder / "mine"
    module = f"#!{sys.executable}\nprint('{{\"changed\": true}}')\n"
    callback = (
        "from ansible.plugins.callback import CallbackBase\n"
        "class CallbackModule(CallbackBase):\n"
        "    CALLBACK_VERSION, CALLBACK_TYPE, CALLBACK_NAME = 2.0, 'notification', 'mine'\n"
        "    CALLBACK_NEEDS_ENABLED = False\n"
        f"    def v2_playbook_on_stats(self, stats): open({str(folder / 'called')!r}, 'a').write('called ')\n"
    )
    for name, text in {
        "modules/mine.py": module,
        "callbacks/mine.py": callback,
        "collections/ansible_collections/acme/tools/plugins/modules/theirs.py": module,
        "roles/shared/tasks/main.yml": "- {name: in the role, mine: {}}\n",
    }.items():
        path = folder / name
        path.parent.mkdir(parents=True)
        path.write_text(text)
    chosen = {
        "modulepath": str(folder / "modules"),
        "callback_plugins": ["/nowhere", str(folder / "callbacks")],
        "collections_path": str(folder / "collections"),
        "roles_path": [str(folder / "roles")],
    }
    config = playbook({"name": "theirs", "acme.tools.theirs": {}}, roles=["shared"])
    result = driver.run(ours(config, options=chosen))
    assert result["deploy_status_code"] == 0, result
    assert lines(result) == [
        "changed: shared : in the role",
        "changed: theirs",
        "2 ok, 2 changed",
    ]
    assert (folder / "called").read_text() == "called "

    # The same by an ansible.cfg, which the runner's own settings would hide; its output is for who asked for it.
    working = driver.working("ansible")
    (working / "extra").mkdir()
    (working / "extra" / "mine.py").write_text(callback)
    (working / "ansible.cfg").write_text(
        "[defaults]\nstdout_callback = minimal ; short\ncallback_plugins = extra\n"
    )
    result = driver.run(ours(playbook({"name": "x", "debug": {"msg": "hello"}}), "d2"))
    assert result["deploy_stdout"].split() == [
        "localhost",
        "|",
        "SUCCESS",
        "=>",
        "{",
        '"msg":',
        '"hello"',
        "}",
    ]
    assert (folder / "called").read_text() == "called called "


@pytest.mark.slow
@pytest.mark.parametrize("driver", ["alone"], indirect=True)
def test_other_stdout_callback_keeps_its_output(driver: Driver) -> None:
    """With ansible's own `oneline`, or one without documentation, its output is unchanged and the exit code is kept."""
    config = playbook(
        {"name": "x", "debug": {"msg": "hello"}},
        {"name": "y", "fail": {"msg": "not now"}},
    )
    (driver.folder / ".ansible.cfg").write_text(
        "[defaults]\nstdout_callback = oneline\n"
    )
    result = driver.run(ours(config))
    assert result["deploy_status_code"] == 2, result
    said = [each.partition(" =>")[0] for each in result["deploy_stdout"].splitlines()]
    assert (said[0], said[-1]) == ("localhost | SUCCESS", "localhost | FAILED!")

    working = driver.working("ansible")
    (working / "plugins").mkdir()
    (working / "plugins" / "terse.py").write_text(
        "from ansible.plugins.callback import CallbackBase\n"
        "class CallbackModule(CallbackBase):\n"
        "    CALLBACK_VERSION, CALLBACK_TYPE, CALLBACK_NAME = 2.0, 'stdout', 'terse'\n"
        "    def v2_runner_on_ok(self, result): print('fine')\n"
        "    def v2_runner_on_failed(self, result, ignore_errors=False): print('bad')\n"
    )
    (working / "ansible.cfg").write_text(
        "[defaults]\nstdout_callback = terse\ncallback_plugins = plugins\n"
    )
    result = driver.run(ours(config, "d2"))
    assert (result["deploy_status_code"], result["deploy_stdout"]) == (
        2,
        "fine\nbad\n",
    ), result


@pytest.mark.parametrize(
    ("config", "code", "says"),
    [
        pytest.param("- hosts: [\n", 4, "YAML", marks=pytest.mark.slow),
        pytest.param(
            json.dumps(playbook({"no.such.module": {}})),
            4,
            "couldn't resolve module/action 'no.such.module'",
            marks=pytest.mark.slow,
        ),
        pytest.param(
            json.dumps(playbook(roles=["nowhere"])),
            1,
            "the role 'nowhere' was not found",
            marks=pytest.mark.slow,
        ),
        (
            json.dumps(
                playbook(
                    {"name": "far", "ping": {}},
                    vars={"ansible_remote_tmp": "/proc/nowhere"},
                )
            ),
            4,
            "\nunreachable: far: ",
        ),
        pytest.param("hosts: localhost\n", 4, "playbook", marks=pytest.mark.slow),
    ],
    ids=["no yaml", "no module", "no role", "unreachable", "no list"],
)
@pytest.mark.parametrize("driver", ["alone"], indirect=True)
def test_an_error_of_ansible_becomes_the_result(
    driver: Driver, config: str, code: int, says: str
) -> None:
    """The result has the exit code and the message of ansible."""
    result = driver.run(ours(config))
    assert result["deploy_status_code"] == code
    assert says in result["deploy_stdout"] + result["deploy_stderr"]
    assert (
        result["deploy_stderr"]
        .splitlines()[-1]
        .startswith(("[ERROR]: ", "ERROR! ", "unreachable: "))
    )


NOWHERE = [{"hosts": "web", "tasks": [{"name": "x", "debug": {"msg": "done"}}]}]
TAGGED = playbook({"name": "x", "debug": {"msg": "done"}, "tags": "deploy"})
# all of them take long
FACTS_FIRST = [
    {**playbook()[0], "gather_facts": True, "gather_subset": ["!all", "!min"]}
]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("config", "options", "says", "callback"),
    [
        (*case, callback)
        for number, case in enumerate(
            (
                (
                    NOWHERE,
                    {},
                    "no task was run: no host of the inventory matches 'web', the hosts of the playbook",
                ),
                (
                    [*FACTS_FIRST, *NOWHERE],
                    {},
                    "no task was run: no host of the inventory matches 'web'",
                ),
                (
                    [*NOWHERE, {**NOWHERE[0], "hosts": ["db", "cache"]}],
                    {},
                    "matches 'web', 'db,cache'",
                ),
                (
                    TAGGED,
                    {"tags": "deplyo"},
                    "no task was run: none has one of the tags deplyo",
                ),
                (NOWHERE, {"allow_nothing": True}, ""),
                (TAGGED, {"tags": "deplyo", "allow_nothing": True}, ""),
                (TAGGED, {"tags": "deploy"}, ""),
                (TAGGED, {"skip_tags": "deploy"}, ""),
                ([*NOWHERE, *TAGGED], {}, ""),
                ([*TAGGED, *NOWHERE], {}, ""),
                (playbook({"debug": {"msg": "x"}, "when": False}), {}, ""),
                (FACTS_FIRST, {}, ""),
                (playbook(), {}, ""),
            )
        )
        # A success is one with either callback, and each takes a second.
        for callback in (
            ("default", "oneline") if case[2] else (("default", "oneline")[number % 2],)
        )
    ],
)
@pytest.mark.parametrize("driver", ["alone"], indirect=True)
@pytest.mark.fault(
    2,
    "a playbook whose hosts are none of the inventory's, or of which no task has one of the tags that are asked for",
    "a failure that names the hosts or the tags, unless the deployment allows it",
)
def test_a_playbook_that_does_nothing(
    driver: Driver,
    config: list[dict[str, Any]],
    options: dict[str, Any],
    says: str,
    callback: str,
) -> None:
    """It is a failure although ansible succeeds, with any callback; a skipped task counts as a task."""
    (driver.folder / ".ansible.cfg").write_text(
        f"[defaults]\nstdout_callback = {callback}\n"
    )
    result = driver.run(ours(config, options=options))
    assert result["deploy_status_code"] == (125 if says else 0), result
    if says:
        assert says in result["deploy_stderr"].splitlines()[-1]
        assert "allow_nothing" in result["deploy_stderr"].splitlines()[-1]


@pytest.mark.slow
@pytest.mark.parametrize("driver", ["alone"], indirect=True)
def test_prompt_does_not_wait_for_an_answer(driver: Driver) -> None:
    """A prompt does not wait for an answer."""
    tasks = playbook(
        {"pause": {"prompt": "go on?"}},
        {"debug": {"msg": "went on"}},
        vars_prompt=[{"name": "a_name", "default": "x"}],
    )
    result = driver.run(ours(tasks, options={"timeout": 60}))
    assert result["deploy_status_code"] == 0
    assert "went on" in result["deploy_stdout"]


@pytest.mark.parametrize("config", [None, "", " \n\n", []])
def test_empty_config_succeeds(driver: Driver, config: object) -> None:
    """It is a success, and the result says that nothing was run."""
    driver.environment["HEAT_ANSIBLE_CMD"] = "/nowhere"
    result = driver.run(deployment(config=config, group="ansible"))
    assert result["deploy_status_code"] == 0
    assert result["deploy_stderr"] == "the config is empty: nothing was run\n"


def test_mistakes_are_named(driver: Driver) -> None:
    """Unknown options, options of the wrong type, and a config that is not a playbook are failures."""
    config = playbook({"file": {"path": str(driver.folder / "made"), "state": "touch"}})
    chosen = {"tag": "x", "skip_tags": 7, "inventory": ["a"], "roles_path": [1]}
    wrong = driver.run(ours(config, options=chosen))
    assert wrong["deploy_status_code"] == 125
    assert (
        "options.tag: ansible has no such option; did you mean tags?"
        in wrong["deploy_stderr"]
    )
    for name in ("skip_tags", "inventory", "roles_path"):
        assert f"options.{name}: expected " in wrong["deploy_stderr"]
    for number, structure in enumerate([{"hosts": "localhost"}, 7]):
        wrong = driver.run(deployment(f"c{number}", structure, group="ansible"))
        assert wrong["deploy_status_code"] == 125
        assert (
            "config: expected a playbook: text, or a list of plays"
            in wrong["deploy_stderr"]
        )
    assert not (driver.folder / "made").exists()


def test_missing_programs_fail_the_deployment(driver: Driver) -> None:
    """The deployment fails without ansible-playbook or ansible-runner, and with a program that cannot be started."""
    config = playbook({"file": {"path": str(driver.folder / "made"), "state": "touch"}})
    driver.environment["HEAT_ANSIBLE_CMD"] = "no-such-playbook"
    missing = driver.run(ours(config, "d1"))
    assert missing["deploy_status_code"] == 127
    assert (
        "no-such-playbook ($HEAT_ANSIBLE_CMD) is not installed; "
        in missing["deploy_stderr"]
    )
    assert "pip install ansible-core ansible-runner" in missing["deploy_stderr"]
    broken = driver.folder / "broken"
    broken.write_text("#!/nowhere/python\n")
    broken.chmod(0o755)
    driver.environment["HEAT_ANSIBLE_CMD"] = str(broken)
    unstarted = driver.run(ours(config, "d2"))
    assert unstarted["deploy_status_code"] == 126
    assert f"cannot run {broken}: FileNotFoundError" in unstarted["deploy_stderr"]
    del driver.environment["HEAT_ANSIBLE_CMD"]
    (driver.folder / "sitecustomize.py").write_text(
        "import sys\nsys.modules['ansible_runner'] = None\n"
    )
    driver.environment["PYTHONPATH"] = str(driver.folder)
    without = driver.run(ours(config, "d3"))
    assert without["deploy_status_code"] == 127
    assert (
        "ansible-runner, which runs ansible-playbook, is not installed; "
        in without["deploy_stderr"]
    )
    assert "pip install ansible-core ansible-runner" in without["deploy_stderr"]
    assert not (driver.folder / "made").exists()


def test_missing_ansible_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If neither PATH nor our own environment has it, the message says how to install it."""
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    place = protocol.workplace(
        "ansible", tmp_path / "run", tmp_path, {"PATH": str(tmp_path)}
    )
    with pytest.raises(
        MissingTool,
        match=r"ansible-playbook is not installed; .*ansible-core ansible-runner",
    ):
        ansible.prepare(asked(ours("- hosts: localhost\n")), place)


def test_a_runner_that_cannot_be_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If a module that ansible-runner needs is missing, the message says how to install it."""
    monkeypatch.setitem(sys.modules, "ansible_runner", None)
    place = protocol.workplace(
        "ansible", tmp_path / "run", tmp_path, {"PATH": str(BIN)}
    )
    with pytest.raises(
        MissingTool,
        match=r"ansible-runner cannot be loaded .*ansible-core ansible-runner",
    ):
        ansible.carry_out(asked(ours("- hosts: localhost\n")), place)


def asked(document: dict[str, Any]) -> protocol.Request:
    """Return a deployment as the hook gets it."""
    return protocol.request(
        document,
        key="d1",
        options=options.read(document["options"], ansible.ABOUT.options),
    )


def living(words: str) -> list[psutil.Process]:
    """Return processes whose command line has these words in it."""
    found = []
    for each in psutil.process_iter():
        try:
            if each.pid != os.getpid() and words in " ".join(each.cmdline()):
                found.append(each)
        except psutil.Error:
            continue
    return found


@pytest.fixture
def stubborn(tmp_path: Path) -> Iterator[Path]:
    """A program that ignores TERM. The fixture ends all processes that its test has left."""
    path = tmp_path / "stubborn"
    path.write_text("#!/bin/sh\ntrap '' TERM\nwhile :; do sleep 0.2; done\n")
    path.chmod(0o755)
    yield path
    endings.kill(*living(str(tmp_path)))


@pytest.mark.slow
def test_timeout_ends_ansible_and_keeps_earlier_outcomes(
    driver: Driver, stubborn: Path
) -> None:
    """A timeout ends ansible and all its processes, and the result has the outcome of earlier tasks."""
    config = playbook(
        {"name": "first", "command": "/bin/true"},
        {"name": "hang", "command": str(stubborn)},
    )
    for limit in (5, 15, 45):
        # a busy machine takes longer until the task that hangs has begun
        result = driver.run(ours(config, f"d{limit}", options={"timeout": limit}))
        assert result["deploy_status_code"] == 124
        if "TASK [hang]" in result["deploy_stdout"]:
            break
    assert "TASK [hang]" in result["deploy_stdout"]
    assert "\nchanged: first\n" in result["deploy_stdout"]
    wait_until(lambda: not living(str(driver.folder)))


@pytest.mark.slow
@pytest.mark.parametrize("callback", ["default", "oneline"])
def test_hook_ends_ansible_on_term(
    machine: Machine, stubborn: Path, callback: str
) -> None:
    """The hook ends all processes of ansible when it gets a TERM that only it gets."""
    given = ours(
        playbook(
            {"name": "hang", "command": str(stubborn)},
            {"name": "next", "command": "/bin/true"},
        )
    )
    (machine.folder / ".ansible.cfg").write_text(
        f"[defaults]\nstdout_callback = {callback}\n"
    )
    apply = machine.start_apply([given])
    wait_until(lambda: bool(living(str(stubborn))), seconds=90)
    (hook,) = [
        each
        for each in living(str(machine.state))
        if each.cmdline()[4:6] == ["-m", "heat_config_hooks.steps"]
    ]
    hook.terminate()
    apply.communicate(timeout=pace.seconds(60))
    assert apply.returncode == 1
    wait_until(lambda: not living(str(machine.folder)), seconds=60)
    result = machine.agent("show", "d1", "--json").data["values"]
    assert result["deploy_status_code"] == 143
    assert ("TASK [hang]" in result["deploy_stdout"]) == (callback == "default")
    assert "TASK [next]" not in result["deploy_stdout"]


@pytest.mark.slow
def test_output_of_ansible_is_shown_while_it_runs(machine: Machine) -> None:
    """While a task is running, `log` shows the output of the task before it."""
    go = machine.folder / "go"
    config = playbook(
        {"name": "first", "debug": {"msg": "begun"}},
        {"name": "second", "shell": f"while ! test -e {go}; do sleep 0.1; done"},
    )
    apply = machine.start_apply([ours(config)])
    wait_until(lambda: "TASK [second]" in machine.agent("log", "d1").out, seconds=60)
    shown = machine.agent("log", "d1").out
    assert "begun" in shown
    assert "\x1b" not in shown
    assert "PLAY RECAP" not in shown
    go.touch()
    apply.communicate(timeout=pace.seconds(60))
    assert apply.returncode == 0
    assert "\nchanged: second\n2 ok, 1 changed\n" in machine.agent("log", "d1").out


@pytest.mark.slow
@pytest.mark.parametrize("home", ["/", "/proc/nowhere"])
@pytest.mark.parametrize("driver", ["alone"], indirect=True)
def test_unusable_home_is_replaced_by_the_folder_of_the_run(
    driver: Driver, home: str
) -> None:
    """Without a usable home, ansible keeps its files in the folder of the run."""
    before = Path("/.ansible").exists()
    driver.environment["HOME"] = home
    config = playbook(
        {"copy": {"content": "x", "dest": str(driver.folder / "written")}}
    )
    result = driver.run(ours(config))
    assert result["deploy_status_code"] == 0, result
    assert lines(result) == ["changed: copy", "1 ok, 1 changed"]
    assert Path("/.ansible").exists() == before


@pytest.mark.slow
def test_forget_removes_the_files_of_one_playbook(machine: Machine) -> None:
    """`forget` removes the files of one deployment and of no other."""
    config = playbook({"copy": {"content": "x", "dest": "{{ heat_outputs_path }}.x"}})
    assert (
        machine.apply(
            [ours(config, "d1", outputs=["x"]), ours(config, "d11", outputs=["x"])]
        ).code
        == 0
    )
    left = {each.name for each in (machine.state / "heat-config-ansible").iterdir()}
    assert left == {"d1_playbook.yaml", "d11_playbook.yaml"}
    assert machine.agent("forget", "--yes", "d1").code == 0
    assert {
        each.name for each in (machine.state / "heat-config-ansible").iterdir()
    } == {"d11_playbook.yaml"}
    assert {
        each.name for each in (machine.state / "run/heat-config-ansible").iterdir()
    } == {"d11.x"}


@pytest.mark.slow
def test_unsafe_id_is_not_used_for_files(driver: Driver) -> None:
    """An unsafe id is not used for files, and the playbook gets it unchanged."""
    write = {
        "copy": {
            "content": "{{ heat_config_id }}",
            "dest": "{{ heat_outputs_path }}.id",
        }
    }
    result = driver.run(ours(playbook(write), "../{odd} id", outputs=["id"]))
    if isinstance(driver, Alone):
        assert result["id"] == "../{odd} id"
    (path,) = driver.working("ansible").glob("*_playbook.yaml")
    assert path.name.startswith("sha256-")


def test_a_config_is_a_playbook(tmp_path: Path) -> None:
    """Nothing is written for a config that is not a playbook."""
    place = protocol.workplace(
        "ansible", tmp_path / "run", tmp_path, {"PATH": str(BIN)}
    )
    with pytest.raises(HookError, match="config: expected a playbook: text"):
        ansible.prepare(asked(deployment(config={"hosts": "all"})), place)
    assert not list(tmp_path.iterdir())
