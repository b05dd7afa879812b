from __future__ import annotations

import os
from pathlib import Path

import pytest

from heat_config_agent.deployments import metadata
from heat_config_agent.model.deployment import Config, Document, Job, Tool
from heat_config_agent.settings import in_force, policy
from support.machine import deployment

NOBODY = 65534


@pytest.mark.skipif(
    os.geteuid() != 0, reason="only root can become another user: run the tests as root"
)
def test_a_folder_that_may_not_be_entered_does_not_count_as_empty(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A user who cannot see whether there is a policy begins nothing."""
    folder = tmp_path / "closed"
    folder.mkdir(mode=0o700)
    monkeypatch.setattr(in_force, "POLICY", str(folder / "policy"))
    assert in_force.policy_in_force() is None
    os.seteuid(NOBODY)
    try:
        found = in_force.policy_in_force()
    finally:
        os.seteuid(0)
    assert found is not None
    assert found.mistake == f"cannot use the policy {folder}/policy: Permission denied"


def test_the_rules_of_a_policy_may_go_on_in_further_lines() -> None:
    """Words are separated by commas or by spaces, and comments do not count."""
    found = policy.parse(
        "/p",
        "# who\n[policy]\ntools = script,\n  ansible /opt/hooks/x\nmax_timeout = 90\n",
    )
    assert found.tools == ("script", "ansible", "/opt/hooks/x")
    assert found.max_timeout == 90.0
    assert (found.sources, found.actions, found.mistake) == (None, None, "")


@pytest.mark.parametrize("page", ["policy", "secrets"])
def test_the_policies_in_the_documentation_have_no_mistake(
    page: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each block with a section is a whole policy; the file of the signers is not on this machine."""
    monkeypatch.setattr(policy, "_signers", str)
    text = (Path(__file__).parents[4] / f"docs/{page}.md").read_text()
    blocks = [each.partition("```")[0] for each in text.split("```ini\n")[1:]]
    given = [each for each in blocks if each.startswith("[policy]")]
    assert given
    assert all(policy.parse("/p", each).lines for each in given)


@pytest.mark.parametrize(
    ("usual", "longest", "limit"),
    [(None, 60.0, 60.0), (90.0, 60.0, 60.0), (30.0, 60.0, 30.0)],
)
def test_the_usual_timeout_is_no_longer_than_the_policy_allows(
    usual: float | None, longest: float, limit: float
) -> None:
    """The default timeout is within the policy, also where no timeout is the default."""
    assert (
        policy.parse("/p", f"[policy]\nmax_timeout = {longest:g}\n").limit(usual)
        == limit
    )


@pytest.mark.parametrize(
    ("rule", "why"),
    [
        ("users = nobody # not root", "users: put the comment on a line of its own"),
        ("users = nobody ;root", "users: put the comment on a line of its own"),
        ("actions = CREATE\n  max_timeout = 60", "actions: a rule begins its line"),
        ("actions = CREATE\n  max_timeout=60", "actions: a rule begins its line"),
        ("isolate = network\n  users = nobody", "isolate: a rule begins its line"),
        (
            "secrets = file*",
            "secrets: expected SCHEME, SCHEME:REFERENCE or SCHEME:BEGINNING[*], not 'file[*]'",
        ),
        ("secrets = *", "secrets: expected SCHEME"),
        ("secrets = file:*/db", "secrets: expected SCHEME"),
        ("secrets = none, env:X", "secrets: none stands alone"),
        ("network = none, a.example", "network: none stands alone"),
        (
            "sources = file:site.json",
            "sources: expected one of heat, .* or file: with a full path, not 'file:site.json'",
        ),
        ("sources = cfn:web", "sources: expected one of heat"),
        ("max_timeout = inf", "max_timeout: expected a number of seconds, more than 0"),
        ("max_timeout = nan", "max_timeout: expected a number of seconds, more than 0"),
        ("max_timeout = -1", "max_timeout: expected a number of seconds, more than 0"),
        (
            "max_timeout = 60 # a minute",
            "max_timeout: expected a number of seconds, more than 0",
        ),
        ("tools: script", "line 2: expected a section"),
        ("tools = script\n\n  ansible", "line 4: expected a section"),
        ("tools = 'script'", "tools: .* is not a built-in hook"),
        ("tools = ./hooks/script", "tools: './hooks/script' is not a built-in hook"),
    ],
)
def test_a_rule_that_its_author_cannot_mean_is_a_mistake(rule: str, why: str) -> None:
    """A comment that counts as words, or a rule that continues the one before it, would allow what it forbids."""
    with pytest.raises(ValueError, match=f"^{why}"):
        policy.parse("/p", f"[policy]\n{rule}\n")


@pytest.mark.skipif(
    os.geteuid() != 0, reason="only root can become another user: run the tests as root"
)
@pytest.mark.parametrize(
    ("users", "agent", "refused"),
    [
        ("root", 0, ""),
        ("nobody", 0, "the user 'root' is not in it"),
        ("root", NOBODY, ""),
        ("nobody", NOBODY, ""),
        ("daemon", NOBODY, "the user 'nobody' is not in it"),
    ],
)
def test_run_without_a_user_counts_as_the_agents_user(
    users: str, agent: int, refused: str
) -> None:
    """The rule allows such runs by the word root, or by the name of the agent's user."""
    os.seteuid(agent)
    try:
        found = policy.parse("/p", f"[policy]\nusers = {users}\n")
    finally:
        os.seteuid(0)
    (given,) = metadata.parse(
        Document(source="file:/a", content=[deployment("d1")])
    ).deployments
    config = Config(tool="script", config="")
    sentence = found.refusal(
        Job(
            deployment=given,
            config=config,
            tool=Tool("script", "builtin:script"),
            request={},
        )
    )
    assert sentence == (
        f"refused by the rule users of /p: {refused}" if refused else ""
    )
