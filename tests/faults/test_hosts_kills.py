"""`kill -9` at random moments, while a stack on two hosts leads its life: the same command ends as if nothing had been.

`HOST_KILLS=500 pytest tests/faults/test_hosts_kills.py`, with TORTURE_SEED for other moments. A real sshd is each host.
What is killed is the coordinator, a connection (at the ssh client or at sshd), a session on a host, a run there (its
supervisor, its tool, or both), or several of them at once. A step of the life is a command that is repeated until it
has ended well, while it and what it has started are killed. An undisturbed stack takes the same steps.
"""

from __future__ import annotations

import collections
import contextlib
import json
import os
import random
import re
import subprocess
from collections import Counter
from pathlib import Path
from typing import Any

import psutil
import pytest

from support import endings, killing, pace
from support.loopback import wait_until
from support.machine import Machine
from support.remote import SshHosts, by_ssh

pytestmark = [pytest.mark.slow, pytest.mark.takes(120)]

KILLS = int(os.environ.get("HOST_KILLS") or 12)
"""The number of kills after which the life ends."""

SEED = int(os.environ.get("TORTURE_SEED") or 37)
"""The seed for the moments of kills and their victims."""

STEP_KILLS = 8
"""The number of kills in a step at most."""

MOMENT = 2.0
"""Seconds for which a run is waited for that is to be killed."""

TRIES = 30
"""The number of times that a command is repeated at most."""

NAMES = ("a", "b", "c", "d", "e")
"""The servers: of the first four, each script needs the output of the one before; the last one is independent."""

PLACES = {"a": "one", "b": "two", "c": "one", "d": "two", "e": "two"}

_SCRIPT = """\
#!/bin/sh
echo "begun {name} $deploy_action $version $stack" >>{log}
sleep 0.3
printf '%s%s %s' "{name}" "$version" "$before" >$heat_outputs_path.out
echo "ended {name} $deploy_action $version $stack" >>{log}
"""

_OK = re.compile(
    r"^ok +(?P<name>[a-e])_run +(?P<how>CREATE|UPDATE|unchanged)", re.MULTILINE
)
"""A line that says of a script that it has run, or did not have to."""


