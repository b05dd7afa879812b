"""The proxies of the environment, and the messages about them, without the user and password in a proxy's URL."""

from __future__ import annotations

import os
import re
from urllib.parse import urlsplit

from heat_config_agent.model.errors import ProxyError
from heat_config_hooks.values import dataclass

SCHEMES = {"http": 80, "https": 443, "socks4": 1080, "socks4a": 1080, "socks5": 1080, "socks5h": 1080}
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
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

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
        names = [name for name, value in os.environ.items() if name.lower() == variable and value]
        if names:
            return variable if variable in names else names[0]
    return "the environment"
