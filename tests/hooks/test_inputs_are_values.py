"""Inputs that a tool could take for its settings, its code or its templates."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import heat_config_hooks
from heat_config_hooks import options, protocol
from heat_config_hooks.errors import HookError


def prepare(
    tool: str, folder: Path, config: object, inputs: dict[str, Any], **chosen: Any
) -> protocol.Command:
    """Return the command that a tool prepares; the program of the tool is a stand-in."""
    hook = heat_config_hooks.load(tool)
    program = folder / "program"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    (folder / "run").mkdir()
    variable = f"HEAT_{tool.upper().replace('-', '_')}"
    names = {f"{variable}_CMD": str(program), f"{variable}_WORKING": str(folder / "w")}
    names |= {
        f"{variable}_OUTPUTS": str(folder / "o"),
        "HEAT_PUPPET_HIERA_DATADIR": str(folder / "data"),
    }
    document = {
        "id": "d1",
        "config": config,
        "inputs": [{"name": name, "value": inputs[name]} for name in inputs],
    }
    request = protocol.request(
        document, key="d1", options=options.read(chosen, hook.ABOUT.options)
    )
    (folder / "salt-call").symlink_to(program)
    command = hook.prepare(
        request,
        protocol.workplace(
            tool, folder / "run", folder, {**names, "PATH": str(folder)}
        ),
    )
    assert isinstance(command, protocol.Command)
    return command


SALT = {
    "venv_bin": "/evil",
    "master": {"postgres.bins_dir": "/evil"},
    "postgres.bins_dir": "/evil",
    "heat_inputs": 1,
    "who": "Ann",
}
CHEF = {
    "recipes": ["evil"],
    "run_list": ["evil"],
    "policy_name": "evil",
    "chef_environment": "evil",
    "who": "Ann",
}


@pytest.mark.parametrize(
    ("tool", "config", "inputs", "file"),
    [
        ("salt", "x: {test.nop: []}", SALT, "pillar.json"),
        ("chef", ["recipe[a]"], CHEF, "node.json"),
    ],
)
def test_input_named_like_a_setting_is_left_out_with_a_note(
    tool: str, config: object, inputs: dict[str, Any], file: str, tmp_path: Path
) -> None:
    """The tool does not see it where it looks for settings, unless the inputs are trusted."""
    for trusted in (False, True):
        folder = tmp_path / str(trusted)
        (folder / "w/kitchen").mkdir(parents=True)
        command = prepare(tool, folder, config, inputs, trusted_inputs=trusted)
        given = json.loads((folder / "run" / file).read_text())
        assert given["who"] == "Ann"
        settings = inputs.keys() - {"who"}
        assert given.get("run_list", ["recipe[a]"]) == ["recipe[a]"]
        assert len(command.notes) == (0 if trusted else len(settings))
        assert (settings - {"run_list", "heat_inputs"} <= given.keys()) is trusted
        if tool == "salt":
            assert given["heat_inputs"].items() >= inputs.items()


def test_text_for_hiera_is_not_interpolated(tmp_path: Path) -> None:
    """The marks of Hiera are escaped in keys, items and texts, as `%{literal('%')}{`."""
    inputs = {"word": "a%{facts.x}b", "map": {"%{k}": ["%{lookup('y')}", "50%"]}}
    prepare("puppet", tmp_path, "notice(1)", inputs, enable_hiera=True)
    [data] = (tmp_path / "data").iterdir()
    escaped = "%{literal('%')}{"
    assert json.loads(data.read_text()) == {
        "word": f"a{escaped}facts.x}}b",
        "map": {f"{escaped}k}}": [f"{escaped}lookup('y')}}", "50%"]},
    }


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("docker-compose.override.yml", "x: 1"),
        ("compose.yaml", "x: 1"),
        ("compose.override.yaml", "x: 1"),
        (".gitconfig", "x"),
        (".env", "A=1\nCOMPOSE_FILE=evil.yml\n"),
        (".env", "export DOCKER_HOST=tcp://192.0.2.1\n"),
        (".env", "LD_PRELOAD=/evil\n"),
        (".env", "'COMPOSE_FILE'=evil.yml\n"),
        (".env", "A=1\rCOMPOSE_FILE=evil.yml\n"),
        (".env", "# a comment\rCOMPOSE_FILE=evil.yml\n"),
        (".env", "A='1' COMPOSE_FILE=evil.yml\n"),
        (".env", "A='\n#' COMPOSE_FILE=evil.yml\n"),
        (".env", "\u00a0export\tCOMPOSE_FILE = evil.yml\n"),
    ],
)
def test_file_named_by_an_input_is_kept_out_of_a_compose_project(
    name: str, content: str, tmp_path: Path
) -> None:
    """The deployment fails before anything is written; with trusted inputs, it is as in heat-agents."""
    inputs = {"env_files": [{"file_name": name, "content": content}]}
    config: dict[str, Any] = {"services": {}}
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    with pytest.raises(HookError, match="the option trusted_inputs allows it"):
        prepare("docker-compose", tmp_path / "a", config, inputs)
    prepare("docker-compose", tmp_path / "b", config, inputs, trusted_inputs=True)


def test_plain_file_for_compose_is_written(tmp_path: Path) -> None:
    """Variables of the application, and files in folders, are data."""
    items = [
        {
            "file_name": ".env",
            "content": "# no PATH=/x here\nTAG=1\nAPP_HOME=/x\nU=a?HOME=b\n",
        },
        {"file_name": "x/compose.yaml", "content": ""},
    ]
    prepare("docker-compose", tmp_path, {"services": {}}, {"env_files": items})
