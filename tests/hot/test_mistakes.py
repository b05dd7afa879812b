"""The mistakes of a template are reported, each with its position, its path and a hint."""

from __future__ import annotations

from typing import Any

import pytest

from heat_config_stack.definition.files import File
from heat_config_stack.hot import loader
from heat_config_stack.hot.source import Source
from hot.made import IDENTITY, VERSION, define, examined

VALUE = "{type: OS::Heat::Value, properties: {value: 1}}"


def mistakes(template: str, *environments: str, **parameters: Any) -> list[str]:
    """Return all that is wrong."""
    return examined(template, *environments, **parameters)[0]


def warnings(template: str, *environments: str, **parameters: Any) -> list[str]:
    """Return all that is odd about a template that has no mistake."""
    wrong, odd = examined(template, *environments, **parameters)
    assert wrong == []
    return odd


def test_all_mistakes_are_shown_together_in_the_order_of_the_text() -> None:
    """Mistakes of all sections are shown, also several at one position."""
    shown = mistakes(
        """\
        heat_template_version: 2018-08-31
        outputz: {}
        parameters:
          a: {type: sting, defualt: 1}
          b: {type: number, constraints: [{length: {min: 1}}, {range: {}}]}
        conditions:
          c: {equals: [1]}
        resources:
          r:
            typ: OS::Heat::Value
          s:
            type: OS::Heat::Value
            props: {}
          t:
            type: OS::Heat::Value
            depends_on: [S]
            properties:
              value: {list_join: [a]}
        outputs:
          o: {vlaue: 1}
          p: {value: {get_attr: [tt, value]}}
        """
    )
    assert shown == [
        "t.yaml:2:1: outputz: The template section is invalid: outputz (did you mean outputs?)",
        "t.yaml:4:7: parameters.a.type: Invalid type (sting) (did you mean string?)",
        "t.yaml:4:20: parameters.a.defualt: Invalid key 'defualt' for parameter (a) (did you mean default?)",
        (
            "t.yaml:5:56: parameters.b.constraints[1].range: A range constraint must have a min value and/or a max "
            "value specified."
        ),
        """t.yaml:7:7: conditions.c.equals: Arguments to "equals" must be of the form: [value_1, value_2]""",
        "t.yaml:9:3: resources.r: Each resource must contain a type key. (is typ meant to be type?)",
        't.yaml:10:5: resources.r: "typ" is not a valid keyword inside a resource definition (did you mean type?)',
        't.yaml:13:5: resources.s: "props" is not a valid keyword inside a resource definition',
        't.yaml:16:18: resources.t.depends_on[0]: The specified reference "S" (in t) is incorrect. (did you mean s?)',
        (
            "t.yaml:18:15: resources.t.properties.value.list_join: Incorrect arguments to "
            '"list_join" should be: "list_join" : [ " ", [ "str1", "str2"] ...]'
        ),
        "t.yaml:20:3: outputs.o: Each output definition must contain a value key. (did you mean vlaue?)",
        't.yaml:21:15: outputs.p.value.get_attr: The specified reference "tt" is incorrect.',
    ]


