"""The verification of the `puppet` hook: `puppet apply --noop`, with the differences of files.

Everything else is as in a run, except for what Puppet itself keeps: its state, reports and catalog are in the folder of
the run, and no report is sent.

1. A property that Puppet would change is a difference.
2. An `exec` without `creates`, `onlyif`, `unless` or `refreshonly` runs every time, so it cannot be checked.
3. A `notify` is a message, and a resource with `noop => true` is never applied: both count nothing.

Differences come first, then failures, then resources that cannot be checked.
Values that are `Sensitive` are not shown: Puppet says `[redacted]`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from heat_config_hooks import files, programs, protocol, verdict, view
from heat_config_hooks.needs import PUPPET
from heat_config_hooks.tools import puppet_run
from heat_config_hooks.verdict import Change, Verdict

_GUARDS = ("creates", "onlyif", "unless", "refreshonly")
"""The parameters of an `exec` that say when it need not run."""

_LARGEST = 64 * 1024 * 1024
"""The most bytes of a file of Puppet that are read."""


def verify(
    request: protocol.Request, place: protocol.Workplace
) -> protocol.Command | Verdict:
    """Write the manifest and the facts to the folder of the run, and return the command. Raises HookError."""
    manifest = protocol.text_of(request.config, "the text of a manifest")
    if not manifest.strip():
        return verdict.in_effect()
    programs.find(PUPPET, place.environment)
    if puppet_run.for_hiera(request) and (change := _hiera(request, place)):
        return verdict.drifted([change])
    path = place.run / f"{request.key}.pp"
    files.replace(path, manifest.encode("utf-8", "replace"))
    home = puppet_run.home_of(place)
    if home and not Path(home["HOME"]).is_dir():
        home = {"HOME": str(place.run / "home")}
        files.make_directory(place.run / "home")
    own = place.run / "puppet"
    files.make_directory(own)
    more = (
        *puppet_run.more_of(request.options),
        "--noop",
        "--show_diff",
        *("--log_level", "notice"),
        *("--report", "--reports", "none"),
        *("--statedir", str(own / "state")),
        *("--lastrunfile", str(own / "summary.yaml")),
        *("--lastrunreport", str(_report(place))),
        *("--catalog_cache_terminus", "json", "--client_datadir", str(own / "data")),
        str(path),
    )
    return puppet_run.command(request, place, view.outputs(request, place), more, home)


def verdict_of(
    request: protocol.Request, place: protocol.Workplace, ended: protocol.Ended
) -> Verdict:
    """Return the verdict from Puppet's report and its catalog."""
    try:
        report = _loaded(files.read(_report(place), _LARGEST))
    except (OSError, ValueError):
        report = {}
    statuses = report.get("resource_statuses")
    if not isinstance(statuses, Mapping):
        return verdict.unknown(_reason(ended))
    catalog = _catalog(place)
    changes: list[Change] = []
    unchecked: list[str] = []
    checked = 0
    for name, status in statuses.items():
        resource = catalog.get(name, {})
        if _counts_nothing(str(name), resource, status, request, place):
            continue
        checked += 1
        events = [event for event in status.get("events") or () if _is_change(event)]
        if events and _runs_always(str(name), catalog, resource):
            unchecked.append(str(name))
        else:
            changes += [_change(str(name), event, report) for event in events]
    if changes:
        return verdict.drifted(changes)
    failed = [name for name, status in statuses.items() if status.get("failed")]
    if ended.code not in (0, puppet_run.CHANGED) or failed:
        return verdict.unknown(_reason(ended))
    if unchecked:
        return verdict.unchecked(unchecked, checked, "resources")
    return verdict.in_effect()


def _hiera(request: protocol.Request, place: protocol.Workplace) -> Change | None:
    """Return how the file with the inputs for Hiera differs; None if it does not. It is not shown: it has secrets."""
    path = puppet_run.hiera_file(request, place)
    try:
        same = files.read(path, _LARGEST) == puppet_run.hiera_content(request)
    except FileNotFoundError:
        return Change(what=str(path), how="it is missing")
    return None if same else Change(what=str(path), how="its content differs")


