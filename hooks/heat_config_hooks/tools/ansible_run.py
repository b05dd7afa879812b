"""Runs ansible-playbook: its command line, its variables and its inventory, for runs and for verifications."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NoReturn, cast

from heat_config_hooks import files, processes, programs, protocol, steps
from heat_config_hooks.errors import HookError
from heat_config_hooks.needs import ANSIBLE
from heat_config_hooks.reply import UNKNOWN
from heat_config_hooks.tools import ansible_settings, ansible_values
from heat_config_hooks.tools.ansible_recap import Activity

_INVENTORY = "options.inventory"


_LOCAL = "localhost,"


_HOSTS = "this machine.ini"
"""The file in the folder of the run with the inventory."""


_THIS_MACHINE = b"localhost ansible_connection=local\n"
"""An inventory with this machine. With `-i localhost,`, which heat-agents uses, ansible would log in by ssh."""


MARK = "AWX_ISOLATED_DATA_DIR"
"""The variable in which the runner names its folder; ansible and all processes that it starts inherit it."""


_WITNESS = """
import json
import os

from ansible.plugins.callback import CallbackBase


class CallbackModule(CallbackBase):
    CALLBACK_VERSION, CALLBACK_TYPE, CALLBACK_NAME = 2.0, "aggregate", "heat_config_witness"

    def __init__(self, *arguments, **options):
        super().__init__(*arguments, **options)
        self.events = []

    def v2_playbook_on_play_start(self, play):
        hosts = play.hosts if isinstance(play.hosts, str) else ",".join(str(host) for host in play.hosts)
        self.events.append(("playbook_on_play_start", {"pattern": hosts}))

    def v2_playbook_on_no_hosts_matched(self):
        self.events.append(("playbook_on_no_hosts_matched", {}))

    def v2_playbook_on_task_start(self, task, is_conditional):
        if not any(name == "playbook_on_task_start" and data["name"] == task.name for name, data in self.events[-1:]):
            self.events.append(("playbook_on_task_start", {"name": task.name, "task_action": task.action}))

    def v2_playbook_on_handler_task_start(self, task):
        self.v2_playbook_on_task_start(task, False)

    def v2_playbook_on_stats(self, stats):
        with open(os.environ["HEAT_CONFIG_WITNESS"], "w") as file:
            json.dump(self.events, file)
