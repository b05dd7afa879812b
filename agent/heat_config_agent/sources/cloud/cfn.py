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

from heat_config_agent.deployments.metadata import kind_of
from heat_config_agent.model.deployment import Document
from heat_config_agent.model.errors import AccessError, SourceError, UnreachableError
from heat_config_agent.sources.base import PAGE, PAGE_HINT, Reach
from heat_config_agent.sources.cloud.last_answer import LastAnswer
from heat_config_agent.sources.cloud.request import (
    described,
    host,
    metadata,
    moment,
    origin,
    parts,
    redirected,
)
from heat_config_hooks import files, strict_json

if TYPE_CHECKING:
    from heat_config_agent import web

SKEW_SECONDS = 60.0
"""A difference between two clocks up to this is not reported. Keystone accepts signatures for 15 minutes."""

_DENIED = frozenset(
    {
        "AccessDenied",
        "InvalidClientTokenId",
        "MissingAuthenticationToken",
        "SignatureDoesNotMatch",
    }
)

_DETAIL = (
    "DescribeStackResourceResponse",
    "DescribeStackResourceResult",
    "StackResourceDetail",
)
_ERROR = ("ErrorResponse", "Error")

_LONGEST = 200
"""The most characters of Heat's error messages that are shown."""


class Cfn:
    """The metadata of one or more resources, merged. Each poll sends one request for each resource."""

    name = "cfn"
    trouble = ""

    def __init__(self, values: Mapping[str, object], reach: Reach) -> None:
        """Prepare to poll the resources in the settings, with the EC2 keys in the settings."""
        self._url = str(values["metadata_url"])
        self._hint = Path(str(values["metadata_hint"]))
        self._stack = str(values["stack_name"])
        self._key = str(values["access_key_id"])
        self._secret = str(values["secret_access_key"])
        paths = values["path"]
        self._paths = [str(path) for path in paths] if isinstance(paths, tuple) else []
        self._ca_file = str(values["ca_certificate"]) or reach.ca_file
        self._reach = reach
        self._connection: tuple[str, web.Connection] | None = None
        """The origin of the server and the connection to it."""
        self._last_answer = LastAnswer()
        """The answers with `_document`. They contain more than the metadata, such as the id of the request."""
        self._digest = b""
        """A digest of the metadata in these answers."""
        self._document: Document | None = None

    def collect(self) -> Document:
        """Return the metadata: the same object as before if Heat sends the same metadata of each resource."""
        server = self._server()
        places = [(path, *_split(path)) for path in self._paths]
        if not places:
            raise SourceError(
                "no resource is set for its metadata", hint="set path of [cfn]"
            )
        until = time.monotonic() + self._reach.seconds
        names = dict.fromkeys(name for _, name, _ in places)
        bodies = {name: self._fetch(server, name, until) for name in names}
        if self._document is not None and self._last_answer.is_same(*bodies.values()):
            return self._document
        texts = {
            name: _metadata_text(body, _whence(server, name))
            for name, body in bodies.items()
        }
        digest = hashlib.sha256("\0".join(texts.values()).encode()).digest()
        if self._document is None or digest != self._digest:
            merged: dict[str, object] = {}
            for path, name, keys in places:
                merged.update(
                    _under(metadata(texts[name], _whence(server, name)), keys, path)
                )
            self._document = Document(source=self.name, content=merged)
            self._digest = digest
        self._last_answer.keep(*bodies.values())
        return self._document

    def _server(self) -> SplitResult:
        """Return the URL of the API. Heat requires the slash at its end."""
        url = self._url
        if not url:
            try:
                url = files.read(self._hint, files.LARGEST).decode().strip()
            except (OSError, ValueError) as error:
                why = error.strerror if isinstance(error, OSError) else "it is not text"
                raise SourceError(
                    f"the URL of Heat's CloudFormation API is unknown: cannot read {self._hint}: {why}",
                    hint="set metadata_url of [cfn]",
                ) from None
        server = parts(
            url, "[cfn]" if self._url else f"[cfn], or the content of {self._hint}"
        )
        path = server.path.rstrip("/")
        return server._replace(
            path=f"{path if '/v1' in path else path + '/v1'}/", query="", fragment=""
        )

    def _fetch(self, server: SplitResult, resource: str, until: float) -> bytes:
        """Return Heat's answer for a resource."""
        from heat_config_agent import web  # noqa: PLC0415  # 50 ms, only if this source is used

        if self._connection is None or self._connection[0] != origin(server):
            self._connection = (
                origin(server),
                web.Connection(
                    origin(server), self._ca_file, seconds=self._reach.seconds
                ),
            )
        whence = _whence(server, resource)
        host = _host_header(server)
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
            host,
            server.path,
        )
        url = f"{origin(server)}{server.path}?{query}"
        try:
            answer = self._connection[1].fetch(
                url, {"Host": host}, max(until - time.monotonic(), 0.0)
            )
        except UnreachableError as error:
            raise SourceError(
                f"cannot get the metadata from {whence}: {error.brief}", hint=error.hint
            ) from error
        if answer.status < 300 and answer.is_page:
            raise SourceError(
                f"cannot read the metadata from {whence}: {PAGE}", hint=PAGE_HINT
            )
        if answer.status != 200:
            raise self._refused(answer, whence)
        return answer.body

    def _refused(self, answer: web.Answer, whence: str) -> SourceError:
        """Return the error for an answer, with Heat's own words if there are any, and a hint."""
        code, message = self._words(answer.body)
        brief = f"cannot get the metadata from {whence}: {described(answer)}"
        for word in (code, message):
            brief += f": {word}" if word else ""
        theirs, ours = moment(answer.headers.get("Date", "")), time.time()
        denied = answer.status in (401, 403) or code in _DENIED
        if (
            (denied or code == "RequestExpired")
            and theirs is not None
            and abs(theirs - ours) > SKEW_SECONDS
        ):
            clocks = f"{formatdate(ours, usegmt=True)}, the server's {formatdate(theirs, usegmt=True)}"
            return SourceError(
                brief, hint=f"correct the clock of this machine: it shows {clocks}"
            )
        hint = redirected(answer, "[cfn]") or _advice(
            answer.status, code, message, denied=denied
        )
        return (AccessError if denied else SourceError)(brief, hint=hint)

    def _words(self, body: bytes) -> tuple[str, str]:
        """Return the code and the message of an error; empty if there are none, or if they contain a secret."""
        try:
            texts = _texts(body, _ERROR, ("Code", "Message"))
        except ValueError:
            return "", ""
        code, message = (
            _printable(texts.get("Code", "")),
            _printable(texts.get("Message", "")),
        )
        return (
            ("", "")
            if any(word in code + message for word in (self._key, "Signature="))
            else (code, message)
        )


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
        raise SourceError(
            f"cannot read the metadata from {whence}: the answer contains no metadata of a resource"
        )
    return text


