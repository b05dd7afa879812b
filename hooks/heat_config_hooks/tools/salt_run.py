"""Calls `salt-call`: its states, its pillar and its configuration, and what it returns, for runs and verifications."""

from __future__ import annotations

import glob
import json
import os
import pwd
import re
import shlex
from collections.abc import Mapping
from pathlib import Path

from heat_config_hooks import files, programs, protocol, strict_json
from heat_config_hooks.errors import HookError
from heat_config_hooks.needs import SALT

INPUTS = "heat_inputs"
"""The key of the pillar that has all inputs."""


_SETTINGS = """
    master venv_bin minion_restart_command update_url ca_bundle ca_bundle_url no_proxy proxy_host proxy_password
    proxy_port proxy_username gpg_keydir gpg_passphrase thin_extra_mods thin_so_mods cmd_blacklist_glob
    cmd_whitelist_glob textfsm_path textfsm_index_file state_queue state_aggregate state_data global_state_conditions
    ssh_signing_policies x509_signing_policies obfuscate_templates napalm nxos nxos_api pyeapi pyenv postgres rsync
    zypper oracle cassandra slack config_dir aliases systemd iptables grain_opts _errors
"""
"""Pillar that modules of Salt read as their settings: it may name other programs, folders with code, and servers.

So do all names with a dot or a colon, such as `postgres.bins_dir`.
"""


_VIEW = "{% set opts = dict(opts, **pillar['" + INPUTS + "']) %}"
"""Text that adds the inputs to `opts` in a template. It is put into the first line, so that line numbers stay."""


def write_config(
    request: protocol.Request, place: protocol.Workplace, outputs: Path
) -> list[str]:
    """Write the pillar and the minion configuration of this run to its folder. Raises HookError.

    Return the inputs that are settings of salt, and are not pillar of their own.
    """
    main = minion_config(place.environment)
    machine = machine_config(main)
    options = protocol.as_map(request.options["minion"])
    inputs = {**protocol.visible_inputs(request), "heat_outputs_path": str(outputs)}
    pillar = place.run / "pillar.json"
    settings = (
        []
        if request.options.get("trusted_inputs")
        else [name for name in inputs if _is_setting(name)]
    )
    shown = {name: value for name, value in inputs.items() if name not in settings}
    files.replace(pillar, json.dumps({**shown, INPUTS: inputs}).encode())
    own = place.run / "own.conf"
    _write_config(own, {**options, **_own(place.run, pillar, user())})
    include = [glob.escape(str(path)) for path in (*machine, own)]
    _write_config(place.run / "minion", {"id": _minion_id(main), "include": include})
    # salt reads them next to its configuration
    grains(place).symlink_to(main.parent / "grains")
    files.make_directory(place.run / "cache")
    return settings


def salt_call(
    place: protocol.Workplace, root: Path, returned: Path, *words: str
) -> tuple[str, ...]:
    """Return the command line that calls a function, with the states in `root`; its return goes to a file.

    `words` are the function, the state file, and further arguments. Raises HookError.
    """
    function, states, *more = words
    return (
        *programs.find(SALT, place.environment),
        *(
            "--local",
            f"--config-dir={place.run}",
            f"--file-root={glob.escape(str(root))}",
        ),
        *("--log-level=info", "--no-color", "--retcode-passthrough"),
        *("--out=json", f"--out-file={returned}"),
        *(
            "--no-parse=mods",
            function,
            f"mods={states}",
        ),  # not parsed, because an id may look like a number
        *more,
    )


def _is_setting(name: str) -> bool:
    """Return whether modules of Salt may read pillar of a name as their settings, or our own map would hide it."""
    return name in _SETTINGS.split() or name == INPUTS or "." in name or ":" in name


NOTHING = "salt-call ended without returning the outcome of the states"
"""The reason if there is no return."""


def read_return(path: Path) -> Mapping[str, object] | None:
    """Return the document with a return of salt, below `local`; None if there is none."""
    try:
        document = strict_json.loads(files.read(path).decode())
    except (OSError, ValueError):
        return None
    if not isinstance(document, Mapping) or "local" not in document:
        return None
    return document


def states_of(config: object) -> str:
    """Return the text of the state file."""
    if not config:
        return ""
    if isinstance(config, str):
        return _with_view(config)
    if isinstance(config, Mapping | list):
        return _with_view(as_yaml(config))
    raise HookError("expected the text of a state file, or a map of states", "config")


def _with_view(text: str) -> str:
    """Return the state file; if it is a Jinja template that uses `opts`, with the inputs added to that."""
    if not re.search(r"\bopts\b", text) or not re.search(r"\{[{%]", text):
        return text
    first, newline, rest = text.partition("\n")
    if not first.startswith("#!"):
        return _VIEW + text
    return (
        f"{first}{newline}{_VIEW}{rest}" if re.match(r"#!\s*jinja\b", first) else text
    )


