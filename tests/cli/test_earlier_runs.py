"""The output of earlier runs: `log --run N`, and its list in `show`."""

from __future__ import annotations

import json
import re
from pathlib import Path
from unittest import mock

import pytest

from heat_config_agent.model.entry import Entry
from heat_config_agent.runs import earlier, run_folder
from heat_config_agent.state import journal
from heat_config_hooks import files
from support.commands import SH
from support.machine import Machine, deployment
from support.planted import HIDDEN

SECRET = "violet-Harbour-7731"
"""The secret that a deployment has in its first revision only."""

PRINTS = f'{SH}echo "the token is $token" | tee /dev/stderr; exit ${{code:-0}}\n'


def secret(value: str, code: str = "0") -> list[dict[str, object]]:
    """Return the inputs of a deployment, among them a hidden token."""
    return [
        {"name": "token", "value": value, "hidden": True},
        {"name": "code", "value": code},
    ]


def repeat(machine: Machine, document: list[dict[str, object]]) -> None:
    """Ask for another run of d1, and carry out a document."""
    assert machine.agent("retry", "d1").code == 0
    machine.apply(document)


def everything_below(folder: Path) -> bytes:
    """Return the contents of all files below a folder."""
    return b"".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())


def test_output_of_an_earlier_run_is_printed(machine: Machine) -> None:
    """A deployment that failed and was repeated has both outputs, and `log` says how to see the first."""
    machine.apply([deployment(config=f"{SH}echo first; echo why >&2; exit 3\n")])
    repeat(machine, [deployment(config=f"{SH}echo second\n")])

    newest, oldest, before = (
        machine.agent("log", "d1", *more)
        for more in ((), ("--run", "1"), ("--run", "-1"))
    )

    assert (newest.code, newest.out) == (0, "second\n")
    assert re.fullmatch(
        r"1 earlier run, the last one CREATE, failed: `heat-config-agent log d1 --run 1 .*` prints its output\n",
        newest.err,
    )
    assert (oldest.code, oldest.out) == (before.code, before.out) == (0, "first\n")
    assert re.fullmatch(
        r"run 1 of 2, [-\dT:.]+Z: CREATE, failed: exit code 3: why\nwhy\n", oldest.err
    )


def test_output_of_the_last_failed_run_is_printed(machine: Machine) -> None:
    """Later runs that have not failed do not count; the reason of the failure goes to standard error."""
    machine.apply([deployment(config=f"{SH}echo first; exit 3\n")])
    done = machine.agent("log", "--failed", "d1")
    assert (done.code, done.out) == (0, "first\n")
    repeat(machine, [deployment(config=f"{SH}echo second; exit 4\n")])
    repeat(machine, [deployment(config=f"{SH}echo third\n")])

    done = machine.agent("log", "--failed", "d1")
    assert (done.code, done.out) == (0, "second\n")
    assert re.match(r"run 2 of 3, .*: CREATE, failed: exit code 4", done.err)
    [run] = machine.agent("log", "--failed", "d1", "--json").data["runs"]
    assert (run["run"], run["state"], run["stdout"]) == (2, "failed", "second\n")
    assert machine.agent("log", "--failed", "--run", "1", "d1").code == 2
    assert machine.agent("log", "--failed", "--follow", "d1").code == 2


def test_failed_runs_of_a_source_have_their_names(machine: Machine) -> None:
    """Each line stands after the name of its deployment, and those that have not failed are left out."""
    machine.apply([deployment("d1"), deployment("d2")])
    source = f"file:{machine.folder}/document.json"
    done = machine.agent("log", "--failed", source)
    assert (done.code, done.out) == (1, "")
    assert f"the output of no failed run of {source} is kept" in done.err
    script = f"{SH}echo why; exit 3\n"
    machine.apply([deployment("d1"), deployment("d3", script, name="web")])
    done = machine.agent("log", "--failed", source)
    assert (done.code, done.out) == (0, "web  | why\n")


