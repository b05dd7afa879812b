"""The `tosca` hook: processes the files of an operation of a TOSCA service.

The config is an object, or its JSON text:

    primary     the path of the file to process
    processor   `bash`, `python`, `executable`, `ansible`, `puppet`, `salt`, `chef`, or `container`
    container   for the last one, instead of `primary`: {name, image, command, ports, volumes}
    operation   the name of the operation, for the variable `TOSCA_OPERATION`
    inputs      the input that holds the inputs of this operation, e.g. `tosca.delete`;
                without it, they are the inputs of the deployment
    steps       instead of these five, a list of objects with them: each is processed after the one before has succeeded
    files       path → text, {base64: …}, or {sha256: …} for a file in the folder that `HEAT_STACK_FILES` names
    root        a text that stands for the folder of the files in all inputs
    places      [{file, to, until}]: copies `file` to the path `to` before the first step, and removes the copy at the
                `end` of the run, at the `delete` of the deployment unless someone has changed it, or `never`
    verify      {primary, processor, operation, inputs} of a script that says whether the node is in effect; without it,
                the tool of the last step verifies, and copies that stay are compared if there are no steps

The files are laid out in the folder of the run, under their paths. A file runs in its own folder.
Inputs are environment variables, as in the hook `script`. Names that begin with `tosca.` are for the hook:
the input `tosca.surroundings` is a map of variables for all steps, and no other such input reaches a file.
The output `tosca.run` is another one after each CREATE and UPDATE.

Other outputs are variables that Bash has exported when it ends, global variables of Python, facts and statistics
(`set_stats`) that a playbook has set, or what was written to `$heat_outputs_path.NAME`.
There are none if the run has failed.
The processors after the first three are the hooks of those names: the file is their config, in its own folder.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from heat_config_hooks import (
    files,
    programs,
    protocol,
    script_outputs,
    steps,
    strict_json,
)
from heat_config_hooks.errors import HookError
from heat_config_hooks.needs import BASH, PYTHON
from heat_config_hooks.reply import (
    CANNOT_START,
    UNKNOWN,
    Capture,
    Reply,
    failure,
    fit,
    nothing_done,
    status_code,
)
from heat_config_hooks.tools import tosca_config, tosca_files, tosca_tools
from heat_config_hooks.tools.tosca_config import Config, Step
from heat_config_hooks.tools.tosca_tools import Tool
from heat_config_hooks.values import dataclass, replace

TYPE_CHECKING = False  # as `typing` has it, which takes long to load

if TYPE_CHECKING:
    from heat_config_hooks.verdict import Verdict  # few runs verify

ABOUT = protocol.About(
    config="an object with the files of an operation and how they are processed, or its JSON text",
    variables=("HEAT_TOSCA_WORKING", "HEAT_TOSCA_OUTPUTS", protocol.STACK_FILES),
    undoes=True,
    tested="real bash, python3, and those of the other tools",
)

RUN = f"{tosca_config.PREFIX}run"
"""The output that is another one after each run that makes something."""

_REPLY = "reply.json"
"""The file in the folder of a step with the reply of its tool."""

_MAKES = frozenset({"CREATE", "UPDATE"})

_INTERPRETER = 255
"""The longest line that names an interpreter, in bytes (BINPRM_BUF_SIZE)."""


def prepare(
    request: protocol.Request, place: protocol.Workplace
) -> protocol.Command | Reply:
    """Lay out the files, and return the command."""
    config = tosca_config.read(request.config)
    if not config.steps and not config.places:
        return nothing_done()
    files.make_directory(place.working)
    protocol.clear_outputs(request, place)
    tosca_files.lay_out(config, place)
    tasks = _tasks(request, place, config)
    commands = [_command(task) for task in tasks]
    tosca_files.put_in_place(config, request, place)
    if len(commands) > 1:
        return steps.command(__name__, request, place)
    first = commands[0] if commands else nothing_done("there is no file to process")
    if isinstance(first, protocol.Command):
        return first
    return _with_run(request, {**first, **_taken_away(config, request, place)})


def carry_out(request: protocol.Request, place: protocol.Workplace) -> int:
    """Process one file after the other up to the first that fails, and return its exit code."""
    for task in _tasks(request, place, tosca_config.read(request.config)):
        command = _command(task)
        if not isinstance(command, protocol.Command):  # the tool has nothing to do
            continue
        if task.tool is not None:
            code = _use(task, task.tool, command)
        else:
            code = steps.run(
                command.argv, cwd=command.cwd, environment=_environment(command)
            )
        if code:
            return code
    return 0


def _environment(command: protocol.Command) -> dict[str, str]:
    return {**os.environ, **command.environment}


def _use(task: _Task, tool: Tool, command: protocol.Command) -> int:
    """Run the command of a tool as one of several steps; print its output, keep its outputs, and return its code."""
    printed, errors = task.place.run / "stdout", task.place.run / "stderr"
    ended = protocol.Ended(code=0, stdout=printed, stderr=errors, output="passed on")
    with ended.stdout.open("wb") as stdout, ended.stderr.open("wb") as stderr:
        code = subprocess.run(
            command.argv,
            cwd=command.cwd,
            env=_environment(command),
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=stderr,
            check=False,
        ).returncode
    reply = fit(tool.finish(replace(ended, code=code if code >= 0 else 128 - code)))
    steps.say(str(reply.pop("deploy_stdout", "")).rstrip("\n"))
    steps.say(str(reply.pop("deploy_stderr", "")).rstrip("\n"), error=True)
    status = status_code(reply)
    files.replace(task.place.run / _REPLY, json.dumps(reply).encode())
    return UNKNOWN if status is None else status


def finish(
    request: protocol.Request, place: protocol.Workplace, ended: protocol.Ended
) -> Reply:
    """Return the output of the run, its exit code, and its outputs if it has succeeded."""
    config = tosca_config.read(request.config)
    tasks = _tasks(request, place, config)
    tool = tasks[0].tool if len(tasks) == 1 else None
    reply = tool.finish(ended) if tool else protocol.collect(request, place, ended)
    reply = {**reply, **_taken_away(config, request, place)}
    if status_code(reply):
        return {
            name: value for name, value in reply.items() if name not in request.outputs
        }
    try:
        return _with_run(request, {**_variables(tasks), **reply})
    except (OSError, ValueError) as error:
        sentence = f"the outputs cannot be read: {error}"
        return failure(UNKNOWN, sentence, Capture(ended.stdout), Capture(ended.stderr))


def verify(
    request: protocol.Request, place: protocol.Workplace
) -> protocol.Command | Verdict:
    """Return the command of what verifies, or the verdict if none is needed. Raises HookError, OSError."""
    config = tosca_config.read(request.config)
    files.make_directory(place.run)
    tosca_files.lay_out(config, place)
    if not config.steps and config.verify is None:
        return tosca_files.verified(config, request, place)
    task = _verifying(request, place, config)
    if task.tool is None and config.verify is None:
        from heat_config_hooks import verdict  # noqa: PLC0415  # runs do not need it

        return verdict.unknown(
            "its node has no operation `verify`, and a script cannot be verified"
        )
    if task.tool is None:
        return _script_command(task)
    tosca_tools.write(task.step.processor, task.tool, task.file)
    return task.tool.verify()


def verdict(
    request: protocol.Request, place: protocol.Workplace, ended: protocol.Ended
) -> Verdict:
    """Return the verdict of the script, by its exit code and its last line, or that of the tool."""
    from heat_config_hooks import health  # noqa: PLC0415  # runs do not need it

    task = _verifying(request, place, tosca_config.read(request.config))
    if task.tool:
        return task.tool.verdict(ended)
    spoke = ended.stderr.stat().st_size > 0
    return health.verdict_of(ended if spoke else replace(ended, stderr=ended.stdout))


def _verifying(
    request: protocol.Request, place: protocol.Workplace, config: Config
) -> _Task:
    """Return the task of a verification: the script for it, else the last step. Its outputs are nobody's."""
    step = config.verify or config.steps[-1]
    own = replace(request, outputs=())
    inside = replace(place, outputs=place.run / "outputs")
    return _tasks(own, inside, replace(config, steps=(step,)))[0]


