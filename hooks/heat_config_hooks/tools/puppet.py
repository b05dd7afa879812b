"""The `puppet` hook.

The config is a manifest, which `puppet apply` applies; the inputs are facts.

As heat-agents' hook of that name: the manifest goes to `WORKING/ID.pp`, inputs are `FACTER_NAME` in the environment
and, with `enable_hiera`, in `DATADIR/heat_config_NAME.json`; the output NAME is what was written to
`$heat_outputs_path.NAME`; what Puppet prints is also left in `LOGDIR`. Beside that the facts have their JSON types.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
from collections.abc import Collection, Mapping
from pathlib import Path

from heat_config_hooks import files, programs, protocol
from heat_config_hooks.errors import HookError
from heat_config_hooks.options import Kind, Option
from heat_config_hooks.reply import Reply, nothing_done

PUPPET = programs.Program(
    names=("puppet",),
    variable="HEAT_PUPPET_CMD",
    folders=("/opt/puppetlabs/bin",),
    install="install it with «apt install puppet», or Puppet's own package puppet-agent",
)

ABOUT = protocol.About(
    config="a Puppet manifest",
    options={
        "enable_facter": Option(Kind.FLAG, "make facts of the inputs", True),
        "enable_hiera": Option(Kind.FLAG, "leave the inputs in Hiera's folder, as heat_config_NAME.json", False),
        "use_facter": Option(Kind.FLAG, "the same, as heat-agents' documentation calls it", True),
        "use_hiera": Option(Kind.FLAG, "the same, as heat-agents' documentation calls it", False),
        "modulepath": Option(Kind.TEXTS, "folders with modules"),
        "tags": Option(Kind.TEXTS, "apply only what has one of these tags"),
        "enable_debug": Option(Kind.FLAG, "have Puppet say all, also to heat-debug.log", False),
        "enable_verbose": Option(Kind.FLAG, "have Puppet say more, also to heat-verbose.log", False),
    },
    program=PUPPET,
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
"""Where heat-agents has Puppet's own logs. Whoever may not write there has them in LOGDIR."""

LOGDIR = Path("/var/run/heat-config/deployed")
"""Where heat-agents leaves what Puppet printed."""

CHANGED = 2
"""Exit code of `--detailed-exitcodes`: all went well, and something was changed."""

_FACTS = """\
# The inputs of a deployment as facts, with their types: in the environment all is text.
require 'json'
inputs = JSON.parse(File.read(File.join(__dir__, 'facts.json'), encoding: 'UTF-8'), max_nesting: false)
inputs.each do |name, value|
  Facter.add(name) do
    has_weight 2_000_000 # those in the environment have 1_000_000
    setcode { value }
  end
end
"""

_TAKEN = re.compile(r"[0-9]+|name|title|module_name|caller_module_name|facts|server_facts", re.IGNORECASE)
"""Variables of Puppet's own: a fact of such a name ends any run."""

_WITH_FQDN = """\
FACTER_fqdn=$(timeout 5 hostname -f 2>/dev/null) && [ -n "$FACTER_fqdn" ] && export FACTER_fqdn || unset FACTER_fqdn
exec "$@"
"""
"""What a name server says may be long in coming: it is asked in the run, and never for long."""


def prepare(request: protocol.Request, place: protocol.Workplace) -> protocol.Command | Reply:
    """Write the manifest and the facts; say how to apply it."""
    manifest = _text(request.config)
    if not manifest.strip():
        _leave_hiera(request, place)
        return nothing_done()
    options = request.options
    puppet = programs.find(PUPPET, place.environment)
    own = {"heat_outputs_path": str(protocol.clear_outputs(request, place))}
    if _for_hiera(request):
        own["deploy_config_name"] = _name(request)
        data = _data(request, place)
        files.make_directory(data.parent)
        files.replace(data, _json(protocol.visible_inputs(request)))
    facts = _facts(request, place, own) if options["enable_facter"] and options["use_facter"] else {}
    files.make_directory(place.working)
    path = place.working / f"{request.key}.pp"
    files.replace(path, manifest.encode("utf-8", "replace"))
    argv = (*puppet, "apply", "--color", "false", "--detailed-exitcodes", "--logdest", "console")
    argv = (*argv, *_more(options, place), str(path))
    return protocol.Command(
        argv=argv if "FACTER_fqdn" in facts else ("/bin/sh", "-c", _WITH_FQDN, "sh", *argv),
        cwd=place.working,
        environment={
            **_locale(place),
            **_home(place),
            **facts,
            **{f"FACTER_{name}": value for name, value in own.items()},
        },
    )


def finish(request: protocol.Request, place: protocol.Workplace, ended: protocol.Ended) -> Reply:
    """Return the outputs, what Puppet printed, and its exit code: that something was changed is no failure."""
    _leave_hiera(request, place)
    with contextlib.suppress(OSError):  # a copy for people; the reply has it all
        _log(request, place, ended)
    reply = protocol.collect(request, place, ended)
    if ended.code == CHANGED:
        reply["deploy_status_code"] = 0
    return reply


def _text(config: object) -> str:
    if config is None:
        return ""
    if not isinstance(config, str):
        raise HookError("the puppet tool takes the text of a manifest, not a structure", "config")
    return config.removeprefix("\ufeff")


