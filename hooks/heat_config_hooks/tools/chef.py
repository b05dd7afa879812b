"""The `chef` hook: chef-client (or cinc-client) in local mode over a kitchen of cookbooks, roles and environments.

As heat-agents' hook of that name: the config is the run list, the inputs are the node's attributes, the input
`environment` names its environment, and outputs are the files beside `$heat_outputs_path`. The kitchen is at
`WORKING/kitchen` or where the option `kitchen_path` says; with the option `kitchen`, a git URL, it is cloned anew for
each run. What chef is given is in the run's own folder, since attributes may be secrets.
"""

from __future__ import annotations

import json
import os
import re
import shlex
from pathlib import Path
from urllib.parse import SplitResult, urlsplit

from heat_config_hooks import files, programs, protocol, steps, strict_json
from heat_config_hooks.errors import HookError
from heat_config_hooks.options import Kind, Option
from heat_config_hooks.reply import Reply, nothing_done

PROGRAM = programs.Program(
    names=("chef-client", "cinc-client"),
    variable="HEAT_CHEF_CMD",
    folders=("/opt/chef/bin", "/opt/cinc/bin"),
    install="install Chef Infra Client or Cinc Client from their makers' packages",
)
GIT = programs.Program(names=("git",), install="the option kitchen needs it: install it with «apt install git»")

ABOUT = protocol.About(
    config='the run list: a list, or its JSON text, e.g. `["recipe[apache]"]`',
    options={
        "kitchen": Option(Kind.TEXT, "URL of a git repository: the kitchen, cloned anew for each run"),
        "kitchen_path": Option(Kind.TEXT, "folder of the kitchen (default `WORKING/kitchen`)"),
    },
    program=PROGRAM,
    variables=("HEAT_CHEF_CMD", "HEAT_CHEF_WORKING", "HEAT_CHEF_OUTPUTS", "CHEF_LICENSE"),
    tested="a stand-in that records its command line, environment and files; real git",
)

_OF_THE_DEPLOYMENT = frozenset(
    {
        "deploy_action",
        "deploy_resource_name",
        "deploy_server_id",
        "deploy_signal_transport",
        "deploy_signal_verb",
        "deploy_stack_id",
        "environment",
    }
)
"""Inputs that are no attributes."""

_ENVIRONMENT = re.compile(r"[A-Za-z0-9_-]+")
"""What chef takes as the name of an environment."""

_PROTOCOLS = "file:git:http:https:ssh"
"""What git may speak. Its `ext::` would run any command, and other helpers are whatever the machine has."""


def prepare(request: protocol.Request, place: protocol.Workplace) -> protocol.Command | Reply:
    """Check what is asked for, and write the node's attributes and chef's configuration."""
    run_list = _run_list(request.config)
    if run_list is None:
        return nothing_done()
    programs.find(PROGRAM, place.environment)
    kitchen = _kitchen(request, place)
    if _url(request):
        programs.find(GIT, place.environment)
    elif not kitchen.is_dir():
        raise HookError(f"there is no kitchen at {kitchen}: name its git repository in the option kitchen", "options")
    attributes = {
        name: value for name, value in protocol.visible_inputs(request).items() if name not in _OF_THE_DEPLOYMENT
    }
    files.replace(place.run / "node.json", json.dumps({**attributes, "run_list": run_list}, indent=4).encode())
    files.replace(place.run / "client.rb", _client(request, place, kitchen).encode("utf-8", "replace"))
    files.make_directory(place.run / "nodes")
    files.make_directory(place.working)
    outputs = protocol.clear_outputs(request, place)
    return steps.command(__name__, request, place, heat_outputs_path=str(outputs))


def carry_out(request: protocol.Request, place: protocol.Workplace) -> int:
    """Clone the kitchen where one is named, then run chef."""
    url = _url(request)
    if url:
        code = _clone(url, _kitchen(request, place), place)
        if code:
            return code
    client = programs.find(PROGRAM, place.environment)
    given = ("-z", "--config", str(place.run / "client.rb"), "-j", str(place.run / "node.json"))
    return steps.run((*client, *given), cwd=place.working)


finish = protocol.collect


def _run_list(config: object) -> list[str] | None:
    """Return the run list; None where the config is empty."""
    if isinstance(config, str) and config.strip():
        try:
            config = strict_json.loads(config)
        except ValueError as error:
            raise HookError(f'expected a run list as JSON, e.g. ["recipe[apache]"]: {error}', "config") from error
    elif config is None or isinstance(config, str):
        return None
    if not isinstance(config, list) or not all(isinstance(each, str) for each in config):
        raise HookError('expected a run list: a list of texts, e.g. ["recipe[apache]"]', "config")
    return config


