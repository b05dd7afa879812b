"""Checks of a server step by step: its name, the connection, its certificate, its clock, and Keystone's login."""

from __future__ import annotations

import contextlib
import ipaddress
import os
import re
import socket
import ssl
import threading
import time
from collections.abc import Iterator, Mapping
from email.utils import parsedate_to_datetime
from urllib.parse import urlsplit

from heat_config_agent import web
from heat_config_agent.doctor import Finding, Verdict, failed, ok, warning
from heat_config_agent.model.deployment import Credentials
from heat_config_agent.model.errors import DeniedError, ProxyError, UnreachableError
from heat_config_agent.settings.effective import certificate_trouble
from heat_config_agent.sources import base
from heat_config_agent.web.causes import UNKNOWN_AUTHORITY
from heat_config_agent.web.direct import default_certificates
from heat_config_agent.web.link_local import with_plain_zone
from heat_config_agent.web.proxies import Proxy, exemptions, parse
from heat_config_hooks.values import dataclass, field

NAME_SECONDS = 15.0
"""Seconds that the lookup of a server's address may take."""

CONNECT_SECONDS = 5.0
ANSWER_SECONDS = web.READ_SECONDS

SKEW = 5.0
"""Seconds by which clocks may differ."""

TOO_MUCH = 300.0
"""Difference of clocks in seconds from which servers refuse signatures and tokens."""


@dataclass(frozen=True, kw_only=True)
class Server:
    """A server that a source needs."""

    check: str
    """The source."""
    service: str
    """Its name for people, for example Keystone."""
    url: str
    setting: str
    """The origin of its URL, for people."""
    ca_file: str | None = None
    ca_setting: str = "ca_file of [agent]"
    direct: bool = False
    """True if it is asked without a proxy."""


@dataclass
class Clocks:
    """The differences between the clocks of servers and ours; may be filled by several threads."""

    skews: dict[str, float] = field(default_factory=dict)
    """Host → seconds that our clock is ahead."""

    def findings(self) -> Iterator[Finding]:
        """Check our clock against the clocks of the servers."""
        if not self.skews:
            return
        host, worst = max(self.skews.items(), key=lambda skew: abs(skew[1]))
        text = f"it is {_duration(abs(worst))} {'ahead of' if worst > 0 else 'behind'} the clock of {host}"
        todo = "set it: timedatectl, chronyc makestep"
        if abs(worst) > TOO_MUCH:
            yield failed(
                "clock",
                f"{text}: servers refuse signatures and tokens, and certificates seem invalid",
                todo,
            )
        elif abs(worst) > SKEW:
            yield warning("clock", text, todo)
        else:
            yield ok("clock", "it agrees with the clocks of the servers")


def check_server(server: Server, clocks: Clocks) -> Iterator[Finding]:
    """Check whether a server can be reached, and if not, yield the step that failed."""
    check = server.check
    try:
        parts = urlsplit(server.url)
        host, port = (
            parts.hostname or "",
            parts.port or (443 if parts.scheme in ("https", "wss") else 80),
        )
    except ValueError:
        host, port, parts = "", 0, urlsplit("")
    if not host or parts.scheme not in ("http", "https", "ws", "wss"):
        yield failed(
            check,
            f"the URL of {server.service} is not valid",
            f"correct {server.setting}",
        )
        return
    name = f"{server.service} at {_place(host, port)}"
    origin = f"{parts.scheme.replace('ws', 'http')}://{parts.netloc.rpartition('@')[2]}"
    proxy = None if server.direct else _proxy(origin)
    if proxy and not proxy.host:
        yield failed(
            check,
            f"the URL of the proxy in {proxy.variable} is not valid",
            "write http://HOST:PORT",
        )
        return
    if proxy and _is_near(host):
        yield warning(
            check,
            f"{host} is on this machine or its own link, but is asked through the proxy {proxy.place}",
            f"add {host} to no_proxy",
        )
    bundle, setting = _trusted(server)
    distrust = (
        certificate_trouble(bundle)
        if bundle and parts.scheme in ("https", "wss")
        else ""
    )
    if distrust:
        yield failed(
            check, distrust, f"put certificates in PEM form there, or correct {setting}"
        )
        return
    began = time.monotonic()
    trouble = _connected(server, host, port, proxy)
    if trouble:
        yield trouble
        return
    if proxy and proxy.scheme.startswith("socks"):
        return
    path = "/v3" if server.service == "Keystone" else "/"
    try:
        sent = time.time()
        answer = web.Connection(
            origin, server.ca_file, direct=server.direct, seconds=ANSWER_SECONDS
        ).fetch(origin + path, {}, ANSWER_SECONDS)
        answered = time.time()
    except ProxyError as error:
        yield failed(check, error.brief, error.hint or "ask its operator")
        return
    except UnreachableError as error:
        yield _unanswered(server, name, host, proxy, error)
        return
    duration = f"{(time.monotonic() - began) * 1000:.0f} ms"
    intermediary = f" by the proxy {proxy.place} ({proxy.variable})" if proxy else ""
    if answer.status in (502, 503, 504):
        yield warning(
            check,
            f"{name} answers HTTP {answer.status} {answer.reason}{intermediary}",
            "it, or a server behind it, is down: ask its operator",
        )
        return
    _compare(answer, sent, answered, _place(host, port), clocks)
    yield ok(check, f"{name} answers after {duration}{intermediary}")