def _facts(request: protocol.Request, place: protocol.Workplace, own: Collection[str]) -> dict[str, str]:
    """Write the inputs for Facter, and return them as variables too; those with names of our `own` facts are left out.

    Of two with the same name the heavier fact wins, so each has its type; who reads the variables finds heat-agents'.
    """
    inputs = {
        name: value
        for name, value in protocol.visible_inputs(request).items()
        if value is not None and name.lower() not in own  # as Facter does
    }
    for name in inputs:
        if _TAKEN.fullmatch(name):
            raise HookError(
                f"{name!r} cannot be a fact, as Puppet has a variable of that name: rename the input, or set the "
                "options enable_facter: false and enable_hiera: true",
                "inputs",
            )
    files.replace(place.run / "facts.json", _json(inputs))
    files.replace(place.run / "facts.rb", _FACTS.encode())
    variables = {
        f"FACTER_{name}": text
        for name, text in protocol.environment(request).items()
        if name in inputs and len(f"FACTER_{name}={text}".encode()) <= protocol.MAX_VARIABLE
    }
    others = place.environment.get("FACTERLIB")
    variables["FACTERLIB"] = f"{place.run}:{others}" if others else str(place.run)
    return variables


def _json(values: object) -> bytes:
    return json.dumps(values, ensure_ascii=False).encode("utf-8", "replace")  # half of a character is none in Ruby


def _for_hiera(request: protocol.Request) -> bool:
    return bool(request.options["enable_hiera"] or request.options["use_hiera"])


def _name(request: protocol.Request) -> str:
    """Return what Hiera's hierarchy knows as `%{deploy_config_name}`. Raises HookError."""
    name = request.name or request.id
    if "/" in name or "\0" in name:
        raise HookError(f"with enable_hiera the name is part of a file's name: {name!r} may have no '/' in it", "name")
    return name


def _data(request: protocol.Request, place: protocol.Workplace) -> Path:
    """Return the file with the inputs for Hiera."""
    folder = Path(place.environment.get("HEAT_PUPPET_HIERA_DATADIR") or "/etc/puppet/hieradata").absolute()
    return folder / f"heat_config_{_name(request)}.json"


def _leave_hiera(request: protocol.Request, place: protocol.Workplace) -> None:
    """After a DELETE, leave no inputs in Hiera's folder."""
    if request.action == "DELETE" and _for_hiera(request):
        with contextlib.suppress(OSError):  # what came of the run counts for more
            _data(request, place).unlink(missing_ok=True)


def _more(options: Mapping[str, object], place: protocol.Workplace) -> list[str]:
    """Return the arguments that the options ask for."""
    more: list[str] = []
    for name, separator in (("modulepath", ":"), ("tags", ",")):
        texts = options[name]
        if isinstance(texts, list) and (text := separator.join(texts)):
            more += [f"--{name}", text]
    for name in ("debug", "verbose"):
        if options[f"enable_{name}"]:
            more += [f"--{name}", "--logdest", str(_puppet_log(f"heat-{name}.log", place))]
    return more


def _home(place: protocol.Workplace) -> dict[str, str]:
    """Return a home for Puppet where it needs one and has none: root has the system's folders, others theirs at home.

    What it runs never sees it: Puppet takes HOME out of the environment of commands.
    """
    given = place.environment.get("HOME", "")
    if os.geteuid() == 0 or (given not in ("", "/") and os.access(given, os.W_OK | os.X_OK)):
        return {}
    home = place.working / "home"
    files.make_directory(home)
    return {"HOME": str(home)}


def _puppet_log(name: str, place: protocol.Workplace) -> Path:
    """Return a log that Puppet may add to, and that is for nobody else's eyes: all facts may be in it."""
    with contextlib.suppress(OSError):
        return _private(LOGS / name)
    return _private(_logdir(place) / name)


def _private(path: Path) -> Path:
    files.make_directory(path.parent)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK, 0o600)
    try:
        os.fchmod(descriptor, 0o600)
    finally:
        os.close(descriptor)
    return path


def _logdir(place: protocol.Workplace) -> Path:
    """Return heat-agents' folder for logs: by default `/var/run/heat-config/deployed`, or the same below our state.

    Outputs that are elsewhere do not take the logs with them.
    """
    given = place.environment
    usual = LOGDIR if given.get("HEAT_PUPPET_OUTPUTS") else place.outputs.parent / "deployed"
    return Path(given.get("HEAT_PUPPET_LOGDIR") or usual).absolute()


def _log(request: protocol.Request, place: protocol.Workplace, ended: protocol.Ended) -> None:
    """Leave what Puppet printed where heat-agents does."""
    import shutil  # noqa: PLC0415  # slow to load

    created = re.sub(r"[^0-9A-SU-Za-z.+-]", "-", request.creation_time)[:64]
    base = f"{created}-{request.key}" if created else request.key
    for name, source in (("stdout", ended.stdout), ("stderr", ended.stderr)):
        path = _private(_logdir(place) / f"{base}-{name}.log")
        with source.open("rb") as captured, path.open("wb") as log:
            shutil.copyfileobj(captured, log)


def _locale(place: protocol.Workplace) -> dict[str, str]:
    """Return what makes Ruby take text for UTF-8 where the machine's locale does not: else such facts are lost."""
    given = (place.environment.get(name) for name in ("LC_ALL", "LC_CTYPE", "LANG"))
    return {} if re.search(r"utf-?8$", next(filter(None, given), ""), re.IGNORECASE) else {"LC_ALL": "C.UTF-8"}
