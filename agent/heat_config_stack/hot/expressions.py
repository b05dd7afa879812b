"""Functions in the values of a template: parsed, and resolved as far as possible; conditions, and which of them hold.

Both steps are Heat's. First the value is parsed: a map whose only key is the name of a function is a call of it,
and its arguments must have the right form. Then every function that depends on no resource is computed. In a property,
a failure of the second step is a mistake, and in an output a warning. A condition is evaluated when it is first needed,
and only once.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from heat_config_agent.diagnostics.diagnostics import Diagnostics
from heat_config_agent.diagnostics.words import meant
from heat_config_agent.model.errors import TimeOver, blame
from heat_config_agent.model.positions import Json, Path
from heat_config_hooks.words import CERTAIN
from heat_config_stack.definition import (
    Later,
    Look,
    Need,
    Tree,
    Unresolved,
    limits,
    requires,
    resolve,
    select,
)
from heat_config_stack.hot import versions
from heat_config_stack.hot.functions.base import Function, Wrong, is_function
from heat_config_stack.hot.versions import Version

NOTHING = object()
"""The value of an `if` without an else: the entry or item with it is left out."""


class Call(Later):
    """A function with its arguments."""

    __slots__ = ("args", "compute", "name", "path")

    def __init__(
        self, name: str, args: Tree, path: Path, compute: Callable[[Json], Tree]
    ) -> None:
        self.name, self.args, self.path, self.compute = name, args, path, compute

    @property
    def requires(self) -> tuple[Need, ...]:
        return tuple(requires(self.args))

    def resolve(self, look: Look) -> Json:
        return resolve(self.compute(resolve(self.args, look)), look)


class Chosen(Later):
    """The chosen branch of an `if`. Other functions treat it as a function."""

    __slots__ = ("value",)

    def __init__(self, value: Tree) -> None:
        self.value = value


class Failing(Later):
    """A function that surely fails."""

    __slots__ = ("fatal", "path", "problem", "reported")

    def __init__(
        self, problem: str, path: Path, *, reported: bool = False, fatal: bool = False
    ) -> None:
        """Take the reason; `reported` if it is a mistake already, `fatal` if it is a mistake in outputs too."""
        self.problem, self.path, self.reported, self.fatal = (
            problem,
            path,
            reported,
            fatal,
        )

    @property
    def requires(self) -> tuple[Need, ...]:
        return ()

    def resolve(self, _look: Look) -> Json:
        raise Unresolved(self.problem)


class Unknown(Later):
    """A value that depends on a parameter without a value."""

    __slots__ = ("needs",)

    def __init__(self, needs: tuple[Need, ...] = ()) -> None:
        """Take the resources that it depends on besides."""
        self.needs = needs

    @property
    def requires(self) -> tuple[Need, ...]:
        return (Need(""), *self.needs)  # no resource makes it known

    def resolve(self, _look: Look) -> Json:
        return None


UNKNOWN = Unknown()


class Reference(Later):
    """get_resource."""

    __slots__ = ("path", "resource")

    def __init__(self, resource: str, path: Path) -> None:
        self.resource, self.path = resource, path

    @property
    def requires(self) -> tuple[Need, ...]:
        return (Need(self.resource, None, self.path),)

    def resolve(self, look: Look) -> Json:
        return look.reference(self.resource)


class Attribute(Later):
    """get_attr. An empty `attribute` means all of them; with `inner`, the resource itself resolves the path."""

    __slots__ = ("attribute", "inner", "keys", "path", "resource")

    def __init__(
        self,
        resource: str,
        attribute: str,
        keys: list[Tree],
        path: Path,
        *,
        inner: bool,
    ) -> None:
        self.resource, self.attribute, self.keys, self.path, self.inner = (
            resource,
            attribute,
            keys,
            path,
            inner,
        )

    @property
    def requires(self) -> tuple[Need, ...]:
        if not self.keys:
            return (Need(self.resource, self.attribute, self.path),)
        known = self.inner and all(isinstance(each, str | int) for each in self.keys)
        keys = tuple(self.keys) if known else ()
        return (
            Need(self.resource, self.attribute, self.path, keys),
            *requires(self.keys),
        )

    def resolve(self, look: Look) -> Json:
        if not self.attribute:
            return look.attributes(self.resource)
        keys = resolve(self.keys, look)
        if self.inner:
            if any(isinstance(key, list | dict) for key in keys):
                raise Unresolved(
                    "the path of get_attr is one of keys and indexes, not of lists and maps"
                )
            return look.attribute(self.resource, self.attribute, keys)
        return select(look.attribute(self.resource, self.attribute, ()), keys)


class Facade(Later):
    """resource_facade."""

    __slots__ = ("what",)

    def __init__(self, what: str) -> None:
        self.what = what

    @property
    def requires(self) -> tuple[Need, ...]:
        return ()

    def resolve(self, look: Look) -> Json:
        return look.facade(self.what)


def open_values(tree: Tree) -> Iterator[Later]:
    """Yield every `Later` in a tree, also those in arguments of functions."""
    if isinstance(tree, Later):
        yield tree
        if isinstance(tree, Call):
            yield from open_values(tree.args)
        elif isinstance(tree, Attribute):
            yield from open_values(tree.keys)
    elif isinstance(tree, dict):
        for value in tree.values():
            yield from open_values(value)
    elif isinstance(tree, list):
        for value in tree:
            yield from open_values(value)


def is_settled(tree: Tree) -> bool:
    """Return whether a tree is plain JSON."""
    return next(open_values(tree), None) is None


class Undecided(Exception):  # noqa: N818  # no error
    """The condition depends on a parameter whose value is not given yet."""


class Wanting(Exception):  # noqa: N818  # it is the condition that is
    """A condition has a mistake, so it cannot be evaluated."""

    def __init__(self, problem: str, hint: str = "", *, reported: bool = False) -> None:
        super().__init__(problem)
        self.hint, self.reported = hint, reported


class Conditions:
    """The conditions of one template, by name."""

    def __init__(self, definitions: Mapping[str, Callable[[], Tree]]) -> None:
        """Take for each name a function that returns the parsed definition."""
        self._definitions = definitions
        self._known: dict[str, bool] = {}
        self._asked: list[str] = []

    def holds(self, condition: Tree) -> bool:
        """Return whether a condition holds: a name, a boolean, a function, or null, which holds.

        Raises `Wanting` or `Undecided`.
        """
        value = self._data(condition)
        if isinstance(value, bool) or value is None:
            return value is not False
        if not isinstance(value, str) or value not in self._definitions:
            hint = meant(value, self._definitions) if isinstance(value, str) else ""
            raise Wanting(
                f'Invalid condition "{value}"',
                hint or "it takes a condition's name, true, false or a function",
            )
        return self._named(value)

    def _named(self, name: str) -> bool:
        if name in self._known:
            return self._known[name]
        if name in self._asked:
            way = " → ".join([*self._asked[self._asked.index(name) :], name])
            raise Wanting(f'Circular definition for condition "{name}"', way)
        self._asked.append(name)
        try:
            value = self._value(self._definitions[name]())
        finally:
            self._asked.remove(name)
        if not isinstance(value, bool):
            raise Wanting(
                f'The definition of condition "{name}" is invalid: {value}',
                "its result must be true or false",
            )
        self._known[name] = value
        return value

    def _value(self, tree: Tree) -> Json:
        """Return the value of a function, or the tree itself if it is not a function."""
        if isinstance(tree, Failing):
            raise Wanting(tree.problem, reported=tree.reported)
        if not isinstance(tree, Call):
            return tree
        if tree.name == "not":
            return not self.holds(tree.args)
        if tree.name in {"and", "or"}:
            # As in Heat, functions are computed before the first condition is asked for, and names after it.
            held = (self.holds(each) for each in self._data(tree.args))
            return all(held) if tree.name == "and" else any(held)
        try:
            value = tree.compute(self._data(tree.args))
        except Unresolved as error:
            raise Wanting(str(error)) from None
        if value is UNKNOWN:
            raise Undecided
        return value

    def _data(self, tree: Tree) -> Json:
        if isinstance(tree, Later):
            return self._value(tree)
        if isinstance(tree, dict):
            return {key: self._data(each) for key, each in tree.items()}
        if isinstance(tree, list):
            return [self._data(each) for each in tree]
        return tree


FACADE = {
    "metadata": "metadata",
    "deletion_policy": "deletion_policy",
    "update_policy": "update_policy",
}
FORMER_FACADE = {
    "Metadata": "metadata",
    "DeletionPolicy": "deletion_policy",
    "UpdatePolicy": "update_policy",
}

POSITIONS = frozenset(
    {
        "list_join",
        "filter",
        "contains",
        "equals",
        "Fn::Join",
        "Fn::Select",
        "Fn::Split",
        "Fn::Replace",
    }
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
            # Heat finds the mistakes of the arguments first
            parse(args, (*path, name), scope)
            return _removed(name, (*path, name), scope)
        if name in scope.version.functions:
            return _call(name, args, (*path, name), scope)
        _is_it_misspelt(name, (*path, name), scope)
    return {key: parse(item, (*path, key), scope) for key, item in raw.items()}


def _removed(name: str, path: Path, scope: Scope) -> Tree:
    hint = f"it was last in {versions.until(name)}"
    return _refused(
        f"The function {name} is not supported in this version of HOT.",
        path,
        scope,
        hint,
    )


def _refused(problem: str, path: Path, scope: Scope, hint: str = "") -> Failing:
    scope.report.wrong(problem, path, hint)
    return Failing(problem, path, reported=True)


def _is_it_misspelt(name: str, path: Path, scope: Scope) -> None:
    """Warn of a map whose only key is nearly the name of a function, or is a function of another version."""
    if name in DATA:
        return
    what = (
        f"{name} is not a function of {scope.version.name}: this map is used as it is"
    )
    if name in versions.EVERY:
        since = versions.since(name)
        if since and since > scope.version.name:
            scope.report.warn(what, path, f"it exists from {since} on")
    elif hint := _near(name, scope.version.name):
        scope.report.warn(what, path, hint)


@functools.lru_cache(maxsize=1000)
def _near(name: str, version: str) -> str:
    """Return the hint that a function of that version may have been meant, or nothing."""
    # no other name of a function has capitals
    plain = name.islower() or name.startswith("Fn::")
    return meant(name, versions.VERSIONS[version].functions, CERTAIN) if plain else ""


def _call(name: str, args: Json, path: Path, scope: Scope) -> Tree:
    if name == "if":
        return _if(args, path, scope)
    parsed = parse(args, path, scope)
    function = scope.version.functions[name]
    try:
        if function:
            function.check(parsed, name)
            return Call(
                name, parsed, path, lambda given: _limited(function, given, name)
            )
        _check_innate(name, parsed, scope)
    except Wrong as error:
        return _refused(str(error), path, scope)
    if name == "get_file":
        is_literal = isinstance(parsed, str)
        return Call(
            name,
            parsed,
            path,
            lambda given: _file(name, given, scope, is_literal=is_literal),
        )
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
            raise Wrong(
                f'Arguments to "{name}" can be [resource_name] or [resource_name, attribute, (path), ...]'
            )
        if not isinstance(args, list) and not (
            scope.version.all_attributes and _is_letter(args)
        ):
            raise Wrong(f'Argument to "{name}" must be a list')
        if not scope.version.all_attributes and len(args) < 2:
            raise Wrong(
                f'Arguments to "{name}" must be of the form [resource_name, attribute, (path), ...]'
            )
    elif name in {"resource_facade", "Fn::ResourceFacade"} and not is_function(args):
        known = FACADE if name == "resource_facade" else FORMER_FACADE
        if not isinstance(args, str) or args not in known:
            raise Wrong(
                f'Incorrect arguments to "{name}" should be one of: {", ".join(known)}'
            )


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
        return [
            parse_condition(item, (*path, index), scope)
            for index, item in enumerate(raw)
        ]
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
                f'The function "{name}" is invalid in this context',
                at,
                scope,
                "conditions see parameters only",
            )
    return {
        key: parse_condition(item, (*path, key), scope) for key, item in raw.items()
    }


def _condition_call(name: str, args: Tree, path: Path, scope: Scope) -> Tree:
    function = scope.version.condition_functions[name]
    if function is None:
        return Call(
            name, args, path, lambda arguments: _parameter(name, arguments, scope)
        )
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
        return [
            folded
            for folded in (fold(item, scope) for item in tree)
            if folded is not NOTHING
        ]
    if isinstance(tree, Chosen):
        return fold(tree.value, scope)
    if not isinstance(tree, Call):
        return tree
    args = _arguments(tree, scope)
    if tree.name == "get_attr":
        return _attribute(args, tree.path, scope)
    if not is_settled(args):
        if tree.name in {"get_resource", "Ref"}:
            return Failing(
                f'"{tree.name}" needs a name that is known before the stack is created',
                tree.path,
            )
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
    if (
        name == "Ref"
        and isinstance(args, str)
        and args in scope.parameters
        and args not in scope.resources
    ):
        return scope.parameters[args]
    if name in {"get_resource", "Ref"}:
        if not isinstance(args, str) or args not in scope.resources:
            fatal = isinstance(args, list | dict) and bool(scope.resources)
            return Failing(
                f'The specified reference "{args}" is incorrect.', path, fatal=fatal
            )
        return Reference(args, path)
    known = FACADE if name == "resource_facade" else FORMER_FACADE
    if not isinstance(args, str) or args not in known:
        problem = (
            f'Incorrect arguments to "{name}" should be one of: {", ".join(known)}'
        )
        return Failing(problem, path, fatal=True)
    if not scope.is_child:
        raise Unresolved(
            f'"{name}" is for nested templates: this stack is not nested in another'
        )
    return Facade(known[args])


def _parameter(name: str, args: Json, scope: Scope) -> Tree:
    """Return the value of get_param; a path that leads nowhere gives an empty text, as in Heat."""
    if not args:
        raise Unresolved(f'Function "{name}" must have arguments')
    parameter, *path = args if isinstance(args, list) else [args]
    if isinstance(args, dict) or not isinstance(parameter, str):
        raise Unresolved(
            f'"{name}" takes the name of a parameter, or a list that begins with one'
        )
    if parameter not in scope.parameters:
        raise Unresolved(f"The Parameter ({parameter}) was not provided.")
    value = scope.parameters[parameter]
    if value is UNKNOWN:
        return value
    for key in path:
        try:
            value = value[
                int(key)
                if isinstance(value, list | str) and isinstance(key, str)
                else key
            ]
        except (KeyError, IndexError, TypeError, ValueError):
            return ""
    return value


NO_CONTENT = 'No content found in the "files" section'
"""The problem of a file that the template does not have, in Heat's words."""


