"""Stories of stacks, carried out by the installed commands: made, changed, brought back, put to rest, and deleted.

A `Plot` says what is asked of a stack, one step after the other. A `StackStory` takes these steps on a machine of its
own; whatever is done to the commands there, its scripts write down what they did, and it compares that, and what is
shown of the stack, with the promises. What an undisturbed story came to is what it has to come to as well.
"""

from __future__ import annotations

import json
import random
import re
import subprocess
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from heat_config_stack.records.store import Store
from support.promises import forms, strays, too_open
from support.stories import Story
from support.walks import below

NAME = "s"
PATIENCE = 120.0
"""Seconds in which a command that nobody disturbs has come to its end."""

WAITING = 60
"""Seconds until a wait condition gives up, when the run that would have notified it was killed. Below our patience."""

CREATE, UPDATE, SUSPEND, RESUME, DELETE = (
    "create",
    "update",
    "suspend",
    "resume",
    "delete",
)
MAKES = (CREATE, UPDATE)
"""The commands that take a template."""


@dataclass(frozen=True)
class Shape:
    """The shape of a stack."""

    text: str
    """Given to all scripts: with another one, each runs again."""
    swap: int = 0
    """With another one, a deployment is replaced."""
    salt: int = 0
    """With another one, the random value is."""
    members: int = 1
    """Members of a group."""
    extras: frozenset[str] = frozenset()
    """The deployments that are not always there."""
    waits: int = 1
    """The number of wait conditions, each signalled by a script."""
    fails: bool = False
    """True if the script that runs after all others fails."""


@dataclass(frozen=True)
class Step:
    """A request for the stack."""

    what: str
    shape: Shape
    rollback: bool = False
    apply: bool = False
    """True if the request goes through `heat-config-apply`."""

    @property
    def fails(self) -> bool:
        """True if this step has to fail."""
        return self.what in MAKES and self.shape.fails

    def __str__(self) -> str:
        rollback = ", with rollback" if self.rollback else ""
        return f"{self.what} {self.shape}{rollback}{', applied' if self.apply else ''}"


@dataclass(frozen=True)
class Plot:
    """The requests for a stack, one after the other."""

    seed: int
    pin: str
    """A hidden parameter."""
    pause: float
    """Seconds that each script takes."""
    steps: tuple[Step, ...]

    @classmethod
    def of(cls, seed: int, length: int) -> Plot:
        """Return the plot that follows from a seed, with so many changes in it."""
        chance = random.Random(seed)  # noqa: S311  # it is to be repeatable
        pin, pause = (
            f"planted-pin-{chance.randrange(10**9)}",
            chance.choice((0.0, 0.05, 0.15)),
        )
        shape = Shape(
            "v0",
            members=chance.randint(1, 2),
            extras=_some(chance),
            waits=chance.randint(1, 2),
        )
        steps = []
        if chance.random() < 0.3:
            steps.append(
                Step(
                    CREATE,
                    replace(shape, fails=True),
                    rollback=True,
                    apply=chance.random() < 0.5,
                )
            )
        steps.append(Step(CREATE, shape, apply=chance.random() < 0.5))
        for number in range(1, length + 1):
            found = _change(chance, shape, f"v{number}")
            steps += found
            if found[-1].what in MAKES and not found[-1].fails:
                shape = found[-1].shape
        steps.append(Step(DELETE, shape))
        return cls(seed, pin, pause, tuple(steps))


def _some(chance: random.Random) -> frozenset[str]:
    return frozenset(each for each in ("x", "y", "z") if chance.random() < 0.4)


def _change(chance: random.Random, shape: Shape, text: str) -> list[Step]:
    """Return one thing that is asked of a stack, and what has to follow it."""
    apply = chance.random() < 0.5
    changed = replace(
        shape,
        text=chance.choice((shape.text, text)),
        swap=shape.swap + chance.randint(0, 1),
        salt=shape.salt + (chance.random() < 0.3),
        members=chance.randint(1, 3),
        extras=_some(chance),
        waits=chance.randint(1, 2),
    )
    match chance.choice(("update", "update", "rollback", "failure", "rest")):
        case "update":
            return [Step(UPDATE, changed, rollback=chance.random() < 0.5, apply=apply)]
        case (
            "rollback"
        ):  # the text is another one, so that the script which fails does run
            return [
                Step(
                    UPDATE,
                    replace(changed, text=text, fails=True),
                    rollback=True,
                    apply=apply,
                )
            ]
        case "failure":
            bad = Step(UPDATE, replace(changed, text=text, fails=True), apply=apply)
            return [bad, Step(UPDATE, changed, apply=not apply)]
        case _:
            return [Step(SUSPEND, shape), Step(RESUME, shape)]


