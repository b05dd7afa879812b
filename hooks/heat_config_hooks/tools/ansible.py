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
import os
import re
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import BinaryIO, TextIO

from heat_config_hooks import files, protocol, steps
from heat_config_hooks.errors import MissingTool
from heat_config_hooks.needs import ANSIBLE_RUNNER, NEEDS, check
from heat_config_hooks.options import ISOLATE, TRUSTED, USER, Kind, Option
from heat_config_hooks.reply import CANNOT_START, UNKNOWN, Reply, nothing_done
from heat_config_hooks.tools import ansible_run, ansible_settings
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


_EVENT = re.compile(rb"\x1b\[K(?:[A-Za-z0-9+/=]+\x1b\[\d+D)+\x1b\[K")
"""The marks that the runner's callback writes around the text of an event."""

_SUPPORTED = (*ansible_settings.USUAL, "minimal", "ansible.builtin.minimal")
"""Stdout callbacks with which the runner's own callback, a subclass of the chosen one, is known to work."""


_BROKEN = 254
"""The exit code of the runner when it could not start the program; ansible-playbook itself never uses it."""


LINGER = 5.0
"""Seconds to wait for the end of ansible's output once ansible has ended: a process that it left may keep it open."""


def prepare(
    request: protocol.Request, place: protocol.Workplace
) -> protocol.Command | Reply:
    """Write the playbook and its variables, and return the command."""
    playbook = ansible_run.text(request.config)
    if not playbook.strip():
        return nothing_done()
    ansible_run.command_line(
        request, place
    )  # report mistakes before anything is written
    check(NEEDS["ansible"], place.environment)
    files.make_directory(place.working)
    outputs = protocol.clear_outputs(request, place)
    files.replace(
        place.working / f"{request.key}_playbook.yaml",
        playbook.encode("utf-8", "replace"),
    )
    return steps.command(
        __name__, request, place, ansible_run.write_inputs(request, place, outputs)
    )


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
    argv, activity = ansible_run.command_line(request, place), Activity()
    if sentence := ansible_run.unmarkable(request, argv[0]):
        steps.say(sentence, error=True)
        return UNKNOWN
    environment = ansible_run.settings_of(request, place)
    if environment.get("ANSIBLE_STDOUT_CALLBACK") in _SUPPORTED:
        code = _run_with_runner(argv, environment, place, activity)
    else:
        code = ansible_run.run_without_runner(argv, environment, place, activity)
    return ansible_run.with_activity(request, code, activity)


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
    signal.signal(
        signal.SIGTERM,
        lambda number, _: ansible_run.end(number, config.env[ansible_run.MARK]),
    )
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
