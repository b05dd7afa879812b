"""Settings as they are written: which there are, and what files and metadata say of them. One row for each setting.

The agent's own files (`/etc/heat-config-agent/*.conf`) and os-collect-config's have the same form, and the sections of
sources have the same names and keys, so one reader does for both. A file with a section `[agent]` is the agent's own:
in it every name has to be known. Of os-collect-config's, what is meant for that program alone is passed over.
"""

from __future__ import annotations

import enum
import math
import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from heat_config_agent.errors import UsageError
from heat_config_agent.model import Mistake
from heat_config_hooks.values import dataclass, field

TRANSPORTS = ("heat", "cfn", "request", "zaqar")
"""The ways to Heat's metadata, in the order in which their documents come."""

BOOT = ("config_drive", "ec2", "heat_local")
"""What an instance is given when it is made: how to reach Heat, and perhaps deployments, which count until then."""

LOCAL = ("local", "file")
"""What people and programs put on the machine."""

COLLECTORS = (*TRANSPORTS, *BOOT, *LOCAL)

LONGEST = 366 * 24 * 3600.0

_SHOWN = 200
"""Characters of a value that a sentence repeats at most."""

MEBI = 1024 * 1024

REBOOT = "systemctl reboot"

THEIRS = frozenset(
    {"command", "cachedir", "backup_cachedir", "print_cachedir", "one_time", "force", "print", "deployment_key"}
    | {"config_file", "config_dir", "config_source", "debug", "verbose", "default_log_levels", "fatal_deprecations"}
    | {"publish_errors", "rate_limit_burst", "rate_limit_except_level", "rate_limit_interval", "watch_log_file"}
    | {"instance_format", "instance_uuid_format", "syslog_log_facility", "timeout"}
)
"""What os-collect-config and oslo.log have, and the agent has no use for; so is what begins with one of `_THEIRS`."""

_THEIRS = ("log_", "logging_", "use_", "max_logfile", "shell_completion")


class Kind(str, enum.Enum):
    """What a value may be; the text is what a person reads."""

    TEXT = "text"
    FLAG = "true or false"
    SECONDS = "a number of seconds, 0 or more"
    LIMIT = "a number of seconds, more than 0"
    COUNT = "a whole number, 1 or more"
    SIZE = "a number of bytes, or of K, M or G of them, 0 or more"
    WORDS = "one or more words"
    LINES = "one or more lines"
    PATH = "an absolute path"
    PATHS = "one or more absolute paths"
    CHOICE = "one of"
    COMMAND = "a command and its arguments, quoted as in a shell"


@dataclass(frozen=True, kw_only=True)
class Setting:
    """One setting."""

    section: str
    name: str
    kind: Kind
    says: str
    """What it does, for people."""
    default: object = ""
    choices: tuple[str, ...] = ()
    """For `CHOICE`, and the words that there are for `WORDS`; empty for any."""
    secret: bool = False
    required: bool = False
    """Without it a transport's section says nothing."""
    shared: bool = False
    """os-collect-config has it too, in `[DEFAULT]` and in the metadata."""

    @property
    def expected(self) -> str:
        """What a value has to be, in words."""
        if self.kind is Kind.CHOICE:
            return f"one of {', '.join(self.choices)}"
        return f"{self.kind.value} of: {', '.join(self.choices)}" if self.choices else self.kind.value


def _rows(section: str, *rows: tuple[str, Kind, str, object]) -> tuple[Setting, ...]:
    return tuple(
        Setting(section=section, name=name, kind=kind, says=says, default=default) for name, kind, says, default in rows
    )


def _keystone(section: str) -> tuple[Setting, ...]:
    """Return the rows of a section that speaks to Keystone."""
    needed = (
        ("auth_url", "Keystone's URL"),
        ("user_id", "the id of the user as whom to ask"),
        ("password", "that user's password"),
        ("project_id", "the id of the project"),
    )
    rows = tuple(
        Setting(section=section, name=name, kind=Kind.TEXT, says=says, required=True, secret=name == "password")
        for name, says in needed
    )
    return (*rows, *_rows(section, ("region_name", Kind.TEXT, "the region; empty for any", "")))


