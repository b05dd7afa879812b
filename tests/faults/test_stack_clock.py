"""The clock is set years on or back while a stack waits: its limits go by one that nobody can set."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from faults.test_clock import JUMPS, Clock
from heat_config_hooks import processes
from heat_config_stack.records import spans
from heat_config_stack.records.records import ResourceRecord
from support.loopback import wait_until
from support.machine import Machine
from support.stacking import LONG, Stacks, ends, signalled

pytestmark = pytest.mark.takes(20)

fault = pytest.mark.fault
FAILED = 1


@pytest.fixture
def clock(machine: Machine) -> Clock:
    """A clock that can be set."""
    return Clock(machine.folder)


@fault(
    3,
    "the clock set ten years on or back while a stack waits for a signal",
    "its time limit is neither over at once nor put off",
)
@pytest.mark.parametrize("jump", JUMPS)
def test_a_jump_while_a_signal_is_waited_for(
    stacks: Stacks, clock: Clock, jump: str
) -> None:
    """The signal counts though the clock says that it is ten years late."""
    process = stacks.start(stacks.template(stacks.waiting()), **clock.environment)
    address, token = stacks.address()
    clock.set(jump)
    time.sleep(2.5)  # twice as long as the condition is not looked at
    assert process.poll() is None
    assert signalled(address, token) == 200
    stacks.go.touch()
    done = ends(process)
    assert done.code == 0, done.out + done.err
    assert "d " not in done.out.partition("condition")[2].splitlines()[0], (
        "it took no days"
    )
    assert stacks("graph", "t", "--timeline").code == 0


@fault(
    3,
    "the clock set back by ten years while a stack waits for a signal that never comes, and its command killed",
    "the wait is over when its time is over",
)
@pytest.mark.parametrize("killed", [False, True], ids=["lives", "killed"])
def test_a_wait_that_is_over(stacks: Stacks, clock: Clock, killed: bool) -> None:
    """A wait ends in time although the clock is set back ten years, also in the process that continues it."""
    resources = stacks.waiting(timeout=4)
    resources["condition"]["depends_on"] = "handle"
    del resources["sender"], resources["sender_config"]
    resources |= stacks.script("other", f"touch {stacks.told}")
    path = stacks.template(resources)
    begun = processes.since_boot()
    process = stacks.start(path, **clock.environment)
    wait_until(stacks.told.exists, LONG)
    clock.set("-10y")
    if killed:
        process.kill()
        ends(process)
        process = stacks.start(path, **clock.environment)
    done = ends(process)
    assert done.code == FAILED
    assert "WaitConditionTimeout" in done.out
    assert "0 of 1 received" in done.out
    assert processes.since_boot() - begun >= 4


@fault(
    3,
    "a command killed while a group pauses between two batches",
    "the next one waits for what is left of the pause",
)
def test_a_pause_goes_on(stacks: Stacks) -> None:
    """A pause of a workflow is neither skipped nor started again."""
    pause = 6
    stacks.template(
        stacks.script("member", "cut -d' ' -f1 /proc/uptime >>" + str(stacks.told)),
        "inner",
    )
    group = {
        "type": "OS::Heat::ResourceGroup",
        "properties": {"count": 2, "resource_def": {"type": "inner.yaml"}},
        "update_policy": {"batch_create": {"max_batch_size": 1, "pause_time": pause}},
    }
    path = stacks.template({"all": group})
    process = stacks.start(path)
    wait_until(
        lambda: (
            '"lasted"' in stacks.record.read_text() if stacks.record.exists() else False
        ),
        LONG,
    )
    process.kill()
    ends(process)
    kept = [json.loads(line[9:]) for line in stacks.record.read_text().splitlines()]
    since = [
        each[2]["since"]
        for each in kept
        if each[0] == "resource" and each[2] and each[2]["since"]
    ]
    stacks.apply(path)
    first, second = (float(each) for each in stacks.told.read_text().split())
    assert second - first >= pause - 0.1
    kept = [json.loads(line[9:]) for line in stacks.record.read_text().splitlines()]
    later = [
        each[2]["since"]
        for each in kept
        if each[0] == "resource" and each[2] and each[2]["since"]
    ]
    assert {json.dumps(each) for each in later} == {
        json.dumps(each) for each in since
    }, "it was begun once"


@fault(
    3,
    "the machine rebooted while a stack waits",
    "what is known to have passed before counts, and so does what comes",
)
def test_a_reboot_while_something_is_waited_for(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The time since the boot is added to the time that was recorded before it."""
    now, boot = 1000.0, tmp_path.name
    monkeypatch.setattr(processes, "since_boot", lambda: now)
    monkeypatch.setattr(processes, "boot_id", lambda: f"{boot}/1/1")
    record = ResourceRecord("r", "r", "s")
    spans.begin(record, "one")
    now += spans.NOTED - 1
    assert not spans.renew(record)
    now += 1
    assert spans.lasted(record) == spans.NOTED
    assert spans.renew(record)
    assert spans.lasted(record) == spans.NOTED
    now, boot = 7.0, "another"
    assert spans.lasted(record) == spans.NOTED + 7
    assert spans.renew(record)
    now += 3
    assert spans.lasted(record) == spans.NOTED + 10
    spans.begin(record, "one")
    assert spans.lasted(record) == spans.NOTED + 10, "it waits already"
    spans.begin(record, "two")
    assert spans.lasted(record) == 0
