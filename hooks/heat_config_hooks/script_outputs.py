"""The outputs of scripts that know nothing of outputs: variables that Bash exports, and global variables of Python."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Sequence
from pathlib import Path

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")

_OURS = "__tosca_"
"""The beginning of the names in our own code for Bash."""

_BASH = r"""
unset BASH_ENV
__tosca_trap=
__tosca_write() (
    set +eux
    IFS=' '
    umask 077
    for __tosca_name in "${__tosca_names[@]}"; do
        __tosca_about=$(builtin declare -p -- "$__tosca_name" 2>/dev/null) || continue
        __tosca_about=${__tosca_about#declare -}
        __tosca_about=${__tosca_about%% *}
        if [[ $__tosca_about == *x* && $__tosca_about != *[aA]* ]]; then
            builtin printf %s "${!__tosca_name}" >|"$__tosca_folder/$__tosca_name" || builtin exit 1
        fi
    done
)
__tosca_status() {
    return "$1"
}
__tosca_end='{ __tosca_code=$?; } 2>/dev/null
if [[ $__tosca_trap ]]; then
    { __tosca_write || :; } 2>/dev/null
    if ((__tosca_code == 0)); then
        builtin eval "$__tosca_trap"
    else
        __tosca_status "$__tosca_code" || builtin eval "$__tosca_trap"
    fi
fi
{ __tosca_write || __tosca_lost=1; } 2>/dev/null
if [[ ${__tosca_lost-} && $__tosca_code == 0 ]]; then
    builtin echo "the outputs of the script cannot be written" >&2
    builtin exit 1
fi'
trap() {
    if ((BASH_SUBSHELL)) && [[ ${1-} != -p* && $# != 0 ]]; then
        builtin trap "$@"
        return
    fi
    local __tosca_action __tosca_signal __tosca_result=0
    if [[ $# == 0 || $1 == -p* ]]; then
        shift "$(($# != 0))"
        (($#)) || set -- EXIT $(IFS=$' \n' builtin compgen -A signal)
        for __tosca_signal in "$@"; do
            if [[ ${__tosca_signal^^} != @(0|EXIT) ]]; then
                builtin trap -p "$__tosca_signal" || __tosca_result=$?
            elif [[ $__tosca_trap ]]; then
                builtin printf 'trap -- %q EXIT\n' "$__tosca_trap"
            fi
        done
        return "$__tosca_result"
    fi
    [[ $1 != -- ]] || shift
    if [[ $# == 1 || $1 =~ ^[0-9]+$ ]]; then
        __tosca_action=-
    else
        __tosca_action=$1
        shift
    fi
    for __tosca_signal in "$@"; do
        if [[ ${__tosca_signal^^} != @(0|EXIT|SIGEXIT) ]]; then
            builtin trap -- "$__tosca_action" "$__tosca_signal" || __tosca_result=$?
        elif [[ $__tosca_action == - ]]; then
            __tosca_trap=
        else
            __tosca_trap=${__tosca_action:-:}
        fi
    done
    return "$__tosca_result"
}
builtin trap -- "$__tosca_end" EXIT
"""
"""Code that Bash reads before a script: when the script ends, it writes the exported variables that are wanted.

The script runs as always. A function `trap` keeps what the script itself wants done at its end.
"""

_PYTHON = """\
import json
import os
import sys


def _print_traceback(error):
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename == __file__:
        trace = trace.tb_next
    sys.excepthook(type(error), error.with_traceback(trace), trace)


def _write(values, names, folder):
    for name in names:
        if name not in values:
            continue
        try:
            text = json.dumps(values[name], allow_nan=False)
        except (TypeError, ValueError, RecursionError) as error:
            sys.stderr.write("the global variable %s is an output and must be a JSON value: %s\\n" % (name, error))
            return False
        descriptor = os.open(os.path.join(folder, name), os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "w") as file:
            file.write(text)
    return True


def _main():
    given, script = sys.argv[1:]
    with open(given) as file:
        wanted = json.load(file)
    sys.argv[:] = [script]
    sys.path[0] = os.path.dirname(script)
    with open(script, "rb") as file:
        source = file.read()
    module = type(sys)("__main__")
    module.__dict__.update(__file__=script, __builtins__=__builtins__)
    sys.modules["__main__"] = module
    ending = SystemExit(0)
    try:
        exec(compile(source, script, "exec", dont_inherit=True), module.__dict__)
    except SystemExit as error:
        ending = error
    except BaseException as error:
        _print_traceback(error)
        ending = SystemExit(1)
    if not _write(module.__dict__, wanted["names"], wanted["folder"]) and not ending.code:
        ending = SystemExit(1)
    sys.exit(ending.code)


_main()
"""
"""The program that runs a Python script and writes the global variables that are wanted. It works since Python 3.6."""


def names(outputs: Sequence[str]) -> list[str]:
    """Return the outputs whose names can be variables."""
    return [
        name
        for name in outputs
        if _VARIABLE.fullmatch(name) and not name.startswith(_OURS)
    ]


def bash_code(wanted: Sequence[str], folder: Path) -> str:
    """Return code for `BASH_ENV`, which writes the variables `wanted` to files in `folder` at the end of a script."""
    return f"__tosca_names=({' '.join(wanted)})\n__tosca_folder={shlex.quote(str(folder))}{_BASH}"


def python_code() -> str:
    """Return the program that runs a script: its arguments are the file of `python_arguments`, and the script."""
    return _PYTHON


def python_arguments(wanted: Sequence[str], folder: Path) -> bytes:
    """Return the content of the file that tells the program which global variables it writes, and where."""
    return json.dumps({"names": list(wanted), "folder": str(folder)}).encode()
