"""A server, step by step: its name, the way to it, its certificate, its clock; and Keystone, and what it lets us do."""

from __future__ import annotations

import contextlib
import ipaddress
import os
import socket
import ssl
import threading
import time
from collections.abc import Iterator, Mapping
from email.utils import parsedate_to_datetime
from urllib.parse import urlsplit

from heat_config_agent import web
from heat_config_agent.checks import Finding, Verdict, failed, ok, warning
from heat_config_agent.errors import DeniedError, UnreachableError
from heat_config_agent.model import Credentials
from heat_config_agent.settings import no_certificates
from heat_config_agent.web.causes import UNKNOWN_AUTHORITY
from heat_config_agent.web.direct import usual_certificates
from heat_config_hooks.values import dataclass, field

NAME_SECONDS = 15.0
"""How long it may take to find out a server's address."""

CONNECT_SECONDS = 5.0
ANSWER_SECONDS = web.READ_SECONDS

SKEW = 5.0
"""Seconds that a clock may be wrong."""

TOO_MUCH = 300.0
"""Seconds from which on signatures and tokens are refused."""


@dataclass(frozen=True, kw_only=True)
class Server:
    """A server that a source needs."""

    check: str
    """The source."""
    what: str
    """What it is, e.g. Keystone."""
    url: str
    setting: str
    """Where its URL comes from, for people."""
    ca_file: str | None = None
    ca_setting: str = "ca_file of [agent]"
    direct: bool = False
    """Whether it is asked past all proxies."""


@dataclass
class Clocks:
    """By how much the clocks of servers differ from ours; for several threads."""

    skews: dict[str, float] = field(default_factory=dict)
    """Host → seconds that ours is ahead."""

    def findings(self) -> Iterator[Finding]:
        """Say whether ours is right."""
        if not self.skews:
            return
        host, worst = max(self.skews.items(), key=lambda each: abs(each[1]))
        ours = f"it is {_duration(abs(worst))} {'ahead of' if worst > 0 else 'behind'} that of {host}"
        todo = "set it: timedatectl, chronyc makestep"
        if abs(worst) > TOO_MUCH:
            yield failed("clock", f"{ours}: signatures, tokens and certificates are refused with that", todo)
        elif abs(worst) > SKEW:
            yield warning("clock", ours, todo)
        else:
            yield ok("clock", "it agrees with those of the servers")


def server(wanted: Server, clocks: Clocks) -> Iterator[Finding]:
    """Find out whether a server can be reached, and if not, at which step."""
    check = wanted.check
    try:
        parts = urlsplit(wanted.url)
        host, port = parts.hostname or "", parts.port or (443 if parts.scheme in ("https", "wss") else 80)
    except ValueError:
        host, port, parts = "", 0, urlsplit("")
    if not host or parts.scheme not in ("http", "https", "ws", "wss"):
        yield failed(check, f"the URL of {wanted.what} cannot be understood", f"correct {wanted.setting}")
        return
    name = f"{wanted.what} at {_place(host, port)}"
    origin = f"{parts.scheme.replace('ws', 'http')}://{parts.netloc.rpartition('@')[2]}"
    proxy = None if wanted.direct else _proxy(origin)
    if proxy and _is_near(host):
        yield warning(
            check,
            f"{host} is on this machine or its own link, but would be asked through the proxy {proxy.place}",
            f"add {host} to no_proxy",
        )
    bundle, setting = _trusted(wanted)
    distrust = no_certificates(bundle) if bundle and parts.scheme in ("https", "wss") else ""
    if distrust:
        yield failed(check, distrust, f"put certificates there in PEM form, or correct {setting}")
        return
    began = time.monotonic()
    trouble = _connected(wanted, host, port, proxy)
    if trouble:
        yield trouble
        return
    if proxy and proxy.scheme.startswith("socks"):
        return
    path = "/v3" if wanted.what == "Keystone" else "/"
    try:
        asked = time.time()
        answer = web.Connection(origin, wanted.ca_file, direct=wanted.direct, seconds=ANSWER_SECONDS).fetch(
            origin + path, {}, ANSWER_SECONDS
        )
        answered = time.time()
    except UnreachableError as error:
        yield _unanswered(wanted, name, host, proxy, error)
        return
    took = f"{(time.monotonic() - began) * 1000:.0f} ms"
    by = f" by the proxy {proxy.place} ({proxy.variable})" if proxy else ""
    if answer.status == 407:
        yield failed(
            check,
            f"the proxy {proxy.place if proxy else ''} wants user and password",
            f"put them into {proxy.variable if proxy else 'the variable'}, or {host} into no_proxy",
        )
        return
    if answer.status in (502, 503, 504):
        yield warning(
            check,
            f"{name} answers HTTP {answer.status} {answer.reason}{by}",
            "it, or what is behind it, is down: ask who runs it",
        )
        return
    _compare(answer, asked, answered, _place(host, port), clocks)
    yield ok(check, f"{name} answers after {took}{by}")


