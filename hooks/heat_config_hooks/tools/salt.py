"""The `salt` hook: the config is a state file, applied by `salt-call` on this machine alone, without a master.

As heat-agents' hook of that name: the config goes to `WORKING/ID.sls` and is applied with `state.sls`; files beside it
are `salt://` and can be included; the machine's own minion configuration holds. Standard output is YAML of what salt
returned for each state.

Inputs are pillar. heat-agents made minion options of them, so that states read `opts['NAME']`: in the config's own
template `opts` has them still, but no input is an option of salt's any more.

What salt keeps goes with the run, but for static grains, which are those of the machine's minion, and the backups that
`backup: minion` makes, in `WORKING/file_backup`.
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
from heat_config_hooks.options import Kind, Option
from heat_config_hooks.reply import UNKNOWN, Capture, Reply, failure, nothing_done

PROGRAM = programs.Program(
    names=("salt-call",),
    folders=("/opt/saltstack/salt",),
    install="install the package salt-minion of the Salt project, or «pip install salt»",
)

ABOUT = protocol.About(
    config="a salt state file: text for any of salt's renderers, or a map of states",
    options={
        "test": Option(Kind.FLAG, "only say what would be changed", False),
        "minion": Option(Kind.MAP, "minion options for this deployment, beside the machine's own"),
    },
    program=PROGRAM,
    variables=("HEAT_SALT_WORKING", "HEAT_SALT_OUTPUTS", "HEAT_SALT_MINION_CONFIG", "SALT_MINION_CONFIG"),
    tested="real salt-call",
)

INPUTS = "heat_inputs"
"""The pillar in which all inputs are together."""

_FAILED = 1
"""The status code where a state failed and salt-call did not say so."""

_LARGE = 4_000_000
"""Bytes of a return that is not made into YAML, which takes seconds, as a signal has no room for it: its JSON is."""

_VIEW = "{% set opts = dict(opts, **pillar['" + INPUTS + "']) %}"
"""Put before a template: what it calls `opts` has the inputs too. On its first line, so that the lines keep their
numbers."""


def prepare(request: protocol.Request, place: protocol.Workplace) -> protocol.Command | Reply:
    """Write the state file, the pillar and the minion configuration of this run; say how to apply them."""
    states = _states(request.config)
    if not states.strip():
        return nothing_done()
    program = programs.find(PROGRAM, place.environment)
    user = _user()
    main = _minion_config(place.environment)
    machine = _machine_config(main)
    given = _map(request.options["minion"])
    files.make_directory(place.working)
    outputs = protocol.clear_outputs(request, place)
    files.replace(place.working / f"{request.key}.sls", states.encode("utf-8", "replace"))
    inputs = {**protocol.visible_inputs(request), "heat_outputs_path": str(outputs)}
    pillar = place.run / "pillar.json"
    files.replace(pillar, json.dumps({**inputs, INPUTS: inputs}).encode())
    own = place.run / "own.conf"
    _write_config(own, {**given, **_own(place.run, pillar, user)})
    include = [glob.escape(str(each)) for each in (*machine, own)]
    _write_config(place.run / "minion", {"id": _minion_id(main), "include": include})
    _grains(place).symlink_to(main.parent / "grains")  # salt has them beside its configuration
    files.make_directory(place.run / "cache")
    files.make_directory(place.working / "file_backup")
    (place.run / "cache" / "file_backup").symlink_to(place.working / "file_backup")
    test = request.options["test"] or any(each.get("test") is True for each in (given, *machine.values()))
    return protocol.Command(
        argv=(
            *program,
            *("--local", f"--config-dir={place.run}", f"--file-root={glob.escape(str(place.working))}"),
            *("--log-level=info", "--no-color", "--retcode-passthrough"),
            *("--out=json", f"--out-file={_returned(place)}"),
            *("--no-parse=mods", "state.sls", f"mods={request.key}"),  # unparsed: an id may look like a number
            f"test={bool(test)}",  # always: without it an input of that name would say it
        ),
        cwd=place.working,
        environment={"heat_outputs_path": str(outputs)},
    )


def finish(request: protocol.Request, place: protocol.Workplace, ended: protocol.Ended) -> Reply:
    """Return what salt returned as YAML, why states failed, and outputs.

    Outputs are the files that states wrote to `heat_outputs_path`; as heat-agents has them, `return` (a map of the
    states) and `retcode` too.
    """
    outputs = protocol.collect(request, place, ended)
    path = _returned(place)
    try:
        document = strict_json.loads(files.read(path).decode())
    except (OSError, ValueError):
        document = None
    if not isinstance(document, Mapping) or "local" not in document:
        sentence = "salt-call ended without saying what it did"
        return {**outputs, **failure(ended.code or UNKNOWN, sentence, stderr=Capture(ended.stderr))}
    returned = document["local"]
    problems = [*_problems(returned), *_lost_grains(place, ended)]
    code = (ended.code or _FAILED) if problems else 0  # salt-call's own also tells how commands in templates ended
    empty = "" if returned else "the config has no states for this action: nothing was run\n"
    given = {name: value for name, value in (("return", returned), ("retcode", code)) if name in request.outputs}
    return {
        **given,
        **outputs,
        "deploy_stdout": _yaml(returned) if path.stat().st_size <= _LARGE else Capture(path),
        "deploy_stderr": "".join(f"{each}\n" for each in problems) or empty,
        "deploy_status_code": code,
    }


def _states(config: object) -> str:
    """Return the text of the state file."""
    if not config:
        return ""
    if isinstance(config, str):
        return _with_view(config)
    if isinstance(config, Mapping | list):
        return _with_view(_yaml(config))
    raise HookError("the salt tool takes text or a map of states", "config")


def _with_view(text: str) -> str:
    """Return the state file so that, where it is a Jinja template that speaks of `opts`, the inputs are in there."""
    if not re.search(r"\bopts\b", text) or not re.search(r"\{[{%]", text):
        return text
    first, newline, rest = text.partition("\n")
    if not first.startswith("#!"):
        return _VIEW + text
    return f"{first}{newline}{_VIEW}{rest}" if re.match(r"#!\s*jinja\b", first) else text


def _own(run: Path, pillar: Path, user: str) -> dict[str, object]:
    """Return the minion options that are ours to say: without a master, and all that salt keeps in the run's folder.

    The pillar is read by a command as it is the only source of JSON that salt renders no template in, and that takes
    nothing away from the machine's own pillar.
    """
    return {
        "file_client": "local",
        "use_master_when_local": False,
        "master_type": "disable",
        "saltenv": "base",
        "ext_pillar": [{"cmd_json": shlex.join(("/bin/cat", str(pillar)))}],
        "ext_pillar_first": False,  # an input wins over what the machine's pillar says
        "root_dir": "/",
        "cachedir": str(run / "cache"),
        "pki_dir": str(run / "pki"),
        "sock_dir": str(run / "sock"),
        "log_file": str(run / "log"),
        "log_level_logfile": "quiet",
        "user": user,  # salt-call would become the one of the machine's minion
        "verify_env": False,
    }


def _user() -> str:
    """Return the name of the user that we are. Raises HookError where there is none: salt does not start then."""
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        sentence = f"salt-call needs a name for the user {os.geteuid()} that it runs as: add one to /etc/passwd"
        raise HookError(sentence) from None


def _minion_config(environment: Mapping[str, str]) -> Path:
    named = environment.get("HEAT_SALT_MINION_CONFIG") or environment.get("SALT_MINION_CONFIG")
    return Path(named or "/etc/salt/minion").absolute()


def _machine_config(main: Path) -> dict[Path, Mapping[str, object]]:
    """Return the files of the machine's minion configuration with what each says.

    Raises HookError of one that is no YAML: salt would go on without it.
    """
    import yaml  # noqa: PLC0415  # slow to load, and only this hook's

    found = (main, *sorted((main.parent / "minion.d").glob("*.conf")))
    said: dict[Path, Mapping[str, object]] = {}
    for path in found:
        try:
            if path.is_file():
                said[path] = _map(yaml.safe_load(path.read_bytes()))
        except yaml.YAMLError as error:
            raise HookError(f"the minion configuration {path} is no YAML: {error}") from None
    return said


def _minion_id(main: Path) -> str:
    """Return the minion's id where its configuration does not say it: without one salt asks the DNS for our name."""
    try:
        noted = (main.parent / "minion_id").read_text(encoding="utf-8").strip()
    except (OSError, ValueError):
        noted = ""
    return noted or os.uname().nodename


