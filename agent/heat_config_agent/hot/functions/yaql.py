"""The function yaql, by the library of that name, which is an extra: few templates need it."""

from __future__ import annotations

import functools
import importlib
from typing import Any

from heat_config_agent.hot.functions.base import Function, Wrong, is_function
from heat_config_agent.stack.definition import Json, Tree, Unresolved

MISSING = "yaql is not installed here: pip install 'heat-config-agent[yaql]'"

_OPTIONS = {"yaql.limitIterators": 200, "yaql.memoryQuota": 10000}
"""Elements and bytes: Heat's own limits, unless somebody has set others there."""


def _check(args: Tree, name: str) -> None:
    if not isinstance(args, dict):
        raise Wrong(f'Arguments to "{name}" must be a map.')
    if "expression" not in args or args.keys() - {"expression", "data"}:
        raise Wrong(f'"{name}" syntax should be {name}: {{expression: $.data.var1.sum(), data: {{var1: [3, 2, 1]}}}}')
    if not is_function(args["expression"]):
        try:
            _parsed(args["expression"], name)
        except Unresolved as error:
            raise Wrong(str(error)) from None


def _parsed(expression: Json, name: str) -> Any:
    if not isinstance(expression, str):
        raise Unresolved(f'The "expression" argument to {name} must contain a string.')
    engine, yaql_error, _ = _engine()
    try:
        return engine(expression)
    except yaql_error as error:
        raise Unresolved(f"Bad expression {error}.") from None


@functools.lru_cache(maxsize=1)
def _engine() -> tuple[Any, type[Exception], Any]:
    try:
        yaql: Any = importlib.import_module("yaql")  # slow to load, and not there everywhere
        exceptions: Any = importlib.import_module("yaql.language.exceptions")
    except ImportError:
        raise Unresolved(MISSING) from None
    return yaql.YaqlFactory().create(_OPTIONS), exceptions.YaqlException, yaql.create_context()


def _compute(args: Json, name: str) -> Json:
    statement = _parsed(args["expression"], name)
    _, yaql_error, context = _engine()
    try:
        return _json(statement.evaluate({"data": args.get("data", {})}, context.create_child_context()))
    except yaql_error as error:
        raise Unresolved(str(error)) from None
    except KeyError as error:
        raise Unresolved(f'"{name}": there is no {error} in the data') from None
    except (ValueError, TypeError, LookupError, ArithmeticError, AttributeError) as error:
        raise Unresolved(f'"{name}": {error}') from None


def _json(value: Any) -> Json:
    """Return what yaql has made as JSON: it has kinds of lists and maps of its own."""
    if isinstance(value, dict) or hasattr(value, "items"):
        return {str(key): _json(each) for key, each in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_json(each) for each in value]
    if value is None or isinstance(value, str | int | float):
        return value
    return [_json(each) for each in value] if hasattr(value, "__iter__") else str(value)


YAQL = Function(_compute, _check)
