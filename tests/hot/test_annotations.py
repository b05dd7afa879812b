"""`heat-config-agent template validate --format`: what continuous integration takes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from heat_config_stack.cli.annotations import RULES, github, sarif
from hot.made import VERSION
from hot.test_template_command import validate
from support import pace
from support.machine import Machine

ROOT = Path(__file__).parents[2]

WRONG = (
    VERSION
    + "resources:\n  a,b%: {type: OS::Heat::Value, properties: {value: {get_param: none}}}\n"
)


def test_mistakes_of_several_files_are_github_commands(machine: Machine) -> None:
    """Each mistake is a command with its file and line, and a file without mistakes has none."""
    for name, text in {
        "wrong.yaml": WRONG,
        "good.yaml": f"{VERSION}resources: {{}}\n",
    }.items():
        (machine.folder / name).write_text(text)
    files = [str(machine.folder / name) for name in ("good.yaml", "wrong.yaml")]
    [mistake] = json.loads(validate(machine, "--format", "json", files[1]).out)[
        "mistakes"
    ]
    done = validate(machine, "--format", "github", *files)
    assert (done.code, done.err) == (1, "")
    [line] = done.out.splitlines()
    place, _, text = line.removeprefix("::error ").partition("::")
    assert (
        f"file={files[1]},line={mistake['line']},col={mistake['column']},title={mistake['stage']}"
        == place
    )
    assert text.startswith("resources.")
    assert "a,b%25" in text
    assert mistake["problem"] in text.replace("%25", "%")


def test_a_sarif_log_has_a_result_for_each_mistake(machine: Machine) -> None:
    """A SARIF log has a result for each mistake and each warning, at its level; without any it is empty."""
    path = machine.folder / "with blank.yaml"
    path.write_text(WRONG)
    done = validate(machine, "--format", "sarif", str(path))
    assert (done.code, done.err) == (1, "")
    log = json.loads(done.out)
    [run] = log["runs"]
    [result] = run["results"]
    assert (log["version"], result["level"]) == ("2.1.0", "error")
    assert result["ruleId"] in {rule["id"] for rule in run["tool"]["driver"]["rules"]}
    place = result["locations"][0]["physicalLocation"]
    assert place["artifactLocation"]["uri"] == "with%20blank.yaml"
    assert run["invocations"] == [{"executionSuccessful": True}]
    assert place["region"]["startLine"] > 1
    path.write_text(f"{VERSION}resources: {{}}\n")
    done = validate(machine, "--format", "sarif", str(path))
    assert (done.code, json.loads(done.out)["runs"][0]["results"]) == (0, [])


@pytest.mark.parametrize("several", [False, True])
def test_a_file_that_cannot_be_read_is_a_result_too(
    machine: Machine, *, several: bool
) -> None:
    """The log says that not all was looked at, and the exit code is 2, with one file and with several."""
    (machine.folder / "good.yaml").write_text(f"{VERSION}resources: {{}}\n")
    names = ["none.yaml", *(["good.yaml"] if several else [])]
    done = validate(machine, "--format", "sarif", *names)
    assert (done.code, "none.yaml" in done.err) == (2, True)
    [run] = json.loads(done.out)["runs"]
    assert run["invocations"] == [{"executionSuccessful": False}]
    [result] = run["results"]
    assert (
        result["ruleId"]
        == run["tool"]["driver"]["rules"][result["ruleIndex"]]["id"]
        == "file"
    )
    assert result["locations"][0]["physicalLocation"] == {
        "artifactLocation": {"uri": "none.yaml"}
    }
    done = validate(machine, "--format", "github", *names)
    assert (done.code, done.out.startswith("::error file=none.yaml,title=file::")) == (
        2,
        True,
    )


def test_wrong_usage_prints_no_result(machine: Machine) -> None:
    """Nothing is printed where nothing was looked at."""
    for words in ([], ["--parameter", "=x", "good.yaml"]):
        (machine.folder / "good.yaml").write_text(f"{VERSION}resources: {{}}\n")
        done = validate(machine, "--format", "sarif", *words)
        assert (done.code, done.out) == (2, "")


def test_each_rule_says_what_it_demands(machine: Machine) -> None:
    """A rule of HOT is one of those that docs/templates.md lists, and has a sentence of its own."""
    page = (ROOT / "docs/templates.md").read_text("utf-8")
    for rule in RULES:
        assert f"| `{rule}` |" in page
    (machine.folder / "wrong.yaml").write_text(WRONG)
    [run] = json.loads(validate(machine, "--format", "sarif", "wrong.yaml").out)["runs"]
    [rule] = run["tool"]["driver"]["rules"]
    assert rule["shortDescription"]["text"] == RULES[rule["id"]]


def test_a_file_elsewhere_has_a_uri_of_its_own() -> None:
    """With a scheme; a name with a colon, or with bytes that are not UTF-8, is escaped."""
    for name, uri in {
        "/x/a b.yaml": "file:///x/a%20b.yaml",
        "c:d.yaml": "c%3Ad.yaml",
        "\udcff.yaml": "%FF.yaml",
    }.items():
        found = [{"file": name, "mistakes": [{"problem": "one"}], "warnings": []}]
        [result] = sarif(found)["runs"][0]["results"]
        assert (
            result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] == uri
        )


def test_warning_is_not_shown_as_an_error() -> None:
    """A warning is shown as a warning, and one without a position is shown for its file."""
    found = [
        {
            "file": "a.yaml",
            "mistakes": [],
            "warnings": [{"problem": "one\ntwo", "code": "x:y"}],
        }
    ]
    assert github(found) == ["::warning file=a.yaml,title=x%3Ay::one%0Atwo"]
    [result] = sarif(found)["runs"][0]["results"]
    assert (
        result["level"],
        "region" in result["locations"][0]["physicalLocation"],
    ) == ("warning", False)


def test_the_hook_of_pre_commit_runs_the_command(machine: Machine) -> None:
    """The hook's words are those of a command that exists, followed by the files."""
    [hook] = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())
    program, *words = hook["entry"].split()
    path = machine.folder / "wrong.yaml"
    path.write_text(WRONG)
    process = machine.start(program, *words, str(path))
    _, err = process.communicate(timeout=pace.seconds(60))
    assert (process.returncode, "1 mistake" in err) == (1, True)
