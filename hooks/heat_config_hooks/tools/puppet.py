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
import json
import os
import re
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path

from heat_config_hooks import files, programs, protocol
from heat_config_hooks.errors import HookError
from heat_config_hooks.needs import NEEDS, PUPPET
from heat_config_hooks.options import ISOLATE, TRUSTED, USER, Kind, Option
from heat_config_hooks.reply import (
    UNKNOWN,
    Capture,
    Reply,
    changed,
    failure,
    nothing_done,
)

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

CHANGED = 2
"""Exit code of `--detailed-exitcodes` for a success that has changed something."""

_WOULD = re.compile(rb"Notice: Stage\[main\]: Would have triggered ")
"""The last message of Puppet in a dry run."""

_FACTS = """\
# The inputs of a deployment as facts with their types; in the environment, all values are text.
require 'json'
inputs = JSON.parse(File.read(File.join(__dir__, 'facts.json'), encoding: 'UTF-8'), max_nesting: false)
inputs.each do |name, value|
  Facter.add(name) do
    has_weight 2_000_000 # facts from the environment have 1_000_000
    setcode { value }
  end
end
"""

_TAKEN = re.compile(
    r"[0-9]+|name|title|module_name|caller_module_name|facts|server_facts",
    re.IGNORECASE,
)
"""Variables that Puppet defines itself: a fact of such a name ends any run."""

_WITH_FQDN = """\
FACTER_fqdn=$(timeout 5 hostname -f 2>/dev/null) && [ -n "$FACTER_fqdn" ] && export FACTER_fqdn || unset FACTER_fqdn
exec "$@"
"""
"""A command that sets the fact `fqdn`. It is part of the run, with a timeout, because a name server may be slow."""


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
    if for_hiera(request):
        data = hiera_file(request, place)
        files.make_directory(data.parent)
        files.replace(data, hiera_content(request))
    files.make_directory(place.working)
    path, home = place.working / f"{request.key}.pp", home_of(place)
    more = (*more_of(request.options), *_logs(request.options, place), str(path))
    ready = command(request, place, outputs, more, home)
    files.replace(path, manifest.encode("utf-8", "replace"))
    if home:
        files.make_directory(Path(home["HOME"]))
    return ready


def command(
    request: protocol.Request,
    place: protocol.Workplace,
    outputs: Path,
    more: Iterable[str],
    home: Mapping[str, str],
) -> protocol.Command:
    """Return the command that applies a manifest with the inputs as facts; `more` are its further arguments.

    The facts are in the folder of the run. Raises HookError.
    """
    options, own = request.options, {"heat_outputs_path": str(outputs)}
    if for_hiera(request):
        own["deploy_config_name"] = _name(request)
    facts = (
        _facts(request, place, own)
        if options["enable_facter"] and options["use_facter"]
        else {}
    )
    argv = (
        *programs.find(PUPPET, place.environment),
        "apply",
        "--color",
        "false",
        "--detailed-exitcodes",
        "--logdest",
        "console",
        *more,
    )
    return protocol.Command(
        argv=argv
        if "FACTER_fqdn" in facts
        else ("/bin/sh", "-c", _WITH_FQDN, "sh", *argv),
        cwd=place.working if place.working.is_dir() else place.run,
        environment={
            **_locale(place),
            **home,
            **facts,
            **{f"FACTER_{name}": value for name, value in own.items()},
        },
    )


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
    if ended.code == CHANGED:
        reply["deploy_status_code"] = 0
    elif ended.code and (cause := cause_of(ended.stderr)):
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


def cause_of(stderr: Path, *, repeats: bool = False) -> str:
    """Return the first error of Puppet, if something follows it; else empty. People take the last line for the reason.

    With `repeats`, it is also returned if nothing follows it.

    What follows are errors of resources that need the one that failed, and warnings about those that were skipped.
    Of two lines about the same error, the one that names the resource counts. Facter's errors end no run.
    """
    with stderr.open("rb") as file:
        lines = [
            line.decode("utf-8", "replace").strip() for line in file if line.strip()
        ]
    errors = [
        line
        for line in lines
        if line.startswith("Error: ") and not line.startswith("Error: Facter: ")
    ]
    if not errors:
        return ""
    what = errors[0].removeprefix("Error: ")
    cause = next(
        (
            line
            for line in errors
            if line.startswith("Error: /") and line.endswith(what)
        ),
        errors[0],
    )
    return "" if cause == lines[-1] and not repeats else cause