def test_runs_are_listed(machine: Machine) -> None:
    """`show` lists the runs whose output is kept, and `--json` has them as a list."""
    machine.apply([deployment(config=f"{SH}exit 3\n")])
    assert "runs (" not in machine.agent("show", "d1").out
    repeat(machine, [deployment()])

    shown, listed = (
        machine.agent("show", "d1").out,
        machine.agent("show", "d1", "--json").data["runs"],
    )

    rows = shown.partition("runs (`heat-config-agent log d1 --run N")[2].splitlines()[
        1:
    ]
    assert [row.split()[:3] for row in rows] == [
        ["RUN", "STATE", "ACTION"],
        ["1", "failed", "CREATE"],
        ["2", "ok", "CREATE"],
    ]
    assert [(each["run"], each["state"], each["reason"]) for each in listed] == [
        (1, "failed", "exit code 3"),
        (2, "ok", ""),
    ]
    assert listed[0]["ended"] <= listed[1]["started"]


@pytest.mark.parametrize("number", ["3", "-2", "9999999999999999999999", "x"])
def test_run_that_is_not_kept_is_refused(machine: Machine, number: str) -> None:
    """A number that no kept run has is an error that says how many there are."""
    machine.apply([deployment()])
    repeat(machine, [deployment()])

    done = machine.agent("log", "d1", "--run", number)

    if number == "x":
        assert (done.code, done.out) == (2, "")
        assert "'x' is not the number of a run, such as 1 or -1" in done.err
    else:
        assert (done.code, done.out) == (8, "")
        assert (
            f"there is no run {number} of d1: the output of 2 runs is kept" in done.err
        )


@pytest.mark.fault(
    4,
    "a secret leaves the inputs before a retry",
    "the earlier run's output has it masked on disk",
)
@pytest.mark.parametrize("then", ["another secret", "no secret", "another tool"])
def test_secret_that_has_left_the_inputs_stays_masked(
    machine: Machine, then: str
) -> None:
    """The output of the earlier run has a secret that the present document does not have: it is masked all the same."""
    machine.apply([deployment(config=PRINTS, inputs=secret(SECRET, code="1"))])
    assert SECRET.encode() in everything_below(machine.state / "runs")
    changed = {
        "another secret": deployment(
            config=PRINTS, inputs=secret("copper-Lantern-2210")
        ),
        "no secret": deployment(config=f"{SH}echo no token\n"),
        "another tool": deployment(group="no-such-tool", config="x"),
    }[then]
    repeat(machine, [changed])

    printed = [machine.agent("log", "d1", *more) for more in ((), ("--run", "1"))]

    assert printed[1].out == f"the token is {'*' * len(SECRET)}\n"
    assert printed[1].err.endswith(f"the token is {'*' * len(SECRET)}\n")
    assert SECRET.encode() not in everything_below(machine.state / "runs")
    assert all(
        SECRET not in each.out + each.err
        for each in (*printed, machine.agent("show", "d1", "--json"))
    )


def test_output_is_masked_before_the_next_document_counts(machine: Machine) -> None:
    """A deployment that was repeated, and then not run, has no output, and `log` does not show the old one for it."""
    machine.apply([deployment(config=PRINTS, inputs=secret(SECRET))])
    repeat(machine, [deployment(group="no-such-tool", config="x")])

    done = machine.agent("log", "d1")

    assert (done.code, done.out) == (1, "")
    assert "there is no output of d1: nothing was run for it" in done.err
    assert "lists earlier runs, whose output is kept" in done.err


def test_attempts_of_a_retried_command_are_kept(machine: Machine) -> None:
    """Attempts that the option `retry` asks for are runs as well, and each keeps its reason."""
    script = f"{SH}echo attempt ${{HEAT_ATTEMPT:-1}}; [ ${{HEAT_ATTEMPT:-1}} = 3 ] || exit 100\n"
    options = {"retry": {"codes": [100], "times": 2, "delay": 0.01}}
    machine.apply([deployment(config=script, options=options)])

    assert [machine.agent("log", "d1", "--run", str(n)).out for n in (1, 2, 3)] == [
        f"attempt {n}\n" for n in (1, 2, 3)
    ]
    assert [
        each["state"] for each in machine.agent("show", "d1", "--json").data["runs"]
    ] == ["failed", "failed", "ok"]


