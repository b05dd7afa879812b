"""The inbox of a stack: results stay in the process, and count as delivered once they are on disk."""

from __future__ import annotations

from collections.abc import Mapping

from heat_config_agent.model.deployment import Target
from heat_config_agent.signals.delivery import Fate
from heat_config_stack.lifecycle.machine import Inbox


def test_result_is_handed_on_as_it_is() -> None:
    """The values of a result are not written out and read again, and are delivered when the records are safe."""
    taken: list[tuple[str, Mapping[str, object]]] = []
    safe: list[bool] = []
    inbox = Inbox(lambda key, values: taken.append((key, values)), lambda: bool(safe))
    try:
        values = {"deploy_status_code": 0, "result": ["a", {"b": 1.50}]}
        inbox.post("key", Target(kind="url", url="http://stack/"), values)
        assert taken == [("key", values)]
        assert taken[0][1] is values
        assert inbox.outcomes() == []
        safe.append(True)
        assert [(outcome.key, outcome.fate) for outcome in inbox.outcomes()] == [
            ("key", Fate.SENT)
        ]
        assert not inbox.pending
    finally:
        inbox.close()
