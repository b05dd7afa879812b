"""Reads the policy of the machine: one file at a fixed path that only root can write.

No option, variable, settings file or metadata names another path. Any fault of the file becomes the mistake of the
policy, with which nothing new may run; only a file that does not exist allows everything.
"""

from __future__ import annotations

import configparser
import errno
import os
import pwd
import re
import stat

import heat_config_hooks
from heat_config_agent.model.policy import Policy
from heat_config_agent.settings import kinds
from heat_config_agent.settings.paths import is_absent
from heat_config_agent.settings.schema import COLLECTORS
from heat_config_hooks import isolation

SECTION = "policy"

LARGEST = 64 * 1024
"""Maximum size of the file in bytes."""

SOURCES = (*COLLECTORS, "stdin", "stack")
"""The first parts of the names of sources."""

_WORDS = (
    "tools",
    "sources",
    "actions",
    "users",
    "secrets",
    "network",
    "isolate",
    "trusted_inputs",
    "repair",
)

RULES = (*_WORDS, "max_timeout", "signers")

LARGEST_SIGNERS = 1024 * 1024
"""Maximum size of the allowed signers file in bytes."""


def read(path: str) -> Policy | None:
    """Return the policy in a file, perhaps with a mistake; None if there is no such file."""
    try:
        text = _text(path)
        return None if text is None else parse(path, text)
    except _Signers as error:
        return Policy(
            file=path, mistake=f"cannot use the policy {path}: signers: {error}"
        )
    except OSError as error:
        link = error.errno in (errno.ELOOP, errno.ENOTDIR)
        why = (
            "neither the file nor its folders may be symbolic links"
            if link
            else error.strerror
        )
        return Policy(file=path, mistake=f"cannot use the policy {path}: {why}")
    except ValueError as error:
        return Policy(file=path, mistake=f"cannot use the policy {path}: {error}")


class _Signers(Exception):  # noqa: N818  # they are what is wrong
    """The allowed signers cannot be used; the text says why."""


def _signers(path: str) -> str:
    """Return the content of the allowed signers file. Raises `_Signers`."""
    words = path.split()
    if len(words) != 1 or not path.startswith("/"):
        raise _Signers(
            "expected the full path of an allowed signers file, see ssh-keygen(1)"
        )
    try:
        text = _text(path, LARGEST_SIGNERS)
    except OSError as error:
        raise _Signers(f"cannot read {path}: {error.strerror}") from error
    except ValueError as error:
        raise _Signers(f"{path}: {error}") from error
    if text is None:
        raise _Signers(f"there is no {path}")
    if not any(
        line.strip() and not line.lstrip().startswith("#") for line in text.splitlines()
    ):
        raise _Signers(f"{path} names no signer")
    return text


