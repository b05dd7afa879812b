"""The `ansible` hook.

The config is a playbook, the inputs are its variables, files beside `heat_outputs_path` its outputs.

As heat-agents' hook of that name: the config goes to `WORKING/ID_playbook.yaml` and is run there by

    ansible-playbook -i localhost, [--module-path M] [--skip-tags S] [--tags T] PLAYBOOK --extra-vars @VARIABLES

where `ID_variables.json` has the inputs with their types, `heat_config_id` and `heat_outputs_path`. That file is in the
run's own folder and goes with it, as all secrets are in it.

ansible-runner starts it and says what becomes of each task. What ansible prints is passed on as it comes; after it
stands, task by task, what was changed and what failed; why it failed is the end of standard error, too. Where another
stdout callback than ansible's usual ones is chosen, ansible is run without the runner, and that callback has the word.
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
from typing import Any, BinaryIO, NoReturn, TextIO, cast

from heat_config_hooks import files, processes, programs, protocol, steps
from heat_config_hooks.errors import HookError, MissingTool
from heat_config_hooks.options import Kind, Option
from heat_config_hooks.reply import CANNOT_START, Reply, nothing_done

_INSTALL = "install it with «pip install ansible-core ansible-runner»"

_PROGRAM = programs.Program(
    names=("ansible-playbook",),
    variable="HEAT_ANSIBLE_CMD",
    install=f"{_INSTALL}, or ansible-core as the distribution has it",
)

ABOUT = protocol.About(
    config="a playbook, as text or as a list of plays",
    options={
        "tags": Option(Kind.TEXTS, "only run what has one of these tags"),
        "skip_tags": Option(Kind.TEXTS, "run nothing that has one of these tags"),
        "modulepath": Option(Kind.TEXTS, "folders with modules"),
        "inventory": Option(Kind.TEXT, "an inventory: its name in the working folder, or an absolute path"),
        "callback_plugins": Option(Kind.TEXTS, "folders with callback plugins"),
        "collections_path": Option(Kind.TEXTS, "folders with collections"),
        "roles_path": Option(Kind.TEXTS, "folders with roles, beside the playbook's own"),
    },
    program=_PROGRAM,
    variables=("HEAT_ANSIBLE_WORKING", "HEAT_ANSIBLE_OUTPUTS", "HEAT_ANSIBLE_CMD", "HEAT_ANSIBLE_INVENTORY"),
    files=("{key}", "{key}.*", "{key}_playbook.yaml", "{key}_variables.json"),
    tested="real ansible-playbook",
)

_INVENTORY = "options.inventory"

_LOCAL = "localhost,"

_MARK = "AWX_ISOLATED_DATA_DIR"
"""The runner's variable that names its folder for the run: ansible and all that it starts have it."""

_EVENT = re.compile(rb"\x1b\[K(?:[A-Za-z0-9+/=]+\x1b\[\d+D)+\x1b\[K")
"""What the runner's callback puts around the text of an event."""

_USUAL = (None, "default", "ansible.builtin.default")
"""What decides how ansible's output looks, unless somebody has chosen otherwise."""

_DERIVABLE = (*_USUAL, "minimal", "ansible.builtin.minimal")
"""Those of which the runner's own callback, which it derives from the chosen one, is known to work."""

_BROKEN = 254
"""What the runner says where it could not start the program; ansible-playbook itself never says that."""

GRACE = 4.0
"""Seconds between TERM and KILL: less than we are given ourselves."""

LINGER = 5.0
"""Seconds to wait for the end of what ansible prints, once it has ended: what it left running may hold it open."""


def prepare(request: protocol.Request, place: protocol.Workplace) -> protocol.Command | Reply:
    """Write the playbook and its variables; say how to run it."""
    playbook = _playbook(request.config)
    if not playbook.strip():
        return nothing_done()
    _argv(request, place)  # what is wrong with it is said before anything is written
    if not _runner_is_there():
        raise MissingTool(f"ansible-runner, which runs ansible-playbook, is not installed; {_INSTALL}")
    files.make_directory(place.working)
    outputs = protocol.clear_outputs(request, place)
    files.replace(place.working / f"{request.key}_playbook.yaml", playbook.encode("utf-8", "replace"))
    variables = {
        "heat_config_id": request.id,
        **protocol.visible_inputs(request),
        "heat_outputs_path": str(outputs),
    }
    files.replace(place.run / f"{request.key}_variables.json", json.dumps(variables).encode())
    return steps.command(__name__, request, place)


