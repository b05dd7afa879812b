from __future__ import annotations

from typing import Any

import pytest

from heat_config_hooks import options
from heat_config_hooks.durations import LONGEST
from heat_config_hooks.errors import HookError
from heat_config_hooks.options import Kind, Option
from heat_config_hooks.reply import UNKNOWN

KNOWN = {
    "flag": Option(Kind.FLAG, "a flag"),
    "text": Option(Kind.TEXT, "a text"),
    "texts": Option(Kind.TEXTS, "texts"),
    "seconds": Option(Kind.SECONDS, "seconds", 30.0),
    "size": Option(Kind.SIZE, "a size"),
    "percent": Option(Kind.PERCENT, "a share"),
    "count": Option(Kind.COUNT, "a number"),
    "map": Option(Kind.MAP, "a map"),
    "choice": Option(Kind.CHOICE, "a choice", "one", ("one", "two")),
}

WRONG: dict[str, list[object]] = {
    "flag": [2, -1, 10**400, "yes", "no", "01", " ", " true", "true\n", [], {}, 1.0],
    "text": [7, 1.5, True, ["a"], {}, "a\0b"],
    "texts": [7, False, {}, [7], ["a", None], [["a"]], "a\0b", ["a\0b"]],
    "seconds": [
        *(
            0,
            -1,
            True,
            False,
            [],
            {},
            10**400,
            LONGEST + 1,
            1e300,
            float("nan"),
            float("inf"),
        ),
        *(
            "",
            "soon",
            "nan",
            "inf",
            "Infinity",
            "-1",
            "1e999",
            "0",
            "1_000",
            "٣",
            "1 2",
            "0x10",
        ),
    ],
    "size": [
        0,
        -1,
        True,
        1.5,
        [],
        {},
        10**15,
        "",
        "0",
        "0M",
        "M",
        "1.5G",
        "1 G",
        "1P",
        "1Ki",
        "-1M",
        "٣M",
        "1\u212a",
    ],
    "percent": [
        0,
        50,
        True,
        0.5,
        [],
        "",
        "%",
        "0%",
        "50",
        "50 %",
        "-1%",
        "1.5%",
        "12345678%",
    ],
    "count": [
        0,
        -1,
        True,
        1.5,
        [],
        {},
        10**9,
        "",
        "0",
        "many",
        "1K",
        "+1",
        "1_000",
        "٣",
    ],
    "map": [[], "{}", 7, True],
    "choice": ["three", "", "ONE", 1, ["one"]],
}
"""Values that are not of the kind of the option."""


def read(name: str, value: object) -> object:
    """Return the converted value of one option."""
    return options.read({name: value}, KNOWN)[name]


def mistakes(given: dict[str, Any], **more: Any) -> list[str]:
    """Return the messages for the mistakes in options."""
    return [str(each) for each in options.mistakes(given, KNOWN, tool="mine", **more)]


