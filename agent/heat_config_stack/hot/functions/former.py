"""Functions of CloudFormation, which the first versions of HOT have too."""

from __future__ import annotations

import json
import re

from heat_config_agent.model.positions import Json
from heat_config_stack.definition import Tree, Unresolved, limits
from heat_config_stack.hot.functions import texts
from heat_config_stack.hot.functions.base import Function, Wrong, shape, shown

_SPLIT = '[ ",", "str1,str2"]]'
_REPLACE = '[ {"$var1": "foo", "%var2%": "bar"}, "$var1 is %var2%"]'
_MEMBER = re.compile(r"\.member\.(\d+)\.(.*)", re.DOTALL)


def _check_select(args: Tree, name: str) -> None:
    if not isinstance(args, list) or len(args) != 2:
        raise Wrong(f'Arguments to "{name}" must be of the form [index, collection]')


def _select(args: Json, name: str) -> Json:
    index, values = args
    if values is None or values == "":
        return ""
    if isinstance(values, str):
        try:
            values = json.loads(values)
        except RecursionError:
            raise Unresolved(f'"{name}": this JSON is nested too deeply') from None
        except ValueError as error:
            raise Unresolved(f'"{name}": {error}') from None
    if isinstance(values, dict):
        if not isinstance(index, str):
            raise Unresolved(f'Index to "{name}" must be a string')
        return values.get(index, "")
    if not isinstance(values, list):
        raise Unresolved(
            f'"{name}" selects from a list or a map, not from {shown(values)}'
        )
    try:
        return values[int(index)]
    except (ValueError, TypeError, OverflowError):
        raise Unresolved(f'Index to "{name}" must be an integer') from None
    except IndexError:
        return ""


def _check_split(args: Tree, name: str) -> None:
    if not isinstance(args, list) or len(args) != 2:
        raise Wrong(shape(name, _SPLIT))


def _split(args: Json, name: str) -> Json:
    delimiter, value = args
    if not isinstance(delimiter, str):
        raise Unresolved(f"Delimiter for {name} must be string")
    if not isinstance(value, str):
        raise Unresolved(f"String to split must be string; got {shown(value)}")
    if not delimiter:
        raise Unresolved(f'"{name}" cannot split by nothing: empty separator')
    return limits.split(value, delimiter)


def _check_replace(args: Tree, name: str) -> None:
    if not isinstance(args, list) or len(args) != 2:
        raise Wrong(shape(name, _REPLACE))
    texts.need_params(args[0], name)


def _replace(args: Json, name: str) -> Json:
    params, template = args
    return texts.replaced(template, params, name)


def _as_it_is(args: Json, name: str) -> Json:
    """Fn::Base64: as in Heat, nothing is encoded."""
    if not isinstance(args, str):
        raise Unresolved(f'"{name}" argument must be a string')
    return args


def _check_members(args: Tree, name: str) -> None:
    if not isinstance(args, list) or len(args) != 3:
        raise Wrong(
            shape(
                name,
                '["Name", "Value", [".member.0.Name=key", ".member.0.Value=door"]]',
            )
        )
    for each, what in zip(args, ("Key", "Value"), strict=False):
        if not isinstance(each, str):
            raise Wrong(f"{name} {what} Name must be a string")


def _members(args: Json, name: str) -> Json:
    key_name, value_name, items = args
    if not isinstance(items, list):
        raise Unresolved("Member list must be a list")
    members: dict[int, dict[str, str]] = {}
    for item in items:
        if not isinstance(item, str) or "=" not in item:
            raise Unresolved(
                f"{name}: Member list items must be strings of the form .member.N.NAME=VALUE"
            )
        key, _, value = item.partition("=")
        found = _MEMBER.match(key)
        if found:
            members.setdefault(int(found[1]), {})[found[2]] = value
    complete = (
        each
        for _, each in sorted(members.items())
        if key_name in each and value_name in each
    )
    return {each[key_name]: each[value_name] for each in complete}


def _zones(_args: Json, _name: str) -> Json:
    """Fn::GetAZs: the answer of a Heat that cannot ask a cloud."""
    return ["nova"]


JOIN = Function(texts.join, texts.check_join)
SELECT = Function(_select, _check_select)
SPLIT = Function(_split, _check_split)
REPLACE = Function(_replace, _check_replace)
BASE64 = Function(_as_it_is)
MEMBERS = Function(_members, _check_members)
ZONES = Function(_zones)
