"""heat-config-apply --only: the deployments that are chosen, by name or id."""

from __future__ import annotations

import pytest

from support.commands import counted, runs
from support.loopback import SignalServer
from support.machine import Machine, deployment


@pytest.mark.parametrize("chosen", [["web"], ["id-1"], ["web", "id-3"], ["same"]])
def test_only_some_are_applied(
    machine: Machine, heat: SignalServer, chosen: list[str]
) -> None:
    """--only takes names and ids, any number of them; the others are left for another time."""
    names = {"id-1": "web", "id-2": "same", "id-3": "db", "id-4": "same"}
    given = [
        counted(machine, identity, name=name, signal=heat.url(identity))
        for identity, name in names.items()
    ]
    wanted = [
        identity for identity, name in names.items() if {identity, name} & set(chosen)
    ]
    arguments = [part for each in chosen for part in ("--only", each)]

    assert machine.apply(given, *arguments).code == 0
    assert runs(machine) == wanted
    assert len(heat.signals) == len(wanted)
    assert machine.apply(given).code == 0
    assert sorted(runs(machine)) == sorted(names)


@pytest.mark.parametrize("plan", [False, True])
def test_an_unknown_choice_is_bad_usage(
    machine: Machine, heat: SignalServer, plan: bool
) -> None:
    """If one of the names is nobody's, nothing at all is done, also not for the others."""
    given = [
        counted(machine, "d1", signal=heat.url()),
        deployment("d2", group="no-such-tool", signal=heat.url()),
    ]
    arguments = [
        "--only",
        "d1",
        "--only",
        "d2",
        "--only",
        "nobody",
        *(["--plan"] if plan else []),
    ]

    ran = machine.apply(given, *arguments)

    assert ran.code == 2
    assert "'nobody'" in ran.err
    assert runs(machine) == []
    assert machine.status() == {}
