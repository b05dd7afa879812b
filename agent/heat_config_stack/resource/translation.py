"""Translation of property values, under the names that plug-ins import from `heat.engine.translation`.

A rule adds, replaces, deletes or resolves the value at a path of properties. A property in a list or a map is meant in
each member.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from heat_config_stack.definition import Later


class TranslationRule:
    """A rule, as `Resource.translation_rules` returns it."""

    RULE_KEYS = (ADD, REPLACE, DELETE, RESOLVE) = (
        "Add",
        "Replace",
        "Delete",
        "Resolve",
    )

    def __init__(  # noqa: PLR0917  # the signature that plug-ins use
        self,
        properties: Mapping[str, Any],
        rule: str,
        translation_path: Sequence[str],
        value: Any = None,
        value_name: str | None = None,
        value_path: Sequence[str] | None = None,
        client_plugin: Any = None,
        finder: str | None = None,
        entity: str | None = None,
        custom_value_path: Sequence[str] | None = None,
    ) -> None:
        """Take the kind of rule, the path, and the value or the place that has it. Raises ValueError."""
        if rule not in self.RULE_KEYS:
            raise ValueError(
                f"There is no rule {rule}. List of allowed rules is: {', '.join(self.RULE_KEYS)}."
            )
        if not isinstance(translation_path, list | tuple) or not translation_path:
            raise ValueError(
                '"translation_path" should be non-empty list with path to translate.'
            )
        if rule == self.ADD and value is not None and not isinstance(value, list):
            raise ValueError('"value" must be list type when rule is Add.')
        self.properties, self.rule, self.translation_path = (
            properties,
            rule,
            list(translation_path),
        )
        self.value, self.value_name, self.value_path = value, value_name, value_path
        self.client_plugin, self.finder, self.entity = client_plugin, finder, entity
        self.custom_value_path = custom_value_path


def translated(
    rules: Iterable[TranslationRule], key: str, value: Any, read: Callable[[str], Any]
) -> Any:
    """Return the value of a property after all rules for it; `read` returns the value of another property.

    The value is None if a template gives none. A value that is not known yet stays unknown. Raises ValueError.
    """
    for rule in rules:
        if rule.translation_path[0] == key:
            value = _applied(
                rule, rule.translation_path[1:], copy.deepcopy(value), None, read
            )
    return value


def removed(rules: Iterable[TranslationRule]) -> frozenset[str]:
    """Return the properties that have no value of their own: a rule deletes them, or moves the value elsewhere."""
    deleted = {
        rule.translation_path[0]
        for rule in rules
        if rule.rule == rule.DELETE and len(rule.translation_path) == 1
    }
    sources = (
        [rule.value_name] if rule.value_name else rule.value_path or ()
        for rule in rules
        if rule.rule == rule.REPLACE
        and (rule.value_path or len(rule.translation_path) == 1)
    )
    return frozenset(deleted | {source[0] for source in sources if len(source) == 1})


def extends(rules: Iterable[TranslationRule], key: str) -> bool:
    """Return whether a rule adds members to the list of that name."""
    return any(
        rule.rule == rule.ADD and rule.translation_path == [key] for rule in rules
    )


def _applied(
    rule: TranslationRule,
    path: Sequence[str],
    value: Any,
    container: Mapping[str, Any] | None,
    read: Callable[[str], Any],
) -> Any:
    if isinstance(value, Later):
        return value
    if path and isinstance(value, list):
        return [_applied(rule, path, member, container, read) for member in value]
    if path:
        if isinstance(value, dict) and (
            path[0] in value or (len(path) == 1 and rule.value_name in value)
        ):
            value[path[0]] = _applied(rule, path[1:], value.get(path[0]), value, read)
        return value
    if rule.rule == rule.DELETE:
        return None
    if rule.rule == rule.RESOLVE:
        return _resolved(rule, value)
    source = _source(rule, container, read)
    if rule.rule == rule.ADD:
        return [*(value or []), *(source or [])]
    if source and value and (rule.value_name or rule.value_path):
        names = [
            rule.translation_path[-1],
            rule.value_name or ".".join(rule.value_path or ()),
        ]
        raise ValueError(
            f"Cannot define the following properties at the same time: {', '.join(names)}"
        )
    return value if source is None else source


def _source(
    rule: TranslationRule,
    container: Mapping[str, Any] | None,
    read: Callable[[str], Any],
) -> Any:
    if rule.value_name is not None:
        return (
            container.get(rule.value_name)
            if container is not None
            else read(rule.value_name)
        )
    if rule.value_path:
        source = read(rule.value_path[0])
        for name in rule.value_path[1:]:
            source = source.get(name) if isinstance(source, Mapping) else None
        return source
    return rule.value


def _resolved(rule: TranslationRule, value: Any) -> Any:
    if value is None or rule.client_plugin is None or not rule.finder:
        return value
    if isinstance(value, list):
        return [_resolved(rule, member) for member in value]
    find = getattr(rule.client_plugin, rule.finder)
    return find(rule.entity, value) if rule.entity else find(value)
