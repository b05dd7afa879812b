"""Templates and environments as text: YAML 1.1 or JSON, as Heat reads them."""

from __future__ import annotations

import functools

from heat_config_agent.diagnostics.mistakes import Invalid
from heat_config_agent.diagnostics.text import Language, Text
from heat_config_agent.masking.redaction import OPEN
from heat_config_agent.model.mistake import Mistake
from heat_config_agent.model.positions import Place
from heat_config_hooks.yaml_schema import YAML_1_1
from heat_config_stack.definition import limits

HEAT = Language("Heat", YAML_1_1, json_first=True)


@functools.lru_cache(maxsize=16)
def heat_text(file: str, text: str, kind: str) -> Text:
    """Return a text of Heat's. `kind` is the stage of its mistakes: a `template_format` has a largest size.

    A text that several steps of a command need is read once. Raises `Invalid`.
    """
    if kind == "template_format" and len(text.encode("utf-8", "replace")) > limits.LARGEST_TEMPLATE:
        problem = f"the template is longer than the {limits.LARGEST_TEMPLATE:,} bytes that Heat allows"
        hint = "put long text into a file of its own, and use get_file"
        raise Invalid([Mistake(problem, (), Place(file, 1, 1), hint, kind)], OPEN)
    return Text(file, text, kind, HEAT)
