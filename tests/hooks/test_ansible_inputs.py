from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from heat_config_hooks.tools import ansible_values
from support.driver import Driver
from support.playbooks import ours, playbook

COMMAND = "{{ lookup('pipe', 'touch %s') }}"
"""A text that runs a command if ansible takes it for a template."""


def test_no_text_of_an_input_is_a_template(driver: Driver) -> None:
    """Texts, keys and items reach files as they are, also through facts and templates, and no command in them runs."""
    canary = driver.folder / "canary"
    command = COMMAND % canary
    values: dict[str, object] = {
        "word": f"p{command}",
        "list": [command, "{% raw %}", "{# no comment #}", "12", "yes", "", "~"],
        "map": {command: ["x", {"deep": command}], "12": "a", "yes": "b", "": "c"},
        "yes": "{{ word }}",
    }
    role = driver.working("ansible") / "templates"
    role.mkdir(parents=True)
    (role / "page").write_text("{{ word }}|{{ list[0] }}")
    expression = (
        "{{ {'word': word, 'list': list, 'map': map, 'yes': vars['yes']} | to_json }}"
    )
    config = playbook(
        {
            "set_fact": {
                "keys": "{{ map.keys() | list }}",
                "joined": "{{ list | join(' ') }}",
                "pairs": "{{ map | dict2items }}",
            }
        },
        {"set_fact": {"again": "{{ keys[0] }}{{ joined }}{{ pairs[0].key }}"}},
        {"debug": {"msg": "{{ again }} {{ item }}"}, "loop": "{{ list }}"},
        {"shell": "printf %s {{ word | quote }} > {{ heat_outputs_path }}.shell"},
        {"template": {"src": "templates/page", "dest": "{{ heat_outputs_path }}.page"}},
        {"copy": {"content": expression, "dest": "{{ heat_outputs_path }}.seen"}},
    )
    result = driver.run(ours(config, inputs=values, outputs=["seen", "shell", "page"]))
    assert result["deploy_status_code"] == 0, result
    assert json.loads(result["seen"]) == values
    assert (result["shell"], result["page"]) == (
        values["word"],
        f"p{command}|{command}",
    )
    assert not canary.exists()


@pytest.mark.slow
@pytest.mark.parametrize("driver", ["alone"], indirect=True)
def test_trusted_inputs_are_templates(driver: Driver) -> None:
    """With the option, as in heat-agents, a text may refer to other variables."""
    config = playbook(
        {"copy": {"content": "{{ greeting }}", "dest": "{{ heat_outputs_path }}.said"}}
    )
    inputs = {"greeting": "hello {{ who }}", "who": "Ann"}
    plain = driver.run(ours(config, "d1", inputs=inputs, outputs=["said"]))
    assert plain["said"] == "hello {{ who }}"
    trusted = driver.run(
        ours(
            config,
            "d2",
            inputs=inputs,
            outputs=["said"],
            options={"trusted_inputs": True},
        )
    )
    assert trusted["said"] == "hello Ann"


@pytest.mark.slow
def test_no_input_is_a_setting_of_ansible(driver: Driver) -> None:
    """An input `ansible_…` does not choose the interpreter of modules, and a sentence says that it is left out."""
    canary = driver.folder / "canary"
    interpreter = driver.folder / "interpreter"
    interpreter.write_text(f'#!/bin/sh\ntouch {canary}\nexec "{sys.executable}" "$@"\n')
    interpreter.chmod(0o755)
    config = [
        {
            "hosts": "localhost",
            "connection": "local",
            "gather_facts": False,
            "tasks": [{"ping": {}}],
        }
    ]
    given = {
        "ansible_python_interpreter": str(interpreter),
        "ansible_connection": "no.such.one",
    }
    chosen = playbook({"ping": {}})
    assert driver.run(ours(chosen, "d1", inputs=given))["deploy_status_code"] == 0
    assert not canary.exists()
    del given["ansible_connection"]
    trusted = driver.run(
        ours(config, "d2", inputs=given, options={"trusted_inputs": True})
    )
    assert trusted["deploy_status_code"] == 0, trusted
    assert canary.exists()


INTERNAL = {
    "_ansible_ansiballz_pydevd_config": {"module": "this"},
    "_ansible_ansiballz_debugpy_config": {"host": "127.0.0.1", "port": 9},
    "_ansible_ansiballz_coverage_config": {
        "config": "/dev/null",
        "output": "FOLDER/coverage",
    },
    "inventory_hostname": "elsewhere.example",
    "inventory_dir": "/elsewhere",
    "omit": "a text",
}


