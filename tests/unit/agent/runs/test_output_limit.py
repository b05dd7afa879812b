from __future__ import annotations

import errno
import os
from pathlib import Path
from unittest import mock

import pytest

from heat_config_agent.engine.events import Report
from heat_config_agent.runs import run_folder, streams
from heat_config_agent.runs.output_limit import OutputLimit
from heat_config_hooks import processes

LIMIT = 8 * 1024 * 1024


class Clock:
    """The value of `processes.since_boot`."""

    now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """Have no time pass but what a test says."""
    clock = Clock()
    monkeypatch.setattr(processes, "since_boot", clock)
    return clock


@pytest.fixture
def report() -> mock.Mock:
    """Return somebody who is told, and keeps it."""
    found: mock.Mock = mock.create_autospec(Report, instance=True)
    return found


def run(folder: Path, sizes: dict[str, int]) -> Path:
    """Make the folder of a run whose streams take so many bytes."""
    folder.mkdir()
    for name in run_folder.STREAMS:
        descriptor = os.open(folder / name, os.O_WRONLY | os.O_CREAT)
        if sizes.get(name):
            os.posix_fallocate(descriptor, 0, sizes[name])
        os.close(descriptor)
    return folder


def test_the_first_look_is_soon(clock: Clock) -> None:
    """The first check is soon, because the amount of output is unknown."""
    bounding = OutputLimit(mock.create_autospec(Report))
    bounding.begun()

    assert 0 < bounding.due < 0.5
    clock.now += 0.5
    assert bounding.due == 0


@pytest.mark.parametrize(
    ("taken", "limit", "seconds"),
    [
        (0, LIMIT, 2),
        (LIMIT // 8, LIMIT, 2),
        (LIMIT // 2, LIMIT, 0.2),
        (LIMIT // 2, 0, 2),
    ],
)
def test_noisy_runs_are_checked_more_often(
    tmp_path: Path, clock: Clock, taken: int, limit: int, seconds: float
) -> None:
    """Whichever of the runs it is; unless there is no limit."""
    folders = [run(tmp_path / "a", {"stderr": taken}), run(tmp_path / "b", {})]
    bounding = OutputLimit(mock.create_autospec(Report))

    bounding.look(folders, limit)

    assert bounding.due == pytest.approx(seconds)
    clock.now += seconds
    assert bounding.due == pytest.approx(0)


def test_all_streams_of_a_run_are_shortened(tmp_path: Path, report: mock.Mock) -> None:
    """Each stream has the whole limit, and their earlier size is returned."""
    folder = run(tmp_path / "run", {"stdout": 2 * LIMIT, "stderr": 3 * LIMIT})
    try:
        streams.bound(folder / "stderr", LIMIT)
    except OSError as error:
        pytest.skip(
            f"no holes can be made in files in {tmp_path} ({error.strerror}): set TMPDIR to another place"
        )
    left = (folder / "stderr").stat().st_blocks * 512

    assert OutputLimit(report).shorten(folder, LIMIT) == 2 * LIMIT + left

    assert all(
        (folder / name).stat().st_blocks * 512 <= LIMIT for name in run_folder.STREAMS
    )
    report.warn.assert_not_called()


def test_output_that_cannot_be_shortened_is_reported_once(
    tmp_path: Path, report: mock.Mock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Output that cannot be shortened is reported once, and the run continues: some file systems have no holes."""
    folder = run(tmp_path / "run", {"stdout": 2 * LIMIT, "stderr": 2 * LIMIT})
    monkeypatch.setattr(
        streams,
        "_punch",
        mock.Mock(side_effect=OSError(errno.EOPNOTSUPP, "no holes here")),
    )
    bounding = OutputLimit(report)

    bounding.shorten(folder, LIMIT)
    bounding.shorten(folder, LIMIT)

    (said,) = report.warn.call_args_list
    assert "output_limit" in said.args[0]
    assert "no holes here" in said.args[0]