def _tasks(
    request: protocol.Request, place: protocol.Workplace, config: Config
) -> list[_Task]:
    """Return a task for each step, with the inputs of the step. Raises HookError."""
    root = tosca_files.folder(place)
    tasks = []
    for index, step in enumerate(config.steps):
        inputs = tosca_config.step_inputs(request, step).items()
        own = replace(
            request,
            inputs={
                name: _placed(value, config.root, str(root)) for name, value in inputs
            },
        )
        # Each of several tools has a folder of its own, because the files of a hook have fixed names.
        folder = (
            replace(place, run=place.run / f"step-{index}")
            if len(config.steps) > 1
            else place
        )
        file = root / step.primary if step.primary else None
        is_script = step.processor in tosca_config.SCRIPTS
        tool = (
            None
            if is_script
            else tosca_tools.tool(step.processor, own, folder, file, step.container)
        )
        tasks.append(_Task(own, folder, step, file or root, tool))
    return tasks


def _with_run(request: protocol.Request, reply: Reply) -> Reply:
    makes = (
        RUN in request.outputs and request.action in _MAKES and not status_code(reply)
    )
    return {**reply, RUN: str(time.time_ns())} if makes else reply


def _taken_away(
    config: Config, request: protocol.Request, place: protocol.Workplace
) -> Reply:
    """Remove the copies whose time is over; return what changes in the reply."""
    problems = tosca_files.take_away(config, request, place)
    return failure(UNKNOWN, problems.rstrip()) if problems else {}


