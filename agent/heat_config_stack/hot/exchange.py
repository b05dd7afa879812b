"""A stack's source in the form in which Heat's API exchanges it: template, environment and files as values."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from heat_config_agent.model.errors import UsageError
from heat_config_agent.model.positions import Json
from heat_config_stack.definition.files import File
from heat_config_stack.hot import environment
from heat_config_stack.hot.registry import is_template
from heat_config_stack.hot.source import Source
from heat_config_stack.hot.text import heat_text

_FILES = ("get_file", "TemplateURL")


def exported(source: Json) -> dict[str, Json]:
    """Return `template`, `environment` and `files` of a stored source. Raises `Invalid`."""
    sources = Source.from_json(source)
    template = heat_text(sources.template.name, sources.template.text, "template_format").value
    texts = [heat_text(each.name, each.text, "environment_format") for each in sources.environments]
    merged = environment.merge(texts, sources, {})
    registry: dict[str, Json] = {}
    sections: dict[str, Json] = {}
    for text in texts:
        said = text.value if isinstance(text.value, dict) else {}
        registry |= environment.located(said.get("resource_registry") or {}, text.file, sources)
        sections |= {key: said[key] for key in ("requires", "encrypted_param_names", "event_sinks") if said.get(key)}
    return {
        "template": _self_contained(template, sources),
        "environment": {
            "parameters": merged.parameters,
            "parameter_defaults": merged.parameter_defaults,
            "resource_registry": registry,
            **({"attributes": merged.attributes} if merged.attributes else {}),
            **sections,
        },
        "files": dict(sources.files),
    }


def _self_contained(tree: Json, source: Source) -> Json:
    """Return a template in which files have the names that they have in `files`."""
    if isinstance(tree, dict):
        return {
            key: source.find(value, source.template.name) or value
            if isinstance(value, str) and (key in _FILES or (key == "type" and is_template(value)))
            else _self_contained(value, source)
            for key, value in tree.items()
        }
    return [_self_contained(each, source) for each in tree] if isinstance(tree, list) else tree


def imported(
    data: Mapping[str, Any], name: str, environments: Sequence[File], files: Mapping[str, str], parameters: Json
) -> Source:
    """Return the source of a stack that is adopted; `data` is from the file `name`. Raises UsageError."""
    template, environment, own = data.get("template"), data.get("environment") or {}, data.get("files") or {}
    if not isinstance(template, dict):
        raise UsageError(f"{name} has no template: expected the output of `stack abandon`")
    if not isinstance(environment, dict):
        raise UsageError(f"the environment in {name} is not a map")
    if not isinstance(own, dict) or not all(isinstance(each, str) for each in own.values()):
        raise UsageError(f"files in {name} is not a map of texts")
    own_environment = File(f"{name}#environment", json.dumps(environment, ensure_ascii=False))
    return Source(
        File(f"{name}#template", json.dumps(template, ensure_ascii=False)),
        (own_environment, *environments),
        {**{str(key): text for key, text in own.items()}, **files},
        parameters,
    )