finish = protocol.collect


def carry_out(request: protocol.Request, place: protocol.Workplace) -> int:
    """Run the playbook; return the exit code of ansible-playbook."""
    argv, environment = _argv(request, place), _environment(request, place)
    if environment.get("ANSIBLE_STDOUT_CALLBACK") in _DERIVABLE:
        return _by_runner(argv, environment, place)
    environment[_MARK] = str(place.run)
    signal.signal(signal.SIGTERM, lambda number, _: _end(number, environment[_MARK]))
    return steps.run(argv, cwd=place.working, environment={**os.environ, **environment})


def _by_runner(argv: Sequence[str], environment: dict[str, str], place: protocol.Workplace) -> int:
    try:
        from ansible_runner import Runner  # type: ignore[import-untyped]  # noqa: PLC0415  # 60 ms
        from ansible_runner.config.command import CommandConfig  # type: ignore[import-untyped]  # noqa: PLC0415
        from ansible_runner.utils import OutputEventFilter  # type: ignore[import-untyped]  # noqa: PLC0415
    except ImportError as error:
        raise MissingTool(f"ansible-runner cannot be loaded ({error}); {_INSTALL}") from error
    program, *arguments = argv
    config = CommandConfig(
        private_data_dir=str(place.run / "runner"),
        host_cwd=str(place.working),
        # Its other mode has a terminal: prompts would wait there for ever, and both streams would be one.
        runner_mode="subprocess",
        quiet=True,
        fact_cache_type="",  # the playbook's own choice
        envvars=environment,
    )
    config.prepare_run_command(program, cmdline_args=arguments)
    if "ANSIBLE_HOST_KEY_CHECKING" not in place.environment:  # the runner would turn it off
        config.env.pop("ANSIBLE_HOST_KEY_CHECKING", None)
    recap, errors = Recap(), _Errors()
    runner = Runner(config, event_handler=recap.take)
    events = OutputEventFilter(None, runner.event_callback, suppress_ansible_output=True)
    signal.signal(signal.SIGTERM, lambda number, _: _end(number, config.env[_MARK]))
    try:
        with (
            open(os.devnull, "rb") as config.input_fd,
            _passed_on(sys.stdout, events.write) as config.output_fd,
            _passed_on(sys.stderr, errors.take) as config.error_fd,
        ):
            runner.run()
    finally:
        if environment.get("ANSIBLE_STDOUT_CALLBACK") in _USUAL:  # any other's output may be for a program to read
            recap.say()
        for line in recap.failures or errors.last:  # standard error ends with why it failed, as people expect
            steps.say(line, error=True)
    if runner.rc == _BROKEN:
        with runner.stderr as complaint:
            steps.say(f"cannot run {program}: {complaint.read().strip().rpartition(chr(10))[2]}", error=True)
        return CANNOT_START
    return int(runner.rc) if runner.rc >= 0 else 128 - int(runner.rc)


class Recap:
    """What came of a playbook, task by task, as the runner's events say it."""

    def __init__(self) -> None:
        """Begin with nothing."""
        self._names: dict[str, str] = {}
        self._items: dict[tuple[str, str], list[str]] = {}
        self._lines: list[str] = []
        self._counts: Mapping[str, Any] = {}

    def take(self, event: Mapping[str, Any]) -> bool:
        """Take in an event, which need not be kept."""
        data: Mapping[str, Any] = event.get("event_data") or {}
        task, host = str(data.get("task_uuid")), str(data.get("host"))
        match event.get("event"):
            case "playbook_on_task_start":
                self._names[task] = str(data.get("name"))
            case "runner_item_on_ok" if _changed(event):
                self._items.setdefault((task, host), [])
            case "runner_item_on_failed":
                self._items.setdefault((task, host), []).append(self._line(data))
            case "runner_on_ok":
                if self._items.pop((task, host), None) is not None or _changed(event):
                    self._lines.append(f"changed: {self._line({**data, 'res': {}})}")
            case "runner_on_failed":
                word = "ignored" if data.get("ignore_errors") else "failed"
                lines = self._items.pop((task, host), None) or [self._line(data)]
                self._lines += [f"{word}: {line}" for line in lines]
            case "runner_on_unreachable":
                self._lines.append(f"unreachable: {self._line(data)}")
            case "playbook_on_stats":
                self._counts = data
        return False

    @property
    def failures(self) -> list[str]:
        """What is said of tasks that failed, or of hosts that were not there: a line each."""
        return [" ".join(each.split()) for each in self._lines if each.startswith(("failed:", "unreachable:"))]

    def say(self) -> None:
        """Print it."""
        for line in self._lines:
            steps.say(line)
        names = {"ok": "ok", "changed": "changed", "failures": "failed", "dark": "unreachable"}
        names |= {"skipped": "skipped", "rescued": "rescued", "ignored": "ignored"}
        counts = {name: sum(hosts.values()) for key, name in names.items() if (hosts := self._counts.get(key))}
        if self._counts:
            steps.say(", ".join(f"{count} {name}" for name, count in counts.items()) or "no task was run")

    def _line(self, data: Mapping[str, Any]) -> str:
        result: Mapping[str, Any] = data.get("res") or {}
        about = [] if data.get("host") == "localhost" else [str(data.get("host"))]
        item = result.get("_ansible_item_label", result.get("item"))
        if item is not None:
            about.append(f"item={protocol.as_text(item)}")
        name = self._names.get(str(data.get("task_uuid"))) or str(data.get("task"))
        message = _message(result)
        return name + (f" ({', '.join(about)})" if about else "") + (f": {message}" if message else "")


