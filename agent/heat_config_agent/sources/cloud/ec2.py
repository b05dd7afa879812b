"""The user data of this instance from the EC2 metadata service, which OpenStack has too."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from heat_config_agent.model.deployment import Document
from heat_config_agent.model.errors import SourceError, UnreachableError
from heat_config_agent.sources import document_text
from heat_config_agent.sources.base import PAGE, PAGE_HINT, Reach
from heat_config_agent.sources.cloud import user_data

if TYPE_CHECKING:
    from heat_config_agent import web

TOKEN_SECONDS = 6 * 3600
"""The lifetime in seconds that is requested for a token: the longest possible one."""

TOKEN_SPARE = 300.0
"""A token is not used any more when it expires in less than this time, in seconds."""

DEFAULT_SECONDS = 10.0

_TOKEN = "X-aws-ec2-metadata-token"  # noqa: S105  # the name of a header
_WORD = re.compile(r"[!-~]{1,1024}")


class Ec2:
    """The user data of this instance from the EC2 metadata service.

    It is fetched once for each instance; every other poll requests only the id of the instance. If the id has changed,
    for example because the machine was copied while it ran, nothing from before counts.
    """

    name = "ec2"

    def __init__(self, values: Mapping[str, object], reach: Reach) -> None:
        """Prepare to poll the service in the settings."""
        self.trouble = ""
        self.instance = ""
        """The id of the instance that the last document belongs to; empty if the service gives none."""
        self._base = str(values["metadata_url"]).rstrip("/")
        seconds = values.get("timeout")
        self._seconds = (
            float(seconds)
            if isinstance(seconds, int | float) and seconds > 0
            else DEFAULT_SECONDS
        )
        self._reach = reach
        self._connection: web.Connection | None = None
        self._token = ""
        self._expires = 0.0
        """The token is used until then (monotonic seconds); if the service has none, none is requested until then."""
        self._last: Document | None = None

    def collect(self) -> Document | None:
        """Request the id of the instance, and its user data if it is not known yet."""
        instance = self._instance()
        if instance and instance == self.instance:
            return self._last
        answer = self._get("/user-data")
        if (
            answer.status == 200
            and answer.body.lstrip().startswith(b"<")
            and answer.is_page
        ):
            raise SourceError(
                f"cannot read the user data of {self._service}: {PAGE}", hint=PAGE_HINT
            )
        data = answer.body if answer.status == 200 else b""
        self.instance, previous, self._last = "", self._last, None
        content = user_data.content(data, "the instance's user data")
        if content is not None:
            same = previous is not None and document_text.same(
                previous.content, content
            )
            self._last = (
                previous if same else Document(source=self.name, content=content)
            )
        self.instance = instance
        return self._last

    def _instance(self) -> str:
        """Return the id of the instance; empty if the service gives none, or something else."""
        answer = self._get("/meta-data/instance-id")
        text = (
            answer.body.decode("ascii", "replace").strip()
            if answer.status == 200
            else ""
        )
        return text if _WORD.fullmatch(text) and not text.startswith("<") else ""

    def _get(self, path: str) -> web.Answer:
        """Return the answer for a path, whose status is 200 or 404. Raises SourceError."""
        for attempt in range(2):
            token = self._usable_token()
            answer = self._ask("GET", path, {_TOKEN: token} if token else {})
            if answer.status in (200, 404):
                return answer
            if answer.status != 401 or attempt:
                break
            self._expires = (
                0.0  # the token is not valid any more, or by now one is required
            )
        raise SourceError(
            f"{self._service} answered with HTTP {answer.status} {answer.reason}".rstrip()
        )

    def _usable_token(self) -> str:
        """Return a token; empty if the service has no tokens, as in its first version."""
        if time.monotonic() >= self._expires:
            sent = time.monotonic()
            answer = self._ask(
                "PUT", "/api/token", {f"{_TOKEN}-ttl-seconds": str(TOKEN_SECONDS)}
            )
            token = answer.body.decode("ascii", "replace").strip()
            if answer.status == 200 and _WORD.fullmatch(token):
                lifetime = answer.headers.get(f"{_TOKEN}-ttl-seconds", "")
                seconds = (
                    float(lifetime)
                    if lifetime.isdecimal() and len(lifetime) < 10
                    else TOKEN_SECONDS
                )
            elif answer.status in (200, 501) or 400 <= answer.status < 500:
                # it has no tokens, or does not know PUT
                token, seconds = "", TOKEN_SECONDS
            else:
                raise SourceError(
                    f"{self._service} gave no token: it answered with HTTP {answer.status} {answer.reason}".rstrip()
                )
            self._token, self._expires = (
                token,
                sent + max(seconds - TOKEN_SPARE, seconds / 2),
            )
        return self._token

    def _ask(self, verb: str, path: str, headers: Mapping[str, str]) -> web.Answer:
        from heat_config_agent import web  # noqa: PLC0415  # 50 ms, only if this source is used

        if self._connection is None:
            origin = self._origin()
            self._connection = web.Connection(
                origin, self._reach.ca_file, direct=True, seconds=self._seconds
            )
        try:
            return self._connection.fetch(
                self._base + path, headers, self._seconds, verb=verb
            )
        except UnreachableError as error:
            raise SourceError(f"cannot reach {self._service}: {error.brief}") from error

    def _origin(self) -> str:
        try:
            parts = urlsplit(self._base)
            host, _ = parts.hostname, parts.port
        except ValueError:
            host = None
        if not host or parts.scheme not in ("http", "https"):
            raise SourceError(
                "the URL of the EC2 metadata service cannot be understood",
                hint="correct metadata_url of [ec2]",
            )
        return f"{parts.scheme}://{parts.netloc}"

    @property
    def _service(self) -> str:
        """The service in words, without anything that might be secret."""
        return f"the EC2 metadata service at {urlsplit(self._base).netloc.rpartition('@')[2]}"


def is_likely(root: Path = Path("/")) -> bool:
    """Return True if the machine looks like an instance of a cloud with this service; elsewhere polling is useless."""
    for name in ("sys_vendor", "product_name", "chassis_asset_tag", "bios_version"):
        try:
            text = (root / "sys/class/dmi/id" / name).read_text(errors="replace")
        except OSError:
            continue
        if any(cloud in text.lower() for cloud in ("openstack", "amazon")):
            return True
    return False
