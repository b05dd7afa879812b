"""The metadata of a resource of a Heat stack, from Heat's own API."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING

from heat_config_agent.errors import AccessError, DeniedError, SourceError, UnreachableError
from heat_config_agent.metadata import kind_of
from heat_config_agent.model import Credentials, Document
from heat_config_agent.sources import Reach
from heat_config_agent.sources.before import Before
from heat_config_hooks import strict_json

if TYPE_CHECKING:
    from heat_config_agent import keystone


class Heat:
    """The metadata of one resource. When nothing has changed, asking costs one request."""

    name = "heat"
    trouble = ""

    def __init__(self, values: Mapping[str, object], reach: Reach) -> None:
        """Ask as the user, for the resource, that the settings name."""
        self._credentials = Credentials(
            auth_url=str(values["auth_url"]),
            user_id=str(values["user_id"]),
            password=str(values["password"]),
            project_id=str(values["project_id"]),
            region_name=str(values["region_name"]),
        )
        self._stack = str(values["stack_id"])
        self._resource = str(values["resource_name"])
        self._reach = reach
        self._cloud: keystone.Cloud | None = None
        self._before = Before()
        """The answer that `_document` was read from."""
        self._document: Document | None = None

    def collect(self) -> Document:
        """Fetch the metadata: the very document of the last time, where Heat gives the same bytes."""
        body = self._fetch()
        if self._document is None or not self._before.is_same(body):
            self._document = Document(source=self.name, content=_metadata(body))
            self._before.keep(body)
        return self._document

    def _fetch(self) -> bytes:
        from heat_config_agent import keystone  # noqa: PLC0415  # 75 ms, and only where Heat is asked

        self._cloud = self._cloud or keystone.Cloud(self._credentials, self._reach.ca_file)
        path = f"{keystone.resource_path(self._stack, self._resource)}/metadata"
        try:
            answer = self._cloud.ask("GET", "orchestration", path, seconds=self._reach.seconds)
        except DeniedError as error:
            raise AccessError(
                f"cannot ask Heat for the metadata: {error}",
                hint="are auth_url, user_id, password and project_id still those of the stack's user?",
            ) from error
        except UnreachableError as error:
            raise SourceError(f"cannot ask Heat for the metadata: {error}") from error
        if answer.status == 200:
            return answer.body
        said = f"Heat answers HTTP {answer.status} {answer.reason}".rstrip()
        if answer.status in (401, 403, 404, 410):
            hint = "is the stack still there, and does it have the resource?"
            raise AccessError(f"cannot get the metadata: {said}", hint=hint)
        raise SourceError(f"cannot get the metadata: {said}")


def _metadata(body: bytes) -> Mapping[str, object]:
    """Return the metadata in an answer of Heat. Raises SourceError."""
    try:
        found = strict_json.loads(body.decode("utf-8-sig", "replace"))
    except json.JSONDecodeError as error:
        place = f"line {error.lineno}, column {error.colno}"
        raise SourceError(f"cannot read the metadata: Heat's answer is no JSON: {place}: {error.msg}") from None
    except ValueError as error:
        raise SourceError(f"cannot read the metadata: in Heat's answer: {error}") from None
    metadata = found.get("metadata") if isinstance(found, Mapping) else found
    if not isinstance(found, Mapping) or not isinstance(metadata, Mapping):
        raise SourceError(f"cannot read the metadata: expected an object from Heat, not {kind_of(metadata)}")
    return metadata