def _write_config(path: Path, options: Mapping[str, object]) -> None:
    # JSON is YAML, but for characters beyond the first 65,536 that are escaped.
    files.replace(path, json.dumps(options, ensure_ascii=False).encode("utf-8", "replace"))


def _grains(place: protocol.Workplace) -> Path:
    return place.run / "grains"


def _lost_grains(place: protocol.Workplace, ended: protocol.Ended) -> list[str]:
    """Return that grains were not kept where they were not: salt says so in its log alone, and its state is true."""
    complaint = f"Unable to write to grains file at {_grains(place)}.".encode()
    with ended.stderr.open("rb") as log:
        lost = any(complaint in line for line in log)
    return [f"grains were not kept: {_grains(place).readlink()} cannot be written"] if lost else []


def _returned(place: protocol.Workplace) -> Path:
    return place.run / "returned.json"


def _problems(returned: object) -> list[str]:
    """Return what went wrong, in words: nothing where each state is as it should be.

    Salt returns a map of states; or, where it came to none of them, a list of errors or one. A state's result is true,
    false, or null where it was only to say what it would change. The reason that people are shown is the last line, so
    states that did not run because others failed come first.
    """
    if not isinstance(returned, Mapping):
        errors = returned if isinstance(returned, list) else [returned]
        return [protocol.as_text(each).strip() for each in errors] or ["salt-call returned nothing"]
    states = {tag: each if isinstance(each, Mapping) else {"comment": each} for tag, each in returned.items()}
    failed = [tag for tag, state in states.items() if state.get("result", False) not in (True, None)]
    return [_problem(tag, states[tag]) for tag in sorted(failed, key=lambda tag: _place(states[tag]))]


