"""Functions in the values of a template: parsed, and resolved as far as possible.

Both steps are Heat's. First the value is parsed: a map whose only key is the name of a function is a call of it,
and its arguments must have the right form. Then every function that depends on no resource is computed. In a property,
a failure of the second step is a mistake, and in an output a warning.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from heat_config_agent.diagnostics.diagnostics import Diagnostics
from heat_config_agent.diagnostics.words import meant
from heat_config_agent.model.errors import TimeOver, blame
from heat_config_agent.model.positions import Json, Path
from heat_config_hooks.words import CERTAIN
from heat_config_stack.definition import Later, Tree, Unresolved, limits, requires
from heat_config_stack.hot import versions
from heat_config_stack.hot.conditions import Conditions, Undecided, Wanting
from heat_config_stack.hot.functions.base import Function, Wrong, is_function
from heat_config_stack.hot.values import (
    NOTHING,
    UNKNOWN,
    Attribute,
    Call,
    Chosen,
    Facade,
    Failing,
    Reference,
    Unknown,
    is_settled,
    open_values,
)
from heat_config_stack.hot.versions import Version

FACADE = {"metadata": "metadata", "deletion_policy": "deletion_policy", "update_policy": "update_policy"}
FORMER_FACADE = {"Metadata": "metadata", "DeletionPolicy": "deletion_policy", "UpdatePolicy": "update_policy"}

POSITIONS = frozenset(
    {"list_join", "filter", "contains", "equals", "Fn::Join", "Fn::Select", "Fn::Split", "Fn::Replace"}
)
"""Functions whose arguments have positions, so that a missing one becomes null."""

DATA = frozenset({"get_input"})
"""Keys that look like functions, but belong to the tool that gets the value."""


@dataclass(slots=True)
class Scope:
    """Everything that the functions of one template may use."""

    version: Version
    parameters: Mapping[str, Tree]
    """Values by name, with pseudo parameters; `UNKNOWN` if there is no value yet."""
    content: Callable[[str], str | None]
    """Returns the content of the file of that name."""
    report: Diagnostics
    resources: frozenset[str] = frozenset()
    """The names of all resources that no condition has removed."""
    is_child: bool = False
    conditions: Conditions | None = None


# Parsing.


def parse(raw: Json, path: Path, scope: Scope) -> Tree:
    """Return the tree with its functions as `Call`s. Mistakes go to the report."""
    if type(raw) is str:
        return raw
    if isinstance(raw, list):
        return [parse(item, (*path, index), scope) for index, item in enumerate(raw)]
    if not isinstance(raw, dict):
        return raw
    if len(raw) == 1:
        [(name, args)] = raw.items()
        if name in scope.version.removed:
            parse(args, (*path, name), scope)  # Heat finds the mistakes of the arguments first
            return _removed(name, (*path, name), scope)
        if name in scope.version.functions:
            return _call(name, args, (*path, name), scope)
        _is_it_misspelt(name, (*path, name), scope)
    return {key: parse(item, (*path, key), scope) for key, item in raw.items()}


def _removed(name: str, path: Path, scope: Scope) -> Tree:
    hint = f"it was last in {versions.until(name)}"
    return _refused(f"The function {name} is not supported in this version of HOT.", path, scope, hint)


def _refused(problem: str, path: Path, scope: Scope, hint: str = "") -> Failing:
    scope.report.wrong(problem, path, hint)
    return Failing(problem, path, reported=True)


def _is_it_misspelt(name: str, path: Path, scope: Scope) -> None:
    """Warn of a map whose only key is nearly the name of a function, or is a function of another version."""
    if name in DATA:
        return
    what = f"{name} is not a function of {scope.version.name}: this map is used as it is"
    if name in versions.EVERY:
        since = versions.since(name)
        if since and since > scope.version.name:
            scope.report.warn(what, path, f"it exists from {since} on")
    elif hint := _near(name, scope.version.name):
        scope.report.warn(what, path, hint)


@functools.lru_cache(maxsize=1000)
def _near(name: str, version: str) -> str:
    """Return the hint that a function of that version may have been meant, or nothing."""
    plain = name.islower() or name.startswith("Fn::")  # no other name of a function has capitals
    return meant(name, versions.VERSIONS[version].functions, CERTAIN) if plain else ""


def _call(name: str, args: Json, path: Path, scope: Scope) -> Tree:
    if name == "if":
        return _if(args, path, scope)
    parsed = parse(args, path, scope)
    function = scope.version.functions[name]
    try:
        if function:
            function.check(parsed, name)
            return Call(name, parsed, path, lambda given: _limited(function, given, name))
        _check_innate(name, parsed, scope)
    except Wrong as error:
        return _refused(str(error), path, scope)
    if name == "get_file":
        is_literal = isinstance(parsed, str)
        return Call(name, parsed, path, lambda given: _file(name, given, scope, is_literal=is_literal))
    return Call(name, parsed, path, lambda given: _computed(name, given, path, scope))


def _limited(function: Function, args: Json, name: str) -> Json:
    """Return the value of a function, within limits of time and size. Raises `Unresolved`."""
    try:
        value = limits.within(limits.SECONDS, lambda: function.compute(args, name))
    except limits.TooMuch as error:
        verb = "" if str(error).startswith("it ") else "makes "
        raise Unresolved(f'"{name}" {verb}{str(error).removeprefix("it ")}') from None
    except RecursionError:
        raise Unresolved(f'"{name}" is nested too deeply') from None
    except MemoryError as error:
        raise Unresolved(f'"{name}": {blame(error)}') from None
    try:
        limits.fits(value)
    except limits.TooMuch as error:
        raise Unresolved(f'"{name}" makes {error}') from None
    return value


def _check_innate(name: str, args: Tree, scope: Scope) -> None:
    """Check the arguments of a function that uses the stack. Raises `Wrong`."""
    if name == "get_attr":
        if scope.version.all_attributes and not args:
            raise Wrong(f'Arguments to "{name}" can be [resource_name] or [resource_name, attribute, (path), ...]')
        if not isinstance(args, list) and not (scope.version.all_attributes and _is_letter(args)):
            raise Wrong(f'Argument to "{name}" must be a list')
        if not scope.version.all_attributes and len(args) < 2:
            raise Wrong(f'Arguments to "{name}" must be of the form [resource_name, attribute, (path), ...]')
    elif name in {"resource_facade", "Fn::ResourceFacade"} and not is_function(args):
        known = FACADE if name == "resource_facade" else FORMER_FACADE
        if not isinstance(args, str) or args not in known:
            raise Wrong(f'Incorrect arguments to "{name}" should be one of: {", ".join(known)}')


def _is_letter(args: Tree) -> bool:
    return isinstance(args, str) and len(args) == 1


def _if(args: Json, path: Path, scope: Scope) -> Tree:
    fewest = 2 if scope.version.nothing else 3
    if not isinstance(args, list) or not fewest <= len(args) <= 3:
        form = "[condition_name, value_if_true, value_if_false]"
        return _refused(f'Arguments to "if" must be of the form: {form}', path, scope)
    if decide(args[0], path, scope):
        return Chosen(parse(args[1], path, scope))
    return Chosen(parse(args[2], path, scope) if len(args) == 3 else NOTHING)


# Conditions.


def parse_condition(raw: Json, path: Path, scope: Scope) -> Tree:
    """Return a condition with its functions; only a few functions are allowed in conditions."""
    if isinstance(raw, list):
        return [parse_condition(item, (*path, index), scope) for index, item in enumerate(raw)]
    if not isinstance(raw, dict):
        return raw
    if len(raw) == 1:
        [(name, args)] = raw.items()
        at = (*path, name)
        if name in scope.version.condition_functions:
            return _condition_call(name, parse_condition(args, at, scope), at, scope)
        if name in scope.version.functions or name in scope.version.removed:
            parse_condition(args, at, scope)
            return _refused(
                f'The function "{name}" is invalid in this context', at, scope, "conditions see parameters only"
            )
    return {key: parse_condition(item, (*path, key), scope) for key, item in raw.items()}


def _condition_call(name: str, args: Tree, path: Path, scope: Scope) -> Tree:
    function = scope.version.condition_functions[name]
    if function is None:
        return Call(name, args, path, lambda arguments: _parameter(name, arguments, scope))
    try:
        function.check(args, name)
    except Wrong as error:
        return _refused(str(error), path, scope)
    return Call(name, args, path, lambda arguments: _limited(function, arguments, name))


def decide(raw: Json, path: Path, scope: Scope) -> bool:
    """Return whether a condition holds. One with mistakes, or with a parameter that has no value yet, holds."""
    before = len(scope.report.mistakes)
    condition = parse_condition(raw, path, scope)
    if len(scope.report.mistakes) > before or scope.conditions is None:
        return True
    try:
        return scope.conditions.holds(condition)
    except Undecided:
        return True
    except Wanting as error:
        if not error.reported:
            scope.report.wrong(str(error), path, error.hint)
        return True


# Computing.


def fold(tree: Tree, scope: Scope) -> Tree:
    """Return the tree with all functions computed that depend on no resource.

    An `if` without a value is `NOTHING`.
    """
    if type(tree) is str:
        return tree
    if isinstance(tree, dict):
        folded = {key: fold(item, scope) for key, item in tree.items()}
        return {key: item for key, item in folded.items() if item is not NOTHING}
    if isinstance(tree, list):
        return [folded for folded in (fold(item, scope) for item in tree) if folded is not NOTHING]
    if isinstance(tree, Chosen):
        return fold(tree.value, scope)
    if not isinstance(tree, Call):
        return tree
    args = _arguments(tree, scope)
    if tree.name == "get_attr":
        return _attribute(args, tree.path, scope)
    if not is_settled(args):
        if tree.name in {"get_resource", "Ref"}:
            return Failing(f'"{tree.name}" needs a name that is known before the stack is created', tree.path)
        if any(isinstance(value, Unknown) for value in open_values(args)):
            return Unknown(tuple(need for need in requires(args) if need.resource))
        return Call(tree.name, args, tree.path, tree.compute)
    try:
        return tree.compute(args)
    except Unresolved as error:
        return Failing(str(error), tree.path)
    except TimeOver:
        raise scope.report.refuse(limits.OUT_OF_TIME, tree.path) from None


def _arguments(call: Call, scope: Scope) -> Tree:
    """Return the resolved arguments of a function; if they have positions, a missing one is null."""
    args = call.args
    if isinstance(args, list) and call.name in POSITIONS:
        return [_or_null(fold(each, scope)) for each in args]
    if isinstance(args, dict):
        return {key: _or_null(fold(each, scope)) for key, each in args.items()}
    return _or_null(fold(args, scope))


def _or_null(value: Tree) -> Tree:
    return None if value is NOTHING else value


def _computed(name: str, args: Json, path: Path, scope: Scope) -> Tree:
    if name == "get_param":
        return _parameter(name, args, scope)
    if name == "Ref" and isinstance(args, str) and args in scope.parameters and args not in scope.resources:
        return scope.parameters[args]
    if name in {"get_resource", "Ref"}:
        if not isinstance(args, str) or args not in scope.resources:
            fatal = isinstance(args, list | dict) and bool(scope.resources)
            return Failing(f'The specified reference "{args}" is incorrect.', path, fatal=fatal)
        return Reference(args, path)
    known = FACADE if name == "resource_facade" else FORMER_FACADE
    if not isinstance(args, str) or args not in known:
        problem = f'Incorrect arguments to "{name}" should be one of: {", ".join(known)}'
        return Failing(problem, path, fatal=True)
    if not scope.is_child:
        raise Unresolved(f'"{name}" is for nested templates: this stack is not nested in another')
    return Facade(known[args])


def _parameter(name: str, args: Json, scope: Scope) -> Tree:
    """Return the value of get_param; a path that leads nowhere gives an empty text, as in Heat."""
    if not args:
        raise Unresolved(f'Function "{name}" must have arguments')
    parameter, *path = args if isinstance(args, list) else [args]
    if isinstance(args, dict) or not isinstance(parameter, str):
        raise Unresolved(f'"{name}" takes the name of a parameter, or a list that begins with one')
    if parameter not in scope.parameters:
        raise Unresolved(f"The Parameter ({parameter}) was not provided.")
    value = scope.parameters[parameter]
    if value is UNKNOWN:
        return value
    for key in path:
        try:
            value = value[int(key) if isinstance(value, list | str) and isinstance(key, str) else key]
        except (KeyError, IndexError, TypeError, ValueError):
            return ""
    return value


def _file(name: str, args: Json, scope: Scope, *, is_literal: bool) -> str:
    if not isinstance(args, str):
        raise Unresolved(f'Argument to "{name}" must be a string')
    content = scope.content(args)
    if content is None:
        problem = f'No content found in the "files" section for {name} path: {args}'
        why = "" if is_literal else ": the name must be literal, because files are read before functions are computed"
        raise Unresolved(f"{problem}{why}")
    return content


def _attribute(args: Tree, path: Path, scope: Scope) -> Tree:
    resource, attribute, *keys = [*args, None] if len(args) == 1 else args
    if isinstance(resource, Later) or isinstance(attribute, Later):
        return Failing("get_attr needs names that are known before the stack is created", path, fatal=True)
    if not isinstance(resource, str) or resource not in scope.resources:
        return Failing(f'The specified reference "{resource}" is incorrect.', path, fatal=True)
    if attribute is None and scope.version.all_attributes:
        return Attribute(resource, "", [], path, inner=True)
    if not isinstance(attribute, str):
        return Failing(f"The Referenced Attribute ({resource} {attribute}) is incorrect.", path, fatal=True)
    if any(isinstance(each, list | dict) for each in keys):
        return Failing("the path of get_attr is one of keys and indexes, not of lists and maps", path, fatal=True)
    return Attribute(resource, attribute, keys, path, inner=scope.version.paths)
