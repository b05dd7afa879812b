"""The `puppet` hook: applies a manifest with `puppet apply`.

The config is the manifest, and the inputs are facts.
As in heat-agents' hook of the same name, the manifest goes to `WORKING/ID.pp`.
The inputs are variables `FACTER_NAME`, and with `enable_hiera` also in `DATADIR/heat_config_NAME.json`.
The output NAME is what was written to `$heat_outputs_path.NAME`.
The output of Puppet is also kept in `LOGDIR`.
Unlike there, the facts have the JSON types of the inputs.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Mapping
from pathlib import Path

from heat_config_hooks import files, programs, protocol
from heat_config_hooks.needs import NEEDS, PUPPET
from heat_config_hooks.options import ISOLATE, TRUSTED, USER, Kind, Option
from heat_config_hooks.reply import (
    UNKNOWN,
    Capture,
    Reply,
    failure,
    nothing_done,
)
from heat_config_hooks.tools import puppet_run

TYPE_CHECKING = False  # as `typing` has it, which takes long to load

if TYPE_CHECKING:
    from heat_config_hooks.verdict import Verdict  # few runs verify

ABOUT = protocol.About(
    config="a Puppet manifest",
    options={
        **USER,
        **ISOLATE,
        "enable_facter": Option(Kind.FLAG, "turn the inputs into facts", True),
        "enable_hiera": Option(
            Kind.FLAG,
            "write the inputs to Hiera's folder, as heat_config_NAME.json",
            False,
        ),
        "use_facter": Option(
            Kind.FLAG,
            "another name of enable_facter, from heat-agents' documentation",
            True,
        ),
        "use_hiera": Option(
            Kind.FLAG,
            "another name of enable_hiera, from heat-agents' documentation",
            False,
        ),
        **TRUSTED,
        "modulepath": Option(Kind.TEXTS, "folders with modules"),
        "tags": Option(Kind.TEXTS, "apply only resources with one of these tags"),
        "enable_debug": Option(
            Kind.FLAG, "have Puppet log everything, also to heat-debug.log", False
        ),
        "enable_verbose": Option(
            Kind.FLAG, "have Puppet log more, also to heat-verbose.log", False
        ),
    },
    needs=NEEDS["puppet"],
    variables=(
        "HEAT_PUPPET_WORKING",
        "HEAT_PUPPET_OUTPUTS",
        "HEAT_PUPPET_CMD",
        "HEAT_PUPPET_LOGDIR",
        "HEAT_PUPPET_HIERA_DATADIR",
    ),
    tested="real puppet (7.23)",
)

LOGS = Path("/var/log/puppet")
"""The folder of Puppet's own logs in heat-agents. If it cannot be written, they are in LOGDIR."""

LOGDIR = Path("/var/run/heat-config/deployed")
"""The folder in which heat-agents keeps the output of Puppet."""


_WOULD = re.compile(rb"Notice: Stage\[main\]: Would have triggered ")
"""The last message of Puppet in a dry run."""


def prepare(
    request: protocol.Request, place: protocol.Workplace
) -> protocol.Command | Reply:
    """Write the manifest and the facts, and return the command."""
    manifest = protocol.text_of(request.config, "the text of a manifest")
    if not manifest.strip():
        _clear_hiera(request, place)
        return nothing_done()
    programs.find(
        PUPPET, place.environment
    )  # report mistakes before anything is written
    outputs = protocol.clear_outputs(request, place)
    if puppet_run.for_hiera(request):
        data = puppet_run.hiera_file(request, place)
        files.make_directory(data.parent)
        files.replace(data, puppet_run.hiera_content(request))
    files.make_directory(place.working)
    path, home = place.working / f"{request.key}.pp", puppet_run.home_of(place)
    more = (
        *puppet_run.more_of(request.options),
        *_logs(request.options, place),
        str(path),
    )
    ready = puppet_run.command(request, place, outputs, more, home)
    files.replace(path, manifest.encode("utf-8", "replace"))
    if home:
        files.make_directory(Path(home["HOME"]))
    return ready


def verify(
    request: protocol.Request, place: protocol.Workplace
) -> protocol.Command | Verdict:
    """Return the command that applies the manifest in noop mode, or the verdict if Hiera's file has changed."""
    from heat_config_hooks.tools import puppet_check  # noqa: PLC0415  # few runs verify

    return puppet_check.verify(request, place)


