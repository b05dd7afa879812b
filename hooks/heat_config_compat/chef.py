"""The `chef` hook: runs chef-client or cinc-client in local mode, on a kitchen of cookbooks, roles and environments.

As in heat-agents' hook of the same name, the config is the run list, and the inputs are the attributes of the node.
The input `environment` names its environment, and the output NAME is what was written to `$heat_outputs_path.NAME`.
The kitchen is the folder `WORKING/kitchen`, or that of the option `kitchen_path`.
With the option `kitchen`, a git URL, the kitchen is cloned again for each run.
Chef's own files are in the folder of the run, because attributes may be secrets.
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
from heat_config_hooks.needs import CHEF, NEEDS
from heat_config_hooks.options import ISOLATE, TRUSTED, USER, Kind, Option
from heat_config_hooks.reply import Reply, nothing_done

GIT = programs.Program(
    names=("git",),
    install="the option kitchen needs it: install it with «apt install git»",
)

ABOUT = protocol.About(
    config='the run list: a list, or its JSON text, e.g. `["recipe[apache]"]`',
    options={
        **USER,
        **ISOLATE,
        "kitchen": Option(
            Kind.TEXT, "URL of a git repository: the kitchen, cloned again for each run"
        ),
        "kitchen_path": Option(
            Kind.TEXT, "folder of the kitchen (default `WORKING/kitchen`)"
        ),
        **TRUSTED,
    },
    needs=NEEDS["chef"],
    variables=(
        "HEAT_CHEF_CMD",
        "HEAT_CHEF_WORKING",
        "HEAT_CHEF_OUTPUTS",
        "CHEF_LICENSE",
    ),
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
"""Inputs that do not become attributes."""

_SETTINGS = frozenset(
    {
        "run_list",
        "recipes",
        "named_run_list",
        "policy_name",
        "policy_group",
        "chef_environment",
        "tags",
    }
)
"""Names in the file of attributes by which chef chooses what it runs."""

_ENVIRONMENT = re.compile(r"[A-Za-z0-9_-]+")
"""The name of an environment, as chef defines it."""

_PROTOCOLS = "file:git:http:https:ssh"
"""The protocols that git may use: `ext::` would run any command, and the machine may have other helpers."""


def prepare(
    request: protocol.Request, place: protocol.Workplace
) -> protocol.Command | Reply:
    """Check the deployment, write the attributes of the node and chef's configuration, and return the command."""
    run_list = _run_list(request.config)
    if run_list is None:
        return nothing_done()
    programs.find(CHEF, place.environment)
    kitchen = _kitchen(request, place)
    if _url(request):
        programs.find(GIT, place.environment)
    elif not kitchen.is_dir():
        raise HookError(
            f"there is no kitchen at {kitchen}: name its git repository in the option kitchen",
            "options",
        )
    inputs = protocol.visible_inputs(request)
    settings = (
        []
        if request.options.get("trusted_inputs")
        else [name for name in inputs if name in _SETTINGS]
    )
    attributes = {
        name: inputs[name]
        for name in inputs
        if name not in _OF_THE_DEPLOYMENT and name not in settings
    }
    files.replace(
        place.run / "node.json",
        json.dumps({**attributes, "run_list": run_list}, indent=4).encode(),
    )
    files.replace(
        place.run / "client.rb",
        _client(request, place, kitchen).encode("utf-8", "replace"),
    )
    files.make_directory(place.run / "nodes")
    files.make_directory(place.working)
    outputs = protocol.clear_outputs(request, place)
    notes = [
        f"the input {name} is not an attribute, because chef would take it for a setting; "
        "the option trusted_inputs allows it"
        for name in settings
    ]
    return steps.command(
        __name__, request, place, notes, heat_outputs_path=str(outputs)
    )


def carry_out(request: protocol.Request, place: protocol.Workplace) -> int:
    """Clone the kitchen if the options name a repository, run chef, and return an exit code."""
    url = _url(request)
    if url:
        code = _clone(url, _kitchen(request, place), place)
        if code:
            return code
    client = programs.find(CHEF, place.environment)
    arguments = (
        "-z",
        "--config",
        str(place.run / "client.rb"),
        "-j",
        str(place.run / "node.json"),
    )
    return steps.run((*client, *arguments), cwd=place.working)


finish = protocol.collect


