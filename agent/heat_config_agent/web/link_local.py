"""Link-local addresses of IPv6 in URLs, whose zone names the interface of this machine: `[fe80::1%25eth0]` (RFC 6874).

The zone means something on this machine alone. So the connection needs it, and no server or certificate knows it.
"""

from __future__ import annotations

import re

_ADDRESS = re.compile(
    r"\w+://(?:[^/?#@]*@)?\[fe[89ab][0-9a-f]:[0-9a-f:.]*(%[^\]/?#]+)?\]", re.IGNORECASE
)


def is_link_local(url: str) -> bool:
    """Return whether the host of a URL is a link-local address of IPv6, which no proxy can reach for this machine."""
    return _ADDRESS.match(url) is not None


def with_plain_zone(text: str) -> str:
    """Return a host, or a URL with one, whose zone is written as sockets expect it: `%eth0` for `%25eth0`."""
    host, percent, zone = text.partition("%25")
    inside = (
        percent
        and "/" not in host.partition("://")[2]
        and ":" in host
        and zone[:1] not in ("", "]")
    )
    return f"{host}%{zone}" if inside else text


def without_zone(host: str) -> str:
    """Return a host as the server knows it."""
    return host.partition("%")[0] if ":" in host else host


def host_header(host: str, port: int, usual: int) -> str:
    """Return the header `Host` for an address with a zone; `usual` is the port that the scheme has by default."""
    address = f"[{without_zone(host)}]"
    return address if port == usual else f"{address}:{port}"
