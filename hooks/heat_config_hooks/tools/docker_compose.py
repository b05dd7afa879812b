"""The `docker-compose` hook: runs a project with «docker compose», docker-compose or podman-compose.

The config is a compose file of any version.
As in heat-agents' hook of the same name, it goes to `WORKING/NAME/docker-compose.yml`, with the deployment's name.
The project is brought up in that folder, after which it is named.
The input `env_files`, a list of `file_name` and `content`, are further files in that folder.
The project is taken down when its deployment is deleted or leaves the metadata.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
from collections.abc import Mapping
from pathlib import Path, PurePosixPath

from heat_config_hooks import files, protocol, steps, strict_json
from heat_config_hooks.errors import HookError
from heat_config_hooks.needs import COMPOSE, NEEDS
from heat_config_hooks.options import TRUSTED, Kind, Option
from heat_config_hooks.reply import Reply, nothing_done
from heat_config_hooks.tools import engines
from heat_config_hooks.values import dataclass

TYPE_CHECKING = False  # as `typing` has it, which takes long to load

if TYPE_CHECKING:
    from heat_config_hooks.verdict import Verdict  # few runs verify

ABOUT = protocol.About(
    config="a compose file, as text or as a map",
    options={
        "remove_orphans": Option(
            Kind.FLAG,
            "remove the containers of services that are no longer in the file",
            False,
        ),
        **TRUSTED,
        "volumes": Option(
            Kind.FLAG, "on DELETE, also remove the volumes that the file names", False
        ),
    },
    needs=NEEDS["docker-compose"],
    variables=("HEAT_DOCKER_COMPOSE_WORKING", "HEAT_DOCKER_COMPOSE_CMD"),
    cleans="name",
    files=(),
    undoes=True,
    tested="real podman-compose, and a stand-in for the others that records its command line",
)

_FILE = "docker-compose.yml"
_NOTE = ".heat-config.json"

_WATCHING = """\
#!/bin/sh
{podman} "$@"
code=$?
[ "$1" != start ] || [ $code = 0 ] || echo $code >>{record}
exit $code
"""

_FOLDER = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}")
_CHOOSING = re.compile(r"(COMPOSE|DOCKER|PODMAN|CONTAINERS?)_.*")
"""Variables that choose the project or the engine: an input never sets them."""

_CONFIGS = re.compile(
    r"(docker-|podman-|container-)?compose(\.override)?\.ya?ml|\.gitconfig|\.curlrc",
    re.IGNORECASE,
)
"""Files that programs read as compose files or settings if they are in the folder of the project."""

_SET = re.compile(r"""(?:^|[\s'"\ufeff])([A-Za-z_][A-Za-z0-9_]*)['"]?\s*[=:]""")
"""A variable that the file `.env` may set: readers of such files differ in what ends a line, and in quotes.

Some take a carriage return for the end of a line, quotes around a name, or a second variable after a quoted value.
"""

_COMMENT = re.compile(r"^[ \t]*#[^'\"\r\n]*$", re.MULTILINE)
"""A line that all readers take for a comment: one with a quote may be part of a value."""


def prepare(
    request: protocol.Request, place: protocol.Workplace
) -> protocol.Command | Reply:
    """Check the compose file and the files next to it, and return the command."""
    if request.removes:
        path = _folder(request, place) / _FILE
        return (
            steps.command(__name__, request, place)
            if path.exists()
            else nothing_done(f"{path} does not exist: nothing was run")
        )
    if not _compose_file(request.config):
        return nothing_done()
    _env_files(request)
    return steps.command(__name__, request, place, protocol.left_out(request, ""))


def carry_out(request: protocol.Request, place: protocol.Workplace) -> int:
    """Bring the project up, or take it down and remove its files; return an exit code."""
    compose = _Compose(
        engines.choose(COMPOSE, place, removes=request.removes),
        _folder(request, place),
        place.run,
    )
    if request.removes:
        return (
            compose.down(volumes=request.options["volumes"] is True) or compose.remove()
        )
    text = _compose_file(request.config)
    return compose.up(
        {_FILE: text, **_env_files(request)},
        {
            name: value
            for name, value in protocol.environment(request).items()
            if _passes(name)
        },
        remove_orphans=request.options["remove_orphans"] is True,
    )


finish = protocol.collect


def verify(
    request: protocol.Request, place: protocol.Workplace
) -> protocol.Command | Verdict:
    """Return the command that looks at the files and the containers of the project."""
    if not _compose_file(request.config):
        from heat_config_hooks import verdict  # noqa: PLC0415  # few runs verify

        return verdict.in_effect()
    _env_files(request)
    return steps.looking(__name__, request, place)


verdict = steps.seen


def look(request: protocol.Request, place: protocol.Workplace) -> Verdict:
    """Return whether the files of the project are as they were written, and the containers of its services run."""
    from heat_config_hooks.tools import compose_state, container_state  # noqa: PLC0415  # few runs verify
    from heat_config_hooks.verdict import together, unknown  # noqa: PLC0415

    folder = _folder(request, place).resolve()
    text = _compose_file(request.config)
    on_disk = compose_state.of_files(
        {folder / _FILE: _bytes(text)}
        | {
            folder / name: _bytes(content)
            for name, content in _env_files(request).items()
        }
    )
    try:
        program = engines.choose(COMPOSE, place, removes=True, notes=False)
        engine = engines.behind(program)
        if engine is None:
            reason = f"the engine of {shlex.join(program)} is not installed"
            return together([on_disk, unknown(reason)])
        items = container_state.every(
            (engine,), "com.docker.compose.project.working_dir", str(folder)
        )
    except HookError as error:
        return together([on_disk, unknown(error.problem)])
    states = compose_state.of_services(compose_state.services(text), items)
    images = [
        (item, str(protocol.as_map(item.get("Config")).get("Image") or ""))
        for item in items
    ]
    return together([on_disk, *states, *container_state.same_images((engine,), images)])


def _folder(request: protocol.Request, place: protocol.Workplace) -> Path:
    name = request.name or request.id
    return place.working / (
        name if _FOLDER.fullmatch(name) else protocol.file_key(name)
    )


def _passes(name: str) -> bool:
    """Return whether an input becomes a variable for the compose file."""
    return name != "env_files" and not _CHOOSING.fullmatch(name)


def _compose_file(config: object) -> str:
    """Return the text of the compose file; empty for an empty config. Raises HookError; the tool checks the rest."""
    import yaml  # noqa: PLC0415  # slow to load

    if not config:
        return ""
    if isinstance(config, Mapping):
        return yaml.safe_dump(config, sort_keys=False, allow_unicode=True)
    try:
        # The nodes are not turned into values, because compose files have tags of their own, e.g. !reset.
        node = (
            yaml.compose(config, Loader=yaml.SafeLoader)
            if isinstance(config, str)
            else config
        )
    except yaml.YAMLError as error:
        raise HookError(
            f"this text is not valid YAML: {' '.join(str(error).split())}", "config"
        ) from error
    except RecursionError:
        raise HookError("this text is nested too deeply", "config") from None
    if node is None:
        return ""
    if not isinstance(config, str) or not isinstance(node, yaml.MappingNode):
        raise HookError("expected a compose file, a map with `services`", "config")
    return config


def _env_files(request: protocol.Request) -> dict[str, str]:
    """Return the files next to the compose file: path in the folder of the project → content. Raises HookError."""
    path = "inputs.env_files"
    items = request.inputs.get("env_files")
    if isinstance(items, str):
        items = _parsed(items, path)
    if not items:
        return {}
    if not isinstance(items, list):
        raise HookError("expected a list of {file_name, content}", path)
    contents = {}
    for index, item in enumerate(items):
        name, content = (
            (item.get("file_name"), item.get("content"))
            if isinstance(item, Mapping)
            else (None, None)
        )
        if not isinstance(name, str) or not isinstance(content, str):
            raise HookError(
                "expected an object with the texts `file_name` and `content`",
                f"{path}[{index}]",
            )
        relative = PurePosixPath(name)
        if (
            relative.is_absolute()
            or ".." in relative.parts
            or not relative.parts
            or "\0" in name
        ):
            raise HookError(
                f"{name!r} is not in the folder of the project",
                f"{path}[{index}].file_name",
            )
        if str(relative) in (_FILE, _NOTE):
            raise HookError(
                f"{name} is the name of a file of the hook itself",
                f"{path}[{index}].file_name",
            )
        if not request.options.get("trusted_inputs") and (
            why := _is_setting(relative, content)
        ):
            raise HookError(
                f"{why}; the option trusted_inputs allows it",
                f"{path}[{index}].file_name",
            )
        contents[str(relative)] = content
    return contents


def _is_setting(path: PurePosixPath, content: str) -> str:
    """Return why a file would change what is brought up or how; empty if it is only data for the compose file."""
    if len(path.parts) == 1 and _CONFIGS.fullmatch(path.name):
        return f"{path} would be part of the configuration, and an input is a value"
    if str(path) != ".env":
        return ""
    set_there = _SET.findall(_COMMENT.sub("", content))
    names = [
        name
        for name in set_there
        if _CHOOSING.fullmatch(name) or protocol.reserved(name, "")
    ]
    return (
        f"{path} sets {names[0]}, which changes how the project is brought up"
        if names
        else ""
    )


def _parsed(text: str, path: str) -> object:
    """Return the value of a JSON text, or of a Python literal, which is what heat-agents accepts. Raises HookError."""
    if not text.strip():
        return None
    try:
        return strict_json.loads(text)
    except ValueError as error:
        import ast  # noqa: PLC0415  # rarely needed

        try:
            return ast.literal_eval(text)
        except (ValueError, SyntaxError, MemoryError, RecursionError):
            # the last two for deep nesting
            raise HookError(f"this text is not valid JSON: {error}", path) from None


@dataclass(frozen=True)
class _Note:
    """A note next to a compose file."""

    files: list[str]
    """The files that were written into the folder."""
    variables: dict[str, str]
    """Variables that occur in the compose file, with their values when the project was brought up.

    The same values are needed to take it down, and by then the deployment may be gone.
    """
    came_up: bool
    """True if the project was brought up successfully."""


class _Compose:
    """A project in its folder, and the program that runs it."""

    def __init__(self, program: tuple[str, ...], folder: Path, run: Path) -> None:
        self._program = program
        self._folder = folder.resolve()  # as on the labels of the containers
        self._watch = run / "watch"
        self._simple = any(
            Path(word).name.startswith("podman-compose") for word in program
        )
        """True if the program is podman-compose, of which many versions see no changes, orphans or failures."""

    def up(
        self,
        project_files: Mapping[str, str],
        variables: Mapping[str, str],
        *,
        remove_orphans: bool,
    ) -> int:
        """Write the files of the project, bring it up, and return an exit code."""
        used = {
            name: value
            for name, value in variables.items()
            if re.search(rf"\b{name}\b", project_files[_FILE])
        }
        earlier = self._noted()
        unchanged = earlier.variables == used and set(earlier.files) == set(
            project_files
        )
        same = unchanged and all(
            self._is(name, content) for name, content in project_files.items()
        )
        if (
            self._simple
            and not same
            and (self._folder / _FILE).exists()
            and (code := self.down())
        ):
            return code
        files.make_directory(self._folder)
        # The note is written before the files, so that each written file is noted.
        self._note(_Note([*earlier.files, *project_files], used, came_up=False))
        for name, content in project_files.items():
            self._write(name, content)
        for name in set(earlier.files) - set(project_files):
            self._unlink(name)
        orphans = ["--remove-orphans"] if remove_orphans else []
        code = self._run(["up", "-d", "--no-build", *orphans], variables)
        self._note(_Note(list(project_files), used, came_up=code == 0))
        return code

    def down(self, *, volumes: bool = False) -> int:
        """Take the project down with the variables of the note, and return an exit code."""
        note = self._noted()
        words = [
            "down",
            *(["--volumes"] if volumes else []),
            *([] if self._simple else ["--remove-orphans"]),
        ]
        code = self._run(words, note.variables)
        left = self._left() if code or self._simple else []
        if left:
            steps.say(
                f"these containers of the project still exist: {' '.join(left)}",
                error=True,
            )
            return code or 1
        if code and left is not None and not note.came_up:
            steps.say(
                "the project was never brought up, and has no containers: there is nothing to take down",
                error=True,
            )
            return 0
        return code

    def _left(self) -> list[str] | None:
        """Return the ids of the project's containers, as the engine lists them; None if it cannot list them."""
        engine = engines.behind(self._program)
        if engine is None:
            return None
        label = f"label=com.docker.compose.project.working_dir={self._folder}"
        code, text = steps.ask([engine, "ps", "--all", "--quiet", f"--filter={label}"])
        return None if code else re.findall(r"^[0-9a-f]{12,64}$", text, re.MULTILINE)

    def remove(self) -> int:
        """Remove the files that were written, and the folder if it is empty then; return 0."""
        for name in self._noted().files:
            if name != _FILE:
                self._unlink(name)
        for name in (_NOTE, _FILE):
            # the compose file last: as long as it exists, the removal is repeated
            self._unlink(name)
        try:
            self._folder.rmdir()
        except OSError:
            steps.say(
                f"{self._folder} is kept, because other files are in it", error=True
            )
        return 0

    def _run(self, words: list[str], variables: Mapping[str, str]) -> int:
        environment = {**os.environ, **variables}
        if self._simple:
            environment |= self._watched()
        code = steps.run(
            [*self._program, *words], cwd=self._folder, environment=environment
        )
        return code or self._failed_start()

    def _watched(self) -> dict[str, str]:
        """Return variables with which podman-compose calls podman through a script that records failed starts.

        podman-compose also starts containers that it could not create, as they may exist already.
        So a failed start is a failure, and a failed creation is not.
        """
        files.make_directory(self._watch)
        podman = shutil.which("podman") or "podman"
        script = _WATCHING.format(
            podman=shlex.quote(podman), record=shlex.quote(str(self._watch / "failed"))
        )
        files.replace(self._watch / "podman", script.encode(), mode=0o700)
        return {
            "PATH": os.pathsep.join(
                (str(self._watch), os.environ.get("PATH", os.defpath))
            ),
            "PYTHONUNBUFFERED": "1",  # so that its lines and those of podman are in order
        }

    def _failed_start(self) -> int:
        """Return the exit code of the first failed start of a container; 0 if there is none."""
        try:
            code = int((self._watch / "failed").read_text().split()[0])
        except FileNotFoundError:
            return 0
        steps.say(f"a container could not be started (exit code {code})", error=True)
        return code

    def _noted(self) -> _Note:
        try:
            return _Note(**json.loads((self._folder / _NOTE).read_bytes()))
        except FileNotFoundError:  # the project is heat-agents' or new
            return _Note([], {}, came_up=True)

    def _note(self, note: _Note) -> None:
        files.replace(
            self._folder / _NOTE, json.dumps(vars(note)).encode(), durable=True
        )

    def _is(self, name: str, content: str) -> bool:
        """Return whether a file has this content."""
        try:
            return (self._folder / name).read_bytes() == _bytes(content)
        except OSError:
            return False

    def _write(self, name: str, content: str) -> None:
        path = self._folder / name
        if not path.parent.resolve().is_relative_to(self._folder.resolve()):
            raise HookError(
                f"{path.parent} leads out of the folder of the project",
                "inputs.env_files",
            )
        files.make_directory(path.parent)
        files.replace(path, _bytes(content), durable=True)

    def _unlink(self, name: str) -> None:
        """Remove a file, and folders that become empty."""
        path = self._folder / name
        if not path.parent.resolve().is_relative_to(self._folder.resolve()):
            return
        path.unlink(missing_ok=True)
        for folder in path.parents[: len(PurePosixPath(name).parts) - 1]:
            try:
                folder.rmdir()
            except OSError:
                return


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "replace")
