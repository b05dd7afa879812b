"""Runs `puppet apply`: its command line, the facts and the inputs for Hiera, for runs and for verifications."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path

from heat_config_hooks import files, programs, protocol
from heat_config_hooks.errors import HookError
from heat_config_hooks.needs import PUPPET
from heat_config_hooks.reply import changed

CHANGED = 2
"""Exit code of `--detailed-exitcodes` for a success that has changed something."""


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


def more_of(options: Mapping[str, object]) -> list[str]:
    """Return the arguments for the options, except those for logs."""
    more: list[str] = []
    for name, separator in (("modulepath", ":"), ("tags", ",")):
        texts = options[name]
        if isinstance(texts, list) and (text := separator.join(texts)):
            more += [f"--{name}", text]
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


def _locale(place: protocol.Workplace) -> dict[str, str]:
    """Return a locale in which Ruby reads text as UTF-8, if the machine's locale does not: else facts would be lost."""
    locales = (place.environment.get(name) for name in ("LC_ALL", "LC_CTYPE", "LANG"))
    return (
        {}
        if re.search(r"utf-?8$", next(filter(None, locales), ""), re.IGNORECASE)
        else {"LC_ALL": "C.UTF-8"}
    )
