"""Looking again at what is done: a thousand deployments, and nothing or one of them new."""

from __future__ import annotations

import contextlib
import itertools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bench import measure, peers, server, work
from bench.scenario import OURS, THEIRS, Figure, Goal, Sample, Scenario, Subject

KNOWN = 1000


def _ours(folder: Path, known: list[dict[str, Any]]) -> work.Ours:
    ours = work.Ours(folder)
    ours.write(known)
    ours.apply()
    return ours


def _theirs(folder: Path, deployments: list[dict[str, Any]]) -> peers.Image:
    """Return an image that has applied this: one really, the others by the marks that are left, as it takes long."""
    image = peers.Image(folder)
    image.write(deployments[:1])
    measure.run(image.heat_config, env=image.environment)
    first = json.loads((image.deployed / f"{deployments[0]['id']}.json").read_text())
    notified = (image.deployed / f"{deployments[0]['id']}.notify.json").read_text()
    assert first == deployments[0]
    for each in deployments[1:]:
        (image.deployed / f"{each['id']}.json").write_text(json.dumps(each, indent=2))
        (image.deployed / f"{each['id']}.notify.json").write_text(notified)
    image.write(deployments)
    return image


@contextlib.contextmanager
def _nothing_new(folder: Path) -> Iterator[list[Subject]]:
    """A pass without news over many deployments, and over a single one: the difference is the cost of each."""
    with server.running(folder / "documents") as heat:
        one, many = work.deployments(1, heat), work.deployments(KNOWN, heat)
        ours = _ours(folder / "ours1", one), _ours(folder / "ours", many)
        theirs = _theirs(folder / "image1", one), _theirs(folder / "image", many)

        def sample(less: measure.Took, more: measure.Took) -> Sample:
            return {
                **more.sample,
                "marginal": more.wall - less.wall,
                "marginal_cpu": more.cpu - less.cpu,
            }

        def by_ours() -> Sample:
            with heat.expecting(0):
                return sample(*(each.apply() for each in ours))

        def by_theirs() -> Sample:
            with heat.expecting(0):
                return sample(
                    *(
                        measure.run(each.heat_config, env=each.environment)
                        for each in theirs
                    )
                )

        collect = theirs[1].collect(["local"], "--force")
        (theirs[1].local / "document.json").write_text(ours[1].document.read_text())

        def by_all_of_theirs() -> Sample:
            theirs[1].list.unlink()
            with heat.expecting(0):
                took = measure.run(collect, env=theirs[1].environment)
            assert json.loads(theirs[1].list.read_text()) == many, (
                "os-apply-config has not written the deployments"
            )
            return took.sample

        yield [
            Subject(OURS, by_ours),
            Subject(THEIRS, by_theirs),
            Subject("os-collect-config --force", by_all_of_theirs, rounds=3),
        ]


@contextlib.contextmanager
def _one_new(folder: Path) -> Iterator[list[Subject]]:
    """Many that are known, and at every run another new one in the place of the one before."""
    with server.running(folder / "documents") as heat:
        known = work.deployments(KNOWN, heat)
        ours, image = _ours(folder / "ours", known), _theirs(folder / "image", known)
        numbers = itertools.count()

        def with_one_new() -> list[dict[str, Any]]:
            return [*known, *work.deployments(1, heat, mark=f"new{next(numbers)}")]

        def by_ours() -> Sample:
            ours.write(with_one_new())
            with heat.expecting(1):
                return ours.apply().sample

        def by_theirs() -> Sample:
            image.write(with_one_new())
            with heat.expecting(1):
                return measure.run(image.heat_config, env=image.environment).sample

        yield [Subject(OURS, by_ours), Subject(THEIRS, by_theirs)]


_FIGURES = (Figure("wall", "wall time", "s"), Figure("cpu", "processor time", "s"))
_DIFFERENCE = "The document is read and hashed; and a difference of two runs has the noise of both."
_THEIRS = "Theirs is 55-heat-config, with as many in its folder `deployed`."

SCENARIOS: tuple[Scenario, ...] = (
    Scenario(
        "re-scan",
        f"A document with {KNOWN} deployments, all of which are done, is applied again",
        (
            *_FIGURES,
            Figure("marginal", f"wall time for the {KNOWN}", "s"),
            Figure("marginal_cpu", f"processor time for the {KNOWN}", "s"),
        ),
        _nothing_new,
        (
            Goal(
                "wall", THEIRS, 1 / 5, "The start of Python is most of what both take."
            ),
            Goal("marginal", THEIRS, 1 / 5, _DIFFERENCE),
            Goal("marginal", "", 0.008, _DIFFERENCE),
        ),
        rounds=15,
        seconds=30,
        needs=peers.ready,
        note=(
            f"{_THEIRS} What the {KNOWN} take is the time less that with one deployment, done as well. "
            "`os-collect-config --force` is what is run when a document has changed: os-collect-config, "
            "os-refresh-config, os-apply-config and 55-heat-config."
        ),
    ),
    Scenario(
        "re-scan-new",
        f"A document with {KNOWN} deployments that are done and one that is new is applied, and its result signalled",
        _FIGURES,
        _one_new,
        (
            Goal(
                "wall",
                THEIRS,
                1 / 5,
                "Where one deployment is new, the whole document is parsed, checked and compared with the journal; and "
                "theirs looks at no more than whether a file is there.",
            ),
        ),
        rounds=15,
        seconds=30,
        needs=peers.ready,
        note=_THEIRS,
    ),
)
