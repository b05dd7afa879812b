"""The constraints of parameters and properties, compared with Heat's verdicts."""

from __future__ import annotations

from typing import Any

import pytest

from heat_config_stack.definition import constraints, custom_constraints
from heat_config_stack.definition.constraints import boolean, declared, number, violated

GOOD = {
    "ip_addr": ["1.2.3.4", "::1", "::ffff:1.2.3.4"],
    "net_cidr": ["10.0.0.0/8", "10.0.0.1/24", "fe80::/64", "::/0"],
    "ip_or_cidr": ["10.0.0.1", "10.0.0.0/8", "10.0.0.1/24", "::1/128"],
    "mac_addr": [
        "aa:bb:cc:dd:ee:ff",
        "AA-BB-CC-DD-EE-FF",
        "aabb.ccdd.eeff",
        "aabbccddeeff",
        "aabbcc-ddeeff",
        "aabb:ccdd:eeff",
        "a:b:c:d:e:f",
        "aabbccddeef",
        "aabbc:ddeef",
    ],
    "dns_name": ["a", "a.b", "a.b.", "a" * 63, ""],
    "rel_dns_name": ["a", "", "a.b"],
    "dns_domain": ["a.", "", "a.b."],
    "iso_8601": [
        "2015-01-01",
        "2015-01-01T00:00:00Z",
        "2015-01-01 00:00",
        "20150101",
        "2015",
        "2015-01-01T10",
        "2015-01-01T10:00:00+01:00",
        "2015-01-01T10:00:00.5+0100",
        "2015-01",
        "2015-1-1",
        "20150101T101010Z",
    ],
    "expiration": ["", "2999-01-01", "2999-01-01T00:00:00Z", " 2999-01-01 "],
    "timezone": ["", "Europe/Berlin", "UTC", "Etc/GMT+1"],
    "json_string": ["", "{}", "1", "null"],
    "cron_expression": [
        "",
        "* * * * *",
        "*/5 * * * *",
        "0 0 1 1 *",
        "0 0 * * 7",
        "0 0 * jan mon",
        "0 0 * * mon-fri",
        "1,2,3 * * * *",
        "1-5/2 * * * *",
        "5-1 * * * *",
        "@daily",
        "* * * * * *",
        "* * * * * * *",
        "0 0 l * *",
        "0 0 * * l5",
        "0 0 * * 1#2",
        "0-59/70 * * * *",
        "0 0 ? * *",
        " 0 0 * * * ",
        "0 0 * * sun,sat",
        "0 0 31 2 *",
        "0/5 * * * *",
        "@hourly",
        "0 0 L * *",
        "r * * * *",
    ],
}
"""Custom constraint → values that Heat takes."""

BAD = {
    "ip_addr": [
        "01.2.3.4",
        "1.2.3",
        "x",
        "",
        "1.2.3.4 ",
        "fe80::1%eth0",
        "256.1.1.1",
        "1:2:3:4:5:6:7:8:9",
        "\u0661.2.3.4",
    ],
    "net_cidr": [
        "10.0.0.0/33",
        "10.0.0.0",
        "10/8",
        "10.0.0.0/255.0.0.0",
        "x/8",
        "",
        "10.0.0.0/08",
    ],
    "ip_or_cidr": ["10.0", "", "a/b"],
    "mac_addr": ["aa:bb:cc:dd:ee", "gg:bb:cc:dd:ee:ff", ""],
    "dns_name": ["A.b", "-a", "a-", "a..b", "a_b", "x" * 64, "1.2.", "a.1.", "."],
    "rel_dns_name": ["a.b.", "x" * 253],
    "dns_domain": ["a", "a.1."],
    "iso_8601": [
        "2015-13-01",
        "yesterday",
        "",
        "2015-01-01T25:00",
        "2015-W01",
        "2015-02-30",
    ],
    "expiration": ["2000-01-01", "x"],
    "timezone": ["Mars/Base", "../x", "/etc/passwd", "GMT+1", "europe/berlin"],
    "json_string": ["{a", "[1"],
    "cron_expression": [
        "* *",
        "60 * * * *",
        "0 24 * * *",
        "0 0 0 * *",
        "0 0 * 13 *",
        "0 0 * * 8",
        "a * * * *",
        "@reboot",
        "* * * * * * * *",
        "*/0 * * * *",
        "? * * * *",
        "1,,2 * * * *",
        "1- * * * *",
        "-5 * * * *",
        "0 0 * * 5l",
        "h * * * *",
        "* * * * * 61",
        "* * * * * 0 1969",
        "* * * * * 0 2100",
    ],
}
"""Custom constraint → values that Heat refuses."""


@pytest.mark.parametrize(
    ("name", "value"),
    [(name, value) for name, values in GOOD.items() for value in values],
)
def test_custom_constraints_take_what_heat_takes(name: str, value: str) -> None:
    """No cloud is needed for these."""
    assert custom_constraints.violated(name, value) == ""


@pytest.mark.parametrize(
    ("name", "value"),
    [(name, value) for name, values in BAD.items() for value in values],
)
def test_custom_constraints_refuse_what_heat_refuses(name: str, value: str) -> None:
    """With a sentence that has the value."""
    assert custom_constraints.violated(name, value).startswith(
        f"Error validating value {value!r}: "
    )


def test_constraints_of_a_cloud_are_met_by_anything() -> None:
    """There is nobody to ask; a constraint that Heat does not have is refused all the same."""
    assert custom_constraints.violated("nova.flavor", "any") == ""
    assert custom_constraints.violated("neutron.lbaas.pool", "any") == ""
    assert custom_constraints.violated("test_constr", 0) == ""
    for name in ("no.such", "nova", ""):
        assert "constraint not found" in custom_constraints.violated(name, "x")


