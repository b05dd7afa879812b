"""HTTP by the library requests: through proxies, and to URLs that have to be interpreted before they can be sent."""

from __future__ import annotations

import contextlib
import contextvars
import http.client
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any
from urllib.parse import urlsplit
from urllib.request import getproxies

import requests
import requests.adapters
import requests.utils
import urllib3
import urllib3.connection
import urllib3.exceptions
from requests.structures import CaseInsensitiveDict

from heat_config_agent.model.errors import ProxyError, UnreachableError
from heat_config_agent.web import causes, link_local, proxies
from heat_config_agent.web.answers import Arriving, Response, left
from heat_config_agent.web.direct import PART, USUAL, WRITABLE
from heat_config_agent.web.held_back import HeldBack

_REFUSED = re.compile(r"Tunnel connection failed: (\d{3})\b")
"""The standard library's message if a proxy does not connect to a server."""

_UNREADABLE = (
    requests.exceptions.InvalidURL,
    requests.exceptions.MissingSchema,
    requests.exceptions.InvalidSchema,
)


class Server:
    """A server, behind a proxy if one is set. Not for use by two threads at once."""

    def __init__(
        self, origin: str, certificates: str | None, proxy: str | None
    ) -> None:
        """Trust the certificates in that file or folder; None for the default ones."""
        self._origin = origin
        self._verify = certificates or True
        self._proxies = {origin.partition("://")[0].lower(): proxy} if proxy else {}
        self._adapter = Adapter()
        self._session = requests.Session()
        self._session.trust_env = False
        self._session.headers = CaseInsensitiveDict(USUAL)

    @contextlib.contextmanager
    def exchange(
        self,
        verb: str,
        url: str,
        body: bytes | HeldBack,
        headers: Mapping[str, str],
        limits: tuple[float, float],
    ) -> Iterator[Arriving]:
        """Send one request to the unchanged URL. The answer can be read while the context lasts.

        `limits` are the timeout of the connection and the longest silence of the server, in seconds. Raises
        UnreachableError.
        """
        request = requests.Request(verb, url, dict(headers), data=body or None)
        with explained(limits), unchanged(url):
            response = self._adapter.send(
                self._prepared(request),
                timeout=(min(limits[0], left()), min(limits[1], left())),
                stream=True,
                proxies=self._proxies,
                verify=self._verify,
            )
        with contextlib.closing(response):
            yield arriving(response, limits)

    def _prepared(self, request: requests.Request) -> requests.PreparedRequest:
        """Return a prepared request, which is sent `unchanged`.

        For a URL of this server that can be sent unchanged, only the headers are prepared, so that the libraries see
        nothing of the URL but its origin.
        """
        if not (
            request.url.startswith(f"{self._origin}/")
            and WRITABLE.fullmatch(request.url)
        ):
            return self._session.prepare_request(request)
        prepared = requests.PreparedRequest()
        prepared.method, prepared.url, prepared.body = (
            request.method,
            f"{self._origin}/",
            request.data or None,
        )
        prepared.headers = CaseInsensitiveDict(
            {**self._session.headers, **request.headers}
        )
        if request.data or request.method not in ("GET", "HEAD"):
            prepared.headers["Content-Length"] = str(len(request.data or b""))
        return prepared


def proxy(origin: str) -> str | None:
    """Return the URL of the environment's proxy for a server; None for no proxy."""
    try:
        return (
            requests.utils.select_proxy(
                origin, {} if proxies.is_exempt(origin) else getproxies()
            )
            or None
        )
    except ValueError:  # the origin is not valid
        return None


def arriving(response: requests.Response, limits: tuple[float, float]) -> Arriving:
    """Return a streamed response as an answer whose body is read within `limits`."""
    raw = response.raw
    # urllib3 2.1 and later can return all that has arrived without waiting for more; for earlier ones, read little.
    some: Callable[[], bytes] = (
        (lambda: raw.read1(PART, decode_content=False))
        if hasattr(raw, "read1")
        else (lambda: raw.read(1024, decode_content=False))
    )

    def read() -> bytes:
        with explained(limits):
            return some()

    return Arriving(response.status_code, response.headers, read)


