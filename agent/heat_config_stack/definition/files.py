"""Files that templates are made of: their names, and their text from disk, within limits."""

from __future__ import annotations

import base64
import posixpath
from collections.abc import Callable
from dataclasses import dataclass
from urllib import parse

from heat_config_agent.diagnostics.mistakes import Invalid
from heat_config_agent.masking.redaction import OPEN
from heat_config_agent.model.errors import UsageError
from heat_config_agent.model.mistake import Mistake
from heat_config_agent.model.positions import Place
from heat_config_hooks.files import LARGEST, take


@dataclass(frozen=True, slots=True)
class File:
    """A text, and the name under which it was read."""

    name: str
    text: str


def path_of(name: str) -> str:
    """Return the path that a name stands for; the name may be a `file://` URL."""
    return (
        parse.unquote(parse.urlsplit(name).path) if name.startswith("file://") else name
    )


def beside(name: str, base: str) -> str:
    """Return the path of a file that another file, `base`, names."""
    return posixpath.normpath(posixpath.join(posixpath.dirname(base), path_of(name)))


def text_of(content: bytes) -> str:
    """Return the content of a file as text: UTF-8, or else base64, as Heat's client sends it."""
    try:
        return content.decode()
    except UnicodeDecodeError:
        return base64.encodebytes(content).decode()


def needed(name: str, content: Callable[[str], bytes] = take) -> File:
    """Return a text that a command names, as `content` reads it. Raises `UsageError` where it cannot be read."""
    path = path_of(name)
    try:
        return written(path, content(path))
    except (OSError, ValueError) as error:
        raise UsageError(
            f"cannot read {path}: {getattr(error, 'strerror', None) or error}"
        ) from None


def written(path: str, content: bytes) -> File:
    """Return a text that a person has written. Raises `Invalid` with the place of bytes that are not UTF-8."""
    try:
        return File(path, content.decode())
    except UnicodeDecodeError as error:
        line, column = (
            content.count(b"\n", 0, error.start) + 1,
            error.start - content.rfind(b"\n", 0, error.start),
        )
        mistake = Mistake(
            "it is not UTF-8 text",
            (),
            Place(path, line, column),
            "save it as UTF-8",
            "template_format",
        )
        raise Invalid([mistake], OPEN) from None


class Unread(Exception):  # noqa: N818  # it is the file that is
    """A file cannot be had; the text says why."""

    def __init__(self, problem: str, hint: str, *, missing: bool = True) -> None:
        """Take the reason and a hint; `missing` is false if the file was not looked for."""
        super().__init__(problem)
        self.hint, self.missing = hint, missing


class Files:
    """The files that one template and all files under it name, each read once."""

    def __init__(self, content: Callable[[str], bytes] = take) -> None:
        """Take a function that returns the content of a file by its path, or raises OSError."""
        self.texts: dict[str, str] = {}
        """By path."""
        self._content = content
        self._left = LARGEST

    def read(self, name: str, base: str) -> File | None:
        """Return a file that another file, `base`, names; None where it has been read before. Raises `Unread`."""
        path = beside(name, base)
        if path in self.texts:
            return None
        if "://" in name and not name.startswith("file://"):
            problem = f"{name} is not fetched: only files of this machine are read"
            raise Unread(problem, "keep a copy of it here", missing=False)
        file = _file(path, self._content)
        self._left -= len(file.text)
        if self._left < 0:
            problem = f"the files that templates and environments name are over {LARGEST // 1024**2} MiB long together"
            raise Unread(problem, f"{path} is one of them", missing=False)
        self.texts[path] = file.text
        return file


def _file(path: str, content: Callable[[str], bytes]) -> File:
    try:
        return File(path, text_of(content(path)))
    except (OSError, ValueError) as error:
        problem = f"cannot read {path}: {getattr(error, 'strerror', None) or error}"
        raise Unread(problem, "its path begins at the file that names it") from None
