"""The `python` hook: the config is a Python script, which has `inputs` and sets `outputs`, both with their JSON types.

The script goes to `WORKING/ID.py` and runs in `WORKING`, as `__main__`, in the system's Python: what is installed there
can be imported, and nothing of ours. It finds

    inputs       a dict of the inputs
    outputs      a mapping: `outputs["url"] = …` sets an output, any JSON value; it counts from then on, even if the
                 script dies in the next line. What lists and maps hold is looked at again when the script ends.
    action       the action, e.g. "CREATE"
    deployment   a dict of its `id` and `name`

Its exit code is the status code: 0 at its end, 1 where it raised an exception, else what it gave `sys.exit`.
"""

from __future__ import annotations

import json

from heat_config_hooks import files, programs, protocol, strict_json
from heat_config_hooks.errors import HookError, MissingTool
from heat_config_hooks.options import Kind, Option
from heat_config_hooks.reply import UNKNOWN, Capture, Reply, failure, nothing_done
from heat_config_hooks.values import replace

PROGRAM = programs.Program(
    names=("python3",),
    variable="HEAT_PYTHON_CMD",
    install="install it with «apt install python3»",
)

ABOUT = protocol.About(
    config="a Python script",
    options={
        "interpreter": Option(Kind.TEXT, "the Python that runs it (3.6 or later): a name, a path or a command line"),
        "path": Option(Kind.TEXTS, "folders in which modules are found before all others"),
    },
    program=PROGRAM,
    variables=("HEAT_PYTHON_WORKING", "HEAT_PYTHON_CMD"),
    tested="real scripts",
)

_OUTPUTS = "outputs.json"
"""In the run's folder: the outputs that the script has set."""

RUNNER = '''\
import os
import sys

_HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:] = [each for each in sys.path if os.path.abspath(each or ".") != _HERE]

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
            declared = "those are " + ", ".join(self._names) if self._names else "it declares none"
            raise KeyError("%r is no output of this deployment: %s" % (name, declared))
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
        """Write again what was changed inside since it was set."""
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
    raise TypeError("the output %r has to be a JSON value: %s" % (name, reason))


def _shown(error):
    """Print the traceback as if the script had been run by itself: without the frames of this program."""
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
        except (AttributeError, IndexError, TypeError):  # Python 3.6 cannot leave them out
            break
    sys.excepthook(type(error), error.with_traceback(frames[0] if frames else None), frames[0] if frames else None)


def _main():
    with open(os.path.join(_HERE, "given.json")) as file:
        given = json.load(file)
    sys.path[:0] = given["path"]
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
        _shown(error)
        ending = SystemExit(1)
    if given["outputs"] and module.__dict__.get("outputs") is not outputs:
        sys.stderr.write("the script has given the name \\u00aboutputs\\u00bb to something else: it sets none\\n")
    try:
        outputs.keep()
    except (OSError, TypeError) as error:
        sys.stderr.write("%s\\n" % error)
        ending = ending if ending.code else SystemExit(1)
    sys.exit(ending.code)


_main()
'''
"""The program around the script. It runs in any Python since 3.6, and needs nothing but that."""


def prepare(request: protocol.Request, place: protocol.Workplace) -> protocol.Command | Reply:
    """Write the script, what it is given, and the program around it; say how to run that."""
    script = _text(request.config)
    if not script.strip():
        return nothing_done()
    interpreter = _interpreter(request, place)
    files.make_directory(place.working)
    path = place.working / f"{request.key}.py"
    files.replace(path, script.encode("utf-8", "replace"))
    given = {
        "script": str(path),
        "path": request.options["path"],
        "inputs": protocol.visible_inputs(request),
        "outputs": request.outputs,
        "action": request.action,
        "deployment": {"id": request.id, "name": request.name},
    }
    files.replace(place.run / "given.json", json.dumps(given).encode())
    runner = place.run / "run.py"
    files.replace(runner, RUNNER.encode())
    return protocol.Command(argv=(*interpreter, "-u", str(runner)), cwd=place.working)


def finish(request: protocol.Request, place: protocol.Workplace, ended: protocol.Ended) -> Reply:
    """Return the outputs that were set, what was printed, and the exit code."""
    printed = protocol.collect(request, place, ended)
    path = place.run / _OUTPUTS
    try:
        outputs = strict_json.loads(files.read(path).decode()) if path.exists() else {}
    except (OSError, ValueError) as error:
        sentence = f"its outputs cannot be read: {error}"
        return failure(ended.code or UNKNOWN, sentence, Capture(ended.stdout), Capture(ended.stderr))
    return {**(outputs if isinstance(outputs, dict) else {}), **printed}


def _interpreter(request: protocol.Request, place: protocol.Workplace) -> tuple[str, ...]:
    named = request.options["interpreter"]
    if not isinstance(named, str):
        return programs.find(PROGRAM, place.environment)
    try:
        return programs.find(replace(PROGRAM, names=(named,), variable=""), place.environment)
    except MissingTool as error:
        raise MissingTool(error.problem, "options.interpreter") from None


def _text(config: object) -> str:
    if config is None:
        return ""
    if not isinstance(config, str):
        raise HookError("the python tool takes text, not a structure", "config")
    return config.removeprefix("\ufeff")
