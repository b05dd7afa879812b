"""A config of several parts for cloud-init, as a MIME message."""

from __future__ import annotations

import email
from collections.abc import Iterator, Mapping
from email.message import Message
from email.mime.multipart import MIMEMultipart
from email.mime.text import MIMEText
from pathlib import PurePath
from typing import Any, ClassVar

from heat_config_agent.model.positions import Json
from heat_config_stack.records import exception
from heat_config_stack.resource.constraints import AllowedValues
from heat_config_stack.resource.properties import Schema
from heat_config_stack.resource_types.configs import _GROUP, Config

TEXT, MULTIPART = "text", "multipart"


class MultipartMime(Config):
    """Several configs in one."""

    properties_schema: ClassVar[Mapping[str, Schema]] = {
        "group": _GROUP,
        "parts": Schema(
            Schema.LIST,
            "The parts.",
            default=[],
            schema=Schema(
                Schema.MAP,
                schema={
                    "config": Schema(
                        Schema.STRING, "Text, or the id of a config.", required=True
                    ),
                    "filename": Schema(Schema.STRING, "File name of the part."),
                    "type": Schema(
                        Schema.STRING,
                        "Whether the config is one part, or a message whose parts are added.",
                        default=TEXT,
                        constraints=[AllowedValues([TEXT, MULTIPART])],
                    ),
                    "subtype": Schema(Schema.STRING, "The subtype of `text`."),
                },
            ),
        ),
    }

    def content(self) -> dict[str, Any]:
        """Return the group and the message."""
        message = MIMEMultipart()
        for part in self.properties["parts"]:
            for each in self._parts(part):
                message.attach(each)
        return {"group": self.properties["group"], "config": message.as_string()}

    def _parts(self, part: Mapping[str, Any]) -> Iterator[Message]:
        named = self.stack.world.store.configs.get(part["config"])
        text = named.config if named is not None else part["config"]
        if part["type"] != MULTIPART:
            yield _part(text, part["subtype"], part["filename"])
            return
        message = email.message_from_string(_text(text))
        for each in message.get_payload() if message.is_multipart() else ():
            if isinstance(each, Message):
                yield _part(
                    each.get_payload(), each.get_content_subtype(), each.get_filename()
                )


def _part(content: Json, subtype: str | None, filename: str | None) -> Message:
    """Return a part as Heat writes it: its subtype is its file name without the suffix if none is declared.

    The payload of a part of another message is taken as it is written there, encoded or not.
    """
    text = _text(content)
    if not subtype and filename:
        subtype = filename.removesuffix(PurePath(filename).suffix)
    made = MIMEText(text, subtype or "plain", "us-ascii" if text.isascii() else "utf-8")
    if filename:
        made.add_header("Content-Disposition", "attachment", filename=filename)
    return made


def _text(content: Json) -> str:
    if not isinstance(content, str):
        raise exception.Error(
            f"a part must be text, and this is {'nothing' if content is None else 'a list or a map'}"
        )
    return content
