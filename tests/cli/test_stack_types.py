"""`stack resource type list` and `show`, with the types of plug-ins and without."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from support.machine import Done, Machine

PLUGIN = '''
from heat.engine import attributes, constraints, properties, resource, support


class Lamp(resource.Resource):
    """A lamp on the desk.

    It is lit or dark.
    """

    support_status = support.SupportStatus(status=support.DEPRECATED, version='9.9', message='use a candle')
    properties_schema = {
        'watts': properties.Schema(
            properties.Schema.INTEGER, 'Power.', default=4, update_allowed=True,
            constraints=[constraints.Range(1, 9)]),
        'old': properties.Schema(
            properties.Schema.STRING, support_status=support.SupportStatus(status=support.HIDDEN)),
    }
    attributes_schema = {'lit': attributes.Schema('Whether it is lit.', type=attributes.Schema.BOOLEAN)}


class Odd(resource.Resource):
    properties_schema = ['watts']


def resource_mapping():
    return {'My::Lamp': Lamp, 'My::Odd': Odd}
'''


def types(machine: Machine, *words: str) -> Done:
    """Run `stack resource type WORDS` with a plug-in."""
    folder = machine.folder / "plugins"
    folder.mkdir(exist_ok=True)
    (folder / "lamp.py").write_text(PLUGIN)
    settings = machine.folder / "agent.conf"
    settings.write_text(f"[agent]\nplugin_dirs = {folder}\n")
    words = (
        "stack",
        "resource",
        "type",
        *words,
        "--config",
        str(settings),
        "--state-dir",
        str(machine.state),
    )
    done = machine.command("heat-config-agent", words, {})
    assert "Traceback" not in done.err
    return done


def listed(machine: Machine, *words: str) -> dict[str, Any]:
    """Return the types of `list --json` by name."""
    done = types(machine, "list", "--json", *words)
    assert (done.code, done.err) == (0, "")
    return {each["resource_type"]: each for each in done.data["resource_types"]}


def test_every_type_is_listed(machine: Machine) -> None:
    """Heat's types, our own and those of plug-ins, each with its status; hidden ones only on request."""
    every = listed(machine)
    assert every["OS::Heat::Value"] == {
        "resource_type": "OS::Heat::Value",
        "support_status": "SUPPORTED",
        "version": "7.0.0",
        "handling": "carried out",
        "description": None,
    }
    assert every["OS::Nova::Server"]["handling"] == "placeholder"
    assert (every["My::Lamp"]["handling"], every["My::Lamp"]["support_status"]) == (
        "plug-in",
        "DEPRECATED",
    )
    assert "OS::Heat::SoftwareDeployments" not in every
    assert "OS::Heat::SoftwareDeployments" in listed(
        machine, "--filter", "support_status=hidden"
    )
    table = types(machine, "list").out.splitlines()
    assert table[0].split() == ["NAME", "SUPPORT", "VERSION", "HERE"]
    assert len(table) == len(every) + 1


def test_types_are_filtered(machine: Machine) -> None:
    """The filters are those of the openstack client, and an unknown key or status is refused."""
    assert set(listed(machine, "--filter", "name=My::")) == {"My::Lamp", "My::Odd"}
    assert set(listed(machine, "--filter", "name=My;version=9.9")) == {"My::Lamp"}
    assert listed(machine, "--filter", "name=My::L", "--long")["My::Lamp"][
        "description"
    ].startswith("A lamp on the")
    for words, problem in (
        (
            "colour=red",
            "--filter takes KEY=VALUE with one of the keys name, version, support_status, not 'colour=red'",
        ),
        ("support_status=fine", "a support status is one of UNKNOWN, SUPPORTED"),
        ("name=(", "the name of --filter is not a regular expression"),
    ):
        done = types(machine, "list", "--filter", words)
        assert (done.code, done.out) == (2, "")
        assert problem in done.err


def test_a_type_is_shown(machine: Machine) -> None:
    """A type is shown with its docstring, properties, constraints and attributes; in JSON with Heat's keys."""
    done = types(machine, "show", "My::Lamp")
    assert (done.code, done.err) == (0, "")
    assert "support_status   DEPRECATED since 9.9 (use a candle)" in done.out
    assert "  It is lit or dark." in done.out
    assert [
        "watts",
        "integer",
        "4",
        "in",
        "place",
        "Power;",
        "range",
        "min",
        "1,",
        "max",
        "9",
    ] in [line.split() for line in done.out.splitlines()]
    shown = types(machine, "show", "My::Lamp", "--json", "--long").data
    assert shown["properties"] == {
        "watts": {
            "type": "integer",
            "description": "Power.",
            "default": 4,
            "required": False,
            "update_allowed": True,
            "immutable": False,
            "constraints": [{"range": {"min": 1, "max": 9}}],
        }
    }
    assert shown["attributes"]["lit"] == {
        "type": "boolean",
        "description": "Whether it is lit.",
    }
    assert shown["support_status"]["previous_status"] is None
    assert shown["description"] == "A lamp on the desk.\n\nIt is lit or dark."


