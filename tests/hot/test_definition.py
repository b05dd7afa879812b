"""The definition of a stack: plain values, and those that only a running stack can know."""

from __future__ import annotations

import json

import pytest

from heat_config_agent.diagnostics.mistakes import Invalid
from heat_config_stack.definition import (
    Identity,
    Look,
    MappedType,
    Need,
    Unresolved,
    circle,
    requires,
    resolve,
)
from heat_config_stack.hot import loader
from hot.made import IDENTITY, Known, define, source

RESOURCES = "resources: {a: {type: A}, b: {type: B}}\n"
LOOK: Look = Known(
    {
        "a": {"x": {"k": [1, {"l": "deep"}]}, "text": "abc", "none": None},
        "b": {"x": "y"},
    }
)


def output(value: str, version: str = "2018-08-31", look: Look = LOOK) -> object:
    """Return what an output comes to."""
    made = define(
        f"heat_template_version: {version}\n{RESOURCES}outputs: {{o: {{value: {value}}}}}\n"
    )
    return resolve(made.outputs["o"].value, look)


def test_functions_without_resources_are_resolved_at_once() -> None:
    """Functions are gone, and so are conditions."""
    definition = define(
        """\
        parameters: {p: {type: comma_delimited_list, default: 'a,b'}}
        conditions: {c: {equals: [{get_param: [p, 0]}, a]}}
        resources:
          r:
            type: A
            condition: c
            properties: {x: {list_join: [-, {get_param: p}]}, y: {if: [c, [1, {get_param: 'OS::stack_name'}], 2]}}
            metadata: {m: {str_replace: {template: $x, params: {$x: {get_param: p}}}}}
          s: {type: A, condition: {not: c}}
        """
    )
    assert list(definition.resources) == ["r"]
    assert definition.resources["r"].properties == {"x": "a-b", "y": [1, "s1"]}
    assert definition.resources["r"].metadata == {"m": '["a", "b"]'}


@pytest.mark.parametrize(
    ("value", "comes_to"),
    [
        ("{get_resource: a}", "id-of-a"),
        ("{get_attr: [a, x]}", {"k": [1, {"l": "deep"}]}),
        ("{get_attr: [a, x, k, 1, l]}", "deep"),
        ("{get_attr: [a, x, k, '1', l]}", None),
        ("{get_attr: [a, x, nosuch, 1]}", None),
        ("{get_attr: [a, text, 1]}", "b"),
        ("{get_attr: [a, none, 1]}", None),
        ("{get_attr: [b]}", {"x": "y"}),
        ("{list_join: ['', [{get_attr: [b, x]}, {get_resource: b}]]}", "yid-of-b"),
        ("[1, {k: {get_attr: [b, x]}}]", [1, {"k": "y"}]),
        ("{get_attr: [a, x, k, {str_split: [' ', 'z y', 0]}]}", None),
        ("{get_param: ['OS::stack_name', {get_attr: [a, x, k, 0]}]}", "1"),
    ],
)
def test_functions_of_resources_are_resolved_at_run_time(
    value: str, comes_to: object
) -> None:
    """With what the stack says of its resources."""
    assert output(value) == comes_to


def test_facade_in_a_root_template_is_an_error() -> None:
    """A root template has no facade, and using it is an error."""
    with pytest.raises(Unresolved, match="this stack is not nested in another"):
        output("{resource_facade: metadata}")


def test_the_first_version_follows_the_path_itself() -> None:
    """Later ones leave it to the resource, which may have names of its own for what is in it."""

    class Asked(Known):
        """A `Look` that records the paths that it was asked for."""

        def attribute(self, resource: str, attribute: str, path: object) -> object:
            return {"resource": resource, "asked": [attribute, path]}

    assert output("{get_attr: [a, x, asked]}", "2013-05-23", Asked()) == ["x", ()]
    assert output("{get_attr: [a, x, asked]}", "2014-10-16", Asked()) == {
        "resource": "a",
        "asked": ["x", ["asked"]],
    }


def test_dependencies_have_the_position_of_their_function() -> None:
    """Each needed resource and attribute is listed with its function's position, and by name for the order."""
    definition = define(
        """\
        resources:
          a: {type: A}
          b: {type: B}
          c:
            type: C
            depends_on: b
            properties: {p: [{get_attr: [a, x, {get_attr: [b, y]}]}]}
            metadata: {m: {get_resource: a}}
        outputs: {o: {value: {get_attr: [a]}}}
        """
    )
    of = definition.resources["c"]
    path = ("resources", "c", "properties", "p", 0, "get_attr")
    assert list(requires(of.properties)) == [
        Need("a", "x", path),
        Need("b", "y", (*path, 2, "get_attr")),
    ]
    assert list(requires(of.metadata)) == [
        Need("a", None, ("resources", "c", "metadata", "m", "get_resource"))
    ]
    assert of.requirements() == {"a", "b"}
    assert list(requires(definition.outputs["o"].value)) == [
        Need("a", "", ("outputs", "o", "value", "get_attr"))
    ]


