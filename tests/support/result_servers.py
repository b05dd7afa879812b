"""Servers that take results, each behind a proxy of its own, and one agent for all of them."""

from __future__ import annotations

import json
import random
import re
import signal
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from heat_config_agent.model.entry import Entry, State
from heat_config_agent.state import journal
from support import cloud, pace, proxy
from support.daemon import LONG, Daemon, ran
from support.hasty import HASTY, peak
from support.loopback import Signal, SignalServer
from support.machine import Machine, deployment
from support.proxy import Fault, Proxy

WAYS = ("url", "heat", "zaqar")


PLACES = ("service", "keystone")


SECRET = "planted-7f3a-signature"


MEMORY = 200
"""MiB that the agent may take, whatever it is answered."""


@dataclass(frozen=True)
class Case:
    """A fault, and a deployment whose result it gets in the way of."""

    id: str
    way: str
    fault: Fault
    proxy: Proxy


class Servers:
    """The servers for results, the faults in between, and an agent with results for each."""

    def __init__(self, daemon: Daemon, machine: Machine) -> None:
        self.daemon = daemon
        self.machine = machine
        self.cloud = cloud.Cloud()
        self.cloud.start()
        self.web = SignalServer()
        self.web.start()
        self.cases: list[Case] = []
        self.schemes: dict[str, str] = {}
        self._given: dict[str, dict[str, Any]] = {}
        self._addresses: dict[str, str] = {}
        """Of those that were put in the place of others: whose address they have."""
        self._ran: list[str] = []

    def close(self) -> None:
        for each in self.cases:
            each.proxy.close()
        self.cloud.stop()
        self.web.stop()

    def add(
        self,
        faults: Iterable[Fault],
        *ways: str,
        before: str = "service",
        scheme: str = "http",
        certificate: Path | None = None,
    ) -> None:
        """Have a deployment for each fault, and a proxy before where it goes, or before its Keystone.

        Without ways, each fault has its turn with one of them.
        """
        for number, fault in enumerate(faults):
            for way in ways or WAYS[number % 3 :][:1]:
                upstream = (
                    self.web.origin if way == "url" else self.cloud.service.origin
                )
                stands = Proxy(
                    self.cloud.keystone.origin if before == "keystone" else upstream,
                    certificate,
                )
                identity = f"{before[0]}{way}{len(self.cases)}"
                self.cases.append(Case(identity, way, fault, stands))
                self.schemes[identity] = scheme
                address = f"{scheme}:{stands.origin.partition(':')[2]}"
                self._given[identity] = self._deployment(identity, way, address, before)

    def add_pair(self, script: tuple[Fault, Fault]) -> None:
        """Have two deployments for one server, which does this, and then what is right."""
        stands = Proxy(self.web.origin)
        stands.script.extend(script)
        for _ in script:
            identity = f"p{len(self.cases)}"
            self.cases.append(Case(identity, "url", proxy.PASS, stands))
            self.schemes[identity] = "http"
            self._given[identity] = self._deployment(
                identity, "url", stands.origin, "service"
            )

    def add_scripts(
        self, chance: random.Random, faults: Sequence[Fault], number: int
    ) -> None:
        """Have so many deployments, before each of whose servers a few of these faults come one after the other."""
        for _ in range(number):
            way, before = chance.choice(
                [("url", "service"), *((way, at) for way in WAYS[1:] for at in PLACES)]
            )
            self.add([proxy.PASS], way, before=before)
            self.cases[-1].proxy.script.extend(
                chance.choices(faults, k=chance.randint(1, 5))
            )

    def replace(self) -> None:
        """Have another deployment in the place of each, for the same address."""
        replaced: list[Case] = []
        for case in self.cases:
            identity = f"{case.id}-new"
            text = json.dumps(self._given.pop(case.id))
            new = json.loads(
                text.replace(f"echo {case.id}", f"echo {identity}").replace(
                    "CREATE", "UPDATE"
                )
            )
            self._given[identity] = {**new, "id": identity, "name": identity}
            self._addresses[identity] = case.id
            replaced.append(Case(identity, case.way, case.fault, case.proxy))
        self._ran += [each.id for each in self.cases]
        self.cases = replaced
        self._put()

    def _put(self) -> None:
        sound = deployment(
            "sound", "#!/bin/sh\necho sound\n", signal=self.web.url("sound")
        )
        self.daemon.put([*self._given.values(), sound])

    def _deployment(
        self, identity: str, way: str, address: str, before: str, action: str = "CREATE"
    ) -> dict[str, Any]:
        text = (
            f"#!/bin/sh\necho {identity} >>{self.machine.folder}/ran\necho {identity}\n"
        )
        if way == "url":
            return deployment(
                identity,
                text,
                signal=f"{address}/v1/{identity}?Signature={SECRET}",
                action=action,
            )
        region = identity if before == "service" else "direct"
        access = {
            "deploy_auth_url": f"{address if before == 'keystone' else self.cloud.keystone.origin}/v3",
            "deploy_user_id": "u1",
            "deploy_password": SECRET,
            "deploy_project_id": cloud.PROJECT,
            "deploy_region_name": region,
        }
        place = (
            {"deploy_queue_id": identity}
            if way == "zaqar"
            else {"deploy_stack_id": f"{identity}/1"}
        )
        more = {} if way == "zaqar" else {"deploy_resource_name": "r"}
        return deployment(
            identity, text, inputs={**access, **place, **more}, action=action
        )

    def begin(self, *before: str, **settings: Any) -> None:
        """Have it all go wrong, and start the agent, with a deployment whose server is sound."""
        catalog = self.cloud.catalog("direct")
        usual = [service["endpoints"][-1] for service in catalog]
        for case in self.cases:
            for service, there in zip(catalog, usual, strict=True):
                origin = (
                    f"{self.schemes[case.id]}:{case.proxy.origin.partition(':')[2]}"
                )
                url = there["url"].replace(self.cloud.service.origin, origin)
                service["endpoints"].append(
                    {
                        **there,
                        "id": case.id,
                        "region": case.id,
                        "region_id": case.id,
                        "url": url,
                    }
                )
            case.proxy.fail(case.fault)
        self.cloud.keystone.always = self.cloud.lets_in(SECRET, catalog=catalog)
        self._put()
        self.daemon.configure(parallel=8, **settings)
        self.daemon.start(*(before or HASTY))
        self.wait(lambda: len(self.web.values("sound")) == 1)
        self.wait(self._are_tried)

    def _are_tried(self) -> bool:
        found = self.entries()
        return all(
            (case.proxy.done or case.proxy.connections)
            and case.id in found
            and (found[case.id].settled or found[case.id].tries)
            for case in self.cases
        )

    def entries(self) -> dict[str, Entry]:
        """Return the entries of the journal."""
        return journal.read(self.machine.state)

    def wait(self, condition: Callable[[], bool], seconds: float = 4 * LONG) -> None:
        """Wait until something is so."""
        deadline = time.monotonic() + pace.seconds(seconds)
        while not condition():
            assert not self.daemon.ended, self.daemon.log
            assert time.monotonic() < deadline, self.story()
            time.sleep(0.1)

    def story(self) -> str:
        """Return the history of each result."""
        found = self.entries()
        lines = [
            f"{each.id} ({each.fault.name}, {len(each.proxy.done)} times): "
            f"heard {len(self.heard(each.id))} times, "
            f"{f'{found[each.id].state.value}: {found[each.id].trouble}' if each.id in found else 'not known'}"
            for each in self.cases
        ]
        return "\n".join([*lines, self.daemon.log[-3000:]])

    def heard(self, identity: str) -> list[Signal]:
        """The results of a deployment that came to the server behind the proxy."""
        at = self._addresses.get(identity, identity)
        places = (f"/v1/{at}?", f"/stacks/{at}/", f"/queues/{at}/")
        return [
            each
            for each in (*self.web.signals, *self.cloud.asked)
            if any(one in each.path for one in places)
        ]

    def results(self, identity: str) -> list[dict[str, Any]]:
        """The same, as objects."""
        return [result(each) for each in self.heard(identity)]

    def everything(self) -> list[dict[str, Any]]:
        """All results that were heard."""
        return [result(each) for each in (*self.web.signals, *self.cloud.asked)]

    def kept(self, says: str) -> None:
        """Each result is kept or, where the server has said that it has it, delivered; and it is said why."""
        shown: dict[str, Entry] = {}

        def are_met() -> bool:
            entries = self.entries()
            shown.update(
                {
                    key: entry
                    for key, entry in entries.items()
                    if key not in shown | _late(entries, says)
                }
            )
            return shown.keys() == entries.keys()

        # A slow machine may miss the deadline before the server can show its fault: the next try meets it.
        self.poke_until(are_met)
        for case in self.cases:
            entry = shown[case.id]
            if entry.state is State.SIGNALLED:
                assert self.heard(case.id), (
                    f"{case.fault.name} was taken for a success ({case.way})"
                )
                continue
            assert entry.state is State.FINISHED, self.story()
            assert re.search(says, entry.trouble), (
                f"{case.fault.name} ({case.way}): {entry.trouble}"
            )
        self.explained()

    def explained(self) -> None:
        """Nothing secret is said, nor anything that only a programmer would understand."""
        shown = "".join(
            done.out + done.err
            for done in (
                self.daemon.command("status"),
                self.daemon.command("status", "--json"),
            )
        )
        for text in (shown, self.daemon.log, json.dumps(self.daemon.health())):
            assert SECRET not in text
            assert "Traceback" not in text
            assert not re.search(
                r"\b[A-Z]\w+(Error|Exception|Reset|Read|Header)\b", text
            ), text

    def over(self) -> None:
        """It is over, and each result that is not refused for good arrives, just as it would have without the fault."""
        for each in self.cases:
            each.proxy.mend()
        self.poke_until(lambda: all(each.settled for each in self.entries().values()))
        entries = self.entries()
        for case in self.cases:
            bodies = self.results(case.id)
            assert entries[case.id].state is State.SIGNALLED, self.story()
            assert {each["deploy_stdout"] for each in bodies} == {f"{case.id}\n"}, (
                self.story()
            )
            assert {each["deploy_status_code"] for each in bodies} == {0}
            assert len({each.body for each in self.heard(case.id)}) == 1
        assert sorted(ran(self.machine)) == sorted(
            [*self._ran, *(each.id for each in self.cases)]
        )
        self.ends_well()

    def ends_well(self) -> None:
        """The agent is as it was, and has taken no more memory than it may."""
        self.explained()
        assert peak(self.daemon.pid) < MEMORY
        assert self.daemon.stop() == 0

    def poke_until(self, condition: Callable[[], bool]) -> None:
        """Have the agent try again until something is so."""
        last = 0.0

        def poked() -> bool:
            nonlocal last
            if condition():
                return True
            if time.monotonic() - last > 1:
                self.daemon.send(signal.SIGUSR1)
                last = time.monotonic()
            return False

        self.wait(poked)


def result(signal: Signal) -> dict[str, Any]:
    """Return the result that a signal carries, whatever it is wrapped in."""
    value = json.loads(signal.body)
    found = value["messages"][0]["body"] if "messages" in value else value
    assert isinstance(found, dict)
    return found


Tried = Callable[[int], None]


def _late(entries: Mapping[str, Entry], says: str) -> dict[str, Entry]:
    """Return the results that wait only because their servers took too long: their faults are others."""
    late = "no answer within|no connection within|no full answer|no time is left"
    return {
        key: entry
        for key, entry in entries.items()
        if entry.state is State.FINISHED
        and re.search(late, entry.trouble)
        and not re.search(says, entry.trouble)
    }
