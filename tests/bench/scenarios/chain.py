"""A chain on a real Heat: deployments to one server, each of which takes what the one before has put out."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from bench import peers
from bench.scenario import (
    LIMIT,
    OURS,
    THEIRS,
    Figure,
    Goal,
    LackingError,
    Sample,
    Scenario,
    Subject,
)
from system.agents import Agent
from system.openstack import Lab, lab

LINKS = 10
"""Deployments in a chain."""

THEIR_LINKS = 3
"""Links for os-collect-config: it takes a minute for these, and four and a half for ten."""

THEIR_PAUSE = 30
"""Seconds between two questions of os-collect-config's, once it has run for a minute."""

SECONDS = 240
"""The most seconds that a chain may take on a busy machine."""

ASKED = {("GET", "metadata"), ("POST", "signal"), ("GET", "v3"), ("POST", "tokens")}
"""The requests of agents, by the last word of the path; Heat and its client send others."""

Boot = Callable[[str, dict[str, Any]], AbstractContextManager[object]]
"""Have an agent run: a name for its folder, and what the server was given when it was made."""


def template(links: int) -> str:
    """Return a stack of one server and so many deployments, each of which puts out one more than the one before."""
    resources: dict[str, Any] = {
        "server": {
            "type": "OS::Heat::DeployedServer",
            "properties": {"software_config_transport": "POLL_SERVER_HEAT"},
        },
        "config": {
            "type": "OS::Heat::SoftwareConfig",
            "properties": {
                "group": "script",
                "inputs": [{"name": "before"}],
                "outputs": [{"name": "number"}],
                "config": '#!/bin/sh\necho $((before + 1)) >"$heat_outputs_path.number"\n',
            },
        },
    }
    for number in range(links):
        resources[f"link-{number + 1}"] = {
            "type": "OS::Heat::SoftwareDeployment",
            "properties": {
                "config": {"get_resource": "config"},
                "server": {"get_resource": "server"},
                "signal_transport": "HEAT_SIGNAL",
                "input_values": {
                    "before": {"get_attr": [f"link-{number}", "number"]}
                    if number
                    else "0"
                },
            },
        }
    last = {"value": {"get_attr": [f"link-{links}", "number"]}}
    return json.dumps(
        {
            "heat_template_version": "2021-04-16",
            "resources": resources,
            "outputs": {"last": last},
        }
    )


