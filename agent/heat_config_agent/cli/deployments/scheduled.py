"""The process of a verification on a schedule, which the daemon starts: it is not a command, so it loads little.

Its arguments are the interval, whether drift is repaired, the name of a followed source (empty for the agent itself),
and the options that select the settings. Standard input has documents by key, and standard output gets one JSON object.
"""

from __future__ import annotations

import gc
import json
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from heat_config_agent.model import signal_numbers
from heat_config_agent.model.errors import AgentError
from heat_config_agent.runs.tools import Tools
from heat_config_agent.settings import effective
from heat_config_agent.settings.effective import Settings
from heat_config_agent.state import asked, followed
from heat_config_agent.state.deployed import Deployed
from heat_config_agent.verification import scheduled
from heat_config_agent.verification.machine import Ground
from heat_config_agent.verification.scheduled import Outcome

TYPE_CHECKING = False  # as `typing` has it, which takes long to load

if TYPE_CHECKING:
    from typing import NoReturn

    from heat_config_agent.model.deployment import Deployment

_LARGEST = 1 << 30


def main() -> NoReturn:
    """Verify once, report the verdicts to the daemon, and end the process."""
    gc.disable()
    signal_numbers.handle(signal_numbers.SIGTERM, _end)
    interval, repairs, name, *options = sys.argv[1:]
    try:
        answer = _verified(float(interval), repairs == "yes", name, options)
    except AgentError as error:
        answer = {"trouble": f"the verification has failed: {error}"}
    os.write(1, json.dumps(answer).encode())
    os._exit(0)


def _end(*_: object) -> NoReturn:
    """End the commands of the verification, and the process."""
    raise SystemExit(143)


def _verified(
    interval: float, repairs: bool, name: str, options: Sequence[str]
) -> dict[str, object]:
    """Return the verdicts about deployments as JSON."""
    given = dict(zip(options[::2], options[1::2], strict=True))
    config = Path(given["--config"]) if "--config" in given else None
    state = Path(given["--state-dir"]) if "--state-dir" in given else None
    settings = effective.make(os.environ, config=config, state=state, mistakes=[])
    within = (
        effective.make(
            os.environ,
            config=config,
            state=followed.document(settings.state, name),
            mistakes=[],
        )
        if name
        else settings
    )
    if not within.state.is_dir():  # the source has no document
        return {}
    ground = Ground(
        settings=within.run_settings,
        deployed=Deployed(within.deployed, old=within.deployed_old),
        tools=Tools(within.hooks, _ignore),
        documents=_Handed(),
        parallel=int(settings.number("parallel")),
    )
    may_repair = repairs and not asked.paused(settings.state)
    outcome = scheduled.verify(ground, interval=interval, may_repair=may_repair)
    if name and outcome.repaired:
        _hand_on(settings, name, config, outcome)
    prefix = f"{name}/" if name else ""
    return {
        **outcome.numbers,
        "repairs": {
            each.entry.key: [each.entry.run_at, each.verified.verdict.reason]
            for each in outcome.repaired
        },
        "news": [
            {"key": key, "text": f"{prefix}{text}", "follows": name}
            for key, text in outcome.news
        ],
    }


def _ignore(_: str) -> None:
    """Drop a warning about hook directories, which the daemon gives itself."""


def _hand_on(
    settings: Settings, name: str, config: Path | None, outcome: Outcome
) -> None:
    """Have a followed document carried out again for its repairs, as `retry` does it."""
    from heat_config_agent.cli.deployments import named, requests  # noqa: PLC0415  # few sources are followed
    from heat_config_agent.state.requests import Wish  # noqa: PLC0415

    place = named.NamedPlace(
        kind="source", name=name, settings=settings, is_followed=True
    )
    drifts = {each.entry.key: each.verified.verdict.reason for each in outcome.repaired}
    members = [
        each for each in named.members(place, config) if each.entry.key in drifts
    ]
    requests.wish(settings, members, Wish.REPAIR, drifts)


class _Handed(dict[str, "Deployment"]):
    """The deployments on standard input by key, read when the first of them is looked up."""

    def __init__(self) -> None:
        super().__init__()
        self._documents: Mapping[str, Sequence[object]] | None = None

    def get(self, key: str, _default: object = None) -> Deployment | None:  # type: ignore[override]  # of one key
        if self._documents is None:
            self._documents = _read()
        if key not in self._documents:
            return None
        from heat_config_agent.deployments import metadata  # noqa: PLC0415  # few are handed on
        from heat_config_agent.model.deployment import Document  # noqa: PLC0415
        from heat_config_hooks.values import replace  # noqa: PLC0415

        source, document = self._documents[key]
        parsed = metadata.parse(Document(source=str(source), content=[document]))
        return replace(parsed.deployments[0], key=key)


def _read() -> Mapping[str, Sequence[object]]:
    content = b""
    while piece := os.read(0, _LARGEST):
        content += piece
    values = json.loads(content) if content else {}
    return values if isinstance(values, dict) else {}