class _Errors:
    """The last thing that ansible calls an error: what follows it on standard error is where that is, and no reason."""

    def __init__(self) -> None:
        self.last: list[str] = []

    def take(self, line: str) -> None:
        if line.startswith(("[ERROR]:", "ERROR!")):
            self.last = [line.strip()]


def _changed(event: Mapping[str, Any]) -> bool:
    """Whether a task has changed something. Of one with `no_log` only what ansible prints tells."""
    result: Mapping[str, Any] = event["event_data"].get("res") or {}
    return bool(result.get("changed")) or ("censored" in result and str(event.get("stdout")).startswith("changed"))


def _message(result: Mapping[str, Any]) -> str:
    """Return why a task failed. Where a command says only that it did, its last words tell more."""
    message = protocol.as_text(result.get("censored") or result.get("msg")).strip().partition("\n\n")[0]
    words = protocol.as_text(result.get("stderr") or result.get("module_stderr")).strip()
    return f"{message}: {words.splitlines()[-1].strip()}" if words else message


def _playbook(config: object) -> str:
    """Return the text of a playbook; empty where there is none."""
    if config in (None, [], {}):
        return ""
    if isinstance(config, str):
        return config
    if not isinstance(config, list):
        raise HookError("a playbook is text, or a list of plays", "config")
    return json.dumps(config, indent=2, ensure_ascii=False) + "\n"  # JSON is YAML


def _argv(request: protocol.Request, place: protocol.Workplace) -> list[str]:
    argv = [*programs.find(_PROGRAM, place.environment), "-i", _inventory(request, place)]
    for argument, option, joint in (
        ("--module-path", "modulepath", ":"),
        ("--skip-tags", "skip_tags", ","),
        ("--tags", "tags", ","),
    ):
        value = joint.join(cast("list[str]", request.options[option]))
        if value:
            argv += [argument, value]
    playbook, variables = place.working / f"{request.key}_playbook.yaml", place.run / f"{request.key}_variables.json"
    return [*argv, str(playbook), "--extra-vars", f"@{variables}"]


def _inventory(request: protocol.Request, place: protocol.Workplace) -> str:
    name = cast("str | None", request.options["inventory"])
    if not name:
        return place.environment.get("HEAT_ANSIBLE_INVENTORY") or _LOCAL
    if not name.startswith("/") and ".." in Path(name).parts:
        raise HookError(f"{name!r} leads out of the working folder; an absolute path may lead anywhere", _INVENTORY)
    path = place.working / name
    if not path.exists():  # ansible would find no hosts in it, do nothing, and be content
        raise HookError(f"there is no inventory {path}", _INVENTORY)
    return str(path)