def _needed(section: str, *rows: tuple[str, Kind, str]) -> tuple[Setting, ...]:
    return tuple(
        Setting(
            section=section,
            name=name,
            kind=kind,
            says=says,
            required=True,
            secret=name.startswith("secret_"),
            default=() if kind is Kind.WORDS else "",
        )
        for name, kind, says in rows
    )


SETTINGS: tuple[Setting, ...] = (
    *_rows(
        "agent",
        ("state_dir", Kind.PATH, "the journal, runs, and all else that the agent keeps", ""),
        ("min_polling_interval", Kind.SECONDS, "between two polls while something happens", 1.0),
        ("parallel", Kind.COUNT, "how many deployments may run at once; with 1 they run in the order of names", 1),
        ("time_limit", Kind.SECONDS, "of a deployment that does not say its own; 0 for none", 3600.0),
        ("grace", Kind.SECONDS, "between asking a run to end and killing it", 10.0),
        ("collect_timeout", Kind.LIMIT, "how long a source may take to answer", 60.0),
        ("ca_file", Kind.PATH, "certificates to trust; empty for the system's", ""),
        ("hooks_dir", Kind.PATHS, "directories with hooks, searched first", ()),
        ("plugin_dirs", Kind.PATHS, "directories with types of resources for stacks, written to Heat's guide", ()),
        ("environment", Kind.LINES, "NAME=VALUE for the environment of every run", ()),
        (
            "reboot_command",
            Kind.COMMAND,
            "reboots the machine when a hook asks for it (exit code 194)",
            "systemctl reboot",
        ),
        ("keep_secrets", Kind.SECONDS, "inputs and configs stay on disk after a result was delivered", 24 * 3600.0),
        (
            "keep_for",
            Kind.SECONDS,
            "output stays, and results of deployments that have left the metadata",
            30 * 24 * 3600.0,
        ),
        ("keep_count", Kind.COUNT, "how many deployments are kept that have left the metadata", 1000),
        ("keep_size", Kind.SIZE, "how much room all that is kept may take", 256 * MEBI),
        ("keep_files", Kind.COUNT, "how many files all that is kept may be", 20_000),
        (
            "output_limit",
            Kind.SIZE,
            "on disk, of what a run prints, 4M or more: else its middle is left out; 0 for any",
            64 * MEBI,
        ),
        ("scopes", Kind.FLAG, "runs are scopes of systemd's, in heat.slice, where it runs and we are root", True),
        ("metrics_file", Kind.PATH, "where to keep metrics for Prometheus' textfile collector; empty for nowhere", ""),
    ),
    Setting(
        section="agent",
        name="replaced",
        kind=Kind.CHOICE,
        says="what becomes of a run whose deployment is replaced: it may finish, or it is ended",
        default="finish",
        choices=("finish", "cancel"),
    ),
    Setting(
        section="agent",
        name="collectors",
        kind=Kind.WORDS,
        says="the sources to ask; empty for all for which there are settings",
        default=(),
        choices=COLLECTORS,
        shared=True,
    ),
    Setting(
        section="agent",
        name="polling_interval",
        kind=Kind.SECONDS,
        says="between two polls at most, while nothing happens",
        default=30.0,
        shared=True,
    ),
    Setting(
        section="agent",
        name="splay",
        kind=Kind.SECONDS,
        says="the first poll is delayed by up to so long, so that many machines do not poll at once",
        default=1.0,
        shared=True,
    ),
    *_keystone("heat"),
    *_needed(
        "heat",
        ("stack_id", Kind.TEXT, "NAME/ID of the stack"),
        ("resource_name", Kind.TEXT, "the server's name in it"),
    ),
    *_needed(
        "cfn",
        ("access_key_id", Kind.TEXT, "the EC2 access key"),
        ("secret_access_key", Kind.TEXT, "its secret"),
        ("stack_name", Kind.TEXT, "the stack's name"),
        ("path", Kind.WORDS, "RESOURCE.Metadata, and keys below that"),
    ),
    *_rows(
        "cfn",
        ("metadata_url", Kind.TEXT, "the URL of Heat's CloudFormation API; empty if metadata_hint has it", ""),
        ("metadata_hint", Kind.PATH, "the file that has it", "/var/lib/heat-cfntools/cfn-metadata-server"),
        ("ca_certificate", Kind.PATH, "certificates to trust for it", ""),
    ),
    Setting(
        section="request",
        name="metadata_url",
        kind=Kind.TEXT,
        says="the signed URL of the metadata",
        required=True,
        secret=True,
    ),
    *_keystone("zaqar"),
    *_needed("zaqar", ("queue_id", Kind.TEXT, "the queue with the metadata")),
    *_rows("zaqar", ("use_websockets", Kind.FLAG, "be told of new messages, where that is offered", False)),
    *_rows(
        "heat_local",
        (
            "path",
            Kind.PATHS,
            "where cloud-init leaves Heat's first metadata",
            ("/var/lib/heat-cfntools/cfn-init-data", "/var/lib/cloud/data/cfn-init-data"),
        ),
    ),
    *_rows(
        "ec2",
        ("metadata_url", Kind.TEXT, "the EC2 metadata service", "http://169.254.169.254/latest"),
        ("timeout", Kind.LIMIT, "for each request to it", 10.0),
    ),
    *_rows("config_drive", ("path", Kind.PATH, "the drive, or where it is mounted; empty to look for it", "")),
    *_rows(
        "local", ("path", Kind.PATHS, "directories with documents (*.json)", ("/var/lib/os-collect-config/local-data",))
    ),
    *_rows("file", ("path", Kind.PATHS, "documents", ())),
)