def login(
    check: str,
    credentials: Credentials,
    service: tuple[str, str],
    ca_file: str | None,
    clocks: Clocks,
) -> Iterator[Finding]:
    """Find out whether Keystone lets the user in, and where the service (its type, its name for people) is."""
    before = Server(
        check=check, what="Keystone", url=credentials.auth_url, setting=f"auth_url of [{check}]", ca_file=ca_file
    )
    found = list(server(before, clocks))
    yield from found
    if any(each.verdict is Verdict.FAILED for each in found):
        return
    from heat_config_agent import keystone  # noqa: PLC0415  # 100 ms, for those who log in

    try:
        cloud = keystone.Cloud(credentials, ca_file)
        cloud.token(seconds=ANSWER_SECONDS)
    except DeniedError as error:
        said = str(error)
        todo = (
            f"is auth_url of [{check}] really Keystone's?"
            if "404" in said
            else "user_id and password are no longer those of the stack's user, or the stack is gone: update the stack"
        )
        yield failed(check, f"Keystone does not let the user {credentials.user_id} in: {said}", todo)
        return
    except UnreachableError as error:
        yield failed(check, f"Keystone gives no token: {error}", f"is auth_url of [{check}] really Keystone's?")
        return
    kind, what = service
    try:
        url = cloud.endpoint(kind, seconds=ANSWER_SECONDS)
    except UnreachableError as error:
        region = f"is region_name of [{check}] right? " if credentials.region_name else ""
        yield failed(check, str(error), f"{region}Does this cloud have {what}, with a public endpoint?")
        return
    yield ok(check, f"Keystone lets the user {credentials.user_id} in, and knows where {what} is")
    after = Server(check=check, what=what, url=url, setting=f"{what}'s public endpoint in Keystone", ca_file=ca_file)
    yield from server(after, clocks)


@dataclass(frozen=True)
class _Proxy:
    scheme: str
    host: str
    port: int
    variable: str

    @property
    def place(self) -> str:
        return _place(self.host, self.port)


def _proxy(origin: str) -> _Proxy | None:
    """Return the proxy through which a server is asked."""
    found = web.proxy(origin)
    if not found:
        return None
    scheme = urlsplit(origin).scheme
    names = (f"{scheme}_proxy", f"{scheme.upper()}_PROXY", "all_proxy", "ALL_PROXY")
    variable = next((name for name in names if os.environ.get(name)), "the environment")
    text = found if "://" in found else f"http://{found}"
    try:
        parts = urlsplit(text)
        port = parts.port or {"https": 443, "http": 80}.get(parts.scheme, 1080)
    except ValueError:
        return _Proxy("http", "", 0, variable)
    return _Proxy(parts.scheme, parts.hostname or "", port, variable)


def _connected(wanted: Server, host: str, port: int, proxy: _Proxy | None) -> Finding | None:
    """Return why there is no connection to a server, or to the proxy before it."""
    if proxy:
        host, port = proxy.host, proxy.port
    what = f"the proxy ({proxy.variable})" if proxy else wanted.what
    setting = f"${proxy.variable}" if proxy else wanted.setting
    addresses, why = _addresses(host, port)
    if why:
        return failed(
            wanted.check,
            f"the address of {what} cannot be found: the name {host!r} {why}",
            f"is the name in {setting} right? What does /etc/resolv.conf say?",
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
        os.strerror(111): f"nothing listens there: is it down, or is {setting} wrong?",
        os.strerror(101): "this machine has no route there: ip route",
        os.strerror(113): "this machine has no route there: ip route",
    }.get(last, f"a firewall, a security group or a missing route? Or is {setting} wrong?")
    return failed(wanted.check, f"no connection to {what} at {_place(host, port)}: {last}", hint)


def _addresses(host: str, port: int) -> tuple[list[tuple[int, tuple[object, ...]]], str]:
    """Return the addresses of a name, or why they cannot be found. A name service may keep us waiting for long."""
    found: list[tuple[list[tuple[int, tuple[object, ...]]], str]] = []

    def look() -> None:
        try:
            every = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
            found.append(([(family, address) for family, *_, address in every], ""))
        except socket.gaierror as error:
            silent = error.errno == socket.EAI_AGAIN
            found.append(([], "could not be looked up: the name service does not answer" if silent else "is unknown"))
        except (OSError, UnicodeError):
            found.append(([], "is no name"))

    thread = threading.Thread(target=look, daemon=True)
    thread.start()
    thread.join(NAME_SECONDS)
    return (
        found[0]
        if found
        else ([], f"could not be looked up: the name service is silent for {NAME_SECONDS:g} s already")
    )


def _unanswered(wanted: Server, name: str, host: str, proxy: _Proxy | None, error: UnreachableError) -> Finding:
    """Say why a server to which there is a connection has not answered."""
    by = f" (by the proxy {proxy.place})" if proxy else ""
    refused = _cause(error, ssl.SSLCertVerificationError)
    if isinstance(refused, ssl.SSLCertVerificationError):
        return _distrusted(wanted, f"{name}{by}", host, refused)
    broken = _cause(error, ssl.SSLError)
    if isinstance(broken, ssl.SSLError):
        reason = (broken.reason or "").replace("_", " ").lower()
        return failed(
            wanted.check,
            f"{name}{by} does not speak TLS as we do: {reason or error}",
            f"does it speak plain http? Then correct {wanted.setting}",
        )
    return failed(
        wanted.check,
        f"{name}{by} takes connections, but does not answer: {error}",
        f"does it speak https? Then correct {wanted.setting}; else ask who runs it",
    )