def _text(path: str, largest: int = LARGEST) -> str | None:
    """Return the content of a file that only root can write or replace; None if it does not exist.

    Each folder and the file are opened without following links, and what was opened is what is checked and read.
    Raises OSError and ValueError.
    """
    if is_absent(path):
        return None
    *folders, name = path.strip("/").split("/")
    held = os.open("/", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        place = ""
        for folder in folders:
            _check(held, place or "/")
            place = f"{place}/{folder}"
            flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
            held = _exchange(held, os.open(folder, flags, dir_fd=held))
        _check(held, place or "/")
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        held = _exchange(held, os.open(name, flags, dir_fd=held))
        _check(held, path)
        if not stat.S_ISREG(os.fstat(held).st_mode):
            raise ValueError("it is not a file")
        data = b""
        while len(data) <= largest and (more := os.read(held, largest + 1 - len(data))):
            data += more
    finally:
        os.close(held)
    if len(data) > largest:
        raise ValueError(f"it is larger than {largest} bytes")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(f"byte {error.start} is not UTF-8") from error


def _exchange(old: int, new: int) -> int:
    os.close(old)
    return new


def _check(descriptor: int, place: str) -> None:
    """Raise ValueError if others than root can write to the open file or folder."""
    found = os.fstat(descriptor)
    if found.st_uid != 0:
        raise ValueError(
            f"{place} belongs to the user {found.st_uid}; it has to belong to root"
        )
    if found.st_mode & 0o022:
        raise ValueError(
            f"other users than root may write to {place}; run chmod go-w {place}"
        )


def parse(path: str, text: str) -> Policy:
    """Return the policy of a text. Raises ValueError."""
    parser = configparser.RawConfigParser(
        delimiters=("=",),
        comment_prefixes=("#", ";"),
        default_section="\0",
        empty_lines_in_values=False,
    )
    try:
        parser.read_string(text, source=path)
    except configparser.Error as error:
        raise ValueError(_first_line(error)) from error
    unknown = [name for name in parser.sections() if name != SECTION]
    if unknown:
        raise ValueError(
            f"there is no section [{unknown[0]}]; it has one section, [{SECTION}]"
        )
    if not parser.has_section(SECTION) or not parser.items(SECTION):
        raise ValueError(f"expected a section [{SECTION}] with at least one rule")
    lines = {name: " ".join(value.split()) for name, value in parser.items(SECTION)}
    values: dict[str, tuple[str, ...]] = {}
    longest: float | None = None
    signers: str | None = None
    for name, value in lines.items():
        if name == "max_timeout":
            longest = _seconds(value)
        elif name == "signers":
            signers = _signers(value)
        elif name in _WORDS:
            values[name] = _words(name, value)
        else:
            raise ValueError(
                f"there is no rule {name!r}; the rules are {', '.join(RULES)}"
            )
    return Policy(
        file=path,
        tools=values.get("tools"),
        sources=values.get("sources"),
        actions=values.get("actions"),
        users=values.get("users"),
        own=_own() if "users" in values else "root",
        secrets=values.get("secrets"),
        network=values.get("network"),
        trusted_inputs=values.get("trusted_inputs"),
        repair=values.get("repair"),
        isolate=isolation.of_words(values["isolate"]) if "isolate" in values else None,
        max_timeout=longest,
        signers=signers,
        lines=lines,
    )


def _own() -> str:
    """Return the name of the agent's own user; its number if it has no name."""
    if os.geteuid() == 0:
        return "root"
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return str(os.geteuid())


def _first_line(error: configparser.Error) -> str:
    """Return the problem that the parser found, with its line."""
    line = getattr(error, "lineno", None) or next(
        (number for number, _ in getattr(error, "errors", ())), None
    )
    where = f"line {line}: " if line else ""
    if isinstance(
        error, configparser.DuplicateOptionError | configparser.DuplicateSectionError
    ):
        return f"{where}a name is there twice"
    return f"{where}expected a section [{SECTION}], and below it «name = value»"


def _seconds(value: str) -> float:
    seconds = kinds.LIMIT.read(value)
    if not isinstance(seconds, float):
        raise ValueError("max_timeout: expected a number of seconds, more than 0")  # noqa: TRY004  # a mistake in a file
    return seconds


_HOST = re.compile(r"(\*\.)?[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?(:[0-9]{1,5})?")


def _is_network(word: str) -> bool:
    import ipaddress  # noqa: PLC0415  # few policies have the rule

    try:
        ipaddress.ip_network(word)
    except ValueError:
        return False
    return True


_SECRET = re.compile(r"[a-z][a-z0-9-]{0,31}(:[^*]*\*?)?")


def _words(name: str, value: str) -> tuple[str, ...]:
    words = tuple(value.replace(",", " ").split())
    if not words:
        raise ValueError(f"{name}: name at least one")
    if any(word.startswith(("#", ";")) for word in words):
        raise ValueError(f"{name}: put the comment on a line of its own")
    if any(word.partition("=")[0] in ("", *RULES) for word in words if "=" in word):
        raise ValueError(
            f"{name}: a rule begins its line, and a line that begins with a space continues a rule"
        )
    for word in words:
        if problem := _problem(name, word):
            raise ValueError(f"{name}: {problem}")
    if (
        "none" in words
        and len(words) > 1
        and name in ("network", "secrets", "trusted_inputs", "repair")
    ):
        raise ValueError(f"{name}: none stands alone")
    return words


def _problem_of_repair(word: str) -> str:
    """Return the reason why a word of the rule `repair` can mean nothing; empty if it can."""
    kind, _, rest = word.partition(":")
    if word == "none" or (kind == "name" and rest):
        return ""
    if not (_problem("tools", word) and _problem("sources", word)):
        return ""
    expected = "a tool, a source, name:NAME, or none"
    return f"expected {expected}, not {word!r}"


def _problem(name: str, word: str) -> str:
    """Return the reason why a word of a rule can mean nothing; empty if it can."""
    hooks = (*heat_config_hooks.HOOKS, *heat_config_hooks.COMPAT)
    if name == "tools" and not (word.startswith("/") or word in hooks):
        return (
            f"{word!r} is not a built-in hook; name an executable hook by its full path"
        )
    if name == "trusted_inputs" and word != "none" and word not in hooks:
        return f"expected names of built-in hooks, or none, not {word!r}"
    if name == "network" and not _HOST.fullmatch(word) and not _is_network(word):
        return f"expected HOST, *.DOMAIN, HOST:PORT, or an address or network, not {word!r}"
    if name == "isolate" and word not in isolation.WORDS:
        return f"expected words of {', '.join(isolation.WORDS)}, not {word!r}"
    if name == "secrets" and not _SECRET.fullmatch(word):
        return f"expected SCHEME, SCHEME:REFERENCE or SCHEME:BEGINNING*, not {word!r}"
    if name == "repair":
        return _problem_of_repair(word)
    if name == "sources" and word.partition(":")[0] not in SOURCES:
        return f"there is no source {word!r}; the sources are {', '.join(SOURCES)}"
    if name == "sources" and ":" in word and not word.startswith("file:/"):
        return f"expected one of {', '.join(SOURCES)}, or file: with a full path, not {word!r}"
    return ""