"""
"""A callback plugin that prints nothing and records which plays and tasks ran, for runs without the runner."""


GRACE = 4.0
"""Seconds between TERM and KILL: less than the hook itself gets."""


def write_inputs(
    request: protocol.Request, place: protocol.Workplace, outputs: Path
) -> list[str]:
    """Write the variables of the playbook, and the inventory with this machine, to the folder of the run.

    Return a note for each input that is left out.
    """
    if not request.options["inventory"]:
        files.replace(place.run / _HOSTS, _THIS_MACHINE)
    inputs = protocol.visible_inputs(request)
    trusted = request.options.get("trusted_inputs") is True
    settings = [] if trusted else ansible_values.settings(inputs)
    variables = {
        "heat_config_id": request.id,
        **{name: value for name, value in inputs.items() if name not in settings},
        "heat_outputs_path": str(outputs),
    }
    content = (
        json.dumps(variables).encode() if trusted else ansible_values.as_yaml(variables)
    )
    files.replace(place.run / f"{request.key}_variables.json", content)
    return [
        f"the input {name} is not a variable of the playbook, because it is a setting of ansible; "
        "the option trusted_inputs allows it"
        for name in settings
    ]


def settings_of(request: protocol.Request, place: protocol.Workplace) -> dict[str, str]:
    """Return the variables for ansible. Raises HookError."""
    # there is the inventory of this hook, or that of the `tosca` hook
    local = Path(_inventory(request, place)).parent == place.run
    return ansible_settings.environment(request, place, local=local)


def with_activity(request: protocol.Request, code: int, activity: Activity) -> int:
    """Return the exit code of a run; it is a failure, and says so, if no task was run and that was not intended."""
    succeeds = code or request.options["allow_nothing"]
    absence = (
        "" if succeeds else activity.absence(cast("list[str]", request.options["tags"]))
    )
    if absence:
        steps.say(
            f"{absence}; if that is intended, set the option allow_nothing", error=True
        )
        return UNKNOWN
    return code


def unmarkable(request: protocol.Request, program: str) -> str:
    """Return why an old version of ansible cannot be given the inputs as they are; empty if it can."""
    inputs = protocol.visible_inputs(request)
    exposed = [name for name, value in inputs.items() if ansible_values.exposed(value)]
    if not exposed or request.options.get("trusted_inputs"):
        return ""
    _, text = steps.ask([program, "--version"])
    if ansible_values.version(text) >= ansible_values.MARKED:
        return ""
    taken = "which ansible-core before 2.19 may take for a template"
    return f"the input {exposed[0]} has a key with «{{», {taken}: upgrade it, or set the option trusted_inputs"


def run_without_runner(
    argv: Sequence[str],
    environment: dict[str, str],
    place: protocol.Workplace,
    activity: Activity,
    *,
    cwd: Path | None = None,
    plugins: Mapping[str, str] = {},
    quiet: bool = False,
) -> int:
    """Run ansible-playbook, learn from the witness which tasks ran, and return the exit code.

    `plugins` are further callback plugins, by their names. With `quiet`, standard output of ansible is not shown.
    """
    environment[MARK] = str(place.run)
    signal.signal(signal.SIGTERM, lambda number, _: end(number, environment[MARK]))
    folder, events = place.run / "callbacks", place.run / "witness.json"
    files.make_directory(folder)
    for name, plugin in {"heat_config_witness": _WITNESS, **plugins}.items():
        files.replace(folder / f"{name}.py", plugin.encode())
    environment["ANSIBLE_CALLBACK_PLUGINS"] += f":{folder}"
    environment["HEAT_CONFIG_WITNESS"] = str(events)
    code = steps.run(
        argv,
        cwd=cwd or place.working,
        environment={**os.environ, **environment},
        quiet=quiet,
    )
    with contextlib.suppress(OSError, ValueError):
        # ansible ended early, or does not load such plugins
        for name, data in json.loads(events.read_bytes()):
            activity.take(name, data)
    return code


def text(config: object) -> str:
    """Return the text of a playbook; empty for an empty config. Raises HookError."""
    if config in (None, [], {}):
        return ""
    if isinstance(config, str):
        return config
    if not isinstance(config, list):
        raise HookError("expected a playbook: text, or a list of plays", "config")
    return json.dumps(config, indent=2, ensure_ascii=False) + "\n"  # JSON is YAML


def command_line(
    request: protocol.Request, place: protocol.Workplace, folder: Path | None = None
) -> list[str]:
    """Return the command line, with the playbook in the working folder or another one. Raises HookError."""
    argv = [
        *programs.find(ANSIBLE, place.environment),
        "-i",
        _inventory(request, place),
    ]
    for argument, option, separator in (
        ("--module-path", "modulepath", ":"),
        ("--skip-tags", "skip_tags", ","),
        ("--tags", "tags", ","),
    ):
        value = separator.join(cast("list[str]", request.options[option]))
        if value:
            argv += [argument, value]
    playbook, variables = (
        (folder or place.working) / f"{request.key}_playbook.yaml",
        place.run / f"{request.key}_variables.json",
    )
    return [*argv, str(playbook), "--extra-vars", f"@{variables}"]


def _inventory(request: protocol.Request, place: protocol.Workplace) -> str:
    """Return the inventory for the command line. Raises HookError."""
    name = cast("str | None", request.options["inventory"])
    if not name:
        named = place.environment.get("HEAT_ANSIBLE_INVENTORY") or _LOCAL
        return str(place.run / _HOSTS) if named == _LOCAL else named
    if not name.startswith("/") and ".." in Path(name).parts:
        raise HookError(
            f"{name!r} leads out of the working folder; name an absolute path instead",
            _INVENTORY,
        )
    path = place.working / name
    if not path.exists():  # ansible would succeed with an empty inventory
        raise HookError(f"there is no inventory {path}", _INVENTORY)
    return str(path)


def end(number: int, mark: str) -> NoReturn:
    """End ansible with all processes that it has started, and then this process.

    The runner itself ends one process group only, and the workers of ansible-core since 2.19 are in others.
    """
    signal.signal(number, signal.SIG_IGN)
    mark = f"{MARK}={mark}"
    processes.send(processes.tree(0, 0, mark), signal.SIGTERM)
    deadline = time.monotonic() + GRACE
    while (living := processes.tree(0, 0, mark)) and time.monotonic() < deadline:
        time.sleep(0.05)
    processes.send(living, signal.SIGKILL)
    sys.exit(128 + number)
