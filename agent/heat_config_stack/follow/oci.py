"""An OCI artifact as a source, by the calls of the OCI distribution specification that fetch one.

https://github.com/opencontainers/distribution-spec/blob/main/spec.md (pull), and for tokens
https://distribution.github.io/distribution/spec/auth/token/.
"""

from __future__ import annotations

import base64
import hashlib
import io
import re
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlencode, urljoin, urlsplit

from heat_config_agent import web
from heat_config_agent.model.errors import SourceError, UnreachableError, UsageError
from heat_config_agent.runs.artifacts import archives, trees
from heat_config_agent.settings.in_force import refused_url
from heat_config_agent.web.answers import within
from heat_config_hooks import strict_json
from heat_config_stack.follow.allowance import Allowance
from heat_config_stack.follow.demand import Demand
from heat_config_stack.follow.origin import Origin

_MANIFESTS = "application/vnd.oci.image.manifest.v1+json, application/vnd.docker.distribution.manifest.v2+json"
_LARGEST_MANIFEST = 4 * 1024 * 1024
_TITLE = "org.opencontainers.image.title"
_DIGEST = r"sha256:[0-9a-f]{64}"
_NAME = r"[a-z0-9]+(?:[._/-]+[a-z0-9]+)*"
_REDIRECTS = 3
_LEAST = 64 * 1024
"""The most bytes of an answer that may be a refusal, and of small layers."""

_LARGEST_TOKEN = 1024 * 1024