def _is_dry_run(stdout: Path) -> bool:
    """Return whether Puppet only reported changes and made none. Its exit code is 0 nevertheless."""
    with stdout.open("rb") as lines:
        return any(_WOULD.match(line) for line in lines)


def _facts(
    request: protocol.Request, place: protocol.Workplace, own: Collection[str]
) -> dict[str, str]:
    """Write the inputs as facts with their types, and return them as variables, too.

    Inputs with the names of our `own` facts are left out. Of two facts of the same name, Facter uses that with the
    larger weight. So facts have their types, and programs that read heat-agents' variables still work.
    """
    inputs = {
        name: value
        for name, value in protocol.visible_inputs(request).items()
        if value is not None and name.lower() not in own  # as Facter does
    }
    for name in inputs:
        if _TAKEN.fullmatch(name):
            raise HookError(
                f"{name!r} cannot be a fact, because Puppet has a variable of that name: rename the input, or set the "
                "options enable_facter: false and enable_hiera: true",
                "inputs",
            )
    files.replace(place.run / "facts.json", _json(inputs))
    files.replace(place.run / "facts.rb", _FACTS.encode())
    variables = {
        f"FACTER_{name}": text
        for name, text in protocol.environment(request).items()
        if name in inputs
        and len(f"FACTER_{name}={text}".encode()) <= protocol.MAX_VARIABLE
    }
    others = place.environment.get("FACTERLIB")
    variables["FACTERLIB"] = f"{place.run}:{others}" if others else str(place.run)
    return variables


def _literal(text: str) -> str:
    """Return text in which Hiera does not replace `%{…}`."""
    return text.replace("%{", "%{literal('%')}{")


def _json(values: object) -> bytes:
    # Ruby refuses half of a surrogate pair
    return json.dumps(values, ensure_ascii=False).encode("utf-8", "replace")


def for_hiera(request: protocol.Request) -> bool:
    """Return whether the inputs go to Hiera's folder."""
    return bool(request.options["enable_hiera"] or request.options["use_hiera"])


def _name(request: protocol.Request) -> str:
    """Return the value of `%{deploy_config_name}` in Hiera's hierarchy. Raises HookError."""
    name = request.name or request.id
    if "/" in name or "\0" in name:
        problem = f"with enable_hiera, the name is part of a file name: {name!r} must not contain '/'"
        raise HookError(problem, "name")
    return name


def hiera_file(request: protocol.Request, place: protocol.Workplace) -> Path:
    """Return the path of the inputs for Hiera."""
    folder = Path(
        place.environment.get("HEAT_PUPPET_HIERA_DATADIR") or "/etc/puppet/hieradata"
    ).absolute()
    return folder / f"heat_config_{_name(request)}.json"


def hiera_content(request: protocol.Request) -> bytes:
    """Return the inputs for Hiera."""
    inputs = protocol.visible_inputs(request)
    if request.options.get("trusted_inputs"):
        return _json(inputs)
    return _json(changed(inputs, _literal))


def _clear_hiera(request: protocol.Request, place: protocol.Workplace) -> None:
    """On DELETE, remove the inputs from Hiera's folder."""
    if request.action == "DELETE" and for_hiera(request):
        with contextlib.suppress(OSError):  # the result of the run is more important
            hiera_file(request, place).unlink(missing_ok=True)


def more_of(options: Mapping[str, object]) -> list[str]:
    """Return the arguments for the options, except those for logs."""
    more: list[str] = []
    for name, separator in (("modulepath", ":"), ("tags", ",")):
        texts = options[name]
        if isinstance(texts, list) and (text := separator.join(texts)):
            more += [f"--{name}", text]
    return more


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


def home_of(place: protocol.Workplace) -> dict[str, str]:
    """Return a home for Puppet if it needs one: for root, it uses the folders of the system instead.

    The commands that Puppet runs do not see it, because Puppet removes HOME from their environment.
    """
    present = place.environment.get("HOME", "")
    if os.geteuid() == 0 or (
        present not in ("", "/") and os.access(present, os.W_OK | os.X_OK)
    ):
        return {}
    return {"HOME": str(place.working / "home")}


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


def _locale(place: protocol.Workplace) -> dict[str, str]:
    """Return a locale in which Ruby reads text as UTF-8, if the machine's locale does not: else facts would be lost."""
    locales = (place.environment.get(name) for name in ("LC_ALL", "LC_CTYPE", "LANG"))
    return (
        {}
        if re.search(r"utf-?8$", next(filter(None, locales), ""), re.IGNORECASE)
        else {"LC_ALL": "C.UTF-8"}
    )
