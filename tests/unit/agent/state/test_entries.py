"""The index of a journal's entries leaves out nothing that a pass would do something about."""

from __future__ import annotations

import random

import pytest

from heat_config_agent.deployments import cleanup, metadata, plan
from heat_config_agent.model.deployment import BUILTIN, Deployment, Document
from heat_config_agent.model.entry import Entry, State
from heat_config_agent.state.entries import Entries
from heat_config_hooks.values import replace
from support.entries import entry as known
from support.entries import run_of
from support.machine import deployment

SOURCES = ("a", "b", "c")
HOOKS = ("script", "docker-cmd", "docker-compose")
NOW = 100.0


def offered(source: str, number: int) -> Deployment:
    """Return a deployment as a source has it."""
    (only,) = metadata.parse(
        Document(source=source, content=[deployment(f"d{number}", "text")])
    ).deployments
    return only


def made(chance: random.Random, number: int) -> Entry:
    """Return an entry in any state."""
    own = offered(chance.choice(SOURCES), number)
    hook = chance.choice(HOOKS)
    entry = known(
        own,
        chance.choice([*State, State.SIGNALLED, State.SIGNALLED]),
        name=f"n{number % 3}",
        action=chance.choice(["CREATE", "DELETE"]),
        tool=hook,
        addressee=chance.choice(["", "x", "y"]),
        at=1.0,
        accepted=chance.random(),
        started=None,
        ended=2.0,
        again=chance.random() < 0.1,
        left_at=chance.choice([None, 5.0]),
        run=chance.choice([None, run_of(BUILTIN + hook)]),
        values=None,
    )
    left = cleanup.key_of(entry) if chance.random() < 0.2 else ""
    return replace(entry, key=left, action=cleanup.ACTION) if left else entry


@pytest.mark.parametrize("seed", range(40))
def test_a_pass_does_the_same_as_if_it_looked_at_all_entries(seed: int) -> None:
    """After any changes, an incremental pass has the same result as a full one."""
    chance = random.Random(seed)  # noqa: S311
    entries, plain = Entries({}), dict[str, Entry]()
    for _ in range(60):
        for _ in range(chance.randrange(6)):
            entry = made(chance, chance.randrange(12))
            entries[entry.key] = plain[entry.key] = entry
        for key in chance.sample(sorted(plain), min(len(plain), chance.randrange(3))):
            if chance.random() < 0.5:
                entries[key] = plain[key] = replace(
                    plain[key], source=chance.choice(SOURCES)
                )
            else:
                del entries[key], plain[key]
        sources = chance.sample(SOURCES, chance.randrange(3))
        deployments = [offered(source, chance.randrange(12)) for source in sources]
        current = {each.key for each in deployments}
        concerned = entries.concerning(current, sources)
        assert dict(entries) == plain
        assert concerned.items() <= plain.items()
        assert cleanup.due(deployments, sources, concerned, NOW).back == (
            cleanup.due(deployments, sources, plain, NOW).back
        )
        assert {
            each.key for each in cleanup.due(deployments, sources, concerned, NOW).left
        } == ({each.key for each in cleanup.due(deployments, sources, plain, NOW).left})
        assert set(plan.superseded(deployments, sources, concerned)) == (
            set(plan.superseded(deployments, sources, plain))
        )
        rest = [entry for key, entry in plain.items() if key not in concerned]
        assert all(
            entry.settled and entry.source not in sources and entry.key not in current
            for entry in rest
        )


def test_deployments_of_other_sources_are_left_out() -> None:
    """A source with one deployment costs one entry, however many others have been settled."""
    chance = random.Random(0)  # noqa: S311
    entries = Entries({})
    entries.concerning((), ())
    for number in range(100):
        entry = made(chance, number)
        entries[entry.key] = replace(
            entry, source=f"s{number}", state=State.SIGNALLED, action="CREATE", run=None
        )
    assert [
        entry.source for entry in entries.concerning(["d7"], ["s7", "s8"]).values()
    ] in (["s7", "s8"], ["s8", "s7"])
