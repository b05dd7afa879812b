"""The values that pass between a hook and its caller. `hooks/README.md` explains them to authors of hooks.

A built-in hook is a module that describes itself, and has two functions around one command:

    ABOUT                                          its options, the program that it drives, …
    prepare(request, place) -> Command | Reply     the command to run, or a reply if no command is needed
    finish(request, place, ended) -> Reply         the reply after the command has ended

A hook that can say whether the machine is as a deployment says has two more, which change nothing on the machine:

    verify(request, place) -> Command | Verdict      the command that finds out, or the verdict if none is needed
    verdict(request, place, ended) -> Verdict        the verdict after that command has ended; without one, not needed

None of the functions starts a process. The caller runs the command: the agent under its supervisor, and `standalone` in
the foreground.
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
from heat_config_hooks.reply import Capture, Reply
from heat_config_hooks.values import dataclass, field

TYPE_CHECKING = False  # as `typing` has it, which takes long to load

if TYPE_CHECKING:
    from typing import Literal, Protocol, TypeGuard

    from heat_config_hooks import verdict
    from heat_config_hooks.programs import Module, Program  # few hooks have one
else:
    Protocol = object

CREDENTIALS = frozenset(
    {"deploy_password", "deploy_signal_id", "deploy_user_id", "deploy_username"}
)
"""Inputs that are credentials for Heat. A config gets them only with the option `deploy_credentials: true`."""

LEAVES = "heat_config_left"
"""The key of a deployment that asks for a cleanup, see `Request.leaves`."""

VARIABLES = "heat_config_variables"
"""The key of a deployment with the names of the inputs that may be variables, see `Request.variables`."""

STACK_FILES = "HEAT_STACK_FILES"
"""The variable of a run with the folder in which a stack keeps files under their digests."""

_VARIABLE = r"[A-Za-z_][A-Za-z0-9_]*"
MAX_VARIABLE = 128 * 1024 - 1
"""The longest `NAME=value` in bytes. Linux starts no program with a longer one (MAX_ARG_STRLEN, minus the NUL)."""

MAX_VARIABLES = 1024 * 1024
"""The most bytes that all inputs may take in the environment.