@pytest.mark.slow
def test_no_more_than_ten_earlier_runs_are_kept(machine: Machine) -> None:
    """The oldest goes first, and the others are numbered from 1."""
    script = f"{SH}echo attempt ${{HEAT_ATTEMPT:-1}}; exit 100\n"
    options = {"retry": {"codes": [100], "times": earlier.KEPT + 2, "delay": 0.01}}
    machine.apply([deployment(config=script, options=options)])

    runs = machine.agent("show", "d1", "--json").data["runs"]

    assert [each["run"] for each in runs] == list(range(1, earlier.KEPT + 2))
    assert machine.agent("log", "d1", "--run", "1").out == "attempt 3\n"
    assert (
        machine.agent("log", "d1", "--run", "0").out == f"attempt {earlier.KEPT + 3}\n"
    )


def test_process_left_by_an_earlier_run_cannot_write_into_its_kept_output(
    machine: Machine,
) -> None:
    """A process that goes on writes to a file that nobody keeps, so that no secret comes into the masked output."""
    gate = machine.folder / "gate"
    left = f'(while [ ! -e {gate} ]; do sleep 0.02; done; echo "$token"; touch {gate}.done) &\n'
    machine.apply([deployment(config=f"{SH}echo begun\n{left}", inputs=secret(SECRET))])
    repeat(
        machine,
        [
            deployment(
                config=f"{SH}touch {gate}; while [ ! -e {gate}.done ]; do sleep 0.02; done\n"
            )
        ],
    )

    assert machine.agent("log", "d1", "--run", "1").out == "begun\n"
    assert SECRET.encode() not in everything_below(machine.state / "runs")


def test_earlier_runs_are_forgotten_with_their_deployment(machine: Machine) -> None:
    """`forget` removes the output of all runs."""
    machine.apply([deployment(config=f"{SH}echo first\n")])
    repeat(machine, [deployment(config=f"{SH}echo second\n")])

    assert machine.agent("forget", "--yes", "d1").code == 0
    assert not (machine.state / "runs" / "d1").exists()


def test_pruning_removes_earlier_runs(machine: Machine) -> None:
    """The earlier runs count for `keep_size`, and go with the output of the last one."""
    machine.apply([deployment(config=f"{SH}head -c 300000 /dev/zero | tr '\\0' x\n")])
    repeat(machine, [deployment(config=f"{SH}echo small\n")])
    machine.write({"agent": {}}, "none.json")
    settings = machine.folder / "small.conf"
    settings.write_text("[agent]\nkeep_size = 200K\n")

    assert machine.agent("prune", "--config", str(settings)).code == 0

    assert not (machine.state / "runs" / "d1").exists()


@pytest.mark.parametrize(
    "started", ["1" + "0" * 400, "1e300", "-1e300", "NaN", "Infinity", "true", '"x"']
)
def test_damaged_facts_of_an_earlier_run_are_left_out(
    machine: Machine, started: str
) -> None:
    """A command may have written anything there; the output is printed, and the run is listed without its time."""
    machine.apply([deployment(config=f"{SH}echo first\n")])
    repeat(machine, [deployment(config=f"{SH}echo second\n")])
    about = machine.state / "runs" / "d1" / run_folder.EARLIER / "1" / "run.json"
    facts = json.loads(about.read_text())
    about.write_text(json.dumps({**facts, "started": None}).replace("null", started, 1))

    shown = machine.agent("show", "d1", "--json").data

    assert [run["started"] is None for run in shown["runs"]] == [True, False]
    assert machine.agent("show", "d1").code == 0
    assert machine.agent("log", "d1", "--run", "1").out == "first\n"


@pytest.fixture
def entry_of_d1(machine: Machine) -> Entry:
    """Return the entry of a deployment that has printed a secret."""
    machine.apply([deployment(config=PRINTS, inputs=secret(SECRET))])
    return journal.read(machine.state)["d1"]


def test_output_whose_secrets_are_not_known_is_not_kept(
    machine: Machine, entry_of_d1: Entry
) -> None:
    """Without the document of the run nothing can be masked: its output is removed, and its list says that it ran."""
    folder = machine.state / "runs" / "d1"

    earlier.keep(folder, entry_of_d1, None, 0)

    assert [each.number for each in earlier.listed(folder)] == [1]
    assert {path.name for path in (folder / run_folder.EARLIER / "1").iterdir()} == {
        "run.json"
    }
    done = machine.agent("log", "d1", "--run", "1")
    assert done.code == 1
    assert (
        "the output of run 1 of d1 is not kept: the secrets in it were not known"
        in done.err
    )