def _place(state: Mapping[str, object]) -> tuple[bool, int]:
    number = state.get("__run_num__")
    return state.get("__state_ran__") is not False, number if isinstance(number, int) else 0


def _problem(tag: str, state: Mapping[str, object]) -> str:
    words = tag.split("_|-")
    what = f"{words[0]}.{words[-1]} {state.get('__id__', words[min(1, len(words) - 1)])}"
    said = [protocol.as_text(state.get("comment")).strip(), protocol.as_text(_map(state.get("changes")).get("stderr"))]
    return f"{what}: " + "\n".join(each.strip() for each in said if each.strip())


def _map(value: object) -> Mapping[str, object]:
    return value if isinstance(value, Mapping) else {}


def _yaml(value: object) -> str:
    """Return a value as YAML. Text with a template in it stands in a block, where no quoting changes it."""
    import yaml  # noqa: PLC0415  # slow to load, and only this hook's

    class Dumper(yaml.SafeDumper):
        """Writes text of several lines, and templates, as they are."""

    def text(dumper: yaml.SafeDumper, value: str) -> yaml.ScalarNode:
        style = "|" if re.search(r"\n|\{[{%#]", value) else None
        return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=style)

    Dumper.add_representer(str, text)
    return yaml.dump(value, Dumper=Dumper, allow_unicode=True, sort_keys=False)
