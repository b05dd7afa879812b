"""The `python` hook: runs a Python script, which reads `inputs` and sets `outputs` with their JSON types.

The config is the script. It goes to `WORKING/ID.py` and runs in `WORKING`, as `__main__`, in the system's Python.
It can import the modules that are installed there, but no module of ours. It has these variables:

    inputs       a dict of the inputs
    outputs      a mapping: `outputs["url"] = …` sets an output to any JSON value, which is on disk at once, even if
                 the script crashes in the next line; later changes inside of lists and maps count when it ends
    action       the action, e.g. "CREATE"
    deployment   a dict with `id` and `name`

As for a script, the inputs are also variables of the environment, and `HEAT_INPUTS_FILE` names a file with all of them.

Its exit code is the status code: 0 at its end, 1 after an exception, else the argument of `sys.exit`.
"""

from __future__ import annotations

import json

from heat_config_hooks import files, programs, protocol, strict_json
from heat_config_hooks.errors import MissingTool
from heat_config_hooks.needs import NEEDS, PYTHON_TOOL
from heat_config_hooks.options import ISOLATE, USER, Kind, Option
from heat_config_hooks.reply import UNKNOWN, Capture, Reply, failure, nothing_done
from heat_config_hooks.values import replace

ABOUT = protocol.About(
    config="a Python script",
    options={
        **USER,
        **ISOLATE,
        "interpreter": Option(
            Kind.TEXT,
            "the Python (3.6 or later) that runs it: a name, a path or a command line",
        ),
        "path": Option(Kind.TEXTS, "folders with modules, which are searched first"),
    },
    needs=NEEDS["python"],
    variables=("HEAT_PYTHON_WORKING", "HEAT_PYTHON_CMD"),
    tested="real scripts",
)

_OUTPUTS = "outputs.json"
"""The file in the folder of the run with the outputs that the script has set."""

RUNNER = '''\
import os
import sys

_HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:] = [folder for folder in sys.path if os.path.abspath(folder or ".") != _HERE]

import json
from _thread import RLock
from collections.abc import MutableMapping


class Outputs(MutableMapping):
    """The outputs of the deployment, on disk as soon as they are set."""

    def __init__(self, names):
        self._names = names
        self._values = {}
        self._kept = "{}"
        self._lock = RLock()

    def __getitem__(self, name):
        return self._values[name]

    def __setitem__(self, name, value):
        if name not in self._names:
            declared = "its outputs are " + ", ".join(self._names) if self._names else "it declares no outputs"
            raise KeyError("%r is not an output of this deployment: %s" % (name, declared))
        _as_json(name, value)
        with self._lock:
            self._values[name] = value
            self._keep()

    def __delitem__(self, name):
        with self._lock:
            del self._values[name]
            self._keep()

    def __iter__(self):
        return iter(self._values)

    def __len__(self):
        return len(self._values)

    def __repr__(self):
        return repr(self._values)

    def keep(self):
        """Write outputs that were changed inside since they were set."""
        with self._lock:
            self._keep()

    def _keep(self):
        parts = ["%s: %s" % (json.dumps(name), _as_json(name, value)) for name, value in self._values.items()]
        text = "{" + ", ".join(parts) + "}"
        if text == self._kept:
            return
        path = os.path.join(_HERE, "outputs.json")
        descriptor = os.open(path + ".new", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with open(descriptor, "w") as file:
            file.write(text)
        os.replace(path + ".new", path)
        self._kept = text


def _as_json(name, value):
    try:
        return json.dumps(value, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        reason = str(error)
    raise TypeError("the output %r must be a JSON value: %s" % (name, reason))


def _complain(sentence):
    """Print a sentence to standard error, on a line of its own."""
    sys.stderr.flush()
    begin = ""
    try:
        size = os.fstat(2).st_size
        with open("/proc/self/fd/2", "rb") as file:
            file.seek(max(size - 1, 0))
            begin = "" if file.read() in (b"", b"\\n") else "\\n"
    except (OSError, ValueError):  # standard error is not a file
        pass
    sys.stderr.write("%s%s\\n" % (begin, sentence))


def _print_traceback(error):
    """Print the traceback without the frames of this program, as if the script had been run directly."""
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename == __file__:
        trace = trace.tb_next
    frames = []
    while trace is not None:
        frames.append(trace)
        trace = trace.tb_next
    while frames and frames[-1].tb_frame.f_code.co_filename == __file__:
        frames.pop()
        try:
            frames[-1].tb_next = None
        except (AttributeError, IndexError, TypeError):  # Python 3.6 cannot remove them
            break
    sys.excepthook(type(error), error.with_traceback(frames[0] if frames else None), frames[0] if frames else None)


def _main():
    with open(os.path.join(_HERE, "given.json")) as file:
        given = json.load(file)
    sys.path[:0] = given["path"]
    # Here, and not when this process began: what it began with can be read in /proc.
    os.environb.update({name.encode(): value.encode("utf-8") for name, value in given["environment"].items()})
    script = given["script"]
    with open(script, encoding="utf-8") as file:
        source = file.read()
    module = type(sys)("__main__")
    outputs = Outputs(given["outputs"])
    names = {name: given[name] for name in ("inputs", "action", "deployment")}
    module.__dict__.update(names, outputs=outputs, __file__=script)
    sys.modules["__main__"] = module
    sys.argv[:] = [script]
    ending = SystemExit(0)
    try:
        exec(compile(source, script, "exec", dont_inherit=True), module.__dict__)
    except SystemExit as wanted:
        ending = wanted
    except BaseException as error:
        _print_traceback(error)
        ending = SystemExit(1)
    if given["outputs"] and module.__dict__.get("outputs") is not outputs:
        _complain("the script has assigned something else to the name \\u00aboutputs\\u00bb, so it sets no outputs")
    try:
        outputs.keep()
    except (OSError, TypeError) as error:
        _complain(error)
        ending = ending if ending.code else SystemExit(1)
    sys.exit(ending.code)


_main()
'''
"""The program that runs the script. It works in any Python since 3.6, without other modules."""


