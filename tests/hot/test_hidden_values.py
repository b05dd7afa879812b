"""No message about a template shows a hidden value, whatever is wrong with it or with values made from it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from hot.made import VERSION
from support import planted, together

SECRET = f"{planted.WORD}-it's &so"

HEAD = f"""{VERSION}
parameters:
  pw: {{type: string, hidden: true}}
  db_password: {{type: string, default: x}}
  list: {{type: comma_delimited_list, hidden: true, default: "{planted.WORD}-a,{planted.WORD}-b"}}
  map: {{type: json, hidden: true, default: {{a: {{b: {planted.WORD}-map}}}}}}
"""

PROPERTIES = {
    "a number": "{type: OS::Heat::RandomString, properties: {length: VALUE}}",
    "a truth value": "{type: OS::Heat::Value, properties: {type: boolean, value: VALUE}}",
    "a map": "{type: OS::Heat::SoftwareConfig, properties: {options: VALUE}}",
    "a list": "{type: OS::Heat::SoftwareConfig, properties: {inputs: VALUE}}",
    "one of a few": "{type: OS::Heat::SoftwareDeployment, properties: {server: s, signal_transport: VALUE}}",
    "the count of a group": "{type: OS::Heat::ResourceGroup, properties: {count: VALUE, resource_def: {type: r.yaml}}}",
    "a policy": "{type: OS::Heat::None, deletion_policy: VALUE}",
    "metadata": "{type: OS::Heat::None, metadata: VALUE}",
    "the name of a file": "{type: OS::Heat::Value, properties: {value: {get_file: VALUE}}}",
    "the name of a resource": "{type: OS::Heat::Value, properties: {value: {get_resource: VALUE}}}",
    "an id": "{type: OS::Heat::None, external_id: [VALUE]}",
}
"""Resources with a value in which something else should be."""

VALUES = {
    "the parameter": "{get_param: pw}",
    "a part of a text": "{str_replace: {template: 'a $1 b', params: {$1: {get_param: pw}}}}",
    "joined": "{list_join: [',', [a, {get_param: pw}]]}",
    "a list": "{get_param: list}",
    "a map": "{get_param: map}",
    "one of a telling name": "{get_param: db_password}",
}

FUNCTIONS = {
    "str_split": "{str_split: [{get_param: map}, a]}",
    "str_split by": "{str_split: [',', {get_param: list}]}",
    "make_url": "{make_url: {host: a, port: {get_param: pw}}}",
    "map_merge": "{map_merge: [{get_param: pw}]}",
    "map_replace": "{map_replace: [{a: 1, b: 2}, {keys: {a: {get_param: map}}}]}",
    "map_replace to one": "{map_replace: [{a: 1, b: 2}, {keys: {a: {get_param: pw}, b: {get_param: pw}}}]}",
    "list_concat": "{list_concat: [[a], {get_param: pw}]}",
    "list_join": "{list_join: [{get_param: list}, [a]]}",
    "list_join of a map": "{list_join: [',', [{get_param: map}]]}",
    "list_join by": "{list_join: [',', {get_param: pw}]}",
    "contains": "{contains: [{get_param: list}, text]}",
    "repeat": "{repeat: {template: a, for_each: {a: [{get_param: map}]}}}",
    "digest": "{digest: [{get_param: pw}, a]}",
    "digest of a list": "{digest: [md5, {get_param: list}]}",
    "filter": "{filter: [{get_param: pw}, [a]]}",
    "yaql": "{yaql: {expression: 'int($.data)', data: {get_param: pw}}}",
    "yaql's expression": "{yaql: {expression: {get_param: pw}}}",
    "yaql's key": "{yaql: {expression: '$.data.a.get($.data.a.b).x.y', data: {get_param: map}}}",
    "str_replace_strict": "{str_replace_strict: {template: a, params: {{get_param: pw}: b}}}",
    "str_replace": "{str_replace: {template: {get_param: list}, params: {a: b}}}",
    "get_attr": "{get_attr: [{get_param: pw}, a]}",
    "if": "{if: [{get_param: pw}, a, b]}",
}


NAMES = ("pw", "db_password")


def validated(
    folder: Path,
    text: str,
    *,
    as_json: bool,
    secret: str = SECRET,
    names: Sequence[str] = NAMES,
) -> str:
    """Return what is said of a template."""
    path = folder / "t.yaml"
    path.write_text(text)
    given = [word for name in names for word in ("--parameter", f"{name}={secret}")]
    words = [
        "template",
        "validate",
        str(path),
        *given,
        *(["--json"] if as_json else []),
    ]
    return planted.printed(*words)


@together.cases("as_json", [False, True], ids=["text", "JSON"])
@together.cases("value", VALUES.values(), ids=VALUES)
@together.cases("where", PROPERTIES.values(), ids=PROPERTIES)
def test_a_value_that_does_not_do_is_not_shown(
    tmp_path: Path, where: str, value: str, *, as_json: bool
) -> None:
    """A wrong hidden value is not shown, whichever check refuses it and wherever it comes from."""
    text = f"{HEAD}resources:\n  r: {where.replace('VALUE', value)}\n"
    said = validated(tmp_path, text, as_json=as_json)
    assert planted.leaks([("what is said", said)]) == []
    assert said


@together.cases("as_json", [False, True], ids=["text", "JSON"])
@together.cases("value", FUNCTIONS.values(), ids=FUNCTIONS)
@together.cases(
    "secret",
    [SECRET, f"{planted.WORD}{'x' * 190}{planted.WORD}"],
    ids=["short", "long"],
)
def test_an_argument_that_does_not_do_is_not_shown(
    tmp_path: Path, value: str, secret: str, *, as_json: bool
) -> None:
    """A wrong argument is not shown, neither in the mistake of a property nor in the warning of an output."""
    for text in (
        f"resources:\n  r: {{type: OS::Heat::Value, properties: {{value: {value}}}}}\n",
        f"outputs:\n  o: {{value: {value}}}\n",
    ):
        said = validated(tmp_path, HEAD + text, as_json=as_json, secret=secret)
        assert planted.leaks([("what is said", said)]) == []


def test_the_test_itself_finds_what_is_shown(tmp_path: Path) -> None:
    """A parameter that nobody hides, and whose name tells of nothing, is repeated: that is how a mistake is found."""
    text = HEAD.replace("pw: {type: string, hidden: true}", "pw: {type: string}")
    said = validated(
        tmp_path,
        f"{text}resources:\n  r: {PROPERTIES['a number'].replace('VALUE', VALUES['joined'])}\n",
        as_json=False,
        names=["pw"],
    )
    assert planted.leaks([("what is said", said)])


def test_a_condition_does_not_show_a_value(tmp_path: Path) -> None:
    """A condition, which is decided before all resources, shows no hidden value."""
    text = f"{HEAD}conditions:\n  c: {{get_param: pw}}\nresources:\n  r: {{type: OS::Heat::None, condition: c}}\n"
    said = validated(tmp_path, text, as_json=False)
    assert "is invalid: ***" in said
    assert planted.leaks([("what is said", said)]) == []


def test_a_nested_template_does_not_show_a_value(tmp_path: Path) -> None:
    """A nested template shows neither its own hidden values nor those of its parent."""
    child = f"{VERSION}\nparameters:\n  n: {{type: number}}\n"
    child += f"  own: {{type: string, hidden: true, default: {planted.WORD}}}\n"
    child += "resources:\n  r: {type: OS::Heat::RandomString, properties: {length: {get_param: own}}}\n"
    (tmp_path / "child.yaml").write_text(child)
    said = validated(
        tmp_path,
        f"{HEAD}resources:\n  c: {{type: child.yaml, properties: {{n: {{get_param: pw}}}}}}\n",
        as_json=True,
    )
    [found] = json.loads(said)["data"]["files"]
    assert found["mistakes"]
    assert planted.leaks([("what is said", said)]) == []


def test_values_of_parameters_with_telling_names_are_not_shown(tmp_path: Path) -> None:
    """Parameters with secret names are not shown, like hidden ones."""
    [found] = json.loads(validated(tmp_path, HEAD, as_json=True))["data"]["files"]
    parameter = found["heat"]["Parameters"]["db_password"]
    assert (parameter["Value"], parameter["Default"]) == ("******", "******")


CONSTRAINTS = {
    "length": "type: string, constraints: [{length: {max: 3}}]",
    "allowed values": "type: string, constraints: [{allowed_values: [a, b]}]",
    "pattern": "type: string, constraints: [{allowed_pattern: '[0-9]+'}]",
    "number": "type: number",
    "JSON": "type: json",
    "boolean": "type: boolean",
}


@together.cases("as_json", [False, True], ids=["text", "JSON"])
@together.cases("default", [False, True], ids=["given", "default"])
@together.cases("name", ["db_password", "api_token", "hidden"])
@together.cases("constraint", CONSTRAINTS.values(), ids=CONSTRAINTS)
def test_value_of_a_secret_parameter_that_breaks_a_constraint_is_not_shown(
    tmp_path: Path, constraint: str, name: str, *, default: bool, as_json: bool
) -> None:
    """A parameter is secret if it is hidden, or by its name."""
    more = ", hidden: true" if name == "hidden" else ""
    more += f", default: {SECRET}" if default else ""
    text = f"{VERSION}\nparameters:\n  {name}: {{{constraint}{more}}}\n"
    said = validated(tmp_path, text, as_json=as_json, names=[] if default else [name])
    assert "nvalid" in said
    assert planted.leaks([("what is said", said)]) == []


def test_a_value_that_is_not_what_its_type_says_is_not_repeated(tmp_path: Path) -> None:
    """When an environment is read, it is not known yet which values are secret."""
    environment = tmp_path / "e.yaml"
    environment.write_text(f"parameters: {{pw: !!int {planted.WORD}}}\n")
    (tmp_path / "t.yaml").write_text(HEAD)
    words = ["template", "validate", str(tmp_path / "t.yaml"), "-e", str(environment)]
    said = planted.printed(*words)
    assert f"{environment}:1:" in said
    assert planted.leaks([("what is said", said)]) == []