@pytest.mark.parametrize(
    ("name", "value", "found"),
    [
        ("flag", True, True),
        ("flag", False, False),
        ("flag", "true", True),
        ("flag", "False", False),
        ("flag", "TRUE", True),
        ("flag", 1, True),
        ("flag", 0, False),
        ("flag", "1", True),
        ("flag", "0", False),
        ("text", "", ""),
        ("text", "a\nb", "a\nb"),
        ("text", "7", "7"),
        ("texts", "a,b", ["a,b"]),
        ("texts", ["a", ""], ["a", ""]),
        ("texts", [], []),
        ("seconds", 5, 5.0),
        ("seconds", 0.5, 0.5),
        ("seconds", "30", 30.0),
        ("seconds", " 1e3 ", 1000.0),
        ("seconds", "+.5", 0.5),
        ("seconds", "5.", 5.0),
        ("seconds", LONGEST, float(LONGEST)),
        ("size", 1, 1),
        ("size", 10**15 - 1, 10**15 - 1),
        ("size", "4096", 4096),
        ("size", "512M", 512 * 1024**2),
        ("size", " 2g ", 2 * 1024**3),
        ("size", "1KB", 1024),
        ("size", "3T", 3 * 1024**4),
        ("percent", "50%", 50),
        ("percent", "0200%", 200),
        ("count", 7, 7),
        ("count", "512", 512),
        ("map", {}, {}),
        ("map", {"a": [1]}, {"a": [1]}),
        ("choice", "two", "two"),
    ],
)
def test_a_value_is_read_as_its_kind(name: str, value: object, found: object) -> None:
    """A hook gets a value of one Python type, never the text of a number."""
    assert read(name, value) == found
    assert type(read(name, value)) is type(found)
    assert mistakes({name: value}) == []


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *((name, each) for name, wrong in WRONG.items() for each in wrong),
    ],
    ids=lambda value: ascii(value)[:12],
)
def test_a_value_of_another_kind_is_a_mistake(name: str, value: object) -> None:
    """The message has the path, the expected type and the value."""
    with pytest.raises(HookError) as caught:
        read(name, value)
    assert caught.value.path == f"options.{name}"
    assert caught.value.code == UNKNOWN
    assert caught.value.problem.startswith(f"expected {KNOWN[name].expected}, not ")
    assert mistakes({name: value}) == [str(caught.value)]


@pytest.mark.parametrize("name", sorted(options.COMMON))
def test_every_hook_knows_the_common_options(name: str) -> None:
    """In addition to its own options."""
    assert options.read({}, {})[name] == options.COMMON[name].default
    assert options.mistakes({name: None}, {}, tool="mine") == []
    assert options.mistakes({name: {}}, {}, tool="mine") != []


def test_a_value_that_is_not_given_is_its_default() -> None:
    """Null counts as missing, and every known option has a value."""
    given = options.read(dict.fromkeys(KNOWN), KNOWN)
    assert given == options.read({}, KNOWN)
    assert given == {
        "timeout": None,
        "idempotent": False,
        "deploy_credentials": False,
        "memory_max": None,
        "artifacts": None,
        "retry": None,
        "verify": None,
        "on_failure": None,
        "cpu_quota": None,
        "tasks_max": None,
        "size": None,
        "percent": None,
        "count": None,
        "flag": None,
        "text": None,
        "texts": [],
        "seconds": 30.0,
        "map": None,
        "choice": "one",
    }


def test_empty_text_does_not_set_a_flag() -> None:
    """A parameter without a value gives an empty text."""
    known = {
        "on": Option(Kind.FLAG, "a flag", True),
        "off": Option(Kind.FLAG, "a flag", False),
    }
    found = options.read({"on": "", "off": "", "idempotent": ""}, known)
    assert (found["on"], found["off"], found["idempotent"]) == (True, False, False)
    assert options.mistakes({"on": "", "idempotent": ""}, known, tool="mine") == []


def test_a_default_is_nobodys_to_change() -> None:
    """A hook that changes its list does not change the default."""
    known = {**KNOWN, "more": Option(Kind.TEXTS, "texts", ["a"])}
    for name, default in (("texts", []), ("more", ["a"])):
        first = options.read({}, known)[name]
        assert isinstance(first, list)
        first.append("x")
        assert options.read({}, known)[name] == default


def test_a_list_that_is_read_is_not_the_one_that_was_given() -> None:
    """A hook that changes its list does not change the deployment."""
    given = ["a"]
    assert read("texts", given) is not given


def test_option_of_a_hook_overrides_a_common_one() -> None:
    """An option that a hook declares with the name of a common one is the hook's."""
    assert (
        options.read({"timeout": "soon"}, {"timeout": Option(Kind.TEXT, "when")})[
            "timeout"
        ]
        == "soon"
    )


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ({}, None),
        ({"timeout": "5"}, 5.0),
        ({"timeout": "soon"}, None),
        ({"timeout": 5, "idempotent": []}, 5.0),
    ],
)
def test_a_common_option_can_be_read_by_itself(
    given: dict[str, object], found: object
) -> None:
    """Other options, and a wrong value, do not matter."""
    assert options.common(given, "timeout") == found