def prepare(
    request: protocol.Request, place: protocol.Workplace
) -> protocol.Command | Reply:
    """Write the script, its inputs and the program that runs it, and return the command."""
    script = protocol.text_of(request.config, "the text of a Python script")
    if not script.strip():
        return nothing_done()
    interpreter = _interpreter(request, place)
    files.make_directory(place.working)
    path = place.working / f"{request.key}.py"
    files.replace(path, script.encode("utf-8", "replace"))
    inputs = place.run / "inputs.json"
    files.replace(inputs, json.dumps(protocol.visible_inputs(request)).encode())
    surroundings = {
        "script": str(path),
        "path": request.options["path"],
        "inputs": protocol.visible_inputs(request),
        "outputs": request.outputs,
        "action": request.action,
        "deployment": {"id": request.id, "name": request.name},
        "environment": {
            **protocol.environment(request),
            "HEAT_INPUTS_FILE": str(inputs),
        },
    }
    files.replace(place.run / "given.json", json.dumps(surroundings).encode())
    runner = place.run / "run.py"
    files.replace(runner, RUNNER.encode())
    return protocol.Command(argv=(*interpreter, "-u", str(runner)), cwd=place.working)


def finish(
    request: protocol.Request, place: protocol.Workplace, ended: protocol.Ended
) -> Reply:
    """Return the outputs that the script has set, the output of the run, and the exit code."""
    reply = protocol.collect(request, place, ended)
    path = place.run / _OUTPUTS
    try:
        outputs = (
            strict_json.loads(files.read(path, files.LARGEST).decode())
            if path.exists()
            else {}
        )
    except (OSError, ValueError) as error:
        sentence = f"the outputs of the script cannot be read: {error}"
        return failure(
            ended.code or UNKNOWN,
            sentence,
            Capture(ended.stdout),
            Capture(ended.stderr),
        )
    return {**(outputs if isinstance(outputs, dict) else {}), **reply}


def _interpreter(
    request: protocol.Request, place: protocol.Workplace
) -> tuple[str, ...]:
    named = request.options["interpreter"]
    if not isinstance(named, str):
        return programs.find(PYTHON_TOOL, place.environment)
    try:
        return programs.find(
            replace(PYTHON_TOOL, names=(named,), variable=""), place.environment
        )
    except MissingTool as error:
        raise MissingTool(error.problem, "options.interpreter") from None
