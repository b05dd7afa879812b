"""Finds Heat's metadata in user data. User data is for many programs, so other content is not a mistake.

Heat writes its first metadata in two ways: as the part `cfn-init-data` of a multipart message for cloud-init, and as
files of that name in an Ignition config. User data that Heat has not wrapped can be the JSON itself.
"""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from heat_config_agent.model.errors import UsageError
from heat_config_hooks import strict_json
from heat_config_hooks.files import text_of

if TYPE_CHECKING:
    from email.message import Message

LARGEST = 8 * 1024 * 1024
"""The largest user data in bytes, decompressed. Nova accepts 48 KiB, which may expand to a few times that."""

NAME = "cfn-init-data"

TYPE = "text/x-cfninitdata"

_GZIP = b"\x1f\x8b"
_MESSAGE = re.compile(rb"(?:From |content-type:|mime-version:)", re.IGNORECASE)


def content(data: bytes, name: str) -> dict[str, object] | None:
    """Return the metadata in user data; None if there is none. Messages call the user data `name`.

    Raises UsageError if a part is certainly Heat's metadata, and cannot be read.
    """
    text = _unpacked(data)
    if text is None:
        return None
    text = text.removeprefix(b"\xef\xbb\xbf").lstrip()
    if text.startswith(b"{"):
        value = _object(text)
        if value is None or "ignition" not in value:
            return _metadata(value)
        parts = list(_of_ignition(value))
    elif _MESSAGE.match(text):
        parts = list(_of_message(text))
    else:
        return None
    # Heat's own part comes last, and in cloud-init the last part of a name counts.
    return _metadata(_part(parts[-1], name)) if parts else None


def _unpacked(data: bytes) -> bytes | None:
    """Return data without compression; None if it is too large or damaged."""
    if data.startswith(_GZIP):
        unpacker = zlib.decompressobj(wbits=31)
        try:
            data = unpacker.decompress(data, LARGEST + 1)
        except zlib.error:
            return None
        if not unpacker.eof:
            return None
    return data if len(data) <= LARGEST else None


def _object(text: bytes) -> dict[str, object] | None:
    """Return the JSON object in a text; None if there is none."""
    try:
        value = strict_json.loads(text.decode("utf-8-sig"))
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def _metadata(value: dict[str, object] | None) -> dict[str, object] | None:
    """Return an object if it is Heat's metadata; else None. Parts of the same name can also be data of cfn-init."""
    return (
        value
        if value is not None
        and ("os-collect-config" in value or "deployments" in value)
        else None
    )


def _part(data: bytes, name: str) -> dict[str, object]:
    """Return the object in a part with metadata. Raises UsageError."""
    text = _unpacked(data)
    if text is None:
        raise UsageError(
            f"cannot read {NAME} in {name}: cannot decompress it: it is damaged or too large"
        )
    try:
        value = strict_json.loads(text_of(text))
    except json.JSONDecodeError as error:
        place = f"line {error.lineno}, column {error.colno}"
        raise UsageError(
            f"cannot read {NAME} in {name}: {place}: {error.msg}"
        ) from None
    except ValueError as error:
        raise UsageError(f"cannot read {NAME} in {name}: {error}") from None
    if not isinstance(value, dict):
        raise UsageError(f"cannot read {NAME} in {name}: it is not a JSON object")
    return value


def _of_message(text: bytes) -> Iterator[bytes]:
    """Yield the content of the parts of a message that are metadata."""
    import email  # noqa: PLC0415  # 20 ms, only for such a message

    try:
        message: Message = email.message_from_bytes(text)
        for part in message.walk():
            if part.get_content_type() == TYPE and part.get_filename() == NAME:
                payload = part.get_payload(decode=True)
                if isinstance(payload, bytes):
                    yield payload
    except (RecursionError, ValueError, LookupError, TypeError):
        # the errors of `email` for malformed messages
        return


def _of_ignition(config: Mapping[str, object]) -> Iterator[bytes]:
    """Yield the content of the files of an Ignition config that are metadata."""
    from urllib.parse import unquote_to_bytes  # noqa: PLC0415  # only for Ignition

    storage = config.get("storage")
    files = storage.get("files") if isinstance(storage, dict) else None
    for file in files if isinstance(files, list) else ():
        contents = file.get("contents") if isinstance(file, dict) else None
        path, source = (
            (file.get("path"), contents.get("source"))
            if isinstance(contents, dict)
            else ("", "")
        )
        if (
            not isinstance(path, str)
            or not isinstance(source, str)
            or path.rpartition("/")[2] != NAME
        ):
            continue
        kind, comma, data = source.partition(",")
        if comma and kind.startswith("data:"):
            plain = unquote_to_bytes(data)
            yield _decoded(plain) if kind.endswith(";base64") else plain


def _decoded(data: bytes) -> bytes:
    import base64  # noqa: PLC0415  # Heat does not use it, but people do

    try:
        return base64.b64decode(data)
    except ValueError:
        return b""
