"""The variable `no_proxy`, in the forms that curl and Go accept."""

from __future__ import annotations

import pytest

from heat_config_agent import web
from heat_config_agent.doctor import Verdict, network
from heat_config_agent.web import proxies

PROXY = "http://127.0.0.1:3128"

DIRECT = [
    ("*", "http://cloud.example"),
    ("a.example, *", "http://cloud.example"),
    ("cloud.example", "http://cloud.example:8000"),
    ("cloud.example", "http://heat.cloud.example"),
    (".cloud.example", "http://cloud.example"),
    (".cloud.example", "http://heat.cloud.example"),
    ("*.cloud.example", "http://heat.cloud.example"),
    ("Cloud.Example", "http://cloud.example"),
    ("cloud.example", "http://CLOUD.example"),
    ("cloud.example.", "http://cloud.example"),
    ("cloud.example", "http://cloud.example."),
    ("xn--bcher-kva.example", "http://bücher.example"),
    ("bücher.example", "http://xn--bcher-kva.example"),
    ("a.example,cloud.example", "http://cloud.example"),
    ("a.example cloud.example", "http://cloud.example"),
    ("a.example,\tcloud.example ,,", "http://cloud.example"),
    ("cloud.example:8000", "http://cloud.example:8000"),
    ("cloud.example:80", "http://cloud.example"),
    ("cloud.example:443", "https://cloud.example"),
    (".cloud.example:8000", "http://heat.cloud.example:8000"),
    ("*.cloud.example:8000", "http://heat.cloud.example:8000"),
    ("192.0.2.7", "http://192.0.2.7:8000"),
    ("192.0.2.7:8000", "http://192.0.2.7:8000"),
    ("192.0.2.0/24", "http://192.0.2.7"),
    ("192.0.2.99/24", "http://192.0.2.7"),
    ("192.0.2.7/32", "http://192.0.2.7"),
    ("0.0.0.0/0", "http://192.0.2.7"),
    ("::1", "http://[::1]:8000"),
    ("[::1]", "http://[::1]:8000"),
    ("[::1]:8000", "http://[::1]:8000"),
    ("0:0:0:0:0:0:0:1", "http://[::1]"),
    ("2001:DB8::A", "http://[2001:db8::a]"),
    ("2001:db8::a", "http://[2001:DB8:0::A]"),
    ("::1/128", "http://[::1]:8000"),
    ("2001:db8::/32", "https://[2001:db8:7::1]:8774"),
    ("2001:db8::1/32", "https://[2001:db8:7::1]:8774"),
    ("[2001:db8::]/32", "https://[2001:db8:7::1]:8774"),
    ("::ffff:192.0.2.0/120", "http://192.0.2.7"),
    ("192.0.2.0/24", "http://[::ffff:192.0.2.7]"),
]

PROXIED = [
    ("", "http://cloud.example"),
    ("cloud.example", "http://mycloud.example"),
    ("cloud.example", "http://cloud.example.org"),
    ("*.cloud.example", "http://cloud.example"),
    ("cloud.example:8000", "http://cloud.example:8004"),
    ("cloud.example:8000", "http://cloud.example"),
    ("192.0.2.7", "http://192.0.2.77"),
    ("192.0.2.7", "http://7.192.0.2.7.example"),
    ("192.0.2.0/24", "http://192.0.3.7"),
    ("192.0.2.7:8000", "http://192.0.2.7:8004"),
    ("0.0.0.0/0", "http://[2001:db8::1]"),
    ("0.0.0.0/0", "http://cloud.example"),
    ("::1/128", "http://[::2]"),
    ("2.7", "http://192.0.2.7"),
    ("192.0.2", "http://192.0.2.7"),
    ("1", "http://[::1]"),
]

UNKNOWN = [
    "192.0.2.0/33",
    "192.0.*",
    "192.168.1",
    "http://cloud.example",
    "[::1",
    "2001:db8",
    "a.*.example",
    "/24",
    ".",
]


def proxy(
    monkeypatch: pytest.MonkeyPatch,
    no_proxy: str,
    origin: str,
    variable: str = "no_proxy",
) -> str | None:
    """Return the proxy for a server."""
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    for name in ("http_proxy", "https_proxy"):
        monkeypatch.setenv(name, PROXY)
    monkeypatch.setenv(variable, no_proxy)
    return web.proxy(origin)


@pytest.mark.parametrize(("no_proxy", "origin"), DIRECT)
def test_server_in_no_proxy_gets_no_proxy(
    monkeypatch: pytest.MonkeyPatch, no_proxy: str, origin: str
) -> None:
    """Names, addresses, networks and ports are compared by their meaning."""
    assert proxy(monkeypatch, no_proxy, origin) is None


@pytest.mark.parametrize(("no_proxy", "origin"), PROXIED)
def test_server_that_no_proxy_does_not_name_gets_the_proxy(
    monkeypatch: pytest.MonkeyPatch, no_proxy: str, origin: str
) -> None:
    """Parts of names and addresses are not enough."""
    assert proxy(monkeypatch, no_proxy, origin) == PROXY


def test_lowercase_variable_takes_precedence(monkeypatch: pytest.MonkeyPatch) -> None:
    """NO_PROXY counts if no_proxy is not set, or empty."""
    assert (
        proxy(monkeypatch, "cloud.example", "http://cloud.example", "NO_PROXY") is None
    )
    monkeypatch.setenv("no_proxy", "")
    assert web.proxy("http://cloud.example") is None
    monkeypatch.setenv("no_proxy", "other.example")
    assert web.proxy("http://cloud.example") == PROXY


@pytest.mark.parametrize("word", UNKNOWN)
def test_doctor_names_an_entry_that_names_no_server(
    monkeypatch: pytest.MonkeyPatch, word: str
) -> None:
    """An entry in no form of curl or Go is named, and the others count."""
    assert proxy(monkeypatch, f"{word},cloud.example", "http://cloud.example") is None
    [finding] = network.check_no_proxy()
    assert (finding.verdict, finding.text.endswith(f": {word}")) == (
        Verdict.WARNING,
        True,
    )
    for name in ("http_proxy", "https_proxy"):
        monkeypatch.delenv(name)
    assert list(network.check_no_proxy()) == []


def test_forms_with_a_meaning_are_not_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every form of the tables above has a meaning."""
    for no_proxy, origin in (*DIRECT, *PROXIED):
        proxy(monkeypatch, no_proxy, origin)
        words = [word for word, entry in proxies.exemptions() if entry is None]
        assert set(words) <= {"2.7", "192.0.2", "1"}, no_proxy
