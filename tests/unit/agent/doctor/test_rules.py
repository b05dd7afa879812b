"""The rules of a policy, and what conflicts with them on a machine."""

from __future__ import annotations

import os
import pwd
from pathlib import Path

import pytest

from heat_config_agent.doctor import Verdict, rules
from heat_config_agent.model.deployment import Document
from heat_config_agent.settings import effective, policy
from support.machine import deployment

OWN = pwd.getpwuid(os.geteuid()).pw_name
"""The user of this run."""


@pytest.fixture
def hooks(tmp_path: Path) -> Path:
    """A hook directory with two hooks, one of which has the name of a built-in one."""
    folder = tmp_path / "hooks"
    folder.mkdir()
    for name in ("script", "own"):
        (folder / name).write_text("#!/bin/sh\n")
        (folder / name).chmod(0o755)
    return folder


def settings(folder: Path, text: str = "") -> effective.Settings:
    """Return the settings of a file with this text."""
    path = folder / "agent.conf"
    path.write_text(f"[agent]\nstate_dir = {folder}/state\n{text}")
    return effective.make({}, config=path)


@pytest.mark.parametrize(
    ("rule", "text", "says"),
    [
        (
            "users = daemon",
            "",
            [
                f"runs are those of {OWN} unless their deployments say otherwise; the rule users"
            ],
        ),
        (
            "users = root",
            "user = nobody\n",
            ["runs are those of nobody unless their deployments say otherwise"],
        ),
        ("users = nobody", "user = nobody\n", []),
        (
            "users = root, no-such-user",
            "",
            ["the rule users names 'no-such-user', and there is no such user"],
        ),
        (
            "sources = heat",
            "collectors = heat, cfn\n",
            ["the setting collectors names cfn, whose deployments the rule"],
        ),
        ("sources = heat, file:/a", "collectors = heat\n", []),
        (
            "sources = heat",
            "[follow web]\nurl = /a\n",
            ["the rule sources refuses the followed sources web"],
        ),
        ("sources = stack", "[follow web]\nurl = /a\n", []),
        (
            "network = a.example",
            "[follow web]\nurl = https://b.example/a.git\n",
            ["[follow web] is refused by the rule"],
        ),
        ("network = a.example", "[follow web]\nurl = /a\n", []),
        (
            "network = a.example",
            "report_url = https://b.example/\n",
            ["events are refused by the rule network of /p"],
        ),
        (
            "network = a.example",
            "trace_url = https://b.example/\n",
            ["spans are refused by the rule network of /p"],
        ),
        ("tools = script", "", []),
        (
            "tools = script, tosca\nusers = nobody",
            "user = nobody\n",
            ["tosca always runs as root, which the rule users"],
        ),
        (
            "tools = json-file, chef\nisolate = network",
            "",
            ["json-file cannot be isolated, so the rule isolate"],
        ),
        (
            "tools = /no/hook",
            "",
            ["the rule tools names /no/hook, which is not an executable file"],
        ),
        (
            "tools = /bin/sh",
            "",
            ["the rule tools names /bin/sh, which is in no hook directory"],
        ),
    ],
)
def test_a_conflict_is_named(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    rule: str,
    text: str,
    says: list[str],
) -> None:
    """Each setting that a rule refuses is a warning, and nothing else is."""
    monkeypatch.setattr(
        rules, "policy_in_force", lambda: policy.parse("/p", f"[policy]\n{rule}\n")
    )
    first, *found = rules.check_policy(settings(tmp_path, text))
    assert first.verdict is Verdict.OK
    assert first.text.startswith(f"/p has the rules {rule.partition(' ')[0]}")
    assert all(each.verdict is Verdict.WARNING and each.todo for each in found)
    assert len(found) == len(says)
    assert all(
        each.text.startswith(said) for each, said in zip(found, says, strict=True)
    )


def test_hooks_that_are_not_allowed_are_named(
    tmp_path: Path, hooks: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So are those that others than root may change: their content is not checked."""

    def found(tools: str) -> list[str]:
        monkeypatch.setattr(
            rules,
            "policy_in_force",
            lambda: policy.parse("/p", f"[policy]\ntools = {tools}\n"),
        )
        return [
            each.text
            for each in rules.check_policy(settings(tmp_path, f"hooks_dir = {hooks}\n"))
        ][1:]

    refused = "its deployments are refused"
    assert found("ansible, script") == [
        f"the hook {hooks}/own is not in the rule tools: {refused}",
        f"the hook {hooks}/script is not in the rule tools, and takes the place of the built-in script: {refused}",
    ]
    assert found(f"{hooks}/own {hooks}/script") == [
        f"the rule tools names {hooks}/{name}, and others than root may write to {_first_loose(hooks / name)}"
        for name in ("own", "script")
    ]


def _first_loose(path: Path) -> Path:
    places = (*reversed(path.resolve().parents), path)
    return next(
        each for each in places if each.stat().st_uid or each.stat().st_mode & 0o022
    )


def test_deployments_that_are_refused_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first ones by name, and the others by their number."""
    monkeypatch.setattr(
        rules,
        "policy_in_force",
        lambda: policy.parse("/p", "[policy]\ntools = python\n"),
    )
    given = [
        *(deployment(f"d{number}") for number in range(7)),
        deployment("good", group="python"),
    ]
    found = list(
        rules.check_refused(
            settings(tmp_path), [Document(source="local", content=given)]
        )
    )
    assert [each.text for each in found] == [
        *(
            f"d{number} (CREATE) is refused by the rule tools of /p: the tool 'script' is not in it"
            for number in range(5)
        ),
        "2 more deployments are refused",
    ]
    assert not os.path.lexists(tmp_path / "state")
