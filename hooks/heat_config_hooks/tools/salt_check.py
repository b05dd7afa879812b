"""The verification of the `salt` hook: the states with `test=True`.

Everything else is as in a run.

1. A state that would change something is a difference.
2. A command or a call of a module that runs every time cannot be checked: salt says of it that it would run.
   It can be if it has `creates`, `onlyif`, `unless`, `stateful` or a requisite that starts it.
   For that, a second call of salt shows the states as it has read them; it is made only if there are such states.
3. States that write an output count nothing.

Differences come first, then failures, then states that cannot be checked.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from heat_config_hooks import files, programs, protocol, steps, verdict, view
from heat_config_hooks.needs import SALT
from heat_config_hooks.tools import salt_run
from heat_config_hooks.verdict import Change, Verdict

_GUARDS = frozenset(
    {
        "creates",
        "onlyif",
        "unless",
        "stateful",
        "onchanges",
        "onchanges_any",
        "prereq",
        "watch",
        "watch_any",
    }
)
"""The arguments of a state that say when it need not run."""

_ALWAYS = frozenset({"cmd", "module", "event", "http"})
"""Modules of states of which salt says in a test that they would run, whatever the machine is like."""

_RUNS = frozenset({"run", "script", "call", "send", "query"})
"""Their functions that run something."""


def verify(
    request: protocol.Request, place: protocol.Workplace
) -> protocol.Command | Verdict:
    """Write the states and the pillar, and return the command. Raises HookError."""
    states = salt_run.states_of(request.config)
    if not states.strip():
        return verdict.in_effect()
    programs.find(SALT, place.environment)
    minion = protocol.as_map(request.options["minion"])
    if request.options["test"] or minion.get("test") is True:
        return verdict.unknown("the deployment only tests its states: none is applied")
    outputs = view.outputs(request, place)
    salt_run.write_config(request, place, outputs)
    _root(request, place)
    return steps.command(__name__, request, place, heat_outputs_path=str(outputs))


def carry_out(request: protocol.Request, place: protocol.Workplace) -> int:
    """Apply the states with `test=True`, and return the exit code.

    If a state is one that always runs, also ask for the states as salt reads them.
    """
    root, returned = _root(request, place), _returned(place)
    test = salt_run.salt_call(
        place, root, returned, "state.sls", request.key, "test=True"
    )
    code = steps.run(test, cwd=root)
    if any(map(_runs_always, _states(returned))):
        low = salt_run.salt_call(
            place, root, _low(place), "state.show_low_sls", request.key
        )
        steps.run(low, cwd=root, quiet=True)
    return code


def verdict_of(
    request: protocol.Request, place: protocol.Workplace, ended: protocol.Ended
) -> Verdict:
    """Return the verdict from the return of each state."""
    document = salt_run.read_return(_returned(place))
    if document is None:
        return verdict.unknown(_last(ended.stderr) or salt_run.NOTHING)
    returned = document["local"]
    states = _states(_returned(place))
    pending = [state for state in states if state.get("result", False) is None]
    pending = [state for state in pending if not _is_output(state, request, place)]
    guarded = _guarded(place) if pending else frozenset()
    unchecked = [
        state
        for state in pending
        if _runs_always(state) and _identity(state) not in guarded
    ]
    changes = [_change(state) for state in pending if state not in unchecked]
    if changes:
        return verdict.drifted(changes)
    if isinstance(returned, Mapping) and not returned:
        return verdict.in_effect()
    if problems := salt_run.problems_of(returned):
        return verdict.unknown(f"test mode fails: {problems[-1]}")
    if unchecked:
        return verdict.unchecked(map(_title, unchecked), len(states), "states")
    return verdict.in_effect()


def _root(request: protocol.Request, place: protocol.Workplace) -> Path:
    """Return the folder with the states."""
    content = salt_run.states_of(request.config).encode("utf-8", "replace")
    return view.view(place, f"{request.key}.sls", content)


def _returned(place: protocol.Workplace) -> Path:
    return place.run / "returned.json"


def _low(place: protocol.Workplace) -> Path:
    return place.run / "low.json"


def _states(path: Path) -> list[Mapping[str, object]]:
    """Return the states in a return, with their tags, as far as salt has come."""
    document = salt_run.read_return(path) or {}
    return [
        {**state, "tag": tag}
        for tag, state in protocol.as_map(document.get("local")).items()
        if isinstance(state, Mapping)
    ]


def _module(state: Mapping[str, object]) -> tuple[str, str]:
    """Return the module and the function of a state, from its tag."""
    words = str(state["tag"]).split("_|-")
    return words[0], words[-1]


def _runs_always(state: Mapping[str, object]) -> bool:
    """Return whether salt says of a state that it would run, whatever the machine is like."""
    module, function = _module(state)
    return (
        module in _ALWAYS and function in _RUNS and state.get("result", False) is None
    )


def _identity(state: Mapping[str, object]) -> tuple[object, ...]:
    return (*_module(state), state.get("__id__"), state.get("name"))


def _guarded(place: protocol.Workplace) -> frozenset[tuple[object, ...]]:
    """Return the states that say when they need not run."""
    document = salt_run.read_return(_low(place)) or {}
    low = document.get("local")
    return frozenset(
        (one.get("state"), one.get("fun"), one.get("__id__"), one.get("name"))
        for one in (low if isinstance(low, list) else ())
        if isinstance(one, Mapping) and _GUARDS & one.keys()
    )


def _is_output(
    state: Mapping[str, object], request: protocol.Request, place: protocol.Workplace
) -> bool:
    return view.is_output(state.get("name"), request, place)


def _title(state: Mapping[str, object]) -> str:
    """Return the name of a state."""
    module, function = _module(state)
    return f"{module}.{function} {state.get('__id__')}"


def _change(state: Mapping[str, object]) -> Change:
    """Return the difference that a state tells."""
    comment = protocol.as_text(state.get("comment")).strip()
    changes = state.get("changes")
    shown = dict(changes) if isinstance(changes, Mapping) else {}
    diff = shown.pop("diff", None)
    lines = [f"{name}: {protocol.as_text(value)}" for name, value in shown.items()]
    parts = [verdict.tool_diff(diff)] if isinstance(diff, str) else []
    return Change(
        what=_title(state),
        how=comment.partition("\n")[0] or "would change",
        diff="\n".join([*parts, *([verdict.bounded(lines)] if lines else [])]),
    )


def _last(stderr: Path) -> str:
    """Return the last line of standard error."""
    try:
        text = files.read(stderr, files.LARGEST).decode("utf-8", "replace")
    except OSError:
        return ""
    return next(
        (line.strip() for line in reversed(text.splitlines()) if line.strip()), ""
    )