def test_an_output_that_cannot_be_had_says_why_when_it_is_asked_for() -> None:
    """The rest of the stack does not mind."""
    made = define("outputs: {o: {value: {str_split: [',', a, 5]}}, p: {value: 1}}\n")
    with pytest.raises(
        Unresolved, match='Incorrect index to "str_split" should be between 0 and 0'
    ):
        resolve(made.outputs["o"].value, LOOK)
    assert resolve(made.outputs["p"].value, LOOK) == 1
    assert "this output will have no value" in made.warnings[0].problem


def test_circles_are_found() -> None:
    """Over what properties, metadata and depends_on say; in the order in which each needs the next."""
    with pytest.raises(Invalid, match="Circular Dependency Found: "):
        define(
            "resources: {a: {type: A, depends_on: b}, b: {type: B, properties: {p: {get_resource: a}}}}\n"
        )
    assert circle(define(RESOURCES).resources) == ()


def test_a_resource_that_is_there_already_needs_nothing() -> None:
    """An external resource is never created, changed or deleted."""
    made = define(
        "resources: {a: {type: A}, b: {type: B, external_id: some-id, properties: {p: {get_resource: a}}}}\n"
    )
    found = made.resources["b"]
    assert (found.external_id, found.deletion_policy, found.requirements()) == (
        "some-id",
        "Retain",
        frozenset(),
    )


# From what was kept.


def test_a_definition_is_made_again_of_its_source() -> None:
    """The source is JSON, and a definition is made from it without any file."""
    made = define(
        "parameters: {p: {type: string}}\nresources: {a: {type: My::T}}\noutputs: {o: {value: {get_file: f}}}\n",
        "resource_registry: {My::T: child.yaml}\nparameters: {p: x}\n",
        files={"f": "content", "child.yaml": "heat_template_version: 2018-08-31\n"},
    )
    again = loader.load(json.loads(json.dumps(made.source)), IDENTITY)
    assert again.outputs == made.outputs
    assert again.parameters == made.parameters
    assert next(again.environment.candidates("My::T", "a")) == MappedType(
        "My::T", "child.yaml", ("My::T",)
    )


def test_an_update_of_what_exists_keeps_what_is_not_given_anew() -> None:
    """Parameters that are cleared fall back to their defaults."""
    before = source(
        "parameters: {p: {type: string, default: d}, q: {type: string}}\n", p="1", q="2"
    )
    after = loader.define(
        before.changed(None, (), {}, {"q": "3"}, clear=["p"]), IDENTITY
    )
    assert {name: each.value for name, each in after.parameters.items()} == {
        "p": "d",
        "q": "3",
    }


# Nested templates.

CHILD = """\
heat_template_version: 2018-08-31
parameters:
  l: {type: comma_delimited_list, default: 'x,y', constraints: [{length: {max: 4}}]}
  j: {type: json, default: {}}
  d: {type: string, default: own, description: what it is}
  needed: {type: string}
resources:
  inner: {type: A, properties: {p: {get_param: needed}}}
outputs:
  l: {value: {get_param: l}, description: the list}
  name: {value: {get_param: 'OS::stack_name'}}
  d: {value: {get_param: d}}
  facade: {value: {resource_facade: metadata}}
"""
PARENT = "resources: {c: {type: child.yaml}}\n"


def child(
    environment: str = "{}\n", *, known: bool = True, **parameters: object
) -> dict[str, object]:
    """Return the outputs of a child stack."""
    made = define(PARENT, environment, files={"child.yaml": CHILD})
    found = next(made.environment.candidates("child.yaml", "c"))
    inner = made.environment.nested(
        "c", found, Identity("s1-c-x", "i"), parameters, known=known
    )
    return {name: resolve(each.value, LOOK) for name, each in inner.outputs.items()}


def test_a_nested_template_is_looked_at_by_its_interface() -> None:
    """Parameters are properties with the environment's defaults, and outputs are attributes."""
    made = define(
        PARENT,
        "parameter_defaults: {d: from-environment}\n",
        files={"child.yaml": CHILD},
    )
    [found] = [
        each for each in made.environment.candidates("child.yaml", "c") if each.template
    ]
    interface = made.environment.interface(found.template)
    assert [(name, each.default) for name, each in interface.properties.items()] == [
        ("l", "x,y"),
        ("j", {}),
        ("d", "from-environment"),
        ("needed", None),
    ]
    assert interface.attributes == {"l": "the list", "name": "", "d": "", "facade": ""}


def test_properties_become_parameters_of_the_child() -> None:
    """A list becomes text with commas, so an item that has one comes apart; null is as if it were not given."""
    assert child(l=["a,b", None, "c"], needed="n", d=None) == {
        "l": ["a", "b", "", "c"],
        "name": "s1-c-x",
        "d": "own",
        "facade": "the parent's metadata",
    }
    assert child("parameter_defaults: {d: other}\n", needed="n")["d"] == "other"
    assert (
        child("parameter_defaults: {d: other}\n", needed="n", d="given")["d"] == "given"
    )


