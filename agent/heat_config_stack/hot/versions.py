"""The sections, keys and functions of each version of HOT, as in Heat 27. Each version extends the one before it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from heat_config_agent.model.deployment import HOT_KEYS
from heat_config_stack.hot.functions import data, former, texts, yaql
from heat_config_stack.hot.functions.base import Function

ALIASES = {
    "newton": "2016-10-14",
    "ocata": "2017-02-24",
    "pike": "2017-09-01",
    "queens": "2018-03-02",
    "rocky": "2018-08-31",
    "wallaby": "2021-04-16",
}

KEY, *OTHERS = HOT_KEYS
"""The key of the version of a template, and such keys in CloudFormation's format."""

INNATE = frozenset(
    {
        "get_param",
        "get_resource",
        "get_attr",
        "get_file",
        "resource_facade",
        "Ref",
        "Fn::ResourceFacade",
    }
)
"""Functions that use the stack, not only their arguments."""


@dataclass(frozen=True, slots=True)
class Version:
    """One version of HOT."""

    name: str
    functions: dict[str, Function | None]
    """None: one of `INNATE`, or `if`."""
    removed: frozenset[str] = frozenset()
    condition_functions: dict[str, Function | None] = field(default_factory=dict)
    sections: frozenset[str] = frozenset()
    resource_keys: frozenset[str] = frozenset()
    output_keys: frozenset[str] = frozenset({"description", "value"})
    parameter_keys: frozenset[str] = frozenset()
    constraints: tuple[str, ...] = (
        "range",
        "length",
        "allowed_values",
        "allowed_pattern",
        "custom_constraint",
    )
    """In order of precedence: only the first one in an entry counts."""
    paths: bool = True
    """True if the resource resolves the path of get_attr."""
    all_attributes: bool = False
    """True if get_attr works without the name of an attribute."""
    lower_case_policies: bool = False
    nothing: bool = False
    """True if `if` works without an else."""

    @property
    def deletion_policies(self) -> dict[str, str]:
        """The policy as written → the policy."""
        policies = ("Delete", "Retain", "Snapshot")
        return {each: each for each in policies} | (
            {each.lower(): each for each in policies}
            if self.lower_case_policies
            else {}
        )


_FIRST = Version(
    "2013-05-23",
    functions={
        **dict.fromkeys(sorted(INNATE)),
        "list_join": texts.JOIN,
        "str_replace": texts.REPLACE,
        "Fn::Base64": former.BASE64,
        "Fn::GetAZs": former.ZONES,
        "Fn::Join": former.JOIN,
        "Fn::MemberListToMap": former.MEMBERS,
        "Fn::Replace": former.REPLACE,
        "Fn::Select": former.SELECT,
        "Fn::Split": former.SPLIT,
    },
    sections=frozenset(
        {
            *(
                "heat_template_version",
                "description",
                "parameter_groups",
                "parameters",
                "resources",
                "outputs",
            ),
            "capabilities",  # no version of Heat's has them; see `hot.template`
        }
    ),
    resource_keys=frozenset(
        {
            "type",
            "properties",
            "metadata",
            "depends_on",
            "deletion_policy",
            "update_policy",
            "description",
        }
    ),
    parameter_keys=frozenset(
        {
            "type",
            "label",
            "description",
            "default",
            "hidden",
            "constraints",
            "immutable",
            "schema",
        }
    ),
    paths=False,
)
"""The oldest version, from which the others are derived."""


def _versions() -> dict[str, Version]:
    """Return date → version; each version is its predecessor with the additions and removals of Heat."""
    former_ones = {
        name for name in _FIRST.functions if name.startswith("Fn::") or name == "Ref"
    }
    versions = [_FIRST]

    def add(name: str, **more: Function | None) -> Version:
        versions.append(
            replace(versions[-1], name=name, functions=versions[-1].functions | more)
        )
        return versions[-1]

    def without(version: Version, names: set[str]) -> Version:
        kept = {
            name: function
            for name, function in version.functions.items()
            if name not in names
        }
        return replace(version, functions=kept, removed=version.removed | names)

    versions[-1] = replace(
        without(add("2014-10-16"), former_ones - {"Fn::Select"}), paths=True
    )
    add("2015-04-30", repeat=data.REPEAT, digest=texts.DIGEST)
    add(
        "2015-10-15",
        str_split=texts.SPLIT,
        list_join=texts.JOIN_MANY,
        str_replace=texts.REPLACE_JSON,
    )
    versions[-1] = replace(without(versions[-1], {"Fn::Select"}), all_attributes=True)
    add("2016-04-08", map_merge=data.MAP_MERGE)
    add(
        "2016-10-14",
        yaql=yaql.YAQL,
        map_replace=data.MAP_REPLACE,
        repeat=data.REPEAT_MAPS,
        **{"if": None},
    )
    versions[-1] = replace(
        versions[-1],
        sections=versions[-1].sections | {"conditions"},
        resource_keys=versions[-1].resource_keys | {"condition", "external_id"},
        output_keys=versions[-1].output_keys | {"condition"},
        lower_case_policies=True,
        condition_functions={
            "get_param": None,
            "equals": data.EQUALS,
            "and": data.AND,
            "or": data.OR,
            "not": data.NOT,
        },
    )
    add("2017-02-24", filter=data.FILTER, str_replace_strict=texts.REPLACE_STRICT)
    versions[-1] = replace(
        versions[-1], constraints=("modulo", *versions[-1].constraints)
    )
    add(
        "2017-09-01",
        make_url=texts.URL,
        list_concat=data.CONCAT,
        list_concat_unique=data.CONCAT_UNIQUE,
        str_replace_vstrict=texts.REPLACE_VERY_STRICT,
        contains=data.CONTAINS,
        repeat=data.REPEAT_IN_STEP,
    )
    more: dict[str, Function | None] = {"yaql": yaql.YAQL, "contains": data.CONTAINS}
    versions[-1] = replace(
        versions[-1], condition_functions=versions[-1].condition_functions | more
    )
    add("2018-03-02")
    versions[-1] = replace(
        versions[-1], parameter_keys=versions[-1].parameter_keys | {"tags"}
    )
    add("2018-08-31")
    add("2021-04-16")
    versions[-1] = replace(versions[-1], nothing=True)
    return {version.name: version for version in versions}


VERSIONS = _versions()
"""Date → version, the oldest first."""

EVERY = {
    name: each
    for version in VERSIONS.values()
    for name, each in version.functions.items()
}
"""Functions of all versions."""


def find(name: object) -> Version | None:
    """Return a version by its date or its name."""
    return VERSIONS.get(ALIASES.get(name, name)) if isinstance(name, str) else None


def since(function: str) -> str:
    """Return the first version that has a function, or an empty text."""
    return next(
        (each.name for each in VERSIONS.values() if function in each.functions), ""
    )


def until(function: str) -> str:
    """Return the last version that has a function, or an empty text."""
    return next(
        (
            each.name
            for each in reversed(VERSIONS.values())
            if function in each.functions
        ),
        "",
    )
