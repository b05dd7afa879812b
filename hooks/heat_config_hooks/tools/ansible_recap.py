"""The recap of an ansible run: the outcome of each task, from the events that ansible-runner reports."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from heat_config_hooks import protocol, steps


class Activity:
    """True if a playbook did anything: ansible-playbook succeeds even if no host matches or no task is selected."""

    def __init__(self) -> None:
        """Begin before the first play."""
        self._patterns: list[str] = []
        self._unmatched: list[str] = []
        self._has_tasks = False

    def take(self, name: str, data: Mapping[str, Any]) -> None:
        """Take in an event. Gathering facts, which a play does by itself, does not count as a task."""
        match name:
            case "playbook_on_play_start":
                self._patterns.append(str(data.get("pattern")))
            case "playbook_on_no_hosts_matched":
                self._unmatched += self._patterns[-1:]
            case "playbook_on_task_start" | "playbook_on_handler_task_start":
                facts = str(data.get("task_action")).rpartition(".")[2] in (
                    "setup",
                    "gather_facts",
                )
                self._has_tasks = self._has_tasks or not (
                    facts and data.get("name") == "Gathering Facts"
                )

    def absence(self, tags: Sequence[str]) -> str:
        """Return why no task of the playbook ran; empty if one ran, or if the playbook has none."""
        if self._has_tasks:
            return ""
        if self._unmatched:
            hosts = ", ".join(
                repr(pattern) for pattern in dict.fromkeys(self._unmatched)
            )
            return f"no task was run: no host of the inventory matches {hosts}, the hosts of the playbook"
        return (
            f"no task was run: none has one of the tags {', '.join(tags)}"
            if tags and self._patterns
            else ""
        )


class Recap:
    """The outcome of each task, as lines for people."""

    def __init__(self, activity: Activity) -> None:
        """Begin before the first play; each event also goes to `activity`."""
        self._activity = activity
        self._names: dict[str, str] = {}
        self._items: dict[tuple[str, str], list[str]] = {}
        self._lines: list[str] = []
        self._hosts: dict[str, list[str]] = {}
        """Host → the first line of each of its failures."""
        self._counts: Mapping[str, Any] = {}

    def take(self, event: Mapping[str, Any]) -> bool:
        """Take in an event; return False, so that ansible-runner does not keep it."""
        data: Mapping[str, Any] = event.get("event_data") or {}
        task, host = str(data.get("task_uuid")), str(data.get("host"))
        self._activity.take(str(event.get("event")), data)
        match event.get("event"):
            case "playbook_on_task_start":
                self._names[task] = str(data.get("name"))
            case "runner_item_on_ok" if _is_changed(event):
                self._items.setdefault((task, host), [])
            case "runner_item_on_failed":
                self._items.setdefault((task, host), []).append(self._line(data))
            case "runner_on_ok":
                if self._items.pop((task, host), None) is not None or _is_changed(
                    event
                ):
                    self._lines.append(f"changed: {self._line({**data, 'res': {}})}")
            case "runner_on_failed":
                word = "ignored" if data.get("ignore_errors") else "failed"
                lines = self._items.pop((task, host), None) or [self._line(data)]
                self._lines += [f"{word}: {line}" for line in lines]
                if word == "failed":
                    self._hosts.setdefault(host, []).append(f"failed: {lines[0]}")
            case "runner_on_unreachable":
                self._lines.append(f"unreachable: {self._line(data)}")
                self._hosts.setdefault(host, []).append(self._lines[-1])
            case "playbook_on_stats":
                self._counts = data
        return False

    @property
    def failures(self) -> list[str]:
        """One line for each task that failed and each host that was unreachable, with the cause of the others last.

        The cause is the first failure that was not rescued: what fails after it, such as a task of `always`, may be its
        consequence.
        """
        lines = [
            line for line in self._lines if line.startswith(("failed:", "unreachable:"))
        ]
        rescued: Mapping[str, Any] = self._counts.get("rescued") or {}
        causes = {
            line
            for host, own in self._hosts.items()
            for line in own[int(rescued.get(host, 0)) :]
        }
        cause = next((line for line in lines if line in causes), None)
        if cause is not None:
            lines.remove(cause)
            lines.append(cause)
        return [" ".join(line.split()) for line in lines]

    def say(self) -> None:
        """Print the recap."""
        for line in self._lines:
            steps.say(line)
        names = {
            "ok": "ok",
            "changed": "changed",
            "failures": "failed",
            "dark": "unreachable",
        }
        names |= {"skipped": "skipped", "rescued": "rescued", "ignored": "ignored"}
        counts = {
            name: sum(hosts.values())
            for key, name in names.items()
            if (hosts := self._counts.get(key))
        }
        if self._counts:
            steps.say(
                ", ".join(f"{count} {name}" for name, count in counts.items())
                or "no task was run"
            )

    def _line(self, data: Mapping[str, Any]) -> str:
        """Return the name of a task, with its host, item and message where it has them."""
        result: Mapping[str, Any] = data.get("res") or {}
        details = [] if data.get("host") == "localhost" else [str(data.get("host"))]
        item = result.get("_ansible_item_label", result.get("item"))
        if item is not None:
            details.append(f"item={protocol.as_text(item)}")
        name = self._names.get(str(data.get("task_uuid"))) or str(data.get("task"))
        sentence = message(result)
        return (
            name
            + (f" ({', '.join(details)})" if details else "")
            + (f": {sentence}" if sentence else "")
        )


class LastError:
    """The last error that ansible itself printed to standard error; only the place of the error follows it there."""

    def __init__(self) -> None:
        """Begin without an error."""
        self.lines: list[str] = []

    def take(self, line: str) -> None:
        """Take in a line of standard error."""
        if line.startswith(("[ERROR]:", "ERROR!")):
            self.lines = [line.strip()]


def _is_changed(event: Mapping[str, Any]) -> bool:
    """Return whether a task has changed something. For a task with `no_log`, only the printed line tells."""
    result: Mapping[str, Any] = event["event_data"].get("res") or {}
    return bool(result.get("changed")) or (
        "censored" in result and str(event.get("stdout")).startswith("changed")
    )


def message(result: Mapping[str, Any]) -> str:
    """Return why a task failed, with the last line of its standard error, which often tells more than its message."""
    sentence = (
        protocol.as_text(result.get("censored") or result.get("msg"))
        .strip()
        .partition("\n\n")[0]
    )
    stderr = protocol.as_text(
        result.get("stderr") or result.get("module_stderr")
    ).strip()
    return f"{sentence}: {stderr.splitlines()[-1].strip()}" if stderr else sentence
