"""The checker of the promises finds violations: a check that cannot fail shows nothing."""
# ruff: noqa: D103  # the names of the lies say it

from __future__ import annotations

import base64
import copy
import json
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from heat_config_agent.model.entry import State
from heat_config_agent.state.journal import Journal
from support import kill_points
from support.loopback import Signal, SignalServer, wait_until
from support.machine import Machine
from support.promises import KINDS, Handed, World

QUICK, FAILS = KINDS[0], KINDS[2]
FOLDERS = ("state", "evidence")


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """A world in which all went well."""
    folder = tmp_path_factory.mktemp("played")
    machine, heat = Machine(folder), SignalServer()
    heat.start()
    world = World(machine, heat, 1)
    world.finish(world.batch([QUICK, FAILS]))
    for name in FOLDERS:
        shutil.copytree(folder / name, folder / f"{name}.kept")
    yield world
    machine.end()
    heat.stop()


@pytest.fixture
def world(played: World) -> Iterator[World]:
    """The same, and as it was again after the test."""
    folder, signals, handed = (
        played.machine.folder,
        [*played.heat.signals],
        copy.deepcopy(played.handed),
    )
    yield played
    played.heat.signals[:], played.handed = signals, handed
    (folder / "said").write_text("")
    for name in FOLDERS:
        shutil.rmtree(folder / name)
        shutil.copytree(folder / f"{name}.kept", folder / name)


def one(world: World, *, fails: bool = False) -> Handed:
    """Return a deployment that was handed to the agent."""
    return next(each for each in world.handed.values() if (each.kind == FAILS) is fails)


def told(world: World, each: Handed, **changes: Any) -> Signal:
    """Return what was heard of a deployment, with some values changed."""
    [signal] = world.heard(each.id)
    return replace(signal, body=json.dumps({**signal.value, **changes}).encode())


def note(world: World, name: str, line: str) -> None:
    """Add to the evidence."""
    with (world.machine.folder / "evidence" / name).open("a") as file:
        file.write(f"{line}\n")


# Each is a way in which an agent could break a promise, done by hand.


def no_result(world: World) -> None:
    world.heat.signals.remove(world.heard(one(world).id)[0])


def delivered_to_nobody(world: World) -> None:
    no_result(world)
    one(world).replaced = time.monotonic()


def two_results(world: World) -> None:
    world.heat.signals.append(told(world, one(world), deploy_stderr="another story"))


def false_success(world: World) -> None:
    each = one(world, fails=True)
    world.heat.signals[:] = [
        told(world, each, deploy_status_code=0),
        *world.heard(one(world).id),
    ]


def success_of_what_was_cut_short(world: World) -> None:
    each = one(world)
    path = world.machine.folder / "evidence" / each.id
    path.write_text(
        "".join(
            line
            for line in path.read_text().splitlines(keepends=True)
            if "ended" not in line
        )
    )


def success_of_what_never_ran(world: World) -> None:
    (world.machine.folder / "evidence" / one(world).id).unlink()


def false_failure(world: World) -> None:
    each = one(world)
    world.heat.signals[:] = [
        told(world, each, deploy_status_code=1),
        *world.heard(one(world, fails=True).id),
    ]


def false_interruption(world: World) -> None:
    each = one(world)
    lie = told(
        world, each, deploy_status_code=125, deploy_stderr="interrupted: it was not"
    )
    world.heat.signals[:] = [lie, *world.heard(one(world, fails=True).id)]


def false_time_limit(world: World) -> None:
    each = one(world)
    world.heat.signals[:] = [
        told(world, each, deploy_status_code=124),
        *world.heard(one(world, fails=True).id),
    ]


def anothers_output(world: World) -> None:
    each = one(world)
    world.heat.signals[:] = [
        told(world, each, identity="another"),
        *world.heard(one(world, fails=True).id),
    ]


def ran_twice(world: World) -> None:
    note(world, one(world).id, f"begun {time.monotonic()}")


def late_result(world: World) -> None:
    one(world).replaced = world.heard(one(world).id)[0].at - 1


def late_run(world: World) -> None:
    each = one(world)
    each.replaced = time.monotonic()
    note(world, each.id, f"begun {time.monotonic() + 5}")


def not_on_record(world: World) -> None:
    book = Journal(world.machine.state)
    book.drop(one(world).id)
    book.close()


