"""Why a server gave no answer, in words, and without the URL: it is a secret."""

from __future__ import annotations

import contextlib
import http.client
import ssl
import time
from collections.abc import Iterator

from heat_config_agent.errors import UnreachableError
from heat_config_agent.web.answers import deadline

UNKNOWN_AUTHORITY = (2, 18, 19, 20, 21)
"""OpenSSL's numbers (X509_V_ERR_*) for a certificate that nobody whom we trust has signed."""

_IN_WORDS = {
    "IncompleteRead": "its answer was cut short",
    "RemoteDisconnected": "it hung up without an answer",
    "UnicodeError": "the name of its host cannot be understood",
    "ValueError": "its answer is no HTTP",
    "error": "its answer cannot be unpacked",  # zlib's
}
"""What libraries call it, in words."""


@contextlib.contextmanager
def told(late: str) -> Iterator[None]:
    """Have what goes wrong said in one of our errors: where it has taken too long, in the words of `late`."""
    try:
        yield
    except (http.client.HTTPException, OSError, ValueError) as error:
        raise UnreachableError(cause(error, late), hint=hint(error)) from error


def no_connection(seconds: float) -> str:
    """Return what is said of a server to which there was no connection in time."""
    return f"no connection within {seconds:g} s"


def no_answer(seconds: float) -> str:
    """Return what is said of a server that is silent."""
    return f"no answer within {seconds:g} s"


def broke_off(seconds: float) -> str:
    """Return what is said of a server that falls silent in its answer."""
    return f"it broke off its answer: nothing more within {seconds:g} s"


def cause(error: BaseException, late: str = "no answer in time") -> str:
    """Return the innermost reason of an error in a few words; `late` where that is that time was over."""
    if time.monotonic() >= deadline.get():
        return "no full answer in time"
    seen = innermost(error)
    if isinstance(seen, ssl.SSLCertVerificationError):
        return f"its certificate cannot be trusted: {seen.verify_message.rstrip('.')}"
    if isinstance(seen, ssl.SSLError):
        words = (seen.reason or "").replace("_", " ").lower()
        return f"it does not speak TLS as we do{f': {words}' if words else ''}"
    if isinstance(seen, TimeoutError):
        return late
    name = type(seen).__name__
    if isinstance(seen, http.client.HTTPException):
        return _IN_WORDS.get(name, "its answer is no HTTP")
    if name in _IN_WORDS:
        return _IN_WORDS[name]
    if isinstance(seen, OSError) and seen.strerror:
        return seen.strerror
    if type(seen) is OSError:  # ours, or of requests itself, about a file with certificates
        return str(seen)
    return name


def hint(error: BaseException) -> str:
    """Return what to do about an error where there is something to be set; else nothing."""
    seen = innermost(error)
    unknown = isinstance(seen, ssl.SSLCertVerificationError) and seen.verify_code in UNKNOWN_AUTHORITY
    return "is its authority's certificate in ca_file of [agent]?" if unknown else ""


def innermost(error: BaseException) -> BaseException:
    """Return the error that all others come from."""
    seen = error
    while True:
        # Some libraries chain them, some keep the other one in themselves.
        known = (seen.__cause__, seen.__context__, getattr(seen, "reason", None), *seen.args)
        inner = next((each for each in known if isinstance(each, BaseException)), None)
        if inner is None:
            return seen
        seen = inner
