"""The entry points of `heat-config-agent` and `heat-config-apply`.

They load modules only when they are needed, because loading takes longer than most of the work.
"""

from __future__ import annotations

import gc
import os
import sys

from heat_config_agent.cli.apply import shortcut
from heat_config_hooks import memory

TYPE_CHECKING = False  # as `typing` has it, which takes long to load

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import NoReturn


_RUBBISH = 200_000
"""Number of new objects after which the garbage collector runs; a document of thousands of entries is not garbage."""


def agent() -> int:
    """Run `heat-config-agent`."""
    _lead_others()
    _use_utf8()
    _end_on_interrupt()
    gc.disable()  # nothing that is loaded now becomes garbage
    from heat_config_agent.cli import agent as command  # noqa: PLC0415  # each program loads only its own command
    from heat_config_agent.cli import runner  # noqa: PLC0415

    _loaded()
    return runner.run(command.main)


def apply() -> NoReturn:
    """Run `heat-config-apply`, and end the process."""
    memory.keep_no_core()
    _lead_others()
    _use_utf8()
    output = (
        shortcut.again(sys.argv[1:], os.environ) if sys.stdout is not None else None
    )
    if output is not None and _is_written(output):
        _end(0)
    _end_on_interrupt()
    gc.disable()
    from heat_config_agent.cli import runner  # noqa: PLC0415
    from heat_config_agent.cli.apply import options as apply_options  # noqa: PLC0415

    run: Callable[[Sequence[str]], int] = apply_options.run_template
    if not apply_options.is_of_template(sys.argv[1:]):
        from heat_config_agent.cli.apply import command  # noqa: PLC0415  # templates need none of it

        run = command.main
    _loaded()
    gc.set_threshold(_RUBBISH)
    _end(runner.run(run))


def _lead_others() -> None:
    """In the first process of a container, go on in a child: the first process reaps orphans."""
    if os.getpid() == 1:
        from heat_config_agent.cli import first_process  # noqa: PLC0415  # only in containers without an init

        first_process.lead()


def _use_utf8() -> None:
    """Use UTF-8 for file names, arguments and environments. It has to happen before other modules load."""
    if sys.getfilesystemencoding() != "utf-8":
        from heat_config_hooks import alphabet  # noqa: PLC0415  # needed in rare locales only

        alphabet.use_utf8()


def _end_on_interrupt() -> None:
    """Let «^C» end the process silently while it loads modules: nothing has begun. `runner` handles it afterwards."""
    from heat_config_agent.model import signal_numbers  # noqa: PLC0415  # the shortcut does without it

    signal_numbers.handle(signal_numbers.SIGINT, signal_numbers.SIG_DFL)


def _loaded() -> None:
    gc.freeze()
    gc.enable()


def _end(code: int) -> NoReturn:
    """End the process at once. Python would first free each object by itself, which takes longer than many runs."""
    import atexit  # noqa: PLC0415

    atexit._run_exitfuncs()  # noqa: SLF001  # as `multiprocessing` does it, which ends its processes in this way too
    for stream in filter(None, (sys.stdout, sys.stderr)):  # either may be closed
        try:
            stream.flush()
        except OSError:  # the reader has gone, or the disk is full
            continue
    os._exit(code)


def _is_written(text: bytes) -> bool:
    """Write to standard output; return whether that worked."""
    try:
        sys.stdout.buffer.write(text)
        sys.stdout.flush()
    except OSError:
        # the reader has gone, or the disk is full: the long way handles that
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return False
    return True
