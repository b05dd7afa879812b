"""The rule `network`: which URLs it refuses."""

from __future__ import annotations

import pytest

from heat_config_agent.settings import policy

RULE = (
    "[policy]\nnetwork = heat.example, *.git.example, mirror.example:8443, "
    "192.0.2.7, 198.51.100.0/24, 2001:db8::/32\n"
)


@pytest.mark.parametrize(
    "url",
    [
        "https://heat.example/v1/signal?Signature=x",
        "http://HEAT.example.:8000/",
        "https://eu.git.example/a.git",
        "ssh://git@a.b.git.example/a.git",
        "oci://mirror.example:8443/a",
        "http://192.0.2.7/",
        "https://198.51.100.200:5000/v3",
        "http://[2001:db8::1]/",
        "https://anybody@heat.example/",
    ],
)
def test_a_listed_host_is_reached(url: str) -> None:
    """By its name, below its domain, with its port, or by its address."""
    assert policy.parse("/p", RULE).unreachable(url) == ""


@pytest.mark.parametrize(
    "url",
    [
        "https://git.example/a.git",
        "https://evilgit.example/",
        "https://heat.example.evil.example/",
        "https://heat.example@evil.example/",
        "https://evil.example\\@heat.example/",
        "https://evil.example#@heat.example/",
        "https://evil.example?@heat.example/",
        "https://evil.example/@heat.example/",
        "https://heat.example \n.evil.example/",
        "https://mirror.example/",
        "http://mirror.example:80/",
        "http://192.0.2.8/",
        "http://3221225991/",
        "http://0xc0000207/",
        "http://[::ffff:192.0.2.7]/",
        "http://[2001:db9::1]/",
        "http://127.1/",
        "http://192。0。2。7/",
        "http://①92.0.2.7/",
        "http://evil.example%00.git.example.evil/",
        "http:///192.0.2.7/",
        "http:heat.example/",
        "file:///heat.example/",
        "http://heat.example:port/",
        "heat.example",
        "",
    ],
)
def test_any_other_host_is_not(url: str) -> None:
    """Other hosts do not match, however the URL is written, and an unreadable URL matches nothing."""
    found = policy.parse("/p", RULE).unreachable(url)
    assert found.startswith("refused by the rule network of /p: the host ")


@pytest.mark.parametrize(
    "word",
    ["*", "*.", "https://a.example", "a/b", "-x", "a:port", "10.0.0.1/8", "*.*.a"],
)
def test_invalid_host_is_a_mistake(word: str) -> None:
    """A rule that means something else than its author thinks would fall open."""
    with pytest.raises(ValueError, match="network: expected HOST"):
        policy.parse("/p", f"[policy]\nnetwork = {word}\n")


def test_word_none_allows_no_host() -> None:
    """The word means that no host is allowed, even if a name server knows a host of this name."""
    assert "the host none is not in it" in policy.parse(
        "/p", "[policy]\nnetwork = none\n"
    ).unreachable("http://none/")