_KNOWN: Mapping[tuple[str, str], Setting] = {(each.section, each.name): each for each in SETTINGS}
SECTIONS = frozenset(each.section for each in SETTINGS)

Sections = Mapping[str, Mapping[str, object]]
"""Section → name → value, of the type that its kind says."""


@dataclass(frozen=True)
class Layer:
    """What one place says."""

    origin: str
    """The place: a file, the metadata, …"""
    sections: Sections = field(repr=False)
    lines: Mapping[tuple[str, str], int] = field(default_factory=dict)
    """In which line a file says it."""
    mistakes: tuple[Mistake, ...] = ()
    """What it says wrongly, and so does not count."""
    passed_over: tuple[str, ...] = ()
    """What it says that the agent has no use for."""
    own: bool = False
    """Whether it is a file in the agent's own form: then what is wrong in it is refused."""
    wrong: tuple[str, ...] = ()
    """The names, as they are written, of what it says wrongly."""

    def get(self, section: str, name: str) -> object:
        """Return a value; None where it says none."""
        return self.sections.get(section, {}).get(name)

    def origin_of(self, section: str, name: str) -> str:
        """Return the place, to the line."""
        line = self.lines.get((section, name))
        return f"{self.origin}, line {line}" if line else self.origin


def file(path: Path, *, own: bool = False, refused: list[str] | None = None) -> Layer:
    """Read a file of settings: the agent's own, if that is said or it has a section `[agent]`; or os-collect-config's.

    Raises UsageError; where there is a list `refused`, lines that have not the form are put into that, and passed over.
    """
    try:
        text = path.read_text(encoding="utf-8-sig", errors="replace")
    except OSError as error:
        raise UsageError(f"cannot read the settings in {path}: {error.strerror}") from error
    wrong: list[str] = []

    def refuse(line: int, name: str, problem: str) -> None:
        sentence = f"cannot read the settings in {path}: line {line}: {problem}"
        if refused is None:
            raise UsageError(sentence)
        refused.append(sentence)
        wrong.append(name)

    said = list(_said(text, refuse))
    own = own or any(section == "agent" for section, *_ in said)
    sections: dict[str, dict[str, object]] = {}
    lines: dict[tuple[str, str], int] = {}
    mistakes: list[Mistake] = []
    passed_over: list[str] = []
    several: dict[tuple[str, str], list[str]] = {}
    for section, name, value, line in said:
        place = "agent" if section == "DEFAULT" and not own else section
        known = _KNOWN.get((place, name))
        if known is None or (section == "DEFAULT" and not known.shared):
            problem = _unknown(section, name) if own else _misspelt(section, name)
            if problem and not any(each.problem == problem for each in mistakes):
                mistakes.append(Mistake(path=f"line {line}", problem=problem))
            elif not problem:
                passed_over.append(f"[{section}] {name}")
            wrong.append(name)
            continue
        lines.setdefault((place, name), line)
        several.setdefault((place, name), []).append(value)
    for (place, name), values in several.items():
        known = _KNOWN[place, name]
        try:
            sections.setdefault(place, {})[name] = _read(known, _one(known, values), strict=own)
        except ValueError as error:
            mistakes.append(Mistake(path=f"line {lines[place, name]}", problem=f"{name}: {error}"))
            wrong.append(name)
    if not own:
        named = sections.get("agent", {}).get("collectors", ())
        for each in named if isinstance(named, tuple) else ():
            if each not in COLLECTORS:
                problem = f"collectors: {_no_source(each)}"
                mistakes.append(Mistake(path=f"line {lines['agent', 'collectors']}", problem=problem))
    mistakes.sort(key=lambda each: int(each.path.removeprefix("line ")))
    return Layer(str(path), sections, lines, tuple(mistakes), tuple(passed_over), own, tuple(wrong))