@contextlib.contextmanager
def explained(limits: tuple[float, float]) -> Iterator[None]:
    """Turn the errors of the libraries into UnreachableError; `limits` as for `Server.exchange`."""
    try:
        yield
    except (
        urllib3.exceptions.HTTPError,
        http.client.HTTPException,
        OSError,
        ValueError,
    ) as error:  # or requests'
        raise UnreachableError(
            _cause(error, limits), hint=causes.hint(error)
        ) from error


def _cause(error: Exception, limits: tuple[float, float]) -> str:
    """Return the cause of an error of the libraries in a few words, the same as for a direct connection."""
    if isinstance(error, requests.exceptions.ConnectTimeout):
        return causes.cause(TimeoutError(), causes.no_connection(limits[0]))
    if isinstance(error, requests.exceptions.Timeout):
        return causes.cause(TimeoutError(), causes.no_answer(limits[1]))
    if "SOCKS" in str(error):
        return "a SOCKS proxy is set, and the package PySocks is not installed"
    if isinstance(error, _UNREADABLE):
        return "its URL cannot be understood"
    seen = causes.innermost(error)
    if isinstance(seen, urllib3.exceptions.ReadTimeoutError):
        seen = TimeoutError()
    elif isinstance(seen, urllib3.exceptions.HTTPError):
        cut = isinstance(seen, urllib3.exceptions.IncompleteRead)
        seen = http.client.IncompleteRead(b"") if cut else http.client.HTTPException()
    return causes.cause(seen, causes.broke_off(limits[1]))


_url: contextvars.ContextVar[str] = contextvars.ContextVar("url")
"""The URL of the request that is being sent."""


_reached: contextvars.ContextVar[bool] = contextvars.ContextVar(
    "reached", default=False
)
"""True if the request that is being sent has come past the proxy; urllib3 before 2.0 blames the proxy even then."""


@contextlib.contextmanager
def unchanged(url: str) -> Iterator[None]:
    """Have the request in the context sent to exactly this URL."""
    token = _url.set(url)
    try:
        yield
    finally:
        _url.reset(token)


class _Unchanged:
    """A connection that sends the `unchanged` URL: requests and urllib3 would normalize it, which breaks signatures."""

    response_class: Any = Response

    def connect(self) -> None:
        super().connect()  # type: ignore[misc]
        _reached.set(True)

    def _tunnel(self) -> None:
        super()._tunnel()  # type: ignore[misc]
        _reached.set(True)

    def putrequest(self, method: str, url: str, *args: Any, **options: Any) -> None:
        if getattr(self, "sock", None) is not None:
            _reached.set(True)
        target = _url.get(url).partition("#")[0]
        if not WRITABLE.fullmatch(target):
            target = url
        elif url.startswith("/"):  # the path alone; a proxy receives the whole URL
            path = target.partition("://")[2].partition("/")[2].partition("?")
            target = (
                "/" + "".join(path)
                if "/" in target.partition("://")[2].partition("?")[0]
                else url
            )
        connection: Any = super()  # of the class that this one is mixed into
        host: Any = self
        has_zone = "%" in host.host and not options.get("skip_host")
        connection.putrequest(
            method,
            target,
            *args,
            **{**options, **({"skip_host": True} if has_zone else {})},
        )
        if has_zone:
            connection.putheader(
                "Host", link_local.host_header(host.host, host.port, host.default_port)
            )


class _HttpConnection(_Unchanged, urllib3.connection.HTTPConnection):
    pass


class _HttpsConnection(_Unchanged, urllib3.connection.HTTPSConnection):
    pass


class _Whole:
    """A pool whose answers are as long as they say: urllib3 before 2.0 takes a part of a body for all of it."""

    def urlopen(self, *args: Any, **options: Any) -> Any:
        return super().urlopen(*args, **{"enforce_content_length": True, **options})  # type: ignore[misc]


class _HttpPool(_Whole, urllib3.HTTPConnectionPool):
    ConnectionCls = _HttpConnection


