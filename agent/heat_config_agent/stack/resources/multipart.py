"""A config of several parts for cloud-init: a MIME message."""

from __future__ import annotations

import email
from collections.abc import Iterator, Mapping
from email.message import Message
from email.mime.multipart import MIMEMultipart
from email.mime.text import MIMEText
from pathlib import PurePath
from typing import Any, ClassVar

from heat_config_agent.stack.constraints import AllowedValues
from heat_config_agent.stack.properties import Schema
from heat_config_agent.stack.resources.configs import _GROUP, _Config

TEXT, MULTIPART = "text", "multipart"


class MultipartMime(_Config):
    """Several configs, for one that takes a single one."""

    properties_schema: ClassVar[Mapping[str, Schema]] = {
        "group": _GROUP,
        "parts": Schema(
            Schema.LIST,
            "The parts.",
            default=[],
            schema=Schema(
                Schema.MAP,
                schema={
                    "config": Schema(Schema.STRING, "Text, or the id of a config.", required=True),
                    "filename": Schema(Schema.STRING, "Name of the file that the part is to be."),
                    "type": Schema(
                        Schema.STRING,
                        "`multipart` takes the config's own parts.",
                        default=TEXT,
                        constraints=[AllowedValues([TEXT, MULTIPART])],
                    ),
                    "subtype": Schema(Schema.STRING, "What comes after `text/`."),
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
        text = str(named.config) if named is not None else part["config"]
        if part["type"] == MULTIPART:
            for each in email.message_from_string(text).walk():
                if each.get_content_maintype() == TEXT:
                    content = each.get_payload(decode=True)
                    decoded = content.decode(errors="replace") if isinstance(content, bytes) else str(content)
                    yield _part(decoded, each.get_content_subtype(), each.get_filename())
        else:
            yield _part(text, part["subtype"], part["filename"])


def _part(text: str, subtype: str | None, filename: str | None) -> Message:
    if not subtype:
        subtype = "part-handler" if filename and PurePath(filename).name == "part-handler.py" else "plain"
    made = MIMEText(text, subtype, "us-ascii" if text.isascii() else "utf-8")
    if filename:
        made.add_header("Content-Disposition", "attachment", filename=filename)
    return made