class _Cloud:
    """A cloud with one chain after the other, and a folder for whoever carries them out."""

    def __init__(self, lab: Lab, folder: Path) -> None:
        self._lab = lab
        self._folder = folder

    def ours(self) -> Sample:
        """Have the agent carry out a chain."""
        return self._carry_out(LINKS, self._agent, "heat-config-agent")

    def theirs(self) -> Sample:
        """Have os-collect-config carry out one."""
        return self._carry_out(THEIR_LINKS, self._collector, "python-")

    def at_once(self) -> Sample:
        """Have each deployment of one answered in the moment in which it is there."""
        name = self._create(LINKS)
        begun = time.monotonic()
        for number in range(LINKS):
            while len(self._lab.metadata(name, "server")["deployments"]) <= number:
                assert time.monotonic() < begun + SECONDS, self._lab.stack_get(
                    name
                ).reason
                time.sleep(0.1)
            self._lab.signal(
                name,
                f"link-{number + 1}",
                {"deploy_status_code": 0, "number": str(number + 1)},
            )
        return {"link": self._end(name, LINKS, begun) / LINKS}

    def _carry_out(self, links: int, boot: Boot, client: str) -> Sample:
        """Carry one out; `client` is how the User-Agent begins of whoever does it."""
        name = self._create(links)
        begun, since = time.monotonic(), self._lab.now()

        def asked(service: str) -> list[str]:
            found = [
                (each.verb, each.path.rpartition("/")[2])
                for each in self._lab.requests(service, since, client)
            ]
            return [word for verb, word in found if (verb, word) in ASKED]

        # they came after it was made
        made = {**self._lab.metadata(name, "server"), "deployments": []}
        with boot(name, made):
            while asked("heat").count("signal") < links:
                # to ask Heat itself would keep it from its work
                assert time.monotonic() < begun + SECONDS, self._lab.stack_get(
                    name
                ).reason
                time.sleep(0.1)
            wall = self._end(name, links, begun)
        return {
            "link": wall / links,
            "requests": (len(asked("heat")) + len(asked("keystone"))) / links,
        }

    def _create(self, links: int) -> str:
        """Create a chain, wait until its first deployment is there, and return the stack's name."""
        name = self._lab.name("chain")
        self._lab.stack_create(name, template(links))
        self._lab.deployments(name, seconds=60)
        return name

    def _end(self, name: str, links: int, begun: float) -> float:
        """Wait until all of a chain is done, and return how long that has taken."""
        self._lab.wait(name, "CREATE_COMPLETE")
        wall = time.monotonic() - begun
        last = self._lab.stack_get(name).outputs["last"]
        assert last.strip() == str(links), (
            f"the last deployment of {links} has put out {last!r}"
        )
        return wall

    @contextmanager
    def _agent(self, name: str, first: dict[str, Any]) -> Iterator[None]:
        agent = Agent(
            self._folder / name,
            first,
            splay=1,
            polling_interval=30,
            min_polling_interval=1,
        )
        try:
            yield
        finally:
            agent.end()

    @contextmanager
    def _collector(self, name: str, first: dict[str, Any]) -> Iterator[None]:
        image = peers.Image(self._folder / name)
        command = image.collect(
            ["heat"],
            settings={
                "polling_interval": THEIR_PAUSE,
                "min_polling_interval": THEIR_PAUSE,
            },
            sections={"heat": first["os-collect-config"]["heat"]},
        )
        process = subprocess.Popen(
            command,
            env=image.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            yield
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


@contextmanager
def _subjects(folder: Path) -> Iterator[list[Subject]]:
    with ExitStack() as stack:
        try:
            cloud = _Cloud(stack.enter_context(lab()), folder)
        except pytest.skip.Exception as skipped:
            raise LackingError(str(skipped)) from skipped
        yield [
            Subject(OURS, cloud.ours),
            Subject(THEIRS, cloud.theirs),
            Subject(LIMIT, cloud.at_once),
        ]


SCENARIOS = (
    Scenario(
        name="chain",
        title=f"{LINKS} deployments, each of which takes what the one before has put out, on a real Heat",
        figures=(
            Figure("link", "time for each deployment of the chain", "s"),
            Figure("requests", "requests to Heat and Keystone for each", ""),
        ),
        subjects=_subjects,
        goals=(
            Goal(
                "link",
                THEIRS,
                1 / 5,
                "Most of it is what Heat itself takes, which the limit shows.",
            ),
        ),
        rounds=1,
        seconds=300,
        long=True,
        needs=peers.ready,
        warm_up=False,
        note=(
            "On a Heat, a Keystone and a PostgreSQL on this very machine, over `POLL_SERVER_HEAT` and `HEAT_SIGNAL`. "
            "When the first deployment of a new stack is there, each is started; measured is from then to "
            "`CREATE_COMPLETE`. heat-config-agent has its usual settings. os-collect-config begins with the pause that "
            f"it has once it has run for a minute, whatever happens: {THEIR_PAUSE} s; and it gets a chain of "
            f"{THEIR_LINKS}, with {THEIR_LINKS - 1} pauses, as the {LINKS - 1} of the whole one are "
            f"{(LINKS - 1) * THEIR_PAUSE} s. (One that has just booted begins with pauses of 1, 2, 4, 8 and 16 s: then "
            f"the {LINKS - 1} are 151 s.) The limit is somebody who answers each deployment in the moment in which it "
            "is there: that is what Heat itself takes."
        ),
    ),
)
