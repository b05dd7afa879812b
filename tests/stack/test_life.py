"""The life of a stack, as far as the cases of Heat's engine do not cover it."""

from __future__ import annotations

import json
import stat
import threading
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from heat_config_agent.diagnostics.mistakes import Invalid
from heat_config_agent.model.errors import LockedError, UsageError
from heat_config_stack.records import listing
from heat_config_stack.records.store import FILE
from stack.made import made, tried, value
from stack.working import Working
from support import pace


def again(working: Working, resources: dict[str, Any], **how: Any) -> None:
    """Update the stack."""
    working.session.update(
        working.again({"resources": resources, "outputs": {}}), **how
    )


def test_a_preview_says_what_an_update_then_does(working: Working) -> None:
    """Nothing of the stack changes by it."""
    former = {
        "a": tried("1"),
        "b": tried("2", update_replace_value="x"),
        "c": value(3),
        "d": value(4),
    }
    changed = {
        "a": tried("9"),
        "b": tried("2", update_replace_value="y"),
        "c": value(3),
        "e": value(5),
    }
    working.session.create(made(former))
    before = (working.stack / FILE).read_bytes()
    found = working.session.preview(
        working.again({"resources": changed, "outputs": {}})
    )
    assert {each.name: each.effect for each in found} == {
        "a": "updated",
        "b": "replaced",
        "c": "unchanged",
        "d": "removed",
        "e": "added",
    }
    working.session.store.flush()
    assert (working.stack / FILE).read_bytes() == before
    ids = {name: each.uuid for name, each in working.root.resources.items()}
    again(working, changed)
    now = {name: each.uuid for name, each in working.root.resources.items()}
    assert (now["a"], now["c"]) == (ids["a"], ids["c"])
    assert now["b"] != ids["b"]
    assert sorted(now) == ["a", "b", "c", "e"]


def test_a_failed_update_goes_back_by_itself(working: Working) -> None:
    """A failed update is rolled back, and the resources after the failed one are as before."""
    working.session.create(
        made({"a": tried("1"), "b": tried("2") | {"depends_on": ["a"]}})
    )
    again(
        working,
        {"a": tried("9"), "b": tried("2", fail=True) | {"depends_on": ["a"]}},
        rollback=True,
    )
    assert working.state() == ("ROLLBACK", "COMPLETE")
    assert working.root.resources["a"].get_attribute("output") == "1"
    working.close()
    assert working.root.definition.resources["b"].properties["value"] == "2"


def test_a_stack_that_could_not_be_made_is_gone_with_rollback(working: Working) -> None:
    """Nothing is left of it but its name, under which another can be made."""
    working.session.create(
        made({"a": tried("1"), "b": tried("2", fail=True) | {"depends_on": ["a"]}}),
        rollback=True,
    )
    assert working.state() == ("ROLLBACK", "COMPLETE")
    assert not working.root.records()
    working.close()
    working.session.create(made({"a": tried("1")}))
    assert working.state() == ("CREATE", "COMPLETE")


def test_mistakes_are_shown_together(working: Working) -> None:
    """All mistakes are shown with their paths, and nothing begins."""
    with pytest.raises(Invalid) as caught:
        working.session.create(
            made(
                {
                    "a": {"type": "No::Such::Type"},
                    "b": tried("1", nope=1, wait_secs="long"),
                    "c": {"type": "OS::Heat::SoftwareDeployment"},
                    "d": value(1) | {"update_policy": {"x": 1}},
                },
                {"o": {"attr": ["b", "nope"]}},
            )
        )
    paths = [".".join(map(str, each.path)) for each in caught.value.mistakes]
    assert paths == [
        *(
            "resources.a.type",
            "resources.b.properties",
            "resources.b.properties.wait_secs",
        ),
        *("resources.c.properties", "resources.d.update_policy", "outputs"),
    ]
    assert working.session.root is None


def test_a_circle_is_named(working: Working) -> None:
    """All that are in it, in their order."""
    with pytest.raises(
        Invalid, match=r"Circular Dependency Found: (a → b → a|b → a → b)"
    ):
        working.session.create(
            made({"a": value({"ref": "b"}), "b": value({"ref": "a"})})
        )


def test_stacks_are_side_by_side(tmp_path: Path) -> None:
    """Each stack has a folder and a lock of its own; readers need no lock."""
    one, other = Working(tmp_path), Working(tmp_path)
    other.stack = tmp_path / "stacks" / "other"
    one.session.create(made({"a": value(1)}))
    other.session.create(made({"a": value(2)}, name="other"))
    assert listing.names(tmp_path) == ["other", "s"]
    kept = listing.kept(tmp_path, "other")
    assert kept
    assert kept.record
    assert (kept.record.status, kept.trouble) == ("COMPLETE", "")
    with pytest.raises(LockedError):
        _ = Working(tmp_path).session
    one.session.delete()
    assert listing.names(tmp_path) == ["other"]
    assert listing.kept(tmp_path, "s") is None
    with pytest.raises(UsageError, match="cannot have the name"):
        listing.folder(tmp_path, "../s")
    one.close()
    other.close()


