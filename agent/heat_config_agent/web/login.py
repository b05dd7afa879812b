"""A login to Keystone by keystoneauth1, over a session of requests with limits of time and size.

Only the program that logs in loads this: it takes 100 ms and 11 MiB (`docs/decisions/0011-keystone.md`).
"""

from __future__ import annotations

import contextlib
import io
import time
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import requests
from keystoneauth1 import exceptions
from keystoneauth1.identity import v3
from keystoneauth1.session import Session

from heat_config_agent import __version__, web
from heat_config_agent.model.errors import DeniedError, UnreachableError
from heat_config_agent.web import answers, causes, proxied
from heat_config_agent.web.keystone import is_usable
from heat_config_agent.web.login_messages import Access, Request

LARGEST = 8 * 1024 * 1024
"""The largest answer of Keystone in bytes: a token with a catalog."""

DENIALS = frozenset({401, 403, 404})
"""The statuses with which Keystone denies access, or a server that is not Keystone answers."""


class Keystone:
    """Keystone, over kept-alive connections that all logins share."""

    def __init__(self, ca_file: str | None) -> None:
        """Trust the certificates in `ca_file`; None for the default ones."""
        # Only newer versions of the library have types: hence Any.
        self._session: Any = Session(
            session=_Session(ca_file), redirect=False, user_agent=f"heat-config-agent/{__version__}"
        )

    def log_in(self, request: Request) -> Access:
        """Log in, and look the services up. Raises DeniedError if Keystone denies access, and UnreachableError."""
        credentials = request.credentials
        login: Any = v3.Password(
            auth_url=credentials.auth_url,
            user_id=credentials.user_id,
            password=credentials.password,
            project_id=credentials.project_id,
        )
        with answers.within(request.until - time.monotonic()), _explained(), _understood():
            access = login.get_access(self._session)
            # The library compares the time of expiry with the machine's clock, which may be wrong.
            seconds = (access.expires - access.issued).total_seconds()
            token = str(access.auth_token)
        endpoints: dict[str, str] = {}
        missing: dict[str, str] = {}
        for service in request.services:
            try:
                with _explained():
                    endpoints[service] = _endpoint(access, service, credentials.region_name)
            except UnreachableError as error:
                missing[service] = str(error)
        return Access(token=token, seconds=seconds, endpoints=endpoints, missing=missing)


def _endpoint(access: Any, service: str, region: str) -> str:
    """Return the public URL of a service, without a slash at its end. Raises UnreachableError."""
    try:
        with _understood():
            url = access.service_catalog.url_for(service_type=service, interface="public", region_name=region or None)
    except exceptions.CatalogException as error:
        where = f" in the region {region}" if region else ""
        raise UnreachableError(f"Keystone's catalog has no service of the type {service}{where}") from error
    if not is_usable(url):
        raise UnreachableError(f"Keystone's catalog has no usable URL of the service of the type {service}")
    return str(url).rstrip("/")


@contextlib.contextmanager
def _explained() -> Iterator[None]:
    """Turn the errors of keystoneauth1 into the agent's."""
    try:
        yield
    except exceptions.HttpError as error:
        status = int(error.http_status)
        kind = DeniedError if status in DENIALS else UnreachableError
        raise kind(f"Keystone answers HTTP {status} {web.phrase(status)}".rstrip()) from error
    except exceptions.InvalidResponse as error:
        raise UnreachableError("Keystone's answer cannot be understood") from error
    except exceptions.ClientException as error:  # before anything was sent: `_Adapter` handles all later errors
        raise UnreachableError(causes.cause(error.__context__ or error)) from error


@contextlib.contextmanager
def _understood() -> Iterator[None]:
    """Turn the errors of reading Keystone's answer into UnreachableError: keystoneauth1 does not check the answer."""
    try:
        yield
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError) as error:
        raise UnreachableError("Keystone's answer cannot be understood") from error


class _Session(requests.Session):
    """The requests session with which keystoneauth1 logs in, with limits of time and size.

    The proxies and certificates of the environment are read once for each server. No `.netrc` is read.
    """

    def __init__(self, ca_file: str | None) -> None:
        super().__init__()
        agent = f"heat-config-agent/{__version__}"
        self.headers.update({"Accept-Encoding": "identity", "User-Agent": agent})
        self.trust_env = False
        self._verify = web.certificates(ca_file) or True
        self._proxies: dict[str, dict[str, str]] = {}
        for scheme in ("http://", "https://"):
            self.mount(scheme, _Adapter())

    def get_redirect_target(self, resp: Any) -> None:
        """Return no redirect: requests would parse its URL even if it is not followed."""

    def merge_environment_settings(self, url: Any, *_: Any) -> Any:
        """Return the proxies and certificates for a URL."""
        parts = urlsplit(str(url))
        origin = f"{parts.scheme}://{parts.netloc}"
        if origin not in self._proxies:
            proxy = web.proxy(origin)
            self._proxies[origin] = {parts.scheme: proxy} if proxy else {}
        return {"proxies": self._proxies[origin], "stream": True, "verify": self._verify, "cert": None}


class _Adapter(proxied.Adapter):
    """Sends a request and reads its whole answer, within limits."""

    def send(self, request: requests.PreparedRequest, *args: Any, **options: Any) -> requests.Response:
        with causes.named(urlsplit(request.url or "").netloc.rpartition("@")[2]):
            seconds = answers.left()
            limits = (min(web.CONNECT_SECONDS, seconds), seconds)
            with proxied.explained(limits):
                response = super().send(request, *args, **{**options, "stream": True, "timeout": limits})
            with contextlib.closing(response):
                body = answers.read(proxied.arriving(response, limits), LARGEST)
        response.raw = io.BytesIO(body)
        return response
