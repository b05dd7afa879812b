"""The metadata of resources of a Heat stack, from Heat's CloudFormation API."""

from __future__ import annotations

import base64
import hashlib
import hmac
import time
from collections.abc import Mapping, Sequence
from email.utils import formatdate
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import SplitResult, quote
from xml.parsers import expat

from heat_config_agent.errors import AccessError, SourceError, UnreachableError
from heat_config_agent.metadata import kind_of
from heat_config_agent.model import Document
from heat_config_agent.sources import Reach
from heat_config_agent.sources.before import Before
from heat_config_agent.sources.request import host, metadata, moment, origin, parts, redirected, said
from heat_config_hooks import strict_json

if TYPE_CHECKING:
    from heat_config_agent import web

SKEW_SECONDS = 60.0
"""How far two clocks may be apart before it is said. Keystone takes what was signed up to 15 minutes ago."""

_DENIED = frozenset({"AccessDenied", "InvalidClientTokenId", "MissingAuthenticationToken", "SignatureDoesNotMatch"})

_DETAIL = ("DescribeStackResourceResponse", "DescribeStackResourceResult", "StackResourceDetail")
_ERROR = ("ErrorResponse", "Error")

_LONGEST = 200
"""Characters of what Heat says of an error."""


class Cfn:
    """The metadata of one or more resources, put together. Each poll is one request for each of them."""

    name = "cfn"
    trouble = ""

    def __init__(self, values: Mapping[str, object], reach: Reach) -> None:
        """Ask with the EC2 keys, for the resources, that the settings name."""
        self._url = str(values["metadata_url"])
        self._hint = Path(str(values["metadata_hint"]))
        self._stack = str(values["stack_name"])
        self._key = str(values["access_key_id"])
        self._secret = str(values["secret_access_key"])
        paths = values["path"]
        self._paths = [str(each) for each in paths] if isinstance(paths, tuple) else []
        self._ca_file = str(values["ca_certificate"]) or reach.ca_file
        self._reach = reach
        self._connection: tuple[str, web.Connection] | None = None
        """With the server that it is to."""
        self._before = Before()
        """The answers that `_document` was read from; some of what is in them may change by itself."""
        self._digest = b""
        """Of the texts in them."""
        self._document: Document | None = None

    def collect(self) -> Document:
        """Fetch the metadata: the very document of the last time, where Heat gives the same of each resource."""
        server = self._server()
        wanted = [(path, *_split(path)) for path in self._paths]
        if not wanted:
            raise SourceError("no resource is named whose metadata to ask for", hint="set path of [cfn]")
        until = time.monotonic() + self._reach.seconds
        names = dict.fromkeys(name for _, name, _ in wanted)
        bodies = {name: self._fetch(server, name, until) for name in names}
        if self._document is not None and self._before.is_same(*bodies.values()):
            return self._document
        texts = {name: _metadata_text(body, _whence(server, name)) for name, body in bodies.items()}
        digest = hashlib.sha256("\0".join(texts.values()).encode()).digest()
        if self._document is None or digest != self._digest:
            merged: dict[str, object] = {}
            for path, name, keys in wanted:
                merged.update(_under(metadata(texts[name], _whence(server, name)), keys, path))
            self._document = Document(source=self.name, content=merged)
            self._digest = digest
        self._before.keep(*bodies.values())
        return self._document

    def _server(self) -> SplitResult:
        """Return the URL of the API. Heat's own takes nothing without the slash at its end."""
        url = self._url
        if not url:
            try:
                url = self._hint.read_text("utf-8").strip()
            except (OSError, ValueError) as error:
                why = error.strerror if isinstance(error, OSError) else "it is no text"
                raise SourceError(
                    f"nothing says where Heat's CloudFormation API is: cannot read {self._hint}: {why}",
                    hint="set metadata_url of [cfn]",
                ) from None
        found = parts(url, "[cfn]" if self._url else f"[cfn], or what is in {self._hint}")
        path = found.path.rstrip("/")
        return found._replace(path=f"{path if '/v1' in path else path + '/v1'}/", query="", fragment="")

    def _fetch(self, server: SplitResult, resource: str, until: float) -> bytes:
        """Return what Heat answers of a resource."""
        from heat_config_agent import web  # noqa: PLC0415  # 50 ms, for those who have this source

        if self._connection is None or self._connection[0] != origin(server):
            self._connection = (
                origin(server),
                web.Connection(origin(server), self._ca_file, seconds=self._reach.seconds),
            )
        whence = _whence(server, resource)
        at = _host_header(server)
        query = signed(
            {
                "Action": "DescribeStackResource",
                "AWSAccessKeyId": self._key,
                "LogicalResourceId": resource,
                "StackName": self._stack,
                "Timestamp": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
                "Version": "2010-05-15",
            },
            self._secret,
            at,
            server.path,
        )
        url = f"{origin(server)}{server.path}?{query}"
        try:
            answer = self._connection[1].fetch(url, {"Host": at}, max(until - time.monotonic(), 0.0))
        except UnreachableError as error:
            raise SourceError(f"cannot get the metadata from {whence}: {error.brief}", hint=error.hint) from error
        if answer.status != 200:
            raise self._refused(answer, whence)
        return answer.body

    def _refused(self, answer: web.Answer, whence: str) -> SourceError:
        """Return what is wrong, in Heat's words where it has some, and what can be done about it."""
        code, message = self._words(answer.body)
        brief = f"cannot get the metadata from {whence}: {said(answer)}"
        for word in (code, message):
            brief += f": {word}" if word else ""
        theirs, ours = moment(answer.headers.get("Date", "")), time.time()
        denied = answer.status in (401, 403) or code in _DENIED
        if (denied or code == "RequestExpired") and theirs is not None and abs(theirs - ours) > SKEW_SECONDS:
            clocks = f"{formatdate(ours, usegmt=True)}, the server's {formatdate(theirs, usegmt=True)}"
            return SourceError(brief, hint=f"correct the clock of this machine: it says {clocks}")
        hint = redirected(answer, "[cfn]") or _advice(answer.status, code, message, denied=denied)
        return (AccessError if denied else SourceError)(brief, hint=hint)

    def _words(self, body: bytes) -> tuple[str, str]:
        """Return the code and the message of an error; empty where there are none, or none to be shown."""
        try:
            found = _texts(body, _ERROR, ("Code", "Message"))
        except ValueError:
            return "", ""
        code, message = _shown(found.get("Code", "")), _shown(found.get("Message", ""))
        return ("", "") if any(each in code + message for each in (self._key, "Signature=")) else (code, message)


