"""The comparison of a case's result with Heat's: the parts that count.

A case is what Heat's own engine makes of a template: `expect_json` is its result. A *subject* carries cases
out here, and returns a result of the same shape. It may leave parts out; the others have to be right.

| part | how it is compared |
|---|---|
| `outcome` | the same |
| `error` | the group of its stage (`GROUPS`), and the path if Heat says one; of several mistakes one has to be Heat's |
| `state`, `parameters`, `requires` | the same |
| `resources` | the same names; of each the type, state, properties, metadata, policies and nested stack |
| `outputs` | the same names and values, and whether there is an error instead; none are told of a validated template |
| `steps` | of each the outcome, `kept`, `replaced`, `added`, `removed`, `deliveries` and the stack |
| `sequence` | what Heat promises to come after something else does so; more order is accepted |
| `deliveries` | server, resource, action, and of the config the group, config, options, inputs and outputs |

Of a stack that failed, how far each resource got that the failure does not concern differs from run to run.
What a cloud would put into a value does not count: it is masked in the cases (`<uuid>`, `<time>`, `<sid>`) and with us.
"""

from __future__ import annotations

import json
import re
from collections.abc import Container
from typing import Any

from heat_config_stack.hot import versions

Result = dict[str, Any]

GROUPS = {
    "template_format": "parse",
    "environment_format": "parse",
    "template": "template",
    "parameters": "parameters",
    "environment": "environment",
    "stack": "validate",
    "validate": "validate",
    "create": "run",
    "lifecycle": "run",
}
"""Stage in which Heat refuses → what counts as the same."""

PLAIN = ("state", "parameters", "requires", "kept", "replaced", "added", "removed")
OF_A_RESOURCE = (
    "type",
    "state",
    "requires",
    "properties",
    "metadata",
    "deletion_policy",
    "update_policy",
)
OF_THE_WAY = ("state", "properties", "metadata")
"""Parts of a result that depend on how far a failed stack got."""
OF_A_CONFIG = ("name", "group", "config", "options", "outputs")

CLOUD = re.compile(r"http://heat\.test|^adomainusertoken$|^http://localhost:5000")
"""Values that only a cloud has; that there are any counts."""

CLOUDS = {
    *(
        "deploy_signal_id",
        "deploy_auth_url",
        "deploy_username",
        "deploy_user_id",
        "deploy_password",
    ),
    *("deploy_project_id", "deploy_region_name", "deploy_queue_id"),
}
"""Inputs of a delivery whose values only a cloud has; that they are there counts."""

