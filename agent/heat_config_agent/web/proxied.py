"""HTTP over the library requests: through proxies, and to URLs that have to be understood before they can be sent."""

from __future__ import annotations

import heat_config_agent.web.guessing  # noqa: F401  # before requests

# isort: split
import contextlib
import contextvars
import http.client
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import requests
import requests.adapters
import requests.utils
import urllib3
import urllib3.connection
import urllib3.exceptions
from requests.structures import CaseInsensitiveDict

from heat_config_agent.errors import UnreachableError
from heat_config_agent.web import causes
from heat_config_agent.web.answers import Arriving, Response, left
from heat_config_agent.web.direct import PART, USUAL, WRITABLE

_UNREADABLE = (
    requests.exceptions.InvalidURL,
    requests.exceptions.MissingSchema,
    requests.exceptions.InvalidSchema,
)


class Server:
    """A server, asked through a proxy if there is one. Not for use by two threads at once."""

    def __init__(self, origin: str, certificates: str | None, proxy: str | None) -> None:
        """Speak to the server of that origin, trusting the certificates in that file or folder, or the usual ones."""
        self._origin = origin
        self._verify = certificates or True
        self._proxies = {origin.partition("://")[0].lower(): proxy} if proxy else {}
        self._adapter = Adapter()
        self._session = requests.Session()
        self._session.trust_env = False
        self._session.headers = CaseInsensitiveDict(USUAL)

    @contextlib.contextmanager
    def asked(
        self, verb: str, url: str, body: bytes, headers: Mapping[str, str], limits: tuple[float, float]
    ) -> Iterator[Arriving]:
        """Send one request to the URL exactly as it is given; its answer is read while this lasts.

        `limits` are the seconds within which there has to be a connection, and always some of the answer. Raises
        UnreachableError.
        """
        request = requests.Request(verb, url, dict(headers), data=body or None)
        with told(limits), as_given(url):
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
        """Return a request as requests would prepare it, to be sent `as_given`.

        What is of this server, and can be written as it is given, needs no more than headers: so the libraries see
        nothing of its URL but the server.
        """
        if not (request.url.startswith(f"{self._origin}/") and WRITABLE.fullmatch(request.url)):
            return self._session.prepare_request(request)
        found = requests.PreparedRequest()
        found.method, found.url, found.body = request.method, f"{self._origin}/", request.data or None
        found.headers = CaseInsensitiveDict({**self._session.headers, **request.headers})
        if request.data or request.method not in ("GET", "HEAD"):
            found.headers["Content-Length"] = str(len(request.data or b""))
        return found


def proxy(origin: str) -> str | None:
    """Return the proxy of the environment through which a server is to be asked."""
    try:
        return requests.utils.select_proxy(origin, requests.utils.get_environ_proxies(origin, no_proxy=None)) or None
    except ValueError:  # it is none's
        return None


def arriving(response: requests.Response, limits: tuple[float, float]) -> Arriving:
    """Return an answer, streamed, of which the body is to be read within limits."""
    raw = response.raw
    # What has arrived, without waiting for more, where urllib3 can do that (from 2.1); else as little as is sensible.
    some: Callable[[], bytes] = (
        (lambda: raw.read1(PART, decode_content=False))
        if hasattr(raw, "read1")
        else (lambda: raw.read(1024, decode_content=False))
    )

    def read() -> bytes:
        with told(limits):
            return some()

    return Arriving(response.status_code, response.headers, read)


@contextlib.contextmanager
def told(limits: tuple[float, float]) -> Iterator[None]:
    """Have what goes wrong said in one of our errors, after these seconds without a connection, or an answer."""
    try:
        yield
    except (urllib3.exceptions.HTTPError, http.client.HTTPException, OSError, ValueError) as error:  # or requests'
        raise UnreachableError(_cause(error, limits), hint=causes.hint(error)) from error


def _cause(error: Exception, limits: tuple[float, float]) -> str:
    """Return what is wrong in a few words: in ours, where the libraries have put it into theirs."""
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


@contextlib.contextmanager
def as_given(url: str) -> Iterator[None]:
    """Have a request sent to that URL, exactly as it is."""
    token = _url.set(url)
    try:
        yield
    finally:
        _url.reset(token)


class _AsGiven:
    """A connection that writes the URL as it was given: as requests and urllib3 would write it, signatures break."""

    response_class: Any = Response

    def putrequest(self, method: str, url: str, *args: Any, **options: Any) -> None:
        given = _url.get(url).partition("#")[0]
        if not WRITABLE.fullmatch(given):
            given = url
        elif url.startswith("/"):  # not for a proxy, which is told the whole
            path = given.partition("://")[2].partition("/")[2].partition("?")
            given = "/" + "".join(path) if "/" in given.partition("://")[2].partition("?")[0] else url
        super().putrequest(method, given, *args, **options)  # type: ignore[misc]  # what it is mixed into has one


class _HttpConnection(_AsGiven, urllib3.connection.HTTPConnection):
    pass


class _HttpsConnection(_AsGiven, urllib3.connection.HTTPSConnection):
    pass


class _HttpPool(urllib3.HTTPConnectionPool):
    ConnectionCls = _HttpConnection


class _HttpsPool(urllib3.HTTPSConnectionPool):
    ConnectionCls = _HttpsConnection


class Adapter(requests.adapters.HTTPAdapter):
    """Speaks HTTP with the URL as it is given, and waits for no answer for ever."""

    def init_poolmanager(self, *args: Any, **options: Any) -> None:
        super().init_poolmanager(*args, **options)
        self.poolmanager.pool_classes_by_scheme = {"http": _HttpPool, "https": _HttpsPool}

    def build_response(self, req: requests.PreparedRequest, resp: Any) -> requests.Response:
        """Return what is made of an answer: no more than is looked at here."""
        response = requests.Response()
        response.status_code, response.headers, response.raw = resp.status, CaseInsensitiveDict(resp.headers), resp
        response.request, response.url, response.reason = req, req.url or "", resp.reason
        return response

    def proxy_manager_for(self, proxy: str, **options: Any) -> Any:
        manager = super().proxy_manager_for(proxy, **options)
        if proxy.startswith("http"):
            manager.pool_classes_by_scheme = {"http": _HttpPool, "https": _HttpsPool}
        return manager
