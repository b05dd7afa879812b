from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any

import pytest

from heat_config_agent.model.errors import AccessError, SourceError
from heat_config_agent.sources.base import Reach, Source
from heat_config_agent.sources.cloud.heat import Heat
from support import cloud, pace
from support.loopback import Answer

METADATA = {
    "deployments": [{"id": "d1"}],
    "os-collect-config": {"heat": {"resource_name": "server"}},
}


@pytest.fixture
def openstack(openstack: cloud.Cloud) -> cloud.Cloud:
    """A cloud whose Heat has metadata."""
    openstack.service.always = holding(METADATA)
    return openstack


def holding(metadata: object) -> Answer:
    """Return Heat's answer."""
    return Answer(body=json.dumps({"metadata": metadata}).encode())


def source(openstack: cloud.Cloud, seconds: float = 60.0, **values: str) -> Heat:
    """Return the source as settings make it."""
    usual = {
        "auth_url": openstack.keystone.origin + "/v3/",
        "user_id": "u1",
        "password": cloud.PASSWORD,
        "project_id": cloud.PROJECT,
        "stack_id": "stack/0a1b",
        "resource_name": "server",
        "region_name": "RegionOne",
    }
    return Heat({**usual, **values}, Reach(seconds=seconds))


def test_the_metadata_is_the_document(openstack: cloud.Cloud) -> None:
    """Without what Heat wraps it in."""
    heat: Source = source(openstack)
    found = heat.collect()
    assert found is not None
    assert (found.source, found.content) == ("heat", METADATA)
    (asked,) = openstack.asked
    assert (asked.verb, asked.path) == (
        "GET",
        "/v1/p1/stacks/stack/0a1b/resources/server/metadata",
    )


def test_unchanged_metadata_is_the_same_object(openstack: cloud.Cloud) -> None:
    """Unchanged metadata is the same object, so the caller need not look at it again."""
    heat = source(openstack)
    first = heat.collect()
    assert heat.collect() is first
    assert heat.collect() is first
    assert openstack.requests == (1, 3)
    openstack.service.always = holding({"deployments": []})
    assert heat.collect().content == {"deployments": []}
    openstack.service.always = holding(METADATA)
    assert heat.collect() == first
    assert openstack.requests == (1, 5)


def test_names_are_made_fit_for_a_path(openstack: cloud.Cloud) -> None:
    """A resource may be called almost anything."""
    source(openstack, stack_id="a b/1", resource_name="wéb?/#1").collect()
    assert (
        openstack.asked[0].path
        == "/v1/p1/stacks/a%20b/1/resources/w%C3%A9b%3F%2F%231/metadata"
    )


NO_METADATA = {
    "nothing": b"",
    "HTML": b"<html>It works!</html>",
    "cut": b'{"metadata": {"deployments": [',
    "null": b"null",
    "a list": b"[]",
    "text": b'"metadata"',
    "an object without it": b"{}",
    "null for it": b'{"metadata": null}',
    "a list for it": b'{"metadata": []}',
    "text for it": b'{"metadata": "{}"}',
    "no number": b'{"metadata": {"a": NaN}}',
    "no UTF-8": b"\xff\xfe{}",
    "too deep": b'{"metadata": ' + b'{"a":' * 5000 + b"1" + b"}" * 5001,
}


@pytest.mark.parametrize("body", NO_METADATA.values(), ids=NO_METADATA)
def test_an_answer_may_be_no_metadata(openstack: cloud.Cloud, body: bytes) -> None:
    """An answer that is not metadata is reported as such, and the next answer may be better."""
    heat = source(openstack)
    first = heat.collect()
    openstack.service.answers.append(Answer(body=body))
    with pytest.raises(SourceError, match=r"^cannot read the metadata: "):
        heat.collect()
    assert heat.collect() is first


@pytest.mark.parametrize("status", [204, 302, 400, 401, 403, 404, 410, 429, 500, 503])
def test_heat_may_have_none(openstack: cloud.Cloud, status: int) -> None:
    """The error shows Heat's answer, with a hint where there is one."""
    openstack.service.always = Answer(
        status, body=b"" if status == 204 else b'{"metadata": {}}'
    )
    rejects = "(cannot get the metadata: Heat answers|Heat rejects the request for the metadata:)"
    with pytest.raises(SourceError, match=f"^{rejects} HTTP {status} ") as caught:
        source(openstack).collect()
    assert ("resource" in caught.value.hint) == (status in (401, 403, 404, 410))
    assert isinstance(caught.value, AccessError) == (status in (401, 403, 404, 410))


def test_keystone_may_say_no(openstack: cloud.Cloud) -> None:
    """A refusal of Keystone is reported with the hint to check the settings."""
    openstack.keystone.always = Answer(401)
    with pytest.raises(
        AccessError,
        match=r"^cannot ask Heat for the metadata: Keystone answers HTTP 401",
    ) as caught:
        source(openstack).collect()
    assert "password" in caught.value.hint
    assert cloud.PASSWORD not in str(caught.value)


def failing(openstack: cloud.Cloud) -> Iterator[tuple[Any, Answer]]:
    """A server and the fault with which it does not answer."""
    for server in (openstack.keystone, openstack.service):
        yield server, Answer(delay=15)
        yield server, Answer(hang_up=True)
        yield server, Answer(503)


def test_whoever_is_away_holds_up_nobody_for_long(openstack: cloud.Cloud) -> None:
    """A server that is away is an error in time, and the document before stays."""
    first = source(openstack).collect()
    for server, answer in failing(openstack):
        heat = source(openstack, seconds=0.3)
        server.answers.append(answer)
        began = time.monotonic()
        with pytest.raises(SourceError, match=r"^cannot (ask|get)"):
            heat.collect()
        assert time.monotonic() - began < pace.seconds(10)
        assert heat.collect() == first
