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
from heat_config_hooks.needs import NEEDS, SALT
from heat_config_hooks.options import ISOLATE, TRUSTED, USER, Kind, Option
from heat_config_hooks.reply import UNKNOWN, Capture, Reply, failure, nothing_done

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

_FAILED = 1
"""The status code if a state has failed, and salt-call's exit code is 0."""

_LARGE = 4_000_000
"""The largest return, in bytes, that is converted to YAML. A larger one is sent as JSON, and cut in any case."""

_VIEW = "{% set opts = dict(opts, **pillar['" + INPUTS + "']) %}"
"""Text that adds the inputs to `opts` in a template. It is put into the first line, so that line numbers stay."""


def prepare(
    request: protocol.Request, place: protocol.Workplace
) -> protocol.Command | Reply:
    """Write the state file, the pillar and the minion configuration of this run, and return the command."""
    states = states_of(request.config)
    if not states.strip():
        return nothing_done()
    # report mistakes before anything is written
    programs.find(SALT, place.environment)
    _user()
    machine = _machine_config(_minion_config(place.environment))
    options = protocol.as_map(request.options["minion"])
    files.make_directory(place.working)
    outputs = protocol.clear_outputs(request, place)
    files.replace(
        place.working / f"{request.key}.sls", states.encode("utf-8", "replace")
    )
    settings = write_config(request, place, outputs)
    files.make_directory(place.working / "file_backup")
    (place.run / "cache" / "file_backup").symlink_to(place.working / "file_backup")
    test = request.options["test"] or any(
        settings.get("test") is True for settings in (options, *machine.values())
    )
    return protocol.Command(
        argv=salt_call(
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
            f"the input {name} is in pillar['{INPUTS}'] only, because modules of salt read pillar of that name as a "
            "setting; the option trusted_inputs allows it"
            for name in settings
        ),
    )


def write_config(
    request: protocol.Request, place: protocol.Workplace, outputs: Path
) -> list[str]:
    """Write the pillar and the minion configuration of this run to its folder. Raises HookError.

    Return the inputs that are settings of salt, and are not pillar of their own.
    """
    main = _minion_config(place.environment)
    machine = _machine_config(main)
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
    _write_config(own, {**options, **_own(place.run, pillar, _user())})
    include = [glob.escape(str(path)) for path in (*machine, own)]
    _write_config(place.run / "minion", {"id": _minion_id(main), "include": include})
    # salt reads them next to its configuration
    _grains(place).symlink_to(main.parent / "grains")
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


def _is_setting(name: str) -> bool:
    """Return whether modules of Salt may read pillar of a name as their settings, or our own map would hide it."""
    return name in _SETTINGS.split() or name == INPUTS or "." in name or ":" in name


def finish(
    request: protocol.Request, place: protocol.Workplace, ended: protocol.Ended
) -> Reply:
    """Return the outputs, the return of salt as YAML, and the reasons of failed states.

    Outputs are the files that states wrote to `heat_outputs_path`, and, as in heat-agents, `return` (a map of the
    states) and `retcode`.
    """
    outputs = protocol.collect(request, place, ended)
    path = _returned(place)
    document = read_return(path)
    if document is None:
        return {
            **outputs,
            **failure(ended.code or UNKNOWN, NOTHING, stderr=Capture(ended.stderr)),
        }
    returned = document["local"]
    problems = [
        *_lost_grains(place, ended),
        *_untried(returned, request, place),
        *problems_of(returned),
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
        "deploy_stdout": _yaml(returned)
        if path.stat().st_size <= _LARGE
        else Capture(path),
        "deploy_stderr": "".join(f"{each}\n" for each in problems) or empty,
        "deploy_status_code": code,
    }


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
        return _with_view(_yaml(config))
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


def _user() -> str:
    """Return the name of the user of this process. Raises HookError if it has none, because salt would not start."""
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        sentence = f"salt-call runs as the user {os.geteuid()}, who needs a name: add one to /etc/passwd"
        raise HookError(sentence) from None


def _minion_config(environment: Mapping[str, str]) -> Path:
    named = environment.get("HEAT_SALT_MINION_CONFIG") or environment.get(
        "SALT_MINION_CONFIG"
    )
    return Path(named or "/etc/salt/minion").absolute()


def _machine_config(main: Path) -> dict[Path, Mapping[str, object]]:
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


def _grains(place: protocol.Workplace) -> Path:
    return place.run / "grains"


def _lost_grains(place: protocol.Workplace, ended: protocol.Ended) -> list[str]:
    """Return a sentence if grains could not be stored: salt only logs that, and reports success for the state."""
    complaint = f"Unable to write to grains file at {_grains(place)}.".encode()
    with ended.stderr.open("rb") as log:
        lost = any(complaint in line for line in log)
    return (
        [f"grains were not stored: {_grains(place).readlink()} cannot be written"]
        if lost
        else []
    )


def _returned(place: protocol.Workplace) -> Path:
    return place.run / "returned.json"


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
        for each in _machine_config(_minion_config(place.environment)).values()
    ):
        return []  # the state itself requests a dry run
    return [
        f"{len(pending)} of the states were not applied: the machine's minion configuration says `test: true`"
    ]


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


def _yaml(value: object) -> str:
    """Return a value as YAML. Text with a template is a block, in which nothing is quoted."""
    import yaml  # noqa: PLC0415  # slow to load, and few hooks need it

    class Dumper(yaml.SafeDumper):
        """Writes text of several lines, and templates, without quotes."""

    def text(dumper: yaml.SafeDumper, value: str) -> yaml.ScalarNode:
        style = "|" if re.search(r"\n|\{[{%#]", value) else None
        return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=style)

    Dumper.add_representer(str, text)
    return yaml.dump(value, Dumper=Dumper, allow_unicode=True, sort_keys=False)