def _file(name: str, args: Json, scope: Scope, *, is_literal: bool) -> str:
    if not isinstance(args, str):
        raise Unresolved(f'Argument to "{name}" must be a string')
    content = scope.content(args)
    if content is None:
        problem = f"{NO_CONTENT} for {name} path: {args}"
        why = (
            ""
            if is_literal
            else ": the name must be literal, because files are read before functions are computed"
        )
        raise Unresolved(f"{problem}{why}")
    return content


def _attribute(args: Tree, path: Path, scope: Scope) -> Tree:
    resource, attribute, *keys = [*args, None] if len(args) == 1 else args
    if isinstance(resource, Later) or isinstance(attribute, Later):
        return Failing(
            "get_attr needs names that are known before the stack is created",
            path,
            fatal=True,
        )
    if not isinstance(resource, str) or resource not in scope.resources:
        return Failing(
            f'The specified reference "{resource}" is incorrect.', path, fatal=True
        )
    if attribute is None and scope.version.all_attributes:
        return Attribute(resource, "", [], path, inner=True)
    if not isinstance(attribute, str):
        return Failing(
            f"The Referenced Attribute ({resource} {attribute}) is incorrect.",
            path,
            fatal=True,
        )
    if any(isinstance(each, list | dict) for each in keys):
        return Failing(
            "the path of get_attr is one of keys and indexes, not of lists and maps",
            path,
            fatal=True,
        )
    return Attribute(resource, attribute, keys, path, inner=scope.version.paths)