def _variables(tasks: Sequence[_Task]) -> Reply:
    """Return the outputs that are variables of the scripts or of tools; a later step overrides an earlier one."""
    values: Reply = {}
    for task in tasks:
        for name in task.names if task.tool is None else ():
            path = task.variables / name
            if path.is_file() and task.step.processor == "python":
                values[name] = strict_json.loads(
                    files.read(path, files.LARGEST).decode()
                )
            elif path.is_file():
                values[name] = Capture(path)
        if task.step.processor == "ansible":
            values.update(tosca_tools.facts(task.place))
        if (kept := task.place.run / _REPLY).is_file():
            reply = protocol.as_map(
                strict_json.loads(files.read(kept, files.LARGEST).decode())
            )
            values.update(
                (name, value)
                for name, value in reply.items()
                if name in task.request.outputs
            )
    return values


@dataclass(frozen=True)
class _Task:
    """A step with its request, its folder, its file and its tool."""

    request: protocol.Request
    """The request with the inputs of the step."""
    place: protocol.Workplace
    step: Step
    file: Path
    """The laid-out file to process."""
    tool: Tool | None
    """The tool that processes it; None for a script."""

    @property
    def names(self) -> list[str]:
        """The outputs that may be variables."""
        return script_outputs.names(self.request.outputs)

    @property
    def variables(self) -> Path:
        """The folder for the variables of a script."""
        return self.place.run / "variables"


def _command(task: _Task) -> protocol.Command | Reply:
    """Write what the command for a step needs, and return the command. Raises HookError."""
    if task.tool is None:
        return _script_command(task)
    files.make_directory(task.place.run)
    tosca_tools.write(task.step.processor, task.tool, task.file)
    return task.tool.prepare()


def _script_command(task: _Task) -> protocol.Command:
    """Write what the command for a script needs, and return the command. Raises HookError."""
    files.make_directory(task.place.run)
    return _SCRIPTS[task.step.processor](task)