@pytest.mark.parametrize(
    ("template", "said"),
    [
        (
            "",
            "t.yaml:1:1: Template format version not found. (begin it with heat_template_version: 2021-04-16)",
        ),
        ("[a]", "t.yaml:1:1: The template is not a JSON object or YAML mapping."),
        (
            "tosca_definitions_version: tosca_simple_yaml_1_3\n",
            "a TOSCA service template is read from a file, not",
        ),
        (
            "heat_template_versoin: 1\n",
            "is heat_template_versoin meant to be heat_template_version?",
        ),
        (
            "heat_template_version: 2018-08-32\n",
            '"2018-08-32" is not a version of HOT; there are 2013-05-23',
        ),
        (
            "heat_template_version: 2018-08-31\nAWSTemplateFormatVersion: 1\n",
            "Ambiguous versions",
        ),
        (
            VERSION + "resources: [a]\n",
            't.yaml:2:1: resources: The section "resources" must be a map of names',
        ),
        (
            VERSION + "outputs: [a]\n",
            't.yaml:2:1: outputs: The section "outputs" must be a map of names, not a list',
        ),
        (
            VERSION + "parameter_groups: [a]\n",
            "parameter_groups[0]: Parameter Groups error: a group is a map",
        ),
        (
            VERSION + "resources: {a: {type: x, depends_on: a}}\n",
            "Circular Dependency Found: a → a",
        ),
        (
            VERSION
            + "conditions: {a: {not: b}, b: {not: a}}\noutputs: {o: {value: 1, condition: a}}\n",
            'outputs.o.condition: Circular definition for condition "a" (a → b → a)',
        ),
        (
            VERSION + f"resources: {{r: {VALUE[:-1]}, condition: cc}}}}\n",
            'Invalid condition "cc"',
        ),
        (
            "heat_template_version: 2015-10-15\nconditions: {}\n",
            "The template section is invalid: conditions (conditions exist from 2016-10-14 on)",
        ),
        (
            "heat_template_version: 2015-10-15\noutputs: {o: {value: {Ref: x}}}\n",
            "outputs.o.value.Ref: The function Ref is not supported in this version of HOT. (it was last in 2013-",
        ),
        (
            VERSION + "resources: {t: {type: x, properties: {if: [true, {}, {}]}}}\n",
            "resources.t: a function cannot stand for all properties at once (write it for each property)",
        ),
        (
            VERSION
            + "resources: {a: {type: x}, b: {type: x, properties: {p: {get_resource: A}}}}\n",
            't.yaml:2:57: resources.b.properties.p: The specified reference "A" is incorrect.',
        ),
        (
            VERSION + "parameters: {q: {type: string, default: a}}\n"
            "resources: {b: {type: x, properties: {p: {get_resource: q}}}}\n",
            '"q" is incorrect. (q is a parameter: use get_param)',
        ),
        (
            VERSION
            + "resources: {a: {type: x, condition: false}, b: {type: x, properties: {p: {get_resource: a}}}}\n",
            '"a" is incorrect. (its condition has taken a away: use if)',
        ),
    ],
)
def test_a_mistake_is_a_sentence_with_a_hint(template: str, said: str) -> None:
    """Each mistake is one sentence with a hint, also where Heat shows Python's exception."""
    _, found, _ = loader.examine(Source(File("t.yaml", template)), IDENTITY)
    assert any(said in str(each) for each in found), found


def test_wrong_value_is_reported_where_it_is_given() -> None:
    """A wrong value is reported in its environment, or else at the parameter's declaration."""
    template = """\
    parameters:
      n: {type: number}
      m: {type: string, constraints: [{length: {max: 2}, description: too long}]}
      o: {type: boolean}
    """
    environment = "parameters:\n  n: abc\n  zz: 1\n  m: abc\n"
    assert mistakes(template, environment) == [
        "env0.yaml:2:3: parameters.n: Parameter 'n' is invalid: 'abc' is not a number",
        "env0.yaml:3:3: The Parameter (zz) was not defined in template.",
        "env0.yaml:4:3: parameters.m: Parameter 'm' is invalid: too long",
        (
            "t.yaml:5:3: parameters.o: The Parameter (o) was not provided. (give it with --parameter o=VALUE, or in an "
            "environment)"
        ),
    ]


def test_a_hidden_value_is_in_no_message() -> None:
    """No message has a hidden value, neither a passed one nor a default."""
    template = """\
    parameters:
      a: {type: number, hidden: true}
      b: {type: string, hidden: true, default: geheim, constraints: [{length: {max: 2}}, {allowed_pattern: x}]}
      c: {type: json, hidden: true}
    """
    found = mistakes(template, a="geheim", b="geheim", c="{geheim")
    assert len(found) >= 4
    assert "geheim" not in "".join(found)


