"""Reads YAML from untrusted sources, as JSON values and within limits."""

from __future__ import annotations

from heat_config_hooks import strict_json


def loads(text: str, *, texts: bool = False, unique: bool = False) -> object:
    """Return the value of a YAML text as a JSON value; with `texts`, all scalars are text.

    With `unique`, a key that is in a map twice is refused; otherwise the last one counts.
    Raises ValueError, whose message has the line and the column.
    """
    from heat_config_hooks import yaml_schema, yaml_tree  # noqa: PLC0415  # 15 ms, and most documents are JSON

    largest = min(max(yaml_tree.LARGEST, len(text)), strict_json.MOST)
    tree = yaml_tree.Tree(
        text, yaml_schema.TEXTS if texts else yaml_schema.YAML_1_1, largest=largest
    )
    for fault in tree.faults:
        raise yaml_tree.Unreadable(fault)
    if unique and any(repetition.key != "<<" for repetition in tree.repetitions):
        raise strict_json.Repeated("a key is in a map twice")
    return tree.value