class _HttpsPool(_Whole, urllib3.HTTPSConnectionPool):
    ConnectionCls = _HttpsConnection


def _blamed(
    proxy: proxies.Proxy, error: Exception, host: str, limits: tuple[float, float]
) -> ProxyError | None:
    """Return the error of a proxy; None if an error does not come from the proxy."""
    if _reached.get():
        return None
    socks = proxy.scheme.startswith("socks") and isinstance(
        error, requests.exceptions.ConnectionError
    )
    if not (socks or isinstance(error, requests.exceptions.ProxyError)):
        return None
    if "SOCKS" in str(error) and not isinstance(
        error, requests.exceptions.ConnectionError
    ):
        return None
    seen = causes.innermost(error)
    if isinstance(seen, ConnectionRefusedError):
        return ProxyError(
            f"{proxy.named} refused the connection",
            hint="does it run, and at that port?",
        )
    refused = _REFUSED.match(str(seen))
    if refused and refused[1] == "407":
        return proxy.denied(host)
    if refused:
        status = int(refused[1])
        answer = f"HTTP {status} {http.client.responses.get(status, '')}".rstrip()
        return ProxyError(
            f"{proxy.named} does not connect to {host}: {answer}",
            hint="ask its administrator",
        )
    late = f"no answer within {max(limits):g} s"
    if isinstance(
        seen,
        (urllib3.exceptions.ConnectTimeoutError, urllib3.exceptions.ReadTimeoutError),
    ):
        seen = TimeoutError()
    elif isinstance(seen, urllib3.exceptions.HTTPError):
        seen = http.client.HTTPException()
    return ProxyError(
        f"{proxy.named}: {causes.cause(seen, late)}", hint=causes.hint(error)
    )


class Adapter(requests.adapters.HTTPAdapter):
    """Sends requests to `unchanged` URLs, within a deadline. The errors name a proxy that fails."""

    def send(
        self, request: requests.PreparedRequest, *args: Any, **options: Any
    ) -> requests.Response:
        """Send a request. Raises ProxyError and the errors of requests."""
        url = requests.utils.select_proxy(request.url or "", options.get("proxies"))
        if not url:
            return super().send(request, *args, **options)
        proxy = proxies.parse(url, request.url or "")
        host = urlsplit(request.url or "").hostname or ""
        proxy.check()
        _reached.set(False)
        try:
            response = super().send(request, *args, **options)
        except (requests.exceptions.RequestException, OSError) as error:
            blamed = _blamed(proxy, error, host, options["timeout"])
            if blamed is None:
                raise
            raise blamed from error
        if response.status_code == http.HTTPStatus.PROXY_AUTHENTICATION_REQUIRED:
            response.close()
            raise proxy.denied(host)
        return response

    def build_connection_pool_key_attributes(self, *args: Any, **options: Any) -> Any:
        """Return what identifies a pool of connections; requests 2.32 and later do not decode the zone of a host."""
        host, pool = super().build_connection_pool_key_attributes(*args, **options)
        host["host"] = link_local.with_plain_zone(host["host"] or "")
        return host, pool

    def init_poolmanager(self, *args: Any, **options: Any) -> None:
        super().init_poolmanager(*args, **options)
        self.poolmanager.pool_classes_by_scheme = {
            "http": _HttpPool,
            "https": _HttpsPool,
        }

    def build_response(
        self, req: requests.PreparedRequest, resp: Any
    ) -> requests.Response:
        """Return a response with only the fields that are used here."""
        response = requests.Response()
        response.status_code, response.headers, response.raw = (
            resp.status,
            CaseInsensitiveDict(resp.headers),
            resp,
        )
        response.request, response.url, response.reason = (
            req,
            req.url or "",
            resp.reason,
        )
        return response

    def proxy_manager_for(self, proxy: str, **options: Any) -> Any:
        manager = super().proxy_manager_for(proxy, **options)
        if proxy.startswith("http"):
            manager.pool_classes_by_scheme = {"http": _HttpPool, "https": _HttpsPool}
        return manager