class Oci:
    """An artifact in a registry. The tag or digest is `ref`; `latest` by default.

    A signed list next to the template or document in it is for these.
    """

    demand: Demand | None = None
    evidence = ""

    def __init__(self, origin: Origin) -> None:
        """Follow the artifact in the settings: `oci://HOST/NAME`, or `oci+http://` without TLS. Raises UsageError."""
        self._origin = origin
        parts = urlsplit(origin.url)
        name = parts.path.strip("/")
        if not parts.hostname or not re.fullmatch(_NAME, name):
            raise UsageError(
                "the URL of the artifact is not oci://HOST/NAME",
                hint="the tag or digest is ref",
            )
        self._host = parts.netloc
        scheme = "http" if parts.scheme == "oci+http" else "https"
        self._base = f"{scheme}://{parts.netloc}/v2/{name}"
        self._servers: dict[str, web.Connection] = {}
        self._authorization = ""
        self._allowance = Allowance(origin.seconds)

    def newest(self) -> str:
        """Return the digest of the manifest."""
        self._allowance.begin()
        return self._manifest()[1]

    def fetch(self, revision: str, tree: Path) -> str:  # what is newest now
        """Put the layers into an empty folder: an archive is unpacked, and any other layer is a file with its title."""
        self._allowance.begin()
        manifest, revision = self._manifest()
        layers = manifest.get("layers")
        if not isinstance(layers, list) or not layers:
            raise UsageError(
                "the artifact has no layers; an index of several artifacts cannot be followed"
            )
        arriving, unpacked = (
            trees.Budget(self._origin.size),
            trees.Budget(self._origin.size),
        )
        for layer in layers:
            self._place(layer, tree, arriving, unpacked)
        return revision

    def _manifest(self) -> tuple[dict[str, object], str]:
        ref = self._origin.ref or "latest"
        if not re.fullmatch(rf"[\w][\w.-]{{0,127}}|{_DIGEST}", ref):
            raise UsageError(f"no artifact has the tag {ref!r}", hint="correct ref")
        body = self._get(
            f"{self._base}/manifests/{ref}", {"Accept": _MANIFESTS}, _LARGEST_MANIFEST
        )
        digest = f"sha256:{hashlib.sha256(body).hexdigest()}"
        if ":" in ref and digest != ref:
            raise SourceError(
                f"{self._host} sends a manifest with another digest than {ref}"
            )
        try:
            content = strict_json.loads(body.decode())
        except (ValueError, RecursionError) as error:
            raise SourceError(
                f"{self._host} sends a manifest that is not JSON"
            ) from error
        if not isinstance(content, dict):
            raise SourceError(f"{self._host} sends a manifest that is not an object")
        return content, digest

    def _place(
        self, layer: object, tree: Path, arriving: trees.Budget, unpacked: trees.Budget
    ) -> None:
        """Unpack a layer into a folder, within the budgets for all layers, compressed and unpacked."""
        values = layer if isinstance(layer, dict) else {}
        digest, size, kind = (
            values.get("digest"),
            values.get("size"),
            str(values.get("mediaType")),
        )
        notes = values.get("annotations")
        title = str(notes.get(_TITLE) or "") if isinstance(notes, dict) else ""
        if (
            not isinstance(digest, str)
            or not re.fullmatch(_DIGEST, digest)
            or type(size) is not int
            or size < 0
        ):
            raise UsageError(
                "a layer of the artifact has no digest of sha256, or no size"
            )
        arriving.spend(size, 1)
        body = self._get(f"{self._base}/blobs/{digest}", {}, size)
        if len(body) != size or f"sha256:{hashlib.sha256(body).hexdigest()}" != digest:
            raise SourceError(
                f"{self._host} sent a layer whose digest is not {digest[:19]}"
            )
        if "tar" in kind.split("+", maxsplit=1)[0].split("."):
            archives.unpack(io.BytesIO(body), tree, unpacked)
        elif (
            title not in ("", ".", "..")
            and "/" not in title
            and title.isprintable()
            and len(title) <= 100
        ):
            unpacked.spend(size, 1)
            try:
                with (tree / title).open(
                    "xb"
                ) as file:  # it does not write through a link either
                    file.write(body)
            except FileExistsError:
                raise UsageError(
                    f"the artifact has {title!r} in two of its layers"
                ) from None
        else:
            raise UsageError(
                "a layer of the artifact is neither an archive nor a file with a title"
            )

    def _get(self, url: str, headers: Mapping[str, str], most: int) -> bytes:
        """Return the body at a URL of the registry, of up to `most` bytes, with a token if it wants one.

        Redirects are followed.
        """
        answer = self._ask(url, {**headers, **self._credentials()}, most)
        if answer.status == 401:
            self._authorization = self._token(
                answer.headers.get("WWW-Authenticate", "")
            )
            answer = self._ask(url, {**headers, **self._credentials()}, most)
        for _ in range(_REDIRECTS):
            if answer.status not in (301, 302, 303, 307, 308):
                break
            try:
                url = urljoin(url, answer.headers.get("Location", ""))
            except ValueError as error:
                raise SourceError(
                    f"{self._host} redirects to a place that is not a URL"
                ) from error
            # the target of the redirection gets no token
            answer = self._ask(url, headers, most)
        if answer.status != 200:
            raise SourceError(
                f"{self._host} answers HTTP {answer.status} {answer.reason}".rstrip()
            )
        return answer.body

    def _credentials(self) -> dict[str, str]:
        return {"Authorization": self._authorization} if self._authorization else {}

    def _token(self, challenge: str) -> str:
        """Return the value of the header `Authorization` that a registry asks for."""
        basic = ""
        if self._origin.token:
            pair = f"{self._origin.user}:{self._origin.token}".encode()
            basic = f"Basic {base64.b64encode(pair).decode()}"
        kind, _, rest = challenge.partition(" ")
        asked = dict(re.findall(r'(\w+)="([^"]*)"', rest))
        realm = asked.pop("realm", "")
        if kind.lower() != "bearer" or not realm:
            return basic
        secure = realm.startswith("https://") or self._base.startswith("http://")
        if not secure:
            raise SourceError(
                f"{self._host} asks for a token over a connection without TLS"
            )
        query = urlencode(
            {
                name: value
                for name, value in asked.items()
                if name in ("service", "scope")
            }
        )
        answer = self._ask(
            f"{realm}?{query}",
            {"Authorization": basic} if basic else {},
            _LARGEST_TOKEN,
        )
        try:
            content = (
                strict_json.loads(answer.body.decode())
                if answer.status == 200
                else None
            )
        except (ValueError, RecursionError):
            content = None
        token = (
            (content.get("token") or content.get("access_token"))
            if isinstance(content, dict)
            else None
        )
        if not isinstance(token, str):
            raise SourceError(
                f"{self._host} gives no token: HTTP {answer.status} {answer.reason}".rstrip()
            )
        return f"Bearer {token}"

    def _ask(self, url: str, headers: Mapping[str, str], most: int) -> web.Answer:
        """Return an answer with a body of up to `most` bytes. Raises SourceError."""
        try:
            parts = urlsplit(url)
            is_web = (
                parts.scheme in ("http", "https")
                and bool(parts.hostname)
                and parts.port != 0
            )
        except ValueError:
            is_web = False
        place = f"{parts.scheme}://{parts.netloc}" if is_web else ""
        if not is_web:
            raise SourceError(f"{self._host} redirects to a place that is not of http")
        if refusal := refused_url(url):
            raise SourceError(refusal)
        if place not in self._servers:
            self._servers[place] = web.Connection(
                place, self._origin.ca_file, seconds=self._origin.seconds
            )
        try:
            with within(self._allowance.seconds):
                return self._servers[place].ask(
                    "GET", url, b"", headers, max(most, _LEAST)
                )
        except UnreachableError as error:
            raise SourceError(f"{parts.netloc} does not answer: {error}") from error
