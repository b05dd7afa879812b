"""The `hiera` hook.

The config has the `hierarchy` of Hiera and its `datafiles`: a map from the name of each to its data.

As heat-agents' hook of that name: `$HEAT_HIERA_CONFIG` is written in the form of Hiera 3, which Puppet still reads and
calls deprecated, and `$HEAT_PUPPET_HIERA_DATADIR/NAME.json` for each datafile; where os-apply-config has data for Hiera
the deployment fails. Beside that `version: 5` writes the form of Hiera 5, and DELETE removes what nobody has changed.
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
from heat_config_hooks.tools.json_file import as_json, half_a_character
from heat_config_hooks.written import FAILED, Written, owner

ABOUT = protocol.About(
    config="an object, or its YAML text: `hierarchy`, a list, and `datafiles`, the name of each and its data",
    options={"version": Option(Kind.CHOICE, "the form of hiera.yaml: of Hiera 3 or of Hiera 5", "3", ("3", "5"))},
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
"""What prints `empty` where os-apply-config writes no data for Hiera. Without it there is none."""


def prepare(request: protocol.Request, place: protocol.Workplace) -> protocol.Command | Reply:
    """Write the files, or remove them, and say what was done; where os-apply-config is to be asked first, in a step."""
    if request.action == "DELETE":
        return Written(place.working).remove_all(_named(request, place), owner=owner(request))
    if not _contents(request, place):
        return nothing_done("the config has neither hierarchy nor datafiles: nothing was written")
    return steps.command(__name__, request, place) if _legacy(place) else _write(request, place)


def carry_out(request: protocol.Request, place: protocol.Workplace) -> int:
    """Write the files where os-apply-config has no data for Hiera."""
    command = _legacy(place)
    code, said = steps.ask(command)
    if code:
        steps.say(f"cannot tell whether os-apply-config has data for Hiera: «{shlex.join(command)}» failed", error=True)
        return FAILED
    if said.strip() != "empty":
        steps.say(said.rstrip())
        problem = "os-apply-config has data for Hiera (hiera.datafiles), which would be in the way; nothing was written"
        steps.say(f"{problem}: move it to deployments with the tool hiera", error=True)
        return FAILED
    reply = _write(request, place)
    for name, error in (("deploy_stdout", False), ("deploy_stderr", True)):
        if reply[name]:
            steps.say(str(reply[name]).rstrip(), error=error)
    return int(str(reply[STATUS]))


finish = protocol.collect


def _write(request: protocol.Request, place: protocol.Workplace) -> Reply:
    reply = Written(place.working).write_all(_contents(request, place), owner=owner(request))
    unused = [str(each) for each in _given(request.config) if each not in ("hierarchy", "datafiles")]
    if unused:
        reply["deploy_stderr"] = f"{reply['deploy_stderr']}not used of the config: {', '.join(sorted(unused))}\n"
    return reply


def _legacy(place: protocol.Workplace) -> tuple[str, ...]:
    """Return the command that asks for data that os-apply-config has; nothing where it is not here."""
    try:
        return programs.find(LEGACY, place.environment)
    except MissingTool:
        return ()


def _contents(request: protocol.Request, place: protocol.Workplace) -> dict[Path, bytes]:
    """Return the files of a config: those with data first, then the one that names them. Raises HookError."""
    given, datadir = _given(request.config), _datadir(place)
    hierarchy, datafiles = given.get("hierarchy"), given.get("datafiles") or {}
    if not isinstance(datafiles, Mapping):
        raise HookError("expected an object: the name of each datafile, and its data", "config.datafiles")
    contents = {datadir / _file_name(str(name)): as_json(data, _at(name)) for name, data in datafiles.items()}
    if hierarchy is not None:
        if not isinstance(hierarchy, list) or not all(isinstance(each, str) for each in hierarchy):
            raise HookError("expected a list of texts", "config.hierarchy")
        if any(map(half_a_character, hierarchy)):
            raise HookError("there is half of a character in it", "config.hierarchy")
        form = _hiera_5 if request.options["version"] == "5" else _hiera_3
        contents[_hiera_yaml(place)] = form(datadir, hierarchy).encode()
    return contents


def _named(request: protocol.Request, place: protocol.Workplace) -> Iterable[Path]:
    """Return the files that a config names; one with mistakes, which nobody can have written, names none."""
    try:
        return _contents(request, place)
    except HookError:
        return ()


def _given(config: object) -> Mapping[str, object]:
    if isinstance(config, str):
        try:
            config = strict_yaml.loads(config)
        except ValueError as error:
            raise HookError(f"it is no YAML: {error}", "config") from None
    if not isinstance(config, Mapping) and config:
        raise HookError("expected an object with hierarchy and datafiles, or the YAML text of one", "config")
    return config if isinstance(config, Mapping) else {}


def _file_name(name: str) -> str:
    """Return the file of a datafile, which may be in a folder: `nodes/web` is what `nodes/%{hostname}` looks for."""
    if "\0" in name or not {"", ".", ".."}.isdisjoint(name.split("/")):
        raise HookError("the name of a datafile may not lead elsewhere, e.g. compute or nodes/web", _at(name))
    if half_a_character(name):
        raise HookError("there is half of a character in it, which the name of a file cannot have", _at(name))
    return f"{name}.json"


def _at(name: object) -> str:
    """Return where the data of a datafile is in the deployment."""
    return f"config.datafiles[{json.dumps(name)}]"


def _hiera_yaml(place: protocol.Workplace) -> Path:
    return Path(place.environment.get("HEAT_HIERA_CONFIG") or "/etc/puppet/hiera.yaml").absolute()


def _datadir(place: protocol.Workplace) -> Path:
    return Path(place.environment.get("HEAT_PUPPET_HIERA_DATADIR") or "/etc/puppet/hieradata").absolute()


def _hiera_3(datadir: Path, hierarchy: Iterable[str]) -> str:
    """Return hiera.yaml as heat-agents writes it, byte for byte, but for an item that YAML would not take for text."""
    items = "".join(f"  - {item if _text_in_yaml(item) else _quoted(item)}\n" for item in hierarchy)
    place = str(datadir) if _text_in_yaml(str(datadir)) else _quoted(str(datadir))
    return f"\n---\n:backends:\n  - json\n:json:\n  :datadir: {place}\n:hierarchy:\n{items}"


def _hiera_5(datadir: Path, hierarchy: Iterable[str]) -> str:
    """Return hiera.yaml with one level for each item."""
    levels = "".join(
        f"  - name: {_quoted(each)}\n    path: {_quoted(each + '.json')}\n" for each in map(_plain, hierarchy)
    )
    head = f"---\nversion: 5\ndefaults:\n  datadir: {_quoted(str(datadir))}\n  data_hash: json_data\n"
    return f"{head}hierarchy:\n{levels}" if levels else f"{head}hierarchy: []\n"


def _text_in_yaml(item: str) -> bool:
    return bool(item) and (_plain(item) != item or _loaded(item) == item)


def _plain(item: str) -> str:
    """Return an item without the quotes that it had to have for heat-agents, as `"%{hostname}"`."""
    found = _loaded(item) if item[:1] in ("'", '"') else item
    return found if isinstance(found, str) else item


def _loaded(item: str) -> object:
    """Return what puppet's YAML takes an item for: it knows dates, too."""
    import yaml  # noqa: PLC0415  # 15 ms, and only this hook's

    try:
        found = strict_yaml.loads(item)
        return yaml.safe_load(item) if isinstance(found, str) else found
    except (ValueError, yaml.YAMLError):
        return None


def _quoted(text: str) -> str:
    """Return text as both YAML and JSON have it."""
    return json.dumps(text, ensure_ascii=False)
