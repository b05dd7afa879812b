"""The values of a host, and the command line that reaches it."""

from __future__ import annotations

import pytest

from heat_config_stack.hosts.host import Host


@pytest.mark.parametrize(
    ("place", "host", "title"),
    [
        ("db1", Host("db1"), "db1"),
        ("me@db1.example", Host("db1.example", "me"), "me@db1.example"),
        ("ssh://db1:2222", Host("db1", "", 2222), "db1:2222"),
        ("ssh://me@10.0.0.7:22/", Host("10.0.0.7", "me", 22), "me@10.0.0.7:22"),
        ("ssh://[fe80::1%eth0]:22", Host("fe80::1%eth0", "", 22), "[fe80::1%eth0]:22"),
    ],
)
def test_place_is_read(place: str, host: Host, title: str) -> None:
    """It is kept in JSON with its own values only, and shown as people write it."""
    assert Host.at(place) == host
    assert host.title == title
    assert Host.from_json({**host.to_json(), "newer": 1}) == host


@pytest.mark.parametrize(
    "place",
    [
        "",
        "a b",
        "-x",
        "me@-x",
        "db1:22",
        "ssh://db1:0",
        "ssh://db1:x",
        "ssh://a/b",
        "ssh://u:p@h",
        "$(x)",
        "a;b",
    ],
)
def test_other_text_is_not_a_place(place: str) -> None:
    """Nothing becomes an option of the client, or a word of a shell."""
    with pytest.raises(ValueError, match=r".") as raised:
        Host.at(place)
    assert ":p@" not in str(raised.value)


def test_client_is_never_asked_a_question() -> None:
    """The address comes after all options, and the command is one word of plain words."""
    host = Host(
        "db1", "me", 22, "/srv/a b", "env X=1 /opt/agent", become=True, ssh_config="/c"
    )
    words = host.words("hosts", "ask", "id", "log")
    assert words[:2] == ["ssh", "-T"]
    assert "BatchMode=yes" in words
    assert words[-9:-2] == ["-F", "/c", "-p", "22", "-l", "me", "--"]
    assert words[-2:] == [
        "db1",
        "sudo -n -- env X=1 /opt/agent hosts ask --state-dir '/srv/a b' id log",
    ]