def test_mistakes_of_a_child_have_their_place_in_its_own_text() -> None:
    """A mistake in a child has its position in the child's text; the caller adds the resource."""
    with pytest.raises(Invalid) as caught:
        child()
    [mistake] = caught.value.mistakes
    assert str(mistake.under("resources", "c<child.yaml>")).startswith(
        "child.yaml:6:3: resources.c<child.yaml>.parameters.needed: The Parameter (needed) was not provided."
    )


def test_while_its_parent_is_only_looked_at_a_child_needs_no_values() -> None:
    """During validation a child without values is accepted, and what depends on them is left open."""
    assert child(known=False)["l"] == ["x", "y"]
    template = """\
    heat_template_version: 2018-08-31
    parameters: {n: {type: number}}
    conditions: {big: {equals: [{get_param: n}, 3]}}
    resources:
      a: {type: A, condition: big, properties: {p: {list_join: ['', [{get_param: n}]]}}}
      b: {type: B, condition: {not: big}, deletion_policy: {get_param: n}}
    """
    made, mistakes, warnings = loader.examine(source(template), IDENTITY, known=False)
    assert (mistakes, warnings) == ([], [])
    assert made is not None
    assert set(made.resources) == {"a", "b"}


def test_missing_template_is_reported() -> None:
    """A missing template is reported in the stack that uses it, also if its name is computed."""
    with pytest.raises(
        Invalid, match=r"t\.yaml:2:17: resources\.c: there is no file nosuch\.yaml"
    ):
        define("resources: {c: {type: nosuch.yaml}}\n")
    with pytest.raises(Invalid, match=r"there is no file nosuch\.yaml"):
        define("description: x\n").environment.interface("nosuch.yaml")


# Types.


def types(
    environment: str, type_: str, resource: str = "r", inside: str = ""
) -> list[str]:
    """Return what a type may stand for, the preferred one first."""
    surroundings = define("description: x\n", environment).environment
    surroundings = surroundings.inside(inside) if inside else surroundings
    return [
        each.template or each.type for each in surroundings.candidates(type_, resource)
    ]


@pytest.mark.parametrize(
    ("registry", "found"),
    [
        ("{}", ["My::T"]),
        ("{My::T: X}", ["X", "My::T"]),
        ("{My::T: X, X: Y}", ["Y", "X", "My::T"]),
        ("{My::T: a.yaml}", ["a.yaml", "My::T"]),
        ("{'My::*': 'Their::*'}", ["Their::T", "My::T"]),
        ("{'My::*': X, My::T: Y}", ["X", "Y", "My::T"]),
        ("{'*': X}", ["X", "My::T"]),
        ("{'My::*': My::T}", ["My::T"]),
        ("{My::T: X, 'My::*': null}", ["My::T"]),
        ("{My::T: X, resources: {r: {My::T: Z}, s: {My::T: N}}}", ["Z", "X", "My::T"]),
        ("{resources: {'*': {My::T: Z}}}", ["My::T"]),
    ],
)
def test_registry_maps_types_in_the_order_of_heat(
    registry: str, found: list[str]
) -> None:
    """A mapping for the resource first, then by the alphabet: a wildcard before the type's own name, as with Heat."""
    assert types(f"resource_registry: {registry}\n", "My::T") == found


def test_a_type_that_is_mapped_to_itself_is_refused() -> None:
    """With the way that leads there."""
    with pytest.raises(Invalid, match="the type A is mapped to itself: A → B → A"):
        define("resources: {r: {type: A}}\n", "resource_registry: {A: B, B: A}\n")


def test_child_sees_the_mappings_below_its_resource() -> None:
    """Mappings below its resource's name, those for patterns too; and not the line by which it was found."""
    registry = "{My::T: X, resources: {c: {r: {My::T: Inner}, hooks: pre-create}, 'c*': {restricted_actions: replace}}}"
    environment = f"resource_registry: {registry}\n"
    assert types(environment, "My::T") == ["X", "My::T"]
    assert types(environment, "My::T", inside="c") == ["Inner", "X", "My::T"]
    made = define("description: x\n", environment).environment
    assert made.restricted("c") == {"replace"}
    assert made.hooks("c") == {"pre-create"}
    assert made.restricted("d") == made.hooks("d") == frozenset()


def test_a_template_may_use_the_type_in_whose_place_it_stands() -> None:
    """Inside, the type is what it was."""
    template = "heat_template_version: 2018-08-31\nresources: {inner: {type: My::T}}\n"
    made = define(
        "resources: {r: {type: My::T}}\n",
        "resource_registry: {My::T: t.yaml}\n",
        files={"t.yaml": template},
    )
    first = next(made.environment.candidates("My::T", "r"))
    inner = made.environment.nested("r", first, Identity("c", "i"), {})
    assert [each.type for each in inner.environment.candidates("My::T", "inner")] == [
        "My::T"
    ]
