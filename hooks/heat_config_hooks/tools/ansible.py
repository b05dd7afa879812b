"""The `ansible` hook: runs a playbook with ansible-playbook.

The config is a playbook, and the inputs are its variables.
Their texts are marked as unsafe, so ansible takes none of them for a template, and inputs that are settings of ansible
(`ansible_…`) are left out. In heat-agents' hook, texts are templates; the option `trusted_inputs` does the same.
The output NAME is what the playbook wrote to the file `{{ heat_outputs_path }}.NAME`.

As in heat-agents' hook of the same name, the playbook goes to `WORKING/ID_playbook.yaml` and runs in `WORKING`, with

    ansible-playbook -i INVENTORY [--module-path M] [--skip-tags S] [--tags T] PLAYBOOK --extra-vars @VARIABLES

The usual inventory is this machine, `localhost`, which ansible configures without ssh unless the play says otherwise.
`ID_variables.json` has the inputs with their types, `heat_config_id` and `heat_outputs_path`.
It is in the folder of the run and is removed with it, because it contains the secrets.

ansible-runner starts ansible-playbook and reports the outcome of each task.
The output of ansible is passed on as it comes.
After it, standard output has a recap, task by task, and standard error ends with the reasons of failures.
With a stdout callback that ansible-runner does not support, ansible runs without the runner and there is no recap.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import BinaryIO, NoReturn, TextIO, cast

from heat_config_hooks import files, processes, programs, protocol, steps
from heat_config_hooks.errors import HookError, MissingTool
from heat_config_hooks.needs import ANSIBLE, ANSIBLE_RUNNER, NEEDS, check
from heat_config_hooks.options import ISOLATE, TRUSTED, USER, Kind, Option
from heat_config_hooks.reply import CANNOT_START, UNKNOWN, Reply, nothing_done
from heat_config_hooks.tools import ansible_settings, ansible_values
from heat_config_hooks.tools.ansible_recap import Activity, LastError, Recap

TYPE_CHECKING = False  # as `typing` has it, which takes long to load

if TYPE_CHECKING:
    from heat_config_hooks.verdict import Verdict  # few runs verify

ABOUT = protocol.About(
    config="a playbook, as text or as a list of plays",
    options={
        **USER,
        **ISOLATE,
        "tags": Option(Kind.TEXTS, "run only tasks with one of these tags"),
        "skip_tags": Option(Kind.TEXTS, "skip tasks with one of these tags"),
        "modulepath": Option(Kind.TEXTS, "folders with modules"),
        "inventory": Option(
            Kind.TEXT,
            "an inventory: its name in the working folder, or an absolute path",
        ),
        "callback_plugins": Option(Kind.TEXTS, "folders with callback plugins"),
        "collections_path": Option(Kind.TEXTS, "folders with collections"),
        "roles_path": Option(
            Kind.TEXTS, "folders with roles, in addition to the playbook's own"
        ),
        "allow_nothing": Option(
            Kind.FLAG,
            "succeed even if no host matches, or no task has one of the tags",
            default=False,
        ),
        **TRUSTED,
    },
    needs=NEEDS["ansible"],
    variables=(
        "HEAT_ANSIBLE_WORKING",
        "HEAT_ANSIBLE_OUTPUTS",
        "HEAT_ANSIBLE_CMD",
        "HEAT_ANSIBLE_INVENTORY",
    ),
    files=("{key}", "{key}.*", "{key}_playbook.yaml", "{key}_variables.json"),
    tested="real ansible-playbook",
)

_INVENTORY = "options.inventory"

_LOCAL = "localhost,"

_HOSTS = "this machine.ini"
"""The file in the folder of the run with the inventory."""

_THIS_MACHINE = b"localhost ansible_connection=local\n"
"""An inventory with this machine. With `-i localhost,`, which heat-agents uses, ansible would log in by ssh."""

_MARK = "AWX_ISOLATED_DATA_DIR"
"""The variable in which the runner names its folder; ansible and all processes that it starts inherit it."""

_EVENT = re.compile(rb"\x1b\[K(?:[A-Za-z0-9+/=]+\x1b\[\d+D)+\x1b\[K")
"""The marks that the runner's callback writes around the text of an event."""

_SUPPORTED = (*ansible_settings.USUAL, "minimal", "ansible.builtin.minimal")
"""Stdout callbacks with which the runner's own callback, a subclass of the chosen one, is known to work."""

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

_BROKEN = 254
"""The exit code of the runner when it could not start the program; ansible-playbook itself never uses it."""

GRACE = 4.0
"""Seconds between TERM and KILL: less than the hook itself gets."""

LINGER = 5.0
"""Seconds to wait for the end of ansible's output once ansible has ended: a process that it left may keep it open."""


def prepare(
    request: protocol.Request, place: protocol.Workplace
) -> protocol.Command | Reply:
    """Write the playbook and its variables, and return the command."""
    playbook = text(request.config)
    if not playbook.strip():
        return nothing_done()
    command_line(request, place)  # report mistakes before anything is written
    check(NEEDS["ansible"], place.environment)
    files.make_directory(place.working)
    outputs = protocol.clear_outputs(request, place)
    files.replace(
        place.working / f"{request.key}_playbook.yaml",
        playbook.encode("utf-8", "replace"),
    )
    return steps.command(
        __name__, request, place, write_inputs(request, place, outputs)
    )


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