# Templates.

FAILS = 7
"""The exit code of the script that is to fail."""

_SCRIPT = """#!/bin/sh
say() { read -r now idle </proc/uptime; echo "$1 $where.$key $deploy_action $text $2 $now" >>"$folder/log"; }
say begun "$random"
echo "$random" | tr -d '\\n' >/dev/null
echo "the pin is $pin"
printf '%s\\n' "$notify" | sed -n "s/.*X-Auth-Token: *\\([^' ]*\\).*/\\1/p" >>"$folder/tokens"
case $deploy_action in
DELETE) rm -f "$folder/made/$where.$key" ;;
*) : >"$folder/made/$where.$key" ;;
esac
sleep "$pause"
code=0
case $deploy_action in
CREATE | UPDATE)
    [ "$fails" != yes ] || code=FAILS
    tried=0
    while [ -n "$notify" ]; do
        sh -c "$notify --silent --fail --output /dev/null --max-time 20 --data-binary '{\\"status\\": \\"SUCCESS\\", \\
\\"id\\": \\"$where\\", \\"data\\": \\"from $where\\"}'" && break
        tried=$((tried + 1))
        if [ "$tried" -gt 600 ]; then
            code=9
            break
        fi
        sleep 0.05
    done
    ;;
esac
printf %s "$where says $text after $before" >"$heat_outputs_path.said"
say ended "$code"
exit "$code"
""".replace("FAILS", str(FAILS))

_INPUTS = (
    "folder",
    "where",
    "text",
    "before",
    "random",
    "pin",
    "pause",
    "notify",
    "fails",
)
_ACTIONS = ["CREATE", "UPDATE", "SUSPEND", "RESUME", "DELETE"]
_VERSION = {"heat_template_version": "2018-08-31"}
_GIVEN = {
    "folder": {"type": "string"},
    "pin": {"type": "string", "hidden": True},
    "pause": {"type": "number"},
}
_PASSED = {name: {"get_param": name} for name in _GIVEN}


def _config() -> dict[str, Any]:
    inputs: list[dict[str, Any]] = [{"name": each} for each in _INPUTS]
    inputs.append({"name": "key", "replace_on_change": True})
    given = {
        "group": "script",
        "config": _SCRIPT,
        "inputs": inputs,
        "outputs": [{"name": "said"}],
    }
    return {"type": "OS::Heat::SoftwareConfig", "properties": given}


def _deployment(where: Any, text: Any, **values: Any) -> dict[str, Any]:
    given = {"where": where, "text": text, "key": "0", **_PASSED, **values}
    return {
        "type": "OS::Heat::SoftwareDeployment",
        "properties": {
            "config": {"get_resource": "config"},
            "server": "here",
            "actions": _ACTIONS,
            "input_values": given,
        },
    }


def _said(resource: str) -> dict[str, Any]:
    return {"get_attr": [resource, "said"]}


def _nested() -> dict[str, Any]:
    """Return a template that is used in another one: one deployment, whose output is passed on."""
    names = ("where", "text", "before")
    values = {name: {"get_param": name} for name in names}
    return {
        **_VERSION,
        "parameters": {
            **_GIVEN,
            **{name: {"type": "string", "default": ""} for name in names},
        },
        "resources": {
            "config": _config(),
            "it": _deployment(values["where"], values["text"], before=values["before"]),
        },
        "outputs": {"said": {"value": _said("it")}},
    }


