"""The `docker-compose` hook.

The config is a compose file of any version, for «docker compose», docker-compose or podman-compose.

As heat-agents' hook of that name: it goes to `WORKING/NAME/docker-compose.yml`, NAME being the deployment's, and the
project is brought up in that folder, whose name is its own. The input `env_files` (a list of `file_name` and `content`)
are files that go beside it. The project goes down with its deployment.
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
from heat_config_hooks.options import Kind, Option
from heat_config_hooks.programs import Program
from heat_config_hooks.reply import Reply, nothing_done
from heat_config_hooks.tools import engines
from heat_config_hooks.values import dataclass

_PROGRAM = Program(
    names=("docker compose", "docker-compose", "podman-compose"),
    variable="HEAT_DOCKER_COMPOSE_CMD",
    install="install one with «apt install podman-compose»",
    version=("version",),
)

ABOUT = protocol.About(
    config="a compose file: its text, or what is in it",
    options={
        "remove_orphans": Option(Kind.FLAG, "remove the containers of services that the file no longer has", False),
        "volumes": Option(Kind.FLAG, "on DELETE, remove the volumes that the file names too", False),
    },
    program=_PROGRAM,
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
_STEERING = re.compile(r"(COMPOSE|DOCKER|PODMAN|CONTAINERS?)_.*")
"""Variables that say which project of which engine is meant: an input never sets them."""


def prepare(request: protocol.Request, place: protocol.Workplace) -> protocol.Command | Reply:
    """Look at the compose file, and at the files that go beside it."""
    if _goes(request):
        path = _folder(request, place) / _FILE
        return (
            steps.command(__name__, request, place)
            if path.exists()
            else nothing_done(f"{path} is not there: nothing was run")
        )
    if not _compose_file(request.config):
        return nothing_done()
    _env_files(request)
    return steps.command(__name__, request, place)


def carry_out(request: protocol.Request, place: protocol.Workplace) -> int:
    """Bring the project up, or take it down and remove it."""
    compose = _Compose(engines.choose(_PROGRAM, place, removes=_goes(request)), _folder(request, place), place.run)
    if _goes(request):
        return compose.down(volumes=request.options["volumes"] is True) or compose.remove()
    text = _compose_file(request.config)
    return compose.up(
        {_FILE: text, **_env_files(request)},
        {name: value for name, value in protocol.environment(request).items() if _passes(name)},
        remove_orphans=request.options["remove_orphans"] is True,
    )


finish = protocol.collect


def _goes(request: protocol.Request) -> bool:
    return bool(request.leaves) or request.action == "DELETE"


def _folder(request: protocol.Request, place: protocol.Workplace) -> Path:
    name = request.name or request.id
    return place.working / (name if _FOLDER.fullmatch(name) else protocol.file_key(name))


def _passes(name: str) -> bool:
    return name != "env_files" and not _STEERING.fullmatch(name)


# What a deployment says.


def _compose_file(config: object) -> str:
    """Return the text of the compose file, empty where there is none. What is in it is the tool's affair."""
    import yaml  # noqa: PLC0415  # slow to load

    if not config:
        return ""
    if isinstance(config, Mapping):
        return yaml.safe_dump(config, sort_keys=False, allow_unicode=True)
    try:
        # Not loaded: compose files may have tags of their own, e.g. !reset.
        node = yaml.compose(config, Loader=yaml.SafeLoader) if isinstance(config, str) else config
    except yaml.YAMLError as error:
        raise HookError(f"this text is no YAML: {' '.join(str(error).split())}", "config") from error
    except RecursionError:
        raise HookError("this text is nested too deeply", "config") from None
    if node is None:
        return ""
    if not isinstance(config, str) or not isinstance(node, yaml.MappingNode):
        raise HookError("expected a compose file, which is a map (of `services`, …)", "config")
    return config


def _env_files(request: protocol.Request) -> dict[str, str]:
    """Return the files that go beside the compose file: path in the project's folder → content. Raises HookError."""
    path = "inputs.env_files"
    given = request.inputs.get("env_files")
    if isinstance(given, str):
        given = _parsed(given, path)
    if not given:
        return {}
    if not isinstance(given, list):
        raise HookError("expected a list of {file_name, content}", path)
    found = {}
    for index, each in enumerate(given):
        name, content = (each.get("file_name"), each.get("content")) if isinstance(each, Mapping) else (None, None)
        if not isinstance(name, str) or not isinstance(content, str):
            raise HookError("expected an object with the texts `file_name` and `content`", f"{path}[{index}]")
        relative = PurePosixPath(name)
        if relative.is_absolute() or ".." in relative.parts or not relative.parts or "\0" in name:
            raise HookError(f"{name!r} is not in the project's folder", f"{path}[{index}].file_name")
        if str(relative) in (_FILE, _NOTE):
            raise HookError(f"{name} is written already, and is something else", f"{path}[{index}].file_name")
        found[str(relative)] = content
    return found


def _parsed(text: str, path: str) -> object:
    """Return what a text says: JSON, or what Python writes, which is what heat-agents takes."""
    if not text.strip():
        return None
    try:
        return strict_json.loads(text)
    except ValueError as error:
        import ast  # noqa: PLC0415  # hardly ever needed

        try:
            return ast.literal_eval(text)
        except (ValueError, SyntaxError):
            raise HookError(f"this text is no JSON: {error}", path) from None


# What is done.