def test_options_that_are_not_known_are_passed_over() -> None:
    """`read` ignores unknown options."""
    assert "other" not in options.read({"other": 1}, KNOWN)


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("txet", "text"),
        ("Flag", "flag"),
        ("timeuot", "timeout"),
        ("deploy-credentials", "deploy_credentials"),
    ],
)
def test_similar_option_is_suggested(name: str, meant: str) -> None:
    """The message suggests the known option with a similar name."""
    assert mistakes({name: 1}) == [
        f"options.{name}: mine has no such option; did you mean {meant}?"
    ]


def test_all_names_are_listed_where_none_is_similar() -> None:
    """The message lists the options in alphabetical order."""
    known = (
        "artifacts, choice, count, cpu_quota, deploy_credentials, flag, idempotent, map, memory_max, on_failure, "
        "percent, retry, seconds, size, tasks_max, text, texts, timeout, verify"
    )
    assert mistakes({"zzz": None}) == [
        f"options.zzz: mine has no such option (its options are {known})"
    ]


def test_every_mistake_is_told() -> None:
    """In the order of the options in the deployment."""
    paths = [
        each.partition(":")[0]
        for each in mistakes({"zzz": 1, "flag": "yes", "text": "fine", "timeout": -1})
    ]
    assert paths == ["options.zzz", "options.flag", "options.timeout"]


def test_options_of_another_tool_pass() -> None:
    """Options of a component are for several tools; a wrong value for our own option is still a mistake."""
    assert mistakes({"tags": 7}, also={"tags"}) == []
    assert (
        len(mistakes({"tags": 7, "flag": "yes", "tag": 1}, also={"tags", "flag"})) == 2
    )


def test_long_value_is_shortened() -> None:
    """The message has its beginning and its end."""
    (sentence,) = mistakes({"flag": "x" * 1_000_000})
    assert len(sentence) < 200
    (sentence,) = mistakes({"flag": {"deep": [["x" * 1000] * 1000] * 1000}})
    assert len(sentence) < 2000


def test_option_names_of_other_types_are_reported() -> None:
    """YAML may produce such names."""
    assert mistakes({7: 1})[0].startswith("options.7: mine has no such option")  # type: ignore[dict-item]


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ({}, {}),
        ({"a": 1}, {"a": 1}),
        ({"mine": {"a": 1}}, {"a": 1}),
        ({"mine": {"a": 1}, "b": 2}, {"a": 1}),
        ({"mine": {}, "b": 2}, {}),
        ({"mine": "text", "b": 2}, {"mine": "text", "b": 2}),
        ({"mine": None, "b": 2}, {"mine": None, "b": 2}),
        ({"other": {"a": 1}, "b": 2}, {"b": 2}),
        ({"other": {"a": 1}}, {}),
        ({"other": "text"}, {"other": "text"}),
        ({"nobody": {"a": 1}}, {"nobody": {"a": 1}}),
    ],
)
def test_of_a_components_options_each_tool_has_its_own(
    given: dict[str, object], found: dict[str, object]
) -> None:
    """The section of the tool, or else all options outside of sections."""
    assert options.own(given, "mine", {"mine", "other"}) == found


def test_expected_type_is_described_in_words() -> None:
    """For each type."""
    assert {name: each.expected for name, each in KNOWN.items()} == {
        "flag": "true or false",
        "text": "text",
        "texts": "text, or a list of texts",
        "seconds": "a number of seconds, greater than 0 and at most 31622400 (366 days)",
        "size": "a number of bytes greater than 0, such as 512M",
        "percent": "a percentage, such as 50%",
        "count": "a whole number, greater than 0",
        "map": "an object",
        "choice": "one of one, two",
    }
