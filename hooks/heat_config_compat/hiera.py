"""The `hiera` hook: writes data for Hiera, which Puppet reads.

The config has the `hierarchy` of Hiera, and `datafiles`: a map from the name of each data file to its data.

As in heat-agents' hook of the same name, `$HEAT_HIERA_CONFIG` is written in the form of Hiera 3,
which Puppet deprecates and still reads, and each data file as `$HEAT_PUPPET_HIERA_DATADIR/NAME.json`.
The deployment fails if os-apply-config also has data for Hiera.
Unlike there, the option `version: 5` writes the form of Hiera 5,
and DELETE removes the files unless someone has changed them.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable, Mapping
from pathlib import Path

from heat_config_hooks import programs, protocol, steps, strict_yaml
from heat_config_hooks.errors import HookError, MissingTool
from heat_config_hooks.options import Kind, Option
from heat_config_hooks.reply import STATUS, Reply, nothing_done
from heat_config_hooks.tools.json_file import as_json, check_name
from heat_config_hooks.written import FAILED, Written, owner

TYPE_CHECKING = False  # as `typing` has it, which takes long to load

if TYPE_CHECKING:
    from heat_config_hooks.verdict import Verdict  # few runs verify

ABOUT = protocol.About(
    config="an object, or its YAML text: `hierarchy`, a list, and `datafiles`, the name of each and its data",
    options={
        "version": Option(
            Kind.CHOICE, "the form of hiera.yaml: Hiera 3 or Hiera 5", "3", ("3", "5")
        )
    },
    writes={
        "HEAT_HIERA_CONFIG": "/etc/puppet/hiera.yaml",
        "HEAT_PUPPET_HIERA_DATADIR": "/etc/puppet/hieradata",
    },
    variables=(
        "HEAT_HIERA_CONFIG",
        "HEAT_PUPPET_HIERA_DATADIR",
        "HEAT_HIERA_ELEMENT_CHECK_CMD",
        "HEAT_HIERA_WORKING",
    ),
    undoes=True,
    tested="real hiera and puppet; a stand-in for os-apply-config",
)

LEGACY = programs.Program(
    names=("os-apply-config --key hiera.datafiles --type raw --key-default empty",),
    variable="HEAT_HIERA_ELEMENT_CHECK_CMD",
    install="",
)
"""A command that prints `empty` if os-apply-config has no data for Hiera. If it is not installed, there is none."""


def prepare(
    request: protocol.Request, place: protocol.Workplace
) -> protocol.Command | Reply:
    """Write or remove the files, and return the reply; or return a command that asks os-apply-config first."""
    if request.action == "DELETE":
        return Written(place.working).remove_all(
            _paths(request, place), owner=owner(request)
        )
    if not _contents(request, place):
        return nothing_done(
            "the config has neither hierarchy nor datafiles: nothing was written"
        )
    return (
        steps.command(__name__, request, place)
        if _legacy(place)
        else _write(request, place)
    )


def carry_out(request: protocol.Request, place: protocol.Workplace) -> int:
    """Write the files unless os-apply-config has data for Hiera, and return an exit code."""
    command = _legacy(place)
    code, output = steps.ask(command)
    if code:
        problem = f"«{shlex.join(command)}» failed, so it is unknown whether os-apply-config has data for Hiera"
        steps.say(problem, error=True)
        return FAILED
    if output.strip() != "empty":
        steps.say(output.rstrip())
        problem = "nothing was written, because os-apply-config has data for Hiera too (hiera.datafiles)"
        steps.say(
            f"{problem}: move that data to deployments with the tool hiera", error=True
        )
        return FAILED
    reply = _write(request, place)
    if reply["deploy_stderr"]:
        steps.say(str(reply["deploy_stderr"]).rstrip(), error=True)
    return int(str(reply[STATUS]))


finish = protocol.collect


def verify(request: protocol.Request, place: protocol.Workplace) -> Verdict:
    """Return whether the files are as they were written."""
    contents = _contents(request, place)
    return Written(place.working).verified(contents, owner=owner(request))


def _write(request: protocol.Request, place: protocol.Workplace) -> Reply:
    reply = Written(place.working).write_all(
        _contents(request, place), owner=owner(request)
    )
    unused = [
        str(key)
        for key in _config(request.config)
        if key not in ("hierarchy", "datafiles")
    ]
    if unused:
        reply["deploy_stderr"] = (
            f"{reply['deploy_stderr']}ignored keys of the config: {', '.join(sorted(unused))}\n"
        )
    return reply


def _legacy(place: protocol.Workplace) -> tuple[str, ...]:
    """Return the command that prints os-apply-config's data for Hiera; empty if it is not installed."""
    try:
        return programs.find(LEGACY, place.environment)
    except MissingTool:
        return ()


