"""Environments: several of them, merged; files beside the one that names them; and what does nothing here."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import strategies as st

from fuzz.examples import tries
from heat_config_agent.model.errors import UsageError
from heat_config_stack.definition.files import File
from heat_config_stack.hot import loader, reader
from heat_config_stack.hot.environment import merge_lists, merge_maps
from heat_config_stack.hot.source import Source
from hot.made import IDENTITY, VERSION, define, examined

TEMPLATE = """\
parameters:
  s: {type: string, default: template}
  l: {type: comma_delimited_list, default: ''}
  j: {type: json, default: {}}
  n: {type: number, default: 0}
"""


def values(*environments: str, **parameters: Any) -> dict[str, Any]:
    """Return the values of the parameters that somebody has given."""
    made = define(TEMPLATE, *environments, **parameters)
    return {name: each.value for name, each in made.parameters.items() if each.given}


# Who wins.


def test_a_later_environment_wins() -> None:
    """The last environment that sets a parameter overrides the others."""
    assert values("parameters: {s: a, n: 1}\n", "parameters: {s: b}\n") == {
        "s": "b",
        "n": 1,
    }


def test_environments_win_over_parameters_beside_them() -> None:
    """Environments override parameters of the command line, as in Heat, with a warning."""
    assert values("parameters: {s: a}\n", s="b", n=2) == {"s": "a", "n": 2}
    _, warnings = examined(TEMPLATE, "parameters: {s: a}\n", s="b")
    assert warnings == [
        (
            "env0.yaml:1:14: parameters.s: this value of s overrides the one given directly, "
            "as in Heat (remove it here)"
        )
    ]


def test_an_environment_that_is_sent_as_one_text_yields() -> None:
    """Parameters that are passed next to an environment in one text take precedence."""
    source = Source(
        File("t.yaml", VERSION + TEMPLATE),
        (File("e", "parameters: {s: a, n: 1}\n"),),
        {},
        {"s": "b"},
        False,
    )
    made = loader.define(source, IDENTITY)
    assert (made.parameters["s"].value, made.parameters["n"].value) == ("b", 1)


def test_defaults_of_an_environment_yield_to_what_is_given() -> None:
    """Defaults of an environment override those of the template only, and unknown names are ignored."""
    made = define(TEMPLATE, "parameter_defaults: {s: env, n: 5, other: 1}\n", n=7)
    assert {name: each.value for name, each in made.parameters.items()} == {
        "s": "env",
        "l": [],
        "j": {},
        "n": 7,
    }


# Merging.


@pytest.mark.parametrize(
    ("strategies", "merged"),
    [
        ("{}", {"s": "b", "l": ["c"], "j": {"m": {"y": 2}}}),
        (
            "{default: merge}",
            {"s": "ab", "l": ["a", "b", "c"], "j": {"k": 1, "m": {"y": 2}}},
        ),
        (
            "{default: deep_merge}",
            {"s": "ab", "l": ["a", "b", "c"], "j": {"k": 1, "m": {"x": 1, "y": 2}}},
        ),
        ("{l: merge}", {"s": "b", "l": ["a", "b", "c"], "j": {"m": {"y": 2}}}),
        ("{l: nosuch}", {"s": "b", "l": ["c"], "j": {"m": {"y": 2}}}),
    ],
)
def test_strategies_say_how_values_are_merged(
    strategies: str, merged: dict[str, Any]
) -> None:
    """A merge strategy applies to all parameters, or to one."""
    first = f"parameter_merge_strategies: {strategies}\nparameters: {{s: a, l: 'a,b', j: {{k: 1, m: {{x: 1}}}}}}\n"
    second = f"parameter_merge_strategies: {strategies}\nparameters: {{s: b, l: c, j: {{m: {{y: 2}}}}}}\n"
    assert values(first, second) == merged


def test_a_strategy_is_remembered_and_two_of_them_are_refused() -> None:
    """The first file that has the parameter decides."""
    first = "parameter_merge_strategies: {s: merge}\nparameters: {s: a}\n"
    assert values(first, "parameters: {s: b}\n") == {"s": "ab"}
    mistakes, _ = examined(
        TEMPLATE,
        first,
        "parameter_merge_strategies: {s: deep_merge}\nparameters: {s: b}\n",
    )
    assert len(mistakes) == 1
    assert (
        'env1.yaml:1:30: parameter_merge_strategies.s: Conflicting merge strategy "deep_merge"'
        in mistakes[0]
    )


@pytest.mark.parametrize("value", ["1", "true", "{a: 1}"])
def test_failed_merge_is_reported_at_the_second_value(value: str) -> None:
    """A failed merge is reported at the second value."""
    both = "parameter_merge_strategies: {default: merge}\n"
    template = (
        TEMPLATE
        if value != "true"
        else TEMPLATE + "  b: {type: boolean, default: false}\n"
    )
    name = {"1": "n", "true": "b", "{a: 1}": "l"}[value]
    mistakes, _ = examined(
        template,
        f"{both}parameters: {{{name}: {value}}}\n",
        f"{both}parameters: {{{name}: {value}}}\n",
    )
    assert any(
        f"env1.yaml:2:14: parameters.{name}: Invalid parameter in environment" in each
        for each in mistakes
    )


maps = st.recursive(
    st.dictionaries(st.sampled_from("abc"), st.integers() | st.booleans(), max_size=3),
    lambda inner: st.dictionaries(
        st.sampled_from("abc"), inner | st.lists(st.integers(), max_size=2), max_size=3
    ),
    max_leaves=6,
)


@tries(150, maps, maps)
def test_merging_adds_and_takes_nothing_away(old: Any, new: Any) -> None:
    """Every key of both is there; of a plain value the newer one; and neither map is changed by it."""
    before = repr((old, new))
    try:
        found = merge_maps(old, new, deep=True)
    except (TypeError, AttributeError, ValueError):
        # a list or a map meets something else
        return
    assert repr((old, new)) == before
    assert set(found) == set(old) | set(new)
    assert all(
        found[key] == value
        for key, value in new.items()
        if isinstance(value, bool | int)
    )
    assert merge_maps(old, {}, deep=True) == old
    assert merge_maps({}, new, deep=True) == new


def test_lists_are_merged_as_they_are_written() -> None:
    """Lists with lists, texts with texts."""
    assert merge_lists([1], [2]) == [1, 2]
    assert merge_lists("a,b", "c") == "a,b,c"
    with pytest.raises(TypeError):
        merge_lists([1], "c")


def test_registries_are_merged_line_by_line() -> None:
    """A null takes nothing back from another file, and `resources` is one line."""
    first = "resource_registry: {A: X, B: Y, resources: {r: {A: Z}}}\n"
    second = "resource_registry: {A: null, B: W, resources: {s: {A: Z}}}\n"
    made = define("description: x\n", first, second).environment
    found = {
        type_: [each.type for each in made.candidates(type_, "r")]
        for type_ in ("A", "B")
    }
    assert found == {"A": ["X", "A"], "B": ["W", "B"]}


# What does nothing here, and what is wrong.


def test_section_without_effect_gives_a_warning() -> None:
    """A part without effect here is accepted with a warning."""
    environment = (
        "resource_registry: {resources: {r: {hooks: [pre-create]}}}\n"
        "event_sinks: [{type: zaqar-queue, target: x}]\n"
    )
    mistakes, warnings = examined("description: x\n", environment)
    assert mistakes == []
    assert [each.partition(": ")[2].split(" ")[1] for each in warnings] == [
        "hooks",
        "an",
    ]
    assert all("nothing here" in each for each in warnings)


@pytest.mark.parametrize(
    ("environment", "said"),
    [
        ("a: b\n", 'env0.yaml:1:1: a: environment has wrong section "a"'),
        ("paramters: {}\n", "(did you mean parameters?)"),
        (
            "parameters:\n",
            'parameters: environment has empty section "parameters" (remove it)',
        ),
        ("[a]\n", "The environment is not a valid YAML mapping data type."),
        ("parameters: [a]\n", 'the section "parameters" of an environment is a map'),
        ("event_sinks: [{type: x}]\n", "there is no event sink of the type 'x'"),
        (
            "resource_registry: {A: 3}\n",
            "resource_registry.A: a type is mapped to another type or to a template",
        ),
        (
            "resource_registry: {resources: {r: {hooks: x}}}\n",
            'resources.r.hooks: Invalid hook type "x"',
        ),
        (
            "resource_registry: {resources: {r: {restricted_actions: [x]}}}\n",
            "Invalid restricted_action type",
        ),
        (
            "resource_registry: {resources: {r: {restricted_actions: {if: [c, 1, {a: b}]}}}}\n",
            "Invalid restricted_action type",
        ),
        (
            "resource_registry: {T: [a.yaml, {a: b}]}\n",
            "a list has templates, of which one is chosen, not",
        ),
        ("parameters: {a: b\n", "it is not YAML"),
    ],
)
def test_wrong_environment_is_reported(environment: str, said: str) -> None:
    """With the place in its file."""
    mistakes, _ = examined("description: x\n", environment)
    assert len(mistakes) == 1
    assert said in mistakes[0]
    assert mistakes[0].startswith("env0.yaml:1:") or mistakes[0].startswith(
        "env0.yaml:2:1"
    )


# From disk.


def write(folder: Path, **files: str) -> None:
    """Write files; `__` stands for a directory, `_` before the kind for a dot."""
    for name, text in files.items():
        path = folder / (
            name.replace("__", "/").rpartition("_")[0] + "." + name.rpartition("_")[2]
        )
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def test_files_are_read_beside_the_one_that_names_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Templates, their files, what those of an environment name, and so on down."""
    write(
        tmp_path,
        top__t_yaml=VERSION
        + "resources: {a: {type: sub/child.yaml}, b: {type: My::T}, g: {type: OS::Heat::ResourceGroup, properties: "
        "{resource_def: {type: member.yaml}}}}\noutputs: {o: {value: {get_file: ../script.sh}}}\n",
        top__sub__child_yaml=VERSION + "outputs: {o: {value: {get_file: inner.txt}}}\n",
        top__sub__inner_txt="inner",
        top__member_yaml=VERSION,
        script_sh="echo",
        environments__e_yaml="resource_registry: {My::T: mine.yaml}\n",
        environments__mine_yaml=VERSION
        + "outputs: {o: {value: {get_file: mine.txt}}}\n",
        environments__mine_txt="mine",
    )
    (tmp_path / "top" / "away").mkdir()
    monkeypatch.chdir(tmp_path / "top" / "away")
    source, missing = reader.read("../t.yaml", ["../../environments/e.yaml"], {})
    assert missing == []
    made = loader.define(source, IDENTITY)
    assert made.outputs["o"].value == "echo"
    for name, type_, content in (
        ("a", "sub/child.yaml", "inner"),
        ("b", "My::T", "mine"),
    ):
        found = next(made.environment.candidates(type_, name))
        inner = made.environment.nested(name, found, IDENTITY, {})
        assert inner.outputs["o"].value == content
    group = made.environment.inside("g")
    assert (
        group.interface(next(group.candidates("member.yaml", "0")).template).properties
        == {}
    )


