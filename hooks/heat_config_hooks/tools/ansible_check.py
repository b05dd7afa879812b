"""The verification of the `ansible` hook: the playbook in check mode, with the differences.

    ansible-playbook … PLAYBOOK --extra-vars @VARIABLES --check --diff

Everything else is as in a run. A callback plugin records the outcome of each task.

1. A task that would change something is a difference, and so is a task with `check_mode: false` that has changed
   something: such tasks really run.
2. A task that check mode has to skip, such as a command without `creates` or `removes`, cannot be checked.
   It counts nothing if it has `changed_when: false`, because by its own word it never changes anything.
   A command that really ran cannot be checked either if it reports a change at every run.
3. Tasks that `when` skips, and those that write an output, count nothing.

Differences come first, then failures of the check itself, then tasks that cannot be checked.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from heat_config_hooks import files, protocol, steps, verdict, view
from heat_config_hooks.needs import NEEDS, check
from heat_config_hooks.reply import UNKNOWN
from heat_config_hooks.tools import ansible_run
from heat_config_hooks.tools.ansible_recap import Activity, LastError, message
from heat_config_hooks.verdict import Change, Verdict

_RECORD = "record.jsonl"
"""The file in the folder of the run with the outcome of each task."""

_VARIABLE = "HEAT_CONFIG_RECORD"
"""The variable that names it for the plugin; another one begins the paths of outputs."""

_PLUGIN = """
import json
import os

from ansible.plugins.callback import CallbackBase

LONGEST = 65536
MOST = 100


def cut(value):
    if isinstance(value, dict):
        return {str(key): cut(item) for key, item in value.items()}
    if isinstance(value, list):
        return [cut(item) for item in value[:MOST]]
    return value[:LONGEST] if isinstance(value, str) else value


class CallbackModule(CallbackBase):
    CALLBACK_VERSION, CALLBACK_TYPE, CALLBACK_NAME = 2.0, "aggregate", "heat_config_recorder"
    KEPT = ("changed", "skipped", "skip_reason", "skipped_reason", "false_condition", "msg", "censored", "failed",
            "stderr", "module_stderr", "item", "_ansible_item_label")

    def __init__(self, *arguments, **options):
        super().__init__(*arguments, **options)
        self.file = open(os.environ["HEAT_CONFIG_RECORD"], "w")
        self.left = MOST

    def is_output(self, path):
        return path.startswith(os.environ["HEAT_CONFIG_RECORD_OUTPUTS"])

    def path(self, result, arguments):
        invocation = result.get("invocation") or {}
        called = invocation.get("module_args") if isinstance(invocation, dict) else None
        for values in (result, called, arguments):
            if isinstance(values, dict):
                for name in ("dest", "path"):
                    if isinstance(values.get(name), str):
                        return values[name]
        differences = result.get("diff")
        for one in differences if isinstance(differences, list) else [differences]:
            header = one.get("before_header") if isinstance(one, dict) else None
            if isinstance(header, str) and header.startswith("/"):
                return header
        return ""

    def part(self, result, path):
        kept = {name: cut(result[name]) for name in self.KEPT if name in result}
        kept.update(path=cut(path), output=self.is_output(path))
        if result.get("changed") and result.get("diff") and self.left > 0:
            self.left -= 1
            kept["diff"] = cut(result["diff"])
        return kept

    def note(self, kind, outcome, **more):
        fields = outcome.task_fields if hasattr(outcome, "task_fields") else outcome._task_fields
        task, host, result = (
            getattr(outcome, name) if hasattr(outcome, name) else getattr(outcome, "_" + name)
            for name in ("task", "host", "result")
        )
        arguments, items = fields.get("args"), result.get("results")
        guarded = isinstance(arguments, dict) and bool(arguments.get("creates") or arguments.get("removes"))
        looped = isinstance(items, list) and items and all(isinstance(item, dict) for item in items)
        looped = looped and fields.get("loop")
        results = items if looped else [result]
        paths = [self.path(one, None if looped else arguments) for one in results]
        if "censored" in result or fields.get("no_log") is True:
            names = ("changed", "skip_reason", "skipped_reason", "false_condition")
            shown = {name: result[name] for name in names if name in result}
            outputs = all(map(self.is_output, paths))
            parts = [{**shown, "censored": "its output is hidden by no_log", "output": outputs}]
        else:
            parts = [self.part(one, path) for one, path in zip(results, paths)]
        self.write({
            "event": kind,
            "task": str(fields.get("name") or task.get_name()),
            "action": task.action,
            "host": host.get_name(),
            "check_mode": fields.get("check_mode"),
            "changed_when": fields.get("changed_when"),
            "guarded": guarded,
            "parts": parts,
            **more,
        })

    def write(self, line):
        json.dump(line, self.file, default=str)
        self.file.write(chr(10))
        self.file.flush()

    def v2_runner_on_ok(self, result):
        self.note("ok", result)

    def v2_runner_on_failed(self, result, ignore_errors=False):
        self.note("failed", result, ignored=bool(ignore_errors))

    def v2_runner_on_skipped(self, result):
        self.note("skipped", result)

    def v2_runner_on_unreachable(self, result):
        self.note("unreachable", result)

    def v2_playbook_on_stats(self, stats):
        self.write({"event": "end", "rescued": dict(getattr(stats, "rescued", {}))})