@pytest.mark.slow
@pytest.mark.parametrize("driver", ["alone"], indirect=True)
@pytest.mark.fault(
    4,
    "inputs of ansible named like the settings of its debuggers and its own variables",
    "they set nothing, a sentence names each, and the playbook sees its own host",
)
def test_no_input_replaces_a_variable_of_ansible_itself(driver: Driver) -> None:
    """No module of Python is loaded that an input names, no file is written where an input says, no host is changed."""
    given = json.loads(json.dumps(INTERNAL).replace("FOLDER", str(driver.folder)))
    seen = "{{ inventory_hostname }} {{ inventory_dir }} {{ {'a': omit} | length }}"
    config = playbook(
        {"command": "true"},
        {"copy": {"content": seen, "dest": "{{ heat_outputs_path }}.seen"}},
    )
    result = driver.run(ours(config, inputs=given, outputs=["seen"]))
    assert result["deploy_status_code"] == 0, result
    assert result["seen"].startswith("localhost ")
    assert "elsewhere" not in result["seen"]
    assert not [
        name for name in os.listdir(driver.folder) if name.startswith("coverage")
    ]


@pytest.mark.parametrize("name", INTERNAL)
def test_variable_of_ansible_itself_is_a_setting(name: str) -> None:
    """It is left out of the variables of a playbook, unless the option trusted_inputs is set."""
    assert ansible_values.settings({name: "x", "port": 22, "environment": "test"}) == [
        name
    ]


@pytest.mark.slow
@pytest.mark.parametrize("driver", ["alone"], indirect=True)
def test_key_that_an_old_ansible_takes_for_a_template_is_refused(
    driver: Driver, tmp_path: Path
) -> None:
    """Before 2.19, a key of a map without texts has no mark, so the playbook does not run with it."""
    old = tmp_path / "old"
    old.write_text(
        '#!/bin/sh\n[ "$1" != --version ] || { echo "ansible-playbook [core 2.14.18]"; exit; }\ntouch ran\n'
    )
    old.chmod(0o755)
    inputs = {"map": {"a": {COMMAND % "x": 1}, "b": "text"}}
    config = playbook(
        {
            "copy": {
                "content": "{{ map.a | to_json }}",
                "dest": "{{ heat_outputs_path }}.seen",
            }
        }
    )
    new = driver.run(ours(config, "d1", inputs=inputs, outputs=["seen"]))
    assert json.loads(new["seen"]) == inputs["map"]["a"], new
    driver.environment["HEAT_ANSIBLE_CMD"] = str(old)
    result = driver.run(ours(config, "d2", inputs=inputs, outputs=["seen"]))
    assert result["deploy_status_code"] == 125
    assert (
        "the input map has a key with «{», which ansible-core before 2.19"
        in result["deploy_stderr"]
    )
    assert not (driver.working("ansible") / "ran").exists()


@pytest.mark.parametrize(
    "locale",
    [
        {"LC_ALL": "C", "LANG": "C"},
        pytest.param({"LANG": "C"}, marks=pytest.mark.slow),
        pytest.param({"LANG": ""}, marks=pytest.mark.slow),
    ],
)
@pytest.mark.parametrize("driver", ["alone"], indirect=True)
def test_play_for_localhost_runs_here_in_any_locale(
    driver: Driver, locale: dict[str, str]
) -> None:
    """Ansible uses neither ssh nor the locale of the agent, which may not be UTF-8."""
    driver.environment.update(locale)
    config = playbook(
        {"copy": {"content": "é", "dest": "{{ heat_outputs_path }}.said"}}
    )
    del config[0]["connection"]
    result = driver.run(ours(config, outputs=["said"]))
    assert (result["deploy_status_code"], result.get("said")) == (0, "é"), result


@pytest.mark.slow
@pytest.mark.parametrize("driver", ["alone"], indirect=True)
def test_last_line_is_the_cause_of_the_other_failures(driver: Driver) -> None:
    """It is the first failure that was not rescued: neither one of `always`, nor one that was rescued before."""
    rescued = {
        "block": [{"name": "risky", "fail": {"msg": "not now"}}],
        "rescue": [{"debug": {"msg": "saved"}}],
    }
    block = [{"name": "make", "fail": {"msg": "the cause"}}]
    always = [{"name": "remove", "fail": {"msg": "there is nothing"}}]
    result = driver.run(ours(playbook(rescued, {"block": block, "always": always})))
    assert result["deploy_status_code"] == 2
    assert result["deploy_stderr"].splitlines()[-3:] == [
        "failed: risky: not now",
        "failed: remove: there is nothing",
        "failed: make: the cause",
    ]