def test_the_type_of_a_placeholder_is_shown(machine: Machine) -> None:
    """With Heat's declaration: its status, and which updates replace the resource."""
    shown = types(machine, "show", "OS::Nova::Server", "--json").data
    assert shown["handling"] == "placeholder"
    assert shown["properties"]["flavor"]["update_allowed"]
    assert not shown["properties"]["key_name"]["update_allowed"]
    assert (
        shown["properties"]["networks"]["schema"]["*"]["schema"]["port"]["type"]
        == "string"
    )
    assert (
        "any property is accepted" in types(machine, "show", "OS::Sahara::Cluster").out
    )


def test_template_of_a_type_is_printed_in_either_format(machine: Machine) -> None:
    """The template is printed in either format, and as JSON, but not together with --long."""
    done = types(machine, "show", "My::Lamp", "--template-type", "HOT")
    assert (done.code, done.err) == (0, "")
    hot = yaml.safe_load(done.out)
    assert hot["parameters"]["watts"]["constraints"] == [
        {"range": {"min": 1, "max": 9}}
    ]
    assert hot["resources"] == {
        "Lamp": {"type": "My::Lamp", "properties": {"watts": {"get_param": "watts"}}}
    }
    words = ("--template-type", "cfn", "--json")
    cfn = types(machine, "show", "My::Lamp", *words).data["template"]
    assert cfn["Parameters"] == {
        "watts": {
            "Type": "Number",
            "Description": "Power.",
            "Default": 4,
            "MinValue": 1,
            "MaxValue": 9,
        }
    }
    assert cfn["Outputs"]["OS::stack_id"] == {"Value": {"Ref": "Lamp"}}
    assert (
        types(machine, "show", "My::Lamp", "--template-type", "cfn", "--long").code == 2
    )


def test_unknown_type_is_an_error_with_a_hint(machine: Machine) -> None:
    """A misspelt name has a hint, and a class without schemas blames the plug-in."""
    done = types(machine, "show", "OS::Nova::Servr")
    assert (done.code, done.err) == (
        8,
        "error: there is no resource type 'OS::Nova::Servr' (did you mean OS::Nova::Server?)\n",
    )
    done = types(machine, "show", "My::Odd")
    assert done.code == 1
    assert (
        "the class of My::Odd cannot be used: the schemas of properties must be a dict"
        in done.err
    )


def test_missing_folder_is_reported(machine: Machine, tmp_path: Path) -> None:
    """A folder of plugin_dirs that does not exist is a warning, not an empty result."""
    settings = machine.folder / "absent.conf"
    settings.write_text(f"[agent]\nplugin_dirs = {tmp_path / 'absent'}\n")
    words = ["stack", "resource", "type", "list", "--config", str(settings)]
    done = machine.command("heat-config-agent", words, {})
    assert done.code == 0
    assert (
        done.err
        == f"warning: {tmp_path / 'absent'} of plugin_dirs is not a folder: no plug-in is loaded from it\n"
    )
    assert "OS::Heat::Value" in done.out


def test_misspelt_type_of_a_capability_is_a_warning(machine: Machine) -> None:
    """An unknown type is a warning with the probable name, and a type of a plug-in is not unknown."""
    for name, text in (
        ("wrong", "OS::Nova::Servr"),
        ("right", "My::Lamp"),
        ("new", "Your::Own"),
    ):
        (machine.folder / f"{name}.yaml").write_text(
            f"heat_template_version: 2018-08-31\ncapabilities: {{resource_type: '{text}'}}\n"
        )
    types(machine, "list")  # writes the settings
    words = ["find", "--all", "wrong.yaml", "right.yaml", "new.yaml", "--config"]
    done = machine.command(
        "heat-config-agent",
        ["template", *words, str(machine.folder / "agent.conf")],
        {},
    )
    assert done.code == 0
    assert "resource_type  My::Lamp" in done.out
    assert (
        done.err
        == "warning: wrong.yaml: there is no resource type 'OS::Nova::Servr': did you mean OS::Nova::Server?\n"
    )
