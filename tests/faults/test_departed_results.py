"""Results that nobody waits for any more: their deployment has gone, or is replaced."""

from __future__ import annotations

import pytest

from support.loopback import SignalServer, wait_until
from support.machine import Machine, deployment
from support.results import ONCE, UNDELIVERED, counting, ran

pytestmark = pytest.mark.takes(20)


@pytest.mark.fault(
    1,
    "a deployment leaves the metadata before its result is delivered",
    "the result is not sent: it would complete the next action; if it comes back, it is",
)
def test_a_result_whose_deployment_has_gone(
    machine: Machine, heat: SignalServer
) -> None:
    """The result of a deployment that has left its document is not sent: it would complete the next action."""
    heat.refuse()
    assert (
        machine.apply([counting(machine, url=heat.url("old"))], *ONCE).code
        == UNDELIVERED
    )
    heat.start()

    done = machine.apply([counting(machine, "d2", heat.url("new"))])
    assert "d1 is not sent: the deployment has been replaced" in done.err
    machine.apply([counting(machine, "d2", heat.url("new"))])

    assert heat.values("old") == []
    assert len(heat.values("new")) == 1
    assert machine.status()["d1"]["state"] == "superseded"


@pytest.mark.fault(
    1,
    "a deployment leaves the metadata before its result is delivered",
    "the result is not sent: it would complete the next action; if it comes back, it is",
)
def test_a_result_whose_deployment_comes_back(
    machine: Machine, heat: SignalServer
) -> None:
    """A document that was empty for a while loses nothing: what is in it again is waited for again."""
    given = [counting(machine, url=heat.url())]
    heat.refuse()
    assert machine.apply(given, *ONCE).code == UNDELIVERED
    heat.start()
    assert machine.apply([]).code == 0
    assert heat.signals == []

    assert machine.apply(given).code == 0

    assert [each["deploy_stdout"] for each in heat.values()] == ["d1\n"]
    assert ran(machine) == ["d1"]


def test_deployment_that_left_before_it_began_runs_when_it_returns(
    machine: Machine, heat: SignalServer
) -> None:
    """A deployment that left the document before its turn, and is in it again, is new work and not done work."""
    first = deployment("first", "#!/bin/sh\nsleep 60\n", options={"timeout": 1})
    given = [first, counting(machine, "second", heat.url("second"))]
    agent = machine.start_apply(given, "--grace", "0.1")
    wait_until(lambda: machine.status().get("first", {}).get("state") == "running")
    agent.kill()
    agent.communicate()

    machine.apply([], "--grace", "0.1")
    machine.apply(given)

    assert ran(machine) == ["second"]
    assert len(heat.values("second")) == 1


@pytest.mark.fault(
    1,
    "another deployment for the same resource, in another document",
    "the older result is never sent",
)
def test_a_result_whose_deployment_is_replaced_elsewhere(
    machine: Machine, heat: SignalServer
) -> None:
    """A result is never sent once another deployment waits at the same resource, whichever document names it."""
    resource = {"deploy_stack_id": "stack/1", "deploy_resource_name": "web"}
    heat.refuse()
    old = machine.write(
        [counting(machine, url=heat.url("old"), inputs=resource)], "old.json"
    )
    new = machine.write(
        [counting(machine, "d2", heat.url("new"), inputs=resource, action="UPDATE")],
        "new.json",
    )
    assert machine.apply(old, *ONCE).code == UNDELIVERED
    heat.start()

    assert machine.apply(new).code == 0

    assert [each["deploy_stdout"] for each in heat.values("new")] == ["d2\n"]
    assert heat.values("old") == []
    assert machine.status()["d1"]["state"] == "superseded"


@pytest.mark.fault(
    1,
    "a deployment leaves the metadata while it runs",
    "it is followed to its end, and its result is not sent",
)
def test_a_run_whose_deployment_has_gone(machine: Machine, heat: SignalServer) -> None:
    """A run whose deployment leaves the document is followed to its end, and its result is not sent."""
    slow = deployment(
        "d1", f"#!/bin/sh\n: >{machine.folder}/began\nsleep 1\n", signal=heat.url("old")
    )
    agent = machine.start_apply([slow])
    wait_until((machine.folder / "began").exists, 60)
    agent.kill()
    agent.communicate()

    done = machine.apply([counting(machine, "d2", heat.url("new"))])

    assert done.code == 0, done.err
    assert heat.values("old") == []
    assert len(heat.values("new")) == 1
    assert machine.status()["d1"]["state"] == "superseded"


@pytest.mark.parametrize(
    "content", [None, "[", '{"deployments": 1}', '{"something": "else"}']
)
@pytest.mark.fault(
    1,
    "a document that cannot be read or understood",
    "what it said before is not taken to be replaced: its results still arrive",
)
def test_a_source_that_says_nothing_replaces_nothing(
    machine: Machine, heat: SignalServer, content: str | None
) -> None:
    """Results stay waiting while the document that holds their deployments cannot be read or understood."""
    heat.refuse()
    path = machine.write([counting(machine, url=heat.url())], "site.json")
    rest = machine.write([counting(machine, "d2")], "rest.json")
    assert machine.apply(path, *ONCE).code == UNDELIVERED
    heat.start()
    path.unlink() if content is None else path.write_text(content)

    assert machine.apply(path, *ONCE).code != 0
    machine.apply(rest, str(path))
    assert machine.status()["d1"]["state"] == "finished"
    assert not heat.signals
    machine.write([counting(machine, url=heat.url())], "site.json")

    assert machine.apply(path).code == 0
    assert len(heat.values()) == 1


def test_only_replaces_nothing(machine: Machine, heat: SignalServer) -> None:
    """A deployment that `--only` skips is not replaced: its result is delivered by a later run."""
    heat.refuse()
    given = [
        counting(machine, url=heat.url("d1")),
        counting(machine, "d2", heat.url("d2")),
    ]
    assert machine.apply(given, *ONCE, "--only", "d1").code == UNDELIVERED
    heat.start()

    assert machine.apply(given, "--only", "d2").code == 0
    assert machine.status()["d1"]["state"] in ("finished", "signalled")
    assert machine.apply(given).code == 0
    assert [len(heat.values(each)) for each in ("d1", "d2")] == [1, 1]
    assert ran(machine) == ["d1", "d2"]
