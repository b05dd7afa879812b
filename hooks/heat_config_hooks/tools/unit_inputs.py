"""The inputs of a deployment as a file of environment variables, for the units of its config. Only root can read it."""

from __future__ import annotations

from collections.abc import Callable

from heat_config_hooks import files, protocol
from heat_config_hooks.tools import unit_folder
from heat_config_hooks.values import replace
from heat_config_hooks.written import difference, owner

TYPE_CHECKING = False  # as `typing` has it, which takes long to load

if TYPE_CHECKING:
    from heat_config_hooks.verdict import Verdict  # few runs verify


def variables(request: protocol.Request) -> dict[str, str]:
    """Return the inputs, except Heat's own, which differ at each action: that is not a reason to restart a unit."""
    return {
        name: value
        for name, value in protocol.environment(request).items()
        if not name.startswith("deploy_") or name in protocol.CREDENTIALS
    }


class Inputs:
    """The file of variables, to which units refer with `EnvironmentFile=`."""

    def __init__(
        self,
        request: protocol.Request,
        place: protocol.Workplace,
        text: str,
        *,
        section: str,
        names: Callable[[str], bool],
    ) -> None:
        """Have the file contain `text`. The unit files for which `names` is true refer to it in `section`."""
        self._path = place.working / f"{protocol.file_key(owner(request))}.env"
        self._text = "" if request.action == "DELETE" else text
        self._section = section
        self._names = names

    def added_to(self, units: dict[str, str]) -> dict[str, str]:
        """Return the units with a reference to the file."""
        if not self._text:
            return units
        path = str(self._path).replace("%", "%%")
        more = f"\n[{self._section}]\n# the inputs of its deployment\nEnvironmentFile={path}\n"
        return {
            name: text + more if self._names(name) else text
            for name, text in units.items()
        }

    def differ(self) -> bool:
        """Return whether the file on disk has other content."""
        return (unit_folder.content(self._path) or b"") != self._text.encode()

    def verified(self) -> Verdict:
        """Return whether the file on disk is as it was written. Its lines are not shown: they may be secrets."""
        from heat_config_hooks import verdict  # noqa: PLC0415  # few runs verify

        if not self._text:
            return verdict.in_effect()
        change = difference(self._path, self._text.encode(), 0o600)
        return (
            verdict.drifted([replace(change, diff="")])
            if change
            else verdict.in_effect()
        )

    def keep(self) -> None:
        """Write the file, or remove it if there are no inputs."""
        if self._text:
            files.make_directory(self._path.parent)
            files.replace(self._path, self._text.encode(), durable=True)
        else:
            self._path.unlink(missing_ok=True)