def _trusted(wanted: Server) -> tuple[str, str]:
    """Return the file that says whom to trust, and who says so; empty where it is the usual one."""
    if wanted.ca_file:
        return wanted.ca_file, wanted.ca_setting
    for variable in ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"):
        path = os.environ.get(variable, "")
        if path:
            return ("" if os.path.isdir(path) else path), f"${variable}"  # noqa: PTH112  # it is text already
    return "", ""


def _distrusted(wanted: Server, name: str, host: str, error: ssl.SSLCertVerificationError) -> Finding:
    """Say why a certificate is not trusted, by OpenSSL's numbers (X509_V_ERR_*)."""
    clock = time.strftime("%Y-%m-%d %H:%M", time.gmtime())
    used = _trusted(wanted)[0]
    if error.verify_code == 10:
        says = f"the certificate of {name} has expired"
        todo = f"ask who runs it for a new one; or is this machine's clock wrong? It says {clock} UTC"
    elif error.verify_code == 9:
        says = f"the certificate of {name} is not valid yet"
        todo = f"is this machine's clock wrong? It says {clock} UTC"
    elif error.verify_code in (62, 64):
        says = f"the certificate of {name} is for another name than {host}"
        todo = f"have {wanted.setting} name the server as its certificate does"
    elif error.verify_code in UNKNOWN_AUTHORITY:
        place = f"{used} does not have it" if used else f"{usual_certificates()}, which is used, does not have it"
        says = f"the certificate of {name} is of an authority that is unknown: {place}"
        todo = f"put the authority's certificate into a file, and name that in {wanted.ca_setting}"
    else:
        says = f"the certificate of {name} is not trusted: {error.verify_message}"
        todo = f"ask who runs it, or name the right certificates in {wanted.ca_setting}"
    return failed(wanted.check, says, todo)


def _cause(error: BaseException, kind: type[BaseException]) -> BaseException | None:
    """Return the error of a kind that an error comes from."""
    seen: set[int] = set()
    ahead: list[object] = [error]
    while ahead:
        each = ahead.pop()
        if not isinstance(each, BaseException) or id(each) in seen:
            continue
        if isinstance(each, kind):
            return each
        seen.add(id(each))
        ahead += [each.__cause__, each.__context__, getattr(each, "reason", None), *each.args]
    return None


def _compare(answer: web.Answer, asked: float, answered: float, place: str, clocks: Clocks) -> None:
    """Compare a server's clock with ours, as far as its answer tells: to the second, while it was under way."""
    headers: Mapping[str, str] = answer.headers
    if "Age" in headers:
        return  # of some other time
    with contextlib.suppress(ValueError, TypeError, OverflowError, IndexError):
        theirs = parsedate_to_datetime(headers.get("Date", "")).timestamp()
        ahead = max(asked - (theirs + 1), 0.0) or min(answered - theirs, 0.0)
        clocks.skews[place] = ahead


def _is_near(host: str) -> bool:
    """Whether a host is this machine, or on its own link."""
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
    return f"{seconds / 3600:.0f} h" if seconds < 172800 else f"{seconds / 86400:.0f} days"


def read_hint(path: str) -> str:
    """Return the URL that a file holds; empty where it holds none."""
    with contextlib.suppress(OSError), open(path, encoding="utf-8", errors="replace") as file:
        return file.read(4096).strip()
    return ""


def for_source(name: str, values: Mapping[str, object], ca_file: str | None, clocks: Clocks) -> Iterator[Finding]:
    """Look at all servers that a source needs."""
    if name in ("heat", "zaqar"):
        credentials = Credentials(
            auth_url=str(values["auth_url"]),
            user_id=str(values["user_id"]),
            password=str(values["password"]),
            project_id=str(values["project_id"]),
            region_name=str(values.get("region_name") or ""),
        )
        service = ("orchestration", "Heat") if name == "heat" else ("messaging", "Zaqar")
        yield from login(name, credentials, service, ca_file, clocks)
    elif name in ("cfn", "request", "ec2"):
        url, setting = str(values.get("metadata_url") or ""), f"metadata_url of [{name}]"
        if not url and values.get("metadata_hint"):
            setting = str(values["metadata_hint"])
            url = read_hint(setting)
        what = {"cfn": "Heat's CloudFormation API", "request": "the server of the metadata"}
        certificate = str(values.get("ca_certificate") or "")
        wanted = Server(
            check=name,
            what=what.get(name, "the EC2 metadata service"),
            url=url,
            setting=setting,
            ca_file=certificate or ca_file,
            ca_setting="ca_certificate of [cfn]" if name == "cfn" else "ca_file of [agent]",
            direct=name == "ec2",
        )
        yield from server(wanted, clocks)