def check_no_proxy() -> Iterator[Finding]:
    """Check whether all entries of `no_proxy` have a meaning."""
    proxies_set = {
        name.lower()
        for name, value in os.environ.items()
        if value and name.lower().endswith("_proxy")
    }
    unknown = [word for word, entry in exemptions() if entry is None]
    if unknown and proxies_set - {"no_proxy"}:
        yield warning(
            "no_proxy",
            f"these entries of no_proxy name no server, and prevent no proxy: {', '.join(unknown)}",
            "write a name (example.org), an address, a network (10.0.0.0/8), or * for all servers",
        )


REFUSED_LOGIN = "«Keystone refuses the login» in docs/troubleshoot.md"
"""The section with the remedy; an update of the stack makes no new user and sets no password."""


def check_login(
    check: str,
    credentials: Credentials,
    service: tuple[str, str],
    ca_file: str | None,
    clocks: Clocks,
) -> Iterator[Finding]:
    """Check whether Keystone accepts the credentials and knows the service, given as its type and its name."""
    before = Server(
        check=check,
        service="Keystone",
        url=credentials.auth_url,
        setting=f"auth_url of [{check}]",
        ca_file=ca_file,
    )
    findings = list(check_server(before, clocks))
    yield from findings
    if any(finding.verdict is Verdict.FAILED for finding in findings):
        return
    from heat_config_agent.web import keystone  # noqa: PLC0415  # 30 ms, only needed for a login

    try:
        cloud = keystone.Cloud(credentials, ca_file)
        cloud.token(seconds=ANSWER_SECONDS)
    except DeniedError as error:
        reason = str(error)
        if "404" in reason:
            todo = f"check that auth_url of [{check}] is Keystone's"
        elif credentials.application_credential_id:
            todo = f"make a new application credential, and write its id and secret into [{check}]"
        else:
            todo = f"have its password in Keystone set to the one in [{check}], or its user made again: {REFUSED_LOGIN}"
        yield failed(
            check, f"Keystone rejects the login of {credentials.holder}: {reason}", todo
        )
        return
    except UnreachableError as error:
        elsewhere = re.search(
            r"answers HTTP (?!429|5)|web page|cannot be understood", error.brief
        )
        todo = (
            f"check that auth_url of [{check}] is Keystone's"
            if elsewhere
            else error.hint or "ask its operator"
        )
        yield failed(check, f"Keystone gives no token: {error.brief}", todo)
        return
    kind, name = service
    try:
        url = cloud.endpoint(kind, seconds=ANSWER_SECONDS)
    except UnreachableError as error:
        region = f"region_name of [{check}], and " if credentials.region_name else ""
        yield failed(
            check,
            str(error),
            f"check {region}that this cloud has {name} with a public endpoint",
        )
        return
    yield ok(
        check,
        f"Keystone accepts the login of {credentials.holder}, and has an endpoint of {name}",
    )
    after = Server(
        check=check,
        service=name,
        url=url,
        setting=f"{name}'s public endpoint in Keystone",
        ca_file=ca_file,
    )
    yield from check_server(after, clocks)


def _proxy(origin: str) -> Proxy | None:
    """Return the proxy through which a server is asked; None if it is asked directly."""
    url = web.proxy(origin)
    return parse(url, origin) if url else None