def test_base_url_says_where_templates_are(tmp_path: Path) -> None:
    """A base_url applies to the whole registry, or to one resource."""
    write(
        tmp_path,
        t_yaml=VERSION + "resources: {a: {type: A}, b: {type: B}}\n",
        e_yaml="resource_registry: {base_url: lib, A: a.yaml, resources: {b: {base_url: other, B: b.yaml}}}\n",
        lib__a_yaml=VERSION,
        lib__other__b_yaml=VERSION,
    )
    source, missing = reader.read(
        str(tmp_path / "t.yaml"), [str(tmp_path / "e.yaml")], {}
    )
    assert missing == []
    made = loader.define(source, IDENTITY)
    assert next(made.environment.candidates("A", "a")).template == str(
        tmp_path / "lib/a.yaml"
    )
    assert next(made.environment.candidates("B", "b")).template == str(
        tmp_path / "lib/other/b.yaml"
    )


def test_missing_files_are_reported_where_they_are_named(tmp_path: Path) -> None:
    """All of it; URLs are not fetched."""
    write(
        tmp_path,
        t_yaml=VERSION
        + "resources: {a: {type: no.yaml}}\noutputs: {o: {value: {get_file: http://h/x}}}\n",
        e_yaml="resource_registry: {T: nowhere/t.yaml}\n",
    )
    _, missing = reader.read(f"{tmp_path}/t.yaml", [f"{tmp_path}/e.yaml"], {})
    said = [str(each).replace(str(tmp_path), "D") for each in missing]
    assert said == [
        "D/t.yaml:2:17: cannot read D/no.yaml: No such file or directory (its path begins at the file that names it)",
        "D/t.yaml:3:23: http://h/x is not fetched: only files of this machine are read (keep a copy of it here)",
        (
            "D/e.yaml:1:21: cannot read D/nowhere/t.yaml: No such file or directory (its path begins at the file that "
            "names it)"
        ),
    ]
    with pytest.raises(UsageError, match=r"cannot read .*/nosuch: No such file"):
        reader.read(f"{tmp_path}/nosuch", [], {})


def test_binary_file_is_passed_on_in_base64(tmp_path: Path) -> None:
    """A binary file is passed on in base64, as by Heat's client."""
    write(tmp_path, t_yaml=VERSION + "outputs: {o: {value: {get_file: x.bin}}}\n")
    (tmp_path / "x.bin").write_bytes(b"\xff\xfe")
    source, _ = reader.read(f"{tmp_path}/t.yaml", [], {})
    assert loader.define(source, IDENTITY).outputs["o"].value == "//4=\n"
