"""The beginning of a run that needs secrets or artifacts: a program that gets them, and becomes the command.

Everything that may take long or fail is done inside the run: under its supervisor, its time limit and its scope. So no
provider and no server delays another deployment, and the agent itself never has the secrets before it masks them.

    agent ─► request ─► supervisor ─► this program ─► providers, servers
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

from heat_config_agent.deployments import metadata
from heat_config_agent.masking import redaction
from heat_config_agent.model.deployment import Config, Document, Input, Job, Tool
from heat_config_agent.model.errors import obstacle
from heat_config_agent.model.run_settings import RunSettings
from heat_config_agent.runs import as_user, hook, namespaces, providers, resolved
from heat_config_hooks import alphabet, artifacts, files, memory, protocol
from heat_config_hooks.reply import CANNOT_START, NO_TOOL, Reply, failure
from heat_config_hooks.values import replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from heat_config_hooks.health import Check

_REQUEST, _REPLY, _NOTES = "request.json", "reply.json", "notes.json"
"""The files in the folder of a run: from the agent, and for it."""

_ARTIFACTS = "artifacts"
"""The folder of the artifacts, in that of the run."""

_USER = ("auth_url", "user_id", "password", "project_id", "region_name")
"""The inputs `deploy_…` that name a user of Keystone."""

_OUTPUTS = "heat_outputs_path"
"""The variable that tells the supervisor which files to flush."""


def command(
    job: Job, folder: Path, place: protocol.Workplace, settings: RunSettings
) -> protocol.Command:
    """Return the command of a run, preceded by the steps that it needs. Raises OSError."""
    environ = os.environ
    wanted = [
        name.partition(":")[2]
        for name in job.deployment.references
        if name.startswith("env:")
    ]
    variables = {f"{providers.VARIABLE}{name}" for name in wanted}
    request = {
        "document": job.request,
        "key": job.deployment.key,
        "where": job.deployment.where,
        "source": job.deployment.source,
        "options": dict(job.config.options),
        "section": job.config.section,
        "verify": vars(job.verify) if job.verify else None,
        "verifies": job.verifies,
        "tool": job.tool.name,
        "hook": job.tool.hook,
        "user": job.user,
        "isolation": dict(job.isolation),
        "run": str(place.run),
        "working": str(place.working),
        "outputs": str(place.outputs),
        "environment": dict(place.environment),
        "providers": list(settings.providers),
        "artifacts": bool(job.artifacts),
        "cache": str(settings.artifacts),
        "size": settings.artifacts_size,
        "ca_file": settings.ca_file,
        "variables": {
            **settings.secrets,
            **{name: environ[name] for name in variables if name in environ},
        },
    }
    files.replace(folder / _REQUEST, json.dumps(request).encode())
    return protocol.Command(
        argv=(sys.executable, "-I", *alphabet.UTF8_MODE, "-m", __name__, str(folder)),
        cwd=folder,
        environment={_OUTPUTS: str(place.outputs / job.deployment.key)},
    )


def prepared(folder: Path) -> tuple[Reply | None, list[str]]:
    """Return the reply if the hook's command was not started, and the hook's notes."""
    reply, notes = _kept(folder / _REPLY), _kept(folder / _NOTES)
    return (
        as_user.decoded(reply, folder) if isinstance(reply, dict) else None,
        list(map(str, notes)) if isinstance(notes, list) else [],
    )


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
    (
        folder / _REQUEST
    ).unlink()  # it may have secrets from the environment of the agent
    try:
        job = _job(request, folder)
        place = protocol.Workplace(
            run=Path(request["run"]),
            working=Path(request["working"]),
            outputs=Path(request["outputs"]),
            environment=request["environment"],
        )
        if isinstance(job, Job) and request["artifacts"]:
            job = _with_artifacts(job, folder, request)
        if request["user"] and isinstance(job, Job):
            return _as_user(request["user"], job, folder, place)
        if isinstance(job, Job) and job.isolation:
            place = _isolated(job, place)
            job = _readable(job)
        command = hook.prepare(job, place) if isinstance(job, Job) else job
    except (OSError, namespaces.IsolationError) as error:
        name = request["document"].get("name") or request["key"]
        command = failure(CANNOT_START, f"cannot start {name}: {_why(error)}")
    if not isinstance(command, protocol.Command):
        files.replace(folder / _REPLY, json.dumps(command).encode())
        return 0
    if command.notes:
        files.replace(folder / _NOTES, json.dumps(command.notes).encode())
    return _become(command)


def _job(request: dict[str, Any], folder: Path) -> Job | Reply:
    """Return the job with the secrets in its inputs; a reply if one of them is missing. Raises OSError."""
    [deployment] = metadata.parse(
        Document(source=request["source"], content=[request["document"]])
    ).deployments
    names = {*providers.PASSED_ON, *map(str.upper, providers.PASSED_ON)}
    shown = {name: os.environ[name] for name in sorted(names) if name in os.environ}
    secrets: dict[str, str] = {}
    for reference in deployment.references:
        environment = {**shown, **_variables_for(reference, request["variables"])}
        if reference.startswith("barbican:"):
            environment[providers.USER] = json.dumps(
                {name: deployment.input(f"deploy_{name}") or "" for name in _USER}
            )
        try:
            secrets[reference] = providers.resolve(
                reference, request["providers"], environment
            )
        except providers.ProviderError as error:
            known = redaction.search(
                [Input(name="secrets", value=list(secrets.values()), hidden=True)]
            )
            return failure(
                CANNOT_START, known.hide(f"the secret {reference} is missing: {error}")
            )
    if secrets:
        resolved.keep(folder, secrets)
    document = {
        **request["document"],
        "inputs": [
            _filled(item, secrets) for item in request["document"].get("inputs") or []
        ],
    }
    return Job(
        deployment=replace(deployment, key=request["key"], where=request["where"]),
        config=Config(
            tool=request["tool"],
            config=document.get("config"),
            options=request["options"],
            section=request["section"],
        ),
        tool=Tool(request["tool"], request["hook"]),
        request=document,
        isolation=request["isolation"],
        verify=_verify(request),
        verifies=request["verifies"],
    )


def _verify(request: Mapping[str, Any]) -> Check | None:
    if not request["verify"]:
        return None
    from heat_config_hooks import health  # noqa: PLC0415  # few deployments have it

    return health.Check(**request["verify"])


def _variables_for(reference: str, variables: Mapping[str, str]) -> dict[str, str]:
    """Return the variables for a provider, without secrets: a secret in a variable is for `env` alone."""
    own = (
        f"{providers.VARIABLE}{reference.removeprefix('env:')}"
        if reference.startswith("env:")
        else ""
    )
    return {
        name: value
        for name, value in variables.items()
        if name == own or not name.startswith(providers.VARIABLE)
    }


def _with_artifacts(job: Job, folder: Path, request: dict[str, Any]) -> Job | Reply:
    """Fetch the artifacts of a job into the folder of its run; return the job, or a reply if a fetch has failed."""
    from heat_config_agent.runs.artifacts import fetching  # noqa: PLC0415  # few runs need it

    wanted = artifacts.read(
        job.config.options["artifacts"], f"{job.config.section}.artifacts"
    )
    means = fetching.Means(
        cache=Path(request["cache"]), size=request["size"], ca_file=request["ca_file"]
    )
    try:
        fetching.fetch(wanted, folder / _ARTIFACTS, means)
    except fetching.ArtifactError as error:
        return failure(CANNOT_START, f"{error}: nothing was run")
    os.environ[artifacts.VARIABLE] = str(folder / _ARTIFACTS)
    return job


def _as_user(name: str, job: Job, folder: Path, place: protocol.Workplace) -> int:
    """Carry out a job as another user; return the exit code of its command. Raises OSError."""
    hook.load(job)
    descriptor = os.open(
        folder / _REPLY, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600
    )
    os.environ.pop(_OUTPUTS, None)
    os.chdir("/")
    try:
        fetched = folder / _ARTIFACTS if artifacts.VARIABLE in os.environ else None
        as_user.become(name, place, fetched, job.isolation)
    except (as_user.UserError, namespaces.IsolationError) as error:
        reply, code = (
            failure(CANNOT_START, f"cannot start {job.deployment.title}: {error}"),
            0,
        )
    else:
        reply, code = as_user.carry_out(job, place)
    files.write(descriptor, as_user.encoded(reply))
    os.close(descriptor)
    as_user.clear(place)
    return code


def _isolated(job: Job, place: protocol.Workplace) -> protocol.Workplace:
    """Isolate this process, and return the place of its hook. Raises OSError, IsolationError."""
    hook.load(job)
    for path in (place.working, place.outputs):
        files.make_directory(path)
    namespaces.enter(job.isolation, (place.run, place.working, place.outputs))
    if job.isolation.get("home") != "true":
        return place
    home = place.run / "home"  # that of the user is out of reach
    home.mkdir(mode=0o700)
    os.environ["HOME"] = str(home)
    return replace(place, environment={**place.environment, "HOME": str(home)})


def _readable(job: Job) -> Job | Reply:
    """Return a job, or a reply if its isolation hides the Python that its hook needs."""
    hidden = hook.unreadable(job.tool)
    if hidden is None:
        return job
    why = f"its isolation hides the agent's Python in {hidden}; install the agent in another folder"
    return failure(CANNOT_START, f"cannot start {job.deployment.name}: {why}")


def _why(error: OSError | namespaces.IsolationError) -> str:
    return obstacle(error) if isinstance(error, OSError) else str(error)


def _filled(
    item: Mapping[str, object], secrets: Mapping[str, str]
) -> Mapping[str, object]:
    """Return an input of the document with the secrets to which it refers."""
    value = item.get("value", item.get("default"))
    filled = metadata.resolved(value, secrets)
    return item if filled == value else {**item, "value": filled}


def _become(command: protocol.Command) -> int:
    """Replace this process by the command; return an exit code, as of a shell, if that is impossible."""
    environment = {
        name: value for name, value in os.environ.items() if name != _OUTPUTS
    }
    environment.update(command.environment)
    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        # Python ignores them, and programs would inherit that
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
        return (
            NO_TOOL
            if isinstance(error, OSError) and error.errno == errno.ENOENT
            else CANNOT_START
        )


if __name__ == "__main__":
    sys.exit(main())