class Pair:
    """Two stacks on the same hosts, of which one is disturbed."""

    def __init__(self, hosts: SshHosts, seed: int) -> None:
        self.hosts = hosts
        self.chance = random.Random(seed)  # noqa: S311  # it is to be repeatable
        self.hosts_file = hosts.file(**PLACES)
        self.kills: Counter[str] = collections.Counter()
        self.run_kills = 0
        """The kills of runs in this step: each lets one script run once more."""
        self.told: list[str] = []
        """What has been done in this step, for whoever has to find out what went wrong."""

    def template(self) -> Path:
        """Write the template of both stacks."""
        resources: dict[str, Any] = {}
        for name, before in zip(NAMES, ("", "a", "b", "c", ""), strict=True):
            values: dict[str, Any] = {
                "version": {"get_param": "version"},
                "stack": {"get_param": "OS::stack_name"},
                "before": {"get_attr": [f"{before}_run", "out"]} if before else "",
            }
            resources |= {
                name: {
                    "type": "OS::Nova::Server",
                    "properties": {"image": "x", "flavor": "y"},
                },
                **self.hosts.deployment(name, "", **values),
            }
            config = resources[f"{name}_run_config"]["properties"]
            config["config"] = _SCRIPT.format(name=name, log=self.hosts.log)
        outputs = {
            name: {"value": {"get_attr": [f"{name}_run", "out"]}} for name in "de"
        }
        parameters = {"version": {"type": "number"}}
        return self.hosts.template(
            resources=resources, outputs=outputs, parameters=parameters
        )

    def command(self, stack: str, version: int) -> list[str]:
        """Return the command of a step; version 0 is the deletion."""
        place = ["--state-dir", str(self.hosts.machine.state)]
        if not version:
            return ["heat-config-agent", "stack", "delete", *place, stack, "--yes"]
        words = ["heat-config-apply", *place, "--name", stack]
        words += ["--parameter", f"version={version}"]
        return [*words, "--hosts", str(self.hosts_file), str(self.template())]

    def lines(self, stack: str, version: int) -> Counter[tuple[str, str]]:
        """Return how often each script of a step has begun and ended."""
        found: Counter[tuple[str, str]] = collections.Counter()
        for line in self.hosts.runs:
            what, name, action, number, of = line.split()
            # DELETE has the version of the step before
            if of == stack and (
                number == str(version) if version else action == "DELETE"
            ):
                found[what, name] += 1
        return found

    def take(self, version: int) -> None:
        """Take a step with both stacks, and compare them. Only the first is disturbed."""
        self.run_kills, self.told = 0, []
        before = self.lines("shaken", 0)  # of earlier deletions
        self.undisturbed(version)
        self.disturbed(version)
        done = self.lines("shaken", version)
        if not version:
            done -= before
        again = sum(done["begun", name] - 1 for name in NAMES)
        assert min(done["ended", name] for name in NAMES) >= 1, self.says(done)
        assert min(done["begun", name] for name in NAMES) >= 1, self.says(done)
        assert again <= self.run_kills, self.says(done)
        assert self.state("shaken") == self.state("quiet"), self.says(done)
        wait_until(lambda: not killing.runs(self.hosts.machine), 60)

    def undisturbed(self, version: int) -> None:
        """Take a step with the stack that is not disturbed."""
        program, *words = self.command("quiet", version)
        done = self.hosts.machine.command(program, words, {}, 120)
        assert done.code == 0, done

    def disturbed(self, version: int) -> None:
        """Repeat the command until it has ended well."""
        left = self.chance.randint(1, STEP_KILLS)
        for _ in range(TRIES):
            process = self.hosts.machine.start(*self.command("shaken", version))
            while left and process.poll() is None:
                killing.ends_within(process, self.chance.uniform(0.1, 1.5))
                left -= self.kill(process)
            out, err = process.communicate(timeout=pace.seconds(120))
            self.told.append(f"exit code {process.returncode}\n{out}{err}")
            self.judge(version, process.returncode, out, err)
            if process.returncode == 0 or "there is no stack shaken" in err:
                return
        raise AssertionError(self.says("it has not ended"))

    def judge(self, version: int, code: int, out: str, err: str) -> None:
        """Check what a command has said: whether it is true of the scripts."""
        done = self.lines("shaken", version)
        for line in _OK.finditer(out) if version else ():
            assert done["ended", line["name"]], self.says(line[0])
        if code > 0 and "there is no stack shaken" not in err:
            assert self.run_kills, self.says("it has failed, and no run was killed")
            assert re.search(r"\b[a-e]_run: ", err), self.says("it has no reason")

    def kill(self, coordinator: subprocess.Popen[str]) -> int:
        """Kill something; return 1 if it was there."""
        victims = {
            "coordinator": 3,
            "client": 2,
            "connection": 2,
            "session": 2,
            "supervisor": 1,
            "tool": 1,
            "run": 1,
            "run and coordinator": 1,
            "session and coordinator": 1,
            "everything": 1,
        }
        [victim] = self.chance.choices(list(victims), list(victims.values()))
        hit = False
        if victim in ("supervisor", "tool", "run", "run and coordinator", "everything"):
            running = self.running(coordinator)
            for each in running if victim == "everything" else running[:1]:
                if each.kill(victim):
                    hit = True
                    self.run_kills += 1
        if victim in ("session", "session and coordinator", "everything"):
            hit = endings.kill(*self.hosts.remote_ends()[:3]) or hit
        if victim in ("client", "everything"):
            hit = endings.kill(*self.hosts.clients(coordinator.pid)) or hit
        if victim == "connection":
            hit = endings.kill(*connections(self.hosts))
        if "coordinator" in victim or victim == "everything":
            hit = coordinator.poll() is None or hit
            coordinator.kill()
        if hit:
            self.kills[victim] += 1
            self.told.append(f"kill of {victim}")
        return int(hit)

    def running(self, coordinator: subprocess.Popen[str]) -> list[killing.Running]:
        """Return the runs that go on on the hosts; wait a moment for one, as they are short."""
        machine = self.hosts.machine
        killing.wait_for_a_run(lambda: killing.runs(machine), coordinator, MOMENT)
        return killing.runs(machine)

    def state(self, stack: str) -> Any:
        """Return what a stack has come to, without times and ids."""
        words = ["stack", "resource", "list", stack, "--json"]
        words += ["--state-dir", str(self.hosts.machine.state)]
        listed = self.hosts.machine.command("heat-config-agent", words, {})
        if listed.code:
            return listed.json["error"]["message"].replace(stack, "")
        words[1:3] = ["output", "list"]
        outputs = self.hosts.machine.command("heat-config-agent", words, {})
        return (
            sorted(
                (each["resource_name"], each["resource_status"])
                for each in listed.data["resources"]
            ),
            sorted(
                (each["output_key"], json.dumps(each["output_value"]))
                for each in outputs.data["outputs"]
            ),
        )

    def says(self, what: object) -> str:
        """Return the story of the step."""
        return "\n".join([str(what), f"seed {SEED}, {self.kills}", *self.told])


def connections(hosts: SshHosts) -> list[psutil.Process]:
    """Return the processes of sshd that have connections to sessions of the agent."""
    found = []
    for each in hosts.remote_ends():
        with contextlib.suppress(psutil.NoSuchProcess):
            parents = [p for p in each.parents() if p.name().startswith("sshd")]
            found += parents[:1]
    return found


@pytest.mark.timeout(0 if KILLS > 100 else 600)
@pytest.mark.fault(
    1,
    "`kill -9` at random moments, of a coordinator, its connections, the sessions on its hosts, and the runs there",
    "the same command ends in the state of an undisturbed run; no script runs twice "
    "except one whose run was killed, and nothing is reported as done that was not",
)
def test_life_with_random_kills(machine: Machine) -> None:
    """Five scripts on two hosts, four of which pass values on: created, updated and deleted, again and again."""
    with by_ssh(machine, "one", "two") as hosts:
        pair = Pair(hosts, SEED)
        version = 0
        while sum(pair.kills.values()) < KILLS:
            for _ in range(pair.chance.randint(2, 4)):
                version += 1
                pair.take(version)
            pair.take(0)
            count = sum(pair.kills.values())
            print(f"{count} kills in {version} versions: {pair.kills}", flush=True)
