"""The function yaql. It needs the library of that name, which is an optional dependency."""

from __future__ import annotations

import functools
import importlib
from typing import Any

from heat_config_agent.model.errors import blame
from heat_config_agent.model.positions import Json
from heat_config_stack.definition import Tree, Unresolved, limits
from heat_config_stack.hot.functions.base import LONGEST, Function, Wrong, is_function

MISSING = "yaql is not installed here: pip install 'heat-config-agent[yaql]'"

_OPTIONS = {"yaql.limitIterators": 200, "yaql.memoryQuota": 10000}
"""Elements and bytes: the defaults of Heat's own limits."""


def _check(args: Tree, name: str) -> None:
    if not isinstance(args, dict):
        raise Wrong(f'Arguments to "{name}" must be a map.')
    if "expression" not in args or args.keys() - {"expression", "data"}:
        raise Wrong(
            f'"{name}" syntax should be {name}: {{expression: $.data.var1.sum(), data: {{var1: [3, 2, 1]}}}}'
        )
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
        return limits.within(limits.SECONDS, lambda: engine(expression))
    except yaql_error as error:
        raise Unresolved(f"Bad expression {error}.") from None
    except RecursionError:
        raise Unresolved("Bad expression: it is nested too deeply.") from None
    except limits.TooMuch as error:
        raise Unresolved(f"Bad expression: {error}.") from None
    except MemoryError:
        raise
    except Exception as error:  # noqa: BLE001  # its parser, of odd input
        raise Unresolved(f"Bad expression: {_problem(error)}.") from None


@functools.lru_cache(maxsize=1)
def _engine() -> tuple[Any, type[Exception], Any]:
    try:
        # slow to load, and not there everywhere
        yaql: Any = importlib.import_module("yaql")
        exceptions: Any = importlib.import_module("yaql.language.exceptions")
    except ImportError:
        raise Unresolved(MISSING) from None
    return (
        yaql.YaqlFactory().create(_OPTIONS),
        exceptions.YaqlException,
        yaql.create_context(),
    )


def _compute(args: Json, name: str) -> Json:
    statement = _parsed(args["expression"], name)
    _, yaql_error, context = _engine()
    try:
        with limits.memory():
            return _json(
                statement.evaluate(
                    {"data": args.get("data", {})}, context.create_child_context()
                )
            )
    except yaql_error as error:
        raise Unresolved(str(error)) from None
    except RecursionError:
        raise Unresolved(
            f'"{name}": the expression goes into itself too deeply'
        ) from None
    except KeyError as error:
        raise Unresolved(f'"{name}": there is no {error} in the data') from None
    except (limits.TooMuch, MemoryError):
        raise
    except Exception as error:  # noqa: BLE001  # yaql's functions raise any exception of Python
        raise Unresolved(f'"{name}": {_problem(error)}') from None


def _problem(error: Exception) -> str:
    """Return the message of an exception, or its class if there is none.

    Of a long value Python repeats the beginning, and half of a secret would not be recognised as one.
    """
    text = blame(error)
    return text if 0 < len(text) <= LONGEST else type(error).__name__


def _json(value: Any) -> Json:
    """Return a result of yaql as JSON: yaql has lists and maps of its own types."""
    if isinstance(value, dict) or hasattr(value, "items"):
        return {str(key): _json(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_json(item) for item in value]
    if value is None or isinstance(value, str | int | float):
        return value
    return [_json(item) for item in value] if hasattr(value, "__iter__") else str(value)


YAQL = Function(_compute, _check)
