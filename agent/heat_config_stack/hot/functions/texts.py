"""Functions that build or split text."""

from __future__ import annotations

from typing import Any
from urllib import parse

from heat_config_agent.model.positions import Json
from heat_config_stack.definition import Tree, Unresolved, limits
from heat_config_stack.hot.functions.base import (
    Function,
    Wrong,
    is_function,
    need_list,
    need_map,
    shape,
    shown,
    text,
)

_JOIN = '[ " ", [ "str1", "str2"]]'
_JOIN_MANY = '[ " ", [ "str1", "str2"] ...]'
_SPLIT = '[ ",", "apples,pears", <index>]'


# str_replace


def check_replace(args: Tree, name: str) -> None:
    """Raise `Wrong` unless the arguments have a template and params."""
    need_map(args, name)
    if "params" not in args or "template" not in args:
        raise Wrong(
            f'"{name}" syntax should be {name}: {{template: This is var1, params: {{var1: a}}}}'
        )
    need_params(args["params"], name)


def need_params(params: Tree, name: str) -> None:
    """Raise `Wrong` unless the params are a map or a function."""
    if not isinstance(params, dict) and not is_function(params):
        raise Wrong(f'"{name}" parameters must be a mapping')


def _plain(name: str, key: str, value: Json) -> str:
    if isinstance(value, list | dict):
        raise Unresolved(
            f'"{name}" params must be strings or numbers, param {key} is not valid'
        )
    return "" if value is None else str(value)


def _or_json(_name: str, _key: str, value: Json) -> str:
    return (
        ""
        if value is None
        else text(value)
        if isinstance(value, list | dict)
        else str(value)
    )


def _not_empty(name: str, key: str, value: Json) -> str:
    if value is None or value in ("", [], {}):
        raise Unresolved(
            f"{name} has an undefined or empty value for param {key}, must be a defined non-empty value"
        )
    return _or_json(name, key, value)


def replaced(
    template: Json,
    params: Json,
    name: str,
    written: Any = _plain,
    *,
    strict: bool = False,
) -> str:
    """Return the template with each key of `params` replaced in one pass: the longest first, then alphabetically."""
    if not isinstance(template, str):
        raise Unresolved(f'"{name}" template must be a string')
    if not isinstance(params, dict):
        raise Unresolved(f'"{name}" params must be a map')
    if "" in params:
        raise Unresolved(f'"{name}" cannot replace an empty key: empty separator')
    keys = sorted(params, key=lambda key: (-len(key), key))
    missing = set(keys)
    # Parts of the template and replacements alternate, so that nothing is replaced in a replacement.
    parts = [template]
    for key in keys:
        value = written(name, key, params[key])
        limits.Room().spend(
            values=len(parts) + sum(part.count(key) for part in parts[::2])
        )
        found = [
            part.split(key) if index % 2 == 0 else [part]
            for index, part in enumerate(parts)
        ]
        if any(len(each) > 1 for each in found):
            missing.discard(key)
        parts = []
        for pieces in found:
            for position, piece in enumerate(pieces):
                parts += [value, piece] if position else [piece]
    if strict and missing:
        names = ",".join(key for key in keys if key in missing)
        raise Unresolved(
            f"The following params were not found in the template: {names}"
        )
    return limits.joined("", parts)


def replace(args: Json, name: str) -> Json:
    """str_replace until 2015-04-30."""
    return replaced(args["template"], args["params"], name)


def replace_json(args: Json, name: str) -> Json:
    """str_replace from 2015-10-15 on: maps and lists are written as JSON."""
    return replaced(args["template"], args["params"], name, _or_json)


def replace_strict(args: Json, name: str) -> Json:
    """str_replace_strict."""
    return replaced(args["template"], args["params"], name, _or_json, strict=True)


def replace_very_strict(args: Json, name: str) -> Json:
    """str_replace_vstrict."""
    return replaced(args["template"], args["params"], name, _not_empty, strict=True)


# list_join


def check_join(args: Tree, name: str) -> None:
    """Raise `Wrong` unless the arguments are a delimiter and one list."""
    need_list(args, name, _JOIN)
    if len(args) != 2:
        raise Wrong(shape(name, _JOIN))


def check_join_many(args: Tree, name: str) -> None:
    """Raise `Wrong` unless the arguments are a delimiter and lists."""
    need_list(args, name, _JOIN_MANY)
    if len(args) < 2:
        raise Wrong(shape(name, _JOIN_MANY))


def _joined(delimiter: Json, items: list[Json], name: str, *, as_json: bool) -> str:
    if not isinstance(delimiter, str):
        raise Unresolved(f'"{name}" delimiter must be a string')
    texts = []
    for item in items:
        if as_json and isinstance(item, list | dict):
            texts.append(text(item))
        elif item is None or isinstance(item, str):
            texts.append(item or "")
        else:
            kinds = "string, map or list" if as_json else "strings"
            raise Unresolved(f"Items to join must be {kinds} not {shown(item)}")
    return limits.joined(delimiter, texts)


def join(args: Json, name: str) -> Json:
    """list_join until 2015-04-30, and Fn::Join."""
    delimiter, items = args
    if items is not None and not isinstance(items, list):
        raise Unresolved(f'"{name}" must operate on a list')
    return _joined(delimiter, items or [], name, as_json=False)


