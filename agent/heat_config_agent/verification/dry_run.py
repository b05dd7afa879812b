"""The dry run of a tool for a deployment that is about to run: what it would change on the machine."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path

from heat_config_agent.deployments import jobs
from heat_config_agent.model.deployment import Job
from heat_config_agent.model.run_settings import RunDefaults, RunSettings
from heat_config_agent.runs import verification
from heat_config_agent.verification import looking
from heat_config_hooks import verdict
from heat_config_hooks.errors import HookError
from heat_config_hooks.values import replace
from heat_config_hooks.verdict import Verdict


def verdicts(
    planned: Iterable[Job], settings: RunSettings, defaults: RunDefaults, parallel: int
) -> Mapping[str, Verdict]:
    """Return the verdict of the tool of each job that has a dry run, by the key of its deployment.

    The script of the option `verify` says whether something is in effect, which nothing is before the run: it is not
    asked. Nothing of a dry run stays behind.
    """
    able: list[Job] = []
    answers: dict[str, Verdict] = {}
    for job in planned:
        try:
            one = jobs.verification(job.deployment, job.tool, defaults)
        except HookError as error:
            answers[job.deployment.key] = verdict.unknown(str(error))
            continue
        one = one and replace(one, verify=None)
        if one is not None and verification.parts(one):
            able.append(one)
    if able:
        with tempfile.TemporaryDirectory(prefix="heat-config-plan-") as folder:
            aside = replace(settings, state=Path(folder))
            for job, answer in looking.verify(able, aside, parallel):
                answers[job.deployment.key] = answer
    return answers