def _metadata_text(body: bytes, whence: str) -> str:
    """Return the JSON text of a resource's metadata in an answer. Raises SourceError."""
    try:
        text = _texts(body, _DETAIL, ("Metadata",)).get("Metadata")
    except ValueError as error:
        raise SourceError(
            f"cannot read the metadata from {whence}: {error}",
            hint="does metadata_url of [cfn] lead to Heat's CloudFormation API?",
        ) from None
    if text is None:
        raise SourceError(f"cannot read the metadata from {whence}: the answer has none of a resource")
    return text


def _advice(status: int, code: str, message: str, *, denied: bool) -> str:
    """Return what can be done about an error. Heat has the same code for most of what it denies."""
    if "DescribeStackResource not allowed" in message:
        return "Heat's policy does not let the users of stacks do this: see cloudformation:DescribeStackResource there"
    if "authorized to use this action" in message:
        return "does the stack have that resource, and are the keys those of its user?"
    if denied:
        return "are access_key_id and secret_access_key still those of the stack's user?"
    if code == "RequestExpired":
        return "is the clock of this machine right?"
    if code == "InvalidParameterValue":
        return "is the stack still there, and does it have that resource?"
    if status in (300, 404):
        return "does metadata_url of [cfn] lead to Heat's CloudFormation API?"
    return "this is also what Heat answers where it does not know access_key_id" if status == 500 else ""


