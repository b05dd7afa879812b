"""The choice of one template from a list in the resource_registry: the one that meets the environments' requirements.

    requires: {deployment: puppet}
    resource_registry:
      My::Web: [puppet/web.yaml, docker/web.yaml]

A template fits if it has every required capability whose key any template of its list has. So the requirements of
independent lists stand together. Exactly one must fit; otherwise the list is a mistake.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from heat_config_agent.hot import registry
from heat_config_agent.hot.capabilities import Capabilities, fits, written
from heat_config_agent.hot.template import Template
from heat_config_agent.language.mistakes import Invalid, Mistake
from heat_config_agent.language.positions import Json, Path, Place
from heat_config_agent.language.report import Report, meant
from heat_config_agent.language.text import Text


class Choice:
    """The choice of one template for each list in a resource_registry."""

    def __init__(
        self,
        requires: Capabilities,
        places: Mapping[str, Place | None],
        texts: Mapping[Path, Text],
        template: Callable[[str], Template],
    ) -> None:
        """Take what is required and where, the environment of each list, and what returns the template of a file.

        The function raises `Invalid` if the file is no template.
        """
        self._requires, self._places, self._texts, self._template = requires, places, texts, template
        self._mentioned: set[str] = set()
        self.mistakes: list[Mistake] = []

    def unmentioned(self) -> list[Mistake]:
        """Return a warning for each required key that no template of any list has; to be called after `made`."""
        if not self._texts or self.mistakes:  # what has no lists is for another template
            return []
        return [
            Mistake(f"no template of a list has the capability {key}: it is not used", ("requires", key), place, hint)
            for key, place in self._places.items()
            if key not in self._mentioned
            for hint in [meant(key, sorted(self._mentioned))]
        ]

    def made(self, section: Mapping[str, Json], path: Path = ("resource_registry",)) -> dict[str, Json]:
        """Return the registry with one template in place of each list.

        A list from which none can be chosen is left out and is a mistake.
        """
        found: dict[str, Json] = {}
        for name, value in section.items():
            at = (*path, name)
            if (mappings := registry.inner(name, value)) is not None:
                found[name] = self.made(mappings, at)
            elif registry.is_list(name, value):
                found[name] = self._one(value, at)
            else:
                found[name] = value
        return {name: value for name, value in found.items() if value is not None}

    def _one(self, names: list[str], path: Path) -> str | None:
        report = Report(self._texts[path])
        known = {name: self._capabilities(name, report, (*path, index)) for index, name in enumerate(names)}
        candidates = {name: each for name, each in known.items() if each is not None}
        mentioned = {key for each in candidates.values() for key in each}
        self._mentioned |= mentioned
        required = {key: values for key, values in self._requires.items() if key in mentioned}
        fitting = [name for name, each in candidates.items() if fits(each, required)]
        if len(candidates) == len(known) and len(fitting) != 1:
            report.wrong(*self._refusal(candidates, fitting, required, path), "environment")
        self.mistakes += report.mistakes
        return None if report.mistakes else fitting[0]

    def _capabilities(self, name: str, report: Report, path: Path) -> Capabilities | None:
        """Return the capabilities of a candidate; None if it has mistakes."""
        try:
            template = self._template(name)
            wrong = [each for each in template.mistakes if each.path[:1] == ("capabilities",)]
        except Invalid as invalid:
            wrong = list(invalid.mistakes)
        place = self._texts[path[:-1]].place(path)
        report.mistakes += [each if each.place else replace(each, path=path, place=place) for each in wrong]
        return None if wrong else template.capabilities

    def _refusal(
        self, candidates: Mapping[str, Capabilities], fitting: list[str], required: Capabilities, path: Path
    ) -> tuple[str, Path, str]:
        """Return the problem of a list, its path and a hint; `required` has the keys that its templates have."""
        wanted = f"what is required ({written(required)})"
        others = [f"{name} has {_instead(each, required)}" for name, each in candidates.items() if name not in fitting]
        hint = self._meant(candidates.values())
        if not fitting:
            return f"no template fits {wanted}: {'; '.join(others)}", path, hint
        said = f"fit {wanted}" if required else "fit, as nothing is required"
        if self._requires and not required:
            said = f"fit, as none has any of the required keys ({', '.join(self._requires)})"
        also = "; ".join([", ".join(fitting), *others])
        return (
            f"{len(fitting)} templates {said}: {also}",
            path,
            hint or _difference([candidates[each] for each in fitting]),
        )

    def _meant(self, candidates: Iterable[Capabilities]) -> str:
        """Return a hint if a required key or value that no candidate has may be misspelt, else an empty text."""
        every: dict[str, set[str]] = {}
        for each in candidates:
            for key, values in each.items():
                every.setdefault(key, set()).update(values)
        for key, values in self._requires.items():
            for word, known in [(key, set(every)), *((value, every.get(key, set())) for value in values)]:
                if word not in known and (hint := meant(word, sorted(known))):
                    return hint
        return ""


def _instead(capabilities: Capabilities, required: Capabilities) -> str:
    """Return why a template does not fit."""
    lacking = [key for key, values in required.items() if not fits(capabilities, {key: values})]
    return " and ".join(written({key: capabilities[key]}) if key in capabilities else f"no {key}" for key in lacking)


def _difference(fitting: list[Capabilities]) -> str:
    """Return a hint that names a capability which distinguishes the templates that fit."""
    for key in dict.fromkeys(key for each in fitting for key in each):
        values = [each.get(key) for each in fitting]
        if any(values.count(value) == 1 for value in values if value):
            said = ", ".join(dict.fromkeys(each for value in values for each in value or ()))
            return f"require one {key} of {said}"
    return "keep only one of them in the list"