def _contents(
    request: protocol.Request, place: protocol.Workplace
) -> dict[Path, bytes]:
    """Return the files of a config: the data files first, then hiera.yaml, which refers to them. Raises HookError."""
    config, datadir = _config(request.config), _datadir(place)
    hierarchy, datafiles = config.get("hierarchy"), config.get("datafiles") or {}
    if not isinstance(datafiles, Mapping):
        raise HookError(
            "expected an object: the name of each data file, and its data",
            "config.datafiles",
        )
    contents = {
        datadir / _file_name(str(name)): as_json(data, _place(name))
        for name, data in datafiles.items()
    }
    if hierarchy is not None:
        if not isinstance(hierarchy, list) or not all(
            isinstance(level, str) for level in hierarchy
        ):
            raise HookError("expected a list of texts", "config.hierarchy")
        for level in hierarchy:
            check_name(level, "config.hierarchy")
        form = _hiera_5 if request.options["version"] == "5" else _hiera_3
        contents[_hiera_yaml(place)] = form(datadir, hierarchy).encode()
    return contents


def _paths(request: protocol.Request, place: protocol.Workplace) -> Iterable[Path]:
    """Return the files of a config; none if it has mistakes, because then none can have been written."""
    try:
        return _contents(request, place)
    except HookError:
        return ()


def _config(config: object) -> Mapping[str, object]:
    if isinstance(config, str):
        try:
            config = strict_yaml.loads(config)
        except ValueError as error:
            raise HookError(f"it is not valid YAML: {error}", "config") from None
    if not isinstance(config, Mapping) and config:
        raise HookError(
            "expected an object with hierarchy and datafiles, or its YAML text",
            "config",
        )
    return config if isinstance(config, Mapping) else {}


def _file_name(name: str) -> str:
    """Return the file of a data file; it may be in a folder: `nodes/%{hostname}` in the hierarchy finds `nodes/web`."""
    if "\0" in name or not {"", ".", ".."}.isdisjoint(name.split("/")):
        problem = "expected a name that stays in the folder of Hiera's data, e.g. compute or nodes/web"
        raise HookError(problem, _place(name))
    check_name(name, _place(name))
    return f"{name}.json"


def _place(name: object) -> str:
    """Return the place of a data file in the deployment."""
    return f"config.datafiles[{json.dumps(name)}]"


def _hiera_yaml(place: protocol.Workplace) -> Path:
    return Path(
        place.environment.get("HEAT_HIERA_CONFIG") or ABOUT.writes["HEAT_HIERA_CONFIG"]
    ).absolute()


def _datadir(place: protocol.Workplace) -> Path:
    return Path(
        place.environment.get("HEAT_PUPPET_HIERA_DATADIR")
        or ABOUT.writes["HEAT_PUPPET_HIERA_DATADIR"]
    ).absolute()


def _hiera_3(datadir: Path, hierarchy: Iterable[str]) -> str:
    """Return hiera.yaml as heat-agents writes it, byte for byte, with quotes where YAML would not read text."""
    items = "".join(
        f"  - {level if _is_text(level) else _quoted(level)}\n" for level in hierarchy
    )
    folder = str(datadir) if _is_text(str(datadir)) else _quoted(str(datadir))
    return f"\n---\n:backends:\n  - json\n:json:\n  :datadir: {folder}\n:hierarchy:\n{items}"


def _hiera_5(datadir: Path, hierarchy: Iterable[str]) -> str:
    """Return hiera.yaml with the levels of the hierarchy."""
    levels = "".join(
        f"  - name: {_quoted(level)}\n    path: {_quoted(level + '.json')}\n"
        for level in map(_unquoted, hierarchy)
    )
    head = f"---\nversion: 5\ndefaults:\n  datadir: {_quoted(str(datadir))}\n  data_hash: json_data\n"
    return f"{head}hierarchy:\n{levels}" if levels else f"{head}hierarchy: []\n"


def _is_text(level: str) -> bool:
    """Return whether YAML reads a level as text without more quotes."""
    return bool(level) and (_unquoted(level) != level or _loaded(level) == level)


def _unquoted(level: str) -> str:
    """Return a level without the quotes that heat-agents needs around some, such as `"%{hostname}"`."""
    value = _loaded(level) if level[:1] in ("'", '"') else level
    return value if isinstance(value, str) else level


def _loaded(level: str) -> object:
    """Return the value that Puppet's YAML reads, which may be a date."""
    import yaml  # noqa: PLC0415  # 15 ms, and only this hook needs it

    try:
        value = strict_yaml.loads(level)
        return yaml.safe_load(level) if isinstance(value, str) else value
    except (ValueError, yaml.YAMLError):
        return None


def _quoted(text: str) -> str:
    """Return text in quotes, in a form that both YAML and JSON read."""
    return json.dumps(text, ensure_ascii=False)