@dataclass(frozen=True)
class _Note:
    """What is kept beside a compose file."""

    files: list[str]
    """What was written into the folder."""
    variables: dict[str, str]
    """Those that the compose file speaks of, as they were when the project was brought up: it is taken down with the
    same, and by then nobody else may know them."""
    came_up: bool


class _Compose:
    """A project in its folder, and the program that it is run with."""

    def __init__(self, program: tuple[str, ...], folder: Path, run: Path) -> None:
        self._program = program
        self._folder = folder.resolve()  # as it is on the containers' labels
        self._watch = run / "watch"
        self._simple = any(Path(word).name.startswith("podman-compose") for word in program)
        """Many versions of it neither see what has changed, nor what is left over, nor say that anything failed."""

    def up(self, wanted: Mapping[str, str], variables: Mapping[str, str], *, remove_orphans: bool) -> int:
        """Write the project's files, and bring it up."""
        kept = {name: value for name, value in variables.items() if re.search(rf"\b{name}\b", wanted[_FILE])}
        earlier = self._noted()
        unchanged = earlier.variables == kept and set(earlier.files) == set(wanted)
        same = unchanged and all(self._is(name, content) for name, content in wanted.items())
        if self._simple and not same and (self._folder / _FILE).exists() and (code := self.down()):
            return code
        files.make_directory(self._folder)
        self._note(_Note([*earlier.files, *wanted], kept, came_up=False))  # first: whatever is written is known of
        for name, content in wanted.items():
            self._write(name, content)
        for name in set(earlier.files) - set(wanted):
            self._unlink(name)
        orphans = ["--remove-orphans"] if remove_orphans else []
        code = self._run(["up", "-d", "--no-build", *orphans], variables)
        self._note(_Note(list(wanted), kept, came_up=code == 0))
        return code

    def down(self, *, volumes: bool = False) -> int:
        """Take the project down, with the variables with which it was brought up."""
        note = self._noted()
        words = ["down", *(["--volumes"] if volumes else []), *([] if self._simple else ["--remove-orphans"])]
        code = self._run(words, note.variables)
        left = self._left() if code or self._simple else []
        if left:
            steps.say(f"these containers of the project are still there: {' '.join(left)}", error=True)
            return code or 1
        if code and left is not None and not note.came_up:
            steps.say("it never came up, and has no containers: there is nothing to take down", error=True)
            return 0
        return code

    def _left(self) -> list[str] | None:
        """Return the ids of the project's containers, as the engine knows them; None where it cannot be asked."""
        engine = engines.behind(self._program)
        if engine is None:
            return None
        label = f"label=com.docker.compose.project.working_dir={self._folder}"
        code, text = steps.ask([engine, "ps", "--all", "--quiet", f"--filter={label}"])
        return None if code else re.findall(r"^[0-9a-f]{12,64}$", text, re.MULTILINE)

    def remove(self) -> int:
        """Remove what was written into the project's folder, and the folder if nothing else is in it."""
        for name in self._noted().files:
            if name != _FILE:
                self._unlink(name)
        for name in (_NOTE, _FILE):  # the compose file last: while it is there, the project is
            self._unlink(name)
        try:
            self._folder.rmdir()
        except OSError:
            steps.say(f"{self._folder} is kept, as there is more in it", error=True)
        return 0

    def _run(self, words: list[str], variables: Mapping[str, str]) -> int:
        environment = {**os.environ, **variables}
        if self._simple:
            environment |= self._watched()
        code = steps.run([*self._program, *words], cwd=self._folder, environment=environment)
        return code or self._unsaid()

    def _watched(self) -> dict[str, str]:
        """Return the variables by which podman-compose runs podman so that we are told what could not be started.

        It starts what it could not create, as it may be there already: so that is what counts.
        """
        files.make_directory(self._watch)
        podman = shutil.which("podman") or "podman"
        script = _WATCHING.format(podman=shlex.quote(podman), record=shlex.quote(str(self._watch / "failed")))
        files.replace(self._watch / "podman", script.encode(), mode=0o700)
        return {
            "PATH": os.pathsep.join((str(self._watch), os.environ.get("PATH", os.defpath))),
            "PYTHONUNBUFFERED": "1",  # its lines in the order of what happens
        }

    def _unsaid(self) -> int:
        """Return the exit code of the first container that could not be started; 0 where none is known of."""
        try:
            code = int((self._watch / "failed").read_text().split()[0])
        except FileNotFoundError:
            return 0
        steps.say(f"a container could not be started (exit code {code})", error=True)
        return code

    def _noted(self) -> _Note:
        try:
            return _Note(**json.loads((self._folder / _NOTE).read_bytes()))
        except FileNotFoundError:  # heat-agents' hook has written the project, or nobody has
            return _Note([], {}, came_up=True)

    def _note(self, note: _Note) -> None:
        files.replace(self._folder / _NOTE, json.dumps(vars(note)).encode(), durable=True)

    def _is(self, name: str, content: str) -> bool:
        try:
            return (self._folder / name).read_bytes() == _bytes(content)
        except OSError:
            return False

    def _write(self, name: str, content: str) -> None:
        path = self._folder / name
        if not path.parent.resolve().is_relative_to(self._folder.resolve()):
            raise HookError(f"{path.parent} leads out of the project's folder", "inputs.env_files")
        files.make_directory(path.parent)
        files.replace(path, _bytes(content), durable=True)

    def _unlink(self, name: str) -> None:
        """Remove a file, and the folders in which it was the last."""
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
