"""Checks of the policy of the machine: its mistakes, and where its rules and the rest of the machine conflict."""

from __future__ import annotations

import contextlib
import os
import pwd
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import heat_config_hooks
from heat_config_agent.deployments import metadata
from heat_config_agent.deployments.plan import Known
from heat_config_agent.doctor import Finding, failed, ok, warning
from heat_config_agent.engine.survey import refusals
from heat_config_agent.model.deployment import Document
from heat_config_agent.model.entry import Entry
from heat_config_agent.model.errors import StateError
from heat_config_agent.model.policy import Policy
from heat_config_agent.runs.tools import Tools
from heat_config_agent.settings.effective import Settings
from heat_config_agent.settings.in_force import policy_in_force
from heat_config_agent.state import journal

_MOST = 5
"""The most deployments that are named."""


def check_policy(settings: Settings) -> Iterator[Finding]:
    """Check whether the policy of the machine can be used, if it has one, and whether the settings agree with it."""
    policy = policy_in_force()
    if policy is None:
        return
    if policy.mistake:
        yield failed(
            "policy",
            policy.mistake,
            "correct it as root: nothing new begins with this mistake",
        )
        return
    yield ok("policy", f"{policy.file} has the rules {', '.join(policy.lines)}")
    yield from _users(policy, settings.text("user"))
    yield from _hooks(policy, settings.hooks)
    yield from _unable(policy)
    yield from _settings(policy, settings)


def check_refused(
    settings: Settings, documents: Sequence[Document]
) -> Iterator[Finding]:
    """Check whether the policy refuses deployments in documents that have not been carried out yet."""
    policy = policy_in_force()
    if policy is None or policy.mistake:
        return
    entries: Mapping[str, Entry] = {}
    with contextlib.suppress(StateError):  # the check of the agent reports it
        entries = journal.read(settings.state)
    facts = Known(
        entries={},
        tools=Tools(settings.hooks).installed(),
        now=time.time(),
        defaults=settings.defaults,
    )
    new = [
        each
        for each in metadata.parse_all(documents)[0]
        if each.key not in entries or not entries[each.key].settled
    ]
    refused = list(refusals(new, facts, policy))
    for each in refused[:_MOST]:
        yield warning(
            "policy",
            f"{each.name} ({each.action or 'no action'}) is {each.sentence}",
            "change the policy or the deployment",
        )
    if len(refused) > _MOST:
        yield warning(
            "policy",
            f"{len(refused) - _MOST} more deployments are refused",
            "heat-config-agent policy explain",
        )


def _users(policy: Policy, usual: str) -> Iterator[Finding]:
    if policy.users is None:
        return
    who = usual or policy.own
    if not ({usual} if usual else {policy.own, "root"}).intersection(policy.users):
        problem = f"runs are those of {who} unless their deployments say otherwise; the rule users refuses that"
        yield warning(
            "policy", problem, "set user in the settings to a user of the rule"
        )
    for name in policy.users:
        try:
            pwd.getpwnam(name)
        except KeyError:
            yield warning(
                "policy",
                f"the rule users names {name!r}, and there is no such user",
                "create it, or correct it",
            )


def _hooks(policy: Policy, directories: Sequence[Path]) -> Iterator[Finding]:
    if policy.tools is None:
        return
    for tool in Tools(directories).installed().values():
        if not tool.builtin and tool.hook not in policy.tools:
            instead = (
                f", and takes the place of the built-in {tool.name}"
                if tool.name in policy.tools
                else ""
            )
            problem = f"the hook {tool.hook} is not in the rule tools{instead}: its deployments are refused"
            yield warning(
                "policy", problem, "add its path to the rule, or remove the file"
            )
    for path in (word for word in policy.tools if word.startswith("/")):
        if not os.access(path, os.X_OK):
            yield warning(
                "policy",
                f"the rule tools names {path}, which is not an executable file",
                "install or correct it",
            )
        elif Path(path).parent not in directories:
            problem = f"the rule tools names {path}, which is in no hook directory: nothing runs it"
            yield warning("policy", problem, "heat-config-agent config shows hooks_dir")
        elif place := _loose(path):
            problem = f"the rule tools names {path}, and others than root may write to {place}"
            yield warning(
                "policy", problem, f"chown root {place} and chmod go-w {place}"
            )


def _unable(policy: Policy) -> Iterator[Finding]:
    """Yield the built-in tools of the rule `tools` that other rules always refuse."""
    for name in policy.tools or ():
        if name.startswith("/") or heat_config_hooks.absent(name):
            continue
        able = heat_config_hooks.load(name).ABOUT.options
        if (
            policy.users is not None
            and "root" not in policy.users
            and "user" not in able
        ):
            yield warning(
                "policy",
                f"{name} always runs as root, which the rule users refuses",
                "change one of the rules",
            )
        if policy.isolate is not None and "isolate" not in able:
            yield warning(
                "policy",
                f"{name} cannot be isolated, so the rule isolate refuses it",
                "change one of the rules",
            )


def _loose(path: str) -> str:
    """Return the first part of a path that others than root may change; empty if there is none."""
    for place in (*reversed(Path(path).resolve().parents), Path(path).resolve()):
        status = place.stat()
        if status.st_uid != 0 or status.st_mode & 0o022:
            return str(place)
    return ""


def _settings(policy: Policy, settings: Settings) -> Iterator[Finding]:
    if policy.sources is not None:
        for name in settings.only:
            if not any(word.partition(":")[0] == name for word in policy.sources):
                problem = f"the setting collectors names {name}, whose deployments the rule sources refuses"
                yield warning(
                    "policy", problem, "remove it there, or add it to the rule"
                )
        if settings.followed and not any(
            word.partition(":")[0] in ("stack", "file") for word in policy.sources
        ):
            names = ", ".join(settings.followed)
            yield warning(
                "policy",
                f"the rule sources refuses the followed sources {names}",
                "add stack to the rule",
            )
    for name in settings.followed:
        url = str(settings.lookup(f"follow {name}", "url")[0] or "")
        if not url.startswith(("/", "file:")) and (sentence := policy.unreachable(url)):
            yield warning(
                "policy", f"[follow {name}] is {sentence}", "add the host to the rule"
            )
    for setting, subject in (("report_url", "events"), ("trace_url", "spans")):
        url = settings.text(setting)
        if url and (sentence := policy.unreachable(url)):
            yield warning(
                "policy",
                f"{subject} are {sentence}",
                f"add the host of {setting} to the rule",
            )