def _connected(
    server: Server, host: str, port: int, proxy: Proxy | None
) -> Finding | None:
    """Return why there is no connection to a server, or to its proxy; None if there is one."""
    if proxy:
        host, port = proxy.host, proxy.port
    peer = f"the proxy ({proxy.variable})" if proxy else server.service
    setting = f"${proxy.variable}" if proxy else server.setting
    addresses, why = _addresses(host, port)
    if why:
        return failed(
            server.check,
            f"cannot find the address of {peer}: the name {host!r} {why}",
            f"check the name in {setting}, and /etc/resolv.conf",
        )
    last = ""
    for family, address in addresses[:4]:
        try:
            with socket.socket(family, socket.SOCK_STREAM) as sock:
                sock.settimeout(CONNECT_SECONDS)
                sock.connect(address)
                return None
        except TimeoutError:
            last = f"no answer within {CONNECT_SECONDS:g} s"
        except OSError as error:
            last = error.strerror or type(error).__name__
    hint = {
        os.strerror(
            111
        ): f"nothing listens there: the server is down, or {setting} is wrong",
        os.strerror(101): "this machine has no route to it: check `ip route`",
        os.strerror(113): "this machine has no route to it: check `ip route`",
    }.get(last, f"check firewalls, security groups and routes, and {setting}")
    return failed(
        server.check, f"no connection to {peer} at {_place(host, port)}: {last}", hint
    )


def _addresses(
    host: str, port: int
) -> tuple[list[tuple[int, tuple[object, ...]]], str]:
    """Return the addresses of a name, or why there are none. A thread bounds the time, as a lookup has no timeout."""
    outcome: list[tuple[list[tuple[int, tuple[object, ...]]], str]] = []

    def look() -> None:
        try:
            infos = socket.getaddrinfo(
                with_plain_zone(host), port, type=socket.SOCK_STREAM
            )
            outcome.append(([(family, address) for family, *_, address in infos], ""))
        except socket.gaierror as error:
            silent = error.errno == socket.EAI_AGAIN
            outcome.append(
                (
                    [],
                    "could not be looked up: the name service does not answer"
                    if silent
                    else "is unknown",
                )
            )
        except (OSError, UnicodeError):
            outcome.append(([], "is not a valid name"))

    thread = threading.Thread(target=look, daemon=True)
    thread.start()
    thread.join(NAME_SECONDS)
    silence = f"could not be looked up: the name service did not answer within {NAME_SECONDS:g} s"
    return outcome[0] if outcome else ([], silence)


def _unanswered(
    server: Server, name: str, host: str, proxy: Proxy | None, error: UnreachableError
) -> Finding:
    """Return why a server that accepts connections has not answered."""
    intermediary = f" (by the proxy {proxy.place})" if proxy else ""
    refused = _cause(error, ssl.SSLCertVerificationError)
    if isinstance(refused, ssl.SSLCertVerificationError):
        return _distrusted(server, f"{name}{intermediary}", host, refused)
    broken = _cause(error, ssl.SSLError)
    if isinstance(broken, ssl.SSLError):
        reason = (broken.reason or "").replace("_", " ").lower()
        return failed(
            server.check,
            f"{name}{intermediary} accepts connections, but TLS fails: {reason or error}",
            f"if the server speaks plain http, correct {server.setting}, which says https",
        )
    if server.url.startswith(("https:", "wss:")):
        return failed(
            server.check,
            f"{name}{intermediary} accepts connections, but never completes TLS: {error}",
            f"if the server speaks plain http, correct {server.setting}, which says https; else ask its operator",
        )
    return failed(
        server.check,
        f"{name}{intermediary} accepts connections, but does not answer: {error}",
        f"if the server speaks https, correct {server.setting}, which says http; else ask its operator",
    )


def _trusted(server: Server) -> tuple[str, str]:
    """Return the file with trusted certificates and its origin; both are empty for the default."""
    if server.ca_file:
        return server.ca_file, server.ca_setting
    for variable in ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"):
        path = os.environ.get(variable, "")
        if path:
            return ("" if os.path.isdir(path) else path), f"${variable}"  # noqa: PTH112  # it is text already
    return "", ""


