"""Says in words why a server did not answer, without the URL, which is a secret."""

from __future__ import annotations

import contextlib
import http.client
import math
import ssl
import time
from collections.abc import Iterator

from heat_config_agent.model.errors import UnreachableError
from heat_config_agent.web.answers import deadline, left

UNKNOWN_AUTHORITY = (2, 18, 19, 20, 21)
"""OpenSSL's numbers (X509_V_ERR_*) for a certificate that no trusted authority has signed."""

LATE = "no full answer in time"
"""The words for a server that has not answered at the deadline."""

_IN_WORDS = {
    "IncompleteRead": "its answer was cut short",
    "RemoteDisconnected": "it hung up without an answer",
    "UnicodeError": "the name of its host cannot be understood",
    "ValueError": "its answer is not HTTP",
    "error": "its answer cannot be decompressed",  # zlib's
}
"""The names of the libraries' errors, in words."""


@contextlib.contextmanager
def explained(timeout_text: str) -> Iterator[None]:
    """Turn the errors of the libraries into UnreachableError. `timeout_text` is its text after a timeout."""
    try:
        yield
    except (http.client.HTTPException, OSError, ValueError) as error:
        raise UnreachableError(cause(error, timeout_text), hint=hint(error)) from error


@contextlib.contextmanager
def named(host: str) -> Iterator[None]:
    """Have the errors of a server name it."""
    try:
        left()
        yield
    except TimeoutError:
        raise UnreachableError(f"{host}: no time is left for the request") from None
    except UnreachableError as error:
        raise UnreachableError(f"{host}: {error}") from error


def no_connection(seconds: float) -> str:
    """Return the words for a server that did not accept a connection in time."""
    return f"no connection within {seconds:g} s"


def no_answer(seconds: float) -> str:
    """Return the words for a server that did not begin to answer in time; without a limit the deadline has passed."""
    return f"no answer within {seconds:g} s" if seconds < math.inf else LATE


def broke_off(seconds: float) -> str:
    """Return the words for a server that fell silent in the middle of its answer."""
    return (
        f"it broke off its answer: nothing more within {seconds:g} s"
        if seconds < math.inf
        else LATE
    )


def cause(error: BaseException, timeout_text: str = "no answer in time") -> str:
    """Return the innermost cause of an error in a few words; `timeout_text` if that is a timeout."""
    if time.monotonic() >= deadline.get():
        return LATE
    origin = innermost(error)
    if isinstance(origin, ssl.SSLCertVerificationError):
        return f"its certificate cannot be trusted: {origin.verify_message.rstrip('.')}"
    if isinstance(origin, ssl.SSLError):
        words = (origin.reason or "").replace("_", " ").lower()
        return f"the TLS handshake failed{f': {words}' if words else ''}"
    if isinstance(origin, TimeoutError):
        return timeout_text
    name = type(origin).__name__
    if isinstance(origin, http.client.HTTPException):
        return _IN_WORDS.get(name, "its answer is not HTTP")
    if name in _IN_WORDS:
        return _IN_WORDS[name]
    if isinstance(origin, OSError) and origin.strerror:
        return origin.strerror
    if type(origin) is OSError:
        # raised here, or by requests, about a file with certificates
        return str(origin)
    return name


def hint(error: BaseException) -> str:
    """Return the advice for an error that a setting can fix; else empty text."""
    seen = innermost(error)
    unknown = (
        isinstance(seen, ssl.SSLCertVerificationError)
        and seen.verify_code in UNKNOWN_AUTHORITY
    )
    return "is its authority's certificate in ca_file of [agent]?" if unknown else ""


def innermost(error: BaseException) -> BaseException:
    """Return the error at the end of the chain of causes."""
    current = error
    while True:
        # Some libraries chain errors, and some store the cause in an attribute or an argument.
        context = None if current.__suppress_context__ else current.__context__
        known = (
            current.__cause__,
            context,
            getattr(current, "reason", None),
            *current.args,
        )
        inner = next(
            (candidate for candidate in known if isinstance(candidate, BaseException)),
            None,
        )
        if inner is None:
            return current
        current = inner