def join_many(args: Json, name: str) -> Json:
    """list_join from 2015-10-15 on: several lists, and maps and lists in them as JSON."""
    delimiter, *lists = args
    items: list[Json] = []
    for each in lists:
        if each and not isinstance(each, list):
            raise Unresolved(f'"{name}" must operate on a list')
        items += each or []
        limits.Room().spend(values=len(items))
    return _joined(delimiter, items, name, as_json=True)


# The rest.


def check_split(args: Tree, name: str) -> None:
    """Raise `Wrong` if the arguments are text or a map."""
    if isinstance(args, str | dict):
        raise Wrong(shape(name, _SPLIT))


def split(args: Json, name: str) -> Json:
    """str_split."""
    if not isinstance(args, list) or len(args) < 2:
        raise Unresolved(shape(name, _SPLIT))
    delimiter, value = args[:2]
    if value is None:
        return None
    if not isinstance(value, str) or not isinstance(delimiter, str):
        raise Unresolved(
            f'"{name}" splits text by text, not {shown(value)} by {shown(delimiter)}'
        )
    if not delimiter:
        raise Unresolved(f'"{name}" cannot split by nothing: empty separator')
    pieces = limits.split(value, delimiter)
    if len(args) == 2:
        return pieces
    try:
        return pieces[int(args[2])]
    except (ValueError, TypeError, OverflowError):
        raise Unresolved(
            f'Incorrect index to "{name}" should be: "{name}" : {_SPLIT}'
        ) from None
    except IndexError:
        raise Unresolved(
            f'Incorrect index to "{name}" should be between 0 and {len(pieces) - 1}'
        ) from None


def digest(args: Json, name: str) -> Json:
    """Compute digest: a hash of text, in hexadecimal digits."""
    if not isinstance(args, list) or not all(isinstance(each, str) for each in args):
        raise Unresolved(f'Argument to function "{name}" must be a list of strings')
    if len(args) != 2:
        raise Unresolved(f'Function "{name}" usage: ["<algorithm>", "<value>"]')
    algorithm, value = args
    import hashlib  # noqa: PLC0415  # it loads OpenSSL, and few templates need it

    if algorithm.lower() not in hashlib.algorithms_available:
        raise Unresolved(
            f"Algorithm must be one of {', '.join(sorted(hashlib.algorithms_available))}"
        )
    try:
        return hashlib.new(algorithm, value.encode("latin-1")).hexdigest()
    except UnicodeEncodeError as error:
        where = error.start
        raise Unresolved(
            f'"{name}" takes no character beyond latin-1, such as {value[where]!r} in position {where}'
        ) from None
    except (ValueError, TypeError):
        # one of a length to be chosen, or one that this machine forbids
        raise Unresolved(f'"{name}" cannot be made with {algorithm} here') from None


_PARTS = ("scheme", "username", "password", "host", "port", "path", "query", "fragment")


def check_url(args: Tree, name: str) -> None:
    """Raise `Wrong` for unknown parts of a URL, and for parts of the wrong type."""
    if not isinstance(args, dict):
        raise Wrong(f'The arguments to "{name}" must be a map')
    unknown = [key for key in args if key not in _PARTS]
    if unknown:
        raise Wrong(f'Invalid arguments to "{name}": {", ".join(unknown)}')
    problem = _url_problem(args, name)
    if problem:
        raise Wrong(problem)


def _url_problem(args: dict[str, Tree], name: str) -> str:
    for key, value in args.items():
        if is_function(value):
            continue
        if key == "query":
            if not isinstance(value, dict):
                return f'The "query" argument to "{name}" must be a map'
        elif key == "port":
            try:
                port = int(value)
            except (TypeError, ValueError):
                return f'Invalid URL port "{value}" for {name}'
            if not 0 < port <= 65535:
                return f"Invalid URL port {port}, must be in range 1-65535"
        elif not isinstance(value, str):
            return f'The "{key}" argument to "{name}" must be a string'
    return ""


def url(args: Json, name: str) -> Json:
    """make_url."""
    problem = _url_problem(args, name)
    if problem:
        raise Unresolved(problem)
    scheme = args.get("scheme", "")
    if ":" in scheme:
        raise Unresolved("URL \"scheme\" should not contain ':'")
    user, password = (
        parse.quote(args.get(each, ""), safe="") for each in ("username", "password")
    )
    place = ""
    if user or password:
        place = f"{user}:{password}@" if password else f"{user}@"
    host = args.get("host", "")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    host = parse.quote(host, safe=":")
    place += f"[{host}]" if ":" in host else host
    if args.get("port"):
        place += f":{args['port']}"
    query = parse.urlencode(args.get("query", {})).replace("%2F", "/")
    parts = (
        scheme,
        place,
        parse.quote(args.get("path", "")),
        query,
        parse.quote(args.get("fragment", "")),
    )
    return parse.urlunsplit(parts)


REPLACE = Function(replace, check_replace)
REPLACE_JSON = Function(replace_json, check_replace)
REPLACE_STRICT = Function(replace_strict, check_replace)
REPLACE_VERY_STRICT = Function(replace_very_strict, check_replace)
JOIN = Function(join, check_join)
JOIN_MANY = Function(join_many, check_join_many)
SPLIT = Function(split, check_split)
DIGEST = Function(digest)
URL = Function(url, check_url)
