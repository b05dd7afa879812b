"""The promises, held against what really happened: work that leaves evidence of itself, and one checker for all of it.

A `World` hands out deployments of every kind, each with secrets of its own planted in it. Their scripts write down
when they begin and end, where no agent has a hand in it. Whatever was done to the agent meanwhile, `check` compares
that evidence, what the server heard, what was said, and what is on disk.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import random
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from heat_config_agent.model.entry import Entry, State
from heat_config_agent.state import journal
from support import kill_points, pace
from support.loopback import Signal, SignalServer
from support.machine import Machine, deployment
from support.walks import below

TIMED_OUT, INTERRUPTED = 124, 125
KILLED = frozenset({128 + signal.SIGKILL, 128 + signal.SIGTERM})
RERUNS = 4
"""The most times that a deployment that may be run again begins."""

PLANTED = "planted--"
"""All secrets begin with it, and their base64 with its base64: where neither is, none of them is."""

PATIENCE = 60.0
"""Seconds in which an agent that nobody disturbs has done all there is to do."""


@dataclass(frozen=True)
class Kind:
    """A kind of work."""

    name: str
    body: str
    """The script between the marks of its begin and its end; `@` is a path of its own."""
    code: int = 0
    options: dict[str, Any] = field(default_factory=dict)
    repeatable: bool = False
    limited: bool = False
    """It does not end by itself: its time limit ends it."""
    reboots: int = 0
    """The number of reboots that it asks for, each followed by another run."""
    retries: int = 0
    """The number of exits with a code of its option `retry`, each followed by another run."""
    shape: str = "plain"
    """`plain` for one config, `component`, or `own` for an executable hook."""


KINDS = (
    Kind("quick", ""),
    Kind("slow", "sleep 0.2"),
    Kind("fails", "echo no >&2", code=7),
    Kind("floods", "head -c 300000 /dev/zero | tr '\\0' x"),
    Kind("repeatable", "sleep 0.1", options={"idempotent": True}, repeatable=True),
    Kind("component", "sleep 0.05", shape="component"),
    Kind("own", "sleep 0.05", shape="own"),
    Kind("leaves a daemon", "(exec setsid sleep 5 >/dev/null 2>&1 </dev/null &)"),
    Kind("hangs", "sleep 60", options={"timeout": 0.3}, limited=True),
    Kind(
        "hangs on",
        "trap : TERM; while :; do sleep 0.1; done",
        options={"timeout": 0.3},
        limited=True,
    ),
)


@dataclass
class Handed:
    """A deployment that was handed to the agent."""

    id: str
    kind: Kind
    document: dict[str, Any]
    secrets: tuple[str, ...]
    address: str
    """The name of the URL to which its result goes."""
    resource: bool = False
    """True if its inputs name its resource."""
    replaced: float | None = None
    """When it left what is handed out: replaced by another one at the same address, perhaps (monotonic seconds)."""
    was_running: bool = False
    """True if it was recorded as running then."""
    again: int = 0
    """The number of requests to run it again."""
    forgotten: bool = False
    """True if it was to be forgotten."""


class World:
    """A machine, a server, and everything that was handed out on them."""

    def __init__(self, machine: Machine, heat: SignalServer, seed: int) -> None:
        """Begin. All choices follow from the seed."""
        self.machine = machine
        self.heat = heat
        self.seed = seed
        self.chance = random.Random(seed)  # noqa: S311  # it is to be repeatable
        self.handed: dict[str, Handed] = {}
        self.kills = 0
        self.interrupted: set[str] = set()
        """The ids of the deployments whose runs were killed, so that their outcome may be unknown."""
        self.may_be_damaged = False
        """True if the state was damaged on purpose."""
        self._evidence = machine.folder / "evidence"
        self._evidence.mkdir()
        self._said = machine.folder / "said"
        machine.logs.append(self._said)
        self._log = machine.folder / "daemon.log"
        self._number = 0
        machine.hook("own", _own_hook(self._evidence))

    # Handing out.

    def batch(self, kinds: Iterable[Kind]) -> list[dict[str, Any]]:
        """Return new deployments of these kinds."""
        return [self._new(kind).document for kind in kinds]

    def any_batch(
        self, number: int, kinds: tuple[Kind, ...] = KINDS
    ) -> list[dict[str, Any]]:
        """Return so many new deployments, of kinds that chance chooses."""
        return self.batch(self.chance.choices(kinds, k=number))

    def replace(
        self, document: dict[str, Any], kind: Kind = KINDS[0], action: str = "UPDATE"
    ) -> dict[str, Any]:
        """Return a deployment that stands in the place of another one: it has another id, and the same address.

        No agent may be at work, and whatever is applied after this must have the new one in the place of the old one.
        """
        self.withdraw(document)
        return self.another(document, kind, action)

    def another(
        self, document: dict[str, Any], kind: Kind, action: str = "UPDATE"
    ) -> dict[str, Any]:
        """Return a deployment of the same resource as another one: it has another id, and the same address."""
        old = self.handed[document["id"]]
        return self._new(
            kind, old.address, action=action, resource=old.resource
        ).document

    def withdraw(self, document: dict[str, Any]) -> Handed:
        """Take a deployment back: whatever is applied after this must not have it. No agent may be at work."""
        old = self.handed[document["id"]]
        entry = self.entries().get(old.id)
        old.was_running = entry is not None and entry.state is State.RUNNING
        self.heat.settle()  # what a killed agent has sent has been sent before this
        old.replaced = time.monotonic()
        return old

    def _new(
        self,
        kind: Kind,
        address: str = "",
        *,
        action: str = "CREATE",
        resource: bool | None = None,
    ) -> Handed:
        self._number += 1
        identity = f"w{self.seed}-{self._number}"
        address = address or identity
        resource = self.chance.random() < 0.5 if resource is None else resource
        plain = tuple(
            f"{PLANTED}{identity}-{what}-{self.chance.randrange(10**9)}"
            for what in ("password", "hidden", "token")
        )
        text = _script(self._evidence, identity, kind)
        inputs: list[dict[str, Any]] = [
            {"name": "deploy_password", "type": "String", "value": plain[0]},
            {"name": "quiet", "type": "String", "value": plain[1], "hidden": True},
            {"name": "api_token", "type": "String", "value": plain[2]},
            {"name": "identity", "type": "String", "value": identity},
        ]
        if resource:
            inputs.append(
                {"name": "deploy_stack_id", "type": "String", "value": "stack/1"}
            )
            inputs.append(
                {"name": "deploy_resource_name", "type": "String", "value": address}
            )
        given = deployment(
            identity,
            text,
            action=action,
            inputs=inputs,
            outputs=["identity"],
            options=dict(kind.options),
            signal=f"{self.heat.url(address)}&Token={plain[0]}",
        )
        if kind.shape == "own":
            given["group"] = "own"
        if kind.shape == "component":
            other = {
                "actions": ["RESUME"],
                "tool": "script",
                "config": "#!/bin/sh\nexit 99\n",
            }
            one = {
                "actions": ["CREATE", "UPDATE", "DELETE"],
                "tool": "script",
                "config": text,
            }
            given |= {"group": "component", "config": {"configs": [other, one]}}
        new = Handed(identity, kind, given, plain, address, resource)
        self.handed[identity] = new
        return new

    # Driving.

    def start(
        self,
        document: object,
        *arguments: str,
        before: Iterable[str] = (),
        **environment: str,
    ) -> subprocess.Popen[bytes]:
        """Start `heat-config-apply`, by the command `before` if there is one. All that it says is kept."""
        path = self.machine.write(document)
        places = (
            "--state-dir",
            str(self.machine.state),
            "--hooks-dir",
            str(self.machine.hooks),
        )
        words = (*places, "--grace", "0.2", *arguments, str(path))
        return self.machine.start_into(
            self._said, "heat-config-apply", *words, before=before, **environment
        )

    def start_daemon(
        self, settings: Path, *, before: Iterable[str] = (), **environment: str
    ) -> subprocess.Popen[bytes]:
        """Start the daemon with the settings in a file, by the command `before` if there is one."""
        words = ("run", "--config", str(settings))
        return self.machine.start_into(
            self._said, "heat-config-agent", *words, before=before, **environment
        )

    def apply(
        self,
        document: object,
        *arguments: str,
        before: Iterable[str] = (),
        **environment: str,
    ) -> int:
        """Run `heat-config-apply` to its end, and return its exit code; minus the signal that killed it."""
        return self.start(document, *arguments, before=before, **environment).wait(
            PATIENCE
        )

    def finish(self, document: object, *, before: Iterable[str] = ()) -> None:
        """Let an agent that nobody disturbs do all there is left to do."""
        for _ in range(5):
            code = self.apply(document, before=before)
            assert code in (0, 1, 5), f"exit code {code}; {self._story()}"
            if all(entry.settled for entry in self.entries().values()):
                break

    def kill(self, agent: subprocess.Popen[bytes]) -> bool:
        """Kill an agent; return whether it was still alive."""
        alive = agent.poll() is None
        agent.kill()
        agent.wait()
        self.kills += alive
        return alive

    # Looking.

    def entries(self) -> dict[str, Entry]:
        """Return what the journal says."""
        return journal.read(self.machine.state)

    def said(self) -> str:
        """Return all that agents have said."""
        return "".join(
            path.read_text(errors="replace")
            for path in (self._said, self._log)
            if path.exists()
        )

    def let_go(self, identity: str) -> None:
        """Let a script go on that waits for its `@.go`."""
        (self._evidence / f"{identity}.go").touch()

    def note(self, text: str) -> None:
        """Keep what another command has said."""
        with self._said.open("a") as said:
            said.write(text)

    def evidence(self, identity: str) -> list[list[str]]:
        """Return what the scripts of a deployment have written down: `begun` or `ended`, and the exit code."""
        path = self._evidence / identity
        return (
            [line.split() for line in path.read_text().splitlines()]
            if path.exists()
            else []
        )

    def heard(self, identity: str) -> list[Signal]:
        """Return the results that have come to where a deployment sends its own."""
        return [
            each
            for each in self.heat.signals
            if each.path.startswith(f"/v1/{self.handed[identity].address}?")
        ]

    def wait_for(self, condition: Callable[[], bool], seconds: float = 20.0) -> None:
        """Wait until something is so."""
        deadline = time.monotonic() + pace.seconds(seconds)
        while not condition():
            assert time.monotonic() < deadline, (
                f"it did not happen in time; {self._story()}"
            )
            time.sleep(0.01)

    def _story(self) -> str:
        return f"seed {self.seed}, what was said last:\n{self.said()[-3000:]}"

    # Checking.

    def check(self, *, final: bool = True) -> None:
        """Hold everything against the promises. With `final`, an agent has had its time, and nothing may be pending."""
        entries = self.entries()
        broken = [
            trouble
            for each in self.handed.values()
            for trouble in self._broken(each, entries, final=final)
        ]
        broken += self._leaks()
        broken += self._state(final=final)
        if "Traceback" in self.said():
            broken.append("a traceback was shown")
        assert not broken, "\n".join([*broken, self._story()])

    def _broken(
        self, handed: Handed, entries: Mapping[str, Entry], *, final: bool
    ) -> list[str]:
        """Return which promises about a deployment are broken."""
        found = self.evidence(handed.id)
        begins = [float(line[1]) for line in found if line[0] == "begun"]
        begun, ended = (
            len(begins),
            [int(line[1]) for line in found if line[0] == "ended"],
        )
        wrong = []
        if (
            begun
            > (RERUNS if handed.kind.repeatable else 1)
            + handed.kind.reboots
            + handed.kind.retries
            + handed.again
        ):
            wrong.append(f"it ran {begun} times")
        told, entry = self._told(handed), entries.get(handed.id)
        if entry and entry.state is State.SIGNALLED and not told:
            wrong.append("its result is said to be delivered, and nobody has heard it")
        if len({json.dumps(value, sort_keys=True) for value in told}) > 1:
            wrong.append(
                f"different results were signalled: {[value['deploy_status_code'] for value in told]}"
            )
        if told:
            wrong += self._false(handed, told[0], begun, ended)
        if handed.replaced:
            if not handed.was_running and any(
                moment > handed.replaced + 0.01 for moment in begins
            ):
                # it has 10 ms steps
                wrong.append("it was begun after it had been replaced")
            at_its_address = [
                other
                for other in self.handed.values()
                if other.address == handed.address
            ]
            others = [
                value
                for other in at_its_address
                if other is not handed
                for value in self._told(other)
            ]
            late = [  # a run that is killed before it says who it is has the same result as another such run
                value
                for value in told
                if value not in others
                and any(
                    one.at > handed.replaced and one.value == value
                    for one in self.heard(handed.id)
                )
            ]
            wrong += ["its result was sent after it had been replaced"] if late else []
        else:
            if final and not told:
                wrong.append("nothing was heard of it")
            if (
                final
                and told
                and not handed.forgotten
                and (entry is None or entry.state is not State.SIGNALLED)
            ):
                wrong.append(
                    f"its state is {entry.state.value if entry else 'not known'}"
                )
            if (
                not told
                and begun
                and not handed.forgotten
                and (entry is None or entry.settled)
            ):
                wrong.append("it ran, and nothing will be heard of it")
        return [f"{handed.id} ({handed.kind.name}): {trouble}" for trouble in wrong]

    def _told(self, handed: Handed) -> list[dict[str, Any]]:
        """Return the results of a deployment that were heard: of several at one address, those that are its own."""
        shared = [
            other for other in self.handed.values() if other.address == handed.address
        ]
        values = [(one.at, one.value) for one in self.heard(handed.id)]
        if len(shared) == 1:
            return [value for _, value in values]
        return [value for at, value in values if _whose(value, at, shared) is handed]

    def _false(
        self, handed: Handed, value: dict[str, Any], begun: int, ended: list[int]
    ) -> list[str]:
        """Return what is not true in a result."""
        code = int(value["deploy_status_code"])
        interrupted = handed.id in self.interrupted
        if code == INTERRUPTED and "interrupted" in value["deploy_stderr"]:
            return (
                []
                if interrupted
                else ["it is said to be interrupted, and nobody did that"]
            )
        if code == TIMED_OUT:
            return [] if handed.kind.limited else ["it is said to have been too long"]
        if code in KILLED and interrupted:
            return []
        if handed.kind.limited:
            return [
                f"its exit code is said to be {code}, and its time limit has not ended it"
            ]
        wrong = []
        if code != handed.kind.code:
            wrong.append(
                f"its exit code is said to be {code}, and is {handed.kind.code}: {value['deploy_stderr'][-300:]!r}"
            )
        if (
            handed.kind.retries
            and f"{handed.kind.retries + 1} attempts" not in value["deploy_stderr"]
        ):
            wrong.append(
                f"it does not say how many attempts there were: {value['deploy_stderr'][:300]!r}"
            )
        if handed.kind.code not in ended:
            wrong.append(
                f"it is said to have ended with {code}, and never came to its end ({begun} times begun)"
            )
        if handed.kind.shape != "own" and value.get("identity") != handed.id:
            wrong.append(f"its output is said to be {value.get('identity')!r}")
        if handed.id not in value["deploy_stdout"]:
            wrong.append("its output is another's")
        return wrong

    def _leaks(self) -> list[str]:
        """Return where secrets are that must not be there."""
        leaks = []
        sample = self.chance.sample(sorted(self.entries()), min(2, len(self.entries())))
        commands = [["status"], ["status", "--json"]] + [
            [*words, each]
            for each in sample
            for words in (["show"], ["show", "--json"], ["log"])
        ]
        surroundings = "".join(
            path.read_text(errors="replace")
            for path in self._evidence.glob("*.surroundings")
        )
        results = b"".join(each.body for each in self.heat.signals).decode(
            errors="replace"
        )
        seen = {
            "what was said": self.said(),
            "a listing": "".join(self.machine.listed(commands, PATIENCE)),
            "a result": results,
        }
        seen = {
            place: text
            for place, text in seen.items()
            if any(form in text for form in forms(PLANTED))
        }
        for each in self.handed.values():
            for secret in each.secrets:
                places = dict(seen)
                if secret == each.secrets[0]:
                    # with which Heat is spoken to: no tool is given it
                    places["the surroundings of a run"] = surroundings
                leaks += [
                    f"{each.id}: {secret} is in {place}"
                    for place, text in places.items()
                    if any(form in text for form in forms(secret))
                ]
        leaks += [
            f"a core file: {path}"
            for path in below(self.machine.folder)
            if path.name.startswith("core") and path.is_file()
        ]
        names = (kill_points.VARIABLE, kill_points.INJECTED)
        leaks += [
            f"{each} is in the surroundings of a run"
            for each in names
            if each in surroundings
        ]
        return leaks

    def _state(self, *, final: bool) -> list[str]:
        """Return what is wrong with the files."""
        wrong = too_open(self.machine.state)
        for path in below(self.machine.state):
            name = path.name
            if not self.may_be_damaged and (".damaged-" in name or ".corrupt-" in name):
                wrong.append(f"the state was damaged: {path}")
            if final and name == "inputs.json":
                wrong.append(f"secrets of a run that has ended are in {path}")
        if final:
            wrong += [f"{each.cmdline()} goes on" for each in strays(self.machine)]
        return wrong


def too_open(state: Path) -> list[str]:
    """Return what others than the agent's user may read of a state directory; but for what scripts make, in a 0700."""
    wrong = []
    for path in below(state):
        parts = path.relative_to(state).parts
        parts = (
            parts[2:]
            if parts[0] == "stacks"
            else parts[1:]
            if parts[0].startswith("of-")
            else parts
        )
        if parts[:1] == ("run",):
            continue
        with contextlib.suppress(FileNotFoundError):
            # an agent that works has removed it
            mode = path.lstat().st_mode
            if not stat.S_ISLNK(mode) and mode & 0o077:
                wrong.append(f"others may read {path}")
    return wrong


