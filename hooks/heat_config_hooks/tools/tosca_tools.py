"""The processors of the `tosca` hook that are tools with hooks of their own: each gets the laid-out file as its config.

The tool works in the folder of the file, so the files next to it are found from there.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path

import heat_config_hooks
from heat_config_hooks import files, options, protocol, script_outputs
from heat_config_hooks.errors import HookError
from heat_config_hooks.reply import Reply
from heat_config_hooks.tools.tosca_config import Container
from heat_config_hooks.values import dataclass, replace

TYPE_CHECKING = False  # as `typing` has it, which takes long to load

if TYPE_CHECKING:
    from heat_config_hooks.verdict import Verdict  # few runs verify

_FACTS = """\
import json
import os

from ansible.plugins.callback import CallbackBase

NAMES, PATH = {names!r}, {path!r}


class CallbackModule(CallbackBase):
    CALLBACK_VERSION, CALLBACK_TYPE, CALLBACK_NAME = 2.0, "aggregate", "heat_config_facts"

    def __init__(self, *arguments, **options):
        super().__init__(*arguments, **options)
        self.facts = {{}}

    def v2_runner_on_ok(self, result):
        values = getattr(result, "result", None) or result._result
        for one in values.get("results") or [values]:
            facts = one.get("ansible_facts") if isinstance(one, dict) else None
            self.facts.update((name, facts[name]) for name in NAMES if name in (facts or {{}}))

    def v2_playbook_on_stats(self, stats):
        for values in (getattr(stats, "custom", None) or {{}}).values():  # of each host, and of the run
            self.facts.update((name, values[name]) for name in NAMES if name in values)
        with open(os.open(PATH, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
            json.dump(self.facts, file, default=str)
"""
"""A callback plugin of Ansible that prints nothing and writes the facts and statistics that a playbook has set."""

_THIS_MACHINE = b"""\
localhost ansible_connection=local ansible_python_interpreter="{{ ansible_playbook_python }}"
"""
"""An inventory of Ansible that has this machine with the settings it has where no inventory names it."""

_COOKBOOK = "heat_config_tosca"
"""The cookbook that is made for a recipe that stands alone."""


@dataclass(frozen=True, kw_only=True)
class Tool:
    """A step that a tool's own hook processes."""

    name: str
    hook: protocol.Hook
    request: protocol.Request
    place: protocol.Workplace

    def prepare(self) -> protocol.Command | Reply:
        """Return the command of the tool. Raises HookError."""
        return self.hook.prepare(self.request, self.place)

    def finish(self, ended: protocol.Ended) -> Reply:
        """Return the reply of the tool."""
        return self.hook.finish(self.request, self.place, ended)

    def verify(self) -> protocol.Command | Verdict:
        """Return the command with which the tool verifies, or the verdict. Raises HookError."""
        if protocol.can_verify(self.hook):
            return self.hook.verify(self.request, self.place)
        from heat_config_hooks import verdict  # noqa: PLC0415  # few runs verify

        return verdict.unknown(
            f"its node has no operation `verify`, and the tool {self.name} cannot verify"
        )

    def verdict(self, ended: protocol.Ended) -> Verdict:
        """Return the verdict of the tool. Raises HookError."""
        if protocol.can_verify(self.hook):
            return self.hook.verdict(self.request, self.place, ended)
        raise HookError("the tool cannot verify")


def tool(
    processor: str,
    request: protocol.Request,
    place: protocol.Workplace,
    file: Path | None,
    container: Container | None,
) -> Tool:
    """Return the tool for a step, before anything is written. Raises HookError."""
    name = _HOOKS.get(processor, processor)
    hook = heat_config_hooks.load(name)
    common = {
        name: value for name, value in request.options.items() if name in options.COMMON
    }
    request = replace(
        request, options={**options.read({}, hook.ABOUT.options), **common}
    )
    if container is not None:
        return Tool(
            name=name,
            hook=hook,
            request=replace(request, config=_container(request, container)),
            place=place,
        )
    if file is None:
        raise HookError(
            f"expected the path of the file for {processor}", "config.primary"
        )
    place = replace(place, working=file.parent)
    return Tool(
        name=name,
        hook=hook,
        request=_REQUESTS[processor](request, place, file),
        place=place,
    )


def write(processor: str, tool: Tool, file: Path | None) -> None:
    """Write what the tool needs next to its file. Raises OSError."""
    if processor == "ansible":
        names, path = (
            script_outputs.names(tool.request.outputs),
            str(_facts(tool.place)),
        )
        folder = _plugins(tool.place)
        files.make_directory(folder)
        files.replace(
            folder / "heat_config_facts.py",
            _FACTS.format(names=names, path=path).encode(),
        )
        files.replace(_inventory(tool.place), _THIS_MACHINE)
    elif processor == "chef" and file is not None and _is_recipe(file):
        book = file.parent / "cookbooks" / _COOKBOOK
        files.make_directory(book / "recipes")
        files.replace(
            book / "metadata.rb", f"name '{_COOKBOOK}'\nversion '1.0.0'\n".encode()
        )
        files.replace(book / "recipes" / "default.rb", files.read(file))


def facts(place: protocol.Workplace) -> Mapping[str, object]:
    """Return the facts that a playbook has set, of those that are wanted."""
    path = _facts(place)
    values = json.loads(files.read(path, files.LARGEST)) if path.exists() else {}
    return protocol.as_map(values)


def _facts(place: protocol.Workplace) -> Path:
    return place.run / "facts of the playbook.json"


def _plugins(place: protocol.Workplace) -> Path:
    return place.run / "callback plugins"


def _inventory(place: protocol.Workplace) -> Path:
    """Return the path for the inventory with this machine."""
    return place.run / "this machine.ini"


def _text(file: Path) -> str:
    return files.read(file, files.LARGEST).decode("utf-8", "replace")


def _playbook(
    request: protocol.Request, place: protocol.Workplace, file: Path
) -> protocol.Request:
    own: dict[str, object] = {}
    if script_outputs.names(request.outputs):
        own["callback_plugins"] = [str(_plugins(place))]
    if not place.environment.get("HEAT_ANSIBLE_INVENTORY"):
        own["inventory"] = str(_inventory(place))
    return replace(request, config=_text(file), options={**request.options, **own})


def _manifest(
    request: protocol.Request, place: protocol.Workplace, file: Path
) -> protocol.Request:
    modules = place.working / "modules"
    own = {"modulepath": [str(modules), "$basemodulepath"]} if modules.is_dir() else {}
    return replace(request, config=_text(file), options={**request.options, **own})


def _states(
    request: protocol.Request, _place: protocol.Workplace, file: Path
) -> protocol.Request:
    return replace(request, config=_text(file))


def _run_list(
    request: protocol.Request, place: protocol.Workplace, file: Path
) -> protocol.Request:
    config = f'["recipe[{_COOKBOOK}]"]' if _is_recipe(file) else _text(file)
    return replace(
        request,
        config=config,
        options={**request.options, "kitchen_path": str(place.working)},
    )


def _is_recipe(file: Path) -> bool:
    return file.suffix == ".rb"


def _container(request: protocol.Request, container: Container) -> Mapping[str, object]:
    """Return the config of docker-cmd: the inputs of the operation are variables of the container."""
    variables = {
        name: protocol.as_text(value)
        for name, value in protocol.visible_inputs(request).items()
        if not name.startswith("deploy_")
        and name
        and "=" not in name
        and not any(map(str.isspace, name))
    }
    settings = {
        "image": container.image,
        "publish": list(container.ports),
        "volumes": list(container.volumes),
        "environment": variables,
    }
    if container.command:
        settings["command"] = list(container.command)
    return {container.name: settings}


_HOOKS = {"container": "docker-cmd"}
"""Processor → tool, where they have different names."""

_REQUESTS: Mapping[
    str, Callable[[protocol.Request, protocol.Workplace, Path], protocol.Request]
] = {
    "ansible": _playbook,
    "puppet": _manifest,
    "salt": _states,
    "chef": _run_list,
}