def metadata(content: object, origin: str) -> Layer:
    """Return what a document says under `os-collect-config`: null unsets, and what is wrong is passed over."""
    said = content.get("os-collect-config") if isinstance(content, Mapping) else None
    if said is None:
        return Layer(origin, {})
    if not isinstance(said, Mapping):
        return Layer(origin, {}, mistakes=(Mistake(path="os-collect-config", problem="expected an object"),))
    sections: dict[str, dict[str, object]] = {}
    mistakes: list[Mistake] = []
    for section, name, path, value in _of_metadata(said):
        known = _KNOWN.get((section, name))
        if known is None or value is None or (section == "agent" and not known.shared):
            continue
        try:
            sections.setdefault(section, {})[name] = _read(known, value)
        except ValueError as error:
            mistakes.append(Mistake(path=path, problem=str(error)))
    return Layer(origin, sections, mistakes=tuple(mistakes))


def _of_metadata(said: Mapping[str, object]) -> Iterator[tuple[str, str, str, object]]:
    for key, value in said.items():
        if key in TRANSPORTS and isinstance(value, Mapping):
            for name, each in value.items():
                yield key, str(name), f"os-collect-config.{key}.{name}", each
        elif not isinstance(value, Mapping):
            yield "agent", str(key), f"os-collect-config.{key}", value


def general(text: str) -> dict[str, str]:
    """Return all that os-collect-config's file says in `[DEFAULT]`, also what is meant for that program alone."""
    return {name: value for section, name, value, _ in _said(text, lambda *_: None) if section == "DEFAULT"}


def merged(layers: Iterable[Layer], origin: str) -> Layer:
    """Return what several places say together; the first that says something wins."""
    sections: dict[str, dict[str, object]] = {}
    for layer in layers:
        for name, values in layer.sections.items():
            sections[name] = {**values, **sections.get(name, {})}
    return Layer(origin, sections)


def defaults(section: str) -> dict[str, object]:
    """Return what holds in a section where nobody says anything."""
    return {each.name: each.default for each in SETTINGS if each.section == section}


def incomplete(section: str, values: Mapping[str, object]) -> tuple[str, ...]:
    """Return the names of a transport's settings that are missing."""
    return tuple(
        each.name for each in SETTINGS if each.section == section and each.required and not values.get(each.name)
    )


def setting(section: str, name: str) -> Setting:
    """Return the row of a setting."""
    return _KNOWN[section, name]


