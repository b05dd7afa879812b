"""The option `isolate` of a deployment: the parts of the machine from which its run is kept away.

Each part has levels, from the weakest to the strongest. `true` is the level that the bare name of a part means.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from heat_config_hooks.errors import HookError

ON = "true"

LEVELS: Mapping[str, tuple[str, ...]] = {
    "network": (ON,),
    "home": ("read-only", ON),
    "tmp": (ON,),
    "system": (ON, "full", "strict"),
}
"""The parts, with their levels in rising order."""

WORDS = tuple(
    name if level == ON else f"{name}={level}"
    for name, levels in LEVELS.items()
    for level in levels
)
"""All levels of all parts as words of a setting or of a rule."""


def read(value: object, path: str) -> dict[str, str]:
    """Return the level of each part that an option names; empty for a part that is not isolated.

    `path` is the place of the option in the deployment. Raises HookError for a mistake.
    """
    if not isinstance(value, Mapping):
        raise HookError(f"expected an object with {', '.join(LEVELS)}", path)
    levels: dict[str, str] = {}
    for name, given in value.items():
        if name not in LEVELS:
            raise HookError(
                f"a run can be isolated from {', '.join(LEVELS)} only", f"{path}.{name}"
            )
        text = str(given).lower() if isinstance(given, bool | str) else given
        if text not in (*LEVELS[name], "false"):
            raise HookError(
                f"expected one of {', '.join((*LEVELS[name], 'false'))}",
                f"{path}.{name}",
            )
        levels[name] = "" if text == "false" else str(text)
    return levels


def of_words(words: Iterable[str]) -> dict[str, str]:
    """Return the level of each part that is among `WORDS`; of several levels of a part, the strongest."""
    levels: dict[str, str] = {}
    for word in words:
        name, _, level = word.partition("=")
        if not covers(levels, {name: level or ON}):
            levels[name] = level or ON
    return levels


def covers(levels: Mapping[str, str], least: Mapping[str, str]) -> bool:
    """Return whether each part has at least its level in `least`."""
    return not missing(levels, least)


def missing(levels: Mapping[str, str], least: Mapping[str, str]) -> dict[str, str]:
    """Return the parts of `least` that have a weaker level, or none, in `levels`."""
    return {
        name: level
        for name, level in least.items()
        if level and _rank(name, levels.get(name, "")) < _rank(name, level)
    }


def described(levels: Mapping[str, str]) -> str:
    """Return levels as words, in the order of the parts."""
    named = [(name, levels[name]) for name in LEVELS if levels.get(name)]
    return ", ".join(
        name if level == ON else f"{name}={level}" for name, level in named
    )


def _rank(name: str, level: str) -> int:
    return LEVELS[name].index(level) + 1 if level else 0
