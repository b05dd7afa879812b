"""The values of arguments and options: one table of what each takes, by the name of the value in the help."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from heat_config_agent.cli import stack_package
from heat_config_agent.cli.completion.line import Line, Offer, read
from heat_config_agent.model import states
from heat_config_agent.model.entry import Entry, Removed
from heat_config_agent.settings import effective
from heat_config_agent.settings.effective import Settings
from heat_config_hooks.values import dataclass

TYPE_CHECKING = False  # as `typing` has it, which takes long to load

if TYPE_CHECKING:
    from typing import TypeAlias

    Values: TypeAlias = Callable[["Line", str], Iterable[Offer]]


@dataclass(frozen=True)
class Files:
    """The names of files, of which the shell knows more than we do: `~`, links, marks of folders."""

    endings: tuple[str, ...] = ()
    """The endings of the names that are meant; none for any file."""
    only_folders: bool = False


_TEMPLATES = ("yaml", "yml", "template", "json", "csar", "zip")
_YAML = ("yaml", "yml", "json")

_FILES = {
    "FILE": Files(),
    "PATH": Files(),
    "DIR": Files(only_folders=True),
    "--template": Files(_TEMPLATES),
    "--environment": Files((*_YAML, "env")),
    "--inputs": Files(_YAML),
    "--adopt-file": Files(_YAML),
    "--config": Files(("conf",)),
    "--ca-file": Files(("pem", "crt", "cer")),
    "apply FILE": Files(_TEMPLATES),
    "plan FILE": Files(_TEMPLATES),
    "heat-config-apply FILE": Files(_TEMPLATES),
    "template validate FILE": Files(_TEMPLATES),
    "template pack FILE": Files(_TEMPLATES),
    "template export FILE": Files(_TEMPLATES),
    "template find FILE": Files(_TEMPLATES),
    "NAME=FILE": Files(),
    "NODE=FILE": Files(_TEMPLATES),
}
"""The name of a value, an option, or a command with the name of its argument → the files that are meant."""

NEW = frozenset({"stack create", "stack adopt"})
"""The commands whose stack does not exist yet."""


def files(line: Line, names: Iterable[str], metavar: str) -> Files | None:
    """Return which files can complete an option with these names, or an argument; None if it does not take a file."""
    for key in (*names, f"{line.name} {metavar}", metavar):
        if key in _FILES:
            return _FILES[key]
    return None


def values(line: Line, names: Iterable[str], metavar: str) -> Values | None:
    """Return the function that offers the values of an option with these names, or of an argument; None if any goes."""
    for key in (
        *(f"{line.name} {name}" for name in names),
        *names,
        f"{line.name} {metavar}",
        metavar,
    ):
        if key in _VALUES:
            return _VALUES[key]
    return None


def settings(line: Line) -> Settings:
    """Return the settings that the line selects."""
    config, state = line.first("--config"), line.first("--state-dir")
    return effective.make(
        os.environ,
        config=_path(config) if config else None,
        state=_path(state) if state else None,
        overrides=effective.Overrides(
            hooks=tuple(map(_path, line.given.get("--hooks-dir", ())))
        ),
        mistakes=[],
    )


def _path(text: str) -> Path:
    return Path(text).expanduser()


def _things(line: Line, word: str) -> Iterator[Offer]:
    """Yield deployments, stacks and sources; only if nothing has such a name, the resources and the ids."""
    chosen = settings(line)
    from heat_config_agent.state import followed, journal  # noqa: PLC0415  # few lines need it

    own = _current(journal.read(chosen.state).values())
    offers = [Offer(entry.title, _about(entry)) for entry in own]
    offers += _stacks_of(chosen)
    offers += _sources_of(chosen)
    for name, place in followed.documents(chosen.state):
        entries = _current(journal.read(place).values())
        offers += (Offer(f"{name}/{each.title}", _about(each)) for each in entries)
    titles = [title for title, _, _ in stack_package.deployments(chosen)]
    offers += (Offer(title, "a deployment of a stack") for title in titles)
    if any(offer.word.startswith(word) for offer in offers):
        yield from offers
        return
    for title in titles:
        yield Offer(title.rpartition("/")[2], title)
    for entry in own:
        yield Offer(entry.id, entry.title)


def _current(entries: Iterable[Entry]) -> list[Entry]:
    """Return the newest entry of each name."""
    known = [entry for entry in entries if entry.removed is not Removed.ALL]
    newest = {
        entry.title: entry for entry in sorted(known, key=lambda each: each.accepted)
    }
    return list(newest.values())


def _about(entry: Entry) -> str:
    return f"{states.of_entry(entry)}, {entry.action}, {entry.tool}"


def _stacks_of(chosen: Settings) -> Iterator[Offer]:
    for name in stack_package.names(chosen.state):
        stack = stack_package.kept(chosen.state, name)
        if stack is not None and not stack.blank:
            record = stack.record
            yield Offer(
                name,
                f"a stack, {record.action}_{record.status}"
                if record
                else "a damaged stack",
            )


def _sources_of(chosen: Settings) -> Iterator[Offer]:
    for name in chosen.followed:
        yield Offer(name, "a source that is followed")


def _stacks(line: Line, _word: str) -> Iterable[Offer]:
    return () if line.name in NEW else _stacks_of(settings(line))


def _sources(line: Line, _word: str) -> Iterable[Offer]:
    return _sources_of(settings(line))


def _tools(line: Line, _word: str) -> Iterator[Offer]:
    from heat_config_agent.runs import tools  # noqa: PLC0415

    for tool in tools.Tools(settings(line).hooks).installed().values():
        yield Offer(tool.name, tool.hook)


def _of_stack_package(kind: str) -> Values:
    def offers(line: Line, word: str) -> Iterable[Offer]:
        return stack_package.offers(kind, line, word, settings)

    return offers


def _actions(_line: Line, _word: str) -> Iterator[Offer]:
    for action in ("CREATE", "UPDATE", "SUSPEND", "RESUME", "DELETE"):
        yield Offer(action)


def _kinds(_line: Line, _word: str) -> Iterator[Offer]:
    from heat_config_agent.cli import schemas  # noqa: PLC0415

    for kind in schemas.kinds():
        yield Offer(kind)


def _commands(line: Line, _word: str) -> Iterator[Offer]:
    """Yield the commands at a place of the tree: `help stack s`."""
    parser = line.tree.parser(line.arguments[0] if line.arguments else "", "")
    named = read(parser, line.arguments, line.tree)
    return named.commands() if not named.arguments else iter(())


def _documents(line: Line, word: str) -> Iterator[Offer]:
    """Yield the deployments in the documents on the line; without a document, the known deployments."""
    from heat_config_agent.cli.completion import documents  # noqa: PLC0415

    named = line.given.get("FILE", ())
    if not named:
        return _things(line, word)
    return documents.deployments(map(_path, named))


def _outputs(line: Line, _word: str) -> Iterator[Offer]:
    """Yield the outputs of the deployment on the line."""
    from heat_config_agent.cli.deployments import named  # noqa: PLC0415
    from heat_config_agent.model.deployment import STANDARD_OUTPUTS  # noqa: PLC0415

    entry = named.find(settings(line), line.first("NAME"), None, newest=True).entry
    declared = entry.document.get("outputs")
    names = (
        [each.get("name") for each in declared if isinstance(each, dict)]
        if isinstance(declared, list)
        else []
    )
    for name in dict.fromkeys([*(entry.values or ()), *names]):
        if isinstance(name, str) and name not in STANDARD_OUTPUTS:
            yield Offer(name)


_VALUES: dict[str, Values] = {
    "NAME": _things,
    "deployment output OUTPUT": _outputs,
    "--only": _documents,
    "STACK": _stacks,
    "SOURCE": _sources,
    "TOOL": _tools,
    "ACTION": _actions,
    "KIND": _kinds,
    "COMMAND": _commands,
    "RESOURCE": _of_stack_package("resources"),
    "--resource": _of_stack_package("resources"),
    "OUTPUT": _of_stack_package("outputs"),
    "SNAPSHOT": _of_stack_package("snapshots"),
    "NODE": _of_stack_package("nodes"),
    "WORKFLOW": _of_stack_package("workflows"),
    "POLICY.TRIGGER": _of_stack_package("triggers"),
    "TYPE": _of_stack_package("types"),
    "--filter": _of_stack_package("filters"),
    "--server": _of_stack_package("servers"),
    "--clear-parameter": _of_stack_package("names of parameters"),
    "NAME=VALUE": _of_stack_package("parameters"),
    "NAME=FILE": _of_stack_package("parameters"),
    "NODE=FILE": _of_stack_package("nodes of the template"),
    "RESOURCE.NAME=VALUE": _of_stack_package("resources of the template"),
    "stack snapshot create --name": lambda _line, _word: (),
}
"""The name of a value, an option, or a command with either → the function that offers its values."""
