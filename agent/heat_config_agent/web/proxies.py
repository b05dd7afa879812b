"""The proxies of the environment, and the messages about them, without the user and password in a proxy's URL."""

from __future__ import annotations

import ipaddress
import os
import re
from collections.abc import Iterator
from urllib.parse import urlsplit

from heat_config_agent.model.errors import ProxyError
from heat_config_hooks.values import dataclass

SCHEMES = {
    "http": 80,
    "https": 443,
    "socks4": 1080,
    "socks4a": 1080,
    "socks5": 1080,
    "socks5h": 1080,
}
"""The kinds of proxies, each with its default port."""

_HOST = re.compile(r"[\w.:%-]+")


@dataclass(frozen=True)
class Proxy:
    """A proxy in front of a server."""

    scheme: str
    host: str
    """Empty if the URL of the proxy is not valid."""
    port: int
    variable: str
    """The variable of the environment that sets it."""

    @property
    def place(self) -> str:
        """Its host and port."""
        return (
            f"[{self.host}]:{self.port}"
            if ":" in self.host
            else f"{self.host}:{self.port}"
        )

    @property
    def named(self) -> str:
        """Its name in messages."""
        return f"the proxy {self.place} ({self.variable})"

    def check(self) -> None:
        """Raise ProxyError if the URL of the proxy is not valid."""
        if not self.host:
            raise ProxyError(
                f"the URL of the proxy in {self.variable} cannot be understood",
                hint=f"write it as http://HOST:PORT in {self.variable}",
            )

    def denied(self, host: str) -> ProxyError:
        """Return the error of a proxy that requires a user and password."""
        return ProxyError(
            f"{self.named} requires a user and password (HTTP 407)",
            hint=f"put them into {self.variable}, or {host} into no_proxy",
        )


def parse(url: str, origin: str) -> Proxy:
    """Return the proxy with that URL, which is in front of the server of `origin`."""
    variable = _variable(urlsplit(origin).scheme)
    try:
        parts = urlsplit(url if "://" in url else f"http://{url}")
        host, port = parts.hostname or "", parts.port
    except ValueError:
        return Proxy("", "", 0, variable)
    if parts.scheme not in SCHEMES or not _HOST.fullmatch(host) or port == 0:
        return Proxy("", "", 0, variable)
    return Proxy(parts.scheme, host, port or SCHEMES[parts.scheme], variable)


def _variable(scheme: str) -> str:
    """Return the variable that sets the proxy for a scheme: a lowercase name takes precedence."""
    for variable in (f"{scheme}_proxy", "all_proxy"):
        names = [
            name
            for name, value in os.environ.items()
            if name.lower() == variable and value
        ]
        if names:
            return variable if variable in names else names[0]
    return "the environment"


@dataclass(frozen=True)
class Exempt:
    """An entry of `no_proxy`: servers to which connections are direct."""

    network: ipaddress.IPv4Network | ipaddress.IPv6Network | None = None
    """The addresses of the servers; None for an entry with a name."""
    name: str = ""
    """The name of the servers, in lower case and without dots at its ends; `*` for all servers."""
    inner: bool = False
    """True for names below `name` only."""
    port: int = 0
    """The port of the servers; 0 for all ports."""

    def fits(self, host: str, port: int) -> bool:
        """Return whether a server is one of them; `host` is written as `_host` returns it."""
        if self.name == "*":
            return True
        if self.port not in (0, port):
            return False
        address = _address(host)
        if self.network is not None:
            return (
                address is not None
                and address.version == self.network.version
                and address in self.network
            )
        return address is None and (
            host.endswith(f".{self.name}") or (host == self.name and not self.inner)
        )


def is_exempt(origin: str) -> bool:
    """Return whether `no_proxy` names a server, in one of the forms that curl and Go accept."""
    try:
        parts = urlsplit(origin)
        host, port = (
            _host(parts.hostname or ""),
            parts.port or (443 if parts.scheme == "https" else 80),
        )
    except ValueError:
        return False
    return any(entry.fits(host, port) for _, entry in exemptions() if entry)


def exemptions() -> Iterator[tuple[str, Exempt | None]]:
    """Yield each entry of `no_proxy`, and its meaning; None if it has none."""
    text = os.environ.get("no_proxy") or os.environ.get("NO_PROXY") or ""
    for word in re.split(r"[,\s]+", text):
        if word:
            yield word, _exempt(word)


_PORT = re.compile(r"(?P<host>\[[^\]]*\]|[^:]+):(?P<port>[0-9]{1,5})")
_BRACKETS = re.compile(r"\[([0-9A-Fa-f:.]+)\](/[0-9]+)?")
_NAME = re.compile(r"[^\W.]([\w-]*[^\W.])?(\.[\w-]+)*")


def _exempt(word: str) -> Exempt | None:
    """Return the meaning of an entry: `*`, or an address, a network, or a name, which may have a port."""
    if word == "*":
        return Exempt(name="*")
    match = _PORT.fullmatch(word)
    host, port = (match["host"], int(match["port"])) if match else (word, 0)
    if port > _LAST_PORT:
        return None
    bare = _BRACKETS.sub(r"\1\2", host)
    try:
        network = ipaddress.ip_network(bare, strict=False)
    except ValueError:
        inner = host.startswith("*.")
        name = _host(host[2:] if inner else host.lstrip("."))
        return (
            Exempt(name=name, inner=inner, port=port)
            if _NAME.fullmatch(name) and not _BROKEN.match(name)
            else None
        )
    mapped = getattr(network.network_address, "ipv4_mapped", None)
    if mapped is not None and network.prefixlen >= _MAPPED:
        network = ipaddress.ip_network((mapped, network.prefixlen - _MAPPED))
    return Exempt(network=network, port=port)


_LAST_PORT = 65535

_MAPPED = 96
"""The length of the prefix of IPv4 addresses that are written as those of IPv6."""

_BROKEN = re.compile(r"[0-9.]+$")
"""A name of numbers is a mistyped address."""


def _host(host: str) -> str:
    """Return a host as it is compared: names in lower case, as a name service knows them, without a dot at the end."""
    host = host.lower().removesuffix(".")
    if host.isascii():
        return host
    try:
        return host.encode("idna").decode()
    except UnicodeError:
        return host


def _address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """Return the address that a host is; None for a name."""
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return None
    return getattr(address, "ipv4_mapped", None) or address
