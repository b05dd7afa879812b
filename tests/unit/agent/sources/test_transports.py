from __future__ import annotations

from collections.abc import Mapping

import pytest

from heat_config_agent.settings.layers import Layer
from heat_config_agent.sources import transports
from heat_config_agent.sources.base import credentials
from heat_config_agent.sources.transports import Level, Transport

HEAT = {
    "auth_url": "http://h",
    "user_id": "u",
    "password": "geheim",
    "project_id": "p",
    "stack_id": "s/1",
    "resource_name": "server",
}
REQUEST = {"metadata_url": "http://h/x?sig=geheim"}


def level(
    origin: str = "here", only: tuple[str, ...] = (), **sections: Mapping[str, object]
) -> Level:
    """Return what a place says that has these sections."""
    return transports.level(Layer(origin, sections), only)


def names(transports: list[Transport]) -> list[tuple[str, str]]:
    """Return who says which transport."""
    return [(way.origin, way.name) for way in transports]


def test_a_place_names_its_transports() -> None:
    """Complete transports are used with their defaults, and incomplete ones are reported with what is missing."""
    found = level(
        heat=HEAT,
        request=REQUEST,
        zaqar={"auth_url": "http://h"},
        local={"path": ("/x",)},
    )
    assert [way.name for way in found.transports] == ["heat", "request"]
    assert found.transports[0].values["region_name"] == ""
    [trouble] = found.troubles
    assert (
        trouble
        == "the settings of zaqar in here are incomplete: add user_id, password, project_id, queue_id"
    )


def test_an_application_credential_takes_the_place_of_the_user() -> None:
    """Neither a user nor a password is missing then, but the secret may be."""
    held = {
        name: value
        for name, value in HEAT.items()
        if name not in ("user_id", "password")
    }
    held["application_credential_id"] = "a1"
    assert level(heat=held).troubles == (
        "the settings of heat in here are incomplete: add application_credential_secret",
    )
    [way] = level(heat={**held, "application_credential_secret": "s"}).transports
    assert credentials(way.values).holder == "application credential a1"


def test_empty_settings_have_no_transports() -> None:
    """Has no transports, and nothing is wrong with it."""
    assert level() == Level("here", ())


@pytest.mark.parametrize(
    ("collectors", "only", "wanted"),
    [
        ((), (), ["heat", "request"]),
        (("request",), (), ["request"]),
        (("local",), (), []),
        ((), ("heat", "file"), ["heat"]),
        (("request",), ("heat",), []),
    ],
)
def test_unselected_transport_is_skipped(
    collectors: tuple[str, ...], only: tuple[str, ...], wanted: list[str]
) -> None:
    """By the place itself, or by the administrator."""
    found = level(
        only=only, heat=HEAT, request=REQUEST, agent={"collectors": collectors}
    )
    assert [way.name for way in found.transports] == wanted


def test_the_same_values_are_the_same_way_whoever_says_them() -> None:
    """Equal settings from different origins are one transport, also if one names a default."""
    [one] = level("one", heat=HEAT).transports
    [two] = level("two", heat={**HEAT, "region_name": ""}).transports
    [other] = level("one", heat={**HEAT, "password": "new"}).transports
    assert one == two
    assert hash(one) == hash(two)
    assert one != other


def test_no_secret_is_shown() -> None:
    """A transport appears in no message with its secrets."""
    assert "geheim" not in repr(level(heat=HEAT, request=REQUEST))


OLD, NEW = level("old", heat=HEAT), level("new", heat={**HEAT, "password": "new"})
OLDEST = level("oldest", request=REQUEST)


def test_the_newest_counts() -> None:
    """Only the newest level is used, unless it has failed."""
    assert names(transports.in_use([NEW, OLD, OLDEST], lambda _: False)) == [
        ("new", "heat")
    ]


def test_failing_transport_is_polled_together_with_the_next() -> None:
    """A failing transport is polled together with the next one in order, because it may recover."""
    failed = {*NEW.transports}
    assert names(transports.in_use([NEW, OLD, OLDEST], failed.__contains__)) == [
        ("new", "heat"),
        ("old", "heat"),
    ]
    failed = {*NEW.transports, *OLD.transports}
    assert names(transports.in_use([NEW, OLD, OLDEST], failed.__contains__)) == [
        ("new", "heat"),
        ("old", "heat"),
        ("oldest", "request"),
    ]
    assert len(transports.in_use([NEW, OLD, OLDEST], lambda _: True)) == 3


def test_a_place_that_names_none_has_no_say() -> None:
    """An origin without transports, or with the same ones again, changes nothing."""
    again = level("again", heat={**HEAT, "password": "new"})
    assert names(
        transports.in_use([Level("nothing", ()), NEW, OLD], lambda _: False)
    ) == [("new", "heat")]
    failed = {*NEW.transports}
    assert names(transports.in_use([NEW, again, OLD], failed.__contains__)) == [
        ("new", "heat"),
        ("old", "heat"),
    ]


def test_next_place_is_used_until_all_transports_of_the_first_work() -> None:
    """The next place is used as well while a transport of the first fails."""
    both = level("both", heat=HEAT, request=REQUEST)
    failed = {both.transports[1]}
    assert names(transports.in_use([both, NEW], failed.__contains__)) == [
        ("both", "heat"),
        ("both", "request"),
        ("new", "heat"),
    ]


def test_no_settings_give_no_transport() -> None:
    """Without settings there is no transport."""
    assert transports.in_use([], lambda _: False) == []
