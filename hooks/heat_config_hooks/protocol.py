"""What passes between whoever runs a hook and the hook. `hooks/README.md` explains it to people who write one.

A hook of ours is a module that says what it is about, with two functions around one command:

    ABOUT                                          its options, the program that it drives, …
    prepare(request, place) -> Command | Reply     what to run, or the answer where nothing need be run
    finish(request, place, ended) -> Reply         what came of it

Neither starts a process. Who calls them runs the command: the agent under its supervisor, `standalone` in the
foreground.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Mapping
from pathlib import Path

from heat_config_hooks import files
from heat_config_hooks.errors import HookError
from heat_config_hooks.options import Option
from heat_config_hooks.programs import Program
from heat_config_hooks.reply import Capture, Reply
from heat_config_hooks.values import dataclass, field

TYPE_CHECKING = False  # as `typing` has it, which takes long to load

if TYPE_CHECKING:
    from typing import Literal, Protocol
else:
    Protocol = object

CREDENTIALS = frozenset({"deploy_password", "deploy_signal_id", "deploy_user_id", "deploy_username"})
"""Inputs with which Heat is spoken to. A config gets them only with the option `deploy_credentials: true`."""

LEAVES = "heat_config_left"
"""The key of an entry that asks to clean up after a deployment: see `Request.leaves`."""

_VARIABLE = r"[A-Za-z_][A-Za-z0-9_]*"
_RESERVED = (
    r"PATH|IFS|OPTIND|HEAT_(HOOK_)?RUN(_WORD)?|CDPATH|ENV|BASH_ENV|BASHOPTS|SHELLOPTS|PS4|PROMPT_COMMAND|GLOBIGNORE|PWD|OLDPWD"
    r"|LD_.*|_RLD.*|GLIBC_TUNABLES|GCONV_PATH|LOCPATH|NLSPATH|LOCALDOMAIN|RES_OPTIONS|HOSTALIASES|NODE_OPTIONS"
    r"|PYTHON[A-Z]+|PERL(LIB|IO_DEBUG|5[A-Z]+)|RUBY(LIB|OPT)|JAVA_TOOL_OPTIONS|TERMINFO(_DIRS)?"
)
"""Variables that change how programs start, load code or find things: an input never sets them."""

MAX_VARIABLE = 128 * 1024 - 1
"""Bytes of one `NAME=value`: Linux refuses to start a program with a longer one (MAX_ARG_STRLEN, with its NUL)."""

MAX_VARIABLES = 1024 * 1024
"""Bytes of all inputs in the environment together: Linux takes a quarter of the stack limit (2 MiB by default) for
arguments and environment."""


_FILE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,127}")


def file_key(identity: str) -> str:
    """Return `identity` where it is a safe file name, else a digest of it.

    A deployment's id comes from outside and names files of ours (script, outputs, `deployed/ID.json`): a path
    separator, a leading dot or a dot that would make `ID.NAME` ambiguous must never reach the disk. Heat's own ids are
    UUIDs and stay as they are.
    """
    if _FILE_NAME.fullmatch(identity):
        return identity
    import hashlib  # noqa: PLC0415  # 3 ms, and Heat's ids need none

    return "sha256-" + hashlib.sha256(identity.encode("utf-8", "surrogatepass")).hexdigest()[:40]


@dataclass(frozen=True, kw_only=True)
class Request:
    """What a hook is asked to do."""

    id: str
    key: str
    """The id where that is a safe file name, else a digest of it."""
    name: str
    action: str
    config: object
    inputs: Mapping[str, object]
    """Values by name, with their JSON types; those said to be `String` are text."""
    outputs: tuple[str, ...]
    options: Mapping[str, object]
    """All that the hook knows, as `options.read` returns them."""
    creation_time: str = ""
    leaves: str = ""
    """Nothing is to be carried out: the deployment of this id has left the metadata, and what it had made goes with it.
    The config is unknown by then; `name` is that deployment's."""