finish = protocol.collect


def verify(
    request: protocol.Request, place: protocol.Workplace
) -> protocol.Command | Verdict:
    """Return the command that runs the playbook in check mode."""
    from heat_config_hooks.tools import ansible_check  # noqa: PLC0415  # few runs verify

    return ansible_check.verify(request, place)


def verdict(
    request: protocol.Request, place: protocol.Workplace, ended: protocol.Ended
) -> Verdict:
    """Return the verdict from the tasks that would change something."""
    from heat_config_hooks.tools import ansible_check  # noqa: PLC0415  # few runs verify

    return ansible_check.verdict_of(request, place, ended)


def carry_out(request: protocol.Request, place: protocol.Workplace) -> int:
    """Run the playbook, and return the exit code of ansible-playbook."""
    argv, activity = command_line(request, place), Activity()
    if sentence := unmarkable(request, argv[0]):
        steps.say(sentence, error=True)
        return UNKNOWN
    environment = settings_of(request, place)
    if environment.get("ANSIBLE_STDOUT_CALLBACK") in _SUPPORTED:
        code = _run_with_runner(argv, environment, place, activity)
    else:
        code = run_without_runner(argv, environment, place, activity)
    return with_activity(request, code, activity)


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
    environment[_MARK] = str(place.run)
    signal.signal(signal.SIGTERM, lambda number, _: _end(number, environment[_MARK]))
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


def _run_with_runner(
    argv: Sequence[str],
    environment: dict[str, str],
    place: protocol.Workplace,
    activity: Activity,
) -> int:
    """Run ansible-playbook by ansible-runner, print the recap, and return the exit code. Raises MissingTool."""
    try:
        from ansible_runner import Runner  # type: ignore[import-untyped]  # noqa: PLC0415  # 60 ms
        from ansible_runner.config.command import CommandConfig  # type: ignore[import-untyped]  # noqa: PLC0415
        from ansible_runner.utils import OutputEventFilter  # type: ignore[import-untyped]  # noqa: PLC0415
    except ImportError as error:
        raise MissingTool(
            f"ansible-runner cannot be loaded ({error}); {ANSIBLE_RUNNER.install}"
        ) from error
    program, *arguments = argv
    config = CommandConfig(
        private_data_dir=str(place.run / "runner"),
        host_cwd=str(place.working),
        # The other mode uses a terminal: a prompt would wait there for ever, and both streams would be one.
        runner_mode="subprocess",
        quiet=True,
        fact_cache_type="",  # left to the playbook
        envvars=environment,
    )
    config.prepare_run_command(program, cmdline_args=arguments)
    if "ANSIBLE_HOST_KEY_CHECKING" not in place.environment:
        # the runner would turn it off
        config.env.pop("ANSIBLE_HOST_KEY_CHECKING", None)
    recap, last_error = Recap(activity), LastError()
    runner = Runner(config, event_handler=recap.take)
    events = OutputEventFilter(
        None, runner.event_callback, suppress_ansible_output=True
    )
    signal.signal(signal.SIGTERM, lambda number, _: _end(number, config.env[_MARK]))
    try:
        with (
            open(os.devnull, "rb") as config.input_fd,
            _forwarded(sys.stdout, events.write) as config.output_fd,
            _forwarded(sys.stderr, last_error.take) as config.error_fd,
        ):
            runner.run()
    finally:
        if environment.get("ANSIBLE_STDOUT_CALLBACK") in ansible_settings.USUAL:
            # programs may read other formats
            recap.say()
        for line in recap.failures or last_error.lines:
            # people look for the reason at the end of standard error
            steps.say(line, error=True)
    if runner.rc == _BROKEN:
        with runner.stderr as stderr:
            steps.say(
                f"cannot run {program}: {stderr.read().strip().rpartition(chr(10))[2]}",
                error=True,
            )
        return CANNOT_START
    return int(runner.rc) if runner.rc >= 0 else 128 - int(runner.rc)


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


@contextlib.contextmanager
def _forwarded(stream: TextIO, take: Callable[[str], object]) -> Iterator[BinaryIO]:
    """Yield a pipe whose lines are printed as they come; `take` gets each line with the marks of events."""
    import threading  # noqa: PLC0415

    source, sink = os.pipe()

    def forward() -> None:
        with os.fdopen(source, "rb") as lines:
            for line in lines:
                stream.buffer.write(_EVENT.sub(b"", line))
                stream.flush()
                take(line.decode("utf-8", "replace"))

    thread = threading.Thread(target=forward, daemon=True)
    thread.start()
    try:
        with os.fdopen(sink, "wb") as file:
            yield file
    finally:
        thread.join(LINGER)


def _end(number: int, mark: str) -> NoReturn:
    """End ansible with all processes that it has started, and then this process.

    The runner itself ends one process group only, and the workers of ansible-core since 2.19 are in others.
    """
    signal.signal(number, signal.SIG_IGN)
    mark = f"{_MARK}={mark}"
    processes.send(processes.tree(0, 0, mark), signal.SIGTERM)
    deadline = time.monotonic() + GRACE
    while (living := processes.tree(0, 0, mark)) and time.monotonic() < deadline:
        time.sleep(0.05)
    processes.send(living, signal.SIGKILL)
    sys.exit(128 + number)