def _report(place: protocol.Workplace) -> Path:
    return place.run / "puppet" / "report.yaml"


def _loaded(content: bytes) -> dict[str, Any]:
    """Return a report as a map: its objects of Ruby are maps too. Raises ValueError."""
    import yaml  # noqa: PLC0415  # slow to load

    base: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

    class Loader(base):  # type: ignore[misc]  # one of two
        """Reads objects as the maps, lists and texts that they are written as."""

    def plain(loader: Any, _: str, node: yaml.Node) -> object:
        if isinstance(node, yaml.MappingNode):
            return loader.construct_mapping(node, deep=True)
        if isinstance(node, yaml.SequenceNode):
            return loader.construct_sequence(node, deep=True)
        return loader.construct_scalar(node)

    Loader.add_multi_constructor("!ruby/", plain)
    try:
        values = yaml.load(content, Loader)  # noqa: S506  # it makes no objects
    except yaml.YAMLError as error:
        raise ValueError(str(error)) from error
    return values if isinstance(values, dict) else {}


def _catalog(place: protocol.Workplace) -> dict[str, Mapping[str, Any]]:
    """Return the parameters of the resources by their names; empty if Puppet has not kept its catalog."""
    for path in (place.run / "puppet" / "data").glob("catalog/*.json"):
        try:
            values = json.loads(files.read(path, _LARGEST))
        except (OSError, ValueError):
            continue
        return {
            f"{one.get('type')}[{one.get('title')}]": one.get("parameters") or {}
            for one in values.get("resources") or ()
        }
    return {}


def _counts_nothing(
    name: str,
    resource: Mapping[str, Any],
    status: Mapping[str, Any],
    request: protocol.Request,
    place: protocol.Workplace,
) -> bool:
    """Return whether a resource says nothing about the machine: a message, an output, or what is never applied."""
    kind, _, rest = name.partition("[")
    title = resource.get("path") or rest.removesuffix("]")
    return (
        kind in ("Notify", "Schedule", "Filebucket", "Whit", "Stage", "Class")
        or bool(status.get("skipped"))
        or resource.get("noop") is True
        or view.is_output(title, request, place)
    )


def _is_change(event: Mapping[str, Any]) -> bool:
    """Return whether an event is a change that Puppet would make; other events are consequences of those."""
    return event.get("status") == "noop" and bool(event.get("property"))


def _runs_always(
    name: str,
    catalog: Mapping[str, Mapping[str, Any]],
    resource: Mapping[str, Any],
) -> bool:
    """Return whether a resource is an `exec` that runs every time; without a catalog, any `exec` may be."""
    if not name.startswith("Exec["):
        return False
    known = bool(catalog) and name in catalog
    return not known or not any(resource.get(guard) for guard in _GUARDS)


def _change(name: str, event: Mapping[str, Any], report: Mapping[str, Any]) -> Change:
    """Return the difference that an event tells."""
    what = str(event.get("property"))
    message = str(event.get("message") or "").removesuffix(" (noop)")
    end = f"/{name}/{what}"
    diff = ""
    if not event.get("redacted"):
        diff = next(_diffs(report, end), "")
    return Change(what=name, how=f"{what}: {message}", diff=diff)


def _diffs(report: Mapping[str, Any], end: str) -> Iterator[str]:
    """Yield the differences of a property that Puppet has logged."""
    for entry in report.get("logs") or ():
        text = str(entry.get("message")).lstrip("\n")
        if str(entry.get("source")).endswith(end) and text.startswith("--- "):
            yield verdict.tool_diff(text)


def _reason(ended: protocol.Ended) -> str:
    """Return why Puppet could not check the manifest."""
    if sentence := puppet_run.cause_of(ended.stderr, repeats=True):
        return f"noop mode fails: {sentence.removeprefix('Error: ')}"
    return f"puppet has left no report: exit code {ended.code}"