Linux allows a quarter of the stack limit (2 MiB by default) for arguments and environment.
"""


_LONGEST_NAME = 128
"""The most characters of an id that is the name of files."""


def file_key(identity: str) -> str:
    """Return `identity` if it is a safe name for files, else a digest of it.

    The id of a deployment comes from outside, and names files (the script, its outputs, `deployed/ID.json`).
    It must not contain a path separator, nor a dot, which would hide the file or make `ID.NAME` ambiguous.
    Heat's own ids are UUIDs, which are safe.
    """
    if _is_safe(identity):
        return identity
    import hashlib  # noqa: PLC0415  # 3 ms, and Heat's ids need no digest

    return (
        "sha256-"
        + hashlib.sha256(identity.encode("utf-8", "surrogatepass")).hexdigest()[:40]
    )


def _is_safe(identity: str) -> bool:
    """Return whether an id has only ASCII letters, digits, `_` and `-`, and begins with a letter or a digit.

    To compile a regular expression would take longer than many of these checks.
    """
    name = identity.replace("_", "0").replace("-", "0")
    return (
        identity.isascii()
        and name.isalnum()
        and identity[0] not in "_-"
        and len(identity) <= _LONGEST_NAME
    )


@dataclass(frozen=True, kw_only=True)
class Request:
    """A deployment, as a hook gets it."""

    id: str
    key: str
    """The id if it is a safe name for files, else a digest of it."""
    name: str
    action: str
    config: object
    inputs: Mapping[str, object]
    """Values by name, with their JSON types; inputs of the type `String` are text."""
    outputs: tuple[str, ...]
    options: Mapping[str, object]
    """A value for each option of the hook, as `options.read` returns them."""
    creation_time: str = ""
    leaves: str = ""
    """The id of a deployment that has left the metadata, if this request is its cleanup; else empty.

    The hook removes what that deployment has made. The config is unknown by then; `name` is that deployment's.
    """

    variables: tuple[str, ...] | None = None
    """The inputs that may be variables of the environment, with those that Heat adds (`deploy_…`); None for all."""

    def may_be_variable(self, name: str) -> bool:
        """Return whether an input may be a variable of the environment, whatever its name."""
        return (
            self.variables is None
            or name in self.variables
            or name.startswith("deploy_")
        )

    @property
    def removes(self) -> bool:
        """True if the hook is only to remove what the deployment has made: at a DELETE, or as its cleanup."""
        return bool(self.leaves) or self.action == "DELETE"


@dataclass(frozen=True, kw_only=True)
class Workplace:
    """The folders and the environment of a hook."""

    run: Path
    """The folder of this run (0700). The output of the run stays there; what the hook writes there is removed."""
    working: Path
    """The hook's own folder, which may not exist yet."""
    outputs: Path
    """The folder into which configs write their outputs; it may not exist yet."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """The environment of every command: PATH, and the variables that configure hooks."""


def workplace(
    tool: str, run: Path, root: Path | None, environment: Mapping[str, str]
) -> Workplace:
    """Return the folders of `tool`, with heat-agents' names and variables.

    The variables `HEAT_TOOL_WORKING` and `HEAT_TOOL_OUTPUTS` (such as `HEAT_SCRIPT_WORKING`) name them.
    The defaults are `heat-config-TOOL` and `run/heat-config-TOOL` below `root`;
    without `root`, `/var/lib/heat-config/heat-config-TOOL` and `/var/run/heat-config/heat-config-TOOL`.
    """
    variable = "HEAT_" + tool.upper().replace("-", "_")
    named = (
        environment.get(f"{variable}_WORKING", ""),
        environment.get(f"{variable}_OUTPUTS", ""),
    )
    working, outputs = _places(tool, root, *named)
    return Workplace(
        run=run,
        working=working.absolute(),
        outputs=outputs.absolute(),
        environment=environment,
    )


@functools.lru_cache
def _places(
    tool: str, root: Path | None, working: str, outputs: str
) -> tuple[Path, Path]:
    lib, volatile = (
        (root, root / "run")
        if root
        else (Path("/var/lib/heat-config"), Path("/var/run/heat-config"))
    )
    return Path(working or lib / f"heat-config-{tool}"), Path(
        outputs or volatile / f"heat-config-{tool}"
    )


@dataclass(frozen=True, kw_only=True)
class Command:
    """The command to run for a deployment."""

    argv: tuple[str, ...]
    cwd: Path
    environment: Mapping[str, str] = field(default_factory=dict)
    """Variables in addition to the environment of every run."""
    stdin: Path | None = None
    """The file for its standard input; None for an empty one."""
    notes: tuple[str, ...] = ()
    """Sentences for the log about inputs that are not in the environment."""


@dataclass(frozen=True, kw_only=True)
class Ended:
    """The end of a command."""

    code: int
    """Its exit code, or, as in a shell, 128 plus the number of the signal that ended it."""
    stdout: Path
    stderr: Path
    output: Literal["kept", "passed on", "removed"] = "removed"
    """The use of these files: the agent keeps and masks them, or a caller prints them again, or they are removed."""


@dataclass(frozen=True, kw_only=True)
class About:
    """The description of a hook, from which the tables in the documentation are generated."""

    config: str
    """The form of its configs, in a few words."""
    options: Mapping[str, Option] = field(default_factory=dict)
    """Its own options, in addition to `options.COMMON`."""
    needs: tuple[Program | Module, ...] = ()
    """The programs and modules that its runs need, first the program that it drives: its row of `needs.NEEDS`."""
    variables: tuple[str, ...] = ()
    """The variables that configure it."""
    writes: Mapping[str, str] = field(default_factory=dict)
    """The folders and files of the machine to which it writes, by the variable that overrides each."""
    cleans: Literal["", "config", "name"] = ""
    """The parts that need a cleanup when a deployment leaves the metadata without a DELETE, see `Request.leaves`.

    `config`: what belongs to its config, as soon as that config has left.
    `name`: what belongs to its name, once no other deployment with this tool has that name.
    Empty: nothing.
    """
    undoes: bool = False
    """True if DELETE removes what any config of the same deployment resource has made."""
    files: tuple[str, ...] = ("{key}", "{key}.*")
    """Patterns for the files that a deployment leaves in the folders `working` and `outputs`."""
    tested: str
    """The real thing that the tests run it with, in a few words."""
    deprecated: str = ""
    """The reason why it is deprecated, and the tool to use instead; empty if it is not."""

    @property
    def program(self) -> Program | None:
        """The program that it drives; None if it needs none."""
        first = self.needs[0] if self.needs else None
        return first if hasattr(first, "names") else None  # type: ignore[return-value]  # `programs` is not loaded


class Hook(Protocol):
    """A module that is a built-in hook."""

    ABOUT: About

    def prepare(self, request: Request, place: Workplace, /) -> Command | Reply:
        """Write the files that the command needs, and return it; or return a reply if no command is needed.

        Raises HookError.
        """

    def finish(self, request: Request, place: Workplace, ended: Ended, /) -> Reply:
        """Return the reply. It may be called by another process, long after `prepare`."""


class Verifying(Hook, Protocol):
    """A built-in hook that can verify: `can_verify` tells."""

    def verify(
        self, request: Request, place: Workplace, /
    ) -> Command | verdict.Verdict:
        """Return the command that finds out whether the machine is as the deployment says, or the verdict.

        It changes nothing outside of `place.run`. Raises HookError.
        """

    def verdict(
        self, request: Request, place: Workplace, ended: Ended, /
    ) -> verdict.Verdict:
        """Return the verdict after the command has ended."""


def can_verify(hook: Hook) -> TypeGuard[Verifying]:
    """Return whether a hook has the functions of `Verifying`."""
    return hasattr(hook, "verify")


def as_text(value: object) -> str:
    """Return the text of an input's value, for the environment and for inputs of the type `String`.

    Text is unchanged, null is empty, and all other values are compact JSON.
    """
    if isinstance(value, str):
        return value
    if value is None:
        return ""
    return json.dumps(value, separators=(",", ":"))


def as_map(value: object) -> Mapping[str, object]:
    """Return a value that is a map; an empty map for any other value."""
    return value if isinstance(value, Mapping) else {}


def text_of(config: object, expected: str) -> str:
    """Return a config that must be text, without a byte order mark; empty for no config. Raises HookError.

    `expected` describes the text for the message: `the text of a script`.
    """
    if config is None:
        return ""
    if not isinstance(config, str):
        raise HookError(f"expected {expected}", "config")
    return config.removeprefix("\ufeff")


def environment(request: Request) -> dict[str, str]:
    """Return the inputs as environment variables, except those that cannot or must not be variables.

    Left out are inputs whose name is not a valid variable or is `reserved`, values that are too long, and credentials.
    The file `HEAT_INPUTS_FILE` has all inputs except the credentials.
    """
    variables: dict[str, str] = {}
    room = MAX_VARIABLES
    for name, value in visible_inputs(request).items():
        if (
            not re.fullmatch(_VARIABLE, name)
            or reserved(name, value)
            or not request.may_be_variable(name)
        ):
            continue
        text = as_text(value).replace("\0", "")
        length = len(name) + 1 + len(text.encode("utf-8", "surrogatepass"))
        if length <= MAX_VARIABLE and length <= room:
            room -= length
            variables[name] = text.encode("utf-8", "replace").decode("utf-8")
    return variables


_IN_LOWER_CASE = (
    "bower_",
    "cypress_",
    "fish_",
    "fn_",
    "npm_",
    "pnpm_",
    "yarn_",
    "rvm_",
    "dkms_",
    "shell_escape",
    "openin_",
    "openout_",
    "texmf_",
)
"""The beginnings of all reserved names that begin with a lower-case letter."""


def reserved(name: str, value: object = None) -> str:
    """Return the programs that a variable affects, if the list of reserved variables has it; else empty."""
    if name.startswith("TOSCA_") or (
        name[:1].islower() and not name.lower().startswith(_IN_LOWER_CASE)
    ):
        return ""
    from heat_config_hooks import reserved as listed  # noqa: PLC0415  # most inputs do not need the list

    return "" if name in listed.PLAIN and str(value).isalpha() else listed.owner(name)


def left_out(
    request: Request, elsewhere: str = "; it is in $HEAT_INPUTS_FILE"
) -> tuple[str, ...]:
    """Return a sentence for each input that is not in the environment because its name is reserved or not signed.

    `elsewhere` ends the sentences.
    """
    sentences = []
    for name, value in visible_inputs(request).items():
        program = reserved(name, value)
        why = f"that variable affects {program}" if program else ""
        if not why and not request.may_be_variable(name):
            why = "the signed config does not declare it"
        if (
            not why
            and isinstance(value, str)
            and len(name) + 1 + len(value) > MAX_VARIABLE
        ):
            why = f"no variable is longer than {MAX_VARIABLE} bytes"
        if why:
            sentences.append(
                f"the input {name} is not in the environment, because {why}{elsewhere}"
            )
    return tuple(sentences)


def visible_inputs(request: Request) -> dict[str, object]:
    """Return the inputs for a config: without the credentials, unless the option `deploy_credentials` is set."""
    if request.options.get("deploy_credentials"):
        return dict(request.inputs)
    return {
        name: value for name, value in request.inputs.items() if name not in CREDENTIALS
    }


def request(
    document: Mapping[str, object], *, key: str, options: Mapping[str, object]
) -> Request:
    """Return a deployment as a hook gets it. All keys of `document` are optional. Raises HookError.

    The config for the action has been selected; `options` are the result of `options.read`.
    """
    inputs: dict[str, object] = {}
    for item in _maps(document, "inputs"):
        value = item.get("value", item.get("default"))
        inputs[_name(item, "inputs")] = (
            as_text(value) if item.get("type") == "String" else value
        )
    action = inputs.get("deploy_action")
    return Request(
        id=str(document.get("id", "")),
        key=key,
        name=str(document.get("name") or ""),
        action=action if isinstance(action, str) else "",
        config=document.get("config"),
        inputs=inputs,
        outputs=tuple(_output(item) for item in _maps(document, "outputs")),
        options=options,
        creation_time=str(document.get("creation_time") or ""),
        leaves=str(document.get(LEAVES) or ""),
        variables=tuple(map(str, names))
        if isinstance(names := document.get(VARIABLES), list)
        else None,
    )


def _output(item: Mapping[str, object]) -> str:
    name = _name(item, "outputs")
    if "/" in name or "\0" in name:
        raise HookError(
            f"{name!r} cannot be the name of an output: it is part of a file name, without '/'",
            "outputs",
        )
    try:
        name.encode()
    except UnicodeEncodeError:
        problem = f"{name!r} cannot be the name of an output: it contains half of a surrogate pair"
        raise HookError(problem, "outputs") from None
    return name


def _maps(
    document: Mapping[str, object], field_name: str
) -> list[Mapping[str, object]]:
    items = document.get(field_name) or []
    if not isinstance(items, list) or not all(
        isinstance(item, Mapping) for item in items
    ):
        raise HookError("expected a list of objects", field_name)
    return items


def _name(item: Mapping[str, object], field_name: str) -> str:
    name = item.get("name")
    if not isinstance(name, str) or not name:
        raise HookError("every item needs a name", field_name)
    return name


def clear_outputs(request: Request, place: Workplace) -> Path:
    """Return the value of `heat_outputs_path` for a config, and remove the outputs of an earlier run with this id."""
    files.make_directory(place.outputs)
    files.tighten_directory(place.outputs)
    path = place.outputs / request.key
    for name in request.outputs:
        files.remove(f"{path}.{name}")
    return path


def collect(request: Request, place: Workplace, ended: Ended) -> Reply:
    """Return the reply of a run: its output, its exit code, and the declared outputs that the config has written.

    The files of the outputs become 0600, even if the config has given them another mode.
    """
    reply: Reply = {}
    for name in request.outputs:
        path = place.outputs / f"{request.key}.{name}"
        if path.is_file():
            files.tighten(path)
            reply[name] = Capture(path)
    reply.update(
        deploy_stdout=Capture(ended.stdout),
        deploy_stderr=Capture(ended.stderr),
        deploy_status_code=ended.code,
    )
    return reply