def strays(machine: Machine) -> list[psutil.Process]:
    """Return the processes of a machine that should have ended."""
    return [each for each in machine.processes() if _is_left(each)]


def forms(secret: str) -> tuple[str, ...]:
    """Return the texts in which a secret may hide."""
    return secret, base64.b64encode(secret.encode()).decode().rstrip("=")


def _whose(value: dict[str, Any], at: float, shared: list[Handed]) -> Handed:
    """Return whose a result is, of those that had the same address: it says so, or it is that which had it then."""
    named = [each for each in shared if each.id in value["deploy_stdout"].split()]
    had = [each for each in shared if each.replaced is None or at <= each.replaced]
    return (named or had or shared[-1:])[0]


def _is_left(process: psutil.Process) -> bool:
    """Return whether a process of a run should have ended: daemons of scripts may stay."""
    try:
        return process.status() != psutil.STATUS_ZOMBIE and process.cmdline()[:1] != [
            "sleep"
        ]
    except psutil.NoSuchProcess:
        return False


def _script(evidence: Path, identity: str, kind: Kind) -> str:
    """Return a script that writes down what becomes of it, and where a secret would be that it must not have."""
    printed = (
        'printf %s "$identity" >"$heat_outputs_path.identity"'
        if kind.shape != "own"
        else ":"
    )
    return f"""#!/bin/sh
read -r uptime idle </proc/uptime
echo begun "$uptime" >>{evidence}/{identity}
echo {identity}
tr '\\0' '\\n' </proc/$$/environ >{evidence}/{identity}.surroundings
tr '\\0' '\\n' </proc/$$/cmdline >>{evidence}/{identity}.surroundings
echo "the hidden one is $quiet, the token $api_token"
{kind.body.replace("@", f"{evidence}/{identity}")}
{printed}
echo ended {kind.code} >>{evidence}/{identity}
exit {kind.code}
"""


def _own_hook(evidence: Path) -> str:
    """Return somebody else's hook: it runs the config that it is given, and replies."""
    return f"""#!/bin/sh
'''exec' "{sys.executable}" -IS "$0" "$@"
' '''
import json, subprocess, sys
given = json.load(sys.stdin)
path = "{evidence}/" + given["id"] + ".script"
with open(path, "w") as file:
    file.write(given["config"])
done = subprocess.run(["/bin/sh", path], capture_output=True, text=True)
print(json.dumps({{"deploy_stdout": done.stdout, "deploy_stderr": done.stderr, "deploy_status_code": done.returncode}}))
"""


def seed(variable: str) -> int:
    """Return the seed that a variable names, else a new one."""
    return int(os.environ.get(variable) or "0") or random.SystemRandom().randrange(
        1, 10**6
    )