def _own(run: Path, pillar: Path, user: str) -> dict[str, object]:
    """Return the minion options of the hook: no master, and all files of salt in the folder of the run.

    A command reads the pillar: that is the only source of JSON in which salt renders no templates, and which adds to
    the machine's own pillar.
    """
    return {
        "file_client": "local",
        "use_master_when_local": False,
        "master_type": "disable",
        "saltenv": "base",
        "ext_pillar": [{"cmd_json": shlex.join(("/bin/cat", str(pillar)))}],
        "ext_pillar_first": False,  # inputs override the pillar of the machine
        "root_dir": "/",
        "cachedir": str(run / "cache"),
        "pki_dir": str(run / "pki"),
        "sock_dir": str(run / "sock"),
        "log_file": str(run / "log"),
        "log_level_logfile": "quiet",
        "user": user,  # else salt-call would change to the user of the machine's minion
        "verify_env": False,
    }


def user() -> str:
    """Return the name of the user of this process. Raises HookError if it has none, because salt would not start."""
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        sentence = f"salt-call runs as the user {os.geteuid()}, who needs a name: add one to /etc/passwd"
        raise HookError(sentence) from None


def minion_config(environment: Mapping[str, str]) -> Path:
    """Return the configuration file of the minion of this machine."""
    named = environment.get("HEAT_SALT_MINION_CONFIG") or environment.get(
        "SALT_MINION_CONFIG"
    )
    return Path(named or "/etc/salt/minion").absolute()


def machine_config(main: Path) -> dict[Path, Mapping[str, object]]:
    """Return the files of the machine's minion configuration, each with its options.

    Raises HookError if a file is not valid YAML, because salt would ignore it.
    """
    import yaml  # noqa: PLC0415  # slow to load, and few hooks need it

    paths = (main, *sorted((main.parent / "minion.d").glob("*.conf")))
    config: dict[Path, Mapping[str, object]] = {}
    for path in paths:
        try:
            if path.is_file():
                config[path] = protocol.as_map(
                    yaml.safe_load(files.read(path, files.LARGEST))
                )
        except yaml.YAMLError as error:
            raise HookError(
                f"the minion configuration {path} is not valid YAML: {error}"
            ) from None
    return config


def _minion_id(main: Path) -> str:
    """Return an id for the minion, in case its configuration has none: salt would look up the machine's name in DNS."""
    try:
        noted = files.read(main.parent / "minion_id", files.LARGEST).decode().strip()
    except (OSError, ValueError):
        noted = ""
    return noted or os.uname().nodename


def _write_config(path: Path, options: Mapping[str, object]) -> None:
    # JSON is YAML, except for escaped characters beyond the first 65,536.
    files.replace(
        path, json.dumps(options, ensure_ascii=False).encode("utf-8", "replace")
    )


def grains(place: protocol.Workplace) -> Path:
    """Return the link to the static grains of the minion of this machine."""
    return place.run / "grains"


def problems_of(returned: object) -> list[str]:
    """Return a text for each failure; empty if all states have succeeded.

    Salt returns a map of states; if it ran none of them, a list of errors or a single error.
    The result of a state is true, false, or null in a dry run.
    People are shown the last line as the reason, so states that were not run because of others come first, and the
    state that failed first comes last.
    """
    if not isinstance(returned, Mapping):
        errors = returned if isinstance(returned, list) else [returned]
        return [protocol.as_text(each).strip() for each in errors] or [
            "salt-call returned nothing"
        ]
    states = {
        tag: each if isinstance(each, Mapping) else {"comment": each}
        for tag, each in returned.items()
    }
    failed = [
        tag
        for tag, state in states.items()
        if state.get("result", False) not in (True, None)
    ]
    failed.sort(key=lambda tag: _place(states[tag]))
    first = next((tag for tag in failed if _place(states[tag])[0]), None)
    if first is not None:
        failed = [*(tag for tag in failed if tag != first), first]
    return [_problem(tag, states[tag]) for tag in failed]


def _place(state: Mapping[str, object]) -> tuple[bool, int]:
    number = state.get("__run_num__")
    return state.get("__state_ran__") is not False, number if isinstance(
        number, int
    ) else 0


def _problem(tag: str, state: Mapping[str, object]) -> str:
    words = tag.split("_|-")
    name = (
        f"{words[0]}.{words[-1]} {state.get('__id__', words[min(1, len(words) - 1)])}"
    )
    texts = [
        protocol.as_text(state.get("comment")),
        protocol.as_text(protocol.as_map(state.get("changes")).get("stderr")),
    ]
    return f"{name}: " + "\n".join(text.strip() for text in texts if text.strip())


def as_yaml(value: object) -> str:
    """Return a value as YAML. Text with a template is a block, in which nothing is quoted."""
    import yaml  # noqa: PLC0415  # slow to load, and few hooks need it

    class Dumper(yaml.SafeDumper):
        """Writes text of several lines, and templates, without quotes."""

    def text(dumper: yaml.SafeDumper, value: str) -> yaml.ScalarNode:
        style = "|" if re.search(r"\n|\{[{%#]", value) else None
        return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=style)

    Dumper.add_representer(str, text)
    return yaml.dump(value, Dumper=Dumper, allow_unicode=True, sort_keys=False)