def test_file_of_a_stack_is_private(working: Working) -> None:
    """There are secrets in it."""
    working.session.create(
        made({"a": {"type": "OS::Heat::RandomString"}}, {"o": {"attr": ["a", "value"]}})
    )
    secret = working.root.output("o")
    assert len(secret) == 32
    assert stat.S_IMODE((working.stack / FILE).stat().st_mode) == 0o600
    assert stat.S_IMODE(working.stack.stat().st_mode) == 0o700
    working.close()
    assert working.root.output("o") == secret


def test_a_line_that_was_torn_counts_for_nothing(working: Working) -> None:
    """A last line that a killed writer left incomplete is ignored."""
    working.session.create(made({"a": value(1)}))
    working.close()
    with (working.stack / FILE).open("a") as file:
        file.write('["resource","x",{"id":')
    assert working.states() == {"a": "CREATE_COMPLETE"}
    again(working, {"a": value(2)})
    working.close()
    assert working.states() == {"a": "UPDATE_COMPLETE"}


def test_a_wait_condition_is_signalled_over_http(working: Working) -> None:
    """A signal with the token is confirmed; without the token it is refused."""
    resources = {
        "h": {"type": "OS::Heat::WaitConditionHandle"},
        "w": {
            "type": "OS::Heat::WaitCondition",
            "properties": {"handle": {"ref": "h"}, "timeout": 30, "count": 2},
        },
    }
    answers: list[int] = []

    def signal(address: str, token: str, body: bytes) -> None:
        asked = urllib.request.Request(address, body, {"X-Auth-Token": token})  # noqa: S310  # of this machine
        try:
            with urllib.request.urlopen(asked, timeout=pace.seconds(20)) as answer:  # noqa: S310
                answers.append(answer.status)
        except urllib.error.HTTPError as error:
            answers.append(error.code)
            error.close()

    def signals(address: str, token: str) -> None:
        signal(address, "another", b"{}")
        signal(address, token, b'{"status": "MAYBE"}')
        signal(address, token, b'{"data": "one"}')
        signal(address, token, b"")

    def heard(event: dict[str, Any]) -> None:
        if (event["path"], event["status"]) == ("w", "IN_PROGRESS"):
            handle = working.root.resources["h"]
            address, token = (
                handle.get_attribute("endpoint"),
                handle.get_attribute("token"),
            )
            threads.append(threading.Thread(target=signals, args=(address, token)))
            threads[0].start()

    threads: list[threading.Thread] = []
    working.session.world.happened = heard
    working.session.create(made(resources, {"data": {"attr": ["w", "data"]}}))
    threads[0].join()
    assert working.state() == ("CREATE", "COMPLETE"), working.root.record.reason
    assert json.loads(working.root.output("data")) == {"1": "one", "2": None}
    assert answers == [403, 400, 200, 200]


def test_resource_of_a_cloud_is_a_placeholder(working: Working) -> None:
    """A placeholder has the attributes that it is given, and a server is this machine."""
    working.session.create(
        made(
            {
                "net": {"type": "OS::Neutron::Net", "properties": {"name": "n"}},
                "web": {
                    "type": "OS::Nova::Server",
                    "properties": {
                        "name": "web1",
                        "flavor": "f",
                        "networks": [{"network": {"ref": "net"}}],
                    },
                },
            },
            {
                "mtu": {"attr": ["net", "mtu"]},
                "name": {"attr": ["web", "name"]},
                "address": {"attr": ["web", "first_address"]},
                "six": {"attr": ["web", "accessIPv6"]},
                "unknown": {"attr": ["net", "status"]},
            },
        )
    )
    found = {
        name: working.root.output(name) for name in working.root.definition.outputs
    }
    assert found == {
        "mtu": 1400,
        "name": "web1",
        "address": "127.0.0.1",
        "six": "::1",
        "unknown": None,
    }
    assert [each.name for each in working.root.placeholders()] == ["net", "web"]


@pytest.mark.slow
def test_long_chain_of_values_is_carried_out(working: Working) -> None:
    """A thousand values, each made of the one before, are made, changed and removed."""
    chain = {
        f"v{at}": value({"attr": [f"v{at - 1}", "value"]} if at else "x")
        for at in range(1000)
    }
    working.session.create(made(chain, {"last": {"attr": ["v999", "value"]}}))
    assert working.root.output("last") == "x"
    working.session.update(
        working.again({"resources": {**chain, "v0": value("y")}, "outputs": {}})
    )
    assert working.root.resources["v999"].get_attribute("value") == "y"
    working.session.delete()
    assert not working.session.store.resources


def test_the_order_of_a_suspend_after_a_change_of_type(working: Working) -> None:
    """A resource that was replaced by one of another type is suspended after what needs it, and resumed before."""
    chain: dict[str, Any] = {
        "a": tried(),
        "b": {**tried(), "depends_on": ["a"]},
        "c": {**tried(), "depends_on": ["b"]},
    }
    working.session.create(made(chain))
    changed = {**chain, "b": {**value("x"), "depends_on": ["a"]}}
    working.session.update(working.again({"resources": changed}))
    for action, order in (("SUSPEND", ["c", "b", "a"]), ("RESUME", ["a", "b", "c"])):
        working.events.clear()
        getattr(working.session, action.lower())()
        done = [
            each["path"]
            for each in working.events
            if (each["action"], each["status"]) == (action, "COMPLETE")
        ]
        assert done == [*order, ""]
