"""The source `zaqar`: which message counts, and what becomes of the others."""

from __future__ import annotations

import uuid

import pytest

from heat_config_agent.model.errors import SourceError
from heat_config_agent.sources.poller import Claiming, Listening
from support import cloud
from support.zaqar import Make, Queue, content, metadata


def test_the_newest_message_counts_and_goes_with_the_older_ones_once_it_is_taken(
    make: Make, queue: Queue
) -> None:
    """Messages are in the queue until what the newest says is safe on disk; then all of them go."""
    zaqar = make()
    for name in ("first", "second", "third"):
        queue.post(metadata(name))
    assert content(zaqar.collect()) == metadata("third")
    assert len(queue.messages) == 3
    assert zaqar.trouble == ""
    zaqar.taken()
    assert queue.messages == []
    assert zaqar.collect() is None
    assert len({each.headers["Client-ID"] for each in queue.requests}) == 1
    assert (
        str(uuid.UUID(queue.requests[0].headers["Client-ID"]))
        == queue.requests[0].headers["Client-ID"]
    )
    assert isinstance(zaqar, Claiming)
    assert isinstance(zaqar, Listening)


def test_an_idle_poll_is_one_request(
    make: Make, queue: Queue, openstack: cloud.Cloud
) -> None:
    """Where there is nothing new, one request says so."""
    zaqar = make()
    zaqar.collect()
    before = len(queue.requests), len(openstack.logins)
    assert zaqar.collect() is None
    assert (len(queue.requests), len(openstack.logins)) == (before[0] + 1, before[1])


def test_a_message_comes_back_after_a_crash(make: Make, queue: Queue) -> None:
    """The message of an agent that crashed returns to the queue after its claim ends."""
    queue.post(metadata("one"))
    make().collect()
    heir = make()
    assert heir.collect() is None
    queue.expire()
    assert content(heir.collect()) == metadata("one")


def test_a_message_that_is_not_taken_comes_back_as_the_same_document(
    make: Make, queue: Queue
) -> None:
    """A document that could not be stored is returned again as the same object."""
    queue.post(metadata("one"))
    zaqar = make()
    document = zaqar.collect()
    queue.expire()
    assert zaqar.collect() is document
    zaqar.taken()
    assert queue.messages == []


def test_there_may_be_more_messages_than_one_claim_brings(
    make: Make, queue: Queue
) -> None:
    """The newest message counts, even if there are more than one claim returns."""
    for number in range(25):
        queue.post(metadata(str(number)))
    zaqar = make()
    assert content(zaqar.collect()) == metadata("24")
    zaqar.taken()
    assert queue.messages == []


def test_newer_message_is_not_deleted(make: Make, queue: Queue) -> None:
    """A message that was collected after the one that is on disk is not deleted with it."""
    zaqar = make()
    queue.post(metadata("first"))
    first = zaqar.collect()
    queue.post(metadata("second"))
    second = zaqar.collect()
    zaqar.taken(first)
    assert queue.bodies() == [metadata("second")]
    zaqar.taken(second)
    assert queue.messages == []
    zaqar.taken(second)  # once more does no harm


def test_nothing_is_deleted_where_nothing_was_collected(
    make: Make, queue: Queue
) -> None:
    """Without a document, there is nothing to let go of."""
    zaqar = make()
    zaqar.collect()
    zaqar.taken()
    assert {each.verb for each in queue.requests} == {"POST"}


def test_message_claimed_by_a_dead_agent_is_deleted_with_newer_ones(
    make: Make, queue: Queue
) -> None:
    """A message that somebody died with does not come back after a newer one is on disk."""
    queue.post(metadata("older"), ago=5)
    make().collect()
    queue.post(metadata("newer"))
    zaqar = make()
    assert content(zaqar.collect()) == metadata("newer")
    zaqar.taken()
    assert queue.messages == []


@pytest.mark.parametrize("said", [(503, b"{}"), (200, b"<html>")])
def test_an_older_message_does_not_count_after_a_newer_one(
    make: Make, queue: Queue, said: tuple[int, bytes]
) -> None:
    """Where Zaqar does not list what others have claimed, an older message may come back; it is deleted unread."""
    queue.said["GET", "messages"] = said
    queue.post(metadata("older"), ago=5)
    make().collect()
    queue.post(metadata("newer"))
    zaqar = make()
    zaqar.collect()
    zaqar.taken()
    assert queue.bodies() == [metadata("older")]
    queue.expire()
    assert zaqar.collect() is None
    assert queue.messages == []