@dataclass(frozen=True, kw_only=True)
class Workplace:
    """Where a hook works."""

    run: Path
    """This run's own folder (0700), kept with the run's output; what the hook writes there is removed afterwards."""
    working: Path
    """The hook's own folder, perhaps not made yet."""
    outputs: Path
    """The folder in which a config leaves its outputs, perhaps not made yet."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """What every command gets: PATH, and the variables that steer hooks."""


def workplace(tool: str, run: Path, root: Path | None, environment: Mapping[str, str]) -> Workplace:
    """Return the folders of `tool`: heat-agents' own names and variables, below `root` where one is given.

    `HEAT_SCRIPT_WORKING` and `HEAT_SCRIPT_OUTPUTS` (and so on for each tool) win; the defaults are
    `/var/lib/heat-config/heat-config-TOOL` and `/var/run/heat-config/heat-config-TOOL`.
    """
    variable = "HEAT_" + tool.upper().replace("-", "_")
    said = environment.get(f"{variable}_WORKING", ""), environment.get(f"{variable}_OUTPUTS", "")
    working, outputs = _places(tool, root, *said)
    return Workplace(run=run, working=working.absolute(), outputs=outputs.absolute(), environment=environment)


@functools.lru_cache
def _places(tool: str, root: Path | None, working: str, outputs: str) -> tuple[Path, Path]:
    lib, volatile = (root, root / "run") if root else (Path("/var/lib/heat-config"), Path("/var/run/heat-config"))
    return Path(working or lib / f"heat-config-{tool}"), Path(outputs or volatile / f"heat-config-{tool}")


@dataclass(frozen=True, kw_only=True)
class Command:
    """One command to run for a deployment."""

    argv: tuple[str, ...]
    cwd: Path
    environment: Mapping[str, str] = field(default_factory=dict)
    """Added to the environment that the caller gives every run."""
    stdin: Path | None = None
    """A file to read from; nothing where None."""


@dataclass(frozen=True, kw_only=True)
class Ended:
    """How a command ended."""

    code: int
    """Its exit code; 128 plus the number of the signal that ended it, as a shell says it."""
    stdout: Path
    stderr: Path


@dataclass(frozen=True, kw_only=True)
class About:
    """What there is to know of a hook without running it: the tables in the documentation are made of it."""

    config: str
    """What a config of it is, in a few words."""
    options: Mapping[str, Option] = field(default_factory=dict)
    """Its own, beside `options.COMMON`."""
    program: Program | None = None
    """What it drives; None where it needs nothing."""
    variables: tuple[str, ...] = ()
    """The variables that steer it."""
    cleans: Literal["", "config", "name"] = ""
    """Whether something is to be cleaned up when a deployment leaves the metadata without a DELETE of its own, see
    `Request.leaves`: what belongs to its config (as soon as that is gone), or to its name (once no other deployment
    with this tool has it). Empty: there is nothing."""
    undoes: bool = False
    """Whether DELETE removes what was made for the same deployment resource, whichever config made it."""
    files: tuple[str, ...] = ("{key}", "{key}.*")
    """Patterns of the files that a deployment leaves in the folders `working` and `outputs`."""
    tested: str
    """Against what its tests run it."""


class Hook(Protocol):
    """A hook module of ours."""

    ABOUT: About

    def prepare(self, request: Request, place: Workplace, /) -> Command | Reply:
        """Write what the command needs and return it; or a reply, where nothing need be run. Raises HookError."""

    def finish(self, request: Request, place: Workplace, ended: Ended, /) -> Reply:
        """Return what came of the command. Called perhaps by another process, long after `prepare`."""


def as_text(value: object) -> str:
    """Return the text of an input value: the one conversion, for the environment and for inputs said to be `String`.

    Text as it is; true and false; numbers as JSON writes them; null as nothing; lists and maps as compact JSON.
    """
    if isinstance(value, str):
        return value
    if value is None:
        return ""
    return json.dumps(value, separators=(",", ":"))


def environment(request: Request) -> dict[str, str]:
    """Return the inputs as environment variables, but for those that cannot or must not be one.

    Left out are names that are no variable's, names that change how programs start (`PATH`, `LD_*`, `BASH_ENV`, …),
    credentials, and values too long for one; `HEAT_INPUTS_FILE` has them all but the credentials.
    """
    variables: dict[str, str] = {}
    room = MAX_VARIABLES
    for name, value in visible_inputs(request).items():
        if not re.fullmatch(_VARIABLE, name) or re.fullmatch(_RESERVED, name):
            continue
        text = as_text(value).replace("\0", "")
        length = len(name) + 1 + len(text.encode("utf-8", "surrogatepass"))
        if length <= MAX_VARIABLE and length <= room:
            room -= length
            variables[name] = text.encode("utf-8", "replace").decode("utf-8")
    return variables


def visible_inputs(request: Request) -> dict[str, object]:
    """Return the inputs that a config may see: all but the credentials, unless it asks for those."""
    if request.options.get("deploy_credentials"):
        return dict(request.inputs)
    return {name: value for name, value in request.inputs.items() if name not in CREDENTIALS}


def request(document: Mapping[str, object], *, key: str, options: Mapping[str, object]) -> Request:
    """Read a deployment, its config chosen, as a hook gets it. Whatever may be missing may be missing.

    `options` are those that the hook knows, see `options.read`. Raises HookError.
    """
    inputs: dict[str, object] = {}
    for each in _maps(document, "inputs"):
        value = each.get("value", each.get("default"))
        inputs[_name(each, "inputs")] = as_text(value) if each.get("type") == "String" else value
    action = inputs.get("deploy_action")
    return Request(
        id=str(document.get("id", "")),
        key=key,
        name=str(document.get("name") or ""),
        action=action if isinstance(action, str) else "",
        config=document.get("config"),
        inputs=inputs,
        outputs=tuple(_output(each) for each in _maps(document, "outputs")),
        options=options,
        creation_time=str(document.get("creation_time") or ""),
        leaves=str(document.get(LEAVES) or ""),
    )


def _output(item: Mapping[str, object]) -> str:
    name = _name(item, "outputs")
    if "/" in name or "\0" in name:
        raise HookError(f"{name!r} cannot be an output: it names a file, so it may have no '/' in it", "outputs")
    return name


def _maps(document: Mapping[str, object], field_name: str) -> list[Mapping[str, object]]:
    items = document.get(field_name) or []
    if not isinstance(items, list) or not all(isinstance(each, Mapping) for each in items):
        raise HookError("expected a list of objects", field_name)
    return items


def _name(item: Mapping[str, object], field_name: str) -> str:
    name = item.get("name")
    if not isinstance(name, str) or not name:
        raise HookError("every one needs a name", field_name)
    return name


def clear_outputs(request: Request, place: Workplace) -> Path:
    """Make room for the outputs that a config writes, and return what it is told as `heat_outputs_path`.

    What an earlier run with this id left is removed: it must not pass for this one's.
    """
    files.make_directory(place.outputs)
    path = place.outputs / request.key
    for name in request.outputs:
        files.remove(f"{path}.{name}")
    return path


def collect(request: Request, place: Workplace, ended: Ended) -> Reply:
    """Return the declared outputs that a config wrote, byte for byte, beside what it printed and its exit code."""
    reply: Reply = {
        name: Capture(path) for name in request.outputs if (path := place.outputs / f"{request.key}.{name}").is_file()
    }
    reply.update(
        deploy_stdout=Capture(ended.stdout), deploy_stderr=Capture(ended.stderr), deploy_status_code=ended.code
    )
    return reply
