"""The server that takes signals counts what it is to count, and hands out documents as servers do."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import requests

from bench import server, work
from bench.scenario import LackingError
from support import pace


@pytest.fixture
def heat(tmp_path: Path) -> Iterator[server.Running]:
    """A server with a document."""
    with server.running(tmp_path / "documents") as running:
        (tmp_path / "documents" / "a.json").write_text('{"a": 1}')
        yield running


def test_signals_are_counted(heat: server.Running) -> None:
    """Requests, connections with requests, and successful signals are counted."""
    with requests.Session() as session:
        for code in ("0", '"0"', "1", '"10"'):
            answer = session.post(
                heat.url("signal/d1"), data=f'{{"deploy_status_code": {code}}}'
            )
            assert (answer.status_code, answer.json()) == (200, None)
        session.put(
            heat.url("signal/d1"),
            data='{"deploy_stdout": "x", "deploy_status_code":0,"b":1}',
        )
    heat.count()

    count = heat.count()
    assert (count.requests, count.connections, count.signals, count.successes) == (
        5,
        1,
        5,
        3,
    )


def test_work_that_was_not_done_is_noticed(heat: server.Running) -> None:
    """A scenario in which signals are missing, too many or failures measures something else."""
    with heat.expecting(1):
        requests.post(
            heat.url("signal/d1"),
            data='{"deploy_status_code": 0}',
            timeout=pace.seconds(10),
        )
    with pytest.raises(AssertionError, match="expected 2"), heat.expecting(2):
        requests.post(
            heat.url("signal/d1"),
            data='{"deploy_status_code": 0}',
            timeout=pace.seconds(10),
        )
    with pytest.raises(AssertionError, match="expected 1"), heat.expecting(1):
        requests.post(
            heat.url("signal/d1"),
            data='{"deploy_status_code": 1}',
            timeout=pace.seconds(10),
        )


@pytest.mark.parametrize(
    ("kind", "told", "asks"),
    [
        ("tagged", "ETag", "If-None-Match"),
        ("dated", "Last-Modified", "If-Modified-Since"),
    ],
)
def test_a_document_that_is_as_before_is_not_sent(
    heat: server.Running, kind: str, told: str, asks: str
) -> None:
    """304 to who has it, under whatever path and query; the document to everybody else."""
    url = heat.url(f"{kind}/a.json/v1/?Action=DescribeStackResource")
    first = requests.get(url, timeout=pace.seconds(10))
    again = requests.get(
        url, headers={asks: first.headers[told]}, timeout=pace.seconds(10)
    )
    other = requests.get(
        url, headers={asks: "something else"}, timeout=pace.seconds(10)
    )

    assert (first.status_code, first.json()) == (200, {"a": 1})
    assert (again.status_code, again.content) == (304, b"")
    assert other.json() == {"a": 1}
    assert heat.count().unchanged == 1


def test_a_plain_document_has_nothing_to_tell_it_by(heat: server.Running) -> None:
    """A client has to compare the content itself; HEAD returns only its length."""
    answer = requests.get(
        heat.url("plain/a.json"),
        headers={"If-None-Match": "*"},
        timeout=pace.seconds(10),
    )
    head = requests.head(heat.url("plain/a.json"), timeout=pace.seconds(10))

    assert answer.json() == {"a": 1}
    assert not {"ETag", "Last-Modified"} & set(answer.headers)
    assert (head.headers["Content-Length"], head.content) == ("8", b"")
    assert (
        requests.get(
            heat.url("plain/missing.json"), timeout=pace.seconds(10)
        ).status_code
        == 404
    )


def test_the_limit_does_its_work(heat: server.Running, tmp_path: Path) -> None:
    """The limit records each script before and after its run, and signals over one connection."""
    try:
        limit = work.Limit(tmp_path / "limit")
    except LackingError as lack:
        pytest.skip(str(lack))
    before = heat.count()
    with heat.expecting(3):
        limit.apply(tmp_path / "run", 3, heat)

    assert (heat.count() - before).connections == 1
    result = (
        r'{"deploy_stdout": "done\n", "deploy_stderr": "", "deploy_status_code": 0}'
    )
    assert (tmp_path / "run" / "journal").read_text().splitlines() == [
        line
        for n in range(3)
        for line in (f"{n} running", f"{n} finished {result}", f"{n} signalled")
    ]