def never_settled(world: World) -> None:
    book = Journal(world.machine.state)
    book.send_again(one(world).id)
    book.close()


def secret_in_a_result(world: World) -> None:
    each = one(world)
    lie = told(world, each, deploy_stdout=f"{each.id} {each.secrets[1]}")
    world.heat.signals[:] = [lie, *world.heard(one(world, fails=True).id)]


def secret_in_a_result_as_base64(world: World) -> None:
    each = one(world)
    hidden = base64.b64encode(each.secrets[2].encode()).decode()
    lie = told(world, each, deploy_stdout=f"{each.id} {hidden}")
    world.heat.signals[:] = [lie, *world.heard(one(world, fails=True).id)]


def secret_in_a_log(world: World) -> None:
    world.note(f"warning: {one(world).secrets[0]}\n")


def secret_in_a_listing(world: World) -> None:
    book = Journal(world.machine.state)
    for each in world.handed.values():
        book.settled(each.id, State.REFUSED, f"the server said {one(world).secrets[2]}")
    book.close()


def secret_in_the_environment(world: World) -> None:
    each = one(world)
    note(world, f"{each.id}.surroundings", f"deploy_password={each.secrets[0]}")


def kill_point_in_the_environment(world: World) -> None:
    note(
        world,
        f"{one(world).id}.surroundings",
        f"{kill_points.VARIABLE}=runner.word 1 /tmp/file",
    )


def traceback(world: World) -> None:
    world.note("Traceback (most recent call last):\n")


def damaged_journal(world: World) -> None:
    (world.machine.state / "journal.damaged-1").touch(0o600)


def damaged_file(world: World) -> None:
    (world.machine.state / "instance.json.corrupt-1").touch(0o600)


def readable_state(world: World) -> None:
    (world.machine.state / "journal").chmod(0o644)


def inputs_left(world: World) -> None:
    next((world.machine.state / "runs").iterdir()).joinpath("inputs.json").touch(0o600)


def process_left(world: World) -> None:
    process = world.machine.start(
        "/bin/sh", "-c", "read word", str(world.machine.state), stdin=subprocess.PIPE
    )
    wait_until(
        lambda: (
            str(world.machine.state) in Path(f"/proc/{process.pid}/cmdline").read_text()
        )
    )


LIES: dict[Callable[[World], None], str] = {
    no_result: "nothing was heard of it",
    delivered_to_nobody: "its result is said to be delivered, and nobody has heard it",
    two_results: "different results were signalled",
    false_success: "its exit code is said to be 0, and is 7",
    success_of_what_was_cut_short: "it is said to have ended with 0, and never came to its end",
    success_of_what_never_ran: "it is said to have ended with 0, and never came to its end",
    false_failure: "its exit code is said to be 1, and is 0",
    false_interruption: "it is said to be interrupted, and nobody did that",
    false_time_limit: "it is said to have been too long",
    anothers_output: "its output is said to be 'another'",
    ran_twice: "it ran 2 times",
    late_result: "its result was sent after it had been replaced",
    late_run: "it was begun after it had been replaced",
    not_on_record: "its state is not known",
    never_settled: "its state is finished",
    secret_in_a_result: "is in a result",
    secret_in_a_result_as_base64: "is in a result",
    secret_in_a_log: "is in what was said",
    secret_in_a_listing: "is in a listing",
    secret_in_the_environment: "is in the surroundings of a run",
    kill_point_in_the_environment: "is in the surroundings of a run",
    traceback: "a traceback was shown",
    damaged_journal: "the state was damaged",
    damaged_file: "the state was damaged",
    readable_state: "others may read",
    inputs_left: "secrets of a run that has ended are in",
    process_left: "goes on",
}


def test_checker_accepts_runs_that_kept_the_promises(world: World) -> None:
    """The checker accepts runs that kept the promises."""
    world.check()


@pytest.mark.slow
@pytest.mark.parametrize("lie", LIES, ids=lambda lie: lie.__name__.replace("_", " "))
def test_a_lie_is_found(world: World, lie: Callable[[World], None]) -> None:
    """Each way in which a promise can be broken is seen, and named."""
    lie(world)
    try:
        with pytest.raises(AssertionError, match=LIES[lie]):
            world.check()
    finally:
        world.machine.end()
