"""`--plan --diff`: what differs from what has run before, and what the tools say that they would do."""

from __future__ import annotations

from typing import Any

import pytest

from support.commands import SH
from support.machine import Done, Machine

SECRET = "correct-horse-battery"


def web(**fields: Any) -> dict[str, Any]:
    """Return a deployment without an id, whose next edition is a deployment of its own."""
    return {
        "name": "web",
        "group": "script",
        "config": f"{SH}echo one\necho two\n",
        "inputs": [
            {"name": "port", "value": 80},
            {"name": "db_password", "value": SECRET},
        ],
        "options": {"timeout": 30},
        **fields,
    }


def planned(machine: Machine, *content: dict[str, Any]) -> Done:
    """Return the plan with differences."""
    return machine.apply({"deployments": list(content)}, "--plan", "--diff")


def applied(machine: Machine, *content: dict[str, Any]) -> None:
    """Carry deployments out."""
    done = machine.apply({"deployments": list(content)})
    assert done.code == 0, done.err


def compared(machine: Machine, *content: dict[str, Any]) -> Any:
    """Return the differences of the only step as JSON."""
    given = {"deployments": list(content)}
    done = machine.apply(given, "--plan", "--diff", "--json")
    (change,) = done.data["changes"]
    return change["compared"]


def test_values_are_shown_old_and_new(machine: Machine) -> None:
    """Short values stand in one line, and texts of several lines are a unified diff."""
    applied(machine, web())

    done = planned(
        machine,
        web(
            config=f"{SH}echo one\necho three\n",
            inputs=[{"name": "port", "value": 8080}, {"name": "user", "value": "www"}],
            options={"timeout": 60},
            outputs=[{"name": "url"}],
        ),
    )

    assert done.code == 0
    assert [line.rstrip() for line in done.out.splitlines()[3:-2]] == [
        "web",
        "  input port: 80 -> 8080",
        "  input db_password: changed",
        "  input user: (none) -> www",
        "  option timeout: 30 -> 60",
        '  outputs: "" -> url',
        "  config:",
        "    @@ -1,3 +1,3 @@",
        "     #!/bin/sh",
        "     echo one",
        "    -echo two",
        "    +echo three",
    ]
    assert (machine.state / "runs").exists()


def test_same_facts_are_in_the_json(machine: Machine) -> None:
    """A value that is removed has null in its place, and says so."""
    applied(machine, web())

    found = compared(
        machine, web(inputs=[{"name": "db_password", "value": f"{SECRET}2"}])
    )

    assert found["with"].startswith("web-")
    assert found["differences"] == [
        {
            "path": "input port",
            "old": 80,
            "new": None,
            "added": False,
            "removed": True,
            "secret": False,
        },
        {
            "path": "input db_password",
            "old": None,
            "new": None,
            "added": False,
            "removed": False,
            "secret": True,
        },
    ]
    assert found["note"] is None
    assert found["would"] is None


def test_secret_is_masked_on_both_sides(machine: Machine) -> None:
    """A config that a template has put a secret into differs, and does not tell it."""
    other = f"{SECRET}-two"
    applied(machine, web(config=f"{SH}echo {SECRET}\n"))

    text = planned(
        machine,
        web(
            config=f"{SH}echo {other}\necho more\n",
            inputs=[
                {"name": "port", "value": 80},
                {"name": "db_password", "value": other},
            ],
            options={"timeout": 30},
        ),
    ).out

    assert SECRET not in text
    assert "input db_password: changed" in text
    assert "+echo more" in text


def test_secret_alone_in_a_config_says_only_changed(machine: Machine) -> None:
    """Both sides look the same once they are masked."""
    other = "staple-battery-horse"
    applied(machine, web(config=f"{SH}echo {SECRET}\n"))

    text = planned(
        machine,
        web(
            config=f"{SH}echo {other}\n",
            inputs=[
                {"name": "port", "value": 80},
                {"name": "db_password", "value": other},
            ],
        ),
    ).out

    assert SECRET not in text
    assert other not in text
    assert "  config: changed" in text


def test_new_deployment_is_compared_with_nothing(machine: Machine) -> None:
    """Nothing of it has run, and its tool has no dry run."""
    found = compared(machine, web())

    assert found == {"with": None, "differences": [], "note": None, "would": None}
    assert not (machine.state / "verifications").exists()


def test_pruned_deployment_is_compared_with_nothing(machine: Machine) -> None:
    """What it has had is not known any more, and the plan says that."""
    applied(machine, web())
    settings = machine.folder / "agent.conf"
    settings.write_text("[agent]\nkeep_secrets = 0\n")
    assert machine.agent("prune", "--config", str(settings)).code == 0

    found = compared(machine, web(options={"timeout": 60}))

    assert found["differences"] == []
    assert found["note"].startswith("the earlier inputs are not kept")


def test_edited_deployment_with_its_old_id_is_shown_too(machine: Machine) -> None:
    """It is not run, and what differs tells why that may not be meant."""
    given = {**web(), "id": "d1"}
    applied(machine, given)

    text = planned(machine, {**given, "options": {"timeout": 90}}).out

    assert "not its id" in text
    assert "  option timeout: 30 -> 90" in text


def test_tool_says_what_it_would_do(machine: Machine) -> None:
    """A file that is not there yet would be made; nothing of that happens, and nothing stays in the state directory."""
    path = machine.folder / "x.json"
    given = {"name": "file", "group": "json-file", "config": {str(path): {"a": 1}}}

    text = planned(machine, given).out

    assert f"json-file would change {path}: " in text
    assert not path.exists()
    assert not machine.state.exists()

    applied(machine, given)
    given["config"] = {str(path): {"a": 2}}
    found = compared(machine, given)
    assert found["differences"][0]["path"].startswith("config")
    assert found["would"]["state"] == "drifted"
    assert found["would"]["changes"][0]["what"] == str(path)


def test_escape_sequences_are_made_harmless(machine: Machine) -> None:
    """A value of a document does not reach the terminal as it is."""
    applied(machine, web(options={"timeout": 30, "artifacts": []}))

    text = planned(
        machine,
        web(
            config=f"{SH}echo one\necho \x1b[2Jtwo\n",
            inputs=[{"name": "port", "value": "\x1b]0;x\x07"}],
        ),
    ).out

    assert "\x1b" not in text
    assert "\x07" not in text


def test_colours_are_for_terminals(machine: Machine) -> None:
    """Old is red, and new is green, as in diff."""
    applied(machine, web())
    given = {"deployments": [web(config=f"{SH}echo one\necho three\n")]}

    plain = machine.apply(given, "--plan", "--diff").out
    forced = machine.apply(given, "--plan", "--diff", CLICOLOR_FORCE="1").out

    assert "\x1b" not in plain
    assert "\x1b[31m-echo two\x1b[0m" in forced
    assert "\x1b[32m+echo three\x1b[0m" in forced


@pytest.mark.parametrize("words", [["--diff"], ["--diff", "--json"]])
def test_differences_are_for_plans(machine: Machine, words: list[str]) -> None:
    """Without --plan, nothing is carried out by mistake."""
    done = machine.apply({"deployments": [web()]}, *words)

    assert done.code == 2
    assert "--diff is for plans" in done.err + done.out
    assert not machine.state.exists()
