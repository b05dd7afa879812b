"""The beginning of a run whose inputs refer to secrets: a program that has them resolved, and becomes the command.

Everything that may take long or fail is done inside the run: under its supervisor, its time limit and its scope. So no
provider delays another deployment, and the agent itself never has the secrets before it masks them.

    agent ─► request ─► supervisor ─► this program ─► providers
                                            │  secrets on record, the hook's files
                                            └─► becomes the hook's command
"""

from __future__ import annotations

import errno
import json
import os
import signal
import sys
from collections.abc import Mapping
from pathlib import Path

from heat_config_agent import providers
from heat_config_agent.deployments import metadata
from heat_config_agent.errors import obstacle
from heat_config_agent.model.deployment import Config, Document, Tool
from heat_config_agent.model.job import Job
from heat_config_agent.model.run_settings import RunSettings
from heat_config_agent.runs import hook, resolved
from heat_config_hooks import alphabet, files, memory, protocol
from heat_config_hooks.reply import CANNOT_START, NO_TOOL, Reply, failure
from heat_config_hooks.values import replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_REQUEST, _REPLY, _NOTES = "request.json", "reply.json", "notes.json"
"""The files in the folder of a run: from the agent, and for it."""

_OUTPUTS = "heat_outputs_path"
"""The variable from which the supervisor knows what to flush."""


def command(job: Job, place: protocol.Workplace, settings: RunSettings) -> protocol.Command:
    """Return the command of a run that begins with the secrets of its inputs. Raises OSError."""
    environ = os.environ
    wanted = [name.partition(":")[2] for name in job.deployment.references if name.startswith("env:")]
    variables = {f"{providers.VARIABLE}{name}" for name in wanted}
    request = {
        "document": job.request,
        "key": job.deployment.key,
        "where": job.deployment.where,
        "source": job.deployment.source,
        "options": dict(job.config.options),
        "section": job.config.section,
        "tool": job.tool.name,
        "hook": job.tool.hook,
        "working": str(place.working),
        "outputs": str(place.outputs),
        "environment": dict(place.environment),
        "providers": list(settings.providers),
        "variables": {**settings.secrets, **{name: environ[name] for name in variables if name in environ}},
    }
    files.replace(place.run / _REQUEST, json.dumps(request).encode())
    return protocol.Command(
        argv=(sys.executable, "-I", *alphabet.UTF8_MODE, "-m", __name__, str(place.run)),
        cwd=place.run,
        environment={_OUTPUTS: str(place.outputs / job.deployment.key)},
    )


def prepared(folder: Path) -> tuple[Reply | None, list[str]]:
    """Return the reply if the hook's command was not started, and the hook's notes."""
    reply, notes = _kept(folder / _REPLY), _kept(folder / _NOTES)
    return (reply if isinstance(reply, dict) else None, list(map(str, notes)) if isinstance(notes, list) else [])


def _kept(path: Path) -> object:
    try:
        return json.loads(files.read(path))
    except (OSError, ValueError, RecursionError):
        return None


# The program.


def main() -> int:
    """Resolve the secrets of the run in the folder that the command line names, and become its command."""
    memory.keep_no_core()
    folder = Path(sys.argv[1])
    request: dict[str, Any] = json.loads((folder / _REQUEST).read_bytes())
    (folder / _REQUEST).unlink()  # it may have secrets from the environment of the agent
    try:
        command = _prepare(request, folder)
    except OSError as error:
        name = request["document"].get("name") or request["key"]
        command = failure(CANNOT_START, f"cannot start {name}: {obstacle(error)}")
    if not isinstance(command, protocol.Command):
        files.replace(folder / _REPLY, json.dumps(command).encode())
        return 0
    if command.notes:
        files.replace(folder / _NOTES, json.dumps(command.notes).encode())
    return _become(command)


def _prepare(request: dict[str, Any], folder: Path) -> protocol.Command | Reply:
    """Return the command of the hook, which gets the secrets in its inputs; a reply if nothing is to be run."""
    [deployment] = metadata.parse(Document(source=request["source"], content=[request["document"]])).deployments
    shown = {name: os.environ[name] for name in ("PATH", "HOME", "LANG", "LC_ALL", "HEAT_RUN") if name in os.environ}
    secrets: dict[str, str] = {}
    for reference in deployment.references:
        try:
            secrets[reference] = providers.resolve(reference, request["providers"], {**shown, **request["variables"]})
        except providers.ProviderError as error:
            return failure(CANNOT_START, f"the secret {reference} is missing: {error}")
    resolved.keep(folder, secrets)
    document = {**request["document"], "inputs": [_filled(item, secrets) for item in request["document"]["inputs"]]}
    job = Job(
        deployment=replace(deployment, key=request["key"], where=request["where"]),
        config=Config(
            tool=request["tool"],
            config=document.get("config"),
            options=request["options"],
            section=request["section"],
        ),
        tool=Tool(request["tool"], request["hook"]),
        request=document,
    )
    place = protocol.Workplace(
        run=folder,
        working=Path(request["working"]),
        outputs=Path(request["outputs"]),
        environment=request["environment"],
    )
    return hook.prepare(job, place)


def _filled(item: Mapping[str, object], secrets: Mapping[str, str]) -> Mapping[str, object]:
    """Return an input of the document with the secrets to which it refers."""
    value = item.get("value", item.get("default"))
    filled = metadata.resolved(value, secrets)
    return item if filled == value else {**item, "value": filled}


def _become(command: protocol.Command) -> int:
    """Replace this process by the command; return an exit code, as of a shell, if that is impossible."""
    environment = {name: value for name, value in os.environ.items() if name != _OUTPUTS}
    environment.update(command.environment)
    for number in (signal.SIGPIPE, signal.SIGXFSZ):  # Python ignores them, and programs would inherit that
        signal.signal(number, signal.SIG_DFL)
    try:
        os.chdir(command.cwd)
        if command.stdin is not None:
            stdin = os.open(command.stdin, os.O_RDONLY)
            os.dup2(stdin, 0)
            os.close(stdin)
        os.execvpe(command.argv[0], command.argv, environment)  # noqa: S606  # a shell has nothing to add
    except (OSError, ValueError) as error:
        print(f"{command.argv[0]}: {obstacle(error)}", file=sys.stderr, flush=True)
        return NO_TOOL if isinstance(error, OSError) and error.errno == errno.ENOENT else CANNOT_START


if __name__ == "__main__":
    sys.exit(main())