def _run_list(config: object) -> list[str] | None:
    """Return the run list; None for an empty config. Raises HookError."""
    if isinstance(config, str) and config.strip():
        try:
            config = strict_json.loads(config)
        except ValueError as error:
            raise HookError(
                f'expected a run list as JSON, e.g. ["recipe[apache]"]: {error}',
                "config",
            ) from error
    elif config is None or isinstance(config, str):
        return None
    if not isinstance(config, list) or not all(
        isinstance(each, str) for each in config
    ):
        raise HookError(
            'expected a run list: a list of texts, e.g. ["recipe[apache]"]', "config"
        )
    return config


def _kitchen(request: protocol.Request, place: protocol.Workplace) -> Path:
    named = request.options.get("kitchen_path")
    return (
        place.working / (named if isinstance(named, str) and named else "kitchen")
    ).resolve()


def _url(request: protocol.Request) -> str:
    """Return the git URL of the kitchen; empty if there is none. Raises HookError if git would read it as an option."""
    url = request.options.get("kitchen")
    if not isinstance(url, str) or not url:
        return ""
    if url.startswith("-") or re.match(r"[A-Za-z0-9]+::", url):
        raise HookError(
            f"expected the URL or the path of a git repository, not {url!r}",
            "options.kitchen",
        )
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
        # The default is the folder of this file, which is removed after the run; chef's backups must stay.
        f"cache_path {_ruby(place.working / 'local-mode-cache')}",
    ]
    environment = request.inputs.get("environment")
    if environment not in (None, ""):
        if not isinstance(environment, str) or not _ENVIRONMENT.fullmatch(environment):
            problem = f"expected the name of a chef environment, of letters, digits, '-' and '_', not {environment!r}"
            raise HookError(problem, "inputs.environment")
        lines.append(f"environment {_ruby(environment)}")
    return "\n".join(lines) + "\n"


def _ruby(text: str | Path) -> str:
    """Return text as a Ruby string in which nothing is evaluated."""
    return "'" + str(text).replace("\\", "\\\\").replace("'", "\\'") + "'"


def _clone(url: str, kitchen: Path, place: protocol.Workplace) -> int:
    """Clone a kitchen, then replace the previous one with it; return git's exit code.

    Raises HookError if the folder to be replaced is not a git clone, because it may contain anything.
    """
    if kitchen.exists() and not ((kitchen / ".git").exists() or _is_empty(kitchen)):
        problem = f"{kitchen} is not a git clone, so it is not replaced: empty it, or name another folder"
        raise HookError(problem, "options.kitchen_path")
    files.make_directory(kitchen.parent)
    new, old = (
        kitchen.with_name(f".{kitchen.name}.new"),
        kitchen.with_name(f".{kitchen.name}.old"),
    )
    files.remove(new)
    address, settings = _without_secrets(url, place)
    git = programs.find(GIT, place.environment)
    environment = {
        **os.environ,
        "GIT_ALLOW_PROTOCOL": _PROTOCOLS,
        "GIT_TERMINAL_PROMPT": "0",
    }
    code = steps.run(
        (*git, *settings, "clone", "--", address, str(new)), environment=environment
    )
    if code:
        files.remove(new)
        steps.say(
            f"the kitchen cannot be cloned; {kitchen} was not changed", error=True
        )
        return code
    files.remove(old)
    if kitchen.exists():
        kitchen.rename(old)
    new.rename(kitchen)
    files.remove(old)
    return 0


def _is_empty(path: Path) -> bool:
    return path.is_dir() and not any(path.iterdir())


def _without_secrets(
    url: str, place: protocol.Workplace
) -> tuple[str, tuple[str, ...]]:
    """Return a URL without credentials, and arguments with which git finds the credentials in a file.

    All users of a machine can see command lines, and git stores the URL in the clone.
    A user without a password may be a token, which is a secret, too.
    """
    parts = _split(url)
    if (
        parts is None
        or parts.scheme not in ("http", "https")
        or not (parts.username or parts.password)
    ):
        return url, ()
    user, _, host = parts.netloc.rpartition("@")
    credentials = place.run / "git-credentials"
    # git ignores a line without a password, even an empty one
    login = user if ":" in user else f"{user}:"
    files.replace(
        credentials, f"{parts.scheme}://{login}@{host}\n".encode("utf-8", "replace")
    )
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
    except ValueError:  # git will report the mistake
        return None
