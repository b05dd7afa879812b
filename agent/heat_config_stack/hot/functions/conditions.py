"""The functions of conditions. A condition is the name of a condition, a boolean, or one of these functions.

`and`, `or` and `not` stay as they are until they are asked: their names are looked up by the code that knows them, and
only as far as is needed.
"""

from __future__ import annotations

from heat_config_agent.model.positions import Json
from heat_config_stack.definition import Tree
from heat_config_stack.hot.functions.base import Function, Wrong


def _check_equals(args: Tree, name: str) -> None:
    if not isinstance(args, list) or len(args) != 2:
        raise Wrong(f'Arguments to "{name}" must be of the form: [value_1, value_2]')


def _equals(args: Json, _name: str) -> Json:
    return bool(args[0] == args[1])


def _check_several(args: Tree, name: str) -> None:
    if not isinstance(args, list):
        raise Wrong(f'Arguments to "{name}" must be a list of conditions')
    if len(args) < 2:
        raise Wrong(f'The minimum number of condition arguments to "{name}" is 2.')


def _check_not(args: Tree, name: str) -> None:
    if args is None:
        raise Wrong(f'Argument to "{name}" must be a condition')


def _asked(_args: Json, _name: str) -> Json:
    raise NotImplementedError


EQUALS = Function(_equals, _check_equals)
AND = Function(_asked, _check_several)
OR = Function(_asked, _check_several)
NOT = Function(_asked, _check_not)
