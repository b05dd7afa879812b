"""The EC2 metadata service, which OpenStack has too: the user data of this instance."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from heat_config_agent.errors import SourceError, UnreachableError
from heat_config_agent.model import Document
from heat_config_agent.sources import Reach, document, user_data

if TYPE_CHECKING:
    from heat_config_agent import web

TOKEN_SECONDS = 6 * 3600
"""How long a token is asked to be good for: the longest that there is."""

TOKEN_SPARE = 300.0
"""Seconds before a token expires from which on it is not used any more."""

DEFAULT_SECONDS = 10.0

_TOKEN = "X-aws-ec2-metadata-token"  # noqa: S105  # the name of a header
_WORD = re.compile(r"[!-~]{1,1024}")


class Ec2:
    """The user data that the EC2 metadata service gives this instance.

    It is fetched once for each instance: at every other question only the instance's id is asked for. Where that has
    changed, as it does for a machine that was copied as it ran, nothing that was known before counts.
    """

    name = "ec2"

    def __init__(self, values: Mapping[str, object], reach: Reach) -> None:
        """Ask the service that the settings name."""
        self.trouble = ""
        self.instance = ""
        """The id of the instance, of which the last document is; empty where the service gives none."""
        self._base = str(values["metadata_url"]).rstrip("/")
        seconds = values.get("timeout")
        self._seconds = float(seconds) if isinstance(seconds, int | float) and seconds > 0 else DEFAULT_SECONDS
        self._reach = reach
        self._connection: web.Connection | None = None
        self._token = ""
        self._expires = 0.0
        """In monotonic seconds: until when the token is used, or none is asked for where the service has none."""
        self._last: Document | None = None

    def collect(self) -> Document | None:
        """Ask for the id of the instance, and for its user data if that is not known yet."""
        instance = self._instance()
        if instance and instance == self.instance:
            return self._last
        answer = self._get("/user-data")
        data = answer.body if answer.status == 200 else b""
        self.instance, previous, self._last = "", self._last, None
        found = user_data.content(data, "the instance's user data")
        if found is not None:
            same = previous is not None and document.same(previous.content, found)
            self._last = previous if same else Document(source=self.name, content=found)
        self.instance = instance
        return self._last

    def _instance(self) -> str:
        """Return the id of the instance; empty where the service does not say, or says something else."""
        answer = self._get("/meta-data/instance-id")
        text = answer.body.decode("ascii", "replace").strip() if answer.status == 200 else ""
        return text if _WORD.fullmatch(text) and not text.startswith("<") else ""

    def _get(self, path: str) -> web.Answer:
        """Return the answer to a question: that it is there, or that it is not. Raises SourceError."""
        for attempt in range(2):
            token = self._known_token()
            answer = self._ask("GET", path, {_TOKEN: token} if token else {})
            if answer.status in (200, 404):
                return answer
            if answer.status != 401 or attempt:
                break
            self._expires = 0.0  # the token is not good any more, or by now one is needed
        raise SourceError(f"{self._service} answered with HTTP {answer.status} {answer.reason}".rstrip())

    def _known_token(self) -> str:
        """Return a token; empty where the service has none, so that it has to be asked without, as all once were."""
        if time.monotonic() >= self._expires:
            asked = time.monotonic()
            answer = self._ask("PUT", "/api/token", {f"{_TOKEN}-ttl-seconds": str(TOKEN_SECONDS)})
            token = answer.body.decode("ascii", "replace").strip()
            if answer.status == 200 and _WORD.fullmatch(token):
                given = answer.headers.get(f"{_TOKEN}-ttl-seconds", "")
                seconds = float(given) if given.isdecimal() and len(given) < 10 else TOKEN_SECONDS
            elif answer.status in (200, 501) or 400 <= answer.status < 500:  # it has none; others say PUT is unknown
                token, seconds = "", TOKEN_SECONDS
            else:
                raise SourceError(
                    f"{self._service} gave no token: it answered with HTTP {answer.status} {answer.reason}".rstrip()
                )
            self._token, self._expires = token, asked + max(seconds - TOKEN_SPARE, seconds / 2)
        return self._token

    def _ask(self, verb: str, path: str, headers: Mapping[str, str]) -> web.Answer:
        from heat_config_agent import web  # noqa: PLC0415  # 50 ms, for those who have this source

        if self._connection is None:
            origin = self._origin()
            self._connection = web.Connection(origin, self._reach.ca_file, direct=True, seconds=self._seconds)
        try:
            return self._connection.fetch(self._base + path, headers, self._seconds, verb=verb)
        except UnreachableError as error:
            raise SourceError(f"{self._service} cannot be asked: {error.brief}") from error

    def _origin(self) -> str:
        try:
            parts = urlsplit(self._base)
            host, _ = parts.hostname, parts.port
        except ValueError:
            host = None
        if not host or parts.scheme not in ("http", "https"):
            raise SourceError(
                "the URL of the EC2 metadata service cannot be understood", hint="correct metadata_url of [ec2]"
            )
        return f"{parts.scheme}://{parts.netloc}"

    @property
    def _service(self) -> str:
        """The service in words, without what might be secret."""
        return f"the EC2 metadata service at {urlsplit(self._base).netloc.rpartition('@')[2]}"


def is_likely(root: Path = Path("/")) -> bool:
    """Whether this looks like a machine of a cloud that has such a service: elsewhere every question is in vain."""
    for name in ("sys_vendor", "product_name", "chassis_asset_tag", "bios_version"):
        try:
            said = (root / "sys/class/dmi/id" / name).read_text(errors="replace")
        except OSError:
            continue
        if any(cloud in said.lower() for cloud in ("openstack", "amazon")):
            return True
    return False