def _placed(value: object, mark: str, root: str) -> object:
    """Return the value of an input, with its mark replaced by the folder of the files."""
    if not mark:
        return value
    if isinstance(value, str):
        return value.replace(mark, root)
    if isinstance(value, list):
        return [_placed(item, mark, root) for item in value]
    if isinstance(value, Mapping):
        return {name: _placed(item, mark, root) for name, item in value.items()}
    return value


def _script(task: _Task, argv: tuple[str, ...], **variables: str) -> protocol.Command:
    """Return the command for a script, with its inputs as the environment."""
    inputs = task.place.run / "inputs.json"
    files.replace(inputs, json.dumps(protocol.visible_inputs(task.request)).encode())
    return protocol.Command(
        argv=argv,
        cwd=task.file.parent,
        environment={
            **protocol.environment(task.request),
            "heat_outputs_path": str(task.place.outputs / task.request.key),
            "HEAT_INPUTS_FILE": str(inputs),
            **variables,
        },
        notes=protocol.left_out(task.request),
    )


def _bash(task: _Task) -> protocol.Command:
    """Return the command for a shell script; a script that names another interpreter is executed."""
    words = _interpreter(task)
    if words and Path(words[0]).name not in ("bash", "sh"):
        return _executable(task)
    argv = (*programs.find(BASH, task.place.environment), *words[1:], str(task.file))
    if not task.names:
        return _script(task, argv)
    folder = task.variables
    files.make_directory(folder)
    code = folder / "bash.env"
    files.replace(code, script_outputs.bash_code(task.names, folder).encode())
    return _script(task, argv, BASH_ENV=str(code))


def _interpreter(task: _Task) -> list[str]:
    """Return the interpreter and the options that the first line of a script names; CRs of Windows are removed."""
    content = files.read(task.file)
    line = content.partition(b"\n")[0]
    if line.endswith(b"\r"):
        files.replace(task.file, content.replace(b"\r\n", b"\n"), mode=0o700)
    if not line.startswith(b"#!"):
        return []
    if len(line) > _INTERPRETER:
        problem = (
            f"the line that names the interpreter is longer than {_INTERPRETER} bytes"
        )
        raise HookError(
            problem, f"config.files[{tosca_config.shown(task.step.primary)}]"
        )
    first, *rest = line[2:].strip().decode("utf-8", "replace").split(None, 1) or [""]
    if Path(first).name != "env" or not rest:
        return [
            first,
            *(word.strip() for word in rest if word.strip() not in ("-", "--")),
        ]
    try:
        words = shlex.split(rest[0])
    except ValueError:
        words = rest[0].split()
    while words and (words[0].startswith("-") or re.match(r"[A-Za-z_]\w*=", words[0])):
        if words[0] != "-S":
            return [first]
        del words[0]
    return words


def _python(task: _Task) -> protocol.Command:
    """Return the command for a Python script."""
    python = programs.find(PYTHON, task.place.environment)
    if not task.names:
        return _script(task, (*python, "-u", str(task.file)))
    folder = task.variables
    files.make_directory(folder)
    program, arguments = folder / "run.py", folder / "arguments.json"
    files.replace(program, script_outputs.python_code().encode())
    files.replace(arguments, script_outputs.python_arguments(task.names, folder))
    return _script(task, (*python, "-u", str(program), str(arguments), str(task.file)))


def _executable(task: _Task) -> protocol.Command:
    """Return the command for a file that the kernel starts. Raises CannotStart."""
    task.file.chmod(0o700)
    if reason := programs.cannot_start(str(task.file)):
        raise CannotStart(
            f"{tosca_config.shown(task.step.primary)} cannot be started: {reason}"
        )
    return _script(task, (str(task.file),))


class CannotStart(HookError):  # noqa: N818  # it is not a mistake of the deployment
    """A file cannot be started on this machine."""

    code = CANNOT_START


_SCRIPTS: Mapping[str, Callable[[_Task], protocol.Command]] = {
    "bash": _bash,
    "python": _python,
    "executable": _executable,
}
"""Processor of scripts → the function that returns its command."""