def _distrusted(
    server: Server, name: str, host: str, error: ssl.SSLCertVerificationError
) -> Finding:
    """Return why a certificate is not trusted, by OpenSSL's error numbers (X509_V_ERR_*)."""
    clock = time.strftime("%Y-%m-%d %H:%M", time.gmtime())
    bundle = _trusted(server)[0]
    if error.verify_code == 10:
        text = f"the certificate of {name} has expired"
        todo = f"ask its operator for a new one; if this machine's clock is wrong, set it (it says {clock} UTC)"
    elif error.verify_code == 9:
        text = f"the certificate of {name} is not valid yet"
        todo = f"check this machine's clock, which says {clock} UTC"
    elif error.verify_code in (62, 64):
        text = f"the certificate of {name} is for another name than {host}"
        todo = f"use the name in the certificate for the server in {server.setting}"
    elif error.verify_code in UNKNOWN_AUTHORITY:
        text = f"the certificate of {name} is signed by an authority that is not in {bundle or default_certificates()}"
        todo = f"put the authority's certificate into a file, and name that file in {server.ca_setting}"
    else:
        text = f"the certificate of {name} is not trusted: {error.verify_message}"
        todo = (
            f"ask its operator, or name the right certificates in {server.ca_setting}"
        )
    return failed(server.check, text, todo)


def _cause(error: BaseException, kind: type[BaseException]) -> BaseException | None:
    """Return the first error of a kind among the causes of an error; None if there is none."""
    visited: set[int] = set()
    queue: list[object] = [error]
    while queue:
        candidate = queue.pop()
        if not isinstance(candidate, BaseException) or id(candidate) in visited:
            continue
        if isinstance(candidate, kind):
            return candidate
        visited.add(id(candidate))
        reason = getattr(candidate, "reason", None)
        queue += [candidate.__cause__, candidate.__context__, reason, *candidate.args]
    return None


def _compare(
    answer: web.Answer, sent: float, answered: float, place: str, clocks: Clocks
) -> None:
    """Compare the Date of an answer with our clock: it has whole seconds, and lies between asking and answering."""
    headers: Mapping[str, str] = answer.headers
    if "Age" in headers:
        return  # from a cache, so the date is old
    with contextlib.suppress(ValueError, TypeError, OverflowError, IndexError):
        theirs = parsedate_to_datetime(headers.get("Date", "")).timestamp()
        ahead = max(sent - (theirs + 1), 0.0) or min(answered - theirs, 0.0)
        clocks.skews[place] = ahead


def _is_near(host: str) -> bool:
    """Return whether a host is this machine, or on its own link."""
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return host == "localhost"
    return address.is_loopback or address.is_link_local


def _place(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _duration(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.0f} s"
    if seconds < 7200:
        return f"{seconds / 60:.0f} min"
    return (
        f"{seconds / 3600:.0f} h" if seconds < 172800 else f"{seconds / 86400:.0f} days"
    )


def read_hint(path: str) -> str:
    """Return the URL in a file; empty if there is none."""
    with (
        contextlib.suppress(OSError),
        open(path, encoding="utf-8", errors="replace") as file,
    ):
        return file.read(4096).strip()
    return ""


def for_source(
    name: str, values: Mapping[str, object], ca_file: str | None, clocks: Clocks
) -> Iterator[Finding]:
    """Check all servers that a source needs."""
    if name in ("heat", "zaqar"):
        service = (
            ("orchestration", "Heat") if name == "heat" else ("messaging", "Zaqar")
        )
        yield from check_login(name, base.credentials(values), service, ca_file, clocks)
    elif name in ("cfn", "request", "ec2"):
        url, setting = (
            str(values.get("metadata_url") or ""),
            f"metadata_url of [{name}]",
        )
        if not url and values.get("metadata_hint"):
            setting = str(values["metadata_hint"])
            url = read_hint(setting)
        services = {
            "cfn": "Heat's CloudFormation API",
            "request": "the metadata server",
        }
        certificate = str(values.get("ca_certificate") or "")
        server = Server(
            check=name,
            service=services.get(name, "the EC2 metadata service"),
            url=url,
            setting=setting,
            ca_file=certificate or ca_file,
            ca_setting="ca_certificate of [cfn]"
            if name == "cfn"
            else "ca_file of [agent]",
            direct=name == "ec2",
        )
        yield from check_server(server, clocks)
