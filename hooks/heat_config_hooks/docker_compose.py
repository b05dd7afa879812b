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
from collections.abc import Mapping
from pathlib import Path, PurePosixPath

from heat_config_hooks import engines, files, protocol, steps, strict_json
from heat_config_hooks.errors import HookError
from heat_config_hooks.options import Kind, Option
from heat_config_hooks.programs import Program
from heat_config_hooks.reply import STATUS, Capture, Reply

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

_FOLDER = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}")
_STEERING = re.compile(r"(COMPOSE|DOCKER|PODMAN|CONTAINERS?)_.*")
"""Variables that say which project of which engine is meant: an input never sets them."""


def prepare(request: protocol.Request, place: protocol.Workplace) -> protocol.Command | Reply:
    """Look at the compose file, and at the files that go beside it."""
    if _goes(request):
        path = _folder(request, place) / _FILE
        return steps.command(__name__, request, place) if path.exists() else _nothing(f"{path} is not there")
    if not _compose_file(request.config):
        return _nothing("the config is empty")
    _env_files(request)
    return steps.command(__name__, request, place)


def carry_out(request: protocol.Request, place: protocol.Workplace, _outputs: steps.Outputs) -> int:
    """Bring the project up, or take it down and remove it."""
    compose = _Compose(engines.choose(_PROGRAM, place), _folder(request, place))
    if _goes(request):
        return compose.down(volumes=request.options["volumes"] is True) or compose.remove()
    text = _compose_file(request.config)
    return compose.up(
        {_FILE: text, **_env_files(request)},
        {name: value for name, value in protocol.environment(request).items() if _passes(name)},
        remove_orphans=request.options["remove_orphans"] is True,
    )


def finish(request: protocol.Request, place: protocol.Workplace, ended: protocol.Ended) -> Reply:
    """Return what came of it. Old versions of podman-compose end well whatever happens, but print what did."""
    reply = steps.finish(request, place, ended)
    if ended.code == 0 and (code := _unsaid(ended.stdout) or _unsaid(ended.stderr)):
        reply[STATUS] = code
        reply["deploy_stderr"] = Capture(ended.stderr, "a container could not be started\n")
    return reply


def _unsaid(output: Path) -> int:
    """Return the exit code of the first `podman start` that failed; 0 where none did.

    podman-compose starts what it could not create, as it may be there already: so that is what counts.
    """
    starting = False
    with output.open(encoding="utf-8", errors="replace") as lines:
        for line in lines:
            if line.startswith("podman "):
                starting = line.startswith("podman start ")
            elif line.startswith("exit code: ") and starting:
                code = line.removeprefix("exit code: ").strip()
                if code.isdecimal() and int(code):
                    return int(code)
    return 0


def _goes(request: protocol.Request) -> bool:
    return bool(request.leaves) or request.action == "DELETE"


def _nothing(why: str) -> Reply:
    return {"deploy_stdout": "", "deploy_stderr": f"{why}: nothing was run\n", STATUS: 0}


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


class _Compose:
    """A project in its folder, and the program that it is run with.

    A note beside the compose file says what was written there, and keeps the variables that the file speaks of: the
    program wants them again when the project goes, and by then nobody else may know them.
    """

    def __init__(self, program: tuple[str, ...], folder: Path) -> None:
        self._program = program
        self._folder = folder
        self._simple = any(Path(word).name.startswith("podman-compose") for word in program)
        """It neither sees what has changed, nor what is left over, nor says what failed."""

    def up(self, wanted: Mapping[str, str], variables: Mapping[str, str], *, remove_orphans: bool) -> int:
        """Write the project's files, and bring it up."""
        kept = {name: value for name, value in variables.items() if re.search(rf"\b{name}\b", wanted[_FILE])}
        names, earlier = self._noted()
        same = earlier == kept and set(names) == set(wanted) and all(map(self._is, wanted, wanted.values()))
        if self._simple and not same and (self._folder / _FILE).exists() and (code := self.down()):
            return code
        files.make_directory(self._folder)
        self._note([*names, *wanted], kept)  # first, so that whatever is written is known of
        for name, content in wanted.items():
            self._write(name, content)
        for name in set(names) - set(wanted):
            self._unlink(name)
        self._note(wanted, kept)
        orphans = ["--remove-orphans"] if remove_orphans else []
        return self._run(["up", "-d", "--no-build", *orphans], variables)

    def down(self, *, volumes: bool = False) -> int:
        """Take the project down, with the variables with which it was brought up."""
        _, variables = self._noted()
        words = ["down", *(["--volumes"] if volumes else []), *([] if self._simple else ["--remove-orphans"])]
        code = self._run(words, variables)
        if code or not self._simple:
            return code
        _, text = steps.ask([*self._program, "ps", "-q"], cwd=self._folder)
        left = re.findall(r"^[0-9a-f]{12,64}$", text, re.MULTILINE)
        if left:
            steps.say(f"these containers of the project are still there: {' '.join(left)}", error=True)
        return 1 if left else 0

    def remove(self) -> int:
        """Remove what was written into the project's folder, and the folder if nothing else is in it."""
        names, _ = self._noted()
        for name in names:
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
        environment = {**os.environ, **variables, "PYTHONUNBUFFERED": "1"}  # its lines in the order of what happens
        return steps.run([*self._program, *words], cwd=self._folder, environment=environment)

    def _noted(self) -> tuple[list[str], dict[str, str]]:
        try:
            note = json.loads((self._folder / _NOTE).read_bytes())
        except FileNotFoundError:  # heat-agents' hook has written the project, or nobody has
            return [], {}
        return note["files"], note["variables"]

    def _note(self, names: Mapping[str, str] | list[str], variables: Mapping[str, str]) -> None:
        note = {"files": sorted(set(names)), "variables": dict(variables)}
        files.replace(self._folder / _NOTE, json.dumps(note).encode(), durable=True)

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
