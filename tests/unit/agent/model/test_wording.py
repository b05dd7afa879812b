"""Times and durations, for people and for programs."""

from __future__ import annotations

import sys
import time

import pytest

from heat_config_agent.model import wording


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0.0, "0.00 s"),
        (0.29, "0.29 s"),
        (9.996, "9.99 s"),
        (10, "10 s"),
        (59.9, "59 s"),
        (60, "1 min 0 s"),
        (599.7, "9 min 59 s"),
        (3599.99, "59 min 59 s"),
        (7500, "2 h 5 min"),
        (86399, "23 h 59 min"),
        (100000, "1 d 3 h"),
        (-1, "0.00 s"),
    ],
)
def test_durations_are_cut(seconds: float, words: str) -> None:
    """A duration is never shown as longer than it is, and no part of it reaches 60."""
    assert wording.duration(seconds) == words


def test_stamps_are_in_utc_with_milliseconds(monkeypatch: pytest.MonkeyPatch) -> None:
    """A time for programs does not depend on the machine's time zone; an unknown or invalid one is None."""
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    try:
        assert wording.stamp(1764172236.4125) == "2025-11-26T15:50:36.412Z"
        assert wording.stamp(None) is None
        assert wording.stamp(1e300) is None
    finally:
        monkeypatch.undo()
        time.tzset()


def test_moments_are_local_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """People read the time of today without the date, and programs read a stamp."""
    now = time.time()
    assert wording.moment(now) == wording.stamp(now)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    assert wording.moment(0.0) == time.strftime("%Y-%m-%d %H:%M", time.localtime(0))
    monkeypatch.setattr(time, "time", lambda: now)
    assert wording.moment(None) == "-"
    assert wording.moment(1e300) == "an invalid time"
    noon = time.mktime((2025, 11, 26, 12, 0, 0, 0, 0, -1))
    monkeypatch.setattr(wording, "_today", lambda: time.localtime(noon)[:3])
    assert wording.moment(noon + 36) == "12:00:36"
    assert wording.moment(noon - 86400) == "2025-11-25 12:00"