"""
"""A callback plugin that prints nothing, and records the outcome of each task as a line of JSON.

A task with `no_log` shows nothing but whether it would change something.
"""

_COMMANDS = frozenset({"command", "shell", "raw", "script", "win_command", "win_shell"})
"""Modules that report a change whenever they run, unless `changed_when` says otherwise."""

_CHECKED = """
    apt assemble blockinfile copy cron debug dnf dnf5 file get_url git group hostname known_hosts lineinfile package pip
    replace service set_fact systemd systemd_service template unarchive user yum
"""
"""Modules that check mode never skips: so `when` has skipped such a task, although `no_log` hides the reason."""

_LARGEST = 64 * 1024 * 1024
"""The most bytes of the record that are read."""


def verify(
    request: protocol.Request, place: protocol.Workplace
) -> protocol.Command | Verdict:
    """Write the variables of the playbook, and return the command that runs it in check mode. Raises HookError."""
    playbook = ansible_run.text(request.config)
    if not playbook.strip():
        return verdict.in_effect()
    ansible_run.command_line(
        request, place
    )  # report mistakes before anything is written
    check(NEEDS["ansible"], place.environment)
    _folder(request, place)
    ansible_run.write_inputs(request, place, view.outputs(request, place))
    return steps.command(__name__, request, place)


def carry_out(request: protocol.Request, place: protocol.Workplace) -> int:
    """Run the playbook in check mode, and return the exit code of ansible-playbook."""
    folder, activity = _folder(request, place), Activity()
    argv = ansible_run.command_line(request, place, folder)
    if sentence := ansible_run.unmarkable(request, argv[0]):
        steps.say(sentence, error=True)
        return UNKNOWN
    environment = ansible_run.settings_of(request, place)
    environment[_VARIABLE] = str(place.run / _RECORD)
    environment[f"{_VARIABLE}_OUTPUTS"] = f"{view.outputs(request, place)}."
    code = ansible_run.run_without_runner(
        [*argv, "--check", "--diff"],
        environment,
        place,
        activity,
        cwd=folder,
        plugins={"heat_config_recorder": _PLUGIN},
        quiet=True,
    )
    return ansible_run.with_activity(request, code, activity)


def _folder(request: protocol.Request, place: protocol.Workplace) -> Path:
    """Return the folder with the playbook."""
    content = ansible_run.text(request.config).encode("utf-8", "replace")
    return view.view(place, f"{request.key}_playbook.yaml", content)


def verdict_of(
    _: protocol.Request, place: protocol.Workplace, ended: protocol.Ended
) -> Verdict:
    """Return the verdict from the record."""
    records = list(_records(place.run / _RECORD))
    tasks = [record for record in records if not _is_gathering(record)]
    changes: list[Change] = []
    unchecked: list[str] = []
    total = 0
    for record in tasks:
        kinds = [_kind(record, part) for part in record["parts"]]
        total += any(kind != "skipped" for kind in kinds)
        for kind, part in zip(kinds, record["parts"], strict=True):
            if kind == "change":
                changes.append(_change(record, part))
        if "unchecked" in kinds:
            unchecked.append(_title(record, {}))
    if changes:
        return verdict.drifted(changes)
    if ended.code:
        return verdict.unknown(_failure(records) or _last_error(ended.stderr))
    if not any(record.get("event") == "end" for record in records):
        return verdict.unknown("ansible has not recorded the outcome of its tasks")
    if unchecked:
        return verdict.unchecked(unchecked, total, "tasks")
    return verdict.in_effect()


def _records(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the outcome of each task, as far as it was recorded."""
    try:
        content = files.read(path, _LARGEST)
    except OSError:
        return
    for line in content.splitlines():
        try:
            record = json.loads(line)
        except ValueError:  # ansible was ended while it wrote
            return
        yield {"parts": [], **record}


