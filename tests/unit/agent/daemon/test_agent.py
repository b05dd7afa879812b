from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from heat_config_agent.daemon.agent import Agent
from heat_config_agent.daemon.systemd import Notifier
from heat_config_agent.deployments import metadata
from heat_config_agent.deployments.metadata import Parsed
from heat_config_agent.engine.events import Event, Message, Report
from heat_config_agent.model.deployment import Document
from heat_config_agent.settings import effective
from heat_config_agent.sources.poller import Answer


class Messages(Report):
    """Keeps what is reported."""

    def __init__(self) -> None:
        super().__init__()
        self.warnings: list[str] = []
        self.notes: list[str] = []

    def event(self, event: Event) -> None:
        if isinstance(event, Message):
            (self.warnings if event.is_warning else self.notes).append(event.text)


@pytest.fixture
def messages() -> Messages:
    """Return the messages of the agent."""
    return Messages()


@pytest.fixture
def agent(tmp_path: Path, messages: Messages) -> Iterator[Agent]:
    """An agent that would ask a server nobody answers at; its answers are given to it by the test."""
    path = tmp_path / "agent.conf"
    path.write_text(
        f"[agent]\nstate_dir = {tmp_path / 'state'}\ncollectors = local\n[local]\npath = {tmp_path}\n"
    )
    settings = effective.make({}, config=path)
    settings.state.mkdir()
    made = Agent(settings, messages, Notifier({}))
    yield made
    made.close()


@pytest.fixture
def parsed(monkeypatch: pytest.MonkeyPatch) -> list[Document]:
    """The documents that were parsed."""
    documents: list[Document] = []
    parse = metadata.parse

    def counted(document: Document) -> Parsed:
        documents.append(document)
        return parse(document)

    monkeypatch.setattr(metadata, "parse", counted)
    return documents


def answer(content: object, *, changed: bool = True) -> Answer:
    """Return what the source `local` answers."""
    return Answer(
        key="local",
        name="local",
        document=Document(source="local", content=content),
        changed=changed,
    )


def turn(agent: Agent, *answers: Answer) -> None:
    """Take answers in, and look at what is in force."""
    agent.take_in(answers)
    agent.heed()
    agent.look()


def test_a_changed_document_is_parsed_once(
    agent: Agent, messages: Messages, parsed: list[Document]
) -> None:
    """A changed document is parsed once: to put it in force, to report on it, and to plan it."""
    turn(agent)
    parsed.clear()
    for content in ([{"id": "d1"}, {"id": "d2"}], []):
        turn(agent, answer(content))
        assert [each.content for each in parsed] == [content]
        parsed.clear()
    skipped = [
        f"{name}: skipped: no `group` is given: nothing to run" for name in ("d1", "d2")
    ]
    assert messages.notes == [
        "local has 2 deployments",
        *skipped,
        "local has 0 deployments",
    ]


def test_a_document_that_is_the_same_is_not_parsed(
    agent: Agent, messages: Messages, parsed: list[Document]
) -> None:
    """An unchanged document is not parsed again, however often its source returns it."""
    turn(agent, answer([]))
    parsed.clear()
    for changed in (True, False):
        turn(agent, answer([], changed=changed))
    assert parsed == []
    assert messages.notes == ["local has 0 deployments"]


def test_invalid_document_leaves_the_earlier_one_in_force(
    agent: Agent, messages: Messages, parsed: list[Document]
) -> None:
    """An invalid document is reported once, and the earlier one stays and is not parsed again."""
    turn(agent, answer([{"id": "d1"}]))
    parsed.clear()
    for _ in range(2):
        turn(agent, answer("nonsense"))
    assert [each.content for each in parsed] == ["nonsense"] * 2
    [warning] = [text for text in messages.warnings if "not metadata" in text]
    assert list(agent.intake.troubles) == [warning]
    assert [
        each.content for each in agent.intake.in_force() if each.source == "local"
    ] == [[{"id": "d1"}]]
    turn(agent, answer([]))
    assert not agent.intake.troubles


def test_metadata_without_deployments_counts_those_that_stay(
    agent: Agent, messages: Messages
) -> None:
    """A document that is about settings alone takes no deployment away, and the note says so."""
    turn(agent, answer({"deployments": [{"id": "d1"}]}))
    turn(agent, answer({"os-collect-config": {}}))
    skipped = "d1: skipped: no `group` is given: nothing to run"
    assert messages.notes == [
        "local has 1 deployment",
        skipped,
        "local has 1 deployment",
    ]