def template(shape: Shape) -> dict[str, Any]:
    """Return the template of a shape."""
    text = shape.text
    inner = {**_PASSED, "text": text}
    resources: dict[str, Any] = {
        "random": {
            "type": "OS::Heat::RandomString",
            "properties": {"length": 24, "salt": f"salt{shape.salt}"},
        },
        "config": _config(),
        "first": _deployment("first", text, random={"get_attr": ["random", "value"]}),
        "second": _deployment(
            "second",
            text,
            before=_said("first"),
            random={"get_attr": ["random", "value"]},
        ),
        "swapped": _deployment("swapped", text, key=f"{shape.swap}"),
        "tier": {
            "type": "tier.yaml",
            "properties": {**inner, "where": "tier", "before": _said("second")},
        },
        "members": {
            "type": "OS::Heat::ResourceGroup",
            "properties": {
                "count": shape.members,
                "resource_def": {
                    "type": "tier.yaml",
                    "properties": {**inner, "where": "member%index%"},
                },
            },
        },
    }
    outputs = {
        "random": {"get_attr": ["random", "value"]},
        "members": _said("members"),
        "tier": _said("tier"),
    }
    for each in sorted(shape.extras):
        resources[each] = _deployment(each, text, before=_said("first"))
        outputs[each] = _said(each)
    for number in range(shape.waits):
        handle, wait = f"handle{number}", f"wait{number}"
        resources[handle] = {"type": "OS::Heat::WaitConditionHandle"}
        timing = {"handle": {"get_resource": handle}, "timeout": WAITING}
        resources[wait] = {"type": "OS::Heat::WaitCondition", "properties": timing}
        notify = {"get_attr": [handle, "curl_cli"]}
        resources[f"notifying{number}"] = _deployment(
            f"notifying{number}", text, notify=notify
        )
        outputs[wait] = {"get_attr": [wait, "data"]}
    everything = sorted(resources)
    resources["last"] = _deployment(
        "last", text, fails="yes" if shape.fails else "no"
    ) | {"depends_on": everything}
    outputs["last"] = _said("last")
    resources["value"] = {
        "type": "OS::Heat::Value",
        "properties": {"value": _said("second")},
    }
    outputs["value"] = {"get_attr": ["value", "value"]}
    return {
        **_VERSION,
        "parameters": _GIVEN,
        "resources": resources,
        "outputs": {name: {"value": value} for name, value in outputs.items()},
    }


# Stories.


@dataclass(frozen=True)
class Come:
    """The state of a stack after a step, as it is compared: without values that differ each time."""

    state: str
    """Its action and status; empty where there is none."""
    resources: tuple[tuple[str, str], ...]
    """The name and state of each resource, those of nested stacks, too."""
    outputs: dict[str, Any]
    ran: Counter[str]
    """The lines that scripts have written in this step."""
    made: tuple[str, ...]
    """The files that scripts have made and not removed."""

    def differs(self, other: Come, *, loosely: bool) -> list[str]:
        """Return in what this differs from another one; loosely where runs were killed, and done anew."""
        wrong = []
        mine, theirs = (
            _loose(each.state) if loosely else each.state for each in (self, other)
        )
        if mine != theirs:
            wrong.append(
                f"the stack is {mine or 'not there'}, and would be {theirs or 'not there'}"
            )
        if loosely:
            names = [
                sorted(name for name, _ in each.resources) for each in (self, other)
            ]
            if names[0] != names[1]:
                wrong.append(f"its resources are {names[0]}, and would be {names[1]}")
        elif self.resources != other.resources:
            wrong.append(
                f"of its resources, {sorted(set(self.resources) ^ set(other.resources))} differ"
            )
        if self.outputs != other.outputs:
            wrong.append(
                f"its outputs are {self.outputs}, and would be {other.outputs}"
            )
        if not loosely and self.ran != other.ran:
            wrong += [
                f"this was done {times} times too often: {what}"
                for what, times in (self.ran - other.ran).items()
            ]
            wrong += [
                f"this was not done: {what} ({times})"
                for what, times in (other.ran - self.ran).items()
            ]
        if not loosely and self.made != other.made:
            wrong.append(
                f"scripts have left {self.made}, and would have left {other.made}"
            )
        return wrong


def _loose(state: str) -> str:
    """Return a state without whether it was made at once, or by an update that did again what had failed.

    Where the way back has failed because a run was killed, it is an update that goes back, too.
    """
    return re.sub("^(UPDATE|ROLLBACK)_COMPLETE$", "CREATE_COMPLETE", state)


