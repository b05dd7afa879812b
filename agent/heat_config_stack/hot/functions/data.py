"""Functions of lists, maps and conditions.

A condition is the name of a condition, a boolean, or a function. `and`, `or` and `not` stay as they are until they are
asked: their names are looked up by the code that knows them, and only as far as is needed.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator

from heat_config_agent.model.positions import Json
from heat_config_stack.definition import Tree, Unresolved, limits
from heat_config_stack.hot.functions.base import (
    Function,
    Wrong,
    as_list,
    is_function,
    need_map,
    shape,
    shown,
    text,
)

_MERGE = '[ { "key1": "val1" }, { "key2": "val2" } ]'
_REPLACE = (
    '[ { "key1": "val1" }, {"keys": {"key1": "key2"}, "values": {"val1": "val2"}}]'
)
_CONCAT = "[ [ <value 1>, <value 2> ], [ <value 3>, <value 4> ] ]"
_CONTAINS = '[ "value1", [ "value1", "value2"]]'


def merge(args: Json, name: str) -> Json:
    """map_merge."""
    if not isinstance(args, list):
        raise Unresolved(shape(name, _MERGE))
    merged: dict[str, Json] = {}
    for item in args:
        if item is not None and not isinstance(item, dict):
            raise Unresolved(
                f"Incorrect arguments: Items to merge must be maps. {shown(item)} is not a map"
            )
        merged.update(item or {})
        limits.Room().spend(values=len(merged))
    return merged


def map_replace(args: Json, name: str) -> Json:
    """map_replace: keys first, then values."""
    if not isinstance(args, list) or len(args) != 2:
        raise Unresolved(shape(name, _REPLACE))
    original, how = (_map(each, name) for each in args)
    if how.keys() - {"keys", "values"}:
        raise Unresolved(shape(name, _REPLACE))
    keys, values = (_map(how.get(each, {}), name) for each in ("keys", "values"))
    replaced: dict[str, Json] = {}
    for key, value in original.items():
        new = keys.get(key)
        if new is None:
            new = key
        elif isinstance(new, list | dict):
            raise Unresolved(f'"{name}" cannot make {shown(new)} a key: a key is text')
        elif not isinstance(new, str):
            new = text(new)
        if new in original and new != key:
            raise Unresolved(
                f"key replacement {new} collides with a key in the input map"
            )
        if new in replaced:
            raise Unresolved(
                f"key replacement {new} collides with a key in the output map"
            )
        replaced[new] = _replaced(value, values)
    return replaced


def _map(value: Json, name: str) -> dict[str, Json]:
    if value is not None and not isinstance(value, dict):
        raise Unresolved(
            f'Incorrect arguments: to "{name}", arguments must be a list of maps. Example: {_REPLACE}'
        )
    return value or {}


def _replaced(value: Json, values: dict[str, Json]) -> Json:
    """Return the replacement of a value. Keys of JSON are text, so only text is ever replaced."""
    return values.get(value, value) if isinstance(value, str) else value


def concat(args: Json, name: str) -> Json:
    """list_concat."""
    if not isinstance(args, list):
        raise Unresolved(shape(name, _CONCAT))
    wrong = any(item is not None and not isinstance(item, list) for item in args)
    value = text(args) if wrong else ""
    problem = f"Incorrect arguments: Items to concat must be lists. {value} contains an item that is not a list"
    lists = [as_list(item, problem) for item in args]
    limits.Room().spend(values=sum(map(len, lists)))
    return list(itertools.chain.from_iterable(lists))


def concat_unique(args: Json, name: str) -> Json:
    """list_concat_unique: of equal items the first is kept."""
    found: list[Json] = []
    for item in concat(args, name):
        if item not in found:
            found.append(item)
    return found


def check_filter(args: Tree, name: str) -> None:
    """Raise `Wrong` unless the arguments are values and a list."""
    if not isinstance(args, list):
        raise Wrong(f'Argument to "{name}" must be a list')
    if len(args) != 2:
        raise Wrong(
            f'"{name}" expected 2 arguments of the form [values, sequence] but got {len(args)} arguments instead'
        )


def filtered(args: Json, name: str) -> Json:
    """Compute filter: the list without those values."""
    values, items = args
    if not items:
        return items
    if not isinstance(items, list):
        raise Unresolved(f'"{name}" only works with lists')
    if not values:
        return items
    if not isinstance(values, list):
        raise Unresolved(f'"{name}" filters a list of values')
    return [item for item in items if item not in values]


def check_contains(args: Tree, name: str) -> None:
    """Raise `Wrong` unless the arguments are a value and a list."""
    if not args or not isinstance(args, list):
        raise Wrong(shape(name, _CONTAINS))
    if len(args) != 2:
        raise Wrong(
            f'Arguments to "{name}" must be of the form: [value1, [value1, value2]]'
        )


def contains(args: Json, name: str) -> Json:
    """Compute contains: also whether one text is in another."""
    value, items = args
    if not isinstance(items, list | str):
        raise Unresolved(f'Second argument to "{name}" should be a sequence.')
    if isinstance(items, str) and not isinstance(value, str):
        raise Unresolved(f'"{name}" looks for text in text, not for {shown(value)}')
    return value in items


# repeat


def check_repeat(args: Tree, name: str) -> None:
    """Raise `Wrong` unless the arguments have a template and `for_each`."""
    need_map(args, name)
    if "for_each" not in args or "template" not in args:
        raise Wrong(
            f'"{name}" syntax should be {name}: {{template: This is %var%, for_each: {{%var%: [a, b, c]}}}}'
        )
    if not isinstance(args["for_each"], dict) and not is_function(args["for_each"]):
        raise Wrong(f'The "for_each" argument to "{name}" must contain a map')


def check_repeat_in_step(args: Tree, name: str) -> None:
    """Raise `Wrong` unless the arguments have a template, `for_each` and at most `permutations`."""
    check_repeat(args, name)
    if not isinstance(args.get("permutations", True), bool):
        raise Wrong(f'"permutations" should be boolean type for {name} function.')


def _repeat(*, maps: bool, in_step: bool) -> Callable[[Json, str], Json]:
    def compute(args: Json, name: str) -> Json:
        permuted = args.get("permutations", True) if in_step else True
        for_each = args["for_each"]
        if not isinstance(for_each, dict):
            raise Unresolved(f'The "for_each" argument to "{name}" must contain a map')
        if not for_each:
            raise Unresolved(f'"{name}" has nothing in its "for_each"')
        kinds = "lists or maps" if maps and permuted else "lists"
        lists: list[list[Json]] = []
        for items in for_each.values():
            if (
                not isinstance(items, list)
                and not (isinstance(items, dict) and kinds != "lists")
                and items is not None
            ):
                raise Unresolved(
                    f'The values of the "for_each" argument to "{name}" must be {kinds}'
                )
            lists.append(list(items or []))
        if not permuted:
            if (
                len({len(items) for items in for_each.values() if items is not None})
                > 1
            ):
                raise Unresolved(
                    f"For {name}, the length of for_each values should be equal if no nested loop."
                )
            combinations: Iterator[tuple[Json, ...]] = zip(*lists, strict=False)
        else:
            limits.product(list(map(len, lists)))
            combinations = itertools.product(*lists)
        room, results = limits.Room(), []
        for combination in combinations:
            result = _filled(args["template"], tuple(for_each), combination)
            room.take(result)
            results.append(result)
        return results

    return compute


def _filled(template: Json, keys: tuple[str, ...], values: tuple[Json, ...]) -> Json:
    """Return the template with each key replaced, one after the other, in texts and in keys of maps."""
    if isinstance(template, str):
        for key, value in zip(keys, values, strict=True):
            if not isinstance(value, str):
                raise Unresolved(f"only text can replace {key}, not {shown(value)}")
            template = limits.replaced(template, key, value)
        return template
    if isinstance(template, list):
        return [_filled(each, keys, values) for each in template]
    if isinstance(template, dict):
        return {
            _filled(key, keys, values): _filled(each, keys, values)
            for key, each in template.items()
        }
    return template


MAP_MERGE = Function(merge)
MAP_REPLACE = Function(map_replace)
CONCAT = Function(concat)
CONCAT_UNIQUE = Function(concat_unique)
FILTER = Function(filtered, check_filter)
CONTAINS = Function(contains, check_contains)
REPEAT = Function(_repeat(maps=False, in_step=False), check_repeat)
REPEAT_MAPS = Function(_repeat(maps=True, in_step=False), check_repeat)
REPEAT_IN_STEP = Function(_repeat(maps=True, in_step=True), check_repeat_in_step)


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