MASKS = (
    (
        re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"),
        "<uuid>",
    ),
    (re.compile(r"(?<=[A-Za-z0-9_.%])-[a-z2-7]{12}(?![A-Za-z0-9])"), "-<sid>"),
    (re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z?"), "<time>"),
    (re.compile(r"={15}\d+=="), "===============<boundary>=="),
    (
        re.compile(
            r"http://(heat\.test:\d+/v1/waitcondition|127\.0\.0\.1:\d+/signal)/\S+"
        ),
        "<signal URL>",
    ),
)

STACKS = re.compile(
    r"^Property error:|Unknown Property|Property \S+ not assigned|is not a (map|list|valid boolean)"
    r"|is not an allowed value"
    r"|Property error: .* is out of range|Value must be a string|could not be found|Referenced Attribute"
    r"|<nested_stack>|sequence item|RequestLimitExceeded"
    r"|Defining more than one configuration|deletion policy not supported"
    r"|Length property cannot be smaller|facade|could not convert string"
    r"|Non-empty resource type|has no type"
    r"|^InvalidSchemaError: resources\.|'list' object has no attribute 'support_status'"
    r"|must be (provided|specified)|are required|MinSize can not|Either project or domain"
    r"|is not an integer|int\(\) argument|does not match pattern|type is not a string"
)
"""Mistakes that only those find who know what types of resources there are: the schemas of their properties and
attributes, and which type stands behind which name; or that show only when attributes are null, as while a stack is
validated."""


CHAIN = "OS::Heat::ResourceChain"
NO_VALUE = ("an error", {"value": None})
UNTOUCHED = ["INIT", "COMPLETE"]

DEFECTS = {"AttributeError", "KeyError", "RecursionError", "TypeError", "error"}
"""Exceptions of Python, in which some mistakes end in Heat; where it stops then says nothing."""


def masked(value: Any) -> Any:
    """Return a value with what differs from run to run masked."""
    if isinstance(value, str):
        for pattern, mask in MASKS:
            value = pattern.sub(mask, value)
    if isinstance(value, dict) and value.keys() == {"!error"}:
        return "an error"
    if isinstance(value, dict):
        return {masked(key): masked(each) for key, each in value.items()}
    if isinstance(value, list):
        return [masked(each) for each in value]
    return value


def differences(expected: Result, got: Result) -> list[str]:
    """Return every part of what a subject tells that is not as Heat has it."""
    if expected.get("outcome") == "error" and expected.get("stage") != "lifecycle":
        return _refused(expected, got)
    if "errors" in got:
        if _is_seen_earlier(expected, got["errors"]):
            return []
        return [f"Heat takes it, and here it is refused: {got['errors']}"]
    sentences = _compared(expected, got, "")
    for index, (step, ours) in enumerate(
        zip(expected.get("steps", []), got.get("steps", []), strict=False)
    ):
        at = f"steps[{index}]"
        sentences += _compared(step, ours, at)
        if step.get("outcome") == "error" and "errors" in ours:
            sentences += [f"{at}: {each}" for each in _refused(step, ours)]
        if "stack" in ours:
            sentences += _compared(
                step.get("stack") or {}, ours["stack"] or {}, f"{at}.stack"
            )
    return sentences


def _is_seen_earlier(expected: Result, errors: list[dict[str, str]]) -> bool:
    """Return whether a stack that fails in Heat for a wrong value in a child stack is refused with that sentence."""
    failure = re.search(r"Property error: \S+: (.*)", expected.get("status_reason", ""))
    found = failure is not None and expected.get("outcome") == "failed"
    return found and any(
        ">" in each["path"] and failure.group(1) in each["message"]  # type: ignore[union-attr]
        for each in errors
    )


def _refused(expected: Result, got: Result) -> list[str]:
    error = expected["error"]
    if "errors" not in got:
        known = got.get("outcome")
        return (
            [f"Heat refuses it: {error['message']}"]
            if known or not STACKS.search(error["message"])
            else []
        )
    if "outcome" not in got and STACKS.search(error["message"]):
        # the language has found other mistakes
        return []
    sentences = []
    group = GROUPS.get(expected.get("stage", ""), "run")
    if error.get("class") not in DEFECTS and group not in {
        GROUPS[each["stage"]] for each in got["errors"]
    }:
        sentences.append(f"Heat refuses it as {group}: {got['errors']}")
    path = _flat(error.get("path"))
    ours = {_flat(each["path"]) for each in got["errors"]}
    if path.rpartition(".")[2] in versions.EVERY:
        # of functions in one another Heat may name the outer one
        ours |= {path for each in ours if each.startswith((f"{path}.", f"{path}["))}
    if error["message"].startswith("Property error: "):
        # of a value that is not all known, Heat names the property
        ours |= {path for each in ours if each.startswith((f"{path}.", f"{path}["))}
    if path.endswith(">"):  # of a child stack Heat may say no more
        ours |= {path for each in ours if each.startswith(f"{path}.")}
    if error["message"].startswith(("ValueError: ", "TypeError: ")):
        # then Heat knows the resource only
        ours |= {path for each in ours if each.startswith(f"{path}.")}
    if path in versions.EVERY:  # Heat forgets where the function stands
        ours |= {path for each in ours if f".{path}." in each}
    if path.startswith("if."):  # Heat forgets where the `if` stands
        ours |= {path for each in ours if each.endswith(f".{path}")}
    if path and path not in ours:
        sentences.append(f"Heat says {path}: {got['errors']}")
    return sentences


def _flat(path: Any) -> str:
    """Return a path as one text, however it is written."""
    text = path if isinstance(path, str) else ".".join(map(str, path or []))
    return re.sub(r"\.(\d+)(?=\.|$)", r"[\1]", text)


def _compared(expected: Result, got: Result, at: str) -> list[str]:
    pairs: dict[str, tuple[Any, Any]] = {}
    for name in ("outcome", *PLAIN):
        if name in got:
            pairs[name] = (expected.get(name), got[name])
    loose = _not_reached(expected, got)
    if "outputs" in got:
        pairs["outputs"] = (
            _outputs(expected.get("outputs", {})),
            _outputs(got["outputs"]),
        )
        if loose:  # an output has no value as long as its resources have none
            empty = [
                name
                for each in pairs["outputs"]
                for name, value in each.items()
                if value in NO_VALUE
            ]
            pairs["outputs"] = tuple(
                {**each, **dict.fromkeys(empty, "untold")} for each in pairs["outputs"]
            )  # type: ignore[assignment]
    if "deliveries" in got:
        pairs["deliveries"] = (_deliveries(expected, loose), _deliveries(got, loose))
    sentences = [
        f"{at}.{name}: {_text(ours)} instead of {_text(theirs)}"
        for name, (theirs, ours) in pairs.items()
        if name != "outputs" and _text(theirs) != _text(ours)
    ]
    sentences += _maps_compared(*pairs.get("outputs", ({}, {})), f"{at}.outputs")
    if "sequence" in got:
        sentences += [
            f"{at}.sequence: {pair} is missing"
            for pair in expected.get("sequence", [])
            if pair not in got["sequence"]
        ]
    if "resources" in got and "resources" in expected:
        sentences += _maps_compared(
            dict.fromkeys(expected["resources"]),
            dict.fromkeys(got["resources"]),
            f"{at}.resources",
        )
        for name in got["resources"].keys() & expected["resources"].keys():
            theirs, ours = expected["resources"][name], got["resources"][name]
            if loose & {name, *ours.get("requires", [])}:
                ours = {
                    key: each for key, each in ours.items() if key not in OF_THE_WAY
                }
            sentences += _resource(theirs, ours, f"{at}.resources.{name}")
    return sentences


def _not_reached(expected: Result, got: Result) -> set[str]:
    """Return the resources of a failed stack that were begun there or here alone."""
    if (expected.get("state") or [""])[-1] != "FAILED":
        return set()
    theirs, ours = expected.get("resources") or {}, got.get("resources") or {}
    both = theirs.keys() & ours.keys()
    return {
        name
        for name in both
        if (theirs[name].get("state") == UNTOUCHED)
        != (ours[name].get("state") == UNTOUCHED)
    }


def _maps_compared(expected: dict[str, Any], got: dict[str, Any], at: str) -> list[str]:
    result = [
        f"{at}.{name} should not be there" for name in got.keys() - expected.keys()
    ]
    for name, theirs in expected.items():
        if name not in got:
            result.append(f"{at}.{name} is missing")
        elif (
            got[name] != "untold"
            and not _of_cloud(theirs, got[name])
            and _text(theirs) != _text(got[name])
        ):
            result.append(f"{at}.{name}: {_text(got[name])} instead of {_text(theirs)}")
    return result


def _of_cloud(theirs: Any, ours: Any) -> bool:
    """Return whether a value is the cloud's, and is present here too."""
    value = theirs.get("value") if isinstance(theirs, dict) else None
    return (
        isinstance(value, str)
        and bool(CLOUD.search(value))
        and isinstance(ours, dict)
        and bool(ours.get("value"))
    )


def _resource(expected: Result, got: Result, at: str) -> list[str]:
    names = [name for name in OF_A_RESOURCE if name in got]
    sentences = [
        f"{at}.{name}: {_text(got[name])} instead of {_text(expected.get(name))}"
        for name in names
        if _text(expected.get(name)) != _text(got[name])
    ]
    if "nested" in got:
        nested = got["nested"] or {}
        if (
            expected["type"] == CHAIN
            and (expected.get("properties") or {}).get("concurrent") is True
        ):
            nested = {
                **nested,
                "resources": {
                    name: _loose(each) for name, each in nested["resources"].items()
                },
            }
        sentences += _compared(expected.get("nested") or {}, nested, f"{at}.nested")
    return sentences


def _loose(member: Result) -> Result:
    """Return a member of a chain without what it waits for, which depends on how many engines Heat has."""
    return {name: each for name, each in member.items() if name != "requires"}


def _outputs(outputs: dict[str, Any]) -> dict[str, Any]:
    """Return the value of each output, or that there is an error in its place."""
    return {
        name: "untold"
        if each == "untold"
        else "an error"
        if "error" in each
        else {"value": each.get("value")}
        for name, each in outputs.items()
    }


def _deliveries(of: Result, without: Container[str] = ()) -> list[Result]:
    """Return the deliveries, but of some resources, in an order that does not depend on when they were made."""
    told = (
        each for each in of.get("deliveries", []) if each.get("resource") not in without
    )
    return sorted(map(_delivery, told), key=_text)


def _delivery(delivery: Result) -> Result:
    config = delivery["config"]
    found = {
        name: delivery.get(name) for name in ("step", "server", "resource", "action")
    }
    found["config"] = {name: config.get(name) for name in OF_A_CONFIG}
    found["inputs"] = [
        [each["name"], "…" if each["name"] in CLOUDS else each.get("value")]
        for each in config.get("inputs", [])
    ]
    return found


def _text(value: Any) -> str:
    return json.dumps(masked(value), sort_keys=True, ensure_ascii=False)
