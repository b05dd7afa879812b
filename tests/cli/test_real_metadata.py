"""Metadata as a real Heat gives it, over each of its transports: planned and carried out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from support.commands import SH
from support.loopback import SignalServer
from support.machine import Machine

SAMPLES = Path(__file__).parents[1] / "samples"


CREDENTIALS = {
    "deploy_signal_id",
    "deploy_password",
    "deploy_user_id",
    "deploy_username",
}


TOOLS = ("script", "ansible", "ansible", None, "script", "puppet", "json-file", None)
"""The tools of the deployments in each sample, in their order; the third is a component."""


OPTIONS: tuple[dict[str, Any], ...] = (
    {"timeout": 30},
    {"tags": "a"},
    {"tags": "x"},
    {},
    {"timeout": 30},
    {"enable_hiera": True, "enable_facter": False},
    {},
    {},
)


@pytest.fixture(params=["cfn", "heat", "tempurl", "zaqar"])
def sample(request: pytest.FixtureRequest) -> dict[str, Any]:
    """Metadata that Heat made, one for each transport."""
    document: dict[str, Any] = json.loads(
        (SAMPLES / f"metadata-{request.param}.json").read_text()
    )
    return document


def test_real_metadata_is_planned(machine: Machine, sample: dict[str, Any]) -> None:
    """Heat's own metadata is parsed without a mistake, and planned with the right tools and options."""
    for tool in ("ansible", "puppet", "json-file"):
        machine.hook(tool, SH)

    planned = machine.apply(sample, "--plan", "--json")

    assert planned.code == 0, planned.err
    assert planned.data["mistakes"] == []
    steps = planned.data["changes"]
    assert [each["id"] for each in steps] == [
        each["id"] for each in sample["deployments"]
    ]
    assert [each["change"] for each in steps] == [
        "run" if tool else "skip" for tool in TOOLS
    ]
    assert [
        each["tool"] if each["change"] == "run" else None for each in steps
    ] == list(TOOLS)
    assert [each["options"] for each in steps] == list(OPTIONS)


@pytest.mark.parametrize("action", ["CREATE", "UPDATE", "RESUME", "SUSPEND", "DELETE"])
def test_a_real_component_is_planned_for_each_action(
    machine: Machine, sample: dict[str, Any], action: str
) -> None:
    """Heat's component has its own tool for each action."""
    for tool in ("ansible", "puppet"):
        machine.hook(tool, SH)
    component = sample["deployments"][2]
    next(each for each in component["inputs"] if each["name"] == "deploy_action")[
        "value"
    ] = action

    (step,) = machine.apply([component], "--plan", "--json").data["changes"]

    wanted = {"CREATE": "ansible", "SUSPEND": "puppet"}.get(action, "script")
    assert (step["change"], step["action"], step["tool"]) == ("run", action, wanted)


def test_real_scripts_are_run(
    machine: Machine, heat: SignalServer, sample: dict[str, Any]
) -> None:
    """The scripts that Heat sends get their inputs line by line, and their results go out by the verb that it names."""
    scripts = [each for each in sample["deployments"] if each["group"] == "script"]
    verbs = []
    for each in scripts:
        for item in each["inputs"]:
            if item["name"] == "deploy_signal_id":
                item["value"] = heat.url(each["id"])
            if item["name"] == "deploy_signal_verb":
                verbs.append(item["value"])

    ran = machine.apply(
        {**sample, "deployments": scripts}, "--json", "--deliver-for", "0"
    )

    assert [each["state"] for each in ran.data["deployments"]] == ["ok", "ok"]
    assert [each.verb for each in heat.signals] == verbs
    for given, found in zip(scripts, ran.data["deployments"], strict=True):
        result = found["values"]
        assert heat.values(given["id"]) == ([result] if verbs else [])
        assert (result["deploy_stderr"], result["deploy_status_code"]) == ("", 0)
        assert set(result) == {"deploy_stdout", "deploy_stderr", "deploy_status_code"}
        lines = result["deploy_stdout"].splitlines()
        assert lines == sorted(lines)
        environment = dict(line.split("=", 1) for line in lines)
        values = {item["name"]: item["value"] for item in given["inputs"]}
        expected = {
            "port": "8080",
            "enabled": "true",
            "tags": '["a","b"]',
            "blob": '{"k":[1,2.5,null,"\\u00e9"]}',
            "replace_me": "1" if given["name"] == "10_plain" else "",
            **({"extra": "undeclared"} if given["name"] == "10_plain" else {}),
        }
        hidden = {values[name] for name in CREDENTIALS & values.keys()}
        for name in values.keys() - CREDENTIALS - expected.keys():
            expected[name] = "***" if values[name] in hidden else values[name]
        assert {name: environment.get(name) for name in expected} == expected
        assert not CREDENTIALS & environment.keys()
        ours = {
            "PATH",
            "HOME",
            "LANG",
            "TZ",
            "PWD",
            "HEAT_INPUTS_FILE",
            "HEAT_RUN",
            "heat_outputs_path",
        }
        assert environment.keys() - expected.keys() <= ours


def test_real_metadata_is_carried_out(machine: Machine, sample: dict[str, Any]) -> None:
    """Hooks get what Heat sent, and groups without a tool are passed over: everything in one pass."""
    for tool in ("ansible", "puppet", "json-file"):
        machine.hook(
            tool,
            f'{SH}cat >"$0.$(basename $PWD)"\necho \'{{"deploy_status_code": 0}}\'\n',
        )

    ran = machine.apply(sample, "--json", "--deliver-for", "0")

    states = [each["state"] for each in ran.data["deployments"]]
    assert ran.data["summary"]["ok"] == 6
    assert (states[3], states[7]) == ("skipped", "skipped")
    for given, wanted in zip(sample["deployments"], TOOLS, strict=True):
        if wanted in ("ansible", "puppet", "json-file"):
            got = json.loads((machine.hooks / f"{wanted}.{given['id']}").read_text())
            assert (got["group"], got["options"], got["outputs"]) == (
                wanted,
                given["options"],
                given["outputs"],
            )
            assert got["config"] == (
                given["config"]
                if given["group"] != "component"
                else "- hosts: localhost"
            )
