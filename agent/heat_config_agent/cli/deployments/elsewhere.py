"""The deployments of stacks that other hosts carry out: as things that are named, and as their hosts know them.

Hosts are asked at the same time. One that is not reached has its reason, and holds up no other.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from heat_config_agent.cli import stack_package, terminal
from heat_config_agent.cli.deployments.named import Named
from heat_config_agent.cli.stack_package import Elsewhere
from heat_config_agent.model.entry import Entry, State
from heat_config_agent.model.errors import AgentError
from heat_config_agent.model.states import Shown
from heat_config_agent.settings.effective import Settings
from heat_config_agent.verification.machine import Finding
from heat_config_hooks.values import replace
from heat_config_hooks.verdict import Change, Standing, Verdict

_AT_ONCE = 16
"""The most hosts that are asked at the same time."""

_LOOK = 1.0
"""Seconds between two looks for runs to follow, and until one is tried again."""

_LONGEST_DELAY = 30.0
"""The longest time in seconds until it is tried again."""


def _of_each(
    chosen: Sequence[Elsewhere], ask: Callable[[Sequence[Elsewhere]], str]
) -> Iterator[tuple[Sequence[Elsewhere], list[dict[str, Any]], str]]:
    """Yield deployments of each host, the answers about them, and the reason why there are none."""
    by_host: dict[tuple[str, str], list[Elsewhere]] = {}
    for each in chosen:
        by_host.setdefault((each.stack, each.place), []).append(each)
    groups = list(by_host.values())
    if not groups:
        return
    with ThreadPoolExecutor(min(len(groups), _AT_ONCE)) as asking:
        answers = list(asking.map(lambda group: _answers(group, ask), groups))
    for group, (told, why) in zip(groups, answers, strict=True):
        yield group, told, why


def _answers(
    group: Sequence[Elsewhere], ask: Callable[[Sequence[Elsewhere]], str]
) -> tuple[list[dict[str, Any]], str]:
    """Return the answers with --json that a host has printed, and the reason why there are none."""
    try:
        lines = ask(group).strip().splitlines()
    except AgentError as error:
        return [], str(error)
    told = []
    for line in lines:
        try:
            value = json.loads(line)
        except ValueError:
            continue  # it is of the profile of a shell
        if isinstance(value, dict) and "data" in value:
            told.append(value)
    return told, "" if told else f"{group[0].place} has given no answer"


def runs_of(one: Elsewhere) -> tuple[list[dict[str, Any]] | None, str]:
    """Return the runs of a deployment whose output its host keeps, or none and the reason."""
    ((_, told, why),) = _of_each([one], stack_package.show_elsewhere)
    data = told[-1].get("data") if told else None
    if not isinstance(data, dict):
        return None, why or str((told[-1].get("error") or {}).get("message", ""))
    return list(data.get("runs") or ()), ""


def printed(
    chosen: Sequence[Elsewhere], words: Sequence[str]
) -> tuple[list[dict[str, object]], list[str]]:
    """Return the output of deployments from their hosts, in the form of `log --json`, and the reasons for gaps."""
    titles = {each.run: each.title for each in chosen}
    runs: list[dict[str, object]] = []
    missing = []
    for group, told, why in _of_each(
        chosen, lambda ones: stack_package.logs_elsewhere(ones, words)
    ):
        for one, answer in zip(group, told, strict=False):
            for run in (answer["data"] or {}).get("runs") or ():
                title = titles.get(str(run.get("id")), one.title)
                texts = {
                    name: str(run.get(name) or "") for name in ("stdout", "stderr")
                }
                runs.append({**run, "name": title, **texts})
        if why:
            names = ", ".join(each.title for each in group)
            missing.append(f"the output of {names} is not shown: {why}")
    return runs, missing


class Following:
    """The output of the deployments of a stack that hosts have, printed while it grows.

    A run whose connection breaks is followed again, and no line is printed twice.
    """

    def __init__(
        self, read: Callable[[], Sequence[Elsewhere]], words: Sequence[str]
    ) -> None:
        """Follow the deployments that `read` returns; `words` are options of `log`."""
        self._read, self._words = read, words
        self._followed: dict[str, _Followed] = {}
        self._looked = -_LOOK
        self._was_at_work = True

    def copy(self, wide: int, *, at_work: bool) -> bool:
        """Print what is new; return whether there may be more. New runs may begin while the stack is `at_work`."""
        has_ended, self._was_at_work = self._was_at_work and not at_work, at_work
        if has_ended or time.monotonic() - self._looked >= _LOOK:
            self._looked = time.monotonic()
            for each in self._read():
                if each.run not in self._followed:
                    self._followed[each.run] = _Followed(each)
        every = self._followed.values()
        up = sum(one.is_up for one in every)
        for one in every:
            if not one.is_up and one.is_due(at_work=at_work) and up < _AT_ONCE:
                one.begin(self._words, at_work=at_work)
                up += 1
            one.copy(wide)
        return any(one.is_up or one.is_due(at_work=at_work) for one in every)

    @property
    def has_printed(self) -> bool:
        """True if there was output."""
        return any(any(each.printed.values()) for each in self._followed.values())

    @property
    def missing(self) -> list[str]:
        """The output that is not shown, and why."""
        return [
            f"the output of {each.title} is not shown: {each.why}"
            for each in self._followed.values()
            if each.why
        ]

    def close(self) -> None:
        """End what still follows."""
        for each in self._followed.values():
            each.end()


class _Followed:
    """The output of one run on a host, which `log --follow` prints there."""

    def __init__(self, one: Elsewhere) -> None:
        self._one, self.title = one, one.title
        self.why = ""
        """The reason why the output is not shown; empty if it is."""
        self.printed = {"stdout": 0, "stderr": 0}
        """The lines that were printed, by stream."""
        self._process: subprocess.Popen[bytes] | None = None
        self._rest: dict[str, bytes] = {}
        self._seen = {"stdout": 0, "stderr": 0}
        self._held: list[str] = []
        """The lines from the first one that may be about the command itself, and not of the run."""
        self._code: int | None = None
        self._again, self._delay = 0.0, _LOOK
        self._is_early = True
        """True if the host was last asked while runs could begin yet."""

    @property
    def is_up(self) -> bool:
        return self._process is not None

    def is_due(self, *, at_work: bool) -> bool:
        """Return whether it has to be followed, from the beginning or again; not before some time has passed."""
        if self._code is None:
            return True
        # the run had not begun there when the host was asked, or the host was not reached
        if at_work:
            return self._code != 0 and time.monotonic() >= self._again
        return self._code != 0 and self._is_early

    def begin(self, words: Sequence[str], *, at_work: bool) -> None:
        self._is_early = at_work
        self._process = stack_package.follow_elsewhere(self._one, words)
        self._rest = {"stdout": b"", "stderr": b""}
        self._seen = {"stdout": 0, "stderr": 0}
        self._held, self.why = [], ""
        for stream in (self._process.stdout, self._process.stderr):
            assert stream is not None  # noqa: S101  # both are pipes
            os.set_blocking(stream.fileno(), False)

    def copy(self, wide: int) -> None:
        """Print the lines that have come."""
        process = self._process
        if process is None:
            return
        code = process.poll()  # before the rest is read
        for name in self._rest:
            stream = getattr(process, name)
            with contextlib.suppress(BlockingIOError):
                while piece := os.read(stream.fileno(), 65536):
                    self._rest[name] += piece
            *lines, self._rest[name] = self._rest[name].split(b"\n")
            if code is not None and self._rest[name]:
                lines.append(self._rest[name])
            for line in lines:
                self._take(name, line.decode("utf-8", "replace"), wide)
        if code is not None:
            self._ended(code, wide)

    def _take(self, name: str, line: str, wide: int) -> None:
        if name == "stderr" and (self._held or line.startswith("error: ")):
            self._held.append(line)
        else:
            self._print(name, line, wide)

    def _print(self, name: str, line: str, wide: int) -> None:
        self._seen[name] += 1
        if self._seen[name] > self.printed[name]:
            self.printed[name] = self._seen[name]
            prefix = f"{terminal.padded(self.title, wide)}  | "
            terminal.say(prefix + terminal.line(line), error=name == "stderr")

    def _ended(self, code: int, wide: int) -> None:
        self._code, self._again = code, time.monotonic() + self._delay
        self._delay = min(self._delay * 2, _LONGEST_DELAY)
        held, self._held = self._held, []
        if code:
            why = held[0].removeprefix("error: ") if held else f"exit code {code}"
            self.why = f"{self._one.place}: {why}"
        else:
            for line in held:
                self._print("stderr", line, wide)
        self.end()

    def end(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        if process.poll() is None:
            process.kill()
        for stream in (process.stdout, process.stderr):
            if stream is not None:
                stream.close()
        process.wait()


def stopped(
    chosen: Sequence[Elsewhere], words: Sequence[str]
) -> tuple[list[str], list[str]]:
    """Have hosts stop deployments; return a sentence for each that was, and the reasons why others were not."""
    done, failed = [], []
    for group, told, why in _of_each(
        chosen, lambda ones: stack_package.stop_elsewhere(ones, words)
    ):
        names = ", ".join(each.title for each in group)
        place = group[0].place
        for answer in told:
            error = (answer.get("error") or {}).get("message", "")
            if error:
                failed.append(f"{names}: on {place}: {error}")
            else:
                said = "; ".join(map(str, answer["data"]["messages"]))
                done.append(f"{names}: on {place}: {said}")
        if why:
            failed.append(f"{names}: {why}")
    return done, failed


def verified(
    settings: Settings, chosen: Sequence[Elsewhere]
) -> Iterator[tuple[Named, Finding]]:
    """Yield the verdicts of hosts about their deployments: "unknown" for those of a host that is not reached."""
    for group, told, why in _of_each(chosen, stack_package.verify_elsewhere):
        rows, error = _rows(told)
        by_run = {str(row.get("id")): row for row in rows}
        reason = why or error or f"{group[0].place} does not have it"
        for each in group:
            values = by_run.get(each.run)
            target, found = _row(
                settings, each, values or {"state": "unknown", "message": reason}
            )
            yield target, replace(found, has_answer=values is not None)


def verified_again(
    settings: Settings, targets: Sequence[Named]
) -> dict[str, tuple[Named, Finding]]:
    """Return the verdicts of hosts about deployments that have run again since, by title: each run has its own id."""
    titles = {each.title for each in targets}
    others = [
        each
        for stack in {each.stack for each in targets}
        for each in stack_package.elsewhere(settings, stack)
        if each.title in titles
    ]
    return {row[0].title: row for row in verified(settings, others)}


def _rows(told: Sequence[Mapping[str, Any]]) -> tuple[list[Mapping[str, Any]], str]:
    """Return the rows of `verify --json`, and why there are none."""
    last = told[-1] if told else {}
    data, error = last.get("data"), last.get("error")
    rows = data.get("deployments") if isinstance(data, dict) else None
    why = error.get("message") if isinstance(error, dict) else ""
    return [row for row in rows or () if isinstance(row, dict)], str(why or "")


def _row(
    settings: Settings, one: Elsewhere, values: Mapping[str, Any]
) -> tuple[Named, Finding]:
    changes = tuple(
        Change(what=str(each["what"]), how=str(each["how"]), diff=str(each["diff"]))
        for each in values.get("changes") or ()
    )
    state = Shown(values["state"])
    verdict = Verdict(
        standing=Standing.DRIFTED if changes else Standing.UNKNOWN,
        changes=changes,
        left_out=int(values.get("left_out") or 0),
    )
    message = str(values.get("message") or "")
    target = thing(
        settings, one, str(values.get("action") or ""), str(values.get("tool") or "")
    )
    finding = Finding(
        entry=target.entry,
        state=state,
        reason=f"on {one.place}{f': {message}' if message else ''}",
        verdict=verdict if changes else None,
    )
    return target, finding


def thing(
    settings: Settings, one: Elsewhere, action: str = "", tool: str = ""
) -> Named:
    """Return a named deployment whose journal is on another machine."""
    entry = Entry(
        key=one.run,
        id=one.run,
        name=one.title.rpartition("/")[2],
        action=action,
        tool=tool,
        source="",
        addressee="",
        document={},
        state=State.SIGNALLED,
        at=0,
        accepted=0,
    )
    return Named(
        entry=entry,
        title=one.title,
        settings=settings,
        stack=one.title.partition("/")[0],
        deployment=one.deployment,
    )
