"""The metadata of a resource of a Heat stack, from Heat's own API."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING

from heat_config_agent.deployments.metadata import kind_of
from heat_config_agent.model.deployment import Document
from heat_config_agent.model.errors import (
    AccessError,
    DeniedError,
    SourceError,
    UnreachableError,
)
from heat_config_agent.sources.base import (
    LOGIN_HINT,
    PAGE,
    PAGE_HINT,
    Reach,
    credentials,
)
from heat_config_agent.sources.cloud.last_answer import LastAnswer
from heat_config_hooks import strict_json

if TYPE_CHECKING:
    from heat_config_agent.web import keystone


class Heat:
    """The metadata of one resource. A poll costs one request if nothing has changed."""

    name = "heat"
    trouble = ""

    def __init__(self, values: Mapping[str, object], reach: Reach) -> None:
        """Prepare to poll the resource in the settings, as the user in the settings."""
        self._credentials = credentials(values)
        self._stack = str(values["stack_id"])
        self._resource = str(values["resource_name"])
        self._reach = reach
        self._cloud: keystone.Cloud | None = None
        self._last_answer = LastAnswer()
        """The answer with `_document`."""
        self._document: Document | None = None

    def collect(self) -> Document:
        """Return the metadata: the same object as before if Heat sends the same bytes."""
        body = self._fetch()
        if self._document is None or not self._last_answer.is_same(body):
            self._document = Document(source=self.name, content=_metadata(body))
            self._last_answer.keep(body)
        return self._document

    def _fetch(self) -> bytes:
        from heat_config_agent.web import keystone  # noqa: PLC0415  # 30 ms, only if this source is used

        self._cloud = self._cloud or keystone.Cloud(
            self._credentials, self._reach.ca_file
        )
        path = f"{keystone.resource_path(self._stack, self._resource)}/metadata"
        try:
            answer = self._cloud.ask(
                "GET", "orchestration", path, seconds=self._reach.seconds
            )
        except DeniedError as error:
            raise AccessError(
                f"cannot ask Heat for the metadata: {error}",
                hint=LOGIN_HINT,
            ) from error
        except UnreachableError as error:
            raise SourceError(f"cannot ask Heat for the metadata: {error}") from error
        if answer.status < 300 and answer.is_page:
            raise SourceError(f"cannot read the metadata: {PAGE}", hint=PAGE_HINT)
        if answer.status == 200:
            return answer.body
        status = f"HTTP {answer.status} {answer.reason}".rstrip()
        if answer.status in (401, 403, 404, 410):
            hint = "has the stack, or its server resource, been deleted or replaced?"
            raise AccessError(
                f"Heat rejects the request for the metadata: {status}", hint=hint
            )
        raise SourceError(f"cannot get the metadata: Heat answers {status}")


def _metadata(body: bytes) -> Mapping[str, object]:
    """Return the metadata in an answer of Heat. Raises SourceError."""
    try:
        content = strict_json.loads(body.decode("utf-8-sig", "replace"))
    except json.JSONDecodeError as error:
        place = f"line {error.lineno}, column {error.colno}"
        raise SourceError(
            f"cannot read the metadata: Heat's answer is not JSON: {place}: {error.msg}"
        ) from None
    except ValueError as error:
        raise SourceError(
            f"cannot read the metadata: in Heat's answer: {error}"
        ) from None
    metadata = content.get("metadata") if isinstance(content, Mapping) else content
    if not isinstance(content, Mapping) or not isinstance(metadata, Mapping):
        raise SourceError(
            f"cannot read the metadata: expected an object from Heat, not {kind_of(metadata)}"
        )
    return metadata