class StackStory(Story):
    """A machine with a stack, and what its scripts have written down."""

    def __init__(self, folder: Path, plot: Plot, curious: float = 0.3) -> None:
        """Begin with nothing. After each step, that share of what shows something of the stack is looked at."""
        super().__init__(folder)
        self.plot, self.curious = plot, curious
        self._chance = random.Random(plot.seed)  # noqa: S311  # it is to be repeatable
        self._log, self._tokens, self._said = (
            folder / name for name in ("log", "tokens", "said")
        )
        for each in (self._log, self._tokens, self._said):
            each.touch()
        self._made = folder / "made"
        self._made.mkdir()
        self._read = 0
        self.hits = 0
        """The number of runs that were killed in this step."""
        self.loose = False
        """True if runs were killed, so that other scripts ran than without a kill."""
        self._write("tier.yaml", _nested())

    def _write(self, name: str, value: object) -> Path:
        return self.machine.write(json.dumps(value), name)

    # Driving.

    def start(
        self, step: Step, before: tuple[str, ...] = ()
    ) -> subprocess.Popen[bytes]:
        """Start the command that is asked to take a step. All that it says is kept."""
        program, *words = self._words(step)
        return self.machine.start_into(self._said, program, *words, before=before)

    def _words(self, step: Step) -> list[str]:
        words = ["heat-config-agent", "stack", step.what, NAME]
        if step.what in MAKES:
            path = str(self._write("root.yaml", template(step.shape)))
            given = {
                "folder": self.machine.folder,
                "pin": self.plot.pin,
                "pause": self.plot.pause,
            }
            words = (
                ["heat-config-apply", path, "--name", NAME]
                if step.apply
                else [*words, "-t", path]
            )
            words += [
                word
                for name, value in given.items()
                for word in ("--parameter", f"{name}={value}")
            ]
            words += ["--rollback"] if step.rollback else []
        return [
            *words,
            *(["--yes"] if step.what == DELETE else []),
            "--state-dir",
            str(self.machine.state),
        ]

    def take(self, step: Step) -> int:
        """Take a step that nobody disturbs, and return the exit code of the command."""
        return self.start(step).wait(PATIENCE)

    def play(self) -> None:
        for step in self.plot.steps:
            assert self.take(step) == int(step.fails), self.said()
            self.check()

    def check(self) -> None:
        assert not (wrong := self.broken()), wrong

    # Looking.

    @property
    def folder(self) -> Path:
        """Where the stack is kept."""
        return self.machine.state / "stacks" / NAME

    def state(self) -> tuple[str, str, str]:
        """Return the action and status of the stack, and what is another one whenever something is begun on it."""
        if not (self.folder / "stack").exists():
            return "", "", ""
        found = [
            each
            for each in Store(self.folder, write=False).stacks.values()
            if not each.owner
        ]
        return (
            (found[0].action, found[0].status, found[0].attempt)
            if found
            else ("", "", "")
        )

    def reason(self, name: str) -> str:
        """Return why a resource of the stack is in its state; empty where there is none of that name.

        Where one has been replaced, and is there still, it is the new one.
        """
        known = (
            Store(self.folder, write=False).resources.values()
            if (self.folder / "stack").exists()
            else ()
        )
        named = [each for each in known if each.name == name]
        return max(named, key=lambda each: each.created).reason if named else ""

    def said(self) -> str:
        """Return all that commands have said."""
        return self._said.read_text(errors="replace")

    def lines(self) -> list[list[str]]:
        """Return what scripts have written down: begun or ended, where, the action, the text, the rest."""
        return [line.split(" ") for line in self._log.read_text().splitlines()]

    def come_to(self) -> Come:
        """Return what the stack has come to since this was asked last, and hold what is shown of it to the promises."""
        action, status, _ = self.state()
        shown = self._shown(bool(action))
        lines = self.lines()
        new, self._read = lines[self._read :], len(lines)
        values: dict[str, str] = {}
        ran = Counter(
            " ".join(
                (*each[:4], _named(values, each[4]) if each[0] == "begun" else each[4])
            )
            for each in new
        )
        outputs = shown.get("outputs", {})
        if "random" in outputs:
            outputs["random"] = (
                "RANDOM"
                if re.fullmatch(r"\w{24}", str(outputs["random"]))
                else outputs["random"]
            )
        return Come(
            f"{action}_{status}" if action else "",
            tuple(sorted(shown.get("resources", []))),
            outputs,
            ran,
            tuple(sorted(each.name for each in self._made.iterdir())),
        )

    def _shown(self, there: bool) -> dict[str, Any]:
        """Return what commands show of the stack, and look for secrets in all of it."""
        asked = [
            ["list", "--json"],
            *([*each, "--json"] for each in (_OUTPUTS, _RESOURCES) if there),
        ]
        asked += [
            each
            for each in (_ALSO if there else _ALSO[:1])
            if self._chance.random() < self.curious
        ]
        found = dict(zip(map(" ".join, asked), self._listed(asked), strict=True))
        leaks = self.leaks({**found, "what was said": self.said()})
        assert not leaks, "\n".join(leaks)
        if not there:
            stacks = json.loads(found["list --json"])["data"]["stacks"]
            assert stacks == [], stacks
            return {}
        outputs = json.loads(found[" ".join((*_OUTPUTS, "--json"))])["data"]["outputs"]
        resources = json.loads(found[" ".join((*_RESOURCES, "--json"))])["data"][
            "resources"
        ]
        return {
            "outputs": {each["output_key"]: each["output_value"] for each in outputs},
            "resources": [
                (each["resource_name"], each["resource_status"]) for each in resources
            ],
        }

    def _listed(self, commands: list[list[str]]) -> list[str]:
        """Return what `heat-config-agent stack` prints for each of these."""
        words = (["stack", *each] for each in commands)
        *listings, errors = self.machine.listed(words, PATIENCE)
        assert not errors, errors
        return listings

    def leaks(self, texts: dict[str, str]) -> list[str]:
        """Return in which texts there is what is not to be shown."""
        secrets = {"the hidden parameter": self.plot.pin}
        secrets |= {
            f"token {number}": each
            for number, each in enumerate(set(self._tokens.read_text().split()))
        }
        return [
            f"{what} is in {place}"
            for place, text in texts.items()
            for what, secret in secrets.items()
            if any(form in text for form in forms(secret))
        ]

    # Checking.

    def broken(self) -> list[str]:
        """Return what is wrong whatever was done, between two steps."""
        wrong = self._untrue()
        if "Traceback" in self.said():
            wrong.append("a traceback was shown")
        wrong += too_open(self.machine.state)
        wrong += [f"{each.cmdline()} goes on" for each in strays(self.machine)]
        return wrong

    def _untrue(self) -> list[str]:
        """Return which runs are said to be good that were not."""
        last = {each[1]: each for each in self.lines()}
        _, status, _ = self.state()
        gone = not (self.folder / "stack").exists()
        wrong = []
        for where, line in last.items() if status == "COMPLETE" or gone else ():
            if line[0] != "ended" or line[4] != "0":
                wrong.append(
                    f"the stack is said to be well, and this came last: {' '.join(line)}"
                )
            elif gone and line[2] != "DELETE":
                wrong.append(
                    f"the stack is gone, and {where} was not undone: {' '.join(line)}"
                )
        if gone and self.machine.state.is_dir():
            wrong += [
                f"this is left of a deleted stack: {each}"
                for each in below(self.machine.state)
                if _of(each)
            ]
            wrong += [
                f"what a script has made is left: {each.name}"
                for each in self._made.iterdir()
            ]
        return wrong

    def too_often(self, step: Step) -> list[str]:
        """Return which scripts have run in this step more often than runs were killed in it.

        A killed run fails an update. With a rollback, what has run by then runs once more on the way back, and again
        when the step is taken again. What a way back has made again is deleted, as well as what it replaces.
        """
        more = self.hits * (2 if step.rollback else 1)
        begun = Counter(
            " ".join(each[1:4])
            for each in self.lines()[self._read :]
            if each[0] == "begun"
        )
        made = {
            what.replace(" CREATE ", " DELETE "): times
            for what, times in begun.items()
            if " CREATE " in what
        }
        return [
            f"{what} ran {times} times in {step.what}"
            for what, times in begun.items()
            if times > 1 + more + made.get(what, 0)
        ]


_OUTPUTS = ["output", "list", NAME]
_RESOURCES = ["resource", "list", NAME, "--nested-depth", "5"]
_ALSO = [
    ["list"],
    _OUTPUTS,
    _RESOURCES,
    ["show", NAME],
    ["show", NAME, "--json"],
    ["event", "list", NAME],
    ["event", "list", NAME, "--json"],
    ["graph", NAME, "--timeline"],
]
"""Further commands that show a stack."""


def _named(values: dict[str, str], value: str) -> str:
    """Return the name of a random value: that of the first one, the second one, and so on."""
    return values.setdefault(value, f"RANDOM{len(values)}") if value else ""


def _of(path: Path) -> bool:
    """Return whether a file or folder belongs to a stack."""
    return "stacks" in path.parts and path.name != "stacks"
