"""The `salt` hook: applies a state file with `salt-call` on this machine, without a master.

The config is the state file.
As in heat-agents' hook of the same name, it goes to `WORKING/ID.sls` and is applied with `state.sls`.
Files next to it are `salt://` and can be included, and the machine's own minion configuration applies.
Standard output is the return of salt for each state, as YAML.

Inputs are pillar.
heat-agents turned them into minion options, which states read as `opts['NAME']`.
In the template of the config, `opts` still has them, but no input changes an option of salt.

Files of salt are removed with the run, except static grains, which are those of the machine's minion,
and backups of `backup: minion`, which are in `WORKING/file_backup`.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from heat_config_hooks import files, programs, protocol
from heat_config_hooks.needs import NEEDS, SALT
from heat_config_hooks.options import ISOLATE, TRUSTED, USER, Kind, Option
from heat_config_hooks.reply import UNKNOWN, Capture, Reply, failure, nothing_done
from heat_config_hooks.tools import salt_run

TYPE_CHECKING = False  # as `typing` has it, which takes long to load

if TYPE_CHECKING:
    from heat_config_hooks.verdict import Verdict  # few runs verify

ABOUT = protocol.About(
    config="a salt state file: text for any of salt's renderers, or a map of states",
    options={
        **USER,
        **ISOLATE,
        "test": Option(Kind.FLAG, "only report what would be changed", False),
        "minion": Option(
            Kind.MAP,
            "minion options for this deployment, in addition to the machine's own",
        ),
        **TRUSTED,
    },
    needs=NEEDS["salt"],
    variables=(
        "HEAT_SALT_WORKING",
        "HEAT_SALT_OUTPUTS",
        "HEAT_SALT_MINION_CONFIG",
        "SALT_MINION_CONFIG",
    ),
    tested="real salt-call",
)


_FAILED = 1
"""The status code if a state has failed, and salt-call's exit code is 0."""

_LARGE = 4_000_000
"""The largest return, in bytes, that is converted to YAML. A larger one is sent as JSON, and cut in any case."""


def prepare(
    request: protocol.Request, place: protocol.Workplace
) -> protocol.Command | Reply:
    """Write the state file, the pillar and the minion configuration of this run, and return the command."""
    states = salt_run.states_of(request.config)
    if not states.strip():
        return nothing_done()
    # report mistakes before anything is written
    programs.find(SALT, place.environment)
    salt_run.user()
    machine = salt_run.machine_config(salt_run.minion_config(place.environment))
    options = protocol.as_map(request.options["minion"])
    files.make_directory(place.working)
    outputs = protocol.clear_outputs(request, place)
    files.replace(
        place.working / f"{request.key}.sls", states.encode("utf-8", "replace")
    )
    settings = salt_run.write_config(request, place, outputs)
    files.make_directory(place.working / "file_backup")
    (place.run / "cache" / "file_backup").symlink_to(place.working / "file_backup")
    test = request.options["test"] or any(
        settings.get("test") is True for settings in (options, *machine.values())
    )
    return protocol.Command(
        argv=salt_run.salt_call(
            place,
            place.working,
            _returned(place),
            "state.sls",
            request.key,
            f"test={bool(test)}",  # always, because an input of that name could set it otherwise
        ),
        cwd=place.working,
        environment={"heat_outputs_path": str(outputs)},
        notes=tuple(
            f"the input {name} is in pillar['{salt_run.INPUTS}'] only, because modules of salt read pillar of that "
            "name as a setting; the option trusted_inputs allows it"
            for name in settings
        ),
    )


def verify(
    request: protocol.Request, place: protocol.Workplace
) -> protocol.Command | Verdict:
    """Return the command that applies the states with `test=True`."""
    from heat_config_hooks.tools import salt_check  # noqa: PLC0415  # few runs verify

    return salt_check.verify(request, place)


def verdict(
    request: protocol.Request, place: protocol.Workplace, ended: protocol.Ended
) -> Verdict:
    """Return the verdict from the return of each state."""
    from heat_config_hooks.tools import salt_check  # noqa: PLC0415  # few runs verify

    return salt_check.verdict_of(request, place, ended)


def finish(
    request: protocol.Request, place: protocol.Workplace, ended: protocol.Ended
) -> Reply:
    """Return the outputs, the return of salt as YAML, and the reasons of failed states.

    Outputs are the files that states wrote to `heat_outputs_path`, and, as in heat-agents, `return` (a map of the
    states) and `retcode`.
    """
    outputs = protocol.collect(request, place, ended)
    path = _returned(place)
    document = salt_run.read_return(path)
    if document is None:
        return {
            **outputs,
            **failure(
                ended.code or UNKNOWN, salt_run.NOTHING, stderr=Capture(ended.stderr)
            ),
        }
    returned = document["local"]
    problems = [
        *_lost_grains(place, ended),
        *_untried(returned, request, place),
        *salt_run.problems_of(returned),
    ]
    # salt-call's own code also depends on commands in templates
    code = (ended.code or _FAILED) if problems else 0
    empty = (
        ""
        if returned
        else "the config has no states for this action: nothing was run\n"
    )
    salt_outputs = (("return", returned), ("retcode", code))
    return {
        **{name: value for name, value in salt_outputs if name in request.outputs},
        **outputs,
        "deploy_stdout": salt_run.as_yaml(returned)
        if path.stat().st_size <= _LARGE
        else Capture(path),
        "deploy_stderr": "".join(f"{each}\n" for each in problems) or empty,
        "deploy_status_code": code,
    }


def _lost_grains(place: protocol.Workplace, ended: protocol.Ended) -> list[str]:
    """Return a sentence if grains could not be stored: salt only logs that, and reports success for the state."""
    complaint = f"Unable to write to grains file at {salt_run.grains(place)}.".encode()
    with ended.stderr.open("rb") as log:
        lost = any(complaint in line for line in log)
    return (
        [
            f"grains were not stored: {salt_run.grains(place).readlink()} cannot be written"
        ]
        if lost
        else []
    )


def _returned(place: protocol.Workplace) -> Path:
    return place.run / "returned.json"


def _untried(
    returned: object, request: protocol.Request, place: protocol.Workplace
) -> list[str]:
    """Return a sentence if nothing was changed because the machine's configuration makes each run a dry run."""
    states = returned.values() if isinstance(returned, Mapping) else ()
    pending = [
        each
        for each in states
        if isinstance(each, Mapping) and each.get("result", False) is None
    ]
    own = (
        request.options["test"]
        or protocol.as_map(request.options["minion"]).get("test") is True
    )
    if not pending or own:
        return []
    if not any(
        each.get("test") is True
        for each in salt_run.machine_config(
            salt_run.minion_config(place.environment)
        ).values()
    ):
        return []  # the state itself requests a dry run
    return [
        f"{len(pending)} of the states were not applied: the machine's minion configuration says `test: true`"
    ]