@pytest.mark.parametrize(
    ("template", "said"),
    [
        (
            "outputs: {o: {value: {get_parm: a}}}",
            (
                "outputs.o.value.get_parm: get_parm is not a function of 2018-08-31: this map is used as it is "
                "(did you mean get_param?)"
            ),
        ),
        (
            "heat_template_version: 2013-05-23\noutputs: {o: {value: {str_split: [',', a]}}}",
            "str_split is not a function of 2013-05-23: this map is used as it is (it exists from 2015-10-15 on)",
        ),
        (
            "outputs:\n  o: {value: 1}\n  o: {value: 2}",
            "t.yaml:4:3: outputs.o: the key 'o' is there twice",
        ),
        (
            "parameters: {a: {type: string, default: x, constraints: [{length: {max: 3}, allowed_pattern: x}]}}",
            "allowed_pattern is not checked: of the constraints in one entry only length counts (give it a dash of its",
        ),
        (
            "outputs: {o: {value: 1, descripton: x}}",
            "an output has no key descripton: it is ignored (did you mean",
        ),
        (
            "parameters: {a: {type: string, default: x, hidden: 'no'}}",
            "hidden should be true or false: Heat takes it for",
        ),
        (
            "parameters: {a: {type: string, default: {b: 1}}}",
            "a dict is given for a, which is text",
        ),
        (
            "outputs: {o: {value: {get_param: nosuch}}}",
            "this output will have no value: The Parameter (nosuch) was not",
        ),
        (
            "resources: {r: {type: x, metadata: {m: {get_param: z}}}}",
            "the resource will fail: The Parameter (z) was not",
        ),
    ],
)
def test_probable_mistake_that_heat_accepts_is_a_warning(
    template: str, said: str
) -> None:
    """A probable mistake that Heat accepts is carried out with a warning."""
    found = warnings(template)
    assert len(found) == 1
    assert said in found[0]
    assert (
        len(
            define(
                template if "heat_template" in template else VERSION + template
            ).warnings
        )
        == 1
    )


@pytest.mark.parametrize(
    "value", ["{get_input: a}", "{name: a}", "{get: {file: x}}", "{a: 1, get_parm: 2}"]
)
def test_ordinary_maps_are_not_taken_for_functions(value: str) -> None:
    """A map with one key is data more often than not."""
    assert warnings(f"outputs: {{o: {{value: {value}}}}}") == []


def test_mistakes_of_environments_and_template_are_shown_together() -> None:
    """Each mistake is shown with its own file."""
    found = mistakes("nosuch: 1\n", "params: {}\n", "resource_registry:\n", "a: [\n")
    assert [each.partition(":")[0] for each in found] == [
        "env2.yaml",
        "env0.yaml",
        "env1.yaml",
        "t.yaml",
    ]
    assert (
        'environment has wrong section "params" (did you mean parameters?)' in found[1]
    )


@pytest.mark.parametrize(
    "version",
    [
        "AWSTemplateFormatVersion: '2010-09-09'",
        "HeatTemplateFormatVersion: '2012-12-12'",
    ],
)
def test_the_format_of_cloudformation_is_refused_in_one_sentence(version: str) -> None:
    """A template in CloudFormation's format is refused with one sentence, whatever else it contains."""
    template = Source(
        File(
            "t.yaml",
            f"{version}\nResources: {{a: {{Type: 'AWS::EC2::Instance'}}}}\nOutputs: []\n",
        )
    )
    _, [mistake], _ = loader.examine(template, IDENTITY)
    assert (
        mistake.problem
        == "this template is in CloudFormation's format, which is not supported"
    )


def test_function_of_an_unknown_value_is_not_computed() -> None:
    """A function of an unknown value is not computed."""
    text = VERSION + (
        "parameters: {p: {type: string}}\n"
        "resources: {r: {type: OS::Heat::Value, properties: {value: {digest: [md5, {get_param: p}]}}}}\n"
    )
    made, mistakes, _ = loader.examine(
        Source(File("t.yaml", text)), IDENTITY, known=False
    )
    assert mistakes == []
    assert made is not None
    assert made.resources["r"].requirements() == frozenset()


def test_an_update_drops_values_of_parameters_that_the_new_template_lacks() -> None:
    """Heat drops them, too; the others are kept."""
    kept = Source(File("t.yaml", VERSION), parameters={"a": 1, "b": 2})
    template = File("t.yaml", VERSION + "parameters: {a: {type: number}}\n")
    assert kept.changed(template, (), {}, {}).parameters == {"a": 1}
    assert kept.changed(None, (), {}, {}).parameters == {"a": 1, "b": 2}
    assert kept.changed(File("t.yaml", "a: ["), (), {}, {}).parameters == {
        "a": 1,
        "b": 2,
    }