def test_output_is_kept_once_though_that_was_interrupted(
    machine: Machine, entry_of_d1: Entry
) -> None:
    """A kill between two files leaves nothing that the next try does not complete."""
    from heat_config_agent.deployments import plan  # noqa: PLC0415  # for this test alone

    folder, ran = machine.state / "runs" / "d1", plan.deployment_of(entry_of_d1)
    with (
        mock.patch.object(files, "remove"),
        mock.patch.object(files, "replace", side_effect=KeyboardInterrupt),
        pytest.raises(KeyboardInterrupt),
    ):
        earlier.keep(folder, entry_of_d1, ran, 0)
    assert earlier.listed(folder) == []

    earlier.keep(folder, entry_of_d1, ran, 0)
    earlier.keep(folder, entry_of_d1, ran, 0)

    assert [each.number for each in earlier.listed(folder)] == [1]
    assert HIDDEN.encode() not in everything_below(folder)
    assert (
        folder / run_folder.EARLIER / "1" / "stdout"
    ).read_text() == f"the token is {'*' * len(SECRET)}\n"


def test_earlier_runs_take_no_more_than_one(
    machine: Machine, entry_of_d1: Entry
) -> None:
    """All earlier runs together take the space that `output_limit` gives to one, of which the newest is kept."""
    from heat_config_agent.deployments import plan  # noqa: PLC0415  # for this test alone

    folder, ran = machine.state / "runs" / "d1", plan.deployment_of(entry_of_d1)
    for sign in "abc":
        (folder / "stdout").write_text(sign * 3_000_000)
        earlier.keep(folder, entry_of_d1, ran, 4 * 1024 * 1024)

    assert [each.number for each in earlier.listed(folder)] == [3]
    assert (folder / run_folder.EARLIER / "3" / "stdout").read_text()[:1] == "c"


def test_runs_of_all_actions_of_a_resource_are_listed(machine: Machine) -> None:
    """A resource of a stack has the runs of its actions, with the one that failed before it was repeated."""
    template = {
        "heat_template_version": "2018-08-31",
        "parameters": {
            "ok": {"type": "string", "default": "no"},
            "word": {"type": "string", "hidden": True},
        },
        "resources": {
            "server": {
                "type": "OS::Nova::Server",
                "properties": {"image": "x", "flavor": "y"},
            },
            "config": {
                "type": "OS::Heat::SoftwareConfig",
                "properties": {
                    "group": "script",
                    "inputs": [{"name": "ok"}, {"name": "word"}],
                    "config": f"{SH}echo $deploy_action $word; [ $ok = yes ]\n",
                },
            },
            "app": {
                "type": "OS::Heat::SoftwareDeployment",
                "properties": {
                    "config": {"get_resource": "config"},
                    "server": {"get_resource": "server"},
                    "input_values": {
                        "ok": {"get_param": "ok"},
                        "word": {"get_param": "word"},
                    },
                },
            },
        },
    }
    path = machine.write(template, "shop.json")
    for words in (
        ["word=" + SECRET],
        ["ok=yes", "word=" + SECRET],
        ["ok=yes", "word=copper-Lantern-2210"],
    ):
        given = [text for each in words for text in ("--parameter", each)]
        machine.command(
            "heat-config-apply",
            [str(path), "--state-dir", str(machine.state), *given],
            {},
        )

    runs = machine.agent("show", "shop/app", "--json").data["runs"]
    printed = [
        machine.agent("log", "shop/app", "--run", str(each["run"])) for each in runs
    ]

    assert [(each["action"], each["state"]) for each in runs] == [
        ("CREATE", "failed"),
        ("CREATE", "ok"),
        ("UPDATE", "ok"),
    ]
    assert [each.out for each in printed] == [
        "CREATE ***\n",
        "CREATE ***\n",
        "UPDATE ***\n",
    ]
    assert SECRET not in json.dumps([each.err for each in printed])