def signed(parameters: Mapping[str, str], secret: str, at: str, path: str) -> str:
    """Return the query of a GET request of that host and path, with version 2 of AWS's signature.

    Keystone checks the signature for Heat. Version 4, which it knows too, is in a header that web servers with Heat in
    them drop unless they are told not to; both rest on HMAC-SHA256.
    """
    whole = {**parameters, "SignatureMethod": "HmacSHA256", "SignatureVersion": "2"}
    query = "&".join(f"{_quoted(name)}={_quoted(whole[name])}" for name in sorted(whole))
    spoken = f"GET\n{at}\n{path}\n{query}"
    mac = hmac.digest(secret.encode("utf-8", "replace"), spoken.encode("utf-8", "replace"), "sha256")
    return f"{query}&Signature={_quoted(base64.b64encode(mac).decode())}"


def _shown(text: str) -> str:
    """Return a server's words as they can be shown."""
    return "".join(each for each in " ".join(text.split()) if each.isprintable())[:_LONGEST]


def _quoted(text: str) -> str:
    return quote(text.encode("utf-8", "replace"), safe="-_.~")


def _host_header(server: SplitResult) -> str:
    """Return the server's host as it is signed and sent, without a port that goes without saying."""
    name = host(server).lower()
    return name.removesuffix(":443" if server.scheme == "https" else ":80").removesuffix(":")


def _whence(server: SplitResult, resource: str) -> str:
    return f"Heat's CloudFormation API at {host(server)} (resource {resource!r})"


def _split(path: str) -> tuple[str, list[str]]:
    """Return the name of a resource, which may have dots in it, and the keys below its metadata."""
    words = path.split(".")
    try:
        end = words.index("Metadata", 1)
    except ValueError:
        end = 0
    if not end or not all(words):
        raise SourceError(f"the path {path!r} names no metadata", hint="write RESOURCE.Metadata in path of [cfn]")
    return ".".join(words[:end]), words[end + 1 :]


def _under(value: dict[str, object], keys: Sequence[str], path: str) -> dict[str, object]:
    """Return the object under some keys in one another. Raises SourceError where there is none."""
    for key in keys:
        if key not in value:
            raise SourceError(f"cannot read the metadata at {path!r}: there is no {key!r}")
        inner = value[key]
        if not isinstance(inner, dict):
            raise SourceError(f"cannot read the metadata at {path!r}: {key!r} is {kind_of(inner)}, not an object")
        value = inner
    return value


def _texts(body: bytes, above: tuple[str, ...], names: tuple[str, ...]) -> dict[str, str]:
    """Return the text of elements of those names right below the elements `above`, outermost first.

    Namespaces do not matter. Raises ValueError. A document type is refused before anything is made of it: its entities
    can turn a few lines into gigabytes, or be files.
    """
    found: dict[str, list[str]] = {}
    path: list[str] = []
    whole = {(*above, name) for name in names}

    def start(name: str, _attributes: object) -> None:
        path.append(name.rpartition(":")[2])
        if len(path) > strict_json.DEPTH:
            raise ValueError("the answer is nested too deeply")
        if tuple(path) in whole:
            found.setdefault(path[-1], [])

    def text(data: str) -> None:
        if tuple(path) in whole:
            found[path[-1]].append(data)

    def refuse(*_declared: object) -> None:
        raise ValueError("the answer declares a document type, as web pages do")

    parser = expat.ParserCreate()
    parser.buffer_text = True
    parser.StartElementHandler = start
    parser.EndElementHandler = lambda _name: path.pop()
    parser.CharacterDataHandler = text
    parser.StartDoctypeDeclHandler = refuse
    try:
        parser.Parse(body, True)
    except expat.ExpatError as error:
        raise ValueError(f"the answer is no XML: {error}") from None
    except LookupError as error:
        raise ValueError(f"the answer is in no encoding that is known: {error}") from None
    return {name: "".join(pieces) for name, pieces in found.items()}