def _said(text: str, refuse: Callable[[int, str, str], None]) -> Iterator[tuple[str, str, str, int]]:
    """Yield section, name, value and line number of everything that a file says, in its order.

    The form is oslo.config's: `name = value` or `name: value`, names may be repeated, a line that begins with a space
    goes on with the value before it. What has another is told `refuse`: its line, name, and what is wrong.
    """
    section, name, value, start = "", "", "", 0
    homeless = False
    for number, line in enumerate(text.splitlines(), 1):
        if name and line[:1].isspace() and line.strip():
            value += f"\n{line.strip()}"
            continue
        if name:
            yield section, name, _unquoted(value), start
            name = ""
        stripped = line.strip()
        if not stripped or stripped[0] in "#;":
            continue
        if stripped[0] == "[":
            if not stripped.endswith("]"):
                refuse(number, "", "a section needs a ']' at its end")
            section = stripped[1:].removesuffix("]").strip()
            continue
        at = min((found for found in (stripped.find("="), stripped.find(":")) if found > 0), default=-1)
        word = stripped[: max(at, 0)].strip().replace("-", "_")
        if at < 0 or (not section and not re.fullmatch(_NAME, word)):
            refuse(number, stripped.split()[0], "expected «name = value»" if section else _BEGIN)
            continue
        if not section:
            if not homeless or word == "state_dir":
                refuse(number, word, f"«{word}» stands before any section: begin with {_home(word)}")
            homeless = True
            continue
        name, value, start = word, stripped[at + 1 :].strip(), number
    if name:
        yield section, name, _unquoted(value), start


_NAME = r"[\w.]+"

_BEGIN = "expected a section such as [agent], and below it «name = value»"


def _home(name: str) -> str:
    """Return where a setting belongs that stands nowhere: in a file of the agent's own, where it may."""
    sections = [each.section for each in SETTINGS if each.name == name]
    return f"[{sections[0]}]" if sections else "[DEFAULT]" if name in THEIRS else "a section such as [agent]"


def _unquoted(value: str) -> str:
    quoted = len(value) > 1 and value[0] in "\"'" and value.find(value[0], 1) == len(value) - 1
    return value[1:-1] if quoted else value  # else it is several words, each with quotes of its own


def _one(known: Setting, values: Sequence[str]) -> object:
    """Return the one value of a name that may have been said several times: of a list, all of them."""
    return list(values) if known.kind in (Kind.WORDS, Kind.LINES, Kind.PATHS) else values[-1]


def _misspelt(section: str, name: str) -> str:
    """Return what is wrong with something that os-collect-config's file says; empty where it is that program's own."""
    if name in THEIRS or name.startswith(_THEIRS):
        return ""
    if section != "DEFAULT":
        close = section in SECTIONS or similar(section, [*SECTIONS, "DEFAULT"])
        return _unknown(section, name) if close else ""
    if ("agent", name) in _KNOWN:
        return f"{name!r} is a setting of [agent], not of [DEFAULT]"
    shared = [each.name for each in SETTINGS if each.shared]
    close = similar(name, [*shared, *THEIRS])
    return f"there is no setting {name!r} in [DEFAULT]; did you mean {close[0]}?" if close else ""


def similar(name: str, names: Iterable[str]) -> list[str]:
    """Return the one of the names that was perhaps meant; none where none is like it."""
    import difflib  # noqa: PLC0415  # only for who has mistyped

    return difflib.get_close_matches(name, list(names), n=1)


def _no_source(name: str) -> str:
    close = similar(name, COLLECTORS)
    return f"there is no source {name!r}; {f'did you mean {close[0]}?' if close else f'there are {_LIST}'}"


_LIST = ", ".join(COLLECTORS)


def _unknown(section: str, name: str) -> str:
    if section == "DEFAULT":
        return "[DEFAULT] is os-collect-config's: in a file with [agent], say it there"
    if section not in SECTIONS:
        close = similar(section, SECTIONS)
        return f"there is no section [{section}]{f'; did you mean [{close[0]}]?' if close else ''}"
    names = [each.name for each in SETTINGS if each.section == section]
    close = similar(name, names)
    hint = f"did you mean {close[0]}?" if close else f"it has {', '.join(sorted(names))}"
    return f"there is no setting {name!r} in [{section}]; {hint}"