def test_an_older_message_does_not_count_before_the_newer_one_is_taken(
    make: Make, queue: Queue
) -> None:
    """After two messages were collected, the older does not come back before the newer does."""
    zaqar = make()
    queue.post(metadata("older"))
    zaqar.collect()
    newer = queue.post(metadata("newer"))
    document = zaqar.collect()
    queue.messages[0].claim = ""
    assert zaqar.collect() is None
    assert queue.messages == [newer]
    queue.expire()
    assert zaqar.collect() is document


def test_messages_of_the_same_second_count_in_the_order_in_which_they_come(
    make: Make, queue: Queue
) -> None:
    """Zaqar tells ages in whole seconds, and Heat may post several messages within one."""
    zaqar = make()
    for name in ("one", "two", "three"):
        queue.post(metadata(name))
        assert content(zaqar.collect()) == metadata(name)
        zaqar.taken()


def actions(**counts: int | list[int]) -> dict[str, object]:
    """Return metadata with actions of deployments, by the minute in which they were made."""
    deployments = [
        {
            "id": f"{name}-{each}",
            "name": name,
            "group": "script",
            "creation_time": f"2026-11-21T14:{each:02}:00Z",
            "config": "",
            "inputs": [
                {"name": "deploy_stack_id", "value": "stack/1"},
                {"name": "deploy_resource_name", "value": name},
            ],
        }
        for name, found in counts.items()
        for each in (found if isinstance(found, list) else [found])
    ]
    return {"deployments": deployments}


@pytest.mark.parametrize("together", [True, False])
@pytest.mark.parametrize(
    ("first", "second", "newest"),
    [
        (
            actions(a=2, b=2),
            actions(a=2, b=1),
            "first",
        ),  # what Heat posts when two change at once
        (actions(a=2, b=1), actions(a=2, b=2), "second"),
        (actions(a=2, b=2), actions(a=2), "second"),  # one has gone
        (actions(a=2, b=1), actions(a=1, b=2), "second"),  # nothing can be told
        (actions(a=[2, 3]), actions(a=2), "second"),  # the other one was replaced by it
    ],
)
def test_a_message_may_be_posted_after_a_newer_one(
    make: Make,
    queue: Queue,
    first: object,
    second: object,
    newest: str,
    *,
    together: bool,
) -> None:
    """The message that has the later actions counts, and when it is taken, both go."""
    zaqar = make()
    queue.post(first)
    if not together:
        zaqar.collect()
        zaqar.taken()
    queue.post(second)
    found = zaqar.collect()
    if newest == "first" and not together:
        assert found is None
    else:
        assert content(found) == {"first": first, "second": second}[newest]
        zaqar.taken()
    assert queue.messages == []


@pytest.mark.parametrize("age", [..., None, "old", -1, 1e300, []])
def test_a_message_of_unknown_age_is_new(make: Make, queue: Queue, age: object) -> None:
    """Where it is not known how old a message is, the order of the queue counts."""
    zaqar = make()
    for name in ("one", "two"):
        queue.post(metadata(name), age=age)
        assert content(zaqar.collect()) == metadata(name)


def test_message_that_could_not_be_deleted_does_not_count_again(
    make: Make, queue: Queue
) -> None:
    """Where Zaqar does not delete a message, that is said, and it is tried again when the message comes back."""
    zaqar = make()
    queue.post(metadata("superseded"))
    queue.post(metadata("one"))
    zaqar.collect()
    queue.said["DELETE", "messages"] = (503, b"")
    with pytest.raises(
        SourceError, match=r"cannot delete messages from the Zaqar queue .* HTTP 503"
    ):
        zaqar.taken()
    queue.expire()
    assert zaqar.collect() is None
    assert "cannot delete messages" in zaqar.trouble
    queue.said.clear()
    queue.expire()
    assert zaqar.collect() is None
    assert zaqar.trouble == ""
    assert queue.messages == []
    queue.post(metadata("two"))
    assert content(zaqar.collect()) == metadata("two")


def test_deleted_message_does_not_count_again(make: Make, queue: Queue) -> None:
    """A message that is there again after Zaqar has said that it is gone is deleted once more."""
    zaqar = make()
    message = queue.post(metadata("one"))
    zaqar.collect()
    zaqar.taken()
    message.claim = ""
    queue.messages.append(message)
    assert zaqar.collect() is None
    assert queue.messages == []