def _environment(request: protocol.Request, place: protocol.Workplace) -> dict[str, str]:
    """Return the variables for ansible, beside those that we have ourselves."""
    given = place.environment
    variables = {
        "ANSIBLE_FORCE_COLOR": "0",
        # What is in it goes with the run, however that ends.
        "ANSIBLE_LOCAL_TEMP": given.get("ANSIBLE_LOCAL_TEMP") or str(place.run / "tmp"),
        # Of a task with a longer result nobody would know whether it changed anything.
        "MAX_EVENT_RES": str(sys.maxsize),
    }
    home = given.get("HOME", "")
    base = given.get("ANSIBLE_HOME") or f"{home}/.ansible"
    if not _usable(home):
        base = variables["ANSIBLE_HOME"] = given.get("ANSIBLE_HOME") or str(place.run / "ansible")
        if _inventory(request, place) == _LOCAL:  # elsewhere, homes are others
            variables["ANSIBLE_REMOTE_TMP"] = given.get("ANSIBLE_REMOTE_TMP") or str(place.run / "remote")
    # The runner sets the two that follow, and so would hide what ansible.cfg says of them.
    configured = _configured(place)
    if stdout := given.get("ANSIBLE_STDOUT_CALLBACK") or configured.get("stdout_callback"):
        variables["ANSIBLE_STDOUT_CALLBACK"] = stdout
    variables["ANSIBLE_CALLBACK_PLUGINS"] = (
        given.get("ANSIBLE_CALLBACK_PLUGINS")
        or configured.get("callback_plugins")
        or f"{base}/plugins/callback:/usr/share/ansible/plugins/callback"
    )
    for variable, option in (
        ("ANSIBLE_CALLBACK_PLUGINS", "callback_plugins"),
        ("ANSIBLE_COLLECTIONS_PATH", "collections_path"),
        ("ANSIBLE_ROLES_PATH", "roles_path"),
    ):
        value = ":".join(cast("list[str]", request.options[option]))
        if value:
            variables[variable] = value
    return variables


def _usable(home: str) -> bool:
    """Whether there is a home where ansible can keep files."""
    return home not in ("", "/") and os.access(home, os.W_OK | os.X_OK)


def _configured(place: protocol.Workplace) -> Mapping[str, str]:
    """Return what is in `[defaults]` of the ansible.cfg that ansible will read, paths made absolute."""
    given = place.environment
    named = Path(given["ANSIBLE_CONFIG"]) if given.get("ANSIBLE_CONFIG") else None
    candidates = (
        *((named / "ansible.cfg" if named.is_dir() else named,) if named else ()),
        place.working / "ansible.cfg",
        Path(given.get("HOME") or "/") / ".ansible.cfg",
        Path("/etc/ansible/ansible.cfg"),
    )
    path = next((each for each in candidates if os.access(each, os.R_OK) and each.is_file()), None)
    if path is None:
        return {}
    import configparser  # noqa: PLC0415  # few machines have one

    parser = configparser.ConfigParser(interpolation=None, inline_comment_prefixes=(";",), strict=False)
    try:
        parser.read(path, encoding="utf-8")
    except (configparser.Error, UnicodeDecodeError):  # ansible says what is wrong with it
        return {}
    defaults = dict(parser["defaults"]) if parser.has_section("defaults") else {}
    if folders := defaults.get("callback_plugins"):
        expanded = (os.path.expanduser(os.path.expandvars(each)) for each in folders.split(":"))  # noqa: PTH111
        defaults["callback_plugins"] = ":".join(str(path.parent / each) for each in expanded)
    return defaults


def _runner_is_there() -> bool:
    import importlib.util  # noqa: PLC0415  # to look for a module costs much less than to load it

    return importlib.util.find_spec("ansible_runner") is not None


@contextlib.contextmanager
def _passed_on(stream: TextIO, take: Callable[[str], object] | None = None) -> Iterator[BinaryIO]:
    """Yield a pipe whose lines are printed as they come, without marks of events; `take` gets them with their marks."""
    import threading  # noqa: PLC0415

    source, sink = os.pipe()

    def pass_on() -> None:
        with os.fdopen(source, "rb") as lines:
            for line in lines:
                stream.buffer.write(_EVENT.sub(b"", line))
                stream.flush()
                if take:
                    take(line.decode("utf-8", "replace"))

    thread = threading.Thread(target=pass_on, daemon=True)
    thread.start()
    try:
        with os.fdopen(sink, "wb") as file:
            yield file
    finally:
        thread.join(LINGER)


def _end(number: int, mark: str) -> NoReturn:
    """End ansible with all that it has started, and ourselves.

    The runner's own way reaches one process group, and the workers of ansible-core since 2.19 are in others.
    """
    signal.signal(number, signal.SIG_IGN)
    mark = f"{_MARK}={mark}"
    processes.send(processes.tree(0, 0, mark), signal.SIGTERM)
    deadline = time.monotonic() + GRACE
    while (living := processes.tree(0, 0, mark)) and time.monotonic() < deadline:
        time.sleep(0.05)
    processes.send(living, signal.SIGKILL)
    sys.exit(128 + number)