def _read(known: Setting, value: object, *, strict: bool = False) -> object:
    """Return a value as its kind says. Raises ValueError, with what would be right.

    Unless it is `strict`, collectors may be named that we do not have: os-collect-config may have more.
    """
    found = _READ[known.kind](value)
    words = found if isinstance(found, tuple) else (found,)
    allowed = known.choices if strict or known.name != "collectors" else ()
    if found is None or (allowed and not all(each in allowed for each in words)):
        unknown = [each for each in words if each not in allowed] if known.name == "collectors" and found else []
        if unknown:
            raise ValueError(_no_source(str(unknown[0])))
        text = repr(value)
        shown = text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
        # Of URLs and of variables, a part may be a secret.
        hidden = known.secret or known.name.endswith("_url") or known.name == "environment"
        raise ValueError(f"expected {known.expected}, not {'that' if hidden else shown}")
    return found


def _text(value: object) -> object:
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    return value.strip() if isinstance(value, str) and "\0" not in value else None


def _flag(value: object) -> object:
    words = {"true": True, "yes": True, "on": True, "1": True, "false": False, "no": False, "off": False, "0": False}
    return value if isinstance(value, bool) else words.get(str(value).strip().lower())


def _seconds(value: object) -> object:
    try:
        number = float(value) if isinstance(value, str | int | float) and not isinstance(value, bool) else math.nan
    except (ValueError, OverflowError):
        return None
    return number if 0 <= number <= LONGEST else None


def _limit(value: object) -> object:
    return _seconds(value) or None


def _count(value: object) -> object:
    number = _seconds(value)
    return int(number) if isinstance(number, float) and number.is_integer() and number >= 1 else None


def written(kind: Kind, value: object) -> str:
    """Return a value as a file of settings has it; empty where it says nothing."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int) and kind is Kind.SIZE and value:
        unit = next((each for each in (3, 2, 1) if value % 1024**each == 0), 0)
        return f"{value // 1024**unit}{' KMG'[unit].strip()}"
    if isinstance(value, tuple):
        return ", ".join(map(str, value))
    return f"{value:.15g}" if isinstance(value, int | float) else str(value)


_SIZE = r"(?i)(\d{1,15})\s*([kmgt]?)(i?b)?"


def _size(value: object) -> object:
    text = str(value) if isinstance(value, str | int) and not isinstance(value, bool) else ""
    found = re.fullmatch(_SIZE, text.strip())
    return int(found[1]) * 1024 ** " kmgt".index(found[2].lower() or " ") if found else None


def _words(value: object) -> object:
    items = [value] if isinstance(value, str) else value
    if not isinstance(items, list) or not all(isinstance(each, str) and "\0" not in each for each in items):
        return None
    return tuple(word for each in items for word in each.replace(",", " ").split())


def _lines(value: object) -> object:
    items = [value] if isinstance(value, str) else value
    if not isinstance(items, list) or not all(isinstance(each, str) and "\0" not in each for each in items):
        return None
    return tuple(line.strip() for each in items for line in each.splitlines() if line.strip())


def _command(value: object) -> object:
    text = _text(value)
    try:
        return text if isinstance(text, str) and shlex.split(text) else None
    except ValueError:
        return None


def _path(value: object) -> object:
    text = _text(value)
    return text if isinstance(text, str) and (text == "" or text.startswith("/")) else None


def _paths(value: object) -> object:
    words = _words(value)
    return words if isinstance(words, tuple) and all(each.startswith("/") for each in words) else None


_READ = {
    Kind.TEXT: _text,
    Kind.FLAG: _flag,
    Kind.SECONDS: _seconds,
    Kind.LIMIT: _limit,
    Kind.COUNT: _count,
    Kind.SIZE: _size,
    Kind.WORDS: _words,
    Kind.LINES: _lines,
    Kind.PATH: _path,
    Kind.PATHS: _paths,
    Kind.CHOICE: _text,
    Kind.COMMAND: _command,
}