def _advice(status: int, code: str, message: str, *, denied: bool) -> str:
    """Return a hint for an error. Heat uses the same code for most denials."""
    if "DescribeStackResource not allowed" in message:
        return "Heat's policy denies this to the users of stacks: see cloudformation:DescribeStackResource in it"
    if "authorized to use this action" in message:
        return "does the stack have that resource, and are the keys those of its user?"
    if denied:
        return (
            "are access_key_id and secret_access_key still those of the stack's user?"
        )
    if code == "RequestExpired":
        return "is the clock of this machine right?"
    if code == "InvalidParameterValue":
        return "does the stack still exist, and does it have that resource?"
    if status in (300, 404):
        return "does metadata_url of [cfn] lead to Heat's CloudFormation API?"
    return (
        "Heat also answers this if it does not know access_key_id, or cannot reach Keystone"
        if status == 500
        else ""
    )


def signed(parameters: Mapping[str, str], secret: str, host: str, path: str) -> str:
    """Return the query of a GET request to the `host` and the path, signed with version 2 of AWS's signature.

    Keystone checks the signature for Heat. It also knows version 4, but that is in a header, which web servers that run
    Heat drop by default. Both versions use HMAC-SHA256.
    """
    whole = {**parameters, "SignatureMethod": "HmacSHA256", "SignatureVersion": "2"}
    query = "&".join(
        f"{_quoted(name)}={_quoted(whole[name])}" for name in sorted(whole)
    )
    message = f"GET\n{host}\n{path}\n{query}"
    mac = hmac.digest(
        secret.encode("utf-8", "replace"), message.encode("utf-8", "replace"), "sha256"
    )
    return f"{query}&Signature={_quoted(base64.b64encode(mac).decode())}"


def _printable(text: str) -> str:
    """Return a server's words as one short line of printable characters."""
    return "".join(
        character for character in " ".join(text.split()) if character.isprintable()
    )[:_LONGEST]


def _quoted(text: str) -> str:
    return quote(text.encode("utf-8", "replace"), safe="-_.~")


def _host_header(server: SplitResult) -> str:
    """Return the server's host as it is signed and sent: without the default port."""
    name = host(server).lower()
    return name.removesuffix(
        ":443" if server.scheme == "https" else ":80"
    ).removesuffix(":")


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
        raise SourceError(
            f"the path {path!r} is not valid",
            hint="write RESOURCE.Metadata in path of [cfn]",
        )
    return ".".join(words[:end]), words[end + 1 :]


def _under(
    value: dict[str, object], keys: Sequence[str], path: str
) -> dict[str, object]:
    """Return the object at a path of nested keys. Raises SourceError if there is none."""
    for key in keys:
        if key not in value:
            raise SourceError(
                f"cannot read the metadata at {path!r}: there is no {key!r}"
            )
        inner = value[key]
        if not isinstance(inner, dict):
            raise SourceError(
                f"cannot read the metadata at {path!r}: {key!r} is {kind_of(inner)}, not an object"
            )
        value = inner
    return value


def _texts(
    body: bytes, above: tuple[str, ...], names: tuple[str, ...]
) -> dict[str, str]:
    """Return the text of the elements with these `names` whose ancestors are the elements `above`, outermost first.

    Namespaces do not matter. Raises ValueError. A document type is refused before it is parsed: its entities can turn a
    few lines into gigabytes, or read files.
    """
    pieces: dict[str, list[str]] = {}
    path: list[str] = []
    whole = {(*above, name) for name in names}

    def start(name: str, _attributes: object) -> None:
        path.append(name.rpartition(":")[2])
        if len(path) > strict_json.DEPTH:
            raise ValueError("the answer is nested too deeply")
        if tuple(path) in whole:
            pieces.setdefault(path[-1], [])

    def text(data: str) -> None:
        if tuple(path) in whole:
            pieces[path[-1]].append(data)

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
        raise ValueError(f"the answer is not XML: {error}") from None
    except LookupError as error:
        raise ValueError(f"the answer has an unknown encoding: {error}") from None
    return {name: "".join(texts) for name, texts in pieces.items()}