def _kitchen(request: protocol.Request, place: protocol.Workplace) -> Path:
    named = request.options.get("kitchen_path")
    return (place.working / (named if isinstance(named, str) and named else "kitchen")).resolve()


def _url(request: protocol.Request) -> str:
    """Return the kitchen's git URL, empty where none is named. Raises HookError where git would take it for more."""
    url = request.options.get("kitchen")
    if not isinstance(url, str) or not url:
        return ""
    if url.startswith("-") or re.match(r"[A-Za-z0-9]+::", url):
        raise HookError(f"expected the URL or the path of a git repository, not {url!r}", "options.kitchen")
    return url


def _client(request: protocol.Request, place: protocol.Workplace, kitchen: Path) -> str:
    """Return chef's configuration, a text in Ruby."""
    lines = [
        "log_location STDOUT",
        "local_mode true",
        "chef_zero.enabled true",
        f"cookbook_path {_ruby(kitchen / 'cookbooks')}",
        f"role_path {_ruby(kitchen / 'roles')}",
        f"environment_path {_ruby(kitchen / 'environments')}",
        f"node_path {_ruby(place.run / 'nodes')}",
        # Its default is beside this file, which goes with the run: backups of what chef has replaced must not.
        f"cache_path {_ruby(place.working / 'local-mode-cache')}",
    ]
    environment = request.inputs.get("environment")
    if environment not in (None, ""):
        if not isinstance(environment, str) or not _ENVIRONMENT.fullmatch(environment):
            problem = f"chef has environments with names of letters, digits, '-' and '_' only, not {environment!r}"
            raise HookError(problem, "inputs.environment")
        lines.append(f"environment {_ruby(environment)}")
    return "\n".join(lines) + "\n"


def _ruby(text: str | Path) -> str:
    """Return a text as Ruby writes it where nothing in it is to be evaluated."""
    return "'" + str(text).replace("\\", "\\\\").replace("'", "\\'") + "'"


def _clone(url: str, kitchen: Path, place: protocol.Workplace) -> int:
    """Clone a kitchen and put it in the place of the one that is there; return git's exit code.

    Until the clone is whole, the kitchen that is there stays. Raises HookError where that is no clone of git's: it may
    be anything.
    """
    if kitchen.exists() and not ((kitchen / ".git").exists() or _is_empty(kitchen)):
        problem = f"{kitchen} is no clone of git's, so it is not replaced: empty it, or name another folder"
        raise HookError(problem, "options.kitchen_path")
    files.make_directory(kitchen.parent)
    new, old = kitchen.with_name(f".{kitchen.name}.new"), kitchen.with_name(f".{kitchen.name}.old")
    files.remove(new)
    address, given = _without_secrets(url, place)
    git = programs.find(GIT, place.environment)
    environment = {**os.environ, "GIT_ALLOW_PROTOCOL": _PROTOCOLS, "GIT_TERMINAL_PROMPT": "0"}
    code = steps.run((*git, *given, "clone", "--", address, str(new)), environment=environment)
    if code:
        files.remove(new)
        steps.say(f"the kitchen cannot be cloned; what was at {kitchen} is as it was", error=True)
        return code
    files.remove(old)
    if kitchen.exists():
        kitchen.rename(old)
    new.rename(kitchen)
    files.remove(old)
    return 0


def _is_empty(path: Path) -> bool:
    return path.is_dir() and not any(path.iterdir())


def _without_secrets(url: str, place: protocol.Workplace) -> tuple[str, tuple[str, ...]]:
    """Return a URL that everybody may see, and git's arguments for the user and the password that were in it.

    Command lines can be seen by all users of a machine, and git keeps the URL in the clone. A user without a password
    may be a token, which is as secret.
    """
    parts = _split(url)
    if parts is None or parts.scheme not in ("http", "https") or not (parts.username or parts.password):
        return url, ()
    user, _, host = parts.netloc.rpartition("@")
    credentials = place.run / "git-credentials"
    given = user if ":" in user else f"{user}:"  # git passes over a line that has no password, be it an empty one
    files.replace(credentials, f"{parts.scheme}://{given}@{host}\n".encode("utf-8", "replace"))
    helper = f"store --file={shlex.quote(str(credentials))}"
    return parts._replace(netloc=host).geturl(), (
        "-c",
        "credential.helper=",
        "-c",
        f"credential.helper={helper}",
    )


def _split(url: str) -> SplitResult | None:
    try:
        return urlsplit(url)
    except ValueError:  # git will say what it thinks of it
        return None