def _is_gathering(record: Mapping[str, Any]) -> bool:
    """Return whether a record is that of gathering facts, which a play does by itself, or of the end."""
    return record["event"] == "end" or (
        record["task"] == "Gathering Facts"
        and str(record["action"]).rpartition(".")[2] in ("setup", "gather_facts")
    )


def _kind(record: Mapping[str, Any], part: Mapping[str, Any]) -> str:
    """Return what a task, or its part for one item, tells: `change`, `unchecked`, `skipped` or `checked`."""
    action = str(record["action"]).rpartition(".")[2]
    if record["event"] == "skipped" or part.get("skipped"):
        if any(
            name in part
            for name in ("skip_reason", "skipped_reason", "false_condition")
        ):
            return "skipped"
        if "censored" in part and action in _CHECKED.split():
            return "skipped"
        if _never_changes(record):
            return "checked"
        said = "check mode" in str(part.get("msg")).lower()
        return "checked" if record["guarded"] and not said else "unchecked"
    if not part.get("changed") or part["output"]:
        return "checked"
    if (
        action in _COMMANDS
        and record["check_mode"] is False
        and not record["changed_when"]
        and not record["guarded"]
    ):
        return "unchecked"
    return "change"


def _never_changes(record: Mapping[str, Any]) -> bool:
    """Return whether a task has `changed_when: false`."""
    conditions = record["changed_when"]
    every = conditions if isinstance(conditions, list) else [conditions]
    return any(str(one).lower() in ("false", "no") for one in every)


def _change(record: Mapping[str, Any], part: Mapping[str, Any]) -> Change:
    """Return the difference that a task, or its part for one item, tells."""
    thing = f" {part['path']}" if part.get("path") else ""
    how = f"would change{thing}"
    if record["check_mode"] is False:
        how = f"has changed{thing}: the task has check_mode: false, so it was run"
    differences = part.get("diff")
    every = differences if isinstance(differences, list) else [differences]
    texts = [_diff(one) for one in every if isinstance(one, Mapping)]
    return Change(
        what=_title(record, part), how=how, diff="\n".join(filter(None, texts))
    )


def _diff(difference: Mapping[str, Any]) -> str:
    """Return one difference of a module as text."""
    if isinstance(prepared := difference.get("prepared"), str):
        return verdict.tool_diff(prepared)
    before, after = (_text(difference.get(name)) for name in ("before", "after"))
    return verdict.text_diff(before, after)


def _text(value: object) -> str:
    """Return a side of a difference as lines."""
    if isinstance(value, Mapping):
        lines = (f"{name}: {protocol.as_text(item)}" for name, item in value.items())
        return "\n".join(sorted(lines))
    return protocol.as_text(value)


def _title(record: Mapping[str, Any], part: Mapping[str, Any]) -> str:
    """Return the name of a task, with its host and its item where it has them."""
    details = [] if record["host"] == "localhost" else [str(record["host"])]
    item = part.get("_ansible_item_label", part.get("item"))
    if item is not None:
        details.append(f"item={protocol.as_text(item)}")
    return str(record["task"]) + (f" ({', '.join(details)})" if details else "")


def _failure(records: list[dict[str, Any]]) -> str:
    """Return the first failure that was not rescued; empty if there is none."""
    rescued = {}
    for record in records:
        if record["event"] == "end":
            rescued = dict(record["rescued"])
    for record in records:
        if record["event"] == "failed" and not record["ignored"]:
            if rescued.get(record["host"], 0) > 0:
                rescued[record["host"]] -= 1
                continue
            part = next((each for each in record["parts"] if each.get("failed")), None)
            part = part or record["parts"][0]
            return f"check mode fails: {_title(record, part)}: {message(part)}"
        if record["event"] == "unreachable":
            return f"unreachable: {_title(record, {})}: {message(record['parts'][0])}"
    return ""


def _last_error(stderr: Path) -> str:
    """Return the error that ansible, or this hook, has printed last."""
    last, lines = LastError(), [""]
    try:
        text = files.read(stderr, _LARGEST).decode("utf-8", "replace")
    except OSError:
        text = ""
    for line in text.splitlines():
        last.take(line)
        lines += [line.strip()] if line.strip() else []
    return (last.lines or lines[-1:])[0] or "ansible-playbook has failed"
