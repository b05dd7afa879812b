"""One mistake in a text that people write: its problem, its path in the text, and its place in the file.

| found by | in | path | place |
|---|---|---|---|
| `deployments.written`, `sources.folder` | documents by hand | from the name of the deployment | always |
| `hot`, `lifecycle`, `resource` (stack package) | templates, environments | from the top of the text | if known |
| `tosca` (stack package) | service templates, archives | the part of it that is in the text | always |

`diagnostics` has what finds and shows them. Nothing here is loaded for a document without mistakes.
A mistake for which only one entry of a document fails, and one in the settings, has a path of text:
`model.deployment.Mistake`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from heat_config_agent.model.positions import Path, Place, dotted


@dataclass(frozen=True, slots=True)
class Mistake:
    """A problem that the author has to fix, in one sentence; or a warning about something that is surely not meant."""

    problem: str
    path: Path = ()
    """The part of the text that is wrong; empty if the mistake is about all of it."""
    place: Place | None = None
    hint: str = ""
    kind: str = "validate"
    """The stage in which Heat finds it: `template_format`, `environment_format`, `template`, `parameters`,
    `environment`, `stack` or `validate`. In documents and settings it has no meaning."""
    code: str = ""
    """A stable name for this kind of mistake, if the language has one."""

    @property
    def sentence(self) -> str:
        """The mistake without its place."""
        path = f"{dotted(self.path)}: " if self.path else ""
        return f"{path}{self.problem}" + (f" ({self.hint})" if self.hint else "")

    def __str__(self) -> str:
        return f"{self.place}: {self.sentence}" if self.place else self.sentence

    def concealed(self, mask: Callable[[str], str]) -> Mistake:
        """Return the mistake as it may be shown: `mask` removes the secret values that it repeats."""
        path = tuple(
            mask(part) if isinstance(part, str) else part for part in self.path
        )
        return replace(
            self, problem=mask(self.problem), path=path, hint=mask(self.hint)
        )

    def under(self, *prefix: str | int) -> Mistake:
        """Return the mistake with a longer path: `resources`, `c<child.yaml>` for one of a child stack."""
        return replace(self, path=(*prefix, *self.path))