@pytest.mark.parametrize(
    ("kind", "limit", "value", "type_", "problem"),
    [
        ("length", {"min": 2, "max": 4}, "abc", "string", ""),
        (
            "length",
            {"min": 2},
            "a",
            "string",
            "length (1) is out of range (min: 2, max: None)",
        ),
        (
            "length",
            {"max": "1"},
            ["a", "b"],
            "list",
            "length (2) is out of range (min: None, max: 1)",
        ),
        ("length", {"max": 1}, {"a": 1}, "map", ""),
        (
            "length",
            {"max": 9},
            123,
            "string",
            "123 has no length: quote it if it is meant as text",
        ),
        ("range", {"min": 1, "max": 2}, 2, "number", ""),
        (
            "range",
            {"min": 1, "max": 2},
            "2.5",
            "number",
            "2.5 is out of range (min: 1, max: 2)",
        ),
        (
            "range",
            {"min": "1e2"},
            99,
            "number",
            "99 is out of range (min: 100.0, max: None)",
        ),
        ("modulo", {"step": 2, "offset": 1}, 3, "number", ""),
        (
            "modulo",
            {"step": 2, "offset": 1},
            "2",
            "number",
            "2 is not a multiple of 2 with an offset of 1",
        ),
        ("modulo", {"step": -3, "offset": -1}, -4, "number", ""),
        ("allowed_values", ["1", 2], 1, "number", ""),
        ("allowed_values", [1, 2], "1", "string", ""),
        ("allowed_values", ["a"], ["a", "a"], "list", ""),
        (
            "allowed_values",
            ["a"],
            ["a", "b"],
            "list",
            '["a", "b"] is not an allowed value ["a"]',
        ),
        ("allowed_values", ["yes"], True, "boolean", ""),
        ("allowed_values", [True], "x", "boolean", "Unrecognized value 'x'"),
        ("allowed_pattern", "[a-z]+", "abc", "string", ""),
        (
            "allowed_pattern",
            "a|ab",
            "ab",
            "string",
            '"ab" does not match pattern "a|ab"',
        ),
        ("allowed_pattern", "[a-z]+$", "abc\n", "string", "does not match pattern"),
        (
            "allowed_pattern",
            "[0-9]+",
            12,
            "string",
            "12 is not text, so no pattern can match it: quote it",
        ),
        (
            "custom_constraint",
            "ip_addr",
            5,
            "string",
            "Error validating value '5': Invalid IP address",
        ),
    ],
)
def test_values_meet_constraints_or_not(
    kind: str, limit: Any, value: Any, type_: str, problem: str
) -> None:
    """A value that does not is told why."""
    assert declared(kind, limit) == ""
    found = violated(kind, limit, value, type_)
    assert (problem in found) if problem else found == ""


@pytest.mark.parametrize(
    ("kind", "limit", "problem"),
    [
        ("length", {}, "must have a min value and/or a max value"),
        ("length", {"min": None}, "must have a min value and/or a max value"),
        ("length", {"min": 1.5}, "min/max length must be integral"),
        ("length", [1, 2], "Invalid length constraint, expected a mapping"),
        ("range", {"minimum": 1}, "Invalid key 'minimum' for range constraint"),
        ("range", {"min": "abc"}, "min of the range constraint: 'abc' is not a number"),
        ("range", {"min": []}, "[] is not a number"),
        ("modulo", {"step": 2}, "must have a step value and an offset value"),
        ("modulo", {"step": 0, "offset": 0}, "step cannot be 0."),
        (
            "modulo",
            {"step": 2, "offset": 2},
            "offset must be smaller (by absolute value) than step.",
        ),
        (
            "modulo",
            {"step": 3, "offset": -1},
            "step and offset must be both positive or both negative.",
        ),
        ("modulo", {"step": 2.5, "offset": 1}, "step/offset must be integer"),
        ("allowed_values", "abc", "allowed_values must be a list"),
        (
            "allowed_pattern",
            "[",
            "is not a regular expression: unterminated character set",
        ),
        ("allowed_pattern", 1, "allowed_pattern must be text"),
        ("custom_constraint", ["a"], "custom_constraint must be the name of one"),
    ],
)
def test_a_constraint_may_be_wrong_itself(kind: str, limit: Any, problem: str) -> None:
    """A wrong declaration of a constraint is reported for the declaration, whatever the value is."""
    assert problem in declared(kind, limit)


def test_numbers_are_read_as_python_reads_them() -> None:
    """With blanks, signs and exponents; not in hexadecimal digits, and nothing that JSON cannot say."""
    assert [number(each) for each in (" 7 ", "+5", "1_000", "1e3", "0.5", True)] == [
        7,
        5,
        1000,
        1000.0,
        0.5,
        True,
    ]
    wrong: list[Any] = ["0x10", "", "abc", "nan", "inf", [], {}, None]
    for each in wrong:
        with pytest.raises(ValueError, match="is not a number"):
            number(each)


def test_truth_values_are_words() -> None:
    """In any case, with blanks around them."""
    assert [boolean(each) for each in (True, " YES ", "t", 1, "on")] == [True] * 5
    assert [boolean(each) for each in (False, "No", "f", 0, "off")] == [False] * 5
    wrong: list[Any] = ["maybe", "", 2, None]
    for each in wrong:
        with pytest.raises(ValueError, match="acceptable values are"):
            boolean(each)


def test_every_constraint_is_for_some_types() -> None:
    """The table of types has exactly the constraints that can be declared."""
    assert set(constraints.APPLIES) == {
        "length",
        "range",
        "modulo",
        "allowed_values",
        "allowed_pattern",
        "custom_constraint",
    }
