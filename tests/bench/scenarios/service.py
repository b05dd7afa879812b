"""Services of TOSCA: what checking them costs beside tosca-parser, and carrying them out beside deployments alone.

They are measured where they are named, as the others take all the time that there is.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import sys
from collections.abc import Iterator
from pathlib import Path

from bench import made, measure, peers, work
from bench.scenario import OURS, Figure, Goal, LackingError, Sample, Scenario, Subject
from bench.scenarios.stack import ALONE

PARSER = "tosca-parser"
AGAIN = "nothing changed"

_FIGURES = (
    Figure("wall", "wall time", "s"),
    Figure("cpu", "processor time", "s"),
    Figure("each", "processor time for each node", "s"),
    Figure("peak", "memory", "B"),
)

_PARSE = "import sys; from toscaparser.tosca_template import ToscaTemplate; ToscaTemplate(sys.argv[1])"

_COMMAND = Path(sys.executable).with_name("heat-config-agent")


def _sample(took: measure.Took, nodes: int) -> Sample:
    return {**took.sample, "each": took.cpu / nodes}


def _written(folder: Path, nodes: int) -> Path:
    path = folder / "service.yaml"
    path.write_text(made.service(nodes))
    (folder / "scripts").mkdir(exist_ok=True)
    (folder / "scripts/create.sh").write_text("#!/bin/bash\necho done\n")
    return path


@contextlib.contextmanager
def _validated(folder: Path, *, nodes: int) -> Iterator[list[Subject]]:
    path = _written(folder, nodes)
    parser = peers.parser()

    def ours() -> Sample:
        took = measure.run((_COMMAND, "template", "validate", "--json", path), env={})
        if took.code:
            raise LackingError(f"the template of {nodes} nodes is not valid")
        return _sample(took, nodes)

    def theirs() -> Sample:
        return _sample(measure.run((parser, "-c", _PARSE, path), env={}), nodes)

    yield [Subject(OURS, ours), Subject(PARSER, theirs)]


@contextlib.contextmanager
def _documents(folder: Path, *, number: int) -> Iterator[list[Subject]]:
    for name, text in made.documents(number).items():
        (folder / name).write_text(text)
    names = sorted(folder.glob("*.yaml"))

    def ours() -> Sample:
        return _sample(
            measure.run(
                (_COMMAND, "template", "validate", "--json", *names), env={}, codes=(1,)
            ),
            number,
        )

    yield [Subject(OURS, ours)]


@contextlib.contextmanager
def _created(folder: Path, *, nodes: int) -> Iterator[list[Subject]]:
    path = _written(folder, nodes)
    command = _COMMAND.with_name("heat-config-apply")
    numbers = itertools.count()
    last: list[work.Ours] = []

    def service() -> Sample:
        ours = work.Ours(folder / f"service{next(numbers)}")
        last[:] = [ours]
        return _sample(
            measure.run(
                (command, "--state-dir", ours.state, path), env=ours.environment
            ),
            nodes,
        )

    def again() -> Sample:
        return _sample(
            measure.run(
                (command, "--state-dir", last[0].state, path), env=last[0].environment
            ),
            nodes,
        )

    def alone() -> Sample:
        ours = work.Ours(folder / f"alone{next(numbers)}")
        ours.write(work.deployments(nodes - nodes // 10))
        return _sample(ours.apply(), nodes)

    yield [Subject(OURS, service), Subject(AGAIN, again), Subject(ALONE, alone)]


@contextlib.contextmanager
def _unchanged(folder: Path, *, nodes: int) -> Iterator[list[Subject]]:
    path = _written(folder, nodes)
    stack = work.Ours(folder / "service")
    apply = (_COMMAND.with_name("heat-config-apply"), "--state-dir", stack.state, path)
    if measure.run(apply, env=stack.environment).code:
        raise LackingError(f"the service of {nodes} nodes was not created")

    def again() -> Sample:
        read = measure.run((_COMMAND, "template", "validate", "--json", path), env={})
        took = measure.run(apply, env=stack.environment)
        return {**_sample(took, nodes), "above": took.wall - read.wall}

    yield [Subject(OURS, again)]


def _validation(
    nodes: int, *, seconds: float, goals: tuple[Goal, ...] = ()
) -> Scenario:
    return Scenario(
        f"service-validated-{nodes}",
        f"A service template of {nodes} nodes is checked",
        _FIGURES,
        functools.partial(_validated, nodes=nodes),
        goals,
        rounds=7,
        seconds=seconds,
        long=True,
        needs=peers.parser_ready,
    )


def _creation(nodes: int, *, seconds: float, goals: tuple[Goal, ...] = ()) -> Scenario:
    return Scenario(
        f"service-created-{nodes}",
        f"A service of {nodes} nodes, nine tenths of them with a script, is created on this machine, and applied again",
        _FIGURES,
        functools.partial(_created, nodes=nodes),
        goals,
        rounds=3,
        seconds=seconds,
        warm_up=False,
        long=True,
    )


_CHAIN = (
    "each node waits for the one before. There are two flushes for each, at the same time, and one for each deployment "
    "alone. The tool also lays out the files of each operation."
)

SCENARIOS: tuple[Scenario, ...] = (
    _validation(10, seconds=6),
    _validation(100, seconds=7),
    _validation(1000, seconds=14, goals=(Goal("cpu", PARSER, 0.5),)),
    Scenario(
        "service-documents",
        "4,500 small documents are checked in one call",
        _FIGURES,
        functools.partial(_documents, number=4500),
        (Goal("wall", "", 5.0),),
        rounds=3,
        seconds=16,
        warm_up=False,
        long=True,
    ),
    Scenario(
        "service-unchanged",
        "A service of 1,000 nodes that is there is applied again, beside only checking its template",
        (*_FIGURES, Figure("above", "wall time above checking the template", "s")),
        functools.partial(_unchanged, nodes=1000),
        (Goal("above", "", 1.0),),
        rounds=5,
        seconds=12,
        long=True,
    ),
    _creation(100, seconds=20),
    _creation(1000, seconds=200, goals=(Goal("wall", ALONE, 2.0, _CHAIN),)),
)
