"""All hosts of a stack: the part of its machine that is elsewhere."""

from __future__ import annotations

import select
from collections.abc import Callable, Collection, Sequence
from typing import Any

from heat_config_stack.hosts.connection import Connection, Watcher
from heat_config_stack.hosts.host import Host
from heat_config_stack.hosts.leftovers import Register
from heat_config_stack.lifecycle.live import World
from heat_config_stack.lifecycle.machine import RebootError
from heat_config_stack.records.placing import is_elsewhere
from heat_config_stack.records.records import IN_PROGRESS, DeploymentRecord

_BLOCKED = 0.02
"""Seconds until a client is offered messages again that it has not taken."""


class Fleet:
    """The hosts of a stack, each with one session at most."""

    def __init__(
        self,
        watcher: Watcher,
        limit: float | None,
        most: int = 0,
        connect: Callable[[Host, Watcher, float | None], Connection] = Connection,
        register: Register | None = None,
    ) -> None:
        """Keep `most` sessions at once; 0 for one with each host. `limit` is that of `Connection`."""
        self._register = register
        self._watcher, self._limit, self._most, self._connect = (
            watcher,
            limit,
            most,
            connect,
        )
        self._connections: dict[tuple[str, int, str], Connection] = {}
        self._is_new = False

    def deliver(self, deployment: DeploymentRecord) -> None:
        """Have a host carry out a deployment."""
        self._of(deployment).deliver(deployment)
        self._is_new = True

    def withdraw(self, deployment: DeploymentRecord) -> None:
        """Discard a deployment that its stack has withdrawn, and end its run."""
        self._of(deployment).withdraw(deployment)

    def stop(self, world: World, reason: str) -> None:
        """Begin to end the current runs, whose results are still taken; other deployments never begin."""
        running: dict[Connection, list[DeploymentRecord]] = {
            each: [] for each in self._connections.values()
        }
        for deployment in world.store.deployments.values():
            if is_elsewhere(deployment) and deployment.status == IN_PROGRESS:
                running.setdefault(self._of(deployment), []).append(deployment)
        for connection, wanted in running.items():
            connection.stop(wanted, reason)

    def _of(self, deployment: DeploymentRecord) -> Connection:
        host = Host.from_json(deployment.host)
        connection = self._connections.get(host.place)
        if connection is None:
            connection = self._connect(host, self._watcher, self._limit)
            self._connections[host.place] = connection
        return connection

    @property
    def busy(self) -> bool:
        """True if something is to be done on a host."""
        return any(each.busy for each in self._connections.values())

    @property
    def descriptors(self) -> list[int]:
        """The descriptors that are readable when there is something to do."""
        return [fd for each in self._connections.values() for fd in each.descriptors]

    @property
    def due(self) -> float | None:
        """Seconds until there is something to do in any case; None if nothing is waited for."""
        busy = [each for each in self._connections.values() if each.busy or each.is_up]
        if any(each.is_blocked for each in busy):
            return _BLOCKED
        may_begin = not self._most or sum(each.is_up for each in busy) < self._most
        return min((each.due for each in busy if each.is_up or may_begin), default=None)

    def turn(self, world: World) -> bool:
        """Work without waiting; return True if a result has arrived or a deployment was refused."""
        if (
            self._is_new
        ):  # a host must not begin what a power cut could take from the records here
            world.store.flush(durable=True)
            if self._register is not None:
                begun = [each for each in self._connections.values() if each.pending]
                self._register.note(world.root, [each.host for each in begun])
            self._is_new = False
        before = sum(len(each.pending) for each in self._connections.values())
        for connection in self._in_order():
            connection.turn(world)
        news = [each for each in self._connections.values() if each.has_news]
        if news:
            world.store.flush(durable=True)
            for connection in news:
                connection.acknowledge()
        return before != sum(len(each.pending) for each in self._connections.values())

    def raise_if_stuck(self) -> None:
        """Raise RebootError if nothing goes on before people reboot hosts."""
        busy = [each for each in self._connections.values() if each.busy]
        if busy and all(each.leaves_reboot for each in busy):
            hosts = ", ".join(each.title for each in busy)
            raise RebootError(
                "; ".join(f"{each.title}: {each.waits_for}" for each in busy),
                hint=f"reboot {hosts}, and run the command again to continue",
            )

    def _in_order(self) -> list[Connection]:
        """Return the connections whose turn it is: those with a session, and others as far as there is room."""
        every = list(self._connections.values())
        up = [each for each in every if each.is_up]
        waiting = [each for each in every if not each.is_up and each.busy]
        if self._most and waiting and len(up) >= self._most:
            for connection in [each for each in up if not each.busy][: len(waiting)]:
                connection.close()
                up.remove(connection)
        room = max(self._most - len(up), 0) if self._most else len(waiting)
        begun = sorted(waiting, key=lambda each: each.due)
        return [*up, *begun[:room]]

    def wait(self, seconds: float, also: Sequence[int]) -> None:
        """Wait until there is something to do, or one of the descriptors in `also` is readable, at most so long."""
        poll = select.poll()
        for descriptor in (*also, *self.descriptors):
            poll.register(descriptor, select.POLLIN)
        poll.poll(max(seconds, 0.0) * 1000)

    def forget(
        self, world: World, seconds: float, kept: Collection[tuple[Any, ...]] = ()
    ) -> None:
        """Ask all hosts but the `kept` ones to forget the stack, and wait up to `seconds` until they have."""
        from heat_config_hooks import processes  # noqa: PLC0415  # only for stacks that leave a host

        end = processes.since_boot() + seconds
        left = [each for place, each in self._connections.items() if place not in kept]
        if not left:
            return
        if self._register is not None:  # an earlier version has not noted them
            self._register.note(world.root, [each.host for each in left])
        for connection in left:
            connection.forget()
        while any(each.busy for each in left):
            rest = end - processes.since_boot()
            if rest <= 0:
                break
            self.turn(world)
            if any(each.busy for each in left):
                self.wait(min(rest, self.due or rest), ())
        for connection in left:
            if connection.busy:
                self._watcher.warn(
                    f"{connection.title} still has what it keeps of the stack: it has not answered"
                )
        if self._register is not None:
            done = [each.host for each in left if each.is_forgotten]
            self._register.removed(world.root, done)

    @property
    def reached(self) -> list[Host]:
        """The hosts that have been spoken with."""
        return [each.host for each in self._connections.values() if each.was_reached]

    def close(self) -> None:
        """End all sessions; runs on the hosts go on."""
        for connection in self._connections.values():
            connection.close()
