"""One state directory and the parts that work on it, put together in one place."""

from __future__ import annotations

from pathlib import Path

from heat_config_agent.deployments.metadata import Reader
from heat_config_agent.engine.announcer import Announcer
from heat_config_agent.engine.applier import Applier
from heat_config_agent.engine.report import Report
from heat_config_agent.model.run_settings import RunSettings
from heat_config_agent.runs.tools import Tools
from heat_config_agent.settings.effective import Settings
from heat_config_agent.signals.delivery import Delivery, Outgoing
from heat_config_agent.state.attempts import Attempts
from heat_config_agent.state.deployed import Deployed
from heat_config_agent.state.journal import Journal
from heat_config_agent.state.pruning import Pruning
from heat_config_hooks.values import dataclass


@dataclass(frozen=True)
class Workplace:
    """The parts that work on one state directory."""

    journal: Journal
    deployed: Deployed
    applier: Applier
    pruning: Pruning
    announcer: Announcer


def open_state(
    settings: Settings,
    outgoing: Outgoing,
    report: Report,
    *,
    run_settings: RunSettings | None = None,
    deployed: Path | None = None,
    patience: float | None = None,
    attempts: Attempts | None = None,
    reader: Reader | None = None,
) -> Workplace:
    """Open the journal of a state directory, whose lock the caller holds, and return the parts that work on it.

    `run_settings` and `deployed` are used in place of those in `settings`. `patience` is how many seconds results have
    to be delivered; None for no limit. Raises StateError.
    """
    run_settings = run_settings or settings.run_settings
    journal = Journal(run_settings.state)
    while journal.warnings:
        report.warn(journal.warnings.pop(0))
    folder = Deployed(deployed) if deployed else Deployed(settings.deployed, old=settings.deployed_old)
    announcer = Announcer(report, settings)
    applier = Applier(
        journal=journal,
        tools=Tools(settings.hooks, report.warn),
        deployed=folder,
        delivery=Delivery(outgoing, patience),
        run_settings=run_settings,
        report=announcer,
        attempts=attempts,
        reader=reader,
    )
    pruning = Pruning(journal, folder, run_settings.state, settings.limits, report)
    return Workplace(journal, folder, applier, pruning, announcer)
