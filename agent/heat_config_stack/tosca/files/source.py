"""The source of a service: everything that was read of it, as it is stored with the stack."""

from __future__ import annotations

import base64
import posixpath
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from heat_config_agent.model.positions import Json
from heat_config_stack.tosca.files.archives import Files

LANGUAGE = "tosca"


@dataclass(frozen=True)
class Source:
    """A service template with everything that it is applied with."""

    entry: str
    """The path of the service template among the files."""
    base: str = ""
    """The folder of the service among the files."""
    files: Mapping[str, Json] = field(default_factory=dict)
    """Path → the text of a file, or its bytes: `{"base64": …}`."""
    shown: Mapping[str, str] = field(default_factory=dict)
    """Path → how mistakes name the file, where that is another name."""
    modes: Mapping[str, int] = field(default_factory=dict)
    """Path → the permissions of a file that not everyone may read."""
    inputs: Mapping[str, Json] = field(default_factory=dict)
    attributes: Mapping[str, Mapping[str, Json]] = field(default_factory=dict)
    """The attributes that people have given, by NODE, or by NODE.CAPABILITY."""
    beside: tuple[str, ...] = ()
    """The paths of the files of an archive that are copied next to each script."""
    substitutes: Mapping[str, str] = field(default_factory=dict)
    """Node → the path of the service template that stands in its place."""
    machine: Mapping[str, Mapping[str, Json]] = field(default_factory=dict)
    """The facts of this machine: the properties of the capabilities `host` and `os` of a Compute."""

    signatures: tuple[str, ...] = ()
    """The evidence that the files are signed."""
    hosts: Mapping[str, Json] = field(default_factory=dict)
    """The hosts of nodes that are not this machine, by the names of the nodes."""

    def to_json(self) -> Json:
        """Return it as JSON."""
        lists = {"beside": list(self.beside), "signatures": list(self.signatures)}
        values = {"language": LANGUAGE, **asdict(self), **lists}
        seldom = {name for name in ("modes", "hosts") if not values[name]}
        return {name: value for name, value in values.items() if name not in seldom}

    @classmethod
    def from_json(cls, value: Json) -> Source:
        """Return the source that `to_json` has written."""
        kept = cls(
            **{name: value[name] for name in cls.__dataclass_fields__ if name in value}
        )
        return replace(
            kept, beside=tuple(kept.beside), signatures=tuple(kept.signatures)
        )


class Kept:
    """The files of a source, in place of files on disk (`archives.Files`)."""

    def __init__(self, source: Source) -> None:
        self._files = source.files
        self._shown = source.shown
        self._modes = source.modes

    def read(self, path: str) -> bytes:
        """Return the content of a file. Raises `OSError`."""
        content = self._files.get(path)
        if content is None:
            raise FileNotFoundError(2, "it is not kept with the stack")
        return (
            content.encode()
            if isinstance(content, str)
            else base64.b64decode(content["base64"])
        )

    def has(self, path: str) -> bool:
        """Return whether there is a file of that path."""
        return path in self._files

    def below(self, path: str) -> list[str]:
        """Return the paths of the files in a folder."""
        return sorted(name for name in self._files if name.startswith(f"{path}/"))

    def shown(self, path: str) -> str:
        """Return how a mistake names a file."""
        return self._shown.get(path, path)

    def mode(self, path: str) -> int:
        """Return the permissions of a file."""
        return self._modes.get(path, 0o644)


class Recorder:
    """Files that record which of them were read (`archives.Files`)."""

    def __init__(self, files: Files) -> None:
        self._files = files
        self.contents: dict[str, Json] = {}
        self.names: dict[str, str] = {}
        self.modes: dict[str, int] = {}

    def read(self, path: str) -> bytes:
        """Return the content of a file. Raises `OSError`."""
        content = self._files.read(path)
        try:
            self.contents[path] = content.decode()
        except UnicodeDecodeError:
            self.contents[path] = {"base64": base64.b64encode(content).decode()}
        name = self._files.shown(path)
        if name != path:
            self.names[path] = name
        if not (mode := self._files.mode(path)) & 0o004:
            self.modes[path] = mode
        return content

    def has(self, path: str) -> bool:
        """Return whether there is a file of that path."""
        return self._files.has(path)

    def below(self, path: str) -> list[str]:
        """Return the paths of the files in a folder."""
        return self._files.below(path)

    def shown(self, path: str) -> str:
        """Return how a mistake names a file."""
        return self._files.shown(path)

    def mode(self, path: str) -> int:
        """Return the permissions of a file. Raises `OSError`."""
        return self._files.mode(path)

    def forget(self, path: str) -> None:
        """Forget a file that is not used after all."""
        self.contents.pop(path, None)
        self.modes.pop(path, None)


def folder_of(entry: str, *, on_disk: bool) -> str:
    """Return the folder of a service: that of its template on disk, or the root of its archive."""
    return posixpath.dirname(entry) if on_disk else ""


def machine_template(facts: Mapping[str, Mapping[str, Json]]) -> dict[str, Any]:
    """Return this machine as a node template."""
    capabilities = {
        name: {"properties": dict(values)} for name, values in facts.items() if values
    }
    return {"type": "tosca.nodes.Compute", "capabilities": capabilities}