def verdict(
    request: protocol.Request, place: protocol.Workplace, ended: protocol.Ended
) -> Verdict:
    """Return the verdict from Puppet's report."""
    from heat_config_hooks.tools import puppet_check  # noqa: PLC0415  # few runs verify

    return puppet_check.verdict_of(request, place, ended)


def finish(
    request: protocol.Request, place: protocol.Workplace, ended: protocol.Ended
) -> Reply:
    """Return the outputs, the output of Puppet, and its exit code, where the code for changes counts as success."""
    _clear_hiera(request, place)
    with contextlib.suppress(OSError):
        # the copy is for people; the reply is complete without it
        _log(request, place, ended)
    reply = protocol.collect(request, place, ended)
    if ended.code == puppet_run.CHANGED:
        reply["deploy_status_code"] = 0
    elif ended.code and (cause := puppet_run.cause_of(ended.stderr)):
        reply["deploy_stderr"] = Capture(ended.stderr, after=f"{cause}\n")
    if (
        ended.code == 0
        and "noop" not in str(request.config)
        and _is_dry_run(ended.stdout)
    ):
        why = "nothing was applied: Puppet was in a dry run, because its configuration says noop"
        return {
            **reply,
            **failure(UNKNOWN, why, Capture(ended.stdout), Capture(ended.stderr)),
        }
    return reply


def _is_dry_run(stdout: Path) -> bool:
    """Return whether Puppet only reported changes and made none. Its exit code is 0 nevertheless."""
    with stdout.open("rb") as lines:
        return any(_WOULD.match(line) for line in lines)


def _clear_hiera(request: protocol.Request, place: protocol.Workplace) -> None:
    """On DELETE, remove the inputs from Hiera's folder."""
    if request.action == "DELETE" and puppet_run.for_hiera(request):
        with contextlib.suppress(OSError):  # the result of the run is more important
            puppet_run.hiera_file(request, place).unlink(missing_ok=True)


def _logs(options: Mapping[str, object], place: protocol.Workplace) -> list[str]:
    """Return the arguments for the options for logs."""
    more: list[str] = []
    for name in ("debug", "verbose"):
        if options[f"enable_{name}"]:
            more += [
                f"--{name}",
                "--logdest",
                str(_puppet_log(f"heat-{name}.log", place)),
            ]
    return more


def _puppet_log(name: str, place: protocol.Workplace) -> Path:
    """Return the path of a log of Puppet, which only its owner can read because it may contain all facts."""
    with contextlib.suppress(OSError):
        return _private(LOGS / name)
    return _private(_logdir(place) / name)


def _private(path: Path) -> Path:
    """Make a file 0600 if it does not exist yet, or change its mode; return its path."""
    files.make_directory(path.parent)
    descriptor = os.open(
        path,
        os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK,
        0o600,
    )
    try:
        os.fchmod(descriptor, 0o600)
    finally:
        os.close(descriptor)
    return path


def _logdir(place: protocol.Workplace) -> Path:
    """Return heat-agents' folder for logs: by default `/var/run/heat-config/deployed`, or `run/deployed` in our state.

    `HEAT_PUPPET_OUTPUTS` does not move the logs.
    """
    usual = (
        LOGDIR
        if place.environment.get("HEAT_PUPPET_OUTPUTS")
        else place.outputs.parent / "deployed"
    )
    return Path(place.environment.get("HEAT_PUPPET_LOGDIR") or usual).absolute()


def _log(
    request: protocol.Request, place: protocol.Workplace, ended: protocol.Ended
) -> None:
    """Show the output of Puppet where heat-agents keeps a copy of it.

    If the agent keeps the output, there is a link to it: in a copy, secrets would not be masked later.
    """
    if ended.output == "passed on":
        return
    created = re.sub(r"[^0-9A-SU-Za-z.+-]", "-", request.creation_time)[:64]
    base = f"{created}-{request.key}" if created else request.key
    for name, source in (("stdout", ended.stdout), ("stderr", ended.stderr)):
        path = _logdir(place) / f"{base}-{name}.log"
        if ended.output == "kept":
            files.make_directory(path.parent)
            files.remove(path)
            path.symlink_to(source.absolute())
            continue
        import shutil  # noqa: PLC0415  # slow to load

        _private(path)
        with source.open("rb") as captured, path.open("wb") as log:
            shutil.copyfileobj(captured, log)
